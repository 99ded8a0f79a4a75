//! Nodes of dynamic graphs: where a task lives from its registration to its end.
//!
//! A pool owns its nodes and never gives their memory back while it lives, so a stale [`NodeRef`] always points at a node; a
//! generation tells whether it is still the same task. Ended nodes are used again, so a program that registers at a steady rate
//! allocates nothing after its first round.

use crate::graph::GraphCore;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use tanada_policy::{Hints, Ready};

/// Nodes that are allocated at once.
const CHUNK: usize = 256;

/// Words of a node that hold its body; a larger closure goes into a box.
const BODY_WORDS: usize = 8;

/// What every executable thing begins with: a [`Ready`]'s handle is a pointer to it.
#[repr(C)]
pub(crate) struct Header {
    /// How to run and how to end it.
    pub(crate) kind: &'static Kind,
    pub(crate) name: &'static str,
    pub(crate) index: u64,
    pub(crate) hints: Hints,
}

/// The two steps of an executable thing, compiled once a type.
pub(crate) struct Kind {
    /// Whether observers are told of it.
    pub(crate) observed: bool,
    /// Runs the body.
    ///
    /// Safety: the pointer is the live header of this kind, ready, and this is its only run.
    pub(crate) run: unsafe fn(NonNull<Header>, &dyn WorkerCore),
    /// Releases what waits for it. Afterwards the header may be gone.
    ///
    /// Safety: as `run`, which has returned.
    pub(crate) finish: unsafe fn(NonNull<Header>, &dyn WorkerCore),
}

impl Header {
    /// The right to run the thing with this header.
    ///
    /// # Safety
    /// The header stays where it is until it has run, it is ready, and this is called once for that.
    #[inline]
    pub(crate) unsafe fn ready(this: NonNull<Header>) -> Ready {
        // SAFETY: the caller vouches for `this`, which is alive.
        let digest = unsafe { this.as_ref() }.hints.digest();
        // SAFETY: as the caller says; a pointer to user memory fits into 48 bits (checked by `Ready::new`).
        unsafe { Ready::new(this.as_ptr() as u64, digest) }
    }

    /// The header that a `Ready` of this engine stands for.
    #[inline]
    pub(crate) fn of(ready: &Ready) -> NonNull<Header> {
        NonNull::new(ready.handle() as *mut Header).expect("a handle is never 0")
    }
}

/// How to call and how to drop a body of one type.
pub(crate) struct BodyTable {
    pub(crate) call: unsafe fn(*mut u8, *const ()),
    pub(crate) drop: unsafe fn(*mut u8),
}

/// A task of a dynamic graph.
///
/// `header`, `body` and `table` are written by the registering thread before the node's first unresolved dependency is given up, and
/// read by the one worker that runs it; the dependency count's release and acquire order the two.
#[repr(C, align(64))]
pub(crate) struct Node {
    header: UnsafeCell<MaybeUninit<Header>>,
    pub(crate) state: State,
    graph: AtomicPtr<GraphCore>,
    successors: Mutex<Successors>,
    table: UnsafeCell<Option<&'static BodyTable>>,
    body: UnsafeCell<[MaybeUninit<u64>; BODY_WORDS]>,
}

// SAFETY: the `UnsafeCell`s are handed from the registering thread to the running one as the type's comment says; bodies are `Send`.
unsafe impl Send for Node {}
// SAFETY: as above: no two threads use the cells at a time.
unsafe impl Sync for Node {}

/// A pointer to a node of a pool that is alive. Copying it copies no right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef(NonNull<Node>);

// SAFETY: a `NodeRef` gives access to a `&Node` only, which is `Sync`, and pools outlive their nodes' users.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

/// Who waits for a task. The generation rises when the task ends: then nobody can begin to wait for it any more.
#[derive(Default)]
pub(crate) struct Successors {
    pub(crate) generation: u32,
    pub(crate) list: SmallVec<[NodeRef; 4]>,
}

const EDGE_BITS: u32 = 20;
const MANUAL_BITS: u32 = 20;
const EDGE: u64 = 1;
const MANUAL: u64 = 1 << EDGE_BITS;
const COUNTS: u64 = (1 << (EDGE_BITS + MANUAL_BITS)) - 1;
/// The most edges into one task, and the most `resolve`s of one task.
pub(crate) const MAX_COUNT: u32 = (1 << EDGE_BITS) - 2;

