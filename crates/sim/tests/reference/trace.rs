//! The text of a trace.

use std::collections::BTreeMap;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Compute(u64),
    Fetch(u64, u64),
    Read(u64, u64),
    Write(u64, u64),
}

/// A task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub id: u32,
    pub t: u32,
    pub s: u32,
    pub depth: u32,
    /// `h:code=`, else `name=`.
    pub code: Option<String>,
    pub records: Vec<Record>,
    /// Tasks that wait for it, by their places in [`Trace::tasks`], in the order of declaration.
    pub successors: Vec<usize>,
}

/// Which groups count.
#[derive(Clone, Debug)]
pub(crate) enum Groups {
    Plain,
    Named(String),
    Zero,
}

/// The tasks in the order of declaration.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub tasks: Vec<Task>,
}

fn number(word: &str) -> u64 {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("a hex number"),
        None => word.parse().expect("a decimal number"),
    }
}

fn group(word: Option<&String>) -> u32 {
    word.map_or(0, |word| number(word) as u32)
}

impl Trace {
    /// Reads a trace that is right; panics on any other.
    pub(crate) fn parse(text: &str, groups: &Groups) -> Trace {
        let mut lines = text.lines().map(|line| {
            let line = line.split('#').next().expect("at least one part");
            line.split([' ', '\t'])
                .filter(|word| !word.is_empty())
                .collect::<Vec<&str>>()
        });
        let header = lines.find(|words| !words.is_empty()).expect("a header");
        assert_eq!(header, ["tanada-trace", "1"]);
        let mut tasks: Vec<Task> = Vec::new();
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for words in lines.filter(|words| !words.is_empty()) {
            match words[0] {
                "task" => tasks.push(task(&words, groups)),
                "dep" | "fork" => {
                    let edge = (number(words[1]) as u32, number(words[2]) as u32);
                    if !edges.contains(&edge) {
                        edges.push(edge);
                    }
                }
                kind => {
                    let value = number(words[1]);
                    let size = words.get(2).map_or(0, |word| number(word));
                    let records = &mut tasks.last_mut().expect("a task before records").records;
                    records.push(match kind {
                        "x" => Record::Compute(value),
                        "i" => Record::Fetch(value, size),
                        "r" => Record::Read(value, size),
                        "w" => Record::Write(value, size),
                        _ => panic!("unknown word {kind}"),
                    });
                }
            }
        }
        for (a, b) in edges {
            let place = |id| {
                tasks
                    .iter()
                    .position(|task| task.id == id)
                    .expect("a known ID")
            };
            let (a, b) = (place(a), place(b));
            tasks[a].successors.push(b);
        }
        Trace { tasks }
    }

    /// How many each task waits for.
    pub(crate) fn dependency_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.tasks.len()];
        for task in &self.tasks {
            task.successors.iter().for_each(|&to| counts[to] += 1);
        }
        counts
    }
}

fn task(words: &[&str], groups: &Groups) -> Task {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for word in &words[2..] {
        let (key, value) = word.split_once('=').expect("key=value");
        values.insert(key.to_owned(), value.to_owned());
    }
    let (t, s) = match groups {
        Groups::Plain => (group(values.get("T")), group(values.get("S"))),
        Groups::Zero => (0, 0),
        Groups::Named(name) => (
            group(values.get(&format!("T:{name}"))),
            group(values.get(&format!("S:{name}"))),
        ),
    };
    Task {
        id: number(words[1]) as u32,
        t,
        s,
        depth: group(values.get("depth")),
        code: code(&values),
        records: Vec::new(),
        successors: Vec::new(),
    }
}

fn code(values: &BTreeMap<String, String>) -> Option<String> {
    let number: Option<u64> = values.get("h:code").and_then(|word| word.parse().ok());
    match number {
        None | Some(0) => values.get("name").map(|name| format!("the name {name}")),
        Some(number) => Some(format!("the number {number}")),
    }
}
