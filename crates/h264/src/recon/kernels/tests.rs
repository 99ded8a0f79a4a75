//! All forms of the innermost loops compute the same samples.

use proptest::prelude::*;

use super::*;
use crate::plane::{Shared, Write};

const SIZE: usize = 48;

/// Noise, noise of the two extreme values, or both.
fn samples() -> impl Strategy<Value = Vec<u8>> {
    let extreme = prop_oneof![Just(0u8), Just(255u8)];
    prop_oneof![
        prop::collection::vec(any::<u8>(), SIZE * SIZE),
        prop::collection::vec(extreme.clone(), SIZE * SIZE),
        prop::collection::vec(prop_oneof![any::<u8>(), extreme], SIZE * SIZE),
    ]
}

/// The strengths of an edge.
fn strengths() -> impl Strategy<Value = u16> {
    let normal = prop::array::uniform4(0..4u16);
    prop_oneof![
        Just(deblock::STRONG),
        normal.prop_map(|[a, b, c, d]| a | b << 4 | c << 8 | d << 12),
    ]
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let tc0 = prop::array::uniform3(0..=25u8);
    (4..=255i16, 2..=18i16, tc0).prop_map(|(alpha, beta, [one, two, three])| Thresholds {
        alpha,
        beta,
        tc0: [0, one, two, three],
    })
}

/// Mostly samples near to each other, since others are not filtered.
fn near_samples() -> impl Strategy<Value = Vec<u8>> {
    let far = prop_oneof![Just(0u8), Just(20), Just(80)];
    (0..232u8, far).prop_flat_map(|(base, far)| {
        let sample = (0..24u8, any::<u8>(), any::<u8>());
        let choose = move |(near, other, which)| if which < far { other } else { base + near };
        prop::collection::vec(sample.prop_map(choose), 256)
    })
}

