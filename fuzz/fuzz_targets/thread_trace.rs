//! Thread traces of any bytes, of either form, and such as have right checksums and any head and streams: an error, or events that can be
//! written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::{fuzzing::threads_of, threads::ThreadTrace};

fuzz_target!(|data: &[u8]| {
    let trace = match data {
        [0, rest @ ..] => ThreadTrace::from_bytes(rest.to_vec(), "in.tnb"),
        [1, rest @ ..] => ThreadTrace::parse(rest, "in.tnt"),
        [2, head, rest @ ..] => {
            let (head, stream) = rest.split_at(rest.len() * usize::from(*head) / 256);
            ThreadTrace::from_bytes(threads_of(head, stream), "in.tnb")
        }
        // A head of one thread that names two objects and itself, so that the stream is reached.
        [_, rest @ ..] => {
            let blocks = u8::from(!rest.is_empty());
            let head = [0, 0, 0, 2, 1, 0, 0, 1, 1, 1, blocks, 2, 0, 1, 1, 0];
            ThreadTrace::from_bytes(threads_of(&head, rest), "in.tnb")
        }
        [] => return,
    };
    let Ok(trace) = trace else { return };
    let mut events = Vec::new();
    for thread in 0..trace.threads().len() as u32 {
        let mut reader = trace.reader(thread).unwrap();
        while reader.fill(&mut events).is_ok() && !events.is_empty() {}
    }
    let mut text = Vec::new();
    if trace.write_text(&mut text).is_ok() {
        let again = ThreadTrace::parse(&text, "again.tnt").expect("what is written can be read");
        assert_eq!(again.threads(), trace.threads());
    }
});
