//! The harness behind Tanada's command line: [`compare`] runs and simulates one input under many policies, [`sweep`] simulates all
//! combinations of traces, machines, settings and policies, and [`demonstration`] is what the command line shows first.
//!
//! The harness prints nothing and knows no command line: progress goes to callbacks, and a [`tanada_runtime::Cancel`] stops the work.
//!
//! A policy of another crate, or a workload of another crate, can be compared with the registered ones:
//!
//! ```
//! use tanada_harness::compare::{self, Candidate, Options};
//! use tanada_workloads::{Purpose, find, values_of};
//! # use tanada_policy::{central::Central, dispatchers::fcfs::Fcfs};
//! # type MyPolicy = Central<Fcfs>;
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let candidates = [Candidate::registered("fcfs")?, Candidate::of::<MyPolicy>("mine")];
//! let stencil = find("stencil")?;
//! let values = values_of(stencil, Purpose::Run).with(&[("size", "2048")])?;
//! let found = compare::run(stencil, &values, &candidates, &Options::default())?;
//! print!("{}", tanada_report::to_table(&found.report));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub use tanada_workloads::h264::{DEMO, DEMO_NAME};

pub mod batch;
mod candidate;
mod check;
pub mod compare;
mod counted;
pub mod demonstration;
mod forked;
pub mod host;
pub mod recording;
pub mod rounds;
pub mod run;
pub mod simulated;
pub mod sweep;

/// The programs of `docs/workloads.md`, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workloads.md")]
pub struct WorkloadsPage;
