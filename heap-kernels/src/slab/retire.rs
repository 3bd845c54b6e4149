//! Empty slabs become pages again.

use crate::layout::words::State;
use crate::layout::{Counter, Pool};
use crate::mem::{Fault, Mem, Order};

/// Exchanges that one attempt to retire may lose to changes of the flags.
const ATTEMPTS: u32 = 8;

impl<M: Mem> Pool<M> {
    /// Retires a slab that the caller has just made empty, unless it is to be
    /// kept where its class would look first. Says whether it is gone.
    pub(super) fn retire_unless_retained(&self, shard: u32, descriptor: u32, class: u32) -> bool {
        if self.geo.retain != 0 && self.head(shard, class, Order::Relaxed).top() == Some(descriptor)
        {
            return false;
        }
        self.retire(descriptor)
    }

    /// Retires the slab of `descriptor` if it is empty.
    #[inline(never)]
    pub(super) fn retire(&self, descriptor: u32) -> bool {
        let at = self.state_at(descriptor);
        for _ in 0..ATTEMPTS {
            let state = self.state(descriptor, Order::Relaxed);
            if !state.alive() || state.credits() != self.slots(state.class()) {
                return false;
            }
            let flags = State::USED | State::DEAD | (state.0 & State::LISTED);
            let dead = State::new(0, state.class(), flags);
            if M::FAULT as u8 == Fault::BlindRetire as u8 {
                self.mem.store(at, dead.0, Order::Release);
                self.bury(descriptor, state.class());
                return true;
            }
            // AcqRel: sees every slot bit cleared by whoever added a credit.
            // It holds for whatever slab the descriptor has now: an empty one.
            if self
                .mem
                .compare_exchange(at, state.0, dead.0, Order::AcqRel)
                .is_ok()
            {
                self.bury(descriptor, state.class());
                return true;
            }
        }
        false
    }

    /// Gives back the pages of a slab that was just made dead, then its
    /// descriptor, unless that is still on a stack.
    #[inline(never)]
    fn bury(&self, descriptor: u32, class: u32) {
        self.count(Counter::Empties, 1u64.wrapping_neg());
        let page = u64::from(self.link(descriptor).page());
        let pages = u64::from(self.shape(class).pages);
        let early = M::FAULT as u8 == Fault::EarlyPages as u8;
        if early {
            self.release_run(page, pages);
        }
        for page in page..page + pages {
            // Relaxed: published by the release of the run bits.
            self.mem.store(self.page_word_at(page), 0, Order::Relaxed);
        }
        if !early {
            self.release_run(page, pages);
        }
        // AcqRel: against the popper that clears LISTED; who comes second
        // frees the descriptor.
        let old = State(
            self.mem
                .fetch_and(self.state_at(descriptor), !State::USED, Order::AcqRel),
        );
        if !old.has(State::LISTED) {
            self.free_descriptor(descriptor);
        }
    }

    /// Retires all empty slabs; says whether any was. Linear in the number of
    /// pages, and nothing to do where the counter says so.
    #[inline(never)]
    pub(crate) fn reclaim(&self) -> bool {
        if (self.counter(Counter::Empties) as i64) <= 0 {
            return false;
        }
        (0..self.geo.pages as u32).fold(false, |any, descriptor| self.retire(descriptor) | any)
    }
}
