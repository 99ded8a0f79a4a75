//! The memories of several sockets: which socket a page lies on, and the links between sockets.

use crate::machine::Cycle;
use crate::machine::contended::{MemoryTable, NumaTable, PagePlace};
use crate::parts::memory::{Memory, MemoryUse};
use crate::parts::station::{Server, Use, repeat};
use hashbrown::HashMap;
use std::ops::Range;

/// One direction of a link between two sockets, as an index into [`Numa::links`].
type LinkIndex = u32;

/// All main memory: one memory, or one a socket.
#[derive(Clone, Debug)]
pub(crate) struct Memories {
    /// The memory of each socket; without `[numa]` the only one.
    pub(crate) each: Vec<Memory>,
    /// With `[numa]`.
    numa: Option<Box<Numa>>,
}

/// What a machine with several memories has beside them.
#[derive(Clone, Debug)]
struct Numa {
    table: NumaTable,
    cores_per_socket: usize,
    /// Addresses of the dispatcher, whose pages are placed by first touch always.
    dispatcher: Range<u64>,
    /// Of each page that is placed by first touch and has been touched: its socket.
    homes: HashMap<u64, u16>,
    /// Both directions of each link; that of the lower to the higher socket first.
    links: Vec<Server>,
    /// Of each pair of sockets, from and to: the links of the route.
    routes: Vec<Vec<LinkIndex>>,
    used: NumaUse,
}

/// Counters of a machine with several memories. They stay at 2^64-1 once they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaUse {
    /// Fills from the memory of another socket than the core's.
    pub remote_fills: u64,
    /// Write-backs to the memory of another socket.
    pub remote_writes: u64,
    /// All links, both directions apart: a transfer counts once for each link of its route.
    pub links: Use,
}

/// What a fill takes beside the latencies of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    /// When the line's transfer is over, without latencies.
    pub(crate) at: Cycle,
    /// The latency of the links that it passes.
    pub(crate) latency: Cycle,
}

impl Memories {
    /// Returns idle memories without a placed page. `dispatcher` is the first of the 2^30 addresses of the dispatcher.
    pub(crate) fn new(
        table: &MemoryTable,
        numa: Option<&NumaTable>,
        cores_per_socket: u64,
        dispatcher: u64,
    ) -> Memories {
        let sockets = numa.map_or(1, |numa| usize::from(numa.sockets));
        Memories {
            each: vec![Memory::new(table); sockets],
            numa: numa.map(|numa| Box::new(Numa::new(numa, cores_per_socket, dispatcher))),
        }
    }

    /// Fetches a line for `core`; the request arrives behind the last cache at `arrives`.
    #[inline]
    pub(crate) fn fill(&mut self, core: usize, arrives: Cycle, address: u64) -> Filled {
        if self.numa.is_some() {
            return self.fill_from_home(core, arrives, address);
        }
        let at = self.each[0].access(arrives, address, false);
        Filled { at, latency: 0 }
    }

    #[inline(never)]
    fn fill_from_home(&mut self, core: usize, arrives: Cycle, address: u64) -> Filled {
        let numa = self.numa.as_mut().expect("there are several memories");
        let (home, socket) = (numa.home(core, address), numa.socket(core));
        let sent = self.each[home].access(arrives, address, false);
        if home == socket {
            let at = sent;
            return Filled { at, latency: 0 };
        }
        count(&mut numa.used.remote_fills);
        Filled {
            at: numa.pass(home, socket, sent),
            latency: numa.table.link_cycles * numa.hops(home, socket),
        }
    }

    /// Writes a dirty line of `core` back; it arrives behind the last cache at `arrives`. Returns the time at which its transfer begins.
    #[inline]
    pub(crate) fn write_back(&mut self, core: usize, arrives: Cycle, address: u64) -> Cycle {
        if self.numa.is_some() {
            return self.write_back_home(core, arrives, address);
        }
        self.each[0].access(arrives, address, true)
    }

    #[inline(never)]
    fn write_back_home(&mut self, core: usize, arrives: Cycle, address: u64) -> Cycle {
        let numa = self.numa.as_mut().expect("there are several memories");
        let (home, socket) = (numa.home(core, address), numa.socket(core));
        let mut at = arrives;
        if home != socket {
            count(&mut numa.used.remote_writes);
            at = numa.pass(socket, home, at);
        }
        self.each[home].access(at, address, true)
    }

    /// Returns the number of links on the route between the sockets of two cores.
    pub(crate) fn hops(&self, one: usize, other: usize) -> u64 {
        let numa = self.numa.as_ref();
        numa.map_or(0, |numa| numa.hops(numa.socket(one), numa.socket(other)))
    }

    /// Returns what it takes to reach a cache beside `other` from `one`, two cores.
    pub(crate) fn reach(&self, one: usize, other: usize) -> Cycle {
        let numa = self.numa.as_ref();
        numa.map_or(0, |numa| numa.table.link_cycles) * self.hops(one, other)
    }

