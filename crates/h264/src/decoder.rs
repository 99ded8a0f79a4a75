//! The decoder: from NAL units to jobs and output.

use std::sync::Arc;

use crate::error::Error;
use crate::frame::Frame;
use crate::job::Job;
use crate::nal::NalStream;

/// Bounds on what a stream may ask for, checked before memory is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Macroblocks in a picture; the default is that of level 6.2 (Table A-1).
    pub max_macroblocks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_macroblocks: 139_264 }
    }
}

/// Entropy decoding, parameter sets, reference marking and output order; touches no pixel.
///
/// Memory of jobs and frames is used again once nobody else holds them, so that nothing is allocated per picture after
/// the first ones.
pub struct Decoder {
    limits: Limits,
}

impl Decoder {
    /// A decoder that has seen nothing yet.
    pub fn new(limits: Limits) -> Self {
        Decoder { limits }
    }

    /// Parses up to the end of the next picture.
    ///
    /// `Some(Err(_))` reports an error; decoding goes on with the next call. `None` is the end of the stream: all frames
    /// are then on their way to [`next_output`](Self::next_output). Jobs come in decoding order, and the references of a
    /// job are frames of earlier jobs.
    pub fn next_picture(&mut self, _stream: &mut NalStream<'_>) -> Option<Result<Arc<Job>, Error>> {
        let _ = self.limits;
        None
    }

    /// The next frame in output order, if it is known by now; ask after each [`next_picture`](Self::next_picture) until
    /// it gives `None`. The frame's pixels are there only once its job has been run.
    pub fn next_output(&mut self) -> Option<Arc<Frame>> {
        None
    }
}
/// For fuzzing.
pub fn parse_headers(_: &[u8]) {}
