//! Still charts as SVG.

use super::calibrate::{Drawn, front};
use super::published::{Row, Scheduler, Stream};
use super::simulating::Ran;
use super::toshiba::{Reproduced, sampled};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;

/// Why there is no picture: never seen, since SVG goes to memory.
type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Grey of axes, on white and on near-black; words have the colour of the page's.
const INK: RGBColor = RGBColor(0x76, 0x7d, 0x88);
const FAINT: RGBAColor = RGBAColor(0x76, 0x7d, 0x88, 0.25);
/// Patterns A and B; blue and vermilion of Okabe and Ito's palette.
const A: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const B: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const FCFS: RGBColor = RGBColor(0x00, 0x9e, 0x73);

fn colour(scheduler: Scheduler) -> RGBColor {
    match scheduler {
        Scheduler::Fcfs => FCFS,
        Scheduler::A => A,
        Scheduler::B => B,
    }
}

/// A picture, called `name` for who cannot see it.
fn svg(
    name: &str,
    size: (u32, u32),
    draw: impl for<'a> FnOnce(&Area<'a>) -> Result<(), Failed<'a>>,
) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).expect("a picture in memory can be drawn");
        area.present().expect("a picture in memory can be drawn");
    }
    // As wide as there is room, and no wider than it was made for.
    let size = format!("<svg width=\"{}\" height=\"{}\" ", size.0, size.1);
    let named = format!("<svg role=\"img\" aria-label=\"{name}\" ");
    text.replacen(&size, &named, 1)
}

/// A line of a chart.
struct Line {
    points: Vec<(f64, f64)>,
    /// Half the height of a bar at each point, or nothing.
    errors: Vec<f64>,
    colour: RGBColor,
    /// Ours; published otherwise, which is drawn as empty circles without a line.
    ours: bool,
}

fn words(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// One chart of figures against cores.
fn against_cores<'a>(
    area: &Area<'a>,
    title: &str,
    unit: &str,
    y: Range<f64>,
    lines: &[Line],
) -> Result<(), Failed<'a>> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, words(17))
        .margin(6)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(0.7..6.3, y)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc("cores")
        .y_desc(unit)
        .label_style(words(14))
        .draw()?;
    for line in lines {
        if line.ours {
            chart.draw_series(LineSeries::new(
                line.points.iter().copied(),
                line.colour.stroke_width(2),
            ))?;
            let bars = line.points.iter().zip(&line.errors);
            chart.draw_series(bars.map(|(&(x, y), error)| {
                PathElement::new(
                    [(x, y - error), (x, y + error)],
                    line.colour.stroke_width(1),
                )
            }))?;
        } else {
            let circles = line
                .points
                .iter()
                .map(|&point| Circle::new(point, 4, line.colour.stroke_width(2)));
            chart.draw_series(circles)?;
        }
    }
    Ok(())
}

/// The panels of Table 2: a stream and a size of the L2.
fn panels(found: &Reproduced) -> Vec<(Stream, u32)> {
    let mut panels: Vec<(Stream, u32)> = found
        .table2
        .iter()
        .map(|(row, _)| (row.cell.stream, row.cell.l2_kb))
        .collect();
    panels.dedup();
    panels
}

/// What a chart shows of a row for a scheduler: published, and ours with its error.
type Figure = fn(&Row, &[Ran; 3], Scheduler) -> (f64, f64, f64);

fn gains(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> (f64, f64, f64) {
    let ours = sampled(ran, scheduler);
    (row.gain(scheduler), ours.gain, ours.error.unwrap_or(0.0))
}

fn speeds(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> (f64, f64, f64) {
    (row.of(scheduler).fps, ran[scheduler as usize].fps(), 0.0)
}

/// Gains over FCFS against cores, a picture for each stream and size of the L2.
pub(super) fn gains_chart(found: &Reproduced) -> String {
    panels_chart(
        found,
        &[Scheduler::A, Scheduler::B],
        "percent over fcfs",
        gains,
        Some(-20.0..100.0),
    )
}

/// Frames a second against cores.
pub(super) fn speeds_chart(found: &Reproduced) -> String {
    panels_chart(found, &Scheduler::ALL, "frames a second", speeds, None)
}

fn panels_chart(
    found: &Reproduced,
    schedulers: &[Scheduler],
    unit: &str,
    figure: Figure,
    range: Option<Range<f64>>,
) -> String {
    let panel = |(stream, l2_kb): (Stream, u32)| {
        let cells: Vec<(&Row, &[Ran; 3])> = found
            .table2
            .iter()
            .filter(|(row, _)| (row.cell.stream, row.cell.l2_kb) == (stream, l2_kb))
            .filter_map(|(row, ran)| Some((row, ran.as_ref()?)))
            .collect();
        let mut lines = Vec::new();
        for &scheduler in schedulers {
            let of = |pick: fn((f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
                let points = cells.iter().map(|(row, ran)| {
                    (f64::from(row.cell.cores), pick(figure(row, ran, scheduler)))
                });
                points.collect()
            };
            let line = |points, errors, ours| Line {
                points,
                errors,
                colour: colour(scheduler),
                ours,
            };
            let errors = of(|figure| figure.2)
                .into_iter()
                .map(|point| point.1)
                .collect();
            lines.push(line(of(|figure| figure.1), errors, true));
            lines.push(line(of(|figure| figure.0), Vec::new(), false));
        }
        let most = lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.1);
        let y = range.clone().unwrap_or(0.0..most.fold(1.0, f64::max) * 1.1);
        let predicted = if stream.is_calibrated() {
            ""
        } else {
            ", predicted"
        };
        let title = format!("{} {l2_kb} KB{predicted}", stream.name());
        svg(&format!("{title}: {unit}"), (270, 250), |area| {
            against_cores(area, &title, unit, y, &lines)
        })
    };
    panels(found).into_iter().map(panel).collect()
}

/// The sets of the search: how far from the uniform gain against how far from the worse of the board's gains; the front is ringed, the
/// chosen set is a triangle.
pub(super) fn front_chart(drawn: &[Drawn], chosen: [f64; 3]) -> String {
    let on_front = front(drawn);
    let place = |distances: [f64; 3]| (distances[0], distances[1].max(distances[2]));
    let all = || drawn.iter().map(|one| place(one.distances()));
    let chosen = place(chosen);
    let reach = |of: fn((f64, f64)) -> f64| 1.1 * all().chain([chosen]).map(of).fold(1.0, f64::max);
    let (right, top) = (reach(|point| point.0), reach(|point| point.1));
    svg("The sets of the search", (460, 380), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .x_desc("uniform model: points from the gain of A (Table 3)")
            .y_desc("board: points from that of A or B, the worse")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .label_style(words(14))
            .draw()?;
        chart.draw_series(all().map(|point| Circle::new(point, 3, INK.mix(0.5).filled())))?;
        let best = on_front.iter().map(|&at| place(drawn[at].distances()));
        chart.draw_series(best.map(|point| Circle::new(point, 5, A.stroke_width(2))))?;
        chart.draw_series([TriangleMarker::new(chosen, 8, B.filled())])?;
        Ok(())
    })
}
