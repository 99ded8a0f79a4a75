//! The page: one file that needs no network, with the table as plain HTML and the charts drawn by a script.
//!
//! The plotting script is Apache ECharts (Apache-2.0), because it draws on a canvas, zooms and pans by mouse, wheel
//! and touch, is well kept, and adds 1 MB. plotly.js, the other script that a package carries, adds 4.7 MB; its bars
//! are one SVG element each, which tens of thousands of tasks make unusable, and its WebGL traces compile code from
//! strings, which the page's own security policy forbids. ECharts' own bars are one object each too, so the page
//! hands it one strip of pixels a worker instead: the colour of each pixel is the exact average of the tasks that ran
//! in it. No task is left out at any zoom, and a redraw costs a pass over the tasks in sight.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::check::{ReportError, validate};
use crate::classes::{Classes, ColourBy};
use crate::colours::hex;
use crate::columns::{Column, columns, engine, shared_settings};
use crate::headline::{comparable_sets, headlines};
use crate::schema::{Report, RunResult, Timeline};

const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");
const LICENCES: &str = include_str!("page/licences.txt");

/// Nothing may be fetched from anywhere; what the page needs is inside it.
const SECURITY_POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// The report as one HTML page without any reference to another file or host: a sentence, the comparison (sortable),
/// a bar chart of speed, and a Gantt chart (workers x time) for each timeline, coloured by S group, T group, stage or
/// origin, with zoom, pan and a description of the task under the pointer. Light and dark by the reader's setting,
/// for wide screens, phones and paper.
///
/// The page is about 1 MB and 25 bytes an event. Charts are drawn when they come into sight.
///
/// # Errors
/// A report that [`validate`] refuses.
pub fn to_html(report: &Report) -> Result<String, ReportError> {
    validate(report)?;
    let mut page = String::with_capacity(ECHARTS.len() + 100_000);
    let title = escape(&report.title);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{SECURITY_POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    write_summary(&mut page, report);
    write_table(&mut page, report);
    write_charts(&mut page, report);
    write_footer(&mut page, report);
    let data = script_safe(&data(report).to_string());
    let _ = write!(
        page,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{ECHARTS}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    Ok(page)
}

/// Text that stands in HTML or in an attribute's double quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON that cannot end the script element around it, whatever names and titles hold.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn write_summary(page: &mut String, report: &Report) {
    for headline in headlines(report) {
        let class = if headline.alarm {
            "headline alarm"
        } else {
            "headline"
        };
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escape(&headline.text));
    }
    let settings = shared_settings(report);
    if !settings.is_empty() {
        let _ = writeln!(page, "<p class=\"settings\">{}</p>", escape(&settings));
    }
}

