//! The loop over events. The comments cite the rules of RULES.md by number.

use super::background::Stream;
use super::call::{self, Addresses, LockOf, Step};
use super::core::{Call, Core, Rest, State};
use super::layout::Layout;
use super::levels::{Levels, Meter};
use super::lull::Lull;
use super::taking::{Front, Taken, Taking, lines};
use crate::SimError;
use crate::counts::contention::CallUse;
use crate::counts::tally::CoreTally;
use crate::machine::Cycle;
use crate::machine::contended::Costs;
use crate::models::Simulation;
use crate::observer::Run;
use crate::parts::events::{Events, Kind as Event};
use crate::parts::hierarchy::path_index;
use crate::parts::lock::Lock;
use tanada_policy::{Dispatcher, Wake, WorkerId};
use tanada_trace::{Kind, Record};

/// Counts lookups and waits of the running task.
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

/// Records of at least this many lines count as long.
const LONG: u64 = 4096;

/// Background accesses from one call of [`Options::watch`](crate::Options::watch) to the next, at most.
const WATCHED: u64 = 1 << 14;

/// A simulation of the contended model.
pub(super) struct Engine<'a, D: Dispatcher> {
    pub(super) sim: Simulation<'a, D>,
    costs: &'a Costs,
    addresses: Addresses,
    /// With `layout = "native"`.
    layout: Option<Layout>,
    /// With `layout = "native"`: cores that search, or have been woken to do so.
    searching: usize,
    pub(super) levels: Levels,
    /// Of each core: for fetches, and for data.
    fronts: Vec<[Option<Front>; 2]>,
    pub(super) cores: Vec<Core>,
    pub(super) streams: Vec<Stream>,
    lull: Lull,
    events: Events,
    /// The lock of the shared pool.
    pub(super) lock: Lock,
    /// The lock of each core's seat or mailbox.
    seats: Vec<Lock>,
    pub(super) calls: CallUse,
    /// Tasks that have not ended.
    left: usize,
    /// Cores that have received a task and not finished it.
    holding: usize,
    /// Calls without a task since the last one that returned a task.
    barren: usize,
    pub(super) makespan: Cycle,
}

fn worker(core: usize) -> WorkerId {
    WorkerId(core as u16)
}

impl<'a, D: Dispatcher> Engine<'a, D> {
    pub(super) fn new(sim: Simulation<'a, D>) -> Self {
        let machine = sim.machine;
        let levels = Levels::new(machine, sim.seed);
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
        let fronts = (0..cores).map(|core| [front(core, Kind::Fetch), front(core, Kind::Read)]);
        let fronts: Vec<_> = fronts.collect();
        let line = fronts[0][1].map_or(64, |front| 1 << front.stop.shift);
        let new_core = |_| Core::new(machine.caches.len());
        let new_stream = |table| Stream::new(table, machine);
        Engine {
            costs: tables.costs(sim.policy),
            addresses: Addresses::new(tables.scheduler.address, line),
            layout: match tables.scheduler.layout {
                crate::machine::contended::Layout::Flat => None,
                crate::machine::contended::Layout::Native(native) => {
                    Some(Layout::new(native, cores))
                }
            },
            searching: 0,
            fronts,
            cores: (0..cores).map(new_core).collect(),
            streams: tables.background.iter().map(new_stream).collect(),
            events: Events::new(cores + tables.background.len()),
            lock: Lock::default(),
            seats: (0..cores).map(|_| Lock::default()).collect(),
            calls: CallUse::default(),
            left: sim.trace.len(),
            holding: 0,
            barren: 0,
            makespan: 0,
            lull: Lull::new(&levels),
            levels,
            sim,
        }
    }

    /// Rule 1: executes the first event of all until every task has ended.
    pub(super) fn run(&mut self) -> Result<(), SimError> {
        self.sim.dispatching.inject();
        self.sim.dispatching.env.ops.clear();
        self.sim.dispatching.env.wakes.clear();
        let cores = self.cores.len();
        for core in 0..cores {
            self.begin_call(core, 0, None);
        }
        self.schedule_streams();
        let mut background = 0u64;
        while self.left > 0 {
            let (time, actor) = self
                .events
                .first()
                .expect("background streams or cores have events");
            if actor >= cores {
                self.access_background(time, actor - cores);
                // A period of the background may take long to simulate.
                background += 1;
                if background.is_multiple_of(WATCHED) {
                    self.sim.check_cancelled()?;
                }
                continue;
            }
            self.lull.end();
            if self.cores[actor].state == State::Calling {
                self.step_call(actor)?;
            } else if self.run_task(actor)? {
                self.sim.check_cancelled()?;
                self.finish(actor);
            }
        }
        self.close();
        Ok(())
    }

