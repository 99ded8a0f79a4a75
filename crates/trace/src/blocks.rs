//! Compressed blocks, one behind the other in a file. The index at the end of the file has the lengths and the checksum of each.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::TraceError;
use crate::graph::NONE;

/// Position, lengths and checksum of a block, as the index has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes from the start of the file.
    pub(crate) offset: u64,
    /// Bytes in the file: `length` if the block is stored uncompressed, else less.
    pub(crate) stored: u32,
    /// Bytes after decompression, at most the writer's `longest`.
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
    /// Returns a writer of blocks of up to `longest` bytes to `out`, into which `offset` bytes were written before.
    pub(crate) fn new(out: W, offset: u64, longest: usize) -> Self {
        let packed = vec![0; get_maximum_output_size(longest)];
        Self {
            out,
            index: Vec::new(),
            offset,
            packed,
        }
    }

    /// Returns the number of the block that will be written next.
    ///
    /// # Errors
    /// The number does not fit: there are 2^32-1 blocks.
    pub(crate) fn next_number(&self) -> Result<u32, TraceError> {
        let next = u32::try_from(self.index.len()).ok();
        let next = next.filter(|&next| next != NONE);
        next.ok_or_else(|| TraceError::at(0, "more than 2^32-1 blocks of records"))
    }

    /// Compresses and writes `block`; its number is its place in the index.
    pub(crate) fn put(&mut self, block: &[u8]) -> Result<(), TraceError> {
        debug_assert!(get_maximum_output_size(block.len()) <= self.packed.len());
        let bytes = match compress_into(block, &mut self.packed) {
            Ok(length) if length < block.len() => &self.packed[..length],
            _ => block,
        };
        let (length, crc) = (block.len() as u32, crc32fast::hash(bytes));
        self.out.write_all(bytes)?;
        self.index.push(Block {
            offset: self.offset,
            stored: bytes.len() as u32,
            length,
            crc,
        });
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes a block that is compressed already, from `length` bytes; it is not compressed if it has as many.
    pub(crate) fn put_packed(&mut self, bytes: &[u8], length: u32) -> Result<(), TraceError> {
        self.out.write_all(bytes)?;
        self.index.push(Block {
            offset: self.offset,
            stored: bytes.len() as u32,
            length,
            crc: crc32fast::hash(bytes),
        });
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// The bytes of a binary trace.
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
    /// Fills `bytes` with those from `offset` on.
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

    /// Reads `block` into `out` and appends `padding` zeros; `packed` is scratch space. About 25 microseconds for 64 KiB.
    ///
    /// # Errors
    /// Returns an error if the block cannot be read, its checksum is wrong, or it cannot be decompressed to its length.
    pub(crate) fn block(
        &self,
        block: Block,
        packed: &mut Vec<u8>,
        out: &mut Vec<u8>,
        padding: usize,
    ) -> Result<(), TraceError> {
        let (stored, length) = (block.stored as usize, block.length as usize);
        debug_assert!(stored <= length);
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

/// Returns the error of a damaged block.
#[cold]
pub(crate) fn bad(block: Block, why: &str) -> TraceError {
    let text = format!(
        "damaged: the block of {} bytes at byte {}: {why}; make or copy the file again",
        block.stored, block.offset
    );
    TraceError::at(0, text)
}
