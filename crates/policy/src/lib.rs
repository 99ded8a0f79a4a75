//! Every scheduling policy, written once for all engines.
//!
//! A policy is pure: it has no clock, no thread, no I/O, no global state and no randomness but what its [`Env`] hands to it, so the
//! same object decides natively and in the virtual time of tests, and will in any engine to come. Three traits are the seam between
//! policies and engines:
//!
//! - [`Dispatcher`] decides which ready task an idle worker takes next;
//! - [`Governor`] decides how many cores, and hardware threads of each, work during the next interval or region;
//! - [`Delivery`] decides when the receiver of a message is told of it.
//!
//! A new dispatcher is one file here and one line in [`registry`]; a policy of another crate plugs in by type.
#![forbid(unsafe_code)]

mod delivery;
pub mod dispatchers;
mod governor;
pub mod registry;
mod seam;

pub use delivery::{ChannelState, Delivery, Notice};
pub use dispatchers::{central, stealing};
pub use governor::{Event, Governor, Observation, Plan};
pub use seam::{Dispatcher, Env, Fork, Hints, Op, Origin, Prepared, Site, Wake, draw};
pub use tanada_queues::Ready;
pub use tanada_topology::{Placement, WorkerId};
