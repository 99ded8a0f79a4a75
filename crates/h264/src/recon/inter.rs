//! Clause 8.4.2: motion compensation.
//!
//! ```text
//! Partition (block, vector)  ->  Source (rectangle of the reference, fraction)
//!     inside of the picture  ->  Samples of the plane itself
//!     partly outside         ->  copy_clamped  ->  Samples of the copy
//! Samples  ->  interpolation (Kernels::luma, Kernels::chroma)  ->  weight_part, if the slice has weights
//! ```
// Kernels index several arrays of constant length in one loop, which the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use super::Place;
use super::kernels::Kernels;
use crate::frame::Frame;
use crate::job::{Mb, Mv, Shape, Weights};
use crate::plane::{Part, Shared, Write};
use crate::probe::{Operation, Probe};

/// A rectangle of luma with one motion vector and one reference, in luma samples relative to the macroblock.
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

impl Partition {
    /// Returns the partition of a macroblock that has only one.
    #[inline(always)]
    fn whole(mb: &Mb) -> Self {
        Partition {
            x: 0,
            y: 0,
            w: 16,
            h: 16,
            mv: mb.mv,
            slot: mb.ref_slot[0],
            index: mb.ref_idx[0],
        }
    }
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
        Shape::Whole => f(Partition::whole(mb)),
        Shape::Rows => [0, 8].into_iter().for_each(|y| part(0, y, 16, 8)),
        Shape::Columns => [0, 8].into_iter().for_each(|x| part(x, 0, 8, 16)),
        Shape::Quarters => {
            for (quarter, sub) in mb.sub.iter().enumerate() {
                let (x, y) = (quarter % 2 * 8, quarter / 2 * 8);
                match sub {
                    Shape::Whole => part(x, y, 8, 8),
                    Shape::Rows => [0, 4].into_iter().for_each(|dy| part(x, y + dy, 8, 4)),
                    Shape::Columns => [0, 4].into_iter().for_each(|dx| part(x + dx, y, 4, 8)),
                    Shape::Quarters => {
                        [[0, 0], [4, 0], [0, 4], [4, 4]]
                            .into_iter()
                            .for_each(|[dx, dy]| part(x + dx, y + dy, 4, 4));
                    }
                }
            }
        }
    }
}

/// What the interpolation of a block reads: a rectangle of the reference's plane, which may be partly outside of the picture, and the
/// fraction of the vector. For the luma plane or both chroma planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    /// The rectangle, with the margin of the interpolation filter.
    x: i32,
    y: i32,
    w: usize,
    h: usize,
    /// Position of the block's first sample in the rectangle.
    inner_x: usize,
    inner_y: usize,
    fraction_x: usize,
    fraction_y: usize,
}

impl Source {
    /// Returns the source of the block with `area` in its plane.
    #[inline(always)]
    fn new<const CHROMA: bool>([x, y, w, h]: [usize; 4], mv: Mv) -> Self {
        let (bits, before, after) = if CHROMA { (3, 0, 1) } else { (2, 2, 3) };
        // By row or column: the first sample that is read, their number, the offset of the block, and the fraction.
        let span = |at: usize, n: usize, mv: i16| {
            let (at, fraction) = (
                at as i32 + (i32::from(mv) >> bits),
                mv as usize & ((1 << bits) - 1),
            );
            if fraction == 0 {
                (at, n, 0, 0)
            } else {
                (at - before as i32, n + before + after, before, fraction)
            }
        };
        let (x, w, inner_x, fraction_x) = span(x, w, mv.x);
        let (y, h, inner_y, fraction_y) = span(y, h, mv.y);
        Source {
            x,
            y,
            w,
            h,
            inner_x,
            inner_y,
            fraction_x,
            fraction_y,
        }
    }
}

/// Row length of the copy of a block at the border of a picture: 16 samples, and 5 more for the filter, rounded up.
const EDGE_STRIDE: usize = 24;
/// Samples of a row that must be readable for horizontal filters of less than 16 columns: vector loads read more than the filter needs.
const READ_AHEAD: usize = 16;

