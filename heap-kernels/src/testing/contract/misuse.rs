//! Frees of what is not a live block: told apart, counted, without effect.

use std::vec;
use std::vec::Vec;

use super::{
    Backend, Call, MIB, PoolUnderTest, Reply, Target, alloc, assert_empty, free, free_all, pool,
};
use crate::{FreeError, Offender, Request};

/// A second free of a slot and of a run, at once and after the memory went to
/// others.
pub fn double_frees_are_refused<B: Backend>(backend: &B) {
    let pool = pool(backend, 2 * MIB);
    for size in [16, 100, 4096, 8192, 100_000] {
        let [kept, block] = [(); 2].map(|()| alloc(&pool, size).expect("room for it"));
        assert_eq!(free(&pool, block), Ok(()));
        assert_eq!(
            free(&pool, block),
            Err(FreeError::DoubleFree),
            "{size} bytes"
        );
        assert_eq!(free(&pool, kept), Ok(()));
        // Now the slab is gone.
        assert_eq!(
            free(&pool, block),
            Err(FreeError::DoubleFree),
            "{size} bytes"
        );
        assert_eq!(
            free(&pool, kept),
            Err(FreeError::DoubleFree),
            "{size} bytes"
        );
        let other = alloc(&pool, 50_000).expect("room for it");
        assert!(free(&pool, block.max(other + 16)).is_err());
        assert_eq!(free(&pool, other), Ok(()));
        assert_empty(&pool);
    }
}

/// Of lanes that free one block at the same time one succeeds.
pub fn one_of_racing_frees_wins<B: Backend>(backend: &B) {
    let pool = pool(backend, 2 * MIB);
    for (round, size) in [16, 100, 4096, 8192, 100_000]
        .into_iter()
        .cycle()
        .take(30)
        .enumerate()
    {
        let others: Vec<u64> = (0..round % 3)
            .map(|_| alloc(&pool, size).expect("room"))
            .collect();
        let block = alloc(&pool, size).expect("room for it");
        let lanes = 2 + pool.lanes() as usize * (round % 2) * 2;
        let replies = pool.launch(&vec![vec![Call::Free(Target::At(block))]; lanes]);
        let done = replies
            .iter()
            .filter(|replies| replies[0] == Reply::Done)
            .count();
        let refused = Reply::FreeFailed(FreeError::DoubleFree);
        let told = replies
            .iter()
            .filter(|replies| replies[0] == refused)
            .count();
        assert_eq!((done, told), (1, lanes - 1), "{size} bytes: {replies:?}");
        free_all(&pool, &others);
        assert_empty(&pool);
    }
}

/// Offsets that are no block's: outside, inside, of none.
pub fn frees_of_no_block_are_told_apart<B: Backend>(backend: &B) {
    let pool = pool(backend, 2 * MIB);
    let geometry = pool.geometry();
    let first = geometry.metadata_bytes();
    let end = first + geometry.page_bytes();
    let small = alloc(&pool, 100).expect("room for it");
    let large = alloc(&pool, 100_000).expect("room for it");
    let before = pool.stats();
    let cases = [
        (0, FreeError::OutsidePool),
        (16, FreeError::OutsidePool),
        (first - 16, FreeError::OutsidePool),
        (end, FreeError::OutsidePool),
        (end + 4096, FreeError::OutsidePool),
        (1 << 40, FreeError::OutsidePool),
        (u64::MAX, FreeError::OutsidePool),
        (small + 1, FreeError::InsideBlock),
        (small + 16, FreeError::InsideBlock),
        (small + 111, FreeError::InsideBlock),
        (small + 112, FreeError::NeverAllocated),
        (small + 112 + 16, FreeError::InsideBlock),
        (large + 1, FreeError::InsideBlock),
        (large + 4096, FreeError::InsideBlock),
        (large + 99_999, FreeError::InsideBlock),
        (large - 4096, FreeError::NeverAllocated),
        (large - 4096 + 8, FreeError::NeverAllocated),
    ];
    for (offset, error) in cases {
        assert_eq!(free(&pool, offset), Err(error), "offset {offset:#x}");
    }
    let mut after = pool.stats();
    assert_eq!(after.bad_frees, cases.len() as u64);
    after.bad_frees = before.bad_frees;
    assert_eq!(after, before, "nothing else changed");
    assert!(pool.check().is_ok());
    let first = Offender {
        error: FreeError::OutsidePool,
        offset: 0,
    };
    assert_eq!(pool.offender(), Some(first));
    assert_eq!([free(&pool, small), free(&pool, large)], [Ok(()), Ok(())]);
    assert_empty(&pool);
}

/// The first offender is kept until a reset.
pub fn the_first_offender_is_kept<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    assert_eq!(pool.offender(), None);
    let block = alloc(&pool, 300).expect("room for it");
    assert!(free(&pool, block + 16).is_err());
    assert!(free(&pool, 0).is_err());
    assert_eq!(free(&pool, block), Ok(()));
    assert!(free(&pool, block).is_err());
    let first = Offender {
        error: FreeError::InsideBlock,
        offset: block + 16,
    };
    assert_eq!((pool.offender(), pool.stats().bad_frees), (Some(first), 3));
    pool.reset();
    assert_eq!((pool.offender(), pool.stats().bad_frees), (None, 0));
}

/// Lanes of one warp free good and bad offsets together; only the bad ones are
/// refused.
pub fn good_and_bad_frees_of_one_warp<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    let lanes = pool.lanes() as usize * 2;
    let replies = pool.launch(&vec![vec![Call::Alloc(Request::new(64))]; lanes]);
    let blocks: Vec<u64> = replies
        .iter()
        .flatten()
        .map(|reply| reply.block())
        .collect();
    let lists: Vec<_> = (0..lanes)
        .map(|lane| {
            let at = if lane % 4 == 1 {
                blocks[lane] + 16
            } else {
                blocks[lane]
            };
            vec![Call::Free(Target::At(at))]
        })
        .collect();
    for (lane, replies) in pool.launch(&lists).iter().enumerate() {
        match lane % 4 {
            1 => assert_eq!(replies[0], Reply::FreeFailed(FreeError::InsideBlock)),
            _ => assert_eq!(replies[0], Reply::Done),
        }
    }
    let left: Vec<u64> = blocks.iter().copied().skip(1).step_by(4).collect();
    assert_eq!(pool.stats().live_blocks, left.len() as u64);
    free_all(&pool, &left);
    assert_empty(&pool);
}

/// Realloc and usable size of what is not live say so.
pub fn other_calls_on_no_block_are_refused<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    let block = alloc(&pool, 300).expect("room for it");
    for (offset, error) in [
        (0, FreeError::OutsidePool),
        (block + 8, FreeError::InsideBlock),
    ] {
        let target = Target::At(offset);
        let calls = vec![
            Call::Realloc(target, Request::new(10)),
            Call::UsableSize(target),
        ];
        assert_eq!(pool.launch(&[calls])[0], [Reply::FreeFailed(error); 2]);
    }
    assert_eq!(free(&pool, block), Ok(()));
    let target = Target::At(block);
    let calls = vec![
        Call::Realloc(target, Request::new(10)),
        Call::UsableSize(target),
    ];
    assert_eq!(
        pool.launch(&[calls])[0],
        [Reply::FreeFailed(FreeError::DoubleFree); 2]
    );
    assert_empty(&pool);
}
