//! Clause 8.7: the deblocking filter.
// Kernels index several arrays of constant length at once, which the compiler makes vector code of.
#![allow(clippy::needless_range_loop)]

use super::Place;
use crate::job::{Job, Mb, Mv, NO_SLICE, Shape};
use crate::probe::Probe;

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
/// Table 8-17: tC0 for bS of 1, 2 and 3, by indexA from 17 on; below, it is 0.
const TC0: [[u8; 3]; 35] = [
    [0, 0, 1],
    [0, 0, 1],
    [0, 0, 1],
    [0, 0, 1],
    [0, 1, 1],
    [0, 1, 1],
    [1, 1, 1],
    [1, 1, 1],
    [1, 1, 1],
    [1, 1, 1],
    [1, 1, 2],
    [1, 1, 2],
    [1, 1, 2],
    [1, 1, 2],
    [1, 2, 3],
    [1, 2, 3],
    [2, 2, 3],
    [2, 2, 4],
    [2, 3, 4],
    [2, 3, 4],
    [3, 3, 5],
    [3, 4, 6],
    [3, 4, 6],
    [4, 5, 7],
    [4, 5, 8],
    [4, 6, 9],
    [5, 7, 10],
    [6, 8, 11],
    [6, 8, 13],
    [7, 10, 14],
    [8, 11, 16],
    [9, 12, 18],
    [10, 13, 20],
    [11, 15, 23],
    [13, 17, 25],
];

// ---- boundary strengths (8.7.2.1): part of entropy decoding, needs no pixel ----

/// Finds bS of all edges of the picture.
pub(crate) fn boundary_strengths(job: &mut Job) {
    let width = job.mb_width as usize;
    for at in 0..job.mbs.len() {
        let (vertical, horizontal) = strengths(job, at, width);
        job.mbs[at].bs_vertical = vertical;
        job.mbs[at].bs_horizontal = horizontal;
    }
}

/// The macroblock on the other side of an outer edge, if that edge is filtered.
fn filtered_neighbour(job: &Job, at: usize, exists: bool, distance: usize) -> Option<usize> {
    let slice = job.mbs[at].slice;
    debug_assert_ne!(slice, NO_SLICE);
    let deblocking = job.slices[usize::from(slice)].deblocking;
    let filtered =
        exists && (deblocking == 0 || deblocking == 2 && job.mbs[at - distance].slice == slice);
    filtered.then(|| at - distance)
}

fn strengths(job: &Job, at: usize, width: usize) -> ([u16; 4], [u16; 4]) {
    let mb = &job.mbs[at];
    if job.slices[usize::from(mb.slice)].deblocking == 1 {
        return ([0; 4], [0; 4]);
    }
    let left = filtered_neighbour(job, at, !at.is_multiple_of(width), 1);
    let top = filtered_neighbour(job, at, at >= width, width);
    if mb.is_intra() {
        let outer = |neighbour: Option<usize>| if neighbour.is_some() { 0x4444 } else { 0 };
        return (
            [outer(left), 0x3333, 0x3333, 0x3333],
            [outer(top), 0x3333, 0x3333, 0x3333],
        );
    }
    let blocks = Blocks::new(job, at);
    let (mut vertical, mut horizontal) = ([0; 4], [0; 4]);
    if blocks.coded != 0 || mb.shape != Shape::Whole {
        for edge in 1..4 {
            vertical[edge] = inner_edge(&blocks, edge, 1, 4, mb.shape == Shape::Rows);
            horizontal[edge] = inner_edge(&blocks, edge, 4, 1, mb.shape == Shape::Columns);
        }
    }
    if let Some(left) = left {
        vertical[0] = outer_edge(&blocks, &Blocks::new(job, left), [0, 3], 4);
    }
    if let Some(top) = top {
        horizontal[0] = outer_edge(&blocks, &Blocks::new(job, top), [0, 12], 1);
    }
    (vertical, horizontal)
}

/// What boundary strengths need of a macroblock, by raster position of its 4x4 blocks.
struct Blocks<'a> {
    mb: &'a Mb,
    mvs: &'a [Mv; 16],
    /// A bit for each block with coefficients.
    coded: u16,
}

impl<'a> Blocks<'a> {
    fn new(job: &'a Job, at: usize) -> Self {
        let mb = &job.mbs[at];
        // From luma4x4BlkIdx to raster position: each quarter has two bits in each of two rows.
        let coded = (0..4).fold(0, |all, quarter| {
            let bits = (mb.coded >> (4 * quarter)) as u16 & 15;
            all | (bits & 3 | (bits & 12) << 2) << (quarter % 2 * 2 + quarter / 2 * 8)
        });
        Blocks {
            mb,
            mvs: &job.mvs[at],
            coded,
        }
    }

