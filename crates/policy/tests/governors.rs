//! What every governor promises whatever it is told: clocks that jump, counters that come and go, work that cannot be.

#![cfg(not(any(loom, shuttle)))]

use proptest::collection::vec;
use proptest::prelude::*;
use tanada_policy::{Activity, CacheUse, GovernorSite, Period, Plan, governors};

/// A number that a lying engine might report: small, usual, or as large as there are.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0),
        2 => 1..4_u64,
        8 => 1..100_000_u64,
        2 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

fn activity() -> impl Strategy<Value = Activity> {
    let cache = prop_oneof![
        1 => Just(None),
        3 => (any_number(), any_number())
            .prop_map(|(accesses, misses)| Some(CacheUse { accesses, misses })),
    ];
    (any_number(), any_number(), cache).prop_map(|(work, idle, cache)| Activity {
        work,
        idle,
        cache,
    })
}

/// What is the same for some calls in a row: so probes and parts can end.
#[derive(Clone, Debug)]
struct Stretch {
    time: u64,
    /// As many as the engine says, which need not be as many as there are.
    threads: Vec<Activity>,
    waiting: usize,
    calls: usize,
}

/// A stretch in which threads work, so that governors learn and probe.
fn honest() -> impl Strategy<Value = Stretch> {
    (1..4_u64, 0..5000_u64, 0..40_usize, 1..300_usize).prop_map(|(time, work, waiting, calls)| {
        let one = Activity {
            work,
            idle: 0,
            cache: None,
        };
        Stretch {
            time: time * 1000,
            threads: vec![one; 12],
            waiting,
            calls,
        }
    })
}

fn lying() -> impl Strategy<Value = Stretch> {
    let waiting = prop_oneof![
        2 => 0..4_usize,
        6 => 0..200_usize,
        1 => any::<usize>(),
        1 => Just(usize::MAX),
    ];
    let calls = prop_oneof![6 => 1..6_usize, 2 => 6..200_usize];
    (any_number(), vec(activity(), 0..12), waiting, calls).prop_map(
        |(time, threads, waiting, calls)| Stretch {
            time,
            threads,
            waiting,
            calls,
        },
    )
}

fn site() -> impl Strategy<Value = GovernorSite> {
    let threads = prop_oneof![1..9_usize, Just(10), Just(96), Just(1024)];
    let period = prop_oneof![
        Just(1_u64),
        Just(63),
        Just(64_000),
        any::<u64>().prop_map(|period| period.max(1)),
        Just(u64::MAX),
    ];
    let at_once = (1..=1024_usize, threads);
    (at_once, period).prop_map(|((at_once, threads), period)| GovernorSite {
        threads,
        at_once: at_once.min(threads),
        period,
    })
}

/// Calls a governor, and checks what it answers.
fn call(name: &str, site: &GovernorSite, stretches: &[Stretch]) -> Result<(), TestCaseError> {
    let mut governor = (governors::find(name).expect("it is registered").make)(site);
    for (at, stretch) in stretches.iter().enumerate() {
        for _ in 0..stretch.calls {
            let plan: Plan = governor.plan(&Period {
                time: stretch.time,
                threads: &stretch.threads,
                waiting: stretch.waiting,
            });
            prop_assert!(
                (1..=site.threads).contains(&plan.width),
                "{name}, {at}: {plan:?}"
            );
            // `throughput` asks for longer windows if a period holds too little work.
            let most = match name {
                "throughput" => u64::MAX,
                _ => site.period,
            };
            prop_assert!(
                (1..=most).contains(&plan.next_call),
                "{name}, {at}: {plan:?}"
            );
            let why = governor.why();
            prop_assert!(!why.what.is_empty(), "{name}, {at}");
            prop_assert!(
                why.figures.iter().all(|(_, figure)| !figure.is_nan()),
                "{name}, {at}: {why}"
            );
            let figure = |wanted| {
                let mut figures = why.figures.iter();
                figures.find_map(|(name, figure)| (*name == wanted).then_some(*figure))
            };
            if let (Some(probed), Some(used)) = (figure("width"), figure("width in use")) {
                prop_assert!(probed != used, "{name}, {at}: a width beside itself, {why}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn plans_are_valid_whatever_is_reported(site in site(), stretches in vec(prop_oneof![honest(), lying()], 1..16)) {
        for entry in governors::all() {
            call(entry.name, &site, &stretches)?;
        }
    }
}
