//! What a pool and what each of its workers keep for the fork layer.

use super::demand::{Demand, ENOUGH};
use super::job::Fifo;
use super::reach::{Base, Reach};
use super::record::{Lane, PoolRecord};
use super::share::{ShareLocal, Sharing};
use super::wait::Jobs;
use crate::list::list;
use crate::pool::PoolShared;
use crate::thread::Scheduler;
use crate::worker::{self, EndOnPanic, WorkerCore};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use tanada_policy::forks::NearFirst;
use tanada_policy::{Fork, ForkPolicy, Hints, Keep, Origin, Placement, Thief, WorkerId, draw};
use tanada_queues::{Injector, Mailbox, Owner, Ready, Steal, Stealer, deque};

/// Forks that a worker keeps after one that it kept because another worker was hungry, as long as less than `ENOUGH` lie in its deque: the
/// other one will be back soon.
const CREDIT: u32 = 8;

/// Jobs that a thief takes at once, at most.
const CATCH: u32 = 32;

/// A thief that takes so many jobs at once leaves deques alone in which less than `PILE` lie, until it has searched `PATIENCE` times.
const CATCH_OF_PILES: u32 = 8;

/// Jobs in a deque that are worth a steal, if they are small.
const PILE: usize = 8;

/// Searches in vain after which a thief takes a single small job as well: some microseconds.
const PATIENCE: u32 = 16;

/// A time in microseconds: a thief takes twice as many jobs as before if those of the last time took less, half as many if they took more
/// than four times as long. (With 4, a thief that takes half of a loop of 7 us takes several jobs next time, and waits for a pile that such
/// a loop never makes.)
const QUICK: u64 = 2;

/// What is called with the panic of a spawned closure.
type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// What is called on each worker, with its number.
type WorkerHandler = dyn Fn(usize) + Send + Sync;

/// What a program wants to be called at certain moments of a pool's life.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) panic: Option<Arc<PanicHandler>>,
    pub(crate) start: Option<Arc<WorkerHandler>>,
    pub(crate) exit: Option<Arc<WorkerHandler>>,
    pub(crate) threads: Option<Arc<dyn Scheduler>>,
}

// A pool calls them under `catch_unwind` anyway, whatever they have left half changed.
impl UnwindSafe for Hooks {}
impl RefUnwindSafe for Hooks {}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("panic", &self.panic.is_some())
            .field("start", &self.start.is_some())
            .field("exit", &self.exit.is_some())
            .finish()
    }
}

/// What all threads of a pool share for the fork layer.
pub(crate) struct ForkShared {
    pub(crate) demand: Demand,
    pub(super) seats: Vec<Seat>,
    /// Jobs from threads outside of the pool.
    injected: Injector,
    /// Locked while a broadcast is posted, so that all workers get the parts of several broadcasts in one order.
    posting: Mutex<()>,
    /// Handles (one for all), jobs and threads that keep the pool open.
    keep: AtomicUsize,
    /// A reference to the pool for each time that `keep` is above 0: what keeps the pool open may look at it although no worker is left.
    kept: Mutex<Vec<Arc<PoolShared>>>,
    pub(crate) hooks: Hooks,
    /// What its forks are measured by.
    pub(crate) record: Option<PoolRecord>,
    policy: &'static dyn ForkPolicy,
    /// Whether the policy decides what becomes of each fork.
    decides: bool,
    /// How forks divide the workers, if the policy wants that.
    pub(super) sharing: Option<Sharing>,
    /// The owners' sides of the deques, until the workers take them.
    owners: Mutex<Vec<Option<Owner>>>,
}

/// What one worker lets others reach.
pub(super) struct Seat {
    deque: Stealer,
    /// Parts of broadcasts.
    mail: Mailbox,
}

