//! The figures of the page.

use super::Reproduced;
use super::calibrate::{Drawn, distances, front, searched};
use super::published::{Row, Scheduler, Stream};
use super::simulating::{Ran, sampled};
use super::summary::Summary;
use crate::chart::{BLUE, Chart, GREEN, INK, Mark, Series, VERMILION};
use crate::{Figure, Layout};
use plotters::style::{Color as _, RGBAColor};
use std::ops::Range;
use tanada_report::{ColourBy, Timeline, to_svg_gantts};

pub(super) fn figures(found: &Reproduced, summary: &Summary) -> Vec<Figure> {
    let charts: Vec<&Timeline> = found.gantts.iter().collect();
    let drawn = searched();
    let figure = |heading, layout, svg, caption: &str| Figure {
        heading,
        layout,
        svg,
        caption: caption.to_owned(),
    };
    vec![
        figure(
            "Gains over FCFS",
            Layout::Panels,
            panels(
                found,
                &Scheduler::GROUPED,
                "percent over fcfs",
                gains,
                Some(-20.0..100.0),
            ),
            "Lines: ours, with the standard error of sampling. Circles: published (Table 2). Blue: pattern A; vermilion: pattern B.",
        ),
        figure(
            "Frames a second",
            Layout::Panels,
            panels(found, &Scheduler::ALL, "frames a second", speeds, None),
            "As above; green: FCFS.",
        ),
        figure(
            "One picture (fig. 13)",
            Layout::Wide,
            to_svg_gantts(&charts, ColourBy::SGroup),
            "WVGA, 128 KB, 4 cores, on the board; from above FCFS, A and B. By S group: a colour is a stage. FCFS reads no groups; its \
             bars have the colours of pattern A, as in the paper.",
        ),
        figure(
            "",
            Layout::Wide,
            to_svg_gantts(&charts, ColourBy::TGroup),
            "The same by T group.",
        ),
        figure(
            "Other parameters",
            Layout::One,
            sets(&drawn, distances(summary.claimed())),
            &format!(
                "{} sets of a grid, judged by WVGA rows and Table 3 only, on two pictures (tanada reproduce toshiba --calibrate). Blue \
                 circles: beaten by no other in all of the three gains. Triangle: the set of this run, on its pictures.",
                drawn.len()
            ),
        ),
    ]
}

fn colour(scheduler: Scheduler) -> RGBAColor {
    match scheduler {
        Scheduler::Fcfs => GREEN,
        Scheduler::A => BLUE,
        Scheduler::B => VERMILION,
    }
}

/// What a chart shows of a row for a scheduler: published, ours, and the error of ours.
type Shown = fn(&Row, &[Ran; 3], Scheduler) -> [f64; 3];

fn gains(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> [f64; 3] {
    let ours = sampled(ran, scheduler);
    [row.gain(scheduler), ours.gain, ours.error.unwrap_or(0.0)]
}

fn speeds(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> [f64; 3] {
    [row.of(scheduler).fps, ran[scheduler as usize].fps(), 0.0]
}

/// Returns a chart against cores for each stream and size of the L2 of Table 2.
fn panels(
    found: &Reproduced,
    schedulers: &[Scheduler],
    unit: &str,
    shown: Shown,
    range: Option<Range<f64>>,
) -> String {
    let place = |row: &Row| (row.cell.stream, row.cell.l2_kb);
    let mut places: Vec<(Stream, u32)> = found.table2.iter().map(|(row, _)| place(row)).collect();
    places.dedup();
    let panel = |(stream, l2_kb): (Stream, u32)| {
        let rows = found.table2.iter();
        let rows = rows.filter(|(row, _)| place(row) == (stream, l2_kb));
        let rows: Vec<(&Row, &[Ran; 3])> = rows
            .filter_map(|(row, ran)| Some((row, ran.as_ref()?)))
            .collect();
        let mut series = Vec::new();
        for &scheduler in schedulers {
            let of = |which: usize| -> Vec<(f64, f64)> {
                let points = rows.iter().map(|(row, ran)| {
                    (f64::from(row.cell.cores), shown(row, ran, scheduler)[which])
                });
                points.collect()
            };
            let errors = of(2).into_iter().map(|(_, error)| error).collect();
            for (which, mark) in [(1, Mark::Line(errors)), (0, Mark::Circles(4))] {
                series.push(Series {
                    points: of(which),
                    colour: colour(scheduler),
                    mark,
                });
            }
        }
        let points = series.iter().flat_map(|one| &one.points);
        let most = points.map(|point| point.1).fold(1.0, f64::max);
        let predicted = match stream.is_calibrated() {
            true => "",
            false => ", predicted",
        };
        let caption = format!("{} {l2_kb} KB{predicted}", stream.name());
        let chart = Chart {
            name: &format!("{caption}: {unit}"),
            caption: &caption,
            size: (270, 250),
            margin: 6,
            x: (0.7..6.3, "cores"),
            y: (range.clone().unwrap_or(0.0..most * 1.1), unit),
            labels: Some(6),
            series: &series,
        };
        chart.svg()
    };
    places.into_iter().map(panel).collect()
}

/// Returns the chart of the sets of the search: the distance from the uniform gain against the larger distance from the board's gains.
/// Sets that no other set beats are ringed; the set of this run is a triangle.
fn sets(drawn: &[Drawn], own: [f64; 3]) -> String {
    let place = |distances: [f64; 3]| (distances[0], distances[1].max(distances[2]));
    let all: Vec<_> = drawn.iter().map(|one| place(one.distances())).collect();
    let (best, own) = (front(drawn), place(own));
    let reach = |of: fn(&(f64, f64)) -> f64| {
        let points = all.iter().chain([&own]).map(of);
        0.0..1.1 * points.fold(1.0, f64::max)
    };
    let (x, y) = (reach(|point| point.0), reach(|point| point.1));
    let series = |points, colour, mark| Series {
        points,
        colour,
        mark,
    };
    let ringed = best.iter().map(|&at| all[at]).collect();
    let chart = Chart {
        name: "The sets of the search",
        caption: "",
        size: (460, 380),
        margin: 8,
        x: (x, "uniform model: points from the gain of A (Table 3)"),
        y: (y, "board: points from that of A or B, the worse"),
        labels: None,
        series: &[
            series(all.clone(), INK.mix(0.5), Mark::Dots(3)),
            series(ringed, BLUE, Mark::Circles(5)),
            series(vec![own], VERMILION, Mark::Triangles(8)),
        ],
    };
    chart.svg()
}
