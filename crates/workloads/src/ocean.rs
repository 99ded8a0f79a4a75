//! Multigrid solution of an elliptic equation by red-black sweeps: `kernels/ocean.c` as tasks.
//!
//! A task takes a strip of rows of one grid through half a sweep, or through what leads from one grid to the next. It waits for
//! the strips beside it and not for a whole grid, so several half sweeps overlap. A T group is a phase; S groups are strips, and those of
//! coarser grids belong to the strips of the finest one that they cover.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Array, Doubles, Phased, Piece, Random, SEED, Tasks};
use crate::workload::{Description, RunError};
use std::ops::Range;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        "N",
        Kind::Count(2, 1 << 13),
        "Cells a side of the grid, a power of 2",
    )
    .default("512")
    .default_in_recordings("256"),
    OptionSpec::new("cycles", "N", Kind::Count(1, 1000), "V-cycles")
        .default("4")
        .default_in_recordings("2"),
    OptionSpec::new("strip", "N", Kind::Count(1, 1 << 13), "Rows of a strip").default("16"),
    SEED,
];

/// Sweeps before and after the coarser grid.
const SWEEPS: usize = 2;

const DOUBLE: usize = size_of::<f64>();

/// A grid of `cells` cells a side: rows and columns 0 and `cells` are the boundary, where u is 0.
struct Grid {
    cells: usize,
    u: Doubles,
    right: Doubles,
    rest: Doubles,
}

pub(crate) struct Ocean {
    cycles: usize,
    strip: usize,
    random: Random,
    grids: Vec<Grid>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Half a sweep, over the points of one colour.
    Smooth(usize),
    /// What the equation lacks on this grid.
    Rest,
    /// From the rest of the finer grid to the right side of this one.
    Restrict,
    /// From the solution of the coarser grid to this one.
    Correct,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    step: Step,
    level: usize,
    strip: usize,
}

impl Grid {
    fn new(cells: usize) -> Grid {
        let [u, right, rest] = [(); 3].map(|()| Doubles::new((cells + 1) * (cells + 1)));
        Grid {
            cells,
            u,
            right,
            rest,
        }
    }

    /// Returns the sum of the four neighbours of a point.
    #[inline]
    fn around(&self, at: usize) -> f64 {
        let (u, width) = (&self.u, self.cells + 1);
        (u.get(at - 1) + u.get(at + 1)) + (u.get(at - width) + u.get(at + width))
    }

    fn smooth(&self, rows: Range<usize>, colour: usize) {
        for row in rows {
            for column in (1 + ((row + colour) & 1)..self.cells).step_by(2) {
                let at = row * (self.cells + 1) + column;
                let value = 0.25 * (self.right.get(at) + self.around(at));
                self.u.set(at, value);
            }
        }
    }

    fn find_rest(&self, rows: Range<usize>) {
        for row in rows {
            for column in 1..self.cells {
                let at = row * (self.cells + 1) + column;
                let value = self.right.get(at) + self.around(at) - 4.0 * self.u.get(at);
                self.rest.set(at, value);
            }
        }
    }

    /// Sets the right side to the weighted rest of the finer grid, and u to 0. The weights are multiplied by 4, because the square of
    /// the step is a factor of the right side.
    fn restrict(&self, fine: &Grid, rows: Range<usize>) {
        let width = fine.cells + 1;
        let rest = |at: usize| fine.rest.get(at);
        for row in rows {
            for column in 1..self.cells {
                let at = 2 * row * width + 2 * column;
                let (above, below) = (at - width, at + width);
                let corners =
                    (rest(above - 1) + rest(above + 1)) + (rest(below - 1) + rest(below + 1));
                let sides = (rest(at - 1) + rest(at + 1)) + (rest(above) + rest(below));
                let here = row * (self.cells + 1) + column;
                self.right
                    .set(here, rest(at) + 0.5 * sides + 0.25 * corners);
                self.u.set(here, 0.0);
            }
        }
    }

