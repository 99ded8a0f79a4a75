//! A trace as plain lists, and its conversion to files.
#![allow(dead_code, reason = "each test uses some of it")]

use proptest::collection::vec;
use proptest::prelude::*;
use tanada_trace::{BinaryWriter, Grouping, Kind, NewTask, Record, Sink, TextWriter, read_text};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TaskModel {
    pub(crate) id: u32,
    pub(crate) t: u32,
    pub(crate) s: u32,
    pub(crate) depth: u32,
    pub(crate) name: Option<String>,
    pub(crate) groupings: Vec<(String, u32, u32)>,
    pub(crate) hints: Vec<(String, String)>,
    pub(crate) records: Vec<Record>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) tasks: Vec<TaskModel>,
    /// From, to (indices) and whether it is a fork.
    pub(crate) edges: Vec<(usize, usize, bool)>,
}

impl Model {
    /// Returns the successors of each task: each pair once, at its first place.
    pub(crate) fn graph(&self) -> Vec<Vec<(usize, bool)>> {
        let mut graph: Vec<Vec<(usize, bool)>> = vec![Vec::new(); self.tasks.len()];
        for &(from, to, fork) in &self.edges {
            match graph[from].iter_mut().find(|edge| edge.0 == to) {
                Some(edge) => edge.1 |= fork,
                None => graph[from].push((to, fork)),
            }
        }
        graph
    }

    pub(crate) fn groupings(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .tasks
            .iter()
            .flat_map(|task| task.groupings.iter().map(|g| g.0.clone()))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..5_u32, 0..5_u32, any::<u32>()]
}

/// Records with and without the patterns that the encoder looks for: strides, loops, repeated sizes.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let kind = prop_oneof![
        Just(Kind::Compute),
        Just(Kind::Fetch),
        Just(Kind::Read),
        Just(Kind::Write)
    ];
    let size = prop_oneof![
        Just(4_u32),
        Just(64),
        1..40_u32,
        1..70_000_u32,
        any::<u32>()
    ];
    let value = prop_oneof![
        0..64_u64,
        0..70_000_u64,
        any::<u64>(),
        Just(u64::MAX),
        0x7f00_0000_0000..0x7f00_0100_0000_u64
    ];
    let stride = prop_oneof![Just(0_i64), -40..40_i64, -70_000..70_000_i64, any::<i64>()];
    let body = vec((kind, size, value, stride), 1..36);
    let piece = (body, 1..60_u64).prop_map(|(body, rounds)| {
        let mut records = Vec::new();
        for round in 0..rounds {
            for &(kind, size, value, stride) in &body {
                let value = value.wrapping_add((stride as u64).wrapping_mul(round));
                let size = if kind == Kind::Compute {
                    0
                } else {
                    size.max(1)
                };
                let record = Record { kind, size, value };
                if record.is_valid() {
                    records.push(record);
                }
            }
        }
        records
    });
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn task() -> impl Strategy<Value = TaskModel> {
    let word = || {
        prop_oneof![
            Just("a".to_owned()),
            Just("luma".to_owned()),
            "[!-\"$-<>-~é]{1,9}"
        ]
    };
    let groupings = proptest::collection::btree_map(word(), (number(), number()), 0..3);
    let hints = proptest::collection::btree_map(word(), "[!-\"$-~]{1,9}", 0..3);
    (
        number(),
        number(),
        number(),
        proptest::option::of(word()),
        groupings,
        hints,
        records(),
    )
        .prop_map(|(t, s, depth, name, groupings, hints, records)| TaskModel {
            id: 0,
            t,
            s,
            depth,
            name,
            groupings: groupings
                .into_iter()
                .map(|(name, (t, s))| (name, t, s))
                .collect(),
            hints: hints.into_iter().collect(),
            records,
        })
}

/// Any valid trace, with ascending IDs or others.
pub(crate) fn model() -> impl Strategy<Value = Model> {
    vec(task(), 0..9)
        .prop_flat_map(|tasks| {
            let count = tasks.len().max(1);
            let ids = prop_oneof![
                Just((0..tasks.len() as u32).collect::<Vec<_>>()),
                proptest::collection::hash_set(any::<u32>(), tasks.len())
                    .prop_map(|ids| ids.into_iter().collect()),
            ];
            (
                Just(tasks),
                ids,
                vec((0..count, 0..count, any::<bool>()), 0..20),
                any::<bool>(),
            )
        })
        .prop_map(|(mut tasks, ids, edges, back)| {
            for (task, id) in tasks.iter_mut().zip(ids) {
                task.id = id;
            }
            // All edges in one direction, so that there is no cycle.
            let edges = edges
                .into_iter()
                .filter(|edge| edge.0 != edge.1 && !tasks.is_empty());
            let edges = edges
                .map(|(a, b, fork)| {
                    if (a < b) == back {
                        (b, a, fork)
                    } else {
                        (a, b, fork)
                    }
                })
                .collect();
            Model { tasks, edges }
        })
}

