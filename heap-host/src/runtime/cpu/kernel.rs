//! Which kernel an algorithm has, and running it.

use std::fmt;

use crate::runtime::backend::KernelFault;
use crate::runtime::guard::guarded;
use crate::runtime::record::{Cause, FailedRequest, Status};
use crate::sequence::{AlgorithmId, Kind, Sequence};

use super::access::KernelError;
use super::builtin::Touches;
use super::context::KernelContext;
use super::device::Device;

/// A user's kernel.
pub(in crate::runtime) type KernelFn =
    dyn Fn(&KernelContext<'_>) -> Result<(), KernelError> + Send + Sync;

/// The kernels of all algorithms.
pub(super) struct Kernels(Vec<Kernel>);

#[derive(Default)]
struct Kernel {
    /// Instead of the built-in one.
    custom: Option<Box<KernelFn>>,
    /// After either.
    taps: Vec<Box<KernelFn>>,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let custom = self.0.iter().filter(|kernel| kernel.custom.is_some());
        write!(
            f,
            "Kernels({}, {} of them custom)",
            self.0.len(),
            custom.count()
        )
    }
}

impl Kernels {
    pub(super) fn new(sequence: &Sequence) -> Self {
        Self(
            sequence
                .algorithms()
                .iter()
                .map(|_| Kernel::default())
                .collect(),
        )
    }

    pub(super) fn replace(&mut self, algorithm: AlgorithmId, kernel: Box<KernelFn>) {
        self.0[algorithm.index()].custom = Some(kernel);
    }

    pub(super) fn tap(&mut self, algorithm: AlgorithmId, tap: Box<KernelFn>) {
        self.0[algorithm.index()].taps.push(tap);
    }

    /// Whether the algorithm's outputs hold patterns.
    pub(super) fn is_builtin(&self, algorithm: AlgorithmId) -> bool {
        self.0[algorithm.index()].custom.is_none()
    }
}

impl Device<'_> {
    /// Runs an algorithm, or skips it once the batch has failed: everything
    /// will be run again.
    pub(super) fn kernel(
        &self,
        algorithm: AlgorithmId,
        kernels: &Kernels,
        touches: &Touches,
    ) -> Option<KernelFault> {
        let declared = self.config.sequence.algorithm(algorithm);
        if self.control.failed() {
            // The allocate step did the same with dynamic ones.
            for &output in &declared.writes {
                if self.config.sequence.buffer(output).kind == Kind::Static {
                    self.control.set_status(output, Status::Failed);
                }
            }
            return None;
        }
        let Kernel { custom, taps } = &kernels.0[algorithm.index()];
        let context = KernelContext::new(self, algorithm);
        let result = match custom {
            Some(kernel) => call(kernel, &context),
            None => {
                self.builtin(algorithm, kernels, touches);
                Ok(())
            }
        };
        let result = taps.iter().fold(result, |result, tap| {
            result.and_then(|()| call(tap, &context))
        });
        let message = result.err()?;
        self.control
            .fail(Cause::Kernel, algorithm, FailedRequest::default());
        Some(KernelFault { algorithm, message })
    }
}

/// A panic is an error like any other: what the kernel wrote is thrown away
/// with the batch.
fn call(kernel: &KernelFn, context: &KernelContext<'_>) -> Result<(), String> {
    match guarded(|| kernel(context)) {
        Ok(result) => result.map_err(KernelError::into_message),
        Err(message) => Err(message),
    }
}
