//! The nodes of a pool: the memory of dynamic tasks, from their registration to their end.
//!
//! A pool keeps the addresses of its nodes for as long as it lives. So a stale [`NodeRef`] still points to a node, and the node's
//! generation shows whether it holds the same task. Nodes of ended tasks are reused: a program that registers at a steady rate
//! allocates nothing after its first round.
//!
//! After a burst most nodes are free. [`Slab::trim`] gives the memory behind whole chunks of them back to the system: their addresses stay
//! good, and read as zero. No task has generation 0, so a stale [`NodeRef`] finds the task ended, as before.
//!
//! # Who may do what with a node
//!
//! | a node is | and belongs to | who has no more than a token |
//! |---|---|---|
//! | free | the slab's list, under its lock, or the thread that took it | *looks*: loads count and graph, finds the list empty |
//! | lent: a [`Block`](crate::executable::Block) of a task | that task | looks |
//! | filled, and waits | the registering thread until it drops the guard, then nobody | subtracts from the count; *waits* |
//! | ready, or runs | the owner of its one `Ready`, later of the `Runnable` | waits |
//! | ended | the worker that ended it, until it frees it | looks |
//!
//! Who waits locks the list, compares the generation, and then adds to the list, or reads header and description.
//!
//! - *One right for each task.* The operation that takes the count to zero gets it, and nothing raises a count of zero but `fill`, of a
//!   free node. What the registering thread wrote is visible to it: the count's operations are AcqRel (or there was no count, and the
//!   queue through which the right goes orders the two). So header, description and closure are written and read by one thread at a time,
//!   or only read.
//! - *A task ends under the list's lock.* There its generation rises, and the list is taken. Whoever locks later sees the generation and
//!   leaves the node alone; whoever locked before has added a task that the end releases. Behind the lock the places of the list are the
//!   ending thread's.
//! - *A task is dropped without a run* ([`discard`](super::scope::discard)) only when the run of its graph is over: no thread then has a
//!   right to run it, nor an edge or resolve left to subtract.
//! - *Cancelled and panicked tasks* go the same way as others: their closure is dropped in place of the call, or has been consumed by it.

mod count;
mod node;
mod waiting;

pub(crate) use count::{MAX_COUNT, Surplus};
pub(crate) use node::NodeRef;

use super::GraphCore;
use node::Node;
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tanada_queues::Padded;

/// Nodes per allocation.
const CHUNK: usize = 256;

/// Bytes of a page, or a part of one: chunks begin at such an address.
const PAGE: usize = 4096;

/// The most free nodes whose memory is kept, 16 MiB.
const KEPT: usize = if cfg!(any(test, miri)) { 4 } else { 512 } * CHUNK;

/// The least time between two times at which memory is given back: it costs the next burst a page fault for 32 nodes, and bursts may
/// follow each other.
const RARELY: Duration = if cfg!(test) {
    Duration::ZERO
} else {
    Duration::from_secs(1)
};

/// A node that is to have more tasks than so many keeps its memory: all nodes of a chunk that has cooled go on with the highest number of
/// one of them, and none may pass 2^24 - 1 ([`NodeRef::is_used_up`]).
const MOST_TASKS: u32 = 1 << 23;

/// Tasks with nodes, from which on these are prefetched: 4 MiB of them, more than most caches of one core. Of fewer tasks the next ones are
/// often in the hands of another worker, from which a prefetch would take the line. Tests prefetch always.
const LARGE: usize = if cfg!(any(debug_assertions, miri)) {
    1
} else {
    1 << 15
};

/// All nodes of a pool.
#[derive(Default)]
pub(crate) struct Slab {
    inner: Mutex<Inner>,
    /// Whether at least [`LARGE`] nodes are in use. On a line of its own: workers read it for each task.
    large: Padded<AtomicBool>,
}

#[derive(Default)]
struct Inner {
    chunks: Vec<Chunk>,
    /// Chunks whose memory was given back to the system: their places in `chunks`, and the number of the next task of each of their nodes.
    cold: Vec<(usize, u32)>,
    free: Vec<NodeRef>,
    /// When memory was last given back.
    trimmed: Option<Instant>,
}

/// An owned array of nodes. The pointer is from `Box::into_raw`: a `Box` would claim that no [`NodeRef`] points into it.
struct Chunk(NonNull<Nodes>);

/// The nodes of a chunk, on pages of their own.
#[repr(C, align(4096))]
struct Nodes([Node; CHUNK]);

const _: () = assert!(align_of::<Nodes>() == PAGE && size_of::<Nodes>().is_multiple_of(PAGE));