pub(crate) fn write_task(task: &TaskModel, sink: &mut impl Sink) {
    let groupings: Vec<_> = task
        .groupings
        .iter()
        .map(|(name, t, s)| Grouping { name, t: *t, s: *s })
        .collect();
    let hints: Vec<_> = task
        .hints
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let &TaskModel {
        id, t, s, depth, ..
    } = task;
    sink.task(&NewTask {
        id,
        t,
        s,
        depth,
        name: task.name.as_deref(),
        groupings: &groupings,
        hints: &hints,
    })
    .unwrap();
    for &record in &task.records {
        sink.record(record).unwrap();
    }
}

pub(crate) fn write(model: &Model, sink: &mut impl Sink) {
    for task in &model.tasks {
        write_task(task, sink);
    }
    for &(from, to, fork) in &model.edges {
        sink.edge(model.tasks[from].id, model.tasks[to].id, fork)
            .unwrap();
    }
}

pub(crate) fn to_text(model: &Model) -> Vec<u8> {
    let mut sink = TextWriter::new(Vec::new()).unwrap();
    write(model, &mut sink);
    sink.finish().unwrap()
}

pub(crate) fn to_binary(model: &Model) -> Vec<u8> {
    let mut sink = BinaryWriter::new(Vec::new()).unwrap();
    write(model, &mut sink);
    sink.finish().unwrap()
}

/// Returns the text with dependencies between the tasks, blanks and comments at places that `seed` determines.
pub(crate) fn to_text_edges_anywhere(model: &Model, seed: u64) -> String {
    let mut state = seed;
    let mut random = move |most: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let text = String::from_utf8(to_text(&Model {
        edges: Vec::new(),
        ..model.clone()
    }))
    .unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let edges: Vec<_> = model.edges.iter().collect();
    let mut places: Vec<_> = edges.iter().map(|_| 1 + random(lines.len())).collect();
    places.sort_unstable();
    for (&(from, to, fork), place) in edges.into_iter().zip(places).rev() {
        let word = if fork { "fork" } else { "dep" };
        lines.insert(
            place,
            format!(
                " {word}\t0x{:x}  {} # a comment",
                model.tasks[from].id, model.tasks[to].id
            ),
        );
    }
    let mut out = String::from("\n# before the header\n");
    for line in lines {
        out.push_str(&line);
        match random(4) {
            0 => out.push('#'),
            1 => out.push_str(" \t"),
            2 => out.push_str("\n\n  # \u{fc}"),
            _ => {}
        }
        out.push('\n');
    }
    out
}

/// Returns everything that a text passes to a sink; edges sorted by the task that is waited for.
pub(crate) fn from_text(text: &[u8]) -> (Vec<String>, Vec<(u32, u32, bool)>) {
    #[derive(Default)]
    struct List(Vec<String>, Vec<(u32, u32, bool)>);
    impl Sink for List {
        fn task(&mut self, task: &NewTask<'_>) -> Result<(), tanada_trace::TraceError> {
            self.0.push(format!("{task:?}"));
            Ok(())
        }
        fn record(&mut self, record: Record) -> Result<(), tanada_trace::TraceError> {
            self.0.push(format!("{record:?}"));
            Ok(())
        }
        fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), tanada_trace::TraceError> {
            match self
                .1
                .iter_mut()
                .find(|edge| (edge.0, edge.1) == (from, to))
            {
                Some(edge) => edge.2 |= fork,
                None => self.1.push((from, to, fork)),
            }
            Ok(())
        }
    }
    let mut list = List::default();
    read_text(text, "text", &mut list).unwrap();
    list.1.sort_by_key(|edge| edge.0);
    (list.0, list.1)
}

pub(crate) fn text_to_binary(text: &[u8]) -> Vec<u8> {
    let mut sink = BinaryWriter::new(Vec::new()).unwrap();
    read_text(text, "text", &mut sink).unwrap();
    sink.finish().unwrap()
}

/// Converts through files, as `tanada` does.
pub(crate) fn binary_to_text(binary: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.tnb"), folder.path().join("to.tnt"));
    std::fs::write(&from, binary).unwrap();
    tanada_trace::convert(&from, &to).unwrap();
    std::fs::read(&to).unwrap()
}
