//! What a run counts, and what its results are.

pub(crate) mod bound;
pub(crate) mod contention;
mod json;
pub(crate) mod least;
pub mod outcome;
pub(crate) mod overflow;
pub(crate) mod report;
pub(crate) mod reuse;
pub(crate) mod tally;
