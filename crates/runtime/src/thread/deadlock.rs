//! Threads that wait for each other: found, named, and the end of the process.
//!
//! When a worker has nothing to do although lightweight threads are alive, or a thread outside begins to wait, the timer's thread looks a
//! tenth of a second later. What waits in a function of [`thread`](super) is *dead* if
//! - some wait for each other in a circle (for ends of threads, and for mutexes that the next one holds), while all workers sleep or wait;
//!   or
//! - nobody is left who could wake one: every OS thread of the process is a worker that sleeps or waits, waits in a function of this crate,
//!   or is the timer's.
//!
//! Otherwise an OS thread that this crate does not know may still send a message or unlock something, and nothing is reported.
//!
//! An OS thread that was woken need not run for long, on a machine that has other things to do. So nothing is reported of one that does not
//! sleep for the system.

use super::record::On;
use super::stack;
use super::timer;
use crate::pool::PoolShared;
use crate::process::PerProcess;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// Whether lightweight threads were ever made. Before, nothing is looked at.
static USED: AtomicBool = AtomicBool::new(false);

/// What is known of this process's threads.
#[derive(Default)]
struct Known {
    pools: Mutex<Vec<Weak<PoolShared>>>,
    /// OS threads that are no workers and wait in a function of this crate.
    outside: AtomicUsize,
    /// What waits in a function of [`thread`](super) and is no lightweight thread.
    heavy: Mutex<Vec<Heavy>>,
    /// The number of the next one.
    next: AtomicU64,
    /// Threads with lower numbers are the parent's of which this process is a forked child.
    first: u64,
    /// What was seen when threads seemed to wait for each other, and how often. They do if the next looks find the same.
    seen: Mutex<Option<(Seen, u32)>>,
}

/// Everything that changes when a thread goes on.
struct Seen {
    blocked: Vec<(u64, On, u64)>,
    /// The workers, all of which sleep or wait.
    still: Vec<Still>,
    outside: usize,
}

/// A worker that does nothing.
#[derive(Clone, Copy)]
enum Still {
    /// It sleeps, after so many turns.
    Asleep(u64),
    /// It waits in a task, and wakes up from time to time: how often it has found something to do, and has looked in vain since then.
    Looks(u32, u32),
}

/// So often at least a worker that wakes up from time to time has looked in vain between two looks at it, and before the first.
pub(super) const LOOKS: u32 = 2;

/// What two looks at everything say of the time between them. The greatest of several holds.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    Nothing,
    /// A worker may not have looked yet.
    Unknown,
    Something,
}

impl Seen {
    /// Returns what has happened since `before` was seen.
    fn since(&self, before: &Seen) -> Between {
        let same = self.blocked == before.blocked
            && self.outside == before.outside
            && self.still.len() == before.still.len();
        let each = self.still.iter().zip(&before.still);
        let each = each.map(|(now, before)| match (*now, *before) {
            (Still::Asleep(now), Still::Asleep(before)) if now == before => Between::Nothing,
            (Still::Looks(now, in_vain), Still::Looks(before, before_in_vain)) if now == before => {
                match in_vain.wrapping_sub(before_in_vain) >= LOOKS {
                    true => Between::Nothing,
                    false => Between::Unknown,
                }
            }
            _ => Between::Something,
        });
        match same {
            true => each.max().unwrap_or(Between::Nothing),
            false => Between::Something,
        }
    }

    /// Returns how often nothing must have happened between two looks. A worker that sleeps is woken by what it waits for; one that looks
    /// by itself may have run something between two looks.
    fn needed(&self) -> u32 {
        let looks = |still: &Still| matches!(still, Still::Looks(..));
        1 + u32::from(self.still.iter().any(looks))
    }
}

fn known() -> &'static Known {
    static KNOWN: PerProcess<Known> = PerProcess::new();
    KNOWN.get(|| Known {
        first: super::shared::number(),
        ..Known::default()
    })
}

/// The most threads that a report names.
const NAMED: usize = 32;

/// An OS thread that is no worker waits, until this is dropped.
pub(crate) struct Outside(());

