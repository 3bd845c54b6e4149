//! From declarations to parts: names become ids.

use std::collections::HashMap;

use super::decode::{BufferEntry, File, InitEntry};
use super::fields::Text;
use super::tree::Fault;
use crate::sequence::count::Count;
use crate::sequence::error::{Located, Part, Place, Problem};
use crate::sequence::model::{
    Algorithm, AlgorithmId, Buffer, BufferId, Init, Parameter, Total, Variable,
};
use crate::sequence::suggest::nearest;
use crate::sequence::validate;
use crate::sequence::whole::{Names, Parts, Sequence};

/// Follows the names of a file and checks the whole.
pub(super) fn sequence(file: &File<'_>) -> Result<Sequence, Fault> {
    let fault = |located: Located| Fault {
        at: file.place(located.place),
        first: located.first.map(|place| file.place(place)),
        problem: located.problem,
    };
    let names = file.names().map_err(fault)?;
    let parts = file.parts(&names)?;
    validate::sequence(parts, names).map_err(fault)
}

impl File<'_> {
    fn names(&self) -> Result<Names, Located> {
        Names::new(
            self.parameters
                .iter()
                .map(|parameter| &*parameter.name.text),
            self.totals.iter().map(|total| &*total.name.text),
            self.algorithms
                .iter()
                .map(|algorithm| &*algorithm.name.text),
            self.buffers.iter().map(|buffer| &*buffer.name.text),
        )
    }

    /// The byte of the text at which a part of the sequence is.
    fn place(&self, place: Place) -> usize {
        match place {
            Place::Whole => self.name.at,
            Place::Parameter(index) => self.parameters[index].name.at,
            Place::Total(index) => self.totals[index].name.at,
            Place::Algorithm(index) => self.algorithms[index].name.at,
            Place::Read { algorithm, read } => self.algorithms[algorithm].reads[read].at,
            Place::Buffer(index, part) => self.buffers[index].place(part),
            Place::KeepsAlive { buffer, kept } => self.buffers[buffer].keeps_alive[kept].at,
        }
    }

    fn parts(&self, names: &Names) -> Result<Parts, Fault> {
        Ok(Parts {
            name: self.name.text.clone().into_owned(),
            source: self
                .source
                .as_ref()
                .map(|source| source.text.clone().into_owned())
                .unwrap_or_default(),
            parameters: self.parameters(),
            totals: self.totals(names)?,
            algorithms: self.algorithms(names)?,
            buffers: self
                .buffers
                .iter()
                .map(|entry| buffer(entry, names))
                .collect::<Result<_, _>>()?,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let entries = self.parameters.iter();
        entries
            .map(|entry| Parameter {
                name: entry.name.text.clone().into_owned(),
                max: entry.max,
            })
            .collect()
    }

    fn totals(&self, names: &Names) -> Result<Vec<Total>, Fault> {
        let entries = self.totals.iter().map(|entry| {
            let owner = || format!("total {:?}", entry.name.text);
            Ok(Total {
                name: entry.name.text.clone().into_owned(),
                computed_by: find("algorithm", &names.algorithms, &entry.computed_by, owner)?,
                expected_per_event: entry.expected_per_event,
            })
        });
        entries.collect()
    }

    fn algorithms(&self, names: &Names) -> Result<Vec<Algorithm>, Fault> {
        let entries = self.algorithms.iter().map(|entry| {
            let owner = || format!("algorithm {:?}", entry.name.text);
            let reads = entry
                .reads
                .iter()
                .map(|read| find("buffer", &names.buffers, read, owner));
            Ok(Algorithm {
                name: entry.name.text.clone().into_owned(),
                label: entry
                    .label
                    .as_ref()
                    .map(|label| label.text.clone().into_owned())
                    .unwrap_or_default(),
                reads: reads.collect::<Result<_, _>>()?,
                writes: Vec::new(),
                computes: Vec::new(),
            })
        });
        entries.collect()
    }
}

impl BufferEntry<'_> {
    fn place(&self, part: Part) -> usize {
        match part {
            Part::Whole => self.name.at,
            Part::Count => self.count_at,
            Part::Alignment => self.alignment_at,
            Part::LiveUntil => self
                .live_until
                .as_ref()
                .map_or(self.name.at, |until| until.at),
            Part::Init => match &self.init {
                InitEntry::CopyOf(copied) => copied.at,
                InitEntry::None | InitEntry::Fill(_) => self.name.at,
            },
        }
    }
}

fn buffer(entry: &BufferEntry<'_>, names: &Names) -> Result<Buffer, Fault> {
    let owner = || format!("buffer {:?}", entry.name.text);
    let find_buffer = |name| find::<BufferId>("buffer", &names.buffers, name, owner);
    let live_until = entry.live_until.as_ref();
    let init = match &entry.init {
        InitEntry::None => Init::None,
        InitEntry::Fill(byte) => Init::Fill(*byte),
        InitEntry::CopyOf(copied) => Init::CopyOf(find_buffer(copied)?),
    };
    Ok(Buffer {
        name: entry.name.text.clone().into_owned(),
        scope: entry.scope,
        kind: entry.kind,
        temporary: entry.temporary,
        element_bytes: entry.element_bytes,
        alignment: entry.alignment,
        count: count(entry, names)?,
        writer: AlgorithmId::new(entry.writer),
        keeps_alive: entry
            .keeps_alive
            .iter()
            .map(find_buffer)
            .collect::<Result<_, _>>()?,
        live_until: live_until
            .map(|name| find("algorithm", &names.algorithms, name, owner))
            .transpose()?,
        init,
    })
}

fn count(entry: &BufferEntry<'_>, names: &Names) -> Result<Count, Fault> {
    let mut terms = Vec::with_capacity(entry.terms.len());
    for (name, ratio) in &entry.terms {
        terms.push((variable(entry, name, names)?, *ratio));
    }
    // No key is there twice, and no two names are one variable.
    Count::new(entry.constant, terms).map_err(|_| {
        let (buffer, variable) = (entry.name.text.clone().into_owned(), String::new());
        Fault::new(
            entry.count_at,
            Problem::DuplicateVariable { buffer, variable },
        )
    })
}

fn variable(entry: &BufferEntry<'_>, name: &Text<'_>, names: &Names) -> Result<Variable, Fault> {
    let parameter = names.parameters.get(&*name.text).map(|&id| id.into());
    let total = || names.totals.get(&*name.text).map(|&id| id.into());
    parameter.or_else(total).ok_or_else(|| {
        let owner = format!("the count of buffer {:?}", entry.name.text);
        let known = names.parameters.keys().chain(names.totals.keys());
        unknown("parameter or total", known, name, owner)
    })
}

fn find<Id: Copy>(
    what: &'static str,
    known: &HashMap<String, Id>,
    name: &Text<'_>,
    owner: impl Fn() -> String,
) -> Result<Id, Fault> {
    known
        .get(&*name.text)
        .copied()
        .ok_or_else(|| unknown(what, known.keys(), name, owner()))
}

fn unknown<'a>(
    what: &'static str,
    known: impl Iterator<Item = &'a String>,
    name: &Text<'_>,
    owner: String,
) -> Fault {
    let nearest = nearest(&name.text, known.map(String::as_str));
    let problem = Problem::UnknownName {
        owner,
        what,
        name: name.text.clone().into_owned(),
        nearest,
    };
    Fault::new(name.at, problem)
}
