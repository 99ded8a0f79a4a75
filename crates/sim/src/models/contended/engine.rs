//! The loop over events; the rules are in RULES.md, whose numbers the comments cite.

use super::background::Stream;
use super::call::{self, Addresses, Step};
use super::core::{Call, Core, Rest, State};
use super::levels::{Levels, Meter};
use crate::counts::bound::Bound;
use crate::counts::outcome::Count;
use crate::counts::overflow::Foresight;
use crate::counts::tally::{CoreTally, Tally};
use crate::machine::Cycle;
use crate::machine::Machine;
use crate::machine::contended::Costs;
use crate::observer::{Observer, Run};
use crate::parts::dispatching::{Dispatching, Traffic};
use crate::parts::events::{Events, Kind as Event};
use crate::parts::hierarchy::Stop;
use crate::parts::lock::PoolLock;
use crate::parts::source::Source;
use crate::{Options, SimError};
use tanada_policy::{Dispatcher, Op, Wake, WorkerId};
use tanada_trace::{Kind, Reader, Record, Trace};

/// What the dispatcher says during a call.
pub(super) struct Heard<'a> {
    pub(super) observer: &'a mut dyn Observer,
    ops: Vec<Op>,
    wakes: Vec<Wake>,
}

impl Traffic for Heard<'_> {
    fn charge(&mut self, op: Op) {
        self.ops.push(op);
    }
    fn wake(&mut self, whom: Wake) {
        self.observer.wake(whom);
        self.wakes.push(whom);
    }
    fn ready(&mut self, task: u32, on: WorkerId) {
        self.observer.ready(task, on);
    }
}

/// The first cache of a path, as the inner loop sees it.
#[derive(Clone, Copy, Debug)]
struct Front {
    stop: Stop,
    /// Only this core looks lines up in it.
    private: bool,
    /// Only this core changes what it holds, so that hits need no order.
    ahead: bool,
}

/// Charges a task's waits to its core.
impl Meter for CoreTally {
    #[inline]
    fn looked_up(&mut self, table: usize, missed: bool) {
        self.task[table].accesses += 1;
        self.task[table].misses += u64::from(missed);
    }
    #[inline]
    fn waited(&mut self, table: usize, cycles: Cycle) {
        self.caches[table] += cycles;
    }
    #[inline]
    fn queued(&mut self, cycles: Cycle) {
        self.memory_queue += cycles;
    }
}

/// Records of so many lines take a while.
const LONG: u64 = 4096;

/// What the scheduler did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallUse {
    /// Calls that gave a task.
    pub gave: u64,
    /// Calls that gave nothing.
    pub in_vain: u64,
    /// Cores that were woken.
    pub woken: u64,
}

/// A simulation of the contended model.
pub(super) struct Engine<'a, D: Dispatcher> {
    machine: &'a Machine,
    trace: &'a Trace,
    policy: &'a str,
    options: &'a Options<'a>,
    foresight: Foresight,
    costs: &'a Costs,
    addresses: Addresses,
    reader: Reader<'a>,
    pub(super) levels: Levels,
    /// Of each core: for what is fetched, and for what is read and written.
    fronts: Vec<[Option<Front>; 2]>,
    pub(super) cores: Vec<Core>,
    pub(super) streams: Vec<Stream>,
    pub(super) tally: Tally,
    pub(super) bound: Bound,
    dispatching: Dispatching<'a, D, Heard<'a>>,
    events: Events,
    pub(super) lock: PoolLock,
    pub(super) calls: CallUse,
    /// Tasks that did not end yet.
    left: usize,
    /// Cores with a task in hand.
    holding: usize,
    /// Calls in vain since the last one that gave a task.
    barren: usize,
    pub(super) makespan: Cycle,
}

fn worker(core: usize) -> WorkerId {
    WorkerId(core as u16)
}

fn is_fetch(access: Kind) -> usize {
    usize::from(access == Kind::Fetch)
}

