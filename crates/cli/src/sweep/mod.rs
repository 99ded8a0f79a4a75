//! `tanada sweep`: many simulations, on all cores of this host, that go on where they were when they were stopped.

mod journal;
mod parquet;
mod plan;
mod rows;
mod spec;
mod work;

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use tanada_report::to_list;

use crate::ui::{self, Failure, Outcome, OutputFile, at_fault};
use journal::Journal;
use plan::Plan;
use rows::{ERROR, Row, columns, csv, plain};

/// More rows than these are for the files and not for the terminal.
const SHOWN: usize = 100;

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) spec: &'a Path,
    /// Name of the results without extension; by default that of the sweep file.
    pub(crate) output: Option<&'a Path>,
    /// How many runs at once; by default as many as this host has cores.
    pub(crate) threads: Option<NonZero<usize>>,
    pub(crate) json: bool,
    pub(crate) dry_run: bool,
}

/// Where the results go.
struct Outputs {
    csv: PathBuf,
    parquet: PathBuf,
    journal: PathBuf,
}

impl Outputs {
    fn of(request: &Request<'_>) -> Outputs {
        let base = request
            .output
            .map_or_else(|| request.spec.with_extension(""), Path::to_owned);
        let with = |extension: &str| {
            let mut name = base.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        Outputs {
            csv: with(".csv"),
            parquet: with(".parquet"),
            journal: with(".unfinished"),
        }
    }
}

/// Runs a sweep to its end.
pub(crate) fn run(request: &Request<'_>) -> Outcome {
    let name = request.spec.display().to_string();
    let text = std::fs::read(request.spec).map_err(|error| at_fault(&name, error))?;
    // What is no text becomes something that is no TOML, on the same line.
    let spec = spec::parse(&String::from_utf8_lossy(&text), &name).map_err(Failure::Input)?;
    let folder = request.spec.parent().unwrap_or(Path::new(""));
    let plan = Plan::new(&spec, &name, folder)?;
    let outputs = Outputs::of(request);
    if request.dry_run {
        return dry_run(request, &plan, &outputs);
    }
    // Before hours of work: can they be written? Not kept open, since a kill would leave the files behind that stand in for them.
    OutputFile::open(&outputs.csv)?;
    OutputFile::open(&outputs.parquet)?;
    let (mut journal, known) = Journal::open(&outputs.journal)?;
    let results = work::all(&plan, known, &mut journal, request.threads);
    let results = results.map_err(|failure| match failure {
        Failure::Interrupted => Failure::Paused(outputs.journal.clone()),
        other => other,
    })?;
    let rows = (0..plan.len())
        .map(|number| row(&plan, number, &results))
        .collect::<Outcome<Vec<Row>>>()?;
    let columns = columns(&rows);
    let parquet =
        parquet::bytes(&columns).map_err(|error| at_fault(outputs.parquet.display(), error))?;
    OutputFile::open(&outputs.csv)?.finish(csv(&columns, rows.len()).as_bytes())?;
    OutputFile::open(&outputs.parquet)?.finish(&parquet)?;
    journal.remove()?;
    if request.json {
        ui::print(&rows.iter().map(ui::json).collect::<String>())?;
    } else {
        ui::print(&table(&plan, &rows, &outputs))?;
    }
    let failed: Vec<String> = rows
        .iter()
        .filter_map(|row| row.get(ERROR).map(plain))
        .collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Input(format!(
            "{} of {} runs have no result, see their column `{ERROR}`; the first: {first}",
            failed.len(),
            rows.len()
        ))),
    }
}

/// The row of a run: what it was, and what came of it.
fn row(plan: &Plan, number: usize, results: &HashMap<String, String>) -> Outcome<Row> {
    let cell = plan.cell(number);
    let result = results
        .get(&plan.identity(cell))
        .map(String::as_str)
        .unwrap_or_default();
    let result: Row = serde_json::from_str(result)
        .map_err(|error| at_fault("the results so far are damaged", error))?;
    let mut row = Row::default();
    row.0.extend(
        plan.columns(cell)
            .into_iter()
            .map(|(key, value)| (key, value.into())),
    );
    row.0.extend(
        plan.numbers(cell)
            .map(|(key, value)| (key.to_owned(), value.into())),
    );
    let further = result
        .0
        .into_iter()
        .filter(|(key, _)| row.get(key).is_none())
        .collect::<Vec<_>>();
    row.0.extend(further);
    Ok(row)
}

fn dry_run(request: &Request<'_>, plan: &Plan, outputs: &Outputs) -> Outcome {
    if request.json {
        let rows = (0..plan.len()).map(|number| {
            let cell = plan.cell(number);
            let words = plan
                .columns(cell)
                .into_iter()
                .map(|(key, value)| (key, value.into()));
            let numbers = plan
                .numbers(cell)
                .map(|(key, value)| (key.to_owned(), value.into()));
            Row(words.chain(numbers).collect())
        });
        return ui::print(&rows.map(|row| ui::json(&row)).collect::<String>());
    }
    let mut text = String::new();
    for number in 0..plan.len().min(SHOWN) {
        text += &format!("{}\n", plan.title(plan.cell(number)));
    }
    if plan.len() > SHOWN {
        text += &format!("... and {} more\n", plan.len() - SHOWN);
    }
    text += &format!(
        "{} runs, into {} and {}\n",
        plan.len(),
        outputs.csv.display(),
        outputs.parquet.display()
    );
    ui::print(&text)
}

/// The rows for people: columns that differ, and what matters most.
fn table(plan: &Plan, rows: &[Row], outputs: &Outputs) -> String {
    let mut text = String::new();
    if rows.len() <= SHOWN {
        let mut keys: Vec<String> = plan
            .columns(plan.cell(0))
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        keys.extend(["cores".to_owned(), "seed".to_owned()]);
        keys.retain(|key| {
            key == "policy" || rows.iter().any(|row| row.get(key) != rows[0].get(key))
        });
        let misses = columns(rows)
            .into_iter()
            .map(|column| column.name)
            .filter(|name| name.ends_with("_misses"));
        let results = ["makespan", "bound_ratio", "utilisation"].map(str::to_owned);
        keys.extend(results.into_iter().chain(misses));
        let header: Vec<&str> = keys.iter().map(String::as_str).collect();
        let shown = |value: &serde_json::Value| match value.as_f64() {
            Some(number) if !value.is_u64() => format!("{number:.3}"),
            _ => plain(value),
        };
        let cells = rows.iter().map(|row| {
            keys.iter()
                .map(|key| row.get(key).map_or_else(String::new, shown))
                .collect()
        });
        text += &to_list(&header, cells);
        text.push('\n');
    }
    text + &format!(
        "{} runs: {} and {}\n",
        rows.len(),
        outputs.csv.display(),
        outputs.parquet.display()
    )
}
