//! Sweeps: all combinations of traces, groups, machines, settings, policies and seeds, simulated on all cores of this host.
//!
//! A sweep file (docs/sweep.md) lists what is simulated. Every result goes at once to a journal beside the outputs, from which a sweep that
//! was stopped resumes. The outputs are a function of the sweep file and its traces: neither the number of
//! threads nor interruptions change a byte.

mod journal;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod rows;
mod spec;
mod work;

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tanada_report::Cell;
use tanada_runtime::Cancel;

use journal::Journal;
use plan::Plan;
pub use rows::Row;
use rows::{columns, csv, plain};
use tanada_trace::output::{OutputError, OutputFile, distinct};

/// Why a sweep has no results.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sweep file, a file that it names, or an output is at fault.
    #[error("{0}")]
    Input(String),
    /// An output cannot be written, or is an input.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Parquet was asked for, which this build cannot write.
    #[error(
        "this build of tanada writes CSV only; build it with `cargo build --release --features parquet`, or leave Parquet out"
    )]
    NoParquet,
    /// The sweep was cancelled; the next run of it goes on from the journal in this file.
    #[error("stopped; the results so far are in {}", .0.display())]
    Paused(PathBuf),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns an error about `what`.
fn at_fault(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Error {
    Error::Input(format!("{what}: {why}"))
}

/// Returns an error about a file that has the name of an output.
fn in_the_way(path: &Path, what: &str) -> Error {
    let what = format!("{what}; remove it, or name other results with --output");
    at_fault(path.display(), what)
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs that have ended, in this and earlier processes.
    pub runs: usize,
    /// All runs.
    pub of: usize,
    /// An estimate of the time that is left; `None` before the first tasks have ended.
    pub left: Option<Duration>,
    /// Whether the journal was of another build of this program, so that its results were dropped.
    pub restarted: bool,
    /// Rows of the journal that are not as they were written; their runs are done again.
    pub damaged: usize,
}

/// The files that a sweep writes.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// The table as CSV.
    pub csv: PathBuf,
    /// The table as Parquet, if it was asked for.
    pub parquet: Option<PathBuf>,
    /// The results so far, until the sweep is complete.
    pub journal: PathBuf,
}

