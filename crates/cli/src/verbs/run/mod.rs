//! `tanada run`: one driver for all workloads, one module each.

mod h264;
pub(super) mod tiles;

use super::Named;
use super::pooling::{self, Pooling};
use crate::ui::{self, Failure, Outcome, OutputFile, Progress, at_fault};
use crate::{counted, host};
use clap::builder::ArgPredicate;
use md5::{Digest as _, Md5};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tanada_policy::registry::{self, GROUPED_POLICY};
use tanada_report::{
    BASELINE, Report, RunResult, SEQUENTIAL, Seconds, Timeline, to_json, to_perfetto, to_table,
};
use tanada_runtime::{Cancel, DEFAULT_POLICY, Pool, Recorder, Totals};
use tanada_topology::Topology;

/// Run one workload natively
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run h264 video.264 -o video.yuv\n  tanada run stencil --policy fcfs,ts --repeat 5\n  \
    tanada run h264 --help"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Named<h264::Args, tiles::Stencil, tiles::Pipeline>,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.workload {
        Named::H264(args) => h264::run(&args),
        Named::Stencil(args) => tiles::stencil(&args),
        Named::Pipeline(args) => tiles::pipeline(&args),
    }
}

/// The options of every workload.
#[derive(Debug, clap::Args)]
struct Running {
    /// The dispatchers, separated by commas; several take turns in every repeat [default: ts-local for stencil and pipeline and where
    /// --groups are given, else random-steal]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = DEFAULT_POLICY, value_parser = pooling::policies(),
        hide_default_value = true,
        default_value_ifs = [
            ("groups", ArgPredicate::from("none"), DEFAULT_POLICY),
            ("groups", ArgPredicate::IsPresent, GROUPED_POLICY),
        ])]
    policy: Vec<String>,

    /// Run so often and tell the shortest time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,

    /// Record every task of one more run, and write them for Perfetto or chrome://tracing (80 bytes of memory a task)
    #[arg(long, value_name = "FILE")]
    trace_events: Option<PathBuf>,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What runs the work.
enum Engine {
    /// This thread, without tasks.
    Here,
    Pool(Pool),
}

impl Engine {
    fn workers(&self) -> u16 {
        match self {
            Engine::Here => 1,
            Engine::Pool(pool) => pool.workers(),
        }
    }

    fn policy(&self) -> &str {
        match self {
            Engine::Here => SEQUENTIAL,
            Engine::Pool(pool) => pool.policy(),
        }
    }
}

/// What the driver wants of a workload.
trait Workload {
    /// As the registry has it.
    fn name(&self) -> &'static str;

    /// What it works on.
    fn input(&self) -> String;

    /// The heading of its report.
    fn title(&self) -> String;

    /// Shows how far `runs` runs have come.
    fn progress(&self, runs: u64) -> Progress;

    /// What comes before a run and does not count.
    fn prepare(&mut self, _engine: &Engine, _cancel: &Cancel) -> Outcome {
        Ok(())
    }

    /// Does the work once.
    fn run(&mut self, engine: &Engine, cancel: &Cancel, progress: &mut Progress) -> Outcome;

    /// Whether there is any point in running it again.
    fn goes_on(&self) -> bool {
        true
    }

    /// Writes into `run`, which has its times, what only the workload knows.
    fn describe(&self, run: &mut RunResult, engine: &Engine);

    /// Ends its outputs.
    fn close(&mut self) -> Outcome<Closing>;

    /// Fails where the result was told but is not good.
    fn verdict(&self) -> Outcome {
        Ok(())
    }
}

/// What a workload's outputs came to.
struct Closing {
    /// The MD5 of the result, if it was asked for.
    md5: Option<String>,
    /// Whether standard output is the result's, and all else belongs on standard error.
    stdout_taken: bool,
}

/// What one engine has measured.
struct Lane {
    engine: Engine,
    times: Vec<f64>,
    recorded: Option<(Duration, Totals, Timeline)>,
}

