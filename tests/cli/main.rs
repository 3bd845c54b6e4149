//! Whole runs of the program `dheap`: exit codes, output, files.

mod bad_input;
mod common;
#[cfg(unix)]
mod files;
mod help;
mod plan;
mod run;
mod selftest;
mod stress;
