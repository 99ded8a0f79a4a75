//! Writing the binary form.

use std::io::Write;

use super::layout::{Counts, finish_file, start_file};
use crate::blocks::BlockWriter;
use crate::codec::{BLOCK, Encoder};
use crate::graph::{Builder, Graph, NONE, Varints, put_varint, put_zigzag};
use crate::text::check_record;
use crate::{NewTask, Record, Sink, Task, TraceError};

/// Writes a binary trace: records as they are added, the graph at the end.
///
/// Equal content has equal bytes. About 40 ns a record. Memory: some 50 bytes for a task and a dependency together, and for each further
/// grouping and hint as many bytes as it takes in the file.
#[derive(Debug)]
pub struct BinaryWriter<W: Write> {
    builder: Builder,
    encoder: Encoder<W>,
    /// Further groupings and hints of each task, encoded as in the file.
    further: Vec<u8>,
    records: u64,
}

impl<W: Write> BinaryWriter<W> {
    /// Writes the header and returns the writer.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(out: W) -> Result<Self, TraceError> {
        let encoder = Encoder::new(start_file(out)?);
        Ok(Self {
            builder: Builder::default(),
            encoder,
            further: Vec::new(),
            records: 0,
        })
    }

    /// Writes the graph, the index and the footer, and returns the writer that was passed to [`new`](Self::new).
    ///
    /// # Errors
    /// A dependency names a task that does not exist, tasks wait for each other in a cycle, or the file cannot be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.end_task()?;
        let (graph, words) = self.builder.finish()?;
        let blocks = self.encoder.finish()?;
        let record_blocks = blocks.index.len();
        let mut out = GraphWriter {
            blocks,
            block: Vec::with_capacity(2 * BLOCK),
        };
        let list = words.list;
        put_varint(&mut out.block, list.len() as u64);
        for word in &list {
            put_varint(&mut out.block, word.len() as u64);
            out.block.extend(word.as_bytes());
            out.flush(BLOCK)?;
        }
        out.tasks(&graph, &self.further)?;
        out.flush(1)?;
        let counts = Counts {
            tasks: graph.tasks.len() as u64,
            edges: graph.edges.len() as u64,
            records: self.records,
        };
        finish_file(out.blocks, record_blocks, counts)
    }

    fn end_task(&mut self) -> Result<(), TraceError> {
        if let Some(start) = self.encoder.end_task()?
            && let Some(task) = self.builder.tasks.last_mut()
        {
            (task.block, task.offset) = start;
        }
        Ok(())
    }
}

impl<W: Write> Sink for BinaryWriter<W> {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        self.end_task()?;
        self.builder.task(task)?;
        let names = &mut self.builder.names;
        let mut put = |number: u32| put_varint(&mut self.further, number.into());
        put(task.groupings.len() as u32);
        for grouping in task.groupings {
            put(names.index(grouping.name));
            put(grouping.t);
            put(grouping.s);
        }
        put(task.hints.len() as u32);
        for (name, value) in task.hints {
            put(names.index(name));
            put(names.index(value));
        }
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        check_record(record, !self.builder.tasks.is_empty(), self.builder.line)?;
        self.records += 1;
        self.encoder.push(record)
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        self.builder.edge(from, to, fork)
    }

    fn at_line(&mut self, line: u64) {
        self.builder.line = line;
    }
}

/// Splits one stream of bytes into blocks.
struct GraphWriter<W> {
    blocks: BlockWriter<W>,
    block: Vec<u8>,
}

impl<W: Write> GraphWriter<W> {
    /// Writes all full blocks; with `least` 1 also the rest.
    fn flush(&mut self, least: usize) -> Result<(), TraceError> {
        let mut done = 0;
        while self.block.len() - done >= least {
            let end = self.block.len().min(done + BLOCK);
            self.blocks.put(&self.block[done..end])?;
            done = end;
        }
        self.block.drain(..done);
        Ok(())
    }

    fn tasks(&mut self, graph: &Graph, further: &[u8]) -> Result<(), TraceError> {
        let mut further = Varints::new(further);
        let mut last = Task::default();
        // Position behind the records of the last task that had some.
        let (mut block, mut offset) = (0, 0);
        for (i, task) in graph.tasks.iter().enumerate() {
            let out = &mut self.block;
            put_zigzag(out, i64::from(task.id) - i64::from(last.id) - 1);
            put_zigzag(out, i64::from(task.t) - i64::from(last.t));
            put_zigzag(out, i64::from(task.s) - i64::from(last.s));
            put_zigzag(out, i64::from(task.depth) - i64::from(last.depth));
            put_varint(out, u64::from(task.name.wrapping_add(1)));
            if task.block == NONE {
                put_varint(out, 0);
            } else {
                if task.block != block {
                    offset = 0;
                }
                put_varint(out, u64::from(task.block - block) + 1);
                put_varint(out, u64::from(task.offset - offset));
                (block, offset) = (task.block, task.offset);
            }
            copy_further(&mut further, out);
            let edges =
                &graph.edges[graph.first_edge[i] as usize..graph.first_edge[i + 1] as usize];
            put_varint(&mut self.block, edges.len() as u64);
            for edge in edges {
                put_zigzag(
                    &mut self.block,
                    (i64::from(edge.to()) - i64::from(i as u32)) << 1 | i64::from(edge.is_fork()),
                );
                self.flush(BLOCK)?;
            }
            self.flush(BLOCK)?;
            last = *task;
        }
        Ok(())
    }
}

/// Copies the groupings and hints of one task from `from` to `out`.
fn copy_further(from: &mut Varints<'_>, out: &mut Vec<u8>) {
    for numbers in [3, 2] {
        let count = from.varint().unwrap_or(0);
        put_varint(out, count);
        for _ in 0..count * numbers {
            put_varint(out, from.varint().unwrap_or(0));
        }
    }
}
