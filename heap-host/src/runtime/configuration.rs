//! All that is known before anything runs.

use heap_kernels::{Config, FormatError, Geometry};

use crate::plan::{self, Instance, InstanceError, Plan, PlanError, PlanFault};
use crate::sequence::{
    Buffer, BufferId, CountOverflow, Kind, LiveRange, Scope, Sequence, live_ranges,
};

use super::control::ControlLayout;
use super::occupancy::{LARGEST, SPREAD};
use super::options::{Options, OptionsError, Placement};
use super::placement::{self, Life};
use super::program::{Program, Source};

/// Bytes of the guard behind a buffer, with
/// [`Debug::guards`](super::Debug::guards).
pub const GUARD_BYTES: u64 = 256;

/// How many standard deviations of its totals the default pool can take.
const HEADROOM: f64 = 4.0;

/// Pools are a multiple of this.
const POOL_UNIT: u64 = 1 << 20;

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

/// Why a sequence cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The options do not go together, or not with the sequence.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A size does not fit 64 bits.
    #[error("the size of buffer {buffer:?} overflows for a batch of {events} events: {overflow}")]
    Size {
        /// The buffer.
        buffer: String,
        /// The batch.
        events: u64,
        /// What overflows.
        overflow: CountOverflow,
    },
    /// The static buffers are no instance for the planner.
    #[error("the static {scope} buffers cannot be planned: {source}")]
    Instance {
        /// The arena.
        scope: Scope,
        /// Why.
        source: InstanceError,
    },
    /// The planner found no plan.
    #[error("the static {scope} buffers cannot be planned: {source}")]
    Plan {
        /// The arena.
        scope: Scope,
        /// Why.
        source: PlanError,
    },
    /// A plan is not valid for the sequence.
    #[error("the plan of the static {scope} buffers is refused: {source}")]
    PlanFault {
        /// The arena.
        scope: Scope,
        /// Why.
        source: PlanFault,
    },
    /// The arena would exceed the capacity that was asked for.
    #[error(
        "the static {scope} buffers need {peak} bytes, which exceeds the capacity of {capacity}; \
         allow more, or fewer events in a batch"
    )]
    Capacity {
        /// The arena.
        scope: Scope,
        /// Its size.
        peak: u64,
        /// What was allowed.
        capacity: u64,
    },
    /// The pool is no room for a heap.
    #[error(
        "the pool of {bytes} bytes for dynamic {scope} buffers is refused: {source}; this sequence \
         needs about {suggested}"
    )]
    Pool {
        /// The pool.
        scope: Scope,
        /// Its size.
        bytes: u64,
        /// Why.
        source: FormatError,
        /// What would do.
        suggested: u64,
    },
    /// Totals and events are too many for a table of 64-bit offsets.
    #[error("the per-event offsets of {totals} totals overflow for a batch of {events} events")]
    Offsets {
        /// Totals of the sequence.
        totals: usize,
        /// The batch.
        events: u64,
    },
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

    /// The pool size, metadata included, that is taken where none is given.
    ///
    /// The expected totals of the largest batch are raised by four standard
    /// deviations of what the built-in kernels draw (for `n` events,
    /// `4 * 0.325 / sqrt(n)`, and never above the largest draw). The allocations
    /// and frees of a batch with these totals are simulated page by page; the
    /// number of pages needed, an eighth of a percent for slabs that are partly
    /// used, and the heap's metadata make the pool, in whole MiB.
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

/// The sizes of all buffers at the largest batch, and what follows from them.
struct Sizes<'a> {
    sequence: &'a Sequence,
    options: &'a Options,
    ranges: &'a [LiveRange],
    /// Requested bytes, with expected totals.
    expected: Vec<u64>,
    /// Requested bytes, with totals that the default pool can take.
    raised: Vec<u64>,
    guard: u64,
}

impl<'a> Sizes<'a> {
    fn new(
        sequence: &'a Sequence,
        options: &'a Options,
        ranges: &'a [LiveRange],
        events: u64,
    ) -> Result<Self, ConfigError> {
        let parameters = sequence.parameters_at(events);
        let totals = sequence.expected_totals(events).unwrap_or_default();
        let exact = |buffer: &Buffer| {
            buffer.bytes(&parameters, &totals).map_err(|overflow| {
                let buffer = buffer.name.clone();
                ConfigError::Size {
                    buffer,
                    events,
                    overflow,
                }
            })
        };
        let expected = sequence
            .buffers()
            .iter()
            .map(exact)
            .collect::<Result<_, _>>()?;
        let factor = 1.0 + (HEADROOM * SPREAD / (events.max(1) as f64).sqrt()).min(LARGEST - 1.0);
        // An f64 that is too large becomes the largest u64.
        let totals: Vec<u64> = totals
            .iter()
            .map(|&total| (total as f64 * factor).ceil() as u64)
            .collect();
        let raised = |buffer: &Buffer| buffer.bytes(&parameters, &totals).unwrap_or(u64::MAX);
        Ok(Self {
            sequence,
            options,
            ranges,
            expected,
            raised: sequence.buffers().iter().map(raised).collect(),
            guard: if options.debug.guards { GUARD_BYTES } else { 0 },
        })
    }

