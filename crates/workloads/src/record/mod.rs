//! Recordings of workloads: the task graph that runs natively, with what each task computes, fetches, reads and writes.
//!
//! Tasks, their order and their groups come from the same declarations as the native run's; data accesses are those of the program, seen
//! by its probe. Computation and code are charged by a stated table ([`Costs`]). Addresses are laid out anew, in the order of first use:
//! so a recording depends on nothing but its input and options.

pub(crate) mod layout;
pub(crate) mod tape;
pub(crate) mod tasks;

pub use crate::h264::record::{Costs, H264Options, H264Recording, Pictures, h264};
pub use layout::Region;
pub use tape::{Counts, Recorded};
pub use tasks::{Accesses, RecordedTask, TaskGroups, TaskRecorder};
