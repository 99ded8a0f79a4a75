//! The keys of a machine file that only the contended model has: of shared `[[cache]]` tables, `[memory]`, `[scheduler]`, `[policy.NAME]`
//! and `[background.NAME]`. `models/contended/RULES.md` defines them.

use crate::machine::Cycle;
use crate::machine::{MachineError, Section};
use crate::spelling;
use tanada_policy::{Access, Peeks, WorkerId};

/// The longest time in a machine file. One such time for each cache line that a machine may have does not overflow.
pub(crate) const LONGEST_CYCLES: u64 = 1 << 36;

/// The most banks of a shared cache, and of all channels of memory together: a simulation has a state of each.
const MOST_BANKS: u64 = 65_536;

/// Returns the cycles of `key`, or `otherwise` if `key` is absent.
fn cycles(
    section: &mut Section<'_>,
    key: &'static str,
    otherwise: Cycle,
) -> Result<Cycle, MachineError> {
    section.number_or(key, 0..=LONGEST_CYCLES, otherwise)
}

/// The way into a shared level; keys of its `[[cache]]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTable {
    /// Number of requests that are served at the same time, if they are for different banks.
    pub ports: u64,
    /// Cycles for which a request holds its port.
    pub port_cycles: Cycle,
    /// Banks, interleaved by lines.
    pub banks: u64,
    /// Cycles for which a request holds its bank.
    pub bank_cycles: Cycle,
    /// Cycles for which a request holds the bus in front of the level.
    pub bus_cycles: Cycle,
}

impl Default for SharedTable {
    /// Returns a part for which no request waits.
    fn default() -> Self {
        SharedTable {
            ports: 1,
            port_cycles: 0,
            banks: 1,
            bank_cycles: 0,
            bus_cycles: 0,
        }
    }
}

impl SharedTable {
    /// Reads and returns the keys from a `[[cache]]` table. A `private` cache, one per core, must have none of them.
    pub(crate) fn read(section: &mut Section<'_>, private: bool) -> Result<Self, MachineError> {
        section.number_in("miss_cycles", 0..=LONGEST_CYCLES)?;
        let table = SharedTable {
            ports: section.number_or("ports", 1..=1024, 1)?,
            port_cycles: cycles(section, "port_cycles", 0)?,
            banks: section.number_or("banks", 1..=MOST_BANKS, 1)?,
            bank_cycles: cycles(section, "bank_cycles", 0)?,
            bus_cycles: cycles(section, "bus_cycles", 0)?,
        };
        const KEYS: [&str; 5] = ["ports", "port_cycles", "banks", "bank_cycles", "bus_cycles"];
        if let Some(key) = KEYS.iter().find(|key| private && section.has(key)) {
            let message = format!(
                "`{key}` is for a cache that cores share; no request waits for one per core"
            );
            return Err(section.wrong(key, message));
        }
        for (many, time) in [("ports", "port_cycles"), ("banks", "bank_cycles")] {
            if section.has(many) && !section.has(time) {
                let message = format!("`{many}` without `{time}`: they would serve in no time");
                let wrong = || section.wrong(many, message);
                return Err(section.misspelt(time).unwrap_or_else(wrong));
            }
        }
        Ok(table)
    }
}

/// Whether a row stays open after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The row stays open until another row of the bank is accessed.
    Open,
    /// The row is closed after every access.
    Closed,
}

/// `[memory]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTable {
    /// Channels, interleaved by `interleave` bytes.
    pub channels: u64,
    /// Consecutive bytes of one channel.
    pub interleave: u64,
    /// Cycles for which a fill of the last level holds its channel.
    pub fill_cycles: Cycle,
    /// Cycles for which a write-back holds its channel.
    pub write_cycles: Cycle,
    /// Banks of a channel, interleaved by rows.
    pub banks: u64,
    /// Bytes of a row.
    pub row_size: u64,
    /// Cycles that an access to the open row takes before its transfer.
    pub row_hit_cycles: Cycle,
    /// The same if no row is open.
    pub row_closed_cycles: Cycle,
    /// The same if another row is open.
    pub row_conflict_cycles: Cycle,
    /// Whether rows stay open.
    pub page: Page,
}

