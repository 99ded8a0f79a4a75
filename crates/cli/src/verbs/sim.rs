//! `tanada sim`.

mod threads;

use super::outputs::file_name;
use crate::ui::{self, Failure, OutputFile, Progress, at_fault};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_harness::batch;
use tanada_harness::simulated::{self, Work};
use tanada_policy::{forks, registry};
use tanada_report::{Cell, Report, thousands, to_html, to_json, to_list};
use tanada_runtime::Cancel;
use tanada_sim::machines::{self, NotFound};
use tanada_sim::{
    Machine, MachineError, Observer, Options, Outcome, Run, SimError, simulate, spelling,
};
use tanada_trace::threads::ThreadTrace;
use tanada_trace::{Groups, Trace};
use tanada_workloads::other_spelling;

/// Run a trace on a simulated machine
///
/// Every policy runs the same recorded work on the same machine; what comes out depends on trace, machine, policies and seed only. A thread
/// trace, which `tanada record` makes of any program, runs under governors instead, on cores with one or several hardware threads.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada sim demo.tnt --machine toshiba --policy fcfs,ts --cores 4\n  \
    tanada sim demo.tnt --machine toshiba --policy ts --groups toshiba-a --set l2.size=64K --json\n  \
    tanada sim demo.tnt --machine toshiba --policy fcfs,ts --cores 4 --report page.html\n  \
    tanada sim demo.tnt --machine mine.toml --policy random-steal --seed 7 --events events.csv\n  \
    tanada sim threads.tnb --machine tuat --governor fifo,rs-ss --set l1d.size=32K --report page.html\n  \
    zstdcat demo.tnb.zst | tanada sim - --machine toshiba"
)]
pub(crate) struct Args {
    /// The trace, as text (.tnt) or binary (.tnb); `-`: standard input
    trace: PathBuf,

    /// A machine that `tanada machines` lists, or a machine file
    #[arg(long, value_name = "NAME|FILE")]
    machine: PathBuf,

