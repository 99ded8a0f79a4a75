//! A call of the dispatcher as steps that take time: an instruction source beside a task's records.

use tanada_policy::{Op, WorkerId};
use tanada_trace::Record;

use crate::machine::Cycle;
use crate::machine::contended::Costs;

/// One step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Executes a record, as a task does.
    Do(Record),
    /// Acquires a lock, or waits for it.
    Lock(LockOf),
    /// Releases a lock.
    Unlock(LockOf),
}

/// A lock of the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOf {
    /// The lock of the shared pool.
    Pool,
    /// The lock of a core's seat or mailbox.
    Seat(WorkerId),
}

/// The addresses of the dispatcher's data and code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(super) base: u64,
    /// Bytes of a line of the first data cache.
    line: u64,
}

/// Bytes from one core's queue to the next.
const QUEUE: u64 = 4096 + 256;
pub(super) const QUEUES: u64 = 1 << 20;
const CODE: u64 = 1 << 29;

impl Addresses {
    /// Returns the addresses from `base` on, in lines of `line` bytes.
    pub(crate) fn new(base: u64, line: u64) -> Self {
        Addresses { base, line }
    }

    fn lines(self, steps: &mut Vec<Step>, from: u64, lines: u64) {
        if lines > 0 {
            let size = u32::try_from(lines * self.line).expect("64 lines are less than 2^32 bytes");
            steps.push(Step::Do(Record::write(from, size)));
        }
    }

    /// Adds the steps of a look at the queue of `of`: a read of its first line, if it has lines, and `cycles`.
    fn look(self, steps: &mut Vec<Step>, of: WorkerId, costs: &Costs, cycles: Cycle) {
        if costs.queue_lines > 0 {
            steps.push(Step::Do(Record::read(self.queue(of), 1)));
        }
        compute(steps, cycles);
    }

    pub(super) fn queue(self, of: WorkerId) -> u64 {
        self.base + QUEUES + QUEUE * u64::from(of.0)
    }
}

pub(super) fn compute(steps: &mut Vec<Step>, cycles: Cycle) {
    if cycles > 0 {
        steps.push(Step::Do(Record::compute(cycles)));
    }
}

/// Adds the steps with which a call begins, and of `resolved` dependencies.
pub(crate) fn before(steps: &mut Vec<Step>, costs: &Costs, at: Addresses, resolved: u64) {
    if costs.code_size > 0 {
        let size = u32::try_from(costs.code_size).expect("at most 1M");
        steps.push(Step::Do(Record::fetch(at.base + CODE, size)));
    }
    compute(
        steps,
        costs
            .call_cycles
            .saturating_add(costs.resolve_cycles.saturating_mul(resolved)),
    );
}

/// Returns the worker whose queue an operation is for, if it can be another one's.
pub(crate) fn whose(op: Op) -> Option<WorkerId> {
    match op {
        Op::Mail(of) | Op::Steal(of) | Op::Empty(of) | Op::Peek(of) | Op::Seat(of, _) => Some(of),
        _ => None,
    }
}

/// Adds the steps of one operation that the policy charged for. A worker beyond `seats` has a queue, as far as the costs go, but no lock.
/// `far`: what the operation takes longer because the queue is another socket's.
pub(crate) fn charged(
    steps: &mut Vec<Step>,
    costs: &Costs,
    at: Addresses,
    seats: usize,
    me: WorkerId,
    op: Op,
    far: Cycle,
) {
    let queue = |lock, of, cycles| (lock, at.queue(of), costs.queue_lines, cycles);
    let (lock, from, lines, cycles) = match op {
        Op::Pool | Op::Injected => {
            let (lines, cycles) = (costs.pool_lines, costs.pool_cycles);
            (Some(LockOf::Pool), at.base, lines, cycles)
        }
        Op::Seat(of, access) => {
            let cycles = costs.seat_cycles(me, of, access);
            let lock = (of.index() < seats).then_some(LockOf::Seat(of));
            queue(lock, of, cycles)
        }
        Op::OwnPush => queue(None, me, costs.own_push_cycles),
        Op::OwnPop => queue(None, me, costs.own_pop_cycles),
        Op::Mail(to) => queue(None, to, costs.mail_cycles),
        Op::Steal(from) => queue(None, from, costs.steal_cycles),
        Op::Empty(from) => match costs.empty_steal_cycles {
            None => queue(None, from, costs.steal_cycles),
            Some(cycles) => return at.look(steps, from, costs, cycles),
        },
        Op::Peek(of) => return at.look(steps, of, costs, costs.peek_cycles),
        // They are part of the operations above.
        Op::Read(_) | Op::Write(_) | Op::Pause => return,
    };
    steps.extend(lock.map(Step::Lock));
    at.lines(steps, from, lines);
    compute(steps, cycles + far);
    steps.extend(lock.map(Step::Unlock));
}
