//! Self-tests on host threads.

use heap_kernels::exercise::{Churn, Counts, HELD, Held, allocate, churn, drain, release, wander};
use heap_kernels::{
    AllocError, ClassStats, Config, Geometry, Heap, HostMem, Mem, Offender, Place, Request,
    SingleLane, Stats, pattern,
};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::rig::{
    Answer, Chain, Chained, Contents, End, Facts, Lanes, List, Machine, Rig, Round, Sizes, Step,
    Wrong,
};
use crate::pool::OwnedMemory;

/// Alignment of a pool's first byte: no request may ask for more.
const BASE_ALIGNMENT: u64 = 1 << 21;

/// Elements that a worker takes at a time, at most: few, so that workers meet.
const SHARE: usize = 64;

/// A machine of host threads.
#[derive(Debug)]
pub(super) struct Cpu {
    workers: ThreadPool,
}

impl Cpu {
    /// As many threads as the machine runs at once, and two at least.
    pub(super) fn new() -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let workers = ThreadPoolBuilder::new()
            .num_threads(cores.max(2))
            .thread_name(|index| format!("selftest-{index}"))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { workers })
    }
}

impl Machine for Cpu {
    fn facts(&self) -> Facts {
        Facts {
            backend: "cpu",
            device: format!("{} host threads", self.workers.current_num_threads()),
            driver: None,
        }
    }

    fn threads(&self) -> u64 {
        1 << 16
    }

    fn free_memory(&self) -> Step<Option<u64>> {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.map(|kib| kib * 1024))
    }

    fn pool(&self, bytes: u64) -> Step<Box<dyn Rig + '_>> {
        let failed = |reason: String| End::Failed(format!("no pool of {bytes} bytes: {reason}"));
        let memory = OwnedMemory::zeroed(bytes, BASE_ALIGNMENT);
        let memory = memory.map_err(|error| failed(error.to_string()))?;
        // SAFETY: the memory is valid for `bytes`, aligned, and kept by the
        // rig for as long as the heap, which alone uses it.
        let mem = unsafe { HostMem::new(memory.base(), bytes) };
        let heap = Heap::format(mem, &Config::default());
        Ok(Box::new(CpuRig {
            workers: &self.workers,
            heap: heap.map_err(|error| failed(error.to_string()))?,
            _memory: memory,
        }))
    }
}

struct CpuRig<'a> {
    workers: &'a ThreadPool,
    heap: Heap<HostMem>,
    _memory: OwnedMemory,
}

/// The calling worker, as the heap sees it.
fn lane() -> SingleLane {
    SingleLane::new(rayon::current_thread_index().unwrap_or(0) as u32)
}

fn place(code: u32) -> Place {
    match code {
        1 => Place::Low,
        2 => Place::High,
        _ => Place::Best,
    }
}

/// Calls `word(address, index, bytes)` for each word of a block.
fn each_word(address: u64, size: u64, mut word: impl FnMut(*mut u8, u64, u64)) {
    for index in 0..size.div_ceil(8) {
        word(
            (address + index * 8) as *mut u8,
            index,
            (size - index * 8).min(8),
        );
    }
}

