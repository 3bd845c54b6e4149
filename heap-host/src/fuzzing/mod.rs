//! What the fuzz targets run, so that tests can replay their inputs. Any bytes
//! are legal; a panic is a fault of the library.

mod instance;
mod planning;

pub use planning::plan;

use crate::plan::csv;
use crate::sequence::Sequence;

/// Reads `bytes` as the CSV file of an instance and of a plan. What is
/// accepted must be the same after it is written and read again.
///
/// # Panics
///
/// If it is not.
pub fn plan_csv(bytes: &[u8]) {
    let instance = csv::parse_instance(bytes, "input.csv");
    match &instance {
        Ok(instance) => {
            let mut text = Vec::new();
            csv::format_instance(instance, &mut text).expect("a vector takes all");
            let again = csv::parse_instance(&text, "again.csv").expect("what was written is valid");
            assert_eq!(again, *instance);
        }
        Err(error) => check_error(&error.to_string(), "input.csv:", error.line, bytes),
    }
    if let Ok((planned, offsets)) = csv::parse_plan(bytes, "input.csv") {
        let instance = instance.expect("a plan is an instance with offsets");
        assert_eq!(planned, instance);
        let mut text = Vec::new();
        csv::format_plan(&planned, &offsets, &mut text).expect("a vector takes all");
        let again = csv::parse_plan(&text, "again.csv").expect("what was written is valid");
        assert_eq!(again, (planned, offsets));
    }
}

/// Reads `bytes` as a sequence file. An accepted sequence must be the same
/// after it is written and read again, and the text must not change then.
///
/// # Panics
///
/// If it is not, or if it does.
pub fn sequence_json(bytes: &[u8]) {
    match Sequence::from_json_bytes("input.json", bytes) {
        Ok(sequence) => {
            let text = sequence.to_json();
            let again =
                Sequence::from_json("again.json", &text).expect("what was written is valid");
            assert_eq!(again, sequence);
            assert_eq!(again.to_json(), text);
            assert_eq!(again.fingerprint(), sequence.fingerprint());
        }
        Err(error) => check_error(&error.to_string(), "input.json:", error.line(), bytes),
    }
}

/// An error names the file and one of its lines.
fn check_error(message: &str, file: &str, line: Option<u64>, bytes: &[u8]) {
    assert!(message.starts_with(file), "{message}");
    let is_line_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
    let lines = bytes.iter().filter(is_line_end).count() as u64 + 1;
    assert!(
        line.is_some_and(|line| (1..=lines).contains(&line)),
        "{message}, but there are {lines} lines"
    );
}
