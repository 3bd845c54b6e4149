//! A scan of the whole heap for broken invariants.

use core::fmt;

use super::Heap;
use crate::layout::Counter;
use crate::layout::classes::{LAZY_CLASS, MARKED, slot_start};
use crate::layout::words::{PageUse, PageWord, SlabKind, State};
use crate::mem::{Mem, Order};
use crate::slab::slots::valid;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// What is wrong.
    pub what: &'static str,
    /// Index of the page, descriptor, word or class where it was seen.
    pub at: u64,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the heap is damaged: {} (at {})", self.what, self.at)
    }
}

impl core::error::Error for Corruption {}

/// Sums over the parts of a [`check`](Heap::check).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tally {
    used: u64,
    owned: u64,
    slabs: u64,
    alive: u64,
    empty: u64,
    listed: u64,
    hung: u64,
}

impl Tally {
    /// Number of words of [`from_words`](Self::from_words).
    pub const WORDS: usize = 7;

    /// The sums that a kernel wrote, one word per field.
    #[must_use]
    pub const fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self {
            used: words[0],
            owned: words[1],
            slabs: words[2],
            alive: words[3],
            empty: words[4],
            listed: words[5],
            hung: words[6],
        }
    }

    /// All fields in order.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        [
            self.used,
            self.owned,
            self.slabs,
            self.alive,
            self.empty,
            self.listed,
            self.hung,
        ]
    }
}

impl core::ops::Add for Tally {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            used: self.used + other.used,
            owned: self.owned + other.owned,
            slabs: self.slabs + other.slabs,
            alive: self.alive + other.alive,
            empty: self.empty + other.empty,
            listed: self.listed + other.listed,
            hung: self.hung + other.hung,
        }
    }
}

type Check<T = ()> = Result<T, Corruption>;

fn ensure(holds: bool, what: &'static str, at: u64) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Corruption { what, at })
    }
}

