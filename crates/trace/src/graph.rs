//! The task graph: [`Builder`] collects tasks and edges in any order, [`Graph`] has the tasks in declaration order and all successors in
//! one array.

mod cycle;
mod ids;
mod varint;
mod words;

pub(crate) use ids::IdMap;
pub(crate) use varint::{Varints, put_varint, put_zigzag, unzigzag, varint_from, zigzag};
pub(crate) use words::Words;

use crate::sink::check_task;
use crate::{Edge, NewTask, Task, TraceError};

/// No index: stands for "no name", "no block" and the like. No array here is long enough to have this index.
pub(crate) const NONE: u32 = u32::MAX;

/// The greatest number of tasks: 31 bits, because an [`Edge`] uses one bit of 32 for itself.
pub(crate) const MOST_TASKS: usize = (1 << 31) - 1;

/// A finished graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) tasks: Vec<Task>,
    /// By task, the index of its first successor in `edges`; one entry more than there are tasks.
    pub(crate) first_edge: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

impl Graph {
    /// Merges edges of the same pair, counts dependencies and looks for a cycle. Returns an edge (from, to) of a cycle, by index; `None` if
    /// there is none.
    ///
    /// Linear in tasks and edges; needs 8 bytes a task of temporary memory.
    pub(crate) fn close(&mut self) -> Option<(u32, u32)> {
        let mut marks = vec![NONE; self.tasks.len()];
        unite(&mut self.first_edge, &mut self.edges, &mut marks);
        for edge in &self.edges {
            self.tasks[edge.to() as usize].waits += 1;
        }
        cycle::find(&self.tasks, &self.first_edge, &self.edges, marks)
    }
}

/// Returns the error of an ID that a task before has already.
#[cold]
pub(crate) fn declared_twice(id: u32, line: u64) -> TraceError {
    let text = format!("task {id} is declared twice; give every task an ID of its own");
    TraceError::at(line, text)
}

/// Returns a description of a cycle of which `from` -> `to` is an edge; both are IDs.
#[cold]
pub(crate) fn cycle_text(from: u32, to: u32) -> String {
    format!(
        "tasks wait for each other in a cycle: task {to} waits for task {from}, which waits for task {to} in turn; remove a dependency"
    )
}

/// Collects tasks and edges in any order; takes 36 bytes a task and about 5 an edge.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) tasks: Vec<Task>,
    pub(crate) names: Words,
    ids: IdMap,
    /// The edges in the order in which they were added, as varints of differences: most edges are short and on consecutive lines.
    log: Vec<u8>,
    edges: usize,
    last: LoggedEdge,
    /// The line that is being read; 0 if there is none.
    pub(crate) line: u64,
}

/// One edge of the log.
#[derive(Clone, Copy, Debug, Default)]
struct LoggedEdge {
    from: u32,
    to: u32,
    fork: bool,
    line: u64,
}

impl Builder {
    /// Adds a task. Amortised constant time.
    pub(crate) fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        check_task(task, self.line)?;
        if self.tasks.len() >= MOST_TASKS {
            let text = format!("more than {MOST_TASKS} tasks");
            return Err(TraceError::at(self.line, text));
        }
        if !self.ids.insert(task.id, &self.tasks) {
            return Err(declared_twice(task.id, self.line));
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

    /// Adds an edge between two IDs, which need not be declared yet.
    pub(crate) fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        if self.edges >= NONE as usize {
            let text = format!("more than {NONE} dependencies");
            return Err(TraceError::at(self.line, text));
        }
        put_zigzag(&mut self.log, i64::from(from) - i64::from(self.last.from));
        let distance = zigzag(i64::from(to) - i64::from(from));
        put_varint(&mut self.log, distance << 1 | u64::from(fork));
        put_varint(&mut self.log, self.line.saturating_sub(self.last.line));
        self.last = LoggedEdge {
            from,
            to,
            fork,
            line: self.line.max(self.last.line),
        };
        self.edges += 1;
        Ok(())
    }

    fn logged_edges(&self) -> impl Iterator<Item = LoggedEdge> + '_ {
        let mut log = Varints::new(&self.log);
        let mut edge = LoggedEdge::default();
        std::iter::from_fn(move || {
            let from = i64::from(edge.from) + log.zigzag()?;
            let to = log.varint()?;
            edge = LoggedEdge {
                from: from as u32,
                to: (from + unzigzag(to >> 1)) as u32,
                fork: to & 1 != 0,
                line: edge.line + log.varint()?,
            };
            Some(edge)
        })
    }

    /// Resolves the IDs of edges, counts dependencies, checks that every task can run, and returns the graph.
    ///
    /// Linear in tasks and edges; needs 8 bytes a task and 4 an edge of temporary memory.
    pub(crate) fn finish(mut self) -> Result<(Graph, Words), TraceError> {
        let count = self.tasks.len();
        let mut first_edge = vec![0_u32; count + 1];
        for edge in self.logged_edges() {
            let (from, to) = (self.resolve(edge, edge.from)?, self.resolve(edge, edge.to)?);
            if from == to {
                let id = edge.from;
                let text = format!("a cycle: task {id} waits for itself; remove this line");
                return Err(TraceError::at(edge.line, text));
            }
            first_edge[from as usize + 1] += 1;
        }
        for i in 0..count {
            first_edge[i + 1] += first_edge[i];
        }
        let mut edges = vec![Edge::new(0, false); self.edges];
        for edge in self.logged_edges() {
            let (from, to) = (self.resolve(edge, edge.from)?, self.resolve(edge, edge.to)?);
            let free = &mut first_edge[from as usize];
            edges[*free as usize] = Edge::new(to, edge.fork);
            *free += 1;
        }
        // `first_edge[i]` has advanced to the end of task i's edges, which is where those of task i + 1 begin.
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

    fn resolve(&self, edge: LoggedEdge, id: u32) -> Result<u32, TraceError> {
        self.ids.get(id, &self.tasks).ok_or_else(|| {
            let word = if edge.fork { "fork" } else { "dep" };
            let edge_text = format!("`{word} {} {}`", edge.from, edge.to);
            let what = format!("there is no task {id}; declare it or remove this line");
            TraceError::at(edge.line, format!("{edge_text}: {what}"))
        })
    }

    #[cold]
    fn cycle(&self, graph: &Graph, from: u32, to: u32) -> TraceError {
        let (from, to) = (graph.tasks[from as usize].id, graph.tasks[to as usize].id);
        let mut edges = self.logged_edges();
        let edge = edges.find(|edge| (edge.from, edge.to) == (from, to));
        TraceError::at(edge.map_or(0, |edge| edge.line), cycle_text(from, to))
    }
}

/// Merges the edges of each pair into one at the place of the first, which is a fork if one of them is.
///
/// `marks` must hold [`NONE`] for each task. The edges keep their order.
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
