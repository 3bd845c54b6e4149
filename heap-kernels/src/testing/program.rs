//! Programs of heap operations, as data.

use std::vec;
use std::vec::Vec;

use arbitrary::{Result, Unstructured};

use crate::{Config, Place, Request};

/// One operation of one lane. Blocks are named by a number, which counts
/// (modulo their number) the blocks that are live when the operation starts,
/// whichever lane allocated them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocate.
    Alloc {
        /// What.
        request: Request,
        /// Whether the block is to be zeroed.
        zeroed: bool,
    },
    /// Allocate a part of one block for all lanes that do so together.
    AllocWarp {
        /// Bytes for this lane.
        size: u64,
    },
    /// Free a live block.
    Free {
        /// Which.
        which: u32,
    },
    /// Give a live block another size.
    Realloc {
        /// Which.
        which: u32,
        /// The size, and an alignment.
        request: Request,
    },
    /// Free at an offset inside of a live block.
    FreeInside {
        /// Which.
        which: u32,
        /// Where in it, modulo its size.
        by: u64,
    },
    /// Free at an offset outside of the pool's pages.
    FreeOutside {
        /// Which, modulo what there is.
        offset: u64,
    },
    /// Free a block that is not live any more, once nobody is at work.
    FreeAgain {
        /// Which of those.
        which: u32,
    },
    /// Free at any offset at which no live block begins, once nobody is at
    /// work.
    FreeAnywhere {
        /// The offset in the pages, modulo their size.
        offset: u64,
    },
}

/// What ends a phase, once nobody is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseEnd {
    /// Nothing but the checks that follow each phase.
    Check,
    /// Empty slabs are given back.
    Reclaim,
    /// All blocks are forgotten.
    Reset,
}

/// What the lanes do before they all meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The operations of each lane.
    pub lanes: Vec<Vec<Op>>,
    /// What comes then.
    pub end: PhaseEnd,
}

/// A pool, and what lanes do with a heap in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Length of the pool.
    pub pool_bytes: u64,
    /// Layout of the pool.
    pub config: Config,
    /// One after the other.
    pub phases: Vec<Phase>,
}

impl Program {
    /// Bytes that stand for the pool, or for one operation; removing so many
    /// removes one operation and leaves the others alone.
    pub const RECORD: usize = 12;

    /// The program for `lanes` lanes that `bytes` stand for; every sequence of
    /// bytes stands for one.
    #[must_use]
    pub fn decode(bytes: &[u8], lanes: u32) -> Self {
        let (head, rest) = bytes.split_at(bytes.len().min(Self::RECORD));
        let mut program = Self::header(&mut Unstructured::new(head)).unwrap_or(Self {
            pool_bytes: 1 << 20,
            config: Config::default(),
            phases: Vec::new(),
        });
        let idle = vec![Vec::new(); lanes.max(1) as usize];
        let mut open = idle.clone();
        for record in rest.chunks(Self::RECORD) {
            match Step::decode(&mut Unstructured::new(record), &program) {
                Ok(Step::Op(lane, op)) => open[usize::from(lane) % idle.len()].push(op),
                Ok(Step::End(end)) => {
                    let lanes = core::mem::replace(&mut open, idle.clone());
                    program.phases.push(Phase { lanes, end });
                }
                Err(_) => {}
            }
        }
        program.phases.push(Phase {
            lanes: open,
            end: PhaseEnd::Check,
        });
        program
    }

    fn header(source: &mut Unstructured<'_>) -> Result<Self> {
        let page_size = *source.choose(&[4096u64, 4096, 4096, 8192, 16384, 65536])?;
        let pages = source.int_in_range(12u64..=300)?;
        let tail = u64::from(source.arbitrary::<u16>()?) % page_size;
        let config = Config {
            page_size: Some(page_size),
            shards: Some(1 << source.int_in_range(0..=3)?),
            retain: source.arbitrary()?,
            small_max: *source.choose(&[None, None, None, Some(16), Some(1000)])?,
        };
        let least = crate::Geometry::new(page_size * pages, &config);
        let pool_bytes = match least {
            Ok(_) => page_size * pages + tail,
            Err(_) => (page_size * 300).max(1 << 20),
        };
        Ok(Self {
            pool_bytes,
            config,
            phases: Vec::new(),
        })
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.phases
            .iter()
            .flat_map(|phase| &phase.lanes)
            .map(Vec::len)
            .sum()
    }

