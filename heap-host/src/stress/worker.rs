//! One thread's part: its stream applied to the heap and to its shadow model.

use std::sync::atomic::{AtomicU64, Ordering};

use heap_kernels::{AllocError, FreeError, Heap, Mem, ReallocError, Request, SingleLane};
use parking_lot::Mutex;

use super::op::{Op, Stream, mix};
use super::pattern::Bytes;
use super::shadow::{Block, Faults, GRANULE, Map, Tally};

/// Operations between two calls of the progress function.
const PROGRESS: u64 = 1024;

/// What all threads use.
pub(super) struct Shared<'a, M> {
    pub(super) heap: Heap<M>,
    pub(super) bytes: Bytes,
    pub(super) map: Map,
    /// Blocks handed over, by receiver.
    pub(super) mailboxes: Vec<Mutex<Vec<Block>>>,
    pub(super) live: AtomicU64,
    pub(super) max_live: AtomicU64,
    pub(super) faults: Faults,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

/// One thread, between rounds too.
pub(super) struct Worker {
    pub(super) thread: u32,
    pub(super) lane: SingleLane,
    pub(super) blocks: Vec<Block>,
    pub(super) tally: Tally,
    stream: Stream,
    tags: u64,
}

impl<M: Mem> Shared<'_, M> {
    /// Whether the heap may hand out the block: where it lies, its alignment,
    /// and that no byte of it is live.
    fn admit(&self, block: &Block, request: &Request) -> bool {
        let Block { offset, usable, .. } = *block;
        let len = self.heap.mem().len();
        let data = self.heap.geometry().metadata_bytes();
        let inside = offset >= data && offset.checked_add(usable).is_some_and(|end| end <= len);
        let shape = offset.is_multiple_of(GRANULE) && usable.is_multiple_of(GRANULE) && usable > 0;
        let aligned = (self.heap.mem().base() + offset).is_multiple_of(request.align);
        let placed = self.faults.ensure(inside && shape && aligned, || {
            format!(
                "a request for {} bytes aligned to {} got {usable} bytes at offset {offset}",
                request.size, request.align
            )
        });
        if !placed {
            return false;
        }
        self.faults.ensure(usable >= request.size, || {
            format!("a request for {} bytes got only {usable}", request.size)
        });
        self.faults.ensure(self.map.claim(block), || {
            format!("the block of {usable} bytes at offset {offset} overlaps a live one")
        })
    }

    fn grow(&self, bytes: u64) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.max_live.fetch_max(live, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn verify(&self, block: &Block, when: &str) {
        if let Some(at) = self.bytes.mismatch(block.offset, block.usable, block.tag) {
            self.faults.note(|| {
                format!(
                    "byte {at} of the block of {} bytes at offset {} had changed when {when}",
                    block.usable, block.offset
                )
            });
        }
    }

    /// Whether a deliberate wrong free was refused for the right reason. Where
    /// a block began earlier, a double free is one, whatever is there now.
    pub(super) fn refuses(&self, lane: &SingleLane, offset: u64, expected: FreeError) -> bool {
        let result = self.heap.free(lane, offset);
        let double = || {
            let inside = offset < self.heap.mem().len();
            result == Err(FreeError::DoubleFree) && inside && self.map.was_freed(offset)
        };
        self.faults.ensure(result == Err(expected) || double(), || {
            format!("a wrong free of offset {offset} gave {result:?} instead of {expected:?}")
        })
    }

    fn alone(&self) -> bool {
        self.mailboxes.len() == 1
    }
}

impl Worker {
    pub(super) fn new(seed: u64, thread: u32, page_bytes: u64) -> Self {
        Self {
            thread,
            lane: SingleLane::new(thread),
            blocks: Vec::new(),
            tally: Tally::default(),
            stream: Stream::new(seed, thread, page_bytes),
            tags: mix(seed ^ u64::from(thread) << 32),
        }
    }

    /// Runs the next `ops` operations of the stream.
    pub(super) fn round<M: Mem>(&mut self, shared: &Shared<'_, M>, ops: u64) {
        for done in 1..=ops {
            if let Some(op) = self.stream.next() {
                self.apply(shared, op);
            }
            self.tally.ops += 1;
            if done % PROGRESS == 0 || done == ops {
                (shared.progress)((done - 1) % PROGRESS + 1);
            }
        }
    }

    fn apply<M: Mem>(&mut self, shared: &Shared<'_, M>, op: Op) {
        match op {
            Op::Allocate { request, zeroed } => self.allocate(shared, request, zeroed),
            Op::Receive => self.receive(shared),
            Op::FreeOutside { distance } => self.free_outside(shared, distance),
            _ if self.blocks.is_empty() => {}
            Op::Reallocate { pick, request } => self.reallocate(shared, pick, request),
            Op::Verify { pick } => shared.verify(&self.blocks[self.index(pick)], "looked at"),
            Op::Free { pick } => {
                let block = self.take(pick);
                self.free(shared, &block);
            }
            Op::HandOver { pick, ahead } => {
                let block = self.take(pick);
                let to = (u64::from(self.thread) + ahead % 7 + 1) % shared.mailboxes.len() as u64;
                shared.mailboxes[to as usize].lock().push(block);
            }
            Op::FreeInside { pick, by } => self.free_inside(shared, pick, by),
        }
    }

    fn index(&self, pick: u64) -> usize {
        (pick % self.blocks.len() as u64) as usize
    }

    fn take(&mut self, pick: u64) -> Block {
        let index = self.index(pick);
        self.blocks.swap_remove(index)
    }

    fn next_tag(&mut self) -> u64 {
        self.tags = self.tags.wrapping_add(1);
        mix(self.tags)
    }

