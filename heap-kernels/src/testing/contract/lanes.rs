//! Lanes that ask together, apart, and for each other.

use std::vec;
use std::vec::Vec;

use super::{
    Backend, Call, MIB, PoolUnderTest, Reply, Target, alloc, assert_distinct, assert_empty, fill,
    free, free_all, pool, with_config,
};
use crate::{AllocError, Config, Request};

/// Two warps, and a part of a third.
fn some_lanes<P: PoolUnderTest>(pool: &P) -> usize {
    pool.lanes() as usize * 2 + pool.lanes() as usize / 2 + 1
}

fn blocks_of(replies: &[Vec<Reply>]) -> Vec<u64> {
    replies
        .iter()
        .flatten()
        .map(|reply| reply.block())
        .collect()
}

/// All lanes want the same size.
pub fn lanes_with_one_size_get_distinct_blocks<B: Backend>(backend: &B) {
    for size in [0, 16, 100, 4096, 8192, 20_000] {
        let pool = pool(backend, 16 * MIB);
        let list = vec![Call::Alloc(Request::new(size)); 3];
        let blocks = blocks_of(&pool.launch(&vec![list; some_lanes(&pool)]));
        assert_distinct(blocks.iter().map(|&at| (at, size.max(1))).collect());
        assert!(pool.check().is_ok());
        assert_eq!(pool.stats().live_blocks, blocks.len() as u64);
        free_all(&pool, &blocks);
        assert_empty(&pool);
    }
}

/// Every lane wants another size, of another kind.
pub fn lanes_with_mixed_sizes_get_distinct_blocks<B: Backend>(backend: &B) {
    let pool = pool(backend, 32 * MIB);
    let sizes = [16, 10_000, 48, 0, 5000, 16, 130, 100_000, 8192, 8193];
    let size = |lane: usize, round: usize| sizes[(lane * 7 + round * 3) % sizes.len()];
    let list = |lane| {
        (0..4)
            .map(|round| Call::Alloc(Request::new(size(lane, round))))
            .collect()
    };
    let lists: Vec<Vec<Call>> = (0..some_lanes(&pool)).map(list).collect();
    let replies = pool.launch(&lists);
    let mut ranges = Vec::new();
    for (lane, replies) in replies.iter().enumerate() {
        for (round, reply) in replies.iter().enumerate() {
            ranges.push((reply.block(), size(lane, round).max(1)));
        }
    }
    let blocks: Vec<u64> = ranges.iter().map(|range| range.0).collect();
    assert_distinct(ranges);
    assert!(pool.check().is_ok());
    free_all(&pool, &blocks);
    assert_empty(&pool);
}

/// Of the lanes of a warp some allocate, some free, some reallocate, some do
/// nothing.
pub fn lanes_of_one_warp_go_different_ways<B: Backend>(backend: &B) {
    let pool = pool(backend, 16 * MIB);
    let lanes = some_lanes(&pool);
    let first = vec![vec![Call::Alloc(Request::new(200))]; lanes];
    let held = blocks_of(&pool.launch(&first));
    let lists: Vec<Vec<Call>> = (0..lanes)
        .map(|lane| {
            let block = Target::At(held[lane]);
            match lane % 5 {
                0 => vec![
                    Call::Alloc(Request::new(200)),
                    Call::Idle,
                    Call::Free(block),
                ],
                1 => vec![Call::Free(block), Call::Alloc(Request::new(200))],
                2 => vec![Call::Idle; 3],
                3 => vec![Call::Realloc(block, Request::new(7000)), Call::Idle],
                _ => vec![
                    Call::Alloc(Request::new(50_000)),
                    Call::Free(Target::Own(0)),
                ],
            }
        })
        .collect();
    let mut live = Vec::new();
    for (lane, replies) in pool.launch(&lists).iter().enumerate() {
        match lane % 5 {
            0 => live.push(replies[0].block()),
            1 => live.push(replies[1].block()),
            3 => live.push(replies[0].block()),
            _ => live.push(held[lane]),
        }
    }
    assert!(pool.check().is_ok());
    free_all(&pool, &live);
    assert_empty(&pool);
}

/// Lanes allocate, write, verify and free over and over.
pub fn contents_survive_churn<B: Backend>(backend: &B) {
    let pool = pool(backend, 8 * MIB);
    let sizes = [24, 64, 64, 200, 3000, 64, 20_000, 4096];
    let lists: Vec<Vec<Call>> = (0..some_lanes(&pool))
        .map(|lane| {
            let mut list = Vec::new();
            for round in 0..40 {
                let size = sizes[(lane + round) % sizes.len()];
                let own = Target::Own(list.len() as u32);
                let byte = (lane * 41 + round) as u8;
                list.push(Call::Alloc(Request::new(size)));
                list.push(Call::Mark(own, size, byte));
                list.push(Call::Verify(own, size, byte));
                list.push(Call::Free(own));
            }
            list
        })
        .collect();
    for (list, replies) in lists.iter().zip(pool.launch(&lists)) {
        for (call, reply) in list.iter().zip(replies) {
            let fine = matches!(
                (call, reply),
                (Call::Alloc(_), Reply::Block(_)) | (_, Reply::Done)
            );
            assert!(fine, "{call:?}: {reply:?}");
        }
    }
    assert_empty(&pool);
}

