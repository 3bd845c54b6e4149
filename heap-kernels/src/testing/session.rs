//! A heap and its model side by side: each operation is done on the one and
//! checked against the other.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::memory::HostBytes;
use super::pattern::{first_difference, is_zero, mark};
use super::program::Op;
use super::shadow::{Block, Part, Shadow, Taken};
use crate::{
    AllocError, FreeError, Heap, ReallocError, Request, SingleLane, Stats, Warp, class_size,
};

/// A heap under test, with what it should hold.
#[derive(Debug)]
pub struct Session<M> {
    heap: Heap<M>,
    model: Mutex<Model>,
    keys: AtomicU64,
    /// Whether nobody else is at work while an operation runs, so that every
    /// refusal must be right.
    alone: bool,
    fresh: Stats,
}

#[derive(Debug)]
struct Model {
    shadow: Shadow,
    handed_out: u64,
    bad_frees: u64,
    /// The first refused free, where `alone` tells which it was.
    offender: Option<(FreeError, u64)>,
    deferred: Vec<Op>,
}

impl<M: HostBytes> Session<M> {
    /// Starts on an empty heap. `alone` says that operations will come one at
    /// a time.
    pub fn new(heap: Heap<M>, alone: bool) -> Self {
        let fresh = heap.stats();
        let model = Model {
            shadow: Shadow::new(heap.mem().base(), heap.geometry()),
            handed_out: 0,
            bad_frees: 0,
            offender: None,
            deferred: Vec::new(),
        };
        Self {
            heap,
            model: Mutex::new(model),
            keys: AtomicU64::new(1),
            alone,
            fresh,
        }
    }

    /// The heap.
    pub const fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// The model; never held while the heap is called, since a simulated lane
    /// can lose its turn there. A lane that panicked has failed the test
    /// already, so its poison says nothing new.
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Does `op` as the lane of `warp`.
    ///
    /// # Panics
    ///
    /// If the heap does anything that the model does not allow.
    pub fn perform<W: Warp>(&self, warp: &W, op: Op) {
        match op {
            Op::Alloc { request, zeroed } => self.alloc(warp, request, zeroed),
            Op::AllocWarp { size } => self.alloc_warp(warp, size),
            Op::Free { which } => self.free(warp, which as usize),
            Op::Realloc { which, request } => self.realloc(warp, which as usize, request),
            Op::FreeInside { which, by } => self.free_inside(warp, which as usize, by),
            Op::FreeOutside { offset } => {
                let offset = self.model().shadow.outside(offset);
                self.bad_free(warp, offset);
            }
            Op::FreeAgain { .. } | Op::FreeAnywhere { .. } if !self.alone => {
                self.model().deferred.push(op);
            }
            Op::FreeAgain { which } => {
                let offset = self.model().shadow.freed(which as usize);
                if let Some(offset) = offset {
                    self.bad_free(warp, offset);
                }
            }
            Op::FreeAnywhere { offset } => {
                let offset = self.model().shadow.inside(offset);
                self.bad_free(warp, offset);
            }
        }
    }

    fn alloc<W: Warp>(&self, warp: &W, request: Request, zeroed: bool) {
        let result = if zeroed {
            self.heap.alloc_zeroed(warp, request)
        } else {
            self.heap.alloc(warp, request)
        };
        match result {
            Ok(offset) => {
                let clean = !zeroed || is_zero(self.heap.mem(), offset, request.size);
                assert!(clean, "{request:?} at {offset:#x} is not zeroed");
                self.adopt(offset, request);
                self.model().handed_out += 1;
            }
            Err(error) => self.check_refusal(error, &request),
        }
    }

    /// Marks a new block and enters it into the model.
    fn adopt(&self, offset: u64, request: Request) {
        let key = self.key();
        let usable = self.usable(offset);
        let block = Block {
            size: request.size,
            usable,
            key,
        };
        assert!(
            usable >= request.size,
            "{block:?} at {offset:#x} is too small"
        );
        // Before others can find it in the model; if it is not ours, whoever
        // owns it finds out.
        mark(self.heap.mem(), offset, usable, key);
        self.model().shadow.insert(offset, block, request.align);
    }

    fn usable(&self, offset: u64) -> u64 {
        match self.heap.usable_size(offset) {
            Ok(usable) => usable,
            Err(error) => panic!("usable_size of a live block at {offset:#x}: {error}"),
        }
    }

    fn alloc_warp<W: Warp>(&self, warp: &W, size: u64) {
        match self.heap.alloc_warp(warp, size) {
            Ok(block) => {
                let key = self.key();
                mark(self.heap.mem(), block.offset, size, key);
                let usable = self.usable(block.base);
                let part = Part {
                    offset: block.offset,
                    size,
                    key,
                };
                let mut model = self.model();
                let new = model.shadow.insert_part(block.base, usable, part);
                model.handed_out += u64::from(new);
            }
            Err(AllocError::BadAlignment) => panic!("a warp's block has no odd alignment"),
            Err(AllocError::Contended) if self.alone => panic!("contended, though alone"),
            // The others' sizes are not known here.
            Err(_) => {}
        }
    }

