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
/// The most classes in a legend: more would hide the chart.
const LEGEND_CLASSES: usize = 48;

/// The style follows the reader's light or dark setting, also inside of an `<img>`. In a page it applies to this picture only.
const STYLE: &str = ".gantt text{font:12px system-ui,sans-serif;fill:#1b1d21}.gantt .b{font-weight:600}.gantt .s{fill:#5c636e}\
    .gantt .t{text-anchor:middle}.gantt .g{fill:#f0f2f4}.gantt .a{stroke:#9aa3af}\
    @media(prefers-color-scheme:dark){.gantt text{fill:#e6e8eb}.gantt .s{fill:#9aa3af}.gantt .g{fill:#1d2025}}";

/// Returns one timeline as a self-contained SVG picture, 900 pixels wide: workers from top to bottom, time from left to right, with axis
/// and legend. Costs a pass over the events (see [`to_svg_gantts`]).
pub fn to_svg_gantt(timeline: &Timeline, colour_by: ColourBy) -> String {
    to_svg_gantts(&[timeline], colour_by)
}

/// Returns several timelines below each other with one time scale and one legend, so that lengths and colours can be compared.
///
/// Neighbouring tasks of one colour with a gap below a quarter of a pixel are drawn as one bar, which looks the same and keeps the file
/// small. Tasks narrower than a pixel are never left out.
///
/// # Panics
/// If [`crate::validate`] would refuse the timelines.
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
        "<svg class=\"gantt\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\">\n\
         <style>{STYLE}</style>\n{body}</svg>\n"
    )
}

/// Returns `text` escaped for XML and HTML.
pub(crate) fn escape(text: &str) -> String {
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

/// Returns one path for each class, with all its bars.
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

/// Writes the axis and returns the height at which it ends. The unit is written once, left of the numbers.
fn write_axis(body: &mut String, unit: Unit, longest: u64, y: f64) -> f64 {
    let step = tick(longest);
    let (scale, word) = scale(unit, step);
    let below = y + 17.0;
    let _ = writeln!(
        body,
        "<text class=\"s\" x=\"4\" y=\"{below:.1}\">{word}</text>"
    );
    for time in (0..=longest).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let x = LEFT + pixels(time, longest);
        let _ = writeln!(body, "<path class=\"a\" d=\"M{x:.1} {y:.1}v4\"/>");
        let label = thousands(time / scale);
        if x + half_width(&label) <= WIDTH {
            let _ = writeln!(
                body,
                "<text class=\"s t\" x=\"{x:.1}\" y=\"{below:.1}\">{label}</text>"
            );
        }
    }
    y + AXIS
}

/// Returns the divisor and the unit of times with this step.
fn scale(unit: Unit, step: u64) -> (u64, &'static str) {
    let words = match unit {
        Unit::Cycles => ["cycles", "k cycles", "M cycles", "G cycles"],
        Unit::Ns => ["ns", "us", "ms", "s"],
    };
    let power = (step.ilog10() / 3).min(3);
    (10_u64.pow(3 * power), words[power as usize])
}

/// Returns an upper limit of half the width of a label.
fn half_width(label: &str) -> f64 {
    3.5 * label.len() as f64
}

/// Returns a step of 1, 2 or 5 times a power of ten with at most eight ticks.
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

    #[test]
    fn labels_of_an_axis_are_apart() {
        // The middle and half the width of each number; no other text has this class.
        let labels = |axis: &str| -> Vec<(f64, f64)> {
            let numbers = axis.lines().filter(|line| line.contains("\"s t\""));
            let place = |line: &str| -> Option<(f64, f64)> {
                let (x, rest) = line.split_once(" x=\"")?.1.split_once('"')?;
                let label = rest.split_once('>')?.1.strip_suffix("</text>")?;
                Some((x.parse().ok()?, half_width(label)))
            };
            numbers.map(|line| place(line).expect("a number")).collect()
        };
        for unit in [Unit::Cycles, Unit::Ns] {
            for longest in
                (0..19).flat_map(|power| [1, 2, 3, 5, 7, 9].map(|n| n * 10_u64.pow(power)))
            {
                let mut axis = String::new();
                write_axis(&mut axis, unit, longest, 0.0);
                let labels = labels(&axis);
                assert!(labels.len() > 1, "{longest}: {axis}");
                // The unit is left of the first number and has at most eight letters.
                assert!(labels[0].0 - labels[0].1 > 4.0 + 8.0 * 7.0, "{axis}");
                assert!(labels.iter().all(|(x, half)| x + half <= WIDTH), "{axis}");
                let apart = |two: &[(f64, f64)]| two[1].0 - two[1].1 > two[0].0 + two[0].1 + 4.0;
                assert!(labels.windows(2).all(apart), "{longest}: {axis}");
            }
        }
    }
}