impl<'a, D: Dispatcher> Engine<'a, D> {
    pub(super) fn new(
        trace: &'a Trace,
        machine: &'a Machine,
        policy: &'a str,
        seed: u64,
        options: &'a Options<'a>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, SimError> {
        let levels = Levels::new(machine, seed);
        let cores = usize::from(machine.cores);
        let tables = &machine.contended;
        let front = |core, access| {
            let (stop, private) = levels.front(core, access)?;
            Some(Front {
                stop,
                private,
                ahead: private && !levels.removes_from(stop.cache),
            })
        };
        let fronts = (0..cores).map(|core| [front(core, Kind::Read), front(core, Kind::Fetch)]);
        let fronts: Vec<_> = fronts.collect();
        let line = fronts[0][0].map_or(64, |front| 1 << front.stop.shift);
        let heard = Heard {
            observer,
            ops: Vec::new(),
            wakes: Vec::new(),
        };
        Ok(Engine {
            costs: tables.costs(policy),
            addresses: Addresses::new(tables.scheduler.address, line),
            reader: trace.reader()?,
            fronts,
            cores: (0..cores)
                .map(|_| Core::new(machine.caches.len()))
                .collect(),
            streams: tables
                .background
                .iter()
                .map(|table| Stream::new(table, machine))
                .collect(),
            tally: Tally::new(machine, trace),
            bound: Bound::new(machine, trace),
            dispatching: Dispatching::new(trace, machine, seed, heard)?,
            events: Events::new(cores + tables.background.len()),
            lock: PoolLock::default(),
            calls: CallUse::default(),
            left: trace.len(),
            holding: 0,
            barren: 0,
            makespan: 0,
            levels,
            machine,
            trace,
            policy,
            options,
            foresight: Foresight::default(),
        })
    }

    /// Rule 1: the first event of all happens, until every task has ended.
    pub(super) fn run(&mut self) -> Result<(), SimError> {
        self.dispatching.inject();
        self.dispatching.traffic.ops.clear();
        self.dispatching.traffic.wakes.clear();
        let cores = self.cores.len();
        for core in 0..cores {
            self.begin_call(core, 0, None);
        }
        for (index, stream) in self.streams.iter().enumerate() {
            let actor = cores + index;
            self.events.schedule(actor, stream.due(), Event::Background);
        }
        while self.left > 0 {
            let (time, actor) = self
                .events
                .first()
                .expect("background streams or cores have events");
            if actor >= cores {
                let next = self.streams[actor - cores].access(time, &mut self.levels);
                self.events.schedule(actor, next, Event::Background);
            } else if self.cores[actor].state == State::Calling {
                self.step_call(actor)?;
            } else if self.run_task(actor)? {
                self.options.go_on((self.trace.len() - self.left) as u64)?;
                self.finish(actor);
            }
        }
        self.close();
        Ok(())
    }

    /// Rule 3: records and touches, as long as no other event comes first. Whether the task has ended and may finish now.
    fn run_task(&mut self, index: usize) -> Result<bool, SimError> {
        let last = self.events.last_before_others(index, Event::Act);
        let last = last.unwrap_or(0);
        let ended = self.advance(index, last)?;
        let time = self.cores[index].time;
        self.events.schedule(index, time, Event::Act);
        Ok(ended)
    }

    /// The inner loop: until something would have to happen after `last`, or the task ends, which is said.
    fn advance(&mut self, index: usize, last: Cycle) -> Result<bool, SimError> {
        loop {
            if self.cores[index].rest.left > 0 && !self.touch_rest(index, last)? {
                return Ok(false);
            }
            if !self.take_records(index, last)? {
                return Ok(self.cores[index].time <= last);
            }
        }
    }

    /// The rest of a record, line by line. Whether it is done.
    fn touch_rest(&mut self, index: usize, last: Cycle) -> Result<bool, SimError> {
        let core = &mut self.cores[index];
        let tally = &mut self.tally.cores[index];
        let hit = self.machine.hit_cycles;
        let access = core.rest.access;
        let front =
            self.fronts[index][is_fetch(access)].expect("only a path with a cache has lines");
        let write = access == Kind::Write;
        let simple = front.private && (front.ahead || !write);
        while core.rest.left > 0 {
            let ordered = core.time <= last;
            let cycles = if simple && !core.rest.misses && (ordered || front.ahead) {
                let most = if front.ahead {
                    core.rest.left
                } else {
                    touches_until(last - core.time, hit).min(core.rest.left)
                };
                let cache = &mut self.levels.caches[front.stop.cache as usize];
                let hits = cache.use_run(core.rest.line, most, write);
                tally.task[usize::from(front.stop.table)].accesses += hits;
                core.rest.pass(hits);
                core.rest.misses = hits < most;
                let cycles = hits * hit; // at most the lines of all caches, 2^26, times 2^36
                tally.compute = tally.compute.saturating_add(cycles);
                cycles
            } else if ordered {
                let address = core.rest.line << front.stop.shift;
                let touched = self.levels.touch(index, access, address, core.time, tally);
                let path = self.levels.path(index, access);
                self.bound.touched(path, touched.missed, address);
                core.rest.pass(1);
                tally.compute = tally.compute.saturating_add(hit);
                hit + touched.cycles
            } else {
                return Ok(false);
            };
            let late = || too_late(self.trace, core.task, &core.source);
            core.time = core.time.checked_add(cycles).ok_or_else(late)?;
        }
        Ok(true)
    }

    /// Further records, as long as they compute, or touch one line that needs no more than the core's own first cache. Whether there
    /// are any.
    fn take_records(&mut self, index: usize, last: Cycle) -> Result<bool, SimError> {
        let core = &mut self.cores[index];
        let fronts = &self.fronts[index];
        let hit = self.machine.hit_cycles;
        let records = core.source.records(&mut self.reader)?;
        let (mut done, mut time, mut accesses) = (0, core.time, [0; 2]);
        let (mut late, mut touches) = (false, 0);
        for record in records {
            done += 1;
            let fetch = is_fetch(record.kind);
            let cycles = match (record.kind, &fronts[fetch]) {
                (Kind::Compute, _) => record.value,
                (_, None) => hit,
                (access, Some(front)) => {
                    let mut rest = lines(*record, front.stop);
                    let write = access == Kind::Write;
                    let simple = front.private && (front.ahead || (!write && time <= last));
                    let cache = &mut self.levels.caches[front.stop.cache as usize];
                    if rest.left == 1 && simple {
                        rest.misses = !cache.use_one(rest.line, write);
                    }
                    if rest.left > 1 || !simple || rest.misses {
                        touches = rest.left;
                        core.rest = rest;
                        break;
                    }
                    accesses[fetch] += 1;
                    hit
                }
            };
            let Some(then) = time.checked_add(cycles) else {
                late = true;
                break;
            };
            time = then;
        }
        core.source.take(done);
        if late {
            return Err(too_late(self.trace, core.task, &core.source));
        }
        let tally = &mut self.tally.cores[index];
        // Nothing but computation and hits.
        tally.compute = tally.compute.saturating_add(time - core.time);
        core.time = time;
        for (front, accesses) in fronts.iter().zip(accesses) {
            if let Some(front) = front {
                tally.task[usize::from(front.stop.table)].accesses += accesses;
            }
        }
        if touches >= LONG {
            self.foresight
                .lines(touches, self.trace, self.machine, self.options)?;
        }
        Ok(done > 0)
    }

    /// Rule 4: the task of a core ends; its call of the dispatcher begins.
    fn finish(&mut self, index: usize) {
        let core = &self.cores[index];
        let run = Run {
            core: index as u16,
            task: core.task,
            asked: core.asked,
            start: core.start,
            end: core.time,
            origin: core.origin,
        };
        let compute = self.tally.cores[index].compute - core.compute_before;
        self.tally.ended(self.trace, &run);
        let least = compute
            .saturating_add(self.machine.dispatch_cycles)
            .saturating_add(self.costs.call_cycles);
        self.bound.ended(self.trace, run.task, least);
        self.dispatching.traffic.observer.ended(&run);
        self.makespan = self.makespan.max(run.end);
        self.left -= 1;
        self.holding -= 1;
        self.begin_call(index, run.end, Some(run.task));
    }

    /// Rule 4: a core calls the dispatcher at `now`, because its task `ended` or because it is idle.
    fn begin_call(&mut self, index: usize, now: Cycle, ended: Option<u32>) {
        let core = &mut self.cores[index];
        core.state = State::Calling;
        core.time = now;
        core.asked = now;
        core.rest = Rest::NONE;
        let call = &mut core.call;
        call.steps.clear();
        call.step = 0;
        call.decided = false;
        call.got = None;
        call.ended = ended;
        let resolved = ended.map_or(0, |task| self.trace.successors(task).len() as u64);
        call::before(&mut call.steps, self.costs, self.addresses, resolved);
        self.events.schedule(index, now, Event::Call);
    }

    /// Rule 4: one step of a call: a touch, a computation, the decision, something with the lock, or the end.
    fn step_call(&mut self, index: usize) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        if core.rest.left > 0 {
            self.touch_in_call(index)?;
        } else if let Some(&step) = core.call.steps.get(core.call.step) {
            core.call.step += 1;
            match step {
                Step::Do(record) => self.do_in_call(index, record)?,
                Step::Lock if self.lock.take(index, core.time) => {}
                Step::Lock => {
                    core.state = State::Waiting;
                    self.events.cancel(index);
                    return Ok(());
                }
                Step::Unlock => {
                    let now = core.time;
                    if let Some(next) = self.lock.release(index, now) {
                        self.cores[next].state = State::Calling;
                        self.cores[next].time = now;
                        self.events.schedule(next, now, Event::Call);
                    }
                }
            }
        } else if core.call.decided {
            return self.end_call(index);
        } else {
            self.decide(index);
        }
        let time = self.cores[index].time;
        self.events.schedule(index, time, Event::Call);
        Ok(())
    }

