//! Text traces of any bytes: an error with file and line, or a trace that survives the binary form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::{BinaryWriter, Groups, Record, Trace, read_text};

fn records(trace: &Trace) -> Vec<Record> {
    let mut reader = trace.reader().unwrap();
    let (mut all, mut window) = (Vec::new(), Vec::new());
    for task in 0..trace.len() as u32 {
        let mut cursor = reader.start(task);
        loop {
            reader.fill(&mut cursor, &mut window).unwrap();
            if window.is_empty() {
                break;
            }
            all.extend_from_slice(&window);
        }
    }
    all
}

fuzz_target!(|data: &[u8]| {
    // Most inputs are about items, not about the header.
    let text = match data.split_first() {
        Some((&byte, rest)) if byte % 8 != 0 => [b"tanada-trace 1\n", rest].concat(),
        _ => data.to_vec(),
    };
    match Trace::parse(&text, "in.tnt", &Groups::Plain) {
        Err(error) => {
            let message = error.to_string();
            let line = message.strip_prefix("in.tnt:").and_then(|rest| rest.split(':').next());
            let line: u64 = line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{message}"));
            assert!(line >= 1 && line <= 1 + text.iter().filter(|&&b| b == b'\n').count() as u64, "{message}");
        }
        Ok(trace) => {
            let mut writer = BinaryWriter::new(Vec::new()).unwrap();
            read_text(&*text, "in.tnt", &mut writer).unwrap();
            let binary = Trace::parse(&writer.finish().unwrap(), "in.tnb", &Groups::Plain).unwrap();
            assert_eq!((trace.tasks(), trace.names(), trace.records()), (binary.tasks(), binary.names(), binary.records()));
            assert_eq!(records(&trace), records(&binary));
        }
    }
});
