//! The decoder without tasks, in a form that can be stopped.

use tanada_h264::{Decoder, Job, Limits, NalStream};
use tanada_runtime::Cancel;
use tanada_workloads::h264::{Frame, StreamError, Summary};

/// Why a stream was not decoded.
pub(crate) enum Stop {
    Cancelled,
    /// Not one picture could be decoded.
    Stream(StreamError),
}

/// As [`tanada_h264::decode`], until `cancel` says stop; `picture` sees every picture once it is reconstructed, in decoding order.
pub(crate) fn decode(
    stream: &[u8],
    limits: Limits,
    cancel: &Cancel,
    mut picture: impl FnMut(&Job),
    mut sink: impl FnMut(&Frame),
) -> Result<Summary, Stop> {
    let mut summary = Summary::default();
    let mut decoder = Decoder::new(limits);
    let mut units = NalStream::new(stream);
    loop {
        let next = decoder.next_picture(&mut units);
        let ended = next.is_none();
        match next {
            Some(Ok(job)) => {
                job.reconstruct();
                picture(&job);
                summary.pictures += 1;
                summary.concealed += u64::from(job.concealed());
            }
            Some(Err(error)) => summary.note(error),
            None => {}
        }
        while let Some(frame) = decoder.next_output() {
            summary.frames += 1;
            sink(&frame);
        }
        if cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if ended {
            break;
        }
    }
    if summary.pictures > 0 {
        return Ok(summary);
    }
    let offset = stream.len() as u64;
    Err(Stop::Stream(
        summary
            .errors
            .first()
            .cloned()
            .unwrap_or(StreamError::NoPicture { offset }),
    ))
}
