//! The runs of a template.
//!
//! A run allocates nothing. A task reads its own node, and changes one word for each successor in an array of counts. All tasks of a run
//! share nothing else that is written, except for a countdown of the *sinks*, the tasks without successors. The worker that resolves a
//! node's last dependency resets the node's count for the next run; the worker that ends a run begins the next.
//!
//! **Nothing is touched after the last release.** Once the last task of a run is released, or the graph has ended, the waiting thread may
//! free the room and its nodes. So [`Room::ended`] and [`Room::begin_next`] take pointers instead of references, and read nothing
//! through them after their last call of `release` or `deactivate`.
//!
//! **A chain goes from node to node only.** What [`Room::ended`] releases is a node of this room, unless it has begun a run whose roots go
//! in [shares](super::shares). It says so ([`Sink::Shares`]), and a share goes to the policy, also if it is the only one.

use super::bodies::Body;
use super::shares::Shares;
use super::{Shape, TemplateTask};
use crate::executable::{
    self, DESCRIPTION_AT, Description, Executable, Form, Header, foreign_task,
};
use crate::graph::GraphCore;
use crate::graph::context::Context;
use crate::graph::observer::{GraphObserver, TaskId};
use crate::pool::PoolShared;
use crate::prefetch::prefetch;
use crate::worker::WorkerCore;
use crate::worker::held::{Countdown, Settle};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tanada_policy::Ready;

/// Room for one run at a time: the nodes, and what they share.
///
/// Nodes are named by their place in `first`.
pub(super) struct Room<'env, A> {
    first: NonNull<Node<'env, A>>,
    /// For each node the number of its unresolved dependencies. Because the counts are apart from the nodes, which are only read, one
    /// cache line of what workers take from each other serves sixteen tasks.
    unresolved: Box<[AtomicU32]>,
    /// The argument of the present run.
    arg: AtomicPtr<A>,
    /// The pool whose workers may run the nodes now, or null. Only compared. While it is not null, `graph` is a graph of this pool.
    pool: AtomicPtr<PoolShared>,
    graph: AtomicPtr<GraphCore>,
    batch: AtomicPtr<Batch<A>>,
    /// Successors of the nodes that have more than [`FEW`].
    many: Box<[u32]>,
    /// Nodes without dependencies.
    roots: Box<[u32]>,
    /// What goes to the policy instead of the roots, if the policy treats tasks alike and there are many.
    pub(super) shares: Shares<'env, A>,
    /// How many shares the runs of the graph that goes on have; 0: roots go to the policy one by one.
    dealt: AtomicUsize,
    /// The room's number among all of this process, for observers: an address may become that of another room.
    number: u64,
    /// Number of nodes without successors.
    sinks: usize,
    /// Whether it has so many nodes that few are in a cache when they become ready.
    large: bool,
    /// Whether workers hold back the sinks that have ended on them, see [`held`](crate::worker::held).
    holds: bool,
    /// Number of sinks that have not ended.
    left: Countdown,
}

/// The least sinks of a graph of which workers hold some back: with fewer, the last worker would find out later that it was the last.
const MANY_SINKS: usize = 32;

/// The least nodes of a room whose nodes are prefetched: 4 MiB of them, more than most caches of one core. In a smaller one the loads would
/// cost more than they bring. They do so, too, under a policy that does not go on with what a task makes ready: that runs much later.
const LARGE: usize = 1 << 15;

/// How many successors ahead of the one that is resolved are prefetched.
const AHEAD: usize = 8;

/// What has become of a task that ended.
enum Sink {
    /// It had successors, or was counted.
    No,
    /// It had none, and is to be held back.
    Held,
    /// It was the last of its run, and what was released are [shares](super::shares) of the next one: not nodes.
    Shares,
}

