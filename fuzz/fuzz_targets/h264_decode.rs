//! The whole H.264 decoder on any bytes: no panic, no endless loop, bounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_h264::{Limits, decode};

fuzz_target!(|data: &[u8]| {
    // Small pictures: a large one is legal, and only slow.
    let limits = Limits { max_macroblocks: 99 };
    let mut frames = 0;
    let result = decode(data, limits, |frame| {
        frames += 1;
        let mut bytes = 0;
        frame.visit_rows(|row| bytes += row.len());
        assert_eq!(bytes, frame.i420_len());
    });
    match result {
        Ok(summary) => {
            assert_eq!((summary.frames, summary.pictures), (frames, frames));
            assert!(summary.errors.iter().all(|error| error.offset <= data.len() as u64));
        }
        Err(error) => assert!(frames == 0 && error.offset <= data.len() as u64),
    }
});
