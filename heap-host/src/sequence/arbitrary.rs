//! Random valid sequences, for tests and fuzzers.

use super::builder::SequenceBuilder;
use super::model::{AlgorithmId, BufferId, Kind, ParameterId, Scope, TotalId};
use super::ratio::Ratio;
use super::spec::BufferSpec;
use super::whole::Sequence;

/// Bounds for a random sequence. All are inclusive, and may be 0.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of algorithms, exactly.
    pub algorithms: usize,
    /// The most buffers that an algorithm writes.
    pub writes: usize,
    /// The most buffers that an algorithm reads.
    pub reads: usize,
    /// The largest batch.
    pub events: u64,
    /// The most elements for each event, and the most constant ones.
    pub elements: u64,
}

impl Default for Sizes {
    /// A dozen algorithms and a few MiB: a test's size.
    fn default() -> Self {
        Self {
            algorithms: 12,
            writes: 5,
            reads: 4,
            events: 40,
            elements: 64,
        }
    }
}

/// A valid sequence, the same for the same seed and sizes.
///
/// Has everything that a sequence can have: host and device, static, dynamic
/// and temporary buffers, views, copies, fills, lifetimes beyond the last
/// reader, alignments, empty elements and empty counts.
pub fn random(seed: u64, sizes: Sizes) -> Sequence {
    let mut generator = Generator::new(seed, sizes);
    for index in 0..sizes.algorithms {
        generator.algorithm(index);
    }
    generator.extend_lives();
    generator
        .builder
        .build()
        .expect("the generator keeps to the rules")
}

/// A buffer as far as later ones need to know it.
#[derive(Clone)]
struct Written {
    id: BufferId,
    writer: AlgorithmId,
    spec: BufferSpec,
}

struct Generator {
    rng: fastrand::Rng,
    sizes: Sizes,
    builder: SequenceBuilder,
    parameters: Vec<ParameterId>,
    totals: Vec<TotalId>,
    algorithms: Vec<AlgorithmId>,
    /// Those that are no temporaries.
    written: Vec<Written>,
}

