//! Clause 8.7: the deblocking filter, for all samples along an edge at once.

use std::arch::x86_64::*;

use crate::plane::Part;
use crate::recon::deblock::{ChromaLines, LumaLines, STRONG, Thresholds};
use crate::recon::lanes::{load_array, store};

/// Returns |a - b| of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn distance(a: __m128i, b: __m128i) -> __m128i {
    _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a))
}

/// Returns a mask of the bytes of `a` and `b` that differ by less than `limit`, which is at least 1.
#[inline]
#[target_feature(enable = "avx2")]
fn nearer(a: __m128i, b: __m128i, limit: i16) -> __m128i {
    let above = _mm_subs_epu8(distance(a, b), _mm_set1_epi8((limit - 1) as i8));
    _mm_cmpeq_epi8(above, _mm_setzero_si128())
}

/// Returns a mask of the samples that differ so little around the edge that they are filtered (8-468).
#[inline]
#[target_feature(enable = "avx2")]
fn near(p1: __m128i, p0: __m128i, q0: __m128i, q1: __m128i, thresholds: &Thresholds) -> __m128i {
    _mm_and_si128(
        nearer(p0, q0, thresholds.alpha),
        _mm_and_si128(
            nearer(p1, p0, thresholds.beta),
            nearer(q1, q0, thresholds.beta),
        ),
    )
}

/// Returns bS by sample; `along` has the group, of four, of each of 16 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn strengths_along(bs: u16, along: &[u8; 16]) -> __m128i {
    let bs = u32::from(bs);
    let bytes = bs & 0xf | (bs & 0xf0) << 4 | (bs & 0xf00) << 8 | (bs & 0xf000) << 12;
    _mm_shuffle_epi8(_mm_cvtsi32_si128(bytes as i32), load_array(along))
}

static LUMA_GROUPS: [u8; 16] = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];
/// By chroma sample, its group; only the first eight entries are used.
static CHROMA_GROUPS: [u8; 16] = [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3];

/// Returns tC0 by sample.
#[inline]
#[target_feature(enable = "avx2")]
fn tc0_along(strengths: __m128i, thresholds: &Thresholds) -> __m128i {
    let by_strength = _mm_cvtsi32_si128(i32::from_le_bytes(thresholds.tc0));
    _mm_shuffle_epi8(by_strength, strengths)
}

#[inline]
#[target_feature(enable = "avx2")]
fn any(mask: __m128i) -> bool {
    _mm_movemask_epi8(mask) != 0
}

/// Returns `new` for bytes in `mask` and `old` for others.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(old: __m128i, new: __m128i, mask: __m128i) -> __m128i {
    _mm_blendv_epi8(old, new, mask)
}

/// Returns 16 numbers as bytes, clipped.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(wide: __m256i) -> __m128i {
    _mm_packus_epi16(
        _mm256_castsi256_si128(wide),
        _mm256_extracti128_si256::<1>(wide),
    )
}

