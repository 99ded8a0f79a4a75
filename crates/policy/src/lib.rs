//! Every scheduling policy, written once for all engines.