impl Generator {
    fn new(seed: u64, sizes: Sizes) -> Self {
        let mut builder = SequenceBuilder::new(format!("random {seed}"));
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut parameters = vec![builder.parameter("events", sizes.events)];
        for index in 0..rng.usize(..3) {
            parameters.push(builder.parameter(format!("p{index}"), rng.u64(..=sizes.elements)));
        }
        if rng.bool() {
            builder.source(format!("seed {seed}: \"\u{e9}\\\u{1f600}\""));
        }
        let (totals, algorithms, written) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            rng,
            sizes,
            builder,
            parameters,
            totals,
            algorithms,
            written,
        }
    }

    fn algorithm(&mut self, index: usize) {
        let algorithm = self.builder.algorithm(format!("a{index}"));
        self.algorithms.push(algorithm);
        if self.chance(30) {
            self.builder.label(algorithm, "random");
        }
        self.reads(algorithm);
        let earlier = self.written.len();
        for write in 0..self.rng.usize(..=self.sizes.writes) {
            self.write(algorithm, format!("b{index}.{write}"), earlier);
        }
        // After the writes, for these cannot use what their own algorithm computes.
        if self.chance(40) {
            let expected = self.ratio();
            self.totals.push(
                self.builder
                    .total(format!("T.{index}"), algorithm, expected),
            );
        }
    }

    fn reads(&mut self, reader: AlgorithmId) {
        let most = self.sizes.reads.min(self.written.len());
        let count = self.rng.usize(..=most);
        let picked = self.rng.choose_multiple(self.written.iter(), count);
        let mut reads: Vec<BufferId> = picked.into_iter().map(|written| written.id).collect();
        self.rng.shuffle(&mut reads);
        self.builder.read_all(reader, reads);
    }

    /// Declares a buffer; `earlier` many were written before its algorithm.
    fn write(&mut self, writer: AlgorithmId, name: String, earlier: usize) {
        let copied = self
            .chance(10)
            .then(|| self.rng.choice(&self.written[..earlier]).cloned())
            .flatten();
        let mut spec = match copied {
            Some(copied) => copy(name, &copied),
            None => self.sized(name),
        };
        if self.chance(25) {
            spec = spec.alignment(1 << self.rng.u32(..=12));
        }
        for _ in 0..self.rng.usize(..3) {
            spec = self.pointing(spec);
        }
        if self.chance(15) {
            spec = spec.temporary();
        }
        let id = self.builder.write(writer, spec.clone());
        if !spec.temporary {
            self.written.push(Written { id, writer, spec });
        }
    }

    /// A spec with scope, kind and size.
    fn sized(&mut self, name: String) -> BufferSpec {
        let scope = if self.chance(20) {
            Scope::Host
        } else {
            Scope::Device
        };
        let dynamic = !self.totals.is_empty() && self.rng.bool();
        let kind = if dynamic { Kind::Dynamic } else { Kind::Static };
        let element_bytes = self
            .rng
            .choice([0, 1, 1, 2, 3, 4, 4, 8, 16, 48])
            .unwrap_or(1);
        let mut spec = BufferSpec::new(name, scope, kind).element_bytes(element_bytes);
        if self.rng.bool() {
            spec = spec.constant(self.rng.u64(..=self.sizes.elements));
        }
        if !dynamic || self.chance(20) {
            spec = self.per_parameter(spec);
        }
        if dynamic {
            spec = self.per_total(spec);
        }
        if self.chance(20) {
            spec = spec.fill(self.rng.u8(..));
        }
        spec
    }

    fn per_parameter(&mut self, spec: BufferSpec) -> BufferSpec {
        let count = self.rng.usize(..=self.parameters.len());
        let picked = self.rng.choose_multiple(self.parameters.clone(), count);
        picked
            .into_iter()
            .fold(spec, |spec, id| spec.per(id, self.ratio()))
    }

    fn per_total(&mut self, spec: BufferSpec) -> BufferSpec {
        let count = self.rng.usize(1..=self.totals.len().min(3));
        let picked = self.rng.choose_multiple(self.totals.clone(), count);
        picked
            .into_iter()
            .fold(spec, |spec, id| spec.per(id, self.small_ratio()))
    }

    /// Lets a buffer point into another one, if there is one to point into.
    fn pointing(&mut self, spec: BufferSpec) -> BufferSpec {
        let target = self.rng.choice(&self.written).map(|written| written.id);
        match target.filter(|target| !spec.keeps_alive.contains(target)) {
            Some(target) if self.chance(40) => spec.keeps_alive(target),
            _ => spec,
        }
    }

    /// Lets some buffers live until a given algorithm, their writer included.
    fn extend_lives(&mut self) {
        for written in std::mem::take(&mut self.written) {
            if self.chance(15) {
                let from = written.writer.index();
                let until = self.algorithms[self.rng.usize(from..self.algorithms.len())];
                self.builder.live_until(written.id, until);
            }
        }
    }

    /// A coefficient from 0 to the most elements, fractions included.
    fn ratio(&mut self) -> Ratio {
        let digits = self.rng.u32(..=3);
        let most = self.sizes.elements.saturating_mul(10u64.pow(digits));
        Ratio::decimal(self.rng.u64(..=most), digits).expect("three digits are few")
    }

    /// A coefficient from 0 to 4, for totals are numbers of elements already.
    fn small_ratio(&mut self) -> Ratio {
        Ratio::decimal(self.rng.u64(..=40), 1).expect("one digit is few")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }
}

/// A spec that starts as a copy of a buffer.
fn copy(name: String, copied: &Written) -> BufferSpec {
    BufferSpec {
        name,
        temporary: false,
        keeps_alive: Vec::new(),
        live_until: None,
        ..copied.spec.clone()
    }
    .copy_of(copied.id)
}
