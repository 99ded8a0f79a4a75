//! What both binary forms have in common: a header, blocks of two kinds, an index of all blocks, and a footer of counts (docs/traces.md).

use std::io::Write;

use crate::TraceError;
use crate::blocks::{Block, BlockWriter, Store};

/// The first bytes of the file. Its control bytes are no text, and a conversion of line ends damages them (as in PNG).
pub(crate) const MAGIC: [u8; 8] = *b"\x89TNB\r\n\x1a\n";
const END_MAGIC: [u8; 8] = *b"TNBEND\r\n";
const HEADER: u64 = 16;
const INDEX_ENTRY: usize = 12;
const CUT: &str = "not complete: it ends before its footer; copy it again, or record it again if its recording was stopped";

/// The greatest ratio of LZ4: one compressed byte becomes at most this many bytes.
const MOST_PER_BYTE: u64 = 255;

/// Returns the bytes of a footer with `counts` counts.
const fn footer_bytes(counts: usize) -> usize {
    counts * 8 + 16
}

/// Writes the header and returns a writer of the blocks behind it.
pub(crate) fn begin<W: Write>(
    mut out: W,
    version: u32,
    longest: usize,
) -> Result<BlockWriter<W>, TraceError> {
    out.write_all(&MAGIC)?;
    out.write_all(&version.to_le_bytes())?;
    out.write_all(&[0; 4])?;
    Ok(BlockWriter::new(out, HEADER, longest))
}

/// Writes index and footer behind the blocks and returns the output. The first `first` blocks are of the first kind; `counts` follow the
/// numbers of blocks of the two kinds in the footer.
pub(crate) fn finish<W: Write>(
    mut blocks: BlockWriter<W>,
    first: usize,
    counts: &[u64],
) -> Result<W, TraceError> {
    let mut bytes = Vec::with_capacity(blocks.index.len() * INDEX_ENTRY + footer_bytes(8));
    for block in &blocks.index {
        for number in [block.stored, block.length, block.crc] {
            bytes.extend(number.to_le_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes);
    let footer = bytes.len();
    let kinds = [first as u64, (blocks.index.len() - first) as u64];
    for number in kinds.iter().chain(counts) {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(crc.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes[footer..]).to_le_bytes());
    bytes.extend(END_MAGIC);
    blocks.out.write_all(&bytes)?;
    blocks.out.flush()?;
    Ok(blocks.out)
}

/// Returns an error of the whole file if it is `wrong`.
pub(crate) fn refuse(what: &str, wrong: bool) -> Result<(), TraceError> {
    match wrong {
        true => Err(TraceError::at(0, what)),
        false => Ok(()),
    }
}

/// Reads and returns the version in the header of a file of `length` bytes.
///
/// # Errors
/// The file cannot be read, is too short, or is no binary trace.
pub(crate) fn version(store: &Store, length: u64) -> Result<u32, TraceError> {
    let mut header = [0; HEADER as usize];
    refuse(CUT, length < HEADER)?;
    store.read(0, &mut header)?;
    refuse("not a binary trace", header[..8] != MAGIC)?;
    Ok(number(&header, 8))
}

/// Index and footer of a file.
pub(crate) struct Container<const COUNTS: usize> {
    /// The blocks of the first and of the second kind.
    pub(crate) kinds: [Vec<Block>; 2],
    /// The counts of the footer behind the numbers of blocks.
    pub(crate) counts: [u64; COUNTS],
}

impl<const COUNTS: usize> Container<COUNTS> {
    /// Reads index and footer of a file of `length` bytes whose blocks have at most `longest` bytes, and whose [`version`] is right.
    /// Allocates no more memory than `length`. `check` gets the number of blocks of the first kind and the counts before the index is read.
    ///
    /// # Errors
    /// The file cannot be read, is incomplete or damaged, or the error of `check`.
    pub(crate) fn read(
        store: &Store,
        length: u64,
        longest: usize,
        check: impl FnOnce(u64, &[u64; COUNTS]) -> Result<(), TraceError>,
    ) -> Result<Self, TraceError> {
        let mut header = [0; HEADER as usize];
        store.read(0, &mut header)?;
        refuse("damaged: its header", number(&header, 12) != 0)?;
        let mut footer = vec![0; footer_bytes(2 + COUNTS)];
        refuse(CUT, length < HEADER + footer.len() as u64)?;
        let footer_at = length - footer.len() as u64;
        store.read(footer_at, &mut footer)?;
        let (numbers, end) = footer.split_at(footer.len() - 16);
        refuse(CUT, end[8..] != END_MAGIC)?;
        refuse(
            "damaged: the checksum of its footer is wrong; make or copy the file again",
            crc32fast::hash(&footer[..numbers.len() + 4]) != number(end, 4),
        )?;
        let [first, second] = [0, 8].map(|at| wide(numbers, at));
        let counts = std::array::from_fn(|i| wide(numbers, 16 + 8 * i));
        check(first, &counts)?;
        let bytes = first.checked_add(second);
        let bytes = bytes.and_then(|blocks| blocks.checked_mul(INDEX_ENTRY as u64));
        let begin = bytes.and_then(|bytes| footer_at.checked_sub(bytes));
        let Some(begin) = begin.filter(|&begin| begin >= HEADER) else {
            let what = "damaged: its footer names more blocks than the file has bytes";
            return Err(TraceError::at(0, what));
        };
        let mut index = vec![0; (footer_at - begin) as usize];
        store.read(begin, &mut index)?;
        refuse(
            "damaged: the checksum of its index is wrong; make or copy the file again",
            crc32fast::hash(&index) != number(end, 0),
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
                    || block.length as usize > longest
                    || u64::from(block.length) > u64::from(block.stored) * MOST_PER_BYTE,
            )?;
            offset += u64::from(block.stored);
            blocks.push(block);
        }
        refuse(
            "damaged: its blocks are not as long as its index says",
            offset != begin,
        )?;
        let rest = blocks.split_off(first as usize);
        Ok(Container {
            kinds: [blocks, rest],
            counts,
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
