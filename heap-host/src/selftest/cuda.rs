//! Self-tests on a card. Each call is one launch, waited for.

use std::sync::Arc;

use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy, DevicePointer, DeviceSlice};
use cust::stream::Stream;
use heap_kernels::exercise::{Churn, Counts, HELD, Held};
use heap_kernels::{ClassStats, Config, Geometry, Offender, Stats};

use super::rig::{
    Answer, Chain, Chained, Contents, End, Facts, Lanes, List, Machine, Rig, Round, Sizes, Step,
    Wrong,
};
use crate::cuda::{self, DevicePool, Gpu, GpuError, Named, Requests};

impl From<GpuError> for End {
    fn from(error: GpuError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A card, opened.
#[derive(Debug)]
pub(super) struct Card {
    gpu: Arc<Gpu>,
}

impl Card {
    pub(super) fn open(index: u32) -> Result<Self, GpuError> {
        Ok(Self {
            gpu: Gpu::open(index)?,
        })
    }
}

impl Machine for Card {
    fn facts(&self) -> Facts {
        let info = self.gpu.info();
        let ((major, minor), (newest, point)) = (info.capability, info.cuda);
        Facts {
            backend: "cuda",
            device: format!(
                "GPU {}: {}, compute capability {major}.{minor}, {} multiprocessors",
                info.index, info.name, info.multiprocessors
            ),
            driver: Some(format!("CUDA {newest}.{point}")),
        }
    }

    fn threads(&self) -> u64 {
        1 << 20
    }

    fn free_memory(&self) -> Step<Option<u64>> {
        Ok(Some(self.gpu.memory()?.0))
    }

    fn pool(&self, bytes: u64) -> Step<Box<dyn Rig + '_>> {
        let stream = self.gpu.stream()?;
        let pool = DevicePool::new(&self.gpu, bytes, &Config::for_device(), &stream)?;
        stream
            .synchronize()
            .call("cuStreamSynchronize after formatting")?;
        Ok(Box::new(CardRig { pool, stream }))
    }
}

struct CardRig {
    pool: DevicePool,
    stream: Stream,
}

/// A copy in the card's memory.
fn up<T: DeviceCopy>(host: &[T]) -> Step<DeviceBuffer<T>> {
    Ok(DeviceBuffer::from_slice(host).call("cuMemcpyHtoD")?)
}

fn up_if<T: DeviceCopy>(host: Option<&[T]>) -> Step<Option<DeviceBuffer<T>>> {
    host.map(up).transpose()
}

/// Zeros in the card's memory.
fn zeros<T: DeviceCopy + bytemuck::Zeroable>(n: usize) -> Step<DeviceBuffer<T>> {
    Ok(DeviceBuffer::zeroed(n).call("cuMemAlloc")?)
}

/// A copy in the host's memory.
fn down<T: DeviceCopy + Default>(device: &DeviceSlice<T>) -> Step<Vec<T>> {
    let mut host = vec![T::default(); device.len()];
    device.copy_to(&mut host[..]).call("cuMemcpyDtoH")?;
    Ok(host)
}

/// Sizes in the card's memory.
enum Up {
    All(u64),
    Each(DeviceBuffer<u64>),
}

impl Up {
    fn new(sizes: Sizes<'_>, n: usize) -> Step<Self> {
        Ok(match sizes {
            Sizes::All(size) => Self::All(size),
            Sizes::Each(sizes) => Self::Each(up(&sizes[..n])?),
        })
    }

    fn get(&self) -> cuda::Sizes<'_> {
        match self {
            Self::All(size) => cuda::Sizes::All(*size),
            Self::Each(sizes) => cuda::Sizes::Each(sizes),
        }
    }
}

/// Where a launch leaves addresses and statuses.
struct Out {
    addresses: DeviceBuffer<u64>,
    statuses: DeviceBuffer<u32>,
}

impl Out {
    fn new(n: usize) -> Step<Self> {
        Ok(Self {
            addresses: zeros(n)?,
            statuses: zeros(n)?,
        })
    }

    fn down(&self) -> Step<Answer> {
        Ok(Answer {
            addresses: down(&self.addresses)?,
            statuses: down(&self.statuses)?,
        })
    }
}

fn wrong(words: &DeviceSlice<u64>) -> Step<Wrong> {
    let words = down(words)?;
    Ok(Wrong {
        words: words[0],
        highest: words[1].checked_sub(1).map(|i| i as usize),
    })
}

/// A chain's arrays, all there before the first launch: taking memory from
/// the driver may wait for the card.
struct Prepared<'a> {
    chain: &'a Chain,
    sizes: DeviceBuffer<u64>,
    wrong: DeviceBuffer<u64>,
    rounds: Vec<(Out, DeviceBuffer<u32>)>,
}

