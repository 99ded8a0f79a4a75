//! Clause 8.7: the deblocking filter.
// Kernels index several arrays of constant length in one loop, which the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use super::Place;
use super::inter::wide;
use super::kernels::Kernels;
use crate::job::Mb;
use crate::plane::Part;
use crate::probe::{Operation, Probe, Table};

/// Table 8-16: alpha by indexA.
const ALPHA: [u8; 52] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 20,
    22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90, 101, 113, 127, 144, 162, 182, 203, 226,
    255, 255,
];
/// Table 8-16: beta by indexB.
const BETA: [u8; 52] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 6, 6, 7, 7, 8, 8,
    9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16, 17, 17, 18, 18,
];
/// Table 8-17: tC0 for bS of 1, 2 and 3, by indexA.
const TC0: [[u8; 52]; 3] = [
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 7, 8, 9, 10, 11, 13,
    ],
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 8, 10, 11, 12, 13, 15, 17,
    ],
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
        2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 7, 8, 9, 10, 11, 13, 14, 16, 18, 20, 23, 25,
    ],
];

// ---- filtering (8.7.2.2 to 8.7.2.4) ----

/// The thresholds of one edge. If `alpha` is 0, no sample is filtered.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub(super) struct Thresholds {
    pub(super) alpha: i16,
    pub(super) beta: i16,
    /// By bS; entry 0 is unused.
    pub(super) tc0: [u8; 4],
}

/// bS of the four groups of a strongly filtered edge. In frame macroblocks either all groups of an edge have bS 4 or none.
pub(super) const STRONG: u16 = 0x4444;

impl Thresholds {
    const NOTHING_PASSES: Thresholds = Thresholds {
        alpha: 0,
        beta: 0,
        tc0: [0; 4],
    };

    fn can_pass(&self) -> bool {
        self.alpha != 0
    }

    /// Returns the thresholds of an edge of `place` in plane `plane`; `other` is the macroblock on its far side.
    #[inline(always)]
    fn new<P: Probe>(place: &Place<'_>, plane: usize, other: &Mb, probe: &mut P) -> Self {
        let slice = &place.job.slices[usize::from(place.mb.slice)];
        let qp = (i32::from(place.mb.qp[plane]) + i32::from(other.qp[plane]) + 1) >> 1;
        let index_a = (qp + i32::from(slice.alpha_offset)).clamp(0, 51) as usize;
        let index_b = (qp + i32::from(slice.beta_offset)).clamp(0, 51) as usize;
        probe.read(place.job.slice_address(place.mb.slice), 4);
        probe.read(Table::Alpha.address(index_a), 1);
        probe.read(Table::Beta.address(index_b), 1);
        if index_a >= 17 {
            probe.read(Table::Tc0.address(3 * (index_a - 17)), 3);
        }
        probe.operation(Operation::Thresholds, 1);
        let tc0 = [0, TC0[0][index_a], TC0[1][index_a], TC0[2][index_a]];
        let (alpha, beta) = (i16::from(ALPHA[index_a]), i16::from(BETA[index_b]));
        // With beta 0, no sample is filtered either.
        let alpha = if beta == 0 { 0 } else { alpha };
        Thresholds { alpha, beta, tc0 }
    }

    /// Returns tC0 of each of N samples along an edge with strengths `bs`; -1 for samples that are not filtered.
    fn tc0_along<const N: usize>(&self, bs: u16) -> [i16; N] {
        let mut along = [-1; N];
        for (group, along) in along.chunks_exact_mut(N / 4).enumerate() {
            if let bs @ 1.. = bs >> (4 * group) & 15 {
                along.fill(i16::from(self.tc0[usize::from(bs.min(3))]));
            }
        }
        along
    }
}

/// Lines of samples parallel to an edge: p3, p2, p1, p0, q0, q1, q2, q3 for luma, p1, p0, q0, q1 for chroma.
pub(super) type LumaLines = [[u8; 16]; 8];
pub(super) type ChromaLines = [[u8; 8]; 4];

/// Returns whether the samples around an edge differ so little that they are filtered (8-468).
#[inline(always)]
fn near(p1: i16, p0: i16, q0: i16, q1: i16, alpha: i16, beta: i16) -> bool {
    ((p0 - q0).abs() < alpha) & ((p1 - p0).abs() < beta) & ((q1 - q0).abs() < beta)
}

