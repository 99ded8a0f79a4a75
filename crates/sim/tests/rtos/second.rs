//! A second implementation, from `models/rtos/RULES.md` alone: one event after the other, with plain lists.

use std::collections::{BTreeMap, VecDeque};
use tanada_sim::Machine;
use tanada_sim::machine::rtos::{Arbitration, Caches, RtosTable, WriteMiss};
use tanada_sim::machine::{CacheTable, Kind, Replacement};
use tanada_sim::rtos::code::{Code, FIXED, Place, Region, Step, region};
use tanada_sim::rtos::{Body, CacheCounts, Call, Cycles, Got, System};

/// What a run comes to: the last clock, and for each core the cycles and begins of each account, idle cycles, those at the
/// bus, and the caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Second {
    pub end: u64,
    pub cores: Vec<SecondCore>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SecondCore {
    pub cycles: Vec<Cycles>,
    pub begins: Vec<u64>,
    pub idle: u64,
    pub bus_wait: u64,
    pub lost: u64,
    pub latency: u64,
    pub caches: CacheCounts,
    /// Executions of each part of a piece by account, and their cycles.
    pub parts: BTreeMap<(usize, usize), (u64, u64)>,
}

/// Lines in their ways, with whether they are dirty.
struct Cache {
    sets: Vec<Vec<Option<(u64, bool)>>>,
    line: u64,
    random: u64,
    replacement: Replacement,
}

impl Cache {
    fn new(table: &CacheTable, number: u64, core: u64, seed: u64) -> Cache {
        let sets = table.size / table.line / table.ways;
        Cache {
            sets: vec![vec![None; table.ways as usize]; sets as usize],
            line: table.line,
            random: seed.wrapping_add(number << 32).wrapping_add(core),
            replacement: table.replacement,
        }
    }

    /// Returns whether the line was there, and the dirty line that went; with `fill` the line is there afterwards.
    fn touch(&mut self, line: u64, store: bool, fill: bool) -> (bool, Option<u64>) {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let lru = self.replacement == Replacement::Lru;
        if let Some(way) = set
            .iter()
            .position(|way| way.is_some_and(|way| way.0 == line))
        {
            set[way].as_mut().unwrap().1 |= store;
            if lru {
                let used = set.remove(way);
                set.insert(0, used);
            }
            return (true, None);
        }
        if !fill {
            return (false, None);
        }
        let new = Some((line, store));
        let gone = if self.replacement == Replacement::Random {
            let free = set.iter().position(Option::is_none);
            let way = free.unwrap_or_else(|| {
                self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.random;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) % set.len() as u64) as usize
            });
            std::mem::replace(&mut set[way], new)
        } else {
            // The newest first; FIFO does not move what is used.
            set.insert(0, new);
            set.pop().unwrap()
        };
        (false, gone.filter(|gone| gone.1).map(|gone| gone.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Charge {
    Own,
    Service,
    Switch,
}

#[derive(Clone, Debug)]
enum Work {
    /// The last two: which part of which piece it is of, and whether it is its first step.
    Step(Option<Step>, [u64; 6], usize, Charge, usize, bool),
    Compute(u64),
    Point,
    Switch(usize),
    Unmask,
    Left(Option<(usize, [u64; 6])>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    No,
    Dormant,
    WakeUp,
    Flag(usize, u32, bool),
    Send(usize, u64),
    Receive(usize),
    Mail(usize),
}

struct Context<'a> {
    body: Box<dyn Body + 'a>,
    works: VecDeque<Work>,
    got: Got,
    begins: bool,
    stack: u64,
    // Of tasks only:
    priority: u8,
    wait: Wait,
    /// When it began to be ready or to wait, as a number that grows.
    since: u64,
    kept: u32,
    again: bool,
}

struct Core<'a> {
    contexts: Vec<Context<'a>>,
    tasks: usize,
    levels: Vec<u8>,
    requested: Vec<Option<u64>>,
    nested: Vec<usize>,
    running: usize,
    enabled: bool,
    masked: bool,
    clock: u64,
    state: char,
    transfers: VecDeque<Transfer>,
    charged: (usize, Charge),
    /// The account and the part of a piece whose step was the last one.
    part: Option<(usize, usize)>,
    flags: Vec<u32>,
    queues: Vec<(usize, VecDeque<u64>)>,
    mailboxes: Vec<VecDeque<u64>>,
    pools: Vec<Vec<u64>>,
    caches: [Cache; 2],
    found: SecondCore,
}

#[derive(Clone, Copy, Debug)]
enum Transfer {
    /// Address and words.
    Memory(u64, u64),
    Device(u64),
}

struct Run<'a> {
    code: &'a Code,
    table: RtosTable,
    cores: Vec<Core<'a>>,
    timers: Vec<(usize, usize, Option<u64>, u64)>,
    rows: Vec<Option<u64>>,
    free: u64,
    last: usize,
    counter: u64,
    stopped: bool,
}

