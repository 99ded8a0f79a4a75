//! Cores that run a real-time kernel each, with an ITRON-style API, interrupts, private caches and one bus. `RULES.md`
//! beside this file defines the time.

pub mod arrivals;
pub mod code;
mod engine;
mod kernel;
mod memory;
mod outcome;
pub mod receiver;
mod system;

pub use engine::{RtosOptions, run};
pub use memory::CacheCounts;
pub use outcome::{Account, CoreOutcome, Cycles, Executed, RtosOutcome, Span};
pub use system::{Body, Call, Core, Got, Handler, Outside, System, Task, TaskId};
