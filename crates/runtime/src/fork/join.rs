//! `join`: two closures, perhaps at the same time.

use super::demand::WINDOW;
use super::enter::on_worker;
use super::job::StackJob;
use super::latch::{ForkLatch, Latch};
use super::record::Forked;
use super::wait::Jobs;
use super::watch::Watch;
use crate::pool::Pool;
use crate::worker::{WorkerCore, plain_limit, stack_pointer};
use std::cell::OnceCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tanada_policy::Hints;

/// What a closure of [`join_context`](super::join_context) learns.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// It belongs to the thread that runs the closure.
    one_thread: std::marker::PhantomData<*mut ()>,
}

impl FnContext {
    pub(super) fn new(migrated: bool) -> Self {
        FnContext {
            migrated,
            one_thread: std::marker::PhantomData,
        }
    }

    /// Returns whether the closure runs on another thread than the one that forked it: a thief took it, or the fork was made outside of the
    /// pool. False of a second closure that lay where thieves could have taken it, but did not.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// As [`join`](super::join), on the pool that `global` returns if this thread is no worker.
#[inline]
pub fn join_or<G, A, B, RA, RB>(global: G, first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    plain_or_kept(global, &NOTHING, first, second)
}

/// As [`join_with`](super::join_with), on the pool that `global` returns if this thread is no worker.
#[inline]
pub fn join_with_or<G, A, B, RA, RB>(global: G, hints: &Hints, first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let said = Said {
        hints: *hints,
        ..NOTHING
    };
    plain_or_kept(global, &said, first, second)
}

/// As [`join_works`](super::join_works), on the pool that `global` returns if this thread is no worker.
#[inline]
pub fn join_works_or<G, A, B, RA, RB>(global: G, works: [u64; 2], first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    plain_or_kept(global, &Said { works, ..NOTHING }, first, second)
}

/// What a program says of a fork.
struct Said {
    /// Of the second closure.
    hints: Hints,
    /// How much work the closures are; 0 and 0: not known.
    works: [u64; 2],
    /// Whether the fork may set the worker's [limit](super::demand).
    limits: bool,
}

/// What is said of most forks.
const NOTHING: Said = Said {
    hints: Hints::groups(0, 0),
    works: [0, 0],
    limits: true,
};

/// What is said of a [`join_context`](super::join_context). It sets no limit: nearly all forks around and below it are of its kind, which
/// does not look at the limit, and to set it costs a look at the clock.
const OF_CONTEXT: Said = Said {
    limits: false,
    ..NOTHING
};

/// As [`join_context`](super::join_context), on the pool that `global` returns if this thread is no worker.
#[inline]
pub fn join_context_or<G, A, B, RA, RB>(global: G, first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    on_worker(global, |worker, injected| {
        keep(worker, injected, &OF_CONTEXT, first, second)
    })
}

/// Runs both, one after the other if this worker's limit says so.
#[inline(always)]
fn plain_or_kept<G, A, B, RA, RB>(global: G, said: &Said, first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if plain_limit().wrapping_sub(stack_pointer()) < WINDOW {
        plain(first, second)
    } else {
        kept(global, said, first, second)
    }
}

#[inline(never)]
fn kept<G, A, B, RA, RB>(global: G, said: &Said, first: A, second: B) -> (RA, RB)
where
    G: FnOnce() -> Pool,
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    on_worker(global, |worker, injected| {
        keep(worker, injected, said, |_| first(), |_| second())
    })
}

/// Runs both, one after the other.
#[inline(always)]
fn plain<RA, RB>(first: impl FnOnce() -> RA, second: impl FnOnce() -> RB) -> (RA, RB) {
    let second = Second(ManuallyDrop::new(second));
    let first = first();
    (first, second.run())
}

/// The second closure while the first runs. Both run, even if the first panics.
struct Second<B: FnOnce() -> R, R>(ManuallyDrop<B>);

impl<B: FnOnce() -> R, R> Second<B, R> {
    #[inline(always)]
    fn run(self) -> R {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.0)() }
    }
}

impl<B: FnOnce() -> R, R> Drop for Second<B, R> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        let second = unsafe { ManuallyDrop::take(&mut self.0) };
        // The panic of the first closure goes on; that of the second one is dropped, which may panic again.
        forget_panics(|| drop(second()));
    }
}

/// Calls `work` and drops the payload of its panic, if it panics.
fn forget_panics(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        std::mem::forget(again);
    }
}

