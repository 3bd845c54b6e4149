//! Allocation.

use super::answer::{Answer, Packed, Size};
use super::{AllocError, Heap, Request};
use crate::layout::classes::{UNIT, class_of, class_size};
use crate::layout::{Counter, ShardCounter};
use crate::mem::{Fault, Mem, Order};
use crate::runs::{NoRun, Place, RunRequest};
use crate::slab::Grant;
use crate::slab::search::{SEARCHES, SmallRequest};
use crate::slab::slots::{lowest, select};
use crate::warp::{Mask, Warp};

/// One block for all lanes that asked together, and a lane's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpBlock {
    /// Offset of the block: what one of the lanes frees.
    pub base: u64,
    /// Offset of the calling lane's part, aligned to 16 bytes.
    pub offset: u64,
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
        let Request { size, align, place } = request;
        // Every slot has an alignment of up to 16 bytes.
        let usual = align.wrapping_sub(1) < UNIT && align.is_power_of_two();
        if usual && size <= self.pool.geo.small_max() {
            let class = class_of(size);
            let peers = warp.match_any(warp.active(), class.into());
            return self.alloc_small(warp, peers, class);
        }
        self.alloc_unusual(warp, size, align, place).decode()
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
                return self.alloc_rest(warp, peers, class, align.trailing_zeros());
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
                let packed = self.search(self.small(class, 4, 1, shard));
                self.handed_out(shard, packed.served());
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
            self.refused(shard, 1);
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
    #[inline]
    fn alloc_small<W: Warp>(&self, warp: &W, peers: Mask, class: u32) -> Result<u64, AllocError> {
        let leader = peers.trailing_zeros();
        let mut packed = Packed::NONE;
        if warp.lane() == leader {
            let shard = self.pool.geo.shard_of(warp.shard());
            packed = Packed::slots(self.pool.top_slots(shard, class, peers.count_ones()));
            self.handed_out(shard, packed.served());
        }
        let packed = packed.shuffled(warp, peers, leader);
        // What each lane does to its block comes after the leader's acquire.
        warp.sync(peers);
        let rank = (peers & below(warp.lane())).count_ones();
        if rank < packed.served() {
            return Ok(self.slot_offset(packed.grant(), rank));
        }
        let rest = peers & !(lowest(u64::from(peers), packed.served()) as Mask);
        self.alloc_rest(warp, rest, class, UNIT.trailing_zeros())
            .decode()
    }

    /// The lanes of `peers` want one slot each of `class`, wherever there are
    /// some. The lowest acts for all, and who got a slot leaves. Every round
    /// serves one lane at least, or ends for all.
    #[inline(never)]
    fn alloc_rest<W: Warp>(&self, warp: &W, peers: Mask, class: u32, align_log2: u32) -> Answer {
        let mut peers = peers;
        loop {
            let leader = peers.trailing_zeros();
            let mut packed = Packed::NONE;
            if warp.lane() == leader {
                let request = self.small(class, align_log2, peers.count_ones(), warp.shard());
                packed = self.search(request);
                if packed.is_nothing() {
                    self.refused(request.shard, request.lanes);
                }
                self.handed_out(request.shard, packed.served());
            }
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
    fn search(&self, request: SmallRequest) -> Packed {
        Packed::new(self.pool.small_room(&request))
    }

    /// The offset of the `rank`-th slot of what a leader got.
    #[inline]
    fn slot_offset(&self, grant: Grant, rank: u32) -> u64 {
        let rank = if M::FAULT as u8 == Fault::SameSlot as u8 {
            rank / 2
        } else {
            rank
        };
        let slot = grant.word() * 64 + u64::from(select(grant.mask(), rank));
        self.pool.geo.page_start(grant.page()) + slot * class_size(grant.class())
    }

    /// The offset of the `rank`-th block of what a leader got, if it got any.
    fn place_of(&self, packed: Packed, rank: u32) -> Answer {
        if let Some(error) = packed.error() {
            Answer::error(error)
        } else if let Some(page) = packed.run() {
            Answer::offset(self.pool.geo.page_start(page))
        } else {
            Answer::offset(self.slot_offset(packed.grant(), rank))
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
                self.handed_out(shard, 1);
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

    /// Counts blocks, where those of a shard are counted: one word for all
    /// lanes would be what a full card waits for.
    fn handed_out(&self, shard: u32, blocks: u32) {
        let shard = self.pool.geo.shard_of(shard);
        if blocks > 0 {
            let at = self.pool.shard_counter_at(ShardCounter::HandedOut, shard);
            self.pool.mem.fetch_add(at, blocks.into(), Order::Relaxed);
        }
    }

    /// Counts requests that were not met, likewise.
    fn refused(&self, shard: u32, requests: u32) {
        let shard = self.pool.geo.shard_of(shard);
        let at = self.pool.shard_counter_at(ShardCounter::Refused, shard);
        self.pool.mem.fetch_add(at, requests.into(), Order::Relaxed);
    }
}
