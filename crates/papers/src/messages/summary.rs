//! Rows, the summary, the bars of the claim, and what did not come out.

use super::published::share;
use super::simulating::{Ran, Saved};
use super::{CASES, Findings, Gap, Handlers, bounds};
use crate::reproduction::read;
use crate::{Bar, Item, Table};
use serde::Serialize;
use tanada_policy::deliveries;
use tanada_report::to_list;
use tanada_sim::rtos::receiver::{LAYER2, NOTIFY, OUTPUT, PDCP, RECEIVE, TIMER};

/// What the claim is about. Shares are percent of the receiver's time under immediate delivery.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// What periodic delivery saves (published: 30.1).
    pub(super) saving_total: f64,
    /// Handlers of messages, the receiving task and the handler of the timer, and what layer 2 need not execute since it waits and is
    /// switched to less often (published: 22.2).
    pub(super) saving_direct: f64,
    /// What the same executions of layer 2's code cost less (published: 7.9).
    pub(super) saving_cache: f64,
    /// The same without caches, measured likewise (published: 0).
    pub(super) saving_cache_caches_off: f64,
    /// All that the tasks of layer 2 save, with caches and without: what the paper's figures 8 and 9 show.
    pub(super) saving_layer2: f64,
    pub(super) saving_layer2_caches_off: f64,
    /// A part of `saving_direct`: what layer 2 waits and is switched to less often.
    pub(super) saving_layer2_waits: f64,
    /// The time from one frame to the next in microseconds, calibrated on immediate delivery alone.
    pub(super) gap_us: u64,
    /// Percent of the time under immediate delivery that the handlers' functions take, with the service that they call: the one share of
    /// immediate delivery that the paper tells (7.5).
    pub(super) immediate_handlers: f64,
    /// The same with entry and exit of their interrupts.
    pub(super) immediate_interrupts: f64,
    /// What adaptive delivery saves, as percent of what periodic delivery saves, one period of frames behind the other.
    pub(super) adaptive_share_of_periodic_saving: f64,
    pub(super) saving_handlers: f64,
    pub(super) saving_receive_task: f64,
    pub(super) saving_timer: f64,
    pub(super) saving_total_caches_off: f64,
    /// Mean latencies at one message in 50 ms, and the time of a handler, in microseconds.
    pub(super) sparse_latency_immediate_us: f64,
    pub(super) sparse_latency_adaptive_us: f64,
    pub(super) sparse_latency_periodic_us: f64,
    pub(super) handler_us: f64,
    /// Messages that the adversary sent through adaptive delivery, and of these those that were told later than the bound.
    pub(super) adversary_messages: u64,
    pub(super) told_later_than_bound: u64,
    pub(super) found_full_although_room_is_kept: u64,
}

fn place(name: &str) -> usize {
    let found = deliveries::all()
        .iter()
        .position(|entry| entry.name == name);
    found.expect("it is registered")
}

/// Returns the percentage of the handlers of messages in a run.
fn share_of(ran: &Ran, which: Handlers) -> f64 {
    100.0 * ran.handlers(which) / ran.total()
}

pub(super) fn summary(found: &Findings, us: f64) -> Summary {
    let on = Saved::between(&found.on[0], &found.on[1]);
    let off = Saved::between(&found.off[0], &found.off[1]);
    let steady = |name| found.steady[place(name)].total();
    let saved = |name| steady("immediate") - steady(name);
    let sparse = |name| found.sparse[place(name)].latency().0 / us;
    let kept = |value: fn(&bounds::Kept) -> u64| found.kept.iter().map(value).sum();
    let roomy = deliveries::all()
        .iter()
        .zip(&found.kept)
        .filter(|(entry, _)| entry.keeps_room);
    Summary {
        saving_total: on.total(),
        saving_direct: on.direct(),
        saving_cache: on.cache(),
        saving_cache_caches_off: off.cache(),
        saving_layer2: on.layer2(),
        saving_layer2_caches_off: off.layer2(),
        saving_layer2_waits: on.layer2_waits,
        gap_us: found.calibrated.gap,
        immediate_handlers: share_of(&found.on[0], Handlers::Functions),
        immediate_interrupts: share_of(&found.on[0], Handlers::Interrupts),
        adaptive_share_of_periodic_saving: 100.0 * saved("adaptive") / saved("periodic"),
        saving_handlers: on.notify,
        saving_receive_task: on.receive,
        saving_timer: on.timer,
        saving_total_caches_off: off.total(),
        sparse_latency_immediate_us: sparse("immediate"),
        sparse_latency_adaptive_us: sparse("adaptive"),
        sparse_latency_periodic_us: sparse("periodic"),
        handler_us: found.sparse[place("immediate")].handler / us,
        adversary_messages: found.kept[place("adaptive")].messages,
        told_later_than_bound: kept(|one| one.late),
        found_full_although_room_is_kept: roomy.map(|(_, kept)| kept.full).sum(),
    }
}

