//! What people and programs read.

use std::io::{ErrorKind, Write, stderr, stdout};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::error::CliError;

/// What `--json` prints where the work failed without a report.
#[derive(Debug, Serialize)]
pub(super) struct Failed<'a> {
    pub(super) error: &'a str,
}

/// Writes `text` to standard output. A reader that has gone away has read what
/// it wanted.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::reported(format!(
            "the result cannot be written to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes one JSON object to standard output, in one line.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let mut text = serde_json::to_string(value)
        .map_err(|error| CliError::work(format!("the result is no JSON: {error}")))?;
    text.push('\n');
    print(&text)
}

/// Writes an error to standard error, if anybody listens there.
pub(super) fn report_error(message: &str) {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(stderr().lock(), "error: {line}");
}

/// A table whose first column is text and whose others are numbers.
pub(super) fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(rows);
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Lines of a name and its value.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!(" {name:width$}  {value}\n");
    facts.iter().map(line).collect()
}

/// Bytes in MiB with one decimal; two more where that would show nothing, and
/// in bytes, with their unit, where even that would.
pub(super) fn mib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match bytes {
        0 => "0.0".into(),
        1..1049 => format!("{bytes} B"),
        1049..1_048_576 => format!("{mib:.3}"),
        _ => format!("{mib:.1}"),
    }
}

/// The same, always with its unit.
pub(super) fn with_unit(bytes: u64) -> String {
    let text = mib(bytes);
    if text.ends_with('B') {
        text
    } else {
        format!("{text} MiB")
    }
}

/// A number with a comma between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `whole` with three decimals.
pub(super) fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.3}", part as f64 / whole as f64)
}

pub(super) fn yes(value: bool) -> String {
    if value { "yes" } else { "NO" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn small_sizes_are_not_zero() {
        assert_eq!(mib(0), "0.0");
        assert_eq!(mib(1), "1 B");
        assert_eq!(mib(1048), "1048 B");
        assert_eq!(mib(1049), "0.001");
        assert_eq!(mib(4096), "0.004");
        assert_eq!(with_unit(44), "44 B");
        assert_eq!(with_unit(4096), "0.004 MiB");
        assert_eq!(mib(3 << 19), "1.5");
        assert_eq!(ratio(3, 2), "1.500");
        assert_eq!(ratio(0, 0), "-");
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let text = table(["name", "MiB"], vec![["a".into(), "1.0".into()]]);
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
