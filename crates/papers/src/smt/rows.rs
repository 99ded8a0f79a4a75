//! Published figures beside ours, and tables of them.

use super::Reproduced;
use super::published::{self, Cell};
use crate::{Item, Table};

/// Returns an item for every published figure.
pub(super) fn rows(found: &Reproduced) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |item: String, published: f64, ours: f64, unit| {
        items.push(Item {
            item,
            published: Some(published),
            ours: Some(ours),
            unit,
        });
    };
    for (cell, configuration, hit) in published::table2() {
        let name = format!("table 2, {configuration} {} threads", cell.threads);
        add(name, hit, found.hit_percent(cell), "% hits");
    }
    for row in published::rows() {
        let table = if row.cell.l1d == 4 { 3 } else { 4 };
        let mark = row.cell.program.mark();
        let name = |what| format!("table {table}, {} {what}{mark}", row.cell.name());
        let ours = found.of(row.cell);
        add(
            name("cycles"),
            row.cycles,
            scaled(found, row.cell),
            "cycles",
        );
        add(name("ipc"), row.ipc, ours.ipc(), "ipc");
        add(
            name("hits"),
            row.hit_percent,
            found.hit_percent(row.cell),
            "% hits",
        );
    }
    for gain in published::gains() {
        let mark = gain.cell.program.mark();
        let name = format!("{}{mark}", gain.cell.name());
        if let Some(speedup) = gain.speedup {
            add(
                format!("fig 4, {name}"),
                speedup,
                found.over_one(gain.cell),
                "x",
            );
        }
        let ratio = found.hit_percent(gain.cell) / found.hit_percent(gain.cell.under("fifo"));
        add(format!("table 5, {name}"), gain.hit_ratio, ratio, "x");
    }
    items
}

/// Returns the cycles of a cell as the program of the full size would need them: small programs are scaled by the paper's instructions.
fn scaled(found: &Reproduced, cell: Cell) -> f64 {
    let cycles = found.of(cell).cycles as f64;
    if !found.quick {
        return cycles;
    }
    let row = published::rows()
        .into_iter()
        .find(|row| row.cell.program == cell.program);
    let row = row.expect("each program has rows");
    cycles * row.cycles * row.ipc / found.instructions[&cell.program] as f64
}

/// Returns the tables for people.
pub(super) fn tables(found: &Reproduced, rows: &[Item]) -> Vec<Table> {
    let of = |prefix: &str| Item::list(rows.iter().filter(|item| item.item.starts_with(prefix)));
    vec![
        Table {
            heading: "Table 2: hits of L1D, LU under fifo, configurations A to F",
            text: of("table 2"),
        },
        Table {
            heading: "Table 3: 4 KB of L1D",
            text: of("table 3"),
        },
        Table {
            heading: "Table 4: 32 KB of L1D",
            text: of("table 4"),
        },
        Table {
            heading: "Fig. 4: times as fast as one hardware thread, 4 KB",
            text: of("fig 4"),
        },
        Table {
            heading: "Table 5: hit rate over fifo's, 4 KB",
            text: of("table 5"),
        },
        Table {
            heading: "Speed over fifo, and trivial guesses: no change, and the published row of the other program",
            text: guesses(found),
        },
    ]
}

/// Returns speed-ups over `fifo`, published and ours, beside trivial guesses.
fn guesses(found: &Reproduced) -> String {
    let header = ["", "published", "ours", "no change", "the other program's"];
    let lines = super::summary::speedups(found).into_iter().map(|one| {
        let mark = one.cell.program.mark();
        let number = |value: f64| format!("{value:.2}");
        let cells = [
            format!("{}{mark}", one.cell.name()),
            number(one.published),
            number(one.ours),
            number(1.0),
            number(one.other),
        ];
        crate::reproduction::read(cells)
    });
    tanada_report::to_list(header, lines)
}
