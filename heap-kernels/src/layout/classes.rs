//! Size classes: multiples of 16 bytes, eight per doubling from 128 bytes on.

/// Every block is aligned to this many bytes without asking.
pub(crate) const UNIT: u64 = 16;

/// Classes in one doubling.
const PER_DOUBLING: u64 = 8;

/// Slots that the smallest slab of a class aims at; it has more where a page
/// holds more.
const SLOTS: u64 = 8;

/// The most slots a slab has: as many as a grant can name.
pub(crate) const MOST_SLOTS: u64 = 16_384;

/// The most pages a slab has that is larger than the smallest.
const MOST_PAGES: u64 = 16_384;

/// From this class on a slab's page words are written by those who take its slots,
/// each by whoever takes the one that begins there: a large slab has too many
/// for the one lane that forms it. That lane writes every [`MARKED`]-th.
pub(crate) const LAZY_CLASS: u32 = class_of(1024);

/// See [`LAZY_CLASS`].
pub(crate) const MARKED: u64 = 64;

/// Slots that a slab aims at where empty ones are not kept.
const FIXED_SLOTS: u64 = 1024;

/// The smallest class whose slots hold `size` bytes; a request of zero bytes
/// gets a slot of the smallest class. Constant time.
///
/// The caller bounds `size`; up to 2^40 the class stays below 256.
#[must_use]
#[inline]
pub const fn class_of(size: u64) -> u32 {
    let last = size.div_ceil(UNIT).saturating_sub(1);
    let shift = (last | PER_DOUBLING).ilog2() - PER_DOUBLING.ilog2();
    shift * PER_DOUBLING as u32 + (last >> shift) as u32
}

/// As [`class_of`], where half the bits do: a few instructions in a request's
/// usual way. `size` is below 2^32 - 16.
#[inline]
pub(crate) const fn class_of_u32(size: u32) -> u32 {
    let last = (size.wrapping_add(15) >> 4).saturating_sub(1);
    let shift = (last | PER_DOUBLING as u32).ilog2() - PER_DOUBLING.ilog2();
    shift * PER_DOUBLING as u32 + (last >> shift)
}

/// A class's slot size in units of 16 bytes, as `part << shift`; the part is 1
/// to 16.
#[inline]
const fn slot_units(class: u32) -> (u32, u32) {
    let (doubling, step) = (class / PER_DOUBLING as u32, class % PER_DOUBLING as u32);
    if doubling == 0 {
        (step + 1, 0)
    } else {
        (step + PER_DOUBLING as u32 + 1, doubling - 1)
    }
}

/// Offset in bytes of slot `slot`, below 2^28, in a slab of `class`.
#[inline]
pub(crate) const fn slot_start(class: u32, slot: u32) -> u64 {
    let (part, shift) = slot_units(class);
    ((slot * part) as u64) << (shift + UNIT.ilog2())
}

/// Slot size of `class` in bytes. Constant time.
#[must_use]
#[inline]
pub const fn class_size(class: u32) -> u64 {
    let class = class as u64;
    if class < PER_DOUBLING {
        return (class + 1) * UNIT;
    }
    let doubling = class / PER_DOUBLING - 1;
    ((class % PER_DOUBLING + PER_DOUBLING + 1) << doubling) * UNIT
}

/// Pages and slots of the smallest slab of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabShape {
    /// Pages of the slab's run.
    pub(crate) pages: u32,
    /// Slots in it, 4,096 at most.
    pub(crate) slots: u32,
}

/// Scales of the slabs of a class: the smallest that a shard forms unless pages
/// are scarce, and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scales {
    pub(crate) first: u32,
    pub(crate) most: u32,
}

impl SlabShape {
    /// Scales of slabs of this shape.
    ///
    /// Where empty slabs are kept, each that a shard forms is larger than the
    /// one before it, since it is asked for again. Where they are not, large
    /// slabs would only be emptied later.
    #[must_use]
    pub(crate) fn scales(self, pool_pages: u64, retain: bool) -> Scales {
        if retain {
            return Scales {
                first: 0,
                most: self.largest(MOST_SLOTS, MOST_PAGES),
            };
        }
        let fixed = self.largest(FIXED_SLOTS, pool_pages / 4096);
        Scales {
            first: fixed,
            most: fixed,
        }
    }

    /// The largest scale with at most so many slots and pages, or 0.
    pub(crate) fn largest(self, slots: u64, pages: u64) -> u32 {
        let slots = slots / u64::from(self.slots);
        let pages = pages / u64::from(self.pages);
        slots.min(pages).max(1).ilog2()
    }
}

