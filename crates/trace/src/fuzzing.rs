//! For fuzz targets and tests only: files whose checksums are right and whose content is anything.

use crate::binary::{Counts, finish_file, start_file};
use crate::blocks::BlockWriter;
use crate::codec::BLOCK;

/// A binary trace of these bytes: as blocks of records and as the task graph, in blocks of the longest kind.
///
/// # Panics
/// Never: memory can be written.
#[must_use]
pub fn file_of(records: &[u8], graph: &[u8], tasks: u64, edges: u64) -> Vec<u8> {
    let blocks = start_file(Vec::new()).and_then(|mut blocks: BlockWriter<Vec<u8>>| {
        for block in records.chunks(BLOCK) {
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
                records: 0,
            },
        )
    });
    blocks.unwrap_or_default()
}
