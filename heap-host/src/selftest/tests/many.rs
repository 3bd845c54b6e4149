//! Many threads at once.

use super::super::expect::{
    counted, distinct, filled, granted, grouped, live_and_die, release, unchanged,
};
use super::super::rig::{Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

/// Sizes that a slot of a slab holds, one per round.
const SIZES: [u64; 10] = [1, 16, 24, 64, 100, 256, 500, 1000, 4096, 8000];

/// The largest size of a mixed launch. Of the pool a quarter is asked for: where
/// all lanes begin at once, each shard has a slab of each class.
const MIXED: u64 = 2000;

pub(super) fn uniform(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let rounds = t.rounds(SIZES.len() as u64) as usize;
    let every = SIZES.len() / rounds;
    let (mut most, mut total) = (0, 0);
    for (round, &size) in SIZES.iter().step_by(every).take(rounds).enumerate() {
        let n = t.threads_of(&*rig, size + size / 8);
        most = most.max(n);
        total += n as u64;
        t.what = format!(
            "{} rounds of up to {} threads, {} blocks in all, of 1 to 8,000 bytes",
            round + 1,
            grouped(most as u64),
            grouped(total)
        );
        let answer = rig.alloc(Sizes::All(size), n)?;
        granted(&answer, Sizes::All(size))?;
        counted(&*rig, &fresh, total, n as u64)?;
        live_and_die(
            &*rig,
            &answer,
            Sizes::All(size),
            None,
            t.seed ^ round as u64,
        )?;
        unchanged(&*rig, &fresh, 0)?;
    }
    Ok(())
}

pub(super) fn mixed(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let (rounds, n) = (t.rounds(10), t.threads_of(&*rig, MIXED));
    t.what = format!(
        "{rounds} rounds of {} threads, 0 to {MIXED} bytes each",
        grouped(n as u64)
    );
    for round in 0..rounds {
        let sizes = random_sizes(&mut t.random(round), n, 0, MIXED);
        let answer = rig.alloc(Sizes::Each(&sizes), n)?;
        granted(&answer, Sizes::Each(&sizes))?;
        counted(&*rig, &fresh, (round + 1) * n as u64, n as u64)?;
        distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
        if round == 0 {
            classes_add_up(&*rig)?;
        }
        filled(
            &*rig,
            &answer.addresses,
            Sizes::Each(&sizes),
            t.seed ^ round,
        )?;
        release(&*rig, &answer.addresses)?;
        unchanged(&*rig, &fresh, 0)?;
    }
    Ok(())
}

/// Size classes hold all blocks but those that got pages of their own, as a
/// small request does where no slab has room and none can be formed.
fn classes_add_up(rig: &dyn Rig) -> Step {
    let (stats, classes) = (rig.stats()?, rig.class_stats()?);
    let blocks: u64 = classes.iter().map(|class| class.live_blocks).sum();
    let bytes: u64 = classes.iter().map(|class| class.live_bytes).sum();
    let others = stats.live_blocks.wrapping_sub(blocks);
    let in_pages = stats.live_bytes.wrapping_sub(bytes);
    let page = rig.geometry().page_size();
    let fits = others
        .checked_mul(page)
        .is_some_and(|least| least <= in_pages);
    if !fits || !in_pages.is_multiple_of(page) || (others == 0) != (in_pages == 0) {
        fail!(
            "size classes: expected {} blocks of {} bytes in all, found {blocks} of {bytes}",
            stats.live_blocks,
            stats.live_bytes
        );
    }
    Ok(())
}
