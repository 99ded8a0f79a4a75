//! Every figure of the tables, published and ours.

use super::published::{PICTURES, Scheduler, table3};
use super::simulating::{Ran, miss_rate};
use super::toshiba::Reproduced;
use serde::Serialize;

/// How items of gains end.
pub(super) const GAIN: &str = "gain over fcfs";

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Item {
    /// Of what.
    pub(crate) item: String,
    /// As published; `None` where the print is wrong.
    pub(crate) published: Option<f64>,
    /// Ours; `None` where the stream is not there.
    pub(crate) ours: Option<f64>,
    /// What both are counted in.
    pub(crate) unit: &'static str,
}

impl Item {
    /// Ours over published.
    pub(crate) fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.published.filter(|&published| published != 0.0)?)
    }
}

/// All figures, in the order of the tables: Table 2 with the gains that follow from it, Table 3.
pub(crate) fn rows(found: &Reproduced) -> Vec<Item> {
    let mut items = Vec::new();
    for (row, ran) in &found.table2 {
        for scheduler in Scheduler::ALL {
            let published = row.of(scheduler);
            let ours = ran.as_ref().map(|ran| &ran[scheduler as usize]);
            let name = format!("table 2, {} cores, {}", row.cell, scheduler.name());
            // Misses of the tasks of all pictures, from those of the sample.
            let all = |ran: &Ran, misses: u64| {
                misses as f64 * PICTURES as f64 / ran.pictures.len() as f64
            };
            let mut put = |what: &str, published: Option<f64>, ours: Option<f64>, unit| {
                items.push(Item {
                    item: format!("{name}: {what}"),
                    published,
                    ours,
                    unit,
                });
            };
            put("speed", Some(published.fps), ours.map(Ran::fps), "frames/s");
            let cycles = ours.map(|ran| ran.task_cycles);
            put(
                "cycles a task",
                Some(published.task_cycles),
                cycles,
                "cycles",
            );
            let l1 = ours.map(|ran| all(ran, ran.l1i.misses + ran.l1d.misses));
            put("L1 misses", published.l1_misses, l1, "misses");
            let l2 = ours.map(|ran| all(ran, ran.l2.misses));
            put("L2 misses", published.l2_misses, l2, "misses");
            if scheduler != Scheduler::Fcfs {
                let gain = ran
                    .as_ref()
                    .map(|ran| Reproduced::gain(row, ran, scheduler).ours);
                put(GAIN, Some(row.gain(scheduler)), gain, "percent");
            }
        }
    }
    items.extend(of_table3(found));
    items
}

fn of_table3(found: &Reproduced) -> impl Iterator<Item = Item> + '_ {
    let published = table3();
    [Scheduler::Fcfs, Scheduler::A]
        .into_iter()
        .flat_map(move |scheduler| {
            let (printed, ran) = (
                &published[scheduler as usize],
                &found.table3[scheduler as usize],
            );
            let count = ran.pictures.len() as f64;
            let figures = [
                (
                    "total cycles",
                    printed.total_cycles,
                    ran.cycles / count,
                    "cycles",
                ),
                (
                    "mean cycles of a task",
                    printed.task_cycles,
                    ran.task_cycles,
                    "cycles",
                ),
                (
                    "mean cycles of scheduling",
                    printed.scheduling_cycles,
                    ran.scheduling_cycles,
                    "cycles",
                ),
                (
                    "utilisation",
                    printed.utilisation,
                    ran.utilisation,
                    "percent",
                ),
                ("L1I miss rate", printed.l1i, miss_rate(ran.l1i), "percent"),
                ("L1D miss rate", printed.l1d, miss_rate(ran.l1d), "percent"),
                ("L2 miss rate", printed.l2, miss_rate(ran.l2), "percent"),
            ];
            figures.map(|(what, published, ours, unit)| Item {
                item: format!("table 3, {}: {what}", scheduler.name()),
                published: Some(published),
                ours: Some(ours),
                unit,
            })
        })
}
