//! `slifo`: stay with the same code, newest first. It needs no groups.
//!
//! Rule: as [`sticky`](crate::dispatchers::sticky) says, with one T group; with the S group 1 + r for a task whose
//! [`Hints::code`](crate::Hints::code) was the r-th (from 0) different one among the tasks that became ready, in the order of age; and with
//! cells that are last in, first out. So a worker takes the newest task of the code that it ran last; else of its own codes the one that
//! came up first; else it takes over the code with the most ready tasks (of equals the one that came up first). The T and S groups of the
//! hints are not looked at; code 0 is a code like any other. The first 65,536 codes have an S group
//! each; a later code shares one of these, 1 + code mod 65,536, so that memory is bounded whatever the codes are.
//!
//! The code of a task is what its hint says (in a trace `h:code=N` with N >= 1), else its name; a task of a trace that has neither has
//! code 0.

use std::collections::BTreeMap;

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::dispatchers::sticky::Sticky;
use crate::{Ready, Site, WorkerId};

/// The only T group.
const T: u32 = 1;

/// Codes that have an S group of their own.
const OWN: u32 = 1 << 16;

/// The rule of `slifo`.
#[derive(Debug)]
pub struct Slifo {
    pool: Sticky<true>,
    /// Code -> S group, of the first [`OWN`] codes.
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
        let s = self.group(hints.code);
        self.pool.ready(task, T, s);
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        self.pool.next(worker)
    }
}

impl Slifo {
    /// Returns the S group of `code`, which is new if no task had the code before.
    #[inline]
    fn group(&mut self, code: u64) -> u32 {
        let known = self.groups.len() as u32;
        if known == OWN {
            let shared = (code % u64::from(OWN)) as u32 + 1;
            return self.groups.get(&code).copied().unwrap_or(shared);
        }
        *self.groups.entry(code).or_insert(known + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_topology::Topology;

    #[test]
    fn memory_is_bounded_whatever_the_codes_are() {
        let topology: Topology = "core:2".parse().expect("a topology");
        let placement = topology.place(2);
        let mut slifo = Slifo::build(&Site::new(&placement, 0));
        let codes = (0..u64::from(2 * OWN)).map(|n| n << 20);
        let groups: Vec<u32> = codes.map(|code| slifo.group(code)).collect();
        let own = groups[..OWN as usize].iter().copied();
        assert!(own.eq(1..=OWN), "in the order of their first tasks");
        assert!(groups.iter().all(|group| (1..=OWN).contains(group)));
        assert_eq!(slifo.groups.len(), OWN as usize);
        assert_eq!(slifo.group(5 << 20), 6, "a code keeps its group");
        assert_eq!(slifo.group(u64::MAX), OWN, "a later one shares");
    }
}
