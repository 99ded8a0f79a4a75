//! Clause 8.4.2.2: interpolation. Samples are 16-bit numbers throughout. Sums that could overflow are saturated before a shift whose result
//! is clipped anyway.

use std::arch::x86_64::*;

use crate::plane::Part;
use crate::recon::inter::Samples;
use crate::recon::lanes::{load, load_array, load_wide, store};

impl Samples<'_> {
    /// Loads and returns N samples of the row `row` of the block, `above` rows further up, from the block's column on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn row<const N: usize>(&self, row: usize, above: usize) -> __m128i {
        load::<N>(
            self.from,
            self.origin + row * self.stride - above * self.stride,
        )
    }

    /// Loads and returns such a row and the next one, one in each half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn two_rows<const N: usize>(&self, row: usize, above: usize) -> __m256i {
        _mm256_set_m128i(self.row::<N>(row + 1, above), self.row::<N>(row, above))
    }

    fn moved(self, by: usize) -> Self {
        Samples {
            origin: self.origin + by,
            ..self
        }
    }
}

/// How a result is written: as it is.
const ALONE: u8 = 0;
/// How a result is written: averaged with the samples passed along (8-258 and following).
const WITH_SAMPLES: u8 = 1;
/// How a result is written: averaged with what the target already has.
const WITH_TARGET: u8 = 2;

/// Returns shuffle masks of the pairs of bytes (i + a, i + b) for eight i, in a half whose first byte is `lead` bytes before the first
/// sample of the filter.
const fn pairs(mut masks: [u8; 32], half: usize, lead: usize, a: usize, b: usize) -> [u8; 32] {
    let mut i = 0;
    while i < 8 {
        masks[16 * half + 2 * i] = (i + lead + a) as u8;
        masks[16 * half + 2 * i + 1] = (i + lead + b) as u8;
        i += 1;
    }
    masks
}

/// By pair of taps with the same factor: the masks of a half with the bytes from -2 on and one with the bytes from +3 on. Together they
/// hold the 21 bytes that 16 samples need, and no more.
static ONE_ROW: [[u8; 32]; 3] = [
    pairs(pairs([0; 32], 0, 0, 0, 5), 1, 3, 0, 5),
    pairs(pairs([0; 32], 0, 0, 1, 4), 1, 3, 1, 4),
    pairs(pairs([0; 32], 0, 0, 2, 3), 1, 3, 2, 3),
];
/// By pair of taps, the masks of two rows of eight samples, both from -2 on.
static TWO_ROWS: [[u8; 32]; 3] = [
    pairs(pairs([0; 32], 0, 0, 0, 5), 1, 0, 0, 5),
    pairs(pairs([0; 32], 0, 0, 1, 4), 1, 0, 1, 4),
    pairs(pairs([0; 32], 0, 0, 2, 3), 1, 0, 2, 3),
];

