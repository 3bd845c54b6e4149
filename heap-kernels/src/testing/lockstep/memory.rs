//! Memory whose accesses are the steps of a machine.

use super::lane::{Lane, with_current};
use super::trace::{Access, Step};
use crate::mem::{Fault, Mem, Order, Scope};
use crate::testing::memory::HostBytes;

/// A memory at whose accesses a lane can lose its turn.
///
/// Outside of a machine's lanes it is the memory it wraps.
#[derive(Clone, Copy, Debug)]
pub struct LockstepMem<M>(M);

impl<M: Mem> LockstepMem<M> {
    /// `mem`, step by step.
    pub const fn new(mem: M) -> Self {
        Self(mem)
    }

    /// Makes one access a step of the current lane.
    #[inline]
    fn step(&self, request: Request, access: impl FnOnce() -> u64) -> u64 {
        request.check(self.len());
        with_current(|lane| match lane {
            None => access(),
            Some(lane) => {
                lane.pause();
                let found = access();
                record(lane, request, found);
                found
            }
        })
    }
}

/// What is asked of the memory.
#[derive(Clone, Copy)]
struct Request {
    access: Access,
    at: u64,
    current: u64,
    value: u64,
    order: Order,
}

impl Request {
    /// # Panics
    ///
    /// If it breaks the rules that [`Mem`] has for its callers.
    #[inline]
    fn check(&self, len: u64) {
        let Self {
            access, at, order, ..
        } = *self;
        assert!(
            at.is_multiple_of(8) && at < len && len - at >= 8,
            "{access:?} at {at:#x}, which is no word of a pool of {len:#x} bytes"
        );
        let fits = match access {
            Access::Load => matches!(order, Order::Relaxed | Order::Acquire),
            Access::Store => matches!(order, Order::Relaxed | Order::Release),
            _ => true,
        };
        assert!(fits, "{access:?} with order {order:?}");
    }
}

fn record(lane: &Lane<'_>, request: Request, found: u64) {
    let Request {
        access,
        at,
        current,
        value,
        ..
    } = request;
    lane.with_state(|state, warp, lane| {
        state.trace.record(Step {
            warp,
            lane,
            access,
            at,
            current,
            value,
            found,
        });
    });
}

fn check_range(name: &str, at: u64, bytes: u64, len: u64) {
    assert!(
        at.checked_add(bytes).is_some_and(|end| end <= len),
        "{name} of {bytes} bytes at {at:#x} in a pool of {len:#x} bytes"
    );
}

// SAFETY: every method is the inner memory's, after a pause; what a pause does
// is no access of this memory.
unsafe impl<M: Mem> Mem for LockstepMem<M> {
    const SCOPE: Scope = M::SCOPE;
    // More than once, as on a card, so that lanes do wait, and stop waiting.
    const PATIENCE: u32 = 4;
    const FAULT: Fault = M::FAULT;

    fn len(&self) -> u64 {
        self.0.len()
    }
    fn base(&self) -> u64 {
        self.0.base()
    }
    fn load(&self, at: u64, order: Order) -> u64 {
        let request = Request {
            access: Access::Load,
            at,
            current: 0,
            value: 0,
            order,
        };
        self.step(request, || self.0.load(at, order))
    }
    fn store(&self, at: u64, value: u64, order: Order) {
        let request = Request {
            access: Access::Store,
            at,
            current: 0,
            value,
            order,
        };
        self.step(request, || {
            self.0.store(at, value, order);
            value
        });
    }
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        let access = Access::CompareExchange;
        let request = Request {
            access,
            at,
            current,
            value: new,
            order,
        };
        let found = self.step(request, || {
            self.0
                .compare_exchange(at, current, new, order)
                .unwrap_or_else(|found| found)
        });
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        let request = Request {
            access: Access::FetchAdd,
            at,
            current: 0,
            value,
            order,
        };
        self.step(request, || self.0.fetch_add(at, value, order))
    }
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        let request = Request {
            access: Access::FetchAnd,
            at,
            current: 0,
            value,
            order,
        };
        self.step(request, || self.0.fetch_and(at, value, order))
    }
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        let request = Request {
            access: Access::FetchOr,
            at,
            current: 0,
            value,
            order,
        };
        self.step(request, || self.0.fetch_or(at, value, order))
    }
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        let request = Request {
            access: Access::FetchMax,
            at,
            current: 0,
            value,
            order,
        };
        self.step(request, || self.0.fetch_max(at, value, order))
    }

    /// In two steps, so that whoever should not look can see half of it.
    unsafe fn fill(&self, at: u64, len: u64, byte: u8) {
        check_range("fill", at, len, self.len());
        let half = len / 2;
        for (at, len) in [(at, half), (at + half, len - half)] {
            let (access, order) = (Access::Fill, Order::Relaxed);
            with_current(|lane| {
                if let Some(lane) = lane {
                    lane.pause();
                    record(
                        lane,
                        Request {
                            access,
                            at,
                            current: 0,
                            value: len,
                            order,
                        },
                        0,
                    );
                }
            });
            // SAFETY: a part of the caller's range.
            unsafe { self.0.fill(at, len, byte) }
        }
    }

    /// In two steps, see [`LockstepMem::fill`].
    unsafe fn copy(&self, from: u64, to: u64, len: u64) {
        check_range("copy", from, len, self.len());
        check_range("copy", to, len, self.len());
        let half = len / 2;
        for (done, len) in [(0, half), (half, len - half)] {
            let (access, order) = (Access::Copy, Order::Relaxed);
            let (current, at) = (from + done, to + done);
            with_current(|lane| {
                if let Some(lane) = lane {
                    lane.pause();
                    record(
                        lane,
                        Request {
                            access,
                            at,
                            current,
                            value: len,
                            order,
                        },
                        0,
                    );
                }
            });
            // SAFETY: parts of the caller's ranges.
            unsafe { self.0.copy(current, at, len) }
        }
    }
}

// SAFETY: the inner memory's pointer.
unsafe impl<M: HostBytes> HostBytes for LockstepMem<M> {
    fn pointer(&self, at: u64) -> *mut u8 {
        self.0.pointer(at)
    }
}
