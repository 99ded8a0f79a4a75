//! A barrier.

use super::super::carrier::program_waits;
use super::super::record::On;
use super::super::waiter::{WaitList, wait_in};

/// Lets a number of threads go on together, again and again.
///
/// ```
/// use tanada_runtime::thread::{self, sync::Barrier};
/// use std::sync::Arc;
///
/// let barrier = Arc::new(Barrier::new(3));
/// let threads: Vec<_> = (0..3)
///     .map(|_| {
///         let barrier = Arc::clone(&barrier);
///         thread::spawn(move || barrier.wait().is_leader())
///     })
///     .collect();
/// let leaders = threads.into_iter().map(|thread| thread.join().unwrap());
/// assert_eq!(leaders.filter(|leads| *leads).count(), 1);
/// ```
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    state: parking_lot::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    here: usize,
    waiters: WaitList,
}

/// What [`Barrier::wait`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns whether the thread was the last to come: of each group one is.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Returns a barrier for groups of `threads` threads. 0 is as 1.
    pub fn new(threads: usize) -> Self {
        program_waits();
        Barrier {
            threads,
            state: parking_lot::Mutex::default(),
        }
    }

    /// Waits until as many threads wait as the barrier was made for.
    pub fn wait(&self) -> BarrierWaitResult {
        let mut state = self.state.lock();
        state.here += 1;
        if state.here < self.threads {
            wait_in(state, |state| &mut state.waiters, (On::Barrier, 0), || ());
            return BarrierWaitResult(false);
        }
        state.here = 0;
        let others = state.waiters.take();
        drop(state);
        others.into_iter().for_each(|waiter| waiter.now());
        BarrierWaitResult(true)
    }
}
