//! *Light*: what a task of 100 ns costs beside the same work in a loop.
//!
//! The work is a wavefront: a cell of a grid is computed from the cells on its left and above its right, by a chain of multiplications of
//! 100 ns. As a loop, row by row, it has no tasks and no threads. As a graph it has a task a cell. The cost of a task is the time of all
//! workers, divided by the tasks, beyond the time of a cell in the loop; sleeping, waking and idling count.

use super::{Stage, refused};
use crate::compare::Error;
use crate::rounds::Engine;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tanada_report::{RunResult, SEQUENTIAL, Verdict};
use tanada_runtime::{Cancel, DEFAULT_POLICY, Instance, NodeId, SGroup, TGroup, TemplateBuilder};
use tanada_workloads::workload::{Done, Output, RunError};
use tanada_workloads::{Prepared, Way};

pub(super) const CLAIM: &str = "light";

/// The length of a task.
const TASK: Duration = Duration::from_nanos(100);

/// Policies that are shown: without groups, with groups, and with one queue.
const POLICIES: [&str; 5] = [DEFAULT_POLICY, "near-steal", "ts-local", "fcfs", "ts"];

const ROUNDS: u32 = 15;

pub(super) const STEPS: u32 = ROUNDS * (1 + POLICIES.len() as u32);

/// The column of the cost.
const COST: &str = "ns beside the loop";

/// A grid of cells.
struct Work {
    columns: usize,
    rows: usize,
    /// Multiplications of a cell.
    steps: u32,
    cells: Vec<AtomicU64>,
}

impl Work {
    fn new(columns: usize, rows: usize, steps: u32) -> Work {
        Work {
            columns,
            rows,
            steps,
            cells: (0..columns * rows).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Computes a cell from those that it waits for.
    fn cell(&self, x: usize, y: usize) {
        let at = y * self.columns + x;
        let left = match x {
            0 => 1,
            _ => self.cells[at - 1].load(Relaxed),
        };
        let above = self
            .above(x, y)
            .map_or(2, |above| self.cells[above].load(Relaxed));
        self.cells[at].store(chain(left ^ above, self.steps), Relaxed);
    }

    /// The cell above the right, or in the last column above; `None` in the first row.
    fn above(&self, x: usize, y: usize) -> Option<usize> {
        let row = y.checked_sub(1)?;
        Some(row * self.columns + (x + 1).min(self.columns - 1))
    }
}

/// A chain of multiplications, each of which waits for the one before.
fn chain(mut value: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        value = black_box(value).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1;
    }
    value
}

/// Returns the steps of a chain that takes [`TASK`] on this host.
fn steps() -> u32 {
    const TRIED: u32 = 20_000;
    let time = || {
        let begun = Instant::now();
        black_box(chain(3, TRIED));
        begun.elapsed().as_secs_f64() / f64::from(TRIED)
    };
    let shortest = (0..20).map(|_| time()).fold(f64::INFINITY, f64::min);
    (TASK.as_secs_f64() / shortest).round().max(1.0) as u32
}

/// The grid as a workload: a row of the report as any other.
struct Wavefront {
    work: Work,
    graph: Instance<'static, Work>,
}

impl Wavefront {
    fn new(columns: usize, rows: usize, steps: u32) -> Result<Wavefront, RunError> {
        let work = Work::new(columns, rows, steps);
        let mut builder = TemplateBuilder::new();
        let mut nodes: Vec<NodeId> = Vec::with_capacity(work.cells.len());
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            let run = move |work: &Work, _| work.cell(x, y);
            let node = builder.task("cell", nodes.len() as u64, run);
            builder.groups(node, TGroup(1 + y as u32 / 2), SGroup(1 + y as u32 % 2));
            if x > 0 {
                builder.edge(nodes[nodes.len() - 1], node);
            }
            if let Some(above) = work.above(x, y) {
                builder.edge(nodes[above], node);
            }
            nodes.push(node);
        }
        Ok(Wavefront {
            work,
            graph: builder.build()?.instance(),
        })
    }
}

impl Prepared for Wavefront {
    fn title(&self) -> String {
        "wavefront".to_owned()
    }

    fn input(&self) -> String {
        format!("{} tasks of {} ns", self.work.cells.len(), TASK.as_nanos())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        match way {
            Way::Tasks(pool) => self.graph.run_with_cancel(pool, &self.work, cancel)?,
            _ => {
                for y in 0..self.work.rows {
                    (0..self.work.columns).for_each(|x| self.work.cell(x, y));
                }
            }
        }
        Ok(())
    }

    fn result(&mut self, output: &mut dyn Output) {
        for cell in &self.work.cells {
            output.write(&cell.load(Relaxed).to_le_bytes());
        }
    }

