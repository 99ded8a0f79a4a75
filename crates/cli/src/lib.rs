//! The command line of Tanada, one module a verb; what the verbs do is in [`tanada_harness`].
//!
//! Exit codes of every verb: 0 good, 1 the input is at fault (or an output cannot be written, or frames differ), 2 wrong usage, 128
//! and the number of a signal (Ctrl-C: 130, SIGTERM: 143, SIGHUP: 129, SIGQUIT: 131, SIGXCPU: 152).

#[allow(unsafe_code)]
mod closed;
mod emulator;
mod ui;
mod verbs;

pub use verbs::{command, main};
