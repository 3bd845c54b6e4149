//! The identity of an instance, by which a stale plan is refused.

use std::fmt;

use twox_hash::XxHash3_128;

use super::instance::Buffer;

/// Version of what is hashed, and in which order. A change makes every older
/// plan stale.
const SCHEME: u64 = 1;

/// A 128-bit hash over names, lifetimes, sizes, alignments, gaps, fixed offsets,
/// aliases, pairs in place and arenas, in order; not over hints, with which every
/// plan agrees.
///
/// It is the same on every machine and in every build. It tells apart
/// instances that differ by accident (a changed size, one buffer more); it is
/// no defence against somebody who looks for a collision. `Display` prints 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of `buffers`, in O(total length of the names).
    pub(super) fn of(buffers: &[Buffer]) -> Self {
        let mut text = Vec::new();
        put(&mut text, SCHEME);
        put(&mut text, buffers.len() as u64);
        for buffer in buffers {
            put_relations(&mut text, buffer);
            // The length in front keeps "ab","c" apart from "a","bc".
            put_name(&mut text, &buffer.name);
            put(&mut text, buffer.lower);
            put(&mut text, buffer.upper);
            put(&mut text, buffer.size);
            put(&mut text, buffer.alignment);
        }
        Fingerprint(XxHash3_128::oneshot(&text))
    }

    /// The 128 bits.
    pub fn to_u128(self) -> u128 {
        self.0
    }
}

/// What few buffers have. A mark that no length of a name is stands in front, so
/// that buffers without anything of it are hashed as if there were no such fields.
fn put_relations(text: &mut Vec<u8>, buffer: &Buffer) {
    let Buffer {
        gaps,
        fixed_offset,
        hint: _,
        alias,
        in_place_of,
        arenas,
        ..
    } = buffer;
    let mut fields = Vec::new();
    for gap in gaps {
        let (from, to) = gap.window.unwrap_or_default();
        let words = [1, gap.lower, gap.upper, from, to];
        words.into_iter().for_each(|word| put(&mut fields, word));
    }
    if let Some(offset) = fixed_offset {
        put(&mut fields, 2);
        put(&mut fields, *offset);
    }
    if let Some(alias) = alias {
        put(&mut fields, 3);
        put(&mut fields, alias.offset);
        put_name(&mut fields, &alias.of);
    }
    if let Some(other) = in_place_of {
        put(&mut fields, 4);
        put_name(&mut fields, other);
    }
    for arena in arenas {
        put(&mut fields, 5);
        put_name(&mut fields, arena);
    }
    if !fields.is_empty() {
        put(text, u64::MAX);
        put(text, fields.len() as u64);
        text.append(&mut fields);
    }
}

fn put_name(text: &mut Vec<u8>, name: &str) {
    put(text, name.len() as u64);
    text.extend_from_slice(name.as_bytes());
}

/// Little-endian, whatever the machine's byte order is.
fn put(text: &mut Vec<u8>, word: u64) {
    text.extend_from_slice(&word.to_le_bytes());
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_on_every_machine() {
        let print = Fingerprint::of(&[Buffer::new("a", 0, 1, 2)]);
        assert_eq!(print.to_string(), "1973cf8490b834cde1f10d210b0d50bb");
    }

    #[test]
    fn every_field_and_the_order_count() {
        let base = Buffer::new("a", 1, 2, 3);
        let other = Buffer::new("b", 1, 2, 3);
        let variants = [
            vec![base.clone(), other.clone()],
            vec![other.clone(), base.clone()],
            vec![base.clone()],
            vec![],
            vec![
                Buffer {
                    lower: 0,
                    ..base.clone()
                },
                other.clone(),
            ],
            vec![
                Buffer {
                    upper: 9,
                    ..base.clone()
                },
                other.clone(),
            ],
            vec![
                Buffer {
                    size: 9,
                    ..base.clone()
                },
                other.clone(),
            ],
            vec![
                Buffer {
                    alignment: 8,
                    ..base.clone()
                },
                other.clone(),
            ],
            vec![
                Buffer {
                    name: "ab".into(),
                    ..base
                },
                Buffer {
                    name: String::new(),
                    ..other
                },
            ],
        ];
        let prints: std::collections::BTreeSet<_> = variants
            .iter()
            .map(|buffers| Fingerprint::of(buffers))
            .collect();
        assert_eq!(prints.len(), variants.len());
    }
}