    /// Policies, with commas [default: all]
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',')]
    policy: Vec<String>,

    /// Governors, with commas, of a thread trace: how many hardware threads run, and whose turn it is [default: all]
    #[arg(long, value_name = "G[,G...]", value_delimiter = ',')]
    governor: Vec<String>,

    /// Cores in the place of the machine's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cores: Option<u16>,

    /// Seed of the policies and of random replacement [default: the machine's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Groups of this name in the trace, or `none` [default: the groups without a name; none if all have names]
    #[arg(long, value_name = "NAME")]
    groups: Option<String>,

    /// Replace a value of the machine: dispatch_cycles=5, l2.size=128K, l1i.ways=4 (l1. means all of level 1)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Write what ran where and when as CSV (one policy only)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,

    /// Write a page with charts: time beside the bound, stalls, misses, reuse distances, who ran what (of a thread trace stalls by
    /// hardware thread, what happened over time, decisions, who waited for what); for a name that ends with .json the same as data,
    /// for `tanada report`
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Threads of this machine: policies run side by side, with the same results [default: as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Print one JSON object a policy, one a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(mut args: Args) -> ui::Outcome {
    // A pipe cannot be looked at twice: only --governor tells that it brings a thread trace.
    let is_pipe = args.trace.as_os_str() == "-";
    if is_pipe {
        args.trace = PathBuf::from("/dev/stdin");
    }
    let of_threads = !args.governor.is_empty();
    if of_threads || !is_pipe && ThreadTrace::is_one(&args.trace) {
        if of_threads && !is_pipe && args.trace.exists() && !ThreadTrace::is_one(&args.trace) {
            // What is no trace at all is said first.
            open(&args)?;
            let trace = args.trace.display();
            return Err(Failure::Usage(format!(
                "{trace} is no thread trace: --governor is for thread traces, --policy for task traces"
            )));
        }
        return threads::run(&args);
    }
    let policies = policies(&args.policy)?;
    if args.events.is_some() && policies.len() != 1 {
        return Err(Failure::Usage(
            "--events writes the events of one policy; name one with --policy".to_owned(),
        ));
    }
    distinct(&args)?;
    let machine = machine(&args)?;
    let trace = open(&args)?;
    let cancel = ui::interruptible();
    let events = args.events.as_deref().map(OutputFile::open).transpose()?;
    let page = args.report.as_deref().map(OutputFile::open).transpose()?;
    let done = all(&args, &trace, &machine, &policies, &cancel)?;
    let outcomes: Vec<&Outcome> = done.iter().map(|(outcome, _)| outcome).collect();
    let lines = outcomes.iter().map(|one| one.to_json_line() + "\n");
    let printed = ui::print(&match args.json {
        true => lines.collect(),
        false => table(&args, &machine, &outcomes),
    });
    if let (Some(file), Some((_, runs))) = (events, done.first()) {
        write_events(file, &trace, runs)?;
    }
    if let Some(file) = page {
        write_report(&args, file, &trace, &machine, &done)?;
    }
    if !args.json
        && let Some(names) = groups_left(&args, &trace)
    {
        ui::note(&format!(
            "no task of this trace has a plain T or S group, but there are named ones: --groups {names}"
        ));
    }
    printed
}

/// Checks that no output is an input or another output.
fn distinct(args: &Args) -> ui::Outcome {
    let outputs = [args.events.as_deref(), args.report.as_deref()];
    let registered = machines::all().any(|shipped| args.machine.as_os_str() == shipped.name);
    let file = (!registered).then_some(&*args.machine);
    let inputs = [Some(&*args.trace), file].into_iter().flatten();
    ui::distinct(inputs, outputs.into_iter().flatten())
}

/// Opens and returns the trace with the groups that were asked for, in either spelling of their name.
fn open(args: &Args) -> ui::Outcome<Trace> {
    let named = |name: &str| Groups::Named(name.to_owned());
    let groups = match args.groups.as_deref() {
        None => Groups::Plain,
        Some("none") => Groups::None,
        Some(name) => named(name),
    };
    let opened = Trace::open(&args.trace, &groups);
    let opened = match (opened, args.groups.as_deref().and_then(other_spelling)) {
        (Err(error), Some(other)) if error.is_usage() => {
            Trace::open(&args.trace, &named(other)).map_err(|_| error)
        }
        (opened, _) => opened,
    };
    opened.map_err(|error| of_sim(args, error.into()))
}

/// Returns the names of groups that the trace has, if the user asked for none and may not know them.
fn groups_left(args: &Args, trace: &Trace) -> Option<String> {
    let plain = trace.tasks().iter().any(|task| (task.t, task.s) != (0, 0));
    let left = args.groups.is_none() && !plain && !trace.groupings().is_empty();
    left.then(|| trace.groupings().join("|"))
}

/// Returns the registered names of the policies that were asked for.
fn policies(wanted: &[String]) -> ui::Outcome<Vec<&'static str>> {
    if wanted.is_empty() {
        return Ok(registry::all().iter().map(|entry| entry.name).collect());
    }
    let find = |name: &String| {
        let wanted = name.trim();
        let entry = forks::any().find(|entry| entry.name == wanted);
        let entry = entry.map_or_else(|| registry::find(wanted), Ok);
        entry.map(|entry| entry.name).map_err(|error| {
            let names = forks::any().map(|entry| entry.name);
            Failure::Usage(spelling::asked(error, name.trim(), names))
        })
    };
    wanted.iter().map(find).collect()
}