    /// Adds the solution of the coarser grid, by linear interpolation.
    fn correct(&self, coarse: &Grid, rows: Range<usize>) {
        for row in rows {
            let [low, high] = [row / 2, row.div_ceil(2)].map(|row| row * (coarse.cells + 1));
            for column in 1..self.cells {
                let (left, right) = (column / 2, column.div_ceil(2));
                let sum = (coarse.u.get(low + left) + coarse.u.get(low + right))
                    + (coarse.u.get(high + left) + coarse.u.get(high + right));
                let at = row * (self.cells + 1) + column;
                self.u.set(at, self.u.get(at) + 0.25 * sum);
            }
        }
    }
}

/// The pieces of a grid, a strip each.
#[derive(Clone, Copy)]
struct Arrays {
    /// Of both colours.
    u: [Array; 2],
    right: Array,
    rest: Array,
}

impl Ocean {
    fn strips(&self, level: usize) -> usize {
        (self.grids[level].cells - 1).div_ceil(self.strip)
    }

    fn rows(&self, level: usize, strip: usize) -> Range<usize> {
        let first = 1 + strip * self.strip;
        first..(first + self.strip).min(self.grids[level].cells)
    }

    /// Returns these rows of an array's level, as parts of the strips that have them.
    fn parts(&self, array: Array, level: usize, rows: Range<usize>) -> impl Iterator<Item = Piece> {
        let cells = self.grids[level].cells;
        let (start, end) = (rows.start.max(1), rows.end.min(cells));
        let row_bytes = ((cells + 1) * DOUBLE) as u64;
        let strips = (start - 1) / self.strip..(end - 1).div_ceil(self.strip);
        strips.map(move |strip| {
            let own = self.rows(level, strip);
            let (from, to) = (own.start.max(start), own.end.min(end));
            Piece {
                offset: (from - own.start) as u64 * row_bytes,
                bytes: row_bytes,
                rows: (to - from) as u32,
                stride: row_bytes,
                ..array.piece(strip)
            }
        })
    }

    /// Declares the tasks of one step on one grid.
    fn declare_step(&self, tasks: &mut Tasks<Task>, all: &[Arrays], level: usize, step: Step) {
        let (name, operations) = match step {
            Step::Smooth(_) => ("smooth", 3),
            Step::Rest => ("rest", 6),
            Step::Restrict => ("restrict", 10),
            Step::Correct => ("correct", 5),
        };
        let phase = tasks.phase(name);
        let arrays = all[level];
        for strip in 0..self.strips(level) {
            let rows = self.rows(level, strip);
            let around = rows.start - 1..rows.end + 1;
            let groups = (phase, strip << level);
            let work = operations * rows.len() * self.grids[level].cells;
            let task = tasks.task(Task { step, level, strip }, groups, work);
            let own = |array| self.parts(array, level, rows.clone());
            match step {
                Step::Smooth(colour) => task
                    .read_all(own(arrays.right))
                    .read_all(self.parts(arrays.u[1 - colour], level, around))
                    .write_all(own(arrays.u[colour])),
                Step::Rest => task
                    .read_all(own(arrays.right))
                    .read_all(self.parts(arrays.u[0], level, around.clone()))
                    .read_all(self.parts(arrays.u[1], level, around))
                    .write_all(own(arrays.rest)),
                Step::Restrict => {
                    let fine = 2 * rows.start - 1..2 * rows.end;
                    task.read_all(self.parts(all[level - 1].rest, level - 1, fine))
                        .write_all(own(arrays.right))
                        .write_all(own(arrays.u[0]))
                        .write_all(own(arrays.u[1]))
                }
                Step::Correct => {
                    let coarse = rows.start / 2..rows.end.div_ceil(2) + 1;
                    let below = all[level + 1].u;
                    task.read_all(self.parts(below[0], level + 1, coarse.clone()))
                        .read_all(self.parts(below[1], level + 1, coarse))
                        .update_all(own(arrays.u[0]))
                        .update_all(own(arrays.u[1]))
                }
            };
        }
    }

