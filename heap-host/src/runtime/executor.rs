//! Running batches.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::sequence::suggest::nearest;
use crate::sequence::{AlgorithmId, BufferId, ParameterId, Scope, Sequence};

use super::backend::{Backend, KernelFault};
use super::configuration::{Configuration, SCOPES};
use super::control::{Image, Words};
use super::cpu::{CpuBackend, KernelContext, KernelError};
use super::error::RunError;
use super::failure::{Failure, FailureReason};
use super::finding::leaks;
use super::guard::guarded;
use super::memory::HostPort;
use super::options::Options;
use super::outcome::BatchOutcome;
use super::probe::Probe;
use super::program::Step;
use super::record::{Cause, Handle, Header, Status};

/// One stream: regions of its own, in which batches run one after the other.
///
/// ```
/// use heap_host::runtime::{Executor, Options};
/// use heap_host::sequence::{BufferSpec, SequenceBuilder};
///
/// let mut b = SequenceBuilder::new("hits");
/// b.parameter("events", 100);
/// let count = b.algorithm("count");
/// let total = b.total("hits", count, 5);
/// let decode = b.algorithm("decode");
/// let hits = b.write(decode, BufferSpec::device_dynamic("hits_x").element_bytes(4).per(total, 1));
/// let sum = b.algorithm("sum");
/// b.read(sum, hits);
/// let sequence = b.build()?;
///
/// let mut executor = Executor::configure(&sequence, &Options::default())?;
/// executor.on("count", |ctx| Ok(ctx.set_counts("hits", ctx.events().map(|event| event % 3))?))?;
/// executor.on("decode", |ctx| {
///     ctx.write::<f32>("hits_x")?.fill(0.5);
///     Ok(())
/// })?;
/// executor.on("sum", |ctx| {
///     let sum: f32 = ctx.read::<f32>("hits_x")?.iter().sum();
///     assert_eq!(sum, 0.5 * ctx.total("hits")? as f32);
///     Ok(())
/// })?;
/// let outcome = executor.run_batch(0, 100)?;
/// assert_eq!((outcome.events_done, outcome.host_syncs), (100, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executor<B: Backend = CpuBackend> {
    config: Arc<Configuration>,
    backend: B,
    port: HostPort,
    probes: Vec<(AlgorithmId, ProbeFn<B>)>,
    sinks: Vec<(BufferId, SinkFn)>,
}

