//! rayon, with a dependency count a task.

use super::forks::{self, Fork, Inputs, Kernel};
use super::{
    Edges, Field, Flat, Growth, Program, Steps, Swept, TASKS, predecessors, successors, sweep_rows,
};
use crate::{Fallible, native};
use rayon::prelude::*;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU32, Ordering};

/// A wavefront with a dependency count for each task.
pub(crate) struct Wave {
    edges: Edges,
    counts: Box<[AtomicU32]>,
}

impl Wave {
    fn new(edges: Edges) -> Wave {
        let count = |at| AtomicU32::new(predecessors(at, edges).count() as u32);
        let counts = (0..TASKS).map(count).collect();
        Wave { edges, counts }
    }

    /// Sets the count of `at` for the next frame.
    fn rearm(&self, at: u32) {
        let count = predecessors(at, self.edges).count() as u32;
        self.counts[at as usize].store(count, Ordering::Relaxed);
    }
}

/// What a worker does with task `at`, whose count is zero, and with what it releases.
pub(crate) type RunTask = for<'scope> fn(&Scope<'scope>, &'scope Wave, at: u32);

/// A pool, and how it runs a graph: [`spawned`] or [`inline`].
pub(crate) struct Rayon {
    pool: ThreadPool,
    wave: Option<Wave>,
    run_task: RunTask,
}

impl Rayon {
    pub(crate) fn open(workers: u16, run_task: RunTask) -> Fallible<Rayon> {
        Rayon::build(workers, run_task, |pool| pool)
    }

    /// As [`Rayon::open`], with this thread as a worker.
    pub(crate) fn here(workers: u16) -> Fallible<Rayon> {
        Rayon::build(workers, spawned, ThreadPoolBuilder::use_current_thread)
    }

    fn build(
        workers: u16,
        run_task: RunTask,
        how: impl FnOnce(ThreadPoolBuilder) -> ThreadPoolBuilder,
    ) -> Fallible<Rayon> {
        let pool = ThreadPoolBuilder::new().num_threads(usize::from(workers));
        Ok(Rayon {
            pool: how(pool).build()?,
            wave: None,
            run_task,
        })
    }
}

/// rayon as a program would use it: the thread that brings a count to zero spawns that task.
pub(crate) fn spawned<'scope>(scope: &Scope<'scope>, wave: &'scope Wave, at: u32) {
    wave.rearm(at);
    native::task(at);
    for next in successors(at, wave.edges) {
        if wave.counts[next as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            scope.spawn(move |scope| spawned(scope, wave, next));
        }
    }
}

fn leaves(scope: &Scope<'_>, tasks: u32) {
    for at in 0..tasks {
        scope.spawn(move |_| native::task(at));
    }
}

fn chain(scope: &Scope<'_>, at: u32, tasks: u32) {
    if at < tasks {
        scope.spawn(move |scope| {
            native::task(at);
            chain(scope, at + 1, tasks);
        });
    }
}

fn tree(scope: &Scope<'_>, at: u32, tasks: u32) {
    if at < tasks {
        scope.spawn(move |scope| {
            native::task(at);
            tree(scope, 2 * at + 1, tasks);
            tree(scope, 2 * at + 2, tasks);
        });
    }
}

/// Forks on rayon.
struct Joins;

impl Fork for Joins {
    type Scope<'s> = ();

    #[inline]
    fn join<A: Send, B: Send>(
        (): &mut (),
        first: impl FnOnce(&mut ()) -> A + Send,
        second: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        rayon::join(|| first(&mut ()), || second(&mut ()))
    }
}

