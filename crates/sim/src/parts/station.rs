//! The way into a shared cache: requests wait for its bus, its ports and its banks.

use crate::machine::Cycle;
use crate::machine::contended::SharedTable;

/// A resource that serves one request at a time, in the order of the calls. A service time of 0 means that it does not
/// exist, and no request waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    free: Cycle,
}

impl Server {
    /// Returns the time from which on the station is free.
    #[inline]
    pub(crate) fn free(self) -> Cycle {
        self.free
    }

    /// Holds it for `service` cycles from `grant` on.
    #[inline]
    pub(crate) fn hold(&mut self, grant: Cycle, service: Cycle) {
        debug_assert!(service == 0 || grant >= self.free, "served two at once");
        if service > 0 {
            self.free = grant.saturating_add(service);
        }
    }

    /// Returns whether it is free after as many cycles from `now` on as `other` from `then` on. Requests that arrive from those times on
    /// then wait equally long.
    pub(crate) fn is_like(self, now: Cycle, other: Server, then: Cycle) -> bool {
        self.free.saturating_sub(now) == other.free.saturating_sub(then)
    }

    /// Moves it on to the time `cycles` later.
    pub(crate) fn move_on(&mut self, cycles: Cycle) {
        self.free = self.free.saturating_add(cycles);
    }
}

/// Adds `times` times what `count` has gained since it was `before`. As every counter of what background streams use, it stays at 2^64-1
/// once it is there.
pub(crate) fn repeat(count: &mut u64, before: u64, times: u64) {
    *count = count.saturating_add((*count - before).saturating_mul(times));
}

/// Counters of a shared resource. They stay at 2^64-1 once they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Number of requests served.
    pub grants: u64,
    /// Cycles for which it was held.
    pub busy: Cycle,
    /// Cycles for which requests waited for it.
    pub waited: Cycle,
}

impl std::ops::AddAssign for Use {
    fn add_assign(&mut self, other: Use) {
        self.grants = self.grants.saturating_add(other.grants);
        self.busy = self.busy.saturating_add(other.busy);
        self.waited = self.waited.saturating_add(other.waited);
    }
}

impl Use {
    /// Counts a request that waited for `waited` cycles and holds the resource for `busy` cycles.
    #[inline]
    pub(crate) fn served(&mut self, waited: Cycle, busy: Cycle) {
        *self += Use {
            grants: 1,
            busy,
            waited,
        };
    }

    /// Adds `times` times what it has gained since it was `before`.
    pub(crate) fn repeat(&mut self, before: &Use, times: u64) {
        repeat(&mut self.grants, before.grants, times);
        repeat(&mut self.busy, before.busy, times);
        repeat(&mut self.waited, before.waited, times);
    }
}

/// The way into one instance of a shared level: a bus, then ports and banks.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    bus: Server,
    ports: Vec<Server>,
    banks: Vec<Server>,
    /// log2 of the level's line.
    line_bits: u32,
    bus_cycles: Cycle,
    port_cycles: Cycle,
    bank_cycles: Cycle,
    /// All times are 0, so no request waits.
    open: bool,
    /// Counters of the bus.
    pub bus_use: Use,
    /// Counters of the ports; waiting for banks is counted here too.
    pub port_use: Use,
}

impl Station {
    /// Returns the way into a level with lines of `line` bytes.
    pub(crate) fn new(table: &SharedTable, line: u64) -> Self {
        Station {
            bus: Server::default(),
            ports: vec![Server::default(); table.ports as usize],
            banks: vec![Server::default(); table.banks as usize],
            line_bits: line.trailing_zeros(),
            bus_cycles: table.bus_cycles,
            port_cycles: table.port_cycles,
            bank_cycles: table.bank_cycles,
            open: table.bus_cycles == 0 && table.port_cycles == 0 && table.bank_cycles == 0,
            bus_use: Use::default(),
            port_use: Use::default(),
        }
    }

