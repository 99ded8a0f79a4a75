//! The passing of time: one OS thread that unparks lightweight threads. It exists from the first time that one is needed.

use super::deadlock::{self, Again};
use super::record::Header;
use super::shared;
use crate::process::PerProcess;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks that [`look_later`] asks for.
const LONG: Duration = Duration::from_secs(1);

/// The longest time between two looks while only strangers are left.
const LONGEST: Duration = Duration::from_secs(30);

/// How long all threads have to be quiet before the timer looks whether they wait for each other.
const QUIET: Duration = Duration::from_millis(100);

/// Looks take at most one part in `PARTS` of a processor's time.
const PARTS: u32 = 50;

#[derive(Default)]
struct Timer {
    /// Whether it has a thread.
    runs: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The earliest first.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Whom to unpark, by the number in `due`.
    whom: HashMap<u64, Whom>,
    next: u64,
    /// Numbers in `due` that are not in `whom` any more.
    gone: HashSet<u64>,
    /// When to look for threads that wait for each other.
    look: Option<Instant>,
    /// When to want such a look because of [`look_later`].
    later: Option<Instant>,
    /// The processor's time that the last look has taken.
    took: Duration,
    /// How long after the last look the next one was wanted, if that found none but strangers left and nothing has begun to wait since.
    strangers: Duration,
}

/// Returns the processor's time of this OS thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl State {
    /// Returns how long from now on nothing is looked at: at least `least`.
    fn at_least(&self, least: Duration) -> Duration {
        least.max(self.took * PARTS)
    }

    /// A look was made, and says when to make the next one.
    fn looked(&mut self, again: Again) {
        let now = Instant::now();
        self.strangers = match again {
            Again::Later => (self.strangers * 2).clamp(LONG, LONGEST),
            _ => Duration::ZERO,
        };
        match again {
            Again::No => {}
            Again::Soon => {
                let rest = self.at_least(QUIET);
                self.look.get_or_insert(now + rest);
            }
            Again::Later => {
                let when = now + self.at_least(self.strangers);
                self.later = Some(self.later.map_or(when, |later| later.min(when)));
            }
        }
    }
}

struct Whom(NonNull<Header>);

// SAFETY: headers are at their places for ever, and unparking is all that is done.
unsafe impl Send for Whom {}

/// A thread that is unparked at a time, until this is dropped.
pub(super) struct Alarm(u64);

impl Drop for Alarm {
    fn drop(&mut self) {
        let timer = timer();
        let mut state = timer.state.lock();
        if state.whom.remove(&self.0).is_some() {
            state.gone.insert(self.0);
        }
        // What is gone does not fill the memory before its time.
        if state.gone.len() > 1024 && state.gone.len() > state.due.len() / 2 {
            let State { due, gone, .. } = &mut *state;
            due.retain(|Reverse((_, number))| !gone.contains(number));
            gone.clear();
        }
    }
}

/// Lets `thread` be unparked at `when`.
pub(super) fn unpark_at(thread: &Header, when: Instant) -> Alarm {
    let timer = timer();
    if let Err(error) = timer.start() {
        panic!("no thread for timers: {error}");
    }
    let mut state = timer.state.lock();
    let number = state.next;
    state.next += 1;
    let first = state
        .due
        .peek()
        .is_none_or(|Reverse((other, _))| when < *other);
    state.due.push(Reverse((when, number)));
    state.whom.insert(number, Whom(NonNull::from(thread)));
    drop(state);
    if first {
        timer.changed.notify_one();
    }
    Alarm(number)
}

/// Returns whether threads wait for the passing of time.
pub(super) fn has_alarms() -> bool {
    !timer().state.lock().whom.is_empty()
}

/// Lets the timer look soon whether threads wait for each other.
pub(super) fn look_soon() {
    let timer = timer();
    // Without a thread for it, nothing is looked at: a later call may get one.
    if timer.start().is_err() {
        return;
    }
    let mut state = timer.state.lock();
    if state.look.is_none() {
        state.look = Some(Instant::now() + state.at_least(QUIET));
        state.strangers = Duration::ZERO;
        drop(state);
        timer.changed.notify_one();
    }
}

/// Whether a call of [`look_later`] is not yet answered.
static LATER: AtomicBool = AtomicBool::new(false);

/// Lets the timer look at some time whether threads wait for each other: this costs one load in most cases.
#[inline]
pub(super) fn look_later() {
    if !LATER.load(Ordering::Relaxed) {
        want_look_later();
    }
}

#[cold]
#[inline(never)]
fn want_look_later() {
    let timer = timer();
    // As in `look_soon`.
    if timer.start().is_err() {
        return;
    }
    let mut state = timer.state.lock();
    LATER.store(true, Ordering::Relaxed);
    let when = Instant::now() + state.at_least(LONG);
    if state.later.is_none_or(|later| when < later) {
        state.later = Some(when);
        drop(state);
        timer.changed.notify_one();
    }
}

/// Returns the timer of this process.
fn timer() -> &'static Timer {
    static TIMER: PerProcess<Timer> = PerProcess::new();
    TIMER.get(|| {
        // What a parent of this process has asked for, nobody does here.
        LATER.store(false, Ordering::Relaxed);
        Timer::default()
    })
}

impl Timer {
    /// Starts the timer's thread, unless it runs.
    ///
    /// # Errors
    /// If the system has no thread for it.
    fn start(&'static self) -> io::Result<()> {
        if self.runs.load(Ordering::Acquire) || self.runs.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("tanada-timer".into());
        let started = thread.spawn(|| self.run());
        if started.is_err() {
            self.runs.store(false, Ordering::Release);
        }
        started.map(drop)
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let mut due = Vec::new();
            while let Some(Reverse((when, number))) = state.due.peek().copied() {
                let gone = state.gone.remove(&number);
                if !gone && when > now {
                    break;
                }
                state.due.pop();
                due.extend(state.whom.remove(&number));
            }
            if state.later.is_some_and(|when| when <= now) {
                // A thread that has just found the mark set, and waits, is seen by the look, which comes a while after this.
                state.later = None;
                LATER.store(false, Ordering::Relaxed);
                state.look = Some(now + QUIET);
            }
            let look = state.look.is_some_and(|when| when <= now);
            if look {
                state.look = None;
            }
            if look || !due.is_empty() {
                let (quiet, before) = (due.is_empty(), processor_time());
                let again = parking_lot::MutexGuard::unlocked(&mut state, || {
                    for Whom(thread) in due {
                        // SAFETY: headers are at their places for ever, and a wake-up too many does no harm.
                        shared::unpark(unsafe { thread.as_ref() });
                    }
                    (look && quiet).then(deadlock::look)
                });
                match again {
                    Some(again) => {
                        state.took = processor_time().saturating_sub(before);
                        state.looked(again);
                    }
                    None if look => state.look = Some(now + QUIET),
                    None => {}
                }
                continue;
            }
            let next = state.due.peek().map(|Reverse((when, _))| *when);
            match [next, state.look, state.later].into_iter().flatten().min() {
                Some(when) => {
                    self.changed.wait_until(&mut state, when);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}
