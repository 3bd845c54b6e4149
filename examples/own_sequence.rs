//! A pipeline of one's own: count, scan, decode, select. The sequence is built
//! here, its algorithms are closures, and its output comes back once per batch (or,
//! where the pool is too small for a batch, once per part that went through).
//!
//! ```sh
//! cargo run --release --example own_sequence
//! ```

use std::process::ExitCode;

use device_heap::runtime::{Executor, Options};
use device_heap::sequence::{BufferSpec, Sequence, SequenceBuilder, SequenceError};

/// Events of a batch.
const EVENTS: u64 = 1000;

/// What an event has, as in a detector: a few hits, sometimes many.
fn hits_of(event: u64) -> u64 {
    let noise = event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    if event.is_multiple_of(50) {
        40 + noise
    } else {
        noise / 8
    }
}

fn sequence() -> Result<Sequence, SequenceError> {
    let mut b = SequenceBuilder::new("own");
    let events = b.parameter("events", EVENTS);

    let count = b.algorithm("count_hits");
    let total = b.total("T.hits", count, "4.5");

    // Its size is a total: it is allocated on the device, when the total is
    // there, and freed right after its last reader.
    let decode = b.algorithm("decode_hits");
    let hits = b.write(
        decode,
        BufferSpec::device_dynamic("hits")
            .elements_of::<u32>()
            .per(total, 1),
    );

    // Its size follows from the batch: it has its place beforehand.
    let select = b.algorithm("select_events");
    b.read(select, hits);
    b.write(
        select,
        BufferSpec::host_static("decisions")
            .elements_of::<u8>()
            .per(events, 1),
    );
    b.build()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let sequence = sequence()?;
    let options = Options {
        outputs: vec!["decisions".into()],
        ..Options::default()
    };
    let mut executor = Executor::configure(&sequence, &options)?;

    executor.on("count_hits", |ctx| {
        Ok(ctx.set_counts("T.hits", ctx.events().map(hits_of))?)
    })?;
    executor.on("decode_hits", |ctx| {
        let offsets = ctx.offsets("T.hits")?;
        let mut hits = ctx.write::<u32>("hits")?;
        for (index, event) in ctx.events().enumerate() {
            hits[offsets[index] as usize..offsets[index + 1] as usize].fill(event as u32);
        }
        Ok(())
    })?;
    executor.on("select_events", |ctx| {
        let (offsets, hits) = (ctx.offsets("T.hits")?, ctx.read::<u32>("hits")?);
        let mut decisions = ctx.write::<u8>("decisions")?;
        for (index, event) in ctx.events().enumerate() {
            let own = &hits[offsets[index] as usize..offsets[index + 1] as usize];
            assert!(own.iter().all(|&hit| u64::from(hit) == event));
            decisions[index] = u8::from(own.len() >= 40);
        }
        Ok(())
    })?;
    executor.on_output("decisions", |events, decisions| {
        let selected = decisions.iter().filter(|&&decision| decision == 1).count();
        println!("events {events:?}: {selected} selected");
    })?;

    for batch in 0..3 {
        let outcome = executor.run_batch(batch * EVENTS, EVENTS)?;
        assert_eq!((outcome.events_done, outcome.host_syncs), (EVENTS, 0));
    }
    Ok(())
}
