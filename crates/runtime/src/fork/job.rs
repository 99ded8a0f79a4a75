//! Jobs: what workers run for the fork layer. A job begins with a [`Job`], and queues hold its address as a [`Ready`].
//!
//! A queue of the layer holds the right to run a job as often as the job's address is in it: once for a fork, once for a spawned closure,
//! once for each closure in a [`Fifo`], once for each worker of a broadcast. No policy ever sees these rights.

use super::latch::Latch;
use crate::graph::GraphCore;
use crate::worker::WorkerCore;
use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use tanada_policy::Origin;
use tanada_queues::{Injector, Ready};

/// How a job is run.
///
/// # Safety
/// The job is live, and the caller has the right to run it.
type Run = unsafe fn(NonNull<Job>, &WorkerCore);

/// The first words of every job.
#[repr(C)]
pub(crate) struct Job {
    run: Run,
    /// The graph of the task that made the job, or null: graphs that the job runs are inside of that one, which has not ended before it.
    graph: *const GraphCore,
}

impl Job {
    /// Returns a right to run the job, for a queue of this layer. Thieves see `depth`, if the pool's policy looks.
    ///
    /// # Safety
    /// `this` is derived from a pointer to the whole job, which stays where it is until it has run.
    #[inline]
    unsafe fn ready(this: NonNull<Job>, depth: u32) -> Ready {
        // SAFETY: the right comes back to this layer alone, whose queues no other engine has.
        unsafe { Ready::at(this.as_ptr() as u64, depth.min(0xffff) as u16) }
    }

    /// Runs the job that `right` stands for, and consumes the right. A panic of its closure does not leave this function.
    #[inline]
    pub(crate) fn run(right: Ready, worker: &WorkerCore) {
        let origin = worker.forks.origin.replace(Origin::Own);
        let _root = worker.at_root();
        let _no_share = worker.leaves_share();
        let interrupted = (worker.forks.lane.as_ref()).map(|lane| lane.job_begins(origin));
        Job::run_as_part(right, worker);
        if let (Some(lane), Some(interrupted)) = (&worker.forks.lane, interrupted) {
            lane.job_ends(interrupted);
        }
    }

    /// As [`Job::run`], inside of another job whose work it is.
    #[inline]
    fn run_as_part(right: Ready, worker: &WorkerCore) {
        let job = address(&right);
        // SAFETY: `Job::ready` made the right, from a live job, and it is used once.
        let (run, graph) = unsafe { (job.as_ref().run, job.as_ref().graph) };
        let before = worker.graph.running();
        worker.graph.run(graph);
        // SAFETY: as above.
        worker.in_job(|| unsafe { run(job, worker) });
        worker.end_if_forked();
        worker.graph.run(before);
    }
}

/// Returns the job's address.
#[inline]
fn address(right: &Ready) -> NonNull<Job> {
    let address = right
        .address()
        .expect("a right of this layer is an address");
    NonNull::new(address as *mut Job).expect("no job is at 0")
}

/// What became of a closure.
enum Outcome<R> {
    None,
    Returned(R),
    Panicked(Box<dyn Any + Send>),
}

/// A closure in the frame of a function that waits for it. `F` is called with the worker and with whether it was run as a job.
#[repr(C)]
pub(crate) struct StackJob<L, F, R> {
    job: Job,
    latch: L,
    body: UnsafeCell<ManuallyDrop<F>>,
    outcome: UnsafeCell<Outcome<R>>,
}

impl<L: Latch, F: FnOnce(&WorkerCore, bool) -> R, R> StackJob<L, F, R> {
    /// Returns the job of `body`, which opens `latch` at its end.
    #[inline]
    pub(crate) fn new(graph: *const GraphCore, latch: L, body: F) -> Self {
        StackJob {
            job: Job {
                run: Self::run,
                graph,
            },
            latch,
            body: UnsafeCell::new(ManuallyDrop::new(body)),
            outcome: UnsafeCell::new(Outcome::None),
        }
    }

    #[inline]
    pub(crate) fn latch(&self) -> &L {
        &self.latch
    }

    /// Returns the address of code that is compiled for this type of closure.
    pub(crate) fn code(&self) -> usize {
        self.job.run as usize
    }

    /// Returns the right to run the job, whose depth in the tree of forks is `depth`, or 0 if nobody counts it.
    ///
    /// # Safety
    /// The job does not move, and the caller does not let it go before it has run it itself or its latch is open. What the closure borrows
    /// and the result may move to other threads.
    #[inline]
    pub(crate) unsafe fn ready(&self, depth: u32) -> Ready {
        // SAFETY: the caller's contract; the pointer is to the whole job, whose first field is the `Job`.
        unsafe { Job::ready(NonNull::from(self).cast(), depth) }
    }

    /// Returns whether `right` is this job's.
    #[inline]
    pub(crate) fn is(&self, right: &Ready) -> bool {
        address(right) == NonNull::from(self).cast()
    }

    /// Runs the closure on the thread that made the job, and returns its result.
    ///
    /// # Safety
    /// The caller has got the right to run the job back and consumes it hereby.
    #[inline]
    pub(crate) unsafe fn run_inline(&self, worker: &WorkerCore, as_job: bool) -> R {
        // SAFETY: nobody else has the right, so nobody else touches the body, and it is taken once.
        let body = unsafe { ManuallyDrop::take(&mut *self.body.get()) };
        body(worker, as_job)
    }

