//! `cutoff`: what programs do by hand: forks near the root only.
//!
//! Rule: with w workers, a closure at a depth above log2(w) + 4, rounded up, is no fork, nor is one of which the program says that it
//! touches less than 4 KiB. Every other fork is exposed. Victims as under `near-first`. So an even tree has 16 to 32 leaves a worker, and
//! an uneven one is left to few workers.

use super::near_first::nearest;
use crate::{Fork, ForkPolicy, Keep, Thief, WorkerId};

/// Levels below those that give each worker a closure.
const LEVELS: u32 = 4;

/// The least footprint of a fork, in bytes; 0 is not known.
const LEAST: u64 = 4096;

/// The policy.
#[derive(Debug)]
pub struct Cutoff;

impl ForkPolicy for Cutoff {
    fn decides(&self) -> bool {
        true
    }

    fn keep(&self, fork: &Fork) -> Keep {
        let levels = u32::from(fork.workers).next_power_of_two().ilog2() + LEVELS;
        match fork.hints.depth > levels || (1..LEAST).contains(&fork.hints.footprint) {
            true => Keep::Plain,
            false => Keep::Exposed,
        }
    }

    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        nearest(thief, steal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hints;

    #[test]
    fn deep_and_small_forks_are_none() {
        let keep = |depth, footprint, workers| {
            let hints = Hints::default().with_depth(depth).with_footprint(footprint);
            Cutoff.keep(&Fork::new(hints, workers))
        };
        assert_eq!(keep(4, 0, 1), Keep::Exposed);
        assert_eq!(keep(5, 0, 1), Keep::Plain);
        assert_eq!(keep(7, 0, 5), Keep::Exposed);
        assert_eq!(keep(8, 0, 5), Keep::Plain);
        assert_eq!(keep(1, 4095, 8), Keep::Plain);
        assert_eq!(keep(1, 4096, 8), Keep::Exposed);
    }
}
