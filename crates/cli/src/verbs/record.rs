//! `tanada record`: one module a workload, and one for programs.

mod h264;
mod program;
mod tiles;
mod told;

use super::Named;
use crate::ui::{Failure, Outcome};

/// Write a trace of a workload or a program
///
/// The trace holds the task graph that runs natively, and what each task computes, fetches, reads and writes; `tanada sim` runs it under
/// any policy on any machine. A program is run under Valgrind (docs/valgrind.md); what it does outside of tasks is dropped.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  tanada record h264 video.264 -o video.tnb --count 8\n  tanada record h264 --help\n  \
    tanada record -o program.tnb -- ./program its arguments"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Option<Named<h264::Args, tiles::Stencil, tiles::Pipeline>>,

    #[command(flatten)]
    program: program::Program,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.workload {
        Some(Named::H264(args)) => h264::run(&args),
        Some(Named::Stencil(args)) => tiles::stencil(&args),
        Some(Named::Pipeline(args)) => tiles::pipeline(&args),
        None if args.program.is_given() => program::run(&args.program),
        None => Err(Failure::Usage(
            "what is to be recorded? Name a workload (h264, stencil, pipeline), or write \
             `-- PROGRAM ARGS`; see `tanada record --help`"
                .to_owned(),
        )),
    }
}