/// What one worker alone touches.
pub(crate) struct ForkLocal {
    pub(super) deque: RefCell<Owner>,
    /// Of closures that are spawned to run in order, once there are any.
    fifo: OnceCell<Arc<Fifo>>,
    /// How many forks are kept although nobody is hungry any more.
    credit: Cell<u32>,
    pub(crate) reach: Reach,
    /// Where among equally far victims the next search begins.
    start: Cell<usize>,
    /// Where the job came from that the worker has found last.
    pub(super) origin: Cell<Origin>,
    /// How many jobs the worker takes from a victim at once.
    catch: Cell<u32>,
    /// Searches in vain since the last catch.
    vain: Cell<u32>,
    /// How many of the last catch lie in the worker's own deque.
    caught: Cell<u32>,
    /// What the worker's forks are measured by.
    pub(crate) lane: Option<Arc<Lane>>,
    /// Whether a `join` may be plain.
    may_be_plain: bool,
    /// Whether the policy decides what becomes of each fork.
    decides: bool,
    /// Whether each slice of a lightweight thread matters: to a profile, or to a policy that decides by the depth of forks.
    pub(crate) sees_slices: bool,
    /// The depth of the closure that runs in the tree of forks, if the policy decides.
    depth: Cell<u32>,
    /// Random numbers drawn for the policy so far.
    draws: Cell<u64>,
    pub(super) share: ShareLocal,
    /// Whether more is kept of a fork than its closures ([`watch`](super::watch)).
    pub(super) watches: bool,
}

impl ForkShared {
    #[inline]
    pub(crate) fn new(
        placement: &Placement,
        hooks: Hooks,
        record: Option<PoolRecord>,
        policy: Option<&'static dyn ForkPolicy>,
    ) -> Self {
        /// Returns whether `policy` decides and whether it divides. Of the default this is known when the program is compiled, and its
        /// code, which lies on another page, is not called before there is something to steal.
        fn traits(policy: &(impl ForkPolicy + ?Sized)) -> (bool, bool) {
            (policy.decides(), policy.divides())
        }
        let (decides, divides) = policy.map_or_else(|| traits(&NearFirst), traits);
        let workers = usize::from(placement.workers());
        let mut owners = Vec::with_capacity(workers);
        let seats = list(workers, |_| {
            let (owner, deque) = deque();
            owners.push(Some(owner));
            let mail = Mailbox::new();
            Seat { deque, mail }
        });
        ForkShared {
            demand: Demand::new(workers),
            seats,
            injected: Injector::new(),
            posting: Mutex::default(),
            keep: AtomicUsize::new(0),
            // With the place that each pool needs: a list grows by code elsewhere in the program.
            kept: Mutex::new(Vec::with_capacity(1)),
            hooks,
            record,
            sharing: (divides && placement.workers() > 1)
                .then(|| Sharing::new(placement.workers())),
            policy: policy.unwrap_or(&NearFirst),
            decides,
            owners: Mutex::new(owners),
        }
    }

    /// Returns what worker `me`, which is made now, alone touches. `timed`: time may change what it does.
    #[inline]
    pub(crate) fn local(&self, me: WorkerId, timed: bool) -> ForkLocal {
        let owner = self.owners.lock()[me.index()].take();
        ForkLocal {
            deque: RefCell::new(owner.expect("each worker is made once")),
            fifo: OnceCell::new(),
            credit: Cell::new(0),
            reach: Reach::new(timed),
            start: Cell::new(me.index()),
            origin: Cell::new(Origin::Own),
            catch: Cell::new(1),
            vain: Cell::new(0),
            caught: Cell::new(0),
            lane: self.record.as_ref().map(|record| record.lane(me)),
            may_be_plain: !self.decides
                && (self.record.as_ref()).is_none_or(|record| record.recorder.allows_plain()),
            decides: self.decides,
            sees_slices: self.record.is_some() || self.decides,
            depth: Cell::new(0),
            draws: Cell::new(0),
            share: ShareLocal::default(),
            watches: self.record.is_some() || self.sharing.is_some(),
        }
    }

    /// Returns whether the program or a policy sees when the threads of workers start.
    pub(crate) fn sees_starts(&self) -> bool {
        let hooks = &self.hooks;
        hooks.start.is_some()
            || hooks.exit.is_some()
            || hooks.threads.is_some()
            || self.record.is_some()
            || self.sharing.is_some()
    }

    /// Returns whether worker `me` might find a job.
    pub(crate) fn may_have(&self, me: usize) -> bool {
        self.has_mail(me) || self.has_jobs()
    }

    /// Returns whether a job from outside lies there.
    pub(super) fn has_injected(&self) -> bool {
        !self.injected.is_empty()
    }

    /// Returns whether some worker might find a job.
    pub(crate) fn has_jobs(&self) -> bool {
        self.has_injected()
            || self.seats.iter().any(|seat| !seat.deque.is_empty())
            || self.sharing.as_ref().is_some_and(Sharing::has_mail)
    }

