//! The result of a comparison in a sentence.

use crate::columns::engine;
use crate::groups;
use crate::judge;
use crate::schema::{BASELINE, Report, RunResult, SEQUENTIAL, TODAY};
use crate::threads::ALL_THREADS;

/// One or two sentences about comparable runs.
pub(crate) struct Headline {
    pub(crate) text: String,
    /// Whether it reports outputs that differ, which the reader must not overlook.
    pub(crate) alarm: bool,
}

/// Returns the properties that comparable runs share: everything but the policy, and the groups and the cut, which belong to the choice.
fn key(run: &RunResult) -> (&str, &str, &str, &str, u16) {
    (
        engine(run.engine),
        &run.machine,
        &run.workload,
        &run.input,
        run.workers,
    )
}

/// Returns the number of workers or cores in words.
pub(crate) fn workers_of(run: &RunResult) -> String {
    let word = run.worker_word();
    match run.workers {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    }
}

/// Returns the speed of a run from whatever it measured; greater is faster.
pub(crate) fn speed(run: &RunResult) -> Option<f64> {
    let by_time = || run.seconds.map(|seconds| 1.0 / seconds.min);
    let by_cycles = || run.cycles.map(|cycles| 1.0 / cycles as f64);
    run.fps
        .or_else(by_time)
        .or_else(by_cycles)
        .filter(|speed| speed.is_finite())
}

/// Returns the runs as sets that can be compared, in order of appearance.
pub(crate) fn comparable_sets(report: &Report) -> Vec<Vec<&RunResult>> {
    let mut sets: Vec<Vec<&RunResult>> = Vec::new();
    for run in &report.runs {
        match sets.iter_mut().find(|set| belongs(run, set)) {
            Some(set) => set.push(run),
            None => sets.push(vec![run]),
        }
    }
    sets
}

/// Returns whether `run` belongs to `set`. The sequential program runs on one worker and is compared with every number of workers.
fn belongs(run: &RunResult, set: &[&RunResult]) -> bool {
    let without_workers = |run| {
        let (engine, machine, workload, input, _) = key(run);
        (engine, machine, workload, input)
    };
    let sequential = run.policy == SEQUENTIAL || set.iter().all(|run| run.policy == SEQUENTIAL);
    set.iter().any(|other| key(other) == key(run))
        || sequential && without_workers(set[0]) == without_workers(run)
}

/// Returns a headline for each set of comparable runs that has a result.
pub(crate) fn headlines(report: &Report) -> Vec<Headline> {
    let sets = comparable_sets(report);
    let several = sets.len() > 1;
    sets.iter()
        .filter_map(|set| headline(set, several))
        .collect()
}

fn headline(set: &[&RunResult], say_which: bool) -> Option<Headline> {
    let (same, alarm) = identity(set);
    let sentences = format!("{}{same}", fastest(set));
    if sentences.is_empty() {
        return None;
    }
    let mut text = String::new();
    if say_which {
        let parallel = set.iter().find(|run| run.policy != SEQUENTIAL);
        let (engine, machine, workload, input, _) = key(parallel.unwrap_or(&set[0]));
        let workers = workers_of(parallel.unwrap_or(&set[0]));
        text = format!("{engine}, {workload} {input}, {workers}");
        if !machine.is_empty() {
            text = format!("{text}, {machine}");
        }
        text.push_str(": ");
    }
    text.push_str(sentences.trim_start());
    if judge::busy(set.iter().copied()).is_none() {
        for sentence in groups::verdicts(set) {
            text.push('\n');
            text.push_str(&sentence);
        }
    }
    Some(Headline { text, alarm })
}

