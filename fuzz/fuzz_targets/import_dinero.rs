//! Traces of Dinero of any bytes: an error with file and line, or a sound trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::import::{Fetches, Options, dinero};
use tanada_trace::{Groups, TextWriter, Trace};

fuzz_target!(|data: &[u8]| {
    for (fetches, renumber) in [(Fetches::Each, true), (Fetches::Blocks(16), false)] {
        let options = Options {
            fetches,
            renumber,
            ..Options::default()
        };
        let mut writer = TextWriter::new(Vec::new()).unwrap();
        match dinero(data, "in.din", options, &mut writer) {
            Err(error) => {
                let message = error.to_string();
                let line = message.strip_prefix("in.din:").and_then(|rest| rest.split(':').next());
                let line: u64 = line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{message}"));
                assert!(line >= 1 && line <= 1 + data.iter().filter(|&&b| b == b'\n').count() as u64, "{message}");
            }
            Ok(imported) => {
                let trace = Trace::parse(&writer.finish().unwrap(), "in.tnt", &Groups::Plain).unwrap();
                assert_eq!((trace.len() as u64, trace.records()), (imported.tasks, imported.records));
            }
        }
    }
});
