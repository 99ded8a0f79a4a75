//! Programs without tasks.

use super::forks::{self, Inputs, Kernel};
use super::tanada::decode;
use super::{Counted, Field, Flat, Program, Steps, Stream, Swept, sweep_rows};
use crate::cases::Case;
use crate::{Fallible, native};
use md5::Md5;
use tanada_workloads::Way;

/// The workload of a case on one thread.
pub(crate) struct Sequential(pub(crate) &'static Case);

impl Program for Sequential {
    fn decode(&mut self, stream: &Stream, digest: Option<&mut Md5>) -> Fallible<Counted> {
        decode(self.0, Way::Sequential, stream, digest)
    }
}

/// The loop that one would write first.
pub(crate) struct Serial;

impl Program for Serial {
    fn cholesky(&mut self, _way: Flat, steps: &Steps) {
        steps.all().for_each(native::cholesky_step);
    }

    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        Ok(forks::run::<forks::Plain>(&mut (), kernel, inputs))
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            field.each_sweep(sweeps, |shape, from, to| sweep_rows(shape, from, 0, to));
        }))
    }
}
