//! For fuzz targets and tests only: files with correct checksums and arbitrary content.

use crate::binary::{Counts, finish_file, start_file};
use crate::blocks::BlockWriter;
use crate::codec::BLOCK;

/// Returns a binary trace with `operations` as its blocks of records and `graph` as its task graph, both in blocks of the greatest length.
/// `counts` are the footer's numbers of tasks, dependencies and records.
///
/// # Panics
/// Never: writing to memory cannot fail.
#[must_use]
pub fn file_of(operations: &[u8], graph: &[u8], counts: [u64; 3]) -> Vec<u8> {
    let [tasks, edges, records] = counts;
    let counts = Counts {
        tasks,
        edges,
        records,
    };
    let blocks = start_file(Vec::new()).and_then(|mut blocks: BlockWriter<Vec<u8>>| {
        for block in operations.chunks(BLOCK) {
            blocks.put(block)?;
        }
        let count = blocks.index.len();
        for block in graph.chunks(BLOCK) {
            blocks.put(block)?;
        }
        finish_file(blocks, count, counts)
    });
    blocks.unwrap_or_default()
}

/// Returns a binary thread trace with these bytes as its head and as its blocks of streams.
///
/// # Panics
/// Never: writing to memory cannot fail.
#[must_use]
pub fn threads_of(head: &[u8], streams: &[u8]) -> Vec<u8> {
    crate::threads::file_of(head, streams).unwrap_or_default()
}
