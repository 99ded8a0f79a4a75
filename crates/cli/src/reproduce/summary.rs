//! What the comparison comes down to, and what did not come out.

use super::published::{HEADLINE, MISPRINTS, PICTURES, Scheduler, Stream, claimed, table3};
use super::simulating::miss_rate;
use super::statistics::{Agreement, Pair, mean_abs_error};
use super::toshiba::{Reproduced, sampled};
use serde::Serialize;

/// Published gains that differ by so many points have an order.
const APART: f64 = 5.0;

/// The figures that the claim is about. Percent and points where not said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Gain of A in cycles, uniform model (published: 10.96).
    pub(crate) table3_cycles_gain_a: f64,
    /// Gain of A in frames a second, contended model, WVGA, 128 KB, 4 cores (published: 39.68).
    pub(crate) board_fps_gain_a: f64,
    /// The same of B (published: 49.73).
    pub(crate) board_fps_gain_b: f64,
    /// Of pairs of cells of one stream and policy whose published gains differ by more than 5 points: the share in the same order, 0 to 1.
    pub(crate) rank_agreement: Option<f64>,
    /// Of the gains in rows that nothing was calibrated on; null where none of their streams is there.
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

/// The gains of a stream and scheduler, by cell.
fn gains(found: &Reproduced, stream: Stream, scheduler: Scheduler) -> Vec<Pair> {
    let rows = found
        .table2
        .iter()
        .filter(|(row, _)| row.cell.stream == stream);
    rows.filter_map(|(row, ran)| Some(Reproduced::gain(row, ran.as_ref()?, scheduler)))
        .collect()
}

const GROUPED: [Scheduler; 2] = [Scheduler::A, Scheduler::B];

fn agreement(found: &Reproduced, wanted: impl Fn(Stream) -> bool) -> Agreement {
    let streams = Stream::ALL.into_iter().filter(|&stream| wanted(stream));
    let each = streams.flat_map(|stream| GROUPED.map(|scheduler| gains(found, stream, scheduler)));
    each.fold(Agreement::default(), |sum, one| {
        sum.and(Agreement::among(&one, APART))
    })
}

fn error(found: &Reproduced, calibrated: bool) -> Option<f64> {
    let streams = Stream::ALL
        .into_iter()
        .filter(|stream| stream.is_calibrated() == calibrated);
    let each = streams.flat_map(|stream| GROUPED.map(|scheduler| gains(found, stream, scheduler)));
    mean_abs_error(&each.flatten().collect::<Vec<_>>())
}

