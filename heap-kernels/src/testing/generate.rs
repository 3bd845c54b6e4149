//! Programs from seeds.

use std::vec;
use std::vec::Vec;

use fastrand::Rng;

use super::program::{Op, Phase, PhaseEnd, Program};
use crate::{Config, Request};

/// Any program at all, of up to `ops` operations on `lanes` lanes.
#[must_use]
pub fn random(seed: u64, ops: usize, lanes: u32) -> Program {
    let mut rng = Rng::with_seed(seed);
    let bytes = (1 + rng.usize(0..=ops)) * Program::RECORD;
    let bytes: Vec<u8> = (0..bytes).map(|_| rng.u8(..)).collect();
    Program::decode(&bytes, lanes)
}

/// A program in which lanes meet as often as possible: a handful of pages, one
/// to three sizes, as many frees as allocations.
#[must_use]
pub fn contended(seed: u64) -> Program {
    let mut rng = Rng::with_seed(seed);
    let lanes = [2, 3, 8, 33, 64][rng.usize(0..5)];
    let sizes: Vec<u64> = (0..rng.u32(1..4)).map(|_| size(&mut rng)).collect();
    let ops = rng.usize(4..34);
    let op = |rng: &mut Rng| {
        let request = Request::new(sizes[rng.usize(0..sizes.len())]);
        let which = rng.u32(..);
        match rng.u32(0..10) {
            0..5 => Op::Alloc {
                request,
                zeroed: false,
            },
            5..9 => Op::Free { which },
            _ => Op::Realloc { which, request },
        }
    };
    let lanes = (0..lanes)
        .map(|_| (0..ops).map(|_| op(&mut rng)).collect())
        .collect();
    Program {
        pool_bytes: 4096 * rng.u64(12..32),
        config: Config {
            page_size: Some(4096),
            shards: Some(1 << rng.u32(0..3)),
            retain: rng.bool(),
            small_max: None,
        },
        phases: vec![Phase {
            lanes,
            end: PhaseEnd::Check,
        }],
    }
}

fn size(rng: &mut Rng) -> u64 {
    match rng.u32(0..6) {
        0 => 16,
        1 => 2000,
        2 => 4096,
        3 => 8192,
        4 => 5000,
        _ => rng.u64(0..20_000),
    }
}
