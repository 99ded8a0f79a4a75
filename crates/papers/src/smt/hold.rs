//! The grid of `hold`: six kernels, and thread traces from files, on 12 machines under paper 2's rules, and under `hold` with and without
//! counters.

use super::recording;
use crate::{Error, Progress, Request, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tanada_harness::batch;
use tanada_runtime::Cancel;
use tanada_sim::{Machine, ThreadOptions, simulate_threads};

/// The fixed rules first, with `fifo` as the first of them.
const GOVERNORS: [&str; 6] = ["fifo", "rs", "ss", "rs-ss", "hold", "hold-blind"];
const FIXED: usize = 4;
const HOLD: usize = 4;
const BLIND: usize = 5;

/// A kernel at a small size, with a period that is scaled alike.
struct Kernel {
    name: &'static str,
    arguments: &'static str,
    period: u64,
}

const KERNELS: [Kernel; 6] = [
    Kernel {
        name: "lu",
        arguments: "-p 64 -n 256",
        period: 125_000,
    },
    Kernel {
        name: "fft",
        arguments: "-p 64 -n 16384",
        period: 218_750,
    },
    Kernel {
        name: "radix",
        arguments: "-p 64 -n 131072",
        period: 125_000,
    },
    Kernel {
        name: "ocean",
        arguments: "-p 64 -n 256 --cycles 2",
        period: 125_000,
    },
    Kernel {
        name: "barnes",
        arguments: "-p 64 -n 512",
        period: 125_000,
    },
    Kernel {
        name: "hash",
        arguments: "-p 64 -n 16384 --rounds 3",
        period: 125_000,
    },
];

const L1D_KB: [u64; 4] = [4, 8, 16, 32];
const THREADS: [u64; 3] = [2, 4, 8];

/// The period for traces from files, in cycles.
const FILE_PERIOD: u64 = 125_000;

/// A kernel or the name of a file, KB of L1D, and hardware threads.
type Cell = (String, u64, u64);

/// A cell of the grid, for JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CellFigures {
    program: String,
    l1d_kb: u64,
    hardware_threads: u64,
    /// Simulated cycles by governor.
    cycles: BTreeMap<&'static str, u64>,
}

/// Cycles of each cell under each of [`GOVERNORS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    cells: BTreeMap<Cell, [u64; GOVERNORS.len()]>,
}

impl Grid {
    /// Returns how fast a governor is in the cell where it is slowest, relative to the best of the fixed rules.
    fn over_best_min(&self, governor: usize) -> f64 {
        self.over_best(governor).fold(f64::INFINITY, f64::min)
    }

