//! An instance as the search sees it: only buffers that take space, on
//! compressed steps, split into components that share no step.

use super::instance::Instance;

/// A buffer that takes space.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its index in the instance.
    pub(super) buffer: usize,
    /// Bytes, at least 1.
    pub(super) size: u64,
    /// The size rounded up to the least alignment in the component: what no
    /// other item can use. (At the end of the address space it saturates.)
    pub(super) taken: u64,
    /// Bytes, a power of two.
    pub(super) alignment: u64,
    /// How many steps it lives, at least 1.
    pub(super) steps: u64,
    /// The first section in which it is alive.
    pub(super) first: usize,
    /// The first section after its life.
    pub(super) last: usize,
}

impl Item {
    /// Whether both are alive in one section.
    pub(super) fn meets(&self, other: &Item) -> bool {
        self.first < other.last && other.first < self.last
    }

    /// The first aligned address at `address` or later, if there is one.
    pub(super) fn align(&self, address: u64) -> Option<u64> {
        let mask = self.alignment - 1;
        address.checked_add(mask).map(|sum| sum & !mask)
    }

    /// The address after the bytes that the item takes at `offset`.
    pub(super) fn taken_end(&self, offset: u64) -> u64 {
        offset.saturating_add(self.taken)
    }

    /// Size times steps.
    pub(super) fn area(&self) -> u128 {
        u128::from(self.size) * u128::from(self.steps)
    }
}

/// Items whose lifetimes hang together. Components share no step, so each is
/// planned alone and the peak of the plan is the largest of their peaks.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// In the order of their first sections, then of the instance.
    pub(super) items: Vec<Item>,
    /// Sections are numbered from 0 to here.
    pub(super) sections: usize,
}

/// Splits `instance`, in O(n log n).
///
/// A section is the time between two different first steps. That is exact:
/// when two lifetimes meet, the later of their first steps lies in both.
pub(super) fn components(instance: &Instance) -> Vec<Component> {
    let items = items(instance);
    let mut components = Vec::<Component>::new();
    // Sections before `base` belong to earlier components.
    let (mut base, mut end) = (0, 0);
    for mut item in items {
        if item.first >= end {
            base = item.first;
            components.push(Component {
                items: Vec::new(),
                sections: 0,
            });
        }
        end = end.max(item.last);
        item.first -= base;
        item.last -= base;
        if let Some(component) = components.last_mut() {
            component.sections = end - base;
            component.items.push(item);
        }
    }
    components.iter_mut().for_each(round_up);
    components
}

/// Without rounding, the odd bytes between neighbours would look like gaps,
/// which no item can use and every search would have to pass.
fn round_up(component: &mut Component) {
    let granularity = component
        .items
        .iter()
        .map(|item| item.alignment)
        .min()
        .unwrap_or(1);
    for item in &mut component.items {
        item.taken = item
            .size
            .checked_next_multiple_of(granularity)
            .unwrap_or(u64::MAX);
    }
}

fn items(instance: &Instance) -> Vec<Item> {
    let live = || {
        instance
            .buffers()
            .iter()
            .enumerate()
            .filter(|(_, b)| b.takes_space())
    };
    let mut starts: Vec<u64> = live().map(|(_, b)| b.lower).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut items: Vec<Item> = live()
        .map(|(buffer, b)| Item {
            buffer,
            size: b.size,
            taken: b.size,
            alignment: b.alignment,
            steps: b.upper - b.lower,
            first: starts.partition_point(|&start| start < b.lower),
            last: starts.partition_point(|&start| start < b.upper),
        })
        .collect();
    items.sort_by_key(|item| (item.first, item.buffer));
    items
}

#[cfg(test)]
mod tests {
    use super::super::instance::Buffer;
    use super::*;

    fn split(lifetimes: &[(u64, u64)]) -> Vec<Vec<(usize, usize, usize)>> {
        let buffers = lifetimes.iter().enumerate();
        let buffers = buffers
            .map(|(i, &(l, u))| Buffer::new(format!("b{i}"), l, u, 1))
            .collect();
        components(&Instance::new(buffers).unwrap())
            .iter()
            .map(|c| {
                c.items
                    .iter()
                    .map(|i| (i.buffer, i.first, i.last))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn sections_keep_who_meets_whom() {
        let lifetimes = [(0, 10), (5, 7), (7, 30), (10, 12), (29, 30)];
        let parts = split(&lifetimes);
        assert_eq!(parts.len(), 1);
        for &(a, first, last) in &parts[0] {
            for &(b, other_first, other_last) in &parts[0] {
                let ((l, u), (m, v)) = (lifetimes[a], lifetimes[b]);
                assert_eq!(
                    l < v && m < u,
                    first < other_last && other_first < last,
                    "{a} {b}"
                );
            }
        }
    }

    #[test]
    fn only_what_nobody_can_use_is_taken() {
        let taken = |alignments: &[u64]| -> Vec<u64> {
            let buffers = alignments.iter().enumerate();
            let buffer = |(i, &a)| Buffer::new(format!("b{i}"), 0, 1, 5).aligned_to(a);
            let instance = Instance::new(buffers.map(buffer).collect()).unwrap();
            components(&instance)[0]
                .items
                .iter()
                .map(|item| item.taken)
                .collect()
        };
        assert_eq!(taken(&[256, 4]), [8, 8]);
        assert_eq!(taken(&[256, 1]), [5, 5]);
    }

    #[test]
    fn components_share_no_step() {
        assert_eq!(
            split(&[(20, 30), (0, 5), (5, 9), (6, 20), (31, 31)]),
            vec![vec![(1, 0, 1)], vec![(2, 0, 2), (3, 1, 2)], vec![(0, 0, 1)]]
        );
        assert_eq!(split(&[]), Vec::<Vec<_>>::new());
    }
}
