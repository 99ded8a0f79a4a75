//! Reuse distances (LRU stack distances) of each core, from a trace and the order in which a policy ran its tasks.
//!
//! The distance of a touch is the number of other lines that the same core touched since its last touch of the same line. A cache of n
//! lines of its own that is fully associative and keeps what was used last misses exactly the touches of distance n and more (Mattson,
//! Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", 1970). Since a task runs to its end on one core, the
//! order of a core's tasks is all that counts: no simulated time, no cache of the machine but its line length, and no coherence.
//!
//! Distances are counted by powers of two, and that makes them cheap: a [`Stack`] keeps all lines in a list, the last touched first, and
//! marks the last line of each power of two. A touch at distance d moves the marks of the powers below d by one line each: O(log d), and
//! exact. Memory: 12 bytes a line and its place in a hash table, of one core at a time, and of [`MOST_LINES`] lines at most.

use crate::machine::Machine;
use crate::observer::Run;
use crate::parts::source::lines;
use hashbrown::HashMap;
use tanada_report::{Accesses, Reuse};
use tanada_trace::{Kind, Trace, TraceError};

/// The most lines that one core may touch, instructions and data together: with more, reuse distances would take more than some 200 MB.
pub const MOST_LINES: usize = 4 << 20;

/// No line.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The neighbour that was touched later.
    before: u32,
    after: u32,
    /// [`Reuse::bucket`] of its place in the list.
    bucket: u8,
}

/// All lines that a core has touched, the most recently touched first.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    places: HashMap<u64, u32>,
    nodes: Vec<Node>,
    /// `marks[b]`: the last line of bucket b, of every bucket that is full.
    marks: Vec<u32>,
    first: u32,
    last: u32,
    /// The line of the last touch, which most touches repeat.
    latest: Option<u64>,
}

impl Stack {
    /// Touches a line. Returns the bucket of its distance; `None` if it is the first touch.
    ///
    /// # Panics
    /// If there are 2^32 - 1 lines.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> Option<usize> {
        if self.latest == Some(line) {
            return Some(0);
        }
        self.latest = Some(line);
        match self.places.get(&line) {
            Some(&place) => Some(self.again(place)),
            None => {
                self.new_line(line);
                None
            }
        }
    }

    fn again(&mut self, place: u32) -> usize {
        let Node {
            before,
            after,
            bucket,
        } = self.nodes[place as usize];
        let found = usize::from(bucket);
        if found == 0 {
            return 0;
        }
        // If its bucket is full and ends with it, the bucket now ends with the line before it.
        if self.marks.get(found) == Some(&place) {
            self.marks[found] = before;
        }
        self.shift(found, place);
        self.nodes[before as usize].after = after;
        match after {
            NONE => self.last = before,
            after => self.nodes[after as usize].before = before,
        }
        self.put_first(place);
        found
    }

    fn new_line(&mut self, line: u64) {
        let place = u32::try_from(self.nodes.len()).ok().filter(|&n| n < NONE);
        let place = place.expect("fewer than 2^32 - 1 lines");
        self.places.insert(line, place);
        self.nodes.push(Node {
            before: NONE,
            after: NONE,
            bucket: 0,
        });
        self.shift(self.marks.len(), place);
        if place == 0 {
            (self.first, self.last) = (0, 0);
        } else {
            self.put_first(place);
        }
        // Bucket b ends with line 2^b.
        if self.nodes.len().is_power_of_two() {
            self.marks.push(self.last);
        }
    }

    /// Moves the last line of each bucket below `below` into the next bucket, since `place` goes to the front.
    fn shift(&mut self, below: usize, place: u32) {
        for bucket in 0..below {
            let moved = self.marks[bucket];
            self.nodes[moved as usize].bucket += 1;
            self.marks[bucket] = match bucket {
                0 => place,
                _ => self.nodes[moved as usize].before,
            };
        }
    }

    fn put_first(&mut self, place: u32) {
        self.nodes[self.first as usize].before = place;
        self.nodes[place as usize] = Node {
            before: NONE,
            after: self.first,
            bucket: 0,
        };
        self.first = place;
    }
}

/// Counts of one kind of access.
struct Counts {
    of: Reuse,
    shift: u32,
    stack: Stack,
}

impl Counts {
    /// Returns counts of 0, with the line length of the first level that serves `accesses`; `None` if no cache does.
    fn new(machine: &Machine, accesses: Accesses) -> Option<Counts> {
        let path = machine.path(accesses == Accesses::Instruction);
        let cache = &machine.caches[*path.first()?];
        Some(Counts {
            of: Reuse {
                accesses,
                line: u32::try_from(cache.line).ok()?,
                sampled: 1.0,
                ..Reuse::default()
            },
            shift: cache.shift(),
            stack: Stack::default(),
        })
    }

    /// Counts a touch. Returns whether it is the first of this line.
    fn touch(&mut self, line: u64) -> bool {
        self.of.touches += 1;
        let Some(bucket) = self.stack.touch(line) else {
            self.of.first += 1;
            return true;
        };
        if bucket >= self.of.buckets.len() {
            self.of.buckets.resize(bucket + 1, 0);
        }
        self.of.buckets[bucket] += 1;
        false
    }
}

/// Why no distances are counted any more.
enum Stop {
    /// A core touches more lines than there is room for.
    Full,
    Trace(TraceError),
}

impl From<TraceError> for Stop {
    fn from(error: TraceError) -> Self {
        Stop::Trace(error)
    }
}

