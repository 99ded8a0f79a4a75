//! `slifo`: stay with the same code, newest first. It needs no groups.
//!
//! Rule: as [`sticky`](crate::dispatchers::sticky) says, with one T group; with the S group 1 + r for a task whose
//! [`Hints::code`](crate::Hints::code) was the r-th (from 0) different one among the tasks that became ready, in the order of age; and with
//! cells that are last in, first out. So a worker takes the newest task of the code that it ran last; else of its own codes the one that
//! came up first; else it takes over the code with the most ready tasks (of equals the one that came up first). The T and S groups of the
//! hints are not looked at; code 0 is a code like any other.
//!
//! The code of a task is what its hint says (in a trace `h:code=N` with N >= 1), else its name; a task of a trace that has neither has
//! code 0.

use std::collections::BTreeMap;

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::dispatchers::sticky::Sticky;
use crate::{Ready, Site, WorkerId};

/// The only T group.
const T: u32 = 1;

/// The rule of `slifo`.
#[derive(Debug)]
pub struct Slifo {
    pool: Sticky<true>,
    /// Code -> S group.
    groups: BTreeMap<u64, u32>,
}

impl Rule for Slifo {
    const READS: Reads = Reads::Code;

    fn build(site: &Site<'_>) -> Self {
        Slifo {
            pool: Sticky::new(site.placement.workers()),
            groups: BTreeMap::new(),
        }
    }

    #[inline]
    fn ready(&mut self, task: Ready, Arrival { hints, .. }: Arrival) {
        let new = self.groups.len() as u32 + 1;
        let s = *self.groups.entry(hints.code).or_insert(new);
        self.pool.ready(task, T, s);
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        self.pool.next(worker)
    }
}
