//! Both structures against a plain model, and against each other.

use super::*;

struct Model {
    placed: Vec<(Item, u64)>,
}

impl Model {
    fn is_free(&self, item: &Item, offset: u64) -> bool {
        self.placed
            .iter()
            .filter(|(other, _)| other.meets(item))
            .all(|(other, at)| offset + item.size <= *at || at + other.size <= offset)
    }

    fn first_fit(&self, item: &Item) -> u64 {
        let fits = |&offset: &u64| self.is_free(item, offset);
        (0..).step_by(item.alignment as usize).find(fits).unwrap()
    }

    /// Tries every gap of free addresses.
    fn best_fit(&self, item: &Item) -> u64 {
        let end = self
            .placed
            .iter()
            .map(|(other, at)| at + other.size)
            .max()
            .unwrap_or(0);
        let one = Item {
            size: 1,
            alignment: 1,
            ..item.clone()
        };
        let free = |address: u64| self.is_free(&one, address);
        let top = (0..=end).rev().take_while(|&a| free(a)).last().unwrap();
        let mut best = None;
        let mut start = 0;
        while start < top {
            if !free(start) {
                start += 1;
                continue;
            }
            let gap_end = (start..).find(|&a| !free(a)).unwrap();
            let offset = start.next_multiple_of(item.alignment);
            if offset + item.size <= gap_end {
                let left = gap_end - start - item.size;
                best = best.into_iter().chain([(left, offset)]).min();
            }
            start = gap_end;
        }
        best.map_or(top.next_multiple_of(item.alignment), |(_, offset)| offset)
    }
}

fn random_item(rng: &mut fastrand::Rng, sections: usize) -> Item {
    let first = rng.usize(0..sections);
    let size = rng.u64(1..9);
    Item {
        buffer: 0,
        size,
        taken: size,
        alignment: 1 << rng.u32(0..3),
        steps: 1,
        first,
        last: rng.usize(first + 1..=sections),
        extra: None,
    }
}

/// One random history in all three; whichever fit is asked for, the answers
/// are equal.
fn compare(seed: u64, sections: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model { placed: vec![] };
    let mut scan = ScanSpace::default();
    let mut tree = TreeSpace::new(sections);
    for _ in 0..40 {
        let item = random_item(&mut rng, sections);
        let first = model.first_fit(&item);
        let best = model.best_fit(&item);
        for space in [&scan as &dyn Space, &tree] {
            assert_eq!(
                space.find(&item, Fit::First),
                Some(first),
                "seed {seed} {item:?}"
            );
            assert_eq!(
                space.find(&item, Fit::Best),
                Some(best),
                "seed {seed} {item:?}"
            );
        }
        let offset = if rng.bool() { first } else { best };
        scan.insert(&item, offset);
        tree.insert(&item, offset);
        model.placed.push((item, offset));
    }
    tree.clear();
    scan.clear();
    let item = random_item(&mut rng, sections);
    assert_eq!(tree.find(&item, Fit::First), Some(0));
    assert_eq!(scan.find(&item, Fit::Best), Some(0));
}

#[test]
fn the_structures_find_what_a_plain_model_finds() {
    for seed in 0..200 {
        compare(seed, 1 + seed as usize % 19);
    }
}

#[test]
fn the_end_of_the_address_space_is_refused() {
    let item = |size, alignment| Item {
        buffer: 0,
        size,
        taken: size,
        alignment,
        steps: 1,
        first: 0,
        last: 1,
        extra: None,
    };
    let mut tree = TreeSpace::new(1);
    let mut scan = ScanSpace::default();
    let spaces: [&mut dyn Space; 2] = [&mut tree, &mut scan];
    for space in spaces {
        space.insert(&item(1 << 63, 1), 0);
        space.insert(&item(1, 1), 1 << 63);
        for fit in [Fit::First, Fit::Best] {
            assert_eq!(
                space.find(&item((1 << 63) - 2, 1), fit),
                Some((1 << 63) + 1)
            );
            assert_eq!(space.find(&item((1 << 63) - 1, 1), fit), None);
            assert_eq!(space.find(&item(1, 1 << 63), fit), None);
        }
    }
}
