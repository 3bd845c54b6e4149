//! Per-class lock-free stacks of the slabs that have free slots (R. K.
//! Treiber, "Systems programming: coping with parallelism", 1986), one per
//! shard, with a tag against recurring heads. A slab is listed on its home
//! shard's, whoever frees its slots.

use super::Grant;
use super::slots::Hint;
use crate::layout::words::{Head, Link, SlabKind, State};
use crate::layout::{Counter, Pool};
use crate::mem::{Fault, Mem, Order};
use crate::runs::NoRun;

/// What a request has done so far: it has seen `head`, and taken credits of the
/// slab on it whose state was `old`, and slots of it that its lanes can have.
///
/// Its words are passed one by one: a function that is not inlined takes them in
/// registers, but a structure of three through memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    head: Head,
    old: State,
    got: u64,
}

impl Begun {
    /// Nothing, the stack being empty.
    pub(crate) const NOTHING: Self = Self {
        head: Head(0),
        old: State::FREE,
        got: 0,
    };

    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.head.top().is_none()
    }

    #[inline]
    pub(crate) const fn from_words(head: u64, old: u64, got: u64) -> Self {
        Self {
            head: Head(head),
            old: State(old),
            got,
        }
    }

    #[inline]
    pub(crate) const fn words(self) -> (u64, u64, u64) {
        (self.head.0, self.old.0, self.got)
    }
}

impl<M: Mem> Pool<M> {
    /// Slots for `want` lanes from the slab on top of a stack, if they are the
    /// next ones of a slab that fills: its first page, its scale, and the first of
    /// as many neighbouring slots.
    ///
    /// This is the way nearly all requests go: three accesses that depend on
    /// each other, and no branch but out of it.
    ///
    /// # Errors
    ///
    /// What has been begun, for [`finish`](Self::finish).
    #[inline(always)]
    pub(crate) fn begin(
        &self,
        shard: u32,
        class: u32,
        want: u32,
    ) -> Result<(u32, u32, u32), Begun> {
        let base_slots = self.base_slots(class);
        // Relaxed: a hint. Only the state says what the descriptor is worth, and
        // the link is not read.
        let head = self.head(shard, class, Order::Relaxed);
        let Some(top) = head.top() else {
            return Err(Begun::NOTHING);
        };
        // Acquire: as in `take_credits`.
        let old = State(self.mem.fetch_sub(
            self.state_at(top),
            State::credit(want as i32),
            Order::Acquire,
        ));
        let mut got = 0;
        let slots = base_slots << old.kind().scale;
        if old.is_plain(class, want) {
            if old.credits() == slots as i32 {
                // It was empty, and is not any more.
                self.count(Counter::Empties, 1u64.wrapping_neg());
            }
            // The page has the descriptor's index.
            let hint = Hint::new(old.credits(), slots);
            let at = self.slot_word_at(u64::from(top), u64::from(hint.word));
            got = self.claim_bits(at, hint.mask(want, slots));
            if got.count_ones() == want {
                return Ok((top, old.kind().scale, hint.word * 64 + hint.bit));
            }
        }
        Err(Begun { head, old, got })
    }

    /// Slots for `want` lanes, or for some of them, where [`begin`](Self::begin)
    /// did not get all; nothing where the stack has none, or others are quicker.
    #[inline(never)]
    pub(crate) fn finish(&self, shard: u32, class: u32, want: u32, begun: Begun) -> Grant {
        let Begun { head, old, got } = begun;
        let Some(top) = head.top() else {
            return Grant::NONE;
        };
        if old.is_plain(class, want) {
            return self.few_slots(top, old, got, want);
        }
        let credits = self.credits_got(top, class, old, want as i32);
        if credits == 0 {
            // Whoever took the last credits is about to pop it.
            return self.take_slots(shard, class, want).unwrap_or(Grant::NONE);
        }
        self.close_top(shard, class, head, old, credits);
        let used = self.use_credits(top, old, credits);
        used.unwrap_or(Grant::NONE)
    }

    /// Where not all slots were free that would be in a slab that fills: `got`
    /// and others of the same word, or else some of another one.
    fn few_slots(&self, top: u32, old: State, got: u64, want: u32) -> Grant {
        let (page, slots) = (self.slab_page(top, old), self.slots(old.kind()) as u32);
        let hint = Hint::new(old.credits(), slots);
        let more = self.claim_in_word(u64::from(page), hint, slots, want - got.count_ones());
        let mask = got | more;
        if mask == 0 {
            let used = self.use_credits(top, old, want as i32);
            return used.unwrap_or(Grant::NONE);
        }
        if mask.count_ones() < want {
            self.add_credits(top, (want - mask.count_ones()) as i32);
        }
        Grant::new(page, old.class(), hint.word * 64, mask)
    }

