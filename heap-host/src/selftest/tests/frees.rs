//! Frees of what is no live block, by many threads.

use heap_kernels::FreeError;

use super::super::expect::{
    DOUBLE_FREE, distinct, filled, free_name, granted, grouped, holds, insist, release, unchanged,
};
use super::super::rig::{Contents, Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

/// Threads that free one block at the same time.
const AT_ONCE: usize = 4;

pub(super) fn double_free(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let n = t.threads_of(&*rig, 2400);
    t.what = format!(
        "{} blocks, each freed by {AT_ONCE} threads, then again",
        grouped(n as u64)
    );
    let mut sizes = random_sizes(&mut t.random(0), n, 0, 2000);
    // Some runs of pages, too.
    sizes
        .iter_mut()
        .step_by(1001)
        .for_each(|size| *size = 10_000);
    let (answer, _) = insist(&*rig, Sizes::Each(&sizes), n)?;
    distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
    filled(&*rig, &answer.addresses, Sizes::Each(&sizes), t.seed)?;
    let blocks = &answer.addresses;
    // Some of the threads are lanes of one warp, others far away.
    let mut targets: Vec<u64> = blocks.iter().flat_map(|&at| [at; AT_ONCE / 2]).collect();
    targets.extend_from_within(..);
    let statuses = rig.free(&targets)?;
    one_wins(&targets, &statuses)?;
    let bad = (targets.len() - n) as u64;
    unchanged(&*rig, &fresh, bad)?;
    let again = rig.free(blocks)?;
    due(blocks, &again, |_| DOUBLE_FREE)?;
    unchanged(&*rig, &fresh, bad + n as u64)?;
    offender(&*rig, &|offset, error| {
        error == FreeError::DoubleFree && blocks.contains(&rig.base().wrapping_add(offset))
    })
}

/// Of the threads that name one block, one succeeds.
fn one_wins(targets: &[u64], statuses: &[u32]) -> Step {
    let mut all: Vec<(u64, u32)> = targets
        .iter()
        .copied()
        .zip(statuses.iter().copied())
        .collect();
    all.sort_unstable();
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let won = same.iter().filter(|(_, status)| *status == 0).count();
        let told = same
            .iter()
            .filter(|(_, status)| *status == DOUBLE_FREE)
            .count();
        if (won, told) != (1, same.len() - 1) {
            let found: Vec<_> = same.iter().map(|(_, status)| free_name(*status)).collect();
            fail!(
                "block at {:#x} freed {} times: expected one success and DoubleFree else, found {found:?}",
                same[0].0,
                same.len()
            );
        }
    }
    Ok(())
}

/// Each free ended as it should.
fn due(targets: &[u64], statuses: &[u32], expected: impl Fn(usize) -> u32) -> Step {
    for (i, &status) in statuses.iter().enumerate() {
        if status != expected(i) {
            fail!(
                "free {i} of {:#x}: expected {}, found {}",
                targets[i],
                free_name(expected(i)),
                free_name(status)
            );
        }
    }
    Ok(())
}

/// The first refused free is kept, and is one of those that there were.
fn offender(rig: &dyn Rig, possible: &dyn Fn(u64, FreeError) -> bool) -> Step {
    match rig.offender()? {
        Some(first) if possible(first.offset, first.error) => Ok(()),
        found => fail!("first refused free: expected one of those made, found {found:?}"),
    }
}

/// Addresses that are no block's, and what freeing them should say.
fn foreign(rig: &dyn Rig, blocks: &[u64], sizes: &[u64], n: usize) -> Vec<(u64, FreeError)> {
    use FreeError::{InsideBlock, NeverAllocated, OutsidePool};
    let geometry = rig.geometry();
    let start = rig.base() + geometry.metadata_bytes();
    let end = start + geometry.page_bytes();
    // Far from the low end, where slabs are, and the high end, of runs.
    let middle = start + geometry.page_bytes() / 2 / geometry.page_size() * geometry.page_size();
    let one = |i: usize| {
        let block = i / 8 % blocks.len();
        let (at, step) = (blocks[block], (i / 8) as u64 % 64);
        match i % 8 {
            0 => (start - 16 - step * 16, OutsidePool),
            1 => (end + step * 4096, OutsidePool),
            2 => (rig.base().wrapping_sub(4096 * (step + 1)), OutsidePool),
            3 => (u64::MAX - step * 16, OutsidePool),
            4 => (at + 1, InsideBlock),
            5 => (at + (sizes[block] - 1).min(16), InsideBlock),
            6 => (middle + step * geometry.page_size(), NeverAllocated),
            _ => (middle + step * 16, NeverAllocated),
        }
    };
    (0..n).map(one).collect()
}

pub(super) fn foreign_free(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let n = t.threads() as usize;
    t.what = format!(
        "{} frees: outside the pool, inside blocks, of none",
        grouped(n as u64)
    );
    let live = 128;
    let mut sizes = random_sizes(&mut t.random(0), live, 32, 2000);
    sizes.iter_mut().step_by(16).for_each(|size| *size = 20_000);
    let answer = rig.alloc(Sizes::Each(&sizes), live)?;
    granted(&answer, Sizes::Each(&sizes))?;
    distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
    filled(&*rig, &answer.addresses, Sizes::Each(&sizes), t.seed)?;
    let before = rig.stats()?;
    let cases = foreign(&*rig, &answer.addresses, &sizes, n);
    let targets: Vec<u64> = cases.iter().map(|(at, _)| *at).collect();
    let statuses = rig.free(&targets)?;
    due(&targets, &statuses, |i| cases[i].1.code())?;
    offender(&*rig, &|offset, error| {
        let at = rig.base().wrapping_add(offset);
        cases.contains(&(at, error))
    })?;
    let after = rig.stats()?;
    let mut expected = before;
    expected.bad_frees += n as u64;
    if after != expected {
        fail!("expected {expected:?}, found {after:?}");
    }
    rig.check()?;
    let contents = Contents::Pattern(t.seed);
    holds(&*rig, &answer.addresses, Sizes::Each(&sizes), contents)?;
    release(&*rig, &answer.addresses)?;
    rig.reset()?;
    let fresh = rig.stats()?;
    if rig.offender()?.is_some() {
        fail!("expected a reset to forget refused frees");
    }
    unchanged(&*rig, &fresh, 0)
}
