//! The command `everbench`.
fn main() {}
