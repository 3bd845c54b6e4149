//! Each check can fail: faults planted between test and heap are found by the
//! tests meant for them.

use std::cell::Cell;

use heap_kernels::exercise::{Churn, Counts, HELD, Held};
use heap_kernels::{ClassStats, Geometry, Offender, Stats};

use super::cpu::Cpu;
use super::expect::{CONTENDED, OUT_OF_MEMORY};
use super::rig::{
    Answer, Chain, Chained, Contents, End, Facts, Lanes, List, Machine, Rig, Sizes, Step, Wrong,
};
use super::{Backend, MIN_POOL, Options, Report, Status, run_on};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// An address is given twice.
    Twice,
    /// A block lies outside of the pool.
    Outside,
    /// A block is 16 bytes off.
    Misaligned,
    /// A request is refused though there is room.
    Refused,
    /// A refused request is said to have been met.
    Swallowed,
    /// Requests are refused as contended, and memory is left.
    Contended,
    /// A request that takes no part gets a block.
    Uninvited,
    /// A byte changes after blocks are written.
    Word,
    /// A byte changes when blocks change their size.
    Moved,
    /// Zeroed blocks are not.
    NotZeroed,
    /// A free does nothing, and says that it did.
    Leak,
    /// Bad frees are said to succeed.
    BadFree,
    /// Bad frees are told apart wrongly.
    Told,
    /// Bad frees are not counted.
    Uncounted,
    /// The first bad free is forgotten.
    Forgotten,
    /// Blocks have fewer bytes than asked for.
    Short,
    /// Size classes hold one block more.
    Class,
    /// The largest hole shrinks over time.
    Hole,
    /// An invariant is broken.
    Damaged,
    /// Random work sees a wrong word.
    Churned,
    /// Random work loses an operation.
    Lost,
    /// Random work keeps a block in the end.
    Kept,
    /// A free of one of two streams is refused.
    Stream,
    /// A stream sees wrong words.
    StreamWord,
    /// A lane sees an error on its way.
    Way,
    /// The low place is the high one.
    Places,
    /// Part of a warp's block lies outside of it.
    Part,
}

struct Planted {
    cpu: Cpu,
    fault: Fault,
}

impl Machine for Planted {
    fn facts(&self) -> Facts {
        self.cpu.facts()
    }
    fn threads(&self) -> u64 {
        self.cpu.threads() / 4
    }
    fn free_memory(&self) -> Step<Option<u64>> {
        self.cpu.free_memory()
    }
    fn pool(&self, bytes: u64) -> Step<Box<dyn Rig + '_>> {
        Ok(Box::new(Faulty {
            rig: self.cpu.pool(bytes)?,
            fault: self.fault,
            looks: Cell::new(0),
        }))
    }
}

struct Faulty<'a> {
    rig: Box<dyn Rig + 'a>,
    fault: Fault,
    looks: Cell<u64>,
}

