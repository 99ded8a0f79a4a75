//! `tanada report`.

use crate::ui::{self, Outcome, OutputFile, at_fault};
use std::path::{Path, PathBuf};
use tanada_report::{Report, from_json, to_html, to_json, to_perfetto, to_table};

/// Merge results into one page
///
/// Reads what `compare --json` and `run --json` print and makes one table and one page of them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tanada compare --groups a --json > a.json\n  \
    tanada compare --groups b --json > b.json\n  \
    tanada report a.json b.json -o both.html"
)]
pub(crate) struct Args {
    /// Results, as `--json` prints them
    #[arg(required = true, value_name = "RESULT.json")]
    results: Vec<PathBuf>,

    /// Where the page goes
    #[arg(
        short = 'o',
        long = "html",
        value_name = "FILE",
        default_value = "tanada-report.html"
    )]
    html: PathBuf,

    /// Write all timelines for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_events: Option<PathBuf>,

    /// Print the merged report as JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let reports = args
        .results
        .iter()
        .map(|path| read(path))
        .collect::<Outcome<Vec<_>>>()?;
    let report = merged(reports);
    let broken = |error| at_fault("the merged report", error);
    let page = OutputFile::open(&args.html)?;
    if let Some(path) = &args.trace_events {
        OutputFile::open(path)?.finish(to_perfetto(&report).as_bytes())?;
    }
    page.finish(to_html(&report).map_err(broken)?.as_bytes())?;
    if args.json {
        ui::print(&format!("{}\n", to_json(&report).map_err(broken)?))?;
    } else {
        ui::print(&to_table(&report))?;
    }
    ui::note(&format!("The page is {}", args.html.display()));
    Ok(())
}

fn read(path: &Path) -> Outcome<Report> {
    let text = std::fs::read_to_string(path).map_err(|error| at_fault(path.display(), error))?;
    from_json(&text).map_err(|error| at_fault(path.display(), error))
}

/// All runs and timelines in order; what the reports say of themselves is said once.
fn merged(reports: Vec<Report>) -> Report {
    let mut all = Report::new(&distinct(&reports, " · ", |report| &report.title));
    all.command = distinct(&reports, "\n", |report| &report.command);
    all.machine = distinct(&reports, "\n", |report| &report.machine);
    for report in reports {
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
