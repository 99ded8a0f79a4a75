//! The published tables of paper 1, as they were printed.
//!
//! T. Mori, S. Takeda, H. Matsuzaki (Toshiba): *A fine-grain thread scheduling method considering efficiency of hierarchical cache on a
//! symmetric multi-core processor for media processing*. Table 2 (the evaluation board) and Table 3 (the authors' simulator).
//!
//! A gain is a ratio of speeds minus 1: of frames a second (Table 2), or of cycles the other way round (Table 3).

use crate::published::{Line, lines};
use crate::statistics::gain;
use std::fmt;

const TABLE2: &str = include_str!("data/table2.csv");
const TABLE3: &str = include_str!("data/table3.csv");

/// Pictures that each row of Table 2 was measured over.
pub(crate) const PICTURES: u64 = 128;

/// Clock of the chip's cores (paper 1, Table 1), in Hz.
pub(crate) const CLOCK: f64 = 333e6;

/// The cell that the paper's text speaks of: 128 KB, 4 cores, of [`Stream::Wvga`].
pub(crate) const HEADLINE: Cell = cell(Stream::Wvga, 128, 4);

/// An input of Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stream {
    /// 800 x 480.
    Wvga,
    /// 320 x 240.
    Qvga,
    /// 640 x 480.
    Vga,
    /// 1280 x 720.
    Hd,
}

impl Stream {
    /// All, in the order of the table here: the calibrated one first.
    pub(crate) const ALL: [Stream; 4] = [Stream::Wvga, Stream::Qvga, Stream::Vga, Stream::Hd];

    /// Returns the stream's name in Table 2.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Stream::Wvga => "wvga",
            Stream::Qvga => "qvga",
            Stream::Vga => "vga",
            Stream::Hd => "720p",
        }
    }

    /// Returns whether parameters may be chosen by this stream's rows; those of all others are predictions.
    pub(crate) const fn is_calibrated(self) -> bool {
        matches!(self, Stream::Wvga)
    }
}

/// A scheduler of Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scheduler {
    /// First come, first served.
    Fcfs,
    /// Cache groups, pattern A.
    A,
    /// Cache groups, pattern B.
    B,
}

impl Scheduler {
    /// All, in the order of the table.
    pub(crate) const ALL: [Scheduler; 3] = [Scheduler::Fcfs, Scheduler::A, Scheduler::B];

    /// Those that read groups.
    pub(crate) const GROUPED: [Scheduler; 2] = [Scheduler::A, Scheduler::B];

    /// Returns the scheduler's name in rows.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Scheduler::Fcfs => "fcfs",
            Scheduler::A => "ts:a",
            Scheduler::B => "ts:b",
        }
    }

    /// Returns the policy that the scheduler is.
    pub(crate) const fn policy(self) -> &'static str {
        match self {
            Scheduler::Fcfs => "fcfs",
            Scheduler::A | Scheduler::B => "ts",
        }
    }
}

/// A stream on a machine. Table 2 has a row for each scheduler in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    /// The input.
    pub(crate) stream: Stream,
    /// Size of the L2 cache in units of 1024 bytes.
    pub(crate) l2_kb: u32,
    /// Cores that run video signal processing.
    pub(crate) cores: u16,
}

const fn cell(stream: Stream, l2_kb: u32, cores: u16) -> Cell {
    Cell {
        stream,
        l2_kb,
        cores,
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}K {}", self.stream.name(), self.l2_kb, self.cores)
    }
}

/// The figures of Table 2 for a scheduler in a cell. Misses are those of tasks in [`PICTURES`] pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Frames a second.
    pub(crate) fps: f64,
    /// Mean cycles a thread (the paper's word for a task).
    pub(crate) task_cycles: f64,
    /// Misses of both L1 caches together. `None`: misprinted.
    pub(crate) l1_misses: Option<f64>,
    /// Misses of the L2 cache. `None`: misprinted.
    pub(crate) l2_misses: Option<f64>,
}

