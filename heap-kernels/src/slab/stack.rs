//! Per-class lock-free stacks of the slabs that have free slots (R. K.
//! Treiber, "Systems programming: coping with parallelism", 1986), one per
//! shard, with a tag against recurring heads.

use super::Grant;
use crate::layout::Pool;
use crate::layout::words::{Head, Link, State};
use crate::mem::{Fault, Mem, Order};
use crate::runs::NoRun;

impl<M: Mem> Pool<M> {
    /// Slots for `want` lanes, or for some of them, from the slab on top of a
    /// stack; nothing where that has none, or others are quicker.
    ///
    /// This is the way nearly all requests go: four accesses that depend on
    /// each other, and no branch but out of it.
    #[inline]
    pub(crate) fn top_slots(&self, shard: u32, class: u32, want: u32) -> Grant {
        // Acquire: the link as its pusher wrote it.
        let Some(top) = self.head(shard, class, Order::Acquire).top() else {
            return Grant::NONE;
        };
        // Acquire: as in `take_credits`.
        let old = self.mem.fetch_sub(
            self.state_at(top),
            State::credit(want as i32),
            Order::Acquire,
        );
        let (old, page) = (State(old), self.link(top).page());
        let slots = self.slots(class);
        let plain = old.alive() && old.class() == class && old.credits() < slots;
        if !plain || old.credits() < want as i32 {
            return self.odd_slots(shard, top, class, old, want);
        }
        let first = self.hint(class, old.credits());
        let got = self.claim_in_word(u64::from(page), first, slots as u32, want);
        if got.count_ones() < want {
            return self.few_slots(shard, top, class, first, got, want);
        }
        Grant::new(page, class, first, got)
    }

    /// The rest of [`top_slots`](Self::top_slots) where the slab has too few
    /// credits, or is empty, or is not what it was.
    #[inline(never)]
    fn odd_slots(&self, shard: u32, top: u32, class: u32, old: State, want: u32) -> Grant {
        let credits = self.credits_got(shard, top, class, old, want as i32);
        if credits == 0 {
            return Grant::NONE;
        }
        let hint = self.hint(class, old.credits());
        let used = self.use_credits(shard, top, class, credits, hint);
        used.unwrap_or(Grant::NONE)
    }

    /// The rest of [`top_slots`](Self::top_slots) where a word of slots had
    /// too few: what there was, or else some of another word.
    #[inline(never)]
    fn few_slots(
        &self,
        shard: u32,
        top: u32,
        class: u32,
        word: u32,
        mask: u64,
        want: u32,
    ) -> Grant {
        let got = mask.count_ones();
        if got == 0 {
            let used = self.use_credits(shard, top, class, want as i32, word + 1);
            return used.unwrap_or(Grant::NONE);
        }
        self.add_credits(shard, top, (want - got) as i32);
        Grant::new(self.link(top).page(), class, word, mask)
    }

    /// Where to look for free slots first: lanes are spread over the slab by
    /// how many credits there were `before`. While it fills for the first time,
    /// this is the next free word.
    #[inline]
    fn hint(&self, class: u32, before: i32) -> u32 {
        (self.slots(class) - before).max(0) as u32 / 64
    }

    /// Slots for up to `want` lanes from the stack of `class` in `shard`. The
    /// top is used in place, and popped where it has no credit.
    ///
    /// # Errors
    ///
    /// `Nothing` where the stack is empty, `Contended` where others took what
    /// it has. Each step but a lost exchange removes a slab from the stack.
    #[inline(never)]
    pub(super) fn take_slots(&self, shard: u32, class: u32, want: u32) -> Result<Grant, NoRun> {
        // As many slabs as could be on the stack, and as many lost exchanges.
        for _ in 0..2 * self.geo.pages + 64 {
            // Acquire: the link as its pusher wrote it.
            let head = self.head(shard, class, Order::Acquire);
            let Some(top) = head.top() else {
                return Err(NoRun::Nothing);
            };
            let (credits, before) = self.take_credits(shard, top, class, want as i32);
            if credits > 0 {
                let hint = self.hint(class, before);
                return self.use_credits(shard, top, class, credits, hint);
            }
            if self.pop(shard, class, head, top) {
                self.unlist(shard, top);
            }
        }
        Err(NoRun::Contended)
    }

    /// Turns credits into slots of one word; those left over go back.
    fn use_credits(
        &self,
        shard: u32,
        descriptor: u32,
        class: u32,
        credits: i32,
        hint: u32,
    ) -> Result<Grant, NoRun> {
        let page = self.link(descriptor).page();
        let claimed = self.claim_slots(class, u64::from(page), credits as u32, hint);
        let got = claimed.map_or(0, |(_, mask)| mask.count_ones() as i32);
        if got < credits {
            self.add_credits(shard, descriptor, credits - got);
        }
        let (word, mask) = claimed.ok_or(NoRun::Contended)?;
        Ok(Grant::new(page, class, word, mask))
    }

