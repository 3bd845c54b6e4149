use super::{args::RunArgs, error::CliError};
pub(super) fn run(_args: &RunArgs) -> Result<(), CliError> {
    Err(CliError::Work("wip".into()))
}
