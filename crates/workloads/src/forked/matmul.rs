//! The product of two matrices of floats, by recursion: the program of paper 5, section 2.3.
//!
//! The longest of the three dimensions is halved: rows or columns of the result are two parts that may run at the same time, the inner
//! dimension two parts one after the other. (Of equal ones rows come first, then columns.) A leaf multiplies blocks of 32 x 32.
//!
//! The elements of a block lie side by side, row by row, as cache-oblivious programs store them; blocks of A and B lie row by row, those of
//! C in the order in which the recursion comes to them, so that each part has a stretch of them. In the sparse variant A is lower
//! triangular, and half of its blocks there are zero; products with a zero block are left out. So parts of equal size have unequal work.

use super::workload::{CLOSURES, ITERATIONS, Registered};
use super::{Forked, Part, Touches};
use crate::options::{Kind, OptionSpec, Values};
use crate::vector::{Kernel, vectorised};
use crate::workload::Description;

/// Rows and columns of a block.
const BLOCK: usize = 32;

/// Elements of a block.
const AREA: usize = BLOCK * BLOCK;

/// Bytes of a block.
const BYTES: u64 = (AREA * size_of::<f32>()) as u64;

/// Rows of a block that a leaf finishes at a time.
const ROWS: usize = 4;

/// A block's elements, row by row.
pub(super) type Block = [f32; AREA];

/// Which blocks of the first factor are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrices {
    /// None.
    Dense,
    /// All above the diagonal, and half of the others.
    Sparse,
}

const SIZE: OptionSpec = OptionSpec::new(
    "size",
    "N",
    Kind::Count(1, 1 << 14),
    "Rows and columns of the matrices, rounded up to whole blocks of 32",
)
.default("768");

const SPARSE: OptionSpec = OptionSpec::new(
    "sparse",
    "",
    Kind::Switch,
    "The first factor is lower triangular, and half of its blocks there are zero",
);

/// The program.
#[derive(Debug)]
pub struct Matmul {
    /// Rows and columns of C, and the inner dimension, in blocks.
    sides: [usize; 3],
    a: Vec<Block>,
    b: Vec<Block>,
    /// Of each block of A: whether it is zero.
    zero: Vec<bool>,
    /// Of each block of C, in the order of the recursion: its row and column.
    places: Vec<(usize, usize)>,
    /// Thousandths of cycles that the product of two blocks computes.
    millis: u64,
}

/// A part of the product: rows and columns of C, and the inner dimension, in blocks; each from, up to.
type Node = [(usize, usize); 3];

const ARRAY_A: u16 = 0;
const ARRAY_B: u16 = 1;
const ARRAY_C: u16 = 2;

/// Cycles for which the product of two blocks computes beside its accesses, in a recording: 2 x 32^3 operations, of which a core of the
/// paper's machine does at most 8 a cycle (563.2 GFLOPS / 32 cores / 2.2 GHz), at three quarters of that. The quarter is an estimate.
pub(super) const CYCLES: u64 = 2 * (BLOCK * AREA) as u64 / 6;

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a block of small whole numbers, so that sums are exact in any order.
fn block(number: u64) -> Block {
    std::array::from_fn(|at| (mixed(number << 10 | at as u64) % 7) as f32 - 3.0)
}

/// Adds the product of two blocks to a third one, some rows at a time.
struct Product<'a> {
    a: &'a Block,
    b: &'a Block,
    c: &'a mut Block,
}

impl Kernel for Product<'_> {
    #[inline(always)]
    fn run(self) {
        let (rows, _) = self.c.as_chunks_mut::<BLOCK>();
        let (a, _) = self.a.as_chunks::<BLOCK>();
        let (b, _) = self.b.as_chunks::<BLOCK>();
        for (c, a) in rows.iter_mut().zip(a) {
            for (factor, b) in a.iter().zip(b) {
                for (sum, element) in c.iter_mut().zip(b) {
                    *sum += factor * element;
                }
            }
        }
    }
}

impl Matmul {
    /// Returns the product of two matrices of `size` rows and columns, rounded up to whole blocks; at least one.
    pub fn new(size: usize, matrices: Matrices) -> Matmul {
        Matmul::of([size; 3], matrices)
    }

    /// Returns the product of two matrices, of which `sizes` are the rows and columns of the product, and the inner dimension; all
    /// rounded up to whole blocks.
    pub fn of(sizes: [usize; 3], matrices: Matrices) -> Matmul {
        let sides = sizes.map(|size| size.div_ceil(BLOCK).max(1));
        let [rows, columns, inner] = sides;
        let count = (rows * inner) as u64;
        let is_zero = |at: u64| {
            let (row, column) = (at as usize / inner, at as usize % inner);
            // The diagonal is never zero, so no part of C is without work.
            column > row || (column < row && mixed(!at).is_multiple_of(2))
        };
        let zero: Vec<bool> = match matrices {
            Matrices::Dense => vec![false; count as usize],
            Matrices::Sparse => (0..count).map(is_zero).collect(),
        };
        let a = (0..count).map(|at| match zero[at as usize] {
            true => [0.0; AREA],
            false => block(at),
        });
        let mut matmul = Matmul {
            sides,
            a: a.collect(),
            b: (0..(inner * columns) as u64)
                .map(|at| block(count + at))
                .collect(),
            zero,
            places: Vec::new(),
            millis: CYCLES * 1000,
        };
        matmul.places = matmul.order();
        matmul
    }

