//! Unsafe code stands in few, small, listed files; every other crate forbids it.

use super::code::{has_word, without_comments_and_strings};
use super::{Report, Workspace};

/// The files that may hold `unsafe`, the most lines that each may have, and what they need it for.
///
/// A file grows past its limit only after somebody has asked whether the new part could stand elsewhere without `unsafe`.
const LISTED: &[(&str, usize, &str)] = &[
    (
        "crates/h264/src/plane.rs",
        380,
        "shared access to one picture by several tasks",
    ),
    (
        "crates/h264/src/recon/kernels.rs",
        260,
        "calls of functions compiled for AVX2, where the processor has it",
    ),
    (
        "crates/h264/src/recon/lanes.rs",
        110,
        "loads and stores of vector registers",
    ),
    (
        "crates/h264/tests/no_allocation.rs",
        120,
        "counting allocations",
    ),
    (
        "crates/laws/src/toy.rs",
        350,
        "handles of the toy engine's tasks",
    ),
    (
        "crates/laws/tests/model_visible.rs",
        200,
        "handles of tasks that threads under a model checker pass around",
    ),
    (
        "crates/laws/tests/many_threads.rs",
        250,
        "handles of tasks that real threads pass around",
    ),
    (
        "crates/peers/src/native.rs",
        280,
        "task bodies in C, peers that are shared objects",
    ),
    ("crates/queues/src/deque.rs", 350, "the work-stealing deque"),
    ("crates/queues/src/ready.rs", 120, "handles from words"),
    ("crates/queues/src/slot.rs", 100, "a task in one word"),
    (
        "crates/queues/tests/common/mod.rs",
        60,
        "handles made up by tests",
    ),
    ("crates/runtime/src/fork.rs", 60, "the hook of fork(2)"),
    (
        "crates/runtime/src/graph/bodies.rs",
        90,
        "a template's closures, packed",
    ),
    (
        "crates/runtime/src/graph/core.rs",
        430,
        "the flag of a cancel handle, read without a lock; names of tasks that are left",
    ),
    (
        "crates/runtime/src/graph/instance.rs",
        200,
        "rooms of runs, made and freed",
    ),
    (
        "crates/runtime/src/graph/run.rs",
        420,
        "nodes of templates, reached through pointers",
    ),
    (
        "crates/runtime/src/graph/nested.rs",
        200,
        "graphs inside of tasks",
    ),
    (
        "crates/runtime/src/graph/scope.rs",
        600,
        "tasks that borrow from their scope",
    ),
    (
        "crates/runtime/src/marks/valgrind.rs",
        100,
        "instructions that Valgrind takes for requests",
    ),
    (
        "crates/runtime/src/pool.rs",
        510,
        "graph cores and the default pool behind raw pointers",
    ),
    ("crates/runtime/src/slab.rs", 600, "storage of tasks"),
    ("crates/runtime/src/worker.rs", 400, "the worker loop"),
    (
        "crates/runtime/tests/pools.rs",
        340,
        "processor time of the process",
    ),
    (
        "crates/runtime/tests/template_alloc.rs",
        100,
        "counting allocations",
    ),
    (
        "crates/sim/src/parts/handle.rs",
        40,
        "handles of the simulated engine's tasks",
    ),
    (
        "crates/sim/tests/memory.rs",
        120,
        "counting allocated bytes",
    ),
    (
        "crates/soak/src/ledger.rs",
        280,
        "values that only the runtime orders, and faults for sanitizers",
    ),
    (
        "crates/workloads/src/field.rs",
        280,
        "shared access to one field by several tasks",
    ),
    (
        "crates/workloads/src/h264/slot.rs",
        80,
        "a picture's job, found without a reference count a task",
    ),
    (
        "crates/workloads/tests/no_allocation.rs",
        100,
        "counting allocations",
    ),
    (
        "crates/workloads/src/vector.rs",
        50,
        "loops compiled for the processor that they run on",
    ),
];