pub(super) fn rows(found: &Findings, summary: &Summary) -> Vec<Item> {
    let item = |item: &str, published: f64, ours: f64| Item {
        item: item.to_owned(),
        published: Some(published),
        ours: Some(ours),
        unit: "%",
    };
    let tasks = summary.saving_handlers + summary.saving_receive_task + summary.saving_timer;
    let mut rows = vec![
        // What the gap is calibrated on.
        Item {
            item: "fig. 6, interrupts under immediate delivery (calibrated)".to_owned(),
            published: Some(9.0),
            ours: Some(found.on[0].notices),
            unit: "interrupts",
        },
        item(
            "fig. 7, functions of the handlers (21, 22): their share under immediate delivery, all of it saved (predicted)",
            share("ipi_handlers"),
            summary.immediate_handlers,
        ),
        Item {
            item: "the same with entry and exit of their interrupts (predicted)".to_owned(),
            published: None,
            ours: Some(summary.saving_handlers),
            unit: "%",
        },
    ];
    rows.extend([
        item(
            "fig. 7, receiving task (3): saved (predicted)",
            share("receive_task"),
            summary.saving_receive_task,
        ),
        item(
            "fig. 7, handler of the timer (20): saved (predicted)",
            share("timer_handler"),
            summary.saving_timer,
        ),
        item(
            "fig. 7, these three, with entry and exit: saved (predicted)",
            share("direct_total"),
            tasks,
        ),
        item(
            "fig. 8, all of layer 2 (5-7, 14-16): saved (predicted)",
            share("layer2_tasks"),
            summary.saving_layer2,
        ),
        item(
            "fig. 7, total: saved (predicted)",
            share("total"),
            summary.saving_total,
        ),
        item(
            "fig. 9, all of layer 2 without caches: saved (predicted)",
            share("layer2_tasks_caches_off"),
            summary.saving_layer2_caches_off,
        ),
        item(
            "split, direct: what is not executed any more (predicted)",
            share("direct_total"),
            summary.saving_direct,
        ),
        item(
            "split, through the cache: layer 2's same executions cost less (predicted)",
            share("layer2_tasks"),
            summary.saving_cache,
        ),
        item(
            "split, the same without caches (predicted)",
            share("layer2_tasks_caches_off"),
            summary.saving_cache_caches_off,
        ),
    ]);
    rows
}

/// Mean and standard deviation.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum::<f64>()
        / (count - 1.0).max(1.0);
    (mean, square.sqrt())
}

