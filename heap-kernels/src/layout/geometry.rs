//! Where each part of a pool is, computed from its length.

use core::fmt;

use super::classes::{class_of, class_size};

/// Largest number of summary levels over the run bits: 2^32 pages in 64-fold
/// steps.
pub(crate) const LEVELS: usize = 6;

/// Bytes before the class table.
const FIXED: u64 = 256;

/// Bytes of counters; each that many lanes write has 128 to itself.
const COUNTERS: u64 = 768;

/// Distance that keeps two words from sharing a cache line (or an L2 sector
/// pair).
const LINE: u64 = 128;

const SMALLEST_PAGE: u64 = 4096;
const LARGEST_PAGE: u64 = 65536;

/// How a pool is to be laid out. The default fits the pool's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bytes per page: a power of two from 4,096 to 65,536. By default the
    /// smallest that gives at most 2^18 pages, where that is possible.
    pub page_size: Option<u64>,
    /// Sets of stacks, a power of two from 1 to 1,024. By default one per
    /// 64 MiB, 128 at most.
    pub shards: Option<u32>,
    /// Largest request that gets a slot of a slab, in bytes, from 16 to two
    /// pages (the default). Larger requests get page runs.
    pub small_max: Option<u64>,
    /// Keep empty slabs for their class, instead of giving their pages back at
    /// once. Faster where a class empties and fills again; a request that finds
    /// no pages otherwise still gets them.
    pub retain: bool,
}

impl Config {
    /// What suits a heap that many lanes of a device use at once: the defaults,
    /// and empty slabs are retained.
    #[must_use]
    pub fn for_device() -> Self {
        Self {
            retain: true,
            ..Self::default()
        }
    }
}

/// Why a pool cannot be formatted or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The pool is too short for its metadata and one page.
    TooShort {
        /// Bytes it has.
        len: u64,
        /// Bytes it needs.
        needed: u64,
    },
    /// More than 2^32 - 2 pages.
    TooManyPages {
        /// Pages it would have.
        pages: u64,
    },
    /// The page size is no power of two from 4,096 to 65,536.
    PageSize(u64),
    /// The number of shards is no power of two from 1 to 1,024.
    Shards(u32),
    /// `small_max` is not between 16 and two pages.
    SmallMax(u64),
    /// The pool's address is not a multiple of its page size.
    Misaligned {
        /// Address of the first byte.
        base: u64,
        /// Alignment it needs, in bytes.
        page_size: u64,
    },
    /// The memory does not hold a formatted pool of this length.
    NotFormatted,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { len, needed } => {
                write!(
                    f,
                    "a pool of {len} bytes is too short: its metadata and one page need {needed}"
                )
            }
            Self::TooManyPages { pages } => {
                write!(
                    f,
                    "{pages} pages are too many: at most 2^32 - 2, so choose a larger page size"
                )
            }
            Self::PageSize(size) => {
                write!(
                    f,
                    "page size {size} is not a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE}"
                )
            }
            Self::Shards(shards) => {
                write!(f, "{shards} shards are not a power of two from 1 to 1024")
            }
            Self::SmallMax(size) => {
                write!(
                    f,
                    "small_max of {size} bytes is not between 16 and two pages"
                )
            }
            Self::Misaligned { base, page_size } => {
                write!(
                    f,
                    "the pool starts at address {base:#x}, which is not a multiple of its page size {page_size}"
                )
            }
            Self::NotFormatted => write!(
                f,
                "the memory does not hold a formatted pool of this length"
            ),
        }
    }
}

impl core::error::Error for FormatError {}

/// Offsets and counts of the parts of one pool. All offsets in bytes from the
/// pool's start.
///
/// `repr(C)` and without padding: a host copies it to a device, where another
/// compiler's code reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Geometry {
    pub(crate) len: u64,
    pub(crate) page_shift: u32,
    pub(crate) shards: u32,
    pub(crate) classes: u32,
    /// Not zero: see [`Config::retain`].
    pub(crate) retain: u32,
    pub(crate) pages: u64,
    pub(crate) counters: u64,
    pub(crate) heads: u64,
    pub(crate) heads_stride: u64,
    pub(crate) shard_counters: u64,
    pub(crate) descriptors: u64,
    pub(crate) page_words: u64,
    pub(crate) slot_bits: u64,
    pub(crate) history_bits: u64,
    /// Level 0 are the run bits, the others the `full` summaries.
    pub(crate) levels: [u64; LEVELS],
    pub(crate) level_words: [u64; LEVELS],
    pub(crate) level_count: usize,
    pub(crate) dirty: u64,
    pub(crate) metadata: u64,
    /// Offset of page 0.
    pub(crate) data: u64,
}

