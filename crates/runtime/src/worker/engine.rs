//! The worker loop.

use super::env::{NativeEnv, Wakes};
use super::gaps::{ExactTimer, Gaps, Pastime};
use super::sleep::Woke;
use super::{Engine, Stack, WorkerCore};
use crate::executable::{self, Ran, Runnable};
use crate::governor::Meter;
use crate::graph::GraphCore;
use crate::observer::{Observer, WorkerObserver};
use crate::pool::PoolShared;
use crate::process;
use crate::team::Part;
use crate::thread::deadlock;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanada_policy::{Choice, Dispatcher, Origin, Ready, WorkerId};

/// The rounds that an idle worker searches before it sleeps. With their pauses they take about ten microseconds, twice the cost of waking
/// a thread. A worker of a pool with more workers than hardware threads gives up its processor in each of them: a worker that has something
/// to do may need it. (With half as many rounds there, programs that walk folders took 6 to 8% longer. Beside other programs each of them
/// may cost a time slice.)
const SEARCH_ROUNDS: u32 = 32;

/// The pauses (`spin_loop`) at the end of each round.
const SEARCH_PAUSES: u32 = 8;

/// The rounds of a worker that expects to sleep for long.
const SHORT_SEARCH_ROUNDS: u32 = 2;

/// How long a worker sleeps whose scheduler of threads finds nothing although threads are queued: it may find something at any time.
const NAP: Duration = Duration::from_millis(1);

/// The shortest sleep that counts as long: several times the cost of waking a thread.
const LONG_SLEEP: Duration = Duration::from_micros(40);

/// What one thread of a pool holds.
pub(crate) struct Worker<D: Dispatcher, O: Observer, M: Meter> {
    core: WorkerCore,
    dispatcher: Arc<D>,
    policy: RefCell<PolicyState<D::Local>>,
    observer: RefCell<O::Worker>,
    meter: M,
    /// Whether the worker's last sleep was long.
    slept_long: Cell<bool>,
    gaps: Gaps,
}

/// Tasks that were registered in one graph.
struct Of(*const GraphCore);

impl Choice for Of {
    fn might_take(&self, _digest: u16) -> bool {
        true
    }

    fn takes(&self, task: &Ready) -> bool {
        std::ptr::eq(executable::graph_of(task), self.0)
    }
}

/// What a search has come to.
enum Looked {
    /// A task.
    Found(Ready, Origin),
    /// Something else, which the worker has run, or a call for it.
    Ran,
    InVain,
}

/// What each call of the policy may change in its worker.
struct PolicyState<L> {
    local: L,
    draws: u64,
    wakes: Wakes,
}

impl<D: Dispatcher, O: Observer, M: Meter> Worker<D, O, M> {
    /// Returns worker `id` of `pool`, of this thread, whose stack is `stack`. Its core is made in its place: a copy of it would take a page
    /// more of the stack.
    #[inline]
    pub(crate) fn new(
        id: WorkerId,
        pool: Arc<PoolShared>,
        stack: Stack,
        dispatcher: Arc<D>,
        local: D::Local,
        observer: O::Worker,
        meter: M,
    ) -> Self {
        let takes_turns = pool.takes_turns();
        let chains = D::HANDS_ON && !M::GOVERNS && pool.schedule.is_none();
        Worker {
            core: WorkerCore::new(id, pool, stack, chains),
            dispatcher,
            policy: RefCell::new(PolicyState {
                local,
                draws: 0,
                wakes: Wakes::default(),
            }),
            observer: RefCell::new(observer),
            meter,
            slept_long: Cell::new(takes_turns),
            gaps: Gaps::default(),
        }
    }

