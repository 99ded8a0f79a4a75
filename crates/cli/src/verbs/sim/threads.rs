//! `tanada sim` of a thread trace: governors in the place of policies.

use super::{Args, distinct, finish_report, machine};
use crate::ui::{self, Failure, OutputFile, Progress};
use crate::verbs::outputs::file_name;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_harness::batch;
use tanada_policy::{Order, governors};
use tanada_report::{Cell, Report, thousands, to_list};
use tanada_runtime::Cancel;
use tanada_sim::{Intervals, Machine, SimError, ThreadOptions, ThreadsOutcome, simulate_threads};
use tanada_trace::threads::ThreadTrace;

/// Runs the thread trace that `args` name under each governor.
pub(super) fn run(args: &Args) -> ui::Outcome {
    for (flag, given) in [
        ("--policy", !args.policy.is_empty()),
        ("--groups", args.groups.is_some()),
        ("--events", args.events.is_some()),
    ] {
        if given {
            let trace = args.trace.display();
            return Err(Failure::Usage(format!(
                "{trace} is a thread trace: {flag} is for task traces; --governor chooses what decides about threads"
            )));
        }
    }
    let governors = chosen(&args.governor)?;
    distinct(args)?;
    let machine = machine(args)?;
    let trace =
        ThreadTrace::open(&args.trace).map_err(|error| Failure::Input(error.to_string()))?;
    let cancel = ui::interruptible();
    let page = args.report.as_deref().map(OutputFile::open).transpose()?;
    let outcomes = all(args, &trace, &machine, &governors, &cancel)?;
    let lines = outcomes.iter().map(|one| {
        let mut value = serde_json::to_value(one).expect("plain data has a JSON form");
        value["ipc"] = one.ipc().into();
        format!("{value}\n")
    });
    let printed = ui::print(&match args.json {
        true => lines.collect(),
        false => text(&args.trace, &trace, &machine, &outcomes),
    });
    if let Some(file) = page {
        let input = file_name(&args.trace);
        let mut report = Report::new(&format!("{input} on {}", machine.name));
        let runs = outcomes.iter();
        report.runs = runs
            .map(|one| one.to_run_result(&input, &machine))
            .collect();
        finish_report(args, file, report)?;
    }
    printed
}

/// The intervals of what happens over time: the shortest are finer than any period, and a chart has room for some hundreds.
const INTERVALS: Intervals = Intervals {
    cycles: 1000,
    most: 512,
};

/// Returns the registered names of the governors that were asked for.
fn chosen(wanted: &[String]) -> ui::Outcome<Vec<&'static str>> {
    if wanted.is_empty() {
        return Ok(governors::all().iter().map(|entry| entry.name).collect());
    }
    let find = |name: &String| {
        let entry = governors::find(name.trim());
        entry
            .map(|entry| entry.name)
            .map_err(|error| Failure::Usage(error.to_string()))
    };
    wanted.iter().map(find).collect()
}

