//! Verification of offsets, independent of the planner.
//!
//! It shares only the instance with the planner: no compressed steps, no
//! components, no structure for free space. A sweep over the steps keeps the
//! live buffers sorted by offset. As long as they are disjoint, a buffer that
//! becomes live can overlap another one only if it overlaps a neighbour, so
//! each one is compared with two others and the whole costs O(n log n).

use std::collections::BTreeMap;

use super::instance::{Buffer, Instance};

/// What is wrong with offsets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There are more or fewer offsets than buffers.
    #[error("there are {offsets} offsets for {buffers} buffers; each buffer needs one")]
    Count {
        /// How many buffers there are.
        buffers: usize,
        /// How many offsets there are.
        offsets: usize,
    },
    /// An offset is not a multiple of the alignment.
    #[error(
        "buffer '{name}' is at offset {offset}, which is no multiple of its alignment {alignment}"
    )]
    Misaligned {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        alignment: u64,
    },
    /// A buffer would end past 2^64 - 1.
    #[error("buffer '{name}' at offset {offset} with {size} bytes ends past 2^64 - 1")]
    AddressSpace {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its size.
        size: u64,
    },
    /// A buffer that takes space ends past the capacity.
    #[error(
        "buffer '{name}' at offset {offset} ends at {end}, past the capacity of {capacity} bytes"
    )]
    Capacity {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its end.
        end: u64,
        /// The capacity.
        capacity: u64,
    },
    /// Two buffers that are alive at one step share bytes.
    #[error("buffers {lower} and {upper} overlap at step {step}")]
    Overlap {
        /// The one with the lower offset.
        lower: Box<Place>,
        /// The other one.
        upper: Box<Place>,
        /// The first step at which they do.
        step: u64,
    },
}

/// A buffer and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its index in the instance.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its first byte.
    pub offset: u64,
    /// The byte after its last.
    pub end: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' (bytes {}..{})", self.name, self.offset, self.end)
    }
}

/// Verifies `offsets`, one per buffer of `instance` in its order, and gives
/// the peak: the end in bytes of the highest buffer that takes space.
///
/// # Errors
///
/// The first [`Violation`]: of single buffers in the order of the instance,
/// then overlaps by their first step.
pub fn verify(instance: &Instance, offsets: &[u64]) -> Result<u64, Violation> {
    let buffers = instance.buffers();
    if buffers.len() != offsets.len() {
        return Err(Violation::Count {
            buffers: buffers.len(),
            offsets: offsets.len(),
        });
    }
    let mut peak = 0;
    for (index, (buffer, &offset)) in buffers.iter().zip(offsets).enumerate() {
        let end = check_alone(index, buffer, offset)?;
        if takes_space(buffer) {
            peak = peak.max(end);
        }
    }
    sweep(buffers, offsets)?;
    Ok(peak)
}

/// Like [`verify`]; also every buffer that takes space must end within
/// `capacity` bytes.
///
/// # Errors
///
/// The first [`Violation`].
pub fn verify_within(
    instance: &Instance,
    offsets: &[u64],
    capacity: u64,
) -> Result<u64, Violation> {
    let peak = verify(instance, offsets)?;
    for (index, (buffer, &offset)) in instance.buffers().iter().zip(offsets).enumerate() {
        let end = offset + buffer.size;
        if takes_space(buffer) && end > capacity {
            let name = buffer.name.clone();
            return Err(Violation::Capacity {
                index,
                name,
                offset,
                end,
                capacity,
            });
        }
    }
    Ok(peak)
}

fn takes_space(buffer: &Buffer) -> bool {
    buffer.size != 0 && buffer.lower != buffer.upper
}

/// The end of the buffer.
fn check_alone(index: usize, buffer: &Buffer, offset: u64) -> Result<u64, Violation> {
    let Buffer {
        size, alignment, ..
    } = *buffer;
    if !offset.is_multiple_of(alignment) {
        let name = buffer.name.clone();
        return Err(Violation::Misaligned {
            index,
            name,
            offset,
            alignment,
        });
    }
    offset.checked_add(size).ok_or_else(|| {
        let name = buffer.name.clone();
        Violation::AddressSpace {
            index,
            name,
            offset,
            size,
        }
    })
}

