//! What must hold after steps of a test, and the words for what does not.

use std::collections::BTreeMap;

use heap_kernels::{AllocError, FreeError, ReallocError, Stats, pattern};
use rayon::slice::ParallelSliceMut;

use super::rig::{Answer, Contents, End, Rig, Sizes, Step, fail};

/// Longer blocks are written in pieces of so many bytes, by a warp each.
const PIECE: u64 = 1 << 16;

pub(super) const CONTENDED: u32 = AllocError::Contended.code();
pub(super) const OUT_OF_MEMORY: u32 = AllocError::OutOfMemory.code();
pub(super) const DOUBLE_FREE: u32 = FreeError::DoubleFree.code();

/// A number with a comma between groups of three digits.
pub(super) fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn alloc_name(code: u32) -> String {
    if code == 0 {
        return "success".into();
    }
    ReallocError::from_code(code).map_or_else(
        || format!("unknown status {code}"),
        |error| match error {
            ReallocError::Alloc(error) => format!("{error:?}"),
            error => format!("{error:?}"),
        },
    )
}

pub(super) fn free_name(code: u32) -> String {
    if code == 0 {
        return "success".into();
    }
    FreeError::from_code(code)
        .map_or_else(|| format!("unknown status {code}"), |e| format!("{e:?}"))
}

/// How often each status that is not 0 occurs, in words.
pub(super) fn tally(statuses: &[u32], name: fn(u32) -> String) -> String {
    let mut counts = BTreeMap::<u32, u64>::new();
    for &status in statuses.iter().filter(|&&status| status != 0) {
        *counts.entry(status).or_default() += 1;
    }
    let words = counts
        .into_iter()
        .map(|(code, n)| format!("{} {}", grouped(n), name(code)));
    words.collect::<Vec<_>>().join(", ")
}

/// Every request has an address or an error, never both or neither.
pub(super) fn consistent(answer: &Answer, takes_part: impl Fn(usize) -> bool) -> Step {
    for (i, (&address, &status)) in answer.addresses.iter().zip(&answer.statuses).enumerate() {
        let expected = takes_part(i) && status == 0;
        if (address != 0) != expected || (status != 0 && !takes_part(i)) {
            let name = alloc_name(status);
            fail!("request {i}: address {address:#x} with status {name}");
        }
    }
    Ok(())
}

/// Every request that takes part was met.
pub(super) fn granted_to(
    answer: &Answer,
    sizes: Sizes<'_>,
    takes_part: impl Fn(usize) -> bool,
) -> Step {
    if let Some(i) = answer.statuses.iter().position(|&status| status != 0) {
        let (n, size) = (answer.statuses.len(), sizes.of(i));
        let name = alloc_name(answer.statuses[i]);
        let all = tally(&answer.statuses, alloc_name);
        fail!(
            "request {i} of {} ({size} bytes): expected a block, found {name}; refused in all: {all}",
            grouped(n as u64)
        );
    }
    consistent(answer, takes_part)
}

/// Every request was met.
pub(super) fn granted(answer: &Answer, sizes: Sizes<'_>) -> Step {
    granted_to(answer, sizes, |_| true)
}

/// All blocks lie in the pool's pages, are aligned (to 16, or as asked for),
/// and no two overlap.
pub(super) fn distinct(
    rig: &dyn Rig,
    addresses: &[u64],
    sizes: Sizes<'_>,
    aligns: Option<&[u64]>,
) -> Step {
    let geometry = rig.geometry();
    let start = rig.base() + geometry.metadata_bytes();
    let end = start + geometry.page_bytes();
    let mut blocks: Vec<(u64, u64, usize)> = Vec::with_capacity(addresses.len());
    for (i, &address) in addresses
        .iter()
        .enumerate()
        .filter(|&(_, &address)| address != 0)
    {
        let size = sizes.of(i).max(1);
        if address < start || address.checked_add(size).is_none_or(|behind| behind > end) {
            fail!(
                "block {i} at {address:#x} ({size} bytes): expected inside the pages {start:#x}..{end:#x}"
            );
        }
        let align = aligns.map_or(16, |aligns| aligns[i].max(16));
        if !address.is_multiple_of(align) {
            fail!("block {i} at {address:#x}: expected a multiple of {align}");
        }
        blocks.push((address, size, i));
    }
    blocks.par_sort_unstable();
    for pair in blocks.windows(2) {
        let [(at, size, i), (next, _, j)] = [pair[0], pair[1]];
        if at + size > next {
            fail!("blocks {i} at {at:#x} ({size} bytes) and {j} at {next:#x} overlap");
        }
    }
    Ok(())
}

