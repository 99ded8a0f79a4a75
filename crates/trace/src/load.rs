//! Makes a [`Trace`] of a file.

use std::io::Read;

use tempfile::{SpooledData, SpooledTempFile, spooled_tempfile};

use crate::binary::{Entry, GraphReader, Layout};
use crate::blocks::{BlockWriter, Store};
use crate::codec::Encoder;
use crate::graph::{Builder, Graph, IdMap, NONE, Words, cycle_text};
use crate::text::check_record;
use crate::{Groups, NewTask, Record, Sink, Trace, TraceError, read_text};

/// Compressed records beyond this size go to a temporary file.
const IN_MEMORY: usize = 16 << 20;

/// Loads a text trace.
pub(crate) fn text(from: impl Read, name: &str, groups: &Groups) -> Result<Trace, TraceError> {
    let mut loader = Loader::new(groups);
    read_text(from, name, &mut loader)?;
    loader.finish(name).map_err(|error| error.of_file(name))
}

/// Loads the graph of a binary trace of `length` bytes.
pub(crate) fn binary(
    store: Store,
    length: u64,
    name: &str,
    groups: &Groups,
) -> Result<Trace, TraceError> {
    let of_file = |error: TraceError| error.of_file(name);
    let layout = Layout::read(&store, length).map_err(of_file)?;
    let mut trace = graph(&store, &layout, groups).map_err(of_file)?;
    name.clone_into(&mut trace.name);
    (trace.records, trace.blocks, trace.store) = (layout.counts.records, layout.records, store);
    check_groups(trace, groups)
}

fn check_groups(trace: Trace, groups: &Groups) -> Result<Trace, TraceError> {
    match groups {
        Groups::Named(wanted) if !trace.groupings.contains(wanted) => Err(TraceError::NoGrouping {
            file: trace.name,
            name: wanted.clone(),
            there: trace.groupings,
        }),
        _ => Ok(trace),
    }
}

/// Reads the graph of a binary trace.
fn graph(store: &Store, layout: &Layout, groups: &Groups) -> Result<Trace, TraceError> {
    let mut reader = GraphReader::new(store, layout)?;
    let mut entry = Entry::default();
    let (mut tasks, mut first_edge, mut edges) = (Vec::new(), vec![0], Vec::new());
    let mut trace = Trace::default();
    let mut ids = IdMap::default();
    let (mut names, mut groupings) = (Subset::new(&reader.words), Subset::new(&reader.words));
    let wanted = match groups {
        Groups::Named(wanted) => reader
            .words
            .list()
            .iter()
            .position(|word| word == wanted)
            .map(|word| word as u32),
        _ => None,
    };
    while reader.next(&mut entry)? {
        let mut task = entry.task;
        if !ids.insert(task.id, &tasks) {
            return Err(TraceError::at(
                0,
                format!(
                    "task {} is declared twice; give every task an ID of its own",
                    task.id
                ),
            ));
        }
        if task.name != NONE {
            task.name = names.index(task.name);
        }
        for grouping in &entry.groupings {
            groupings.index(grouping.0);
        }
        match groups {
            Groups::Plain => {}
            Groups::None => (task.t, task.s) = (0, 0),
            Groups::Named(_) => {
                let found = entry
                    .groupings
                    .iter()
                    .find(|grouping| Some(grouping.0) == wanted);
                (task.t, task.s) = found.map_or((0, 0), |&(_, t, s)| (t, s));
            }
        }
        trace.hints.extend(
            entry
                .hints
                .iter()
                .map(|&(name, value)| (tasks.len() as u32, name, value)),
        );
        tasks.push(task);
        edges.extend_from_slice(&entry.edges);
        first_edge.push(edges.len() as u32);
    }
    drop(ids);
    trace.graph = Graph {
        tasks,
        first_edge,
        edges,
    };
    if let Some((from, to)) = trace.graph.close() {
        let id = |index: u32| trace.graph.tasks[index as usize].id;
        return Err(TraceError::at(0, cycle_text(id(from), id(to))));
    }
    trace.names = names.list(&reader.words);
    trace.groupings = groupings.list(&reader.words);
    if !trace.hints.is_empty() {
        trace.hint_words = reader.words.into_list();
    }
    Ok(trace)
}

/// Those words that are used for one thing.
struct Subset {
    /// By word, the index here.
    index: Vec<u32>,
    words: Vec<u32>,
}

impl Subset {
    fn new(words: &Words) -> Self {
        Self {
            index: vec![NONE; words.list().len()],
            words: Vec::new(),
        }
    }

    fn index(&mut self, word: u32) -> u32 {
        let index = &mut self.index[word as usize];
        if *index == NONE {
            *index = self.words.len() as u32;
            self.words.push(word);
        }
        *index
    }

    fn list(&self, words: &Words) -> Vec<String> {
        self.words
            .iter()
            .map(|&word| words.list()[word as usize].clone())
            .collect()
    }
}

/// Makes a trace of what it is told.
#[derive(Debug)]
struct Loader {
    groups: Groups,
    builder: Builder,
    groupings: Words,
    hints: Vec<(u32, u32, u32)>,
    hint_words: Words,
    encoder: Encoder<SpooledTempFile>,
    records: u64,
}

impl Loader {
    fn new(groups: &Groups) -> Self {
        Self {
            groups: groups.clone(),
            builder: Builder::default(),
            groupings: Words::default(),
            hints: Vec::new(),
            hint_words: Words::default(),
            encoder: Encoder::new(BlockWriter::new(spooled_tempfile(IN_MEMORY), 0)),
            records: 0,
        }
    }

    fn end_task(&mut self) -> Result<(), TraceError> {
        if let Some(start) = self.encoder.end_task()?
            && let Some(task) = self.builder.tasks.last_mut()
        {
            (task.block, task.offset) = start;
        }
        Ok(())
    }

    fn finish(mut self, name: &str) -> Result<Trace, TraceError> {
        self.end_task()?;
        let blocks = self.encoder.finish()?;
        let (graph, names) = self.builder.finish()?;
        let store = match blocks.out.into_inner() {
            SpooledData::InMemory(bytes) => Store::Memory(bytes.into_inner()),
            SpooledData::OnDisk(file) => Store::File(file),
        };
        let trace = Trace {
            name: name.to_owned(),
            graph,
            names: names.into_list(),
            groupings: self.groupings.into_list(),
            hints: self.hints,
            hint_words: self.hint_words.into_list(),
            records: self.records,
            blocks: blocks.index,
            store,
        };
        check_groups(trace, &self.groups)
    }
}

impl Sink for Loader {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        self.end_task()?;
        let (t, s) = match &self.groups {
            Groups::Plain => (task.t, task.s),
            Groups::None => (0, 0),
            Groups::Named(wanted) => task
                .groupings
                .iter()
                .find(|g| g.name == wanted)
                .map_or((0, 0), |g| (g.t, g.s)),
        };
        let index = self.builder.tasks.len() as u32;
        self.builder.task(&NewTask { t, s, ..*task })?;
        for grouping in task.groupings {
            self.groupings.index(grouping.name);
        }
        for (name, value) in task.hints {
            self.hints.push((
                index,
                self.hint_words.index(name),
                self.hint_words.index(value),
            ));
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
