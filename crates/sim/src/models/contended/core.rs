//! What one core is about.

use tanada_policy::{Origin, Wake};

use super::call::Step;
use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::parts::source::Source;
use tanada_trace::Kind;

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits to be woken, and has no event.
    Asleep,
    /// It is inside a call of the dispatcher.
    Calling,
    /// It is inside a call and waits for the pool's lock, and has no event.
    Waiting,
    /// It runs a task.
    Running,
}

/// The rest of a record that touches lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) access: Kind,
    /// The next line, as a number of lines of the first cache on the path.
    pub(crate) line: u64,
    /// How many are left.
    pub(crate) left: u64,
    /// The next one is known to miss the first cache, which is the core's own: others may remove lines from it, but bring none.
    pub(crate) misses: bool,
}

impl Rest {
    pub(crate) const NONE: Rest = Rest {
        access: Kind::Read,
        line: 0,
        left: 0,
        misses: false,
    };

    /// So many lines are done.
    #[inline]
    pub(crate) fn pass(&mut self, lines: u64) {
        self.line = self.line.wrapping_add(lines);
        self.left -= lines;
        self.misses = false;
    }
}

/// A call of the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The task whose end began it.
    pub(crate) ended: Option<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) step: usize,
    /// Whether the policy decided already.
    pub(crate) decided: bool,
    pub(crate) got: Option<(u32, Origin)>,
    /// Asked for by the policy, delivered when the call ends.
    pub(crate) wakes: Vec<Wake>,
}

/// A core of the program.
#[derive(Debug)]
pub(crate) struct Core {
    /// When its event is due.
    pub(crate) time: Cycle,
    pub(crate) state: State,
    pub(crate) source: Source,
    pub(crate) rest: Rest,
    pub(crate) call: Call,
    /// When the call began that it is in, or that gave its task.
    pub(crate) asked: Cycle,
    /// The task that it runs, where it came from, and when its first record began.
    pub(crate) task: u32,
    pub(crate) origin: Origin,
    pub(crate) start: Cycle,
    /// Of the core's computation, what was there when the task began.
    pub(crate) compute_before: Cycle,
    /// Since when it is asleep.
    pub(crate) since: Cycle,
    /// Cycles asleep.
    pub(crate) idle: Cycle,
    /// Cycles in calls that gave nothing.
    pub(crate) in_vain: Cycle,
    /// Look-ups of its calls.
    pub(crate) of_calls: Vec<Count>,
}

impl Core {
    pub(crate) fn new(tables: usize) -> Self {
        Core {
            time: 0,
            state: State::Asleep,
            source: Source::default(),
            rest: Rest::NONE,
            call: Call::default(),
            asked: 0,
            task: 0,
            origin: Origin::Own,
            start: 0,
            compute_before: 0,
            since: 0,
            idle: 0,
            in_vain: 0,
            of_calls: vec![Count::default(); tables],
        }
    }
}
