//! The head of the binary form, and what its container holds: blocks of the streams, then blocks of the head, see docs/traces.md.

use std::io::Write;
use std::ops::Range;

use super::{InstructionSet, STREAM_BLOCK, Thread, Totals};
use crate::TraceError;
use crate::blocks::{Block, BlockWriter, Store};
use crate::container::{self, Container, refuse};
use crate::graph::{Varints, put_varint};

/// The version in the header; version 1 is a task graph.
pub(crate) const VERSION: u32 = 2;

/// The most threads of a trace.
pub(super) const MOST_THREADS: usize = 1 << 20;

/// The longest name of a program in bytes.
pub(super) const LONGEST_NAME: usize = 4096;

/// The most bytes of the head, which is held in memory.
const LONGEST_HEAD: u64 = 1 << 30;

const FLAG_PARTIAL: u64 = 1;
const FLAG_UNSYNCHRONISED: u64 = 2;

/// What a thread trace says of itself before any event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The recorded program's name.
    pub program: String,
    /// Its instruction set.
    pub instructions: Option<InstructionSet>,
    /// Whether the recording was stopped before the program ended, or is a piece of one: threads may then wait for what no stream holds.
    pub partial: bool,
    /// Whether synchronisation could not be recorded, so streams hold none although the program may have some.
    pub unsynchronised: bool,
    /// Objects that threads synchronise by; their numbers are below.
    pub objects: u32,
    /// The logical threads, in the order of creation.
    pub threads: Vec<Thread>,
    /// For each thread: where its blocks end in the index, and its names of objects and threads in `names`.
    pub(super) streams: Vec<Stream>,
    /// Objects and threads that streams name.
    pub(super) names: Vec<u32>,
}

/// Where things of one thread are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) blocks: Range<usize>,
    pub(super) objects: Range<usize>,
    pub(super) threads: Range<usize>,
}

impl Head {
    pub(super) fn blocks_of(&self, thread: usize) -> Range<usize> {
        self.streams[thread].blocks.clone()
    }

    pub(super) fn objects_of(&self, thread: usize) -> &[u32] {
        &self.names[self.streams[thread].objects.clone()]
    }

    pub(super) fn threads_of(&self, thread: usize) -> &[u32] {
        &self.names[self.streams[thread].threads.clone()]
    }

    /// Appends one thread's names and returns where they are.
    pub(super) fn append(&mut self, names: impl IntoIterator<Item = u32>) -> Range<usize> {
        let begin = self.names.len();
        self.names.extend(names);
        begin..self.names.len()
    }

