//! `tanada report`.

use super::outputs::{Outputs, file_name};
use crate::ui::{self, Outcome, at_fault};
use std::path::{Path, PathBuf};
use tanada_harness::simulated;
use tanada_report::{Report, from_json};

/// Merge results into one page
///
/// Reads what `compare --json`, `run --json`, `sim --json` and `sim --report FILE.json` wrote and makes one table and one page of them:
/// native and simulated runs side by side.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tanada compare --groups toshiba-a --json > a.json\n  \
    tanada compare --groups toshiba-b --json > b.json\n  \
    tanada report a.json b.json -o both.html\n\n  \
    tanada sim demo.tnb --machine toshiba --cores 4 --report simulated.json\n  \
    tanada report a.json simulated.json -o beside.html"
)]
pub(crate) struct Args {
    /// Results, as `--json` prints them
    #[arg(required = true, value_name = "RESULT.json")]
    results: Vec<PathBuf>,

    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: Args) -> Outcome {
    let inputs = || args.results.iter().map(PathBuf::as_path);
    let _cancel = ui::interruptible();
    let outputs = args.outputs.open(inputs())?;
    let reports = inputs().map(read).collect::<Outcome<Vec<_>>>()?;
    outputs.write(&merged(reports))
}

fn read(path: &Path) -> Outcome<Report> {
    let text = ui::read_text(path)?;
    match simulated::from_lines(&text, &file_name(path)) {
        Some(report) => report.map_err(|error| at_fault(path.display(), error)),
        None => from_json(&text).map_err(|error| at_fault(path.display(), error)),
    }
}

/// Returns one report of all runs and timelines in order; titles, command lines and machines that are equal appear once.
fn merged(reports: Vec<Report>) -> Report {
    let mut all = Report::new(&distinct(&reports, " · ", |report| &report.title));
    all.command = distinct(&reports, "\n", |report| &report.command);
    all.machine = distinct(&reports, "\n", |report| &report.machine);
    for report in reports {
        all.verdicts.extend(report.verdicts);
        all.runs.extend(report.runs);
        all.timelines.extend(report.timelines);
    }
    all
}

fn distinct<'a>(
    reports: &'a [Report],
    separator: &str,
    of: impl Fn(&'a Report) -> &'a String,
) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for text in reports.iter().map(of) {
        if !text.is_empty() && !seen.contains(&text.as_str()) {
            seen.push(text);
        }
    }
    seen.join(separator)
}
