//! What the runtime logs. Alone in its process: which events are of interest is
//! cached for all threads, and a test without a subscriber would spoil it.

mod runtime_support;

use std::sync::Arc;

use heap_host::runtime::{Executor, Options};
use parking_lot::Mutex;
use runtime_support::tracks;

/// Seen in rapidsai/rmm#562: the log has what succeeded, and not the request
/// that failed.
#[test]
fn the_log_has_the_request_that_fails_as_its_last() {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);
    struct Line(String);
    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0 += &format!("{field}={value:?} ");
        }
    }
    impl tracing::Subscriber for Log {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            if line.0.contains("message=allocate") {
                self.0.lock().push(line.0);
            }
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let options = Options {
            pool_bytes: Some(12 << 10),
            ..Options::default()
        };
        let mut executor = Executor::configure(&tracks(), &options).unwrap();
        executor
            .on("count", |ctx| Ok(ctx.set_total("T.hits", 5000)?))
            .unwrap();
        let outcome = executor.run_batch(0, 1).unwrap();
        assert_eq!(outcome.events_failed, [0]);
    });
    let lines = log.0.lock();
    let last = lines.last().unwrap();
    for part in [
        "buffer=hits",
        "bytes=80000",
        "algorithm=decode",
        "scope=device",
    ] {
        assert!(last.contains(part), "{last}");
    }
}
