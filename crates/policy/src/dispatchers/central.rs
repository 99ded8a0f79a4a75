//! One pool that all workers share: one lock around a pure state machine.
//!
//! Every event of such a policy (a task becomes ready, a worker takes one, a turn) is one critical section, in which ages are drawn.
//! So the order of the critical sections is *the* order of events, and the policy's rule holds exactly, natively too. A [`Recorder`]
//! writes that order down, for a test to replay with an obvious model.
//!
//! Wakes: an event after which `k` more tasks than before are available requests `k` wake-ups, but no more than there are other active
//! workers.

use crate::{Dispatcher, Env, Hints, Op, Origin, Ready, Site, Wake, Word, WorkerId};
use tanada_queues::Padded;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Mutex, total_order};

/// A dispatcher's rule as a state machine that is called by one thread at a time.
pub trait Rule: Send + 'static {
    /// The only worker that is ever given a task, if there is only one.
    const ONLY: Option<WorkerId> = None;

    /// What [`Rule::ready`] reads of the hints. Reading less costs less: hints lie on a cache line of their own.
    const READS: Reads = Reads::All;

    /// As [`Dispatcher::NEEDS_PREPARED`].
    const NEEDS_PREPARED: bool = false;

    /// Returns the state before anything is ready.
    fn build(site: &Site<'_>) -> Self;

    /// A task became ready. Calls come in the order of age.
    fn ready(&mut self, task: Ready, arrival: Arrival);

    /// Returns the task that `worker`, which is idle, takes.
    fn next(&mut self, worker: WorkerId) -> Option<Ready>;
}

/// What a [`Rule`] reads of a task's hints. It sees zeros in place of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// The T and the S group.
    Groups,
    /// [`Hints::code`].
    Code,
    /// All hints, the groups among them.
    All,
}

impl Reads {
    /// Returns whether the T and S groups are among the hints that are read.
    pub const fn groups(self) -> bool {
        matches!(self, Reads::Groups | Reads::All)
    }

    /// Returns those hints of `task` that are read.
    #[inline]
    fn of(self, env: &impl Env, task: &Ready) -> Hints {
        match self {
            Reads::Nothing => Hints::default(),
            Reads::Groups => {
                let hints = env.hints(task);
                Hints::groups(hints.t, hints.s)
            }
            Reads::Code => Hints::default().with_code(env.hints(task).code),
            Reads::All => env.hints(task),
        }
    }
}

/// How a task became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// The task's age: the number of tasks that became ready in this pool before it.
    pub age: u64,
    /// The worker on which it became ready; `None`: outside any worker.
    pub on: Option<WorkerId>,
    /// What the task says of itself, as far as the rule [reads](Rule::READS) it.
    pub hints: Hints,
}

impl Arrival {
    /// Returns the arrival of a task of age `age` that became ready on worker `on`. Only tests that drive a rule by hand need this.
    pub const fn new(age: u64, on: Option<WorkerId>, hints: Hints) -> Self {
        Arrival { age, on, hints }
    }
}

/// An event in a pool, as seen inside its critical section. Tasks are named by their handles, which an engine may use again after the
/// task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A task became ready.
    Ready {
        /// Its handle.
        task: u64,
        /// How it became ready.
        arrival: Arrival,
    },
    /// A worker asked for a task. A worker that found the pool empty without entering it leaves no such event.
    Next {
        /// The worker.
        worker: WorkerId,
        /// The handle of the task that it was given.
        answer: Option<u64>,
    },
}

/// Where a pool records its events. `()`: nowhere, at no cost. `Vec<Logged>`: in order.
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
    fn ready(&mut self, task: Ready, on: Option<WorkerId>, hints: Hints) {
        let arrival = Arrival::new(self.age, on, hints);
        self.recorder.record(|| Logged::Ready {
            task: task.handle(),
            arrival,
        });
        self.rule.ready(task, arrival);
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
    state: Padded<Mutex<State<R, L>>>,
    /// `State::available`, readable without the lock; written with the lock held. On a line of its own: idle workers read it again and
    /// again, and would slow down the lock and the pool behind it.
    available: Padded<AtomicUsize>,
}