    /// Whether there is no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One decoded step.
enum Step {
    Op(u8, Op),
    End(PhaseEnd),
}

impl Step {
    fn decode(source: &mut Unstructured<'_>, program: &Program) -> Result<Self> {
        let kind = source.arbitrary::<u8>()?;
        let lane = source.arbitrary()?;
        let which = u32::from(source.arbitrary::<u16>()?);
        let op = match kind {
            0..110 => Op::Alloc {
                request: request(source, program)?,
                zeroed: kind < 20,
            },
            110..125 => Op::AllocWarp {
                size: size(source, program)?,
            },
            125..195 => Op::Free { which },
            195..215 => Op::Realloc {
                which,
                request: request(source, program)?,
            },
            215..222 => Op::FreeInside {
                which,
                by: source.arbitrary()?,
            },
            222..226 => Op::FreeOutside {
                offset: source.arbitrary()?,
            },
            226..236 => Op::FreeAgain { which },
            236..242 => Op::FreeAnywhere {
                offset: source.arbitrary()?,
            },
            242..248 => return Ok(Self::End(PhaseEnd::Check)),
            248..252 => return Ok(Self::End(PhaseEnd::Reclaim)),
            252.. => return Ok(Self::End(PhaseEnd::Reset)),
        };
        Ok(Self::Op(lane, op))
    }
}

fn request(source: &mut Unstructured<'_>, program: &Program) -> Result<Request> {
    let choice = source.arbitrary::<u8>()?;
    let align = match choice >> 2 {
        0..40 => 16,
        40..62 => 1 << (choice % 17),
        62 => 1 << (choice % 64),
        _ => u64::from(choice % 4) * 24,
    };
    let place = [Place::Best, Place::Low, Place::High, Place::Best][usize::from(choice & 3)];
    Ok(Request::new(size(source, program)?)
        .align(align)
        .place(place))
}

/// A size: mostly small, often next to a boundary, sometimes absurd.
fn size(source: &mut Unstructured<'_>, program: &Program) -> Result<u64> {
    let choice = source.arbitrary::<u8>()?;
    let value = u64::from(source.arbitrary::<u16>()?);
    let page = program.config.page_size.unwrap_or(4096);
    let near = |middle: u64| (middle + value % 3).saturating_sub(1);
    Ok(match choice {
        0..100 => value % 300,
        100..130 => near(crate::class_size((value / 3 % 64) as u32)),
        130..160 => value % (2 * page + 2),
        160..200 => near(page * (value / 3 % 9)),
        200..230 => near(page * (value / 3 % 70)),
        230..250 => value * program.pool_bytes / 65_536,
        250..253 => near(program.pool_bytes.saturating_sub(page * (value / 3 % 16))),
        _ => u64::MAX >> (value % 64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_bytes_are_a_program_for_a_pool_that_can_be_formatted(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000), lanes in 1u32..70,
        ) {
            let program = Program::decode(&bytes, lanes);
            prop_assert!(crate::Geometry::new(program.pool_bytes, &program.config).is_ok());
            prop_assert!(program.phases.iter().all(|phase| phase.lanes.len() == lanes as usize));
            let steps = program.len() + program.phases.len() - 1;
            prop_assert_eq!(steps, bytes.len().saturating_sub(12).div_ceil(12));
        }
    }

    #[test]
    fn every_kind_of_operation_occurs() {
        let mut rng = fastrand::Rng::with_seed(1);
        let bytes: Vec<u8> = (0..20_000).map(|_| rng.u8(..)).collect();
        let program = Program::decode(&bytes, 4);
        let kinds: std::collections::HashSet<_> = program
            .phases
            .iter()
            .flat_map(|phase| phase.lanes.iter().flatten())
            .map(core::mem::discriminant)
            .collect();
        assert_eq!(kinds.len(), 8);
        assert!(program.phases.len() > 20 && program.len() > 1000);
    }
}
