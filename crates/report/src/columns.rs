//! The comparison as columns: the table at the terminal and the one on the page have the same cells.

use std::collections::BTreeSet;

use crate::charts::distinct;
use crate::headline::{comparable_sets, workers_of};
use crate::schema::{Engine, Report, RunResult};

/// One cell of a table: its text, and the number by which it is sorted, if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
}

impl Cell {
    /// Returns a cell with the number `value`, written as `text`. Columns with numbers are aligned to the right.
    pub fn number(value: f64, text: impl Into<String>) -> Cell {
        let (text, number) = (text.into(), Some(value));
        Cell { text, number }
    }

    /// Returns a cell with a whole number, with a separator between each three digits.
    pub fn count(value: u64) -> Cell {
        Cell::number(value as f64, thousands(value))
    }

    /// Returns a cell with `text`, as a number if it is one.
    pub fn read(text: String) -> Cell {
        match (text.parse(), text.parse()) {
            (Ok(count), _) => Cell::count(count),
            (_, Ok(value)) => Cell::number(value, text),
            _ => text.into(),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    /// Returns a cell with words.
    fn from(text: T) -> Cell {
        let (text, number) = (text.into(), None);
        Cell { text, number }
    }
}

/// One column. `cells` has one entry a run, `None` if the run did not measure it.
pub(crate) struct Column {
    pub(crate) heading: String,
    /// The column's meaning, for readers who do not know the words.
    pub(crate) meaning: &'static str,
    pub(crate) cells: Vec<Option<Cell>>,
}

impl Column {
    /// Returns the text of a row.
    pub(crate) fn text(&self, row: usize) -> &str {
        self.cells[row]
            .as_ref()
            .map_or("-", |cell| cell.text.as_str())
    }

    /// Returns the characters of the widest cell, including the heading.
    pub(crate) fn width(&self) -> usize {
        let cells = (0..self.cells.len()).map(|row| self.text(row).chars().count());
        cells
            .chain([self.heading.chars().count()])
            .max()
            .unwrap_or(0)
    }

    /// Returns whether a cell is a number, so that the column is aligned to the right.
    pub(crate) fn is_numeric(&self) -> bool {
        let mut cells = self.cells.iter().flatten();
        cells.any(|cell| cell.number.is_some())
    }

    /// Returns the characters that the column has at least if it is narrowed: numbers do not wrap, nor do words or columns of less than
    /// 16 characters.
    pub(crate) fn least(&self) -> usize {
        const NARROW: usize = 16;
        let width = self.width();
        if self.is_numeric() {
            return width;
        }
        let cells = (0..self.cells.len()).map(|row| self.text(row));
        let words = cells
            .chain([&*self.heading])
            .flat_map(str::split_whitespace);
        let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
        longest.max(NARROW.min(width))
    }
}

pub(crate) type Read = fn(&RunResult) -> Option<Cell>;

fn text(text: &str) -> Option<Cell> {
    (!text.is_empty()).then(|| text.into())
}

fn number(value: Option<f64>, text: impl Fn(f64) -> String) -> Option<Cell> {
    value.map(|value| Cell::number(value, text(value)))
}

fn count(value: Option<u64>) -> Option<Cell> {
    value.map(Cell::count)
}

/// Columns that are shown if some run has them.
const MEASURED: [(&str, &str, Read); 17] = [
    ("policy", "which ready task an idle worker takes", |run| {
        text(&run.policy)
    }),
    ("fps", "frames a second, shortest of the repeats", |run| {
        number(run.fps, |v| format!("{v:.1}"))
    }),
    ("x fcfs", "speed relative to fcfs", |run| {
        number(run.ratio_to_fcfs, |v| format!("{v:.3}"))
    }),
    ("time", "median of the repeats", |run| {
        number(run.seconds.map(|s| s.median), seconds)
    }),
    ("best", "shortest of the repeats", |run| {
        number(run.seconds.map(|s| s.min), seconds)
    }),
    ("cycles", "makespan", |run| count(run.cycles)),
    ("x fifo", "speed relative to fifo", |run| {
        number(run.threads.as_ref()?.ratio_to_fifo, |v| format!("{v:.3}"))
    }),
    (
        "IPC",
        "instructions per cycle of all hardware threads",
        |run| {
            let ipc = run.threads.as_ref()?.ipc(run.cycles?);
            number(Some(ipc), |v| format!("{v:.3}"))
        },
    ),
    ("tasks", "tasks of one repeat", |run| count(run.tasks)),
    ("mean task", "mean length of a task", |run| {
        number(run.mean_task_ns, nanoseconds)
    }),
    ("mean task", "mean length of a task", |run| {
        number(run.mean_task_cycles, cycles)
    }),
    ("sched/task", "scheduling cost of a task", |run| {
        number(run.scheduling_ns_per_task, nanoseconds)
    }),
    ("sched/task", "scheduling cost of a task", |run| {
        number(run.scheduling_cycles_per_task, cycles)
    }),
    ("utilisation", "time in tasks over workers x time", |run| {
        number(run.utilisation, per_cent)
    }),
    ("steals", "tasks taken from another worker", |run| {
        count(run.steals)
    }),
    (
        "x bound",
        "time over the time that no schedule could beat",
        |run| number(run.bound_ratio, |v| format!("{v:.2}")),
    ),
    (
        "identical",
        "output equals the sequential reference bit by bit",
        |run| {
            run.identical
                .and_then(|same| text(if same { "yes" } else { "NO" }))
        },
    ),
];

/// The groups and the cut of a run, which belong to the choice of the policy.
pub(crate) const CHOICES: [Read; 2] = [|run| text(&run.groups), |run| text(&run.tasks_mode)];

/// Properties that describe a run instead of measuring it: a column if runs differ in them, else a word above the table.
const SETTINGS: [(&str, Read); 7] = [
    ("engine", |run| text(engine(run.engine))),
    ("machine", |run| text(&run.machine)),
    ("workload", |run| text(&run.workload)),
    ("input", |run| text(&run.input)),
    ("workers", |run| count(Some(u64::from(run.workers)))),
    ("groups", CHOICES[0]),
    ("tasks as", CHOICES[1]),
];

pub(crate) fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::Native => "native",
        Engine::Simulated => "simulated",
    }
}

