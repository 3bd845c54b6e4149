//! The heap as a library: a pool that host threads share.
//!
//! ```sh
//! cargo run --release --example host_pool
//! ```

use std::process::ExitCode;

use device_heap::pool::{HostPool, Request};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let pool = HostPool::new(64 << 20)?;

    // Blocks that free themselves, from any thread.
    std::thread::scope(|scope| {
        for thread in 0..2u8 {
            let pool = &pool;
            scope.spawn(move || {
                for size in 1..2000 {
                    let mut block = pool.block(size).expect("the pool is large enough");
                    block.fill(thread);
                    assert!(block.iter().all(|&byte| byte == thread));
                }
            });
        }
    });

    // Offsets, for those who keep account themselves.
    let offset = pool.alloc(Request::new(100_000).align(4096))?;
    println!("{} bytes at offset {offset}", pool.usable_size(offset)?);
    // SAFETY: nobody uses the block's bytes.
    unsafe { pool.free(offset)? };
    // SAFETY: as above.
    let again = unsafe { pool.free(offset) };
    println!("freed again: {}", again.expect_err("it is refused"));

    pool.check()?;
    let stats = pool.stats();
    println!(
        "{} allocations, {} live; high water {} of {} bytes",
        stats.allocations, stats.live_blocks, stats.high_water_bytes, stats.pool_bytes
    );
    Ok(())
}
