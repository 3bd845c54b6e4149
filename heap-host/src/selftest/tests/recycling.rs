//! Memory that is used again.

use heap_kernels::{class_of, class_size};

use super::super::expect::{
    CONTENDED, OUT_OF_MEMORY, consistent, distinct, filled, granted, grouped, insist, release,
    unchanged, whole,
};
use super::super::rig::{Answer, Rig, Sizes, Step, fail};
use super::super::trial::Trial;

/// Bytes of a pool that is filled to the brim, with millions of blocks that the
/// host looks at one by one.
fn pool_bytes(t: &Trial<'_>) -> u64 {
    let most = t.pool_bytes.min(128 << 20);
    t.count(most).max(super::super::MIN_POOL)
}

/// Asks for somewhat more blocks of `size` bytes than there is room for, until
/// one more is refused; the blocks.
fn fill(rig: &dyn Rig, size: u64) -> Step<Vec<u64>> {
    let n = rig.geometry().page_bytes() / class_size(class_of(size));
    let mut blocks = Vec::new();
    for _ in 0..64 {
        let wanted = (n + n / 50 + 1).saturating_sub(blocks.len() as u64).max(1) as usize;
        let Answer {
            mut addresses,
            statuses,
        } = checked(rig.alloc(Sizes::All(size), wanted)?)?;
        addresses.retain(|&address| address != 0);
        blocks.append(&mut addresses);
        if statuses.iter().all(|&status| status == OUT_OF_MEMORY) {
            return Ok(blocks);
        }
    }
    fail!(
        "{} blocks of {size} bytes, and still not full",
        blocks.len()
    )
}

fn checked(answer: Answer) -> Step<Answer> {
    consistent(&answer, |_| true)?;
    let due = |status| matches!(status, 0 | OUT_OF_MEMORY | CONTENDED);
    match answer.statuses.iter().position(|&status| !due(status)) {
        None => Ok(answer),
        Some(i) => {
            let status = answer.statuses[i];
            fail!("request {i}: expected a block or OutOfMemory, found status {status}")
        }
    }
}

pub(super) fn recycling(t: &mut Trial<'_>) -> Step {
    let rig = t.pool_of(pool_bytes(t))?;
    let fresh = rig.stats()?;
    let sizes = [48, 2000, 16, 8000, 500, 48];
    let mut told = Vec::new();
    for (round, size) in sizes.into_iter().enumerate() {
        let blocks = fill(&*rig, size)?;
        distinct(&*rig, &blocks, Sizes::All(size), None)?;
        filled(&*rig, &blocks, Sizes::All(size), t.seed ^ round as u64)?;
        release(&*rig, &blocks)?;
        unchanged(&*rig, &fresh, 0)?;
        told.push(format!("{} of {size} bytes", grouped(blocks.len() as u64)));
        t.what = format!(
            "pool of {} MiB full with {}",
            fresh.pool_bytes >> 20,
            told.join(", ")
        );
        whole(&*rig, &fresh)?;
    }
    t.what += ", each time one block of all pages after it";
    Ok(())
}

pub(super) fn every_second(t: &mut Trial<'_>) -> Step {
    let rig = t.pool_of(pool_bytes(t))?;
    let fresh = rig.stats()?;
    let mut told = Vec::new();
    let mut again = 0;
    for size in [16, 200, 1000, 4096] {
        let mut blocks = fill(&*rig, size)?;
        let alone = rig.alloc(Sizes::All(size), 1)?;
        if alone.statuses[0] != OUT_OF_MEMORY {
            fail!(
                "many were refused, and nothing was freed, but one alone got status {}",
                alone.statuses[0]
            );
        }
        blocks.sort_unstable();
        let freed: Vec<u64> = blocks.iter().copied().step_by(2).collect();
        let kept: Vec<u64> = blocks.iter().copied().skip(1).step_by(2).collect();
        filled(&*rig, &kept, Sizes::All(size), t.seed)?;
        release(&*rig, &freed)?;
        rig.check()?;
        let (new, more) = insist(&*rig, Sizes::All(size), freed.len())?;
        again += more;
        let one_more = rig.alloc(Sizes::All(size), 1)?;
        if one_more.statuses[0] != OUT_OF_MEMORY {
            fail!(
                "expected a full pool, found status {}",
                one_more.statuses[0]
            );
        }
        let all = [&kept[..], &new.addresses[..]].concat();
        distinct(&*rig, &all, Sizes::All(size), None)?;
        filled(&*rig, &new.addresses, Sizes::All(size), !t.seed)?;
        super::super::expect::holds(
            &*rig,
            &kept,
            Sizes::All(size),
            super::super::rig::Contents::Pattern(t.seed),
        )?;
        release(&*rig, &all)?;
        unchanged(&*rig, &fresh, 0)?;
        told.push(format!("{} of {size} bytes", grouped(freed.len() as u64)));
        t.what = format!("freed and had again: {}", told.join(", "));
    }
    // A hole that is large enough for one block of another size only.
    let pages = rig.geometry().page_size();
    let runs = rig.alloc(Sizes::All(3 * pages), 8)?;
    granted(&runs, Sizes::All(3 * pages))?;
    release(&*rig, &runs.addresses)?;
    unchanged(&*rig, &fresh, 0)?;
    t.detail = format!("{} requests asked again after Contended", grouped(again));
    Ok(())
}
