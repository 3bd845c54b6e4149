//! The CPU as a device: its memory is a part of the host's, its lanes are
//! threads, and a launched step has run when `launch` returns.

mod access;
mod allocate;
mod builtin;
mod context;
mod device;
mod division;
mod kernel;
mod scan;
mod watch;

pub use access::{AccessError, KernelError, Key, Writing};
pub use context::KernelContext;
pub(super) use kernel::KernelFn;
pub(super) use watch::Poison;

use std::sync::Arc;

use heap_kernels::{Heap, HostMem};

use crate::sequence::{AlgorithmId, MAX_ALIGNMENT, Scope};

use super::backend::{Backend, BackendError, KernelFault, PoolAudit};
use super::configuration::Configuration;
use super::control::Control;
use super::memory::{OnDevice, ReadTicket, Region};
use super::program::Step;

use builtin::Touches;
use device::{Device, Pool};
use division::Divisions;
use kernel::Kernels;

/// Alignment of a pool's first byte. Addresses of blocks are aligned as asked
/// for up to here.
const POOL_ALIGNMENT: u64 = 1 << 21;

/// One stream on the CPU.
///
/// Built-in kernels spread over rayon's threads; steps follow one another on
/// the thread that launches them.
#[derive(Debug)]
pub struct CpuBackend {
    config: Arc<Configuration>,
    control: Region,
    arenas: [Region; 2],
    pools: [Option<Pool>; 2],
    divisions: Divisions,
    touches: Touches,
    kernels: Kernels,
    fault: Option<KernelFault>,
}

impl Backend for CpuBackend {
    const NAME: &'static str = "cpu";

    fn configure(config: Arc<Configuration>) -> Result<Self, BackendError> {
        let region = |region: &str, bytes, alignment| {
            Region::new(bytes, alignment).map_err(|source| {
                let region = region.to_owned();
                BackendError::Memory { region, source }
            })
        };
        let arena = |scope: Scope| {
            let name = format!("static {scope} arena");
            region(&name, config.arena(scope).plan.peak(), MAX_ALIGNMENT)
        };
        let pool = |scope: Scope| {
            let plan = config.pool(scope);
            if plan.bytes == 0 {
                return Ok(None);
            }
            let memory = region(&format!("dynamic {scope} pool"), plan.bytes, POOL_ALIGNMENT)?;
            let pool = Pool::format(memory, &plan.heap);
            pool.map(Some)
                .map_err(|source| BackendError::Pool { scope, source })
        };
        Ok(Self {
            control: region("control block", config.control_bytes(), 64)?,
            arenas: [arena(Scope::Host)?, arena(Scope::Device)?],
            pools: [pool(Scope::Host)?, pool(Scope::Device)?],
            divisions: Divisions::new(config.sequence()),
            touches: Touches::new(&config),
            kernels: Kernels::new(config.sequence()),
            fault: None,
            config,
        })
    }

    fn control_address(&self) -> u64 {
        self.control.address()
    }

    fn arena_address(&self, scope: Scope) -> u64 {
        self.arenas[scope as usize].address()
    }

    fn upload(&mut self, words: &[u64]) {
        let on = OnDevice::enter();
        self.fault = None;
        let control = self.device(&on).control;
        for (at, &word) in words.iter().enumerate() {
            control.set(at as u64, word);
        }
    }

    fn launch(&mut self, step: &Step) {
        let on = OnDevice::enter();
        let device = self.device(&on);
        match step {
            Step::Open { buffers, .. } => device.open(buffers),
            Step::Allocate {
                algorithm,
                requests,
            } => device.allocate(*algorithm, requests),
            Step::Fill { buffer, byte } => device.fill(*buffer, *byte),
            Step::Copy { from, to } => device.copy(*from, *to),
            Step::Kernel { algorithm } => {
                let fault = device.kernel(*algorithm, &self.kernels, &self.touches);
                self.fault = self.fault.take().or(fault);
            }
            Step::Scan { total } => device.scan(*total),
            Step::Inspect { algorithm, buffers } => device.inspect(*algorithm, buffers),
            Step::Free { algorithm, buffers } => device.free(*algorithm, buffers),
            Step::Close { algorithm, buffers } => device.close(*algorithm, buffers),
        }
    }

    fn wait(&mut self) {}

    fn read(&mut self, address: u64, into: &mut [u8], ticket: ReadTicket) {
        let pools = self.pools.iter().flatten().map(|pool| &pool.region);
        let mut regions = pools.chain(&self.arenas).chain([&self.control]);
        let region = regions.find(|region| region.contains(address, into.len() as u64));
        let region = region.expect("the host reads what is in a region");
        region.copy_out(address, into, ticket);
    }

    fn take_fault(&mut self) -> Option<KernelFault> {
        self.fault.take()
    }

    fn audit(&mut self, scope: Scope, deep: bool) -> Option<PoolAudit> {
        let heap = &self.pools[scope as usize].as_ref()?.heap;
        let stats = heap.stats();
        let corruption = if deep { heap.check().err() } else { None };
        Some(PoolAudit {
            live_bytes: stats.live_bytes,
            used_bytes: stats.used_bytes,
            corruption: corruption.map(|corruption| corruption.to_string()),
        })
    }

    fn reset_pool(&mut self, scope: Scope) {
        if let Some(pool) = &self.pools[scope as usize] {
            pool.heap.reset();
        }
    }
}

impl CpuBackend {
    /// Replaces an algorithm's built-in kernel.
    pub(super) fn set_kernel(&mut self, algorithm: AlgorithmId, kernel: Box<KernelFn>) {
        self.kernels.replace(algorithm, kernel);
    }

    /// Adds something that runs right after an algorithm's kernel.
    pub(super) fn add_tap(&mut self, algorithm: AlgorithmId, tap: Box<KernelFn>) {
        self.kernels.tap(algorithm, tap);
    }

    fn device<'a>(&'a self, on: &'a OnDevice) -> Device<'a> {
        Device {
            config: &self.config,
            control: self.control(on),
            pools: &self.pools,
            divisions: &self.divisions,
        }
    }

    fn control<'a>(&'a self, on: &'a OnDevice) -> Control<'a> {
        let words = self.control.len() / 8;
        let start = self.control.pointer(0, on).cast();
        // SAFETY: the region is aligned to 64 bytes and has so many words,
        // all initialised and accessed through these atomics only while a
        // step runs.
        let words = unsafe { std::slice::from_raw_parts(start, words as usize) };
        Control::new(&self.config.control, words)
    }
}

impl Pool {
    fn format(
        region: Region,
        config: &heap_kernels::Config,
    ) -> Result<Self, heap_kernels::FormatError> {
        let base = region.pointer(0, &OnDevice::enter());
        // SAFETY: the region is valid for its length, aligned to 2 MiB, kept
        // beside the heap, and used as a pool only.
        let mem = unsafe { HostMem::new(base, region.len()) };
        let heap = Heap::format(mem, config)?;
        Ok(Self { region, heap })
    }
}
