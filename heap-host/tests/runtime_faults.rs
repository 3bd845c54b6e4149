//! Planted faults: every check is shown to catch what it is there for.

mod runtime_support;

use heap_host::runtime::{Debug, Executor, FindingFault, Options, RunError};
use heap_host::sequence::BufferId;
use runtime_support::{EVENTS, assert_clean, error, executor, first_finding, tracks};

/// Writes `value` at `index` counted in bytes from a buffer's start.
fn poke(executor: &mut Executor, algorithm: &str, buffer: &'static str, index: Poke) {
    let tap = move |ctx: &heap_host::runtime::KernelContext<'_>| {
        let bytes = ctx.elements(buffer)? * element_bytes(ctx, buffer);
        let at = match index {
            Poke::At(at) => at,
            Poke::BehindEnd(by) => bytes + by,
        };
        // SAFETY: inside the region, if not inside the buffer: that is the
        // fault.
        unsafe { ctx.pointer(buffer)?.add(at as usize).write(0x5a) };
        Ok(())
    };
    executor.after(algorithm, tap).unwrap();
}

#[derive(Clone, Copy)]
enum Poke {
    At(u64),
    BehindEnd(u64),
}

fn element_bytes(ctx: &heap_host::runtime::KernelContext<'_>, buffer: &str) -> u64 {
    let id = ctx.sequence().buffer_named(buffer).unwrap();
    ctx.sequence().buffer(id).element_bytes
}

/// Seen in rapidsai/rmm#1899: nobody sees what is written inside a pool.
#[test]
fn a_changed_byte_is_found_at_the_next_read() {
    let mut executor = Executor::configure(&tracks(), &Options::default()).unwrap();
    poke(&mut executor, "seed", "hits", Poke::At(1000));
    let outcome = executor.run_batch(7, EVENTS).unwrap();
    assert!(!outcome.verified());
    let finding = &outcome.findings[0];
    assert_eq!(finding.kind, FindingFault::Mismatch);
    assert_eq!(
        (&*finding.algorithm, &*finding.buffer),
        ("fit", "hits"),
        "the first to read it"
    );
    // 16 bytes an element: it is the batch's 62nd, and event 7 has 10 to 37.
    let event = finding.event.unwrap();
    assert!((8..=13).contains(&event), "{finding}");
    // Byte 1000 is the lowest of its word.
    assert!(
        (1..=0xff).contains(&(finding.expected ^ finding.found)),
        "{finding}"
    );
}

/// Seen in rapidsai/rmm#1899 and llnl/Umpire#420: one byte behind the requested
/// size, though inside of what the allocator rounded it up to.
#[test]
fn one_byte_behind_the_end_is_found_and_named() {
    for (writer, buffer) in [
        ("decode", "hits"),
        ("decode", "scratch"),
        ("count", "counts"),
        ("select", "decisions"),
        ("select", "summary"),
    ] {
        let mut executor = executor(Options::default());
        poke(&mut executor, writer, buffer, Poke::BehindEnd(0));
        let text = first_finding(&mut executor);
        assert!(
            text.contains(&format!("byte 0 behind the end of buffer {buffer:?}"))
                && text.contains(&format!("algorithm {writer:?} ran last")),
            "{text}"
        );
    }
}

#[test]
fn the_guard_reaches_to_its_last_byte_and_names_the_algorithm_that_ran_last() {
    let mut executor = executor(Options::default());
    poke(&mut executor, "fit", "hits", Poke::BehindEnd(255));
    let text = first_finding(&mut executor);
    assert!(
        text.contains("byte 255 behind the end of buffer \"hits\""),
        "{text}"
    );
    assert!(text.contains("algorithm \"fit\" ran last"), "{text}");
}

/// Seen in cms-sw/cmssw#45341: fill patterns show what was never written.
#[test]
fn a_read_of_what_was_never_written_is_found() {
    for (writer, buffer, reader) in [("decode", "hits", "seed"), ("count", "counts", "decode")] {
        let mut executor = executor(Options::default());
        executor.on(writer, set_totals).unwrap();
        let read = move |ctx: &heap_host::runtime::KernelContext<'_>| {
            ctx.read::<u8>(buffer)?;
            set_totals(ctx)
        };
        executor.on(reader, read).unwrap();
        let text = first_finding(&mut executor);
        let wanted =
            format!("algorithm {reader:?} reads buffer {buffer:?}, which nobody has written");
        assert_eq!(text, wanted);
    }
}

