//! The command line of Tanada, one module a verb; what the verbs do is in [`tanada_harness`].
//!
//! Exit codes of every verb: 0 good, 1 the input is at fault (or an output cannot be written, or frames differ), 2 wrong usage, 130
//! stopped by Ctrl-C.
#![forbid(unsafe_code)]

mod ui;
mod valgrind;
mod verbs;

pub use verbs::{command, main};
