//! What simulations bring to a report.

use serde_json::{Map, Value};
use tanada_report::{ALL_THREADS, BASELINE, CacheUse, Engine, Report, RunResult, Timeline};
use tanada_sim::{Machine, Outcome, Run, SimError, reuse, timeline};
use tanada_trace::Trace;

/// The most tasks in a chart: with more, the page would be slow and large (25 bytes a task).
const CHARTED: usize = 100_000;

/// The most records of a trace whose reuse distances are computed, which takes longer than the simulation.
const REUSED: u64 = 50_000_000;

/// What a report calls the work.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// The input's name.
    pub input: &'a str,
    /// The groups' name.
    pub groups: &'a str,
}

/// Returns the result of a simulation. `runs` are all of its runs in the order of their ends; empty: reuse distances are not wanted. They
/// are also left out if the trace has more than 50 million records or a core touches more than [`tanada_sim::MOST_LINES`] lines.
///
/// # Errors
/// If the trace cannot be read.
pub fn result(
    trace: &Trace,
    machine: &Machine,
    outcome: &Outcome,
    runs: &[Run],
    work: Work<'_>,
) -> Result<RunResult, SimError> {
    let mut result = outcome.to_run_result(work.workload, work.input, work.groups, machine);
    if trace.records() <= REUSED && !runs.is_empty() {
        result.reuse = reuse(trace, machine, runs)?.unwrap_or_default();
    }
    Ok(result)
}

/// Returns a chart of the runs; if a chart cannot hold all, of those in the middle.
pub fn chart(trace: &Trace, outcome: &Outcome, runs: &[Run]) -> Timeline {
    let mut label = format!("{} on {}", outcome.policy, outcome.machine);
    let left_out = runs.len().saturating_sub(CHARTED);
    if left_out == 0 {
        return timeline(trace, outcome, &label, runs);
    }
    let first = left_out / 2;
    let mut shown = runs[first..first + CHARTED].to_vec();
    let begin = shown.iter().map(|run| run.asked).min().unwrap_or(0);
    for run in &mut shown {
        run.asked -= begin;
        run.start -= begin;
        run.end -= begin;
    }
    label += &format!(", {CHARTED} of {} tasks from the middle", runs.len());
    timeline(trace, outcome, &label, &shown)
}

/// Stores the ratio of each simulated run to the one under [`BASELINE`] on the same machine; of a run of threads, to [`ALL_THREADS`].
pub fn rate(runs: &mut [RunResult]) {
    let key = |run: &RunResult| {
        let threads = run.threads.is_some();
        (threads, run.machine.clone(), run.input.clone(), run.workers)
    };
    let baseline = |run: &&RunResult| match run.threads {
        Some(_) => run.policy == ALL_THREADS,
        None => run.policy == BASELINE,
    };
    let baselines: Vec<_> = runs
        .iter()
        .filter(baseline)
        .filter_map(|run| Some((key(run), run.cycles?)))
        .collect();
    for run in runs {
        let mut known = baselines.iter().filter(|(of, _)| *of == key(run));
        if let (Some((_, cycles)), Some(own @ 1..)) = (known.next(), run.cycles) {
            let ratio = Some(*cycles as f64 / own as f64);
            match &mut run.threads {
                Some(threads) => threads.ratio_to_fifo = ratio,
                None => run.ratio_to_fcfs = ratio,
            }
        }
    }
}

/// Returns a report of what `tanada sim --json` printed, one object a line; `None` if the text is something else.
///
/// # Errors
/// What is wrong, with the line: a line that is no result of a simulation, behind one that is.
pub fn from_lines(text: &str, input: &str) -> Option<Result<Report, String>> {
    let mut report = Report::new(&format!("Simulation of {input}"));
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        match from_line(line, input) {
            Some(run) => report.runs.push(run),
            None if report.runs.is_empty() => return None,
            None => {
                let what = format!("line {} is not what `tanada sim --json` prints", number + 1);
                return Some(Err(what));
            }
        }
    }
    if report.runs.is_empty() {
        return None;
    }
    rate(&mut report.runs);
    Some(Ok(report))
}