fn fastest(set: &[&RunResult]) -> String {
    let timed = set.iter().filter_map(|run| Some((*run, speed(run)?)));
    let Some((best, best_speed)) = timed.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return "No run was timed.".to_owned();
    };
    let frames = best.fps.map_or(String::new(), |fps| {
        format!(" with {fps:.1} frames a second")
    });
    if set.len() == 1 {
        // A time is in the table; that it was measured is no result.
        return match best.fps {
            Some(_) => format!("{} ran{frames}.", best.policy),
            None => String::new(),
        };
    }
    if let Some(spread) = judge::busy(set.iter().copied()) {
        return judge::busy_sentence(spread);
    }
    let none = |run: &&&RunResult| {
        speed(run).is_some()
            && (std::ptr::eq(**run, best) || judge::difference(best, run).is_none())
    };
    let tied_runs: Vec<&RunResult> = set.iter().filter(none).copied().collect();
    let close: Vec<&str> = tied_runs.iter().map(|run| &*run.policy).collect();
    let slowest = tied_runs
        .iter()
        .filter_map(|run| speed(run))
        .fold(best_speed, f64::min);
    let alike = best_speed / slowest < 1.0 + judge::LEAST;
    let times = |policy: &str, words: &str| {
        let other = set
            .iter()
            .find(|run| run.policy == policy && !close.contains(&policy));
        let other = speed(other?)?;
        Some(match alike {
            true => format!("{:.2} times {words}", best_speed / other),
            false => format!("at least {:.2} times {words}", slowest / other),
        })
    };
    let against: Vec<String> = [
        times(BASELINE, BASELINE),
        times(ALL_THREADS, ALL_THREADS),
        times(SEQUENTIAL, "the sequential program"),
        times(TODAY, "the program of today"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let against = listed(&against);
    let apart = match alike {
        true => "within 1% of each other".to_owned(),
        false => format!(
            "no further apart than their repeats ({:.0}%)",
            (best_speed / slowest - 1.0) * 100.0
        ),
    };
    match (&close[..], against.as_str()) {
        ([one], "") => format!("{one} was fastest{frames}."),
        ([one], against) => format!("{one} was fastest{frames}, {against}."),
        (tied, against) => {
            let against = match against {
                "" => String::new(),
                against => format!(", each {against}"),
            };
            format!("{} were {apart}{frames}{against}.", listed(tied))
        }
    }
}

/// Returns the words as `a, b and c`.
pub(crate) fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

fn identity(set: &[&RunResult]) -> (String, bool) {
    let differing: Vec<&str> = set
        .iter()
        .filter(|run| run.identical == Some(false))
        .map(|run| run.policy.as_str())
        .collect();
    let what = if set.iter().any(|run| run.frames.is_some()) {
        "frames"
    } else {
        "results"
    };
    if !differing.is_empty() {
        return (
            format!(
                " ATTENTION: {what} differ from the sequential ones under {}.",
                differing.join(", ")
            ),
            true,
        );
    }
    let compared = set.iter().filter(|run| run.identical == Some(true)).count();
    let policies = set.iter().filter(|run| run.policy != SEQUENTIAL).count();
    let text = match compared {
        0 => String::new(),
        n if n == policies => {
            format!(" All {what} are identical to the sequential ones under every policy.")
        }
        n => format!(
            " The {what} are identical under the {n} of {policies} policies that were compared."
        ),
    };
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Engine;

    fn run(policy: &str, fps: f64, identical: Option<bool>) -> RunResult {
        RunResult {
            fps: Some(fps),
            frames: Some(128),
            identical,
            ..RunResult::new("h264", "demo.264", policy, 2)
        }
    }

    #[test]
    fn names_winner_ratio_and_identity() {
        let mut report = Report::new("t");
        report.runs = vec![run("fcfs", 100.0, Some(true)), run("ts", 139.7, Some(true))];
        let all = headlines(&report);
        assert_eq!(all.len(), 1);
        assert!(!all[0].alarm);
        let text = &all[0].text;
        assert!(
            text.starts_with("ts was fastest with 139.7 frames a second, 1.40 times fcfs."),
            "{text}"
        );
        assert!(text.contains("All frames are identical"), "{text}");
    }

    #[test]
    fn within_a_hundredth_no_policy_was_fastest() {
        let mut report = Report::new("t");
        report.runs = vec![run("fcfs", 100.0, None), run("ts", 100.9, None)];
        assert_eq!(
            headlines(&report)[0].text,
            "fcfs and ts were within 1% of each other with 100.9 frames a second."
        );
        report.runs.push(run(SEQUENTIAL, 50.0, None));
        let text = &headlines(&report)[0].text;
        assert!(
            text.ends_with(", each 2.02 times the sequential program."),
            "{text}"
        );
        report.runs[1].fps = Some(101.1);
        let text = &headlines(&report)[0].text;
        assert!(
            text.starts_with("ts was fastest with 101.1 frames a second, 1.01 times fcfs and"),
            "{text}"
        );
    }

    #[test]
    fn a_busy_host_is_said_first_and_nothing_is_faster() {
        let timed = |policy: &str, repeats: &[f64]| RunResult {
            seconds: crate::schema::Seconds::of(repeats),
            fps: None,
            groups: "default".to_owned(),
            honours_groups: policy == "ts",
            ..run(policy, 1.0, Some(true))
        };
        let mut report = Report::new("t");
        report.runs = vec![
            timed("fcfs", &[2.0, 3.0, 3.0]),
            timed("ts", &[1.0, 1.5, 1.6]),
        ];
        let text = &headlines(&report)[0].text;
        assert!(text.starts_with("The host was busy: "), "{text}");
        assert!(text.contains("All frames are identical"), "{text}");
        for word in ["fastest", "times", "Groups"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        report.runs[0] = timed("fcfs", &[2.0, 2.1, 3.0]);
        report.runs[1] = timed("ts", &[1.5, 2.4, 2.5]);
        report.runs.push(timed("lcfs", &[3.0, 3.0, 3.0]));
        report.runs.push(timed(SEQUENTIAL, &[4.0, 4.0, 4.0]));
        let text = &headlines(&report)[0].text;
        assert!(
            text.contains(
                "fcfs and ts were no further apart than their repeats (33%), each at least 2.00 times the sequential program."
            ),
            "{text}"
        );
        assert!(
            text.contains("Whether groups paid under ts is not judged: the median repeat of ts took 60% longer"),
            "{text}"
        );
        report.runs.truncate(2);
        report.runs[1] = timed("ts", &[1.0, 1.1, 1.6]);
        let text = &headlines(&report)[0].text;
        assert!(text.contains("ts was fastest, 2.00 times fcfs."), "{text}");
        assert!(text.contains("Groups paid"), "{text}");
    }

    #[test]
    fn a_difference_is_an_alarm_that_names_the_policy() {
        let mut report = Report::new("t");
        report.runs = vec![
            run("fcfs", 100.0, Some(true)),
            run("lcfs", 90.0, Some(false)),
        ];
        let all = headlines(&report);
        assert!(
            all[0].alarm && all[0].text.contains("under lcfs"),
            "{}",
            all[0].text
        );
    }

    #[test]
    fn of_one_run_its_figure_is_said_or_nothing() {
        let mut report = Report::new("t");
        report.runs = vec![run("ts", 139.7, Some(true))];
        assert_eq!(
            headlines(&report)[0].text,
            "ts ran with 139.7 frames a second. All frames are identical to the sequential ones under every policy."
        );
        report.runs = vec![RunResult {
            seconds: crate::schema::Seconds::of(&[1.0]),
            ..RunResult::new("stencil", "size=8", "ts", 2)
        }];
        assert!(headlines(&report).is_empty());
        report.runs[0].identical = Some(false);
        let all = headlines(&report);
        assert!(
            all[0].alarm && all[0].text.starts_with("ATTENTION"),
            "{}",
            all[0].text
        );
    }

    #[test]
    fn uncompared_runs_are_not_called_identical() {
        let mut report = Report::new("t");
        report.runs = vec![run("fcfs", 100.0, None), run("ts", 101.0, None)];
        assert!(!headlines(&report)[0].text.contains("identical"));
    }

    #[test]
    fn native_and_simulated_runs_are_not_mixed() {
        let mut report = Report::new("t");
        report.runs = vec![run("fcfs", 100.0, None), run("ts", 101.0, None)];
        report.runs.extend(["fcfs", "ts"].map(|policy| RunResult {
            engine: Engine::Simulated,
            cycles: Some(5),
            fps: None,
            ..run(policy, 1.0, None)
        }));
        let all = headlines(&report);
        assert_eq!(all.len(), 2);
        assert!(all[1].text.starts_with("simulated"));
    }
}
