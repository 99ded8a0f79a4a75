//! Clause 8.4.2: motion compensation.
// Kernels index several arrays of constant length at once, which the compiler makes vector code of.
#![allow(clippy::needless_range_loop)]

use super::Place;
use crate::frame::Frame;
use crate::job::{Mb, Mv, Shape, SubShape};
use crate::plane::Write;
use crate::probe::Probe;

/// A rectangle of luma that has one motion vector and one reference, in luma samples from the macroblock's corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    x: usize,
    y: usize,
    w: usize,
    h: usize,
    mv: Mv,
    /// Index into `Job::references`.
    slot: u8,
    /// Index into the slice's reference list.
    index: i8,
}

/// Calls `f` with each partition of a macroblock.
fn partitions(mb: &Mb, mvs: &[Mv; 16], mut f: impl FnMut(Partition)) {
    let mut part = |x: usize, y: usize, w: usize, h: usize| {
        let quarter = y / 8 * 2 + x / 8;
        let (slot, index) = (mb.ref_slot[quarter], mb.ref_idx[quarter]);
        f(Partition {
            x,
            y,
            w,
            h,
            mv: mvs[y / 4 * 4 + x / 4],
            slot,
            index,
        });
    };
    match mb.shape {
        Shape::Whole => part(0, 0, 16, 16),
        Shape::Rows => [0, 8].into_iter().for_each(|y| part(0, y, 16, 8)),
        Shape::Columns => [0, 8].into_iter().for_each(|x| part(x, 0, 8, 16)),
        Shape::Quarters => {
            for (quarter, sub) in mb.sub.iter().enumerate() {
                let (x, y) = (quarter % 2 * 8, quarter / 2 * 8);
                match sub {
                    SubShape::Whole => part(x, y, 8, 8),
                    SubShape::Rows => [0, 4].into_iter().for_each(|dy| part(x, y + dy, 8, 4)),
                    SubShape::Columns => [0, 4].into_iter().for_each(|dx| part(x + dx, y, 4, 8)),
                    SubShape::Quarters => {
                        [[0, 0], [4, 0], [0, 4], [4, 4]]
                            .into_iter()
                            .for_each(|[dx, dy]| part(x + dx, y + dy, 4, 4));
                    }
                }
            }
        }
    }
}

/// Where a block of samples comes from: whole samples and the fraction, and the margins that its filter reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    x: i32,
    y: i32,
    fraction_x: usize,
    fraction_y: usize,
    /// Samples before and after the block that the filter reads where the fraction is not 0.
    before: usize,
    after: usize,
}

impl Source {
    /// The source in plane `plane` of the block at (x, y) of the plane.
    fn new(plane: usize, x: usize, y: usize, mv: Mv) -> Self {
        let (bits, before, after) = if plane == 0 { (2, 2, 3) } else { (3, 0, 1) };
        let (mv_x, mv_y) = (i32::from(mv.x), i32::from(mv.y));
        Source {
            x: x as i32 + (mv_x >> bits),
            y: y as i32 + (mv_y >> bits),
            fraction_x: mv_x as usize & ((1 << bits) - 1),
            fraction_y: mv_y as usize & ((1 << bits) - 1),
            before,
            after,
        }
    }

    /// First sample and number of samples that are read of a row or column of `n`, when the block begins at `at`.
    fn span(&self, at: i32, fraction: usize, n: usize) -> (i32, usize) {
        if fraction == 0 {
            (at, n)
        } else {
            (at - self.before as i32, n + self.before + self.after)
        }
    }
}

/// Width of the copy of a block at the border of a picture: 16 samples, and 5 more for the filter.
const EDGE_STRIDE: usize = 24;

/// Stage 1, and the prediction part of stage 4: motion compensation of all partitions in one plane.
pub(super) fn predict<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let mut to = place.write(plane);
    probe.read(place.job.mv_address(place.index), 64);
    let shift = usize::from(plane > 0);
    partitions(place.mb, &place.job.mvs[place.index], |part| {
        let [x, y, w, h] = [part.x, part.y, part.w, part.h].map(|v| v >> shift);
        let block = Block {
            to: &mut to,
            plane,
            x,
            y,
            h,
        };
        match w {
            16 => block.compensate::<16, P>(place, &part, probe),
            8 => block.compensate::<8, P>(place, &part, probe),
            4 => block.compensate::<4, P>(place, &part, probe),
            _ => block.compensate::<2, P>(place, &part, probe),
        }
        let weights = place.job.slices[usize::from(place.mb.slice)]
            .weights
            .as_ref();
        if let Some(weights) = weights {
            let entry = &weights.entries[part.index as usize];
            let weighting = (
                weights.log2_denominator[plane],
                entry.weight[plane],
                entry.offset[plane],
            );
            for row in y..y + h {
                weight(&mut to.row(row)[x..x + w], weighting);
            }
        }
    });
}

