//! Ready-made [`Scheduler`]s, one file each, and the table of their names. A new one is a file here and a line in [`ALL`].

mod child_first;
mod parent_first;
mod shallowest;

pub use child_first::ChildFirst;
pub use parent_first::ParentFirst;
pub use shallowest::ShallowestOf;

use super::{First, Queues, Runnable, Scheduler, Why};
use std::fmt;
use tanada_policy::WorkerId;

/// A ready-made scheduler.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name, for command lines.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    make: fn() -> Box<dyn Scheduler>,
}

impl Entry {
    /// Returns a new one, for one pool.
    ///
    /// ```
    /// use tanada_runtime::{Pool, thread::schedulers};
    ///
    /// let entry = schedulers::find("child-first").unwrap();
    /// let pool = Pool::builder().workers(2).thread_scheduler(entry.make()).build()?;
    /// # Ok::<(), tanada_runtime::BuildError>(())
    /// ```
    pub fn make(&self) -> Box<dyn Scheduler> {
        (self.make)()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name).finish()
    }
}

/// All ready-made schedulers.
pub const ALL: &[Entry] = &[
    Entry {
        name: "parent-first",
        summary: "new threads wait at the head, and a thief takes the oldest of the nearest worker",
        make: || Box::new(ParentFirst),
    },
    Entry {
        name: "child-first",
        summary: "a new thread runs at once, and thieves take the oldest of those that have created one",
        make: || Box::new(ChildFirst),
    },
    Entry {
        name: "shallowest-of-2",
        summary: "as parent-first; of 2 random victims, a thief takes the thread with the least digest",
        make: || Box::new(ShallowestOf::new(2)),
    },
    Entry {
        name: "shallowest-of-4",
        summary: "as parent-first; of 4 random victims, a thief takes the thread with the least digest",
        make: || Box::new(ShallowestOf::new(4)),
    },
    Entry {
        name: "shallowest-of-8",
        summary: "as parent-first; of 8 random victims, a thief takes the thread with the least digest",
        make: || Box::new(ShallowestOf::new(8)),
    },
];

/// Returns the ready-made scheduler with this name, `None` if there is none.
pub fn find(name: &str) -> Option<Entry> {
    ALL.iter().find(|entry| entry.name == name).copied()
}

impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    fn first(&self) -> First {
        (**self).first()
    }

    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, why: Why) {
        (**self).ready(queues, thread, why);
    }

    fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        (**self).next(queues)
    }

    fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        (**self).steal(queues)
    }

    fn may_have(&self, me: WorkerId) -> bool {
        (**self).may_have(me)
    }
}
