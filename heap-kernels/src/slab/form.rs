//! New slabs.

use super::Grant;
use crate::layout::Pool;
use crate::layout::words::{Link, PageWord, State};
use crate::mem::{Mem, Order};
use crate::runs::{NoRun, Place, RunRequest};

impl<M: Mem> Pool<M> {
    /// Forms a slab of `class`, takes up to `want` slots of it at once, and
    /// puts it on the stack of `shard`. `want` is 1 to 64.
    ///
    /// # Errors
    ///
    /// No run, or no descriptor, for it.
    #[inline(never)]
    pub(super) fn form(&self, shard: u32, class: u32, want: u32) -> Result<Grant, NoRun> {
        let shape = self.shape(class);
        let pages = u64::from(shape.pages);
        let page = self.take_run(&RunRequest {
            pages,
            align: self.geo.page_size(),
            place: Place::Low,
            spread: shard,
        })?;
        let Some(descriptor) = self.take_descriptor(page as u32, class) else {
            self.release_run(page, pages);
            return Err(NoRun::Contended);
        };
        // The flag LISTED is set, so the link word is this lane's. Release: who
        // walks along a stack and gets here sees that the descriptor was freed.
        let link = Link::new(page as u32, None);
        self.mem
            .store(self.link_at(descriptor), link.0, Order::Release);
        for index in 0..shape.pages {
            let word = PageWord::slab(class, index, descriptor);
            let at = self.page_word_at(page + u64::from(index));
            self.mem.store(at, word.0, Order::Relaxed);
        }
        Ok(self.open_slab(shard, descriptor, page as u32, class, want.min(shape.slots)))
    }

    /// Takes the first slots of a new slab, then lets others have the rest.
    #[inline(never)]
    fn open_slab(&self, shard: u32, descriptor: u32, page: u32, class: u32, own: u32) -> Grant {
        let mask = u64::MAX >> (64 - own);
        // AcqRel as every claim of slots; all bits are clear, since the pages'
        // last owner left them so.
        self.mem
            .fetch_or(self.slot_word_at(u64::from(page), 0), mask, Order::AcqRel);
        let rest = self.slots(class) - own as i32;
        // Release: who gets a credit sees the link and the page words.
        self.mem.fetch_add(
            self.state_at(descriptor),
            State::credit(rest),
            Order::Release,
        );
        if rest > 0 {
            self.push(shard, class, descriptor);
        } else {
            self.unlist(shard, descriptor);
        }
        Grant::new(page, class, 0, mask)
    }

    /// A free descriptor, in its new slab's name: the one with the slab's own
    /// index, or the next free one. There are as many as pages, so only dead
    /// slabs still on stacks can be in the way: then those are removed.
    #[inline(never)]
    fn take_descriptor(&self, page: u32, class: u32) -> Option<u32> {
        self.probe_descriptor(page, class).or_else(|| {
            (0..self.geo.classes).for_each(|class| self.purge(class));
            self.probe_descriptor(page, class)
        })
    }

    #[inline(never)]
    fn probe_descriptor(&self, page: u32, class: u32) -> Option<u32> {
        let count = self.geo.pages as u32;
        let new = State::new(0, class, State::USED | State::LISTED);
        (page..count).chain(0..page).find(|&descriptor| {
            self.state(descriptor, Order::Relaxed) == State::FREE
                && self
                    .mem
                    // AcqRel: takes the link word over from its last owner.
                    .compare_exchange(self.state_at(descriptor), 0, new.0, Order::AcqRel)
                    .is_ok()
        })
    }
}
