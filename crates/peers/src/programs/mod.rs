//! The programs of the peers: one small program a runtime, with the same bodies.

mod chili;
mod cholesky;
pub(crate) mod ffmpeg;
mod field;
mod fork_union;
pub(crate) mod forks;
mod forte;
#[allow(unsafe_code)]
pub(crate) mod light;
pub(crate) mod lines;
mod plain;
mod rayon;
pub(crate) mod simulated;
mod tanada;
pub(crate) mod threads;
mod tiles;

pub(crate) use chili::Chili;
pub(crate) use cholesky::Steps;
pub(crate) use ffmpeg::Ffmpeg;
pub(crate) use field::{Checksum, Field, Shape, sweep_rows};
pub(crate) use fork_union::ForkUnion;
pub(crate) use forte::Forte;
pub(crate) use plain::{Sequential, Serial};
pub(crate) use rayon::{CholeskyCounters, Rayon, inline, spawned};
pub(crate) use simulated::{Dinero, Valgrind};
pub(crate) use tanada::{Here, Tanada};
pub(crate) use threads::{Published, Threads};
pub(crate) use tiles::Tiles;

use crate::Fallible;
use forks::{Inputs, Kernel};
use md5::Md5;
use std::borrow::Cow;
use std::time::Instant;

/// Macroblocks of the wavefront in a row.
pub(crate) const COLUMNS: u32 = 120;
/// Rows of the wavefront.
pub(crate) const ROWS: u32 = 68;
/// Tasks of one frame.
pub(crate) const TASKS: u32 = COLUMNS * ROWS;

/// How many tasks an inner task of the wavefront waits for: the three of a video decoder (left, above, above right), or two of these
/// without the edge that the others imply. The task above comes before the one above right; in the last column, which has no task above
/// right, it comes before the one on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    Two = 2,
    Three = 3,
}

impl Edges {
    /// Returns the part of `params` that names the graph.
    pub(crate) fn params(self) -> &'static str {
        match self {
            Edges::Two => "edges=2",
            Edges::Three => "edges=3",
        }
    }
}

/// Both graphs.
pub(crate) const EDGES: [Edges; 2] = [Edges::Two, Edges::Three];

/// How tasks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flat {
    /// Their number is known before: a template, a parallel loop.
    Template = 0,
    /// One by one, while others run: a scope. Registered by the thread that measures, if the peer can do that, else by a worker.
    Scope = 1,
}

impl Flat {
    /// Returns the part of `params` that names the way.
    pub(crate) fn params(self) -> &'static str {
        match self {
            Flat::Template => "graph=template",
            Flat::Scope => "graph=scope",
        }
    }
}

/// Both ways.
pub(crate) const FLATS: [Flat; 2] = [Flat::Template, Flat::Scope];

/// Who registers tasks while others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Each task registers the next.
    Chain = 0,
    /// Task n registers the tasks 2n + 1 and 2n + 2.
    Tree = 1,
    /// One task registers all others.
    Worker = 2,
    /// The thread that measures registers all, which is no worker.
    Outside = 3,
}

impl Growth {
    /// Returns the part of `params` that names the shape.
    pub(crate) fn params(self) -> &'static str {
        match self {
            Growth::Chain => "shape=chain",
            Growth::Tree => "shape=tree",
            Growth::Worker => "shape=loop,from=worker",
            Growth::Outside => "shape=loop,from=outside",
        }
    }
}

/// All shapes.
pub(crate) const GROWTHS: [Growth; 4] =
    [Growth::Chain, Growth::Tree, Growth::Worker, Growth::Outside];

/// A runtime in its best setting, as far as the cases use it. A peer offers the functions of the cases that [`crate::peers`] lists for it.
#[expect(unused_variables, reason = "the names of the parameters document them")]
pub(crate) trait Program {
    /// Builds the wavefront with these edges, to be run often.
    fn build(&mut self, edges: Edges) {
        no_part();
    }
    /// Runs what was built, one frame after the other.
    fn run(&mut self, frames: u32) {
        no_part();
    }
    /// Drops what was built, if anything is kept.
    fn discard(&mut self) {}
    /// Prepares for [`Program::dynamic`]: untimed.
    fn prepare_dynamic(&mut self, edges: Edges) {}
    /// Registers the wavefront task by task while it runs, once.
    fn dynamic(&mut self, edges: Edges) {
        no_part();
    }
    /// One parallel region: a task for each worker.
    fn region(&mut self) {
        no_part();
    }
    /// Runs tasks 0 to `tasks`, which wait for nothing, in the way `flat`. Waits for their end.
    fn flat(&mut self, flat: Flat, tasks: u32) {
        no_part();
    }
    /// Runs `tasks` tasks that are registered while they run, in the shape `shape`. Waits for their end.
    fn grow(&mut self, shape: Growth, tasks: u32) {
        no_part();
    }
    /// Prepares for [`Program::cholesky`]: untimed.
    fn prepare_cholesky(&mut self, way: Flat, steps: &Steps) {}
    /// Runs all `steps` of the Cholesky factorisation, [`crate::native::cholesky_step`], in the way `way`. Waits for their end.
    fn cholesky(&mut self, way: Flat, steps: &Steps) {
        no_part();
    }
    /// Runs `sweeps` sweeps over a square of `size` points a side, and returns their time and result.
    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        no_part();
    }
    /// Runs a recursion that forks, and returns its result.
    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        no_part();
    }
    /// Decodes a stream and returns the number of its frames; the bytes of all frames go into `digest`, if there is one.
    fn decode(&mut self, stream: &Stream, digest: Option<&mut Md5>) -> Fallible<Counted> {
        no_part();
    }
    /// Simulates recorded pictures, on each worker, and returns the number of cache lines, or references, that were looked up; or a thread
    /// trace, and returns the number of instructions.
    fn simulate(&mut self, params: &str) -> Fallible<Counted> {
        no_part();
    }
}

