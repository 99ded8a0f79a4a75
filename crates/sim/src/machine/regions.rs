//! The keys of `[regions]`: cores that run the parallel regions of a program. `models/regions/RULES.md` defines them.

use crate::machine::{Cycle, MachineError, Section};

/// The longest time of `[regions]`, in cycles.
const LONGEST_CYCLES: u64 = 1 << 24;

/// `[regions]`. Hardware threads of a core and their issue rate are those of `[smt]`, latencies the caches' `miss_cycles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionsTable {
    /// Bytes that all cores together move to and from memory in 100 cycles.
    pub memory_bytes_per_100_cycles: u64,
    /// Streams of neighbouring lines that a core's prefetcher follows.
    pub prefetch_streams: u64,
    /// Cycles for a line to get from one core to another.
    pub hop_cycles: Cycle,
    /// How long a waiting thread stops fetching between two looks at its flag, if nobody chooses.
    pub delay_cycles: Cycle,
    /// Instructions of a look at a flag.
    pub poll_instructions: u64,
    /// Cycles until a sleeping thread runs again.
    pub wake_cycles: Cycle,
    /// Cycles in which one thread creates or ends another.
    pub create_cycles: Cycle,
    /// Cycles in a microsecond.
    pub microsecond_cycles: Cycle,
}

impl RegionsTable {
    /// Reads and returns `[regions]`.
    pub(crate) fn read(section: &mut Section<'_>) -> Result<RegionsTable, MachineError> {
        let mut cycles = |key, least| section.number_in(key, least..=LONGEST_CYCLES);
        Ok(RegionsTable {
            hop_cycles: cycles("hop_cycles", 0)?,
            delay_cycles: cycles("delay_cycles", 0)?,
            wake_cycles: cycles("wake_cycles", 0)?,
            create_cycles: cycles("create_cycles", 0)?,
            microsecond_cycles: cycles("microsecond_cycles", 1)?,
            memory_bytes_per_100_cycles: section
                .number_in("memory_bytes_per_100_cycles", 1..=LONGEST_CYCLES)?,
            prefetch_streams: section.number_in("prefetch_streams", 0..=256)?,
            poll_instructions: section.number_in("poll_instructions", 1..=1000)?,
        })
    }
}
