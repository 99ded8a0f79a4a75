//! The tree of packages, NUMA nodes, caches, cores and hardware threads, and where workers are placed on it.
#![forbid(unsafe_code)]
