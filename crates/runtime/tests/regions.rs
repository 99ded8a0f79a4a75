//! Regions: teams as the governor chooses them, and what the governor learns.

use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tanada_policy::{
    Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Waiting, Why, WorkerId,
    governors::regions,
};
use tanada_runtime::{BuildError, GraphError, Name, Pool, PoolBuilder, Schedule};
use tanada_topology::Topology;

/// What a [`Script`] was asked and told.
#[derive(Default)]
struct Notes {
    entries: Vec<Entry>,
    outcomes: Vec<Outcome>,
    site: Option<RegionSite>,
}

/// A governor that decides one after the other of a list, and then again.
struct Script(Vec<Decision>, Arc<Mutex<Notes>>);

impl RegionGovernor for Script {
    fn enter(&mut self, entry: &Entry) -> Decision {
        let mut notes = self.1.lock().expect("no panic");
        notes.entries.push(*entry);
        self.0[(notes.entries.len() - 1) % self.0.len()]
    }
    fn leave(&mut self, outcome: &Outcome) {
        self.1.lock().expect("no panic").outcomes.push(*outcome);
    }
    fn why(&self, region: RegionId) -> Why {
        Why {
            what: "as it is written",
            figures: vec![("region", f64::from(region.0))],
        }
    }
    fn confidence(&self, region: RegionId) -> f64 {
        1.0 / (1.0 + f64::from(region.0))
    }
}

fn team(cores: u16, threads_per_core: u16, threads: u32) -> Decision {
    Decision {
        shape: Shape {
            cores,
            threads_per_core,
        },
        threads,
        waiting: Waiting::AsIs,
    }
}

fn machine() -> Topology {
    "l3:1 core:2 pu:2".parse().expect("a machine")
}

fn builder() -> PoolBuilder {
    Pool::builder().topology(machine()).workers(4)
}

fn scripted(decisions: &[Decision]) -> (Pool, Arc<Mutex<Notes>>) {
    let notes = Arc::new(Mutex::new(Notes::default()));
    let (decisions, seen) = (decisions.to_vec(), Arc::clone(&notes));
    let pool = builder().region_governor_with(move |site| {
        seen.lock().expect("no panic").site = Some(*site);
        Box::new(Script(decisions.clone(), Arc::clone(&seen)))
    });
    (pool.build().expect("a pool"), notes)
}

/// Runs `region` once and returns which workers were its members, in order.
fn members(pool: &Pool, region: &str) -> Vec<Option<WorkerId>> {
    let members = Mutex::new(Vec::new());
    let ran = pool.region(Name::intern(region)).run(7, |member| {
        let mut members = members.lock().expect("no panic");
        members.push((member.index(), member.count(), member.worker()));
    });
    ran.expect("a region");
    let mut members = members.into_inner().expect("no panic");
    members.sort();
    let count = members.len();
    let right = |(i, (index, of, _)): (usize, &(usize, usize, _))| i == *index && *of == count;
    assert!(members.iter().enumerate().all(right), "{members:?}");
    members.into_iter().map(|member| member.2).collect()
}

fn workers(numbers: &[u16]) -> Vec<Option<WorkerId>> {
    numbers
        .iter()
        .map(|&number| Some(WorkerId(number)))
        .collect()
}

#[test]
fn the_team_is_the_governors() {
    let decisions = [
        team(2, 2, 4),
        team(2, 1, 2),
        team(1, 2, 2),
        team(2, 2, 3),
        team(1, 1, 1),
        team(9, 9, 99),
    ];
    let (pool, notes) = scripted(&decisions);
    assert_eq!(members(&pool, "a"), workers(&[0, 1, 2, 3]));
    assert_eq!(members(&pool, "a"), workers(&[0, 2]), "one on each core");
    assert_eq!(members(&pool, "a"), workers(&[0, 1]), "both on one core");
    assert_eq!(members(&pool, "b"), workers(&[0, 1, 2]));
    assert_eq!(members(&pool, "a"), [None], "the calling thread");
    assert_eq!(members(&pool, "a"), workers(&[0, 1, 2, 3]), "all there are");
    let notes = notes.lock().expect("no panic");
    let site = notes.site.expect("it was made");
    assert_eq!((site.cores, site.threads_per_core), (2, 2));
    assert!(site.quota.is_infinite() && site.microsecond == 1000.0);
    let regions: Vec<u32> = notes.entries.iter().map(|entry| entry.region.0).collect();
    assert_eq!(regions, [0, 0, 0, 1, 0, 0]);
    for (entry, outcome) in notes.entries.iter().zip(&notes.outcomes) {
        assert_eq!((entry.asked, entry.iterations), (4, Some(7)));
        assert_eq!(
            (outcome.region, outcome.iterations),
            (entry.region, Some(7))
        );
        assert_eq!(outcome.now, entry.now + outcome.time);
    }
    let ran: Vec<u32> = notes
        .outcomes
        .iter()
        .map(|outcome| outcome.decision.threads)
        .collect();
    assert_eq!(ran, [4, 2, 2, 3, 1, 4]);
}

