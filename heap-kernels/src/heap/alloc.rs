//! Allocation.

use super::{AllocError, Heap, Request};
use crate::layout::Counter;
use crate::layout::classes::{class_of, class_size};
use crate::mem::{Fault, Mem, Order};
use crate::runs::{NoRun, RunRequest};
use crate::slab::search::{Room, SEARCHES, SmallRequest};
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

/// How a request is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small { class: u32 },
    Large { pages: u64 },
}

/// A [`Room`] in two words, as lanes shuffle it.
#[derive(Clone, Copy)]
struct Packed {
    place: u64,
    mask: u64,
}

impl Packed {
    const NOTHING: u64 = 1 << 63;
    const CONTENDED: u64 = Self::NOTHING | 1;
    const RUN: u64 = 1 << 62;

    /// place: kind 2, (14 unused), class 8, word 8, page 32.
    fn new(room: Result<Room, NoRun>) -> Self {
        match room {
            Ok(Room::Slots(grant)) => {
                let where_ = u64::from(grant.class) << 40 | u64::from(grant.word) << 32;
                Self {
                    place: where_ | u64::from(grant.page),
                    mask: grant.mask,
                }
            }
            Ok(Room::Run(page)) => Self {
                place: Self::RUN | page,
                mask: 1,
            },
            Err(NoRun::Nothing) => Self {
                place: Self::NOTHING,
                mask: 0,
            },
            Err(NoRun::Contended) => Self {
                place: Self::CONTENDED,
                mask: 0,
            },
        }
    }
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
    pub fn alloc<W: Warp>(&self, warp: &W, request: Request) -> Result<u64, AllocError> {
        const APART: u64 = u64::MAX;
        let size = self.measure(&request);
        let key = match size {
            Ok(Size::Small { class }) => {
                u64::from(class) | u64::from(request.align.trailing_zeros()) << 8
            }
            _ => APART,
        };
        let peers = warp.match_any(warp.active(), key);
        let result = match size {
            Ok(Size::Small { class }) => self.alloc_small(warp, peers, class, request.align),
            Ok(Size::Large { pages }) => self.alloc_run(warp.shard(), pages, &request),
            Err(error) => Err(error),
        };
        if result.is_err() {
            self.pool.count(Counter::Failures, 1);
        }
        result
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
        let (mut status, mut base) = (0, 0);
        if warp.lane() == leader {
            match self.alloc_one(warp.shard(), total) {
                Ok(offset) => base = offset,
                Err(error) => status = error as u64 + 1,
            }
        }
        let status = warp.shuffle(active, status, leader);
        let base = warp.shuffle(active, base, leader);
        match status {
            0 => Ok(WarpBlock {
                base,
                offset: base + before,
            }),
            s if s == AllocError::OutOfMemory as u64 + 1 => Err(AllocError::OutOfMemory),
            s if s == AllocError::Contended as u64 + 1 => Err(AllocError::Contended),
            _ => Err(AllocError::TooLarge),
        }
    }

    /// A block for one lane alone; `None` is a size beyond 64 bits.
    fn alloc_one(&self, shard: u32, size: Option<u64>) -> Result<u64, AllocError> {
        let request = size.map(Request::new).ok_or(AllocError::TooLarge);
        let result = request.and_then(|request| match self.measure(&request)? {
            Size::Small { class } => {
                let room = self.pool.small_room(&self.small(class, 16, 1, shard));
                self.place_of(Packed::new(room), 0)
                    .inspect(|_| self.handed_out(shard, 1))
            }
            Size::Large { pages } => self.alloc_run(shard, pages, &request),
        });
        if result.is_err() {
            self.pool.count(Counter::Failures, 1);
        }
        result
    }

