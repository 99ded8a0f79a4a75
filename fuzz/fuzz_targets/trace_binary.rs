//! Binary traces of any bytes, and such as have right checksums and any content: an error, or valid records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::{Groups, Trace, fuzzing::file_of};

fuzz_target!(|data: &[u8]| {
    let file = match data {
        [kind, tasks, edges, split, rest @ ..] if kind % 4 != 0 => {
            let (ops, rest) = rest.split_at(rest.len() * usize::from(*split) / 512);
            let (apart, graph) = rest.split_at(rest.len() / 2);
            let block = [&(ops.len() as u32).to_le_bytes(), ops, apart].concat();
            // Each third of them has a task at the begin of the block, so that its operations are reached.
            match kind % 4 {
                1 => file_of(&block, &[0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0], [1, 0, 0]),
                2 => file_of(&block, graph, [u64::from(*tasks), u64::from(*edges), 0]),
                _ => file_of(rest, &[0, 1, 0, 0, 0, 0, 1, *tasks, 0, 0, 0], [1, 0, 0]),
            }
        }
        _ => data.to_vec(),
    };
    let Ok(trace) = Trace::parse(&file, "in.tnb", &Groups::Plain) else { return };
    let mut reader = trace.reader().unwrap();
    let mut window = Vec::new();
    for task in 0..trace.len() as u32 {
        let mut cursor = reader.start(task);
        // Loops make much of little: some of it is enough.
        for _ in 0..100 {
            if reader.fill(&mut cursor, &mut window).is_err() || window.is_empty() {
                break;
            }
            assert!(window.iter().all(|record| record.is_valid()));
        }
    }
});
