//! Lanes of a warp that are not together.

use super::super::expect::{
    counted, distinct, filled, granted_to, grouped, live_and_die, release, tally, unchanged,
};
use super::super::rig::{Lanes, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

/// Lanes that take part: all, halves, one, every second, the two ends.
const MASKS: [u32; 9] = [
    u32::MAX,
    0x0000_ffff,
    0xffff_0000,
    0x0000_0001,
    0x8000_0000,
    0x5555_5555,
    0xaaaa_aaaa,
    0x8000_0001,
    0x0180_0000,
];

/// Lengths that are no multiple of a warp or a block of threads.
const LENGTHS: [u64; 6] = [1, 31, 33, 257, 1000, 100_003];

pub(super) fn divergence(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    // Three in four keep a block of 1 to 4,000 bytes, and may have two a while.
    let n = t.threads_of(&*rig, 3600).saturating_sub(13).max(1);
    let rounds = t.rounds(6);
    t.what = format!(
        "{rounds} rounds of {} threads, four ways each",
        grouped(n as u64)
    );
    for round in 0..rounds {
        let seed = t.random(round).next();
        let (sizes, answer) = rig.wander(seed, n)?;
        if let Some(i) = answer.statuses.iter().position(|&status| status != 0) {
            let all = tally(&answer.statuses, |code| format!("with status {code}"));
            fail!("thread {i} of {n}: expected no error on its way, found {all}");
        }
        let live = answer
            .addresses
            .iter()
            .filter(|&&address| address != 0)
            .count();
        // Three in four, give or take ten standard deviations.
        let (due, slack) = (n as f64 * 0.75, 10.0 * (n as f64 * 0.1875).sqrt());
        if (live as f64 - due).abs() > slack {
            fail!("expected three of four in {n} threads to keep a block, found {live}");
        }
        let now = rig.stats()?;
        if now.live_blocks != live as u64 {
            fail!("live blocks: expected {live}, found {}", now.live_blocks);
        }
        live_and_die(&*rig, &answer, Sizes::Each(&sizes), None, seed)?;
        unchanged(&*rig, &fresh, 0)?;
    }
    Ok(())
}

pub(super) fn masks(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let most = t.threads_of(&*rig, 600) as u64;
    t.what = format!(
        "{} sets of lanes in launches of {} to {} threads",
        MASKS.len(),
        LENGTHS[0],
        grouped(LENGTHS[5].min(most))
    );
    let mut total = 0;
    for (round, lanes) in MASKS.into_iter().enumerate() {
        for length in LENGTHS {
            let n = length.min(most) as usize;
            let sizes = random_sizes(&mut t.random(round as u64), n, 0, 1000);
            let ask = Lanes {
                sizes: &sizes,
                aligns: None,
                lanes,
                zero: false,
            };
            let answer = rig.alloc_lanes(&ask)?;
            granted_to(&answer, Sizes::Each(&sizes), |i| ask.takes_part(i))?;
            let live = (0..n).filter(|&i| ask.takes_part(i)).count() as u64;
            total += live;
            counted(&*rig, &fresh, total, live)?;
            distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
            filled(
                &*rig,
                &answer.addresses,
                Sizes::Each(&sizes),
                t.seed ^ length,
            )?;
            release(&*rig, &answer.addresses)?;
        }
    }
    unchanged(&*rig, &fresh, 0)
}
