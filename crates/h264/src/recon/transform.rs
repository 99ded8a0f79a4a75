//! Clause 8.5: inverse quantisation and inverse transform of residuals, in place in the job, and their addition to the prediction.

use super::Place;
use super::kernels::Kernels;
use crate::job::Kind;
use crate::macroblock::RASTER;
use crate::plane::Part;
use crate::probe::{Operation, Probe, Table};

/// normAdjust4x4 (8-315) by qP % 6: for positions with both coordinates even, both odd, and others.
const NORM_ADJUST: [[i32; 3]; 6] = [
    [10, 16, 13],
    [11, 18, 14],
    [13, 20, 16],
    [14, 23, 18],
    [16, 25, 20],
    [18, 29, 23],
];

/// LevelScale(qP % 6) << (qP / 6) by qP and raster position.
static SCALE: [[i16; 16]; 52] = {
    let mut scale = [[0; 16]; 52];
    let mut i = 0;
    while i < 16 * 52 {
        let (qp, x, y) = (i / 16, i % 4, i / 4 % 4);
        let class = if x % 2 == 0 && y % 2 == 0 {
            0
        } else if x % 2 == 1 && y % 2 == 1 {
            1
        } else {
            2
        };
        scale[qp][i % 16] = (NORM_ADJUST[qp % 6][class] << (qp / 6)) as i16;
        i += 1;
    }
    scale
};

/// [`SCALE`] with factor 1 for DC: for blocks whose DC coefficient is coded separately and is scaled already.
static SCALE_AC: [[i16; 16]; 52] = {
    let mut scale = SCALE;
    let mut qp = 0;
    while qp < 52 {
        scale[qp][0] = 1;
        qp += 1;
    }
    scale
};

/// Returns the factors of a block's levels. `dc_apart`: the DC coefficient is coded separately, so it is not scaled again.
pub(super) fn scale(dc_apart: bool, qp: u8) -> &'static [i16; 16] {
    let scale = if dc_apart { &SCALE_AC } else { &SCALE };
    &scale[usize::from(qp)]
}

// In conforming streams all intermediate values fit into 16 bits (8.5.12). In others they wrap, equally in both forms of the kernels.

/// Computes the one-dimensional transform of 8.5.12.2.
#[inline(always)]
fn butterfly([a, b, c, d]: [i16; 4]) -> [i16; 4] {
    let (e, f) = (a.wrapping_add(c), a.wrapping_sub(c));
    let (g, h) = ((b >> 1).wrapping_sub(d), b.wrapping_add(d >> 1));
    [
        e.wrapping_add(h),
        f.wrapping_add(g),
        f.wrapping_sub(g),
        e.wrapping_sub(h),
    ]
}

/// Computes the inverse transform of scaled coefficients, with rounding.
#[inline(always)]
fn inverse_transform(d: &[i16; 16]) -> [i16; 16] {
    let mut rows = [[0; 4]; 4];
    for (row, d) in rows.iter_mut().zip(d.chunks_exact(4)) {
        *row = butterfly([d[0], d[1], d[2], d[3]]);
    }
    let mut out = [0; 16];
    for x in 0..4 {
        let column = butterfly([rows[0][x], rows[1][x], rows[2][x], rows[3][x]]);
        for (y, value) in column.into_iter().enumerate() {
            out[4 * y + x] = value.wrapping_add(32) >> 6;
        }
    }
    out
}

/// Computes residuals from levels, in place, with the factors `scale`. Blocks whose bit in `ac` is 0 have only a DC coefficient.
pub(super) fn residuals(blocks: &mut [[i16; 16]], scale: &[i16; 16], ac: u32) {
    for (at, levels) in blocks.iter_mut().enumerate() {
        if ac & 1 << at == 0 {
            let dc = levels[0].wrapping_mul(scale[0]);
            *levels = [dc.wrapping_add(32) >> 6; 16];
            continue;
        }
        for (level, &scale) in levels.iter_mut().zip(scale) {
            *level = level.wrapping_mul(scale);
        }
        *levels = inverse_transform(levels);
    }
}

