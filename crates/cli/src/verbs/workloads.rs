//! `tanada workloads`.

use crate::ui::{self, Failure, Outcome};
use serde::Serialize;
use tanada_report::to_list;
use tanada_sim::spelling;
use tanada_workloads::Workload;
use tanada_workloads::options::Kind;

/// List the workloads and their options, or show one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tanada workloads --json\n  tanada workloads stencil")]
pub(crate) struct Args {
    /// Show this workload alone
    name: Option<String>,

    /// Print a JSON list, or one object
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

fn line(workload: &dyn Workload) -> Line {
    Line {
        name: workload.name(),
        summary: workload.description().about,
        recordable: workload.recorder().is_some(),
        options: choices(workload),
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let one = match &args.name {
        None => None,
        Some(name) => Some(tanada_workloads::find(name).map_err(|error| {
            let names = tanada_workloads::names();
            Failure::Usage(spelling::asked(error, name, names))
        })?),
    };
    if let Some(workload) = one.filter(|_| args.json) {
        return ui::print(&ui::json(&line(workload)));
    }
    let shown = one
        .as_ref()
        .map_or(tanada_workloads::all(), std::slice::from_ref);
    let lines = shown.iter().map(|workload| line(*workload));
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
