//! The shipped sequences: their facts, and the same made by the builder.

use heap_host::sequence::{
    BufferSpec, Init, Kind, Scope, Sequence, SequenceBuilder, live_ranges, shipped,
};

/// Buffers of a scope and kind: how many, their bytes, and the largest sum of
/// bytes that are live in one algorithm.
fn figures(sequence: &Sequence, scope: Scope, kind: Kind, padded: bool) -> (usize, u64, u64) {
    let parameters = sequence.parameters_at(1000);
    let totals = sequence.expected_totals(1000).unwrap();
    let mut live = vec![0; sequence.algorithms().len()];
    let (mut count, mut sum) = (0, 0);
    for (buffer, range) in sequence.buffers().iter().zip(live_ranges(sequence)) {
        if (buffer.scope, buffer.kind) != (scope, kind) {
            continue;
        }
        let bytes = buffer.bytes(&parameters, &totals).unwrap();
        let bytes = if padded {
            bytes.next_multiple_of(buffer.alignment)
        } else {
            bytes
        };
        (count, sum) = (count + 1, sum + bytes);
        live[range.first as usize..=range.last as usize]
            .iter_mut()
            .for_each(|sum| *sum += bytes);
    }
    (count, sum, live.into_iter().max().unwrap_or(0))
}

#[test]
fn hlt1_has_the_sizes_of_its_facts() {
    let sequence = shipped::hlt1_pp_default();
    assert_eq!(sequence.algorithms().len(), 195);
    assert_eq!(sequence.buffers().len(), 1105);
    assert_eq!(sequence.totals().len(), 29);
    assert_eq!(sequence.max_events(), 1000);
    assert!(sequence.source().contains("Apache-2.0"));
    let figures = |scope, kind, padded| figures(&sequence, scope, kind, padded);
    // 318.1 and 421.7 MiB as requested, 318.2 and 421.8 MiB at 256 bytes.
    assert_eq!(
        figures(Scope::Device, Kind::Static, false),
        (242, 333_588_096, 232_264_220)
    );
    assert_eq!(
        figures(Scope::Device, Kind::Static, true),
        (242, 333_615_872, 232_271_104)
    );
    assert_eq!(
        figures(Scope::Device, Kind::Dynamic, false),
        (471, 442_199_856, 194_945_818)
    );
    assert_eq!(
        figures(Scope::Device, Kind::Dynamic, true),
        (471, 442_246_144, 194_948_096)
    );
    assert_eq!(
        figures(Scope::Host, Kind::Static, false),
        (375, 4_808_608, 2_177_868)
    );
    assert_eq!(
        figures(Scope::Host, Kind::Dynamic, false),
        (17, 1_476_444, 651_672)
    );
}

#[test]
fn hlt1_totals_are_computed_by_the_algorithms_they_are_named_after() {
    let sequence = shipped::hlt1_pp_default();
    for total in sequence.totals() {
        let computed_by = &sequence.algorithm(total.computed_by).name;
        assert_eq!(total.name.strip_prefix("T."), Some(computed_by.as_str()));
    }
    let hits = sequence.total(sequence.total_named("T.prefix_sum_ut_hits").unwrap());
    assert_eq!(hits.expected(1000), Ok(948_200));
    assert_eq!(hits.expected(1), Ok(949));
    // The facts do not say which buffers are filled or copied.
    assert!(
        sequence
            .buffers()
            .iter()
            .all(|buffer| buffer.init == Init::None)
    );
}

#[test]
fn larger_batches_of_a_shipped_sequence_are_a_sequence_of_their_own() {
    let sequence = shipped::hlt1_pp_default();
    let larger = sequence.with_max_events(5000).unwrap();
    assert_eq!(larger.max_events(), 5000);
    assert_ne!(larger.fingerprint(), sequence.fingerprint());
    assert_eq!(larger.with_max_events(1000).unwrap(), sequence);
    let error = sequence.with_max_events(u64::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sequence \"hlt1_pp_default\": the total \"T.prefix_sum_ut_hits\" is expected to exceed \
         18446744073709551615 for the largest batch; lower \"expected_per_event\" or the maximum \
         of \"events\""
    );
}

/// A plan names its sequence by this number, so it must not change by accident.
#[test]
fn fingerprints_are_stable() {
    let fingerprint = |name| shipped::sequence(name).unwrap().fingerprint();
    assert_eq!(
        fingerprint("hlt1_pp_default"),
        0x24ab311faacc8c98dc41092602002768
    );
    assert_eq!(
        fingerprint("quickstart"),
        0x3345eabcbaf38b75de4f666a53bc9a68
    );
    assert_eq!(fingerprint("tiles"), 0x4e1d6ae5fc578191f6de872e255f5a6d);
}

