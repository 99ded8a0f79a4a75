//! Governors of regions beside synthetic regions: what they lose against all threads and against an oracle, and how fast they answer.

use proptest::prelude::*;
use tanada_policy::{
    Decision, Entry, Outcome, Passed, RegionGovernor, RegionId, RegionSite, Shape, Silence,
    Waiting,
    governors::regions::{self, Profile, Settings},
};

const PHI: RegionSite = RegionSite {
    cores: 60,
    threads_per_core: 4,
    quota: f64::INFINITY,
    microsecond: 1000.0,
};

const PAIR: RegionSite = RegionSite {
    cores: 2,
    threads_per_core: 1,
    ..PHI
};

const EIGHT: RegionSite = RegionSite {
    cores: 4,
    threads_per_core: 2,
    ..PHI
};

/// How long a region takes: rounds of iterations, siblings that disturb each other, a memory that serves so many threads, parts that do not
/// scale, a barrier.
#[derive(Clone, Debug)]
struct Law {
    iterations: u64,
    /// Nanoseconds of an iteration of a thread that is alone.
    iteration: f64,
    /// The time of an iteration grows with this power of the threads on a core.
    siblings: f64,
    /// Threads that the memory serves at full speed.
    served: f64,
    /// Nanoseconds of the part that one thread does.
    serial: f64,
    /// Nanoseconds that each further thread costs: barriers, false sharing.
    each: f64,
}

impl Law {
    fn time(&self, decision: Decision, neighbours: u32, site: &RegionSite) -> f64 {
        let threads = f64::from(decision.threads);
        let busy = threads.min(self.iterations as f64);
        let per_core = (threads / f64::from(decision.shape.cores)).min(busy);
        let rounds = (self.iterations as f64 / threads).ceil();
        let slower = per_core.powf(self.siblings) * (busy / self.served).max(1.0);
        let alone = self.serial + rounds * self.iteration * slower + self.each * (threads - 1.0);
        // Neighbours take their part of the hardware threads; a team that spins for a member that does not run loses time slices.
        let hardware = f64::from(site.all().threads());
        let over = (threads + f64::from(neighbours) - hardware).max(0.0);
        let share = 1.0 + over / hardware;
        match decision.waiting {
            Waiting::Sleep(_) => alone * share + if over > 0.0 { 5_000.0 } else { 20_000.0 },
            _ => alone * if over > 0.0 { 1.0 + 1.8 * share } else { 1.0 },
        }
    }

    fn best(&self, site: &RegionSite, neighbours: u32) -> f64 {
        let mut best = f64::INFINITY;
        for cores in 1..=site.cores {
            for threads_per_core in 1..=site.threads_per_core {
                let shape = Shape {
                    cores,
                    threads_per_core,
                };
                for waiting in [Waiting::AsIs, Waiting::Sleep(0)] {
                    let decision = Decision {
                        waiting,
                        ..Decision::full(shape)
                    };
                    best = best.min(self.time(decision, neighbours, site));
                }
            }
        }
        best
    }
}

fn any_law(site: RegionSite) -> impl Strategy<Value = Law> {
    let threads = f64::from(site.all().threads());
    let iterations = prop_oneof![16..600u64, 600..100_000u64];
    let total = 4.0..8.0f64; // powers of ten, in nanoseconds for one thread
    (
        iterations,
        total,
        0.0..1.2f64,
        (0.2..2.0f64).prop_map(move |part| (threads * part).max(1.0)),
        0.0..0.05f64,
        prop_oneof![Just(0.0), 0.0..2e-2f64],
    )
        .prop_map(|(iterations, total, siblings, served, serial, each)| {
            let total = 10f64.powf(total);
            Law {
                iterations,
                iteration: total / iterations as f64,
                siblings,
                served,
                serial: serial * total / 10.0,
                each: each * total / 20.0,
            }
        })
}

/// What a run took, as expected values: noise is what the governor sees, and is not counted.
#[derive(Debug, Default)]
struct Run {
    ours: f64,
    all: f64,
    best: f64,
    /// Invocations whose expected time was more than 5% above the best.
    poor: Vec<u64>,
    /// Invocations that the governor was not asked about.
    silent: u64,
}

