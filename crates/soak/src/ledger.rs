//! Records of every task of one graph, and the checks of them.
//!
//! The counts are relaxed atomics, which order nothing. The runtime alone orders a task after those that it waits for. Two things check
//! that: the mark that a task has ended, and a plain value that the task writes and that each task which waits for it reads. If the
//! runtime does not order the two tasks, the value is a data race, which ThreadSanitizer reports.

use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use tanada_runtime::{GraphError, Token};

/// Number of bodies that have begun in this process. The watchdog looks at it.
pub(crate) static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// The record of one task.
#[derive(Default)]
struct Entry {
    registered: AtomicU32,
    began: AtomicU32,
    dropped: AtomicU32,
    ended: AtomicBool,
    /// For tasks that are to wait for this one.
    token: Mutex<Option<Token>>,
    /// The tasks that it was registered to wait for. The registering thread writes it, before the last of them can end.
    waits: Mutex<Vec<usize>>,
    left: Left,
}

/// A value that one task writes and those that wait for it read.
#[derive(Default)]
struct Left(UnsafeCell<u64>);

// SAFETY: one task writes it between its begin and its end. Tasks that wait for that one, and that saw its mark `ended`, read it; so does
// `settle`, after the end of the graph. Whether the runtime orders these is what the soak checks, see the module.
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

/// The records of the tasks of one run of a graph.
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    salt: u64,
    /// Numbers of closures beside those of the plan: made, and dropped.
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

    /// Adds a finding.
    #[cold]
    pub(crate) fn found(&self, text: String) {
        self.findings.lock().push(text);
    }

    /// Adds a finding if a count could not be resolved.
    pub(crate) fn resolved(&self, result: Result<(), GraphError>) {
        if let Err(error) = result {
            self.found(format!("resolving a count: {error}"));
        }
    }

    /// Records that the closure of this task was made. The closure drops the returned guest.
    pub(crate) fn guest(&self, task: usize) -> Guest<'_> {
        if self.entries[task].registered.fetch_add(1, Relaxed) > 0 {
            self.found(format!("the soak itself registered task {task} twice"));
        }
        Guest { ledger: self, task }
    }

    /// Returns the same as [`Ledger::guest`], for a task that is not of the plan.
    pub(crate) fn helper(&self) -> Helper<'_> {
        self.helpers[0].fetch_add(1, Relaxed);
        Helper(self)
    }

    pub(crate) fn publish(&self, task: usize, token: Token) {
        *self.entries[task].token.lock() = Some(token);
    }

    /// Returns the tokens of those of `wanted` that are registered, and records that `task` waits for them.
    pub(crate) fn wait_for(&self, task: usize, wanted: &[usize]) -> Vec<Token> {
        let mut waits = self.entries[task].waits.lock();
        let known = wanted.iter().filter_map(|&before| {
            let token = *self.entries[before].token.lock();
            token.inspect(|_| waits.push(before))
        });
        known.collect()
    }

    /// Records that `task` waits for these.
    pub(crate) fn waits(&self, task: usize, before: &[usize]) {
        self.entries[task].waits.lock().extend(before);
    }

    /// Records that a body begins, and checks that this is its time.
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

    /// Records that a body ends without a panic.
    pub(crate) fn end(&self, task: usize) {
        let entry = &self.entries[task];
        entry.left.write(self.value(task));
        entry.ended.store(true, Relaxed);
    }

    fn value(&self, task: usize) -> u64 {
        self.salt ^ (task as u64 + 1)
    }

    /// Returns how many bodies have begun.
    pub(crate) fn began(&self) -> u64 {
        let began = |entry: &Entry| u64::from(entry.began.load(Relaxed));
        self.entries.iter().map(began).sum()
    }

    /// Checks the tasks of a graph that is over, and returns all findings. If `complete`, every task must have run.
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
                let text = format!("the closure of task {task} was dropped {dropped} times");
                self.found(text);
            }
            if ended && entry.left.read() != self.value(task) {
                let text = format!("what task {task} wrote is not there after the graph");
                self.found(text);
            }
        }
        let [made, dropped] = self.helpers.each_ref().map(|count| count.load(Relaxed));
        if made != dropped {
            let text = format!("{made} helping closures were made and {dropped} dropped");
            self.found(text);
        }
        std::mem::take(&mut self.findings.lock())
    }

    /// Resets the records for the next run of a template. `waits` stays, and closures are not counted.
    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            *entry.registered.get_mut() = 1;
            *entry.dropped.get_mut() = 1;
            *entry.began.get_mut() = 0;
            *entry.ended.get_mut() = false;
            entry.left.write(0);
        }
    }

    /// Overwrites a task's value: `--fault race` does this from two tasks that do not wait for each other.
    pub(crate) fn race(&self, task: usize) {
        self.entries[task].left.write(1);
    }
}

/// Part of a task's closure. Its drop is recorded.
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

/// Reads freed memory and returns it, for `--fault use-after-free`.
pub(crate) fn use_after_free() -> u64 {
    let gone = Box::into_raw(Box::new(std::hint::black_box(7_u64)));
    // SAFETY: from the line above.
    drop(unsafe { Box::from_raw(gone) });
    // SAFETY: none: it is the fault that a sanitizer must find.
    unsafe { std::ptr::read_volatile(gone) }
}

/// Reads a byte behind an allocation and returns it, for `--fault invalid-read`.
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
