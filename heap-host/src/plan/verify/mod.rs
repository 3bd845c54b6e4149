//! Verification of offsets, independent of the planner.
//!
//! It shares only the instance with the planner: no compressed steps, no
//! components, no structure for free space. A sweep over the steps keeps the
//! bytes of the live buffers sorted by address; a buffer that becomes live is
//! compared with those that have its bytes, so the whole costs O(n log n). Buffers
//! may share bytes only where they say so: an alias with its storage, and a pair
//! in place if both start at one offset.

mod sweep;

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
    /// A fixed buffer is somewhere else.
    #[error("buffer '{name}' is at offset {offset}, but fixed at {fixed}")]
    NotFixed {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// Where it must be.
        fixed: u64,
    },
    /// An alias is not in the storage of its root.
    #[error(
        "buffer '{name}' is at offset {offset}; as an alias, {distance} bytes into the storage of \
         '{root}' at {root_offset}, it must be there"
    )]
    NotInStorage {
        /// Its index.
        index: usize,
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// The buffer whose storage it is.
        root: String,
        /// The offset of that.
        root_offset: u64,
        /// Bytes from there.
        distance: u64,
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
        check_alone(index, buffer, offset)?;
        peak = peak.max(end(buffer, offset));
    }
    check_aliases(instance, offsets)?;
    sweep::sweep(instance, offsets)?;
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
        let end = end(buffer, offset);
        if end > capacity {
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

/// The end of the highest byte that is in use at any step, 0 if none is.
fn end(buffer: &Buffer, offset: u64) -> u64 {
    let ends = buffer.pieces().map(|piece| offset.saturating_add(piece.to));
    ends.max().unwrap_or(0)
}

fn check_alone(index: usize, buffer: &Buffer, offset: u64) -> Result<(), Violation> {
    let Buffer {
        size, alignment, ..
    } = *buffer;
    let name = || buffer.name.clone();
    if !offset.is_multiple_of(alignment) {
        return Err(Violation::Misaligned {
            index,
            name: name(),
            offset,
            alignment,
        });
    }
    if let Some(fixed) = buffer.fixed_offset.filter(|&fixed| fixed != offset) {
        return Err(Violation::NotFixed {
            index,
            name: name(),
            offset,
            fixed,
        });
    }
    // Of a buffer with windows, bytes that are never in use may be past the end.
    let used = buffer.pieces().map(|piece| piece.to).max().unwrap_or(size);
    if offset.checked_add(used).is_none() {
        return Err(Violation::AddressSpace {
            index,
            name: name(),
            offset,
            size,
        });
    }
    Ok(())
}

fn check_aliases(instance: &Instance, offsets: &[u64]) -> Result<(), Violation> {
    let buffers = instance.buffers();
    for link in instance.aliases() {
        let (offset, root_offset) = (offsets[link.buffer], offsets[link.root]);
        if root_offset.checked_add(link.offset) != Some(offset) {
            return Err(Violation::NotInStorage {
                index: link.buffer,
                name: buffers[link.buffer].name.clone(),
                offset,
                root: buffers[link.root].name.clone(),
                root_offset,
                distance: link.offset,
            });
        }
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
