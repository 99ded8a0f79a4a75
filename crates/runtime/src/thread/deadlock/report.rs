//! What the process says before it ends.

use super::circle::{Blocked, Label, holders_of};
use super::look::Worker;
use super::os_threads::{OS, OsThread};
use super::{On, known};
use crate::pool::PoolShared;
use crate::thread::record::{Wait, pool_number};
use crate::thread::stack;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Weak};

/// The most threads that a report names.
const NAMED: usize = 32;

/// Threads that wait for each other in a circle, or all of them.
struct Report<'a> {
    blocked: &'a [Blocked],
    workers: &'a [Worker],
    /// Those that [hold](Blocked::holds) workers.
    holders: HashMap<(u64, u16), usize>,
    /// The threads that a scheduler may have lost. In a circle, no wait is one that this may explain, and other threads may run.
    losable: BTreeMap<u64, &'static str>,
}

pub(super) fn report(blocked: &[Blocked], circle: &[usize], workers: &[Worker]) {
    let mut report = Report {
        blocked,
        workers,
        holders: holders_of(blocked),
        losable: BTreeMap::new(),
    };
    let text = if circle.is_empty() {
        report.losable = losable();
        report.of_all()
    } else {
        report.of_circle(circle)
    };
    crate::process::report(format_args!("{text}"));
}

impl Report<'_> {
    fn of_circle(&self, circle: &[usize]) -> String {
        let mut text = String::from("deadlock: threads wait for each other:");
        let next = circle.iter().cycle().skip(1);
        for (place, next) in circle.iter().zip(next) {
            let thread = &self.blocked[*place];
            let what = self.what(thread, Some(&self.blocked[*next]));
            let _ = write!(text, "\n  {} waits for {what}", thread.label);
        }
        text
    }

    fn of_all(&self) -> String {
        let mut text =
            String::from("deadlock: all threads wait, and nobody is left who could wake one:");
        append_lines(&mut text, self.blocked.iter(), |thread| {
            let keeps = |other: &&Blocked| other.pool != 0 && other.pool == thread.wait.what;
            let keeper = self.blocked.iter().find(keeps);
            format!("{} waits for {}", thread.label, self.what(thread, keeper))
        });
        append_lines(&mut text, self.in_tasks().iter(), |worker| {
            let (pool, me, what) = (worker.pool, worker.place.1, text_of(On::Work));
            format!("a task or closure on worker {me} of pool {pool} waits for {what}")
        });
        append_lines(&mut text, waiting_os_threads().iter(), |thread| {
            let (name, what) = (thread.name(), text_of(thread.on()));
            format!("OS thread {name} waits for {what}")
        });
        let mut named: HashSet<u64> = self.blocked.iter().map(|thread| thread.number).collect();
        let queued = self.queued(&named);
        append_lines(&mut text, queued.iter(), |(number, (name, holder))| {
            let (thread, pool) = (Label::Light(*number, name), pool_name(holder.pool));
            let holder = &holder.label;
            format!("{thread} waits for a worker of {pool}, on which {holder} waits")
        });
        named.extend(queued.keys());
        let lost = self.losable.iter();
        let lost = lost.filter(|(number, _)| !named.contains(number));
        append_lines(&mut text, lost, |(number, name)| {
            let thread = Label::Light(*number, name);
            format!("{thread} was never run: a scheduler has lost it")
        });
        text
    }

    /// Returns what the thread waits for. `keeper`: if that is the end of a pool, what keeps the pool open, if it is known.
    fn what(&self, thread: &Blocked, keeper: Option<&Blocked>) -> String {
        let Wait { on, what, .. } = thread.wait;
        match on {
            On::Join => format!("the end of {}", self.name(what)),
            On::Mutex => format!("a mutex that {} has or gets before", self.name(what)),
            On::Once => format!("a closure that {} runs once", self.name(what)),
            On::Pool if what != 0 => {
                let pool = pool_name(what);
                let keeper = keeper.map(|keeper| format!("{} keeps", keeper.label));
                let keeper = keeper.unwrap_or_else(|| String::from("its threads keep"));
                format!("the end of {pool}, which {keeper} open")
            }
            On::Work => match self.holder(thread) {
                Some(holder) => format!("its worker, on which {} waits", holder.label),
                None if self.losable.contains_key(&thread.number) => {
                    format!("{}, unless a scheduler has lost it", text_of(on))
                }
                None => text_of(on).to_owned(),
            },
            _ => text_of(on).to_owned(),
        }
    }

    /// Returns what holds the worker that the thread is on.
    fn holder(&self, thread: &Blocked) -> Option<&Blocked> {
        let place = self.holders.get(&(thread.pool, thread.worker?))?;
        Some(&self.blocked[*place])
    }

    /// Returns what reports call the thread with the number.
    fn name(&self, who: u64) -> String {
        let found = self.blocked.iter().rfind(|thread| thread.who == who);
        found.map_or_else(|| alive(who), |thread| thread.label.to_string())
    }

    /// Returns the workers in tasks that wait for a fork, a graph or a call of their own pool.
    fn in_tasks(&self) -> Vec<&Worker> {
        let is_named = |thread: &&Blocked| match thread.label {
            Label::Light(..) => thread.wait.on == On::Work,
            Label::Other(_) => true,
        };
        let named = self.blocked.iter().filter(is_named);
        let named: HashSet<_> = named
            .filter_map(|thread| Some((thread.pool, thread.worker?)))
            .collect();
        let workers = self.workers.iter().filter(|worker| worker.is_in_a_task);
        workers
            .filter(|worker| !named.contains(&worker.place))
            .collect()
    }

    /// Returns the threads that have not begun and may wait for workers that are held, by their numbers, each with its name and what holds
    /// one of its pool's workers, except of those that were `named`. Called when nothing runs that could make a thread.
    fn queued(&self, named: &HashSet<u64>) -> BTreeMap<u64, (&'static str, &Blocked)> {
        let mut queued = BTreeMap::new();
        if self.holders.is_empty() {
            return queued;
        }
        let first = known().first;
        stack::for_each(|header| {
            let Some((number, name)) = header.label().filter(|_| header.home().is_none()) else {
                return;
            };
            if number < first || header.is_done() || named.contains(&number) {
                return;
            }
            let pool = header.pool_of(number).unwrap_or(0);
            let mut holders = self.holders.values().map(|place| &self.blocked[*place]);
            if let Some(holder) = holders.find(|holder| holder.pool == pool) {
                queued.insert(number, (name, holder));
            }
        });
        queued
    }
}

