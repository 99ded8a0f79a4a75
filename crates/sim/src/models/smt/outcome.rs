//! The results of a run of logical threads.

use super::caches::CAUSES;
use super::engine::Engine;
use super::library::{WAITS, Wait, Waited};
use super::params::TICKS;
use super::series::Series;
use crate::counts::outcome::Count;
use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use tanada_policy::Order;

/// Lookups and misses of one level and kind of cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// `l1i`, `l1d`, `l2`.
    pub label: String,
    /// Lookups.
    pub accesses: u64,
    /// Lookups that missed.
    pub misses: u64,
}

impl Level {
    /// Returns hits per 100 lookups; 100 without lookups.
    pub fn hit_percent(&self) -> f64 {
        match self.accesses {
            0 => 100.0,
            accesses => (accesses - self.misses) as f64 * 100.0 / accesses as f64,
        }
    }
}

/// The results of one hardware thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HardwareOutcome {
    /// The core that it belongs to.
    pub core: usize,
    /// Instructions that it executed.
    pub instructions: u64,
    /// In the order of [`ThreadsOutcome::levels`].
    pub levels: Vec<Level>,
    /// Cycles by what they were spent on, in the order of [`ThreadsOutcome::causes`]; they sum to the makespan.
    pub cycles: Vec<u64>,
}

/// The results of one logical thread. Times are cycles, rounded down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogicalOutcome {
    /// Instructions that it executed.
    pub instructions: u64,
    /// Accesses to its own stack; 0 if its place is not known.
    pub stack_accesses: u64,
    /// Time in the queue.
    pub queued: u64,
    /// Time for which it waited for locks, barriers, conditions, semaphores and the ends of threads.
    pub blocked: [u64; WAITS],
    /// When it ended.
    pub ended: u64,
}

/// What the governor saw and decided at one call; in a run with more than 32,768 calls at several successive ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodRow {
    /// When it was called, in cycles; of several calls the last one, to which all belongs that is no sum.
    pub cycle: u64,
    /// Calls of this row: a power of two, but in the last row.
    pub calls: u64,
    /// The width of the period that ended; of several ones the first.
    pub width: usize,
    /// Instructions of the period, or of the periods.
    pub instructions: u64,
    /// Lookups of the first data caches.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
    /// Logical threads in the queue.
    pub waiting: usize,
    /// The width from now on.
    pub next_width: usize,
    /// The order from now on.
    pub order: &'static str,
    /// Why.
    pub why: String,
}

/// How long logical threads waited for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectWaits {
    /// `lock`, `barrier`, `condition`, `semaphore` or `join`.
    pub kind: &'static str,
    /// Its number in the trace; of a `join` the thread's.
    pub object: u32,
    /// How often a thread waited.
    pub waits: u64,
    /// The sum of all waits, in cycles.
    pub cycles: u64,
    /// The longest one.
    pub longest: u64,
    /// The same of each thread that waited, by number; `cycles` sum to the whole.
    pub threads: Vec<ThreadWaits>,
}

/// How long one logical thread waited for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadWaits {
    /// Its number.
    pub thread: u32,
    /// How often it waited.
    pub waits: u64,
    /// The sum, in cycles.
    pub cycles: u64,
    /// The longest one.
    pub longest: u64,
}

/// The results of one run: a function of (trace, machine, governor, seed).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadsOutcome {
    /// Name of the governor.
    pub governor: String,
    /// Name of the machine.
    pub machine: String,
    /// Hardware threads.
    pub hardware_threads: usize,
    /// Makespan: when the last logical thread ended.
    pub cycles: u64,
    /// Instructions of all threads.
    pub instructions: u64,
    /// All caches of each level and kind, summed; by level, then instruction, data, unified.
    pub levels: Vec<Level>,
    /// Dirty lines that were evicted, of all caches.
    pub writebacks: u64,
    /// Cycles for which the channels of all cores were held.
    pub channel_busy: u64,
    /// Cycles for which memory was held.
    pub memory_busy: u64,
    /// How often no thread could run, and one that waited was made to go on (RULES.md, rule 4).
    pub forced: u64,
    /// What cycles are spent on: the names of [`HardwareOutcome::cycles`].
    pub causes: Vec<String>,
    /// Names of [`LogicalOutcome::blocked`].
    pub waits: [&'static str; WAITS],
    /// Of each hardware thread.
    pub hardware: Vec<HardwareOutcome>,
    /// Of each logical thread.
    pub logical: Vec<LogicalOutcome>,
    /// The calls of the governor.
    pub periods: Vec<PeriodRow>,
    /// What happened over time, see [`ThreadOptions::observe`](super::ThreadOptions::observe).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Waits by object, those that cost most first; empty unless the run was observed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectWaits>,
}

/// Names of the first causes, in their order.
const WORDS: [&str; CAUSES] = [
    "instructions",
    "issue",
    "ports",
    "channel",
    "memory queue",
    "line on its way",
    "window",
    "sync",
    "switch",
    "parked",
    "idle",
];

impl ThreadsOutcome {
    /// Returns instructions per cycle; 0 of a run without cycles.
    pub fn ipc(&self) -> f64 {
        match self.cycles {
            0 => 0.0,
            cycles => self.instructions as f64 / cycles as f64,
        }
    }

