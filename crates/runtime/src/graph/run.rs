//! The runs of a template.
//!
//! A run allocates nothing. A task touches its own node, which is only read, and one word a successor in an array of counts; nothing
//! that all tasks share, but for those without successors, which count the run down. Whoever resolves a node's last dependency sets its
//! count back for the next run, and whoever ends a run begins the next.
//!
//! **Nothing is touched after the last release.** As soon as a node's last successor has been given on, or the graph been told that it has
//! ended, the thread that waits may free nodes and run block. So [`Run::ended`] and [`Run::begin_next`] read neither `self` nor the list
//! of successors behind the last call of `release` or of `deactivate`.

use super::GraphCore;
use super::bodies::Body;
use super::core::foreign_task;
use super::template::{Shape, TemplateTask};
use crate::marks;
use crate::pool::PoolShared;
use crate::graph::slab::{COLD_AT, Cold, Executable, Header};
use crate::worker::WorkerCore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use tanada_policy::Ready;

/// Room for one run at a time: the nodes, and what they share.
pub(super) struct Run<'env, A> {
    /// The nodes, at the places that `roots` and their own lists of successors name.
    first: NonNull<Node<'env, A>>,
    /// For each node how many it still waits for. Apart from the nodes, which are only read while they run: of what workers take from
    /// each other here, one cache line serves sixteen tasks.
    unresolved: Box<[AtomicU32]>,
    /// The argument of this run.
    arg: AtomicPtr<A>,
    /// The pool whose workers may run the nodes now, or null; only compared. While it is not null `graph` is its graph.
    pool: AtomicPtr<PoolShared>,
    graph: AtomicPtr<GraphCore>,
    batch: AtomicPtr<Batch<A>>,
    /// Successors of nodes that have more than [`FEW`].
    many: Box<[u32]>,
    /// Nodes that wait for nobody.
    roots: Box<[u32]>,
    /// How many nodes have no successors.
    sinks: usize,
    /// How many of these have not ended.
    left: OwnLine,
}

/// The arguments of the runs of one call.
pub(super) struct Batch<A> {
    args: NonNull<A>,
    number: usize,
    /// Which of them the next run takes. Touched once a run.
    next: AtomicUsize,
}

impl<A> Batch<A> {
    pub(super) fn new(args: &[A]) -> Self {
        Batch {
            args: NonNull::from(args).cast(),
            number: args.len(),
            next: AtomicUsize::new(0),
        }
    }
}

/// Written by workers while others read the rest of [`Run`].
#[repr(align(128))]
struct OwnLine(AtomicUsize);

/// So many successors are kept in the node itself.
const FEW: usize = 3;

/// One task of an instance. What a run needs of it is on one cache line. In the header `short` is how many successors it has, if it has
/// at most [`FEW`], else [`MANY`]; `long` is how many tasks it waits for.
#[repr(C, align(64))]
struct Node<'env, A> {
    header: Header,
    /// The successors; or where [`Run::many`] has them, and how many.
    next: [u32; FEW],
    body: Body<'env, A>,
    run: NonNull<Run<'env, A>>,
    cold: Cold,
}

const MANY: u16 = u16::MAX;

