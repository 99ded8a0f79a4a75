//! The figures of the page.

use super::simulating::Ran;
use super::{CACHES, Findings, RATES};
use crate::chart::{BLUE, Chart, GREEN, INK, Mark, Series, VERMILION};
use crate::{Figure, Layout};
use plotters::style::RGBAColor;
use std::fmt::Write as _;
use tanada_policy::deliveries;
use tanada_sim::rtos::Span;
use tanada_sim::rtos::receiver::{IDLE, NOTIFY, OUTPUT, PDCP, RECEIVE, TIMER};

const COLOURS: [RGBAColor; 4] = [VERMILION, BLUE, INK, GREEN];
const NAMES: [&str; 4] = ["#d55e00", "#0072b2", "#767d88", "#009e73"];

pub(super) fn figures(found: &Findings, us: f64) -> Vec<Figure> {
    let figure = |heading, layout, svg, caption: String| Figure {
        heading,
        layout,
        svg,
        caption,
    };
    let colours = ["vermilion", "blue", "grey", "green"];
    let who: Vec<String> = deliveries::all()
        .iter()
        .zip(colours)
        .map(|(entry, colour)| format!("{}: {colour}", entry.name))
        .collect();
    let who = who.join(", ");
    let by_rate = |what: &str, y: &str, top: f64, value: &dyn Fn(&Ran) -> f64| {
        let each = CACHES
            .iter()
            .enumerate()
            .map(|(at, (name, _))| rates(found, at, name, what, (y, top), value));
        each.collect::<String>()
    };
    vec![
        figure(
            "Tasks over time (fig. 6)",
            Layout::Wide,
            [("a) periodic", &found.on[1]), ("b) immediate", &found.on[0])].map(|(name, ran)| gantt(name, &ran.spans, us)).concat(),
            "One run each. Rows are tasks and handlers by their numbers in the paper. The axis is in microseconds; \
             the idle task is faint.".to_owned(),
        ),
        figure(
            "Time of each task (figs 7 and 8)",
            Layout::One,
            bars("Microseconds of each task and handler", &found.on, us),
            "Left bars: immediate; right bars: periodic. Means of all seeds.".to_owned(),
        ),
        figure(
            "Without caches (fig. 9)",
            Layout::One,
            bars("Microseconds of each task and handler without caches", &found.off, us),
            "The same with `rtos.caches=off`.".to_owned(),
        ),
        figure(
            "Cost against rate",
            Layout::Panels,
            by_rate("Receiver's time for each message", "us a message", 200.0, &|ran: &Ran| {
                ran.total() / us / ran.latencies.len().max(1) as f64
            }),
            format!("The receiver's time for each message, over the decimal logarithm of messages a second; ticks \
             without messages are part of it. {who}."),
        ),
        figure(
            "Latency against rate",
            Layout::Panels,
            by_rate("Mean latency", "log10 us", 4.0, &|ran: &Ran| (ran.latency().0 / us).max(1.0).log10()),
            format!("From sending until the receiving task takes the message: decimal logarithm of the mean in \
             microseconds. The bound is 2 ms. {who}."),
        ),
    ]
}

/// Returns what a value is by rate, with one pair of caches.
fn rates(
    found: &Findings,
    caches: usize,
    caption: &str,
    what: &str,
    (y, top): (&str, f64),
    value: &dyn Fn(&Ran) -> f64,
) -> String {
    let all = deliveries::all().len();
    let runs = &found.rates[caches * all * RATES.len()..];
    let series: Vec<Series> = (0..all)
        .map(|at| {
            let points = RATES.iter().zip(&runs[at * RATES.len()..]);
            let points: Vec<(f64, f64)> = points
                .map(|(&rate, ran)| ((rate as f64).log10(), value(ran).min(top)))
                .collect();
            Series {
                mark: Mark::Line(vec![0.0; points.len()]),
                points,
                colour: COLOURS[at % COLOURS.len()],
            }
        })
        .collect();
    Chart {
        name: &format!("{what} by rate, caches of {caption}"),
        caption,
        size: (340, 280),
        margin: 8,
        x: (1.2..4.1, "log10 messages a second"),
        y: (0.0..top, y),
        labels: None,
        series: &series,
    }
    .svg()
}

