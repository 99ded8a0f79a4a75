//! `tanada record stencil` and `tanada record pipeline`.

use super::told::Told;
use crate::ui::{self, Failure, Outcome, Progress};
use crate::verbs::run::tiles::{groups, size, times};
use std::ops::ControlFlow;
use std::path::PathBuf;
use tanada_trace::{FileSink, TraceError};
use tanada_workloads::record::{self, TilesError};
use tanada_workloads::tiles::{Caches, Groups, Program};
use tanada_workloads::{pipeline, stencil};

/// Record the stencil
///
/// Sweeps over a square field as `run stencil` makes them, cut into tiles and grouped for the workers and caches that are named here. All
/// tasks carry the groups `own` by name. Data accesses are the program's own, computation and code are charged by a table.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tanada record stencil -o stencil.tnb --size 512 --sweeps 8 --workers 4 --cache 32768"
)]
pub(super) struct Stencil {
    /// Rows and columns of the field
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = size())]
    size: u32,

    /// Sweeps over the field
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = times())]
    sweeps: u32,

    #[command(flatten)]
    tiled: TiledArgs,
}

/// Record the image pipeline
///
/// Passes over a square image as `run pipeline` makes them; otherwise as `record stencil`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tanada record pipeline -o pipeline.tnb --size 512 --rounds 2")]
pub(super) struct Pipeline {
    /// Rows and columns of the image
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = size())]
    size: u32,

    /// Rounds of five passes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = times())]
    rounds: u32,

    #[command(flatten)]
    tiled: TiledArgs,
}

#[derive(Debug, clap::Args)]
struct TiledArgs {
    /// Where the trace goes: text where the name ends with .tnt, else binary
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The groups that tasks carry as plain ones, for `sim` without --groups
    #[arg(long, value_name = "PATTERN", default_value_t = Groups::None, value_parser = groups())]
    groups: Groups,

    /// Workers that the field is cut for
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,

    /// Bytes of cache that each worker can count on for itself
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10)]
    cache: u64,

    /// Bytes of its level-1 data cache
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 10)]
    l1d: u64,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn stencil(args: &Stencil) -> Outcome {
    let options = stencil::Options {
        size: args.size as usize,
        sweeps: args.sweeps,
        groups: args.tiled.groups,
    };
    run::<stencil::Stencil>("stencil", options, &args.tiled)
}

pub(super) fn pipeline(args: &Pipeline) -> Outcome {
    let options = pipeline::Options {
        size: args.size as usize,
        rounds: args.rounds,
        groups: args.tiled.groups,
    };
    run::<pipeline::Pipeline>("pipeline", options, &args.tiled)
}

fn run<P: Program>(workload: &'static str, options: P::Options, args: &TiledArgs) -> Outcome {
    let unwritable = |error: TraceError| Failure::Input(error.to_string());
    let mut file = FileSink::create(&args.output).map_err(unwritable)?;
    let cancel = ui::interruptible();
    let mut progress = Progress::new(None);
    progress.says("tasks");
    let seen = |recorded| {
        progress.at(recorded);
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let caches = Caches {
        own: args.cache,
        l1d: args.l1d,
    };
    let recorded = record::tiles::<P, _>(options, args.workers, caches, &mut file, seen);
    drop(progress);
    let recording = recorded.map_err(|error| match error {
        TilesError::Stopped => Failure::Interrupted,
        error => Failure::Input(error.to_string()),
    })?;
    file.finish().map_err(unwritable)?;
    Told::new(
        workload,
        &args.output,
        &recording.costs,
        &recording.recorded,
    )
    .print(args.json)
}