/// Finds the first step at which two live buffers overlap.
fn sweep(buffers: &[Buffer], offsets: &[u64]) -> Result<(), Violation> {
    let live: Vec<usize> = (0..buffers.len())
        .filter(|&i| takes_space(&buffers[i]))
        .collect();
    let mut by_lower = live.clone();
    by_lower.sort_by_key(|&index| (buffers[index].lower, index));
    let mut by_upper = live;
    by_upper.sort_by_key(|&index| buffers[index].upper);
    let mut leaving = by_upper.into_iter().peekable();
    // Offset to buffer; disjoint.
    let mut arena = BTreeMap::<u64, usize>::new();
    for index in by_lower {
        let step = buffers[index].lower;
        while let Some(gone) = leaving.next_if(|&other| buffers[other].upper <= step) {
            arena.remove(&offsets[gone]);
        }
        let place = |index: usize| Place {
            index,
            name: buffers[index].name.clone(),
            offset: offsets[index],
            end: offsets[index] + buffers[index].size,
        };
        let (offset, end) = (offsets[index], offsets[index] + buffers[index].size);
        let below = arena.range(..=offset).next_back().map(|(_, &other)| other);
        if let Some(other) = below.filter(|&other| offsets[other] + buffers[other].size > offset) {
            let (lower, upper) = (Box::new(place(other)), Box::new(place(index)));
            return Err(Violation::Overlap { lower, upper, step });
        }
        if let Some((_, &other)) = arena.range(offset..end).next() {
            let (lower, upper) = (Box::new(place(index)), Box::new(place(other)));
            return Err(Violation::Overlap { lower, upper, step });
        }
        arena.insert(offset, index);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buffers: &[(u64, u64, u64, u64)], offsets: &[u64]) -> Result<u64, Violation> {
        let buffers = buffers
            .iter()
            .enumerate()
            .map(|(i, &(lower, upper, size, alignment))| {
                Buffer::new(format!("b{i}"), lower, upper, size).aligned_to(alignment)
            });
        verify(&Instance::new(buffers.collect()).unwrap(), offsets)
    }

    #[test]
    fn touching_in_space_or_time_is_fine() {
        assert_eq!(
            check(&[(0, 2, 4, 1), (0, 2, 4, 1), (2, 3, 8, 1)], &[0, 4, 0]),
            Ok(8)
        );
        assert_eq!(check(&[], &[]), Ok(0));
    }

    #[test]
    fn an_overlap_names_both_and_the_step() {
        let found = check(&[(0, 9, 4, 1), (3, 5, 4, 1)], &[10, 7]).unwrap_err();
        assert_eq!(
            found.to_string(),
            "buffers 'b1' (bytes 7..11) and 'b0' (bytes 10..14) overlap at step 3"
        );
        let inside = check(&[(0, 9, 9, 1), (3, 5, 1, 1)], &[0, 4]).unwrap_err();
        assert!(matches!(inside, Violation::Overlap { step: 3, .. }));
        let same = check(&[(0, 9, 1, 1), (0, 5, 1, 1)], &[4, 4]).unwrap_err();
        assert!(matches!(same, Violation::Overlap { step: 0, .. }));
    }

    #[test]
    fn the_first_step_is_reported() {
        let buffers = [(5, 9, 4, 1), (5, 9, 4, 1), (1, 3, 4, 1), (2, 3, 4, 1)];
        let found = check(&buffers, &[0, 1, 0, 1]).unwrap_err();
        assert!(
            matches!(found, Violation::Overlap { step: 2, .. }),
            "{found}"
        );
    }

    #[test]
    fn buffers_without_space_block_nobody_but_stay_aligned() {
        let buffers = [(0, 9, 0, 8), (3, 3, 5, 4), (0, 9, 5, 1)];
        assert_eq!(check(&buffers, &[0, 0, 0]), Ok(5));
        assert_eq!(check(&buffers, &[16, 4, 0]), Ok(5));
        let found = check(&buffers, &[4, 0, 0]).unwrap_err();
        assert!(matches!(found, Violation::Misaligned { index: 0, .. }));
    }

    #[test]
    fn counts_the_address_space_and_the_capacity() {
        assert!(matches!(
            check(&[(0, 1, 1, 1)], &[]),
            Err(Violation::Count { .. })
        ));
        let found = check(&[(0, 1, 2, 1)], &[u64::MAX - 1]).unwrap_err();
        assert!(matches!(found, Violation::AddressSpace { .. }));
        assert_eq!(check(&[(0, 1, 1, 1)], &[u64::MAX - 1]), Ok(u64::MAX));
        let instance = Instance::new(vec![Buffer::new("a", 0, 1, 4)]).unwrap();
        assert_eq!(verify_within(&instance, &[4], 8), Ok(8));
        let found = verify_within(&instance, &[4], 7).unwrap_err();
        assert!(matches!(found, Violation::Capacity { end: 8, .. }));
    }
}
