//! Writing the binary form.

use std::collections::HashMap;
use std::io::Write;

use super::head::{self, LONGEST_NAME, MOST_THREADS, Stream};
use super::{Encoder, Event, Head, InstructionSet, Thread, Totals};
use crate::TraceError;
use crate::blocks::BlockWriter;
use crate::output::OutputFile;

/// Writes a thread trace, one thread after the other in the order of creation.
///
/// Objects may have any numbers; the trace numbers them by first use of a thread in the order of creation. Memory: about 1 MB, and what
/// [`Head`] holds.
#[derive(Debug)]
pub struct ThreadWriter<W: Write> {
    blocks: BlockWriter<W>,
    head: Head,
    objects: HashMap<u64, u32>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    encoder: Encoder,
    thread: Thread,
    first_block: usize,
}

/// A stream that was encoded and compressed elsewhere, without its blocks.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Thread, stack and totals.
    pub thread: Thread,
    /// Names of objects, see [`Encoder::objects`].
    pub objects: Vec<u64>,
    /// Numbers of the threads that [`Encoder::threads`] names.
    pub threads: Vec<u32>,
}

impl<W: Write> ThreadWriter<W> {
    /// Starts a trace of `program`.
    ///
    /// # Errors
    /// `out` cannot be written, or the name is longer than 4096 bytes or has a line end.
    pub fn new(out: W, program: &str, instructions: InstructionSet) -> Result<Self, TraceError> {
        if program.len() > LONGEST_NAME || program.contains(['\n', '\r']) {
            let what = "the program's name has more than 4096 bytes, or a line end";
            return Err(TraceError::at(0, what));
        }
        let head = Head {
            program: program.to_owned(),
            instructions: Some(instructions),
            ..Head::default()
        };
        Ok(Self {
            blocks: head::start(out)?,
            head,
            objects: HashMap::new(),
            current: None,
        })
    }

    /// Declares that the recording is a piece of a program, or that synchronisation could not be recorded.
    pub const fn declare(&mut self, partial: bool, unsynchronised: bool) {
        self.head.partial = partial;
        self.head.unsynchronised = unsynchronised;
    }

    /// Begins the next thread, ends the stream of the one before, and returns the thread's number.
    ///
    /// # Errors
    /// The output cannot be written, `parent` is no earlier thread, or there are too many threads.
    pub fn thread(&mut self, parent: Option<u32>, stack: Option<u64>) -> Result<u32, TraceError> {
        self.end_thread()?;
        let number = self.next(parent)?;
        self.current = Some(Current {
            encoder: Encoder::new(),
            thread: Thread {
                parent,
                stack,
                totals: Totals::default(),
            },
            first_block: self.blocks.index.len(),
        });
        Ok(number)
    }

    fn next(&self, parent: Option<u32>) -> Result<u32, TraceError> {
        let number = self.head.threads.len() as u32;
        if self.head.threads.len() >= MOST_THREADS {
            return Err(TraceError::at(0, "more than 2^20 threads"));
        }
        if parent.is_some_and(|parent| parent >= number) {
            let what = format!("the parent of thread {number} is no earlier thread");
            return Err(TraceError::at(0, what));
        }
        Ok(number)
    }

    /// Writes an event of the current thread.
    ///
    /// # Errors
    /// There is no thread yet, the event cannot follow those before ([`Encoder::event`]), or the output cannot be written.
    pub fn event(&mut self, event: Event) -> Result<(), TraceError> {
        let Some(Current { encoder, .. }) = &mut self.current else {
            return Err(TraceError::at(0, "an event before the first thread"));
        };
        encoder.event(event)?;
        if encoder.is_full() {
            self.blocks.put(encoder.block())?;
            encoder.clear();
        }
        Ok(())
    }

    /// Writes a thread whose stream is `stored`, in blocks that [`pack`](Self::pack) made: the compressed bytes and the length before.
    ///
    /// # Errors
    /// See [`thread`](Self::thread); or a block does not come as it should.
    pub fn stored(
        &mut self,
        stored: &Stored,
        blocks: impl Iterator<Item = std::io::Result<(Vec<u8>, u32)>>,
    ) -> Result<u32, TraceError> {
        self.end_thread()?;
        let number = self.next(stored.thread.parent)?;
        let first_block = self.blocks.index.len();
        for block in blocks {
            let (bytes, length) = block?;
            self.blocks.put_packed(&bytes, length)?;
        }
        self.close(stored, first_block)?;
        Ok(number)
    }

    /// Appends the thread's place and names to the head.
    fn close(&mut self, stored: &Stored, first_block: usize) -> Result<(), TraceError> {
        let mut objects = Vec::with_capacity(stored.objects.len());
        for &name in &stored.objects {
            let next = self.objects.len();
            let number = *self.objects.entry(name).or_insert(next as u32);
            objects.push(number);
        }
        self.head.objects = u32::try_from(self.objects.len())
            .map_err(|_| TraceError::at(0, "more than 2^32-1 objects"))?;
        let stream = Stream {
            blocks: first_block..self.blocks.index.len(),
            objects: self.head.append(objects),
            threads: self.head.append(stored.threads.iter().copied()),
        };
        self.head.streams.push(stream);
        self.head.threads.push(stored.thread);
        Ok(())
    }

    fn end_thread(&mut self) -> Result<(), TraceError> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let encoder = &mut current.encoder;
        encoder.end();
        if !encoder.block().is_empty() {
            self.blocks.put(encoder.block())?;
        }
        current.thread.totals = encoder.totals();
        let stored = Stored {
            thread: current.thread,
            objects: encoder.objects().to_vec(),
            threads: encoder.threads().iter().map(|&name| name as u32).collect(),
        };
        self.close(&stored, current.first_block)
    }

    /// Completes the trace and returns the output.
    ///
    /// # Errors
    /// The output cannot be written, or an event names a thread that does not exist.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.end_thread()?;
        let threads = self.head.threads.len();
        for thread in 0..threads {
            let unknown = self
                .head
                .threads_of(thread)
                .iter()
                .find(|&&other| other as usize >= threads);
            if let Some(other) = unknown {
                let what = format!(
                    "thread {thread} creates or joins thread {other}, and there are {threads}"
                );
                return Err(TraceError::at(0, what));
            }
        }
        head::finish(self.blocks, &self.head)
    }
}

impl ThreadWriter<std::io::BufWriter<OutputFile>> {
    /// Completes the file of [`ThreadTrace::create`](super::ThreadTrace::create) under its name.
    ///
    /// # Errors
    /// See [`finish`](Self::finish); or the file cannot be renamed.
    pub fn keep(self) -> Result<(), TraceError> {
        let out = self.finish()?.into_inner();
        let kept = out
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(OutputFile::keep);
        kept.map_err(TraceError::from)
    }
}

impl ThreadWriter<Vec<u8>> {
    /// Compresses a block of a stream into `packed`, as [`stored`](Self::stored) takes it.
    pub fn pack(block: &[u8], packed: &mut Vec<u8>) {
        packed.resize(lz4_flex::block::get_maximum_output_size(block.len()), 0);
        match lz4_flex::block::compress_into(block, packed) {
            Ok(length) if length < block.len() => packed.truncate(length),
            _ => {
                packed.clear();
                packed.extend_from_slice(block);
            }
        }
    }
}
