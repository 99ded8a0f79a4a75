//! Random traces and machines.
#![allow(dead_code)] // each test uses some of it

pub(crate) mod oracle;

use oracle::{Extra, Numa, Pages};
use proptest::prelude::*;
use std::fmt::Write;
use tanada_laws::Graph;
use tanada_policy::Hints;
use tanada_sim::{Machine, Options, Outcome, Run, simulate};
use tanada_trace::{Groups, Trace};

/// A record: kind letter, address or cycles, size.
pub(crate) type Line = (char, u64, u32);

/// A random trace and the caches for it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// T, S and records of each task.
    pub(crate) tasks: Vec<(u32, u32, Vec<Line>)>,
    /// From, to: to is larger.
    pub(crate) edges: Vec<(usize, usize)>,
    /// Line of the first level.
    pub(crate) line: u64,
    pub(crate) unified: bool,
    pub(crate) replacement: &'static str,
    pub(crate) deep: &'static str,
    pub(crate) invalidate: bool,
    pub(crate) dispatch: u64,
}

/// Records of data within `bytes` bytes.
fn any_line(bytes: u64) -> impl Strategy<Value = Line> {
    let most = (bytes / 16) as u32;
    prop_oneof![
        1 => (0..30u64).prop_map(|n| ('x', n, 0)),
        1 => (0..bytes / 2, 1..most).prop_map(|(a, s)| ('i', 0x8000 + a, s)),
        2 => (0..bytes, 1..most).prop_map(|(a, s)| ('r', a, s)),
        1 => (0..bytes, 1..most).prop_map(|(a, s)| ('w', a, s)),
    ]
}

/// Much or little sharing.
pub(crate) fn any_shape() -> impl Strategy<Value = Shape> {
    prop_oneof![any_shape_in(512, 30), any_shape_in(4096, 8)]
}

fn any_shape_in(bytes: u64, records: usize) -> impl Strategy<Value = Shape> {
    let task = (
        0..4u32,
        0..4u32,
        prop::collection::vec(any_line(bytes), 0..records),
    );
    let tasks = prop::collection::vec(task, 1..30);
    let edges = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        0..40,
    );
    let caches = (
        prop::sample::select(vec![16u64, 64]),
        any::<bool>(),
        prop::sample::select(vec!["fifo", "lru", "random"]),
        prop::sample::select(vec!["none", "machine", "cluster", "three"]),
        any::<bool>(),
        0..20u64,
    );
    (tasks, edges, caches).prop_map(|(tasks, pairs, caches)| {
        let (line, unified, replacement, deep, invalidate, dispatch) = caches;
        let mut edges: Vec<_> = pairs
            .into_iter()
            .map(|(a, b)| (a.index(tasks.len()), b.index(tasks.len())))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a.min(b), a.max(b)))
            .collect();
        edges.sort_unstable();
        edges.dedup();
        Shape {
            tasks,
            edges,
            line,
            unified,
            replacement,
            deep,
            invalidate,
            dispatch,
        }
    })
}

impl Shape {
    /// Returns the graph for the models of policies.
    pub(crate) fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (index, (t, s, records)) in self.tasks.iter().enumerate() {
            // A task's name is its code.
            let hints = Hints::groups(*t, *s).with_code(1 + index as u64 % 3);
            // What policies that look at the graph know of a task: its least time.
            let lines = |address: u64, size: u32| {
                (address + u64::from(size) - 1) / self.line - address / self.line + 1
            };
            let least = records.iter().map(|&(kind, value, size)| match kind {
                'x' => value,
                _ => lines(value, size),
            });
            graph.add(hints, self.dispatch + least.sum::<u64>());
        }
        let edges = self.edges.iter();
        edges.for_each(|&(from, to)| graph.edge(from, to));
        graph
    }

    /// The trace as text.
    pub(crate) fn text(&self) -> String {
        let mut text = "tanada-trace 1\n".to_owned();
        for (index, (t, s, lines)) in self.tasks.iter().enumerate() {
            writeln!(text, "task {} T={t} S={s} name=n{}", index + 1, index % 3).unwrap();
            for &(kind, value, size) in lines {
                match kind {
                    'x' => writeln!(text, "x {value}").unwrap(),
                    _ => writeln!(text, "{kind} {value} {size}").unwrap(),
                }
            }
        }
        for (from, to) in &self.edges {
            writeln!(text, "dep {} {}", from + 1, to + 1).unwrap();
        }
        text
    }
}

/// The same trace with a record a line of `line` bytes.
pub(crate) fn split(text: &str, line: u64) -> String {
    let mut out = String::new();
    for row in text.lines() {
        let words: Vec<&str> = row.split(' ').collect();
        match words[..] {
            [kind @ ("i" | "r" | "w"), address, size] => {
                let (address, size): (u64, u64) = (address.parse().unwrap(), size.parse().unwrap());
                for number in address / line..=(address + size - 1) / line {
                    writeln!(out, "{kind} {} 1", number * line).unwrap();
                }
            }
            _ => writeln!(out, "{row}").unwrap(),
        }
    }
    out
}

fn cache(words: &str) -> String {
    let w: Vec<&str> = words.split(' ').collect();
    format!(
        "[[cache]]\nlevel = {}\nkind = \"{}\"\nper = \"{}\"\n\
         size = {}\nways = {}\nline = {}\nreplacement = \"{}\"\nmiss_cycles = {}\n",
        w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
    )
}

