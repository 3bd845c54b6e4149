//! Depth-first search over skylines.
//!
//! Every section has a *floor*, the end of what lies there. Any placement can be
//! pushed down until each item rests on the floor of one of its sections (or as
//! close above as its alignment allows), so only such placements are visited.
//! A *valley* is a stretch of sections of one floor between higher walls. What
//! rests on its floor lies wholly within it. The search takes a valley and a
//! section in it, and branches over the items that could rest there, and over
//! *none of them*: the section is then closed for this floor. When all sections
//! of a valley are closed, what covers them rests on a wall, so the floor rises
//! to the lower one, and what lies between is wasted. Valleys do not depend on
//! each other, so any may be taken: the one with the least *slack* (capacity
//! less floor less what is still to be placed) is the one that decides most.
//!
//! Before it branches, the search looks at all valleys: a section that no item
//! can cover at the floor rises at least to a wall or to the top of the
//! smallest item of its valley; where that leaves too little room for what is
//! still to be placed there, the node is dead.
//!
//! Skylines are used likewise for packing strips (R. Alvarez-Valdes, F. Parreño,
//! J. M. Tamarit, "A branch and bound algorithm for the strip packing problem",
//! 2009); here places in time are given.

use std::collections::HashSet;
use std::time::Instant;

use super::super::fit::Placement;
use super::super::problem::{Component, Item};

/// How a search ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Found(Placement),
    /// It has been everywhere.
    Exhausted,
    /// It used up its nodes or its time.
    Stopped,
}

/// Between two looks at the clock, in nodes.
const CLOCK: u64 = 256;

/// By how much an item weighs more for each dead node to which it contributed.
const WEIGHT: f64 = 1.001;

/// A floor that no item can stand on, nor look over.
const WALL: u64 = u64::MAX;

/// A stretch of sections of one floor between higher walls.
#[derive(Clone, Copy, Debug)]
struct Valley {
    first: usize,
    last: usize,
    floor: u64,
    /// The lower of both walls.
    wall: u64,
    slack: u64,
    /// Size of the smallest item that can rest here.
    least: u64,
}

pub(super) struct Skyline<'a> {
    items: &'a [Item],
    capacity: u64,
    /// No floor is higher: the capacity, rounded up as all tops are.
    ceiling: u64,
    keys: Vec<f64>,
    weights: &'a mut [f64],
    floor: Vec<u64>,
    /// Bytes still to be placed, for each section.
    rest: Vec<u64>,
    /// Nothing else rests on the section's floor.
    closed: Vec<bool>,
    offsets: Vec<u64>,
    placed: Vec<bool>,
    /// The items not placed, in no order, and where each is there.
    unplaced: Vec<u32>,
    place_of: Vec<u32>,
    /// The items of each section.
    members: Vec<Vec<u32>>,
    nodes: u64,
    deadline: Option<Instant>,
    /// A number for each item; those placed, xored.
    names: Vec<u64>,
    name: u64,
    /// States that were left in vain.
    seen: HashSet<u64>,
    /// Scratch: each section's valley plus one, how many items can cover it,
    /// and how many sections before it are closed.
    valley: Vec<u32>,
    cover: Vec<i32>,
    shut: Vec<u32>,
    valleys: Vec<Valley>,
}

impl<'a> Skyline<'a> {
    pub(super) fn new(
        component: &'a Component,
        capacity: u64,
        keys: Vec<f64>,
        weights: &'a mut [f64],
    ) -> Self {
        let (items, sections) = (&component.items[..], component.sections);
        let granularity = items.iter().map(|item| item.alignment).min().unwrap_or(1);
        let mut rest = vec![0u64; sections];
        let mut members = vec![Vec::new(); sections];
        for (index, item) in items.iter().enumerate() {
            for section in item.first..item.last {
                rest[section] = rest[section].saturating_add(item.taken);
                members[section].push(index as u32);
            }
        }
        let mut rng = fastrand::Rng::with_seed(0);
        Self {
            items,
            capacity,
            ceiling: capacity
                .checked_next_multiple_of(granularity)
                .unwrap_or(capacity),
            keys,
            weights,
            floor: vec![0; sections],
            rest,
            closed: vec![false; sections],
            offsets: vec![0; items.len()],
            placed: vec![false; items.len()],
            unplaced: (0..items.len() as u32).collect(),
            place_of: (0..items.len() as u32).collect(),
            members,
            nodes: 0,
            deadline: None,
            names: items.iter().map(|_| rng.u64(..)).collect(),
            name: 0,
            seen: HashSet::new(),
            valley: vec![0; sections],
            cover: vec![0; sections + 1],
            shut: vec![0; sections + 1],
            valleys: Vec::new(),
        }
    }

