//! The task graph while it is told, and what it becomes: tasks in declaration order and their successors in one array.

mod cycle;
mod ids;
mod varint;
mod words;

pub(crate) use ids::IdMap;
pub(crate) use varint::{Varints, put_varint, put_zigzag, unzigzag, zigzag};
pub(crate) use words::Words;

use crate::sink::check_task;
use crate::{Edge, NewTask, Task, TraceError};

/// No name, no cell: the last index is never one.
pub(crate) const NONE: u32 = u32::MAX;

/// Task indices have a bit less than IDs, because an [`Edge`] keeps one for itself.
pub(crate) const MOST_TASKS: usize = (1 << 31) - 1;

/// A finished graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) tasks: Vec<Task>,
    /// Where a task's successors begin; one more than there are tasks.
    pub(crate) first_edge: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

impl Graph {
    /// Unites what is told twice, counts dependencies, and looks for a cycle: an edge of it, by index.
    ///
    /// Linear in tasks and edges, with 8 bytes a task on top while it works.
    pub(crate) fn close(&mut self) -> Option<(u32, u32)> {
        let mut marks = vec![NONE; self.tasks.len()];
        unite(&mut self.first_edge, &mut self.edges, &mut marks);
        for edge in &self.edges {
            self.tasks[edge.to() as usize].waits += 1;
        }
        cycle::find(&self.tasks, &self.first_edge, &self.edges, marks)
    }
}

/// Says that `to` is on a cycle, on which `from` is before it; both are IDs.
#[cold]
pub(crate) fn cycle_text(from: u32, to: u32) -> String {
    format!(
        "tasks wait for each other in a cycle: task {to} waits for task {from}, and that for task {to} in turn; remove a dependency"
    )
}

/// Takes tasks and edges in any order; 36 bytes a task, about 5 an edge.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) tasks: Vec<Task>,
    pub(crate) names: Words,
    ids: IdMap,
    /// Edges as they were told: a byte stream, because most are between neighbours and on the next line.
    log: Vec<u8>,
    edges: usize,
    last: Told,
    /// The line that is read now, 0 when there is none.
    pub(crate) line: u64,
}

/// An edge as it was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    from: u32,
    to: u32,
    fork: bool,
    line: u64,
}

impl Builder {
    /// Adds a task; constant time.
    pub(crate) fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        check_task(task, self.line)?;
        if self.tasks.len() >= MOST_TASKS {
            return Err(TraceError::at(
                self.line,
                format!("more than {MOST_TASKS} tasks"),
            ));
        }
        if !self.ids.insert(task.id, &self.tasks) {
            let text = format!(
                "task {} is declared twice; give every task an ID of its own",
                task.id
            );
            return Err(TraceError::at(self.line, text));
        }
        let name = task.name.map_or(NONE, |name| self.names.index(name));
        self.tasks.push(Task {
            id: task.id,
            t: task.t,
            s: task.s,
            depth: task.depth,
            name,
            waits: 0,
            block: NONE,
            offset: 0,
        });
        Ok(())
    }

    /// Adds an edge between two IDs, which need not be there yet.
    pub(crate) fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        if self.edges >= NONE as usize {
            return Err(TraceError::at(
                self.line,
                format!("more than {NONE} dependencies"),
            ));
        }
        put_zigzag(&mut self.log, i64::from(from) - i64::from(self.last.from));
        put_varint(
            &mut self.log,
            zigzag(i64::from(to) - i64::from(from)) << 1 | u64::from(fork),
        );
        put_varint(&mut self.log, self.line.saturating_sub(self.last.line));
        self.last = Told {
            from,
            to,
            fork,
            line: self.line.max(self.last.line),
        };
        self.edges += 1;
        Ok(())
    }

    fn told(&self) -> impl Iterator<Item = Told> + '_ {
        let mut log = Varints::new(&self.log);
        let mut told = Told::default();
        std::iter::from_fn(move || {
            let from = i64::from(told.from) + log.zigzag()?;
            let to = log.varint()?;
            told = Told {
                from: from as u32,
                to: (from + unzigzag(to >> 1)) as u32,
                fork: to & 1 != 0,
                line: told.line + log.varint()?,
            };
            Some(told)
        })
    }

    /// Resolves IDs, counts dependencies, and makes sure that every task can run.
    ///
    /// Linear in tasks and edges; 8 bytes a task and 4 an edge on top while it works.
    pub(crate) fn finish(mut self) -> Result<(Graph, Words), TraceError> {
        let count = self.tasks.len();
        let mut first_edge = vec![0_u32; count + 1];
        for told in self.told() {
            let from = self.resolve(told, told.from)?;
            let to = self.resolve(told, told.to)?;
            if from == to {
                let text = format!(
                    "a cycle: task {} waits for itself; remove this line",
                    told.from
                );
                return Err(TraceError::at(told.line, text));
            }
            first_edge[from as usize + 1] += 1;
        }
        for i in 0..count {
            first_edge[i + 1] += first_edge[i];
        }
        let mut edges = vec![Edge::new(0, false); self.edges];
        for told in self.told() {
            let (from, to) = (self.resolve(told, told.from)?, self.resolve(told, told.to)?);
            let free = &mut first_edge[from as usize];
            edges[*free as usize] = Edge::new(to, told.fork);
            *free += 1;
        }
        // Each begin was moved to its end, which is the next one's begin.
        first_edge.copy_within(0..count, 1);
        first_edge[0] = 0;
        self.ids = IdMap::default();
        let mut graph = Graph {
            tasks: std::mem::take(&mut self.tasks),
            first_edge,
            edges,
        };
        match graph.close() {
            None => Ok((graph, self.names)),
            Some((from, to)) => Err(self.cycle(&graph, from, to)),
        }
    }

    fn resolve(&self, told: Told, id: u32) -> Result<u32, TraceError> {
        self.ids.get(id, &self.tasks).ok_or_else(|| {
            let word = if told.fork { "fork" } else { "dep" };
            TraceError::at(
                told.line,
                format!(
                    "`{word} {} {}`: there is no task {id}; declare it or remove this line",
                    told.from, told.to
                ),
            )
        })
    }

    #[cold]
    fn cycle(&self, graph: &Graph, from: u32, to: u32) -> TraceError {
        let (from, to) = (graph.tasks[from as usize].id, graph.tasks[to as usize].id);
        let line = self
            .told()
            .find(|told| (told.from, told.to) == (from, to))
            .map_or(0, |told| told.line);
        let text = cycle_text(from, to);
        TraceError::at(line, text)
    }
}

/// Makes one edge of those between one pair, at the place of the first; it is a fork if one of them is.
///
/// `marks` has [`NONE`] for each task; the array of edges keeps its order.
fn unite(first_edge: &mut [u32], edges: &mut Vec<Edge>, marks: &mut [u32]) {
    let mut kept = 0;
    for from in 0..marks.len() {
        let (begin, end) = (first_edge[from] as usize, first_edge[from + 1] as usize);
        let start = kept;
        first_edge[from] = start as u32;
        for i in begin..end {
            let edge = edges[i];
            let mark = marks[edge.to() as usize] as usize;
            if (start..kept).contains(&mark) && edges[mark].to() == edge.to() {
                edges[mark] = Edge::new(edge.to(), edges[mark].is_fork() || edge.is_fork());
            } else {
                marks[edge.to() as usize] = kept as u32;
                edges[kept] = edge;
                kept += 1;
            }
        }
    }
    first_edge[marks.len()] = kept as u32;
    edges.truncate(kept);
}
