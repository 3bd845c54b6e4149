//! Allocation.

use super::answer::{Answer, Packed, Size};
use super::{AllocError, Heap, Request};
use crate::layout::classes::{LAZY_CLASS, UNIT, class_of, class_of_u32, class_size, slot_start};
use crate::layout::words::{PageUse, PageWord, SlabKind};
use crate::layout::{Counter, Pool, ShardCounter};
use crate::mem::{Fault, Mem, Order};
use crate::runs::{NoRun, Place, RunRequest};
use crate::slab::Grant;
use crate::slab::search::{SEARCHES, SmallRequest};
use crate::slab::slots::{lowest, select};
use crate::slab::stack::Begun;
use crate::warp::{Mask, Warp};

/// One block for all lanes that asked together, and a lane's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpBlock {
    /// Offset of the block: what one of the lanes frees.
    pub base: u64,
    /// Offset of the calling lane's part, aligned to 16 bytes.
    pub offset: u64,
}

/// What the usual way of an allocation leaves to be done: for lanes that want one
/// class, where something was begun; or all of it, where there are no such lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    peers: Mask,
    class: u32,
    begun: Begun,
}

impl Rest {
    const UNUSUAL: Self = Self {
        peers: 0,
        class: 0,
        begun: Begun::NOTHING,
    };
}

const fn below(lane: u32) -> Mask {
    (1 << lane) - 1
}

impl<M: Mem> Heap<M> {
    /// Allocates one block for each lane that calls this together; lanes may
    /// ask for different sizes. The offset of the calling lane's block.
    ///
    /// Lanes that want the same class share atomics: two that depend on each
    /// other for up to 32 blocks, as a rule. Expected constant time for small
    /// requests, a search over the pool's holes for larger ones; the bound on
    /// a request that cannot be met is in DESIGN.md.
    ///
    /// The bytes are whatever was there before.
    ///
    /// # Errors
    ///
    /// [`AllocError`], for each lane by itself.
    #[inline]
    pub fn alloc<W: Warp>(&self, warp: &W, request: Request) -> Result<u64, AllocError> {
        match self.alloc_quick(&self.pool.hot(), warp, request) {
            Ok(offset) => Ok(offset),
            Err(rest) => self.alloc_slow(warp, request, rest).decode(),
        }
    }

    /// The usual way of [`alloc`](Self::alloc). `hot` is a copy of the pool.
    ///
    /// # Errors
    ///
    /// What is left, for [`alloc_slow`](Self::alloc_slow).
    #[inline(always)]
    pub(crate) fn alloc_quick<W: Warp>(
        &self,
        hot: &Pool<M>,
        warp: &W,
        request: Request,
    ) -> Result<u64, Rest> {
        let Request { size, align, .. } = request;
        // Every slot has an alignment of up to 16 bytes.
        let usual = align.wrapping_sub(1) < UNIT && align.is_power_of_two();
        let class = class_of_u32(size as u32);
        if !usual || size >> 31 != 0 || class >= hot.geo.classes {
            return Err(Rest::UNUSUAL);
        }
        let peers = warp.match_any(warp.active(), class.into());
        self.alloc_small(hot, warp, peers, class)
    }

    /// All that is rare in an allocation: behind one call, beyond which nothing
    /// has to be kept, so that the usual way needs few registers.
    #[inline(always)]
    pub(crate) fn alloc_slow<W: Warp>(&self, warp: &W, request: Request, rest: Rest) -> Answer {
        let Rest {
            peers,
            class,
            begun,
        } = rest;
        if peers == 0 {
            let Request { size, align, place } = request;
            return self.alloc_unusual(warp, size, align, place);
        }
        // One by one: a structure of three words goes through memory.
        let (head, old, got) = begun.words();
        self.alloc_begun(warp, peers, class, head, old, got)
    }

    /// Requests that no slot of their size's own class meets.
    #[inline(never)]
    fn alloc_unusual<W: Warp>(&self, warp: &W, size: u64, align: u64, place: Place) -> Answer {
        const APART: u64 = u64::MAX;
        let size = self.measure(size, align);
        let key = match size {
            Ok(Size::Small { class }) => u64::from(class) | u64::from(align.trailing_zeros()) << 8,
            _ => APART,
        };
        let peers = warp.match_any(warp.active(), key);
        let answer = match size {
            Ok(Size::Small { class }) => {
                let align = align.trailing_zeros();
                return self.alloc_rest(warp, peers, class, align, Begun::NOTHING);
            }
            Ok(Size::Large { pages }) => self.alloc_run(warp.shard(), pages, align, place),
            Err(error) => Answer::error(error),
        };
        self.noted(warp.shard(), answer)
    }

