//! Checks of the whole process: progress, threads, memory.

use crate::ledger::PROGRESS;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The case that runs, as the watchdog knows it.
#[derive(Default)]
struct Watched {
    /// The command that runs the case again.
    replay: String,
    /// Number of cases that have begun.
    case: u64,
}

/// Ends the process if nothing happens for too long.
pub(crate) struct Watchdog(Arc<Mutex<Watched>>);

impl Watchdog {
    /// Starts and returns the watch, which goes on to the end of the process. If no body and no case begins for `limit`, the process ends.
    pub(crate) fn start(limit: Duration) -> std::io::Result<Watchdog> {
        let watched: Arc<Mutex<Watched>> = Arc::default();
        let seen = Arc::clone(&watched);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || watch(&seen, limit))?;
        Ok(Watchdog(watched))
    }

    /// Reports that a case begins, which the command `replay` runs again.
    pub(crate) fn case(&self, replay: &str) {
        let mut watched = self.0.lock();
        watched.replay = replay.to_owned();
        watched.case += 1;
    }
}

fn watch(watched: &Mutex<Watched>, limit: Duration) {
    let (mut seen, mut since) = ((0, 0), Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let state = watched.lock();
        let now = (state.case, PROGRESS.load(Relaxed));
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > limit && state.case > 0 {
            let (seconds, again, threads) = (limit.as_secs(), &state.replay, threads());
            eprintln!(
                "tanada-soak: HANGS: nothing happened for {seconds} s; again: {again}\n{threads}"
            );
            std::process::abort();
        }
    }
}

/// Returns name, state and place in the kernel of every thread of this process.
fn threads() -> String {
    let folder = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let threads = folder.flatten().map(|entry| {
        let read = |name: &str| {
            let text = std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let stat = read("stat");
        let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| &rest[..1]);
        let number = entry.file_name().to_string_lossy().into_owned();
        let (name, place) = (read("comm"), read("wchan"));
        format!("  thread {number} {name}: {state} {place}\n")
    });
    threads.collect()
}

/// Returns the number of threads of this process; `None` if the system does not show it.
fn count_threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Waits until there are at most `most` threads. Returns a finding if that takes too long. (The system shows a thread that was joined, or a
/// worker that dropped the last handle of its pool, for a moment longer.)
pub(crate) fn threads_left(most: usize) -> Option<String> {
    let start = Instant::now();
    while let Some(now) = count_threads().filter(|&now| now > most) {
        if start.elapsed() > Duration::from_secs(20) {
            let threads = threads();
            return Some(format!(
                "{now} threads are left, and {most} were there before:\n{threads}"
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Returns the present number of threads, as a base for [`threads_left`].
pub(crate) fn base_threads() -> usize {
    count_threads().unwrap_or(usize::MAX)
}

/// Returns the resident memory of this process in KiB; `None` if the system does not show it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Resident memory after each case.
#[derive(Default)]
pub(crate) struct Memory(Vec<u64>);

/// The shortest run whose memory is checked: before, allocator and sanitizer still grow.
const WARM: Duration = Duration::from_secs(60);

impl Memory {
    pub(crate) fn look(&mut self) {
        self.0.extend(resident());
    }

    /// Returns the maximum in the first third and the minimum in the last third, in KiB.
    pub(crate) fn growth(&self) -> Option<(u64, u64)> {
        let third = self.0.len() / 3;
        let first = self.0[..third].iter().max()?;
        let last = self.0[self.0.len() - third..].iter().min()?;
        Some((*first, *last))
    }

    /// Returns a finding if memory grows: the minimum at the end is far above the maximum at the beginning.
    pub(crate) fn finding(&self, took: Duration) -> Option<String> {
        let (first, last) = self.growth().filter(|_| took >= WARM)?;
        let most = first + first / 4 + (16 << 10);
        (last > most).then(|| {
            format!("memory grows: at most {first} KiB in the first third, at least {last} KiB in the last")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_without_end_is_found_and_settled_growth_is_not() {
        let leaks = Memory((0..1000).map(|case| 100_000 + case * 1000).collect());
        assert!(leaks.finding(WARM).is_some());
        let settles = Memory(
            (0..1000)
                .map(|case| 20_000 + 90_000 * case.min(200) / 200)
                .collect(),
        );
        assert_eq!(settles.finding(WARM), None);
        assert_eq!(leaks.finding(Duration::from_secs(20)), None);
    }

    #[test]
    fn the_system_says_what_is_watched() {
        assert!(resident().is_some_and(|kib| kib > 100));
        assert!(base_threads() >= 1);
        assert!(threads().contains(": "));
        assert_eq!(threads_left(usize::MAX), None);
    }
}
