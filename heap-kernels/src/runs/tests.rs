use std::vec::Vec;

use proptest::prelude::*;

use super::{NoRun, Place, RunRequest, away};
use crate::Config;
use crate::heap::tests::Owned;

fn request(pages: u64, place: Place) -> RunRequest {
    RunRequest {
        pages,
        align: 4096,
        place,
        from: 0,
        spread: 0,
    }
}

fn pool(pages_about: u64) -> Owned {
    Owned::new(pages_about * 4096, &Config::default())
}

#[test]
fn low_and_high_take_the_ends_and_best_the_smallest_hole() {
    let owned = pool(1000);
    let pool = &owned.heap.pool;
    let end = pool.geo.pages;
    assert_eq!(pool.take_run(&request(10, Place::Low)), Ok(0));
    assert_eq!(pool.take_run(&request(10, Place::High)), Ok(end - 10));
    assert_eq!(pool.take_run(&request(100, Place::Low)), Ok(10));
    assert_eq!(pool.take_run(&request(1, Place::Low)), Ok(110));
    pool.release_run(10, 100);
    // The hole of 100 pages is the smaller one; its high end is used.
    assert_eq!(pool.take_run(&request(20, Place::Best)), Ok(90));
    assert_eq!(pool.take_run(&request(80, Place::Best)), Ok(10));
    assert_eq!(pool.take_run(&request(1, Place::Best)), Ok(end - 11));
}

#[test]
fn neighbours_coalesce_in_any_order() {
    let owned = pool(700);
    let pool = &owned.heap.pool;
    let pages = pool.geo.pages;
    for stride in [1, 7, 64, 65, 130] {
        let mut runs = Vec::new();
        while let Ok(start) = pool.take_run(&request(stride, Place::Low)) {
            runs.push(start);
        }
        runs.sort_by_key(|start| start.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for start in runs {
            pool.release_run(start, stride);
        }
        assert_eq!(pool.take_run(&request(pages, Place::Best)), Ok(0));
        pool.release_run(0, pages);
    }
    owned.heap.check().unwrap();
}

#[test]
fn a_full_pool_is_marked_full_on_every_level_and_opens_again() {
    // Over 64 * 64 pages, so that two summary levels matter.
    let owned = pool(9000);
    let pool = &owned.heap.pool;
    let pages = pool.geo.pages;
    assert!(pool.geo.level_count >= 3);
    for page in 0..pages {
        assert_eq!(pool.claim_run(page, 1), Ok(()));
        pool.note_used(1);
    }
    assert_eq!(pool.take_run(&request(1, Place::Low)), Err(NoRun::Nothing));
    assert_eq!(pool.next_hole(0, 1), None);
    for page in [0, 63, 64, 4095, 4096, pages - 1] {
        pool.release_run(page, 1);
        for place in [Place::Low, Place::Best, Place::High] {
            assert_eq!(pool.take_run(&request(1, place)), Ok(page));
            pool.release_run(page, 1);
        }
        assert_eq!(pool.claim_run(page, 1), Ok(()));
        pool.note_used(1);
    }
}

#[test]
fn a_claim_that_meets_another_is_undone() {
    let owned = pool(1000);
    let pool = &owned.heap.pool;
    assert_eq!(pool.claim_run(300, 1), Ok(()));
    pool.note_used(1);
    assert_eq!(pool.claim_run(100, 400), Err(300));
    assert_eq!(pool.claim_run(100, 200), Ok(()));
    pool.note_used(200);
    pool.release_run(100, 201);
    owned.heap.check().unwrap();
}

#[test]
fn every_second_page_free_is_no_hole_of_two() {
    let owned = pool(600);
    let pool = &owned.heap.pool;
    while pool.take_run(&request(1, Place::Low)).is_ok() {}
    for page in (0..pool.geo.pages).step_by(2) {
        pool.release_run(page, 1);
    }
    assert_eq!(pool.take_run(&request(2, Place::Best)), Err(NoRun::Nothing));
    assert_eq!(
        pool.take_run(&request(1, Place::High)),
        Ok((pool.geo.pages - 1) / 2 * 2)
    );
}

#[test]
fn large_alignments_are_met_where_a_hole_allows_it() {
    let owned = pool(1000);
    let pool = &owned.heap.pool;
    for align in [8192u64, 65536, 1 << 20] {
        for place in [Place::Low, Place::High, Place::Best] {
            let wanted = RunRequest {
                pages: 3,
                align,
                place,
                from: 0,
                spread: 0,
            };
            let start = pool.take_run(&wanted).unwrap();
            let address = crate::Mem::base(&pool.mem) + pool.geo.page_start(start);
            assert_eq!(address % align, 0);
            pool.release_run(start, 3);
        }
    }
    let wanted = RunRequest {
        pages: 1,
        align: 1 << 40,
        place: Place::Best,
        from: 0,
        spread: 0,
    };
    assert_eq!(pool.take_run(&wanted), Err(NoRun::Nothing));
}

proptest! {
    #[test]
    fn lanes_that_lost_a_claim_go_whole_lengths_away(
        all in 1u64..5000,
        place in 0u8..3,
        seeds: (u64, u64, u64),
    ) {
        let pages = 1 + seeds.0 % all;
        let start = seeds.1 % (all - pages + 1);
        let request = RunRequest {
            pages,
            align: 4096,
            place: [Place::Best, Place::Low, Place::High][usize::from(place)],
            from: 0,
            spread: 0,
        };
        let others = start / pages + ((all - start) / pages - 1);
        let to = away(start, &request, all, seeds.2);
        if others == 0 {
            prop_assert_eq!(to, (start + 1) % all);
        } else {
            prop_assert!(to + pages <= all && to != start);
            prop_assert!(to.abs_diff(start).is_multiple_of(pages));
            // As many numbers lead to as many places, the nearest one first.
            let places: std::collections::BTreeSet<_> =
                (0..others).map(|number| away(start, &request, all, number)).collect();
            prop_assert_eq!(places.len() as u64, others);
            prop_assert_eq!(away(start, &request, all, 0).abs_diff(start), pages);
        }
    }
}