    fn do_in_call(&mut self, index: usize, record: Record) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        let cycles = match record.kind {
            Kind::Compute => record.value,
            access => match self.fronts[index][is_fetch(access)] {
                Some(front) => {
                    core.rest = lines(record, front.stop);
                    return Ok(());
                }
                None => self.machine.hit_cycles,
            },
        };
        self.pass_time_in_call(index, cycles)
    }

    fn touch_in_call(&mut self, index: usize) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        let Rest { access, line, .. } = core.rest;
        let front =
            self.fronts[index][is_fetch(access)].expect("only a path with a cache has lines");
        let address = line << front.stop.shift;
        let touched = self
            .levels
            .touch(index, access, address, core.time, &mut core.of_calls);
        core.rest.pass(1);
        self.pass_time_in_call(index, self.machine.hit_cycles + touched.cycles)
    }

    fn pass_time_in_call(&mut self, index: usize, cycles: Cycle) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        let task = core
            .call
            .ended
            .or(core.call.got.map(|(task, _)| task))
            .unwrap_or(0);
        let overflow = || SimError::overflow(self.trace, task, None);
        core.time = core.time.checked_add(cycles).ok_or_else(overflow)?;
        Ok(())
    }

    /// Rule 4: dependency counts fall, the policy is told and asked.
    fn decide(&mut self, index: usize) {
        let me = worker(index);
        let got = match self.cores[index].call.ended {
            Some(task) => self.dispatching.turn(me, task),
            None => self.dispatching.next(me),
        };
        let core = &mut self.cores[index];
        let heard = &mut self.dispatching.traffic;
        match got {
            Some((task, origin)) => {
                heard.observer.given(me, task, origin, core.time);
                self.holding += 1;
                self.barren = 0;
            }
            None => heard.observer.idle(me, core.time),
        }
        let Call {
            steps,
            step,
            decided,
            wakes,
            got: answer,
            ..
        } = &mut core.call;
        *decided = true;
        *answer = got;
        steps.clear();
        *step = 0;
        for op in heard.ops.drain(..) {
            call::charged(steps, self.costs, self.addresses, me, op);
        }
        std::mem::swap(wakes, &mut heard.wakes);
    }

    /// Rule 4: wake-ups go out; the core begins its task, asks again or sleeps.
    fn end_call(&mut self, index: usize) -> Result<(), SimError> {
        let now = self.cores[index].time;
        let mut wakes = std::mem::take(&mut self.cores[index].call.wakes);
        for whom in wakes.drain(..) {
            self.deliver(whom, now);
        }
        let core = &mut self.cores[index];
        core.call.wakes = wakes;
        if let Some((task, origin)) = core.call.got {
            self.calls.gave += 1;
            self.pass_time_in_call(index, self.machine.dispatch_cycles)?;
            let core = &mut self.cores[index];
            core.state = State::Running;
            core.task = task;
            core.origin = origin;
            core.start = core.time;
            core.compute_before = self.tally.cores[index].compute;
            core.source.start(&mut self.reader, task);
            self.events.schedule(index, core.time, Event::Act);
            return Ok(());
        }
        self.calls.in_vain += 1;
        self.barren += 1;
        core.in_vain += now - core.asked;
        let took_no_time = now == core.asked;
        let stuck = self.holding == 0 && self.barren > 2 * self.cores.len() + 2;
        if self.dispatching.may_have(worker(index)) {
            if took_no_time || stuck {
                return Err(self.stuck());
            }
            self.begin_call(index, now, None);
            return Ok(());
        }
        let core = &mut self.cores[index];
        core.state = State::Asleep;
        core.since = now;
        self.events.cancel(index);
        if self.cores.iter().all(|core| core.state == State::Asleep) {
            return Err(self.stuck());
        }
        Ok(())
    }

    fn stuck(&self) -> SimError {
        SimError::stuck(self.policy, self.trace, &self.dispatching)
    }

    /// Rule 4: one wake-up that was asked for goes to a core that sleeps, if it does.
    fn deliver(&mut self, whom: Wake, now: Cycle) {
        let asleep = |core: &Core| core.state == State::Asleep;
        let sleeper = match whom {
            Wake::Anyone => self.cores.iter().position(asleep),
            Wake::This(worker) => Some(worker.index()).filter(|&core| asleep(&self.cores[core])),
        };
        let Some(sleeper) = sleeper else {
            return;
        };
        let then = now.saturating_add(self.machine.contended.scheduler.wake_cycles);
        let core = &mut self.cores[sleeper];
        core.idle += then - core.since;
        self.calls.woken += 1;
        self.begin_call(sleeper, then, None);
    }

    /// Rule 5: what lies behind the makespan does not count.
    fn close(&mut self) {
        for core in &mut self.cores {
            match core.state {
                State::Asleep => core.idle += self.makespan - core.since,
                State::Running => unreachable!("every task has ended"),
                State::Calling | State::Waiting if core.asked <= self.makespan => {
                    core.in_vain += self.makespan - core.asked;
                }
                State::Calling | State::Waiting => core.idle -= core.asked - self.makespan,
            }
        }
        let add = |sum: &mut Count, more: &Count| *sum += *more;
        for (core, tally) in self.cores.iter().zip(&mut self.tally.cores) {
            tally
                .before
                .iter_mut()
                .zip(&core.of_calls)
                .for_each(|(sum, more)| add(sum, more));
        }
    }
}

/// How many touches that hit begin within `cycles` cycles from now.
#[inline]
fn touches_until(cycles: Cycle, hit: Cycle) -> u64 {
    match hit {
        0 => u64::MAX,
        1 => cycles.saturating_add(1),
        _ => cycles / hit + 1,
    }
}

/// The last record that was taken would bring the clock past its end.
#[cold]
fn too_late(trace: &Trace, task: u32, source: &Source) -> SimError {
    SimError::overflow(trace, task, source.position().saturating_sub(1))
}

/// The lines that a record touches.
#[inline]
fn lines(record: Record, stop: Stop) -> Rest {
    let first = record.value >> stop.shift;
    let last = (record.value + (u64::from(record.size) - 1)) >> stop.shift;
    Rest {
        access: record.kind,
        line: first,
        left: last - first + 1,
        misses: false,
    }
}
