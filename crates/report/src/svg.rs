//! A still Gantt chart as SVG, for documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::classes::{Classes, ColourBy};
use crate::colours::hex;
use crate::columns::thousands;
use crate::schema::{Timeline, Unit};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 12.0;
const HEADING: f64 = 26.0;
const AXIS: f64 = 30.0;
const LEGEND_LINE: f64 = 20.0;
/// More classes than this would bury the chart under its legend.
const LEGEND_CLASSES: usize = 48;

/// Follows the reader's light or dark setting, also inside an `<img>`.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1b1d21}.b{font-weight:600}.s{fill:#5c636e}\
    .g{fill:#f0f2f4}.a{stroke:#9aa3af}\
    @media(prefers-color-scheme:dark){text{fill:#e6e8eb}.s{fill:#9aa3af}.g{fill:#1d2025}}";

/// One timeline as a self-contained SVG picture of 900 pixels' width: workers from top to bottom, time from left to
/// right, with axis and legend. Costs a pass over the events; see [`to_svg_gantts`].
pub fn to_svg_gantt(timeline: &Timeline, colour_by: ColourBy) -> String {
    to_svg_gantts(&[timeline], colour_by)
}

/// Several timelines below one another on one time scale and with one legend, so that lengths and colours compare.
///
/// Neighbouring tasks of one colour whose gap is under a quarter of a pixel are drawn as one bar, which looks the
/// same and keeps the file small; tasks narrower than that are never left out.
///
/// # Panics
/// If the timelines would not pass [`crate::validate`].
pub fn to_svg_gantts(timelines: &[&Timeline], colour_by: ColourBy) -> String {
    let classes = Classes::of(colour_by, timelines);
    let longest = timelines
        .iter()
        .filter_map(|timeline| timeline.span())
        .map(|(a, b)| b - a)
        .max()
        .unwrap_or(0);
    let mut body = String::new();
    let mut y = 6.0;
    for timeline in timelines {
        y = write_rows(&mut body, timeline, &classes, longest, y);
        y = write_axis(&mut body, timeline.unit, longest, y);
    }
    y = write_legend(&mut body, &classes, y);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\">\n\
         <style>{STYLE}</style>\n{body}</svg>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn pixels(time: u64, longest: u64) -> f64 {
    time as f64 / longest.max(1) as f64 * (WIDTH - LEFT - RIGHT)
}

fn row_height(workers: u16) -> f64 {
    (240.0 / f64::from(workers.max(1))).clamp(4.0, 26.0)
}

fn write_rows(
    body: &mut String,
    timeline: &Timeline,
    classes: &Classes,
    longest: u64,
    y: f64,
) -> f64 {
    let row = row_height(timeline.workers);
    let top = y + HEADING;
    let _ = writeln!(
        body,
        "<text class=\"b\" x=\"4\" y=\"{}\">{}</text>",
        y + 16.0,
        escape(&timeline.label)
    );
    let every = (14.0 / row).ceil() as usize;
    for worker in 0..timeline.workers {
        let y = top + f64::from(worker) * row;
        let width = WIDTH - LEFT - RIGHT;
        let _ = writeln!(
            body,
            "<rect class=\"g\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width}\" height=\"{:.1}\"/>",
            row * 0.84
        );
        if usize::from(worker) % every == 0 {
            let y = y + row * 0.42 + 4.0;
            let _ = writeln!(
                body,
                "<text class=\"s\" x=\"4\" y=\"{y:.1}\">{} {worker}</text>",
                timeline.engine.worker_word()
            );
        }
    }
    for (class, path) in paths(timeline, classes, longest, top, row) {
        let _ = writeln!(
            body,
            "<path fill=\"{}\" d=\"{path}\"/>",
            hex(classes.list[class].colour)
        );
    }
    top + f64::from(timeline.workers) * row
}

/// One path a class, of all its bars.
fn paths(
    timeline: &Timeline,
    classes: &Classes,
    longest: u64,
    top: f64,
    row: f64,
) -> BTreeMap<usize, String> {
    let first = timeline.span().map_or(0, |(first, _)| first);
    let mut events: Vec<_> = timeline.events.iter().collect();
    events.sort_by_key(|event| (event.worker, event.start, event.end, event.task));
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    let mut open: Option<(usize, u16, f64, f64)> = None;
    let mut close = |bar: Option<(usize, u16, f64, f64)>| {
        if let Some((class, worker, from, to)) = bar {
            let (x, y, width, height) = (
                LEFT + from,
                top + f64::from(worker) * row,
                to - from,
                row * 0.84,
            );
            let path = paths.entry(class).or_default();
            let _ = write!(path, "M{x:.2} {y:.1}h{width:.2}v{height:.1}h-{width:.2}z");
        }
    };
    for event in &events {
        let class = classes.index(timeline, event);
        let from = pixels(event.start - first, longest);
        let to = pixels(event.end - first, longest);
        match &mut open {
            Some((c, w, _, end)) if *c == class && *w == event.worker && from - *end < 0.25 => {
                *end = end.max(to)
            }
            _ => close(open.replace((class, event.worker, from, to.max(from + 0.05)))),
        }
    }
    close(open);
    paths
}

fn write_axis(body: &mut String, unit: Unit, longest: u64, y: f64) -> f64 {
    let step = tick(longest);
    let mut time = 0;
    while time <= longest {
        let x = LEFT + pixels(time, longest);
        let _ = writeln!(body, "<path class=\"a\" d=\"M{x:.1} {y:.1}v4\"/>");
        if x < WIDTH - 60.0 || time == 0 {
            let label = match unit {
                Unit::Cycles => format!("{} cycles", thousands(time)),
                Unit::Ns if step.is_multiple_of(1_000_000) => format!("{} ms", time / 1_000_000),
                Unit::Ns if step.is_multiple_of(1_000) => format!("{} us", thousands(time / 1_000)),
                Unit::Ns => format!("{} ns", thousands(time)),
            };
            let _ = writeln!(
                body,
                "<text class=\"s\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
                y + 17.0
            );
        }
        time += step;
    }
    y + AXIS
}

/// A step of 1, 2 or 5 times a power of ten that gives at most eight ticks.
fn tick(longest: u64) -> u64 {
    let mut step = 1;
    for factor in [2, 5, 10].iter().cycle() {
        if longest / step < 8 {
            break;
        }
        let power = 10_u64.pow(step.ilog10());
        step = power * factor;
    }
    step
}

fn write_legend(body: &mut String, classes: &Classes, y: f64) -> f64 {
    let (mut x, mut y) = (4.0, y + 4.0);
    for class in classes.list.iter().take(LEGEND_CLASSES) {
        let width = 26.0 + 7.0 * class.label.chars().count() as f64;
        if x + width > WIDTH {
            (x, y) = (4.0, y + LEGEND_LINE);
        }
        let colour = hex(class.colour);
        let _ = writeln!(
            body,
            "<rect fill=\"{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" rx=\"3\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 17.0,
            y + 10.5,
            escape(&class.label)
        );
        x += width;
    }
    if classes.list.len() > LEGEND_CLASSES {
        let more = classes.list.len() - LEGEND_CLASSES;
        let _ = writeln!(
            body,
            "<text class=\"s\" x=\"{x:.1}\" y=\"{:.1}\">and {more} more</text>",
            y + 10.5
        );
    }
    y + LEGEND_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for longest in [0, 1, 7, 8, 99, 12_345, 9_999_999, u64::from(u32::MAX)] {
            let step = tick(longest);
            assert!(longest / step < 8, "{longest}: {step}");
            let leading = step / 10_u64.pow(step.ilog10());
            assert!([1, 2, 5].contains(&leading), "{longest}: {step}");
            assert!(longest < 8 || longest / step >= 3, "{longest}: {step}");
        }
    }
}
