//! Faults planted in the program or the plan of a batch: what the runtime would
//! do wrong is what its checks must see.

use std::sync::Arc;

use crate::plan::{self, Instance};
use crate::sequence::{BufferId, BufferSpec, Kind, Scope, Sequence, SequenceBuilder};

use super::configuration::Configuration;
use super::control::Image;
use super::executor::Executor;
use super::finding::FindingFault;
use super::options::{Debug, Options};
use super::outcome::BatchOutcome;
use super::program::Step;

/// `make` -> `middle` -> `end`, with a dynamic buffer, a static one and a view
/// of the dynamic one that all live from the first to the last.
fn sequence() -> Sequence {
    let mut b = SequenceBuilder::new("planted");
    let events = b.parameter("events", 50);
    let count = b.algorithm("count");
    let total = b.total("items", count, 9);
    let make = b.algorithm("make");
    let dynamic = BufferSpec::device_dynamic("dynamic").element_bytes(24);
    let dynamic = b.write(make, dynamic.per(total, 1));
    let fixed = b.write(
        make,
        BufferSpec::device_static("fixed")
            .element_bytes(40)
            .per(events, 2),
    );
    let view = BufferSpec::device_static("view").element_bytes(16);
    let view = b.write(make, view.constant(1).keeps_alive(dynamic));
    let middle = b.algorithm("middle");
    let other = BufferSpec::device_dynamic("other").element_bytes(24);
    b.write(middle, other.per(total, 1));
    let later = BufferSpec::device_static("later").element_bytes(40);
    b.write(middle, later.per(events, 2));
    let end = b.algorithm("end");
    b.read_all(end, [fixed, view]);
    b.build().unwrap()
}

fn configuration(debug: Debug) -> Configuration {
    let options = Options {
        debug,
        ..Options::default()
    };
    Configuration::new(&sequence(), &options).unwrap()
}

fn run(config: Configuration) -> (Executor, BatchOutcome) {
    let mut executor = Executor::with_configuration(Arc::new(config)).unwrap();
    let events = executor.configuration().max_events();
    let outcome = executor.run_batch(0, events).unwrap();
    (executor, outcome)
}

/// Takes the free of a buffer out of the program.
fn without_free(config: &mut Configuration, name: &str) -> Step {
    let id = config.sequence.buffer_named(name).unwrap();
    let mut found = None;
    for step in &mut config.program.steps {
        if let Step::Free { algorithm, buffers } = step
            && buffers.contains(&id)
        {
            buffers.retain(|&buffer| buffer != id);
            let (algorithm, buffers) = (*algorithm, vec![id]);
            found = Some(Step::Free { algorithm, buffers });
        }
    }
    found.expect("the program frees it")
}

/// Puts a step behind the kernel of an algorithm.
fn insert_after(config: &mut Configuration, name: &str, step: Step) {
    let algorithm = config.sequence.algorithm_named(name).unwrap();
    let kernel = Step::Kernel { algorithm };
    let at = config.program.steps.iter().position(|step| *step == kernel);
    config.program.steps.insert(at.unwrap() + 1, step);
}

#[test]
fn the_unchanged_program_is_clean() {
    for debug in [Debug::default(), Debug::ALL] {
        assert!(run(configuration(debug)).1.verified());
    }
}

#[test]
fn a_buffer_that_is_not_freed_is_reported_by_name() {
    let mut config = configuration(Debug::default());
    without_free(&mut config, "dynamic");
    let (mut executor, outcome) = run(config);
    assert!(!outcome.verified());
    let leak = &outcome.leaks[0];
    assert_eq!((&*leak.buffer, &*leak.algorithm), ("dynamic", "make"));
    assert_eq!(leak.bytes % 24, 0);
    assert_eq!(outcome.leaks.len(), 1);
    // The next batch has the whole pool again.
    assert_eq!(executor.leaked_bytes(Scope::Device), 0);
    let next = executor.run_batch(50, 50).unwrap();
    assert_eq!(next.leaks.len(), 1);
}

