//! Clause 8.3: intra prediction.

use super::Place;
use super::transform::add_row;
use crate::job::{AVAILABLE_LEFT, AVAILABLE_TOP, AVAILABLE_TOP_LEFT, AVAILABLE_TOP_RIGHT};
use crate::macroblock::RASTER;
use crate::probe::{Operation, Probe, Table};

/// The samples of a luma macroblock and around it: row 0 is above it, column 7 left of it.
type Window = [[u8; 32]; 17];
/// The column of the window in which the macroblock begins.
const LEFT: usize = 8;

/// By luma4x4BlkIdx, one bit: set if the upper right neighbour is in this macroblock and decoded earlier.
const HAS_INNER_TOP_RIGHT: u16 = 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 14;

fn average2(a: u8, b: u8) -> u8 {
    (u16::from(a) + u16::from(b)).div_ceil(2) as u8
}

fn average3(a: u8, b: u8, c: u8) -> u8 {
    ((u16::from(a) + 2 * u16::from(b) + u16::from(c) + 2) >> 2) as u8
}

/// Predicts a 4x4 block. `e` has the neighbours from the lower left one upwards and then to the right: the left column from below (0..4),
/// the corner (4), the row above (5..9), the row above right (9..13).
fn predict_4x4(mode: u8, e: &[u8; 13], dc: u8) -> [[u8; 4]; 4] {
    let mut out = [[0; 4]; 4];
    let mut each = |f: &dyn Fn(usize, usize) -> u8| {
        for (y, row) in out.iter_mut().enumerate() {
            for (x, sample) in row.iter_mut().enumerate() {
                *sample = f(x, y);
            }
        }
    };
    let smooth = |i: usize| average3(e[i - 1], e[i], e[i + 1]);
    match mode {
        0 => each(&|x, _| e[5 + x]),
        1 => each(&|_, y| e[3 - y]),
        2 => each(&|_, _| dc),
        // Diagonal down left.
        3 => each(&|x, y| {
            if x + y == 6 {
                average3(e[11], e[12], e[12])
            } else {
                smooth(6 + x + y)
            }
        }),
        // Diagonal down right.
        4 => each(&|x, y| smooth(4 + x - y)),
        // Vertical right.
        5 => each(&|x, y| match (2 * x + 4 - y, y / 2) {
            (z, half) if z >= 4 && z % 2 == 0 => average2(e[4 + x - half], e[5 + x - half]),
            (z, half) if z >= 4 => smooth(4 + x - half),
            (3, _) => smooth(4),
            _ => smooth(5 - y),
        }),
        // Horizontal down.
        6 => each(&|x, y| match (2 * y + 4 - x, x / 2) {
            (z, half) if z >= 4 && z % 2 == 0 => average2(e[4 + half - y], e[3 + half - y]),
            (z, half) if z >= 4 => smooth(4 + half - y),
            (3, _) => smooth(4),
            _ => smooth(3 + x),
        }),
        // Vertical left.
        7 => each(&|x, y| {
            let i = 5 + x + y / 2;
            if y % 2 == 0 {
                average2(e[i], e[i + 1])
            } else {
                smooth(i + 1)
            }
        }),
        // Horizontal up.
        _ => each(&|x, y| match (x + 2 * y, y + x / 2) {
            (6.., _) => e[0],
            (5, _) => average3(e[1], e[0], e[0]),
            (z, i) if z % 2 == 0 => average2(e[3 - i], e[2 - i]),
            (_, i) => smooth(2 - i),
        }),
    }
    out
}

/// Returns the sum and the number of `samples`; zeros if they are not available.
fn sum(samples: &[u8], available: bool) -> (u32, u32) {
    if available {
        (
            samples.iter().map(|&s| u32::from(s)).sum(),
            samples.len() as u32,
        )
    } else {
        (0, 0)
    }
}

/// Returns the rounded mean of two groups (sum, number); 128 if both are empty. Non-empty groups have equal lengths, a power of two.
fn mean(a: (u32, u32), b: (u32, u32)) -> u8 {
    match a.1 + b.1 {
        0 => 128,
        count => ((a.0 + b.0 + count / 2) / count) as u8,
    }
}