impl<R: Rule, L: Recorder> Central<R, L> {
    /// Returns what was recorded so far, and begins a new record.
    pub fn take_record(&self) -> L {
        std::mem::take(&mut self.state.0.lock().recorder)
    }

    #[inline]
    fn available(&self) -> usize {
        total_order();
        self.available.0.load(Ordering::SeqCst)
    }

    /// Returns whether `worker` would get nothing: the pool is empty, or this worker is given no tasks.
    #[inline]
    fn nothing_for(&self, worker: WorkerId) -> bool {
        R::ONLY.is_some_and(|only| only != worker) || self.available() == 0
    }

    /// Runs one critical section and returns the result of `event`.
    #[inline]
    fn enter<T>(&self, env: &mut impl Env, event: impl FnOnce(&mut State<R, L>) -> T) -> T {
        env.charge(Op::Pool);
        env.charge(Op::Write(Word::Available));
        let mut state = self.state.0.lock();
        let before = state.available;
        let answer = event(&mut state);
        let after = state.available;
        self.available.0.store(after, Ordering::SeqCst);
        drop(state);
        total_order();
        if after > before {
            ask_for::<R>(after - before, env);
        }
        answer
    }
}

/// Requests wake-ups because `more` tasks are available than before.
fn ask_for<R: Rule>(more: usize, env: &mut impl Env) {
    match R::ONLY {
        // It is awake if it is the one that makes this call.
        Some(only) if only == env.me() => {}
        Some(only) => env.wake(Wake::This(only)),
        None => {
            let (me, active) = (env.me(), env.active());
            let others = usize::from(active) - usize::from(me.is_worker() && me.0 < active);
            (0..more.min(others)).for_each(|_| env.wake(Wake::Anyone));
        }
    }
}

/// Returns the worker on which a task becomes ready during this call.
#[inline]
fn place(env: &impl Env) -> Option<WorkerId> {
    let me = env.me();
    me.is_worker().then_some(me)
}

impl<R: Rule, L: Recorder> Dispatcher for Central<R, L> {
    /// Room for the hints of released tasks: they are read before the lock is taken, since reading them may miss the cache.
    type Local = Vec<(Ready, Hints)>;

    const READS_GROUPS: bool = R::READS.groups();
    const NEEDS_PREPARED: bool = R::NEEDS_PREPARED;

    const INJECTS_AT_ONCE: bool = true;

    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>) {
        let state = State {
            rule: R::build(site),
            age: 0,
            available: 0,
            recorder: L::default(),
        };
        let shared = Central {
            state: Padded(Mutex::new(state)),
            available: Padded(AtomicUsize::new(0)),
        };
        (shared, site.placement.ids().map(|_| Vec::new()).collect())
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let (on, hints) = (place(env), R::READS.of(env, &task));
        self.enter(env, |state| state.ready(task, on, hints));
    }

    fn inject_all<E: Env>(&self, env: &mut E, tasks: &mut Vec<Ready>) {
        let on = place(env);
        while !tasks.is_empty() {
            // Some at a time, so that their hints need no allocation.
            let mut hints = [Hints::default(); 32];
            let some = tasks.len().min(hints.len());
            for (hints, task) in hints.iter_mut().zip(&*tasks) {
                *hints = R::READS.of(env, task);
            }
            self.enter(env, |state| {
                let tasks = tasks.drain(..some).zip(hints);
                tasks.for_each(|(task, hints)| state.ready(task, on, hints));
            });
        }
    }

    #[inline]
    fn ready<E: Env>(&self, _local: &mut Self::Local, env: &mut E, task: Ready) {
        self.inject(env, task);
    }

    #[inline]
    fn next<E: Env>(&self, _local: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        if R::ONLY.is_none_or(|only| only == me) {
            env.charge(Op::Read(Word::Available));
        }
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
            let hints = R::READS.of(env, &task);
            (task, hints)
        }));
        let (me, on) = (env.me(), place(env));
        let task = self.enter(env, |state| {
            local
                .drain(..)
                .for_each(|(task, hints)| state.ready(task, on, hints));
            state.next(me)
        });
        task.map(|task| (task, Origin::Pool))
    }

    fn may_have(&self, worker: WorkerId) -> bool {
        !self.nothing_for(worker)
    }
}