/// The circumstances of a run.
#[derive(Clone, Copy, Debug)]
struct How {
    invocations: u64,
    /// Relative noise of the clock.
    noise: f64,
    /// Whether the engine knows iterations: at the entry, at the end, not at all.
    known: u8,
    seed: u64,
    /// Whether the engine leaves invocations out that the governor need not see.
    silent: bool,
}

fn draw(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Invocations of a region that the engine does not ask about.
struct Quiet {
    silence: Silence,
    entry: Entry,
    decision: Decision,
    /// Those that have run since the governor allowed it, those until one is measured, whether the last one of these took another time than
    /// usual, and what the governor has not been told of.
    run: u32,
    until: u32,
    doubtful: bool,
    passed: Passed,
}

impl Quiet {
    fn new(silence: Silence, entry: Entry, decision: Decision) -> Quiet {
        Quiet {
            silence,
            entry,
            decision,
            run: 0,
            until: silence.each,
            doubtful: false,
            passed: Passed {
                region: entry.region,
                count: 0,
                measured: 0,
                time: 0,
            },
        }
    }

    /// Returns how the next invocation runs, if it is one of these.
    fn next(&self, entry: &Entry) -> Option<Decision> {
        let now = self.entry.now;
        let same = Entry { now, ..*entry } == self.entry;
        (same && self.run < self.silence.invocations).then_some(self.decision)
    }

    fn ran(&mut self, time: u64) {
        self.run += 1;
        self.passed.count += 1;
        self.until -= 1;
        if self.until > 0 {
            return;
        }
        let (least, most) = self.silence.times;
        let far = !(least..=most).contains(&time);
        if far && self.doubtful {
            self.run = u32::MAX;
            return;
        }
        self.doubtful = far;
        self.until = if far { 1 } else { self.silence.each };
        self.passed.measured += 1;
        self.passed.time += time.clamp(least, most);
    }

    fn tell(&mut self, governor: &mut dyn RegionGovernor) {
        if self.passed.count > 0 {
            governor.passed(&self.passed);
            (self.passed.count, self.passed.measured, self.passed.time) = (0, 0, 0);
        }
    }
}

/// Runs regions in turn. `at` returns the law of a region at an invocation, and the neighbours then.
fn run(
    site: &RegionSite,
    governor: &mut dyn RegionGovernor,
    regions: usize,
    how: How,
    at: impl Fn(u64, usize) -> (Law, u32),
) -> Run {
    let mut run = Run::default();
    let (mut now, mut state) = (0u64, how.seed);
    let asked = site.all().threads();
    let mut quiet: Vec<Option<Quiet>> = (0..regions).map(|_| None).collect();
    let mut before = None;
    for invocation in 0..how.invocations {
        for region in 0..regions {
            let (law, neighbours) = at(invocation, region);
            let entry = Entry {
                region: RegionId(region as u32),
                asked,
                iterations: (how.known == 0).then_some(law.iterations),
                neighbours: Some(f64::from(neighbours)),
                now,
            };
            let passes = quiet[region].as_ref().and_then(|quiet| quiet.next(&entry));
            let decision = match passes {
                Some(decision) => decision,
                None => {
                    let of = [Some(region), before.take()].into_iter().flatten();
                    for of in of {
                        if let Some(quiet) = &mut quiet[of] {
                            quiet.tell(governor);
                        }
                    }
                    quiet[region] = None;
                    governor.enter(&entry)
                }
            };
            let expected = law.time(decision, neighbours, site);
            // Mostly small, sometimes an interruption.
            let noise = 1.0
                + how.noise * draw(&mut state)
                + if draw(&mut state) < 0.02 {
                    how.noise * 20.0 * draw(&mut state)
                } else {
                    0.0
                };
            // The first invocation finds cold caches.
            let cold = if invocation == 0 { 1.5 } else { 1.0 };
            let time = (expected * noise * cold) as u64;
            now += time;
            match &mut quiet[region] {
                Some(quiet) => {
                    quiet.ran(time);
                    run.silent += 1;
                    before = Some(region);
                }
                None => {
                    governor.leave(&Outcome {
                        region: RegionId(region as u32),
                        decision,
                        time,
                        iterations: (how.known <= 1).then_some(law.iterations),
                        idle: None,
                        neighbours: Some(f64::from(neighbours)),
                        now,
                    });
                    let silence = governor.silence(RegionId(region as u32));
                    quiet[region] = silence
                        .filter(|_| how.silent)
                        .map(|silence| Quiet::new(silence, entry, decision));
                }
            }
            let best = law.best(site, neighbours);
            run.ours += expected;
            run.best += best;
            run.all += law.time(Decision::full(site.all()), neighbours, site);
            if expected > best * 1.05 {
                run.poor.push(invocation);
            }
        }
    }
    run
}

fn predict(site: &RegionSite) -> Box<dyn RegionGovernor> {
    (regions::find("predict").expect("it is there").make)(site, &Settings::default())
}

/// Returns regions and circumstances that follow from `state`.
fn any_case(site: RegionSite) -> impl Strategy<Value = (Vec<Law>, How)> {
    let how = (
        20..400u64,
        0.0..0.15f64,
        0..3u8,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(invocations, noise, known, seed, silent)| How {
            invocations,
            noise,
            known,
            seed,
            silent,
        });
    (prop::collection::vec(any_law(site), 1..4), how)
}

fn any_site() -> impl Strategy<Value = RegionSite> {
    prop::sample::select(vec![PHI, PAIR, EIGHT])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_run_is_never_worse_than_with_all_threads_by_more_than_a_percent(
        (site, (laws, how)) in any_site().prop_flat_map(|site| (Just(site), any_case(site)))
    ) {
        let mut governor = predict(&site);
        let run = run(&site, governor.as_mut(), laws.len(), how, |_, region| (laws[region].clone(), 0));
        let why: Vec<String> = (0..laws.len()).map(|region| governor.why(RegionId(region as u32)).to_string()).collect();
        prop_assert!(run.ours <= run.all * 1.01, "{:.4} {why:?}", run.ours / run.all);
    }

    #[test]
    fn no_team_is_larger_than_asked_or_than_the_quota((laws, how) in any_case(PHI), quota in 1.0..300.0f64) {
        let site = RegionSite { quota, ..PHI };
        let mut governor = predict(&site);
        for invocation in 0..how.invocations {
            let law = &laws[invocation as usize % laws.len()];
            let entry = Entry {
                region: RegionId(0),
                asked: 200,
                iterations: Some(law.iterations),
                neighbours: None,
                now: 0,
            };
            let decision = governor.enter(&entry);
            prop_assert!(decision.threads <= (quota as u32).clamp(1, 200), "{decision:?}");
            governor.leave(&outcome(0, decision, law.time(decision, 0, &site) as u64, Some(law.iterations), None));
        }
    }
}

fn outcome(
    region: u32,
    decision: Decision,
    time: u64,
    iterations: Option<u64>,
    neighbours: Option<f64>,
) -> Outcome {
    Outcome {
        region: RegionId(region),
        decision,
        time,
        iterations,
        idle: None,
        neighbours,
        now: 0,
    }
}

/// Returns means over random programs: predicted over best, all threads over best.
fn regret(site: RegionSite, known: u8, noise: f64) -> (f64, f64) {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut ours, mut all) = (0.0, 0.0);
    const CASES: u64 = 40;
    for seed in 0..CASES {
        let law = any_law(site)
            .new_tree(&mut runner)
            .expect("a law")
            .current();
        let how = How {
            invocations: 1500,
            noise,
            known,
            seed,
            silent: seed % 2 == 1,
        };
        let run = run(&site, predict(&site).as_mut(), 1, how, |_, _| {
            (law.clone(), 0)
        });
        ours += run.ours / run.best / CASES as f64;
        all += run.all / run.best / CASES as f64;
    }
    (ours, all)
}

