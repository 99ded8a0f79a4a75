//! Dependences: which tasks must end before a task may run.
//!
//! Tasks depend on siblings only. So the table of addresses belongs to the parent, and only the thread that runs the parent touches it.
//! What other threads touch are two words: how many predecessors a task waits for, and the list of those that wait for it. The latter is
//! in a [`Node`] of its own, because the table names a task until long after the task's memory has another use.
//!
//! A node's word is the address of the first edge of its list, with two bits:
//!
//! - [`CLOSED`]: the task has ended. Its thread sets the bit and gets the list; from then on nothing is added.
//! - [`DROPPED`]: no entry of the table names it any more.
//!
//! The thread that sets the second of the two frees the node. Each bit is set once, so an addition sets it.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use super::memory::{Pool, give_without_pool};
use super::task::{EDGES, Edge, Task};

const DROPPED: u64 = 1;
const CLOSED: u64 = 2;
const BITS: u64 = 3;

/// What a table knows of a task.
pub(super) struct Node {
    successors: AtomicU64,
    /// Entries that name it; the parent's thread alone looks at this.
    names: Cell<u32>,
    class: u8,
}

impl Node {
    /// Returns the node of a new task.
    #[inline]
    fn make(pool: &mut Pool) -> *mut Node {
        let (block, class) = pool.take(size_of::<Node>());
        let node = block.cast::<Node>();
        // SAFETY: the block is large enough, and nobody else has it.
        unsafe {
            node.write(Node {
                successors: AtomicU64::new(0),
                names: Cell::new(0),
                class,
            });
        }
        node
    }
}

/// What a dependence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads: those that read may run together.
    In,
    /// `inoutset`: those of one set may run together.
    Set,
    /// It writes: alone. `mutexinoutset` is this, too: the order of creation is one that it allows.
    Out,
    /// It may write anything (`omp_all_memory`): after all earlier siblings with dependences, before all later ones. The address does not
    /// matter.
    All,
}

#[derive(Clone, Copy)]
struct Link {
    task: *const Node,
    /// Index of the next, plus one.
    next: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    /// 0: there is no entry.
    address: usize,
    /// The last task that wrote, unless `before` has what the group waits for.
    writer: *const Node,
    /// Tasks of the last kind, if that is not `Out`.
    group: u32,
    /// What the tasks of the group wait for, if that is not `writer`.
    before: u32,
    kind: Kind,
    /// Length of `group`.
    length: u32,
}

const NONE: Entry = Entry {
    address: 0,
    writer: std::ptr::null(),
    group: 0,
    before: 0,
    kind: Kind::Out,
    length: 0,
};

/// Addresses, and the tasks that used them last.
pub(crate) struct Table {
    /// Open addressing, linear; a power of two.
    entries: Vec<Entry>,
    used: usize,
    links: Vec<Link>,
    /// Index of the first node that is not in use, plus one.
    spare: u32,
    /// The last task that may write anything, unless it is known to have ended.
    all: *const Node,
}

/// The smallest table.
const SMALL: usize = 64;

/// The length from which a group of readers is searched for tasks that have ended.
const LONG: u32 = 64;