    fn slot(&self, block: usize) -> u8 {
        self.mb.ref_slot[block / 8 * 2 + block % 4 / 2]
    }
}

/// bS between block `p` of one inter macroblock and block `q` of another or the same.
fn strength(a: &Blocks<'_>, p: usize, b: &Blocks<'_>, q: usize) -> u16 {
    if (a.coded >> p | b.coded >> q) & 1 != 0 {
        return 2;
    }
    let (m, n) = (a.mvs[p], b.mvs[q]);
    let far = |m: i16, n: i16| (i32::from(m) - i32::from(n)).abs() >= 4;
    u16::from(a.slot(p) != b.slot(q) || far(m.x, n.x) || far(m.y, n.y))
}

/// Four bS of the inner edge `edge`; `across` is the distance of blocks across it, `along` that along it. With `same_motion`
/// no motion boundary crosses edges of this direction.
fn inner_edge(
    blocks: &Blocks<'_>,
    edge: usize,
    across: usize,
    along: usize,
    same_motion: bool,
) -> u16 {
    if same_motion && blocks.coded == 0 {
        return 0;
    }
    (0..4).fold(0, |all, i| {
        let q = edge * across + i * along;
        all | strength(blocks, q - across, blocks, q) << (4 * i)
    })
}

/// Four bS of an outer edge between `here`, whose first block is `q`, and `there`, whose first block is `p`.
fn outer_edge(here: &Blocks<'_>, there: &Blocks<'_>, [q, p]: [usize; 2], along: usize) -> u16 {
    if there.mb.is_intra() {
        return 0x4444;
    }
    let whole = here.mb.shape == Shape::Whole && there.mb.shape == Shape::Whole;
    if whole && here.coded | there.coded == 0 {
        return strength(there, p, here, q) * 0x1111;
    }
    (0..4).fold(0, |all, i| {
        all | strength(there, p + i * along, here, q + i * along) << (4 * i)
    })
}

// ---- filtering (8.7.2.2 to 8.7.2.4) ----

/// Thresholds of one edge.
#[derive(Debug, Clone, Copy)]
struct Thresholds {
    alpha: i16,
    beta: i16,
    tc0: [u8; 3],
}

impl Thresholds {
    /// For an edge of `place` in plane `plane` with the neighbour `other` on its far side; None where nothing passes them.
    fn new(place: &Place<'_>, plane: usize, other: &Mb) -> Option<Self> {
        let slice = &place.job.slices[usize::from(place.mb.slice)];
        let qp =
            (i32::from(place.mb.filter_qp[plane]) + i32::from(other.filter_qp[plane]) + 1) >> 1;
        let index_a = (qp + i32::from(slice.alpha_offset)).clamp(0, 51) as usize;
        let index_b = (qp + i32::from(slice.beta_offset)).clamp(0, 51) as usize;
        let tc0 = if index_a < 17 {
            [0; 3]
        } else {
            TC0[index_a - 17]
        };
        let (alpha, beta) = (i16::from(ALPHA[index_a]), i16::from(BETA[index_b]));
        (alpha != 0 && beta != 0).then_some(Thresholds { alpha, beta, tc0 })
    }

    /// tC0 of each of N samples along an edge with strengths `bs`; -1 where the edge is not filtered.
    fn tc0_along<const N: usize>(&self, bs: u16) -> [i16; N] {
        let mut along = [-1; N];
        for (group, along) in along.chunks_exact_mut(N / 4).enumerate() {
            if let bs @ 1.. = bs >> (4 * group) & 15 {
                along.fill(i16::from(self.tc0[usize::from(bs.min(3)) - 1]));
            }
        }
        along
    }
}

/// Lines of samples parallel to an edge: p3, p2, p1, p0, q0, q1, q2, q3 for luma, p1, p0, q0, q1 for chroma.
type LumaLines = [[u8; 16]; 8];
type ChromaLines = [[u8; 8]; 4];

#[inline(always)]
fn wide(sample: u8) -> i16 {
    i16::from(sample)
}

/// Whether the samples around an edge are near enough to each other to be filtered (8-468).
#[inline(always)]
fn near(p1: i16, p0: i16, q0: i16, q1: i16, alpha: i16, beta: i16) -> bool {
    ((p0 - q0).abs() < alpha) & ((p1 - p0).abs() < beta) & ((q1 - q0).abs() < beta)
}

/// The filter for bS below 4, luma (8.7.2.3).
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
        // Without the filter tc may be negative, which `clamp` does not allow.
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