/// Samples of a plane or of a copy: the first whole sample of the block is `from[origin]`, rows are `stride` apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Samples<'a> {
    pub(super) from: &'a [u8],
    pub(super) stride: usize,
    pub(super) origin: usize,
}

/// Stage 1: motion compensation of all partitions in luma.
pub(super) fn predict_luma<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let job = place.job;
    let weights = job.slices[usize::from(place.mb.slice)].weights.as_ref();
    if place.mb.shape != Shape::Whole {
        probe.read(job.mv_address(place.index), 64);
    }
    let mut target = place.write(0);
    if place.mb.shape == Shape::Whole {
        let whole = Partition::whole(place.mb);
        luma_part(place, &mut target, weights, &whole, probe);
    } else {
        partitions(place.mb, &job.mvs[place.index], |part| {
            luma_part(place, &mut target, weights, &part, probe);
        });
    }
}

// Inlined twice, because in the most frequent case, one partition, everything but the vector is a constant.
#[inline(always)]
fn luma_part<P: Probe>(
    place: &Place<'_>,
    target: &mut Write<'_, u8>,
    weights: Option<&Weights>,
    part: &Partition,
    probe: &mut P,
) {
    let &Partition { x, y, w, h, .. } = part;
    let source = Source::new::<false>([place.x + x, place.y + y, w, h], part.mv);
    let reference = &*place.job.references[usize::from(part.slot)];
    let mut to = target.part(x, y, w, h);
    compensate_luma(&mut to, w, reference, &source);
    if let Some(weights) = weights {
        weight_part(to, w, weights, 0, part.index);
    }
    report(place, probe, reference, 0, &source, part);
}

/// The prediction part of stage 4: motion compensation of all partitions in both planes of chroma.
pub(super) fn predict_chroma<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let job = place.job;
    let weights = job.slices[usize::from(place.mb.slice)].weights.as_ref();
    if place.mb.shape != Shape::Whole {
        (1..3).for_each(|_| probe.read(job.mv_address(place.index), 64));
    }
    let mut targets = (place.write(1), place.write(2));
    if place.mb.shape == Shape::Whole {
        let whole = Partition::whole(place.mb);
        chroma_part(place, &mut targets, weights, &whole, probe);
    } else {
        partitions(place.mb, &job.mvs[place.index], |part| {
            chroma_part(place, &mut targets, weights, &part, probe);
        });
    }
}

#[inline(always)]
fn chroma_part<P: Probe>(
    place: &Place<'_>,
    (cb, cr): &mut (Write<'_, u8>, Write<'_, u8>),
    weights: Option<&Weights>,
    part: &Partition,
    probe: &mut P,
) {
    let (x, y, w, h) = (part.x / 2, part.y / 2, part.w / 2, part.h / 2);
    let source = Source::new::<true>([place.x / 2 + x, place.y / 2 + y, w, h], part.mv);
    let reference = &*place.job.references[usize::from(part.slot)];
    let (mut cb, mut cr) = (cb.part(x, y, w, h), cr.part(x, y, w, h));
    compensate_chroma(&mut cb, &mut cr, w, reference, &source);
    if let Some(weights) = weights {
        weight_part(cb, w, weights, 1, part.index);
        weight_part(cr, w, weights, 2, part.index);
    }
    (1..3).for_each(|plane| report(place, probe, reference, plane, &source, part));
}

/// Reports the accesses and operations of a partition in one plane to the probe.
#[inline(always)]
fn report<P: Probe>(
    place: &Place<'_>,
    probe: &mut P,
    reference: &Frame,
    plane: usize,
    source: &Source,
    part: &Partition,
) {
    let [x, y, w, h] = [part.x, part.y, part.w, part.h].map(|v| v >> u32::from(plane > 0));
    let (left, top, size) = place.area(plane);
    let read = source.inside(
        reference.mb_width as usize * size,
        reference.mb_height as usize * size,
    );
    probe.operation(Operation::Partition, 1);
    place.probe_read(probe, reference, plane, read);
    if [read[2], read[3]] != [source.w, source.h] {
        probe.operation(Operation::Border, (source.w * source.h) as u32);
    }
    probe.operation(source.operation(plane > 0), (w * h) as u32);
    if place.job.slices[usize::from(place.mb.slice)]
        .weights
        .is_some()
    {
        probe.operation(Operation::Weight, (w * h) as u32);
    }
    place.probe_write(probe, plane, [left + x, top + y, w, h]);
}

