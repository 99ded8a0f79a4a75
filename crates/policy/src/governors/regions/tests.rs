//! What all governors of regions have in common.

use super::*;
use crate::{Entry as Enter, Outcome, RegionId};

const PHI: RegionSite = RegionSite {
    cores: 60,
    threads_per_core: 4,
    quota: f64::INFINITY,
    microsecond: 1050.0,
};

fn enter(asked: u32, iterations: Option<u64>) -> Enter {
    Enter {
        region: RegionId(0),
        asked,
        iterations,
        neighbours: None,
        now: 0,
    }
}

fn left(decision: Decision, time: u64, iterations: Option<u64>) -> Outcome {
    Outcome {
        region: RegionId(0),
        decision,
        time,
        iterations,
        idle: None,
        neighbours: None,
        now: time,
    }
}

#[test]
fn names_are_unique_and_a_wrong_one_is_answered_with_them() {
    for (i, entry) in ALL.iter().enumerate() {
        assert!(ALL[..i].iter().all(|other| other.name != entry.name));
        assert_eq!(find(entry.name).expect("it is there").name, entry.name);
    }
    let text = find("predicts").unwrap_err().to_string();
    assert!(ALL.iter().all(|entry| text.contains(entry.name)), "{text}");
}

#[test]
fn every_governor_begins_with_what_is_asked_and_never_exceeds_it() {
    for entry in ALL {
        let mut governor = (entry.make)(&PHI, &Settings::default());
        for asked in [240, 240, 240, 7, 1, 240] {
            let decision = governor.enter(&enter(asked, Some(256)));
            assert!(decision.threads <= asked, "{}", entry.name);
            assert!(decision.threads <= decision.shape.threads());
            governor.leave(&left(decision, 1_000_000, Some(256)));
        }
        let fresh = (entry.make)(&PHI, &Settings::default()).enter(&enter(240, None));
        assert_eq!(fresh.threads, 240, "{}", entry.name);
        assert_eq!(fresh.shape.to_string(), "60x4");
    }
}

#[test]
fn no_team_of_a_governor_that_decides_is_larger_than_the_quota() {
    let site = RegionSite { quota: 16.5, ..PHI };
    for name in ["probe", "predict"] {
        let mut governor = (find(name).expect("it is there").make)(&site, &Settings::default());
        for _ in 0..300 {
            let decision = governor.enter(&enter(240, Some(1000)));
            assert!(decision.threads <= 16, "{name}: {decision:?}");
            // Work that larger teams do faster.
            let time = 1_000_000_000 / u64::from(decision.threads);
            governor.leave(&left(decision, time, Some(1000)));
        }
    }
}

#[test]
fn a_fixed_shape_holds_for_all_regions() {
    let shape = Shape {
        cores: 54,
        threads_per_core: 2,
    };
    let settings = Settings {
        fixed: Some((shape, Waiting::Delay(1000))),
        ..Settings::default()
    };
    let mut fixed = (find("fixed").expect("it is there").make)(&PHI, &settings);
    let decision = fixed.enter(&enter(240, None));
    assert_eq!((decision.shape, decision.threads), (shape, 108));
    assert_eq!(decision.waiting, Waiting::Delay(1000));
    assert_eq!(fixed.enter(&enter(100, None)).threads, 100);
}

#[test]
fn a_profile_is_read_back_and_the_oracle_takes_its_best() {
    let mut profile = Profile::default();
    let shape = |cores, threads_per_core| Shape {
        cores,
        threads_per_core,
    };
    let slow = Decision::full(shape(60, 4));
    let fast = Decision {
        waiting: Waiting::Sleep(7),
        ..Decision::full(shape(43, 3))
    };
    for time in [100, 300] {
        profile.add(&left(slow, time, Some(256)));
        profile.add(&left(fast, time / 2, Some(256)));
        profile.add(&left(slow, 10, None));
    }
    let again: Profile = profile.to_string().parse().expect("its own text");
    assert_eq!(again, profile);
    assert_eq!(profile.measured[0].mean, 200.0);
    let settings = Settings {
        profile,
        ..Settings::default()
    };
    let mut oracle = (find("oracle").expect("it is there").make)(&PHI, &settings);
    assert_eq!(oracle.enter(&enter(240, Some(256))), fast);
    // Another class: what is known without iterations; a program that asks for less than the best is left alone.
    assert_eq!(oracle.enter(&enter(240, Some(9))), slow);
    assert_eq!(oracle.enter(&enter(100, Some(256))).threads, 100);
    let wrong = "region 0 iterations 5 shape 2x2 threads 9 waiting spin count 1 mean 2";
    assert_eq!(
        wrong.parse::<Profile>().unwrap_err(),
        ProfileError { line: 1 }
    );
}