    /// Runs tasks until the pool closes.
    pub(crate) fn work(&self) {
        // SAFETY: undone before this function returns, which does not unwind.
        let mut is_counted = unsafe { self.enter() };
        EndOnPanic::around(|| {
            // What the handler makes runs, also if the pool's last handle is dropped meanwhile.
            let stays = self.core.pool.try_keep(1);
            self.core.pool.hook(self.core.id, |hooks| &hooks.start);
            if stays {
                self.core.pool.let_go();
            }
            while let Some((mut task, mut origin)) = self.search(std::mem::take(&mut is_counted)) {
                loop {
                    self.execute_observed(task, origin);
                    if M::GOVERNS && !self.is_active() {
                        self.core.graph.held.settle(&self.core);
                        self.hand_over();
                        break;
                    }
                    let mut next = self.turn();
                    if next.is_none() && self.core.graph.held.is_some() {
                        self.core.graph.held.settle(&self.core);
                        next = self.turn();
                    }
                    // Without a next task, the search comes to all that may disturb.
                    let Some(next) = next else { break };
                    (task, origin) = next;
                    if self.core.pool.is_disturbed() {
                        task = self.disturbed(task);
                    }
                }
                if O::Worker::WATCHES {
                    self.observer.borrow_mut().idle();
                }
                self.core.end_if_forked();
            }
        });
        self.core
            .pool
            .calls
            .close(self.core.id.index())
            .into_iter()
            .for_each(Part::abandon);
        // What waits in the exit handler has no loop around it that would go on with a thread.
        self.core.pool.threads.has_no_loop(&self.core);
        EndOnPanic::around(|| self.core.pool.hook(self.core.id, |hooks| &hooks.exit));
        // SAFETY: the thread is no worker any more.
        unsafe { super::enter(None) };
        self.core.engine.set(None);
    }

    /// Makes this thread the worker for good, without the loop: it runs something only while it waits. The worker is never freed.
    pub(crate) fn adopt(self) {
        let worker = Box::leak(Box::new(self));
        worker.core.pool.threads.adopt(&worker.core);
        // SAFETY: the worker lives for ever, on this thread.
        unsafe { worker.enter() };
    }

    /// Makes this thread the worker. Returns whether it counts as searching, since another thread has started this one when there was
    /// something for it.
    ///
    /// # Safety
    /// Before the worker is gone, its `engine` is cleared and `super::enter(None)` called on this thread.
    unsafe fn enter(&self) -> bool {
        let engine: NonNull<dyn Engine + '_> = NonNull::from(self);
        // SAFETY: only the lifetime changes. The pointer is followed by `WorkerCore::engine` only, which calls from tasks reach, and
        // closures of `with_current` on this thread. It is cleared before the worker is gone (caller).
        let engine = unsafe {
            std::mem::transmute::<NonNull<dyn Engine + '_>, NonNull<dyn Engine + 'static>>(engine)
        };
        let (pool, me) = (&self.core.pool, self.core.id.index());
        let is_counted = pool.sleep.enter(me);
        pool.forks.demand.waits.enter(me);
        self.core.engine.set(Some(engine));
        // SAFETY: as the caller promises.
        unsafe { super::enter(Some(NonNull::from(&self.core))) };
        is_counted
    }

    /// Returns whether this worker may take tasks.
    #[inline]
    fn is_active(&self) -> bool {
        self.core.pool.sleep.is_active(self.core.id.index())
    }

    /// What may happen between two tasks: a fork in the last call of the policy, a call for this worker, or the turn of another one. It
    /// answers with its next task in its hands: to give that back would change the policy's order.
    #[cold]
    fn disturbed(&self, next: Ready) -> Ready {
        self.core.end_if_forked();
        if self.core.is_called() {
            if O::Worker::WATCHES {
                self.observer.borrow_mut().idle();
                self.core.end_if_forked();
            }
            self.meter.ran_out();
            self.core.answer();
            self.meter.found();
        }
        if let Some(schedule) = &self.core.pool.schedule {
            schedule.between(self.core.id, &next);
        }
        next
    }

