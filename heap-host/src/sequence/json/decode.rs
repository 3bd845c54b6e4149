//! From JSON to declarations: types, ranges and keys are checked here, names
//! are not yet followed.

use super::fields::{Fields, Text, wrong_type};
use super::tree::{Fault, Node};
use super::{FORMAT, VERSION};
use crate::sequence::error::Problem;
use crate::sequence::model::{DEFAULT_ALIGNMENT, Kind, Scope};
use crate::sequence::ratio::Ratio;
use crate::sequence::validate::CONSTANT_KEY;

/// A whole file.
pub(super) struct File<'a> {
    pub(super) name: Text<'a>,
    pub(super) source: Option<Text<'a>>,
    pub(super) parameters: Vec<ParameterEntry<'a>>,
    pub(super) totals: Vec<TotalEntry<'a>>,
    pub(super) algorithms: Vec<AlgorithmEntry<'a>>,
    pub(super) buffers: Vec<BufferEntry<'a>>,
}

pub(super) struct ParameterEntry<'a> {
    pub(super) name: Text<'a>,
    pub(super) max: u64,
}

pub(super) struct TotalEntry<'a> {
    pub(super) name: Text<'a>,
    pub(super) computed_by: Text<'a>,
    pub(super) expected_per_event: Ratio,
}

pub(super) struct AlgorithmEntry<'a> {
    pub(super) name: Text<'a>,
    pub(super) label: Option<Text<'a>>,
    pub(super) reads: Vec<Text<'a>>,
}

pub(super) struct BufferEntry<'a> {
    pub(super) name: Text<'a>,
    /// Index of the algorithm.
    pub(super) writer: usize,
    pub(super) scope: Scope,
    pub(super) kind: Kind,
    pub(super) temporary: bool,
    pub(super) element_bytes: u64,
    pub(super) alignment: u64,
    pub(super) alignment_at: usize,
    pub(super) constant: u64,
    pub(super) terms: Vec<(Text<'a>, Ratio)>,
    pub(super) count_at: usize,
    pub(super) keeps_alive: Vec<Text<'a>>,
    pub(super) live_until: Option<Text<'a>>,
    pub(super) init: InitEntry<'a>,
}

pub(super) enum InitEntry<'a> {
    None,
    Fill(u8),
    CopyOf(Text<'a>),
}

const FILE_KEYS: &[&str] = &[
    "format",
    "version",
    "name",
    "source",
    "parameters",
    "totals",
    "algorithms",
];
const PARAMETER_KEYS: &[&str] = &["name", "max"];
const TOTAL_KEYS: &[&str] = &["name", "computed_by", "expected_per_event"];
const ALGORITHM_KEYS: &[&str] = &["name", "label", "reads", "writes"];
const BUFFER_KEYS: &[&str] = &[
    "name",
    "scope",
    "kind",
    "temporary",
    "element_bytes",
    "alignment",
    "count",
    "keeps_alive",
    "live_until",
    "fill",
    "copy_of",
];

const NAME: &str = "a name, which is a string";

