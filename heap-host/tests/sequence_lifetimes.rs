//! Lifetimes against their definition, and at scale.

use std::time::{Duration, Instant};

use heap_host::sequence::arbitrary::{Sizes, random};
use heap_host::sequence::{
    BufferSpec, Init, LiveRange, Sequence, SequenceBuilder, live_ranges, shipped,
};
use proptest::prelude::*;

/// By the definition: one rule after the other, until nothing changes.
fn by_definition(sequence: &Sequence) -> Vec<LiveRange> {
    let buffers = sequence.buffers();
    let writer = |index: usize| buffers[index].writer.index();
    let mut last: Vec<usize> = (0..buffers.len()).map(writer).collect();
    loop {
        let before = last.clone();
        for (index, algorithm) in sequence.algorithms().iter().enumerate() {
            for read in &algorithm.reads {
                last[read.index()] = last[read.index()].max(index);
            }
        }
        for (index, buffer) in buffers.iter().enumerate() {
            let until = buffer.live_until.map_or(0, |until| until.index());
            last[index] = last[index].max(until);
            if let Init::CopyOf(copied) = buffer.init {
                last[copied.index()] = last[copied.index()].max(writer(index));
            }
            for kept in &buffer.keeps_alive {
                last[kept.index()] = last[kept.index()].max(last[index]);
            }
        }
        if last == before {
            let ranges = last.iter().enumerate();
            return ranges
                .map(|(index, &last)| LiveRange {
                    first: writer(index) as u32,
                    last: last as u32,
                })
                .collect();
        }
    }
}

proptest! {
    #[test]
    fn ranges_are_those_of_the_definition(
        seed: u64,
        algorithms in 0usize..30,
        writes in 0usize..6,
    ) {
        let sequence = random(seed, Sizes { algorithms, writes, ..Sizes::default() });
        prop_assert_eq!(live_ranges(&sequence), by_definition(&sequence));
    }
}

#[test]
fn the_shipped_sequences_have_the_ranges_of_the_definition() {
    for name in shipped::names() {
        let sequence = shipped::sequence(name).unwrap();
        assert_eq!(live_ranges(&sequence), by_definition(&sequence), "{name}");
    }
}

fn expect_ranges(name: &str, expected: &[(&str, u32, u32)]) {
    let sequence = shipped::sequence(name).unwrap();
    let names = sequence.buffers().iter().map(|buffer| buffer.name.as_str());
    let ranges = live_ranges(&sequence)
        .into_iter()
        .map(|range| (range.first, range.last));
    let ranges = names
        .zip(ranges)
        .map(|(name, (first, last))| (name, first, last));
    assert_eq!(ranges.collect::<Vec<_>>(), expected);
}

/// Worked out by hand.
#[test]
fn the_ranges_of_the_examples() {
    expect_ranges(
        "quickstart",
        &[
            ("raw_banks", 0, 3),
            ("hit_counts", 1, 2),
            ("scan_blocks", 2, 2),
            ("hit_offsets", 2, 3),
            // Nobody reads the hits themselves: the view does.
            ("hits", 3, 4),
            ("hit_flags", 3, 4),
            ("hits_view", 3, 4),
            ("decisions", 4, 4),
        ],
    );
    expect_ranges(
        "tiles",
        &[
            ("thresholds", 0, 4),
            ("image", 0, 2),
            ("histogram", 1, 3),
            ("tile_offsets", 1, 2),
            // Alive until it has been copied.
            ("tiles", 2, 3),
            ("refined", 3, 4),
            ("scratch", 3, 3),
            ("packed", 4, 4),
        ],
    );
}

/// Views of one algorithm that point into each other live and die together.
#[test]
fn cycles_of_views_end() {
    let mut b = SequenceBuilder::new("cycle");
    b.parameter("events", 1);
    let [make, middle, end] = ["make", "middle", "end"].map(|name| b.algorithm(name));
    let spec = |name| BufferSpec::device_static(name).constant(8);
    let [x, y, z] = ["x", "y", "z"].map(|name| b.write(make, spec(name)));
    b.keep_alive(x, y);
    b.keep_alive(y, z);
    b.keep_alive(z, x);
    b.read(middle, y);
    b.read(end, z);
    let ranges = live_ranges(&b.build().unwrap());
    assert_eq!(ranges, [LiveRange { first: 0, last: 2 }; 3]);
}

/// In files and in programs alike, whatever the length of the circle.
#[test]
fn circles_of_views_are_legal_down_to_one_buffer() {
    for length in 1..4 {
        let mut b = SequenceBuilder::new("circle");
        b.parameter("events", 1);
        let [make, read, end] = ["make", "read", "end"].map(|name| b.algorithm(name));
        let spec = |index| BufferSpec::device_static(format!("b{index}")).constant(8);
        let ids: Vec<_> = (0..length)
            .map(|index| b.write(make, spec(index)))
            .collect();
        for (index, &id) in ids.iter().enumerate() {
            b.keep_alive(id, ids[(index + 1) % ids.len()]);
        }
        b.read(read, ids[0]);
        let alone = b.write(end, spec(length));
        b.keep_alive(alone, alone);
        let sequence = b.build().unwrap();
        let file = Sequence::from_json("circle.json", &sequence.to_json()).unwrap();
        assert_eq!(file, sequence);
        let mut expected = vec![LiveRange { first: 0, last: 1 }; length];
        expected.push(LiveRange { first: 2, last: 2 });
        assert_eq!(live_ranges(&file), expected, "{length}");
    }
}

/// A chain of 100,000 views, each of which points into the one before: by the
/// definition it takes quadratic time.
#[test]
fn a_hundred_thousand_views_are_quick() {
    const BUFFERS: usize = 100_000;
    let mut b = SequenceBuilder::new("chain");
    b.parameter("events", 1);
    let mut previous = None;
    for index in 0..BUFFERS {
        let algorithm = b.algorithm(format!("a{index}"));
        let spec = BufferSpec::device_static(format!("b{index}")).constant(1);
        let spec = previous.into_iter().fold(spec, BufferSpec::keeps_alive);
        previous = Some(b.write(algorithm, spec));
    }
    let sequence = b.build().unwrap();
    let start = Instant::now();
    let ranges = live_ranges(&sequence);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "took {:?}",
        start.elapsed()
    );
    assert!(
        ranges
            .iter()
            .all(|range| range.last as usize == BUFFERS - 1)
    );
    let text = sequence.to_json();
    assert_eq!(Sequence::from_json("chain.json", &text).unwrap(), sequence);
}
