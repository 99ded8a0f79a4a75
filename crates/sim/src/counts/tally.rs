//! The counters of a running model, and their conversion into an [`Outcome`].

use crate::counts::bound::Bound;
use crate::counts::outcome::{ByName, CacheCount, Count, Outcome, Stalls};
use crate::machine::Machine;
use crate::observer::Run;
use tanada_policy::Origin;
use tanada_report::{Origin as Reported, OriginCounts};
use tanada_trace::Trace;

/// The counters of one core.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreTally {
    /// Accesses and misses of each `[[cache]]` table by the running task.
    pub(crate) task: Vec<Count>,
    /// Accesses and misses of each `[[cache]]` table by all earlier tasks.
    pub(crate) before: Vec<Count>,
    /// Cycles of computation, and `hit_cycles` of all lookups.
    pub(crate) compute: u64,
    /// `compute` when the last task ended.
    computed: u64,
    /// Cycles waited for each `[[cache]]` table.
    pub(crate) caches: Vec<u64>,
    /// Cycles waited for channels.
    pub(crate) memory_queue: u64,
    /// Cycles from calls of `next` to first records.
    pub(crate) scheduling: u64,
    /// Cycles from calls of `next` to the ends of tasks.
    pub(crate) busy: u64,
}

/// The counters of all cores.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Of each core.
    pub(crate) cores: Vec<CoreTally>,
    by_name: Vec<ByName>,
    executing: u128,
    makespan: u64,
    origins: OriginCounts,
    tasks: u64,
}

impl Tally {
    /// Returns counters of 0.
    pub(crate) fn new(machine: &Machine, trace: &Trace) -> Tally {
        let tables = machine.caches.len();
        let core = CoreTally {
            task: vec![Count::default(); tables],
            before: vec![Count::default(); tables],
            caches: vec![0; tables],
            ..CoreTally::default()
        };
        let unnamed = String::new();
        let names = trace.names().iter().chain([&unnamed]);
        let by_name = names.map(|name| ByName {
            name: name.clone(),
            caches: vec![Count::default(); tables],
            ..ByName::default()
        });
        Tally {
            cores: vec![core; usize::from(machine.cores)],
            by_name: by_name.collect(),
            executing: 0,
            makespan: 0,
            origins: OriginCounts::default(),
            tasks: 0,
        }
    }

    /// Counts the end of a task: its accesses and misses are added to its name. Returns the cycles that it computed.
    pub(crate) fn ended(&mut self, trace: &Trace, run: &Run) -> u64 {
        let name = trace.tasks()[run.task as usize].name as usize;
        let name = name.min(self.by_name.len() - 1);
        let by_name = &mut self.by_name[name];
        let core = &mut self.cores[usize::from(run.core)];
        by_name.tasks += 1;
        by_name.cycles = by_name.cycles.saturating_add(run.end - run.start);
        let counts = core.task.iter_mut().zip(&mut core.before);
        for ((task, before), named) in counts.zip(&mut by_name.caches) {
            *named += *task;
            *before += std::mem::take(task);
        }
        core.busy += run.end - run.asked;
        core.scheduling += run.start - run.asked;
        self.executing += u128::from(run.end - run.start);
        self.makespan = self.makespan.max(run.end);
        self.origins.add(reported(run.origin));
        self.tasks += 1;
        let before = std::mem::replace(&mut core.computed, core.compute);
        core.compute - before
    }

    /// Sets the stalls of a model in which no request waits: each miss in a cache of table `t` stalls its core for `penalties[t]` cycles.
    pub(crate) fn set_stalls(&mut self, penalties: &[u64]) {
        for core in &mut self.cores {
            let tables = core.caches.iter_mut().zip(&core.before).zip(penalties);
            tables.for_each(|((stall, count), penalty)| {
                *stall = count.misses.saturating_mul(*penalty)
            });
        }
    }

    /// Returns the counters as the results of a run.
    pub(crate) fn outcome(
        self,
        machine: &Machine,
        policy: &str,
        seed: u64,
        writebacks: u64,
        bound: &Bound,
    ) -> Outcome {
        let order = machine.tables_in_order();
        let sum = |table: usize| {
            let mut sum = Count::default();
            self.cores.iter().for_each(|core| sum += core.before[table]);
            sum
        };
        let caches = order.iter().map(|&table| CacheCount {
            table,
            level: machine.caches[table].level,
            kind: machine.caches[table].kind,
            count: sum(table),
            unavoidable: bound.unavoidable(table),
        });
        let stalls = self.cores.iter().map(|core| Stalls {
            compute: core.compute,
            caches: order.iter().map(|&table| core.caches[table]).collect(),
            memory_queue: core.memory_queue,
            scheduling: core.scheduling,
            idle: self.makespan - core.busy,
        });
        let by_name = self.by_name.iter().map(|named| ByName {
            caches: order.iter().map(|&table| named.caches[table]).collect(),
            ..named.clone()
        });
        Outcome {
            policy: policy.to_owned(),
            machine: machine.name.clone(),
            cores: machine.cores,
            seed,
            makespan: self.makespan,
            tasks: self.tasks,
            busy: self.cores.iter().map(|core| core.busy).collect(),
            executing: self.executing,
            bound: bound.cycles(machine),
            shared_work: bound.shared_work(machine),
            critical_path: bound.critical_path(),
            channels: None,
            caches: caches.collect(),
            writebacks,
            stalls: stalls.collect(),
            by_name: by_name.filter(|named| named.tasks > 0).collect(),
            origins: self.origins,
            contention: None,
        }
    }
}

/// Returns the origin of a task in the schema of reports.
pub(crate) fn reported(origin: Origin) -> Reported {
    match origin {
        Origin::Handed => Reported::Handed,
        Origin::Own => Reported::Own,
        Origin::Pool => Reported::Pool,
        Origin::Mailbox => Reported::Mailbox,
        Origin::Stolen(victim) => Reported::Stolen(victim.0),
    }
}