/// Returns the reuse distances of instructions and of data, summed over the cores, each only if `machine` has a cache for it. `runs` are
/// those of a simulation of `trace` on `machine`, in order of their ends. Returns `None` if a core touches more than [`MOST_LINES`] lines.
///
/// Costs some 20 to 40 ns a touch.
///
/// # Errors
/// If the trace cannot be read.
pub fn reuse(
    trace: &Trace,
    machine: &Machine,
    runs: &[Run],
) -> Result<Option<Vec<Reuse>>, TraceError> {
    match within(trace, machine, runs, MOST_LINES) {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Full) => Ok(None),
        Err(Stop::Trace(error)) => Err(error),
    }
}

/// As [`reuse`], with room for `most` lines.
fn within(trace: &Trace, machine: &Machine, runs: &[Run], most: usize) -> Result<Vec<Reuse>, Stop> {
    let mut counts = [Accesses::Instruction, Accesses::Data].map(|of| Counts::new(machine, of));
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    for core in 0..machine.cores {
        let mut left = most;
        for counts in counts.iter_mut().flatten() {
            counts.stack = Stack::default();
        }
        for run in runs.iter().filter(|run| run.core == core) {
            reader.for_each(run.task, &mut window, |record| {
                let which = usize::from(record.kind != Kind::Fetch);
                if record.kind != Kind::Compute
                    && let Some(counts) = &mut counts[which]
                {
                    let (first, last) = lines(record, counts.shift);
                    for line in first..=last {
                        let is_new = counts.touch(line);
                        left = left.checked_sub(usize::from(is_new)).ok_or(Stop::Full)?;
                    }
                }
                Ok::<_, Stop>(())
            })?;
        }
    }
    let counts = counts.into_iter().flatten();
    Ok(counts.map(|counts| counts.of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, simulate};
    use proptest::prelude::*;
    use tanada_trace::Groups;

    /// Returns the reuse distance of `line` by the definition.
    fn naive(stack: &mut Vec<u64>, line: u64) -> Option<usize> {
        let found = stack.iter().position(|&other| other == line);
        if let Some(distance) = found {
            stack.remove(distance);
        }
        stack.insert(0, line);
        found.map(|distance| Reuse::bucket(distance as u64))
    }

    proptest! {
        #[test]
        fn buckets_are_those_of_the_definition(lines in 1_u64..200, touches in proptest::collection::vec(0_u64..1 << 20, 0..600)) {
            let (mut stack, mut list) = (Stack::default(), Vec::new());
            for touch in touches {
                // Low numbers often, so that distances of all sizes occur.
                let line = (touch % lines) * (touch >> 10 & 1) + touch % 7;
                prop_assert_eq!(stack.touch(line), naive(&mut list, line));
            }
        }
    }

    #[test]
    fn a_round_of_n_lines_has_distance_n_less_one() {
        for lines in [1_u64, 2, 3, 4, 5, 8, 9, 64, 65, 1000] {
            let mut stack = Stack::default();
            for round in 0..3 {
                for line in 0..lines {
                    let wanted = (round > 0).then(|| Reuse::bucket(lines - 1));
                    assert_eq!(stack.touch(line * 77), wanted, "{lines} lines");
                }
            }
        }
    }

    const MACHINE: &str = "name = \"m\"\nmodel = \"uniform\"\ncores = 2\nhit_cycles = 1\ndispatch_cycles = 0\n\
        coherence = \"none\"\n[[cache]]\nlevel = 1\nkind = \"data\"\nper = \"core\"\nsize = \"1K\"\nways = 16\nline = 64\n\
        replacement = \"lru\"\nmiss_cycles = 10\n";

    /// Cores have stacks of their own, a record touches each line that it overlaps, and fetches meet no cache here. A cache of 16 lines
    /// that is fully associative misses what the distances say.
    #[test]
    fn of_a_simulation_and_as_its_cache_misses() {
        let mut text = String::from("tanada-trace 1\n");
        for task in 0..6 {
            text.push_str(&format!("task {task}\n"));
            for at in 0..(if task % 2 == 0 { 10 } else { 40 }) {
                text.push_str(&format!("r {} 64\ni 0 4\nw {} 1\n", at * 64 + 32, at * 64));
            }
        }
        let trace = Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace");
        let machine = Machine::parse(MACHINE, "m.toml").expect("a sound machine");
        let mut runs = Vec::new();
        let outcome = simulate(&trace, &machine, "fcfs", &Options::default(), &mut runs);
        let outcome = outcome.expect("it runs to its end");
        let all = reuse(&trace, &machine, &runs).expect("it can be read");
        let all = all.expect("they are few lines");
        // A core has touched 41 lines at the end; there is room for all of them or for none.
        assert!(within(&trace, &machine, &runs, 41).is_ok());
        assert!(matches!(
            within(&trace, &machine, &runs, 40),
            Err(Stop::Full)
        ));
        let [data] = &all[..] else {
            panic!("there is one cache: {all:?}")
        };
        let cache = outcome.caches[0].count;
        assert_eq!(
            (data.accesses, data.line, data.touches),
            (Accesses::Data, 64, cache.accesses)
        );
        // Distances of 16 and more are in bucket 5 and behind.
        let misses = data.first + data.buckets[5..].iter().sum::<u64>();
        assert_eq!(misses, cache.misses);
        assert!(data.first < cache.misses && cache.misses < cache.accesses);
        // Tasks of 10 and of 40 reads touch 11 and 41 lines, each from line 0 on: first touches on each core.
        let lines = |core: u16| {
            let of_core = runs.iter().filter(|run| run.core == core);
            of_core
                .map(|run| if run.task % 2 == 0 { 11 } else { 41 })
                .max()
        };
        assert_eq!(Some(data.first), lines(0).zip(lines(1)).map(|(a, b)| a + b));
    }
}
