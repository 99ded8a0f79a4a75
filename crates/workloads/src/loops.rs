//! Parallel loops with a barrier behind each: how programs are written today.

use std::ops::Range;
use tanada_runtime::{GraphError, Instance, NodeId, TemplateBuilder};

/// Blocks of a loop a worker: more blocks balance the load, fewer cost less.
pub const BLOCKS_PER_WORKER: usize = 4;

/// Parallel loops, one after the other, each of which begins when all blocks of the one before have ended.
///
/// This is the baseline of every workload: what `#pragma omp parallel for` or `par_iter().for_each()` in a loop would do. A barrier is a
/// task without work, so that no thread sleeps at it: the cost of a barrier is that of the best runtimes.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use tanada_runtime::Pool;
/// use tanada_workloads::loops::Loops;
///
/// let mut loops = Loops::<[AtomicU32; 100]>::new(2);
/// for _ in 0..3 {
///     loops.parallel("add", 100, |numbers, block| {
///         numbers[block].iter().for_each(|number| _ = number.fetch_add(1, Relaxed));
///     });
/// }
/// let numbers = [const { AtomicU32::new(0) }; 100];
/// loops.build()?.run(&Pool::builder().workers(2).build()?, &numbers)?;
/// assert!(numbers.iter().all(|number| number.load(Relaxed) == 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loops<A> {
    builder: TemplateBuilder<'static, A>,
    barrier: Option<NodeId>,
    loops: u64,
    blocks: usize,
}

impl<A: Sync> Loops<A> {
    /// Returns a builder without loops, for `workers` workers.
    pub fn new(workers: u16) -> Self {
        Loops {
            builder: TemplateBuilder::new(),
            barrier: None,
            loops: 0,
            blocks: usize::from(workers.max(1)) * BLOCKS_PER_WORKER,
        }
    }

    /// Adds a loop over `0..count`, cut into blocks of equal size; `body` is called for each block with the argument of the run.
    pub fn parallel(
        &mut self,
        name: &'static str,
        count: usize,
        body: impl Fn(&A, Range<usize>) + Copy + Send + Sync + 'static,
    ) {
        let blocks = self.blocks.min(count);
        let before = self.barrier;
        let number = self.loops << 32;
        let nodes: Vec<NodeId> = (0..blocks)
            .map(|block| {
                let range = count * block / blocks..count * (block + 1) / blocks;
                let run = move |arg: &A, _| body(arg, range.clone());
                let node = self.builder.task(name, number | block as u64, run);
                if let Some(before) = before {
                    self.builder.edge(before, node);
                }
                node
            })
            .collect();
        self.loops += 1;
        // A loop of one block is a barrier itself.
        self.barrier = match nodes[..] {
            [] => before,
            [one] => Some(one),
            _ => {
                let barrier = self.builder.task("barrier", number, |_, _| ());
                for &node in &nodes {
                    self.builder.edge(node, barrier);
                }
                Some(barrier)
            }
        };
    }

    /// Builds and returns the graph of all loops; a run of it takes the argument of the bodies.
    ///
    /// # Errors
    /// Those of a template, none of which loops cause.
    pub fn build(self) -> Result<Instance<'static, A>, GraphError> {
        Ok(self.builder.build()?.instance())
    }
}
