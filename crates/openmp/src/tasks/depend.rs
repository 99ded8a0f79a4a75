//! Dependences: which tasks must end before a task may run.
//!
//! Tasks depend on siblings only. So the table of addresses belongs to the parent, and only the thread that runs the parent touches it.
//! What other threads touch are two words: how many predecessors a task waits for, and the list of those that wait for it. The latter is
//! in a [`Node`] of its own, because the table names a task until long after the task's memory has another use.
//!
//! A node's word is the head of that list, with two bits:
//!
//! - [`CLOSED`]: the task has ended. Its thread sets the bit and gets the list; from then on nothing is added.
//! - [`DROPPED`]: no entry of the table names it any more.
//!
//! The thread that sets the second of the two frees the node. Each bit is set once, so an addition sets it.
//!
//! Nodes are small and lie in the order of creation, because each goes from the thread that creates the task to the one that ends it, and
//! back: four go with one cache line. When all tasks have ended the table forgets all at once ([`Table::reset`]), and touches none of them.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{null, null_mut};

use super::memory::{Pool, give_without_pool, prefetch};
use super::sync::{AtomicPtr, AtomicU64, Ordering};
use super::task::{EDGES, Task};

const DROPPED: u64 = 1;
const CLOSED: u64 = 2;
const BITS: u64 = 3;

/// An entry of a list of tasks that wait is the address of the task, with the number of one of its own places plus one here; or 0 here and
/// the address of an [`Edge`].
const PLACE: u64 = 0xc;

const _: () = assert!(EDGES == 3 && align_of::<Edge>() == 16);

/// That one task waits for another: an entry of a list that does not lie in the waiting task.
#[repr(align(16))]
struct Edge {
    next: Cell<u64>,
    to: Cell<*mut Task>,
}

/// What a table knows of a task.
#[repr(align(16))]
pub(super) struct Node {
    /// See the module's documentation. Of a node that is not in use: the next one.
    successors: AtomicU64,
    /// Entries that name it; the parent's thread alone looks at this.
    names: Cell<u32>,
}

/// Nodes that other threads freed.
type Returned = AtomicPtr<Node>;

/// (loom's atomics are larger.)
const SLAB_NODES: usize = if cfg!(loom) { 40 } else { 255 };

/// Memory of nodes, at a multiple of its size.
#[repr(C, align(4096))]
struct Slab {
    returned: *const Returned,
    nodes: [Node; SLAB_NODES],
}

const _: () = assert!(size_of::<Slab>() == 4096);

/// The nodes of one table.
struct Nodes {
    slabs: Vec<*mut Slab>,
    /// Slabs of which some nodes were in use since the last reset; in the last one, the first that was not, and the end.
    used: usize,
    fresh: *mut Node,
    end: *mut Node,
    /// Nodes that were freed by the parent's thread.
    free: *mut Node,
    returned: *const Returned,
}

impl Nodes {
    fn new() -> Nodes {
        Nodes {
            slabs: Vec::new(),
            used: 0,
            fresh: null_mut(),
            end: null_mut(),
            free: null_mut(),
            returned: Box::into_raw(Box::new(AtomicPtr::new(null_mut()))),
        }
    }

    /// Returns the node of a new task.
    #[inline]
    fn take(&mut self) -> *const Node {
        if self.free.is_null() {
            // SAFETY: it lives as long as the table.
            let returned = unsafe { &*self.returned };
            if returned.load(Ordering::Relaxed).is_null() {
                if self.fresh == self.end {
                    self.next_slab();
                }
                let node = self.fresh;
                // SAFETY: there is room for one.
                self.fresh = unsafe { node.add(1) };
                return Nodes::begin(node);
            }
            self.free = returned.swap(null_mut(), Ordering::Acquire);
        }
        let node = self.free;
        // SAFETY: nodes in the list are not in use.
        self.free = unsafe { (*node).successors.load(Ordering::Relaxed) } as *mut Node;
        Nodes::begin(node)
    }

