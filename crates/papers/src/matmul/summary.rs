//! Rows, the summary, the bars of the claim, and what did not come out.

use super::cases::{
    CANDIDATES, Case, Hint, Results, Scheme, axis, beside, on_epyc2, repeated, single, today,
};
use super::published::{
    CORES, GAIN_PERCENT, GIGAHERTZ, LAST_DEPTH, ORIGINAL_OVER_CUTOFF, SIZE, STOPS_AT,
};
use super::simulating::{Pages, Program};
use crate::reproduction::read;
use crate::{Bar, Item, Table};
use serde::Serialize;
use tanada_report::to_list;

/// What the claim is about. Ratios are of speed; `None`: the policy is not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// A single multiplication on 32 cores, matrices first touched by one core.
    original_over_cutoff_32: f64,
    /// The fewest cores with which Original has 98% of its best speed.
    original_scaling_stops_at: u16,
    /// Of the shallowest of k, the mean of k = 2, 4, 8, in a single multiplication on 32 cores.
    depth_aware_gain_stale_percent: f64,
    depth_aware_gain_fresh_percent: f64,
    /// A single multiplication; an iteration behind the first; an iteration behind the first of the irregular tree.
    adws_over_cutoff_32_cold: Option<f64>,
    adws_over_cutoff_32_warm: Option<f64>,
    adws_over_cutoff_irregular: Option<f64>,
}

/// Returns GFLOPS of a single multiplication.
pub(super) fn speed(results: &Results, case: Case) -> Option<f64> {
    let flops = 2.0 * (SIZE as f64).powi(3);
    // Of Ideal a core has done its share in this time.
    Some(flops / results.cold(case)? * GIGAHERTZ)
}

/// Returns how much faster `case` is than `than`.
fn faster(time: impl Fn(Case) -> Option<f64>, case: Case, than: Case) -> Option<f64> {
    Some(time(than)? / time(case)?)
}

fn on_one_socket(scheme: Scheme) -> Case {
    single(scheme, Pages::OneSocket, CORES)
}