/// Simulates all governors, on as many threads of this machine as there are.
fn all(
    args: &Args,
    trace: &ThreadTrace,
    machine: &Machine,
    governors: &[&'static str],
    cancel: &Cancel,
) -> ui::Outcome<Vec<ThreadsOutcome>> {
    let each: u64 = trace
        .threads()
        .iter()
        .map(|one| one.totals.instructions)
        .sum();
    let mut progress = Progress::new(Some(each.saturating_mul(governors.len() as u64)));
    progress.says("instructions");
    let done: Vec<AtomicU64> = governors.iter().map(|_| AtomicU64::new(0)).collect();
    let threads = args.threads.map_or_else(batch::host_threads, usize::from);
    let one = |number: usize| {
        let watch = |instructions| {
            done[number].store(instructions, Ordering::Relaxed);
            !cancel.is_cancelled()
        };
        let options = ThreadOptions {
            seed: args.seed,
            watch: Some(&watch),
            observe: (args.json || args.report.is_some()).then_some(INTERVALS),
        };
        simulate_threads(trace, machine, governors[number], &options)
    };
    let results = batch::collect(governors.len(), threads, one, |_| {
        progress.at(done.iter().map(|one| one.load(Ordering::Relaxed)).sum());
        ControlFlow::Continue(())
    });
    drop(progress);
    let results = results.into_iter().flatten();
    results
        .map(|result| {
            result.map_err(|error| match error {
                SimError::Cancelled => Failure::Interrupted,
                SimError::Trace(error) => Failure::Input(error.to_string()),
                error => Failure::Input(format!("{}: {error}", args.trace.display())),
            })
        })
        .collect()
}

/// Returns a number of threads of a kind in words.
fn threads(count: usize, kind: &str) -> String {
    let one = if count == 1 { "" } else { "s" };
    format!("{count} {kind} thread{one}")
}

/// Stalls that are shown for each governor.
const STALLS: usize = 4;

fn text(
    path: &Path,
    trace: &ThreadTrace,
    machine: &Machine,
    outcomes: &[ThreadsOutcome],
) -> String {
    let Some(first) = outcomes.first() else {
        return String::new();
    };
    let head = trace.head();
    let lacks = [
        (head.partial, ", a piece of the program"),
        (
            head.unsynchronised,
            ", recorded without locks, barriers and joins",
        ),
    ];
    let lacks = lacks
        .into_iter()
        .filter_map(|(lacks, what)| lacks.then_some(what));
    let mut text = format!(
        "{} on {}: {} on {}, {} instructions{}\n",
        path.display(),
        machine.name,
        threads(trace.threads().len(), "logical"),
        threads(first.hardware_threads, "hardware"),
        thousands(first.instructions),
        lacks.collect::<String>(),
    );
    let labels: Vec<String> = first
        .levels
        .iter()
        .map(|level| format!("{} hits", level.label.to_uppercase()))
        .collect();
    let mut header = vec!["governor", "cycles", "IPC"];
    header.extend(labels.iter().map(String::as_str));
    header.push("what hardware threads stall on");
    let rows = outcomes.iter().map(|one| {
        let mut row = vec![
            one.governor.as_str().into(),
            Cell::count(one.cycles),
            Cell::number(one.ipc(), format!("{:.3}", one.ipc())),
        ];
        row.extend(one.levels.iter().map(|level| {
            let hits = level.hit_percent();
            Cell::number(hits, format!("{hits:.2}%"))
        }));
        let shown = |(_, share): &(_, f64)| *share >= 0.005;
        let stalls = one.stalls().into_iter().take(STALLS).filter(shown);
        let stalls = stalls.map(|(cause, share)| format!("{cause} {:.0}%", share * 100.0));
        row.push(stalls.collect::<Vec<_>>().join(", ").as_str().into());
        row
    });
    text += &to_list(header, rows);
    text += "\nWhat logical threads wait for, in percent of their time\n";
    let mut header = vec!["governor", "queue"];
    header.extend(first.waits);
    let rows = outcomes.iter().map(|one| {
        let lives: u64 = one.logical.iter().map(|thread| thread.ended).sum();
        let share = |cycles: u64| {
            let share = cycles as f64 * 100.0 / lives.max(1) as f64;
            Cell::number(share, format!("{share:.1}"))
        };
        let mut row = vec![
            one.governor.as_str().into(),
            share(one.logical.iter().map(|thread| thread.queued).sum()),
        ];
        row.extend(
            (0..one.waits.len())
                .map(|kind| share(one.logical.iter().map(|thread| thread.blocked[kind]).sum())),
        );
        row
    });
    text += &to_list(header, rows);
    for one in outcomes {
        text += &decisions(one);
    }
    text
}

/// Changes of a governor's plan that are shown.
const CHANGES: usize = 8;

/// Returns when and why a governor changed its plan; empty if it did not.
fn decisions(outcome: &ThreadsOutcome) -> String {
    let mut changes = outcome.changes();
    let mut text = String::new();
    for row in changes.by_ref().take(CHANGES) {
        let (cycle, threads) = (thousands(row.cycle), threads(row.next_width, "hardware"));
        // Threads that go on where they are do not change the order of the queue.
        let order = match row.order == Order::Kept.as_str() {
            true => String::new(),
            false => format!(", {}", row.order),
        };
        let _ = writeln!(text, "  {cycle}: {threads}{order} ({})", row.why);
    }
    let left = changes.count();
    if left > 0 {
        let _ = writeln!(text, "  and {left} further changes (--json has all)");
    }
    if !text.is_empty() {
        text = format!("\n{} at cycle\n{text}", outcome.governor);
    }
    if outcome.forced > 0 {
        let times = match outcome.forced {
            1 => "once".to_owned(),
            times => format!("{} times", thousands(times)),
        };
        let _ = writeln!(
            text,
            "\n{}: {times} no thread could run, and one was made to go on: its lock was held, or the recording lacks what it waited for",
            outcome.governor
        );
    }
    text
}