/// The arguments of one call of [`Instance::run_each`](super::Instance::run_each), for one run each.
pub(super) struct Batch<A> {
    args: NonNull<A>,
    number: usize,
    /// Index of the next run's argument.
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

/// The most successors that are stored in the node itself.
const FEW: usize = 3;

/// One task of an instance. All that a run reads of it is on one cache line.
///
/// In the header, `short` is the number of successors if that is at most [`FEW`], else [`MANY`]; `long` is the number of dependencies.
#[repr(C, align(64))]
pub(super) struct Node<'env, A> {
    header: Header,
    /// The successors; or, if they are in [`Room::many`], their place and their number.
    next: [u32; FEW],
    body: Body<'env, A>,
    room: NonNull<Room<'env, A>>,
    description: Description,
}

const MANY: u8 = u8::MAX;

impl<A> Node<'_, A> {
    /// Mints and returns the right to run the node.
    ///
    /// # Safety
    /// The node has no unresolved dependency, stays until it has run, and no other right for this run exists.
    #[inline]
    unsafe fn ready(&self) -> Ready {
        // SAFETY: a pointer to the whole node; else as the caller says.
        unsafe { Header::ready(NonNull::from(self).cast()) }
    }
}

const _: () = assert!(std::mem::offset_of!(Node<'static, ()>, description) == DESCRIPTION_AT);

static ROOMS: AtomicU64 = AtomicU64::new(0);

impl<'env, A> Room<'env, A> {
    /// Returns a room and its nodes: four allocations, and a fifth if nodes have many successors.
    pub(super) fn new(shape: &Shape<'env, A>) -> NonNull<Self> {
        let room = Box::new(Room {
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
            shares: Shares::default(),
            dealt: AtomicUsize::new(0),
            number: ROOMS.fetch_add(1, Ordering::Relaxed),
            sinks: shape.sinks,
            large: shape.tasks.len() >= LARGE,
            holds: shape.sinks >= MANY_SINKS,
            left: Countdown::default(),
        });
        let room = NonNull::new(Box::into_raw(room)).expect("a box is not null");
        let mut many = Vec::new();
        let nodes: Box<[Node<'env, A>]> = (shape.tasks.iter().enumerate())
            .map(|(at, task)| {
                let (short, next) = place(shape.edges.of(at), &mut many);
                let (kind, hints) = (&NodeKind::<A>::KIND, task.description.hints);
                Node {
                    header: Header::new(kind, Form::Beside, &hints, short, shape.predecessors[at]),
                    next,
                    body: task.body,
                    room,
                    description: task.description,
                }
            })
            .collect();
        let first =
            NonNull::new(Box::into_raw(nodes).cast::<Node<'env, A>>()).expect("a box is not null");
        // SAFETY: no other reference to the room exists yet.
        unsafe {
            (*room.as_ptr()).first = first;
            (*room.as_ptr()).many = many.into();
        }
        room
    }

    /// Frees the room and its nodes.
    ///
    /// # Safety
    /// `this` is from [`Room::new`], no run goes on, and no thread uses it any more.
    pub(super) unsafe fn free(this: NonNull<Self>) {
        // SAFETY: both are from `Box::into_raw` in `new`, and freed once (caller).
        unsafe {
            let room = Box::from_raw(this.as_ptr());
            let nodes = NonNull::slice_from_raw_parts(room.first, room.unresolved.len());
            drop(Box::from_raw(nodes.as_ptr()));
        }
    }

    /// Makes as many shares as runs on a pool with `workers` workers may have, unless there are as many.
    ///
    /// # Safety
    /// No run goes on in `this`, and no other thread uses it during this call.
    pub(super) unsafe fn make_shares(this: NonNull<Self>, workers: usize) {
        // SAFETY: the caller says so.
        let room = unsafe { &mut *this.as_ptr() };
        let wanted = Shares::<A>::wanted(workers, room.roots.len());
        if wanted > room.shares.len() {
            room.shares = Shares::new(this, wanted);
        }
    }

    /// Begins the first run of `graph` in this room.
    ///
    /// # Safety
    /// `graph` is a graph of `pool` that has begun and counts this room as active. No run goes on here. `batch`, its arguments, the
    /// template and this room stay until the graph has ended. The arguments may be shared between threads. If roots are handed out in
    /// shares on a pool of `shares` workers, [`Room::make_shares`] was called with that number.
    pub(super) unsafe fn begin(
        &self,
        graph: &GraphCore,
        pool: &PoolShared,
        batch: &Batch<A>,
        shares: Option<usize>,
        release: impl FnMut(Ready),
    ) {
        let graph = std::ptr::from_ref(graph).cast_mut();
        self.graph.store(graph, Ordering::Relaxed);
        let pool = std::ptr::from_ref(pool).cast_mut();
        self.pool.store(pool, Ordering::Relaxed);
        let dealt = match shares {
            Some(workers) => Shares::<A>::wanted(workers, self.roots.len()),
            None => 0,
        };
        self.dealt.store(dealt, Ordering::Relaxed);
        let batch = std::ptr::from_ref(batch).cast_mut();
        self.batch.store(batch, Ordering::Relaxed);
        // SAFETY: the graph has begun, and no node runs (caller).
        unsafe { Room::begin_next(NonNull::from(self), release) };
    }

    /// The graph has ended: a worker that comes with a node from now on ends the process.
    pub(super) fn end(&self) {
        self.pool.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns the graph that goes on in this room.
    #[inline]
    fn graph<'a>(&self) -> &'a GraphCore {
        // SAFETY: null, or the core of the graph that goes on, which lives as long as its pool.
        unsafe { self.graph.load(Ordering::Relaxed).as_ref() }.unwrap_or_else(|| foreign_task())
    }

    /// Returns the node at place `at`.
    #[inline]
    fn node(&self, at: u32) -> &Node<'env, A> {
        debug_assert!((at as usize) < self.unresolved.len());
        // SAFETY: places come from the template and are inside of the allocation, which is freed with the room. Nodes are never written.
        unsafe { self.first.add(at as usize).as_ref() }
    }

    /// Returns the root at place `at` among the roots.
    #[inline]
    pub(super) fn root(&self, at: usize) -> &Node<'env, A> {
        self.node(self.roots[at])
    }

    /// Returns the successors of `node`.
    #[inline]
    fn successors<'a>(&'a self, node: &'a Node<'env, A>) -> &'a [u32] {
        if node.header.short == MANY {
            let [at, number, _] = node.next.map(|number| number as usize);
            &self.many[at..at + number]
        } else {
            &node.next[..usize::from(node.header.short)]
        }
    }

    /// Prefetches what is needed to resolve a dependency of the node at place `at`, and to make it ready.
    #[inline]
    fn prefetch(&self, at: u32) {
        prefetch(&raw const self.unresolved[at as usize]);
        prefetch(std::ptr::from_ref(self.node(at)));
    }

    /// Prefetches what the end of `node` will need, whose body is about to run.
    #[inline]
    fn prefetch_successors(&self, node: &Node<'env, A>) {
        let successors = self.successors(node).iter().take(AHEAD);
        successors.for_each(|&next| self.prefetch(next));
    }

    /// Resolves one dependency of the node at place `at`. Returns the right to run the node if it was the last.
    ///
    /// # Safety
    /// A run goes on in which the caller has ended a predecessor of the node, and resolves this dependency for the first time.
    #[inline(always)]
    unsafe fn resolve<const LARGE: bool>(&self, at: u32, alone: bool) -> Option<Ready> {
        debug_assert!((at as usize) < self.unresolved.len());
        // SAFETY: places come from the template, which has as many tasks as there are counts.
        let unresolved = unsafe { self.unresolved.get_unchecked(at as usize) };
        // A count of 1 needs no atomic subtraction: no other thread can change it. The other predecessors' AcqRel subtractions left it,
        // and the Acquire load joins their release sequence, so that their writes are visible. The only worker of a pool never needs one.
        let count = unresolved.load(Ordering::Acquire);
        let last = count == 1
            || if alone {
                unresolved.store(count - 1, Ordering::Relaxed);
                false
            } else {
                unresolved.fetch_sub(1, Ordering::AcqRel) == 1
            };
        if !last {
            return None;
        }
        let node = self.node(at);
        // Reset for the next run, which alone resolves this node again. Relaxed: the node's release, its end and the AcqRel countdown of
        // `left` come before that.
        unresolved.store(node.header.long, Ordering::Relaxed);
        if LARGE {
            node.body.prefetch();
        }
        // SAFETY: the last dependency was resolved by this thread, so this is the only right; the node stays until it has run.
        Some(unsafe { node.ready() })
    }

    /// Releases the successors of `node`, which has ended. If all nodes have ended, begins the next run.
    ///
    /// # Safety
    /// A run goes on in `this`, and this is called once for each of its nodes.
    #[inline(always)]
    unsafe fn ended<const LARGE: bool>(
        this: NonNull<Self>,
        node: NonNull<Node<'env, A>>,
        alone: bool,
        mut release: impl FnMut(Ready),
    ) -> Sink {
        // SAFETY: the run is not over before `node`'s last successor is released or, if it has none, `left` is counted down.
        let (room, successors) = unsafe {
            let room = this.as_ref();
            (room, room.successors(node.as_ref()))
        };
        let is_sink = successors.is_empty();
        for (at, &next) in successors.iter().enumerate() {
            // A locked instruction waits for all loads before it: without this, for the counts one by one.
            if LARGE && let Some(&later) = successors.get(at + AHEAD) {
                room.prefetch(later);
            }
            // SAFETY: `node` has ended, and each of its edges is resolved once.
            if let Some(ready) = unsafe { room.resolve::<LARGE>(next, alone) } {
                release(ready);
            }
        }
        match is_sink {
            false => Sink::No,
            // What is reported of runs does not come later because a worker holds something back.
            true if room.holds && room.graph().watch.0.is_none() => Sink::Held,
            true => {
                // SAFETY: this sink has ended.
                match unsafe { Room::sinks_ended(this, 1, alone, release) } {
                    false => Sink::No,
                    true => Sink::Shares,
                }
            }
        }
    }

    /// Counts `number` sinks that have ended. If all have, begins the next run. Returns whether it has released shares.
    ///
    /// # Safety
    /// A run goes on in `this`, and each sink is counted once.
    #[inline]
    unsafe fn sinks_ended(
        this: NonNull<Self>,
        number: usize,
        alone: bool,
        release: impl FnMut(Ready),
    ) -> bool {
        // SAFETY: the run is not over before `left` is counted down.
        let left = unsafe { &this.as_ref().left };
        // The only worker of a pool is the only thread that counts down.
        let last = match alone {
            true => left.end_alone(number),
            false => left.end(number),
        };
        // SAFETY: every node has a path to a sink, so all nodes have ended.
        last && unsafe { Room::begin_next(this, release) }
    }

    /// Counts sinks that a worker has held back.
    const SETTLE: Settle<WorkerCore> = |of, number, worker| {
        let this = NonNull::new(of.cast_mut().cast::<Self>()).expect("of a room");
        // SAFETY: the run is not over before these sinks are counted, each once (contract of `Settle`).
        let graph = unsafe { this.as_ref() }.graph();
        let context = Context {
            graph,
            pool: worker.pool(),
            worker: Some(worker),
            outside: None,
        };
        // SAFETY: as above.
        unsafe {
            Room::sinks_ended(this, number, worker.alone, |task| {
                match graph.nested.is_on() {
                    true => context.route(task),
                    false => worker.released.borrow_mut().push(task),
                }
            });
        }
    };

    /// Counts `number` sinks that have ended on `worker` later, together with others.
    ///
    /// # Safety
    /// The run of these sinks goes on in `this`, and nothing else counts them.
    #[inline]
    pub(super) unsafe fn hold(this: NonNull<Self>, number: usize, worker: &WorkerCore) {
        let of = this.as_ptr().cast_const().cast();
        // SAFETY: the caller says so.
        unsafe { (worker.graph.held).hold(of, number, Self::SETTLE, worker) };
    }

    /// A share has ended on `worker`, and `sinks` sinks that were not counted.
    ///
    /// # Safety
    /// As [`Room::hold`], of the share, too.
    pub(super) unsafe fn share_ended(this: NonNull<Self>, sinks: usize, worker: &WorkerCore) {
        // SAFETY: the run goes on until the share is counted. Else as the caller says.
        unsafe {
            match this.as_ref().holds {
                true => Self::hold(this, sinks + 1, worker),
                false => {
                    let mut released = worker.released.borrow_mut();
                    Self::sinks_ended(this, sinks + 1, worker.alone, |task| released.push(task));
                }
            }
        }
    }

    /// Begins the run with the next argument. Ends the room's part of the graph if there is none. Returns whether what it has released are
    /// shares instead of nodes.
    ///
    /// # Safety
    /// The graph has not ended, and all nodes have.
    unsafe fn begin_next(this: NonNull<Self>, mut release: impl FnMut(Ready)) -> bool {
        // SAFETY: the graph goes on, so the room is alive until `deactivate`, or until its last root has run.
        let room = unsafe { this.as_ref() };
        let graph = room.graph();
        // SAFETY: the call that has begun the graph waits for its end (contract of `begin`).
        if !unsafe { room.set_up_next(graph) } {
            graph.deactivate(1);
            return false;
        }
        let dealt = room.dealt.load(Ordering::Relaxed);
        if dealt > 0 {
            // SAFETY: `set_up_next` has dealt the shares out for this run, which is not over before each of them has ended.
            unsafe { room.shares.release(dealt, release) };
            return true;
        }
        for &root in &room.roots {
            // SAFETY: a root has no dependencies, and only this loop makes it ready. The run is not over before the last root has run, and
            // that is not before this loop has released it.
            release(unsafe { room.node(root).ready() });
        }
        false
    }

    /// Sets the room up for the run with the next argument. Returns whether there is one and the graph goes on.
    ///
    /// # Safety
    /// The room's batch is alive.
    unsafe fn set_up_next(&self, graph: &GraphCore) -> bool {
        // SAFETY: the caller says so.
        let batch = unsafe { &*self.batch.load(Ordering::Relaxed) };
        // Relaxed: the queues through which the tasks go order everything else.
        let at = batch.next.fetch_add(1, Ordering::Relaxed);
        if at >= batch.number || self.sinks == 0 || graph.must_skip() {
            return false;
        }
        // SAFETY: `at` is inside of the slice.
        let arg = unsafe { batch.args.add(at) };
        self.arg.store(arg.as_ptr(), Ordering::Relaxed);
        // Each share counts as a sink.
        let dealt = self.dealt.load(Ordering::Relaxed);
        if dealt > 0 {
            self.shares.deal(dealt, self.roots.len());
        }
        self.left.start(self.sinks + dealt);
        graph.watch.tell(|watch| self.report(watch, graph.run_id()));
        true
    }

    /// Reports all tasks of the run that begins to the graph's observer.
    #[cold]
    fn report(&self, watch: &dyn GraphObserver, run_id: u64) {
        // The generation is 0: a node of a template has one task at a time, and no task can begin to wait for one that has ended.
        let id = |node: &Node<'env, A>| TaskId {
            address: std::ptr::from_ref(node).addr(),
            generation: 0,
        };
        let nodes = || (0..self.unresolved.len() as u32).map(|at| self.node(at));
        let address = std::ptr::from_ref(self).addr();
        watch.begins_in_room(run_id, address, self.number, &mut || {
            for node in nodes() {
                let task = id(node);
                let view = node.description.view(task.address);
                watch.registered(run_id, task, &view, None);
            }
            for node in nodes() {
                for &next in self.successors(node) {
                    watch.edge(run_id, id(node), id(self.node(next)));
                }
            }
        });
    }
}

