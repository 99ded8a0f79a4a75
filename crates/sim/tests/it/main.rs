//! Quick tests of the simulator, in one program because that builds faster than several.

mod ahead;
#[path = "../common/mod.rs"]
mod common;
mod contended;
mod contracts;
mod forks;
mod golden;
mod machine_files;
mod native;
mod numa;
#[path = "../reference/mod.rs"]
mod reference;
mod report;
mod rules;
