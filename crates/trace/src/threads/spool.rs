//! The spool: what a recorder leaves while it records, and how a trace is made of it.
//!
//! Threads append *chunks*, in the order in which they happen to fill blocks. A chunk holds a block and all that the thread knows of
//! itself, so the chunks of any moment make a trace, also if the recorder was killed in the next one. [`assemble`] orders threads and
//! blocks.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{STREAM_BLOCK, Stored, Thread, ThreadWriter, Totals};
use crate::TraceError;

/// The first word of a chunk.
const MAGIC: u32 = 0x6b68_6331;

/// Words of a chunk before the names: magic, thread, parent + 1, whether there is a stack, length, packed bytes, objects, threads.
const WORDS: usize = 8;

/// Wide words behind these: stack, instructions, loads, stores.
const WIDE: usize = 4;

const HEAD: usize = WORDS * 4 + WIDE * 8;

/// What one thread appends at once.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The thread's number, as the recorder counts.
    pub thread: u32,
    /// The number of the thread that created it.
    pub parent: Option<u32>,
    /// See [`Thread::stack`].
    pub stack: Option<u64>,
    /// All that the thread did, from its begin.
    pub totals: Totals,
    /// Bytes of the block before compression.
    pub length: u32,
    /// Names of objects that are new in this block.
    pub objects: &'a [u64],
    /// Names of threads that are new in this block: their numbers.
    pub threads: &'a [u64],
    /// The block as [`ThreadWriter::pack`] made it.
    pub packed: &'a [u8],
}

/// A spool that is being written, by several threads at once.
///
/// The file is open only while it is written: a recorded program may close descriptors that it did not open, and get the same numbers for
/// files of its own.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    length: AtomicU64,
}

impl Spool {
    /// Creates the file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        File::create(path)?;
        Ok(Self {
            path: path.to_owned(),
            length: AtomicU64::new(0),
        })
    }

    /// Appends a chunk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&self, chunk: &Chunk<'_>) -> io::Result<()> {
        let names = chunk.objects.len() + chunk.threads.len();
        let mut bytes = Vec::with_capacity(HEAD + names * 8 + chunk.packed.len() + 4);
        for word in [
            MAGIC,
            chunk.thread,
            chunk.parent.map_or(0, |parent| parent + 1),
            chunk.stack.is_some().into(),
            chunk.length,
            chunk.packed.len() as u32,
            chunk.objects.len() as u32,
            chunk.threads.len() as u32,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        let Totals {
            instructions,
            loads,
            stores,
        } = chunk.totals;
        let wide = [chunk.stack.unwrap_or(0), instructions, loads, stores];
        for word in wide.iter().chain(chunk.objects).chain(chunk.threads) {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend_from_slice(chunk.packed);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let at = self.length.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.write_all_at(&bytes, at)
    }
}

/// What the spool has of one thread.
#[derive(Debug, Default)]
struct Found {
    parent: Option<u32>,
    stack: Option<u64>,
    totals: Totals,
    objects: Vec<u64>,
    threads: Vec<u64>,
    /// Where the packed bytes of its blocks are, how many, and the bytes before compression.
    blocks: Vec<(u64, u32, u32)>,
}

/// What [`assemble`] made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// Threads of the trace.
    pub threads: usize,
    /// Sums over all threads.
    pub totals: Totals,
    /// Objects that threads synchronise by.
    pub objects: usize,
}

/// Writes the threads of a spool into `writer`, in the order of creation: first come the threads that the first thread created, in their
/// order, then those that the second one created, and so on. So the numbers do not follow from time, although the recorder's may.
///
/// A chunk that is not complete, and what lies behind it, is left out. Memory: 16 bytes a block, and the names.
///
/// # Errors
/// The spool cannot be read, or `writer` not be written.
pub fn assemble<W: Write>(
    spool: &Path,
    writer: &mut ThreadWriter<W>,
) -> Result<Assembled, TraceError> {
    let file = File::open(spool).map_err(|error| TraceError::io(spool, error))?;
    let found = scan(&file).map_err(|error| TraceError::io(spool, error))?;
    let (order, numbers) = order(&found);
    let mut assembled = Assembled::default();
    let mut objects: std::collections::HashSet<u64> = std::collections::HashSet::new();
    let nothing = Found::default();
    for &(number, parent) in &order {
        let thread = found.get(&number).unwrap_or(&nothing);
        let stored = Stored {
            thread: Thread {
                parent: parent.and_then(|parent| numbers.get(&parent).copied()),
                stack: thread.stack,
                totals: thread.totals,
            },
            objects: thread.objects.clone(),
            threads: thread
                .threads
                .iter()
                .map(|&name| numbers[&(name as u32)])
                .collect(),
        };
        assembled.threads += 1;
        assembled.totals += thread.totals;
        objects.extend(&thread.objects);
        let blocks = thread.blocks.iter().map(|&(at, packed, length)| {
            let mut bytes = vec![0; packed as usize];
            file.read_exact_at(&mut bytes, at)?;
            Ok((bytes, length))
        });
        writer.stored(&stored, blocks)?;
    }
    assembled.objects = objects.len();
    Ok(assembled)
}

