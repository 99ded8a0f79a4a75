//! The least cycles of a record: what it takes if every touch hits the first level.

use crate::machine::Machine;
use crate::parts::hierarchy::path_index;
use crate::parts::source::lines;
use tanada_trace::{Kind, Record};

/// What least times depend on in a machine.
pub(crate) struct Least {
    hit: u64,
    /// log2 of the length of a line of the first level, of fetches and of data; `None` without a cache.
    shifts: [Option<u32>; 2],
}

impl Least {
    pub(crate) fn of(machine: &Machine) -> Least {
        let shift = |fetch| {
            let first = machine.path(fetch).first().copied()?;
            Some(machine.caches[first].shift())
        };
        Least {
            hit: machine.hit_cycles,
            shifts: [shift(true), shift(false)],
        }
    }

    /// Returns the least cycles of `record`; `None` if more than 2^64-1.
    pub(crate) fn cycles(&self, record: &Record) -> Option<u64> {
        if record.kind == Kind::Compute {
            return Some(record.value);
        }
        let touches = self.shifts[path_index(record.kind)].map_or(1, |shift| {
            let (first, last) = lines(record, shift);
            last - first + 1
        });
        self.hit.checked_mul(touches)
    }
}
