//! What became of every task of one graph, and whether that is right.
//!
//! The counts are relaxed atomics, which order nothing. What orders a task after those that it waits for is the runtime alone, and that is
//! checked twice: by the mark that a task has ended, and by a plain value that it leaves behind and that each task which waits for it
//! reads. A runtime that forgets to order the two is a data race there, which ThreadSanitizer reports.

use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use tanada_runtime::Token;

/// Bodies that have begun in this process: whether there is progress.
pub(crate) static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// What is known of one task.
#[derive(Default)]
struct Entry {
    registered: AtomicU32,
    began: AtomicU32,
    dropped: AtomicU32,
    ended: AtomicBool,
    /// For those that want to wait for it.
    token: Mutex<Option<Token>>,
    /// What it waits for, as far as it was registered with. Kept by whoever registers it; complete before its last dependency can end.
    waits: Mutex<Vec<usize>>,
    left: Left,
}

/// A value that one task writes and those that wait for it read.
#[derive(Default)]
struct Left(UnsafeCell<u64>);

// SAFETY: written between begin and end of one task; read only where its mark `ended` was seen by a task that waits for it, or
// after the end of the graph. That these are ordered is what the soak checks, see the module.
unsafe impl Sync for Left {}

impl Left {
    fn write(&self, value: u64) {
        // SAFETY: see the `Sync` above.
        unsafe { *self.0.get() = value }
    }

    fn read(&self) -> u64 {
        // SAFETY: see the `Sync` above.
        unsafe { *self.0.get() }
    }
}

/// What became of the tasks of one run of a graph.
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    salt: u64,
    /// Closures beside those of the plan that were made, and dropped.
    helpers: [AtomicU32; 2],
    findings: Mutex<Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(tasks: usize, salt: u64) -> Ledger {
        Ledger {
            entries: (0..tasks).map(|_| Entry::default()).collect(),
            salt,
            helpers: Default::default(),
            findings: Mutex::default(),
        }
    }

    /// Something is wrong.
    #[cold]
    pub(crate) fn found(&self, text: String) {
        self.findings.lock().push(text);
    }

    /// The closure of this task was made. Calls for the drop of what is given.
    pub(crate) fn guest(&self, task: usize) -> Guest<'_> {
        if self.entries[task].registered.fetch_add(1, Relaxed) > 0 {
            self.found(format!("the soak itself registered task {task} twice"));
        }
        Guest { ledger: self, task }
    }

    /// As [`Ledger::guest`], for a task that is not of the plan.
    pub(crate) fn helper(&self) -> Helper<'_> {
        self.helpers[0].fetch_add(1, Relaxed);
        Helper(self)
    }

    pub(crate) fn publish(&self, task: usize, token: Token) {
        *self.entries[task].token.lock() = Some(token);
    }

    /// The tasks of `wanted` that are registered, with their tokens; notes that `task` waits for them.
    pub(crate) fn wait_for(&self, task: usize, wanted: &[usize]) -> Vec<Token> {
        let mut waits = self.entries[task].waits.lock();
        let known = wanted.iter().filter_map(|&before| {
            let token = *self.entries[before].token.lock();
            token.inspect(|_| waits.push(before))
        });
        known.collect()
    }

    /// Notes that `task` waits for these.
    pub(crate) fn waits(&self, task: usize, before: &[usize]) {
        self.entries[task].waits.lock().extend(before);
    }

    /// A body begins.
    pub(crate) fn begin(&self, task: usize) {
        PROGRESS.fetch_add(1, Relaxed);
        let entry = &self.entries[task];
        let times = entry.began.fetch_add(1, Relaxed);
        if times > 0 {
            self.found(format!("task {task} ran {} times", times + 1));
        }
        for &before in entry.waits.lock().iter() {
            if !self.entries[before].ended.load(Relaxed) {
                self.found(format!(
                    "task {task} ran before the end of {before}, for which it waits"
                ));
            } else if self.entries[before].left.read() != self.value(before) {
                self.found(format!("task {task} does not see what {before} wrote"));
            }
        }
    }

    /// A body ends well.
    pub(crate) fn end(&self, task: usize) {
        let entry = &self.entries[task];
        entry.left.write(self.value(task));
        entry.ended.store(true, Relaxed);
    }

    fn value(&self, task: usize) -> u64 {
        self.salt ^ (task as u64 + 1)
    }

    /// How many bodies began.
    pub(crate) fn began(&self) -> u64 {
        let began = |entry: &Entry| u64::from(entry.began.load(Relaxed));
        self.entries.iter().map(began).sum()
    }

    /// Checks the tasks of a graph that is over, and gives what is wrong with them. `complete`: every task must have run.
    pub(crate) fn settle(&self, complete: bool) -> Vec<String> {
        for (task, entry) in self.entries.iter().enumerate() {
            let count = |counter: &AtomicU32| counter.load(Relaxed);
            let (registered, began) = (count(&entry.registered), count(&entry.began));
            let ended = entry.ended.load(Relaxed);
            if complete && (began != 1 || !ended) {
                self.found(format!(
                    "task {task} ran {began} times in a graph that ended well (registered: {registered}, ended: {ended})"
                ));
            }
            if began > registered {
                self.found(format!("task {task} was never registered and ran"));
            }
            let dropped = count(&entry.dropped);
            if dropped != registered {
                self.found(format!(
                    "the closure of task {task} was dropped {dropped} times"
                ));
            }
            if ended && entry.left.read() != self.value(task) {
                self.found(format!(
                    "what task {task} wrote is not there after the graph"
                ));
            }
        }
        let [made, dropped] = self.helpers.each_ref().map(|count| count.load(Relaxed));
        if made != dropped {
            self.found(format!(
                "{made} helping closures were made and {dropped} dropped"
            ));
        }
        std::mem::take(&mut self.findings.lock())
    }

    /// Starts anew, for the next run of a template. All is as after [`Ledger::new`], but `waits` stays and closures are not counted.
    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            *entry.registered.get_mut() = 1;
            *entry.dropped.get_mut() = 1;
            *entry.began.get_mut() = 0;
            *entry.ended.get_mut() = false;
            entry.left.write(0);
        }
    }

    /// The race that `--fault race` makes: no task waits for the other, and both write.
    pub(crate) fn race(&self, task: usize) {
        self.entries[task].left.write(1);
    }
}

