//! Patterns that tell whose a block's bytes are.

use super::memory::HostBytes;

/// Longer blocks are marked at both ends and at the start of each stretch of
/// this many bytes.
const STRETCH: u64 = 4096;

/// Bytes marked at the start of a stretch.
const MARK: u64 = 16;

/// The ranges of a block of `len` bytes that are marked, within its first
/// `prefix` bytes.
fn spans(len: u64, prefix: u64) -> impl Iterator<Item = (u64, u64)> {
    let whole = len <= 2 * STRETCH;
    let stretches = if whole { 0 } else { len / STRETCH };
    let tail = if whole { 0 } else { len - STRETCH };
    let inner = (1..stretches).map(|i| (i * STRETCH, i * STRETCH + MARK));
    let head = (0, if whole { len } else { STRETCH });
    [head]
        .into_iter()
        .chain(inner.take_while(move |span| span.1 <= tail))
        .chain((!whole).then_some((tail, len)))
        .map(move |(from, to)| (from, to.min(prefix)))
        .filter(|(from, to)| from < to)
}

/// Byte `at` of the pattern of `key`.
const fn byte(key: u64, at: u64) -> u8 {
    let word = (key ^ (at >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((word ^ word >> 32) >> (8 * (at & 7))) as u8
}

fn chunks(len: u64, prefix: u64) -> impl Iterator<Item = (u64, usize)> {
    spans(len, prefix).flat_map(|(from, to)| {
        (from..to)
            .step_by(256)
            .map(move |at| (at, (to - at).min(256) as usize))
    })
}

/// Marks the block of `len` bytes at `offset`, which is the caller's.
pub(super) fn mark<M: HostBytes>(mem: &M, offset: u64, len: u64, key: u64) {
    let mut buffer = [0; 256];
    for (at, count) in chunks(len, len) {
        for (i, slot) in (at..).zip(&mut buffer[..count]) {
            *slot = byte(key, i);
        }
        // SAFETY: the block is the caller's.
        unsafe { mem.write(offset + at, &buffer[..count]) };
    }
}

/// The first of the first `prefix` bytes that is not as [`mark`] left it, for
/// a block that was marked with `len` bytes; it may have moved since.
pub(super) fn first_difference<M: HostBytes>(
    mem: &M,
    offset: u64,
    (len, prefix): (u64, u64),
    key: u64,
) -> Option<u64> {
    let mut buffer = [0; 256];
    for (at, count) in chunks(len, prefix) {
        // SAFETY: the block is the caller's.
        unsafe { mem.read(offset + at, &mut buffer[..count]) };
        let differs = |&(i, found): &(u64, u8)| found != byte(key, i);
        let wrong = (at..).zip(buffer[..count].iter().copied()).find(differs);
        if let Some((i, _)) = wrong {
            return Some(i);
        }
    }
    None
}

/// Whether the first `len` bytes at `offset` are zero.
pub(super) fn is_zero<M: HostBytes>(mem: &M, offset: u64, len: u64) -> bool {
    let mut buffer = [0; 256];
    chunks(len, len).all(|(at, count)| {
        // SAFETY: the block is the caller's.
        unsafe { mem.read(offset + at, &mut buffer[..count]) };
        buffer[..count].iter().all(|&byte| byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory::PoolMemory;

    #[test]
    fn spans_are_ordered_and_reach_both_ends() {
        for len in [
            0,
            1,
            100,
            8191,
            8192,
            8193,
            12_288,
            12_300,
            100_000,
            1 << 20,
        ] {
            let all: std::vec::Vec<_> = spans(len, len).collect();
            assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "{len}: {all:?}");
            assert!(len == 0 || all[0].0 == 0 && all[all.len() - 1].1 == len);
            let cut: std::vec::Vec<_> = spans(len, len / 2).collect();
            assert!(cut.iter().all(|span| span.1 <= len / 2));
        }
    }

    #[test]
    fn every_marked_byte_counts() {
        let memory = PoolMemory::new(1 << 16, 16);
        let mem = memory.mem();
        for len in [1, 7, 16, 300, 8192, 20_000] {
            mark(&mem, 64, len, 77);
            assert_eq!(first_difference(&mem, 64, (len, len), 77), None);
            assert_ne!(first_difference(&mem, 64, (len, len), 78), None);
            for at in [0, len / 2, len - 1]
                .into_iter()
                .filter(|at| len <= 8192 || at % 4096 < 16)
            {
                let mut old = [0];
                // SAFETY: this test has the memory to itself.
                unsafe {
                    mem.read(64 + at, &mut old);
                    mem.write(64 + at, &[!old[0]]);
                }
                assert_eq!(first_difference(&mem, 64, (len, len), 77), Some(at));
                // SAFETY: as above.
                unsafe { mem.write(64 + at, &old) };
            }
        }
    }

    #[test]
    fn a_prefix_outlives_its_block() {
        let memory = PoolMemory::new(1 << 16, 16);
        let mem = memory.mem();
        mark(&mem, 0, 30_000, 5);
        // SAFETY: this test has the memory to itself.
        unsafe { mem.pointer(20_000).write_bytes(0, 10_000) };
        assert_eq!(first_difference(&mem, 0, (30_000, 20_000), 5), None);
        assert!(first_difference(&mem, 0, (30_000, 30_000), 5).is_some());
    }
}
