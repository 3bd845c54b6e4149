//! One buffer, and what may be said about it.

/// A buffer of the static arena.
///
/// It is alive during the half-open range of steps `lower..upper`, takes
/// `size` bytes and starts at a multiple of `alignment` bytes. The other
/// fields are for those who need them; [`Buffer::new`] leaves them empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Unique within an instance, not empty, without control characters.
    pub name: String,
    /// The first step at which the buffer is alive.
    pub lower: u64,
    /// The first step at which it is no longer alive; `lower` or later.
    pub upper: u64,
    /// Bytes. Zero is legal: such a buffer takes no space.
    pub size: u64,
    /// Bytes; a power of two, 1 or more.
    pub alignment: u64,
    /// Times within its life at which its contents are not needed, or only some
    /// of its bytes; ascending, and no two meet.
    pub gaps: Vec<Gap>,
    /// The offset in bytes at which it must start.
    pub fixed_offset: Option<u64>,
    /// An offset in bytes at which it should start, if the peak does not suffer:
    /// where it lies in an earlier plan.
    pub hint: Option<u64>,
    /// The buffer whose storage this one uses.
    pub alias: Option<Alias>,
    /// A buffer whose place this one may take over: the two may share bytes if
    /// they start at one offset. Its life must end with the first step of this
    /// one, or earlier.
    pub in_place_of: Option<String>,
    /// Names of the arenas in which it may lie; empty: in any.
    pub arenas: Vec<String>,
}

/// A time at which a buffer does not need all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first step of the gap.
    pub lower: u64,
    /// The first step after it.
    pub upper: u64,
    /// The bytes that are needed all the same, from the start of the buffer,
    /// half-open; `None`: none of them.
    pub window: Option<(u64, u64)>,
}

/// A place within the storage of another buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The name of the other buffer, which may be an alias itself.
    pub of: String,
    /// Bytes from its start.
    pub offset: u64,
}

/// Bytes of a buffer that are in use during some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first step.
    pub lower: u64,
    /// The first step after it, later than `lower`.
    pub upper: u64,
    /// The first byte, from the start of the buffer.
    pub from: u64,
    /// The byte after the last, above `from`.
    pub to: u64,
}

impl Buffer {
    /// A buffer of `size` bytes, alive during `lower..upper`, with alignment 1.
    pub fn new(name: impl Into<String>, lower: u64, upper: u64, size: u64) -> Self {
        Buffer {
            name: name.into(),
            lower,
            upper,
            size,
            alignment: 1,
            gaps: Vec::new(),
            fixed_offset: None,
            hint: None,
            alias: None,
            in_place_of: None,
            arenas: Vec::new(),
        }
    }

    /// The same buffer with another alignment in bytes.
    #[must_use]
    pub fn aligned_to(self, alignment: u64) -> Self {
        Buffer { alignment, ..self }
    }

    /// The same buffer, not in use during the steps `lower..upper` of its life.
    #[must_use]
    pub fn with_gap(mut self, lower: u64, upper: u64) -> Self {
        self.gaps.push(Gap {
            lower,
            upper,
            window: None,
        });
        self
    }

    /// The same buffer, of which only the bytes `from..to` are in use during the
    /// steps `lower..upper` of its life.
    #[must_use]
    pub fn with_window(mut self, lower: u64, upper: u64, from: u64, to: u64) -> Self {
        self.gaps.push(Gap {
            lower,
            upper,
            window: Some((from, to)),
        });
        self
    }

    /// The same buffer, which must start at `offset`.
    #[must_use]
    pub fn fixed_at(self, offset: u64) -> Self {
        Buffer {
            fixed_offset: Some(offset),
            ..self
        }
    }

    /// The same buffer, which should start at `offset`.
    #[must_use]
    pub fn near(self, offset: u64) -> Self {
        Buffer {
            hint: Some(offset),
            ..self
        }
    }

    /// The same buffer, `offset` bytes into the storage of the buffer `of`.
    #[must_use]
    pub fn alias_of(self, of: impl Into<String>, offset: u64) -> Self {
        let alias = Alias {
            of: of.into(),
            offset,
        };
        Buffer {
            alias: Some(alias),
            ..self
        }
    }

    /// The same buffer, which may take over the place of the buffer `other`.
    #[must_use]
    pub fn in_place_of(self, other: impl Into<String>) -> Self {
        Buffer {
            in_place_of: Some(other.into()),
            ..self
        }
    }

    /// The same buffer, which may lie in the arena `name`, and in those named
    /// before.
    #[must_use]
    pub fn within(mut self, name: impl Into<String>) -> Self {
        self.arenas.push(name.into());
        self
    }

    /// Whether the buffer takes space at any step: it has a size and is alive
    /// at one step at least.
    pub fn takes_space(&self) -> bool {
        self.size > 0
            && self.lower < self.upper
            && (self.gaps.is_empty() || self.pieces().next().is_some())
    }

    /// Whether some of the buffer's bytes are in use at `step`.
    pub fn is_live_at(&self, step: u64) -> bool {
        self.lower <= step
            && step < self.upper
            && (self.gaps.is_empty()
                || self.size == 0
                || self
                    .pieces()
                    .any(|piece| piece.lower <= step && step < piece.upper))
    }

    /// What of the buffer is in use when: its life without the gaps, and their
    /// windows. By rising steps; no two pieces share a step.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let whole = |lower, upper| Piece {
            lower,
            upper,
            from: 0,
            to: self.size,
        };
        let ends = [self.lower].into_iter();
        let ends = ends.chain(self.gaps.iter().map(|gap| gap.upper));
        let starts = self.gaps.iter().map(|gap| gap.lower).chain([self.upper]);
        let windows = self.gaps.iter().map(|gap| {
            let (from, to) = gap.window.unwrap_or_default();
            Some(Piece {
                lower: gap.lower,
                upper: gap.upper,
                from,
                to,
            })
        });
        ends.zip(starts)
            .zip(windows.chain([None]))
            .flat_map(move |((lower, upper), window)| [Some(whole(lower, upper)), window])
            .flatten()
            .filter(|piece| piece.lower < piece.upper && piece.from < piece.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(buffer: &Buffer) -> Vec<(u64, u64, u64, u64)> {
        let tuple = |p: Piece| (p.lower, p.upper, p.from, p.to);
        buffer.pieces().map(tuple).collect()
    }

    #[test]
    fn gaps_and_windows_cut_a_life() {
        let plain = Buffer::new("a", 2, 9, 8);
        assert_eq!(pieces(&plain), [(2, 9, 0, 8)]);
        let gaps = plain.clone().with_gap(2, 3).with_gap(5, 7);
        assert_eq!(pieces(&gaps), [(3, 5, 0, 8), (7, 9, 0, 8)]);
        assert!(!gaps.is_live_at(2) && gaps.is_live_at(3) && !gaps.is_live_at(6));
        let window = plain.clone().with_window(4, 6, 2, 5);
        assert_eq!(pieces(&window), [(2, 4, 0, 8), (4, 6, 2, 5), (6, 9, 0, 8)]);
        assert!(window.is_live_at(5));
        let nothing = plain.with_gap(2, 9);
        assert!(pieces(&nothing).is_empty() && !nothing.takes_space());
        assert!(pieces(&Buffer::new("b", 3, 3, 8)).is_empty());
        assert!(pieces(&Buffer::new("c", 3, 4, 0)).is_empty());
    }
}