/// Filters a luma edge with bS below 4 (8.7.2.3).
fn luma_normal(lines: &mut LumaLines, tc0: &[i16; 16], thresholds: &Thresholds) {
    let (alpha, beta) = (thresholds.alpha, thresholds.beta);
    let [_, l2, l1, l0, r0, r1, r2, _] = lines;
    for i in 0..16 {
        let (p2, p1, p0) = (wide(l2[i]), wide(l1[i]), wide(l0[i]));
        let (q0, q1, q2) = (wide(r0[i]), wide(r1[i]), wide(r2[i]));
        let tc0 = tc0[i];
        let on = near(p1, p0, q0, q1, alpha, beta) & (tc0 >= 0);
        let (ap, aq) = ((p2 - p0).abs() < beta, (q2 - q0).abs() < beta);
        let tc = tc0 + i16::from(ap) + i16::from(aq);
        // `tc` is negative for samples that are not filtered, so `clamp`, which needs min <= max, would panic.
        let delta = (((q0 - p0) * 4 + (p1 - q1) + 4) >> 3).min(tc).max(-tc);
        let middle = (p0 + q0 + 1) >> 1;
        let delta_p = ((p2 + middle - 2 * p1) >> 1).min(tc0).max(-tc0);
        let delta_q = ((q2 + middle - 2 * q1) >> 1).min(tc0).max(-tc0);
        l1[i] = if on & ap { p1 + delta_p } else { p1 } as u8;
        l0[i] = if on { (p0 + delta).clamp(0, 255) } else { p0 } as u8;
        r0[i] = if on { (q0 - delta).clamp(0, 255) } else { q0 } as u8;
        r1[i] = if on & aq { q1 + delta_q } else { q1 } as u8;
    }
}

/// Filters a luma edge with bS 4 (8.7.2.4).
fn luma_strong(lines: &mut LumaLines, thresholds: &Thresholds) {
    let (alpha, beta) = (thresholds.alpha, thresholds.beta);
    for i in 0..16 {
        let line = |k: usize| wide(lines[k][i]);
        let (p3, p2, p1, p0) = (line(0), line(1), line(2), line(3));
        let (q0, q1, q2, q3) = (line(4), line(5), line(6), line(7));
        let on = near(p1, p0, q0, q1, alpha, beta);
        let close = (p0 - q0).abs() < (alpha >> 2) + 2;
        let ap = on & close & ((p2 - p0).abs() < beta);
        let aq = on & close & ((q2 - q0).abs() < beta);
        let p = if ap {
            [
                (2 * p3 + 3 * p2 + p1 + p0 + q0 + 4) >> 3,
                (p2 + p1 + p0 + q0 + 2) >> 2,
                (p2 + 2 * p1 + 2 * p0 + 2 * q0 + q1 + 4) >> 3,
            ]
        } else {
            [p2, p1, if on { (2 * p1 + p0 + q1 + 2) >> 2 } else { p0 }]
        };
        let q = if aq {
            [
                (p1 + 2 * p0 + 2 * q0 + 2 * q1 + q2 + 4) >> 3,
                (p0 + q0 + q1 + q2 + 2) >> 2,
                (2 * q3 + 3 * q2 + q1 + q0 + p0 + 4) >> 3,
            ]
        } else {
            [if on { (2 * q1 + q0 + p1 + 2) >> 2 } else { q0 }, q1, q2]
        };
        for k in 0..3 {
            lines[1 + k][i] = p[k] as u8;
            lines[4 + k][i] = q[k] as u8;
        }
    }
}

/// Filters one luma edge with strengths `bs`. Returns whether a sample may have changed.
pub(super) fn luma_edge(lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) -> bool {
    if bs == STRONG {
        luma_strong(lines, thresholds);
    } else {
        luma_normal(lines, &thresholds.tc0_along(bs), thresholds);
    }
    true
}

