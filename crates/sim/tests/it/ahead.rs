//! Cores that run ahead through their private levels reach the results of the plain reading of the rules.

use proptest::prelude::*;
use tanada_policy::registry;
use tanada_sim::{Machine, Options, Outcome, Run, simulate};
use tanada_trace::{Groups, Trace};

/// One `[[cache]]` table: kind, per, sets, ways, log2 of how much longer the line is than above, replacement, miss_cycles.
type Table = (usize, usize, u64, u64, u32, usize, u64);

fn table() -> impl Strategy<Value = Table> {
    let sets = prop_oneof![1_u64..4, Just(4), Just(8), Just(5)];
    let ways = prop_oneof![1_u64..6, Just(2), Just(4), Just(8)];
    (
        0_usize..4,
        0_usize..4,
        sets,
        ways,
        0_u32..3,
        0_usize..3,
        0_u64..30,
    )
}

#[derive(Clone, Debug)]
struct Shape {
    cores: u16,
    per_cluster: u64,
    per_socket: u64,
    hit: u64,
    dispatch: u64,
    invalidate: bool,
    seed: u64,
    line: u32,
    levels: Vec<(Table, Table)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let levels = prop::collection::vec((table(), table()), 0..4);
    let numbers = (
        1_u16..6,
        1_u64..4,
        1_u64..6,
        0_u64..3,
        prop_oneof![Just(0_u64), 0_u64..9],
    );
    (numbers, any::<bool>(), 0_u64..4, 0_u32..7, levels).prop_map(
        |((cores, per_cluster, per_socket, hit, dispatch), invalidate, seed, line, levels)| Shape {
            cores,
            per_cluster,
            per_socket,
            hit,
            dispatch,
            invalidate,
            seed,
            line,
            levels,
        },
    )
}

impl Shape {
    fn text(&self) -> String {
        let mut text = format!(
            "name = \"m\"\nmodel = \"uniform\"\ncores = {}\ncores_per_cluster = {}\ncores_per_socket = {}\nhit_cycles = {}\n\
             dispatch_cycles = {}\ncoherence = \"{}\"\nseed = {}\n",
            self.cores,
            self.per_cluster,
            self.per_socket,
            self.hit,
            self.dispatch,
            if self.invalidate {
                "invalidate"
            } else {
                "none"
            },
            self.seed
        );
        let mut shift = self.line;
        for (level, (a, b)) in self.levels.iter().enumerate() {
            shift += a.4;
            // 0: split, 1: unified, 2: data only, 3: instruction only.
            let tables: &[(&str, &Table)] = match a.0 {
                0 => &[("instruction", a), ("data", b)],
                1 => &[("unified", a)],
                2 => &[("data", a)],
                _ => &[("instruction", a)],
            };
            for (kind, t) in tables {
                let line = 1_u64 << shift;
                text += &format!(
                    "[[cache]]\nlevel = {}\nkind = \"{kind}\"\nper = \"{}\"\nsize = {}\nways = {}\nline = {line}\n\
                     replacement = \"{}\"\nmiss_cycles = {}\n",
                    level + 1,
                    ["core", "core", "cluster", "machine"][t.1],
                    t.2 * t.3 * line,
                    t.3,
                    ["fifo", "lru", "random"][t.5],
                    t.6
                );
            }
        }
        text
    }
}

/// Tasks with their records, and which of those before each waits for (by how many numbers back).
type Tasks = Vec<(Vec<(u8, u64, u64)>, Vec<u32>)>;

fn tasks() -> impl Strategy<Value = Tasks> {
    let size = prop_oneof![20 => 1_u64..40, 3 => 40_u64..300, 1 => 4000_u64..9000];
    let address = prop_oneof![4 => 0_u64..512, 1 => 0_u64..5000];
    let record = (0_u8..4, address, size);
    let task = (
        prop::collection::vec(record, 0..25),
        prop::collection::vec(1_u32..6, 0..3),
    );
    prop::collection::vec(task, 0..14)
}

