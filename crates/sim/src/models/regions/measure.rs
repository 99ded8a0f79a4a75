//! What the iterations of a parallel region do, measured from a recording of a team of siblings.

use super::{Region, Work};
use crate::machine::Machine;
use crate::parts::cache::{Cache, Lookup};
use std::collections::VecDeque;
use tanada_trace::TraceError;
use tanada_trace::threads::{Event, Sync, ThreadReader, ThreadTrace};

/// Kinds of the marks around a measured region: `crates/workloads/kernels/openmp/region.h`.
const REGION_BEGIN: u32 = 3;
const REGION_END: u32 = 4;

/// A measured region of the recording: which of the program's regions, by the order in which its first thread enters them, and its marks.
struct Marked {
    ordinal: usize,
    units_per_iteration: u64,
    units: u64,
}

/// Returns what a unit of each marked region does if 1, 2, ... siblings share a core of `machine`, by the number of the region.
///
/// Siblings are the recording's first threads, the members of one team. They take turns: who has executed the fewest instructions of the
/// region goes next, up to its next access; the lowest number of several. All data accesses go through the two caches of one core, which keep
/// their lines from one region to the next. A miss of the second level is *streamed* if one of the last streams that the prefetcher follows had
/// touched the line before or behind it.
///
/// # Errors
/// If the recording is damaged, has fewer threads than a core, or its marks and regions do not fit.
pub fn measure(trace: &ThreadTrace, machine: &Machine) -> Result<Vec<Region>, Unmeasured> {
    let (Some(smt), Some(regions)) = (&machine.smt, &machine.regions) else {
        return Err(Unmeasured::Machine);
    };
    let siblings = u32::from(smt.threads_per_core);
    let marked = marks(trace)?;
    let mut found: Vec<Region> = Vec::new();
    for team in 1..=siblings {
        let mut core = Core::new(machine, regions.prefetch_streams as usize);
        let mut streams = (0..team)
            .map(|thread| Stream::new(trace, thread))
            .collect::<Result<Vec<Stream>, Unmeasured>>()?;
        let mut ordinal = 0;
        for (at, one) in marked.iter().enumerate() {
            while ordinal < one.ordinal {
                play(&mut core, &mut streams)?;
                ordinal += 1;
            }
            core.counts = Counts::default();
            let instructions = play(&mut core, &mut streams)?;
            ordinal += 1;
            // The team of the recording has shared the units out.
            let units = one.units as f64 * f64::from(team) / f64::from(siblings);
            let each = |count: u64| count as f64 / units;
            let counts = &core.counts;
            let work = Work {
                instructions: each(instructions),
                second_level: each(counts.second_level),
                streamed: each(counts.streamed),
                fetched: each(counts.fetched),
                written: each(counts.written),
            };
            if team == 1 {
                found.push(Region {
                    units_per_iteration: one.units_per_iteration,
                    work: Vec::new(),
                });
            }
            found[at].work.push(work);
        }
    }
    Ok(found)
}

/// Why a recording cannot be measured.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Unmeasured {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The machine cannot run regions.
    #[error("the machine has no [regions]")]
    Machine,
    /// The recording is not one of a kernel with marks.
    #[error("{0}")]
    Marks(String),
}

impl std::fmt::Debug for Unmeasured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns the marked regions in the order of their numbers, which must be 0, 1, ...
fn marks(trace: &ThreadTrace) -> Result<Vec<Marked>, Unmeasured> {
    let (mut reader, mut events) = (trace.reader(0)?, Vec::new());
    let (mut marked, mut ordinal, mut open) = (Vec::new(), 0, None);
    let wrong = |text: &str| Unmeasured::Marks(format!("the marks do not fit: {text}"));
    loop {
        reader.fill(&mut events)?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            match *event {
                Event::Sync(Sync::RegionBegin { .. }) => ordinal += 1,
                Event::Sync(Sync::Mark {
                    kind: REGION_BEGIN,
                    a,
                    b,
                }) => {
                    if a != marked.len() as u64 {
                        return Err(wrong("regions are numbered 0, 1, ..."));
                    }
                    open = Some((ordinal, b.max(1)));
                }
                Event::Sync(Sync::Mark {
                    kind: REGION_END,
                    a,
                    b,
                }) => {
                    let (begun, units_per_iteration) =
                        open.take().ok_or_else(|| wrong("an end without a begin"))?;
                    if a != marked.len() as u64 || ordinal != begun + 1 || b == 0 {
                        return Err(wrong("one region lies between two marks"));
                    }
                    marked.push(Marked {
                        ordinal: begun,
                        units_per_iteration,
                        units: b,
                    });
                }
                _ => {}
            }
        }
    }
    match marked.is_empty() {
        true => Err(wrong("there are none")),
        false => Ok(marked),
    }
}