impl Default for MemoryTable {
    /// Returns a part for which no request waits.
    fn default() -> Self {
        MemoryTable {
            channels: 1,
            interleave: 4096,
            fill_cycles: 0,
            write_cycles: 0,
            banks: 1,
            row_size: 4096,
            row_hit_cycles: 0,
            row_closed_cycles: 0,
            row_conflict_cycles: 0,
            page: Page::Open,
        }
    }
}

impl MemoryTable {
    /// Reads and returns `[memory]`. `line`: the longest line of any cache.
    pub(crate) fn read(section: &mut Section<'_>, line: u64) -> Result<Self, MachineError> {
        let none = MemoryTable::default();
        let channels = section.number_or("channels", 1..=1024, 1)?;
        let interleave = section.optional_size("interleave")?;
        if channels > 1 && interleave.is_none() {
            let wrong = || section.wrong("channels", "several `channels` need `interleave`");
            return Err(section.misspelt("interleave").unwrap_or_else(wrong));
        }
        let hit = cycles(section, "row_hit_cycles", 0)?;
        let closed = cycles(section, "row_closed_cycles", 0)?;
        let conflict = cycles(section, "row_conflict_cycles", 0)?;
        let of_open = section.has("row_hit_cycles") || section.has("row_conflict_cycles");
        let row_size = section.optional_size("row_size")?;
        if row_size.is_none() && (of_open || section.has("row_closed_cycles")) {
            let wrong = || section.wrong("row_hit_cycles", "row times need `row_size`");
            return Err(section.misspelt("row_size").unwrap_or_else(wrong));
        }
        for (key, size) in [("interleave", interleave), ("row_size", row_size)] {
            if size.is_some_and(|size| size < line || !size.is_power_of_two()) {
                let message = format!(
                    "`{key}` must be a power of two and not less than the longest cache line, {line} bytes"
                );
                return Err(section.wrong(key, message));
            }
        }
        let pages = [("open", Page::Open), ("closed", Page::Closed)];
        let page = section.optional_one_of("page", &pages)?;
        let page = page.unwrap_or(none.page);
        if page == Page::Closed && of_open {
            let message = "with closed pages no row is ever open: leave out `row_hit_cycles` and `row_conflict_cycles`";
            return Err(section.wrong("page", message));
        }
        if page == Page::Open && (hit > closed || closed > conflict) {
            let message = format!(
                "an open row costs {hit}, none {closed}, another one {conflict} cycles: they must not fall"
            );
            return Err(section.wrong("row_hit_cycles", message));
        }
        let banks = section.number_or("banks", 1..=MOST_BANKS, 1)?;
        if channels * banks > MOST_BANKS {
            let message = format!(
                "`channels` x `banks` is {}; it must be at most {MOST_BANKS}",
                channels * banks
            );
            return Err(section.wrong("banks", message));
        }
        Ok(MemoryTable {
            channels,
            interleave: interleave.unwrap_or(none.interleave.max(line)),
            fill_cycles: section.number_in("fill_cycles", 0..=LONGEST_CYCLES)?,
            write_cycles: section.number_in("write_cycles", 0..=LONGEST_CYCLES)?,
            banks,
            row_size: row_size.unwrap_or(none.row_size.max(line)),
            row_hit_cycles: hit,
            row_closed_cycles: closed,
            row_conflict_cycles: conflict,
            page,
        })
    }
}

/// The most sockets with a memory.
const MOST_SOCKETS: u64 = 64;

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// On the socket of the core that touches it first.
    FirstTouch,
    /// Pages take turns over all sockets.
    Interleave,
    /// On this socket.
    Socket(u16),
}

/// `[numa]`: a memory a socket, and links between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaTable {
    /// Sockets that have a memory.
    pub sockets: u16,
    /// Where pages lie.
    pub pages: PagePlace,
    /// Bytes of a page; a power of two.
    pub page_size: u64,
    /// Pairs of sockets with a link, the lower number first.
    pub links: Vec<(u16, u16)>,
    /// Latency of each link on the way of a line.
    pub link_cycles: Cycle,
    /// Cycles for which a line holds each link on its way, in its direction.
    pub transfer_cycles: Cycle,
}