pub(crate) fn run<'a>(machine: &Machine, code: &'a Code, system: System<'a>, seed: u64) -> Second {
    let table = machine.rtos.clone().unwrap();
    let of = |kind| {
        machine
            .caches
            .iter()
            .position(|cache| cache.kind == kind)
            .unwrap()
    };
    let numbers = [of(Kind::Instruction), of(Kind::Data)];
    let mut counter = 0;
    let number_of_cores = system.cores.len();
    let cores = system.cores.into_iter().enumerate().map(|(number, core)| {
        let tasks = core.tasks.len();
        let mut contexts = Vec::new();
        for (place, task) in core.tasks.into_iter().enumerate() {
            counter += 1;
            contexts.push(Context {
                body: task.body,
                works: VecDeque::new(),
                got: Got::Begin,
                begins: true,
                stack: code.place(Place::Stack, place as u64 + 1) - 128,
                priority: task.priority,
                wait: if task.ready { Wait::No } else { Wait::Dormant },
                since: counter,
                kept: 0,
                again: false,
            });
        }
        let levels = core
            .handlers
            .iter()
            .map(|one| one.level)
            .collect::<Vec<_>>();
        for handler in core.handlers {
            contexts.push(Context {
                body: handler.body,
                works: VecDeque::new(),
                got: Got::Begin,
                begins: false,
                stack: 0,
                priority: 0,
                wait: Wait::No,
                since: 0,
                kept: 0,
                again: false,
            });
        }
        let mut block = 0;
        let pools = core.pools.iter().map(|blocks| {
            let mut list: Vec<u64> = (block..block + blocks)
                .map(|one| code.place(Place::Block, one))
                .collect();
            block += blocks;
            list.reverse();
            list
        });
        let mut core = Core {
            found: SecondCore {
                cycles: vec![Cycles::default(); contexts.len()],
                begins: vec![0; contexts.len()],
                ..SecondCore::default()
            },
            contexts,
            tasks,
            requested: vec![None; levels.len()],
            levels,
            nested: Vec::new(),
            running: 0,
            enabled: true,
            masked: false,
            clock: 0,
            state: 'r',
            transfers: VecDeque::new(),
            charged: (0, Charge::Own),
            part: None,
            flags: vec![0; core.flags],
            queues: core
                .queues
                .iter()
                .map(|&room| (room, VecDeque::new()))
                .collect(),
            mailboxes: vec![VecDeque::new(); core.mailboxes],
            pools: pools.collect(),
            caches: numbers
                .map(|at| Cache::new(&machine.caches[at], at as u64, number as u64, seed)),
        };
        core.running = core.urgent().unwrap_or(0);
        let running = core.running;
        core.contexts[running].begins = false;
        core.found.begins[running] = 1;
        core
    });
    let mut run = Run {
        code,
        cores: cores.collect(),
        timers: system
            .timers
            .iter()
            .map(|&(core, line, at, every)| (core, line, Some(at), every))
            .collect(),
        rows: vec![None; table.banks as usize],
        free: 0,
        last: number_of_cores - 1,
        counter: 1000,
        stopped: false,
        table,
    };
    let mut outside = system.outside;
    while !run.stopped {
        // The candidates of rule 1, each with its time.
        let first = outside.at();
        let second = (0..run.timers.len())
            .filter_map(|at| {
                run.timers[at]
                    .2
                    .map(|time| (time, run.timers[at].0, run.timers[at].1, at))
            })
            .min();
        let third = (0..run.cores.len())
            .filter(|&at| run.cores[at].state == 'r')
            .map(|at| (run.cores[at].clock, at))
            .min();
        let waiting = (0..run.cores.len()).filter(|&at| run.cores[at].state == 'w');
        let fourth = waiting.map(|at| run.cores[at].clock).min().map(|clock| {
            let from = clock.max(run.free);
            from.div_ceil(run.table.bus_cycles) * run.table.bus_cycles
        });
        let times = [
            first,
            second.map(|one| one.0),
            third.map(|one| one.0),
            fourth,
        ];
        let Some(now) = times.iter().flatten().min().copied() else {
            break;
        };
        if first == Some(now) {
            let mut calls = Vec::new();
            outside.happen(now, &mut calls);
            calls.into_iter().for_each(|call| run.line(call, now));
        } else if let Some((_, core, line, at)) = second.filter(|one| one.0 == now) {
            let every = run.timers[at].3;
            run.timers[at].2 = if every > 0 { Some(now + every) } else { None };
            run.request(core, line, now);
        } else if let Some((_, core)) = third.filter(|one| one.0 == now) {
            run.step(core);
        } else {
            run.bus(now);
        }
    }
    let end = run.cores.iter().map(|core| core.clock).max().unwrap();
    for core in &mut run.cores {
        if core.state == 'i' {
            core.found.idle += end - core.clock;
        }
    }
    Second {
        end,
        cores: run.cores.into_iter().map(|core| core.found).collect(),
    }
}

