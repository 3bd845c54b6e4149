//! The members of one object, by key, with an error for each that is wrong.

use std::borrow::Cow;
use std::collections::HashMap;

use super::tree::{Fault, Node};
use crate::sequence::error::Problem;
use crate::sequence::ratio::Ratio;
use crate::sequence::suggest::nearest;

/// A string with its place.
#[derive(Clone, Debug)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) at: usize,
}

/// The members of an object, no key twice.
pub(super) struct Fields<'a> {
    /// The object, as errors name it.
    pub(super) owner: String,
    pub(super) at: usize,
    members: Vec<(Text<'a>, Node<'a>)>,
}

impl<'a> Fields<'a> {
    /// Opens an object that has a name by which errors call it, `what "NAME"`;
    /// without one, they call it `owner`.
    pub(super) fn open(node: Node<'a>, what: &str, owner: &str) -> Result<Self, Fault> {
        let mut fields = Self::collect(node, owner.to_owned())?;
        if let Some(name) = fields.get("name").and_then(|node| node.string().ok()?) {
            fields.owner = format!("{what} {name:?}");
        }
        fields.check_unique().map(|()| fields)
    }

    /// Opens an object that errors call `owner`.
    pub(super) fn open_unnamed(node: Node<'a>, owner: String) -> Result<Self, Fault> {
        let fields = Self::collect(node, owner)?;
        fields.check_unique().map(|()| fields)
    }

    fn collect(node: Node<'a>, owner: String) -> Result<Self, Fault> {
        let pairs = node
            .members()?
            .ok_or_else(|| wrong_type(&owner, "an object", node))?;
        let mut members = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let text = key.string()?.unwrap_or_default();
            members.push((Text { text, at: key.at }, value));
        }
        Ok(Self {
            owner,
            at: node.at,
            members,
        })
    }

    fn check_unique(&self) -> Result<(), Fault> {
        let mut seen = HashMap::new();
        for (key, _) in &self.members {
            if let Some(first) = seen.insert(&*key.text, key.at) {
                let owner = self.owner.clone();
                let problem = Problem::DuplicateKey {
                    owner,
                    key: key.text.clone().into_owned(),
                };
                return Err(Fault {
                    first: Some(first),
                    ..Fault::new(key.at, problem)
                });
            }
        }
        Ok(())
    }

    /// Refuses keys that are not `known`.
    pub(super) fn check_known(&self, known: &[&str]) -> Result<(), Fault> {
        match self
            .members
            .iter()
            .find(|(key, _)| !known.contains(&&*key.text))
        {
            None => Ok(()),
            Some((key, _)) => Err(Fault::new(
                key.at,
                Problem::UnknownKey {
                    owner: self.owner.clone(),
                    key: key.text.clone().into_owned(),
                    nearest: nearest(&key.text, known.iter().copied()),
                    known: known.join(", "),
                },
            )),
        }
    }

    /// All members, in order.
    pub(super) fn members(&self) -> &[(Text<'a>, Node<'a>)] {
        &self.members
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        self.members
            .iter()
            .find(|(name, _)| name.text == key)
            .map(|&(_, node)| node)
    }

    /// The value of a key that must be there.
    pub(super) fn required(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Node<'a>, Fault> {
        self.get(key).ok_or_else(|| {
            Fault::new(
                self.at,
                Problem::MissingKey {
                    owner: self.owner.clone(),
                    key,
                    expected,
                },
            )
        })
    }

    /// A value that must be a string.
    pub(super) fn text(&self, key: &str, node: Node<'a>) -> Result<Text<'a>, Fault> {
        match node.string()? {
            Some(text) => Ok(Text { text, at: node.at }),
            None => Err(self.wrong_type(key, "a string", node)),
        }
    }

    /// A string that must be there.
    pub(super) fn required_text(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Text<'a>, Fault> {
        self.text(key, self.required(key, expected)?)
    }

    /// A string that may be there.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<Text<'a>>, Fault> {
        self.get(key).map(|node| self.text(key, node)).transpose()
    }

    /// A list of strings; none is an empty one.
    pub(super) fn texts(&self, key: &str, expected: &'static str) -> Result<Vec<Text<'a>>, Fault> {
        let items = self.items(key, expected)?;
        items.into_iter().map(|item| self.text(key, item)).collect()
    }

    /// The items of a list; none is an empty one.
    pub(super) fn items(&self, key: &str, expected: &'static str) -> Result<Vec<Node<'a>>, Fault> {
        self.get(key)
            .map_or(Ok(Vec::new()), |node| self.items_of(key, expected, node))
    }

    /// The items of a list that must be there.
    pub(super) fn required_items(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Vec<Node<'a>>, Fault> {
        self.items_of(key, expected, self.required(key, expected)?)
    }

    fn items_of(
        &self,
        key: &str,
        expected: &'static str,
        node: Node<'a>,
    ) -> Result<Vec<Node<'a>>, Fault> {
        node.items()?
            .ok_or_else(|| self.wrong_type(key, expected, node))
    }

    /// A flag; none is false.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Fault> {
        match self.get(key) {
            None => Ok(false),
            Some(Node { text: "true", .. }) => Ok(true),
            Some(Node { text: "false", .. }) => Ok(false),
            Some(node) => Err(self.wrong_type(key, "true or false", node)),
        }
    }

    /// A value that must be an integer up to `max`, written in plain digits.
    pub(super) fn integer(&self, key: &str, node: Node<'a>, max: u64) -> Result<u64, Fault> {
        let text = self.number(key, node, "an integer")?;
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text
            .parse::<u64>()
            .ok()
            .filter(|&value| plain && value <= max);
        value.ok_or_else(|| self.wrong_value(key, node, format!("an integer from 0 to {max}")))
    }

    /// A value that must be an exact non-negative decimal.
    pub(super) fn ratio(&self, key: &str, node: Node<'a>) -> Result<Ratio, Fault> {
        let text = self.number(key, node, "a number")?;
        text.parse().map_err(|error: crate::sequence::RatioError| {
            self.wrong_value(key, node, error.expected().to_owned())
        })
    }

    /// A value that must be one of the given words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        expected: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, Fault> {
        let node = self.required(key, expected)?;
        let word = self.text(key, node)?;
        let choice = choices.iter().find(|(name, _)| *name == word.text);
        choice
            .map(|&(_, choice)| choice)
            .ok_or_else(|| self.wrong_value(key, node, expected.to_owned()))
    }

    /// The error for a value out of range.
    pub(super) fn wrong_value(&self, key: &str, node: Node<'a>, expected: String) -> Fault {
        let (owner, key) = (self.owner.clone(), format!("{key:?}"));
        Fault::new(
            node.at,
            Problem::WrongValue {
                owner,
                key,
                found: shortened(node.text),
                expected,
            },
        )
    }

    fn number(&self, key: &str, node: Node<'a>, expected: &'static str) -> Result<&'a str, Fault> {
        node.number()
            .ok_or_else(|| self.wrong_type(key, expected, node))
    }

    fn wrong_type(&self, key: &str, expected: &'static str, node: Node<'a>) -> Fault {
        wrong_type(&format!("{key:?} of {}", self.owner), expected, node)
    }
}

/// The error for a value of the wrong kind.
pub(super) fn wrong_type(owner: &str, expected: &'static str, node: Node<'_>) -> Fault {
    let found = node.kind();
    Fault::new(
        node.at,
        Problem::WrongType {
            owner: owner.to_owned(),
            expected,
            found,
        },
    )
}

/// A value's text, as far as it is worth repeating.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