impl<'a> Prepared<'a> {
    fn new(chain: &'a Chain) -> Step<Self> {
        let n = chain.sizes.len();
        let round = |_| Ok((Out::new(n)?, zeros(n)?));
        Ok(Self {
            chain,
            sizes: up(&chain.sizes)?,
            wrong: zeros(2)?,
            rounds: (0..chain.rounds).map(round).collect::<Step<_>>()?,
        })
    }

    fn enqueue(&self, pool: &DevicePool, stream: &Stream, round: usize) -> Step {
        let (out, freed) = &self.rounds[round];
        let sizes = cuda::Sizes::Each(&self.sizes);
        let seed = self.chain.seed_of(round);
        pool.alloc(stream, sizes, &out.addresses, Some(&out.statuses))?;
        pool.write_pattern(stream, &out.addresses, sizes, seed)?;
        pool.verify(stream, &out.addresses, sizes, Some(seed), &self.wrong)?;
        if round + 1 < self.rounds.len() {
            pool.free(stream, &out.addresses, Some(freed))?;
        }
        Ok(())
    }

    fn end(&self) -> Step<Chained> {
        let last = self.rounds.len().saturating_sub(1);
        let round = |(i, (out, freed)): (usize, &(Out, DeviceBuffer<u32>))| {
            Ok(Round {
                answer: out.down()?,
                freed: if i < last { down(freed)? } else { Vec::new() },
            })
        };
        Ok(Chained {
            rounds: self
                .rounds
                .iter()
                .enumerate()
                .map(round)
                .collect::<Step<_>>()?,
            wrong: wrong(&self.wrong)?,
        })
    }
}

impl CardRig {
    fn wait(&self, kernel: &'static str) -> Step {
        Ok(self.stream.synchronize().call(kernel)?)
    }
}

impl Rig for CardRig {
    fn base(&self) -> u64 {
        self.pool.base()
    }

    fn geometry(&self) -> &Geometry {
        self.pool.geometry()
    }

    fn alloc(&self, sizes: Sizes<'_>, n: usize) -> Step<Answer> {
        if n == 0 {
            return Ok(Answer::default());
        }
        let (sizes, out) = (Up::new(sizes, n)?, Out::new(n)?);
        let (addresses, statuses) = (&out.addresses, Some(&*out.statuses));
        self.pool
            .alloc(&self.stream, sizes.get(), addresses, statuses)?;
        self.wait("dh_alloc")?;
        out.down()
    }

    fn alloc_lanes(&self, requests: &Lanes<'_>) -> Step<Answer> {
        let n = requests.sizes.len();
        if n == 0 {
            return Ok(Answer::default());
        }
        let (sizes, aligns, out) = (up(requests.sizes)?, up_if(requests.aligns)?, Out::new(n)?);
        self.pool.alloc_lanes(
            &self.stream,
            &Requests {
                sizes: &sizes,
                aligns: aligns.as_deref(),
                places: None,
            },
            requests.lanes,
            requests.zero,
            &out.addresses,
            &out.statuses,
        )?;
        self.wait("dh_alloc_lanes")?;
        out.down()
    }

    fn alloc_batch(&self, list: &List<'_>) -> Step<Answer> {
        let n = list.sizes.len();
        if n == 0 {
            return Ok(Answer::default());
        }
        let (sizes, aligns) = (up(list.sizes)?, up_if(list.aligns)?);
        let (places, out) = (up_if(list.places)?, Out::new(n)?);
        self.pool.alloc_batch(
            &self.stream,
            &Requests {
                sizes: &sizes,
                aligns: aligns.as_deref(),
                places: places.as_deref(),
            },
            list.threads,
            &out.addresses,
            &out.statuses,
        )?;
        self.wait("dh_alloc_batch")?;
        out.down()
    }

    fn alloc_warp(&self, sizes: &[u64]) -> Step<(Vec<u64>, Answer)> {
        let n = sizes.len();
        if n == 0 {
            return Ok((Vec::new(), Answer::default()));
        }
        let (sizes, bases, out) = (up(sizes)?, zeros(n)?, Out::new(n)?);
        let (addresses, statuses) = (&out.addresses, &out.statuses);
        self.pool
            .alloc_warp(&self.stream, &sizes, &bases, addresses, statuses)?;
        self.wait("dh_alloc_warp")?;
        Ok((down(&bases)?, out.down()?))
    }

    fn realloc(&self, blocks: &[u64], sizes: &[u64]) -> Step<Answer> {
        if blocks.is_empty() {
            return Ok(Answer::default());
        }
        let (blocks, sizes, out) = (up(blocks)?, up(sizes)?, Out::new(blocks.len())?);
        let (addresses, statuses) = (&out.addresses, &out.statuses);
        self.pool
            .realloc(&self.stream, &blocks, &sizes, addresses, statuses)?;
        self.wait("dh_realloc")?;
        out.down()
    }

