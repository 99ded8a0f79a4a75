//! The random numbers that every engine hands to policies.

use crate::WorkerId;

/// The random number that [`Env::random`](crate::Env::random) returns at `worker`'s call number `call` (counted from 0): output number
/// `call` of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) with the initial state seed + 2^32 x worker.
///
/// ```
/// # use tanada_policy::{WorkerId, draw};
/// assert_eq!(draw(0, WorkerId(0), 0), 0xe220_a839_7b1d_cdaf); // the generator's published first output
/// ```
#[inline]
pub fn draw(seed: u64, worker: WorkerId, call: u64) -> u64 {
    let start = seed.wrapping_add(u64::from(worker.0) << 32);
    let mut z = start.wrapping_add(call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