    fn done(&self) -> Done {
        Done::default()
    }
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<Vec<RunResult>, Error> {
    let (columns, rows) = match stage.options.small {
        true => (24, 16),
        false => (480, 272),
    };
    let wavefront = Wavefront::new(columns, rows, steps()).map_err(refused)?;
    let tasks = wavefront.work.cells.len() as f64;
    let input = wavefront.input();
    let mut engines = vec![(0, Engine::Sequential)];
    for policy in POLICIES {
        engines.push((0, stage.engine(policy)?));
    }
    let mut prepared: [Box<dyn Prepared>; 1] = [Box::new(wavefront)];
    let budget = Duration::from_secs(5);
    let rows = stage.rounds(CLAIM, &mut prepared, engines, ROUNDS, budget)?;
    let facts = prepared[0].facts();
    let mut runs: Vec<RunResult> = rows
        .iter()
        .map(|(_, row)| row.to_result("wavefront", &input, &facts, None))
        .collect();
    let cell = per_task(&runs[0], tasks);
    for run in &mut runs[1..] {
        let cost = per_task(run, tasks) - cell;
        // A cost below the resolution of the clock is none.
        let cost = cost.max(0.0).round() as u64;
        run.extra.insert(COST.to_owned(), cost.into());
    }
    Ok(runs)
}

/// Returns the time of all workers a task, in nanoseconds.
fn per_task(run: &RunResult, tasks: f64) -> f64 {
    let seconds = run.seconds.map_or(0.0, |seconds| seconds.min);
    seconds * 1e9 * f64::from(run.workers) / tasks
}

pub(super) fn verdict(runs: &[RunResult]) -> Verdict {
    let costs: Vec<String> = runs
        .iter()
        .filter(|run| run.policy != SEQUENTIAL)
        .filter_map(|run| Some(format!("{} ns under {}", run.extra.get(COST)?, run.policy)))
        .collect();
    let (default, others) = costs.split_first().expect("each policy has a cost");
    Verdict {
        claim: CLAIM.to_owned(),
        text: format!(
            "Beside a loop without tasks, a task of {} ns costs {default}, the default policy ({}).",
            TASK.as_nanos(),
            others.join(", ")
        ),
        reasons: vec![
            "The work is a wavefront, whose tasks wait for the cell on their left and the one above their right; the loop computes the \
             same cells on one thread. The cost of a task is the time of all workers, divided by the tasks, minus the time of a cell in \
             the loop, each of the shortest round; it has idle time and waking in it."
                .to_owned(),
            "A task that is not much longer than its cost is not worth it: let it do the work of several.".to_owned(),
        ],
        alarm: false,
    }
}

/// Rows whose median repeat took `spread` times the shortest.
#[cfg(test)]
pub(super) fn made_up(spread: f64) -> Vec<RunResult> {
    let timed = |policy: &str, workers, seconds: f64| RunResult {
        seconds: tanada_report::Seconds::of(&[seconds, seconds * spread, seconds * spread]),
        ..RunResult::new("wavefront", "10 tasks", policy, workers)
    };
    let mut runs = vec![timed(SEQUENTIAL, 1, 1e-6), timed("fcfs", 2, 0.7e-6)];
    runs[1].extra.insert(COST.to_owned(), 40.into());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_runtime::Pool;

    #[test]
    fn tasks_and_the_loop_compute_the_same_cells() {
        struct Bytes(Vec<u8>);
        impl Output for Bytes {
            fn write(&mut self, bytes: &[u8]) {
                self.0.extend_from_slice(bytes);
            }
        }
        let mut results = Vec::new();
        let pool = Pool::builder()
            .workers(3)
            .policy("ts")
            .build()
            .expect("a pool");
        for way in [Way::Sequential, Way::Tasks(&pool)] {
            let mut wavefront = Wavefront::new(19, 11, 5).expect("a graph");
            wavefront.run(way, &Cancel::new(), None).expect("it runs");
            let mut bytes = Bytes(Vec::new());
            wavefront.result(&mut bytes);
            results.push(bytes.0);
        }
        assert_eq!(results[0], results[1]);
        assert!(results[0].chunks(8).all(|cell| cell != [0; 8]));
    }

    #[test]
    fn the_cost_is_what_all_workers_take_beyond_the_loop() {
        let runs = made_up(1.0);
        let cost = per_task(&runs[1], 10.0) - per_task(&runs[0], 10.0);
        assert!((cost - 40.0).abs() < 1e-6, "{cost}");
        let text = verdict(&runs).text;
        assert!(text.contains("costs 40 ns under fcfs"), "{text}");
    }
}