    fn over_best(&self, governor: usize) -> impl Iterator<Item = f64> + '_ {
        self.cells.values().map(move |cycles| {
            let best = cycles[..FIXED].iter().min().expect("there are rules");
            *best as f64 / cycles[governor] as f64
        })
    }

    fn over_fifo(&self, governor: usize) -> impl Iterator<Item = f64> + '_ {
        let cells = self.cells.values();
        cells.map(move |cycles| cycles[0] as f64 / cycles[governor] as f64)
    }

    pub(super) fn hold_over_best_min(&self) -> f64 {
        self.over_best_min(HOLD)
    }

    pub(super) fn hold_over_fifo_min(&self) -> f64 {
        self.over_fifo(HOLD).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn blind_over_best_min(&self) -> f64 {
        self.over_best_min(BLIND)
    }

    /// Returns all cells, by program, cache and threads.
    pub(super) fn figures(&self) -> Vec<CellFigures> {
        let figures =
            |((program, l1d_kb, threads), cycles): (&Cell, &[u64; GOVERNORS.len()])| CellFigures {
                program: program.clone(),
                l1d_kb: *l1d_kb,
                hardware_threads: *threads,
                cycles: GOVERNORS.into_iter().zip(*cycles).collect(),
            };
        self.cells.iter().map(figures).collect()
    }

    /// Returns speeds over `fifo`: a line for each cell, and their means; and how each governor compares with the best fixed rule.
    pub(super) fn table(&self) -> Table {
        let mut text = format!("{:<20}", "");
        for name in GOVERNORS {
            let _ = write!(text, "{name:>11}");
        }
        let mut line = |name: String, figures: Vec<f64>, digits: usize| {
            let _ = write!(text, "\n{name:<20}");
            for figure in figures {
                let _ = write!(text, "{figure:>11.digits$}");
            }
        };
        for ((name, l1d, threads), cycles) in &self.cells {
            let speeds = cycles.iter().map(|&one| cycles[0] as f64 / one as f64);
            line(format!("{name} {l1d} KB, {threads}"), speeds.collect(), 3);
        }
        let count = self.cells.len().max(1) as f64;
        let means = (0..GOVERNORS.len()).map(|one| self.over_fifo(one).sum::<f64>() / count);
        line("mean".to_owned(), means.collect(), 3);
        let all = || 0..GOVERNORS.len();
        let least = |one: usize| self.over_fifo(one).fold(f64::INFINITY, f64::min);
        line("least".to_owned(), all().map(least).collect(), 3);
        let least = all().map(|one| self.over_best_min(one));
        line("least of best".to_owned(), least.collect(), 3);
        for (part, name) in [(0.98, "cells >= 0.98 best"), (0.96, "cells >= 0.96 best")] {
            let reach = |one: usize| self.over_best(one).filter(|&ratio| ratio >= part).count();
            line(
                name.to_owned(),
                all().map(|one| reach(one) as f64).collect(),
                0,
            );
        }
        let reach = |one: usize| self.over_fifo(one).filter(|&ratio| ratio >= 0.99).count();
        let reach = all().map(|one| reach(one) as f64).collect();
        line("cells >= 0.99 fifo".to_owned(), reach, 0);
        text.push('\n');
        Table {
            heading: "hold: speed over fifo by program, L1D and hardware threads (small sizes)",
            text,
        }
    }
}

/// What all cells are simulated with.
pub(super) struct Bench<'a> {
    pub(super) machine: &'a Machine,
    pub(super) request: &'a Request,
    /// For recordings.
    pub(super) folder: &'a Path,
    pub(super) cancel: &'a Cancel,
}