    /// Returns the head as bytes.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.program.len() as u64);
        out.extend(self.program.bytes());
        let set = InstructionSet::ALL
            .iter()
            .position(|&set| Some(set) == self.instructions);
        put_varint(&mut out, set.unwrap_or(0) as u64);
        let flag = |flag: u64, set: bool| if set { flag } else { 0 };
        let flags =
            flag(FLAG_PARTIAL, self.partial) | flag(FLAG_UNSYNCHRONISED, self.unsynchronised);
        for number in [flags, self.objects.into(), self.threads.len() as u64] {
            put_varint(&mut out, number);
        }
        for (i, (thread, stream)) in self.threads.iter().zip(&self.streams).enumerate() {
            put_varint(
                &mut out,
                thread.parent.map_or(0, |parent| u64::from(parent) + 1),
            );
            put_varint(&mut out, thread.stack.is_some().into());
            if let Some(stack) = thread.stack {
                put_varint(&mut out, stack);
            }
            let Totals {
                instructions,
                loads,
                stores,
            } = thread.totals;
            for number in [instructions, loads, stores, stream.blocks.len() as u64] {
                put_varint(&mut out, number);
            }
            for names in [self.objects_of(i), self.threads_of(i)] {
                put_varint(&mut out, names.len() as u64);
                for &name in names {
                    put_varint(&mut out, name.into());
                }
            }
        }
        out
    }

    /// Reads a head from `bytes`, whose trace has `blocks` blocks of streams.
    fn decode(bytes: &[u8], blocks: usize) -> Option<Self> {
        let length = {
            let mut numbers = Varints::new(bytes);
            usize::try_from(numbers.varint()?).ok()?
        };
        let begin = bytes.iter().position(|&byte| byte < 0x80)? + 1;
        let name = bytes
            .get(begin..)?
            .get(..length)
            .filter(|_| length <= LONGEST_NAME)?;
        let mut numbers = Varints::new(&bytes[begin + length..]);
        let set = usize::try_from(numbers.varint()?).ok()?;
        let flags = numbers.varint().filter(|&flags| flags <= 3)?;
        let mut head = Self {
            program: String::from_utf8(name.to_vec())
                .ok()
                .filter(|name| !name.contains(['\n', '\r']))?,
            instructions: Some(*InstructionSet::ALL.get(set)?),
            partial: flags & FLAG_PARTIAL != 0,
            unsynchronised: flags & FLAG_UNSYNCHRONISED != 0,
            objects: u32::try_from(numbers.varint()?).ok()?,
            ..Self::default()
        };
        let threads = usize::try_from(numbers.varint()?).ok()?;
        if threads > MOST_THREADS || threads > bytes.len() {
            return None;
        }
        let mut at = 0;
        for thread in 0..threads {
            let parent = match numbers.varint()? {
                0 => None,
                parent => Some(u32::try_from(parent - 1).ok()?),
            };
            if parent.is_some_and(|parent| parent as usize >= thread) {
                return None;
            }
            let stack = match numbers.varint()? {
                0 => None,
                1 => Some(numbers.varint()?),
                _ => return None,
            };
            let totals = Totals {
                instructions: numbers.varint()?,
                loads: numbers.varint()?,
                stores: numbers.varint()?,
            };
            let count = usize::try_from(numbers.varint()?).ok()?;
            let end = at + Some(count).filter(|&count| count <= blocks - at)?;
            let mut names = |limit: u32| -> Option<Range<usize>> {
                let count = usize::try_from(numbers.varint()?).ok()?;
                let begin = head.names.len();
                for _ in 0..count {
                    let name = u32::try_from(numbers.varint()?).ok()?;
                    head.names.push(Some(name).filter(|&name| name < limit)?);
                }
                Some(begin..head.names.len())
            };
            let (objects, others) = (names(head.objects)?, names(threads as u32)?);
            head.threads.push(Thread {
                parent,
                stack,
                totals,
            });
            head.streams.push(Stream {
                blocks: at..end,
                objects,
                threads: others,
            });
            at = end;
        }
        (at == blocks && numbers.varint().is_none()).then_some(head)
    }
}

/// Writes the header and returns a writer of the blocks behind it.
pub(super) fn start<W: Write>(out: W) -> Result<BlockWriter<W>, TraceError> {
    container::begin(out, VERSION, STREAM_BLOCK)
}

/// Writes the head, the index and the footer behind the streams' blocks.
pub(super) fn finish<W: Write>(blocks: BlockWriter<W>, head: &Head) -> Result<W, TraceError> {
    finish_with(blocks, &head.encode())
}

/// Returns a file with any bytes as its head and as its streams.
pub(crate) fn file_of(head: &[u8], streams: &[u8]) -> Result<Vec<u8>, TraceError> {
    let mut blocks = start(Vec::new())?;
    for block in streams.chunks(STREAM_BLOCK) {
        blocks.put(block)?;
    }
    finish_with(blocks, head)
}

fn finish_with<W: Write>(mut blocks: BlockWriter<W>, head: &[u8]) -> Result<W, TraceError> {
    let streams = blocks.index.len();
    for block in head.chunks(STREAM_BLOCK) {
        blocks.put(block)?;
    }
    container::finish(blocks, streams, &[])
}

/// Reads the head and the blocks of the streams of a file of `length` bytes.
///
/// # Errors
/// The file cannot be read, is incomplete or damaged, or is no thread trace.
pub(super) fn read(store: &Store, length: u64) -> Result<(Head, Vec<Block>), TraceError> {
    let version = container::version(store, length)?;
    refuse("a trace of tasks, not of threads", version == 1)?;
    let other = format!(
        "version {version} of the binary form is not supported, only 1 and {VERSION} are; convert it with the program that wrote it"
    );
    refuse(&other, version != VERSION)?;
    let file = Container::<0>::read(store, length, STREAM_BLOCK, |_, []| Ok(()))?;
    let [blocks, heads] = file.kinds;
    let total: u64 = heads.iter().map(|block| u64::from(block.length)).sum();
    refuse(
        "damaged: its head is longer than heads are",
        total > LONGEST_HEAD,
    )?;
    let (mut packed, mut block_bytes, mut head) = (Vec::new(), Vec::new(), Vec::new());
    for block in heads {
        store.block(block, &mut packed, &mut block_bytes, 0)?;
        head.extend_from_slice(&block_bytes);
    }
    let head = Head::decode(&head, blocks.len());
    let head = head.ok_or_else(|| TraceError::at(0, "damaged: its head"))?;
    Ok((head, blocks))
}
