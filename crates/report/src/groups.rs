//! The verdict on groups: whether they paid, and the measured reasons.

use crate::columns::{nanoseconds, per_cent};
use crate::headline::{listed, speed};
use crate::judge;
use crate::parts::CacheUse;
use crate::schema::{Memory, RunResult, SEQUENTIAL, TODAY};

/// Differences below this share are treated as none: runs of the same program differ by as much even if their repeats do not.
const NOISE: f64 = 0.02;

/// Returns how far repeats of a run are apart, as a share of the shortest; at least [`NOISE`].
fn noise(run: &RunResult) -> f64 {
    judge::spread(run).unwrap_or(0.0).max(NOISE)
}

/// Returns whether a run was timed only once, so that the spread of its repeats is unknown. Simulated cycles are exact, not timed.
fn timed_once(run: &RunResult) -> bool {
    run.seconds.is_some_and(|seconds| seconds.repeats < 2)
}

/// The share of its time above which a worker that spends it on scheduling has tasks that are too short.
const TOO_SHORT: f64 = 0.05;

/// Returns whether a run has so few tasks that no order of them makes a difference.
fn has_few_tasks(run: &RunResult) -> bool {
    run.tasks
        .is_some_and(|tasks| tasks <= u64::from(run.workers))
}

/// Compares each dispatcher that looks at groups with the fastest dispatcher that does not, and returns sentences about them. So advantages
/// with other causes, such as running the newest task next, are not attributed to groups. `set` has comparable runs.
pub(crate) fn verdicts(set: &[&RunResult]) -> Vec<String> {
    let grouped =
        |run: &&RunResult| run.honours_groups && !matches!(run.groups.as_str(), "" | "none");
    let (few, many): (Vec<&RunResult>, Vec<_>) = set
        .iter()
        .copied()
        .filter(grouped)
        .partition(|run| has_few_tasks(run));
    let compared = many.into_iter().filter_map(|run| {
        let (baseline, several) = reference(run, set)?;
        Some((run, baseline, several))
    });
    let (once, several): (Vec<_>, Vec<_>) =
        compared.partition(|(run, baseline, _)| timed_once(run) || timed_once(baseline));
    let mut said = Vec::new();
    let mut alike: Vec<Compared<'_>> = Vec::new();
    for (run, baseline, several) in several {
        let noise = noise(run).max(noise(baseline));
        match speed(run).zip(speed(baseline)).map(|(a, b)| a / b) {
            None => {}
            Some(_) if noise > judge::BUSY => said.push(format!(
                "Whether groups paid under {} is not judged: the median repeat of {} took {:.0}% longer than the shortest.",
                run.policy,
                wildest(run, baseline).policy,
                noise * 100.0
            )),
            Some(ratio) if (ratio - 1.0).abs() <= noise => alike.push((run, baseline, several)),
            Some(ratio) => said.push(verdict(run, baseline, several, ratio)),
        }
    }
    said.extend(no_difference(&alike));
    if !once.is_empty() {
        said.push("One repeat says nothing about groups: use --repeat 5.".to_owned());
    }
    if !few.is_empty() {
        said.push("There are too few tasks to judge groups.".to_owned());
    }
    said
}

/// A run, the run that it is compared with, and whether that is the fastest of several.
type Compared<'a> = (&'a RunResult, &'a RunResult, bool);

/// Returns which of the two runs has repeats that are further apart.
fn wildest<'a>(a: &'a RunResult, b: &'a RunResult) -> &'a RunResult {
    if noise(a) >= noise(b) { a } else { b }
}