/// Returns the gains of the shallowest of k over Original in percent, of a single multiplication and of repeated iterations.
fn gains(results: &Results, hint: Hint) -> [Vec<f64>; 2] {
    let of = |time: &dyn Fn(Case) -> Option<f64>, case: &dyn Fn(Scheme) -> Case| {
        let gain = |k: &u16| {
            let case_of = Scheme::DepthAware(*k, hint);
            faster(time, case(case_of), case(Scheme::Original)).map(|ratio| 100.0 * (ratio - 1.0))
        };
        CANDIDATES.iter().filter_map(gain).collect()
    };
    [
        of(&|case| results.cold(case), &on_one_socket),
        of(&|case| results.warm(case), &|scheme| {
            repeated(scheme, Program::Dense, Pages::OneSocket)
        }),
    ]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The part of the best speed from which on further cores count as useless.
const ENOUGH: f64 = 0.98;

/// Returns the number of cores at which Original stops scaling: the fewest with which it has 98% of its best speed.
fn stops_at(results: &Results, pages: Pages) -> u16 {
    let speed = |cores: &u16| speed(results, single(Scheme::Original, pages, *cores));
    let speeds = axis(false)
        .iter()
        .filter_map(|cores| Some((*cores, speed(cores)?)));
    let speeds: Vec<(u16, f64)> = speeds.collect();
    let best = speeds.iter().map(|one| one.1).fold(0.0, f64::max);
    let first = speeds.iter().find(|one| one.1 >= ENOUGH * best);
    first.map_or(0, |(cores, _)| *cores)
}

pub(super) fn summary(results: &Results) -> Summary {
    let cold = |case| results.cold(case);
    let warm = |case| results.warm(case);
    let adws = Scheme::Beside("adws");
    let dense = |scheme| repeated(scheme, Program::Dense, Pages::OneSocket);
    let irregular = |scheme| repeated(scheme, Program::Irregular, Pages::OneSocket);
    let original = faster(
        cold,
        on_one_socket(Scheme::Original),
        on_one_socket(Scheme::Cutoff),
    );
    Summary {
        original_over_cutoff_32: original.unwrap_or(0.0),
        original_scaling_stops_at: stops_at(results, Pages::OneSocket),
        depth_aware_gain_stale_percent: mean(&gains(results, Hint::Stale)[0]),
        depth_aware_gain_fresh_percent: mean(&gains(results, Hint::Fresh)[0]),
        adws_over_cutoff_32_cold: faster(cold, on_one_socket(adws), on_one_socket(Scheme::Cutoff)),
        adws_over_cutoff_32_warm: faster(warm, dense(adws), dense(Scheme::Cutoff)),
        adws_over_cutoff_irregular: faster(warm, irregular(adws), irregular(Scheme::Cutoff)),
    }
}

/// Returns the speed of Cutoff over that of Ideal.
fn cutoff_over_ideal(results: &Results, cores: u16) -> Option<f64> {
    let case = |scheme| single(scheme, Pages::OneSocket, cores);
    Some(speed(results, case(Scheme::Cutoff))? / speed(results, case(Scheme::Ideal))?)
}

/// Returns the steals of the shallowest of k over those of Original, the mean of all k.
fn steals_over_original(results: &Results, hint: Hint) -> Option<f64> {
    let steals = |k| results.steals(on_one_socket(Scheme::DepthAware(k, hint)));
    let each: Vec<f64> = CANDIDATES.into_iter().filter_map(steals).collect();
    Some(mean(&each) / results.steals(on_one_socket(Scheme::Original))?)
}

/// Returns the part of Original's steals that are deeper than those of an ideal run, in percent.
fn deep_steals(results: &Results) -> f64 {
    let steals = results.by_depth(on_one_socket(Scheme::Original));
    let deep = steals.iter().skip(LAST_DEPTH as usize + 2).sum::<f64>();
    100.0 * deep / steals.iter().sum::<f64>().max(1.0)
}

pub(super) fn rows(results: &Results, summary: &Summary) -> Vec<Item> {
    let item = |item: &str, published, ours, unit| Item {
        item: item.to_owned(),
        published: Some(published),
        ours,
        unit,
    };
    vec![
        item(
            "fig. 3, Original over Cutoff on 32 cores",
            ORIGINAL_OVER_CUTOFF,
            Some(summary.original_over_cutoff_32),
            "times",
        ),
        item(
            "fig. 3, Original stops scaling at",
            STOPS_AT,
            Some(f64::from(summary.original_scaling_stops_at)),
            "cores",
        ),
        item(
            "fig. 3, Cutoff over Ideal on 16 cores",
            1.0,
            cutoff_over_ideal(results, 16),
            "times",
        ),
        item(
            "fig. 6, gain of the shallowest of k, stale hints",
            GAIN_PERCENT,
            Some(summary.depth_aware_gain_stale_percent),
            "%",
        ),
        item(
            "fig. 7, its steals over Original's, stale hints",
            1.0,
            steals_over_original(results, Hint::Stale),
            "times",
        ),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn table(
    heading: &'static str,
    header: &[&str],
    lines: impl IntoIterator<Item = Vec<String>>,
) -> Table {
    let lines = lines.into_iter().map(read);
    let text = match *header {
        [a, b, c, d] => to_list([a, b, c, d], lines),
        [a, b, c, d, e] => to_list([a, b, c, d, e], lines),
        [a, b, c, d, e, f] => to_list([a, b, c, d, e, f], lines),
        [a, b, c, d, e, f, g] => to_list([a, b, c, d, e, f, g], lines),
        _ => unreachable!("a table of this file"),
    };
    Table { heading, text }
}

pub(super) fn tables(results: &Results, quick: bool) -> Vec<Table> {
    let summary = summary(results);
    let items = rows(results, &summary);
    let speeds = axis(quick).iter().map(|&cores| {
        let of = |scheme, pages| number(speed(results, single(scheme, pages, cores)), 1);
        let other = beside().first().map_or("-".to_owned(), |policy| {
            of(Scheme::Beside(policy), Pages::OneSocket)
        });
        vec![
            cores.to_string(),
            of(Scheme::Original, Pages::OneSocket),
            of(Scheme::Cutoff, Pages::OneSocket),
            of(Scheme::Ideal, Pages::OneSocket),
            other,
            of(Scheme::Original, Pages::Interleaved),
            of(Scheme::Cutoff, Pages::Interleaved),
        ]
    });
    let mut schemes = vec![Scheme::Original, Scheme::Cutoff];
    let hints = [Hint::Fresh, Hint::Stale, Hint::Garbage];
    let aware = hints
        .into_iter()
        .flat_map(|hint| CANDIDATES.map(|k| Scheme::DepthAware(k, hint)));
    schemes.extend(aware);
    schemes.extend(beside().into_iter().map(Scheme::Beside));
    let on_32 = schemes.iter().map(|&scheme| {
        let case = on_one_socket(scheme);
        let over = faster(
            |case| results.cold(case),
            case,
            on_one_socket(Scheme::Cutoff),
        );
        let [fills, remote, busy] = results.memory(case).map_or([None; 3], |all| all.map(Some));
        vec![
            scheme.name(),
            number(over, 3),
            number(results.steals(case), 0),
            number(fills, 0),
            number(remote, 0),
            number(busy.map(|busy| 100.0 * busy), 0),
        ]
    });
    let warm = schemes.iter().map(|&scheme| {
        let over = |program, pages| {
            let case = |scheme| repeated(scheme, program, pages);
            number(
                faster(
                    |case| results.warm(case),
                    case(scheme),
                    case(Scheme::Cutoff),
                ),
                2,
            )
        };
        let back = results.returned(repeated(scheme, Program::Dense, Pages::OneSocket));
        let both = |program| {
            let pages = [Pages::OneSocket, Pages::Interleaved];
            pages.map(|pages| over(program, pages)).join(" / ")
        };
        vec![
            scheme.name(),
            both(Program::Dense),
            both(Program::Sparse),
            both(Program::Irregular),
            number(back.map(|back| 100.0 * back), 0),
        ]
    });
    let depths = 0..=10;
    let by_depth = |scheme| results.by_depth(on_one_socket(scheme));
    let [original, stale, fresh] = [
        by_depth(Scheme::Original),
        by_depth(Scheme::DepthAware(8, Hint::Stale)),
        by_depth(Scheme::DepthAware(8, Hint::Fresh)),
    ];
    let of_depth = depths.map(|depth: usize| {
        let at = |steals: &[f64]| number(Some(steals.get(depth).copied().unwrap_or(0.0)), 1);
        vec![depth.to_string(), at(&original), at(&stale), at(&fresh)]
    });
    let on_two_sockets = today().into_iter().map(|scheme| {
        let over = |program| {
            let case = |scheme| on_epyc2(scheme, program);
            let time = |case| results.warm(case);
            number(faster(time, case(scheme), case(Scheme::Cutoff)), 2)
        };
        let back = results.returned(on_epyc2(scheme, Program::Dense));
        vec![
            scheme.name(),
            over(Program::Dense),
            over(Program::Irregular),
            number(back.map(|back| 100.0 * back), 0),
        ]
    });
    vec![
        Table {
            heading: "What the paper says",
            text: Item::list(&items),
        },
        table(
            "GFLOPS of a single multiplication (fig. 3): pages first touched by one core, and interleaved",
            &[
                "cores",
                "Original",
                "Cutoff",
                "Ideal",
                "adws",
                "Original, interleaved",
                "Cutoff, interleaved",
            ],
            speeds,
        ),
        table(
            "A single multiplication on 32 cores: speed over Cutoff, steals, lines from memory, those of other sockets, busiest memory",
            &["", "over Cutoff", "steals", "lines", "remote", "busy, %"],
            on_32,
        ),
        table(
            "Steals by depth on 32 cores (figs 5 and 7)",
            &["depth", "Original", "of 8, stale", "of 8, fresh"],
            of_depth,
        ),
        table(
            "Repeated iterations on 32 cores: speed over Cutoff, pages of one socket / interleaved; leaves that came back to their core",
            &["", "dense", "sparse", "irregular", "came back, %"],
            warm,
        ),
        table(
            "Repeated iterations on two sockets of today, 128 cores (epyc2; pages of one socket, one seed): speed over Cutoff",
            &["", "dense", "irregular", "came back, %"],
            on_two_sockets,
        ),
    ]
}

pub(super) fn bars(summary: &Summary) -> Vec<Bar> {
    let bar = |what, published, ours, range| Bar {
        what,
        published,
        ours,
        range,
    };
    let most = f64::INFINITY;
    vec![
        bar(
            "Original over Cutoff on 32 cores",
            Some(ORIGINAL_OVER_CUTOFF),
            Some(summary.original_over_cutoff_32),
            0.70..=0.80,
        ),
        bar(
            "Original stops scaling at, cores (calibrated)",
            Some(STOPS_AT),
            Some(f64::from(summary.original_scaling_stops_at)),
            16.0..=24.0,
        ),
        bar(
            "gain of the shallowest of k, stale hints, %",
            Some(GAIN_PERCENT),
            Some(summary.depth_aware_gain_stale_percent),
            -3.0..=1.0,
        ),
        bar(
            "gain of the shallowest of k, fresh hints, %",
            None,
            Some(summary.depth_aware_gain_fresh_percent),
            5.0..=33.0,
        ),
        bar(
            "adws over Cutoff, a single multiplication",
            None,
            summary.adws_over_cutoff_32_cold,
            0.95..=most,
        ),
        bar(
            "adws over Cutoff, repeated iterations",
            None,
            summary.adws_over_cutoff_32_warm,
            1.3..=most,
        ),
        bar(
            "adws over Cutoff, irregular tree",
            None,
            summary.adws_over_cutoff_irregular,
            1.5..=most,
        ),
    ]
}

pub(super) fn missed(results: &Results, summary: &Summary) -> Vec<String> {
    let met = bars(summary);
    let mut lines: Vec<String> = met
        .iter()
        .filter(|bar| bar.ours.is_some())
        .filter_map(Bar::missed)
        .collect();
    let interleaved = stops_at(results, Pages::Interleaved);
    let whose = match interleaved > summary.original_scaling_stops_at {
        true => "the stop is one memory's, not the stealing's",
        false => "the stop is not one memory's",
    };
    lines.push(format!(
        "with interleaved pages Original scales up to {interleaved} cores: {whose}"
    ));
    if let (Some(ideal), Some(fresh)) = (
        cutoff_over_ideal(results, CORES),
        steals_over_original(results, Hint::Fresh),
    ) {
        lines.push(format!(
            "on 32 cores Cutoff has {ideal:.2} of Ideal; {:.0}% of Original's steals are deeper than an ideal run's; \
             with fresh hints there are {fresh:.2} times as many steals",
            deep_steals(results)
        ));
    }
    let list = |gains: &[f64]| {
        let gains: Vec<String> = gains.iter().map(|gain| format!("{gain:+.1}")).collect();
        gains.join(", ")
    };
    for hint in [Hint::Fresh, Hint::Stale, Hint::Garbage] {
        let [cold, warm] = gains(results, hint);
        let repeated = match warm.is_empty() {
            true => String::new(),
            false => format!("; repeated {}", list(&warm)),
        };
        lines.push(format!(
            "{} hints, gains of the shallowest of 2, 4, 8 in percent: single {}{repeated}",
            hint.name(),
            list(&cold)
        ));
    }
    if beside().is_empty() {
        lines.push("adws is not registered: its rows are empty".to_owned());
    }
    lines.push(
        "the values of the paper's charts are lost; what is compared is what its text says"
            .to_owned(),
    );
    lines
}
