//! Rows, the summary, the bars of the claim, and what did not come out.

use super::published::{AXIS, best, number};
use super::simulating::OfProgram;
use crate::reproduction::read;
use crate::{Bar, Item, Table};
use serde::Serialize;
use tanada_policy::{Shape, Waiting};
use tanada_report::to_list;
use tanada_sim::Machine;
use tanada_sim::regions::{Machinery, Program, Switch};

/// What the claim is about. Gains and losses are percent of the speed with 60x4.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// The best static shapes among the cores of fig. 1's assumed axis (published: 60x4, 54x2, 44x3).
    pub(super) best_shape_ep: String,
    pub(super) best_shape_sp: String,
    pub(super) best_shape_ft: String,
    /// The same among all numbers of cores that were simulated.
    pub(super) best_of_all_cores_ep: String,
    pub(super) best_of_all_cores_sp: String,
    pub(super) best_of_all_cores_ft: String,
    /// Gain of `predict`, which knows nothing before the run (published with an oracle: 31, 21).
    pub(super) ft_gain_predict: f64,
    pub(super) sp_gain_predict: f64,
    /// The mean of all nine programs (published with an oracle: 12).
    pub(super) mean_gain_predict: f64,
    /// The largest loss of any program; 0 if none loses.
    pub(super) worst_loss_predict: f64,
    /// The same with the best shape of each region from the first invocation on.
    pub(super) ft_gain_oracle: f64,
    pub(super) sp_gain_oracle: f64,
    pub(super) mean_gain_oracle: f64,
    /// The mean gain of each program's best static shape.
    pub(super) mean_gain_static: f64,
    /// The largest gain of `predict` (published with an oracle: 41).
    pub(super) max_gain_predict: f64,
    /// The largest part of a run that `predict` spends on switching.
    pub(super) switching_max: f64,
}

fn of<'a>(found: &'a [OfProgram], name: &str) -> &'a OfProgram {
    found
        .iter()
        .find(|one| one.name == name)
        .expect("all programs are simulated")
}

fn mean(found: &[OfProgram], value: fn(&OfProgram) -> f64) -> f64 {
    found.iter().map(value).sum::<f64>() / found.len() as f64
}

