//! Size classes: multiples of 16 bytes, eight per doubling from 128 bytes on.

/// Every block is aligned to this many bytes without asking.
pub(crate) const UNIT: u64 = 16;

/// Classes in one doubling.
const PER_DOUBLING: u64 = 8;

/// Slots that a slab aims at, and has at most unless one page holds more.
const SLOTS: u64 = 1024;

/// Fixed-point position of [`reciprocal`].
pub(crate) const RECIPROCAL_SHIFT: u32 = 48;

/// The smallest class whose slots hold `size` bytes; a request of zero bytes
/// gets a slot of the smallest class. Constant time.
///
/// The caller bounds `size`; up to 2^40 the class stays below 256.
#[must_use]
#[inline]
pub const fn class_of(size: u64) -> u32 {
    let units = size.div_ceil(UNIT);
    if units <= PER_DOUBLING {
        return units.saturating_sub(1) as u32;
    }
    let last = units - 1;
    let shift = last.ilog2() - PER_DOUBLING.ilog2();
    (shift + 1) * PER_DOUBLING as u32 + ((last >> shift) - PER_DOUBLING) as u32
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

/// Pages and slots of one slab of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabShape {
    /// Pages of the slab's run.
    pub(crate) pages: u32,
    /// Slots in it, 4,096 at most.
    pub(crate) slots: u32,
}

/// The slab of slots of `size` bytes in a pool of `pool_pages` pages of
/// `page` bytes: about [`SLOTS`] slots, but at most 1/4096 of the pool, and
/// among the next few page counts the first whose unused tail is under 1/64
/// (or the best).
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
    // Rounding up to pages may have gained a few more.
    let most_slots = SLOTS.max(aim * page / size);
    let cap = (pool_pages / 64).clamp(aim, aim.saturating_mul(4));
    let mut best = SlabShape { pages: 0, slots: 0 };
    let mut best_tail = (1, 1);
    for pages in aim..=cap {
        let bytes = pages * page;
        let slots = (bytes / size).min(most_slots);
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

/// `ceil(2^48 / size)`: multiplying by it and shifting divides exactly by
/// `size` every offset inside a slab, see [`divide`].
#[must_use]
#[inline]
pub(crate) const fn reciprocal(size: u64) -> u64 {
    (1 << RECIPROCAL_SHIFT) / size + !(1u64 << RECIPROCAL_SHIFT).is_multiple_of(size) as u64
}

/// `offset / size` for an offset inside a slab, given `size`'s reciprocal.
///
/// Exact where `offset * (reciprocal * size - 2^48) < 2^48`; the bracket is
/// below `size`, and a slab is at most 2^28 bytes of slots of at most 2^17.
/// The product stays under 2^64 since a slab has at most 2^13 times `size`
/// bytes.
#[must_use]
#[inline]
pub(crate) const fn divide(offset: u64, reciprocal: u64) -> u64 {
    (offset * reciprocal) >> RECIPROCAL_SHIFT
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
    fn the_reciprocal_divides_exactly_at_every_boundary() {
        for page_shift in [12, 16] {
            let page: u64 = 1 << page_shift;
            for class in 0..=class_of(2 * page) {
                let size = class_size(class);
                let shape = slab_shape(size, page, 1 << 22);
                let by = reciprocal(size);
                for slot in 0..u64::from(shape.slots) {
                    assert_eq!(divide(slot * size, by), slot);
                    assert_eq!(divide(slot * size + size - 1, by), slot);
                }
                let end = u64::from(shape.pages) * page - 1;
                assert_eq!(divide(end, by), end / size);
            }
        }
    }
}
