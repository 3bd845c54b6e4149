//! Kernels of one's own on a card: `examples/own_kernel/src/lib.rs`, compiled to
//! PTX by `cargo xtask ptx`, allocate rows whose lengths only the device knows,
//! add them up and free them.
//!
//! ```sh
//! cargo run --release --features cuda --example own_kernel
//! ```

use device_heap::cuda::cust::launch;
use device_heap::cuda::cust::memory::{CopyDestination, DeviceBuffer};
use device_heap::cuda::cust::module::Module;
use device_heap::cuda::{DevicePool, Gpu};
use device_heap::kernels::Config;

const PTX: &str = include_str!("own_kernel/own_kernel.sm_80.ptx");
const ROWS: usize = 1_000_000;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = Gpu::open(0)?;
    let stream = gpu.stream()?;
    let pool = DevicePool::new(&gpu, 2 << 30, &Config::for_device(), &stream)?;

    // A context is current now, so all of cust works as usual.
    let module = Module::from_ptx(PTX, &[])?;
    let (make, sum) = (
        module.get_function("make_rows")?,
        module.get_function("sum_rows")?,
    );
    let rows = DeviceBuffer::<u64>::zeroed(ROWS)?;
    let sums = DeviceBuffer::<u64>::zeroed(ROWS)?;
    let (grid, heap, n) = (
        ROWS.div_ceil(256) as u32,
        pool.handle_address(),
        ROWS as u64,
    );
    // SAFETY: the arguments are what the kernels ask for, and live until the
    // stream is waited for.
    unsafe {
        launch!(make<<<grid, 256, 0, stream>>>(heap, rows.as_device_ptr(), n))?;
        launch!(sum<<<grid, 256, 0, stream>>>(heap, rows.as_device_ptr(), sums.as_device_ptr(), n))?;
    }
    stream.synchronize()?;

    let mut found = vec![0; ROWS];
    sums.copy_to(&mut found)?;
    let right = |i: u64| (0..=i % 100).map(|j| i * j).sum::<u64>();
    let wrong = (0..n).zip(&found).find(|&(i, &sum)| sum != right(i));
    if let Some((row, sum)) = wrong {
        return Err(format!("row {row} adds up to {sum}, not {}", right(row)).into());
    }
    let stats = pool.stats(&stream)?;
    println!(
        "{ROWS} rows made, added up and freed on the card: {} blocks handed out, {} live, {} refused",
        stats.allocations, stats.live_blocks, stats.failures
    );
    Ok(())
}
