//! Memory of which there may be several kinds.

/// Memory of its own, in which buffers lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Unique within an instance, not empty, without control characters.
    pub name: String,
    /// Bytes; `None`: as many as are needed.
    pub capacity: Option<u64>,
}

impl Arena {
    /// An arena of `capacity` bytes.
    pub fn new(name: impl Into<String>, capacity: Option<u64>) -> Self {
        Arena {
            name: name.into(),
            capacity,
        }
    }
}