/// Filters one chroma edge with strengths `bs` of the luma edge at the same position. Returns whether a sample may have changed.
pub(super) fn chroma_edge(lines: &mut ChromaLines, bs: u16, thresholds: &Thresholds) -> bool {
    let (alpha, beta) = (thresholds.alpha, thresholds.beta);
    let strong = bs == STRONG;
    let tc0: [i16; 8] = thresholds.tc0_along(bs);
    for i in 0..8 {
        let line = |k: usize| wide(lines[k][i]);
        let (p1, p0, q0, q1) = (line(0), line(1), line(2), line(3));
        let on = near(p1, p0, q0, q1, alpha, beta) & (tc0[i] >= 0);
        let tc = tc0[i] + 1;
        let delta = (((q0 - p0) * 4 + (p1 - q1) + 4) >> 3).clamp(-tc, tc);
        let normal = [(p0 + delta).clamp(0, 255), (q0 - delta).clamp(0, 255)];
        let [p, q] = if strong {
            [(2 * p1 + p0 + q1 + 2) >> 2, (2 * q1 + q0 + p1 + 2) >> 2]
        } else {
            normal
        };
        lines[1][i] = if on { p } else { p0 } as u8;
        lines[2][i] = if on { q } else { q0 } as u8;
    }
    true
}

/// Returns the elements of the two halves in turns.
#[inline(always)]
fn interleave<const N: usize>(from: [u8; N]) -> [u8; N] {
    let mut to = [0; N];
    for (i, to) in to.chunks_exact_mut(2).enumerate() {
        to[0] = from[i];
        to[1] = from[i + N / 2];
    }
    to
}

/// Loads columns 0 to 7 of 16 rows as lines.
pub(super) fn luma_columns(part: &mut Part<'_, u8>, lines: &mut LumaLines) {
    let mut flat = [0; 128];
    for (row, to) in flat.chunks_exact_mut(8).enumerate() {
        to.copy_from_slice(part.row::<8>(row));
    }
    // Each round rotates the bits of an element's index by one: four rounds turn yyyyxxx (row, column) into xxxyyyy.
    let flat = interleave(interleave(interleave(interleave(flat))));
    lines.as_flattened_mut().copy_from_slice(&flat);
}

/// Stores what [`luma_columns`] loads.
pub(super) fn set_luma_columns(part: &mut Part<'_, u8>, lines: &LumaLines) {
    let mut flat = [0; 128];
    flat.copy_from_slice(lines.as_flattened());
    let flat = interleave(interleave(interleave(flat)));
    for (row, from) in flat.chunks_exact(8).enumerate() {
        part.row::<8>(row).copy_from_slice(from);
    }
}

/// Filters the edge in the middle of eight columns of luma.
pub(super) fn luma_column_edge(part: &mut Part<'_, u8>, bs: u16, thresholds: &Thresholds) {
    let mut lines = [[0; 16]; 8];
    luma_columns(part, &mut lines);
    luma_edge(&mut lines, bs, thresholds);
    set_luma_columns(part, &lines);
}

/// Filters the edge in the middle of four columns of chroma.
pub(super) fn chroma_column_edge(part: &mut Part<'_, u8>, bs: u16, thresholds: &Thresholds) {
    let mut flat = [0; 32];
    for (row, to) in flat.chunks_exact_mut(4).enumerate() {
        to.copy_from_slice(part.row::<4>(row));
    }
    let mut lines = [[0; 8]; 4];
    let columns = interleave(interleave(interleave(flat)));
    lines.as_flattened_mut().copy_from_slice(&columns);
    chroma_edge(&mut lines, bs, thresholds);
    flat.copy_from_slice(lines.as_flattened());
    for (row, from) in interleave(interleave(flat)).chunks_exact(4).enumerate() {
        part.row::<4>(row).copy_from_slice(from);
    }
}

// ---- stages ----

/// Strengths and thresholds of the edges of one direction. Thresholds of edges without strength let nothing pass.
struct Edges<'a> {
    bs: &'a [u16; 4],
    outer: Thresholds,
    inner: Thresholds,
}

