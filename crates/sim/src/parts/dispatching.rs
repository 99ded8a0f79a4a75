//! The policy's side of every model: dependency counts, the dispatcher, and what it sees of the machine.
//!
//! Nothing here knows time. A model says *when* a core asks and a task ends; this module does what the dispatcher is then told and asked,
//! in the order of the exact rules: a task that ends lowers the dependency counts of its successors in declaration order, those that
//! reach zero are `ready` on its core in that order, then the core calls `next`; both together are `turn`.

use super::handle;
use crate::SimError;
use crate::machine::Machine;
use crate::parts::prepare::prepare;
use tanada_policy::{
    Dispatcher, Env, Hints, Op, Origin, Placement, Ready, Site, Wake, WorkerId, draw,
};
use tanada_trace::Trace;

/// What a model is told of the dispatcher's calls. `()`: it does not care.
pub(crate) trait Traffic {
    /// Queue traffic of the call that is being made.
    fn charge(&mut self, op: Op) {
        let _ = op;
    }
    /// A worker is to be woken once the call has returned.
    fn wake(&mut self, whom: Wake) {
        let _ = whom;
    }
    /// A task becomes ready by the call that follows.
    fn ready(&mut self, task: u32, on: WorkerId) {
        let _ = (task, on);
    }
}

impl Traffic for () {}

/// Dependency counts and the dispatcher.
///
/// Memory: 4 bytes a task, and what the dispatcher keeps of ready tasks.
#[derive(Debug)]
pub(crate) struct Dispatching<'a, D: Dispatcher, T> {
    dispatcher: D,
    locals: Vec<D::Local>,
    seen: Seen<'a>,
    unresolved: Vec<u32>,
    released: Vec<Ready>,
    left: usize,
    /// What the model is told.
    pub traffic: T,
}

/// What a dispatcher sees.
#[derive(Debug)]
struct Seen<'a> {
    trace: &'a Trace,
    placement: Placement,
    seed: u64,
    /// Random numbers drawn by each core, and outside of any.
    draws: Vec<u64>,
}

struct SimEnv<'a, 'b, T> {
    me: WorkerId,
    seen: &'b mut Seen<'a>,
    traffic: &'b mut T,
}

impl<T: Traffic> Env for SimEnv<'_, '_, T> {
    fn me(&self) -> WorkerId {
        self.me
    }
    fn workers(&self) -> u16 {
        self.seen.placement.workers()
    }
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.seen.placement.distance(a, b)
    }
    fn hints(&self, task: &Ready) -> Hints {
        self.seen.hints(handle::index(task))
    }
    fn random(&mut self) -> u64 {
        let last = self.seen.draws.len() - 1;
        let calls = &mut self.seen.draws[self.me.index().min(last)];
        *calls += 1;
        draw(self.seen.seed, self.me, *calls - 1)
    }
    fn wake(&mut self, whom: Wake) {
        self.traffic.wake(whom);
    }
    fn pause(&mut self) {}
    fn charge(&mut self, op: Op) {
        self.traffic.charge(op);
    }
}

impl Seen<'_> {
    /// What a task says of itself; of further hints (`h:NAME=VALUE`) those with the names of [`Hints`]' fields and values that they can
    /// have.
    fn hints(&self, task: u32) -> Hints {
        fn value<V: std::str::FromStr + Default>(trace: &Trace, task: u32, name: &str) -> V {
            let word = trace.hint(task, name);
            word.and_then(|word| word.parse().ok()).unwrap_or_default()
        }
        let trace = self.trace;
        let code = match value(trace, task, "code") {
            0 => self.name_as_code(task),
            code => code,
        };
        self.groups(task)
            .with_priority(value(trace, task, "priority"))
            .with_footprint(value(trace, task, "footprint"))
            .with_user(value(trace, task, "user"))
            .with_code(code)
    }

    /// What stands for the code of a task that has a name: a number that nobody would give; else 0.
    fn name_as_code(&self, task: u32) -> u64 {
        match self.trace.tasks()[task as usize].name {
            u32::MAX => 0,
            name => u64::MAX - u64::from(name),
        }
    }

    fn groups(&self, task: u32) -> Hints {
        let task = &self.trace.tasks()[task as usize];
        Hints::groups(task.t, task.s).with_depth(task.depth)
    }
}

