//! The sequential decoder allocates nothing after the first pictures. A test program of its own, because it counts allocations.
#![allow(unsafe_code)]

mod common;

use std::ops::ControlFlow;

use common::PATTERN;
use tanada_h264::{Job, Limits, Step, Summary, decode_steps};
use tanada_testing::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Decodes a stream several times in a row as one stream. Returns its pictures, and the allocations of the last repetition and of those
/// before.
fn count(stream: &[u8]) -> (u64, [u64; 2]) {
    let pictures = decode(stream, &mut |_| ()).pictures;
    // Frames are allocated until the decoded picture buffer has been full once.
    let before = 40u64.div_ceil(pictures).max(2);
    let repeated = stream.repeat(before as usize + 1);
    let (mut number, mut at_last) = (0, 0);
    let begin = ALLOCATOR.allocations();
    let summary = decode(&repeated, &mut |_| {
        number += 1;
        if number == before * pictures {
            at_last = ALLOCATOR.allocations();
        }
    });
    let end = ALLOCATOR.allocations();
    assert_eq!(summary.pictures, (before + 1) * pictures);
    assert!(at_last > begin);
    (pictures, [at_last - begin, end - at_last])
}

fn decode(stream: &[u8], picture: &mut dyn FnMut(&Job)) -> Summary {
    // SAFETY: `decode_steps` passes each job here once, in decoding order; no other thread has it.
    let reconstruct = |job: &Job| unsafe { job.reconstruct() };
    let result = decode_steps(stream, Limits::default(), reconstruct, |step| {
        match step {
            Step::Picture(job) => picture(job),
            Step::Error(error) => panic!("{error}"),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    result.continue_value().unwrap().unwrap()
}

/// One test for all, since tests of one program run in parallel.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "debug builds allocate for their lists of the rectangles that are held; the step `release` runs this"
)]
fn a_stream_that_comes_again_allocates_nothing() {
    let mut streams = vec![("pattern.264".to_owned(), PATTERN.to_vec())];
    for path in ["video", "conformance"]
        .into_iter()
        .flat_map(tanada_testing::streams)
    {
        streams.push((path.display().to_string(), std::fs::read(path).unwrap()));
    }
    let mut wrong = Vec::new();
    for (name, stream) in &streams {
        let (pictures, [before, after]) = count(stream);
        if after > 0 {
            wrong.push(format!(
                "{name}: {before}, then {after} in {pictures} pictures"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
