//! The random numbers that every engine hands to policies, so that a seed means the same everywhere.

use tanada_topology::WorkerId;

/// The increment of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number `call` (from 0) of the random numbers of `worker` under `seed`: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) whose state
/// begins at the finalised (seed, worker), so that workers do not draw the same sequence shifted.
#[inline]
pub fn random(seed: u64, worker: WorkerId, call: u64) -> u64 {
    let start = finalise(seed ^ u64::from(worker.0).wrapping_add(1).wrapping_mul(GAMMA));
    finalise(start.wrapping_add(call.wrapping_add(1).wrapping_mul(GAMMA)))
}

/// SplitMix64's output function.
#[inline]
fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalise_is_splitmix64() {
        // The first outputs for state 0 as published with the algorithm.
        assert_eq!(finalise(GAMMA), 0xe220_a839_7b1d_cdaf);
        assert_eq!(finalise(GAMMA.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn workers_and_calls_draw_different_numbers() {
        let mut seen = std::collections::BTreeSet::new();
        for worker in 0..8 {
            for call in 0..64 {
                assert!(seen.insert(random(0, WorkerId(worker), call)));
            }
        }
    }
}