impl CpuRig<'_> {
    fn each<T: Send>(&self, n: usize, work: impl Fn(&SingleLane, usize) -> T + Sync) -> Vec<T> {
        let all = || (0..n).into_par_iter().with_max_len(SHARE);
        self.workers
            .install(|| all().map(|i| work(&lane(), i)).collect())
    }

    fn answer(&self, n: usize, work: impl Fn(&SingleLane, usize) -> (u64, u32) + Sync) -> Answer {
        let (addresses, statuses) = self.each(n, work).into_iter().unzip();
        Answer {
            addresses,
            statuses,
        }
    }

    /// `threads` threads, each of which takes every so many-th element.
    fn walk<T: Copy + Default + Send>(
        &self,
        n: usize,
        threads: u32,
        work: impl Fn(&SingleLane, usize) -> T + Sync,
    ) -> Vec<T> {
        let threads = threads.max(1) as usize;
        let parts = self.each(threads, |lane, first| {
            let mine = (first..n).step_by(threads);
            mine.map(|i| work(lane, i)).collect::<Vec<T>>()
        });
        let mut all = vec![T::default(); n];
        for (first, part) in parts.into_iter().enumerate() {
            for (step, value) in part.into_iter().enumerate() {
                all[first + step * threads] = value;
            }
        }
        all
    }

    fn wrong_words(&self, address: u64, size: u64, block: usize, contents: Contents) -> u64 {
        let mut wrong = 0;
        if address != 0 {
            each_word(address, size, |at, index, bytes| {
                let expected = match contents {
                    Contents::Pattern(seed) => pattern::word(seed, block as u64, index),
                    Contents::Zero => 0,
                };
                // SAFETY: `at` lies in a live block, with so many bytes behind
                // it, which no other thread writes.
                wrong += u64::from(!unsafe { pattern::is(at, expected, bytes) });
            });
        }
        wrong
    }

    fn chain(&self, chain: &Chain) -> Step<Chained> {
        let mut done = Chained::default();
        let sizes = Sizes::Each(&chain.sizes);
        for round in 0..chain.rounds {
            let seed = chain.seed_of(round);
            let answer = self.alloc(sizes, chain.sizes.len())?;
            self.write(&answer.addresses, sizes, seed)?;
            let wrong = self.verify(&answer.addresses, sizes, Contents::Pattern(seed))?;
            done.wrong.words += wrong.words;
            done.wrong.highest = done.wrong.highest.max(wrong.highest);
            let freed = if round + 1 < chain.rounds {
                self.free(&answer.addresses)?
            } else {
                Vec::new()
            };
            done.rounds.push(Round { answer, freed });
        }
        Ok(done)
    }
}

