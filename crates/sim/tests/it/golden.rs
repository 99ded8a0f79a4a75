//! Cases that were worked out by hand from the text of the rules, for the simulator and for the second one that it is compared with.

use tanada_sim::{Machine, Options, Run, simulate};
use tanada_trace::Trace;

use crate::reference;

use reference::Groups;

/// A machine of `cores` cores; `caches` has a line for each: level kind per size ways line replacement miss_cycles.
fn machine(cores: u16, coherence: &str, dispatch: u64, caches: &str) -> String {
    let head = format!(
        "name = \"hand\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = 1\ndispatch_cycles = {dispatch}\ncoherence = \"{coherence}\"\n"
    );
    let table = |words: &str| {
        let [level, kind, per, size, ways, line, replacement, miss] =
            *words.split_whitespace().collect::<Vec<_>>()
        else {
            panic!("eight words describe a cache: {words}")
        };
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"{kind}\"\nper = \"{per}\"\nsize = \"{size}\"\nways = {ways}\nline = {line}\n\
             replacement = \"{replacement}\"\nmiss_cycles = {miss}\n"
        )
    };
    head + &caches.lines().map(table).collect::<String>()
}

/// What runs on which core from when to when.
type Rows<'a> = &'a [(usize, u32, u64, u64)];

/// Counts by the names of their keys.
type Counts<'a> = &'a [(&'a str, u64)];

/// Runs a case in both simulators and holds both to what was worked out.
fn check(policy: &str, machine: &str, trace: &str, rows: Rows<'_>, counts: Counts<'_>) {
    let text = format!("tanada-trace 1\n{trace}");
    let trace = Trace::parse(text.as_bytes(), "hand.tnt", &tanada_trace::Groups::Plain)
        .expect("a sound trace");
    let built = Machine::parse(machine, "hand.toml").expect("a sound machine");
    let mut runs: Vec<Run> = Vec::new();
    let outcome =
        simulate(&trace, &built, policy, &Options::default(), &mut runs).expect("it ends");
    let line: serde_json::Value = serde_json::from_str(&outcome.to_json_line()).expect("JSON");
    let here: Vec<_> = (runs.iter())
        .map(|run| {
            (
                usize::from(run.core),
                trace.tasks()[run.task as usize].id,
                run.start,
                run.end,
            )
        })
        .collect();
    let there = reference::run(
        &reference::Trace::parse(&text, &Groups::Plain),
        &reference::Machine::parse(machine, None, None),
        policy,
    );
    let keys = there.json(policy, usize::from(built.cores));
    let there: Vec<_> = (there.finished.iter())
        .map(|finished| (finished.core, finished.task, finished.start, finished.end))
        .collect();
    assert_eq!(here, rows, "{policy}");
    assert_eq!(there, rows, "{policy}, the second simulator");
    for (key, right) in counts {
        assert_eq!(line[*key], *right, "{policy}: {key}");
        let there = keys
            .iter()
            .find(|(name, _)| name == key)
            .expect("a key of the line");
        assert_eq!(there.1, *right, "{policy}, the second simulator: {key}");
    }
}

#[test]
fn who_leaves_a_set_of_two_ways() {
    // Lines A = 0, B = 64, C = 128 in the order A B A C A B A; each costs 1, a miss 10 more.
    let trace = "task 1\nr 0 1\nr 64 1\nr 0 1\nr 128 1\nr 0 1\nr 64 1\nr 0 1\n";
    let cases = [
        // A and B miss; C drives A out, A drives B out, B drives C out; the last A hits: 5 misses.
        ("fifo", 5),
        // C drives B out, B drives C out: 4 misses.
        ("lru", 4),
        // SplitMix64 of 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f: ways 1, 0, 1. C drives B out of way 1; A hits; B
        // drives A out of way 0; A drives C out of way 1: 5 misses.
        ("random", 5),
    ];
    for (replacement, misses) in cases {
        let machine = machine(
            1,
            "none",
            0,
            &format!("1 data core 128 2 64 {replacement} 10"),
        );
        let end = 7 + 10 * misses;
        let counts = [
            ("l1d_accesses", 7),
            ("l1d_misses", misses),
            ("writebacks", 0),
            ("makespan", end),
        ];
        check("fcfs", &machine, trace, &[(0, 1, 0, end)], &counts);
    }
}

#[test]
fn dirty_lines_go_to_the_nearest_level_that_has_them() {
    // One line of 64 bytes in level 1, one of 128 in level 2.
    let machine = machine(
        1,
        "none",
        0,
        "1 data core 64 1 64 lru 10\n2 unified machine 128 1 128 lru 100",
    );
    let trace = "task 1\n\
        w 0 1\n\
        r 64 1\n\
        r 128 1\n\
        w 0 1\n\
        r 200 1\n\
        w 200 1\n";
    // w 0: both miss, 111. r 64: drives 0 out dirty (1), level 2 has it and hits, 11. r 128: level 2 drives its dirty line out (2), 111.
    // w 0: both miss, 111. r 200: drives 0 out dirty (3) into level 2, which drives it out at once (4), 111. w 200: hits, 1.
    let end = 111 + 11 + 111 + 111 + 111 + 1;
    let counts = [
        ("l1d_accesses", 6),
        ("l1d_misses", 5),
        ("l2_accesses", 5),
        ("l2_misses", 4),
        ("writebacks", 4),
    ];
    check("lcfs", &machine, trace, &[(0, 1, 0, end)], &counts);
}

#[test]
fn a_dirty_line_that_no_level_has_is_counted_and_gone() {
    // Two lines in level 1, one in level 2: not inclusive.
    let machine = machine(
        1,
        "none",
        0,
        "1 data core 128 1 64 fifo 10\n2 unified machine 64 1 64 fifo 100",
    );
    // w 0; r 64 drives 0 out of level 2, clean; r 128 drives 0 out of level 1, dirty: counted, and level 2 does not have it; r 192 drives
    // 64 out of level 1, clean, and 128 out of level 2, clean.
    let trace = "task 1\nw 0 1\nr 64 1\nr 128 1\nr 192 1\n";
    let counts = [("l1d_misses", 4), ("l2_misses", 4), ("writebacks", 1)];
    check("fcfs", &machine, trace, &[(0, 1, 0, 4 * 111)], &counts);
}

#[test]
fn a_write_takes_the_copies_of_the_others_away() {
    // Core 0 reads a line (111 cycles); core 1 writes it at the same time, after core 0 has acted, and finds it in level 2 (11); then
    // core 0 reads it again: it misses level 1 only where its copy was taken away.
    let trace = "task 1\nr 0 1\ntask 2\nw 0 1\ntask 3\nr 0 1\ndep 1 3\n";
    let caches = "1 data core 128 2 64 lru 10\n2 unified machine 4K 4 64 lru 100";
    for (coherence, again, misses) in [("invalidate", 11, 3), ("none", 1, 2)] {
        let rows = [(1, 2, 0, 11), (0, 1, 0, 111), (0, 3, 111, 111 + again)];
        let counts = [("l1d_misses", misses), ("l2_misses", 1), ("writebacks", 0)];
        check(
            "fcfs",
            &machine(2, coherence, 0, caches),
            trace,
            &rows,
            &counts,
        );
    }
}

#[test]
fn straddling_records_touch_line_by_line_and_an_absent_cache_costs_one_hit() {
    // r 60 140 overlaps the lines 0, 64, 128 and 192: four touches of level 1; level 2 has lines of 128: 0 (miss), 64 (hit), 128 (miss),
    // 192 (hit). So 4 x 1 + 4 x 10 + 2 x 100 = 244. i 0 1000 meets no cache: 1.
    let machine = machine(
        1,
        "none",
        0,
        "1 data core 1K 2 64 fifo 10\n2 data machine 4K 2 128 fifo 100",
    );
    let trace = "task 1\nr 60 140\ni 0 1000\n";
    let counts = [
        ("l1d_accesses", 4),
        ("l1d_misses", 4),
        ("l2d_accesses", 4),
        ("l2d_misses", 2),
        ("bound", 245),
    ];
    check("fcfs", &machine, trace, &[(0, 1, 0, 245)], &counts);
}

#[test]
fn empty_tasks_take_their_dispatch_and_equal_clocks_go_by_index() {
    // Dispatch takes 3. Task 1 is empty: it ends at 3 on core 0 before task 2, which ends at 3 on core 1. Core 0 takes 3 (3 + 3 .. 8),
    // core 1 4 (6 .. 6); 5 waits for both: at 6 core 1 has nothing; at 8 core 0 takes it (11 .. 12).
    let trace =
        "task 1\ntask 2\nx 0\ntask 3\nx 2\ntask 4\ntask 5\nx 1\ndep 3 5\ndep 4 5\ndep 4 5\n";
    let rows = [
        (0, 1, 3, 3),
        (1, 2, 3, 3),
        (1, 4, 6, 6),
        (0, 3, 6, 8),
        (0, 5, 11, 12),
    ];
    check(
        "fcfs",
        &machine(2, "none", 3, ""),
        trace,
        &rows,
        &[("makespan", 12), ("bound", 9)],
    );
}

/// Tasks of 10 cycles each, described by the rest of their `task` line.
fn tens(tasks: &[&str]) -> String {
    let number = |(place, words): (usize, &&str)| format!("task {} {words}\nx 10\n", place + 1);
    tasks.iter().enumerate().map(number).collect()
}

#[test]
fn ts_by_hand() {
    // S1 belongs to core 0, S2 to core 1. 0: T' = T1 (oldest head), core 0 takes 1 of S1, core 1 takes 7 of S0. 10: core 0 takes 2; core
    // 1 takes 4, and S1 with it. 20: T' = T2; core 0 owns neither S2 nor S1 any more, so it takes the oldest head, 3, and S2; core 1
    // takes 6 of S1. 30: only T0 is left.
    let trace = tens(&[
        "T=1 S=1", "T=1 S=1", "T=2 S=2", "T=1 S=1", "", "T=2 S=1", "T=1 S=0",
    ]);
    let rows = [
        (0, 1, 0, 10),
        (1, 7, 0, 10),
        (0, 2, 10, 20),
        (1, 4, 10, 20),
        (0, 3, 20, 30),
        (1, 6, 20, 30),
        (0, 5, 30, 40),
    ];
    check("ts", &machine(2, "none", 0, ""), &trace, &rows, &[]);
}

#[test]
fn ts_sticky_by_hand() {
    // S1 and S3 belong to core 0, S2 to core 1. 0: T' = T1, the lowest; core 0 takes 6 of S1, its lowest, core 1 takes 3. 10: both stay:
    // 7 and 4. 20: core 0 takes 2 of S3; core 1 has nothing of its own and takes 5, and S3. 30: T' = T2; core 0 takes 1 of S1; core 1
    // owns S2 and S3 and takes 9 of S2. 40: T0; core 0 stays in S1 and takes 8.
    let trace = tens(&[
        "T=2 S=1", "T=1 S=3", "T=1 S=2", "T=1 S=2", "T=1 S=3", "T=1 S=1", "T=1 S=1", "S=1",
        "T=2 S=2",
    ]);
    let rows = [
        (0, 6, 0, 10),
        (1, 3, 0, 10),
        (0, 7, 10, 20),
        (1, 4, 10, 20),
        (0, 2, 20, 30),
        (1, 5, 20, 30),
        (0, 1, 30, 40),
        (1, 9, 30, 40),
        (0, 8, 40, 50),
    ];
    check("ts-sticky", &machine(2, "none", 0, ""), &trace, &rows, &[]);
}

#[test]
fn slifo_by_hand() {
    // Codes come up as a, b, c: a and c belong to core 0, b to core 1. 0: core 0 takes the newest a, 3, core 1 the newest b, 7. 10: both
    // stay: 1 and 2. 20: core 0 takes the newest c, 6; core 1 takes c over, with 5. 30: core 0 stays in c, which is core 1's by now.
    let trace = tens(&[
        "name=a",
        "name=b",
        "name=a",
        "name=c",
        "name=c",
        "name=c",
        "name=b T=9 S=9",
    ]);
    let rows = [
        (0, 3, 0, 10),
        (1, 7, 0, 10),
        (0, 1, 10, 20),
        (1, 2, 10, 20),
        (0, 6, 20, 30),
        (1, 5, 20, 30),
        (0, 4, 30, 40),
    ];
    check("slifo", &machine(2, "none", 0, ""), &trace, &rows, &[]);
}

#[test]
fn critical_path_by_hand() {
    // The ways to the end: 5 from task 1, 1 + 10 from task 2, 10 from task 3, 5 from task 4, whose equal task 1 is older.
    let trace = "task 1\nx 5\ntask 2\nx 1\ntask 3\nx 10\ntask 4\nx 5\ndep 2 3\n";
    let rows = [(0, 2, 0, 1), (0, 3, 1, 11), (0, 1, 11, 16), (0, 4, 16, 21)];
    check(
        "critical-path",
        &machine(1, "none", 0, ""),
        trace,
        &rows,
        &[("bound", 21)],
    );
}

#[test]
fn random_steal_by_hand() {
    // 10: core 1 releases 4 and 5 and takes 5, the newest; core 2 releases 6 and 7 and takes 7. 20: core 0 draws for the first time:
    // e220a8397b1dcdaf mod 2 = 1, the second of the others, core 2: it takes 6. 110: core 1 takes 4, and nothing is left.
    let trace = "task 1\nx 20\ntask 2\nx 10\ntask 3\nx 10\ntask 4\nx 100\ntask 5\nx 100\ntask 6\nx 100\ntask 7\nx 100\n\
        dep 2 4\nfork 2 5\ndep 3 6\ndep 3 7\n";
    let rows = [
        (1, 2, 0, 10),
        (2, 3, 0, 10),
        (0, 1, 0, 20),
        (1, 5, 10, 110),
        (2, 7, 10, 110),
        (0, 6, 20, 120),
        (1, 4, 110, 210),
    ];
    check(
        "random-steal",
        &machine(3, "none", 0, ""),
        trace,
        &rows,
        &[],
    );
}
