//! `tanada run`.

use super::FromTable;
use super::chosen::{self, Chosen};
use super::pooling::{self, Pooling};
use crate::ui::{self, Failure, Outcome, OutputFile, Progress, at_fault};
use clap::{ArgMatches, Command};
use md5::{Digest as _, Md5};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tanada_harness::rounds;
use tanada_harness::run::{self as harness, Error, Options};
use tanada_policy::registry::GROUPED_POLICY;
use tanada_report::{Report, to_json, to_perfetto, to_table};
use tanada_runtime::DEFAULT_POLICY;
use tanada_topology::Topology;
use tanada_workloads::options::Purpose;
use tanada_workloads::workload::{Done, Output, RunError};

/// Run one workload natively
pub(crate) struct Args(Chosen<Common>);

/// The options of every workload.
#[derive(Debug, clap::Args)]
struct Common {
    /// Write the result (that of the first repeat); - is standard output, and then all else goes to standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print the MD5 of the result
    #[arg(long)]
    md5: bool,

    /// The policies, separated by commas; several take turns in every repeat [default: ts-local if --groups are given
    /// or the workload has groups that pay, else random-steal]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = pooling::policies())]
    policy: Vec<String>,

    /// Repeats; the shortest time counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,

    /// Record every task of one more run, and write them for Perfetto or chrome://tracing (80 bytes of memory a task)
    #[arg(long, value_name = "FILE")]
    trace_events: Option<PathBuf>,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Run without tasks, on one thread
    #[arg(long, conflicts_with_all = ["policy", "workers", "bind", "seed", "trace_events"])]
    sequential: bool,

    #[command(flatten)]
    pooling: Pooling,
}

impl FromTable for Args {
    fn augment(command: Command) -> Command {
        command
            .about("Run one workload natively")
            .long_about(None)
            .subcommands(Chosen::<Common>::commands("run", Purpose::Run, ""))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .after_help(
                "Examples:\n  tanada run h264 video.264 -o video.yuv\n  tanada run stencil --policy fcfs,ts --repeat 5\n  \
                tanada run h264 --help",
            )
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = matches.subcommand().expect("the parser requires one");
        Chosen::from_subcommand(chosen, Purpose::Run).map(Args)
    }
}

impl Chosen<Common> {
    /// Returns the policies that were asked for; none without tasks.
    fn policies(&self) -> Vec<String> {
        let Common {
            policy, sequential, ..
        } = &self.common;
        if *sequential || !policy.is_empty() {
            return policy.clone();
        }
        let values = &self.values;
        let wanted = values.has("groups")
            && values.name("groups") != "none"
            && (values.is_given("groups") || self.workload.prefers_groups());
        let policy = match wanted {
            true => GROUPED_POLICY,
            false => DEFAULT_POLICY,
        };
        vec![policy.to_owned()]
    }
}

pub(crate) fn run(Args(chosen): Args) -> Outcome {
    let Chosen {
        workload,
        values,
        common,
    } = &chosen;
    let outputs = [common.output.as_deref(), common.trace_events.as_deref()];
    ui::distinct(values.paths(), outputs.into_iter().flatten())?;
    if workload.forks() && common.trace_events.is_some() {
        return Err(Failure::Usage(format!(
            "--trace-events: {name} is made of nested forks, which have no events of tasks; those of a simulation: \
            `tanada record {name} -o {name}.tnb`, `tanada sim {name}.tnb --machine M --policy P --events FILE`",
            name = workload.name()
        )));
    }
    // A large field takes seconds to lay out: a signal meanwhile is answered at the end of that, or after some seconds.
    let cancel = ui::interruptible();
    let mut output = Bytes::open(common)?;
    let events = common.trace_events.as_deref().map(OutputFile::open);
    let events = events.transpose()?;
    let topology = Topology::detect().map_err(|error| at_fault("this machine", error))?;
    let pools = common.pooling.pools()?;
    let workers = match common.sequential {
        true => 1,
        false => pools.workers_on(&topology),
    };
    let prepared = workload.prepare(values, &rounds::site(&topology.place(workers)));
    let mut prepared = prepared.map_err(unprepared)?;
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    let options = Options {
        policies: chosen.policies(),
        pools,
        rounds: common.repeat,
        events: events.is_some(),
        forks: workload.forks(),
    };
    let runs = u64::from(common.repeat) * options.policies.len().max(1) as u64;
    let mut progress = Progress::new(prepared.steps().map(|steps| steps * runs));
    progress.says(prepared.step());
    let wanted = output.is_wanted();
    let report = watched(&prepared.done(), &mut progress, || {
        let output = wanted.then_some(&mut output as &mut dyn Output);
        harness::run(workload.name(), &mut *prepared, &options, &cancel, output)
    });
    drop(progress);
    let mut report = report.map_err(|error| match error {
        Error::Run(error) if error.is_cancelled() => Failure::Interrupted,
        other => Failure::Input(other.to_string()),
    })?;
    let md5 = output.close()?;
    report.command = ui::command_line();
    if let Some(md5) = &md5 {
        for run in &mut report.runs {
            run.extra.insert("md5".to_owned(), md5.as_str().into());
        }
    }
    let input = prepared.input();
    let events = events.map(|file| (file, to_perfetto(&report)));
    let printed = tell(common, report, md5.as_deref(), &input);
    if let Some((file, text)) = events {
        file.finish(text.as_bytes())?;
    }
    printed?;
    chosen::verdict(&input, prepared.flaws().as_ref())
}