fn trace(tasks: &Tasks) -> Trace {
    let mut text = String::from("tanada-trace 1\n");
    for (number, (records, waits)) in tasks.iter().enumerate() {
        text += &format!(
            "task {number} T={} S={} name=n{}\n",
            number / 3,
            number % 4,
            number % 3
        );
        for (kind, address, size) in records {
            text += &match kind {
                0 => format!("x {}\n", address % 40),
                1 => format!("i {address} {size}\n"),
                2 => format!("r {address} {size}\n"),
                _ => format!("w {address} {size}\n"),
            };
        }
        for back in waits {
            if let Some(from) = number.checked_sub(*back as usize) {
                text += &format!("dep {from} {number}\n");
            }
        }
    }
    Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn running_ahead_changes_nothing(shape in shape(), tasks in tasks(), policy in 0_usize..100) {
        let text = shape.text();
        let machine = Machine::parse(&text, "m.toml").map_err(|wrong| TestCaseError::fail(format!("{wrong}\n{text}")))?;
        let trace = trace(&tasks);
        let policy = registry::all()[policy % registry::all().len()].name;
        let run = |merge_everything| {
            let mut runs: Vec<Run> = Vec::new();
            let options = Options { merge_everything, ..Options::default() };
            let outcome = simulate(&trace, &machine, policy, &options, &mut runs);
            outcome.map(|outcome| (outcome, runs)).map_err(|wrong| wrong.to_string())
        };
        let (ahead, plain) = (run(false), run(true));
        prop_assert_eq!(&ahead, &plain, "{}", text);
        let (outcome, _) = ahead.map_err(TestCaseError::fail)?;
        prop_assert!(outcome.bound <= outcome.makespan, "{:?}\n{}", outcome, text);
        for cache in &outcome.caches {
            prop_assert!(cache.unavoidable <= cache.count.misses && cache.count.misses <= cache.count.accesses);
        }
        for (stalls, busy) in outcome.stalls.iter().zip(&outcome.busy) {
            let caches: u64 = stalls.caches.iter().sum();
            let sum = stalls.compute + caches + stalls.scheduling;
            prop_assert_eq!(sum, *busy);
            prop_assert_eq!(sum + stalls.idle, outcome.makespan);
        }
        let named: u64 = outcome.by_name.iter().map(|one| one.tasks).sum();
        prop_assert_eq!(named, outcome.tasks);
    }
}

/// Simulates with and without running ahead, and returns the outcome, which must be the same.
fn ahead_and_merged(trace: &Trace, machine: &Machine) -> Outcome {
    let [ahead, merged] = [false, true].map(|merge_everything| {
        let options = Options {
            merge_everything,
            ..Options::default()
        };
        simulate(trace, machine, "fcfs", &options, &mut ()).expect("it ends")
    });
    assert_eq!(ahead, merged);
    ahead
}

#[test]
fn the_last_piece_of_a_long_record_counts_for_the_bound() {
    // All but the last of the second record's 4,097 lines hit, so its last piece alone has a request.
    let machine = "name = \"m\"\nmodel = \"uniform\"\ncores = 2\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n\
        [[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = \"512K\"\n\
        ways = 4\nline = 64\nreplacement = \"lru\"\nmiss_cycles = 3\n\
        [[cache]]\nlevel = 2\nkind = \"data\"\nper = \"machine\"\nsize = \"1M\"\n\
        ways = 4\nline = 64\nreplacement = \"lru\"\nmiss_cycles = 5\n";
    let machine = Machine::parse(machine, "m.toml").expect("sound");
    let text = b"tanada-trace 1\ntask 1\nr 0 262144\nr 0 262208\n";
    let trace = Trace::parse(text, "t", &Groups::Plain).expect("sound");
    let outcome = ahead_and_merged(&trace, &machine);
    let unavoidable: Vec<u64> = outcome.caches.iter().map(|one| one.unavoidable).collect();
    assert_eq!(unavoidable, [4097, 4097]);
}

#[test]
fn a_record_of_many_lines_takes_no_room() {
    // 2^32 - 1 bytes in lines of 64: 2^26 touches, all of which miss.
    let machine = "name = \"m\"\nmodel = \"uniform\"\ncores = 2\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n\
        [[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = \"1K\"\n\
        ways = 2\nline = 4096\nreplacement = \"lru\"\nmiss_cycles = 3\n\
        [[cache]]\nlevel = 2\nkind = \"data\"\nper = \"machine\"\nsize = \"64K\"\n\
        ways = 2\nline = 4096\nreplacement = \"lru\"\nmiss_cycles = 5\n";
    let machine = Machine::parse(&machine.replace("1K", "8K"), "m.toml").expect("sound");
    let trace = Trace::parse(
        b"tanada-trace 1\ntask 1\nr 0 4294967295\ntask 2\nw 64 4294967295\n",
        "t",
        &Groups::Plain,
    );
    let trace = trace.expect("sound");
    let outcome = ahead_and_merged(&trace, &machine);
    // Task 1 has 2^20 lines. Its touches come first, all at time 0; then those of task 2, one line more, which miss again.
    assert_eq!(outcome.caches[0].count.accesses, (2 << 20) + 1);
    assert_eq!(outcome.makespan, ((1 << 20) + 1) * 9);
}
