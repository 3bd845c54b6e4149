//! The program `dheap`.
fn main() {}
