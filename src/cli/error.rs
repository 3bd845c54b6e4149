//! What goes wrong, and the exit code for it.

use std::process::ExitCode;

/// One sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CliError {
    /// Bad input or usage: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The work failed before anything was printed: exit code 1.
    #[error("{0}")]
    Work(String),
    /// The work failed, and its report is printed, or cannot be: exit code 1.
    #[error("{0}")]
    Reported(String),
}

impl CliError {
    pub(super) fn usage(error: impl ToString) -> Self {
        Self::Usage(printable(&error.to_string()))
    }

    pub(super) fn work(error: impl ToString) -> Self {
        Self::Work(printable(&error.to_string()))
    }

    pub(super) fn reported(error: impl ToString) -> Self {
        Self::Reported(printable(&error.to_string()))
    }

    pub(super) fn code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Work(_) | Self::Reported(_) => ExitCode::from(1),
        }
    }
}

/// The message with control characters escaped: names from a file may hold
/// line breaks and worse, and an error is one line.
fn printable(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// The message of a clap error in one line, without the usage that follows.
pub(super) fn one_line(message: &str) -> String {
    let mut line = String::new();
    let parts = message
        .lines()
        .map(str::trim)
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"))
        .filter(|part| !part.is_empty());
    for part in parts {
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') { " " } else { "; " });
        }
        line.push_str(part);
    }
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line}; see --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_line_of_an_error() {
        let error = CliError::work("buffer 'a\nb\u{1b}[2J' does not fit");
        assert_eq!(error.to_string(), "buffer 'a\\nb\\u{1b}[2J' does not fit");
    }

    #[test]
    fn usage_errors_become_one_line() {
        let message = "error: unexpected argument '--evens' found\n\n  tip: a similar argument \
                       exists: '--events'\n\nUsage: dheap --events <N>\n\nFor more information";
        assert_eq!(
            one_line(message),
            "unexpected argument '--evens' found; tip: a similar argument exists: '--events'; \
             see --help"
        );
        let message = "error: the following required arguments were not provided:\n  <FILE>\n\n\
                       Usage: dheap plan <FILE>";
        assert_eq!(
            one_line(message),
            "the following required arguments were not provided: <FILE>; see --help"
        );
    }
}
