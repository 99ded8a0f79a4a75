//! `tanada compare`.

use super::decoding::{self, Decoding};
use super::outputs::Outputs;
use super::pooling;
use crate::ui::{self, Failure, Outcome, Progress};
use clap::ValueHint;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tanada_harness::compare::{self, Candidate, Error, Found, Input, Options};

/// Decode a video under each dispatcher, check every frame, and compare
///
/// Decodes the stream with the sequential decoder and as tasks under each dispatcher, checks that every frame is the same, and shows
/// frames a second, ratio to fcfs, tasks, scheduling cost and utilisation as a table and as a page with a chart of one picture. Then it
/// records eight pictures and simulates them under the same dispatchers on the chip of paper 1 (4 cores, with and without contention for
/// its memory): cycles, ratio to fcfs, utilisation, misses and the distance to what no schedule could beat.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tanada compare\n  \
    tanada compare video.264 --policy fcfs,ts --groups a --tasks mb --workers 4 -o page.html\n\n\
    fps is that of the shortest round. Tasks, costs and utilisation are those of further decodings with a recorder, which\n\
    costs two readings of the clock a task.")]
pub(crate) struct Args {
    /// H.264 byte stream (Annex B) [default: an embedded demo]
    #[arg(value_name = "INPUT.264", value_hint = ValueHint::FilePath)]
    input: Option<PathBuf>,

    /// Dispatchers to compare, separated by commas [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = pooling::policies())]
    policy: Vec<String>,

    #[command(flatten)]
    decoding: Decoding,

    /// Timed rounds; the shortest counts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,

    /// Leave out the simulated half
    #[arg(long)]
    no_sim: bool,

    #[command(flatten)]
    outputs: Outputs,

    /// Open the page in a browser afterwards
    #[arg(long, value_name = "yes|no", default_value = "no", value_parser = ["yes", "no"])]
    open: String,
}

pub(crate) fn run(args: Args) -> Outcome {
    let file = args.input.as_deref().map(decoding::read).transpose()?;
    let name = args
        .input
        .as_deref()
        .map_or(tanada_harness::DEMO_NAME.to_owned(), file_name);
    let input = Input {
        name: &name,
        stream: file.as_deref().unwrap_or(tanada_harness::DEMO),
    };
    let outputs = args.outputs.open()?;
    let found = compare(&args, &input)?;
    outputs.write(&found.report)?;
    if args.open == "yes" {
        open(&args.outputs.html);
    }
    verdict(&found, &name)
}

fn compare(args: &Args, input: &Input<'_>) -> Outcome<Found> {
    let mut candidates = Vec::new();
    for name in &args.policy {
        if !candidates
            .iter()
            .any(|candidate: &Candidate| candidate.name() == name)
        {
            candidates.push(
                Candidate::registered(name).map_err(|error| Failure::Usage(error.to_string()))?,
            );
        }
    }
    if candidates.is_empty() {
        candidates = Candidate::all();
    }
    let options = Options {
        workers: args.decoding.pooling.workers()?,
        bind: args.decoding.pooling.bind,
        seed: args.decoding.pooling.seed,
        repeat: args.repeat,
        simulate: !args.no_sim,
        decode: args.decoding.options(),
        cancel: ui::interruptible(),
    };
    let mut progress: Option<Progress> = None;
    let found = compare::run_with_progress(input, &candidates, &options, |step| {
        let bar = progress.get_or_insert_with(|| Progress::new(Some(u64::from(step.of))));
        bar.says(format!("{}: {}", step.policy, step.purpose));
        bar.at(u64::from(step.done));
    });
    drop(progress);
    let mut found = found.map_err(|error| match error {
        Error::Cancelled => Failure::Interrupted,
        Error::Stream(error) => ui::at_fault(input.name, error),
        other => Failure::Input(other.to_string()),
    })?;
    found.report.command = ui::command_line();
    Ok(found)
}

/// Fails where frames differ or the stream is damaged.
fn verdict(found: &Found, name: &str) -> Outcome {
    for difference in &found.differences {
        ui::note(&format!(
            "FRAMES DIFFER under {}: {}",
            difference.policy, difference.what
        ));
    }
    decoding::damage(name, &found.summary)?;
    match found.differences.len() {
        0 => Ok(()),
        n => Err(Failure::Input(format!(
            "{n} dispatcher(s) did not decode to the sequential decoder's frames"
        ))),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Hands the page to the desktop; without one the note above says where it is.
fn open(page: &Path) {
    let opened = Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = opened {
        ui::note(&format!("xdg-open: {error}; open the page by hand"));
    }
}