/// Runs each form on a macroblock that holds `before`, and compares the results.
fn all_same(before: &[u8], f: impl Fn(Kernels, &mut Write<'_, u8>)) {
    let of = |kernels| {
        let mut plane = Shared::<u8>::new(16, 16);
        plane.as_mut_slice().copy_from_slice(&before[..256]);
        f(kernels, &mut plane.write(0, 0, 16, 16));
        plane.as_mut_slice().to_vec()
    };
    let portable = of(Kernels::Portable);
    for kernels in Kernels::all() {
        assert_eq!(of(kernels), portable, "{kernels:?}");
    }
}

fn luma(from: &[u8], [x, y, w, h]: [usize; 4], origin: usize, (fx, fy): (usize, usize)) {
    // Exactly the samples that the caller must hold.
    let rows = if fy > 0 { h + 2 } else { h - 1 };
    let columns = if fx > 0 { (w + 3).max(14) } else { w };
    let from = Samples {
        from: &from[..origin + rows * SIZE + columns],
        stride: SIZE,
        origin,
    };
    all_same(&[100; 256], |kernels, to| {
        let to = &mut to.part(x, y, w, h);
        match w {
            16 => kernels.luma::<16>(to, from, fx, fy),
            8 => kernels.luma::<8>(to, from, fx, fy),
            _ => kernels.luma::<4>(to, from, fx, fy),
        }
    });
}

fn chroma(from: &[u8], [x, y, w, h]: [usize; 4], origin: usize, (fx, fy): (usize, usize)) {
    let rows = if fy > 0 { h } else { h - 1 };
    let columns = if fx > 0 { w + 1 } else { w };
    let from = |first: usize| Samples {
        from: &from[first..first + origin + rows * SIZE + columns],
        stride: SIZE,
        origin,
    };
    let (from_cb, from_cr) = (from(0), from(SIZE * SIZE / 2));
    all_same(&[100; 256], |kernels, to| {
        let other = Shared::<u8>::new(16, 8);
        let mut guard = other.write(0, 0, 16, 8);
        let (cb, cr) = (&mut to.part(x, y, w, h), &mut guard.part(x, y, w, h));
        match w {
            8 => kernels.chroma::<8>(cb, cr, from_cb, from_cr, fx, fy),
            4 => kernels.chroma::<4>(cb, cr, from_cb, from_cr, fx, fy),
            _ => kernels.chroma::<2>(cb, cr, from_cb, from_cr, fx, fy),
        }
        for row in 0..8 {
            to.row(8 + row).copy_from_slice(guard.row(row));
        }
    });
}

fn edges(samples: &[u8], bs: u16, thresholds: &Thresholds) {
    let rows = |first: usize, i: usize, j: usize| samples[16 * (first + i) + j];
    all_same(samples, |kernels, to| {
        let mut lines: LumaLines = std::array::from_fn(|i| std::array::from_fn(|j| rows(0, i, j)));
        let before = lines;
        // The result "nothing changed" must be true.
        assert!(kernels.luma_edge(&mut lines, bs, thresholds) || lines == before);
        let mut chroma: ChromaLines =
            std::array::from_fn(|i| std::array::from_fn(|j| rows(8, i, j)));
        let before = chroma;
        assert!(kernels.chroma_edge(&mut chroma, bs, thresholds) || chroma == before);
        for (i, line) in lines.iter().enumerate() {
            to.row(i).copy_from_slice(line);
        }
        for (i, line) in chroma.iter().enumerate() {
            to.row(8 + i)[..8].copy_from_slice(line);
        }
    });
    all_same(samples, |kernels, to| {
        kernels.luma_column_edge(&mut to.part(1, 0, 8, 16), bs, thresholds);
        kernels.chroma_column_edge(&mut to.part(11, 3, 4, 8), bs, thresholds);
    });
}

fn columns(samples: &[u8], x: usize) {
    for kernels in Kernels::all() {
        let mut plane = Shared::<u8>::new(16, 16);
        plane.as_mut_slice().copy_from_slice(&samples[..256]);
        let mut lines = [[0; 16]; 8];
        let mut guard = plane.write(0, 0, 16, 16);
        kernels.luma_columns(&mut guard.part(x, 0, 8, 16), &mut lines);
        drop(guard);
        for (column, line) in lines.iter().enumerate() {
            for (row, &sample) in line.iter().enumerate() {
                assert_eq!(sample, samples[16 * row + x + column]);
            }
        }
        let back = Shared::<u8>::new(16, 16);
        let mut guard = back.write(0, 0, 16, 16);
        kernels.set_luma_columns(&mut guard.part(x, 0, 8, 16), &lines);
        drop(guard);
        for row in 0..16 {
            let guard = back.read(x, row, 8, 1);
            assert_eq!(guard.row(0), &samples[16 * row + x..][..8]);
        }
    }
}

fn transforms(levels: &[i16], blocks: usize, qp: usize, dc_apart: bool, ac: u32) {
    let mut levels: Vec<[i16; 16]> = levels.as_chunks().0[..blocks].to_vec();
    for (at, levels) in levels.iter_mut().enumerate() {
        if ac & 1 << at == 0 {
            levels[1..].fill(0);
        }
    }
    let scale = transform::scale(dc_apart, qp as u8);
    let of = |kernels: Kernels| {
        let mut levels = levels.clone();
        kernels.residuals(&mut levels, scale, ac);
        levels
    };
    let portable = of(Kernels::Portable);
    for kernels in Kernels::all() {
        assert_eq!(of(kernels), portable, "{kernels:?}");
    }
}

proptest! {
    #[test]
    fn interpolation(
        from in samples(),
        (x, y) in (0..9usize, 0..9usize),
        (origin_x, origin_y) in (2..20usize, 2..25usize),
        shape in 0..7usize,
    ) {
        let (w, h) = [(16, 16), (16, 8), (8, 16), (8, 8), (8, 4), (4, 8), (4, 4)][shape];
        for fraction in (0..16).map(|i| (i % 4, i / 4)) {
            luma(&from, [x.min(16 - w), y.min(16 - h), w, h], origin_y * SIZE + origin_x, fraction);
        }
    }

    #[test]
    fn chroma_interpolation(
        from in samples(),
        (x, y) in (0..7usize, 0..7usize),
        origin in 0..20usize,
        shape in 0..7usize,
    ) {
        let (w, h) = [(8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 4), (2, 2)][shape];
        for fraction in (0..64).map(|i| (i % 8, i / 8)) {
            chroma(&from, [x, y.min(8 - h), w, h], origin, fraction);
        }
    }

    #[test]
    fn deblocking(samples in near_samples(), bs in strengths(), thresholds in thresholds()) {
        edges(&samples, bs, &thresholds);
    }

    #[test]
    fn columns_become_lines_and_come_back(samples in samples(), x in 0..9usize) {
        columns(&samples, x);
    }

    #[test]
    fn residuals(
        levels in prop::collection::vec(prop_oneof![-40..40i16, any::<i16>(), Just(i16::MIN), Just(i16::MAX)], 256),
        blocks in 1..=16usize,
        qp in 0..52usize,
        dc_apart in any::<bool>(),
        ac in any::<u32>(),
    ) {
        transforms(&levels, blocks, qp, dc_apart, ac);
    }

    #[test]
    fn addition(
        samples in samples(),
        residual in prop::array::uniform16(prop_oneof![-600..600i16, Just(i16::MIN), Just(i16::MAX)]),
        (x, y) in (0..13usize, 0..13usize),
    ) {
        all_same(&samples, |kernels, to| kernels.add_block(&mut to.part(x, y, 4, 4), &residual));
    }
}
