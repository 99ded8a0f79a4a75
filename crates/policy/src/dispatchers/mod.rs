//! The dispatchers, a file each, and what several of them share.

pub mod central;
pub mod critical_path;
pub mod fcfs;
pub mod lcfs;
pub mod locality_steal;
pub mod near_steal;
mod owners;
pub mod random_steal;
pub mod serial;
pub mod slifo;
pub mod stealing;
pub mod sticky;
pub mod ts;
pub mod ts_local;
pub mod ts_sticky;
