//! A short name for all that plans and runs depend on.

use twox_hash::XxHash3_128;

use super::model::{Buffer, Init, Variable};
use super::ratio::Ratio;
use super::whole::Sequence;

/// Goes first, so that a change of the encoding changes every fingerprint.
const ENCODING: &[u8] = b"device-heap sequence fingerprint 1";

impl Sequence {
    /// A 128-bit hash of everything but free text (source and labels).
    ///
    /// It is the same on every machine and in every run, and changes with any
    /// name, order, size, lifetime or initial content. XXH3 of an unambiguous
    /// encoding: good against mistakes, not against forgery.
    pub fn fingerprint(&self) -> u128 {
        let mut encoder = Encoder(ENCODING.to_vec());
        encoder.sequence(self);
        XxHash3_128::oneshot(&encoder.0)
    }
}

/// Every list and text goes behind its length, every choice is a number.
struct Encoder(Vec<u8>);

impl Encoder {
    fn sequence(&mut self, sequence: &Sequence) {
        self.text(sequence.name());
        self.each(sequence.parameters(), |encoder, parameter| {
            encoder.text(&parameter.name);
            encoder.number(parameter.max);
        });
        self.each(sequence.totals(), |encoder, total| {
            encoder.text(&total.name);
            encoder.index(total.computed_by.index());
            encoder.ratio(total.expected_per_event);
        });
        self.each(sequence.algorithms(), |encoder, algorithm| {
            encoder.text(&algorithm.name);
            encoder.each(&algorithm.reads, |encoder, read| {
                encoder.index(read.index())
            });
        });
        self.each(sequence.buffers(), Self::buffer);
    }

    fn buffer(&mut self, buffer: &Buffer) {
        self.text(&buffer.name);
        self.number(buffer.scope as u64);
        self.number(buffer.kind as u64);
        self.number(buffer.temporary.into());
        self.number(buffer.element_bytes);
        self.number(buffer.alignment);
        self.number(buffer.count.constant);
        self.each(&buffer.count.terms, |encoder, &(variable, ratio)| {
            encoder.variable(variable);
            encoder.ratio(ratio);
        });
        self.index(buffer.writer.index());
        self.each(&buffer.keeps_alive, |encoder, kept| {
            encoder.index(kept.index())
        });
        self.each(buffer.live_until.as_slice(), |encoder, until| {
            encoder.index(until.index())
        });
        self.init(buffer.init);
    }

    fn init(&mut self, init: Init) {
        let (choice, value) = match init {
            Init::None => (0, 0),
            Init::Fill(byte) => (1, byte.into()),
            Init::CopyOf(id) => (2, id.index() as u64),
        };
        self.number(choice);
        self.number(value);
    }

    fn variable(&mut self, variable: Variable) {
        let (choice, index) = match variable {
            Variable::Parameter(id) => (0, id.index()),
            Variable::Total(id) => (1, id.index()),
        };
        self.number(choice);
        self.index(index);
    }

    fn ratio(&mut self, ratio: Ratio) {
        self.number(ratio.numerator());
        self.number(ratio.denominator());
    }

    fn each<T>(&mut self, items: &[T], mut encode: impl FnMut(&mut Self, &T)) {
        self.index(items.len());
        items.iter().for_each(|item| encode(self, item));
    }

    fn text(&mut self, text: &str) {
        self.index(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn index(&mut self, index: usize) {
        self.number(index as u64);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
}
