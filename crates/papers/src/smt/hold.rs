//! The grid of `hold`: six kernels on 12 machines under paper 2's rules, and under `hold` with and without counters.

use super::recording;
use crate::{Error, Progress, Request, Table};
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

/// A kernel, KB of L1D, and hardware threads.
type Cell = (&'static str, u64, u64);

/// Cycles of each cell under each of [`GOVERNORS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    cells: BTreeMap<Cell, [u64; GOVERNORS.len()]>,
}

impl Grid {
    /// Returns how fast a governor is in the cell where it is slowest, relative to the best of the fixed rules.
    fn over_best_min(&self, governor: usize) -> f64 {
        let of = |cycles: &[u64; GOVERNORS.len()]| {
            let best = cycles[..FIXED].iter().min().expect("there are rules");
            *best as f64 / cycles[governor] as f64
        };
        self.cells.values().map(of).fold(f64::INFINITY, f64::min)
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

    /// Returns speeds over `fifo`: a line for each cell, and their means.
    pub(super) fn table(&self) -> Table {
        let mut text = format!("{:<20}", "");
        for name in GOVERNORS {
            let _ = write!(text, "{name:>11}");
        }
        let mut line = |name: String, speeds: Vec<f64>| {
            let _ = write!(text, "\n{name:<20}");
            for speed in speeds {
                let _ = write!(text, "{speed:>11.3}");
            }
        };
        for ((name, l1d, threads), cycles) in &self.cells {
            let speeds = cycles.iter().map(|&one| cycles[0] as f64 / one as f64);
            line(format!("{name} {l1d} KB, {threads}"), speeds.collect());
        }
        let count = self.cells.len().max(1) as f64;
        let means = (0..GOVERNORS.len()).map(|one| self.over_fifo(one).sum::<f64>() / count);
        line("mean".to_owned(), means.collect());
        text.push('\n');
        Table {
            heading: "hold: speed over fifo by program, L1D and hardware threads (small sizes)",
            text,
        }
    }
}

/// Records the kernels, and simulates all cells.
///
/// # Errors
/// If a kernel cannot be compiled or recorded, a simulation fails, or `cancel` stopped it.
pub(super) fn run(
    machine: &Machine,
    request: &Request,
    tanada: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<Grid, Error> {
    let mut grid = Grid::default();
    for kernel in &KERNELS {
        let what = format!("recording {} for hold", kernel.name);
        progress(Progress {
            what: &what,
            done: 0,
        });
        let arguments = kernel.arguments.split(' ').map(str::to_owned);
        let arguments: Vec<String> = arguments.collect();
        let path = recording::record(tanada, kernel.name, &arguments, folder, cancel)?;
        let trace = recording::open(&path)?;
        let mut runs = Vec::new();
        for l1d in L1D_KB {
            for threads in THREADS {
                let sets = [
                    format!("l1d.size={l1d}K"),
                    format!("smt.threads_per_core={threads}"),
                    format!("smt.period_cycles={}", kernel.period),
                ];
                let machine = machine.overridden(&sets);
                let machine = machine.map_err(|error| Error::Usage(error.to_string()))?;
                let cell = (kernel.name, l1d, threads);
                runs.extend((0..GOVERNORS.len()).map(|governor| (cell, governor, machine.clone())));
            }
        }
        let failed = AtomicBool::new(false);
        let one = |number: usize| {
            let (_, governor, machine) = &runs[number];
            let watch = |_| !cancel.is_cancelled();
            let options = ThreadOptions {
                watch: Some(&watch),
                without_counters: *governor == BLIND,
                ..ThreadOptions::default()
            };
            let outcome = simulate_threads(&trace, machine, GOVERNORS[*governor], &options);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            outcome.map(|outcome| outcome.cycles)
        };
        let (what, mut done) = (format!("of {} runs of {}", runs.len(), kernel.name), 0);
        let results = batch::collect(runs.len(), request.threads, one, |ended| {
            done += usize::from(ended.is_some());
            progress(Progress { what: &what, done });
            match cancel.is_cancelled() || failed.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        for ((cell, governor, _), result) in runs.iter().zip(results) {
            let cycles = result.ok_or(Error::Cancelled)?;
            grid.cells.entry(*cell).or_default()[*governor] = cycles?;
        }
    }
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_are_over_the_best_fixed_rule_of_each_cell() {
        let cells = [
            (("lu", 4, 8), [200, 120, 210, 100, 110, 125]),
            (("lu", 32, 8), [100, 150, 105, 150, 98, 101]),
        ];
        let grid = Grid {
            cells: cells.into_iter().collect(),
        };
        assert_eq!(grid.hold_over_best_min(), 100.0 / 110.0);
        assert_eq!(grid.hold_over_fifo_min(), 100.0 / 98.0);
        assert_eq!(grid.blind_over_best_min(), 0.8);
        let text = grid.table().text;
        assert!(text.contains("lu 32 KB, 8"), "{text}");
        assert!(text.lines().count() == 4 && text.contains("mean"), "{text}");
    }
}
