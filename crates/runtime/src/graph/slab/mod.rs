//! Nodes of dynamic graphs: where a task lives from its registration to its end.
//!
//! A pool owns its nodes and never gives their memory back while it lives, so a stale [`NodeRef`] always points at a node; a
//! generation tells whether it is still the same task. Ended nodes are used again, so a program that registers at a steady rate
//! allocates nothing after its first round.

use crate::graph::GraphCore;
use crate::observer::TaskView;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use tanada_policy::{Hints, Ready};

/// Nodes that are allocated at once.
const CHUNK: usize = 256;

/// Words of a node that hold its body; a larger closure goes into a box.
const BODY_WORDS: usize = 8;

/// What every executable thing begins with: a [`Ready`]'s handle is a pointer to it. What a worker and a policy need of every task; the
/// rest of its description is the [`Cold`] that stands [`COLD_AT`] bytes behind the header's first.
#[repr(C)]
pub(crate) struct Header {
    /// How to run and how to end it.
    pub(crate) kind: &'static Kind,
    t: u32,
    s: u32,
    digest: u16,
    /// Two numbers for the kind's own use.
    pub(crate) short: u16,
    pub(crate) long: u32,
}

/// Where an executable thing has its [`Cold`]: on the cache line behind the header's.
pub(crate) const COLD_AT: usize = 64;

/// The part of a task's description that is seldom read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cold {
    pub(crate) name: &'static str,
    pub(crate) index: u64,
    pub(crate) hints: Hints,
}

/// A type of executable things, as the graph layer writes it down.
///
/// Safety of both: the pointer is the live header of a thing of this type, ready, and this is its only run; `finish` comes once, when
/// `run` has returned.
pub(crate) trait Executable {
    /// Whether observers are told of it.
    const OBSERVED: bool;

    /// Runs the body.
    unsafe fn run(header: NonNull<Header>, worker: &WorkerCore);

    /// Releases what waits for it. Afterwards the header may be gone.
    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore);

    /// The table that headers of this type point to.
    const KIND: Kind = Kind {
        observed: Self::OBSERVED,
        step: |header, worker| {
            // SAFETY: passed on.
            unsafe {
                Self::run(header, worker);
                Self::finish(header, worker);
            }
        },
        run: Self::run,
        finish: Self::finish,
    };
}

/// What a worker can do with an executable thing: an [`Executable`] as a table.
pub(crate) struct Kind {
    pub(crate) observed: bool,
    /// `run`, then `finish`: the hot path, where nobody watches.
    pub(crate) step: unsafe fn(NonNull<Header>, &WorkerCore),
    pub(crate) run: unsafe fn(NonNull<Header>, &WorkerCore),
    pub(crate) finish: unsafe fn(NonNull<Header>, &WorkerCore),
}

impl Header {
    /// A header for a task with this hint.
    pub(crate) fn new(kind: &'static Kind, hints: Hints, short: u16, long: u32) -> Self {
        Header {
            kind,
            t: hints.t,
            s: hints.s,
            digest: hints.digest(),
            short,
            long,
        }
    }

    /// The right to run the thing with this header.
    ///
    /// # Safety
    /// The header stays where it is until it has run, it is ready, and this is called once for that.
    #[inline]
    pub(crate) unsafe fn ready(this: NonNull<Header>) -> Ready {
        // SAFETY: the caller vouches for `this`, which is alive.
        let digest = unsafe { this.as_ref() }.digest;
        // SAFETY: as the caller says; a pointer to user memory fits into 48 bits (checked by `Ready::new`).
        unsafe { Ready::new(this.as_ptr() as u64, digest) }
    }

    /// The header that a `Ready` of this engine stands for.
    #[inline]
    pub(crate) fn of(ready: &Ready) -> NonNull<Header> {
        NonNull::new(ready.handle() as *mut Header).expect("a handle is never 0")
    }