impl Geometry {
    /// The layout of a pool of `len` bytes. Constant time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] where the pool is too short or a setting is out of its
    /// range.
    pub fn new(len: u64, config: &Config) -> Result<Self, FormatError> {
        let page = page_size(len, config)?;
        let small_max = config.small_max.unwrap_or(2 * page);
        if !(16..=2 * page).contains(&small_max) {
            return Err(FormatError::SmallMax(small_max));
        }
        let shards = config.shards.unwrap_or_else(|| default_shards(len));
        if !shards.is_power_of_two() || shards > 1024 {
            return Err(FormatError::Shards(shards));
        }
        if len / page > u64::from(u32::MAX) - 1 {
            return Err(FormatError::TooManyPages { pages: len / page });
        }
        let mut geometry = Self::parts(page.ilog2(), shards, class_of(small_max) + 1);
        geometry.len = len;
        geometry.retain = u32::from(config.retain);
        geometry.fit()?;
        Ok(geometry)
    }

    /// The parts whose place does not depend on the number of pages.
    fn parts(page_shift: u32, shards: u32, classes: u32) -> Self {
        let counters = FIXED + (u64::from(classes) * 16).next_multiple_of(LINE);
        let heads = counters + COUNTERS;
        let heads_stride = (u64::from(classes) * 8).next_multiple_of(LINE);
        // For each shard heads, heads of the stacks aside, demands and growths.
        let shard_counters = heads + heads_stride * (4 * u64::from(shards));
        Self {
            len: 0,
            page_shift,
            shards,
            classes,
            retain: 0,
            pages: 0,
            counters,
            heads,
            heads_stride,
            shard_counters,
            descriptors: shard_counters + LINE * u64::from(shards),
            page_words: 0,
            slot_bits: 0,
            history_bits: 0,
            levels: [0; LEVELS],
            level_words: [0; LEVELS],
            level_count: 0,
            dirty: 0,
            metadata: 0,
            data: 0,
        }
    }

    /// Chooses the largest number of pages that fits behind its metadata.
    fn fit(&mut self) -> Result<(), FormatError> {
        let page = self.page_size();
        self.place(1);
        if self.data + page > self.len {
            return Err(FormatError::TooShort {
                len: self.len,
                needed: self.data + page,
            });
        }
        // The metadata of an overestimate is an overestimate of the metadata,
        // so this fits; the loop then gains what rounding lost.
        self.place(self.len >> self.page_shift);
        let mut pages = (self.len.saturating_sub(self.data) >> self.page_shift).max(1);
        loop {
            self.place(pages + 1);
            if self.data + (pages + 1) * page > self.len {
                break;
            }
            pages += 1;
        }
        self.place(pages);
        Ok(())
    }

    /// Lays out everything for `pages` pages. Lengths stay far below 2^64:
    /// there are at most 2^32 pages, and each has under 2 KiB of metadata.
    fn place(&mut self, pages: u64) {
        let bits = pages << (self.page_shift - 7);
        self.pages = pages;
        self.page_words = self.descriptors + 16 * pages;
        self.slot_bits = self.page_words + 8 * pages;
        self.history_bits = self.slot_bits + bits;
        let mut at = self.history_bits + bits;
        let mut words = pages.div_ceil(64);
        self.level_count = 0;
        self.dirty = at;
        at += words.div_ceil(64) * 8;
        loop {
            self.levels[self.level_count] = at;
            self.level_words[self.level_count] = words;
            self.level_count += 1;
            at += words * 8;
            if words == 1 {
                break;
            }
            words = words.div_ceil(64);
        }
        self.metadata = at;
        self.data = at.next_multiple_of(self.page_size());
    }

    /// Bytes per page.
    #[must_use]
    #[inline]
    pub const fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Number of pages that blocks are made of.
    #[must_use]
    #[inline]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of all pages: what blocks can use.
    #[must_use]
    #[inline]
    pub const fn page_bytes(&self) -> u64 {
        self.pages << self.page_shift
    }

    /// Bytes in front of the pages: metadata and the gap to the first page.
    #[must_use]
    #[inline]
    pub const fn metadata_bytes(&self) -> u64 {
        self.data
    }

    /// What has to be zero in an empty heap: `(offset, length)` in bytes, both
    /// multiples of 8. The few words of it that are not are written after.
    #[must_use]
    pub const fn zeroed(&self) -> (u64, u64) {
        (self.counters, self.metadata - self.counters)
    }

    /// The shard of whoever has this [`Warp::shard`](crate::Warp::shard).
    #[inline]
    pub(crate) const fn shard_of(&self, shard: u32) -> u32 {
        // Their number is a power of two.
        shard & self.shards.wrapping_sub(1)
    }

    /// Number of shards.
    #[must_use]
    #[inline]
    pub const fn shards(&self) -> u32 {
        self.shards
    }

