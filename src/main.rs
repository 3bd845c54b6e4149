//! The program `dheap`: runs sequences, plans static arenas, and tries the
//! heap hard.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