/// Returns what a node with these successors has in `short` of its header and in [`Node::next`]. Appends to `many` if they are many.
fn place(list: &[u32], many: &mut Vec<u32>) -> (u8, [u32; FEW]) {
    let mut next = [0; FEW];
    match next.get_mut(..list.len()) {
        Some(few) => {
            few.copy_from_slice(list);
            (list.len() as u8, next)
        }
        None => {
            let begin = u32::try_from(many.len()).expect("fewer than 2^32 dependencies");
            many.extend_from_slice(list);
            (MANY, [begin, list.len() as u32, 0])
        }
    }
}

/// The kind of the nodes of instances whose runs take an `A`.
pub(super) struct NodeKind<A>(PhantomData<A>);

impl<A> NodeKind<A> {
    /// Returns the graph of a run of which something is about to run. Ends the process if that is none of the worker's pool.
    ///
    /// # Safety
    /// A run goes on in `room` until what is about to run has ended.
    #[inline(always)]
    pub(super) unsafe fn enter<'a>(
        room: NonNull<Room<'_, A>>,
        worker: &WorkerCore,
    ) -> &'a GraphCore {
        // SAFETY: the caller says so.
        let room = unsafe { room.as_ref() };
        if !std::ptr::eq(room.pool.load(Ordering::Relaxed), worker.pool()) {
            // A policy has kept the task and handed it to another pool.
            foreign_task();
        }
        worker.settle_unless(std::ptr::from_ref(room).cast());
        room.graph()
    }

    /// Calls the body of a node of `graph`, unless that was stopped.
    ///
    /// # Safety
    /// As [`Executable::run_body`] of a node.
    #[inline(always)]
    unsafe fn call<const LARGE: bool>(
        node: NonNull<Node<'_, A>>,
        graph: &GraphCore,
        worker: &WorkerCore,
    ) {
        if graph.must_skip() {
            return;
        }
        // SAFETY: the caller says so; the room goes on with the node's run.
        let (node, room) = unsafe { (node.as_ref(), node.as_ref().room.as_ref()) };
        if LARGE {
            room.prefetch_successors(node);
        }
        let task = TemplateTask { worker: worker.id };
        // SAFETY: the argument is borrowed for the length of the run, and shared between threads only if it is `Sync`. The instance keeps
        // the template and so the body.
        let work = || unsafe { node.body.call(&*room.arg.load(Ordering::Relaxed), task) };
        let result = catch_unwind(AssertUnwindSafe(work));
        worker.end_if_forked();
        if let Err(payload) = result {
            worker.graph.run(std::ptr::null());
            graph.panicked(payload);
            // A payload that is dropped runs code of the user's.
            worker.end_if_forked();
            worker.graph.run(graph);
        }
    }

    /// Runs `node`, and then the chain of tasks of which each is the only one that the one before makes ready. All are of one room, so what
    /// holds of the first of them holds of all: they belong to this pool, and to this graph. Returns whether the last one was a sink that
    /// the caller is to [hold](Room::hold). What else has become ready is among the released tasks.
    ///
    /// `WATCHED`: the worker has an observer, which has been told of the start of `node`.
    ///
    /// # Safety
    /// As [`Executable::run_and_finish`] of a node of `room`, whose run of `graph` goes on. The worker [chains](WorkerCore::chains).
    #[inline(always)]
    pub(super) unsafe fn run_chain<'env, const LARGE: bool, const WATCHED: bool>(
        mut node: NonNull<Node<'env, A>>,
        room: NonNull<Room<'env, A>>,
        graph: &GraphCore,
        worker: &WorkerCore,
    ) -> bool {
        loop {
            // SAFETY: the room goes on, and this is the node's only run.
            unsafe { Self::call::<LARGE>(node, graph, worker) };
            if WATCHED {
                worker.graph.run(std::ptr::null());
                // SAFETY: the node's body has run, and it has not ended.
                unsafe { executable::tell_end(node.cast(), worker) };
                worker.graph.run(graph);
            }
            let (mut first, mut only) = (None, true);
            let release = |task| match &first {
                None => first = Some(task),
                Some(_) => {
                    only = false;
                    worker.released.borrow_mut().push(task);
                }
            };
            // SAFETY: the node's body has run, and it ends here only.
            let sink = unsafe { Room::ended::<LARGE>(room, node, worker.alone, release) };
            let Some(task) = first else {
                return matches!(sink, Sink::Held);
            };
            // A share goes to the policy, although it is the only one: it is no node.
            if !only || matches!(sink, Sink::Shares) || worker.pool().is_disturbed() {
                worker.released.borrow_mut().insert(0, task);
                return false;
            }
            node = executable::claim(task).cast();
            if WATCHED {
                worker.graph.run(std::ptr::null());
                // SAFETY: a node that is ready and that nobody else may run.
                unsafe { executable::tell_start(node.cast(), worker) };
                worker.graph.run(graph);
            }
        }
    }
}

