//! `tanada record`: traces of workloads, and of programs.

mod program;
mod summary;
mod tasks;
mod threads;

use super::FromTable;
use super::chosen::{self, Chosen};
use crate::ui::{self, Failure, Outcome, Progress};
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use std::path::PathBuf;
use summary::Summary;
use tanada_harness::{host, recording};
use tanada_trace::{FileSink, TraceError};
use tanada_workloads::options::Purpose;
use tanada_workloads::workload::RecordError;
use tanada_workloads::{Site, recorder_of};

pub(crate) enum Args {
    Workload(Chosen<Common>),
    Program(program::Program),
}

const ABOUT: &str = "Write a trace of a workload or a program";

const DETAILS: &str = "\
    The trace holds the task graph that runs natively, and what each task computes, fetches, reads and writes; `tanada sim` runs it under \
    any policy on any machine. Data accesses of a workload are the program's own, computation and code are charged by a table. Any program \
    of Linux is recorded in an emulator, thread by thread with its synchronisation. Of a program that is built on the Tanada runtime \
    its tasks are recorded; what it does outside of tasks is dropped (docs/recording.md).";

const EXAMPLES: &str = "Examples:\n  tanada record h264 video.264 -o video.tnb --count 8\n  tanada record h264 --help\n  \
    tanada record -o program.tnb -- ./program its arguments";

/// The options of every workload.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Where the trace goes: text if the name ends with .tnt, else binary
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Workers that the work is cut and grouped for
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,

    /// Bytes of cache that each worker can count on for itself, for workloads that are cut by it
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10)]
    cache: u64,

    /// Bytes of its level-1 data cache
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 10)]
    l1d: u64,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

impl FromTable for Args {
    fn augment(command: Command) -> Command {
        program::Program::augment_args(command)
            .about(ABOUT)
            .long_about(format!("{ABOUT}\n\n{DETAILS}"))
            .after_help(EXAMPLES)
            .subcommands(Chosen::<Common>::commands(
                "record",
                Purpose::Record,
                " -o trace.tnb",
            ))
            .args_conflicts_with_subcommands(true)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some(chosen) => Chosen::from_subcommand(chosen, Purpose::Record).map(Args::Workload),
            None => program::Program::from_arg_matches(matches).map(Args::Program),
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let output = match &args {
        Args::Workload(chosen) => Some(&chosen.common.output),
        Args::Program(program) => program.output.as_ref(),
    };
    if output.is_some_and(|output| output.as_os_str() == "-") {
        return Err(Failure::Usage(
            "a trace goes to a file, because standard output is the program's and the summary's: \
             `-o -` names none (`-o ./-` does)"
                .to_owned(),
        ));
    }
    match args {
        Args::Workload(chosen) => workload(&chosen),
        Args::Program(program) if program.is_given() => program::run(&program),
        Args::Program(_) => Err(Failure::Usage(format!(
            "what is to be recorded? Name a workload ({}), or write `-- PROGRAM ARGS`; see `tanada record --help`",
            tanada_workloads::recordable().join(", ")
        ))),
    }
}

fn workload(chosen: &Chosen<Common>) -> Outcome {
    let Chosen {
        workload,
        values,
        common,
    } = chosen;
    let recorder = recorder_of(*workload).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut site = Site::new(common.workers);
    site.own_cache = Some(common.cache);
    site.l1d = Some(common.l1d);
    site.free_memory = host::free_memory();
    ui::distinct(values.paths(), [&*common.output])?;
    let unwritable = |error: TraceError| Failure::Input(error.to_string());
    let cancel = ui::interruptible();
    let mut file = FileSink::create(&common.output).map_err(unwritable)?;
    let mut progress = Progress::new(recorder.steps(values));
    progress.says(recorder.step());
    let at = |steps| progress.at(steps);
    let recorded = recording::record(*workload, values, &site, &mut file, &cancel, at);
    drop(progress);
    let recording = recorded.map_err(|error| match error {
        RecordError::Stopped => Failure::Interrupted,
        RecordError::Usage(what) => Failure::Usage(what),
        other => Failure::Input(other.to_string()),
    })?;
    file.finish().map_err(unwritable)?;
    Summary::new(workload.name(), &common.output, &recording).print(common.json)?;
    let name = recording.source.as_deref().unwrap_or(workload.name());
    chosen::verdict(name, recording.flaws.as_ref())
}
