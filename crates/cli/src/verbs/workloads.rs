//! `tanada workloads`.

use crate::ui::{self, Outcome};
use serde::Serialize;
use tanada_workloads::h264::{Cut, Groups};

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
    options: Vec<Choice>,
}

/// An option of a workload with its values.
#[derive(Serialize)]
struct Choice {
    flag: &'static str,
    values: Vec<&'static str>,
}

fn choices(workload: &str) -> Vec<Choice> {
    match workload {
        "h264" => vec![
            Choice {
                flag: "--tasks",
                values: Cut::ALL.map(Cut::name).to_vec(),
            },
            Choice {
                flag: "--groups",
                values: Groups::ALL.map(Groups::name).to_vec(),
            },
        ],
        _ => Vec::new(),
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let lines = tanada_workloads::all().iter().map(|entry| Line {
        name: entry.name,
        summary: entry.summary,
        options: choices(entry.name),
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
    ui::print(&ui::table(&["workload", "does", "options"], rows))?;
    ui::print("\n`tanada run WORKLOAD --help` explains the options\n")
}
