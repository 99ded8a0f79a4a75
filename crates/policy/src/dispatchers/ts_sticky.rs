//! `ts-sticky`: cache groups (paper 1, section 3) whose workers stay in their S group, and whose T numbers are an order.
//!
//! Rule: as [`sticky`](crate::dispatchers::sticky) says, with the T and S groups of the hints, and cells that are first in, first out:
//! T' is kept while it has tasks, then the lowest T group follows, T0 last. In it a worker stays in the S group of its last task, else
//! takes from its lowest own S group, else from S0, else from the longest cell of another worker, whose S group it takes over.
//!
//! It differs from [`ts`](crate::dispatchers::ts) in three points: it stays where the worker's caches are warm instead of going to the
//! oldest task; it relieves the S group that is furthest behind; and work that overflows from T' goes to the neighbour in number, so
//! numbers should follow the reuse of data.

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::dispatchers::sticky::Sticky;
use crate::{Ready, Site, WorkerId};

/// The rule of `ts-sticky`.
#[derive(Debug)]
pub struct TsSticky(Sticky<false>);

impl Rule for TsSticky {
    const READS: Reads = Reads::Groups;

    fn build(site: &Site<'_>) -> Self {
        TsSticky(Sticky::new(site.placement.workers()))
    }

    #[inline]
    fn ready(&mut self, task: Ready, Arrival { hints, .. }: Arrival) {
        self.0.ready(task, hints.t, hints.s);
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        self.0.next(worker)
    }
}
