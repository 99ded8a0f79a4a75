//! LU factorisation without pivoting, in blocks: `kernels/lu.c` as tasks.
//!
//! A task is one block of one step: the diagonal block is factored, the blocks of its column and row (the perimeter) are divided by it,
//! and the blocks to the right and below (the interior) lose the product of two perimeter blocks. Dependencies replace the barriers
//! between diagonal, perimeter and interior, so a step begins while the one before still ends. A T group is a step; an S group is the
//! scatter of blocks over a grid of workers, as the C program has it for threads.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Phased, Pieces, Random, SEED, Tasks};
use crate::workload::{Description, RunError};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        "N",
        Kind::Count(1, 1 << 14),
        "Rows of the matrix, a multiple of the block",
    )
    .default("512")
    .default_in_recordings("256"),
    OptionSpec::new("block", "N", Kind::Count(1, 256), "Rows of a block").default("32"),
    SEED,
];

pub(crate) struct Lu {
    size: usize,
    block: usize,
    /// Blocks along a side.
    blocks: usize,
    /// Rows and columns of the grid of workers.
    grid: (usize, usize),
    random: Random,
    /// Block (i, j) is piece `i + j * blocks`; a block is stored by columns.
    matrix: Pieces<Vec<f64>>,
}

/// What a task does, by the row and column of its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Factor(usize),
    /// Block (i, k) of the diagonal block's column.
    Column(usize, usize),
    /// Block (k, j) of the diagonal block's row.
    Row(usize, usize),
    /// Block (i, j) in step k.
    Interior(usize, usize, usize),
}

/// `y -= alpha x`
#[inline]
fn subtract_multiple(y: &mut [f64], x: &[f64], alpha: f64) {
    for (y, x) in y.iter_mut().zip(x) {
        *y -= alpha * x;
    }
}

/// Returns columns `j` and `k` of a block, of which `k` comes first.
fn columns(a: &mut [f64], block: usize, k: usize, j: usize) -> (&[f64], &mut [f64]) {
    let (before, from) = a.split_at_mut(j * block);
    (&before[k * block..][..block], &mut from[..block])
}

fn factor(a: &mut [f64], block: usize) {
    for k in 0..block {
        for j in k + 1..block {
            let (x, y) = columns(a, block, k, j);
            y[k] /= x[k];
            let alpha = y[k];
            subtract_multiple(&mut y[k + 1..], &x[k + 1..], alpha);
        }
    }
}

fn divide_by_upper(a: &mut [f64], diagonal: &[f64], block: usize) {
    for k in 0..block {
        for j in k + 1..block {
            let (x, y) = columns(a, block, k, j);
            subtract_multiple(y, x, diagonal[k + j * block]);
        }
    }
}

fn divide_by_lower(a: &mut [f64], diagonal: &[f64], block: usize) {
    for k in 0..block {
        let x = &diagonal[k * block..][..block];
        for y in a.chunks_exact_mut(block) {
            y[k] /= x[k];
            let alpha = y[k];
            subtract_multiple(&mut y[k + 1..], &x[k + 1..], alpha);
        }
    }
}

/// `c -= a b`
fn subtract_product(c: &mut [f64], a: &[f64], b: &[f64], block: usize) {
    for (y, b) in c.chunks_exact_mut(block).zip(b.chunks_exact(block)) {
        for (x, &alpha) in a.chunks_exact(block).zip(b) {
            subtract_multiple(y, x, alpha);
        }
    }
}

impl Lu {
    fn owner(&self, i: usize, j: usize) -> usize {
        i % self.grid.0 + j % self.grid.1 * self.grid.0
    }

    fn place(&self, i: usize, j: usize) -> usize {
        i + j * self.blocks
    }
}

