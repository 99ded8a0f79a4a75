//! Marks: what a program says of its tasks to `tanada record -- PROGRAM`, which runs it under Valgrind's lackey.
//!
//! Where `TANADA_MARKS=1` is in the environment and the program runs on Valgrind, every pool that it makes has one worker and the policy
//! `serial`, whatever was asked for, and writes lines into Valgrind's log, between lackey's lines of the memory accesses: by a client
//! request, which is a sequence of instructions that does nothing on a processor and that Valgrind knows (`valgrind.h`, which every
//! release keeps compatible; `VG_USERREQ__PRINTF_VALIST_BY_REF`). Elsewhere this module costs a branch a registration and none a task.
//!
//! The lines, each after `tanada `; addresses name tasks, and with a generation also those that have ended:
//!
//! | line | meaning |
//! |---|---|
//! | `hello 1` | a pool was made that marks; version of these lines |
//! | `task RUN ADDR GEN T S DEPTH PRIORITY FOOTPRINT USER INDEX NAME` | a task of the graph RUN was registered by this thread |
//! | `edge RUN ADDR GEN ADDR GEN` | the second task waits for the first |
//! | `resolve RUN ADDR GEN` | this thread resolved one of the task's counts |
//! | `start ADDR`, `end` | this thread runs the task; pairs may be nested |
//! | `wait RUN`, `woke RUN` | this thread waits for the end of a graph |
//! | `room ADDR RUN`, `roomed` | around the tasks of one run of a template |
//! | `(` | what follows is this module's own work and no task's, up to the next line |
//! | `)` | nothing but that |

#[allow(unsafe_code)]
mod valgrind;

use crate::observer::{Observer, TaskView, WorkerObserver};
use crate::pool::PoolShared;
use crate::graph::slab::Header;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ptr::NonNull;
// Not `parking_lot`'s: its table of waiting threads grows when a thread waits for the first time, which is a matter of chance, and would
// move what that thread's tasks allocate.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;
use tanada_policy::central::Central;
use tanada_policy::dispatchers::serial::Serial;
use tanada_policy::{Hints, Origin, Ready, WorkerId};

/// The policy of pools that mark.
pub(crate) type Reference = Central<Serial>;

/// What [`Reference`] is called.
pub(crate) const REFERENCE: &str = "serial";

/// Whether pools of this process mark.
pub(crate) fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let asked = std::env::var_os("TANADA_MARKS").is_some_and(|value| value == "1");
        let wanted = asked && valgrind::is_running();
        if wanted {
            say(format_args!("hello 1"));
        }
        wanted
    })
}

/// Marks the tasks that `O` watches.
#[derive(Clone, Debug)]
pub(crate) struct Marked<O>(pub(crate) O);

impl<O: Observer> Observer for Marked<O> {
    type Worker = Marked<O::Worker>;

    fn worker(&self, worker: WorkerId) -> Self::Worker {
        Marked(self.0.worker(worker))
    }
}

impl<W: WorkerObserver> WorkerObserver for Marked<W> {
    const MARKS: bool = true;

    fn start(&mut self, task: &TaskView, origin: Origin) {
        self.0.start(task, origin);
    }

    fn end(&mut self, task: &TaskView) {
        self.0.end(task);
    }

    fn idle(&mut self) {
        self.0.idle();
    }
}

/// Runs a task's body, between marks where `W` is for them.
#[inline(always)]
pub(crate) fn around<W: WorkerObserver>(task: NonNull<Header>, body: impl FnOnce()) {
    if !W::MARKS {
        return body();
    }
    turn::take();
    // Nothing here is the task's: it has not started yet.
    say(format_args!("start {:x}", task.as_ptr() as usize));
    body();
    valgrind::print(c"tanada end\n");
    turn::give();
}

/// What identifies a task: where its node is, and which of the node's tasks it is.
pub(crate) type Name = (usize, u32);