/// Dependency count and generation in one word: 20 bits of unresolved edges (and the registration's own guard), 20 bits of unresolved
/// `resolve`s, 24 bits of generation. One word, so that a `resolve` that comes too late or once too often cannot hit a node's next task.
pub(crate) struct State(AtomicU64);

impl State {
    fn generation_bits(generation: u32) -> u64 {
        u64::from(generation) << (EDGE_BITS + MANUAL_BITS)
    }

    /// Starts with `manual` unresolved counts and the registration's guard.
    fn open(&self, generation: u32, manual: u32) {
        assert!(
            manual <= MAX_COUNT,
            "a task has at most {MAX_COUNT} unresolved dependencies"
        );
        self.0.store(
            Self::generation_bits(generation) | (u64::from(manual) * MANUAL) | EDGE,
            Ordering::Release,
        );
    }

    fn close(&self, generation: u32) {
        self.0
            .store(Self::generation_bits(generation), Ordering::Release);
    }

    /// One more edge, by somebody who holds a count of this task.
    pub(crate) fn add_edge(&self) {
        let before = self.0.fetch_add(EDGE, Ordering::Relaxed);
        assert!(
            before & (MANUAL - 1) < u64::from(MAX_COUNT),
            "a task has at most {MAX_COUNT} dependencies"
        );
    }

    /// One more edge, unless the task has become ready. Returns whether it was added.
    pub(crate) fn try_add_edge(&self, generation: u32) -> bool {
        let add = |counts: u64| {
            assert!(
                counts & (MANUAL - 1) < u64::from(MAX_COUNT),
                "a task has at most {MAX_COUNT} dependencies"
            );
            (counts != 0).then_some(EDGE as i64)
        };
        self.update(generation, add).is_some()
    }

    /// Takes one edge (or the guard) away. Returns whether the task is ready now.
    #[inline]
    pub(crate) fn drop_edge(&self) -> bool {
        self.0.fetch_sub(EDGE, Ordering::AcqRel) & COUNTS == EDGE
    }

    /// Takes one manual count away. `None`: there was none; else whether the task is ready now.
    pub(crate) fn resolve(&self, generation: u32) -> Option<bool> {
        self.update(generation, |counts| {
            (counts >= MANUAL).then_some(-(MANUAL as i64))
        })
        .map(|counts| counts == 0)
    }

    /// Adds what `change` gives for the counts, if anything; returns the counts afterwards.
    fn update(&self, generation: u32, change: impl Fn(u64) -> Option<i64>) -> Option<u64> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen & !COUNTS != Self::generation_bits(generation) {
                return None;
            }
            let next = seen.wrapping_add_signed(change(seen & COUNTS)?);
            match self
                .0
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(next & COUNTS),
                Err(now) => seen = now,
            }
        }
    }
}

impl NodeRef {
    #[inline]
    pub(crate) fn get(&self) -> &Node {
        // SAFETY: chunks live as long as the pool, and whoever holds a `NodeRef` holds the pool (tokens are checked against it).
        unsafe { self.0.as_ref() }
    }

    /// The header, where a `Ready` points.
    #[inline]
    pub(crate) fn header(&self) -> NonNull<Header> {
        self.0.cast()
    }

    /// The node whose header this is.
    ///
    /// # Safety
    /// The header is a node's.
    #[inline]
    pub(crate) unsafe fn from_header(header: NonNull<Header>) -> Self {
        NodeRef(header.cast())
    }

    /// Makes a task of a free node. It becomes ready when `manual` counts are resolved, its edges are dropped and the guard is, too.
    ///
    /// # Safety
    /// The node is free and this thread alone holds it. `graph` outlives the task. What the body borrows outlives the graph's run.
    pub(crate) unsafe fn fill(
        &self,
        graph: *mut GraphCore,
        header: Header,
        manual: u32,
        body: ErasedBody,
    ) -> u32 {
        let node = self.get();
        // SAFETY: nobody else holds the node (caller).
        unsafe {
            (*node.header.get()).write(header);
            *node.table.get() = Some(body.table);
            *node.body.get() = body.words;
        }
        node.graph.store(graph, Ordering::Release);
        let generation = node.successors.lock().generation;
        node.state.open(generation, manual);
        generation
    }

