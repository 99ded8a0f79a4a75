//! The native engine of Tanada: workers, task graphs and templates under a policy of your choice.
//!
//! A [`Pool`] has workers and a dispatcher from [`tanada_policy`]. [`Pool::scope`] runs a graph that is registered while it runs;
//! a [`Template`] is a graph that is built once and run often. Tasks carry hints that the dispatcher may use, such as the [`TGroup`] and
//! [`SGroup`] of paper 1.
//!
//! ```
//! use tanada_runtime::{Pool, SGroup, TGroup};
//!
//! let pool = Pool::builder().workers(2).policy("ts").build()?;
//! let rows = [1, 2, 3, 4];
//! let mut sums = [0; 4];
//! pool.scope(|s| {
//!     for (row, (value, sum)) in rows.iter().zip(&mut sums).enumerate() {
//!         let row = row as u32;
//!         s.task("row").groups(TGroup(1 + row / 2), SGroup(1 + row)).register(move |_| *sum = value * 10);
//!     }
//! })?;
//! assert_eq!(sums, [10, 20, 30, 40]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Beside graphs, [`Pool::broadcast`] runs a closure on every worker, and a [`Region`] runs one, or a loop, on as many workers as a
//! governor chooses.
//!
//! # Errors and panics
//! A panic in a task is resumed on the thread that waits for its graph. A program error (a task never resolved, a cycle, a resolve too
//! many) is a [`GraphError`] once the body of the scope has returned, never a hang. A panic of a policy, or of an observer on a worker,
//! ends the process, because the tasks in its hands are lost.
//!
//! The runtime cannot see what a task or the body of a scope waits for outside of it: a body that waits on a channel for one of its own
//! tasks, or a task that joins a thread which runs a graph on the task's own pool, waits for ever if no worker is free, without a report.
//!
//! # Recordings
//! `tanada record -- PROGRAM` runs a program in an emulator with `TANADA_MARKS=1` in its environment. Then every pool has one worker and
//! the policy `serial`, whatever its builder asked for, and reports its tasks to the recorder by system calls that do nothing elsewhere.
//!
//! # After `fork(2)`
//! A pool works in the process that made it. In a child of that process it returns [`GraphError::Forked`]; [`Pool::global`] makes a
//! new pool there. Dropping an inherited pool does nothing. Tasks run in the parent only: a child that was forked in a task ends with a
//! message if it comes back from the task's body, and one that was forked in the body of a scope gets the error when it comes back from
//! that.
//!
//! # Features
//! `report`: a recording as the timeline of a report, `Recorded::timeline`. Without it this crate depends on no serialisation.
//!
//! How it works inside is in the crate's `README.md`.

#![deny(unsafe_code)]

mod error;
#[allow(unsafe_code)]
mod executable;
pub mod fork;
mod governor;
mod graph;
mod list;
mod marks;
#[cfg(target_os = "linux")]
pub mod messages;
#[allow(unsafe_code)]
mod name;
mod observer;
mod parking;
#[allow(unsafe_code)]
mod pool;
#[allow(unsafe_code)]
mod prefetch;
#[allow(unsafe_code)]
mod process;
pub mod replay;
mod team;
pub mod thread;
#[allow(unsafe_code)]
mod worker;

pub use error::{BuildError, GraphError, TaskNames};
pub use governor::{Chosen, Decision, Governing, Ungoverned};
pub use graph::{
    Cancel, Instance, NodeId, Resolver, SGroup, Scope, TGroup, TaskBuilder, Template,
    TemplateBuilder, TemplateTask, Token, TooLate,
};
#[doc(hidden)]
pub use marks::RECORDABLE;
pub use name::Name;
pub use observer::{
    Observer, PathPart, Profile, Recorded, RecordedTask, Recorder, TaskView, Totals, WorkerObserver,
};
pub use pool::{Bind, DEFAULT_POLICY, MAX_WORKERS, Pool, PoolBuilder, WorkerThread};
pub use replay::Replay;
pub use tanada_policy::{
    Fork, ForkPolicy, Hints, Keep, Thief, WorkerId, deliveries, forks as fork_policies,
    registry as policies,
};
pub use team::{Member, Region, RegionDecision, Schedule};
#[doc(hidden)]
pub use worker::{calls, held, sleep};

/// The README's program, compiled and run as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;

/// The programs of the page on threads, compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/threads.md")]
struct ThreadsDoctests;