pub(super) fn listed(workspace: &Workspace, report: &mut Report) {
    check(workspace, LISTED, report);
}

fn check(workspace: &Workspace, listed: &[(&str, usize, &str)], report: &mut Report) {
    for (path, text) in workspace.texts(".rs") {
        let code = without_comments_and_strings(text);
        let Some(number) = code.lines().position(|line| has_word(line, "unsafe")) else {
            continue;
        };
        match listed.iter().find(|(listed, ..)| *listed == path) {
            None => report.found(
                path,
                number + 1,
                "unsafe code in a file that is not listed in xtask/src/tidy/unsafety.rs",
            ),
            Some((_, most, _)) if text.lines().count() > *most => {
                report.found(
                    path,
                    0,
                    format!(
                        "more than the {most} lines that a file with unsafe code is listed for"
                    ),
                );
            }
            Some(_) => {}
        }
    }
    for (path, ..) in listed
        .iter()
        .filter(|(path, ..)| workspace.text(path).is_none())
    {
        report.skipped(format!("{path} is listed but not there"));
    }
    for package in &workspace.packages {
        roots(workspace, &package.folder, listed, report);
    }
}

/// The crate's root says what the crate holds itself to.
fn roots(workspace: &Workspace, folder: &str, listed: &[(&str, usize, &str)], report: &mut Report) {
    let source = format!("{folder}/src/");
    let has_unsafe = listed.iter().any(|(path, ..)| path.starts_with(&source));
    let wanted = if has_unsafe {
        "#![deny(unsafe_code)]"
    } else {
        "#![forbid(unsafe_code)]"
    };
    for root in ["lib.rs", "main.rs"].map(|name| format!("{source}{name}")) {
        let Some(text) = workspace.text(&root) else {
            continue;
        };
        if !text
            .lines()
            .any(|line| line.trim() == wanted || line.trim() == "#![forbid(unsafe_code)]")
        {
            report.found(&root, 0, format!("`{wanted}` is missing"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[(&str, usize, &str)] = &[("crates/queues/src/deque.rs", 3, "the deque")];

    fn findings(workspace: &Workspace) -> String {
        workspace.findings(|workspace, report| check(workspace, ONE, report))
    }

    #[test]
    fn unlisted_unsafe_code_is_found() {
        let workspace = Workspace::of(&[
            ("crates/queues/src/deque.rs", "unsafe fn a() {}\n"),
            (
                "crates/queues/src/fifo.rs",
                "// unsafe is fine here\nunsafe impl Send for X {}\n",
            ),
        ]);
        assert!(findings(&workspace).starts_with("crates/queues/src/fifo.rs:2: unsafe code"));
    }

    #[test]
    fn a_listed_file_must_stay_small() {
        let workspace =
            Workspace::of(&[("crates/queues/src/deque.rs", "unsafe fn a() {}\n\n\n\n")]);
        assert!(findings(&workspace).contains("more than the 3 lines"));
        assert!(
            workspace
                .skips(|workspace, report| check(workspace, ONE, report))
                .is_empty()
        );
        assert!(
            Workspace::of(&[])
                .skips(|workspace, report| check(workspace, ONE, report))
                .contains("deque.rs is listed but not there")
        );
    }

    #[test]
    fn every_crate_says_what_it_holds_itself_to() {
        let workspace = |queues: &str, trace: &str| {
            let files = [
                ("crates/queues/src/lib.rs", queues),
                ("crates/trace/src/lib.rs", trace),
            ];
            findings(
                &Workspace::of(&files)
                    .package("queues", &[], &[])
                    .package("trace", &[], &[]),
            )
        };
        assert_eq!(
            workspace("#![deny(unsafe_code)]", "#![forbid(unsafe_code)]"),
            ""
        );
        assert_eq!(
            workspace("//! queues", "#![deny(unsafe_code)]")
                .lines()
                .count(),
            2
        );
    }
}
