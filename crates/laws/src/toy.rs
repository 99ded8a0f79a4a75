//! The smallest deterministic engine: workers in virtual time, one event at a time.
//!
//! The order of events is fixed, so a run can be repeated: every task without dependencies is injected in declaration order; each
//! worker, in index order, asks for a task; then, again and again, the busy worker whose task ends first (of equals, the one with the
//! lowest index) ends it, the dependency counts of its successors fall in declaration order, the released ones and the worker's next
//! task are one `turn`, and then the other idle workers ask in index order.
//!
//! [`Idleness::Sleep`] replaces the last step: a worker that gets nothing sleeps, and asks again only when it is woken as the policy
//! asked, the lowest index first if any worker will do. A policy that forgets a wake-up leaves work lying.
//!
//! [`run_resized`] also changes the number of active workers before each end of a task: first `resized` is called; then those that are
//! active again ask. A worker that ends a task while it is not active hands what it released to the policy by `ready`, one after the
//! other, and asks for nothing; one idle active worker, if any, asks instead.

use tanada_policy::{Dispatcher, Env, Hints, Origin, Placement, Ready, Site, Wake, WorkerId, draw};

use crate::{Event, Graph, Log, Violation};

/// What idle workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// They ask after every event.
    Poll,
    /// They sleep until they are woken.
    Sleep,
}

/// Runs `graph` to its end under a fresh `D` and returns the log.
///
/// # Errors
/// If the policy breaks a law that makes it impossible or meaningless to go on. (The others are found by [`check`](crate::check).)
///
/// # Panics
/// If `D` makes another number of local states than there are workers, or its `turn` leaves some of what was released.
pub fn run<D: Dispatcher>(
    graph: &Graph,
    placement: &Placement,
    seed: u64,
    idleness: Idleness,
) -> Result<Log, Violation> {
    run_resized::<D>(graph, placement, seed, idleness, &[])
}

/// As [`run`], with `widths[i mod widths.len()]` active workers (at least 1, at most all) from the end of the i-th task on; all until the
/// first end, and always if `widths` is empty.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_resized<D: Dispatcher>(
    graph: &Graph,
    placement: &Placement,
    seed: u64,
    idleness: Idleness,
    widths: &[u16],
) -> Result<Log, Violation> {
    let prepared = graph.prepared();
    let (dispatcher, locals) = D::build(&Site::new(placement, seed).knowing(&prepared));
    let workers = placement.ids().len();
    let made = locals.len();
    assert_eq!(made, workers, "a dispatcher makes one local state a worker");
    let toy = Toy {
        dispatcher,
        locals,
        env: ToyEnv {
            me: WorkerId::NONE,
            graph,
            placement,
            seed,
            active: placement.workers(),
            draws: vec![0; workers],
            wakes: Vec::new(),
        },
        idleness,
        widths,
        log: Log {
            workers: placement.workers(),
            events: Vec::with_capacity(graph.len() * 6),
        },
        unresolved: graph.dependency_counts(),
        inside: vec![false; graph.len()],
        now: 0,
        busy: vec![None; workers],
        asleep: vec![false; workers],
    };
    toy.run()
}

struct Toy<'a, D: Dispatcher> {
    dispatcher: D,
    locals: Vec<D::Local>,
    env: ToyEnv<'a>,
    idleness: Idleness,
    /// Numbers of active workers to come, over and over.
    widths: &'a [u16],
    log: Log,
    /// Dependency counts.
    unresolved: Vec<usize>,
    /// Whether the task's `Ready` is with the dispatcher.
    inside: Vec<bool>,
    /// Virtual time.
    now: u64,
    /// What each worker runs, and when that ends.
    busy: Vec<Option<(u64, usize)>>,
    asleep: Vec<bool>,
}

/// What a dispatcher sees of the toy.
struct ToyEnv<'a> {
    /// The worker that calls the dispatcher.
    me: WorkerId,
    graph: &'a Graph,
    placement: &'a Placement,
    seed: u64,
    /// Active workers.
    active: u16,
    /// Random numbers drawn by each worker.
    draws: Vec<u64>,
    /// Asked for and not yet delivered.
    wakes: Vec<Wake>,
}