/// Fills row 0 and column 7 of the window with the available neighbours.
fn load_window<P: Probe>(place: &Place<'_>, window: &mut Window, probe: &mut P) {
    let (plane, available) = (&place.job.frame.planes[0], place.mb.available);
    let (x, y) = (place.x, place.y);
    let mut load = |flag: u8, column: usize, [sx, sy, w, h]: [usize; 4]| {
        if available & flag != 0 {
            let from = plane.read(sx, sy, w, h);
            for row in 0..h {
                let to = if h == 1 { 0 } else { row + 1 };
                window[to][column..column + w].copy_from_slice(from.row(row));
            }
            place.probe_read(probe, &place.job.frame, 0, [sx, sy, w, h]);
        }
    };
    let (left, above) = (x.wrapping_sub(1), y.wrapping_sub(1));
    load(AVAILABLE_TOP, LEFT, [x, above, 16, 1]);
    load(AVAILABLE_TOP_RIGHT, LEFT + 16, [x + 16, above, 4, 1]);
    load(AVAILABLE_TOP_LEFT, LEFT - 1, [left, above, 1, 1]);
    load(AVAILABLE_LEFT, LEFT - 1, [left, y, 1, 16]);
}

/// Stage 1 of Intra4x4: predicts and reconstructs one block after the other, in `window`, then writes the macroblock.
pub(super) fn reconstruct_4x4<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let mb = place.mb;
    let mut window: Window = [[0; 32]; 17];
    load_window(place, &mut window, probe);
    let coded = mb.coded & 0xffff;
    let start = mb.coefficients as usize;
    let (coefficients, count) = (&place.job.coefficients, 16 * coded.count_ones() as usize);
    let guard = (coded != 0).then(|| coefficients.read(0, start, 1, count));
    let residuals = guard
        .as_ref()
        .map_or(&[][..], |guard| guard.contiguous().as_chunks::<16>().0);
    let mut next = residuals.iter();
    probe.read(Table::Raster.address(0), 16);
    for (index, &block) in RASTER.iter().enumerate() {
        let (bx, by) = (usize::from(block) % 4, usize::from(block) / 4);
        let (x, y) = (LEFT + 4 * bx, 1 + 4 * by);
        let left = bx > 0 || mb.available & AVAILABLE_LEFT != 0;
        let top = by > 0 || mb.available & AVAILABLE_TOP != 0;
        let top_right = match (bx, by) {
            (3, 0) => mb.available & AVAILABLE_TOP_RIGHT != 0,
            (_, 0) => top,
            _ => HAS_INNER_TOP_RIGHT & 1 << index != 0,
        };
        let mut e = [0; 13];
        for i in 0..4 {
            e[i] = window[y + 3 - i][x - 1];
        }
        e[4..13].copy_from_slice(&window[y - 1][x - 1..x + 8]);
        if !top_right {
            let last = e[8];
            e[9..].fill(last);
        }
        let dc = mean(sum(&e[5..9], top), sum(&e[..4], left));
        let mode = mb.mode(usize::from(block));
        let mut out = predict_4x4(mode, &e, dc);
        let operation = match mode {
            0..=2 => Operation::Intra4x4,
            _ => Operation::Intra4x4Diagonal,
        };
        probe.operation(operation, 1);
        if coded & 1 << index != 0
            && let Some(residual) = next.next()
        {
            for (row, residual) in out.iter_mut().zip(residual.chunks_exact(4)) {
                add_row(row, residual);
            }
            let offset = mb.block_offset(index as u32);
            probe.read(place.job.coefficient_address(offset), 32);
            probe.operation(Operation::Add, 1);
        }
        for (row, out) in out.iter().enumerate() {
            window[y + row][x..x + 4].copy_from_slice(out);
        }
    }
    let mut to = place.write(0);
    for (row, from) in window[1..].iter().enumerate() {
        to.row(row).copy_from_slice(&from[LEFT..LEFT + 16]);
    }
    place.probe_write(probe, 0, [place.x, place.y, 16, 16]);
}

/// The neighbours of a macroblock in one plane of N samples a side. `top[0]` and `left[0]` are the corner.
struct Border<const N: usize> {
    top: [u8; 17],
    left: [u8; 17],
    has_top: bool,
    has_left: bool,
}

