//! The contended model against the uniform one, and laws of its own.

use crate::common;

use common::oracle::{Answer, Extra, Oracle};
use common::{any_extra, any_shape, contended_text, machine_text, run, split, trace};
use proptest::prelude::*;
use tanada_policy::registry::{self, Entry};
use tanada_sim::{Machine, Outcome, Run, machines};

fn counts(outcome: &Outcome) -> Vec<(String, u64, u64)> {
    let caches = outcome.caches.iter();
    caches
        .map(|cache| (cache.label(), cache.count.accesses, cache.count.misses))
        .collect()
}

/// Returns the policies for which `keep` holds.
fn policies(keep: fn(&Entry) -> bool) -> Vec<&'static str> {
    let kept = registry::all().iter().filter(|entry| keep(entry));
    kept.map(|entry| entry.name).collect()
}

/// With nothing that takes time beyond the uniform model's, and policies with one pool, whose idle cores need no polling, both models
/// are one, once every record touches one line.
#[test]
fn without_contention_it_is_the_uniform_model() {
    proptest!(ProptestConfig::with_cases(400), |(
        shape in any_shape(),
        cores in 1..6u16,
        seed in any::<u64>(),
        policy in prop::sample::select(policies(|entry| entry.exact)),
    )| {
        let text = shape.text();
        let pieces = split(&text, shape.line);
        let machine = |model| Machine::parse(&machine_text(model, cores, &shape), "m.toml").unwrap();
        let (uniform, rows) = run(&machine("uniform"), policy, seed, &trace(&pieces));
        let (contended, ours) = run(&machine("contended"), policy, seed, &trace(&text));
        prop_assert_eq!(contended.makespan, uniform.makespan, "{}\n{}", policy, text);
        prop_assert_eq!(&contended.busy, &uniform.busy);
        prop_assert_eq!(counts(&contended), counts(&uniform));
        prop_assert_eq!(contended.writebacks, uniform.writebacks);
        prop_assert_eq!(contended.executing, uniform.executing);
        prop_assert_eq!(&contended.stalls, &uniform.stalls);
        prop_assert_eq!(contended.bound, uniform.bound);
        prop_assert_eq!(ours, rows);
    });
}

fn answer(outcome: &Outcome, runs: &[Run]) -> Answer {
    let contention = outcome.contention.as_ref().expect("of the contended model");
    let mut counts = vec![(0, 0); outcome.caches.len()];
    for cache in &outcome.caches {
        counts[cache.table] = (cache.count.accesses, cache.count.misses);
    }
    Answer {
        makespan: outcome.makespan,
        busy: outcome.busy.clone(),
        counts,
        writebacks: outcome.writebacks,
        fills: contention.memory.fills,
        writes: contention.memory.writes,
        channel_busy: contention.memory.channels.busy,
        waited: contention.memory.channels.waited,
        invalidations: contention.invalidations,
        runs: runs
            .iter()
            .map(|run| (run.core, run.task, run.start, run.end))
            .collect(),
        in_vain: contention.calls.in_vain,
        background: contention.background,
    }
}

