//! What `record` prints of a recording of a workload.

use crate::ui::{self, Outcome};
use serde::ser::{SerializeMap as _, Serializer};
use std::path::Path;
use tanada_report::{Cell, to_list};
use tanada_workloads::record::{Counts, Recorded};
use tanada_workloads::workload::Recording;

/// A recording, as `--json` prints it.
#[derive(serde::Serialize)]
pub(super) struct Summary<'a> {
    workload: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    output: String,
    /// What the table of costs calls itself.
    costs: &'a str,
    #[serde(flatten, serialize_with = "in_order")]
    counts: &'a [(&'static str, u64)],
    tasks: u64,
    dependencies: u64,
    records: u64,
    cycles: u64,
    touches: u64,
    instruction_touches: u64,
    read_touches: u64,
    write_touches: u64,
    /// Bytes of the file; none of a pipe or device.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    by_name: Vec<Line<'a>>,
    #[serde(skip)]
    all: Line<'a>,
}

/// Writes counts as the members of an object, in their order.
fn in_order<S: Serializer>(
    counts: &[(&'static str, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(counts.len()))?;
    for (name, count) in counts {
        map.serialize_entry(name, count)?;
    }
    map.end()
}

/// Tasks of one name.
#[derive(serde::Serialize)]
struct Line<'a> {
    name: &'a str,
    #[serde(flatten)]
    counts: Counts,
}

impl Line<'_> {
    fn cells(&self) -> Vec<Cell> {
        let counts = &self.counts;
        let numbers = [
            counts.tasks,
            counts.records,
            counts.cycles,
            counts.fetched,
            counts.read,
            counts.written,
        ];
        std::iter::once(self.name.into())
            .chain(numbers.map(Cell::count))
            .collect()
    }
}

const HEADS: [&str; 7] = [
    "tasks named",
    "number",
    "records",
    "cycles",
    "lines fetched",
    "lines read",
    "lines written",
];

impl<'a> Summary<'a> {
    /// Returns the summary of a recording that was written to `output`.
    pub(super) fn new(workload: &'static str, output: &Path, recording: &'a Recording) -> Self {
        let Recorded {
            total,
            by_name,
            dependencies,
            ..
        } = &recording.recorded;
        let file = std::fs::metadata(output).ok();
        let line = |name, counts| Line { name, counts };
        let lines = by_name.iter().map(|&(name, counts)| line(name, counts));
        Summary {
            workload,
            input: recording.source.as_deref(),
            output: output.display().to_string(),
            costs: &recording.costs,
            counts: &recording.counts,
            tasks: total.tasks,
            dependencies: *dependencies,
            records: total.records,
            cycles: total.cycles,
            touches: total.touches(),
            instruction_touches: total.fetched,
            read_touches: total.read,
            write_touches: total.written,
            bytes: file.filter(|file| file.is_file()).map(|file| file.len()),
            by_name: lines.collect(),
            all: line("all", *total),
        }
    }

    /// Prints the summary, as JSON or for people.
    pub(super) fn print(&self, json: bool) -> Outcome {
        if json {
            return ui::print(&ui::json(self));
        }
        let rows = self.by_name.iter().chain([&self.all]).map(Line::cells);
        ui::print(&to_list(HEADS, rows))?;
        let counts = self.counts.iter();
        let counts: String = counts
            .map(|(name, count)| format!("{count} {name}, "))
            .collect();
        ui::print(&format!(
            "\n{}: {counts}{} dependencies{}\n",
            self.output,
            self.dependencies,
            self.bytes
                .map_or(String::new(), |bytes| format!(", {bytes} bytes")),
        ))
    }
}