    /// Rule 6: the access of a stream, or as many whole periods of all streams as end before a core acts.
    fn access_background(&mut self, time: Cycle, stream: usize) {
        // A core that has an event is at its time, and sleeping and waiting ones have none.
        let acts = |core: &&Core| matches!(core.state, State::Running | State::Calling);
        let times = self.cores.iter().filter(acts).map(|core| core.time);
        let end = || times.min().unwrap_or(time);
        let (streams, levels) = (&mut self.streams, &mut self.levels);
        if self.lull.skips(time, end, streams, levels) {
            return self.schedule_streams();
        }
        let actor = self.cores.len() + stream;
        levels.kind = Event::Background;
        let next = streams[stream].access(time, levels);
        if !self.levels.undone.is_empty() {
            self.resume_undone();
        }
        self.events.schedule(actor, next, Event::Background);
    }

    fn schedule_streams(&mut self) {
        for (index, stream) in self.streams.iter().enumerate() {
            let actor = self.cores.len() + index;
            self.events.schedule(actor, stream.due(), Event::Background);
        }
    }

    /// Rule 3: executes records and touches until another event comes first. Returns whether the task has ended and may finish now.
    fn run_task(&mut self, index: usize) -> Result<bool, SimError> {
        self.levels.ahead[index].uses.clear();
        self.levels.kind = Event::Act;
        let last = self.events.last_before_others(index, Event::Act);
        let last = last.unwrap_or(0);
        let ended = self.advance(index, last)?;
        let time = self.cores[index].time;
        self.events.schedule(index, time, Event::Act);
        Ok(ended)
    }

    /// The inner loop: executes until the next step is due after `last`, or the task ends. Returns whether it ends, at `last` at the
    /// latest.
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

