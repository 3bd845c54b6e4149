//! The verifier catches planted faults.
//!
//! Cut rectangles have no free byte at any step, so any change that moves a
//! buffer is a fault.

use heap_host::plan::verify::{Violation, verify};
use heap_host::plan::{self, Buffer, Instance, Options, generate};

/// A rectangle and its offsets: pieces of one lower edge stacked by hand.
fn full() -> (Instance, Vec<u64>) {
    let buffers = vec![
        Buffer::new("a", 0, 4, 8).aligned_to(8),
        Buffer::new("b", 4, 9, 8).aligned_to(8),
        Buffer::new("c", 0, 6, 16).aligned_to(8),
        Buffer::new("d", 6, 9, 16).aligned_to(8),
        Buffer::new("e", 0, 9, 8).aligned_to(8),
    ];
    (Instance::new(buffers).unwrap(), vec![0, 0, 8, 8, 24])
}

/// Whether two buffers share a step and a byte, by looking at each step.
fn overlap_somewhere(instance: &Instance, offsets: &[u64]) -> bool {
    let buffers = instance.buffers();
    (0..buffers.len()).any(|a| {
        (0..a).any(|b| {
            let steps =
                buffers[a].lower.max(buffers[b].lower)..buffers[a].upper.min(buffers[b].upper);
            let low = offsets[a].max(offsets[b]);
            let high = (offsets[a] + buffers[a].size).min(offsets[b] + buffers[b].size);
            !steps.is_empty() && low < high
        })
    })
}

#[test]
fn the_sound_plan_passes() {
    let (instance, offsets) = full();
    assert_eq!(verify(&instance, &offsets), Ok(32));
}

#[test]
fn shifting_one_by_its_alignment_is_caught() {
    let (instance, offsets) = full();
    for index in 0..offsets.len() - 1 {
        let mut shifted = offsets.clone();
        shifted[index] += 8;
        let found = verify(&instance, &shifted).unwrap_err();
        let Violation::Overlap { lower, upper, step } = &found else {
            panic!("{found}")
        };
        assert!(lower.index == index || upper.index == index, "{found}");
        assert_eq!(lower.offset, shifted[lower.index]);
        assert_eq!(
            upper.end,
            shifted[upper.index] + instance.buffers()[upper.index].size
        );
        assert!(lower.end > upper.offset);
        for place in [lower, upper] {
            assert!(instance.buffers()[place.index].is_live_at(*step));
            assert_eq!(place.name, instance.buffers()[place.index].name);
        }
    }
}

#[test]
fn shifting_one_by_a_byte_is_caught_as_misaligned() {
    let (instance, offsets) = full();
    for index in 0..offsets.len() {
        let mut shifted = offsets.clone();
        shifted[index] += 1;
        let found = verify(&instance, &shifted).unwrap_err();
        assert!(
            matches!(found, Violation::Misaligned { index: i, .. } if i == index),
            "{found}"
        );
    }
}

#[test]
fn every_shift_by_a_byte_and_every_swap_in_planned_instances_is_judged_rightly() {
    let (mut caught, mut legal) = (0, 0);
    for seed in 0..8 {
        let instance = generate::cut_rectangle(seed, 40, 50, 1000);
        let plan = plan::plan(&instance, &Options::default()).unwrap();
        let offsets = plan.offsets();
        let mut judge = |changed: &[u64]| {
            let found = verify(&instance, changed);
            assert_eq!(
                found.is_err(),
                overlap_somewhere(&instance, changed),
                "{found:?}"
            );
            *if found.is_err() {
                &mut caught
            } else {
                &mut legal
            } += 1;
        };
        for a in 0..offsets.len() {
            let mut shifted = offsets.to_vec();
            shifted[a] += 1;
            judge(&shifted);
            for b in 0..a {
                let mut swapped = offsets.to_vec();
                swapped.swap(a, b);
                judge(&swapped);
            }
        }
    }
    // Both kinds must occur, or the comparison says nothing.
    assert!(
        caught > 1000 && legal > 10,
        "{caught} caught, {legal} legal"
    );
}
