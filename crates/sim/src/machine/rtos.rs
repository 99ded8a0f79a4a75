//! The keys of `[rtos]`: cores that run a real-time kernel each, on one bus. `models/rtos/RULES.md` defines them.

use crate::machine::{Cycle, MachineError, Section};

/// The longest time of `[rtos]`, in cycles.
const LONGEST_CYCLES: u64 = 1 << 20;

/// Which of the waiting cores gets the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// The one with the lowest number.
    Fixed,
    /// The first one behind the core that had it last.
    RoundRobin,
}

/// Whether caches are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// As `[[cache]]` says.
    On,
    /// Each word goes over the bus.
    Off,
}

/// What a write that misses does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMiss {
    /// It fills a line.
    Allocate,
    /// Its words go to memory.
    Around,
}

/// `[rtos]`. Times are cycles of the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtosTable {
    /// Cycles in a microsecond.
    pub microsecond_cycles: Cycle,
    /// Cycles for which a word of four bytes holds the bus; the bus begins at multiples of this time only.
    pub bus_cycles: Cycle,
    /// Who gets the bus first.
    pub arbitration: Arbitration,
    /// From the request to the first word, if the row is open.
    pub latency_cycles: Cycle,
    /// What opening a row takes.
    pub activate_cycles: Cycle,
    /// What closing another row takes first.
    pub precharge_cycles: Cycle,
    /// Banks. Each has at most one open row.
    pub banks: u64,
    /// Consecutive bytes of a bank.
    pub bank_size: u64,
    /// Bytes of a row.
    pub row_size: u64,
    /// Cycles for which a word of a device holds the bus.
    pub device_cycles: Cycle,
    /// What a branch that is taken costs beside its instruction.
    pub branch_cycles: Cycle,
    /// Whether caches are used.
    pub caches: Caches,
    /// What a write that misses does.
    pub write_miss: WriteMiss,
}

impl RtosTable {
    /// Reads and returns `[rtos]`.
    pub(crate) fn read(section: &mut Section<'_>) -> Result<RtosTable, MachineError> {
        let arbitration = [
            ("fixed", Arbitration::Fixed),
            ("round-robin", Arbitration::RoundRobin),
        ];
        let arbitration = section.optional_one_of("arbitration", &arbitration)?;
        let caches =
            section.optional_one_of("caches", &[("on", Caches::On), ("off", Caches::Off)])?;
        let miss = [
            ("allocate", WriteMiss::Allocate),
            ("around", WriteMiss::Around),
        ];
        let write_miss = section.optional_one_of("write_miss", &miss)?;
        let row_size = section.size("row_size")?;
        if row_size == 0 {
            return Err(section.wrong("row_size", "a row has at least one byte"));
        }
        let bank_size = section.optional_size("bank_size")?.unwrap_or(row_size);
        if bank_size == 0 || bank_size % row_size != 0 {
            let message = "a bank's consecutive bytes are whole rows, at least one";
            return Err(section.wrong("bank_size", message));
        }
        let banks = section.number_in("banks", 1..=4096)?;
        let mut cycles = |key, least| section.number_in(key, least..=LONGEST_CYCLES);
        Ok(RtosTable {
            microsecond_cycles: cycles("microsecond_cycles", 1)?,
            bus_cycles: cycles("bus_cycles", 1)?,
            latency_cycles: cycles("latency_cycles", 0)?,
            activate_cycles: cycles("activate_cycles", 0)?,
            precharge_cycles: cycles("precharge_cycles", 0)?,
            device_cycles: cycles("device_cycles", 1)?,
            branch_cycles: cycles("branch_cycles", 0)?,
            arbitration: arbitration.unwrap_or(Arbitration::Fixed),
            caches: caches.unwrap_or(Caches::On),
            write_miss: write_miss.unwrap_or(WriteMiss::Allocate),
            banks,
            bank_size,
            row_size,
        })
    }
}