/// What takes time, with each thing absent as often as not.
pub(crate) fn any_extra() -> impl Strategy<Value = Extra> {
    let some = |most: u64| prop_oneof![2 => Just(0), 3 => 1..=most];
    let stations = (1..3u64, some(9), 1..4u64, some(9), some(9), some(20));
    let memory = (
        1..3u64,
        some(60),
        some(60),
        1..4u64,
        [some(9), some(9), some(9)],
        any::<bool>(),
    );
    let calls = (
        some(40),
        some(9),
        some(60),
        0..3u64,
        prop_oneof![Just(0), 1..200u64],
        some(30),
    );
    let stream = (any::<bool>(), 0..6u64, 0..50u64, 1..90u64, 1..300u64);
    let streams = prop::collection::vec(stream, 0..3);
    let parts = (stations, memory, calls, streams, any_numa());
    parts.prop_map(|(stations, memory, calls, streams, numa)| {
        let (ports, port, banks, bank, bus, invalidate) = stations;
        let (channels, fill, write, memory_banks, mut rows, open) = memory;
        let (call, resolve, pool, pool_lines, code, wake) = calls;
        rows.sort_unstable();
        Extra {
            invalidate,
            ports,
            port,
            banks,
            bank,
            bus,
            channels,
            fill,
            write,
            memory_banks,
            rows: if open { rows } else { [0, rows[1], 0] },
            open,
            call,
            resolve,
            pool,
            pool_lines,
            code,
            wake,
            streams,
            numa,
        }
    })
}

/// One memory as often as several: in a tree of links, with some more.
fn any_numa() -> impl Strategy<Value = Option<Numa>> {
    let some = |most: u64| prop_oneof![2 => Just(0), 3 => 1..=most];
    let index = any::<prop::sample::Index>;
    let numa = (
        1..4usize,
        0..5usize,
        prop::collection::vec((index(), index()), 16),
        (0..3u8, index()),
        some(50),
        some(30),
    );
    prop::option::of(numa).prop_map(|numa| {
        let (cores_per_socket, more, picks, (pages, socket), link, transfer) = numa?;
        // Of up to eleven cores some may be on a socket that has enough of them.
        let sockets = 4 + more;
        let mut links: Vec<(usize, usize)> = (1..sockets)
            .map(|high| (picks[high % 16].0.index(high), high))
            .collect();
        for (one, other) in picks.iter().take(more) {
            let (one, other) = (one.index(sockets), other.index(sockets));
            let link = (one.min(other), one.max(other));
            if one != other && !links.contains(&link) {
                links.push(link);
            }
        }
        let pages = match pages {
            0 => Pages::First,
            1 => Pages::Interleave,
            _ => Pages::Socket(socket.index(sockets)),
        };
        Some(Numa {
            cores_per_socket,
            sockets,
            pages,
            links,
            link,
            transfer,
        })
    })
}

/// The machine of a shape with contention.
pub(crate) fn contended_text(cores: u16, shape: &Shape, extra: &Extra) -> String {
    let plain = machine_text("contended", cores, shape);
    let (front, behind) = extra.text(cores, shape.invalidate);
    let mut text = String::new();
    let (mut shared, mut top) = (false, true);
    for row in plain.lines() {
        if row == "[[cache]]" {
            if std::mem::take(&mut top) {
                text += &front;
            }
            if std::mem::take(&mut shared) {
                text += &extra.shared_text();
            }
        }
        shared |= row == "per = \"machine\"" || row == "per = \"cluster\"";
        text += row;
        text.push('\n');
    }
    if shared {
        text += &extra.shared_text();
    }
    text + &behind
}

/// The machine of a shape, without contention.
pub(crate) fn machine_text(model: &str, cores: u16, shape: &Shape) -> String {
    let coherence = if shape.invalidate {
        "invalidate"
    } else {
        "none"
    };
    let mut text = format!(
        "name = \"m\"\nmodel = \"{model}\"\ncores = {cores}\nhit_cycles = 1\ndispatch_cycles = {}\ncoherence = \"{coherence}\"\n\
         cores_per_cluster = 2\n",
        shape.dispatch
    );
    let (line, replacement) = (shape.line, shape.replacement);
    let size = line * 8;
    if shape.unified {
        text += &cache(&format!("1 unified core {size} 2 {line} {replacement} 7"));
    } else {
        text += &cache(&format!(
            "1 instruction core {size} 2 {line} {replacement} 5"
        ));
        text += &cache(&format!("1 data core {size} 4 {line} {replacement} 9"));
    }
    match shape.deep {
        "machine" => text += &cache("2 unified machine 2048 4 128 lru 40"),
        "cluster" => text += &cache("2 unified cluster 2048 4 64 lru 40"),
        "three" => {
            text += &cache("2 unified core 1024 2 64 lru 11");
            text += &cache("3 unified machine 4096 4 128 lru 50");
        }
        _ => {}
    }
    text
}

pub(crate) fn trace(text: &str) -> Trace {
    Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace")
}

pub(crate) fn run(
    machine: &Machine,
    policy: &str,
    seed: u64,
    trace: &Trace,
) -> (Outcome, Vec<Run>) {
    let mut runs = Vec::new();
    let options = Options {
        seed: Some(seed),
        ..Options::default()
    };
    let outcome =
        simulate(trace, machine, policy, &options, &mut runs).expect("it runs to its end");
    (outcome, runs)
}
