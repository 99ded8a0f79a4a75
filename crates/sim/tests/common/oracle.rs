//! The contended model once more, written to be obviously what RULES.md says: a list of events that is searched for the first,
//! caches as lists of lines, one step after the other. Only for machines as `machine_text` makes them, and for policies with one pool
//! that let no core idle.

use super::{Line, Shape};
use std::collections::VecDeque;
use std::fmt::Write;
use tanada_laws::{Graph, Model, model};
use tanada_policy::{Placement, WorkerId};

/// What the machine has beyond the uniform one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    pub(crate) invalidate: u64,
    pub(crate) ports: u64,
    pub(crate) port: u64,
    pub(crate) banks: u64,
    pub(crate) bank: u64,
    pub(crate) bus: u64,
    pub(crate) channels: u64,
    pub(crate) fill: u64,
    pub(crate) write: u64,
    pub(crate) memory_banks: u64,
    /// Hit, closed, conflict.
    pub(crate) rows: [u64; 3],
    pub(crate) open: bool,
    pub(crate) call: u64,
    pub(crate) resolve: u64,
    pub(crate) pool: u64,
    pub(crate) pool_lines: u64,
    pub(crate) code: u64,
    pub(crate) wake: u64,
    /// Write, near core, start, every, step.
    pub(crate) streams: Vec<(bool, u64, u64, u64, u64)>,
    /// Several memories.
    pub(crate) numa: Option<Numa>,
}

/// Several memories and what is between them.
#[derive(Clone, Debug)]
pub(crate) struct Numa {
    pub(crate) cores_per_socket: usize,
    pub(crate) sockets: usize,
    /// `first-touch`, `interleave` or the number of a socket.
    pub(crate) pages: Pages,
    /// Each pair once.
    pub(crate) links: Vec<(usize, usize)>,
    pub(crate) link: u64,
    pub(crate) transfer: u64,
}

/// Where pages lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    First,
    Interleave,
    Socket(usize),
}

const PAGE: u64 = 256;

impl Numa {
    /// Links from one socket to another, by trying all ways of growing length.
    fn far(&self, from: usize, to: usize) -> usize {
        let mut reached = vec![from];
        for far in 0.. {
            if reached.contains(&to) {
                return far;
            }
            let next = |&(a, b): &(usize, usize)| {
                [(a, b), (b, a)]
                    .into_iter()
                    .find(|(a, b)| reached.contains(a) && !reached.contains(b))
                    .map(|(_, b)| b)
            };
            let more: Vec<usize> = self.links.iter().filter_map(next).collect();
            reached.extend(more);
        }
        unreachable!("all sockets are connected")
    }

    /// The sockets on the route, the first one left out.
    fn route(&self, from: usize, to: usize) -> Vec<usize> {
        let mut route = Vec::new();
        let mut at = from;
        while at != to {
            let is_link =
                |next: usize| self.links.contains(&(at, next)) || self.links.contains(&(next, at));
            at = (0..self.sockets)
                .find(|&next| is_link(next) && self.far(next, to) < self.far(at, to))
                .unwrap();
            route.push(at);
        }
        route
    }

    fn text(&self) -> String {
        let (pages, socket) = match self.pages {
            Pages::First => ("first-touch", String::new()),
            Pages::Interleave => ("interleave", String::new()),
            Pages::Socket(socket) => ("socket", format!("socket = {socket}\n")),
        };
        let links: Vec<String> = self.links.iter().map(|(a, b)| format!("{b}-{a}")).collect();
        format!(
            "[numa]\nsockets = {}\npages = \"{pages}\"\n{socket}page_size = {PAGE}\nlinks = \"{}\"\n\
             link_cycles = {}\ntransfer_cycles = {}\n",
            self.sockets,
            links.join(" "),
            self.link,
            self.transfer
        )
    }
}

const INTERLEAVE: u64 = 512;
const ROW: u64 = 1024;
const STREAM: u64 = 1024;
const STREAM_SIZE: u64 = 5000;
const DISPATCHER: u64 = 0x10_0000;