/// Computes the Hadamard transform and scaling of the DC levels of an Intra16x16 macroblock (8.5.10), by raster position of the blocks.
fn luma_dc(levels: &[i32; 16], qp: u8) -> [i32; 16] {
    let hadamard =
        |[a, b, c, d]: [i32; 4]| [a + b + c + d, a + b - c - d, a - b - c + d, a - b + c - d];
    let mut rows = [[0; 4]; 4];
    for (row, d) in rows.iter_mut().zip(levels.chunks_exact(4)) {
        *row = hadamard([d[0], d[1], d[2], d[3]]);
    }
    let scale = 16 * NORM_ADJUST[usize::from(qp % 6)][0];
    let mut out = [0; 16];
    for x in 0..4 {
        let column = hadamard([rows[0][x], rows[1][x], rows[2][x], rows[3][x]]);
        for (y, value) in column.into_iter().enumerate() {
            let shift = i32::from(qp / 6);
            let value = value.wrapping_mul(scale);
            out[4 * y + x] = if qp >= 36 {
                value << (shift - 6)
            } else {
                (value + (1 << (5 - shift))) >> (6 - shift)
            };
        }
    }
    out
}

/// Computes the transform and scaling of the DC levels of one chroma plane (8.5.11).
fn chroma_dc([a, b, c, d]: [i32; 4], qp: u8) -> [i32; 4] {
    let scale = 16 * NORM_ADJUST[usize::from(qp % 6)][0];
    [a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d]
        .map(|f| (f.wrapping_mul(scale) << (qp / 6)) >> 5)
}

/// Computes the residuals of the blocks `first..first + count` (bits of `Mb::coded`) from their levels. If `dc_apart`, `dc` first
/// transforms their DC levels.
fn residual<P: Probe>(
    place: &Place<'_>,
    [first, count]: [u32; 2],
    qp: u8,
    dc: impl FnOnce(&mut [i32; 16]),
    dc_apart: bool,
    probe: &mut P,
) {
    let coded = place.mb.coded >> first & ((1 << count) - 1);
    let blocks = coded.count_ones() as usize;
    if blocks == 0 {
        return;
    }
    let start = place.mb.block_offset(first);
    let mut guard = place.job.coefficients.write(0, start, 1, 16 * blocks);
    let (levels, _) = guard.contiguous().as_chunks_mut::<16>();
    // With separately coded DC levels, either all blocks are coded or none has a DC coefficient.
    if dc_apart && blocks == count as usize {
        let mut dcs = [0; 16];
        for (dc, levels) in dcs.iter_mut().zip(levels.iter()) {
            *dc = i32::from(levels[0]);
        }
        dc(&mut dcs);
        probe.operation(Operation::DcTransform, count);
        for (levels, dc) in levels.iter_mut().zip(dcs) {
            levels[0] = dc as i16;
        }
    }
    let mut ac = 0;
    for (at, bit) in (0..count).filter(|bit| coded & 1 << bit != 0).enumerate() {
        ac |= (place.mb.ac >> (first + bit) & 1) << at;
    }
    Kernels::chosen().residuals(levels, scale(dc_apart, qp), ac);
    let table = if dc_apart {
        Table::ScaleApart
    } else {
        Table::Scale
    };
    probe.read(table.address(32 * usize::from(qp)), 32);
    for at in 0..blocks {
        let address = place.job.coefficient_address(start + 16 * at);
        // Of a block with only a DC coefficient, only that is read.
        let (operation, size) = match ac & 1 << at {
            0 => (Operation::TransformDc, 2),
            _ => (Operation::Transform, 32),
        };
        probe.read(address, size);
        probe.operation(operation, 1);
        probe.write(address, 32);
    }
}

/// Stage 0: computes the luma residual.
pub(super) fn luma_residual<P: Probe>(place: &Place<'_>, probe: &mut P) {
    let qp = place.mb.qp[0];
    let dc = |dcs: &mut [i32; 16]| {
        let mut raster = [0; 16];
        for (&dc, &block) in dcs.iter().zip(&RASTER) {
            raster[usize::from(block)] = dc;
        }
        let scaled = luma_dc(&raster, qp);
        for (dc, &block) in dcs.iter_mut().zip(&RASTER) {
            *dc = scaled[usize::from(block)];
        }
    };
    let dc_apart = place.mb.kind == Kind::Intra16x16;
    residual(place, [0, 16], qp, dc, dc_apart, probe);
}

/// The residual part of stage 4, for plane 1 or 2.
pub(super) fn chroma_residual<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let qp = place.mb.qp[plane];
    let dc = |dcs: &mut [i32; 16]| {
        let scaled = chroma_dc([dcs[0], dcs[1], dcs[2], dcs[3]], qp);
        dcs[..4].copy_from_slice(&scaled);
    };
    residual(place, [12 + 4 * plane as u32, 4], qp, dc, true, probe);
}

/// Adds a row of four residual samples.
#[inline(always)]
pub(super) fn add_row(to: &mut [u8; 4], residual: &[i16]) {
    for (to, &residual) in to.iter_mut().zip(residual) {
        *to = (i16::from(*to).saturating_add(residual)).clamp(0, 255) as u8;
    }
}