impl Program for Rayon {
    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        Ok(self
            .pool
            .install(|| forks::run::<Joins>(&mut (), kernel, inputs)))
    }

    fn build(&mut self, edges: Edges) {
        self.wave = Some(Wave::new(edges));
    }

    fn run(&mut self, frames: u32) {
        let wave = self.wave.as_ref().expect("built before it is run");
        let run_task = self.run_task;
        self.pool.install(|| {
            for _ in 0..frames {
                rayon::scope(|scope| run_task(scope, wave, 0));
            }
        });
    }

    fn discard(&mut self) {
        self.wave = None;
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

    fn flat(&mut self, flat: Flat, tasks: u32) {
        match flat {
            Flat::Template => self
                .pool
                .install(|| (0..tasks).into_par_iter().for_each(native::task)),
            Flat::Scope => self.grow(Growth::Outside, tasks),
        }
    }

    fn grow(&mut self, shape: Growth, tasks: u32) {
        match shape {
            Growth::Chain => self.pool.scope(|scope| chain(scope, 0, tasks)),
            Growth::Tree => self.pool.scope(|scope| tree(scope, 0, tasks)),
            Growth::Worker => self.pool.scope(|scope| leaves(scope, tasks)),
            Growth::Outside => self.pool.in_place_scope(|scope| leaves(scope, tasks)),
        }
    }

    /// By loops: of each column first the diagonal, then the tiles below, then all products with these.
    fn cholesky(&mut self, _way: Flat, steps: &Steps) {
        self.pool.install(|| {
            for k in 0..steps.tiles {
                let column = Vec::from_iter(steps.last(k));
                native::cholesky_step(column[0]);
                column[1..]
                    .par_iter()
                    .copied()
                    .for_each(native::cholesky_step);
                let products = Vec::from_iter(steps.products(k));
                products.par_iter().copied().for_each(native::cholesky_step);
            }
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

/// Tasks of the Cholesky factorisation on rayon: the thread that brings a step's count to zero spawns it.
pub(crate) struct CholeskyCounters {
    pool: ThreadPool,
    counts: Box<[AtomicU32]>,
}

impl CholeskyCounters {
    pub(crate) fn open(workers: u16) -> Fallible<CholeskyCounters> {
        let Rayon { pool, .. } = Rayon::open(workers, spawned)?;
        let counts = Box::new([]);
        Ok(CholeskyCounters { pool, counts })
    }
}

fn counted_step<'scope>(
    scope: &Scope<'scope>,
    steps: Steps,
    counts: &'scope [AtomicU32],
    at: [u32; 3],
) {
    native::cholesky_step(at);
    for next in steps.after(at) {
        if release(&counts[steps.number(next)]) {
            scope.spawn(move |scope| counted_step(scope, steps, counts, next));
        }
    }
}

impl Program for CholeskyCounters {
    fn prepare_cholesky(&mut self, _way: Flat, &steps: &Steps) {
        let mut counts = vec![0; steps.len()];
        for at in steps.all() {
            counts[steps.number(at)] = steps.before(at).count() as u32;
        }
        self.counts = counts.into_iter().map(AtomicU32::new).collect();
    }

    fn cholesky(&mut self, _way: Flat, &steps: &Steps) {
        let counts = &*self.counts;
        self.pool
            .scope(|scope| counted_step(scope, steps, counts, [0, 0, 0]));
    }
}

fn release(count: &AtomicU32) -> bool {
    count.load(Ordering::Acquire) == 1 || count.fetch_sub(1, Ordering::AcqRel) == 1
}

/// A lower limit made by hand: of the released tasks the first runs at once, the others are spawned; a count that reads 1 needs no
/// atomic operation.
pub(crate) fn inline<'scope>(scope: &Scope<'scope>, wave: &'scope Wave, mut at: u32) {
    loop {
        wave.rearm(at);
        native::task(at);
        let mut first = None;
        let released = |next: &u32| release(&wave.counts[*next as usize]);
        for next in successors(at, wave.edges).filter(released) {
            match first {
                None => first = Some(next),
                Some(_) => scope.spawn(move |scope| inline(scope, wave, next)),
            }
        }
        match first {
            Some(next) => at = next,
            None => return,
        }
    }
}