    /// Returns the blocks of C in the order of the recursion.
    fn order(&self) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        let mut left = vec![self.root()];
        while let Some(node) = left.pop() {
            match self.part(node) {
                Part::Leaf => places.push((node[0].0, node[1].0)),
                Part::Then(one, _) => left.push(one),
                Part::Fork(one, other) => left.extend([other, one]),
            }
        }
        places
    }

    /// Returns the number of columns of the product.
    pub(super) fn columns(&self) -> usize {
        self.sides[1] * BLOCK
    }

    /// Returns the elements of the product row by row; `blocks` are the items of a run.
    pub fn elements(&self, blocks: &[[f32; AREA]]) -> Vec<f32> {
        let width = self.columns();
        let mut all = vec![0.0; self.sides[0] * BLOCK * width];
        for (&(row, column), block) in self.places.iter().zip(blocks) {
            for (number, line) in block.chunks(BLOCK).enumerate() {
                let from = (row * BLOCK + number) * width + column * BLOCK;
                all[from..from + BLOCK].copy_from_slice(line);
            }
        }
        all
    }

    /// Returns the product row by row, computed by three loops over the elements.
    pub fn by_loops(&self) -> Vec<f32> {
        let [rows, columns, inner] = self.sides;
        let element = |blocks: &[Block], side: usize, row: usize, column: usize| {
            let at = row / BLOCK * side + column / BLOCK;
            blocks[at][row % BLOCK * BLOCK + column % BLOCK]
        };
        let width = columns * BLOCK;
        let mut all = vec![0.0; rows * BLOCK * width];
        for row in 0..rows * BLOCK {
            for at in 0..inner * BLOCK {
                let factor = element(&self.a, inner, row, at);
                let sums = &mut all[row * width..(row + 1) * width];
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += factor * element(&self.b, columns, at, column);
                }
            }
        }
        all
    }
}

fn length((from, to): (usize, usize)) -> usize {
    to - from
}

impl Registered for Matmul {
    const DESCRIPTION: &'static Description = &Description {
        name: "matmul",
        about: "Recursive product of two matrices, as nested forks",
        details: "The program of paper 5: the longest dimension is halved down to blocks of 32 x 32. Halves of rows and \
        columns are the two closures of a fork, so the policies of forks (adws, random, near-first and others) decide where they run. \
        Each iteration adds the product to the same matrix.",
        options: &[SIZE, SPARSE, ITERATIONS, CLOSURES],
        test_options: &[("size", "160"), ("iterations", "2")],
    };
    const PART: &'static str = "row";

    fn bytes(values: &Values) -> u64 {
        let side = values.count(SIZE.flag).next_multiple_of(32);
        // Three matrices, and the result row by row.
        4 * side * side * size_of::<f32>() as u64
    }

    fn new(values: &Values) -> Self {
        let matrices = match values.switch(SPARSE.flag) {
            true => Matrices::Sparse,
            false => Matrices::Dense,
        };
        Matmul::new(values.count(SIZE.flag) as usize, matrices)
    }

    fn input(values: &Values) -> String {
        let sparse = if values.switch(SPARSE.flag) {
            ",sparse"
        } else {
            ""
        };
        format!("size={}{sparse}", values.count(SIZE.flag))
    }

    fn result(&self, items: &[Self::Item]) -> (Vec<f32>, usize) {
        (self.elements(items), self.columns())
    }
}

impl Forked for Matmul {
    type Node = Node;
    type Item = [f32; AREA];

    const LEAF: &'static str = "product";

    fn root(&self) -> Node {
        self.sides.map(|side| (0, side))
    }

    fn part(&self, node: Node) -> Part<Node> {
        let longest = node.map(length).into_iter().max().unwrap_or(0);
        if longest == 1 {
            return Part::Leaf;
        }
        let dimension = node.iter().position(|&one| length(one) == longest);
        let dimension = dimension.expect("one of them is the longest");
        let (from, to) = node[dimension];
        let middle = from + longest / 2;
        let (mut one, mut other) = (node, node);
        (one[dimension], other[dimension]) = ((from, middle), (middle, to));
        match dimension {
            2 => Part::Then(one, other),
            _ => Part::Fork(one, other),
        }
    }

    fn work(&self, node: Node) -> u64 {
        let [rows, columns, inner] = node;
        let side = self.sides[2];
        let of_row = |row: usize| &self.zero[row * side + inner.0..row * side + inner.1];
        let products = (rows.0..rows.1).flat_map(of_row).filter(|&&zero| !zero);
        products.count() as u64 * length(columns) as u64
    }

    fn owns(&self, node: Node) -> usize {
        length(node[0]) * length(node[1])
    }

    fn leaf<T: Touches>(&self, node: Node, own: &mut [Block], first: usize, touches: &mut T) {
        let [(row, _), (column, _), (inner, _)] = node;
        let [_, columns, depth] = self.sides;
        let (a, b) = (row * depth + inner, inner * columns + column);
        vectorised(Product {
            a: &self.a[a],
            b: &self.b[b],
            c: &mut own[0],
        });
        let rows = (BYTES as usize / BLOCK * ROWS) as u32;
        for step in 0..(BLOCK / ROWS) as u64 {
            let offset = |block: usize| block as u64 * BYTES + step * u64::from(rows);
            touches.read(ARRAY_A, offset(a), rows);
            if step == 0 {
                touches.read(ARRAY_B, b as u64 * BYTES, BYTES as u32);
            }
            touches.read(ARRAY_C, offset(first), rows);
            touches.compute(self.millis * ROWS as u64 / BLOCK as u64);
            touches.write(ARRAY_C, offset(first), rows);
        }
    }

    fn arrays(&self) -> Vec<u64> {
        let [rows, columns, inner] = self.sides;
        let blocks = [rows * inner, inner * columns, rows * columns];
        blocks.map(|blocks| blocks as u64 * BYTES).to_vec()
    }

    fn items(&self) -> Vec<Block> {
        vec![[0.0; AREA]; self.sides[0] * self.sides[1]]
    }
}