    /// Returns whether parts of broadcasts wait for worker `me`.
    #[inline]
    pub(crate) fn has_mail(&self, me: usize) -> bool {
        !self.seats[me].mail.is_empty()
    }
}

impl ForkLocal {
    /// A closure of the depth runs from now on. Returns the depth before.
    pub(crate) fn change_depth(&self, depth: u32) -> u32 {
        self.depth.replace(depth)
    }

    /// Returns the queue of closures that are spawned to run in order.
    pub(super) fn fifo(&self) -> &Fifo {
        self.fifo.get_or_init(Fifo::new)
    }
}

impl PoolShared {
    /// Keeps the pool open until [`PoolShared::let_go`] has been called `times` times more. Does nothing, and returns false, if the pool
    /// has closed.
    pub(crate) fn try_keep(&self, times: usize) -> bool {
        let more = |kept: usize| (kept > 0).then(|| kept + times);
        (self.forks.keep)
            .fetch_update(Relaxed, Relaxed, more)
            .is_ok()
    }

    /// As [`PoolShared::try_keep`]. A pool that has closed does not open again: it stays in memory, and may never run what keeps it.
    pub(crate) fn keep(&self, times: usize) {
        if self.try_keep(times) {
            return;
        }
        // First: what lets go takes one for each time that it leaves 0.
        self.forks.kept.lock().push(self.shared());
        if self.forks.keep.fetch_add(times, Relaxed) > 0 {
            // Another thread was faster.
            let more = self.forks.kept.lock().pop();
            drop(more);
        }
    }

    /// A handle, a job or a thread does not need the pool any more. The last one closes it. The caller has a reference to the pool.
    pub(crate) fn let_go(&self) {
        self.let_go_of(1);
    }

    /// As `times` calls of [`PoolShared::let_go`].
    pub(crate) fn let_go_of(&self, times: usize) {
        if self.forks.keep.fetch_sub(times, AcqRel) == times {
            match self.has_threads_to_join() {
                true => self.sleep.close(),
                false => self.sleep.close_in_turn(),
            }
            let kept = self.forks.kept.lock().pop();
            drop(kept);
        }
    }

    /// Hands a job to the pool from outside of its workers.
    pub(crate) fn inject_job(&self, job: Ready) {
        self.forks.injected.push(job);
        // Trees begin on the first worker under a policy that divides, unless it has something else to do.
        if self.forks.sharing.is_none() || !self.wake_if_asleep(0) {
            self.forks.demand.announce(&self.sleep);
        }
    }

    /// A worker stops searching because it has found a task: wakes one of those that take jobs only, if there is a job whose maker may have
    /// relied on that worker.
    #[inline]
    pub(crate) fn pass_forks_on(&self) {
        let left = || self.forks.has_jobs() || self.threads.has_any();
        if self.forks.demand.waits.is_anyone_idle() && left() {
            self.forks.demand.announce(&self.sleep);
        }
    }

    /// This thread has woken a worker, or tried to: if it came too late, and counted as searching for a moment, another thread may have
    /// handed a job or a lightweight thread to the pool meanwhile, and woken nobody.
    #[inline]
    pub(crate) fn make_up_for_late(&self) {
        // One does not answer for the other.
        let late = self.sleep.takes_late() | self.forks.demand.waits.takes_late();
        if late && (self.forks.has_jobs() || self.threads.has_any()) {
            self.announce_thread();
        }
    }

    /// Hands a job to the pool, on `worker` if this thread is one of its workers.
    #[inline]
    pub(crate) fn give_job(&self, worker: Option<&WorkerCore>, job: Ready) {
        match worker {
            Some(worker) => {
                let job = worker.tagged(job);
                worker.forks.deque.borrow_mut().push(job);
                self.forks.demand.announce(&self.sleep);
            }
            None => self.inject_job(job),
        }
    }

    /// Hands one of `jobs` to each worker.
    pub(crate) fn post_jobs(&self, jobs: impl Iterator<Item = Ready>) {
        {
            let _posting = self.forks.posting.lock();
            for (seat, job) in self.forks.seats.iter().zip(jobs) {
                seat.mail.push(job);
            }
        }
        for whom in 0..self.forks.seats.len() {
            self.rouse(whom);
        }
    }

    /// Wakes worker `whom` if it sleeps. Returns whether it did.
    pub(crate) fn wake_if_asleep(&self, whom: usize) -> bool {
        self.forks.demand.waits.wake_if_asleep(whom) || self.sleep.wake_if_asleep(whom)
    }

