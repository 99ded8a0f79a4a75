//! Threads that wait for each other: found, named, and the end of the process.
//!
//! When a worker has nothing to do although lightweight threads are alive, or a thread outside begins to wait, the timer's thread looks a
//! tenth of a second later. Threads are *dead* if
//! - parked ones wait for each other in a circle (for ends of threads, and for mutexes that such threads hold), while all workers sleep; or
//! - nobody is left who could wake one: every OS thread of the process is a worker that sleeps, waits in a function of this crate, or is
//!   the timer's.
//!
//! Otherwise an OS thread that this crate does not know may still send a message or unlock something, and nothing is reported.

use super::record::{Header, On};
use super::stack;
use super::timer;
use crate::pool::PoolShared;
use crate::process::PerProcess;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Whether lightweight threads were ever made. Before, nothing is looked at.
static USED: AtomicBool = AtomicBool::new(false);

/// What is known of this process's threads.
#[derive(Default)]
struct Known {
    pools: Mutex<Vec<Weak<PoolShared>>>,
    /// OS threads that are no workers and wait in a function of this crate.
    outside: AtomicUsize,
    /// Threads with lower numbers are the parent's of which this process is a forked child.
    first: u64,
    /// What was seen when threads seemed to wait for each other: they do if the next look finds the same.
    seen: Mutex<Option<Seen>>,
}

/// Everything that changes when a thread goes on.
#[derive(PartialEq, Eq)]
struct Seen {
    blocked: Vec<(u64, On, usize)>,
    /// Turns of the workers, all of which sleep.
    turns: Vec<u64>,
    outside: usize,
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

/// A pool was made.
pub(crate) fn add_pool(pool: Weak<PoolShared>) {
    let mut pools = known().pools.lock();
    pools.retain(|pool| pool.strong_count() > 0);
    pools.push(pool);
}

/// Lightweight threads are made.
#[inline]
pub(super) fn used() {
    if !USED.load(std::sync::atomic::Ordering::Relaxed) {
        USED.store(true, SeqCst);
    }
}

/// A thread begins to wait: perhaps the last one that could wake others.
#[inline]
pub(crate) fn suspect() {
    if USED.load(std::sync::atomic::Ordering::Relaxed) {
        timer::look_soon();
    }
}

/// A lightweight thread that is parked.
struct Blocked {
    header: &'static Header,
    number: u64,
    name: &'static str,
    on: On,
    what: usize,
}

/// Looks for threads that wait for each other. If it finds the same ones twice, reports them and ends the process.
pub(super) fn look() {
    let known = known();
    let found = find();
    let seen = found.as_ref().map(|(seen, ..)| seen);
    let again = {
        let mut before = known.seen.lock();
        let again = before.as_ref() == seen;
        *before = found.as_ref().map(|(seen, ..)| Seen {
            blocked: seen.blocked.clone(),
            turns: seen.turns.clone(),
            outside: seen.outside,
        });
        again
    };
    match found {
        Some((_, blocked, circle)) if again => {
            report(&blocked, &circle);
            std::process::abort();
        }
        // A thread that has been woken, and did not run yet, will have run by then.
        Some(_) => timer::look_soon(),
        None => {}
    }
}

/// Returns threads that seem to wait for each other, and those of them that do in a circle.
fn find() -> Option<(Seen, Vec<Blocked>, Vec<usize>)> {
    let known = known();
    let turns = turns_asleep()?;
    let mut blocked = Vec::new();
    stack::for_each(|header| {
        if let (Some((on, what)), Some((number, name))) = (header.blocked_on(), header.label())
            && number >= known.first
        {
            blocked.push(Blocked {
                header,
                number,
                name,
                on,
                what,
            });
        }
    });
    if blocked.is_empty() {
        return None;
    }
    let circle = circle(&blocked);
    let outside = known.outside.load(SeqCst);
    // The timer's thread calls this.
    let waiting = turns.len() + outside + 1;
    let all_wait = || {
        let threads = os_threads();
        !timer::has_alarms() && threads.is_some_and(|threads| threads == waiting)
    };
    if circle.is_empty() && !all_wait() {
        return None;
    }
    let state = |thread: &Blocked| (thread.number, thread.on, thread.what);
    let seen = Seen {
        blocked: blocked.iter().map(state).collect(),
        turns,
        outside,
    };
    Some((seen, blocked, circle))
}

/// Returns the turns of all workers of all pools, if all of them sleep.
fn turns_asleep() -> Option<Vec<u64>> {
    let pools: Vec<_> = (known().pools.lock().iter())
        .filter_map(Weak::upgrade)
        .collect();
    let mut turns = Vec::new();
    for pool in pools {
        // In a child of `fork(2)` the workers of its parent are none.
        if pool.is_forked() {
            continue;
        }
        let waits = pool.forks.demand.waits.idle();
        for (idle, waiting) in pool.sleep.idle().zip(waits) {
            let asleep = [idle, waiting]
                .into_iter()
                .flatten()
                .find(|idle| idle.asleep)?;
            turns.push(asleep.turns);
        }
    }
    Some(turns)
}

/// Returns the number of OS threads of this process.
fn os_threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one.
fn circle(blocked: &[Blocked]) -> Vec<usize> {
    let place = |thread: &Blocked| std::ptr::from_ref(thread.header).addr();
    let places: HashMap<usize, usize> = blocked.iter().map(place).zip(0..).collect();
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
    let called = |thread: &Blocked| match thread.name {
        "" => format!("thread {}", thread.number),
        name => format!("thread {} ({name})", thread.number),
    };
    let by_address = |address: usize| {
        let found = blocked
            .iter()
            .find(|thread| std::ptr::from_ref(thread.header).addr() == address);
        found.map_or_else(|| "another thread".to_owned(), called)
    };
    let wait = |thread: &Blocked| match thread.on {
        On::Join => format!("the end of {}", by_address(thread.what)),
        On::Mutex => format!(
            "a mutex that {} has or gets before",
            by_address(thread.what)
        ),
        On::Condvar => "a condition variable".to_owned(),
        On::Barrier => "a barrier".to_owned(),
        On::Receive => "a message".to_owned(),
        On::Send => "room in a channel".to_owned(),
        On::Once => "a closure that runs once".to_owned(),
        On::Scope => "the threads of its scope".to_owned(),
        On::Future => "a future".to_owned(),
        On::Sleep => "the passing of time".to_owned(),
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
        let _ = write!(text, "\n  {} waits for {}", called(thread), wait(thread));
    }
    if circle.is_empty() && blocked.len() > NAMED {
        let _ = write!(text, "\n  and {} more", blocked.len() - NAMED);
    }
    crate::process::report(format_args!("{text}"));
}
