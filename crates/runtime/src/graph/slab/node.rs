//! One node: the place of a dynamic task or a ticket.

use super::count::{Count, Surplus};
use super::waiting::{PLACES_AT, Waiting, WaitingTasks};
use crate::executable::{
    BRIEF_AT, Block, BodyWords, Brief, Description, ErasedBody, Executable, Form, Header, Stored,
    With, block_of,
};
use crate::graph::GraphCore;
use crate::observer::TaskView;
use crate::prefetch::prefetch;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use tanada_policy::Ready;

/// A node of a pool, on two cache lines.
///
/// [`NodeRef::fill`] writes `header`, `brief` and `body` before it opens the count. The thread that runs the task reads them; the release
/// and acquire operations of the count order the two, or those of the queue through which the right goes. Error messages read `header` and
/// `brief`, too: while `waiting` is locked, or after the run.
///
/// The count also holds the number of the node's task. It changes when the task ends, while `waiting` is locked; from then on no task can
/// begin to wait for it.
#[repr(C, align(64))]
pub(crate) struct Node {
    header: UnsafeCell<MaybeUninit<Header>>,
    count: Count,
    graph: AtomicPtr<GraphCore>,
    brief: UnsafeCell<MaybeUninit<Brief>>,
    waiting: Waiting,
    body: UnsafeCell<MaybeUninit<BodyWords>>,
}

const _: () = assert!(std::mem::offset_of!(Node, brief) == BRIEF_AT && size_of::<Node>() == 128);

/// Where a node that is lent as a [`Block`] has it: from the places of its list to its end. Nobody looks at these while the node is free,
/// not even a thread with a token of an ended task: that finds the list empty, or does not look.
const BLOCK_AT: usize = std::mem::offset_of!(Node, waiting) + PLACES_AT;

const _: () = assert!(BLOCK_AT + size_of::<Block>() == size_of::<Node>());

const _: () = assert!(
    size_of::<Description>() <= size_of::<Block>()
        && align_of::<Description>() <= align_of::<Block>()
);

/// What a header's `short` says: the closure lies in a block.
const CLOSURE_IN_BLOCK: u8 = 1;

