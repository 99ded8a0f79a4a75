//! The command line of Tanada.
