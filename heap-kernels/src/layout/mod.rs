//! Where every word of a pool is, and what it means.

pub(crate) mod classes;
pub(crate) mod geometry;
pub(crate) mod words;

use crate::mem::{Mem, Order};
use classes::{class_size, slab_shape};
use geometry::{Config, FormatError, Geometry};
use words::{Head, Link, PageWord, SlabKind, State};

const MAGIC: u64 = 0x6465_7668_6561_7031; // "devheap1"

/// Counters that all shards share, as offsets from `Geometry::counters`. Those
/// that lanes write in passing have a line of 128 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Counter {
    /// Releases of pages, rollbacks, listings and retentions so far.
    Changes = 0,
    /// Last proof that no run of so many pages was free.
    PageRefusal = 128,
    /// Last proof that no slot of a class, or of a larger one, was free.
    SlotRefusal = 136,
    /// Pages in use.
    UsedPages = 256,
    /// The largest value of `UsedPages` so far.
    HighPages = 264,
    /// Living slabs with no live slot.
    Empties = 384,
    /// Frees that were refused.
    BadFrees = 640,
    /// Kind of the first refused free, plus one.
    OffenderKind = 648,
    /// Offset that the first refused free named.
    OffenderOffset = 656,
}

/// Counters that each shard has, as offsets in its line of 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum ShardCounter {
    /// Blocks handed out.
    HandedOut = 0,
    /// Requests that were not met.
    Refused = 8,
    /// Claims of runs that were lost to others.
    Conflicts = 16,
}

/// A pool's memory and its layout: what the rooms `runs` and `slab` work on.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Pool<M> {
    pub(crate) mem: M,
    pub(crate) geo: Geometry,
}

/// Geometry words at the start of a pool.
const HEADER: [u64; 7] = [0, 8, 16, 24, 32, 40, 48];

impl<M: Mem> Pool<M> {
    /// Writes the geometry and the class table, and zeroes everything else.
    pub(crate) fn format(mem: M, config: &Config) -> Result<Self, FormatError> {
        let geo = Geometry::new(mem.len(), config)?;
        let pool = Self { mem, geo };
        pool.check_base()?;
        pool.zero_part(0, 1);
        pool.begin_part(0, 1);
        Ok(pool)
    }

    /// Opens a pool that was formatted before.
    pub(crate) fn attach(mem: M) -> Result<Self, FormatError> {
        let len = mem.len();
        if len < 256 || !mem.base().is_multiple_of(8) || mem.load(0, Order::Acquire) != MAGIC {
            return Err(FormatError::NotFormatted);
        }
        let word = |i: usize| mem.load(HEADER[i], Order::Relaxed);
        let config = Config {
            page_size: Some(word(2)),
            shards: Some(word(3) as u32),
            small_max: Some(word(4)),
            retain: word(5) != 0,
        };
        let geo = Geometry::new(len, &config).map_err(|_| FormatError::NotFormatted)?;
        let pool = Self { mem, geo };
        pool.check_base()?;
        let written = HEADER.map(|at| pool.mem.load(at, Order::Relaxed));
        if written == pool.header_words() {
            Ok(pool)
        } else {
            Err(FormatError::NotFormatted)
        }
    }

    /// A copy for the usual way of a request, which nobody takes the address of:
    /// what it needs of the geometry is loaded once, in parallel. Through a
    /// reference it would be loaded anew after every atomic, from far away,
    /// since an acquire empties a card's nearest cache.
    #[inline(always)]
    pub(crate) fn hot(&self) -> Self {
        Self {
            mem: self.mem.clone(),
            geo: self.geo,
        }
    }

    fn header_words(&self) -> [u64; 7] {
        let geo = &self.geo;
        [
            MAGIC,
            geo.len,
            geo.page_size(),
            u64::from(geo.shards),
            geo.small_max(),
            u64::from(geo.retain),
            geo.pages,
        ]
    }

    fn check_base(&self) -> Result<(), FormatError> {
        let (base, page_size) = (self.mem.base(), self.geo.page_size());
        if base.is_multiple_of(page_size) {
            return Ok(());
        }
        Err(FormatError::Misaligned { base, page_size })
    }