/// The time and the result of a stencil.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Swept {
    /// Time of the sweeps, without making and filling the field.
    pub(crate) seconds: f64,
    /// The [`Checksum`] of all points.
    pub(crate) checksum: u64,
}

/// A number of frames, cache lines, references or instructions, and the time that they took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
}

impl Counted {
    /// Calls `count` and returns its result with the time that it took.
    pub(crate) fn timed(count: impl FnOnce() -> Fallible<u64>) -> Fallible<Counted> {
        let start = Instant::now();
        let count = count()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Counted { count, seconds })
    }

    /// Returns the rate.
    pub(crate) fn per_second(self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// A stream to decode: a file; `None`: the demo.
#[derive(Clone, Debug)]
pub(crate) struct Stream(pub(crate) Option<String>);

impl Stream {
    /// Returns the content.
    pub(crate) fn bytes(&self) -> Fallible<Cow<'static, [u8]>> {
        let Some(file) = &self.0 else {
            return Ok(tanada_harness::DEMO.into());
        };
        let bytes = std::fs::read(file);
        Ok(bytes.map_err(|error| format!("{file}: {error}"))?.into())
    }
}

fn no_part() -> ! {
    panic!("the peer takes no part in this case, although the table of peers says so")
}

/// Returns the tasks that task `at` of the wavefront waits for.
pub(crate) fn predecessors(at: u32, edges: Edges) -> impl Iterator<Item = u32> {
    let (column, row) = (at % COLUMNS, at / COLUMNS);
    let left = (column > 0).then(|| at - 1);
    let up = (row > 0 && edges == Edges::Three).then(|| at - COLUMNS);
    let up_right = (row > 0 && column + 1 < COLUMNS).then(|| at - COLUMNS + 1);
    [left, up, up_right].into_iter().flatten()
}

/// Returns the tasks that wait for task `at` of the wavefront.
pub(crate) fn successors(at: u32, edges: Edges) -> impl Iterator<Item = u32> {
    let (column, row) = (at % COLUMNS, at / COLUMNS);
    let right = (column + 1 < COLUMNS).then(|| at + 1);
    let down_left = (row + 1 < ROWS && column > 0).then(|| at + COLUMNS - 1);
    let down = (row + 1 < ROWS && edges == Edges::Three).then(|| at + COLUMNS);
    [right, down_left, down].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_are_the_other_side_of_predecessors() {
        let diagonal = (COLUMNS - 1) * (ROWS - 1);
        let two = (COLUMNS - 1) * ROWS + diagonal;
        for (edges, number) in [
            (Edges::Two, two),
            (Edges::Three, two + COLUMNS * (ROWS - 1)),
        ] {
            let forth = (0..TASKS).flat_map(|at| successors(at, edges).map(move |to| (at, to)));
            let back =
                (0..TASKS).flat_map(|at| predecessors(at, edges).map(move |from| (from, at)));
            let mut forth: Vec<(u32, u32)> = forth.collect();
            let mut back: Vec<(u32, u32)> = back.collect();
            forth.sort_unstable();
            back.sort_unstable();
            assert_eq!(forth, back);
            assert_eq!(forth.len() as u32, number);
        }
    }

    #[test]
    fn two_edges_imply_the_third_and_no_other() {
        // For each task the number of tasks of the row above that come before it: they are the first ones.
        let mut reached = vec![0; TASKS as usize];
        for at in 0..TASKS {
            let (column, row) = (at % COLUMNS, at / COLUMNS);
            let mut above = 0;
            for before in predecessors(at, Edges::Two) {
                above = above.max(match before / COLUMNS == row {
                    true => reached[before as usize],
                    false => before % COLUMNS + 1,
                });
            }
            reached[at as usize] = above;
            let last_above = (column + 2).min(COLUMNS) * u32::from(row > 0);
            assert_eq!(above, last_above, "column {column} of row {row}");
            assert!(predecessors(at, Edges::Two).count() <= 2);
        }
    }
}
