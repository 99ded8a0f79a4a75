//! Matrices in blocks, and the recursion over them.

use std::ops::Range;
use std::sync::Mutex;

/// Rows and columns of a block.
const SIDE: usize = 32;

/// A square matrix of blocks, row by row.
pub(crate) struct Matrix {
    blocks: usize,
    values: Vec<Mutex<[f32; SIDE * SIDE]>>,
}

impl Matrix {
    /// Returns a matrix of small whole numbers, whose products and sums are exact.
    pub(crate) fn counting(rows: usize, step: usize) -> Self {
        let blocks = rows.div_ceil(SIDE);
        let block =
            |number: usize| Mutex::new(std::array::from_fn(|at| ((number + at * step) % 7) as f32));
        Matrix {
            blocks,
            values: (0..blocks * blocks).map(block).collect(),
        }
    }

    fn block(&self, row: usize, column: usize) -> &Mutex<[f32; SIDE * SIDE]> {
        &self.values[row * self.blocks + column]
    }
}

/// A part of a product, in blocks: rows of the result, its columns, and the side that is summed over.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
    inner: Range<usize>,
}

/// What a part is split into.
pub(crate) enum Split {
    /// One block of each.
    Leaf,
    /// Two parts that may run at the same time.
    Parallel(Part, Part),
    /// Two parts, the first of which runs before the second.
    Sequence(Part, Part),
}

/// Two matrices and their product.
pub(crate) struct Product<'m> {
    a: &'m Matrix,
    b: &'m Matrix,
    c: Matrix,
}

impl<'m> Product<'m> {
    /// Returns the product of two matrices of one size, all zeros so far.
    pub(crate) fn of(a: &'m Matrix, b: &'m Matrix) -> Self {
        let values = (0..a.values.len()).map(|_| Mutex::new([0.0; SIDE * SIDE]));
        let c = Matrix {
            blocks: a.blocks,
            values: values.collect(),
        };
        Product { a, b, c }
    }

    /// Returns all of it as a part.
    pub(crate) fn whole(&self) -> Part {
        let all = 0..self.c.blocks;
        Part {
            rows: all.clone(),
            columns: all.clone(),
            inner: all,
        }
    }

    /// Returns the halves of the longest side of `part`.
    pub(crate) fn split(&self, part: &Part) -> Split {
        let halves = |side: &Range<usize>| {
            let middle = side.start + side.len() / 2;
            (side.start..middle, middle..side.end)
        };
        let (rows, columns, inner) = (part.rows.len(), part.columns.len(), part.inner.len());
        let part = part.clone();
        if rows.max(columns).max(inner) == 1 {
            Split::Leaf
        } else if rows >= columns && rows >= inner {
            let (first, second) = halves(&part.rows);
            let first = Part {
                rows: first,
                ..part.clone()
            };
            Split::Parallel(
                first,
                Part {
                    rows: second,
                    ..part
                },
            )
        } else if columns >= inner {
            let (first, second) = halves(&part.columns);
            let first = Part {
                columns: first,
                ..part.clone()
            };
            Split::Parallel(
                first,
                Part {
                    columns: second,
                    ..part
                },
            )
        } else {
            let (first, second) = halves(&part.inner);
            let first = Part {
                inner: first,
                ..part.clone()
            };
            Split::Sequence(
                first,
                Part {
                    inner: second,
                    ..part
                },
            )
        }
    }

    /// Adds the product of two blocks to one of the result.
    pub(crate) fn leaf(&self, part: &Part) {
        let (row, column, inner) = (part.rows.start, part.columns.start, part.inner.start);
        let lock =
            |matrix: &'_ Matrix, row, column| *matrix.block(row, column).lock().expect("no panic");
        let (a, b) = (lock(self.a, row, inner), lock(self.b, inner, column));
        let mut c = self.c.block(row, column).lock().expect("no panic");
        for i in 0..SIDE {
            for k in 0..SIDE {
                let factor = a[i * SIDE + k];
                for j in 0..SIDE {
                    c[i * SIDE + j] += factor * b[k * SIDE + j];
                }
            }
        }
    }

    /// Runs a part on this thread alone.
    pub(crate) fn run_serial(&self, part: &Part) {
        match self.split(part) {
            Split::Leaf => self.leaf(part),
            Split::Parallel(first, second) | Split::Sequence(first, second) => {
                self.run_serial(&first);
                self.run_serial(&second);
            }
        }
    }

    /// Returns the product, computed by one thread.
    pub(crate) fn serial(&self) -> Vec<f32> {
        self.run_serial(&self.whole());
        self.result()
    }

    /// Returns what the product is so far.
    pub(crate) fn result(&self) -> Vec<f32> {
        let blocks = self.c.values.iter();
        blocks
            .flat_map(|block| *block.lock().expect("no panic"))
            .collect()
    }
}
