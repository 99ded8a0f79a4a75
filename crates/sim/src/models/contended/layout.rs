//! With `layout = "native"`: the lines that the runtime and its policies touch, as they lie in memory natively (rule 4.1).
//!
//! Each word that several workers use is on 128 bytes of its own, as `tanada_queues::Padded` puts it. What a lock protects begins behind
//! the lock, on the same line; tasks in a queue are words of 8 bytes beside each other; a node of the graph has two lines.

use tanada_policy::{Access, Op, Word, WorkerId};
use tanada_trace::{Edge, Record};

use super::call::{Addresses, LockOf, QUEUES, Step, compute};
use crate::machine::Cycle;
use crate::machine::contended::{Costs, Native};

/// Bytes from one word that several workers use to the next.
const APART: u64 = 128;
/// Bytes of a word.
const WORD: u32 = 8;
/// Bytes of a node of the graph.
const NODE: u64 = 128;
/// Nodes with an address of their own.
const NODES: u64 = 1 << 21;
const FIRST_NODE: u64 = (1 << 29) + (1 << 28);
/// Words that a queue has room for before it begins anew.
const SLOTS: u64 = 256;

/// Places in the region of all workers, in units of [`APART`].
#[derive(Clone, Copy, Debug)]
enum Shared {
    Lock = 0,
    Available = 1,
    Put = 2,
    Taken = 3,
    Opened = 4,
    Searching = 5,
    Asleep = 6,
    Moving = 7,
    Slots = 8,
    Owners = 32,
}

/// Places in the region of one worker, in units of [`APART`].
#[derive(Clone, Copy, Debug)]
enum Own {
    Top = 0,
    Bottom = 1,
    Lock = 2,
    Load = 3,
    Inbox = 4,
    Nodes = 5,
    /// Of the deque; those of the seat follow.
    Slots = 8,
    SeatSlots = 24,
}

/// How many tasks have gone into the queues, modulo 2^64: so the places of the next ones are known.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) costs: Native,
    /// Of each core's deque.
    bottoms: Vec<u64>,
    tops: Vec<u64>,
    /// Of each core's seat.
    seats: Vec<u64>,
    pool: u64,
    injected: u64,
}

impl Layout {
    pub(super) fn new(costs: Native, cores: usize) -> Layout {
        Layout {
            costs,
            bottoms: vec![0; cores],
            tops: vec![0; cores],
            seats: vec![0; cores],
            pool: 0,
            injected: 0,
        }
    }

