//! Numbers as `kernels/kernel.h` and `kernels/fft.c` compute them: equal bit for bit.

/// A seeded sequence of random numbers, of which any place can be drawn at any time: SplitMix64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// Returns the number at a place of the sequence.
    #[inline]
    pub(crate) fn at(self, place: u64) -> u64 {
        let step = place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0.wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns the number at a place as a number from 0 to below 1, with 31 random bits.
    #[inline]
    pub(crate) fn unit(self, place: u64) -> f64 {
        (self.at(place) >> 33) as f64 * (1.0 / 2_147_483_648.0)
    }
}

/// Returns sin(pi/4 * t) for t from 0 to 1, by Taylor's series.
fn sine(t: f64) -> f64 {
    let a = t * std::f64::consts::FRAC_PI_4;
    let s = a * a;
    let mut sum = -1.0 / 1_307_674_368_000.0;
    sum = sum * s + 1.0 / 6_227_020_800.0;
    sum = sum * s - 1.0 / 39_916_800.0;
    sum = sum * s + 1.0 / 362_880.0;
    sum = sum * s - 1.0 / 5_040.0;
    sum = sum * s + 1.0 / 120.0;
    sum = sum * s - 1.0 / 6.0;
    a + a * s * sum
}

/// Returns cos(pi/4 * t) for t from 0 to 1.
fn cosine(t: f64) -> f64 {
    let a = t * std::f64::consts::FRAC_PI_4;
    let s = a * a;
    let mut sum = 1.0 / 20_922_789_888_000.0;
    sum = sum * s - 1.0 / 87_178_291_200.0;
    sum = sum * s + 1.0 / 479_001_600.0;
    sum = sum * s - 1.0 / 3_628_800.0;
    sum = sum * s + 1.0 / 40_320.0;
    sum = sum * s - 1.0 / 720.0;
    sum = sum * s + 1.0 / 24.0;
    sum = sum * s - 0.5;
    1.0 + s * sum
}

/// Returns sin(2 pi k / n), for `n` a power of two of at least 8. The standard library's last bit differs between processors.
pub(crate) fn sine_of(k: usize, n: usize) -> f64 {
    let (eighth, k) = (n / 8, k % n);
    let rest = k % eighth;
    let up = rest as f64 / eighth as f64;
    let down = (eighth - rest) as f64 / eighth as f64;
    match k / eighth {
        0 => sine(up),
        1 => cosine(down),
        2 => cosine(up),
        3 => sine(down),
        4 => -sine(up),
        5 => -cosine(down),
        6 => -cosine(up),
        _ => -sine(down),
    }
}

/// Returns cos(2 pi k / n).
pub(crate) fn cosine_of(k: usize, n: usize) -> f64 {
    sine_of(k + n / 4, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_are_right_to_the_last_bits() {
        for n in [8, 16, 1024] {
            for k in 0..n {
                let angle = std::f64::consts::TAU * k as f64 / n as f64;
                assert!((sine_of(k, n) - angle.sin()).abs() < 1e-15, "{k} of {n}");
                assert!((cosine_of(k, n) - angle.cos()).abs() < 1e-15, "{k} of {n}");
            }
        }
    }

    #[test]
    fn random_numbers_differ_by_seed_and_place() {
        let mut all: Vec<u64> = (0..100)
            .flat_map(|seed| (0..100).map(move |place| Random::new(seed).at(place)))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }
}