    #[inline]
    fn begin(node: *mut Node) -> *const Node {
        // SAFETY: it is not in use, and this thread has it.
        unsafe {
            node.write(Node {
                successors: AtomicU64::new(0),
                names: Cell::new(0),
            });
        }
        node
    }

    #[cold]
    #[inline(never)]
    fn next_slab(&mut self) {
        if self.used == self.slabs.len() {
            let layout = Layout::new::<Slab>();
            // SAFETY: its size is not 0.
            let slab = unsafe { alloc(layout) }.cast::<Slab>();
            if slab.is_null() {
                handle_alloc_error(layout);
            }
            // SAFETY: there is room for it.
            unsafe { (&raw mut (*slab).returned).write(self.returned) };
            self.slabs.push(slab);
        }
        // SAFETY: the slab's own memory.
        unsafe {
            self.fresh = (&raw mut (*self.slabs[self.used]).nodes).cast();
            self.end = self.fresh.add(SLAB_NODES);
        }
        self.used += 1;
    }

    /// An entry names `node` no longer.
    #[inline]
    fn release(&mut self, node: *const Node) {
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
                (*node)
                    .successors
                    .store(self.free as u64, Ordering::Relaxed);
                self.free = node.cast_mut();
            }
        }
    }

    /// No node is in use.
    fn reset(&mut self) {
        self.used = 0;
        (self.fresh, self.end, self.free) = (null_mut(), null_mut(), null_mut());
        // SAFETY: it lives as long as the table.
        unsafe { &*self.returned }.store(null_mut(), Ordering::Relaxed);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // SAFETY: made in this file; the tasks of the table have ended.
        unsafe {
            for &slab in &self.slabs {
                dealloc(slab.cast(), Layout::new::<Slab>());
            }
            drop(Box::from_raw(self.returned.cast_mut()));
        }
    }
}

