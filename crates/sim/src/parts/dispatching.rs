//! The policy's side of every model: dependency counts, the dispatcher, and its view of the machine.
//!
//! Nothing here depends on time. A model decides *when* a core asks and a task ends; this module then calls the dispatcher
//! in the order of the exact rules: a task that ends lowers the dependency counts of its successors in declaration order, those that
//! reach zero are `ready` on its core in that order, then the core calls `next`; both together are `turn`.

use super::handle;
use crate::SimError;
use crate::machine::{Machine, Model};
use crate::observer::Observer;
use crate::parts::prepare::prepare;
use tanada_policy::{
    Dispatcher, Env, Hints, Op, Origin, Peeks, Placement, Ready, Site, Wake, WorkerId, draw,
};
use tanada_trace::Trace;

/// Dependency counts and the dispatcher.
///
/// Memory: 4 bytes a task, and what the dispatcher keeps of ready tasks.
pub(crate) struct Dispatching<'a, D: Dispatcher> {
    dispatcher: D,
    locals: Vec<D::Local>,
    unresolved: Vec<u32>,
    released: Vec<Ready>,
    left: usize,
    pub(crate) env: SimEnv<'a>,
}

/// A dispatcher's view of the trace and the machine, the observer of the run, and a log of what the dispatcher asked for during one call.
pub(crate) struct SimEnv<'a> {
    /// The core that calls the dispatcher.
    me: WorkerId,
    trace: &'a Trace,
    placement: Placement,
    seed: u64,
    /// Random numbers drawn by each core, and, last, outside of any core.
    draws: Vec<u64>,
    pub(crate) observer: &'a mut dyn Observer,
    /// Queue traffic that the dispatcher charged for, in order. Empty in the uniform model, in which it costs nothing.
    pub(crate) ops: Vec<Op>,
    /// Wake-ups that the dispatcher asked for, in order. Empty in the uniform model, in which idle cores poll.
    pub(crate) wakes: Vec<Wake>,
    keeps_log: bool,
    peeks: Peeks,
}

impl Env for SimEnv<'_> {
    fn me(&self) -> WorkerId {
        self.me
    }
    fn workers(&self) -> u16 {
        self.placement.workers()
    }
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.placement.distance(a, b)
    }
    fn hints(&self, task: &Ready) -> Hints {
        self.task_hints(handle::index(task).expect("a dispatcher asks about a task of this run"))
    }
    fn work(&self, task: &Ready) -> u64 {
        let task = handle::index(task).expect("a dispatcher asks about a task of this run");
        value(self.trace, task, "work")
    }
    fn random(&mut self) -> u64 {
        let last = self.draws.len() - 1;
        let calls = &mut self.draws[self.me.index().min(last)];
        *calls += 1;
        draw(self.seed, self.me, *calls - 1)
    }
    fn wake(&mut self, whom: Wake) {
        self.observer.wake(whom);
        if self.keeps_log {
            self.wakes.push(whom);
        }
    }
    fn pause(&mut self) {
        self.charge(Op::Pause);
    }
    fn peeks(&self) -> Peeks {
        self.peeks
    }
    fn charge(&mut self, op: Op) {
        if self.keeps_log {
            self.ops.push(op);
        }
    }
}

