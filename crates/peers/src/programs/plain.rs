//! Programs without tasks.

use super::{Counted, Field, Program, Swept, into_digest, sweep_rows};
use crate::Fallible;
use md5::Md5;
use tanada_workloads::h264::{Limits, decode_sequentially};

/// Tanada's decoder on one thread.
pub(crate) struct Sequential;

impl Program for Sequential {
    fn decode(&mut self, stream: &[u8], digest: Option<&mut Md5>) -> Fallible<Counted> {
        let sink = into_digest(digest);
        Counted::timed(|| Ok(decode_sequentially(stream, Limits::default(), sink)?.frames))
    }
}

/// The loop that one would write first.
pub(crate) struct Serial;

impl Program for Serial {
    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            field.each_sweep(sweeps, |shape, from, to| sweep_rows(shape, from, 0, to));
        }))
    }
}
