//! A second implementation of `models/smt/RULES.md`, written for being read beside them: plain lists, no index that is not searched for,
//! one function a rule. It knows the machine's tables and nothing of the engine.

use std::collections::{BTreeMap, VecDeque};
use tanada_policy::{Activity, CacheUse, Governor, Order, Period};
use tanada_sim::Machine;
use tanada_sim::machine::smt::{Fetch, Share, SmtTable};
use tanada_sim::machine::{CacheTable, Coherence, Kind, Replacement};
use tanada_trace::threads::{Event, Sync};

use super::program::Made;

const CYCLE: u64 = 10_080;

/// What is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) makespan: u64,
    pub(crate) forced: u64,
    pub(crate) writebacks: u64,
    /// Of each hardware thread: instructions, lookups and misses of each table, ticks by name.
    pub(crate) instructions: Vec<u64>,
    pub(crate) counts: Vec<Vec<(u64, u64)>>,
    pub(crate) ticks: Vec<Vec<u64>>,
    /// Of each logical thread: when it ended, and how long it was in the queue, in ticks.
    pub(crate) ended: Vec<u64>,
    pub(crate) queued: Vec<u64>,
    /// How long it was blocked: for locks, barriers, conditions, semaphores, joins.
    pub(crate) blocked: Vec<[u64; 5]>,
    /// Width and order that each call of the governor put into force.
    pub(crate) plans: Vec<(u64, usize, &'static str)>,
    /// Whether the program hung.
    pub(crate) stuck: bool,
}

/// One cache: its sets as lists of (line, dirty); the next victim is the last one. Only LRU and FIFO.
struct Cache {
    line: u64,
    ways: usize,
    lru: bool,
    sets: Vec<Vec<(u64, bool)>>,
}

impl Cache {
    fn new(table: &CacheTable, parts: u64) -> Cache {
        let sets = table.size / table.line / table.ways / parts;
        Cache {
            line: table.line,
            ways: table.ways as usize,
            lru: table.replacement == Replacement::Lru,
            sets: vec![Vec::new(); sets as usize],
        }
    }

    fn set(&mut self, address: u64) -> &mut Vec<(u64, bool)> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(address / self.line % sets) as usize]
    }

    /// Whether it hits, and the address of the dirty line that was evicted.
    fn look_up(&mut self, address: u64, write: bool) -> (bool, Option<u64>) {
        let (ways, lru, length) = (self.ways, self.lru, self.line);
        let line = address / length;
        let set = self.set(address);
        if let Some(place) = set.iter().position(|one| one.0 == line) {
            set[place].1 |= write;
            if lru {
                let used = set.remove(place);
                set.insert(0, used);
            }
            return (true, None);
        }
        set.insert(0, (line, write));
        let victim = if set.len() > ways { set.pop() } else { None };
        (false, victim.filter(|one| one.1).map(|one| one.0 * length))
    }

    fn mark_dirty(&mut self, address: u64) -> bool {
        let line = address / self.line;
        let found = self.set(address).iter_mut().find(|one| one.0 == line);
        found.is_some_and(|one| {
            one.1 = true;
            true
        })
    }

    fn remove(&mut self, address: u64) {
        let line = address / self.line;
        self.set(address).retain(|one| one.0 != line);
    }
}

#[derive(Clone, Debug, Default)]
struct Outstanding {
    limit: Option<u64>,
    arrival: u64,
    place: bool,
}

#[derive(Clone, Debug)]
struct HardwareThread {
    number: usize,
    core: usize,
    clock: u64,
    runs: Option<usize>,
    last_line: Option<u64>,
    end: u64,
    issued: u64,
    list: Vec<Outstanding>,
    instructions: u64,
    seen: (u64, u64, u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Waiting,
    Running,
    Blocked,
    Ended,
}

#[derive(Clone, Debug)]
struct LogicalThread {
    events: VecDeque<Event>,
    /// What is left of the first event: lines of a block that were looked up.
    lines_done: u64,
    state: State,
    since: u64,
    /// What it blocked for, by the place in `Answer::blocked`.
    waits_for: usize,
    joined: u64,
    regions: Vec<(u32, u32)>,
}

/// One thread that waits: for what, since which wait.
#[derive(Clone, Debug, PartialEq)]
enum Waits {
    Lock(u32, bool),
    Barrier(u32, bool),
    /// The condition, the lock, and how many signals end the wait.
    Condition(u32, u32, u64),
    Semaphore(u32),
    Join(u32),
}

pub(crate) struct Reference<'a> {
    program: &'a Made,
    machine: &'a Machine,
    smt: SmtTable,
    /// Shared caches by table and instance, and the divided first level.
    caches: Vec<Vec<Cache>>,
    parts: Vec<Cache>,
    flying: Vec<(usize, usize, usize, u64, u64)>,
    hardware: Vec<HardwareThread>,
    logical: Vec<LogicalThread>,
    queue: Vec<usize>,
    joins: u64,
    /// All that wait, in the order in which they began to.
    waiting: Vec<(usize, Waits)>,
    /// Who holds what: object, whether it is shared, thread; in the order of taking.
    held: Vec<(u32, bool, usize)>,
    /// Of each condition the signals, and the number of the last wait that has none of its own.
    signals: BTreeMap<u32, (u64, u64)>,
    values: Vec<u32>,
    pipes: Vec<u64>,
    ports: Vec<Vec<u64>>,
    last: Vec<Option<usize>>,
    channel: Vec<u64>,
    memory: u64,
    width: usize,
    next_call: u64,
    last_call: u64,
    governor: Box<dyn Governor>,
    answer: Answer,
}