/// A task was registered.
#[cold]
pub(crate) fn registered(run: u64, (address, generation): Name, task: &TaskView) {
    let TaskView { name, index, hints } = *task;
    let Hints {
        t,
        s,
        depth,
        priority,
        footprint,
        user,
        // Without `code`: the name says it; an address would differ from run to run.
        ..
    } = hints;
    say_paused(format_args!(
        "task {run} {address:x} {generation} {t} {s} {depth} {priority} {footprint} {user} {index} {name}"
    ));
}

/// `later` waits for `earlier`.
#[cold]
pub(crate) fn edge(run: u64, earlier: Name, later: Name) {
    say_paused(format_args!(
        "edge {run} {:x} {} {:x} {}",
        earlier.0, earlier.1, later.0, later.1
    ));
}

/// This thread had a part in making a task ready.
#[cold]
pub(crate) fn resolved(run: u64, (address, generation): Name) {
    say_paused(format_args!("resolve {run} {address:x} {generation}"));
}

/// Calls `list`, which tells of all tasks of one run in `room`.
#[cold]
pub(crate) fn room(run: u64, room: usize, list: impl FnOnce()) {
    say_paused(format_args!("room {room:x} {run}"));
    list();
    say_paused(format_args!("roomed"));
}

/// Waits for a graph by calling `wait`: meanwhile this thread's task does nothing.
#[cold]
pub(crate) fn waiting(run: u64, wait: impl FnOnce()) {
    say_paused(format_args!("wait {run}"));
    let had = turn::is_mine();
    if !had {
        turn::take();
    }
    // With the turn: no task starts before all are given, for what it makes ready itself comes behind them.
    held::release(Some(run));
    turn::give();
    wait();
    if had {
        turn::take();
    }
    say(format_args!("woke {run}"));
}

/// One task of the process runs at a time, so that no two tasks' accesses are mixed: pools have one worker each, but a program can have
/// several pools.
mod turn {
    use super::{Cell, Condvar, Mutex, PoisonError, locked};

    static TAKEN: Mutex<bool> = Mutex::new(false);
    static GIVEN: Condvar = Condvar::new();
    thread_local! {
        static MINE: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn take() {
        let taken = GIVEN.wait_while(locked(&TAKEN), |taken| *taken);
        *taken.unwrap_or_else(PoisonError::into_inner) = true;
        MINE.set(true);
    }

    pub(super) fn is_mine() -> bool {
        MINE.get()
    }

    pub(super) fn give() {
        MINE.set(false);
        *locked(&TAKEN) = false;
        GIVEN.notify_one();
    }
}

/// Tasks that become ready while the body of their graph still registers others are held back until it waits, because the order of
/// both would be chance.
pub(crate) mod held {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;

    struct Graph {
        pool: Arc<PoolShared>,
        tasks: Vec<Ready>,
    }

    /// By run.
    static GRAPHS: Mutex<BTreeMap<u64, Graph>> = Mutex::new(BTreeMap::new());

    /// From now on, until it waits, the tasks of this graph are held back.
    pub(crate) fn begin(run: u64, pool: &PoolShared) {
        static WATCH: Once = Once::new();
        apart(|| {
            WATCH.call_once(|| {
                // Without it a body that waits for its own tasks hangs; there is nobody to tell.
                let _ = std::thread::Builder::new()
                    .name("tanada-marks".to_owned())
                    .spawn(watch);
            });
            let graph = Graph {
                pool: pool.shared(),
                tasks: Vec::new(),
            };
            locked(&GRAPHS).insert(run, graph);
        });
    }

    /// Gives the task to its pool, sooner or later.
    #[cold]
    pub(crate) fn inject(run: u64, pool: &PoolShared, task: Ready) {
        let mut task = Some(task);
        apart(|| {
            if let Some(graph) = locked(&GRAPHS).get_mut(&run) {
                graph.tasks.extend(task.take());
            }
        });
        if let Some(task) = task {
            pool.inject(task);
        }
    }