    /// Wakes worker `whom`, whatever it waits for, because there is something that it alone can do.
    pub(crate) fn rouse(&self, whom: usize) {
        if !self.forks.demand.waits.wake_if_asleep(whom) {
            self.sleep.call(whom);
        }
        self.make_up_for_late();
    }

    /// Calls `spawned`. A panic goes to the pool's handler, or ends the process.
    pub(crate) fn catch(&self, spawned: impl FnOnce()) {
        let what = || String::from("a spawned closure, or a handler of the pool, panicked");
        self.catch_of(what, spawned);
    }

    /// As [`PoolShared::catch`], of any call. `what` returns what a message says of a panic.
    pub(crate) fn catch_of(&self, what: impl FnOnce() -> String, call: impl FnOnce()) {
        let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
            return;
        };
        match &self.forks.hooks.panic {
            Some(handler) if catch_unwind(AssertUnwindSafe(|| handler(payload))).is_ok() => {}
            Some(_) => end_the_process("the pool's handler of panics panicked"),
            None => end_the_process(&what()),
        }
    }
}

#[cold]
fn end_the_process(what: &str) -> ! {
    crate::process::report(format_args!(
        "{what} (see above), and nothing waits for it; the process cannot go on"
    ));
    std::process::abort();
}

impl WorkerCore {
    /// Puts the second closure of a fork where thieves reach it.
    #[inline]
    pub(crate) fn push_fork(&self, fork: Ready) {
        self.forks.deque.borrow_mut().push(self.tagged(fork));
        let pool = self.pool();
        pool.forks.demand.announce(&pool.sleep);
    }

    /// As [`WorkerCore::push_fork`], of a fork made at the stack address `sp`. If it is the base from now on, returns the one before for
    /// [`WorkerCore::end_base`].
    #[inline]
    pub(crate) fn push_base(&self, fork: Ready, sp: usize) -> Option<Base> {
        let mut deque = self.forks.deque.borrow_mut();
        deque.push(self.tagged(fork));
        let pool = self.pool();
        let (demand, credit) = (&pool.forks.demand, &self.forks.credit);
        let is_hungry = demand.announce(&pool.sleep);
        if !self.forks.may_be_plain {
            return None;
        }
        let kept = deque.len();
        if is_hungry && demand.wants_more(|| kept, &pool.sleep) {
            credit.set(CREDIT);
            return None;
        }
        if credit.get() > 0 && kept < ENOUGH {
            credit.set(credit.get() - 1);
            return None;
        }
        credit.set(0);
        demand.set(self.id.index(), sp, kept, &self.forks.reach, &pool.sleep)
    }

    /// Returns whether a worker wants a part of what this one does, beside what lies in its deque; or whether a recorder or a policy wants
    /// to see each fork.
    #[inline]
    pub(super) fn shall_divide(&self) -> bool {
        let (pool, kept) = (self.pool(), || self.forks.deque.borrow().len());
        !self.forks.may_be_plain || pool.forks.demand.wants_more(kept, &pool.sleep)
    }

    /// The first closure of the base has returned.
    #[inline]
    pub(crate) fn end_base(&self, before: Base) {
        let (pool, reach) = (self.pool(), &self.forks.reach);
        let demand = &pool.forks.demand;
        let kept = || self.forks.deque.borrow().len();
        demand.clear(self.id.index(), before, kept, reach, &pool.sleep);
    }

    /// Calls `run`, which runs a job.
    #[inline]
    pub(crate) fn in_job(&self, run: impl FnOnce()) {
        let (demand, me) = (&self.pool().forks.demand, self.id.index());
        let before = demand.enter_job(me, &self.forks.reach);
        run();
        demand.leave_job(me, before, &self.forks.reach);
    }

    /// Takes and returns this worker's newest job.
    #[inline]
    pub(crate) fn pop_job(&self) -> Option<Ready> {
        self.forks.deque.borrow_mut().pop()
    }

    /// Returns whether this worker has jobs of its own that no other worker has taken.
    pub(crate) fn has_own_jobs(&self) -> bool {
        !self.forks.deque.borrow().is_empty()
    }