impl<'a> Edges<'a> {
    /// Returns the edges with strengths `bs`; `None` if no sample can change. The macroblock on the far side of the outer edge has the
    /// index of this one minus `distance`.
    // Inlined, because a result assembled in memory is slow to copy.
    #[inline(always)]
    fn new<P: Probe>(
        place: &Place<'_>,
        plane: usize,
        bs: &'a [u16; 4],
        distance: usize,
        probe: &mut P,
    ) -> Option<Self> {
        let outer = if bs[0] != 0 {
            let other = place.index - distance;
            // The quantisers of the other macroblock.
            probe.read(place.job.mb_address(other), 4);
            Thresholds::new(place, plane, &place.job.mbs[other], probe)
        } else {
            Thresholds::NOTHING_PASSES
        };
        let inner = if bs[1] | bs[2] | bs[3] != 0 {
            Thresholds::new(place, plane, place.mb, probe)
        } else {
            Thresholds::NOTHING_PASSES
        };
        (outer.can_pass() || inner.can_pass()).then_some(Edges { bs, outer, inner })
    }

    /// Calls `f` with the number, the strengths and the thresholds of each edge that can change samples.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, u16, &Thresholds)) {
        if self.outer.can_pass() {
            f(0, self.bs[0], &self.outer);
        }
        if self.inner.can_pass() {
            for edge in (1..4).filter(|&edge| self.bs[edge] != 0) {
                f(edge, self.bs[edge], &self.inner);
            }
        }
    }
}

/// The operations of an edge with bS below 4 and of one with bS 4.
const LUMA_EDGE: [Operation; 2] = [Operation::LumaEdge, Operation::LumaEdgeStrong];
const CHROMA_EDGE: [Operation; 2] = [Operation::ChromaEdge, Operation::ChromaEdgeStrong];

/// Stage 3: deblocks luma.
pub(super) fn luma<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let mb = place.mb;
    if let Some(edges) = Edges::new(place, 0, &mb.bs_vertical, 1, probe) {
        luma_vertical(place, &edges, probe);
    }
    let width = place.job.mb_width as usize;
    if let Some(edges) = Edges::new(place, 0, &mb.bs_horizontal, width, probe) {
        luma_horizontal(place, &edges, probe);
    }
}

fn luma_vertical<P: Probe>(place: &Place<'_>, edges: &Edges<'_>, probe: &mut P) {
    let kernels = Kernels::chosen();
    // `lines` holds columns of samples as lines: four columns of the left macroblock, then 16 of this one.
    let outer = if edges.outer.can_pass() { 4 } else { 0 };
    let width = outer + if edges.inner.can_pass() { 16 } else { 4 };
    let area = [place.x - outer, place.y, width, 16];
    let mut samples = place.job.frame.planes[0].write(area[0], area[1], area[2], area[3]);
    if width == 8 {
        edges.each(|_, bs, thresholds| {
            let mut part = samples.part(0, 0, 8, 16);
            kernels.luma_column_edge(&mut part, bs, thresholds);
        });
    } else {
        let mut lines = [[0; 16]; 20];
        // Eight columns at a time. Of 20 columns, the last eight overlap the eight before.
        let starts = [0, 8, width - 8];
        for x in starts {
            let mut part = samples.part(x, 0, 8, 16);
            kernels.luma_columns(&mut part, eight(&mut lines, x + 4 - outer));
        }
        edges.each(|edge, bs, thresholds| {
            kernels.luma_edge(eight(&mut lines, 4 * edge), bs, thresholds);
        });
        for x in starts {
            let mut part = samples.part(x, 0, 8, 16);
            kernels.set_luma_columns(&mut part, eight(&mut lines, x + 4 - outer));
        }
    }
    place.probe_read(probe, &place.job.frame, 0, area);
    edges.each(|_, bs, _| edge_operation(bs, LUMA_EDGE, 4, probe));
    place.probe_write(probe, 0, area);
}

/// Returns eight of the lines, from `first` on.
fn eight(lines: &mut [[u8; 16]; 20], first: usize) -> &mut LumaLines {
    let Some(eight) = lines[first..].first_chunk_mut() else {
        unreachable!("the lines of an edge lie in the macroblock")
    };
    eight
}

