//! Buffers and options from bytes.

use crate::plan::{Buffer, Instance, Options};

/// Bytes that stand for the options, or for one buffer; removing so many
/// removes one buffer and leaves the others alone.
pub(super) const RECORD: usize = 12;

/// A record; what the input lacks of the last one is zero.
pub(super) struct Record([u8; RECORD]);

impl Record {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut record = [0; RECORD];
        record[..bytes.len()].copy_from_slice(bytes);
        Record(record)
    }

    fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    fn short(&self, at: usize) -> u64 {
        u64::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn word(&self, at: usize) -> u64 {
        self.short(at) | self.short(at + 2) << 16
    }

    /// Options for `instance`, whose lower bound is `bound` bytes. No time
    /// limit, so that the plan depends on the input only.
    pub(super) fn options(&self, instance: &Instance, bound: u64) -> Options {
        let capacity = match self.byte(0) % 5 {
            0 => None,
            1 => Some(instance.total_size() / (1 + self.word(4) % 8)),
            2 => Some(bound.saturating_add(self.word(4) % 3).saturating_sub(1)),
            3 => Some(self.word(4)),
            _ => Some(u64::MAX >> (self.word(4) % 64)),
        };
        Options {
            capacity,
            time_limit: None,
            seed: self.short(2),
            node_budget: Some(u64::from(self.byte(1)) * 8),
        }
    }

    /// The buffer with number `index`; one in some hundred is not valid.
    pub(super) fn buffer(&self, index: usize) -> Buffer {
        let (lower, upper) = self.lifetime();
        let name = match self.byte(10) {
            255 => String::new(),
            254 => String::from("b0"),
            _ => format!("b{index}"),
        };
        Buffer::new(name, lower, upper, self.size()).aligned_to(self.alignment())
    }

    /// Mostly few bytes, sometimes none, sometimes almost all there are.
    fn size(&self) -> u64 {
        let value = self.word(6);
        match self.byte(0) % 16 {
            0 => 0,
            1..11 => value % 4096,
            11..13 => value,
            13 | 14 => value << (self.byte(11) % 33),
            _ => u64::MAX >> (value % 64),
        }
    }

    /// Mostly short and early, sometimes empty, at the end of time, or
    /// reversed.
    fn lifetime(&self) -> (u64, u64) {
        let (lower, span) = (self.short(2), self.short(4));
        match self.byte(0) / 16 {
            0 => (lower, lower),
            1..11 => (lower % 32, lower % 32 + span % 16),
            11 | 12 => (lower, lower + span),
            13 => (u64::MAX - lower, (u64::MAX - lower).saturating_add(span)),
            14 => (lower, u64::MAX),
            _ => (lower % 8, span % 64),
        }
    }

    /// Mostly none or a small one; a few are no powers of two.
    fn alignment(&self) -> u64 {
        let choice = self.byte(1);
        match choice {
            0..128 => 1,
            128..224 => 1 << (choice % 13),
            224..252 => 1 << (self.byte(11) % 64),
            _ => u64::from(self.byte(11)),
        }
    }
}
