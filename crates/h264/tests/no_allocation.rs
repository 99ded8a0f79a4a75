//! The sequential decoder allocates nothing after the first pictures. A test program of its own, because it counts allocations.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{PATTERN, shared};
use tanada_h264::{Job, Limits, Step, Summary, decode_steps};

/// Counts the allocations of all threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is forwarded.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is forwarded.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decodes a stream several times in a row as one stream. Returns its pictures, and the allocations of the last repetition and of those
/// before.
fn count(stream: &[u8]) -> (u64, [u64; 2]) {
    let pictures = decode(stream, &mut |_| ()).pictures;
    // Frames are allocated until the decoded picture buffer has been full once.
    let before = 40u64.div_ceil(pictures).max(2);
    let repeated = stream.repeat(before as usize + 1);
    let (mut number, mut at_last) = (0, 0);
    let begin = ALLOCATIONS.load(Ordering::Relaxed);
    let summary = decode(&repeated, &mut |_| {
        number += 1;
        if number == before * pictures {
            at_last = ALLOCATIONS.load(Ordering::Relaxed);
        }
    });
    let end = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(summary.pictures, (before + 1) * pictures);
    assert!(at_last > begin);
    (pictures, [at_last - begin, end - at_last])
}

fn decode(stream: &[u8], picture: &mut dyn FnMut(&Job)) -> Summary {
    let result = decode_steps(stream, Limits::default(), Job::reconstruct, |step| {
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
fn a_stream_that_comes_again_allocates_nothing() {
    // Debug builds keep lists of held rectangles, whose allocations are not the subject.
    if cfg!(debug_assertions) {
        eprintln!("SKIPPED: only release builds are looked at");
        return;
    }
    let mut streams = vec![("pattern.264".to_owned(), PATTERN.to_vec())];
    if let Some(folder) = shared() {
        for part in ["video", "conformance"] {
            for entry in std::fs::read_dir(folder.join("streams").join(part)).unwrap() {
                let path = entry.unwrap().path();
                streams.push((path.display().to_string(), std::fs::read(path).unwrap()));
            }
        }
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
