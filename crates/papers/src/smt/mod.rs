//! Paper 2, the SMT thread scheduler: Tables 2 to 5 and figs 4 to 6, with recorded programs.
//!
//! LU and FFT are compiled for MIPS-I, recorded thread by thread, and simulated on the machine `tuat` under `fifo`, `rs` and `rs-ss`. The
//! machine was chosen on Table 2 and LU's rows; FFT's rows were known, but not fitted to. docs/reproduce-smt.md has the parameters, the
//! claim and the results.

mod figures;
mod hold;
mod published;
mod recording;
mod rows;
mod summary;

use crate::{Error, Found, Paper, Progress, Reproduction, Request};
use published::{Cell, MAIN, MOVED, Program, Recording};
use recording::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_harness::batch;
use tanada_runtime::Cancel;
use tanada_sim::{Intervals, Machine, ThreadOptions, ThreadsOutcome, simulate_threads};
use tanada_trace::threads::ThreadTrace;
use tanada_workloads::options::{Kind, Name, OptionSpec, Values};

/// The paper, as the registry has it.
pub(crate) struct Smt;

const LAYOUTS: &[Name] = &[
    Name {
        name: "array",
        aliases: &[],
    },
    Name {
        name: "contiguous",
        aliases: &[],
    },
];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "layout",
        "LAYOUT",
        Kind::Named(LAYOUTS),
        "LU's matrix: one array, or each block in one piece",
    )
    .default("array"),
    OptionSpec::new(
        "lu",
        "FILE",
        Kind::Path,
        "A thread trace of LU with 16 threads [default: it is compiled for MIPS-I and recorded]",
    ),
    OptionSpec::new(
        "fft",
        "FILE",
        Kind::Path,
        "A thread trace of FFT [default: as of LU]",
    ),
    OptionSpec::new(
        "hold",
        "",
        Kind::Switch,
        "Also simulate the grid of the governor hold: six kernels, 12 machines, 6 governors",
    ),
    OptionSpec::new(
        "hold-trace",
        "FILE",
        Kind::Texts,
        "Also simulate these cells for a thread trace; without --hold for traces only",
    ),
    OptionSpec::new(
        "set",
        "KEY=VALUE",
        Kind::Texts,
        "Replace a value of the machine tuat in all cells: smt.fill_cycles=12, smt.stack_spacing=4096",
    ),
];

impl Paper for Smt {
    fn name(&self) -> &'static str {
        "smt"
    }

    fn about(&self) -> &'static str {
        "Paper 2, the SMT thread scheduler: hit rates (Table 2), RS and SS (Tables 3 to 5, fig. 4), stack accesses (figs 5, 6)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn examples(&self) -> &'static [&'static str] {
        &[
            "--quick",
            "--json -o smt.html",
            "--quick --layout contiguous",
        ]
    }

    fn inputs(&self, values: &Values) -> Vec<PathBuf> {
        let named = ["lu", "fft"]
            .into_iter()
            .filter_map(|flag| values.path(flag));
        let held = values.texts("hold-trace").iter().map(Path::new);
        named.chain(held).map(Path::to_owned).collect()
    }

    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        let values = &request.values;
        let machine = request.machine("tuat")?;
        let layout = match values.name("layout") {
            "contiguous" => Layout::Contiguous,
            _ => Layout::Array,
        };
        let folder = tempfile::tempdir();
        let folder =
            folder.map_err(|error| Error::Input(format!("a temporary folder: {error}")))?;
        let mut traces: Traces = BTreeMap::new();
        for (program, which) in recordings() {
            if let Some(path) = values.path(program.name()).filter(|_| which == MAIN) {
                traces.insert((program, which), recording::open(path)?);
                continue;
            }
            let moved = match which {
                Recording::Moved(_) if values.path(program.name()).is_some() => continue,
                Recording::Moved(moved) => moved,
                _ => 0,
            };
            let (name, logical) = (program.name(), which.logical());
            let what = format!("recording {name} with {logical} threads");
            progress(Progress {
                what: &what,
                done: 0,
            });
            let arguments = recording::arguments(program, which, layout, request.quick);
            let Some(tanada) = &request.tanada else {
                let message = "no command that records programs is there";
                return Err(Error::Usage(message.to_owned()));
            };
            let folder = folder.path();
            let path = recording::record_moved(tanada, name, &arguments, moved, folder, cancel)?;
            traces.insert((program, which), recording::open(&path)?);
        }
        let mut found = simulate(&traces, &machine, layout, request, progress, cancel)?;
        let files = values.texts("hold-trace");
        if values.switch("hold") || !files.is_empty() {
            let bench = hold::Bench {
                machine: &machine,
                request,
                folder: folder.path(),
                cancel,
            };
            let mut grid = hold::Grid::default();
            if values.switch("hold") {
                let Some(tanada) = &request.tanada else {
                    let message = "no command that records programs is there";
                    return Err(Error::Usage(message.to_owned()));
                };
                bench.kernels(&mut grid, tanada, progress)?;
            }
            for file in files {
                bench.file(&mut grid, Path::new(file), progress)?;
            }
            found.hold = Some(grid);
        }
        Ok(Found::Figures(Box::new(reproduction(&found))))
    }
}