    /// Adds the steps before the decision: the end of a task that resolves `edges`.
    pub(super) fn before<'e>(
        &self,
        steps: &mut Vec<Step>,
        costs: &Costs,
        at: Addresses,
        me: WorkerId,
        edges: impl Iterator<Item = &'e Edge>,
    ) {
        for edge in edges {
            let node = node(at, edge.to());
            if edge.is_fork() {
                // The list of free nodes is the worker's own.
                write(steps, own(at, me, Own::Nodes));
                write(steps, node);
                write(steps, node + NODE / 2);
                compute(steps, self.costs.allocate_cycles);
            }
            write(steps, node);
            compute(steps, costs.resolve_cycles);
        }
    }

    /// Adds the steps of what the policy charged for.
    pub(super) fn charged(
        &mut self,
        steps: &mut Vec<Step>,
        costs: &Costs,
        at: Addresses,
        me: WorkerId,
        op: Op,
        far: Cycle,
    ) {
        match op {
            Op::Pool => {
                steps.push(Step::Lock(LockOf::Pool));
                write(steps, shared(at, Shared::Lock));
                write(steps, slot(shared(at, Shared::Slots), &mut self.pool));
                compute(steps, costs.pool_cycles);
                steps.push(Step::Unlock(LockOf::Pool));
            }
            Op::Injected => {
                read(steps, slot(shared(at, Shared::Slots), &mut self.injected));
                compute(steps, costs.steal_cycles);
            }
            Op::OwnPush => {
                if let Some(bottom) = self.bottoms.get_mut(me.index()) {
                    write(steps, slot(own(at, me, Own::Slots), bottom));
                }
                compute(steps, costs.own_push_cycles);
            }
            Op::OwnPop => {
                if let Some(bottom) = self.bottoms.get_mut(me.index()) {
                    *bottom = bottom.wrapping_sub(1);
                    read(steps, slot(own(at, me, Own::Slots), &mut { *bottom }));
                }
                compute(steps, costs.own_pop_cycles);
            }
            Op::Steal(_) => compute(steps, costs.steal_cycles + far),
            Op::Empty(of) => match costs.empty_steal_cycles {
                None => compute(steps, costs.steal_cycles + far),
                Some(cycles) => look(steps, at, of, cycles),
            },
            Op::Peek(of) => look(steps, at, of, costs.peek_cycles),
            Op::Mail(_) => compute(steps, costs.mail_cycles + far),
            Op::Seat(of, access) => self.seat(steps, costs, at, me, (of, access), far),
            Op::Read(word) => read(steps, address(at, word)),
            Op::Write(word) => {
                if let Word::Top(of) = word
                    && let Some(top) = self.tops.get_mut(of.index())
                {
                    read(steps, slot(own(at, of, Own::Slots), top));
                }
                write(steps, address(at, word));
            }
            Op::Pause => compute(steps, self.costs.pause_cycles),
        }
    }

    fn seat(
        &mut self,
        steps: &mut Vec<Step>,
        costs: &Costs,
        at: Addresses,
        me: WorkerId,
        (of, access): (WorkerId, Access),
        far: Cycle,
    ) {
        // A worker that does not exist has no seat.
        let Some(count) = self.seats.get_mut(of.index()) else {
            return;
        };
        steps.push(Step::Lock(LockOf::Seat(of)));
        write(steps, own(at, of, Own::Lock));
        let before = *count;
        write(steps, slot(own(at, of, Own::SeatSlots), count));
        if access == Access::Take {
            *count = before;
        }
        compute(steps, costs.seat_cycles(me, of, access) + far);
        write(steps, own(at, of, Own::Load));
        steps.push(Step::Unlock(LockOf::Seat(of)));
    }

    /// Adds the steps of a worker that begins to run `task`.
    pub(super) fn begins(steps: &mut Vec<Step>, at: Addresses, task: u32) {
        read(steps, node(at, task));
        read(steps, node(at, task) + NODE / 2);
    }

    /// Adds the step that counts a worker as searching, or not any more.
    pub(super) fn counts_searching(steps: &mut Vec<Step>, at: Addresses) {
        write(steps, shared(at, Shared::Searching));
    }

    /// Adds the step of a look at how many workers search.
    pub(super) fn looks_who_searches(steps: &mut Vec<Step>, at: Addresses) {
        read(steps, shared(at, Shared::Searching));
    }

    /// Adds the step of a look at who sleeps.
    pub(super) fn looks_who_sleeps(steps: &mut Vec<Step>, at: Addresses) {
        read(steps, shared(at, Shared::Asleep));
    }

    /// Adds the steps of a worker that announces its sleep.
    pub(super) fn announces_sleep(steps: &mut Vec<Step>, at: Addresses) {
        write(steps, shared(at, Shared::Asleep));
        write(steps, shared(at, Shared::Searching));
    }

    /// Adds the steps of waking one worker.
    pub(super) fn wakes(&self, steps: &mut Vec<Step>, at: Addresses) {
        write(steps, shared(at, Shared::Searching));
        write(steps, shared(at, Shared::Asleep));
        compute(steps, self.costs.wake_call_cycles);
    }
}

fn shared(at: Addresses, place: Shared) -> u64 {
    at.base + place as u64 * APART
}

fn own(at: Addresses, worker: WorkerId, place: Own) -> u64 {
    at.queue(worker) + place as u64 * APART
}

fn node(at: Addresses, task: u32) -> u64 {
    at.base + FIRST_NODE + u64::from(task) % NODES * NODE
}

/// Returns the address of the next slot of a queue at `first`, and counts it.
fn slot(first: u64, count: &mut u64) -> u64 {
    let address = first + *count % SLOTS * u64::from(WORD);
    *count = count.wrapping_add(1);
    address
}

fn address(at: Addresses, word: Word) -> u64 {
    match word {
        Word::Top(of) => own(at, of, Own::Top),
        Word::Bottom(of) => own(at, of, Own::Bottom),
        Word::Inbox(of) => own(at, of, Own::Inbox),
        Word::Load(of) => own(at, of, Own::Load),
        Word::Available => shared(at, Shared::Available),
        Word::Put => shared(at, Shared::Put),
        Word::Taken => shared(at, Shared::Taken),
        Word::Moving => shared(at, Shared::Moving),
        Word::Opened => shared(at, Shared::Opened),
        Word::Owner(place) => shared(at, Shared::Owners) + 2 * u64::from(place),
    }
}

/// Adds the steps of a look at both ends of a deque.
fn look(steps: &mut Vec<Step>, at: Addresses, of: WorkerId, cycles: Cycle) {
    read(steps, own(at, of, Own::Top));
    read(steps, own(at, of, Own::Bottom));
    compute(steps, cycles);
}

fn read(steps: &mut Vec<Step>, address: u64) {
    // A word lies in one line.
    steps.push(Step::Do(Record::read(address, 1)));
}

fn write(steps: &mut Vec<Step>, address: u64) {
    steps.push(Step::Do(Record::write(address, 1)));
}

const _: () = assert!(QUEUES > Shared::Owners as u64 * APART + (1 << 17));
const _: () = assert!(FIRST_NODE + NODES * NODE <= 1 << 30);
