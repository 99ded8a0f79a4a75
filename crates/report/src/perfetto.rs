//! Chrome trace JSON, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open.

use std::fmt::Write as _;

use crate::schema::{Origin, Report, Timeline, Unit};

/// Returns all timelines as one Chrome trace ("JSON Object Format" of Google's Trace Event Format): each timeline is a process, each worker
/// a lane (thread), each task a complete event (`ph` = `X`) with T group, S group, task and origin as arguments. The events of a timeline
/// are ordered by start, then by length, longest first.
///
/// The format's times are microseconds. Nanoseconds are written with three decimals, so nothing is rounded. A cycle of a simulated run is
/// written as one microsecond, and the process name says so.
pub fn to_perfetto(report: &Report) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    let mut first = true;
    for (pid, timeline) in report.timelines.iter().enumerate() {
        write_metadata(&mut out, &mut first, pid, timeline);
        write_events(&mut out, &mut first, pid, timeline);
    }
    out.push_str("]}");
    out
}

fn separate(out: &mut String, first: &mut bool) {
    out.push_str(if *first { "\n" } else { ",\n" });
    *first = false;
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write_metadata(out: &mut String, first: &mut bool, pid: usize, timeline: &Timeline) {
    let unit = match timeline.unit {
        Unit::Ns => "",
        Unit::Cycles => " (1 us = 1 cycle)",
    };
    let label = quoted(&format!("{}{unit}", timeline.label));
    separate(out, first);
    let _ = write!(
        out,
        r#"{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":{label}}}}}"#
    );
    separate(out, first);
    let _ = write!(
        out,
        r#"{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}}}"#
    );
    for worker in 0..timeline.workers {
        separate(out, first);
        let _ = write!(
            out,
            r#"{{"ph":"M","pid":{pid},"tid":{worker},"name":"thread_name","args":{{"name":"{} {worker}"}}}}"#,
            timeline.engine.worker_word()
        );
        separate(out, first);
        let _ = write!(
            out,
            r#"{{"ph":"M","pid":{pid},"tid":{worker},"name":"thread_sort_index","args":{{"sort_index":{worker}}}}}"#
        );
    }
}

fn write_events(out: &mut String, first: &mut bool, pid: usize, timeline: &Timeline) {
    let names: Vec<String> = timeline.names.iter().map(|name| quoted(name)).collect();
    let mut events: Vec<_> = timeline.events.iter().collect();
    events.sort_by_key(|event| {
        (
            event.start,
            std::cmp::Reverse(event.end),
            event.worker,
            event.task,
        )
    });
    for event in events {
        separate(out, first);
        let name = names
            .get(event.name as usize)
            .map_or("\"?\"", String::as_str);
        let origin = event.origin.kind();
        let (start, length) = match timeline.unit {
            Unit::Ns => (
                thousandths(event.start),
                thousandths(event.end.saturating_sub(event.start)),
            ),
            Unit::Cycles => (
                event.start.to_string(),
                event.end.saturating_sub(event.start).to_string(),
            ),
        };
        let _ = write!(
            out,
            r#"{{"ph":"X","pid":{pid},"tid":{},"name":{name},"cat":"{origin}","ts":{start},"dur":{length},"#,
            event.worker
        );
        let _ = write!(
            out,
            r#""args":{{"task":{},"T":{},"S":{},"origin":"{origin}""#,
            event.task, event.t, event.s
        );
        if let Origin::Stolen(victim) = event.origin {
            let _ = write!(out, r#","victim":{victim}"#);
        }
        out.push_str("}}");
    }
}

/// Returns nanoseconds as microseconds with three decimals.
fn thousandths(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