/// Seen in NVIDIA/warp#1418: a free that does not wait for every reader; and in
/// drsnuggles8/OloEngineBase#547: a view that keeps nothing alive.
#[test]
fn a_free_before_the_last_reader_is_found() {
    let mut config = configuration(Debug::default());
    let free = without_free(&mut config, "dynamic");
    insert_after(&mut config, "make", free);
    let (_, outcome) = run(config);
    let finding = &outcome.findings[0];
    assert_eq!(finding.kind, FindingFault::NotLive);
    assert_eq!((&*finding.algorithm, &*finding.buffer), ("end", "dynamic"));
}

/// A second free of a handle is no free at all.
#[test]
fn a_handle_cannot_be_freed_twice() {
    let mut config = configuration(Debug::ALL);
    let free = without_free(&mut config, "dynamic");
    for _ in 0..2 {
        insert_after(&mut config, "end", free.clone());
    }
    let (_, outcome) = run(config);
    assert!(outcome.verified(), "{:?}", outcome.findings);
    assert_eq!(outcome.device.allocations, outcome.device.frees);
}

/// A plan in which `fixed` ends too early, so that `later` lies on it.
fn overlapping(config: &Configuration) -> plan::Plan {
    let arena = config.arena(Scope::Device);
    let planned = |&id: &BufferId| {
        let buffer = config.sequence.buffer(id);
        let range = config.ranges[id.index()];
        let last = if buffer.name == "fixed" {
            range.first
        } else {
            range.last
        };
        let size = buffer
            .bytes(&config.sequence.parameters_at(50), &[0])
            .unwrap();
        plan::Buffer::new(&buffer.name, range.first.into(), u64::from(last) + 1, size)
            .aligned_to(buffer.alignment)
    };
    let buffers = arena.buffers.iter().map(planned).collect();
    plan::plan(&Instance::new(buffers).unwrap(), &plan::Options::default()).unwrap()
}

/// A wrong plan does not get past the configuration; if it did, the contents
/// would tell at once: where the second buffer is written, not where the first
/// is read.
#[test]
fn overlapping_static_buffers_are_found() {
    let mut config = configuration(Debug::default());
    let plan = overlapping(&config);
    assert!(plan.peak() < config.arena(Scope::Device).plan.peak());
    let plans = [config.arena(Scope::Host).plan.clone(), plan.clone()];
    let options = Options::default();
    assert!(Configuration::with_plans(&config.sequence, &options, &plans).is_err());

    config.arenas[Scope::Device as usize].plan = plan;
    let (_, outcome) = run(config);
    let finding = &outcome.findings[0];
    assert_eq!(finding.kind, FindingFault::Mismatch);
    assert_eq!((&*finding.algorithm, &*finding.buffer), ("end", "fixed"));
    assert!(finding.event.is_some());
}

/// A step that is lost is noticed by the kernel that relies on it.
#[test]
fn a_lost_fill_is_found() {
    let mut b = SequenceBuilder::new("filled");
    b.parameter("events", 5);
    let make = b.algorithm("make");
    let filled = BufferSpec::device_static("filled").element_bytes(4);
    b.write(make, filled.constant(100).fill(9));
    let options = Options::default();
    let mut config = Configuration::new(&b.build().unwrap(), &options).unwrap();
    config
        .program
        .steps
        .retain(|step| !matches!(step, Step::Fill { .. }));
    let (_, outcome) = run(config);
    assert_eq!(outcome.findings[0].kind, FindingFault::Mismatch);
    assert_eq!(
        (outcome.findings[0].expected, outcome.findings[0].found),
        (9, 0)
    );
}

