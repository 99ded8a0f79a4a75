//! The programs of `programs/` end well without the adapter, and under it: with every governor, and with tasks on our dispatchers. They
//! check themselves; `common` compiles them with gcc and clang.

mod common;

use common::{Program, Run, adapter, programs, run};

/// The governors that need nothing but their name. Their list is in the crate of policies, which a library to be preloaded does not export.
const GOVERNORS: [&str; 3] = ["all", "probe", "predict"];

/// Variables that load the adapter with these settings.
fn with(settings: &str) -> Vec<(String, String)> {
    let library = adapter().to_string_lossy().into_owned();
    assert!(adapter().is_file(), "{library} is no file");
    vec![
        ("LD_PRELOAD".into(), library),
        ("TANADA_OMP".into(), settings.into()),
    ]
}

/// Runs all programs, two at once, and returns what went wrong.
fn failures(what: impl Fn(&Program) -> Run + Sync) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(Vec::new());
    let work = || {
        while let Some(program) =
            programs().get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            let run = what(program);
            if !run.good() {
                let line = format!("{}: {}", program.name, run.verdict());
                found.lock().expect("no thread panics with it").push(line);
            }
        }
    };
    programs();
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    found.into_inner().expect("no thread panicked with it")
}

fn good(what: impl Fn(&Program) -> Run + Sync) {
    let failures = failures(what);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn programs_are_right_without_the_adapter() {
    good(|program| run(program, &[], &[]));
}

/// Teams have the size that the program asks for if nobody decides otherwise.
#[test]
fn teams_have_the_size_asked_for() {
    let programs = programs()
        .iter()
        .filter(|program| program.name.starts_with("parallel/"));
    for program in programs {
        for environment in [
            vec![],
            with("governor=all"),
            with("governor=predict,dry-run"),
        ] {
            let run = run(program, &["--exact"], &environment);
            assert!(
                run.good(),
                "{} {environment:?}: {}",
                program.name,
                run.verdict()
            );
        }
        // The adapter is really there: with it teams are smaller, and the same check fails.
        let smaller = run(program, &["--exact"], &with("governor=fixed,threads=1"));
        assert_eq!(
            smaller.status.and_then(|status| status.code()),
            Some(1),
            "{}",
            program.name
        );
    }
}

#[test]
fn programs_are_right_under_every_governor() {
    for governor in GOVERNORS {
        good(|program| run(program, &[], &with(&format!("governor={governor}"))));
    }
}

#[test]
fn programs_are_right_with_other_teams_than_they_ask_for() {
    for settings in [
        "threads=1",
        "threads=2,waiting=sleep",
        "threads=3,waiting=spin",
    ] {
        good(|program| run(program, &[], &with(&format!("governor=fixed,{settings}"))));
    }
}

/// One run leaves a profile, by which `oracle` decides in the next one.
#[test]
fn programs_are_right_by_a_profile() {
    good(|program| {
        let profile = program.path.with_extension("profile");
        _ = std::fs::remove_file(&profile);
        let mut last = None;
        for governor in ["predict", "oracle"] {
            let settings = format!("governor={governor},profile={}", profile.display());
            let run = run(program, &[], &with(&settings));
            if !run.good() {
                return run;
            }
            last = Some(run);
        }
        _ = std::fs::remove_file(&profile);
        last.expect("two runs")
    });
}

#[test]
fn programs_are_right_with_tasks_on_our_dispatchers() {
    let tasks = |governor: &str| {
        let mut environment = with(&format!("governor={governor}"));
        environment.push(("TANADA_OMP_TASKS".into(), "1".into()));
        environment
    };
    for governor in ["all", "predict"] {
        good(|program| run(program, &[], &tasks(governor)));
    }
}
