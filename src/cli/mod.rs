//! The command line. Results go to standard output, everything else to
//! standard error; an error is one line there. With `--json`, standard output
//! has exactly one object unless input or usage is bad.

mod args;
mod bench;
mod devices;
mod error;
mod input;
mod log;
mod number;
mod output;
mod plan;
mod progress;
mod run;
mod selftest;
mod size;
mod stress;

use std::process::ExitCode;

use clap::error::ErrorKind;

use args::{Cli, Command};
use error::CliError;

/// Parses the arguments and does what they say: 0 done, 1 the work failed, 2
/// bad input or usage.
pub(crate) fn main() -> ExitCode {
    match Cli::parse_line(std::env::args_os()).map_err(told) {
        Ok(cli) => {
            let json = cli.json();
            finish(dispatch(cli), json)
        }
        Err(code) => code,
    }
}

fn dispatch(cli: Cli) -> Result<(), CliError> {
    log::start(cli.verbose)?;
    match cli.command.unwrap_or(Command::Run(args::RunArgs {
        sequence: None,
        options: cli.run,
    })) {
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Stress(args) => stress::stress(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Selftest(args) => selftest::selftest(&args),
        Command::Devices(args) => devices::devices(&args),
    }
}

fn finish(result: Result<(), CliError>, json: bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if json && let CliError::Work(message) = &error {
                // If nobody can read this, the exit code is all there is.
                let _ = output::print_json(&output::Failed { error: message });
            }
            output::report_error(&error.to_string());
            error.code()
        }
    }
}

/// Prints help or version, or the usage error as one line.
fn told(error: clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody reads on: that is their choice.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let line = error::one_line(&error.to_string());
            finish(Err(CliError::Usage(line)), false)
        }
    }
}