impl SimEnv<'_> {
    /// Returns the hints of a task. Of further hints (`h:NAME=VALUE`), those are used that have the name of a field of [`Hints`] and a
    /// valid value.
    fn task_hints(&self, task: u32) -> Hints {
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

    /// Returns a number that stands for the code address of a task: for a task with a name, one near 2^64 that no hint uses; else 0.
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

/// Returns the value of a further hint of a task, or 0.
fn value<V: std::str::FromStr + Default>(trace: &Trace, task: u32, name: &str) -> V {
    let word = trace.hint(task, name);
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// In place of a dependency count: a core has received the task.
const GIVEN: u32 = u32::MAX;

impl<'a, D: Dispatcher> Dispatching<'a, D> {
    /// Returns a new dispatcher for the cores of `machine`. If it needs the whole graph, all records of the trace are read.
    ///
    /// # Errors
    /// If the dispatcher needs the whole graph and the trace cannot be read.
    ///
    /// # Panics
    /// If the dispatcher makes another number of local states than there are cores.
    pub(crate) fn new(
        trace: &'a Trace,
        machine: &Machine,
        seed: u64,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, SimError> {
        let placement = machine.placement();
        let prepared = match D::NEEDS_PREPARED {
            true => Some(prepare(trace, machine, D::NEEDS_CLOSURES)?),
            false => None,
        };
        let mut site = Site::new(&placement, seed);
        site.prepared = prepared.as_ref();
        let (dispatcher, locals) = D::build(&site);
        let (made, cores) = (locals.len(), usize::from(placement.workers()));
        assert_eq!(made, cores, "a dispatcher makes one local state a worker");
        Ok(Dispatching {
            dispatcher,
            locals,
            unresolved: trace.tasks().iter().map(|task| task.waits).collect(),
            released: Vec::new(),
            left: trace.len(),
            env: SimEnv {
                me: WorkerId::NONE,
                trace,
                draws: vec![0; cores + 1],
                placement,
                seed,
                observer,
                ops: Vec::new(),
                wakes: Vec::new(),
                keeps_log: machine.model == Model::Contended,
                peeks: machine.contended.scheduler.peeks,
            },
        })
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns the number of tasks that have ended.
    pub(crate) fn ended(&self) -> u64 {
        (self.unresolved.len() - self.left) as u64
    }

    /// Returns the tasks that no core has received, in declaration order.
    pub(crate) fn not_given(&self) -> impl Iterator<Item = u32> + '_ {
        let waits = (0..).zip(&self.unresolved);
        waits.filter_map(|(task, &waits)| (waits != GIVEN).then_some(task))
    }

    /// Marks the task that the dispatcher handed out as given. Returns the task and its origin.
    ///
    /// # Panics
    /// If the task is not ready in this run: a dispatcher may have kept a [`Ready`] of another run or of the runtime.
    fn given(&mut self, got: Option<(Ready, Origin)>) -> Option<(u32, Origin)> {
        let (ready, origin) = got?;
        let task =
            handle::index(&ready).filter(|&task| self.unresolved.get(task as usize) == Some(&0));
        let task = task.expect("a dispatcher hands out a task that is ready in this run");
        self.unresolved[task as usize] = GIVEN;
        Some((task, origin))
    }

    fn becomes_ready(&mut self, task: u32, on: WorkerId) -> Ready {
        self.env.observer.ready(task, on);
        handle::ready(task, self.env.groups(task).digest())
    }

    /// Calls `inject` for each task without dependencies, in declaration order.
    pub(crate) fn inject(&mut self) {
        self.env.me = WorkerId::NONE;
        for task in 0..self.unresolved.len() as u32 {
            if self.unresolved[task as usize] == 0 {
                let ready = self.becomes_ready(task, WorkerId::NONE);
                self.dispatcher.inject(&mut self.env, ready);
            }
        }
    }

    /// Calls `next` for an idle core. Returns the task and its origin.
    pub(crate) fn next(&mut self, core: WorkerId) -> Option<(u32, Origin)> {
        self.env.me = core;
        let local = &mut self.locals[core.index()];
        let got = self.dispatcher.next(local, &mut self.env);
        self.given(got)
    }

    /// Ends `task` on `core` and calls `turn`. Returns the next task of `core` and its origin.
    pub(crate) fn turn(&mut self, core: WorkerId, task: u32) -> Option<(u32, Origin)> {
        self.left -= 1;
        let trace = self.env.trace;
        for edge in trace.successors(task) {
            let waits = &mut self.unresolved[edge.to() as usize];
            *waits -= 1;
            if *waits == 0 {
                let ready = self.becomes_ready(edge.to(), core);
                self.released.push(ready);
            }
        }
        self.env.me = core;
        let (local, released) = (&mut self.locals[core.index()], &mut self.released);
        let got = self.dispatcher.turn(local, &mut self.env, released);
        assert!(released.is_empty(), "`turn` must drain what was released");
        self.given(got)
    }

    /// Returns whether `core` may find a task.
    pub(crate) fn may_have(&self, core: WorkerId) -> bool {
        self.dispatcher.may_have(core)
    }
}
