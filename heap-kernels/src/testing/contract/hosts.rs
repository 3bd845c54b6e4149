//! The host's backends: one lane after the other, threads, simulated warps.

use std::vec::Vec;

use super::{Backend, Call, PoolUnderTest, Reply, perform};
use crate::host::HostMem;
use crate::testing::lockstep::{LockstepMem, Machine, Schedule};
use crate::testing::memory::PoolMemory;
use crate::warp::LANES;
use crate::{
    ClassStats, Config, Corruption, FormatError, Geometry, Heap, Mem, Offender, SingleLane, Stats,
    Warp,
};

/// Pools longer than this are left as the system gives them; shorter ones are
/// full of rubbish before they are formatted.
const RUBBISH: u64 = 1 << 28;

/// How a host runs lists of calls.
pub trait Host {
    /// The memory as it accesses it.
    type Mem: Mem + Copy + Sync;

    /// Lanes in a warp.
    fn lanes(&self) -> u32;

    /// Wraps plain memory.
    fn mem(&self, mem: HostMem) -> Self::Mem;

    /// See [`PoolUnderTest::launch`].
    fn launch(&self, heap: &Heap<Self::Mem>, lists: &[Vec<Call>]) -> Vec<Vec<Reply>>;
}

/// One lane, list by list.
#[derive(Clone, Copy, Debug)]
pub struct Sequential;

/// A few threads that share the lists.
#[derive(Clone, Copy, Debug)]
pub struct Threads(
    /// How many.
    pub u32,
);

/// Simulated warps of 32 lanes.
#[derive(Clone, Debug)]
pub struct Simulated(
    /// Their interleaving.
    pub Schedule,
);

/// Makes the calls of one list.
fn run_list<M: Mem, W: Warp>(heap: &Heap<M>, warp: &W, list: &[Call]) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(list.len());
    for &call in list {
        let reply = perform(heap, warp, call, &replies);
        replies.push(reply);
    }
    replies
}

impl Host for Sequential {
    type Mem = HostMem;

    fn lanes(&self) -> u32 {
        1
    }
    fn mem(&self, mem: HostMem) -> HostMem {
        mem
    }
    fn launch(&self, heap: &Heap<HostMem>, lists: &[Vec<Call>]) -> Vec<Vec<Reply>> {
        let lane = SingleLane::new;
        (0..)
            .zip(lists)
            .map(|(shard, list)| run_list(heap, &lane(shard), list))
            .collect()
    }
}

impl Host for Threads {
    type Mem = HostMem;

    fn lanes(&self) -> u32 {
        1
    }
    fn mem(&self, mem: HostMem) -> HostMem {
        mem
    }
    fn launch(&self, heap: &Heap<HostMem>, lists: &[Vec<Call>]) -> Vec<Vec<Reply>> {
        let share = lists.len().div_ceil(self.0 as usize).max(1);
        let work = |(thread, lists): (u32, &[Vec<Call>])| {
            let lane = SingleLane::new(thread);
            lists
                .iter()
                .map(|list| run_list(heap, &lane, list))
                .collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(lists.chunks(share))
                .map(|part| scope.spawn(move || work(part)))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("no panic"))
                .collect()
        })
    }
}

impl Host for Simulated {
    type Mem = LockstepMem<HostMem>;

    fn lanes(&self) -> u32 {
        LANES
    }
    fn mem(&self, mem: HostMem) -> Self::Mem {
        LockstepMem::new(mem)
    }
    fn launch(&self, heap: &Heap<Self::Mem>, lists: &[Vec<Call>]) -> Vec<Vec<Reply>> {
        let warps = (lists.len() as u32).div_ceil(LANES).max(1);
        let lanes = LANES.min(lists.len() as u32).max(1);
        let schedule = self.0.clone();
        let outcome = Machine {
            warps,
            lanes,
            schedule,
        }
        .run(|lane| {
            let index = (lane.warp() * lanes + lane.lane()) as usize;
            lists.get(index).map(|list| run_list(heap, lane, list))
        });
        outcome.results().flatten().collect()
    }
}

/// A pool in host memory.
pub struct HostPool<H: Host> {
    host: H,
    heap: Heap<H::Mem>,
    _memory: PoolMemory,
}

impl<H: Host + Clone> Backend for H {
    type Pool = HostPool<H>;

    fn lanes(&self) -> u32 {
        Host::lanes(self)
    }

    fn format(&self, len: u64, config: &Config) -> Result<HostPool<H>, FormatError> {
        let memory = PoolMemory::new(len, 1 << 16);
        let mem = memory.mem();
        if len <= RUBBISH {
            // SAFETY: nobody uses the memory yet.
            unsafe { mem.fill(0, len, 0xa5) };
        }
        let heap = Heap::format(self.mem(mem), config)?;
        Ok(HostPool {
            host: self.clone(),
            heap,
            _memory: memory,
        })
    }
}

impl<H: Host> PoolUnderTest for HostPool<H> {
    fn lanes(&self) -> u32 {
        self.host.lanes()
    }
    fn launch(&self, lists: &[Vec<Call>]) -> Vec<Vec<Reply>> {
        self.host.launch(&self.heap, lists)
    }
    fn base(&self) -> u64 {
        self.heap.mem().base()
    }
    fn geometry(&self) -> Geometry {
        *self.heap.geometry()
    }
    fn stats(&self) -> Stats {
        self.heap.stats()
    }
    fn class_stats(&self, class: u32) -> ClassStats {
        self.heap.class_stats(class)
    }
    fn check(&self) -> Result<(), Corruption> {
        self.heap.check()
    }
    fn offender(&self) -> Option<Offender> {
        self.heap.offender()
    }
    fn reset(&self) {
        self.heap.reset();
    }
    fn reclaim(&self) {
        self.heap.reclaim();
    }
}
