//! The figures of the page.

use super::published::best;
use super::simulating::OfProgram;
use crate::chart::{BLUE, Chart, GREEN, INK, Mark, Series, VERMILION};
use crate::{Figure, Layout};
use plotters::style::RGBAColor;

const COLOURS: [RGBAColor; 4] = [GREEN, BLUE, VERMILION, INK];

pub(super) fn figures(found: &[OfProgram], switches: &[(&'static str, f64)]) -> Vec<Figure> {
    let figure = |heading, layout, svg, caption: String| Figure {
        heading,
        layout,
        svg,
        caption,
    };
    let of = |name: &str| found.iter().find(|one| one.name == name);
    let names: Vec<String> = (1..)
        .zip(found)
        .map(|(at, one)| format!("{at} {}", one.name))
        .collect();
    let bars = |name: &str, y: &str, values: &[(RGBAColor, Vec<f64>)]| numbered(name, y, values);
    let ft = of("ft").map(|ft| {
        let values =
            |value: fn(&super::simulating::OfRegion) -> f64| ft.regions.iter().map(value).collect();
        bars(
            "Speed of FT's regions over 60x4",
            "times as fast as 60x4",
            &[
                (BLUE, values(|one| one.in_static)),
                (VERMILION, values(|one| one.in_own)),
            ],
        )
    });
    let all = |value: fn(&OfProgram) -> f64| found.iter().map(value).collect::<Vec<f64>>();
    let costs: Vec<String> = switches
        .iter()
        .map(|(name, cost)| format!("{name}: {cost:.1} us"))
        .collect();
    vec![
        figure(
            "Speed by cores and threads per core (fig. 1)",
            Layout::Panels,
            ["ep", "sp", "ft"].into_iter().filter_map(of).map(speeds).collect(),
            "Over one thread on one core. Green, blue, vermilion, grey: 1 to 4 threads on each core. Circle: published best.".to_owned(),
        ),
        figure(
            "FT region by region (fig. 2)",
            Layout::One,
            ft.unwrap_or_default(),
            "Regions: evolution, transforms along the first, second and third dimension. Blue: the program's best static shape; \
             vermilion: the \
             region's own."
                .to_owned(),
        ),
        figure(
            "Waiting siblings (fig. 6)",
            Layout::One,
            bars(
                "Speed of 60x1 beside waiting siblings",
                "times as fast as alone",
                &[(VERMILION, all(|one| one.spinning)), (BLUE, all(|one| one.delayed))],
            ),
            format!(
                "One thread on each core works, three wait. Vermilion: polling; blue: polling with a delay of 1,000 cycles. {}. \
                 Switching from 4 to 3 and \
                 back to 4 threads per core (fig. 7): {}.",
                names.join(", "),
                costs.join("; ")
            ),
        ),
        figure(
            "Gains over 60x4 (fig. 8)",
            Layout::One,
            bars(
                "Gains over 60x4 in percent",
                "percent",
                &[
                    (GREEN, all(|one| one.gain_static)),
                    (BLUE, all(|one| one.gain_oracle)),
                    (VERMILION, all(|one| one.gain_predict)),
                ],
            ),
            format!("Green: the best static shape; blue: oracle; vermilion: predict. {}.", names.join(", ")),
        ),
    ]
}

/// Returns points over 1, 2, ... by colour.
fn numbered(name: &str, y: &str, values: &[(RGBAColor, Vec<f64>)]) -> String {
    let series: Vec<Series> = values
        .iter()
        .enumerate()
        .map(|(at, (colour, values))| Series {
            points: (1..)
                .zip(values)
                .map(|(x, &value)| (f64::from(x) + 0.15 * at as f64, value))
                .collect(),
            colour: *colour,
            mark: Mark::Dots(4),
        })
        .collect();
    let points = series.iter().flat_map(|one| &one.points);
    let (right, top) = points.fold((1.0_f64, 1.0_f64), |(x, y), point| {
        (x.max(point.0), y.max(point.1))
    });
    Chart {
        name,
        caption: "",
        size: (560, 300),
        margin: 8,
        x: (0.5..right + 0.7, "number"),
        y: (0.0..top * 1.1, y),
        labels: None,
        series: &series,
    }
    .svg()
}

fn speeds(one: &OfProgram) -> String {
    let mut series = Vec::new();
    for (threads, colour) in (1..).zip(COLOURS) {
        let of = one
            .speeds
            .iter()
            .filter(|(shape, _)| shape.threads_per_core == threads);
        let points: Vec<(f64, f64)> = of
            .map(|(shape, &speed)| (f64::from(shape.cores), speed))
            .collect();
        series.push(Series {
            mark: Mark::Line(vec![0.0; points.len()]),
            points,
            colour,
        });
    }
    if let Some(shape) = best(one.name) {
        series.push(Series {
            points: vec![(f64::from(shape.cores), one.speeds[&shape])],
            colour: INK,
            mark: Mark::Circles(6),
        });
    }
    let top = one.speeds.values().copied().fold(1.0, f64::max) * 1.1;
    Chart {
        name: &format!("Speed of {} by cores and threads per core", one.name),
        caption: one.name,
        size: (340, 300),
        margin: 8,
        x: (0.0..62.0, "cores"),
        y: (0.0..top, "times as fast as one"),
        labels: None,
        series: &series,
    }
    .svg()
}