pub(super) fn tables(found: &Findings, summary: &Summary, us: f64) -> Vec<Table> {
    let items = rows(found, summary);
    let of_tasks = |pair: &[Ran]| {
        let name = |id: u32| match id {
            NOTIFY => "21-22 handlers of messages",
            RECEIVE => "3 receiving task",
            TIMER => "20 handler of the timer",
            5 => "5 output 1",
            6 => "6 output 2",
            7 => "7 output 3",
            14 => "14 PDCP 1",
            15 => "15 PDCP 2",
            _ => "16 PDCP 3",
        };
        let ids = [NOTIFY, TIMER, RECEIVE]
            .into_iter()
            .chain(PDCP)
            .chain(OUTPUT);
        let mut lines: Vec<Vec<String>> = ids
            .map(|id| {
                let [one, two] = [&pair[0], &pair[1]].map(|ran| ran.of_ids(&[id]) / us);
                vec![
                    name(id).to_owned(),
                    format!("{one:.1}"),
                    format!("{two:.1}"),
                ]
            })
            .collect();
        let total = |ran: &Ran| format!("{:.1}", ran.total() / us);
        lines.push(vec!["all".to_owned(), total(&pair[0]), total(&pair[1])]);
        to_list(["", "immediate", "periodic"], lines.into_iter().map(read))
    };
    let cases = CASES
        .iter()
        .zip(&found.cases)
        .map(|(case, [immediate, periodic])| {
            let each: Vec<Saved> = immediate
                .iter()
                .zip(periodic)
                .map(|(one, two)| Saved::between(one, two))
                .collect();
            let means = Saved::between(&Ran::mean(immediate), &Ran::mean(periodic));
            let (_, total) = spread(&each.iter().map(Saved::total).collect::<Vec<_>>());
            let (_, direct) = spread(&each.iter().map(Saved::direct).collect::<Vec<_>>());
            let (_, cache) = spread(&each.iter().map(Saved::cache).collect::<Vec<_>>());
            let mean = Ran::mean(immediate);
            vec![
                case.name.to_owned(),
                format!("{:.1} +- {total:.1}", means.total()),
                format!("{:.1} +- {direct:.1}", means.direct()),
                format!("{:.1} +- {cache:.1}", means.cache()),
                format!("{:.1}", means.layer2()),
                format!("{:.1}", share_of(&mean, Handlers::Functions)),
                format!("{:.1}", share_of(&mean, Handlers::Interrupts)),
                format!("{:.1}", mean.notices),
            ]
        });
    let all = deliveries::all().iter().enumerate();
    let of_deliveries = all.map(|(at, entry)| {
        let (mean, most) = found.steady[at].latency();
        let (sparse, sparse_most) = found.sparse[at].latency();
        vec![
            entry.name.to_owned(),
            format!(
                "{:.1}",
                100.0 * (1.0 - found.steady[at].total() / found.steady[place("immediate")].total())
            ),
            format!("{:.0} / {:.0}", mean / us, most / us),
            format!(
                "{:.1}",
                found.sparse[at].total() / us / found.sparse[at].latencies.len().max(1) as f64
            ),
            format!("{:.0} / {:.0}", sparse / us, sparse_most / us),
        ]
    });
    vec![
        Table {
            heading: "What periodic delivery saves, percent of the receiver's time under immediate delivery",
            text: Item::list(&items),
        },
        Table {
            heading: "Fig. 7: microseconds of each task and handler",
            text: of_tasks(&found.on),
        },
        Table {
            heading: "Fig. 9 and all others: the same without caches",
            text: of_tasks(&found.off),
        },
        Table {
            heading: "What the savings depend on: percent, standard deviation over seeds; under immediate delivery the \
             share of handlers, without and with entry and exit, and interrupts of the other core",
            text: to_list(
                [
                    "",
                    "total",
                    "direct",
                    "cache",
                    "all of layer 2",
                    "handlers",
                    "with entry",
                    "interrupts",
                ],
                cases.map(read),
            ),
        },
        Table {
            heading: "Every delivery: periods of nine frames (saved, %; latency, mean / 99%, us); one message in 50 \
             ms (us a message; latency)",
            text: to_list(
                ["", "saved", "latency", "sparse: us", "latency"],
                of_deliveries.map(read),
            ),
        },
    ]
}

