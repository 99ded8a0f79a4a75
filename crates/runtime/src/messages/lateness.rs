//! How late a receiver's timers wake it.

use tanada_policy::Time;

/// Follows the lateness that all but one of a thousand sleeps stay below: the timer's own, which the kernel is free to add so that it can
/// handle several timers at once, the processor's, which has to wake up, and that of other threads, which have to make room.
///
/// A sleep that is later raises it by a fixed step, any other lowers it by a thousandth of that. So it needs no memory of earlier sleeps,
/// and a single long pause means little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    usual: Time,
    most: Time,
}

impl Lateness {
    /// In nanoseconds: a few sleeps are enough to find what a machine's timers usually add.
    const UP: Time = 50_000;
    const DOWN: Time = Self::UP / 1_000;

    /// Returns the lateness of timers of which nothing is known; more than `most` is of no use.
    pub(super) fn new(most: Time) -> Lateness {
        Lateness { usual: 0, most }
    }

    /// Returns whether anything is to be followed.
    pub(super) fn matters(&self) -> bool {
        self.most > 0
    }

    /// Takes into account that a sleep was `late`.
    pub(super) fn saw(&mut self, late: Time) {
        self.usual = match late > self.usual {
            // Not beyond what was seen.
            true => (self.usual + Self::UP).min(late).min(self.most),
            false => self.usual.saturating_sub(Self::DOWN),
        };
    }

    /// Returns by how much a timer has to be set earlier.
    pub(super) fn usual(&self) -> Time {
        self.usual
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Sleeps of 40 to 140 us, of which one in `rare` takes 4 ms.
    fn after(sleeps: u64, rare: u64, most: Time) -> Lateness {
        let mut lateness = Lateness::new(most);
        for sleep in 1..=sleeps {
            let late = 40_000 + sleep * 37 % 101 * 1_000;
            lateness.saw(if sleep % rare == 0 { 4_000_000 } else { late });
        }
        lateness
    }

    #[test]
    fn it_comes_close_to_the_latest_of_many_sleeps() {
        let found = after(10_000, u64::MAX, 10_000_000).usual();
        assert!((130_000..=140_000).contains(&found), "{found}");
        assert!(after(20, u64::MAX, 10_000_000).usual() > 100_000);
    }

    #[test]
    fn rare_pauses_count_little_and_frequent_ones_up_to_the_limit() {
        let rare = after(200_000, 20_000, 10_000_000).usual();
        assert!(rare < 200_000, "{rare}");
        assert!(after(200_000, 100, 250_000).usual() > 240_000);
        let frequent = after(200_000, 100, 10_000_000).usual();
        assert!((3_000_000..=4_000_000).contains(&frequent), "{frequent}");
    }

    #[test]
    fn it_falls_again_and_is_never_more_than_of_use() {
        let mut lateness = after(1_000, 2, 250_000);
        assert!(lateness.usual() > 240_000);
        (0..10_000).for_each(|_| lateness.saw(0));
        assert_eq!(lateness.usual(), 0);
        let mut none = Lateness::new(0);
        assert!(!none.matters());
        none.saw(5);
        assert_eq!(none.usual(), 0);
    }
}
