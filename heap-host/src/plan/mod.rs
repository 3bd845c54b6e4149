//! Static planning: offsets from lifetimes.
