//! What happened in a run, and the laws that it must have kept.

use tanada_policy::{Origin, Wake, WorkerId};

use crate::Graph;

/// One event of a run. Tasks are numbers in the [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task became ready on a worker, or outside any ([`WorkerId::NONE`]).
    Ready {
        /// The task.
        task: usize,
        /// Where.
        on: WorkerId,
    },
    /// An idle worker asked for a task, got one and started it.
    Start {
        /// The task.
        task: usize,
        /// The worker that runs it.
        worker: WorkerId,
        /// Where the policy says it came from.
        origin: Origin,
    },
    /// An idle worker asked for a task and got none.
    Idle {
        /// The worker that asked.
        worker: WorkerId,
    },
    /// A task ended. What it released becomes ready by the `Ready` events that follow.
    End {
        /// The task.
        task: usize,
        /// The worker that ran it.
        worker: WorkerId,
    },
    /// The policy asked for a wake-up.
    Wake(Wake),
    /// A worker went to sleep. From now on only a wake-up makes it ask.
    Sleep {
        /// The worker that sleeps.
        worker: WorkerId,
    },
    /// A sleeping worker was woken.
    Woken {
        /// The worker that woke.
        worker: WorkerId,
    },
    /// The number of active workers changed, those of the lowest numbers. The others start no task from now on.
    Resized {
        /// The number.
        active: u16,
    },
}

/// What happened in a run: events in an order that agrees with what each worker saw (an event that caused another stands before it).
///
/// An engine writes the kinds of event that it can: `Start` and `End` always; the laws about other kinds hold trivially if these are left
/// out. An engine that runs workers at once must not write `Idle` or `Sleep` unless its order of events is the real one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// How many workers there are.
    pub workers: u16,
    /// The events.
    pub events: Vec<Event>,
}

/// What the policy promises, and a log is therefore held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// No worker idles while a task is ready ([`Entry::greedy`](tanada_policy::registry::Entry::greedy)).
    pub greedy: bool,
}

/// A law that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A policy gave out something that is no ready task.
    #[error("worker {worker} was given task {task}, which is not ready")]
    NotReady {
        /// The task, or what should have been one.
        task: usize,
        /// The worker that got it.
        worker: WorkerId,
    },
    /// A task became ready, started or ended a second time.
    #[error("task {task} {what} twice")]
    Twice {
        /// The task.
        task: usize,
        /// What it did twice.
        what: &'static str,
    },
    /// A task became ready, started or ended before what must come first.
    #[error("task {task} {what} too early")]
    TooEarly {
        /// The task.
        task: usize,
        /// What it did.
        what: &'static str,
    },
    /// A worker ran two tasks at once, or ended a task that it does not run.
    #[error("worker {worker} did something to task {task} while it ran {running:?}")]
    NotAlternating {
        /// The worker.
        worker: WorkerId,
        /// The task of the event.
        task: usize,
        /// What the worker was running.
        running: Option<usize>,
    },
    /// The run ended, or nothing went on, with tasks left.
    #[error("{left} tasks never ended, the first is task {first}")]
    Lost {
        /// How many.
        left: usize,
        /// The lowest number.
        first: usize,
    },
    /// A greedy policy let a worker idle or sleep.
    #[error("worker {worker} is idle while task {task} is ready")]
    IdleWhileReady {
        /// The worker.
        worker: WorkerId,
        /// The oldest task that is ready.
        task: usize,
    },
    /// `may_have` was false, but `next` gave a task.
    #[error("may_have said that worker {worker} finds nothing, but it found task {task}")]
    Overlooked {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task: usize,
    },
    /// `may_have` stays true although `next` returns nothing: the worker could never sleep.
    #[error("may_have keeps worker {worker} awake, but there is nothing for it")]
    Sleepless {
        /// The worker.
        worker: WorkerId,
    },
    /// More workers were called for than tasks became available.
    #[error("{wakes} wake-ups of any worker were asked for {ready} ready tasks")]
    TooManyWakes {
        /// Wake-ups of any worker so far.
        wakes: usize,
        /// Tasks that became ready so far.
        ready: usize,
    },
    /// A task cannot have come from where the policy says.
    #[error("worker {worker} cannot have got task {task} from {origin:?}")]
    WrongOrigin {
        /// The task.
        task: usize,
        /// The worker that got it.
        worker: WorkerId,
        /// What the policy says.
        origin: Origin,
    },
    /// A worker that is not active started a task.
    #[error("worker {worker} started task {task} although it is not active")]
    NotActive {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task: usize,
    },
    /// The log says something about a task or a worker that does not exist.
    #[error("the log names task {task:?} or worker {worker:?}, which is not there")]
    Unknown {
        /// The task, if it is at fault.
        task: Option<usize>,
        /// The worker, if it is at fault.
        worker: Option<WorkerId>,
    },
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Waiting,
    Ready,
    Running,
    Ended,
}

