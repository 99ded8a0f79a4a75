//! The dispatcher of one nested graph.

use crate::pool::PoolShared;
use crate::process;
use crate::worker::EndOnPanic;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Site, Wake, WorkerId};

/// The ready tasks of a nested graph and their hints, by number.
pub(crate) type Entries = BTreeMap<u64, (Ready, Hints)>;

/// A dispatcher without its type. It gets and returns the numbers of `entries` as handles.
pub(crate) trait Order: Send {
    /// Takes `numbers`, which became ready on `worker`, or outside of any; leaves `numbers` empty.
    fn ready(
        &mut self,
        pool: &PoolShared,
        entries: &Entries,
        worker: Option<WorkerId>,
        numbers: &mut SmallVec<[Ready; 6]>,
    );

    /// Returns the number of the task that `worker` takes next, and where it came from.
    fn next(
        &mut self,
        pool: &PoolShared,
        entries: &Entries,
        worker: WorkerId,
    ) -> Option<(Ready, Origin)>;

    /// Returns whether a worker takes no task past it.
    fn keeps(&self) -> bool {
        false
    }
}

/// A dispatcher that serves one nested graph. It is called under the lock of the graph's table, by one worker at a time.
pub(crate) struct Own<D: Dispatcher> {
    dispatcher: D,
    locals: Vec<D::Local>,
    /// Number of random numbers drawn so far.
    draws: u64,
}

impl<D: Dispatcher> Own<D> {
    pub(crate) fn new(pool: &PoolShared) -> Self {
        let site = Site::new(&pool.placement, pool.seed);
        let (dispatcher, locals) = EndOnPanic::around(|| {
            let (dispatcher, locals) = D::build(&site);
            assert_eq!(
                locals.len(),
                usize::from(pool.placement.workers()),
                "policy {} must build one local state a worker",
                pool.policy
            );
            (dispatcher, locals)
        });
        Own {
            dispatcher,
            locals,
            draws: 0,
        }
    }
}

impl<D: Dispatcher> Order for Own<D> {
    fn ready(
        &mut self,
        pool: &PoolShared,
        entries: &Entries,
        worker: Option<WorkerId>,
        numbers: &mut SmallVec<[Ready; 6]>,
    ) {
        if D::NEWEST_FIRST {
            numbers.reverse();
        }
        let mut env = OwnEnv {
            me: worker.unwrap_or(WorkerId::NONE),
            pool,
            entries,
            draws: &mut self.draws,
        };
        EndOnPanic::around(|| {
            for number in numbers.drain(..) {
                match worker {
                    Some(worker) => {
                        let local = &mut self.locals[worker.index()];
                        self.dispatcher.ready(local, &mut env, number);
                    }
                    None => self.dispatcher.inject(&mut env, number),
                }
            }
        });
        end_if_forked(pool, worker);
    }

    fn next(
        &mut self,
        pool: &PoolShared,
        entries: &Entries,
        worker: WorkerId,
    ) -> Option<(Ready, Origin)> {
        let mut env = OwnEnv {
            me: worker,
            pool,
            entries,
            draws: &mut self.draws,
        };
        let local = &mut self.locals[worker.index()];
        let next = EndOnPanic::around(|| self.dispatcher.next(local, &mut env));
        end_if_forked(pool, Some(worker));
        next
    }
}

/// Ends the process if it is a child that was forked in a call of the policy by this worker.
fn end_if_forked(pool: &PoolShared, worker: Option<WorkerId>) {
    if worker.is_some() && pool.is_forked() {
        process::end_child();
    }
}

/// The [`Env`] of an [`Own`] dispatcher.
struct OwnEnv<'a> {
    me: WorkerId,
    pool: &'a PoolShared,
    entries: &'a Entries,
    draws: &'a mut u64,
}

impl Env for OwnEnv<'_> {
    fn me(&self) -> WorkerId {
        self.me
    }

    fn workers(&self) -> u16 {
        self.pool.placement.workers()
    }

    fn active(&self) -> u16 {
        self.pool.sleep.width() as u16
    }

    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.pool.placement.distance(a, b)
    }

    fn hints(&self, task: &Ready) -> Hints {
        // No entry: the task was taken past the policy, or the policy has it from elsewhere.
        let entry = self.entries.get(&task.handle());
        entry.map(|(_, hints)| *hints).unwrap_or_default()
    }

    fn random(&mut self) -> u64 {
        let draw = *self.draws;
        *self.draws += 1;
        tanada_policy::draw(self.pool.seed, self.me, draw)
    }

    /// Does nothing: no other worker can do anything meanwhile, because the table is locked.
    fn pause(&mut self) {}

    /// Does nothing: tickets wake the workers.
    fn wake(&mut self, _whom: Wake) {}
}
