//! Large pools, several, and several streams.

use heap_kernels::FreeError;

use super::super::MIN_POOL;
use super::super::expect::{
    distinct, filled, granted, grouped, holds, insist, live_and_die, release, unchanged, write,
};
use super::super::rig::{Chain, Chained, Contents, Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

const MIB: u64 = 1 << 20;
const LARGE: u64 = 9 << 30;

pub(super) fn large_pool(t: &mut Trial<'_>) -> Step {
    t.what = format!("pool of {} MiB", LARGE / MIB);
    let rig = t.pool_of(LARGE)?;
    let fresh = rig.stats()?;
    // Nearly all there is: runs that many threads claim at once may leave gaps.
    let n = (rig.geometry().page_bytes() / MIB * 19 / 20) as usize;
    let (answer, again) = insist(&*rig, Sizes::All(MIB), n)?;
    distinct(&*rig, &answer.addresses, Sizes::All(MIB), None)?;
    let border = rig.base() + (4 << 30);
    let above = answer.addresses.iter().filter(|&&at| at >= border).count();
    if above < n / 2 {
        fail!("expected half of {n} blocks above {border:#x}, found {above}");
    }
    // All of them, or one in thirty where it should be quick.
    let every = if t.quick { 30 } else { 1 };
    let mut written: Vec<u64> = answer.addresses.clone();
    written.sort_unstable();
    let written: Vec<u64> = written.into_iter().rev().step_by(every).collect();
    t.what = format!(
        "pool of {} MiB with {} blocks of 1 MiB, {} above 4 GiB, {} written",
        LARGE / MIB,
        grouped(n as u64),
        grouped(above as u64),
        grouped(written.len() as u64)
    );
    filled(&*rig, &written, Sizes::All(MIB), t.seed)?;
    release(&*rig, &answer.addresses)?;
    unchanged(&*rig, &fresh, 0)?;
    t.detail = format!("{} requests asked again after Contended", grouped(again));
    small_above(t, &*rig)?;
    unchanged(&*rig, &fresh, 0)
}

/// Small blocks in the pages behind 4 GiB of one block.
fn small_above(t: &Trial<'_>, rig: &dyn Rig) -> Step {
    let low = rig.alloc_batch(&super::super::rig::List {
        sizes: &[5 << 30],
        aligns: None,
        places: Some(&[1]),
        threads: 1,
    })?;
    granted(&low, Sizes::All(5 << 30))?;
    let n = t.count(100_000) as usize;
    let sizes = random_sizes(&mut t.random(5), n, 0, 1000);
    let answer = rig.alloc(Sizes::Each(&sizes), n)?;
    granted(&answer, Sizes::Each(&sizes))?;
    let border = low.addresses[0] + (5 << 30);
    if let Some(i) = answer
        .addresses
        .iter()
        .position(|&at| at < border && at >= low.addresses[0])
    {
        fail!(
            "block {i} at {:#x} lies in the block of 5 GiB",
            answer.addresses[i]
        );
    }
    live_and_die(rig, &answer, Sizes::Each(&sizes), None, t.seed)?;
    release(rig, &low.addresses)
}

pub(super) fn many_heaps(t: &mut Trial<'_>) -> Step {
    let bytes = (t.pool_bytes / 4).max(MIN_POOL / 2);
    let rigs = (0..4).map(|_| t.pool_of(bytes)).collect::<Step<Vec<_>>>()?;
    let fresh = rigs
        .iter()
        .map(|rig| rig.stats())
        .collect::<Step<Vec<_>>>()?;
    let n = t
        .threads_of(&*rigs[0], 700)
        .min(t.threads() as usize / 4)
        .max(1);
    let rounds = t.rounds(4);
    t.what = format!(
        "4 pools of {} MiB, {rounds} rounds of {} blocks",
        bytes / MIB,
        grouped(n as u64)
    );
    for round in 0..rounds {
        let sizes = random_sizes(&mut t.random(round), n, 0, 1000);
        let sizes = Sizes::Each(&sizes);
        let mut blocks = Vec::new();
        for (i, rig) in rigs.iter().enumerate() {
            let answer = rig.alloc(sizes, n)?;
            granted(&answer, sizes)?;
            distinct(&**rig, &answer.addresses, sizes, None)?;
            write(&**rig, &answer.addresses, sizes, t.seed ^ i as u64)?;
            blocks.push(answer.addresses);
        }
        for (i, rig) in rigs.iter().enumerate() {
            holds(
                &**rig,
                &blocks[i],
                sizes,
                Contents::Pattern(t.seed ^ i as u64),
            )?;
        }
        for (i, rig) in rigs.iter().enumerate().rev() {
            release(&**rig, &blocks[i])?;
            unchanged(&**rig, &fresh[i], 0)?;
        }
    }
    foreign_block(&*rigs[0], &*rigs[1])
}

/// A block of one heap is no block of another.
fn foreign_block(one: &dyn Rig, other: &dyn Rig) -> Step {
    let answer = one.alloc(Sizes::All(100), 1)?;
    granted(&answer, Sizes::All(100))?;
    let status = other.free(&answer.addresses)?[0];
    if status != FreeError::OutsidePool.code() {
        let at = answer.addresses[0];
        fail!("another heap's block at {at:#x}: expected OutsidePool, found status {status}");
    }
    release(one, &answer.addresses)
}

pub(super) fn two_streams(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let n = (t.threads_of(&*rig, 700) / 4).max(1);
    let rounds = t.rounds(9) as usize;
    t.what = format!(
        "2 streams, {rounds} rounds of {} blocks on each",
        grouped(n as u64)
    );
    let chain = |i: u64| Chain {
        sizes: random_sizes(&mut t.random(i), n, 0, 1000),
        seed: t.seed ^ (i << 60),
        rounds,
    };
    let chains = [chain(1), chain(2)];
    let ends = rig.chains([&chains[0], &chains[1]])?;
    for (name, (chain, end)) in ["first", "second"].iter().zip(chains.iter().zip(&ends)) {
        chain_is_fine(&*rig, name, chain, end)?;
    }
    let last = |end: &Chained| {
        end.rounds
            .last()
            .map(|round| round.answer.addresses.clone())
    };
    let kept: Vec<u64> = ends.iter().filter_map(last).flatten().collect();
    let sizes = [&chains[0].sizes[..], &chains[1].sizes[..]].concat();
    if kept.len() != sizes.len() {
        fail!(
            "expected {} blocks in the end, found {}",
            sizes.len(),
            kept.len()
        );
    }
    distinct(&*rig, &kept, Sizes::Each(&sizes), None)?;
    filled(&*rig, &kept, Sizes::Each(&sizes), t.seed)?;
    release(&*rig, &kept)?;
    unchanged(&*rig, &fresh, 0)
}

fn chain_is_fine(rig: &dyn Rig, name: &str, chain: &Chain, end: &Chained) -> Step {
    let sizes = Sizes::Each(&chain.sizes);
    for (i, round) in end.rounds.iter().enumerate() {
        granted(&round.answer, sizes)?;
        distinct(rig, &round.answer.addresses, sizes, None)?;
        if let Some(k) = round.freed.iter().position(|&status| status != 0) {
            let (at, status) = (round.answer.addresses[k], round.freed[k]);
            fail!("{name} stream, round {i}, free of block {k} at {at:#x}: status {status}");
        }
    }
    if end.wrong.words != 0 {
        let (words, block) = (end.wrong.words, end.wrong.highest);
        fail!("{name} stream: expected no wrong words, found {words}, the last in block {block:?}");
    }
    Ok(())
}