struct Checker<'a> {
    graph: &'a Graph,
    promises: Promises,
    /// Dependency counts.
    unresolved: Vec<usize>,
    stages: Vec<Stage>,
    /// Tasks that are ready, by age. Empty throughout if the log has no `Ready` events.
    ready: Vec<usize>,
    running: Vec<Option<usize>>,
    /// Of each worker: how many tasks it started and ended. Distinguishes turns.
    steps: Vec<usize>,
    /// Of each task: the worker on which it became ready, and that worker's step.
    released: Vec<(WorkerId, usize)>,
    asleep: Vec<bool>,
    /// The number of active workers.
    active: u16,
    became_ready: usize,
    wakes_for_anyone: usize,
}

/// Holds a log to the laws.
///
/// # Errors
/// Returns the first violation.
pub fn check(graph: &Graph, log: &Log, promises: Promises) -> Result<(), Violation> {
    let workers = usize::from(log.workers);
    let mut checker = Checker {
        graph,
        promises,
        unresolved: graph.dependency_counts(),
        stages: vec![Stage::Waiting; graph.len()],
        ready: Vec::new(),
        running: vec![None; workers],
        steps: vec![0; workers],
        released: vec![(WorkerId::NONE, 0); graph.len()],
        asleep: vec![false; workers],
        active: log.workers,
        became_ready: 0,
        wakes_for_anyone: 0,
    };
    let mut events = log.events.iter();
    let tells_ready = events.any(|event| matches!(event, Event::Ready { .. }));
    for &event in &log.events {
        checker.known(event)?;
        match event {
            Event::Ready { task, on } => {
                checker.becomes_ready(task)?;
                if on.is_worker() {
                    checker.released[task] = (on, checker.steps[on.index()]);
                }
            }
            Event::Start {
                task,
                worker,
                origin,
            } => {
                if tells_ready {
                    checker.comes_from(task, worker, origin)?;
                } else {
                    checker.becomes_ready(task)?;
                }
                checker.start(task, worker)?;
            }
            Event::End { task, worker } => checker.end(task, worker)?,
            Event::Idle { worker } => checker.none_ready_for(worker)?,
            Event::Sleep { worker } => checker.asleep[worker.index()] = true,
            Event::Woken { worker } => checker.asleep[worker.index()] = false,
            Event::Resized { active } => checker.active = active,
            Event::Wake(Wake::Anyone) => checker.wakes_for_anyone += 1,
            Event::Wake(Wake::This(_)) => {}
        }
    }
    checker.finish(tells_ready)
}

