//! What the driver says when something fails.

use std::ffi::CStr;

use cust::error::CudaError;
use heap_kernels::FormatError;

use super::driver;

/// Why something on a GPU failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no driver on this machine.
    #[error("this machine has no NVIDIA driver ({reason}); install one, or use a CPU backend")]
    NoDriver {
        /// What the system's loader says.
        reason: String,
    },
    /// There is a driver, but no card for it.
    #[error("no NVIDIA GPU found ({call}: {name}); is one visible to this process?")]
    NoDevice {
        /// The driver's function.
        call: &'static str,
        /// The driver's name for the error.
        name: String,
    },
    /// There are not so many cards.
    #[error("there is no GPU {index}: this machine has {count}, counted from 0")]
    NoSuchDevice {
        /// The card asked for.
        index: u32,
        /// Cards that there are.
        count: u32,
    },
    /// The card is older than the kernels.
    #[error(
        "{name} has compute capability {major}.{minor}, and the kernels need 8.0 (Ampere) or newer"
    )]
    TooOld {
        /// The card's name.
        name: String,
        /// Compute capability before the dot.
        major: i32,
        /// Compute capability behind the dot.
        minor: i32,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({description})")]
    Driver {
        /// The driver's function, and what it was called for.
        call: &'static str,
        /// What it returned.
        code: CudaError,
        /// The driver's name for that.
        name: String,
        /// The driver's description of that.
        description: String,
    },
    /// The card has not so much memory free.
    #[error("the GPU has {free} bytes of memory free, and {needed} are needed")]
    Memory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// No heap can be made in the pool.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A heap on the card is damaged.
    #[error("the heap on the GPU is damaged: {what} (at {at})")]
    Damaged {
        /// What is wrong.
        what: String,
        /// Index of the page, descriptor, word or class where it was seen.
        at: u64,
    },
}

impl GpuError {
    pub(super) fn new(call: &'static str, code: CudaError) -> Self {
        let name = format!("{code:?}");
        match code {
            CudaError::NoDevice => Self::NoDevice { call, name },
            CudaError::SharedObjectInitFailed if driver::missing().is_some() => Self::NoDriver {
                reason: driver::missing().unwrap_or_default().to_owned(),
            },
            _ => Self::Driver {
                call,
                code,
                name,
                description: describe(code),
            },
        }
    }
}

/// The driver's own words for an error.
fn describe(code: CudaError) -> String {
    // Two errors are cust's own, and no numbers that the driver knows.
    if matches!(
        code,
        CudaError::InvalidMemoryAllocation | CudaError::OptixError
    ) {
        return "found before the driver was asked".to_owned();
    }
    let mut text = std::ptr::null();
    // SAFETY: a number that the driver returned itself, which it looks up; the
    // type's own conversion would do no more.
    let found = unsafe {
        let raw = std::mem::transmute::<u32, cust::sys::cudaError_enum>(code as u32);
        cust::sys::cuGetErrorString(raw, &raw mut text)
    };
    if found as u32 != 0 || text.is_null() {
        return format!("error {}", code as u32);
    }
    // SAFETY: the driver's texts are static and end with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Names the driver's function in an error.
pub(crate) trait Named<T> {
    /// `call`: the function, and perhaps what for.
    fn call(self, call: &'static str) -> Result<T, GpuError>;
}

impl<T> Named<T> for Result<T, CudaError> {
    fn call(self, call: &'static str) -> Result<T, GpuError> {
        self.map_err(|code| GpuError::new(call, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_call_and_needs_no_driver_for_it() {
        let error = GpuError::new("cuMemAlloc", CudaError::OutOfMemory).to_string();
        assert!(
            error.starts_with("cuMemAlloc failed: OutOfMemory ("),
            "{error}"
        );
    }
}
