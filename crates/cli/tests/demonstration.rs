//! `tanada compare` without a workload: the four verdicts.

mod support;

use support::{folder, good};
use tanada_report::Engine;

const CLAIMS: [&str; 4] = ["right", "light", "local, here", "local, there"];

#[test]
fn the_demonstration_has_four_verdicts_and_a_page() {
    let folder = folder();
    let said = good(folder.path(), &["compare", "--small", "-o", "page.html"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines.len() <= 60, "{}", said.out);
    assert!(
        lines.iter().all(|line| line.chars().count() <= 160),
        "{}",
        said.out
    );
    let first = |claim: &str| {
        let begins = |line: &&str| line.trim_start().starts_with(claim);
        lines.iter().position(begins)
    };
    let places = CLAIMS.map(|claim| first(claim).unwrap_or_else(|| panic!("{}", said.out)));
    assert!(places.is_sorted(), "{}", said.out);
    // A busy host is said before all verdicts, and what was measured on it is not judged.
    let judged = !said.out.contains("Not judged.");
    assert_eq!(first("attention").is_none(), judged, "{}", said.out);
    let attention = first("attention").unwrap_or(places[0]);
    assert!(attention <= places[0], "{}", said.out);
    // Nothing stands below the verdicts.
    let rest = &lines[places[3]..];
    assert!(rest.iter().all(|line| !line.is_empty()), "{}", said.out);

    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    for claim in CLAIMS {
        assert!(page.contains(&format!("<b>{claim}:</b>")), "{claim}");
    }
    let folded = page.matches("<details class=\"reasons\">").count();
    assert!(
        if judged {
            folded == 4
        } else {
            (2..=4).contains(&folded)
        },
        "{folded}"
    );
}

#[test]
fn the_rows_of_the_demonstration_are_what_its_verdicts_say() {
    let folder = folder();
    let said = good(folder.path(), &["compare", "--small", "--json"]);
    let report = tanada_report::from_json(&said.out).expect("a report");
    let claims = report.verdicts.iter().map(|verdict| &*verdict.claim);
    let claims: Vec<&str> = claims.filter(|&claim| claim != "attention").collect();
    assert_eq!(claims, CLAIMS);
    let rows = |workload: &str, engine| {
        let of =
            move |run: &&tanada_report::RunResult| run.workload == workload && run.engine == engine;
        report.runs.iter().filter(of).collect::<Vec<_>>()
    };
    // Right: every policy decodes, and every frame was compared.
    let right = rows("h264", Engine::Native);
    for entry in tanada_policy::registry::native() {
        let run = right.iter().find(|run| run.policy == entry.name);
        assert_eq!(
            run.and_then(|run| run.identical),
            Some(true),
            "{}",
            entry.name
        );
    }
    // Light: a loop, and tasks with a cost beside it.
    let light = rows("wavefront", Engine::Native);
    assert_eq!(light[0].policy, tanada_report::SEQUENTIAL);
    assert!(
        light[1..]
            .iter()
            .all(|run| run.extra.contains_key("ns beside the loop"))
    );
    // Here: loops with barriers, and every policy that reads groups with and without them.
    for program in ["stencil", "pipeline"] {
        let here = rows(program, Engine::Native);
        assert_eq!(here[0].policy, tanada_report::TODAY);
        for run in here.iter().filter(|run| run.honours_groups) {
            let other = here.iter().filter(|other| other.policy == run.policy);
            assert_eq!(other.count(), 2, "{}", run.policy);
        }
        assert!(
            here.iter()
                .all(|run| run.seconds.is_some_and(|seconds| seconds.repeats >= 3))
        );
    }
    // There: groups save cycles and misses on paper 1's chip, on every host.
    let there = rows("h264", Engine::Simulated);
    let cycles = |policy: &str, groups: &str| {
        let run = there
            .iter()
            .find(|run| run.policy == policy && run.groups == groups);
        let run = run.unwrap_or_else(|| panic!("{policy}, {groups}"));
        let l2 = run.caches.iter().find(|cache| cache.cache == "l2");
        (
            run.cycles.expect("simulated"),
            l2.expect("a second level").misses,
        )
    };
    let (fcfs, misses) = cycles("fcfs", "none");
    let (near, _) = cycles("near-steal", "none");
    let (grouped, fewer) = cycles("ts-local", "toshiba-a");
    assert!(fcfs as f64 / grouped as f64 > 1.4, "{fcfs} {grouped}");
    assert!(near as f64 / grouped as f64 > 1.2, "{near} {grouped}");
    assert!(3 * fewer < 2 * misses, "{fewer} {misses}");
    // All charts have the same tasks.
    let charts = report.timelines.iter();
    let tasks = charts.map(|chart| {
        let mut tasks: Vec<u64> = chart.events.iter().map(|event| event.task).collect();
        tasks.sort_unstable();
        tasks
    });
    let tasks: Vec<Vec<u64>> = tasks.collect();
    assert!(tasks.len() == 3 && tasks.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn with_a_policy_or_a_workload_it_is_a_comparison() {
    let folder = folder();
    for words in [
        "compare --policy fcfs --repeat 1 --no-sim --json",
        "compare h264 --policy fcfs --repeat 1 --no-sim --json",
    ] {
        let said = good(folder.path(), &words.split(' ').collect::<Vec<_>>());
        let report = tanada_report::from_json(&said.out).expect("a report");
        assert!(report.verdicts.is_empty(), "{words}");
        let policies: Vec<&str> = report.runs.iter().map(|run| &*run.policy).collect();
        assert_eq!(policies, ["sequential", "today", "fcfs"]);
    }
}
