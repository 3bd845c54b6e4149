//! Sets of addresses as sorted, disjoint ranges that do not touch.

/// Addresses `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A set of addresses. A sorted vector: merged sets are short, and moving a
/// few kilobytes costs less than following the pointers of a tree.
#[derive(Default)]
pub(super) struct Ranges {
    sorted: Vec<Range>,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.sorted.clear();
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { rest: &self.sorted }
    }

    /// Adds `start..end` and merges whatever overlaps or touches it.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        let from = self.sorted.partition_point(|range| range.end < start);
        let mut merged = Range { start, end };
        let mut to = from;
        while let Some(range) = self
            .sorted
            .get(to)
            .filter(|range| range.start <= merged.end)
        {
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            to += 1;
        }
        if from < to {
            self.sorted[from] = merged;
            self.sorted.drain(from + 1..to);
        } else {
            self.sorted.insert(from, merged);
        }
    }
}

/// Looks into a set from low to high: addresses asked for never go down.
pub(super) struct Cursor<'a> {
    /// Ranges that may still matter.
    rest: &'a [Range],
}

impl Cursor<'_> {
    /// Drops the ranges that end at `address` or before.
    fn skip_to(&mut self, address: u64) {
        // Gallop: the next range of interest is mostly one of the first.
        let mut step = 1;
        while self
            .rest
            .get(step - 1)
            .is_some_and(|range| range.end <= address)
        {
            step *= 2;
        }
        let within = &self.rest[..(step - 1).min(self.rest.len())];
        let skipped = within.partition_point(|range| range.end <= address);
        self.rest = &self.rest[skipped..];
    }

    /// The first range that shares an address with `start..end`.
    pub(super) fn blocker(&mut self, start: u64, end: u64) -> Option<Range> {
        self.after(start).filter(|range| range.start < end)
    }

    /// The first range that ends after `address`.
    pub(super) fn after(&mut self, address: u64) -> Option<Range> {
        self.skip_to(address);
        self.rest.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set as single addresses, slow and plain.
    fn addresses(set: &Ranges) -> Vec<u64> {
        set.sorted
            .iter()
            .flat_map(|range| range.start..range.end)
            .collect()
    }

    #[test]
    fn random_insertions_match_a_set_of_addresses() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (mut set, mut model) = (Ranges::default(), std::collections::BTreeSet::new());
            for _ in 0..20 {
                let start = rng.u64(0..60);
                let end = start + rng.u64(1..6);
                set.insert(start, end);
                model.extend(start..end);
            }
            assert_eq!(addresses(&set), model.iter().copied().collect::<Vec<_>>());
            assert!(
                set.sorted
                    .windows(2)
                    .all(|pair| pair[0].end < pair[1].start)
            );
            let mut cursor = set.cursor();
            for address in 0..70 {
                let taken = cursor.blocker(address, address + 1).is_some();
                assert_eq!(taken, model.contains(&address));
                let next = cursor.after(address).map(|range| range.start.max(address));
                assert_eq!(next, model.range(address..).next().copied());
            }
        }
    }

    #[test]
    fn a_cursor_skips_far() {
        let mut set = Ranges::default();
        (0..1000).for_each(|i| set.insert(4 * i, 4 * i + 2));
        let mut cursor = set.cursor();
        assert_eq!(cursor.blocker(3002, 3004), None);
        assert_eq!(
            cursor.blocker(3002, 3005),
            Some(Range {
                start: 3004,
                end: 3006
            })
        );
        assert_eq!(cursor.after(9999), None);
    }
}
