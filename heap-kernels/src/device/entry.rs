//! Entry points.

use super::intrinsics::thread;
use super::{DeviceMem, DeviceWarp};
use crate::heap::{Heap, Request};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the thread; the launch fails with an error.
    unsafe { core::arch::nvptx::trap() }
}

/// Allocates `sizes[i]` (or `size` where `sizes` is null) bytes for thread `i`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_alloc(
    heap: *const Heap<DeviceMem>,
    sizes: *const u64,
    size: u64,
    out: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let size = if sizes.is_null() {
            size
        } else {
            *sizes.add(i as usize)
        };
        let result = (*heap).alloc(&DeviceWarp, Request::new(size));
        *out.add(i as usize) = result.unwrap_or(0);
    }
}

/// Frees `blocks[i]` for thread `i`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_free(
    heap: *const Heap<DeviceMem>,
    blocks: *const u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let result = (*heap).free(&DeviceWarp, *blocks.add(i as usize));
        *status.add(i as usize) = result.map_or_else(|e| e as u32 + 1, |()| 0);
    }
}