/// The same blocks in pieces that a warp deals with in reasonable time.
fn pieces(addresses: &[u64], sizes: Sizes<'_>) -> Option<(Vec<u64>, Vec<u64>)> {
    let long = |i: usize| sizes.of(i) > 4 * PIECE;
    if !(0..addresses.len()).any(long) {
        return None;
    }
    let (mut at, mut lengths) = (Vec::new(), Vec::new());
    for (i, &address) in addresses
        .iter()
        .enumerate()
        .filter(|&(_, &address)| address != 0)
    {
        let size = sizes.of(i);
        for offset in (0..size).step_by(PIECE as usize) {
            at.push(address + offset);
            lengths.push((size - offset).min(PIECE));
        }
    }
    Some((at, lengths))
}

pub(super) fn write(rig: &dyn Rig, addresses: &[u64], sizes: Sizes<'_>, seed: u64) -> Step {
    match pieces(addresses, sizes) {
        Some((at, lengths)) => rig.write(&at, Sizes::Each(&lengths), seed),
        None => rig.write(addresses, sizes, seed),
    }
}

/// All blocks hold what they should.
pub(super) fn holds(
    rig: &dyn Rig,
    addresses: &[u64],
    sizes: Sizes<'_>,
    contents: Contents,
) -> Step {
    match pieces(addresses, sizes) {
        Some((at, lengths)) => words(rig, &at, Sizes::Each(&lengths), contents),
        None => words(rig, addresses, sizes, contents),
    }
}

fn words(rig: &dyn Rig, addresses: &[u64], sizes: Sizes<'_>, contents: Contents) -> Step {
    let wrong = rig.verify(addresses, sizes, contents)?;
    match (wrong.words, wrong.highest) {
        (0, None) => Ok(()),
        (count, Some(i)) if i < addresses.len() => {
            Err(describe(rig, i, addresses[i], sizes.of(i), contents, count))
        }
        (count, highest) => {
            fail!("{count} wrong words, the highest in block {highest:?}, which does not exist")
        }
    }
}

/// The first wrong word of a block that has one.
fn describe(rig: &dyn Rig, i: usize, at: u64, size: u64, contents: Contents, count: u64) -> End {
    let all = grouped(count);
    let bytes = match rig.peek(at, size as usize) {
        Ok(bytes) => bytes,
        Err(end) => return end,
    };
    for (index, chunk) in bytes.chunks(8).enumerate() {
        let expected = match contents {
            Contents::Pattern(seed) => pattern::word(seed, i as u64, index as u64),
            Contents::Zero => 0,
        };
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let found = u64::from_le_bytes(word);
        let expected = expected & (u64::MAX >> (64 - 8 * chunk.len()));
        if found != expected {
            return End::Failed(format!(
                "block {i} at {at:#x} ({size} bytes), byte {}: expected {expected:#x}, found \
                 {found:#x}; {all} wrong words in all",
                8 * index
            ));
        }
    }
    End::Failed(format!(
        "block {i} at {at:#x} ({size} bytes): {all} wrong words seen by the machine, none by the host"
    ))
}

/// Writes and verifies.
pub(super) fn filled(rig: &dyn Rig, addresses: &[u64], sizes: Sizes<'_>, seed: u64) -> Step {
    write(rig, addresses, sizes, seed)?;
    holds(rig, addresses, sizes, Contents::Pattern(seed))
}

/// Frees all, which must succeed.
pub(super) fn release(rig: &dyn Rig, addresses: &[u64]) -> Step {
    all_freed(addresses, &rig.free(addresses)?)
}

