//! Files: what is read, and what is refused with which words.

use super::*;
use crate::plan::{Buffer, Instance};

fn read(text: &str) -> Result<Instance, CsvError> {
    parse_instance(text.as_bytes(), "in.csv")
}

fn names(text: &str) -> Vec<String> {
    read(text)
        .unwrap()
        .buffers()
        .iter()
        .map(|b| b.name.clone())
        .collect()
}

/// The whole message.
fn refusal(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn columns_come_in_any_order() {
    let instance = read("size,alignment,id,upper,lower\n8,4,a,2,1\n9,,b,3,3\n").unwrap();
    let expected = [
        Buffer::new("a", 1, 2, 8).aligned_to(4),
        Buffer::new("b", 3, 3, 9),
    ];
    assert_eq!(instance.buffers(), expected);
}

#[test]
fn blank_lines_crlf_marks_and_spaces_are_fine() {
    let text = "\u{feff}\r\n id ,lower,upper,size\r\n\r\na, 1 ,2,3\r\n  \r\n\r\nb,1,2,3";
    assert_eq!(names(text), ["a", "b"]);
    assert_eq!(
        names("id,lower,upper,size\ra,1,2,3\r\rb,1,2,3\r"),
        ["a", "b"]
    );
    assert_eq!(names("id,lower,upper,size\n\n\n"), [""; 0]);
}

#[test]
fn quoted_fields() {
    let text = "id,lower,upper,size\n\"a,\"\"b\"\"c\",\"1\",2,3\n<end of text>,1,2,3\n";
    assert_eq!(names(text), ["a,\"b\"c", "<end of text>"]);
    // A line inside a field counts as a line.
    let error = refusal(&format!("{text}b,\"1\n\",2,3\nx,1,2\n"));
    assert!(
        error.starts_with("in.csv:6: the row of buffer 'x' has 3 field(s)"),
        "{error}"
    );
}

#[test]
fn each_fault_names_its_line_and_buffer() {
    let header = "id,lower,upper,size,alignment,offset";
    let cases: &[(&str, &[&str])] = &[
        ("", &["in.csv:1: ", "header is missing"]),
        ("\n \n", &["in.csv:1: ", "header is missing"]),
        (
            "a,0,1,2\n",
            &["in.csv:1: ", "header is missing", "name the columns"],
        ),
        (
            "id,lower,upper,size,colour\n",
            &["in.csv:1: ", "column 'colour'", "known are id"],
        ),
        (
            "\n\nid,lower,upper\n",
            &[
                "in.csv:3: ",
                "no column 'size'",
                "id, lower, upper and size",
            ],
        ),
        (
            "id,lower,upper,size,id\n",
            &["in.csv:1: ", "column 'id' twice"],
        ),
        (
            "HEAD\n\na,0,1,2,1\n",
            &["in.csv:3: ", "buffer 'a' has 5 field(s)", "header has 6"],
        ),
        (
            "HEAD\na,0,1,2,1,0,0\n",
            &["in.csv:2: ", "buffer 'a' has 7 field(s)"],
        ),
        (
            "HEAD\r\n\r\na,0,1,x,1,0\n",
            &["in.csv:3: ", "'a'", "size is 'x'", "whole number"],
        ),
        (
            "HEAD\na,0,1,1.5,1,0\n",
            &["in.csv:2: ", "size is '1.5'", "whole number"],
        ),
        (
            "HEAD\na,0,,1,1,0\n",
            &["in.csv:2: ", "upper is ''", "no number"],
        ),
        (
            "HEAD\na,-1,1,2,1,0\n",
            &["in.csv:2: ", "lower is '-1'", "negative"],
        ),
        (
            "HEAD\na,0,18446744073709551616,2,1,0\n",
            &["upper", "too large", "2^64 - 1"],
        ),
        (
            "HEAD\na,0,1,2,1,0\n\nb,0,1,2,1,0\na,0,1,2,1,0\n",
            &["in.csv:5: ", "'a'", "line 2"],
        ),
        (
            "HEAD\na,3,1,2,1,0\n",
            &["in.csv:2: ", "'a'", "lower is 3", "must be 3 or more"],
        ),
        (
            "HEAD\na,0,1,2,0,0\n",
            &["in.csv:2: ", "'a'", "alignment 0", "power of two"],
        ),
        (
            "HEAD\na,0,1,2,24,0\n",
            &["in.csv:2: ", "'a'", "alignment 24", "power of two"],
        ),
        ("HEAD\n,0,1,2,1,0\n", &["in.csv:2: ", "empty name"]),
        (
            "HEAD\na,0,1,2,1,0\nb\0,0,1,2,1,0\n",
            &["in.csv:3: ", "\"b\\0\"", "control character"],
        ),
        (
            "HEAD\n\u{1b}[2J,0,1,2,1,0\n",
            &["in.csv:2: ", "\"\\u{1b}[2J\"", "control character"],
        ),
        (
            "HEAD\na,0,1,2,1,0\n\"b\nc\",0,1,2,1,0\n",
            &["in.csv:3: ", "\"b\\nc\"", "control character"],
        ),
        (
            "HEAD\na,0,1,18446744073709551615,1,0\nb,2,3,1,1,0\n",
            &["in.csv:3: ", "'b'", "sum of all sizes", "less than 2^64"],
        ),
        (
            "HEAD\na,0,1,2,1,18446744073709551614\n",
            &[
                "in.csv:2: ",
                "'a'",
                "ends past",
                "at most 18446744073709551613",
            ],
        ),
        (
            "HEAD\na,0,1,2,1,zero\n",
            &["in.csv:2: ", "offset is 'zero'"],
        ),
        (
            "HEAD\n\n\"a,0,1,2,1,0\nb,0,1,2,1,0\n",
            &["in.csv:3: ", "never closed"],
        ),
        ("HEAD\na,0,1,2,1,\"0", &["in.csv:2: ", "never closed"]),
    ];
    for (text, parts) in cases {
        let error = refusal(&text.replace("HEAD", header));
        for part in *parts {
            assert!(error.contains(part), "'{part}' is not in '{error}'");
        }
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn text_that_looks_like_the_end_is_no_end() {
    // The reader puts a mark of its own after the text.
    let text = "id,lower,upper,size\n<end of text>\nb,1,2,3\n";
    assert!(refusal(text).starts_with("in.csv:2: the row of buffer '<end of text>' has 1 field"));
    let text = "id,lower,upper,size\na,\"\n1\n\",2,3\n<end of text>,1,2,3\n\n\n";
    assert_eq!(names(text), ["a", "<end of text>"]);
    let text = "id,lower,upper,size\n\"a\n<end of text>\n\",1,2,3\nb,1,2,3\n\n\n";
    assert!(refusal(text).starts_with("in.csv:2: buffer \"a\\n<end of text>\\n\" has a control"));
    let text = "id,lower,upper,size\na,1,2,3\n<end of text>";
    assert!(refusal(text).starts_with("in.csv:3: "));
}

#[test]
fn bytes_that_are_no_text() {
    let error = parse_instance(b"id,lower,upper,size\n\xff,0,1,2\n", "in.csv").unwrap_err();
    assert_eq!(error.line, Some(2));
    assert!(matches!(error.fault, CsvFault::NotUtf8));
}

#[test]
fn a_plan_needs_every_offset_and_an_instance_none() {
    let text = "id,lower,upper,size,offset\na,0,1,2,\n";
    assert_eq!(names(text), ["a"]);
    let error = parse_plan(text.as_bytes(), "p.csv")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("p.csv:2: buffer 'a': offset is ''"),
        "{error}"
    );
    let error = parse_plan(b"id,lower,upper,size\n", "p.csv")
        .unwrap_err()
        .to_string();
    assert!(error.contains("no column 'offset'"), "{error}");
}

#[test]
fn a_file_that_is_not_there_and_one_that_cannot_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.csv");
    let error = read_instance(&missing).unwrap_err();
    assert!(
        error.line.is_none() && error.to_string().contains("missing.csv: "),
        "{error}"
    );
    let nowhere = directory.path().join("no/such/plan.csv");
    assert!(write_plan(&nowhere, &Instance::default(), &[]).is_err());
}

#[test]
fn alignments_are_written_only_where_there_are_any() {
    let text = |alignment| {
        let buffers = vec![Buffer::new("a", 0, 1, 2).aligned_to(alignment)];
        let mut text = Vec::new();
        format_plan(&Instance::new(buffers).unwrap(), &[64], &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(text(1), "id,lower,upper,size,offset\na,0,1,2,64\n");
    assert_eq!(
        text(8),
        "id,lower,upper,size,alignment,offset\na,0,1,2,8,64\n"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let names = [
        "plain", "comma,", "quote\"", "'single'", ";", " spaces ", "\u{fc}", "#",
    ];
    let buffers = names
        .iter()
        .enumerate()
        .map(|(i, &name)| Buffer::new(name, i as u64, u64::MAX, 1 << i).aligned_to(1 << (8 * i)));
    let instance = Instance::new(buffers.collect()).unwrap();
    let offsets: Vec<u64> = (0..names.len() as u64).map(|i| i * 10).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.csv");
    std::fs::write(&path, "what was there before").unwrap();
    write_plan(&path, &instance, &offsets).unwrap();
    assert_eq!(read_plan(&path).unwrap(), (instance.clone(), offsets));
    assert_eq!(read_instance(&path).unwrap(), instance);
    write_instance(&path, &instance).unwrap();
    assert_eq!(read_instance(&path).unwrap(), instance);
    // Nothing half-written stays beside it.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
