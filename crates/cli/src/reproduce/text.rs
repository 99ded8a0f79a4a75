//! The tables as text.

use super::published::{Row, Scheduler};
use super::rows::{GAIN, Item, rows};
use super::simulating::Ran;
use super::summary::{Summary, claim};
use super::toshiba::{Reproduced, sampled};
use std::fmt::Write as _;
use tanada_report::to_list;

/// Table 2, Table 3, the claim, and what did not come out.
pub(crate) fn text(found: &Reproduced, summary: &Summary) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Paper 1 (cache groups), published and ours: {} of 128 pictures of {}\n",
        summary.pictures,
        summary.streams.join(", ")
    );
    text += &tables(found);
    text += "\nThe claim: one set of parameters for both models\n";
    let header = ["", "published", "ours", "bar", "met"];
    text += &to_list(&header, claim(summary).into_iter().map(Vec::from));
    text += "\nWhat did not come out, and what to know\n";
    for line in &summary.missed {
        let _ = writeln!(text, "- {line}");
    }
    text
}

/// Table 2 and Table 3.
pub(super) fn tables(found: &Reproduced) -> String {
    let items = rows(found);
    let of = |table: &str| -> Vec<&Item> {
        // Gains have a table of their own.
        let there = |one: &&Item| one.item.starts_with(table) && !one.item.ends_with(GAIN);
        items.iter().filter(there).collect()
    };
    let mut text = "Table 2, contended model (toshiba-board)\n".to_owned();
    text += &list(&of("table 2"));
    text += "\nTable 2, gains over FCFS in percent, with the standard error of sampling pictures\n";
    text += &gains_table(found);
    text += "\nTable 3, uniform model (toshiba), 4 cores, 128 KB, WVGA\n";
    text += &list(&of("table 3"));
    text
}

fn list(items: &[&Item]) -> String {
    let header = ["", "published", "ours", "ratio", "unit"];
    to_list(&header, items.iter().map(|one| cells(one)))
}

fn cells(one: &Item) -> Vec<String> {
    let number = |value: Option<f64>, absent: &str| match value {
        None => absent.to_owned(),
        Some(value) if one.unit == "misses" || value >= 1e5 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    };
    vec![
        one.item
            .split_once(", ")
            .map_or(&*one.item, |(_, rest)| rest)
            .to_owned(),
        number(one.published, "misprint"),
        number(one.ours, "-"),
        one.ratio()
            .map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
        one.unit.to_owned(),
    ]
}

/// A row a cell.
fn gains_table(found: &Reproduced) -> String {
    let header = [
        "",
        "A published",
        "A ours",
        "+-",
        "B published",
        "B ours",
        "+-",
        "",
    ];
    let line = |(row, ran): &(Row, Option<[Ran; 3]>)| {
        let mut cells = vec![format!("{} cores", row.cell)];
        for scheduler in [Scheduler::A, Scheduler::B] {
            let ours = ran.as_ref().map(|ran| sampled(ran, scheduler));
            cells.push(format!("{:.1}", row.gain(scheduler)));
            cells.push(ours.map_or("-".to_owned(), |ours| format!("{:.1}", ours.gain)));
            let error = ours.and_then(|ours| ours.error);
            cells.push(error.map_or("-".to_owned(), |error| format!("{error:.1}")));
        }
        let calibrated = row.cell.stream.is_calibrated();
        cells.push(
            if calibrated {
                "calibrated on"
            } else {
                "predicted"
            }
            .to_owned(),
        );
        cells
    };
    to_list(&header, found.table2.iter().map(line))
}
