//! Every scheduling policy, written once for all engines.
//!
//! A policy is pure: it has no clock, no thread, no I/O and no global state, and its only random numbers are those that its [`Env`] draws
//! for it. So the same object decides natively and in the virtual time of the simulator and of tests.
//!
//! - `seam/` is what policies and engines know of each other: the trait [`Dispatcher`], which decides which ready task an idle worker takes
//!   next, what an engine offers it ([`Env`]), and what a task says of itself ([`Hints`]).
//! - [`dispatchers`] holds the dispatchers, a file each, and what families of them share.
//! - [`registry`] lists the dispatchers by name.
//! - [`forks`] holds the fork policies, a file each, and their list: what becomes of forks, and where an idle worker looks for one (the
//!   trait [`ForkPolicy`]).
//! - [`governors`] holds the governors, a file each, and their list: how many hardware threads work during the next period, and which of
//!   the waiting threads come first (the trait [`Governor`]).
//! - [`deliveries`] holds the deliveries, a file each, and their list: when the receiver of a message is told of it (the trait
//!   [`Delivery`]).
//!
//! How to add a dispatcher is described in `docs/policies.md`. A policy of another crate plugs in by type.
#![forbid(unsafe_code)]

pub mod deliveries;
pub mod dispatchers;
pub mod forks;
pub mod governors;
pub mod registry;
mod seam;

pub use dispatchers::{central, stealing};
pub use seam::{
    Access, Activity, CacheUse, ChannelState, Choice, Clock, Closure, Closures, Decision, Delivery,
    DeliverySite, Dispatcher, Entry, Env, Fork, ForkPolicy, Governor, GovernorSite, Hints, Keep,
    Op, Order, Origin, Outcome, Passed, Peeks, Period, Plan, Prepared, RegionGovernor, RegionId,
    RegionSite, Shape, Silence, Site, Tell, Thief, Time, Waiting, Wake, Why, Word, draw,
};
pub use tanada_queues::Ready;
pub use tanada_topology::{Placement, WorkerId};