    /// [`alloc`](Self::alloc), and sets the requested bytes to zero.
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc).
    pub fn alloc_zeroed<W: Warp>(&self, warp: &W, request: Request) -> Result<u64, AllocError> {
        let offset = self.alloc(warp, request)?;
        // SAFETY: the block has at least so many bytes, and is the caller's.
        unsafe { self.pool.mem.fill(offset, request.size, 0) };
        Ok(offset)
    }

    /// Allocates one block for all lanes that call this together, `size` bytes
    /// (rounded up to 16) for the calling lane: one allocation for the warp's
    /// total. Any one lane frees [`WarpBlock::base`], once, for all.
    ///
    /// # Errors
    ///
    /// [`AllocError`], the same for all lanes.
    pub fn alloc_warp<W: Warp>(&self, warp: &W, size: u64) -> Result<WarpBlock, AllocError> {
        let active = warp.active();
        let leader = active.trailing_zeros();
        let (mut before, mut total) = (0u64, Some(0u64));
        let mut lanes = active;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let theirs = warp.shuffle(active, size, lane);
            if lane == warp.lane() {
                before = total.unwrap_or(0);
            }
            total = theirs
                .checked_next_multiple_of(16)
                .zip(total)
                .and_then(|(part, sum)| sum.checked_add(part));
        }
        let mut answer = Answer::offset(0);
        if warp.lane() == leader {
            answer = self.alloc_one(warp.shard(), total);
        }
        let answer = answer.shuffled(warp, active, leader);
        warp.sync(active);
        let base = answer.decode()?;
        Ok(WarpBlock {
            base,
            offset: base + before,
        })
    }

    /// A block for one lane alone; `None` is a size beyond 64 bits.
    #[inline(never)]
    fn alloc_one(&self, shard: u32, size: Option<u64>) -> Answer {
        let size = size.ok_or(AllocError::TooLarge);
        let answer = match size.and_then(|size| self.measure(size, UNIT)) {
            Ok(Size::Small { class }) => {
                let packed = self.search(self.small(class, 4, 1, shard), Begun::NOTHING);
                self.pool
                    .handed_out(self.pool.geo.shard_of(shard), packed.served());
                self.place_of(packed, 0)
            }
            Ok(Size::Large { pages }) => self.alloc_run(shard, pages, UNIT, Place::Best),
            Err(error) => Answer::error(error),
        };
        self.noted(shard, answer)
    }

    /// Counts a request of one lane that was not met.
    fn noted(&self, shard: u32, answer: Answer) -> Answer {
        if answer.is_error() {
            self.pool.count_refused(self.pool.geo.shard_of(shard), 1);
        }
        answer
    }

    fn measure(&self, size: u64, align: u64) -> Result<Size, AllocError> {
        let geo = &self.pool.geo;
        if !align.is_power_of_two() {
            return Err(AllocError::BadAlignment);
        }
        if size > geo.page_bytes() {
            return Err(AllocError::TooLarge);
        }
        if size <= geo.small_max() && align <= geo.page_size() {
            let fitting = (class_of(size)..geo.classes)
                .find(|&class| class_size(class).is_multiple_of(align));
            if let Some(class) = fitting {
                return Ok(Size::Small { class });
            }
        }
        Ok(Size::Large {
            pages: size.div_ceil(geo.page_size()).max(1),
        })
    }

    fn small(&self, class: u32, align_log2: u32, lanes: u32, shard: u32) -> SmallRequest {
        SmallRequest {
            class,
            align_log2,
            lanes,
            shard: self.pool.geo.shard_of(shard),
        }
    }

    /// The lanes of `peers` want one slot each of `class`. The lowest acts for
    /// all: it looks where there nearly always are some, and shows the others
    /// what it got. Inlined, so what is rare is not: that would cost the usual
    /// registers.
    #[inline(always)]
    fn alloc_small<W: Warp>(
        &self,
        hot: &Pool<M>,
        warp: &W,
        peers: Mask,
        class: u32,
    ) -> Result<u64, Rest> {
        let leader = peers.trailing_zeros();
        // The slab's first page, the first slot (of neighbours) plus one, and the
        // slab's scale, from low to high.
        let (mut found, mut begun) = (0, Begun::NOTHING);
        if warp.lane() == leader {
            let (shard, lanes) = (hot.geo.shard_of(warp.shard()), peers.count_ones());
            match hot.begin(shard, class, lanes) {
                Ok((page, scale, slot)) => {
                    found = u64::from((scale << 16) | (slot + 1)) << 32 | u64::from(page);
                    hot.handed_out(shard, lanes);
                }
                Err(what) => begun = what,
            }
        }
        let found = warp.shuffle(peers, found, leader);
        // What each lane does to its block comes after the leader's acquire.
        warp.sync(peers);
        if found != 0 {
            let mut rank = (peers & below(warp.lane())).count_ones();
            if M::FAULT as u8 == Fault::SameSlot as u8 {
                rank /= 2;
            }
            let (page, slot) = (found as u32, (found >> 32) as u32 & 0xffff);
            let start = slot_start(class, slot - 1 + rank);
            if class >= LAZY_CLASS {
                let scale = (found >> 48) as u32;
                // Not `hot`: where the page words are is not kept for this alone.
                self.pool
                    .mark_page(SlabKind { class, scale }, page, page, start);
            }
            return Ok(hot.geo.page_start(page.into()) + start);
        }
        Err(Rest {
            peers,
            class,
            begun,
        })
    }

    /// The rest of [`alloc_small`](Self::alloc_small).
    #[inline(never)]
    fn alloc_begun<W: Warp>(
        &self,
        warp: &W,
        peers: Mask,
        class: u32,
        head: u64,
        old: u64,
        got: u64,
    ) -> Answer {
        let begun = Begun::from_words(head, old, got);
        if self.all_refused(warp, peers, class, begun) {
            return Answer::error(AllocError::OutOfMemory);
        }
        self.alloc_rest(warp, peers, class, UNIT.trailing_zeros(), begun)
    }

    /// Refuses the lanes of `peers` where that was proved for others and nothing
    /// has changed: a full heap answers at once. The lowest looks for all.
    fn all_refused<W: Warp>(&self, warp: &W, peers: Mask, class: u32, begun: Begun) -> bool {
        let leader = peers.trailing_zeros();
        let mut refused = false;
        if warp.lane() == leader && begun.is_nothing() {
            let pool = self.pool.hot();
            let amount = u64::from(class) + 1;
            refused = pool.refused(Counter::SlotRefusal, pool.changes(), amount);
            if refused {
                pool.count_refused(pool.geo.shard_of(warp.shard()), peers.count_ones());
            }
        }
        warp.shuffle(peers, refused.into(), leader) != 0
    }

    /// The lanes of `peers` want one slot each of `class`, wherever there are
    /// some. The lowest acts for all, first where it has `begun`, and who got a
    /// slot leaves. Every round serves one lane at least, or ends for all.
    #[inline(never)]
    fn alloc_rest<W: Warp>(
        &self,
        warp: &W,
        peers: Mask,
        class: u32,
        align_log2: u32,
        begun: Begun,
    ) -> Answer {
        let (mut peers, mut begun) = (peers, begun);
        loop {
            let leader = peers.trailing_zeros();
            let mut packed = Packed::NONE;
            if warp.lane() == leader {
                let request = self.small(class, align_log2, peers.count_ones(), warp.shard());
                packed = self.search(request, begun);
                if packed.is_nothing() {
                    self.pool.count_refused(request.shard, request.lanes);
                }
                self.pool.handed_out(request.shard, packed.served());
            }
            begun = Begun::NOTHING;
            let packed = packed.shuffled(warp, peers, leader);
            warp.sync(peers);
            let rank = (peers & below(warp.lane())).count_ones();
            if packed.is_nothing() || rank < packed.served() {
                return self.place_of(packed, rank);
            }
            peers &= !(lowest(u64::from(peers), packed.served()) as Mask);
        }
    }

    #[inline(never)]
    fn search(&self, request: SmallRequest, begun: Begun) -> Packed {
        let SmallRequest {
            class,
            lanes,
            shard,
            ..
        } = request;
        let grant = self.pool.finish(shard, class, lanes, begun);
        if grant.count() > 0 {
            return Packed::slots(grant);
        }
        Packed::new(self.pool.small_room(&request))
    }

    /// The offset of the `rank`-th block of what a leader got, if it got any.
    fn place_of(&self, packed: Packed, rank: u32) -> Answer {
        if let Some(error) = packed.error() {
            Answer::error(error)
        } else if let Some(page) = packed.run() {
            Answer::offset(self.pool.geo.page_start(page))
        } else {
            Answer::offset(self.pool.slot_offset(packed.grant(), rank))
        }
    }

    #[inline(never)]
    fn alloc_run(&self, shard: u32, pages: u64, align: u64, place: Place) -> Answer {
        let pool = &self.pool;
        if pages > pool.geo.pages {
            return Answer::error(AllocError::TooLarge);
        }
        let wanted = RunRequest {
            pages,
            align,
            place,
            from: 0,
            spread: shard,
        };
        for _ in 0..SEARCHES {
            let before = pool.changes();
            if pool.refused(Counter::PageRefusal, before, pages) {
                return Answer::error(AllocError::OutOfMemory);
            }
            let mut found = pool.take_run(&wanted);
            for enough in [pages, u64::MAX] {
                if found.is_err() && pool.reclaim(enough, shard) {
                    found = pool.take_run(&wanted);
                }
            }
            if let Ok(page) = found {
                pool.begin_run(page, pages);
                self.pool.handed_out(self.pool.geo.shard_of(shard), 1);
                return Answer::offset(pool.geo.page_start(page));
            }
            if found == Err(NoRun::Nothing) && self.prove_no_run(before, &wanted) {
                return Answer::error(AllocError::OutOfMemory);
            }
        }
        Answer::error(AllocError::Contended)
    }

    /// Whether a search that found nothing shows that nothing fits.
    fn prove_no_run(&self, before: u64, wanted: &RunRequest) -> bool {
        if wanted.align <= self.pool.geo.page_size() {
            return self
                .pool
                .prove_refusal(Counter::PageRefusal, before, wanted.pages);
        }
        // In vain with this alignment; no proof for others.
        self.pool.changes() == before
    }
}

