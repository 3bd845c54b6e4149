//! Two memory pools for GPU pipelines, one lifetime model.
//!
//! A pipeline is a sequence of algorithms (kernels) that write and read
//! buffers. The sizes of some buffers are known when the pipeline is
//! configured: they get a place in a **static arena**, planned from lifetimes,
//! whose peak is known before anything runs. The sizes of others are known only
//! once a kernel has counted: they come from a **dynamic pool**, by a heap that
//! works on the device, so that the host neither learns an address nor waits.
//!
//! | module | what is in it |
//! |---|---|
//! | [`sequence`] | algorithms and buffers: the builder, the JSON format, lifetimes |
//! | [`plan`] | offsets from lifetimes, lower bounds, the verifier, CSV files |
//! | [`runtime`] | running a sequence: executor, CPU backend, report |
//! | [`pool`] | the heap in host memory, for host threads |
//! | [`kernels`] | the heap itself: `no_std`, for host threads and GPU lanes |
//! | [`file`](mod@file) | reading and writing files that the user names |
//! | [`stress`] | random operations on the heap, checked against a shadow model |
//! | [`selftest`] | proof that the heap works on this machine, card or CPU |
//!
//! DESIGN.md at the repository's root says how it works; the program `dheap`
//! is the command line over all of it.
//!
//! # A sequence of one's own
//!
//! Algorithms are closures, and reach their buffers by name. Where none is
//! given, a built-in kernel fills the buffers with a pattern and verifies it at
//! every read.
//!
//! ```
//! use device_heap::runtime::{Executor, Options};
//! use device_heap::sequence::{BufferSpec, SequenceBuilder};
//!
//! // Each event has 0 to 3 hits: how many in all, only the device knows.
//! let mut b = SequenceBuilder::new("hits");
//! b.parameter("events", 1000);
//! let count = b.algorithm("count");
//! let total = b.total("T.hits", count, "1.5");
//! let decode = b.algorithm("decode");
//! let hits = b.write(decode, BufferSpec::device_dynamic("hits").elements_of::<f32>().per(total, 1));
//! let sum = b.algorithm("sum");
//! b.read(sum, hits);
//! b.write(sum, BufferSpec::host_static("sums").elements_of::<f32>().constant(1));
//! let sequence = b.build()?;
//!
//! let options = Options { outputs: vec!["sums".into()], ..Options::default() };
//! let mut executor = Executor::configure(&sequence, &options)?;
//! executor.on("count", |ctx| Ok(ctx.set_counts("T.hits", ctx.events().map(|event| event % 4))?))?;
//! executor.on("decode", |ctx| {
//!     ctx.write::<f32>("hits")?.fill(0.5);
//!     Ok(())
//! })?;
//! executor.on("sum", |ctx| {
//!     ctx.write::<f32>("sums")?[0] = ctx.read::<f32>("hits")?.iter().sum();
//!     Ok(())
//! })?;
//! executor.on_output("sums", |events, bytes| {
//!     let sum = f32::from_le_bytes(bytes.try_into().unwrap());
//!     assert_eq!((events, sum), (0..1000, 750.0));
//! })?;
//!
//! let outcome = executor.run_batch(0, 1000)?;
//! assert_eq!(outcome.events_done, 1000);
//! assert_eq!(outcome.host_syncs, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "cuda")]
pub use heap_host::cuda;
pub use heap_host::{file, plan, pool, runtime, selftest, sequence, stress};
pub use heap_kernels as kernels;

/// The program in the format's documentation compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../sequences/README.md")]
struct FormatReference;