impl Checker<'_> {
    fn known(&self, event: Event) -> Result<(), Violation> {
        let (task, worker) = match event {
            Event::Ready { task, on } => (Some(task), on.is_worker().then_some(on)),
            Event::Start { task, worker, .. } | Event::End { task, worker } => {
                (Some(task), Some(worker))
            }
            Event::Idle { worker }
            | Event::Sleep { worker }
            | Event::Woken { worker }
            | Event::Wake(Wake::This(worker)) => (None, Some(worker)),
            Event::Wake(Wake::Anyone) => (None, None),
            Event::Resized { active } => (None, active.checked_sub(1).map(WorkerId)),
        };
        let task = task.filter(|&task| task >= self.graph.len());
        let worker = worker.filter(|worker| worker.index() >= self.running.len());
        if task.is_some() || worker.is_some() {
            return Err(Violation::Unknown { task, worker });
        }
        Ok(())
    }

    fn becomes_ready(&mut self, task: usize) -> Result<(), Violation> {
        let what = "became ready";
        if self.stages[task] != Stage::Waiting {
            return Err(Violation::Twice { task, what });
        }
        if self.unresolved[task] > 0 {
            return Err(Violation::TooEarly { task, what });
        }
        self.stages[task] = Stage::Ready;
        self.ready.push(task);
        self.became_ready += 1;
        Ok(())
    }

    /// Returns an error if what is handed over was not released by the task that the same worker just ended, or if a worker steals from
    /// itself.
    fn comes_from(
        &mut self,
        task: usize,
        worker: WorkerId,
        origin: Origin,
    ) -> Result<(), Violation> {
        let wrong = match origin {
            Origin::Handed => self.released[task] != (worker, self.steps[worker.index()]),
            Origin::Stolen(victim) => victim == worker || victim.index() >= self.running.len(),
            Origin::Own | Origin::Pool | Origin::Mailbox => false,
        };
        match wrong {
            true => Err(Violation::WrongOrigin {
                task,
                worker,
                origin,
            }),
            false => Ok(()),
        }
    }

    fn start(&mut self, task: usize, worker: WorkerId) -> Result<(), Violation> {
        let what = "started";
        if worker.0 >= self.active {
            return Err(Violation::NotActive { worker, task });
        }
        match self.stages[task] {
            Stage::Waiting => return Err(Violation::NotReady { task, worker }),
            Stage::Ready => {}
            Stage::Running | Stage::Ended => return Err(Violation::Twice { task, what }),
        }
        self.steps[worker.index()] += 1;
        let running = self.running[worker.index()].replace(task);
        if running.is_some() {
            return Err(Violation::NotAlternating {
                worker,
                task,
                running,
            });
        }
        self.stages[task] = Stage::Running;
        self.ready.retain(|&ready| ready != task);
        Ok(())
    }

    fn end(&mut self, task: usize, worker: WorkerId) -> Result<(), Violation> {
        // Time passes between the last event and this one: every worker that was to be woken is awake by now.
        let active = &self.asleep[..usize::from(self.active)];
        if let Some(sleeper) = active.iter().position(|&asleep| asleep) {
            self.none_ready_for(WorkerId(sleeper as u16))?;
        }
        let running = self.running[worker.index()].take();
        if running != Some(task) {
            return Err(Violation::NotAlternating {
                worker,
                task,
                running,
            });
        }
        self.stages[task] = Stage::Ended;
        self.steps[worker.index()] += 1;
        for &to in &self.graph.tasks()[task].successors {
            self.unresolved[to] -= 1;
        }
        Ok(())
    }

    fn none_ready_for(&self, worker: WorkerId) -> Result<(), Violation> {
        match self.ready.first() {
            Some(&task) if self.promises.greedy => Err(Violation::IdleWhileReady { worker, task }),
            _ => Ok(()),
        }
    }

    fn finish(&self, tells_ready: bool) -> Result<(), Violation> {
        let mut lost = (0..self.stages.len()).filter(|&task| self.stages[task] != Stage::Ended);
        if let Some(first) = lost.next() {
            let left = 1 + lost.count();
            return Err(Violation::Lost { left, first });
        }
        if tells_ready && self.wakes_for_anyone > self.became_ready {
            return Err(Violation::TooManyWakes {
                wakes: self.wakes_for_anyone,
                ready: self.became_ready,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_policy::Hints;

    const W: [WorkerId; 2] = [WorkerId(0), WorkerId(1)];
    const GREEDY: Promises = Promises { greedy: true };

    fn ready(task: usize) -> Event {
        Event::Ready {
            task,
            on: WorkerId::NONE,
        }
    }
    fn start(task: usize, w: usize) -> Event {
        Event::Start {
            task,
            worker: W[w],
            origin: Origin::Pool,
        }
    }
    fn end(task: usize, w: usize) -> Event {
        Event::End { task, worker: W[w] }
    }

    /// Returns a graph of three tasks: 0 -> 1, and 2.
    fn graph() -> Graph {
        let mut graph = Graph::default();
        for _ in 0..3 {
            graph.add(Hints::default(), 1);
        }
        graph.edge(0, 1);
        graph
    }

    fn verdict(events: &[Event]) -> Result<(), Violation> {
        check(
            &graph(),
            &Log {
                workers: 2,
                events: events.to_vec(),
            },
            GREEDY,
        )
    }

    #[test]
    fn a_lawful_run_passes_with_and_without_ready_events() {
        let run = [
            ready(0),
            ready(2),
            start(0, 0),
            start(2, 1),
            end(0, 0),
            ready(1),
            start(1, 0),
            end(2, 1),
            end(1, 0),
        ];
        assert_eq!(verdict(&run), Ok(()));
        let without: Vec<Event> = run
            .into_iter()
            .filter(|e| !matches!(e, Event::Ready { .. }))
            .collect();
        assert_eq!(verdict(&without), Ok(()));
    }

    #[test]
    fn each_law_has_a_run_that_breaks_it() {
        let early = [start(0, 0), start(1, 1)];
        assert_eq!(
            verdict(&early),
            Err(Violation::TooEarly {
                task: 1,
                what: "became ready"
            })
        );
        let twice = [start(0, 0), end(0, 0), start(0, 1)];
        assert_eq!(
            verdict(&twice),
            Err(Violation::Twice {
                task: 0,
                what: "became ready"
            })
        );
        let started_twice = [ready(0), start(0, 0), start(0, 1)];
        assert_eq!(
            verdict(&started_twice),
            Err(Violation::Twice {
                task: 0,
                what: "started"
            })
        );
        let not_ready = [ready(0), start(1, 0)];
        assert_eq!(
            verdict(&not_ready),
            Err(Violation::NotReady {
                task: 1,
                worker: W[0]
            })
        );
        let both = [start(0, 0), start(2, 0)];
        assert_eq!(
            verdict(&both),
            Err(Violation::NotAlternating {
                worker: W[0],
                task: 2,
                running: Some(0)
            })
        );
        let lost = [start(0, 0), end(0, 0), start(1, 0), end(1, 0)];
        assert_eq!(verdict(&lost), Err(Violation::Lost { left: 1, first: 2 }));
        let idle = [
            ready(0),
            ready(2),
            start(0, 0),
            Event::Idle { worker: W[1] },
        ];
        assert_eq!(
            verdict(&idle),
            Err(Violation::IdleWhileReady {
                worker: W[1],
                task: 2
            })
        );
        let asleep = [
            Event::Sleep { worker: W[1] },
            ready(0),
            ready(2),
            start(0, 0),
            end(0, 0),
        ];
        assert_eq!(
            verdict(&asleep),
            Err(Violation::IdleWhileReady {
                worker: W[1],
                task: 2
            })
        );
        let not_active = [Event::Resized { active: 1 }, ready(0), start(0, 1)];
        assert_eq!(
            verdict(&not_active),
            Err(Violation::NotActive {
                task: 0,
                worker: W[1]
            })
        );
        assert_eq!(
            verdict(&[start(7, 0)]),
            Err(Violation::Unknown {
                task: Some(7),
                worker: None
            })
        );
    }

    #[test]
    fn what_is_handed_over_was_just_released_here() {
        let from = |origin, worker| Event::Start {
            task: 1,
            worker,
            origin,
        };
        let until_ready = [
            ready(0),
            ready(2),
            start(0, 0),
            start(2, 1),
            end(2, 1),
            end(0, 0),
            Event::Ready { task: 1, on: W[0] },
        ];
        let verdict_on = |event| verdict(&[&until_ready[..], &[event]].concat());
        let lost = Err(Violation::Lost { left: 1, first: 1 });
        assert_eq!(
            verdict_on(from(Origin::Handed, W[0])),
            lost,
            "not over yet, but right so far"
        );
        assert_eq!(verdict_on(from(Origin::Stolen(W[0]), W[1])), lost);
        for (origin, worker) in [(Origin::Handed, W[1]), (Origin::Stolen(W[0]), W[0])] {
            assert_eq!(
                verdict_on(from(origin, worker)),
                Err(Violation::WrongOrigin {
                    task: 1,
                    worker,
                    origin
                })
            );
        }
    }

    #[test]
    fn waking_more_than_there_is_work_is_a_violation() {
        let run = [
            ready(0),
            ready(2),
            start(0, 0),
            start(2, 1),
            end(0, 0),
            ready(1),
            start(1, 0),
            end(2, 1),
            end(1, 0),
        ];
        let mut run = run.to_vec();
        run.extend([Event::Wake(Wake::Anyone); 3]);
        assert_eq!(verdict(&run), Ok(()));
        run.push(Event::Wake(Wake::Anyone));
        assert_eq!(
            verdict(&run),
            Err(Violation::TooManyWakes { wakes: 4, ready: 3 })
        );
    }
}