    /// Runs the closure on the thread that made the job, as a thief would.
    ///
    /// # Safety
    /// As [`StackJob::run_inline`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn run_apart(&self, worker: &WorkerCore) {
        // SAFETY: the caller has the right, and the job is live.
        unsafe { (self.job.run)(NonNull::from(self).cast(), worker) };
    }

    /// Returns the result of the job, whose latch is open.
    ///
    /// # Panics
    /// With the payload of the closure's panic.
    pub(crate) fn into_result(self) -> R {
        match self.outcome.into_inner() {
            Outcome::Returned(result) => result,
            Outcome::Panicked(payload) => resume_unwind(payload),
            Outcome::None => unreachable!("the latch opens behind the closure"),
        }
    }

    unsafe fn run(job: NonNull<Job>, worker: &WorkerCore) {
        let this = job.cast::<Self>();
        // SAFETY: the caller has the right to run the job, which is a live `Self`; references end before the latch opens.
        unsafe {
            let body = ManuallyDrop::take(&mut *this.as_ref().body.get());
            let outcome = match catch_unwind(AssertUnwindSafe(|| body(worker, true))) {
                Ok(result) => Outcome::Returned(result),
                Err(payload) => Outcome::Panicked(payload),
            };
            *this.as_ref().outcome.get() = outcome;
            L::open(NonNull::from(&this.as_ref().latch), worker);
        }
    }
}

/// A closure on the heap, whose panics do not leave it.
#[repr(C)]
struct HeapJob<F> {
    job: Job,
    body: F,
}

/// Returns the right to run `body`, which has to catch its panics.
///
/// # Safety
/// What `body` borrows lives until it has run.
pub(crate) unsafe fn boxed<F: FnOnce(&WorkerCore) + Send>(
    graph: *const GraphCore,
    body: F,
) -> Ready {
    unsafe fn run<F: FnOnce(&WorkerCore)>(job: NonNull<Job>, worker: &WorkerCore) {
        // SAFETY: the address came from `Box::into_raw`, and the right is used once.
        let HeapJob { body, .. } = *unsafe { Box::from_raw(job.cast::<HeapJob<F>>().as_ptr()) };
        body(worker);
    }
    let job = Job {
        run: run::<F>,
        graph,
    };
    let boxed = Box::into_raw(Box::new(HeapJob { job, body }));
    // SAFETY: the address is not null, and the box lives until it is run.
    unsafe { Job::ready(NonNull::new_unchecked(boxed).cast(), 0) }
}

/// A closure on the heap that several workers run.
#[repr(C)]
struct SharedJob<F> {
    job: Job,
    left: AtomicUsize,
    body: F,
}

/// Returns `times` rights to run `body`, which has to catch its panics.
///
/// # Safety
/// What `body` borrows lives until all rights have been used, and none is dropped.
pub(crate) unsafe fn shared<F: Fn(&WorkerCore) + Send + Sync>(
    graph: *const GraphCore,
    times: usize,
    body: F,
) -> impl Iterator<Item = Ready> {
    unsafe fn run<F: Fn(&WorkerCore)>(job: NonNull<Job>, worker: &WorkerCore) {
        let this = job.cast::<SharedJob<F>>();
        // SAFETY: it lives until the last right has been used.
        let shared = unsafe { this.as_ref() };
        (shared.body)(worker);
        if shared.left.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: the last right; the address came from `Box::into_raw`.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }
    let job = Job {
        run: run::<F>,
        graph,
    };
    let left = AtomicUsize::new(times);
    let boxed = Box::into_raw(Box::new(SharedJob { job, left, body }));
    // SAFETY: the address is not null, and the box lives until it was run `times` times.
    (0..times).map(move |_| unsafe { Job::ready(NonNull::new_unchecked(boxed).cast(), 0) })
}

/// Jobs that are run in the order in which they were pushed, wherever the rights to run one of them lie.
#[repr(C)]
pub(crate) struct Fifo {
    job: Job,
    jobs: Injector,
}

// SAFETY: the pointer to a graph is only handed on.
unsafe impl Send for Fifo {}
// SAFETY: as for `Send`; the rest is `Sync`.
unsafe impl Sync for Fifo {}

impl Fifo {
    /// Returns an empty one, behind a pointer: rights hold its address.
    pub(crate) fn new() -> Arc<Self> {
        let run: Run = |job, worker| {
            // SAFETY: the right was made by `push`, whose caller keeps the `Fifo`.
            let this = unsafe { job.cast::<Fifo>().as_ref() };
            let next = this.jobs.pop().expect("as many jobs as rights");
            // The `Fifo` may be gone afterwards: the job may be the last of its scope.
            Job::run_as_part(next, worker);
        };
        Arc::new(Fifo {
            job: Job {
                run,
                graph: std::ptr::null(),
            },
            jobs: Injector::new(),
        })
    }

    /// Adds a job and returns the right to run one of those that are there.
    ///
    /// # Safety
    /// The `Fifo` lives until all of its jobs have run.
    pub(crate) unsafe fn push(&self, job: Ready) -> Ready {
        self.jobs.push(job);
        // SAFETY: it lives long enough (caller), and the pointer is to the whole `Fifo`.
        unsafe { Job::ready(NonNull::from(self).cast(), 0) }
    }
}