    /// Whether the refusal of `request` is right.
    fn check_refusal(&self, error: AllocError, request: &Request) {
        let page_bytes = self.heap.geometry().page_bytes();
        let expected = if !request.align.is_power_of_two() {
            AllocError::BadAlignment
        } else if request.size > page_bytes {
            AllocError::TooLarge
        } else {
            let memory = matches!(error, AllocError::OutOfMemory | AllocError::Contended);
            assert!(memory, "{request:?} was refused: {error}");
            if self.alone {
                assert_eq!(error, AllocError::OutOfMemory, "contended, though alone");
                self.check_no_hole(request);
            }
            return;
        };
        assert_eq!(error, expected, "{request:?}");
    }

    /// The heap is at rest, and has refused `request`.
    fn check_no_hole(&self, request: &Request) {
        let (geo, stats) = (self.heap.geometry(), self.heap.stats());
        let page = geo.page_size();
        let run = request.size.div_ceil(page).max(1) * page;
        let needed = run.saturating_add(request.align.saturating_sub(page));
        assert!(
            stats.largest_free_run < needed,
            "{request:?} was refused, but {} bytes are free in one run",
            stats.largest_free_run
        );
        if request.size <= geo.small_max() && request.align <= page {
            for class in crate::class_of(request.size)..geo.classes() {
                let free = self.heap.class_stats(class).free_blocks;
                let fits = class_size(class).is_multiple_of(request.align);
                assert!(
                    free == 0 || !fits,
                    "{request:?} was refused, but {free} slots of {} bytes are free",
                    class_size(class)
                );
            }
        }
    }

    /// Whether a block's contents are still there.
    fn verify(&self, taken: &Taken) {
        let Taken {
            offset,
            block,
            parts,
        } = taken;
        if parts.is_empty() {
            self.verify_range(*offset, (block.usable, block.usable), block.key);
        }
        for part in parts {
            self.verify_range(part.offset, (part.size, part.size), part.key);
        }
    }

    fn verify_range(&self, offset: u64, (len, prefix): (u64, u64), key: u64) {
        if let Some(at) = first_difference(self.heap.mem(), offset, (len, prefix), key) {
            panic!("byte {at} of the live block of {len} bytes at {offset:#x} was overwritten");
        }
    }

    fn free<W: Warp>(&self, warp: &W, which: usize) {
        let taken = self.model().shadow.take(which);
        if let Some(taken) = taken {
            self.free_taken(warp, &taken);
        }
    }

    fn free_taken<W: Warp>(&self, warp: &W, taken: &Taken) {
        self.verify(taken);
        self.model().shadow.note_freed(taken.offset);
        let result = self.heap.free(warp, taken.offset);
        assert_eq!(result, Ok(()), "free of a live block: {taken:?}");
    }

    fn realloc<W: Warp>(&self, warp: &W, which: usize, request: Request) {
        let taken = self.model().shadow.take(which);
        let Some(taken) = taken else { return };
        self.verify(&taken);
        match self.heap.realloc(warp, taken.offset, request) {
            Ok(offset) => self.reallocated(&taken, offset, request),
            Err(ReallocError::Free(error)) => panic!("realloc of the live {taken:?}: {error}"),
            Err(ReallocError::Alloc(error)) => {
                self.verify(&taken);
                self.model().shadow.put_back(taken);
                self.check_refusal(error, &request);
            }
        }
    }

    fn reallocated(&self, old: &Taken, offset: u64, request: Request) {
        let old_usable = old.block.usable;
        let kept = old_usable.min(request.size);
        if old.parts.is_empty() {
            self.verify_range(offset, (old_usable, kept), old.block.key);
        }
        for part in &old.parts {
            let inside = part.offset - old.offset;
            let kept = kept.saturating_sub(inside).min(part.size);
            self.verify_range(offset + inside, (part.size, kept), part.key);
        }
        if offset != old.offset {
            let mut model = self.model();
            model.shadow.note_freed(old.offset);
            model.handed_out += 1;
        }
        self.adopt(offset, request);
    }

    fn free_inside<W: Warp>(&self, warp: &W, which: usize, by: u64) {
        let mut model = self.model();
        let Some(offset) = model.shadow.nth(which) else {
            return;
        };
        let usable = model.shadow.usable(offset);
        let inside = offset + 1 + by % (usable - 1);
        let allowed = model.shadow.refusals(inside);
        // Out of the model meanwhile, so that nobody frees the block.
        let taken = model.shadow.take_at(offset);
        drop(model);
        self.refused_free(warp, inside, allowed);
        if let Some(taken) = taken {
            self.verify(&taken);
            self.model().shadow.put_back(taken);
        }
    }

    /// Frees at `offset`, where no live block begins.
    fn bad_free<W: Warp>(&self, warp: &W, offset: u64) {
        let allowed = self.model().shadow.refusals(offset);
        if !allowed.is_empty() {
            self.refused_free(warp, offset, allowed);
        }
    }

