//! `record --omp-tasks`: tasks of OpenMP programs of gcc and clang, with the dependences that their clauses say. What needs an emulator or
//! a compiler that is not installed is skipped, and says so.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{Said, bad, folder, good, run};
use tanada_policy::registry;
use tanada_trace::{Groups, Kind, Trace};

const COMPILERS: [&str; 2] = ["gcc", "clang"];

/// Compiles `source` to `program` in `folder`. Returns whether the compiler and the emulator are there.
fn compile(folder: &Path, compiler: &str, source: &Path, more: &[&str]) -> bool {
    let emulator = format!("qemu-{}", std::env::consts::ARCH);
    let what = "recording OpenMP tasks";
    if tanada_testing::program(&[&emulator], "qemu-user", what).is_none()
        || tanada_testing::program(&[compiler], compiler, what).is_none()
    {
        return false;
    }
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-w", "-fopenmp", "-D_GNU_SOURCE"])
        .arg(source)
        .args(["-o", "program", "-lm"])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    true
}

/// Returns a program of the crate `openmp`.
fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../openmp/programs")
        .join(name)
}

/// Records the program in `folder` with these arguments.
fn record(folder: &Path, output: &str, arguments: &[&str]) -> Said {
    let options = ["record", "--omp-tasks", "--fetch", "none", "-o", output];
    let all = [&options[..], &["--", "./program"], arguments].concat();
    let said = run(folder, &all);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    said
}

fn open(folder: &Path, file: &str) -> Trace {
    Trace::open(&folder.join(file), &Groups::Plain).expect("a good trace")
}

/// Checks that `a.tnb` and `b.tnb` are the same recording.
fn same(folder: &Path) {
    let [a, b] = ["a.tnb", "b.tnb"].map(|name| fs::read(folder.join(name)).expect("a trace"));
    assert!(a == b, "other bytes");
}

fn edges(trace: &Trace) -> BTreeSet<(u32, u32)> {
    let all = 0..trace.len() as u32;
    all.flat_map(|task| {
        let successors = trace.successors(task).iter();
        successors.map(|edge| (task, edge.to())).collect::<Vec<_>>()
    })
    .collect()
}

/// A task as a loop creates it: the places that it reads and the one that it writes.
type Created = (Vec<usize>, usize);

/// Finds the tasks of `created` in the trace, by the numbers of the addresses in their dependences, which are given in the order in which
/// addresses appear. Compilers list what is read forwards or backwards. Tasks with the same dependences have the order of their creation.
fn places(trace: &Trace, created: &[Created]) -> Vec<u32> {
    let hint = |task, name| trace.hint(task, name).unwrap_or("").to_owned();
    let all = 0..trace.len() as u32;
    let mut found: Vec<(String, String, u32)> = all
        .map(|task| (hint(task, "in"), hint(task, "out"), task))
        .collect();
    for backwards in [false, true] {
        let mut known = Vec::new();
        let mut number = |place: usize| {
            let at = known.iter().position(|&other| other == place);
            at.unwrap_or_else(|| {
                known.push(place);
                known.len() - 1
            }) + 1
        };
        let mut expected: Vec<(String, String, usize)> = Vec::new();
        for (index, (reads, writes)) in created.iter().enumerate() {
            let mut reads = reads.clone();
            if backwards {
                reads.reverse();
            }
            let mut numbers: Vec<String> = Vec::new();
            for place in reads {
                let text = number(place).to_string();
                if !numbers.contains(&text) {
                    numbers.push(text);
                }
            }
            expected.push((numbers.join(","), number(*writes).to_string(), index));
        }
        found.sort_unstable();
        expected.sort_unstable();
        let same = found.len() == expected.len()
            && (found.iter().zip(&expected)).all(|(a, b)| (&a.0, &a.1) == (&b.0, &b.1));
        if same {
            let mut tasks = vec![0; created.len()];
            for (&(.., task), &(.., index)) in found.iter().zip(&expected) {
                tasks[index] = task;
            }
            return tasks;
        }
    }
    panic!("the trace has other tasks than the loops: {found:?}");
}

