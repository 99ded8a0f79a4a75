//! For fuzz targets and tests only: files whose checksums are right and whose content is anything.

use crate::binary::{Counts, finish_file, start_file};
use crate::blocks::BlockWriter;
use crate::codec::BLOCK;

/// A binary trace of these bytes: as blocks of records and as the task graph, in blocks of the longest kind. `counts`: what its footer says
/// of tasks, dependencies and records.
///
/// # Panics
/// Never: memory can be written.
#[must_use]
pub fn file_of(operations: &[u8], graph: &[u8], counts: [u64; 3]) -> Vec<u8> {
    let [tasks, edges, records] = counts;
    let blocks = start_file(Vec::new()).and_then(|mut blocks: BlockWriter<Vec<u8>>| {
        for block in operations.chunks(BLOCK) {
            blocks.put(block)?;
        }
        let count = blocks.index.len();
        for block in graph.chunks(BLOCK) {
            blocks.put(block)?;
        }
        finish_file(
            blocks,
            count,
            Counts {
                tasks,
                edges,
                records,
            },
        )
    });
    blocks.unwrap_or_default()
}