#[test]
fn a_task_is_a_member_of_its_team() {
    let (pool, _) = scripted(&[team(2, 1, 2), team(1, 1, 1), team(2, 2, 3)]);
    let pool = &pool;
    pool.scope(|s| {
        s.task("has regions").register(move |s| {
            let me = s.worker();
            let two = members(pool, "a");
            assert!(two[0] == me && two.len() == 2 && two[1] != me);
            assert_eq!(members(pool, "a"), [me]);
            assert_eq!(members(pool, "a")[0], me);
        });
    })
    .expect("a graph that ends");
}

#[test]
fn regions_inside_of_regions_run_on_their_thread_and_are_not_measured() {
    let (pool, notes) = scripted(&[team(2, 2, 4)]);
    let inner = AtomicUsize::new(0);
    let outer = pool.region("outer").run(None, |member| {
        let nested = pool.region("inner").run(None, |alone| {
            assert_eq!((alone.index(), alone.count()), (0, 1));
            assert_eq!(alone.worker(), member.worker());
            inner.fetch_add(1, Relaxed);
        });
        nested.expect("a region");
    });
    outer.expect("a region");
    assert_eq!(inner.into_inner(), 4);
    let notes = notes.lock().expect("no panic");
    assert_eq!((notes.entries.len(), notes.outcomes.len()), (1, 1));
}

#[test]
fn regions_of_several_threads_are_measured_one_at_a_time() {
    let (pool, notes) = scripted(&[team(1, 1, 1)]);
    let second = AtomicUsize::new(0);
    // The team of the first one is this thread, so all workers are free for the second one.
    let first = pool.region("first").run(None, |_| {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let region = pool.region("second").run(None, |_| {
                    second.fetch_add(1, Relaxed);
                });
                region.expect("a region");
            });
        });
    });
    first.expect("a region");
    assert_eq!(second.into_inner(), 4, "nothing was decided for it, so all");
    let notes = notes.lock().expect("no panic");
    assert_eq!((notes.entries.len(), notes.outcomes.len()), (1, 1));
}

#[test]
fn a_panic_reaches_the_caller_and_not_the_governor() {
    for decision in [team(2, 2, 4), team(1, 1, 1)] {
        let (pool, notes) = scripted(&[decision]);
        let region = pool.region("panics");
        let panics = || {
            region.run(None, |member| {
                assert_ne!(member.index(), 0, "the first one")
            })
        };
        let payload = catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
        let message = payload.downcast_ref::<String>().expect("a message");
        assert!(message.contains("the first one"), "{message}");
        region.run(None, |_| ()).expect("a region");
        let notes = notes.lock().expect("no panic");
        assert_eq!((notes.entries.len(), notes.outcomes.len()), (2, 1));
    }
}

#[test]
fn decisions_are_logged_when_they_change() {
    let sleepy = Decision {
        waiting: Waiting::Sleep(0),
        ..team(1, 1, 1)
    };
    let (pool, _) = scripted(&[team(2, 2, 4), team(2, 2, 4), sleepy, team(2, 2, 4)]);
    let [a, b] = ["a", "b"].map(|name| pool.region(name));
    for _ in 0..3 {
        a.run(None, |_| ()).expect("a region");
    }
    b.run(None, |_| ()).expect("a region");
    let log: Vec<String> = pool
        .region_decisions()
        .iter()
        .map(ToString::to_string)
        .collect();
    let ends = [
        " s  a #0: 4 threads (2x2): as it is written: region 0",
        " s  a #2: 1 thread (1x1), sleep after 0 ns: as it is written: region 0",
        " s  b #0: 4 threads (2x2): as it is written: region 1",
    ];
    assert_eq!(log.len(), ends.len(), "{log:?}");
    assert!(
        log.iter().zip(ends).all(|(line, end)| line.ends_with(end)),
        "{log:?}"
    );
    assert_eq!(b.why().to_string(), "as it is written: region 1");
    assert_eq!((a.confidence(), b.confidence()), (1.0, 0.5));
    let again = pool.region(String::from("b"));
    assert_eq!(
        (again.name().as_str(), again.confidence()),
        ("b", 0.5),
        "the same region"
    );
}