fn largest(found: &[OfProgram], value: fn(&OfProgram) -> f64) -> f64 {
    found.iter().map(value).fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn summary(found: &[OfProgram]) -> Summary {
    let [ep, sp, ft] = ["ep", "sp", "ft"].map(|name| of(found, name));
    Summary {
        best_shape_ep: ep.on_axis.to_string(),
        best_shape_sp: sp.on_axis.to_string(),
        best_shape_ft: ft.on_axis.to_string(),
        best_of_all_cores_ep: ep.best.to_string(),
        best_of_all_cores_sp: sp.best.to_string(),
        best_of_all_cores_ft: ft.best.to_string(),
        ft_gain_predict: ft.gain_predict,
        sp_gain_predict: sp.gain_predict,
        mean_gain_predict: mean(found, |one| one.gain_predict),
        worst_loss_predict: largest(found, |one| -one.gain_predict).max(0.0),
        ft_gain_oracle: ft.gain_oracle,
        sp_gain_oracle: sp.gain_oracle,
        mean_gain_oracle: mean(found, |one| one.gain_oracle),
        mean_gain_static: mean(found, |one| one.gain_static),
        max_gain_predict: largest(found, |one| one.gain_predict),
        switching_max: largest(found, |one| one.switching),
    }
}

/// Returns what 4 to 3 to 4 threads on all cores costs, in microseconds, by how threads come and go (fig. 7).
pub(super) fn switches(machine: &Machine, program: &Program) -> Vec<(&'static str, f64)> {
    let machinery = Machinery::new(machine, program).expect("the machine runs regions");
    let (site, all) = (machinery.site(), machinery.site().all().threads());
    let three = all - u32::from(site.cores);
    let cost = |how| {
        let cycles = machinery.switch(all, three, how) + machinery.switch(three, all, how);
        cycles / site.microsecond
    };
    vec![
        ("creating and ending threads", cost(Switch::Creation)),
        ("waiting, polling", cost(Switch::Waiting(Waiting::Spin))),
        (
            "waiting, delayed polling",
            cost(Switch::Waiting(Waiting::Delay(1000))),
        ),
        ("waiting, asleep", cost(Switch::Waiting(Waiting::Sleep(0)))),
    ]
}

pub(super) fn rows(found: &[OfProgram], switches: &[(&'static str, f64)]) -> Vec<Item> {
    let item = |item: String, published: f64, ours: f64, unit| Item {
        item,
        published: Some(published),
        ours: Some(ours),
        unit,
    };
    let mut rows = Vec::new();
    for one in found {
        let Some(published) = best(one.name) else {
            continue;
        };
        let (name, ours) = (one.name, one.on_axis);
        let cores = |shape: Shape| f64::from(shape.cores);
        let threads = |shape: Shape| f64::from(shape.threads_per_core);
        rows.push(item(
            format!("fig. 1, {name}: cores of the best shape"),
            cores(published),
            cores(ours),
            "cores",
        ));
        rows.push(item(
            format!("fig. 1, {name}: threads per core of the best shape"),
            threads(published),
            threads(ours),
            "threads",
        ));
        let speed = one.speeds[&published] / one.speeds[&one.best];
        rows.push(item(
            format!("fig. 1, {name}: speed of the published shape over that of our best"),
            1.0,
            speed,
            "times",
        ));
    }
    let summary = summary(found);
    for (what, published, oracle, predict) in [
        (
            "ft",
            "ft_gain",
            summary.ft_gain_oracle,
            summary.ft_gain_predict,
        ),
        (
            "sp",
            "sp_gain",
            summary.sp_gain_oracle,
            summary.sp_gain_predict,
        ),
        (
            "mean",
            "mean_gain",
            summary.mean_gain_oracle,
            summary.mean_gain_predict,
        ),
        (
            "largest",
            "max_gain",
            largest(found, |one| one.gain_oracle),
            summary.max_gain_predict,
        ),
    ] {
        rows.push(item(
            format!("fig. 8, {what}: oracle"),
            number(published),
            oracle,
            "%",
        ));
        rows.push(item(
            format!("fig. 8, {what}: predict"),
            number(published),
            predict,
            "%",
        ));
    }
    for name in ["cg", "ep", "ua"] {
        rows.push(item(
            format!("fig. 8, {name}: predict"),
            0.0,
            of(found, name).gain_predict,
            "%",
        ));
    }
    rows.push(item(
        "fig. 8, cg: run time with 60x4".to_owned(),
        number("cg_run_time"),
        of(found, "cg").seconds,
        "s",
    ));
    let delayed = switches
        .iter()
        .find(|one| one.0.contains("delayed"))
        .map_or(0.0, |one| one.1);
    rows.push(item(
        "fig. 7, 4 to 3 to 4 threads per core, delayed polling".to_owned(),
        number("switch_cost"),
        delayed,
        "us",
    ));
    rows
}

pub(super) fn tables(found: &[OfProgram], switches: &[(&'static str, f64)]) -> Vec<Table> {
    let items = rows(found, switches);
    let of_figure = |heading, figure: &str| Table {
        heading,
        text: Item::list(items.iter().filter(|item| item.item.starts_with(figure))),
    };
    let list = |header: &[&str], lines: Vec<Vec<String>>| match *header {
        [a, b, c, d, e, f] => to_list([a, b, c, d, e, f], lines.into_iter().map(read)),
        _ => String::new(),
    };
    let regions = found.iter().flat_map(|program| {
        program.regions.iter().map(|region| {
            vec![
                format!("{} {}", program.name, region.name),
                format!("{:.2}", region.in_static),
                format!("{:.2}", region.in_own),
                region.own.to_string(),
                region.predicted.to_string(),
                region.why.clone(),
            ]
        })
    });
    let programs = found.iter().map(|one| {
        vec![
            one.name.to_owned(),
            format!("{:.2}", one.seconds),
            one.best.to_string(),
            format!(
                "{:.1} / {:.1} / {:.1}",
                one.gain_static, one.gain_oracle, one.gain_predict
            ),
            format!("{:.2}", one.spinning),
            format!("{:.2}", one.delayed),
        ]
    });
    vec![
        of_figure("Fig. 1: the best static shapes", "fig. 1"),
        of_figure("Fig. 7: the cost of a switch", "fig. 7"),
        of_figure("Fig. 8: gains over 60x4", "fig. 8"),
        Table {
            heading: "Programs: seconds with 60x4, best static shape, gains in percent; speeds of 60x1 with waiting siblings (fig. 6)",
            text: list(
                &[
                    "",
                    "s",
                    "best",
                    "static / oracle / predict",
                    "polling",
                    "delayed",
                ],
                programs.collect(),
            ),
        },
        Table {
            heading: "Regions: times as fast as with 60x4 in the program's shape and their own (fig. 2); what predict held at the end",
            text: list(
                &["", "static", "own", "own shape", "predict", "why"],
                regions.collect(),
            ),
        },
    ]
}

pub(super) fn bars(summary: &Summary) -> Vec<Bar> {
    let shape = |what, ours: &str, published: &str| Bar {
        what,
        published: Some(1.0),
        ours: Some(f64::from(u8::from(ours == published))),
        range: 1.0..=1.0,
    };
    let published = |name| best(name).map_or(String::new(), |shape| shape.to_string());
    let gain = |what, published: Option<f64>, ours, range| Bar {
        what,
        published,
        ours: Some(ours),
        range,
    };
    let most = f64::INFINITY;
    vec![
        shape(
            "ep: best shape on fig. 1's axis is the published one",
            &summary.best_shape_ep,
            &published("ep"),
        ),
        shape(
            "sp: best shape on fig. 1's axis is the published one",
            &summary.best_shape_sp,
            &published("sp"),
        ),
        shape(
            "ft: best shape on fig. 1's axis is the published one",
            &summary.best_shape_ft,
            &published("ft"),
        ),
        gain(
            "ft: gain of predict, %",
            Some(number("ft_gain")),
            summary.ft_gain_predict,
            31.0..=most,
        ),
        gain(
            "sp: gain of predict, %",
            Some(number("sp_gain")),
            summary.sp_gain_predict,
            21.0..=most,
        ),
        gain(
            "mean gain of predict, %",
            Some(number("mean_gain")),
            summary.mean_gain_predict,
            12.0..=most,
        ),
        gain(
            "largest loss of predict, %",
            Some(0.0),
            summary.worst_loss_predict,
            0.0..=0.99,
        ),
    ]
}

pub(super) fn missed(summary: &Summary, found: &[OfProgram], quick: bool) -> Vec<String> {
    let mut lines: Vec<String> = bars(summary).iter().filter_map(Bar::missed).collect();
    let axis: Vec<String> = AXIS.iter().map(u16::to_string).collect();
    lines.push(format!(
        "fig. 1's axis is lost: {} cores are assumed, because a step of ten from 4 explains both 44 and 54",
        axis.join(", ")
    ));
    if !quick {
        lines.push(format!(
            "among all numbers of cores the best shapes are {} (EP), {} (SP) and {} (FT)",
            summary.best_of_all_cores_ep,
            summary.best_of_all_cores_sp,
            summary.best_of_all_cores_ft
        ));
    }
    let high: Vec<String> = found
        .iter()
        .filter(|one| one.gain_predict > number("max_gain"))
        .map(|one| format!("{} {:.0}%", one.name, one.gain_predict))
        .collect();
    if !high.is_empty() {
        lines.push(format!(
            "gains above the largest published one (41%): {}; our 60x4 loses more to idle cores than theirs did",
            high.join(", ")
        ));
    }
    lines
}