impl Phased for Lu {
    const DESCRIPTION: &'static Description = &Description {
        name: "lu",
        about: "Blocked LU factorisation of a dense matrix, without pivoting",
        details: "After SPLASH-2's kernel LU, of which there is a program with POSIX threads too. Blocks that are \
        updated in one step are used again in the next; groups say which.",
        options: OPTIONS,
        test_options: &[("size", "96"), ("block", "16")],
    };
    const RECORDED: bool = true;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        let (size, block) = (values.count("size"), values.count("block"));
        let blocks = size.div_ceil(block);
        size * size * 8 + blocks * blocks * blocks * 100
    }

    fn new(values: &Values, workers: u16) -> Result<Self, RunError> {
        let (size, block) = (values.count("size"), values.count("block"));
        let (size, block) = (size as usize, block as usize);
        if !size.is_multiple_of(block) {
            let message = format!("--size {size} is no multiple of --block {block}");
            return Err(RunError::Input(message));
        }
        let (blocks, workers) = (size / block, usize::from(workers));
        let rows = (1..=workers.isqrt()).rev();
        let rows = rows.clone().find(|rows| workers.is_multiple_of(*rows));
        let rows = rows.unwrap_or(1);
        Ok(Lu {
            size,
            block,
            blocks,
            grid: (rows, workers / rows),
            random: Random::new(values.count(SEED.flag)),
            matrix: Pieces::new(blocks * blocks, |_| vec![0.0; block * block]),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let cube = self.block * self.block * self.block;
        let matrix = tasks.array(self.matrix.len(), (self.block * self.block * 8) as u64);
        let piece = |i, j| matrix.piece(self.place(i, j));
        for k in 0..self.blocks {
            tasks.phase("diagonal");
            let groups = |i, j| (k, self.owner(i, j));
            tasks
                .task(Task::Factor(k), groups(k, k), 2 * cube / 3)
                .update(piece(k, k));
            tasks.phase("perimeter");
            for i in k + 1..self.blocks {
                let mut divide = |task, i, j| {
                    let task = tasks.task(task, groups(i, j), cube);
                    task.read(piece(k, k)).update(piece(i, j));
                };
                divide(Task::Column(i, k), i, k);
                divide(Task::Row(k, i), k, i);
            }
            tasks.phase("interior");
            for i in k + 1..self.blocks {
                for j in k + 1..self.blocks {
                    let task = tasks.task(Task::Interior(i, j, k), groups(i, j), 2 * cube);
                    let task = task.read(piece(i, k)).read(piece(k, j));
                    task.update(piece(i, j));
                }
            }
        }
    }

    fn reset(&self) {
        for at in 0..self.matrix.len() {
            let (i, j) = (at % self.blocks * self.block, at / self.blocks * self.block);
            for (place, element) in self.matrix.write(at).iter_mut().enumerate() {
                let (i, j) = (i + place % self.block, j + place / self.block);
                let number = self.random.unit((j * self.size + i) as u64);
                // The diagonal outweighs its row, so no pivot is small.
                *element = number + if i == j { self.size as f64 } else { 0.0 };
            }
        }
    }

    fn run(&self, task: Task) {
        let (matrix, block) = (&self.matrix, self.block);
        let place = |i, j| self.place(i, j);
        match task {
            Task::Factor(k) => factor(&mut matrix.write(place(k, k)), block),
            Task::Column(i, k) => {
                let diagonal = matrix.read(place(k, k));
                divide_by_upper(&mut matrix.write(place(i, k)), &diagonal, block);
            }
            Task::Row(k, j) => {
                let diagonal = matrix.read(place(k, k));
                divide_by_lower(&mut matrix.write(place(k, j)), &diagonal, block);
            }
            Task::Interior(i, j, k) => {
                let (a, b) = (matrix.read(place(i, k)), matrix.read(place(k, j)));
                subtract_product(&mut matrix.write(place(i, j)), &a, &b, block);
            }
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        for j in 0..self.size {
            for i in 0..self.blocks {
                let block = self.matrix.read(self.place(i, j / self.block));
                let column = &block[j % self.block * self.block..][..self.block];
                column.iter().for_each(|element| word(element.to_bits()));
            }
        }
    }
}
