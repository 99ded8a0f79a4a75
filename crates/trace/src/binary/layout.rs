//! What the container of a trace of tasks holds: blocks of records, then blocks of the graph, and three counts.

use std::io::Write;

use crate::TraceError;
use crate::blocks::{Block, BlockWriter, Store};
use crate::codec::{BLOCK, MAX_RECORDS_PER_OP};
use crate::container::{self, Container, refuse};
use crate::graph::{MOST_TASKS, NONE};

const VERSION: u32 = 1;

/// The least bytes of a task in the graph: nine numbers. Each of its dependencies adds at least one byte more.
const LEAST_TASK: u64 = 9;

/// The counts in the footer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) tasks: u64,
    pub(crate) edges: u64,
    pub(crate) records: u64,
}

/// The layout of a binary trace whose graph has not been read yet.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) counts: Counts,
    pub(crate) records: Vec<Block>,
    pub(crate) graph: Vec<Block>,
}

/// Writes the header and returns a writer of the blocks behind it.
pub(crate) fn start_file<W: Write>(out: W) -> Result<BlockWriter<W>, TraceError> {
    container::begin(out, VERSION, BLOCK)
}

/// Writes index and footer behind the blocks, the first `records` of which are blocks of records, and returns the output.
pub(crate) fn finish_file<W: Write>(
    blocks: BlockWriter<W>,
    records: usize,
    counts: Counts,
) -> Result<W, TraceError> {
    let counts = [counts.tasks, counts.edges, counts.records];
    container::finish(blocks, records, &counts)
}

impl Layout {
    /// Reads and returns header, footer and index of a file of `length` bytes. Allocates no more memory than `length`.
    ///
    /// # Errors
    /// The file cannot be read, is incomplete or damaged, or has another version.
    pub(crate) fn read(store: &Store, length: u64) -> Result<Self, TraceError> {
        let version = container::version(store, length)?;
        refuse(
            "a trace of threads, which has no tasks; it was recorded by `tanada record -- PROGRAM`",
            version == crate::threads::VERSION,
        )?;
        let other_version = format!(
            "version {version} of the binary form is not supported, only {VERSION} is; convert it with the program that wrote it"
        );
        refuse(&other_version, version != VERSION)?;
        let check = |blocks: u64, &[tasks, edges, _]: &[u64; 3]| {
            refuse(
                "damaged: its footer counts more than a trace may have",
                tasks > MOST_TASKS as u64 || edges.max(blocks) > u64::from(NONE),
            )
        };
        let file = Container::<3>::read(store, length, BLOCK, check)?;
        let [tasks, edges, count] = file.counts;
        let [records, graph] = file.kinds;
        let bytes = |blocks: &[Block]| -> u64 {
            let lengths = blocks.iter().map(|block| u64::from(block.length));
            lengths.sum()
        };
        // Exact counts are only known once all blocks were read. Counts that the blocks cannot hold are refused here, before memory is
        // allocated for them.
        refuse(
            "damaged: its footer counts more than its blocks can hold",
            tasks * LEAST_TASK + edges > bytes(&graph)
                || count > bytes(&records) * MAX_RECORDS_PER_OP as u64,
        )?;
        let counts = Counts {
            tasks,
            edges,
            records: count,
        };
        Ok(Self {
            counts,
            records,
            graph,
        })
    }
}
