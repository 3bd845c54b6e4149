//! The steps that allocate, free, fill and copy.

use heap_kernels::{Request, SingleLane};

use crate::runtime::configuration::SCOPES;
use crate::runtime::control::Words;
use crate::runtime::program::Allocation;
use crate::runtime::record::{
    Cause, Count, FailedRequest, FindingKind, Handle, NOBODY, RawFinding, Status, TotalState,
};
use crate::sequence::{AlgorithmId, BufferId, CountOverflow, Scope, Variable};

use super::device::Device;

/// The one lane that runs the allocate and free steps.
const LANE: SingleLane = SingleLane::new(0);

/// What the counts of a batch depend on.
struct Values {
    parameters: Vec<u64>,
    totals: Vec<u64>,
}

impl Device<'_> {
    /// Allocates the dynamic buffers of an algorithm. Once the batch has
    /// failed, it only marks them as failed.
    pub(super) fn allocate(&self, algorithm: AlgorithmId, requests: &[Allocation]) {
        let values = self.values();
        for request in requests {
            if let Err((cause, failure)) = self.allocate_one(algorithm, request, &values) {
                self.control.fail(cause, algorithm, failure);
            }
        }
        for scope in SCOPES {
            self.note_high_water(scope);
        }
    }

    fn values(&self) -> Values {
        let sequence = &self.config.sequence;
        let parameter = |(index, _)| {
            let id = crate::sequence::ParameterId::new(index);
            self.control.load(self.config.control.parameter(id))
        };
        let total = |(index, _)| self.control.total(crate::sequence::TotalId::new(index)).1;
        Values {
            parameters: sequence
                .parameters()
                .iter()
                .enumerate()
                .map(parameter)
                .collect(),
            totals: sequence.totals().iter().enumerate().map(total).collect(),
        }
    }

    fn allocate_one(
        &self,
        algorithm: AlgorithmId,
        request: &Allocation,
        values: &Values,
    ) -> Result<(), (Cause, FailedRequest)> {
        let buffer = request.buffer;
        if self.control.failed() {
            self.control.set_status(buffer, Status::Failed);
            return Ok(());
        }
        let (elements, bytes) = self.size(buffer, values).inspect_err(|_| {
            self.control.set_status(buffer, Status::Failed);
        })?;
        let declared = self.config.sequence.buffer(buffer);
        let (name, scope) = (&declared.name, declared.scope);
        let step = &self.config.sequence.algorithm(algorithm).name;
        // Before the attempt, so that the last line is the one that failed.
        tracing::trace!(buffer = %name, bytes, algorithm = %step, %scope, "allocate");
        match self.take(request, bytes) {
            Ok(address) => {
                let status = Status::Live;
                let handle = Handle {
                    address,
                    elements,
                    bytes,
                    status,
                };
                self.control.set_handle(buffer, handle);
                self.account(scope, bytes);
                self.begin(handle);
                Ok(())
            }
            Err(failure) => {
                self.control.set_status(buffer, Status::Failed);
                self.control.add(scope, Count::Failed, 1);
                Err((Cause::NoRoom, failure))
            }
        }
    }

    /// Elements and bytes of a buffer, from the totals.
    fn size(
        &self,
        buffer: BufferId,
        values: &Values,
    ) -> Result<(u64, u64), (Cause, FailedRequest)> {
        let declared = self.config.sequence.buffer(buffer);
        let failed = |cause, total| {
            let buffer = Some(buffer);
            let bytes = u64::MAX;
            (
                cause,
                FailedRequest {
                    buffer,
                    total,
                    bytes,
                    ..FailedRequest::default()
                },
            )
        };
        for &(variable, _) in &declared.count.terms {
            if let Variable::Total(id) = variable
                && self.control.total(id).0 != TotalState::Ready
            {
                return Err(failed(Cause::NoTotal, Some(id)));
            }
        }
        let overflow = |_: CountOverflow| failed(Cause::Overflow, None);
        let (parameters, totals) = (&values.parameters, &values.totals);
        let elements = declared
            .count
            .evaluate(parameters, totals)
            .map_err(overflow)?;
        let bytes = declared.bytes(parameters, totals).map_err(overflow)?;
        Ok((elements, bytes))
    }

    /// The address of a new block with room for `bytes` and their guard.
    fn take(&self, request: &Allocation, bytes: u64) -> Result<u64, FailedRequest> {
        let declared = self.config.sequence.buffer(request.buffer);
        let pool = self.pools[declared.scope as usize].as_ref();
        let pool = pool.expect("a scope with dynamic buffers has a pool");
        // A sum that does not fit is more than any pool has.
        let size = bytes.saturating_add(self.guard_bytes());
        let wanted = Request::new(size)
            .align(declared.alignment)
            .place(request.place);
        match pool.heap.alloc(&LANE, wanted) {
            Ok(offset) => Ok(pool.region.address() + offset),
            Err(_) => {
                let stats = pool.heap.stats();
                Err(FailedRequest {
                    buffer: Some(request.buffer),
                    total: None,
                    bytes: size,
                    free: stats.free_bytes,
                    largest: stats.largest_free_run,
                })
            }
        }
    }

    fn account(&self, scope: Scope, bytes: u64) {
        self.control.add(scope, Count::Allocations, 1);
        self.control.add(scope, Count::Sum, bytes);
        let live = self.control.add(scope, Count::Live, bytes);
        self.control.raise(scope, Count::PeakLive, live);
    }

    /// A pool is fullest at the end of an allocate step.
    fn note_high_water(&self, scope: Scope) {
        if let Some(pool) = &self.pools[scope as usize] {
            let used = pool
                .heap
                .stats_of(&heap_kernels::Survey::default())
                .used_bytes;
            self.control.raise(scope, Count::HighWater, used);
        }
    }

    /// Frees dynamic buffers that are there; others never were.
    pub(super) fn free(&self, algorithm: AlgorithmId, buffers: &[BufferId]) {
        for &buffer in buffers {
            let Some(handle) = self.live(buffer) else {
                continue;
            };
            self.end(algorithm, buffer, handle);
            let scope = self.config.sequence.buffer(buffer).scope;
            let pool = self.pools[scope as usize].as_ref();
            let pool = pool.expect("a scope with dynamic buffers has a pool");
            let offset = handle.address - pool.region.address();
            if let Err(error) = pool.heap.free(&LANE, offset) {
                self.control.find(RawFinding {
                    kind: FindingKind::BadFree,
                    algorithm: algorithm.index() as u64,
                    buffer: buffer.index() as u64,
                    event: NOBODY,
                    index: offset,
                    expected: 0,
                    found: error as u64,
                });
                continue;
            }
            let freed = Handle {
                address: 0,
                status: Status::Freed,
                ..handle
            };
            self.control.set_handle(buffer, freed);
            self.control.add(scope, Count::Frees, 1);
            self.control
                .add(scope, Count::Live, handle.bytes.wrapping_neg());
        }
    }

    /// Sets all bytes of a buffer.
    pub(super) fn fill(&self, buffer: BufferId, byte: u8) {
        if let (false, Some(handle)) = (self.control.failed(), self.live(buffer)) {
            // SAFETY: the buffer is live, and this step is the only one that
            // runs.
            unsafe { self.contents_mut(handle) }.fill(byte);
        }
    }

    /// Copies a buffer onto another of the same size.
    pub(super) fn copy(&self, from: BufferId, to: BufferId) {
        if self.control.failed() {
            return;
        }
        if let (Some(from), Some(to)) = (self.live(from), self.live(to)) {
            let bytes = from.bytes.min(to.bytes);
            // SAFETY: both buffers are live, so they do not overlap, and this
            // step is the only one that runs.
            let (source, target) = unsafe {
                (
                    self.bytes(from.address, bytes),
                    self.bytes_mut(to.address, bytes),
                )
            };
            target.copy_from_slice(source);
        }
    }
}
