//! The worker loop, and what tasks may ask of the worker that runs them.
//!
//! Only [`Worker`] is compiled once a (policy, observer); everything else sees its [`WorkerCore`].

pub mod sleep;

use crate::marks;
use crate::observer::{Observer, WorkerObserver};
use crate::pool::PoolShared;
use crate::graph::slab::{Header, NodeRef};
use crate::worker::sleep::Woke;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Wake, WorkerId};

/// Free nodes that a worker keeps for itself; above twice as many it gives some back.
const NODE_CACHE: usize = 256;

/// Rounds of an idle worker before it sleeps, and pauses a round: about ten microseconds, twice what waking a thread costs.
const SEARCH_ROUNDS: u32 = 32;
const SEARCH_PAUSES: u32 = 8;

/// The same for a worker that expects a long sleep, since its last one was: searching would only burn the processor.
const SHORT_SEARCH_ROUNDS: u32 = 2;

/// A sleep from here on is a long one: much longer than what waking costs.
const LONG_SLEEP: Duration = Duration::from_micros(40);

/// The part of a worker that the graph layer uses: the same whatever the policy and the observer.
///
/// Behind a `RefCell` stands what this worker's thread alone touches, also from within tasks. On lines of its own: nothing here may
/// share a cache line with another worker's.
#[repr(align(128))]
pub(crate) struct WorkerCore {
    pub(crate) id: WorkerId,
    /// The only worker of its pool: nobody else touches a dependency count of a template.
    pub(crate) alone: bool,
    pool: Arc<PoolShared>,
    /// Where a task that ends puts its released successors, for the worker's next turn.
    pub(crate) released: RefCell<Vec<Ready>>,
    /// Free nodes of this worker.
    nodes: RefCell<Vec<NodeRef>>,
    /// The whole worker, while its thread runs tasks.
    engine: Cell<Option<NonNull<dyn Engine>>>,
}

/// What the graph layer asks of a worker's policy.
trait Engine {
    /// A task became ready on this worker.
    fn make_ready(&self, task: Ready);
    /// Runs a task and releases what waits for it.
    fn execute(&self, task: Ready, origin: Origin);
}

impl WorkerCore {
    pub(crate) fn new(id: WorkerId, pool: Arc<PoolShared>) -> Self {
        WorkerCore {
            id,
            alone: pool.placement.workers() == 1,
            pool,
            released: RefCell::default(),
            nodes: RefCell::default(),
            engine: Cell::new(None),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &PoolShared {
        &self.pool
    }

    fn engine(&self) -> &dyn Engine {
        let engine = self.engine.get().expect("set while tasks run");
        // SAFETY: set by `Worker::work` for as long as it runs; only its own thread has this `WorkerCore`.
        unsafe { engine.as_ref() }
    }

    /// A task became ready on this worker.
    pub(crate) fn make_ready(&self, task: Ready) {
        self.engine().make_ready(task);
    }

    /// Runs a task and releases what waits for it.
    pub(crate) fn execute(&self, task: Ready, origin: Origin) {
        self.engine().execute(task, origin);
    }
}

/// A free node of the pool.
pub(crate) fn take_node(pool: &PoolShared, worker: Option<&WorkerCore>) -> NodeRef {
    let take = |cache: &RefCell<Vec<NodeRef>>| {
        let mut cache = cache.borrow_mut();
        if cache.is_empty() {
            pool.slab.refill(&mut cache, NODE_CACHE);
        }
        cache.pop().expect("just refilled")
    };
    match worker {
        Some(worker) => take(&worker.nodes),
        None => pool.slab.take_one(),
    }
}

/// The node's task has ended.
#[inline]
pub(crate) fn free_node(worker: &WorkerCore, node: NodeRef) {
    let mut cache = worker.nodes.borrow_mut();
    cache.push(node);
    if cache.len() > 2 * NODE_CACHE {
        worker.pool.slab.give_back(&mut cache, NODE_CACHE);
    }
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<WorkerCore>>> = const { Cell::new(None) };
}

/// Calls `work` with the worker of `pool` that this thread is, if it is one.
pub(crate) fn with_current<R>(pool: &PoolShared, work: impl FnOnce(Option<&WorkerCore>) -> R) -> R {
    // SAFETY: the pointer is set while the worker's thread function runs, and nobody else sees it.
    let worker = CURRENT.get().map(|worker| unsafe { &*worker.as_ptr() });
    work(worker.filter(|worker| std::ptr::eq(worker.pool(), pool)))
}

/// What one thread of a pool holds.
pub(crate) struct Worker<D: Dispatcher, O: Observer> {
    core: WorkerCore,
    dispatcher: Arc<D>,
    asked: RefCell<Asked<D::Local>>,
    observer: RefCell<O::Worker>,
    /// Whether its last sleep was long.
    slept_long: Cell<bool>,
}

/// What a call of the policy changes.
struct Asked<L> {
    local: L,
    calls: u64,
    wakes: Wakes,
}

/// Whom a policy asked to wake in one call.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Whether it asked at all.
    asked: bool,
    anyone: bool,
    these: SmallVec<[WorkerId; 8]>,
}

impl Wakes {
    fn add(&mut self, whom: Wake) {
        self.asked = true;
        match whom {
            Wake::Anyone => self.anyone = true,
            Wake::This(worker) => self.these.push(worker),
        }
    }