impl<const N: usize> Border<N> {
    fn load<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) -> Self {
        let (x, y, _) = place.area(plane);
        let available = place.mb.available;
        let mut border = Border {
            top: [0; 17],
            left: [0; 17],
            has_top: available & AVAILABLE_TOP != 0,
            has_left: available & AVAILABLE_LEFT != 0,
        };
        let samples = &place.job.frame.planes[plane];
        if border.has_top {
            border.top[1..=N].copy_from_slice(samples.read(x, y - 1, N, 1).row(0));
            place.probe_read(probe, &place.job.frame, plane, [x, y - 1, N, 1]);
        }
        if border.has_left {
            let column = samples.read(x - 1, y, 1, N);
            for (row, to) in border.left[1..=N].iter_mut().enumerate() {
                *to = column.row(row)[0];
            }
            place.probe_read(probe, &place.job.frame, plane, [x - 1, y, 1, N]);
        }
        if available & AVAILABLE_TOP_LEFT != 0 {
            border.top[0] = samples.read(x - 1, y - 1, 1, 1).row(0)[0];
            border.left[0] = border.top[0];
            place.probe_read(probe, &place.job.frame, plane, [x - 1, y - 1, 1, 1]);
        }
        border
    }

    /// Returns the plane prediction (8.3.3.4, 8.3.4.4).
    fn plane(&self) -> [[u8; N]; N] {
        let half = N / 2;
        let slope = |samples: &[u8; 17]| -> i32 {
            let difference = |i: usize| i32::from(samples[half + i]) - i32::from(samples[half - i]);
            (1..=half).map(|i| i as i32 * difference(i)).sum()
        };
        let factor = if N == 16 { 5 } else { 34 };
        let b = (factor * slope(&self.top) + 32) >> 6;
        let c = (factor * slope(&self.left) + 32) >> 6;
        let a = 16 * (i32::from(self.left[N]) + i32::from(self.top[N]));
        let middle = half as i32 - 1;
        std::array::from_fn(|y| {
            let row = a + c * (y as i32 - middle) + 16;
            std::array::from_fn(|x| ((row + b * (x as i32 - middle)) >> 5).clamp(0, 255) as u8)
        })
    }

    fn horizontal(&self) -> [[u8; N]; N] {
        std::array::from_fn(|y| [self.left[y + 1]; N])
    }

    fn vertical(&self) -> [[u8; N]; N] {
        let row = std::array::from_fn(|x| self.top[x + 1]);
        [row; N]
    }
}

fn store<const N: usize, P: Probe>(
    place: &Place<'_>,
    plane: usize,
    samples: &[[u8; N]; N],
    operation: Operation,
    probe: &mut P,
) {
    let mut to = place.write(plane);
    for (row, from) in samples.iter().enumerate() {
        to.row(row).copy_from_slice(from);
    }
    let (x, y, size) = place.area(plane);
    probe.operation(operation, (N * N) as u32);
    place.probe_write(probe, plane, [x, y, size, size]);
}

/// Returns the operation of a mode of Intra16x16 or chroma; mode 3 is plane prediction in both.
fn flat_or_plane(mode: u8) -> Operation {
    match mode {
        0..=2 => Operation::IntraFlat,
        _ => Operation::IntraPlane,
    }
}

/// Stage 1 of Intra16x16.
pub(super) fn predict_16x16<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let border = Border::<16>::load(place, 0, probe);
    let samples = match place.mb.luma_mode {
        0 => border.vertical(),
        1 => border.horizontal(),
        2 => {
            [[mean(
                sum(&border.top[1..], border.has_top),
                sum(&border.left[1..], border.has_left),
            ); 16]; 16]
        }
        _ => border.plane(),
    };
    store(place, 0, &samples, flat_or_plane(place.mb.luma_mode), probe);
}

/// The prediction part of stage 4 of an intra macroblock.
pub(super) fn predict_chroma<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let border = Border::<8>::load(place, plane, probe);
    let samples = match place.mb.chroma_mode {
        0 => chroma_dc(&border),
        1 => border.horizontal(),
        2 => border.vertical(),
        _ => border.plane(),
    };
    let operation = flat_or_plane(place.mb.chroma_mode);
    store(place, plane, &samples, operation, probe);
}

