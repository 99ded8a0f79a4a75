//! The uniform model: every miss of a level costs the same, and nothing waits for anything.
//!
//! 1. Every core has a clock, at first 0. Of the cores that have a task the one with the smallest clock acts next; of equals, the lowest.
//! 2. First every task without dependencies is injected, in declaration order; then each core, in index order, calls `next`. A core that
//!    gets a task begins it `dispatch_cycles` after the call.
//! 3. To act is to execute one record. `x N` costs N. `i`, `r` and `w` touch, in ascending order, each line of the first cache of their
//!    path that they overlap; each touch costs `hit_cycles`, plus `miss_cycles` of every level that misses. All touches happen at the
//!    record's start, then the clock advances by their sum. A record whose kind has no cache on its path costs `hit_cycles` once.
//! 4. After its last record a core's next act is to finish the task, at no cost: successors become ready on it, and it asks for its next
//!    task, in one `turn`; then every other idle core, in index order, calls `next` with its clock set to this moment.
//! 5. The makespan is the largest finish time.

mod ahead;
mod first;

use crate::counts::bound::Bound;
use crate::counts::overflow::Foresight;
use crate::counts::tally::Tally;
use crate::machine::Machine;
use crate::observer::{Observer, Run};
use crate::parts::cache::Looked;
use crate::parts::dispatching::{Dispatching, Traffic};
use crate::parts::events::{Events, Kind as Event};
use crate::parts::hierarchy::{Hierarchy, Near};
use crate::parts::source::Source;
use crate::{Options, Outcome, SimError};
use ahead::{Ahead, Costs, Private, TooLate};
use first::PIECE;
use std::hint::select_unpredictable;
use tanada_policy::{Dispatcher, Origin, Wake, WorkerId};
use tanada_trace::{Kind, Reader, Trace};

/// What one core runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    task: u32,
    asked: u64,
    start: u64,
    origin: Origin,
    /// Of the core's computation, what was there when the task began.
    compute_before: u64,
}

/// Tells an observer what the dispatcher is told and says.
struct Tell<'a>(&'a mut dyn Observer);

impl Traffic for Tell<'_> {
    fn wake(&mut self, whom: Wake) {
        self.0.wake(whom);
    }
    fn ready(&mut self, task: u32, on: WorkerId) {
        self.0.ready(task, on);
    }
}

/// One core.
#[derive(Debug, Default)]
struct Core {
    running: Option<Running>,
    source: Source,
    ahead: Ahead,
    /// Where the window began, and since then what levels cost that others see.
    clock: u64,
    /// Its next act is to finish.
    ends: bool,
}

struct Uniform<'a, D: Dispatcher> {
    machine: &'a Machine,
    trace: &'a Trace,
    options: &'a Options<'a>,
    reader: Reader<'a>,
    dispatching: Dispatching<'a, D, Tell<'a>>,
    hierarchy: Hierarchy,
    /// Of each core, where the machine is of that form.
    near: Vec<[Near; 2]>,
    foresight: Foresight,
    events: Events,
    cores: Vec<Core>,
    costs: Costs,
    tally: Tally,
    bound: Bound,
}

/// Runs a trace to its end.
pub(crate) fn run<D: Dispatcher>(
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    let seed = options.seed.unwrap_or(machine.seed);
    let cores = usize::from(machine.cores);
    let mut hierarchy = Hierarchy::new(machine, seed);
    if options.merge_everything {
        hierarchy.forget_privacy();
    }
    let uniform = Uniform::<D> {
        machine,
        trace,
        options,
        reader: trace.reader()?,
        dispatching: Dispatching::new(trace, machine, seed, Tell(observer))?,
        near: hierarchy.near().unwrap_or_default(),
        foresight: Foresight::default(),
        hierarchy,
        events: Events::new(cores),
        cores: (0..cores).map(|_| Core::default()).collect(),
        costs: Costs::of(machine),
        tally: Tally::new(machine, trace),
        bound: Bound::new(machine, trace),
    };
    uniform.run(policy, seed)
}