impl Outside {
    pub(crate) fn enter() -> Self {
        known().outside.fetch_add(1, SeqCst);
        suspect();
        Outside(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        known().outside.fetch_sub(1, SeqCst);
    }
}

/// What is no lightweight thread waits in a function of [`thread`](super), until [`Heavily`] is dropped.
struct Heavy {
    number: u64,
    /// [`context`] of the OS thread.
    context: u64,
    /// The system's number of it.
    task: Option<OsString>,
    label: String,
    on: On,
    what: u64,
}

/// This OS thread waits in a task or forked closure, or outside of all pools, until this is dropped.
pub(super) struct Heavily(u64);

impl Heavily {
    /// `is_worker`: whether this OS thread is a worker.
    pub(super) fn enter(is_worker: bool, on: On, what: u64) -> Self {
        used();
        let known = known();
        let number = known.next.fetch_add(1, SeqCst);
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let label = match is_worker {
            true => format!("a task or closure on worker {name}"),
            false => format!("OS thread {name}"),
        };
        known.heavy.lock().push(Heavy {
            number,
            context: context(),
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

/// Returns a number that stands for this OS thread, and for all tasks and closures that it runs. No lightweight thread has it.
pub(super) fn context() -> u64 {
    const OS: u64 = 1 << 62;
    static NEXT: AtomicU64 = AtomicU64::new(OS);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Returns the system's number of this OS thread.
fn task() -> Option<OsString> {
    thread_local! {
        static TASK: Option<OsString> = {
            let this = std::fs::read_link("/proc/thread-self").ok();
            this.and_then(|path| path.file_name().map(OsStr::to_owned))
        };
    }
    // In a child of `fork(2)` the number is the parent's: that thread is not found, and nothing is reported of this one.
    TASK.with(Option::clone)
}

/// A pool was made.
pub(crate) fn add_pool(pool: Weak<PoolShared>) {
    let mut pools = known().pools.lock();
    pools.retain(|pool| pool.strong_count() > 0);
    pools.push(pool);
}

/// Lightweight threads are made.
#[inline]
pub(super) fn used() {
    if !USED.load(Relaxed) {
        USED.store(true, SeqCst);
    }
}

/// A thread begins to wait: perhaps the last one that could wake others.
#[inline]
pub(crate) fn suspect() {
    if USED.load(Relaxed) {
        timer::look_soon();
    }
}

/// What waits.
struct Blocked {
    /// The number of the thread, or the [`context`].
    who: u64,
    /// No other thread has it, and no other wait of an OS thread.
    number: u64,
    label: String,
    on: On,
    what: u64,
}

/// Looks for threads that wait for each other. If it finds the same ones again and again, reports them and ends the process.
pub(super) fn look() {
    let mut before = known().seen.lock();
    let (seen, blocked, circle) = match find() {
        Look::Dead(seen, blocked, circle) => (seen, blocked, circle),
        Look::Alive => {
            *before = None;
            return;
        }
        Look::Unknown => {
            drop(before);
            timer::look_soon();
            return;
        }
    };
    let (times, seen) = match before.take() {
        Some((first, times)) => match seen.since(&first) {
            Between::Nothing => (times + 1, seen),
            Between::Unknown => (times, first),
            Between::Something => (0, seen),
        },
        None => (0, seen),
    };
    if times >= seen.needed() {
        report(&blocked, &circle);
        std::process::abort();
    }
    *before = Some((seen, times));
    drop(before);
    // A thread that has been woken, and did not run yet, will have run by then.
    timer::look_soon();
}

/// What one look at everything has found.
enum Look {
    /// Threads that seem to wait for each other, and the places of those of them that do in a circle.
    Dead(Seen, Vec<Blocked>, Vec<usize>),
    Alive,
    /// An OS thread that waits does not sleep at the moment.
    Unknown,
}

/// Looks at everything.
fn find() -> Look {
    let known = known();
    let Some(still) = still_workers() else {
        return Look::Alive;
    };
    let mut blocked = Vec::new();
    stack::for_each(|header| {
        if let (Some((on, what)), Some((number, name))) = (header.blocked_on(), header.label())
            && number >= known.first
        {
            let label = match name {
                "" => format!("thread {number}"),
                name => format!("thread {number} ({name})"),
            };
            blocked.push(Blocked {
                who: number,
                number,
                label,
                on,
                what,
            });
        }
    });
    let heavy = known.heavy.lock();
    let sleeps = |heavy: &Heavy| {
        let task = heavy.task.as_ref();
        task.is_some_and(|task| is_asleep(&Path::new(TASKS).join(task)))
    };
    if !heavy.iter().all(sleeps) {
        return Look::Unknown;
    }
    blocked.extend(heavy.iter().map(|heavy| Blocked {
        who: heavy.context,
        // Other than those of threads.
        number: heavy.number | 1 << 63,
        label: heavy.label.clone(),
        on: heavy.on,
        what: heavy.what,
    }));
    drop(heavy);
    if blocked.is_empty() {
        return Look::Alive;
    }
    let circle = circle(&blocked);
    let outside = known.outside.load(SeqCst);
    // The timer's thread calls this.
    let waiting = still.len() + outside + 1;
    if circle.is_empty() {
        match os_threads() {
            Some((all, sleep)) if all == waiting && !timer::has_alarms() => match sleep {
                true => {}
                false => return Look::Unknown,
            },
            _ => return Look::Alive,
        }
    }
    let state = |thread: &Blocked| (thread.number, thread.on, thread.what);
    let seen = Seen {
        blocked: blocked.iter().map(state).collect(),
        still,
        outside,
    };
    Look::Dead(seen, blocked, circle)
}

/// Returns all workers of all pools, if all of them sleep or wait.
fn still_workers() -> Option<Vec<Still>> {
    let pools: Vec<_> = (known().pools.lock().iter())
        .filter_map(Weak::upgrade)
        .collect();
    let mut workers = Vec::new();
    for pool in pools {
        // In a child of `fork(2)` the workers of its parent are none.
        if pool.is_forked() {
            continue;
        }
        let waits = pool.forks.demand.waits.idle();
        for (me, (idle, waiting)) in pool.sleep.idle().zip(waits).enumerate() {
            let asleep = [idle, waiting]
                .into_iter()
                .flatten()
                .find(|idle| idle.asleep);
            let (found, in_vain) = pool.threads.looks_of(me);
            workers.push(match asleep {
                Some(idle) => Still::Asleep(idle.turns),
                None if in_vain >= LOOKS => Still::Looks(found, in_vain),
                None => return None,
            });
        }
    }
    Some(workers)
}

/// Where the system describes the OS threads of this process.
const TASKS: &str = "/proc/self/task";

/// Returns the number of OS threads of this process, and whether all but the one that calls this sleep. One that was woken, is stopped or
/// waits for a disk does not.
fn os_threads() -> Option<(usize, bool)> {
    let this = task()?;
    let (mut all, mut sleep) = (0, true);
    for each in std::fs::read_dir(TASKS).ok()? {
        let each = each.ok()?;
        all += 1;
        sleep &= each.file_name() == this || is_asleep(&each.path());
    }
    Some((all, sleep))
}

/// Returns whether the OS thread sleeps that the system describes there.
fn is_asleep(described: &Path) -> bool {
    let line = std::fs::read_to_string(described.join("stat"));
    // The name, in parentheses, may have any characters.
    let state = line.as_deref().ok().and_then(|line| line.rsplit_once(')'));
    state.is_some_and(|(_, state)| state.trim_start().starts_with('S'))
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one.
fn circle(blocked: &[Blocked]) -> Vec<usize> {
    // Of the waits of one OS thread, the last one is on top of the others.
    let places: HashMap<u64, usize> = (blocked.iter().map(|thread| thread.who).zip(0..)).collect();
    let next = |thread: &Blocked| match thread.on {
        On::Join | On::Mutex => places.get(&thread.what).copied(),
        _ => None,
    };
    // By which start each was reached first.
    let mut reached = vec![usize::MAX; blocked.len()];
    for start in 0..blocked.len() {
        let mut at = start;
        while reached[at] == usize::MAX {
            reached[at] = start;
            match next(&blocked[at]) {
                Some(other) => at = other,
                None => break,
            }
        }
        if reached[at] != start || next(&blocked[at]).is_none() {
            continue;
        }
        // The path from this start has come back to itself.
        let mut circle = vec![at];
        while let Some(other) = next(&blocked[circle[circle.len() - 1]]) {
            if other == at {
                return circle;
            }
            circle.push(other);
        }
    }
    Vec::new()
}

fn report(blocked: &[Blocked], circle: &[usize]) {
    let by_number = |who: u64| {
        let found = blocked.iter().rfind(|thread| thread.who == who);
        found.map_or("a thread that is none of these", |thread| &thread.label)
    };
    let wait = |thread: &Blocked| match thread.on {
        On::Join => format!("the end of {}", by_number(thread.what)),
        On::Mutex => format!("a mutex that {} has or gets before", by_number(thread.what)),
        On::Condvar => "a condition variable".to_owned(),
        On::Barrier => "a barrier".to_owned(),
        On::Receive => "a message".to_owned(),
        On::Send => "room in a channel".to_owned(),
        On::Once => "a closure that runs once".to_owned(),
        On::Scope => "the threads of its scope".to_owned(),
        On::Future => "a future".to_owned(),
        On::Sleep => "the passing of time".to_owned(),
        On::Schedule => "being scheduled".to_owned(),
        On::Work => "the end of a fork, a graph or a call".to_owned(),
        On::Park | On::Nothing => "being unparked".to_owned(),
    };
    let mut text = match circle.is_empty() {
        true => String::from("deadlock: all threads wait, and nobody is left who could wake one:"),
        false => String::from("deadlock: threads wait for each other:"),
    };
    let shown: Vec<&Blocked> = match circle.is_empty() {
        true => blocked.iter().take(NAMED).collect(),
        false => circle.iter().map(|index| &blocked[*index]).collect(),
    };
    for thread in &shown {
        let _ = write!(text, "\n  {} waits for {}", thread.label, wait(thread));
    }
    if circle.is_empty() && blocked.len() > NAMED {
        let _ = write!(text, "\n  and {} more", blocked.len() - NAMED);
    }
    crate::process::report(format_args!("{text}"));
}
