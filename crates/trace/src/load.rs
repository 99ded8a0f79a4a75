//! Loading a file as a [`Trace`].

use std::io::{Read, Seek};

use tempfile::{SpooledData, spooled_tempfile};

use crate::binary::{BinaryWriter, Entry, GraphReader, Layout};
use crate::blocks::Store;
use crate::graph::{Graph, IdMap, NONE, Words, cycle_text, declared_twice};
use crate::{Groups, Trace, TraceError, read_text};

/// The greatest size in bytes at which the binary form of a text stays in memory; above it, a temporary file is used.
const IN_MEMORY: usize = 16 << 20;

/// Converts a text trace to the binary form, loads that and returns it.
pub(crate) fn text(from: impl Read, name: &str, groups: &Groups) -> Result<Trace, TraceError> {
    let of_file = |error: TraceError| error.of_file(name);
    let mut writer = BinaryWriter::new(spooled_tempfile(IN_MEMORY)).map_err(of_file)?;
    read_text(from, name, &mut writer)?;
    let mut file = writer.finish().map_err(of_file)?;
    let length = file.stream_position();
    let length = length.map_err(|error| of_file(error.into()))?;
    let store = match file.into_inner() {
        SpooledData::InMemory(bytes) => Store::Memory(bytes.into_inner()),
        SpooledData::OnDisk(file) => Store::File(file),
    };
    binary(store, length, name, groups)
}

/// Loads and returns the graph of a binary trace of `length` bytes.
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

/// Reads and returns the graph of a binary trace.
fn graph(store: &Store, layout: &Layout, groups: &Groups) -> Result<Trace, TraceError> {
    let mut reader = GraphReader::new(store, layout)?;
    let mut entry = Entry::default();
    let (tasks, edges) = (layout.counts.tasks as usize, layout.counts.edges as usize);
    let mut first_edge = Vec::with_capacity(tasks + 1);
    first_edge.push(0);
    let (mut tasks, mut edges) = (Vec::with_capacity(tasks), Vec::with_capacity(edges));
    let mut trace = Trace::default();
    let mut ids = IdMap::default();
    let (mut names, mut groupings) = (Subset::new(&reader.words), Subset::new(&reader.words));
    let index = |wanted: &String| reader.words.list.iter().position(|word| word == wanted);
    let wanted = match groups {
        Groups::Named(wanted) => index(wanted).map(|index| index as u32),
        _ => None,
    };
    while reader.next(&mut entry)? {
        let mut task = entry.task;
        if !ids.insert(task.id, &tasks) {
            return Err(declared_twice(task.id, 0));
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
                let is_wanted = |grouping: &&(u32, _, _)| Some(grouping.0) == wanted;
                let found = entry.groupings.iter().find(is_wanted);
                (task.t, task.s) = found.map_or((0, 0), |&(_, t, s)| (t, s));
            }
        }
        let hint = |&(name, value): &(u32, u32)| (tasks.len() as u32, name, value);
        trace.hints.extend(entry.hints.iter().map(hint));
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
        trace.hint_words = reader.words.list;
    }
    Ok(trace)
}

/// Those of a file's words that serve one purpose: names of tasks, of groupings, of hints.
struct Subset {
    /// By word of the file, its index in the subset.
    index: Vec<u32>,
    words: Vec<u32>,
}

impl Subset {
    fn new(words: &Words) -> Self {
        Self {
            index: vec![NONE; words.list.len()],
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
        let text = |&word: &u32| words.list[word as usize].clone();
        self.words.iter().map(text).collect()
    }
}
