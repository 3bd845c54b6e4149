//! The rules that make parts a sequence, the same for builder and file.

mod buffers;
mod names;

use std::collections::HashSet;
use std::hash::Hash;

use self::buffers::View;
use self::names::check_name;
use super::error::{Located, Part, Place, Problem};
use super::model::{AlgorithmId, Buffer, BufferId, TotalId};
use super::whole::{Names, Parts, Sequence};

pub(super) use self::names::CONSTANT_KEY;

type Checked = Result<(), Located>;

/// Checks every rule and derives what follows from the parts.
pub(super) fn sequence(mut parts: Parts, names: Names) -> Result<Sequence, Located> {
    let events = names.events()?;
    check_name("sequence", &parts.name, Place::Whole)?;
    check_totals(&parts)?;
    let view = View::new(&parts, events)?;
    check_order(&parts)?;
    (0..parts.algorithms.len()).try_for_each(|index| check_reads(&parts, index))?;
    (0..parts.buffers.len()).try_for_each(|index| view.check_buffer(index))?;
    view.check_sums()?;
    derive_lists(&mut parts);
    Ok(Sequence {
        parts,
        names,
        events,
    })
}

fn check_totals(parts: &Parts) -> Checked {
    for (index, total) in parts.totals.iter().enumerate() {
        if total.computed_by.index() >= parts.algorithms.len() {
            let problem = foreign(format!("total {:?}", total.name), "algorithm");
            return Err(Located::new(Place::Total(index), problem));
        }
    }
    Ok(())
}

/// Buffers come in the program order of their writers.
fn check_order(parts: &Parts) -> Checked {
    let mut latest = AlgorithmId::new(0);
    for (index, buffer) in parts.buffers.iter().enumerate() {
        let fail = |problem| Err(Located::new(Place::Buffer(index, Part::Whole), problem));
        if buffer.writer.index() >= parts.algorithms.len() {
            return fail(foreign(owner(buffer), "algorithm"));
        }
        if buffer.writer < latest {
            return fail(Problem::OutOfOrder {
                buffer: buffer.name.clone(),
                writer: algorithm(parts, buffer.writer),
                later: algorithm(parts, latest),
            });
        }
        latest = buffer.writer;
    }
    Ok(())
}

fn check_reads(parts: &Parts, index: usize) -> Checked {
    let reads = &parts.algorithms[index].reads;
    for (read, &id) in reads.iter().enumerate() {
        check_read(parts, index, id).map_err(|problem| {
            Located::new(
                Place::Read {
                    algorithm: index,
                    read,
                },
                problem,
            )
        })?;
    }
    match first_duplicate(reads) {
        None => Ok(()),
        Some(read) => Err(Located::new(
            Place::Read {
                algorithm: index,
                read,
            },
            Problem::DuplicateRead {
                reader: parts.algorithms[index].name.clone(),
                buffer: parts.buffers[reads[read].index()].name.clone(),
            },
        )),
    }
}

fn check_read(parts: &Parts, index: usize, id: BufferId) -> Result<(), Problem> {
    let reader = parts.algorithms[index].name.clone();
    let Some(read) = parts.buffers.get(id.index()) else {
        return Err(foreign(format!("algorithm {reader:?}"), "buffer"));
    };
    let (buffer, writer) = (read.name.clone(), algorithm(parts, read.writer));
    if read.writer.index() == index {
        return Err(Problem::ReadsItsOwn { reader, buffer });
    }
    if read.temporary {
        let reader = format!("algorithm {reader:?}");
        return Err(Problem::TemporaryRead {
            reader,
            buffer,
            writer,
        });
    }
    if read.writer.index() > index {
        return Err(Problem::ReadBeforeWrite {
            reader,
            buffer,
            writer,
        });
    }
    Ok(())
}

/// What each algorithm writes and computes.
fn derive_lists(parts: &mut Parts) {
    for algorithm in &mut parts.algorithms {
        algorithm.writes.clear();
        algorithm.computes.clear();
    }
    for (index, buffer) in parts.buffers.iter().enumerate() {
        parts.algorithms[buffer.writer.index()]
            .writes
            .push(BufferId::new(index));
    }
    for (index, total) in parts.totals.iter().enumerate() {
        parts.algorithms[total.computed_by.index()]
            .computes
            .push(TotalId::new(index));
    }
}

fn first_duplicate<T: Hash + Eq>(items: &[T]) -> Option<usize> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().position(|item| !seen.insert(item))
}

fn algorithm(parts: &Parts, id: AlgorithmId) -> String {
    parts.algorithms[id.index()].name.clone()
}

fn owner(buffer: &Buffer) -> String {
    format!("buffer {:?}", buffer.name)
}

fn foreign(owner: String, what: &'static str) -> Problem {
    Problem::ForeignId { owner, what }
}
