//! Random work.

use std::time::Instant;

use heap_kernels::exercise::{Churn, Counts, HELD, Held};

use super::super::Progress;
use super::super::expect::{distinct, grouped, unchanged};
use super::super::rig::{End, Rig, Sizes, Step, fail};
use super::super::trial::Trial;

/// Bytes that a thread of the churn needs: four places, half of them full, of
/// 490 bytes on average.
const EACH: u64 = 1500;

/// The largest request.
const LARGEST: u64 = 65_536;

pub(super) fn random(t: &mut Trial<'_>) -> Step {
    let (rounds, operations) = (t.rounds(12), 50);
    let rig = t.pool()?;
    let n = t.threads_of(&*rig, EACH);
    t.what = format!(
        "{rounds} rounds of {} threads, {operations} operations each",
        grouped(n as u64)
    );
    let mut run = Run::new(&*rig, t.seed, n)?;
    for _ in 0..rounds {
        run.round(operations)?;
        run.held_are_distinct()?;
    }
    t.detail = run.end()?;
    Ok(())
}

pub(super) fn soak(t: &mut Trial<'_>) -> Step {
    let Some(wanted) = t.soak else {
        return Err(End::Skipped(
            "give its length with --soak OPERATIONS".into(),
        ));
    };
    let rig = t.pool()?;
    let n = t.threads_of(&*rig, EACH);
    let mut run = Run::new(&*rig, !t.seed, n)?;
    let start = Instant::now();
    while run.operations < wanted {
        let left = wanted - run.operations;
        run.round(left.div_ceil(n as u64).min(256))?;
        if run.rounds % 16 == 1 {
            run.held_are_distinct()?;
        }
        (t.tick)(Progress::Soaked(run.operations.min(wanted), wanted));
    }
    let (operations, seconds) = (run.operations, start.elapsed().as_secs_f64());
    t.what = format!(
        "{} operations of {} threads in {} rounds",
        grouped(operations),
        grouped(n as u64),
        grouped(run.rounds)
    );
    let end = run.end()?;
    let rate = operations as f64 / seconds.max(1e-9);
    t.detail = format!("{} operations per second; {end}", grouped(rate as u64));
    Ok(())
}

/// Rounds of random work on one pool, and what they came to.
struct Run<'a> {
    rig: &'a dyn Rig,
    work: Churn,
    held: Vec<[Held; HELD]>,
    fresh: heap_kernels::Stats,
    sum: Counts,
    rounds: u64,
    operations: u64,
}

impl<'a> Run<'a> {
    fn new(rig: &'a dyn Rig, seed: u64, n: usize) -> Step<Self> {
        Ok(Self {
            rig,
            work: Churn {
                seed,
                round: 0,
                operations: 0,
                largest: LARGEST,
            },
            held: vec![[Held::default(); HELD]; n],
            fresh: rig.stats()?,
            sum: Counts::default(),
            rounds: 0,
            operations: 0,
        })
    }

    fn add(&mut self, counts: &Counts) -> Step {
        if counts.wrong_words != 0 || counts.bad_frees != 0 {
            fail!(
                "round {}: expected no wrong words and no refused frees, found {} and {}",
                self.rounds,
                counts.wrong_words,
                counts.bad_frees
            );
        }
        let (sum, new) = (self.sum.to_words(), counts.to_words());
        self.sum = Counts::from_words(&std::array::from_fn(|i| sum[i] + new[i]));
        Ok(())
    }

    fn round(&mut self, operations: u64) -> Step {
        self.work.round = self.rounds;
        self.work.operations = operations;
        self.rounds += 1;
        let counts = self.rig.churn(&self.work, false, &mut self.held)?;
        let done = counts.allocations + counts.frees + counts.refused;
        let due = operations * self.held.len() as u64;
        if done != due {
            fail!(
                "round {}: expected {due} operations, found {done}",
                self.rounds
            );
        }
        self.operations += done;
        self.add(&counts)
    }

    /// Blocks that threads hold between rounds.
    fn held_are_distinct(&self) -> Step {
        let all = || self.held.iter().flatten().filter(|held| held.address != 0);
        let addresses: Vec<u64> = all().map(|held| held.address).collect();
        let sizes: Vec<u64> = all().map(|held| held.size).collect();
        let live = self.rig.stats()?.live_blocks;
        if live != addresses.len() as u64 {
            fail!(
                "live blocks: expected the {} that threads hold, found {live}",
                addresses.len()
            );
        }
        distinct(self.rig, &addresses, Sizes::Each(&sizes), None)
    }

    /// Frees what is left, and compares all counts.
    fn end(mut self) -> Step<String> {
        let counts = self.rig.churn(&self.work, true, &mut self.held)?;
        self.add(&counts)?;
        unchanged(self.rig, &self.fresh, 0)?;
        let (now, sum) = (self.rig.stats()?, self.sum);
        let found = [now.allocations, now.frees, now.failures];
        let expected = [sum.allocations, sum.frees, sum.refused];
        if found != expected {
            fail!("allocations, frees, failures: expected {expected:?}, found {found:?}");
        }
        if sum.refused * 100 > sum.allocations {
            fail!(
                "expected next to no refusals in a pool with room, found {} beside {} blocks",
                grouped(sum.refused),
                grouped(sum.allocations)
            );
        }
        let (blocks, refused) = (grouped(sum.allocations), grouped(sum.refused));
        Ok(format!("{blocks} blocks, {refused} refused"))
    }
}