/// Adds the residual of a block to a part of four by four samples.
pub(super) fn add_block(part: &mut Part<'_, u8>, residual: &[i16; 16]) {
    for (row, residual) in residual.chunks_exact(4).enumerate() {
        add_row(part.row(row), residual);
    }
}

/// Stages 2 and 5: adds the residual of one plane to the prediction.
pub(super) fn add_residual<P: Probe>(place: &Place<'_>, plane: usize, probe: &mut P) {
    let (first, count) = if plane == 0 {
        (0, 16)
    } else {
        (12 + 4 * plane as u32, 4)
    };
    let coded = place.mb.coded >> first & ((1 << count) - 1);
    let blocks = coded.count_ones() as usize;
    if blocks == 0 {
        return;
    }
    let start = place.mb.block_offset(first);
    let guard = place.job.coefficients.read(0, start, 1, 16 * blocks);
    let (residuals, _) = guard.contiguous().as_chunks::<16>();
    let (left, top, _) = place.area(plane);
    let kernels = Kernels::chosen();
    let mut to = place.write(plane);
    if plane == 0 {
        probe.read(Table::Raster.address(0), 16);
    }
    for (at, bit) in (0..count).filter(|bit| coded & 1 << bit != 0).enumerate() {
        let block = if plane == 0 {
            usize::from(RASTER[bit as usize])
        } else {
            bit as usize
        };
        let width = if plane == 0 { 4 } else { 2 };
        let (x, y) = (block % width * 4, block / width * 4);
        kernels.add_block(&mut to.part(x, y, 4, 4), &residuals[at]);
        probe.read(place.job.coefficient_address(start + 16 * at), 32);
        place.probe_read(probe, &place.job.frame, plane, [left + x, top + y, 4, 4]);
        place.probe_write(probe, plane, [left + x, top + y, 4, 4]);
        probe.operation(Operation::Add, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the transform as a product of matrices in floating point: C^T D C / 64, with the factors 1/2 of the standard.
    fn by_matrices(d: &[i16; 16]) -> [f64; 16] {
        let c = [
            [1.0, 1.0, 1.0, 1.0],
            [1.0, 0.5, -0.5, -1.0],
            [1.0, -1.0, -1.0, 1.0],
            [0.5, -1.0, 1.0, -0.5],
        ];
        std::array::from_fn(|at| {
            let (y, x) = (at / 4, at % 4);
            let sum: f64 = (0..16)
                .map(|i| c[i / 4][y] * f64::from(d[i]) * c[i % 4][x])
                .sum();
            sum / 64.0
        })
    }

    #[test]
    fn inverse_transform_equals_the_matrix_product() {
        let mut state = 1u64;
        for _ in 0..2000 {
            let d = std::array::from_fn(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 52) as i16 - 2048
            });
            let exact = by_matrices(&d);
            for (got, want) in inverse_transform(&d).iter().zip(exact) {
                // Each factor 1/2 rounds down, which loses up to three quarters before the division by 64.
                assert!(
                    (f64::from(*got) - want).abs() < 0.5 + 4.0 / 64.0,
                    "{got} {want}"
                );
            }
        }
    }

    #[test]
    fn dc_alone_equals_the_whole_transform() {
        for scale in &SCALE {
            for level in -40..=40 {
                let mut fast = [[0; 16]];
                fast[0][0] = level;
                let mut slow = fast;
                residuals(&mut fast, scale, 0);
                residuals(&mut slow, scale, 1);
                assert_eq!(fast, slow);
            }
        }
    }

    #[test]
    fn dc_transforms_of_a_constant() {
        // A single DC level spreads evenly; the scaling of 8.5.10 computed by hand for qp 36 and 20.
        let mut levels = [0; 16];
        levels[0] = 3;
        assert_eq!(luma_dc(&levels, 36), [3 * 160; 16]);
        assert_eq!(luma_dc(&levels, 20), [(3 * 13 * 16 + 4) >> 3; 16]);
        assert_eq!(chroma_dc([1, 0, 0, 0], 30), [(160 << 5) >> 5; 4]);
        assert_eq!(
            chroma_dc([1, 2, 3, 4], 0),
            [1600 >> 5, -320 >> 5, -640 >> 5, 0]
        );
    }

    #[test]
    fn scale_of_positions() {
        assert_eq!(&SCALE[0][..8], [10, 13, 10, 13, 13, 16, 13, 16]);
        assert_eq!(SCALE[5][15], 29);
        assert_eq!(SCALE[51][15], 23 << 8);
        assert_eq!(SCALE_AC[17][..2], [1, SCALE[17][1]]);
    }
}
