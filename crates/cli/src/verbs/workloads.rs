//! `tanada workloads`.

use crate::ui::{self, Outcome};
use serde::Serialize;
use tanada_report::to_list;
use tanada_workloads::{Choice, Entry};

/// List the workloads and their options
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tanada workloads --json")]
pub(crate) struct Args {
    /// Print a JSON list
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    summary: &'static str,
    options: Vec<Choices>,
}

/// An option of a workload with its values.
#[derive(Serialize)]
struct Choices {
    flag: &'static str,
    values: &'static [&'static str],
}

fn options(entry: &Entry) -> Vec<Choices> {
    let option = |choice: &Choice| Choices {
        flag: choice.flag,
        values: choice.values,
    };
    entry.choices.iter().map(option).collect()
}

pub(crate) fn run(args: Args) -> Outcome {
    let lines = tanada_workloads::all().iter().map(|entry| Line {
        name: entry.name,
        summary: entry.summary,
        options: options(entry),
    });
    if args.json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let rows = lines.map(|line| {
        let options = line
            .options
            .iter()
            .map(|choice| format!("{} {}", choice.flag, choice.values.join("|")));
        vec![
            line.name.to_owned(),
            line.summary.to_owned(),
            options.collect::<Vec<_>>().join(" "),
        ]
    });
    ui::print(&to_list(&["workload", "does", "options"], rows))?;
    ui::print("\n`tanada run WORKLOAD --help` explains the options\n")
}
