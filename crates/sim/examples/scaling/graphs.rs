//! The graphs whose tasks are weighed.

use std::io::BufWriter;
use std::path::Path;
use tanada_trace::{BinaryWriter, NewTask, Record, Sink, TraceError};

/// A graph of tasks that compute and do nothing else, so that all other cycles are the scheduler's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Graph {
    /// Rows and columns of tasks that wait for the left, the upper and the upper right neighbour. `grouped`: a row is an S group of T
    /// group 1.
    Wavefront {
        rows: u32,
        columns: u32,
        grouped: bool,
    },
    /// Tasks that wait for nothing.
    Flat { tasks: u32 },
    /// A binary tree: a task forks two when it ends.
    Tree { depth: u32 },
    /// Cholesky's factorisation of a square of tiles, lower half.
    Cholesky { tiles: u32 },
}

/// Names and graphs.
pub(super) const GRAPHS: [(&str, Graph); 5] = [
    ("wavefront", rows_of_tasks(false)),
    ("wavefront-rows", rows_of_tasks(true)),
    ("flat", Graph::Flat { tasks: 200_000 }),
    ("tree", Graph::Tree { depth: 17 }),
    ("cholesky", Graph::Cholesky { tiles: 64 }),
];

const fn rows_of_tasks(grouped: bool) -> Graph {
    Graph::Wavefront {
        rows: 1000,
        columns: 250,
        grouped,
    }
}

/// Writes the trace of a graph whose tasks compute for `body` cycles.
pub(super) fn make(path: &Path, graph: Graph, body: u64) -> Result<(), TraceError> {
    let file = BufWriter::new(std::fs::File::create(path)?);
    let mut out = BinaryWriter::new(file)?;
    let mut edges = Vec::new();
    let mut task = |id, groups: (u32, u32), name| {
        out.task(&NewTask {
            id,
            t: groups.0,
            s: groups.1,
            name: Some(name),
            ..NewTask::default()
        })?;
        out.record(Record::compute(body))
    };
    match graph {
        Graph::Wavefront {
            rows,
            columns,
            grouped,
        } => {
            for row in 0..rows {
                for column in 0..columns {
                    let id = row * columns + column;
                    let groups = if grouped { (1, 1 + row) } else { (0, 0) };
                    task(id, groups, "cell")?;
                    if column > 0 {
                        edges.push((id - 1, id, false));
                    }
                    // The edge from the upper neighbour is implied by the two others, and templates drop it.
                    if row > 0 && column + 1 < columns {
                        edges.push((id - columns + 1, id, false));
                    } else if row > 0 {
                        edges.push((id - columns, id, false));
                    }
                }
            }
        }
        Graph::Flat { tasks } => (0..tasks).try_for_each(|id| task(id, (0, 0), "alone"))?,
        Graph::Tree { depth } => {
            let inner = (1 << depth) - 1;
            for id in 0..2 * inner + 1 {
                task(id, (0, 0), "node")?;
                if id < inner {
                    edges.push((id, 2 * id + 1, true));
                    edges.push((id, 2 * id + 2, true));
                }
            }
        }
        Graph::Cholesky { tiles } => cholesky(tiles, &mut edges, &mut task)?,
    }
    for (from, to, fork) in edges {
        out.edge(from, to, fork)?;
    }
    out.finish()?;
    Ok(())
}

/// The tasks of a right-looking factorisation: each waits for the tasks that last wrote its tiles.
fn cholesky(
    tiles: u32,
    edges: &mut Vec<(u32, u32, bool)>,
    task: &mut impl FnMut(u32, (u32, u32), &'static str) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut last = vec![None; (tiles * tiles) as usize];
    let at = |row: u32, column: u32| (row * tiles + column) as usize;
    let mut id = 0;
    let mut run = |name, reads: &[usize], writes: usize| {
        task(id, (0, 0), name)?;
        let mut waits: Vec<u32> = reads
            .iter()
            .chain([&writes])
            .filter_map(|&tile| last[tile])
            .collect();
        waits.sort_unstable();
        waits.dedup();
        edges.extend(waits.into_iter().map(|from| (from, id, false)));
        last[writes] = Some(id);
        id += 1;
        Ok::<_, TraceError>(())
    };
    for k in 0..tiles {
        run("potrf", &[], at(k, k))?;
        for row in k + 1..tiles {
            run("trsm", &[at(k, k)], at(row, k))?;
        }
        for row in k + 1..tiles {
            for column in k + 1..row {
                run("gemm", &[at(row, k), at(column, k)], at(row, column))?;
            }
            run("syrk", &[at(row, k)], at(row, row))?;
        }
    }
    Ok(())
}