impl Outputs {
    fn named(base: &Path, parquet: bool) -> Outputs {
        let with = |extension: &str| {
            let mut name = base.to_owned().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        Outputs {
            csv: with(".csv"),
            parquet: parquet.then(|| with(".parquet")),
            journal: with(".unfinished"),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Path> {
        let always = [&self.csv, &self.journal].into_iter();
        always.chain(&self.parquet).map(PathBuf::as_path)
    }
}

/// A sweep that can run: all that its file names was found.
#[derive(Debug)]
pub struct Sweep {
    plan: Plan,
    outputs: Outputs,
}

impl Sweep {
    /// Reads the sweep file `spec` and returns the sweep; traces and machines that it names are looked for beside it. The outputs are
    /// called `output` with extensions added, by default as the sweep file without its extension. `parquet` asks for the table as Parquet
    /// besides CSV.
    ///
    /// # Errors
    /// If the file is unsound or names what is not there; the text begins with the file and the line. [`Error::NoParquet`] if `parquet`
    /// is set and this crate was built without its feature `parquet`.
    pub fn read(spec: &Path, output: Option<&Path>, parquet: bool) -> Result<Sweep, Error> {
        if parquet && !cfg!(feature = "parquet") {
            return Err(Error::NoParquet);
        }
        let name = spec.display().to_string();
        let text = tanada_trace::read_whole(spec).map_err(|error| at_fault(&name, error))?;
        // Bytes that are no UTF-8 become text that is no TOML, on the same line.
        let parsed = spec::parse(&String::from_utf8_lossy(&text), &name).map_err(Error::Input)?;
        let folder = spec.parent().unwrap_or(Path::new(""));
        let base = output.map_or_else(|| spec.with_extension(""), Path::to_owned);
        let outputs = Outputs::named(&base, parquet);
        let named = parsed.traces.iter().chain(&parsed.machines);
        let named = named.map(|file| folder.join(&file.value));
        let elsewhere = parsed.machines.iter();
        let elsewhere = elsewhere.map(|file| PathBuf::from(&file.value));
        let inputs: Vec<PathBuf> = named.chain(elsewhere).chain([spec.to_owned()]).collect();
        distinct(inputs.iter().map(PathBuf::as_path), outputs.all())?;
        Ok(Sweep {
            plan: Plan::new(&parsed, &name, folder)?,
            outputs,
        })
    }

    /// Returns the files that [`Sweep::run`] writes.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Returns rows of all runs in the order of the results, without results.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = Row> {
        (0..self.plan.len()).map(|number| self.planned(number))
    }

    fn planned(&self, number: usize) -> Row {
        let cell = self.plan.cell(number);
        let words = self.plan.columns(cell).into_iter();
        let words = words.map(|(key, value)| (key, value.into()));
        let numbers = self.plan.numbers(cell);
        let numbers = numbers.map(|(key, value)| (key.to_owned(), value.into()));
        Row(words.chain(numbers).collect())
    }

    /// Runs what has no result yet on `threads` threads (by default as many as this host has cores) and writes the outputs. Returns the
    /// results, a row a run. A run that fails has a row with [`Row::error`].
    ///
    /// # Errors
    /// If an output cannot be written or a trace cannot be read; [`Error::Paused`] if `cancel` stopped the sweep.
    pub fn run(
        &self,
        threads: Option<NonZero<usize>>,
        cancel: &Cancel,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Row>, Error> {
        let outputs = &self.outputs;
        // Outputs that cannot be written are refused before hours of work. They are not kept open, since a killed process would leave
        // their temporary files behind.
        for path in [&outputs.csv].into_iter().chain(&outputs.parquet) {
            // The reader of a pipe would take the end of this attempt for the end of the results.
            if path.metadata().is_ok_and(|data| !data.is_file()) {
                return Err(in_the_way(path, "it is no regular file"));
            }
            OutputFile::open(path)?;
        }
        let (mut journal, known) = Journal::open(&outputs.journal)?;
        let results = work::all(&self.plan, known, &mut journal, threads, cancel, progress)?;
        let rows = (0..self.plan.len())
            .map(|number| self.row(number, &results))
            .collect::<Result<Vec<Row>, Error>>()?;
        let columns = columns(&rows);
        OutputFile::open(&outputs.csv)?.finish(csv(&columns, rows.len()).as_bytes())?;
        #[cfg(feature = "parquet")]
        if let Some(path) = &outputs.parquet {
            let bytes =
                parquet::bytes(&columns).map_err(|error| at_fault(path.display(), error))?;
            OutputFile::open(path)?.finish(&bytes)?;
        }
        journal.remove()?;
        Ok(rows)
    }

    /// Returns the row of a run: its place in the sweep, and its results.
    fn row(&self, number: usize, results: &HashMap<String, String>) -> Result<Row, Error> {
        let identity = self.plan.identity(self.plan.cell(number));
        let result = results.get(&identity).map_or("", String::as_str);
        let result: Row = serde_json::from_str(result)
            .map_err(|error| at_fault(self.outputs.journal.display(), error))?;
        let mut row = self.planned(number);
        let mut further = result.0;
        further.retain(|(key, _)| row.get(key).is_none());
        row.0.extend(further);
        Ok(row)
    }

    /// Returns the header and the lines of a table for people: what differs between the runs, and the main results.
    pub fn summary<'a>(
        &self,
        rows: &'a [Row],
    ) -> (Vec<String>, impl Iterator<Item = Vec<Cell>> + use<'a>) {
        let planned = self.planned(0);
        let mut keys: Vec<String> = planned.0.into_iter().map(|(key, _)| key).collect();
        keys.retain(|key| {
            key == "policy" || rows.iter().any(|row| row.get(key) != rows[0].get(key))
        });
        let misses = columns(rows)
            .into_iter()
            .map(|column| column.name)
            .filter(|name| name.ends_with("_misses"));
        let results = ["makespan", "bound_ratio", "utilisation"].map(str::to_owned);
        keys.extend(results.into_iter().chain(misses));
        let shown = |value: &serde_json::Value| match value.as_f64() {
            Some(number) if !value.is_u64() => format!("{number:.3}"),
            _ => plain(value),
        };
        let header = keys.clone();
        let cells = rows.iter().map(move |row| {
            keys.iter()
                .map(|key| row.get(key).map_or_else(String::new, shown))
                .map(Cell::read)
                .collect()
        });
        (header, cells)
    }
}
