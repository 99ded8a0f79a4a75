//! The rules of several memories, on machines so small that the results follow by hand.

use crate::common::{run, trace};
use tanada_sim::{Machine, Outcome};

/// An L1 a core, 100 cycles from memory; a fill holds its memory for 10 cycles, a line each link for 8; a link is 50 cycles long.
fn machine(cores: u16, numa: &str, scheduler: &str) -> Machine {
    let text = format!(
        "name = \"m\"\nmodel = \"contended\"\ncores = {cores}\ncores_per_socket = 1\nhit_cycles = 1\ndispatch_cycles = 0\n\
         coherence = \"invalidate\"\ninvalidate_cycles = 7\n\
         [[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = 128\nways = 1\nline = 64\nreplacement = \"lru\"\n\
         miss_cycles = 100\n\
         [memory]\nfill_cycles = 10\nwrite_cycles = 10\n\
         [numa]\nsockets = 3\npage_size = 4096\nlink_cycles = 50\ntransfer_cycles = 8\n{numa}\n\
         [scheduler]\n{scheduler}\n"
    );
    Machine::parse(&text, "m.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

const ROW: &str = "links = \"0-1 1-2\"\npages = \"socket\"";

fn ends(machine: &Machine, policy: &str, text: &str) -> (Outcome, Vec<(u16, u64)>) {
    let text = format!("tanada-trace 1\n{text}");
    let (outcome, runs) = run(machine, policy, 0, &trace(&text));
    let mut ends: Vec<(u16, u64)> = runs.iter().map(|run| (run.core, run.end)).collect();
    ends.sort_unstable();
    (outcome, ends)
}

#[test]
fn lines_of_one_memory_pass_its_links_one_after_the_other() {
    // The example of rule 2.3.
    let reads = "task 1\nr 0 8\ntask 2\nr 64 8\ntask 3\nr 128 8\n";
    let (outcome, found) = ends(&machine(3, ROW, ""), "fcfs", reads);
    assert_eq!(found, [(0, 101), (1, 161), (2, 221)]);
    let contention = outcome.contention.expect("of the contended model");
    let numa = contention.numa.expect("it has several memories");
    assert_eq!((numa.remote_fills, numa.links.grants), (2, 3));
    assert_eq!((numa.links.busy, numa.links.waited), (24, 0));
    let fills: Vec<u64> = contention.memories.iter().map(|one| one.fills).collect();
    assert_eq!((fills, contention.memory.fills), (vec![3, 0, 0], 3));
    // With a link between each two sockets core 2 is as near as core 1, and no line waits.
    let direct = machine(3, "pages = \"socket\"", "");
    assert_eq!(
        ends(&direct, "fcfs", reads).1,
        [(0, 101), (1, 161), (2, 171)]
    );
    // Each has a memory of its own if all touch a page first, or if pages take turns.
    let own = machine(3, "pages = \"first-touch\"", "");
    let pages = reads.replace("64", "4096").replace("128", "8192");
    for machine in [own, machine(3, "pages = \"interleave\"", "")] {
        let (outcome, found) = ends(&machine, "fcfs", &pages);
        assert_eq!(found, [(0, 101), (1, 101), (2, 101)]);
        let numa = outcome.contention.and_then(|contention| contention.numa);
        assert_eq!(numa.expect("as above").remote_fills, 0);
    }
}

#[test]
fn a_page_stays_where_it_was_touched_first() {
    let machine = machine(2, "pages = \"first-touch\"", "");
    // Core 0 touches the page, then computes; core 1 comes at 150 and is one link away.
    let text = "task 1\nr 0 8\nx 500\ntask 2\nx 150\nr 64 8\n";
    assert_eq!(ends(&machine, "fcfs", text).1, [(0, 601), (1, 301)]);
    // The other way round it is core 0 that is away, and its line waits for no other.
    let text = "task 1\nx 150\nr 64 8\ntask 2\nr 0 8\nx 500\n";
    assert_eq!(ends(&machine, "fcfs", text).1, [(0, 301), (1, 601)]);
}

#[test]
fn a_dirty_line_goes_back_over_the_links() {
    let machine = machine(2, "pages = \"socket\"\nsocket = 1", "");
    // Core 0 writes a line, 1 + 100 + 50 cycles; the next one evicts it at 151, is served at once, and takes as long. The dirty line comes
    // to the memory behind it. Core 1 asks for a third one at 155, when the memory is held until 161 by the fill, and then until 171 by
    // the write-back.
    let text = "task 1\nw 0 8\nr 128 8\ntask 2\nx 155\nr 64 8\n";
    let (outcome, found) = ends(&machine, "fcfs", text);
    assert_eq!(found, [(0, 302), (1, 155 + 101 + 16)]);
    let contention = outcome.contention.expect("of the contended model");
    let numa = contention.numa.expect("it has several memories");
    assert_eq!((numa.remote_fills, numa.remote_writes), (2, 1));
    assert_eq!(contention.memory.writes, 1);
}

#[test]
fn the_farthest_removed_copy_counts() {
    // Cores 1 and 2 have the line; then core 0, whose memory it is, writes it: a hit, 7 cycles and two links.
    let text = "task 1\nr 0 8\nx 899\nw 0 8\ntask 2\nr 0 8\ntask 3\nr 0 8\n";
    let (_, found) = ends(&machine(3, ROW, ""), "fcfs", text);
    assert_eq!(found[0], (0, 101 + 899 + 1 + 7 + 100));
    let near = text.replace("task 3\nr 0 8", "task 3\nx 1");
    let (_, found) = ends(&machine(3, ROW, ""), "fcfs", &near);
    assert_eq!(found[0], (0, 101 + 899 + 1 + 7 + 50));
}

/// Core 0 has two tasks behind the first one; the others, which have looked in vain and sleep, are woken at 100.
const FORK: &str =
    "task 1\nx 100\ntask 2 depth=1\nx 1000\ntask 3 depth=1\nx 1000\nfork 1 2\nfork 1 3\n";

#[test]
fn a_steal_takes_longer_for_each_link() {
    let costs = "steal_cycles = 30\nhop_cycles = 4";
    // On two cores the thief has one link to pass.
    let two = machine(2, ROW, costs);
    let wanted = |steal: u64| vec![(0, 100), (0, 1100), (1, 1100 + steal)];
    assert_eq!(ends(&two, "random", FORK).1, wanted(34));
    // Without `[numa]` there is no link.
    let text = "name = \"m\"\nmodel = \"contended\"\ncores = 2\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n\
                [scheduler]\nsteal_cycles = 30\nhop_cycles = 4\n";
    let one = Machine::parse(text, "m.toml").expect("a sound machine");
    assert_eq!(ends(&one, "random", FORK).1, wanted(30));
}

#[test]
fn a_look_at_an_empty_queue_is_a_steal_unless_it_has_a_cost() {
    // Core 1 finds the task at once. What cores 1 and 2 look at before, and core 2 after, is empty: six looks in three searches, and two
    // more of core 0 from 1100 to the makespan, which is 30 later.
    let calls = |costs: &str| {
        let (outcome, found) = ends(&machine(3, ROW, costs), "near-first", FORK);
        assert_eq!(found[1..], [(0, 1100), (1, 1100 + 30)]);
        outcome.contention.expect("of the contended model").calling
    };
    assert_eq!(calls("steal_cycles = 30"), 6 * 30 + 30 + 30);
    let cheap = "steal_cycles = 30\nempty_steal_cycles = 3";
    assert_eq!(calls(cheap), 6 * 3 + 30 + 2 * 3);
}

#[test]
fn one_memory_is_one_memory() {
    let text = |numa: &str| {
        format!(
            "name = \"m\"\nmodel = \"contended\"\ncores = 4\ncores_per_socket = 4\nhit_cycles = 1\ndispatch_cycles = 0\n\
             coherence = \"none\"\n[[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = 128\nways = 1\nline = 64\n\
             replacement = \"lru\"\nmiss_cycles = 100\n[memory]\nfill_cycles = 10\nwrite_cycles = 10\n{numa}"
        )
    };
    let numa = "[numa]\nsockets = 1\npages = \"interleave\"\npage_size = 64\nlink_cycles = 9\ntransfer_cycles = 9\n";
    let tasks: String = (0..20)
        .map(|task| format!("task {task}\nw {} 200\nr {} 90\n", task * 40, task * 70))
        .collect();
    let [one, other] = ["", numa].map(|numa| {
        let machine = Machine::parse(&text(numa), "m.toml").expect("a sound machine");
        let (mut outcome, found) = ends(&machine, "fcfs", &tasks);
        if let Some(contention) = &mut outcome.contention {
            contention.numa = None;
        }
        (outcome, found)
    });
    assert_eq!(one, other);
}
