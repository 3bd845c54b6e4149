//! Times of kernels by the card's clock.

use std::sync::Arc;

use cust::event::Event;
use cust::stream::Stream;

use super::super::error::{GpuError, Named};
use super::super::gpu::Gpu;

/// Ticks for which the card is kept busy while the host enqueues what is
/// measured: about 30 us, which is more than a few launches take.
const DELAY: u64 = 50_000;

/// A stream with a stopwatch.
pub(super) struct Timer {
    gpu: Arc<Gpu>,
    stream: Stream,
    start: Event,
    end: Event,
}

impl Timer {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            stream: gpu.stream()?,
            start: gpu.event()?,
            end: gpu.event()?,
            gpu: Arc::clone(gpu),
        })
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().call("cuStreamSynchronize")
    }

    /// Microseconds that the card takes for what `work` enqueues.
    pub(super) fn time(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        // SAFETY: the kernel touches no memory.
        unsafe { self.gpu.launch(&self.stream, "dh_delay", 1, 1, &[DELAY])? };
        self.start.record(&self.stream).call("cuEventRecord")?;
        work(&self.stream)?;
        self.end.record(&self.stream).call("cuEventRecord")?;
        self.wait()?;
        let ms = self.end.elapsed_time_f32(&self.start);
        Ok(f64::from(ms.call("cuEventElapsedTime")?) * 1000.0)
    }
}

/// The first time, and the median of the others (of the one, if it is alone).
pub(super) fn first_and_median(times: &[f64]) -> (Option<f64>, Option<f64>) {
    let Some((&first, warm)) = times.split_first() else {
        return (None, None);
    };
    if warm.is_empty() {
        return (Some(first), Some(first));
    }
    let mut sorted = warm.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (Some(first), Some(low.midpoint(high)))
}

#[cfg(test)]
mod tests {
    use super::first_and_median;

    #[test]
    fn the_first_round_is_not_in_the_median() {
        let of = |times: &[f64]| first_and_median(times);
        assert_eq!(of(&[]), (None, None));
        assert_eq!(of(&[3.0]), (Some(3.0), Some(3.0)));
        assert_eq!(of(&[9.0, 1.0, 3.0, 2.0]), (Some(9.0), Some(2.0)));
        assert_eq!(of(&[9.0, 1.0, 3.0]), (Some(9.0), Some(2.0)));
    }
}
