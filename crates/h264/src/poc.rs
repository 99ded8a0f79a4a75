//! poc
