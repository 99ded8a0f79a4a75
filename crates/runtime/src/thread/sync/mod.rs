//! What lightweight threads wait for: all of it suspends the thread and not its worker.
//!
//! On a worker that is in a task or closure, a wait runs other threads meanwhile, and other closures, each in a thread of its own. Any
//! other OS thread sleeps.

mod barrier;
mod channel;
mod condvar;
#[allow(unsafe_code)]
mod mutex;
mod once;

pub use barrier::{Barrier, BarrierWaitResult};
pub use channel::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded, unbounded,
};
pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceCell};