/// A thread and its parent, as the recorder numbered them.
type Ordered = (u32, Option<u32>);

/// Returns the threads in the order of creation, each with its parent, and the new number of each.
fn order(found: &HashMap<u32, Found>) -> (Vec<Ordered>, HashMap<u32, u32>) {
    let mut order = Vec::new();
    let mut numbers = HashMap::new();
    let mut next = VecDeque::new();
    // Threads that no stream creates, such as the first, stand before those that they create. Their own numbers order them.
    let created: std::collections::HashSet<u32> = found
        .values()
        .flat_map(|thread| &thread.threads)
        .map(|&name| name as u32)
        .collect();
    let mut roots: Vec<u32> = found
        .keys()
        .copied()
        .filter(|number| !created.contains(number))
        .collect();
    roots.sort_unstable();
    next.extend(roots.iter().map(|&root| (root, found[&root].parent)));
    // A thread may be named by one that joins it only: its creator is another one.
    while let Some((number, parent)) = next.pop_front() {
        if numbers.contains_key(&number) {
            continue;
        }
        numbers.insert(number, order.len() as u32);
        order.push((number, parent.filter(|parent| numbers.contains_key(parent))));
        let Some(thread) = found.get(&number) else {
            continue;
        };
        for &name in &thread.threads {
            let other = name as u32;
            let parent = found.get(&other).map_or(Some(number), |other| other.parent);
            if parent == Some(number) {
                next.push_back((other, parent));
            }
        }
    }
    // What is left is named by streams, but its creator is not known.
    let mut rest: Vec<u32> = created
        .iter()
        .copied()
        .filter(|number| !numbers.contains_key(number))
        .collect();
    rest.sort_unstable();
    for number in rest {
        numbers.insert(number, order.len() as u32);
        order.push((number, None));
    }
    (order, numbers)
}

/// Reads the chunks up to the first that is not complete.
fn scan(file: &File) -> io::Result<HashMap<u32, Found>> {
    let end = file.metadata()?.len();
    let mut found: HashMap<u32, Found> = HashMap::new();
    let mut at = 0;
    let mut bytes = Vec::new();
    while at + (HEAD as u64) < end {
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, at)?;
        let word = |i: usize| {
            u32::from_le_bytes([
                head[4 * i],
                head[4 * i + 1],
                head[4 * i + 2],
                head[4 * i + 3],
            ])
        };
        let (length, packed, objects, threads) =
            (word(4), word(5), word(6) as usize, word(7) as usize);
        let most_names = STREAM_BLOCK + 1;
        if word(0) != MAGIC
            || length as usize > STREAM_BLOCK
            || packed > length
            || objects.max(threads) > most_names
        {
            break;
        }
        let before = HEAD + (objects + threads) * 8;
        let whole = before + packed as usize + 4;
        if at + whole as u64 > end {
            break;
        }
        bytes.resize(whole, 0);
        file.read_exact_at(&mut bytes, at)?;
        let wide = |i: usize| -> u64 {
            let word = bytes[WORDS * 4 + 8 * i..].first_chunk();
            word.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let crc = bytes[whole - 4..].first_chunk();
        if crc.map_or(0, |bytes| u32::from_le_bytes(*bytes)) != crc32fast::hash(&bytes[..whole - 4])
        {
            break;
        }
        let thread = found.entry(word(1)).or_default();
        thread.parent = word(2).checked_sub(1);
        thread.stack = (word(3) != 0).then(|| wide(0));
        thread.totals = Totals {
            instructions: wide(1),
            loads: wide(2),
            stores: wide(3),
        };
        thread.objects.extend((WIDE..WIDE + objects).map(&wide));
        thread
            .threads
            .extend((WIDE + objects..WIDE + objects + threads).map(&wide));
        if length > 0 {
            thread.blocks.push((at + before as u64, packed, length));
        }
        at += whole as u64;
    }
    Ok(found)
}