/// Filters one luma edge with strengths `bs`. Returns whether a sample changed.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn luma_edge(lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) -> bool {
    if bs == STRONG {
        luma_strong(lines, thresholds)
    } else {
        luma_normal(lines, bs, thresholds)
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn luma_normal(lines: &mut LumaLines, bs: u16, thresholds: &Thresholds) -> bool {
    let [_, l2, l1, l0, r0, r1, r2, _] = lines;
    let (p1, p0) = (load_array(l1), load_array(l0));
    let (q0, q1) = (load_array(r0), load_array(r1));
    let strengths = strengths_along(bs, &LUMA_GROUPS);
    let filtered = _mm_cmpgt_epi8(strengths, _mm_setzero_si128());
    let on = _mm_and_si128(near(p1, p0, q0, q1, thresholds), filtered);
    if !any(on) {
        return false;
    }
    let (p2, q2) = (load_array(l2), load_array(r2));
    let ap = _mm_and_si128(nearer(p2, p0, thresholds.beta), on);
    let aq = _mm_and_si128(nearer(q2, q0, thresholds.beta), on);
    let tc0 = tc0_along(strengths, thresholds);
    // A mask is -1, so subtracting it adds 1.
    let tc = _mm_sub_epi8(_mm_sub_epi8(tc0, ap), aq);
    let (p, q) = inner_samples([p1, p0, q0, q1], _mm_and_si128(tc, on));
    store(l0, p);
    store(r0, q);
    let middle = _mm_avg_epu8(p0, q0);
    // p1 (q1) moves towards (p2 + middle) >> 1, by at most tC0.
    let outer = |far: __m128i, old: __m128i, mask: __m128i| {
        let odd = _mm_and_si128(_mm_xor_si128(far, middle), _mm_set1_epi8(1));
        let target = _mm_sub_epi8(_mm_avg_epu8(far, middle), odd);
        let above = _mm_max_epu8(target, _mm_subs_epu8(old, tc0));
        choose(old, _mm_min_epu8(above, _mm_adds_epu8(old, tc0)), mask)
    };
    store(l1, outer(p2, p1, ap));
    store(r1, outer(q2, q1, aq));
    true
}

/// Returns p0 and q0 filtered with bS below 4; samples whose `tc` is 0 stay unchanged.
#[inline]
#[target_feature(enable = "avx2")]
fn inner_samples([p1, p0, q0, q1]: [__m128i; 4], tc: __m128i) -> (__m128i, __m128i) {
    let wide = |bytes: __m128i| _mm256_cvtepu8_epi16(bytes);
    let (p1, p0, q0, q1, tc) = (wide(p1), wide(p0), wide(q0), wide(q1), wide(tc));
    let across = _mm256_slli_epi16::<2>(_mm256_sub_epi16(q0, p0));
    let sum = _mm256_add_epi16(across, _mm256_sub_epi16(p1, q1));
    let delta = _mm256_srai_epi16::<3>(_mm256_add_epi16(sum, _mm256_set1_epi16(4)));
    let least = _mm256_sub_epi16(_mm256_setzero_si256(), tc);
    let delta = _mm256_max_epi16(_mm256_min_epi16(delta, tc), least);
    (
        bytes(_mm256_add_epi16(p0, delta)),
        bytes(_mm256_sub_epi16(q0, delta)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn luma_strong(lines: &mut LumaLines, thresholds: &Thresholds) -> bool {
    let line = |i: usize| load_array(&lines[i]);
    let (p3, p2, p1, p0) = (line(0), line(1), line(2), line(3));
    let (q0, q1, q2, q3) = (line(4), line(5), line(6), line(7));
    let on = near(p1, p0, q0, q1, thresholds);
    if !any(on) {
        return false;
    }
    let close = _mm_and_si128(on, nearer(p0, q0, (thresholds.alpha >> 2) + 2));
    let ap = _mm_and_si128(close, nearer(p2, p0, thresholds.beta));
    let aq = _mm_and_si128(close, nearer(q2, q0, thresholds.beta));
    let p = strong_side([p3, p2, p1, p0], q0, q1, on, ap);
    let q = strong_side([q3, q2, q1, q0], p0, p1, on, aq);
    for i in 0..3 {
        store(&mut lines[1 + i], p[i]);
        store(&mut lines[6 - i], q[i]);
    }
    true
}

/// Returns p2, p1 and p0 filtered with bS 4; all three change for samples in `strongly`, else only p0.
#[inline]
#[target_feature(enable = "avx2")]
fn strong_side(
    p: [__m128i; 4],
    q0: __m128i,
    q1: __m128i,
    on: __m128i,
    strongly: __m128i,
) -> [__m128i; 3] {
    let wide = |bytes: __m128i| _mm256_cvtepu8_epi16(bytes);
    let add = |a: __m256i, b: __m256i| _mm256_add_epi16(a, b);
    let [p3, p2, p1, p0] = [wide(p[0]), wide(p[1]), wide(p[2]), wide(p[3])];
    let (q0, q1, two) = (wide(q0), wide(q1), _mm256_set1_epi16(2));
    // (2 * p1 + p0 + q1 + 2) >> 2
    let weak = add(add(p1, p1), add(add(p0, q1), two));
    let weak = bytes(_mm256_srli_epi16::<2>(weak));
    // p2 + p1 + p0 + q0 + 2
    let sum = add(add(p2, p1), add(add(p0, q0), two));
    let new1 = bytes(_mm256_srli_epi16::<2>(sum));
    // (2 * p3 + 3 * p2 + p1 + p0 + q0 + 4) >> 3
    let new2 = add(add(add(p3, p3), add(p2, p2)), add(sum, two));
    let new2 = bytes(_mm256_srli_epi16::<3>(new2));
    // (p2 + 2 * p1 + 2 * p0 + 2 * q0 + q1 + 4) >> 3
    let new0 = add(add(sum, add(p1, p0)), add(add(q0, q1), two));
    let new0 = bytes(_mm256_srli_epi16::<3>(new0));
    [
        choose(p[1], new2, strongly),
        choose(p[2], new1, strongly),
        choose(choose(p[3], weak, on), new0, strongly),
    ]
}

/// Filters one chroma edge with strengths `bs` of the luma edge at the same position. Returns whether a sample changed.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn chroma_edge(
    lines: &mut ChromaLines,
    bs: u16,
    thresholds: &Thresholds,
) -> bool {
    let [l1, l0, r0, r1] = lines;
    let (p1, p0) = (load_array(l1), load_array(l0));
    let (q0, q1) = (load_array(r0), load_array(r1));
    let strengths = strengths_along(bs, &CHROMA_GROUPS);
    let filtered = _mm_cmpgt_epi8(strengths, _mm_setzero_si128());
    let on = _mm_and_si128(near(p1, p0, q0, q1, thresholds), filtered);
    if !any(_mm_move_epi64(on)) {
        return false;
    }
    if bs == STRONG {
        // (2 * p1 + p0 + q1 + 2) >> 2: the mean of p1 and the mean, rounded down, of p0 and q1.
        let weak = |p1: __m128i, p0: __m128i, q1: __m128i| {
            let odd = _mm_and_si128(_mm_xor_si128(p0, q1), _mm_set1_epi8(1));
            _mm_avg_epu8(p1, _mm_sub_epi8(_mm_avg_epu8(p0, q1), odd))
        };
        store(l0, choose(p0, weak(p1, p0, q1), on));
        store(r0, choose(q0, weak(q1, q0, p1), on));
    } else {
        let tc0 = tc0_along(strengths, thresholds);
        let tc = _mm_and_si128(_mm_add_epi8(tc0, _mm_set1_epi8(1)), on);
        let (p, q) = inner_samples([p1, p0, q0, q1], tc);
        store(l0, p);
        store(r0, q);
    }
    true
}

/// Loads columns 0 to 7 of 16 rows as lines.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn luma_columns(part: &mut Part<'_, u8>, lines: &mut LumaLines) {
    let mut row = |i: usize| load_array::<8>(part.row(i));
    // Each round interleaves the two halves of the 128 bytes.
    let mut a = [_mm_setzero_si128(); 8];
    for (i, a) in a.iter_mut().enumerate() {
        *a = _mm_unpacklo_epi8(row(i), row(i + 8));
    }
    let a = interleave(interleave(interleave(a)));
    for (line, a) in lines.iter_mut().zip(a) {
        store(line, a);
    }
}

/// Stores what [`luma_columns`] loads.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn set_luma_columns(part: &mut Part<'_, u8>, lines: &LumaLines) {
    let mut a = [_mm_setzero_si128(); 8];
    for (a, line) in a.iter_mut().zip(lines) {
        *a = load_array(line);
    }
    let a = interleave(interleave(interleave(a)));
    for (i, a) in a.into_iter().enumerate() {
        store::<8>(part.row(2 * i), a);
        store::<8>(part.row(2 * i + 1), _mm_unpackhi_epi64(a, a));
    }
}

/// Returns the bytes of the two halves of the 128 bytes in turns.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave(a: [__m128i; 8]) -> [__m128i; 8] {
    [
        _mm_unpacklo_epi8(a[0], a[4]),
        _mm_unpackhi_epi8(a[0], a[4]),
        _mm_unpacklo_epi8(a[1], a[5]),
        _mm_unpackhi_epi8(a[1], a[5]),
        _mm_unpacklo_epi8(a[2], a[6]),
        _mm_unpackhi_epi8(a[2], a[6]),
        _mm_unpacklo_epi8(a[3], a[7]),
        _mm_unpackhi_epi8(a[3], a[7]),
    ]
}

