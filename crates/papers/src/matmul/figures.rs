//! The figures of the page.

use super::cases::{CANDIDATES, Hint, Results, Scheme, axis, beside, single};
use super::published::CORES;
use super::simulating::Pages;
use super::summary::speed;
use crate::chart::{BLUE, Chart, GREEN, INK, Mark, Series, VERMILION};
use crate::{Figure, Layout};
use plotters::style::RGBAColor;

pub(super) fn figures(results: &Results, quick: bool) -> Vec<Figure> {
    let figure = |heading, layout, svg, caption: String| Figure {
        heading,
        layout,
        svg,
        caption,
    };
    let beside = beside();
    let named = match beside.is_empty() {
        true => String::new(),
        false => format!(" Triangles: {}.", beside.join(", ")),
    };
    vec![
        figure(
            "Speed by cores (fig. 3)",
            Layout::Panels,
            [
                ("matrices first touched by one core", Pages::OneSocket),
                ("matrices interleaved", Pages::Interleaved),
            ]
            .map(|(name, pages)| curves(results, name, pages, quick))
            .concat(),
            format!(
                "A single multiplication. Vermilion: Original; blue: Cutoff; grey: Ideal (circles).{named} With interleaved pages the stop \
                 vanishes."
            ),
        ),
        figure(
            "Steals by depth on 32 cores (figs 5 and 7)",
            Layout::Panels,
            [
                ("Original", Scheme::Original),
                ("shallowest of 8, stale", Scheme::DepthAware(8, Hint::Stale)),
                ("shallowest of 8, fresh", Scheme::DepthAware(8, Hint::Fresh)),
            ]
            .map(|(name, scheme)| histogram(results, name, scheme))
            .concat(),
            "Steals of one multiplication by the depth of the stolen closure. An ideal run steals down to depth 5 only: the closures \
             that are forked at depth 4."
                .to_owned(),
        ),
        figure(
            "Shallowest of k on 32 cores (fig. 6)",
            Layout::One,
            gains(results),
            "Gain over Original in percent by the number of candidates. Green: fresh hints; vermilion: stale; grey: garbage.".to_owned(),
        ),
    ]
}

fn curves(results: &Results, name: &str, pages: Pages, quick: bool) -> String {
    let points = |scheme| -> Vec<(f64, f64)> {
        let of = |&cores: &u16| {
            let pages = match scheme {
                Scheme::Ideal => Pages::OneSocket,
                _ => pages,
            };
            let case = single(scheme, pages, cores);
            Some((f64::from(cores), speed(results, case)?))
        };
        axis(quick).iter().filter_map(of).collect()
    };
    let line = |scheme, colour: RGBAColor| {
        let points = points(scheme);
        Series {
            mark: Mark::Line(vec![0.0; points.len()]),
            points,
            colour,
        }
    };
    let mut series = vec![
        line(Scheme::Original, VERMILION),
        line(Scheme::Cutoff, BLUE),
        Series {
            points: points(Scheme::Ideal),
            colour: INK,
            mark: Mark::Circles(4),
        },
    ];
    for policy in beside() {
        series.push(Series {
            points: points(Scheme::Beside(policy)),
            colour: GREEN,
            mark: Mark::Triangles(5),
        });
    }
    let all = series.iter().flat_map(|one| &one.points);
    let top = all.fold(1.0_f64, |top, point| top.max(point.1));
    Chart {
        name: &format!("GFLOPS by cores, {name}"),
        caption: name,
        size: (420, 320),
        margin: 8,
        x: (0.0..34.0, "cores"),
        y: (0.0..top * 1.05, "GFLOPS"),
        labels: None,
        series: &series,
    }
    .svg()
}

/// Bars, as thick lines from the axis.
fn histogram(results: &Results, name: &str, scheme: Scheme) -> String {
    let steals = results.by_depth(single(scheme, Pages::OneSocket, CORES));
    let all = [Scheme::Original, Scheme::DepthAware(8, Hint::Stale)];
    let all = all.map(|scheme| results.by_depth(single(scheme, Pages::OneSocket, CORES)));
    let top = all.iter().flatten().copied().fold(1.0, f64::max);
    let bars = steals.iter().enumerate().map(|(depth, &steals)| Series {
        points: vec![(depth as f64, steals / 2.0)],
        colour: BLUE,
        mark: Mark::Line(vec![steals / 2.0]),
    });
    let ends = steals.iter().enumerate();
    let ends = Series {
        points: ends
            .map(|(depth, &steals)| (depth as f64, steals))
            .collect(),
        colour: BLUE,
        mark: Mark::Dots(4),
    };
    let series: Vec<Series> = bars.chain([ends]).collect();
    Chart {
        name: &format!("Steals by depth, {name}"),
        caption: name,
        size: (340, 280),
        margin: 8,
        x: (-0.5..12.5, "depth"),
        y: (0.0..top * 1.1, "steals"),
        labels: None,
        series: &series,
    }
    .svg()
}

fn gains(results: &Results) -> String {
    let original = single(Scheme::Original, Pages::OneSocket, CORES);
    let mut series = Vec::new();
    for (hint, colour) in [
        (Hint::Fresh, GREEN),
        (Hint::Stale, VERMILION),
        (Hint::Garbage, INK),
    ] {
        let gain = |k: &u16| {
            let case = single(Scheme::DepthAware(*k, hint), Pages::OneSocket, CORES);
            let gain = results.cold(original)? / results.cold(case)? - 1.0;
            Some((f64::from(*k), 100.0 * gain))
        };
        let points: Vec<(f64, f64)> = CANDIDATES.iter().filter_map(gain).collect();
        series.push(Series {
            mark: Mark::Line(vec![0.0; points.len()]),
            points,
            colour,
        });
    }
    let all = series.iter().flat_map(|one| &one.points);
    let (low, top) = all.fold((-5.0_f64, 5.0_f64), |(low, top), point| {
        (low.min(point.1), top.max(point.1))
    });
    Chart {
        name: "Gain of the shallowest of k over Original",
        caption: "",
        size: (560, 300),
        margin: 8,
        x: (0.0..9.0, "candidates"),
        y: (low - 2.0..top + 2.0, "percent"),
        labels: None,
        series: &series,
    }
    .svg()
}