    /// Gives what is held back of this run, or of all, to the pools, and holds nothing more back.
    pub(super) fn release(run: Option<u64>) {
        let mut graphs = locked(&GRAPHS);
        let released = match run {
            Some(run) => graphs.remove(&run).into_iter().collect(),
            None => std::mem::take(&mut *graphs)
                .into_values()
                .collect::<Vec<_>>(),
        };
        // Under the lock: who becomes ready now comes behind them.
        for Graph { pool, tasks } in released {
            tasks.into_iter().for_each(|task| pool.inject(task));
        }
    }

    /// A body that waits for a task of its own graph would wait for ever: when the process does nothing for a second while something
    /// is held back, it is given.
    fn watch() {
        const LOOK: Duration = Duration::from_secs(1);
        /// Hundredths of a second. Looking costs something, too, under Valgrind.
        const IDLE: u64 = 5;
        loop {
            let before = spent();
            std::thread::sleep(LOOK);
            let waits = |graph: &Graph| !graph.tasks.is_empty();
            if locked(&GRAPHS).values().any(waits) && spent() < before + IDLE {
                release(None);
            }
        }
    }

    /// The processor time of this process so far, in the hundredths of a second of `/proc`. It neither allocates nor asks the system's
    /// shared object (vDSO), which Valgrind hides.
    fn spent() -> u64 {
        let mut text = [0; 1024];
        let read = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut text));
        let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // Behind the program's name, which may hold anything: state first, and user and system time as the 12th and 13th (proc(5)).
        let (_, fields) = text.rsplit_once(')').unwrap_or_default();
        let times = fields.split_ascii_whitespace().skip(11).take(2);
        times.filter_map(|time| time.parse::<u64>().ok()).sum()
    }
}

/// What none of the marks' critical sections leaves half done, even if one panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what is no part of the task that may run.
fn apart(work: impl FnOnce()) {
    valgrind::print(c"tanada (\n");
    work();
    valgrind::print(c"tanada )\n");
}

/// Writes a mark from within what may be a task: making the text is no part of it.
fn say_paused(mark: fmt::Arguments<'_>) {
    valgrind::print(c"tanada (\n");
    say(mark);
}

/// Writes a mark. Allocates nothing: that would move what the program allocates.
fn say(mark: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LINE],
        used: 0,
    };
    // A name that is too long is cut off.
    let _ = write!(line, "tanada {mark}");
    valgrind::print(line.end());
}

const LINE: usize = 512;

/// A line as Valgrind's `printf` wants it.
struct Line {
    bytes: [u8; LINE],
    used: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // It is the format: a percent sign would ask for an argument.
            let byte = match byte {
                b'%' | 0..b' ' | 0x7f => b'_',
                other => other,
            };
            // Room for the end of line and the terminating zero.
            let place = self.bytes[..LINE - 2]
                .get_mut(self.used)
                .ok_or(fmt::Error)?;
            *place = byte;
            self.used += 1;
        }
        Ok(())
    }
}

impl Line {
    fn end(&mut self) -> &std::ffi::CStr {
        self.bytes[self.used] = b'\n';
        self.bytes[self.used + 1] = 0;
        std::ffi::CStr::from_bytes_until_nul(&self.bytes).expect("a zero was just written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_a_format_may_be() {
        let line = |text: &str| {
            let mut line = Line {
                bytes: [0; LINE],
                used: 0,
            };
            let _ = line.write_str(text);
            line.end().to_str().expect("ASCII").to_owned()
        };
        assert_eq!(line("a 100% \n\0b"), "a 100_ __b\n");
        assert_eq!(line(&"x".repeat(2 * LINE)), "x".repeat(LINE - 2) + "\n");
    }

    #[test]
    fn nobody_answers_without_valgrind() {
        assert!(!valgrind::is_running());
        valgrind::print(c"nobody sees this\n");
        assert!(!wanted());
    }
}