/// Names of ticks, in the order of RULES.md, 7; tables follow.
const INSTRUCTIONS: usize = 0;
const ISSUE: usize = 1;
const PORTS: usize = 2;
const CHANNEL: usize = 3;
const MEMORY: usize = 4;
const LATE: usize = 5;
const WINDOW: usize = 6;
const SYNC: usize = 7;
const SWITCH: usize = 8;
const PARKED: usize = 9;
const IDLE: usize = 10;
const TABLES: usize = 11;

fn plain() -> SmtTable {
    SmtTable {
        threads_per_core: 1,
        issue_width: 1,
        ilp_percent: 100,
        units: 1,
        ports: 1,
        port_cycles: 0,
        fill_port_cycles: 0,
        burst: 8,
        fetch: Fetch::RoundRobin,
        issue: Share::Shared,
        l1d: Share::Shared,
        mshrs: 0,
        window: 0,
        fill_cycles: 0,
        writeback_cycles: 0,
        memory_fill_cycles: 0,
        memory_writeback_cycles: 0,
        period_cycles: 1_000_000,
        scheduler_cycles: 0,
        switch_cycles: 0,
        sync_cycles: 0,
        stack_spacing: None,
        stack_size: 64 << 10,
    }
}

pub(crate) fn run(program: &Made, machine: &Machine, governor: Box<dyn Governor>) -> Answer {
    let smt = machine.smt.clone().unwrap_or_else(plain);
    let cores = usize::from(machine.cores);
    let count = cores * usize::from(smt.threads_per_core);
    let tables = machine.caches.len();
    let caches = machine.caches.iter().map(|table| {
        let each = machine.cores_per(table.per) as usize;
        (0..cores.div_ceil(each))
            .map(|_| Cache::new(table, 1))
            .collect()
    });
    let hardware = (0..count).map(|number| HardwareThread {
        number,
        core: number % cores,
        clock: 0,
        runs: None,
        last_line: None,
        end: 0,
        issued: 0,
        list: Vec::new(),
        instructions: 0,
        seen: (0, 0, 0, 0),
    });
    let logical = program.threads.iter().map(|(events, _)| LogicalThread {
        events: events.iter().copied().collect(),
        lines_done: 0,
        state: State::New,
        since: 0,
        waits_for: 0,
        joined: 0,
        regions: Vec::new(),
    });
    let data = machine.path(false).first().copied();
    let parts = match (smt.l1d, data) {
        (Share::Static, Some(table)) => {
            let by = u64::from(smt.threads_per_core);
            let part = |_| Cache::new(&machine.caches[table], by);
            (0..count).map(part).collect()
        }
        _ => Vec::new(),
    };
    let mut reference = Reference {
        program,
        machine,
        caches: caches.collect(),
        parts,
        flying: Vec::new(),
        hardware: hardware.collect(),
        logical: logical.collect(),
        queue: Vec::new(),
        joins: 0,
        waiting: Vec::new(),
        held: Vec::new(),
        signals: BTreeMap::new(),
        values: Vec::new(),
        pipes: vec![0; count],
        ports: vec![vec![0; smt.ports as usize]; cores],
        last: vec![None; cores],
        channel: vec![0; cores],
        memory: 0,
        width: count,
        next_call: smt.period_cycles * CYCLE,
        last_call: 0,
        governor,
        smt,
        answer: Answer {
            counts: vec![vec![(0, 0); tables]; count],
            ticks: vec![vec![0; TABLES + tables]; count],
            ended: vec![0; program.threads.len()],
            queued: vec![0; program.threads.len()],
            blocked: vec![[0; 5]; program.threads.len()],
            ..Answer::default()
        },
    };
    reference.all();
    reference.answer
}

