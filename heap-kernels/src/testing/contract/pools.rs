//! Pools of all lengths.

use std::vec;
use std::vec::Vec;

use super::{
    Backend, Call, MIB, PoolUnderTest, Reply, Target, alloc, assert_distinct, assert_empty, free,
    pool, with_config,
};
use crate::{Config, FormatError, Place, Request};

/// Metadata takes 3 % at most, whatever the length; and all the rest can be
/// had.
pub fn metadata_takes_three_percent_at_most<B: Backend>(backend: &B) {
    for len in [
        MIB,
        MIB + 1,
        MIB + 4095,
        3 * MIB + 12_345,
        64 * MIB,
        256 * MIB + 8,
    ] {
        let pool = pool(backend, len);
        let geometry = pool.geometry();
        let rest = len - geometry.page_bytes();
        assert!(
            rest * 100 <= len * 3 + 100 * 2 * 4096,
            "{rest} of {len} bytes are no pages"
        );
        assert!(geometry.metadata_bytes() * 100 <= len * 3, "{len} bytes");
        let block = alloc(&pool, geometry.page_bytes()).expect("room for all of it");
        assert!(block + geometry.page_bytes() <= len);
        assert_eq!(free(&pool, block), Ok(()));
        assert_empty(&pool);
    }
}

/// The smallest pool works; anything shorter is refused and says why.
pub fn the_shortest_pool<B: Backend>(backend: &B) {
    let Err(FormatError::TooShort { needed, .. }) = backend.format(4096, &Config::default()) else {
        panic!("one page is too short");
    };
    assert!(backend.format(needed - 1, &Config::default()).is_err());
    let pool = pool(backend, needed);
    let block = alloc(&pool, 4096).expect("its only page");
    assert!(alloc(&pool, 0).is_err());
    assert_eq!(free(&pool, block), Ok(()));
    let small = alloc(&pool, 16).expect("a slot in its only page");
    assert!(alloc(&pool, 16).is_ok());
    assert_eq!(free(&pool, small), Ok(()));
    assert!(pool.check().is_ok());
}

/// All page sizes, shard counts and slot limits.
pub fn every_configuration<B: Backend>(backend: &B) {
    for page_shift in 12..=16 {
        for shards in [1, 4, 64] {
            for small_max in [None, Some(16), Some(1000)] {
                let page_size = 1 << page_shift;
                let config = Config {
                    page_size: Some(page_size),
                    shards: Some(shards),
                    small_max,
                    retain: shards == 4,
                };
                let pool = with_config(backend, 24 * MIB, &config);
                assert_eq!(pool.geometry().page_size(), page_size);
                mixed_churn(&pool);
                pool.reclaim();
                assert_empty(&pool);
            }
        }
    }
}

/// Allocates and frees small and large blocks on two warps.
fn mixed_churn<P: PoolUnderTest>(pool: &P) {
    let lists: Vec<Vec<Call>> = (0..pool.lanes() as usize * 2)
        .map(|lane| {
            let sizes = [16, 900, 1001, 5000, 20_000];
            let calls = (0..5).map(|i| Call::Alloc(Request::new(sizes[(lane + i) % 5])));
            let frees = (0..5).map(|i| Call::Free(Target::Own(i)));
            calls.chain(frees).collect()
        })
        .collect();
    for replies in pool.launch(&lists) {
        for (index, reply) in replies.iter().enumerate() {
            let fine = if index < 5 {
                matches!(reply, Reply::Block(_))
            } else {
                *reply == Reply::Done
            };
            assert!(fine, "call {index}: {reply:?}");
        }
    }
}

/// A pool longer than 32-bit offsets reach, with blocks on both sides.
pub fn blocks_above_four_gibibytes<B: Backend>(backend: &B) {
    let len = (4 << 30) + 300 * MIB + 4321;
    let pool = pool(backend, len);
    let page_bytes = pool.geometry().page_bytes();
    assert!(pool.geometry().metadata_bytes() * 100 <= len * 3);
    let high = vec![
        Call::Alloc(Request::new(MIB).place(Place::High)),
        Call::Mark(Target::Own(0), MIB, 1),
        Call::Alloc(Request::new(4 << 30).place(Place::High)),
        Call::Alloc(Request::new(100)),
        Call::Mark(Target::Own(3), 96, 2),
        Call::Verify(Target::Own(0), MIB, 1),
        Call::UsableSize(Target::Own(2)),
    ];
    let replies = &pool.launch(&[high])[0];
    let [top, large, small] = [0, 2, 3].map(|index| replies[index].block());
    assert!(top >= 4 << 30 && large + (4 << 30) <= top && small < 4 << 30);
    assert_eq!([replies[1], replies[4], replies[5]], [Reply::Done; 3]);
    assert_eq!(replies[6], Reply::Size(4 << 30));
    assert_distinct(vec![(top, MIB), (large, 4 << 30), (small, 100)]);
    let stats = pool.stats();
    assert_eq!(
        (stats.live_blocks, stats.live_bytes),
        (3, (4 << 30) + MIB + 112)
    );
    for block in [top, large, small] {
        assert_eq!(free(&pool, block), Ok(()));
    }
    assert_eq!(
        alloc(&pool, page_bytes).map(|at| at + page_bytes <= len),
        Ok(true)
    );
}