/// Returns a sentence about the runs whose groups made no difference, if there are any. All have the same baseline.
fn no_difference(alike: &[Compared<'_>]) -> Option<String> {
    let (first, baseline, several) = alike.first()?;
    let ratios = alike.iter().map(|(run, ..)| {
        let ratio = speed(run)? / speed(baseline)?;
        Some(format!("{} was {ratio:.2}", run.policy))
    });
    let ratios: Vec<String> = ratios.flatten().collect();
    let outcome = match first.seconds {
        Some(_) => "Groups made no more difference than repeats do",
        None => "Groups made no difference",
    };
    Some(format!(
        "{outcome}: {} times as fast as {}, {}.",
        listed(&ratios),
        baseline.policy,
        which(*several)
    ))
}

/// Returns what a baseline is, in words.
fn which(several: bool) -> &'static str {
    match several {
        true => "the fastest policy here that ignores groups",
        false => "the only policy here that ignores groups",
    }
}

/// Returns the run with which `run` is compared: the fastest of the same engine and cut under a dispatcher that does not look at groups.
/// Also returns whether there were several candidates.
fn reference<'a>(run: &RunResult, set: &[&'a RunResult]) -> Option<(&'a RunResult, bool)> {
    let bare = set.iter().filter(|other| {
        !other.honours_groups
            && !matches!(other.policy.as_str(), SEQUENTIAL | TODAY)
            && other.engine == run.engine
            && other.tasks_mode == run.tasks_mode
    });
    let mut bare: Vec<(f64, &RunResult)> = bare
        .filter_map(|other| Some((speed(other)?, *other)))
        .collect();
    bare.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, fastest) = *bare.first()?;
    Some((fastest, bare.len() > 1))
}

/// Returns whether groups paid, and why. `ratio`: how many times as fast `run` was as `baseline`.
fn verdict(run: &RunResult, baseline: &RunResult, several: bool, ratio: f64) -> String {
    let outcome = match ratio > 1.0 {
        true => "Groups paid",
        false => "Groups did not pay",
    };
    let mut text = format!(
        "{outcome}: {} was {ratio:.2} times as fast as {}, {}.",
        run.policy,
        baseline.policy,
        which(several)
    );
    let reasons = [
        body(run, baseline),
        misses(run, baseline),
        scheduling(run, baseline),
        idle(run, baseline),
    ];
    for reason in reasons.into_iter().flatten() {
        text.push(' ');
        text.push_str(&reason);
    }
    text
}

/// Returns a description of the change of the tasks' own time, in which locality shows.
fn body(run: &RunResult, baseline: &RunResult) -> Option<String> {
    let (mean, before) = (run.mean_task_ns?, baseline.mean_task_ns?);
    let change = mean / before - 1.0;
    let took = match change.abs() < NOISE {
        true => format!("Tasks took as long ({})", nanoseconds(mean)),
        false => format!(
            "Tasks took {} instead of {} ({change:+.0}%)",
            nanoseconds(mean),
            nanoseconds(before),
            change = change * 100.0
        ),
    };
    let why = run.memory.map_or(String::new(), |memory| {
        room(&memory, run.workers, change < -NOISE)
    });
    Some(format!("{took}{why}."))
}

/// Returns a description of the change of the misses of each level, if they were counted.
fn misses(run: &RunResult, baseline: &RunResult) -> Option<String> {
    let changes: Vec<String> = run
        .caches
        .iter()
        .filter_map(|cache| {
            let same = |other: &&CacheUse| other.cache == cache.cache;
            let before = baseline.caches.iter().find(same)?.misses;
            let change = 100.0 * (cache.misses as f64 / before as f64 - 1.0);
            // Adding 0 turns -0 into 0.
            let change = change.round() + 0.0;
            (before > 0).then(|| format!("{} {change:+}%", cache.cache.to_uppercase()))
        })
        .collect();
    (!changes.is_empty()).then(|| format!("Misses: {}.", changes.join(", ")))
}