pub(super) fn file(document: Node<'_>) -> Result<File<'_>, Fault> {
    let fields = Fields::open(document, "sequence", "the file")?;
    // A file of another version may well have other keys: say the version.
    check_format(&fields)?;
    fields.check_known(FILE_KEYS)?;
    let mut buffers = Vec::new();
    let algorithms = fields
        .required_items("algorithms", "a list of algorithms")?
        .into_iter()
        .enumerate();
    Ok(File {
        name: fields.required_text("name", NAME)?,
        source: fields.optional_text("source")?,
        parameters: fields
            .required_items("parameters", "a list of parameters, \"events\" among them")?
            .into_iter()
            .map(parameter)
            .collect::<Result<_, _>>()?,
        totals: fields
            .items("totals", "a list of totals")?
            .into_iter()
            .map(total)
            .collect::<Result<_, _>>()?,
        algorithms: algorithms
            .map(|(index, node)| algorithm(index, node, &mut buffers))
            .collect::<Result<_, _>>()?,
        buffers,
    })
}

fn check_format(fields: &Fields<'_>) -> Result<(), Fault> {
    let format = fields.required_text("format", "\"device-heap-sequence\"")?;
    if format.text != FORMAT {
        let found = format.text.into_owned();
        return Err(Fault::new(
            format.at,
            Problem::UnknownFormat {
                found,
                expected: FORMAT,
            },
        ));
    }
    let node = fields.required("version", "the format version, such as 1")?;
    let found = fields.integer("version", node, u64::MAX)?;
    if found != VERSION {
        return Err(Fault::new(
            node.at,
            Problem::UnknownVersion { found, known: "1" },
        ));
    }
    Ok(())
}

fn parameter(node: Node<'_>) -> Result<ParameterEntry<'_>, Fault> {
    let fields = Fields::open(node, "parameter", "a parameter")?;
    fields.check_known(PARAMETER_KEYS)?;
    let max = fields.required("max", "the largest value, an integer")?;
    Ok(ParameterEntry {
        name: fields.required_text("name", NAME)?,
        max: fields.integer("max", max, u64::MAX)?,
    })
}

fn total(node: Node<'_>) -> Result<TotalEntry<'_>, Fault> {
    let fields = Fields::open(node, "total", "a total")?;
    fields.check_known(TOTAL_KEYS)?;
    let key = "expected_per_event";
    let expected = fields.required(key, "a non-negative decimal")?;
    Ok(TotalEntry {
        name: fields.required_text("name", NAME)?,
        computed_by: fields.required_text("computed_by", "the name of an algorithm")?,
        expected_per_event: fields.ratio(key, expected)?,
    })
}

/// Decodes an algorithm, and appends the buffers that it writes.
fn algorithm<'a>(
    index: usize,
    node: Node<'a>,
    buffers: &mut Vec<BufferEntry<'a>>,
) -> Result<AlgorithmEntry<'a>, Fault> {
    let fields = Fields::open(node, "algorithm", "an algorithm")?;
    fields.check_known(ALGORITHM_KEYS)?;
    for node in fields.items("writes", "a list of buffers")? {
        buffers.push(buffer(index, &fields.owner, node)?);
    }
    Ok(AlgorithmEntry {
        name: fields.required_text("name", NAME)?,
        label: fields.optional_text("label")?,
        reads: fields.texts("reads", "a list of buffer names")?,
    })
}

fn buffer<'a>(writer: usize, writer_name: &str, node: Node<'a>) -> Result<BufferEntry<'a>, Fault> {
    let fields = Fields::open(node, "buffer", &format!("a buffer of {writer_name}"))?;
    fields.check_known(BUFFER_KEYS)?;
    let element_bytes = fields.required("element_bytes", "the size of an element, an integer")?;
    let count = fields.required(
        "count",
        "the number of elements, such as {\"const\": 1, \"events\": 2}",
    )?;
    let (constant, terms) = count_terms(&fields, count)?;
    let alignment = fields.get("alignment");
    Ok(BufferEntry {
        name: fields.required_text("name", NAME)?,
        writer,
        scope: scope(&fields)?,
        kind: kind(&fields)?,
        temporary: fields.flag("temporary")?,
        element_bytes: fields.integer("element_bytes", element_bytes, u64::MAX)?,
        alignment: alignment.map_or(Ok(DEFAULT_ALIGNMENT), |node| {
            fields.integer("alignment", node, u64::MAX)
        })?,
        alignment_at: alignment.map_or(fields.at, |node| node.at),
        constant,
        terms,
        count_at: count.at,
        keeps_alive: fields.texts("keeps_alive", "a list of buffer names")?,
        live_until: fields.optional_text("live_until")?,
        init: init(&fields)?,
    })
}

fn scope(fields: &Fields<'_>) -> Result<Scope, Fault> {
    let choices = [Scope::Host, Scope::Device].map(|scope| (scope.as_str(), scope));
    fields.choice("scope", "\"host\" or \"device\"", &choices)
}

fn kind(fields: &Fields<'_>) -> Result<Kind, Fault> {
    let choices = [Kind::Static, Kind::Dynamic].map(|kind| (kind.as_str(), kind));
    fields.choice("kind", "\"static\" or \"dynamic\"", &choices)
}

type Terms<'a> = (u64, Vec<(Text<'a>, Ratio)>);

/// A count: an object from variables to coefficients.
fn count_terms<'a>(buffer: &Fields<'a>, node: Node<'a>) -> Result<Terms<'a>, Fault> {
    let owner = format!("\"count\" of {}", buffer.owner);
    if node.members()?.is_none() {
        return Err(wrong_type(
            &owner,
            "an object such as {\"const\": 1, \"events\": 2}",
            node,
        ));
    }
    let fields = Fields::open_unnamed(node, owner)?;
    let (mut constant, mut terms) = (0, Vec::new());
    for (key, value) in fields.members() {
        if key.text == CONSTANT_KEY {
            constant = fields.integer(CONSTANT_KEY, *value, u64::MAX)?;
        } else {
            terms.push((key.clone(), fields.ratio(&key.text, *value)?));
        }
    }
    Ok((constant, terms))
}

fn init<'a>(fields: &Fields<'a>) -> Result<InitEntry<'a>, Fault> {
    let copied = fields.optional_text("copy_of")?;
    match (fields.get("fill"), copied) {
        (None, None) => Ok(InitEntry::None),
        (None, Some(copied)) => Ok(InitEntry::CopyOf(copied)),
        (Some(node), None) => {
            let byte = fields.integer("fill", node, u64::from(u8::MAX))?;
            Ok(InitEntry::Fill(byte as u8))
        }
        (Some(_), Some(copied)) => {
            let owner = fields.owner.clone();
            let problem = Problem::ExclusiveKeys {
                owner,
                first: "fill",
                second: "copy_of",
            };
            Err(Fault::new(copied.at, problem))
        }
    }
}