/// A row of Table 2: a cell with its three schedulers, in the order of [`Scheduler::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    /// The cell.
    pub(crate) cell: Cell,
    /// The figures, by scheduler.
    pub(crate) measured: [Measured; 3],
}

impl Row {
    /// Returns the figures of `scheduler`.
    pub(crate) fn of(&self, scheduler: Scheduler) -> &Measured {
        &self.measured[scheduler as usize]
    }

    /// Returns the published gain of `scheduler` over FCFS, in percent.
    pub(crate) fn gain(&self, scheduler: Scheduler) -> f64 {
        // `gain` takes times; frames a second are their inverse, so that the arguments change places.
        gain(self.of(scheduler).fps, self.of(Scheduler::Fcfs).fps)
    }
}

/// A figure that lost or gained digits in print (neighbouring rows are ten times larger or smaller): the cell, the scheduler, the level of
/// the cache whose misses it should be, and the figure as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misprint(Cell, Scheduler, u8, u64);

/// The figures of Table 2 that cannot be what was measured. They are left out; no gain depends on them.
pub(crate) const MISPRINTS: [Misprint; 3] = [
    Misprint(cell(Stream::Wvga, 64, 1), Scheduler::B, 1, 18_706_905),
    Misprint(cell(Stream::Vga, 128, 3), Scheduler::Fcfs, 1, 14_040_469),
    Misprint(cell(Stream::Hd, 128, 2), Scheduler::A, 2, 177_496_915),
];

impl fmt::Display for Misprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misprint(cell, scheduler, level, printed) = self;
        let name = scheduler.name();
        write!(f, "{cell} {name}: L{level} misses, printed as {printed}")
    }
}

/// Returns Table 2, by stream (the calibrated one first), size of the L2 cache and cores.
pub(crate) fn table2() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in lines(TABLE2) {
        let stream = named(&Stream::ALL, line.text("stream"), Stream::name);
        let cell = cell(stream, line.number("l2_kb"), line.number("cores"));
        let policy = line.text("policy").replace('_', ":");
        let scheduler = named(&Scheduler::ALL, &policy, Scheduler::name);
        let misses = |level: u8, column: &str| {
            let here = |one: &Misprint| (one.0, one.1, one.2) == (cell, scheduler, level);
            let misprinted = MISPRINTS.iter().any(here);
            (!misprinted).then(|| line.number(column))
        };
        let measured = Measured {
            fps: line.number("fps"),
            task_cycles: line.number("cycles_per_thread"),
            l1_misses: misses(1, "l1_misses"),
            l2_misses: misses(2, "l2_misses"),
        };
        match rows.last_mut() {
            Some(row) if row.cell == cell => row.measured[scheduler as usize] = measured,
            _ => {
                assert_eq!(scheduler, Scheduler::Fcfs, "FCFS comes first in each cell");
                rows.push(Row {
                    cell,
                    measured: [measured; 3],
                });
            }
        }
    }
    rows.sort_by_key(|row| row.cell);
    rows
}

/// Returns the row of [`HEADLINE`].
pub(crate) fn headline() -> Row {
    let row = table2().into_iter().find(|row| row.cell == HEADLINE);
    row.expect("Table 2 has it")
}

/// Returns the gains that the claim is about, in percent: of A in Table 3, of A and of B in the cell of [`HEADLINE`].
pub(crate) fn claimed() -> [f64; 3] {
    let ([fcfs, a], row) = (table3(), headline());
    [
        gain(fcfs.total_cycles, a.total_cycles),
        row.gain(Scheduler::A),
        row.gain(Scheduler::B),
    ]
}

