//! The sequential decoder.

use crate::decoder::{Decoder, Limits};
use crate::error::Error;
use crate::frame::Frame;
use crate::nal::NalStream;
use crate::probe::{NoProbe, Probe};

/// What [`decode`] found in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pictures decoded.
    pub pictures: u64,
    /// Frames given to the sink.
    pub frames: u64,
    /// Macroblocks that were lost and concealed.
    pub concealed: u64,
    /// Errors found.
    pub error_count: u64,
    /// The first [`Summary::KEPT_ERRORS`] of them.
    pub errors: Vec<Error>,
}

impl Summary {
    /// So many errors are kept; further ones are only counted.
    pub const KEPT_ERRORS: usize = 100;

    /// Counts an error, and keeps it if it is one of the first.
    pub fn note(&mut self, error: Error) {
        self.error_count += 1;
        if self.errors.len() < Summary::KEPT_ERRORS {
            self.errors.push(error);
        }
    }
}

/// Decodes an Annex B stream on this thread and gives each shown frame to `sink`, in output order.
///
/// Decoding goes on behind an error. Fails with the first error when no picture could be decoded at all; else errors are
/// in the [`Summary`].
pub fn decode(stream: &[u8], limits: Limits, sink: impl FnMut(&Frame)) -> Result<Summary, Error> {
    decode_with(stream, limits, &mut NoProbe, sink)
}

/// [`decode`] with a probe that sees what reconstruction computes, reads and writes.
pub fn decode_with<P: Probe>(
    stream: &[u8],
    limits: Limits,
    probe: &mut P,
    mut sink: impl FnMut(&Frame),
) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut decoder = Decoder::new(limits);
    let mut units = NalStream::new(stream);
    while let Some(picture) = decoder.next_picture(&mut units) {
        match picture {
            Ok(job) => {
                job.reconstruct_with(probe);
                summary.pictures += 1;
                summary.concealed += u64::from(job.concealed());
            }
            Err(error) => summary.note(error),
        }
        while let Some(frame) = decoder.next_output() {
            summary.frames += 1;
            sink(&frame);
        }
    }
    while let Some(frame) = decoder.next_output() {
        summary.frames += 1;
        sink(&frame);
    }
    match summary.errors.first() {
        Some(&error) if summary.pictures == 0 => Err(error),
        None if summary.pictures == 0 => Err(Error::NoPicture {
            offset: stream.len() as u64,
        }),
        _ => Ok(summary),
    }
}
