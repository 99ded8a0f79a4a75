//! The parts of which models are built. No part knows a model.

pub(crate) mod cache;
pub(crate) mod dispatching;
pub(crate) mod events;
#[allow(unsafe_code)]
mod handle;
pub(crate) mod hierarchy;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod numa;
mod prepare;
pub(crate) mod source;
pub(crate) mod station;