    /// Runs the parts of broadcasts that wait for this worker now, where it runs `jobs`.
    pub(crate) fn run_mail(&self, jobs: Jobs) {
        let mail = &self.pool().forks.seats[self.id.index()].mail;
        for _ in 0..mail.len() {
            let Some(part) = mail.pop() else { break };
            self.run_posted(jobs, |worker| {
                worker.forks.origin.set(Origin::Mailbox);
                worker.run_job(part);
            });
        }
    }

    /// Takes and returns a job for this worker, which is free to run any: its own newest, the oldest of the nearest other worker that has
    /// some, or the oldest from outside.
    pub(crate) fn find_job(&self) -> Option<Ready> {
        self.find_job_in(1)
    }

    /// As [`WorkerCore::find_job`], for a worker that will search again if this returns `None`: it may leave small jobs for a moment, until
    /// several lie together.
    pub(crate) fn search_job(&self) -> Option<Ready> {
        let local = &self.forks;
        let is_patient = local.catch.get() >= CATCH_OF_PILES && local.vain.get() < PATIENCE;
        let found = self.find_job_in(if is_patient { PILE } else { 1 });
        local.vain.set(match found {
            Some(_) => 0,
            None => local.vain.get().saturating_add(1),
        });
        found
    }

    /// As [`WorkerCore::find_job`], but leaves deques of others alone in which less than `pile` jobs lie.
    fn find_job_in(&self, pile: usize) -> Option<Ready> {
        self.forks.caught.set(0);
        if let Some(sharing) = &self.pool().forks.sharing {
            return self.find_shared(sharing);
        }
        self.pop_job()
            .or_else(|| self.steal_job(pile))
            .or_else(|| self.pop_injected())
    }

    pub(super) fn pop_injected(&self) -> Option<Ready> {
        let job = self.pool().forks.injected.pop()?;
        self.forks.origin.set(Origin::Pool);
        Some(job)
    }

    /// Takes and returns the oldest job of another worker. If the last catches were quick, takes the next ones, too, up to half of what
    /// the victim has, and returns the newest of them, for which the victim will wait first. The others lie in this worker's deque then,
    /// where any idle worker finds them: this one counts as searching until it has put them there. A steal costs both workers some tenths
    /// of a microsecond, which is more than the small jobs of an unbalanced recursion take.
    fn steal_job(&self, pile: usize) -> Option<Ready> {
        let seats = &self.pool().forks.seats;
        // Most searches find all deques empty, and the policy need not be asked in which order.
        if seats.iter().all(|seat| seat.deque.is_empty()) {
            self.steal_in_vain();
            return None;
        }
        let first = self.steal_from(|victim| {
            let seat = &seats[victim.index()];
            let is_worth_it = pile <= 1 || seat.deque.len() >= pile;
            is_worth_it.then(|| seat.steal_if(|_| true)).flatten()
        })?;
        let (catch, origin) = (self.forks.catch.get(), self.forks.origin.get());
        match origin {
            Origin::Stolen(victim) if catch > 1 => {
                Some(self.steal_more(first, &seats[victim.index()], catch - 1))
            }
            _ => Some(first),
        }
    }

    #[cold]
    fn steal_more(&self, first: Ready, victim: &Seat, more: u32) -> Ready {
        let more = (more as usize).min(victim.deque.len() / 2);
        let mut deque = self.forks.deque.borrow_mut();
        let (mut newest, mut caught) = (first, 0);
        while caught < more
            && let Steal::Taken(next) = victim.deque.steal()
        {
            deque.push(std::mem::replace(&mut newest, next));
            caught += 1;
        }
        self.forks.caught.set(caught as u32);
        newest
    }

    /// Runs `job`, which this worker has found, and what it has caught with it, as long as `goes_on` returns true. Those that are left lie
    /// in the worker's deque.
    pub(crate) fn run_found(&self, job: Ready, goes_on: impl Fn() -> bool) {
        let (caught, origin) = (self.forks.caught.take(), self.forks.origin.get());
        // A recording counts each steal.
        let is_catch = matches!(origin, Origin::Stolen(_)) && !self.forks.watches;
        let start = is_catch.then(|| self.forks.reach.now());
        self.run_job(job);
        for _ in 0..caught {
            if !goes_on() {
                return;
            }
            let Some(next) = self.pop_job() else { break };
            self.run_job(next);
        }
        if let Some(start) = start {
            let (catch, time) = (&self.forks.catch, self.forks.reach.micros_since(start));
            catch.set(match time {
                None => 1,
                Some(..QUICK) => (catch.get() * 2).min(CATCH),
                Some(time) if time < 4 * QUICK => catch.get(),
                Some(_) => (catch.get() / 2).max(1),
            });
        }
    }

