//! The page: one file that needs no network, with the table as plain HTML and the charts drawn by a script.
//!
//! The plotting script is Apache ECharts (Apache-2.0): it draws on a canvas, zooms and pans by mouse, wheel and touch, is well kept, and
//! adds 1 MB. plotly.js, the other script that a package carries, adds 4.7 MB; its bars are one SVG element each, which is too slow for
//! tens of thousands of tasks, and its WebGL traces compile code from strings, which the page's own security policy forbids. ECharts' own
//! bars are one object each, too. The page therefore draws each worker as a strip of pixels: the colour of a pixel is the exact average of
//! the tasks that ran in it. No task is left out at any zoom, and a redraw takes one pass over the visible tasks.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::charts::{Chart, Format, Kind, Section, Table, sections};
use crate::check::{ReportError, validate};
use crate::classes::{Classes, ColourBy};
use crate::colours::hex;
use crate::columns::{Column, columns, shared_settings, tables, thousands};
use crate::headline::headlines;
use crate::profile;
use crate::schema::{Engine, Report, RunResult, Timeline};
use crate::svg;

const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));
/// One script in four files, for the reader's sake: all share one scope.
const SCRIPT: [&str; 4] = [
    include_str!("page/base.js"),
    include_str!("page/gantt.js"),
    include_str!("page/plots.js"),
    include_str!("page/start.js"),
];
const STYLE: &str = include_str!("page/page.css");
const LICENCES: &str = include_str!("page/licences.txt");

/// Nothing may be fetched from anywhere; everything that the page needs is inside it.
const SECURITY_POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// Returns the report as one HTML page without any reference to another file or host. The page has a sentence with the result, the
/// comparison (sortable), charts of the data that the runs have (speed, time beside the bound, where each core's time went, misses by cache
/// and stage, reuse distances, native beside simulated; of logical threads what happened over time, decisions and waits), and a Gantt
/// chart (workers x time) for each timeline. Gantt charts are coloured by S group, T group, stage or origin, zoom and pan, describe the
/// task under the pointer, and can be downloaded for Perfetto. The page adapts to the reader's light or dark setting, to wide screens,
/// phones and paper.
///
/// Its size is about 1 MB plus 25 bytes an event. Charts are drawn when they come into view.
///
/// # Errors
/// [`validate`] refuses the report.
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
    let sections = sections(report);
    write_sections(&mut page, &sections);
    write_timelines(&mut page, report);
    write_footer(&mut page, report);
    let data = script_safe(&data(report, &sections).to_string());
    let _ = write!(
        page,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{ECHARTS}</script>\n<script>\n'use strict';\n(() => {{\n{}}})();\n</script>\n</body>\n</html>\n",
        SCRIPT.concat()
    );
    Ok(page)
}

/// Returns `text` escaped for HTML and for attributes in double quotes.
fn escape(text: &str) -> String {
    svg::escape(text).replace('"', "&quot;")
}

/// Returns JSON that cannot end the script element around it, whatever names and titles it has.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Writes the verdicts, or the headlines of a report without verdicts; how they follow from the runs is folded. Then work and span.
fn write_summary(page: &mut String, report: &Report) {
    write_claims(page, report);
    for sentence in profile::sentences(report) {
        write_claim(page, &escape(&sentence), false, "", &[]);
    }
}

fn write_claims(page: &mut String, report: &Report) {
    if report.verdicts.is_empty() {
        for headline in headlines(report) {
            // One line for each sentence about groups, below the line about speed.
            let mut lines = headline.text.lines();
            let first = escape(lines.next().unwrap_or_default());
            let more = lines.map(str::to_owned).collect::<Vec<_>>();
            write_claim(page, &first, headline.alarm, "Did groups pay?", &more);
        }
        return;
    }
    for verdict in &report.verdicts {
        let (claim, text) = (escape(&verdict.claim), escape(&verdict.text));
        let sentence = match claim.as_str() {
            "" => text,
            claim => format!("<b>{claim}:</b> {text}"),
        };
        write_claim(page, &sentence, verdict.alarm, "Why?", &verdict.reasons);
    }
}

