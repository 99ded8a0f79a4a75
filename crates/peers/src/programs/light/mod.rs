//! Lightweight threads: the same four programs on each library that has some.

mod corosensei;
mod go;
mod may;
mod os;
mod tanada;
mod tokio;

use crate::Fallible;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that each thread of [`Light::alive`] writes before it waits, and reads afterwards.
const OWN: usize = 1 << 10;

/// Whose threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tanada's; `true`: those that other workers may take whenever they wait.
    Tanada(bool),
    May,
    /// Coroutines that the program resumes itself: there is no scheduler.
    Corosensei,
    /// Tasks of tokio; `true`: on its runtime of one thread.
    Tokio(bool),
    Os,
    /// A program that `build.rs` compiles.
    Go(Option<&'static str>),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    /// So many threads are created, and then joined, again and again.
    Create(u32),
    /// So many threads let each other run.
    Switch(u32),
    /// A message goes to another thread and back, by channels.
    PingPong,
    /// So many threads wait at the same time.
    Alive(u32),
}

/// All that is measured.
pub(crate) const ALL: [Do; 7] = [
    Do::Create(1),
    Do::Create(1000),
    Do::Switch(2),
    Do::Switch(64),
    Do::PingPong,
    Do::Alive(10_000),
    Do::Alive(1_000_000),
];

impl Do {
    /// Returns the value of `params` that names it.
    pub(crate) fn params(self) -> String {
        match self {
            Do::Create(many) => format!("create={many}"),
            Do::Switch(threads) => format!("switch={threads}"),
            Do::PingPong => "ping-pong".to_owned(),
            Do::Alive(threads) => format!("alive={threads}"),
        }
    }
}

/// Threads that wait at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Alive {
    /// From the first that is created to the last that has ended.
    pub(crate) time: Duration,
    /// Bytes of memory that the process has more while all wait.
    pub(crate) bytes: u64,
}

/// A library with threads, on its workers. Functions return the time of what they did.
pub(crate) trait Light {
    /// Creates `many` threads that return a number, joins them, adds up what they return; `times` times.
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration>;

    /// `threads` threads let each other run, `times` times each.
    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration>;

    /// Sends `times` messages to a thread that sends each back.
    fn ping_pong(&mut self, times: u32) -> Fallible<Duration>;

    /// Creates `threads` threads, each of which writes [`OWN`] bytes of its own and waits. When all do, lets them go on, and joins them.
    fn alive(&mut self, threads: u32) -> Fallible<Alive>;
}

impl Kind {
    /// Returns whether these threads can do it on so many workers.
    pub(crate) fn can(self, what: Do, workers: u16) -> bool {
        match (self, what) {
            // On more workers two threads need not meet.
            (_, Do::Switch(2)) if workers > 1 => false,
            // Nothing but the program decides what runs.
            (Kind::Corosensei, Do::PingPong) => false,
            // Each stack has a guard page by a mapping of its own, of which a process may have 65,530 (may, corosensei), and a system has
            // fewer threads than that (os).
            (Kind::May | Kind::Corosensei | Kind::Os, Do::Alive(threads)) => threads <= 10_000,
            // A thread that yields goes on at once unless another one waits for its processor.
            (Kind::Os, Do::Switch(_)) => workers == 1,
            _ => true,
        }
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(crate) fn open(self, workers: u16) -> Fallible<Box<dyn Light>> {
        Ok(match self {
            Kind::Tanada(untied) => Box::new(tanada::Tanada::open(workers, untied)?),
            Kind::May => Box::new(may::May::open(workers)),
            Kind::Corosensei => Box::new(corosensei::Corosensei::default()),
            Kind::Tokio(one_thread) => Box::new(tokio::Tokio::open(workers, one_thread)?),
            Kind::Os => Box::new(os::Os::open(workers)?),
            Kind::Go(program) => {
                let program = program.ok_or("it is absent")?;
                Box::new(go::Go::open(Path::new(program), workers))
            }
        })
    }
}

/// Returns the result of `work`, and its time.
fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Returns bytes of this process that are in memory.
fn resident() -> Fallible<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).ok_or("no number of pages")?;
    Ok(pages.parse::<u64>()? * rustix::param::page_size() as u64)
}

/// Returns what threads `create` have returned in all, if `sum` is the sum of 0 to `many`, `times` times.
fn checked(many: u32, times: u32, sum: u64) -> Fallible<()> {
    let many = u64::from(many);
    let expected = many * (many - 1) / 2 * u64::from(times);
    match sum == expected {
        true => Ok(()),
        false => Err(format!("the threads returned {sum} instead of {expected}").into()),
    }
}

/// Returns an error unless each of `threads` threads has found its own bytes: `sum` is that of what they read.
fn found(threads: u32, sum: u64) -> Fallible<()> {
    let expected: u64 = (0..threads).map(|n| u64::from(n as u8)).sum();
    match sum == expected {
        true => Ok(()),
        false => Err(format!("the threads read {sum} instead of {expected}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every library does all that it can, and the results are right (each function checks its own).
    #[test]
    fn all_kinds_do_what_they_can() {
        let go = Kind::Go(option_env!("PEERS_NATIVE_GO"));
        let mut kinds = vec![Kind::Tanada(false), Kind::Tanada(true), Kind::Corosensei];
        kinds.extend([Kind::Tokio(true), Kind::Tokio(false), Kind::Os, Kind::May]);
        if go != Kind::Go(None) {
            kinds.push(go);
        }
        for kind in kinds {
            let mut light = kind.open(1).expect("it opens");
            let positive = |time: Fallible<Duration>| assert!(!time.expect("it runs").is_zero());
            positive(light.create(10, 100));
            positive(light.switch(3, 100));
            if kind.can(Do::PingPong, 1) {
                positive(light.ping_pong(100));
            }
            let alive = light.alive(1000).expect("it runs");
            assert!(!alive.time.is_zero());
            // The others of this process use memory that the first ones have left; goroutines are in a process of their own.
            let is_first = kind == Kind::Tanada(false) || kind == go;
            assert!(!is_first || alive.bytes >= 500 * OWN as u64, "{alive:?}");
        }
    }

    #[test]
    fn a_wrong_sum_is_found() {
        assert!(checked(3, 2, 6).is_ok() && checked(3, 2, 5).is_err());
        assert!(found(258, 255 * 128 + 1).is_ok() && found(2, 0).is_err());
    }
}