#[test]
fn large_classes_have_five_bits() {
    assert_eq!(Class::of(Some(102)), Class(Some(102)));
    assert_eq!(Class::of(Some(75_000)), Class(Some(73_728)));
    assert_eq!(Class::of(None), Class(None));
}

/// Two cores, and one region whose time a test decides.
struct Two {
    governor: Box<dyn RegionGovernor>,
}

impl Two {
    const SITE: RegionSite = RegionSite {
        cores: 2,
        threads_per_core: 1,
        quota: f64::INFINITY,
        microsecond: 1000.0,
    };

    fn new() -> Two {
        Two {
            governor: (find("predict").expect("it is there").make)(
                &Two::SITE,
                &Settings::default(),
            ),
        }
    }

    /// Runs invocations of `micro(team)` microseconds. Returns the sizes of their teams.
    fn run(
        &mut self,
        invocations: usize,
        neighbours: f64,
        micro: impl Fn(&Decision) -> u64,
    ) -> Vec<u32> {
        let one = |_| {
            let entry = Enter {
                neighbours: Some(neighbours),
                ..enter(2, None)
            };
            let decision = self.governor.enter(&entry);
            let outcome = Outcome {
                neighbours: Some(neighbours),
                ..left(decision, micro(&decision) * 1000, None)
            };
            self.governor.leave(&outcome);
            decision.threads
        };
        (0..invocations).map(one).collect()
    }
}

#[test]
fn a_change_is_answered_within_twenty_invocations() {
    let mut two = Two::new();
    let quiet = two.run(300, 0.0, |team| if team.threads == 2 { 500 } else { 900 });
    assert!(quiet.iter().filter(|&&threads| threads == 2).count() > 280);
    // Members wait for one that has no processor, and nobody has looked for neighbours yet.
    let disturbed = two.run(40, 0.0, |team| if team.threads == 2 { 5000 } else { 900 });
    assert!(
        disturbed[20..].iter().all(|&threads| threads == 1),
        "{disturbed:?}"
    );
    // And back: two threads are tried again now and then.
    let again = two.run(2000, 0.0, |team| if team.threads == 2 { 500 } else { 900 });
    assert!(
        again[1000..].iter().all(|&threads| threads == 2),
        "{again:?}"
    );
}

#[test]
fn beside_a_neighbour_a_terrible_team_is_tried_once_in_a_while() {
    let mut two = Two::new();
    let sleeping = |team: &Decision| if team.threads == 2 { 14_000 } else { 400 };
    let sizes = two.run(1000, 1.0, sleeping);
    // Of all threads sleeping, of all threads as they are, and not again for 2% of the time.
    assert!(
        sizes.iter().filter(|&&threads| threads == 2).count() <= 3,
        "{sizes:?}"
    );
    // The neighbour goes: all threads at the next invocation.
    assert_eq!(two.run(1, 0.0, |_| 200), [2]);
    // It comes again: what was learnt is still there.
    assert_eq!(two.run(5, 1.0, sleeping), [1; 5]);
}

/// Four threads on two hardware threads; `idle` is what stands idle with a team of so many.
fn largest_of_four(idle: impl Fn(u32) -> f64) -> u32 {
    let make = find("predict").expect("it is there").make;
    let mut governor = make(&Two::SITE, &Settings::default());
    let one = |_| {
        let decision = governor.enter(&enter(4, None));
        // Half of the work is sleep, which larger teams do at the same time.
        let time = 4_000_000 / u64::from(decision.threads);
        governor.leave(&Outcome {
            idle: Some(idle(decision.threads)),
            ..left(decision, time, None)
        });
        decision.threads
    };
    (0..2000).map(one).max().unwrap_or(0)
}

#[test]
fn more_threads_than_hardware_threads_are_tried_if_a_thread_alone_sleeps() {
    assert_eq!(largest_of_four(|_| 0.5), 4);
    // Both members shared a hardware thread, or slept at a barrier.
    assert_eq!(
        largest_of_four(|threads| if threads == 1 { 0.0 } else { 0.5 }),
        2
    );
    assert_eq!(largest_of_four(|_| 0.0), 2);
}