fn write_table(page: &mut String, report: &Report) {
    if report.runs.is_empty() {
        return;
    }
    let columns = columns(report);
    page.push_str(
        "<section>\n<h2>Comparison</h2>\n<div class=\"scroll\"><table id=\"runs\">\n<thead><tr>",
    );
    for column in &columns {
        let class = if column.is_numeric() {
            " class=\"number\""
        } else {
            ""
        };
        let meaning = escape(column.meaning);
        let heading = escape(&column.heading);
        let _ = write!(
            page,
            "<th{class} scope=\"col\"><button title=\"{meaning}\">{heading}</button></th>"
        );
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (row, run) in report.runs.iter().enumerate() {
        let class = if run.identical == Some(false) {
            " class=\"alarm\""
        } else {
            ""
        };
        let _ = write!(page, "<tr{class}>");
        for column in &columns {
            write_cell(page, column, row);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn write_cell(page: &mut String, column: &Column, row: usize) {
    let class = if column.is_numeric() {
        " class=\"number\""
    } else {
        ""
    };
    match &column.cells[row] {
        Some(cell) => {
            let sort = cell
                .number
                .map_or(String::new(), |number| format!(" data-sort=\"{number}\""));
            let _ = write!(page, "<td{class}{sort}>{}</td>", escape(&cell.text));
        }
        None => {
            let _ = write!(page, "<td{class}>\u{2013}</td>");
        }
    }
}

fn write_charts(page: &mut String, report: &Report) {
    for (index, chart) in bars(report).iter().enumerate() {
        let title = escape(chart["title"].as_str().unwrap_or_default());
        let _ = write!(
            page,
            "<section>\n<h2>{title}</h2>\n<div class=\"chart bars\" data-bars=\"{index}\"></div>\n</section>\n"
        );
    }
    if report.timelines.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Who ran what, and when</h2>\n<p>One row a worker, time from left to right. Where tasks are \
         narrower than a pixel their colours mix, so calm colours mean that like followed like. Drag to pan; zoom \
         with the slider, the buttons, two fingers, or Ctrl and the wheel; point at a task for its description; \
         choose a class below a chart to see it alone.</p>\n<div id=\"switches\"><fieldset><legend>Colour by</legend>",
    );
    for (index, by) in ColourBy::ALL.into_iter().enumerate() {
        let checked = if index == 0 { " checked" } else { "" };
        let _ = write!(
            page,
            "<label><input type=\"radio\" name=\"by\" value=\"{index}\"{checked}>{}</label>",
            by.label()
        );
    }
    page.push_str(
        "</fieldset><label><input type=\"checkbox\" id=\"same\" checked>same time scale on all charts</label></div>\n\
         <noscript><p>The charts need scripts; the table above does not.</p></noscript>\n",
    );
    for (index, timeline) in report.timelines.iter().enumerate() {
        write_gantt(page, index, timeline);
    }
    page.push_str("</section>\n");
}

fn write_gantt(page: &mut String, index: usize, timeline: &Timeline) {
    let label = escape(&timeline.label);
    let _ = write!(
        page,
        "<figure><figcaption><b>{label}</b> <span class=\"facts\"></span><span class=\"buttons\">\
         <button data-zoom=\"in\" aria-label=\"zoom in\">+</button>\
         <button data-zoom=\"out\" aria-label=\"zoom out\">\u{2212}</button>\
         <button data-zoom=\"all\">all</button></span></figcaption>\n\
         <div class=\"chart gantt\" data-gantt=\"{index}\" style=\"height:{}px\" role=\"img\" aria-label=\"{label}\">\
         </div>\n<div class=\"legend\"></div></figure>\n",
        gantt_height(timeline.workers)
    );
}

/// Pixels for the rows and what stands below them; rows get thinner as they get more, down to 6 pixels.
fn gantt_height(workers: u16) -> u32 {
    let workers = u32::from(workers);
    let row = (480 / workers.max(1)).clamp(6, 34);
    72 + workers * row
}

fn write_footer(page: &mut String, report: &Report) {
    page.push_str("<footer>\n");
    if !report.machine.is_empty() {
        let _ = writeln!(
            page,
            "<h2>Machine</h2>\n<pre>{}</pre>",
            escape(&report.machine)
        );
    }
    if !report.command.is_empty() {
        let _ = writeln!(
            page,
            "<p>Made by <code>{}</code></p>",
            escape(&report.command)
        );
    }
    let _ = write!(
        page,
        "<p>This page needs no network. Its charts are drawn by Apache ECharts.</p>\n\
         <details><summary>Licences of the embedded script</summary><pre>{}</pre></details>\n</footer>\n",
        escape(LICENCES)
    );
}

/// Everything that the page's script draws.
fn data(report: &Report) -> Value {
    let timelines: Vec<&Timeline> = report.timelines.iter().collect();
    let modes: Vec<Classes> = ColourBy::ALL
        .into_iter()
        .map(|by| Classes::of(by, &timelines))
        .collect();
    let modes_json: Vec<Value> = ColourBy::ALL
        .into_iter()
        .zip(&modes)
        .map(|(by, classes)| {
            let list = classes
                .list
                .iter()
                .map(|class| json!({"label": class.label, "colour": hex(class.colour)}));
            json!({"label": by.label(), "classes": list.collect::<Vec<_>>()})
        })
        .collect();
    json!({
        "modes": modes_json,
        "timelines": timelines.iter().map(|timeline| timeline_data(timeline, &modes)).collect::<Vec<_>>(),
        "bars": bars(report),
    })
}

/// A timeline's events by column in order of worker and start. Starts are differences to the start before, so that
/// they stay short; groups, stage and origin are indices of the page's classes.
fn timeline_data(timeline: &Timeline, modes: &[Classes]) -> Value {
    let mut events: Vec<_> = timeline.events.iter().collect();
    events.sort_by_key(|event| (event.worker, event.start, event.end, event.task));
    let (first, last) = timeline.span().unwrap_or((0, 0));
    let mut counts = vec![0_u64; usize::from(timeline.workers)];
    let mut previous = (0, first);
    let mut starts = Vec::with_capacity(events.len());
    for event in &events {
        counts[usize::from(event.worker)] += 1;
        if event.worker != previous.0 {
            previous = (event.worker, first);
        }
        starts.push(event.start - previous.1);
        previous.1 = event.start;
    }
    let classes: Vec<Vec<usize>> = modes
        .iter()
        .map(|mode| {
            events
                .iter()
                .map(|event| mode.index(timeline, event))
                .collect()
        })
        .collect();
    json!({
        "label": timeline.label,
        "unit": timeline.unit.as_str(),
        "span": last - first,
        "counts": counts,
        "task": events.iter().map(|event| event.task).collect::<Vec<_>>(),
        "start": starts,
        "length": events.iter().map(|event| event.end - event.start).collect::<Vec<_>>(),
        "origin": events.iter().map(|event| event.origin.code()).collect::<Vec<_>>(),
        "classes": classes,
    })
}

/// Bar charts of speed: one for each set of comparable runs that has more than one bar.
fn bars(report: &Report) -> Vec<Value> {
    let sets = comparable_sets(report);
    let several = sets.len() > 1;
    sets.iter()
        .filter_map(|set| bar_chart(set, several))
        .collect()
}

fn bar_chart(set: &[&RunResult], say_which: bool) -> Option<Value> {
    let (what, value): (&str, fn(&RunResult) -> Option<f64>) = match set[0] {
        run if run.fps.is_some() => ("Frames a second", |run| run.fps),
        run if run.seconds.is_some() => {
            ("Seconds", |run| run.seconds.map(|seconds| seconds.median))
        }
        _ => ("Cycles", |run| run.cycles.map(|cycles| cycles as f64)),
    };
    let mut groups = set
        .iter()
        .map(|run| &run.groups)
        .filter(|groups| !groups.is_empty());
    let groups_differ = groups
        .next()
        .is_some_and(|first| groups.any(|groups| groups != first));
    let rows: Vec<Value> = set
        .iter()
        .filter_map(|run| {
            let label = if groups_differ && !run.groups.is_empty() {
                format!("{}, {}", run.policy, run.groups)
            } else {
                run.policy.clone()
            };
            Some(json!({"label": label, "value": value(run)?, "ratio": run.ratio_to_fcfs}))
        })
        .collect();
    let title = match say_which {
        true => format!(
            "{what}: {}, {} {}",
            engine(set[0].engine),
            set[0].workload,
            set[0].input
        ),
        false => what.to_owned(),
    };
    (rows.len() > 1).then(|| json!({"title": title, "rows": rows}))
}