    /// Pops a slab of whose credits, when its state was `old`, the caller took
    /// so many, if they were the last: only one lane sees that, and those who
    /// come later find the next slab.
    fn close_top(&self, shard: u32, class: u32, head: Head, old: State, taken: i32) {
        // Acquire: the link as its pusher wrote it.
        if old.credits() == taken && self.head(shard, class, Order::Acquire) == head {
            self.pop(shard, class, head);
        }
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
        let hot = self.hot();
        // As many slabs as could be on the stack, and as many lost exchanges.
        for _ in 0..2 * hot.geo.pages + 64 {
            // Acquire: the link as its pusher wrote it.
            let head = hot.head(shard, class, Order::Acquire);
            let lost = M::FAULT as u8 == Fault::NoAside as u8 && shard >= hot.geo.shards;
            let Some(top) = head.top().filter(|_| !lost) else {
                return Err(NoRun::Nothing);
            };
            // A look first: many find a slab used up at the same time, and
            // their subtractions would have to be taken back.
            if hot.state(top, Order::Relaxed).credits() > 0 {
                let (credits, old) = self.take_credits(top, class, want as i32);
                if credits > 0 {
                    self.close_top(shard, class, head, old, credits);
                    return self.use_credits(top, old, credits);
                }
            }
            self.pop(shard, class, head);
        }
        Err(NoRun::Contended)
    }

    /// Turns credits, of a slab that was `old` before they were taken, into
    /// slots of one word; those left over go back.
    fn use_credits(&self, descriptor: u32, old: State, credits: i32) -> Result<Grant, NoRun> {
        let page = self.slab_page(descriptor, old);
        let hint = Hint::new(old.credits(), self.slots(old.kind()) as u32);
        let claimed = self.claim_slots(old.kind(), u64::from(page), credits as u32, hint);
        let got = claimed.map_or(0, |(_, mask)| mask.count_ones() as i32);
        if got < credits {
            self.add_credits(descriptor, credits - got);
        }
        let (word, mask) = claimed.ok_or(NoRun::Contended)?;
        Ok(Grant::new(page, old.class(), word * 64, mask))
    }

    /// Takes the top off the stack whose head was seen as `head`, if that is as
    /// it was; it is listed again where it got credits meanwhile.
    fn pop(&self, shard: u32, class: u32, head: Head) {
        if let Some(top) = self.take_top(shard, class, head) {
            self.unlist(top);
        }
    }

    /// The top of the stack whose head was seen as `head`, taken off it. Its
    /// flag `LISTED` is the caller's then.
    fn take_top(&self, shard: u32, class: u32, head: Head) -> Option<u32> {
        let top = head.top()?;
        let below = self.link(top).below();
        let next = head.next(below, self.tag_step());
        // AcqRel, though a pop publishes nothing: the next lane must still see
        // the links below, which it acquires through this exchange.
        let at = self.head_at(shard, class);
        let taken = self.mem.compare_exchange(at, head.0, next.0, Order::AcqRel);
        taken.is_ok().then_some(top)
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

    /// Makes a slab that has credits findable, unless it is already: on the stack
    /// named, or its home shard's; or aside, if its shard has outgrown it: then
    /// that has slabs that last longer.
    #[inline(never)]
    pub(super) fn list(&self, descriptor: u32, shard: Option<u32>) {
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
            let shard = shard.unwrap_or_else(|| self.stack_of(old));
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

    /// Where a slab is listed.
    fn stack_of(&self, state: State) -> u32 {
        let SlabKind { class, scale } = state.kind();
        if self.last_scale(state.home(), class) > Some(scale) {
            self.aside(state.home())
        } else {
            state.home()
        }
    }

    /// Clears the flag of a slab that the caller has taken off its stack. A
    /// slab that got credits meanwhile is listed again, a dead one's
    /// descriptor is freed.
    pub(super) fn unlist(&self, descriptor: u32) {
        if self.clear_listed(descriptor) {
            self.list(descriptor, None);
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
            .fetch_and(at, !(State::DEAD | State::KIND), Order::AcqRel);
    }

    /// Frees the descriptors of retired slabs that are still on stacks of
    /// `class`. Takes every slab off in turn; the living go to another stack
    /// at once, so that at most one is out of sight.
    #[inline(never)]
    pub(super) fn purge(&self, class: u32) {
        for shard in 0..self.geo.shards {
            self.rehang(self.aside(shard), shard, class);
            self.rehang(shard, self.aside(shard), class);
        }
    }

    /// Takes all slabs off a stack, and lists the living on another.
    #[inline(never)]
    fn rehang(&self, from: u32, to: u32, class: u32) {
        for _ in 0..2 * self.geo.pages {
            let head = self.head(from, class, Order::Acquire);
            if head.top().is_none() {
                return;
            }
            if let Some(top) = self.take_top(from, class, head)
                && self.clear_listed(top)
            {
                self.list(top, Some(to));
            }
        }
    }
}