/// Returns the six-tap filter of its taps in pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn taps(outer: __m256i, middle: __m256i, inner: __m256i) -> __m256i {
    let sum = _mm256_add_epi16(
        _mm256_maddubs_epi16(outer, _mm256_set1_epi8(1)),
        _mm256_maddubs_epi16(middle, _mm256_set1_epi8(-5)),
    );
    _mm256_add_epi16(sum, _mm256_maddubs_epi16(inner, _mm256_set1_epi8(20)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn taps_of(bytes: __m256i, masks: &[[u8; 32]; 3]) -> __m256i {
    taps(
        _mm256_shuffle_epi8(bytes, load_wide(&masks[0])),
        _mm256_shuffle_epi8(bytes, load_wide(&masks[1])),
        _mm256_shuffle_epi8(bytes, load_wide(&masks[2])),
    )
}

/// Returns (v + 16) >> 5.
#[inline]
#[target_feature(enable = "avx2")]
fn round(sums: __m256i) -> __m256i {
    _mm256_mulhrs_epi16(sums, _mm256_set1_epi16(1 << 10))
}

/// Applies the six-tap filter to sums of the six-tap filter before their rounding, and rounds: (a - 5b + 20c + 512) >> 10.
#[inline]
#[target_feature(enable = "avx2")]
fn taps_of_sums(s: [__m256i; 6]) -> __m256i {
    let a = _mm256_add_epi16(s[0], s[5]);
    let b = _mm256_add_epi16(s[1], s[4]);
    let c = _mm256_add_epi16(s[2], s[3]);
    // Equals ((a - b) / 4 - b + c) / 4 + c; successive divisions that round down equal one division.
    let inner = _mm256_sub_epi16(_mm256_srai_epi16::<2>(_mm256_sub_epi16(a, b)), b);
    let outer = _mm256_srai_epi16::<2>(_mm256_adds_epi16(inner, c));
    let sum = _mm256_add_epi16(outer, _mm256_add_epi16(c, _mm256_set1_epi16(32)));
    _mm256_srai_epi16::<6>(sum)
}

/// Returns two registers of 16 numbers, a row each, packed into two rows of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn pack_rows(upper: __m256i, lower: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi16(upper, lower))
}

/// Writes the rows `row` and `row + 1`, one from each half of `rows`.
#[inline]
#[target_feature(enable = "avx2")]
fn put_two<const W: usize, const WITH: u8>(
    to: &mut Part<'_, u8>,
    row: usize,
    rows: __m256i,
    beside: &Samples<'_>,
) {
    let mut upper = _mm256_castsi256_si128(rows);
    let mut lower = _mm256_extracti128_si256::<1>(rows);
    if WITH == WITH_SAMPLES {
        upper = _mm_avg_epu8(upper, beside.row::<W>(row, 0));
        lower = _mm_avg_epu8(lower, beside.row::<W>(row + 1, 0));
    }
    if WITH == WITH_TARGET {
        upper = _mm_avg_epu8(upper, load_array::<W>(to.row(row)));
        lower = _mm_avg_epu8(lower, load_array::<W>(to.row(row + 1)));
    }
    store::<W>(to.row(row), upper);
    store::<W>(to.row(row + 1), lower);
}

/// Writes half samples between horizontal neighbours (b).
#[inline]
#[target_feature(enable = "avx2")]
fn horizontal<const W: usize, const WITH: u8>(
    to: &mut Part<'_, u8>,
    samples: Samples<'_>,
    beside: Samples<'_>,
) {
    for row in (0..to.height()).step_by(2) {
        let rows = if W == 16 {
            let upper = round(row_sums(&samples, row, 0));
            let lower = round(row_sums(&samples, row + 1, 0));
            pack_rows(upper, lower)
        } else {
            let sums = round(two_row_sums(&samples, [row, row + 1], 0));
            _mm256_packus_epi16(sums, sums)
        };
        put_two::<W, WITH>(to, row, rows, &beside);
    }
}

/// Returns the sums of the filter over 16 columns of a row.
#[inline]
#[target_feature(enable = "avx2")]
fn row_sums(samples: &Samples<'_>, row: usize, above: usize) -> __m256i {
    let at = samples.origin + row * samples.stride - above * samples.stride;
    let bytes = _mm256_set_m128i(
        load::<16>(samples.from, at + 3),
        load::<16>(samples.from, at - 2),
    );
    taps_of(bytes, &ONE_ROW)
}

/// Returns the sums of the filter over 8 columns of two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn two_row_sums(samples: &Samples<'_>, rows: [usize; 2], above: usize) -> __m256i {
    let at = |row: usize| samples.origin + row * samples.stride - above * samples.stride - 2;
    let bytes = _mm256_set_m128i(
        load::<16>(samples.from, at(rows[1])),
        load::<16>(samples.from, at(rows[0])),
    );
    taps_of(bytes, &TWO_ROWS)
}

/// Writes half samples between vertical neighbours (h).
#[inline]
#[target_feature(enable = "avx2")]
fn vertical<const W: usize, const WITH: u8>(
    to: &mut Part<'_, u8>,
    samples: Samples<'_>,
    beside: Samples<'_>,
) {
    // Each register has a row and the next one, so that two rows are computed at once.
    let two = |row: usize| samples.two_rows::<W>(row, 2);
    let mut s = [two(0), two(1), two(2), two(3)];
    for row in (0..to.height()).step_by(2) {
        let [a, b, c, d] = s;
        let (e, f) = (two(row + 4), two(row + 5));
        let low = round(taps(
            _mm256_unpacklo_epi8(a, f),
            _mm256_unpacklo_epi8(b, e),
            _mm256_unpacklo_epi8(c, d),
        ));
        let high = if W == 16 {
            round(taps(
                _mm256_unpackhi_epi8(a, f),
                _mm256_unpackhi_epi8(b, e),
                _mm256_unpackhi_epi8(c, d),
            ))
        } else {
            low
        };
        put_two::<W, WITH>(to, row, _mm256_packus_epi16(low, high), &beside);
        s = [c, d, e, f];
    }
}