/// A column of Table 3: the authors' simulator, one WVGA picture, 4 cores, 128 KB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Simulated {
    /// Cycles of the whole picture.
    pub(crate) total_cycles: f64,
    /// Mean cycles of a task.
    pub(crate) task_cycles: f64,
    /// Mean cycles of scheduling, a task.
    pub(crate) scheduling_cycles: f64,
    /// Share of the cores' time that tasks run, in percent.
    pub(crate) utilisation: f64,
    /// Misses of the L1 instruction caches, in percent of their accesses.
    pub(crate) l1i: f64,
    /// The same of the L1 data caches.
    pub(crate) l1d: f64,
    /// The same of the L2 cache.
    pub(crate) l2: f64,
}

/// Returns Table 3: FCFS and pattern A.
pub(crate) fn table3() -> [Simulated; 2] {
    let metrics: Vec<Line> = lines(TABLE3).collect();
    ["fcfs", "ts_a"].map(|policy| {
        let of = |metric: &str| {
            let line = metrics.iter().find(|line| line.text("metric") == metric);
            let line = line.unwrap_or_else(|| panic!("Table 3 has {metric}"));
            line.number(policy)
        };
        Simulated {
            total_cycles: of("total_cycles"),
            task_cycles: of("mean_thread_cycles"),
            scheduling_cycles: of("mean_scheduling_cycles"),
            utilisation: of("worker_utilisation_percent"),
            l1i: of("l1i_miss_rate_percent"),
            l1d: of("l1d_miss_rate_percent"),
            l2: of("l2_miss_rate_percent"),
        }
    })
}

fn named<V: Copy>(all: &[V], name: &str, of: impl Fn(V) -> &'static str) -> V {
    let found = all.iter().copied().find(|&one| of(one) == name);
    found.unwrap_or_else(|| panic!("{name} is unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_2_is_complete() {
        let rows = table2();
        assert_eq!(rows.len() * Scheduler::ALL.len(), 126);
        let of = |stream: Stream| rows.iter().filter(|row| row.cell.stream == stream).count();
        assert_eq!(Stream::ALL.map(of), [24, 6, 6, 6]);
        let calibrated = rows.iter().filter(|row| row.cell.stream.is_calibrated());
        assert_eq!(126 - 3 * calibrated.count(), 54);
        assert!(rows.windows(2).all(|pair| pair[0].cell < pair[1].cell));
    }

    #[test]
    fn the_paper_s_own_sentences_follow_from_its_tables() {
        assert_eq!(headline().of(Scheduler::Fcfs).fps, 22.10);
        for (claimed, printed) in claimed().into_iter().zip([10.96, 39.68, 49.73]) {
            assert!((claimed - printed).abs() < 0.01, "{claimed}, {printed}");
        }
        let [fcfs, a] = table3();
        let scheduling = a.scheduling_cycles / fcfs.scheduling_cycles - 1.0;
        assert!((scheduling * 100.0 - 15.08).abs() < 0.01);
    }

    #[test]
    fn misprints_are_left_out_and_nothing_else_is() {
        let rows = table2();
        let missing = rows.iter().flat_map(|row| &row.measured);
        let missing = missing
            .map(|one| usize::from(one.l1_misses.is_none()) + usize::from(one.l2_misses.is_none()));
        assert_eq!(missing.sum::<usize>(), MISPRINTS.len());
        // What remains differs by less than half from scheduler to scheduler of a cell; what was left out differs by more.
        for row in &rows {
            for level in [1, 2] {
                let of = |one: &Measured| {
                    if level == 1 {
                        one.l1_misses
                    } else {
                        one.l2_misses
                    }
                };
                let known: Vec<f64> = row.measured.iter().filter_map(of).collect();
                let largest = known.iter().copied().fold(0.0, f64::max);
                let least = known.iter().copied().fold(f64::MAX, f64::min);
                assert!(largest < 2.5 * least, "{} L{level}: {known:?}", row.cell);
                for wrong in MISPRINTS
                    .iter()
                    .filter(|one| (one.0, one.2) == (row.cell, level))
                {
                    let printed = wrong.3 as f64;
                    assert!(printed < 0.2 * least || printed > 5.0 * largest, "{wrong}");
                }
            }
        }
    }
}
