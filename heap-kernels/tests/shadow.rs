//! Random programs of operations against the shadow model: one lane, threads,
//! simulated warps.

use heap_kernels::testing::lockstep::Schedule;
use heap_kernels::testing::program::Program;
use heap_kernels::testing::runners::{run_alone, run_lockstep, run_threads};
use proptest::collection::vec;
use proptest::prelude::*;

type Record = [u8; Program::RECORD];

fn program(ops: usize, lanes: core::ops::Range<u32>) -> impl Strategy<Value = Program> {
    let records = vec(any::<Record>(), 1..=ops + 1);
    (records, lanes).prop_map(|(records, lanes)| Program::decode(&records.concat(), lanes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_lane_after_the_other(program in program(600, 1..5)) {
        run_alone(&program);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn threads(program in program(2000, 2..5)) {
        run_threads(&program);
    }

    #[test]
    fn simulated_warps(program in program(800, 1..80), seed: u64) {
        run_lockstep(&program, &Schedule::any(seed));
    }

    #[test]
    fn a_converged_warp(program in program(800, 32..33), seed: u64) {
        run_lockstep(&program, &Schedule::simt(seed));
    }
}