#[test]
fn most_of_what_an_oracle_wins_is_won() {
    for (site, known, noise, least) in [
        (PHI, 0, 0.0, 0.8),
        (PHI, 2, 0.0, 0.8),
        (PHI, 0, 0.05, 0.75),
        (EIGHT, 0, 0.05, 0.5),
    ] {
        let (ours, all) = regret(site, known, noise);
        let won = (all - ours) / (all - 1.0);
        assert!(
            won > least,
            "{site:?} known {known} noise {noise}: {ours:.3} of {all:.3}, {won:.2}"
        );
    }
}

/// A region that is faster on one thread: lock-step lines that two caches fight for.
fn serial() -> Law {
    Law {
        iterations: 1000,
        iteration: 500.0,
        siblings: 0.0,
        served: 8.0,
        serial: 0.0,
        each: 400_000.0,
    }
}

fn parallel() -> Law {
    Law {
        each: 0.0,
        ..serial()
    }
}

/// Returns how many of the 40 invocations from `from` on were poor.
fn poor(run: &Run, from: u64) -> usize {
    run.poor
        .iter()
        .filter(|&&at| (from..from + 40).contains(&at))
        .count()
}

#[test]
fn changes_are_answered_within_twenty_invocations() {
    for noise in [0.0, 0.05] {
        for (known, silent) in [(0, false), (0, true), (2, false), (2, true)] {
            let how = How {
                invocations: 1200,
                noise,
                known,
                seed: 9,
                silent,
            };
            // All threads become slower than one.
            let at = |invocation: u64, _| match invocation {
                500.. => (serial(), 0),
                _ => (parallel(), 0),
            };
            let one = run(&PAIR, predict(&PAIR).as_mut(), 1, how, at);
            // Most of what is held before the change.
            assert_eq!(one.silent > 300, silent, "{known} {noise} {}", one.silent);
            assert!(poor(&one, 500) <= 20, "{known} {noise} {:?}", one.poor);
            // The work of a region that was too small for two threads grows fifty-fold.
            let grown = |invocation: u64, _| {
                let iteration = if invocation < 500 { 10.0 } else { 500.0 };
                let each = 100_000.0;
                (
                    Law {
                        iteration,
                        each,
                        ..serial()
                    },
                    0,
                )
            };
            let one = run(&PAIR, predict(&PAIR).as_mut(), 1, how, grown);
            assert!(
                poor(&one, 400) + poor(&one, 440) <= 4,
                "{known} {noise} {:?}",
                one.poor
            );
            assert!(poor(&one, 500) <= 20, "{known} {noise} {:?}", one.poor);
            // A neighbour comes and goes.
            let beside =
                |invocation: u64, _| (parallel(), u32::from((500..800).contains(&invocation)));
            let one = run(&PAIR, predict(&PAIR).as_mut(), 1, how, beside);
            assert!(
                poor(&one, 500) <= 20 && poor(&one, 800) <= 20,
                "{known} {noise} {:?}",
                one.poor
            );
        }
    }
}

