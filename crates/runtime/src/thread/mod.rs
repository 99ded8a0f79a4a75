//! Lightweight threads: with a stack of their own, so that they may wait anywhere, on the workers of a [`Pool`](crate::Pool).
//!
//! ```
//! use tanada_runtime::thread::{self, sync::bounded};
//!
//! let (sender, receiver) = bounded(4);
//! let producer = thread::spawn(move || (0..100).for_each(|n| sender.send(n).unwrap()));
//! let consumer = thread::spawn(move || receiver.iter().sum::<u32>());
//! producer.join().unwrap();
//! assert_eq!(consumer.join().unwrap(), 4950);
//! ```
//!
//! A thread that waits in a function of this module ([`JoinHandle::join`], [`park`], [`sleep`], [`block_on`], everything in [`sync`]) is
//! suspended, and its worker runs another one. What waits by other means (`std::sync::Mutex`, a system call) holds up the worker.
//!
//! # Tied and untied
//! [`spawn`] is safe: such a thread may start on any worker, and then stays there, so thread-locals and values that are not `Send` remain
//! valid on its stack (other threads run there while it waits, so what relies on nesting must not be used around a wait).
//! [`Builder::spawn_untied`] makes one that may go on elsewhere after every wait; its contract is the caller's.
//!
//! # Which thread runs next
//! Each worker has a run queue: it pushes and pops at the head, others steal at the tail. A [`Scheduler`] replaces what is pushed and
//! stolen where ([`PoolBuilder::thread_scheduler`](crate::PoolBuilder::thread_scheduler)), by the operations of [`Queues`] and by the hint
//! of each thread: paper 5's interface. [`schedulers`] has some ready-made ones.
//!
//! A thread must not change the floating-point control words (rounding, flushing of small numbers) over a wait: they are the OS thread's.
//!
//! # Stacks
//! A stack is address space until it is touched. A thread that runs over its stack's end ends the process with a message that names it.
//! Stacks of threads that have ended are used again.
//!
//! # Threads that wait for each other
//! If all threads wait and none is left that could wake one, or some wait for each other in a circle, the process ends with a message that
//! names them and what each waits for.
//!
//! # With graphs and forks
//! A thread may fork, and run a graph. A task or a forked closure may create threads and wait for them: its worker then runs threads on
//! top of it, and other closures, each in a thread of its own. A worker takes tasks of graphs first, then forks, then threads: a thread
//! waits as long as there are tasks.

mod carrier;
pub(crate) mod deadlock;
mod find;
#[allow(unsafe_code)]
mod handle;
#[allow(unsafe_code)]
mod leave;
mod meanwhile;
#[allow(unsafe_code)]
mod record;
mod refusals;
#[allow(unsafe_code)]
mod ring;
#[allow(unsafe_code)]
mod run;
#[cfg(sanitized)]
#[allow(unsafe_code)]
mod sanitized;
#[allow(unsafe_code)]
mod scheduler;
pub mod schedulers;
#[allow(unsafe_code)]
mod scope;
#[allow(unsafe_code)]
mod shared;
#[allow(unsafe_code)]
mod stack;
#[allow(unsafe_code)]
mod switch;
pub mod sync;
#[allow(unsafe_code)]
mod timer;
#[allow(unsafe_code)]
mod valgrind;
#[allow(unsafe_code)]
mod waiter;

use handle::idle_until;
pub use handle::{
    Builder, Hint, JoinHandle, Thread, block_on, current, park, sleep, spawn, spread, with_hint,
    with_queues, yield_now,
};
pub use scheduler::{First, Queues, Runnable, Scheduler, Why};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub(crate) use shared::{ThreadLocal, ThreadShared};
