//! Independent pieces of work on several threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

/// Does pieces 0 to `count` - 1 on at most `threads` threads, or on the calling thread if the system allows no other, and returns when none
/// is running any more.
///
/// Each thread calls `worker` once and passes what it returns one number after the other; numbers are taken in order. The calling thread
/// calls `each` with every result as soon as there is one, and with `None` if there was none for 50 ms (unless it does the pieces itself).
/// After [`ControlFlow::Break`] no further piece begins; the results of running pieces still go to `each`.
///
/// # Panics
/// If a worker panics.
pub fn run<R: Send, W: FnMut(usize) -> R>(
    count: usize,
    threads: usize,
    worker: impl Fn() -> W + Sync,
    mut each: impl FnMut(Option<(usize, R)>) -> ControlFlow<()>,
) {
    const LOOK: Duration = Duration::from_millis(50);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for started in 0..threads.clamp(1, count.max(1)) {
            let (send, next, stop, worker) = (send.clone(), &next, &stop, &worker);
            let work = move || {
                let mut work = worker();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || send.send((number, work(number))).is_err() {
                        return;
                    }
                }
            };
            if Builder::new().spawn_scoped(scope, work).is_err() {
                // The system allows no more threads (`ulimit -u`): those that started do the work.
                if started == 0 {
                    alone(count, worker(), &mut each);
                }
                break;
            }
        }
        drop(send);
        loop {
            let result = match receive.recv_timeout(LOOK) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if each(result).is_break() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Does all pieces on the calling thread, until `each` breaks.
fn alone<R>(
    count: usize,
    mut work: impl FnMut(usize) -> R,
    each: &mut impl FnMut(Option<(usize, R)>) -> ControlFlow<()>,
) {
    for number in 0..count {
        if each(Some((number, work(number)))).is_break() {
            return;
        }
    }
}

/// Does pieces 0 to `count` - 1 as [`run`] does, and returns their results in order; `None` stands for a piece that did not begin. `each`
/// is called as in [`run`].
///
/// # Panics
/// If a piece panics.
pub fn collect<R: Send>(
    count: usize,
    threads: usize,
    piece: impl Fn(usize) -> R + Sync,
    mut each: impl FnMut(Option<(usize, &R)>) -> ControlFlow<()>,
) -> Vec<Option<R>> {
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    run(
        count,
        threads,
        || &piece,
        |ended| {
            let flow = each(ended.as_ref().map(|(number, result)| (*number, result)));
            if let Some((number, result)) = ended {
                results[number] = Some(result);
            }
            flow
        },
    );
    results
}

/// Returns the number of threads that this host runs at once.
pub fn host_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_by_workers_of_their_own() {
        for (count, threads) in [(0, 3), (1, 3), (100, 1), (100, 3), (100, 0)] {
            let mut done = vec![0; count];
            let worker = || {
                let mut own = 0;
                move |number: usize| {
                    own += 1;
                    (number, own)
                }
            };
            run(count, threads, worker, |result| {
                if let Some((number, (same, own))) = result {
                    assert!(number == same && (1..=count).contains(&own));
                    done[number] += 1;
                }
                ControlFlow::Continue(())
            });
            assert!(done.iter().all(|&times| times == 1), "{done:?}");
        }
    }

    #[test]
    fn after_a_break_nothing_begins() {
        let (begun, mut ended) = (AtomicUsize::new(0), Vec::new());
        let worker = || {
            |_| {
                begun.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        run(1_000_000, 2, worker, |result| {
            ended.extend(result.map(|(number, _)| number));
            if ended.len() < 5 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        assert!(ended.len() < 1_000_000);
        assert_eq!(ended.len(), begun.load(Ordering::Relaxed));
        ended.sort_unstable();
        assert!(
            ended
                .iter()
                .enumerate()
                .all(|(place, &number)| place == number)
        );
    }
}