/// More findings than a control block has room for are counted all the same.
#[test]
fn findings_beyond_the_described_ones_are_counted() {
    let mut b = SequenceBuilder::new("many");
    b.parameter("events", 1);
    let make = b.algorithm("make");
    let buffers: Vec<BufferId> = (0..40)
        .map(|index| {
            let spec = BufferSpec::device_static(format!("b{index}")).element_bytes(8);
            b.write(make, spec.constant(10))
        })
        .collect();
    let last = b.algorithm("last");
    b.read_all(last, buffers);
    let sequence = b.build().unwrap();
    let options = Options {
        debug: Debug::ALL,
        ..Options::default()
    };
    let mut executor = Executor::configure(&sequence, &options).unwrap();
    executor.on("make", |_| Ok(())).unwrap();
    executor
        .on("last", |ctx| {
            for index in 0..40 {
                ctx.read::<u64>(&*format!("b{index}"))?;
            }
            Ok(())
        })
        .unwrap();
    let outcome = executor.run_batch(0, 1).unwrap();
    assert_eq!((outcome.findings.len(), outcome.findings_total), (16, 40));
}

/// Each algorithm frees what it is the last to need, and allocates its largest
/// buffer first.
#[test]
fn a_program_has_one_allocate_and_one_free_step_per_algorithm() {
    let sequence = crate::sequence::shipped::hlt1_pp_default();
    let config = Configuration::new(&sequence, &Options::default()).unwrap();
    let (mut allocated, mut freed) = (Vec::new(), Vec::new());
    let (mut allocating, mut freeing) = (Vec::new(), Vec::new());
    for step in &config.program().steps {
        match step {
            Step::Allocate {
                algorithm,
                requests,
            } => {
                allocating.push(*algorithm);
                let totals = sequence.expected_totals(1000).unwrap();
                let bytes = |id: BufferId| {
                    let buffer = sequence.buffer(id);
                    buffer
                        .bytes(&sequence.parameters_at(1000), &totals)
                        .unwrap()
                };
                let sizes = requests.iter().map(|request| bytes(request.buffer));
                assert!(sizes.is_sorted_by(|a, b| a >= b));
                allocated.extend(requests.iter().map(|request| request.buffer));
            }
            Step::Free { algorithm, buffers } => {
                freeing.push(*algorithm);
                for &buffer in buffers {
                    let range = config.live_ranges()[buffer.index()];
                    assert_eq!(range.last as usize, algorithm.index());
                }
                freed.extend(buffers.iter().copied());
            }
            _ => {}
        }
    }
    for steps in [allocating, freeing] {
        assert!(steps.is_sorted_by(|a, b| a < b), "one step per algorithm");
    }
    allocated.sort_unstable();
    freed.sort_unstable();
    let dynamic = |id: &BufferId| sequence.buffer(*id).kind == Kind::Dynamic;
    let all: Vec<BufferId> = (0..sequence.buffers().len())
        .map(BufferId::new)
        .filter(dynamic)
        .collect();
    assert_eq!((&allocated, &freed), (&all, &all));
}

/// Where the host and the device think that things are is one layout; its parts
/// do not overlap, and there is no word behind the last one.
#[test]
fn control_words_are_disjoint() {
    use super::control::{ControlLayout, Words};
    use super::record::{Handle, Status};
    use crate::sequence::{ParameterId, TotalId};
    let sequence = sequence();
    let layout = ControlLayout::new(&sequence, 50).unwrap();
    let mut image = Image::blank(layout);
    let mut next = layout.parameter(ParameterId::new(0));
    next += sequence.parameters().len() as u64;
    for index in 0..sequence.buffers().len() {
        let id = BufferId::new(index);
        assert_eq!(layout.handle(id), next);
        next += 4;
        let handle = Handle {
            address: 1 + index as u64,
            elements: u64::MAX,
            bytes: 3,
            status: Status::Freed,
        };
        image.set_handle(id, handle);
        assert_eq!(image.handle(id), handle);
    }
    assert_eq!(layout.total(TotalId::new(0)), next);
    next += 2;
    assert_eq!(layout.shared_words() as u64, next);
    let offsets = layout.offsets(TotalId::new(0), 50);
    assert_eq!((offsets.start as u64, offsets.len()), (next, 51));
    assert_eq!(layout.bytes(), (next + 51) * 8);
    assert!(ControlLayout::new(&sequence, u64::MAX).is_none());
    assert!(ControlLayout::new(&sequence, u64::MAX / 8).is_none());
}
