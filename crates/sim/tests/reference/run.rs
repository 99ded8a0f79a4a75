//! Time.

use std::collections::BTreeSet;

use super::cache::{Access, Caches};
use super::machine::{Kind, Machine};
use super::policy::Pool;
use super::trace::{Record, Trace};

/// A task that a core has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub core: usize,
    pub task: u32,
    pub start: u64,
    pub end: u64,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub makespan: u64,
    pub tasks: usize,
    pub busy: Vec<u64>,
    pub utilisation: f64,
    pub bound: u64,
    /// `l1i`, ... with accesses and misses.
    pub caches: Vec<(String, u64, u64)>,
    pub writebacks: u64,
    /// In the order in which they finished.
    pub finished: Vec<Finished>,
}

/// What a core does.
#[derive(Clone, Copy, Debug)]
struct Busy {
    task: usize,
    /// The record that comes next.
    record: usize,
    /// When `next` was called, and the clock at the first record.
    asked: u64,
    start: u64,
}

/// The touches and the costs of one record, as if every line were in the first cache.
fn least_work(machine: &Machine, caches: &Caches<'_>, record: Record) -> u64 {
    let (access, address, size) = match record {
        Record::Compute(cycles) => return cycles,
        Record::Fetch(address, size) => (Access::Fetch, address, size),
        Record::Read(address, size) => (Access::Read, address, size),
        Record::Write(address, size) => (Access::Write, address, size),
    };
    let touched = caches.touched(0, access, address, size);
    machine.hit_cycles * touched.map_or(1, |lines| lines.len() as u64)
}

/// The least time of each task, and the longest way of least times from it to the end.
fn ways(trace: &Trace, machine: &Machine) -> (Vec<u64>, Vec<u64>) {
    let caches = Caches::new(machine);
    let work: Vec<u64> = (trace.tasks.iter())
        .map(|task| {
            task.records
                .iter()
                .map(|&record| least_work(machine, &caches, record))
                .sum::<u64>()
                + machine.dispatch_cycles
        })
        .collect();
    let mut ways = work.clone();
    // As often as needed: nothing is known of the order of declaration.
    loop {
        let before = ways.clone();
        for (place, task) in trace.tasks.iter().enumerate() {
            let behind = task
                .successors
                .iter()
                .map(|&to| ways[to])
                .max()
                .unwrap_or(0);
            ways[place] = work[place] + behind;
        }
        if ways == before {
            return (work, ways);
        }
    }
}

fn execute(caches: &mut Caches<'_>, machine: &Machine, core: usize, record: Record) -> u64 {
    let (access, address, size) = match record {
        Record::Compute(cycles) => return cycles,
        Record::Fetch(address, size) => (Access::Fetch, address, size),
        Record::Read(address, size) => (Access::Read, address, size),
        Record::Write(address, size) => (Access::Write, address, size),
    };
    match caches.touched(core, access, address, size) {
        None => machine.hit_cycles,
        Some(lines) => lines
            .into_iter()
            .map(|line| caches.touch(core, access, line))
            .sum(),
    }
}

/// Runs a trace on a machine under a policy.
pub(crate) fn run(trace: &Trace, machine: &Machine, policy: &str) -> Result {
    let (work, ways) = ways(trace, machine);
    let mut pool = Pool::new(policy, trace, &ways, machine.cores, machine.seed);
    let mut caches = Caches::new(machine);
    let mut unresolved = trace.dependency_counts();
    let mut clocks = vec![0_u64; machine.cores];
    let mut cores: Vec<Option<Busy>> = vec![None; machine.cores];
    let mut busy = vec![0; machine.cores];
    let mut working = 0;
    let mut finished = Vec::new();

    let ask =
        |core: usize, pool: &mut Pool<'_>, clocks: &mut Vec<u64>, cores: &mut Vec<Option<Busy>>| {
            if let Some(task) = pool.next(core) {
                let asked = clocks[core];
                let start = asked + machine.dispatch_cycles;
                clocks[core] = start;
                cores[core] = Some(Busy {
                    task,
                    record: 0,
                    asked,
                    start,
                });
            }
        };
    for (task, &waits) in unresolved.iter().enumerate() {
        if waits == 0 {
            pool.ready(None, task);
        }
    }
    for core in 0..machine.cores {
        ask(core, &mut pool, &mut clocks, &mut cores);
    }
    // The first of the smallest clocks.
    while let Some(core) = (0..machine.cores)
        .filter(|&core| cores[core].is_some())
        .min_by_key(|&core| clocks[core])
    {
        let now = cores[core].as_mut().expect("it has a task");
        let task = &trace.tasks[now.task];
        if let Some(&record) = task.records.get(now.record) {
            now.record += 1;
            clocks[core] += execute(&mut caches, machine, core, record);
            continue;
        }
        let end = clocks[core];
        finished.push(Finished {
            core,
            task: task.id,
            start: now.start,
            end,
        });
        busy[core] += end - now.asked;
        working += end - now.start;
        cores[core] = None;
        for &to in &task.successors {
            unresolved[to] -= 1;
            if unresolved[to] == 0 {
                pool.ready(Some(core), to);
            }
        }
        ask(core, &mut pool, &mut clocks, &mut cores);
        for other in 0..machine.cores {
            if other != core && cores[other].is_none() {
                clocks[other] = end;
                ask(other, &mut pool, &mut clocks, &mut cores);
            }
        }
    }
    assert_eq!(finished.len(), trace.tasks.len(), "tasks are left");

    let makespan = finished.iter().map(|event| event.end).max().unwrap_or(0);
    let total = work.iter().sum::<u64>() + first_misses(trace, machine);
    let longest = ways.iter().copied().max().unwrap_or(0);
    Result {
        makespan,
        tasks: finished.len(),
        busy,
        utilisation: if makespan == 0 {
            0.0
        } else {
            working as f64 / (machine.cores as f64 * makespan as f64)
        },
        bound: total.div_ceil(machine.cores as u64).max(longest),
        caches: counts(machine, &caches),
        writebacks: caches.writebacks,
        finished,
    }
}

