//! One closure, run by several workers while its caller waits: the one place where its lifetime is erased.

use super::{Member, Spin};
use crate::error::GraphError;
use crate::graph::GraphCore;
use crate::parking;
use crate::pool::PoolShared;
use crate::thread::deadlock::{On, Outside};
use crate::worker::calls::Latch;
use crate::worker::{self, EndOnPanic, WorkerCore};
use parking_lot::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tanada_policy::WorkerId;

type Body<'a> = dyn Fn(Member) + Sync + 'a;

/// The caller's closure without its lifetime. It is alive while a [`Part`] of its call is: the caller waits for the latch, which parts
/// count down when they end.
struct Closure(NonNull<Body<'static>>);

// SAFETY: a `Closure` stands for a `&` to a closure that is `Sync`.
unsafe impl Send for Closure {}
// SAFETY: as for `Send`.
unsafe impl Sync for Closure {}

/// What the parts of one call share.
struct Call {
    body: Closure,
    count: u16,
    latch: Latch,
    /// The graph of the task that made the call, or null: graphs that the closure runs are inside of that one.
    graph: AtomicPtr<GraphCore>,
    /// The first panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Whether a worker has ended without running its part.
    abandoned: AtomicBool,
    /// Whether workers that have run their parts go to sleep soon.
    rest: bool,
}

/// The right, and the duty, of one worker to run its part of a call.
pub(crate) struct Part {
    call: Arc<Call>,
    index: u16,
}

impl Part {
    /// Runs the part on `worker`, whose inbox it was in. Returns whether the worker should go to sleep soon afterwards.
    pub(crate) fn run(self, worker: &WorkerCore) -> bool {
        let Part { call, index } = self;
        let before = worker.graph.running();
        worker.graph.run(call.graph.load(Relaxed));
        let member = Member {
            worker: worker.id,
            index,
            count: call.count,
        };
        // SAFETY: this part has not counted the latch down.
        let body = unsafe { call.body.0.as_ref() };
        let result = catch_unwind(AssertUnwindSafe(|| body(member)));
        worker.end_if_forked();
        worker.graph.run(before);
        if let Err(payload) = result {
            call.panicked(payload);
            // A payload that is dropped runs code of the user's.
            worker.end_if_forked();
        }
        let rest = call.rest;
        call.latch.count_down();
        rest
    }

    /// Ends the part without running it: its worker has ended.
    pub(crate) fn abandon(self) {
        self.call.abandoned.store(true, Relaxed);
        self.call.latch.count_down();
    }
}

impl Call {
    fn panicked(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.panic.lock();
        if first.is_none() {
            *first = Some(payload);
            return;
        }
        drop(first);
        // A panic of the payload's drop must not leave the worker; the payload of that panic is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }
}

/// Runs `body` once on each worker of `team`, which has `count` workers, all different. Returns when all have ended. A caller that is a
/// worker, of whatever pool, runs the parts that wait for it meanwhile.
///
/// # Errors
/// [`GraphError::TooDeep`]; and [`GraphError::PolicyLost`] if a worker has ended without running its part.
///
/// # Panics
/// With the payload of the first part that panicked.
pub(super) fn run(
    pool: &PoolShared,
    team: impl Iterator<Item = WorkerId> + Clone,
    count: u16,
    spin: Spin,
    body: &Body<'_>,
) -> Result<(), GraphError> {
    worker::with_any(|worker| {
        worker.map_or(Ok(()), WorkerCore::check_stack)?;
        let own = worker.filter(|worker| std::ptr::eq(worker.pool(), pool));
        let graph = own.map_or(std::ptr::null(), |worker| worker.graph.running());
        let _entered = pool.enter();
        let spin = match pool.takes_turns() {
            true => Spin {
                most: Some(Duration::ZERO),
                ..spin
            },
            false => spin,
        };
        // SAFETY: only the lifetime changes. The closure is called by parts, and each of the `count` parts counts the latch down once,
        // after its call. This function neither returns nor unwinds before the latch is open (`EndOnPanic`).
        let body = unsafe {
            std::mem::transmute::<NonNull<Body<'_>>, NonNull<Body<'static>>>(NonNull::from(body))
        };
        let call = EndOnPanic::around(|| {
            let call = Arc::new(Call {
                body: Closure(body),
                count,
                latch: Latch::new(usize::from(count)),
                graph: AtomicPtr::new(graph.cast_mut()),
                panic: Mutex::new(None),
                abandoned: AtomicBool::new(false),
                rest: spin.rest,
            });
            let mut index = 0;
            let part = || {
                index += 1;
                Part {
                    call: Arc::clone(&call),
                    index: index - 1,
                }
            };
            let team = team.map(WorkerId::index);
            pool.calls.post(&pool.sleep, team, part, Part::abandon);
            pool.make_up_for_late();
            debug_assert_eq!(index, count, "a part each");
            match worker {
                None => wait_outside(&call.latch, pool, spin),
                Some(worker) if own.is_some() => wait_on_worker(&call.latch, worker, spin),
                Some(worker) => {
                    let watch = pool.graphs.watch.observer();
                    watch.calls_from_elsewhere(&mut || wait_on_worker(&call.latch, worker, spin));
                }
            }
            pool.calls.end();
            call
        });
        if let Some(payload) = call.panic.lock().take() {
            resume_unwind(payload);
        }
        match call.abandoned.load(Relaxed) {
            true => Err(pool
                .refusal()
                .expect("a pool in use ends only with a reason")),
            false => Ok(()),
        }
    })
}

/// Twice what waking a thread costs.
const USUAL: Duration = Duration::from_micros(10);

fn wait_outside(latch: &Latch, pool: &PoolShared, spin: Spin) {
    // If the workers have all hardware threads, one of them waits for the caller's.
    let usual = match pool.has_spare() {
        true => USUAL,
        false => Duration::ZERO,
    };
    spin_until(spin.most.unwrap_or(usual), || latch.is_open());
    if !latch.is_open() {
        let _outside = Outside::enter(On::Call);
        while !latch.is_open() {
            parking::park();
        }
    }
}

/// Waits on a worker, which runs the parts that wait for it: its own, and those of others, which may wait for this call's caller in turn.
/// Lightweight threads, too: a part may wait for them.
fn wait_on_worker(latch: &Latch, worker: &WorkerCore, spin: Spin) {
    worker.check_may_wait();
    let _pin = worker.pin();
    loop {
        worker.answer();
        if latch.is_open() {
            break;
        }
        if worker.help_threads(|| (), || latch.is_open()).is_some() {
            continue;
        }
        spin_until(spin.most.unwrap_or(USUAL), || {
            latch.is_open() || worker.is_called()
        });
        if worker.gives_way(|| latch.is_open()) {
            continue;
        }
        worker.pool().wait_in_a_task(|| {
            while !latch.is_open() && !worker.is_called() && !worker.may_have_threads() {
                parking::park();
            }
        });
        if latch.is_open() {
            break;
        }
    }
    worker.found_something();
}

/// Looks at the clock that one spinning thread takes in a row without giving up its processor.
const LOOKS: u64 = 8;

/// Returns once `done` returns true, or after the time `most`.
fn spin_until(most: Duration, done: impl Fn() -> bool) {
    if done() || most.is_zero() {
        return;
    }
    let start = Instant::now();
    for look in 1_u64.. {
        for _ in 0..8 {
            std::hint::spin_loop();
            if done() {
                return;
            }
        }
        if start.elapsed() >= most {
            return;
        }
        if look % LOOKS == 0 {
            std::thread::yield_now();
        }
    }
}