    /// Takes `top` off the stack whose head was seen as `head`.
    fn pop(&self, shard: u32, class: u32, head: Head, top: u32) -> bool {
        let below = self.link(top).below();
        let next = head.next(below, self.tag_step());
        // AcqRel, though a pop publishes nothing: the next lane must still see
        // the links below, which it acquires through this exchange.
        let at = self.head_at(shard, class);
        self.mem
            .compare_exchange(at, head.0, next.0, Order::AcqRel)
            .is_ok()
    }

    const fn tag_step(&self) -> u64 {
        if M::FAULT as u8 == Fault::NoStackTag as u8 {
            0
        } else {
            1
        }
    }

    /// Puts a slab on a stack; the caller owns its `LISTED` flag, and with it
    /// the link word. A lost exchange means that another lane's went through.
    #[inline(never)]
    pub(super) fn push(&self, shard: u32, class: u32, descriptor: u32) {
        let page = self.link(descriptor).page();
        let at = self.head_at(shard, class);
        let mut head = self.head(shard, class, Order::Relaxed);
        loop {
            let link = Link::new(page, head.top());
            self.mem
                .store(self.link_at(descriptor), link.0, Order::Relaxed);
            let next = head.next(Some(descriptor), self.tag_step());
            // AcqRel. Release: publishes the link. Acquire: whoever acquires
            // the new head also sees the links below it.
            match self.mem.compare_exchange(at, head.0, next.0, Order::AcqRel) {
                Ok(_) => break,
                Err(found) => head = Head(found),
            }
        }
        self.note_change();
    }

    /// Makes a slab that has credits findable, unless it is already.
    #[inline(never)]
    pub(super) fn list(&self, shard: u32, descriptor: u32) {
        let at = self.state_at(descriptor);
        // AcqRel: who sets the flag takes over the link word from who cleared
        // it.
        let old = State(self.mem.fetch_or(at, State::LISTED, Order::AcqRel));
        if old.has(State::LISTED) {
            return;
        }
        if old.alive() {
            // With the flag set the descriptor cannot be used for another
            // slab, so this is still its class even if it is retired now.
            self.push(shard, old.class(), descriptor);
        } else if old.has(State::USED) {
            // Being retired: the flag is to be cleared as by a popper, since
            // the retiring lane may have seen it and left the rest to us. With
            // the flag set it stays dead, so it is not to be listed.
            self.clear_listed(descriptor);
        } else {
            // Free, or about to be: nobody relies on the flag.
            self.mem.fetch_and(at, !State::LISTED, Order::AcqRel);
        }
    }

    /// Clears the flag of a slab that the caller has taken off its stack. A
    /// slab that got credits meanwhile is listed again, a dead one's
    /// descriptor is freed.
    pub(super) fn unlist(&self, shard: u32, descriptor: u32) {
        if self.clear_listed(descriptor) {
            self.list(shard, descriptor);
        }
    }

    /// Clears the flag; says whether the slab is to be listed again.
    #[inline(never)]
    fn clear_listed(&self, descriptor: u32) -> bool {
        let at = self.state_at(descriptor);
        // AcqRel: hands the link word on. One atomic that clears the flag and
        // shows the credits: an add that comes later sees the flag clear.
        let old = State(self.mem.fetch_and(at, !State::LISTED, Order::AcqRel));
        if old.has(State::DEAD) {
            if !old.has(State::USED) {
                self.free_descriptor(descriptor);
            }
            return false;
        }
        old.alive() && old.credits() > 0 && M::FAULT as u8 != Fault::NoRelist as u8
    }

    /// Makes a retired slab's descriptor free. The credits stay: a lane that
    /// has subtracted some by mistake will add them back.
    pub(super) fn free_descriptor(&self, descriptor: u32) {
        // First: a walk along the stacks (see `reclaim`) that has been at this
        // node may be led away by what its next owner writes, and must not take
        // that for a proof.
        self.note_change();
        let at = self.state_at(descriptor);
        self.mem
            .fetch_and(at, !(State::DEAD | State::CLASS), Order::AcqRel);
    }

    /// Frees the descriptors of retired slabs that are still on stacks of
    /// `class`. Takes every slab off in turn; the living go to another stack
    /// at once, so that at most one is out of sight.
    #[inline(never)]
    pub(super) fn purge(&self, class: u32) {
        let aside = self.geo.shards;
        self.rehang(aside, 0, class);
        for shard in 0..aside {
            self.rehang(shard, aside, class);
        }
    }

    #[inline(never)]
    fn rehang(&self, from: u32, to: u32, class: u32) {
        for _ in 0..2 * self.geo.pages {
            let head = self.head(from, class, Order::Acquire);
            let Some(top) = head.top() else { return };
            if self.pop(from, class, head, top) {
                self.unlist(to, top);
            }
        }
    }
}
