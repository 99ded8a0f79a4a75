//! conceal
