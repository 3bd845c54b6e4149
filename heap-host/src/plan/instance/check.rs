//! The checks of a buffer that need no other one.

use super::buffer::{Buffer, Gap};
use super::error::InstanceError;

pub(super) fn alone(index: usize, buffer: &Buffer) -> Result<(), InstanceError> {
    let name = || buffer.name.clone();
    if buffer.name.is_empty() {
        return Err(InstanceError::EmptyName { index });
    }
    if buffer.name.chars().any(char::is_control) {
        return Err(InstanceError::ControlCharacter {
            index,
            name: name(),
        });
    }
    if buffer.lower > buffer.upper {
        let (lower, upper) = (buffer.lower, buffer.upper);
        return Err(InstanceError::ReversedLifetime {
            index,
            name: name(),
            lower,
            upper,
        });
    }
    if !buffer.alignment.is_power_of_two() {
        let alignment = buffer.alignment;
        return Err(InstanceError::BadAlignment {
            index,
            name: name(),
            alignment,
        });
    }
    gaps(index, buffer)?;
    fixed_offset(index, buffer)
}

fn gaps(index: usize, buffer: &Buffer) -> Result<(), InstanceError> {
    let mut end = buffer.lower;
    for gap in &buffer.gaps {
        let reason = if gap.lower > gap.upper {
            "ends before it starts; a gap is the half-open range lower-upper".into()
        } else if gap.lower < buffer.lower || gap.upper > buffer.upper {
            format!("is not within its life {}..{}", buffer.lower, buffer.upper)
        } else if gap.lower < end {
            "begins before the one in front of it ends; gaps ascend and do not meet".into()
        } else if let Some((from, to)) = gap.window.filter(|&(from, to)| from > to) {
            format!("has a window that ends before it starts: {from}:{to}")
        } else if gap.window.is_some_and(|(_, to)| to > buffer.size) {
            format!("has a window past the {} bytes of the buffer", buffer.size)
        } else {
            end = gap.upper;
            continue;
        };
        return Err(InstanceError::BadGap {
            index,
            name: buffer.name.clone(),
            gap: gap.to_string().into(),
            reason: reason.into(),
        });
    }
    Ok(())
}

impl std::fmt::Display for Gap {
    /// As it stands in a file: `lower-upper`, and the window as `@from:to`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.lower, self.upper)?;
        match self.window {
            Some((from, to)) => write!(f, "@{from}:{to}"),
            None => Ok(()),
        }
    }
}

fn fixed_offset(index: usize, buffer: &Buffer) -> Result<(), InstanceError> {
    let Some(offset) = buffer.fixed_offset else {
        return Ok(());
    };
    let reason = if !offset.is_multiple_of(buffer.alignment) {
        format!("which is no multiple of its alignment {}", buffer.alignment)
    } else if offset.checked_add(buffer.size).is_none() {
        format!("so that its {} bytes end past 2^64 - 1", buffer.size)
    } else if buffer.alias.is_some() {
        "and an alias as well; fix the buffer in whose storage it lies".into()
    } else {
        return Ok(());
    };
    Err(InstanceError::BadFixedOffset {
        index,
        name: buffer.name.clone(),
        offset,
        reason: reason.into(),
    })
}
