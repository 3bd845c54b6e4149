//! The rules for buffers: size, lifetime, views and initial contents.

use std::collections::HashMap;

use super::{Checked, algorithm, first_duplicate, foreign, owner};
use crate::sequence::count::CountOverflow;
use crate::sequence::error::{Located, Part, Place, Problem};
use crate::sequence::model::{
    Buffer, BufferId, Init, Kind, MAX_ALIGNMENT, ParameterId, Scope, Total, TotalId, Variable,
};
use crate::sequence::whole::Parts;

/// The parts with the values of the largest batch.
pub(super) struct View<'a> {
    parts: &'a Parts,
    parameters: Vec<u64>,
    totals: Vec<u64>,
}

impl<'a> View<'a> {
    pub(super) fn new(parts: &'a Parts, events: ParameterId) -> Result<Self, Located> {
        let parameters: Vec<u64> = parts
            .parameters
            .iter()
            .map(|parameter| parameter.max)
            .collect();
        let expected = |(index, total): (usize, &Total)| {
            total.expected(parameters[events.index()]).map_err(|_| {
                Located::new(
                    Place::Total(index),
                    Problem::TotalOverflow {
                        total: total.name.clone(),
                    },
                )
            })
        };
        let totals = parts
            .totals
            .iter()
            .enumerate()
            .map(expected)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            parts,
            parameters,
            totals,
        })
    }

    fn bytes(&self, buffer: &Buffer) -> Result<u64, CountOverflow> {
        buffer.bytes(&self.parameters, &self.totals)
    }

    pub(super) fn check_buffer(&self, index: usize) -> Checked {
        let buffer = &self.parts.buffers[index];
        let at = |part| move |problem| Located::new(Place::Buffer(index, part), problem);
        check_alignment(buffer).map_err(at(Part::Alignment))?;
        self.check_count(buffer).map_err(at(Part::Count))?;
        self.check_live_until(buffer).map_err(at(Part::LiveUntil))?;
        self.check_init(index).map_err(at(Part::Init))?;
        self.check_kept(index)
    }

    fn check_count(&self, buffer: &Buffer) -> Result<(), Problem> {
        let name = || buffer.name.clone();
        let mut total = None;
        for &(variable, _) in &buffer.count.terms {
            match variable {
                Variable::Parameter(id) if id.index() >= self.parameters.len() => {
                    return Err(foreign(owner(buffer), "parameter"));
                }
                Variable::Total(id) if id.index() >= self.totals.len() => {
                    return Err(foreign(owner(buffer), "total"));
                }
                Variable::Parameter(_) => {}
                Variable::Total(id) => total = Some(self.check_total(buffer, id)?),
            }
        }
        match (buffer.kind, total) {
            (Kind::Static, Some(total)) => Err(Problem::StaticUsesTotal {
                buffer: name(),
                total,
            }),
            (Kind::Dynamic, None) => Err(Problem::DynamicWithoutTotal { buffer: name() }),
            _ => match self.bytes(buffer) {
                Ok(_) => Ok(()),
                Err(overflow) => Err(Problem::SizeOverflow {
                    buffer: name(),
                    overflow,
                }),
            },
        }
    }

    /// The name of a total that is there before the buffer's writer starts.
    fn check_total(&self, buffer: &Buffer, id: TotalId) -> Result<String, Problem> {
        let total = &self.parts.totals[id.index()];
        // A static buffer may use no total at all, which is said instead.
        if buffer.kind == Kind::Dynamic && total.computed_by >= buffer.writer {
            return Err(Problem::TotalTooLate {
                buffer: buffer.name.clone(),
                writer: algorithm(self.parts, buffer.writer),
                total: total.name.clone(),
                computed_by: algorithm(self.parts, total.computed_by),
            });
        }
        Ok(total.name.clone())
    }

    fn check_live_until(&self, buffer: &Buffer) -> Result<(), Problem> {
        let Some(until) = buffer.live_until else {
            return Ok(());
        };
        if until.index() >= self.parts.algorithms.len() {
            return Err(foreign(owner(buffer), "algorithm"));
        }
        if buffer.temporary {
            return Err(Problem::TemporaryLiveUntil {
                buffer: buffer.name.clone(),
            });
        }
        if until < buffer.writer {
            return Err(Problem::LiveUntilBeforeWriter {
                buffer: buffer.name.clone(),
                until: algorithm(self.parts, until),
                writer: algorithm(self.parts, buffer.writer),
            });
        }
        Ok(())
    }

    fn check_init(&self, index: usize) -> Result<(), Problem> {
        let buffer = &self.parts.buffers[index];
        let Init::CopyOf(id) = buffer.init else {
            return Ok(());
        };
        let Some(copied) = self.parts.buffers.get(id.index()) else {
            return Err(foreign(owner(buffer), "buffer"));
        };
        let (name, copied_name) = (buffer.name.clone(), copied.name.clone());
        let writer = algorithm(self.parts, copied.writer);
        if id.index() == index {
            return Err(Problem::CopyOfItself { buffer: name });
        }
        if copied.writer >= buffer.writer {
            let buffer_writer = algorithm(self.parts, buffer.writer);
            return Err(Problem::CopyTooEarly {
                buffer: name,
                buffer_writer,
                copied: copied_name,
                writer,
            });
        }
        if copied.temporary {
            return Err(Problem::TemporaryRead {
                reader: owner(buffer),
                buffer: copied_name,
                writer,
            });
        }
        if copied.scope != buffer.scope {
            return Err(Problem::CopyScope {
                buffer: name,
                scope: buffer.scope,
                copied: copied_name,
            });
        }
        if (copied.element_bytes, &copied.count) != (buffer.element_bytes, &buffer.count) {
            return Err(Problem::CopySize {
                buffer: name,
                copied: copied_name,
            });
        }
        Ok(())
    }

    fn check_kept(&self, index: usize) -> Checked {
        let view = &self.parts.buffers[index];
        let at = |kept| Place::KeepsAlive {
            buffer: index,
            kept,
        };
        for (kept, &id) in view.keeps_alive.iter().enumerate() {
            self.check_kept_one(index, id)
                .map_err(|problem| Located::new(at(kept), problem))?;
        }
        let Some(kept) = first_duplicate(&view.keeps_alive) else {
            return Ok(());
        };
        let buffer = self.parts.buffers[view.keeps_alive[kept].index()]
            .name
            .clone();
        let problem = Problem::DuplicateKeepsAlive {
            view: view.name.clone(),
            buffer,
        };
        Err(Located::new(at(kept), problem))
    }

    fn check_kept_one(&self, index: usize, id: BufferId) -> Result<(), Problem> {
        let view = &self.parts.buffers[index];
        let Some(kept) = self.parts.buffers.get(id.index()) else {
            return Err(foreign(owner(view), "buffer"));
        };
        let (name, buffer) = (view.name.clone(), kept.name.clone());
        let writer = algorithm(self.parts, kept.writer);
        if kept.writer > view.writer {
            let view_writer = algorithm(self.parts, view.writer);
            return Err(Problem::KeepsAliveLater {
                view: name,
                view_writer,
                buffer,
                writer,
            });
        }
        if kept.temporary && !(view.temporary && view.writer == kept.writer) {
            return Err(Problem::TemporaryKeptAlive {
                view: name,
                buffer,
                writer,
            });
        }
        Ok(())
    }

    /// All buffers of a scope and kind together, each rounded up to its
    /// alignment, so that no offset that a planner gives can wrap.
    pub(super) fn check_sums(&self) -> Checked {
        let mut sums: HashMap<(Scope, Kind), u64> = HashMap::new();
        for (index, buffer) in self.parts.buffers.iter().enumerate() {
            let (scope, kind) = (buffer.scope, buffer.kind);
            let sum = sums.entry((scope, kind)).or_default();
            let bytes = self.bytes(buffer).ok();
            let padded = bytes.and_then(|bytes| bytes.checked_next_multiple_of(buffer.alignment));
            *sum = padded
                .and_then(|bytes| sum.checked_add(bytes))
                .ok_or_else(|| {
                    let problem = Problem::SumOverflow {
                        buffer: buffer.name.clone(),
                        scope,
                        kind,
                    };
                    Located::new(Place::Buffer(index, Part::Count), problem)
                })?;
        }
        Ok(())
    }
}

fn check_alignment(buffer: &Buffer) -> Result<(), Problem> {
    let alignment = buffer.alignment;
    if alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        return Ok(());
    }
    Err(Problem::Alignment {
        buffer: buffer.name.clone(),
        alignment,
    })
}