    /// Calls `steal` with one victim after the other, as the policy says, until it returns a job. Returns the job.
    pub(super) fn steal_from(
        &self,
        mut steal: impl FnMut(WorkerId) -> Option<Ready>,
    ) -> Option<Ready> {
        let (pool, local) = (self.pool(), &self.forks);
        let mut found = None;
        let mut random = || {
            let calls = local.draws.get();
            local.draws.set(calls + 1);
            draw(pool.seed, self.id, calls)
        };
        let mut thief = Thief {
            me: self.id,
            placement: &pool.placement,
            looked: local.start.get() as u64,
            random: &mut random,
            peek: &mut |victim| pool.forks.seats[victim.index()].deque.peek(),
        };
        self.ask_fork_policy(|| {
            pool.forks.policy.steal(&mut thief, &mut |victim| {
                if found.is_some() {
                    return true;
                }
                found = steal(victim);
                local.origin.set(Origin::Stolen(victim));
                found.is_some()
            })
        });
        if found.is_none() {
            self.steal_in_vain();
        }
        found
    }

    /// Begins the next search at another victim: thieves that find nothing do not try the same ones in the same order for ever.
    fn steal_in_vain(&self) {
        let local = &self.forks;
        local.start.set(local.start.get().wrapping_add(1));
        local.origin.set(Origin::Own);
    }

    /// Returns what the pool's policy makes of a fork of which the program says `hints`; `None` if it leaves that to the engine.
    #[inline]
    pub(super) fn decide(&self, hints: &Hints) -> Option<Decided> {
        match self.forks.decides {
            true => Some(self.decided(hints)),
            false => None,
        }
    }

    /// Calls the pool's fork policy. It must not wait, as a scheduler of threads: on an untied thread, this worker would be another one
    /// afterwards.
    fn ask_fork_policy<R>(&self, call: impl FnOnce() -> R) -> R {
        let asking = &self.threads.asking;
        let before = asking.replace(true);
        let answer = EndOnPanic::around(call);
        asking.set(before);
        answer
    }

    #[cold]
    fn decided(&self, hints: &Hints) -> Decided {
        let depth = self.forks.depth.get().saturating_add(1);
        let pool = self.pool();
        let fork = Fork::new(hints.with_depth(depth), pool.placement.workers());
        let keep = self.ask_fork_policy(|| pool.forks.policy.keep(&fork));
        Decided {
            depth,
            plain: keep == Keep::Plain,
        }
    }

    /// A closure of a fork begins for which the policy has decided. It ends when the result is dropped.
    #[inline]
    pub(super) fn at_depth_of(&self, decided: Option<Decided>) -> Option<AtDepth> {
        decided.map(|decided| AtDepth {
            before: self.forks.change_depth(decided.depth),
        })
    }

    /// A job begins, at the root of a tree of forks unless it is one.
    #[inline]
    pub(super) fn at_root(&self) -> Option<AtDepth> {
        let before = self.forks.decides.then(|| self.forks.change_depth(0));
        before.map(|before| AtDepth { before })
    }
}

/// What a policy has decided of a fork.
#[derive(Clone, Copy)]
pub(super) struct Decided {
    pub(super) depth: u32,
    /// Whether it is no fork.
    pub(super) plain: bool,
}

/// A closure runs at another depth than the one around it.
pub(super) struct AtDepth {
    before: u32,
}

impl Drop for AtDepth {
    /// Never inlined, because it reads a variable of the OS thread: that is another one if the closure was part of a lightweight thread,
    /// and has waited.
    #[inline(never)]
    fn drop(&mut self) {
        worker::with_any(|worker| {
            let worker = worker.expect("the closure of a fork runs on a worker");
            worker.forks.change_depth(self.before);
        });
    }
}

impl Seat {
    /// Takes and returns the oldest job if `accept` returns true for its digest.
    pub(super) fn steal_if(&self, accept: impl Fn(u16) -> bool) -> Option<Ready> {
        loop {
            match self.deque.steal_if(&accept) {
                Steal::Taken(job) => return Some(job),
                Steal::Empty | Steal::Refused => return None,
                // Another thread took one: this ends.
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }
}
