//! One lane, as its program sees it.

use core::cell::{Cell, RefCell};
use core::panic::Location;
use core::ptr;

use corosensei::Yielder;

use super::state::{Kind, Next, State};
use crate::warp::{Mask, Warp};

std::thread_local! {
    /// The lane whose program this thread runs, or null.
    static CURRENT: Cell<*const Lane<'static>> = const { Cell::new(ptr::null()) };
}

/// One lane of a [`Machine`](super::Machine).
pub struct Lane<'a> {
    state: &'a RefCell<State>,
    yielder: &'a Yielder<(), ()>,
    warp: u32,
    lane: u32,
}

impl<'a> Lane<'a> {
    pub(super) const fn new(
        state: &'a RefCell<State>,
        yielder: &'a Yielder<(), ()>,
        (warp, lane): (u32, u32),
    ) -> Self {
        Self {
            state,
            yielder,
            warp,
            lane,
        }
    }

    /// Index of the lane's warp.
    #[must_use]
    pub const fn warp(&self) -> u32 {
        self.warp
    }

    /// Number of memory accesses the lane has made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state.borrow().lane_steps(self.warp, self.lane)
    }

    /// Runs `program` with this lane as the thread's current one.
    pub(super) fn enter<R>(&self, program: impl FnOnce(&Lane<'_>) -> R) -> R {
        self.make_current();
        program(self)
    }

    fn make_current(&self) {
        CURRENT.set(ptr::from_ref(self).cast());
    }

    fn suspend(&self) {
        self.yielder.suspend(());
        self.make_current();
    }

    fn meet(&self, kind: Kind, mask: Mask, value: u64, from: u32) -> u64 {
        let next = self
            .state
            .borrow_mut()
            .meet(self.warp, self.lane, (kind, mask, value, from));
        if next == Next::Suspend {
            self.suspend();
        }
        self.state.borrow().answer(self.warp, self.lane)
    }

    /// Called before each access.
    pub(super) fn pause(&self) {
        let next = self.state.borrow_mut().step(self.warp, self.lane);
        if next == Next::Suspend {
            self.suspend();
        }
    }

    /// Calls `visit` with the machine's state and the lane's place in it.
    pub(super) fn with_state(&self, visit: impl FnOnce(&mut State, u32, u32)) {
        visit(&mut self.state.borrow_mut(), self.warp, self.lane);
    }
}

/// The thread goes on outside of all lanes.
pub(super) fn leave() {
    CURRENT.set(ptr::null());
}

/// Calls `visit` with the lane whose program this thread runs, if any.
#[inline]
pub(super) fn with_current<R>(visit: impl FnOnce(Option<&Lane<'_>>) -> R) -> R {
    let current = CURRENT.get();
    // SAFETY: set by `enter` and after each `suspend` of the lane at work, and
    // reset whenever the scheduler gets back control: where it is not null, it
    // is the lane below us on this stack, which outlives this call.
    visit(unsafe { current.as_ref() })
}

// SAFETY: `lane` is unique per coroutine of a warp; `active` gives all lanes of
// a group the group's mask in one go; collectives are answered by the state
// from the values of exactly the mask's lanes, once all of them have called,
// and one thread runs all lanes, so all memory is ordered.
unsafe impl Warp for Lane<'_> {
    fn lane(&self) -> u32 {
        self.lane
    }
    #[track_caller]
    fn active(&self) -> Mask {
        self.state
            .borrow_mut()
            .part(self.warp, self.lane, Location::caller());
        self.suspend();
        self.state.borrow().group(self.warp, self.lane)
    }
    fn ballot(&self, mask: Mask, predicate: bool) -> Mask {
        self.meet(Kind::Ballot, mask, u64::from(predicate), 0) as Mask
    }
    fn match_any(&self, mask: Mask, value: u64) -> Mask {
        self.meet(Kind::MatchAny, mask, value, 0) as Mask
    }
    fn shuffle(&self, mask: Mask, value: u64, from: u32) -> u64 {
        self.meet(Kind::Shuffle, mask, value, from)
    }
    fn reduce_or(&self, mask: Mask, value: u64) -> u64 {
        self.meet(Kind::ReduceOr, mask, value, 0)
    }
    fn sync(&self, mask: Mask) {
        self.meet(Kind::Sync, mask, 0, 0);
    }
    fn shard(&self) -> u32 {
        self.warp
    }
}
