//! dpb