#[test]
fn members_wait_in_every_way() {
    for waiting in [
        Waiting::Spin,
        Waiting::Delay(100),
        Waiting::Sleep(0),
        Waiting::Sleep(5000),
    ] {
        let decision = Decision {
            waiting,
            ..team(2, 2, 4)
        };
        let (pool, _) = scripted(&[decision]);
        let parts = AtomicUsize::new(0);
        for _ in 0..50 {
            let region = pool.region("waits").run(None, |member| {
                if member.index() == 2 {
                    std::thread::sleep(Duration::from_micros(50));
                }
                parts.fetch_add(1, Relaxed);
            });
            region.expect("a region");
        }
        assert_eq!(parts.into_inner(), 200);
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    let error = builder()
        .region_governor("al")
        .build()
        .expect_err("no such name");
    assert!(matches!(error, BuildError::UnknownRegionGovernor(_)));
    assert!(
        error
            .to_string()
            .contains("all, fixed, oracle, probe, predict"),
        "{error}"
    );
}

#[test]
fn every_registered_governor_runs_regions() {
    for entry in regions::all() {
        let pool = builder()
            .region_governor(entry.name)
            .build()
            .expect("a pool");
        let sum = AtomicUsize::new(0);
        for round in 0..60 {
            let region = pool.region(["short", "long"][round % 2]);
            let each = region.for_each(0..64 * (1 + round % 2), Schedule::Dynamic(8), |i| {
                sum.fetch_add(i, Relaxed);
            });
            each.expect("a region");
            assert!((0.0..=1.0).contains(&region.confidence()), "{}", entry.name);
        }
        assert_eq!(
            sum.into_inner(),
            30 * (63 * 64 / 2 + 127 * 128 / 2),
            "{}",
            entry.name
        );
        assert!(!pool.region_decisions().is_empty());
    }
}

#[test]
fn a_governor_that_has_a_fixed_shape_is_made_by_the_user() {
    let settings = regions::Settings {
        fixed: Some((team(2, 1, 2).shape, Waiting::AsIs)),
        ..regions::Settings::default()
    };
    let entry = regions::find("fixed").expect("it is registered");
    let pool = builder().region_governor_with(move |site| (entry.make)(site, &settings));
    assert_eq!(
        members(&pool.build().expect("a pool"), "a"),
        workers(&[0, 2])
    );
}

#[test]
fn a_region_outlives_other_handles_of_its_pool() {
    let region = builder().build().expect("a pool").region("alone");
    region.run(None, |_| ()).expect("its pool lives");
    assert_eq!(region.run(None, |_| ()), Ok::<(), GraphError>(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_iteration_runs_once(
        start in prop_oneof![0_usize..1000, Just(usize::MAX - 500)],
        length in 0_usize..500,
        schedule in prop_oneof![Just(Schedule::Static), (0_usize..600).prop_map(Schedule::Dynamic), Just(Schedule::Dynamic(usize::MAX))],
        threads in 1_u32..5,
    ) {
        let (pool, notes) = scripted(&[team(2, 2, threads)]);
        let counts: Vec<AtomicU32> = (0..length).map(|_| AtomicU32::new(0)).collect();
        let each = pool.region("loop").for_each(start..start + length, schedule, |i| {
            counts[i - start].fetch_add(1, Relaxed);
        });
        prop_assert_eq!(each, Ok(()));
        prop_assert!(counts.into_iter().all(|count| count.into_inner() == 1));
        prop_assert_eq!(notes.lock().expect("no panic").entries[0].iterations, Some(length as u64));
    }
}
