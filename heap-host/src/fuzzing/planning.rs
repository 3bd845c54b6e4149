//! Planning instances from bytes.

use super::instance::{RECORD, Record};
use crate::plan::bound::{LowerBound, lower_bound};
use crate::plan::verify::verify_within;
use crate::plan::{self, Buffer, Instance, Options, Plan, PlanError, Status};

/// Plans the instance that `bytes` stand for, and checks all that is said
/// about a plan.
///
/// # Panics
///
/// If something said is not so.
pub fn plan(bytes: &[u8]) {
    let (head, rest) = bytes.split_at(bytes.len().min(RECORD));
    let buffers: Vec<Buffer> = (0..)
        .zip(rest.chunks(RECORD))
        .map(|(index, record)| Record::new(record).buffer(index))
        .collect();
    let count = buffers.len();
    let instance = match Instance::new(buffers) {
        Ok(instance) => instance,
        Err(error) => return assert!(error.index() < count, "{error}"),
    };
    let bound = lower_bound(&instance);
    check_bound(&instance, &bound);
    let options = Record::new(head).options(&instance, bound.bytes);
    match plan::plan(&instance, &options) {
        Ok(plan) => {
            assert_eq!(*plan.lower_bound(), bound);
            check_plan(&instance, &options, &plan);
        }
        Err(error) => check_refusal(&instance, &bound, &error),
    }
}

/// The proof of the bound is one.
fn check_bound(instance: &Instance, bound: &LowerBound) {
    let Some(step) = bound.step else {
        assert!(bound.bytes == 0 && bound.buffers.is_empty(), "{bound:?}");
        let spaceless = |buffer: &Buffer| !buffer.takes_space();
        assert!(instance.buffers().iter().all(spaceless), "{bound:?}");
        return;
    };
    let proof = || {
        bound
            .buffers
            .iter()
            .map(|&index| &instance.buffers()[index])
    };
    let holds = |buffer: &Buffer| {
        buffer.is_live_at(step) && buffer.alignment.is_multiple_of(bound.granularity)
    };
    assert!(proof().all(holds), "{bound:?}");
    let rounded =
        |buffer: &Buffer| u128::from(buffer.size).next_multiple_of(bound.granularity.into());
    let sum: u128 = proof().map(rounded).sum();
    let rounding = proof()
        .map(|buffer| rounded(buffer) - u128::from(buffer.size))
        .max();
    let proved = sum - rounding.unwrap_or(0);
    assert_eq!(
        u128::from(bound.bytes),
        proved.min(u64::MAX.into()),
        "{bound:?}"
    );
}

fn check_plan(instance: &Instance, options: &Options, plan: &Plan) {
    plan.verify(instance).expect("a plan is valid");
    check_each_pair(instance.buffers(), plan.offsets());
    check_status(options, plan);
    if let Some(capacity) = options.capacity {
        let within = verify_within(instance, plan.offsets(), capacity);
        assert_eq!(within.is_ok(), plan.fits(), "{within:?}");
    }
    let spaceless = |&index: &usize| !instance.buffers()[index].takes_space();
    let expected: Vec<usize> = (0..instance.len()).filter(spaceless).collect();
    assert_eq!(plan.spaceless(), expected);
    assert!(expected.iter().all(|&index| plan.offsets()[index] == 0));
    let again = plan::plan(instance, options).expect("it was planned before");
    assert_eq!(again.offsets(), plan.offsets(), "not deterministic");
}

/// [`Plan::verify`] once more, without its sweep.
fn check_each_pair(buffers: &[Buffer], offsets: &[u64]) {
    let all: Vec<_> = buffers
        .iter()
        .zip(offsets)
        .filter(|(buffer, _)| buffer.takes_space())
        .collect();
    for (index, &(a, &at)) in all.iter().enumerate() {
        for &(b, &other) in &all[..index] {
            let share_a_step = a.lower < b.upper && b.lower < a.upper;
            let apart = at >= other + b.size || other >= at + a.size;
            assert!(apart || !share_a_step, "{a:?} at {at} and {b:?} at {other}");
        }
    }
}

fn check_status(options: &Options, plan: &Plan) {
    let (peak, bound) = (plan.peak(), plan.lower_bound().bytes);
    assert!(peak >= bound, "a peak of {peak} below the bound {bound}");
    let expected = match options.capacity {
        Some(capacity) if capacity < bound => Status::Infeasible,
        _ if peak == bound => Status::Optimal,
        _ => Status::Feasible,
    };
    assert_eq!(plan.status(), expected);
    assert_eq!(plan.capacity(), options.capacity);
    assert_eq!(
        plan.fits(),
        options.capacity.is_none_or(|capacity| peak <= capacity)
    );
    assert!(!(plan.fits() && expected == Status::Infeasible));
}

/// A refusal is right only where buffers side by side, each with all the
/// padding that it can need, pass the end of the address space.
fn check_refusal(instance: &Instance, bound: &LowerBound, error: &PlanError) {
    let PlanError::AddressSpace { buffers, needed } = *error;
    let placed = || {
        instance
            .buffers()
            .iter()
            .filter(|buffer| buffer.takes_space())
    };
    assert_eq!((buffers, needed), (placed().count(), bound.bytes));
    let padded = |buffer: &Buffer| u128::from(buffer.size) + u128::from(buffer.alignment - 1);
    let widest: u128 = placed().map(padded).sum();
    assert!(
        widest > u64::MAX.into(),
        "{error}, but {widest} bytes are enough"
    );
}
