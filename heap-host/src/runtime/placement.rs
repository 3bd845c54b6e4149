//! Where dynamic buffers should go in their pool, and how large it must be,
//! from a simulation of the expected totals.
//!
//! The simulated pool has pages only; the heap's slabs, which serve what is
//! smaller than a page or two, are not modelled.

use heap_kernels::Place;

use super::options::Placement;

/// Borders to try, in algorithms.
const BORDERS: [u32; 16] = [1, 2, 3, 5, 7, 10, 12, 15, 20, 25, 32, 45, 64, 90, 128, 256];

/// A dynamic buffer as the simulation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// The writer's index.
    pub(super) first: u32,
    /// The last algorithm's that needs it.
    pub(super) last: u32,
    /// Expected size.
    pub(super) bytes: u64,
}

/// What the simulation found best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) placement: Placement,
    /// Pages that suffice.
    pub(super) pages: u64,
}

impl Placement {
    /// Where a buffer goes that is needed for so many algorithms after its
    /// writer.
    pub(super) fn place(self, span: u32) -> Place {
        match self {
            Self::Border(border) if span > border => Place::Low,
            Self::Border(_) => Place::High,
            Self::Auto | Self::Best => Place::Best,
        }
    }
}

/// The placement that needs fewest pages, the first of equals: of all of them
/// for [`Placement::Auto`], else the given one. `lives` are in the order of
/// their allocation.
///
/// Takes time proportional to lives and holes, times about 200.
pub(super) fn choose(lives: &[Life], placement: Placement, page: u64) -> Choice {
    let timeline = Timeline::new(lives, page);
    let least = |placement| {
        let pages = timeline.least_pages(placement);
        Choice { placement, pages }
    };
    if placement != Placement::Auto {
        return least(placement);
    }
    let borders = BORDERS.map(Placement::Border);
    let candidates = std::iter::once(Placement::Best).chain(borders);
    let choices = candidates.map(least);
    choices
        .min_by_key(|choice| choice.pages)
        .expect("there are candidates")
}

/// The largest sum of bytes that are live at one algorithm.
pub(super) fn live_bound(lives: &[Life]) -> u64 {
    let sum = |live: &mut u128, life: &Life, sign: bool| {
        let bytes = u128::from(life.bytes);
        *live = if sign { *live + bytes } else { *live - bytes };
    };
    let (mut live, mut peak) = (0u128, 0u128);
    for (edge, life) in edges(lives) {
        sum(&mut live, &lives[life], edge == Edge::Begin);
        peak = peak.max(live);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begin,
    End,
}

/// Begins and ends in program order: an algorithm's buffers begin, in the
/// given order, before those end that it is the last to need.
fn edges(lives: &[Life]) -> Vec<(Edge, usize)> {
    let mut edges = Vec::with_capacity(2 * lives.len());
    for (index, life) in lives.iter().enumerate() {
        edges.push((life.first, Edge::Begin, index));
        edges.push((life.last, Edge::End, index));
    }
    edges.sort_unstable();
    edges
        .into_iter()
        .map(|(_, edge, index)| (edge, index))
        .collect()
}

struct Timeline<'a> {
    lives: &'a [Life],
    edges: Vec<(Edge, usize)>,
    page: u64,
}

impl<'a> Timeline<'a> {
    fn new(lives: &'a [Life], page: u64) -> Self {
        let edges = edges(lives);
        Self { lives, edges, page }
    }

    fn pages(&self, life: usize) -> u64 {
        self.lives[life].bytes.div_ceil(self.page).max(1)
    }

    /// The smallest pool that works, to within 1/256.
    fn least_pages(&self, placement: Placement) -> u64 {
        let (mut live, mut low) = (0u64, 0u64);
        for &(edge, life) in &self.edges {
            match edge {
                Edge::Begin => live = live.saturating_add(self.pages(life)),
                Edge::End => live -= self.pages(life).min(live),
            }
            low = low.max(live);
        }
        if self.fits(low, placement) {
            return low;
        }
        // Grows from what does not fit to what does, then halves the gap.
        let fine = (low / 256).max(1);
        let (mut short, mut enough, mut step) = (low, low, fine);
        while !self.fits(enough, placement) {
            short = enough;
            enough = enough.saturating_add(step);
            step = step.saturating_mul(2);
        }
        while enough - short > fine {
            let middle = short + (enough - short) / 2;
            if self.fits(middle, placement) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        enough
    }

    fn fits(&self, pages: u64, placement: Placement) -> bool {
        let mut holes = Holes::new(pages);
        let mut starts = vec![0; self.lives.len()];
        for &(edge, life) in &self.edges {
            let Life { first, last, .. } = self.lives[life];
            match edge {
                Edge::Begin => match holes.take(self.pages(life), placement.place(last - first)) {
                    Some(start) => starts[life] = start,
                    None => return false,
                },
                Edge::End => holes.give(starts[life], self.pages(life)),
            }
        }
        true
    }
}

/// The free ranges of a pool: ascending, apart, not empty.
struct Holes(Vec<(u64, u64)>);

impl Holes {
    fn new(pages: u64) -> Self {
        Self(if pages > 0 {
            vec![(0, pages)]
        } else {
            Vec::new()
        })
    }