    /// Number of size classes.
    #[must_use]
    #[inline]
    pub const fn classes(&self) -> u32 {
        self.classes
    }

    /// The largest request that gets a slot, in bytes.
    #[must_use]
    #[inline]
    pub const fn small_max(&self) -> u64 {
        class_size(self.classes - 1)
    }

    /// Offset of page `page`'s first byte.
    #[inline]
    pub(crate) const fn page_start(&self, page: u64) -> u64 {
        self.data + (page << self.page_shift)
    }

    /// Words of slot bits per page.
    #[inline]
    pub(crate) const fn bit_words_per_page(&self) -> u64 {
        1 << (self.page_shift - 10)
    }
}

fn page_size(len: u64, config: &Config) -> Result<u64, FormatError> {
    match config.page_size {
        Some(size) if size.is_power_of_two() && (SMALLEST_PAGE..=LARGEST_PAGE).contains(&size) => {
            Ok(size)
        }
        Some(size) => Err(FormatError::PageSize(size)),
        None => Ok((len >> 18)
            .next_power_of_two()
            .clamp(SMALLEST_PAGE, LARGEST_PAGE)),
    }
}

fn default_shards(len: u64) -> u32 {
    let shards = (len >> 26).clamp(1, 256) as u32;
    1 << shards.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::vec;

    const MIB: u64 = 1 << 20;

    fn geometry(len: u64) -> Geometry {
        Geometry::new(len, &Config::default()).unwrap()
    }

    #[test]
    fn metadata_is_at_most_three_percent_from_one_mebibyte_to_a_card() {
        for len in (MIB..70 * MIB)
            .step_by(4096 * 7)
            .chain((6..20).map(|k| (1 << (k + 20)) + 12_345))
        {
            let g = geometry(len);
            assert!(
                g.metadata_bytes() * 100 <= len * 3,
                "{len}: {}",
                g.metadata_bytes()
            );
            assert!(g.data + g.page_bytes() <= len);
        }
    }

    #[test]
    fn hardly_a_page_is_lost_behind_the_last() {
        for len in (MIB..40 * MIB).step_by(4096 * 3 + 100) {
            let g = geometry(len);
            assert!(len - (g.data + g.page_bytes()) < 2 * g.page_size());
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        for len in [MIB, 3 * MIB + 1, 300 * MIB, 1 << 35] {
            let g = geometry(len);
            let bits = g.pages << (g.page_shift - 7);
            let mut parts = vec![
                (0, FIXED),
                (FIXED, u64::from(g.classes) * 16),
                (g.counters, COUNTERS),
                (g.heads, g.heads_stride * (4 * u64::from(g.shards))),
                (g.shard_counters, LINE * u64::from(g.shards)),
                (g.descriptors, 16 * g.pages),
                (g.page_words, 8 * g.pages),
                (g.slot_bits, bits),
                (g.history_bits, bits),
                (g.dirty, g.level_words[0].div_ceil(64) * 8),
                (g.data, g.page_bytes()),
            ];
            parts.extend((0..g.level_count).map(|l| (g.levels[l], g.level_words[l] * 8)));
            parts.sort_unstable();
            assert!(
                parts.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0),
                "{parts:?}"
            );
            assert!(parts.iter().all(|p| p.0 % 8 == 0));
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let with = |config: Config| Geometry::new(MIB, &config).unwrap_err();
        let base = Config::default();
        assert_eq!(
            with(Config {
                page_size: Some(3000),
                ..base
            }),
            FormatError::PageSize(3000)
        );
        assert_eq!(
            with(Config {
                page_size: Some(1 << 17),
                ..base
            }),
            FormatError::PageSize(1 << 17)
        );
        assert_eq!(
            with(Config {
                shards: Some(0),
                ..base
            }),
            FormatError::Shards(0)
        );
        assert_eq!(
            with(Config {
                shards: Some(3),
                ..base
            }),
            FormatError::Shards(3)
        );
        assert_eq!(
            with(Config {
                small_max: Some(8),
                ..base
            }),
            FormatError::SmallMax(8)
        );
        assert!(matches!(
            Geometry::new(100, &base),
            Err(FormatError::TooShort { len: 100, .. })
        ));
        assert!(matches!(
            Geometry::new(0, &base),
            Err(FormatError::TooShort { .. })
        ));
        assert!(matches!(
            Geometry::new(1 << 60, &base),
            Err(FormatError::TooManyPages { .. })
        ));
    }

    #[test]
    fn the_shortest_pool_the_error_names_works() {
        let Err(FormatError::TooShort { needed, .. }) = Geometry::new(1, &Config::default()) else {
            panic!("one byte is too short");
        };
        assert_eq!(geometry(needed).pages, 1);
        assert!(Geometry::new(needed - 1, &Config::default()).is_err());
    }
}
