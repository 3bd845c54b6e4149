//! Diagnostics on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use super::error::CliError;

/// Lets warnings through, more with `-v`, and whatever RUST_LOG asks for.
pub(super) fn start(verbose: u8) -> Result<(), CliError> {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
            .map_err(|error| CliError::usage(format!("RUST_LOG is not understood: {error}")))?,
        _ => EnvFilter::new(level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .init();
    Ok(())
}
