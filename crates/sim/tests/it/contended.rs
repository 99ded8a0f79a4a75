//! The contended model against the uniform one, and laws of its own.

use crate::common;

use common::oracle::{Answer, Extra, Oracle};
use common::{any_extra, any_shape, contended_text, machine_text, run, split, trace};
use proptest::prelude::*;
use std::cell::Cell;
use tanada_policy::registry::{self, Entry};
use tanada_sim::{Machine, Options, Outcome, Run, SimError, machines, simulate};

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
        remote: contention.numa.map_or([0; 4], |numa| {
            let links = numa.links;
            [
                numa.remote_fills,
                numa.remote_writes,
                links.busy,
                links.waited,
            ]
        }),
    }
}

/// The engine against an implementation that follows the rules word by word.
#[test]
fn it_agrees_with_the_rules_to_the_last_count() {
    proptest!(ProptestConfig::with_cases(1000), |(
        shape in any_shape(),
        extra in any_extra(),
        cores in 1..12u16,
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

/// The same if tasks compute for so long that what background streams do meanwhile repeats, which the engine counts and does not execute.
#[test]
fn long_computations_agree_with_the_rules_to_the_last_count() {
    // Few lengths, so that several streams come to the same state before the task ends.
    let any_of = |values: &[u64]| prop::sample::select(values.to_vec());
    let (every, step) = (
        any_of(&[20, 30, 40, 60]),
        any_of(&[100, 250, 500, 625, 1250]),
    );
    let stream = (any::<bool>(), 0..6u64, 0..50u64, every, step);
    proptest!(ProptestConfig::with_cases(300), |(
        mut shape in any_shape(),
        mut extra in any_extra(),
        streams in prop::collection::vec(stream, 1..4),
        longest in 1000..100_000u64,
        cores in 1..4u16,
        seed in any::<u64>(),
        policy in prop::sample::select(policies(|entry| entry.exact && entry.greedy)),
    )| {
        extra.streams = streams;
        shape.tasks.truncate(6);
        shape.edges.retain(|(_, to)| *to < shape.tasks.len());
        for (number, (_, _, lines)) in shape.tasks.iter_mut().enumerate() {
            lines.truncate(4);
            lines.push(('x', longest >> (number % 3), 0));
            lines.push(('r', 8 * number as u64, 40));
        }
        let text = contended_text(cores, &shape, &extra);
        let machine = Machine::parse(&text, "m.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        let trace_text = shape.text();
        let (outcome, runs) = run(&machine, policy, seed, &trace(&trace_text));
        let expected = Oracle::new(&shape, &extra, cores, seed, policy).run();
        prop_assert_eq!(answer(&outcome, &runs), expected, "{}\n{}\n{}", policy, text, trace_text);
    });
}

/// Runs a trace, and stops it after some ten million accesses of background streams.
fn run_briefly(machine: &Machine, text: &str) -> Result<Outcome, SimError> {
    let calls = Cell::new(0);
    let watch = |_| calls.replace(calls.get() + 1) < 1000;
    let options = Options {
        watch: Some(&watch),
        ..Options::default()
    };
    simulate(&trace(text), machine, "fcfs", &options, &mut ())
}

/// One stream reads 64 bytes every 100 cycles, from two rows of one bank in turn; nothing else uses the memory. Each read waits for the
/// row, and holds the channel for 7 cycles.
#[test]
fn a_task_of_any_length_has_the_counts_of_its_length() {
    let machine = |streams: u64, start: u64| {
        let mut text =
            "name = \"m\"\nmodel = \"contended\"\ncores = 2\nhit_cycles = 1\ndispatch_cycles = 0\n\
             coherence = \"none\"\n[memory]\nfill_cycles = 7\nwrite_cycles = 0\nbanks = 1\nrow_size = 128\n\
             row_hit_cycles = 1\nrow_closed_cycles = 2\nrow_conflict_cycles = 5\n"
                .to_owned();
        for number in 0..streams {
            text += &format!(
                "[background.s{number}]\naccess = \"read\"\nstart = {start}\naddress = 0\nsize = 256\nstep = 64\n\
                 every_cycles = 100\n"
            );
        }
        Machine::parse(&text, "m.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
    };
    let (one, task) = (machine(1, 0), "tanada-trace 1\ntask 1\nx");
    // The last cycle of the clock included.
    let near_the_end = (0..400).step_by(50).map(|less| u64::MAX - less);
    for cycles in [1, 100, 101, 123_456_789, 1 << 63]
        .into_iter()
        .chain(near_the_end)
    {
        let outcome = run_briefly(&one, &format!("{task} {cycles}\n"));
        let outcome = outcome.unwrap_or_else(|wrong| panic!("{cycles}: {wrong}"));
        assert_eq!(outcome.makespan, cycles);
        let contention = outcome.contention.expect("of the contended model");
        let accesses = cycles.div_ceil(100);
        assert_eq!(contention.background, accesses, "{cycles}");
        let memory = contention.memory;
        assert_eq!((memory.fills, memory.writes), (accesses, 0), "{cycles}");
        // The first of two reads in a row opens it, the very first one without closing another.
        let (opened, hits) = (accesses.div_ceil(2), accesses / 2);
        let found = (memory.row_closed, memory.row_conflicts, memory.row_hits);
        assert_eq!(found, (1, opened - 1, hits), "{cycles}");
        assert_eq!(memory.channels.grants, accesses);
        assert_eq!(memory.channels.busy, 7 * accesses);
        assert_eq!(memory.channels.waited, 2 + 5 * (opened - 1) + hits);
        let opening = match accesses {
            1 => 2,
            _ if accesses.is_multiple_of(2) => 1,
            _ => 5,
        };
        let free = (accesses - 1) * 100;
        assert_eq!(
            memory.last_free,
            free.saturating_add(opening + 7),
            "{cycles}"
        );
    }
    // At the end of the clock some streams are due behind it.
    for (start, less) in (0..400)
        .step_by(50)
        .flat_map(|start| [0, 20, 70].map(|less| (start, less)))
    {
        let end = u64::MAX - less;
        let outcome = run_briefly(&machine(3, start), &format!("{task} {end}\n"));
        let outcome = outcome.unwrap_or_else(|wrong| panic!("{start}, {less}: {wrong}"));
        let contention = outcome.contention.expect("of the contended model");
        assert_eq!(
            contention.background,
            3 * (end - start).div_ceil(100),
            "{start}, {less}"
        );
    }
    // A clock that would pass its end is an error, and a counter that would stays there.
    let two = run_briefly(&one, &format!("{task} {0}\nx {0}\n", 1u64 << 63));
    assert!(matches!(two, Err(SimError::Overflow { .. })), "{two:?}");
    let many = run_briefly(&machine(300, 0), &format!("{task} {}\n", u64::MAX));
    let many = many.expect("it runs to its end");
    let contention = many.contention.as_ref().expect("of the contended model");
    assert_eq!(contention.memory.channels.waited, u64::MAX);
    assert!(
        contention.background > u64::MAX / 100,
        "{}",
        contention.background
    );
    assert!(
        many.to_json_line()
            .contains("\"memory_waited_cycles\":18446744073709551615")
    );
}

/// The streams of a registered machine come to the same state after 2.6 million accesses of each.
#[test]
fn a_registered_machine_simulates_a_task_of_any_length() {
    let machine = machines::find("toshiba-board").unwrap();
    let cycles = 1u64 << 63;
    let outcome = run_briefly(&machine, &format!("tanada-trace 1\ntask 1\nx {cycles}\n"));
    let outcome = outcome.expect("it ends soon");
    let contention = outcome.contention.expect("of the contended model");
    let every = outcome.makespan.div_ceil(2466);
    let both = every + (outcome.makespan - 1233).div_ceil(2466);
    assert_eq!(contention.background, both);
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
        let memories = contention.memories.len() as u64;
        // The channel is held for each fill and each write-back, and for nothing else; and it serves one at a time.
        prop_assert_eq!(memory.channels.busy, memory.fills * extra.fill + memory.writes * extra.write);
        let free = memory.last_free.max(outcome.makespan);
        prop_assert!(memory.channels.busy <= extra.channels * memories * free);
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
    // A simulation has a state of each bank.
    let banks = |channels: u64, banks: u64| {
        let sets = [
            format!("memory.banks={banks}"),
            format!("memory.channels={channels}"),
            "memory.interleave=4096".to_owned(),
        ];
        sound.overridden(&sets.each_ref().map(String::as_str))
    };
    for (channels, each) in [(1, 65_536), (1024, 64), (256, 256)] {
        let machine = banks(channels, each).expect("it is sound");
        let memory = machine.contended.memory;
        assert_eq!((memory.channels, memory.banks), (channels, each));
    }
    for (channels, each, all) in [
        (2, 65_536, 131_072),
        (1024, 65, 66_560),
        (1024, 65_536, 67_108_864),
    ] {
        let wrong = banks(channels, each).expect_err("too many").to_string();
        let answer = format!("`channels` x `banks` is {all}; it must be at most 65536");
        assert!(wrong.contains(&answer), "{wrong}");
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
