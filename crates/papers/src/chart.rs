//! Still charts as SVG.

use plotters::prelude::*;
use std::ops::Range;

/// Grey of axes, on white and on near-black; words have the colour of the page's.
pub(crate) const INK: RGBAColor = RGBAColor(0x76, 0x7d, 0x88, 1.0);
const FAINT: RGBAColor = RGBAColor(0x76, 0x7d, 0x88, 0.25);
// Three of Okabe and Ito's palette.
pub(crate) const BLUE: RGBAColor = RGBAColor(0x00, 0x72, 0xb2, 1.0);
pub(crate) const VERMILION: RGBAColor = RGBAColor(0xd5, 0x5e, 0x00, 1.0);
pub(crate) const GREEN: RGBAColor = RGBAColor(0x00, 0x9e, 0x73, 1.0);

/// How the points of a series are drawn. Sizes are radii in pixels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mark {
    /// A line through the points, with a bar of this half height at each.
    Line(Vec<f64>),
    /// Empty circles.
    Circles(i32),
    /// Filled circles.
    Dots(i32),
    /// Filled triangles.
    Triangles(i32),
}

/// Points of one colour.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) colour: RGBAColor,
    pub(crate) mark: Mark,
}

/// A chart of numbers against numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chart<'a> {
    /// The name that a screen reader speaks.
    pub(crate) name: &'a str,
    /// The caption above the chart; empty: none.
    pub(crate) caption: &'a str,
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    pub(crate) margin: u32,
    /// The range of the horizontal axis, and what it shows.
    pub(crate) x: (Range<f64>, &'a str),
    /// The same of the vertical axis.
    pub(crate) y: (Range<f64>, &'a str),
    /// Numbers along an axis; `None`: as many as there is room for.
    pub(crate) labels: Option<usize>,
    pub(crate) series: &'a [Series],
}

/// Returns a number along an axis: with up to two digits behind the point, so that no two labels of an axis are the same.
fn label(number: &f64) -> String {
    let text = format!("{:.2}", number + 0.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Chart<'_> {
    /// Returns the chart as an SVG element that is as wide as there is room.
    pub(crate) fn svg(&self) -> String {
        let mut text = String::new();
        self.draw(&mut text)
            .expect("a picture in memory can be drawn");
        let size = format!("<svg width=\"{}\" height=\"{}\" ", self.size.0, self.size.1);
        let named = format!("<svg role=\"img\" aria-label=\"{}\" ", self.name);
        text.replacen(&size, &named, 1)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error + '_>> {
        let words = |size: i32| ("sans-serif", size).into_font().color(&INK);
        let area = SVGBackend::with_string(text, self.size).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder
            .margin(self.margin)
            .x_label_area_size(40)
            .y_label_area_size(48);
        if !self.caption.is_empty() {
            builder.caption(self.caption, words(17));
        }
        let mut chart = builder.build_cartesian_2d(self.x.0.clone(), self.y.0.clone())?;
        let mut mesh = chart.configure_mesh();
        mesh.axis_style(INK)
            .bold_line_style(FAINT)
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .x_desc(self.x.1)
            .y_desc(self.y.1)
            .label_style(words(14));
        if let Some(labels) = self.labels {
            mesh.x_labels(labels).y_labels(labels);
        }
        mesh.draw()?;
        for Series {
            points,
            colour,
            mark,
        } in self.series
        {
            let points = points.iter().copied();
            match mark {
                Mark::Line(errors) => {
                    chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
                    chart.draw_series(points.zip(errors).map(|((x, y), error)| {
                        PathElement::new([(x, y - error), (x, y + error)], colour.stroke_width(1))
                    }))?;
                }
                Mark::Circles(radius) => {
                    let of = |point| Circle::new(point, *radius, colour.stroke_width(2));
                    chart.draw_series(points.map(of))?;
                }
                Mark::Dots(radius) => {
                    let of = |point| Circle::new(point, *radius, colour.filled());
                    chart.draw_series(points.map(of))?;
                }
                Mark::Triangles(radius) => {
                    let of = |point| TriangleMarker::new(point, *radius, colour.filled());
                    chart.draw_series(points.map(of))?;
                }
            }
        }
        drop(chart);
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_digits_that_tell_them_apart() {
        let labels =
            [-0.0, 0.5, 1.0, 98.25, 100.0, 0.30000000000000004].map(|number| label(&number));
        assert_eq!(labels, ["0", "0.5", "1", "98.25", "100", "0.3"]);
    }
}
