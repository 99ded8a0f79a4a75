//! The summary of all rows, the bars of the claim, and what did not come out.

use super::hold::{CellFigures, Grid};
use super::published::{self, Cell, MAIN, MOVED, Program, Recording};
use super::{Reproduced, thrashing};
use crate::Bar;
use crate::statistics::{Pair, mean_abs_error};
use serde::Serialize;

/// Names that the summary has always; `hold_*` are null unless the grid of `hold` was simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// 1 if IPC rises from `fifo` to `rs` to `rs-ss` with 4 KB and 8 threads, for both programs; else 0. FFT's is the mean of all its
    /// recordings.
    pub(super) order_holds: u8,
    /// Percent by which FFT's IPC rises from `rs` to `rs-ss` there, in each of its recordings (published: 32). The first is that of all
    /// other figures.
    pub(super) fft_steps_percent: Vec<f64>,
    /// Mean error of the 16 speed-ups of `rs` and `rs-ss` over `fifo`.
    pub(super) speedup_mean_abs_error_percent: f64,
    /// Mean error of the IPC of `fifo`'s eight rows.
    pub(super) fifo_ipc_mean_abs_error_percent: f64,
    /// Mean error of Table 2.
    pub(super) hit_rate_mean_abs_error_points: f64,
    /// As `speedup_mean_abs_error_percent`, of FFT's eight ([`Program::is_predicted`]).
    pub(super) speedup_predicted_error_percent: f64,
    /// The same of the guess that no governor changes anything.
    pub(super) speedup_no_change_error_percent: f64,
    /// The same of the guess that FFT's rows are LU's published ones.
    pub(super) speedup_other_program_error_percent: f64,
    /// Percent by which cycles fall from `rs` to `rs-ss` as speed: LU, 8 threads, 4 KB (published: 28).
    pub(super) step_rs_to_rs_ss_percent: f64,
    /// LU, 4 threads, 32 KB: speed of `rs` over `fifo` (published: 0.76).
    pub(super) rs_at_32_kb: f64,
    /// The same of `rs-ss` (published: 0.77).
    pub(super) rs_ss_at_32_kb: f64,
    pub(super) hold_over_best_min: Option<f64>,
    pub(super) hold_over_fifo_min: Option<f64>,
    pub(super) hold_over_best_min_without_counters: Option<f64>,
    /// The grid of `hold`, cell by cell.
    pub(super) hold_cells: Option<Vec<CellFigures>>,
    /// LU's layout.
    pub(super) layout: &'static str,
    /// Whether the small sizes were simulated.
    pub(super) quick: bool,
}

/// A speed-up over `fifo`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speedup {
    pub(super) cell: Cell,
    pub(super) published: f64,
    pub(super) ours: f64,
    /// The published speed-up of the other program.
    pub(super) other: f64,
}

/// Returns the published speed of a cell over `fifo`.
fn over_fifo(cell: Cell) -> f64 {
    let rows = published::rows();
    let cycles = |cell: Cell| {
        let row = rows.iter().find(|row| row.cell == cell);
        row.expect("the table has every cell").cycles
    };
    cycles(cell.under("fifo")) / cycles(cell)
}

/// Returns the 16 speed-ups of Tables 3 and 4.
pub(super) fn speedups(found: &Reproduced) -> Vec<Speedup> {
    let rows = published::rows().into_iter().map(|row| row.cell);
    let reduced = rows.filter(|cell| cell.governor != "fifo");
    let of = reduced.map(|cell| {
        let program = match cell.program {
            Program::Lu => Program::Fft,
            Program::Fft => Program::Lu,
        };
        Speedup {
            cell,
            published: over_fifo(cell),
            ours: found.over_fifo(cell),
            other: over_fifo(Cell { program, ..cell }),
        }
    });
    of.collect()
}

