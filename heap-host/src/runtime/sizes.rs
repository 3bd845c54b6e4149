//! Sizes at the largest batch, and the arenas and pools that follow from them.

use heap_kernels::{Config, Geometry};

use crate::plan::{self, Instance, Plan};
use crate::sequence::{Buffer, BufferId, Kind, LiveRange, Scope, Sequence};

use super::configuration::{Arena, GUARD_BYTES, PoolPlan};
use super::error::ConfigError;
use super::occupancy::{LARGEST, SPREAD};
use super::options::{Options, Placement};
use super::placement::{self, Life};

/// How many standard deviations of its totals the default pool can take.
const HEADROOM: f64 = 4.0;

/// Pools are a multiple of this.
const POOL_UNIT: u64 = 1 << 20;

/// The sizes of all buffers at the largest batch, and what follows from them.
pub(super) struct Sizes<'a> {
    sequence: &'a Sequence,
    options: &'a Options,
    ranges: &'a [LiveRange],
    /// Requested bytes, with expected totals.
    pub(super) expected: Vec<u64>,
    /// Requested bytes, with totals that the default pool can take.
    raised: Vec<u64>,
    guard: u64,
}

impl<'a> Sizes<'a> {
    pub(super) fn new(
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

    pub(super) fn arena(
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

    /// The scope's static buffers, guards included.
    pub(super) fn instance(&self, scope: Scope) -> Result<Instance, ConfigError> {
        let planned = |(index, buffer): (usize, &Buffer)| {
            let LiveRange { first, last } = self.ranges[index];
            let size = self.expected[index].saturating_add(self.guard);
            plan::Buffer::new(&buffer.name, first.into(), u64::from(last) + 1, size)
                .aligned_to(buffer.alignment)
        };
        let buffers = self.buffers(scope, Kind::Static).map(planned).collect();
        Instance::new(buffers).map_err(|source| ConfigError::Instance { scope, source })
    }

    pub(super) fn pool(&self, scope: Scope) -> Result<PoolPlan, ConfigError> {
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

    pub(super) fn default_pool(&self, scope: Scope) -> u64 {
        let lives = self.lives(scope, &self.raised);
        if lives.is_empty() {
            return 0;
        }
        let (mut page, mut bytes) = (4096, 0);
        // Twice, for a large pool has larger pages.
        for _ in 0..2 {
            let choice = placement::choose(&lives, self.options.placement, page);
            // Other totals than the simulated ones fragment a pool otherwise:
            // two seeds of the HLT1 sequence needed 1.026 times the live
            // bound, a third 1.085.
            let pages = choice.pages.saturating_add(choice.pages / 10 + 16);
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
    let mut bytes = page_bytes.saturating_add(page_bytes / 64).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::{BufferSpec, SequenceBuilder};

    #[test]
    fn a_pool_has_the_pages_asked_for_and_little_more() {
        for page_bytes in [0, 1, 4096, 1 << 20, 100 << 20, 20 << 30, 3 << 40] {
            let bytes = pool_with(page_bytes);
            let config = Config {
                shards: Some(1),
                ..Config::default()
            };
            let pages = Geometry::new(bytes, &config).unwrap().page_bytes();
            assert!(pages >= page_bytes, "{page_bytes}: {pages} in {bytes}");
            assert!(bytes <= page_bytes + page_bytes / 25 + 2 * POOL_UNIT);
        }
        // More than there can be: refused where the heap is made.
        assert_eq!(pool_with(u64::MAX), u64::MAX);
    }

    fn items(events: u64, element_bytes: u64) -> Sequence {
        let mut b = SequenceBuilder::new("items");
        b.parameter("events", events);
        let count = b.algorithm("count");
        let total = b.total("items", count, 10);
        let make = b.algorithm("make");
        let made = BufferSpec::device_dynamic("made").element_bytes(element_bytes);
        b.write(make, made.per(total, 1));
        b.build().unwrap()
    }

    /// Four standard deviations of what the built-in kernels draw, and never
    /// more than the largest draw.
    #[test]
    fn the_default_pool_has_headroom_for_the_spread_of_so_many_events() {
        for (events, factor) in [(1, 1.875), (4, 1.65), (10_000, 1.013)] {
            let sequence = items(events, 1 << 20);
            let options = Options::default();
            let ranges = crate::sequence::live_ranges(&sequence);
            let sizes = Sizes::new(&sequence, &options, &ranges, events).unwrap();
            let expected = (events * 10) << 20;
            assert_eq!(sizes.expected[0], expected);
            let pool = sizes.default_pool(Scope::Device) as f64;
            let ratio = pool / (expected as f64 * factor);
            assert!((1.0..1.2).contains(&ratio), "{ratio} for {events} events");
        }
    }

    #[test]
    fn a_scope_without_dynamic_buffers_has_no_pool() {
        let sequence = items(10, 8);
        let options = Options::default();
        let ranges = crate::sequence::live_ranges(&sequence);
        let sizes = Sizes::new(&sequence, &options, &ranges, 10).unwrap();
        assert_eq!(sizes.default_pool(Scope::Host), 0);
        assert_eq!(sizes.pool(Scope::Host).unwrap().bytes, 0);
    }
}