pub(super) fn all_freed(addresses: &[u64], statuses: &[u32]) -> Step {
    match statuses.iter().position(|&status| status != 0) {
        None => Ok(()),
        Some(i) => {
            let (at, name) = (addresses[i], free_name(statuses[i]));
            let all = tally(statuses, free_name);
            fail!("free of block {i} at {at:#x}: expected success, found {name}; in all: {all}")
        }
    }
}

/// The whole life of blocks that were just allocated.
pub(super) fn live_and_die(
    rig: &dyn Rig,
    answer: &Answer,
    sizes: Sizes<'_>,
    aligns: Option<&[u64]>,
    seed: u64,
) -> Step {
    distinct(rig, &answer.addresses, sizes, aligns)?;
    filled(rig, &answer.addresses, sizes, seed)?;
    release(rig, &answer.addresses)
}

fn equal(what: &str, found: u64, expected: u64) -> Step {
    if found == expected {
        return Ok(());
    }
    fail!(
        "{what}: expected {}, found {}",
        grouped(expected),
        grouped(found)
    )
}

/// So many blocks were handed out since `fresh`, and so many are live.
pub(super) fn counted(rig: &dyn Rig, fresh: &Stats, handed_out: u64, live: u64) -> Step {
    let now = rig.stats()?;
    equal(
        "blocks handed out",
        now.allocations - fresh.allocations,
        handed_out,
    )?;
    equal("live blocks", now.live_blocks, live)
}

/// The heap is as it was when it was empty, apart from counters; `bad_frees`
/// were refused since then.
pub(super) fn unchanged(rig: &dyn Rig, fresh: &Stats, bad_frees: u64) -> Step {
    rig.check()?;
    // Empty slabs may have been retained.
    rig.reclaim()?;
    rig.check()?;
    let now = rig.stats()?;
    equal("live blocks afterwards", now.live_blocks, 0)?;
    equal("live bytes afterwards", now.live_bytes, 0)?;
    equal("used bytes afterwards", now.used_bytes, 0)?;
    equal("free bytes afterwards", now.free_bytes, fresh.free_bytes)?;
    equal(
        "largest free run afterwards",
        now.largest_free_run,
        fresh.largest_free_run,
    )?;
    equal("blocks freed", now.frees, now.allocations)?;
    equal("refused frees counted", now.bad_frees, bad_frees)
}

/// One request of all that a fresh heap has succeeds, and is freed again.
pub(super) fn whole(rig: &dyn Rig, fresh: &Stats) -> Step {
    let size = fresh.largest_free_run;
    let all = rig.alloc(Sizes::All(size), 1)?;
    granted(&all, Sizes::All(size))?;
    distinct(rig, &all.addresses, Sizes::All(size), None)?;
    release(rig, &all.addresses)?;
    unchanged(rig, fresh, 0)
}

/// Allocates all, asking again for what ended `Contended`: the answer, and how
/// many requests were asked again.
pub(super) fn insist(rig: &dyn Rig, sizes: Sizes<'_>, n: usize) -> Step<(Answer, u64)> {
    const TRIES: usize = 64;
    let mut answer = rig.alloc(sizes, n)?;
    let mut again = 0;
    for _ in 0..TRIES {
        let left: Vec<usize> = (0..n)
            .filter(|&i| answer.statuses[i] == CONTENDED)
            .collect();
        if left.is_empty() {
            break;
        }
        again += left.len() as u64;
        let wanted: Vec<u64> = left.iter().map(|&i| sizes.of(i)).collect();
        let more = rig.alloc(Sizes::Each(&wanted), left.len())?;
        for (k, &i) in left.iter().enumerate() {
            answer.addresses[i] = more.addresses[k];
            answer.statuses[i] = more.statuses[k];
        }
    }
    granted(&answer, sizes)?;
    Ok((answer, again))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_name_and_number() {
        let statuses = [0, 1, 4, 1, 0, 77];
        assert_eq!(
            tally(&statuses, alloc_name),
            "2 OutOfMemory, 1 Contended, 1 unknown status 77"
        );
        assert_eq!(tally(&[2, 0], free_name), "1 OutsidePool");
        assert_eq!(grouped(1_234_567u64), "1,234,567");
    }
}
