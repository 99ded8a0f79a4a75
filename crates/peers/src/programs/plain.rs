//! Programs without tasks.

use super::{Counted, Field, Program, Swept, sweep_rows};
use crate::Fallible;
use md5::{Digest as _, Md5};
use std::time::Instant;
use tanada_workloads::h264::{Limits, decode_sequentially};

/// Tanada's decoder on one thread.
pub(crate) struct Sequential;

impl Program for Sequential {
    fn decode(&mut self, stream: &[u8], mut digest: Option<&mut Md5>) -> Fallible<Counted> {
        let start = Instant::now();
        let summary = decode_sequentially(stream, Limits::default(), |frame| {
            if let Some(digest) = &mut digest {
                frame.visit_rows(|row| digest.update(row));
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        Ok(Counted {
            count: summary?.frames,
            seconds,
        })
    }
}

/// The loop that everybody would write first.
pub(crate) struct Serial;

impl Program for Serial {
    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            let (size, stride) = (field.size, field.stride);
            field.each_sweep(sweeps, |from, to| sweep_rows(size, stride, from, 0, to));
        }))
    }
}