#[test]
fn a_serial_region_runs_on_one_thread_and_short_ones_are_left_alone() {
    let how = How {
        invocations: 2000,
        noise: 0.05,
        known: 2,
        seed: 4,
        silent: true,
    };
    let mut governor = predict(&PAIR);
    let laws = [
        serial(),
        parallel(),
        Law {
            iteration: 1.0,
            ..parallel()
        },
    ];
    let run = run(&PAIR, governor.as_mut(), 3, how, |_, region| {
        (laws[region].clone(), 0)
    });
    let enter = |region| Entry {
        region: RegionId(region),
        asked: 2,
        iterations: None,
        neighbours: Some(0.0),
        now: 0,
    };
    let threads: Vec<u32> = (0..3)
        .map(|region| governor.enter(&enter(region)).threads)
        .collect();
    assert_eq!(threads, [1, 2, 2]);
    assert!(
        run.ours < run.all * 0.9 && run.ours < run.best * 1.03,
        "{} {} {}",
        run.ours,
        run.all,
        run.best
    );
    assert!(governor.confidence(RegionId(0)) > 0.5);
}

#[test]
fn a_profile_makes_the_next_run_begin_decided() {
    let how = How {
        invocations: 600,
        noise: 0.02,
        known: 0,
        seed: 5,
        silent: false,
    };
    let mut profile = Profile::default();
    let mut first = predict(&PAIR);
    let entry = |iterations| Entry {
        region: RegionId(0),
        asked: 2,
        iterations: Some(iterations),
        neighbours: None,
        now: 0,
    };
    for _ in 0..how.invocations {
        let decision = first.enter(&entry(1000));
        let end = outcome(
            0,
            decision,
            serial().time(decision, 0, &PAIR) as u64,
            Some(1000),
            None,
        );
        profile.add(&end);
        first.leave(&end);
    }
    let settings = Settings {
        profile: profile.to_string().parse().expect("its own text"),
        ..Settings::default()
    };
    for name in ["predict", "oracle"] {
        let mut next = (regions::find(name).expect("it is there").make)(&PAIR, &settings);
        assert_eq!(next.enter(&entry(1000)).threads, 1, "{name}");
    }
}
