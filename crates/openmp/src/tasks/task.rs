//! A task: what is known of it, in front of the data that the compiler gave it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::depend::{Node, Table};
use super::sync::{AtomicI32, AtomicI64, AtomicU16, AtomicU32, Ordering};

/// gcc's code of a task: called with the data.
pub(crate) type Gomp = unsafe extern "C-unwind" fn(*mut c_void);

/// clang's code of a task: called with the thread's number and the task.
pub(crate) type Kmp = unsafe extern "C-unwind" fn(c_int, *mut c_void) -> c_int;

/// The head of clang's data of a task.
#[repr(C)]
pub(crate) struct KmpData {
    pub(crate) shareds: *mut c_void,
    pub(crate) routine: Option<Kmp>,
    pub(crate) part: c_int,
    pub(crate) destroy: Option<Kmp>,
    pub(crate) priority: c_int,
}

/// The parent still runs: it may create children.
pub(super) const BODY: i64 = 1 << 62;

/// A child that has ended but has descendants that have not.
pub(super) const ZOMBIE: i64 = 1 << 32;

/// Bits of [`Task::flags`].
pub(crate) mod flags {
    /// It and its descendants run at once, in the thread that creates them.
    pub(crate) const FINAL: u16 = 1;
    /// A group: a stand-in for its creator as the parent of what is created in it.
    pub(crate) const GROUP: u16 = 2;
    /// It comes back with another part, maybe in another thread.
    pub(crate) const UNTIED: u16 = 4;
    /// It has ended when its body has and its event was fulfilled.
    pub(crate) const DETACHED: u16 = 8;
    /// A recorder was told of it.
    pub(crate) const MARKED: u16 = 16;
    /// It was put into a queue, and counts in its team.
    pub(crate) const COUNTED: u16 = 32;
    /// [`super::Task::run`] is clang's.
    pub(crate) const KMP: u16 = 64;
    /// Its body ended while children were open: from here on these count in [`super::Task::state`] only.
    pub(crate) const MERGED: u16 = 128;
    /// It is handed in again before its body returned (an untied task's next part).
    pub(crate) const AGAIN: u16 = 256;
    /// The first task of a thread of a team.
    pub(crate) const IMPLICIT: u16 = 512;
    /// A group that a work-sharing construct with a reduction of tasks made.
    pub(crate) const WORKSHARE: u16 = 1024;
    /// clang gave it a function that destroys its data.
    pub(crate) const DESTROYS: u16 = 2048;
    /// Its data was made by constructors of the program, so it runs even if it is cancelled, to destroy them.
    pub(crate) const CONSTRUCTED: u16 = 4096;
    /// A group with reductions that clang's code registered.
    pub(crate) const REDUCES: u16 = 8192;
    /// When it is handed in again, its next part runs at once.
    pub(crate) const DIRECT: u16 = 16384;
}

/// Bits of [`Task::event`].
pub(super) const RETURNED: u32 = 1;
pub(super) const FULFILLED: u32 = 2;

// Two cache lines; lists in `depend` need that tasks begin at multiples of 64.
const _: () =
    assert!(cfg!(loom) || std::mem::offset_of!(Task, state) == 64 && size_of::<Task>() == 128);

/// No thread: children of a task that may change threads are counted in one place.
pub(super) const NOBODY: u16 = u16::MAX;

/// Predecessors of which the list's entry lies in the task itself.
pub(super) const EDGES: usize = 3;

/// The header of a task.
///
/// `Cell`s are touched by the thread that creates the task until it is ready, then by the thread that runs it; those of a parent's side of
/// the table of dependences by the parent's thread alone.
#[repr(C, align(64))]
pub(crate) struct Task {
    /// The task in which this one was created, or its group. Lives as long as this task.
    pub(super) parent: *mut Task,
    /// A [`Gomp`], or a [`Kmp`] if the flag says so. 0: this is no task but a group, or waits for predecessors.
    pub(crate) run: Cell<usize>,
    /// Its data; of a group, the reductions of tasks; of an implicit task, the thread.
    pub(crate) data: Cell<*mut c_void>,
    /// What its children depend on; null before the first that does.
    pub(super) table: Cell<*mut Table>,
    /// Of an untied task between two parts: its innermost group, or itself.
    pub(super) scope: Cell<*const Task>,
    /// The memory of edges to more predecessors than `edges` has room for.
    pub(super) extra: Cell<*mut c_void>,
    pub(super) depth: u32,
    /// Children that were created less those that ended in the owner's thread.
    pub(super) pending: Cell<u32>,
    /// Only the thread that creates or runs it writes them; threads with descendants read them.
    pub(super) flags: AtomicU16,
    /// The thread that runs it.
    pub(super) owner: Cell<u16>,
    /// Bytes of its data.
    pub(crate) size: Cell<u32>,

    // What follows is on a cache line of its own: what threads that end its predecessors or children write, and what they need to put it
    // into a queue.
    /// Children that ended in other threads than the owner's, plus [`ZOMBIE`] for each that ended before its descendants, plus [`BODY`].
    /// When the body has ended, less all children: 0 then means that no descendant is left.
    pub(super) state: AtomicI64,
    /// What its parent's table knows of it; null if nothing.
    pub(super) node: Cell<*const Node>,
    /// The next entries of the lists of predecessors in which this task is.
    pub(super) edges: [Cell<u64>; EDGES],
    /// Predecessors that have not ended.
    pub(super) predecessors: AtomicI32,
    /// Of a detached task: [`RETURNED`] and [`FULFILLED`]. Of a group: whether it was cancelled.
    pub(super) event: AtomicU32,
    pub(crate) priority: Cell<i32>,
    /// What stands for the first address that it writes, for policies; 0: nothing does.
    pub(super) place: Cell<u32>,
    /// Bytes that its dependences say it touches; 0: unknown.
    pub(crate) footprint: Cell<u32>,
    /// The thread in whose queue it was put.
    pub(super) home: Cell<u16>,
    /// The size class of its memory.
    pub(super) class: Cell<u8>,
}

impl Task {
    /// Returns a task without code that nothing waits for, child of `parent`.
    pub(super) fn new(parent: *mut Task, depth: u32, flags: u16, owner: u16) -> Task {
        Task {
            parent,
            run: Cell::new(0),
            data: Cell::new(std::ptr::null_mut()),
            table: Cell::new(std::ptr::null_mut()),
            depth,
            pending: Cell::new(0),
            flags: AtomicU16::new(flags),
            owner: Cell::new(owner),
            home: Cell::new(NOBODY),
            class: Cell::new(u8::MAX),
            place: Cell::new(0),
            footprint: Cell::new(0),
            state: AtomicI64::new(BODY),
            node: Cell::new(std::ptr::null()),
            predecessors: AtomicI32::new(0),
            event: AtomicU32::new(0),
            scope: Cell::new(std::ptr::null()),
            extra: Cell::new(std::ptr::null_mut()),
            priority: Cell::new(0),
            size: Cell::new(0),
            edges: [const { Cell::new(0) }; EDGES],
        }
    }

    #[inline]
    pub(crate) fn is(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    #[inline]
    pub(crate) fn set(&self, flag: u16) {
        self.flags.store(self.flags() | flag, Ordering::Relaxed);
    }

    /// Returns its flags.
    #[inline]
    pub(crate) fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn unset(&self, flag: u16) {
        self.flags.store(self.flags() & !flag, Ordering::Relaxed);
    }
}