    /// The full hint; what stands for the code is the task's name, where the task says nothing else. The groups come from the header
    /// itself, so a caller that needs no more touches no further cache line.
    ///
    /// # Safety
    /// `this` is the live header of an executable thing, got from a pointer to the whole of it.
    #[inline]
    pub(crate) unsafe fn hints(this: NonNull<Header>) -> Hints {
        // SAFETY: passed on.
        let (header, cold) = unsafe { (this.as_ref(), Header::cold(this)) };
        let mut hints = cold.hints;
        (hints.t, hints.s) = (header.t, header.s);
        if hints.code == 0 {
            hints.code = code_of(cold.name);
        }
        hints
    }

    /// What observers and messages say of it.
    ///
    /// # Safety
    /// As [`Header::hints`].
    pub(crate) unsafe fn view(this: NonNull<Header>) -> TaskView {
        // SAFETY: passed on.
        let Cold { name, index, hints } = *unsafe { Header::cold(this) };
        TaskView { name, index, hints }
    }

    /// Safety: as [`Header::hints`].
    #[inline]
    unsafe fn cold<'a>(this: NonNull<Header>) -> &'a Cold {
        // SAFETY: every executable thing has it there (each asserts so), written when it became one.
        unsafe { this.byte_add(COLD_AT).cast().as_ref() }
    }
}

/// How to call and how to drop a body of one type.
pub(crate) struct BodyTable {
    pub(crate) call: unsafe fn(*mut u8, *const ()),
    pub(crate) drop: unsafe fn(*mut u8),
}

/// A task of a dynamic graph.
///
/// `header`, `cold`, `body` and `table` are written by the registering thread before the node's first unresolved dependency is given up,
/// and read by whoever holds its [`Ready`], which the dependency count's release and acquire order behind; `header` and `cold` also by
/// messages, under the lock of `successors` or after the run.
#[repr(C, align(64))]
pub(crate) struct Node {
    header: UnsafeCell<MaybeUninit<Header>>,
    pub(crate) state: State,
    graph: AtomicPtr<GraphCore>,
    /// Rises when the task ends: then nobody can begin to wait for it any more. Changed under the lock of `successors`.
    generation: AtomicU32,
    table: UnsafeCell<Option<&'static BodyTable>>,
    cold: Aligned<UnsafeCell<MaybeUninit<Cold>>>,
    body: UnsafeCell<[MaybeUninit<u64>; BODY_WORDS]>,
    successors: Mutex<Successors>,
}

/// On a cache line of its own.
#[repr(align(64))]
struct Aligned<T>(T);

const _: () = assert!(std::mem::offset_of!(Node, cold) == COLD_AT && size_of::<Node>() == 256);

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

/// Who waits for a task. As many are kept in place as fill the node's last cache line.
pub(crate) type Successors = SmallVec<[NodeRef; 6]>;

const EDGE_BITS: u32 = 20;
const MANUAL_BITS: u32 = 20;
const EDGE: u64 = 1;
const MANUAL: u64 = 1 << EDGE_BITS;
const COUNTS: u64 = (1 << (EDGE_BITS + MANUAL_BITS)) - 1;
/// The most edges into one task, and the most `resolve`s of one task.
pub(crate) const MAX_COUNT: u32 = (1 << EDGE_BITS) - 2;

/// Dependency count and generation in one word: 20 bits of unresolved edges (and the registration's own guard), 20 bits of unresolved
/// `resolve`s, 24 bits of generation. One word, so that a `resolve` that comes too late or once too often cannot hit the
/// node's next tasks, until 2^24 have lived in it.
pub(crate) struct State(AtomicU64);

impl State {
    fn generation_bits(generation: u32) -> u64 {
        u64::from(generation) << (EDGE_BITS + MANUAL_BITS)
    }

