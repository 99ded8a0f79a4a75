//! Each rule of the uniform model on a case that can be worked out by hand.

use std::time::Instant;
use tanada_sim::{Machine, Options, Outcome, Run, SimError, machines, simulate};
use tanada_trace::{Groups, Trace};

/// A machine without caches.
fn bare(cores: u16, more: &str) -> Machine {
    let text = format!(
        "name = \"bare\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n{more}"
    );
    Machine::parse(&text, "bare.toml").expect("a sound machine")
}

/// `[[cache]]` of a few words: level kind per size ways line replacement miss_cycles.
fn cache(words: &str) -> String {
    let w: Vec<&str> = words.split(' ').collect();
    format!(
        "[[cache]]\nlevel = {}\nkind = \"{}\"\nper = \"{}\"\nsize = \"{}\"\nways = {}\nline = {}\nreplacement = \"{}\"\nmiss_cycles = {}\n",
        w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
    )
}

fn trace(text: &str) -> Trace {
    let text = format!("tanada-trace 1\n{text}");
    Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace")
}

fn run(machine: &Machine, policy: &str, text: &str) -> (Outcome, Vec<Run>) {
    let mut runs = Vec::new();
    let outcome = simulate(
        &trace(text),
        machine,
        policy,
        &Options::default(),
        &mut runs,
    );
    (outcome.expect("it runs to its end"), runs)
}

fn rows(runs: &[Run]) -> Vec<(u16, u32, u64, u64)> {
    runs.iter()
        .map(|r| (r.core, r.task, r.start, r.end))
        .collect()
}

#[test]
fn the_core_with_the_smallest_clock_acts_and_of_equals_the_lowest() {
    // Both end at 10: core 0 finishes first and gets task 3, core 1 gets task 4.
    let text = "task 1\nx 10\ntask 2\nx 5\nx 5\ntask 3\nx 1\ntask 4\nx 1\n";
    let (outcome, runs) = run(&bare(2, ""), "fcfs", text);
    assert_eq!(
        rows(&runs),
        [(0, 0, 0, 10), (1, 1, 0, 10), (0, 2, 10, 11), (1, 3, 10, 11)]
    );
    assert_eq!((outcome.makespan, outcome.busy), (11, vec![11, 11]));
}

#[test]
fn idle_cores_ask_in_index_order_at_the_moment_of_a_finish() {
    // Task 1 on core 0 releases three; core 0 takes the first, then cores 1 and 2 theirs.
    let text = "task 1\nx 7\ntask 2\nx 1\ntask 3\nx 2\ntask 4\nx 3\ndep 1 2\ndep 1 3\ndep 1 4\n";
    let (_, runs) = run(&bare(3, ""), "fcfs", text);
    assert_eq!(
        rows(&runs),
        [(0, 0, 0, 7), (0, 1, 7, 8), (1, 2, 7, 9), (2, 3, 7, 10)]
    );
}

#[test]
fn a_task_without_records_finishes_at_once() {
    let text = "task 1\ntask 2\ntask 3\nx 4\ndep 1 2\ndep 2 3\n";
    let (outcome, runs) = run(&bare(2, ""), "fcfs", text);
    assert_eq!(rows(&runs), [(0, 0, 0, 0), (0, 1, 0, 0), (0, 2, 0, 4)]);
    assert_eq!((outcome.makespan, outcome.bound), (4, 4));
}

#[test]
fn dispatch_takes_time_before_the_first_record() {
    let (outcome, runs) = run(&bare(1, ""), "fcfs", "task 1\nx 10\ntask 2\nx 10\n");
    assert_eq!(outcome.makespan, 20);
    assert_eq!(rows(&runs), [(0, 0, 0, 10), (0, 1, 10, 20)]);
    let slow = bare(1, "")
        .overridden(&["dispatch_cycles=5"])
        .expect("it is sound");
    let (outcome, runs) = run(&slow, "fcfs", "task 1\nx 10\ntask 2\nx 10\n");
    assert_eq!(rows(&runs), [(0, 0, 5, 15), (0, 1, 20, 30)]);
    assert_eq!(
        (outcome.makespan, outcome.busy.clone(), outcome.bound),
        (30, vec![30], 30)
    );
    assert!((outcome.utilisation() - 20.0 / 30.0).abs() < 1e-12);
    assert_eq!(
        (outcome.stalls[0].scheduling, outcome.stalls[0].compute),
        (10, 20)
    );
}

#[test]
fn each_line_that_a_record_overlaps_is_a_touch() {
    let machine = bare(1, &cache("1 data core 256 2 16 lru 9"));
    // Bytes 15 to 32: lines 0, 1 and 2.
    let (outcome, _) = run(&machine, "fcfs", "task 1\nr 15 18\n");
    assert_eq!(
        (
            outcome.makespan,
            outcome.caches[0].count.accesses,
            outcome.caches[0].count.misses
        ),
        (30, 3, 3)
    );
    assert_eq!(outcome.caches[0].unavoidable, 3);
    // What is fetched has no cache: once `hit_cycles`.
    let (outcome, _) = run(&machine, "fcfs", "task 1\ni 0 4000\n");
    assert_eq!((outcome.makespan, outcome.caches[0].count.accesses), (1, 0));
}

#[test]
fn the_last_address_is_one_line() {
    let machine = bare(1, &cache("1 data core 32 2 1 lru 9"));
    let (outcome, _) = run(
        &machine,
        "fcfs",
        "task 1\nw 0xffffffffffffffff 1\nr 0xfffffffffffffffe 2\nr 0 1\n",
    );
    assert_eq!(
        (
            outcome.caches[0].count.accesses,
            outcome.caches[0].count.misses
        ),
        (4, 3)
    );
}

