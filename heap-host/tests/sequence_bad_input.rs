//! Every rule, broken once: each error names the file, the line, the part
//! concerned and what would be right. For the file, the cases are a table in
//! `sequence_bad_input.txt`; for the builder, they are here.

use heap_host::sequence::{
    AlgorithmId, BufferSpec, Kind, Problem, Ratio, Scope, Sequence, SequenceBuilder, shipped,
};

const TABLE: &str = include_str!("sequence_bad_input.txt");

#[test]
fn files() {
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "));
    let lines: Vec<String> = lines.map(|line| line.replace('↵', "\n")).collect();
    let mut cases = 0;
    for case in lines.chunks(4) {
        let [name, find, replace, expected] = case else {
            panic!("not four lines: {case:?}")
        };
        let text = shipped::text(entry(name, "@")).unwrap();
        assert!(text.contains(entry(find, "-")), "{find}");
        let broken = text.replacen(entry(find, "-"), entry(replace, "+"), 1);
        let error = Sequence::from_json("bad.json", &broken).expect_err(replace);
        assert_eq!(
            error.to_string(),
            format!("bad.json:{}", entry(expected, "=")),
            "{replace}"
        );
        cases += 1;
    }
    assert!(cases >= 81, "{cases}");
}

/// The text of a line of the table, which starts with a sign.
fn entry<'a>(line: &'a str, sign: &str) -> &'a str {
    line.strip_prefix(sign)
        .unwrap_or_else(|| panic!("{sign:?} is missing: {line:?}"))
        .trim_start_matches(' ')
}

#[test]
fn bytes_that_are_no_text() {
    let error = Sequence::from_json_bytes("bad.json", b"{\n\n\xff}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "bad.json:3: a sequence file must be UTF-8 text, and this line is not"
    );
}

#[test]
fn an_empty_file() {
    let error = Sequence::from_json("bad.json", "").unwrap_err();
    let expected = "bad.json:1: this is no valid JSON: EOF while parsing a value";
    assert_eq!(error.to_string(), expected);
}

/// A value of many lines is one place: where it starts.
#[test]
fn places_in_a_file_with_one_key_a_line() {
    let text = shipped::text("quickstart").unwrap();
    let find = "\"count\": {\"T.hits\": 1}, \"fill\": 0";
    let text = text.replacen(find, "\n\"count\":\n{\n\"events\": 1\n}\n,\n\"fill\": 0", 1);
    let error = Sequence::from_json("bad.json", &text).unwrap_err();
    assert_eq!(error.line(), Some(31), "{error}");
    assert_eq!(
        *error.problem(),
        Problem::DynamicWithoutTotal {
            buffer: "hit_flags".into()
        }
    );
}

/// A builder with a batch size and two algorithms.
fn builder() -> (SequenceBuilder, [AlgorithmId; 2]) {
    let mut b = SequenceBuilder::new("mine");
    b.parameter("events", 10);
    let algorithms = ["first", "second"].map(|name| b.algorithm(name));
    (b, algorithms)
}

fn spec(name: &str) -> BufferSpec {
    BufferSpec::device_static(name).constant(1)
}

fn expect(b: SequenceBuilder, sentence: &str) {
    let error = b.build().unwrap_err();
    assert_eq!(error.to_string(), format!("sequence \"mine\": {sentence}"));
    assert_eq!((error.file(), error.line()), (None, None));
}

#[test]
fn builder_without_events() {
    let sentence =
        "there is no parameter \"events\"; declare it with the largest batch as its maximum";
    expect(SequenceBuilder::new("mine"), sentence);
}

#[test]
fn builder_without_a_name() {
    let mut b = SequenceBuilder::new("");
    b.parameter("events", 10);
    let problem = b.build().unwrap_err().problem().clone();
    assert_eq!(
        problem,
        Problem::BadName {
            what: "sequence",
            name: String::new()
        }
    );
}

#[test]
fn builder_out_of_order() {
    let (mut b, [first, second]) = builder();
    b.write(second, spec("x"));
    b.write(first, spec("y"));
    expect(
        b,
        "buffer \"y\" of algorithm \"first\" is declared after a buffer of the later algorithm \
         \"second\"; declare buffers in the order of their algorithms",
    );
}

#[test]
fn builder_with_bad_coefficients() {
    let (mut b, [first, _]) = builder();
    b.total("T.x", first, "many");
    expect(
        b,
        "\"expected_per_event\" of total \"T.x\" is \"many\"; it must be a non-negative decimal \
         such as 0.34",
    );
    let (mut b, [first, second]) = builder();
    let total = b.total("T.x", first, 1);
    b.write(second, BufferSpec::device_dynamic("x").per(total, "-1"));
    expect(
        b,
        "the coefficient of \"T.x\" of buffer \"x\" is \"-1\"; it must be a non-negative decimal \
         such as 0.34",
    );
}

