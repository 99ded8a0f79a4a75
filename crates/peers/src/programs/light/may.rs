//! may: stackful coroutines on threads that steal from each other.

use super::{Alive, Light, OWN, checked, found, resident, timed};
use crate::Fallible;
use may::coroutine::{JoinHandle, sleep, yield_now};
use may::sync::{SyncFlag, spsc};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The scheduler of the process: there is one.
pub(crate) struct May;

impl May {
    pub(crate) fn open(workers: u16) -> May {
        // As many stacks are kept for further coroutines as the cases use at once; all else is as its documentation has it.
        may::config()
            .set_workers(usize::from(workers))
            .set_pool_capacity(1024);
        May
    }
}

/// Runs `work` in a coroutine.
fn inside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    may::go!(work).join().expect("no panic")
}

fn join<T>(coroutine: JoinHandle<T>) -> T {
    coroutine.join().expect("no panic")
}

impl Light for May {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let (time, sum) = inside(move || {
            timed(|| {
                let mut sum = 0;
                for _ in 0..times {
                    if many == 1 {
                        sum += join(may::go!(|| black_box(0_u64)));
                        continue;
                    }
                    let all: Vec<_> = (0..many).map(|n| may::go!(move || u64::from(n))).collect();
                    sum += all.into_iter().map(join).sum::<u64>();
                }
                sum
            })
        });
        checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        let (time, ()) = inside(move || {
            timed(|| {
                let all: Vec<_> = (0..threads)
                    .map(|_| may::go!(move || (0..times).for_each(|_| yield_now())))
                    .collect();
                all.into_iter().for_each(join);
            })
        });
        Ok(time)
    }

    fn ping_pong(&mut self, times: u32) -> Fallible<Duration> {
        let (time, ()) = inside(move || {
            let (to, from_other) = spsc::channel();
            let (back, from_this) = spsc::channel();
            let other = may::go!(move || {
                while let Ok(message) = from_other.recv() {
                    back.send(message).expect("it waits");
                }
            });
            let time = timed(|| {
                for n in 0..times {
                    to.send(n).expect("it receives");
                    assert_eq!(from_this.recv(), Ok(n));
                }
            });
            drop(to);
            join(other);
            time
        });
        Ok(time)
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let before = resident()?;
        let (time, (bytes, sum)) = inside(move || {
            timed(|| {
                let waiting = Arc::new(AtomicU32::new(0));
                let gate = Arc::new(SyncFlag::new());
                let all: Vec<_> = (0..threads)
                    .map(|n| {
                        let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
                        may::go!(move || {
                            let own = black_box([n as u8; OWN]);
                            waiting.fetch_add(1, Ordering::Relaxed);
                            gate.wait();
                            u64::from(black_box(&own)[n as usize % OWN])
                        })
                    })
                    .collect();
                while waiting.load(Ordering::Relaxed) < threads {
                    // With one worker, a coroutine that yields all the time keeps the others from starting.
                    sleep(Duration::from_millis(1));
                }
                let bytes = resident().map_err(|error| error.to_string());
                gate.fire();
                (bytes, all.into_iter().map(join).sum())
            })
        });
        found(threads, sum)?;
        let bytes = bytes?.saturating_sub(before);
        Ok(Alive { time, bytes })
    }
}
