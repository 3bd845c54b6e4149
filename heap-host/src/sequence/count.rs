//! Element counts: affine functions of parameters and totals.

use super::model::Variable;
use super::ratio::Ratio;

/// A number of elements: `constant + ceil(sum(coefficient * variable))`.
///
/// The terms ascend by variable (parameters, then totals), each variable once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// What is there in any batch.
    pub constant: u64,
    /// What grows with a variable.
    pub terms: Vec<(Variable, Ratio)>,
}

/// A size that does not fit 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountOverflow {
    /// The number of elements.
    #[error("the count exceeds 18446744073709551615 elements")]
    Elements,
    /// The number of elements times the size of one.
    #[error("{elements} elements of {element_bytes} bytes exceed 18446744073709551615 bytes")]
    Bytes {
        /// Number of elements.
        elements: u64,
        /// Size of an element in bytes.
        element_bytes: u64,
    },
}

/// 10^19, which every denominator of a [`Ratio`] divides.
const FINEST: u64 = 10_000_000_000_000_000_000;

impl Count {
    /// `constant` elements.
    pub const fn constant(constant: u64) -> Self {
        Self {
            constant,
            terms: Vec::new(),
        }
    }

    /// `constant` elements and the given terms, in any order.
    ///
    /// # Errors
    /// The first variable that occurs twice.
    pub fn new(constant: u64, mut terms: Vec<(Variable, Ratio)>) -> Result<Self, Variable> {
        terms.sort_unstable_by_key(|&(variable, _)| variable);
        match terms.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0),
            None => Ok(Self { constant, terms }),
        }
    }

    /// The number of elements, exact: the sum of the terms is rounded up once.
    ///
    /// `parameters` and `totals` hold one value for each of the sequence's
    /// parameters and totals, in the order of their ids.
    ///
    /// # Errors
    /// If the number does not fit 64 bits.
    ///
    /// # Panics
    /// If a slice is too short for a variable that the count uses.
    pub fn evaluate(&self, parameters: &[u64], totals: &[u64]) -> Result<u64, CountOverflow> {
        // Whole parts and fractions are summed apart: a fraction is below
        // FINEST in units of 1 / FINEST, and 2^64 of them fit 128 bits.
        let mut whole = u128::from(self.constant);
        let mut fractions = 0u128;
        for &(variable, ratio) in &self.terms {
            let value = match variable {
                Variable::Parameter(id) => parameters[id.index()],
                Variable::Total(id) => totals[id.index()],
            };
            let product = u128::from(ratio.numerator()) * u128::from(value);
            let denominator = u128::from(ratio.denominator());
            whole = whole
                .checked_add(product / denominator)
                .ok_or(CountOverflow::Elements)?;
            fractions += product % denominator * (u128::from(FINEST) / denominator);
        }
        let carry = fractions.div_ceil(u128::from(FINEST));
        let sum = whole.checked_add(carry).ok_or(CountOverflow::Elements)?;
        u64::try_from(sum).map_err(|_| CountOverflow::Elements)
    }

    /// Whether the count is known at configuration: it uses no total.
    pub fn is_static(&self) -> bool {
        // Terms ascend, and totals come last.
        !matches!(self.terms.last(), Some((Variable::Total(_), _)))
    }
}

impl From<u64> for Count {
    fn from(constant: u64) -> Self {
        Self::constant(constant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{ParameterId, TotalId};
    use super::*;
    use proptest::prelude::*;

    fn parameter(index: usize) -> Variable {
        ParameterId::new(index).into()
    }

    fn count(constant: u64, terms: &[(Variable, &str)]) -> Count {
        let terms = terms
            .iter()
            .map(|&(variable, text)| (variable, text.parse().unwrap()));
        Count::new(constant, terms.collect()).unwrap()
    }

    #[test]
    fn fractions_are_rounded_once() {
        let half_of_each = count(1, &[(parameter(0), "0.5"), (parameter(1), "0.5")]);
        assert_eq!(half_of_each.evaluate(&[1, 1], &[]), Ok(2));
        assert_eq!(half_of_each.evaluate(&[1, 2], &[]), Ok(3));
        assert_eq!(half_of_each.evaluate(&[0, 0], &[]), Ok(1));
    }

    #[test]
    fn the_largest_values_are_exact_and_the_next_overflow() {
        let one = count(0, &[(parameter(0), "1")]);
        assert_eq!(one.evaluate(&[u64::MAX], &[]), Ok(u64::MAX));
        assert_eq!(
            count(1, &[(parameter(0), "1")]).evaluate(&[u64::MAX], &[]),
            Err(CountOverflow::Elements)
        );
        let top = u64::MAX.to_string();
        let huge = [(parameter(0), top.as_str()), (parameter(1), top.as_str())];
        let squares = count(0, &huge);
        assert_eq!(
            squares.evaluate(&[u64::MAX; 2], &[]),
            Err(CountOverflow::Elements)
        );
        let fine = count(0, &[(parameter(0), "1.0000000000000000001")]);
        assert_eq!(fine.evaluate(&[1], &[]), Ok(2));
    }

    #[test]
    fn totals_make_a_count_dynamic() {
        let total = Variable::from(TotalId::new(0));
        assert!(Count::constant(3).is_static());
        assert!(count(0, &[(parameter(7), "1")]).is_static());
        assert!(!count(0, &[(total, "1"), (parameter(7), "1")]).is_static());
    }

    #[test]
    fn a_variable_may_occur_once() {
        let twice = vec![
            (parameter(1), Ratio::ONE),
            (parameter(0), Ratio::ONE),
            (parameter(1), Ratio::ZERO),
        ];
        assert_eq!(Count::new(0, twice), Err(parameter(1)));
    }

    proptest! {
        /// Against the definition over the common denominator, on numbers
        /// small enough for it.
        #[test]
        fn agrees_with_the_definition(
            constant in 0u64..1 << 40,
            terms in prop::collection::vec((0u64..1 << 20, 0u32..=6, 0u64..1 << 20), 0..6),
        ) {
            let ratios = terms.iter().enumerate().map(|(index, &(numerator, digits, _))| {
                (parameter(index), Ratio::decimal(numerator, digits).unwrap())
            });
            let values: Vec<u64> = terms.iter().map(|term| term.2).collect();
            let millionths: u64 =
                terms.iter().map(|&(n, digits, value)| n * value * 10u64.pow(6 - digits)).sum();
            let expected = constant + millionths.div_ceil(1_000_000);
            let count = Count::new(constant, ratios.collect()).unwrap();
            prop_assert_eq!(count.evaluate(&values, &[]), Ok(expected));
        }
    }
}
