//! What tests beside other simulators share: one cache in a few lines that owe nothing to the crate's, and records in a row.
#![allow(dead_code, reason = "each test uses its part")]

use tanada_trace::{Record, Trace};

/// The machine of the tools, but for its caches: one core, on which nothing costs anything but a touch.
pub(crate) const CORE: &str = r#"
name = "tool"
model = "uniform"
cores = 1
hit_cycles = 1
dispatch_cycles = 0
coherence = "none"
"#;

/// One level: per set the lines, the next victim first, and whether each is dirty.
#[derive(Clone)]
pub(crate) struct Level {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    lru: bool,
    pub(crate) accesses: u64,
    pub(crate) misses: u64,
    pub(crate) dirty_victims: u64,
}

impl Level {
    fn new(size: u64, ways: usize, line: u64, lru: bool) -> Self {
        let sets = size / line / ways as u64;
        Level {
            sets: vec![Vec::new(); sets as usize],
            ways,
            lru,
            accesses: 0,
            misses: 0,
            dirty_victims: 0,
        }
    }

    pub(crate) fn lru(size: u64, ways: usize, line: u64) -> Self {
        Self::new(size, ways, line, true)
    }

    pub(crate) fn fifo(size: u64, ways: usize, line: u64) -> Self {
        Self::new(size, ways, line, false)
    }

    /// Reads the line with this number; returns whether it missed.
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        self.access(line, false)
    }

    /// Reads or writes the line with this number; returns whether it missed.
    pub(crate) fn access(&mut self, line: u64, write: bool) -> bool {
        self.accesses += 1;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        if let Some(at) = set.iter().position(|(there, _)| *there == line) {
            set[at].1 |= write;
            if self.lru {
                let used = set.remove(at);
                set.push(used);
            }
            return false;
        }
        self.misses += 1;
        if set.len() == self.ways {
            self.dirty_victims += u64::from(set.remove(0).1);
        }
        set.push((line, write));
        true
    }

    /// Lines that are dirty now.
    pub(crate) fn dirty(&self) -> u64 {
        self.sets.iter().flatten().filter(|line| line.1).count() as u64
    }
}

/// All records of a trace, task by task.
pub(crate) fn all_records(trace: &Trace) -> Vec<Record> {
    let mut reader = trace.reader().expect("a reader");
    let (mut all, mut window) = (Vec::new(), Vec::new());
    for task in 0..trace.len() as u32 {
        let mut cursor = reader.start(task);
        loop {
            reader
                .fill(&mut cursor, &mut window)
                .expect("sound records");
            if window.is_empty() {
                break;
            }
            all.append(&mut window);
        }
    }
    all
}
