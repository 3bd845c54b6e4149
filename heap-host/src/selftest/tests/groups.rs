//! Requests that are made together: by warps, and by few threads for many.

use super::super::expect::{
    all_freed, counted, distinct, filled, granted, grouped, live_and_die, release, unchanged,
};
use super::super::rig::{Answer, List, Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

pub(super) fn warp(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    // A warp's block of 8 KiB and less is a slot, of more a run.
    let n = t.threads_of(&*rig, 400).saturating_sub(7).max(1);
    let rounds = t.rounds(6);
    let (mut blocks, mut total) = (0, 0);
    for round in 0..rounds {
        let high = if round % 2 == 0 { 200 } else { 500 };
        // No part is empty, for an empty one has no address of its own.
        let sizes = random_sizes(&mut t.random(round), n, 1, high);
        let (bases, answer) = rig.alloc_warp(&sizes)?;
        granted(&answer, Sizes::Each(&sizes))?;
        let mut distinct_bases = bases.clone();
        distinct_bases.sort_unstable();
        distinct_bases.dedup();
        blocks = distinct_bases.len();
        total += blocks as u64;
        t.what = format!(
            "{} rounds of {} threads, {} blocks in the last",
            round + 1,
            grouped(n as u64),
            grouped(blocks as u64)
        );
        counted(&*rig, &fresh, total, blocks as u64)?;
        distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
        parts_in_blocks(&*rig, &bases, &answer, &sizes)?;
        filled(
            &*rig,
            &answer.addresses,
            Sizes::Each(&sizes),
            t.seed ^ round,
        )?;
        release(&*rig, &distinct_bases)?;
        unchanged(&*rig, &fresh, 0)?;
    }
    if blocks == 0 {
        fail!("expected blocks, found none");
    }
    Ok(())
}

/// Each part lies in the block that is freed for it.
fn parts_in_blocks(rig: &dyn Rig, bases: &[u64], answer: &Answer, sizes: &[u64]) -> Step {
    let usable = rig.usable_sizes(bases)?;
    for (i, (&base, &at)) in bases.iter().zip(&answer.addresses).enumerate() {
        let end = base + usable[i];
        if at < base || at + sizes[i] > end {
            fail!(
                "part {i} at {at:#x} ({} bytes): expected inside its block {base:#x}..{end:#x}",
                sizes[i]
            );
        }
    }
    Ok(())
}

pub(super) fn batch(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let walkers = [1, 7, 32, 1000];
    let n = t.threads_of(&*rig, 2600).min(t.count(100_000) as usize);
    t.what = format!(
        "{walkers:?} threads, {} requests, three places",
        grouped(n as u64)
    );
    for (round, threads) in walkers.into_iter().enumerate() {
        let n = if threads == 1 { n.min(5000) } else { n };
        let mut random = t.random(round as u64);
        let sizes = random_sizes(&mut random, n, 0, 4500);
        let aligns: Vec<u64> = (0..n).map(|_| 1 << random.below(10)).collect();
        let places: Vec<u32> = (0..n as u32).map(|i| i % 3).collect();
        let answer = rig.alloc_batch(&List {
            sizes: &sizes,
            aligns: Some(&aligns),
            places: Some(&places),
            threads,
        })?;
        granted(&answer, Sizes::Each(&sizes))?;
        distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), Some(&aligns))?;
        filled(
            &*rig,
            &answer.addresses,
            Sizes::Each(&sizes),
            t.seed ^ round as u64,
        )?;
        all_freed(
            &answer.addresses,
            &rig.free_batch(&answer.addresses, threads)?,
        )?;
        unchanged(&*rig, &fresh, 0)?;
    }
    places(&*rig, t.seed)?;
    unchanged(&*rig, &fresh, 0)
}

/// One thread's large blocks lie at the end of the pool that it names.
fn places(rig: &dyn Rig, seed: u64) -> Step {
    let sizes = [100_000; 24];
    let places: [u32; 24] = std::array::from_fn(|i| i as u32 % 3);
    let answer = rig.alloc_batch(&List {
        sizes: &sizes,
        aligns: None,
        places: Some(&places),
        threads: 1,
    })?;
    granted(&answer, Sizes::All(sizes[0]))?;
    let of = |place| {
        (0..24)
            .filter(move |&i| places[i] == place)
            .map(|i| answer.addresses[i])
    };
    let (low, high) = (of(1).max().unwrap_or(0), of(2).min().unwrap_or(0));
    if low >= high {
        fail!("expected low blocks below high ones, found {low:#x} and {high:#x}");
    }
    live_and_die(rig, &answer, Sizes::All(sizes[0]), None, seed)
}