    /// The graph that this node's task belongs to, if it has one.
    pub(crate) fn graph(&self) -> *const GraphCore {
        self.get().graph.load(Ordering::Acquire)
    }

    /// The node's address, as an order for maps.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Takes the body out of the node, to call or to drop it.
    ///
    /// # Safety
    /// Called once for each [`NodeRef::fill`], by the only thread that has the right to run or to discard the task.
    pub(crate) unsafe fn take_body(&self) -> ErasedBody {
        let node = self.get();
        // SAFETY: the caller is alone; the table was written by `fill`.
        unsafe {
            ErasedBody {
                table: (*node.table.get()).take().expect("filled once, taken once"),
                words: *node.body.get(),
            }
        }
    }

    /// Ends the task: from now on its tokens are stale. Moves whoever waits for it into `waiting`.
    pub(crate) fn end(&self, waiting: &mut SmallVec<[NodeRef; 4]>) {
        let node = self.get();
        let mut successors = node.successors.lock();
        successors.generation = successors.generation.wrapping_add(1);
        node.state.close(successors.generation);
        waiting.clear();
        std::mem::swap(waiting, &mut successors.list);
        node.graph.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Name of the task, as far as it has one.
    ///
    /// # Safety
    /// The node is filled and no thread fills or ends it meanwhile.
    pub(crate) unsafe fn name(&self) -> String {
        // SAFETY: filled, so the header is initialised (caller).
        let header = unsafe { (*self.get().header.get()).assume_init_ref() };
        task_name(header.name, header.index)
    }
}

/// How messages name a task.
pub(crate) fn task_name(name: &str, index: u64) -> String {
    format!("{name}[{index}]")
}

impl Node {
    fn free() -> Self {
        Node {
            header: UnsafeCell::new(MaybeUninit::uninit()),
            state: State(AtomicU64::new(0)),
            graph: AtomicPtr::new(std::ptr::null_mut()),
            successors: Mutex::new(Successors::default()),
            table: UnsafeCell::new(None),
            body: UnsafeCell::new([MaybeUninit::uninit(); BODY_WORDS]),
        }
    }

    /// Who waits for this task.
    pub(crate) fn successors(&self) -> parking_lot::MutexGuard<'_, Successors> {
        self.successors.lock()
    }
}

/// A closure without its type. Dropping it without [`ErasedBody::call`] or [`ErasedBody::discard`] leaks the closure.
pub(crate) struct ErasedBody {
    table: &'static BodyTable,
    words: [MaybeUninit<u64>; BODY_WORDS],
}

