//! What blocks hold, and how much.

use super::super::expect::{distinct, filled, granted, grouped, holds, release, unchanged, write};
use super::super::rig::{Contents, Lanes, Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

pub(super) fn zeroed(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let n = t.threads_of(&*rig, 1200);
    t.what = format!(
        "{} blocks of 0 to 2,000 bytes, in memory written before",
        grouped(n as u64)
    );
    dirty(&*rig, t.seed)?;
    unchanged(&*rig, &fresh, 0)?;
    let sizes = random_sizes(&mut t.random(0), n, 0, 2000);
    let answer = rig.alloc_lanes(&Lanes {
        sizes: &sizes,
        aligns: None,
        lanes: u32::MAX,
        zero: true,
    })?;
    let sizes = Sizes::Each(&sizes);
    granted(&answer, sizes)?;
    distinct(&*rig, &answer.addresses, sizes, None)?;
    holds(&*rig, &answer.addresses, sizes, Contents::Zero)?;
    filled(&*rig, &answer.addresses, sizes, t.seed)?;
    release(&*rig, &answer.addresses)?;
    unchanged(&*rig, &fresh, 0)
}

/// Leaves no byte of the pool zero, more or less.
fn dirty(rig: &dyn Rig, seed: u64) -> Step {
    let size = Sizes::All(rig.geometry().page_bytes());
    let all = rig.alloc(size, 1)?;
    granted(&all, size)?;
    write(rig, &all.addresses, size, seed)?;
    release(rig, &all.addresses)
}

pub(super) fn realloc(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    // Both blocks exist while one is copied.
    let n = t.threads_of(&*rig, 4000);
    let rounds = t.rounds(9);
    t.what = format!(
        "{} blocks, changed {rounds} times, 0 to 3,000 bytes",
        grouped(n as u64)
    );
    let mut sizes = random_sizes(&mut t.random(0), n, 0, 3000);
    let mut answer = rig.alloc(Sizes::Each(&sizes), n)?;
    granted(&answer, Sizes::Each(&sizes))?;
    distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
    for round in 0..rounds {
        let seed = t.seed ^ round;
        write(&*rig, &answer.addresses, Sizes::Each(&sizes), seed)?;
        let next = random_sizes(&mut t.random(round + 1), n, 0, 3000);
        answer = rig.realloc(&answer.addresses, &next)?;
        granted(&answer, Sizes::Each(&next))?;
        distinct(&*rig, &answer.addresses, Sizes::Each(&next), None)?;
        let kept: Vec<u64> = sizes
            .iter()
            .zip(&next)
            .map(|(&old, &new)| old.min(new))
            .collect();
        holds(
            &*rig,
            &answer.addresses,
            Sizes::Each(&kept),
            Contents::Pattern(seed),
        )?;
        sizes = next;
    }
    filled(&*rig, &answer.addresses, Sizes::Each(&sizes), t.seed)?;
    release(&*rig, &answer.addresses)?;
    resize_one(&*rig, t.seed)?;
    unchanged(&*rig, &fresh, 0)
}

/// One block through runs of pages and slots, each way.
fn resize_one(rig: &dyn Rig, seed: u64) -> Step {
    let mut size = 100;
    let mut answer = rig.alloc(Sizes::All(size), 1)?;
    granted(&answer, Sizes::All(size))?;
    for next in [8000, 9000, 1 << 20, 5 << 20, 40_000, 3000, 200_000, 0, 64] {
        write(rig, &answer.addresses, Sizes::All(size), seed)?;
        answer = rig.realloc(&answer.addresses, &[next])?;
        granted(&answer, Sizes::All(next))?;
        // Of a long block that was written in pieces, no more than the first is
        // left when it becomes a short one.
        let kept = Sizes::All(size.min(next));
        holds(rig, &answer.addresses, kept, Contents::Pattern(seed))?;
        size = next;
    }
    release(rig, &answer.addresses)
}

pub(super) fn usable(t: &mut Trial<'_>) -> Step {
    let rig = t.pool()?;
    let fresh = rig.stats()?;
    let n = t.threads_of(&*rig, 3000);
    t.what = format!(
        "{} blocks of 0 to 5,000 bytes, all usable bytes written",
        grouped(n as u64)
    );
    let sizes = random_sizes(&mut t.random(0), n, 0, 5000);
    let answer = rig.alloc(Sizes::Each(&sizes), n)?;
    granted(&answer, Sizes::Each(&sizes))?;
    distinct(&*rig, &answer.addresses, Sizes::Each(&sizes), None)?;
    let usable = rig.usable_sizes(&answer.addresses)?;
    for (i, (&size, &usable)) in sizes.iter().zip(&usable).enumerate() {
        if usable < size.max(1) {
            fail!("block {i}: expected at least {size} usable bytes, found {usable}");
        }
    }
    let (live, sum) = (rig.stats()?.live_bytes, usable.iter().sum::<u64>());
    if live != sum {
        fail!("live bytes: expected the sum of usable sizes {sum}, found {live}");
    }
    distinct(&*rig, &answer.addresses, Sizes::Each(&usable), None)?;
    filled(&*rig, &answer.addresses, Sizes::Each(&usable), t.seed)?;
    release(&*rig, &answer.addresses)?;
    let after = rig.usable_sizes(&answer.addresses)?;
    if let Some(i) = after.iter().position(|&usable| usable != 0) {
        let (at, found) = (answer.addresses[i], after[i]);
        fail!("freed block {i} at {at:#x}: expected no usable bytes, found {found}");
    }
    unchanged(&*rig, &fresh, 0)
}
