//! Compressed blocks: in a file one after another, each with its lengths and checksum in an index at the end.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::TraceError;
use crate::codec::BLOCK;
use crate::graph::NONE;

/// Where a block is, and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes from the begin of the file.
    pub(crate) offset: u64,
    /// Bytes in the file; the same as `length` when it is stored as it is, less when it is compressed.
    pub(crate) stored: u32,
    /// Bytes once decompressed, at most [`BLOCK`].
    pub(crate) length: u32,
    /// CRC-32 of the bytes in the file.
    pub(crate) crc: u32,
}

/// Compresses blocks and writes them.
#[derive(Debug)]
pub(crate) struct BlockWriter<W> {
    pub(crate) out: W,
    pub(crate) index: Vec<Block>,
    offset: u64,
    packed: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// `offset` bytes are in `out` already.
    pub(crate) fn new(out: W, offset: u64) -> Self {
        let packed = vec![0; get_maximum_output_size(BLOCK)];
        Self {
            out,
            index: Vec::new(),
            offset,
            packed,
        }
    }

    /// The number of the block that will be written next.
    pub(crate) fn next(&self) -> Result<u32, TraceError> {
        u32::try_from(self.index.len())
            .ok()
            .filter(|&next| next != NONE)
            .ok_or_else(|| TraceError::at(0, "more than 2^32-1 blocks of records"))
    }

    /// Writes a block; its number is its place in the index.
    pub(crate) fn put(&mut self, block: &[u8]) -> Result<(), TraceError> {
        debug_assert!(block.len() <= BLOCK);
        let bytes = match compress_into(block, &mut self.packed) {
            Ok(length) if length < block.len() => &self.packed[..length],
            _ => block,
        };
        self.out.write_all(bytes)?;
        let crc = crc32fast::hash(bytes);
        self.index.push(Block {
            offset: self.offset,
            stored: bytes.len() as u32,
            length: block.len() as u32,
            crc,
        });
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// Where blocks are read from.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(Vec<u8>),
    File(File),
}

impl Default for Store {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Store {
    /// Fills `bytes` from `offset` on.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Memory(all) => {
                let from = usize::try_from(offset)
                    .ok()
                    .and_then(|offset| all.get(offset..)?.get(..bytes.len()));
                bytes.copy_from_slice(from.ok_or(std::io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Self::File(file) => file.read_exact_at(bytes, offset),
        }
    }

    /// Reads a block into `out`, followed by `padding` zeros; `packed` is scratch space.
    ///
    /// About 25 microseconds for 64 KiB.
    pub(crate) fn block(
        &self,
        block: Block,
        packed: &mut Vec<u8>,
        out: &mut Vec<u8>,
        padding: usize,
    ) -> Result<(), TraceError> {
        let (stored, length) = (block.stored as usize, block.length as usize);
        debug_assert!(stored <= length && length <= BLOCK);
        packed.resize(stored, 0);
        self.read(block.offset, packed)
            .map_err(|error| bad(block, &error.to_string()))?;
        if crc32fast::hash(packed) != block.crc {
            return Err(bad(block, "its checksum is wrong"));
        }
        out.clear();
        if stored == length {
            out.extend_from_slice(packed);
        } else {
            out.resize(length, 0);
            if decompress_into(packed, out).ok() != Some(length) {
                return Err(bad(block, "it cannot be decompressed"));
            }
        }
        out.resize(length + padding, 0);
        Ok(())
    }
}

/// The block cannot be what was written.
#[cold]
pub(crate) fn bad(block: Block, why: &str) -> TraceError {
    let text = format!(
        "damaged: the block of {} bytes at byte {}: {why}; make or copy the file again",
        block.stored, block.offset
    );
    TraceError::content("", text)
}