impl Core<'_> {
    fn urgent(&self) -> Option<usize> {
        let ready = (0..self.tasks).filter(|&at| self.contexts[at].wait == Wait::No);
        ready.min_by_key(|&at| (self.contexts[at].priority, self.contexts[at].since))
    }

    fn context(&self) -> usize {
        match self.nested.last() {
            Some(line) => self.tasks + line,
            None => self.running,
        }
    }

    fn accepts(&self) -> Option<usize> {
        let innermost = self.nested.last().map_or(0, |&line| self.levels[line]);
        let mut best = None;
        for line in 0..self.levels.len() {
            if self.requested[line].is_some()
                && self.levels[line] > best.map_or(innermost, |best: usize| self.levels[best])
            {
                best = Some(line);
            }
        }
        best.filter(|_| !self.masked)
    }

    fn spend(&mut self, cycles: u64, (account, charge): (usize, Charge)) {
        self.clock += cycles;
        let of = &mut self.found.cycles[account];
        *match charge {
            Charge::Own => &mut of.own,
            Charge::Service => &mut of.service,
            Charge::Switch => &mut of.switch,
        } += cycles;
        if let Some(part) = self.part {
            self.found.parts.entry(part).or_default().1 += cycles;
        }
    }

    /// The tasks that wait for what `which` says, the longest first.
    fn waiters(&self, which: impl Fn(Wait) -> bool) -> Vec<usize> {
        let mut list: Vec<usize> = (0..self.tasks)
            .filter(|&at| which(self.contexts[at].wait))
            .collect();
        list.sort_by_key(|&at| self.contexts[at].since);
        list
    }
}

