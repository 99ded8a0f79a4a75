//! Parameter sets and slice headers of H.264 on any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tanada_h264::fuzzing::parse_headers(data));
