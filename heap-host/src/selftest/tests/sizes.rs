//! Sizes and alignments.

use heap_kernels::AllocError;

use super::super::expect::{
    distinct, filled, granted, grouped, insist, live_and_die, release, unchanged,
};
use super::super::rig::{Lanes, Rig, Sizes, Step, fail};
use super::super::trial::Trial;

/// Every size of this range.
const LAST: u64 = 65_536;

/// The alignment of a pool's first byte, and so the largest.
const LARGEST_ALIGN: u64 = 1 << 21;

pub(super) fn sizes(t: &mut Trial<'_>) -> Step {
    let step = if t.quick { 31 } else { 1 };
    let sizes: Vec<u64> = (0..=LAST).step_by(step).collect();
    // Slots waste an eighth at most, runs a page.
    let needed: u64 = sizes.iter().map(|size| size + size / 8 + 4096).sum();
    let wanted = (needed * 5 / 4 + (64 << 20)).max(t.pool_bytes);
    let free = t.machine.free_memory()?.unwrap_or(u64::MAX);
    let bytes = wanted.min(free / 2).max(super::super::MIN_POOL);
    let rig = t.pool_of(bytes)?;
    let share = if bytes == wanted {
        u64::MAX
    } else {
        rig.geometry().page_bytes() / 3
    };
    let launches = shares(&sizes, share);
    t.what = format!(
        "{} sizes from 0 to {LAST}, launches: {}, pool of {} MiB",
        grouped(sizes.len() as u64),
        launches.len(),
        bytes >> 20
    );
    let (fresh, mut again) = (rig.stats()?, 0);
    for (launch, sizes) in launches.into_iter().enumerate() {
        let (answer, more) = insist(&*rig, Sizes::Each(sizes), sizes.len())?;
        again += more;
        let seed = t.seed ^ launch as u64;
        live_and_die(&*rig, &answer, Sizes::Each(sizes), None, seed)?;
        unchanged(&*rig, &fresh, 0)?;
    }
    drop(rig);
    let large = large(t)?;
    t.what += &format!(
        "; {large} large ones to half a pool of {} MiB",
        t.pool_bytes >> 20
    );
    t.detail = format!("{} requests asked again after Contended", grouped(again));
    Ok(())
}

/// Cuts sizes so that those of one launch take `share` bytes at most.
fn shares(sizes: &[u64], share: u64) -> Vec<&[u64]> {
    let (mut parts, mut first, mut sum) = (Vec::new(), 0, 0u64);
    for (i, size) in sizes.iter().enumerate() {
        if sum > 0 && sum + size > share {
            parts.push(&sizes[first..i]);
            (first, sum) = (i, 0);
        }
        sum += size + 1;
    }
    parts.push(&sizes[first..]);
    parts
}

/// One block at a time, each power of two and its neighbours.
fn large(t: &Trial<'_>) -> Step<usize> {
    let rig = t.pool()?;
    let (fresh, half) = (rig.stats()?, rig.geometry().page_bytes() / 2);
    let powers = (17..)
        .map(|power| 1u64 << power)
        .take_while(|&size| size <= half);
    let mut sizes: Vec<u64> = powers.flat_map(|size| [size - 1, size, size + 1]).collect();
    sizes.retain(|&size| size <= half);
    sizes.push(half);
    for (i, &size) in sizes.iter().enumerate() {
        let answer = rig.alloc(Sizes::All(size), 1)?;
        granted(&answer, Sizes::All(size))?;
        live_and_die(&*rig, &answer, Sizes::All(size), None, t.seed ^ i as u64)?;
    }
    unchanged(&*rig, &fresh, 0)?;
    Ok(sizes.len())
}

pub(super) fn alignments(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let aligns: Vec<u64> = (0..=LARGEST_ALIGN.ilog2())
        .map(|power| 1 << power)
        .collect();
    let sizes = [0, 1, 16, 100, 4096, 10_000, 100_000];
    let many = t.count(30_000);
    t.what = format!(
        "{} alignments to {LARGEST_ALIGN} with {} sizes; {} requests each to 4,096",
        aligns.len(),
        sizes.len(),
        grouped(many)
    );
    for (i, &size) in sizes.iter().enumerate() {
        let sizes = vec![size; aligns.len()];
        aligned(&*rig, &sizes, &aligns, t.seed ^ i as u64)?;
    }
    for &align in aligns.iter().filter(|&&align| align <= 4096) {
        let n = (t.threads_of(&*rig, align.max(112)) as u64).min(many) as usize;
        aligned(&*rig, &vec![100; n], &vec![align; n], t.seed ^ align)?;
    }
    refused_alignments(&*rig)?;
    unchanged(&*rig, &fresh, 0)
}

/// Allocates with alignments, holds all at once, and frees.
fn aligned(rig: &dyn Rig, sizes: &[u64], aligns: &[u64], seed: u64) -> Step {
    let answer = rig.alloc_lanes(&Lanes {
        sizes,
        aligns: Some(aligns),
        lanes: u32::MAX,
        zero: false,
    })?;
    granted(&answer, Sizes::Each(sizes))?;
    distinct(rig, &answer.addresses, Sizes::Each(sizes), Some(aligns))?;
    filled(rig, &answer.addresses, Sizes::Each(sizes), seed)?;
    release(rig, &answer.addresses)
}

/// What is no power of two gets nothing.
fn refused_alignments(rig: &dyn Rig) -> Step {
    let aligns = [0, 3, 24, 4097, u64::MAX];
    let answer = rig.alloc_lanes(&Lanes {
        sizes: &[100; 5],
        aligns: Some(&aligns),
        lanes: u32::MAX,
        zero: false,
    })?;
    let due = AllocError::BadAlignment.code();
    for (i, align) in aligns.into_iter().enumerate() {
        let (status, address) = (answer.statuses[i], answer.addresses[i]);
        if status != due || address != 0 {
            fail!(
                "alignment {align}: expected BadAlignment (status {due}), found status {status} \
                 and address {address:#x}"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_and_small_enough() {
        let sizes: Vec<u64> = (0..100).collect();
        assert_eq!(shares(&sizes, u64::MAX), [&sizes[..]]);
        let parts = shares(&sizes, 300);
        assert_eq!(parts.concat(), sizes);
        assert!(parts.iter().all(|part| part.iter().sum::<u64>() <= 300));
    }
}