/// Predicts one block of width `w` in luma.
#[inline(always)]
fn compensate_luma(to: &mut Part<'_, u8>, w: usize, reference: &Frame, source: &Source) {
    let interpolate = |to: &mut Part<'_, u8>, from: Samples<'_>| {
        // Two variables, not an array: two stores followed by one wider load would defeat store forwarding.
        let (fx, fy) = (source.fraction_x, source.fraction_y);
        let kernels = Kernels::chosen();
        match w {
            16 => kernels.luma::<16>(to, from, fx, fy),
            8 => kernels.luma::<8>(to, from, fx, fy),
            _ => kernels.luma::<4>(to, from, fx, fy),
        }
    };
    let loaded = if source.fraction_x > 0 {
        source.w.max(READ_AHEAD)
    } else {
        source.w
    };
    let plane = &reference.planes[0];
    let height = reference.mb_height as usize * 16;
    if let Some((x, y)) = source.lies_inside(plane.stride(), height, loaded) {
        let guard = plane.read(0, y, plane.stride(), source.h);
        interpolate(to, source.samples(guard.contiguous(), plane.stride(), x));
    } else {
        let mut copy = [[0; EDGE_STRIDE]; 16 + 5];
        copy_clamped(&mut copy, plane, height, source, loaded);
        interpolate(to, source.samples(copy.as_flattened(), EDGE_STRIDE, 0));
    }
}

/// Predicts one block of width `w` in both planes of chroma, which have the same size.
#[inline(always)]
fn compensate_chroma(
    cb: &mut Part<'_, u8>,
    cr: &mut Part<'_, u8>,
    w: usize,
    reference: &Frame,
    source: &Source,
) {
    let mut interpolate = |from_cb: Samples<'_>, from_cr: Samples<'_>| {
        let (fx, fy) = (source.fraction_x, source.fraction_y);
        let kernels = Kernels::chosen();
        match w {
            8 => kernels.chroma::<8>(cb, cr, from_cb, from_cr, fx, fy),
            4 => kernels.chroma::<4>(cb, cr, from_cb, from_cr, fx, fy),
            _ => kernels.chroma::<2>(cb, cr, from_cb, from_cr, fx, fy),
        }
    };
    let [_, plane_cb, plane_cr] = &reference.planes;
    let width = plane_cb.stride();
    let height = reference.mb_height as usize * 8;
    if let Some((x, y)) = source.lies_inside(width, height, source.w) {
        let guard_cb = plane_cb.read(0, y, width, source.h);
        let guard_cr = plane_cr.read(0, y, width, source.h);
        interpolate(
            source.samples(guard_cb.contiguous(), width, x),
            source.samples(guard_cr.contiguous(), width, x),
        );
    } else {
        let (mut copy_cb, mut copy_cr) = ([[0; EDGE_STRIDE]; 8 + 1], [[0; EDGE_STRIDE]; 8 + 1]);
        copy_clamped(&mut copy_cb, plane_cb, height, source, source.w);
        copy_clamped(&mut copy_cr, plane_cr, height, source, source.w);
        interpolate(
            source.samples(copy_cb.as_flattened(), EDGE_STRIDE, 0),
            source.samples(copy_cr.as_flattened(), EDGE_STRIDE, 0),
        );
    }
}

impl Source {
    /// Returns the column and the row of the rectangle if it and `loaded` columns are inside of a plane of this size.
    #[inline(always)]
    fn lies_inside(&self, width: usize, height: usize, loaded: usize) -> Option<(usize, usize)> {
        // Negative coordinates become large ones, which are outside as well.
        let (x, y) = (self.x as usize, self.y as usize);
        let ends = (x.wrapping_add(loaded), y.wrapping_add(self.h));
        (x < width && ends.0 <= width && y < height && ends.1 <= height).then_some((x, y))
    }

