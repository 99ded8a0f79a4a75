//! The decoder without tasks, stopped as one with tasks is.

use std::ops::ControlFlow;
use tanada_h264::{Job, Limits, Step, decode_steps};
use tanada_runtime::{Cancel, GraphError};
use tanada_workloads::h264::{DecodeError, Summary};

/// Decodes on this thread until `cancel` says stop, which is then the error that the tasks' graph would give.
pub fn decode(
    stream: &[u8],
    limits: Limits,
    cancel: &Cancel,
    mut visit: impl FnMut(Step<'_>),
) -> Result<Summary, DecodeError> {
    let decoded = decode_steps(stream, limits, Job::reconstruct, |step| {
        visit(step);
        if cancel.is_cancelled() {
            ControlFlow::Break(GraphError::Cancelled)
        } else {
            ControlFlow::Continue(())
        }
    });
    match decoded {
        ControlFlow::Continue(result) => Ok(result?),
        ControlFlow::Break(cancelled) => Err(cancelled.into()),
    }
}
