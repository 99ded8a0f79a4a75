//! Conversion of simulated runs into the schema of reports, in which native runs are reported too.

use crate::counts::outcome::{self, Outcome};
use crate::counts::tally::reported;
use crate::machine::{Kind, Machine};
use crate::observer::Run;
use tanada_policy::registry;
use tanada_report::{CacheUse, Engine, Event, Limits, NameUse, RunResult, Stalls, Timeline, Unit};
use tanada_trace::Trace;

impl Outcome {
    /// Returns the result of this run of `input` (the trace's file, for instance) on `machine` as a report has it.
    ///
    /// # Panics
    /// If `machine` has fewer caches than the one of the run.
    pub fn to_run_result(
        &self,
        workload: &str,
        input: &str,
        groups: &str,
        machine: &Machine,
    ) -> RunResult {
        let mean = |sum: f64| (self.tasks > 0).then(|| sum / self.tasks as f64);
        let (caches, entry) = (0..self.caches.len(), registry::find(&self.policy));
        let scheduling = self.stalls.iter().map(|core| core.scheduling as f64);
        RunResult {
            engine: Engine::Simulated,
            machine: self.machine.clone(),
            groups: groups.to_owned(),
            cycles: Some(self.makespan),
            tasks: Some(self.tasks),
            mean_task_cycles: mean(self.executing as f64),
            scheduling_cycles_per_task: mean(scheduling.sum()),
            utilisation: Some(self.utilisation()),
            steals: Some(self.origins.stolen),
            origins: Some(self.origins),
            bound: Some(self.bound as f64),
            bound_ratio: Some(self.bound_ratio()),
            limits: Some(Limits {
                work: self.shared_work as f64,
                critical_path: self.critical_path as f64,
                channels: self.channels.map(|cycles| cycles as f64),
            }),
            stalls: self.stalls.iter().map(|core| self.reported(core)).collect(),
            caches: caches
                .map(|number| self.cache_use(number, machine))
                .collect(),
            writebacks: Some(self.writebacks),
            honours_groups: entry.is_ok_and(|entry| entry.groups),
            ..RunResult::new(workload, input, &self.policy, self.cores)
        }
    }

    /// Returns the stalls by the report's levels: the first by kind, the second, and all deeper ones together.
    fn reported(&self, core: &outcome::Stalls) -> Stalls {
        let mut all = Stalls {
            compute: core.compute,
            memory_queue: core.memory_queue,
            scheduling: core.scheduling,
            idle: core.idle,
            ..Stalls::default()
        };
        for (cache, cycles) in self.caches.iter().zip(&core.caches) {
            let part = match (cache.level, cache.kind) {
                (1, Kind::Instruction) => &mut all.l1i,
                (1, _) => &mut all.l1d,
                (2, _) => &mut all.l2,
                _ => &mut all.deeper,
            };
            *part += cycles;
        }
        all
    }

    fn cache_use(&self, number: usize, machine: &Machine) -> CacheUse {
        let cache = &self.caches[number];
        let named = self.by_name.iter().map(|named| NameUse {
            name: match named.name.as_str() {
                "" => "-".to_owned(),
                name => name.to_owned(),
            },
            accesses: named.caches[number].accesses,
            misses: named.caches[number].misses,
        });
        let mut by_name: Vec<NameUse> = named.collect();
        // Of no task: the dispatcher's own (contended model).
        let sum = |of: fn(&NameUse) -> u64| by_name.iter().map(of).sum::<u64>();
        let all = cache.count;
        let accesses = all.accesses.saturating_sub(sum(|named| named.accesses));
        let misses = all.misses.saturating_sub(sum(|named| named.misses));
        if accesses > 0 {
            by_name.push(NameUse {
                name: "dispatching".to_owned(),
                accesses,
                misses,
            });
        }
        CacheUse {
            cache: cache.label(),
            bytes: Some(machine.caches[cache.table].size),
            accesses: all.accesses,
            misses: all.misses,
            unavoidable: Some(cache.unavoidable),
            by_name,
        }
    }
}

/// Returns the runs of a simulation as a timeline. An observer of type `Vec<Run>` collects `runs`.
pub fn timeline(trace: &Trace, outcome: &Outcome, label: &str, runs: &[Run]) -> Timeline {
    let mut timeline = Timeline::new(label, &outcome.policy, Unit::Cycles, outcome.cores);
    timeline.engine = Engine::Simulated;
    timeline.names = trace.names().to_vec();
    let unnamed = trace.tasks().iter().any(|task| task.name == u32::MAX);
    let without_name = if unnamed { timeline.intern("task") } else { 0 };
    timeline.events.extend(runs.iter().map(|run| {
        let task = &trace.tasks()[run.task as usize];
        Event {
            worker: run.core,
            task: u64::from(task.id),
            name: match task.name {
                u32::MAX => without_name,
                name => name,
            },
            t: task.t,
            s: task.s,
            start: run.start,
            end: run.end,
            origin: reported(run.origin),
        }
    }));
    timeline
}
