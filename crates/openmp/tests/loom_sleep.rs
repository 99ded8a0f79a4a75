//! Threads that sleep under loom, every interleaving of a few operations: no wake-up is lost, although no thread ever wakes by itself here.
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-openmp --test loom_sleep`
#![cfg(loom)]

#[allow(dead_code, unused_imports)]
#[path = "../src/tasks/sync.rs"]
mod sync;

#[allow(dead_code)]
#[path = "../src/tasks/sleep.rs"]
mod sleep;

/// The system's way to sleep, without an end of the sleep by time.
mod futex {
    use super::sync::{AtomicU32, Ordering, total_order};
    use loom::sync::{Condvar, Mutex};

    /// A thread that sleeps: its bits, and whether it was woken.
    #[derive(Default)]
    struct Queue {
        sleepers: Vec<(u32, bool)>,
    }

    loom::lazy_static! {
        static ref QUEUE: Mutex<Queue> = Mutex::new(Queue::default());
        static ref WOKEN: Condvar = Condvar::new();
    }

    pub(super) fn wait(word: &AtomicU32, value: u32, mask: u32, _ns: i64) {
        let mut queue = QUEUE.lock().unwrap();
        total_order();
        if word.load(Ordering::SeqCst) != value {
            return;
        }
        let place = queue.sleepers.len();
        queue.sleepers.push((mask, false));
        while !queue.sleepers[place].1 {
            queue = WOKEN.wait(queue).unwrap();
        }
    }

    pub(super) fn wake(_word: &AtomicU32, threads: i32, mask: u32) {
        let mut queue = QUEUE.lock().unwrap();
        let fits = |sleeper: &&mut (u32, bool)| !sleeper.1 && sleeper.0 & mask != 0;
        let sleepers = queue.sleepers.iter_mut().filter(fits);
        sleepers
            .take(threads as usize)
            .for_each(|sleeper| sleeper.1 = true);
        drop(queue);
        WOKEN.notify_all();
    }
}

use loom::sync::Arc;
use loom::thread;
use sleep::{For, Sleep};
use sync::{AtomicU64, Ordering, total_order};

/// Tasks in one queue, whose operations are as the policies promise: in one order with all others of that kind.
struct Team {
    sleep: Sleep,
    tasks: AtomicU64,
    ran: AtomicU64,
    total: u64,
}

impl Team {
    fn new(total: u64) -> Arc<Team> {
        Arc::new(Team {
            sleep: Sleep::new(2, 2),
            tasks: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            total,
        })
    }

    fn push(&self) {
        self.tasks.fetch_add(1, Ordering::SeqCst);
        total_order();
        self.sleep.wake();
    }

    fn take(&self) -> bool {
        total_order();
        let tasks = self.tasks.load(Ordering::SeqCst);
        tasks > 0
            && (self.tasks)
                .compare_exchange(tasks, tasks - 1, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    fn all_ran(&self) -> bool {
        total_order();
        self.ran.load(Ordering::SeqCst) == self.total
    }

    /// As a thread at a barrier.
    fn serve(&self) {
        loop {
            if self.take() {
                self.ran.fetch_add(1, Ordering::SeqCst);
                total_order();
                if self.all_ran() {
                    self.sleep.wake_all();
                }
            } else if self.all_ran() {
                return;
            } else {
                self.sleep.sleep(For::Barrier, || {
                    total_order();
                    self.tasks.load(Ordering::SeqCst) == 0 && !self.all_ran()
                });
            }
        }
    }
}

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// More tasks than one, because a wake-up leaves a word behind that may hinder the next one.
#[test]
fn each_task_wakes_the_thread_that_sleeps() {
    bounded(4, || {
        let team = Team::new(3);
        let serves = thread::spawn({
            let team = Arc::clone(&team);
            move || team.serve()
        });
        for _ in 0..3 {
            team.push();
        }
        serves.join().unwrap();
    });
}

#[test]
fn two_sleepers_run_two_tasks_and_both_come_to_the_end() {
    bounded(3, || {
        let team = Team::new(2);
        let serve = || {
            let team = Arc::clone(&team);
            thread::spawn(move || team.serve())
        };
        let threads = [serve(), serve()];
        team.push();
        team.push();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A task that waits for two children, which end in another thread.
#[test]
fn who_waits_for_children_is_woken_when_the_last_has_ended() {
    bounded(4, || {
        let team = Team::new(2);
        let children = thread::spawn({
            let team = Arc::clone(&team);
            move || {
                for _ in 0..2 {
                    team.ran.fetch_add(1, Ordering::SeqCst);
                    total_order();
                    team.sleep.wake_waiting();
                }
            }
        });
        while !team.all_ran() {
            team.sleep.sleep(For::Children, || !team.all_ran());
        }
        children.join().unwrap();
    });
}