/// Rows from above.
const ROWS: [u32; 10] = [
    NOTIFY, TIMER, PDCP[2], PDCP[1], PDCP[0], OUTPUT[2], OUTPUT[1], OUTPUT[0], RECEIVE, IDLE,
];

fn gantt(name: &str, spans: &[Span], us: f64) -> String {
    const WIDTH: f64 = 1000.0;
    const LEFT: f64 = 40.0;
    const ROW: f64 = 18.0;
    let busy = |span: &&Span| span.id != IDLE;
    let first = spans
        .iter()
        .filter(busy)
        .map(|span| span.start)
        .min()
        .unwrap_or(0) as f64;
    // What happens at the start of the tasks, before the first message, is left out.
    let start = spans
        .iter()
        .filter(|span| [NOTIFY, TIMER].contains(&span.id))
        .map(|span| span.start as f64)
        .fold(f64::INFINITY, f64::min);
    let start = if start.is_finite() { start } else { first };
    let end = spans
        .iter()
        .filter(busy)
        .map(|span| span.end)
        .max()
        .unwrap_or(1) as f64;
    let scale = (WIDTH - LEFT - 10.0) / (end - start).max(1.0);
    let height = ROW * ROWS.len() as f64 + 46.0;
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"Tasks over time, {name}\" viewBox=\"0 0 {WIDTH} {height}\"><text \
         x=\"{LEFT}\" y=\"14\" font-size=\"14\">{name}</text>"
    );
    for (row, id) in ROWS.iter().enumerate() {
        let y = 20.0 + ROW * row as f64;
        let _ = write!(
            svg,
            "<text x=\"4\" y=\"{:.0}\" font-size=\"12\">{id}</text>",
            y + 13.0
        );
        for span in spans
            .iter()
            .filter(|span| span.id == *id && span.end as f64 > start)
        {
            let from = (span.start as f64).max(start);
            let (x, width) = (
                LEFT + (from - start) * scale,
                ((span.end as f64).min(end) - from) * scale,
            );
            let colour = match *id {
                NOTIFY | TIMER => NAMES[0],
                RECEIVE => NAMES[1],
                IDLE => NAMES[2],
                _ => NAMES[3],
            };
            let faint = if *id == IDLE { " opacity=\"0.4\"" } else { "" };
            if width > 0.0 {
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\"{faint}/>",
                    width.max(0.5)
                );
            }
        }
    }
    let step = if (end - start) / us > 500.0 {
        100.0
    } else {
        50.0
    };
    let mut at = 0.0;
    while at * us <= end - start {
        let x = LEFT + at * us * scale;
        let _ = write!(
            svg,
            "<text x=\"{x:.0}\" y=\"{:.0}\" font-size=\"12\" text-anchor=\"middle\">{at:.0}</text>",
            height - 8.0
        );
        at += step;
    }
    svg.push_str("</svg>");
    svg
}

fn bars(name: &str, pair: &[Ran], us: f64) -> String {
    const WIDTH: f64 = 700.0;
    const HEIGHT: f64 = 300.0;
    let ids: Vec<u32> = [NOTIFY, TIMER, RECEIVE]
        .into_iter()
        .chain(PDCP)
        .chain(OUTPUT)
        .collect();
    let most = ids
        .iter()
        .flat_map(|id| pair.iter().map(|ran| ran.of_ids(&[*id])))
        .fold(1.0, f64::max);
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{name}\" viewBox=\"0 0 {WIDTH} {}\">",
        HEIGHT + 40.0
    );
    let slot = WIDTH / ids.len() as f64;
    for (at, id) in ids.iter().enumerate() {
        for (side, ran) in pair.iter().enumerate() {
            let cycles = ran.of_ids(&[*id]);
            let height = cycles / most * (HEIGHT - 30.0);
            let x = slot * at as f64 + 8.0 + side as f64 * (slot / 2.0 - 8.0);
            let (y, width) = (HEIGHT - height, slot / 2.0 - 10.0);
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"middle\">{:.0}</text>",
                NAMES[side],
                x + width / 2.0,
                y - 4.0,
                cycles / us
            );
        }
        let label = if *id == NOTIFY {
            "21-22".to_owned()
        } else {
            id.to_string()
        };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.0}\" font-size=\"13\" text-anchor=\"middle\">{label}</text>",
            slot * (at as f64 + 0.5),
            HEIGHT + 20.0
        );
    }
    svg.push_str("</svg>");
    svg
}
