//! All that is known before anything runs.

use heap_kernels::Config;

use crate::plan::{self, Instance, Plan};
use crate::sequence::{BufferId, LiveRange, Scope, Sequence, live_ranges};

use super::control::ControlLayout;
use super::error::ConfigError;
use super::options::{Options, Placement};
use super::program::{Program, Source};
use super::sizes::Sizes;

/// Bytes of the guard behind a buffer, with
/// [`Debug::guards`](super::Debug::guards).
pub const GUARD_BYTES: u64 = 256;

/// Both scopes, in the order of their numbers.
pub(super) const SCOPES: [Scope; 2] = [Scope::Host, Scope::Device];

/// A sequence made ready to run: planned arenas, pools with their sizes, and
/// the program of a batch.
///
/// It is the same for every stream; each [`Executor`](super::Executor) has
/// regions of its own.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub(super) sequence: Sequence,
    pub(super) options: Options,
    pub(super) ranges: Vec<LiveRange>,
    pub(super) outputs: Vec<BufferId>,
    pub(super) program: Program,
    pub(super) control: ControlLayout,
    pub(super) arenas: [Arena; 2],
    pub(super) pools: [PoolPlan; 2],
    max_events: u64,
}

/// A static arena, planned for the largest batch.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Offsets of the scope's static buffers, in the order of their ids.
    pub plan: Plan,
    /// Sum of their requested bytes at the largest batch.
    pub sum_bytes: u64,
    pub(super) buffers: Vec<BufferId>,
}

/// A dynamic pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolPlan {
    /// Bytes, metadata included; 0 where the scope has no dynamic buffers.
    pub bytes: u64,
    /// Bytes of these that the heap needs for itself.
    pub metadata_bytes: u64,
    /// How its ends are used.
    pub placement: Placement,
    /// The largest live sum of requested bytes, if all totals are as expected.
    pub expected_live_bytes: u64,
    pub(super) heap: Config,
}

impl Configuration {
    /// Plans `sequence` for batches of up to
    /// [`Options::max_events`](Options::max_events).
    ///
    /// # Errors
    /// [`ConfigError`]: nothing was started.
    pub fn new(sequence: &Sequence, options: &Options) -> Result<Self, ConfigError> {
        Self::make(sequence, options, |instance, scope| {
            plan::plan(instance, &options.plan)
                .map_err(|source| ConfigError::Plan { scope, source })
        })
    }

    /// The same with plans that were made earlier, host scope first: those of
    /// [`arena`](Self::arena). They are verified, and refused if they were made
    /// for another sequence, other options or an older version of either.
    ///
    /// # Errors
    /// [`ConfigError`]: nothing was started.
    pub fn with_plans(
        sequence: &Sequence,
        options: &Options,
        plans: &[Plan; 2],
    ) -> Result<Self, ConfigError> {
        Self::make(sequence, options, |_, scope| {
            Ok(plans[scope as usize].clone())
        })
    }

    fn make(
        sequence: &Sequence,
        options: &Options,
        plan: impl Fn(&Instance, Scope) -> Result<Plan, ConfigError>,
    ) -> Result<Self, ConfigError> {
        options.validate(sequence)?;
        let max_events = options.max_events(sequence);
        let outputs = outputs(sequence, options);
        let ranges = ranges(sequence, &outputs);
        let sizes = Sizes::new(sequence, options, &ranges, max_events)?;
        let arenas = [
            sizes.arena(Scope::Host, &plan)?,
            sizes.arena(Scope::Device, &plan)?,
        ];
        let pools = [sizes.pool(Scope::Host)?, sizes.pool(Scope::Device)?];
        let program = Program::new(&Source {
            sequence,
            ranges: &ranges,
            expected: &sizes.expected,
            placements: pools.map(|pool| pool.placement),
            debug: options.debug,
        });
        let offsets = ConfigError::Offsets {
            totals: sequence.totals().len(),
            events: max_events,
        };
        Ok(Self {
            sequence: sequence.clone(),
            options: options.clone(),
            control: ControlLayout::new(sequence, max_events).ok_or(offsets)?,
            ranges,
            outputs,
            program,
            arenas,
            pools,
            max_events,
        })
    }

    /// The sequence.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Events of the largest batch; larger ones are refused.
    pub fn max_events(&self) -> u64 {
        self.max_events
    }

    /// The live range of each buffer, in the order of their ids. An output's
    /// ends behind the last algorithm.
    pub fn live_ranges(&self) -> &[LiveRange] {
        &self.ranges
    }

    /// The static arena of a scope.
    pub fn arena(&self, scope: Scope) -> &Arena {
        &self.arenas[scope as usize]
    }

    /// The dynamic pool of a scope.
    pub fn pool(&self, scope: Scope) -> &PoolPlan {
        &self.pools[scope as usize]
    }

    /// What a batch does.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Bytes of each stream's control block.
    pub fn control_bytes(&self) -> u64 {
        self.control.bytes()
    }

    /// The static buffers of a scope as the planner takes them, in the order of
    /// their ids: what the scope's arena is planned from, at
    /// [`Options::max_events`](Options::max_events).
    ///
    /// # Errors
    /// [`ConfigError`] as [`new`](Self::new).
    pub fn static_instance(
        sequence: &Sequence,
        options: &Options,
        scope: Scope,
    ) -> Result<Instance, ConfigError> {
        options.validate(sequence)?;
        let ranges = ranges(sequence, &outputs(sequence, options));
        Sizes::new(sequence, options, &ranges, options.max_events(sequence))?.instance(scope)
    }

    /// The pool size, metadata included, that is taken where none is given.
    ///
    /// The expected totals of the largest batch are raised by four standard
    /// deviations of what the built-in kernels draw (for `n` events,
    /// `4 * 0.325 / sqrt(n)`, and never above the largest draw). The allocations
    /// and frees of a batch with these totals are simulated page by page; the
    /// number of pages needed, a tenth more for slabs that are partly used and
    /// for totals that fragment the pool in another way, and the heap's metadata
    /// make the pool, in whole MiB.
    ///
    /// # Errors
    /// [`ConfigError`] as [`new`](Self::new).
    pub fn default_pool(
        sequence: &Sequence,
        options: &Options,
        scope: Scope,
    ) -> Result<u64, ConfigError> {
        let max_events = options.max_events(sequence);
        let ranges = ranges(sequence, &outputs(sequence, options));
        let sizes = Sizes::new(sequence, options, &ranges, max_events)?;
        Ok(sizes.default_pool(scope))
    }
}

impl Arena {
    /// Sizes of the static buffers were taken with their guards, if there are
    /// any.
    pub(super) fn offsets(&self) -> impl Iterator<Item = (BufferId, u64)> {
        let offsets = self.plan.offsets().iter().copied();
        self.buffers.iter().copied().zip(offsets)
    }
}

fn outputs(sequence: &Sequence, options: &Options) -> Vec<BufferId> {
    let names = options.outputs.iter();
    names
        .filter_map(|name| sequence.buffer_named(name))
        .collect()
}

/// Live ranges, those of outputs extended behind the last algorithm.
fn ranges(sequence: &Sequence, outputs: &[BufferId]) -> Vec<LiveRange> {
    let mut ranges = live_ranges(sequence);
    for output in outputs {
        ranges[output.index()].last = sequence.algorithms().len() as u32;
    }
    ranges
}