/// One block for a whole warp, parts in lane order.
pub fn a_warp_shares_one_block<B: Backend>(backend: &B) {
    let pool = pool(backend, 16 * MIB);
    for scale in [0, 1, 40, 3000] {
        let size = |lane: usize| lane as u64 % 5 * scale;
        let lanes = some_lanes(&pool);
        let lists: Vec<_> = (0..lanes)
            .map(|lane| vec![Call::AllocWarp(size(lane))])
            .collect();
        let mut groups: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
        for (lane, replies) in pool.launch(&lists).iter().enumerate() {
            let Reply::WarpBlock { base, offset } = replies[0] else {
                panic!("{replies:?}");
            };
            assert!(offset.is_multiple_of(16));
            let part = (offset, size(lane));
            match groups.iter_mut().find(|group| group.0 == base) {
                Some(group) => group.1.push(part),
                None => groups.push((base, vec![part])),
            }
        }
        for (base, parts) in &groups {
            let total: u64 = parts.iter().map(|part| part.1.next_multiple_of(16)).sum();
            let replies = pool.launch(&[vec![Call::UsableSize(Target::At(*base))]]);
            let Reply::Size(usable) = replies[0][0] else {
                panic!("{replies:?}");
            };
            assert!(usable >= total, "{usable} bytes for {total}");
            assert!(
                parts
                    .iter()
                    .all(|part| part.0 >= *base && part.0 + part.1 <= base + usable)
            );
            // Lanes of a warp come in order, so that neighbours' parts are too.
            assert!(parts.is_sorted_by_key(|part| part.0), "{parts:?}");
        }
        assert_distinct(groups.iter().flat_map(|group| group.1.clone()).collect());
        let bases: Vec<u64> = groups.iter().map(|group| group.0).collect();
        assert_eq!(pool.stats().live_blocks, bases.len() as u64);
        free_all(&pool, &bases);
        assert_empty(&pool);
    }
    let refused = pool.launch(&[vec![Call::AllocWarp(u64::MAX)]]);
    assert_eq!(refused[0], [Reply::AllocFailed(AllocError::TooLarge)]);
}

/// The free slots of one shard are found by a lane of another, when nothing
/// else is left.
pub fn spare_slots_of_another_shard_are_found<B: Backend>(backend: &B) {
    let config = Config {
        shards: Some(8),
        ..Config::default()
    };
    let pool = with_config(backend, MIB, &config);
    let lanes = pool.lanes() as usize * 8;
    let blocks = fill(&pool, 64, lanes);
    let spare = [
        blocks[0],
        blocks[blocks.len() / 2],
        blocks[blocks.len() - 1],
    ];
    for at in spare {
        assert_eq!(free(&pool, at), Ok(()));
        // Every lane of the machine gets it, from whatever shard.
        for asks in 0..8 {
            let mut lists = vec![vec![Call::Idle]; lanes];
            lists[asks * pool.lanes() as usize] =
                vec![Call::Alloc(Request::new(64)), Call::Free(Target::Own(0))];
            let replies = pool.launch(&lists);
            let got = replies[asks * pool.lanes() as usize][0];
            assert_eq!(got, Reply::Block(at), "shard {asks}");
        }
        assert_eq!(alloc(&pool, 64), Ok(at));
    }
    free_all(&pool, &blocks);
    assert_empty(&pool);
}

/// A slot, a part of a slab, serves a smaller request when nothing else is
/// left.
pub fn the_last_hole_is_used_whatever_its_kind<B: Backend>(backend: &B) {
    let pool = pool(backend, MIB);
    let blocks = fill(&pool, 1000, pool.lanes() as usize);
    assert_eq!(alloc(&pool, 10), Err(AllocError::OutOfMemory));
    assert_eq!(free(&pool, blocks[7]), Ok(()));
    assert_eq!(alloc(&pool, 10), Ok(blocks[7]));
    assert_eq!(free(&pool, blocks[7]), Ok(()));
    free_all(&pool, &[&blocks[..7], &blocks[8..]].concat());
    let pages = fill(&pool, 4096, 1);
    assert_eq!(free(&pool, pages[5]), Ok(()));
    assert_eq!(alloc(&pool, 10), Ok(pages[5]));
    assert!(pool.check().is_ok());
}