/// The smallest slab of slots of `size` bytes in a pool of `pool_pages` pages
/// of `page` bytes: about [`SLOTS`] slots, but at most 1/4096 of the pool (or
/// one slot), and among the next few page counts the first whose unused tail
/// is under 1/64 (or the best).
///
/// A slab's tail is a cost that every slab pays, its length only a cost while
/// few of its slots are used: so the tail may grow the slab, within 1/64 of
/// the pool.
#[must_use]
pub(crate) fn slab_shape(size: u64, page: u64, pool_pages: u64) -> SlabShape {
    let least = size.div_ceil(page);
    let aim = (SLOTS * size)
        .div_ceil(page)
        .min(pool_pages / 4096)
        .max(least);
    let cap = (pool_pages / 64).clamp(aim, aim.saturating_mul(4));
    let mut best = SlabShape { pages: 0, slots: 0 };
    let mut best_tail = (1, 1);
    for pages in aim..=cap {
        let bytes = pages * page;
        let slots = bytes / size;
        let tail = bytes - slots * size;
        if best.pages == 0 || tail * best_tail.1 < best_tail.0 * bytes {
            best = SlabShape {
                pages: pages as u32,
                slots: slots as u32,
            };
            best_tail = (tail, bytes);
        }
        if tail * 64 <= bytes {
            break;
        }
    }
    best
}

/// The slot of `class` in which byte `offset` of a slab lies, and whether it
/// begins there; a slab is shorter than 2^32 times 16 bytes. Constant time.
///
/// A size is 1 to 16 times a power of two: so a shift and a 32-bit division by
/// a small number, and no table that every free would have to load.
#[must_use]
#[inline]
pub(crate) const fn slot_of(class: u32, offset: u64) -> (u32, bool) {
    let units = (offset >> UNIT.ilog2()) as u32;
    let (part, shift) = slot_units(class);
    let slot = (units >> shift) / part;
    let begins = (slot * part) << shift == units && offset & (UNIT - 1) == 0;
    (slot, begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_every_size_it_is_chosen_for_and_no_smaller_class_does() {
        for size in 0..200_000 {
            let class = class_of(size);
            assert!(class_size(class) >= size.max(1));
            assert!(class == 0 || class_size(class - 1) < size);
        }
    }

    #[test]
    fn both_class_functions_agree() {
        for size in (0..1 << 22).step_by(7).chain(u32::MAX - 100..u32::MAX - 16) {
            assert_eq!(class_of_u32(size), class_of(size.into()));
        }
    }

    #[test]
    fn classes_are_multiples_of_16_and_eight_per_doubling() {
        for class in 0..120 {
            assert_eq!(class_size(class) % UNIT, 0);
            assert_eq!(class_of(class_size(class)), class);
            assert!(class < 8 || class_size(class) * 8 <= class_size(class - 1) * 9);
        }
        assert_eq!(class_size(55), 8192);
    }

    #[test]
    fn waste_stays_under_an_eighth_from_128_bytes_on() {
        for size in 113..100_000 {
            assert!((class_size(class_of(size)) - size) * 8 < size + 128);
        }
    }

    #[test]
    fn slabs_fit_and_waste_little() {
        for page_shift in 12..=16 {
            let page = 1 << page_shift;
            for pool_pages in [16, 256, 4096, 1 << 16, 1 << 22] {
                for class in 0..=class_of(2 * page) {
                    let size = class_size(class);
                    let shape = slab_shape(size, page, pool_pages);
                    let bytes = u64::from(shape.pages) * page;
                    assert!(shape.slots >= 1 && shape.slots <= 4096);
                    assert!(u64::from(shape.slots) * size <= bytes);
                    assert!(u64::from(shape.pages) <= (pool_pages / 64).max(size.div_ceil(page)));
                    if pool_pages >= 1 << 16 {
                        let tail = bytes - u64::from(shape.slots) * size;
                        assert!(tail * 32 <= bytes, "class {class} wastes {tail} of {bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn slots_are_found_at_every_boundary() {
        for class in 0..=class_of(1 << 17) {
            let size = class_size(class);
            for slot in 0..20_000 {
                assert_eq!(slot_of(class, slot * size), (slot as u32, true));
                assert_eq!(slot_of(class, slot * size + size - 1), (slot as u32, false));
                assert_eq!(slot_start(class, slot as u32), slot * size);
            }
        }
    }
}