/// In the place of a dependency count: the task was given to a core.
const GIVEN: u32 = u32::MAX;

impl<'a, D: Dispatcher, T: Traffic> Dispatching<'a, D, T> {
    /// A fresh dispatcher for the cores of `machine`. One that must know the graph costs a reading of the whole trace.
    ///
    /// # Errors
    /// Where such a dispatcher is asked for and the trace cannot be read to its end.
    ///
    /// # Panics
    /// Where the dispatcher makes another number of local states than there are cores.
    pub(crate) fn new(
        trace: &'a Trace,
        machine: &Machine,
        seed: u64,
        traffic: T,
    ) -> Result<Self, SimError> {
        let placement = machine.placement();
        let prepared = if D::NEEDS_PREPARED {
            Some(prepare(trace, machine)?)
        } else {
            None
        };
        let site = Site::new(&placement, seed);
        let site = prepared
            .as_ref()
            .map_or(site, |prepared| site.knowing(prepared));
        let (dispatcher, locals) = D::build(&site);
        let cores = usize::from(placement.workers());
        assert_eq!(
            locals.len(),
            cores,
            "a dispatcher makes one local state a worker"
        );
        Ok(Dispatching {
            dispatcher,
            locals,
            seen: Seen {
                trace,
                draws: vec![0; cores + 1],
                placement,
                seed,
            },
            unresolved: trace.tasks().iter().map(|task| task.waits).collect(),
            released: Vec::new(),
            left: trace.len(),
            traffic,
        })
    }

    /// How many tasks did not end yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// How many tasks ended.
    pub(crate) fn ended(&self) -> u64 {
        (self.unresolved.len() - self.left) as u64
    }

    /// The tasks that no core was given, in declaration order.
    pub(crate) fn not_given(&self) -> impl Iterator<Item = u32> + '_ {
        let waits = (0..).zip(&self.unresolved);
        waits
            .filter(|(_, waits)| **waits != GIVEN)
            .map(|(task, _)| task)
    }

    fn given(&mut self, got: Option<(Ready, Origin)>) -> Option<(u32, Origin)> {
        let (ready, origin) = got?;
        let task = handle::index(&ready);
        self.unresolved[task as usize] = GIVEN;
        Some((task, origin))
    }

    fn becomes_ready(&mut self, task: u32, on: WorkerId) -> Ready {
        self.traffic.ready(task, on);
        let digest = self.seen.groups(task).digest();
        handle::ready(task, digest)
    }

    /// `inject` for each task without dependencies, in declaration order.
    pub(crate) fn inject(&mut self) {
        for task in 0..self.unresolved.len() as u32 {
            if self.unresolved[task as usize] == 0 {
                let ready = self.becomes_ready(task, WorkerId::NONE);
                let mut env = SimEnv {
                    me: WorkerId::NONE,
                    seen: &mut self.seen,
                    traffic: &mut self.traffic,
                };
                self.dispatcher.inject(&mut env, ready);
            }
        }
    }

    /// An idle core asks for a task.
    pub(crate) fn next(&mut self, core: WorkerId) -> Option<(u32, Origin)> {
        let mut env = SimEnv {
            me: core,
            seen: &mut self.seen,
            traffic: &mut self.traffic,
        };
        let local = &mut self.locals[core.index()];
        let got = self.dispatcher.next(local, &mut env);
        self.given(got)
    }

    /// `task` ends on `core`, which asks for its next one.
    pub(crate) fn turn(&mut self, core: WorkerId, task: u32) -> Option<(u32, Origin)> {
        self.left -= 1;
        let trace = self.seen.trace;
        for edge in trace.successors(task) {
            let waits = &mut self.unresolved[edge.to() as usize];
            *waits -= 1;
            if *waits == 0 {
                let ready = self.becomes_ready(edge.to(), core);
                self.released.push(ready);
            }
        }
        let mut env = SimEnv {
            me: core,
            seen: &mut self.seen,
            traffic: &mut self.traffic,
        };
        let local = &mut self.locals[core.index()];
        let got = self.dispatcher.turn(local, &mut env, &mut self.released);
        assert!(
            self.released.is_empty(),
            "`turn` must drain what was released"
        );
        self.given(got)
    }

    /// Whether `core` would perhaps find a task.
    pub(crate) fn may_have(&self, core: WorkerId) -> bool {
        self.dispatcher.may_have(core)
    }
}
