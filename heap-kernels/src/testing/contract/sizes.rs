//! Every size, every alignment, contents.

use std::vec;
use std::vec::Vec;

use super::{
    Backend, Call, MIB, PoolUnderTest, Reply, Target, alloc, assert_distinct, assert_empty, free,
    pool, request, with_config,
};
use crate::{AllocError, Config, Place, Request};

/// Sizes from 0 to 64 KiB: each one up to 4 KiB, then each boundary of a class
/// and of a page, and some between.
fn sizes() -> Vec<u64> {
    let coarse = if cfg!(debug_assertions) { 61 } else { 1 };
    let mut sizes: Vec<u64> = (0..4096).chain((4096..65_536).step_by(coarse)).collect();
    let classes = (0..88).map(crate::class_size);
    let pages = (1..=16).map(|page| page * 4096);
    sizes.extend(
        classes
            .chain(pages)
            .flat_map(|size| [size - 1, size, size + 1]),
    );
    sizes
}

/// Each size gets a block that is large enough, that can be written up to its
/// usable size, and that is gone when it is freed.
pub fn every_size_comes_and_goes<B: Backend>(backend: &B) {
    let pool = pool(backend, 16 * MIB);
    let lanes = pool.lanes() as usize * 2;
    let mut lists = vec![Vec::new(); lanes];
    for (index, size) in sizes().into_iter().enumerate() {
        let list = &mut lists[index % lanes];
        let own = Target::Own(list.len() as u32);
        let marked = size.min(600);
        list.extend([
            Call::Alloc(Request::new(size)),
            Call::UsableSize(own),
            Call::Mark(own, marked, index as u8),
            Call::Verify(own, marked, index as u8),
            Call::Free(own),
        ]);
    }
    for (list, replies) in lists.iter().zip(pool.launch(&lists)) {
        for (calls, replies) in list.chunks(5).zip(replies.chunks(5)) {
            let Call::Alloc(request) = calls[0] else {
                continue;
            };
            let at = replies[0].block();
            assert!(
                (pool.base() + at).is_multiple_of(16),
                "{request:?} is at {at:#x}"
            );
            let [Reply::Size(usable), Reply::Done, Reply::Done, Reply::Done] = replies[1..] else {
                panic!("{request:?}: {replies:?}");
            };
            assert!(usable >= request.size, "{request:?} got {usable} bytes");
            // Classes are an eighth apart; longer blocks end with a page.
            let most = if request.size <= 8192 {
                request.size / 8 + 16
            } else {
                4096
            };
            assert!(
                usable <= request.size.max(1) + most,
                "{request:?} got {usable} bytes"
            );
        }
    }
    assert_empty(&pool);
}

/// Large sizes up to the whole pool.
pub fn large_sizes_up_to_the_whole_pool<B: Backend>(backend: &B) {
    let pool = pool(backend, 40 * MIB + 12_345);
    let all = pool.geometry().page_bytes();
    for size in [
        100_000,
        MIB,
        10 * MIB + 1,
        all / 2,
        all - 4096,
        all - 1,
        all,
    ] {
        for place in [Place::Best, Place::Low, Place::High] {
            let block = request(&pool, Request::new(size).place(place)).expect("room for it");
            let mark = |byte| [Call::Mark(Target::At(block), size, byte)].to_vec();
            assert_eq!(pool.launch(&[mark(7)])[0], [Reply::Done]);
            assert_eq!(free(&pool, block), Ok(()));
        }
    }
    for size in [all + 1, 2 * all, 1 << 40, u64::MAX - 4095, u64::MAX] {
        assert_eq!(
            alloc(&pool, size),
            Err(AllocError::TooLarge),
            "{size} bytes"
        );
    }
    assert_empty(&pool);
}

/// All alignments up to 64 KiB and beyond, for small and large sizes, in each
/// place.
pub fn every_alignment_holds<B: Backend>(backend: &B) {
    let pool = pool(backend, 32 * MIB);
    let mut lists = Vec::new();
    for shift in 0..=18 {
        for size in [0, 1, 24, 100, 1000, 4095, 4096, 5000, 9000, 70_000] {
            let place = [Place::Best, Place::Low, Place::High][lists.len() % 3];
            lists.push(vec![Call::Alloc(
                Request::new(size).align(1 << shift).place(place),
            )]);
        }
    }
    let mut ranges = Vec::new();
    for (list, replies) in lists.iter().zip(pool.launch(&lists)) {
        let Call::Alloc(request) = list[0] else {
            continue;
        };
        let at = replies[0].block();
        assert!(
            (pool.base() + at).is_multiple_of(request.align),
            "{request:?} is at {at:#x}"
        );
        ranges.push((at, request.size.max(1)));
    }
    assert_distinct(ranges);
    assert!(pool.check().is_ok());
    for align in [0, 3, 24, 4097, u64::MAX] {
        let refused = request(&pool, Request::new(10).align(align));
        assert_eq!(refused, Err(AllocError::BadAlignment), "{align}");
    }
    pool.reset();
    assert_empty(&pool);
}