    /// Returns the level with this label.
    pub fn level(&self, label: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.label == label)
    }

    /// Returns the cycles of all hardware threads that were spent on each cause, in the order of `causes`.
    pub fn spent(&self) -> Vec<u64> {
        let sum = |cause: usize| self.hardware.iter().map(|one| one.cycles[cause]).sum();
        (0..self.causes.len()).map(sum).collect()
    }

    /// Returns the share of all hardware threads' time that the causes with the most cycles take, the largest first. `instructions` is
    /// left out.
    pub fn stalls(&self) -> Vec<(&str, f64)> {
        let whole = self.cycles.max(1) as f64 * self.hardware_threads as f64;
        let named = self.causes.iter().map(String::as_str).zip(self.spent());
        let mut shares: Vec<(&str, f64)> = named
            .skip(1)
            .filter(|&(_, cycles)| cycles > 0)
            .map(|(name, cycles)| (name, cycles as f64 / whole))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    /// Returns the calls of the governor that changed its plan, which begins with all hardware threads in the order of their waiting. A
    /// call that lets threads go on (`kept`) changes no order.
    pub fn changes(&self) -> impl Iterator<Item = &PeriodRow> {
        let mut before = (self.hardware_threads, Order::Fifo.as_str());
        self.periods.iter().filter(move |row| {
            let kept = row.order == Order::Kept.as_str();
            let now = (row.next_width, if kept { before.1 } else { row.order });
            std::mem::replace(&mut before, now) != now
        })
    }

    pub(super) fn of(mut engine: Engine<'_>, machine: &Machine, governor: &str) -> ThreadsOutcome {
        let cycles = engine.end.div_ceil(TICKS);
        engine.finish(cycles * TICKS);
        let order = machine.tables_in_order();
        let (end, sums) = (engine.end, engine.sums());
        let series = engine.series.take();
        let series = series.map(|series| series.finish(end, &sums, &order));
        let level = |table: usize, count: Count| Level {
            label: machine.caches[table].label(),
            accesses: count.accesses,
            misses: count.misses,
        };
        let cores = engine.params.cores;
        let hardware = (0..engine.threads()).map(|number| {
            let thread = engine.index(number);
            let counts = engine.caches.counts(thread);
            let causes = engine.caches.causes(thread).iter().copied();
            let misses = engine.caches.misses(thread);
            let in_order = causes.chain(order.iter().map(|&table| misses[table]));
            // Rounded so that the sum is the makespan.
            let (mut ticks, mut before) = (0, 0);
            let cycles = in_order.map(|charged| {
                ticks += charged;
                let cycles = ticks / TICKS - before;
                before = ticks / TICKS;
                cycles
            });
            HardwareOutcome {
                core: number % cores,
                instructions: engine.instructions(thread),
                levels: order
                    .iter()
                    .map(|&table| level(table, counts[table]))
                    .collect(),
                cycles: cycles.collect(),
            }
        });
        let hardware: Vec<HardwareOutcome> = hardware.collect();
        let logical = engine.system.threads.iter().map(|one| LogicalOutcome {
            instructions: one.instructions,
            stack_accesses: one.stack_accesses,
            queued: one.queued / TICKS,
            blocked: one.blocked.map(|ticks| ticks / TICKS),
            ended: one.ended / TICKS,
        });
        let levels = order.iter().enumerate().map(|(place, &table)| {
            let mut sum = Count::default();
            for one in &hardware {
                sum += Count {
                    accesses: one.levels[place].accesses,
                    misses: one.levels[place].misses,
                };
            }
            level(table, sum)
        });
        let misses = order
            .iter()
            .map(|&table| machine.caches[table].label() + " misses");
        ThreadsOutcome {
            governor: governor.to_owned(),
            machine: machine.name.clone(),
            hardware_threads: hardware.len(),
            cycles,
            instructions: hardware.iter().map(|one| one.instructions).sum(),
            levels: levels.collect(),
            writebacks: engine.caches.writebacks(),
            channel_busy: engine.caches.channel_busy / TICKS,
            memory_busy: engine.caches.memory_busy / TICKS,
            forced: engine.system.forced,
            causes: WORDS.map(str::to_owned).into_iter().chain(misses).collect(),
            waits: Wait::WORDS,
            logical: logical.collect(),
            hardware,
            periods: engine.periods.into_rows(),
            series,
            objects: objects(engine.system.waited.unwrap_or_default()),
        }
    }
}

/// Returns waits by object, those that cost most first.
fn objects(waited: BTreeMap<(Wait, u32, u32), Waited>) -> Vec<ObjectWaits> {
    let mut objects: Vec<(Waited, ObjectWaits)> = Vec::new();
    for ((kind, object, thread), waited) in waited {
        let kind = Wait::WORDS[kind as usize];
        let same =
            |(_, last): &&mut (Waited, ObjectWaits)| (last.kind, last.object) == (kind, object);
        if objects.last_mut().filter(same).is_none() {
            let new = ObjectWaits {
                kind,
                object,
                waits: 0,
                cycles: 0,
                longest: 0,
                threads: Vec::new(),
            };
            objects.push((Waited::default(), new));
        }
        let (sum, whole) = objects.last_mut().expect("it has just been pushed");
        sum.add(waited);
        // Rounded so that the sum of the threads is the whole.
        let before = std::mem::replace(&mut whole.cycles, sum.ticks / TICKS);
        (whole.waits, whole.longest) = (sum.waits, sum.longest / TICKS);
        whole.threads.push(ThreadWaits {
            thread,
            waits: waited.waits,
            cycles: whole.cycles - before,
            longest: waited.longest / TICKS,
        });
    }
    let mut objects: Vec<ObjectWaits> = objects.into_iter().map(|(_, whole)| whole).collect();
    objects.sort_by_key(|one| std::cmp::Reverse(one.cycles));
    objects
}
