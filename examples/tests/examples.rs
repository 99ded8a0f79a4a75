//! The examples run and say what they should.

use std::process::Command;

fn output(program: &str) -> String {
    let output = Command::new(program).output().expect("the example starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8(output.stdout).expect("examples print text")
}

#[test]
fn first_graph() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_first_graph")),
        "the harvest is 36 sheaves\n"
    );
}

#[test]
fn groups() {
    let text = output(env!("CARGO_BIN_EXE_groups"));
    assert_eq!(text.lines().count(), 12, "{text}");
    for (day, terrace) in (0..3).flat_map(|day| (0..4).map(move |terrace| (day, terrace))) {
        let task = format!("on day {day}: terrace {terrace}");
        assert_eq!(
            text.lines().filter(|line| line.ends_with(&task)).count(),
            1,
            "{text}"
        );
    }
}

#[test]
fn from_loops_computes_what_the_plain_loop_does() {
    let mut ring: Vec<f64> = (0..80).map(|i| f64::from(i / 10)).collect();
    for _ in 1..16 {
        let at = |i: usize| ring[i % 80];
        ring = (0..80)
            .map(|i| (at(i + 79) + at(i) + at(i + 1)) / 3.0)
            .collect();
    }
    let least = ring.iter().copied().fold(f64::INFINITY, f64::min);
    let text = output(env!("CARGO_BIN_EXE_from_loops"));
    assert_eq!(text, format!("the least value is {least:.6}\n"));
}

#[test]
fn frames() {
    let text = output(env!("CARGO_BIN_EXE_frames"));
    let wanted: String = (0..5)
        .map(|n| format!("frame {n}: the last row is {} now\n", n * 100 + 6))
        .collect();
    assert_eq!(text, wanted);
}

#[test]
fn regions() {
    let output = Command::new(env!("CARGO_BIN_EXE_regions")).output();
    let output = output.expect("the example starts");
    let [text, log] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(output.status.success(), "{log}");
    assert_eq!(text, "harvested 6142877 in 200 steps\n");
    assert!(log.contains("worker 0 of "), "{log}");
    for region in ["grow", "harvest"] {
        assert!(log.contains(&format!(" s  {region} #0: ")), "{log}");
        assert!(
            log.lines()
                .any(|line| line.starts_with(&format!("{region}: "))),
            "{log}"
        );
    }
    assert!(
        include_str!("../regions.rs").lines().count() <= 60,
        "its point is to be short"
    );
}

#[test]
fn messages() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_messages")),
        "[0, 499500, 999000, 1498500], the last on day 999\n"
    );
}

#[test]
fn own_policy_stands_beside_fcfs_with_the_same_frames() {
    let text = output(env!("CARGO_BIN_EXE_own_policy"));
    for policy in ["sequential", "today", "fcfs", "lowest-group"] {
        let row = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(policy));
        let row = row.unwrap_or_else(|| panic!("no row of {policy}:\n{text}"));
        assert_eq!(
            row.split_whitespace().last() == Some("yes"),
            policy != "sequential",
            "{text}"
        );
    }
    assert!(text.contains("All frames are identical"), "{text}");
    let lines = include_str!("../own_policy.rs").lines().count();
    assert!(
        lines < 60,
        "own_policy.rs has {lines} lines; its point is to be short"
    );
}

#[test]
fn own_workload_is_compared_without_a_simulated_half() {
    let text = output(env!("CARGO_BIN_EXE_own_workload"));
    for policy in ["sequential", "today", "fcfs", "random-steal"] {
        let mut rows = text.lines().map(|line| line.split_whitespace().next());
        assert!(rows.any(|first| first == Some(policy)), "{text}");
    }
    assert!(!text.contains("simulated"), "{text}");
    assert!(text.contains("All results are identical"), "{text}");
}

/// Runs an example under a seed. Returns whether it ended well.
fn ends_well(program: &str, argument: &str, seed: u64) -> bool {
    let run = Command::new(program)
        .arg(argument)
        .env("TANADA_SEED", seed.to_string())
        .output()
        .expect("the example starts");
    run.status.success()
}

/// An example with the argument `faulty` goes wrong under a seed below 100, and again under that seed; without it it ends well under 1,000.
fn is_found(program: &str) {
    let found = (0..100).find(|&seed| !ends_well(program, "faulty", seed));
    let found = found.expect("a seed under which it goes wrong");
    assert!(
        (0..5).all(|_| !ends_well(program, "faulty", found)),
        "seed {found}"
    );
    let failed: Vec<u64> = (0..1000)
        .filter(|&seed| !ends_well(program, "", seed))
        .collect();
    assert_eq!(failed, [0; 0]);
}

#[test]
fn a_missing_edge_is_found_within_a_hundred_seeds() {
    is_found(env!("CARGO_BIN_EXE_missing_edge"));
}

#[test]
fn a_missing_wait_is_found_within_a_hundred_seeds() {
    is_found(env!("CARGO_BIN_EXE_missing_wait"));
}