/// Explicit weighted prediction (8-298, 8-299).
fn weight(row: &mut [u8], (log2_denominator, weight, offset): (u8, i16, i16)) {
    let (shift, weight, offset) = (
        u32::from(log2_denominator),
        i32::from(weight),
        i32::from(offset),
    );
    let rounding = if shift > 0 { 1 << (shift - 1) } else { 0 };
    for sample in row {
        *sample =
            (((i32::from(*sample) * weight + rounding) >> shift) + offset).clamp(0, 255) as u8;
    }
}

/// One block of prediction in one plane.
struct Block<'a, 'p> {
    to: &'a mut Write<'p, u8>,
    plane: usize,
    /// In samples of the plane, from the macroblock's corner.
    x: usize,
    y: usize,
    h: usize,
}

impl Block<'_, '_> {
    fn compensate<const W: usize, P: Probe>(
        mut self,
        place: &Place<'_>,
        part: &Partition,
        probe: &mut P,
    ) {
        let reference: &Frame = &place.job.references[usize::from(part.slot)];
        let samples = &reference.planes[self.plane];
        let (width, height) = (samples.stride(), samples.len() / samples.stride());
        let (left, top, _) = place.area(self.plane);
        let source = Source::new(self.plane, left + self.x, top + self.y, part.mv);
        let (x, w) = source.span(source.x, source.fraction_x, W);
        let (y, h) = source.span(source.y, source.fraction_y, self.h);
        let clamp = |v: i32, size: usize| v.clamp(0, size as i32 - 1) as usize;
        let (first, last) = (clamp(y, height), clamp(y + h as i32 - 1, height));
        let guard = samples.read(0, first, width, last + 1 - first);
        let inside = x >= 0 && x as usize + w <= width && y >= 0 && y as usize + h <= height;
        if inside {
            self.filter::<W>(guard.contiguous(), width, (x as usize, 0), &source);
        } else {
            // 8.4.2.2.1: coordinates outside the picture are clamped.
            let mut copy = [0; EDGE_STRIDE * 21];
            let mut columns = [0; EDGE_STRIDE];
            for (i, column) in columns.iter_mut().enumerate() {
                *column = clamp(x + i as i32, width);
            }
            for (row, copy) in copy.chunks_exact_mut(EDGE_STRIDE).take(h).enumerate() {
                let from = guard.row(clamp(y + row as i32, height) - first);
                for (to, &column) in copy[..w].iter_mut().zip(&columns) {
                    *to = from[column];
                }
            }
            self.filter::<W>(&copy, EDGE_STRIDE, (0, 0), &source);
        }
        let taps = [1, 6, 6, 42]
            [usize::from(source.fraction_x > 0) + 2 * usize::from(source.fraction_y > 0)];
        let (left_most, right_most) = (clamp(x, width), clamp(x + w as i32 - 1, width));
        let read = [
            left_most,
            first,
            right_most + 1 - left_most,
            last + 1 - first,
        ];
        place.probe_read(probe, reference, self.plane, read);
        let (x, y) = (self.x, self.y);
        place.probe_write(probe, self.plane, [left + x, top + y, W, self.h]);
        probe.computation(taps * (W * self.h) as u64);
    }

    /// Filters the block, whose first sample that is read lies at `at` of `from`.
    #[inline(always)]
    fn filter<const W: usize>(
        &mut self,
        from: &[u8],
        stride: usize,
        at: (usize, usize),
        source: &Source,
    ) {
        let (fx, fy) = (source.fraction_x, source.fraction_y);
        let before = |fraction: usize| if fraction == 0 { 0 } else { source.before };
        let origin = at.0 + before(fx) + (at.1 + before(fy)) * stride;
        let area = [self.x, self.y, self.h];
        if self.plane == 0 {
            luma::<W>(self.to, area, from, stride, origin, [fx, fy]);
        } else {
            chroma::<W>(self.to, area, from, stride, origin, [fx, fy]);
        }
    }
}

// Kernels below are loops over arrays of constant length, from which the compiler makes vector code; closures that build
// arrays element by element would stop it.