/// What the first touches of all lines cost beyond `hit_cycles`: no other touch has brought them to any level.
fn first_misses(trace: &Trace, machine: &Machine) -> u64 {
    let caches = Caches::new(machine);
    let mut lines: BTreeSet<(usize, u64)> = BTreeSet::new();
    for record in trace.tasks.iter().flat_map(|task| &task.records) {
        let (access, address, size) = match *record {
            Record::Compute(_) => continue,
            Record::Fetch(address, size) => (Access::Fetch, address, size),
            Record::Read(address, size) => (Access::Read, address, size),
            Record::Write(address, size) => (Access::Write, address, size),
        };
        for (table, cache) in machine.caches.iter().enumerate() {
            // Behind a unified level the other kind may have brought the line there.
            let sheltered = cache.kind != Kind::Unified
                && (machine.caches.iter())
                    .any(|other| other.kind == Kind::Unified && other.level < cache.level);
            if !sheltered && cache.kind.holds(access == Access::Fetch) {
                let touched = caches.touched(0, access, address, size);
                let touched = touched.expect("this cache is on its path");
                lines.extend(touched.iter().map(|line| (table, line / cache.line)));
            }
        }
    }
    let cost = |(table, _): &(usize, u64)| machine.caches[*table].miss_cycles;
    lines.iter().map(cost).sum()
}

fn counts(machine: &Machine, caches: &Caches<'_>) -> Vec<(String, u64, u64)> {
    let named = machine.caches.iter().enumerate().map(|(table, cache)| {
        let kind = match cache.kind {
            Kind::Instruction => "i",
            Kind::Data => "d",
            Kind::Unified => "",
        };
        (
            format!("l{}{kind}", cache.level),
            caches.accesses[table],
            caches.misses[table],
        )
    });
    named.collect()
}

impl Result {
    /// The keys of the line that other programs read, with their values.
    pub(crate) fn json(&self, policy: &str, cores: usize) -> Vec<(String, serde_json::Value)> {
        let ratio = if self.bound == 0 {
            1.0
        } else {
            self.makespan as f64 / self.bound as f64
        };
        let mut line = vec![
            ("policy".to_owned(), policy.into()),
            ("cores".to_owned(), cores.into()),
            ("makespan".to_owned(), self.makespan.into()),
            ("tasks".to_owned(), self.tasks.into()),
            ("busy".to_owned(), self.busy.clone().into()),
            ("utilisation".to_owned(), self.utilisation.into()),
            ("bound".to_owned(), self.bound.into()),
            ("bound_ratio".to_owned(), ratio.into()),
        ];
        let mut caches = self.caches.clone();
        caches.sort_by_key(|(name, ..)| name.replace('i', "a"));
        for (name, accesses, misses) in &caches {
            line.push((format!("{name}_accesses"), (*accesses).into()));
            line.push((format!("{name}_misses"), (*misses).into()));
        }
        line.push(("writebacks".to_owned(), self.writebacks.into()));
        line
    }
}

/// What `--events` writes.
pub(crate) fn csv(finished: &[Finished]) -> String {
    let row = |event: &Finished| {
        format!(
            "{},{},{},{}\n",
            event.core, event.task, event.start, event.end
        )
    };
    let rows: String = finished.iter().map(row).collect();
    format!("core,task,start,end\n{rows}")
}
