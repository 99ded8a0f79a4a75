//! rayon, with a dependency count a task.

use super::{Field, Program, Swept, TASKS, predecessors, successors, sweep_rows};
use crate::{Fallible, native};
use rayon::prelude::*;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU32, Ordering};

fn counts() -> Box<[AtomicU32]> {
    (0..TASKS)
        .map(|at| AtomicU32::new(predecessors(at).count() as u32))
        .collect()
}

fn rearm(counts: &[AtomicU32], at: u32) {
    counts[at as usize].store(predecessors(at).count() as u32, Ordering::Relaxed);
}

/// What a worker does with task `at`, whose count is zero, and with what it releases.
pub(crate) type RunTask = for<'scope> fn(&Scope<'scope>, &'scope [AtomicU32], at: u32);

/// A pool, and how it runs a graph: [`spawned`] or [`inline`].
pub(crate) struct Rayon {
    pool: ThreadPool,
    counts: Box<[AtomicU32]>,
    run_task: RunTask,
}

impl Rayon {
    pub(crate) fn open(workers: u16, run_task: RunTask) -> Fallible<Rayon> {
        let pool = ThreadPoolBuilder::new().num_threads(usize::from(workers));
        Ok(Rayon {
            pool: pool.build()?,
            counts: Box::default(),
            run_task,
        })
    }
}

/// rayon as a program would use it: the thread that brings a count to zero spawns that task.
pub(crate) fn spawned<'scope>(scope: &Scope<'scope>, counts: &'scope [AtomicU32], at: u32) {
    rearm(counts, at);
    native::task(at);
    for next in successors(at) {
        if counts[next as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            scope.spawn(move |scope| spawned(scope, counts, next));
        }
    }
}

impl Program for Rayon {
    fn build(&mut self) {
        self.counts = counts();
    }

    fn run(&mut self, frames: u32) {
        let (counts, run_task) = (&self.counts, self.run_task);
        self.pool.install(|| {
            for _ in 0..frames {
                rayon::scope(|scope| run_task(scope, counts, 0));
            }
        });
    }

    fn discard(&mut self) {
        self.counts = Box::default();
    }

    fn region(&mut self) {
        let workers = self.pool.current_num_threads() as u32;
        self.pool.install(|| {
            (0..workers)
                .into_par_iter()
                .with_max_len(1)
                .for_each(native::task)
        });
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            self.pool.install(|| {
                field.each_sweep(sweeps, |shape, from, to| {
                    let rows = to.par_chunks_exact_mut(shape.1).enumerate();
                    rows.for_each(|(y, row)| sweep_rows(shape, from, y, row));
                });
            });
        }))
    }
}

fn release(count: &AtomicU32) -> bool {
    count.load(Ordering::Acquire) == 1 || count.fetch_sub(1, Ordering::AcqRel) == 1
}

/// A lower limit made by hand: of the released tasks the first runs at once, the others are spawned; a count that reads 1 needs no
/// atomic operation.
pub(crate) fn inline<'scope>(scope: &Scope<'scope>, counts: &'scope [AtomicU32], mut at: u32) {
    loop {
        rearm(counts, at);
        native::task(at);
        let mut first = None;
        for next in successors(at).filter(|&next| release(&counts[next as usize])) {
            match first {
                None => first = Some(next),
                Some(_) => scope.spawn(move |scope| inline(scope, counts, next)),
            }
        }
        match first {
            Some(next) => at = next,
            None => return,
        }
    }
}