fn has_ended(task: *const Node) -> bool {
    // SAFETY: the table names it, so its memory is there.
    unsafe { (*task).successors.load(Ordering::Acquire) & CLOSED != 0 }
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            entries: vec![NONE; SMALL],
            used: 0,
            links: Vec::new(),
            spare: 0,
            all: std::ptr::null(),
        }
    }

    #[inline]
    fn place(&self, address: usize) -> usize {
        debug_assert!(address != 0);
        let hash = ((address >> 3) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shift = 64 - self.entries.len().trailing_zeros();
        let mask = self.entries.len() - 1;
        let mut at = (hash >> shift) as usize;
        while self.entries[at].address != address && self.entries[at].address != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Calls `on` with each task of a list.
    #[inline]
    fn each(&self, list: u32, mut on: impl FnMut(*const Node)) {
        let mut next = list;
        while next != 0 {
            let node = self.links[next as usize - 1];
            on(node.task);
            next = node.next;
        }
    }

    /// Calls `on` with each task that a new one which may write anything must wait for. Some may have ended.
    #[cold]
    fn before_all(&self, mut on: impl FnMut(*const Node)) {
        if !self.all.is_null() {
            on(self.all);
        }
        for entry in self.entries.iter().filter(|entry| entry.address != 0) {
            if !entry.writer.is_null() {
                on(entry.writer);
            }
            self.each(entry.group, &mut on);
            self.each(entry.before, &mut on);
        }
    }

    /// Calls `on` with each task that a new one with this dependence must wait for. Some may have ended.
    #[inline]
    fn before(&self, at: usize, kind: Kind, mut on: impl FnMut(*const Node)) {
        if !self.all.is_null() {
            on(self.all);
        }
        let entry = &self.entries[at];
        let joins = kind == entry.kind && kind != Kind::Out;
        let list = if entry.kind == Kind::Out || joins {
            if !entry.writer.is_null() {
                on(entry.writer);
            }
            entry.before
        } else {
            entry.group
        };
        self.each(list, on);
    }

    /// Returns whether a task with this dependence would wait for none.
    pub(super) fn is_free(&self, address: usize, kind: Kind) -> bool {
        let mut free = true;
        self.look(address, kind, |task| free &= has_ended(task));
        free
    }

    /// Calls `on` with each task that one with this dependence must wait for, without entering one.
    pub(super) fn look(&self, address: usize, kind: Kind, on: impl FnMut(*const Node)) {
        if kind == Kind::All {
            return self.before_all(on);
        }
        self.before(self.place(address), kind, on);
    }

    /// Enters `task`, and calls `on` with each that it must wait for. Some may have ended, and one may be the task itself.
    ///
    /// # Safety
    /// The caller runs the parent, whose table this is, and `task` is its child.
    #[inline]
    pub(super) unsafe fn enter(
        &mut self,
        address: usize,
        kind: Kind,
        task: *const Node,
        pool: &mut Pool,
        on: impl FnMut(*const Node),
    ) {
        if kind == Kind::All {
            // SAFETY: as this function's.
            return unsafe { self.enter_all(task, pool, on) };
        }
        if !self.all.is_null() && has_ended(self.all) {
            release(std::mem::replace(&mut self.all, std::ptr::null()), pool);
        }
        let mut at = self.place(address);
        if self.entries[at].address == 0 {
            if self.used * 4 >= self.entries.len() * 3 {
                self.sweep(pool);
                at = self.place(address);
            }
            self.entries[at] = Entry { address, ..NONE };
            self.used += 1;
        }
        self.before(at, kind, on);
        // SAFETY: the caller promises it; the field is the parent's thread's.
        unsafe { (*task).names.set((*task).names.get() + 1) };
        let mut entry = self.entries[at];
        if kind == Kind::Out {
            let (writer, group, before) = (entry.writer, entry.group, entry.before);
            (entry.writer, entry.group, entry.before) = (task, 0, 0);
            (entry.kind, entry.length) = (kind, 0);
            self.entries[at] = entry;
            release(writer, pool);
            self.release_list(group, pool);
            self.release_list(before, pool);
            return;
        }
        if entry.kind != kind {
            if entry.kind != Kind::Out {
                // A group of another kind: what it waited for is behind it now.
                let (writer, before) = (entry.writer, entry.before);
                (entry.writer, entry.before) = (std::ptr::null(), entry.group);
                (entry.group, entry.length) = (0, 0);
                release(writer, pool);
                self.release_list(before, pool);
            }
            entry.kind = kind;
        }
        if entry.length >= LONG && entry.length.is_power_of_two() {
            (entry.group, entry.length) = self.prune(entry.group, pool);
        }
        entry.group = self.link(task, entry.group);
        entry.length += 1;
        self.entries[at] = entry;
    }

    /// As [`Table::enter`], of a task that may write anything: what stands in the table is behind it.
    #[cold]
    unsafe fn enter_all(
        &mut self,
        task: *const Node,
        pool: &mut Pool,
        on: impl FnMut(*const Node),
    ) {
        self.before_all(on);
        // SAFETY: the caller promises it; the field is the parent's thread's. It is named before the entries that may be its own go.
        unsafe { (*task).names.set((*task).names.get() + 1) };
        self.clear(pool);
        self.all = task;
    }

    fn link(&mut self, task: *const Node, next: u32) -> u32 {
        let node = Link { task, next };
        match self.spare {
            0 => {
                self.links.push(node);
                self.links.len() as u32
            }
            spare => {
                self.spare = self.links[spare as usize - 1].next;
                self.links[spare as usize - 1] = node;
                spare
            }
        }
    }

    fn release_list(&mut self, list: u32, pool: &mut Pool) {
        let mut next = list;
        while next != 0 {
            let at = next as usize - 1;
            let node = self.links[at];
            release(node.task, pool);
            self.links[at].next = self.spare;
            self.spare = next;
            next = node.next;
        }
    }

    /// Releases the tasks of a list that have ended. Returns the list of the others and its length.
    #[cold]
    fn prune(&mut self, list: u32, pool: &mut Pool) -> (u32, u32) {
        let (mut kept, mut length) = (0, 0);
        let mut next = list;
        while next != 0 {
            let at = next as usize - 1;
            let node = self.links[at];
            if has_ended(node.task) {
                release(node.task, pool);
                self.links[at].next = self.spare;
                self.spare = next;
            } else {
                self.links[at].next = kept;
                kept = next;
                length += 1;
            }
            next = node.next;
        }
        (kept, length)
    }

    /// Drops the entries of which all tasks have ended, and makes a table of a size that suits the others.
    #[cold]
    fn sweep(&mut self, pool: &mut Pool) {
        let old = std::mem::take(&mut self.entries);
        let mut kept = Vec::with_capacity(old.len());
        for mut entry in old.into_iter().filter(|entry| entry.address != 0) {
            if !entry.writer.is_null() && has_ended(entry.writer) {
                release(entry.writer, pool);
                entry.writer = std::ptr::null();
            }
            (entry.group, entry.length) = self.prune(entry.group, pool);
            (entry.before, _) = self.prune(entry.before, pool);
            if !entry.writer.is_null() || entry.group != 0 || entry.before != 0 {
                kept.push(entry);
            }
        }
        self.entries = vec![NONE; (kept.len() * 4).next_power_of_two().max(SMALL)];
        self.used = kept.len();
        for entry in kept {
            let at = self.place(entry.address);
            self.entries[at] = entry;
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        release(std::mem::replace(&mut self.all, std::ptr::null()), pool);
        if self.used == 0 {
            return;
        }
        for at in 0..self.entries.len() {
            let entry = std::mem::replace(&mut self.entries[at], NONE);
            if entry.address != 0 {
                release(entry.writer, pool);
                self.release_list(entry.group, pool);
                self.release_list(entry.before, pool);
            }
        }
        if self.used * 16 < self.entries.len() {
            self.entries = vec![NONE; SMALL];
            self.links.shrink_to(SMALL);
        }
        self.used = 0;
    }
}

/// An entry of the parent's table names `node` no longer.
#[inline]
fn release(node: *const Node, pool: &mut Pool) {
    if node.is_null() {
        return;
    }
    // SAFETY: an entry named it until now, so it is there; the field is the parent's thread's, which runs this.
    unsafe {
        let names = (*node).names.get() - 1;
        (*node).names.set(names);
        if names > 0 {
            return;
        }
        let mut word = (*node).successors.load(Ordering::Acquire);
        if word & CLOSED == 0 {
            word = (*node).successors.fetch_add(DROPPED, Ordering::AcqRel);
        }
        if word & CLOSED != 0 {
            pool.give(node.cast_mut().cast(), (*node).class);
        }
    }
}

/// Gives back the memory of a task.
///
/// # Safety
/// Nobody uses it.
#[inline]
pub(super) unsafe fn free(task: *mut Task, pool: &mut Pool) {
    // SAFETY: the caller promises it.
    unsafe {
        let extra = (*task).extra.get();
        if !extra.is_null() {
            free_extra(extra.cast(), pool);
        }
        pool.give(task.cast(), (*task).class.get());
    }
}

/// As [`free`], in a thread that has no pool.
#[cold]
pub(super) unsafe fn free_outside(task: *mut Task) {
    // SAFETY: the caller promises it.
    unsafe {
        let mut extra = (*task).extra.get().cast::<Extra>();
        while !extra.is_null() {
            let next = (*extra).next;
            give_without_pool(extra.cast(), (*extra).class);
            extra = next;
        }
        give_without_pool(task.cast(), (*task).class.get());
    }
}

/// Edges that do not lie in the task. They follow the other fields, so the order of the fields is the written one.
#[repr(C)]
struct Extra {
    next: *mut Extra,
    class: u8,
    used: usize,
    edges: [Edge; 0],
}

/// Bytes of an `Extra` with its edges.
const EXTRA: usize = 512;
const EXTRA_EDGES: usize = (EXTRA - size_of::<Extra>()) / size_of::<Edge>();

#[cold]
unsafe fn free_extra(mut extra: *mut Extra, pool: &mut Pool) {
    while !extra.is_null() {
        // SAFETY: the task's own, which nobody uses.
        unsafe {
            let next = (*extra).next;
            pool.give(extra.cast(), (*extra).class);
            extra = next;
        }
    }
}

/// The edges of a task that is being entered.
pub(super) struct Edges {
    task: *const Task,
    used: usize,
}

impl Edges {
    /// Returns that `task` waits for none yet.
    pub(super) fn of(task: *const Task) -> Edges {
        Edges { task, used: 0 }
    }

    /// Returns the number of tasks that it waits for, or waited for.
    pub(super) fn count(&self) -> usize {
        self.used
    }

    /// Makes the task wait for `before`, unless that has ended.
    ///
    /// # Safety
    /// The task and the node are there, this thread runs the parent of both, and the task is not ready.
    #[inline]
    pub(super) unsafe fn add(&mut self, before: *const Node, pool: &mut Pool) {
        // SAFETY: the caller promises it.
        if before == unsafe { (*self.task).node.get() } {
            return;
        }
        // SAFETY: the caller promises it.
        let (task, before) = unsafe { (&*self.task, &*before) };
        let mut word = before.successors.load(Ordering::Acquire);
        if word & CLOSED != 0 {
            return;
        }
        // Two dependences of this task are of one predecessor: only this thread adds to its list, so the first is at the head.
        let head = (word & !BITS) as usize;
        let own = task.edges.as_ptr_range();
        if (own.start as usize..own.end as usize).contains(&head) {
            return;
        }
        let edge = match task.edges.get(self.used) {
            Some(edge) => edge,
            // SAFETY: as this function's.
            None => unsafe { extra_edge(task, pool) },
        };
        edge.to.set(self.task.cast_mut());
        loop {
            edge.next.set((word & !BITS) as *const Edge);
            let with = std::ptr::from_ref(edge) as u64 | word & BITS;
            match before.successors.compare_exchange_weak(
                word,
                with,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(now) if now & CLOSED != 0 => return,
                Err(now) => word = now,
            }
        }
        self.used += 1;
    }
}

#[cold]
unsafe fn extra_edge<'a>(task: &'a Task, pool: &mut Pool) -> &'a Edge {
    let mut extra = task.extra.get().cast::<Extra>();
    // SAFETY: the task's own memory; room for `EXTRA_EDGES` edges lies behind the head.
    unsafe {
        if extra.is_null() || (*extra).used == EXTRA_EDGES {
            let (block, class) = pool.take(EXTRA);
            let new = block.cast::<Extra>();
            new.write(Extra {
                next: extra,
                class,
                used: 0,
                edges: [],
            });
            extra = new;
            task.extra.set(new.cast());
        }
        let at = (*extra).used;
        (*extra).used += 1;
        let edge = (&raw mut (*extra).edges).cast::<Edge>().add(at);
        edge.write(Edge {
            next: std::cell::Cell::new(std::ptr::null()),
            to: std::cell::Cell::new(std::ptr::null_mut()),
        });
        &*edge
    }
}

