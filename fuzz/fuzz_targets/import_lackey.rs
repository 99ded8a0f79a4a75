//! Logs of lackey of any bytes: an error with file and line, or a sound trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::import::{Fetches, Options, lackey};
use tanada_trace::{Groups, TextWriter, Trace};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let options = Options {
        cycles_per_instruction: u64::from(choice & 1) * u64::MAX,
        fetches: [Fetches::Each, Fetches::None, Fetches::Blocks(1), Fetches::Blocks(64)][usize::from(choice >> 1 & 3)],
        renumber: choice & 8 != 0,
    };
    let mut writer = TextWriter::new(Vec::new()).unwrap();
    match lackey(data, "in.log", options, &mut writer) {
        Err(error) => {
            let message = error.to_string();
            let line = message.strip_prefix("in.log:").and_then(|rest| rest.split(':').next());
            let line: u64 = line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{message}"));
            assert!(line <= 1 + data.iter().filter(|&&b| b == b'\n').count() as u64, "{message}");
        }
        Ok(imported) => {
            let trace = Trace::parse(&writer.finish().unwrap(), "in.tnt", &Groups::Plain).unwrap();
            assert_eq!((trace.len() as u64, trace.records()), (imported.tasks, imported.records));
        }
    }
});
