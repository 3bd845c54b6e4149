//! Empty slabs become pages again.

use crate::layout::words::{Link, State};
use crate::layout::{Counter, Pool};
use crate::mem::{Fault, Mem, Order};

/// Exchanges that one attempt to retire may lose to changes of the flags.
const ATTEMPTS: u32 = 8;

impl<M: Mem> Pool<M> {
    /// Retires a slab that the caller has just made empty, unless such slabs are
    /// kept. Says whether it is gone.
    pub(super) fn retire_unless_retained(&self, descriptor: u32) -> bool {
        self.geo.retain == 0 && self.retire(descriptor)
    }

    /// Retires the slab of `descriptor` if it is empty.
    #[inline(never)]
    pub(super) fn retire(&self, descriptor: u32) -> bool {
        let at = self.state_at(descriptor);
        for _ in 0..ATTEMPTS {
            let state = self.state(descriptor, Order::Relaxed);
            if !state.alive() || state.credits() != self.slots(state.kind()) {
                return false;
            }
            let flags = State::USED | State::DEAD | (state.0 & State::LISTED);
            let dead = state.with_flags(flags);
            if M::FAULT as u8 == Fault::BlindRetire as u8 {
                self.mem.store(at, dead.0, Order::Release);
                self.bury(descriptor, state);
                return true;
            }
            // AcqRel: sees every slot bit cleared by whoever added a credit.
            // It holds for whatever slab the descriptor has now: an empty one.
            if self
                .mem
                .compare_exchange(at, state.0, dead.0, Order::AcqRel)
                .is_ok()
            {
                self.bury(descriptor, state);
                return true;
            }
        }
        false
    }

    /// Gives back the pages of a slab that was just made dead, then its
    /// descriptor, unless that is still on a stack.
    #[inline(never)]
    fn bury(&self, descriptor: u32, state: State) {
        self.count(Counter::Empties, 1u64.wrapping_neg());
        let page = u64::from(self.link(descriptor).page());
        let pages = self.slab_pages(state.kind());
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

    /// Retires empty slabs that were retained, until that many pages are free
    /// or all of them are; says whether any was. Linear in the number of stacks
    /// and of slabs on them, and nothing to do where the counter says so.
    ///
    /// It begins at a stack that depends on the shard, so that lanes which need
    /// pages at the same time take different slabs, and only what they need:
    /// the other classes keep theirs.
    ///
    /// Walks along the stacks without taking anything off. Others may change
    /// them under its feet, and lead it from one stack to another. What it finds
    /// it asks whether it is empty. What it misses is no matter: a node's link
    /// gets another value only by a push, which counts as a change after it, or
    /// once its descriptor was freed, which counts as one before; so either the
    /// search sees that something changed, or it changes after its proof, which
    /// holds no longer then.
    #[inline(never)]
    pub(crate) fn reclaim(&self, enough: u64, shard: u32) -> bool {
        let per_class = u64::from(self.stacks());
        let stacks = per_class * u64::from(self.geo.classes);
        // Fibonacci hashing, as where runs scatter.
        let hash = u64::from(shard).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (mut freed, mut steps) = (0, self.geo.pages);
        for stack in hash..hash + stacks {
            if freed >= enough || (self.counter(Counter::Empties) as i64) <= 0 {
                break;
            }
            let stack = stack % stacks;
            let (class, shard) = (stack / per_class, stack % per_class);
            freed += self.reclaim_stack(shard as u32, class as u32, enough - freed, &mut steps);
        }
        freed > 0
    }

    /// Retires empty slabs of one stack likewise: how many pages that freed.
    /// Takes one of `steps` for each slab it looks at: there are not more than
    /// pages as long as nobody moves them.
    fn reclaim_stack(&self, shard: u32, class: u32, enough: u64, steps: &mut u64) -> u64 {
        let mut freed = 0;
        // Acquire: the links as their pushers wrote them.
        let mut next = self.head(shard, class, Order::Acquire).top();
        while let Some(descriptor) = next
            && freed < enough
            && let Some(left) = steps.checked_sub(1)
        {
            *steps = left;
            // Acquire: see `form`.
            let link = self.mem.load(self.link_at(descriptor), Order::Acquire);
            next = Link(link).below();
            // Relaxed: the size is a hint, of another slab where the walk was
            // led away.
            let kind = self.state(descriptor, Order::Relaxed).kind();
            if self.retire(descriptor) {
                freed += self.slab_pages(kind);
            }
        }
        freed
    }
}