#[test]
fn a_wavefront_has_the_edges_that_its_loops_imply() {
    const COLUMNS: usize = 7;
    const ROWS: usize = 5;
    const FRAMES: usize = 2;
    let place = |row: usize, column: usize| (row + 1) * (COLUMNS + 2) + column + 1;
    let index = |frame, row, column| (frame * ROWS + row) * COLUMNS + column;
    let (mut created, mut implied) = (Vec::new(), BTreeSet::new());
    for frame in 0..FRAMES {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let here = place(row, column);
                let above = here - (COLUMNS + 2);
                created.push((vec![here - 1, above, above + 1], here));
                let mut after = |row, column| {
                    let edge = (index(frame, row, column), created.len() - 1);
                    implied.insert(edge);
                };
                if column > 0 {
                    after(row, column - 1);
                }
                if row > 0 {
                    after(row - 1, column);
                    if column + 1 < COLUMNS {
                        after(row - 1, column + 1);
                    }
                }
            }
        }
        // The barrier at the end of a region.
        if frame > 0 {
            implied.insert((index(frame, 0, 0) - 1, index(frame, 0, 0)));
        }
    }
    for compiler in COMPILERS {
        let folder = folder();
        if !compile(folder.path(), compiler, &source("wavefront.c"), &[]) {
            continue;
        }
        let sizes = [COLUMNS, ROWS, FRAMES].map(|size| size.to_string());
        let arguments = [
            "--columns",
            &sizes[0],
            "--rows",
            &sizes[1],
            "--frames",
            &sizes[2],
            "--body",
            "0",
        ];
        record(folder.path(), "a.tnb", &arguments);
        record(folder.path(), "b.tnb", &arguments);
        same(folder.path());
        let trace = open(folder.path(), "a.tnb");
        let tasks = places(&trace, &created);
        let implied = implied.iter().map(|&(a, b)| (tasks[a], tasks[b]));
        assert_eq!(edges(&trace), implied.collect(), "{compiler}");
    }
}

#[test]
fn a_factorisation_has_the_edges_that_its_loops_imply_and_runs_under_every_policy() {
    const TILES: usize = 5;
    // The k-th task that writes a tile, of which the last one factors or divides it.
    let (mut created, mut writes) = (Vec::<Created>::new(), Vec::new());
    let tile = |i: usize, j: usize| i * TILES + j;
    for k in 0..TILES {
        created.push((vec![], tile(k, k)));
        writes.push((k, k, k));
        for i in k + 1..TILES {
            created.push((vec![tile(k, k)], tile(i, k)));
            writes.push((i, k, k));
        }
        for i in k + 1..TILES {
            for j in k + 1..=i {
                created.push((vec![tile(i, k), tile(j, k)], tile(i, j)));
                writes.push((i, j, k));
            }
        }
    }
    let of = |write| writes.iter().position(|&other| other == write);
    let mut implied = BTreeSet::new();
    for (index, &(i, j, k)) in writes.iter().enumerate() {
        let mut after = |write| {
            implied.insert((of(write).expect("a task"), index));
        };
        if k > 0 {
            after((i, j, k - 1));
        }
        if k < j {
            after((i, k, k));
            after((j, k, k));
        } else if i > j {
            after((j, j, j));
        }
    }
    for compiler in COMPILERS {
        let folder = folder();
        if !compile(folder.path(), compiler, &source("cholesky.c"), &[]) {
            continue;
        }
        let (size, tile) = ((TILES * 8).to_string(), "8");
        let arguments = ["--size", &size, "--tile", tile];
        record(folder.path(), "a.tnb", &arguments);
        record(folder.path(), "b.tnb", &arguments);
        same(folder.path());
        let trace = open(folder.path(), "a.tnb");
        let tasks = places(&trace, &created);
        let edge = |&(a, b): &(usize, usize)| (tasks[a], tasks[b]);
        assert_eq!(
            edges(&trace),
            implied.iter().map(edge).collect(),
            "{compiler}"
        );
        // A tile is written by the tasks that say so: 64 numbers of 8 bytes, or vectors of them.
        let mut reader = trace.reader().expect("a reader");
        for &task in &tasks {
            let mut cursor = reader.start(task);
            let (mut bytes, mut window) = (0, Vec::new());
            loop {
                reader.fill(&mut cursor, &mut window).expect("good records");
                if window.is_empty() {
                    break;
                }
                let writes = window.iter().filter(|record| record.kind == Kind::Write);
                bytes += writes.map(|record| u64::from(record.size)).sum::<u64>();
                window.clear();
            }
            assert!(
                bytes >= 36 * 8,
                "{compiler}: task {task} writes {bytes} bytes"
            );
        }
        for policy in registry::all() {
            let name = policy.name;
            let arguments = ["sim", "a.tnb", "--machine", "toshiba", "--policy", name];
            good(folder.path(), &arguments);
        }
    }
}

