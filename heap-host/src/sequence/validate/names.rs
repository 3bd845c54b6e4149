//! Names: well-formed, unique, and from each to its id.

use std::collections::HashMap;

use super::Checked;
use crate::sequence::error::{Located, Part, Place, Problem};
use crate::sequence::model::{AlgorithmId, BufferId, EVENTS, ParameterId, TotalId};
use crate::sequence::whole::{Names, Parts};

/// The key of a count's constant part in a sequence file.
pub(in crate::sequence) const CONSTANT_KEY: &str = "const";

impl Names {
    /// Indexes the names of all parts, in the order of their ids.
    pub(in crate::sequence) fn new<'a>(
        parameters: impl Iterator<Item = &'a str>,
        totals: impl Iterator<Item = &'a str>,
        algorithms: impl Iterator<Item = &'a str>,
        buffers: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Located> {
        let buffer_place = |index| Place::Buffer(index, Part::Whole);
        let names = Self {
            parameters: index("parameter", parameters, ParameterId::new, Place::Parameter)?,
            totals: index("total", totals, TotalId::new, Place::Total)?,
            algorithms: index("algorithm", algorithms, AlgorithmId::new, Place::Algorithm)?,
            buffers: index("buffer", buffers, BufferId::new, buffer_place)?,
        };
        names.check_variables()?;
        names.events().map(|_| names)
    }

    /// Indexes the names of parts that are all there.
    pub(in crate::sequence) fn of(parts: &Parts) -> Result<Self, Located> {
        Self::new(
            parts
                .parameters
                .iter()
                .map(|parameter| parameter.name.as_str()),
            parts.totals.iter().map(|total| total.name.as_str()),
            parts
                .algorithms
                .iter()
                .map(|algorithm| algorithm.name.as_str()),
            parts.buffers.iter().map(|buffer| buffer.name.as_str()),
        )
    }

    /// The parameter by which batches are sized.
    pub(in crate::sequence) fn events(&self) -> Result<ParameterId, Located> {
        let events = self.parameters.get(EVENTS).copied();
        events.ok_or_else(|| Located::new(Place::Whole, Problem::NoEvents))
    }

    /// Counts refer to parameters and totals by name alone.
    fn check_variables(&self) -> Checked {
        let parameter = self
            .parameters
            .get(CONSTANT_KEY)
            .map(|id| ("parameter", Place::Parameter(id.index())));
        let total = self
            .totals
            .get(CONSTANT_KEY)
            .map(|id| ("total", Place::Total(id.index())));
        if let Some((what, place)) = parameter.or(total) {
            return Err(Located::new(
                place,
                Problem::ReservedName {
                    what,
                    name: CONSTANT_KEY.into(),
                },
            ));
        }

        let clashes = self.totals.iter().filter_map(|(name, &total)| {
            let parameter = *self.parameters.get(name)?;
            Some((total, parameter, name))
        });
        match clashes.min() {
            None => Ok(()),
            Some((total, parameter, name)) => Err(Located::clash(
                Place::Total(total.index()),
                Place::Parameter(parameter.index()),
                Problem::AmbiguousName { name: name.clone() },
            )),
        }
    }
}

fn index<'a, Id: Copy>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
    id: impl Fn(usize) -> Id,
    place: impl Fn(usize) -> Place,
) -> Result<HashMap<String, Id>, Located> {
    let mut first = HashMap::new();
    for (index, name) in names.enumerate() {
        check_name(what, name, place(index))?;
        if let Some(earlier) = first.insert(name, index) {
            let problem = Problem::DuplicateName {
                what,
                name: name.into(),
            };
            return Err(Located::clash(place(index), place(earlier), problem));
        }
    }
    Ok(first
        .into_iter()
        .map(|(name, index)| (name.to_owned(), id(index)))
        .collect())
}

pub(super) fn check_name(what: &'static str, name: &str, place: Place) -> Checked {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Located::new(
            place,
            Problem::BadName {
                what,
                name: name.into(),
            },
        ));
    }
    Ok(())
}
