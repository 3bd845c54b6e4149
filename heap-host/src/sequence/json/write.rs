//! From a sequence to JSON: one line for each parameter, total and buffer, so
//! that differences and error messages point at one thing.

use std::fmt::Write;

use super::{FORMAT, VERSION};
use crate::sequence::count::Count;
use crate::sequence::model::{
    Algorithm, Buffer, BufferId, DEFAULT_ALIGNMENT, Init, Parameter, Total, Variable,
};
use crate::sequence::validate::CONSTANT_KEY;
use crate::sequence::whole::Sequence;

pub(super) fn sequence(sequence: &Sequence) -> String {
    let mut head = vec![
        format!("\"format\": {}", quoted(FORMAT)),
        format!("\"version\": {VERSION}"),
        format!("\"name\": {}", quoted(sequence.name())),
    ];
    if !sequence.source().is_empty() {
        head.push(format!("\"source\": {}", quoted(sequence.source())));
    }
    head.push(list(
        "parameters",
        " ",
        sequence.parameters().iter().map(parameter),
    ));
    head.push(list(
        "totals",
        " ",
        sequence.totals().iter().map(|entry| total(sequence, entry)),
    ));
    let algorithms = sequence
        .algorithms()
        .iter()
        .map(|entry| algorithm(sequence, entry));
    head.push(list("algorithms", " ", algorithms));
    format!("{{\n {}\n}}\n", head.join(",\n "))
}

/// A list with an item on each line.
fn list(key: &str, indent: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|item| format!("\n{indent} {item}")).collect();
    if items.is_empty() {
        return format!("{}: []", quoted(key));
    }
    format!("{}: [{}\n{indent}]", quoted(key), items.join(","))
}

fn parameter(parameter: &Parameter) -> String {
    format!(
        "{{\"name\": {}, \"max\": {}}}",
        quoted(&parameter.name),
        parameter.max
    )
}

fn total(sequence: &Sequence, total: &Total) -> String {
    format!(
        "{{\"name\": {}, \"computed_by\": {}, \"expected_per_event\": {}}}",
        quoted(&total.name),
        quoted(&sequence.algorithm(total.computed_by).name),
        total.expected_per_event
    )
}

fn algorithm(sequence: &Sequence, algorithm: &Algorithm) -> String {
    let mut line = format!("{{\"name\": {}", quoted(&algorithm.name));
    if !algorithm.label.is_empty() {
        push(&mut line, "label", &quoted(&algorithm.label));
    }
    if !algorithm.reads.is_empty() {
        push(
            &mut line,
            "reads",
            &buffer_names(sequence, &algorithm.reads),
        );
    }
    if !algorithm.writes.is_empty() {
        let writes = algorithm
            .writes
            .iter()
            .map(|&id| buffer(sequence, sequence.buffer(id)));
        line += ",\n   ";
        line += &list("writes", "   ", writes);
    }
    line + "}"
}

fn buffer(sequence: &Sequence, buffer: &Buffer) -> String {
    let mut line = format!("{{\"name\": {}", quoted(&buffer.name));
    push(&mut line, "scope", &quoted(buffer.scope.as_str()));
    push(&mut line, "kind", &quoted(buffer.kind.as_str()));
    if buffer.temporary {
        push(&mut line, "temporary", "true");
    }
    push(
        &mut line,
        "element_bytes",
        &buffer.element_bytes.to_string(),
    );
    if buffer.alignment != DEFAULT_ALIGNMENT {
        push(&mut line, "alignment", &buffer.alignment.to_string());
    }
    push(&mut line, "count", &count(sequence, &buffer.count));
    if !buffer.keeps_alive.is_empty() {
        push(
            &mut line,
            "keeps_alive",
            &buffer_names(sequence, &buffer.keeps_alive),
        );
    }
    if let Some(until) = buffer.live_until {
        push(
            &mut line,
            "live_until",
            &quoted(&sequence.algorithm(until).name),
        );
    }
    match buffer.init {
        Init::None => {}
        Init::Fill(byte) => push(&mut line, "fill", &byte.to_string()),
        Init::CopyOf(id) => push(&mut line, "copy_of", &quoted(&sequence.buffer(id).name)),
    }
    line + "}"
}

fn count(sequence: &Sequence, count: &Count) -> String {
    let constant =
        (count.constant > 0).then(|| format!("{}: {}", quoted(CONSTANT_KEY), count.constant));
    let terms = count.terms.iter().map(|&(variable, ratio)| {
        let name = match variable {
            Variable::Parameter(id) => &sequence.parameter(id).name,
            Variable::Total(id) => &sequence.total(id).name,
        };
        format!("{}: {ratio}", quoted(name))
    });
    let members: Vec<String> = constant.into_iter().chain(terms).collect();
    format!("{{{}}}", members.join(", "))
}

fn buffer_names(sequence: &Sequence, ids: &[BufferId]) -> String {
    let names: Vec<String> = ids
        .iter()
        .map(|&id| quoted(&sequence.buffer(id).name))
        .collect();
    format!("[{}]", names.join(", "))
}

/// Appends a member to an object that is not closed yet.
fn push(line: &mut String, key: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = write!(line, ", {}: {value}", quoted(key));
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