impl<M: Mem> Pool<M> {
    /// Counts blocks, where those of a shard are counted: one word for all
    /// lanes would be what a full card waits for.
    #[inline]
    fn handed_out(&self, shard: u32, blocks: u32) {
        if blocks > 0 {
            let at = self.shard_counter_at(ShardCounter::HandedOut, shard);
            self.mem.fetch_add(at, blocks.into(), Order::Relaxed);
        }
    }

    /// Counts requests that were not met, likewise.
    #[inline]
    fn count_refused(&self, shard: u32, requests: u32) {
        let at = self.shard_counter_at(ShardCounter::Refused, shard);
        self.mem.fetch_add(at, requests.into(), Order::Relaxed);
    }

    /// The offset of the `rank`-th slot of what a leader got.
    fn slot_offset(&self, grant: Grant, rank: u32) -> u64 {
        let rank = if M::FAULT as u8 == Fault::SameSlot as u8 {
            rank / 2
        } else {
            rank
        };
        let start = slot_start(grant.class(), grant.first() + select(grant.mask(), rank));
        let first = self.page_word(grant.page(), Order::Relaxed).decode();
        if let PageUse::Slab {
            kind, descriptor, ..
        } = first
            && kind.class >= LAZY_CLASS
        {
            self.mark_page(kind, grant.page() as u32, descriptor, start);
        }
        self.geo.page_start(grant.page()) + start
    }

    /// Writes the word of the page in which the slot at `start` bytes of a slab
    /// begins (see [`LAZY_CLASS`]): for whoever frees the slot, and gets its
    /// address from the calling lane.
    #[inline(always)]
    fn mark_page(&self, kind: SlabKind, first: u32, descriptor: u32, start: u64) {
        if M::FAULT as u8 == Fault::NoMark as u8 {
            return;
        }
        let index = start >> self.geo.page_shift;
        let word = PageWord::slab(kind, index as u32, descriptor);
        let at = self.page_word_at(u64::from(first) + index);
        self.mem.store(at, word.0, Order::Relaxed);
    }
}