    /// Searches at most `nodes` nodes, until the deadline.
    pub(super) fn search(&mut self, nodes: u64, deadline: Option<Instant>) -> End {
        self.nodes = nodes;
        self.deadline = deadline;
        let fits = |&rest: &u64| rest <= self.ceiling;
        if !self.rest.iter().all(fits) {
            return End::Exhausted;
        }
        match self.node() {
            None => End::Stopped,
            Some(false) => End::Exhausted,
            Some(true) => End::Found(Placement {
                peak: self
                    .items
                    .iter()
                    .zip(&self.offsets)
                    .map(|(item, offset)| offset + item.size)
                    .max()
                    .unwrap_or(0),
                offsets: self.offsets.clone(),
            }),
        }
    }

    /// Whether the rest can be placed; `None` where that was not found out.
    fn node(&mut self) -> Option<bool> {
        if self.unplaced.is_empty() {
            return Some(true);
        }
        self.nodes = self.nodes.checked_sub(1)?;
        if self.nodes.is_multiple_of(CLOCK) && super::is_late(self.deadline) {
            return None;
        }
        let Some(valley) = self.choose() else {
            return Some(false);
        };
        match self.section(valley) {
            None => self.raise(valley),
            Some(section) => self.branch(valley, section),
        }
    }

    /// A section's floor, where something is still to be placed: else a wall, so
    /// that what is left and right of it goes its own way.
    fn floor_of(&self, section: usize) -> u64 {
        match self.rest.get(section) {
            Some(&rest) if rest > 0 => self.floor[section],
            _ => WALL,
        }
    }

