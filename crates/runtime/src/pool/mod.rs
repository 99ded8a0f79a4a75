//! Pools of workers, and how they are made.

mod bind;

use crate::error::{BuildError, GraphError};
use crate::process;
use crate::graph::GraphCore;
use crate::marks::{self, Marked};
use crate::observer::Observer;
use crate::graph::slab::Slab;
use crate::worker::sleep::Sleep;
use crate::worker::{EndOnPanic, NativeEnv, Wakes, Worker, WorkerCore};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use tanada_policy::registry::{self, Entry, NotNative, Visitor};
use tanada_policy::{Dispatcher, Placement, Ready, Site, WorkerId};
use tanada_topology::Topology;

pub use bind::Bind;

/// The most workers that a pool can have.
pub const MAX_WORKERS: u16 = 1024;

/// The policy of a pool that was not told one.
pub const DEFAULT_POLICY: &str = "random-steal";

/// What all threads of a pool share, whatever its policy.
pub(crate) struct PoolShared {
    /// Which fork of the program made it; see [`crate::process`].
    born: u64,
    pub(crate) policy: String,
    pub(crate) placement: Placement,
    pub(crate) seed: u64,
    pub(crate) sleep: Sleep,
    pub(crate) slab: Slab,
    graphs: Mutex<Graphs>,
    /// The table of functions by which code without type parameters reaches the policy.
    gate: OnceLock<Box<dyn Gate>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Set when the pool can no longer run anything.
    poison: Mutex<Option<GraphError>>,
    /// Tickets of nested graphs (see `graph::nested`) that the policy holds. Nobody waits for them.
    tickets: AtomicUsize,
    oversubscribed: bool,
    this: Weak<PoolShared>,
}

#[derive(Default)]
struct Graphs {
    /// From `Box::into_raw`, freed with the pool.
    all: Vec<NonNull<GraphCore>>,
    free: Vec<NonNull<GraphCore>>,
}

// SAFETY: `GraphCore` may be used from all threads; the pointers are owned.
unsafe impl Send for Graphs {}

impl Drop for Graphs {
    fn drop(&mut self) {
        for core in self.all.drain(..) {
            // SAFETY: from `Box::into_raw`, freed once, after everybody who could use it.
            drop(unsafe { Box::from_raw(core.as_ptr()) });
        }
    }
}

/// What reaches a policy from outside its workers.
trait Gate: Send + Sync {
    fn inject(&self, pool: &PoolShared, task: Ready);
}

struct DispatcherGate<D> {
    dispatcher: Arc<D>,
    /// Random numbers drawn outside the workers so far.
    calls: AtomicU64,
}

impl<D: Dispatcher> Gate for DispatcherGate<D> {
    fn inject(&self, pool: &PoolShared, task: Ready) {
        let mut wakes = Wakes::default();
        // Two threads at once may draw the same numbers.
        let mut calls = self.calls.load(Ordering::Relaxed);
        let mut env = NativeEnv {
            me: WorkerId::NONE,
            pool,
            calls: &mut calls,
            wakes: &mut wakes,
        };
        EndOnPanic::around(|| self.dispatcher.inject(&mut env, task));
        self.calls.fetch_max(calls, Ordering::Relaxed);
        wakes.deliver(pool);
    }
}

impl PoolShared {
    /// A task became ready outside the pool's workers.
    pub(crate) fn inject(&self, task: Ready) {
        self.gate
            .get()
            .expect("set before the pool is handed out")
            .inject(self, task);
    }

    pub(crate) fn shared(&self) -> Arc<PoolShared> {
        self.this.upgrade().expect("called on a live pool")
    }

    /// A core for one run, which is the caller's alone until [`PoolShared::give_graph`].
    pub(crate) fn take_graph(&self) -> &GraphCore {
        let mut graphs = self.graphs.lock();
        let core = graphs.free.pop().unwrap_or_else(|| {
            let core = GraphCore::new(self, usize::from(self.placement.workers()));
            let core = NonNull::new(Box::into_raw(Box::new(core))).expect("a box is not null");
            graphs.all.push(core);
            core
        });
        // SAFETY: cores live as long as the pool.
        unsafe { &*core.as_ptr() }
    }

    pub(crate) fn give_graph(&self, graph: &GraphCore) {
        self.graphs.lock().free.push(NonNull::from(graph));
    }

    /// Whether there are more workers than hardware threads, so that others wait for the processor of an idle one.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Ends the workers; returns when the last has ended its task.
    pub(crate) fn retire(&self) {
        self.sleep.close();
        for thread in self.threads.lock().drain(..) {
            // A worker that panicked has ended the process.
            let _ = thread.join();
        }
    }

    /// Whether the pool belongs to the parent of this process.
    pub(crate) fn is_forked(&self) -> bool {
        self.born != process::generation()
    }

    pub(crate) fn add_ticket(&self) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_ticket(&self) {
        self.tickets.fetch_sub(1, Ordering::Relaxed);
    }

