//! Waits of what is no lightweight thread, and of threads that wait for the end of a pool: noted as long as they last.

use super::circle::{Blocked, Label};
use super::os_threads::{
    IsKnown, OsThread, TASKS, context, is_asleep, new_context, task, with_os_thread,
};
use super::{On, are_used, known, suspect, used};
use crate::pool::PoolShared;
use crate::thread::record::{Header, Wait, pool_number};
use crate::worker::WorkerCore;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

/// Numbers of waits of OS threads: no lightweight thread has one of them.
const OS_WAIT: u64 = 1 << 63;

/// An OS thread that is no worker waits, until this is dropped.
pub(crate) struct Outside {
    _named: Named,
}

impl Outside {
    pub(crate) fn enter(on: On) -> Self {
        let _named = Named::enter(on);
        known().outside.fetch_add(1, SeqCst);
        suspect();
        Outside { _named }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        known().outside.fetch_sub(1, SeqCst);
    }
}

/// Reports name this OS thread and what it waits for, until this is dropped.
enum Named {
    /// What it waited for before.
    Again(On),
    /// The OS thread is about to end.
    Last(#[allow(dead_code, reason = "it is dropped")] IsKnown),
}

impl Named {
    fn enter(on: On) -> Self {
        let before = with_os_thread(|thread| thread.waits_for(on));
        before.map_or_else(
            || {
                let last = IsKnown::new(new_context());
                last.0.waits_for(on);
                Named::Last(last)
            },
            Named::Again,
        )
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Named::Again(before) = *self {
            with_os_thread(|thread| thread.waits_for(before));
        }
    }
}

/// This OS thread, which is `worker` if it is one, waits for the end of a graph that runs in a pool of which it is no worker, until the
/// result is dropped.
pub(crate) fn waits_for_a_graph(worker: Option<&WorkerCore>) -> impl Sized {
    let outside = worker.is_none().then(|| Outside::enter(On::Graph));
    let elsewhere = worker.map(|worker| {
        // A lightweight thread is in reports by itself.
        let named = worker.current_thread().is_none();
        (
            named.then(|| Named::enter(On::Graph)),
            Elsewhere::enter(worker),
        )
    });
    (outside, elsewhere)
}

/// This OS thread, which is `worker` if it is one, waits for the end of a pool until the result is dropped: of `pool`, if that does not end
/// before all its threads and what its workers run have ended.
pub(crate) fn waits_for_a_pool(
    worker: Option<&WorkerCore>,
    pool: Option<&PoolShared>,
) -> impl Sized {
    let what = pool.map_or(0, |pool| pool_number(pool));
    let thread = worker.and_then(WorkerCore::current_thread);
    let heavily = (thread.is_none() && are_used()).then(|| Heavily::enter(worker, On::Pool, what));
    let outside = worker.is_none().then(|| Outside::enter(On::Pool));
    (
        heavily,
        outside,
        worker.map(Elsewhere::enter),
        thread.map(|thread| Ends::enter(thread, what)),
    )
}

/// A lightweight thread waits for the end of a pool, until this is dropped. Its worker does nothing else meanwhile.
struct Ends(&'static Header);

impl Ends {
    fn enter(thread: &'static Header, what: u64) -> Self {
        thread.waits_on(On::Pool, what);
        Ends(thread)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.goes_on();
    }
}

/// A worker waits for something of a pool that is not its own, or with a stack that is used up, until this is dropped.
struct Elsewhere<'a>(&'a WorkerCore);

impl<'a> Elsewhere<'a> {
    fn enter(worker: &'a WorkerCore) -> Self {
        worker.changes_elsewhere();
        suspect();
        Elsewhere(worker)
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.0.changes_elsewhere();
    }
}

/// `worker` runs a job on top of what waits, until the result is dropped: what waits does not go on before the job does.
pub(crate) fn runs_on_top(worker: &WorkerCore) -> Option<impl Sized + use<>> {
    let may_hide = worker.loopless.get() && are_used();
    may_hide.then(|| Heavily::enter(Some(worker), On::Work, 0))
}

/// `worker`, whose stack is used up, does nothing but wait, until the result is dropped.
pub(crate) fn waits_low(worker: &WorkerCore) -> impl Sized + use<'_> {
    Elsewhere::enter(worker)
}

/// What is no lightweight thread waits in a function of [`thread`](crate::thread), until [`Heavily`] is dropped.
pub(super) struct Heavy {
    pub(super) number: u64,
    /// [`context`] of the OS thread.
    pub(super) context: u64,
    /// If that is a worker, which may run something else on top of what waits: its pool's number in waits, and its own.
    pub(super) worker: Option<(u64, u16)>,
    /// The system's number of it.
    pub(super) task: Option<OsString>,
    pub(super) label: String,
    pub(super) on: On,
    pub(super) what: u64,
}

/// This OS thread waits in a task or forked closure, or outside of all pools, until this is dropped.
pub(in crate::thread) struct Heavily(u64);

impl Heavily {
    /// `worker`: this OS thread, if it is a worker.
    pub(in crate::thread) fn enter(worker: Option<&WorkerCore>, on: On, what: u64) -> Self {
        used();
        let known = known();
        let number = known.next.fetch_add(1, SeqCst);
        let label = worker.map(|worker| {
            let (me, pool) = (worker.id.0, worker.pool().number);
            format!("a task or closure on worker {me} of pool {pool}")
        });
        let label = label.unwrap_or_else(|| {
            let this = with_os_thread(|thread| thread.name().to_owned());
            let name = this.unwrap_or_else(|| OsThread::new(0).name().to_owned());
            format!("OS thread {name}")
        });
        known.heavy.lock().push(Heavy {
            number,
            context: context(),
            worker: worker.map(|worker| {
                // The pool does not wait for what the program does on an adopted worker.
                let seat = &worker.pool().threads.seats[worker.id.index()];
                let pool = match seat.is_adopted() {
                    true => 0,
                    false => pool_number(worker.pool()),
                };
                (pool, worker.id.0)
            }),
            task: task(),
            label,
            on,
            what,
        });
        suspect();
        Heavily(number)
    }
}

impl Drop for Heavily {
    fn drop(&mut self) {
        let mut heavy = known().heavy.lock();
        if let Some(place) = heavy.iter().position(|one| one.number == self.0) {
            heavy.remove(place);
        }
    }
}

impl Heavy {
    pub(super) fn blocked(&self) -> Blocked {
        Blocked {
            who: self.context,
            number: self.number | OS_WAIT,
            label: Label::Other(self.label.clone()),
            wait: Wait {
                on: self.on,
                what: self.what,
                since: 0,
            },
            scope: 0,
            pool: self.worker.map_or(0, |(pool, _)| pool),
            worker: self.worker.map(|(_, worker)| worker),
            is_pinned: self.worker.is_some(),
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        let task = self.task.as_ref();
        task.is_some_and(|task| is_asleep(&Path::new(TASKS).join(task)))
    }
}
