//! Tests of topologies and placements, in one program because that builds faster than several.

mod placement;
mod sysfs;
mod text;