impl NumaTable {
    /// Reads and returns `[numa]`. `line`: the longest line of any cache.
    fn read(section: &mut Section<'_>, line: u64) -> Result<Self, MachineError> {
        let sockets = section.number_in("sockets", 1..=MOST_SOCKETS)?;
        let socket = section.optional_number_in("socket", 0..=sockets - 1)?;
        let places = [
            ("first-touch", PagePlace::FirstTouch),
            ("interleave", PagePlace::Interleave),
            ("socket", PagePlace::Socket(socket.unwrap_or(0) as u16)),
        ];
        let pages = section.one_of("pages", &places)?;
        if socket.is_some() && !matches!(pages, PagePlace::Socket(_)) {
            return Err(section.wrong("socket", "`socket` needs `pages = \"socket\"`"));
        }
        let page_size = section.size("page_size")?;
        if page_size < line || !page_size.is_power_of_two() {
            let message = format!(
                "`page_size` must be a power of two and not less than the longest cache line, {line} bytes"
            );
            return Err(section.wrong("page_size", message));
        }
        let links = match section.optional_text("links")? {
            Some(text) => links(text, sockets).map_err(|wrong| section.wrong("links", wrong))?,
            None => {
                let all = |low| (low + 1..sockets as u16).map(move |high| (low, high));
                (0..sockets as u16).flat_map(all).collect()
            }
        };
        Ok(NumaTable {
            sockets: sockets as u16,
            pages,
            page_size,
            links,
            link_cycles: cycles(section, "link_cycles", 0)?,
            transfer_cycles: cycles(section, "transfer_cycles", 0)?,
        })
    }
}

/// Reads and returns pairs of sockets: `0-1 1-2`.
fn links(text: &str, sockets: u64) -> Result<Vec<(u16, u16)>, String> {
    let mut links = Vec::new();
    for word in text.split_whitespace() {
        let socket = |text: &str| text.parse().ok().filter(|&one| u64::from(one) < sockets);
        let pair = word.split_once('-');
        let pair = pair.and_then(|(one, other)| Some((socket(one)?, socket(other)?)));
        let (one, other): (u16, u16) =
            pair.filter(|(one, other)| one != other).ok_or_else(|| {
                format!(
                    "`{word}` in `links` is no pair of sockets such as 0-1; the last socket is {}",
                    sockets - 1
                )
            })?;
        let link = (one.min(other), one.max(other));
        if links.contains(&link) {
            return Err(format!("`links` has `{word}` twice"));
        }
        links.push(link);
    }
    let mut reached = vec![0_u16];
    let mut at = 0;
    while let Some(&from) = reached.get(at) {
        at += 1;
        for &(low, high) in &links {
            let to = match from {
                _ if from == low => high,
                _ if from == high => low,
                _ => continue,
            };
            if !reached.contains(&to) {
                reached.push(to);
            }
        }
    }
    match (0..sockets as u16).find(|socket| !reached.contains(socket)) {
        Some(socket) => Err(format!("no `links` lead from socket 0 to socket {socket}")),
        None => Ok(links),
    }
}

/// What the steps of a dispatcher cost; `[scheduler]`, and changed for one policy by `[policy.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Every call, before the decision.
    pub call_cycles: Cycle,
    /// Every dependency that a finished task resolves, before the decision.
    pub resolve_cycles: Cycle,
    /// A task into the core's own queue.
    pub own_push_cycles: Cycle,
    /// A task out of the core's own queue.
    pub own_pop_cycles: Cycle,
    /// A passage through the shared pool, with its lock held.
    pub pool_cycles: Cycle,
    /// A task into another core's mailbox.
    pub mail_cycles: Cycle,
    /// An attempt to steal.
    pub steal_cycles: Cycle,
    /// An attempt to steal from an empty queue; `None`: as any other attempt.
    pub empty_steal_cycles: Option<Cycle>,
    /// A look at what lies in another core's queue.
    pub peek_cycles: Cycle,
    /// What a steal, or a task into another core's mailbox, takes longer for each link between the two cores' sockets.
    pub hop_cycles: Cycle,
    /// Bytes of code that every call fetches.
    pub code_size: u64,
    /// Lines that a passage through the pool writes.
    pub pool_lines: u64,
    /// Lines that a push, pop, mail or attempt to steal writes.
    pub queue_lines: u64,
}

