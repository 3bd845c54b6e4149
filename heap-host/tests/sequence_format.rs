//! The sequence file: the round trip, and no input that breaks the reader.

use heap_host::sequence::arbitrary::{Sizes, random};
use heap_host::sequence::{Init, Kind, Problem, Scope, Sequence, shipped};
use proptest::prelude::*;

fn sequences() -> impl Strategy<Value = Sequence> {
    (
        any::<u64>(),
        0usize..20,
        0usize..6,
        0usize..6,
        0u64..100,
        0u64..100,
    )
        .prop_map(|(seed, algorithms, writes, reads, events, elements)| {
            random(
                seed,
                Sizes {
                    algorithms,
                    writes,
                    reads,
                    events,
                    elements,
                },
            )
        })
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same(sequence in sequences()) {
        let text = sequence.to_json();
        let read = Sequence::from_json("random.json", &text).unwrap();
        prop_assert_eq!(&read, &sequence);
        prop_assert_eq!(read.fingerprint(), sequence.fingerprint());
        prop_assert_eq!(read.to_json(), text);
    }

    /// Other white space and order of keys.
    #[test]
    fn reformatted_it_is_still_the_same(sequence in sequences()) {
        let value: serde_json::Value = serde_json::from_str(&sequence.to_json()).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(Sequence::from_json("pretty.json", &pretty).unwrap(), sequence);
    }

    /// Bytes are replaced, removed and doubled; whatever comes out is read or
    /// refused, with a line in the file.
    #[test]
    fn no_mutation_breaks_the_reader(
        name in prop::sample::select(vec!["quickstart", "tiles"]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..8),
    ) {
        let mut bytes = shipped::text(name).unwrap().as_bytes().to_vec();
        for (index, edit, byte) in edits {
            let index = index.index(bytes.len());
            match edit {
                0 => bytes[index] = byte,
                1 => drop(bytes.remove(index)),
                2 => bytes.insert(index, bytes[index]),
                _ => bytes[index] = b"{}[]\",:0-e.\\\n"[usize::from(byte) % 13],
            }
        }
        check(&bytes)?;
    }

    #[test]
    fn no_tokens_break_the_reader(tokens in prop::collection::vec(
        prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"name\"", "\"events\"", "\"count\"", "\"writes\"",
            "\"algorithms\"", "\"format\"", "\"device-heap-sequence\"", "\"version\"", "1", "-1",
            "0.5", "1e400", "true", "null", "\n", "\"\\ud800\"",
        ]),
        0..40,
    )) {
        check(tokens.concat().as_bytes())?;
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Err(error) = Sequence::from_json_bytes("mutant.json", bytes) {
        let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let line = error.line().unwrap();
        prop_assert!((1..=lines).contains(&line), "{error}");
        let place = format!("mutant.json:{line}: ");
        prop_assert!(error.to_string().starts_with(&place), "{error}");
    }
    Ok(())
}

/// A value replaced by one of another type, or a key removed, is refused or
/// read, at every place of the files there is.
#[test]
fn every_value_may_be_of_any_type() {
    let wrong = [
        "null", "true", "-1", "0", "1.5", "1e400", "\"\"", "\"x\"", "[]", "{}", "[[]]",
    ];
    for name in ["quickstart", "tiles"] {
        let text = shipped::text(name).unwrap();
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        for pointer in pointers(&value) {
            for wrong in wrong {
                let mut value = value.clone();
                *value.pointer_mut(&pointer).unwrap() = "@".into();
                let text = value.to_string().replace("\"@\"", wrong);
                let _ = Sequence::from_json("wrong.json", &text);
            }
        }
    }
}

/// The JSON pointers of all values in a value.
fn pointers(value: &serde_json::Value) -> Vec<String> {
    let children: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(map) => map.iter().map(|(key, v)| (key.clone(), v)).collect(),
        serde_json::Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, v)| (index.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    let below = |(key, value)| {
        pointers(value)
            .into_iter()
            .map(move |p| format!("/{key}{p}"))
    };
    std::iter::once(String::new())
        .chain(children.into_iter().flat_map(below))
        .collect()
}

#[test]
fn the_same_seed_makes_the_same_sequence() {
    let make = |seed| random(seed, Sizes::default());
    assert_eq!(make(7), make(7));
    assert_ne!(make(7), make(8));
}

#[test]
fn random_sequences_have_everything_in_them() {
    let all: Vec<Sequence> = (0..50).map(|seed| random(seed, Sizes::default())).collect();
    let buffers = || all.iter().flat_map(Sequence::buffers);
    for scope in [Scope::Host, Scope::Device] {
        for kind in [Kind::Static, Kind::Dynamic] {
            for temporary in [false, true] {
                let key = (scope, kind, temporary);
                assert!(
                    buffers().any(|b| (b.scope, b.kind, b.temporary) == key),
                    "{key:?}"
                );
            }
        }
    }
    assert!(buffers().any(|buffer| matches!(buffer.init, Init::Fill(_))));
    assert!(buffers().any(|buffer| matches!(buffer.init, Init::CopyOf(_))));
    assert!(buffers().any(|buffer| buffer.live_until.is_some()));
    assert!(buffers().any(|buffer| buffer.keeps_alive.len() > 1));
    assert!(buffers().any(|buffer| buffer.alignment == 1));
    assert!(buffers().any(|buffer| buffer.element_bytes == 0));
    assert!(buffers().any(|buffer| buffer.count.constant == 0 && buffer.count.terms.is_empty()));
    assert!(
        all.iter()
            .flat_map(Sequence::algorithms)
            .any(|a| !a.computes.is_empty())
    );
}

#[test]
fn deep_nesting_is_refused_and_does_not_crash() {
    let deep = 200_000;
    for (open, close) in [("[", "]"), ("{\"format\":", "}")] {
        let text = format!("{}0{}", open.repeat(deep), close.repeat(deep));
        assert!(Sequence::from_json("deep.json", &text).is_err());
        assert!(Sequence::from_json("deep.json", &open.repeat(deep)).is_err());
    }
    let text = shipped::text("quickstart").unwrap();
    let bomb = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    let text = text.replace("{\"events\": 256}", &bomb);
    let error = Sequence::from_json("deep.json", &text).unwrap_err();
    assert!(
        matches!(error.problem(), Problem::WrongType { .. }),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Sequence::read("no/such/sequence.json").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no/such/sequence.json: the file cannot be read: ")
    );
    assert_eq!(
        (error.file(), error.line()),
        (Some("no/such/sequence.json"), None)
    );
}