    fn refused_free<W: Warp>(&self, warp: &W, offset: u64, allowed: &[FreeError]) {
        let before = self.alone.then(|| self.heap.stats());
        let error = match self.heap.free(warp, offset) {
            Ok(()) => panic!("free of {offset:#x}, where no live block begins, succeeded"),
            Err(error) => error,
        };
        assert!(
            allowed.contains(&error),
            "free of {offset:#x}: {error:?}, not {allowed:?}"
        );
        let mut model = self.model();
        model.bad_frees += 1;
        model.offender.get_or_insert((error, offset));
        drop(model);
        if let Some(mut before) = before {
            before.bad_frees += 1;
            assert_eq!(self.heap.stats(), before, "a refused free changed the heap");
        }
    }

    /// Nobody is at work: compares everything.
    ///
    /// # Panics
    ///
    /// If the heap is damaged or does not agree with the model.
    pub fn settle(&self) {
        self.check_heap();
        let deferred = core::mem::take(&mut self.model().deferred);
        for op in deferred {
            match op {
                Op::FreeAgain { which } => {
                    let offset = self.model().shadow.freed(which as usize);
                    if let Some(offset) = offset {
                        self.bad_free(&SingleLane::new(0), offset);
                    }
                }
                Op::FreeAnywhere { offset } => {
                    let offset = self.model().shadow.inside(offset);
                    self.bad_free(&SingleLane::new(0), offset);
                }
                _ => {}
            }
        }
        self.probe();
        self.check_heap();
    }

    fn check_heap(&self) {
        if let Err(corruption) = self.heap.check() {
            panic!("{corruption}");
        }
        let mut model = self.model();
        model.shadow.settle();
        for (offset, block, parts) in model.shadow.iter() {
            assert_eq!(
                self.usable(offset),
                block.usable,
                "the size of {block:?} changed"
            );
            self.verify(&Taken {
                offset,
                block,
                parts: parts.to_vec(),
            });
        }
        let stats = self.heap.stats();
        assert_eq!(stats.live_blocks, model.shadow.blocks(), "live blocks");
        assert_eq!(stats.live_bytes, model.shadow.bytes(), "live bytes");
        assert_eq!(stats.bad_frees, model.bad_frees, "refused frees");
        assert_eq!(stats.allocations, model.handed_out, "blocks handed out");
        let offender = self
            .heap
            .offender()
            .map(|first| (first.error, first.offset));
        if self.alone {
            assert_eq!(offender, model.offender, "the first refused free");
        } else {
            assert_eq!(offender.is_some(), model.offender.is_some());
        }
    }

    /// What the statistics say is free can be had.
    fn probe(&self) {
        let lane = SingleLane::new(0);
        let largest = self.heap.stats().largest_free_run;
        if largest == 0 {
            return;
        }
        match self.heap.alloc(&lane, Request::new(largest)) {
            Ok(offset) => {
                let freed = self.heap.free(&lane, offset);
                assert_eq!(freed, Ok(()), "free of all that was free");
                let mut model = self.model();
                model.shadow.note_freed(offset);
                model.handed_out += 1;
            }
            Err(error) => panic!("{largest} bytes are free in one run, but: {error}"),
        }
    }

    /// Gives empty slabs back.
    pub fn reclaim(&self) {
        self.heap.reclaim();
        self.check_heap();
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.heap.reset();
        let mut model = self.model();
        model.shadow.clear();
        model.handed_out = 0;
        model.bad_frees = 0;
        model.offender = None;
        drop(model);
        assert_eq!(self.heap.stats(), self.fresh, "after a reset");
        self.check_heap();
    }

    /// Checks that every live block's contents are intact, whatever state
    /// stopped lanes have left the heap in.
    pub fn verify_contents(&self) {
        let model = self.model();
        for (offset, block, parts) in model.shadow.iter() {
            self.verify(&Taken {
                offset,
                block,
                parts: parts.to_vec(),
            });
        }
    }

    /// Frees all that is live, as far as the model knows.
    ///
    /// # Panics
    ///
    /// If a block's contents were overwritten, or its free is refused.
    pub fn free_all(&self) {
        let lane = SingleLane::new(0);
        loop {
            let taken = self.model().shadow.take(0);
            let Some(taken) = taken else { break };
            self.free_taken(&lane, &taken);
        }
    }

    /// Frees all that is live, and checks that nothing is missing then.
    ///
    /// # Panics
    ///
    /// If the accounting does not end at zero, or the largest block that the
    /// empty heap could give cannot be had.
    pub fn finish(self) {
        self.settle();
        self.free_all();
        self.check_heap();
        assert_eq!(
            self.heap.stats().largest_free_run,
            self.fresh.largest_free_run
        );
        self.probe();
        self.reclaim();
        let stats = self.heap.stats();
        assert_eq!(
            (stats.live_blocks, stats.live_bytes, stats.used_bytes),
            (0, 0, 0)
        );
        assert_eq!(stats.free_bytes, self.fresh.free_bytes);
    }
}