    /// Returns the block's samples in `from`, whose first row is the rectangle's first and whose column `x` is its first column.
    #[inline(always)]
    fn samples<'a>(&self, from: &'a [u8], stride: usize, x: usize) -> Samples<'a> {
        Samples {
            from,
            stride,
            origin: x + self.inner_x + self.inner_y * stride,
        }
    }

    /// Returns the operation that interpolation from this source is.
    #[inline(always)]
    fn operation(&self, chroma: bool) -> Operation {
        let (fx, fy) = (self.fraction_x, self.fraction_y);
        match (chroma, fx, fy) {
            (true, 0, 0) => Operation::ChromaWhole,
            (true, 0, _) | (true, _, 0) => Operation::ChromaLinear,
            (true, _, _) => Operation::ChromaBilinear,
            (false, 0, 0) => Operation::LumaWhole,
            (false, 0, 2) | (false, 2, 0) => Operation::LumaHalf,
            (false, 0, _) | (false, _, 0) => Operation::LumaQuarter,
            (false, 2, 2) => Operation::LumaMiddle,
            (false, 2, _) | (false, _, 2) => Operation::LumaMiddleQuarter,
            (false, _, _) => Operation::LumaDiagonal,
        }
    }

    /// Returns the part of the rectangle that is inside of a plane of this size: column, row, width and height.
    #[inline(always)]
    fn inside(&self, width: usize, height: usize) -> [usize; 4] {
        let part = |at: i32, n: usize, size: usize| {
            let first = at.clamp(0, size as i32 - 1) as usize;
            let last = (at + n as i32 - 1).clamp(0, size as i32 - 1) as usize;
            (first, last + 1 - first)
        };
        let (x, w) = part(self.x, self.w, width);
        let (y, h) = part(self.y, self.h, height);
        [x, y, w, h]
    }
}

/// Copies `loaded` samples of each row of the rectangle, with coordinates outside of the picture clamped (8.4.2.2.1).
#[inline(never)]
fn copy_clamped(
    copy: &mut [[u8; EDGE_STRIDE]],
    reference: &Shared<u8>,
    height: usize,
    source: &Source,
    loaded: usize,
) {
    let width = reference.stride();
    let [_, first, _, rows] = source.inside(width, height);
    let guard = reference.read(0, first, width, rows);
    let clamp = |v: i32, size: usize| v.clamp(0, size as i32 - 1) as usize;
    // `before`: columns of the copy left of the picture. `inside`: the same, plus the columns in the picture.
    let before = (-source.x).clamp(0, loaded as i32) as usize;
    let inside = (width as i32 - source.x).clamp(before as i32, loaded as i32) as usize;
    let x = clamp(source.x, width);
    for (row, copy) in copy.iter_mut().take(source.h).enumerate() {
        let from = guard.row(clamp(source.y + row as i32, height) - first);
        copy_short(&mut copy[before..inside], &from[x..x + inside - before]);
        if inside - before < loaded {
            copy[..before].fill(from[0]);
            copy[inside..].fill(from[width - 1]);
        }
    }
}

/// Copies up to 32 samples by two copies of constant length, which overlap unless the length is twice that.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
        if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
            let (first, last) = (*first, *last);
            let n = to.len();
            to[..N].copy_from_slice(&first);
            to[n - N..].copy_from_slice(&last);
            true
        } else {
            false
        }
    }
    if !(ends::<16>(to, from) || ends::<8>(to, from) || ends::<4>(to, from)) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = from;
        }
    }
}

/// Applies explicit weighted prediction to a block of width `w` (8-298, 8-299); `index` is that in the reference list.
#[cold]
fn weight_part(mut to: Part<'_, u8>, w: usize, weights: &Weights, plane: usize, index: i8) {
    let entry = &weights.entries[index as usize];
    let weighting = (
        weights.log2_denominator[plane],
        entry.weight[plane],
        entry.offset[plane],
    );
    for row in 0..to.height() {
        match w {
            16 => weight(to.row::<16>(row), weighting),
            8 => weight(to.row::<8>(row), weighting),
            4 => weight(to.row::<4>(row), weighting),
            _ => weight(to.row::<2>(row), weighting),
        }
    }
}

