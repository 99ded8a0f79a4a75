//! The summary of all rows, the bars of the claim, and what did not come out.

use super::Reproduced;
use super::published::{MISPRINTS, PICTURES, Scheduler, Stream, claimed, table3};
use super::simulating::{self, miss_rate, sampled};
use crate::Bar;
use crate::statistics::{Agreement, Pair, mean_abs_error};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Points by which two published gains have to differ to be in an order.
const APART: f64 = 5.0;

/// The figures that the claim is about, in percent and points unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Gain of A in cycles, uniform model (published: 10.96).
    pub(crate) table3_cycles_gain_a: f64,
    /// Gain of A in frames a second, contended model, WVGA, 128 KB, 4 cores (published: 39.68).
    pub(crate) board_fps_gain_a: f64,
    /// The same of B (published: 49.73).
    pub(crate) board_fps_gain_b: f64,
    /// Share of pairs of cells in the same order, 0 to 1: pairs of one stream and policy whose published gains differ by more than 5
    /// points.
    pub(crate) rank_agreement: Option<f64>,
    /// Mean error of the gains in rows that nothing was calibrated on; null if none of their streams is there.
    pub(crate) mean_abs_error_gain: Option<f64>,
    /// L1I miss rate of A over that of FCFS, uniform model (published: 0.609).
    pub(crate) l1i_miss_ratio: f64,
    /// The same of L2 (published: 0.924).
    pub(crate) l2_miss_ratio: f64,
    /// As `mean_abs_error_gain`, of the rows that were calibrated on.
    pub(crate) mean_abs_error_gain_calibrated: f64,
    /// As `rank_agreement`, of the streams that nothing was calibrated on.
    pub(crate) rank_agreement_predicted: Option<f64>,
    /// Standard error of `board_fps_gain_a` from sampling pictures.
    pub(crate) board_fps_gain_a_error: Option<f64>,
    /// The same of B.
    pub(crate) board_fps_gain_b_error: Option<f64>,
    /// The same of `table3_cycles_gain_a`.
    pub(crate) table3_cycles_gain_a_error: Option<f64>,
    /// Largest standard error of a gain of Table 2.
    pub(crate) largest_gain_error: Option<f64>,
    /// Pictures of each stream that were simulated, of 128.
    pub(crate) pictures: u64,
    /// The streams by name.
    pub(crate) streams: Vec<String>,
    /// What did not come out, in words.
    pub(crate) missed: Vec<String>,
}

impl Summary {
    /// Returns the gains that the claim is about, in the order of [`claimed`].
    pub(super) fn claimed(&self) -> [f64; 3] {
        [
            self.table3_cycles_gain_a,
            self.board_fps_gain_a,
            self.board_fps_gain_b,
        ]
    }
}

/// Returns the gains of each stream that is `wanted`, by cell: a list for A and one for B.
fn gains(found: &Reproduced, wanted: impl Fn(Stream) -> bool) -> Vec<Vec<Pair>> {
    let of = |stream: Stream, scheduler: Scheduler| {
        let rows = found.table2.iter();
        let rows = rows.filter(|(row, _)| row.cell.stream == stream);
        let pairs =
            rows.filter_map(|(row, ran)| Some(simulating::gains(row, ran.as_ref()?, scheduler)));
        pairs.collect()
    };
    let streams = Stream::ALL.into_iter().filter(|&stream| wanted(stream));
    let each = streams.flat_map(|stream| Scheduler::GROUPED.map(|scheduler| of(stream, scheduler)));
    each.collect()
}

fn agreement(gains: &[Vec<Pair>]) -> Option<f64> {
    let each = gains.iter().map(|gains| Agreement::among(gains, APART));
    each.fold(Agreement::default(), Agreement::and).share()
}

