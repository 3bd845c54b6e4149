//! Closures of the user, which may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `user`; if it panics, what it said. Whatever it was at is thrown away
/// with the batch, so nobody sees it half done.
pub(super) fn guarded<T>(user: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(user)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!(
            "it panicked: {}",
            text.unwrap_or_else(|| "no message".into())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_says_is_kept() {
        assert_eq!(guarded(|| 7), Ok(7));
        let told = |user: fn()| guarded(user).unwrap_err();
        assert_eq!(told(|| panic!("as it is")), "it panicked: as it is");
        assert_eq!(told(|| panic!("{}", 7)), "it panicked: 7");
        assert_eq!(told(|| std::panic::panic_any(7)), "it panicked: no message");
    }
}