impl Extra {
    /// The keys of shared `[[cache]]` tables.
    pub(crate) fn shared_text(&self) -> String {
        format!(
            "ports = {}\nport_cycles = {}\nbanks = {}\nbank_cycles = {}\nbus_cycles = {}\n",
            self.ports, self.port, self.banks, self.bank, self.bus
        )
    }

    /// The tables behind the caches; and a key in front of them.
    pub(crate) fn text(&self, cores: u16, invalidates: bool) -> (String, String) {
        let mut front = String::new();
        if invalidates {
            writeln!(front, "invalidate_cycles = {}", self.invalidate).unwrap();
        }
        if let Some(numa) = &self.numa {
            writeln!(front, "cores_per_socket = {}", numa.cores_per_socket).unwrap();
        }
        let [hit, closed, conflict] = self.rows;
        let mut text = format!(
            "[memory]\nchannels = {}\ninterleave = {INTERLEAVE}\n\
             fill_cycles = {}\nwrite_cycles = {}\nbanks = {}\n\
             row_size = {ROW}\nrow_closed_cycles = {closed}\n",
            self.channels, self.fill, self.write, self.memory_banks
        );
        text += &if self.open {
            format!("page = \"open\"\nrow_hit_cycles = {hit}\nrow_conflict_cycles = {conflict}\n")
        } else {
            "page = \"closed\"\n".to_owned()
        };
        write!(
            text,
            "[scheduler]\ncall_cycles = {}\nresolve_cycles = {}\npool_cycles = {}\n\
             pool_lines = {}\ncode_size = {}\nwake_cycles = {}\naddress = {DISPATCHER}\n",
            self.call, self.resolve, self.pool, self.pool_lines, self.code, self.wake
        )
        .unwrap();
        if let Some(numa) = &self.numa {
            text += &numa.text();
        }
        for (index, (write, near, start, every, step)) in self.streams.iter().enumerate() {
            let access = if *write { "write" } else { "read" };
            write!(
                text,
                "[background.s{index}]\naccess = \"{access}\"\nnear_core = {}\nstart = {start}\n\
                 every_cycles = {every}\nstep = {step}\naddress = {STREAM}\nsize = {STREAM_SIZE}\n",
                near % u64::from(cores)
            )
            .unwrap();
        }
        (front, text)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Code,
    Data,
    Both,
}

struct Table {
    holds: Holds,
    /// Cores that share one.
    each: usize,
    private: bool,
    ways: usize,
    line: u64,
    sets: u64,
    replacement: &'static str,
    miss: u64,
}

#[derive(Clone, Default)]
struct Way {
    line: u64,
    dirty: bool,
    /// Order of its fill or, with LRU, of its last use.
    order: u64,
}

struct OneCache {
    table: usize,
    sets: Vec<Vec<Option<Way>>>,
    random: u64,
    bus: u64,
    ports: Vec<u64>,
    banks: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Asleep,
    Calling,
    Waiting,
    Running,
}

#[derive(Clone, Debug)]
enum Step {
    Cycles(u64),
    Touch(char, u64),
    Decide,
    Lock,
    Unlock,
    End,
}

struct OneCore {
    state: State,
    time: u64,
    steps: VecDeque<Step>,
    task: usize,
    ended: Option<usize>,
    got: Option<usize>,
    wakes: usize,
    asked: u64,
    start: u64,
    busy: u64,
}

/// What is compared.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) makespan: u64,
    pub(crate) busy: Vec<u64>,
    /// Of each table: accesses, misses.
    pub(crate) counts: Vec<(u64, u64)>,
    pub(crate) writebacks: u64,
    pub(crate) fills: u64,
    pub(crate) writes: u64,
    pub(crate) channel_busy: u64,
    pub(crate) waited: u64,
    pub(crate) invalidations: u64,
    /// Core, task, start, end.
    pub(crate) runs: Vec<(u16, u32, u64, u64)>,
    pub(crate) in_vain: u64,
    pub(crate) background: u64,
    /// Fills and write-backs from and to other sockets; cycles that links were held, and waited for.
    pub(crate) remote: [u64; 4],
}

/// Of each channel and bank: when it is free, and its open row.
type Channels = Vec<Vec<(u64, Option<u64>)>>;