/// Returns the summary of all rows.
pub(super) fn summary(found: &Reproduced) -> Summary {
    let [fcfs, a, _] = &found.table3;
    let (_, headline) = found.headline();
    let [board_a, board_b] = Scheduler::GROUPED.map(|scheduler| sampled(headline, scheduler));
    let uniform = sampled(&found.table3, Scheduler::A);
    let simulated = found.table2.iter().filter_map(|(_, ran)| ran.as_ref());
    let errors =
        simulated.flat_map(|ran| Scheduler::GROUPED.map(|scheduler| sampled(ran, scheduler).error));
    let all = gains(found, |_| true);
    let calibrated = gains(found, Stream::is_calibrated);
    let predicted = gains(found, |stream| !stream.is_calibrated());
    let mut summary = Summary {
        table3_cycles_gain_a: uniform.gain,
        board_fps_gain_a: board_a.gain,
        board_fps_gain_b: board_b.gain,
        rank_agreement: agreement(&all),
        mean_abs_error_gain: mean_abs_error(&predicted.concat()),
        l1i_miss_ratio: miss_rate(a.l1i) / miss_rate(fcfs.l1i),
        l2_miss_ratio: miss_rate(a.l2) / miss_rate(fcfs.l2),
        mean_abs_error_gain_calibrated: mean_abs_error(&calibrated.concat())
            .expect("there is always a WVGA stream"),
        rank_agreement_predicted: agreement(&predicted),
        board_fps_gain_a_error: board_a.error,
        board_fps_gain_b_error: board_b.error,
        table3_cycles_gain_a_error: uniform.error,
        largest_gain_error: errors.flatten().reduce(f64::max),
        pictures: found
            .recordings
            .iter()
            .map(|one| one.pictures.len() as u64)
            .min()
            .unwrap_or(0),
        streams: found
            .recordings
            .iter()
            .map(|one| one.name.clone())
            .collect(),
        missed: Vec::new(),
    };
    summary.missed = missed(found, &summary);
    summary
}

/// Returns the bars of the claim.
pub(super) fn bars(summary: &Summary) -> Vec<Bar> {
    let ([fcfs, a], [table3_a, board_a, board_b]) = (table3(), claimed());
    let (l1i, l2) = (a.l1i / fcfs.l1i, a.l2 / fcfs.l2);
    let near = |ratio: f64| 0.75 * ratio..=1.25 * ratio;
    let [own_table3_a, own_board_a, own_board_b] = summary.claimed().map(Some);
    let (own_l1i, own_l2) = (Some(summary.l1i_miss_ratio), Some(summary.l2_miss_ratio));
    let bar = |what, published, ours, range: RangeInclusive<f64>| Bar {
        what,
        published,
        ours,
        range,
    };
    vec![
        bar(
            "gain of A in Table 3, percent",
            Some(table3_a),
            own_table3_a,
            8.0..=18.0,
        ),
        bar(
            "gain of A on the board, percent",
            Some(board_a),
            own_board_a,
            32.0..=48.0,
        ),
        bar(
            "gain of B on the board, percent",
            Some(board_b),
            own_board_b,
            40.0..=60.0,
        ),
        bar("L1I miss rate, A over FCFS", Some(l1i), own_l1i, near(l1i)),
        bar("L2 miss rate, A over FCFS", Some(l2), own_l2, near(l2)),
        bar(
            "cells of Table 2 ordered alike",
            None,
            summary.rank_agreement,
            0.75..=1.0,
        ),
        bar(
            "mean error of predicted gains, points",
            None,
            summary.mean_abs_error_gain,
            0.0..=12.0,
        ),
    ]
}

/// Returns what did not come out, in words.
fn missed(found: &Reproduced, summary: &Summary) -> Vec<String> {
    let mut words: Vec<String> = bars(summary).iter().filter_map(Bar::missed).collect();
    let absent: Vec<&str> = Stream::ALL
        .into_iter()
        .filter(|stream| found.recordings.iter().all(|one| one.stream != *stream))
        .map(Stream::name)
        .collect();
    if !absent.is_empty() {
        words.push(format!(
            "no stream for {}: these rows of Table 2 have nothing of ours",
            absent.join(", ")
        ));
    }
    for (row, ran) in &found.table2 {
        for scheduler in Scheduler::GROUPED {
            let Some(ran) = ran else { continue };
            let Pair { published, ours } = simulating::gains(row, ran, scheduler);
            if (ours - published).abs() > 15.0 {
                words.push(format!(
                    "{} cores, {}: gain {ours:.1}%, published {published:.1}%",
                    row.cell,
                    scheduler.name()
                ));
            }
        }
    }
    let (row, headline) = found.headline();
    for scheduler in Scheduler::ALL {
        let (ran, printed) = (&headline[scheduler as usize], row.of(scheduler));
        let ours = |misses: u64| misses as f64 / ran.pictures.len() as f64 / 1e3;
        let per_picture = |all: Option<f64>| all.unwrap_or(0.0) / PICTURES as f64 / 1e3;
        words.push(format!(
            "absolute figures, {} cores, {}: {:.1} frames/s (published {:.1}), {:.0} thousand L2 misses a picture ({:.0}), {:.0} \
             thousand L1 misses ({:.0})",
            row.cell,
            scheduler.name(),
            ran.fps(),
            printed.fps,
            ours(ran.l2.misses),
            per_picture(printed.l2_misses),
            ours(ran.l1i.misses + ran.l1d.misses),
            per_picture(printed.l1_misses),
        ));
    }
    for misprint in MISPRINTS {
        words.push(format!("misprinted, left out: {misprint}"));
    }
    words
}