/// The six-tap filter, without rounding (8-241 and following).
#[inline(always)]
fn tap6(a: i16, b: i16, c: i16, d: i16, e: i16, f: i16) -> i16 {
    (a + f) + 5 * (4 * (c + d) - (b + e))
}

#[inline(always)]
fn wide(sample: u8) -> i16 {
    i16::from(sample)
}

/// The filter over W columns of a row: `from[at]` lies left of the first sample that is made.
#[inline(always)]
fn filter_row<const W: usize>(from: &[u8], at: usize) -> [i16; W] {
    let s = &from[at - 2..at + W + 3];
    let mut out = [0; W];
    for i in 0..W {
        out[i] = tap6(
            wide(s[i]),
            wide(s[i + 1]),
            wide(s[i + 2]),
            wide(s[i + 3]),
            wide(s[i + 4]),
            wide(s[i + 5]),
        );
    }
    out
}

/// Half samples between horizontal neighbours (b): W of them from `from[at]` on.
#[inline(always)]
fn half_horizontal<const W: usize>(from: &[u8], at: usize) -> [u8; W] {
    let sums = filter_row::<W>(from, at);
    let mut out = [0; W];
    for i in 0..W {
        out[i] = ((sums[i] + 16) >> 5).clamp(0, 255) as u8;
    }
    out
}

/// Half samples between vertical neighbours (h).
#[inline(always)]
fn half_vertical<const W: usize>(from: &[u8], stride: usize, at: usize) -> [u8; W] {
    let row = |k: usize| &from[at + k * stride - 2 * stride..][..W];
    let (a, b, c, d, e, f) = (row(0), row(1), row(2), row(3), row(4), row(5));
    let mut out = [0; W];
    for i in 0..W {
        let sum = tap6(
            wide(a[i]),
            wide(b[i]),
            wide(c[i]),
            wide(d[i]),
            wide(e[i]),
            wide(f[i]),
        );
        out[i] = ((sum + 16) >> 5).clamp(0, 255) as u8;
    }
    out
}

#[inline(always)]
fn whole<const W: usize>(from: &[u8], at: usize) -> [u8; W] {
    let mut out = [0; W];
    out.copy_from_slice(&from[at..at + W]);
    out
}

#[inline(always)]
fn average<const W: usize>(a: [u8; W], b: [u8; W]) -> [u8; W] {
    let mut out = [0; W];
    for i in 0..W {
        out[i] = (u16::from(a[i]) + u16::from(b[i])).div_ceil(2) as u8;
    }
    out
}

/// Half samples in the middle of four whole ones (j), for up to 16 rows.
#[inline(always)]
fn middle<const W: usize>(from: &[u8], stride: usize, at: usize, h: usize) -> [[u8; W]; 16] {
    let mut between = [[0i16; W]; 21];
    for (row, between) in between.iter_mut().take(h + 5).enumerate() {
        *between = filter_row(from, at + row * stride - 2 * stride);
    }
    let mut out = [[0; W]; 16];
    for (rows, out) in between.windows(6).zip(&mut out).take(h) {
        for i in 0..W {
            let s = |k: usize| i32::from(rows[k][i]);
            let sum = (s(0) + s(5)) + 5 * (4 * (s(2) + s(3)) - (s(1) + s(4)));
            out[i] = ((sum + 512) >> 10).clamp(0, 255) as u8;
        }
    }
    out
}

/// Calls `make` for each of the rows to write with its number and its place in the source, and writes what it gives.
#[inline(always)]
fn each_row<const W: usize>(
    to: &mut Write<'_, u8>,
    [x, y, h]: [usize; 3],
    origin: usize,
    stride: usize,
    make: impl Fn(usize, usize) -> [u8; W],
) {
    for row in 0..h {
        to.row(y + row)[x..x + W].copy_from_slice(&make(row, origin + row * stride));
    }
}

