//! The loop of steps; rules 1, 2, 3.3 and 5.

use super::caches::{Caches, Cause, DATA, FETCH, Found, Miss};
use super::due::Due;
use super::firsts::Firsts;
use super::library::{Effect, Library, Logical, State};
use super::outcome::PeriodRow;
use super::params::{Params, TICKS};
use super::periods::Periods;
use super::series::{Recorder, Sums};
use super::{Program, ThreadOptions};
use crate::SimError;
use crate::machine::Machine;
use std::collections::BTreeMap;
use tanada_policy::{Activity, CacheUse, Governor, Period, Plan};
use tanada_trace::threads::{Event, Sync};

/// An access that a hardware thread does not wait for.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// Issued instructions at which the thread waits; `u64::MAX` of a store.
    limit: u64,
    arrival: u64,
    /// Whether it has one of the `mshrs` places.
    place: bool,
}

/// A hardware thread.
#[derive(Clone, Debug)]
struct Hardware {
    /// What it runs, if it runs anything.
    logical: u32,
    clock: u64,
    fetched: u64,
    /// When its last instructions had issued.
    end: u64,
    issued: u64,
    outstanding: Vec<Outstanding>,
    instructions: u64,
    /// Values at the last call of the governor: instructions, idle ticks, lookups and misses.
    before: (u64, u64, CacheUse),
}

pub(super) struct Engine<'a> {
    pub(super) params: Params,
    pub(super) caches: Caches,
    pub(super) system: Library<'a>,
    hardware: Vec<Hardware>,
    /// Of each core, those that run a logical thread, by their clock. With pipes of their own, by when clock and pipe let them step.
    due: Vec<Due>,
    /// When each pipe is free: of a core, or of a hardware thread.
    pipe: Vec<u64>,
    ports: Vec<u64>,
    /// The hardware thread that stepped last on each core, in it.
    last: Vec<usize>,
    /// First step of each core; kept if there are several.
    firsts: Firsts,
    governor: Box<dyn Governor>,
    /// When the governor is called or an interval of the series ends, whichever comes first.
    next_stop: u64,
    next_call: u64,
    last_call: u64,
    width: usize,
    options: &'a ThreadOptions<'a>,
    steps: u64,
    pub(super) end: u64,
    pub(super) periods: Periods,
    pub(super) series: Option<Recorder>,
}

/// What `logical` is if a hardware thread runs none.
const NONE: u32 = u32::MAX;
/// Steps from one look at [`ThreadOptions::watch`] to the next.
const WATCHED: u64 = 1 << 16;
/// The last tick: a step and a call of the governor add less than a quarter of what is left.
const LAST_TICK: u64 = 1 << 62;

