//! What a kernel may ask for, and why it may be refused.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sequence::suggest::{hint, nearest};
use crate::sequence::{BufferId, Sequence, TotalId};

/// Something that names a buffer or a total: its name, or its id.
pub trait Key<Id>: Copy {
    /// The id in `sequence`, if there is such a thing.
    fn find(self, sequence: &Sequence) -> Option<Id>;

    /// For error messages.
    fn describe(self) -> String;

    /// The nearest name that there is in `sequence`, for what is not found.
    fn nearest(self, sequence: &Sequence) -> Option<String> {
        let _ = sequence;
        None
    }
}

impl Key<BufferId> for &str {
    fn find(self, sequence: &Sequence) -> Option<BufferId> {
        sequence.buffer_named(self)
    }
    fn describe(self) -> String {
        format!("buffer {self:?}")
    }
    fn nearest(self, sequence: &Sequence) -> Option<String> {
        let names = sequence.buffers().iter().map(|buffer| &*buffer.name);
        nearest(self, names)
    }
}

impl Key<BufferId> for BufferId {
    fn find(self, sequence: &Sequence) -> Option<BufferId> {
        (self.index() < sequence.buffers().len()).then_some(self)
    }
    fn describe(self) -> String {
        format!("buffer number {}", self.index())
    }
}

impl Key<TotalId> for &str {
    fn find(self, sequence: &Sequence) -> Option<TotalId> {
        sequence.total_named(self)
    }
    fn describe(self) -> String {
        format!("total {self:?}")
    }
    fn nearest(self, sequence: &Sequence) -> Option<String> {
        let names = sequence.totals().iter().map(|total| &*total.name);
        nearest(self, names)
    }
}

impl Key<TotalId> for TotalId {
    fn find(self, sequence: &Sequence) -> Option<TotalId> {
        (self.index() < sequence.totals().len()).then_some(self)
    }
    fn describe(self) -> String {
        format!("total number {}", self.index())
    }
}

/// Why a kernel does not get what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No such thing.
    #[error("{what} is not in sequence {sequence:?}{}", hint(.nearest))]
    Unknown {
        /// What was asked for.
        what: String,
        /// The sequence.
        sequence: String,
        /// The nearest name that there is.
        nearest: Option<String>,
    },
    /// The algorithm does not declare to read the buffer.
    #[error("algorithm {algorithm:?} does not read {buffer:?}; declare the read in the sequence")]
    NotRead {
        /// The algorithm.
        algorithm: String,
        /// The buffer.
        buffer: String,
    },
    /// The algorithm is not the buffer's writer.
    #[error("algorithm {algorithm:?} does not write {buffer:?}; only the buffer's writer may")]
    NotWritten {
        /// The algorithm.
        algorithm: String,
        /// The buffer.
        buffer: String,
    },
    /// The algorithm does not compute the total.
    #[error("algorithm {algorithm:?} does not compute {total:?}; only the declared one may")]
    NotComputed {
        /// The algorithm.
        algorithm: String,
        /// The total.
        total: String,
    },
    /// The total's algorithm has not run yet.
    #[error("total {total:?} is not there yet: algorithm {computed_by:?} computes it later")]
    TotalTooEarly {
        /// The total.
        total: String,
        /// Its algorithm.
        computed_by: String,
    },
    /// The output is in use already.
    #[error("buffer {buffer:?} is being written already; drop the other access first")]
    InUse {
        /// The buffer.
        buffer: String,
    },
    /// The type does not fit the elements.
    #[error(
        "buffer {buffer:?} has elements of {element_bytes} bytes at multiples of {alignment}, \
         which a type of {size} bytes at multiples of {align} does not fit"
    )]
    Type {
        /// The buffer.
        buffer: String,
        /// Bytes of its elements.
        element_bytes: u64,
        /// Its alignment.
        alignment: u64,
        /// Bytes of the type.
        size: usize,
        /// Alignment of the type.
        align: usize,
    },
    /// The buffer is not live.
    #[error("buffer {buffer:?} is not live in algorithm {algorithm:?}")]
    NotLive {
        /// The algorithm.
        algorithm: String,
        /// The buffer.
        buffer: String,
    },
    /// Two buffers differ in size.
    #[error(
        "buffer {from:?} has {from_bytes} bytes and {to:?} has {to_bytes}; a copy needs as many"
    )]
    CopySize {
        /// The source.
        from: String,
        /// Its bytes.
        from_bytes: u64,
        /// The target.
        to: String,
        /// Its bytes.
        to_bytes: u64,
    },
    /// Another number of counts than of events.
    #[error("{counts} counts of total {total:?} were given for {events} events; give one for each")]
    Counts {
        /// The total.
        total: String,
        /// Counts given.
        counts: u64,
        /// Events of the batch.
        events: u64,
    },
}

/// Why a kernel failed: anything with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelError {
    message: String,
}

impl<E: std::fmt::Display> From<E> for KernelError {
    fn from(error: E) -> Self {
        let message = error.to_string();
        Self { message }
    }
}

impl KernelError {
    pub(super) fn into_message(self) -> String {
        self.message
    }
}

/// An output that is being written.
#[derive(Debug)]
pub struct Writing<'a, T> {
    elements: &'a mut [T],
    taken: &'a AtomicBool,
}

impl<'a, T> Writing<'a, T> {
    /// The mark that `taken` was set by whoever makes this.
    pub(super) fn new(elements: &'a mut [T], taken: &'a AtomicBool) -> Self {
        Self { elements, taken }
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

impl<T> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        // Release: whoever takes the buffer next sees what was written.
        self.taken.store(false, Ordering::Release);
    }
}
