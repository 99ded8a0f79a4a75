//! How threads of the engine wait for each other: `park` and what ends it.
//!
//! These are the functions of `std::thread`, unless the thread is part of a schedule ([`replay`](crate::replay)): then waiting passes the
//! turn on, and to unpark a thread means that it may get the turn again. So whatever waits by these functions needs no further code for
//! replays, and wakes the same threads as in a free run. Under shuttle they are shuttle's.

#[cfg(not(shuttle))]
pub(crate) use free::{Thread, current, is_scheduled, park, park_timeout, pause, yield_now};
#[cfg(shuttle)]
pub(crate) use model::{Thread, current, is_scheduled, park, park_timeout, pause, yield_now};

#[cfg(not(shuttle))]
mod free {
    use crate::replay::{self, Actor};
    use std::thread;
    use std::time::Duration;

    /// A thread that can be unparked.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread {
        thread: thread::Thread,
        /// What it is in a schedule.
        actor: Option<Actor>,
    }

    impl Thread {
        /// Lets the thread go on that parks, or that parks next.
        pub(crate) fn unpark(&self) {
            match &self.actor {
                Some(actor) => actor.unpark(),
                None => self.thread.unpark(),
            }
        }
    }

    /// Returns this thread.
    pub(crate) fn current() -> Thread {
        Thread {
            thread: thread::current(),
            actor: replay::actor(),
        }
    }

    /// Returns whether this thread is part of a schedule.
    pub(crate) fn is_scheduled() -> bool {
        replay::actor().is_some()
    }

    /// Waits until this thread is unparked. May return for no reason.
    pub(crate) fn park() {
        match replay::actor() {
            Some(actor) => actor.park(None),
            None => thread::park(),
        }
    }

    /// As [`park`], for at most this time. In a schedule the time begins when no other thread can do anything.
    pub(crate) fn park_timeout(most: Duration) {
        match replay::actor() {
            Some(actor) => actor.park(Some(most)),
            None => thread::park_timeout(most),
        }
    }

    /// Waits for this time. In a schedule: until other threads have had their turns.
    pub(crate) fn pause(time: Duration) {
        match replay::actor() {
            Some(actor) => actor.poll(),
            None => thread::sleep(time),
        }
    }

    /// Lets other threads run.
    pub(crate) fn yield_now() {
        match replay::actor() {
            Some(actor) => actor.poll(),
            None => thread::yield_now(),
        }
    }
}

#[cfg(shuttle)]
mod model {
    use std::time::Duration;
    pub(crate) use tanada_queues::sync::thread::{Thread, current, park, yield_now};

    pub(crate) fn is_scheduled() -> bool {
        false
    }

    /// The model has no clock: the time may be over at any moment.
    pub(crate) fn park_timeout(_most: Duration) {
        yield_now();
    }

    /// The model has no clock.
    pub(crate) fn pause(_time: Duration) {
        yield_now();
    }
}
