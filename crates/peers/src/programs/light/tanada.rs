//! Tanada's threads.

use super::{Alive, Light, OWN, checked, found, resident, timed};
use crate::Fallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tanada_runtime::Pool;
use tanada_runtime::thread::{self, Builder, JoinHandle, sync};

/// A pool, in which a thread measures.
pub(crate) struct Tanada {
    pool: Pool,
    untied: bool,
}

/// Creates a thread that may go on with another worker if `untied`.
#[inline]
#[allow(unsafe_code)]
fn spawn<T: Send + 'static>(
    untied: bool,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    match untied {
        false => thread::spawn(body),
        // SAFETY: what is on the stacks here while they wait is `Send`, and nothing refers to a variable of the OS thread.
        true => unsafe { Builder::new().spawn_untied(body) }.expect("a stack"),
    }
}

impl Tanada {
    pub(crate) fn open(workers: u16, untied: bool) -> Fallible<Tanada> {
        let pool = Pool::builder().workers(workers.into()).build()?;
        Ok(Tanada { pool, untied })
    }

    /// Runs `work` in a thread.
    fn inside<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Fallible<R> {
        let thread = Builder::new().pool(&self.pool).spawn(work)?;
        Ok(thread.join().expect("no panic"))
    }
}

impl Light for Tanada {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let untied = self.untied;
        let (time, sum) = self.inside(move || {
            timed(|| {
                let mut sum = 0;
                for _ in 0..times {
                    if many == 1 {
                        sum += spawn(untied, || black_box(0_u64)).join().expect("no panic");
                        continue;
                    }
                    let threads = (0..many).map(|n| spawn(untied, move || u64::from(n)));
                    let threads: Vec<_> = threads.collect();
                    sum += (threads.into_iter())
                        .map(|thread| thread.join().expect("no panic"))
                        .sum::<u64>();
                }
                sum
            })
        })?;
        checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        let untied = self.untied;
        let (time, ()) = self.inside(move || {
            timed(|| {
                let body = move || (0..times).for_each(|_| thread::yield_now());
                let threads: Vec<_> = (0..threads).map(|_| spawn(untied, body)).collect();
                (threads.into_iter()).for_each(|thread| thread.join().expect("no panic"));
            })
        })?;
        Ok(time)
    }

    fn ping_pong(&mut self, times: u32) -> Fallible<Duration> {
        let untied = self.untied;
        let (time, ()) = self.inside(move || {
            let (to, from_other) = sync::bounded(1);
            let (back, from_this) = sync::bounded(1);
            let other = spawn(untied, move || {
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
            other.join().expect("no panic");
            time
        })?;
        Ok(time)
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let untied = self.untied;
        self.inside(move || {
            let before = resident().map_err(|error| error.to_string())?;
            let (time, (bytes, sum)) = timed(|| {
                let waiting = Arc::new(AtomicU32::new(0));
                let (gate, opened) = sync::bounded::<()>(1);
                let all: Vec<_> = (0..threads)
                    .map(|n| {
                        let (waiting, opened) = (Arc::clone(&waiting), opened.clone());
                        spawn(untied, move || {
                            let own = black_box([n as u8; OWN]);
                            waiting.fetch_add(1, Ordering::Relaxed);
                            // It is never sent anything.
                            let _ = opened.recv();
                            u64::from(black_box(&own)[n as usize % OWN])
                        })
                    })
                    .collect();
                while waiting.load(Ordering::Relaxed) < threads {
                    thread::yield_now();
                }
                let bytes = resident().map(|now| now.saturating_sub(before));
                drop(gate);
                let sum = (all.into_iter())
                    .map(|thread| thread.join().expect("no panic"))
                    .sum();
                (bytes.map_err(|error| error.to_string()), sum)
            });
            found(threads, sum).map_err(|error| error.to_string())?;
            Ok::<_, String>(Alive {
                time,
                bytes: bytes?,
            })
        })?
        .map_err(Into::into)
    }
}
