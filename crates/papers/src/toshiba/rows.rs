//! Every figure of the tables, published and ours, and the tables as text.

use super::Reproduced;
use super::published::{PICTURES, Row, Scheduler, table3};
use super::simulating::{Ran, miss_rate, sampled};
use crate::reproduction::read;
use crate::{Item, Table};
use tanada_report::to_list;

/// The end of the names of items that are gains.
const GAIN: &str = "gain over fcfs";

/// Returns all figures in the order of the tables: Table 2 with the gains that follow from it, Table 3.
pub(super) fn rows(found: &Reproduced) -> Vec<Item> {
    let mut items = Vec::new();
    let mut put = |name: &str, what: &str, published: Option<f64>, ours: Option<f64>, unit| {
        items.push(Item {
            item: format!("{name}: {what}"),
            published,
            ours,
            unit,
        });
    };
    for (row, ran) in &found.table2 {
        for scheduler in Scheduler::ALL {
            let printed = row.of(scheduler);
            let ours = ran.as_ref().map(|ran| &ran[scheduler as usize]);
            // Misses of the tasks of all pictures, from those of the sample.
            let all = |ran: &Ran, misses: u64| {
                misses as f64 * PICTURES as f64 / ran.pictures.len() as f64
            };
            let l1 = ours.map(|ran| all(ran, ran.l1i.misses + ran.l1d.misses));
            let l2 = ours.map(|ran| all(ran, ran.l2.misses));
            let (speed, cycles) = (ours.map(Ran::fps), ours.map(|ran| ran.task_cycles));
            let name = format!("table 2, {} cores, {}", row.cell, scheduler.name());
            let mut put = |what, published, ours, unit| put(&name, what, published, ours, unit);
            put("speed", Some(printed.fps), speed, "frames/s");
            put("cycles a task", Some(printed.task_cycles), cycles, "cycles");
            put("L1 misses", printed.l1_misses, l1, "misses");
            put("L2 misses", printed.l2_misses, l2, "misses");
            if scheduler != Scheduler::Fcfs {
                let gain = ran.as_ref().map(|ran| sampled(ran, scheduler).gain);
                put(GAIN, Some(row.gain(scheduler)), gain, "percent");
            }
        }
    }
    for (scheduler, of) in [Scheduler::Fcfs, Scheduler::A].into_iter().zip(table3()) {
        let ran = &found.table3[scheduler as usize];
        let cycles = ran.cycles / ran.pictures.len() as f64;
        let (task, turn) = (ran.task_cycles, ran.scheduling_cycles);
        let [l1i, l1d, l2] = [ran.l1i, ran.l1d, ran.l2].map(miss_rate);
        let name = format!("table 3, {}", scheduler.name());
        for (what, published, ours, unit) in [
            ("total cycles", of.total_cycles, cycles, "cycles"),
            ("mean cycles of a task", of.task_cycles, task, "cycles"),
            (
                "mean cycles of scheduling",
                of.scheduling_cycles,
                turn,
                "cycles",
            ),
            ("utilisation", of.utilisation, ran.utilisation, "percent"),
            ("L1I miss rate", of.l1i, l1i, "percent"),
            ("L1D miss rate", of.l1d, l1d, "percent"),
            ("L2 miss rate", of.l2, l2, "percent"),
        ] {
            put(&name, what, Some(published), Some(ours), unit);
        }
    }
    items
}

/// Returns Table 2, its gains and Table 3 as text.
pub(super) fn tables(found: &Reproduced, items: &[Item]) -> Vec<Table> {
    let of = |table: &str| {
        // Gains have a table of their own.
        let there = |one: &&Item| one.item.starts_with(table) && !one.item.ends_with(GAIN);
        Item::list(items.iter().filter(there))
    };
    let table = |heading, text| Table { heading, text };
    vec![
        table("Table 2, contended model (toshiba-board)", of("table 2")),
        table(
            "Table 2, gains over FCFS in percent, with the standard error of sampling pictures",
            gains(found),
        ),
        table(
            "Table 3, uniform model (toshiba), 4 cores, 128 KB, WVGA",
            of("table 3"),
        ),
    ]
}

/// Returns a line for each cell of Table 2.
fn gains(found: &Reproduced) -> String {
    const HEADER: [&str; 8] = [
        "",
        "A published",
        "A ours",
        "+-",
        "B published",
        "B ours",
        "+-",
        "",
    ];
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let line = |(row, ran): &(Row, Option<[Ran; 3]>)| {
        let mut cells = vec![format!("{} cores", row.cell)];
        for scheduler in Scheduler::GROUPED {
            let ours = ran.as_ref().map(|ran| sampled(ran, scheduler));
            cells.push(number(Some(row.gain(scheduler))));
            cells.push(number(ours.map(|ours| ours.gain)));
            cells.push(number(ours.and_then(|ours| ours.error)));
        }
        let origin = match row.cell.stream.is_calibrated() {
            true => "calibrated on",
            false => "predicted",
        };
        cells.push(origin.to_owned());
        cells
    };
    to_list(HEADER, found.table2.iter().map(|row| read(line(row))))
}
