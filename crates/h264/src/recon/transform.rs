//! Clause 8.5: inverse quantisation and transform of residuals, in place in the job, and adding them to the prediction.

use super::Place;
use crate::job::Kind;
use crate::macroblock::RASTER;
use crate::probe::Probe;

/// normAdjust4x4 (8-315) by qP % 6: for positions with both coordinates even, both odd, and others.
const NORM_ADJUST: [[i32; 3]; 6] = [
    [10, 16, 13],
    [11, 18, 14],
    [13, 20, 16],
    [14, 23, 18],
    [16, 25, 20],
    [18, 29, 23],
];

/// [`NORM_ADJUST`] by raster position.
static SCALE: [[i32; 16]; 6] = {
    let mut scale = [[0; 16]; 6];
    let mut i = 0;
    while i < 96 {
        let (x, y) = (i % 4, i / 4 % 4);
        let class = if x % 2 == 0 && y % 2 == 0 {
            0
        } else if x % 2 == 1 && y % 2 == 1 {
            1
        } else {
            2
        };
        scale[i / 16][i % 16] = NORM_ADJUST[i / 16][class];
        i += 1;
    }
    scale
};

/// The one-dimensional transform of 8.5.12.2.
#[inline(always)]
fn butterfly([a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let (e, f, g, h) = (a + c, a - c, (b >> 1) - d, b + (d >> 1));
    [e + h, f + g, f - g, e - h]
}

/// Inverse transform of scaled coefficients, with rounding.
#[inline(always)]
fn inverse_transform(d: &[i32; 16]) -> [i16; 16] {
    let mut rows = [[0; 4]; 4];
    for (row, d) in rows.iter_mut().zip(d.chunks_exact(4)) {
        *row = butterfly([d[0], d[1], d[2], d[3]]);
    }
    let mut out = [0; 16];
    for x in 0..4 {
        let column = butterfly([rows[0][x], rows[1][x], rows[2][x], rows[3][x]]);
        for (y, value) in column.into_iter().enumerate() {
            out[4 * y + x] = ((value + 32) >> 6) as i16;
        }
    }
    out
}

/// Makes the residual of a block of levels. `dc` is the scaled DC coefficient where that is coded apart; without `ac` the
/// block has no other.
fn block(levels: &mut [i16; 16], qp: u8, dc: Option<i32>, ac: bool) {
    let (scale, shift) = (&SCALE[usize::from(qp % 6)], qp / 6);
    // Conforming streams keep scaled coefficients in 16 bits (8.5.12); others wrap instead of growing.
    let wrapped = |value: i32| i32::from(value as i16);
    let dc = wrapped(dc.unwrap_or((i32::from(levels[0]) * scale[0]) << shift));
    if !ac {
        *levels = [((dc + 32) >> 6) as i16; 16];
        return;
    }
    let mut scaled = [0; 16];
    for ((scaled, &level), &scale) in scaled.iter_mut().zip(levels.iter()).zip(scale) {
        *scaled = wrapped((i32::from(level) * scale) << shift);
    }
    scaled[0] = dc;
    *levels = inverse_transform(&scaled);
}

/// Hadamard transform and scaling of the DC levels of an Intra16x16 macroblock (8.5.10), by raster position of the blocks.
fn luma_dc(levels: &[i32; 16], qp: u8) -> [i32; 16] {
    let hadamard =
        |[a, b, c, d]: [i32; 4]| [a + b + c + d, a + b - c - d, a - b - c + d, a - b + c - d];
    let mut rows = [[0; 4]; 4];
    for (row, d) in rows.iter_mut().zip(levels.chunks_exact(4)) {
        *row = hadamard([d[0], d[1], d[2], d[3]]);
    }
    let scale = 16 * SCALE[usize::from(qp % 6)][0];
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

/// The same for chroma (8.5.11).
fn chroma_dc([a, b, c, d]: [i32; 4], qp: u8) -> [i32; 4] {
    let scale = 16 * SCALE[usize::from(qp % 6)][0];
    [a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d]
        .map(|f| (f.wrapping_mul(scale) << (qp / 6)) >> 5)
}

/// Blocks `first..first + count` of the macroblock (bits of `Mb::coded`): makes residuals of their levels. `dc` transforms
/// their DC levels first.
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
    let mut dcs = [0; 16];
    // With a DC apart, either all blocks are there or none has a DC coefficient.
    if dc_apart && blocks == count as usize {
        for (dc, levels) in dcs.iter_mut().zip(levels.iter()) {
            *dc = i32::from(levels[0]);
        }
        dc(&mut dcs);
    }
    for (at, bit) in (0..count).filter(|bit| coded & 1 << bit != 0).enumerate() {
        let ac = place.mb.ac & 1 << (first + bit) != 0;
        block(&mut levels[at], qp, dc_apart.then(|| dcs[bit as usize]), ac);
    }
    probe.read(place.job.coefficient_address(start), 32 * blocks as u32);
    probe.write(place.job.coefficient_address(start), 32 * blocks as u32);
    probe.computation(80 * blocks as u64);
}

/// Stage 0.
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
    residual(
        place,
        [0, 16],
        qp,
        dc,
        place.mb.kind == Kind::Intra16x16,
        probe,
    );
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
        *to = (i16::from(*to).wrapping_add(residual)).clamp(0, 255) as u8;
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
    let mut to = place.write(plane);
    for (at, bit) in (0..count).filter(|bit| coded & 1 << bit != 0).enumerate() {
        let block = if plane == 0 {
            usize::from(RASTER[bit as usize])
        } else {
            bit as usize
        };
        let width = if plane == 0 { 4 } else { 2 };
        let (x, y) = (block % width * 4, block / width * 4);
        for (row, residual) in residuals[at].chunks_exact(4).enumerate() {
            if let Some(to) = to.row(y + row)[x..].first_chunk_mut::<4>() {
                add_row(to, residual);
            }
        }
        probe.read(place.job.coefficient_address(start + 16 * at), 32);
        place.probe_read(probe, &place.job.frame, plane, [left + x, top + y, 4, 4]);
        place.probe_write(probe, plane, [left + x, top + y, 4, 4]);
        probe.computation(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transform as a product of matrices in floating point: C^T D C / 64 with the halves of the standard.
    fn by_matrices(d: &[i32; 16]) -> [f64; 16] {
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
                (state >> 52) as i32 - 2048
            });
            let exact = by_matrices(&d);
            for (got, want) in inverse_transform(&d).iter().zip(exact) {
                // The halves are cut off, which loses up to three quarters before the division by 64.
                assert!(
                    (f64::from(*got) - want).abs() < 0.5 + 4.0 / 64.0,
                    "{got} {want}"
                );
            }
        }
    }

    #[test]
    fn dc_alone_equals_the_whole_transform() {
        for qp in 0..52 {
            for level in -40..=40 {
                let mut fast = [0; 16];
                fast[0] = level;
                let mut slow = fast;
                block(&mut fast, qp, None, false);
                block(&mut slow, qp, None, true);
                assert_eq!(fast, slow);
            }
        }
    }

    #[test]
    fn dc_transforms_of_a_constant() {
        // A lone DC level spreads evenly; scaling of 8.5.10 by hand for qp 36 and 20.
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
    }
}