    /// Hands the released tasks to the policy and returns the next task, in one call. The caller looks whether the process has forked.
    #[inline]
    fn turn(&self) -> Option<(Ready, Origin)> {
        self.ask_unchecked(|dispatcher, local, env| {
            let mut released = self.core.released.borrow_mut();
            // Such a policy runs the last of these tasks first. After the reversal, that is the first declared one.
            if D::NEWEST_FIRST && released.len() > 1 {
                released.reverse();
            }
            dispatcher.turn(local, env, &mut released)
        })
    }

    /// Returns the next task for this idle worker, which may sleep meanwhile; `None` once the pool closes. `is_counted`: whether the worker
    /// counts as searching already.
    fn search(&self, is_counted: bool) -> Option<(Ready, Origin)> {
        if !is_counted {
            self.core.pool.sleep.begin_search(self.core.id.index());
        }
        loop {
            if self.core.is_called() {
                self.meter.ran_out();
                self.answer();
            }
            let woke = if M::GOVERNS && !self.is_active() {
                self.wait_to_be_active()
            } else {
                match self.look_around() {
                    Looked::Found(task, origin) => return Some((task, origin)),
                    Looked::Ran => continue,
                    Looked::InVain => {
                        self.gaps.gave_up();
                        self.wait_for_work()
                    }
                }
            };
            if woke == Woke::Close {
                // They run closures for what still waits in a closed pool: on an adopted thread, or in an exit handler.
                if !self.core.has_carriers() {
                    return None;
                }
                std::thread::yield_now();
            }
        }
    }

    /// Looks for something to run until the rounds of a search are over, and runs what is no task.
    #[inline]
    fn look_around(&self) -> Looked {
        let (pool, me) = (&self.core.pool, self.core.id);
        let until = self.gaps.until();
        let is_over = |round| {
            round >= self.search_rounds() && until.is_none_or(|until| Instant::now() >= until)
        };
        for round in (0..).take_while(|&round| !is_over(round)) {
            if let Some(schedule) = &pool.schedule {
                schedule.searches();
            }
            if let Some(found) = self.ask(|dispatcher, local, env| dispatcher.next(local, env)) {
                if let Some(schedule) = &pool.schedule {
                    schedule.starts(me, &found.0);
                }
                pool.sleep.end_search(me.index());
                pool.pass_forks_on();
                self.found();
                return Looked::Found(found.0, found.1);
            }
            if let Some(job) = self.core.search_job() {
                self.run_aside(|core| core.run_found(job, || !core.is_called()));
                return Looked::Ran;
            }
            if let Some(thread) = self.core.find_thread() {
                self.run_aside(|core| core.run_threads(thread));
                return Looked::Ran;
            }
            self.meter.ran_out();
            if round % SEARCH_ROUNDS == 0 {
                pool.forks.demand.request(me.index());
            }
            // Once in eight rounds, another thread may run on this hardware thread: it may have the task that is searched for.
            if round % 8 == 7 || pool.is_oversubscribed() {
                std::thread::yield_now();
            }
            self.core.pause(SEARCH_PAUSES, || false);
            if self.core.is_called() {
                return Looked::Ran;
            }
        }
        Looked::InVain
    }

    /// Runs the threads of this worker, which the governor has parked, or sleeps until it is active again or called.
    fn wait_to_be_active(&self) -> Woke {
        let (pool, me) = (&self.core.pool, self.core.id);
        self.meter.ran_out();
        self.gaps.forget();
        // Tied threads that have started here run nowhere else.
        if let Some(thread) = self.core.own_thread() {
            self.run_aside(|core| core.run_threads(thread));
            return Woke::Search;
        }
        self.core.settle_threads();
        let woke = pool.sleep.park(me.index(), || {
            self.core.is_called() || pool.threads.has_mail(me.index())
        });
        self.core.end_if_forked();
        woke
    }