/// Writes half samples between four whole samples (j). If `below` is 0 or 1, they are averaged with the half sample between horizontal
/// neighbours that many rows further down; 2: not averaged.
#[inline]
#[target_feature(enable = "avx2")]
fn middle<const W: usize, const WITH: u8>(
    to: &mut Part<'_, u8>,
    samples: Samples<'_>,
    below: usize,
) {
    let beside = samples;
    let mut sums = [_mm256_setzero_si256(); 22];
    if W == 16 {
        for (row, sums) in sums.iter_mut().enumerate().take(to.height() + 5) {
            *sums = row_sums(&samples, row, 2);
        }
    } else {
        // Two rows of eight in a register, each with the next one; the last row is computed twice.
        for row in (0..to.height() + 5).step_by(2) {
            sums[row] = two_row_sums(&samples, [row, (row + 1).min(to.height() + 4)], 2);
        }
        for row in (1..to.height() + 4).step_by(2) {
            sums[row] = _mm256_permute2x128_si256::<0x21>(sums[row - 1], sums[row + 1]);
        }
    }
    for row in (0..to.height()).step_by(2) {
        let of = |row: usize| {
            taps_of_sums([
                sums[row],
                sums[row + 1],
                sums[row + 2],
                sums[row + 3],
                sums[row + 4],
                sums[row + 5],
            ])
        };
        let pack = |a, b| {
            if W == 16 {
                pack_rows(a, b)
            } else {
                _mm256_packus_epi16(a, a)
            }
        };
        let mut rows = pack(
            of(row),
            if W == 16 {
                of(row + 1)
            } else {
                _mm256_setzero_si256()
            },
        );
        if below < 2 {
            let at = row + 2 + below;
            rows = _mm256_avg_epu8(rows, pack(round(sums[at]), round(sums[at + 1])));
        }
        put_two::<W, WITH>(to, row, rows, &beside);
    }
}

/// Interpolates luma samples (8.4.2.2.1).
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn luma<const W: usize>(
    to: &mut Part<'_, u8>,
    samples: Samples<'_>,
    fx: usize,
    fy: usize,
) {
    // The offsets of the nearest column and row: 0 at one quarter, 1 at three quarters.
    let right = samples.moved(fx / 2);
    let below = samples.moved(fy / 2 * samples.stride);
    match (fx, fy) {
        (0, 0) => copy::<W>(to, samples),
        (2, 0) => horizontal::<W, ALONE>(to, samples, samples),
        (_, 0) => horizontal::<W, WITH_SAMPLES>(to, samples, right),
        (0, 2) => vertical::<W, ALONE>(to, samples, samples),
        (0, _) => vertical::<W, WITH_SAMPLES>(to, samples, below),
        (2, 2) => middle::<W, ALONE>(to, samples, 2),
        (2, _) => middle::<W, ALONE>(to, samples, fy / 2),
        (_, 2) => {
            vertical::<W, ALONE>(to, right, right);
            middle::<W, WITH_TARGET>(to, samples, 2);
        }
        _ => {
            horizontal::<W, ALONE>(to, below, below);
            vertical::<W, WITH_TARGET>(to, right, right);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn copy<const W: usize>(to: &mut Part<'_, u8>, samples: Samples<'_>) {
    for row in 0..to.height() {
        store::<W>(to.row(row), samples.row::<W>(row, 0));
    }
}

/// Interpolates chroma samples (8.4.2.2.2) of both planes, one in each half of the registers.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn chroma<const W: usize>(
    cb: &mut Part<'_, u8>,
    cr: &mut Part<'_, u8>,
    from_cb: Samples<'_>,
    from_cr: Samples<'_>,
    fx: usize,
    fy: usize,
) {
    if fx == 0 && fy == 0 {
        copy::<W>(cb, from_cb);
        return copy::<W>(cr, from_cr);
    }
    assert!(from_cb.origin == from_cr.origin && from_cb.stride == from_cr.stride);
    let (stride, mut at) = (from_cb.stride, from_cb.origin);
    // Equal lengths, so that one bounds check serves both.
    let length = from_cb.from.len().min(from_cr.from.len());
    let (samples_cb, samples_cr) = (&from_cb.from[..length], &from_cr.from[..length]);
    // Samples with weight 0 are not read, because they may be outside of what the caller holds.
    let right = usize::from(fx > 0);
    let pairs = |at: usize| {
        let of = |from: &[u8]| _mm_unpacklo_epi8(load::<W>(from, at), load::<W>(from, at + right));
        _mm256_set_m128i(of(samples_cr), of(samples_cb))
    };
    let factors = |y: usize| _mm256_set1_epi16((((8 - fx) * y) | (fx * y) << 8) as i16);
    let (upper_factors, lower_factors) = (factors(8 - fy), factors(fy));
    let mut upper = pairs(at);
    for row in 0..cb.height() {
        at += stride;
        let lower = if fy > 0 || row + 1 < cb.height() {
            pairs(at)
        } else {
            upper
        };
        let sum = _mm256_add_epi16(
            _mm256_maddubs_epi16(upper, upper_factors),
            _mm256_maddubs_epi16(lower, lower_factors),
        );
        // Equals (sum + 32) >> 6.
        let value = _mm256_mulhrs_epi16(sum, _mm256_set1_epi16(1 << 9));
        let value = _mm256_packus_epi16(value, value);
        store::<W>(cb.row(row), _mm256_castsi256_si128(value));
        store::<W>(cr.row(row), _mm256_extracti128_si256::<1>(value));
        upper = lower;
    }
}