const _: () = assert!(std::mem::offset_of!(Node<'static, ()>, cold) == COLD_AT);

impl<'env, A> Node<'env, A> {
    #[inline]
    fn run(&self) -> &Run<'env, A> {
        // SAFETY: the instance frees it after the nodes.
        unsafe { self.run.as_ref() }
    }
}

impl<'env, A> Run<'env, A> {
    #[inline]
    fn graph(&self) -> &GraphCore {
        // SAFETY: null or the core of the graph that goes on, which lives as long as its pool.
        unsafe { self.graph.load(Ordering::Relaxed).as_ref() }.unwrap_or_else(|| foreign_task())
    }

    /// The successors of `node`.
    #[inline]
    fn successors<'a>(&'a self, node: &'a Node<'env, A>) -> &'a [u32] {
        if node.header.short == MANY {
            let [at, number, _] = node.next.map(|number| number as usize);
            &self.many[at..at + number]
        } else {
            &node.next[..usize::from(node.header.short)]
        }
    }

    /// The right to run the node at this place.
    ///
    /// # Safety
    /// The graph has not ended, and the node waits for nobody and has not been made ready in this run.
    #[inline]
    unsafe fn ready(&self, at: u32) -> Ready {
        // SAFETY: places are inside the allocation; the node stays until the graph ends, at the earliest when it has run.
        unsafe { Header::ready(self.first.add(at as usize).cast()) }
    }

    /// Takes one dependency of the node at this place away. Returns whether it was the last.
    #[inline(always)]
    fn resolved(&self, at: u32, alone: bool) -> bool {
        let unresolved = &self.unresolved[at as usize];
        // A count that reads 1 is the last: nobody else can change it, so no atomic subtraction is needed. It was left by the other
        // predecessors' AcqRel subtractions, whose release sequence the Acquire joins: what they wrote is seen. A worker without
        // colleagues never needs one.
        let count = unresolved.load(Ordering::Acquire);
        let last = count == 1
            || if alone {
                unresolved.store(count - 1, Ordering::Relaxed);
                false
            } else {
                unresolved.fetch_sub(1, Ordering::AcqRel) == 1
            };
        if last {
            // For the next run: in this one nobody resolves this node any more. Relaxed: the node's release, its end and the AcqRel
            // countdown of `left` come in between.
            // SAFETY: the node has not run, so the graph has not ended and the nodes live.
            let header = unsafe { &self.first.add(at as usize).as_ref().header };
            unresolved.store(header.long, Ordering::Relaxed);
        }
        last
    }

    /// A node ended that has these successors.
    ///
    /// # Safety
    /// Called once a node and run.
    #[inline(always)]
    unsafe fn ended(&self, successors: &[u32], alone: bool, mut release: impl FnMut(Ready)) {
        for &next in successors {
            if self.resolved(next, alone) {
                // SAFETY: the last dependency is resolved, by this thread alone.
                release(unsafe { self.ready(next) });
            }
        }
        if successors.is_empty() && self.left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: every node has a way to a sink, so all have ended.
            unsafe { self.begin_next(release) };
        }
    }

    /// Begins the run with the next argument, or ends the graph where there is none: no run goes on.
    ///
    /// # Safety
    /// The graph has not ended, and all nodes have.
    unsafe fn begin_next(&self, mut release: impl FnMut(Ready)) {
        let graph = self.graph();
        // SAFETY: the call that began the graph waits for its end.
        let batch = unsafe { &*self.batch.load(Ordering::Relaxed) };
        // Relaxed: the queues through which the tasks go order all else.
        let at = batch.next.fetch_add(1, Ordering::Relaxed);
        if at >= batch.number || self.sinks == 0 || graph.must_skip() {
            graph.deactivate();
            return;
        }
        // SAFETY: inside the slice.
        let arg = unsafe { batch.args.add(at) };
        self.arg.store(arg.as_ptr(), Ordering::Relaxed);
        self.left.0.store(self.sinks, Ordering::Relaxed);
        if graph.marked {
            self.mark(graph);
        }
        for &root in &self.roots {
            // SAFETY: roots wait for nobody, and are made ready here only. The graph goes on at least until the last root has run,
            // which cannot be before this loop has made it ready.
            release(unsafe { self.ready(root) });
        }
    }
}

impl<'env, A> Run<'env, A> {
    /// Tells of all tasks of the run that begins; see [`marks`].
    #[cold]
    fn mark(&self, graph: &GraphCore) {
        let run = graph.run();
        // SAFETY: places are inside the allocation; between two runs nobody else uses the nodes.
        let node = |at: u32| unsafe { self.first.add(at as usize) };
        // Generations are of dynamic graphs: here a node has one task at a time, and nobody can wait for one that has ended.
        let name = |at| (node(at).as_ptr() as usize, 0);
        marks::room(run, std::ptr::from_ref(self) as usize, || {
            let places = 0..self.unresolved.len() as u32;
            for at in places.clone() {
                // SAFETY: as above; a node begins with its header.
                marks::registered(run, name(at), &unsafe { Header::view(node(at).cast()) });
            }
            for at in places {
                // SAFETY: as above.
                for &next in self.successors(unsafe { node(at).as_ref() }) {
                    marks::edge(run, name(at), name(next));
                }
            }
        });
    }

