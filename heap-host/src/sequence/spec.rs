//! The declaration of one buffer, for the builder.

use super::model::{AlgorithmId, BufferId, DEFAULT_ALIGNMENT, Init, Kind, Scope, Variable};
use super::ratio::{Ratio, RatioError};

/// What a buffer is like; see [`Buffer`](super::Buffer) for each property.
///
/// A fresh one has no elements, of one byte, at the default alignment, with
/// contents left as they are.
#[derive(Clone, Debug)]
#[must_use = "a buffer is declared by passing this to `SequenceBuilder::write`"]
pub struct BufferSpec {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) kind: Kind,
    pub(super) temporary: bool,
    pub(super) element_bytes: u64,
    pub(super) alignment: u64,
    pub(super) constant: u64,
    pub(super) terms: Vec<(Variable, Result<Ratio, CoefficientError>)>,
    pub(super) keeps_alive: Vec<BufferId>,
    pub(super) live_until: Option<AlgorithmId>,
    pub(super) init: Init,
}

impl BufferSpec {
    /// A buffer of the given scope and kind.
    pub fn new(name: impl Into<String>, scope: Scope, kind: Kind) -> Self {
        Self {
            name: name.into(),
            scope,
            kind,
            temporary: false,
            element_bytes: 1,
            alignment: DEFAULT_ALIGNMENT,
            constant: 0,
            terms: Vec::new(),
            keeps_alive: Vec::new(),
            live_until: None,
            init: Init::None,
        }
    }

    /// A device buffer whose size is known at configuration.
    pub fn device_static(name: impl Into<String>) -> Self {
        Self::new(name, Scope::Device, Kind::Static)
    }

    /// A device buffer whose size depends on a total.
    pub fn device_dynamic(name: impl Into<String>) -> Self {
        Self::new(name, Scope::Device, Kind::Dynamic)
    }

    /// A host buffer whose size is known at configuration.
    pub fn host_static(name: impl Into<String>) -> Self {
        Self::new(name, Scope::Host, Kind::Static)
    }

    /// A host buffer whose size depends on a total.
    pub fn host_dynamic(name: impl Into<String>) -> Self {
        Self::new(name, Scope::Host, Kind::Dynamic)
    }

    /// Sets the size of an element in bytes.
    pub fn element_bytes(mut self, bytes: u64) -> Self {
        self.element_bytes = bytes;
        self
    }

    /// Sets the size of an element to that of `T`.
    pub fn elements_of<T>(self) -> Self {
        self.element_bytes(size_of::<T>() as u64)
    }

    /// Sets the alignment in bytes.
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = bytes;
        self
    }

    /// Sets the number of elements that are there in any batch.
    pub fn constant(mut self, elements: u64) -> Self {
        self.constant = elements;
        self
    }

    /// Adds `coefficient` elements for each unit of a parameter or total. The
    /// coefficient is an integer, a [`Ratio`], or a decimal as text (`"0.34"`).
    /// The sum of all these is rounded up.
    pub fn per(mut self, variable: impl Into<Variable>, coefficient: impl Coefficient) -> Self {
        self.terms.push((variable.into(), coefficient.ratio()));
        self
    }

    /// Makes it scratch space of its algorithm, which nobody else uses.
    pub fn temporary(mut self) -> Self {
        self.temporary = true;
        self
    }

    /// Makes it a view that points into `target`, which so lives at least as
    /// long; may be called for several.
    pub fn keeps_alive(mut self, target: BufferId) -> Self {
        self.keeps_alive.push(target);
        self
    }

    /// Lets it live to the end of `algorithm` at least.
    pub fn live_until(mut self, algorithm: AlgorithmId) -> Self {
        self.live_until = Some(algorithm);
        self
    }

    /// Lets it start with this byte everywhere.
    pub fn fill(mut self, byte: u8) -> Self {
        self.init = Init::Fill(byte);
        self
    }

    /// Lets it start as a copy of a buffer of the same scope, element size and
    /// count, written by an earlier algorithm.
    pub fn copy_of(mut self, source: BufferId) -> Self {
        self.init = Init::CopyOf(source);
        self
    }
}

/// What can be written where an exact decimal is wanted: an integer, a
/// [`Ratio`], or a decimal as text. Binary fractions are left out, for `0.34`
/// is none.
pub trait Coefficient {
    /// The decimal.
    ///
    /// # Errors
    /// If a text is none.
    fn ratio(self) -> Result<Ratio, CoefficientError>;
}

/// A text that is no exact decimal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no coefficient: {reason}")]
pub struct CoefficientError {
    /// The text.
    pub text: String,
    /// Why not.
    pub reason: RatioError,
}

impl Coefficient for u64 {
    fn ratio(self) -> Result<Ratio, CoefficientError> {
        Ok(Ratio::integer(self))
    }
}

impl Coefficient for Ratio {
    fn ratio(self) -> Result<Ratio, CoefficientError> {
        Ok(self)
    }
}

impl Coefficient for &str {
    fn ratio(self) -> Result<Ratio, CoefficientError> {
        self.parse().map_err(|reason| CoefficientError {
            text: self.to_owned(),
            reason,
        })
    }
}
