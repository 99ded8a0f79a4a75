//! Dependences under loom, every interleaving of a few operations: the thread that creates tasks and those that end them meet at two words.
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-openmp --test loom_depend`
#![cfg(loom)]
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../src/tasks/sync.rs"]
mod sync;

#[allow(dead_code)]
#[path = "../src/tasks/depend.rs"]
mod depend;

#[allow(dead_code)]
#[path = "../src/tasks/memory.rs"]
mod memory;

#[allow(dead_code)]
#[path = "../src/tasks/task.rs"]
mod task;

use depend::{Edges, Kind, Table, close, free};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use memory::Pool;
use std::ptr::null_mut;
use sync::{AtomicU64, Ordering};
use task::Task;

const GUARD: i32 = 1 << 30;

struct Sent(*mut Task);
// SAFETY: the receiver is the one that ends the task.
unsafe impl Send for Sent {}

/// What tasks work on: loom sees if two accesses of which one writes are not ordered.
struct Work {
    cells: [UnsafeCell<u64>; 2],
    ran: AtomicU64,
}

impl Work {
    fn new() -> Arc<Work> {
        Arc::new(Work {
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
            ran: AtomicU64::new(0),
        })
    }

    /// Runs a task that is ready, and then those that it releases: its number says which cells it reads (bits 0 and 1) and writes (bits 2
    /// and 3).
    fn run(&self, pool: &mut Pool, task: *mut Task) {
        let mut ready = vec![task];
        while let Some(task) = ready.pop() {
            // SAFETY: this thread has the ready task alone; dependences order the accesses of cells.
            unsafe {
                let number = (*task).data.get() as usize;
                for (cell, value) in self.cells.iter().enumerate() {
                    if number >> cell & 1 == 1 {
                        value.with(|value| assert!(*value < 9));
                    }
                    if number >> (2 + cell) & 1 == 1 {
                        value.with_mut(|value| *value += 1);
                    }
                }
                self.ran.fetch_add(1, Ordering::Relaxed);
                close((*task).node.get(), |task| ready.push(task));
                free(task, pool);
            }
        }
    }
}

/// What the thread has that creates tasks.
struct Creator {
    table: Table,
    pool: Pool,
}

impl Creator {
    fn new() -> Creator {
        Creator {
            table: Table::new(),
            pool: Pool::new(),
        }
    }

    /// Creates a task that reads and writes cells. Returns it if it is ready and this thread has it.
    fn create(&mut self, reads: usize, writes: usize) -> Option<Sent> {
        let Creator { table, pool } = self;
        let (block, class) = pool.take(size_of::<Task>());
        let task = block.cast::<Task>();
        let kinds = [(reads, Kind::In), (writes, Kind::Out)];
        // SAFETY: the block is large enough; this thread is the only one that enters tasks, and has this one until it is ready.
        unsafe {
            task.write(Task::new(null_mut(), 1, 0, 0));
            (*task).class.set(class);
            (*task)
                .data
                .set((reads | writes << 2) as *mut std::ffi::c_void);
            (*task).predecessors.store(GUARD, Ordering::Relaxed);
            let node = table.node();
            (*task).node.set(node);
            let mut edges = Edges::of(task);
            for (cells, kind) in kinds {
                for cell in (0..2).filter(|cell| cells >> cell & 1 == 1) {
                    table.enter(8 + 8 * cell, kind, node, |before| edges.add(before, pool));
                }
            }
            let guard = GUARD - edges.count() as i32;
            let left = (*task).predecessors.fetch_sub(guard, Ordering::AcqRel) - guard;
            (left == 0).then_some(Sent(task))
        }
    }
}

/// Starts a thread that runs a task, and what follows.
fn start(work: &Arc<Work>, task: Option<Sent>) -> thread::JoinHandle<()> {
    let work = Arc::clone(work);
    let task = task.expect("it waits for none");
    thread::spawn(move || {
        let Sent(task) = task;
        work.run(&mut Pool::new(), task);
    })
}

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// While a task ends, two that depend on it are created, and one on the first of these.
#[test]
fn a_task_that_ends_while_others_come_to_wait_for_it() {
    bounded(4, || {
        let (work, mut creator) = (Work::new(), Creator::new());
        let first = creator.create(0, 1);
        let thread = start(&work, first);
        for (reads, writes) in [(1, 2), (0, 1), (2, 1)] {
            if let Some(Sent(task)) = creator.create(reads, writes) {
                work.run(&mut creator.pool, task);
            }
        }
        thread.join().unwrap();
        assert_eq!(work.ran.load(Ordering::Relaxed), 4);
        creator.table.clear();
    });
}

/// A task with two predecessors, which two threads end at the same time.
#[test]
fn the_last_of_two_predecessors_makes_a_task_ready() {
    bounded(3, || {
        let (work, mut creator) = (Work::new(), Creator::new());
        let (one, other) = (creator.create(0, 1), creator.create(0, 2));
        let threads = [start(&work, one), start(&work, other)];
        if let Some(Sent(task)) = creator.create(1, 2) {
            work.run(&mut creator.pool, task);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(work.ran.load(Ordering::Relaxed), 3);
        creator.table.clear();
    });
}

/// The table forgets a task while it ends: one of the two frees the node, which the next task then has.
#[test]
fn a_node_is_freed_once() {
    bounded(4, || {
        let (work, mut creator) = (Work::new(), Creator::new());
        let first = creator.create(0, 1);
        let thread = start(&work, first);
        creator.table.clear();
        // They wait for nothing that was forgotten, so they use the other cell.
        for _ in 0..2 {
            if let Some(Sent(task)) = creator.create(0, 2) {
                work.run(&mut creator.pool, task);
            }
        }
        thread.join().unwrap();
        assert_eq!(work.ran.load(Ordering::Relaxed), 3);
        creator.table.clear();
    });
}