#[test]
fn builder_with_a_variable_twice() {
    let (mut b, [first, _]) = builder();
    let pixels = b.parameter("pixels", 3);
    b.write(first, spec("x").per(pixels, 1).per(pixels, Ratio::ONE));
    expect(
        b,
        "the count of buffer \"x\" has \"pixels\" twice; give its coefficients as one",
    );
}

fn write(b: &mut SequenceBuilder, writer: AlgorithmId, spec: BufferSpec) {
    b.write(writer, spec);
}

/// Ids of a larger builder are not of this one, wherever they are used.
#[test]
fn builder_with_ids_of_another_one() {
    let mut other = SequenceBuilder::new("other");
    let (mut algorithm, mut buffer, mut parameter, mut total) = Default::default();
    for index in 0..9 {
        let id = other.algorithm(format!("a{index}"));
        buffer = Some(other.write(id, spec("b")));
        parameter = Some(other.parameter("p", 1));
        total = Some(other.total("t", id, 1));
        algorithm = Some(id);
    }
    let (algorithm, buffer) = (algorithm.unwrap(), buffer.unwrap());
    let (parameter, total) = (parameter.unwrap(), total.unwrap());
    type Use<'a> = &'a dyn Fn(&mut SequenceBuilder, [AlgorithmId; 2]);
    let uses: [(&str, Use<'_>); 13] = [
        ("algorithm", &|b, _| b.label(algorithm, "x")),
        ("algorithm", &|b, _| b.read(algorithm, buffer)),
        ("algorithm", &|b, _| b.read_all(algorithm, [])),
        ("algorithm", &|b, _| write(b, algorithm, spec("x"))),
        ("algorithm", &|b, _| {
            b.total("x", algorithm, 1);
        }),
        ("algorithm", &|b, [first, _]| {
            write(b, first, spec("x").live_until(algorithm))
        }),
        ("buffer", &|b, [first, _]| b.read(first, buffer)),
        ("buffer", &|b, [first, _]| {
            write(b, first, spec("x").copy_of(buffer))
        }),
        ("buffer", &|b, [first, _]| {
            write(b, first, spec("x").keeps_alive(buffer))
        }),
        ("buffer", &|b, _| b.keep_alive(buffer, buffer)),
        ("buffer", &|b, [first, _]| b.live_until(buffer, first)),
        ("parameter", &|b, [first, _]| {
            write(b, first, spec("x").per(parameter, 1))
        }),
        ("total", &|b, [first, _]| {
            write(b, first, spec("x").per(total, 1))
        }),
    ];
    for (index, (expected, wrong)) in uses.into_iter().enumerate() {
        let (mut b, algorithms) = builder();
        wrong(&mut b, algorithms);
        match b.build().unwrap_err().problem() {
            Problem::ForeignId { what, .. } => assert_eq!(*what, expected, "use {index}"),
            problem => panic!("use {index}: {problem}"),
        }
    }
}

/// Zero sizes, counts, batches and lifetimes are legal.
#[test]
fn zeros_are_no_errors() {
    let mut b = SequenceBuilder::new("zeros");
    let events = b.parameter("events", 0);
    let first = b.algorithm("first");
    let second = b.algorithm("second");
    let total = b.total("T.x", first, 0);
    for (scope, name) in [(Scope::Host, "h"), (Scope::Device, "d")] {
        let named = |suffix: &str| format!("{name}{suffix}");
        b.write(
            first,
            BufferSpec::new(named("0"), scope, Kind::Static).element_bytes(0),
        );
        b.write(
            first,
            BufferSpec::new(named("1"), scope, Kind::Static).per(events, 0),
        );
    }
    b.write(
        second,
        BufferSpec::device_dynamic("e")
            .element_bytes(0)
            .per(total, 0),
    );
    let sequence = b.build().unwrap();
    let totals = sequence.expected_totals(0).unwrap();
    for buffer in sequence.buffers() {
        assert_eq!(buffer.bytes(&sequence.parameters_at(0), &totals), Ok(0));
    }
    let mut empty = SequenceBuilder::new("empty");
    empty.parameter("events", 0);
    let empty = empty.build().unwrap();
    assert_eq!(
        Sequence::from_json("empty.json", &empty.to_json()).unwrap(),
        empty
    );
}