impl Bench<'_> {
    /// Records the kernels with the command `tanada`, and simulates their cells.
    ///
    /// # Errors
    /// If a kernel cannot be compiled or recorded, a simulation fails, or the work was cancelled.
    pub(super) fn kernels(
        &self,
        grid: &mut Grid,
        tanada: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        for kernel in &KERNELS {
            let what = format!("recording {} for hold", kernel.name);
            progress(Progress {
                what: &what,
                done: 0,
            });
            let arguments = kernel.arguments.split(' ').map(str::to_owned);
            let arguments: Vec<String> = arguments.collect();
            let (folder, cancel) = (self.folder, self.cancel);
            let path = recording::record(tanada, kernel.name, &arguments, folder, cancel)?;
            self.simulate(grid, kernel.name, &path, kernel.period, progress)?;
        }
        Ok(())
    }

    /// Simulates the cells of a thread trace. They are named after the file.
    ///
    /// # Errors
    /// If the file is none, a simulation fails, or the work was cancelled.
    pub(super) fn file(
        &self,
        grid: &mut Grid,
        path: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if grid.cells.keys().any(|(known, ..)| *known == name) {
            return Err(Error::Usage(format!(
                "--hold-trace: two programs are called {name}"
            )));
        }
        self.simulate(grid, &name, path, FILE_PERIOD, progress)
    }

    fn simulate(
        &self,
        grid: &mut Grid,
        name: &str,
        path: &Path,
        period: u64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Error> {
        let trace = recording::open(path)?;
        let mut runs = Vec::new();
        for l1d in L1D_KB {
            for threads in THREADS {
                let sets = [
                    format!("l1d.size={l1d}K"),
                    format!("smt.threads_per_core={threads}"),
                    format!("smt.period_cycles={period}"),
                ];
                let machine = self.machine.overridden(&sets);
                let machine = machine.map_err(|error| Error::Usage(error.to_string()))?;
                let cell = (name.to_owned(), l1d, threads);
                runs.extend(
                    (0..GOVERNORS.len()).map(|governor| (cell.clone(), governor, machine.clone())),
                );
            }
        }
        let failed = AtomicBool::new(false);
        let cancel = self.cancel;
        let one = |number: usize| {
            let (_, governor, machine) = &runs[number];
            let watch = |_| !cancel.is_cancelled();
            let options = ThreadOptions {
                watch: Some(&watch),
                ..ThreadOptions::default()
            };
            let outcome = simulate_threads(&trace, machine, GOVERNORS[*governor], &options);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            outcome.map(|outcome| outcome.cycles)
        };
        let (what, mut done) = (format!("of {} runs of {name}", runs.len()), 0);
        let results = batch::collect(runs.len(), self.request.threads, one, |ended| {
            done += usize::from(ended.is_some());
            progress(Progress { what: &what, done });
            match cancel.is_cancelled() || failed.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        for ((cell, governor, _), result) in runs.into_iter().zip(results) {
            let cycles = result.ok_or(Error::Cancelled)?;
            grid.cells.entry(cell).or_default()[governor] = cycles?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_are_over_the_best_fixed_rule_of_each_cell() {
        let cells = [
            (("lu".to_owned(), 4, 8), [200, 120, 210, 100, 110, 125]),
            (("lu".to_owned(), 32, 8), [100, 150, 105, 150, 98, 101]),
        ];
        let grid = Grid {
            cells: cells.into_iter().collect(),
        };
        assert_eq!(grid.hold_over_best_min(), 100.0 / 110.0);
        assert_eq!(grid.hold_over_fifo_min(), 100.0 / 98.0);
        assert_eq!(grid.blind_over_best_min(), 0.8);
        let text = grid.table().text;
        assert!(text.contains("lu 32 KB, 8"), "{text}");
        let last = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.map(|line| line[20..].split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let all = |name| last(name).expect("a line of this name");
        assert_eq!(all("least of best"), "0.500 0.667 0.476 0.667 0.909 0.800");
        assert_eq!(all("cells >= 0.98 best"), "1 0 0 1 1 1");
        assert_eq!(all("cells >= 0.99 fifo"), "2 1 0 1 2 2");
    }

    #[test]
    fn a_trace_from_a_file_has_all_cells_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sum.tnt");
        let text = "tanada-threads 1\nthread 0\nb 0x1000 8 2\nw 1 0x2000 8\nexit\n";
        std::fs::write(&path, text).expect("it is written");
        let request = Request {
            quick: true,
            threads: 2,
            values: tanada_workloads::options::Values::new(
                &[],
                tanada_workloads::options::Purpose::Run,
            ),
            tanada: None,
        };
        let machine = tanada_sim::machines::find("tuat").expect("it is there");
        let bench = Bench {
            machine: &machine,
            request: &request,
            folder: folder.path(),
            cancel: &Cancel::new(),
        };
        let mut grid = Grid::default();
        bench
            .file(&mut grid, &path, &mut |_| ())
            .expect("it can be simulated");
        assert_eq!(grid.cells.len(), L1D_KB.len() * THREADS.len());
        assert!(grid.cells.values().flatten().all(|&cycles| cycles > 0));
        // A run of one thread is the same under every governor.
        assert_eq!(grid.hold_over_best_min(), 1.0);
        let again = bench.file(&mut grid, &path, &mut |_| ());
        assert!(
            again
                .expect_err("the name is taken")
                .to_string()
                .contains("called sum")
        );
        let missing = folder.path().join("missing.tnb");
        assert!(bench.file(&mut grid, &missing, &mut |_| ()).is_err());
    }
}