/// Part of what a task's closure holds: counts that it is dropped.
pub(crate) struct Guest<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) task: usize,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.ledger.entries[self.task].dropped.fetch_add(1, Relaxed);
    }
}

/// As [`Guest`], for a task that is not of the plan.
pub(crate) struct Helper<'a>(&'a Ledger);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.helpers[1].fetch_add(1, Relaxed);
    }
}

/// What `--fault use-after-free` does.
pub(crate) fn use_after_free() -> u64 {
    let gone = Box::into_raw(Box::new(std::hint::black_box(7_u64)));
    // SAFETY: from the line above.
    drop(unsafe { Box::from_raw(gone) });
    // SAFETY: none: it is the fault that a sanitizer must find.
    unsafe { std::ptr::read_volatile(gone) }
}

/// What `--fault invalid-read` does.
pub(crate) fn invalid_read() -> u8 {
    let bytes = std::hint::black_box(vec![1_u8; 16]);
    // SAFETY: none: it is the fault that memcheck must find.
    unsafe { std::ptr::read_volatile(bytes.as_ptr().add(bytes.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runtime_could_do_wrong_is_found() {
        let findings = |complete, deed: &dyn Fn(&Ledger)| {
            let ledger = Ledger::new(2, 9);
            ledger.waits(1, &[0]);
            deed(&ledger);
            ledger.settle(complete).join("; ")
        };
        let run = |ledger: &Ledger, task| {
            ledger.begin(task);
            ledger.end(task);
        };
        let good = |ledger: &Ledger| {
            for task in 0..2 {
                let guest = ledger.guest(task);
                run(ledger, task);
                drop(guest);
            }
        };
        assert_eq!(findings(true, &good), "");
        let twice = findings(true, &|ledger| (good(ledger), ledger.begin(1)).1);
        assert_eq!(twice.split(';').next(), Some("task 1 ran 2 times"));
        let early = findings(false, &|ledger| run(ledger, 1));
        assert!(
            early.starts_with("task 1 ran before the end of 0"),
            "{early}"
        );
        let lost = findings(true, &|ledger| drop(ledger.guest(0)));
        assert!(
            lost.starts_with("task 0 ran 0 times in a graph that ended well"),
            "{lost}"
        );
        let leaked = findings(false, &|ledger| std::mem::forget(ledger.guest(0)));
        assert_eq!(leaked, "the closure of task 0 was dropped 0 times");
        let stranger = findings(false, &|ledger| run(ledger, 0));
        assert!(
            stranger.starts_with("task 0 was never registered and ran"),
            "{stranger}"
        );
        let overwritten = findings(false, &|ledger| (good(ledger), ledger.race(0)).1);
        assert_eq!(
            overwritten,
            "what task 0 wrote is not there after the graph"
        );
        let unseen = findings(false, &|ledger| {
            let guests = (ledger.guest(0), ledger.guest(1));
            run(ledger, 0);
            ledger.race(0);
            run(ledger, 1);
            drop(guests);
        });
        assert!(
            unseen.starts_with("task 1 does not see what 0 wrote"),
            "{unseen}"
        );
        let helper = findings(false, &|ledger| std::mem::forget(ledger.helper()));
        assert_eq!(helper, "1 helping closures were made and 0 dropped");
    }
}
