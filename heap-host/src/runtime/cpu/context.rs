//! What a user's kernel sees of its batch.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Pod;

use crate::runtime::control::Words;
use crate::runtime::record::{Handle, Header, TotalState};
use crate::sequence::{AlgorithmId, BufferId, ParameterId, Sequence, TotalId};

use super::access::{AccessError, Key, Writing};
use super::builtin::with_kept;
use super::device::Device;

/// A batch, as the kernel of one algorithm sees it, on the device.
///
/// Buffers and totals are named by name or id. A kernel reads what its
/// algorithm declares to read, and what views among that point into; it writes
/// what its algorithm writes. Sizes that only the device knows are known here.
pub struct KernelContext<'a> {
    device: &'a Device<'a>,
    algorithm: AlgorithmId,
    readable: Vec<BufferId>,
    /// Which outputs are being written.
    taken: Vec<AtomicBool>,
}

impl<'a> KernelContext<'a> {
    pub(super) fn new(device: &'a Device<'a>, algorithm: AlgorithmId) -> Self {
        let sequence = &device.config.sequence;
        let declared = sequence.algorithm(algorithm);
        Self {
            device,
            algorithm,
            readable: with_kept(sequence, &declared.reads),
            taken: declared
                .writes
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
        }
    }

    /// The sequence.
    pub fn sequence(&self) -> &'a Sequence {
        &self.device.config.sequence
    }

    /// The algorithm that this kernel is.
    pub fn algorithm(&self) -> &'a str {
        &self.sequence().algorithm(self.algorithm).name
    }

    /// The events of the batch.
    pub fn events(&self) -> Range<u64> {
        let first = self.device.control.header(Header::FirstEvent);
        first..first + self.device.control.header(Header::Events)
    }

    /// The value of a batch parameter.
    pub fn parameter(&self, id: ParameterId) -> u64 {
        let at = self.device.config.control.parameter(id);
        self.device.control.load(at)
    }

    /// A total that an earlier algorithm computed.
    ///
    /// # Errors
    /// If there is no such total, or it comes later.
    pub fn total(&self, total: impl Key<TotalId>) -> Result<u64, AccessError> {
        Ok(self.ready(total)?.1)
    }

    /// The offsets of a total: for each event where its items begin, and the
    /// end of the last one's.
    ///
    /// # Errors
    /// As [`total`](Self::total).
    pub fn offsets(&self, total: impl Key<TotalId>) -> Result<&'a [u64], AccessError> {
        let (id, _) = self.ready(total)?;
        let table = self.device.control.table(id);
        // SAFETY: an atomic word has a word's representation; a table whose
        // total is ready is not written again in this batch.
        Ok(unsafe { std::slice::from_raw_parts(table.as_ptr().cast(), table.len()) })
    }

    /// The number of elements that a buffer has.
    ///
    /// # Errors
    /// If there is no such buffer, or it is not live now.
    pub fn elements(&self, buffer: impl Key<BufferId>) -> Result<u64, AccessError> {
        Ok(self.live(self.find(buffer)?)?.elements)
    }

    /// The contents of an input.
    ///
    /// # Errors
    /// [`AccessError`] if the algorithm does not read it, or `T` does not fit
    /// its elements.
    pub fn read<T: Pod>(&self, buffer: impl Key<BufferId>) -> Result<&'a [T], AccessError> {
        let id = self.find(buffer)?;
        if !self.readable.contains(&id) {
            let (algorithm, buffer) = self.names(id);
            return Err(AccessError::NotRead { algorithm, buffer });
        }
        let handle = self.live(id)?;
        self.check_type::<T>(id)?;
        // SAFETY: the buffer is live and only its writer, an earlier
        // algorithm, writes it.
        let bytes = unsafe { self.device.contents(handle) };
        self.device.check_written(self.algorithm, id, bytes);
        Ok(bytemuck::cast_slice(bytes))
    }

    /// The contents of an output, to write. They are whatever was there
    /// before, or what the buffer is declared to start with.
    ///
    /// # Errors
    /// [`AccessError`] if the algorithm does not write it, it is being written
    /// already, or `T` does not fit its elements.
    pub fn write<T: Pod>(&self, buffer: impl Key<BufferId>) -> Result<Writing<'_, T>, AccessError> {
        let id = self.find(buffer)?;
        let handle = self.live(id)?;
        self.check_type::<T>(id)?;
        let taken = self.take(id)?;
        // SAFETY: the buffer is live; this algorithm is its only user now, and
        // the mark says that no other part of its kernel has it.
        let bytes = unsafe { self.device.contents_mut(handle) };
        Ok(Writing::new(bytemuck::cast_slice_mut(bytes), taken))
    }

    /// Sets all bytes of an output.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn fill(&self, buffer: impl Key<BufferId>, byte: u8) -> Result<(), AccessError> {
        self.write::<u8>(buffer)?.fill(byte);
        Ok(())
    }

    /// Copies an input onto an output of the same number of bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read) and [`write`](Self::write), and if the sizes
    /// differ.
    pub fn copy(
        &self,
        from: impl Key<BufferId>,
        to: impl Key<BufferId>,
    ) -> Result<(), AccessError> {
        let (source, mut target) = (self.read::<u8>(from)?, self.write::<u8>(to)?);
        if source.len() != target.len() {
            let name = |id: BufferId| self.sequence().buffer(id).name.clone();
            return Err(AccessError::CopySize {
                from: name(self.find(from)?),
                from_bytes: source.len() as u64,
                to: name(self.find(to)?),
                to_bytes: target.len() as u64,
            });
        }
        target.copy_from_slice(source);
        Ok(())
    }

    /// The address of a buffer that is live now, for views.
    ///
    /// Nothing keeps a kernel from using it wrongly; debug modes tell.
    ///
    /// # Errors
    /// If there is no such buffer, or it is not live now.
    pub fn pointer(&self, buffer: impl Key<BufferId>) -> Result<*mut u8, AccessError> {
        let handle = self.live(self.find(buffer)?)?;
        Ok(std::ptr::with_exposed_provenance_mut(
            handle.address as usize,
        ))
    }

    /// Says how many of a total each event has, in the order of the events;
    /// their sum becomes the total, and their running sums its offsets.
    ///
    /// # Errors
    /// If the algorithm does not compute it, or there are more or fewer counts
    /// than events.
    pub fn set_counts(
        &self,
        total: impl Key<TotalId>,
        counts: impl IntoIterator<Item = u64>,
    ) -> Result<(), AccessError> {
        let id = self.computed(total)?;
        let (_, table) = self
            .device
            .control
            .table(id)
            .split_last()
            .expect("a table has its end");
        let mut given = 0;
        for count in counts {
            // Relaxed: the scan is a step of its own.
            if let Some(word) = table.get(given) {
                word.store(count, Ordering::Relaxed);
            }
            given += 1;
        }
        if given != table.len() {
            let (counts, events) = (given as u64, table.len() as u64);
            let total = self.sequence().total(id).name.clone();
            return Err(AccessError::Counts {
                total,
                counts,
                events,
            });
        }
        self.device.control.set_total(id, TotalState::Counted, 0);
        Ok(())
    }

    /// Sets a total as a whole; its offsets share it out evenly.
    ///
    /// # Errors
    /// If the algorithm does not compute it.
    pub fn set_total(&self, total: impl Key<TotalId>, value: u64) -> Result<(), AccessError> {
        let id = self.computed(total)?;
        self.device.control.set_total(id, TotalState::Summed, value);
        Ok(())
    }

    fn find<Id>(&self, key: impl Key<Id>) -> Result<Id, AccessError> {
        let sequence = self.sequence();
        let unknown = || AccessError::Unknown {
            what: key.describe(),
            sequence: sequence.name().into(),
            nearest: key.nearest(sequence),
        };
        key.find(sequence).ok_or_else(unknown)
    }

    fn names(&self, buffer: BufferId) -> (String, String) {
        let buffer = self.sequence().buffer(buffer).name.clone();
        (self.algorithm().to_owned(), buffer)
    }

    fn live(&self, buffer: BufferId) -> Result<Handle, AccessError> {
        self.device.live(buffer).ok_or_else(|| {
            let (algorithm, buffer) = self.names(buffer);
            AccessError::NotLive { algorithm, buffer }
        })
    }

    fn ready(&self, total: impl Key<TotalId>) -> Result<(TotalId, u64), AccessError> {
        let id = self.find(total)?;
        match self.device.control.total(id) {
            (TotalState::Ready, value) => Ok((id, value)),
            _ => {
                let total = self.sequence().total(id);
                let computed_by = self.sequence().algorithm(total.computed_by).name.clone();
                let total = total.name.clone();
                Err(AccessError::TotalTooEarly { total, computed_by })
            }
        }
    }

    fn computed(&self, total: impl Key<TotalId>) -> Result<TotalId, AccessError> {
        let id = self.find(total)?;
        let total = self.sequence().total(id);
        if total.computed_by == self.algorithm {
            return Ok(id);
        }
        let (algorithm, total) = (self.algorithm().to_owned(), total.name.clone());
        Err(AccessError::NotComputed { algorithm, total })
    }

    /// Marks an output as being written.
    fn take(&self, buffer: BufferId) -> Result<&AtomicBool, AccessError> {
        let writes = &self.sequence().algorithm(self.algorithm).writes;
        let Ok(index) = writes.binary_search(&buffer) else {
            let (algorithm, buffer) = self.names(buffer);
            return Err(AccessError::NotWritten { algorithm, buffer });
        };
        let taken = &self.taken[index];
        // Acquire: sees what the last access wrote.
        if taken.swap(true, Ordering::Acquire) {
            let buffer = self.names(buffer).1;
            return Err(AccessError::InUse { buffer });
        }
        Ok(taken)
    }

    fn check_type<T>(&self, buffer: BufferId) -> Result<(), AccessError> {
        let buffer = self.sequence().buffer(buffer);
        let (size, align) = (size_of::<T>(), align_of::<T>());
        let fits = size > 0 && buffer.element_bytes.is_multiple_of(size as u64);
        if fits && align as u64 <= buffer.alignment {
            return Ok(());
        }
        Err(AccessError::Type {
            buffer: buffer.name.clone(),
            element_bytes: buffer.element_bytes,
            alignment: buffer.alignment,
            size,
            align,
        })
    }
}