/// One thread's stream, region by region.
struct Stream {
    reader: ThreadReader,
    events: VecDeque<Event>,
    batch: Vec<Event>,
    /// Instructions of the region that is played.
    instructions: u64,
    inside: bool,
}

impl Stream {
    fn new(trace: &ThreadTrace, thread: u32) -> Result<Stream, Unmeasured> {
        Ok(Stream {
            reader: trace.reader(thread)?,
            events: VecDeque::new(),
            batch: Vec::new(),
            instructions: 0,
            inside: false,
        })
    }

    fn next(&mut self) -> Result<Event, Unmeasured> {
        if self.events.is_empty() {
            self.reader.fill(&mut self.batch)?;
            self.events.extend(self.batch.drain(..));
        }
        let end = || Unmeasured::Marks("a thread ends before the last marked region".to_owned());
        self.events.pop_front().ok_or_else(end)
    }

    /// Goes to the begin of the next region.
    fn enter(&mut self) -> Result<(), Unmeasured> {
        while !matches!(self.next()?, Event::Sync(Sync::RegionBegin { .. })) {}
        (self.instructions, self.inside) = (0, true);
        Ok(())
    }

    /// Goes on to the next access of the region and returns it; `None` at the region's end.
    fn access(&mut self) -> Result<Option<(u64, u64, bool)>, Unmeasured> {
        loop {
            match self.next()? {
                Event::Access {
                    after,
                    address,
                    bytes,
                    store,
                } => {
                    self.instructions += u64::from(after);
                    return Ok(Some((address, u64::from(bytes), store)));
                }
                Event::Instructions(count) => self.instructions += u64::from(count),
                Event::Sync(Sync::RegionEnd) => {
                    self.inside = false;
                    return Ok(None);
                }
                _ => {}
            }
        }
    }
}

/// Plays the next region of all streams. Returns the instructions of all of them.
fn play(core: &mut Core, streams: &mut [Stream]) -> Result<u64, Unmeasured> {
    for stream in streams.iter_mut() {
        stream.enter()?;
    }
    loop {
        let inside = streams.iter_mut().filter(|stream| stream.inside);
        let Some(next) = inside.min_by_key(|stream| stream.instructions) else {
            break;
        };
        if let Some((address, bytes, store)) = next.access()? {
            core.touch(address, bytes, store);
        }
    }
    Ok(streams.iter().map(|stream| stream.instructions).sum())
}

#[derive(Default)]
struct Counts {
    second_level: u64,
    streamed: u64,
    fetched: u64,
    written: u64,
}

/// The data caches of one core, and the streams of its prefetcher, the last used first.
struct Core {
    first: Cache,
    second: Cache,
    shift: u32,
    streams: VecDeque<u64>,
    most: usize,
    counts: Counts,
}

impl Core {
    fn new(machine: &Machine, most: usize) -> Core {
        let path = machine.path(false);
        let cache = |at: usize| Cache::new(&machine.caches[path[at]], path[at], 0, machine.seed);
        Core {
            first: cache(0),
            second: cache(1),
            shift: machine.caches[path[0]].shift(),
            streams: VecDeque::new(),
            most,
            counts: Counts::default(),
        }
    }

    fn touch(&mut self, address: u64, bytes: u64, store: bool) {
        let last = address.saturating_add(bytes.max(1) - 1);
        for line in address >> self.shift..=last >> self.shift {
            match self.first.look_up(line, store) {
                Lookup::Hit => continue,
                Lookup::Miss => {}
                Lookup::MissEvicting(victim) => {
                    // A dirty line goes to the second level; if that has lost it, to memory.
                    if !self.second.mark_dirty(victim) {
                        self.counts.written += 1;
                    }
                }
            }
            match self.second.look_up(line, false) {
                Lookup::Hit => {
                    self.counts.second_level += 1;
                    continue;
                }
                Lookup::Miss => {}
                Lookup::MissEvicting(_) => self.counts.written += 1,
            }
            match self.is_streamed(line) {
                true => self.counts.streamed += 1,
                false => self.counts.fetched += 1,
            }
        }
    }

    /// Returns whether the prefetcher has fetched `line`, and lets it follow.
    fn is_streamed(&mut self, line: u64) -> bool {
        let near = |&last: &u64| line.abs_diff(last) == 1;
        let found = self.streams.iter().position(near);
        match found {
            Some(at) => drop(self.streams.remove(at)),
            None => self.streams.truncate(self.most.saturating_sub(1)),
        }
        if self.most > 0 {
            self.streams.push_front(line);
        }
        found.is_some()
    }
}
