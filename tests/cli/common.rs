//! Running the program and looking at what it says.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program with `args`, in the directory `at`.
pub(crate) fn command(at: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dheap"));
    command
        .args(args)
        .current_dir(at)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

pub(crate) fn dheap_at(at: &Path, args: &[&str]) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = command(at, args).output().expect("it starts");
    Ran {
        code: status.code().expect("no signal ends it"),
        stdout: String::from_utf8(stdout).expect("the output is text"),
        stderr: String::from_utf8(stderr).expect("errors are text"),
    }
}

pub(crate) fn dheap(args: &[&str]) -> Ran {
    dheap_at(Path::new(env!("CARGO_MANIFEST_DIR")), args)
}

impl Ran {
    /// Done: exit code 0, and nothing on standard error.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self
    }

    /// Standard output is one JSON object in one line.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    /// Ended with `code` and one line `error: ...` that has these words.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        let line = self.stderr.strip_suffix('\n').expect("a whole line");
        assert!(
            line.starts_with("error: ") && !line.contains('\n'),
            "{self:?}"
        );
        for word in words {
            assert!(line.contains(word), "no {word:?} in {line:?}");
        }
    }

    /// Refused: exit code 2, and nothing on standard output.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        self.failed(2, words);
        assert_eq!(self.stdout, "");
    }
}

/// The kind of a JSON value, in a letter.
fn kind(value: &Value) -> char {
    match value {
        Value::Number(n) if n.is_u64() => 'u',
        Value::Number(_) => 'f',
        Value::String(_) => 's',
        Value::Bool(_) => 'b',
        Value::Array(_) => 'a',
        Value::Object(_) => 'o',
        Value::Null => '0',
    }
}

/// Each `path:kinds` names a field, with dots between levels, and the kinds
/// that it may have: `u`nsigned, `f`loat, `s`tring, `b`ool, `a`rray, `o`bject,
/// `0` null.
#[track_caller]
pub(crate) fn assert_fields(value: &Value, fields: &str) {
    for field in fields.split_whitespace() {
        let (path, kinds) = field.split_once(':').expect("a path and kinds");
        let found = path
            .split('.')
            .try_fold(value, |value, key| value.get(key))
            .unwrap_or_else(|| panic!("no field {path} in {value}"));
        assert!(kinds.contains(kind(found)), "{path} is {found}");
    }
}

/// The value without the times in it.
pub(crate) fn timeless(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        if let Some(object) = value.as_object_mut() {
            object.remove("seconds");
            object.values_mut().for_each(strip);
        }
    }
    strip(&mut value);
    value
}