pub(super) fn bars(summary: &Summary) -> Vec<Bar> {
    let bar = |what, published, ours, range| Bar {
        what,
        published,
        ours: Some(ours),
        range,
    };
    let behind = summary.sparse_latency_adaptive_us - summary.sparse_latency_immediate_us;
    vec![
        bar(
            "saved in total, %",
            Some(share("total")),
            summary.saving_total,
            26.0..=34.0,
        ),
        bar(
            "saved directly, %",
            Some(share("direct_total")),
            summary.saving_direct,
            19.0..=25.0,
        ),
        bar(
            "saved through the cache, %",
            Some(share("layer2_tasks")),
            summary.saving_cache,
            6.0..=10.0,
        ),
        bar(
            "saved through the cache without caches, %",
            Some(share("layer2_tasks_caches_off")),
            summary.saving_cache_caches_off,
            -0.05..=0.05,
        ),
        bar(
            "adaptive: share of what periodic saves, %",
            None,
            summary.adaptive_share_of_periodic_saving,
            95.0..=f64::INFINITY,
        ),
        bar(
            "adaptive behind immediate at one message in 50 ms, handler times",
            None,
            behind / summary.handler_us,
            -1.0..=1.0,
        ),
        bar(
            "messages that were told later than the bound",
            None,
            summary.told_later_than_bound as f64,
            0.0..=0.0,
        ),
    ]
}

pub(super) fn missed(summary: &Summary, found: &Findings, us: f64) -> Vec<String> {
    let mut lines: Vec<String> = bars(summary).iter().filter_map(Bar::missed).collect();
    lines.push(format!(
        "the gap between frames is not published: {} us is calibrated on immediate delivery alone, as the shortest at which the \
         receiver has done with a frame when the next one comes. The text would allow shorter ones, at which less is saved",
        summary.gap_us
    ));
    let tasks = summary.saving_handlers + summary.saving_receive_task + summary.saving_timer;
    lines.push(format!(
        "the receiving task saves {:.1}, published {:.1}; the service that wakes it is the handler's, as TOPPERS/JSP does not delay it",
        summary.saving_receive_task,
        share("receive_task"),
    ));
    let longer = |which| {
        let case = CASES
            .iter()
            .position(|case| matches!(case.gap, Gap::Longer(of) if of == which));
        let runs = &found.cases[case.expect("it is a case")];
        let saved = Saved::between(&Ran::mean(&runs[0]), &Ran::mean(&runs[1]));
        format!(
            "{:.0} us a frame longer, which saves {:.1} in total, {:.1} directly and {:.1} through the cache",
            found.calibrated.longer(which) as f64 / us,
            saved.total(),
            saved.direct(),
            saved.cache(),
        )
    };
    lines.push(format!(
        "of immediate delivery the paper tells one share, {:.1}% for its handlers. Their functions take {:.1}% here, and with entry and \
         exit of the interrupts, which the paper may have counted or not, {:.1}%. For the first to fit, layer 2 would have to compute {}; \
         for the second, {}",
        share("ipi_handlers"),
        summary.immediate_handlers,
        summary.immediate_interrupts,
        longer(Handlers::Functions),
        longer(Handlers::Interrupts),
    ));
    let saved_us = |ids: &[u32]| (found.off[0].of_ids(ids) - found.off[1].of_ids(ids)) / us;
    lines.push(format!(
        "the paper's split is by tasks, and finds none in layer 2 without caches. By tasks {tasks:.1} is saved directly and {:.1} \
         by layer 2, and {:.2} by it without caches: its PDCP tasks save {:.0} us and its output tasks {:.0}, since they wait and are \
         switched to at other times. Those executions count as direct here ({:.1} with caches)",
        summary.saving_layer2,
        summary.saving_layer2_caches_off,
        saved_us(&PDCP),
        saved_us(&OUTPUT),
        summary.saving_layer2_waits,
    ));
    lines.push(format!(
        "without caches {:.1}% of the receiver's time is saved; the paper shows layer 2 only",
        summary.saving_total_caches_off
    ));
    lines.push("layer 2's code was enlarged once with the published shares in view".to_owned());
    lines.push(
        "banks are the top bits of the address, which was chosen once because of the figure without caches; the table has the other way"
            .to_owned(),
    );
    let lost: f64 = found.rates.iter().map(|ran| ran.lost).sum();
    if lost > 0.0 {
        lines.push(format!(
            "{lost:.0} messages of the charts of rates found the ring full: no sender waits"
        ));
    }
    let layer2: Vec<String> = LAYER2.iter().map(u32::to_string).collect();
    lines.push(format!(
        "layer 2 is the tasks {}, each with the kernel's services that it calls",
        layer2.join(", ")
    ));
    lines
}
