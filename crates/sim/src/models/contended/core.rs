//! The state of one core.

use tanada_policy::{Origin, Wake};

use super::call::Step;
use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::machine::contended::Native;
use crate::observer::Run;
use crate::parts::source::Source;
use tanada_trace::Kind;

/// What a core is executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing: it waits for a wake-up, and has no event.
    Asleep,
    /// A call of the dispatcher.
    Calling,
    /// A call of the dispatcher that waits for a lock; it has no event.
    Waiting,
    /// A task.
    Running,
}

/// The rest of a record that touches lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) access: Kind,
    /// The next line, as a number of lines of the first cache on the path.
    pub(crate) line: u64,
    /// Number of lines left.
    pub(crate) left: u64,
    /// The next line is known to miss the first cache. This stays true, since other cores may remove lines from the cache but never fill
    /// any.
    pub(crate) misses: bool,
}

impl Rest {
    pub(crate) const NONE: Rest = Rest {
        access: Kind::Read,
        line: 0,
        left: 0,
        misses: false,
    };

    /// Marks the next `lines` lines as done.
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
    /// The task that has ended, if the call is a turn.
    pub(crate) ended: Option<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) step: usize,
    /// Whether the policy has decided.
    pub(crate) decided: bool,
    pub(crate) got: Option<(u32, Origin)>,
    /// Wake-ups that the policy requested; they are delivered when the call ends.
    pub(crate) wakes: Vec<Wake>,
}

/// A core of the program.
#[derive(Debug)]
pub(crate) struct Core {
    /// Its clock: the time of its pending event, if there is one.
    pub(crate) time: Cycle,
    pub(crate) state: State,
    pub(crate) source: Source,
    pub(crate) rest: Rest,
    pub(crate) call: Call,
    /// The beginning of the current call, or of the call that returned the running task.
    pub(crate) asked: Cycle,
    /// The task that it runs or ran last; `end` is not known yet.
    pub(crate) run: Run,
    /// The time at which it fell asleep.
    pub(crate) since: Cycle,
    /// Cycles asleep.
    pub(crate) idle: Cycle,
    /// Cycles in calls that returned no task.
    pub(crate) in_vain: Cycle,
    /// Lookups of its calls.
    pub(crate) of_calls: Vec<Count>,
    /// With `layout = "native"`: it counts as searching.
    pub(crate) searching: bool,
    /// Calls without a task since it began to search.
    pub(crate) rounds: u64,
    /// Its last sleep was long.
    pub(crate) slept_long: bool,
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
            run: Run {
                core: 0,
                task: 0,
                asked: 0,
                start: 0,
                end: 0,
                origin: Origin::Own,
            },
            since: 0,
            idle: 0,
            in_vain: 0,
            of_calls: vec![Count::default(); tables],
            searching: false,
            rounds: 0,
            slept_long: false,
        }
    }

    /// Returns for how many rounds it searches before it sleeps.
    pub(crate) fn rounds_of(&self, native: &Native) -> u64 {
        match self.slept_long {
            true => native.short_search_rounds,
            false => native.search_rounds,
        }
    }
}
