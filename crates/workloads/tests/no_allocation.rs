//! Decoding as tasks allocates nothing a frame once it is warm. A program of its own, because it counts the allocations of all threads.

use std::path::Path;
use tanada_policy::registry;
use tanada_runtime::{Cancel, Pool};
use tanada_testing::allocator::Counting;
use tanada_workloads::h264::{Frame, Options, decode};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Frames of the demo stream.
const FRAMES: usize = 128;

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "debug builds allocate for their lists of the rectangles that are held; the step `release` runs this"
)]
fn a_stream_that_comes_again_allocates_nothing() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/terraces_wvga.264");
    let stream = std::fs::read(demo).expect("the demo stream is in the repository");
    for policy in registry::native().into_iter().map(|entry| entry.name) {
        for workers in [1, 2] {
            // Queues grow to what the worst order so far needed, and orders differ: one time without an allocation is enough. A frame that
            // allocates for itself does so in every time, however many there are.
            let mut each = allocations(policy, workers, &stream, 6);
            if !each.contains(&0) {
                each = allocations(policy, workers, &stream, 40);
            }
            assert!(each[0] > 0, "the counter counts");
            assert!(each.contains(&0), "{policy} on {workers} workers: {each:?}");
        }
    }
}

/// Returns the allocations between the first and the last frame of each of `times` repetitions of `stream`, decoded as one stream.
fn allocations(policy: &str, workers: u32, stream: &[u8], times: usize) -> Vec<u64> {
    let pool = Pool::builder()
        .policy(policy)
        .workers(workers)
        .build()
        .expect("a pool");
    let mut counts = Vec::with_capacity(times * FRAMES);
    let sink = |_: &Frame| counts.push(ALLOCATOR.allocations());
    decode(
        &pool,
        &stream.repeat(times),
        &Options::default(),
        &Cancel::new(),
        sink,
    )
    .expect("a decoded stream");
    assert_eq!(counts.len(), times * FRAMES);
    counts
        .chunks(FRAMES)
        .map(|part| part[FRAMES - 1] - part[0])
        .collect()
}
