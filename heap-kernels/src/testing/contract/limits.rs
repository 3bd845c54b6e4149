//! Pools that are full, and what becomes of their memory.

use std::vec;
use std::vec::Vec;

use super::{
    Backend, Call, MIB, PoolUnderTest, Reply, Target, alloc, assert_distinct, assert_empty, fill,
    free, free_all, pool, with_config,
};
use crate::{AllocError, Config, Request};

/// Many lanes take all there is, in any size; it is densely used; all of it
/// comes back.
pub fn exhaustion_by_many_lanes_and_full_recovery<B: Backend>(backend: &B) {
    for size in [16, 64, 100, 1000, 4096, 8192, 30_000] {
        let pool = pool(backend, 4 * MIB);
        let blocks = fill(&pool, size, pool.lanes() as usize * 4);
        let slot = if size > 8192 {
            8 * 4096
        } else {
            crate::class_size(crate::class_of(size))
        };
        let share = blocks.len() as u64 * slot * 100 / pool.geometry().page_bytes();
        assert!(
            share >= 95,
            "{size} bytes: only {share} % of the pages are in use"
        );
        assert_distinct(blocks.iter().map(|&at| (at, size)).collect());
        assert!(pool.check().is_ok());
        assert!(pool.stats().failures > 0);
        free_all(&pool, &blocks);
        assert_empty(&pool);
        let all = pool.geometry().page_bytes();
        let block = alloc(&pool, all).expect("room for all of it");
        assert_eq!(alloc(&pool, 0), Err(AllocError::OutOfMemory));
        assert_eq!(free(&pool, block), Ok(()));
    }
}

/// The memory of one class serves another, then one large request, then the
/// first class again; with retained slabs too.
pub fn memory_goes_from_class_to_class<B: Backend>(backend: &B) {
    for retain in [false, true] {
        let pool = with_config(
            backend,
            2 * MIB,
            &Config {
                retain,
                ..Config::default()
            },
        );
        let lanes = pool.lanes() as usize;
        let mut counts = Vec::new();
        for size in [48, 2000, 16, 8192, 48] {
            let blocks = fill(&pool, size, lanes);
            counts.push(blocks.len());
            free_all(&pool, &blocks);
            assert_empty(&pool);
            let all = alloc(&pool, pool.geometry().page_bytes()).expect("room for all of it");
            assert_eq!(free(&pool, all), Ok(()));
        }
        assert_eq!(counts[0], counts[4], "nothing is lost on the way");
    }
}

/// A slab that was emptied, and retained, meets a request that was refused
/// before.
pub fn a_retained_slab_meets_a_request_refused_before<B: Backend>(backend: &B) {
    let pool = with_config(
        backend,
        MIB,
        &Config {
            retain: true,
            ..Config::default()
        },
    );
    let two = [(); 2].map(|()| alloc(&pool, 2000).expect("room for it"));
    alloc(&pool, pool.stats().largest_free_run).expect("room for the rest");
    assert_eq!(free(&pool, two[0]), Ok(()));
    assert_eq!(alloc(&pool, 4096), Err(AllocError::OutOfMemory));
    assert_eq!(free(&pool, two[1]), Ok(()));
    assert_eq!(pool.stats().largest_free_run, 4096);
    assert!(alloc(&pool, 4096).is_ok());
}

/// Each single page that comes back can be had, by any size that fits.
pub fn every_hole_can_be_had<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    let blocks = fill(&pool, 4096, pool.lanes() as usize);
    for &at in blocks.iter().step_by(17) {
        for size in [4096, 16, 700, 4000] {
            assert_eq!(free(&pool, at), Ok(()));
            assert_eq!(alloc(&pool, 4097), Err(AllocError::OutOfMemory));
            let got = alloc(&pool, size).expect("the hole fits");
            assert_eq!(free(&pool, got), Ok(()));
            assert_eq!(alloc(&pool, 4096), Ok(at));
        }
    }
    free_all(&pool, &blocks);
    assert_empty(&pool);
}