/// Returns a description of how the data relates to the sizes of the caches.
fn room(memory: &Memory, workers: u16, saved: bool) -> String {
    let Memory {
        data,
        group,
        own_cache,
    } = *memory;
    let all = own_cache.saturating_mul(workers.into());
    let size = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    if data <= all {
        let (data, all) = (size(data), size(all));
        return format!(
            ": the data ({data}) fits the workers' own caches ({all}), so that only S groups can matter"
        );
    }
    let fits = match (group <= own_cache, saved) {
        (true, true) => "fits",
        (true, false) => "would fit",
        (false, _) => "does not fit",
    };
    let (data, group, own) = (size(data), size(group), size(own_cache));
    format!(
        ": of {data} of data a worker's part of a T group ({group}) {fits} its own cache ({own})"
    )
}

/// Returns a description of the change of the scheduling cost.
fn scheduling(run: &RunResult, baseline: &RunResult) -> Option<String> {
    let cost = run.scheduling_ns_per_task?;
    let before = baseline.scheduling_ns_per_task?;
    let share = cost / (cost + run.mean_task_ns?);
    let short = match share > TOO_SHORT {
        true => "; tasks are short for this policy",
        false => "",
    };
    Some(format!(
        "Scheduling cost {} a task instead of {}, {} of a worker's time{short}.",
        nanoseconds(cost),
        nanoseconds(before),
        per_cent(share)
    ))
}

/// Returns a description of the change of the time without a task, beyond the scheduling cost.
fn idle(run: &RunResult, baseline: &RunResult) -> Option<String> {
    let (now, before) = (waiting(run)?, waiting(baseline)?);
    (now - before > NOISE).then(|| {
        format!(
            "Workers had no task {} of the time instead of {}.",
            per_cent(now),
            per_cent(before)
        )
    })
}

