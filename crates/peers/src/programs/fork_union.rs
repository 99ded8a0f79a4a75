//! fork_union: threads that spin between parallel loops.

use super::{Field, Flat, Program, Swept, sweep_rows};
use crate::{Fallible, native};
use fork_union::ThreadPool;
use std::sync::Mutex;

/// A pool whose threads, the caller's among them, are the workers.
pub(crate) struct ForkUnion(ThreadPool);

impl ForkUnion {
    pub(crate) fn open(workers: u16) -> Fallible<ForkUnion> {
        let pool = ThreadPool::try_spawn(usize::from(workers));
        Ok(ForkUnion(pool.map_err(|error| format!("{error:?}"))?))
    }
}

impl Program for ForkUnion {
    fn region(&mut self) {
        drop(self.0.for_threads(|thread, _| native::task(thread as u32)));
    }

    fn flat(&mut self, _flat: Flat, tasks: u32) {
        drop(
            self.0
                .for_n(tasks as usize, |at| native::task(at.task_index as u32)),
        );
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            let band = size.div_ceil(self.0.threads());
            field.each_sweep(sweeps, |shape, from, to| {
                // A lock that only its owner takes: the way to give each thread its part without unsafe code.
                let bands: Vec<Mutex<&mut [f32]>> =
                    to.chunks_mut(band * shape.1).map(Mutex::new).collect();
                drop(self.0.for_threads(|thread, _| {
                    if let Some(rows) = bands.get(thread) {
                        let mut rows = rows.lock().expect("no thread panicked");
                        sweep_rows(shape, from, thread * band, &mut rows);
                    }
                }));
            });
        }))
    }
}
