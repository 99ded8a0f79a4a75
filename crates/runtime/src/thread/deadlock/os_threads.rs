//! What is known of the OS threads of this process: by their names in reports, and by the system.

use super::{On, known};
use crate::process::Process;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Numbers of OS threads: no lightweight thread has one of them.
pub(super) const OS: u64 = 1 << 62;

/// An OS thread that waits or has waited, or has locked something, as long as it lives.
pub(super) struct OsThread {
    /// The process in which it is known.
    pub(super) home: Process,
    /// Its [`context`].
    pub(super) context: u64,
    pub(super) thread: std::thread::Thread,
    /// The system's number of it, if it has no name.
    pub(super) task: Option<String>,
    /// The [`On`] that it waits for outside of all pools, or as a worker for something of another pool. A
    /// [`Heavy`](super::waits::Heavy) wait says more.
    pub(super) on: AtomicUsize,
}

impl OsThread {
    /// Returns the description of this OS thread. Nothing of its name is copied: reports, which are rare, ask for it.
    pub(super) fn new(context: u64) -> Self {
        let thread = std::thread::current();
        let number = || task()?.into_string().ok();
        OsThread {
            home: Process::this(),
            context,
            task: match thread.name() {
                Some(_) => None,
                None => number(),
            },
            thread,
            on: AtomicUsize::new(On::Nothing as usize),
        }
    }

    /// Returns its name, or its number if it has none.
    pub(super) fn name(&self) -> &str {
        let number = || self.task.as_deref().unwrap_or("without a name");
        self.thread.name().unwrap_or_else(number)
    }

    /// Stores what it waits for from now on, and returns what that was before. Called on it alone.
    pub(super) fn waits_for(&self, on: On) -> On {
        let before = self.on();
        self.on.store(on as usize, Release);
        before
    }

    pub(super) fn on(&self) -> On {
        let on = On::ALL.get(self.on.load(Acquire)).copied();
        on.unwrap_or(On::Nothing)
    }
}

/// This OS thread is among those that are known, until it ends.
pub(super) struct IsKnown(pub(super) Arc<OsThread>);

impl IsKnown {
    pub(super) fn new(context: u64) -> Self {
        let thread = Arc::new(OsThread::new(context));
        let mut all = known().os_threads.lock();
        all.insert(context, Arc::clone(&thread));
        IsKnown(thread)
    }
}

impl Drop for IsKnown {
    fn drop(&mut self) {
        // In a child of `fork(2)` there may be nothing to remove.
        known().os_threads.lock().remove(&self.0.context);
    }
}

/// Calls `call` with the description of this OS thread, which is made when it is first asked for. Returns `None` if the OS thread is about
/// to end.
pub(super) fn with_os_thread<R>(call: impl FnOnce(&OsThread) -> R) -> Option<R> {
    thread_local! {
        static THIS: RefCell<Option<IsKnown>> = const { RefCell::new(None) };
    }
    let this = |this: &RefCell<Option<IsKnown>>| {
        let mut this = this.borrow_mut();
        let context = match &*this {
            Some(IsKnown(thread)) if thread.home.is_this() => return call(thread),
            // In a child of `fork(2)`, what it has locked is still its own.
            Some(IsKnown(thread)) => thread.context,
            None => new_context(),
        };
        *this = None;
        call(&this.insert(IsKnown::new(context)).0)
    };
    THIS.try_with(this).ok()
}

/// Returns a number that no OS thread has as its [`context`].
pub(super) fn new_context() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(OS);
    NEXT.fetch_add(1, Relaxed)
}

thread_local! {
    /// [`context`], or 0: every lock asks for it, so it is where no destructor is.
    static CONTEXT: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that stands for this OS thread, and for all tasks and closures that it runs. No lightweight thread has it.
#[inline]
pub(in crate::thread) fn context() -> u64 {
    match CONTEXT.get() {
        0 => first_context(),
        context => context,
    }
}

#[cold]
#[inline(never)]
fn first_context() -> u64 {
    // A thread that is about to end waits for nothing any more.
    let context = with_os_thread(|thread| thread.context).unwrap_or(0);
    CONTEXT.set(context);
    context
}

/// Returns the system's number of this OS thread.
pub(super) fn task() -> Option<OsString> {
    thread_local! {
        static TASK: RefCell<Option<(u64, OsString)>> = const { RefCell::new(None) };
    }
    let process = Process::this().number();
    let known = |kept: &Option<(u64, OsString)>| {
        let (of, number) = kept.as_ref()?;
        // In a child of `fork(2)` it has another one.
        (*of == process).then(|| number.clone())
    };
    let look = || {
        let this = std::fs::read_link("/proc/thread-self").ok()?;
        this.file_name().map(OsStr::to_owned)
    };
    let kept = TASK.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        known(&kept).or_else(|| {
            *kept = Some((process, look()?));
            known(&kept)
        })
    });
    // A destructor of another variable of an OS thread that ends may wait, too.
    kept.unwrap_or_else(|_| look())
}

/// Where the system describes the OS threads of this process.
pub(super) const TASKS: &str = "/proc/self/task";

/// Returns the number of OS threads of this process, and whether all but the one that calls this sleep. One that was woken, is stopped or
/// waits for a disk does not.
pub(super) fn os_threads() -> Option<(usize, bool)> {
    let this = task()?;
    let (mut all, mut sleep) = (0, true);
    for each in std::fs::read_dir(TASKS).ok()? {
        let each = each.ok()?;
        all += 1;
        sleep &= each.file_name() == this || is_asleep(&each.path());
    }
    // ThreadSanitizer has one of its own, which wakes nothing.
    let others = usize::from(cfg!(sanitized = "thread"));
    Some((all - others, sleep))
}

/// Returns whether the OS thread sleeps that the system describes there.
pub(super) fn is_asleep(described: &Path) -> bool {
    let line = std::fs::read_to_string(described.join("stat"));
    // The name, in parentheses, may have any characters.
    let state = line.as_deref().ok().and_then(|line| line.rsplit_once(')'));
    state.is_some_and(|(_, state)| state.trim_start().starts_with('S'))
}