impl<A> NodeKind<A> {
    /// [`NodeKind::run_chain`] in a large room, out of line: the tasks of small ones may be small, too.
    ///
    /// # Safety
    /// As `run_chain`.
    #[inline(never)]
    unsafe fn run_chain_of_many<'env>(
        node: NonNull<Node<'env, A>>,
        room: NonNull<Room<'env, A>>,
        graph: &GraphCore,
        worker: &WorkerCore,
    ) -> bool {
        // SAFETY: as the caller promises.
        unsafe { Self::run_chain::<true, false>(node, room, graph, worker) }
    }

    /// The [chain](Executable::CHAIN) that a node begins on a worker with an observer.
    ///
    /// # Safety
    /// As the contract of [`Executable::CHAIN`] says.
    unsafe fn run_watched(header: NonNull<Header>, worker: &WorkerCore) {
        let node = header.cast::<Node<'_, A>>();
        // SAFETY: until the node has ended, its room goes on; else as in `run_and_finish`.
        unsafe {
            let room = node.as_ref().room;
            let graph = Self::enter(room, worker);
            if graph.nested.is_on() {
                Self::run_body(header, worker);
                executable::tell_end(header, worker);
                return Self::finish(header, worker);
            }
            worker.graph.run(graph);
            let held = Self::run_chain::<false, true>(node, room, graph, worker);
            worker.graph.run(std::ptr::null());
            if held {
                Room::hold(room, 1, worker);
            }
        }
    }
}