    /// Why the pool can no longer run anything, if so.
    pub(crate) fn poisoned(&self) -> Option<GraphError> {
        self.poison.lock().clone()
    }

    /// From now on the pool answers `why`.
    pub(crate) fn poison(&self, why: GraphError) {
        self.poison.lock().get_or_insert(why);
    }
}

impl Drop for PoolShared {
    fn drop(&mut self) {
        // Tasks that never came back from the policy: it may have kept them, so that somebody could still look at them. Then their
        // memory stays.
        if self.poison.get_mut().is_some() || *self.tickets.get_mut() > 0 {
            std::mem::forget(std::mem::take(&mut self.slab));
            std::mem::forget(std::mem::take(&mut *self.graphs.get_mut()));
        }
    }
}

/// Workers that run task graphs under one policy.
///
/// Pools are independent of each other: a program may have several, and a task of one may run a graph on another, which blocks its
/// worker meanwhile. So pools must not wait for each other in a circle: where tasks of A run graphs on B whose tasks run graphs on A, all
/// workers of both can come to wait, and then they wait for ever.
///
/// Cloning a `Pool` gives another handle to the same workers, which end with the last handle.
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

struct Handle(Arc<PoolShared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.born == process::generation() {
            let here = std::thread::current().id();
            let on_worker = self
                .0
                .threads
                .lock()
                .iter()
                .any(|thread| thread.thread().id() == here);
            if on_worker {
                // A task dropped the last handle: its worker cannot wait for itself.
                self.0.sleep.close();
            } else {
                self.0.retire();
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("policy", &self.policy())
            .field("workers", &self.workers())
            .finish()
    }
}

impl Pool {
    /// Begins to describe a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder {
            workers: None,
            policy: None,
            seed: 0,
            bind: Bind::Auto,
            topology: None,
            observer: (),
        }
    }

    /// The default pool of this process, made at the first call.
    ///
    /// `TANADA_WORKERS` sets the number of its workers (default: the hardware threads that the process may use, within its cgroup's
    /// quota), `TANADA_POLICY` its policy.
    ///
    /// # Errors
    /// Where one of the two variables makes no sense, or the system gives no threads.
    pub fn global() -> Result<Pool, BuildError> {
        // A pointer and not a lock: a lock could be held by another thread at the moment of a fork.
        static GLOBAL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
        loop {
            let current = GLOBAL.load(Ordering::Acquire);
            // SAFETY: global pools are never freed.
            if let Some(pool) = unsafe { current.as_ref() }
                && pool.shared().born == process::generation()
            {
                return Ok(pool.clone());
            }
            let made = Box::into_raw(Box::new(Pool::builder().from_environment()?.build()?));
            if GLOBAL
                .compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: just made, and seen by nobody.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    pub(crate) fn shared(&self) -> &PoolShared {
        &self.0.0
    }

    /// The pool, if it can run something in this process.
    pub(crate) fn usable(&self) -> Result<&PoolShared, GraphError> {
        let pool = self.shared();
        if pool.is_forked() {
            return Err(GraphError::Forked);
        }
        pool.poisoned().map_or(Ok(pool), Err)
    }

    /// How many workers it has.
    pub fn workers(&self) -> u16 {
        self.shared().placement.workers()
    }

    /// The name of its policy.
    pub fn policy(&self) -> &str {
        &self.shared().policy
    }

    /// Where its workers are.
    pub fn placement(&self) -> &Placement {
        &self.shared().placement
    }
}

/// Describes a [`Pool`].
#[derive(Clone, Debug)]
pub struct PoolBuilder<O = ()> {
    workers: Option<u32>,
    policy: Option<String>,
    seed: u64,
    bind: Bind,
    topology: Option<Topology>,
    observer: O,
}

impl<O: Observer> PoolBuilder<O> {
    /// How many workers; by default as many as hardware threads that the process may use, within its cgroup's quota.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The name of a registered policy (`tanada policies` lists them); by default `random-steal`.
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = Some(name.to_owned());
        self
    }

    /// The seed of the policy's random numbers; by default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How workers are bound to hardware threads.
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Takes this topology for the machine's. Workers are then bound to the hardware threads that it names, unless
    /// [`PoolBuilder::bind`] says otherwise.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Lets `observer` watch the workers.
    pub fn observer<P: Observer>(self, observer: P) -> PoolBuilder<P> {
        self.map_observer(|_| observer)
    }

    fn map_observer<P: Observer>(self, map: impl FnOnce(O) -> P) -> PoolBuilder<P> {
        let PoolBuilder {
            workers,
            policy,
            seed,
            bind,
            topology,
            observer,
        } = self;
        PoolBuilder {
            workers,
            policy,
            seed,
            bind,
            topology,
            observer: map(observer),
        }
    }

    /// Takes workers and policy from `TANADA_WORKERS` and `TANADA_POLICY`, where they are set.
    ///
    /// # Errors
    /// Where `TANADA_WORKERS` is not a number.
    pub fn from_environment(mut self) -> Result<Self, BuildError> {
        const WORKERS: &str = "TANADA_WORKERS";
        if let Some(value) = std::env::var_os(WORKERS) {
            let value = value.to_string_lossy().into_owned();
            let workers = value.trim().parse().map_err(|_| BuildError::Environment {
                variable: WORKERS,
                value,
                wanted: "a number of workers",
            })?;
            self.workers = Some(workers);
        }
        if let Some(value) = std::env::var_os("TANADA_POLICY") {
            self.policy = Some(value.to_string_lossy().into_owned());
        }
        Ok(self)
    }

    /// Makes the pool with the registered policy that was named.
    ///
    /// # Errors
    /// Where no policy has that name, the policy [needs](Dispatcher::NEEDS_PREPARED) the graph beforehand, the number of workers is out of
    /// range, or the system gives no threads.
    pub fn build(mut self) -> Result<Pool, BuildError> {
        struct Build<O>(PoolBuilder<O>);
        impl<O: Observer> Visitor for Build<O> {
            type Out = Result<Pool, BuildError>;
            fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
                self.0.build_with::<D>(entry.name)
            }
        }
        let name = self
            .policy
            .take()
            .unwrap_or_else(|| DEFAULT_POLICY.to_owned());
        registry::with(&name, Build(self))?
    }

    /// Makes the pool with a policy of your own, which messages and reports call `name`.
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    ///
    /// # Panics
    /// Where `D::build` makes another number of local states than there are workers.
    pub fn build_with<D: Dispatcher>(self, name: &str) -> Result<Pool, BuildError> {
        if D::NEEDS_PREPARED {
            return Err(NotNative::named(name).into());
        }
        if marks::wanted() {
            let marked = self.workers(1).map_observer(Marked);
            return marked.make::<marks::Reference>(marks::REFERENCE);
        }
        self.make::<D>(name)
    }

    fn make<D: Dispatcher>(self, name: &str) -> Result<Pool, BuildError> {
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::detect().map_err(|error| BuildError::Topology(error.to_string()))?,
        };
        let asked = self
            .workers
            .unwrap_or_else(|| u32::from(topology.default_workers()));
        if asked == 0 || asked > u32::from(MAX_WORKERS) {
            return Err(BuildError::Workers {
                asked,
                max: MAX_WORKERS,
            });
        }
        let workers = asked as u16;
        process::watch();
        let placement = topology.place(workers);
        let (dispatcher, locals) = D::build(&Site::new(&placement, self.seed));
        assert_eq!(
            locals.len(),
            usize::from(workers),
            "policy {name} must build one local state a worker"
        );
        let dispatcher = Arc::new(dispatcher);
        let pool = Arc::new_cyclic(|this| PoolShared {
            born: process::generation(),
            policy: name.to_owned(),
            placement,
            seed: self.seed,
            sleep: Sleep::new(usize::from(workers)),
            slab: Slab::default(),
            graphs: Mutex::default(),
            gate: OnceLock::new(),
            threads: Mutex::default(),
            poison: Mutex::default(),
            tickets: AtomicUsize::new(0),
            oversubscribed: usize::from(workers) > topology.usable().len(),
            this: Weak::clone(this),
        });
        let gate = DispatcherGate {
            dispatcher: Arc::clone(&dispatcher),
            calls: AtomicU64::new(0),
        };
        assert!(pool.gate.set(Box::new(gate)).is_ok(), "set once");
        let handle = Pool(Arc::new(Handle(Arc::clone(&pool))));
        for (id, local) in pool.placement.ids().zip(locals) {
            let worker = Start {
                id,
                bind: self.bind.resolve(workers, &topology),
                local,
                observer: self.observer.worker(id),
            };
            let thread = worker.start::<D, O>(Arc::clone(&pool), Arc::clone(&dispatcher));
            // On an error the handle is dropped, which ends the workers that there are.
            pool.threads
                .lock()
                .push(thread.map_err(|source| BuildError::Thread {
                    worker: id.0,
                    source,
                })?);
        }
        Ok(handle)
    }
}

/// What a worker's thread starts with.
struct Start<L, W> {
    id: WorkerId,
    bind: Bind,
    local: L,
    observer: W,
}

impl<L: Send + 'static, W: Send + 'static> Start<L, W> {
    fn start<D, O>(
        self,
        pool: Arc<PoolShared>,
        dispatcher: Arc<D>,
    ) -> std::io::Result<JoinHandle<()>>
    where
        D: Dispatcher<Local = L>,
        O: Observer<Worker = W>,
    {
        std::thread::Builder::new()
            .name(format!("tanada-{}", self.id.0))
            .spawn(move || {
                self.bind.apply(self.id, &pool.placement);
                let core = WorkerCore::new(self.id, pool);
                Worker::<D, O>::new(core, dispatcher, self.local, self.observer).work();
            })
    }
}
