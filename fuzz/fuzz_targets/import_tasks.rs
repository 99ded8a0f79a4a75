//! Marks of tasks of any bytes, behind the beginning of all marks: an error, or a sound trace. The streams have the marks' numbers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_trace::import::{Options, TASK_MARK, tasks};
use tanada_trace::threads::ThreadTrace;
use tanada_trace::{Groups, TextWriter, Trace};

fuzz_target!(|data: &[u8]| {
    let marks = [b"0 hello 2\n", data].concat();
    let mut streams = [String::new(), String::new()];
    for (line, number) in marks.split(|&byte| byte == b'\n').zip(1..) {
        let thread = usize::from(line.first() == Some(&b'1'));
        streams[thread] += &format!("mark {TASK_MARK} {number} 0\nb 0x40 4 1\nr 1 {number} 8\nw 0 {} 8\n", number + 8);
    }
    let [first, second] = streams;
    let text = format!("tanada-threads 1\nthread 0\n{first}thread 1\n{second}");
    let trace = ThreadTrace::parse(text.as_bytes(), "threads").unwrap();
    let mut writer = TextWriter::new(Vec::new()).unwrap();
    if let Ok(imported) = tasks(&trace, &*marks, "marks", Options::default(), &mut writer) {
        let trace = Trace::parse(&writer.finish().unwrap(), "in.tnt", &Groups::Plain).unwrap();
        assert_eq!((trace.len() as u64, trace.records()), (imported.tasks, imported.records));
    }
});
