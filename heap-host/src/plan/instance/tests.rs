//! What is accepted, and what is refused.

use super::*;

fn error(buffers: Vec<Buffer>) -> InstanceError {
    Instance::new(buffers).expect_err("must be refused")
}

#[test]
fn zero_sizes_zero_lifetimes_and_nothing_at_all_are_legal() {
    assert!(Instance::new(vec![]).is_ok());
    assert!(Instance::new(vec![Buffer::new("a", 3, 3, 9), Buffer::new("b", 0, 9, 0)]).is_ok());
    let edge = Buffer::new("a", u64::MAX, u64::MAX, u64::MAX).aligned_to(1 << 63);
    assert_eq!(Instance::new(vec![edge]).unwrap().total_size(), u64::MAX);
}

#[test]
fn each_fault_is_named() {
    let fine = Buffer::new("a", 0, 1, 1);
    let duplicate = error(vec![fine.clone(), Buffer::new("b", 0, 1, 1), fine.clone()]);
    let InstanceError::DuplicateName {
        first: 0, index: 2, ..
    } = &duplicate
    else {
        panic!("{duplicate}")
    };
    let empty = error(vec![Buffer::new("", 0, 1, 1)]);
    assert_eq!(empty, InstanceError::EmptyName { index: 0 });
    for name in ["a\0", "\u{1b}[2J", "two\nlines", "\u{85}"] {
        let control = error(vec![fine.clone(), Buffer::new(name, 0, 1, 1)]);
        assert!(control.index() == 1, "{control}");
        assert!(!control.to_string().contains(char::is_control), "{control}");
    }
    let reversed = error(vec![fine.clone(), Buffer::new("r", 4, 3, 1)]);
    assert!(reversed.to_string().contains("'r'") && reversed.index() == 1);
    for alignment in [0, 3, 12, u64::MAX] {
        let bad = error(vec![fine.clone().aligned_to(alignment)]);
        assert!(matches!(bad, InstanceError::BadAlignment { .. }), "{bad}");
    }
    let sum = error(vec![fine, Buffer::new("big", 0, 1, u64::MAX)]);
    assert!(
        matches!(sum, InstanceError::SizeOverflow { index: 1, .. }),
        "{sum}"
    );
}
