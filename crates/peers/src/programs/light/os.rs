//! Threads of the operating system.

use super::{Alive, Light, OWN, checked, found, resident, timed};
use crate::Fallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, JoinHandle, yield_now};
use std::time::Duration;

/// Threads on the first `workers` hardware threads.
pub(crate) struct Os;

impl Os {
    pub(crate) fn open(workers: u16) -> Fallible<Os> {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let all = sched_getaffinity(None)?;
        let mut some = CpuSet::new();
        let here = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
        here.take(usize::from(workers))
            .for_each(|cpu| some.set(cpu));
        sched_setaffinity(None, &some)?;
        Ok(Os)
    }
}

/// Creates a thread with the smallest stack that is useful.
fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let builder = Builder::new().stack_size(32 << 10);
    builder.spawn(body).expect("a thread")
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

impl Light for Os {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let (time, sum) = timed(|| {
            let mut sum = 0;
            for _ in 0..times {
                let all: Vec<_> = (0..many).map(|n| spawn(move || u64::from(n))).collect();
                sum += all.into_iter().map(join).sum::<u64>();
            }
            sum
        });
        checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        let (time, ()) = timed(|| {
            let body = move || (0..times).for_each(|_| yield_now());
            let all: Vec<_> = (0..threads).map(|_| spawn(body)).collect();
            all.into_iter().for_each(join);
        });
        Ok(time)
    }

    fn ping_pong(&mut self, times: u32) -> Fallible<Duration> {
        let (to, from_other) = sync_channel(1);
        let (back, from_this) = sync_channel(1);
        let other = spawn(move || {
            while let Ok(message) = from_other.recv() {
                back.send(message).expect("it waits");
            }
        });
        let (time, ()) = timed(|| {
            for n in 0..times {
                to.send(n).expect("it receives");
                assert_eq!(from_this.recv(), Ok(n));
            }
        });
        drop(to);
        join(other);
        Ok(time)
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let before = resident()?;
        let (time, (bytes, sum)) = timed(|| {
            let waiting = Arc::new(AtomicU32::new(0));
            let gate = Arc::new((Mutex::new(false), Condvar::new()));
            let all: Vec<_> = (0..threads)
                .map(|n| {
                    let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
                    spawn(move || {
                        let own = black_box([n as u8; OWN]);
                        let mut open = gate.0.lock().expect("no panic");
                        waiting.fetch_add(1, Ordering::Relaxed);
                        while !*open {
                            open = gate.1.wait(open).expect("no panic");
                        }
                        u64::from(black_box(&own)[n as usize % OWN])
                    })
                })
                .collect();
            while waiting.load(Ordering::Relaxed) < threads {
                yield_now();
            }
            let bytes = resident();
            *gate.0.lock().expect("no panic") = true;
            gate.1.notify_all();
            (bytes, all.into_iter().map(join).sum())
        });
        found(threads, sum)?;
        let bytes = bytes?.saturating_sub(before);
        Ok(Alive { time, bytes })
    }
}
