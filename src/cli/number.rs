//! Whole numbers, as people write them.

use std::ops::RangeInclusive;

/// A number from 0 on.
pub(super) fn any(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

/// A number from 1 on.
pub(super) fn positive(text: &str) -> Result<u64, String> {
    within(text, 1..=u64::MAX)
}

/// How many threads or streams.
pub(super) fn threads(text: &str) -> Result<u32, String> {
    within(text, 1..=1024).map(|number| number as u32)
}

/// A card, counted from 0.
pub(super) fn index(text: &str) -> Result<u32, String> {
    within(text, 0..=1023).map(|number| number as u32)
}

/// How often something is measured.
pub(super) fn rounds(text: &str) -> Result<u32, String> {
    within(text, 1..=1_000_000).map(|number| number as u32)
}

/// How many threads of a card.
pub(super) fn lanes(text: &str) -> Result<u64, String> {
    within(text, 1..=1 << 24)
}

fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = range.clone().into_inner();
    let text = text.trim();
    let negative = text.strip_prefix('-');
    let digits = negative.unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a whole number is needed, in plain digits like 100".into());
    }
    match digits.parse() {
        _ if negative.is_some() => Err(format!("must be at least {least}")),
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(number) if number < least => Err(format!("must be at least {least}")),
        _ => Err(format!("too large, must be at most {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_range_are_taken() {
        assert_eq!(any("0"), Ok(0));
        assert_eq!(any("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(positive(" 1 "), Ok(1));
        assert_eq!(threads("1024"), Ok(1024));
    }

    #[test]
    fn others_are_told_what_would_be_right() {
        for (told, words) in [
            (any("-1"), "must be at least 0"),
            (positive("0"), "must be at least 1"),
            (positive("-99999999999999999999"), "must be at least 1"),
            (any("18446744073709551616"), "at most 18446744073709551615"),
            (threads("0").map(u64::from), "must be at least 1"),
            (threads("1025").map(u64::from), "must be at most 1024"),
            (any(""), "whole number"),
            (any("-"), "whole number"),
            (any("1.5"), "whole number"),
            (any("+1"), "whole number"),
            (any("1e3"), "whole number"),
            (any("--json"), "whole number"),
        ] {
            let told = told.unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
