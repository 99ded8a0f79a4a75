//! How much memory a simulation takes: some bytes a task and a dependency, whatever the tasks do.

use std::path::Path;
use tanada_policy::registry;
use tanada_sim::{Options, machines, simulate};
use tanada_testing::allocator::Counting;
use tanada_trace::{BinaryWriter, Groups, NewTask, Record, Sink, Trace};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// `tasks` tasks in a band of `width`: each waits for one of the row before. Their records do not compress, so that the bounded cache of
/// blocks is full in the smaller trace, too.
fn write(path: &Path, tasks: u32, width: u32) -> usize {
    let file = std::fs::File::create(path).expect("a file");
    let mut out = BinaryWriter::new(std::io::BufWriter::new(file)).expect("a trace");
    for id in 0..tasks {
        let task = NewTask {
            id,
            t: 1 + id / (4 * width),
            s: 1 + id % 8,
            ..NewTask::default()
        };
        out.task(&task).expect("a task");
        for record in 0..24_u64 {
            let cycles = (u64::from(id) * 24 + record).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            out.record(Record::compute(cycles)).expect("a record");
        }
    }
    let mut edges = 0;
    for id in width..tasks {
        out.edge(id - width, id, false).expect("an edge");
        edges += 1;
    }
    out.finish().expect("it is complete");
    edges
}

/// Most bytes in use to load a trace of `tasks` tasks, and to run it.
fn most(path: &Path, tasks: u32, policy: &str) -> [usize; 2] {
    let machine = machines::find("toshiba").expect("it is registered");
    let before = ALLOCATOR.restart_peak();
    let trace = Trace::open(path, &Groups::Plain).expect("a sound trace");
    let loaded = ALLOCATOR.peak() - before;
    ALLOCATOR.restart_peak();
    let outcome = simulate(&trace, &machine, policy, &Options::default(), &mut ());
    assert_eq!(outcome.expect("it ends").tasks, u64::from(tasks));
    [loaded, ALLOCATOR.peak() - before]
}

#[test]
fn a_task_and_a_dependency_take_at_most_64_bytes_together() {
    // A bit less and a bit more than a power of two, so that doubling would show; the difference leaves out what does not grow.
    const FEW: u32 = (1 << 17) - 100;
    const MANY: u32 = (1 << 18) + 100;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |tasks: u32| folder.path().join(format!("{tasks}.tnb"));
    for tasks in [FEW, MANY] {
        assert_eq!(write(&path(tasks), tasks, 64), tasks as usize - 64);
    }
    for entry in registry::all() {
        let most = |tasks| most(&path(tasks), tasks, entry.name);
        let (few, many) = (most(FEW), most(MANY));
        let each = |i: usize| (many[i] - few[i]) as f64 / f64::from(MANY - FEW);
        let (load, run) = (each(0), each(1));
        println!(
            "{}: {load:.1} bytes to load, {run:.1} to run, a task and a dependency; {} in all",
            entry.name, many[1]
        );
        assert!(load <= 64.0 && run <= 64.0, "{}: {load} {run}", entry.name);
    }
}
