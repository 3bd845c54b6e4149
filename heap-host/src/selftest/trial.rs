//! What a test works with, and what it leaves for its row.

use heap_kernels::pattern::Random;

use super::Progress;
use super::expect::grouped;
use super::rig::{End, Machine, Rig, Step};

/// By how much `quick` shrinks numbers of requests.
const QUICK: u64 = 30;

/// One test under way.
pub(super) struct Trial<'a> {
    pub(super) machine: &'a dyn Machine,
    pub(super) seed: u64,
    pub(super) quick: bool,
    pub(super) pool_bytes: u64,
    /// Operations of the soak, where one is wanted.
    pub(super) soak: Option<u64>,
    /// What is done, in numbers.
    pub(super) what: String,
    /// What else there is to say.
    pub(super) detail: String,
    pub(super) tick: &'a mut dyn FnMut(Progress<'_>),
}

impl<'a> Trial<'a> {
    /// A fresh pool of the usual length.
    pub(super) fn pool(&self) -> Step<Box<dyn Rig + 'a>> {
        self.pool_of(self.pool_bytes)
    }

    /// A fresh pool, where the machine has the memory.
    pub(super) fn pool_of(&self, bytes: u64) -> Step<Box<dyn Rig + 'a>> {
        let needed = bytes.saturating_add(bytes / 16);
        if let Some(free) = self.machine.free_memory()?
            && free < needed
        {
            let (needed, free) = (needed >> 20, free >> 20);
            return Err(End::Skipped(format!(
                "needs {} MiB of memory, and {} MiB are free",
                grouped(needed),
                grouped(free)
            )));
        }
        self.machine.pool(bytes)
    }

    /// `number`, or a thirtieth where it should be quick.
    pub(super) fn count(&self, number: u64) -> u64 {
        if self.quick {
            (number / QUICK).max(1)
        } else {
            number
        }
    }

    /// Threads of a launch of many.
    pub(super) fn threads(&self) -> u64 {
        self.count(self.machine.threads())
    }

    /// Threads of a launch of many whose requests take `bytes` each.
    pub(super) fn threads_of(&self, rig: &dyn Rig, bytes: u64) -> usize {
        let room = rig.geometry().page_bytes() / 2 / bytes.max(16);
        self.threads().min(room).max(1) as usize
    }

    /// `rounds`, or a third where it should be quick.
    pub(super) fn rounds(&self, rounds: u64) -> u64 {
        if self.quick {
            rounds.div_ceil(3)
        } else {
            rounds
        }
    }

    /// Random numbers of this test's seed.
    pub(super) fn random(&self, stream: u64) -> Random {
        Random::new(self.seed, stream)
    }
}

/// `n` random sizes from `low` to `high`.
pub(super) fn random_sizes(random: &mut Random, n: usize, low: u64, high: u64) -> Vec<u64> {
    (0..n).map(|_| low + random.below(high - low + 1)).collect()
}