fn machine(args: &Args) -> ui::Outcome<Machine> {
    let machine = machines::find(&args.machine).map_err(|error| match error {
        NotFound::Unknown { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Input(error.to_string()),
    })?;
    let changed = |error: MachineError| match error.is_usage() {
        true => Failure::Usage(error.to_string()),
        false => Failure::Input(error.to_string()),
    };
    let mut overrides = args.set.clone();
    if let Some(cores) = args.cores {
        overrides.push(format!("cores={cores}"));
    }
    machine.overridden(&overrides).map_err(changed)
}

fn of_sim(args: &Args, error: SimError) -> Failure {
    match error.locate(&args.trace) {
        SimError::Cancelled => Failure::Interrupted,
        SimError::Trace(error) if error.is_usage() => Failure::Usage(error.to_string()),
        SimError::Trace(error) => Failure::Input(error.to_string()),
        error @ SimError::Overflow { .. } if !error.is_located() => {
            at_fault(args.trace.display(), error)
        }
        error => Failure::Input(error.to_string()),
    }
}

/// Runs all policies, on as many threads as there are, and returns the outcomes in the order of the policies, with their runs if those are
/// asked for.
fn all(
    args: &Args,
    trace: &Trace,
    machine: &Machine,
    policies: &[&'static str],
    cancel: &Cancel,
) -> ui::Outcome<Vec<(Outcome, Vec<Run>)>> {
    let whole = trace.len() as u64 * policies.len() as u64;
    let mut progress = Progress::new(Some(whole));
    progress.says("tasks");
    let ended: Vec<AtomicU64> = policies.iter().map(|_| AtomicU64::new(0)).collect();
    let threads = args.threads.map_or_else(batch::host_threads, usize::from);
    let kept = args.events.is_some() || args.report.is_some();
    let one = |number: usize| {
        let watch = |tasks| {
            ended[number].store(tasks, Ordering::Relaxed);
            !cancel.is_cancelled()
        };
        let options = Options {
            seed: args.seed,
            watch: Some(&watch),
            ..Options::default()
        };
        let mut runs: Vec<Run> = Vec::new();
        let observer: &mut dyn Observer = if kept { &mut runs } else { &mut () };
        let outcome = simulate(trace, machine, policies[number], &options, observer)?;
        Ok((outcome, runs))
    };
    let results = batch::collect(policies.len(), threads, one, |_| {
        let sum = ended.iter().map(|one| one.load(Ordering::Relaxed));
        progress.at(sum.sum());
        ControlFlow::Continue(())
    });
    drop(progress);
    let results = results.into_iter().flatten();
    results
        .map(|result| result.map_err(|error| of_sim(args, error)))
        .collect()
}

fn write_events(file: OutputFile, trace: &Trace, runs: &[Run]) -> ui::Outcome {
    let mut text = "core,task,start,end\n".to_owned();
    for run in runs {
        let id = trace.tasks()[run.task as usize].id;
        let _ = writeln!(text, "{},{id},{},{}", run.core, run.start, run.end);
    }
    Ok(file.finish(text.as_bytes())?)
}

/// Writes the page of all runs, or their data.
fn write_report(
    args: &Args,
    file: OutputFile,
    trace: &Trace,
    machine: &Machine,
    done: &[(Outcome, Vec<Run>)],
) -> ui::Outcome {
    let name = file_name(&args.trace);
    let work = Work {
        workload: "trace",
        input: &name,
        groups: args.groups.as_deref().unwrap_or_default(),
    };
    let mut report = Report::new(&format!("{name} on {}", machine.name));
    for (outcome, runs) in done {
        let result = simulated::result(trace, machine, outcome, runs, work);
        report
            .runs
            .push(result.map_err(|error| of_sim(args, error))?);
        report
            .timelines
            .push(simulated::chart(trace, outcome, runs));
    }
    finish_report(args, file, report)
}

/// Writes a page of simulated runs, or their data.
fn finish_report(args: &Args, file: OutputFile, mut report: Report) -> ui::Outcome {
    report.command = ui::command_line();
    simulated::rate(&mut report.runs);
    let data = args.report.as_deref().and_then(Path::extension);
    let text = match data.is_some_and(|extension| extension == "json") {
        true => to_json(&report),
        false => to_html(&report),
    };
    Ok(file.finish(
        text.map_err(|error| at_fault("the report", error))?
            .as_bytes(),
    )?)
}

fn table(args: &Args, machine: &Machine, outcomes: &[&Outcome]) -> String {
    let mut text = format!(
        "{} on {} ({}), {} cores, {} tasks\n",
        args.trace.display(),
        machine.name,
        machine.model.as_str(),
        machine.cores,
        outcomes.first().map_or(0, |one| one.tasks),
    );
    let caches = outcomes.first().map_or(&[][..], |one| &one.caches);
    let labels: Vec<String> = caches
        .iter()
        .map(|cache| format!("{} misses", cache.label().to_uppercase()))
        .collect();
    let mut header = vec!["policy", "cycles", "x bound", "utilisation"];
    header.extend(labels.iter().map(String::as_str));
    header.push("write-backs");
    let rows = outcomes.iter().map(|one| {
        let mut row = vec![
            one.policy.as_str().into(),
            Cell::count(one.makespan),
            Cell::number(one.bound_ratio(), format!("{:.3}", one.bound_ratio())),
            Cell::number(
                one.utilisation(),
                format!("{:.1}%", one.utilisation() * 100.0),
            ),
        ];
        row.extend(one.caches.iter().map(|cache| {
            let share = match cache.count.accesses {
                0 => 0.0,
                accesses => cache.count.misses as f64 / accesses as f64 * 100.0,
            };
            let misses = cache.count.misses;
            let text = format!("{} ({share:.2}%)", thousands(misses));
            Cell::number(misses as f64, text)
        }));
        row.push(Cell::count(one.writebacks));
        row
    });
    text += &to_list(header, rows);
    if let Some(first) = outcomes.first() {
        let _ = writeln!(
            text,
            "\nx bound: cycles over the {} that no schedule beats on this machine",
            thousands(first.bound)
        );
    }
    text
}