impl Env for ToyEnv<'_> {
    fn me(&self) -> WorkerId {
        self.me
    }
    fn workers(&self) -> u16 {
        self.placement.workers()
    }
    fn active(&self) -> u16 {
        self.active
    }
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.placement.distance(a, b)
    }
    fn hints(&self, task: &Ready) -> Hints {
        self.graph.tasks()[number(task)].hints
    }
    fn random(&mut self) -> u64 {
        let calls = &mut self.draws[self.me.index()];
        *calls += 1;
        draw(self.seed, self.me, *calls - 1)
    }
    fn wake(&mut self, whom: Wake) {
        self.wakes.push(whom);
    }
}

/// Returns the number of a task from its handle. Handles are numbers plus one, since no handle is 0.
fn number(task: &Ready) -> usize {
    task.handle() as usize - 1
}

impl<D: Dispatcher> Toy<'_, D> {
    /// Returns the word for a task whose dependency count is zero.
    fn becomes_ready(&mut self, task: usize, on: WorkerId) -> Ready {
        self.log.events.push(Event::Ready { task, on });
        self.inside[task] = true;
        let hints = &self.env.graph.tasks()[task].hints;
        // SAFETY: the handle is an index into a table: nothing is dereferenced through it. It names a task of this engine that is ready,
        // and only one `Ready` is made for it, since its dependency count reaches zero once. `answer` checks that each comes back once.
        unsafe { Ready::new(task as u64 + 1, hints.digest()) }
    }

    fn run(mut self) -> Result<Log, Violation> {
        let (graph, placement) = (self.env.graph, self.env.placement);
        let mut roots = Vec::new();
        for task in 0..graph.len() {
            if self.unresolved[task] == 0 {
                roots.push(self.becomes_ready(task, WorkerId::NONE));
            }
        }
        // One by one, or at once under every other seed: a policy must make no difference.
        if self.env.seed.is_multiple_of(2) {
            self.dispatcher.inject_all(&mut self.env, &mut roots);
            assert!(
                roots.is_empty(),
                "`inject_all` must drain what became ready"
            );
        }
        for root in roots {
            self.dispatcher.inject(&mut self.env, root);
        }
        self.log_wakes(0);
        self.env.wakes.clear(); // all workers are awake
        for worker in placement.ids() {
            self.ask(worker)?;
        }
        self.deliver_wakes()?;
        let mut released = Vec::new();
        let mut widths = self.widths.iter().cycle();
        while let Some((now, worker)) = self.first_to_end() {
            self.now = now;
            if let Some(&active) = widths.next() {
                self.resize(active)?;
            }
            let me = worker.index();
            let (_, task) = self.busy[me].take().expect("it is the first to end");
            self.log.events.push(Event::End { task, worker });
            for &to in &graph.tasks()[task].successors {
                self.unresolved[to] -= 1;
                if self.unresolved[to] == 0 {
                    released.push(self.becomes_ready(to, worker));
                }
            }
            self.env.me = worker;
            let active = self.is_active(worker);
            let (local, env) = (&mut self.locals[me], &mut self.env);
            if active {
                let got = self.dispatcher.turn(local, env, &mut released);
                assert!(released.is_empty(), "`turn` must drain what was released");
                self.log_wakes(0);
                // The end of a task may bring others into reach, so `may_have` is not asked before it.
                self.answer(worker, got, true)?;
            } else {
                for task in released.drain(..) {
                    self.dispatcher.ready(local, env, task);
                }
                self.log_wakes(0);
                self.env.wakes.push(Wake::Anyone);
                self.asleep[me] = true;
            }
            match self.idleness {
                Idleness::Poll => self.poll(worker)?,
                Idleness::Sleep => self.deliver_wakes()?,
            }
        }
        let lost = |&task: &usize| self.unresolved[task] > 0 || self.inside[task];
        let lost: Vec<usize> = (0..graph.len()).filter(lost).collect();
        match lost.first() {
            Some(&first) => Err(Violation::Lost {
                left: lost.len(),
                first,
            }),
            None => Ok(self.log),
        }
    }

    fn is_active(&self, worker: WorkerId) -> bool {
        worker.0 < self.env.active
    }

    /// Changes the number of active workers; those that are active again and idle ask.
    fn resize(&mut self, active: u16) -> Result<(), Violation> {
        let active = active.clamp(1, self.env.placement.workers());
        let before = std::mem::replace(&mut self.env.active, active);
        if before == active {
            return Ok(());
        }
        self.log.events.push(Event::Resized { active });
        self.env.me = WorkerId::NONE;
        self.dispatcher.resized(&mut self.env, active);
        self.log_wakes(0);
        for worker in (before..active).map(WorkerId) {
            if self.busy[worker.index()].is_none() {
                self.asleep[worker.index()] = false;
                self.log.events.push(Event::Woken { worker });
                self.ask(worker)?;
            }
        }
        match self.idleness {
            Idleness::Poll => self.poll(WorkerId::NONE),
            Idleness::Sleep => self.deliver_wakes(),
        }
    }

    /// Returns the busy worker whose task ends first, and the time of that end.
    fn first_to_end(&self) -> Option<(u64, WorkerId)> {
        let workers = self.busy.iter().zip(self.env.placement.ids());
        let ends = workers.filter_map(|(busy, worker)| busy.map(|(end, _)| (end, worker)));
        ends.min()
    }

    /// Lets idle workers other than `but`, which just had its turn, ask in index order.
    fn poll(&mut self, but: WorkerId) -> Result<(), Violation> {
        self.env.wakes.clear();
        for worker in self.env.placement.ids() {
            if worker != but && self.is_active(worker) && self.busy[worker.index()].is_none() {
                self.ask(worker)?;
                self.env.wakes.clear();
            }
        }
        Ok(())
    }

    /// Delivers the wake-ups that were asked for, and those that are asked for meanwhile.
    fn deliver_wakes(&mut self) -> Result<(), Violation> {
        while !self.env.wakes.is_empty() {
            let active = &self.asleep[..usize::from(self.env.active)];
            let sleeper = match self.env.wakes.remove(0) {
                Wake::This(worker) if worker.index() < active.len() => {
                    Some(worker.index()).filter(|&index| active[index])
                }
                Wake::This(worker) if worker.index() >= self.asleep.len() => None,
                Wake::Anyone | Wake::This(_) => active.iter().position(|&asleep| asleep),
            };
            if let Some(index) = sleeper {
                let worker = WorkerId(index as u16);
                self.asleep[index] = false;
                self.log.events.push(Event::Woken { worker });
                self.ask(worker)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, worker: WorkerId) -> Result<(), Violation> {
        let expects = self.dispatcher.may_have(worker);
        let before = self.env.wakes.len();
        self.env.me = worker;
        let local = &mut self.locals[worker.index()];
        let got = self.dispatcher.next(local, &mut self.env);
        self.log_wakes(before);
        self.answer(worker, got, expects)
    }

    /// Logs the wake-ups that were asked for after the first `before`.
    fn log_wakes(&mut self, before: usize) {
        let asked = self.env.wakes[before..].iter();
        self.log.events.extend(asked.map(|&whom| Event::Wake(whom)));
    }

    /// Does what `worker` does with the answer to its question. `expects`: what `may_have` had said.
    fn answer(
        &mut self,
        worker: WorkerId,
        got: Option<(Ready, Origin)>,
        expects: bool,
    ) -> Result<(), Violation> {
        let Some((ready, origin)) = got else {
            self.log.events.push(Event::Idle { worker });
            if self.dispatcher.may_have(worker) {
                return Err(Violation::Sleepless { worker });
            }
            if self.idleness == Idleness::Sleep {
                self.asleep[worker.index()] = true;
                self.log.events.push(Event::Sleep { worker });
            }
            return Ok(());
        };
        let task = number(&ready);
        if !self.inside.get_mut(task).is_some_and(std::mem::take) {
            return Err(Violation::NotReady { task, worker });
        }
        if !expects {
            return Err(Violation::Overlooked { worker, task });
        }
        self.log.events.push(Event::Start {
            task,
            worker,
            origin,
        });
        let end = self.now + self.env.graph.tasks()[task].duration;
        self.busy[worker.index()] = Some((end, task));
        Ok(())
    }
}
