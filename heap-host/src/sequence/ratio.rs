//! Exact non-negative decimals.

use std::fmt;
use std::str::FromStr;

use super::count::CountOverflow;

/// An exact non-negative decimal, such as 0.34: a 64-bit numerator over a
/// power of ten.
///
/// Always in lowest form (no zero at the end of the fraction), so that equal
/// numbers are equal values: `1.50` and `1.5` are the same `Ratio`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// Zero.
    pub const ZERO: Self = Self::integer(0);
    /// One.
    pub const ONE: Self = Self::integer(1);

    /// The integer `value`.
    pub const fn integer(value: u64) -> Self {
        Self {
            numerator: value,
            denominator: 1,
        }
    }

    /// `numerator / 10^digits` in lowest form.
    ///
    /// # Errors
    /// If more than 19 digits after the point remain in lowest form.
    pub fn decimal(numerator: u64, digits: u32) -> Result<Self, RatioError> {
        let (mut numerator, mut digits) = (numerator, digits);
        if numerator == 0 {
            return Ok(Self::ZERO);
        }
        while digits > 0 && numerator.is_multiple_of(10) {
            numerator /= 10;
            digits -= 1;
        }
        let denominator = 10u64.checked_pow(digits).ok_or(RatioError::TooFine)?;
        Ok(Self {
            numerator,
            denominator,
        })
    }

    /// The numerator in lowest form.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// The denominator in lowest form: a power of ten from 1 to 10^19.
    pub const fn denominator(self) -> u64 {
        self.denominator
    }

    /// `self * value`, rounded up.
    ///
    /// # Errors
    /// If the result does not fit 64 bits.
    pub fn times(self, value: u64) -> Result<u64, CountOverflow> {
        let product = u128::from(self.numerator) * u128::from(value);
        u64::try_from(product.div_ceil(u128::from(self.denominator)))
            .map_err(|_| CountOverflow::Elements)
    }
}

impl From<u64> for Ratio {
    fn from(value: u64) -> Self {
        Self::integer(value)
    }
}

/// Why a text is no [`Ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be {}", self.expected())]
#[non_exhaustive]
pub enum RatioError {
    /// Not a non-negative decimal number.
    NotDecimal,
    /// More than 64 bits of digits.
    TooLarge,
    /// More than 19 digits after the point.
    TooFine,
}

impl RatioError {
    /// What it must be instead.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::NotDecimal => "a non-negative decimal such as 0.34",
            Self::TooLarge => {
                "a decimal whose digits without the point are at most 18446744073709551615"
            }
            Self::TooFine => "a decimal with at most 19 digits after the point",
        }
    }
}

impl FromStr for Ratio {
    type Err = RatioError;

    /// Reads the JSON number syntax without a minus sign, exactly: `12`,
    /// `0.34`, `1.5e3`.
    fn from_str(text: &str) -> Result<Self, RatioError> {
        let (mantissa, exponent) = split_exponent(text)?;
        let (whole, fraction) = split_point(mantissa)?;
        let digits = whole.bytes().chain(fraction.bytes());
        let fraction = fraction.trim_end_matches('0');
        let numerator = digits
            .take(whole.len() + fraction.len())
            .try_fold(0u64, push_digit)?;
        // Both lengths are those of strings, far from 63 bits.
        let places = (fraction.len() as i64)
            .checked_sub(exponent)
            .ok_or(RatioError::TooFine)?;
        scale(numerator, places)
    }
}

/// `numerator / 10^places`, where negative places multiply.
fn scale(numerator: u64, places: i64) -> Result<Ratio, RatioError> {
    if numerator == 0 {
        return Ok(Ratio::ZERO);
    }
    if places >= 0 {
        let places = u32::try_from(places).map_err(|_| RatioError::TooFine)?;
        return Ratio::decimal(numerator, places);
    }
    u32::try_from(-places)
        .ok()
        .and_then(|power| 10u64.checked_pow(power)?.checked_mul(numerator))
        .map(Ratio::integer)
        .ok_or(RatioError::TooLarge)
}

