//! How the members of teams wait.
//!
//! LLVM's runtime has a call for it, in milliseconds. libgomp spins for as long as its variables said at the start, some milliseconds, but
//! hardly at all while it has more threads than there are processors. So a thread of ours that has a team of its own, which sleeps, makes
//! it sleep soon, and stop doing so when the thread ends.

use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::abi::runtime;
use crate::system;
use tanada_policy::Waiting;

/// A short time of spinning, in milliseconds: LLVM's runtime knows no shorter one.
const SHORT: i32 = 1;

/// What holds now, and what it takes to change it.
pub(super) struct Waits {
    now: Waiting,
    /// What the runtime did before the first change: LLVM's time of spinning.
    usual: Option<i32>,
    extra: Option<Extra>,
    /// Processors of this process.
    processors: u32,
    /// Changes so far.
    pub(super) changes: u64,
}

/// The thread with a team that sleeps.
struct Extra {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Waits {
    /// `spins` says that members may spin for a short time even if the program's user wanted them to sleep at once: sleeping at each
    /// barrier takes several times as long, which nobody wins if nobody else wants the processor.
    pub(super) fn new(processors: u32, spins: bool) -> Self {
        let usual = runtime::is_llvm().then(|| match runtime::spinning() {
            0 if spins => {
                runtime::set_spinning(SHORT);
                SHORT
            }
            usual => usual,
        });
        Waits {
            now: Waiting::AsIs,
            usual,
            extra: None,
            processors,
            changes: 0,
        }
    }

    /// Returns how members of teams wait.
    #[inline]
    pub(super) fn now(&self) -> Waiting {
        self.now
    }

    /// Returns whether a change costs no more than a call.
    pub(super) fn is_cheap(&self) -> bool {
        self.usual.is_some()
    }

    /// Lets the members of the calling thread's next teams wait like this. Returns what holds, which is `AsIs` if the runtime cannot.
    pub(super) fn set(&mut self, waiting: Waiting) -> Waiting {
        if waiting == self.now {
            return waiting;
        }
        let done = match self.usual {
            Some(usual) => {
                runtime::set_spinning(spinning(waiting, usual));
                true
            }
            None => self.let_sleep(matches!(waiting, Waiting::Sleep(_) | Waiting::Delay(_))),
        };
        if done {
            self.now = waiting;
            self.changes += 1;
        }
        self.now
    }

    /// Makes libgomp sleep soon, or stops doing so. Returns whether that worked.
    fn let_sleep(&mut self, sleep: bool) -> bool {
        match (sleep, self.extra.take()) {
            (true, None) => self.extra = Extra::start(self.processors + 1),
            (true, extra) => self.extra = extra,
            (false, Some(extra)) => {
                drop(extra.end);
                let _ = extra.thread.join();
            }
            (false, None) => {}
        }
        self.extra.is_some() == sleep
    }
}

impl Extra {
    fn start(threads: u32) -> Option<Self> {
        /// Making a team takes this long at most, unless something is wrong.
        const PATIENCE: Duration = Duration::from_secs(1);
        let (end, ended) = channel::<()>();
        let (ready, is_ready) = channel();
        let body = move || {
            runtime::idle_team(threads);
            let _ = ready.send(());
            // Ends with an error when the sender is dropped.
            let _ = ended.recv();
        };
        let builder = Builder::new().name("tanada-waits".into());
        let thread = system::without_signals(|| builder.spawn(body)).ok()?;
        let _ = is_ready.recv_timeout(PATIENCE);
        Some(Extra { end, thread })
    }
}

/// Returns LLVM's time of spinning, in milliseconds.
fn spinning(waiting: Waiting, usual: i32) -> i32 {
    match waiting {
        Waiting::AsIs => usual,
        Waiting::Spin => i32::MAX,
        Waiting::Sleep(0) => 0,
        Waiting::Sleep(time) | Waiting::Delay(time) => (time / 1_000_000).clamp(1, 1 << 20) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_become_milliseconds() {
        assert_eq!(spinning(Waiting::AsIs, 200), 200);
        assert_eq!(spinning(Waiting::Spin, 200), i32::MAX);
        assert_eq!(spinning(Waiting::Sleep(0), 200), 0);
        assert_eq!(spinning(Waiting::Sleep(1), 200), 1);
        assert_eq!(spinning(Waiting::Sleep(5_000_000), 200), 5);
    }
}
