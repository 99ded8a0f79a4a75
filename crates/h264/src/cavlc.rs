//! cavlc