fn from_line(line: &str, input: &str) -> Option<RunResult> {
    let object: Map<String, Value> = serde_json::from_str(line).ok()?;
    let count = |key: &str| object.get(key).and_then(Value::as_u64);
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    let word = |key: &str| object.get(key).and_then(Value::as_str);
    let cores = u16::try_from(count("cores")?).ok()?;
    let mut caches: Vec<CacheUse> = object
        .keys()
        .filter_map(|key| key.strip_suffix("_accesses"))
        // `background_accesses` of a contended machine stands beside the caches' counts.
        .filter(|cache| cache.starts_with('l'))
        .map(|cache| {
            Some(CacheUse {
                cache: cache.to_owned(),
                accesses: count(&format!("{cache}_accesses"))?,
                misses: count(&format!("{cache}_misses"))?,
                unavoidable: count(&format!("{cache}_unavoidable")),
                ..CacheUse::default()
            })
        })
        .collect::<Option<_>>()?;
    // An object's keys have no order: by level, then instructions before data.
    caches.sort_by_key(|cache| {
        let kind = cache
            .cache
            .trim_start_matches(|c: char| c == 'l' || c.is_ascii_digit());
        let level = cache.cache.len() - kind.len();
        (
            cache.cache[..level].to_owned(),
            std::cmp::Reverse(kind.to_owned()),
        )
    });
    let policy = word("policy")?;
    Some(RunResult {
        engine: Engine::Simulated,
        machine: word("machine").unwrap_or_default().to_owned(),
        cycles: Some(count("makespan")?),
        tasks: Some(count("tasks")?),
        utilisation: Some(number("utilisation")?),
        bound: Some(number("bound")?),
        bound_ratio: number("bound_ratio"),
        caches,
        writebacks: count("writebacks"),
        honours_groups: tanada_policy::registry::find(policy).is_ok_and(|entry| entry.groups),
        ..RunResult::new("trace", input, policy, cores)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_sim::{Options, machines, simulate};
    use tanada_trace::Groups;

    fn trace(tasks: u32) -> Trace {
        let mut text = String::from("tanada-trace 1\n");
        for task in 0..tasks {
            text.push_str(&format!("task {task} name=a\nr {} 4\n", task * 64));
        }
        Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace")
    }

    fn outcome(trace: &Trace, policy: &str) -> (Outcome, Vec<Run>, Machine) {
        outcome_on("toshiba", trace, policy)
    }

    fn outcome_on(machine: &str, trace: &Trace, policy: &str) -> (Outcome, Vec<Run>, Machine) {
        let machine = machines::find(machine).expect("it is registered");
        let mut runs = Vec::new();
        let outcome = simulate(trace, &machine, policy, &Options::default(), &mut runs);
        (outcome.expect("it runs to its end"), runs, machine)
    }

    #[test]
    fn lines_of_every_machine_become_the_same_results() {
        for machine in machines::all() {
            lines_become_the_same_results(machine.name);
        }
    }

    fn lines_become_the_same_results(machine: &str) {
        let trace = trace(20);
        let (outcome, _, machine) = outcome_on(machine, &trace, "fcfs");
        let text = format!("{0}\n{0}\n", outcome.to_json_line());
        let report = from_lines(&text, "t.json")
            .expect("lines")
            .expect("sound ones");
        assert_eq!(report.runs.len(), 2);
        let whole = outcome.to_run_result("trace", "t.json", "", &machine);
        let of_line = &report.runs[0];
        assert_eq!(of_line.cycles, whole.cycles);
        assert_eq!(
            (of_line.utilisation, of_line.bound),
            (whole.utilisation, whole.bound)
        );
        assert_eq!(of_line.ratio_to_fcfs, Some(1.0));
        let misses = |run: &RunResult| {
            let caches = run.caches.iter();
            let of = |cache: &CacheUse| (cache.cache.clone(), cache.misses, cache.unavoidable);
            caches.map(of).collect::<Vec<_>>()
        };
        assert_eq!(misses(of_line), misses(&whole));
        assert!(tanada_report::validate(&report).is_ok());
    }

    #[test]
    fn other_text_is_none_and_a_broken_line_is_named() {
        assert!(from_lines("{\"schema\": 1}\n", "x").is_none());
        assert!(from_lines("no json", "x").is_none() && from_lines("\n", "x").is_none());
        let line = outcome(&trace(3), "ts").0.to_json_line();
        let broken = from_lines(&format!("{line}\n\n{}", &line[..30]), "x");
        assert!(broken.is_some_and(|found| found.is_err_and(|what| what.contains("line 3"))));
    }

    #[test]
    fn a_chart_of_very_many_tasks_shows_the_middle_from_0_on() {
        let trace = trace(CHARTED as u32 + 1_000);
        let (outcome, runs, _) = outcome(&trace, "fcfs");
        let chart = chart(&trace, &outcome, &runs);
        assert_eq!(chart.events.len(), CHARTED);
        let (begin, end) = chart.span().expect("there are events");
        assert!(begin < 200 && end < outcome.makespan, "{begin} {end}");
        assert!(chart.label.contains("100000 of 101000"), "{}", chart.label);
    }
}
