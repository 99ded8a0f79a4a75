//! The scheduling laws that every engine passes, and the obvious models of the policies.
//!
//! - [`Graph`]: what is run; all small graphs, random graphs.
//! - [`Log`]: what happened in a run, in one order of events.
//! - [`check`]: the laws. Every task runs once and after all that it waits for, none is lost, no greedy policy lets a worker idle while
//!   a task is ready, the wake-ups that a policy asks for suffice. An engine that writes a [`Log`] can be held to them.
//! - [`model()`] and [`replay`]: each policy's rule a second time, as a scan over a plain list, and the comparison with a log.
//! - [`toy`]: the smallest deterministic engine, which drives any dispatcher in one fixed order of events.
//! - [`conforms`]: all of it for one policy and one graph.
//!
//! This crate is for tests: it is built for being obviously right, not for speed.

#![deny(unsafe_code)]

mod conformance;
mod graph;
mod log;
mod models;
#[allow(unsafe_code)]
pub mod toy;

pub use conformance::{Case, conforms};
pub use graph::{Graph, Task, any_graph};
pub use log::{Event, Log, Promises, Violation, check};
pub use models::{Model, model, replay, replay_pool};
