//! JSON values that know where in the text they are.
//!
//! A [`Node`] is a slice of the text, opened one level at a time, and only as
//! far as the format goes: nesting, however deep, is skipped by `serde_json`
//! without recursion. A node's place is the place of its slice.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::sequence::error::Problem;

/// A problem at a byte of the text, and where its counterpart is.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) first: Option<usize>,
    pub(super) problem: Box<Problem>,
}

impl Fault {
    pub(super) fn new(at: usize, problem: Problem) -> Self {
        Self {
            at,
            first: None,
            problem: Box::new(problem),
        }
    }
}

/// A JSON value: its text, and the byte of the document at which that starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Node<'a> {
    /// The whole document, checked to be valid JSON.
    pub(super) fn document(text: &'a str) -> Result<Self, Fault> {
        let document = Node { text, at: 0 };
        document.parse::<&RawValue>().map(|raw| document.inner(raw))
    }

    /// What kind of value it is, for people.
    pub(super) fn kind(self) -> &'static str {
        match self.text.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "true or false",
            Some(b'n') => "null",
            _ => "a number",
        }
    }

    /// The members of an object, as pairs of key and value.
    pub(super) fn members(self) -> Result<Option<Vec<(Node<'a>, Node<'a>)>>, Fault> {
        if !self.text.starts_with('{') {
            return Ok(None);
        }
        let members = self.parse::<Members<'a>>()?.0;
        Ok(Some(
            members
                .into_iter()
                .map(|(key, value)| (self.inner(key), self.inner(value)))
                .collect(),
        ))
    }

    /// The items of a list.
    pub(super) fn items(self) -> Result<Option<Vec<Node<'a>>>, Fault> {
        if !self.text.starts_with('[') {
            return Ok(None);
        }
        let items = self.parse::<Vec<&RawValue>>()?;
        Ok(Some(
            items.into_iter().map(|item| self.inner(item)).collect(),
        ))
    }

    /// The characters of a string.
    pub(super) fn string(self) -> Result<Option<Cow<'a, str>>, Fault> {
        if !self.text.starts_with('"') {
            return Ok(None);
        }
        let plain = &self.text[1..self.text.len() - 1];
        if !plain.contains('\\') {
            return Ok(Some(Cow::Borrowed(plain)));
        }
        self.parse::<String>()
            .map(|string| Some(Cow::Owned(string)))
    }

    /// The text of a number.
    pub(super) fn number(self) -> Option<&'a str> {
        let first = self.text.as_bytes().first()?;
        (first.is_ascii_digit() || *first == b'-').then_some(self.text)
    }

    fn inner(self, raw: &'a RawValue) -> Node<'a> {
        let text = raw.get();
        let offset = text.as_ptr().addr() - self.text.as_ptr().addr();
        Node {
            text,
            at: self.at + offset,
        }
    }

    fn parse<T: Deserialize<'a>>(self) -> Result<T, Fault> {
        serde_json::from_str(self.text).map_err(|error| {
            let at = self.at + offset_of(self.text, error.line(), error.column());
            Fault::new(
                at,
                Problem::Syntax {
                    message: without_place(&error),
                },
            )
        })
    }
}

/// The byte at a line (from 1) and a column as `serde_json` counts them.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    // The column of an error at the end of a line is that of the line break.
    let line = text[before..].split('\n').next().unwrap_or_default();
    before + column.saturating_sub(1).min(line.len())
}

/// The message of an error, without the place, which we give in our own way.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}

/// The line, from 1, of a byte of the text.
pub(super) fn line_of(text: &str, at: usize) -> u64 {
    let before = &text.as_bytes()[..at.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// An object's members in order, duplicates included.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_their_places() {
        let text = "\n{ \"a\" : [1,\n  \"x\\n\"] }\n";
        let members = Node::document(text).unwrap().members().unwrap().unwrap();
        let (key, value) = members[0];
        assert_eq!((key.text, &text[key.at..][..3]), ("\"a\"", "\"a\""));
        let items = value.items().unwrap().unwrap();
        assert_eq!(items[0].number(), Some("1"));
        assert_eq!(items[1].string().unwrap().unwrap(), "x\n");
        assert_eq!(line_of(text, items[0].at), 2);
        assert_eq!(line_of(text, items[1].at), 3);
    }

    #[test]
    fn syntax_errors_have_the_line_they_are_on() {
        for (text, line) in [
            ("", 1),
            ("{", 1),
            ("{\n\"a\": NaN}", 2),
            ("{}\n\nx", 3),
            ("[1,\n2,\n]", 3),
            ("[\"tab\there\"]", 1),
            ("[01]", 1),
            ("[1]]", 1),
        ] {
            let fault = Node::document(text).unwrap_err();
            assert_eq!(line_of(text, fault.at), line, "{text:?}: {fault:?}");
        }
    }

    #[test]
    fn bad_escapes_are_found_where_the_string_is() {
        let text = "[\n\n\"\\ud800\"]";
        let items = Node::document(text).unwrap().items().unwrap().unwrap();
        let fault = items[0].string().unwrap_err();
        assert_eq!(line_of(text, fault.at), 3);
    }
}
