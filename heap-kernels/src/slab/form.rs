//! New slabs.

use super::Grant;
use crate::layout::Counter;
use crate::layout::Pool;
use crate::layout::classes::{LAZY_CLASS, MARKED};
use crate::layout::words::{Link, PageWord, SlabKind, State};
use crate::mem::{Mem, Order};
use crate::runs::{NoRun, Place, RunRequest};

/// A shard's first slab of a class is so large that one for each class in each
/// shard would take this part of the free pages: the second where shards are
/// few, and blocks of all classes live side by side in each.
const SHARE: u64 = 8;
const FEW_SHARE: u64 = 16;
const FEW: u64 = 16;

/// A slab takes at most this part of a shard's share of the free pages, and at
/// most the same part of what each of so many shards would have.
const PART: u64 = 2;
const SHARDS: u64 = 32;

impl<M: Mem> Pool<M> {
    /// Forms a slab of `class`, takes up to `want` slots of it at once, and
    /// puts it on the stack of `shard`, its home. `want` is 1 to 64.
    ///
    /// The slab is as large as [`next_scale`](Self::next_scale) says, or smaller
    /// where no run is so long.
    ///
    /// # Errors
    ///
    /// No run, or no descriptor, for the smallest slab.
    #[inline(never)]
    pub(super) fn form(&self, shard: u32, class: u32, want: u32) -> Result<Grant, NoRun> {
        let mut scale = self.next_scale(shard, class);
        let mut contended = false;
        loop {
            let kind = SlabKind { class, scale };
            match self.form_slab(shard, kind, want) {
                Ok(grant) => {
                    self.set_last_scale(shard, class, scale);
                    return Ok(grant);
                }
                Err(why) => contended |= why == NoRun::Contended,
            }
            if scale == 0 {
                return Err(if contended {
                    NoRun::Contended
                } else {
                    NoRun::Nothing
                });
            }
            // A shorter run is also less often lost to others.
            scale /= 2;
        }
    }

    fn form_slab(&self, shard: u32, kind: SlabKind, want: u32) -> Result<Grant, NoRun> {
        let pages = self.slab_pages(kind);
        let page = self.take_run(&RunRequest {
            pages,
            align: self.geo.page_size(),
            place: Place::Low,
            // Shards that form at the same time do not meet.
            from: (u64::from(shard) * pages) % self.geo.pages,
            spread: shard,
        })?;
        let used = State::new(0, kind, shard, State::USED | State::LISTED);
        let Some(descriptor) = self.take_descriptor(page as u32, used) else {
            self.release_run(page, pages);
            return Err(NoRun::Contended);
        };
        // The flag LISTED is set, so the link word is this lane's. Release: who
        // walks along a stack and gets here sees that the descriptor was freed.
        let link = Link::new(page as u32, None);
        self.mem
            .store(self.link_at(descriptor), link.0, Order::Release);
        let own = u64::from(descriptor) == page;
        let lazy = own && kind.class >= LAZY_CLASS;
        for index in (0..pages).step_by(if lazy { MARKED as usize } else { 1 }) {
            let word = PageWord::slab(kind, index as u32, descriptor);
            let at = self.page_word_at(page + index);
            self.mem.store(at, word.0, Order::Relaxed);
        }
        Ok(self.open_slab(used, descriptor, page as u32, want))
    }

    /// The scale of the slab that a shard forms next: some times as large as its
    /// last one (the more, the emptier the pool is), or large enough for the lanes
    /// that wait for it, or as large as a fair share of the pages is where there
    /// is plenty; and small enough that pages are left for others.
    pub(super) fn next_scale(&self, shard: u32, class: u32) -> u32 {
        let (shape, scales) = (self.shape(class), self.scales(class));
        if scales.first == scales.most {
            return scales.most;
        }
        let (shards, classes) = (u64::from(self.geo.shards), u64::from(self.geo.classes));
        let used = self.counter(Counter::UsedPages).min(self.geo.pages);
        let free = self.geo.pages - used;
        let share = if shards < FEW { FEW_SHARE } else { SHARE };
        let plenty = shape.largest(u64::MAX, free / (share * shards * classes));
        let most = shape.largest(u64::MAX, free / (PART * shards.max(SHARDS)));
        let waiting = self.waiting(shard, class).div_ceil(shape.slots.into());
        let wanted = waiting.max(1).next_power_of_two().ilog2();
        let growth = match used * 8 / self.geo.pages {
            0 => 3,
            1 => 2,
            _ => 1,
        };
        let next = self
            .last_scale(shard, class)
            .map_or(0, |scale| scale + growth);
        plenty.max(next).max(wanted).min(most).min(scales.most)
    }

