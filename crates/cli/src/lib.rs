//! The command line of Tanada, one module a verb, and [`compare`], the harness behind its main job.
//!
//! The harness is a library so that a policy of another crate can be put beside the registered ones:
//!
//! ```
//! use tanada::compare::{self, Candidate, Input, Options};
//! # use tanada_policy::{central::Central, fcfs::Fcfs};
//! # type MyPolicy = Central<Fcfs>;
//! # fn example(stream: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let candidates = [Candidate::registered("fcfs")?, Candidate::of::<MyPolicy>("mine")];
//! let found = compare::run(&Input { name: "my.264", stream }, &candidates, &Options::default())?;
//! print!("{}", tanada_report::to_table(&found.report));
//! # Ok(())
//! # }
//! ```
//!
//! Exit codes of every verb: 0 good, 1 the input is at fault (or an output cannot be written, or frames differ), 2 wrong usage, 130
//! stopped by Ctrl-C.
#![forbid(unsafe_code)]

pub mod compare;
mod counted;
mod host;
mod reproduce;
mod sequential;
mod simulated;
mod sweep;
mod ui;
mod valgrind;
mod verbs;

pub use verbs::main;

/// The demo stream: 128 rendered pictures, 800 x 480, made by `demo/make.sh`.
pub const DEMO: &[u8] = include_bytes!("../../../demo/terraces_wvga.264");

/// What reports call [`DEMO`].
pub const DEMO_NAME: &str = "terraces_wvga.264";