impl<M: Mem> Heap<M> {
    /// Checks every invariant of a heap that nobody uses meanwhile: page words
    /// against run bits, slabs against their slot bits and credits, stacks,
    /// summaries and counters. Linear in the metadata.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    pub fn check(&self) -> Check {
        let tally = self.check_part(0, 1)?;
        self.check_tally(&tally)
    }

    /// Checks every `parts`-th page, descriptor, stack and summary word, from
    /// the `part`-th on: for many lanes that share a check. Their tallies,
    /// added up, go to [`check_tally`](Self::check_tally).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_part(&self, part: u64, parts: u64) -> Check<Tally> {
        let mut tally = Tally::default();
        let every = parts as usize;
        for page in (part..self.pool.geo.pages).step_by(every) {
            self.check_page(page, &mut tally)?;
        }
        for descriptor in (part..self.pool.geo.pages).step_by(every) {
            self.check_descriptor(descriptor as u32, &mut tally)?;
        }
        let stacks = u64::from(self.pool.stacks()) * u64::from(self.pool.geo.classes);
        for stack in (part..stacks).step_by(every) {
            self.check_stack(stack, &mut tally)?;
        }
        self.check_summaries(part, every)?;
        Ok(tally)
    }

    /// Checks the sums over all parts against each other and the counters.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_tally(&self, tally: &Tally) -> Check {
        let counted = self.pool.counter(Counter::UsedPages);
        ensure(
            tally.owned == tally.used,
            "a used page belongs to nothing, or to two",
            tally.used,
        )?;
        ensure(
            counted == tally.used,
            "the count of used pages is wrong",
            counted,
        )?;
        ensure(
            tally.alive == tally.slabs,
            "a descriptor has no slab",
            tally.alive,
        )?;
        let counted = self.pool.counter(Counter::Empties);
        ensure(
            counted == tally.empty,
            "the count of empty slabs is wrong",
            counted,
        )?;
        ensure(
            tally.listed == tally.hung,
            "a listed slab is on no stack, or on two",
            tally.listed,
        )
    }

    fn page_is_used(&self, page: u64) -> bool {
        let word = self
            .pool
            .mem
            .load(self.pool.level_at(0, page / 64), Order::Relaxed);
        word >> (page % 64) & 1 == 1
    }

    fn check_page(&self, page: u64, tally: &mut Tally) -> Check {
        let used = self.page_is_used(page);
        tally.used += u64::from(used);
        match self.pool.page_word(page, Order::Acquire).decode() {
            // Free, or inside of a run or slab: its first page counts it.
            PageUse::Nothing if !used => self.check_no_slots(page, 1)?,
            PageUse::Nothing => {}
            PageUse::Run { pages } => tally.owned += self.check_run(page, pages)?,
            PageUse::Slab {
                kind,
                index: 0,
                descriptor,
            } => {
                tally.slabs += 1;
                tally.owned += self.check_slab(page, kind, descriptor)?;
            }
            PageUse::Slab {
                kind,
                index,
                descriptor,
            } => {
                let first = page.checked_sub(u64::from(index));
                let expected = PageWord::slab(kind, 0, descriptor);
                let found = first.map(|first| self.pool.page_word(first, Order::Acquire));
                ensure(
                    found == Some(expected),
                    "a page of a slab has no slab before it",
                    page,
                )?;
            }
        }
        Ok(())
    }

    fn check_run(&self, page: u64, pages: u64) -> Check<u64> {
        let end = page
            .checked_add(pages)
            .filter(|&end| pages > 0 && end <= self.pool.geo.pages);
        let Some(end) = end else {
            return Err(Corruption {
                what: "a run has an impossible length",
                at: page,
            });
        };
        for at in page..end {
            ensure(self.page_is_used(at), "a page of a run is free", at)?;
            let word = self.pool.page_word(at, Order::Relaxed);
            ensure(
                at == page || word == PageWord(0),
                "a page inside of a run has a word",
                at,
            )?;
        }
        self.check_no_slots(page, pages)?;
        Ok(pages)
    }

    /// No slot is live in pages without a slab.
    fn check_no_slots(&self, page: u64, pages: u64) -> Check {
        let words = self.pool.geo.bit_words_per_page();
        for word in 0..pages * words {
            let bits = self
                .pool
                .mem
                .load(self.pool.slot_word_at(page, word), Order::Relaxed);
            ensure(
                bits == 0,
                "a slot is live where no slab is",
                page + word / words,
            )?;
        }
        Ok(())
    }

    fn check_slab(&self, page: u64, kind: SlabKind, descriptor: u32) -> Check<u64> {
        let pool = &self.pool;
        ensure(
            kind.class < pool.geo.classes,
            "a slab's class does not exist",
            page,
        )?;
        ensure(
            u64::from(descriptor) < pool.geo.pages,
            "a slab's descriptor does not exist",
            page,
        )?;
        let state = pool.state(descriptor, Order::Acquire);
        let at = u64::from(descriptor);
        ensure(
            state.alive() && state.kind() == kind && state.home() < pool.geo.shards,
            "a slab's state is not its own",
            at,
        )?;
        ensure(
            u64::from(pool.link(descriptor).page()) == page,
            "a descriptor's page is wrong",
            at,
        )?;
        ensure(
            state.has(State::OWN) == (at == page),
            "a slab's state is wrong about its page",
            at,
        )?;
        let (pages, slots) = (pool.slab_pages(kind), pool.slots(kind));
        ensure(
            page + pages <= pool.geo.pages,
            "a slab has an impossible length",
            page,
        )?;
        for index in 0..pages {
            let at = page + index;
            let expected = PageWord::slab(kind, index as u32, descriptor);
            let found = pool.page_word(at, Order::Relaxed);
            let lazy = kind.class >= LAZY_CLASS && !index.is_multiple_of(MARKED);
            ensure(
                found == expected || lazy && found == PageWord(0),
                "a slab's page word is wrong",
                at,
            )?;
            ensure(self.page_is_used(at), "a page of a slab is free", at)?;
        }
        self.check_marks(page, kind)?;
        let live = self.count_live(page, pages, slots as u32)?;
        let credits = i64::from(slots) - live;
        ensure(
            i64::from(state.credits()) == credits,
            "a slab's credits are not its free slots",
            at,
        )?;
        let findable = state.credits() == 0 || state.has(State::LISTED);
        ensure(findable, "a slab with free slots is on no stack", at)?;
        Ok(pages)
    }

    /// The pages in which live slots begin say so.
    fn check_marks(&self, page: u64, kind: SlabKind) -> Check {
        let pool = &self.pool;
        for slot in 0..pool.slots(kind) as u32 {
            let at = pool.slot_word_at(page, u64::from(slot / 64));
            let live = pool.mem.load(at, Order::Relaxed) >> (slot % 64) & 1 == 1;
            let begins = page + (slot_start(kind.class, slot) >> pool.geo.page_shift);
            ensure(
                !live || pool.page_word(begins, Order::Relaxed) != PageWord(0),
                "a page in which a block begins has no word",
                begins,
            )?;
        }
        Ok(())
    }

    fn count_live(&self, page: u64, pages: u64, slots: u32) -> Check<i64> {
        let mut live = 0;
        for word in 0..pages * self.pool.geo.bit_words_per_page() {
            let bits = self
                .pool
                .mem
                .load(self.pool.slot_word_at(page, word), Order::Relaxed);
            let allowed = if word * 64 < u64::from(slots) {
                valid(word as u32, slots)
            } else {
                0
            };
            ensure(
                bits & !allowed == 0,
                "a slot is live behind a slab's last",
                page,
            )?;
            live += i64::from(bits.count_ones());
        }
        Ok(live)
    }

    fn check_descriptor(&self, descriptor: u32, tally: &mut Tally) -> Check {
        let state = self.pool.state(descriptor, Order::Acquire);
        let at = u64::from(descriptor);
        tally.listed += u64::from(state.has(State::LISTED));
        if state.alive() {
            tally.alive += 1;
            ensure(
                state.class() < self.pool.geo.classes,
                "a slab's class does not exist",
                at,
            )?;
            tally.empty += u64::from(state.credits() == self.pool.slots(state.kind()));
            return Ok(());
        }
        ensure(
            state.credits() == 0,
            "a descriptor without a slab has credits",
            at,
        )?;
        let dead = state.0 & 0xff & !State::OWN == State::DEAD | State::LISTED;
        ensure(
            state == State::FREE || dead,
            "a descriptor is neither free nor on a stack",
            at,
        )
    }

    /// Every descriptor on a stack says that it is listed, and is of the
    /// stack's class.
    fn check_stack(&self, stack: u64, tally: &mut Tally) -> Check {
        let geo = &self.pool.geo;
        let classes = u64::from(geo.classes);
        let (shard, class) = ((stack / classes) as u32, (stack % classes) as u32);
        if shard < geo.shards {
            let demand = self.pool.demand_at(shard, class);
            ensure(
                self.pool.mem.load(demand, Order::Acquire) == 0,
                "lanes are said to wait for a slab that do not",
                u64::from(class),
            )?;
        }
        let mut next = self.pool.head(shard, class, Order::Acquire).top();
        let mut hung = 0;
        while let Some(descriptor) = next {
            let at = u64::from(descriptor);
            ensure(
                at < geo.pages,
                "a stack holds no descriptor",
                u64::from(class),
            )?;
            let state = self.pool.state(descriptor, Order::Acquire);
            ensure(
                state.has(State::LISTED),
                "a slab on a stack is not listed",
                at,
            )?;
            ensure(
                state.class() == class,
                "a slab is on the stack of another class",
                at,
            )?;
            hung += 1;
            ensure(hung <= geo.pages, "a stack has no end", u64::from(class))?;
            next = self.pool.link(descriptor).below();
        }
        tally.hung += hung;
        Ok(())
    }

    fn check_summaries(&self, part: u64, every: usize) -> Check {
        let pool = &self.pool;
        for word in (part..pool.geo.level_words[0]).step_by(every) {
            let used = pool.mem.load(pool.level_at(0, word), Order::Relaxed) != 0;
            let dirty = pool.mem.load(pool.dirty_at(word), Order::Relaxed) >> (word % 64) & 1 == 1;
            ensure(
                dirty || !used,
                "a word with used pages is marked clean",
                word,
            )?;
        }
        for level in 1..pool.geo.level_count {
            for below in (part..pool.geo.level_words[level - 1]).step_by(every) {
                let word = pool
                    .mem
                    .load(pool.level_at(level - 1, below), Order::Relaxed);
                let summary = pool
                    .mem
                    .load(pool.level_at(level, below / 64), Order::Relaxed);
                let full = summary >> (below % 64) & 1 == 1;
                ensure(
                    !full || word == u64::MAX,
                    "a word with free pages is marked full",
                    below,
                )?;
            }
        }
        Ok(())
    }
}
