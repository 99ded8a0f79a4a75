//! Tasks of tokio: futures, which have no stack and can be suspended in `async` functions only.

use super::{Alive, Light, OWN, checked, found, resident};
use crate::Fallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, yield_now};

/// A runtime, on a worker of which a task measures: not on the thread that calls `block_on`, as the documentation advises.
pub(crate) struct Tokio(Runtime);

impl Tokio {
    pub(crate) fn open(workers: u16, one_thread: bool) -> Fallible<Tokio> {
        let runtime = match one_thread {
            true => Builder::new_current_thread().build()?,
            false => Builder::new_multi_thread()
                .worker_threads(usize::from(workers))
                .build()?,
        };
        Ok(Tokio(runtime))
    }

    /// Runs `work` in a task.
    fn inside<R: Send + 'static>(&self, work: impl Future<Output = R> + Send + 'static) -> R {
        let runtime = &self.0;
        runtime.block_on(async { tokio::spawn(work).await.expect("no panic") })
    }
}

async fn join<T>(task: JoinHandle<T>) -> T {
    task.await.expect("no panic")
}

impl Light for Tokio {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let (time, sum) = self.inside(async move {
            let start = Instant::now();
            let mut sum = 0;
            for _ in 0..times {
                if many == 1 {
                    sum += join(tokio::spawn(async { black_box(0_u64) })).await;
                    continue;
                }
                let spawn = |n| tokio::spawn(async move { u64::from(n) });
                let all: Vec<_> = (0..many).map(spawn).collect();
                for task in all {
                    sum += join(task).await;
                }
            }
            (start.elapsed(), sum)
        });
        checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        Ok(self.inside(async move {
            let start = Instant::now();
            let spawn = |_| {
                tokio::spawn(async move {
                    for _ in 0..times {
                        yield_now().await;
                    }
                })
            };
            let all: Vec<_> = (0..threads).map(spawn).collect();
            for task in all {
                join(task).await;
            }
            start.elapsed()
        }))
    }

    fn ping_pong(&mut self, times: u32) -> Fallible<Duration> {
        Ok(self.inside(async move {
            let (to, mut from_other) = mpsc::channel(1);
            let (back, mut from_this) = mpsc::channel(1);
            let other = tokio::spawn(async move {
                while let Some(message) = from_other.recv().await {
                    back.send(message).await.expect("it waits");
                }
            });
            let start = Instant::now();
            for n in 0..times {
                to.send(n).await.expect("it receives");
                assert_eq!(from_this.recv().await, Some(n));
            }
            let time = start.elapsed();
            drop(to);
            join(other).await;
            time
        }))
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let before = resident()?;
        let (time, bytes, sum) = self.inside(async move {
            let start = Instant::now();
            let waiting = Arc::new(AtomicU32::new(0));
            let gate = Arc::new(Semaphore::new(0));
            let spawn = |n: u32| {
                let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
                tokio::spawn(async move {
                    let own = black_box([n as u8; OWN]);
                    waiting.fetch_add(1, Ordering::Relaxed);
                    // It is closed when all wait.
                    let _ = gate.acquire().await;
                    u64::from(black_box(&own)[n as usize % OWN])
                })
            };
            let all: Vec<_> = (0..threads).map(spawn).collect();
            while waiting.load(Ordering::Relaxed) < threads {
                yield_now().await;
            }
            let bytes = resident().map_err(|error| error.to_string());
            gate.close();
            let mut sum = 0;
            for task in all {
                sum += join(task).await;
            }
            (start.elapsed(), bytes, sum)
        });
        found(threads, sum)?;
        let bytes = bytes?.saturating_sub(before);
        Ok(Alive { time, bytes })
    }
}