/// One of each way in which a program waits. Tasks are named by their lines.
const WAITS: &str = r#"
#include <omp.h>
#include <stdint.h>
static volatile double data[8][64];
__attribute__((noinline)) static void toil(int row) { for (int i = 0; i < 64; i++) data[row][i] += i; }
#define TASK _Pragma("omp task")
int main(void) {
    omp_event_handle_t event;
    int priority = 3;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
_Pragma("omp task shared(event)") { toil(0); /* line 13 */
TASK { toil(1); /* 14 */ }
_Pragma("omp taskwait") toil(2); }
_Pragma("omp taskgroup") {
TASK { /* 17 */
TASK { toil(3); /* 18 */ } } }
_Pragma("omp task if(0)") { toil(4); /* 19 */ }
_Pragma("omp task detach(event) depend(out: data[5][0])") { toil(5); /* 20 */ }
_Pragma("omp task depend(in: data[5][0])") { toil(5); /* 21 */ }
_Pragma("omp task priority(priority) shared(event)") { toil(6); omp_fulfill_event(event); /* 22 */ }
_Pragma("omp taskwait depend(in: data[5][0])")
_Pragma("omp task untied final(1)") { TASK { toil(7); } _Pragma("omp taskyield") toil(7); /* 24 */ }
    }
#pragma omp parallel
#pragma omp single
_Pragma("omp taskloop num_tasks(2)") for (int i = 0; i < 8; i++) { toil(i); /* 28 */ }
    return omp_get_max_threads() != 1;
}
"#;

#[test]
fn every_way_of_waiting_is_recorded() {
    for compiler in COMPILERS {
        let folder = folder();
        let source = folder.path().join("program.c");
        fs::write(&source, WAITS).expect("a source");
        let flags: &[&str] = match compiler {
            "clang" => &["-fopenmp-version=51"],
            _ => &[],
        };
        if !compile(folder.path(), compiler, &source, flags) {
            continue;
        }
        let said = run(
            folder.path(),
            &[
                "record",
                "--omp-tasks",
                "--json",
                "--env",
                "OMP_MAX_TASK_PRIORITY=5",
                "-o",
                "a.tnb",
                "--",
                "./program",
            ],
        );
        assert_eq!(said.code, Some(0), "{compiler}: {}{}", said.out, said.err);
        assert_eq!(said.err, "", "{compiler}");
        let trace = open(folder.path(), "a.tnb");
        let of_line = |line: u32| -> Vec<u32> {
            let name = format!("program.c:{line}");
            let all = 0..trace.len() as u32;
            all.filter(|&task| trace.name(task) == name).collect()
        };
        let tasks: Vec<usize> = [13, 14, 17, 18, 19, 20, 21, 22, 24, 28]
            .map(|line| of_line(line).len())
            .into();
        assert_eq!(tasks, [2, 1, 1, 1, 1, 1, 1, 1, 1, 2], "{compiler}");
        let ordered = |one: u32, other: u32| {
            let mut left = vec![one];
            while let Some(task) = left.pop() {
                if task == other {
                    return true;
                }
                left.extend(trace.successors(task).iter().map(|edge| edge.to()));
            }
            false
        };
        let (a, b) = (of_line(13), of_line(28));
        let one = |line| of_line(line)[0];
        for (before, after) in [
            (a[0], one(14)),
            (one(14), a[1]),
            (one(17), one(18)),
            (one(18), one(19)),
            (one(19), one(20)),
            (one(20), one(21)),
            (one(22), one(21)),
            (one(22), one(24)),
            (one(20), one(24)),
            (one(24), b[0]),
            (a[1], b[1]),
        ] {
            assert!(
                ordered(before, after),
                "{compiler}: {before} before {after}"
            );
        }
        for (x, y) in [
            (a[0], one(19)),
            (one(20), one(22)),
            (one(21), one(24)),
            (b[0], b[1]),
        ] {
            assert!(!ordered(x, y) && !ordered(y, x), "{compiler}: {x} and {y}");
        }
        assert_eq!(trace.hint(one(22), "priority"), Some("3"), "{compiler}");
        assert_eq!(trace.hint(a[1], "part"), Some("2"), "{compiler}");
    }
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = folder();
    let folder = folder.path();
    let source = folder.join("program.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("a source");
    let record = ["record", "--omp-tasks", "-o", "a.tnb", "--", "./program"];
    if !compile(folder, "gcc", &source, &[]) {
        return;
    }
    bad(folder, &record, 1, &["it made no tasks of OpenMP"]);
    if compile(folder, "gcc", &source, &["-static"]) {
        bad(folder, &record, 1, &["it is linked statically"]);
    }
    let text = "static volatile int x;\nint main(void) {\n#pragma omp target\n;\n#pragma omp parallel\n\
        {\n#pragma omp task\nx++;\n}\nreturn 0; }\n";
    fs::write(&source, text).expect("a source");
    if compile(folder, "gcc", &source, &["-foffload=disable"]) {
        bad(
            folder,
            &record,
            1,
            &["it made no tasks of OpenMP", "GOMP_target"],
        );
    }
    let both = [&["record", "--omp-tasks", "--skip", "3"][..], &record[2..]].concat();
    bad(folder, &both, 2, &["--skip"]);
    assert!(!folder.join("a.tnb").exists());
}
