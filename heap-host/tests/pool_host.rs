//! The heap for host threads, as its users see it.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};

use heap_host::pool::{AllocError, Config, FreeError, HostPool, PoolError, Request};

const MIB: u64 = 1 << 20;

/// Threads allocate, write, pass on and free each other's blocks; every byte
/// stays its owner's.
#[test]
fn threads_share_a_pool() {
    let pool = HostPool::new(32 * MIB).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let receive = parking_lot::Mutex::new(receive);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (pool, send, receive) = (&pool, send.clone(), &receive);
            scope.spawn(move || {
                for round in 0..2000u64 {
                    let mut block = pool.block(1 + round * 37 % 5000).unwrap();
                    assert!(block.iter().all(|&byte| byte == 0));
                    block.fill(thread + 1);
                    send.send((thread + 1, block)).unwrap();
                    if let Ok((owner, block)) = { receive.lock().try_recv() } {
                        assert!(block.iter().all(|&byte| byte == owner));
                    }
                }
            });
        }
    });
    drop(send);
    for (owner, block) in receive.lock().iter() {
        assert!(block.iter().all(|&byte| byte == owner));
    }
    assert_eq!((pool.stats().live_blocks, pool.check()), (0, Ok(())));
}

#[test]
fn blocks_are_aligned_apart_and_of_the_size_asked_for() {
    let pool = HostPool::new(8 * MIB).unwrap();
    let mut taken = HashSet::new();
    for (size, align) in [(0, 1), (1, 64), (100, 4096), (10_000, 65_536), (MIB, 16)] {
        let offset = pool.alloc(Request::new(size).align(align)).unwrap();
        assert!((pool.pointer(offset) as u64).is_multiple_of(align));
        assert!(pool.usable_size(offset).unwrap() >= size);
        assert!(taken.insert(offset));
    }
    assert_eq!(pool.stats().live_blocks, 5);
}

#[test]
fn contents_move_with_a_block_that_grows() {
    let pool = HostPool::new(4 * MIB).unwrap().named();
    let name: Arc<str> = "grows".into();
    let mut offset = pool.alloc_named(Request::new(8), &name).unwrap();
    // SAFETY: the block is this test's alone.
    unsafe { pool.pointer(offset).cast::<u64>().write(42) };
    for size in [100, 5000, MIB, 16] {
        // SAFETY: nobody uses the old block.
        offset = unsafe { pool.realloc(offset, Request::new(size)) }.unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { pool.pointer(offset).cast::<u64>().read() }, 42);
        assert_eq!(pool.leaks()[0].name, name);
    }
    assert_eq!(pool.leaks().len(), 1);
}

/// Seen in NVIDIA/cub#329: a double free corrupts the pool silently.
#[test]
fn wrong_frees_are_refused_and_do_no_harm() {
    let pool = HostPool::new(MIB).unwrap();
    let kept = pool.block(100).unwrap();
    let offset = pool.alloc(Request::new(100)).unwrap();
    // SAFETY: nobody uses the block's bytes; the others are refused.
    let free = |offset| unsafe { pool.free(offset) };
    assert_eq!(free(offset), Ok(()));
    assert_eq!(free(offset), Err(FreeError::DoubleFree));
    assert_eq!(free(kept.offset() + 16), Err(FreeError::InsideBlock));
    assert_eq!(free(1 << 40), Err(FreeError::OutsidePool));
    assert_eq!((pool.stats().live_blocks, pool.check()), (1, Ok(())));
}

/// Seen in NVIDIA/cub#705 and llnl/Umpire#539.
#[test]
fn a_full_pool_says_so_and_recovers() {
    let pool = HostPool::new(MIB).unwrap();
    let mut blocks = Vec::new();
    let error = loop {
        match pool.block(3000) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
    };
    assert_eq!(error, AllocError::OutOfMemory);
    assert_eq!(pool.block(2 * MIB).unwrap_err(), AllocError::TooLarge);
    assert!(blocks.len() > 300);
    drop(blocks);
    let stats = pool.stats();
    assert_eq!((stats.live_blocks, stats.used_bytes), (0, 0));
    assert!(pool.block(900 * 1024).is_ok(), "all is one hole again");
}

#[test]
fn what_was_not_freed_is_listed_by_name() {
    let pool = HostPool::new(MIB).unwrap().named();
    let names: Vec<Arc<str>> = ["first", "second", "third"].map(Arc::from).into();
    let offsets: Vec<u64> = names
        .iter()
        .map(|name| pool.alloc_named(Request::new(64), name).unwrap())
        .collect();
    // SAFETY: nobody uses the block's bytes.
    unsafe { pool.free(offsets[1]) }.unwrap();
    // A second free is refused, and takes no name away.
    // SAFETY: as above.
    unsafe { pool.free(offsets[1]) }.unwrap_err();
    let left: HashSet<Arc<str>> = pool.leaks().into_iter().map(|leak| leak.name).collect();
    assert_eq!(left, HashSet::from(["first".into(), "third".into()]));
}

#[test]
fn settings_and_sizes_out_of_range_are_refused() {
    assert!(matches!(HostPool::new(0), Err(PoolError::Format(_))));
    assert!(matches!(HostPool::new(u64::MAX), Err(PoolError::Memory(_))));
    let config = Config {
        shards: Some(3),
        ..Config::default()
    };
    assert!(HostPool::with_config(MIB, &config).is_err());
}

/// Seen in cms-sw/cmssw#51712: a free waits under the lock that an allocation
/// needs. With names, a lock is held only for the list of names.
#[test]
fn threads_meet_between_allocation_and_free() {
    let pool = HostPool::new(MIB).unwrap().named();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let offset = pool.alloc_named(Request::new(64), &"block".into()).unwrap();
                    barrier.wait();
                    // SAFETY: nobody uses the block's bytes.
                    unsafe { pool.free(offset) }.unwrap();
                }
            });
        }
    });
    assert!(pool.leaks().is_empty());
}