/// Returns the prediction by a mean for each 4x4 block (8.3.4.1 to 8.3.4.3). Off the diagonal, one of the two sides is preferred.
fn chroma_dc(border: &Border<8>) -> [[u8; 8]; 8] {
    let mut out = [[0; 8]; 8];
    for (block, [x, y]) in [[0, 0], [4, 0], [0, 4], [4, 4]].into_iter().enumerate() {
        let mut top = sum(&border.top[1 + x..5 + x], border.has_top);
        let mut left = sum(&border.left[1 + y..5 + y], border.has_left);
        match block {
            1 if border.has_top => left = (0, 0),
            2 if border.has_left => top = (0, 0),
            _ => {}
        }
        let value = mean(top, left);
        for row in &mut out[y..y + 4] {
            row[x..x + 4].fill(value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the neighbours p[x, -1] and p[-1, y] in the notation of the standard.
    fn p(e: &[u8; 13], x: i32, y: i32) -> i32 {
        i32::from(if x < 0 {
            e[(3 - y) as usize]
        } else {
            e[(5 + x) as usize]
        })
    }

    /// Predicts by the formulas of 8.3.1.2.4 to 8.3.1.2.9, written out.
    fn formula(mode: u8, e: &[u8; 13], x: i32, y: i32) -> i32 {
        let p = |x, y| p(e, x, y);
        let corner = (p(0, -1) + 2 * p(-1, -1) + p(-1, 0) + 2) >> 2;
        match mode {
            3 if x == 3 && y == 3 => (p(6, -1) + 3 * p(7, -1) + 2) >> 2,
            3 => (p(x + y, -1) + 2 * p(x + y + 1, -1) + p(x + y + 2, -1) + 2) >> 2,
            4 if x > y => (p(x - y - 2, -1) + 2 * p(x - y - 1, -1) + p(x - y, -1) + 2) >> 2,
            4 if x < y => (p(-1, y - x - 2) + 2 * p(-1, y - x - 1) + p(-1, y - x) + 2) >> 2,
            4 => corner,
            5 => match 2 * x - y {
                0 | 2 | 4 | 6 => (p(x - (y >> 1) - 1, -1) + p(x - (y >> 1), -1) + 1) >> 1,
                1 | 3 | 5 => {
                    (p(x - (y >> 1) - 2, -1)
                        + 2 * p(x - (y >> 1) - 1, -1)
                        + p(x - (y >> 1), -1)
                        + 2)
                        >> 2
                }
                -1 => corner,
                _ => (p(-1, y - 1) + 2 * p(-1, y - 2) + p(-1, y - 3) + 2) >> 2,
            },
            6 => match 2 * y - x {
                0 | 2 | 4 | 6 => (p(-1, y - (x >> 1) - 1) + p(-1, y - (x >> 1)) + 1) >> 1,
                1 | 3 | 5 => {
                    (p(-1, y - (x >> 1) - 2)
                        + 2 * p(-1, y - (x >> 1) - 1)
                        + p(-1, y - (x >> 1))
                        + 2)
                        >> 2
                }
                -1 => corner,
                _ => (p(x - 1, -1) + 2 * p(x - 2, -1) + p(x - 3, -1) + 2) >> 2,
            },
            7 if y % 2 == 0 => (p(x + (y >> 1), -1) + p(x + (y >> 1) + 1, -1) + 1) >> 1,
            7 => {
                (p(x + (y >> 1), -1) + 2 * p(x + (y >> 1) + 1, -1) + p(x + (y >> 1) + 2, -1) + 2)
                    >> 2
            }
            _ => match x + 2 * y {
                0 | 2 | 4 => (p(-1, y + (x >> 1)) + p(-1, y + (x >> 1) + 1) + 1) >> 1,
                1 | 3 => {
                    (p(-1, y + (x >> 1))
                        + 2 * p(-1, y + (x >> 1) + 1)
                        + p(-1, y + (x >> 1) + 2)
                        + 2)
                        >> 2
                }
                5 => (p(-1, 2) + 3 * p(-1, 3) + 2) >> 2,
                _ => p(-1, 3),
            },
        }
    }

    #[test]
    fn directional_predictions_equal_the_formulas() {
        let mut state = 7u32;
        for _ in 0..200 {
            let e: [u8; 13] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            for mode in 3..9 {
                let got = predict_4x4(mode, &e, 0);
                for (at, &sample) in got.as_flattened().iter().enumerate() {
                    let (x, y) = (at as i32 % 4, at as i32 / 4);
                    assert_eq!(
                        i32::from(sample),
                        formula(mode, &e, x, y),
                        "mode {mode} at {x}, {y}"
                    );
                }
            }
        }
    }

    #[test]
    fn plane_prediction_continues_a_ramp() {
        let ramp = std::array::from_fn(|i| 40 + 4 * i as u8);
        let border = Border::<16> {
            top: ramp,
            left: ramp,
            has_top: true,
            has_left: true,
        };
        let samples = border.plane();
        assert_eq!(
            (samples[0][0], samples[15][0], samples[7][9]),
            (48, 108, 112)
        );
        let border = Border::<8> {
            top: ramp,
            left: ramp,
            has_top: true,
            has_left: true,
        };
        assert_eq!(border.plane()[3][2], 40 + 4 * 7);
    }

    #[test]
    fn chroma_dc_prefers_one_side_off_the_diagonal() {
        let mut border = Border::<8> {
            top: [10; 17],
            left: [30; 17],
            has_top: true,
            has_left: true,
        };
        let blocks = |border: &Border<8>| {
            let out = chroma_dc(border);
            [out[0][0], out[0][7], out[7][0], out[7][7]]
        };
        assert_eq!(blocks(&border), [20, 10, 30, 20]);
        border.has_left = false;
        assert_eq!(blocks(&border), [10; 4]);
        border.has_top = false;
        assert_eq!(blocks(&border), [128; 4]);
    }
}
