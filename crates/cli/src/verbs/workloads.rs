//! `tanada workloads`.

use crate::ui::{self, Outcome};
use serde::Serialize;
use tanada_report::to_list;
use tanada_workloads::Workload;
use tanada_workloads::options::Kind;

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
    /// Whether `tanada record` can write a trace of it.
    recordable: bool,
    options: Vec<Choice>,
}

/// An option of a workload that takes one of some names.
#[derive(Serialize)]
struct Choice {
    flag: String,
    values: Vec<&'static str>,
}

fn choices(workload: &dyn Workload) -> Vec<Choice> {
    let specs = workload.options().iter();
    let choices = specs.filter_map(|spec| match spec.kind {
        Kind::Named(names) => Some(Choice {
            flag: format!("--{}", spec.flag),
            values: names.iter().map(|name| name.name).collect(),
        }),
        _ => None,
    });
    choices.collect()
}

pub(crate) fn run(args: Args) -> Outcome {
    let lines = tanada_workloads::all().iter().map(|workload| Line {
        name: workload.name(),
        summary: workload.about(),
        recordable: workload.recorder().is_some(),
        options: choices(*workload),
    });
    if args.json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let rows = lines.map(|line| {
        let options = line.options.iter();
        let options = options.map(|choice| format!("{} {}", choice.flag, choice.values.join(", ")));
        vec![
            line.name.into(),
            line.summary.into(),
            if line.recordable { "yes" } else { "no" }.into(),
            options.collect::<Vec<_>>().join("; ").into(),
        ]
    });
    ui::print(&to_list(
        ["workload", "does", "recordable", "options"],
        rows,
    ))?;
    ui::print("\n`tanada run WORKLOAD --help` explains the options\n")
}
