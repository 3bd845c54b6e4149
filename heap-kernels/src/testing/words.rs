//! What the words of a pool's metadata are for, for models that cannot afford
//! to treat all of them alike.

use crate::Geometry;
use crate::layout::Counter;

/// What depends on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordUse {
    /// Written when the pool is formatted, and only read from then on.
    Constant,
    /// A number or mark for reports, or a hint: no decision depends on it that
    /// could be wrong.
    Report,
    /// Everything else.
    State,
}

/// What the word at `at` is for; `at` lies in the metadata.
#[must_use]
pub fn word_use(geometry: &Geometry, at: u64) -> WordUse {
    let reports = [
        Counter::UsedPages,
        Counter::HighPages,
        Counter::BadFrees,
        Counter::OffenderKind,
        Counter::OffenderOffset,
    ];
    let counts_blocks = (geometry.shard_counters..geometry.descriptors).contains(&at);
    let demands = geometry.heads + geometry.heads_stride * (2 * u64::from(geometry.shards));
    let demand = (demands..geometry.shard_counters).contains(&at);
    let history = (geometry.history_bits..geometry.dirty).contains(&at);
    if at < geometry.counters {
        WordUse::Constant
    } else if counts_blocks
        || demand
        || history
        || reports
            .iter()
            .any(|&counter| geometry.counters + counter as u64 == at)
    {
        WordUse::Report
    } else {
        WordUse::State
    }
}