    fn free(&self, blocks: &[u64]) -> Step<Vec<u32>> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let (device, statuses) = (up(blocks)?, zeros(blocks.len())?);
        self.pool.free(&self.stream, &device, Some(&statuses))?;
        self.wait("dh_free")?;
        down(&statuses)
    }

    fn free_batch(&self, blocks: &[u64], threads: u32) -> Step<Vec<u32>> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let (device, statuses) = (up(blocks)?, zeros(blocks.len())?);
        self.pool
            .free_batch(&self.stream, &device, threads, Some(&statuses))?;
        self.wait("dh_free_batch")?;
        down(&statuses)
    }

    fn write(&self, blocks: &[u64], sizes: Sizes<'_>, seed: u64) -> Step {
        if blocks.is_empty() {
            return Ok(());
        }
        let (device, sizes) = (up(blocks)?, Up::new(sizes, blocks.len())?);
        self.pool
            .write_pattern(&self.stream, &device, sizes.get(), seed)?;
        self.wait("dh_write")
    }

    fn verify(&self, blocks: &[u64], sizes: Sizes<'_>, contents: Contents) -> Step<Wrong> {
        if blocks.is_empty() {
            return Ok(Wrong::default());
        }
        let (device, sizes, found) = (up(blocks)?, Up::new(sizes, blocks.len())?, zeros(2)?);
        let seed = match contents {
            Contents::Pattern(seed) => Some(seed),
            Contents::Zero => None,
        };
        self.pool
            .verify(&self.stream, &device, sizes.get(), seed, &found)?;
        self.wait("dh_verify")?;
        wrong(&found)
    }

    fn peek(&self, address: u64, bytes: usize) -> Step<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the test names bytes of the pool, which outlives the slice;
        // it is read by the copy only, while nothing runs.
        let slice = unsafe { DeviceSlice::from_raw_parts(DevicePointer::from_raw(address), bytes) };
        down(&slice)
    }

    fn wander(&self, seed: u64, n: usize) -> Step<(Vec<u64>, Answer)> {
        if n == 0 {
            return Ok((Vec::new(), Answer::default()));
        }
        let (sizes, out) = (zeros(n)?, Out::new(n)?);
        let (addresses, statuses) = (&out.addresses, &out.statuses);
        self.pool
            .wander(&self.stream, seed, &sizes, addresses, statuses)?;
        self.wait("dh_wander")?;
        Ok((down(&sizes)?, out.down()?))
    }

    fn churn(&self, work: &Churn, last: bool, held: &mut [[Held; HELD]]) -> Step<Counts> {
        if held.is_empty() {
            return Ok(Counts::default());
        }
        let words = |held: &Held| [held.address, held.size];
        let words: Vec<u64> = held.iter().flatten().flat_map(words).collect();
        let (device, counts) = (up(&words)?, zeros::<u64>(Counts::WORDS)?);
        self.pool
            .churn(&self.stream, work, last, &device, &counts)?;
        self.wait("dh_churn")?;
        let words = down(&device)?;
        for (place, &[address, size]) in held.iter_mut().flatten().zip(words.as_chunks().0) {
            *place = Held { address, size };
        }
        let counts = down(&counts)?;
        Ok(Counts::from_words(&std::array::from_fn(|word| {
            counts[word]
        })))
    }

    fn chains(&self, chains: [&Chain; 2]) -> Step<[Chained; 2]> {
        let other = self.pool.gpu().stream()?;
        let prepared = [Prepared::new(chains[0])?, Prepared::new(chains[1])?];
        let rounds = prepared
            .iter()
            .map(|chain| chain.rounds.len())
            .max()
            .unwrap_or(0);
        for round in 0..rounds {
            for (chain, stream) in prepared.iter().zip([&self.stream, &other]) {
                if round < chain.rounds.len() {
                    chain.enqueue(&self.pool, stream, round)?;
                }
            }
        }
        self.wait("the first stream's chain")?;
        other.synchronize().call("the second stream's chain")?;
        Ok([prepared[0].end()?, prepared[1].end()?])
    }

    fn stats(&self) -> Step<Stats> {
        Ok(self.pool.stats(&self.stream)?)
    }

    fn reclaim(&self) -> Step {
        Ok(self.pool.reclaim(&self.stream)?)
    }
    fn class_stats(&self) -> Step<Vec<ClassStats>> {
        Ok(self.pool.class_stats(&self.stream)?)
    }

    fn check(&self) -> Step {
        Ok(self.pool.check(&self.stream)?)
    }

    fn offender(&self) -> Step<Option<Offender>> {
        Ok(self.pool.offender(&self.stream)?)
    }

    fn usable_sizes(&self, blocks: &[u64]) -> Step<Vec<u64>> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.pool.usable_sizes(&self.stream, blocks)?)
    }

    fn reset(&self) -> Step {
        self.pool.reset(&self.stream)?;
        self.wait("dh_zero and dh_begin")
    }
}
