//! Relations between buffers, resolved from names.

use std::collections::HashMap;

use super::arena::Arena;
use super::buffer::Buffer;
use super::error::InstanceError;

/// A buffer that lies in the storage of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasLink {
    /// The alias.
    pub buffer: usize,
    /// The buffer whose storage it is, which is no alias itself.
    pub root: usize,
    /// Bytes from its start.
    pub offset: u64,
}

/// A buffer that may take over the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlaceLink {
    /// The later buffer.
    pub buffer: usize,
    /// The one whose place it may take.
    pub of: usize,
}

type Names<'a> = HashMap<&'a str, usize>;

/// Follows every alias to the buffer that has the storage, in O(n).
pub(super) fn aliases(buffers: &[Buffer], names: &Names) -> Result<Vec<AliasLink>, InstanceError> {
    let mut found = HashMap::<usize, (usize, u64)>::new();
    for index in (0..buffers.len()).filter(|&index| buffers[index].alias.is_some()) {
        // Down to one that is known, and up again.
        let (mut chain, mut at) = (Vec::new(), index);
        let (root, mut offset) = loop {
            if let Some(&known) = found.get(&at) {
                break known;
            }
            let Some(alias) = &buffers[at].alias else {
                break (at, 0);
            };
            if chain.len() > buffers.len() {
                return Err(bad_alias(
                    buffers,
                    index,
                    "which leads back to itself; one of a circle must have the storage".into(),
                ));
            }
            chain.push((at, alias.offset));
            at = lookup(names, buffers, at, "alias_of", &alias.of)?;
        };
        for &(at, distance) in chain.iter().rev() {
            offset = place_in(buffers, at, root, offset, distance)?;
            found.insert(at, (root, offset));
        }
    }
    let mut links: Vec<AliasLink> = found
        .into_iter()
        .map(|(buffer, (root, offset))| AliasLink {
            buffer,
            root,
            offset,
        })
        .collect();
    links.sort_unstable_by_key(|link| link.buffer);
    Ok(links)
}

/// Where in the storage of `root` a buffer begins, `distance` bytes from `before`.
fn place_in(
    buffers: &[Buffer],
    index: usize,
    root: usize,
    before: u64,
    distance: u64,
) -> Result<u64, InstanceError> {
    let buffer = &buffers[index];
    let end = |offset: u64| offset.checked_add(buffer.size).map(|_| offset);
    let offset = before.checked_add(distance).and_then(end);
    let reason = match offset {
        Some(offset) if offset.is_multiple_of(buffer.alignment) => return Ok(offset),
        Some(offset) => format!(
            "{offset} bytes into the storage of '{}', which is no multiple of its alignment {}",
            buffers[root].name, buffer.alignment
        ),
        None => format!("so that its {} bytes end past 2^64 - 1", buffer.size),
    };
    Err(bad_alias(buffers, index, reason))
}

fn bad_alias(buffers: &[Buffer], index: usize, reason: String) -> InstanceError {
    let buffer = &buffers[index];
    InstanceError::BadAlias {
        index,
        name: buffer.name.clone(),
        of: buffer
            .alias
            .as_ref()
            .map_or(String::new(), |alias| alias.of.clone()),
        reason: reason.into(),
    }
}

fn lookup(
    names: &Names,
    buffers: &[Buffer],
    index: usize,
    relation: &'static str,
    other: &str,
) -> Result<usize, InstanceError> {
    let unknown = || InstanceError::UnknownBuffer {
        index,
        name: buffers[index].name.clone(),
        relation,
        other: other.into(),
    };
    names.get(other).copied().ok_or_else(unknown)
}

/// The pairs that may share a place.
pub(super) fn in_place(
    buffers: &[Buffer],
    names: &Names,
) -> Result<Vec<InPlaceLink>, InstanceError> {
    let mut links = Vec::new();
    for (index, buffer) in buffers.iter().enumerate() {
        let Some(name) = &buffer.in_place_of else {
            continue;
        };
        let of = lookup(names, buffers, index, "in_place_of", name)?;
        let other = &buffers[of];
        let reason = if of == index {
            "which is itself; name the buffer whose place it takes".into()
        } else if buffer.alias.is_some() {
            "and an alias as well; its place is that of the alias".into()
        } else if buffer.takes_space()
            && other.takes_space()
            && other.upper > buffer.lower.saturating_add(1)
        {
            format!(
                "which is alive until {} and so after its first step {}; the other's life must end \
                 at {} or earlier",
                other.upper,
                buffer.lower,
                buffer.lower.saturating_add(1)
            )
        } else {
            links.push(InPlaceLink { buffer: index, of });
            continue;
        };
        return Err(InstanceError::BadInPlace {
            index,
            name: buffer.name.clone(),
            of: name.clone(),
            reason: reason.into(),
        });
    }
    Ok(links)
}

/// Every buffer has an arena to lie in, an alias that of its storage.
pub(super) fn check_arenas(
    buffers: &[Buffer],
    arenas: &[Arena],
    aliases: &[AliasLink],
) -> Result<(), InstanceError> {
    let refuse = |index: usize, reason: String| InstanceError::BadArena {
        index,
        name: buffers[index].name.clone(),
        reason: reason.into(),
    };
    for (index, buffer) in buffers.iter().enumerate() {
        for name in &buffer.arenas {
            if arenas.iter().all(|arena| arena.name != *name) {
                let known: Vec<&str> = arenas.iter().map(|arena| arena.name.as_str()).collect();
                return Err(refuse(
                    index,
                    format!(
                        "there is no arena '{name}' in which it may lie; the arenas are: {}",
                        known.join(", ")
                    ),
                ));
            }
        }
        let choices = if buffer.arenas.is_empty() {
            arenas.len()
        } else {
            buffer.arenas.len()
        };
        if buffer.fixed_offset.is_some() && choices > 1 {
            return Err(refuse(
                index,
                "it has a fixed offset, but no arena of its own; name the one".into(),
            ));
        }
    }
    for link in aliases {
        let (own, root) = (&buffers[link.buffer].arenas, &buffers[link.root]);
        if !own.is_empty() && *own != root.arenas {
            return Err(refuse(
                link.buffer,
                format!(
                    "it lies in the storage of '{}' and so in the same arena; leave its own out",
                    root.name
                ),
            ));
        }
    }
    Ok(())
}
