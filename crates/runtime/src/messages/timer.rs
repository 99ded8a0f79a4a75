//! Timers of receivers that are futures or tasks: one thread of the process, which starts with the first timer.

use super::clock;
use crate::process::Process;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};
use tanada_policy::Time;

struct Keeper {
    process: Process,
    timers: Mutex<Timers>,
    changed: Condvar,
}

#[derive(Default)]
struct Timers {
    /// By moment, and then in the order of arrival.
    wakers: BTreeMap<(Time, u64), Waker>,
    arrivals: u64,
}

/// The keeper of this process, or of the ancestor that forked it, whose thread is not here. No keeper is ever freed.
static KEEPER: Mutex<Option<&'static Keeper>> = Mutex::new(None);

/// Calls `waker` at the moment `due`, or soon after it.
pub(super) fn wake_at(due: Time, waker: Waker) {
    let keeper = keeper();
    let mut timers = keeper.timers.lock();
    timers.arrivals += 1;
    let key = (due, timers.arrivals);
    timers.wakers.insert(key, waker);
    if timers.wakers.keys().next() == Some(&key) {
        keeper.changed.notify_one();
    }
}

fn keeper() -> &'static Keeper {
    let mut present = KEEPER.lock();
    match *present {
        Some(keeper) if keeper.process.is_this() => keeper,
        _ => {
            let keeper: &'static Keeper = Box::leak(Box::new(Keeper {
                process: Process::this(),
                timers: Mutex::default(),
                changed: Condvar::new(),
            }));
            let thread = std::thread::Builder::new().name("tanada-timers".to_owned());
            thread
                .spawn(|| keeper.keep())
                .expect("the system has room for a thread");
            *present = Some(keeper);
            keeper
        }
    }
}

impl Keeper {
    fn keep(&self) {
        let mut timers = self.timers.lock();
        loop {
            let now = clock::now();
            match timers.wakers.first_entry() {
                None => self.changed.wait(&mut timers),
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    // A waker may do whatever it likes, also set a timer.
                    parking_lot::MutexGuard::unlocked(&mut timers, || waker.wake());
                }
                Some(first) => {
                    let left = Duration::from_nanos(first.key().0 - now);
                    self.changed.wait_until(&mut timers, Instant::now() + left);
                }
            }
        }
    }
}
