//! `tanada reproduce`.

use crate::reproduce::{
    Effort, Item, Set, Step, Summary, ToshibaError, calibrate, page, rows, searched, sources,
    summary, text, toshiba, usual_folder,
};
use crate::ui::{self, Failure, Outcome, OutputFile, Progress, at_fault};
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;

/// Reproduce a paper's tables
///
/// Published figures and ours, row by row.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada reproduce toshiba --quick\n  tanada reproduce toshiba --json -o toshiba.html"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, Subcommand)]
enum Paper {
    Toshiba(Toshiba),
}

/// Paper 1, cache groups: its board (Table 2), its simulator (Table 3) and its Gantt charts (fig. 13)
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tanada reproduce toshiba --quick\n  \
    tanada reproduce toshiba --json -o toshiba.html\n  \
    tanada reproduce toshiba --quick --set board.l2.miss_cycles=120")]
struct Toshiba {
    /// Fewer pictures
    #[arg(long)]
    quick: bool,

    /// So many pictures of each stream [default: 32; with --quick 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=128))]
    pictures: Option<u64>,

    /// Folder with flower_wvga.264, flower_qvga.264... [default: streams/video in the folder that TANADA_SHARED names; where there is no
    /// WVGA stream, the embedded demo stands for it]
    #[arg(long, value_name = "FOLDER")]
    streams: Option<PathBuf>,

    /// Replace a parameter: mpe.KEY=NUMBER (the table of costs), uniform.KEY=VALUE, board.KEY=VALUE (the machines)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Search for parameters instead, by the WVGA rows alone: so many sets, the best first
    #[arg(long, value_name = "N", conflicts_with_all = ["set", "quick"])]
    calibrate: Option<usize>,

    /// Seed of that search
    #[arg(long, value_name = "N", default_value_t = 1, requires = "calibrate")]
    seed: u64,

    /// Threads [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Write the figures as a page: gains and speeds against cores, Gantt charts (fig. 13), the search for the parameters
    #[arg(short = 'o', long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print rows and summary as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.paper {
        Paper::Toshiba(args) => run_toshiba(&args),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    rows: Vec<Item>,
    summary: &'a Summary,
}

fn run_toshiba(args: &Toshiba) -> Outcome {
    let set = Set::with(&args.set).map_err(|error| Failure::Usage(error.to_string()))?;
    let folder = args.streams.clone().or_else(usual_folder);
    if let Some(folder) = args.streams.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(at_fault(
            folder.display(),
            "is no folder; name the one with flower_wvga.264",
        ));
    }
    let sources = sources(folder.as_deref()).map_err(|error| at_fault("the streams", error))?;
    let effort = Effort {
        pictures: args.pictures.unwrap_or(match (args.quick, args.calibrate) {
            (_, Some(_)) => 2,
            (true, None) => 8,
            (false, None) => 32,
        }),
        threads: args.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        ),
    };
    let cancel = ui::interruptible();
    let go_on = || !cancel.is_cancelled();
    let failed = |error: ToshibaError| match error.is_stop() {
        true => Failure::Interrupted,
        false => Failure::Input(error.to_string()),
    };
    if let Some(count) = args.calibrate {
        let mut progress = Progress::new(Some(count as u64));
        let mut told = |number: usize, _: &_| progress.at(number as u64);
        let found =
            calibrate(&sources[0], count, args.seed, effort, &go_on, &mut told).map_err(failed)?;
        drop(progress);
        return ui::print(&ui::json(&found));
    }
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let mut progress = Progress::new(None);
    let mut step = |step: Step| match step {
        Step::Recording(stream) => progress.says(format!("recording {}", stream.name())),
        Step::Simulating(done, of) => {
            progress.says(format!("of {of} simulations"));
            progress.at(done as u64);
        }
    };
    let found = toshiba(&sources, &set, effort, &go_on, &mut step).map_err(failed)?;
    drop(progress);
    let summary = summary(&found);
    if let Some(html) = html {
        let text = page(&found, &summary, &searched(), &ui::command_line());
        html.finish(text.as_bytes())?;
    }
    if args.json {
        let rows = rows(&found);
        return ui::print(&ui::json(&Output {
            rows,
            summary: &summary,
        }));
    }
    ui::print(&text(&found, &summary))
}