impl Costs {
    /// Returns the cycles of a passage of worker `me` through the lock of the seat of worker `of`.
    pub(crate) fn seat_cycles(&self, me: WorkerId, of: WorkerId, access: Access) -> Cycle {
        match access {
            Access::Put if of == me => self.own_push_cycles,
            Access::Put => self.mail_cycles,
            Access::Take if of == me => self.own_pop_cycles,
            Access::Take => self.steal_cycles,
        }
    }

    /// Returns what `hops` links between two cores add to an operation of one on the queue of the other.
    pub(crate) fn far(&self, hops: u64) -> Cycle {
        // At most 63 links, each less than 2^36 cycles.
        self.hop_cycles * hops
    }

    /// Returns these costs, replaced by those that `section` has.
    fn read(&self, section: &mut Section<'_>) -> Result<Costs, MachineError> {
        let costs = Costs {
            call_cycles: cycles(section, "call_cycles", self.call_cycles)?,
            resolve_cycles: cycles(section, "resolve_cycles", self.resolve_cycles)?,
            own_push_cycles: cycles(section, "own_push_cycles", self.own_push_cycles)?,
            own_pop_cycles: cycles(section, "own_pop_cycles", self.own_pop_cycles)?,
            pool_cycles: cycles(section, "pool_cycles", self.pool_cycles)?,
            mail_cycles: cycles(section, "mail_cycles", self.mail_cycles)?,
            steal_cycles: cycles(section, "steal_cycles", self.steal_cycles)?,
            empty_steal_cycles: section
                .optional_number_in("empty_steal_cycles", 0..=LONGEST_CYCLES)?
                .or(self.empty_steal_cycles),
            peek_cycles: cycles(section, "peek_cycles", self.peek_cycles)?,
            hop_cycles: cycles(section, "hop_cycles", self.hop_cycles)?,
            code_size: section
                .optional_size("code_size")?
                .unwrap_or(self.code_size),
            pool_lines: section.number_or("pool_lines", 0..=64, self.pool_lines)?,
            queue_lines: section.number_or("queue_lines", 0..=64, self.queue_lines)?,
        };
        if costs.code_size > 1 << 20 {
            return Err(section.wrong("code_size", "`code_size` is over 1M"));
        }
        Ok(costs)
    }
}

/// Which lines the operations of a dispatcher touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `pool_lines` and `queue_lines` of one pool and of one queue a core.
    #[default]
    Flat,
    /// The lines that the runtime and its policies touch.
    Native(Native),
}

/// What the runtime's own work costs, with `layout = "native"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// Rounds that an idle core searches before it sleeps.
    pub search_rounds: u64,
    /// The same of a core whose last sleep was long.
    pub short_search_rounds: u64,
    /// Pause between two rounds.
    pub search_cycles: Cycle,
    /// The shortest sleep that counts as long.
    pub long_sleep_cycles: Cycle,
    /// A wake-up, for the core that wakes another one.
    pub wake_call_cycles: Cycle,
    /// A pause inside of a policy.
    pub pause_cycles: Cycle,
    /// The node of a task that another task has forked.
    pub allocate_cycles: Cycle,
}

impl Native {
    const KEYS: [&str; 7] = [
        "search_rounds",
        "short_search_rounds",
        "search_cycles",
        "long_sleep_cycles",
        "wake_call_cycles",
        "pause_cycles",
        "allocate_cycles",
    ];