/// Gives `task` a node, if it has none, and returns that.
///
/// # Safety
/// This thread runs the parent, and the task is not ready.
#[inline]
pub(super) unsafe fn node_of(task: *const Task, pool: &mut Pool) -> *const Node {
    // SAFETY: the caller promises it.
    unsafe {
        if (*task).node.get().is_null() {
            (*task).node.set(Node::make(pool));
        }
        (*task).node.get()
    }
}

/// Ends the task with this node for those that wait for it: calls `ready` with each that waits for nothing more. Returns the node's size
/// class if the caller is to free it.
///
/// # Safety
/// The task's body has ended, and this is called once.
#[inline]
pub(super) unsafe fn close(node: *const Node, mut ready: impl FnMut(*mut Task)) -> Option<u8> {
    // SAFETY: the caller promises it: until the bit is set the table does not free it.
    let (class, word) = unsafe {
        let class = (*node).class;
        (
            class,
            (*node).successors.fetch_add(CLOSED, Ordering::AcqRel),
        )
    };
    let mut edge = (word & !BITS) as *const Edge;
    while !edge.is_null() {
        // SAFETY: an edge lies in a task that waits, whose memory is there until its count of predecessors falls below.
        unsafe {
            let to = (*edge).to.get();
            edge = (*edge).next.get();
            if (*to).predecessors.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(to);
            }
        }
    }
    (word & DROPPED != 0).then_some(class)
}

