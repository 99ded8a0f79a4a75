//! `tanada machines`.

use crate::ui::{self, Failure, Outcome};
use serde::Serialize;
use std::path::Path;
use tanada_report::{Cell, to_list};
use tanada_sim::Machine;
use tanada_sim::machines::{self, NotFound};
use tanada_topology::format_size;

/// List the simulated machines, or show one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada machines\n  tanada machines toshiba > mine.toml\n  tanada machines mine.toml\n\n\
    A machine of your own is a copy of one of these files, or begins with `tanada topo --as-machine`: `--machine mine.toml`."
)]
pub(crate) struct Args {
    /// Show the file of this machine, with its sources, and its picture; or check a machine file
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,

    /// Print a JSON list, or one object
    #[arg(long)]
    json: bool,
}

const HEADER: [&str; 5] = ["machine", "model", "cores", "caches", "about"];

#[derive(Serialize)]
struct Line {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    about: String,
    model: String,
    cores: u16,
    caches: Vec<Cache>,
}

/// The caches of one level and kind.
#[derive(Serialize)]
struct Cache {
    cache: String,
    per: &'static str,
    size: u64,
    ways: u64,
    line: u64,
    miss_cycles: u64,
}

impl Line {
    fn of(machine: &Machine) -> Line {
        let caches = machine.tables_in_order().into_iter().map(|table| {
            let cache = &machine.caches[table];
            Cache {
                cache: cache.label(),
                per: cache.per.as_str(),
                size: cache.size,
                ways: cache.ways,
                line: cache.line,
                miss_cycles: cache.miss_cycles,
            }
        });
        Line {
            name: machine.name.clone(),
            about: machine.about.clone(),
            model: machine.model.as_str().to_owned(),
            cores: machine.cores,
            caches: caches.collect(),
        }
    }

    fn row(&self) -> Vec<Cell> {
        let caches = self.caches.iter().map(|cache| {
            let label = cache.cache.to_uppercase();
            format!("{label} {} a {}", format_size(cache.size), cache.per)
        });
        vec![
            self.name.as_str().into(),
            self.model.as_str().into(),
            Cell::count(self.cores.into()),
            caches.collect::<Vec<_>>().join(", ").into(),
            self.about.as_str().into(),
        ]
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(name) = &args.name {
        return show(name, args.json);
    }
    let lines = machines::all().map(|shipped| Line::of(&shipped.machine()));
    if args.json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let rows = lines.map(|line| line.row());
    ui::print(&to_list(HEADER, rows))?;
    ui::print(
        "\n`tanada machines NAME` shows a machine's file with its sources, `tanada machines FILE` checks yours\n",
    )
}

fn show(name: &str, json: bool) -> Outcome {
    let shipped = machines::all().find(|shipped| shipped.name == name);
    let file = shipped.is_none().then_some(Path::new(name));
    ui::distinct(file, [])?;
    let machine = machines::find(name).map_err(|error| match error {
        NotFound::Unknown { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Input(error.to_string()),
    })?;
    let line = Line::of(&machine);
    if json {
        return ui::print(&ui::json(&line));
    }
    let Some(shipped) = shipped else {
        let picture = machine.topology().picture(ui::columns());
        ui::print(&to_list(HEADER, [line.row()]))?;
        return ui::print(&format!("\n{picture}\n{name} is a sound machine file\n"));
    };
    ui::print(shipped.text)?;
    // As comments, so that what is printed is a machine file.
    let picture = machine.topology().picture(ui::columns().saturating_sub(2));
    let picture: String = picture.lines().map(|line| format!("# {line}\n")).collect();
    ui::print(&format!("\n{picture}"))
}
