//! The `curtail` binary.
fn main() {}
