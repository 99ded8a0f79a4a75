//! The harness behind Tanada's command line: [`compare`] runs and simulates one input under many policies, [`sweep`] simulates all
//! combinations of traces, machines, settings and policies.
//!
//! The harness prints nothing and knows no command line: progress goes to callbacks, and a [`tanada_runtime::Cancel`] stops the work.
//!
//! A policy of another crate can be compared with the registered ones:
//!
//! ```
//! use tanada_harness::compare::{self, Candidate, Input, Options};
//! # use tanada_policy::{central::Central, fcfs::Fcfs};
//! # type MyPolicy = Central<Fcfs>;
//! # fn example(stream: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let candidates = [Candidate::registered("fcfs")?, Candidate::of::<MyPolicy>("mine")];
//! let found = compare::run(&Input { name: "my.264", stream }, &candidates, &Options::default())?;
//! print!("{}", tanada_report::to_table(&found.report));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod counted;
pub mod host;
pub mod output;
pub mod sequential;
pub mod simulated;
pub mod sweep;

/// The demo stream: 128 rendered pictures, 800 x 480, made by `demo/make.sh`.
pub const DEMO: &[u8] = include_bytes!("../../../demo/terraces_wvga.264");

/// What reports call [`DEMO`].
pub const DEMO_NAME: &str = "terraces_wvga.264";