/// Runs both on `worker`, the second where thieves can take it meanwhile, unless the pool's policy says otherwise.
#[inline]
fn keep<A, B, RA, RB>(
    worker: &WorkerCore,
    injected: bool,
    said: &Said,
    first: A,
    second: B,
) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let decided = worker.decide(&said.hints);
    // Empty of most forks.
    let watch = OnceCell::<Apart<'_>>::new();
    let fork = StackJob::new(
        worker.graph.running(),
        ForkLatch::new(worker),
        |worker: &WorkerCore, migrated| {
            let _running = watch.get().map(|watch| watch.second_begins(worker));
            let _depth = worker.at_depth_of(decided);
            second(FnContext::new(migrated))
        },
    );
    if worker.forks.watches {
        let name = std::any::type_name::<B>();
        if let Some(kept) = worker.watch(fork.code(), name, said.works) {
            drop(watch.set(Apart(ManuallyDrop::new(kept))));
        }
    }
    let mut is_dealt = false;
    let plain = decided.is_some_and(|decided| decided.plain);
    let base = if plain {
        None
    } else {
        // SAFETY: the job does not move, and this function neither returns nor unwinds before it has run or this thread has its right back.
        let right = unsafe { fork.ready(decided.map_or(0, |decided| decided.depth)) };
        match watch.get().and_then(|watch| watch.divided()) {
            Some(divided) => {
                is_dealt = worker.push_shared(divided, right);
                None
            }
            None if said.limits => worker.push_base(right, stack_pointer()),
            None => {
                worker.push_fork(right);
                None
            }
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _running = watch.get().and_then(|watch| watch.first_begins());
        let _depth = worker.at_depth_of(decided);
        first(FnContext::new(injected))
    }));
    if let Some(watch) = watch.get() {
        watch.first_ended();
    }
    if let Some(before) = base {
        worker.end_base(before);
    }
    // The right to run a plain fork was never given away.
    let is_back = plain || take_back(worker, &fork, is_dealt);
    match result {
        // SAFETY: the right came back.
        Ok(first) if is_back => (first, unsafe { fork.run_inline(worker, injected) }),
        Ok(first) => (first, fork.into_result()),
        Err(payload) => {
            if is_back {
                // SAFETY: the right came back.
                unsafe { fork.run_apart(worker) };
            }
            forget_panics(|| drop(fork.into_result()));
            resume_unwind(payload)
        }
    }
}

/// A [`Watch`] whose drop is compiled apart from the frame of the fork, of which thousands lie on one stack in a deep recursion.
struct Apart<'a>(ManuallyDrop<Watch<'a>>);

impl<'a> std::ops::Deref for Apart<'a> {
    type Target = Watch<'a>;

    #[inline]
    fn deref(&self) -> &Watch<'a> {
        &self.0
    }
}

impl Drop for Apart<'_> {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        #[inline(never)]
        fn drop_it(watch: &mut ManuallyDrop<Watch<'_>>) {
            // SAFETY: its owner is being dropped, and does not use it again.
            unsafe { ManuallyDrop::drop(watch) };
        }
        if self.needs_drop() {
            drop_it(&mut self.0);
        }
    }
}

/// Takes the right to run `fork` back, which `worker` has pushed, and returns true; or waits until a thief has run it. Runs what the first
/// closure has spawned, which lies on top. If it `is_dealt`, another worker has it.
#[inline]
fn take_back<F, R>(worker: &WorkerCore, fork: &StackJob<ForkLatch, F, R>, is_dealt: bool) -> bool
where
    F: FnOnce(&WorkerCore, bool) -> R,
{
    // One that was dealt out does not lie in this worker's deque, and what lies there may be older.
    while !(is_dealt && fork.latch().flag().is_open())
        && let Some(job) = worker.pop_job()
    {
        if fork.is(&job) {
            return true;
        }
        worker.run_or_carry(job);
    }
    worker.wait_for(fork.latch().flag(), Jobs::OnTop);
    false
}

/// Runs `body` as a job of `pool`, and returns its result once it has run. `worker` is this thread, if it is a worker of another pool.
pub(super) fn run_elsewhere<R: Send>(
    pool: &crate::pool::PoolShared,
    worker: Option<&WorkerCore>,
    body: impl FnOnce(&WorkerCore, bool) -> R + Send,
) -> R {
    use super::latch::CountLatch;
    fn wait<F: FnOnce(&WorkerCore, bool) -> R, R>(
        pool: &crate::pool::PoolShared,
        worker: Option<&WorkerCore>,
        job: StackJob<CountLatch, F, R>,
    ) -> R
    where
        CountLatch: Latch,
    {
        // SAFETY: the job does not move, and this function does not return before the latch is open.
        pool.inject_job(unsafe { job.ready(0) });
        let latch = job.latch();
        match worker {
            // The pool is new: its threads begin later than a thread that spins would stop, and need its processor.
            None if !pool.sleep.has_begun() => latch.wait_outside(false),
            _ => latch.wait(worker, Jobs::OnTop),
        }
        job.into_result()
    }
    let _entered = pool.enter();
    let latch = CountLatch::new(worker, 1);
    let region = OnceCell::<Box<Forked>>::new();
    let name = std::any::type_name_of_val(&body);
    let job = StackJob::new(std::ptr::null(), latch, |worker: &WorkerCore, migrated| {
        let region = region.get();
        let _running = region.and_then(|region| region.second(worker.forks.lane.as_ref()));
        body(worker, migrated)
    });
    if let Some(record) = &pool.forks.record {
        let lane = worker.and_then(|worker| worker.forks.lane.as_ref());
        let forked = Forked::region(&record.recorder, lane, worker.is_some(), job.code(), name);
        drop(region.set(forked));
    }
    wait(pool, worker, job)
}