    fn measure(&self, request: &Request) -> Result<Size, AllocError> {
        let geo = &self.pool.geo;
        if !request.align.is_power_of_two() {
            return Err(AllocError::BadAlignment);
        }
        if request.size > geo.page_bytes() {
            return Err(AllocError::TooLarge);
        }
        if request.size <= geo.small_max() && request.align <= geo.page_size() {
            let fitting = (class_of(request.size)..geo.classes)
                .find(|&class| class_size(class).is_multiple_of(request.align));
            if let Some(class) = fitting {
                return Ok(Size::Small { class });
            }
        }
        Ok(Size::Large {
            pages: request.size.div_ceil(geo.page_size()).max(1),
        })
    }

    fn small(&self, class: u32, align: u64, lanes: u32, shard: u32) -> SmallRequest {
        SmallRequest {
            class,
            align,
            lanes,
            shard: shard % self.pool.geo.shards,
        }
    }

    /// The lanes of `peers` want one slot each of `class`. The lowest acts for
    /// all: what it gets it shows to the others, and who got a slot leaves.
    /// Every round serves one lane at least, or ends for all.
    fn alloc_small<W: Warp>(
        &self,
        warp: &W,
        peers: Mask,
        class: u32,
        align: u64,
    ) -> Result<u64, AllocError> {
        let mut peers = peers;
        loop {
            let leader = peers.trailing_zeros();
            let mut packed = Packed { place: 0, mask: 0 };
            if warp.lane() == leader {
                let request = self.small(class, align, peers.count_ones(), warp.shard());
                packed = Packed::new(self.pool.small_room(&request));
                self.handed_out(request.shard, packed.mask.count_ones());
            }
            let packed = Packed {
                place: warp.shuffle(peers, packed.place, leader),
                mask: warp.shuffle(peers, packed.mask, leader),
            };
            let rank = (peers & below(warp.lane())).count_ones();
            if packed.place & Packed::NOTHING != 0 || rank < packed.mask.count_ones() {
                return self.place_of(packed, rank);
            }
            peers &= !(lowest(u64::from(peers), packed.mask.count_ones()) as Mask);
        }
    }

    /// The offset of the `rank`-th block of what a leader got.
    fn place_of(&self, packed: Packed, rank: u32) -> Result<u64, AllocError> {
        let geo = &self.pool.geo;
        let page = packed.place & u64::from(u32::MAX);
        match packed.place {
            Packed::NOTHING => Err(AllocError::OutOfMemory),
            Packed::CONTENDED => Err(AllocError::Contended),
            place if place & Packed::RUN != 0 => Ok(geo.page_start(page)),
            place => {
                let class = (place >> 40) as u32 & 0xff;
                let word = (place >> 32) & 0xff;
                let rank = if M::FAULT as u8 == Fault::SameSlot as u8 {
                    rank / 2
                } else {
                    rank
                };
                let slot = word * 64 + u64::from(select(packed.mask, rank));
                Ok(geo.page_start(page) + slot * class_size(class))
            }
        }
    }

    fn alloc_run(&self, shard: u32, pages: u64, request: &Request) -> Result<u64, AllocError> {
        let pool = &self.pool;
        if pages > pool.geo.pages {
            return Err(AllocError::TooLarge);
        }
        let Request { align, place, .. } = *request;
        let wanted = RunRequest {
            pages,
            align,
            place,
            spread: shard,
        };
        for _ in 0..SEARCHES {
            let before = pool.changes();
            if pool.refused(Counter::PageRefusal, before, pages) {
                return Err(AllocError::OutOfMemory);
            }
            let mut found = pool.take_run(&wanted);
            if found.is_err() && pool.reclaim() {
                found = pool.take_run(&wanted);
            }
            if let Ok(page) = found {
                pool.begin_run(page, pages);
                self.handed_out(shard, 1);
                return Ok(pool.geo.page_start(page));
            }
            if found == Err(NoRun::Nothing) && self.prove_no_run(before, &wanted) {
                return Err(AllocError::OutOfMemory);
            }
        }
        Err(AllocError::Contended)
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

    fn handed_out(&self, shard: u32, blocks: u32) {
        if blocks > 0 {
            let at = self.pool.handed_out_at(shard % self.pool.geo.shards);
            self.pool
                .mem
                .fetch_add(at, u64::from(blocks), Order::Relaxed);
        }
    }
}
