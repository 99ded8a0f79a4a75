//! Which worker each S group belongs to (paper 1, section 3).

use std::collections::BTreeMap;

use crate::WorkerId;

/// Which worker each S group but S0, which belongs to nobody, is associated with: S group s >= 1 at first with worker
/// (s - 1) mod workers, later with whoever took it over last.
#[derive(Debug)]
pub(crate) struct Owners {
    workers: u16,
    /// S group -> worker, of those groups that were associated anew.
    moved: BTreeMap<u32, WorkerId>,
}

impl Owners {
    pub(crate) fn new(workers: u16) -> Self {
        Owners {
            workers,
            moved: BTreeMap::new(),
        }
    }

    /// Whom `s`, which is not 0, belongs to.
    pub(crate) fn of(&self, s: u32) -> WorkerId {
        let at_first = || WorkerId(((s - 1) % u32::from(self.workers)) as u16);
        self.moved.get(&s).copied().unwrap_or_else(at_first)
    }

    /// Sown += S': from now on `s` belongs to `worker`.
    pub(crate) fn associate(&mut self, s: u32, worker: WorkerId) {
        self.moved.insert(s, worker);
    }
}