// SAFETY: the `UnsafeCell`s pass from the registering thread to the running one as the type's comment says; bodies are `Send`.
unsafe impl Send for Node {}
// SAFETY: no two threads use the cells at the same time (see the type's comment); all else is `Sync`.
unsafe impl Sync for Node {}

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

    /// Prefetches the node: one that is about to be filled, or whose list a task is about to be put into.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let node = self.0.as_ptr().cast_const();
        prefetch(node);
        prefetch(node.cast::<u8>().wrapping_add(64));
    }

    /// Prefetches the part of the node that has the count. The other part may be another thread's yet, which registers the task.
    #[inline]
    pub(super) fn prefetch_count(&self) {
        prefetch(self.0.as_ptr().cast_const());
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
    /// if it is ready. What has no room in the node goes into the blocks of free nodes that `take` returns; they are lent until the task
    /// ends.
    ///
    /// # Safety
    /// This thread alone holds the free node, and those that `take` returns. `graph` is null or outlives the task, and whatever `body`
    /// borrows outlives the task. Things of type `K` are nodes, and call the body with a `C`.
    #[inline]
    pub(crate) unsafe fn fill<K, C, F>(
        &self,
        graph: *const GraphCore,
        description: &Description,
        (edges, resolves): (u32, u32),
        take: impl Fn() -> NodeRef,
        body: F,
    ) -> (u32, Option<Ready>)
    where
        K: Executable,
        F: FnOnce(&C) + Send,
    {
        let node = self.get();
        let (form, brief) = match Brief::of(description) {
            Some(brief) => (Form::Brief, brief),
            None => (Form::Apart, Self::apart(take(), description)),
        };
        let short = match Stored::<C, F>::NEEDS_BLOCK {
            true => CLOSURE_IN_BLOCK,
            false => 0,
        };
        let kind = &With::<K, C, F>::KIND;
        // Only a brief thing has its index there.
        let index = description.index as u32;
        // SAFETY: this thread alone holds the node (caller), so no other thread reads or writes these cells.
        unsafe {
            (*node.header.get()).write(Header::new(kind, form, &description.hints, short, index));
            (*node.brief.get()).write(brief);
            Stored::<C, F>::store(self.words(), || take().block(), body);
        }
        // SAFETY: as above.
        unsafe { node.waiting.fill() };
        node.graph.store(graph.cast_mut(), Ordering::Release);
        let generation = node.count.generation();
        if edges == 0 && resolves == 0 {
            // The count of a free node is zero already, and says the right things: nothing to resolve, too late for an edge.
            return (generation, Some(self.ready()));
        }
        node.count.open(generation, edges, resolves);
        (generation, None)
    }

    /// Stores a description in the block of a free node of this thread.
    #[cold]
    fn apart(node: NodeRef, description: &Description) -> Brief {
        let place = node.block().cast::<Description>();
        // SAFETY: a description fits (asserted above), and nobody else uses the block of a free node.
        unsafe { place.write(*description) };
        Brief::apart(place)
    }

    /// Returns the block of this node, for the one thread that holds the node while it is free, or for whom the node was lent to.
    #[inline]
    pub(super) fn block(&self) -> NonNull<Block> {
        // SAFETY: inside of the node (asserted above).
        unsafe { self.0.byte_add(BLOCK_AT).cast() }
    }

    /// Returns the node that this is the block of.
    ///
    /// # Safety
    /// The pointer is from [`NodeRef::block`].
    #[inline]
    unsafe fn of_block<T>(block: NonNull<T>) -> Self {
        // SAFETY: the node begins so far before (caller).
        NodeRef(unsafe { block.byte_sub(BLOCK_AT) }.cast())
    }

    /// Returns the place of the closure.
    #[inline]
    fn words(&self) -> NonNull<BodyWords> {
        // SAFETY: a part of the node.
        let words = unsafe { &raw mut (*self.0.as_ptr()).body };
        NonNull::new(words.cast()).expect("a part of the node")
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

    /// Returns the number of the node's present task among all tasks of this node. It stays while [`NodeRef::waiting`] is locked.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.get().count.generation()
    }

    /// Locks and returns the list of the tasks that wait for this task.
    pub(crate) fn waiting(&self) -> WaitingTasks<'_> {
        self.get().waiting.lock()
    }

    /// Makes `waiting` wait for the task `generation` of this node, unless that has ended. Returns whether it waits. A list that is long
    /// gets the blocks of nodes that `take` returns.
    ///
    /// # Safety
    /// A node that `take` returns is free and this thread's.
    #[inline]
    pub(crate) unsafe fn add_successor(
        &self,
        generation: u32,
        waiting: NodeRef,
        take: impl FnOnce() -> NodeRef,
    ) -> bool {
        // No generation of a node comes back. Another one means that the task has ended, and the Acquire load makes its writes visible, so
        // that no lock is needed.
        if self.generation() != generation {
            return false;
        }
        let mut list = self.waiting();
        let waits = self.generation() == generation;
        if waits {
            // SAFETY: the caller says so.
            unsafe { list.push(waiting, take) };
        }
        waits
    }

    /// Prefetches what the end of the task will touch first, as far as it is known already: the first of the tasks that wait for it.
    ///
    /// # Safety
    /// The node is filled. The caller has the right to run the task, and has not ended it.
    #[inline]
    pub(crate) unsafe fn prefetch_first(&self) {
        // SAFETY: as the caller says.
        if let Some(first) = unsafe { self.get().waiting.first() } {
            first.prefetch_count();
        }
    }

    /// Takes the body out of the node and returns it, unless it was taken before. It lies in the node until it was used.
    ///
    /// # Safety
    /// The node is filled. The caller has the right to run the task, or knows that no worker runs it now or later.
    #[inline]
    pub(crate) unsafe fn take_body(&self) -> Option<ErasedBody> {
        let node = self.get();
        if !node.waiting.take_body() {
            return None;
        }
        // SAFETY: no other thread uses the cells (caller); `fill` wrote them for each other.
        unsafe {
            let table = (*node.header.get()).assume_init_ref().body()?;
            Some(ErasedBody::at(table, self.words()))
        }
    }

    /// Ends the task: its tokens become stale. Calls `release` with each task that waits for it, in the order in which they began to, and
    /// `free` with each node that was lent to it, which is free again and this thread's.
    ///
    /// # Safety
    /// The node is filled, its body was used, and this is called once for the task.
    #[inline]
    pub(crate) unsafe fn end(&self, release: impl FnMut(NodeRef), mut free: impl FnMut(NodeRef)) {
        let node = self.get();
        let mut list = node.waiting.lock();
        let generation = node.count.generation() + 1;
        node.graph.store(std::ptr::null_mut(), Ordering::Release);
        node.count.close(generation);
        let taken = list.take();
        drop(list);
        // SAFETY: header, brief and words are written, and nobody writes them before the node is free: only this thread frees it. Error
        // messages read header and description while the list is locked and has not been closed, so nobody reads the blocks any more.
        unsafe {
            let header = (*node.header.get()).assume_init_ref();
            if header.form() == Form::Apart {
                let brief = (*node.brief.get()).assume_init_ref();
                free(Self::of_block(brief.place()));
            }
            if header.short & CLOSURE_IN_BLOCK != 0 {
                free(Self::of_block(block_of(self.words())));
            }
        }
        // SAFETY: nobody adds to the list of a task that has ended, and this thread alone fills the node again.
        unsafe { node.waiting.each(taken, release, free) };
    }

    /// Returns whether this free node must serve no other task: the next one would have the number of a task of long ago, and tokens of
    /// that one would be taken for its own.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.generation() == 0
    }

    /// Makes the memory of a node that has been [given back to the system](super::Chunk) a free node again, whose next task is number
    /// `generation`. It reads as zero, or as what was there.
    ///
    /// # Safety
    /// This thread alone uses the node, except for threads with tokens of its ended tasks, which are below `generation` and load atomics
    /// only.
    pub(super) unsafe fn renew(&self, generation: u32) {
        let node = self.0.as_ptr();
        // SAFETY: no other thread uses the list (caller), which is empty: the last task has ended.
        unsafe { (&raw mut (*node).waiting).write(Waiting::default()) };
        let node = self.get();
        node.graph.store(std::ptr::null_mut(), Ordering::Relaxed);
        node.count.close(generation);
    }

    /// Returns what error messages say of the task.
    ///
    /// # Safety
    /// The node is filled, and no thread fills or ends it during the call.
    pub(crate) unsafe fn view(&self) -> TaskView {
        // SAFETY: the node is filled (caller), so header and brief are written.
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
            brief: UnsafeCell::new(MaybeUninit::uninit()),
            waiting: Waiting::default(),
            body: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}