/// Returns the share of the time in which workers neither ran a task nor scheduled one.
fn waiting(run: &RunResult) -> Option<f64> {
    let (busy, mean) = (run.utilisation?, run.mean_task_ns?);
    let turning = busy * run.scheduling_ns_per_task.unwrap_or(0.0) / mean;
    Some((1.0 - busy - turning).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Engine, Seconds};

    fn run(policy: &str, seconds: f64, mean: f64, cost: f64, busy: f64) -> RunResult {
        RunResult {
            groups: "own".to_owned(),
            honours_groups: policy.starts_with("ts"),
            seconds: Seconds::of(&[seconds, seconds]),
            mean_task_ns: Some(mean),
            scheduling_ns_per_task: Some(cost),
            utilisation: Some(busy),
            memory: Some(Memory {
                data: 500_000_000,
                group: 1_500_000,
                own_cache: 2_000_000,
            }),
            ..RunResult::new("stencil", "size=8192", policy, 2)
        }
    }

    #[test]
    fn a_gain_is_reported_with_its_cause() {
        let (fcfs, ts) = (
            run("fcfs", 2.0, 20e3, 300.0, 0.98),
            run("ts", 1.0, 8e3, 600.0, 0.92),
        );
        let said = verdicts(&[&fcfs, &ts]);
        assert_eq!(
            said,
            [
                "Groups paid: ts was 2.00 times as fast as fcfs, the only policy here that ignores groups. \
                 Tasks took 8.00 us instead of 20.00 us (-60%): of 500.0 MB of data a \
             worker's part of a T group (1.5 MB) fits its own cache (2.0 MB). Scheduling cost 600 ns a task instead of 300 ns, \
             7.0% of a worker's time; tasks are short for this policy."
            ]
        );
    }

    #[test]
    fn data_that_fits_anyway_is_reported() {
        let (fcfs, mut ts) = (
            run("fcfs", 1.0, 20e3, 300.0, 0.98),
            run("ts", 1.1, 20.1e3, 700.0, 0.85),
        );
        ts.memory.as_mut().expect("it has one").data = 3_000_000;
        let said = verdicts(&[&fcfs, &ts]).remove(0);
        assert!(
            said.starts_with(
                "Groups did not pay: ts was 0.91 times as fast as fcfs, the only policy here that ignores groups."
            ),
            "{said}"
        );
        assert!(
            said.contains("as long (20.10 us): the data (3.0 MB) fits"),
            "{said}"
        );
        assert!(
            said.contains("Scheduling cost 700 ns") && !said.contains("short"),
            "{said}"
        );
        assert!(
            said.contains("Workers had no task 12.0% of the time instead of 0.5%"),
            "{said}"
        );
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured_or_has_no_groups() {
        let (fcfs, mut ts) = (
            run("fcfs", 1.0, 20e3, 300.0, 0.98),
            run("ts", 1.0, 20e3, 300.0, 0.98),
        );
        assert!(verdicts(&[&ts]).is_empty(), "there is no baseline");
        ts.groups = "none".to_owned();
        assert!(verdicts(&[&fcfs, &ts]).is_empty());
        let bare = |policy: &str, seconds: Option<Seconds>, cycles| RunResult {
            honours_groups: policy.starts_with("ts"),
            groups: "a".to_owned(),
            seconds,
            cycles,
            ..RunResult::new("h264", "x", policy, 2)
        };
        let both = |seconds, cycles| {
            verdicts(&[&bare("fcfs", seconds, cycles), &bare("ts", seconds, cycles)])
        };
        let end = "ts was 1.00 times as fast as fcfs, the only policy here that ignores groups.";
        assert_eq!(
            both(Seconds::of(&[1.0, 1.0]), None),
            [format!(
                "Groups made no more difference than repeats do: {end}"
            )]
        );
        assert_eq!(
            both(None, Some(1000)),
            [format!("Groups made no difference: {end}")]
        );
    }

    #[test]
    fn what_stealing_gains_is_not_put_down_to_groups() {
        let slow = run("fcfs", 1.14, 20e3, 300.0, 0.98);
        let (steal, near) = (
            run("random-steal", 1.0, 17e3, 300.0, 0.98),
            run("near-steal", 1.01, 17e3, 300.0, 0.98),
        );
        let ts = run("ts-local", 1.0, 17e3, 300.0, 0.98);
        let said = verdicts(&[&slow, &near, &ts, &steal]).remove(0);
        assert!(
            said.starts_with(
                "Groups made no more difference than repeats do: ts-local was 1.00 times as fast as random-steal, the fastest policy \
                 here that ignores groups."
            ),
            "{said}"
        );
        let mut other_cut = steal.clone();
        other_cut.tasks_mode = "row".to_owned();
        let said = verdicts(&[&slow, &ts, &other_cut]).remove(0);
        assert!(said.contains("1.14 times as fast as fcfs"), "{said}");
        for without in [SEQUENTIAL, TODAY] {
            let without = run(without, 0.5, 17e3, 0.0, 1.0);
            let said = verdicts(&[&without, &ts]);
            assert!(said.is_empty(), "these tasks are not its own: {said:?}");
        }
        let mut simulated = steal.clone();
        simulated.engine = Engine::Simulated;
        assert!(verdicts(&[&simulated, &ts]).is_empty());
    }

    #[test]
    fn one_repeat_has_no_verdict_which_is_reported_once() {
        let once = |policy, seconds| RunResult {
            seconds: Seconds::of(&[seconds]),
            ..run(policy, 1.0, 20e3, 300.0, 0.98)
        };
        let said = verdicts(&[&once("fcfs", 2.0), &once("ts", 1.0), &once("ts-local", 1.0)]);
        assert_eq!(
            said,
            ["One repeat says nothing about groups: use --repeat 5."]
        );
    }

    #[test]
    fn as_many_tasks_as_workers_have_no_verdict_which_is_reported_once() {
        let few = |policy, tasks| RunResult {
            tasks: Some(tasks),
            ..run(policy, 1.0, 20e3, 300.0, 0.98)
        };
        let said = verdicts(&[&few("fcfs", 2), &few("ts", 2), &few("ts-local", 2)]);
        assert_eq!(said, ["There are too few tasks to judge groups."]);
        let said = verdicts(&[&few("fcfs", 3), &few("ts", 3)]);
        assert!(said[0].starts_with("Groups made no"), "{said:?}");
    }
}
