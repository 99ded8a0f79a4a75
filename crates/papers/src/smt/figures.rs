//! The figures of the page.

use super::published::{Cell, GOVERNORS, Program};
use super::{INTERVAL, Reproduced, published};
use crate::chart::{BLUE, Chart, GREEN, Mark, Series, VERMILION};
use crate::{Figure, Layout};
use plotters::style::RGBAColor;

const COLOURS: [RGBAColor; 3] = [GREEN, BLUE, VERMILION];

pub(super) fn figures(found: &Reproduced) -> Vec<Figure> {
    let figure = |heading, layout, svg, caption: &str| Figure {
        heading,
        layout,
        svg,
        caption: caption.to_owned(),
    };
    let stack = |governor| Cell {
        program: Program::Lu,
        l1d: 4,
        l2: 512,
        threads: 8,
        recording: published::MAIN,
        governor,
    };
    vec![
        figure(
            "Times as fast as one hardware thread (fig. 4)",
            Layout::Panels,
            Program::ALL.map(|program| speeds(found, program)).concat(),
            "4 KB of L1D. Lines: ours; circles: published. Green: fifo; blue: rs; vermilion: rs-ss.",
        ),
        figure(
            "Hits of L1D (Table 2)",
            Layout::Panels,
            [1, 2, 4, 8].map(|threads| hits(found, threads)).concat(),
            "LU under fifo by the size of L1D. Line: ours; circles: published.",
        ),
        figure(
            "Stack accesses over time (figs 5 and 6)",
            Layout::Wide,
            stacks(found, stack("fifo"), "fifo (fig. 5)"),
            "LU, 4 KB, 8 threads. A line is a logical thread; a dot is an interval in which it accessed its stack: faint below \
             5,000 accesses, full from 15,000 on.",
        ),
        figure(
            "",
            Layout::Wide,
            stacks(found, stack("rs-ss"), "rs-ss (fig. 6)"),
            "The same under rs-ss. `tanada sim TRACE --report page.html` shows this of any recording, with the decisions beside it.",
        ),
    ]
}

/// Returns speeds over one hardware thread by the number of hardware threads.
fn speeds(found: &Reproduced, program: Program) -> String {
    let mut series = Vec::new();
    for (governor, colour) in GOVERNORS.into_iter().zip(COLOURS) {
        let cells = [4, 8].map(|threads| Cell {
            program,
            l1d: 4,
            l2: 512,
            threads,
            recording: published::MAIN,
            governor,
        });
        let mut points = vec![(1.0, 1.0)];
        points.extend(cells.map(|cell| (cell.threads as f64, found.over_one(cell))));
        series.push(Series {
            mark: Mark::Line(vec![0.0; points.len()]),
            points,
            colour,
        });
        let stated = published::gains()
            .into_iter()
            .filter(|gain| cells.contains(&gain.cell));
        let stated = stated.filter_map(|gain| Some((gain.cell.threads as f64, gain.speedup?)));
        series.push(Series {
            points: stated.collect(),
            colour,
            mark: Mark::Circles(4),
        });
    }
    let top = series
        .iter()
        .flat_map(|one| &one.points)
        .map(|point| point.1);
    let top = top.fold(2.0, f64::max) * 1.1;
    let caption = program.name();
    Chart {
        name: &format!("Speed of {caption} over one hardware thread"),
        caption,
        size: (340, 300),
        margin: 8,
        x: (0.0..9.0, "hardware threads"),
        y: (0.0..top, "times as fast"),
        labels: None,
        series: &series,
    }
    .svg()
}

/// Returns hit rates by the size of L1D, with 512 KB of L2.
fn hits(found: &Reproduced, threads: u64) -> String {
    let rows = published::table2().into_iter();
    let rows = rows.filter(|(cell, ..)| cell.threads == threads && cell.l2 == 512);
    let rows: Vec<(f64, f64, f64)> = rows
        .map(|(cell, _, hit)| (cell.l1d as f64, hit, found.hit_percent(cell)))
        .collect();
    let series = [
        Series {
            points: rows.iter().map(|row| (row.0, row.2)).collect(),
            colour: BLUE,
            mark: Mark::Line(vec![0.0; rows.len()]),
        },
        Series {
            points: rows.iter().map(|row| (row.0, row.1)).collect(),
            colour: BLUE,
            mark: Mark::Circles(4),
        },
    ];
    let least = rows
        .iter()
        .map(|row| row.1.min(row.2))
        .fold(100.0, f64::min);
    Chart {
        name: &format!("Hit rate of L1D with {threads} hardware threads"),
        caption: &format!("{threads} threads"),
        size: (340, 300),
        margin: 8,
        x: (0.0..34.0, "KB of L1D"),
        y: ((least - 1.0).floor()..100.5, "% hits"),
        labels: None,
        series: &series,
    }
    .svg()
}

/// Returns which logical threads accessed their stacks in which intervals.
fn stacks(found: &Reproduced, cell: Cell, caption: &str) -> String {
    const FEW: u64 = 5_000;
    const MANY: u64 = 15_000;
    // Counts of a small program are as many in as many cycles.
    let outcome = found.of(cell);
    let observed = outcome.series.as_ref().expect("every cell is observed");
    let faint = |alpha| RGBAColor(0x00, 0x72, 0xb2, alpha);
    let mut series =
        [(0, FEW, 0.2), (FEW, MANY, 0.5), (MANY, u64::MAX, 1.0)].map(|(from, to, alpha)| Series {
            points: observed
                .stacks
                .iter()
                .filter(|one| (from..to).contains(&(one.accesses * scale(found))))
                .map(|one| (one.interval as f64, f64::from(one.thread)))
                .collect(),
            colour: faint(alpha),
            mark: Mark::Dots(2),
        });
    series.reverse();
    let intervals = observed.instructions.len();
    let threads = outcome.logical.len();
    Chart {
        name: &format!("Stack accesses over time under {}", cell.governor),
        caption,
        size: (1000, 420),
        margin: 8,
        x: (
            0.0..intervals as f64,
            "intervals (millions of cycles at full size)",
        ),
        y: (-1.0..threads as f64, "logical thread"),
        labels: None,
        series: &series,
    }
    .svg()
}

/// Returns how many times as long intervals are at full size.
fn scale(found: &Reproduced) -> u64 {
    INTERVAL / super::recording::scaled(INTERVAL, Program::Lu, found.quick)
}
