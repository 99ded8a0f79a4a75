//! The curves as an SVG: a panel a graph, a line a policy.

use super::{Point, Wanted};
use std::fmt::Write;

const COLOURS: [&str; 11] = [
    "#8c8c8c", "#e0a030", "#c8642c", "#2f7d5b", "#7fb069", "#b04a6a", "#a08060", "#0072b2",
    "#d55e00", "#8a5bb0", "#009e9e",
];
const HEAD: &str = "<style>text{font:12px system-ui,sans-serif;fill:#1b1d21}.s{fill:#5c636e}\
@media(prefers-color-scheme:dark){text{fill:#e6e8eb}.s{fill:#9aa3af}}</style>";
const LEFT: f64 = 62.0;
const WIDTH: f64 = 250.0;
const HEIGHT: f64 = 220.0;
const PANEL: f64 = 340.0;
const COLUMNS: usize = 3;

/// The range of costs that is drawn, as powers of ten.
const LOWEST: f64 = 1.0;
const HIGHEST: f64 = 6.0;

/// Returns the picture.
pub(super) fn draw(wanted: &Wanted, points: &[Point]) -> Result<String, std::fmt::Error> {
    let rows = wanted.graphs.len().div_ceil(COLUMNS);
    let width = PANEL * COLUMNS.min(wanted.graphs.len()) as f64;
    let height = (HEIGHT + 80.0) * rows as f64 + 24.0 * wanted.policies.len().div_ceil(4) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n{HEAD}\n"
    );
    for (graph, name) in wanted.graphs.iter().enumerate() {
        let left = PANEL * (graph % COLUMNS) as f64 + LEFT;
        let top = (HEIGHT + 80.0) * (graph / COLUMNS) as f64 + 30.0;
        panel(&mut svg, wanted, name, (left, top))?;
        for policy in 0..wanted.policies.len() {
            let of = points
                .iter()
                .filter(|point| (point.graph, point.policy) == (graph, policy));
            let mut line = String::new();
            for point in of {
                let (x, y) = place(wanted, point);
                write!(line, "{:.1},{:.1} ", left + x, top + y)?;
            }
            let colour = COLOURS[policy % COLOURS.len()];
            let title = &wanted.policies[policy];
            writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"><title>{title}</title></polyline>",
                line.trim_end()
            )?;
        }
    }
    legend(&mut svg, wanted, (HEIGHT + 80.0) * rows as f64)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Returns where a point is in its panel.
fn place(wanted: &Wanted, point: &Point) -> (f64, f64) {
    let beyond = (point.cost - wanted.body as f64).max(1.0).log10();
    let y = (beyond.clamp(LOWEST, HIGHEST) - LOWEST) / (HIGHEST - LOWEST);
    (column(wanted, point.cores), HEIGHT * (1.0 - y))
}

/// Returns where a number of cores is in a panel.
fn column(wanted: &Wanted, cores: u16) -> f64 {
    let log = |cores: u16| f64::from(cores).log2();
    let (least, most) = (wanted.cores.iter().min(), wanted.cores.iter().max());
    let (least, most) = (
        log(least.copied().unwrap_or(1)),
        log(most.copied().unwrap_or(2)),
    );
    WIDTH * (log(cores) - least) / (most - least).max(1.0)
}

fn panel(
    svg: &mut String,
    wanted: &Wanted,
    name: &str,
    (left, top): (f64, f64),
) -> std::fmt::Result {
    writeln!(svg, "<text x=\"{left}\" y=\"{}\">{name}</text>", top - 10.0)?;
    for power in LOWEST as i32..=HIGHEST as i32 {
        let y = top + HEIGHT * (1.0 - (f64::from(power) - LOWEST) / (HIGHEST - LOWEST));
        let right = left + WIDTH;
        writeln!(
            svg,
            "<path stroke=\"#767d88\" stroke-opacity=\"0.3\" d=\"M{left} {y:.1}H{right}\"/>"
        )?;
        let (x, y) = (left - 6.0, y + 4.0);
        writeln!(
            svg,
            "<text class=\"s\" text-anchor=\"end\" x=\"{x}\" y=\"{y:.1}\">10^{power}</text>"
        )?;
    }
    for &cores in &wanted.cores {
        let (x, y) = (left + column(wanted, cores), top + HEIGHT + 18.0);
        writeln!(
            svg,
            "<text class=\"s\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y}\">{cores}</text>"
        )?;
    }
    let (x, y) = (left + WIDTH / 2.0, top + HEIGHT + 34.0);
    writeln!(
        svg,
        "<text class=\"s\" text-anchor=\"middle\" x=\"{x}\" y=\"{y}\">cores; core cycles a task beyond its body</text>"
    )
}

fn legend(svg: &mut String, wanted: &Wanted, top: f64) -> std::fmt::Result {
    for (number, name) in wanted.policies.iter().enumerate() {
        let x = LEFT + 220.0 * (number % 4) as f64;
        let y = top + 24.0 * (number / 4) as f64 + 6.0;
        let colour = COLOURS[number % COLOURS.len()];
        writeln!(
            svg,
            "<rect fill=\"{colour}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            x + 17.0,
            y + 11.0
        )?;
    }
    Ok(())
}