const _: () = assert!(EDGES > 0 && size_of::<Task>() <= 160);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicUsize};
    use std::sync::mpsc;

    fn task(pool: &mut Pool) -> *mut Task {
        let (block, class) = pool.take(size_of::<Task>());
        let task = block.cast::<Task>();
        // SAFETY: the block is large enough, and nobody else has it.
        unsafe {
            task.write(Task::new(std::ptr::null_mut(), 1, 0, 0));
            (*task).class.set(class);
        }
        task
    }

    struct Sent(*mut Task);
    // SAFETY: the receiver is the one that ends the task.
    unsafe impl Send for Sent {}

    /// One thread enters tasks, others end them as they become ready: each becomes ready once, after all that it depends on has ended,
    /// which a second table of plain numbers says.
    #[test]
    fn each_task_becomes_ready_once_and_after_its_predecessors() {
        const TASKS: usize = if cfg!(miri) { 200 } else { 40_000 };
        const ADDRESSES: u64 = 9;
        const GUARD: i32 = 1 << 30;
        let ended: Vec<AtomicU32> = (0..TASKS).map(|_| AtomicU32::new(0)).collect();
        let left = AtomicUsize::new(TASKS);
        // What each task must come after, found by a walk over all earlier dependences of the address.
        let mut random = (0..).map(|call| tanada_policy::draw(7, tanada_policy::WorkerId(0), call));
        let mut random = |below: u64| random.next().expect("endless") % below;
        let depends: Vec<Vec<(usize, Kind)>> = (0..TASKS)
            .map(|_| {
                let count = 1 + random(6);
                let kind = |n| [Kind::In, Kind::In, Kind::Out, Kind::Set][n as usize];
                (0..count)
                    .map(|_| {
                        let kind = if random(100) == 0 {
                            Kind::All
                        } else {
                            kind(random(4))
                        };
                        (8 + 8 * random(ADDRESSES) as usize, kind)
                    })
                    .collect()
            })
            .collect();
        let mut after: Vec<Vec<usize>> = Vec::new();
        let mut groups: std::collections::BTreeMap<usize, (Kind, Vec<usize>, Vec<usize>)> =
            std::collections::BTreeMap::new();
        let mut all = None;
        for (number, row) in depends.iter().enumerate() {
            let mut before = Vec::new();
            for &(address, kind) in row {
                before.extend(all.filter(|&all| all != number));
                if kind == Kind::All {
                    let groups = std::mem::take(&mut groups);
                    let behind = groups
                        .into_values()
                        .flat_map(|(_, members, waited)| [members, waited].concat());
                    before.extend(behind.filter(|&other| other != number));
                    all = Some(number);
                    continue;
                }
                let (last, members, waited) =
                    groups
                        .entry(address)
                        .or_insert((Kind::Out, Vec::new(), Vec::new()));
                if *last != kind || kind == Kind::Out {
                    *waited = std::mem::take(members);
                    *last = kind;
                }
                before.extend(waited.iter().copied().filter(|&other| other != number));
                members.push(number);
            }
            after.push(before);
        }
        let (ready, work) = mpsc::channel::<Sent>();
        let work = std::sync::Mutex::new(work);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (ready, work, ended, left, after) =
                    (ready.clone(), &work, &ended, &left, &after);
                scope.spawn(move || {
                    let mut pool = Pool::new();
                    while left.load(Ordering::Acquire) > 0 {
                        let got = work.lock().expect("no panic").try_recv();
                        let Ok(Sent(task)) = got else {
                            std::thread::yield_now();
                            continue;
                        };
                        // SAFETY: this thread has the ready task alone.
                        unsafe {
                            let number = (*task).data.get() as usize;
                            for &other in &after[number] {
                                assert_eq!(
                                    ended[other].load(Ordering::Acquire),
                                    1,
                                    "{number} before {other}"
                                );
                            }
                            assert_eq!(ended[number].fetch_add(1, Ordering::AcqRel), 0);
                            let node = (*task).node.get();
                            let unused = close(node, |task| ready.send(Sent(task)).expect("open"));
                            if let Some(class) = unused {
                                pool.give(node.cast_mut().cast(), class);
                            }
                            free(task, &mut pool);
                        }
                        left.fetch_sub(1, Ordering::AcqRel);
                    }
                });
            }
            let (mut pool, mut table) = (Pool::new(), Table::new());
            for (number, row) in depends.iter().enumerate() {
                let new = task(&mut pool);
                // SAFETY: this thread is the only one that enters tasks; the new one is not ready.
                unsafe {
                    (*new).data.set(number as *mut std::ffi::c_void);
                    (*new).predecessors.store(GUARD, Ordering::Relaxed);
                    let node = node_of(new, &mut pool);
                    let mut edges = Edges::of(new);
                    for &(address, kind) in row {
                        let pool: *mut Pool = &mut pool;
                        table.enter(address, kind, node, &mut *pool, |before| {
                            edges.add(before, &mut *pool)
                        });
                    }
                    let guard = GUARD - edges.count() as i32;
                    if (*new).predecessors.fetch_sub(guard, Ordering::AcqRel) == guard {
                        ready.send(Sent(new)).expect("open");
                    }
                }
                if number % 1_000 == 999 {
                    table.clear_ended_for_test(&mut pool);
                }
            }
            while left.load(Ordering::Acquire) > 0 {
                std::thread::yield_now();
            }
            table.clear(&mut pool);
        });
        assert!(ended.iter().all(|ended| ended.load(Ordering::Relaxed) == 1));
    }

    impl Table {
        /// Sweeps, as a table that is full does.
        fn clear_ended_for_test(&mut self, pool: &mut Pool) {
            self.sweep(pool);
        }
    }
}
