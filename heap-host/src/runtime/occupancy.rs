//! How many of what an event has, where no user's kernel counts it.

use super::pattern::mix;
use crate::sequence::Ratio;

/// 1 in the fixed-point numbers below.
const ONE: u64 = 1 << 32;

/// The spread of a total's per-event counts, as a fraction of their mean: the
/// standard deviation of the product of the two factors in [`occupancy`].
pub(super) const SPREAD: f64 = 0.325;

/// No event has more than this multiple of what is expected.
pub(super) const LARGEST: f64 = 1.875;

/// The count of total `total` in `event`; the same whichever batch the event
/// is in.
///
/// The expected value is `expected`, times a factor from 0.5 to 1.5 that all
/// totals of an event share (a busy event has more of everything), times one
/// from 0.75 to 1.25 of its own, rounded up or down at random so that the mean
/// stays right.
pub(super) fn occupancy(seed: u64, total: u64, event: u64, expected: Ratio) -> u64 {
    let of_event = mix(mix(seed) ^ event);
    let own = mix(of_event.wrapping_add(mix(total.wrapping_add(1))));
    let activity = ONE / 2 + (of_event >> 32);
    let factor = ONE / 4 * 3 + (own >> 33);
    // Both are below 2^33, so is half their product; every term below is under
    // 2^98.
    let factor = (u128::from(activity) * u128::from(factor)) >> 32;
    let denominator = u128::from(expected.denominator()) << 32;
    let dice = u128::from(mix(own) >> 32) * u128::from(expected.denominator());
    let count = (u128::from(expected.numerator()) * factor + dice) / denominator;
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(expected: &str, seed: u64) -> Vec<f64> {
        let expected = expected.parse().unwrap();
        let count = |event| occupancy(seed, 7, event, expected) as f64;
        (0..100_000).map(count).collect()
    }

    #[test]
    fn the_mean_is_what_is_expected_also_where_it_is_small() {
        for expected in ["1000", "3", "0.5", "0.025"] {
            let counts = counts(expected, 11);
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let wanted: f64 = expected.parse().unwrap();
            // Four standard deviations of a mean of so many.
            let tolerance = 4.0 * (wanted * wanted * 0.11 + wanted).sqrt() / 316.0;
            assert!((mean - wanted).abs() < tolerance, "{mean} for {expected}");
        }
    }

    #[test]
    fn the_spread_and_the_largest_are_as_stated() {
        let counts = counts("100000", 5);
        let variance = counts
            .iter()
            .map(|count| (count / 1e5 - 1.0).powi(2))
            .sum::<f64>()
            / 1e5;
        assert!(
            (variance.sqrt() - SPREAD).abs() < 0.01,
            "{}",
            variance.sqrt()
        );
        let largest = counts.iter().fold(0.0f64, |a, &b| a.max(b));
        assert!(largest <= LARGEST * 1e5 + 1.0);
    }

    #[test]
    fn seeds_totals_and_events_matter_and_nothing_else() {
        let expected = "1000".parse().unwrap();
        let count = |seed, total, event| occupancy(seed, total, event, expected);
        assert_eq!(count(1, 2, 3), count(1, 2, 3));
        assert_ne!(count(1, 2, 3), count(2, 2, 3));
        assert_ne!(count(1, 2, 3), count(1, 3, 3));
        assert_ne!(count(1, 2, 3), count(1, 2, 4));
    }

    #[test]
    fn the_extremes_do_not_overflow() {
        let top: Ratio = u64::MAX.to_string().parse().unwrap();
        assert!(occupancy(0, 0, 0, top) > 1 << 61);
        assert_eq!(occupancy(0, 0, 0, Ratio::ZERO), 0);
    }
}
