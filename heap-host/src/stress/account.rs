//! Rounds, and what must hold between them and at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heap_kernels::{FreeError, Heap, HostMem, Mem, Request, SingleLane};
use parking_lot::Mutex;

use super::pattern::Bytes;
use super::shadow::{Block, Faults, Map, Tally};
use super::worker::{Shared, Worker};
use super::{Options, Report};

/// Rounds of a run.
const ROUNDS: u64 = 16;

/// Blocks of each thread that all threads free at once after a round.
const CONTESTED: usize = 16;

/// A whole run.
pub(super) struct Trial<'a, M> {
    shared: Shared<'a, M>,
    workers: Vec<Worker>,
    options: Options,
    /// What was done between rounds.
    between: Tally,
}

impl<'a, M: Mem + Sync> Trial<'a, M> {
    /// `bytes` is the heap's memory.
    pub(super) fn new(
        heap: Heap<M>,
        bytes: HostMem,
        options: &Options,
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> Self {
        let page_bytes = heap.geometry().page_bytes();
        let threads = 0..options.threads;
        Self {
            shared: Shared {
                heap,
                bytes: Bytes::new(bytes),
                map: Map::new(bytes.len()),
                mailboxes: threads.clone().map(|_| Mutex::default()).collect(),
                live: AtomicU64::new(0),
                max_live: AtomicU64::new(0),
                faults: Faults::default(),
                progress,
            },
            workers: threads
                .map(|thread| Worker::new(options.seed, thread, page_bytes))
                .collect(),
            options: *options,
            between: Tally::default(),
        }
    }

    pub(super) fn run(mut self) -> Report {
        self.refuse_on_a_fresh_heap();
        for round in 0..ROUNDS {
            if !self.round(round) {
                // What a thread did that died is not known any more.
                return self.report(0);
            }
            self.free_together();
            self.hold_to_account();
        }
        self.free_all();
        self.hold_to_account();
        let leaked = self.leaked();
        self.ask_for_all();
        self.report(leaked)
    }

    /// A heap that has handed out nothing has nothing to free.
    fn refuse_on_a_fresh_heap(&mut self) {
        let first = self.shared.heap.geometry().metadata_bytes();
        let lane = SingleLane::new(0);
        let refused = self.shared.refuses(&lane, first, FreeError::NeverAllocated);
        self.between.refused_frees += u64::from(refused);
    }

    /// All threads run their share; whether all lived.
    fn round(&mut self, round: u64) -> bool {
        let (shared, ops) = (&self.shared, self.options.ops);
        let threads = u64::from(self.options.threads);
        thread::scope(|scope| {
            let running: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    let own = share(ops, threads, u64::from(worker.thread));
                    let part = share(own, ROUNDS, round);
                    scope.spawn(move || worker.round(shared, part))
                })
                .collect();
            let died = running
                .into_iter()
                .filter_map(|thread| thread.join().err())
                .inspect(|_| {
                    shared
                        .faults
                        .note(|| "a thread panicked in the heap".into())
                })
                .count();
            died == 0
        })
    }

    /// Every thread frees the same blocks: exactly one free of each succeeds.
    fn free_together(&mut self) {
        let mut contested = Vec::new();
        for worker in &mut self.workers {
            let kept = worker.blocks.len().saturating_sub(CONTESTED);
            contested.extend(worker.blocks.drain(kept..));
        }
        for block in &contested {
            self.shared.verify(block, "freed by all");
            self.shared.map.release(block);
            self.shared.live.fetch_sub(block.size, Ordering::Relaxed);
        }
        let freed: Vec<AtomicU64> = contested.iter().map(|_| AtomicU64::new(0)).collect();
        let (shared, blocks, counts) = (&self.shared, &contested[..], &freed[..]);
        // One thread alone frees everything twice.
        let rounds = if self.workers.len() == 1 { 2 } else { 1 };
        thread::scope(|scope| {
            for worker in &self.workers {
                let lane = worker.lane;
                scope.spawn(move || {
                    (0..rounds).for_each(|_| free_each(shared, &lane, blocks, counts));
                });
            }
        });
        let tries = self.workers.len() as u64 * rounds;
        for (block, freed) in contested.iter().zip(freed) {
            let freed = freed.into_inner();
            self.shared.faults.ensure(freed == 1, || {
                format!(
                    "the block at offset {} was freed {freed} times",
                    block.offset
                )
            });
            self.between.frees += 1;
            self.between.refused_frees += tries - 1;
        }
    }

    fn tally(&self) -> Tally {
        let mut tally = self.between;
        self.workers
            .iter()
            .for_each(|worker| tally.add(&worker.tally));
        tally
    }

    /// The heap at rest against the models.
    fn hold_to_account(&self) {
        let Shared { heap, faults, .. } = &self.shared;
        if let Err(corruption) = heap.check() {
            faults.note(|| corruption.to_string());
            return;
        }
        let mailed = self.shared.mailboxes.iter().map(|mailbox| mailbox.lock());
        let (mut blocks, mut bytes) = (0, 0);
        let mut count = |live: &[Block]| {
            blocks += live.len() as u64;
            bytes += live.iter().map(|block| block.usable).sum::<u64>();
        };
        mailed.for_each(|mailbox| count(&mailbox));
        self.workers.iter().for_each(|worker| count(&worker.blocks));
        let (stats, tally) = (heap.stats(), self.tally());
        let agree = |what: &str, counted: u64, true_value: u64| {
            faults.ensure(counted == true_value, || {
                format!("the heap counts {counted} {what}; there are {true_value}")
            });
        };
        agree("live blocks", stats.live_blocks, blocks);
        agree("live bytes", stats.live_bytes, bytes);
        agree(
            "allocations",
            stats.allocations,
            tally.allocations + tally.moves,
        );
        agree("frees", stats.frees, tally.frees + tally.moves);
        agree("failures", stats.failures, tally.failed);
        agree("wrong frees", stats.bad_frees, tally.refused_frees);
    }

    fn free_all(&mut self) {
        for worker in &mut self.workers {
            let mailbox = &self.shared.mailboxes[worker.thread as usize];
            let mut blocks = std::mem::take(&mut *mailbox.lock());
            blocks.append(&mut worker.blocks);
            blocks
                .iter()
                .for_each(|block| worker.free(&self.shared, block));
        }
    }

    /// Bytes in use though nothing is live.
    fn leaked(&self) -> u64 {
        self.shared.heap.reclaim();
        let stats = self.shared.heap.stats();
        stats.used_bytes.max(stats.live_bytes)
    }

    /// A pool in which nothing is live serves one block of all its pages.
    fn ask_for_all(&self) {
        let Shared { heap, faults, .. } = &self.shared;
        let (all, lane) = (heap.geometry().page_bytes(), SingleLane::new(0));
        let freed = heap
            .alloc(&lane, Request::new(all))
            .map(|offset| heap.free(&lane, offset));
        faults.ensure(freed == Ok(Ok(())), || {
            format!("the empty pool did not serve one block of {all} bytes: {freed:?}")
        });
    }

    fn report(&self, leaked_bytes: u64) -> Report {
        let tally = self.tally();
        Report {
            threads: self.options.threads,
            pool_bytes: self.options.pool_bytes,
            seed: self.options.seed,
            ops: tally.ops,
            allocations: tally.allocations,
            frees: tally.frees,
            reallocations: tally.reallocations,
            failed: tally.failed,
            refused_frees: tally.refused_frees,
            max_live_bytes: self.shared.max_live.load(Ordering::Relaxed),
            errors: self.shared.faults.count(),
            first_error: self.shared.faults.first(),
            leaked_bytes,
            seconds: 0.0,
        }
    }
}

/// Part `index` of `total` in `parts` parts that differ by one at most.
fn share(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}

fn free_each<M: Mem>(
    shared: &Shared<'_, M>,
    lane: &SingleLane,
    blocks: &[Block],
    freed: &[AtomicU64],
) {
    for (block, freed) in blocks.iter().zip(freed) {
        let result = shared.heap.free(lane, block.offset);
        if result.is_ok() {
            freed.fetch_add(1, Ordering::Relaxed);
        }
        let refused = matches!(result, Ok(()) | Err(FreeError::DoubleFree));
        shared.faults.ensure(refused, || {
            format!("a second free of offset {} gave {result:?}", block.offset)
        });
    }
}
