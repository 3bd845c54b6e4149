//! Cards, and one of them opened.

use std::sync::Arc;

use cust::context::{Context, CurrentContext, ResourceLimit};
use cust::device::{Device, DeviceAttribute};
use cust::event::{Event, EventFlags};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::{CudaApiVersion, CudaFlags};

use super::error::{GpuError, Named};

/// The kernels, for every card from Ampere on; the driver compiles them for
/// the card when it loads them, and keeps the result in a cache of its own.
const PTX: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../heap-kernels/ptx/heap.sm_80.ptx"
));

/// Threads per block of all launches that do not say otherwise.
const BLOCK: u32 = 256;

/// A card, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// The newest CUDA version that the driver knows, such as (13, 0).
    pub cuda: (i32, i32),
}

impl DeviceInfo {
    /// Whether the kernels run on it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.capability >= (8, 0)
    }

    fn of(index: u32, device: Device) -> Result<Self, GpuError> {
        let attribute = |which| device.get_attribute(which).call("cuDeviceGetAttribute");
        let version = CudaApiVersion::get().call("cuDriverGetVersion")?;
        Ok(Self {
            index,
            name: device.name().call("cuDeviceGetName")?,
            capability: (
                attribute(DeviceAttribute::ComputeCapabilityMajor)?,
                attribute(DeviceAttribute::ComputeCapabilityMinor)?,
            ),
            multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)? as u32,
            memory_bytes: device.total_memory().call("cuDeviceTotalMem")? as u64,
            cuda: (version.major(), version.minor()),
        })
    }
}

/// All cards of this machine.
///
/// # Errors
/// [`GpuError::NoDriver`] and [`GpuError::NoDevice`] where there is none.
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    cust::init(CudaFlags::empty()).call("cuInit")?;
    let count = Device::num_devices().call("cuDeviceGetCount")?;
    (0..count)
        .map(|index| DeviceInfo::of(index, Device::get_device(index).call("cuDeviceGet")?))
        .collect()
}

/// A card with the kernels loaded.
#[derive(Debug)]
pub struct Gpu {
    // Before the context that it belongs to.
    module: Module,
    context: Context,
    info: DeviceInfo,
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The module is unloaded in the calling thread's current context; a
        // failure leaves it to the end of the process.
        let _ = self.enter();
    }
}

/// How a card is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// The card's number, from 0.
    pub index: u32,
    /// Bytes for the driver's own device heap, which serves `malloc` in
    /// kernels; `None` leaves the driver's default.
    pub driver_heap_bytes: Option<u64>,
}

impl Gpu {
    /// Opens card `index` and loads the kernels. The first time that the
    /// driver meets the kernels it compiles them, which takes seconds.
    ///
    /// # Errors
    /// [`GpuError`] where there is no such card, or where it does not take the
    /// kernels.
    pub fn open(index: u32) -> Result<Arc<Self>, GpuError> {
        Self::with_options(&GpuOptions {
            index,
            ..GpuOptions::default()
        })
    }

    /// [`open`](Self::open) with more options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_options(options: &GpuOptions) -> Result<Arc<Self>, GpuError> {
        let index = options.index;
        let all = devices()?;
        let count = all.len() as u32;
        let Some(info) = all.into_iter().nth(index as usize) else {
            return Err(GpuError::NoSuchDevice { index, count });
        };
        if !info.is_supported() {
            let (major, minor) = info.capability;
            let name = info.name;
            return Err(GpuError::TooOld { name, major, minor });
        }
        let device = Device::get_device(index).call("cuDeviceGet")?;
        let context = Context::new(device).call("cuDevicePrimaryCtxRetain")?;
        if let Some(bytes) = options.driver_heap_bytes {
            CurrentContext::set_resource_limit(ResourceLimit::MallocHeapSize, bytes as usize)
                .call("cuCtxSetLimit")?;
        }
        let module = Module::from_ptx(PTX, &[]).call("cuModuleLoadDataEx")?;
        Ok(Arc::new(Self {
            module,
            context,
            info,
        }))
    }

    /// What the driver says of the card.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Makes the card the calling thread's current one, which most functions
    /// of `cust` and of the driver go by.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn enter(&self) -> Result<(), GpuError> {
        CurrentContext::set_current(&self.context).call("cuCtxSetCurrent")
    }

    /// A new stream of work. It waits for copies and fills that the host has
    /// asked for outside of streams, and for no other stream.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn stream(&self) -> Result<Stream, GpuError> {
        self.enter()?;
        Stream::new(StreamFlags::DEFAULT, None).call("cuStreamCreate")
    }

    /// A new event, which tells the time when work gets to it.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn event(&self) -> Result<Event, GpuError> {
        self.enter()?;
        Event::new(EventFlags::DEFAULT).call("cuEventCreate")
    }

    /// Free and total bytes of the card's memory.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn memory(&self) -> Result<(u64, u64), GpuError> {
        self.enter()?;
        let (free, total) = cust::memory::mem_get_info().call("cuMemGetInfo")?;
        Ok((free as u64, total as u64))
    }

    /// Enqueues a kernel on `stream`, `threads` in all, rounded up to whole
    /// blocks of `block` threads. Each argument is one parameter, in order;
    /// those of 32 bits take the low half.
    ///
    /// # Safety
    /// The arguments are what the kernel's documentation asks for, and valid
    /// until it has run.
    pub(super) unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static str,
        threads: u64,
        block: u32,
        arguments: &[u64],
    ) -> Result<(), GpuError> {
        if threads == 0 {
            return Ok(());
        }
        self.enter()?;
        let function = self
            .module
            .get_function(kernel)
            .call("cuModuleGetFunction")?;
        let grid = threads.div_ceil(u64::from(block));
        let grid = u32::try_from(grid).unwrap_or(u32::MAX);
        // The driver reads as many bytes of each as the parameter has; both
        // kinds of machine that it runs on are little-endian.
        let pointers: Vec<_> = arguments
            .iter()
            .map(|a| (&raw const *a).cast_mut().cast())
            .collect();
        // SAFETY: as the caller promises; the driver copies the arguments.
        unsafe { stream.launch(&function, grid, block, 0, &pointers) }.call(kernel)
    }

    /// [`launch`](Self::launch) with the usual block.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(super) unsafe fn launch_threads(
        &self,
        stream: &Stream,
        kernel: &'static str,
        threads: u64,
        arguments: &[u64],
    ) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.launch(stream, kernel, threads, BLOCK, arguments) }
    }
}