/// Runs a workload under each of the policies, or here without `pooling`.
fn drive(
    running: &Running,
    pooling: Option<&Pooling>,
    workload: &mut dyn Workload,
    cancel: &Cancel,
) -> Outcome {
    let events = running
        .trace_events
        .as_deref()
        .map(OutputFile::open)
        .transpose()?;
    let mut lanes = lanes(running, pooling)?;
    let records = pooling.filter(|_| events.is_some() || lanes.len() > 1);
    let rounds = u64::from(running.repeat) + u64::from(records.is_some());
    let mut progress = workload.progress(rounds * lanes.len() as u64);
    'rounds: for _ in 0..running.repeat {
        for lane in &mut lanes {
            workload.prepare(&lane.engine, cancel)?;
            let start = Instant::now();
            workload.run(&lane.engine, cancel, &mut progress)?;
            lane.times.push(start.elapsed().as_secs_f64());
            if !workload.goes_on() {
                break 'rounds;
            }
        }
    }
    if let Some(pooling) = records.filter(|_| workload.goes_on()) {
        for lane in &mut lanes {
            lane.recorded = Some(record(
                lane.engine.policy(),
                pooling,
                workload,
                events.is_some(),
                (cancel, &mut progress),
            )?);
        }
    }
    drop(progress);
    let closing = workload.close()?;
    let report = report(workload, lanes, closing.md5.as_deref());
    if let Some(events) = events {
        events.finish(to_perfetto(&report).as_bytes())?;
    }
    tell(running, workload, report, &closing)?;
    workload.verdict()
}

fn lanes(running: &Running, pooling: Option<&Pooling>) -> Outcome<Vec<Lane>> {
    let lane = |engine| Lane {
        engine,
        times: Vec::new(),
        recorded: None,
    };
    let Some(pooling) = pooling else {
        return Ok(vec![lane(Engine::Here)]);
    };
    let mut lanes: Vec<Lane> = Vec::new();
    for policy in &running.policy {
        if lanes.iter().all(|lane| lane.engine.policy() != policy) {
            let pool = pooling.builder(policy)?.build();
            let pool = pool.map_err(|error| Failure::Input(error.to_string()))?;
            lanes.push(lane(Engine::Pool(pool)));
        }
    }
    Ok(lanes)
}

/// One more run on a pool whose tasks are recorded: all of them, or their sums.
fn record(
    policy: &str,
    pooling: &Pooling,
    workload: &mut dyn Workload,
    all: bool,
    (cancel, progress): (&Cancel, &mut Progress),
) -> Outcome<(Duration, Totals, Timeline)> {
    let recorder = match all {
        true => Recorder::all(),
        false => Recorder::sums(),
    };
    let pool = pooling.builder(policy)?.observer(recorder.clone()).build();
    let pool = pool.map_err(|error| Failure::Input(error.to_string()))?;
    let label = format!("{}, {policy}", workload.input());
    let workers = pool.workers();
    let engine = Engine::Pool(pool);
    workload.prepare(&engine, cancel)?;
    recorder.take();
    let start = Instant::now();
    workload.run(&engine, cancel, progress)?;
    let (wall, recorded) = (start.elapsed(), recorder.take());
    let timeline = recorded.timeline(&label, policy, workers);
    Ok((wall, recorded.totals, timeline))
}

fn report(workload: &dyn Workload, lanes: Vec<Lane>, md5: Option<&str>) -> Report {
    let mut report = Report::new(&workload.title());
    report.command = ui::command_line();
    report.machine = Topology::detect()
        .map(|topology| host::summary(&topology))
        .unwrap_or_default();
    for lane in lanes {
        let (engine, workers) = (&lane.engine, lane.engine.workers());
        let mut run = RunResult::new(workload.name(), &workload.input(), engine.policy(), workers);
        run.machine = host::processor();
        run.seconds = Seconds::of(&lane.times);
        if let Some((wall, totals, timeline)) = lane.recorded {
            counted::describe(&mut run, &totals, wall, workers);
            if !timeline.events.is_empty() {
                report.timelines.push(timeline);
            }
        }
        run.honours_groups = registry::find(engine.policy()).is_ok_and(|entry| entry.groups);
        workload.describe(&mut run, engine);
        if let Some(md5) = md5 {
            run.extra.insert("md5".to_owned(), md5.into());
        }
        report.runs.push(run);
    }
    let baseline = report.runs.iter().find(|run| run.policy == BASELINE);
    let baseline = baseline.and_then(|run| run.seconds);
    if report.runs.len() > 1 {
        for run in &mut report.runs {
            run.ratio_to_fcfs = run.seconds.zip(baseline).map(|(run, of)| of.min / run.min);
        }
    }
    report
}

/// Tells the result: on standard output, unless the workload's result goes there.
fn tell(
    running: &Running,
    workload: &dyn Workload,
    mut report: Report,
    closing: &Closing,
) -> Outcome {
    report.timelines.clear();
    let mut text = String::new();
    if running.json {
        text.push_str(&to_json(&report).map_err(|error| at_fault("the report", error))?);
        text.push('\n');
    } else {
        if let Some(md5) = &closing.md5 {
            text.push_str(&format!("{md5}  {}\n", workload.input()));
        }
        text.push_str(&to_table(&report));
    }
    if closing.stdout_taken {
        ui::note(text.trim_end());
        return Ok(());
    }
    ui::print(&text)
}

/// A digest as text.
fn hex(md5: Md5) -> String {
    let digest = md5.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
