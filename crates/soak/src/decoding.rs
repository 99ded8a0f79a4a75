//! A real program among the random ones: a small H.264 stream, decoded as tasks.

use crate::graphs::{World, text_of};
use fastrand::Rng;
use md5::{Digest as _, Md5};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use tanada_runtime::{Cancel, GraphError};
use tanada_workloads::h264::{Cut, DecodeError, Groups, Options, decode};

/// 24 pictures of three slices.
const STREAM: &[u8] = include_bytes!("../../h264/tests/data/pattern.264");

/// The MD5 sum of the frames that FFmpeg decodes.
const MD5: &str = "eb03934ad9d9ee8004b405f2e8637c2e";

/// Decodes the stream with random options, sometimes with a cancellation. Returns a finding if the result is wrong.
pub(crate) fn decoding(world: &World<'_>, pool: usize, rng: &mut Rng) -> Option<String> {
    let options = Options {
        cut: Cut::ALL[rng.usize(0..Cut::ALL.len())],
        groups: Groups::ALL[rng.usize(0..Groups::ALL.len())],
        ahead: rng.u32(1..=6),
        ..Options::default()
    };
    let cancel = Cancel::new();
    let cancelled = rng.u8(0..8) == 0;
    if cancelled {
        world.post.cancel(&cancel, rng.u64(..));
    }
    let (mut md5, mut frames) = (Md5::new(), 0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        decode(&world.pools[pool], STREAM, &options, &cancel, |frame| {
            frames += 1;
            frame.visit_rows(|row| md5.update(row));
        })
    }));
    world.done.decoded_frames.fetch_add(frames, Relaxed);
    let what = match result {
        Err(payload) => format!("panicked: {}", text_of(&*payload)),
        Ok(Err(DecodeError::Graph(GraphError::Cancelled))) if cancelled => return None,
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(summary)) => {
            let sum = md5.finalize();
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            let errors = summary.errors;
            if sum == MD5 && errors.is_empty() {
                return None;
            }
            format!("{frames} frames with MD5 {sum}, errors {errors:?}")
        }
    };
    Some(format!("decoding with {options:?}: {what}"))
}