    /// Sleeps until there may be something for this worker, which has found nothing.
    fn wait_for_work(&self) -> Woke {
        let (pool, me) = (&self.core.pool, self.core.id);
        self.core.settle_threads();
        if self.core.leaves_threads_to_others() {
            self.gaps.forget();
            let mut found = None;
            // The scheduler is asked once more when others know that this worker may sleep: they wake it for what comes afterwards.
            let woke = pool.sleep.nap(me.index(), NAP, || {
                let may_have = self.dispatcher.may_have(me)
                    || pool.forks.may_have(me.index())
                    || self.core.is_called();
                self.core.end_if_forked();
                found = (!may_have).then(|| self.core.find_thread()).flatten();
                may_have || found.is_some()
            });
            let Some(thread) = found else { return woke };
            self.run_aside(|core| core.run_threads(thread));
            return Woke::Search;
        }
        deadlock::suspect();
        let may_have = || {
            // The announcement comes first, so that no limit stays above 0 while this worker sleeps.
            pool.forks.demand.request(me.index());
            let may_have = self.dispatcher.may_have(me);
            self.core.end_if_forked();
            may_have
                || pool.forks.may_have(me.index())
                || self.core.may_have_threads()
                || self.core.is_called()
        };
        // In a schedule, time decides nothing. And a worker that searches is in the way of whatever wants its hardware thread: a worker for
        // which there is no other, or the thread that will have something to do for it.
        let may_expect = pool.schedule.is_none()
            && !pool.is_oversubscribed()
            && !pool.sleep.is_where_woken(me.index());
        let pastime = self.gaps.begin(may_expect);
        #[cfg(test)]
        if pastime != Pastime::Sleep {
            super::gaps::EXPECTED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let woke = match pastime {
            Pastime::Sleep => pool.sleep.doze(me.index(), may_have),
            Pastime::Nap(time) => {
                let _exact = ExactTimer::of_this_thread();
                pool.sleep.nap(me.index(), time, may_have)
            }
            Pastime::Search => Woke::Search,
        };
        let slept_long = self.gaps.woke() >= LONG_SLEEP;
        self.slept_long.set(slept_long || pool.takes_turns());
        woke
    }

    /// The search has come to something.
    #[inline]
    fn found(&self) {
        self.meter.found();
        self.gaps.found();
    }

    /// Runs the parts of calls that wait for this searching worker. Meanwhile it counts as busy, so that others look for tasks.
    #[cold]
    fn answer(&self) {
        let (sleep, me) = (&self.core.pool.sleep, self.core.id.index());
        sleep.end_search(me);
        self.gaps.found();
        let rest = self.core.answer();
        sleep.begin_search(me);
        self.slept_long.set(self.slept_long.get() || rest);
    }

    /// Runs something else than a task on this searching worker. Others are woken if they may have relied on it.
    fn run_aside(&self, run: impl FnOnce(&WorkerCore)) {
        let (pool, me) = (&self.core.pool, self.core.id);
        let left = || {
            self.dispatcher.may_have(me) || pool.forks.has_jobs() || self.core.may_have_threads()
        };
        pool.forks
            .demand
            .leave(&pool.sleep, me.index(), &pool.sleep, left);
        self.found();
        run(&self.core);
        pool.sleep.begin_search(me.index());
    }

    /// Counts a task that has ended, and calls the governor if that is due.
    #[inline]
    fn count(&self) {
        if M::GOVERNS
            && let Some(now) = self.meter.ended()
        {
            self.core.pool.govern(now);
        }
    }

    /// Returns how many rounds the worker searches before it sleeps: few if its last sleep was long, because then the next sleep is
    /// probably long, too. After a short sleep the worker searches for all rounds again.
    fn search_rounds(&self) -> u32 {
        match self.slept_long.get() {
            true => SHORT_SEARCH_ROUNDS,
            false => SEARCH_ROUNDS,
        }
    }

    /// Calls the policy, then delivers the wake-ups that it asked for, and returns the result of `call`.
    #[inline]
    fn ask<R>(&self, call: impl FnOnce(&D, &mut D::Local, &mut NativeEnv<'_>) -> R) -> R {
        self.ask_unchecked(|dispatcher, local, env| {
            let answer = call(dispatcher, local, env);
            self.core.end_if_forked();
            answer
        })
    }

    /// As [`Worker::ask`], but goes on in a child that was forked in the policy.
    #[inline]
    fn ask_unchecked<R>(&self, call: impl FnOnce(&D, &mut D::Local, &mut NativeEnv<'_>) -> R) -> R {
        EndOnPanic::around(|| {
            let policy = &mut *self.policy.borrow_mut();
            let mut env = NativeEnv {
                me: self.core.id,
                pool: &self.core.pool,
                draws: &mut policy.draws,
                wakes: &mut policy.wakes,
            };
            let answer = call(&self.dispatcher, &mut policy.local, &mut env);
            policy.wakes.deliver(&self.core.pool);
            answer
        })
    }
}

impl<D: Dispatcher, O: Observer, M: Meter> Engine for Worker<D, O, M> {
    fn hand_to_policy(&self, task: Ready) {
        self.ask(|dispatcher, local, env| dispatcher.ready(local, env, task));
    }

    #[cold]
    fn hand_over(&self) {
        self.ask(|dispatcher, local, env| {
            let mut released = self.core.released.borrow_mut();
            if D::NEWEST_FIRST {
                released.reverse();
            }
            for task in released.drain(..) {
                dispatcher.ready(local, env, task);
            }
        });
    }

    fn may_have_tasks(&self) -> bool {
        M::GOVERNS || EndOnPanic::around(|| self.dispatcher.may_have(self.core.id))
    }

    fn run_one_of(&self, graph: *const GraphCore) -> bool {
        if M::GOVERNS && !self.is_active() {
            return false;
        }
        let mut refused = Vec::new();
        let (next, others) = self.ask(|dispatcher, local, env| {
            let next = dispatcher.next_of(local, env, &Of(graph), &mut refused);
            let others = !refused.is_empty();
            for task in refused.drain(..) {
                dispatcher.ready(local, env, task);
            }
            (next, others)
        });
        let Some((task, origin)) = next else {
            return false;
        };
        if let Some(schedule) = &self.core.pool.schedule {
            schedule.between(self.core.id, &task);
        }
        self.execute_observed(task, origin);
        if !self.core.released.borrow().is_empty() {
            self.hand_over();
        }
        !others
    }

    #[inline]
    fn execute_observed(&self, task: Ready, origin: Origin) {
        let task = Runnable::new(task);
        if !(O::Worker::WATCHES && task.is_observed()) {
            task.run_and_finish(&self.core);
            return self.count();
        }
        // The task that waits for a nested graph would catch a panic of the observer. Each call has a view of its own, of which nothing is
        // made that it does not read.
        EndOnPanic::around(|| self.observer.borrow_mut().start(&task.view(), origin));
        self.core.end_if_forked();
        let task = match self.core.chains {
            true => task.run_chain(&self.core),
            false => Some(task),
        };
        if let Some(task) = task {
            let ran = task.run_body(&self.core);
            self.tell_end(&ran);
            ran.finish(&self.core);
        }
        self.count();
    }

    #[inline]
    fn tell_start(&self, task: &Runnable) {
        EndOnPanic::around(|| {
            let observer = &mut *self.observer.borrow_mut();
            observer.start(&task.view(), Origin::Handed);
        });
        self.core.end_if_forked();
    }

    #[inline]
    fn tell_end(&self, task: &Ran) {
        EndOnPanic::around(|| self.observer.borrow_mut().end(&task.view()));
        self.core.end_if_forked();
    }
}

/// Ends the process if a call panics that must not be unwound past:
/// - of a policy, a scheduler, an observer or a governor: tasks and threads in their hands are lost, and neither the task in which the call
///   was made nor a thread that waits for a graph may catch the panic;
/// - from the start of a graph to the end of its wait: its tasks may borrow from the stack that would be unwound;
/// - of a worker's loop: no worker would run its tasks.
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
    process::report(format_args!(
        "a policy, a scheduler of threads, an observer, a governor or the engine panicked (see above); the process cannot go on"
    ));
    std::process::abort();
}
