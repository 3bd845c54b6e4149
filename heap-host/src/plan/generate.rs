//! Seeded instances for tests, benches and experiments.
//!
//! Every generator is deterministic in its arguments.

use super::instance::{Buffer, Instance};

/// A rectangle of `steps` steps and `height` bytes, cut into at most `count`
/// pieces, shuffled. The optimal peak is `height`, which is also the largest
/// live sum, at every step. Fewer pieces come out when there is nothing left
/// to cut.
///
/// # Panics
///
/// When `steps` or `height` is zero.
pub fn cut_rectangle(seed: u64, count: usize, steps: u64, height: u64) -> Instance {
    assert!(
        steps > 0 && height > 0,
        "a rectangle has steps and bytes to cut"
    );
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut open = vec![Piece {
        lower: 0,
        upper: steps,
        size: height,
    }];
    let mut done = Vec::new();
    while open.len() + done.len() < count && !open.is_empty() {
        let piece = open.swap_remove(rng.usize(0..open.len()));
        match piece.cut(&mut rng) {
            Some(halves) => open.extend(halves),
            None => done.push(piece),
        }
    }
    done.append(&mut open);
    rng.shuffle(&mut done);
    let pieces = done.iter().take(count).enumerate();
    collect(
        pieces
            .map(|(i, p)| Buffer::new(format!("p{i}"), p.lower, p.upper, p.size))
            .collect(),
    )
}

struct Piece {
    lower: u64,
    upper: u64,
    size: u64,
}

impl Piece {
    /// Two pieces, cut across the time or the addresses.
    fn cut(&self, rng: &mut fastrand::Rng) -> Option<[Piece; 2]> {
        let Piece { lower, upper, size } = *self;
        let (long, high) = (upper - lower > 1, size > 1);
        if !long && !high {
            return None;
        }
        Some(if long && (!high || rng.bool()) {
            let at = rng.u64(lower + 1..upper);
            [
                Piece {
                    lower,
                    upper: at,
                    size,
                },
                Piece {
                    lower: at,
                    upper,
                    size,
                },
            ]
        } else {
            let part = rng.u64(1..size);
            [
                Piece {
                    lower,
                    upper,
                    size: part,
                },
                Piece {
                    lower,
                    upper,
                    size: size - part,
                },
            ]
        })
    }
}

/// `count` buffers with small random lifetimes, sizes and alignments; some
/// have no size, some no lifetime.
pub fn random(seed: u64, count: usize) -> Instance {
    let mut rng = fastrand::Rng::with_seed(seed);
    let steps = 2 + count as u64 / 2;
    let buffers = (0..count).map(|i| {
        let lower = rng.u64(0..steps);
        let upper = (lower + rng.u64(0..=1 + steps / 3)).min(steps);
        Buffer::new(format!("r{i}"), lower, upper, rng.u64(0..24)).aligned_to(1 << rng.u32(0..4))
    });
    collect(buffers.collect())
}

/// A trigger pipeline: algorithms that each write some buffers, most of them
/// small and soon read for the last time, some large, some kept to the end.
/// About six buffers per step; alignment 256.
pub fn pipeline(seed: u64, count: usize) -> Instance {
    let mut rng = fastrand::Rng::with_seed(seed);
    let steps = count as u64 / 6 + 1;
    let buffers = (0..count).map(|i| {
        let lower = i as u64 / 6;
        let upper = match rng.u8(0..100) {
            0..20 => steps,
            20..80 => lower + 1 + rng.u64(0..4),
            _ => lower + 1 + rng.u64(0..=steps / 4),
        };
        let size = match rng.u8(0..100) {
            0..32 => rng.u64(1..4 << 10),
            32..78 => rng.u64(4 << 10..64 << 10),
            78..92 => rng.u64(64 << 10..1 << 20),
            _ => rng.u64(1 << 20..32 << 20),
        };
        Buffer::new(format!("a{lower}_{i}"), lower, upper.min(steps), size).aligned_to(256)
    });
    collect(buffers.collect())
}

/// A training step: two thirds of the buffers are made on the way forward and
/// read for the last time at the mirrored step of the way back, the others
/// are short-lived. So thousands are alive together. Alignment 64.
pub fn training(seed: u64, count: usize) -> Instance {
    let mut rng = fastrand::Rng::with_seed(seed);
    let half = count as u64;
    let buffers = (0..count).map(|i| {
        let (lower, upper) = if rng.u8(0..3) < 2 {
            let forward = rng.u64(0..half);
            (
                forward,
                2 * half - forward - rng.u64(0..1 + (half - forward) / 16),
            )
        } else {
            let lower = rng.u64(0..2 * half);
            (lower, lower + 1 + rng.u64(0..20))
        };
        // Tensors come in few sizes: powers of two times small factors.
        let size = rng.u64(1..8) << rng.u32(8..22);
        Buffer::new(format!("t{i}"), lower, upper, size).aligned_to(64)
    });
    collect(buffers.collect())
}

/// Generated names are unique, alignments powers of two and sums small.
fn collect(buffers: Vec<Buffer>) -> Instance {
    Instance::new(buffers).expect("generated buffers are valid")
}

#[cfg(test)]
mod tests {
    use super::super::bound::lower_bound;
    use super::*;

    #[test]
    fn every_step_of_a_cut_rectangle_is_full() {
        for (count, steps, height) in [(1, 1, 1), (40, 30, 20), (500, 7, 9), (64, 8, 8)] {
            let instance = cut_rectangle(2, count, steps, height);
            assert!(instance.len() <= count && instance.len() as u64 <= steps * height);
            for step in 0..steps {
                let live = instance.buffers().iter().filter(|b| b.is_live_at(step));
                assert_eq!(live.map(|b| b.size).sum::<u64>(), height);
            }
            assert_eq!(lower_bound(&instance).bytes, height);
        }
    }

    #[test]
    fn seeds_decide() {
        type Make = fn(u64, usize) -> Instance;
        for make in [random as Make, pipeline, training, |s, n| {
            cut_rectangle(s, n, 99, 999)
        }] {
            assert_eq!(make(1, 50), make(1, 50));
            assert_ne!(make(1, 50), make(2, 50));
            assert_eq!(make(1, 50).len(), 50);
            assert!(make(1, 0).is_empty());
        }
    }
}