#[test]
fn a_clock_that_would_pass_its_end_is_an_error() {
    let machine = bare(1, "");
    let text = "task 7\nx 0xffffffffffffffff\nx 1\n";
    let wrong = simulate(&trace(text), &machine, "fcfs", &Options::default(), &mut ()).unwrap_err();
    assert!(
        matches!(
            wrong,
            SimError::Overflow {
                id: 7,
                record: Some(1),
                ..
            }
        ),
        "{wrong}"
    );
    let (outcome, _) = run(&machine, "fcfs", "task 7\nx 0xffffffffffffffff\n");
    assert_eq!(outcome.makespan, u64::MAX);
    let slow = machine
        .overridden(&["dispatch_cycles=2".to_owned()])
        .expect("sound");
    let text = "task 1\nx 0xfffffffffffffffc\ntask 2\ndep 1 2\n";
    let wrong = simulate(&trace(text), &slow, "fcfs", &Options::default(), &mut ()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the clock would pass 2^64-1 at the dispatch of task 2"
    );
}

/// Two misses of 2^63 cycles each: in one level or in two, private or shared, with and without invalidation.
#[test]
fn misses_of_one_record_that_take_more_than_a_clock_has_are_an_error() {
    let data = |level: u8, per: &str, cycles: u64| {
        cache(&format!("{level} data {per} 128 2 64 lru {cycles}"))
    };
    let half = 1 << 63;
    let (one_line, two_lines) = ("task 7\nr 0 8\n", "task 7\nr 0 128\n");
    for (caches, text) in [
        (data(1, "core", half), two_lines),
        (data(1, "machine", half), two_lines),
        (data(1, "core", 0) + &data(2, "machine", half), two_lines),
        (data(1, "core", half) + &data(2, "core", half), one_line),
        (data(1, "core", half) + &data(2, "machine", half), one_line),
        (
            data(1, "machine", half) + &data(2, "machine", half),
            one_line,
        ),
    ] {
        for coherence in ["none", "invalidate"] {
            let overrides = ["hit_cycles=0".to_owned(), format!("coherence={coherence}")];
            let machine = bare(2, &caches).overridden(&overrides).expect("sound");
            let wrong = simulate(&trace(text), &machine, "fcfs", &Options::default(), &mut ());
            let wrong = wrong.expect_err(&caches).to_string();
            assert!(wrong.contains("2^64-1 at record 0 of task 7"), "{wrong}");
        }
    }
}

/// Simulating the touches would take minutes.
#[test]
fn records_of_many_lines_do_not_hide_that_a_clock_passes_its_end() {
    let reads = "r 0 0xffffffff\n".repeat(20);
    let within = format!("task 1\n{reads}x 0xffffffffffffffff\n");
    let chain = format!("task 1\n{reads}task 2\nx 0xffffffffffffffff\ndep 1 2\n");
    let sum = format!("task 1\n{reads}task 2\nx 0xffffffffffffffff\n");
    for name in ["toshiba", "toshiba-board"] {
        let machine = machines::find(name).expect("it is there");
        let machine = machine.with_cores(1).expect("a sound machine");
        for (text, task, place) in [
            (&within, 1, Some(20)),
            (&chain, 2, Some(0)),
            (&sum, 2, Some(0)),
        ] {
            let start = Instant::now();
            let wrong = simulate(&trace(text), &machine, "fcfs", &Options::default(), &mut ());
            let wrong = wrong.unwrap_err();
            let right = matches!(wrong, SimError::Overflow { id, record, .. } if (id, record) == (task, place));
            // In the sum it may be whichever task comes last.
            assert!(
                right || matches!((text == &sum, &wrong), (true, SimError::Overflow { .. })),
                "{wrong}"
            );
            assert!(start.elapsed().as_secs() < 10, "it was simulated");
        }
    }
}

#[test]
fn a_trace_without_tasks_has_no_makespan() {
    let (outcome, _) = run(&bare(2, ""), "ts", "");
    assert_eq!(
        (
            outcome.makespan,
            outcome.tasks,
            outcome.utilisation(),
            outcome.bound_ratio()
        ),
        (0, 0, 0.0, 1.0)
    );
}

#[test]
fn long_wrong_machine_files_are_refused_at_once() {
    let base = "name = \"long\"\nmodel = \"uniform\"\ncores = 1\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n";
    let tables = format!("{base}{}", "[[cache]]\nfoo = 1\n".repeat(3_000));
    let error =
        Machine::parse(&tables, "long.toml").expect_err("tables without a key that is needed");
    assert!(error.to_string().starts_with("long.toml:"), "{error}");
    let longer = format!("{base}{}", "# more\n".repeat(100_000));
    let error = Machine::parse(&longer, "longer.toml").expect_err("too long");
    assert!(error.to_string().contains("no machine file"), "{error}");
}

#[test]
fn the_number_of_ended_tasks_that_a_run_reports_never_falls() {
    // The second task has more lines than a run simulates before it checks for an overflow, which reads all tasks again.
    let trace = trace("task 1\nx 1\ntask 2\nr 0 400000000\ndep 1 2\n");
    for machine in ["toshiba", "toshiba-board"] {
        let machine = machines::find(machine).expect("it is registered");
        let last = std::cell::Cell::new(0);
        let watch = |ended| {
            assert!(last.replace(ended) <= ended, "{}: {ended}", machine.name);
            true
        };
        let options = Options {
            watch: Some(&watch),
            ..Options::default()
        };
        simulate(&trace, &machine, "fcfs", &options, &mut ()).expect("it runs to its end");
        assert_eq!(last.get(), 1, "the run was watched after its first task");
    }
}