/// Returns the mean of the errors of `guess` relative to the published figures, in percent.
fn percent(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let relative = pairs.map(|(published, ours)| Pair {
        published: 100.0,
        ours: 100.0 * ours / published,
    });
    mean_abs_error(&Vec::from_iter(relative)).expect("there are rows")
}

/// Returns the recordings of which a program's order is the mean.
fn recordings(found: &Reproduced, program: Program) -> impl Iterator<Item = Recording> {
    let all = [MAIN].into_iter().chain(MOVED);
    all.filter(move |&recording| {
        let cell = thrashing(program, recording, "fifo");
        found.cells.contains_key(&cell)
    })
}

/// Returns the mean IPC of all recordings of a program with 4 KB and 8 threads.
fn mean_ipc(found: &Reproduced, program: Program, governor: &'static str) -> f64 {
    let all = recordings(found, program);
    let all = all.map(|recording| found.of(thrashing(program, recording, governor)).ipc());
    let (sum, count) = all.fold((0.0, 0.0), |(sum, count), ipc| (sum + ipc, count + 1.0));
    sum / count
}

pub(super) fn summary(found: &Reproduced) -> Summary {
    let cell = |program, l1d, threads, governor| Cell {
        program,
        l1d,
        l2: 512,
        threads,
        recording: published::MAIN,
        governor,
    };
    let holds = |program: Program| {
        let ipc = |governor| mean_ipc(found, program, governor);
        ipc("fifo") < ipc("rs") && ipc("rs") < ipc("rs-ss")
    };
    let fft_steps = recordings(found, Program::Fft).map(|recording| {
        let ipc = |governor| found.of(thrashing(Program::Fft, recording, governor)).ipc();
        (ipc("rs-ss") / ipc("rs") - 1.0) * 100.0
    });
    let all = speedups(found);
    let predicted = || all.iter().filter(|one| one.cell.program.is_predicted());
    let rows = published::rows().into_iter();
    let fifo = rows.filter(|row| row.cell.governor == "fifo");
    let table2 = published::table2().into_iter().map(|(cell, _, hit)| Pair {
        published: hit,
        ours: found.hit_percent(cell),
    });
    let small = cell(Program::Lu, 4, 8, "rs-ss");
    let step = found.over_fifo(small) / found.over_fifo(small.under("rs"));
    let large = cell(Program::Lu, 32, 4, "rs");
    let hold = found.hold.as_ref();
    Summary {
        order_holds: u8::from(Program::ALL.into_iter().all(holds)),
        fft_steps_percent: fft_steps.collect(),
        speedup_mean_abs_error_percent: percent(all.iter().map(|one| (one.published, one.ours))),
        fifo_ipc_mean_abs_error_percent: percent(
            fifo.map(|row| (row.ipc, found.of(row.cell).ipc())),
        ),
        hit_rate_mean_abs_error_points: mean_abs_error(&Vec::from_iter(table2))
            .expect("there are rows"),
        speedup_predicted_error_percent: percent(predicted().map(|one| (one.published, one.ours))),
        speedup_no_change_error_percent: percent(predicted().map(|one| (one.published, 1.0))),
        speedup_other_program_error_percent: percent(
            predicted().map(|one| (one.published, one.other)),
        ),
        step_rs_to_rs_ss_percent: (step - 1.0) * 100.0,
        rs_at_32_kb: found.over_fifo(large),
        rs_ss_at_32_kb: found.over_fifo(large.under("rs-ss")),
        hold_over_best_min: hold.map(Grid::hold_over_best_min),
        hold_over_fifo_min: hold.map(Grid::hold_over_fifo_min),
        hold_over_best_min_without_counters: hold.map(Grid::blind_over_best_min),
        hold_cells: hold.map(Grid::figures),
        layout: found.layout.name(),
        quick: found.quick,
    }
}