    fn take(&mut self, pages: u64, place: Place) -> Option<u64> {
        let fits = |&(start, end): &(u64, u64)| end - start >= pages;
        let mut holes = self.0.iter();
        let index = match place {
            Place::Low => holes.position(fits),
            Place::High => holes.rposition(fits),
            Place::Best => {
                let fitting = self.0.iter().enumerate().filter(|(_, hole)| fits(hole));
                fitting
                    .min_by_key(|(_, (start, end))| end - start)
                    .map(|(index, _)| index)
            }
        }?;
        let (start, end) = &mut self.0[index];
        let taken = if place == Place::Low {
            *start += pages;
            *start - pages
        } else {
            *end -= pages;
            *end
        };
        if start == end {
            self.0.remove(index);
        }
        Some(taken)
    }

    fn give(&mut self, start: u64, pages: u64) {
        let end = start + pages;
        let next = self.0.partition_point(|hole| hole.0 < start);
        let joins_next = self.0.get(next).is_some_and(|hole| hole.0 == end);
        let joins_last = next > 0 && self.0[next - 1].1 == start;
        match (joins_last, joins_next) {
            (true, true) => self.0[next - 1].1 = self.0.remove(next).1,
            (true, false) => self.0[next - 1].1 = end,
            (false, true) => self.0[next].0 = start,
            (false, false) => self.0.insert(next, (start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn life(first: u32, last: u32, pages: u64) -> Life {
        Life {
            first,
            last,
            bytes: pages * PAGE,
        }
    }

    /// Long lives of a page or two between short ones of many sizes: without
    /// hints, what lives long lands in holes that the short ones need.
    fn comb() -> Vec<Life> {
        let mut random = fastrand::Rng::with_seed(3);
        let mut lives = Vec::new();
        for step in 0..60 {
            lives.push(life(step, step + random.u32(0..3), random.u64(8..60)));
            lives.push(life(step, 100, random.u64(1..3)));
        }
        lives.push(life(70, 71, 64));
        lives
    }

    #[test]
    fn the_bound_counts_what_an_algorithm_frees_beside_what_it_allocates() {
        assert_eq!(
            live_bound(&[life(0, 1, 2), life(1, 2, 3), life(2, 2, 4)]),
            7 * PAGE
        );
        assert_eq!(live_bound(&[]), 0);
    }

    #[test]
    fn a_border_between_long_and_short_lives_saves_memory() {
        let lives = comb();
        let (choice, best) = (
            choose(&lives, Placement::Auto, PAGE),
            choose(&lives, Placement::Best, PAGE),
        );
        assert!(
            choice.pages < best.pages,
            "{choice:?} is no better than {best:?}"
        );
        assert!(matches!(choice.placement, Placement::Border(_)));
        let bound = live_bound(&lives) / PAGE;
        assert!(
            choice.pages <= bound + bound / 8,
            "{choice:?} for {bound} pages"
        );
    }

    #[test]
    fn a_given_placement_is_kept() {
        let given = Placement::Border(1000);
        let choice = choose(&comb(), given, PAGE);
        assert_eq!(choice.placement, given);
        assert!(Timeline::new(&comb(), PAGE).fits(choice.pages, given));
    }

    #[test]
    fn nothing_and_nothing_large_are_legal() {
        assert_eq!(choose(&[], Placement::Auto, PAGE).pages, 0);
        let empty = Life {
            first: 0,
            last: 0,
            bytes: 0,
        };
        assert_eq!(choose(&[empty], Placement::Best, PAGE).pages, 1);
    }

    #[test]
    fn holes_coalesce_with_both_neighbours() {
        let mut holes = Holes::new(30);
        let starts: Vec<u64> = (0..3)
            .map(|_| holes.take(10, Place::Low).unwrap())
            .collect();
        assert_eq!(
            (starts, holes.take(1, Place::Best)),
            (vec![0, 10, 20], None)
        );
        holes.give(0, 10);
        holes.give(20, 10);
        holes.give(10, 10);
        assert_eq!(holes.0, [(0, 30)]);
        assert_eq!(holes.take(30, Place::High), Some(0));
    }
}