fn weight<const W: usize>(row: &mut [u8; W], (log2_denominator, weight, offset): (u8, i16, i16)) {
    let shift = u32::from(log2_denominator);
    let (weight, offset) = (i32::from(weight), i32::from(offset));
    let rounding = if shift > 0 { 1 << (shift - 1) } else { 0 };
    for sample in row {
        *sample =
            (((i32::from(*sample) * weight + rounding) >> shift) + offset).clamp(0, 255) as u8;
    }
}

// The kernels below are loops over arrays of constant length, which the compiler vectorises. Closures that build arrays element by element
// prevent that.

/// Returns the six-tap filter without rounding (8-241 and following).
#[inline(always)]
fn tap6(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> i16 {
    (wide(a) + wide(f)) + 5 * (4 * (wide(c) + wide(d)) - (wide(b) + wide(e)))
}

#[inline(always)]
pub(super) fn wide(sample: u8) -> i16 {
    i16::from(sample)
}

/// Filters and returns `W` columns of a row; `from[at]` is the whole sample left of the first result.
#[inline(always)]
fn filter_row<const W: usize>(from: &[u8], at: usize) -> [i16; W] {
    let s = &from[at - 2..at + W + 3];
    let mut out = [0; W];
    for i in 0..W {
        out[i] = tap6(s[i], s[i + 1], s[i + 2], s[i + 3], s[i + 4], s[i + 5]);
    }
    out
}

/// Returns `W` half samples between horizontal neighbours (b), from `from[at]` on.
#[inline(always)]
fn half_horizontal<const W: usize>(from: &[u8], at: usize) -> [u8; W] {
    let sums = filter_row::<W>(from, at);
    let mut out = [0; W];
    for i in 0..W {
        out[i] = ((sums[i] + 16) >> 5).clamp(0, 255) as u8;
    }
    out
}

/// Returns `W` half samples between vertical neighbours (h), from `from[at]` on.
#[inline(always)]
fn half_vertical<const W: usize>(from: &[u8], stride: usize, at: usize) -> [u8; W] {
    let row = |k: usize| &from[at + k * stride - 2 * stride..][..W];
    let (a, b, c, d, e, f) = (row(0), row(1), row(2), row(3), row(4), row(5));
    let mut out = [0; W];
    for i in 0..W {
        let sum = tap6(a[i], b[i], c[i], d[i], e[i], f[i]);
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

/// Returns half samples between four whole samples (j), for up to 16 rows.
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

/// Writes each row with the result of `make`, which is called with the row's number and its position in the source.
#[inline(always)]
fn each_row<const W: usize>(
    to: &mut Part<'_, u8>,
    origin: usize,
    stride: usize,
    make: impl Fn(usize, usize) -> [u8; W],
) {
    for row in 0..to.height() {
        *to.row::<W>(row) = make(row, origin + row * stride);
    }
}

/// Interpolates luma samples (8.4.2.2.1) of a block of `W` columns, at the fraction (`fx`, `fy`) in quarter samples.
pub(super) fn luma<const W: usize>(
    to: &mut Part<'_, u8>,
    samples: Samples<'_>,
    fx: usize,
    fy: usize,
) {
    let Samples {
        from,
        stride,
        origin,
    } = samples;
    let horizontal = |at| half_horizontal::<W>(from, at);
    let vertical = |at| half_vertical::<W>(from, stride, at);
    let whole = |at| whole::<W>(from, at);
    // A quarter sample is the mean of its two nearest whole or half samples. `right` and `below` are the offsets of the nearest column and
    // row: 0 at one quarter, 1 at three quarters.
    let (right, below) = (fx / 2, fy / 2 * stride);
    match (fx, fy) {
        (0, 0) => each_row(to, origin, stride, |_, at| whole(at)),
        (2, 0) => each_row(to, origin, stride, |_, at| horizontal(at)),
        (_, 0) => each_row(to, origin, stride, |_, at| {
            average(horizontal(at), whole(at + right))
        }),
        (0, 2) => each_row(to, origin, stride, |_, at| vertical(at)),
        (0, _) => each_row(to, origin, stride, |_, at| {
            average(vertical(at), whole(at + below))
        }),
        (2, _) | (_, 2) => {
            let j = middle::<W>(from, stride, origin, to.height());
            match (fx, fy) {
                (2, 2) => each_row(to, origin, stride, |row, _| j[row]),
                (2, _) => each_row(to, origin, stride, |row, at| {
                    average(j[row], horizontal(at + below))
                }),
                _ => each_row(to, origin, stride, |row, at| {
                    average(j[row], vertical(at + right))
                }),
            }
        }
        _ => each_row(to, origin, stride, |_, at| {
            average(horizontal(at + below), vertical(at + right))
        }),
    }
}

/// Interpolates chroma samples (8.4.2.2.2) of both planes, at the fraction (`fx`, `fy`) in eighths of a sample.
pub(super) fn chroma<const W: usize>(
    cb: &mut Part<'_, u8>,
    cr: &mut Part<'_, u8>,
    from_cb: Samples<'_>,
    from_cr: Samples<'_>,
    fx: usize,
    fy: usize,
) {
    chroma_plane::<W>(cb, from_cb, fx, fy);
    chroma_plane::<W>(cr, from_cr, fx, fy);
}

/// Interpolates chroma samples of one plane.
fn chroma_plane<const W: usize>(to: &mut Part<'_, u8>, samples: Samples<'_>, fx: usize, fy: usize) {
    let Samples {
        from,
        stride,
        origin,
    } = samples;
    if fx == 0 && fy == 0 {
        return each_row(to, origin, stride, |_, at| whole::<W>(from, at));
    }
    // Samples with weight 0 are not read, because they may be outside of what the caller holds.
    let (right, below) = (usize::from(fx > 0), if fy > 0 { stride } else { 0 });
    let (fx, fy) = (fx as u16, fy as u16);
    let (a, b, c, d) = ((8 - fx) * (8 - fy), fx * (8 - fy), (8 - fx) * fy, fx * fy);
    each_row(to, origin, stride, |_, at| {
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

/// Raises `reach[slot]` to the last row of macroblocks of reference `slot` that prediction of the macroblock reads.
pub(super) fn reach(place: &Place<'_>, reach: &mut [Option<u32>; 256]) {
    if place.mb.is_intra() {
        return;
    }
    let rows = place.job.mb_height as i32;
    partitions(place.mb, &place.job.mvs[place.index], |part| {
        for (chroma, mb_rows, changed) in [(false, 16, 3), (true, 8, 1)] {
            let (_, top, _) = place.area(usize::from(chroma));
            let [y, h] = [part.y, part.h].map(|v| v >> u32::from(chroma));
            let area = [0, top + y, 2, h];
            let source = if chroma {
                Source::new::<true>(area, part.mv)
            } else {
                Source::new::<false>(area, part.mv)
            };
            let last = (source.y + source.h as i32 - 1).clamp(0, rows * mb_rows - 1);
            // Deblocking of the next row of macroblocks still changes the last `changed` rows of samples.
            let row = ((last + changed) / mb_rows).min(rows - 1) as u32;
            let slot = &mut reach[usize::from(part.slot)];
            *slot = Some(slot.map_or(row, |old| old.max(row)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 32;

    fn noise() -> Vec<u8> {
        let mut state = 3u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Extreme values, so that clipping matters.
            if state & 0x300 == 0 {
                255 * (state >> 31) as u8
            } else {
                (state >> 24) as u8
            }
        };
        (0..SIZE * SIZE).map(|_| next()).collect()
    }

    /// Returns the sample at quarter position (`qx`, `qy`) by the formulas of 8.4.2.2.1 and figure 8-4.
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
                &mut out.write(0, 0, 16, 16).part(0, 0, 16, 16),
                Samples {
                    from: &plane,
                    stride: SIZE,
                    origin: 5 * SIZE + 4,
                },
                fx,
                fy,
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
            chroma_plane::<8>(
                &mut out.write(0, 0, 8, 8).part(0, 0, 8, 8),
                Samples {
                    from: &plane,
                    stride: SIZE,
                    origin: 3 * SIZE + 2,
                },
                fx,
                fy,
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
        let subs = [Shape::Whole, Shape::Rows, Shape::Columns, Shape::Quarters];
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
