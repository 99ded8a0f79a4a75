//! The models: which rules of time hold.

pub(crate) mod contended;
pub(crate) mod uniform;
