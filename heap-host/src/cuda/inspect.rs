//! Looking into a heap on a card. What returns something waits for the card.

use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use heap_kernels::{ClassStats, FreeError, Offender, Stats, Survey, Tally};

use super::error::{GpuError, Named};
use super::pool::{DevicePool, address};

/// Pages that one thread looks at, at least, and threads at most.
const PAGES_EACH: u64 = 64;
const THREADS: u64 = 1 << 15;

/// Words in which a kernel reports a broken invariant: length of the text,
/// place, text.
const FINDING: usize = 10;

impl DevicePool {
    fn parts(&self) -> u64 {
        self.geometry()
            .pages()
            .div_ceil(PAGES_EACH)
            .clamp(1, THREADS)
    }

    /// Runs a kernel that fills an array of `words`, after `before`.
    fn read(
        &self,
        stream: &Stream,
        kernel: &'static str,
        threads: u64,
        before: &[u64],
        words: usize,
        after: &[u64],
    ) -> Result<Vec<u64>, GpuError> {
        let out = DeviceBuffer::<u64>::zeroed(words).call("cuMemAlloc")?;
        // Fills and copies so far are on the driver's default stream, for which
        // the caller's stream need not wait.
        CurrentContext::synchronize().call("cuCtxSynchronize")?;
        let mut arguments = vec![self.handle_address()];
        arguments.extend(before);
        arguments.push(address(&out));
        arguments.extend(after);
        // SAFETY: as the kernels below ask; the output lives until they have
        // run.
        unsafe {
            self.gpu()
                .launch_threads(stream, kernel, threads, &arguments)?
        };
        stream.synchronize().call(kernel)?;
        let mut host = vec![0; words];
        out.copy_to(&mut host).call("cuMemcpyDtoH")?;
        Ok(host)
    }

    /// Statistics of the heap, exact while nobody else uses it.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn stats(&self, stream: &Stream) -> Result<Stats, GpuError> {
        self.gpu().enter()?;
        let parts = self.parts();
        let words = Survey::WORDS * parts as usize;
        let surveys = self.read(stream, "dh_survey", parts, &[], words, &[parts])?;
        let merged = chunks(&surveys)
            .map(Survey::from_words)
            .reduce(|sum, part| sum.merge(&part))
            .unwrap_or_default();
        let merged = DeviceBuffer::from_slice(&merged.to_words()).call("cuMemcpyHtoD")?;
        let stats = self.read(
            stream,
            "dh_stats",
            1,
            &[address(&merged)],
            Stats::WORDS,
            &[],
        )?;
        Ok(chunks(&stats)
            .map(Stats::from_words)
            .next()
            .unwrap_or_default())
    }

    /// Statistics of each size class, exact while nobody else uses the heap.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn class_stats(&self, stream: &Stream) -> Result<Vec<ClassStats>, GpuError> {
        self.gpu().enter()?;
        let classes = u64::from(self.geometry().classes());
        let words = 5 * classes as usize;
        let stats = self.read(stream, "dh_class_stats", classes, &[], words, &[classes])?;
        let class = |&[slot_bytes, slabs, live_blocks, live_bytes, free_blocks]: &[u64; 5]| {
            let mut class = ClassStats::default();
            class.slot_bytes = slot_bytes;
            class.slabs = slabs;
            class.live_blocks = live_blocks;
            class.live_bytes = live_bytes;
            class.free_blocks = free_blocks;
            class
        };
        Ok(chunks(&stats).map(class).collect())
    }

    /// Checks every invariant of the heap, which nobody else uses meanwhile.
    ///
    /// # Errors
    /// [`GpuError::Damaged`] with what was found first, or
    /// [`GpuError::Driver`].
    pub fn check(&self, stream: &Stream) -> Result<(), GpuError> {
        self.gpu().enter()?;
        let parts = self.parts();
        let finding = DeviceBuffer::<u64>::zeroed(FINDING).call("cuMemAlloc")?;
        let words = Tally::WORDS * parts as usize;
        let after = [address(&finding), parts];
        let tallies = self.read(stream, "dh_check", parts, &[], words, &after)?;
        damage(&finding)?;
        let tally = chunks(&tallies)
            .map(Tally::from_words)
            .reduce(|sum, part| sum + part)
            .unwrap_or_default();
        let tally = DeviceBuffer::from_slice(&tally.to_words()).call("cuMemcpyHtoD")?;
        let found = self.read(
            stream,
            "dh_check_tally",
            1,
            &[address(&tally)],
            FINDING,
            &[],
        )?;
        decode(&found)
    }

    /// The first free that was refused since the last reset, if any was.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn offender(&self, stream: &Stream) -> Result<Option<Offender>, GpuError> {
        self.gpu().enter()?;
        let words = self.read(stream, "dh_offender", 1, &[], 2, &[])?;
        let error = FreeError::from_code(words[0] as u32);
        Ok(error.map(|error| Offender {
            error,
            offset: words[1],
        }))
    }

    /// Bytes of each block, 0 where no live block begins.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn usable_sizes(&self, stream: &Stream, blocks: &[u64]) -> Result<Vec<u64>, GpuError> {
        self.gpu().enter()?;
        let n = blocks.len();
        let blocks = DeviceBuffer::from_slice(blocks).call("cuMemcpyHtoD")?;
        let before = [address(&blocks)];
        self.read(stream, "dh_usable_size", n as u64, &before, n, &[n as u64])
    }

    /// Gives the pages of retained empty slabs back.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn reclaim(&self, stream: &Stream) -> Result<(), GpuError> {
        self.gpu().enter()?;
        // SAFETY: the handle is valid as long as `self`.
        unsafe {
            self.gpu()
                .launch_threads(stream, "dh_reclaim", 1, &[self.handle_address()])
        }
    }
}

/// Pieces of `N` words.
fn chunks<const N: usize>(words: &[u64]) -> impl Iterator<Item = &[u64; N]> {
    words.as_chunks().0.iter()
}

fn damage(finding: &DeviceBuffer<u64>) -> Result<(), GpuError> {
    let mut words = [0; FINDING];
    finding.copy_to(&mut words).call("cuMemcpyDtoH")?;
    decode(&words)
}

/// A broken invariant as a kernel reports it.
fn decode(words: &[u64]) -> Result<(), GpuError> {
    let Some((&length, [at, text @ ..])) = words.split_first() else {
        return Ok(());
    };
    if length == 0 {
        return Ok(());
    }
    let bytes: &[u8] = bytemuck::cast_slice(text);
    let text = &bytes[..bytes.len().min(length as usize)];
    Err(GpuError::Damaged {
        what: String::from_utf8_lossy(text).into_owned(),
        at: *at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_read_as_text_and_place() {
        let mut words = [0; FINDING];
        assert_eq!(decode(&words), Ok(()));
        words[0] = 4;
        words[1] = 77;
        words[2] = u64::from_le_bytes(*b"page\0\0\0\0");
        let found = GpuError::Damaged {
            what: "page".to_owned(),
            at: 77,
        };
        assert_eq!(decode(&words), Err(found));
    }
}