/// Filters the edge in the middle of eight columns of luma.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn luma_column_edge(
    part: &mut Part<'_, u8>,
    bs: u16,
    thresholds: &Thresholds,
) {
    let mut lines = [[0; 16]; 8];
    luma_columns(part, &mut lines);
    if luma_edge(&mut lines, bs, thresholds) {
        set_luma_columns(part, &lines);
    }
}

/// Filters the edge in the middle of four columns of chroma.
#[target_feature(enable = "avx2")]
pub(in crate::recon) fn chroma_column_edge(
    part: &mut Part<'_, u8>,
    bs: u16,
    thresholds: &Thresholds,
) {
    let mut two_rows = |i: usize| {
        let upper = load_array::<4>(part.row(i));
        let lower = load_array::<4>(part.row(i + 1));
        _mm_unpacklo_epi32(upper, lower)
    };
    let mut four_rows = |i: usize| _mm_unpacklo_epi64(two_rows(i), two_rows(i + 2));
    let interleave = |(a, b)| (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
    let (p, q) = interleave(interleave(interleave((four_rows(0), four_rows(4)))));
    let mut lines = [[0; 8]; 4];
    for (i, line) in [p, _mm_unpackhi_epi64(p, p), q, _mm_unpackhi_epi64(q, q)]
        .into_iter()
        .enumerate()
    {
        store(&mut lines[i], line);
    }
    if !chroma_edge(&mut lines, bs, thresholds) {
        return;
    }
    let two_lines = |i: usize| _mm_unpacklo_epi64(load_array(&lines[i]), load_array(&lines[i + 1]));
    let (upper, lower) = interleave(interleave((two_lines(0), two_lines(2))));
    for (i, four) in [upper, lower].into_iter().enumerate() {
        store::<4>(part.row(4 * i), four);
        store::<4>(part.row(4 * i + 1), _mm_srli_si128::<4>(four));
        store::<4>(part.row(4 * i + 2), _mm_srli_si128::<8>(four));
        store::<4>(part.row(4 * i + 3), _mm_srli_si128::<12>(four));
    }
}
