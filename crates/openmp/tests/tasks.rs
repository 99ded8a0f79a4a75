//! Tasks of programs on our dispatchers: under every native policy, with few and many threads, and in programs that are not taken over.

// Other tests of this crate use more of it.
#[allow(dead_code)]
mod common;

use common::{Program, adapter, programs, run};

/// Programs of `programs/` that have tasks.
const WITH_TASKS: [&str; 13] = [
    "cancel",
    "cholesky",
    "coarse",
    "depend",
    "detach",
    "many",
    "objects",
    "recursion",
    "reductions",
    "taskloop",
    "tasks",
    "trees",
    "wavefront",
];

/// Policies, one of each kind: with and without an exact rule, with and without groups, and one that lets threads idle. The command's tests
/// go through the registry.
const POLICIES: [&str; 6] = [
    "random-steal",
    "ts-local",
    "locality-steal",
    "fcfs",
    "ts",
    "serial",
];

fn with(policy: &str, threads: u32) -> Vec<(String, String)> {
    let library = adapter().to_string_lossy().into_owned();
    [
        ("LD_PRELOAD", library.as_str()),
        ("TANADA_OMP", "governor=all"),
        ("TANADA_OMP_TASKS", policy),
        ("TANADA_OMP_VERBOSE", "1"),
        ("OMP_NUM_THREADS", &threads.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn programs_with_tasks() -> impl Iterator<Item = &'static Program> {
    programs().iter().filter(|program| {
        let stem = program.name.split('/').next().unwrap_or_default();
        WITH_TASKS.contains(&stem)
    })
}

fn good(policy: &str, threads: u32) {
    for program in programs_with_tasks() {
        let run = run(program, &[], &with(policy, threads));
        let verdict = run.verdict();
        assert!(
            run.good(),
            "{} under {policy}, {threads} threads: {verdict}",
            program.name
        );
    }
}

#[test]
fn programs_are_right_under_every_kind_of_policy() {
    for policy in POLICIES {
        good(policy, 3);
    }
}

#[test]
fn programs_are_right_with_any_number_of_threads() {
    for threads in [1, 2, 5, 16] {
        good("1", threads);
    }
}

/// What the library says shows that the programs above really were taken over, and that those without tasks are not.
#[test]
fn only_programs_with_tasks_are_taken_over() {
    let mut seen = [0, 0];
    for program in programs() {
        let stem = program.name.split('/').next().unwrap_or_default();
        let taken = match stem {
            "tasks" | "wavefront" => true,
            "cg" | "locks" => false,
            _ => continue,
        };
        let run = run(program, &[], &with("fcfs", 2));
        let said = if taken {
            "tanada: tasks run under fcfs"
        } else {
            "tanada: the program has no tasks"
        };
        assert!(run.good(), "{}: {}", program.name, run.verdict());
        assert!(
            run.output.contains(said),
            "{}: {}",
            program.name,
            run.output
        );
        seen[usize::from(taken)] += 1;
    }
    assert!(programs().is_empty() || seen.iter().all(|&count| count > 0));
}

#[test]
fn a_wrong_policy_leaves_tasks_to_the_runtime() {
    for program in programs_with_tasks().filter(|program| program.name.starts_with("tasks/")) {
        let run = run(program, &[], &with("no-such-policy", 2));
        assert!(run.good(), "{}: {}", program.name, run.verdict());
        let said = "unknown policy \"no-such-policy\"";
        assert!(run.output.contains(said), "{}", run.output);
    }
}