impl Faulty<'_> {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// What goes wrong with addresses.
    fn spoil(&self, mut answer: Answer, takes_part: impl Fn(usize) -> bool) -> Step<Answer> {
        let met = |i: &usize| answer.addresses[*i] != 0;
        let all: Vec<usize> = (0..answer.addresses.len()).filter(met).collect();
        let (first, last) = (all.first().copied(), all.last().copied());
        match (self.fault, first, last) {
            (Fault::Twice, Some(first), Some(last)) if all.len() > 1 => {
                answer.addresses[last] = answer.addresses[first];
            }
            (Fault::Outside, _, Some(last)) => answer.addresses[last] += 1 << 44,
            (Fault::Misaligned, _, Some(last)) => answer.addresses[last] += 8,
            (Fault::Refused, _, Some(last)) if all.len() > 1 => {
                self.rig.free(&[answer.addresses[last]])?;
                (answer.addresses[last], answer.statuses[last]) = (0, OUT_OF_MEMORY);
            }
            (Fault::Contended, _, Some(_)) if all.len() > 99 => {
                for &i in &all[50..] {
                    self.rig.free(&[answer.addresses[i]])?;
                    (answer.addresses[i], answer.statuses[i]) = (0, CONTENDED);
                }
            }
            (Fault::Swallowed, ..) => answer.statuses.fill(0),
            (Fault::Uninvited, Some(first), _) => {
                let uninvited = (0..answer.addresses.len()).find(|&i| !takes_part(i));
                if let Some(i) = uninvited {
                    answer.addresses[i] = answer.addresses[first];
                }
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Changes the last byte of the last block that has any.
    fn change(&self, blocks: &[u64], sizes: Sizes<'_>) {
        let long = |&i: &usize| blocks[i] != 0 && sizes.of(i) > 0;
        if let Some(i) = (0..blocks.len()).rev().find(long) {
            let at = (blocks[i] + sizes.of(i) - 1) as *mut u8;
            // SAFETY: a live block of the test, in host memory.
            unsafe { at.write(!at.read()) };
        }
    }
}

impl Rig for Faulty<'_> {
    fn base(&self) -> u64 {
        self.rig.base()
    }
    fn geometry(&self) -> &Geometry {
        self.rig.geometry()
    }
    fn alloc(&self, sizes: Sizes<'_>, n: usize) -> Step<Answer> {
        self.spoil(self.rig.alloc(sizes, n)?, |_| true)
    }
    fn alloc_lanes(&self, requests: &Lanes<'_>) -> Step<Answer> {
        let mut requests = *requests;
        if self.is(Fault::NotZeroed) {
            requests.zero = false;
        }
        let answer = self.rig.alloc_lanes(&requests)?;
        self.spoil(answer, |i| requests.takes_part(i))
    }
    fn alloc_batch(&self, list: &List<'_>) -> Step<Answer> {
        let mut list = *list;
        let turned: Option<Vec<u32>> = list
            .places
            .map(|all| all.iter().map(|place| (3 - place) % 3).collect());
        if self.is(Fault::Places) {
            list.places = turned.as_deref();
        }
        self.spoil(self.rig.alloc_batch(&list)?, |_| true)
    }
    fn alloc_warp(&self, sizes: &[u64]) -> Step<(Vec<u64>, Answer)> {
        let (mut bases, answer) = self.rig.alloc_warp(sizes)?;
        if self.is(Fault::Part) {
            bases.swap(0, 1);
        }
        Ok((bases, self.spoil(answer, |_| true)?))
    }
    fn realloc(&self, blocks: &[u64], sizes: &[u64]) -> Step<Answer> {
        let answer = self.rig.realloc(blocks, sizes)?;
        if self.is(Fault::Moved) {
            self.change(&answer.addresses, Sizes::All(1));
        }
        Ok(answer)
    }
    fn free(&self, blocks: &[u64]) -> Step<Vec<u32>> {
        let mut kept = blocks.to_vec();
        if self.is(Fault::Leak)
            && let Some(last) = kept.last_mut()
        {
            *last = 0;
        }
        let mut statuses = self.rig.free(&kept)?;
        if self.is(Fault::BadFree) {
            statuses.fill(0);
        }
        if self.is(Fault::Told) {
            statuses
                .iter_mut()
                .filter(|s| **s != 0)
                .for_each(|s| *s = *s % 4 + 1);
        }
        Ok(statuses)
    }
    fn free_batch(&self, blocks: &[u64], threads: u32) -> Step<Vec<u32>> {
        if self.is(Fault::Leak) {
            return self.free(blocks);
        }
        self.rig.free_batch(blocks, threads)
    }
    fn write(&self, blocks: &[u64], sizes: Sizes<'_>, seed: u64) -> Step {
        self.rig.write(blocks, sizes, seed)?;
        if self.is(Fault::Word) {
            self.change(blocks, sizes);
        }
        Ok(())
    }
    fn verify(&self, blocks: &[u64], sizes: Sizes<'_>, contents: Contents) -> Step<Wrong> {
        self.rig.verify(blocks, sizes, contents)
    }
    fn peek(&self, address: u64, bytes: usize) -> Step<Vec<u8>> {
        self.rig.peek(address, bytes)
    }
    fn wander(&self, seed: u64, n: usize) -> Step<(Vec<u64>, Answer)> {
        let (sizes, mut answer) = self.rig.wander(seed, n)?;
        if self.is(Fault::Way) {
            answer.statuses[n / 2] = OUT_OF_MEMORY;
        }
        Ok((sizes, self.spoil(answer, |_| true)?))
    }
    fn churn(&self, work: &Churn, last: bool, held: &mut [[Held; HELD]]) -> Step<Counts> {
        if last && self.is(Fault::Kept) {
            held[0] = [Held::default(); HELD];
        }
        let mut counts = self.rig.churn(work, last, held)?;
        counts.wrong_words += u64::from(self.is(Fault::Churned));
        counts.frees -= u64::from(self.is(Fault::Lost)).min(counts.frees);
        if self.is(Fault::Twice) && !last {
            let other = held
                .iter()
                .flatten()
                .find(|held| held.address != 0)
                .copied();
            let own = held
                .iter_mut()
                .flatten()
                .rev()
                .find(|held| held.address != 0);
            if let (Some(other), Some(own)) = (other, own) {
                *own = other;
            }
        }
        Ok(counts)
    }
    fn chains(&self, chains: [&Chain; 2]) -> Step<[Chained; 2]> {
        let mut ends = self.rig.chains(chains)?;
        if self.is(Fault::Stream) {
            ends[1].rounds[0].freed[0] = 1;
        }
        ends[0].wrong.words += u64::from(self.is(Fault::StreamWord));
        if self.is(Fault::Twice) {
            let [one, other] = &mut ends;
            let (one, other) = (one.rounds.last(), other.rounds.last_mut());
            if let (Some(one), Some(other)) = (one, other) {
                other.answer.addresses[0] = one.answer.addresses[0];
            }
        }
        Ok(ends)
    }
    fn stats(&self) -> Step<Stats> {
        let mut stats = self.rig.stats()?;
        self.looks.set(self.looks.get() + 1);
        if self.is(Fault::Uncounted) {
            stats.bad_frees = 0;
        }
        if self.is(Fault::Hole) && self.looks.get() > 1 {
            stats.largest_free_run -= stats.largest_free_run.min(4096);
        }
        Ok(stats)
    }
    fn reclaim(&self) -> Step {
        self.rig.reclaim()
    }
    fn class_stats(&self) -> Step<Vec<ClassStats>> {
        let mut classes = self.rig.class_stats()?;
        classes[3].live_blocks += u64::from(self.is(Fault::Class));
        Ok(classes)
    }
    fn check(&self) -> Step {
        if self.is(Fault::Damaged) {
            return Err(End::Failed("the heap is damaged: planted (at 7)".into()));
        }
        self.rig.check()
    }
    fn offender(&self) -> Step<Option<Offender>> {
        let first = self.rig.offender()?;
        Ok(first.filter(|_| !self.is(Fault::Forgotten)))
    }
    fn usable_sizes(&self, blocks: &[u64]) -> Step<Vec<u64>> {
        let mut sizes = self.rig.usable_sizes(blocks)?;
        if self.is(Fault::Short) {
            sizes
                .iter_mut()
                .for_each(|size| *size = (*size * 7 / 10).saturating_sub(16));
        }
        Ok(sizes)
    }
    fn reset(&self) -> Step {
        self.rig.reset()
    }
}

fn report(fault: Fault, only: &[&str]) -> Report {
    let planted = Planted {
        cpu: Cpu::new().unwrap(),
        fault,
    };
    let options = Options {
        quick: true,
        pool_bytes: Some(MIN_POOL),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        soak: only.contains(&"soak").then_some(10_000),
        ..Options::new(Backend::Cpu)
    };
    run_on(&planted, &options, &mut |_| ())
}

/// Each of the tests named in `rows` fails, and says one of the `words`.
#[track_caller]
fn found(fault: Fault, rows: &str, words: &[&str]) {
    let only: Vec<&str> = rows.split(' ').collect();
    let report = report(fault, &only);
    assert_eq!(report.tests.len(), only.len());
    for row in &report.tests {
        assert_eq!(
            row.status,
            Status::Failed,
            "{fault:?} was not found: {row:#?}"
        );
        let told = words.iter().any(|word| row.detail.contains(word));
        assert!(told, "{fault:?}: {row:#?}");
    }
}

#[test]
fn wrong_addresses_are_found() {
    let rows = "sizes alignments uniform mixed divergence masks zeroed realloc usable warp batch \
                exhaustion recycling every_second double_free foreign_free many_heaps";
    found(Fault::Twice, rows, &["overlap", "expected a multiple of"]);
    found(Fault::Twice, "random soak two_streams", &["overlap"]);
    found(
        Fault::Outside,
        "sizes uniform masks warp batch many_heaps",
        &["expected inside"],
    );
    found(
        Fault::Misaligned,
        "alignments uniform mixed",
        &["expected a multiple of"],
    );
    found(Fault::Part, "warp", &["expected inside its block"]);
    found(
        Fault::Places,
        "batch",
        &["expected low blocks below high ones"],
    );
}

#[test]
fn wrong_statuses_are_found() {
    let rows = "sizes alignments uniform mixed masks zeroed usable warp batch double_free";
    found(
        Fault::Refused,
        rows,
        &["expected a block, found OutOfMemory"],
    );
    found(Fault::Refused, "exhaustion", &["were refused"]);
    found(Fault::Contended, "exhaustion", &["as Contended though"]);
    found(Fault::Contended, "uniform mixed", &["found Contended"]);
    found(
        Fault::Swallowed,
        "exhaustion recycling every_second",
        &["with status success"],
    );
    found(Fault::Swallowed, "alignments", &["expected BadAlignment"]);
    found(Fault::Uninvited, "masks", &["with status success"]);
    found(Fault::Way, "divergence", &["expected no error on its way"]);
    found(Fault::BadFree, "double_free", &["expected one success"]);
    found(Fault::BadFree, "foreign_free", &["found success"]);
    found(Fault::BadFree, "many_heaps", &["expected OutsidePool"]);
    found(
        Fault::Told,
        "double_free foreign_free many_heaps",
        &["expected"],
    );
    found(Fault::Stream, "two_streams", &["free of block 0"]);
}

#[test]
fn wrong_contents_are_found() {
    let rows = "sizes alignments uniform mixed divergence masks zeroed realloc usable warp batch \
                exhaustion recycling every_second foreign_free many_heaps two_streams";
    found(Fault::Word, rows, &["1 wrong words in all"]);
    found(Fault::Moved, "realloc", &["wrong words in all"]);
    found(Fault::NotZeroed, "zeroed", &["expected 0x0, found"]);
    found(Fault::Churned, "random soak", &["no wrong words"]);
    found(
        Fault::StreamWord,
        "two_streams",
        &["expected no wrong words"],
    );
}

#[test]
fn what_is_left_behind_is_found() {
    let rows = "sizes alignments uniform mixed divergence masks zeroed realloc usable warp batch \
                exhaustion recycling every_second many_heaps two_streams";
    let words = [
        "live blocks",
        "found OutOfMemory",
        "found status",
        "expected no usable bytes",
    ];
    found(Fault::Leak, rows, &words);
    found(Fault::Kept, "random soak", &["live blocks afterwards"]);
    found(Fault::Lost, "random soak", &["operations, found"]);
    let rows = "sizes uniform masks exhaustion recycling every_second random";
    found(
        Fault::Hole,
        rows,
        &["largest free run afterwards", "is larger"],
    );
    found(Fault::Damaged, rows, &["the heap is damaged"]);
}

#[test]
fn wrong_counts_are_found() {
    found(Fault::Uncounted, "double_free", &["refused frees counted"]);
    found(Fault::Uncounted, "foreign_free", &["expected Stats"]);
    found(
        Fault::Forgotten,
        "double_free foreign_free",
        &["first refused free"],
    );
    found(Fault::Short, "usable", &["usable bytes, found"]);
    found(Fault::Class, "mixed", &["size classes"]);
}