/// Returns the failure of a workload that cannot be prepared.
pub(super) fn unprepared(error: RunError) -> Failure {
    Failure::Input(error.to_string())
}

/// Prints the result: on standard output, unless the bytes of the result go there.
fn tell(common: &Common, mut report: Report, md5: Option<&str>, input: &str) -> Outcome {
    report.timelines.clear();
    let mut text = String::new();
    if common.json {
        text.push_str(&to_json(&report).map_err(|error| at_fault("the report", error))?);
        text.push('\n');
    } else {
        if let Some(md5) = md5 {
            text.push_str(&format!("{md5}  {input}\n"));
        }
        text.push_str(&to_table(&report));
    }
    if common.output.as_deref() == Some(Path::new("-")) {
        ui::note(text.trim_end());
        return Ok(());
    }
    ui::print(&text)
}

/// Does the work, while another thread shows on a terminal how far it is, and returns its result.
fn watched<T>(done: &Done, progress: &mut Progress, work: impl FnOnce() -> T) -> T {
    const LOOK: Duration = Duration::from_millis(200);
    if !io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|s| {
        let (over, ended) = channel::<()>();
        let show = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                progress.at(done.steps());
            }
        };
        // Without the thread nothing but the progress is missing.
        let _ = std::thread::Builder::new().spawn_scoped(s, show);
        let result = work();
        drop(over);
        result
    })
}

/// Where the bytes of the result go.
enum Target {
    Nowhere,
    Stdout(BufWriter<io::Stdout>),
    File(PathBuf, BufWriter<OutputFile>),
}

/// The bytes of the result: written, and summed up.
struct Bytes {
    target: Target,
    md5: Option<Md5>,
    failed: Option<io::Error>,
}

impl Bytes {
    /// Opens and returns the output.
    fn open(common: &Common) -> Outcome<Bytes> {
        let target = match common.output.as_deref() {
            None => Target::Nowhere,
            Some(path) if path == Path::new("-") => Target::Stdout(BufWriter::new(io::stdout())),
            Some(path) => {
                let file = BufWriter::with_capacity(1 << 20, OutputFile::open(path)?);
                Target::File(path.to_owned(), file)
            }
        };
        Ok(Bytes {
            target,
            md5: common.md5.then(Md5::new),
            failed: None,
        })
    }

    fn is_wanted(&self) -> bool {
        self.md5.is_some() || !matches!(self.target, Target::Nowhere)
    }

    /// Ends the output. Returns the MD5 as text, if it was asked for.
    fn close(self) -> Outcome<Option<String>> {
        let failed = self.failed.map_or(Ok(()), Err);
        match self.target {
            Target::Nowhere => {}
            Target::Stdout(mut out) => failed
                .and_then(|()| out.flush())
                .or_else(ui::output_failed)?,
            Target::File(path, out) => failed
                .and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error))
                .and_then(OutputFile::keep)
                .map_err(|error| at_fault(path.display(), error))?,
        }
        Ok(self.md5.map(hex))
    }
}

impl Output for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if self.failed.is_none() {
            let written = match &mut self.target {
                Target::Nowhere => Ok(()),
                Target::Stdout(out) => out.write_all(bytes),
                Target::File(_, out) => out.write_all(bytes),
            };
            self.failed = written.err();
        }
    }

    fn is_broken(&self) -> bool {
        // Without a reader of standard output the other outputs are still of use.
        let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        let is_printed = matches!(self.target, Target::Stdout(_));
        let failed = self.failed.as_ref();
        failed.is_some_and(|error| !(is_printed && closed(error)))
    }
}

/// Returns a digest as text.
fn hex(md5: Md5) -> String {
    let digest = md5.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