    /// Returns the counters of all memories together.
    pub(crate) fn used(&self) -> MemoryUse {
        let mut sum = MemoryUse::default();
        self.each.iter().for_each(|memory| sum += memory.used);
        sum
    }

    /// Returns the counters that a machine with several memories has besides.
    pub(crate) fn numa_used(&self) -> Option<NumaUse> {
        self.numa.as_ref().map(|numa| numa.used)
    }

    /// Returns whether accesses from `now` on are served as those from `then` on are by `other`, an earlier state.
    pub(crate) fn is_like(&self, now: Cycle, other: &Memories, then: Cycle) -> bool {
        let mut pairs = self.each.iter().zip(&other.each);
        let links = match (&self.numa, &other.numa) {
            (Some(one), Some(other)) => {
                let mut pairs = one.links.iter().zip(&other.links);
                // Pages are placed once, so an equal number of them is an equal placement.
                one.homes.len() == other.homes.len()
                    && pairs.all(|(one, other)| one.is_like(now, *other, then))
            }
            _ => true,
        };
        links && pairs.all(|(one, other)| one.is_like(now, other, then))
    }

    /// Returns a time that no access of the past has reached.
    pub(crate) fn beyond(&self) -> Cycle {
        let memories = self.each.iter().map(Memory::beyond);
        let links = self.numa.iter().flat_map(|numa| &numa.links);
        memories
            .chain(links.map(|link| link.free()))
            .max()
            .unwrap_or(0)
    }

    /// Moves everything on to the time `cycles` later, in which what it did since it was `before` happened `times` times.
    pub(crate) fn repeat(&mut self, before: &Memories, cycles: Cycle, times: u64) {
        let pairs = self.each.iter_mut().zip(&before.each);
        pairs.for_each(|(memory, before)| memory.repeat(before, cycles, times));
        let (Some(numa), Some(before)) = (&mut self.numa, &before.numa) else {
            return;
        };
        let links = numa.links.iter_mut();
        links.for_each(|link| link.move_on(cycles));
        let (used, before) = (&mut numa.used, &before.used);
        repeat(&mut used.remote_fills, before.remote_fills, times);
        repeat(&mut used.remote_writes, before.remote_writes, times);
        used.links.repeat(&before.links, times);
    }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

impl Numa {
    fn new(table: &NumaTable, cores_per_socket: u64, dispatcher: u64) -> Numa {
        let sockets = usize::from(table.sockets);
        Numa {
            cores_per_socket: usize::try_from(cores_per_socket).unwrap_or(usize::MAX),
            dispatcher: dispatcher..dispatcher + (1 << 30),
            homes: HashMap::new(),
            links: vec![Server::default(); 2 * table.links.len()],
            routes: routes(sockets, &table.links),
            used: NumaUse::default(),
            table: table.clone(),
        }
    }

    fn socket(&self, core: usize) -> usize {
        core / self.cores_per_socket % usize::from(self.table.sockets)
    }

    /// Returns the socket on which the page of `address` lies. Of a page without a place it is from now on that of `core`.
    fn home(&mut self, core: usize, address: u64) -> usize {
        let page = address >> self.table.page_size.trailing_zeros();
        let place = match self.dispatcher.contains(&address) {
            true => PagePlace::FirstTouch,
            false => self.table.pages,
        };
        match place {
            PagePlace::FirstTouch => {
                let socket = self.socket(core) as u16;
                usize::from(*self.homes.entry(page).or_insert(socket))
            }
            PagePlace::Interleave => (page % u64::from(self.table.sockets)) as usize,
            PagePlace::Socket(socket) => usize::from(socket),
        }
    }

    fn route(&self, from: usize, to: usize) -> &[LinkIndex] {
        &self.routes[from * usize::from(self.table.sockets) + to]
    }

    fn hops(&self, from: usize, to: usize) -> u64 {
        self.route(from, to).len() as u64
    }

