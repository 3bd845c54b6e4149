//! The kernels of `selftest`: patterns, divergence, random work. They only
//! enqueue.

use cust::memory::DeviceSlice;
use cust::stream::Stream;
use heap_kernels::exercise::{Churn, Counts, HELD};

use super::error::GpuError;
use super::pool::{DevicePool, Sizes, address};

/// Warps that share blocks to be written or verified, at most.
const WARPS: u64 = 1 << 16;

/// Threads for `n` blocks, a warp each while there are so many warps.
fn threads(n: usize) -> u64 {
    32 * (n as u64).min(WARPS)
}

impl DevicePool {
    /// Writes the pattern of block `i` under `seed` into block `i`; null
    /// blocks are skipped.
    pub(crate) fn write_pattern(
        &self,
        stream: &Stream,
        blocks: &DeviceSlice<u64>,
        sizes: Sizes<'_>,
        seed: u64,
    ) -> Result<(), GpuError> {
        let n = blocks.len();
        sizes.check(n);
        let [each, all] = sizes.arguments();
        let arguments = [address(blocks), each, all, seed, n as u64];
        // SAFETY: all arrays have n elements; the blocks are the caller's.
        unsafe {
            self.gpu()
                .launch_threads(stream, "dh_write", threads(n), &arguments)
        }
    }

    /// Adds the number of words that are not as written under `seed` (`None`:
    /// not zero) to `wrong[0]`; `wrong[1]` becomes the highest index, plus one,
    /// of a block with such a word.
    pub(crate) fn verify(
        &self,
        stream: &Stream,
        blocks: &DeviceSlice<u64>,
        sizes: Sizes<'_>,
        seed: Option<u64>,
        wrong: &DeviceSlice<u64>,
    ) -> Result<(), GpuError> {
        let n = blocks.len();
        sizes.check(n);
        assert!(wrong.len() >= 2, "two words are needed for what is wrong");
        let [each, all] = sizes.arguments();
        let arguments = [
            address(blocks),
            each,
            all,
            seed.unwrap_or(0),
            u64::from(seed.is_none()),
            address(wrong),
            n as u64,
        ];
        // SAFETY: all arrays have n elements, `wrong` has two; the blocks are
        // the caller's.
        unsafe {
            self.gpu()
                .launch_threads(stream, "dh_verify", threads(n), &arguments)
        }
    }

    /// [`wander`](heap_kernels::exercise::wander), one lane per element.
    pub(crate) fn wander(
        &self,
        stream: &Stream,
        seed: u64,
        sizes: &DeviceSlice<u64>,
        out: &DeviceSlice<u64>,
        status: &DeviceSlice<u32>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        assert!(
            sizes.len() == n && status.len() == n,
            "arrays differ in length"
        );
        let arguments = [
            self.handle_address(),
            seed,
            address(sizes),
            address(out),
            address(status),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu()
                .launch_threads(stream, "dh_wander", n as u64, &arguments)
        }
    }

    /// [`churn`](heap_kernels::exercise::churn), or `drain` with `last`: a
    /// thread for each four pairs of words of `held`. Adds to `counts`.
    pub(crate) fn churn(
        &self,
        stream: &Stream,
        work: &Churn,
        last: bool,
        held: &DeviceSlice<u64>,
        counts: &DeviceSlice<u64>,
    ) -> Result<(), GpuError> {
        let n = (held.len() / (2 * HELD)) as u64;
        assert!(
            counts.len() >= Counts::WORDS,
            "too few words for the counts"
        );
        let arguments = [
            self.handle_address(),
            work.seed,
            work.round,
            work.operations,
            work.largest,
            u64::from(last),
            address(held),
            address(counts),
            n,
        ];
        // SAFETY: `held` has so many words for each of n threads.
        unsafe { self.gpu().launch_threads(stream, "dh_churn", n, &arguments) }
    }
}
