//! `tanada sweep`.

use crate::sweep::{self, Request};
use crate::ui;
use std::num::NonZero;
use std::path::PathBuf;

/// Run all combinations of traces, machines, settings and policies, on all cores of this host
///
/// The results go to one table, as CSV and as Parquet. A sweep that was stopped goes on where it was when the same command is given again,
/// and ends with the same bytes, whatever the number of threads. The sweep file is described in docs/sweep.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada sweep caches.toml\n  tanada sweep caches.toml --dry-run\n  \
    tanada sweep caches.toml -o results/caches --json"
)]
pub(crate) struct Args {
    /// The sweep file: what is run
    spec: PathBuf,

    /// Name of the results without extension: NAME.csv and NAME.parquet, meanwhile NAME.unfinished [default: that of the sweep file]
    #[arg(short, long, value_name = "NAME")]
    output: Option<PathBuf>,

    /// How many simulations run at once [default: as many as this host has cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Say what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object a run, one a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> ui::Outcome {
    sweep::run(&Request {
        spec: &args.spec,
        output: args.output.as_deref(),
        threads: args.threads,
        json: args.json,
        dry_run: args.dry_run,
    })
}
