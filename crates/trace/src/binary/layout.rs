//! Header, index and footer.

use std::io::Write;

use crate::TraceError;
use crate::blocks::{Block, BlockWriter, Store};
use crate::codec::{BLOCK, MAX_RECORDS_PER_OP};
use crate::graph::{MOST_TASKS, NONE};

/// The first bytes of the file. Its control bytes are no text, and a conversion of line ends damages them (as in PNG).
pub(crate) const MAGIC: [u8; 8] = *b"\x89TNB\r\n\x1a\n";

const END_MAGIC: [u8; 8] = *b"TNBEND\r\n";
const VERSION: u32 = 1;
const HEADER: u64 = 16;
const FOOTER: usize = 56;
const INDEX_ENTRY: usize = 12;

/// The greatest ratio of LZ4: one compressed byte becomes at most this many bytes.
const MOST_PER_BYTE: u64 = 255;

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
pub(crate) fn start_file<W: Write>(mut out: W) -> Result<BlockWriter<W>, TraceError> {
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&[0; 4])?;
    Ok(BlockWriter::new(out, HEADER))
}

/// Writes index and footer behind the blocks, the first `records` of which are blocks of records, and returns the output.
pub(crate) fn finish_file<W: Write>(
    mut blocks: BlockWriter<W>,
    records: usize,
    counts: Counts,
) -> Result<W, TraceError> {
    let mut bytes = Vec::with_capacity(blocks.index.len() * INDEX_ENTRY + FOOTER);
    for block in &blocks.index {
        for number in [block.stored, block.length, block.crc] {
            bytes.extend(number.to_le_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes);
    let begin = bytes.len();
    for number in [
        records as u64,
        (blocks.index.len() - records) as u64,
        counts.tasks,
        counts.edges,
        counts.records,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(crc.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes[begin..]).to_le_bytes());
    bytes.extend(END_MAGIC);
    blocks.out.write_all(&bytes)?;
    blocks.out.flush()?;
    Ok(blocks.out)
}

impl Layout {
    /// Reads and returns header, footer and index of a file of `length` bytes. Allocates no more memory than `length`.
    ///
    /// # Errors
    /// The file cannot be read, is incomplete or damaged, or has another version.
    pub(crate) fn read(store: &Store, length: u64) -> Result<Self, TraceError> {
        const CUT: &str = "not complete: it ends before its footer; copy it again, or record it again if its recording was stopped";
        let refuse = |what: &str, wrong: bool| match wrong {
            true => Err(TraceError::at(0, what)),
            false => Ok(()),
        };
        let mut header = [0; HEADER as usize];
        refuse(CUT, length < HEADER)?;
        store.read(0, &mut header)?;
        refuse("not a binary trace", header[..8] != MAGIC)?;
        let version = number(&header, 8);
        refuse(
            "a trace of threads, which has no tasks; it was recorded by `tanada record -- PROGRAM`",
            version == crate::threads::VERSION,
        )?;
        let other_version = format!(
            "version {version} of the binary form is not supported, only {VERSION} is; convert it with the program that wrote it"
        );
        refuse(&other_version, version != VERSION)?;
        refuse("damaged: its header", number(&header, 12) != 0)?;
        refuse(CUT, length < HEADER + FOOTER as u64)?;
        let footer_at = length - FOOTER as u64;
        let mut footer = [0; FOOTER];
        store.read(footer_at, &mut footer)?;
        refuse(CUT, footer[48..] != END_MAGIC)?;
        refuse(
            "damaged: the checksum of its footer is wrong; make or copy the file again",
            crc32fast::hash(&footer[..44]) != number(&footer, 44),
        )?;
        let count = |i: usize| wide(&footer, i * 8);
        let (records, graph) = (count(0), count(1));
        let counts = Counts {
            tasks: count(2),
            edges: count(3),
            records: count(4),
        };
        refuse(
            "damaged: its footer counts more than a trace may have",
            counts.tasks > MOST_TASKS as u64 || counts.edges.max(records) > u64::from(NONE),
        )?;
        let blocks = records.checked_add(graph);
        let bytes = blocks.and_then(|blocks| blocks.checked_mul(INDEX_ENTRY as u64));
        let begin = bytes.and_then(|bytes| footer_at.checked_sub(bytes));
        let Some(begin) = begin.filter(|&begin| begin >= HEADER) else {
            let what = "damaged: its footer names more blocks than the file has bytes";
            return Err(TraceError::at(0, what));
        };
        let mut index = vec![0; (footer_at - begin) as usize];
        store.read(begin, &mut index)?;
        refuse(
            "damaged: the checksum of its index is wrong; make or copy the file again",
            crc32fast::hash(&index) != number(&footer, 40),
        )?;
        let mut offset = HEADER;
        let mut blocks = Vec::with_capacity(index.len() / INDEX_ENTRY);
        for entry in index.chunks_exact(INDEX_ENTRY) {
            let block = Block {
                offset,
                stored: number(entry, 0),
                length: number(entry, 4),
                crc: number(entry, 8),
            };
            refuse(
                "damaged: a block of its index is longer than blocks are",
                block.stored > block.length
                    || block.length as usize > BLOCK
                    || u64::from(block.length) > u64::from(block.stored) * MOST_PER_BYTE,
            )?;
            offset += u64::from(block.stored);
            blocks.push(block);
        }
        refuse(
            "damaged: its blocks are not as long as its index says",
            offset != begin,
        )?;
        let graph = blocks.split_off(records as usize);
        let bytes = |blocks: &[Block]| -> u64 {
            let lengths = blocks.iter().map(|block| u64::from(block.length));
            lengths.sum()
        };
        // Exact counts are only known once all blocks were read. Counts that the blocks cannot hold are refused here, before memory is
        // allocated for them.
        refuse(
            "damaged: its footer counts more than its blocks can hold",
            counts.tasks * LEAST_TASK + counts.edges > bytes(&graph)
                || counts.records > bytes(&blocks) * MAX_RECORDS_PER_OP as u64,
        )?;
        Ok(Self {
            counts,
            records: blocks,
            graph,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[at..].first_chunk();
    word.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk();
    word.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