    fn read(section: &mut Section<'_>) -> Result<Native, MachineError> {
        Ok(Native {
            search_rounds: section.number_or("search_rounds", 1..=MOST_ROUNDS, 1)?,
            short_search_rounds: section.number_or("short_search_rounds", 1..=MOST_ROUNDS, 1)?,
            search_cycles: cycles(section, "search_cycles", 0)?,
            long_sleep_cycles: cycles(section, "long_sleep_cycles", 0)?,
            wake_call_cycles: cycles(section, "wake_call_cycles", 0)?,
            pause_cycles: cycles(section, "pause_cycles", 0)?,
            allocate_cycles: cycles(section, "allocate_cycles", 0)?,
        })
    }
}

/// The most rounds of a search.
const MOST_ROUNDS: u64 = 65_536;

/// `[scheduler]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerTable {
    /// The costs under a policy without a table of its own.
    pub costs: Costs,
    /// Which lines are touched.
    pub layout: Layout,
    /// Cycles from the end of a call that requested a wake-up to the call of the woken core.
    pub wake_cycles: Cycle,
    /// First of the 2^30 addresses at which the dispatcher's data and code lie.
    pub address: u64,
    /// What a look at another core's oldest fork returns.
    pub peeks: Peeks,
}

/// The default address of the dispatcher's data and code.
const ADDRESS: u64 = 0xf000_0000_0000_0000;

impl Default for SchedulerTable {
    fn default() -> Self {
        SchedulerTable {
            costs: Costs::default(),
            layout: Layout::Flat,
            wake_cycles: 0,
            address: ADDRESS,
            peeks: Peeks::Fresh,
        }
    }
}

impl SchedulerTable {
    fn read(section: &mut Section<'_>) -> Result<Self, MachineError> {
        let costs = Costs::default().read(section)?;
        let layouts = [("flat", false), ("native", true)];
        let native = section.optional_one_of("layout", &layouts)? == Some(true);
        let (misplaced, why): (&[&str], &str) = match native {
            true => (&["pool_lines", "queue_lines"], "is not for"),
            false => (&Native::KEYS, "needs"),
        };
        if let Some(key) = misplaced.iter().find(|key| section.has(key)) {
            let message = format!("`{key}` {why} `layout = \"native\"`");
            return Err(section.wrong(key, message));
        }
        let layout = match native {
            true => Layout::Native(Native::read(section)?),
            false => Layout::Flat,
        };
        let wake_cycles = cycles(section, "wake_cycles", 0)?;
        let address = section.optional_number("address")?.unwrap_or(ADDRESS);
        if address % 4096 != 0 || address > u64::MAX - (1 << 30) {
            let message = "`address` must be a multiple of 4096, and 2^30 bytes must fit behind it";
            return Err(section.wrong("address", message));
        }
        let peeks = [
            ("fresh", Peeks::Fresh),
            ("stale", Peeks::Stale),
            ("garbage", Peeks::Garbage),
        ];
        let peeks = section.optional_one_of("peeks", &peeks)?;
        Ok(SchedulerTable {
            costs,
            layout,
            wake_cycles,
            address,
            peeks: peeks.unwrap_or_default(),
        })
    }
}

/// `[background.NAME]`: accesses of a device, or of a core that runs something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundTable {
    /// Its name.
    pub name: String,
    /// The time of the first access.
    pub start: Cycle,
    /// Cycles from one access to the next, unless an access takes longer.
    pub every_cycles: Cycle,
    /// First byte of the range.
    pub address: u64,
    /// Bytes of the range.
    pub size: u64,
    /// Bytes from the address of one access to that of the next.
    pub step: u64,
    /// Whether the accesses write.
    pub write: bool,
    /// The core whose shared caches the stream uses.
    pub near_core: u16,
}