    /// The scale of the last slab of `class` that `shard` formed.
    pub(super) fn last_scale(&self, shard: u32, class: u32) -> Option<u32> {
        // Relaxed, also where it is set: a hint.
        let word = self.mem.load(self.growth_at(shard, class), Order::Relaxed);
        (word as u32).checked_sub(1)
    }

    /// Whether a shard may take slots of `class` that lie aside before it forms a
    /// slab: once it has one, for up to an eighth of what its last one holds, if
    /// groups of lanes are full. What it needs now and then beyond its usual is
    /// quicker to be had there; but for what it needs always the way is long.
    pub(super) fn may_take_aside(&self, shard: u32, class: u32) -> bool {
        // Relaxed: a hint.
        let word = self.mem.load(self.growth_at(shard, class), Order::Relaxed);
        let Some(scale) = (word as u32).checked_sub(1) else {
            return false;
        };
        if self.geo.retain == 0 {
            return true;
        }
        let slots = self.slots(SlabKind { class, scale }) as u64;
        word >> 32 <= slots / 256
    }

    /// Counts what was taken so, in the high half of the word of growth.
    pub(super) fn note_aside(&self, shard: u32, class: u32) {
        let at = self.growth_at(shard, class);
        self.mem.fetch_add(at, 1 << 32, Order::Relaxed);
    }

    fn set_last_scale(&self, shard: u32, class: u32, scale: u32) {
        let at = self.growth_at(shard, class);
        self.mem.store(at, u64::from(scale) + 1, Order::Relaxed);
    }

    /// Takes the first slots of a new slab, then lets others have the rest.
    #[inline(never)]
    fn open_slab(&self, state: State, descriptor: u32, page: u32, want: u32) -> Grant {
        let (shard, class, slots) = (state.home(), state.class(), self.slots(state.kind()));
        let own = want.min(slots as u32);
        let mask = u64::MAX >> (64 - own);
        // AcqRel as every claim of slots; all bits are clear, since the pages'
        // last owner left them so.
        self.mem
            .fetch_or(self.slot_word_at(u64::from(page), 0), mask, Order::AcqRel);
        let rest = slots - own as i32;
        // Release: who gets a credit sees the link and the page words.
        self.mem.fetch_add(
            self.state_at(descriptor),
            State::credit(rest),
            Order::Release,
        );
        if rest > 0 {
            self.push(shard, class, descriptor);
        } else {
            self.unlist(descriptor);
        }
        Grant::new(page, class, 0, mask)
    }

    /// A free descriptor, in its new slab's name: the one with the slab's own
    /// index, or the next free one. There are as many as pages, so only dead
    /// slabs still on stacks can be in the way: then those are removed.
    #[inline(never)]
    fn take_descriptor(&self, page: u32, new: State) -> Option<u32> {
        self.probe_descriptor(page, new).or_else(|| {
            (0..self.geo.classes).for_each(|class| self.purge(class));
            self.probe_descriptor(page, new)
        })
    }

    #[inline(never)]
    fn probe_descriptor(&self, page: u32, new: State) -> Option<u32> {
        let count = self.geo.pages as u32;
        (page..count).chain(0..page).find(|&descriptor| {
            let own = if descriptor == page { State::OWN } else { 0 };
            self.state(descriptor, Order::Relaxed) == State::FREE
                && self
                    .mem
                    // AcqRel: takes the link word over from its last owner.
                    .compare_exchange(self.state_at(descriptor), 0, new.0 | own, Order::AcqRel)
                    .is_ok()
        })
    }
}
