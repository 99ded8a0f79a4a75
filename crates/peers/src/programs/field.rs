//! The two fields of a stencil, with a border of zeros.

use super::Swept;
use crate::native;
use std::time::Instant;

/// Points from the end of a row to the next: a border at either side, and padding so that rows begin at cache lines of their own.
const PADDING: usize = 32;

/// Points of a side, and from row to row.
pub(crate) type Shape = (usize, usize);

/// Square fields of points, row by row, each row with a border.
pub(crate) struct Field {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    buffers: [Vec<f32>; 2],
}

impl Field {
    /// Returns the fields that every peer begins with: a sawtooth in both directions, and zeros.
    pub(crate) fn new(size: usize) -> Field {
        let stride = size.next_multiple_of(16) + PADDING;
        let first = vec![0.0; stride * (size + 2)];
        let mut field = Field {
            size,
            stride,
            buffers: [first.clone(), first],
        };
        for y in 0..size {
            let start = field.start(y);
            for (x, point) in field.buffers[0][start..start + size].iter_mut().enumerate() {
                *point = ((x * 7 + y * 13) % 101) as f32;
            }
        }
        // The system allocates a page at its first write, which must not be timed.
        field.buffers[1]
            .iter_mut()
            .for_each(|point| *point = std::hint::black_box(0.0));
        field
    }

    /// Returns the index of the first point of row `y`.
    pub(crate) fn start(&self, y: usize) -> usize {
        (y + 1) * self.stride + PADDING / 2
    }

    /// Calls `run`, which does `sweeps` sweeps, and returns its time and the checksum of the last field.
    pub(crate) fn swept(mut self, sweeps: u32, run: impl FnOnce(&mut Field, u32)) -> Swept {
        let start = Instant::now();
        run(&mut self, sweeps);
        let seconds = start.elapsed().as_secs_f64();
        let last = &self.buffers[sweeps as usize % 2];
        let rows = (0..self.size).map(|y| &last[self.start(y)..self.start(y) + self.size]);
        Swept {
            seconds,
            checksum: Checksum::of(rows),
        }
    }

    /// Calls `sweep` `sweeps` times, with one field to read and the rows of the other to write.
    pub(crate) fn each_sweep(
        &mut self,
        sweeps: u32,
        mut sweep: impl FnMut(Shape, &[f32], &mut [f32]),
    ) {
        for _ in 0..sweeps {
            let [from, to] = &mut self.buffers;
            // The rows of points, without the border's above and below.
            let rows = self.stride..self.stride * (self.size + 1);
            sweep((self.size, self.stride), from, &mut to[rows]);
            self.buffers.swap(0, 1);
        }
        if sweeps % 2 == 1 {
            self.buffers.swap(0, 1);
        }
    }

    /// Returns both fields, the first of which holds the initial values.
    pub(crate) fn both(&mut self) -> [&mut [f32]; 2] {
        let [a, b] = &mut self.buffers;
        [a, b]
    }
}

/// Sets consecutive rows of a field, of which `first` is the first; `to` holds them alone, `from` is a whole field.
pub(crate) fn sweep_rows((size, stride): Shape, from: &[f32], first: usize, to: &mut [f32]) {
    for (at, row) in to.chunks_exact_mut(stride).enumerate() {
        let y = first + at;
        let line = |y: usize| &from[y * stride + PADDING / 2 - 1..][..size + 2];
        native::stencil_row(
            &mut row[PADDING / 2..][..size],
            line(y),
            line(y + 1),
            line(y + 2),
        );
    }
}

/// A sum over the bits of points that depends on their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksum(pub(crate) u64);

impl Checksum {
    /// Adds the next row.
    pub(crate) fn add(&mut self, row: &[f32]) {
        let of_row = row.iter().fold(0u64, |sum, point| {
            sum.wrapping_mul(31)
                .wrapping_add(u64::from(point.to_bits()))
        });
        self.0 = self.0.rotate_left(5) ^ of_row;
    }

    /// Returns the sum of all rows.
    fn of<'a>(rows: impl Iterator<Item = &'a [f32]>) -> u64 {
        let mut sum = Checksum::default();
        rows.for_each(|row| sum.add(row));
        sum.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by the book, in a plain square.
    fn by_the_book(size: usize, sweeps: u32) -> u64 {
        let mut field: Vec<Vec<f32>> = (0..size)
            .map(|y| (0..size).map(|x| ((x * 7 + y * 13) % 101) as f32).collect())
            .collect();
        for _ in 0..sweeps {
            let at = |x: isize, y: isize| {
                let inside = (0..size as isize).contains(&x) && (0..size as isize).contains(&y);
                if inside {
                    field[y as usize][x as usize]
                } else {
                    0.0
                }
            };
            let point = |x: usize, y: usize| {
                let (x, y) = (x as isize, y as isize);
                0.5 * at(x, y)
                    + 0.125 * ((at(x, y - 1) + at(x, y + 1)) + (at(x - 1, y) + at(x + 1, y)))
            };
            field = (0..size)
                .map(|y| (0..size).map(|x| point(x, y)).collect())
                .collect();
        }
        Checksum::of(field.iter().map(Vec::as_slice))
    }

    #[test]
    fn the_plain_loop_is_the_formula() {
        for (size, sweeps) in [(1, 1), (5, 2), (37, 7)] {
            let mut plain = super::super::Serial;
            let swept = super::super::Program::stencil(&mut plain, size, sweeps).expect("it runs");
            assert_eq!(
                swept.checksum,
                by_the_book(size, sweeps),
                "{size}, {sweeps}"
            );
        }
    }
}
