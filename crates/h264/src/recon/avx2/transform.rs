//! Clause 8.5.12: scaling, inverse transform and addition of residuals, for four blocks at once.

use std::arch::x86_64::*;

use crate::plane::Part;
use crate::recon::lanes::{load_array, load_numbers, store, store_numbers};

/// Computes residuals from levels, in place, as the portable form.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn residuals(blocks: &mut [[i16; 16]], scale: &[i16; 16], _ac: u32) {
    let (fours, rest) = blocks.as_chunks_mut::<4>();
    for four in fours {
        four_residuals(four, scale);
    }
    if !rest.is_empty() {
        let mut four = [[0; 16]; 4];
        four[..rest.len()].copy_from_slice(rest);
        four_residuals(&mut four, scale);
        rest.copy_from_slice(&four[..rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn four_residuals(four: &mut [[i16; 16]; 4], scale: &[i16; 16]) {
    let scale = load_numbers(scale);
    // Registers of two blocks, one in each half: `x01` has the lines 0 and 1 of blocks x and z, `y23` the lines 2 and 3 of y and w.
    let [x, y, z, w] = four;
    let scaled = |block: &[i16; 16]| _mm256_mullo_epi16(load_numbers(block), scale);
    let (a, b, c, d) = (scaled(x), scaled(y), scaled(z), scaled(w));
    let x01 = _mm256_permute2x128_si256::<0x20>(a, c);
    let x23 = _mm256_permute2x128_si256::<0x31>(a, c);
    let y01 = _mm256_permute2x128_si256::<0x20>(b, d);
    let y23 = _mm256_permute2x128_si256::<0x31>(b, d);
    // Rows are transformed first. With columns in registers, the numbers of one row have the same position.
    let columns = butterfly(lines(transpose(x01, x23), transpose(y01, y23)));
    let (x, y) = blocks(columns);
    let (x, y) = (transpose(x.0, x.1), transpose(y.0, y.1));
    let rows = butterfly(lines(x, y));
    let half = _mm256_set1_epi16(32);
    let done = |row: __m256i| _mm256_srai_epi16::<6>(_mm256_add_epi16(row, half));
    let rows = [done(rows[0]), done(rows[1]), done(rows[2]), done(rows[3])];
    let ((x01, x23), (y01, y23)) = blocks(rows);
    store_numbers(&mut four[0], _mm256_permute2x128_si256::<0x20>(x01, x23));
    store_numbers(&mut four[1], _mm256_permute2x128_si256::<0x20>(y01, y23));
    store_numbers(&mut four[2], _mm256_permute2x128_si256::<0x31>(x01, x23));
    store_numbers(&mut four[3], _mm256_permute2x128_si256::<0x31>(y01, y23));
}

type Pair = (__m256i, __m256i);

/// Transposes and returns blocks with lines 0 and 1 in one register and lines 2 and 3 in the other.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(l01: __m256i, l23: __m256i) -> Pair {
    let even = _mm256_unpacklo_epi16(l01, l23);
    let odd = _mm256_unpackhi_epi16(l01, l23);
    (
        _mm256_unpacklo_epi16(even, odd),
        _mm256_unpackhi_epi16(even, odd),
    )
}

/// Returns blocks x and y rearranged into registers that hold the same line of both.
#[inline]
#[target_feature(enable = "avx2")]
fn lines(x: Pair, y: Pair) -> [__m256i; 4] {
    [
        _mm256_unpacklo_epi64(x.0, y.0),
        _mm256_unpackhi_epi64(x.0, y.0),
        _mm256_unpacklo_epi64(x.1, y.1),
        _mm256_unpackhi_epi64(x.1, y.1),
    ]
}

/// Reverses [`lines`].
#[inline]
#[target_feature(enable = "avx2")]
fn blocks(lines: [__m256i; 4]) -> (Pair, Pair) {
    (
        (
            _mm256_unpacklo_epi64(lines[0], lines[1]),
            _mm256_unpacklo_epi64(lines[2], lines[3]),
        ),
        (
            _mm256_unpackhi_epi64(lines[0], lines[1]),
            _mm256_unpackhi_epi64(lines[2], lines[3]),
        ),
    )
}

/// Computes the one-dimensional transform of 8.5.12.2.
#[inline]
#[target_feature(enable = "avx2")]
fn butterfly([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let e = _mm256_add_epi16(a, c);
    let f = _mm256_sub_epi16(a, c);
    let g = _mm256_sub_epi16(_mm256_srai_epi16::<1>(b), d);
    let h = _mm256_add_epi16(b, _mm256_srai_epi16::<1>(d));
    [
        _mm256_add_epi16(e, h),
        _mm256_add_epi16(f, g),
        _mm256_sub_epi16(f, g),
        _mm256_sub_epi16(e, h),
    ]
}

/// Adds the residual of a block to four by four samples.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn add_block(part: &mut Part<'_, u8>, residual: &[i16; 16]) {
    let residual = load_numbers(residual);
    let upper = two_rows(part, 0, _mm256_castsi256_si128(residual));
    let lower = two_rows(part, 2, _mm256_extracti128_si256::<1>(residual));
    let rows = _mm_packus_epi16(upper, lower);
    store::<4>(part.row(0), rows);
    store::<4>(part.row(1), _mm_srli_si128::<4>(rows));
    store::<4>(part.row(2), _mm_srli_si128::<8>(rows));
    store::<4>(part.row(3), _mm_srli_si128::<12>(rows));
}

/// Returns two rows of four samples plus their residual, not clipped.
#[inline]
#[target_feature(enable = "avx2")]
fn two_rows(part: &mut Part<'_, u8>, row: usize, residual: __m128i) -> __m128i {
    let upper = load_array::<4>(part.row(row));
    let lower = load_array::<4>(part.row(row + 1));
    let samples = _mm_cvtepu8_epi16(_mm_unpacklo_epi32(upper, lower));
    _mm_adds_epi16(samples, residual)
}
