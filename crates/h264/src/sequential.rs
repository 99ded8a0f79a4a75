//! The sequential decoder.

use crate::decoder::{Decoder, Limits};
use crate::error::{Error, Fault};
use crate::frame::Frame;
use crate::job::Job;
use crate::nal::NalStream;
use crate::probe::Probe;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// What [`decode`] found in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pictures decoded.
    pub pictures: u64,
    /// Frames passed to the sink.
    pub frames: u64,
    /// Lost macroblocks, which were concealed.
    pub concealed: u64,
    /// Errors found.
    pub error_count: u64,
    /// The first [`Summary::KEPT_ERRORS`] errors.
    pub errors: Vec<Error>,
}

impl Summary {
    /// The number of errors that are kept; further ones are only counted.
    pub const KEPT_ERRORS: usize = 100;

    /// Counts an error, and keeps it if it is among the first.
    pub fn note(&mut self, error: Error) {
        self.error_count += 1;
        if self.errors.len() < Summary::KEPT_ERRORS {
            self.errors.push(error);
        }
    }

    /// Returns the result of a decoding that ended: itself if any picture could be decoded.
    ///
    /// # Errors
    /// If no picture could be decoded: the first error, or [`Fault::NoPicture`] at `length`, the stream's length in bytes.
    pub fn into_result(self, length: usize) -> Result<Summary, Error> {
        if self.pictures > 0 {
            return Ok(self);
        }
        let nothing = Fault::NoPicture.at(length as u64);
        Err(self.errors.first().copied().unwrap_or(nothing))
    }
}

/// The events of [`decode_steps`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Step<'a> {
    /// A picture is reconstructed. Pictures come in decoding order.
    Picture(&'a Job),
    /// An error was found; decoding continues behind it.
    Error(&'a Error),
    /// A frame is shown. Frames come in output order.
    Frame(&'a Frame),
}

/// Decodes an Annex B stream on this thread, passes each shown frame to `sink`, in output order, and returns a summary.
///
/// Decoding continues behind an error, which is then in the [`Summary`].
///
/// # Errors
/// The first error if no picture could be decoded at all (see [`Summary::into_result`]).
pub fn decode(stream: &[u8], limits: Limits, sink: impl FnMut(&Frame)) -> Result<Summary, Error> {
    // Not `decode_with` and `NoProbe`: that would compile the kernels once more, in the caller's crate, and half as fast.
    decode_frames(stream, limits, Job::reconstruct, sink)
}

/// Decodes as [`decode`] and returns what it returns; `probe` observes what reconstruction computes, reads and writes.
///
/// # Errors
/// As [`decode`].
pub fn decode_with<P: Probe>(
    stream: &[u8],
    limits: Limits,
    probe: &mut P,
    sink: impl FnMut(&Frame),
) -> Result<Summary, Error> {
    decode_frames(stream, limits, |job| job.reconstruct_with(probe), sink)
}

fn decode_frames(
    stream: &[u8],
    limits: Limits,
    reconstruct: impl FnMut(&Job),
    mut sink: impl FnMut(&Frame),
) -> Result<Summary, Error> {
    let ControlFlow::Continue(result) = decode_steps(stream, limits, reconstruct, |step| {
        if let Step::Frame(frame) = step {
            sink(frame);
        }
        ControlFlow::<Infallible>::Continue(())
    });
    result
}

/// Decodes as [`decode_with`], and calls `visit` at each step until it breaks: for callers that need more than frames, or stop early.
///
/// `reconstruct` runs a picture's stages: [`Job::reconstruct`], or the same with a probe. Returns `Break` with the value of `visit`, or
/// `Continue` with the result of [`decode`] if `visit` never broke.
pub fn decode_steps<B>(
    stream: &[u8],
    limits: Limits,
    mut reconstruct: impl FnMut(&Job),
    mut visit: impl FnMut(Step<'_>) -> ControlFlow<B>,
) -> ControlFlow<B, Result<Summary, Error>> {
    let mut summary = Summary::default();
    let mut decoder = Decoder::new(limits);
    let mut units = NalStream::new(stream);
    loop {
        let next = decoder.next_picture(&mut units);
        let ended = next.is_none();
        match next {
            Some(Ok(job)) => {
                reconstruct(&job);
                summary.pictures += 1;
                summary.concealed += u64::from(job.concealed());
                visit(Step::Picture(&job))?;
            }
            Some(Err(error)) => {
                summary.note(error);
                visit(Step::Error(&error))?;
                // An error is reported before the picture in which it was found. A waiting frame may be that picture's and have no pixels
                // yet.
                continue;
            }
            None => {}
        }
        while let Some(frame) = decoder.next_output() {
            summary.frames += 1;
            visit(Step::Frame(&frame))?;
        }
        if ended {
            return ControlFlow::Continue(summary.into_result(stream.len()));
        }
    }
}
