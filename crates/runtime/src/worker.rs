//! The worker loop, and what tasks may ask of the worker that runs them.
//!
//! Only [`Worker`] is compiled once a (policy, observer); everything else sees [`WorkerCore`].

use crate::observer::{Observer, TaskView, WorkerObserver};
use crate::pool::PoolShared;
use crate::slab::{Header, NodeRef};
use crate::sleep::Woke;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Wake, WorkerId};

/// Free nodes that a worker keeps for itself; above twice as many it gives some back.
const NODE_CACHE: usize = 256;

/// Rounds of an idle worker before it sleeps, and pauses a round: a few microseconds, because waking a thread costs about as much.
const SEARCH_ROUNDS: u32 = 32;
const SEARCH_PAUSES: u32 = 8;

/// What the graph layer asks of the worker that it runs on.
pub(crate) trait WorkerCore {
    fn id(&self) -> WorkerId;
    fn shared(&self) -> &PoolShared;
    /// A task became ready on this worker.
    fn make_ready(&self, task: Ready);
    /// Runs a task and releases what waits for it.
    fn execute(&self, task: Ready, origin: Origin);
    /// Where a task that ends puts its released successors, for the worker's next turn.
    fn released(&self) -> &RefCell<Vec<Ready>>;
    /// Free nodes of this worker.
    fn nodes(&self) -> &RefCell<Vec<NodeRef>>;
}

/// A free node of the pool.
pub(crate) fn take_node(pool: &PoolShared, worker: Option<&dyn WorkerCore>) -> NodeRef {
    let take = |cache: &RefCell<Vec<NodeRef>>| {
        let mut cache = cache.borrow_mut();
        if cache.is_empty() {
            pool.slab.refill(&mut cache, NODE_CACHE);
        }
        cache.pop().expect("just refilled")
    };
    match worker {
        Some(worker) => take(worker.nodes()),
        None => pool.slab.take_one(),
    }
}

/// The node's task has ended.
#[inline]
pub(crate) fn free_node(worker: &dyn WorkerCore, node: NodeRef) {
    let mut cache = worker.nodes().borrow_mut();
    cache.push(node);
    if cache.len() > 2 * NODE_CACHE {
        worker.shared().slab.give_back(&mut cache, NODE_CACHE);
    }
}

thread_local! {
    static CURRENT: Cell<Option<*const dyn WorkerCore>> = const { Cell::new(None) };
}

/// Calls `work` with the worker of `pool` that this thread is, if it is one.
pub(crate) fn with_current<R>(
    pool: &PoolShared,
    work: impl FnOnce(Option<&dyn WorkerCore>) -> R,
) -> R {
    // SAFETY: the pointer is set while the worker's thread function runs, and nobody else sees it.
    let worker = CURRENT.get().map(|worker| unsafe { &*worker });
    work(worker.filter(|worker| std::ptr::eq(worker.shared(), pool)))
}

/// What one thread of a pool holds.
pub(crate) struct Worker<D: Dispatcher, O: Observer> {
    pub(crate) id: WorkerId,
    pub(crate) pool: Arc<PoolShared>,
    pub(crate) dispatcher: Arc<D>,
    pub(crate) local: RefCell<D::Local>,
    pub(crate) observer: RefCell<O::Worker>,
    pub(crate) calls: Cell<u64>,
    pub(crate) wakes: RefCell<Wakes>,
    pub(crate) released: RefCell<Vec<Ready>>,
    pub(crate) nodes: RefCell<Vec<NodeRef>>,
}

/// Whom a policy asked to wake in one call.
#[derive(Default)]
pub(crate) struct Wakes {
    anyone: u32,
    these: SmallVec<[WorkerId; 8]>,
}

impl Wakes {
    fn add(&mut self, whom: Wake) {
        match whom {
            Wake::Anyone => self.anyone += 1,
            Wake::This(worker) => self.these.push(worker),
        }
    }

    /// Wakes them, now that the policy's call has returned and holds no lock.
    #[inline]
    pub(crate) fn deliver(&mut self, pool: &PoolShared) {
        for worker in self.these.drain(..) {
            pool.sleep.wake_this(worker.index());
        }
        // A worker that wakes wakes the next when it finds something, so that the burst is spread.
        if std::mem::take(&mut self.anyone) > 0 {
            pool.sleep.wake_anyone();
        }
    }
}

