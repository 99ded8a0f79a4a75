//! The loop of steps; rules 1, 2, 3.3 and 5.

use super::caches::{Caches, Cause, DATA, FETCH, Found, Miss};
use super::firsts::Firsts;
use super::library::{Effect, Library, State};
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

/// A hardware thread, but for its clock.
#[derive(Clone, Debug)]
struct Hardware {
    /// What it runs, if it runs anything.
    logical: u32,
    fetched: u64,
    /// When its last instructions had issued.
    end: u64,
    issued: u64,
    outstanding: Vec<Outstanding>,
    instructions: u64,
    /// Values at the last call of the governor: instructions, idle ticks, lookups and misses.
    before: (u64, u64, CacheUse),
}

/// What ends a step.
enum End {
    Burst,
    /// A line of code missed at this address, and evicted a dirty line.
    FetchMiss(u64, Option<u64>),
    FetchLate(u64),
    Access {
        address: u64,
        bytes: u64,
        store: bool,
    },
    Sync(Sync),
}

pub(super) struct Engine<'a> {
    pub(super) params: Params,
    pub(super) caches: Caches,
    pub(super) system: Library<'a>,
    hardware: Vec<Hardware>,
    /// Clock of each hardware thread.
    clock: Vec<u64>,
    /// The clock of those that run a logical thread; `u64::MAX` of others.
    ready: Vec<u64>,
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
            clock: vec![0; threads],
            ready: vec![u64::MAX; threads],
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
            self.last[core] = thread;
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
        let from = core * self.params.per_core;
        let ready = &self.ready[from..from + self.params.per_core];
        if self.params.static_issue {
            let both = ready.iter().zip(&self.pipe[from..]);
            let each = both.map(|(&ready, &pipe)| ready.max(pipe));
            return each.min().unwrap_or(u64::MAX);
        }
        let least = ready.iter().copied().min().unwrap_or(u64::MAX);
        match least {
            u64::MAX => u64::MAX,
            least => least.max(self.pipe[core]),
        }
    }

    /// Returns which hardware thread of a core steps at `now`.
    #[inline(always)]
    fn choose(&self, core: usize, now: u64) -> usize {
        let per_core = self.params.per_core;
        let from = core * per_core;
        let mut able = 0_u64;
        for (i, &ready) in self.ready[from..from + per_core].iter().enumerate() {
            let free = !self.params.static_issue || self.pipe[from + i] <= now;
            able |= u64::from(ready <= now && free) << i;
        }
        let last = self.last[core];
        if self.params.icount {
            return self.choose_by_count(from, able, now, last);
        }
        // Those behind the last one come first.
        let behind = able & (u64::MAX << last << 1);
        let first = if behind != 0 { behind } else { able };
        first.trailing_zeros() as usize
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

    fn step(&mut self, thread: usize, core: usize, now: u64) -> Result<(), SimError> {
        let Engine {
            params,
            caches,
            system,
            hardware,
            clock,
            ..
        } = self;
        let one = &mut hardware[thread];
        let logical = one.logical;
        let lt = &mut system.threads[logical as usize];
        let waited = now - clock[thread];
        let mut most = params.burst;
        if params.window > 0 && !one.outstanding.is_empty() {
            one.outstanding.retain(|one| one.arrival > now);
            let limits = one.outstanding.iter().map(|one| one.limit);
            most = most.min(limits.min().unwrap_or(u64::MAX) - one.issued);
        }
        let mut n = 0_u64;
        let end = loop {
            let Some(event) = lt.next()? else {
                break End::Sync(Sync::Exit);
            };
            match event {
                Event::Access {
                    after,
                    address,
                    bytes,
                    store,
                } => {
                    let left = u64::from(after) - lt.part;
                    if n + left > most {
                        lt.part += most - n;
                        n = most;
                        break End::Burst;
                    }
                    n += left;
                    (lt.part, lt.at) = (0, lt.at + 1);
                    let mut address = address;
                    if address.wrapping_sub(lt.stack.0) < lt.stack.1 {
                        address = address.wrapping_add(lt.moved);
                        lt.stack_accesses += 1;
                    }
                    let bytes = u64::from(bytes);
                    break End::Access {
                        address,
                        bytes,
                        store,
                    };
                }
                Event::Instructions(count) => {
                    let left = u64::from(count) - lt.part;
                    if n + left > most {
                        lt.part += most - n;
                        n = most;
                        break End::Burst;
                    }
                    n += left;
                    (lt.part, lt.at) = (0, lt.at + 1);
                    if n == most {
                        break End::Burst;
                    }
                }
                Event::Block { address, bytes, .. } => {
                    let shift = caches.levels[FETCH].shift;
                    if shift < 64 && bytes > 0 {
                        let last = (address + u64::from(bytes) - 1) >> shift;
                        let line = (address >> shift) + lt.part;
                        if line != last || line != one.fetched {
                            let found = fetch(caches, thread, &mut one.fetched, line, last, now);
                            if let Some((line, found)) = found {
                                lt.part = line + 1 - (address >> shift);
                                break match found {
                                    Found::Late(arrival) => End::FetchLate(arrival),
                                    Found::Missed(victim) => End::FetchMiss(line << shift, victim),
                                    Found::Here => unreachable!("fetching ends late or missing"),
                                };
                            }
                        }
                    }
                    (lt.part, lt.at) = (0, lt.at + 1);
                }
                Event::Sync(sync) => {
                    lt.at += 1;
                    match sync {
                        Sync::Mark { .. }
                        | Sync::LoopBegin(_)
                        | Sync::Iteration { .. }
                        | Sync::LoopEnd => {}
                        sync => break End::Sync(sync),
                    }
                }
            }
        };
        lt.instructions += n;
        one.instructions += n;
        one.issued += n;
        let is_access = matches!(end, End::Access { .. });
        let others = n - u64::from(is_access && n > 0);
        let pipe = if params.static_issue { thread } else { core };
        self.pipe[pipe] = now + (n * params.slot).max(others * params.unit);
        let issued = n * params.instruction;
        let t = now + issued;
        one.end = t;
        caches.charge(thread, Cause::Issue, waited);
        caches.charge(thread, Cause::Instructions, issued);
        let t = match end {
            End::Burst => t,
            End::Access {
                address,
                bytes,
                store,
            } => self.access(thread, core, [now, t], address, bytes, store),
            End::FetchMiss(address, victim) => {
                let miss = Miss {
                    path: FETCH,
                    address,
                    victim,
                };
                caches.fill(params, thread, miss, [now, t], true)
            }
            End::FetchLate(arrival) => {
                let at = t.max(arrival);
                caches.charge(thread, Cause::Late, at - t);
                at
            }
            End::Sync(sync) => return self.sync(thread, logical, sync, t),
        };
        let t = match self.params.window {
            0 => t,
            _ => self.limit(thread, t),
        };
        self.clock[thread] = t;
        self.ready[thread] = t;
        Ok(())
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
            match self.caches.look_up(thread, DATA, line, store, t) {
                Found::Here => {}
                found => t = self.not_here(thread, [now, t], line << shift, store, found),
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
                let arrival = self.caches.fill(&self.params, thread, miss, times, blocks);
                if self.params.fill_port > 0 {
                    let held = self.caches.granted + self.params.fill_port;
                    let from = thread / self.params.per_core * self.params.ports;
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
    fn sync(&mut self, thread: usize, logical: u32, sync: Sync, t: u64) -> Result<(), SimError> {
        let t = self.drain(thread, t);
        self.caches.charge(thread, Cause::Sync, self.params.sync);
        let t = t + self.params.sync;
        self.clock[thread] = t;
        let effect = self.system.sync(logical, sync, t);
        if effect == Effect::GoesOn {
            self.ready[thread] = t;
        }
        self.make_ready(t)?;
        if effect != Effect::GoesOn {
            self.ready[thread] = u64::MAX;
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
            let from = self.clock[thread];
            let start = from.max(lt.since);
            lt.queued += start - lt.since;
            lt.state = State::Running;
            self.caches.charge(thread, Cause::Idle, start - from);
            self.caches
                .charge(thread, Cause::Switch, self.params.switch);
            let clock = start + self.params.switch;
            (self.clock[thread], self.ready[thread]) = (clock, clock);
            let one = &mut self.hardware[thread];
            (one.logical, one.fetched, one.end, one.issued) = (logical, u64::MAX, 0, 0);
            let core = thread / self.params.per_core;
            if self.params.cores > 1 {
                self.firsts.set(core, self.first_of(core));
            }
        }
    }

    fn force(&mut self) -> Result<(), SimError> {
        let t = self.clock.iter().copied().max().unwrap_or(0);
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
                let idle = p.saturating_sub(self.clock[thread]);
                let cause = match number < width {
                    true => Cause::Idle,
                    false => Cause::Parked,
                };
                self.caches.charge(thread, cause, idle);
            } else {
                self.clock[thread] = self.drain(thread, self.clock[thread]);
                let since = self.clock[thread].max(p);
                // It may have stopped before `p`: it would have waited for its pipe.
                self.caches
                    .charge(thread, Cause::Issue, since - self.clock[thread]);
                self.system.join_queue(logical, since)?;
                ran += 1;
                self.hardware[thread].logical = NONE;
            }
            let from = self.clock[thread].max(p);
            let until = from.max(p + self.params.scheduler);
            self.caches.charge(thread, Cause::Switch, until - from);
            self.clock[thread] = until;
            self.ready[thread] = u64::MAX;
        }
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
            let charges = self.caches.charges(thread);
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
            let idle = end.saturating_sub(self.clock[thread]);
            self.caches.charge(thread, cause, idle);
            debug_assert_eq!(
                self.caches.charges(thread).iter().sum::<u64>(),
                end.max(self.clock[thread])
            );
        }
    }
}

/// Looks up the lines of a block from `line` to `last`, but for the one that was fetched last. Returns the first that is not there, which
/// counts as fetched, and what was found.
#[inline(never)]
fn fetch(
    caches: &mut Caches,
    thread: usize,
    fetched: &mut u64,
    line: u64,
    last: u64,
    now: u64,
) -> Option<(u64, Found)> {
    let mut line = line;
    while line <= last {
        if line != *fetched {
            *fetched = line;
            let found = caches.look_up(thread, FETCH, line, false, now);
            if found != Found::Here {
                return Some((line, found));
            }
        }
        line += 1;
    }
    None
}
