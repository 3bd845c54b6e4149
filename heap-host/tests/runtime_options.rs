//! What is refused before anything runs.

mod runtime_support;

use heap_host::plan::Plan;
use heap_host::runtime::{
    ConfigError, Configuration, Debug, Executor, Options, OptionsError, RunError,
};
use heap_host::sequence::{BufferSpec, Scope, SequenceBuilder};
use runtime_support::{EVENTS, tracks};

fn refused(options: Options) -> String {
    let error = Configuration::new(&tracks(), &options).unwrap_err();
    error.to_string()
}

/// Seen in pytorch/pytorch#119452: two options together end in an assertion.
#[test]
fn options_that_do_not_go_together_have_one_clear_error_each() {
    let defaults = Options::default;
    let cases = [
        (
            Options {
                streams: 0,
                ..defaults()
            },
            "streams is 0",
        ),
        (
            Options {
                events: Some(101),
                ..defaults()
            },
            "raise its parameter \"events\" from 100",
        ),
        (
            Options {
                batches: u64::MAX,
                ..defaults()
            },
            "ask for fewer batches",
        ),
        (
            Options {
                streams: 3,
                pool_bytes: Some(u64::MAX / 2),
                ..defaults()
            },
            "ask for fewer streams or a smaller pool",
        ),
        (
            Options {
                outputs: vec!["hots".into()],
                ..defaults()
            },
            "name one of its buffers",
        ),
        (
            Options {
                outputs: vec!["scratch".into()],
                ..defaults()
            },
            "is a temporary",
        ),
        (
            Options {
                outputs: vec!["hits".into(); 2],
                ..defaults()
            },
            "list it once",
        ),
        (
            Options {
                pool_bytes: Some(10),
                ..defaults()
            },
            "the pool of 10 bytes for dynamic device",
        ),
        (
            Options {
                host_pool_bytes: Some(0),
                ..defaults()
            },
            "for dynamic host buffers is refused",
        ),
    ];
    for (options, wanted) in cases {
        let text = refused(options);
        assert!(text.contains(wanted), "{text}");
    }
}

/// A batch that the arenas are not planned for is refused before any of it
/// runs; smaller ones lie at the same offsets.
#[test]
fn a_larger_batch_is_refused_before_anything_runs() {
    let options = Options {
        events: Some(50),
        ..Options::default()
    };
    let mut executor = Executor::configure(&tracks(), &options).unwrap();
    executor.on("count", |_| panic!("it ran")).unwrap();
    let error = executor.run_batch(0, 51).unwrap_err();
    assert_eq!(
        error,
        RunError::BatchTooLarge {
            events: 51,
            max: 50
        }
    );
    let error = executor.run_batch(u64::MAX, 2).unwrap_err();
    assert!(matches!(error, RunError::EventOverflow { .. }));
    let error = executor.run_batch(0, 50).unwrap_err();
    assert!(matches!(error, RunError::Kernel { .. }), "now it ran");
}

#[test]
fn a_capacity_bounds_the_arena() {
    let mut options = Options::default();
    options.plan.capacity = Some(100);
    let text = refused(options);
    assert!(text.contains("exceeds the capacity of 100"), "{text}");
}

/// A plan fits the sequence and the options that it was made for, and no others.
#[test]
fn a_stale_plan_is_refused() {
    let options = Options::default();
    let plans = |config: &Configuration| -> [Plan; 2] {
        [Scope::Host, Scope::Device].map(|scope| config.arena(scope).plan.clone())
    };
    let made = plans(&Configuration::new(&tracks(), &options).unwrap());
    assert!(Configuration::with_plans(&tracks(), &options, &made).is_ok());
    let smaller = Options {
        events: Some(EVENTS - 1),
        ..Options::default()
    };
    let stale = Configuration::with_plans(&tracks(), &smaller, &made).unwrap_err();
    assert!(matches!(stale, ConfigError::PlanFault { .. }), "{stale}");
    assert!(stale.to_string().contains("stale"), "{stale}");
}

#[test]
fn a_sequence_for_no_events_is_not_to_be_asked_for_fewer() {
    let mut b = SequenceBuilder::new("none");
    b.parameter("events", 0);
    let options = Options {
        events: Some(1),
        ..Options::default()
    };
    let error = options.validate(&b.build().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch of 1 events exceeds what sequence \"none\" allows; raise its parameter \"events\" \
         from 0, which allows no event at all"
    );
}

/// The planner gets from outside what a configuration plans.
#[test]
fn static_instances_are_those_that_are_planned() {
    let options = Options {
        outputs: vec!["flags".into()],
        debug: Debug::ALL,
        ..Options::default()
    };
    let config = Configuration::new(&tracks(), &options).unwrap();
    for scope in [Scope::Host, Scope::Device] {
        let instance = Configuration::static_instance(&tracks(), &options, scope).unwrap();
        assert_eq!(config.arena(scope).plan.check_for(&instance), Ok(()));
        let plain = Configuration::static_instance(&tracks(), &Options::default(), scope);
        assert_ne!(plain.unwrap(), instance, "guards count");
    }
    let events = Some(EVENTS + 1);
    let larger = Options { events, ..options };
    assert!(Configuration::static_instance(&tracks(), &larger, Scope::Host).is_err());
}

/// Seen in rapidsai/rmm#2451: products wrap. Batches above a sequence's maximum
/// cannot be asked for, so its own checks cover every size that can come up.
#[test]
fn memory_that_there_is_not_is_an_error() {
    let mut b = SequenceBuilder::new("huge");
    let events = b.parameter("events", 1);
    let make = b.algorithm("make");
    let huge = BufferSpec::device_static("huge").element_bytes(1 << 60);
    b.write(make, huge.per(events, 1));
    let sequence = b.build().unwrap();
    let error = Executor::configure(&sequence, &Options::default()).unwrap_err();
    assert!(matches!(error, RunError::Backend(_)), "{error}");
    assert!(error.to_string().contains("static device arena"), "{error}");
    // No events, no memory.
    let none = Options {
        events: Some(0),
        ..Options::default()
    };
    assert!(Executor::configure(&sequence, &none).is_ok());
}

#[test]
fn options_know_the_sequence_for_which_they_are_wrong() {
    let options = Options {
        events: Some(500),
        ..Options::default()
    };
    let error = options.validate(&tracks()).unwrap_err();
    let sequence = "tracks".to_owned();
    assert_eq!(
        error,
        OptionsError::TooManyEvents {
            sequence,
            events: 500,
            max: EVENTS
        }
    );
}