impl Reference<'_> {
    fn all(&mut self) {
        if !self.logical.is_empty() {
            self.ready(0, 0);
        }
        while self.logical.iter().any(|one| one.state != State::Ended) {
            match self.next_step() {
                None => {
                    if !self.force() {
                        self.answer.stuck = true;
                        return;
                    }
                }
                Some((now, _)) if now >= self.next_call => self.call(),
                Some((now, number)) => self.step(now, number),
            }
        }
        let end = self.answer.ended.iter().copied().max().unwrap_or(0);
        self.answer.makespan = end.div_ceil(CYCLE);
        let end = self.answer.makespan * CYCLE;
        for number in 0..self.hardware.len() {
            self.rest(number, end);
        }
        self.answer.instructions = self.hardware.iter().map(|one| one.instructions).collect();
    }

    /// Charges the time without a logical thread until `until`.
    fn rest(&mut self, number: usize, until: u64) {
        let from = self.hardware[number].clock;
        if from < until {
            let cause = if number < self.width { IDLE } else { PARKED };
            self.answer.ticks[number][cause] += until - from;
            self.hardware[number].clock = until;
        }
    }

    fn pipe_of(&self, number: usize) -> usize {
        match self.smt.issue {
            Share::Static => number,
            Share::Shared => self.hardware[number].core,
        }
    }

    /// Rule 1: the time of the next step, and whose it is.
    fn next_step(&self) -> Option<(u64, usize)> {
        let time = |one: &HardwareThread| one.clock.max(self.pipes[self.pipe_of(one.number)]);
        let running = || self.hardware.iter().filter(|one| one.runs.is_some());
        let (now, core) = running().map(|one| (time(one), one.core)).min()?;
        let mut able: Vec<&HardwareThread> = running()
            .filter(|one| one.core == core && time(one) <= now)
            .collect();
        // Round robin: those behind the last one first.
        let turn = |one: &HardwareThread| match self.last[core] {
            Some(last) if one.number <= last => (1, one.number),
            _ => (0, one.number),
        };
        able.sort_by_key(|one| turn(one));
        if self.smt.fetch == Fetch::Icount {
            let behind = |one: &HardwareThread| {
                let loads = one.list.iter().filter(|load| load.arrival > now);
                let oldest = loads.filter_map(|load| load.limit).min();
                oldest.map_or(0, |limit| one.issued - (limit - self.smt.window))
            };
            able.sort_by_key(|one| (behind(one), one.end));
        }
        Some((now, able[0].number))
    }

    /// Rule 2.
    fn step(&mut self, now: u64, number: usize) {
        let core = self.hardware[number].core;
        self.last[core] = Some(number);
        let thread = self.hardware[number].runs.expect("it runs");
        self.answer.ticks[number][ISSUE] += now - self.hardware[number].clock;
        let mut most = self.smt.burst;
        if self.smt.window > 0 {
            let one = &mut self.hardware[number];
            one.list.retain(|access| access.arrival > now);
            for access in &one.list {
                most = most.min(access.limit.map_or(most, |limit| limit - one.issued));
            }
        }
        let mut n = 0;
        let mut access = None;
        let mut missed = None;
        let mut late = None;
        let mut sync = None;
        loop {
            let Some(event) = self.logical[thread].events.front().copied() else {
                sync = Some(Sync::Exit);
                break;
            };
            let mut put_back = None;
            match event {
                Event::Access {
                    after,
                    address,
                    bytes,
                    store,
                } => {
                    let left = u64::from(after);
                    if n + left > most {
                        let after = (left - (most - n)) as u32;
                        put_back = Some(Event::Access {
                            after,
                            address,
                            bytes,
                            store,
                        });
                        n = most;
                    } else {
                        n += left;
                        access = Some((address, u64::from(bytes), store));
                    }
                }
                Event::Instructions(count) => {
                    let left = u64::from(count);
                    if n + left > most {
                        put_back = Some(Event::Instructions((left - (most - n)) as u32));
                        n = most;
                    } else {
                        n += left;
                    }
                }
                Event::Block { address, bytes, .. } => {
                    let path = self.machine.path(true);
                    if let (Some(&table), true) = (path.first(), bytes > 0) {
                        let length = self.machine.caches[table].line;
                        let lines = address / length..=(address + u64::from(bytes) - 1) / length;
                        for line in lines.skip(self.logical[thread].lines_done as usize) {
                            self.logical[thread].lines_done += 1;
                            if self.hardware[number].last_line == Some(line) {
                                continue;
                            }
                            self.hardware[number].last_line = Some(line);
                            let at = line * length;
                            let (hit, victim) = self.first_level(number, true, at, false);
                            if !hit {
                                missed = Some((at, victim));
                            } else {
                                late = self.on_its_way(number, true, at, now);
                            }
                            if missed.is_some() || late.is_some() {
                                put_back = Some(event);
                                break;
                            }
                        }
                    }
                    if put_back.is_none() {
                        self.logical[thread].lines_done = 0;
                    }
                }
                Event::Sync(
                    Sync::Mark { .. } | Sync::LoopBegin(_) | Sync::Iteration { .. } | Sync::LoopEnd,
                ) => {}
                Event::Sync(one) => sync = Some(one),
            }
            match put_back {
                Some(rest) => self.logical[thread].events[0] = rest,
                None => {
                    self.logical[thread].events.pop_front();
                }
            }
            let full = n == most && matches!(event, Event::Instructions(_));
            if put_back.is_some() || full || access.is_some() || sync.is_some() {
                break;
            }
        }
        let parts = match self.smt.issue {
            Share::Static => u64::from(self.smt.threads_per_core),
            Share::Shared => 1,
        };
        let slot = CYCLE.div_ceil(self.smt.issue_width) * parts;
        let unit = CYCLE.div_ceil(self.smt.units) * parts;
        let instr = slot.max((CYCLE * 100).div_ceil(self.smt.ilp_percent));
        let others = if access.is_some() && n > 0 { n - 1 } else { n };
        let pipe = self.pipe_of(number);
        self.pipes[pipe] = now + (n * slot).max(others * unit);
        let end = now + n * instr;
        let one = &mut self.hardware[number];
        (one.end, one.issued, one.instructions) = (end, one.issued + n, one.instructions + n);
        self.answer.ticks[number][INSTRUCTIONS] += n * instr;
        let mut clock = end;
        if let Some((at, victim)) = missed {
            clock = self.fill(number, true, at, victim, end, true);
        }
        if let Some(arrival) = late {
            clock = end.max(arrival);
            self.answer.ticks[number][LATE] += clock - end;
        }
        if let Some((address, bytes, store)) = access {
            clock = self.access(number, thread, address, bytes, store, end);
        }
        if let Some(sync) = sync {
            self.sync(number, thread, sync, end);
            return;
        }
        let one = &self.hardware[number];
        let reached = one
            .list
            .iter()
            .filter(|access| access.limit.is_some_and(|limit| limit <= one.issued));
        let until = reached
            .map(|access| access.arrival)
            .max()
            .unwrap_or(0)
            .max(clock);
        self.answer.ticks[number][WINDOW] += until - clock;
        self.hardware[number].clock = until;
    }

    /// Rule 2, an access; rules 3.3 and 6.
    fn access(
        &mut self,
        number: usize,
        thread: usize,
        address: u64,
        bytes: u64,
        store: bool,
        end: u64,
    ) -> u64 {
        let Some(&table) = self.machine.path(false).first() else {
            return end;
        };
        let mut address = address;
        if let (Some(spacing), Some(stack)) =
            (self.smt.stack_spacing, self.program.threads[thread].1)
            && thread > 0
            && address + self.smt.stack_size >= stack
            && address <= stack + 4095
        {
            address = (1 << 40) + thread as u64 * spacing + address - stack;
        }
        let length = self.machine.caches[table].line;
        let core = self.hardware[number].core;
        let mut t = end;
        for line in address / length..=(address + bytes - 1) / length {
            if self.smt.port_cycles > 0 {
                let first = *self.ports[core].iter().min().expect("there is a port");
                let port = self.ports[core]
                    .iter()
                    .position(|&free| free == first)
                    .expect("so");
                let a = t.max(first);
                self.ports[core][port] = a + self.smt.port_cycles * CYCLE;
                self.answer.ticks[number][PORTS] += a - t;
                t = a;
            }
            let at = line * length;
            let (hit, victim) = self.first_level(number, false, at, store);
            let blocks = self.smt.mshrs == 0;
            let limit = (!store).then(|| self.hardware[number].issued + self.smt.window);
            if hit {
                if let Some(arrival) = self.on_its_way(number, false, at, t) {
                    if blocks {
                        self.answer.ticks[number][LATE] += arrival - t;
                        t = arrival;
                    } else {
                        let list = &mut self.hardware[number].list;
                        let covered = list
                            .iter()
                            .any(|one| one.limit.is_some() && one.arrival >= arrival);
                        if !store && !covered {
                            list.push(Outstanding {
                                limit,
                                arrival,
                                place: false,
                            });
                        }
                    }
                }
            } else if blocks {
                t = self.fill(number, false, at, victim, t, true);
            } else {
                let list = &mut self.hardware[number].list;
                if list.iter().filter(|one| one.place).count() as u64 == self.smt.mshrs {
                    let first = list
                        .iter()
                        .filter(|one| one.place)
                        .map(|one| one.arrival)
                        .min();
                    let first = first.expect("all places are taken");
                    let gone = list
                        .iter()
                        .position(|one| one.place && one.arrival == first);
                    list.remove(gone.expect("it is in the list"));
                    let a = t.max(first);
                    self.answer.ticks[number][WINDOW] += a - t;
                    t = a;
                }
                let arrival = self.fill(number, false, at, victim, t, false);
                self.hardware[number].list.push(Outstanding {
                    limit,
                    arrival,
                    place: true,
                });
            }
        }
        let hit = self.machine.hit_cycles.saturating_sub(1) * CYCLE;
        self.answer.ticks[number][INSTRUCTIONS] += hit;
        t + hit
    }

    /// The first cache that a hardware thread's fetches or data go through: table, instance, and whether it is a part.
    fn first_cache(&self, number: usize, fetch: bool) -> (usize, usize, bool) {
        let table = self.machine.path(fetch)[0];
        if !fetch && !self.parts.is_empty() {
            return (table, number, true);
        }
        let each = self.machine.cores_per(self.machine.caches[table].per) as usize;
        (table, self.hardware[number].core / each, false)
    }

    fn first_level(
        &mut self,
        number: usize,
        fetch: bool,
        address: u64,
        store: bool,
    ) -> (bool, Option<u64>) {
        let (table, instance, part) = self.first_cache(number, fetch);
        if store && self.machine.coherence == Coherence::Invalidate {
            self.invalidate(number, address);
        }
        let cache = match part {
            true => &mut self.parts[instance],
            false => &mut self.caches[table][instance],
        };
        let (hit, victim) = cache.look_up(address, store);
        let count = &mut self.answer.counts[number][table];
        (count.0, count.1) = (count.0 + 1, count.1 + u64::from(!hit));
        (hit, victim)
    }

    /// Rule 3.1: other cores lose the line.
    fn invalidate(&mut self, number: usize, address: u64) {
        let core = self.hardware[number].core;
        for (table, one) in self.machine.caches.iter().enumerate() {
            let each = self.machine.cores_per(one.per) as usize;
            for instance in 0..self.caches[table].len() {
                if one.kind != Kind::Instruction && instance != core / each {
                    self.caches[table][instance].remove(address);
                }
            }
        }
        for other in 0..self.parts.len() {
            if self.hardware[other].core != core {
                self.parts[other].remove(address);
            }
        }
    }

    fn on_its_way(&self, number: usize, fetch: bool, address: u64, at: u64) -> Option<u64> {
        let (table, instance, part) = self.first_cache(number, fetch);
        let line = address / self.machine.caches[table].line;
        let core = self.hardware[number].core;
        let wanted = (core, table, instance + usize::from(part) * 1_000_000, line);
        let same = self
            .flying
            .iter()
            .filter(|one| (one.0, one.1, one.2, one.3) == wanted && one.4 > at);
        same.map(|one| one.4).max()
    }

    /// Rule 3.2.
    fn fill(
        &mut self,
        number: usize,
        fetch: bool,
        address: u64,
        victim: Option<u64>,
        start: u64,
        waits: bool,
    ) -> u64 {
        let core = self.hardware[number].core;
        let path = self.machine.path(fetch);
        let instance =
            |table: usize| core / self.machine.cores_per(self.machine.caches[table].per) as usize;
        let miss = |table: usize| self.machine.caches[table].miss_cycles * CYCLE;
        let mut ticks = vec![0; TABLES + self.machine.caches.len()];
        let mut to_memory = 0;
        let mut held = self.smt.fill_cycles;
        if let Some(victim) = victim {
            self.answer.writebacks += 1;
            held += self.smt.writeback_cycles;
            let deeper = path[1..].iter();
            if !deeper
                .into_iter()
                .any(|&table| self.caches[table][instance(table)].mark_dirty(victim))
            {
                to_memory += 1;
            }
        }
        let mut t = start.max(self.channel[core]);
        self.channel[core] = t + held * CYCLE;
        if !fetch && self.smt.fill_port_cycles > 0 {
            for port in &mut self.ports[core] {
                *port = (*port).max(t + self.smt.fill_port_cycles * CYCLE);
            }
        }
        ticks[CHANNEL] += t - start;
        let mut hit = false;
        for (level, &table) in path.iter().enumerate() {
            if level > 0 {
                let (found, victim) = self.caches[table][instance(table)].look_up(address, false);
                let count = &mut self.answer.counts[number][table];
                (count.0, count.1) = (count.0 + 1, count.1 + u64::from(!found));
                if let Some(victim) = victim {
                    self.answer.writebacks += 1;
                    let mut deeper = path[level + 1..].iter();
                    if !deeper.any(|&table| self.caches[table][instance(table)].mark_dirty(victim))
                    {
                        to_memory += 1;
                    }
                }
                if found {
                    hit = true;
                    break;
                }
            }
            if level + 1 == path.len() {
                let granted = t.max(self.memory);
                ticks[MEMORY] += granted - t;
                self.memory = granted + self.smt.memory_fill_cycles * CYCLE;
                t = granted;
            }
            ticks[TABLES + table] += miss(table);
            t += miss(table);
        }
        let _ = hit;
        self.memory += to_memory * self.smt.memory_writeback_cycles * CYCLE;
        if waits {
            for (cause, ticks) in ticks.into_iter().enumerate() {
                self.answer.ticks[number][cause] += ticks;
            }
        }
        let (table, instance, part) = self.first_cache(number, fetch);
        let line = address / self.machine.caches[table].line;
        self.flying.push((
            core,
            table,
            instance + usize::from(part) * 1_000_000,
            line,
            t,
        ));
        t
    }

    fn drain(&mut self, number: usize) {
        let one = &mut self.hardware[number];
        let until = one
            .list
            .iter()
            .map(|access| access.arrival)
            .max()
            .unwrap_or(0)
            .max(one.clock);
        self.answer.ticks[number][WINDOW] += until - one.clock;
        one.list.clear();
        one.clock = until;
    }

    /// Rule 4.
    fn sync(&mut self, number: usize, thread: usize, sync: Sync, end: u64) {
        self.hardware[number].clock = end;
        self.drain(number);
        let pause = self.smt.sync_cycles * CYCLE;
        self.answer.ticks[number][SYNC] += pause;
        self.hardware[number].clock += pause;
        let t = self.hardware[number].clock;
        let mut woken = Vec::new();
        let mut ends = false;
        let waits = match sync {
            Sync::Create(other) => {
                let new = self
                    .logical
                    .get(other as usize)
                    .is_some_and(|one| one.state == State::New);
                if new {
                    woken.push(other as usize);
                }
                None
            }
            Sync::Join(other) => {
                let running = self
                    .logical
                    .get(other as usize)
                    .is_some_and(|one| one.state != State::Ended);
                running.then_some(Waits::Join(other))
            }
            Sync::Lock(object) => self.lock(thread, object, false),
            Sync::Share(object) => self.lock(thread, object, true),
            Sync::Unlock(object) => {
                woken = self.unlock(thread, object);
                None
            }
            Sync::Barrier { object, parties } => self.barrier(object, parties, false, &mut woken),
            Sync::RegionBegin { id, threads } => {
                self.logical[thread].regions.push((id, threads));
                self.barrier(id, threads, false, &mut woken)
            }
            Sync::RegionEnd => match self.logical[thread].regions.pop() {
                Some((id, threads)) => self.barrier(id, threads, true, &mut woken),
                None => None,
            },
            Sync::Wait {
                condition,
                lock,
                signals,
            } => {
                let (had, last) = self.signals.entry(condition).or_default();
                if signals.is_none() {
                    *last += 1;
                }
                let needed = signals.map_or(*last, u64::from);
                if *had >= needed {
                    None
                } else {
                    woken = self.unlock(thread, lock);
                    Some(Waits::Condition(condition, lock, needed))
                }
            }
            Sync::Signal(condition) => {
                self.signal(condition, 0, &mut woken);
                None
            }
            Sync::Broadcast(condition) => {
                let last = self.signals.get(&condition).map_or(0, |one| one.1);
                self.signal(condition, last, &mut woken);
                None
            }
            Sync::Post(semaphore) => {
                match self
                    .waiting
                    .iter()
                    .position(|one| one.1 == Waits::Semaphore(semaphore))
                {
                    Some(place) => woken.push(self.waiting.remove(place).0),
                    None => self.values.push(semaphore),
                }
                None
            }
            Sync::Take(semaphore) => match take(&mut self.values, semaphore) {
                true => None,
                false => Some(Waits::Semaphore(semaphore)),
            },
            Sync::Exit => {
                // The locks in the order of their numbers.
                let mut locks: Vec<u32> = self
                    .held
                    .iter()
                    .filter(|one| one.2 == thread)
                    .map(|one| one.0)
                    .collect();
                locks.sort_unstable();
                for lock in locks {
                    woken.extend(self.unlock(thread, lock));
                }
                let joins = |one: &(usize, Waits)| one.1 == Waits::Join(thread as u32);
                woken.extend(
                    self.waiting
                        .iter()
                        .filter(|one| joins(one))
                        .map(|one| one.0),
                );
                self.waiting.retain(|one| !joins(one));
                ends = true;
                None
            }
            Sync::LoopBegin(_) | Sync::Iteration { .. } | Sync::LoopEnd | Sync::Mark { .. } => None,
        };
        if ends {
            self.logical[thread].state = State::Ended;
            self.answer.ended[thread] = t;
        }
        let blocks = waits.is_some();
        if let Some(waits) = waits {
            let one = &mut self.logical[thread];
            (one.state, one.since) = (State::Blocked, t);
            one.waits_for = match waits {
                Waits::Lock(..) => 0,
                Waits::Barrier(..) => 1,
                Waits::Condition(..) => 2,
                Waits::Semaphore(_) => 3,
                Waits::Join(_) => 4,
            };
            self.waiting.push((thread, waits));
        }
        for one in woken {
            self.ready(one, t);
        }
        if ends || blocks {
            self.hardware[number].runs = None;
            self.take_heads();
        }
    }

    fn can_hold(&self, object: u32, shared: bool) -> bool {
        let mut of = self.held.iter().filter(|one| one.0 == object);
        of.all(|one| one.1 && shared)
    }

    /// Takes a lock, or returns what the thread waits for.
    fn lock(&mut self, thread: usize, object: u32, shared: bool) -> Option<Waits> {
        let others =
            |one: &(usize, Waits)| matches!(one.1, Waits::Lock(other, _) if other == object);
        let nobody_waits = !self.waiting.iter().any(others);
        let shares_it = self.held.contains(&(object, true, thread));
        if shared && shares_it || nobody_waits && self.can_hold(object, shared) {
            self.held.push((object, shared, thread));
            return None;
        }
        Some(Waits::Lock(object, shared))
    }

    /// Returns those that have the lock now.
    fn unlock(&mut self, thread: usize, object: u32) -> Vec<usize> {
        let own = |one: &(u32, bool, usize)| one.0 == object && one.2 == thread;
        let any = |one: &(u32, bool, usize)| one.0 == object;
        let own = self.held.iter().position(own);
        if let Some(place) = own.or_else(|| self.held.iter().position(any)) {
            self.held.remove(place);
        }
        self.next_holders(object)
    }

    fn next_holders(&mut self, object: u32) -> Vec<usize> {
        let mut woken = Vec::new();
        loop {
            let of =
                |one: &(usize, Waits)| matches!(one.1, Waits::Lock(other, _) if other == object);
            let Some(place) = self.waiting.iter().position(of) else {
                return woken;
            };
            let (thread, Waits::Lock(_, shared)) = self.waiting[place] else {
                unreachable!("it was searched for");
            };
            if !self.can_hold(object, shared) {
                return woken;
            }
            self.held.push((object, shared, thread));
            self.waiting.remove(place);
            woken.push(thread);
        }
    }

    fn barrier(
        &mut self,
        object: u32,
        parties: u32,
        end: bool,
        woken: &mut Vec<usize>,
    ) -> Option<Waits> {
        let there = |one: &(usize, Waits)| one.1 == Waits::Barrier(object, end);
        if self.waiting.iter().filter(|one| there(one)).count() + 1 < parties as usize {
            return Some(Waits::Barrier(object, end));
        }
        woken.extend(
            self.waiting
                .iter()
                .filter(|one| there(one))
                .map(|one| one.0),
        );
        self.waiting.retain(|one| !there(one));
        None
    }

    /// The condition has one more signal, and at least `least`.
    fn signal(&mut self, condition: u32, least: u64, woken: &mut Vec<usize>) {
        let (had, _) = self.signals.entry(condition).or_default();
        *had = had.saturating_add(1).max(least);
        let had = *had;
        let ends = |one: &(usize, Waits)| matches!(one.1, Waits::Condition(other, _, needed) if other == condition && needed <= had);
        while let Some(place) = self.waiting.iter().position(ends) {
            let (thread, Waits::Condition(_, lock, _)) = self.waiting.remove(place) else {
                unreachable!("it was searched for");
            };
            match self.lock(thread, lock, false) {
                None => woken.push(thread),
                Some(waits) => self.waiting.push((thread, waits)),
            }
        }
    }

    fn force(&mut self) -> bool {
        let t = self.hardware.iter().map(|one| one.clock).max().unwrap_or(0);
        let mut woken = Vec::new();
        self.answer.forced += 1;
        let first = |of: fn(&Waits) -> bool| self.waiting.iter().position(|one| of(&one.1));
        let barriers = self.waiting.iter().filter_map(|one| match one.1 {
            Waits::Barrier(object, end) => Some((end, object)),
            _ => None,
        });
        if let Some(place) = first(|one| matches!(one, Waits::Lock(..))) {
            let (thread, Waits::Lock(object, shared)) = self.waiting.remove(place) else {
                unreachable!("it was searched for");
            };
            self.held.push((object, shared, thread));
            woken.push(thread);
            woken.extend(self.next_holders(object));
        } else if let Some(place) = first(|one| matches!(one, Waits::Semaphore(_))) {
            woken.push(self.waiting.remove(place).0);
        } else if let Some(place) = first(|one| matches!(one, Waits::Condition(..))) {
            let Waits::Condition(condition, _, needed) = self.waiting[place].1 else {
                unreachable!("it was searched for");
            };
            self.signal(condition, needed, &mut woken);
        } else if let Some(new) = self.logical.iter().position(|one| one.state == State::New) {
            woken.push(new);
        } else if let Some((end, object)) = barriers.min() {
            self.barrier(object, 0, end, &mut woken);
        } else {
            return false;
        }
        for one in woken {
            self.ready(one, t);
        }
        true
    }

    fn ready(&mut self, thread: usize, t: u64) {
        let one = &mut self.logical[thread];
        let mut t = t;
        if one.state == State::Blocked {
            t = t.max(one.since);
            self.answer.blocked[thread][one.waits_for] += t - one.since;
        }
        (one.state, one.since, one.joined) = (State::Waiting, t, self.joins);
        self.joins += 1;
        self.queue.push(thread);
        self.take_heads();
    }

    fn take_heads(&mut self) {
        for number in 0..self.width {
            if self.queue.is_empty() || self.hardware[number].runs.is_some() {
                continue;
            }
            let thread = self.queue.remove(0);
            let since = self.logical[thread].since;
            let start = self.hardware[number].clock.max(since);
            self.answer.queued[thread] += start - since;
            self.logical[thread].state = State::Running;
            self.rest(number, start);
            let switch = self.smt.switch_cycles * CYCLE;
            self.answer.ticks[number][SWITCH] += switch;
            let one = &mut self.hardware[number];
            one.clock += switch;
            (one.runs, one.last_line, one.end, one.issued) = (Some(thread), None, 0, 0);
        }
    }

    /// Rule 5.
    fn call(&mut self) {
        let p = self.next_call;
        let ran = self.hardware.iter().filter(|one| one.runs.is_some());
        let ran = ran.count();
        for number in 0..self.hardware.len() {
            if let Some(thread) = self.hardware[number].runs {
                self.drain(number);
                let clock = self.hardware[number].clock;
                self.hardware[number].clock = clock.max(p);
                self.answer.ticks[number][ISSUE] += p.saturating_sub(clock);
                let one = &mut self.logical[thread];
                (one.state, one.since) = (State::Waiting, clock.max(p));
                one.joined = self.joins;
                self.joins += 1;
                self.queue.push(thread);
                self.hardware[number].runs = None;
            } else {
                self.rest(number, p);
            }
            let clock = self.hardware[number].clock;
            let until = clock.max(p + self.smt.scheduler_cycles * CYCLE);
            self.answer.ticks[number][SWITCH] += until - clock;
            self.hardware[number].clock = until;
        }
        let table = self.machine.path(false).first().copied();
        let mut threads = Vec::new();
        for number in 0..self.hardware.len() {
            let one = &mut self.hardware[number];
            let idle = self.answer.ticks[number][IDLE] + self.answer.ticks[number][PARKED];
            let (accesses, misses) =
                table.map_or((0, 0), |table| self.answer.counts[number][table]);
            let before =
                std::mem::replace(&mut one.seen, (one.instructions, idle, accesses, misses));
            threads.push(Activity {
                work: one.instructions - before.0,
                idle: (idle - before.1) / CYCLE,
                cache: Some(CacheUse {
                    accesses: accesses - before.2,
                    misses: misses - before.3,
                }),
            });
        }
        let period = Period {
            time: (p - self.last_call) / CYCLE,
            threads: &threads,
            waiting: self.queue.len(),
        };
        let plan = self.governor.plan(&period);
        (self.width, self.last_call) = (plan.width, p);
        self.next_call =
            p + (self.smt.scheduler_cycles + self.smt.switch_cycles + plan.next_call) * CYCLE;
        let logical = &self.logical;
        match plan.order {
            Order::Fifo => {}
            Order::ByNumber => self.queue.sort(),
            Order::Restored => self.queue.sort_by_key(|&one| logical[one].joined),
            Order::Kept => {
                let mut kept = self.queue.split_off(self.queue.len() - ran);
                kept.append(&mut self.queue);
                self.queue = kept;
            }
        }
        self.answer
            .plans
            .push((p / CYCLE, plan.width, plan.order.as_str()));
        self.take_heads();
    }
}

/// Removes one of `what`, and returns whether there was one.
fn take(list: &mut Vec<u32>, what: u32) -> bool {
    match list.iter().position(|&one| one == what) {
        Some(place) => {
            list.remove(place);
            true
        }
        None => false,
    }
}