impl ErasedBody {
    /// Erases `body`, which will be called with a pointer to a `C`.
    pub(crate) fn new<C, F: FnOnce(&C) + Send>(body: F) -> Self {
        let mut words = [MaybeUninit::uninit(); BODY_WORDS];
        if size_of::<F>() <= size_of::<[u64; BODY_WORDS]>() && align_of::<F>() <= align_of::<u64>()
        {
            // SAFETY: it fits, as the line above says; the words are ours.
            unsafe { words.as_mut_ptr().cast::<F>().write(body) };
            ErasedBody {
                table: &Inline::<C, F>::TABLE,
                words,
            }
        } else {
            let boxed = Box::into_raw(Box::new(body));
            // SAFETY: a thin pointer fits into a word; the words are ours.
            unsafe { words.as_mut_ptr().cast::<*mut F>().write(boxed) };
            ErasedBody {
                table: &Boxed::<C, F>::TABLE,
                words,
            }
        }
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// `context` is of the type that the body was erased with, and what the closure borrows is still alive.
    pub(crate) unsafe fn call<C>(mut self, context: &C) {
        // SAFETY: the table belongs to the words; `self` is consumed, so this happens once.
        unsafe {
            (self.table.call)(
                self.words.as_mut_ptr().cast(),
                std::ptr::from_ref(context).cast(),
            )
        }
    }

    /// Drops the closure without calling it.
    ///
    /// # Safety
    /// What the closure borrows is still alive.
    pub(crate) unsafe fn discard(mut self) {
        // SAFETY: as in `call`.
        unsafe { (self.table.drop)(self.words.as_mut_ptr().cast()) }
    }
}

struct Inline<C, F>(std::marker::PhantomData<(C, F)>);

impl<C, F: FnOnce(&C)> Inline<C, F> {
    const TABLE: BodyTable = BodyTable {
        // SAFETY: the words hold an `F` that is used once, and the context is a `C`: `ErasedBody` keeps them together.
        call: |words, context| unsafe { words.cast::<F>().read()(&*context.cast::<C>()) },
        // SAFETY: see above.
        drop: |words| unsafe { words.cast::<F>().drop_in_place() },
    };
}

struct Boxed<C, F>(std::marker::PhantomData<(C, F)>);

impl<C, F: FnOnce(&C)> Boxed<C, F> {
    const TABLE: BodyTable = BodyTable {
        // SAFETY: the words hold a pointer from `Box::into_raw` that is used once, and the context is a `C`.
        call: |words, context| unsafe {
            Box::from_raw(words.cast::<*mut F>().read())(&*context.cast::<C>())
        },
        // SAFETY: see above.
        drop: |words| unsafe { drop(Box::from_raw(words.cast::<*mut F>().read())) },
    };
}

/// All nodes of a pool.
#[derive(Default)]
pub(crate) struct Slab {
    inner: Mutex<SlabInner>,
}

#[derive(Default)]
struct SlabInner {
    /// From `Box::into_raw`: nodes are reached through raw pointers only, so the boxes must not be touched as boxes until the end.
    chunks: Vec<NonNull<[Node; CHUNK]>>,
    free: Vec<NodeRef>,
}

// SAFETY: the chunks are owned by the slab; nodes are `Send` and `Sync`.
unsafe impl Send for SlabInner {}

impl Drop for SlabInner {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: from `Box::into_raw`, freed once; the pool drops its slab after its workers, so nobody uses the nodes.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

impl Slab {
    /// Moves up to `wanted` free nodes into `cache` (at least one), allocating a chunk where there is none.
    pub(crate) fn refill(&self, cache: &mut Vec<NodeRef>, wanted: usize) {
        let mut inner = self.inner.lock();
        if inner.free.is_empty() {
            let nodes: Box<[Node]> = (0..CHUNK).map(|_| Node::free()).collect();
            let chunk = NonNull::new(Box::into_raw(nodes).cast::<[Node; CHUNK]>())
                .expect("a box is not null");
            inner.chunks.push(chunk);
            let first = chunk.cast::<Node>();
            // SAFETY: the offsets stay inside the chunk.
            inner.free.extend(
                (0..CHUNK)
                    .rev()
                    .map(|offset| NodeRef(unsafe { first.add(offset) })),
            );
        }
        let keep = inner.free.len().saturating_sub(wanted);
        cache.extend(inner.free.drain(keep..));
    }

    /// A free node for a thread without a cache.
    pub(crate) fn take_one(&self) -> NodeRef {
        let mut one = Vec::new();
        if let Some(node) = self.inner.lock().free.pop() {
            return node;
        }
        self.refill(&mut one, 1);
        one[0]
    }

    /// Takes nodes from the end of `cache` until `keep` are left.
    pub(crate) fn give_back(&self, cache: &mut Vec<NodeRef>, keep: usize) {
        let keep = keep.min(cache.len());
        self.inner.lock().free.extend(cache.drain(keep..));
    }

    /// The nodes whose tasks belong to `graph`. Costs a look at every node of the pool: for errors only.
    pub(crate) fn of_graph(&self, graph: *const GraphCore) -> Vec<NodeRef> {
        let inner = self.inner.lock();
        let nodes = inner.chunks.iter().flat_map(|chunk| {
            let first = chunk.cast::<Node>();
            // SAFETY: the offsets stay inside the chunk.
            (0..CHUNK).map(move |offset| NodeRef(unsafe { first.add(offset) }))
        });
        nodes
            .filter(|node| std::ptr::eq(node.graph(), graph))
            .collect()
    }
}