    /// Serves a request, or a write-back, that arrives at `arrives`. Returns the time at which the cache is looked up.
    #[inline]
    pub(crate) fn pass(&mut self, arrives: Cycle, address: u64) -> Cycle {
        if self.open {
            return arrives;
        }
        self.pass_slowly(arrives, address)
    }

    fn pass_slowly(&mut self, arrives: Cycle, address: u64) -> Cycle {
        let mut at = arrives;
        if self.bus_cycles > 0 {
            at = at.max(self.bus.free());
            self.bus.hold(at, self.bus_cycles);
            self.bus_use.served(at - arrives, self.bus_cycles);
        }
        let came = at;
        let port = self.earliest_port();
        if self.port_cycles > 0 {
            at = at.max(self.ports[port].free());
        }
        if self.bank_cycles > 0 {
            let line = (address >> self.line_bits) as usize;
            let bank = line % self.banks.len();
            at = at.max(self.banks[bank].free());
            self.banks[bank].hold(at, self.bank_cycles);
        }
        self.ports[port].hold(at, self.port_cycles);
        self.port_use.served(at - came, self.port_cycles);
        at
    }

    fn servers(&self) -> impl Iterator<Item = Server> {
        let many = self.ports.iter().chain(&self.banks);
        many.copied().chain([self.bus])
    }

    /// Returns whether requests from `now` on are let through as those from `then` on are by `other`, an earlier state of this station.
    pub(crate) fn is_like(&self, now: Cycle, other: &Station, then: Cycle) -> bool {
        let mut pairs = self.servers().zip(other.servers());
        pairs.all(|(one, other)| one.is_like(now, other, then))
    }

    /// Returns the time from which on all of it is free.
    pub(crate) fn last_free(&self) -> Cycle {
        self.servers().map(Server::free).max().unwrap_or(0)
    }

    /// Moves it on to the time `cycles` later, in which what it did since it was `before` happened `times` times.
    pub(crate) fn repeat(&mut self, before: &Station, cycles: Cycle, times: u64) {
        self.bus.move_on(cycles);
        let many = self.ports.iter_mut().chain(&mut self.banks);
        many.for_each(|server| server.move_on(cycles));
        self.bus_use.repeat(&before.bus_use, times);
        self.port_use.repeat(&before.port_use, times);
    }

    /// Returns the port that is free first; of equals the first.
    fn earliest_port(&self) -> usize {
        if self.ports.len() == 1 {
            return 0;
        }
        let ports = self.ports.iter().enumerate();
        ports
            .min_by_key(|(_, port)| port.free())
            .map_or(0, |(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SharedTable {
        SharedTable {
            ports: 2,
            port_cycles: 4,
            banks: 2,
            bank_cycles: 10,
            bus_cycles: 0,
        }
    }

    #[test]
    fn requests_for_one_bank_follow_each_other_and_others_share_the_ports() {
        let mut station = Station::new(&table(), 64);
        assert_eq!(station.pass(0, 0), 0);
        assert_eq!(station.pass(1, 128), 10, "the same bank is held until 10");
        assert_eq!(station.pass(1, 64), 4, "the other bank, the first port");
        assert_eq!(station.port_use.waited, 9 + 3);
        assert_eq!(station.port_use.busy, 12);
    }

    #[test]
    fn the_bus_serves_in_order_and_before_the_ports() {
        let only_bus = SharedTable {
            bus_cycles: 3,
            port_cycles: 0,
            bank_cycles: 0,
            ..table()
        };
        let mut station = Station::new(&only_bus, 64);
        let grants: Vec<_> = (0..4).map(|at| station.pass(at, 64 * at)).collect();
        assert_eq!(grants, [0, 3, 6, 9]);
        assert_eq!(station.bus_use.waited, 2 + 4 + 6);
    }

    #[test]
    fn without_times_no_request_waits() {
        let mut station = Station::new(&SharedTable::default(), 64);
        assert_eq!(station.pass(7, 0), 7);
        assert_eq!(station.pass(7, 0), 7);
        assert_eq!(station.pass(3, 0), 3);
        let unused = (Use::default(), Use::default());
        assert_eq!((station.bus_use, station.port_use), unused);
    }
}
