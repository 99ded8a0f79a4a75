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
}

fn known() -> &'static Known {
    static KNOWN: PerProcess<Known> = PerProcess::new();
    KNOWN.get(Known::default).0
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

/// Looks for threads that wait for each other. If there are any, reports them and ends the process.
pub(super) fn look() {
    let Some(asleep) = sleeping_workers() else {
        return;
    };
    let mut blocked = Vec::new();
    stack::for_each(|header| {
        if let (Some((on, what)), Some((number, name))) = (header.blocked_on(), header.label()) {
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
        return;
    }
    let circle = circle(&blocked);
    // The timer's thread calls this.
    let waiting = asleep + known().outside.load(SeqCst) + 1;
    let all_wait = os_threads().is_some_and(|threads| threads == waiting);
    // Nothing has moved meanwhile.
    let still = sleeping_workers() == Some(asleep)
        && (blocked.iter())
            .all(|thread| thread.header.blocked_on() == Some((thread.on, thread.what)));
    if still && (!circle.is_empty() || all_wait) {
        report(&blocked, &circle);
        std::process::abort();
    }
}

/// Returns the number of workers of all pools, if all of them sleep.
fn sleeping_workers() -> Option<usize> {
    let pools: Vec<_> = known()
        .pools
        .lock()
        .iter()
        .filter_map(Weak::upgrade)
        .collect();
    let mut number = 0;
    for pool in pools {
        if pool.is_forked() {
            continue;
        }
        let workers = usize::from(pool.placement.workers());
        let asleep = |sleep: &crate::worker::sleep::Sleep| {
            let sleeping = sleep
                .idle()
                .map(|idle| idle.is_some_and(|idle| idle.asleep));
            sleeping.collect::<Vec<_>>()
        };
        let (idle, waiting) = (asleep(&pool.sleep), asleep(&pool.forks.demand.waits));
        if !idle.iter().zip(&waiting).all(|(a, b)| *a || *b) {
            return None;
        }
        number += workers;
    }
    Some(number)
}

/// Returns the number of OS threads of this process.
fn os_threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one.
fn circle(blocked: &[Blocked]) -> Vec<usize> {
    let place = |address: usize| {
        let found = blocked
            .iter()
            .position(|thread| std::ptr::from_ref(thread.header).addr() == address);
        found.filter(|_| address != 0)
    };
    let next = |thread: &Blocked| match thread.on {
        On::Join | On::Mutex => place(thread.what),
        _ => None,
    };
    for start in 0..blocked.len() {
        let mut path = vec![start];
        while let Some(at) = next(&blocked[path[path.len() - 1]]) {
            if let Some(begin) = path.iter().position(|seen| *seen == at) {
                return path.split_off(begin);
            }
            path.push(at);
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
