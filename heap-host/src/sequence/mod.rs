//! Sequences of algorithms with declared buffers.
