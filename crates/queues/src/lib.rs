//! Queues of one-word tasks, and the `std`/`loom` shim that they are checked through.
//!
//! This crate knows no policy and no engine. A queue moves [`Ready`] values: each stands for one task that is ready to run, is one
//! word long and cannot be copied, so a task that went into a queue comes out of it once.
//!
//! | queue | put in by | taken out by | order |
//! |---|---|---|---|
//! | [`deque`](deque()) | its [`Owner`] | its [`Owner`] | newest first |
//! | | | any [`Stealer`] | oldest first |
//! | [`run_queue`](run_queue()) | its [`Head`], any [`Tail`] | its [`Head`], any [`Tail`] | each end newest first |
//! | [`Injector`], [`Mailbox`] | any thread | any thread | oldest first |
//! | [`Slot`] | any thread, while it is empty | any thread | holds one |
//!
//! [`Ranges`] share out numbers, which stand for tasks that became ready at the same time.
//!
//! A [lane](LaneWords) carries messages instead, from one thread or process to another.
//!
//! # What every queue promises to a worker that wants to sleep
//!
//! A push makes its task visible by a `SeqCst` write, and `is_empty` reads by `SeqCst` loads. So in the single total order of `SeqCst`
//! operations, an `is_empty` after a push returns false, unless another thread has taken the task or is taking it. That is one half of
//! the protocol by which no wake-up is lost (Dekker's pattern):
//!
//! - the thread that makes work **pushes** (`SeqCst` write), then **loads the number of sleepers** (`SeqCst`), and wakes one if there is
//!   any;
//! - the worker that wants to sleep **announces it** (`SeqCst` read-modify-write of that number), then calls **`is_empty`** of all queues,
//!   and only then sleeps.
//!
//! Whichever of the two writes comes first in the total order, the other thread's load sees it.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod deque;
mod fifo;
mod injector;
mod lane;
mod padded;
mod ranges;
#[allow(unsafe_code)]
mod ready;
mod run_queue;
#[allow(unsafe_code)]
mod slot;
pub mod sync;

pub use deque::{Owner, Steal, Stealer, deque};
pub use fifo::{Fifo, Mailbox};
pub use injector::Injector;
pub use lane::{Descriptor, Garbage, LaneReceiver, LaneSender, LaneShape, LaneWords};
pub use padded::Padded;
pub use ranges::Ranges;
pub use ready::Ready;
pub use run_queue::{Head, Tail, run_queue};
pub use slot::Slot;
