//! Sizes in bytes, as people write them.

/// Units and their bytes. A bare number is bytes.
const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Digits behind the point up to which the arithmetic below cannot overflow.
const FRACTION: usize = 24;

/// Parses `64MiB`, `1.5 GiB`, `64MB` or `4096`: the exact number of bytes.
///
/// # Errors
///
/// A sentence that says what would be right, for what is no number, has an
/// unknown unit, is no whole number of bytes or exceeds 64 bits.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(
            "a size is a number of bytes with or without a unit, like 4096 or 64MiB".into(),
        );
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, bytes) = known.ok_or_else(|| {
        format!(
            "'{unit}' is no unit; use KiB, MiB, GiB, TiB (powers of 1,024) or kB, MB, GB, TB \
             (powers of 1,000)"
        )
    })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.contains('.') {
        return Err("the number has a wrong decimal point; write it like 1.5GiB".into());
    }
    let fraction = fraction_of(fraction, *bytes)
        .ok_or("that is no whole number of bytes; choose a smaller unit")?;
    // The digits were looked at, so only their number can be at fault.
    let whole = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| whole.checked_mul(*bytes));
    whole
        .and_then(|whole| whole.checked_add(fraction))
        .ok_or_else(|| format!("that is more than the possible {} bytes", u64::MAX))
}

/// `0.digits` of `bytes`, where it is a whole number.
fn fraction_of(digits: &str, bytes: u64) -> Option<u64> {
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    if digits.len() > FRACTION {
        return None;
    }
    // Below 10^24 * 2^40, so below 2^120.
    let product = digits.parse::<u128>().ok()? * u128::from(bytes);
    let scale = 10u128.pow(digits.len() as u32);
    let exact = product.is_multiple_of(scale);
    exact.then_some((product / scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("64MiB", 64 << 20),
            ("64 MiB", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("1.50GiB", 3 << 29),
            ("64MB", 64_000_000),
            ("2kB", 2000),
            ("2KB", 2000),
            ("0.001MB", 1000),
            ("1TiB", 1 << 40),
            ("18446744073709551615", u64::MAX),
            ("16777215.9999990463256835938TiB", 0),
        ] {
            match parse(text) {
                Ok(parsed) => assert_eq!(parsed, bytes, "{text}"),
                Err(error) => assert!(bytes == 0 && error.contains("whole"), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, words) in [
            ("", "like 4096"),
            ("MiB", "like 4096"),
            ("-1", "like 4096"),
            (".5GiB", "like 4096"),
            ("64M", "'M' is no unit"),
            ("64mib", "'mib' is no unit"),
            ("1e9", "'e9' is no unit"),
            ("1.5", "whole number of bytes"),
            ("0.1KiB", "whole number of bytes"),
            ("1.MiB", "decimal point"),
            ("1.2.3MiB", "decimal point"),
            ("18446744073709551616", "18446744073709551615"),
            ("16777216TiB", "18446744073709551615"),
            (
                "99999999999999999999999999999999999999999GiB",
                "18446744073709551615",
            ),
            ("0.12345678901234567890123456TiB", "whole"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
