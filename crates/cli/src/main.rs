//! The `tanada` binary.
fn main() {}
