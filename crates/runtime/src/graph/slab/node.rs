//! One node: the place of a dynamic task or a ticket.

use super::count::{Count, Surplus};
use crate::executable::{
    BodyTable, BodyWords, DESCRIPTION_AT, Description, ErasedBody, Header, Kind,
};
use crate::graph::GraphCore;
use crate::observer::TaskView;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use tanada_policy::Ready;

/// A node of a pool.
///
/// [`NodeRef::fill`] writes `header`, `description`, `table` and `body` before it opens the count. The thread that runs the task reads
/// them; the release and acquire operations of the count order the two, or those of the queue through which the right goes. Error
/// messages read `header` and `description`, too: under the lock of `successors`, or after the run.
#[repr(C, align(64))]
pub(crate) struct Node {
    header: UnsafeCell<MaybeUninit<Header>>,
    count: Count,
    graph: AtomicPtr<GraphCore>,
    /// Raised when the task ends; from then on no task can begin to wait for it. Changes only under the lock of `successors`.
    generation: AtomicU32,
    table: UnsafeCell<Option<&'static BodyTable>>,
    description: OwnLine<UnsafeCell<MaybeUninit<Description>>>,
    body: UnsafeCell<MaybeUninit<BodyWords>>,
    successors: Mutex<Successors>,
}

/// A value on a cache line of its own.
#[repr(align(64))]
struct OwnLine<T>(T);

const _: () =
    assert!(std::mem::offset_of!(Node, description) == DESCRIPTION_AT && size_of::<Node>() == 256);

// SAFETY: the `UnsafeCell`s pass from the registering thread to the running one as the type's comment says; bodies are `Send`.
unsafe impl Send for Node {}
// SAFETY: no two threads use the cells at the same time (see the type's comment); all else is `Sync`.
unsafe impl Sync for Node {}

/// The tasks that wait for one task. As many are stored in place as fit into the last cache line of a node.
pub(crate) type Successors = SmallVec<[NodeRef; 6]>;

/// A pointer to a node of a live pool. A copy carries no right to run the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef(pub(super) NonNull<Node>);

