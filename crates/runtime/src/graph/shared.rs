//! The part of a pool that belongs to the graph layer.

use super::GraphCore;
use super::observer::Watch;
use super::slab::Slab;
use crate::error::GraphError;
use crate::pool::PoolShared;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all threads of a pool share for the graph layer.
pub(crate) struct GraphShared {
    pub(super) slab: Slab,
    cores: Mutex<Cores>,
    /// Tickets of nested graphs that the policy holds. No thread waits for them.
    tickets: AtomicUsize,
    pub(crate) watch: Watch,
}

#[derive(Default)]
struct Cores {
    /// Every core of this pool. Keeps them alive for as long as the pool lives: tasks point to their core.
    all: Vec<Arc<GraphCore>>,
    free: Vec<Arc<GraphCore>>,
}

impl GraphShared {
    pub(crate) fn new(watch: Watch) -> Self {
        GraphShared {
            slab: Slab::default(),
            cores: Mutex::default(),
            tickets: AtomicUsize::new(0),
            watch,
        }
    }

    /// Returns a core for one run of `pool`, whose graph layer this is. The run ends with [`GraphShared::give_core`].
    ///
    /// # Errors
    /// [`GraphError::TooDeep`] if the run is to be a nested one on `worker`, whose stack is used up.
    pub(super) fn take_core(
        &self,
        pool: &PoolShared,
        worker: Option<&WorkerCore>,
    ) -> Result<Arc<GraphCore>, GraphError> {
        worker.map_or(Ok(()), WorkerCore::check_stack)?;
        let mut cores = self.cores.lock();
        Ok(cores.free.pop().unwrap_or_else(|| {
            let core = GraphCore::new(pool, self.watch);
            cores.all.push(Arc::clone(&core));
            core
        }))
    }

    /// Takes a core back for further runs. The run has ended: a core whose graph was lost may still be used by resolvers.
    pub(super) fn give_core(&self, core: Arc<GraphCore>) {
        debug_assert!(core.has_ended());
        let mut cores = self.cores.lock();
        cores.free.push(core);
        if cores.free.len() == cores.all.len() {
            // SAFETY: no graph runs, and none begins while the cores are locked.
            unsafe { self.slab.trim() };
        }
    }

    pub(super) fn add_ticket(&self) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn drop_ticket(&self) {
        self.tickets.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether the policy holds tickets. Exact only once no worker runs.
    pub(crate) fn has_tickets(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    /// Leaks the memory of all tasks, because a policy may still hold rights to run some of them.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slab));
        std::mem::forget(std::mem::take(self.cores.get_mut()));
    }
}

#[cfg(test)]
mod tests {
    use crate::{GraphError, Pool};
    use tanada_policy::{Dispatcher, Env, Origin, Ready, Site, WorkerId};

    /// A policy that loses every task.
    struct Loses;

    impl Dispatcher for Loses {
        type Local = ();

        fn build(site: &Site<'_>) -> (Self, Vec<()>) {
            (Loses, vec![(); usize::from(site.placement.workers())])
        }

        fn inject<E: Env>(&self, _env: &mut E, _task: Ready) {}

        fn ready<E: Env>(&self, _local: &mut (), _env: &mut E, _task: Ready) {}

        fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
            None
        }

        fn may_have(&self, _worker: WorkerId) -> bool {
            false
        }
    }

    /// A resolver that outlives its lost graph counts down the activities of its core: those of another run, if the core were reused.
    #[test]
    fn cores_of_lost_graphs_are_not_reused() {
        let pool = &Pool::builder()
            .workers(1)
            .build_with::<Loses>("loses")
            .expect("a pool");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            let waits = threads.spawn(move || {
                pool.scope(|s| {
                    s.task("waits").count(1).register(|_| ());
                    sender.send(s.resolver()).expect("it is received");
                })
            });
            let resolver = receiver.recv().expect("it is sent");
            let lost = pool.scope(|s| {
                s.task("lost").register(|_| ());
            });
            for outcome in [lost, waits.join().expect("no panic")] {
                assert!(matches!(outcome, Err(GraphError::PolicyLost { .. })));
            }
            let cores = pool.shared().graphs.cores.lock();
            assert_eq!((cores.all.len(), cores.free.len()), (2, 0));
            drop((cores, resolver));
        });
    }
}
