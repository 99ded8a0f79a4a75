//! What `record` tells of a recording of a workload.

use crate::ui::{self, Outcome};
use serde::Serialize;
use std::path::Path;
use tanada_report::to_list;
use tanada_workloads::record::{Counts, Recorded};

/// A recording, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    workload: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    output: String,
    /// What the table of costs calls itself.
    costs: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pictures: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    macroblocks: Option<u64>,
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
}

/// Tasks of one name.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    tasks: u64,
    records: u64,
    cycles: u64,
    instruction_touches: u64,
    read_touches: u64,
    write_touches: u64,
}

impl<'a> Line<'a> {
    fn new(name: &'a str, counts: &Counts) -> Self {
        Line {
            name,
            tasks: counts.tasks,
            records: counts.records,
            cycles: counts.cycles,
            instruction_touches: counts.fetched,
            read_touches: counts.read,
            write_touches: counts.written,
        }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = [
            self.tasks,
            self.records,
            self.cycles,
            self.instruction_touches,
            self.read_touches,
            self.write_touches,
        ];
        std::iter::once(self.name.to_owned())
            .chain(numbers.map(|number| number.to_string()))
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

impl<'a> Told<'a> {
    /// Of a recording that was written to `output`.
    pub(super) fn new(
        workload: &'static str,
        output: &Path,
        costs: &'a str,
        recorded: &'a Recorded,
    ) -> Self {
        let Recorded {
            total,
            by_name,
            dependencies,
            ..
        } = recorded;
        let file = std::fs::metadata(output).ok();
        let lines = by_name.iter().map(|(name, counts)| Line::new(name, counts));
        Told {
            workload,
            input: None,
            output: output.display().to_string(),
            costs,
            pictures: None,
            macroblocks: None,
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
        }
    }

    /// Whose pictures it holds.
    pub(super) fn pictures(mut self, input: &'a str, pictures: u64, macroblocks: u64) -> Self {
        self.input = Some(input);
        self.pictures = Some(pictures);
        self.macroblocks = Some(macroblocks);
        self
    }

    /// Prints it, as JSON or for people.
    pub(super) fn print(&self, json: bool) -> Outcome {
        if json {
            return ui::print(&ui::json(self));
        }
        let all = Line {
            name: "all",
            tasks: self.tasks,
            records: self.records,
            cycles: self.cycles,
            instruction_touches: self.instruction_touches,
            read_touches: self.read_touches,
            write_touches: self.write_touches,
        };
        let rows = self.by_name.iter().chain([&all]).map(Line::cells);
        ui::print(&to_list(&HEADS, rows))?;
        let of = |number: Option<u64>, what: &str| {
            number.map_or(String::new(), |number| format!("{number} {what}, "))
        };
        ui::print(&format!(
            "\n{}: {}{}{} dependencies{}\n",
            self.output,
            of(self.pictures, "pictures"),
            of(self.macroblocks, "macroblocks"),
            self.dependencies,
            self.bytes
                .map_or(String::new(), |bytes| format!(", {bytes} bytes")),
        ))
    }
}