/// Luma sample interpolation (8.4.2.2.1) of W columns; `area` is the first column, the first row and the number of rows to
/// write.
fn luma<const W: usize>(
    to: &mut Write<'_, u8>,
    area: [usize; 3],
    from: &[u8],
    stride: usize,
    origin: usize,
    [fx, fy]: [usize; 2],
) {
    let horizontal = |at| half_horizontal::<W>(from, at);
    let vertical = |at| half_vertical::<W>(from, stride, at);
    let whole = |at| whole::<W>(from, at);
    // The nearest whole or half sample to the right and below.
    let (right, below) = (fx / 2, fy / 2 * stride);
    match (fx, fy) {
        (0, 0) => each_row(to, area, origin, stride, |_, at| whole(at)),
        (2, 0) => each_row(to, area, origin, stride, |_, at| horizontal(at)),
        (_, 0) => each_row(to, area, origin, stride, |_, at| {
            average(horizontal(at), whole(at + right))
        }),
        (0, 2) => each_row(to, area, origin, stride, |_, at| vertical(at)),
        (0, _) => each_row(to, area, origin, stride, |_, at| {
            average(vertical(at), whole(at + below))
        }),
        (2, _) | (_, 2) => {
            let j = middle::<W>(from, stride, origin, area[2]);
            match (fx, fy) {
                (2, 2) => each_row(to, area, origin, stride, |row, _| j[row]),
                (2, _) => each_row(to, area, origin, stride, |row, at| {
                    average(j[row], horizontal(at + below))
                }),
                _ => each_row(to, area, origin, stride, |row, at| {
                    average(j[row], vertical(at + right))
                }),
            }
        }
        _ => each_row(to, area, origin, stride, |_, at| {
            average(horizontal(at + below), vertical(at + right))
        }),
    }
}

/// Chroma sample interpolation (8.4.2.2.2).
#[inline(always)]
fn chroma<const W: usize>(
    to: &mut Write<'_, u8>,
    [x, y, h]: [usize; 3],
    from: &[u8],
    stride: usize,
    origin: usize,
    [fx, fy]: [usize; 2],
) {
    if fx == 0 && fy == 0 {
        return each_row(to, [x, y, h], origin, stride, |_, at| whole::<W>(from, at));
    }
    // Samples with weight 0 are not read: they may lie outside what the caller holds.
    let (right, below) = (usize::from(fx > 0), if fy > 0 { stride } else { 0 });
    let (fx, fy) = (fx as u16, fy as u16);
    let (a, b, c, d) = ((8 - fx) * (8 - fy), fx * (8 - fy), (8 - fx) * fy, fx * fy);
    each_row(to, [x, y, h], origin, stride, |_, at| {
        let row = |at: usize| &from[at..at + W];
        let (s, t, u, v) = (
            row(at),
            row(at + right),
            row(at + below),
            row(at + below + right),
        );
        let mut out = [0; W];
        for i in 0..W {
            let sum = u16::from(s[i]) * a
                + u16::from(t[i]) * b
                + u16::from(u[i]) * c
                + u16::from(v[i]) * d;
            out[i] = ((sum + 32) >> 6) as u8;
        }
        out
    });
}