    fn allocate<M: Mem>(&mut self, shared: &Shared<'_, M>, request: Request, zeroed: bool) {
        let result = if zeroed {
            shared.heap.alloc_zeroed(&self.lane, request)
        } else {
            shared.heap.alloc(&self.lane, request)
        };
        match result {
            Ok(offset) => {
                self.tally.allocations += 1;
                if let Some(block) = self.accept(shared, offset, &request) {
                    self.begin(shared, block, zeroed);
                }
            }
            Err(error) => self.failed(shared, &request, error),
        }
    }

    /// A block for what the heap returned, if it can be used at all.
    fn accept<M: Mem>(
        &mut self,
        shared: &Shared<'_, M>,
        offset: u64,
        request: &Request,
    ) -> Option<Block> {
        let usable = shared.heap.usable_size(offset);
        let Ok(usable) = usable else {
            let message = || format!("the heap denies the block that it gave at offset {offset}");
            shared.faults.note(message);
            return None;
        };
        let block = Block {
            offset,
            size: request.size,
            usable,
            tag: self.next_tag(),
        };
        shared.admit(&block, request).then_some(block)
    }

    fn begin<M: Mem>(&mut self, shared: &Shared<'_, M>, block: Block, zeroed: bool) {
        if zeroed && let Some(at) = shared.bytes.nonzero(block.offset, block.size) {
            shared.faults.note(|| {
                format!(
                    "byte {at} of a zeroed block of {} bytes at offset {} is not zero",
                    block.size, block.offset
                )
            });
        }
        shared.bytes.write(block.offset, block.usable, block.tag);
        shared.grow(block.size);
        self.blocks.push(block);
    }

    /// A refusal is right where nothing fits; alone, that can be seen.
    fn failed<M: Mem>(&mut self, shared: &Shared<'_, M>, request: &Request, error: AllocError) {
        self.tally.failed += 1;
        if !shared.alone() {
            return;
        }
        shared.faults.ensure(error == AllocError::OutOfMemory, || {
            format!("a lone request for {} bytes got: {error}", request.size)
        });
        let stats = shared.heap.stats();
        let page_aligned = request.align <= shared.heap.geometry().page_size();
        let fits = page_aligned && stats.largest_free_run >= request.size;
        shared.faults.ensure(!fits, || {
            format!(
                "a request for {} bytes was refused though a hole of {} is free",
                request.size, stats.largest_free_run
            )
        });
    }

    fn reallocate<M: Mem>(&mut self, shared: &Shared<'_, M>, pick: u64, request: Request) {
        let old = self.take(pick);
        shared.verify(&old, "reallocated");
        // The old place may be somebody's before the call returns.
        self.end(shared, &old);
        match shared.heap.realloc(&self.lane, old.offset, request) {
            Ok(offset) => {
                self.tally.reallocations += 1;
                self.tally.moves += u64::from(offset != old.offset);
                if let Some(block) = self.accept(shared, offset, &request) {
                    let kept = old.usable.min(block.size);
                    if let Some(at) = shared.bytes.mismatch(offset, kept, old.tag) {
                        shared.faults.note(|| {
                            format!(
                                "byte {at} of {kept} changed in a reallocation to offset {offset}"
                            )
                        });
                    }
                    self.begin(shared, block, false);
                }
            }
            Err(error) => {
                shared.map.claim(&old);
                shared.grow(old.size);
                self.blocks.push(old);
                match error {
                    ReallocError::Alloc(error) => self.failed(shared, &request, error),
                    error => shared
                        .faults
                        .note(|| format!("a live block was denied: {error}")),
                }
            }
        }
    }

    /// The model's part of a free.
    fn end<M: Mem>(&self, shared: &Shared<'_, M>, block: &Block) {
        shared.faults.ensure(shared.map.release(block), || {
            format!("a part of the block at offset {} was freed", block.offset)
        });
        shared.shrink(block.size);
    }

    pub(super) fn free<M: Mem>(&mut self, shared: &Shared<'_, M>, block: &Block) {
        shared.verify(block, "freed");
        self.end(shared, block);
        let result = shared.heap.free(&self.lane, block.offset);
        self.tally.frees += u64::from(result.is_ok());
        if let Err(error) = result {
            shared.faults.note(|| {
                format!(
                    "the free of the live block at {} gave: {error}",
                    block.offset
                )
            });
        }
    }

    fn receive<M: Mem>(&mut self, shared: &Shared<'_, M>) {
        let received = std::mem::take(&mut *shared.mailboxes[self.thread as usize].lock());
        for (index, block) in received.into_iter().enumerate() {
            if index % 2 == 0 {
                self.free(shared, &block);
            } else {
                shared.verify(&block, "received");
                self.blocks.push(block);
            }
        }
    }

    fn free_inside<M: Mem>(&mut self, shared: &Shared<'_, M>, pick: u64, by: u64) {
        let block = self.blocks[self.index(pick)];
        let offset = block.offset + 1 + by % (block.usable - 1);
        let refused = shared.refuses(&self.lane, offset, FreeError::InsideBlock);
        self.tally.refused_frees += u64::from(refused);
    }

    fn free_outside<M: Mem>(&mut self, shared: &Shared<'_, M>, distance: u64) {
        let (len, data) = (
            shared.heap.mem().len(),
            shared.heap.geometry().metadata_bytes(),
        );
        let offset = match distance % 4 {
            0 => len,
            1 => len.saturating_add(distance),
            2 => u64::MAX - distance % 4096,
            _ => distance % data,
        };
        let refused = shared.refuses(&self.lane, offset, FreeError::OutsidePool);
        self.tally.refused_frees += u64::from(refused);
    }
}