/// Zeroed blocks are zero, whatever was there before.
pub fn zeroed_blocks_are_zero<B: Backend>(backend: &B) {
    let pool = pool(backend, 32 * MIB);
    for size in [1, 16, 100, 4096, 9000, 300_000] {
        let own = Target::Own;
        let request = Request::new(size);
        // Dirt at the same place, which the second block then gets.
        let list = vec![
            Call::Alloc(request),
            Call::Mark(own(0), size, 0xff),
            Call::Free(own(0)),
            Call::AllocZeroed(request),
            Call::Verify(own(3), size, 0),
            Call::Free(own(3)),
        ];
        let lanes = pool.lanes() as usize + 3;
        for replies in pool.launch(&vec![list; lanes]) {
            assert_eq!(replies[4], Reply::Done, "{size} bytes");
            assert_eq!(replies[5], Reply::Done, "{size} bytes");
        }
    }
    assert_empty(&pool);
}

/// A block grows and shrinks, in place or not, with what it holds.
pub fn realloc_keeps_the_contents<B: Backend>(backend: &B) {
    let pool = pool(backend, 16 * MIB);
    let steps = [10, 100, 90, 5000, 4096, 100_000, 300_000, 40_000, 200, 0];
    let mut list = vec![Call::Alloc(Request::new(steps[0]))];
    for pair in steps.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let block = Target::Own(last_block(&list));
        list.push(Call::Mark(block, from, 0x5c));
        list.push(Call::Realloc(block, Request::new(to)));
        let block = Target::Own(last_block(&list));
        list.push(Call::Verify(block, from.min(to), 0x5c));
        list.push(Call::UsableSize(block));
    }
    list.push(Call::Free(Target::Own(last_block(&list))));
    let lanes = pool.lanes() as usize;
    for replies in pool.launch(&vec![list.clone(); lanes]) {
        for (call, reply) in list.iter().zip(&replies) {
            match (call, reply) {
                (Call::Alloc(_) | Call::Realloc(..), Reply::Block(_)) => {}
                (Call::UsableSize(_), Reply::Size(_)) => {}
                (_, reply) => assert_eq!(*reply, Reply::Done, "{call:?}"),
            }
        }
    }
    assert_empty(&pool);
}

fn last_block(list: &[Call]) -> u32 {
    let gives = |call: &Call| matches!(call, Call::Alloc(_) | Call::Realloc(..));
    list.iter().rposition(gives).unwrap_or(0) as u32
}

/// A block that cannot grow stays where and what it is.
pub fn a_failed_realloc_changes_nothing<B: Backend>(backend: &B) {
    let config = Config {
        page_size: Some(4096),
        ..Config::default()
    };
    let pool = with_config(backend, MIB, &config);
    let small = alloc(&pool, 1000).expect("room for it");
    let large = alloc(&pool, pool.geometry().page_bytes() / 2).expect("room for it");
    let before = pool.stats();
    for block in [small, large] {
        let target = Target::At(block);
        let too_much = pool.geometry().page_bytes() / 4 * 3;
        let replies = pool.launch(&[vec![
            Call::Mark(target, 1000, 0x77),
            Call::Realloc(target, Request::new(too_much)),
            Call::Realloc(target, Request::new(u64::MAX)),
            Call::Realloc(target, Request::new(10).align(3)),
            Call::Verify(target, 1000, 0x77),
        ]]);
        assert_eq!(
            replies[0],
            [
                Reply::Done,
                Reply::AllocFailed(AllocError::OutOfMemory),
                Reply::AllocFailed(AllocError::TooLarge),
                Reply::AllocFailed(AllocError::BadAlignment),
                Reply::Done,
            ]
        );
    }
    assert_eq!(
        (pool.stats().live_bytes, pool.stats().live_blocks),
        (before.live_bytes, 2)
    );
    assert_eq!([free(&pool, small), free(&pool, large)], [Ok(()), Ok(())]);
    assert_empty(&pool);
}
