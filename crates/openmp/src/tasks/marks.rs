//! Marks: what this library reports of the program's tasks to `tanada record --omp-tasks`, which runs the program in an emulator.
//!
//! If `TANADA_OMP_MARKS=1` is in the environment and tasks are taken over, lines of text go to the recorder between the memory accesses,
//! which the emulator sees, by system calls that do nothing. The program then has teams of one thread, and each task is queued unless it
//! must run at once. The recorder works out which task comes before which (`crates/trace/src/import/openmp.rs`).
//!
//! Addresses name tasks until they end. A *scope* is where tasks are created: in a task, a group, or a region.
//!
//! | line | meaning |
//! |---|---|
//! | `hello openmp-1` | tasks are taken over; version of these lines |
//! | `code CODE OFFSET PATH` | the code at this address is in that module, where its file has it at OFFSET; may be repeated |
//! | `in ADDR`, `set ADDR`, `out ADDR`, `all` | a dependence of the task, or of the wait, of the next line |
//! | `task ADDR CODE DEPTH PRIORITY FOOTPRINT DETACHED` | this thread created a task in its innermost scope |
//! | `start ADDR`, `end` | this thread runs the task; pairs may be nested |
//! | `fulfil ADDR` | the event of a detached task was fulfilled |
//! | `wait children`, `woke` | a `taskwait` |
//! | `wait some`, `woke` | until tasks have ended that the dependences name |
//! | `wait task ADDR`, `woke` | until this task has, which runs at once |
//! | `wait nothing`, `woke` | other tasks may run |
//! | `group`, `wait group`, `woke` | a group |
//! | `region`, `regioned` | a region, but for its implicit barrier |
//! | `wait all`, `woke` | a barrier |
//! | `team N` | a region has N threads, which cannot be recorded |
//! | `(` | what follows, up to the next line, is this library's own work and belongs to no task |

#[allow(dead_code)]
#[path = "../../../runtime/src/marks/call.rs"]
mod call;
#[path = "../../../runtime/src/marks/line.rs"]
mod line;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::depend::Kind;
use super::task::{Task, flags};
use crate::system;
use line::say;

static WANTED: AtomicBool = AtomicBool::new(false);

/// Returns whether marks are sent.
#[inline]
pub(super) fn wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Returns whether the environment asks for marks.
pub(super) fn asked() -> bool {
    std::env::var_os("TANADA_OMP_MARKS").is_some_and(|value| value == "1")
}

/// From now on marks are sent.
pub(super) fn begin() {
    say(format_args!("hello openmp-1"));
    WANTED.store(true, Ordering::Relaxed);
}

/// Sends a mark from within what may be a task, and marks the sending as no part of it.
fn say_apart(mark: fmt::Arguments<'_>) {
    call::send(b"(\n");
    say(mark);
}

/// Sends a mark without numbers.
#[cold]
pub(super) fn mark(text: &str) {
    say_apart(format_args!("{text}"));
}

/// The current task was about to create `task`, with these dependences. From here on it is marked.
///
/// # Safety
/// The calling thread has the task.
#[cold]
pub(super) unsafe fn created(task: *mut Task, depends: impl Iterator<Item = (usize, Kind)>) {
    // SAFETY: the caller promises it.
    let task = unsafe { &*task };
    task.set(flags::MARKED);
    name(task.run.get());
    uses(depends);
    say_apart(format_args!(
        "task {:x} {:x} {} {} {} {}",
        std::ptr::from_ref(task) as usize,
        task.run.get(),
        task.depth,
        task.priority.get(),
        task.footprint.get(),
        u8::from(task.is(flags::DETACHED)),
    ));
}

/// What the next mark depends on.
#[cold]
pub(super) fn uses(depends: impl Iterator<Item = (usize, Kind)>) {
    for (address, kind) in depends {
        let address = address.max(1);
        match kind {
            Kind::In => say_apart(format_args!("in {address:x}")),
            Kind::Set => say_apart(format_args!("set {address:x}")),
            Kind::Out => say_apart(format_args!("out {address:x}")),
            Kind::All => say_apart(format_args!("all")),
        }
    }
}

/// Says where the code of a task is, unless it was said, and no other code's since then in the same place of a table. (A table that grows
/// would move what the program allocates.)
fn name(code: usize) {
    static SAID: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
    if SAID[code / 16 % SAID.len()].swap(code, Ordering::Relaxed) == code {
        return;
    }
    call::send(b"(\n");
    match system::module_of(code) {
        Some(module) => {
            let (offset, path) = (code - module.base, module.path.display());
            say(format_args!("code {code:x} {offset:x} {path}"));
        }
        None => say(format_args!("code {code:x} {code:x} ?")),
    }
}

/// A task begins.
#[cold]
pub(super) fn start(task: *const Task) {
    // The body begins behind this line: making the line is no part of it.
    say(format_args!("start {:x}", task as usize));
}

/// The task that began last ends.
#[cold]
pub(super) fn end() {
    call::send(b"end\n");
}

/// The current task waits for one that runs at once.
#[cold]
pub(super) fn wait_for(task: *const Task) {
    say_apart(format_args!("wait task {:x}", task as usize));
}

/// The event of a task was fulfilled.
#[cold]
pub(super) fn fulfilled(task: *const Task) {
    say_apart(format_args!("fulfil {:x}", task as usize));
}

/// A region begins.
#[cold]
pub(super) fn region(threads: usize) {
    if threads > 1 {
        say_apart(format_args!("team {threads}"));
    }
    mark("region");
}