/// Neighbours coalesce at once, in whatever order they are freed.
pub fn neighbours_coalesce<B: Backend>(backend: &B) {
    for order in 0..3 {
        let pool = pool(backend, 2 * MIB);
        let mut blocks = fill(&pool, 3 * 4096, 1);
        blocks.sort_unstable();
        blocks.truncate(90);
        let (first, last) = (blocks[0], blocks[89]);
        match order {
            0 => {}
            1 => blocks.reverse(),
            _ => blocks.sort_by_key(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
        for &at in &blocks {
            assert_eq!(free(&pool, at), Ok(()));
        }
        let hole = last + 3 * 4096 - first;
        assert!(pool.stats().largest_free_run >= hole);
        assert_eq!(alloc(&pool, hole), Ok(first));
    }
}

/// Many lanes ask for more than there is while others free: no lane hangs, and
/// what was free in the end can be had.
pub fn requests_in_vain_end<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    let blocks = fill(&pool, 4096, 1);
    let lanes = pool.lanes() as usize * 2;
    let lists: Vec<Vec<Call>> = (0..lanes)
        .map(|lane| match lane % 2 {
            0 => vec![Call::Alloc(Request::new(pool.geometry().page_bytes())); 4],
            _ => vec![
                Call::Free(Target::At(blocks[lane])),
                Call::Alloc(Request::new(4096)),
            ],
        })
        .collect();
    for (lane, replies) in pool.launch(&lists).iter().enumerate() {
        for reply in replies {
            let refused = matches!(
                reply,
                Reply::AllocFailed(AllocError::OutOfMemory | AllocError::Contended)
            );
            assert!(lane % 2 == 1 || refused, "{reply:?}");
        }
    }
    assert!(pool.check().is_ok());
    let largest = pool.stats().largest_free_run;
    assert!(largest == 0 || alloc(&pool, largest).is_ok());
}

/// After a reset the heap is as after formatting.
pub fn reset_forgets_everything<B: Backend>(backend: &B) {
    let pool = pool(backend, 2 * MIB);
    let fresh = pool.stats();
    fill(&pool, 100, pool.lanes() as usize);
    assert!(free(&pool, 1).is_err());
    pool.reset();
    assert_eq!((pool.stats(), pool.offender()), (fresh, None));
    assert_empty(&pool);
    let blocks = fill(&pool, 5000, pool.lanes() as usize);
    free_all(&pool, &blocks);
    assert_empty(&pool);
}

/// The counters say what happened.
pub fn statistics_count_what_happened<B: Backend>(backend: &B) {
    let pool = pool(backend, 4 * MIB);
    let lanes = pool.lanes() as usize;
    let list = vec![
        Call::Alloc(Request::new(100)),
        Call::Alloc(Request::new(9000)),
    ];
    let replies = pool.launch(&vec![list; lanes]);
    let count = lanes as u64;
    let stats = pool.stats();
    assert_eq!(
        (stats.live_blocks, stats.allocations, stats.frees),
        (2 * count, 2 * count, 0)
    );
    assert_eq!(stats.live_bytes, count * (112 + 12_288));
    let class = pool.class_stats(crate::class_of(100));
    assert_eq!(
        (class.live_blocks, class.live_bytes, class.slot_bytes),
        (count, count * 112, 112)
    );
    assert!(stats.used_bytes >= stats.live_bytes && stats.high_water_bytes == stats.used_bytes);
    assert_eq!(stats.pool_bytes, 4 * MIB);
    let blocks: Vec<u64> = replies
        .iter()
        .flatten()
        .map(|reply| reply.block())
        .collect();
    free_all(&pool, &blocks);
    let after = pool.stats();
    assert_eq!(
        (after.live_blocks, after.frees, after.bad_frees),
        (0, 2 * count, 0)
    );
    assert_eq!(after.high_water_bytes, stats.high_water_bytes);
    assert_eq!(after.free_bytes, after.page_bytes);
    assert_eq!(alloc(&pool, 5 * MIB), Err(AllocError::TooLarge));
    assert_eq!(pool.stats().failures, 1);
}
