//! Credits: the right to one free slot of a slab, taken before the slot
//! itself is looked for.

use crate::layout::words::State;
use crate::layout::{Counter, Pool};
use crate::mem::{Fault, Mem, Order};

impl<M: Mem> Pool<M> {
    /// Takes up to `want` credits of the slab of `descriptor`, if it is of
    /// `class`; zero where there are none. `want` is 1 to 64. With it, the
    /// state before.
    ///
    /// From the first credit on the slab stays what it is: it cannot be
    /// retired before all are back.
    pub(super) fn take_credits(&self, descriptor: u32, class: u32, want: i32) -> (i32, State) {
        let at = self.state_at(descriptor);
        // Acquire: a credit shows the link and the page words that were
        // written before the slab's credits were first added.
        let old = State(self.mem.fetch_sub(at, State::credit(want), Order::Acquire));
        let got = self.credits_got(descriptor, class, old, want);
        (got, old)
    }

    /// How many of `want` credits were to be had where a slab's state was
    /// `old` before they were subtracted; those that were not go back.
    pub(super) fn credits_got(&self, descriptor: u32, class: u32, old: State, want: i32) -> i32 {
        if old.alive() && old.credits() == self.slots(old.kind()) {
            // The slab was empty, and is not while this lane holds credits,
            // even if it only gives them back below.
            self.count(Counter::Empties, 1u64.wrapping_neg());
        }
        let right = old.class() == class || M::FAULT as u8 == Fault::NoClassCheck as u8;
        let got = if old.alive() && right {
            old.credits().clamp(0, want)
        } else {
            0
        };
        if got < want {
            self.add_credits(descriptor, want - got);
        }
        got
    }

    /// Adds credits, for slots freed or for credits not used; lists the slab
    /// where nobody will find it otherwise, and deals with it where it became
    /// empty.
    ///
    /// The descriptor may be stale where the credits were taken from it by
    /// mistake: then the add only restores what the subtraction took.
    #[inline]
    pub(crate) fn add_credits(&self, descriptor: u32, credits: i32) {
        let (old, now) = self.return_credits(descriptor, credits);
        if old.alive() && now.needs_care(self.base_slots(now.class())) {
            self.settle(descriptor, now);
        }
    }

    /// The atomic of [`add_credits`](Self::add_credits): the state before and
    /// after.
    #[inline]
    pub(crate) fn return_credits(&self, descriptor: u32, credits: i32) -> (State, State) {
        let at = self.state_at(descriptor);
        // AcqRel. Release: whoever retires the slab sees the slot bits that
        // were cleared before. Acquire: that may be this lane.
        let old = State(
            self.mem
                .fetch_add(at, State::credit(credits), Order::AcqRel),
        );
        (old, old.plus(credits))
    }

    /// What is to be done for a slab whose state has just become `now`: it was
    /// made empty, or nobody will find it. Not inlined, being rare.
    #[inline(never)]
    pub(crate) fn settle(&self, descriptor: u32, now: State) {
        if now.credits() == self.slots(now.kind()) {
            self.count(Counter::Empties, 1);
            if self.retire_unless_retained(descriptor) {
                return;
            }
            // Its pages are to be had now, which ends a refusal.
            self.note_change();
        }
        if now.credits() > 0 && !now.has(State::LISTED) {
            self.list(descriptor, None);
        }
    }
}