/// Writes a sentence (as HTML), and below it `more` behind the word `folded`.
fn write_claim(page: &mut String, sentence: &str, alarm: bool, folded: &str, more: &[String]) {
    let alarm = if alarm { " alarm" } else { "" };
    let _ = writeln!(page, "<p class=\"headline{alarm}\">{sentence}</p>");
    if more.is_empty() {
        return;
    }
    let items: String = more
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape(line)))
        .collect();
    let _ = writeln!(
        page,
        "<details class=\"reasons\"><summary>{folded}</summary>\n<ul class=\"verdicts\">\n{items}</ul></details>"
    );
}

fn write_table(page: &mut String, report: &Report) {
    if report.runs.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Comparison</h2>\n");
    for runs in tables(report) {
        write_runs(page, &runs);
    }
    page.push_str("</section>\n");
}

fn write_runs(page: &mut String, runs: &[&RunResult]) {
    let columns = columns(runs);
    let settings = shared_settings(runs);
    if !settings.is_empty() {
        let _ = writeln!(page, "<p class=\"settings\">{}</p>", escape(&settings));
    }
    let alarm: Vec<bool> = runs
        .iter()
        .map(|run| run.identical == Some(false))
        .collect();
    write_columns(page, &columns, &alarm);
}

/// Writes a table that can be sorted; `alarm` has an entry a row.
fn write_columns(page: &mut String, columns: &[Column], alarm: &[bool]) {
    page.push_str("<div class=\"scroll\"><table class=\"runs\">\n<thead><tr>");
    for column in columns {
        let class = number_class(column);
        let meaning = escape(column.meaning);
        let heading = escape(&column.heading);
        let _ = write!(
            page,
            "<th{class} scope=\"col\"><button title=\"{meaning}\">{heading}</button></th>"
        );
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (row, alarm) in alarm.iter().enumerate() {
        let class = if *alarm { " class=\"alarm\"" } else { "" };
        let _ = write!(page, "<tr{class}>");
        for column in columns {
            write_cell(page, column, row);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn number_class(column: &Column) -> &'static str {
    if column.is_numeric() {
        " class=\"number\""
    } else {
        ""
    }
}

fn write_cell(page: &mut String, column: &Column, row: usize) {
    let cell = column.cells[row].as_ref();
    let number = cell.and_then(|cell| cell.number);
    let sort = number.map_or(String::new(), |number| format!(" data-sort=\"{number}\""));
    let text = cell.map_or("\u{2013}".to_owned(), |cell| escape(&cell.text));
    let _ = write!(page, "<td{}{sort}>{text}</td>", number_class(column));
}

/// Writes the charts of [`sections`], each with its legend and its numbers as a table for readers who cannot see the chart, and the tables.
fn write_sections(page: &mut String, sections: &[Section]) {
    let mut index = 0;
    for section in sections {
        let _ = writeln!(
            page,
            "<section>\n<h2>{}</h2>\n<p>{}</p>",
            escape(section.title),
            escape(section.caption),
        );
        if !section.charts.is_empty() {
            let narrow = if section.narrow { " narrow" } else { "" };
            let _ = writeln!(page, "<div class=\"plots{narrow}\">");
            for chart in &section.charts {
                write_chart(page, chart, index);
                index += 1;
            }
            page.push_str("</div>\n");
        }
        for table in &section.tables {
            write_listed(page, table);
        }
        page.push_str("</section>\n");
    }
}

/// Writes chart number `index` of the page.
fn write_chart(page: &mut String, chart: &Chart, index: usize) {
    let title = escape(&chart.title);
    // Bars are one below the other in the table of numbers; along an axis of many points a reader without a pointer moves by keys.
    let focus = match &chart.kind {
        Kind::Bars(_) => "",
        Kind::Lines(_) | Kind::Heat(_) => " tabindex=\"0\"",
    };
    let _ = write!(
        page,
        "<figure><figcaption><b>{title}</b></figcaption>\n\
         <div class=\"chart plot\" data-plot=\"{index}\"{focus} role=\"img\" aria-label=\"{title}\"></div>\n"
    );
    write_legend(page, chart);
    write_numbers(page, chart);
    page.push_str("</figure>\n");
}

fn write_listed(page: &mut String, table: &Table) {
    let (title, left) = (escape(&table.title), escape(&table.left));
    let _ = writeln!(
        page,
        "<p class=\"settings\"><b>{title}</b></p>\n<div class=\"list\">"
    );
    let rows = table.columns.first().map_or(0, |column| column.cells.len());
    write_columns(page, &table.columns, &vec![false; rows]);
    page.push_str("</div>\n");
    if !left.is_empty() {
        let _ = writeln!(page, "<p class=\"settings\">{left}</p>");
    }
}

fn write_legend(page: &mut String, chart: &Chart) {
    // A colour without a number is one that the page defines, once for light and once for dark.
    let fill = |colour: &str| match colour.starts_with('#') {
        true => format!("background:{colour}"),
        false => format!("background:var(--{colour})"),
    };
    let mut entries: Vec<(&str, String, String)> = Vec::new();
    match &chart.kind {
        Kind::Bars(bars) => {
            let parts = bars.parts.iter().filter(|_| bars.parts.len() > 1);
            entries.extend(parts.map(|part| ("", fill(&part.colour), part.label.clone())));
            entries.extend(bars.mark.map(|mark| ("mark", fill("ink"), mark.to_owned())));
        }
        Kind::Lines(lines) => entries.extend(lines.series.iter().map(|one| {
            let stroke = format!("border-color:{};border-top-style:{}", one.colour, one.dash);
            ("line", stroke, one.label.clone())
        })),
        Kind::Heat(heat) => entries.extend(heat.shades.iter().map(|&(least, strength)| {
            let shade = format!("{};opacity:{strength}", fill("best"));
            ("", shade, format!("{} or more", thousands(least)))
        })),
    }
    if entries.is_empty() {
        return;
    }
    page.push_str("<div class=\"legend\">");
    let several = entries.len() > 1;
    for (class, style, label) in entries {
        // Several lines can be looked at one by one.
        let (open, close) = match class {
            "line" if several => ("button aria-pressed=\"false\"", "button"),
            _ => ("span", "span"),
        };
        let label = escape(&label);
        let _ = write!(
            page,
            "<{open}><i class=\"{class}\" style=\"{style}\"></i>{label}</{close}>"
        );
    }
    page.push_str("</div>\n");
}

fn write_numbers(page: &mut String, chart: &Chart) {
    let number = |value: Option<f64>| match value {
        None => "\u{2013}".to_owned(),
        Some(value) if chart.format == Format::Count => thousands(value.round() as u64),
        Some(value) => format!("{value:.3}"),
    };
    let head = |page: &mut String, label: &str| {
        let _ = write!(page, "<th class=\"number\">{}</th>", escape(label));
    };
    page.push_str("<details class=\"numbers\"><summary>Numbers</summary><div class=\"scroll\"><table>\n<tr><th></th>");
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    match &chart.kind {
        Kind::Bars(bars) => {
            let parts = bars.parts.iter().map(|part| part.label.as_str());
            parts.chain(bars.mark).for_each(|label| head(page, label));
            let named = bars.rows.iter().filter(|row| !row.label.is_empty());
            rows.extend(named.map(|row| {
                let values = row.values.iter().copied();
                let mark = bars.mark.map(|_| row.mark);
                (row.label.as_str(), values.chain(mark).map(number).collect())
            }));
        }
        Kind::Lines(lines) => {
            let headings = lines.series.iter().map(|one| one.label.as_str());
            headings.for_each(|label| head(page, label));
            rows.extend(lines.ticks.iter().enumerate().map(|(index, tick)| {
                let values = lines.series.iter().map(|one| one.values.get(index));
                let cells = values.map(|value| number(value.copied())).collect();
                (tick.as_str(), cells)
            }));
        }
        Kind::Heat(heat) => {
            for heading in ["in all", "intervals with any", "most in an interval"] {
                head(page, heading);
            }
            rows.extend(heat.rows.iter().map(|row| {
                let (sum, most) = (row.values.iter().sum(), row.values.iter().max());
                let any = row.values.iter().filter(|&&value| value > 0).count();
                let cells = [sum, any as u64, most.copied().unwrap_or(0)].map(thousands);
                (row.label.as_str(), cells.to_vec())
            }));
        }
    }
    page.push_str("</tr>\n");
    for (label, cells) in rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(label));
        for cell in cells {
            let _ = write!(page, "<td class=\"number\">{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div></details>\n");
}

fn write_timelines(page: &mut String, report: &Report) {
    if report.timelines.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Who ran what, and when</h2>\n<p>One row a worker or core, time from left to right. If tasks are \
         narrower than a pixel their colours mix, so calm colours mean that like followed like. Drag to pan; zoom \
         with the slider, the buttons, two fingers, Ctrl and the wheel, or the keys + and -; point at a task for its description; \
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
        "</fieldset><label><input type=\"checkbox\" id=\"same\" checked>same time scale on all charts</label>\
         <button id=\"trace\" title=\"opens in ui.perfetto.dev and chrome://tracing\">Download as Chrome trace</button></div>\n\
         <noscript><p>The charts need scripts; the table above does not.</p></noscript>\n",
    );
    let (order, paired) = side_by_side(&report.timelines);
    let paired = if paired { " paired" } else { "" };
    let _ = writeln!(page, "<div class=\"gantts{paired}\">");
    for index in order {
        write_gantt(page, index, &report.timelines[index]);
    }
    page.push_str("</div>\n</section>\n");
}

/// Returns the order of the timelines, and whether each odd one stands to the right of the one before it.
///
/// Only charts of the same tasks stand side by side: a native one and the simulated one of its policy. If a chart has no such
/// partner, all stand one below the other, in their own order.
fn side_by_side(timelines: &[Timeline]) -> (Vec<usize>, bool) {
    let own: Vec<usize> = (0..timelines.len()).collect();
    let first = |policy: &str| timelines.iter().position(|other| other.policy == policy);
    let mut indices = own.clone();
    indices.sort_by_key(|&index| {
        let timeline = &timelines[index];
        let simulated = timeline.engine == Engine::Simulated;
        (first(&timeline.policy), simulated, index)
    });
    let pairs = indices.chunks(2).all(|pair| match *pair {
        [a, b] => {
            let (a, b) = (&timelines[a], &timelines[b]);
            a.policy == b.policy
                && a.engine == Engine::Native
                && b.engine == Engine::Simulated
                && same_tasks(a, b)
        }
        _ => false,
    });
    match pairs {
        true => (indices, !timelines.is_empty()),
        false => (own, false),
    }
}

/// Returns whether both charts have the same tasks: equal numbers and names. Charts of a picture also have tasks of other pictures, under
/// one name; theirs are the same if they have equally many tasks of each other name.
fn same_tasks(a: &Timeline, b: &Timeline) -> bool {
    fn tasks(timeline: &Timeline) -> Vec<(&str, u64)> {
        let events = timeline.events.iter();
        let mut tasks: Vec<_> = events
            .map(|event| (timeline.names[event.name as usize].as_str(), event.task))
            .collect();
        tasks.sort_unstable();
        tasks
    }
    let (a_tasks, b_tasks) = (tasks(a), tasks(b));
    if a.picture.is_none() || a.picture != b.picture {
        return a_tasks == b_tasks;
    }
    let count = |tasks: &[(&str, u64)], name| tasks.iter().filter(|task| task.0 == name).count();
    let mut names: Vec<&str> = a_tasks.iter().chain(&b_tasks).map(|task| task.0).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names
        .iter()
        .filter(|&&name| count(&a_tasks, name) != count(&b_tasks, name));
    differ.count() <= 1
}

fn write_gantt(page: &mut String, index: usize, timeline: &Timeline) {
    let label = escape(&timeline.label);
    let _ = write!(
        page,
        "<figure><figcaption><b>{label}</b> <span class=\"facts\"></span><span class=\"buttons\">\
         <button data-zoom=\"in\" aria-label=\"zoom in\">+</button>\
         <button data-zoom=\"out\" aria-label=\"zoom out\">\u{2212}</button>\
         <button data-zoom=\"all\">all</button></span></figcaption>\n\
         <div class=\"chart gantt\" data-gantt=\"{index}\" tabindex=\"0\" style=\"height:{}px\" role=\"img\" aria-label=\"{label}\">\
         </div>\n<div class=\"legend\"></div></figure>\n",
        gantt_height(timeline.workers)
    );
}

/// Returns the height in pixels of a chart's rows and of everything below them. Rows become thinner the more there are, down to 6 pixels.
fn gantt_height(workers: u16) -> u32 {
    let workers = u32::from(workers);
    let row = (480 / workers.max(1)).clamp(6, 34);
    72 + workers * row
}

fn write_footer(page: &mut String, report: &Report) {
    page.push_str("<footer>\n");
    if !report.machine.is_empty() {
        let machine = escape(&report.machine);
        let _ = writeln!(page, "<h2>Machine</h2>\n<pre>{machine}</pre>");
    }
    if !report.command.is_empty() {
        let command = escape(&report.command);
        let _ = writeln!(page, "<p>Made by <code>{command}</code></p>");
    }
    let _ = write!(
        page,
        "<p>This page needs no network. Its charts are drawn by Apache ECharts.</p>\n\
         <details><summary>Licences of the embedded script</summary><pre>{}</pre></details>\n</footer>\n",
        escape(LICENCES)
    );
}

/// Returns everything that the page's script draws.
fn data(report: &Report, sections: &[Section]) -> Value {
    let timelines: Vec<&Timeline> = report.timelines.iter().collect();
    let modes = ColourBy::ALL.map(|by| Classes::of(by, &timelines));
    let mode = |classes: &Classes| {
        let list = classes.list.iter();
        let list = list.map(|class| json!({"label": class.label, "colour": hex(class.colour)}));
        json!({"label": classes.by.label(), "classes": list.collect::<Vec<_>>()})
    };
    json!({
        "modes": modes.each_ref().map(mode),
        "timelines": timelines.iter().map(|timeline| timeline_data(timeline, &modes)).collect::<Vec<_>>(),
        "plots": sections.iter().flat_map(|section| &section.charts).collect::<Vec<_>>(),
    })
}

/// Returns a timeline's events by column, in order of worker and start. Starts are differences to the start before, so that they stay
/// short; groups, stages and origins are indices of the page's classes.
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
    let of = |mode: &Classes| -> Vec<usize> {
        let classes = events.iter().map(|event| mode.index(timeline, event));
        classes.collect()
    };
    let classes: Vec<_> = modes.iter().map(of).collect();
    json!({
        "label": timeline.label,
        "unit": timeline.unit.as_str(),
        "word": timeline.engine.worker_word(),
        "from": first,
        "span": last - first,
        "counts": counts,
        "task": events.iter().map(|event| event.task).collect::<Vec<_>>(),
        "start": starts,
        "length": events.iter().map(|event| event.end - event.start).collect::<Vec<_>>(),
        "origin": events.iter().map(|event| event.origin.code()).collect::<Vec<_>>(),
        "classes": classes,
    })
}
