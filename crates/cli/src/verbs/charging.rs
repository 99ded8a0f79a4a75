//! The options of every verb that makes records of instructions and accesses, and the summary that it prints.

use crate::ui::{self, Outcome};
use serde::Serialize;
use std::path::Path;
use tanada_report::{Cell, to_list};
use tanada_trace::import::{Fetches, Imported, Options};

/// The largest block that is fetched at once: a page.
const LARGEST: u32 = 4096;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Charging {
    /// Cycles of computation that an instruction counts as [default: 1]
    #[arg(long, value_name = "N")]
    cycles_per_instruction: Option<u64>,

    /// How instructions are fetched: in aligned blocks of BYTES bytes (a power of two), `each` on its own, or `none` [default: 32]
    #[arg(long, value_name = "BYTES|each|none", value_parser = fetches)]
    fetch: Option<Fetches>,
}

fn fetches(text: &str) -> Result<Fetches, String> {
    match (text, text.parse::<u32>()) {
        ("each", _) => Ok(Fetches::Each),
        ("none", _) => Ok(Fetches::None),
        (_, Ok(bytes)) if bytes.is_power_of_two() && bytes <= LARGEST => Ok(Fetches::Blocks(bytes)),
        _ => Err(format!(
            "a power of two up to {LARGEST}, `each` or `none` is wanted"
        )),
    }
}

impl Charging {
    /// Returns the options of an import.
    pub(crate) fn options(&self, renumber: bool) -> Options {
        let default = Options::default();
        Options {
            cycles_per_instruction: self
                .cycles_per_instruction
                .unwrap_or(default.cycles_per_instruction),
            fetches: self.fetch.unwrap_or(default.fetches),
            renumber,
        }
    }

    /// Returns an option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let fetch = self.fetch.map(|_| "--fetch");
        fetch.or(self
            .cycles_per_instruction
            .map(|_| "--cycles-per-instruction"))
    }
}

/// What was imported, as `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    input: &'a str,
    output: String,
    tasks: u64,
    dependencies: u64,
    records: u64,
    instructions: u64,
    reads: u64,
    writes: u64,
    dropped_instructions: u64,
    dropped_accesses: u64,
    pages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Reports what was made of `input`; `print` prints what is for people.
pub(crate) fn tell(
    input: &str,
    output: &Path,
    imported: &Imported,
    json: bool,
    print: fn(&str) -> Outcome,
) -> Outcome {
    // None for a pipe or device.
    let data = std::fs::metadata(output).ok();
    let told = Summary {
        input,
        output: output.display().to_string(),
        tasks: imported.tasks,
        dependencies: imported.dependencies,
        records: imported.records,
        instructions: imported.instructions,
        reads: imported.reads,
        writes: imported.writes,
        dropped_instructions: imported.dropped_instructions,
        dropped_accesses: imported.dropped_accesses,
        pages: imported.pages,
        bytes: data.filter(|data| data.is_file()).map(|data| data.len()),
    };
    if json {
        return ui::print(&ui::json(&told));
    }
    let row = |of: &str, instructions: u64, accesses: u64| {
        let numbers = [instructions, accesses].map(Cell::count);
        std::iter::once(of.into())
            .chain(numbers)
            .collect::<Vec<_>>()
    };
    let mut rows = vec![row("of tasks", told.instructions, told.reads + told.writes)];
    if imported.marked {
        let (instructions, accesses) = (told.dropped_instructions, told.dropped_accesses);
        rows.push(row("of no task: dropped", instructions, accesses));
    }
    let list = to_list(["", "instructions", "reads and writes"], rows);
    let size = told
        .bytes
        .map_or(String::new(), |bytes| format!(", {bytes} bytes"));
    print(&format!(
        "{list}\n{}: {} tasks, {} dependencies, {} records{size}\n",
        told.output, told.tasks, told.dependencies, told.records
    ))
}
