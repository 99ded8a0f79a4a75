//! The rules of transfers, and of the lines that schedulers touch, on machines so small that the results follow by hand.

use crate::common::{run, trace};
use tanada_sim::{Machine, Outcome};

/// L1 20 cycles, L2 100 cycles, a hit 1.
fn machine(cores: u16, cluster: u16, top: &str, scheduler: &str) -> Machine {
    let text = format!(
        "name = \"m\"\nmodel = \"contended\"\ncores = {cores}\ncores_per_cluster = {cluster}\nhit_cycles = 1\n\
         dispatch_cycles = 0\ncoherence = \"invalidate\"\ninvalidate_cycles = 10\n{top}\n\
         [[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = \"8K\"\nways = 2\nline = 64\n\
         replacement = \"lru\"\nmiss_cycles = 20\n\
         [[cache]]\nlevel = 2\nkind = \"unified\"\nper = \"cluster\"\nsize = \"64K\"\nways = 2\nline = 64\n\
         replacement = \"lru\"\nmiss_cycles = 100\n[scheduler]\n{scheduler}\n"
    );
    Machine::parse(&text, "m.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn outcome(machine: &Machine, text: &str) -> Outcome {
    run(
        machine,
        "fcfs",
        0,
        &trace(&format!("tanada-trace 1\n{text}")),
    )
    .0
}

const TWO_WRITERS: &str = "task 1\nw 0 8\ntask 2\nw 0 8\n";

#[test]
fn a_line_is_on_one_way_at_a_time() {
    // Core 0: 1 + 20 + 100. Core 1 finds the line in the L2: 1 + 10 + 20.
    let free = machine(2, 2, "", "");
    assert_eq!(outcome(&free, TWO_WRITERS).makespan, 121);
    // It waits until core 0 has the line, at 120.
    let serial = machine(2, 2, "transfers = \"serial\"", "");
    assert_eq!(outcome(&serial, TWO_WRITERS).makespan, 120 + 31);
    // Two readers do not wait for each other.
    let readers = TWO_WRITERS.replace('w', "r");
    assert_eq!(outcome(&serial, &readers).makespan, 121);
}

#[test]
fn a_copy_in_a_cache_that_others_share_is_far() {
    // Both miss everything; the way of core 1 takes 500 instead of 120.
    let far = machine(2, 1, "far_invalidate_cycles = 500", "");
    assert_eq!(outcome(&far, TWO_WRITERS).makespan, 1 + 10 + 500);
    let nearer = machine(2, 1, "far_invalidate_cycles = 50", "");
    assert_eq!(outcome(&nearer, TWO_WRITERS).makespan, 1 + 10 + 120);
    let shared = machine(2, 2, "far_invalidate_cycles = 500", "");
    assert_eq!(outcome(&shared, TWO_WRITERS).makespan, 121);
}

#[test]
fn a_call_touches_the_lines_of_the_pool_and_of_the_node() {
    let native = machine(
        1,
        1,
        "",
        "layout = \"native\"\ncall_cycles = 5\npool_cycles = 7",
    );
    // The call; available, lock and slot miss; available again; both lines of the node; the task.
    let makespan = 5 + 121 + 121 + 121 + 7 + 1 + 2 * 121 + 100;
    assert_eq!(outcome(&native, "task 1\nx 100\n").makespan, makespan);
}

#[test]
fn a_wake_up_takes_its_time_and_a_core_that_searches_needs_none() {
    let tasks = "task 1\nx 100000\ntask 2\nx 50000\ntask 3\nx 50000\ndep 1 2\ndep 1 3\n";
    let with = |scheduler: &str| {
        let scheduler = format!("layout = \"native\"\ncall_cycles = 5\n{scheduler}");
        outcome(&machine(2, 2, "", &scheduler), tasks)
    };
    let woken = |outcome: &Outcome| outcome.contention.as_ref().map(|seen| seen.calls.woken);
    let at_once = with("");
    assert_eq!(woken(&at_once), Some(1));
    let late = with("wake_cycles = 7000\nwake_call_cycles = 3000");
    assert_eq!(woken(&late), Some(1));
    assert_eq!(late.makespan, at_once.makespan + 10_000);
    let searching = with("wake_cycles = 7000\nsearch_rounds = 60000\nsearch_cycles = 100");
    assert_eq!(woken(&searching), Some(0));
    assert!(searching.makespan < at_once.makespan + 7000);
}

#[test]
fn keys_of_the_other_layout_are_refused() {
    let wrong = |scheduler: &str| {
        let text = format!(
            "name = \"m\"\nmodel = \"contended\"\ncores = 1\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n\
             [scheduler]\n{scheduler}\n"
        );
        Machine::parse(&text, "m.toml").unwrap_err().to_string()
    };
    let text = wrong("layout = \"native\"\npool_lines = 2");
    assert!(text.contains("`pool_lines` is not for `layout"), "{text}");
    let text = wrong("search_rounds = 2");
    assert!(text.contains("`search_rounds` needs `layout"), "{text}");
}