/// Raises `reach[slot]` to the last row of macroblocks that prediction of the macroblock needs of reference `slot`.
pub(super) fn reach(place: &Place<'_>, reach: &mut [Option<u32>; 256]) {
    if place.mb.is_intra() {
        return;
    }
    let rows = place.job.mb_height as i32;
    partitions(place.mb, &place.job.mvs[place.index], |part| {
        for (plane, mb_rows, changed) in [(0, 16, 3), (1, 8, 1)] {
            let shift = usize::from(plane > 0);
            let (_, top, _) = place.area(plane);
            let source = Source::new(plane, 0, top + (part.y >> shift), part.mv);
            let (y, h) = source.span(source.y, source.fraction_y, part.h >> shift);
            let last = (y + h as i32 - 1).clamp(0, rows * mb_rows - 1);
            // The row of macroblocks below still changes so many rows of samples when it is deblocked.
            let row = ((last + changed) / mb_rows).min(rows - 1) as u32;
            let slot = &mut reach[usize::from(part.slot)];
            *slot = Some(slot.map_or(row, |old| old.max(row)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Shared;

    const SIZE: usize = 32;

    fn noise() -> Vec<u8> {
        let mut state = 3u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Extreme values make the clipping matter.
            if state & 0x300 == 0 {
                255 * (state >> 31) as u8
            } else {
                (state >> 24) as u8
            }
        };
        (0..SIZE * SIZE).map(|_| next()).collect()
    }

    /// The sample at quarter position (qx, qy), by the formulas of 8.4.2.2.1 and figure 8-4.
    fn luma_formula(plane: &[u8], qx: usize, qy: usize) -> i32 {
        let g = |x: usize, y: usize| i32::from(plane[y * SIZE + x]);
        let tap = |s: [i32; 6]| s[0] - 5 * s[1] + 20 * s[2] + 20 * s[3] - 5 * s[4] + s[5];
        let clip1 = |v: i32| v.clamp(0, 255);
        let (x, y) = (qx / 4, qy / 4);
        let b1 = |x: usize, y: usize| tap(std::array::from_fn(|k| g(x + k - 2, y)));
        let h1 = |x: usize, y: usize| tap(std::array::from_fn(|k| g(x, y + k - 2)));
        let b = |x: usize, y: usize| clip1((b1(x, y) + 16) >> 5);
        let h = |x: usize, y: usize| clip1((h1(x, y) + 16) >> 5);
        let j = clip1((tap(std::array::from_fn(|k| b1(x, y + k - 2))) + 512) >> 10);
        let (s, m) = (b(x, y + 1), h(x + 1, y));
        let average = |a: i32, b: i32| (a + b + 1) >> 1;
        match (qx % 4, qy % 4) {
            (0, 0) => g(x, y),
            (1, 0) => average(g(x, y), b(x, y)),
            (2, 0) => b(x, y),
            (3, 0) => average(b(x, y), g(x + 1, y)),
            (0, 1) => average(g(x, y), h(x, y)),
            (0, 2) => h(x, y),
            (0, 3) => average(h(x, y), g(x, y + 1)),
            (1, 1) => average(b(x, y), h(x, y)),
            (2, 1) => average(b(x, y), j),
            (3, 1) => average(b(x, y), m),
            (1, 2) => average(h(x, y), j),
            (2, 2) => j,
            (3, 2) => average(j, m),
            (1, 3) => average(h(x, y), s),
            (2, 3) => average(j, s),
            _ => average(s, m),
        }
    }

    #[test]
    fn luma_interpolation_equals_the_formulas_at_all_quarter_positions() {
        let plane = noise();
        for (fy, fx) in (0..4).flat_map(|fy| (0..4).map(move |fx| (fy, fx))) {
            let out = Shared::<u8>::new(16, 16);
            luma::<16>(
                &mut out.write(0, 0, 16, 16),
                [0, 0, 16],
                &plane,
                SIZE,
                5 * SIZE + 4,
                [fx, fy],
            );
            let got = out.read(0, 0, 16, 16);
            for (y, x) in (0..16).flat_map(|y| (0..16).map(move |x| (y, x))) {
                let want = luma_formula(&plane, 4 * (4 + x) + fx, 4 * (5 + y) + fy);
                assert_eq!(
                    i32::from(got.row(y)[x]),
                    want,
                    "fraction {fx}, {fy} at {x}, {y}"
                );
            }
        }
    }

    #[test]
    fn chroma_interpolation_equals_the_formula() {
        let plane = noise();
        for (fy, fx) in (0..8).flat_map(|fy| (0..8).map(move |fx| (fy, fx))) {
            let out = Shared::<u8>::new(8, 8);
            chroma::<8>(
                &mut out.write(0, 0, 8, 8),
                [0, 0, 8],
                &plane,
                SIZE,
                3 * SIZE + 2,
                [fx, fy],
            );
            let got = out.read(0, 0, 8, 8);
            for (y, x) in (0..8).flat_map(|y| (0..8).map(move |x| (y, x))) {
                let g = |dx: usize, dy: usize| u32::from(plane[(3 + y + dy) * SIZE + 2 + x + dx]);
                let (fx, fy) = (fx as u32, fy as u32);
                let sum = (8 - fx) * (8 - fy) * g(0, 0)
                    + fx * (8 - fy) * g(1, 0)
                    + (8 - fx) * fy * g(0, 1)
                    + fx * fy * g(1, 1);
                assert_eq!(u32::from(got.row(y)[x]), (sum + 32) >> 6);
            }
        }
    }

    #[test]
    fn weighting_rounds_and_clips() {
        let mut row = [0, 10, 100, 255];
        weight(&mut row, (5, 48, -3));
        assert_eq!(row, [0, 12, 147, 255]);
        let mut row = [0, 10, 100, 255];
        weight(&mut row, (0, -1, 20));
        assert_eq!(row, [20, 10, 0, 0]);
    }

    #[test]
    fn partitions_cover_the_macroblock_once() {
        let subs = [
            SubShape::Whole,
            SubShape::Rows,
            SubShape::Columns,
            SubShape::Quarters,
        ];
        for shape in [Shape::Whole, Shape::Rows, Shape::Columns, Shape::Quarters] {
            let mb = Mb {
                shape,
                sub: subs,
                ..Mb::default()
            };
            let mut covered = [0; 256];
            partitions(&mb, &[Mv::default(); 16], |part| {
                for (y, x) in (part.y..part.y + part.h)
                    .flat_map(|y| (part.x..part.x + part.w).map(move |x| (y, x)))
                {
                    covered[16 * y + x] += 1;
                }
            });
            assert_eq!(covered, [1; 256]);
        }
    }
}
