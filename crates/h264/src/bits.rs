//! bits
