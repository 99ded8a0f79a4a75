//! A wavefront as a template, and the result that it must have.

#![allow(
    dead_code,
    reason = "shared by two test programs, each of which uses a part"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use tanada_runtime::{SGroup, TGroup, TemplateBuilder};

pub(crate) const ROWS: usize = 30;
pub(crate) const COLUMNS: usize = 40;

pub(crate) type Grid = Vec<AtomicU64>;

/// Each cell is the sum of its left and upper neighbours: wrong as soon as one task runs too early.
pub(crate) fn wavefront<'env>() -> tanada_runtime::Template<'env, Grid> {
    let mut builder = TemplateBuilder::<Grid>::new();
    let mut ids = Vec::new();
    for at in 0..ROWS * COLUMNS {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let id = builder.task("cell", at as u64, move |grid: &Grid, _| {
            let cell = |at: usize| grid[at].load(Ordering::Relaxed);
            let left = if column > 0 { cell(at - 1) } else { 0 };
            let up = if row > 0 { cell(at - COLUMNS) } else { 0 };
            let sum = if at == 0 { 1 } else { left.wrapping_add(up) };
            grid[at].store(sum, Ordering::Relaxed);
        });
        builder.groups(id, TGroup(10 * (row as u32 / 2)), SGroup(1 + row as u32));
        if column > 0 {
            builder.edge(ids[at - 1], id);
        }
        if row > 0 {
            builder.edge(ids[at - COLUMNS], id);
        }
        ids.push(id);
    }
    builder.build().expect("a graph without cycles")
}

pub(crate) fn expected() -> Vec<u64> {
    let mut grid = vec![0u64; ROWS * COLUMNS];
    grid[0] = 1;
    for at in 1..ROWS * COLUMNS {
        let left = if at % COLUMNS > 0 { grid[at - 1] } else { 0 };
        let up = if at >= COLUMNS { grid[at - COLUMNS] } else { 0 };
        grid[at] = left.wrapping_add(up);
    }
    grid
}