impl Run<'_> {
    fn request(&mut self, core: usize, line: usize, now: u64) {
        let core = &mut self.cores[core];
        if core.requested[line].is_some() {
            core.found.lost += 1;
        } else {
            core.requested[line] = Some(now);
        }
        if core.state == 'i' {
            core.found.idle += now - core.clock;
            core.clock = now;
            core.state = 'r';
        }
    }

    fn line(&mut self, call: Call, now: u64) {
        match call {
            Call::Raise { core, line } => self.request(core, line, now),
            Call::Timer {
                core,
                line,
                at,
                every,
            } => {
                let at = at.map(|at| at.max(now));
                match self
                    .timers
                    .iter()
                    .position(|one| (one.0, one.1) == (core, line))
                {
                    Some(place) => self.timers[place] = (core, line, at, every),
                    None => self.timers.push((core, line, at, every)),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn bus(&mut self, now: u64) {
        let cores = self.cores.len();
        let order: Vec<usize> = match self.table.arbitration {
            Arbitration::Fixed => (0..cores).collect(),
            Arbitration::RoundRobin => (1..=cores).map(|step| (self.last + step) % cores).collect(),
        };
        let chosen = order
            .into_iter()
            .find(|&at| self.cores[at].state == 'w' && self.cores[at].clock <= now)
            .unwrap();
        let transfer = self.cores[chosen].transfers.pop_front().unwrap();
        let time = match transfer {
            Transfer::Device(words) => words * self.table.device_cycles,
            Transfer::Memory(address, words) => {
                let row = address / self.table.row_size;
                let bank = (address / self.table.bank_size % self.table.banks) as usize;
                let mut time = self.table.latency_cycles + words * self.table.bus_cycles;
                if self.rows[bank] != Some(row) {
                    time += self.table.activate_cycles;
                    if self.rows[bank].is_some() {
                        time += self.table.precharge_cycles;
                    }
                }
                self.rows[bank] = Some(row);
                time
            }
        };
        (self.free, self.last) = (now + time, chosen);
        let core = &mut self.cores[chosen];
        core.found.bus_wait += now - core.clock;
        let (cycles, charged) = (now + time - core.clock, core.charged);
        core.spend(cycles, charged);
        if core.transfers.is_empty() {
            core.state = 'r';
        }
    }

    fn touch(&mut self, number: usize, fetch: bool, address: u64, bytes: u64, store: bool) {
        let table = self.table.clone();
        let core = &mut self.cores[number];
        let words = (address + bytes.max(1) - 1) / 4 - address / 4 + 1;
        let moved = address + ((number as u64) << 24);
        match region(address) {
            Region::Device => core.transfers.push_back(Transfer::Device(words)),
            Region::Shared => core.transfers.push_back(Transfer::Memory(address, words)),
            Region::Own if table.caches == Caches::Off => {
                if fetch {
                    let first = moved / 4 * 4;
                    core.transfers
                        .extend((0..words).map(|word| Transfer::Memory(first + word * 4, 1)));
                } else {
                    core.transfers.push_back(Transfer::Memory(moved, words));
                }
            }
            Region::Own => {
                let cache = &mut core.caches[usize::from(!fetch)];
                let size = cache.line;
                let end = moved + bytes.max(1);
                for line in moved / size..end.div_ceil(size) {
                    let around = store && table.write_miss == WriteMiss::Around;
                    let (hit, gone) = cache.touch(line, store, !around);
                    let counts = &mut core.found.caches;
                    let (lookups, misses) = if fetch {
                        (&mut counts.fetches, &mut counts.fetch_misses)
                    } else {
                        (&mut counts.accesses, &mut counts.access_misses)
                    };
                    *lookups += 1;
                    if hit {
                        continue;
                    }
                    *misses += 1;
                    if around {
                        let (from, to) = (moved.max(line * size), end.min((line + 1) * size));
                        core.transfers
                            .push_back(Transfer::Memory(from, (to - 1) / 4 - from / 4 + 1));
                        continue;
                    }
                    if let Some(gone) = gone {
                        counts.writebacks += 1;
                        core.transfers
                            .push_back(Transfer::Memory(gone * size, size.div_ceil(4)));
                    }
                    core.transfers
                        .push_back(Transfer::Memory(line * size, size.div_ceil(4)));
                }
            }
        }
        if !core.transfers.is_empty() {
            core.state = 'w';
        }
    }

    /// The works of one part of a piece.
    fn part(
        &self,
        name: &str,
        behind: bool,
        roles: [u64; 6],
        account: usize,
        charge: Charge,
    ) -> Vec<Work> {
        self.part_of(Code::number(name), behind, roles, account, charge)
    }

    fn part_of(
        &self,
        piece: usize,
        behind: bool,
        roles: [u64; 6],
        account: usize,
        charge: Charge,
    ) -> Vec<Work> {
        let part = 2 * piece + usize::from(behind);
        let piece = &self.code.pieces[piece];
        let steps = if behind { &piece.behind } else { &piece.before };
        if steps.is_empty() {
            return vec![Work::Step(None, roles, account, charge, part, true)];
        }
        let each = steps.iter().enumerate();
        each.map(|(at, &step)| Work::Step(Some(step), roles, account, charge, part, at == 0))
            .collect()
    }

    fn first(&mut self, core: usize, context: usize, works: Vec<Work>) {
        for work in works.into_iter().rev() {
            self.cores[core].contexts[context].works.push_front(work);
        }
    }

    fn step(&mut self, number: usize) {
        if let Some(line) = self.cores[number].accepts() {
            let code = self.code;
            let core = &mut self.cores[number];
            let requested = core.requested[line].take().unwrap();
            core.found.latency = core.found.latency.max(core.clock.saturating_sub(requested));
            let below = core.context();
            let handler = core.tasks + line;
            let depth = core.nested.len() as u64;
            core.contexts[handler].stack = code.place(Place::Stack, 20) - 32 - 96 * depth;
            core.contexts[handler].got = Got::Begin;
            core.found.begins[handler] += 1;
            core.nested.push(line);
            core.masked = true;
            let mut roles = [0; 6];
            roles[0] = core.contexts[below].stack;
            roles[3] = core.contexts[handler].stack;
            let name = if depth > 0 {
                "interrupt enters nested"
            } else {
                "interrupt enters"
            };
            let mut works = self.part(name, false, roles, handler, Charge::Service);
            works.push(Work::Unmask);
            self.cores[number].contexts[handler].works.extend(works);
            return;
        }
        let core = &mut self.cores[number];
        let context = core.context();
        let Some(work) = core.contexts[context].works.pop_front() else {
            let got = std::mem::replace(&mut core.contexts[context].got, Got::Ok);
            let now = core.clock;
            let call = core.contexts[context].body.next(got, now);
            self.call(number, context, call);
            return;
        };
        match work {
            Work::Step(step, roles, account, charge, part, first) => {
                if step.is_none() {
                    return;
                }
                core.charged = (account, charge);
                core.part = Some((account, part));
                core.found.parts.entry((account, part)).or_default().0 += u64::from(first);
                match step.unwrap() {
                    Step::Execute(count) => core.spend(u64::from(count), (account, charge)),
                    Step::Fetch {
                        address,
                        bytes,
                        branched,
                    } => {
                        if branched {
                            core.spend(self.table.branch_cycles, (account, charge));
                        }
                        self.touch(number, true, address, u64::from(bytes), false);
                    }
                    Step::Access {
                        role,
                        offset,
                        bytes,
                        store,
                    } => {
                        let base = if role == FIXED {
                            0
                        } else {
                            roles[usize::from(role)]
                        };
                        let words = u64::from(bytes).div_ceil(4);
                        core.spend(words.saturating_sub(1), (account, charge));
                        self.touch(
                            number,
                            false,
                            base.wrapping_add_signed(offset),
                            u64::from(bytes),
                            store,
                        );
                    }
                }
            }
            Work::Compute(cycles) => {
                core.part = None;
                core.spend(cycles, (context, Charge::Own));
            }
            Work::Unmask => core.masked = false,
            Work::Point => {
                if core.enabled && core.nested.is_empty() && core.urgent() != Some(context) {
                    let works = self.dispatch(number);
                    self.first(number, context, works);
                }
            }
            Work::Switch(account) => {
                let (from, to) = (core.running, core.urgent().unwrap());
                core.running = to;
                core.found.begins[to] += 1;
                let begins = std::mem::take(&mut core.contexts[to].begins);
                let roles = self.dispatch_roles(number, from, to);
                let name = if begins {
                    "dispatch begins"
                } else {
                    "dispatch"
                };
                let mut works = self.part(name, true, roles, account, Charge::Switch);
                if begins {
                    works.push(Work::Unmask);
                }
                self.first(number, to, works);
            }
            Work::Left(rest) => {
                core.nested.pop();
                let under = core.context();
                let mut works = Vec::new();
                if let Some((piece, roles)) = rest {
                    works = self.dispatch(number);
                    works.extend(self.part_of(piece, true, roles, context, Charge::Service));
                }
                works.push(Work::Unmask);
                self.first(number, under, works);
            }
        }
    }

    fn dispatch(&self, number: usize) -> Vec<Work> {
        let core = &self.cores[number];
        let (from, to) = (core.running, core.urgent().unwrap());
        let account = if core.contexts[from].wait == Wait::No {
            to
        } else {
            from
        };
        let mut works = self.part(
            "dispatch",
            false,
            self.dispatch_roles(number, from, to),
            account,
            Charge::Switch,
        );
        works.push(Work::Switch(account));
        works
    }

    fn dispatch_roles(&self, number: usize, from: usize, to: usize) -> [u64; 6] {
        let core = &self.cores[number];
        let task = |at: usize| self.code.place(Place::Task, at as u64);
        [
            core.contexts[from].stack,
            task(from),
            task(to),
            core.contexts[to].stack,
            0,
            task(from),
        ]
    }

    fn call(&mut self, number: usize, context: usize, call: Call) {
        let core = &mut self.cores[number];
        let now = core.clock;
        match call {
            Call::Run { piece, at } => {
                let mut roles = at;
                roles[0] = core.contexts[context].stack;
                for behind in [false, true] {
                    let works = self.part_of(piece, behind, roles, context, Charge::Own);
                    self.cores[number].contexts[context].works.extend(works);
                }
            }
            Call::Compute(cycles) => core.contexts[context]
                .works
                .push_back(Work::Compute(cycles)),
            Call::Raise { .. } | Call::Timer { .. } => self.line(call, now),
            Call::Idle => {
                if core.accepts().is_none() {
                    core.state = 'i';
                }
            }
            Call::Stop => self.stopped = true,
            Call::Done => {
                let depth = core.nested.len();
                let dispatches = depth == 1 && core.enabled && core.urgent() != Some(core.running);
                let below = if depth == 1 {
                    core.running
                } else {
                    core.tasks + core.nested[depth - 2]
                };
                let mut roles = [0; 6];
                roles[0] = core.contexts[below].stack;
                roles[3] = core.contexts[context].stack;
                core.masked = true;
                let name = match (depth, dispatches) {
                    (1, true) => "interrupt dispatches",
                    (1, false) => "interrupt leaves",
                    _ => "interrupt leaves nested",
                };
                let mut works = self.part(name, false, roles, context, Charge::Service);
                works.push(Work::Left(dispatches.then(|| (Code::number(name), roles))));
                self.cores[number].contexts[context].works.extend(works);
            }
            call => self.service(number, context, call),
        }
    }

    fn service(&mut self, number: usize, context: usize, call: Call) {
        self.counter += 1;
        let counter = self.counter;
        let core = &mut self.cores[number];
        let handler = !core.nested.is_empty();
        // The path, what the caller gets at once, the tasks that are woken and what they get.
        let mut woken: Vec<(usize, Got)> = Vec::new();
        let mut got = Some(Got::Ok);
        let mut wait = Wait::No;
        let mut named = None;
        let mut object = None;
        let mut message = None;
        let path = match call {
            Call::Activate(task) => {
                named = Some(task);
                if core.contexts[task].wait == Wait::Dormant {
                    woken.push((task, Got::Begin));
                    "act_tsk wakes"
                } else {
                    core.contexts[task].again = true;
                    "act_tsk counts"
                }
            }
            Call::Exit => {
                got = None;
                wait = Wait::Dormant;
                if std::mem::take(&mut core.contexts[context].again) {
                    woken.push((context, Got::Begin));
                }
                "ext_tsk"
            }
            Call::Sleep => {
                if core.contexts[context].kept > 0 {
                    core.contexts[context].kept -= 1;
                    "slp_tsk goes on"
                } else {
                    wait = Wait::WakeUp;
                    "slp_tsk waits"
                }
            }
            Call::Wake(task) => {
                named = Some(task);
                if core.contexts[task].wait == Wait::WakeUp {
                    woken.push((task, Got::Ok));
                    "wup_tsk wakes"
                } else {
                    core.contexts[task].kept += 1;
                    "wup_tsk counts"
                }
            }
            Call::DisableDispatch => {
                core.enabled = false;
                "dis_dsp"
            }
            Call::EnableDispatch => {
                core.enabled = true;
                if core.urgent() == Some(context) {
                    "ena_dsp"
                } else {
                    "ena_dsp dispatches"
                }
            }
            Call::SetFlag { flag, bits } => {
                object = Some((Place::Flag, flag));
                core.flags[flag] |= bits;
                for task in core.waiters(|wait| matches!(wait, Wait::Flag(one, ..) if one == flag))
                {
                    let Wait::Flag(_, wanted, any) = core.contexts[task].wait else {
                        unreachable!()
                    };
                    let there = core.flags[flag] & wanted;
                    if there == wanted || any && there != 0 {
                        woken.push((task, Got::Value(u64::from(core.flags[flag]))));
                        core.flags[flag] &= !wanted;
                    }
                }
                if woken.is_empty() {
                    "set_flg"
                } else {
                    "set_flg wakes"
                }
            }
            Call::WaitFlag { flag, bits, any } => {
                object = Some((Place::Flag, flag));
                let there = core.flags[flag] & bits;
                if there == bits || any && there != 0 {
                    got = Some(Got::Value(u64::from(core.flags[flag])));
                    core.flags[flag] &= !bits;
                    "wai_flg goes on"
                } else {
                    wait = Wait::Flag(flag, bits, any);
                    "wai_flg waits"
                }
            }
            Call::Send { queue, value } => {
                object = Some((Place::DataQueue, queue));
                let receivers = core.waiters(|wait| wait == Wait::Receive(queue));
                if let Some(&task) = receivers.first() {
                    woken.push((task, Got::Value(value)));
                    "snd_dtq wakes"
                } else if core.queues[queue].1.len() < core.queues[queue].0 {
                    core.queues[queue].1.push_back(value);
                    "snd_dtq stores"
                } else if handler {
                    got = Some(Got::Nothing);
                    "snd_dtq is full"
                } else {
                    wait = Wait::Send(queue, value);
                    "snd_dtq waits"
                }
            }
            Call::Receive(queue) => {
                object = Some((Place::DataQueue, queue));
                let senders =
                    core.waiters(|wait| matches!(wait, Wait::Send(one, _) if one == queue));
                if let Some(&task) = senders.first() {
                    let Wait::Send(_, value) = core.contexts[task].wait else {
                        unreachable!()
                    };
                    core.queues[queue].1.push_back(value);
                    woken.push((task, Got::Ok));
                }
                match core.queues[queue].1.pop_front() {
                    Some(value) => {
                        got = Some(Got::Value(value));
                        if woken.is_empty() {
                            "rcv_dtq takes"
                        } else {
                            "rcv_dtq wakes"
                        }
                    }
                    None => {
                        wait = Wait::Receive(queue);
                        "rcv_dtq waits"
                    }
                }
            }
            Call::Mail {
                mailbox,
                message: one,
            } => {
                object = Some((Place::Mailbox, mailbox));
                message = Some(one);
                match core.waiters(|wait| wait == Wait::Mail(mailbox)).first() {
                    Some(&task) => {
                        woken.push((task, Got::Value(one)));
                        "snd_mbx wakes"
                    }
                    None => {
                        core.mailboxes[mailbox].push_back(one);
                        "snd_mbx stores"
                    }
                }
            }
            Call::Collect(mailbox) | Call::Poll(mailbox) => {
                object = Some((Place::Mailbox, mailbox));
                let polls = matches!(call, Call::Poll(_));
                match core.mailboxes[mailbox].pop_front() {
                    Some(one) => {
                        got = Some(Got::Value(one));
                        if polls {
                            "prcv_mbx takes"
                        } else {
                            "rcv_mbx takes"
                        }
                    }
                    None if polls => {
                        got = Some(Got::Nothing);
                        "prcv_mbx is empty"
                    }
                    None => {
                        wait = Wait::Mail(mailbox);
                        "rcv_mbx waits"
                    }
                }
            }
            Call::Get(pool) => {
                object = Some((Place::Pool, pool));
                match core.pools[pool].pop() {
                    Some(block) => {
                        got = Some(Got::Value(block));
                        "pget_mpf takes"
                    }
                    None => {
                        got = Some(Got::Nothing);
                        "pget_mpf is empty"
                    }
                }
            }
            Call::Put { pool, block } => {
                object = Some((Place::Pool, pool));
                message = Some(block);
                core.pools[pool].push(block);
                "rel_mpf"
            }
            Call::Tick => "isig_tim",
            other => panic!("{other:?}"),
        };
        // Services of handlers have names of their own.
        let path = match path.split_once('_') {
            _ if !handler => path.to_owned(),
            Some(("snd", rest)) if rest.starts_with("dtq") => format!("ipsnd_{rest}"),
            Some(("act" | "wup" | "set" | "snd", _)) => format!("i{path}"),
            _ => path.to_owned(),
        };
        if wait != Wait::No {
            got = None;
            core.contexts[context].wait = wait;
            core.contexts[context].since = counter * 64;
        }
        // Several tasks become ready one after the other, behind all that were ready before.
        for (step, &(task, what)) in woken.iter().enumerate() {
            let one = &mut core.contexts[task];
            one.wait = Wait::No;
            one.since = counter * 64 + step as u64;
            one.got = what;
            if what == Got::Begin {
                one.kept = 0;
                one.begins = task != context;
            }
        }
        let code = self.code;
        let subject = woken.first().map_or(named.unwrap_or(context), |one| one.0);
        let mut roles = [0; 6];
        roles[0] = core.contexts[context].stack;
        if subject < core.tasks {
            roles[1] = code.place(Place::Task, subject as u64);
            roles[2] = core.contexts[subject].stack - 60;
        }
        roles[3] = object.map_or(roles[1], |(place, index)| code.place(place, index as u64));
        let block = match (message, got) {
            (Some(message), _) => message,
            (None, Some(Got::Value(value))) => value,
            _ => 0,
        };
        let blocks = code.place(Place::Block, 0)..code.place(Place::Block, 64);
        roles[4] = if blocks.contains(&block) {
            block
        } else {
            blocks.start
        };
        roles[5] = code.place(Place::Task, core.running as u64);
        core.masked = true;
        if let Some(got) = got {
            core.contexts[context].got = got;
        }
        let mut works = self.part(&path, false, roles, context, Charge::Service);
        works.push(Work::Point);
        if call != Call::Exit {
            works.extend(self.part(&path, true, roles, context, Charge::Service));
            works.push(Work::Unmask);
        } else if !woken.is_empty() {
            works.push(Work::Unmask);
        }
        self.cores[number].contexts[context].works.extend(works);
    }
}
