//! The dispatchers, a file each, and what families of them share.
//!
//! - [`central`]: one pool for all workers behind one lock, for exact rules. [`fcfs`] is the smallest of its policies, [`ts`] the paper's.
//! - [`stealing`]: a deque and a mailbox a worker. [`near_steal`] is the smallest member.
//! - [`sticky`]: the pool that [`ts_sticky`] and [`slifo`] share, itself a rule for one pool.
//! - [`ts_local`] stands alone: its cells lie at the workers.

mod cells;
pub mod central;
pub mod critical_path;
pub mod fcfs;
mod groups;
pub mod lcfs;
pub mod locality_steal;
pub mod near_steal;
pub mod random_steal;
pub mod serial;
pub mod slifo;
pub mod stealing;
pub mod sticky;
pub mod ts;
pub mod ts_local;
pub mod ts_sticky;