    /// Zeroes the `part`-th of `parts` pieces of everything behind the class
    /// table. Who formats or resets a pool has it to itself.
    pub(crate) fn zero_part(&self, part: u64, parts: u64) {
        let (start, len) = self.geo.zeroed();
        let words = len / 8;
        let piece = words.div_ceil(parts);
        let from = part.saturating_mul(piece).min(words);
        let to = (from + piece).min(words);
        // SAFETY: the piece lies in the pool, and nobody else zeroes it.
        unsafe { self.mem.fill(start + from * 8, (to - from) * 8, 0) };
    }

    /// Writes what is not zero in an empty heap: the geometry, every `parts`-th
    /// entry of the class table from the `part`-th on, and the last words of
    /// the bitmaps. After all pieces are zeroed.
    pub(crate) fn begin_part(&self, part: u64, parts: u64) {
        for class in (part as u32..self.geo.classes).step_by(parts as usize) {
            let size = class_size(class);
            let shape = slab_shape(size, self.geo.page_size(), self.geo.pages);
            let at = self.class_at(class);
            let counts = u64::from(shape.pages) << 32 | u64::from(shape.slots);
            self.mem.store(at, counts, Order::Relaxed);
            let scales = shape.scales(self.geo.pages, self.geo.retain != 0);
            let scales = u64::from(scales.most) << 32 | u64::from(scales.first);
            self.mem.store(at + 8, scales, Order::Relaxed);
        }
        if part == 0 {
            for (at, value) in HEADER.into_iter().zip(self.header_words()) {
                self.mem.store(at, value, Order::Relaxed);
            }
            self.close_ends();
        }
    }

    /// What lies behind the last page, or the last word of a level, is used;
    /// so the last word of run bits stays dirty.
    fn close_ends(&self) {
        let mut bits = self.geo.pages;
        let last_word = (bits - 1) / 64;
        if !bits.is_multiple_of(64) {
            self.mem.store(
                self.dirty_at(last_word),
                1 << (last_word % 64),
                Order::Relaxed,
            );
        }
        for level in 0..self.geo.level_count {
            let words = self.geo.level_words[level];
            if !bits.is_multiple_of(64) {
                let last = self.level_at(level, words - 1);
                self.mem
                    .store(last, u64::MAX << (bits % 64), Order::Relaxed);
            }
            bits = words;
        }
    }

    #[inline]
    pub(crate) const fn counter_at(&self, counter: Counter) -> u64 {
        self.geo.counters + counter as u64
    }

