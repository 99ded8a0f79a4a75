//! One pool that all workers share: one lock around a pure state machine.
//!
//! Every event of such a policy (a task becomes ready, a worker takes one, a turn) is one critical section, in which ages are drawn.
//! So the order of the critical sections is *the* order of events, and the policy's rule holds exactly, natively too. A [`Recorder`]
//! writes that order down, for a test to replay with an obvious model.
//!
//! Wakes: an event after which `k` more tasks than before are available asks for `k` workers, but for no more than there are others.

use crate::{Dispatcher, Env, Hints, Op, Origin, Ready, Site, Wake, WorkerId};
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Mutex, total_order};

/// A dispatcher's rule as a state machine that is called by one thread at a time.
pub trait Rule: Send + 'static {
    /// As [`Dispatcher::GREEDY`].
    const GREEDY: bool = true;

    /// The only worker that is ever given a task, where there is such a one.
    const ONLY: Option<WorkerId> = None;

    /// Whether [`Rule::ready`] looks at other hints than the T and S groups. Where it does not they are not read.
    const READS_HINTS: bool = false;

    /// As [`Dispatcher::READS_GROUPS`]. Where neither this nor [`Rule::READS_HINTS`] is set no hint is read at all.
    const READS_GROUPS: bool = false;

    /// As [`Dispatcher::NEEDS_PREPARED`].
    const NEEDS_PREPARED: bool = false;

    /// What [`Rule::ready`] looks at, of the hints. What is left out is not read from memory: it lies on a cache line of its own.
    #[inline]
    fn looks_at(hints: Hints) -> Hints {
        if Self::READS_HINTS {
            hints
        } else {
            Hints::groups(hints.t, hints.s)
        }
    }

    /// The state before anything is ready.
    fn build(site: &Site<'_>) -> Self;

    /// A task became ready. Ages grow from call to call.
    fn ready(&mut self, age: u64, task: Ready, hints: Hints);

    /// The task that `worker`, which is idle, takes.
    fn next(&mut self, worker: WorkerId) -> Option<Ready>;
}

/// An event in a pool, as seen inside its critical section. Tasks are named by their handles, which an engine may use again after the
/// task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A task became ready.
    Ready {
        /// Its age.
        age: u64,
        /// Its handle.
        task: u64,
        /// What it says of itself (nothing where the rule reads no hints).
        hints: Hints,
    },
    /// A worker asked for a task. A worker that found the pool empty without entering it leaves no such event.
    Next {
        /// The worker.
        worker: WorkerId,
        /// The handle of the task that it was given.
        answer: Option<u64>,
    },
}

/// Where a pool writes its events down. `()`: nowhere, at no cost. `Vec<Logged>`: in order.
pub trait Recorder: Default + Send + 'static {
    /// Called inside the critical section.
    fn record(&mut self, event: impl FnOnce() -> Logged);
}

impl Recorder for () {
    #[inline(always)]
    fn record(&mut self, _event: impl FnOnce() -> Logged) {}
}

impl Recorder for Vec<Logged> {
    fn record(&mut self, event: impl FnOnce() -> Logged) {
        self.push(event());
    }
}

#[derive(Debug)]
struct State<R, L> {
    rule: R,
    /// The age of the next task that becomes ready.
    age: u64,
    available: usize,
    recorder: L,
}

impl<R: Rule, L: Recorder> State<R, L> {
    #[inline]
    fn ready(&mut self, task: Ready, hints: Hints) {
        let age = self.age;
        self.recorder.record(|| Logged::Ready {
            age,
            task: task.handle(),
            hints,
        });
        self.rule.ready(age, task, hints);
        self.age += 1;
        self.available += 1;
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        let task = self.rule.next(worker);
        self.recorder.record(|| Logged::Next {
            worker,
            answer: task.as_ref().map(Ready::handle),
        });
        self.available -= usize::from(task.is_some());
        task
    }
}