// SAFETY: a `NodeRef` leads to a `&Node`, which is `Sync`, and the pool outlives the users of its nodes.
unsafe impl Send for NodeRef {}
// SAFETY: as for `Send`.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    /// Returns a reference for a token that is never followed.
    pub(crate) fn dangling() -> Self {
        NodeRef(NonNull::dangling())
    }

    #[inline]
    fn get(&self) -> &Node {
        // SAFETY: a pool keeps its nodes' memory for as long as it lives, and users of a `NodeRef` hold its pool (scopes check tokens).
        unsafe { self.0.as_ref() }
    }

    /// Returns the node with this header.
    ///
    /// # Safety
    /// The header is that of a node, derived from a pointer to the whole node.
    #[inline]
    pub(crate) unsafe fn from_header(header: NonNull<Header>) -> Self {
        NodeRef(header.cast())
    }

    /// Makes a free node a task, which becomes ready when `resolves` resolves have come and `edges` edges and the guard are dropped. If
    /// there are none of the two, there is no guard, and the task is ready at once. Returns the task's generation, and the right to run it
    /// if it is ready.
    ///
    /// # Safety
    /// This thread alone holds the free node. `graph` is null or outlives the task, and whatever `body` borrows outlives the task.
    /// Things of kind `kind` are nodes, and call the body with the type that it was erased with.
    pub(crate) unsafe fn fill(
        &self,
        graph: *const GraphCore,
        kind: &'static Kind,
        description: Description,
        edges: u32,
        resolves: u32,
        body: ErasedBody,
    ) -> (u32, Option<Ready>) {
        let node = self.get();
        let (table, words) = body.into_parts();
        // SAFETY: this thread alone holds the node (caller), so no other thread reads or writes these cells.
        unsafe {
            (*node.description.0.get()).write(description);
            (*node.header.get()).write(Header::new(kind, description.hints, 0, 0));
            *node.table.get() = Some(table);
            (*node.body.get()).write(words);
        }
        node.graph.store(graph.cast_mut(), Ordering::Release);
        // Relaxed: no other thread changes the generation of a free node.
        let generation = node.generation.load(Ordering::Relaxed);
        if edges == 0 && resolves == 0 {
            // The count of a free node is zero already, and says the right things: nothing to resolve, too late for an edge.
            return (generation, Some(self.ready()));
        }
        node.count.open(generation, edges, resolves);
        (generation, None)
    }

    /// Adds an edge, unless the task is ready or has ended. Returns whether the edge was added.
    pub(crate) fn try_add_edge(&self, generation: u32) -> bool {
        self.get().count.try_add_edge(generation)
    }

    /// Drops `number` unresolved edges (the guard is one). Returns the right to run the task if these were its last dependencies.
    #[inline]
    pub(crate) fn drop_edges(&self, number: u32) -> Option<Ready> {
        self.get().count.drop_edges(number).then(|| self.ready())
    }

    /// Resolves one count. Returns the right to run the task if this was its last dependency.
    pub(crate) fn resolve(&self, generation: u32) -> Result<Option<Ready>, Surplus> {
        let last = self.get().count.resolve(generation)?;
        Ok(last.then(|| self.ready()))
    }

    /// Mints and returns the right to run the task: for the operation that took the count to zero.
    #[inline]
    fn ready(&self) -> Ready {
        // SAFETY: the count reaches zero once for each `fill`: it starts above zero, nothing is added at zero, and a subtraction below
        // zero wraps; or it starts at zero, and `fill` calls this. So the node is filled, and this is the only right for its run. The
        // pointer is that of the whole node.
        unsafe { Header::ready(self.0.cast()) }
    }

    /// Returns the graph of the node's task, or null.
    #[inline]
    pub(crate) fn graph(&self) -> *const GraphCore {
        self.get().graph.load(Ordering::Acquire)
    }

    /// Returns the node's address, which orders nodes in maps and names the task in recordings.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Returns the number of the node's present task among all tasks of this node. It stays while [`NodeRef::successors`] is locked.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.get().generation.load(Ordering::Acquire)
    }

    /// Locks and returns the list of the tasks that wait for this task.
    pub(crate) fn successors(&self) -> MutexGuard<'_, Successors> {
        self.get().successors.lock()
    }

    /// Makes `waiting` wait for the task `generation` of this node, unless that has ended. Returns whether it waits.
    #[inline]
    pub(crate) fn add_successor(&self, generation: u32, waiting: NodeRef) -> bool {
        // A generation comes back after 2^32 tasks of one node. Until then another generation means that the task has ended, and the
        // Acquire load makes its writes visible, so that no lock is needed.
        if self.generation() != generation {
            return false;
        }
        let mut successors = self.successors();
        let waits = self.generation() == generation;
        if waits {
            successors.push(waiting);
        }
        waits
    }

    /// Takes the body out of the node and returns it, unless it was taken before.
    ///
    /// # Safety
    /// The node is filled. The caller has the right to run the task, or knows that no worker runs it now or later.
    #[inline]
    pub(crate) unsafe fn take_body(&self) -> Option<ErasedBody> {
        let node = self.get();
        // SAFETY: no other thread uses the cells (caller); `fill` wrote both, and `take` lets them be joined only once.
        unsafe {
            let table = (*node.table.get()).take()?;
            let words = (*node.body.get()).assume_init_read();
            Some(ErasedBody::from_parts(table, words))
        }
    }

    /// Ends the task: its tokens become stale. Returns the tasks that wait for it.
    #[inline]
    pub(crate) fn end(&self) -> Successors {
        let node = self.get();
        let mut successors = node.successors.lock();
        let generation = node.generation.load(Ordering::Relaxed).wrapping_add(1);
        // Release: a thread that finds the task ended sees its writes.
        node.generation.store(generation, Ordering::Release);
        node.count.close(generation);
        node.graph.store(std::ptr::null_mut(), Ordering::Release);
        std::mem::take(&mut successors)
    }

    /// Returns whether this free node must serve no other task: the next one would have the number of a task of long ago, as far as
    /// [`Count`] keeps it, and tokens of that one would be taken for its own.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        Count::wraps_at(self.generation())
    }

    /// Makes the memory of a node that has been [given back to the system](super::Chunk) a free node again, whose next task is number
    /// `generation`. It reads as zero, or as what was there.
    ///
    /// # Safety
    /// This thread alone uses the node, except for threads with tokens of its ended tasks, which are below `generation` and load atomics
    /// only.
    pub(super) unsafe fn renew(&self, generation: u32) {
        let node = self.0.as_ptr();
        // SAFETY: no other thread uses these cells (caller), and what they held owned nothing: the last task has ended. Threads with old
        // tokens load the atomics only.
        unsafe {
            (&raw mut (*node).table).write(UnsafeCell::new(None));
            (&raw mut (*node).successors).write(Mutex::default());
        }
        let node = self.get();
        node.graph.store(std::ptr::null_mut(), Ordering::Relaxed);
        node.count.close(generation);
        node.generation.store(generation, Ordering::Release);
    }

    /// Returns what error messages say of the task.
    ///
    /// # Safety
    /// The node is filled, and no thread fills or ends it during the call.
    pub(crate) unsafe fn view(&self) -> TaskView {
        // SAFETY: the node is filled (caller), so header and description are written.
        unsafe { Header::view(self.0.cast()) }
    }
}

/// The number of a node's first task. None has number 0: a node whose memory was given back to the system reads as zero, and must not look
/// like one with a task of some token.
const FIRST: u32 = 1;

impl Node {
    /// Returns a free node.
    pub(super) fn free() -> Self {
        Node {
            header: UnsafeCell::new(MaybeUninit::uninit()),
            count: Count::closed(FIRST),
            graph: AtomicPtr::default(),
            generation: AtomicU32::new(FIRST),
            table: UnsafeCell::new(None),
            description: OwnLine(UnsafeCell::new(MaybeUninit::uninit())),
            body: UnsafeCell::new(MaybeUninit::uninit()),
            successors: Mutex::default(),
        }
    }
}