/// Appends a line for each item, and for those that would make the report long, how many they are.
pub(in crate::thread) fn append_lines<I: Iterator>(
    text: &mut String,
    mut items: I,
    line: impl Fn(I::Item) -> String,
) {
    for item in items.by_ref().take(NAMED) {
        let _ = write!(text, "\n  {}", line(item));
    }
    let more = items.count();
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
}

/// Returns what reports call the pool with the number in waits.
fn pool_name(what: u64) -> String {
    let pools = known().pools.lock();
    let is = |pool: &&Weak<PoolShared>| pool_number(pool.as_ptr()) == what;
    // Not the last reference: what waits for the pool, or keeps it open, does not go on.
    let pool = pools.iter().find(is).and_then(Weak::upgrade);
    pool.map_or_else(
        || String::from("a pool"),
        |pool| format!("pool {}", pool.number),
    )
}

/// Returns what reports call that which is waited for, if they do not name it.
fn text_of(on: On) -> &'static str {
    match on {
        On::Join => "the end of a thread",
        On::Mutex => "a mutex",
        On::Condvar => "a condition variable",
        On::Barrier => "a barrier",
        On::Receive => "a message",
        On::Send => "room in a channel",
        On::Once => "a closure that runs once",
        On::Scope => "the threads of its scope",
        On::Future => "a future",
        On::Sleep => "the passing of time",
        On::Park | On::Nothing => "being unparked",
        On::Schedule => "being scheduled",
        On::Work => "the end of a fork, a graph or a call",
        On::Pool => "the end of a pool, which its threads keep open",
        On::Fork => "the end of a fork, a scope or a call of `install`",
        On::Graph => "the end of a graph",
        On::Call => "the end of a broadcast or a region",
    }
}

/// Returns the OS threads that wait, except those that have a [`Heavy`](super::waits::Heavy) wait outside of pools: these are named
/// with that.
fn waiting_os_threads() -> Vec<Arc<OsThread>> {
    let known = known();
    let named: HashSet<u64> = {
        let heavy = known.heavy.lock();
        let outside = heavy.iter().filter(|heavy| heavy.worker.is_none());
        outside.map(|heavy| heavy.context).collect()
    };
    let os_threads = known.os_threads.lock();
    let waits =
        |thread: &&Arc<OsThread>| thread.on() != On::Nothing && !named.contains(&thread.context);
    os_threads.values().filter(waits).cloned().collect()
}

/// Returns the names of the lightweight threads that are alive and that a scheduler of the program's own may have lost, by their numbers.
/// Called when nothing runs that could make a thread.
fn losable() -> BTreeMap<u64, &'static str> {
    let known = known();
    let pools: Vec<_> = (known.pools.lock().iter())
        .filter_map(Weak::upgrade)
        .filter(|pool| pool.threads.scheduler().is_some())
        .collect();
    let mut losable = BTreeMap::new();
    stack::for_each(|header| {
        let Some((number, name)) = header.label().filter(|_| !header.is_done()) else {
            return;
        };
        let pool = header.pool_address();
        if number >= known.first && pools.iter().any(|of| std::ptr::eq(&raw const **of, pool)) {
            losable.insert(number, name);
        }
    });
    losable
}

/// Returns what reports call the thread with the number, which waits for nothing that is known.
fn alive(who: u64) -> String {
    let os_threads = known().os_threads.lock();
    let mut found = (os_threads.get(&who)).map(|thread| format!("OS thread {}", thread.name()));
    drop(os_threads);
    if who != 0 && who < OS {
        stack::for_each(|header| {
            let is = header.label().filter(|(number, _)| *number == who);
            found = found
                .take()
                .or(is.map(|(number, name)| Label::Light(number, name).to_string()));
        });
    }
    found.unwrap_or_else(|| String::from("a thread that is none of these"))
}