pub(super) fn bars(summary: &Summary) -> Vec<Bar> {
    let bar = |what, published, ours, range| Bar {
        what,
        published,
        ours: Some(ours),
        range,
    };
    let mut bars = vec![
        bar(
            "IPC of fifo < rs < rs-ss, 4 KB, 8 threads, both programs, FFT as the mean of its recordings (1: yes)",
            Some(1.0),
            f64::from(summary.order_holds),
            1.0..=1.0,
        ),
        bar(
            "16 speed-ups over fifo: mean error, %",
            None,
            summary.speedup_mean_abs_error_percent,
            0.0..=12.0,
        ),
        bar(
            "IPC of fifo: mean error, %",
            None,
            summary.fifo_ipc_mean_abs_error_percent,
            0.0..=20.0,
        ),
        bar(
            "Table 2: mean error, points",
            None,
            summary.hit_rate_mean_abs_error_points,
            0.0..=1.5,
        ),
        bar(
            "LU, 4 KB, 8 threads: rs-ss over rs, %",
            Some(28.0),
            summary.step_rs_to_rs_ss_percent,
            20.0..=36.0,
        ),
        bar(
            "LU, 32 KB, 4 threads: speed of rs over fifo",
            Some(0.764),
            summary.rs_at_32_kb,
            0.72..=0.80,
        ),
        bar(
            "LU, 32 KB, 4 threads: speed of rs-ss over fifo",
            Some(0.767),
            summary.rs_ss_at_32_kb,
            0.72..=0.80,
        ),
    ];
    let hold = [
        (
            "hold over the best fixed rule, least of all cells",
            summary.hold_over_best_min,
            0.98,
        ),
        (
            "hold over fifo, least of all cells",
            summary.hold_over_fifo_min,
            0.99,
        ),
        (
            "hold without counters over the best fixed rule, least of all cells",
            summary.hold_over_best_min_without_counters,
            0.96,
        ),
    ];
    let grid = hold.into_iter().filter_map(|(what, ours, least)| {
        let ours = ours?;
        Some(bar(what, None, ours, least..=f64::INFINITY))
    });
    bars.extend(grid);
    bars
}

/// Returns what did not come out, and what a reader has to know.
pub(super) fn missed(found: &Reproduced, summary: &Summary) -> Vec<String> {
    let bars = bars(summary);
    let mut lines: Vec<String> = bars.iter().filter_map(Bar::missed).collect();
    let steps = &summary.fft_steps_percent;
    lines.push(format!(
        "FFT, 4 KB, 8 threads: from rs to rs-ss IPC rises by {:.1}% on average of {} recordings that differ in where the first thread's \
         stack lies (from {:.1} to {:.1}%; published: 32%)",
        (mean_ipc(found, Program::Fft, "rs-ss") / mean_ipc(found, Program::Fft, "rs") - 1.0)
            * 100.0,
        steps.len(),
        steps.iter().copied().fold(f64::INFINITY, f64::min),
        steps.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ));
    lines.push(format!(
        "FFT's rows are predicted in this sense: no setting was fitted to them, but they were known and took part in two choices, and the \
         number of threads and the period were varied because FFT's order was missing; the mean error of its speed-ups is {:.1}%, that of \
         the guess \"no change\" {:.1}%, that of LU's published rows {:.1}%",
        summary.speedup_predicted_error_percent,
        summary.speedup_no_change_error_percent,
        summary.speedup_other_program_error_percent,
    ));
    let far = speedups(found)
        .into_iter()
        .filter(|one| (one.ours > 1.0) != (one.published > 1.0));
    for one in far {
        let name = one.cell.name();
        lines.push(format!(
            "{name}: speed over fifo {:.2}, published {:.2}: the other side of 1",
            one.ours, one.published
        ));
    }
    let forced: u64 = found.cells.values().map(|one| one.forced).sum();
    if forced > 0 {
        lines.push(format!(
            "{forced} times a thread was made to go on because no thread could run (RULES.md, rule 4)"
        ));
    }
    if found.quick {
        lines.push(
            "small sizes: cycles are scaled by the instructions of the paper's programs".to_owned(),
        );
    }
    lines
}