impl BackgroundTable {
    fn read(section: &mut Section<'_>, name: &str, cores: u16) -> Result<Self, MachineError> {
        let near = section.optional_number("near_core")?.unwrap_or(0);
        if near >= u64::from(cores) {
            let message = format!("`near_core` is {near}; the last core is {}", cores - 1);
            return Err(section.wrong("near_core", message));
        }
        let table = BackgroundTable {
            name: name.to_owned(),
            start: cycles(section, "start", 0)?,
            every_cycles: section.number_in("every_cycles", 1..=LONGEST_CYCLES)?,
            address: section.number("address")?,
            size: section.size("size")?,
            step: section.size("step")?,
            write: section.one_of("access", &[("read", false), ("write", true)])?,
            near_core: near as u16,
        };
        if table.size == 0 || table.address.checked_add(table.size - 1).is_none() {
            return Err(section.wrong("size", "the range is empty or passes 2^64-1"));
        }
        if table.step == 0 || table.step > table.size {
            return Err(section.wrong("step", "`step` must be 1 to `size`"));
        }
        Ok(table)
    }
}

/// All keys that only the contended model has, except those of caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Cycles that a write takes longer if it removes copies of its line.
    pub invalidate_cycles: Cycle,
    /// The least latency of a write that removes copies from a cache that cores share; 0: as any other.
    pub far_invalidate_cycles: Cycle,
    /// Whether a line goes from core to core one transfer at a time.
    pub serial_lines: bool,
    /// Main memory; with `numa` that of each socket.
    pub memory: MemoryTable,
    /// Several memories; `None`: one.
    pub numa: Option<NumaTable>,
    /// The dispatcher.
    pub scheduler: SchedulerTable,
    /// Policies with costs of their own.
    pub policies: Vec<(String, Costs)>,
    /// Background streams.
    pub background: Vec<BackgroundTable>,
}

impl Tables {
    /// Reads and returns the tables from the top level of a machine file. `line` is the longest line of any cache.
    pub(crate) fn read(
        section: &mut Section<'_>,
        cores: u16,
        line: u64,
        invalidates: bool,
        cores_per_socket: Option<u64>,
    ) -> Result<Self, MachineError> {
        let mut tables = Tables {
            invalidate_cycles: cycles(section, "invalidate_cycles", 0)?,
            ..Tables::default()
        };
        tables.far_invalidate_cycles = cycles(section, "far_invalidate_cycles", 0)?;
        let transfers = [("free", false), ("serial", true)];
        tables.serial_lines = section.optional_one_of("transfers", &transfers)? == Some(true);
        for key in ["invalidate_cycles", "far_invalidate_cycles", "transfers"] {
            if section.has(key) && !invalidates {
                let message = format!("`{key}` needs `coherence = \"invalidate\"`");
                return Err(section.wrong(key, message));
            }
        }
        if let Some(mut memory) = section.optional_table("memory")? {
            tables.memory = MemoryTable::read(&mut memory, line)?;
            memory.finish()?;
        }
        if let Some(mut numa) = section.optional_table("numa")? {
            if cores_per_socket.is_none() {
                let wrong = || numa.wrong("", "`[numa]` needs `cores_per_socket`");
                return Err(section.misspelt("cores_per_socket").unwrap_or_else(wrong));
            }
            tables.numa = Some(NumaTable::read(&mut numa, line)?);
            numa.finish()?;
        }
        if let Some(mut scheduler) = section.optional_table("scheduler")? {
            tables.scheduler = SchedulerTable::read(&mut scheduler)?;
            scheduler.finish()?;
        }
        for (name, mut policy) in section.named_tables("policy")? {
            if let Err(unknown) = tanada_policy::registry::find(&name) {
                let names = tanada_policy::registry::all()
                    .iter()
                    .map(|entry| entry.name);
                return Err(policy.wrong("", spelling::asked(unknown, &name, names)));
            }
            let costs = tables.scheduler.costs.read(&mut policy)?;
            policy.finish()?;
            tables.policies.push((name, costs));
        }
        for (name, mut stream) in section.named_tables("background")? {
            let table = BackgroundTable::read(&mut stream, &name, cores)?;
            tables.background.push(table);
            stream.finish()?;
        }
        Ok(tables)
    }

    /// Returns what the steps of the dispatcher called `policy` cost.
    pub fn costs(&self, policy: &str) -> &Costs {
        let own = self.policies.iter().find(|(name, _)| name == policy);
        own.map_or(&self.scheduler.costs, |(_, costs)| costs)
    }
}