pub(crate) struct Oracle<'a> {
    shape: &'a Shape,
    extra: &'a Extra,
    tables: Vec<Table>,
    caches: Vec<OneCache>,
    /// Of each table: its first cache.
    first: Vec<usize>,
    /// Of each socket.
    channels: Vec<Vec<u64>>,
    memory_banks: Vec<Channels>,
    /// Placed pages: page, socket.
    homes: Vec<(u64, usize)>,
    /// From, to, free.
    links: Vec<(usize, usize, u64)>,
    uses: u64,
    cores: Vec<OneCore>,
    waits: Vec<usize>,
    graph: Graph,
    /// The pool.
    model: Box<dyn Model>,
    /// Tasks in the pool.
    ready: usize,
    holder: Option<usize>,
    queue: VecDeque<usize>,
    /// Due, accesses.
    streams: Vec<(u64, u64)>,
    answer: Answer,
    left: usize,
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn tables(shape: &Shape, cores: usize) -> Vec<Table> {
    let table = |holds, each, private, size: u64, ways: usize, line, replacement, miss| Table {
        holds,
        each,
        private,
        ways,
        line,
        sets: size / line / ways as u64,
        replacement,
        miss,
    };
    let (line, size) = (shape.line, shape.line * 8);
    let mut all = if shape.unified {
        vec![table(
            Holds::Both,
            1,
            true,
            size,
            2,
            line,
            shape.replacement,
            7,
        )]
    } else {
        vec![
            table(Holds::Code, 1, true, size, 2, line, shape.replacement, 5),
            table(Holds::Data, 1, true, size, 4, line, shape.replacement, 9),
        ]
    };
    match shape.deep {
        "machine" => all.push(table(Holds::Both, cores, false, 2048, 4, 128, "lru", 40)),
        "cluster" => all.push(table(Holds::Both, 2, false, 2048, 4, 64, "lru", 40)),
        "three" => {
            all.push(table(Holds::Both, 1, true, 1024, 2, 64, "lru", 11));
            all.push(table(Holds::Both, cores, false, 4096, 4, 128, "lru", 50));
        }
        _ => {}
    }
    all
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(
        shape: &'a Shape,
        extra: &'a Extra,
        cores: u16,
        seed: u64,
        policy: &str,
    ) -> Self {
        let cores = usize::from(cores);
        let tables = tables(shape, cores);
        let mut caches = Vec::new();
        let mut first = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            first.push(caches.len());
            for instance in 0..cores.div_ceil(table.each) {
                caches.push(OneCache {
                    table: number,
                    sets: vec![vec![None; table.ways]; table.sets as usize],
                    random: seed
                        .wrapping_add((number as u64) << 32)
                        .wrapping_add(instance as u64),
                    bus: 0,
                    ports: vec![0; extra.ports as usize],
                    banks: vec![0; extra.banks as usize],
                });
            }
        }
        let core = || OneCore {
            state: State::Calling,
            time: 0,
            steps: VecDeque::new(),
            task: 0,
            ended: None,
            got: None,
            wakes: 0,
            asked: 0,
            start: 0,
            busy: 0,
        };
        let mut waits = vec![0; shape.tasks.len()];
        shape.edges.iter().for_each(|&(_, to)| waits[to] += 1);
        let (graph, placement) = (shape.graph(), Placement::flat(cores as u16));
        let sockets = extra.numa.as_ref().map_or(1, |numa| numa.sockets);
        let links = extra.numa.iter().flat_map(|numa| &numa.links);
        let links = links.flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut oracle = Oracle {
            first,
            channels: vec![vec![0; extra.channels as usize]; sockets],
            memory_banks: vec![
                vec![
                    vec![(0, None); extra.memory_banks as usize];
                    extra.channels as usize
                ];
                sockets
            ],
            homes: Vec::new(),
            links: links.map(|(a, b)| (a, b, 0)).collect(),
            uses: 0,
            cores: (0..cores).map(|_| core()).collect(),
            model: model(policy, &graph, &placement, seed).expect("every policy has a model"),
            graph,
            ready: 0,
            waits,
            holder: None,
            queue: VecDeque::new(),
            streams: extra.streams.iter().map(|stream| (stream.2, 0)).collect(),
            answer: Answer {
                counts: vec![(0, 0); tables.len()],
                ..Answer::default()
            },
            left: shape.tasks.len(),
            tables,
            caches,
            shape,
            extra,
        };
        for task in (0..shape.tasks.len())
            .filter(|&task| oracle.waits[task] == 0)
            .collect::<Vec<_>>()
        {
            oracle.make_ready(WorkerId::NONE, task);
        }
        for core in 0..cores {
            oracle.begin_call(core, 0, None);
        }
        oracle
    }

    pub(crate) fn run(mut self) -> Answer {
        while self.left > 0 {
            let cores =
                self.cores
                    .iter()
                    .enumerate()
                    .filter_map(|(index, core)| match core.state {
                        State::Calling => Some((core.time, 0, index)),
                        State::Running => Some((core.time, 1, index)),
                        State::Asleep | State::Waiting => None,
                    });
            let streams = self
                .streams
                .iter()
                .enumerate()
                .map(|(index, stream)| (stream.0, 2, index));
            match cores.chain(streams).min().expect("something goes on") {
                (_, 2, index) => self.stream(index),
                (_, _, index) => self.step(index),
            }
        }
        self.answer.busy = self.cores.iter().map(|core| core.busy).collect();
        self.answer
    }

    fn path(&self, core: usize, code: bool) -> Vec<usize> {
        let serves =
            |table: &Table| table.holds == Holds::Both || (table.holds == Holds::Code) == code;
        let tables = self
            .tables
            .iter()
            .enumerate()
            .filter(|(_, table)| serves(table));
        tables
            .map(|(number, table)| self.first[number] + core / table.each)
            .collect()
    }

    fn find(&mut self, cache: usize, address: u64) -> Option<&mut Option<Way>> {
        let table = &self.tables[self.caches[cache].table];
        let (line, set) = (address / table.line, address / table.line % table.sets);
        let ways = self.caches[cache].sets[set as usize].iter_mut();
        ways.into_iter()
            .find(|way| way.as_ref().is_some_and(|way| way.line == line))
    }

    /// Whether it was there, and the address of a dirty victim.
    fn look_up(&mut self, cache: usize, address: u64, write: bool) -> (bool, Option<u64>) {
        self.uses += 1;
        let uses = self.uses;
        let lru = self.tables[self.caches[cache].table].replacement == "lru";
        if let Some(Some(way)) = self.find(cache, address) {
            way.dirty |= write;
            if lru {
                way.order = uses;
            }
            return (true, None);
        }
        let this = &mut self.caches[cache];
        let table = &self.tables[this.table];
        let line = address / table.line;
        let set = &mut this.sets[(line % table.sets) as usize];
        let free = set.iter().position(Option::is_none);
        let oldest = || {
            (0..set.len())
                .min_by_key(|&way| set[way].as_ref().unwrap().order)
                .unwrap()
        };
        let way = free.unwrap_or_else(|| match table.replacement {
            "random" => (split_mix(&mut this.random) % table.ways as u64) as usize,
            _ => oldest(),
        });
        let victim = set[way].replace(Way {
            line,
            dirty: write,
            order: uses,
        });
        let dirty = victim.filter(|victim| victim.dirty);
        (false, dirty.map(|victim| victim.line * table.line))
    }

    fn station(&mut self, cache: usize, address: u64, arrives: u64) -> u64 {
        let this = &mut self.caches[cache];
        let table = &self.tables[this.table];
        if table.private {
            return arrives;
        }
        let mut at = arrives;
        if self.extra.bus > 0 {
            at = at.max(this.bus);
            this.bus = at + self.extra.bus;
        }
        let port = (0..this.ports.len())
            .min_by_key(|&port| this.ports[port])
            .unwrap();
        let bank = (address / table.line % self.extra.banks) as usize;
        if self.extra.bank > 0 {
            at = at.max(this.banks[bank]);
        }
        if self.extra.port > 0 {
            at = at.max(this.ports[port]);
        }
        if self.extra.bank > 0 {
            this.banks[bank] = at + self.extra.bank;
        }
        if self.extra.port > 0 {
            this.ports[port] = at + self.extra.port;
        }
        at
    }

    /// Where the page lies, and the socket of the core.
    fn home(&mut self, core: usize, address: u64) -> (usize, usize) {
        let Some(numa) = &self.extra.numa else {
            return (0, 0);
        };
        let socket = core / numa.cores_per_socket % numa.sockets;
        let page = address / PAGE;
        let dispatcher = (DISPATCHER..DISPATCHER + (1 << 30)).contains(&address);
        let home = match numa.pages {
            Pages::Socket(home) if !dispatcher => home,
            Pages::Interleave if !dispatcher => page as usize % numa.sockets,
            _ => {
                let known = self.homes.iter().find(|known| known.0 == page);
                let home = known.map_or(socket, |known| known.1);
                if known.is_none() {
                    self.homes.push((page, socket));
                }
                home
            }
        };
        (home, socket)
    }

    fn pass(&mut self, from: usize, to: usize, arrives: u64) -> u64 {
        let Some(numa) = &self.extra.numa else {
            return arrives;
        };
        let (mut at, mut here) = (arrives, from);
        for next in numa.route(from, to) {
            let link = self.links.iter_mut();
            let link = link.into_iter().find(|one| (one.0, one.1) == (here, next));
            let free = &mut link.unwrap().2;
            if numa.transfer > 0 {
                let taken = at.max(*free);
                self.answer.remote[3] += taken - at;
                self.answer.remote[2] += numa.transfer;
                at = taken;
                *free = at + numa.transfer;
            }
            here = next;
        }
        at
    }

    /// A fill: when it is over without latencies, and the latency of links.
    fn fetch(&mut self, core: usize, address: u64, arrives: u64) -> (u64, u64) {
        let (home, socket) = self.home(core, address);
        let grant = self.memory(home, address, arrives, false);
        let Some(numa) = self.extra.numa.as_ref().filter(|_| home != socket) else {
            return (grant, 0);
        };
        self.answer.remote[0] += 1;
        let latency = numa.link * numa.far(home, socket) as u64;
        (self.pass(home, socket, grant), latency)
    }

    fn put_back(&mut self, core: usize, address: u64, arrives: u64) -> u64 {
        let (home, socket) = self.home(core, address);
        self.answer.remote[1] += u64::from(home != socket);
        let at = self.pass(socket, home, arrives);
        self.memory(home, address, at, true)
    }

    fn memory(&mut self, home: usize, address: u64, arrives: u64, write: bool) -> u64 {
        let channel = (address / INTERLEAVE % self.extra.channels) as usize;
        let (bank, row) = (
            address / ROW % self.extra.memory_banks,
            address / ROW / self.extra.memory_banks,
        );
        let (free, open) = &mut self.memory_banks[home][channel][bank as usize];
        let [hit, closed, conflict] = self.extra.rows;
        let opening = match open {
            None => closed,
            Some(open) if *open == row => hit,
            Some(_) => conflict,
        };
        let hold = if write {
            self.extra.write
        } else {
            self.extra.fill
        };
        let mut grant = arrives;
        if opening + hold > 0 {
            grant = (arrives.max(*free) + opening).max(self.channels[home][channel]);
        }
        if hold > 0 {
            *free = grant + hold;
            self.channels[home][channel] = grant + hold;
        }
        *open = self.extra.open.then_some(row);
        *(if write {
            &mut self.answer.writes
        } else {
            &mut self.answer.fills
        }) += 1;
        self.answer.channel_busy += hold;
        self.answer.waited += grant - arrives;
        grant
    }

    /// Rule 2. `path`: the caches that are looked up; `whole`: those that a writer has on its path.
    #[allow(clippy::too_many_arguments)] // all of them are the touch
    fn touch(
        &mut self,
        core: usize,
        path: &[usize],
        spared: &[usize],
        write: bool,
        address: u64,
        now: u64,
        count: bool,
    ) -> u64 {
        let mut cost = 0;
        if write && self.shape.invalidate {
            let (mut any, mut reach) = (false, 0);
            for cache in 0..self.caches.len() {
                let code = self.tables[self.caches[cache].table].holds == Holds::Code;
                if !code
                    && !spared.contains(&cache)
                    && let Some(way) = self.find(cache, address)
                {
                    *way = None;
                    any = true;
                    reach = reach.max(self.reach(core, cache));
                    self.answer.invalidations += 1;
                }
            }
            if any && count {
                cost += self.extra.invalidate + reach;
            }
        }
        let mut at = now;
        let mut victims = Vec::new();
        let mut missed = 0;
        for (level, &cache) in path.iter().enumerate() {
            let table = self.caches[cache].table;
            at = self.station(cache, address, at);
            let (hit, victim) = self.look_up(cache, address, write && level == 0);
            if count {
                self.answer.counts[table].0 += 1;
                self.answer.counts[table].1 += u64::from(!hit);
            }
            if hit {
                break;
            }
            missed += 1;
            cost += self.tables[table].miss;
            if let Some(victim) = victim {
                self.answer.writebacks += 1;
                let to = path[level + 1..].iter().copied().find(|&deeper| {
                    self.find(deeper, victim).is_some_and(|way| {
                        way.as_mut().unwrap().dirty = true;
                        true
                    })
                });
                victims.push((victim, to));
            }
        }
        if missed == path.len() {
            if write && path.is_empty() {
                at = self.put_back(core, address, at);
            } else {
                let (passed, latency) = self.fetch(core, address, at);
                at = passed;
                cost += latency;
            }
        }
        for (victim, to) in victims {
            match to {
                Some(cache) => self.station(cache, victim, now),
                None => self.put_back(core, victim, now),
            };
        }
        cost + at - now
    }

    /// Latency of the links from a core to a cache.
    fn reach(&self, core: usize, cache: usize) -> u64 {
        let Some(numa) = &self.extra.numa else {
            return 0;
        };
        let table = self.caches[cache].table;
        let first = (cache - self.first[table]) * self.tables[table].each;
        let behind = (first + self.tables[table].each).min(self.cores.len());
        let socket = |core: usize| core / numa.cores_per_socket;
        match socket(first) == socket(behind - 1) {
            true => {
                let [writer, cache] = [core, first].map(|core| socket(core) % numa.sockets);
                numa.link * numa.far(writer, cache) as u64
            }
            false => 0,
        }
    }

    fn stream(&mut self, index: usize) {
        let (write, near, _, every, step) = self.extra.streams[index];
        let (due, count) = self.streams[index];
        let near = near as usize % self.cores.len();
        let path: Vec<usize> = self.path(near, false);
        let path: Vec<usize> = path
            .into_iter()
            .filter(|&cache| !self.tables[self.caches[cache].table].private)
            .collect();
        let accesses = STREAM_SIZE.div_ceil(step);
        let address = STREAM + count % accesses * step;
        let cost = self.touch(near, &path, &path, write, address, due, false);
        self.streams[index] = ((due + cost).max(due + every), count + 1);
        self.answer.background += 1;
    }

    fn lines(steps: &mut VecDeque<Step>, line: u64, kind: char, address: u64, size: u64) {
        for number in address / line..=(address + size - 1) / line {
            steps.push_back(Step::Touch(kind, number * line));
        }
    }

    fn begin_call(&mut self, core: usize, now: u64, ended: Option<usize>) {
        let resolved = self
            .shape
            .edges
            .iter()
            .filter(|edge| Some(edge.0) == ended)
            .count() as u64;
        let mut steps = VecDeque::new();
        if self.extra.code > 0 {
            Self::lines(
                &mut steps,
                self.shape.line,
                'i',
                DISPATCHER + (1 << 29),
                self.extra.code,
            );
        }
        let cycles = self.extra.call + self.extra.resolve * resolved;
        if cycles > 0 {
            steps.push_back(Step::Cycles(cycles));
        }
        steps.push_back(Step::Decide);
        let this = &mut self.cores[core];
        this.state = State::Calling;
        this.time = now;
        this.asked = now;
        this.steps = steps;
        this.ended = ended;
        this.got = None;
        this.wakes = 0;
    }

    fn make_ready(&mut self, on: WorkerId, task: usize) {
        self.model
            .ready(on, task as u64, self.graph.tasks()[task].hints);
        self.ready += 1;
    }

    /// What a policy with one pool does: it passes the pool if there is something to bring or to take.
    fn decide(&mut self, core: usize) {
        let mut released = 0;
        if let Some(ended) = self.cores[core].ended {
            for &(_, to) in self.shape.edges.iter().filter(|edge| edge.0 == ended) {
                self.waits[to] -= 1;
                if self.waits[to] == 0 {
                    self.make_ready(WorkerId(core as u16), to);
                    released += 1;
                }
            }
        }
        let passes = self.ready > 0;
        let before = self.ready - released;
        let got = self
            .model
            .next(WorkerId(core as u16))
            .map(|task| task as usize);
        self.ready -= usize::from(got.is_some());
        let this = &mut self.cores[core];
        this.got = got;
        let mut steps = VecDeque::new();
        if passes {
            steps.push_back(Step::Lock);
            if self.extra.pool_lines > 0 {
                Self::lines(
                    &mut steps,
                    self.shape.line,
                    'w',
                    DISPATCHER,
                    self.extra.pool_lines * self.shape.line,
                );
            }
            if self.extra.pool > 0 {
                steps.push_back(Step::Cycles(self.extra.pool));
            }
            steps.push_back(Step::Unlock);
        }
        steps.push_back(Step::End);
        this.steps = steps;
        let more = self.ready.saturating_sub(before);
        self.cores[core].wakes = more.min(self.cores.len() - 1);
    }

    fn end_call(&mut self, core: usize) {
        let now = self.cores[core].time;
        for _ in 0..self.cores[core].wakes {
            let asleep = self
                .cores
                .iter()
                .position(|core| core.state == State::Asleep);
            if let Some(sleeper) = asleep {
                self.begin_call(sleeper, now + self.extra.wake, None);
            }
        }
        let Some(task) = self.cores[core].got else {
            self.answer.in_vain += 1;
            if self.ready == 0 {
                self.cores[core].state = State::Asleep;
            } else {
                self.begin_call(core, now, None);
            }
            return;
        };
        let this = &mut self.cores[core];
        this.state = State::Running;
        this.task = task;
        this.time += self.shape.dispatch;
        this.start = this.time;
        this.steps = VecDeque::new();
        for &(kind, value, size) in &self.shape.tasks[task].2 {
            let record: Line = (kind, value, size);
            match record {
                ('x', cycles, _) => this.steps.push_back(Step::Cycles(cycles)),
                (kind, address, size) => {
                    Self::lines(
                        &mut this.steps,
                        self.shape.line,
                        kind,
                        address,
                        u64::from(size),
                    );
                }
            }
        }
        this.steps.push_back(Step::End);
    }

    fn finish(&mut self, core: usize) {
        let this = &mut self.cores[core];
        let (end, task) = (this.time, this.task);
        this.busy += end - this.asked;
        self.answer
            .runs
            .push((core as u16, task as u32, this.start, end));
        self.answer.makespan = self.answer.makespan.max(end);
        self.left -= 1;
        self.begin_call(core, end, Some(task));
    }

    fn step(&mut self, core: usize) {
        let step = self.cores[core].steps.pop_front().expect("a step is left");
        match step {
            Step::Cycles(cycles) => self.cores[core].time += cycles,
            Step::Touch(kind, address) => {
                let path = self.path(core, kind == 'i');
                let own = self.path(core, false);
                let now = self.cores[core].time;
                let cost = self.touch(core, &path, &own, kind == 'w', address, now, true);
                self.cores[core].time += 1 + cost;
            }
            Step::Decide => self.decide(core),
            Step::Lock if self.holder.is_none() => self.holder = Some(core),
            Step::Lock => {
                self.queue.push_back(core);
                self.cores[core].state = State::Waiting;
            }
            Step::Unlock => {
                self.holder = self.queue.pop_front();
                if let Some(next) = self.holder {
                    self.cores[next].state = State::Calling;
                    self.cores[next].time = self.cores[core].time;
                }
            }
            Step::End if self.cores[core].state == State::Running => self.finish(core),
            Step::End => self.end_call(core),
        }
    }
}