    /// Sends a line over the links from one socket to another, beginning at `arrives`. Returns the time at which the last one takes it.
    fn pass(&mut self, from: usize, to: usize, arrives: Cycle) -> Cycle {
        let hold = self.table.transfer_cycles;
        let mut at = arrives;
        let route = &self.routes[from * usize::from(self.table.sockets) + to];
        for &link in route {
            let link = &mut self.links[link as usize];
            let taken = if hold > 0 { at.max(link.free()) } else { at };
            link.hold(taken, hold);
            self.used.links.served(taken - at, hold);
            at = taken;
        }
        at
    }
}

/// Returns the links of the route of each pair of sockets: a shortest one, on which each next socket has the lowest number that is
/// possible.
fn routes(sockets: usize, links: &[(u16, u16)]) -> Vec<Vec<LinkIndex>> {
    let mut next: Vec<Vec<(usize, LinkIndex)>> = vec![Vec::new(); sockets];
    for (number, &(low, high)) in links.iter().enumerate() {
        let (low, high, number) = (usize::from(low), usize::from(high), 2 * number as LinkIndex);
        next[low].push((high, number));
        next[high].push((low, number + 1));
    }
    next.iter_mut().for_each(|links| links.sort_unstable());
    let mut routes = vec![Vec::new(); sockets * sockets];
    for to in 0..sockets {
        let far = distances(to, &next);
        for from in 0..sockets {
            let route = &mut routes[from * sockets + to];
            let mut at = from;
            while at != to {
                let nearer = |(socket, _): &&(usize, LinkIndex)| far[*socket] + 1 == far[at];
                let step = next[at].iter().find(nearer);
                let &(socket, link) = step.expect("links connect all sockets");
                route.push(link);
                at = socket;
            }
        }
    }
    routes
}

/// Returns the number of links from each socket to `to`.
fn distances(to: usize, next: &[Vec<(usize, LinkIndex)>]) -> Vec<usize> {
    let mut far = vec![usize::MAX; next.len()];
    let mut queue = std::collections::VecDeque::from([to]);
    far[to] = 0;
    while let Some(at) = queue.pop_front() {
        for &(socket, _) in &next[at] {
            if far[socket] == usize::MAX {
                far[socket] = far[at] + 1;
                queue.push_back(socket);
            }
        }
    }
    far
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of four sockets.
    fn table(pages: PagePlace) -> NumaTable {
        NumaTable {
            sockets: 4,
            pages,
            page_size: 4096,
            links: vec![(0, 1), (1, 2), (2, 3), (0, 3)],
            link_cycles: 50,
            transfer_cycles: 8,
        }
    }

    fn memories(pages: PagePlace) -> Memories {
        let memory = MemoryTable {
            fill_cycles: 10,
            write_cycles: 10,
            ..MemoryTable::default()
        };
        Memories::new(&memory, Some(&table(pages)), 2, 1 << 40)
    }

    #[test]
    fn a_route_is_short_and_of_two_goes_over_the_lower_sockets() {
        let memories = memories(PagePlace::Interleave);
        let numa = memories.numa.as_ref().unwrap();
        // From 0 to 2 over 1; from 3 to 1 over 0, whose number is lower than 2.
        assert_eq!(numa.route(0, 2), [0, 2]);
        assert_eq!(numa.route(3, 1), [7, 0]);
        assert!(numa.route(1, 1).is_empty());
        assert_eq!(memories.hops(0, 1), 0, "one socket");
        assert_eq!((memories.hops(0, 2), memories.hops(1, 5)), (1, 2));
        assert_eq!(memories.reach(0, 4), 100);
    }

    #[test]
    fn pages_lie_where_they_are_placed_and_the_dispatchers_where_they_are_touched_first() {
        let mut first = memories(PagePlace::FirstTouch);
        let local = |at| Filled { at, latency: 0 };
        assert_eq!(first.fill(5, 0, 100), local(0));
        // Socket 0 fetches from socket 2 over links 2 to 1 and 1 to 0; the memory serves it behind the first fill.
        let far = Filled {
            at: 10,
            latency: 100,
        };
        assert_eq!(first.fill(0, 0, 4095), far);
        assert_eq!(first.fill(0, 0, 4096), local(0), "another page");
        assert_eq!(first.numa_used().unwrap().remote_fills, 1);
        let mut bound = memories(PagePlace::Socket(3));
        assert_eq!(bound.fill(6, 0, 0), local(0));
        assert_eq!(bound.fill(6, 0, 1 << 40), local(10), "socket 3 as well");
        assert_eq!(bound.fill(0, 0, (1 << 40) + 4096), local(0));
        let used: Vec<u64> = bound.each.iter().map(|memory| memory.used.fills).collect();
        assert_eq!(used, [1, 0, 0, 2]);
    }

    #[test]
    fn a_link_takes_one_line_after_the_other_in_each_direction() {
        let mut memories = memories(PagePlace::Interleave);
        // Pages 1 and 5 lie on socket 1, page 2 on socket 2.
        assert_eq!(memories.fill(0, 0, 4096).at, 0);
        // The memory sends at 10, the link is free since 8.
        assert_eq!(memories.fill(0, 0, 5 * 4096).at, 10);
        // Socket 2 sends at 0, the link from 1 to 0 is held until 18.
        assert_eq!(memories.fill(1, 0, 2 * 4096).at, 18);
        // The other direction is free.
        assert_eq!(memories.write_back(0, 0, 4096), 20, "its memory is not");
        let used = memories.numa_used().unwrap();
        assert_eq!((used.remote_fills, used.remote_writes), (3, 1));
        assert_eq!(used.links.grants, 5);
        assert_eq!(used.links.waited, 18);
    }
}