type Traces = BTreeMap<(Program, Recording), ThreadTrace>;

/// Returns which recordings the cells need.
fn recordings() -> BTreeSet<(Program, Recording)> {
    let each = cells().into_iter();
    each.map(|cell| (cell.program, cell.recording)).collect()
}

/// The results of all cells.
#[derive(Debug)]
struct Reproduced {
    cells: BTreeMap<Cell, ThreadsOutcome>,
    layout: Layout,
    quick: bool,
    /// Instructions of each program.
    instructions: BTreeMap<Program, u64>,
    /// The grid of `hold`, if it was asked for.
    hold: Option<hold::Grid>,
}

impl Reproduced {
    fn of(&self, cell: Cell) -> &ThreadsOutcome {
        self.cells.get(&cell).expect("every cell is simulated")
    }

    /// Returns the hit rate of L1D, in percent.
    fn hit_percent(&self, cell: Cell) -> f64 {
        let level = self.of(cell).level("l1d");
        level.expect("the machine has one").hit_percent()
    }

    /// Returns how many times as fast a cell is as the same one under `fifo`.
    fn over_fifo(&self, cell: Cell) -> f64 {
        self.of(cell.under("fifo")).cycles as f64 / self.of(cell).cycles as f64
    }

    /// Returns how many times as fast a cell is as one hardware thread under `fifo`.
    fn over_one(&self, cell: Cell) -> f64 {
        let one = single(cell.program);
        self.of(one).cycles as f64 / self.of(cell).cycles as f64
    }
}

/// Returns the cell to which fig. 4 is relative: the program with one thread.
fn single(program: Program) -> Cell {
    Cell {
        program,
        l1d: 4,
        l2: 512,
        threads: 1,
        recording: Recording::Main(1),
        governor: "fifo",
    }
}

/// Returns the cell in which `rs` and `rs-ss` gain most: 4 KB, 8 threads.
fn thrashing(program: Program, recording: Recording, governor: &'static str) -> Cell {
    Cell {
        program,
        l1d: 4,
        l2: 512,
        threads: 8,
        recording,
        governor,
    }
}

/// Returns all cells that the tables and figures need, each once.
fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = published::table2().iter().map(|(cell, ..)| *cell).collect();
    cells.extend(published::rows().iter().map(|row| row.cell));
    cells.extend(Program::ALL.map(single));
    cells.extend(MOVED.into_iter().flat_map(|recording| {
        published::GOVERNORS.map(|governor| thrashing(Program::Fft, recording, governor))
    }));
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// Intervals of figs 5 and 6: cycles at full size.
const INTERVAL: u64 = 1_000_000;