impl<A> Executable for NodeKind<A> {
    const OBSERVED: bool = true;

    const CHAIN: Option<unsafe fn(NonNull<Header>, &WorkerCore)> = Some(Self::run_watched);

    #[inline(always)]
    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore) {
        let node = header.cast::<Node<'_, A>>();
        // SAFETY: the header is the first field of a node, whose room goes on with the node's run.
        unsafe {
            let room = node.as_ref().room;
            let graph = Self::enter(room, worker);
            worker.graph.run(graph);
            Self::call::<false>(node, graph, worker);
        }
        worker.graph.run(std::ptr::null());
    }

    /// Also runs the chain of tasks that `node` begins.
    #[inline(always)]
    unsafe fn run_and_finish(header: NonNull<Header>, worker: &WorkerCore) {
        let node = header.cast::<Node<'_, A>>();
        // SAFETY: until the node has ended, its room goes on.
        let room = unsafe { node.as_ref() }.room;
        // SAFETY: as in `run_body`.
        let graph = unsafe { Self::enter(room, worker) };
        if !worker.chains || graph.nested.is_on() {
            // SAFETY: as in `run_body`; the node's body has run before `finish`, which is called once.
            unsafe {
                Self::run_body(header, worker);
                return Self::finish(header, worker);
            }
        }
        worker.graph.run(graph);
        // SAFETY: the caller keeps the contract of `Executable`, and the worker chains.
        let held = unsafe {
            match room.as_ref().large {
                false => Self::run_chain::<false, false>(node, room, graph, worker),
                true => Self::run_chain_of_many(node, room, graph, worker),
            }
        };
        worker.graph.run(std::ptr::null());
        if held {
            // SAFETY: as in `finish`.
            unsafe { Room::hold(room, 1, worker) };
        }
    }

    #[inline(always)]
    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        let node = header.cast::<Node<'_, A>>();
        // SAFETY: as in `run_body`: until the node has ended, its room goes on.
        let room = unsafe { node.as_ref() }.room;
        let mut released = worker.released.borrow_mut();
        // SAFETY: the node's body has run, and `finish` is called once.
        let sink =
            unsafe { Room::ended::<false>(room, node, worker.alone, |task| released.push(task)) };
        if let Sink::Held = sink {
            drop(released);
            // SAFETY: the sink has ended and is counted once. Until then the run is not over, so the room stays.
            unsafe { Room::hold(room, 1, worker) };
        }
    }
}
