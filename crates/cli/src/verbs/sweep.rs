//! `tanada sweep`.

use crate::ui::{self, Failure, Outcome, Progress};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;
use tanada_harness::sweep::{self, Error, Row, Sweep};
use tanada_report::to_list;

/// Run all combinations of traces, machines, settings and policies, on all cores of this host
///
/// The results go to one table, as CSV and, if --parquet is given, as Parquet. A stopped sweep continues when the same
/// command is given again, and ends with the same bytes, whatever the number of threads. The sweep file is described in docs/sweep.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada sweep caches.toml\n  tanada sweep caches.toml --dry-run\n  \
    tanada sweep caches.toml -o results/caches --json"
)]
pub(crate) struct Args {
    /// The sweep file: what is run
    spec: PathBuf,

    /// Name of the results without extension: NAME.csv (and NAME.parquet), meanwhile NAME.unfinished [default: that of the sweep file]
    #[arg(short, long, value_name = "NAME")]
    output: Option<PathBuf>,

    /// Write Parquet as well; needs a build with `--features parquet`
    #[arg(long)]
    parquet: bool,

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

/// More rows than these are for the files and not for the terminal.
const SHOWN: usize = 100;

pub(crate) fn run(args: Args) -> Outcome {
    ui::not_closed([&*args.spec])?;
    let sweep = Sweep::read(&args.spec, args.output.as_deref(), args.parquet).map_err(failed)?;
    let outputs = sweep.outputs();
    let files = [Some(&outputs.csv), outputs.parquet.as_ref()].into_iter();
    let files: Vec<String> = files
        .flatten()
        .map(|file| file.display().to_string())
        .collect();
    let files = files.join(" and ");
    if args.dry_run {
        return print_planned(&sweep, args.json, &files);
    }
    let rows = {
        let mut bar = Progress::new(Some(sweep.runs().len() as u64));
        let mut noted = false;
        let mut show = |at: sweep::Progress| {
            if !std::mem::replace(&mut noted, true) {
                let journal = outputs.journal.display();
                let note = |what: &str| ui::note(&format!("{journal}: {what}"));
                match at.damaged {
                    _ if at.restarted => {
                        note("from another version of this program; starting over");
                    }
                    0 => {}
                    1 => note("1 row is damaged and does not count; its run is done again"),
                    rows => note(&format!(
                        "{rows} rows are damaged and do not count; their runs are done again"
                    )),
                }
            }
            bar.at(at.runs as u64);
            bar.says(at.left.map_or_else(
                || "runs".to_owned(),
                |left| format!("runs, {} left", duration(left)),
            ));
        };
        let cancel = ui::interruptible();
        sweep
            .run(args.threads, &cancel, &mut show)
            .map_err(failed)?
    };
    if args.json {
        ui::print(&rows.iter().map(ui::json).collect::<String>())?;
    } else {
        let mut text = String::new();
        if rows.len() <= SHOWN {
            let (header, cells) = sweep.summary(&rows);
            text = to_list(header, cells) + "\n";
        }
        ui::print(&format!("{text}{} runs: {files}\n", rows.len()))?;
    }
    let failures: Vec<String> = rows.iter().filter_map(Row::error).collect();
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Input(format!(
            "{} of {} runs have no result, see their column `error`; the first: {first}",
            failures.len(),
            rows.len()
        ))),
    }
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Paused(journal) => Failure::Paused(journal),
        Error::NoParquet => Failure::Usage(format!("--parquet: {error}")),
        Error::Output(error) => error.into(),
        error => Failure::Input(error.to_string()),
    }
}

/// Prints what would run, and into which files.
fn print_planned(sweep: &Sweep, json: bool, files: &str) -> Outcome {
    let mut runs = sweep.runs();
    let count = runs.len();
    if json {
        // A part at a time: of a large sweep all runs do not fit into the memory.
        while runs.len() > 0 {
            let part = runs.by_ref().take(SHOWN);
            ui::print(&part.map(|row| ui::json(&row)).collect::<String>())?;
        }
        return Ok(());
    }
    let mut text: String = runs
        .take(SHOWN)
        .map(|row| format!("{}\n", row.title()))
        .collect();
    if count > SHOWN {
        text += &format!("... and {} more\n", count - SHOWN);
    }
    ui::print(&(text + &format!("{count} runs, into {files}\n")))
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_two_units_at_most() {
        assert_eq!(
            [59, 61, 7260].map(|s| duration(Duration::from_secs(s))),
            ["59 s", "1 min 1 s", "2 h 1 min"]
        );
    }
}