    /// Makes the block and its nodes: four allocations, and a fifth where nodes have many successors.
    pub(super) fn new(shape: &Shape<'env, A>) -> NonNull<Self> {
        let block = Box::new(Run {
            first: NonNull::dangling(),
            unresolved: (shape.predecessors.iter().copied())
                .map(AtomicU32::new)
                .collect(),
            arg: AtomicPtr::default(),
            pool: AtomicPtr::default(),
            graph: AtomicPtr::default(),
            batch: AtomicPtr::default(),
            many: Box::default(),
            roots: shape.roots.clone().into(),
            sinks: shape.sinks,
            left: OwnLine(AtomicUsize::new(0)),
        });
        let run = NonNull::new(Box::into_raw(block)).expect("a box is not null");
        let mut many = Vec::new();
        let nodes: Box<[Node<'env, A>]> = (shape.tasks.iter().enumerate())
            .map(|(at, task)| {
                let (short, next) = place(shape.edges.of(at), &mut many);
                let kind = &NodeKind::<A>::KIND;
                Node {
                    header: Header::new(kind, task.cold.hints, short, shape.predecessors[at]),
                    next,
                    body: task.body,
                    run,
                    cold: task.cold,
                }
            })
            .collect();
        let first =
            NonNull::new(Box::into_raw(nodes).cast::<Node<'env, A>>()).expect("a box is not null");
        // SAFETY: the block is ours alone until the instance is handed out.
        unsafe {
            (*run.as_ptr()).first = first;
            (*run.as_ptr()).many = many.into();
        }
        run
    }

    /// Frees the block and its nodes.
    ///
    /// # Safety
    /// `this` is from [`Run::new`], no run is going on, and nobody uses it any more.
    pub(super) unsafe fn free(this: NonNull<Self>) {
        // SAFETY: both from `Box::into_raw`, freed once (caller).
        unsafe {
            let run = Box::from_raw(this.as_ptr());
            let nodes = NonNull::slice_from_raw_parts(run.first, run.unresolved.len());
            drop(Box::from_raw(nodes.as_ptr()));
        }
    }

    /// Begins the first run of `graph` in this room.
    ///
    /// # Safety
    /// `graph` is a graph of `pool` that has begun and counts this room as active; no run is going on here; `batch`, its arguments, the
    /// template and this room stay until the graph has ended; its arguments may be shared between threads.
    pub(super) unsafe fn begin(
        &self,
        graph: &GraphCore,
        pool: &PoolShared,
        batch: &Batch<A>,
        release: impl FnMut(Ready),
    ) {
        let graph = std::ptr::from_ref(graph).cast_mut();
        self.graph.store(graph, Ordering::Relaxed);
        let pool = std::ptr::from_ref(pool).cast_mut();
        self.pool.store(pool, Ordering::Relaxed);
        let batch = std::ptr::from_ref(batch).cast_mut();
        self.batch.store(batch, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { self.begin_next(release) };
    }

    /// The graph has ended: who comes with a node now is stopped.
    pub(super) fn end(&self) {
        self.pool.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// What a node with these successors has in [`Header::short`] and [`Node::next`].
fn place(list: &[u32], many: &mut Vec<u32>) -> (u16, [u32; FEW]) {
    let mut next = [0; FEW];
    match next.get_mut(..list.len()) {
        Some(few) => {
            few.copy_from_slice(list);
            (list.len() as u16, next)
        }
        None => {
            let begin = u32::try_from(many.len()).expect("fewer than 2^32 dependencies");
            many.extend_from_slice(list);
            (MANY, [begin, list.len() as u32, 0])
        }
    }
}

struct NodeKind<A>(std::marker::PhantomData<A>);

impl<A> Executable for NodeKind<A> {
    const OBSERVED: bool = true;

    #[inline(always)]
    unsafe fn run(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is the first field of a node whose instance waits for its run.
        let node = unsafe { header.cast::<Node<'_, A>>().as_ref() };
        let run = node.run();
        // A policy that keeps a task and hands it to another pool is stopped here.
        if !std::ptr::eq(run.pool.load(Ordering::Relaxed), worker.pool()) {
            foreign_task();
        }
        let graph = run.graph();
        if graph.must_skip() {
            return;
        }
        let task = TemplateTask { worker: worker.id };
        // SAFETY: the argument is borrowed for the length of the run, and shared between threads only where it is `Sync`; the instance
        // holds the template and with it the body.
        let work = || unsafe { node.body.call(&*run.arg.load(Ordering::Relaxed), task) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            graph.panicked(payload);
        }
    }

    #[inline(always)]
    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: as in `run`.
        let (node, run) = unsafe {
            let node = header.cast::<Node<'_, A>>().as_ref();
            (node, node.run.as_ref())
        };
        let graph = run.graph();
        let list = run.successors(node);
        if !graph.releases_by_turn() {
            let release = |task| graph.make_ready(worker.pool(), Some(worker), task);
            // SAFETY: this is the node's end.
            unsafe { run.ended(list, worker.alone, release) };
            return;
        }
        let mut released = worker.released.borrow_mut();
        // SAFETY: as above.
        unsafe { run.ended(list, worker.alone, |task| released.push(task)) };
    }
}