// SAFETY: a chunk owns its nodes, which are `Send` and `Sync`.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new() -> Self {
        let mut nodes = Box::<Nodes>::new_uninit();
        let first = nodes.as_mut_ptr().cast::<Node>();
        for at in 0..CHUNK {
            // SAFETY: inside of the allocation.
            unsafe { first.add(at).write(Node::free()) };
        }
        // SAFETY: each node was written.
        let nodes = unsafe { nodes.assume_init() };
        Chunk(NonNull::new(Box::into_raw(nodes)).expect("a box is not null"))
    }

    /// Gives the memory back to the system. Returns the number of the next task of each node, or `None` if the memory must stay, because
    /// some node has had nearly as many tasks as it can have.
    ///
    /// # Safety
    /// All nodes are free and this thread's, and no other thread is about to lock one.
    unsafe fn cool(&self) -> Option<u32> {
        let next = self.nodes().map(|node| node.generation()).max();
        let next = next.filter(|next| *next < MOST_TASKS)?;
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: these pages hold this chunk alone. Nothing is lost, since the nodes are free (caller), and what other threads may load of
        // them, the atomics, reads as zero.
        unsafe {
            libc::madvise(
                self.0.as_ptr().cast(),
                size_of::<Nodes>(),
                libc::MADV_DONTNEED,
            );
        }
        Some(next)
    }

    fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeRef> {
        let first = self.0.cast::<Node>();
        // SAFETY: the offsets stay inside the chunk.
        (0..CHUNK).map(move |offset| NodeRef(unsafe { first.add(offset) }))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, freed once. The pool drops its slab after its workers, so no `NodeRef` is used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Slab {
    /// Moves up to `wanted` free nodes into `cache`, at least one. Allocates a chunk if no node is free.
    pub(crate) fn refill(&self, cache: &mut Vec<NodeRef>, wanted: usize) {
        let mut inner = self.inner.lock();
        let Inner {
            chunks, cold, free, ..
        } = &mut *inner;
        if free.is_empty() {
            if let Some((at, generation)) = cold.pop() {
                free.extend(chunks[at].nodes().rev());
                // SAFETY: the chunk was cold, so all of its nodes are free and this thread's.
                free.iter()
                    .for_each(|node| unsafe { node.renew(generation) });
            } else {
                let chunk = Chunk::new();
                free.extend(chunk.nodes().rev());
                chunks.push(chunk);
            }
        }
        let keep = inner.free.len().saturating_sub(wanted);
        cache.extend(inner.free.drain(keep..));
        self.size_up(&inner);
    }

    /// Looks whether many nodes are in use, or in the hands of workers.
    fn size_up(&self, inner: &Inner) {
        let used = (inner.chunks.len() - inner.cold.len()) * CHUNK - inner.free.len();
        let large = used >= LARGE;
        if self.is_large() != large {
            self.large.0.store(large, Ordering::Relaxed);
        }
    }

    /// Returns whether many nodes are in use: more than a core's caches hold. A hint.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.large.0.load(Ordering::Relaxed)
    }

    /// Takes the last node out of `cache`, and prefetches the one before it.
    #[inline]
    pub(super) fn pop(cache: &mut Vec<NodeRef>) -> NodeRef {
        let node = cache.pop().expect("just refilled");
        if let Some(next) = cache.last() {
            next.prefetch();
        }
        node
    }

    /// Returns a free node, for a thread without a cache.
    pub(crate) fn take_one(&self) -> NodeRef {
        if let Some(node) = self.inner.lock().free.pop() {
            return node;
        }
        let mut one = Vec::new();
        self.refill(&mut one, 1);
        one[0]
    }

    /// Frees the nodes of `cache` behind the first `keep`.
    pub(crate) fn give_back(&self, cache: &mut Vec<NodeRef>, keep: usize) {
        let keep = keep.min(cache.len());
        let mut inner = self.inner.lock();
        inner.free.extend(cache.drain(keep..));
        self.size_up(&inner);
    }

    /// Gives the memory of chunks of which all nodes are free back to the system, if many nodes are free; rarely.
    ///
    /// # Safety
    /// No graph of the pool runs during this call: a thread that has a token of a task that ended a moment ago may be about to lock its
    /// node.
    pub(crate) unsafe fn trim(&self) {
        let mut inner = self.inner.lock();
        if inner.free.len() <= KEPT || inner.trimmed.is_some_and(|at| at.elapsed() < RARELY) {
            return;
        }
        inner.trimmed = Some(Instant::now());
        let Inner {
            chunks, cold, free, ..
        } = &mut *inner;
        // Cold chunks have no free nodes in the list, and are found by their places: so the order of `chunks` stays.
        let mut by_address: Vec<(usize, usize)> = (chunks.iter().enumerate())
            .map(|(at, chunk)| (chunk.0.addr().get(), at))
            .collect();
        by_address.sort_unstable();
        // Nodes that are freed one after the other are often of one chunk: so the last one that was found is tried first.
        let mut last = by_address[0];
        let mut place_of = |node: &NodeRef| {
            let address = node.address();
            if address.wrapping_sub(last.0) >= size_of::<Nodes>() {
                let behind = by_address.partition_point(|(first, _)| *first <= address);
                last = by_address[behind - 1];
            }
            last.1
        };
        let mut left = vec![CHUNK; chunks.len()];
        free.iter().for_each(|node| left[place_of(node)] -= 1);
        let mut kept = free.len();
        let mut cools = vec![false; chunks.len()];
        for (at, chunk) in chunks.iter().enumerate() {
            if left[at] == 0 && kept >= KEPT + CHUNK {
                // SAFETY: all nodes of the chunk are in the list of free ones, which is locked; else as the caller says.
                if let Some(next) = unsafe { chunk.cool() } {
                    cold.push((at, next));
                    cools[at] = true;
                    kept -= CHUNK;
                }
            }
        }
        free.retain(|node| !cools[place_of(node)]);
        free.shrink_to(2 * KEPT);
    }

    /// Returns the nodes whose tasks belong to graphs that `belongs` returns true for. Looks at every node of the pool, so it is for errors
    /// only.
    pub(crate) fn of_graphs(&self, belongs: impl Fn(*const GraphCore) -> bool) -> Vec<NodeRef> {
        let inner = self.inner.lock();
        let nodes = inner.chunks.iter().flat_map(Chunk::nodes);
        nodes.filter(|node| belongs(node.graph())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executable::{Description, Executable, Header};
    use crate::worker::WorkerCore;
    use tanada_policy::Hints;

    /// Takes and returns `number` nodes.
    fn take(slab: &Slab, number: usize) -> Vec<NodeRef> {
        let mut nodes = Vec::new();
        while nodes.len() < number {
            slab.refill(&mut nodes, CHUNK);
        }
        nodes
    }

    /// A thing that nothing runs.
    struct Idle;

    impl Executable for Idle {
        const OBSERVED: bool = false;
        unsafe fn run_body(_: NonNull<Header>, _: &WorkerCore) {}
        unsafe fn finish(_: NonNull<Header>, _: &WorkerCore) {}
    }

    /// A task lives in this free node and ends. It has a description that lies in the block of another free node.
    fn live(node: NodeRef, lent: NodeRef) {
        let description = Description {
            name: "idle",
            index: 0,
            hints: Hints::default().with_depth(1),
        };
        // SAFETY: both nodes are this thread's, the body borrows nothing, and no policy gets the right to run it.
        unsafe {
            let graph = std::ptr::null();
            let _never_run =
                node.fill::<Idle, (), _>(graph, &description, (0, 0), || lent, |()| ());
            node.take_body().expect("it was filled").discard();
            let mut back = Vec::new();
            node.end(|_| (), |block| back.push(block));
            assert_eq!(back, [lent], "the description");
        }
    }

    /// Returns the bytes of this chunk that are in memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident(chunk: &Chunk) -> usize {
        let mut pages = [0_u8; size_of::<Nodes>() / PAGE];
        let address = chunk.0.as_ptr().cast();
        // SAFETY: the pages are mapped, and as many bytes are written as there are pages at least.
        let code = unsafe { libc::mincore(address, size_of::<Nodes>(), pages.as_mut_ptr()) };
        assert_eq!(code, 0);
        pages.iter().filter(|page| **page & 1 != 0).count() * PAGE
    }

    #[test]
    fn memory_goes_back_after_a_burst_and_old_tokens_stay_stale() {
        let slab = Slab::default();
        let number = KEPT + 20 * CHUNK;
        let mut tokens = Vec::new();
        for round in 0..3 {
            let mut nodes = take(&slab, number);
            let lent = nodes.pop().expect("many");
            for node in &nodes {
                let new = (node.address(), node.generation());
                assert!(node.generation() > 0 && !node.is_used_up());
                tokens.push((*node, new.1));
                live(*node, lent);
            }
            nodes.insert(0, lent);
            // One node is not free: its chunk stays.
            let used = nodes.pop().expect("many");
            slab.give_back(&mut nodes, 0);
            // SAFETY: there is no graph.
            unsafe { slab.trim() };
            let inner = slab.inner.lock();
            assert_eq!(inner.chunks.len(), number / CHUNK, "round {round}");
            assert_eq!(inner.cold.len(), 20 - 1, "round {round}");
            assert_eq!(inner.free.len(), KEPT + CHUNK - 1);
            #[cfg(all(target_os = "linux", not(miri)))]
            for (at, chunk) in inner.chunks.iter().enumerate() {
                let cold = inner.cold.iter().any(|(place, _)| *place == at);
                assert_eq!(cold, resident(chunk) == 0);
            }
            drop(inner);
            for (node, generation) in &tokens {
                // SAFETY: no node is taken.
                let waits =
                    unsafe { node.add_successor(*generation, used, || panic!("of an ended task")) };
                assert!(!waits);
                assert!(!node.try_add_edge(*generation));
                assert!(node.resolve(*generation).is_err());
            }
            slab.give_back(&mut vec![used], 0);
        }
        // No number came twice.
        let mut seen: Vec<_> = (tokens.iter())
            .map(|(node, generation)| (node.address(), *generation))
            .collect();
        seen.sort_unstable();
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    /// Two threads let tasks wait for tasks that a third ends, whose nodes it uses again at once, for tasks and as blocks. Miri and the
    /// sanitizers look at what the test cannot see; it sees that each task that waits is released once.
    #[test]
    fn tokens_of_nodes_that_are_used_again() {
        use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

        let rounds = if cfg!(miri) { 30 } else { 20_000 };
        let mut lent = 0;
        let slab = Slab::default();
        let node = slab.take_one();
        let (token, over) = (AtomicU64::new(0), AtomicUsize::new(0));
        let (waited, released) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let (mut last, mut added_to) = (0, 0);
                    while over.load(Ordering::Relaxed) == 0 {
                        let generation = token.load(Ordering::Acquire) as u32;
                        added_to = if generation == last { added_to } else { 0 };
                        last = generation;
                        if added_to == 10 {
                            std::hint::spin_loop();
                            std::thread::yield_now();
                            continue;
                        }
                        let waits = slab.take_one();
                        // SAFETY: each node is free and this thread's. A task that waits is never run: it stands for itself.
                        let added =
                            unsafe { node.add_successor(generation, waits, || slab.take_one()) };
                        match added {
                            true => {
                                added_to += 1;
                                waited.fetch_add(1, Ordering::Relaxed);
                            }
                            false => slab.give_back(&mut vec![waits], 0),
                        }
                    }
                });
            }
            for _ in 0..rounds {
                let large = [u64::from(node.generation()); 8];
                let (ran, mut free) = (AtomicUsize::new(0), Vec::new());
                let body = {
                    let ran = &ran;
                    move |(): &()| _ = ran.fetch_add(large.len(), Ordering::Relaxed)
                };
                let description = Description {
                    name: "again",
                    index: 0,
                    hints: Hints::default().with_depth(1),
                };
                // SAFETY: the node is this thread's, and so is what is taken; the body is called before what it borrows ends, and no policy
                // gets the right to run it.
                unsafe {
                    let (graph, one) = (std::ptr::null(), (0, 1));
                    let take = || slab.take_one();
                    let (generation, _) =
                        node.fill::<Idle, (), _>(graph, &description, one, take, body);
                    token.store(generation.into(), Ordering::Release);
                    if !cfg!(miri) {
                        (0..generation % 64).for_each(|_| std::hint::spin_loop());
                    }
                    std::thread::yield_now();
                    // The guard, and the resolve.
                    assert!(node.drop_edges(1).is_none());
                    let _never_run = node.resolve(generation).expect("one").expect("the last");
                    node.take_body().expect("it was filled").call(&());
                    let mut blocks = Vec::new();
                    let release = |waits: NodeRef| {
                        released.fetch_add(1, Ordering::Relaxed);
                        free.push(waits);
                    };
                    node.end(release, |block| blocks.push(block));
                    lent += blocks.len();
                    free.append(&mut blocks);
                }
                assert_eq!(ran.into_inner(), large.len());
                slab.give_back(&mut free, 0);
            }
            over.store(1, Ordering::Relaxed);
        });
        assert!(lent >= 2 * rounds, "closures and descriptions");
        assert_eq!(waited.into_inner(), released.into_inner());
    }

    #[test]
    fn a_node_with_many_tasks_keeps_its_memory() {
        let slab = Slab::default();
        let mut nodes = take(&slab, KEPT + 2 * CHUNK);
        // SAFETY: the nodes are this thread's.
        nodes
            .iter()
            .for_each(|node| unsafe { node.renew(MOST_TASKS) });
        slab.give_back(&mut nodes, 0);
        // SAFETY: there is no graph.
        unsafe { slab.trim() };
        assert!(slab.inner.lock().cold.is_empty());
    }
}