/// The native [`Env`]: what a policy sees during one call.
pub(crate) struct NativeEnv<'a> {
    pub(crate) me: WorkerId,
    pub(crate) pool: &'a PoolShared,
    pub(crate) calls: &'a Cell<u64>,
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
        unsafe { Header::of(task).as_ref() }.hints
    }

    #[inline]
    fn random(&mut self) -> u64 {
        let call = self.calls.get();
        self.calls.set(call + 1);
        tanada_policy::draw(self.pool.seed, self.me, call)
    }

    #[inline]
    fn wake(&mut self, whom: Wake) {
        self.wakes.add(whom);
    }
}

impl<D: Dispatcher, O: Observer> Worker<D, O> {
    /// One call of the policy, and the wake-ups that it asked for.
    #[inline]
    fn ask<R>(&self, call: impl FnOnce(&D, &mut D::Local, &mut NativeEnv<'_>) -> R) -> R {
        let mut wakes = self.wakes.borrow_mut();
        let mut env = NativeEnv {
            me: self.id,
            pool: &self.pool,
            calls: &self.calls,
            wakes: &mut wakes,
        };
        let answer = call(&self.dispatcher, &mut self.local.borrow_mut(), &mut env);
        wakes.deliver(&self.pool);
        answer
    }

    /// Runs tasks until the pool closes.
    pub(crate) fn work(&self) {
        let this: *const (dyn WorkerCore + '_) = self;
        // SAFETY: only the lifetime is erased; it is taken out again below, before `self` can go.
        CURRENT.set(Some(unsafe {
            std::mem::transmute::<*const (dyn WorkerCore + '_), *const (dyn WorkerCore + 'static)>(
                this,
            )
        }));
        self.pool.sleep.enter(self.id.index());
        let _left = LeaveOnDrop;
        while let Some(first) = self.search() {
            let mut next = Some(first);
            while let Some((task, origin)) = next {
                self.execute(task, origin);
                next = self.ask(|dispatcher, local, env| {
                    dispatcher.turn(local, env, &mut self.released.borrow_mut())
                });
            }
            self.observer.borrow_mut().idle();
        }
    }

    /// The next task of an idle worker; `None` when the pool closes.
    fn search(&self) -> Option<(Ready, Origin)> {
        let sleep = &self.pool.sleep;
        sleep.search();
        loop {
            for round in 0..self.pool.search_rounds(SEARCH_ROUNDS) {
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
            if sleep.doze(self.id.index(), || self.dispatcher.may_have(self.id)) == Woke::Close {
                return None;
            }
        }
    }
}

/// Takes the worker out of [`CURRENT`] when its thread ends, and ends the process where that is because of a bug: a panic of a policy
/// or of the engine itself would leave tasks that nobody runs.
struct LeaveOnDrop;

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        CURRENT.set(None);
        if std::thread::panicking() {
            eprintln!(
                "tanada: a policy, an observer or the engine panicked (see above); the process cannot go on"
            );
            std::process::abort();
        }
    }
}

impl<D: Dispatcher, O: Observer> WorkerCore for Worker<D, O> {
    fn id(&self) -> WorkerId {
        self.id
    }

    fn shared(&self) -> &PoolShared {
        &self.pool
    }

    fn make_ready(&self, task: Ready) {
        self.ask(|dispatcher, local, env| dispatcher.ready(local, env, task));
    }

    #[inline]
    fn execute(&self, task: Ready, origin: Origin) {
        let header = Header::of(&task);
        // SAFETY: the `Ready` is the right to run the task once, and is used up here; the header lives until `finish`.
        let Header {
            kind,
            name,
            index,
            hints,
        } = *unsafe { header.as_ref() };
        let view = TaskView { name, index, hints };
        if kind.observed {
            self.observer.borrow_mut().start(&view, origin);
        }
        // SAFETY: as above.
        unsafe { (kind.run)(header, self) };
        if kind.observed {
            self.observer.borrow_mut().end(&view);
        }
        // SAFETY: the body has run.
        unsafe { (kind.finish)(header, self) };
    }

    fn released(&self) -> &RefCell<Vec<Ready>> {
        &self.released
    }

    fn nodes(&self) -> &RefCell<Vec<NodeRef>> {
        &self.nodes
    }
}
