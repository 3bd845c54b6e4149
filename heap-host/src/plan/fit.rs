//! Placing all items of a component, one after the other.

use super::problem::Component;
use super::space::{Fit, Space};

/// Offsets of all items of a component, and the end of the highest.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub(super) offsets: Vec<u64>,
    pub(super) peak: u64,
}

/// One run over the items.
pub(super) struct Run<'a> {
    pub(super) component: &'a Component,
    /// Indices of the items that are not pinned, each once.
    pub(super) order: &'a [u32],
    pub(super) fit: Fit,
    /// This many items at the front of the order keep the offsets that the
    /// caller has left in `offsets`: a run like an earlier one up to there.
    pub(super) kept: usize,
}

impl Run<'_> {
    /// Places the items in `space` and writes their `offsets`; the pinned ones
    /// come first, where they must lie.
    ///
    /// After each item `go_on` is asked with the peak so far. The answer is
    /// the peak of the whole, or `None` if `go_on` said no or an item would
    /// end past 2^64 - 1.
    pub(super) fn place(
        &self,
        space: &mut dyn Space,
        offsets: &mut [u64],
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        space.clear();
        let items = &self.component.items;
        let mut peak = 0;
        for &index in &self.component.pinned {
            let item = &items[index as usize];
            let offset = item.fixed().unwrap_or(0);
            offsets[index as usize] = offset;
            space.insert(item, offset);
            peak = peak.max(offset + item.size);
        }
        for (position, &index) in self.order.iter().enumerate() {
            let item = &items[index as usize];
            let offset = &mut offsets[index as usize];
            if position >= self.kept {
                *offset = space.find(item, self.fit)?;
            }
            space.insert(item, *offset);
            peak = peak.max(*offset + item.size);
            if !go_on(peak) {
                return None;
            }
        }
        Some(peak)
    }
}
