//! `tanada sim` as other programs use it, beside the second simulator of the simulator's own tests: its lines of JSON and its events.

mod support;

#[path = "../../sim/tests/reference/mod.rs"]
mod reference;

use reference::{Case, Groups, knows};
use std::fs::write;
use support::good;
use tanada_policy::registry;

/// `"key":value,...` as a line of JSON begins.
fn begin(keys: &[(String, serde_json::Value)]) -> String {
    let pairs: Vec<String> = keys
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}", pairs.join(","))
}

#[test]
fn lines_and_events_are_those_of_the_second_simulator() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 5_000_000..5_000_040 {
        let case = Case::of(seed, 30);
        write(folder.path().join("case.tnt"), &case.trace).expect("a file");
        write(folder.path().join("case.toml"), &case.machine).expect("a file");
        let names = registry::all().iter().map(|entry| entry.name);
        let policies: Vec<&str> = names
            .filter(|name| knows(name, case.equal_distances))
            .collect();
        let list = policies.join(",");
        let mut options: Vec<String> = Vec::new();
        let mut option = |name: &str, value: String| options.extend([name.to_owned(), value]);
        match &case.groups {
            Groups::Plain => {}
            Groups::Zero => option("--groups", "none".to_owned()),
            Groups::Named(name) => option("--groups", name.clone()),
        }
        case.overrides
            .iter()
            .for_each(|one| option("--set", one.clone()));
        case.cores
            .into_iter()
            .for_each(|cores| option("--cores", cores.to_string()));
        case.seed
            .into_iter()
            .for_each(|seed| option("--seed", seed.to_string()));
        let with = |policy: &str, more: &[&str]| {
            let mut words = vec![
                "sim",
                "case.tnt",
                "--machine",
                "case.toml",
                "--json",
                "--policy",
                policy,
            ];
            words.extend(options.iter().map(String::as_str));
            words.extend(more);
            good(folder.path(), &words).out
        };
        let lines = with(&list, &[]);
        assert_eq!(lines.lines().count(), policies.len());

        let trace = reference::Trace::parse(&case.trace, &case.groups);
        let machine =
            reference::Machine::parse(&case.overridden, case.cores.map(usize::from), case.seed);
        for (line, policy) in lines.lines().zip(&policies) {
            let right = reference::run(&trace, &machine, policy);
            let wanted = begin(&right.json(policy, machine.cores));
            assert!(
                line.starts_with(&wanted),
                "case {seed}, {policy}:\n{line}\n{wanted}\n{case:#?}"
            );
            serde_json::from_str::<serde_json::Value>(line).expect("a line is a JSON object");
        }
        let policy = policies[seed as usize % policies.len()];
        with(policy, &["--events", "events.csv"]);
        let events = std::fs::read_to_string(folder.path().join("events.csv")).expect("the events");
        assert_eq!(
            events,
            reference::csv(&reference::run(&trace, &machine, policy).finished),
            "case {seed}, {policy}"
        );
    }
}