impl Rig for CpuRig<'_> {
    fn base(&self) -> u64 {
        self.heap.mem().base()
    }

    fn geometry(&self) -> &Geometry {
        self.heap.geometry()
    }

    fn alloc(&self, sizes: Sizes<'_>, n: usize) -> Step<Answer> {
        Ok(self.answer(n, |lane, i| {
            allocate(&self.heap, lane, Request::new(sizes.of(i)))
        }))
    }

    fn alloc_lanes(&self, requests: &Lanes<'_>) -> Step<Answer> {
        Ok(self.answer(requests.sizes.len(), |lane, i| {
            if !requests.takes_part(i) {
                return (0, 0);
            }
            let align = requests.aligns.map_or(16, |aligns| aligns[i]);
            let request = Request::new(requests.sizes[i]).align(align);
            if !requests.zero {
                return allocate(&self.heap, lane, request);
            }
            match self.heap.alloc_zeroed(lane, request) {
                Ok(offset) => (self.base() + offset, 0),
                Err(error) => (0, error.code()),
            }
        }))
    }

    fn alloc_batch(&self, list: &List<'_>) -> Step<Answer> {
        let all = self.walk(list.sizes.len(), list.threads, |lane, i| {
            let request = Request::new(list.sizes[i])
                .align(list.aligns.map_or(16, |aligns| aligns[i]))
                .place(place(list.places.map_or(0, |places| places[i])));
            allocate(&self.heap, lane, request)
        });
        let (addresses, statuses) = all.into_iter().unzip();
        Ok(Answer {
            addresses,
            statuses,
        })
    }

    fn alloc_warp(&self, sizes: &[u64]) -> Step<(Vec<u64>, Answer)> {
        let base = self.base();
        let all = self.each(sizes.len(), |lane, i| {
            let block = self.heap.alloc_warp(lane, sizes[i]);
            block.map_or_else(
                |error: AllocError| (0, (0, error.code())),
                |block| (base + block.base, (base + block.offset, 0)),
            )
        });
        let (bases, parts): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let (addresses, statuses) = parts.into_iter().unzip();
        let answer = Answer {
            addresses,
            statuses,
        };
        Ok((bases, answer))
    }

    fn realloc(&self, blocks: &[u64], sizes: &[u64]) -> Step<Answer> {
        let base = self.base();
        Ok(self.answer(blocks.len(), |lane, i| {
            let offset = blocks[i].wrapping_sub(base);
            match self.heap.realloc(lane, offset, Request::new(sizes[i])) {
                Ok(offset) => (base + offset, 0),
                Err(error) => (0, error.code()),
            }
        }))
    }

    fn free(&self, blocks: &[u64]) -> Step<Vec<u32>> {
        Ok(self.each(blocks.len(), |lane, i| release(&self.heap, lane, blocks[i])))
    }

    fn free_batch(&self, blocks: &[u64], threads: u32) -> Step<Vec<u32>> {
        Ok(self.walk(blocks.len(), threads, |lane, i| {
            release(&self.heap, lane, blocks[i])
        }))
    }

    fn write(&self, blocks: &[u64], sizes: Sizes<'_>, seed: u64) -> Step {
        self.each(blocks.len(), |_, i| {
            if blocks[i] != 0 {
                each_word(blocks[i], sizes.of(i), |at, index, bytes| {
                    let value = pattern::word(seed, i as u64, index);
                    // SAFETY: `at` lies in a live block of this element, with
                    // so many bytes behind it.
                    unsafe { pattern::write(at, value, bytes) };
                });
            }
        });
        Ok(())
    }

    fn verify(&self, blocks: &[u64], sizes: Sizes<'_>, contents: Contents) -> Step<Wrong> {
        let words = self.each(blocks.len(), |_, i| {
            self.wrong_words(blocks[i], sizes.of(i), i, contents)
        });
        Ok(Wrong {
            words: words.iter().sum(),
            highest: words.iter().rposition(|&wrong| wrong > 0),
        })
    }

    fn peek(&self, address: u64, bytes: usize) -> Step<Vec<u8>> {
        // SAFETY: the test names bytes of a block of its own.
        Ok(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec())
    }

    fn wander(&self, seed: u64, n: usize) -> Step<(Vec<u64>, Answer)> {
        let ends = self.each(n, |lane, i| wander(&self.heap, lane, seed, i as u64));
        let answer = Answer {
            addresses: ends.iter().map(|end| end.address).collect(),
            statuses: ends.iter().map(|end| end.status).collect(),
        };
        Ok((ends.iter().map(|end| end.size).collect(), answer))
    }

    fn churn(&self, work: &Churn, last: bool, held: &mut [[Held; HELD]]) -> Step<Counts> {
        let one = |(i, held): (usize, &mut [Held; HELD])| {
            // SAFETY: offsets plus base are addresses of host memory; the
            // blocks are those of an earlier call with this seed.
            let counts = unsafe {
                if last {
                    drain(&self.heap, &lane(), work, held)
                } else {
                    churn(&self.heap, &lane(), work, i as u64, held)
                }
            };
            counts.to_words()
        };
        let add = |a: [u64; Counts::WORDS], b: [u64; Counts::WORDS]| {
            std::array::from_fn(|word| a[word] + b[word])
        };
        let zero = || [0; Counts::WORDS];
        let sum = self.workers.install(|| {
            let all = held.par_iter_mut().enumerate().with_max_len(SHARE);
            all.map(one).reduce(zero, add)
        });
        Ok(Counts::from_words(&sum))
    }

    fn chains(&self, [first, second]: [&Chain; 2]) -> Step<[Chained; 2]> {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| self.chain(second));
            let one = self.chain(first);
            let other = other.join();
            let other = other.unwrap_or_else(|_| Err(End::Failed("a thread panicked".into())));
            Ok([one?, other?])
        })
    }

    fn stats(&self) -> Step<Stats> {
        Ok(self.heap.stats())
    }

    fn reclaim(&self) -> Step {
        self.heap.reclaim();
        Ok(())
    }
    fn class_stats(&self) -> Step<Vec<ClassStats>> {
        let classes = self.geometry().classes() as usize;
        Ok(self.each(classes, |_, class| self.heap.class_stats(class as u32)))
    }

    fn check(&self) -> Step {
        let checked = self.heap.check();
        checked.map_err(|corruption| End::Failed(corruption.to_string()))
    }

    fn offender(&self) -> Step<Option<Offender>> {
        Ok(self.heap.offender())
    }

    fn usable_sizes(&self, blocks: &[u64]) -> Step<Vec<u64>> {
        let base = self.base();
        Ok(self.each(blocks.len(), |_, i| {
            let offset = blocks[i].wrapping_sub(base);
            self.heap.usable_size(offset).unwrap_or(0)
        }))
    }

    fn reset(&self) -> Step {
        self.heap.reset();
        Ok(())
    }
}
