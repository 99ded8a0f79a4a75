//! What receivers that are futures or tasks sleep for: moments, and descriptors of shared channels. One thread of the process waits for
//! all of them by `epoll(7)`, and for the next moment by a `timerfd`. It starts with the first of them.

use super::{LOOK_FOR_DEATHS, clock};
use crate::process::Process;
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::io::{self, Errno};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::Waker;
use tanada_policy::Time;

struct Keeper {
    process: Process,
    events: OwnedFd,
    timer: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By moment, and then in the order of arrival.
    timers: BTreeMap<(Time, u64), Waker>,
    /// Whom to wake if a descriptor becomes readable, by the number of its [`Watch`].
    watches: BTreeMap<u64, Waker>,
    /// When all of these are woken anyway, to look whether their senders live.
    round: Option<Time>,
    /// Timers and watches that there ever were.
    arrivals: u64,
    /// What the `timerfd` is set to.
    set: Option<Time>,
}

/// The number that events of the `timerfd` carry. Watches have others.
const TIMER: u64 = 0;
/// How often receivers of shared channels are woken to look for deaths: twice as often as promised, because a look may just have ended.
const ROUND: Time = LOOK_FOR_DEATHS.as_nanos() as Time / 2;

/// The keeper of this process, or of the ancestor that forked it, whose thread is not here. No keeper is ever freed.
static KEEPER: Mutex<Option<&'static Keeper>> = Mutex::new(None);

/// Calls `waker` at the moment `due`, or soon after it.
pub(super) fn wake_at(due: Time, waker: Waker) {
    let keeper = keeper();
    let mut state = keeper.state.lock();
    state.arrivals += 1;
    let key = (due, state.arrivals);
    state.timers.insert(key, waker);
    keeper.set_timer(&mut state);
}

/// A receiver's place among the descriptors.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<u64>);

impl Watch {
    /// Calls `waker` once `event`, which is the same in every call, is readable; and before that, now and then. At once if it is.
    ///
    /// # Errors
    /// If the system has no room for it; the waker is not called.
    pub(super) fn wait(&mut self, event: BorrowedFd<'_>, waker: Waker) -> Result<(), Errno> {
        let keeper = keeper();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let mut state = keeper.state.lock();
        match self.0 {
            Some(number) => {
                epoll::modify(
                    &keeper.events,
                    event,
                    epoll::EventData::new_u64(number),
                    flags,
                )?;
                state.watches.insert(number, waker);
            }
            None => {
                state.arrivals += 1;
                let number = state.arrivals;
                epoll::add(
                    &keeper.events,
                    event,
                    epoll::EventData::new_u64(number),
                    flags,
                )?;
                self.0 = Some(number);
                state.watches.insert(number, waker);
            }
        }
        if state.round.is_none() {
            state.round = Some(clock::now() + ROUND);
            keeper.set_timer(&mut state);
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        // The descriptor leaves the set by being closed.
        let waker = match *KEEPER.lock() {
            Some(keeper) if keeper.process.is_this() => keeper.state.lock().watches.remove(&number),
            _ => None,
        };
        // It may hold whatever it likes, also another watch.
        drop(waker);
    }
}

fn keeper() -> &'static Keeper {
    let mut present = KEEPER.lock();
    match *present {
        Some(keeper) if keeper.process.is_this() => keeper,
        _ => {
            let keeper: &'static Keeper =
                Box::leak(Box::new(Keeper::new().expect("the system has descriptors")));
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
    fn new() -> Result<Keeper, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(TIMER);
        epoll::add(&events, &timer, data, epoll::EventFlags::IN)?;
        Ok(Keeper {
            process: Process::this(),
            events,
            timer,
            state: Mutex::default(),
        })
    }

    /// Sets the `timerfd` to the next moment, unless it is set to it.
    fn set_timer(&self, state: &mut State) {
        let timer = state.timers.keys().next().map(|key| key.0);
        let next = timer.into_iter().chain(state.round).min();
        if next == state.set {
            return;
        }
        state.set = next;
        let zero = clock::timespec(0);
        let time = Itimerspec {
            it_interval: zero,
            // A timer at 0 would be none.
            it_value: next.map_or(zero, |next| clock::timespec(next.max(1))),
        };
        // It fails for times that are none, of which the kernel's clock knows nothing.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time);
    }

    fn keep(&self) {
        let mut events = Vec::with_capacity(64);
        let mut woken = Vec::new();
        loop {
            events.clear();
            // A signal ends it early, which does no harm.
            let _ = epoll::wait(
                &self.events,
                rustix::buffer::spare_capacity(&mut events),
                None,
            );
            self.collect(&events, &mut woken);
            // A waker may do whatever it likes, also set a timer.
            woken.drain(..).for_each(Waker::wake);
        }
    }

    /// Takes whom `events` and the clock say are to be woken.
    fn collect(&self, events: &[epoll::Event], woken: &mut Vec<Waker>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        for event in events {
            match event.data.u64() {
                TIMER => {
                    // It fails if it was set anew since.
                    let _ = io::read(&self.timer, &mut [0_u8; 8]);
                    state.set = None;
                }
                number => woken.extend(state.watches.remove(&number)),
            }
        }
        let now = clock::now();
        while let Some(first) = state.timers.first_entry().filter(|it| it.key().0 <= now) {
            woken.push(first.remove());
        }
        if state.round.is_some_and(|round| round <= now) {
            woken.extend(std::mem::take(&mut state.watches).into_values());
            state.round = None;
        }
        self.set_timer(state);
    }
}
