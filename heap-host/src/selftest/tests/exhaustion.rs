//! More requests than memory.

use super::super::MIN_POOL;
use super::super::expect::{
    CONTENDED, OUT_OF_MEMORY, consistent, distinct, filled, grouped, release, unchanged, whole,
};
use super::super::rig::{Answer, Rig, Sizes, Step, fail};
use super::super::trial::{Trial, random_sizes};

/// How many times as much is asked for as there is.
const TIMES: u64 = 4;

/// The smallest pool that is exhausted.
const SMALLEST: u64 = 1 << 20;

pub(super) fn exhaustion(t: &mut Trial<'_>) -> Step {
    let most = if t.machine.threads() > 1 << 16 {
        1_000_000
    } else {
        100_000
    };
    let n = t.count(most);
    let mut told = Vec::new();
    for (round, size) in [16, 100, 1000, 5000].into_iter().enumerate() {
        let n = n.max(TIMES * SMALLEST / size) as usize;
        t.what += &format!("{} times {size} bytes, ", grouped(n as u64));
        told.push(exhaust(t, Sizes::All(size), n, size, round as u64)?);
    }
    let n = n.max(TIMES * SMALLEST / 2000) as usize;
    let sizes = random_sizes(&mut t.random(0), n, 1, 4000);
    t.what += &format!(
        "{} times 1 to 4,000, in pools of a quarter",
        grouped(n as u64)
    );
    told.push(exhaust(t, Sizes::Each(&sizes), n, 2000, 9)?);
    t.detail = told.join("; ");
    Ok(())
}

/// One launch on a pool too small for it; what came of it, in words.
fn exhaust(t: &Trial<'_>, sizes: Sizes<'_>, n: usize, average: u64, round: u64) -> Step<String> {
    let bytes = (n as u64 * average / TIMES).clamp(SMALLEST, t.pool_bytes.max(MIN_POOL));
    let rig = t.pool_of(bytes)?;
    let fresh = rig.stats()?;
    let answer = rig.alloc(sizes, n)?;
    consistent(&answer, |_| true)?;
    let (live, contended) = refusals(&*rig, &answer, sizes)?;
    let stats = rig.stats()?;
    // One more than the launch's: the probe.
    let failures = n as u64 - live + 1;
    if (stats.live_blocks, stats.failures) != (live, failures) {
        fail!(
            "expected {live} live blocks and {failures} failures counted, found {} and {}",
            stats.live_blocks,
            stats.failures
        );
    }
    distinct(&*rig, &answer.addresses, sizes, None)?;
    rig.check()?;
    filled(&*rig, &answer.addresses, sizes, t.seed ^ round)?;
    release(&*rig, &answer.addresses)?;
    unchanged(&*rig, &fresh, 0)?;
    whole(&*rig, &fresh)?;
    let full = stats.live_bytes * 100 / rig.geometry().page_bytes();
    let (live, contended) = (grouped(live), grouped(contended));
    Ok(format!("{live} live, {full} % full, {contended} Contended"))
}

/// How many were met, and how many ended `Contended`. Refusals are right only
/// where one more request of the smallest refused size is refused, too.
fn refusals(rig: &dyn Rig, answer: &Answer, sizes: Sizes<'_>) -> Step<(u64, u64)> {
    let mut counts = [0u64; 3];
    let mut smallest = u64::MAX;
    for (i, &status) in answer.statuses.iter().enumerate() {
        counts[match status {
            0 => 0,
            OUT_OF_MEMORY => 1,
            CONTENDED => 2,
            _ => fail!("request {i}: expected a block or OutOfMemory, found status {status}"),
        }] += 1;
        if status != 0 {
            smallest = smallest.min(sizes.of(i));
        }
    }
    let [live, refused, contended] = counts;
    if refused + contended == 0 {
        fail!("expected refusals, found {live} blocks in a pool too small for them");
    }
    let probe = rig.alloc(Sizes::All(smallest), 1)?;
    if probe.statuses[0] != OUT_OF_MEMORY {
        fail!(
            "{refused} requests were refused as OutOfMemory and {contended} as Contended though \
             {smallest} bytes are free: one more request ended with status {}",
            probe.statuses[0]
        );
    }
    Ok((live, contended))
}