    /// Starts with `manual` unresolved counts, `edges` unresolved edges and the registration's guard.
    #[inline]
    fn open(&self, generation: u32, edges: u32, manual: u32) {
        assert!(
            manual <= MAX_COUNT && edges <= MAX_COUNT,
            "a task has at most {MAX_COUNT} unresolved dependencies"
        );
        let counts = u64::from(manual) * MANUAL + (u64::from(edges) + 1) * EDGE;
        self.0.store(
            Self::generation_bits(generation) | counts,
            Ordering::Release,
        );
    }

    fn close(&self, generation: u32) {
        self.0
            .store(Self::generation_bits(generation), Ordering::Release);
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

    /// Takes so many edges (the guard counts as one) away. Returns whether the task is ready now.
    #[inline]
    pub(crate) fn drop_edges(&self, number: u32) -> bool {
        let edges = u64::from(number) * EDGE;
        self.0.fetch_sub(edges, Ordering::AcqRel) & COUNTS == edges
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

    /// Makes a task of a free node. It becomes ready when `manual` counts are resolved, and `edges` edges and the guard dropped.
    ///
    /// # Safety
    /// The node is free and this thread alone holds it. `graph` outlives the task. What the body borrows outlives the graph's run.
    pub(crate) unsafe fn fill(
        &self,
        graph: *mut GraphCore,
        kind: &'static Kind,
        cold: Cold,
        edges: u32,
        manual: u32,
        body: ErasedBody,
    ) -> u32 {
        let node = self.get();
        // SAFETY: nobody else holds the node (caller), so nobody reads the old header or what it points to.
        unsafe {
            (*node.cold.0.get()).write(cold);
            (*node.header.get()).write(Header::new(kind, cold.hints, 0, 0));
            *node.table.get() = Some(body.table);
            *node.body.get() = body.words;
        }
        node.graph.store(graph, Ordering::Release);
        // Only whoever holds a free node changes its generation.
        let generation = node.generation.load(Ordering::Relaxed);
        node.state.open(generation, edges, manual);
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

    /// Ends the task: from now on its tokens are stale. Gives who waits for it.
    #[inline]
    pub(crate) fn end(&self) -> Successors {
        let node = self.get();
        let mut successors = node.successors.lock();
        let generation = node.generation.load(Ordering::Relaxed).wrapping_add(1);
        // Release: who finds the task ended sees what it did.
        node.generation.store(generation, Ordering::Release);
        node.state.close(generation);
        node.graph.store(std::ptr::null_mut(), Ordering::Release);
        std::mem::take(&mut successors)
    }

    /// Name of the task, as far as it has one.
    ///
    /// # Safety
    /// The node is filled and no thread fills or ends it meanwhile.
    pub(crate) unsafe fn name(&self) -> String {
        // SAFETY: filled, so both parts of the description are there (caller).
        let TaskView { name, index, .. } = unsafe { Header::view(self.header()) };
        task_name(name, index)
    }
}

/// What stands for the code of the tasks of this name: where the name is and how long. Equal names in different places of a program may
/// differ.
fn code_of(name: &'static str) -> u64 {
    name.as_ptr() as u64 ^ (name.len() as u64) << 48
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
            generation: AtomicU32::new(0),
            table: UnsafeCell::new(None),
            body: UnsafeCell::new([MaybeUninit::uninit(); BODY_WORDS]),
            cold: Aligned(UnsafeCell::new(MaybeUninit::uninit())),
        }
    }

    /// Who waits for this task.
    pub(crate) fn successors(&self) -> parking_lot::MutexGuard<'_, Successors> {
        self.successors.lock()
    }

    /// Which of the tasks that lived here the one of today is. Stays while the lock of [`Node::successors`] is held.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }
}

/// A closure without its type. Dropping it without [`ErasedBody::call`] or [`ErasedBody::discard`] leaks the closure.
pub(crate) struct ErasedBody {
    table: &'static BodyTable,
    words: [MaybeUninit<u64>; BODY_WORDS],
}

impl ErasedBody {
    /// Erases `body`, which will be called with a pointer to a `C`.
    #[inline]
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