/// The dispatcher that applies rule `R` in one shared pool.
#[derive(Debug)]
pub struct Central<R, L = ()> {
    state: Mutex<State<R, L>>,
    /// `State::available`, readable without the lock; written with the lock held.
    available: AtomicUsize,
}

impl<R: Rule, L: Recorder> Central<R, L> {
    /// Takes out what was recorded so far.
    pub fn take_record(&self) -> L {
        std::mem::take(&mut self.state.lock().recorder)
    }

    #[inline]
    fn available(&self) -> usize {
        total_order();
        self.available.load(Ordering::SeqCst)
    }

    /// Whether asking can be spared: there is nothing, or nothing for this worker.
    #[inline]
    fn nothing_for(&self, worker: WorkerId) -> bool {
        R::ONLY.is_some_and(|only| only != worker) || self.available() == 0
    }

    /// Runs one critical section.
    #[inline]
    fn enter<T>(&self, env: &mut impl Env, event: impl FnOnce(&mut State<R, L>) -> T) -> T {
        env.charge(Op::Pool);
        let mut state = self.state.lock();
        let before = state.available;
        let answer = event(&mut state);
        let after = state.available;
        self.available.store(after, Ordering::SeqCst);
        drop(state);
        total_order();
        if after > before {
            ask_for::<R>(after - before, env);
        }
        answer
    }
}

/// Asks for workers because `more` tasks are available than before.
fn ask_for<R: Rule>(more: usize, env: &mut impl Env) {
    match R::ONLY {
        // It is awake if it is the one that makes this call.
        Some(only) if only == env.me() => {}
        Some(only) => env.wake(Wake::This(only)),
        None => {
            let others = usize::from(env.workers()) - usize::from(env.me().is_worker());
            (0..more.min(others)).for_each(|_| env.wake(Wake::Anyone));
        }
    }
}

#[inline]
fn hints_for<R: Rule>(env: &impl Env, task: &Ready) -> Hints {
    if R::READS_HINTS || R::READS_GROUPS {
        R::looks_at(env.hints(task))
    } else {
        Hints::default()
    }
}

impl<R: Rule, L: Recorder> Dispatcher for Central<R, L> {
    /// Room for the hints of released tasks: they are read before the lock is taken, since reading them may miss the cache.
    type Local = Vec<(Ready, Hints)>;

    const GREEDY: bool = R::GREEDY;
    const READS_GROUPS: bool = R::READS_GROUPS;
    const NEEDS_PREPARED: bool = R::NEEDS_PREPARED;

    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>) {
        let state = State {
            rule: R::build(site),
            age: 0,
            available: 0,
            recorder: L::default(),
        };
        let shared = Central {
            state: Mutex::new(state),
            available: AtomicUsize::new(0),
        };
        (shared, site.placement.ids().map(|_| Vec::new()).collect())
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let hints = hints_for::<R>(env, &task);
        self.enter(env, |state| state.ready(task, hints));
    }

    #[inline]
    fn ready<E: Env>(&self, _local: &mut Self::Local, env: &mut E, task: Ready) {
        self.inject(env, task);
    }

    #[inline]
    fn next<E: Env>(&self, _local: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        if self.nothing_for(me) {
            return None;
        }
        self.enter(env, |state| state.next(me))
            .map(|task| (task, Origin::Pool))
    }

    #[inline]
    fn turn<E: Env>(
        &self,
        local: &mut Self::Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        if released.is_empty() {
            return self.next(local, env);
        }
        local.extend(released.drain(..).map(|task| {
            let hints = hints_for::<R>(env, &task);
            (task, hints)
        }));
        let me = env.me();
        let task = self.enter(env, |state| {
            local
                .drain(..)
                .for_each(|(task, hints)| state.ready(task, hints));
            state.next(me)
        });
        task.map(|task| (task, Origin::Pool))
    }

    fn may_have(&self, worker: WorkerId) -> bool {
        !self.nothing_for(worker)
    }
}