    #[inline]
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.mem.load(self.counter_at(counter), Order::Relaxed)
    }

    #[inline]
    pub(crate) fn count(&self, counter: Counter, by: u64) -> u64 {
        self.mem
            .fetch_add(self.counter_at(counter), by, Order::Relaxed)
    }

    #[inline]
    const fn class_at(&self, class: u32) -> u64 {
        256 + class as u64 * 16
    }

    /// Pages and slots of the smallest slab of `class`.
    #[inline]
    pub(crate) fn shape(&self, class: u32) -> classes::SlabShape {
        let word = self.mem.load(self.class_at(class), Order::Relaxed);
        classes::SlabShape {
            pages: (word >> 32) as u32,
            slots: word as u32,
        }
    }

    /// Scales of the slabs of `class`.
    pub(crate) fn scales(&self, class: u32) -> classes::Scales {
        let word = self.mem.load(self.class_at(class) + 8, Order::Relaxed);
        classes::Scales {
            first: word as u32,
            most: (word >> 32) as u32,
        }
    }

    /// Slots of the smallest slab of `class`.
    #[inline]
    pub(crate) fn base_slots(&self, class: u32) -> u32 {
        self.mem.load(self.class_at(class), Order::Relaxed) as u32
    }

    /// Slots of a slab, as credits.
    #[inline]
    pub(crate) fn slots(&self, kind: SlabKind) -> i32 {
        (self.base_slots(kind.class) << kind.scale) as i32
    }

    /// Pages of a slab.
    #[inline]
    pub(crate) fn slab_pages(&self, kind: SlabKind) -> u64 {
        u64::from(self.shape(kind.class).pages) << kind.scale
    }

    /// The head of a stack of `class`: of `shard`'s, or of the one that lies
    /// [`aside`](Self::aside) of it.
    #[inline]
    pub(crate) const fn head_at(&self, shard: u32, class: u32) -> u64 {
        self.geo.heads + shard as u64 * self.geo.heads_stride + class as u64 * 8
    }

    /// The shard's other stack: for slabs that it has outgrown, and for those that a
    /// purge moves.
    #[inline]
    pub(crate) const fn aside(&self, shard: u32) -> u32 {
        self.geo.shards + shard
    }

    /// How many stacks each class has.
    #[inline]
    pub(crate) const fn stacks(&self) -> u32 {
        2 * self.geo.shards
    }

    /// The demand for slabs of `class` in `shard`: who forms one, and lanes that
    /// found nothing on the stack.
    #[inline]
    pub(crate) const fn demand_at(&self, shard: u32, class: u32) -> u64 {
        self.head_at(2 * self.geo.shards + shard, class)
    }

    /// The scale of the last slab of `class` that `shard` formed, plus one, zero
    /// before the first; in the high half how often its lanes have taken slots
    /// from aside since.
    #[inline]
    pub(crate) const fn growth_at(&self, shard: u32, class: u32) -> u64 {
        self.head_at(3 * self.geo.shards + shard, class)
    }

    #[inline]
    pub(crate) fn head(&self, shard: u32, class: u32, order: Order) -> Head {
        Head(self.mem.load(self.head_at(shard, class), order))
    }

    #[inline]
    pub(crate) const fn shard_counter_at(&self, counter: ShardCounter, shard: u32) -> u64 {
        self.geo.shard_counters + shard as u64 * 128 + counter as u64
    }

    /// The sum of a counter over all shards.
    pub(crate) fn shard_sum(&self, counter: ShardCounter) -> u64 {
        let at = |shard| self.shard_counter_at(counter, shard);
        let load = |shard| self.mem.load(at(shard), Order::Relaxed);
        (0..self.geo.shards).map(load).sum()
    }

    #[inline]
    pub(crate) const fn state_at(&self, descriptor: u32) -> u64 {
        self.geo.descriptors + descriptor as u64 * 16
    }

    #[inline]
    pub(crate) fn state(&self, descriptor: u32, order: Order) -> State {
        State(self.mem.load(self.state_at(descriptor), order))
    }

    #[inline]
    pub(crate) const fn link_at(&self, descriptor: u32) -> u64 {
        self.state_at(descriptor) + 8
    }

    /// First page of the slab of `descriptor`, whose state is `state`, and
    /// stays so: the caller has a credit.
    #[inline]
    pub(crate) fn slab_page(&self, descriptor: u32, state: State) -> u32 {
        if state.has(State::OWN) {
            descriptor
        } else {
            self.link(descriptor).page()
        }
    }

    #[inline]
    pub(crate) fn link(&self, descriptor: u32) -> Link {
        // Relaxed: whoever uses the link has acquired the head or the state
        // through which it got here.
        Link(self.mem.load(self.link_at(descriptor), Order::Relaxed))
    }

    #[inline]
    pub(crate) const fn page_word_at(&self, page: u64) -> u64 {
        self.geo.page_words + page * 8
    }

    #[inline]
    pub(crate) fn page_word(&self, page: u64, order: Order) -> PageWord {
        PageWord(self.mem.load(self.page_word_at(page), order))
    }

    /// Word `word` of the slot bits of the slab that starts at page `page`.
    #[inline]
    pub(crate) const fn slot_word_at(&self, page: u64, word: u64) -> u64 {
        self.geo.slot_bits + (page * self.geo.bit_words_per_page() + word) * 8
    }

    /// Word and bit of the history of a block that begins at `offset`.
    #[inline]
    pub(crate) const fn history_at(&self, offset: u64) -> (u64, u64) {
        let unit = (offset - self.geo.data) / classes::UNIT;
        (self.geo.history_bits + unit / 64 * 8, 1 << (unit % 64))
    }

    /// Word `word` of run bits (level 0) or of a `full` summary.
    #[inline]
    pub(crate) const fn level_at(&self, level: usize, word: u64) -> u64 {
        self.geo.levels[level] + word * 8
    }

    #[inline]
    pub(crate) const fn dirty_at(&self, word: u64) -> u64 {
        self.geo.dirty + word / 64 * 8
    }
}
