//! Marks: what a program reports of its tasks to `tanada record -- PROGRAM`, which runs it in an emulator.
//!
//! If `TANADA_MARKS=1` is in the environment, every pool that the program makes has one worker and the policy `serial`, whatever its
//! builder asked for, and sends lines of text to the recorder between the memory accesses, which the emulator sees. A line is sent by
//! system calls that do nothing ([`call`]).
//!
//! The engine knows marks as two observers only: [`Marked`] watches tasks, [`Marks`] watches graphs.
//!
//! Addresses name tasks; with a generation, they also name tasks that have ended:
//!
//! | line | meaning |
//! |---|---|
//! | `hello 2` | a pool was made that marks; version of these lines |
//! | `task RUN ADDR GEN T S DEPTH PRIORITY FOOTPRINT USER INDEX NAME` | this thread registered a task of the graph RUN |
//! | `edge RUN ADDR GEN ADDR GEN` | the second task waits for the first |
//! | `resolve RUN ADDR GEN` | this thread resolved one of the task's counts |
//! | `start ADDR`, `end` | this thread runs the task; pairs may be nested |
//! | `wait RUN`, `woke RUN` | this thread waits for the end of a graph |
//! | `room ADDR RUN`, `roomed` | around the tasks of one run of a template |
//! | `(` | what follows, up to the next line, is the engine's own work and belongs to no task |
//! | `)` | ends that, and means nothing else |

#[allow(unsafe_code)]
mod call;
mod held;
mod line;
mod turn;

use crate::graph::{GraphObserver, TaskId};
use crate::observer::{Observer, TaskView, WorkerObserver};
use crate::pool::PoolShared;
use line::say;
use std::fmt;
use std::panic::Location;
// Not `parking_lot`'s mutex: its table of waiting threads grows when a thread waits for the first time. That is a matter of chance, and
// would move what that thread's tasks allocate.
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use tanada_policy::central::Central;
use tanada_policy::dispatchers::serial::Serial;
use tanada_policy::{Hints, Origin, Ready, WorkerId};

/// The policy of pools that mark.
pub(crate) type Reference = Central<Serial>;

/// The name of [`Reference`].
pub(crate) const REFERENCE: &str = "serial";

/// Bytes that every program has in its file if it, or a library that it links, makes pools: `tanada record` looks for them.
pub static RECORDABLE: [u8; 24] = *b"tanada-runtime: marks 2\n";

/// Returns whether pools of this process mark.
#[inline]
pub(crate) fn wanted() -> bool {
    // No `OnceLock`: its code lies elsewhere in the program, at the cost of a page fault when the first pool is made.
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static WANTED: AtomicU8 = AtomicU8::new(UNKNOWN);
    let mut wanted = WANTED.load(Relaxed);
    if wanted == UNKNOWN {
        // The linker drops what nothing refers to.
        std::hint::black_box(&RECORDABLE);
        let asked = match std::env::var_os("TANADA_MARKS") {
            Some(value) if value == "1" => YES,
            _ => NO,
        };
        // The first answer counts, also if the environment changes.
        let first = WANTED.compare_exchange(UNKNOWN, asked, Relaxed, Relaxed);
        wanted = first.map_or_else(|other| other, |_| asked);
    }
    wanted == YES && greeted()
}

/// Returns true once the recorder has been greeted.
#[cold]
fn greeted() -> bool {
    static GREETED: Once = Once::new();
    GREETED.call_once(|| say(format_args!("hello 2")));
    true
}

/// Sends marks around the bodies of tasks, inside of the calls of the observer `O`.
#[derive(Clone, Debug)]
pub(crate) struct Marked<O>(pub(crate) O);

impl<O: Observer> Observer for Marked<O> {
    type Worker = Marked<O::Worker>;

    fn worker(&self, worker: WorkerId) -> Self::Worker {
        Marked(self.0.worker(worker))
    }
}

impl<W: WorkerObserver> WorkerObserver for Marked<W> {
    fn start(&mut self, task: &TaskView, origin: Origin) {
        self.0.start(task, origin);
        turn::take();
        // The body begins behind this line: making the line is no part of it.
        say(format_args!("start {:x}", task.address));
    }

    fn end(&mut self, task: &TaskView) {
        call::send(b"end\n");
        turn::give();
        self.0.end(task);
    }

    fn idle(&mut self) {
        self.0.idle();
    }
}

/// Sends marks for what happens to graphs, and holds back what would make their order a matter of chance.
pub(crate) struct Marks;

/// The observer of the graphs of all pools that mark.
pub(crate) static MARKS: Marks = Marks;

impl GraphObserver for Marks {
    fn begins(&self, run: u64, pool: &PoolShared) {
        held::begin(run, pool);
    }

    #[cold]
    fn registered(
        &self,
        run: u64,
        task: TaskId,
        view: &TaskView,
        _line: Option<&'static Location<'static>>,
    ) {
        let TaskId {
            address,
            generation,
        } = task;
        let TaskView {
            name, index, hints, ..
        } = *view;
        let Hints {
            t,
            s,
            depth,
            priority,
            footprint,
            user,
            // `code` is left out: the name stands for it, and an address would differ from run to run.
            ..
        } = hints;
        say_apart(format_args!(
            "task {run} {address:x} {generation} {t} {s} {depth} {priority} {footprint} {user} {index} {name}"
        ));
    }

    #[cold]
    fn edge(&self, run: u64, earlier: TaskId, later: TaskId) {
        say_apart(format_args!(
            "edge {run} {:x} {} {:x} {}",
            earlier.address, earlier.generation, later.address, later.generation
        ));
    }

    #[cold]
    fn resolves(&self, run: u64, task: TaskId) {
        let TaskId {
            address,
            generation,
        } = task;
        say_apart(format_args!("resolve {run} {address:x} {generation}"));
    }

    #[cold]
    fn begins_in_room(&self, run: u64, room: usize, _number: u64, list: &mut dyn FnMut()) {
        say_apart(format_args!("room {room:x} {run}"));
        list();
        say_apart(format_args!("roomed"));
    }

    fn inject(&self, run: u64, _pool: &PoolShared, task: Ready) -> Option<Ready> {
        held::hold(run, task)
    }

    #[cold]
    fn waits(&self, run: u64, wait: &mut dyn FnMut()) {
        say_apart(format_args!("wait {run}"));
        let had = turn::is_mine();
        if !had {
            turn::take();
        }
        // While this thread has the turn no task starts, so tasks that others make ready come after all of these.
        held::release(Some(run));
        turn::give();
        wait();
        if had {
            turn::take();
        }
        say(format_args!("woke {run}"));
    }

    /// A worker that is called may be in front of a task, for which it needs the turn.
    fn calls_from_elsewhere(&self, wait: &mut dyn FnMut()) {
        let had = turn::is_mine();
        if had {
            turn::give();
        }
        wait();
        if had {
            turn::take();
        }
    }
}

/// Locks and returns the value of a mutex of this module, whose critical sections leave nothing half done if they panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work`, and marks it as no part of the task that may run.
fn apart(work: impl FnOnce()) {
    call::send(b"(\n");
    work();
    call::send(b")\n");
}

/// Sends a mark from within what may be a task, and marks the sending as no part of it.
fn say_apart(mark: fmt::Arguments<'_>) {
    call::send(b"(\n");
    say(mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_marked_unless_it_is_asked_for() {
        call::send(b"this goes nowhere\n");
        assert!(!wanted());
    }
}
