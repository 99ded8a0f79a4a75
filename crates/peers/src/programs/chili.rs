//! chili: fork-join in which a worker gives work away only when a heartbeat asks for it.

use super::forks::{self, Fork, Inputs, Kernel};
use super::{Field, Flat, Program, Shape, Swept, sweep_rows};
use crate::Fallible;
use chili::{Config, Scope, ThreadPool};
use std::num::NonZero;

/// A pool whose threads, the caller's among them, are the workers.
pub(crate) struct Chili {
    scope: Scope<'static>,
    workers: u32,
}

impl Chili {
    pub(crate) fn open(workers: u16) -> Chili {
        let config = Config {
            thread_count: NonZero::new(usize::from(workers)),
            ..Config::default()
        };
        // For the rest of the process, so that one scope can serve all regions.
        let pool: &'static ThreadPool = Box::leak(Box::new(ThreadPool::with_config(config)));
        Chili {
            scope: pool.scope(),
            workers: u32::from(workers),
        }
    }
}

/// Rows below which halving is not worth a join.
const FEW_ROWS: usize = 16;

fn rows(scope: &mut Scope<'_>, shape: Shape, from: &[f32], first: usize, to: &mut [f32]) {
    let count = to.len() / shape.1;
    if count <= FEW_ROWS {
        return sweep_rows(shape, from, first, to);
    }
    let (above, below) = to.split_at_mut(count / 2 * shape.1);
    scope.join(
        |scope| rows(scope, shape, from, first, above),
        |scope| rows(scope, shape, from, first + count / 2, below),
    );
}

/// Forks on chili.
struct Joins;

impl Fork for Joins {
    type Scope<'s> = Scope<'s>;

    const SECOND_FIRST: bool = true;

    #[inline]
    fn join<A: Send, B: Send>(
        scope: &mut Scope<'_>,
        first: impl FnOnce(&mut Scope<'_>) -> A + Send,
        second: impl FnOnce(&mut Scope<'_>) -> B + Send,
    ) -> (A, B) {
        scope.join(first, second)
    }
}

impl Program for Chili {
    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        Ok(forks::run::<Joins>(&mut self.scope, kernel, inputs))
    }

    fn region(&mut self) {
        forks::halves::<Joins>(&mut self.scope, 0, self.workers);
    }

    fn flat(&mut self, _flat: Flat, count: u32) {
        forks::halves::<Joins>(&mut self.scope, 0, count);
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            field.each_sweep(sweeps, |shape, from, to| {
                rows(&mut self.scope, shape, from, 0, to)
            });
        }))
    }
}
