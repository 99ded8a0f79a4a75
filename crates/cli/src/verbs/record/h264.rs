//! `tanada record h264`.

use super::told::Told;
use crate::ui::{self, Failure, Outcome, Progress, at_fault};
use crate::verbs::decoding::{self, cuts, damage, dependencies, groups};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tanada_trace::{FileSink, TraceError};
use tanada_workloads::h264::{Cut, Dependencies, Groups};
use tanada_workloads::record::{self, Costs, H264Error, H264Options, Pictures};

/// Record H.264 decoding
///
/// Reconstruction of the chosen pictures, cut into tasks and grouped as `run h264` does it; all of them carry the groups `a`, `b` and `own`
/// by name. Data accesses are the decoder's own, computation and code are charged by a table. Of a damaged stream that is recorded which
/// could be decoded; the errors are told on standard error, and the command ends with 1.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada record h264 video.264 -o video.tnb --count 8\n  \
    tanada record h264 -o paper.tnb --barrier --first 4 --count 8 --sample 16"
)]
pub(super) struct Args {
    /// H.264 byte stream (Annex B) [default: an embedded demo]
    #[arg(value_name = "IN.264")]
    input: Option<PathBuf>,

    /// Where the trace goes: text where the name ends with .tnt, else binary
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// How work is cut into tasks
    #[arg(long, value_name = "CUT", default_value_t = Cut::Paper, value_parser = cuts())]
    tasks: Cut,

    /// Which tasks wait for those of neighbouring macroblocks: those that need them, or all, as in paper 1
    #[arg(long, value_name = "KIND", default_value_t = Dependencies::Needed, value_parser = dependencies())]
    dependencies: Dependencies,

    /// The groups that tasks carry as plain ones, for `sim` without --groups
    #[arg(long, value_name = "PATTERN", default_value_t = Groups::None, value_parser = groups())]
    groups: Groups,

    /// Workers that the cut and the groups `own` are made for
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,

    /// Number of the first picture, in decoding order from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,

    /// So many pictures at most [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only every K-th picture, each beginning when the one before has ended
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    sample: u64,

    /// A picture begins when the one before has ended
    #[arg(long)]
    barrier: bool,

    /// Otherwise so many pictures may be on their way at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ahead: u32,

    /// Table of cycles and code bytes of stages and operations [default: an MPE, the core of paper 1]
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<PathBuf>,

    /// Replace a figure of that table, as scale.cycles=1.5
    #[arg(long, value_name = "KEY=NUMBER")]
    set: Vec<String>,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let costs = costs(args.costs.as_deref(), &args.set)?;
    let (name, stream): (String, Cow<'_, [u8]>) = match &args.input {
        Some(path) => (path.display().to_string(), decoding::read(path)?.into()),
        None => ("the embedded demo".to_owned(), tanada_harness::DEMO.into()),
    };
    let options = H264Options {
        cut: args.tasks,
        dependencies: args.dependencies,
        groups: args.groups,
        workers: args.workers,
        pictures: Pictures::Every {
            first: args.first,
            count: args.count.unwrap_or(u64::MAX),
            every: args.sample,
        },
        barrier: args.barrier,
        ahead: args.ahead,
        costs,
        ..H264Options::default()
    };
    let unwritable = |error: TraceError| Failure::Input(error.to_string());
    let mut file = FileSink::create(&args.output).map_err(unwritable)?;
    let cancel = ui::interruptible();
    let mut progress = Progress::new(args.count);
    progress.says("pictures");
    let seen = |_, recorded| {
        progress.at(recorded);
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let recorded = record::h264(&stream, &options, &mut file, seen);
    drop(progress);
    let recording = recorded.map_err(|error| match error {
        H264Error::Stopped => Failure::Interrupted,
        H264Error::Trace(error) => unwritable(error),
        H264Error::TooShort { .. } => {
            Failure::Input(format!("{name}: {error}; choose a smaller --first"))
        }
        other => at_fault(&name, other),
    })?;
    file.finish().map_err(unwritable)?;
    Told::new(
        "h264",
        &args.output,
        options.costs.name(),
        &recording.recorded,
    )
    .pictures(&name, recording.pictures, recording.macroblocks)
    .print(args.json)?;
    damage(&name, &recording.stream)
}

/// The table that was asked for.
fn costs(path: Option<&Path>, set: &[String]) -> Outcome<Costs> {
    let (text, name) = match path {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| at_fault(path.display(), error))?;
            (Cow::from(text), path.display().to_string())
        }
        None => (Costs::default_text().into(), "--set".to_owned()),
    };
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    Costs::parse_with(&text, &name, &set).map_err(|error| match path {
        Some(_) => Failure::Input(error.to_string()),
        None => Failure::Usage(error.to_string()),
    })
}
