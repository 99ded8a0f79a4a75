//! How threads of a team wait for tasks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::team::Line;

/// Rounds in which a thread that found nothing spins before it yields its processor, and rounds in which it yields before it sleeps: about
/// 20 us, and then 200 us if no other thread wants the processor.
const SPINS: u32 = 100;
const YIELDS: u32 = 400;

/// The longest that a thread sleeps without looking.
const NAP_NS: i64 = 500_000;

/// The threads of a team that sleep.
pub(super) struct Sleep {
    sleepers: Line<AtomicU32>,
    /// Changes with each wake-up; what the threads sleep on.
    calls: AtomicU32,
    /// Whether a thread was woken and has not looked yet.
    waking: AtomicU32,
    crowded: bool,
}

/// Returns the number of processors that this process may use.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Sleep {
    pub(super) fn new(threads: u16) -> Sleep {
        Sleep {
            sleepers: Line::default(),
            calls: AtomicU32::new(0),
            waking: AtomicU32::new(0),
            crowded: usize::from(threads) > processors(),
        }
    }

    /// Waits a while; longer the larger `idle` is, which counts the rounds in which nothing was found. A thread sleeps only if `nothing`
    /// still returns true after it said that it is about to.
    pub(super) fn pause(&self, idle: &mut u32, nothing: impl Fn() -> bool) {
        *idle += 1;
        let (spins, yields) = if self.crowded {
            (4, 20)
        } else {
            (SPINS, YIELDS)
        };
        if *idle < spins {
            for _ in 0..(*idle).min(12) {
                std::hint::spin_loop();
            }
        } else if *idle < spins + yields {
            std::thread::yield_now();
        } else {
            self.sleep(nothing);
        }
    }

    #[cold]
    fn sleep(&self, nothing: impl Fn() -> bool) {
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        let calls = self.calls.load(Ordering::SeqCst);
        if nothing() {
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: NAP_NS,
            };
            // SAFETY: the address of a word that is there, and of a time.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.calls.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    calls,
                    &raw const time,
                );
            }
        }
        self.waking.store(0, Ordering::SeqCst);
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes a thread, because a task became ready.
    #[inline]
    pub(super) fn wake(&self) {
        if self.sleepers.0.load(Ordering::SeqCst) > 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        if self.waking.swap(1, Ordering::SeqCst) == 0 {
            self.call(1);
        }
    }

    /// Wakes all threads, because what a waiting one waits for may have come.
    #[inline]
    pub(super) fn wake_all(&self) {
        if self.sleepers.0.load(Ordering::SeqCst) > 0 {
            self.call(i32::MAX);
        }
    }

    #[cold]
    fn call(&self, threads: i32) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the address of a word that is there.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.calls.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                threads,
            );
        }
    }
}
