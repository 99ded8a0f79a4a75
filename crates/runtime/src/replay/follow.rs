//! The policy of pools that follow decisions: a worker gets the task that the next decision names, if it is that worker's turn.

use super::turns::{Turns, actor};
use crate::executable;
use crate::graph::{Entries, Order};
use crate::pool::PoolShared;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use tanada_policy::{Dispatcher, Env, Origin, Ready, Site, Wake, WorkerId};

/// The ready tasks of a pool, the oldest first.
pub(crate) struct Follow {
    turns: Arc<Turns>,
    pool: u32,
    tasks: Mutex<Vec<Ready>>,
}

impl Follow {
    fn add<E: Env>(&self, env: &mut E, task: Ready) {
        if let Some(view) = executable::observed(&task) {
            self.turns.shelve(self.pool, &view, true);
        }
        self.tasks.lock().push(task);
        // Whose turn it is to take the task, the schedule knows: all look.
        (0..env.workers()).for_each(|worker| env.wake(Wake::This(WorkerId(worker))));
    }
}

impl Dispatcher for Follow {
    type Local = ();

    /// Called by the thread that makes the pool, which is part of the schedule meanwhile.
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let turns = actor().expect("pools are made by actors").turns();
        let follow = Follow {
            pool: turns.last_pool(),
            turns,
            tasks: Mutex::default(),
        };
        (follow, vec![(); usize::from(site.placement.workers())])
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.add(env, task);
    }

    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.add(env, task);
    }

    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let mut tasks = self.tasks.lock();
        let may_start = |task: &Ready| {
            // Tickets of nested graphs are no tasks, and anybody's.
            let view = executable::observed(task);
            view.is_none_or(|view| self.turns.may_start(self.pool, env.me(), &view))
        };
        let at = tasks.iter().position(may_start)?;
        let task = tasks.remove(at);
        if let Some(view) = executable::observed(&task) {
            self.turns.shelve(self.pool, &view, false);
        }
        Some((task, Origin::Pool))
    }

    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.tasks.lock().is_empty()
    }
}

/// As [`Follow`], of a nested graph.
pub(crate) struct FollowNested {
    turns: Arc<Turns>,
    pool: u32,
    numbers: Vec<Ready>,
}

impl FollowNested {
    pub(crate) fn new(turns: &Arc<Turns>, pool: u32) -> Self {
        FollowNested {
            turns: Arc::clone(turns),
            pool,
            numbers: Vec::new(),
        }
    }
}

impl Order for FollowNested {
    fn keeps(&self) -> bool {
        true
    }

    fn ready(
        &mut self,
        _pool: &PoolShared,
        entries: &Entries,
        _worker: Option<WorkerId>,
        numbers: &mut SmallVec<[Ready; 6]>,
    ) {
        for number in numbers.drain(..) {
            if let Some((task, _)) = entries.get(&number.handle())
                && let Some(view) = executable::observed(task)
            {
                self.turns.shelve(self.pool, &view, true);
            }
            self.numbers.push(number);
        }
    }

    fn next(
        &mut self,
        _pool: &PoolShared,
        entries: &Entries,
        worker: WorkerId,
    ) -> Option<(Ready, Origin)> {
        let view = |number: &Ready| {
            let (task, _) = entries.get(&number.handle())?;
            executable::observed(task)
        };
        let may_start = |number: &Ready| {
            view(number).is_none_or(|view| self.turns.may_start(self.pool, worker, &view))
        };
        let at = self.numbers.iter().position(may_start)?;
        if let Some(view) = view(&self.numbers[at]) {
            self.turns.shelve(self.pool, &view, false);
        }
        Some((self.numbers.remove(at), Origin::Pool))
    }
}