type ProbeFn<B> = Box<dyn FnMut(&mut Probe<'_, B>) + Send>;
type SinkFn = Box<dyn FnMut(Range<u64>, &[u8]) + Send>;

impl Executor {
    /// Plans `sequence` and sets up a CPU stream for it.
    ///
    /// # Errors
    /// [`RunError`] if the sequence cannot be planned so, or there is not
    /// enough memory.
    pub fn configure(sequence: &Sequence, options: &Options) -> Result<Self, RunError> {
        let config = Configuration::new(sequence, options)?;
        Self::with_configuration(Arc::new(config))
    }

    /// Runs `kernel` as an algorithm, instead of the built-in kernel. The
    /// contents of its outputs are its own: built-in kernels do not verify
    /// them.
    ///
    /// An event may pass through a kernel more than once, if the pool is too
    /// small for its batch; what must happen once belongs into
    /// [`on_output`](Self::on_output).
    ///
    /// # Errors
    /// [`RunError::UnknownAlgorithm`].
    pub fn on(
        &mut self,
        algorithm: &str,
        kernel: impl Fn(&KernelContext<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Result<(), RunError> {
        let id = self.algorithm(algorithm)?;
        self.backend.set_kernel(id, Box::new(kernel));
        Ok(())
    }

    /// Runs `tap` right after an algorithm's kernel, as a part of it.
    ///
    /// # Errors
    /// [`RunError::UnknownAlgorithm`].
    pub fn after(
        &mut self,
        algorithm: &str,
        tap: impl Fn(&KernelContext<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Result<(), RunError> {
        let id = self.algorithm(algorithm)?;
        self.backend.add_tap(id, Box::new(tap));
        Ok(())
    }
}

impl<B: Backend> Executor<B> {
    /// Sets up a stream for a configuration that others may share.
    ///
    /// # Errors
    /// [`RunError::Backend`] if there is not enough memory.
    pub fn with_configuration(config: Arc<Configuration>) -> Result<Self, RunError> {
        Ok(Self {
            backend: B::configure(Arc::clone(&config))?,
            config,
            port: HostPort::default(),
            probes: Vec::new(),
            sinks: Vec::new(),
        })
    }

    /// What this stream was made from.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.config
    }

    /// Calls `sink` with the contents of an output, once for each part of a
    /// batch that went through, with the events of that part. Every event that
    /// is done is in exactly one such call. If `sink` panics, the batch ends with
    /// [`RunError::Callback`], and the next one starts clean.
    ///
    /// # Errors
    /// [`RunError::NotAnOutput`] if the options do not list `buffer`.
    pub fn on_output(
        &mut self,
        buffer: &str,
        sink: impl FnMut(Range<u64>, &[u8]) + Send + 'static,
    ) -> Result<(), RunError> {
        let outputs = &self.config.outputs;
        let id = self.config.sequence.buffer_named(buffer);
        match id.filter(|id| outputs.contains(id)) {
            Some(id) => self.sinks.push((id, Box::new(sink))),
            None => {
                let outputs = self.config.options.outputs.iter();
                return Err(RunError::NotAnOutput {
                    name: buffer.into(),
                    nearest: nearest(buffer, outputs.map(String::as_str)),
                });
            }
        }
        Ok(())
    }

    /// Calls `probe` on the host after each run of an algorithm. What it reads
    /// from the device stalls the pipeline, and is counted as
    /// [`BatchOutcome::host_syncs`].
    ///
    /// # Errors
    /// [`RunError::UnknownAlgorithm`].
    pub fn probe(
        &mut self,
        algorithm: &str,
        probe: impl FnMut(&mut Probe<'_, B>) + Send + 'static,
    ) -> Result<(), RunError> {
        let id = self.algorithm(algorithm)?;
        self.probes.push((id, Box::new(probe)));
        Ok(())
    }

    /// Runs the events `first_event .. first_event + events`. Where the pool
    /// is too small for them, they are halved, down to single events.
    ///
    /// # Errors
    /// [`RunError`]; the executor is ready for the next batch.
    pub fn run_batch(&mut self, first_event: u64, events: u64) -> Result<BatchOutcome, RunError> {
        let max = self.config.max_events();
        if events > max {
            return Err(RunError::BatchTooLarge { events, max });
        }
        let end = first_event.checked_add(events);
        let end = end.ok_or(RunError::EventOverflow {
            first_event,
            events,
        })?;
        let mut outcome = BatchOutcome::default();
        let mut parts: Vec<Range<u64>> = std::iter::once(first_event..end).collect();
        while let Some(part) = parts.pop() {
            let Some(failure) = self.attempt(&part, &mut outcome)? else {
                outcome.events_done += part.end - part.start;
                continue;
            };
            tracing::debug!(%failure, "a batch did not fit");
            outcome.failures.push(failure);
            match part.end - part.start {
                0 => {}
                1 => outcome.events_failed.push(part.start),
                events => {
                    let middle = part.start + events / 2;
                    outcome.splits += 1;
                    parts.push(middle..part.end);
                    parts.push(part.start..middle);
                }
            }
        }
        Ok(outcome)
    }

    /// Runs these events once; what failed, if memory did.
    fn attempt(
        &mut self,
        part: &Range<u64>,
        outcome: &mut BatchOutcome,
    ) -> Result<Option<Failure>, RunError> {
        let image = self.prepare(part)?;
        let config = Arc::clone(&self.config);
        self.backend.upload(&image.words);
        self.port.open_batch();
        let mut fault = Ok(());
        for step in &config.program.steps {
            self.backend.launch(step);
            if fault.is_ok() {
                fault = self.call_probes(step, part);
            }
        }
        self.backend.wait();
        outcome.host_syncs += self.port.close_batch();
        let mut image = self.read_image();
        if !config.outputs.is_empty() {
            if image.header(Header::Failure) == 0 && fault.is_ok() {
                fault = self.deliver(part, &image);
            }
            config
                .program
                .release
                .iter()
                .for_each(|step| self.backend.launch(step));
            image = self.read_image();
        }
        outcome.add_attempt(&config, &image);
        self.clean_up(&image, outcome);
        fault.and_then(|()| self.verdict(&image))
    }

    /// The control block as the batch begins.
    fn prepare(&self, part: &Range<u64>) -> Result<Image, RunError> {
        let sequence = &self.config.sequence;
        let events = part.end - part.start;
        let parameters = sequence.parameters_at(events);
        let mut image = Image::blank(self.config.control);
        image.set_header(Header::FirstEvent, part.start);
        image.set_header(Header::Events, events);
        for (index, &value) in parameters.iter().enumerate() {
            image.set_parameter(ParameterId::new(index), value);
        }
        for scope in SCOPES {
            let arena = self.backend.arena_address(scope);
            for (id, offset) in self.config.arena(scope).offsets() {
                let buffer = sequence.buffer(id);
                let overflow = |overflow| {
                    let buffer = buffer.name.clone();
                    RunError::Size {
                        buffer,
                        events,
                        overflow,
                    }
                };
                let handle = Handle {
                    address: arena + offset,
                    elements: buffer.count.evaluate(&parameters, &[]).map_err(overflow)?,
                    bytes: buffer.bytes(&parameters, &[]).map_err(overflow)?,
                    status: Status::Live,
                };
                image.set_handle(id, handle);
            }
        }
        Ok(image)
    }

    fn call_probes(&mut self, step: &Step, part: &Range<u64>) -> Result<(), RunError> {
        let Step::Kernel { algorithm } = step else {
            return Ok(());
        };
        for (at, call) in &mut self.probes {
            if at == algorithm {
                let config = &self.config;
                let mut probe = Probe::new(&mut self.backend, &mut self.port, config);
                let name = &config.sequence.algorithm(*algorithm).name;
                guarded(|| call(&mut probe)).map_err(RunError::callback("probe", name, part))?;
            }
        }
        Ok(())
    }

    fn read_image(&mut self) -> Image {
        let layout = self.config.control;
        let address = self.backend.control_address();
        let count = layout.shared_words();
        Image::new(
            layout,
            self.port.read_words(&mut self.backend, address, count),
        )
    }

    fn deliver(&mut self, part: &Range<u64>, image: &Image) -> Result<(), RunError> {
        for (id, sink) in &mut self.sinks {
            let handle = image.handle(*id);
            let mut bytes = vec![0; handle.bytes as usize];
            self.port
                .read(&mut self.backend, handle.address, &mut bytes);
            let name = &self.config.sequence.buffer(*id).name;
            guarded(|| sink(part.clone(), &bytes)).map_err(RunError::callback(
                "on_output",
                name,
                part,
            ))?;
        }
        Ok(())
    }

    /// Nothing may be left in the pools. If something is, that is reported,
    /// and the next batch has whole pools all the same.
    fn clean_up(&mut self, image: &Image, outcome: &mut BatchOutcome) {
        let leaked = leaks(&self.config, image);
        if self.config.options.debug.check_heap {
            for scope in SCOPES {
                let audit = self.backend.audit(scope, true).unwrap_or_default();
                let corruption = audit.corruption.map(|what| format!("{scope} pool: {what}"));
                outcome.corruption = outcome.corruption.take().or(corruption);
            }
        }
        if !leaked.is_empty() || outcome.corruption.is_some() {
            SCOPES
                .into_iter()
                .for_each(|scope| self.backend.reset_pool(scope));
        }
        outcome.leaks.extend(leaked);
    }

    fn verdict(&mut self, image: &Image) -> Result<Option<Failure>, RunError> {
        let Some(cause) = Cause::of(image.header(Header::Failure)) else {
            return Ok(None);
        };
        if let Some(reason) = FailureReason::of(cause) {
            return Ok(Some(Failure::new(&self.config, image, reason)));
        }
        let sequence = &self.config.sequence;
        let algorithm = &sequence.algorithms()[image.header(Header::FailedAlgorithm) as usize];
        let algorithm = algorithm.name.clone();
        if cause == Cause::NoTotal {
            let total = &sequence.totals()[image.header(Header::FailedTotal) as usize];
            let total = total.name.clone();
            return Err(RunError::NoTotal { algorithm, total });
        }
        let message = self
            .backend
            .take_fault()
            .map(|KernelFault { message, .. }| message);
        let message = message.unwrap_or_else(|| "no message".into());
        Err(RunError::Kernel { algorithm, message })
    }

    /// Bytes of blocks that are still in a scope's pool.
    pub fn leaked_bytes(&mut self, scope: Scope) -> u64 {
        self.backend
            .audit(scope, false)
            .unwrap_or_default()
            .live_bytes
    }

    fn algorithm(&self, name: &str) -> Result<AlgorithmId, RunError> {
        let sequence = &self.config.sequence;
        let unknown = || RunError::UnknownAlgorithm {
            sequence: sequence.name().into(),
            name: name.into(),
            nearest: nearest(name, sequence.algorithms().iter().map(|a| &*a.name)),
        };
        sequence.algorithm_named(name).ok_or_else(unknown)
    }
}

impl<B: Backend> fmt::Debug for Executor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = self.config.sequence.name();
        write!(f, "Executor({sequence:?} on {})", B::NAME)
    }
}