fn set_totals(
    ctx: &heap_host::runtime::KernelContext<'_>,
) -> Result<(), heap_host::runtime::KernelError> {
    match ctx.algorithm() {
        "count" => ctx.set_total("T.hits", 2000)?,
        "seed" => ctx.set_total("T.tracks", 300)?,
        _ => {}
    }
    Ok(())
}

/// Without poison, memory that nobody wrote would look like anything; with it,
/// a built-in reader's message says so.
#[test]
fn a_mismatch_says_where_poison_is() {
    let mut executor = executor(Options::default());
    let wipe = |ctx: &heap_host::runtime::KernelContext<'_>| {
        let mut hits = ctx.write::<u8>("hits")?;
        hits.fill(0xa5);
        Ok(())
    };
    executor.after("decode", wipe).unwrap();
    let text = first_finding(&mut executor);
    assert!(
        text.ends_with("(memory that was allocated and never written)"),
        "{text}"
    );
}

/// Seen in sgl-project/sglang#29921: reads of device values inside a batch.
#[test]
fn a_read_back_moves_the_counter() {
    let mut executor = executor(Options::default());
    let total = tracks().total_named("T.hits").unwrap();
    let hits: BufferId = tracks().buffer_named("hits").unwrap();
    executor
        .probe("decode", move |probe| {
            let total = probe.total(total).expect("it was scanned");
            let bytes = probe.bytes(hits).expect("it is live");
            assert_eq!(bytes.len() as u64, 16 * total);
        })
        .unwrap();
    let outcome = executor.run_batch(0, EVENTS).unwrap();
    assert_clean(&outcome, EVENTS);
    assert_eq!(outcome.host_syncs, 3);
}

/// Seen in pytorch/pytorch#13751, NVIDIA/cub#328 and cms-sw/cmssw#44763: an
/// error sticks, a lock stays taken, an error while freeing ends the process.
#[test]
fn after_a_failing_kernel_the_next_batch_is_clean() {
    for panics in [false, true] {
        let mut executor = executor(Options::default());
        let fail = move |ctx: &heap_host::runtime::KernelContext<'_>| match ctx.events().start {
            0 if panics => panic!("no good"),
            0 => Err("no good".into()),
            _ => Ok(()),
        };
        executor.after("fit", fail).unwrap();
        let algorithm = "fit".to_owned();
        let message = if panics {
            "it panicked: no good"
        } else {
            "no good"
        }
        .to_owned();
        assert_eq!(
            error(&mut executor),
            RunError::Kernel { algorithm, message }
        );
        for scope in [
            heap_host::sequence::Scope::Host,
            heap_host::sequence::Scope::Device,
        ] {
            assert_eq!(executor.leaked_bytes(scope), 0);
        }
        assert_clean(&executor.run_batch(EVENTS, EVENTS).unwrap(), EVENTS);
    }
}

#[test]
fn a_total_that_nobody_sets_is_named() {
    let mut executor = executor(Options::default());
    executor.on("count", |_| Ok(())).unwrap();
    let text = error(&mut executor).to_string();
    assert!(
        text.contains("\"count\"") && text.contains("\"T.hits\""),
        "{text}"
    );
}

/// Guards cost memory, not results.
#[test]
fn debug_modes_change_no_figures_but_the_high_water() {
    let run = |debug| {
        let options = Options {
            debug,
            ..Options::default()
        };
        let mut executor = Executor::configure(&tracks(), &options).unwrap();
        executor.run_batch(0, EVENTS).unwrap()
    };
    let (plain, debug) = (run(Debug::default()), run(Debug::ALL));
    assert_eq!(
        plain.device.lower_bound_bytes,
        debug.device.lower_bound_bytes
    );
    assert_eq!(plain.device.sum_bytes, debug.device.sum_bytes);
    assert_eq!(plain.device.allocations, debug.device.allocations);
}