fn simulate(
    traces: &Traces,
    machine: &Machine,
    layout: Layout,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<Reproduced, Error> {
    let mut cells = cells();
    // Of a recording that was named there is only one.
    cells.retain(|cell| traces.contains_key(&(cell.program, cell.recording)));
    let full = machine.smt.as_ref().map_or(0, |smt| smt.period_cycles);
    let period = |cell: &Cell| recording::scaled(full, cell.program, request.quick).max(1);
    let machines: Result<Vec<Machine>, Error> = cells
        .iter()
        .map(|cell| {
            let sets = [
                format!("l1d.size={}K", cell.l1d),
                format!("l2.size={}K", cell.l2),
                format!("smt.threads_per_core={}", cell.threads),
                format!("smt.period_cycles={}", period(cell)),
            ];
            // The period of `--set` is that of the full size.
            let changed = machine.overridden(&sets);
            changed.map_err(|error| Error::Usage(error.to_string()))
        })
        .collect();
    let machines = machines?;
    let what = format!("of {} simulations", cells.len());
    let (cancelled, mut done) = (AtomicU64::new(0), 0);
    let one = |number: usize| {
        let cell = cells[number];
        let watch = |_| !cancel.is_cancelled();
        let options = ThreadOptions {
            watch: Some(&watch),
            observe: Some(Intervals {
                cycles: recording::scaled(INTERVAL, cell.program, request.quick),
                most: Intervals::ANY,
            }),
            ..ThreadOptions::default()
        };
        let outcome = simulate_threads(
            &traces[&(cell.program, cell.recording)],
            &machines[number],
            cell.governor,
            &options,
        );
        if outcome.is_err() {
            cancelled.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    };
    let results = batch::collect(cells.len(), request.threads, one, |ended| {
        done += usize::from(ended.is_some());
        progress(Progress { what: &what, done });
        match cancel.is_cancelled() || cancelled.load(Ordering::Relaxed) > 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let mut outcomes = BTreeMap::new();
    for (cell, result) in cells.iter().zip(results) {
        match result {
            Some(outcome) => outcomes.insert(*cell, outcome?),
            // A cell that did not begin: another one failed, or the work was cancelled.
            None => continue,
        };
    }
    if cancel.is_cancelled() || outcomes.len() < cells.len() {
        return Err(Error::Cancelled);
    }
    let instructions = Program::ALL.map(|program| {
        let threads = traces[&(program, MAIN)].threads().iter();
        (
            program,
            threads.map(|thread| thread.totals.instructions).sum(),
        )
    });
    Ok(Reproduced {
        cells: outcomes,
        layout,
        quick: request.quick,
        instructions: instructions.into_iter().collect(),
        hold: None,
    })
}

fn reproduction(found: &Reproduced) -> Reproduction {
    let rows = rows::rows(found);
    let summary = summary::summary(found);
    let millions = |program| found.instructions[&program] as f64 / 1e6;
    let size = if found.quick {
        " (small sizes, periods scaled alike)"
    } else {
        ""
    };
    Reproduction {
        paper: "Paper 2 (SMT thread scheduler)",
        title: "SMT thread scheduler: published and ours",
        sample: format!(
            "LU ({}) with {:.0} and FFT with {:.0} million recorded instructions{size}",
            found.layout.name(),
            millions(Program::Lu),
            millions(Program::Fft),
        ),
        tables: rows::tables(found, &rows)
            .into_iter()
            .chain(found.hold.as_ref().map(hold::Grid::table))
            .collect(),
        rows,
        claim: "one machine for all cells, chosen on Table 2 and LU's rows",
        bars: summary::bars(&summary),
        figures: figures::figures(found),
        missed: summary::missed(found, &summary),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_workloads::options::Purpose;

    #[test]
    fn every_cell_is_simulated_once() {
        let cells = cells();
        // 24 of Table 2, 24 of Tables 3 and 4, fig. 4's single threads, and FFT's order with three more recordings.
        assert_eq!(cells.len(), 24 + 24 + 2 + 9);
        let recordings = recordings();
        assert_eq!(recordings.len(), 4 + 2 + 2 + 3);
        let first = (Program::Lu, Recording::First(8));
        assert!(recordings.contains(&first) && recordings.contains(&(Program::Fft, MAIN)));
    }

    #[test]
    fn all_bytes_are_the_same_on_any_number_of_host_threads() {
        let text = |threads: u32| {
            let mut text = String::from("tanada-threads 1\nthread 0 stack=0x7f0000\n");
            (1..=threads).for_each(|one| text += &format!("create {one}\n"));
            (1..=threads).for_each(|one| text += &format!("join {one}\n"));
            text += "exit\n";
            for one in 1..=threads {
                text += &format!(
                    "thread {one} parent=0 stack={:#x}\n",
                    0x7f_0000 - one * 0x8000
                );
                for line in 0..20 {
                    let address = 0x10000 + one * 0x4000 + line % 7 * 64;
                    text += &format!("b 0x401000 16 4\nr 1 {address:#x} 8\nx 3\n");
                }
                text += &format!("barrier 0 {threads}\nexit\n");
            }
            text
        };
        let traces: Traces = recordings()
            .into_iter()
            .map(|(program, which)| {
                let text = text(which.logical() as u32);
                let trace = ThreadTrace::parse(text.as_bytes(), "t").expect("a thread trace");
                ((program, which), trace)
            })
            .collect();
        let machine = tanada_sim::machines::find("tuat").expect("it is registered");
        let all = |threads| {
            let request = Request {
                quick: true,
                threads,
                values: Values::new(OPTIONS, Purpose::Run),
                tanada: None,
            };
            let (layout, cancel) = (Layout::Array, Cancel::new());
            let found = simulate(&traces, &machine, layout, &request, &mut |_| (), &cancel);
            let found = reproduction(&found.expect("all cells end"));
            (found.tables(), found.summary.clone(), found.page("command"))
        };
        let one = all(1);
        assert!(one == all(2) && one == all(5));
    }

    #[test]
    fn wrong_options_and_recordings_are_refused() {
        let refused = |pairs: &[(&str, &str)]| {
            let values = Values::new(OPTIONS, Purpose::Run).with(pairs);
            let request = Request {
                quick: true,
                threads: 1,
                values: values.expect("they are right"),
                tanada: None,
            };
            let found = Smt.reproduce(&request, &mut |_| (), &Cancel::new());
            found.expect_err("it is refused").to_string()
        };
        assert!(refused(&[("set", "smt.fill=3")]).contains("fill_cycles"));
        assert!(refused(&[]).contains("no command that records"));
    }
}