/// The summary of all rows.
pub(crate) fn summary(found: &Reproduced) -> Summary {
    let [fcfs, a, _] = &found.table3;
    let headline = found.headline();
    let [board_a, board_b] = GROUPED.map(|scheduler| sampled(headline, scheduler));
    let uniform = sampled(&found.table3, Scheduler::A);
    let simulated = found.table2.iter().filter_map(|(_, ran)| ran.as_ref());
    let errors = simulated.flat_map(|ran| GROUPED.map(|scheduler| sampled(ran, scheduler).error));
    let mut summary = Summary {
        table3_cycles_gain_a: uniform.gain,
        board_fps_gain_a: board_a.gain,
        board_fps_gain_b: board_b.gain,
        rank_agreement: agreement(found, |_| true).share(),
        mean_abs_error_gain: error(found, false),
        l1i_miss_ratio: miss_rate(a.l1i) / miss_rate(fcfs.l1i),
        l2_miss_ratio: miss_rate(a.l2) / miss_rate(fcfs.l2),
        mean_abs_error_gain_calibrated: error(found, true).expect("there is always a WVGA stream"),
        rank_agreement_predicted: agreement(found, |stream| !stream.is_calibrated()).share(),
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

/// A bar that the claim sets.
struct Bar {
    what: &'static str,
    ours: Option<f64>,
    published: Option<f64>,
    from: f64,
    to: f64,
}

fn bars(summary: &Summary) -> [Bar; 7] {
    let [fcfs, a] = table3();
    let (l1i, l2) = (a.l1i / fcfs.l1i, a.l2 / fcfs.l2);
    let bar = |what, ours, published, from, to| Bar {
        what,
        ours,
        published,
        from,
        to,
    };
    let [table3_a, board_a, board_b] = claimed();
    [
        bar(
            "gain of A in Table 3, percent",
            Some(summary.table3_cycles_gain_a),
            Some(table3_a),
            8.0,
            18.0,
        ),
        bar(
            "gain of A on the board, percent",
            Some(summary.board_fps_gain_a),
            Some(board_a),
            32.0,
            48.0,
        ),
        bar(
            "gain of B on the board, percent",
            Some(summary.board_fps_gain_b),
            Some(board_b),
            40.0,
            60.0,
        ),
        bar(
            "L1I miss rate, A over FCFS",
            Some(summary.l1i_miss_ratio),
            Some(l1i),
            0.75 * l1i,
            1.25 * l1i,
        ),
        bar(
            "L2 miss rate, A over FCFS",
            Some(summary.l2_miss_ratio),
            Some(l2),
            0.75 * l2,
            1.25 * l2,
        ),
        bar(
            "cells of Table 2 ordered alike",
            summary.rank_agreement,
            None,
            0.75,
            1.0,
        ),
        bar(
            "mean error of predicted gains, points",
            summary.mean_abs_error_gain,
            None,
            0.0,
            12.0,
        ),
    ]
}

/// The bars of the claim, a line each.
pub(super) fn claim(summary: &Summary) -> Vec<[String; 5]> {
    let line = |bar: Bar| {
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let met = bar.ours.map(|ours| (bar.from..=bar.to).contains(&ours));
        [
            bar.what.to_owned(),
            number(bar.published),
            number(bar.ours),
            format!("{:.3} to {:.3}", bar.from, bar.to),
            match met {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "not simulated",
            }
            .to_owned(),
        ]
    };
    bars(summary).into_iter().map(line).collect()
}

/// What did not come out.
pub(crate) fn missed(found: &Reproduced, summary: &Summary) -> Vec<String> {
    let mut words = Vec::new();
    for bar in bars(summary) {
        match bar.ours {
            Some(ours) if (bar.from..=bar.to).contains(&ours) => {}
            Some(ours) => words.push(format!(
                "{}: {ours:.3} is not from {:.3} to {:.3}",
                bar.what, bar.from, bar.to
            )),
            None => words.push(format!("{}: no stream of those rows is there", bar.what)),
        }
    }
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
        for scheduler in GROUPED {
            let Some(ran) = ran else { continue };
            let Pair { published, ours } = Reproduced::gain(row, ran, scheduler);
            if (ours - published).abs() > 15.0 {
                words.push(format!(
                    "{} cores, {}: gain {ours:.1}%, published {published:.1}%",
                    row.cell,
                    scheduler.name()
                ));
            }
        }
    }
    let headline = found.headline();
    let row = found.table2.iter().find(|(row, _)| row.cell == HEADLINE);
    if let Some((row, _)) = row {
        let of = |misses: u64, ran: &super::simulating::Ran| {
            misses as f64 / ran.pictures.len() as f64 / 1e3
        };
        for scheduler in Scheduler::ALL {
            let (ran, printed) = (&headline[scheduler as usize], row.of(scheduler));
            let per_picture = |all: Option<f64>| all.unwrap_or(0.0) / PICTURES as f64 / 1e3;
            words.push(format!(
                "absolute figures, {} cores, {}: {:.1} frames/s (published {:.1}), {:.0} thousand L2 misses a picture ({:.0}), {:.0} \
                 thousand L1 misses ({:.0})",
                row.cell,
                scheduler.name(),
                ran.fps(),
                printed.fps,
                of(ran.l2.misses, ran),
                per_picture(printed.l2_misses),
                of(ran.l1i.misses + ran.l1d.misses, ran),
                per_picture(printed.l1_misses),
            ));
        }
    }
    for misprint in MISPRINTS {
        words.push(format!("misprinted, left out: {misprint}"));
    }
    words
}