/// The filter for bS 4, luma (8.7.2.4).
fn luma_strong(lines: &mut LumaLines, thresholds: &Thresholds) {
    let (alpha, beta) = (thresholds.alpha, thresholds.beta);
    for i in 0..16 {
        let (p3, p2, p1, p0) = (
            wide(lines[0][i]),
            wide(lines[1][i]),
            wide(lines[2][i]),
            wide(lines[3][i]),
        );
        let (q0, q1, q2, q3) = (
            wide(lines[4][i]),
            wide(lines[5][i]),
            wide(lines[6][i]),
            wide(lines[7][i]),
        );
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

/// Filters one luma edge with strengths `bs`.
fn luma_edge(lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) {
    // bS 4 is that of a whole edge of a frame macroblock, never of a part of it.
    if bs == 0x4444 {
        luma_strong(lines, thresholds)
    } else {
        luma_normal(lines, &thresholds.tc0_along(bs), thresholds)
    }
}

/// Filters one chroma edge with strengths `bs` of the luma edge in its place.
fn chroma_edge(lines: &mut ChromaLines, bs: u16, thresholds: &Thresholds) {
    let (alpha, beta) = (thresholds.alpha, thresholds.beta);
    let strong = bs == 0x4444;
    let tc0: [i16; 8] = thresholds.tc0_along(bs);
    for i in 0..8 {
        let (p1, p0, q0, q1) = (
            wide(lines[0][i]),
            wide(lines[1][i]),
            wide(lines[2][i]),
            wide(lines[3][i]),
        );
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
}

/// Transposes 16 lines of 16 samples: four rounds of interleaving the two halves.
#[inline(always)]
fn transpose(mut lines: [[u8; 16]; 16]) -> [[u8; 16]; 16] {
    for _ in 0..4 {
        let mut next = [[0; 16]; 16];
        for i in 0..8 {
            let (a, b) = (lines[i], lines[i + 8]);
            for k in 0..8 {
                next[2 * i][2 * k] = a[k];
                next[2 * i][2 * k + 1] = b[k];
                next[2 * i + 1][2 * k] = a[k + 8];
                next[2 * i + 1][2 * k + 1] = b[k + 8];
            }
        }
        lines = next;
    }
    lines
}

/// Stage 3.
pub(super) fn luma<P: Probe>(place: &Place<'_>, probe: &mut P) {
    if place.mb.bs_vertical != [0; 4] {
        luma_vertical(place, probe);
    }
    if place.mb.bs_horizontal != [0; 4] {
        luma_horizontal(place, probe);
    }
}

/// Thresholds of the four edges of one direction; `distance` leads to the macroblock on the far side of the outer one.
fn edge_thresholds(
    place: &Place<'_>,
    plane: usize,
    bs: &[u16; 4],
    distance: usize,
) -> [Option<Thresholds>; 4] {
    let mut thresholds = [None; 4];
    if bs[0] != 0 {
        thresholds[0] = Thresholds::new(place, plane, &place.job.mbs[place.index - distance]);
    }
    if bs[1] | bs[2] | bs[3] != 0 {
        let inner = Thresholds::new(place, plane, place.mb);
        for (thresholds, &bs) in thresholds.iter_mut().zip(bs).skip(1) {
            *thresholds = if bs != 0 { inner } else { None };
        }
    }
    thresholds
}

fn luma_vertical<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let bs = &place.mb.bs_vertical;
    let thresholds = edge_thresholds(place, 0, bs, 1);
    if thresholds.iter().all(Option::is_none) {
        return;
    }
    // Columns of samples as lines: four of the left macroblock, 16 of this one.
    let outer = if bs[0] != 0 { 4 } else { 0 };
    let area = [place.x - outer, place.y, 16 + outer, 16];
    let mut samples = place.job.frame.planes[0].write(area[0], area[1], area[2], area[3]);
    let mut own = [[0; 16]; 16];
    let mut lines = [[0; 16]; 20];
    for (y, own) in own.iter_mut().enumerate() {
        let row = samples.row(y);
        own.copy_from_slice(&row[outer..]);
        for (line, &sample) in lines.iter_mut().zip(&row[..outer]) {
            line[y] = sample;
        }
    }
    lines[4..].copy_from_slice(&transpose(own));
    filter_lines(&mut lines, bs, &thresholds, probe);
    if let Some(columns) = lines.last_chunk::<16>() {
        own = transpose(*columns);
    }
    for (y, own) in own.iter().enumerate() {
        let row = samples.row(y);
        row[outer..].copy_from_slice(own);
        for (line, sample) in lines.iter().zip(&mut row[..outer]) {
            *sample = line[y];
        }
    }
    place.probe_read(probe, &place.job.frame, 0, area);
    place.probe_write(probe, 0, area);
}

fn filter_lines<P: Probe>(
    lines: &mut [[u8; 16]; 20],
    bs: &[u16; 4],
    thresholds: &[Option<Thresholds>; 4],
    probe: &mut P,
) {
    for (edge, thresholds) in thresholds.iter().enumerate() {
        if let (Some(thresholds), Some(lines)) =
            (thresholds, lines[4 * edge..].first_chunk_mut::<8>())
        {
            luma_edge(lines, bs[edge], thresholds);
            probe.computation(16 * 24);
        }
    }
}

fn luma_horizontal<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let bs = &place.mb.bs_horizontal;
    let thresholds = edge_thresholds(place, 0, bs, place.job.mb_width as usize);
    if thresholds.iter().all(Option::is_none) {
        return;
    }
    let plane = &place.job.frame.planes[0];
    let (x, y) = (place.x, place.y);
    let mut own = plane.write(x, y, 16, 16);
    let mut lines = [[0; 16]; 20];
    for (row, line) in lines[4..].iter_mut().enumerate() {
        line.copy_from_slice(own.row(row));
    }
    // The fourth row above is only read: a later picture may already predict from it.
    let mut above = thresholds[0].map(|_| plane.write(x, y - 3, 16, 3));
    if let Some(above) = &mut above {
        lines[0].copy_from_slice(plane.read(x, y - 4, 16, 1).row(0));
        for row in 0..3 {
            lines[1 + row].copy_from_slice(above.row(row));
        }
        place.probe_read(probe, &place.job.frame, 0, [x, y - 4, 16, 4]);
        place.probe_write(probe, 0, [x, y - 3, 16, 3]);
    }
    filter_lines(&mut lines, bs, &thresholds, probe);
    for (row, line) in lines[4..].iter().enumerate() {
        own.row(row).copy_from_slice(line);
    }
    if let Some(above) = &mut above {
        for row in 0..3 {
            above.row(row).copy_from_slice(&lines[1 + row]);
        }
    }
    place.probe_read(probe, &place.job.frame, 0, [x, y, 16, 16]);
    place.probe_write(probe, 0, [x, y, 16, 16]);
}

/// Stages 6 and 7. Chroma has edges at 0 and 4, with the strengths of luma edges 0 and 8.
pub(super) fn chroma<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let samples = &place.job.frame.planes[plane];
    let (x, y, _) = place.area(plane);
    let vertical = edge_thresholds(place, plane, &place.mb.bs_vertical, 1);
    for (edge, thresholds) in vertical.iter().enumerate().step_by(2) {
        let Some(thresholds) = thresholds else {
            continue;
        };
        let area = [x + 2 * edge - 2, y, 4, 8];
        let mut guard = samples.write(area[0], area[1], area[2], area[3]);
        let mut lines: ChromaLines = [[0; 8]; 4];
        for row in 0..8 {
            let from = guard.row(row);
            for k in 0..4 {
                lines[k][row] = from[k];
            }
        }
        chroma_edge(&mut lines, place.mb.bs_vertical[edge], thresholds);
        for row in 0..8 {
            guard.row(row)[1..3].copy_from_slice(&[lines[1][row], lines[2][row]]);
        }
        place.probe_read(probe, &place.job.frame, plane, area);
        place.probe_write(probe, plane, [area[0] + 1, y, 2, 8]);
        probe.computation(8 * 16);
    }
    let horizontal = edge_thresholds(
        place,
        plane,
        &place.mb.bs_horizontal,
        place.job.mb_width as usize,
    );
    for (edge, thresholds) in horizontal.iter().enumerate().step_by(2) {
        let Some(thresholds) = thresholds else {
            continue;
        };
        let edge_y = y + 2 * edge;
        let mut lines: ChromaLines = [[0; 8]; 4];
        let mut guard = samples.write(x, edge_y - 1, 8, 2);
        lines[0].copy_from_slice(samples.read(x, edge_y - 2, 8, 1).row(0));
        lines[1].copy_from_slice(guard.row(0));
        lines[2].copy_from_slice(guard.row(1));
        lines[3].copy_from_slice(samples.read(x, edge_y + 1, 8, 1).row(0));
        chroma_edge(&mut lines, place.mb.bs_horizontal[edge], thresholds);
        guard.row(0).copy_from_slice(&lines[1]);
        guard.row(1).copy_from_slice(&lines[2]);
        place.probe_read(probe, &place.job.frame, plane, [x, edge_y - 2, 8, 4]);
        place.probe_write(probe, plane, [x, edge_y - 1, 8, 2]);
        probe.computation(8 * 16);
    }
}