    /// The valley that decides most; none if the node is dead.
    fn choose(&mut self) -> Option<Valley> {
        self.find_valleys();
        self.count_cover();
        let mut best: Option<((u64, i32), Valley)> = None;
        for at in 0..self.valleys.len() {
            let valley = self.valleys[at];
            let lowest = valley.wall.min(valley.floor.saturating_add(valley.least));
            let (mut cover, mut fewest) = (0, i32::MAX);
            for section in valley.first..valley.last {
                cover += std::mem::take(&mut self.cover[section]);
                self.shut[section] = cover as u32;
                let room = self.ceiling.checked_sub(lowest);
                if cover == 0 && room.is_none_or(|room| room < self.rest[section]) {
                    self.cover.fill(0);
                    self.blame(section);
                    return None;
                }
                fewest = fewest.min(cover);
            }
            // What ends with the valley was subtracted behind it.
            self.cover[valley.last] = 0;
            let rank = (valley.slack, fewest);
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, valley));
            }
        }
        best.map(|(_, valley)| valley)
    }

    fn find_valleys(&mut self) {
        self.valleys.clear();
        let sections = self.rest.len();
        let (mut first, mut before) = (0, WALL);
        while first < sections {
            let floor = self.floor_of(first);
            let mut last = first + 1;
            while last < sections && self.floor_of(last) == floor {
                last += 1;
            }
            let behind = self.floor_of(last);
            let is_valley = floor < before.min(behind);
            let mark = if is_valley {
                self.valleys.len() as u32 + 1
            } else {
                0
            };
            self.valley[first..last].fill(mark);
            if is_valley {
                let most = self.rest[first..last].iter().max().copied().unwrap_or(0);
                self.valleys.push(Valley {
                    first,
                    last,
                    floor,
                    wall: before.min(behind),
                    slack: (self.ceiling - floor).saturating_sub(most),
                    least: WALL,
                });
            }
            (first, before) = (last, floor);
        }
    }

    /// For each section of a valley how much the number of items that can cover
    /// it differs from its neighbour's.
    fn count_cover(&mut self) {
        let mut shut = 0;
        for (count, &closed) in self.shut.iter_mut().zip(&self.closed) {
            *count = shut;
            shut += u32::from(closed);
        }
        let sections = self.closed.len();
        self.shut[sections] = shut;
        for at in 0..self.unplaced.len() {
            let item = &self.items[self.unplaced[at] as usize];
            if !self.can_rest(item) {
                continue;
            }
            let mark = self.valley[item.first] as usize - 1;
            self.cover[item.first] += 1;
            self.cover[item.last] -= 1;
            let least = &mut self.valleys[mark].least;
            *least = (*least).min(item.taken);
        }
    }

    /// Whether an unplaced item lies within a valley and can rest on its floor.
    fn can_rest(&self, item: &Item) -> bool {
        let mark = self.valley[item.first];
        mark != 0
            && self.valley[item.last - 1] == mark
            && self.shut[item.first] == self.shut[item.last]
            && self.top(item, self.floor[item.first]).is_some()
    }

    /// Where an item on `floor` begins and ends, if that is within the capacity.
    fn top(&self, item: &Item, floor: u64) -> Option<(u64, u64)> {
        let start = item.align(floor)?;
        let fits = start.checked_add(item.size)? <= self.capacity;
        fits.then(|| (start, item.taken_end(start)))
    }

    /// The open section of a valley that decides most; [`choose`](Self::choose)
    /// left in `shut` how many items can cover each.
    fn section(&self, valley: Valley) -> Option<usize> {
        (valley.first..valley.last)
            .filter(|&section| !self.closed[section])
            .min_by_key(|&section| {
                let cover = self.shut[section];
                let slack = (self.ceiling - valley.floor).saturating_sub(self.rest[section]);
                (cover != 0, slack, cover)
            })
    }

    /// All sections are closed: the floor rises to the lower wall.
    fn raise(&mut self, valley: Valley) -> Option<bool> {
        let Valley {
            first,
            last,
            floor,
            wall,
            ..
        } = valley;
        for section in first..last {
            let room = self.ceiling.checked_sub(wall);
            if room.is_none_or(|room| room < self.rest[section]) {
                self.blame(section);
                return Some(false);
            }
        }
        if !self.seen.insert(self.state()) {
            return Some(false);
        }
        self.floor[first..last].fill(wall);
        self.closed[first..last].fill(false);
        let found = self.node();
        self.floor[first..last].fill(floor);
        self.closed[first..last].fill(true);
        found
    }

    /// One item after the other rests on the floor of `section`, then none.
    fn branch(&mut self, valley: Valley, section: usize) -> Option<bool> {
        let within = |item: &Item| valley.first <= item.first && item.last <= valley.last;
        let mut choices: Vec<u32> = self.members[section]
            .iter()
            .copied()
            .filter(|&index| {
                let item = &self.items[index as usize];
                !self.placed[index as usize]
                    && within(item)
                    && !self.closed[item.first..item.last].contains(&true)
            })
            .collect();
        let key = |&index: &u32| self.keys[index as usize] * self.weights[index as usize];
        choices.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.cmp(b)));
        for (at, &index) in choices.iter().enumerate() {
            let same = |&other: &u32| self.is_like(index, other);
            if choices[..at].iter().any(same) {
                continue;
            }
            match self.place(index as usize, valley.floor) {
                Some(false) => {}
                found => return found,
            }
        }
        self.closed[section] = true;
        let found = self.node();
        self.closed[section] = false;
        found
    }

    /// Whether two items can be exchanged for each other.
    fn is_like(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.items[a as usize], &self.items[b as usize]);
        (a.first, a.last, a.size, a.alignment) == (b.first, b.last, b.size, b.alignment)
    }

    /// Goes on with an item on `floor`, and takes it off again.
    fn place(&mut self, index: usize, floor: u64) -> Option<bool> {
        let item = &self.items[index];
        let Some((start, top)) = self.top(item, floor) else {
            return Some(false);
        };
        for section in item.first..item.last {
            self.floor[section] = top;
            self.rest[section] -= item.taken;
        }
        self.placed[index] = true;
        self.take_out(index);
        self.offsets[index] = start;
        self.name ^= self.names[index];
        // Alignment may have wasted what others need.
        let room = self.ceiling.saturating_sub(top);
        let dead = (item.first..item.last).find(|&section| self.rest[section] > room);
        let found = match dead {
            None => self.node(),
            Some(section) => {
                self.blame(section);
                Some(false)
            }
        };
        if found == Some(true) {
            return found;
        }
        self.name ^= self.names[index];
        self.placed[index] = false;
        self.put_back(index);
        for section in item.first..item.last {
            self.floor[section] = floor;
            self.rest[section] += item.taken;
        }
        found
    }

    /// The last of the unplaced items takes the place of one that is placed.
    fn take_out(&mut self, index: usize) {
        let place = self.place_of[index] as usize;
        self.unplaced.swap_remove(place);
        if let Some(&moved) = self.unplaced.get(place) {
            self.place_of[moved as usize] = place as u32;
        }
    }

    /// Undoes the last [`take_out`](Self::take_out).
    fn put_back(&mut self, index: usize) {
        let place = self.place_of[index] as usize;
        self.unplaced.push(index as u32);
        let last = self.unplaced.len() - 1;
        self.unplaced.swap(place, last);
        let moved = self.unplaced[last];
        self.place_of[moved as usize] = last as u32;
    }

    /// A number for what is placed, and for the skyline.
    fn state(&self) -> u64 {
        (0..self.rest.len()).fold(self.name, |state, section| {
            (state ^ self.floor_of(section))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23)
        })
    }

    /// The items still to be placed in a section weigh more from now on.
    fn blame(&mut self, section: usize) {
        for &index in &self.members[section] {
            if !self.placed[index as usize] {
                self.weights[index as usize] *= WEIGHT;
            }
        }
    }
}