/// Returns whether the runs that have this setting differ in it.
pub(crate) fn differs(runs: &[&RunResult], read: Read) -> bool {
    let mut values = runs.iter().filter_map(|run| Some(read(run)?.text));
    values
        .next()
        .is_some_and(|first| values.any(|value| value != first))
}

/// Returns the tables of a report: one of all runs, or with both engines one for each set of comparable runs, since engines measure
/// different things.
pub(crate) fn tables(report: &Report) -> Vec<Vec<&RunResult>> {
    let first = report.runs.first().map(|run| run.engine);
    match report.runs.iter().all(|run| Some(run.engine) == first) {
        true => vec![report.runs.iter().collect()],
        false => comparable_sets(report),
    }
}

/// Returns the columns of a table: policy, the settings that differ, the measurements, and single values from `extra`.
pub(crate) fn columns(runs: &[&RunResult]) -> Vec<Column> {
    let column = |heading: &str, meaning, read: Read| Column {
        heading: heading.to_owned(),
        meaning,
        cells: runs.iter().map(|run| read(run)).collect(),
    };
    let mut columns = Vec::new();
    for (index, (heading, meaning, read)) in MEASURED.into_iter().enumerate() {
        columns.push(column(heading, meaning, read));
        if index == 0 {
            let settings = SETTINGS
                .into_iter()
                .filter(|&(_, read)| differs(runs, read));
            columns.extend(settings.map(|(heading, read)| column(heading, "", read)));
        }
    }
    columns.extend(cache_columns(runs));
    columns.push(column(
        "writebacks",
        "lines written back, summed over all caches",
        |run| count(run.writebacks),
    ));
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.extra.keys()).collect();
    for key in keys {
        columns.push(Column {
            heading: key.clone(),
            meaning: "",
            cells: runs.iter().map(|run| extra(run.extra.get(key)?)).collect(),
        });
    }
    columns.retain(|column| column.cells.iter().any(Option::is_some));
    columns
}

/// Returns the misses of each level and kind of cache.
fn cache_columns(runs: &[&RunResult]) -> Vec<Column> {
    let caches = runs.iter().flat_map(|run| &run.caches);
    let names = distinct(caches.map(|cache| cache.cache.as_str()));
    let misses = |run: &RunResult, name: &str| {
        let cache = run.caches.iter().find(|cache| cache.cache == name)?;
        count(Some(cache.misses))
    };
    let columns = names.into_iter().map(|name| Column {
        heading: format!("{name} misses"),
        meaning: "touches that missed in this level, summed over its caches",
        cells: runs.iter().map(|run| misses(run, name)).collect(),
    });
    columns.collect()
}

fn extra(value: &serde_json::Value) -> Option<Cell> {
    match value {
        serde_json::Value::Number(value) => match value.as_u64() {
            Some(whole) => count(Some(whole)),
            None => number(value.as_f64(), |v| format!("{v:.4}")),
        },
        serde_json::Value::String(value) => text(value),
        serde_json::Value::Bool(value) => text(if *value { "yes" } else { "no" }),
        _ => None,
    }
}

/// Returns the settings that all runs share, for instance `native · h264 · demo.264 · 2 workers`.
pub(crate) fn shared_settings(runs: &[&RunResult]) -> String {
    let shared = SETTINGS
        .into_iter()
        .filter(|&(_, read)| !differs(runs, read));
    let words = shared.filter_map(|(heading, read)| {
        let run = runs.iter().find(|run| read(run).is_some())?;
        let value = read(run)?.text;
        Some(match heading {
            "workers" => workers_of(run),
            "groups" | "tasks as" => format!("{heading} {value}"),
            _ => value,
        })
    });
    words.collect::<Vec<_>>().join(" \u{b7} ")
}

/// Returns a number with a separator between each three digits: 12,000.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn seconds(value: f64) -> String {
    match value {
        v if v < 1e-3 => nanoseconds(v * 1e9),
        v if v < 1.0 => format!("{:.1} ms", v * 1e3),
        v => format!("{v:.2} s"),
    }
}

fn cycles(value: f64) -> String {
    format!("{} cyc", thousands(value.round() as u64))
}

pub(crate) fn per_cent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

pub(crate) fn nanoseconds(value: f64) -> String {
    match value {
        v if v < 1e3 => format!("{v:.0} ns"),
        v if v < 1e5 => format!("{:.2} us", v / 1e3),
        v => format!("{:.2} ms", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(nanoseconds(345.6), "346 ns");
        assert_eq!(nanoseconds(34_560.0), "34.56 us");
        assert_eq!(seconds(0.5), "500.0 ms");
        assert_eq!(seconds(0.000_012), "12.00 us");
    }
}
