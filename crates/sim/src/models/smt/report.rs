//! Conversion of runs of logical threads into the schema of reports.

use super::outcome::ThreadsOutcome;
use crate::machine::Machine;
use tanada_report::{
    CacheUse, Engine, HardwareUse, LevelMisses, ObjectWaits, PlanChange, RunResult, Series,
    StackUse, ThreadRun, ThreadWaits,
};

/// The most decisions and objects in a report, so that its page stays readable.
const DECISIONS: usize = 1000;
const OBJECTS: usize = 200;

impl ThreadsOutcome {
    /// Returns the result of this run of `input` (the trace's file, for instance) on `machine` as a report has it: with the first 1000
    /// decisions that changed the plan, and the 200 objects that cost most.
    ///
    /// # Panics
    /// If `machine` has fewer caches than the one of the run.
    pub fn to_run_result(&self, input: &str, machine: &Machine) -> RunResult {
        let tables = machine.tables_in_order();
        let caches = self
            .levels
            .iter()
            .zip(tables)
            .map(|(level, table)| CacheUse {
                cache: level.label.clone(),
                bytes: Some(machine.caches[table].size),
                accesses: level.accesses,
                misses: level.misses,
                ..CacheUse::default()
            });
        let hardware = self.hardware.iter().map(|one| HardwareUse {
            core: one.core as u16,
            instructions: one.instructions,
            cycles: one.cycles.clone(),
        });
        let decisions = self.changes().map(|row| PlanChange {
            cycle: row.cycle,
            width: row.next_width as u16,
            order: row.order.to_owned(),
            why: row.why.clone(),
        });
        let waits = self.objects.iter().map(|one| ObjectWaits {
            kind: one.kind.to_owned(),
            object: one.object,
            waits: one.waits,
            cycles: one.cycles,
            longest: one.longest,
            threads: one
                .threads
                .iter()
                .map(|thread| ThreadWaits {
                    thread: thread.thread,
                    waits: thread.waits,
                    cycles: thread.cycles,
                    longest: thread.longest,
                })
                .collect(),
        });
        let left = |all: usize, most: usize| all.saturating_sub(most) as u64;
        let threads = ThreadRun {
            instructions: self.instructions,
            ratio_to_fifo: None,
            causes: self.causes.clone(),
            hardware: hardware.collect(),
            series: self.reported_series(),
            decisions_left: left(self.changes().count(), DECISIONS),
            decisions: decisions.take(DECISIONS).collect(),
            waits_left: left(self.objects.len(), OBJECTS),
            waits: waits.take(OBJECTS).collect(),
        };
        RunResult {
            engine: Engine::Simulated,
            machine: self.machine.clone(),
            cycles: Some(self.cycles),
            caches: caches.collect(),
            writebacks: Some(self.writebacks),
            threads: Some(threads),
            ..RunResult::new("trace", input, &self.governor, self.hardware_threads as u16)
        }
    }

    fn reported_series(&self) -> Option<Series> {
        let series = self.series.as_ref()?;
        let intervals = series.instructions.len();
        let mut stacks: Vec<StackUse> = Vec::new();
        for one in &series.stacks {
            let place = stacks.binary_search_by_key(&one.thread, |stack| stack.thread);
            let place = place.unwrap_or_else(|place| {
                let (thread, accesses) = (one.thread, vec![0; intervals]);
                stacks.insert(place, StackUse { thread, accesses });
                place
            });
            stacks[place].accesses[one.interval as usize] += one.accesses;
        }
        let misses = self.levels.iter().zip(&series.misses);
        Some(Series {
            interval: series.interval,
            instructions: series.instructions.clone(),
            misses: misses
                .map(|(level, misses)| LevelMisses {
                    cache: level.label.clone(),
                    misses: misses.clone(),
                })
                .collect(),
            width: self.widths(series.interval, intervals),
            stacks,
        })
    }

    /// Returns the mean width of each interval.
    fn widths(&self, interval: u64, intervals: usize) -> Vec<f64> {
        let mut periods = self.periods.iter().peekable();
        let mut width = self.hardware_threads;
        let mean = |number: usize| {
            let begin = number as u64 * interval;
            // The last interval ends with the run.
            let end = (begin + interval).min(self.cycles).max(begin + 1);
            let (mut at, mut sum) = (begin, 0);
            while let Some(row) = periods.next_if(|row| row.cycle < end) {
                let cycle = row.cycle.max(at);
                sum += (cycle - at) * width as u64;
                (at, width) = (cycle, row.next_width);
            }
            sum += (end - at) * width as u64;
            sum as f64 / (end - begin) as f64
        };
        (0..intervals).map(mean).collect()
    }
}