impl<'a> Engine<'a> {
    pub(super) fn new(
        program: &'a dyn Program,
        machine: &Machine,
        governor: Box<dyn Governor>,
        options: &'a ThreadOptions<'a>,
    ) -> Result<Engine<'a>, SimError> {
        let params = Params::new(machine)?;
        let threads = params.cores * params.per_core;
        let seed = options.seed.unwrap_or(machine.seed);
        let pipes = if params.static_issue {
            threads
        } else {
            params.cores
        };
        let idle = Hardware {
            logical: NONE,
            clock: 0,
            fetched: u64::MAX,
            end: 0,
            issued: 0,
            outstanding: Vec::new(),
            instructions: 0,
            before: (0, 0, CacheUse::default()),
        };
        let tables = machine.caches.len();
        let series = options
            .observe
            .map(|intervals| Recorder::new(intervals, tables, program.threads()));
        let end = series.as_ref().map_or(u64::MAX, Recorder::next);
        let mut system = Library::new(program, params.stack_size, params.stack_spacing);
        system.waited = series.is_some().then(BTreeMap::new);
        Ok(Engine {
            caches: Caches::new(machine, &params, seed),
            system,
            hardware: vec![idle; threads],
            due: vec![Due::new(); params.cores],
            pipe: vec![0; pipes],
            ports: vec![0; params.ports * params.cores],
            last: vec![params.per_core - 1; params.cores],
            firsts: Firsts::new(params.cores),
            governor,
            next_stop: params.period.min(end),
            next_call: params.period,
            last_call: 0,
            width: threads,
            options,
            steps: 0,
            end: 0,
            periods: Periods::new(),
            series,
            params,
        })
    }

    /// Returns the number of hardware threads.
    pub(super) fn threads(&self) -> usize {
        self.hardware.len()
    }

    /// Returns the index, core by core, of the hardware thread of this number.
    pub(super) fn index(&self, number: usize) -> usize {
        number % self.params.cores * self.params.per_core + number / self.params.cores
    }

    pub(super) fn instructions(&self, index: usize) -> u64 {
        self.hardware[index].instructions
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// If a stream cannot be read, all threads wait for each other, the clock would overflow, or `options` stop the run.
    pub(super) fn run(&mut self) -> Result<(), SimError> {
        if self.system.left > 0 {
            self.system.join_queue(0, 0)?;
            self.hand_out();
        }
        while self.system.left > 0 {
            let Some((now, core)) = self.first() else {
                self.force()?;
                continue;
            };
            if now >= self.next_stop {
                self.stop(now)?;
                continue;
            }
            let thread = self.choose(core, now);
            self.step(core * self.params.per_core + thread, core, now)?;
            if self.params.cores > 1 {
                self.firsts.set(core, self.first_of(core));
            }
            self.steps += 1;
            if self.steps.is_multiple_of(WATCHED) {
                self.watch(now)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn watch(&self, now: u64) -> Result<(), SimError> {
        let done = self.hardware.iter().map(|one| one.instructions).sum();
        match self.options.watch {
            Some(watch) if !watch(done) => Err(SimError::Cancelled),
            _ if now > LAST_TICK => Err(SimError::TooLong),
            _ => Ok(()),
        }
    }

    /// Returns when the first step is, and on which core; `None` if no thread runs.
    #[inline(always)]
    fn first(&self) -> Option<(u64, usize)> {
        let (now, core) = match self.params.cores {
            1 => (self.first_of(0), 0),
            _ => self.firsts.least(),
        };
        (now < u64::MAX).then_some((now, core))
    }

    /// Returns when the first step of a core is; `u64::MAX` if it runs no thread.
    #[inline(always)]
    fn first_of(&self, core: usize) -> u64 {
        match self.params.static_issue {
            true => self.due[core].first(0),
            false => self.due[core].first(self.pipe[core]),
        }
    }

    /// Lets a running hardware thread step from tick `t` on, or when its own pipe is free.
    #[inline(always)]
    fn run_from(&mut self, core: usize, thread: usize, t: u64) {
        self.hardware[thread].clock = t;
        let from = match self.params.static_issue {
            true => t.max(self.pipe[thread]),
            false => t,
        };
        self.due[core].insert(thread - core * self.params.per_core, from);
    }

    /// Returns which hardware thread of a core steps at `now`.
    #[inline(always)]
    fn choose(&mut self, core: usize, now: u64) -> usize {
        let able = self.due[core].able(now);
        let last = self.last[core];
        let thread = if self.params.icount {
            self.choose_by_count(core * self.params.per_core, able, now, last)
        } else {
            // Those behind the last one come first.
            let behind = able & (u64::MAX << last << 1);
            let first = if behind != 0 { behind } else { able };
            first.trailing_zeros() as usize
        };
        self.due[core].take(thread);
        self.last[core] = thread;
        thread
    }

    #[inline(never)]
    fn choose_by_count(&self, from: usize, able: u64, now: u64, last: usize) -> usize {
        let per_core = self.params.per_core;
        let rank = |&i: &usize| {
            let one = &self.hardware[from + i];
            let loads = one.outstanding.iter();
            let loads = loads.filter(|one| one.limit < u64::MAX && one.arrival > now);
            let oldest = loads.map(|one| one.limit).min();
            let behind = oldest.map_or(0, |limit| one.issued + self.params.window - limit);
            (behind, one.end, (i + per_core - last - 1) % per_core)
        };
        let able = (0..per_core).filter(|i| able >> i & 1 != 0);
        able.min_by_key(rank)
            .expect("a step is due, so a thread is able")
    }

    /// Makes a step of a hardware thread; rule 2.
    ///
    /// # Errors
    /// If the logical thread's stream cannot be read.
    #[inline(always)]
    fn step(&mut self, thread: usize, core: usize, now: u64) -> Result<(), SimError> {
        let (params, caches) = (&self.params, &mut self.caches);
        let one = &mut self.hardware[thread];
        let lt = &mut self.system.threads[one.logical as usize];
        let pipe = &mut self.pipe[if params.static_issue { thread } else { core }];
        // Issues the instructions of the step, the last of which may be an access, and returns its `end`.
        let mut issue = |caches: &mut Caches,
                         one: &mut Hardware,
                         lt: &mut Logical<'_>,
                         n: u64,
                         is_access: bool| {
            lt.instructions += n;
            one.instructions += n;
            one.issued += n;
            let others = n - u64::from(is_access && n > 0);
            *pipe = now + (n * params.slot).max(others * params.unit);
            let issued = n * params.instruction;
            one.end = now + issued;
            caches.charge_issue(thread, now - one.clock, issued);
            one.end
        };
        let mut most = params.burst;
        if params.window > 0 && !one.outstanding.is_empty() {
            one.outstanding.retain(|one| one.arrival > now);
            let limits = one.outstanding.iter().map(|one| one.limit);
            most = most.min(limits.min().unwrap_or(u64::MAX) - one.issued);
        }
        let mut n = 0_u64;
        loop {
            let Some(event) = lt.events.get(lt.at) else {
                if lt.refill()? {
                    continue;
                }
                let t = issue(caches, one, lt, n, false);
                return self.sync(thread, core, Sync::Exit, t);
            };
            // First, because most events are accesses: a table of all kinds would be mispredicted more often.
            if let &Event::Access {
                after,
                address,
                bytes,
                store,
            } = event
            {
                let left = u64::from(after) - lt.part;
                if n + left > most {
                    lt.part += most - n;
                    n = most;
                    break;
                }
                n += left;
                (lt.part, lt.at) = (0, lt.at + 1);
                let mut address = address;
                if address.wrapping_sub(lt.stack.0) < lt.stack.1 {
                    address = address.wrapping_add(lt.moved);
                    lt.stack_accesses += 1;
                }
                let t = issue(caches, one, lt, n, true);
                let t = self.access(thread, core, [now, t], address, bytes.into(), store);
                self.go_on(core, thread, t);
                return Ok(());
            }
            match event {
                &Event::Instructions(count) => {
                    let left = u64::from(count) - lt.part;
                    if n + left > most {
                        lt.part += most - n;
                        n = most;
                        break;
                    }
                    n += left;
                    (lt.part, lt.at) = (0, lt.at + 1);
                    if n == most {
                        break;
                    }
                }
                &Event::Block { address, bytes, .. } => {
                    let shift = caches.levels[FETCH].shift;
                    if shift < 64 && bytes > 0 {
                        let last = (address + u64::from(bytes) - 1) >> shift;
                        let line = (address >> shift) + lt.part;
                        if line != last || line != one.fetched {
                            let fetched = &mut one.fetched;
                            let found = fetch(caches, [core, thread], fetched, line, last, now);
                            if let Some((line, found)) = found {
                                lt.part = line + 1 - (address >> shift);
                                let t = issue(caches, one, lt, n, false);
                                let t = self.fetch_late(core, thread, [now, t], line, found);
                                self.go_on(core, thread, t);
                                return Ok(());
                            }
                        }
                    }
                    (lt.part, lt.at) = (0, lt.at + 1);
                }
                &Event::Sync(sync) => {
                    lt.at += 1;
                    match sync {
                        Sync::Mark { .. }
                        | Sync::LoopBegin(_)
                        | Sync::Iteration { .. }
                        | Sync::LoopEnd => {}
                        sync => {
                            let t = issue(caches, one, lt, n, false);
                            return self.sync(thread, core, sync, t);
                        }
                    }
                }
                Event::Access { .. } => {}
            }
        }
        let t = issue(caches, one, lt, n, false);
        self.go_on(core, thread, t);
        Ok(())
    }

    /// Lets a hardware thread make its next step from tick `t` on, or when the loads have arrived for which it must wait.
    #[inline(always)]
    fn go_on(&mut self, core: usize, thread: usize, t: u64) {
        let t = match self.params.window {
            0 => t,
            _ => self.limit(thread, t),
        };
        self.run_from(core, thread, t);
    }

    /// Returns when a line of code is there that a lookup at `now` did not find; the step's instructions have issued at `t`.
    #[inline(never)]
    fn fetch_late(
        &mut self,
        core: usize,
        thread: usize,
        [now, t]: [u64; 2],
        line: u64,
        found: Found,
    ) -> u64 {
        match found {
            Found::Here => t,
            Found::Late(arrival) => {
                let at = t.max(arrival);
                self.caches.charge(thread, Cause::Late, at - t);
                at
            }
            Found::Missed(victim) => {
                let miss = Miss {
                    path: FETCH,
                    address: line << self.caches.levels[FETCH].shift,
                    victim,
                };
                let caches = &mut self.caches;
                caches.fill(&self.params, core, thread, miss, [now, t], true)
            }
        }
    }

    /// Executes an access whose instruction has issued at `t`, and returns when the thread goes on.
    #[inline(always)]
    fn access(
        &mut self,
        thread: usize,
        core: usize,
        [now, mut t]: [u64; 2],
        address: u64,
        bytes: u64,
        store: bool,
    ) -> u64 {
        let shift = self.caches.levels[DATA].shift;
        if shift == 64 {
            return t;
        }
        let last = address.wrapping_add(bytes - 1) >> shift;
        let mut line = address >> shift;
        loop {
            if self.params.port > 0 {
                let from = core * self.params.ports;
                let ports = &mut self.ports[from..from + self.params.ports];
                let mut port = 0;
                for i in 1..ports.len() {
                    if ports[i] < ports[port] {
                        port = i;
                    }
                }
                let a = t.max(ports[port]);
                ports[port] = a + self.params.port;
                self.caches.charge(thread, Cause::Ports, a - t);
                t = a;
            }
            match self.caches.look_up(core, thread, DATA, line, store, t) {
                Found::Here => {}
                found => t = self.not_here(core, thread, [now, t], line << shift, store, found),
            }
            if line == last {
                break;
            }
            // An access whose end lies beyond the last address wraps around.
            line = (line + 1) & (u64::MAX >> shift);
        }
        self.caches
            .charge(thread, Cause::Instructions, self.params.hit);
        t + self.params.hit
    }

    /// Does what a lookup at `t` that did not find its line entails, and returns when the access goes on.
    #[inline(never)]
    fn not_here(
        &mut self,
        core: usize,
        thread: usize,
        [now, t]: [u64; 2],
        address: u64,
        store: bool,
        found: Found,
    ) -> u64 {
        let blocks = self.params.mshrs == 0;
        let one = &mut self.hardware[thread];
        let limit = match store {
            true => u64::MAX,
            false => one.issued + self.params.window,
        };
        match found {
            Found::Here => t,
            Found::Late(arrival) if blocks => {
                self.caches.charge(thread, Cause::Late, arrival - t);
                arrival
            }
            Found::Late(arrival) => {
                let mut loads = one.outstanding.iter().filter(|one| one.limit < u64::MAX);
                if !store && !loads.any(|one| one.arrival >= arrival) {
                    one.outstanding.push(Outstanding {
                        limit,
                        arrival,
                        place: false,
                    });
                }
                t
            }
            Found::Missed(victim) => {
                let mut at = t;
                let places = || one.outstanding.iter().filter(|one| one.place);
                if !blocks && places().count() == self.params.mshrs {
                    let earliest = one.outstanding.iter().enumerate();
                    let earliest = earliest.filter(|(_, one)| one.place);
                    let (i, arrival) = earliest
                        .map(|(i, one)| (i, one.arrival))
                        .min_by_key(|&(_, arrival)| arrival)
                        .expect("all places are taken");
                    one.outstanding.remove(i);
                    at = at.max(arrival);
                    self.caches.charge(thread, Cause::Window, at - t);
                }
                let miss = Miss {
                    path: DATA,
                    address,
                    victim,
                };
                let times = [now, at];
                let caches = &mut self.caches;
                let arrival = caches.fill(&self.params, core, thread, miss, times, blocks);
                if self.params.fill_port > 0 {
                    let held = self.caches.granted + self.params.fill_port;
                    let from = core * self.params.ports;
                    let ports = &mut self.ports[from..from + self.params.ports];
                    ports.iter_mut().for_each(|port| *port = held.max(*port));
                }
                if blocks {
                    return arrival;
                }
                one.outstanding.push(Outstanding {
                    limit,
                    arrival,
                    place: true,
                });
                at
            }
        }
    }

    /// Returns when the thread goes on at or after `t`: when all loads that have reached their limit have arrived.
    fn limit(&mut self, thread: usize, t: u64) -> u64 {
        let one = &self.hardware[thread];
        let reached = one.outstanding.iter().filter(|o| o.limit <= one.issued);
        let until = reached.map(|one| one.arrival).max().unwrap_or(t).max(t);
        self.caches.charge(thread, Cause::Window, until - t);
        until
    }

    /// Returns when all outstanding accesses of a hardware thread have arrived, at or after `t`.
    fn drain(&mut self, thread: usize, t: u64) -> u64 {
        let all = self.hardware[thread].outstanding.drain(..);
        let until = all.map(|one| one.arrival).max().unwrap_or(t).max(t);
        self.caches.charge(thread, Cause::Window, until - t);
        until
    }

    /// Executes a sync that has issued at `t`.
    #[inline(never)]
    fn sync(&mut self, thread: usize, core: usize, sync: Sync, t: u64) -> Result<(), SimError> {
        let t = self.drain(thread, t);
        self.caches.charge(thread, Cause::Sync, self.params.sync);
        let t = t + self.params.sync;
        self.hardware[thread].clock = t;
        let effect = self.system.sync(self.hardware[thread].logical, sync, t);
        if effect == Effect::GoesOn {
            self.run_from(core, thread, t);
        }
        self.make_ready(t)?;
        if effect != Effect::GoesOn {
            self.hardware[thread].logical = NONE;
            self.hand_out();
        }
        if effect == Effect::Ends {
            self.end = self.end.max(t);
        }
        Ok(())
    }

    /// Puts the threads that the library has woken into the queue at `t`, each of which an idle hardware thread may take.
    fn make_ready(&mut self, t: u64) -> Result<(), SimError> {
        let mut woken = std::mem::take(&mut self.system.woken);
        for &thread in &woken {
            self.system.join_queue(thread, t)?;
            self.hand_out();
        }
        woken.clear();
        self.system.woken = woken;
        Ok(())
    }

    /// Lets idle hardware threads below the width take threads from the queue.
    fn hand_out(&mut self) {
        let mut number = 0;
        while number < self.width && !self.system.queue.is_empty() {
            let thread = self.index(number);
            number += 1;
            if self.hardware[thread].logical != NONE {
                continue;
            }
            let Some(logical) = self.system.queue.pop_front() else {
                return;
            };
            let lt = &mut self.system.threads[logical as usize];
            let from = self.hardware[thread].clock;
            let start = from.max(lt.since);
            lt.queued += start - lt.since;
            lt.state = State::Running;
            self.caches.charge(thread, Cause::Idle, start - from);
            self.caches
                .charge(thread, Cause::Switch, self.params.switch);
            let one = &mut self.hardware[thread];
            (one.logical, one.fetched, one.end, one.issued) = (logical, u64::MAX, 0, 0);
            let core = thread / self.params.per_core;
            self.run_from(core, thread, start + self.params.switch);
            if self.params.cores > 1 {
                self.firsts.set(core, self.first_of(core));
            }
        }
    }

    fn force(&mut self) -> Result<(), SimError> {
        let t = self.hardware.iter().map(|one| one.clock).max().unwrap_or(0);
        self.system.force()?;
        self.make_ready(t)
    }

    /// Does what is due before the next step, which would be at `now`.
    #[inline(never)]
    fn stop(&mut self, now: u64) -> Result<(), SimError> {
        if self.series.as_ref().is_some_and(|one| now >= one.next()) {
            let sums = self.sums();
            let series = self.series.as_mut().expect("it has just been there");
            series.advance(now, sums);
        }
        if now >= self.next_call {
            self.govern(now)?;
        }
        let end = self.series.as_ref().map_or(u64::MAX, Recorder::next);
        self.next_stop = self.next_call.min(end);
        Ok(())
    }

    /// Returns what has happened so far.
    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::new(self.caches.counts(0).len(), 0);
        for (thread, one) in self.hardware.iter().enumerate() {
            sums.add(one.instructions, self.caches.counts(thread));
        }
        let threads = self.system.threads.iter();
        sums.stacks.extend(threads.map(|one| one.stack_accesses));
        sums
    }

    /// Calls the governor; the next step would be at `now`.
    fn govern(&mut self, now: u64) -> Result<(), SimError> {
        self.watch(now)?;
        let p = self.next_call;
        let (width, mut ran) = (self.width, 0);
        for number in 0..self.threads() {
            let thread = self.index(number);
            let logical = self.hardware[thread].logical;
            if logical == NONE {
                // A hardware thread that stopped behind `p` has not been idle yet.
                let idle = p.saturating_sub(self.hardware[thread].clock);
                let cause = match number < width {
                    true => Cause::Idle,
                    false => Cause::Parked,
                };
                self.caches.charge(thread, cause, idle);
            } else {
                self.hardware[thread].clock = self.drain(thread, self.hardware[thread].clock);
                let since = self.hardware[thread].clock.max(p);
                // It may have stopped before `p`: it would have waited for its pipe.
                self.caches
                    .charge(thread, Cause::Issue, since - self.hardware[thread].clock);
                self.system.join_queue(logical, since)?;
                ran += 1;
                self.hardware[thread].logical = NONE;
            }
            let from = self.hardware[thread].clock.max(p);
            let until = from.max(p + self.params.scheduler);
            self.caches.charge(thread, Cause::Switch, until - from);
            self.hardware[thread].clock = until;
        }
        self.due.iter_mut().for_each(Due::clear);
        self.firsts = Firsts::new(self.params.cores);
        let time = (p - self.last_call) / TICKS;
        let activities = self.activities();
        let period = Period {
            time,
            threads: &activities,
            waiting: self.system.queue.len(),
        };
        let plan = self.governor.plan(&period);
        let why = self.governor.why();
        self.note_period(&period, width, &plan, why.to_string());
        self.width = plan.width.clamp(1, self.threads());
        self.last_call = p;
        // Less than 2^50 ticks, so that the clock does not overflow. What the call and the switches take comes on top: otherwise a period
        // that is as short would never let a thread run.
        let overhead = self.params.scheduler + self.params.switch;
        self.next_call = p + overhead + plan.next_call.clamp(1, 1 << 36) * TICKS;
        self.system.order(plan.order, ran);
        self.hand_out();
        Ok(())
    }

    fn note_period(&mut self, period: &Period<'_>, width: usize, plan: &Plan, why: String) {
        let cache = period.cache().unwrap_or_default();
        self.periods.push(PeriodRow {
            cycle: self.next_call / TICKS,
            calls: 1,
            width,
            instructions: period.work(),
            accesses: cache.accesses,
            misses: cache.misses,
            waiting: period.waiting,
            next_width: plan.width.clamp(1, self.threads()),
            order: plan.order.as_str(),
            why,
        });
    }

    /// Returns what each hardware thread did since the last call.
    fn activities(&mut self) -> Vec<Activity> {
        let mut activities = Vec::with_capacity(self.threads());
        let table = self.caches.levels[DATA];
        for number in 0..self.threads() {
            let thread = self.index(number);
            let charges = self.caches.causes(thread);
            let idle = charges[Cause::Idle as usize] + charges[Cause::Parked as usize];
            let cache = match table.shift {
                64 => CacheUse::default(),
                _ => {
                    let count = self.caches.counts(thread)[table.table];
                    CacheUse {
                        accesses: count.accesses,
                        misses: count.misses,
                    }
                }
            };
            let one = &mut self.hardware[thread];
            let (instructions, idle_before, cache_before) = one.before;
            one.before = (one.instructions, idle, cache);
            activities.push(Activity {
                work: one.instructions - instructions,
                idle: (idle - idle_before) / TICKS,
                cache: Some(CacheUse {
                    accesses: cache.accesses - cache_before.accesses,
                    misses: cache.misses - cache_before.misses,
                }),
            });
        }
        activities
    }

    /// Charges idle time up to `end` to all hardware threads.
    pub(super) fn finish(&mut self, end: u64) {
        for number in 0..self.threads() {
            let thread = self.index(number);
            let cause = match number < self.width {
                true => Cause::Idle,
                false => Cause::Parked,
            };
            let idle = end.saturating_sub(self.hardware[thread].clock);
            self.caches.charge(thread, cause, idle);
            debug_assert_eq!(
                self.caches.causes(thread).iter().sum::<u64>()
                    + self.caches.misses(thread).iter().sum::<u64>(),
                end.max(self.hardware[thread].clock)
            );
        }
    }
}

/// Looks up the lines of a block from `line` to `last`, but for the one that was fetched last. Returns the first that is not there, which
/// counts as fetched, and what was found.
#[inline(never)]
fn fetch(
    caches: &mut Caches,
    [core, thread]: [usize; 2],
    fetched: &mut u64,
    line: u64,
    last: u64,
    now: u64,
) -> Option<(u64, Found)> {
    let mut line = line;
    while line <= last {
        if line != *fetched {
            *fetched = line;
            let found = caches.look_up(core, thread, FETCH, line, false, now);
            if found != Found::Here {
                return Some((line, found));
            }
        }
        line += 1;
    }
    None
}