fn luma_horizontal<P: Probe>(place: &Place<'_>, edges: &Edges<'_>, probe: &mut P) {
    let kernels = Kernels::chosen();
    let plane = &place.job.frame.planes[0];
    let (x, y) = (place.x, place.y);
    let mut own = plane.write(x, y, 16, 16);
    // The fourth row above is read but never written: a later picture may be predicting from it already.
    if edges.outer.can_pass() {
        let mut above = plane.write(x, y - 3, 16, 3);
        let mut lines = [[0; 16]; 8];
        lines[0] = *plane.read(x, y - 4, 16, 1).chunk(0, 0);
        let (mut above, mut own) = (above.part(0, 0, 16, 3), own.part(0, 0, 16, 4));
        (0..3).for_each(|i| lines[1 + i] = *above.row(i));
        (0..4).for_each(|i| lines[4 + i] = *own.row(i));
        if kernels.luma_edge(&mut lines, edges.bs[0], &edges.outer) {
            (0..3).for_each(|i| *above.row(i) = lines[1 + i]);
            (0..3).for_each(|i| *own.row(i) = lines[4 + i]);
        }
        place.probe_read(probe, &place.job.frame, 0, [x, y - 4, 16, 4]);
        place.probe_write(probe, 0, [x, y - 3, 16, 3]);
    }
    edges.each(|edge, bs, thresholds| {
        if edge > 0 {
            let mut rows = own.part(0, 4 * edge - 4, 16, 8);
            let mut lines: LumaLines = std::array::from_fn(|i| *rows.row(i));
            if kernels.luma_edge(&mut lines, bs, thresholds) {
                (1..7).for_each(|i| *rows.row(i) = lines[i]);
            }
        }
    });
    place.probe_read(probe, &place.job.frame, 0, [x, y, 16, 16]);
    edges.each(|_, bs, _| edge_operation(bs, LUMA_EDGE, 4, probe));
    place.probe_write(probe, 0, [x, y, 16, 16]);
}

/// Reports an edge with strengths `bs` to the probe: `lines` lines of samples for each of its four groups that is filtered.
#[inline(always)]
fn edge_operation<P: Probe>(bs: u16, [normal, strong]: [Operation; 2], lines: u32, probe: &mut P) {
    let operation = if bs == STRONG { strong } else { normal };
    let filtered_groups = (0..4).filter(|group| bs >> (4 * group) & 15 != 0).count();
    probe.operation(operation, lines * filtered_groups as u32);
}

/// Stages 6 and 7: deblocks one chroma plane. Its edges at 0 and 4 have the strengths of the luma edges 0 and 8.
pub(super) fn chroma<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let kernels = Kernels::chosen();
    let (mb, frame) = (place.mb, &place.job.frame);
    let samples = &frame.planes[plane];
    let (x, y, _) = place.area(plane);
    let of_chroma = |bs: &[u16; 4]| [bs[0], 0, bs[2], 0];
    let vertical = of_chroma(&mb.bs_vertical);
    if let Some(edges) = Edges::new(place, plane, &vertical, 1, probe) {
        edges.each(|edge, bs, thresholds| {
            let area = [x + 2 * edge - 2, y, 4, 8];
            let mut guard = samples.write(area[0], area[1], area[2], area[3]);
            kernels.chroma_column_edge(&mut guard.part(0, 0, 4, 8), bs, thresholds);
            place.probe_read(probe, frame, plane, area);
            edge_operation(bs, CHROMA_EDGE, 2, probe);
            place.probe_write(probe, plane, [area[0] + 1, y, 2, 8]);
        });
    }
    let horizontal = of_chroma(&mb.bs_horizontal);
    let width = place.job.mb_width as usize;
    if let Some(edges) = Edges::new(place, plane, &horizontal, width, probe) {
        edges.each(|edge, bs, thresholds| {
            let top = y + 2 * edge - 2;
            let mut guard = samples.write(x, top + 1, 8, 2);
            let mut inner = guard.part(0, 0, 8, 2);
            let mut lines = [
                *samples.read(x, top, 8, 1).chunk(0, 0),
                *inner.row(0),
                *inner.row(1),
                *samples.read(x, top + 3, 8, 1).chunk(0, 0),
            ];
            if kernels.chroma_edge(&mut lines, bs, thresholds) {
                *inner.row(0) = lines[1];
                *inner.row(1) = lines[2];
            }
            place.probe_read(probe, frame, plane, [x, top, 8, 4]);
            edge_operation(bs, CHROMA_EDGE, 2, probe);
            place.probe_write(probe, plane, [x, top + 1, 8, 2]);
        });
    }
}