    fn declare_cycle(&self, tasks: &mut Tasks<Task>, all: &[Arrays], level: usize) {
        let smooth = |tasks: &mut Tasks<Task>| {
            for half in 0..2 * SWEEPS {
                self.declare_step(tasks, all, level, Step::Smooth(half % 2));
            }
        };
        smooth(tasks);
        if level + 1 < self.grids.len() {
            self.declare_step(tasks, all, level, Step::Rest);
            self.declare_step(tasks, all, level + 1, Step::Restrict);
            self.declare_cycle(tasks, all, level + 1);
            self.declare_step(tasks, all, level, Step::Correct);
            smooth(tasks);
        }
    }
}

impl Phased for Ocean {
    const DESCRIPTION: &'static Description = &Description {
        name: "ocean",
        about: "Multigrid solver with red-black sweeps",
        details: "The solver that dominates SPLASH-2's Ocean, of which there is a program with POSIX threads too. The \
        coarse grids have little work and many barriers.",
        options: OPTIONS,
        test_options: &[("size", "32"), ("strip", "5"), ("cycles", "2")],
    };
    const RECORDED: bool = true;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        let (size, strip) = (values.count("size"), values.count("strip"));
        4 * size * size * DOUBLE as u64 + values.count("cycles") * (size.div_ceil(strip)) * 10_000
    }

    fn new(values: &Values, _workers: u16) -> Result<Self, RunError> {
        let size = values.count("size") as usize;
        if !size.is_power_of_two() {
            let message = format!("--size {size} is no power of 2");
            return Err(RunError::Input(message));
        }
        let levels = 0..size.ilog2();
        Ok(Ocean {
            cycles: values.count("cycles") as usize,
            strip: values.count("strip") as usize,
            random: Random::new(values.count(SEED.flag)),
            grids: levels.map(|level| Grid::new(size >> level)).collect(),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let arrays = (0..self.grids.len()).map(|level| {
            let strips = self.strips(level);
            let bytes = (self.strip * (self.grids[level].cells + 1) * DOUBLE) as u64;
            let [u, right, rest] = [(); 3].map(|()| tasks.array(strips, bytes));
            let u = [u, u.view(tasks)];
            Arrays { u, right, rest }
        });
        let arrays: Vec<Arrays> = arrays.collect();
        for _ in 0..self.cycles {
            self.declare_cycle(tasks, &arrays, 0);
        }
    }

    /// The right side is that of u = x (1 - x) y (1 - y); the first guess is random.
    fn reset(&self) {
        let grid = &self.grids[0];
        let step = 1.0 / grid.cells as f64;
        for row in 1..grid.cells {
            for column in 1..grid.cells {
                let at = row * (grid.cells + 1) + column;
                let [x, y] = [column, row].map(|at| at as f64 * step);
                grid.u.set(at, self.random.unit(at as u64) - 0.5);
                let right = 2.0 * (x * (1.0 - x) + y * (1.0 - y)) * (step * step);
                grid.right.set(at, right);
            }
        }
    }

    fn run(&self, Task { step, level, strip }: Task) {
        let (grid, rows) = (&self.grids[level], self.rows(level, strip));
        match step {
            Step::Smooth(colour) => grid.smooth(rows, colour),
            Step::Rest => grid.find_rest(rows),
            Step::Restrict => grid.restrict(&self.grids[level - 1], rows),
            Step::Correct => grid.correct(&self.grids[level + 1], rows),
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        let grid = &self.grids[0];
        for row in 1..grid.cells {
            for column in 1..grid.cells {
                word(grid.u.get(row * (grid.cells + 1) + column).to_bits());
            }
        }
    }
}