    /// Wakes them, now that the policy's call has returned and holds no lock.
    #[inline]
    pub(crate) fn deliver(&mut self, pool: &PoolShared) {
        if self.asked {
            self.deliver_all(pool);
        }
    }

    #[inline(never)]
    fn deliver_all(&mut self, pool: &PoolShared) {
        self.asked = false;
        for worker in self.these.drain(..) {
            pool.sleep.wake_this(worker.index());
        }
        // A worker that wakes wakes the next when it finds something, so that the burst is spread.
        if std::mem::take(&mut self.anyone) {
            pool.sleep.wake_anyone();
        }
    }
}

/// The native [`Env`]: what a policy sees during one call.
pub(crate) struct NativeEnv<'a> {
    pub(crate) me: WorkerId,
    pub(crate) pool: &'a PoolShared,
    pub(crate) calls: &'a mut u64,
    pub(crate) wakes: &'a mut Wakes,
}

impl Env for NativeEnv<'_> {
    #[inline]
    fn me(&self) -> WorkerId {
        self.me
    }

    #[inline]
    fn workers(&self) -> u16 {
        self.pool.placement.workers()
    }

    #[inline]
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.pool.placement.distance(a, b)
    }

    #[inline]
    fn hints(&self, task: &Ready) -> Hints {
        // SAFETY: whoever holds a `Ready` of this engine holds a task that has not run, so its header lives.
        unsafe { Header::hints(Header::of(task)) }
    }

    #[inline]
    fn random(&mut self) -> u64 {
        let call = *self.calls;
        *self.calls += 1;
        tanada_policy::draw(self.pool.seed, self.me, call)
    }

    #[inline]
    fn wake(&mut self, whom: Wake) {
        self.wakes.add(whom);
    }
}

impl<D: Dispatcher, O: Observer> Worker<D, O> {
    pub(crate) fn new(
        core: WorkerCore,
        dispatcher: Arc<D>,
        local: D::Local,
        observer: O::Worker,
    ) -> Self {
        Worker {
            core,
            dispatcher,
            asked: RefCell::new(Asked {
                local,
                calls: 0,
                wakes: Wakes::default(),
            }),
            observer: RefCell::new(observer),
            slept_long: Cell::new(false),
        }
    }

