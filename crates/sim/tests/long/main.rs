//! Tests of the simulator beside other simulators and over many random traces, which take long.

mod against_reference;
mod cachegrind;
#[path = "../common/mod.rs"]
mod common;
mod contended_laws;
mod dinero;
mod laws;
#[path = "../reference/mod.rs"]
mod reference;
mod tools;