    /// Touches the rest of a record, line by line, up to the first line that is due after `last`. Returns whether the record is done.
    fn touch_rest(&mut self, index: usize, last: Cycle) -> Result<bool, SimError> {
        let core = &mut self.cores[index];
        let tally = &mut self.sim.tally.cores[index];
        let hit = self.sim.machine.hit_cycles;
        let access = core.rest.access;
        let front =
            self.fronts[index][path_index(access)].expect("only a path with a cache has lines");
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
                let path = &self.levels.paths[index][path_index(access)];
                self.sim.bound.touched(path, touched.missed, address);
                core.rest.pass(1);
                tally.compute = tally.compute.saturating_add(hit);
                hit + touched.cycles
            } else {
                return Ok(false);
            };
            let Some(time) = core.time.checked_add(cycles) else {
                return Err(self.overflow(index));
            };
            core.time = time;
            if !self.levels.undone.is_empty() {
                self.resume_undone();
                return Ok(false); // `last` may be too late now
            }
        }
        Ok(true)
    }

    /// Moves cores back to the first of their uses that were undone.
    #[cold]
    fn resume_undone(&mut self) {
        for (index, first) in self.levels.undone.drain(..) {
            let core = &mut self.cores[index];
            let ahead = &mut self.levels.ahead[index];
            core.source
                .give_back(ahead.records - first.records as usize);
            ahead.records = first.records as usize;
            let tally = &mut self.sim.tally.cores[index];
            tally.compute -= core.time - first.time;
            core.time = first.time;
            for (number, front) in self.fronts[index].iter().enumerate() {
                let hits = u64::from(first.hits[number]);
                if let Some(front) = front {
                    let count = &mut tally.task[usize::from(front.stop.table)];
                    count.accesses -= ahead.hits[number] - hits;
                }
                ahead.hits[number] = hits;
            }
            self.events.schedule(index, first.time, Event::Act);
        }
    }

    /// Executes further records, as long as they compute, or touch one line that hits the core's own first cache. Returns whether there
    /// were any.
    fn take_records(&mut self, index: usize, last: Cycle) -> Result<bool, SimError> {
        if !self.levels.ahead[index].uses.is_empty() {
            // What was done ahead must be final before more is taken.
            return Ok(false);
        }
        let core = &mut self.cores[index];
        let fronts = &self.fronts[index];
        let taking = Taking {
            fronts: *fronts,
            hit: self.sim.machine.hit_cycles,
            last,
            time: core.time,
            ahead: &mut self.levels.ahead[index].uses,
        };
        let records = core.source.records(&mut self.sim.reader)?;
        let Taken {
            done,
            time,
            accesses,
            late,
            rest,
        } = taking.run(records, &mut self.levels.caches);
        let touches = rest.map_or(0, |rest| rest.left);
        if let Some(rest) = rest {
            core.rest = rest;
        }
        let ahead = &mut self.levels.ahead[index];
        ahead.records = done;
        ahead.hits = accesses;
        core.source.take(done);
        if late {
            return Err(self.overflow(index));
        }
        let tally = &mut self.sim.tally.cores[index];
        // All of it is computation and hits.
        tally.compute = tally.compute.saturating_add(time - core.time);
        core.time = time;
        for (front, accesses) in fronts.iter().zip(accesses) {
            if let Some(front) = front {
                tally.task[usize::from(front.stop.table)].accesses += accesses;
            }
        }
        if touches >= LONG {
            self.sim.announce_lines(touches)?;
        }
        Ok(done > 0)
    }

    /// Rule 4: ends the task of a core, and begins its call of the dispatcher.
    fn finish(&mut self, index: usize) {
        let core = &self.cores[index];
        let run = Run {
            end: core.time,
            ..core.run
        };
        let overhead = self.sim.machine.dispatch_cycles + self.costs.call_cycles;
        self.sim.ended(&run, overhead);
        self.makespan = self.makespan.max(run.end);
        self.left -= 1;
        self.holding -= 1;
        self.begin_call(index, run.end, Some(run.task));
    }

    /// Rule 4: begins a call of the dispatcher at `now`: a turn if a task has `ended`, else a `next`.
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
        let edges = ended.map_or(&[][..], |task| self.sim.trace.successors(task));
        let resolved = match self.layout {
            None => edges.len() as u64,
            Some(_) => 0,
        };
        let (steps, at) = (&mut call.steps, self.addresses);
        call::before(steps, self.costs, at, resolved);
        if let Some(layout) = &self.layout {
            layout.before(steps, self.costs, at, worker(index), edges.iter());
        }
        self.events.schedule(index, now, Event::Call);
    }

    /// Rule 4: executes one step of a call: a touch, a computation, the decision, an operation on the lock, or the end.
    fn step_call(&mut self, index: usize) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        if core.rest.left > 0 {
            self.touch_in_call(index)?;
        } else if let Some(&step) = core.call.steps.get(core.call.step) {
            core.call.step += 1;
            match step {
                Step::Do(record) => self.do_in_call(index, record)?,
                Step::Lock(of)
                    if lock(&mut self.lock, &mut self.seats, of).take(index, core.time) => {}
                Step::Lock(_) => {
                    core.state = State::Waiting;
                    self.events.cancel(index);
                    return Ok(());
                }
                Step::Unlock(of) => {
                    let now = core.time;
                    let lock = lock(&mut self.lock, &mut self.seats, of);
                    if let Some(next) = lock.release(index, now) {
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
            access => match self.fronts[index][path_index(access)] {
                Some(front) => {
                    core.rest = lines(record, front.stop);
                    return Ok(());
                }
                None => self.sim.machine.hit_cycles,
            },
        };
        self.pass_time_in_call(index, cycles)
    }

    fn touch_in_call(&mut self, index: usize) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        let Rest { access, line, .. } = core.rest;
        let front =
            self.fronts[index][path_index(access)].expect("only a path with a cache has lines");
        let address = line << front.stop.shift;
        self.levels.kind = Event::Call;
        let touched = self
            .levels
            .touch(index, access, address, core.time, &mut core.of_calls);
        core.rest.pass(1);
        if !self.levels.undone.is_empty() {
            self.resume_undone();
        }
        self.pass_time_in_call(index, self.sim.machine.hit_cycles + touched.cycles)
    }

    fn pass_time_in_call(&mut self, index: usize, cycles: Cycle) -> Result<(), SimError> {
        let core = &mut self.cores[index];
        let task = core
            .call
            .ended
            .or(core.call.got.map(|(task, _)| task))
            .unwrap_or(0);
        let time = core.time.checked_add(cycles);
        core.time = time.ok_or_else(|| self.sim.overflow(task, None))?;
        Ok(())
    }

    /// Rule 4: the decision. Lowers dependency counts, calls the policy, and turns its charges into steps.
    fn decide(&mut self, index: usize) {
        let me = worker(index);
        let got = match self.cores[index].call.ended {
            Some(task) => self.sim.dispatching.turn(me, task),
            None => self.sim.dispatching.next(me),
        };
        let core = &mut self.cores[index];
        let env = &mut self.sim.dispatching.env;
        match got {
            Some((task, origin)) => {
                env.observer.given(me, task, origin, core.time);
                self.holding += 1;
                self.barren = 0;
            }
            None => env.observer.idle(me, core.time),
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
        let (costs, at) = (self.costs, self.addresses);
        for op in env.ops.drain(..) {
            // A worker that does not exist is on no socket.
            let far = match call::whose(op) {
                Some(of) if costs.hop_cycles > 0 && of.index() < self.seats.len() => {
                    costs.far(self.levels.memory.hops(index, of.index()))
                }
                _ => 0,
            };
            match &mut self.layout {
                Some(layout) => layout.charged(steps, costs, at, me, op, far),
                None => call::charged(steps, costs, at, self.seats.len(), me, op, far),
            }
        }
        std::mem::swap(wakes, &mut env.wakes);
        if self.layout.is_some() {
            self.search_or_not(index);
        }
    }

    /// Rule 4.2, behind the decision: a core that found no task counts as searching, and pauses or announces that it will sleep; one that
    /// found a task ends its search.
    fn search_or_not(&mut self, index: usize) {
        let Some(layout) = &self.layout else { return };
        let (core, at) = (&mut self.cores[index], self.addresses);
        let most = core.rounds_of(&layout.costs);
        let Call {
            steps, got, wakes, ..
        } = &mut core.call;
        if let Some((task, _)) = *got {
            if std::mem::take(&mut core.searching) {
                Layout::counts_searching(steps, at);
                self.searching -= 1;
                if self.searching == 0 {
                    wakes.push(Wake::Anyone);
                }
            }
            Layout::begins(steps, at, task);
            return;
        }
        if !core.searching {
            core.searching = true;
            core.rounds = 0;
            self.searching += 1;
            Layout::counts_searching(steps, at);
        }
        core.rounds += 1;
        if core.rounds < most {
            call::compute(steps, layout.costs.search_cycles);
        } else {
            Layout::announces_sleep(steps, at);
        }
    }

    /// Rule 4.2, the end: delivers the wake-ups of a call, and replaces its steps by those that this costs.
    fn wake_natively(&mut self, index: usize) {
        let now = self.cores[index].time;
        let mut wakes = std::mem::take(&mut self.cores[index].call.wakes);
        let mut steps = std::mem::take(&mut self.cores[index].call.steps);
        steps.clear();
        let anyone = wakes.iter().filter(|&&whom| whom == Wake::Anyone).count();
        let mut claims = 0;
        let at = self.addresses;
        for whom in wakes.drain(..) {
            if let Wake::This(whom) = whom {
                Layout::looks_who_sleeps(&mut steps, at);
                let sleeps = |core: &Core| core.state == State::Asleep;
                if self.cores.get(whom.index()).is_some_and(sleeps) {
                    self.claim(whom.index(), now, &mut claims, &mut steps);
                }
            }
        }
        if anyone > 0 {
            Layout::looks_who_searches(&mut steps, at);
        }
        for _ in 0..anyone {
            if self.searching >= anyone {
                break;
            }
            let sleeps = |core: &Core| core.state == State::Asleep;
            match self.cores.iter().position(sleeps) {
                Some(sleeper) => self.claim(sleeper, now, &mut claims, &mut steps),
                None => break,
            }
        }
        let call = &mut self.cores[index].call;
        call.steps = steps;
        call.step = 0;
        call.wakes = wakes;
    }

    /// Wakes `sleeper` as the next one after `claims` others, and adds the steps of that to `steps`.
    fn claim(&mut self, sleeper: usize, now: Cycle, claims: &mut u64, steps: &mut Vec<Step>) {
        let Some(layout) = &self.layout else { return };
        layout.wakes(steps, self.addresses);
        *claims += 1;
        let calls = claims.saturating_mul(layout.costs.wake_call_cycles);
        let long = layout.costs.long_sleep_cycles;
        self.searching += 1;
        let then = self.wake(sleeper, now.saturating_add(calls));
        let core = &mut self.cores[sleeper];
        core.searching = true;
        core.rounds = 0;
        core.slept_long = then - core.since >= long;
    }

    /// Rule 4: the end. Delivers wake-ups; then the core begins its task, asks again or falls asleep.
    fn end_call(&mut self, index: usize) -> Result<(), SimError> {
        let now = self.cores[index].time;
        if self.layout.is_some() && !self.cores[index].call.wakes.is_empty() {
            self.wake_natively(index);
            self.events.schedule(index, now, Event::Call);
            return Ok(());
        }
        let mut wakes = std::mem::take(&mut self.cores[index].call.wakes);
        for whom in wakes.drain(..) {
            self.deliver(whom, now);
        }
        let core = &mut self.cores[index];
        core.call.wakes = wakes;
        if let Some((task, origin)) = core.call.got {
            self.calls.gave += 1;
            self.pass_time_in_call(index, self.sim.machine.dispatch_cycles)?;
            let core = &mut self.cores[index];
            core.state = State::Running;
            core.run = Run {
                core: index as u16,
                task,
                asked: core.asked,
                start: core.time,
                end: core.time,
                origin,
            };
            core.source.start(&mut self.sim.reader, task);
            self.events.schedule(index, core.time, Event::Act);
            return Ok(());
        }
        self.calls.in_vain += 1;
        self.barren += 1;
        core.in_vain += now - core.asked;
        let took_no_time = now == core.asked;
        if let Some(layout) = &self.layout {
            if core.rounds < core.rounds_of(&layout.costs) {
                self.begin_call(index, now, None);
                return Ok(());
            }
            // It leaves, and comes back if there may be a task.
            core.searching = false;
            core.slept_long = false;
            self.searching -= 1;
        }
        // A core that is being woken has not looked yet, and the task may be for it alone; one that ends a task may release others.
        let acts = |core: &Core| {
            let calls = matches!(core.state, State::Calling | State::Waiting);
            calls && (core.asked > now || core.call.ended.is_some())
        };
        let stuck = self.holding == 0
            && self.barren > 2 * self.cores.len() + 2
            && !self.cores.iter().any(acts);
        if self.sim.dispatching.may_have(worker(index)) {
            if took_no_time || stuck {
                return Err(self.sim.stuck());
            }
            self.begin_call(index, now, None);
            return Ok(());
        }
        let core = &mut self.cores[index];
        core.state = State::Asleep;
        core.since = now;
        self.events.cancel(index);
        if self.cores.iter().all(|core| core.state == State::Asleep) {
            return Err(self.sim.stuck());
        }
        Ok(())
    }

    /// Returns the error for the last record that a core took, which takes its clock past the end.
    #[cold]
    fn overflow(&self, index: usize) -> SimError {
        let core = &self.cores[index];
        let record = core.source.position().saturating_sub(1);
        self.sim.overflow(core.run.task, Some(record))
    }

    /// Rule 4: delivers one wake-up, if a core that it is for sleeps.
    fn deliver(&mut self, whom: Wake, now: Cycle) {
        let asleep = |core: &Core| core.state == State::Asleep;
        let sleeper = match whom {
            Wake::Anyone => self.cores.iter().position(asleep),
            Wake::This(worker) => {
                Some(worker.index()).filter(|&core| self.cores.get(core).is_some_and(asleep))
            }
        };
        let Some(sleeper) = sleeper else {
            return;
        };
        self.wake(sleeper, now);
    }

    /// Wakes a core that sleeps, by a call that ends at `now`. Returns the time at which it asks for a task.
    fn wake(&mut self, sleeper: usize, now: Cycle) -> Cycle {
        let then = now.saturating_add(self.sim.machine.contended.scheduler.wake_cycles);
        let core = &mut self.cores[sleeper];
        core.idle += then - core.since;
        self.calls.woken += 1;
        self.begin_call(sleeper, then, None);
        then
    }

    /// Rule 5: removes cycles after the makespan from the counts.
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
        for (core, tally) in self.cores.iter().zip(&mut self.sim.tally.cores) {
            let counts = tally.before.iter_mut().zip(&core.of_calls);
            counts.for_each(|(sum, more)| *sum += *more);
        }
    }
}

/// Returns the number of hits that begin within the next `cycles` cycles.
#[inline]
fn touches_until(cycles: Cycle, hit: Cycle) -> u64 {
    match hit {
        0 => u64::MAX,
        1 => cycles.saturating_add(1),
        _ => cycles / hit + 1,
    }
}

fn lock<'a>(pool: &'a mut Lock, seats: &'a mut [Lock], of: LockOf) -> &'a mut Lock {
    match of {
        LockOf::Pool => pool,
        LockOf::Seat(core) => &mut seats[core.index()],
    }
}