/// Frees a node in another thread than the parent's.
#[cold]
unsafe fn give_back(node: *const Node) {
    // SAFETY: the caller promises that it is not in use; it lies in a slab, whose table is there.
    unsafe {
        let slab = node.wrapping_byte_sub(node as usize % size_of::<Slab>());
        let returned = &*(*slab.cast::<Slab>()).returned;
        let mut head = returned.load(Ordering::Relaxed);
        loop {
            (*node).successors.store(head as u64, Ordering::Relaxed);
            let put = returned.compare_exchange_weak(
                head,
                node.cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match put {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
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

/// Tasks of the last kind of an address that lie in its entry; more are in a list.
const NEAR: usize = 3;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry {
    address: usize,
    /// The last task that wrote, unless `before` has what the group waits for.
    writer: *const Node,
    /// Tasks of the last kind, if that is not `Out`: the first `near` of these, and the list.
    members: [*const Node; NEAR],
    group: u32,
    /// What the tasks of the group wait for, if that is not `writer`.
    before: u32,
    /// Length of `group`.
    length: u32,
    /// The entry is there if this is the table's.
    turn: u32,
    kind: Kind,
    near: u8,
}

const NONE: Entry = Entry {
    address: 0,
    writer: null(),
    members: [null(); NEAR],
    group: 0,
    before: 0,
    length: 0,
    turn: 0,
    kind: Kind::Out,
    near: 0,
};

/// Addresses, and the tasks that used them last.
pub(crate) struct Table {
    /// Open addressing, linear; a power of two.
    entries: Vec<Entry>,
    used: usize,
    /// How often all entries were forgotten; never 0.
    turn: u32,
    links: Vec<Link>,
    /// Index of the first node that is not in use, plus one.
    spare: u32,
    /// The last task that may write anything, unless it is known to have ended.
    all: *const Node,
    nodes: Nodes,
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
            turn: 1,
            links: Vec::new(),
            spare: 0,
            all: null(),
            nodes: Nodes::new(),
        }
    }

    /// Returns the node of a new task.
    #[inline]
    pub(super) fn node(&mut self) -> *const Node {
        self.nodes.take()
    }

    /// Returns whether the entry at `at` is there.
    #[inline]
    fn is_there(&self, at: usize) -> bool {
        self.entries[at].turn == self.turn
    }

    #[inline]
    fn place(&self, address: usize) -> usize {
        debug_assert!(address != 0);
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shift = 64 - self.entries.len().trailing_zeros();
        let mask = self.entries.len() - 1;
        let mut at = (hash >> shift) as usize;
        while self.is_there(at) && self.entries[at].address != address {
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

    /// Calls `on` with each task of the last kind, if that is not `Out`.
    #[inline]
    fn each_member(&self, entry: &Entry, mut on: impl FnMut(*const Node)) {
        for &member in &entry.members[..usize::from(entry.near)] {
            on(member);
        }
        self.each(entry.group, on);
    }

    /// Calls `on` with each task that a new one which may write anything must wait for. Some may have ended.
    #[cold]
    fn before_all(&self, mut on: impl FnMut(*const Node)) {
        if !self.all.is_null() {
            on(self.all);
        }
        for entry in self.entries.iter().filter(|entry| entry.turn == self.turn) {
            if !entry.writer.is_null() {
                on(entry.writer);
            }
            self.each_member(entry, &mut on);
            self.each(entry.before, &mut on);
        }
    }

    /// Calls `on` with each task that a new one with this dependence must wait for. Some may have ended.
    #[inline]
    fn before(&self, at: usize, kind: Kind, mut on: impl FnMut(*const Node)) {
        if !self.all.is_null() {
            on(self.all);
        }
        if !self.is_there(at) {
            return;
        }
        let entry = &self.entries[at];
        let joins = kind == entry.kind && kind != Kind::Out;
        if entry.kind == Kind::Out || joins {
            if !entry.writer.is_null() {
                on(entry.writer);
            }
            self.each(entry.before, on);
        } else {
            self.each_member(entry, on);
        }
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
    /// The caller runs the parent, whose table this is, and `task` is its child's node, made by [`Table::node`].
    #[inline]
    pub(super) unsafe fn enter(
        &mut self,
        address: usize,
        kind: Kind,
        task: *const Node,
        mut on: impl FnMut(*const Node),
    ) {
        if kind == Kind::All {
            // SAFETY: as this function's.
            return unsafe { self.enter_all(task, on) };
        }
        if !self.all.is_null() && has_ended(self.all) {
            self.nodes.release(std::mem::replace(&mut self.all, null()));
        }
        // SAFETY: the caller promises it; the field is the parent's thread's.
        unsafe { (*task).names.set((*task).names.get() + 1) };
        let mut at = self.place(address);
        if !self.is_there(at) {
            if !self.all.is_null() {
                on(self.all);
            }
            if self.used * 4 >= self.entries.len() * 3 {
                self.sweep();
                at = self.place(address);
            }
            let entry = &mut self.entries[at];
            *entry = Entry {
                address,
                turn: self.turn,
                kind,
                ..NONE
            };
            if kind == Kind::Out {
                entry.writer = task;
            } else {
                (entry.members[0], entry.near) = (task, 1);
            }
            self.used += 1;
            return;
        }
        self.before(at, kind, on);
        let entry = &mut self.entries[at];
        if kind == Kind::Out {
            let writer = std::mem::replace(&mut entry.writer, task);
            let near = usize::from(std::mem::take(&mut entry.near));
            let group = std::mem::take(&mut entry.group);
            let before = std::mem::take(&mut entry.before);
            (entry.kind, entry.length) = (kind, 0);
            self.nodes.release(writer);
            for place in 0..near {
                self.nodes.release(self.entries[at].members[place]);
            }
            self.release_list(group);
            self.release_list(before);
            return;
        }
        if entry.kind != kind {
            if entry.kind != Kind::Out {
                self.change(at);
            }
            self.entries[at].kind = kind;
        }
        let entry = &mut self.entries[at];
        if usize::from(entry.near) < NEAR {
            entry.members[usize::from(entry.near)] = task;
            entry.near += 1;
            return;
        }
        let (mut group, mut length) = (entry.group, entry.length);
        if length >= LONG && length.is_power_of_two() {
            (group, length) = self.prune(group);
        }
        group = self.link(task, group);
        let entry = &mut self.entries[at];
        (entry.group, entry.length) = (group, length + 1);
    }

    /// A group of another kind begins at the entry: what the last one waited for is behind it now.
    #[cold]
    fn change(&mut self, at: usize) {
        let old = self.entries[at];
        let mut before = old.group;
        for &member in &old.members[..usize::from(old.near)] {
            before = self.link(member, before);
        }
        let entry = &mut self.entries[at];
        (entry.writer, entry.before) = (null(), before);
        (entry.near, entry.group, entry.length) = (0, 0, 0);
        self.nodes.release(old.writer);
        self.release_list(old.before);
    }

    /// As [`Table::enter`], of a task that may write anything: what stands in the table is behind it.
    #[cold]
    unsafe fn enter_all(&mut self, task: *const Node, on: impl FnMut(*const Node)) {
        self.before_all(on);
        // SAFETY: the caller promises it; the field is the parent's thread's. It is named before the entries that may be its own go.
        unsafe { (*task).names.set((*task).names.get() + 1) };
        self.clear();
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

    #[inline]
    fn release_list(&mut self, list: u32) {
        if list != 0 {
            self.release_long_list(list);
        }
    }

    fn release_long_list(&mut self, list: u32) {
        let mut next = list;
        while next != 0 {
            let at = next as usize - 1;
            let node = self.links[at];
            self.nodes.release(node.task);
            self.links[at].next = self.spare;
            self.spare = next;
            next = node.next;
        }
    }

    /// Releases the tasks of a list that have ended. Returns the list of the others and its length.
    #[cold]
    fn prune(&mut self, list: u32) -> (u32, u32) {
        let (mut kept, mut length) = (0, 0);
        let mut next = list;
        while next != 0 {
            let at = next as usize - 1;
            let node = self.links[at];
            if has_ended(node.task) {
                self.nodes.release(node.task);
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
    fn sweep(&mut self) {
        let old = std::mem::take(&mut self.entries);
        let turn = self.turn;
        let mut kept = Vec::with_capacity(self.used);
        for mut entry in old.into_iter().filter(|entry| entry.turn == turn) {
            if !entry.writer.is_null() && has_ended(entry.writer) {
                self.nodes.release(entry.writer);
                entry.writer = null();
            }
            let members = entry.members;
            let near = usize::from(std::mem::take(&mut entry.near));
            for &member in &members[..near] {
                if has_ended(member) {
                    self.nodes.release(member);
                } else {
                    entry.members[usize::from(entry.near)] = member;
                    entry.near += 1;
                }
            }
            (entry.group, entry.length) = self.prune(entry.group);
            (entry.before, _) = self.prune(entry.before);
            if !entry.writer.is_null() || entry.near > 0 || entry.group != 0 || entry.before != 0 {
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

    /// Forgets all. Tasks may be open.
    pub(super) fn clear(&mut self) {
        self.nodes.release(std::mem::replace(&mut self.all, null()));
        if self.used == 0 {
            return;
        }
        for at in 0..self.entries.len() {
            let entry = self.entries[at];
            if entry.turn == self.turn {
                self.nodes.release(entry.writer);
                for &member in &entry.members[..usize::from(entry.near)] {
                    self.nodes.release(member);
                }
                self.release_list(entry.group);
                self.release_list(entry.before);
            }
        }
        self.forget_entries();
    }

    /// Forgets all. No task is open: all that were entered have ended.
    #[inline]
    pub(super) fn reset(&mut self) {
        if self.used > 0 || !self.all.is_null() {
            self.reset_all();
        }
    }

    fn reset_all(&mut self) {
        self.all = null();
        self.links.clear();
        self.spare = 0;
        self.nodes.reset();
        self.forget_entries();
    }

    fn forget_entries(&mut self) {
        if self.used * 16 < self.entries.len() {
            self.entries = vec![NONE; SMALL];
            self.links.shrink_to(SMALL);
        }
        self.used = 0;
        self.turn = self.turn.wrapping_add(1);
        if self.turn == 0 {
            self.entries.fill(NONE);
            self.turn = 1;
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

/// Edges that are not entries of the task's own. They follow the other fields, so the order of the fields is the written one.
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
        let own = self.task as u64;
        if word & !(BITS | PLACE) == own && word & PLACE != 0 {
            return;
        }
        let (entry, next) = match task.edges.get(self.used) {
            Some(next) => (own | (self.used as u64 + 1) << 2, next),
            None => {
                // SAFETY: as this function's.
                let edge = unsafe { extra_edge(task, pool) };
                edge.to.set(self.task.cast_mut());
                (std::ptr::from_ref(edge) as u64, &edge.next)
            }
        };
        loop {
            next.set(word & !BITS);
            match before.successors.compare_exchange_weak(
                word,
                entry | word & BITS,
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
            next: Cell::new(0),
            to: Cell::new(null_mut()),
        });
        &*edge
    }
}

/// Returns the task of an entry of a list, and the next entry.
///
/// # Safety
/// The task waits.
#[inline]
unsafe fn follow(entry: u64) -> (*mut Task, u64) {
    let place = (entry & PLACE) as usize >> 2;
    // SAFETY: the caller promises it.
    unsafe {
        if place == 0 {
            let edge = entry as *const Edge;
            return ((*edge).to.get(), (*edge).next.get());
        }
        let task = (entry & !PLACE) as *mut Task;
        (task, (*task).edges[place - 1].get())
    }
}

/// Ends the task with this node for those that wait for it: calls `ready` with each that waits for nothing more.
///
/// # Safety
/// The task's body has ended, and this is called once.
#[inline]
pub(super) unsafe fn close(node: *const Node, mut ready: impl FnMut(*mut Task)) {
    // SAFETY: the caller promises it: until the bit is set the table does not free it.
    let word = unsafe { (*node).successors.fetch_add(CLOSED, Ordering::AcqRel) };
    let mut entry = word & !BITS;
    while entry != 0 {
        // SAFETY: a task that waits is there until its count of predecessors falls below.
        unsafe {
            let (task, next) = follow(entry);
            entry = next;
            if (*task).predecessors.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(task);
            }
        }
    }
    if word & DROPPED != 0 {
        // SAFETY: this thread has set the second bit.
        unsafe { give_back(node) };
    }
}

/// Fetches what the end of a task with this node will need from another thread's cache.
///
/// # Safety
/// The task has not ended.
#[inline]
pub(super) unsafe fn prefetch_end(node: *const Node) {
    // SAFETY: the caller promises it; what the list's first entry says is only a hint.
    unsafe {
        let first = (*node).successors.load(Ordering::Relaxed) & !(BITS | PLACE);
        prefetch((first as *const Task).wrapping_byte_add(64));
    }
}

#[cfg(all(test, not(loom)))]
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
                            close(node, |task| ready.send(Sent(task)).expect("open"));
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
                    let node = table.node();
                    (*new).node.set(node);
                    let mut edges = Edges::of(new);
                    for &(address, kind) in row {
                        table.enter(address, kind, node, |before| edges.add(before, &mut pool));
                    }
                    let guard = GUARD - edges.count() as i32;
                    if (*new).predecessors.fetch_sub(guard, Ordering::AcqRel) == guard {
                        ready.send(Sent(new)).expect("open");
                    }
                }
                if number % 1_000 == 999 {
                    table.sweep(); // as a table that is full does
                }
                // As at a barrier.
                if number % 7_001 == 7_000 {
                    while left.load(Ordering::Acquire) > TASKS - 1 - number {
                        std::thread::yield_now();
                    }
                    table.reset();
                }
            }
            while left.load(Ordering::Acquire) > 0 {
                std::thread::yield_now();
            }
            table.clear();
        });
        assert!(ended.iter().all(|ended| ended.load(Ordering::Relaxed) == 1));
    }
}
