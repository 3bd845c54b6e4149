//! What is to be planned: buffers with lifetimes, sizes and alignments.

mod arena;
mod buffer;
mod check;
mod error;
mod links;
mod storage;

use std::collections::HashMap;

use super::fingerprint::Fingerprint;
pub use arena::Arena;
pub use buffer::{Alias, Buffer, Gap, Piece};
pub use error::InstanceError;
pub use links::{AliasLink, InPlaceLink};
pub(super) use storage::{Storage, Storages};

/// Buffers that passed every check: unique names of visible characters, alignments that are powers
/// of two, lifetimes in order, a sum of sizes that fits in 64 bits, and relations that can be
/// kept.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Instance {
    buffers: Vec<Buffer>,
    arenas: Vec<Arena>,
    aliases: Vec<AliasLink>,
    in_place: Vec<InPlaceLink>,
}

impl Instance {
    /// Checks `buffers`, in O(total length of the names). Where some of them name
    /// arenas, those are the arenas, in the order in which they are named, without
    /// capacities; otherwise there is one, without a name.
    ///
    /// # Errors
    ///
    /// The first fault in the order of the buffers, see [`InstanceError`]; faults of
    /// single buffers come before those of relations.
    pub fn new(buffers: Vec<Buffer>) -> Result<Instance, InstanceError> {
        let mut arenas = Vec::<Arena>::new();
        for name in buffers.iter().flat_map(|buffer| &buffer.arenas) {
            if arenas.iter().all(|arena| arena.name != *name) {
                arenas.push(Arena::new(name.as_str(), None));
            }
        }
        Self::with_arenas(buffers, arenas)
    }

    /// Checks `buffers` that lie in `arenas`, the most wanted one first.
    ///
    /// # Errors
    ///
    /// As [`Instance::new`]; and a buffer whose arena is none of them.
    ///
    /// # Panics
    ///
    /// When two arenas have one name.
    pub fn with_arenas(
        buffers: Vec<Buffer>,
        arenas: Vec<Arena>,
    ) -> Result<Instance, InstanceError> {
        for (index, arena) in arenas.iter().enumerate() {
            let same = |other: &Arena| other.name == arena.name;
            assert!(
                !arenas[..index].iter().any(same),
                "arenas have names of their own"
            );
        }
        let mut names = HashMap::with_capacity(buffers.len());
        let mut sum = 0u64;
        for (index, buffer) in buffers.iter().enumerate() {
            check::alone(index, buffer)?;
            if let Some(first) = names.insert(buffer.name.as_str(), index) {
                let name = buffer.name.clone();
                return Err(InstanceError::DuplicateName { name, first, index });
            }
            sum = sum
                .checked_add(buffer.size)
                .ok_or_else(|| InstanceError::SizeOverflow {
                    index,
                    name: buffer.name.clone(),
                    size: buffer.size,
                })?;
        }
        let aliases = links::aliases(&buffers, &names)?;
        let in_place = links::in_place(&buffers, &names)?;
        links::check_arenas(&buffers, &arenas, &aliases)?;
        let instance = Instance {
            buffers,
            arenas,
            aliases,
            in_place,
        };
        storage::check_fixed(&instance)?;
        Ok(instance)
    }

    /// The buffers, in the order given. Offsets of a plan follow this order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The same buffers, without the checks.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.buffers
    }

    /// The arenas, the most wanted one first; none, where there is only one, without
    /// a name.
    pub fn arenas(&self) -> &[Arena] {
        &self.arenas
    }

    /// The buffers that lie in the storage of others, ascending.
    pub fn aliases(&self) -> &[AliasLink] {
        &self.aliases
    }

    /// The buffers that may take over the place of others, ascending.
    pub fn in_place(&self) -> &[InPlaceLink] {
        &self.in_place
    }

    /// How many buffers there are.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether there are no buffers.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The sum of all sizes in bytes.
    pub fn total_size(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.size).sum()
    }

    /// A stable hash of all that is said about the buffers, in their order.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.buffers)
    }
}

#[cfg(test)]
mod tests;
