//! Measures of how near our figures are to the published ones.

/// Returns by how many percent `fast` is faster than `slow`; both are times.
pub(crate) fn gain(slow: f64, fast: f64) -> f64 {
    (slow / fast - 1.0) * 100.0
}

/// A published figure and ours of the same, in one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    /// As published.
    pub(crate) published: f64,
    /// Ours.
    pub(crate) ours: f64,
}

/// Pairs of items that are far enough apart in print to have an order, and how many of them have the same order with us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// Pairs in the same order. Equal figures of ours have none.
    pub(crate) alike: u64,
    /// Pairs compared.
    pub(crate) of: u64,
}

impl Agreement {
    /// Compares every pair of `items` whose published figures differ by more than `apart`, and returns how many agree.
    pub(crate) fn among(items: &[Pair], apart: f64) -> Agreement {
        let mut found = Agreement::default();
        for (index, a) in items.iter().enumerate() {
            for b in &items[index + 1..] {
                let published = a.published - b.published;
                if published.abs() > apart {
                    found.of += 1;
                    found.alike += u64::from((a.ours - b.ours) * published > 0.0);
                }
            }
        }
        found
    }

    /// Returns the sum of both.
    pub(crate) fn and(self, other: Agreement) -> Agreement {
        Agreement {
            alike: self.alike + other.alike,
            of: self.of + other.of,
        }
    }

    /// Returns the share of pairs in the same order, from 0 to 1; `None` if nothing was compared.
    pub(crate) fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.alike as f64 / self.of as f64)
    }
}

/// Returns the mean of the absolute differences; `None` of no items.
pub(crate) fn mean_abs_error(items: &[Pair]) -> Option<f64> {
    let sum: f64 = items
        .iter()
        .map(|one| (one.ours - one.published).abs())
        .sum();
    (!items.is_empty()).then(|| sum / items.len() as f64)
}

/// A gain over sampled pictures, and how far it may be from that of all pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampled {
    /// Percent, of the sums over all sampled pictures.
    pub(crate) gain: f64,
    /// Its standard error in points, by leaving out one picture after the other (the jackknife), with the correction for a sample that
    /// is a good part of all pictures. `None` of a single picture.
    pub(crate) error: Option<f64>,
}

impl Sampled {
    /// Returns the gain of `fast` over `slow`: times of the same pictures, a sample of `all`.
    ///
    /// # Panics
    /// If there is no picture, or `slow` and `fast` differ in length.
    pub(crate) fn of(slow: &[f64], fast: &[f64], all: u64) -> Sampled {
        assert_eq!(slow.len(), fast.len(), "the same pictures");
        let count = slow.len();
        let [sum_slow, sum_fast] = [slow, fast].map(|times| times.iter().sum::<f64>());
        let whole = gain(sum_slow, sum_fast);
        let error = (count > 1).then(|| {
            let without: Vec<f64> = (0..count)
                .map(|one| gain(sum_slow - slow[one], sum_fast - fast[one]))
                .collect();
            let mean = without.iter().sum::<f64>() / count as f64;
            let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
            let n = count as f64;
            let left_out = (1.0 - n / all as f64).max(0.0);
            ((n - 1.0) / n * squares * left_out).sqrt()
        });
        Sampled { gain: whole, error }
    }
}

/// Returns the Pareto front of `points` as indices in order: the points that no other point beats. A point beats another one if it is
/// nowhere larger and in one coordinate smaller.
pub(crate) fn pareto<const N: usize>(points: &[[f64; N]]) -> Vec<usize> {
    let beats = |a: &[f64; N], b: &[f64; N]| {
        a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b)
    };
    (0..points.len())
        .filter(|&one| !points.iter().any(|other| beats(other, &points[one])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<const N: usize>(of: [(f64, f64); N]) -> [Pair; N] {
        of.map(|(published, ours)| Pair { published, ours })
    }

    #[test]
    fn a_gain_is_a_ratio_of_speeds() {
        assert_eq!(gain(300.0, 200.0), 50.0);
        assert_eq!(gain(100.0, 200.0), -50.0);
    }

    #[test]
    fn only_what_is_apart_in_print_is_ordered() {
        // 0 and 4 are too close; of the other five pairs one is ordered otherwise, one is equal with us.
        let items = pairs([(0.0, 1.0), (4.0, 0.0), (10.0, 2.0), (20.0, 2.0)]);
        let found = Agreement::among(&items, 5.0);
        assert_eq!(found, Agreement { alike: 4, of: 5 });
        let reversed = pairs([(0.0, 1.0), (10.0, 0.0)]);
        let both = found.and(Agreement::among(&reversed, 5.0));
        assert_eq!(both, Agreement { alike: 4, of: 6 });
        assert_eq!(both.share(), Some(4.0 / 6.0));
        assert_eq!(Agreement::among(&items[..2], 5.0).share(), None);
        // Exactly as far apart as stated is not further.
        assert_eq!(
            Agreement::among(&pairs([(0.0, 0.0), (5.0, 1.0)]), 5.0).of,
            0
        );
    }

    #[test]
    fn errors_are_absolute() {
        assert_eq!(mean_abs_error(&pairs([(1.0, 4.0), (10.0, 5.0)])), Some(4.0));
        assert_eq!(mean_abs_error(&[]), None);
    }

    #[test]
    fn the_error_of_a_sample_is_that_of_the_jackknife() {
        let equal = Sampled::of(&[3.0, 6.0, 9.0], &[2.0, 4.0, 6.0], 128);
        assert!((equal.gain - 50.0).abs() < 1e-9);
        assert!(
            equal.error.is_some_and(|error| error < 1e-9),
            "each picture says the same"
        );
        assert_eq!(Sampled::of(&[3.0], &[2.0], 128).error, None);

        // Equal times of one policy: the gain is a mean, and the jackknife of a mean is its standard error.
        let slow = [10.0, 12.0, 14.0, 16.0];
        let found = Sampled::of(&slow, &[10.0; 4], 1_000_000_000);
        let percent = slow.map(|time| time * 10.0 - 100.0);
        let mean = percent.iter().sum::<f64>() / 4.0;
        let variance = percent.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 3.0;
        assert!((found.gain - mean).abs() < 1e-9);
        assert!((found.error.expect("of four") - (variance / 4.0).sqrt()).abs() < 1e-6);
        // A sample of all pictures has no error.
        assert_eq!(Sampled::of(&slow, &[10.0; 4], 4).error, Some(0.0));
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let points = [[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [5.0, 1.0], [2.0, 2.0]];
        assert_eq!(pareto(&points), [0, 1, 3, 4]);
        assert_eq!(pareto::<2>(&[]), [0usize; 0]);
    }
}