#[test]
fn quickstart_by_the_builder_is_the_file() {
    let mut b = SequenceBuilder::new("quickstart");
    b.source("An example of this project: find hits in raw banks and select events by them");
    let events = b.parameter("events", 1000);
    let device = |name| BufferSpec::device_static(name);

    let upload = b.algorithm("upload");
    let banks = b.write(
        upload,
        device("raw_banks").elements_of::<u32>().per(events, 256),
    );

    let count = b.algorithm("count_hits");
    b.read(count, banks);
    let counts = b.write(
        count,
        device("hit_counts").elements_of::<u32>().per(events, 1),
    );

    let scan = b.algorithm("scan_hits");
    b.read(scan, counts);
    let blocks = device("scan_blocks")
        .elements_of::<u32>()
        .constant(1)
        .per(events, "0.01");
    b.write(scan, blocks.temporary());
    let offsets = device("hit_offsets")
        .elements_of::<u32>()
        .constant(1)
        .per(events, 1);
    let offsets = b.write(scan, offsets);
    let total = b.total("T.hits", scan, "120.5");

    let decode = b.algorithm("decode_hits");
    b.read_all(decode, [banks, offsets]);
    let hits = BufferSpec::device_dynamic("hits")
        .element_bytes(16)
        .per(total, 1);
    let hits = b.write(decode, hits);
    let flags = b.write(
        decode,
        BufferSpec::device_dynamic("hit_flags")
            .per(total, 1)
            .fill(0),
    );
    let view = device("hits_view")
        .element_bytes(16)
        .per(events, 1)
        .keeps_alive(hits);
    let view = b.write(decode, view);

    let select = b.algorithm("select_events");
    b.read_all(select, [flags, view]);
    b.write(select, BufferSpec::host_static("decisions").per(events, 1));

    assert_eq!(b.build().unwrap(), shipped::sequence("quickstart").unwrap());
}

/// The table in `sequences/README.md`.
#[test]
fn quickstart_has_the_sizes_of_the_worked_example() {
    let sequence = shipped::sequence("quickstart").unwrap();
    let parameters = sequence.parameters_at(1000);
    let totals = sequence.expected_totals(1000).unwrap();
    let bytes = sequence
        .buffers()
        .iter()
        .map(|buffer| buffer.bytes(&parameters, &totals).unwrap());
    let expected = [
        1_024_000, 4_000, 44, 4_004, 1_928_000, 120_500, 16_000, 1_000,
    ];
    assert_eq!(bytes.collect::<Vec<_>>(), expected);
}

#[test]
fn tiles_by_the_builder_is_the_file() {
    let mut b = SequenceBuilder::new("tiles");
    b.source(
        "An example of this project: find bright tiles in images, refine a copy of them, and pack \
         the result",
    );
    let events = b.parameter("events", 64);
    let pixels = b.parameter("pixels", 262_144);
    let [load, find, cut, refine, pack] =
        ["load", "find_bright", "cut_tiles", "refine", "pack"].map(|name| b.algorithm(name));
    b.label(load, "one image an event");
    b.label(cut, "a tile is 16 by 16 pixels");
    let bright = b.total("T.bright", find, "37.25");
    let bytes = b.total("T.packed", refine, 1024);
    let fixed = |name| BufferSpec::device_static(name);
    let found = |name| BufferSpec::device_dynamic(name);

    let thresholds = BufferSpec::host_static("thresholds")
        .element_bytes(8)
        .alignment(64);
    let thresholds = b.write(load, thresholds.per(events, 1));
    b.live_until(thresholds, pack);
    let image = fixed("image")
        .element_bytes(2)
        .alignment(4096)
        .per(pixels, 1);
    let image = b.write(load, image);
    let histogram = fixed("histogram").element_bytes(4).constant(65_536).fill(0);
    let histogram = b.write(find, histogram);
    let offsets = fixed("tile_offsets")
        .element_bytes(8)
        .per(events, 1)
        .constant(1);
    let offsets = b.write(find, offsets);
    let tiles = b.write(cut, found("tiles").element_bytes(512).per(bright, 1));
    let refined = found("refined")
        .element_bytes(512)
        .per(bright, 1)
        .copy_of(tiles);
    let refined = b.write(refine, refined);
    b.write(
        refine,
        found("scratch")
            .elements_of::<f32>()
            .per(bright, "0.50")
            .temporary(),
    );
    let packed = BufferSpec::host_dynamic("packed")
        .alignment(16)
        .constant(16)
        .per(bytes, 1);
    b.write(pack, packed);
    b.read_all(find, [thresholds, image]);
    b.read_all(cut, [image, offsets]);
    b.read(refine, histogram);
    b.read(pack, refined);

    assert_eq!(b.build().unwrap(), shipped::sequence("tiles").unwrap());
}