fn push_digit(number: u64, digit: u8) -> Result<u64, RatioError> {
    number
        .checked_mul(10)
        .and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
        .ok_or(RatioError::TooLarge)
}

/// Splits `1.5e3` into `1.5` and 3. Exponents are clamped to a range in which
/// every non-zero number is out of bounds at its ends.
fn split_exponent(text: &str) -> Result<(&str, i64), RatioError> {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        return Ok((text, 0));
    };
    let (negative, digits) = match exponent.as_bytes().first() {
        Some(b'-') => (true, &exponent[1..]),
        Some(b'+') => (false, &exponent[1..]),
        _ => (false, exponent),
    };
    all_digits(digits)?;
    let clamp = i64::MAX / 2;
    let size = digits.parse::<i64>().unwrap_or(clamp).min(clamp);
    Ok((mantissa, if negative { -size } else { size }))
}

/// Splits `1.5` into the digits before and after the point.
fn split_point(mantissa: &str) -> Result<(&str, &str), RatioError> {
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            all_digits(fraction)?;
            (whole, fraction)
        }
        None => (mantissa, ""),
    };
    all_digits(whole)?;
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(RatioError::NotDecimal);
    }
    Ok((whole, fraction))
}

fn all_digits(text: &str) -> Result<(), RatioError> {
    let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    good.then_some(()).ok_or(RatioError::NotDecimal)
}

impl fmt::Display for Ratio {
    /// The shortest decimal, without an exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.denominator.ilog10() as usize;
        if digits == 0 {
            return write!(f, "{}", self.numerator);
        }
        let whole = self.numerator / self.denominator;
        let fraction = self.numerator % self.denominator;
        write!(f, "{whole}.{fraction:0digits$}")
    }
}

impl fmt::Debug for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ratio({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_json_writes() {
        for (text, numerator, denominator) in [
            ("0", 0, 1),
            ("0.000", 0, 1),
            ("0e999999999999999999999", 0, 1),
            ("0.34", 34, 100),
            ("1.50", 15, 10),
            ("1.5e3", 1500, 1),
            ("15E-1", 15, 10),
            ("120e-1", 12, 1),
            ("18446744073709551615", u64::MAX, 1),
            ("1e19", 10_000_000_000_000_000_000, 1),
            ("0.0000000000000000001", 1, 10_000_000_000_000_000_000),
            ("10000000000000000000e-19", 1, 1),
        ] {
            let got = ratio(text);
            assert_eq!(
                (got.numerator(), got.denominator()),
                (numerator, denominator),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "", "-1", "+1", ".5", "5.", "01", "1e", "1e+", "1.e3", "NaN", "inf", "1 ", "0x1",
        ] {
            assert_eq!(text.parse::<Ratio>(), Err(RatioError::NotDecimal), "{text}");
        }
        for text in [
            "18446744073709551616",
            "1e20",
            "2e19",
            "1e99999999999999999999",
        ] {
            assert_eq!(text.parse::<Ratio>(), Err(RatioError::TooLarge), "{text}");
        }
        for text in ["1e-20", "0.00000000000000000001", "1e-99999999999999999999"] {
            assert_eq!(text.parse::<Ratio>(), Err(RatioError::TooFine), "{text}");
        }
    }

    #[test]
    fn products_round_up_and_do_not_wrap() {
        assert_eq!(ratio("0.34").times(3), Ok(2));
        assert_eq!(ratio("0.5").times(4), Ok(2));
        assert_eq!(Ratio::ZERO.times(u64::MAX), Ok(0));
        assert_eq!(Ratio::ONE.times(u64::MAX), Ok(u64::MAX));
        assert_eq!(ratio("1.1").times(u64::MAX), Err(CountOverflow::Elements));
    }

    proptest! {
        #[test]
        fn text_round_trip(numerator: u64, digits in 0u32..=19) {
            let value = Ratio::decimal(numerator, digits).unwrap();
            prop_assert_eq!(ratio(&value.to_string()), value);
        }

        #[test]
        fn no_text_panics(text in "[0-9.eE+-]{0,40}") {
            let _ = text.parse::<Ratio>();
        }
    }
}
