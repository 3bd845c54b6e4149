//! Tests of the runtime's insides.
