//! Governors of regions beside synthetic regions: what they lose against all threads and against an oracle, and how fast they answer.

use proptest::prelude::*;
use tanada_policy::{
    Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Waiting,
    governors::regions::{self, Settings},
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
}

fn draw(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
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
            let decision = governor.enter(&entry);
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
            governor.leave(&Outcome {
                region: RegionId(region as u32),
                decision,
                time,
                iterations: (how.known <= 1).then_some(law.iterations),
                preempted: None,
                neighbours: Some(f64::from(neighbours)),
                now,
            });
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

#[test]
fn explore() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    for (name, site) in [("phi", PHI), ("pair", PAIR), ("eight", EIGHT)] {
        for known in [0u8, 2] {
            for noise in [0.0, 0.05, 0.3] {
                for invocations in [20u64, 400] {
                    let mut runner = TestRunner::deterministic();
                    let (mut worst, mut regret, mut gain, mut most) = (0f64, 0f64, 0f64, 0f64);
                    let mut bad = None;
                    let mut far = vec![];
                    for case in 0..60u64 {
                        let laws: Vec<Law> = (0..3)
                            .map(|_| any_law(site).new_tree(&mut runner).unwrap().current())
                            .collect();
                        let how = How {
                            invocations,
                            noise,
                            known,
                            seed: case,
                        };
                        let mut governor = predict(&site);
                        let run = run(&site, governor.as_mut(), 3, how, |_, region| {
                            (laws[region].clone(), 0)
                        });
                        if run.ours / run.all > worst {
                            worst = run.ours / run.all;
                            bad = Some((
                                laws.clone(),
                                (0..3)
                                    .map(|r| governor.why(RegionId(r)).to_string())
                                    .collect::<Vec<_>>(),
                            ));
                        }
                        regret += run.ours / run.best / 60.0;
                        gain += run.all / run.best / 60.0;
                        if run.ours / run.best > most {
                            most = run.ours / run.best;
                            let all: Vec<String> = (0..3)
                                .map(|r| {
                                    let b = best_of(&laws[r], &site);
                                    format!(
                                        "{:?} best {:.0} {b:?} all {:.0}; {}",
                                        laws[r],
                                        laws[r].best(&site, 0),
                                        laws[r].time(Decision::full(site.all()), 0, &site),
                                        governor.why(RegionId(r as u32))
                                    )
                                })
                                .collect();
                            far = all;
                        }
                    }
                    println!(
                        "{name} known {known} noise {noise} inv {invocations}: worst vs all {worst:.4}, vs best mean {regret:.3} max {most:.3}; all vs best {gain:.3}"
                    );
                    if worst > 1.01 {
                        println!("   {bad:?}");
                    }
                    if most > 1.3 && invocations == 400 {
                        for l in &far {
                            println!("      {l}");
                        }
                    }
                }
            }
        }
    }
}

fn best_of(law: &Law, site: &RegionSite) -> Shape {
    let mut best = (f64::INFINITY, site.all());
    for cores in 1..=site.cores {
        for threads_per_core in 1..=site.threads_per_core {
            let shape = Shape {
                cores,
                threads_per_core,
            };
            let t = law.time(Decision::full(shape), 0, site);
            if t < best.0 {
                best = (t, shape);
            }
        }
    }
    best.1
}
