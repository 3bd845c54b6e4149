//! Page runs: contiguous pages, found in a hierarchical bitmap.

mod claim;
mod search;
mod summary;
#[cfg(test)]
mod tests;

use crate::layout::words::Refusal;
use crate::layout::{Counter, Pool, ShardCounter};
use crate::mem::{Mem, Order};

/// Where in the pool a page run should lie. A request that loses a claim to
/// others takes what comes first, some way off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the smallest of the first 64 holes that fit, at its high end.
    #[default]
    Best,
    /// As low as it fits: for what lives long.
    Low,
    /// As high as it fits: for what dies soon.
    High,
}

/// A run that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunRequest {
    /// One page at least.
    pub(crate) pages: u64,
    /// Alignment of its address in bytes, a power of two.
    pub(crate) align: u64,
    pub(crate) place: Place,
    /// The page from which on to look first, then from the pool's first.
    pub(crate) from: u64,
    /// Shard of the asking lane: spreads the retries of lanes that collide.
    pub(crate) spread: u32,
}

/// Why there is no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRun {
    /// The search saw no hole that fits.
    Nothing,
    /// Others took each hole that it saw.
    Contended,
}

/// Claims that one search may lose before it gives up.
const CLAIMS: u32 = 32;

impl<M: Mem> Pool<M> {
    /// Finds and claims a run; the pages' words are zero. At most [`CLAIMS`]
    /// searches, each linear in the words of run bits that are neither full
    /// nor (64 together) empty.
    #[inline(never)]
    pub(crate) fn take_run(&self, request: &RunRequest) -> Result<u64, NoRun> {
        let (mut request, mut from) = (*request, request.from);
        for attempt in 0..CLAIMS {
            let found = match self.find_run(&request, from) {
                None if from != 0 => self.find_run(&request, 0),
                found => found,
            };
            let Some(start) = found else {
                return Err(if attempt == 0 {
                    NoRun::Nothing
                } else {
                    NoRun::Contended
                });
            };
            match self.claim_run(start, request.pages) {
                Ok(()) => {
                    self.note_used(request.pages);
                    return Ok(start);
                }
                Err(_) => {
                    from = self.scatter(start, &request, attempt);
                    // Whatever is best is so for all who look; what comes first
                    // from there on is not.
                    request.place = Place::Low;
                }
            }
        }
        Err(NoRun::Contended)
    }

    /// Where to look on after a claim of the run at `start` was lost. Lanes
    /// that met there would meet at the next hole again, and at the one after
    /// it: so each takes a number, and goes as many run lengths away as that
    /// hashes to, in a range that doubles with every attempt.
    fn scatter(&self, start: u64, request: &RunRequest, attempt: u32) -> u64 {
        let shard = self.geo.shard_of(request.spread);
        let at = self.shard_counter_at(ShardCounter::Conflicts, shard);
        let number = self.mem.fetch_add(at, 1, Order::Relaxed);
        let seed = u64::from(shard) << 32 | number & u64::from(u32::MAX);
        // Fibonacci hashing: the high bits of a product with 2^64 over phi.
        let hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        away(
            start,
            request,
            self.geo.pages,
            hash % (64 << attempt.min(20)),
        )
    }

    pub(crate) fn note_used(&self, pages: u64) {
        let used = self.count(Counter::UsedPages, pages) + pages;
        if used > self.counter(Counter::HighPages) {
            self.mem
                .fetch_max(self.counter_at(Counter::HighPages), used, Order::Relaxed);
        }
    }

    /// Gives a claimed run back; the caller has cleared its pages' words.
    #[inline(never)]
    pub(crate) fn release_run(&self, start: u64, pages: u64) {
        self.count(Counter::UsedPages, pages.wrapping_neg());
        self.open_pages(start, pages);
    }

    /// Number of changes so far. Acquire: a search that starts after this sees
    /// every release that is counted in it.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.mem
            .load(self.counter_at(Counter::Changes), Order::Acquire)
    }

    /// Counts a change. Release: it comes after what changed.
    pub(crate) fn note_change(&self) {
        self.mem
            .fetch_add(self.counter_at(Counter::Changes), 1, Order::Release);
    }

    /// Whether a search for `amount` is known to be in vain.
    #[inline]
    pub(crate) fn refused(&self, which: Counter, changes: u64, amount: u64) -> bool {
        Refusal(self.counter(which)).covers(changes, amount)
    }

    /// Notes that a search for `amount` found nothing from `before` on, if
    /// nothing changed meanwhile; says whether that is so.
    #[inline(never)]
    pub(crate) fn prove_refusal(&self, which: Counter, before: u64, amount: u64) -> bool {
        if self.changes() != before {
            return false;
        }
        if let Some(refusal) = Refusal::new(before, amount) {
            // A smaller amount refused at the same time says more.
            if !self.refused(which, before, amount) {
                self.mem
                    .store(self.counter_at(which), refusal.0, Order::Relaxed);
            }
        }
        true
    }
}

/// The start of another run of `all` pages that lies `number` (modulo as many
/// as there are) whole lengths away from `start`: so lanes that met there leave
/// no gaps between their runs. First fits go on upwards, runs at a hole's high
/// end downwards, until that direction is used up.
fn away(start: u64, request: &RunRequest, all: u64, number: u64) -> u64 {
    let pages = request.pages;
    let (below, above) = (start / pages, ((all - start) / pages).saturating_sub(1));
    if below + above == 0 {
        return (start + 1) % all;
    }
    let steps = number % (below + above);
    let upwards_first = request.place == Place::Low;
    let first = if upwards_first { above } else { below };
    let (upwards, left) = if steps < first {
        (upwards_first, steps)
    } else {
        (!upwards_first, steps - first)
    };
    let distance = (left + 1) * pages;
    if upwards {
        start + distance
    } else {
        start - distance
    }
}
