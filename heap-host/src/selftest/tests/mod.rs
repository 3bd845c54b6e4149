//! The tests, by theme. Each begins with a fresh heap and leaves it as it was.

mod contents;
mod divergence;
mod exhaustion;
mod frees;
mod groups;
mod many;
mod pools;
mod random;
mod recycling;
mod sizes;

use super::rig::Step;
use super::trial::Trial;

/// A test that runs only where its length is given.
pub(super) const SOAK: &str = "soak";

/// A test and what it is called.
pub(super) struct Test {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run: fn(&mut Trial<'_>) -> Step,
}

/// All tests, in the order in which they run.
pub(super) const ALL: &[Test] = &[
    Test {
        name: "sizes",
        about: "every size to 64 KiB in one launch, large ones to half the pool",
        run: sizes::sizes,
    },
    Test {
        name: "alignments",
        about: "every power of two to 2 MiB; others are refused",
        run: sizes::alignments,
    },
    Test {
        name: "uniform",
        about: "many threads ask for the same size",
        run: many::uniform,
    },
    Test {
        name: "mixed",
        about: "many threads ask for sizes of their own",
        run: many::mixed,
    },
    Test {
        name: "divergence",
        about: "lanes of a warp take different ways",
        run: divergence::divergence,
    },
    Test {
        name: "masks",
        about: "some lanes of each warp ask, in launches of odd lengths",
        run: divergence::masks,
    },
    Test {
        name: "zeroed",
        about: "zeroed blocks in memory that was written before",
        run: contents::zeroed,
    },
    Test {
        name: "realloc",
        about: "blocks grow and shrink and keep their contents",
        run: contents::realloc,
    },
    Test {
        name: "usable",
        about: "blocks have the bytes asked for, and as many as the heap says",
        run: contents::usable,
    },
    Test {
        name: "warp",
        about: "one block for all lanes of a warp",
        run: groups::warp,
    },
    Test {
        name: "batch",
        about: "few threads walk long lists, at all places",
        run: groups::batch,
    },
    Test {
        name: "exhaustion",
        about: "a million threads want more than there is",
        run: exhaustion::exhaustion,
    },
    Test {
        name: "recycling",
        about: "the memory of one class serves the next, then one request",
        run: recycling::recycling,
    },
    Test {
        name: "every_second",
        about: "every second block is freed and had again",
        run: recycling::every_second,
    },
    Test {
        name: "double_free",
        about: "many threads free the same blocks",
        run: frees::double_free,
    },
    Test {
        name: "foreign_free",
        about: "many threads free what is no block",
        run: frees::foreign_free,
    },
    Test {
        name: "large_pool",
        about: "blocks above 4 GiB in a pool of 9 GiB",
        run: pools::large_pool,
    },
    Test {
        name: "many_heaps",
        about: "several heaps, used by turns",
        run: pools::many_heaps,
    },
    Test {
        name: "two_streams",
        about: "two streams at once on one heap",
        run: pools::two_streams,
    },
    Test {
        name: "random",
        about: "random work of many threads, verified",
        run: random::random,
    },
    Test {
        name: SOAK,
        about: "random work for as long as --soak says",
        run: random::soak,
    },
];
