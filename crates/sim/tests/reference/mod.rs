//! A second simulator, written from the text of the design alone (its section on the exact rules) and as plainly as it goes: every cache
//! set is a list, every policy a list of ready tasks and a scan over it. It shares no code with the product and is slow on purpose.
//!
//! What the text leaves open is decided here as follows (and held to in the product by comparison):
//!
//! - a fill takes the free way of the lowest number (only `random` shows it);
//! - a dirty victim looks for its line in the deeper levels of the path of the touch that drives it out;
//! - an edge that was declared twice counts at its first declaration;
//! - the bound is max((least times + unavoidable misses) / cores, rounded up, longest way of least times); the least time of a task is
//!   `dispatch_cycles`, its computation and `hit_cycles` for each line touch, or for each record that meets no cache; at each level
//!   the first touch of a line cannot but miss.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

mod cache;
mod cases;
mod machine;
mod policy;
mod run;
mod trace;

pub(crate) use cases::Case;
pub(crate) use machine::Machine;
pub(crate) use policy::knows;
pub(crate) use run::{Finished, Result, csv, run};
pub(crate) use trace::{Groups, Trace};

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): moves the state on and returns the next number.
pub(crate) fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