impl<D: Dispatcher> Uniform<'_, D> {
    fn run(mut self, policy: &str, seed: u64) -> Result<Outcome, SimError> {
        self.dispatching.inject();
        for core in 0..self.cores.len() {
            self.ask(core, 0)?;
        }
        let mut first = self.events.first();
        while let Some((now, core)) = first {
            first = if self.cores[core].ends {
                self.options.go_on(self.dispatching.ended())?;
                self.finish(core, now)?;
                self.events.first()
            } else {
                match self.near.get(core) {
                    Some(&near) => self.merge_near(core, &near)?,
                    None => self.merge_record(core)?,
                }
                self.plan(core)?
            };
        }
        if self.dispatching.left() > 0 {
            return Err(SimError::stuck(policy, self.trace, &self.dispatching));
        }
        let writebacks = self.hierarchy.writebacks;
        self.tally.stalls_are_penalties(&self.costs.misses);
        Ok(self
            .tally
            .outcome(self.machine, policy, seed, writebacks, &self.bound))
    }

    /// An idle core calls `next`.
    fn ask(&mut self, core: usize, now: u64) -> Result<(), SimError> {
        let got = self.dispatching.next(WorkerId(core as u16));
        self.begin(core, now, got)
    }

    fn begin(&mut self, core: usize, now: u64, got: Option<(u32, Origin)>) -> Result<(), SimError> {
        let worker = WorkerId(core as u16);
        let Some((task, origin)) = got else {
            self.dispatching.traffic.0.idle(worker, now);
            self.events.cancel(core);
            return Ok(());
        };
        self.dispatching.traffic.0.given(worker, task, origin, now);
        let start = now
            .checked_add(self.machine.dispatch_cycles)
            .ok_or_else(|| SimError::overflow(self.trace, task, None))?;
        let compute_before = self.tally.cores[core].compute;
        let core_ = &mut self.cores[core];
        core_.running = Some(Running {
            task,
            asked: now,
            start,
            origin,
            compute_before,
        });
        core_.clock = start;
        core_.ends = false;
        core_.source.start(&mut self.reader, task);
        self.plan(core)?;
        Ok(())
    }

    /// Puts the next act of a busy core into the agenda: the next steps that others can see, or the end of its task. Gives whose act is the
    /// first of all.
    #[inline(always)]
    fn plan(&mut self, core: usize) -> Result<Option<(u64, usize)>, SimError> {
        let this = &self.cores[core];
        let next = this.ahead.next();
        match next.and_then(|step| this.clock.checked_add(step.known)) {
            Some(time) => Ok(self.events.schedule(core, time, Event::Act)),
            None => self.plan_far(core),
        }
    }

    #[inline(never)]
    fn plan_far(&mut self, core: usize) -> Result<Option<(u64, usize)>, SimError> {
        loop {
            let this = &mut self.cores[core];
            if let Some(step) = this.ahead.next() {
                let time = this.clock.checked_add(step.known);
                let time = time.ok_or_else(|| self.too_late(core))?;
                return Ok(self.events.schedule(core, time, Event::Act));
            }
            if this.ahead.is_within_record() {
                self.go_on(core)?;
                continue;
            }
            let Some(clock) = this.clock.checked_add(this.ahead.take_known()) else {
                return Err(self.too_late(core));
            };
            this.clock = clock;
            let records = this.source.records(&mut self.reader)?;
            if records.is_empty() {
                this.ends = true;
                return Ok(self.events.schedule(core, clock, Event::Act));
            }
            let private = Private {
                core,
                hierarchy: &mut self.hierarchy,
                bound: &mut self.bound,
                tally: &mut self.tally.cores[core],
                costs: &self.costs,
            };
            let mut done = 0;
            let window = this
                .ahead
                .window(records, u64::MAX - clock, private, &mut done);
            this.source.take(done.max(1));
            window.map_err(|TooLate| self.too_late(core))?;
            if let Some(near) = self.near.get(core) {
                for step in self.cores[core].ahead.left() {
                    near[usize::from(step.kind != Kind::Fetch)]
                        .passed(&mut self.bound, step.address);
                }
            }
            self.options.go_on(self.dispatching.ended())?;
        }
    }

    /// The next lines of a record of many.
    fn go_on(&mut self, core: usize) -> Result<(), SimError> {
        self.options.go_on(self.dispatching.ended())?;
        self.foresight
            .lines(PIECE, self.trace, self.machine, self.options)?;
        let private = Private {
            core,
            hierarchy: &mut self.hierarchy,
            bound: &mut self.bound,
            tally: &mut self.tally.cores[core],
            costs: &self.costs,
        };
        let done = self.cores[core].ahead.go_on(private);
        done.map_err(|TooLate| self.too_late(core))
    }

    /// Only the last record of a window can take the clock past its end.
    #[cold]
    fn too_late(&self, core: usize) -> SimError {
        let this = &self.cores[core];
        let task = this.running.map_or(0, |running| running.task);
        SimError::overflow(self.trace, task, this.source.position().saturating_sub(1))
    }

    /// As [`Uniform::merge_record`] on a machine of the usual form, whose bound knows the touches already.
    #[inline(always)]
    fn merge_near(&mut self, core: usize, near: &[Near; 2]) -> Result<(), SimError> {
        let this = &mut self.cores[core];
        if this.ahead.is_within_record() {
            return self.merge_record(core);
        }
        let counts = self.tally.cores[core].task.as_mut_slice();
        let steps = this.ahead.left();
        let record = steps.first().map_or(0, |step| step.record);
        let (mut cost, mut merged) = (0_u64, 0);
        for step in steps {
            if step.record != record {
                break;
            }
            merged += 1;
            let path = &near[usize::from(step.kind != Kind::Fetch)];
            let (cache, table, shift) = path.seen;
            let (table, line) = (usize::from(table), step.address >> shift);
            let cache = &mut self.hierarchy.caches[cache as usize];
            if path.private {
                let first = usize::from(path.first.0);
                counts[first].misses += 1;
                cost = cost.saturating_add(self.costs.misses[first]);
                if step.evicts {
                    self.hierarchy.writebacks += 1;
                    cache.mark_dirty(step.victim >> shift);
                }
            }
            let write = !path.private && step.kind == Kind::Write;
            let looked = cache.look_up(line, write);
            let missed = looked != Looked::Hit;
            // No branch, since hits and misses cannot be foreseen.
            let penalty = select_unpredictable(missed, self.costs.misses[table], 0);
            cost = cost.saturating_add(penalty);
            let count = &mut counts[table];
            count.accesses += 1;
            count.misses += u64::from(missed);
            self.hierarchy.writebacks += u64::from(matches!(looked, Looked::MissEvicting(_)));
            if missed && !path.private {
                self.bound.missed(table, line);
            }
        }
        this.ahead.merged(merged);
        match this.clock.checked_add(cost) {
            Some(clock) => this.clock = clock,
            None => return Err(self.too_late(core)),
        }
        Ok(())
    }

    /// Does all steps of one record, which is due.
    #[inline]
    fn merge_record(&mut self, core: usize) -> Result<(), SimError> {
        let mut cost = 0_u64;
        loop {
            let this = &mut self.cores[core];
            let steps = this.ahead.left();
            let record = steps.first().map(|step| step.record);
            let mut merged = 0;
            let counts = &mut self.tally.cores[core].task;
            let reach = &self.hierarchy.reach[core];
            let reach = [reach[0], reach[1]];
            for step in steps.iter().take_while(|step| Some(step.record) == record) {
                merged += 1;
                let reach = &reach[usize::from(step.kind != Kind::Fetch)];
                let from = usize::from(reach.private);
                // What private levels cost is known; but nobody looked at a first one that is the only one.
                let mut unknown = from;
                if from == 1 && reach.is_simple() {
                    unknown = 0;
                    counts[usize::from(reach.table)].misses += 1;
                    self.hierarchy.writebacks += u64::from(step.evicts);
                }
                if step.evicts {
                    let levels = from..usize::from(reach.levels);
                    self.hierarchy
                        .write_back(core, step.kind, levels, step.victim);
                }
                if step.touches {
                    let missed = self
                        .hierarchy
                        .touch(core, step.kind, step.address, from, counts);
                    if missed > 0 {
                        let path = self.hierarchy.paths[core].of(step.kind);
                        self.bound.touched(path, missed, step.address);
                        cost = cost.saturating_add(self.costs.missed(&path[unknown..missed]));
                    }
                }
            }
            this.ahead.merged(merged);
            if this.ahead.next().is_some() || !this.ahead.is_within_record() {
                break;
            }
            self.go_on(core)?;
        }
        let this = &mut self.cores[core];
        match this.clock.checked_add(cost) {
            Some(clock) => this.clock = clock,
            None => return Err(self.too_late(core)),
        }
        Ok(())
    }

    /// The task of a core ends; the core, then all other idle ones, ask for the next.
    fn finish(&mut self, core: usize, now: u64) -> Result<(), SimError> {
        let running = self.cores[core]
            .running
            .take()
            .expect("only busy cores act");
        let run = Run {
            core: core as u16,
            task: running.task,
            asked: running.asked,
            start: running.start,
            end: now,
            origin: running.origin,
        };
        self.tally.ended(self.trace, &run);
        let least = self.tally.cores[core].compute - running.compute_before;
        self.bound
            .ended(self.trace, run.task, least + (run.start - run.asked));
        self.dispatching.traffic.0.ended(&run);
        let got = self.dispatching.turn(WorkerId(core as u16), run.task);
        self.begin(core, now, got)?;
        for other in 0..self.cores.len() {
            if other != core && self.cores[other].running.is_none() {
                self.ask(other, now)?;
            }
        }
        Ok(())
    }
}
