//! The sequences that come with the program, as files and built in.

use super::suggest;
use super::whole::Sequence;

/// Name, file and text of each.
const FILES: [(&str, &str, &str); 3] = [
    (
        "hlt1_pp_default",
        "sequences/hlt1_pp_default.json",
        include_str!("../../../sequences/hlt1_pp_default.json"),
    ),
    (
        "quickstart",
        "sequences/quickstart.json",
        include_str!("../../../sequences/quickstart.json"),
    ),
    (
        "tiles",
        "sequences/tiles.json",
        include_str!("../../../sequences/tiles.json"),
    ),
];

/// The names of the shipped sequences; the default one comes first.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    FILES.iter().map(|(name, _, _)| *name)
}

/// The text of a shipped sequence file.
pub fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|file| file.0 == name).map(|file| file.2)
}

/// A shipped sequence, by name.
pub fn sequence(name: &str) -> Option<Sequence> {
    let (_, file, text) = FILES.iter().find(|file| file.0 == name)?;
    Some(Sequence::from_json(file, text).expect("the shipped sequences are valid"))
}

/// The shipped sequence whose name is nearest to one that none has, if one is
/// near.
pub fn nearest(name: &str) -> Option<String> {
    suggest::nearest(name, names())
}

/// A real sequence of the LHCb trigger: 195 algorithms and 1,105 buffers, for
/// batches of up to 1,000 events.
///
/// From Allen, public 2023 snapshot, Apache-2.0; its occupancies are estimates.
pub fn hlt1_pp_default() -> Sequence {
    sequence("hlt1_pp_default").expect("it is one of the shipped files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_the_sequence_of_its_name_as_written() {
        for name in names() {
            let sequence = sequence(name).unwrap();
            assert_eq!(sequence.name(), name);
            let written = sequence.to_json();
            let lines = written.lines().zip(text(name).unwrap().lines());
            lines.for_each(|(written, shipped)| assert_eq!(written, shipped));
            assert!(written == text(name).unwrap(), "{name} has another length");
        }
        assert_eq!(names().next(), Some("hlt1_pp_default"));
        assert!(sequence("nothing").is_none() && text("nothing").is_none());
        assert_eq!(nearest("tile").as_deref(), Some("tiles"));
        assert_eq!(nearest("nothing"), None);
    }
}