    /// One call of the policy, and the wake-ups that it asked for.
    #[inline]
    fn ask<R>(&self, call: impl FnOnce(&D, &mut D::Local, &mut NativeEnv<'_>) -> R) -> R {
        let asked = &mut *self.asked.borrow_mut();
        let mut env = NativeEnv {
            me: self.core.id,
            pool: &self.core.pool,
            calls: &mut asked.calls,
            wakes: &mut asked.wakes,
        };
        let answer = EndOnPanic::around(|| call(&self.dispatcher, &mut asked.local, &mut env));
        asked.wakes.deliver(&self.core.pool);
        answer
    }

    /// Runs tasks until the pool closes.
    pub(crate) fn work(&self) {
        let engine: NonNull<dyn Engine + '_> = NonNull::from(self);
        // SAFETY: only the lifetime is erased; `WorkerCore::engine` is reached from tasks and through `CURRENT` only, and both end before
        // this function returns or unwinds.
        let engine = unsafe {
            std::mem::transmute::<NonNull<dyn Engine + '_>, NonNull<dyn Engine + 'static>>(engine)
        };
        self.core.engine.set(Some(engine));
        CURRENT.set(Some(NonNull::from(&self.core)));
        let sleep = &self.core.pool.sleep;
        sleep.enter(self.core.id.index());
        let _left = LeaveOnDrop;
        while let Some((mut task, mut origin)) = self.search() {
            loop {
                self.execute(task, origin);
                let next = self.ask(|dispatcher, local, env| {
                    let mut released = self.core.released.borrow_mut();
                    if D::NEWEST_FIRST && released.len() > 1 {
                        released.reverse();
                    }
                    dispatcher.turn(local, env, &mut released)
                });
                match next {
                    Some(next) => (task, origin) = next,
                    None => break,
                }
            }
            self.observer.borrow_mut().idle();
        }
    }

    /// The next task of an idle worker; `None` when the pool closes.
    fn search(&self) -> Option<(Ready, Origin)> {
        let sleep = &self.core.pool.sleep;
        sleep.search();
        loop {
            for round in 0..self.search_rounds() {
                if let Some(found) = self.ask(|dispatcher, local, env| dispatcher.next(local, env))
                {
                    sleep.found();
                    return Some(found);
                }
                if round % 8 == 7 {
                    std::thread::yield_now();
                }
                (0..SEARCH_PAUSES).for_each(|_| std::hint::spin_loop());
            }
            let me = self.core.id;
            let start = Instant::now();
            let woke = sleep.doze(me.index(), || self.dispatcher.may_have(me));
            self.slept_long.set(start.elapsed() >= LONG_SLEEP);
            if woke == Woke::Close {
                return None;
            }
        }
    }

    /// How long it searches before it sleeps: little where others wait for its processor or the last sleep says that the next will be
    /// long. One sleep too many tells it that work comes faster again.
    fn search_rounds(&self) -> u32 {
        if self.slept_long.get() || self.core.pool.is_oversubscribed() {
            SHORT_SEARCH_ROUNDS
        } else {
            SEARCH_ROUNDS
        }
    }
}

/// Takes the worker out of [`CURRENT`] when its thread ends, and ends the process where that is because of a bug: an observer or the engine
/// itself that panics would leave tasks that nobody runs.
struct LeaveOnDrop;

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        CURRENT.set(None);
        if std::thread::panicking() {
            end_the_process();
        }
    }
}

/// Ends the process when it is dropped: a policy panicked in the middle of a call, and with it go the tasks in its hands. Nobody may catch
/// that panic, be it a task that the call was made in or the thread that waits for a graph whose tasks borrow from it.
pub(crate) struct EndOnPanic(());

impl EndOnPanic {
    #[inline(always)]
    pub(crate) fn around<R>(call: impl FnOnce() -> R) -> R {
        let guard = EndOnPanic(());
        let answer = call();
        std::mem::forget(guard);
        answer
    }
}

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        end_the_process();
    }
}

#[cold]
fn end_the_process() -> ! {
    eprintln!(
        "tanada: a policy, an observer or the engine panicked (see above); the process cannot go on"
    );
    std::process::abort();
}

impl<D: Dispatcher, O: Observer> Engine for Worker<D, O> {
    fn make_ready(&self, task: Ready) {
        self.ask(|dispatcher, local, env| dispatcher.ready(local, env, task));
    }

    #[inline]
    fn execute(&self, task: Ready, origin: Origin) {
        let header = Header::of(&task);
        // SAFETY: the `Ready` is the right to run the task once, and is used up here; the header lives until `finish`.
        let kind = unsafe { header.as_ref() }.kind;
        if !(O::Worker::WATCHES && kind.observed) {
            // SAFETY: as above.
            unsafe { (kind.step)(header, &self.core) };
            return;
        }
        // SAFETY: as above.
        let view = unsafe { Header::view(header) };
        self.observer.borrow_mut().start(&view, origin);
        // SAFETY: as above.
        marks::around::<O::Worker>(header, || unsafe { (kind.run)(header, &self.core) });
        self.observer.borrow_mut().end(&view);
        // SAFETY: the body has run.
        unsafe { (kind.finish)(header, &self.core) };
    }
}
