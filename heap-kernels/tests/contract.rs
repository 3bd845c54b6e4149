//! The contract every backend keeps, kept by the host's.

use heap_kernels::testing::contract::hosts::{Sequential, Simulated, Threads};
use heap_kernels::testing::contract::{lanes, limits, misuse, pools, sizes};
use heap_kernels::testing::lockstep::Schedule;

/// All tests of the contract, on one backend.
macro_rules! contract {
    ($backend:ident = $make:expr; $($part:ident: $($test:ident)*;)*) => {
        mod $backend {
            $($(
                #[test]
                fn $test() {
                    super::$part::$test(&$make);
                }
            )*)*
        }
    };
}

macro_rules! contracts {
    ($($backend:ident = $make:expr;)*) => {
        $(contract! { $backend = $make;
            sizes:
                every_size_comes_and_goes
                large_sizes_up_to_the_whole_pool
                every_alignment_holds
                zeroed_blocks_are_zero
                realloc_keeps_the_contents
                a_failed_realloc_changes_nothing;
            lanes:
                lanes_with_one_size_get_distinct_blocks
                lanes_with_mixed_sizes_get_distinct_blocks
                lanes_of_one_warp_go_different_ways
                contents_survive_churn
                a_warp_shares_one_block
                spare_slots_of_another_shard_are_found
                the_last_hole_is_used_whatever_its_kind;
            limits:
                exhaustion_by_many_lanes_and_full_recovery
                memory_goes_from_class_to_class
                a_retained_slab_meets_a_request_refused_before
                every_hole_can_be_had
                neighbours_coalesce
                requests_in_vain_end
                reset_forgets_everything
                statistics_count_what_happened;
            misuse:
                double_frees_are_refused
                one_of_racing_frees_wins
                frees_of_no_block_are_told_apart
                the_first_offender_is_kept
                good_and_bad_frees_of_one_warp
                other_calls_on_no_block_are_refused;
            pools:
                metadata_takes_three_percent_at_most
                the_shortest_pool
                every_configuration
                blocks_above_four_gibibytes;
        })*
    };
}

contracts! {
    one_lane = super::Sequential;
    threads = super::Threads(4);
    converged_warps = super::Simulated(super::Schedule::simt(11));
    divergent_warps = super::Simulated(super::Schedule::any(12));
    scattered_warps = super::Simulated(super::Schedule::random(13));
}