/// The engine against an implementation that follows the rules word by word.
#[test]
fn it_agrees_with_the_rules_to_the_last_count() {
    proptest!(ProptestConfig::with_cases(1000), |(
        shape in any_shape(),
        extra in any_extra(),
        cores in 1..6u16,
        seed in any::<u64>(),
        policy in prop::sample::select(policies(|entry| entry.exact && entry.greedy)),
    )| {
        let text = contended_text(cores, &shape, &extra);
        let machine = Machine::parse(&text, "m.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        let trace_text = shape.text();
        let (outcome, runs) = run(&machine, policy, seed, &trace(&trace_text));
        let expected = Oracle::new(&shape, &extra, cores, seed, policy).run();
        prop_assert_eq!(answer(&outcome, &runs), expected, "{}\n{}\n{}", policy, text, trace_text);
    });
}

fn a_case() -> impl Strategy<Value = (common::Shape, Extra, u16, u64, &'static str)> {
    (
        any_shape(),
        any_extra(),
        1..6u16,
        any::<u64>(),
        prop::sample::select(policies(|_| true)),
    )
}

/// What is held, counted and waited for adds up, under every policy.
#[test]
fn nothing_is_lost() {
    proptest!(ProptestConfig::with_cases(400), |((shape, extra, cores, seed, policy) in a_case())| {
        let machine = Machine::parse(&contended_text(cores, &shape, &extra), "m.toml").unwrap();
        let trace = trace(&shape.text());
        let (outcome, runs) = run(&machine, policy, seed, &trace);
        let contention = outcome.contention.as_ref().unwrap();
        let memory = &contention.memory;
        // The channel is held for each fill and each write-back, and for nothing else; and it serves one at a time.
        prop_assert_eq!(memory.channels.busy, memory.fills * extra.fill + memory.writes * extra.write);
        let free = memory.last_free.max(outcome.makespan);
        prop_assert!(memory.channels.busy <= u64::from(extra.channels as u32) * free);
        if memory.channels.grants > 0 {
            prop_assert_eq!(memory.channels.grants, memory.fills + memory.writes);
            prop_assert_eq!(memory.row_hits + memory.row_closed + memory.row_conflicts, memory.channels.grants);
        }
        // What a level does not have is asked of the next, or of the memory.
        let whole: u64 = contention.passages * extra.pool;
        prop_assert!(contention.held >= whole, "{} < {whole}", contention.held);
        prop_assert_eq!(contention.calls.gave, outcome.tasks);
        for (core, stalls) in outcome.stalls.iter().enumerate() {
            let caches: u64 = stalls.caches.iter().sum();
            let sum = stalls.compute + caches + stalls.memory_queue + stalls.scheduling + stalls.idle;
            prop_assert_eq!(sum, outcome.makespan);
            let mine = runs.iter().filter(|run| usize::from(run.core) == core);
            let executing: u64 = mine.map(|run| run.end - run.start).sum();
            prop_assert_eq!(stalls.compute + caches + stalls.memory_queue, executing);
        }
        for cache in &outcome.caches {
            prop_assert!(cache.unavoidable <= cache.count.misses);
        }
        prop_assert!(outcome.bound <= outcome.makespan, "{} > {}", outcome.bound, outcome.makespan);
        // The same bytes every time.
        let (again, same) = run(&machine, policy, seed, &trace);
        prop_assert_eq!(again.to_json_line(), outcome.to_json_line());
        prop_assert_eq!(same, runs);
    });
}

/// Cores 0 and 1 put tasks into the mailbox of core 2 at the same time: core 1 waits for its lock until 150, and passes until 200; core 2,
/// and core 0, which takes the other task out of it at 159, wait for core 1.
#[test]
fn a_seat_s_lock_makes_others_wait() {
    let machine = "name = \"seats\"\nmodel = \"contended\"\ncores = 3\nhit_cycles = 1\ndispatch_cycles = 0\n\
                   coherence = \"none\"\n[memory]\nfill_cycles = 0\nwrite_cycles = 0\n\
                   [scheduler]\nmail_cycles = 50\n";
    let machine = Machine::parse(machine, "seats.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    // Tasks 1 and 2 run on cores 0 and 1. Each releases one for core 2 and one that it runs itself.
    let text = "tanada-trace 1\ntask 1 S=1\nx 100\ntask 2 S=2\nx 100\ntask 3 S=3\nx 9\ntask 4\nx 9\ntask 5 S=3\nx 9\ntask 6\nx 9\n\
                dep 1 3\ndep 1 4\ndep 2 5\ndep 2 6\n";
    let (_, mut runs) = run(&machine, "locality-steal", 0, &trace(text));
    runs.sort_by_key(|run| run.task);
    let runs = runs.iter().map(|run| (run.core, run.start));
    assert_eq!(
        Vec::from_iter(runs),
        [(0, 0), (1, 0), (2, 200), (0, 150), (0, 200), (1, 200)]
    );
}

/// On one core without background streams nothing is gained if something takes longer: its touches come in one order, and each waits at
/// least as long as before.
#[test]
fn on_one_core_longer_times_never_help() {
    proptest!(ProptestConfig::with_cases(300), |(
        (shape, extra, _, seed, policy) in a_case(),
        which in 0..9usize,
        more in 1..50u64,
    )| {
        let extra = Extra { streams: Vec::new(), ..extra };
        let mut slower = extra.clone();
        let key = [
            &mut slower.fill,
            &mut slower.write,
            &mut slower.bus,
            &mut slower.port,
            &mut slower.bank,
            &mut slower.call,
            &mut slower.pool,
            &mut slower.resolve,
            &mut slower.wake,
        ];
        *key.into_iter().nth(which).unwrap() += more;
        let makespan = |extra: &Extra| {
            let machine = Machine::parse(&contended_text(1, &shape, extra), "m.toml").unwrap();
            run(&machine, policy, seed, &trace(&shape.text())).0.makespan
        };
        prop_assert!(makespan(&slower) >= makespan(&extra), "key {}", which);
    });
}

/// What contradicts itself is refused with file and line; overrides reach every table.
#[test]
fn tables_that_make_no_sense_are_refused() {
    let sound = machines::find("toshiba-board").unwrap();
    let refused = [
        ("l1i.ports=2", "for a cache that cores share"),
        ("memory.channels=2", "need `interleave`"),
        ("memory.row_size=100", "power of two"),
        ("memory.page=closed", "no row is ever open"),
        ("memory.row_hit_cycles=9", "must not fall"),
        ("memory.fill_cycles=99999999999999", "must be 0 to"),
        ("scheduler.address=1", "multiple of 4096"),
        ("scheduler.pool=1", "unknown key"),
        ("policy.ts.pool_cycles=x", "must be a whole number"),
        ("background.output.step=0", "`step` must be"),
        ("background.output.near_core=8", "the last core is 7"),
        ("coherence=none", "needs `coherence"),
        ("l2.miss_cycles=99999999999999", "must be 0 to"),
    ];
    for (set, why) in refused {
        let wrong = sound.overridden(&[set]).expect_err(set).to_string();
        assert!(wrong.contains(why), "{set}: {wrong}");
    }
    let text = machines::all()
        .find(|one| one.name == "toshiba-board")
        .unwrap()
        .text;
    let wrong = Machine::parse(&text.replace("[policy.ts]", "[policy.tz]"), "m.toml").unwrap_err();
    assert!(
        wrong.to_string().contains("unknown policy \"tz\""),
        "{wrong}"
    );
    let wrong = Machine::parse(
        &text.replace("page = \"open\"", "page = \"ajar\""),
        "m.toml",
    )
    .unwrap_err();
    let line = text
        .lines()
        .position(|line| line.starts_with("page"))
        .unwrap()
        + 1;
    assert!(
        wrong.to_string().starts_with(&format!("m.toml:{line}: ")),
        "{wrong}"
    );
}
