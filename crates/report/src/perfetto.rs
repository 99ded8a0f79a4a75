//! Chrome trace JSON, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::schema::{Event, Origin, Report, Timeline, Unit};

/// Returns all timelines as one Chrome trace ("JSON Object Format" of Google's Trace Event Format): each timeline is a process, each worker
/// a lane (thread), each task a complete event (`ph` = `X`) with T group, S group, task and origin as arguments. The events of a timeline
/// are ordered by start, then by length, longest first.
///
/// The format's times are microseconds. Nanoseconds are written with three decimals, so nothing is rounded. A cycle of a simulated run is
/// written as one microsecond, and the process name says so.
pub fn to_perfetto(report: &Report) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (pid, timeline) in report.timelines.iter().enumerate() {
        write_metadata(&mut out, pid, timeline);
        write_events(&mut out, pid, timeline);
    }
    out.push_str("]}");
    out
}

/// Writes one element of the array of events.
fn add(out: &mut String, element: std::fmt::Arguments<'_>) {
    let comma = if out.ends_with('[') { "" } else { "," };
    let _ = write!(out, "{comma}\n{element}");
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write_metadata(out: &mut String, pid: usize, timeline: &Timeline) {
    let mut add = |on: &str, name: &str, arguments: &str| {
        add(
            out,
            format_args!(r#"{{"ph":"M","pid":{pid},{on}"name":"{name}","args":{{{arguments}}}}}"#),
        );
    };
    let unit = match timeline.unit {
        Unit::Ns => "",
        Unit::Cycles => " (1 us = 1 cycle)",
    };
    let label = quoted(&format!("{}{unit}", timeline.label));
    add("", "process_name", &format!(r#""name":{label}"#));
    add("", "process_sort_index", &format!(r#""sort_index":{pid}"#));
    let word = timeline.engine.worker_word();
    for worker in 0..timeline.workers {
        let on = format!(r#""tid":{worker},"#);
        add(&on, "thread_name", &format!(r#""name":"{word} {worker}""#));
        add(
            &on,
            "thread_sort_index",
            &format!(r#""sort_index":{worker}"#),
        );
    }
}

fn write_events(out: &mut String, pid: usize, timeline: &Timeline) {
    let names: Vec<String> = timeline.names.iter().map(|name| quoted(name)).collect();
    let mut events: Vec<_> = timeline.events.iter().collect();
    events.sort_by_key(|event| (event.start, Reverse(event.end), event.worker, event.task));
    let time = |time: u64| match timeline.unit {
        Unit::Ns => thousandths(time),
        Unit::Cycles => time.to_string(),
    };
    for event in events {
        let Event {
            worker, task, t, s, ..
        } = event;
        let name = names.get(event.name as usize);
        let name = name.map_or("\"?\"", String::as_str);
        let origin = event.origin.kind();
        let length = time(event.end.saturating_sub(event.start));
        let times = format!(r#""ts":{},"dur":{length}"#, time(event.start));
        let victim = match event.origin {
            Origin::Stolen(victim) => format!(r#","victim":{victim}"#),
            _ => String::new(),
        };
        let arguments = format!(r#""task":{task},"T":{t},"S":{s},"origin":"{origin}"{victim}"#);
        add(
            out,
            format_args!(
                r#"{{"ph":"X","pid":{pid},"tid":{worker},"name":{name},"cat":"{origin}",{times},"args":{{{arguments}}}}}"#
            ),
        );
    }
}

/// Returns nanoseconds as microseconds with three decimals.
fn thousandths(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