    fn buffers(&self, scope: Scope, kind: Kind) -> impl Iterator<Item = (usize, &'a Buffer)> {
        let all = self.sequence.buffers().iter().enumerate();
        all.filter(move |(_, buffer)| buffer.scope == scope && buffer.kind == kind)
    }

    fn arena(
        &self,
        scope: Scope,
        plan: impl Fn(&Instance, Scope) -> Result<Plan, ConfigError>,
    ) -> Result<Arena, ConfigError> {
        let instance = self.instance(scope)?;
        let plan = plan(&instance, scope)?;
        plan.verify(&instance)
            .map_err(|source| ConfigError::PlanFault { scope, source })?;
        if let (Some(capacity), false) = (plan.capacity(), plan.fits()) {
            let peak = plan.peak();
            return Err(ConfigError::Capacity {
                scope,
                peak,
                capacity,
            });
        }
        let buffers = self.buffers(scope, Kind::Static);
        let (sum, buffers) = buffers.fold((0u64, Vec::new()), |(sum, mut ids), (index, _)| {
            ids.push(BufferId::new(index));
            (sum.saturating_add(self.expected[index]), ids)
        });
        Ok(Arena {
            plan,
            sum_bytes: sum,
            buffers,
        })
    }

    fn instance(&self, scope: Scope) -> Result<Instance, ConfigError> {
        let planned = |(index, buffer): (usize, &Buffer)| {
            let LiveRange { first, last } = self.ranges[index];
            let size = self.expected[index].saturating_add(self.guard);
            plan::Buffer::new(&buffer.name, first.into(), u64::from(last) + 1, size)
                .aligned_to(buffer.alignment)
        };
        let buffers = self.buffers(scope, Kind::Static).map(planned).collect();
        Instance::new(buffers).map_err(|source| ConfigError::Instance { scope, source })
    }

    fn pool(&self, scope: Scope) -> Result<PoolPlan, ConfigError> {
        let lives = self.lives(scope, &self.expected);
        // One lane allocates, so one shard is enough.
        let mut heap = Config {
            shards: Some(1),
            ..Config::default()
        };
        let given = match scope {
            Scope::Host => self.options.host_pool_bytes,
            Scope::Device => self.options.pool_bytes,
        };
        let mut plan = PoolPlan {
            bytes: 0,
            metadata_bytes: 0,
            placement: Placement::Best,
            expected_live_bytes: placement::live_bound(&self.lives_without_guards(scope)),
            heap,
        };
        if lives.is_empty() {
            return Ok(plan);
        }
        let suggested = self.default_pool(scope);
        let bytes = given.unwrap_or(suggested);
        let refused = |source| ConfigError::Pool {
            scope,
            bytes,
            source,
            suggested,
        };
        let geometry = Geometry::new(bytes, &heap).map_err(refused)?;
        let page = geometry.page_size();
        heap.page_size = Some(page);
        plan.placement = placement::choose(&lives, self.options.placement, page).placement;
        plan.metadata_bytes = geometry.metadata_bytes();
        Ok(PoolPlan {
            bytes,
            heap,
            ..plan
        })
    }

    /// The scope's dynamic buffers in the order of their allocation.
    fn lives(&self, scope: Scope, bytes: &[u64]) -> Vec<Life> {
        let life = |(index, _): (usize, _)| {
            let LiveRange { first, last } = self.ranges[index];
            let bytes = bytes[index].saturating_add(self.guard);
            Life { first, last, bytes }
        };
        let mut lives: Vec<Life> = self.buffers(scope, Kind::Dynamic).map(life).collect();
        lives.sort_by_key(|life| (life.first, std::cmp::Reverse(life.bytes)));
        lives
    }

    fn lives_without_guards(&self, scope: Scope) -> Vec<Life> {
        let mut lives = self.lives(scope, &self.expected);
        lives.iter_mut().for_each(|life| life.bytes -= self.guard);
        lives
    }

    fn default_pool(&self, scope: Scope) -> u64 {
        let lives = self.lives(scope, &self.raised);
        if lives.is_empty() {
            return 0;
        }
        let (mut page, mut bytes) = (4096, 0);
        // Twice, for a large pool has larger pages.
        for _ in 0..2 {
            let choice = placement::choose(&lives, self.options.placement, page);
            let pages = choice.pages.saturating_add(choice.pages / 800 + 16);
            bytes = pool_with(pages.saturating_mul(page));
            page = Geometry::new(bytes, &Config::default()).map_or(page, |g| g.page_size());
        }
        bytes
    }
}

/// The smallest pool in whole units that has so many bytes of pages.
fn pool_with(page_bytes: u64) -> u64 {
    let config = Config {
        shards: Some(1),
        ..Config::default()
    };
    let mut bytes = page_bytes.saturating_add(page_bytes / 64);
    loop {
        bytes = bytes
            .checked_next_multiple_of(POOL_UNIT)
            .unwrap_or(u64::MAX);
        match Geometry::new(bytes, &config) {
            Ok(geometry) if geometry.page_bytes() < page_bytes => {
                bytes = bytes.saturating_add(POOL_UNIT.max(page_bytes / 256));
            }
            _ => return bytes,
        }
    }
}
