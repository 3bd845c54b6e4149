//! What the fuzz targets run, so that tests can replay their inputs.

use super::lockstep::Schedule;
use super::program::Program;
use super::runners::{run_alone, run_lockstep};

/// Lists of operations, so shards in use, of a [`heap_single`] program.
const LISTS: u32 = 4;

/// Runs the program that `bytes` stand for on one lane, against the model.
///
/// # Panics
///
/// As [`run_alone`].
pub fn heap_single(bytes: &[u8]) {
    run_alone(&Program::decode(bytes, LISTS));
}

/// Runs a program on simulated warps, against the model. The first
/// [`Program::RECORD`] bytes are the seed of the schedule (8 bytes, little
/// endian) and the number of lanes (1 byte); the rest is what [`heap_single`]
/// takes.
///
/// # Panics
///
/// As [`run_lockstep`].
pub fn heap_lockstep(bytes: &[u8]) {
    let (head, program) = bytes.split_at(bytes.len().min(Program::RECORD));
    let mut record = [0; Program::RECORD];
    record[..head.len()].copy_from_slice(head);
    let [s0, s1, s2, s3, s4, s5, s6, s7, lanes, ..] = record;
    let seed = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    // Up to two full warps and a part of a third one.
    let program = Program::decode(program, 1 + u32::from(lanes) % 70);
    run_lockstep(&program, &Schedule::any(seed));
}
