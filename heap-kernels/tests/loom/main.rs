//! Model checks of the heap's protocols: every interleaving of a few lanes up
//! to a bound on preemptions, with every value that weak memory lets a load
//! see, and every block watched for accesses that are not ordered.
//!
//! Each model passes with the sound heap, and fails with a fault planted.

mod mem;

use heap_kernels::mem::Fault;
use heap_kernels::testing::memory::{Plant, Planted, PoolMemory};
use heap_kernels::{AllocError, Config, FreeError, Heap, HostMem, Request, SingleLane};
use loom::thread;
use mem::{LoomMem, Start};

const LANE: SingleLane = SingleLane::new(0);
const PAGE: u64 = 4096;

/// Slots of 16 bytes in a page.
const SLOTS: usize = 256;

/// What is wrong with the heap or its memory in a model.
trait Variant: Plant + 'static {
    /// Whether every order is taken for relaxed.
    const RELAXED: bool = false;
}

/// A heap in a model, with the fault of `P`.
struct Model<P> {
    mem: LoomMem,
    heap: Heap<Planted<LoomMem, P>>,
}

impl<P> Clone for Model<P> {
    fn clone(&self) -> Self {
        Self {
            mem: self.mem.clone(),
            heap: self.heap.clone(),
        }
    }
}

impl<P: Variant> Model<P> {
    /// Runs `body` in every way (that takes at most so many preemptions).
    fn explore(
        preemptions: Option<usize>,
        start: Start,
        body: impl Fn(&Self) + Sync + Send + 'static,
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.max_branches = 20_000;
        builder.check(move || {
            let mem = LoomMem::new(&start, P::RELAXED);
            let heap = Heap::attach(Planted::new(mem.clone())).expect("a formatted pool");
            body(&Self { mem, heap });
        });
    }

    fn alloc(&self, size: u64) -> Result<u64, AllocError> {
        let result = self.heap.alloc(&LANE, Request::new(size));
        result.inspect(|&block| self.mem.use_block(block))
    }

    fn free(&self, block: u64) -> Result<(), FreeError> {
        self.mem.use_block(block);
        self.free_blindly(block)
    }

    /// Without a last access: for a lane that does not own the block.
    fn free_blindly(&self, block: u64) -> Result<(), FreeError> {
        self.heap.free(&LANE, block)
    }

    fn spawn<R: 'static>(&self, work: impl FnOnce(&Self) -> R + 'static) -> thread::JoinHandle<R> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }

    /// The heap when all lanes are done: sound, with so many live blocks.
    fn at_rest(&self, live: u64) -> (PoolMemory, Heap<HostMem>) {
        let (memory, heap) = self.mem.at_rest();
        heap.check().expect("a sound end");
        assert_eq!(heap.stats().live_blocks, live);
        (memory, heap)
    }
}

fn small(heap: &Heap<HostMem>, count: usize) -> Vec<u64> {
    (0..count)
        .map(|_| heap.alloc(&LANE, Request::new(16)).unwrap())
        .collect()
}

/// One lane frees the last live slot of a slab, which retires it, while
/// another claims a slot there.
fn claim_against_free_of_the_last_slot<P: Variant>() {
    let (start, block) = Start::new(2, 16, |heap| small(heap, 1)[0]);
    let start = start.watching(&[block, block + 16]);
    Model::<P>::explore(None, start, move |model| {
        let freeing = model.spawn(move |model| model.free(block));
        let got = model.alloc(16).unwrap();
        assert_eq!(freeing.join().unwrap(), Ok(()));
        let (_memory, heap) = model.at_rest(1);
        heap.free(&LANE, got).unwrap();
    });
}

/// Two lanes free the last two slots of a slab while a third claims one.
fn slab_emptied_while_claimed_from<P: Variant>() {
    let (start, blocks) = Start::new(2, 16, |heap| small(heap, 2));
    let start = start.watching(&[blocks[0], blocks[1], blocks[1] + 16]);
    let blocks = [blocks[0], blocks[1]];
    Model::<P>::explore(Some(4), start, move |model| {
        let freeing = blocks.map(|block| model.spawn(move |model| model.free(block)));
        let got = model.alloc(16).unwrap();
        for freeing in freeing {
            assert_eq!(freeing.join().unwrap(), Ok(()));
        }
        let (_memory, heap) = model.at_rest(1);
        heap.free(&LANE, got).unwrap();
    });
}

/// A slot of a full slab is freed while another lane finds the slab full and
/// takes it off its stack. Nothing else is free.
fn free_in_a_full_slab<P: Variant>() {
    // The lane that takes the last slot takes the slab off its stack.
    let (start, blocks) = Start::new(1, 16, |heap| small(heap, SLOTS - 1));
    let block = blocks[100];
    Model::<P>::explore(None, start.watching(&[block]), move |model| {
        let freeing = model.spawn(move |model| model.free(block));
        model.alloc(16).unwrap();
        let got = model.alloc(16);
        assert_eq!(freeing.join().unwrap(), Ok(()));
        let (_memory, heap) = model.at_rest(SLOTS as u64 - u64::from(got.is_err()));
        // Whoever came too early was told so, but is not refused for ever.
        let again = heap.alloc(&LANE, Request::new(16));
        assert_eq!(again.is_ok(), got.is_err());
    });
}

/// Two lanes form a slab at the same time.
fn two_formations<P: Variant>() {
    let (start, ()) = Start::new(2, 16, |_| ());
    Model::<P>::explore(None, start, move |model| {
        let other = model.spawn(|model| model.alloc(16).unwrap());
        let mine = model.alloc(16).unwrap();
        assert_ne!(mine, other.join().unwrap());
        model.at_rest(2);
    });
}

/// A slab is to be formed while the only page comes back.
fn formation_against_return<P: Variant>() {
    let (start, run) = Start::new(1, 16, |heap| heap.alloc(&LANE, Request::new(PAGE)).unwrap());
    Model::<P>::explore(None, start.watching(&[run]), move |model| {
        let freeing = model.spawn(move |model| model.free(run));
        let got = model.alloc(16);
        assert_eq!(freeing.join().unwrap(), Ok(()));
        let (_memory, heap) = model.at_rest(u64::from(got.is_ok()));
        // It is all gone only where it was taken for one block as it came back.
        let whole = got.is_ok_and(|block| heap.usable_size(block) == Ok(PAGE));
        let again = heap.alloc(&LANE, Request::new(16));
        assert_eq!(again.is_ok(), !whole, "{got:?}, then {again:?}");
    });
}

/// A slab's only page comes back and is taken for a run at once.
fn retirement_against_run<P: Variant>() {
    let (start, block) = Start::new(1, 16, |heap| small(heap, 1)[0]);
    Model::<P>::explore(None, start.watching(&[block]), move |model| {
        let freeing = model.spawn(move |model| model.free(block));
        let got = model.alloc(PAGE);
        assert_eq!(freeing.join().unwrap(), Ok(()));
        let (_memory, heap) = model.at_rest(u64::from(got.is_ok()));
        match got {
            Ok(run) => heap.free(&LANE, run).unwrap(),
            Err(_) => assert!(heap.alloc(&LANE, Request::new(PAGE)).is_ok()),
        }
    });
}

/// A lane is about to take a full slab off its stack; meanwhile another does
/// so, takes the next one off as well, forms a third, and puts the first one
/// back on top: the head is as it was, what is below is not.
fn pop_against_push_with_recurring_addresses<P: Variant>() {
    let (start, block) = Start::new(4, 16, |heap| {
        let first = small(heap, SLOTS);
        let second = small(heap, SLOTS);
        heap.free(&LANE, second[7]).unwrap();
        heap.free(&LANE, first[7]).unwrap();
        // Each has one slot, the first slab is on top: who takes the slot also
        // takes the slab off the stack.
        first[3]
    });
    Model::<P>::explore(Some(3), start, move |model| {
        let other = model.spawn(move |model| {
            let got = model.alloc(16).unwrap();
            assert_eq!(model.free(block), Ok(()));
            got
        });
        let got = model.alloc(16).unwrap();
        assert_ne!(other.join().unwrap(), got);
        model.at_rest(2 * SLOTS as u64 - 1);
    });
}

/// A lane takes credits of what was on top of a stack; meanwhile that slab was
/// retired and its descriptor has become another class's.
fn credits_of_a_recycled_descriptor<P: Variant>() {
    let (start, block) = Start::new(2, 32, |heap| {
        let wide = || heap.alloc(&LANE, Request::new(32)).unwrap();
        let first: Vec<u64> = (0..SLOTS / 2).map(|_| wide()).collect();
        wide();
        for &block in &first[1..] {
            heap.free(&LANE, block).unwrap();
        }
        // On top of the stack is the first slab, with one live slot.
        first[0]
    });
    Model::<P>::explore(Some(3), start, move |model| {
        let other = model.spawn(move |model| {
            assert_eq!(model.free(block), Ok(()));
            // No page for the second where the lane below has the first slab.
            (model.alloc(32).ok(), model.alloc(16).ok())
        });
        // Refused where it looks while the other moves slabs to free descriptors.
        let got = model.alloc(32).ok();
        let (same, smaller) = other.join().unwrap();
        let blocks = [(got, 32), (same, 32), (smaller, 16)];
        let live = 1 + blocks.iter().filter(|(block, _)| block.is_some()).count();
        let (_memory, heap) = model.at_rest(live as u64);
        for (block, size) in blocks {
            let Some(block) = block else { continue };
            // More where it is a slot of the larger class, or a page of its own.
            assert!(heap.usable_size(block).unwrap() >= size);
        }
    });
}

/// The last free page of a word of run bits is claimed, so that the word is to
/// be marked full, while another page of it is released.
fn full_mark_against_release<P: Variant>() {
    let (start, (block, _hold)) = Start::new(65, 16, |heap| {
        let low = |pages| Request::new(pages * PAGE).place(heap_kernels::Place::Low);
        let block = heap.alloc(&LANE, low(1)).unwrap();
        let last = heap.alloc(&LANE, Request::new(PAGE)).unwrap();
        let hold = heap.alloc(&LANE, low(62)).unwrap();
        assert_eq!(heap.stats().largest_free_run, PAGE);
        (block, (last, hold))
    });
    Model::<P>::explore(None, start.watching(&[block]), move |model| {
        let freeing = model.spawn(move |model| model.free(block));
        let got = model.alloc(PAGE).unwrap();
        assert_eq!(freeing.join().unwrap(), Ok(()));
        let (_memory, heap) = model.at_rest(3);
        assert_ne!(heap.alloc(&LANE, Request::new(PAGE)).unwrap(), got);
    });
}

/// As above, and a search that comes while the mark is wrongly there proves
/// nothing that is believed afterwards.
fn search_during_a_wrong_full_mark<P: Variant>() {
    // In the second word: the first is looked at without asking its mark.
    let (start, (block, _hold)) = Start::new(129, 16, |heap| {
        let low = |pages| Request::new(pages * PAGE).place(heap_kernels::Place::Low);
        let first = heap.alloc(&LANE, low(64)).unwrap();
        let block = heap.alloc(&LANE, low(1)).unwrap();
        let last = heap.alloc(&LANE, Request::new(PAGE)).unwrap();
        let hold = heap.alloc(&LANE, low(62)).unwrap();
        (block, (first, last, hold))
    });
    Model::<P>::explore(Some(3), start.watching(&[block]), move |model| {
        let freeing = model.spawn(move |model| {
            assert_eq!(model.free(block), Ok(()));
            model.alloc(PAGE).ok()
        });
        model.alloc(PAGE).unwrap();
        let second = freeing.join().unwrap();
        let (_memory, heap) = model.at_rest(4 + u64::from(second.is_some()));
        if second.is_none() {
            heap.alloc(&LANE, Request::new(PAGE)).unwrap();
        }
    });
}

/// Two lanes free one slot at the same time, in a slab with other live slots.
fn racing_frees_of_a_slot<P: Variant>() {
    let (start, block) = Start::new(1, 16, |heap| small(heap, 2)[0]);
    Model::<P>::explore(None, start, move |model| {
        let other = model.spawn(move |model| model.free_blindly(block));
        let mine = model.free_blindly(block);
        one_wins(mine, other.join().unwrap());
        model.at_rest(1);
    });
}

/// Two lanes free the last slot of a slab at the same time.
fn racing_frees_of_the_last_slot<P: Variant>() {
    let (start, block) = Start::new(1, 16, |heap| small(heap, 1)[0]);
    Model::<P>::explore(None, start, move |model| {
        let other = model.spawn(move |model| model.free_blindly(block));
        let mine = model.free_blindly(block);
        one_wins(mine, other.join().unwrap());
        model.at_rest(0);
    });
}

/// Two lanes free one run at the same time.
fn racing_frees_of_a_run<P: Variant>() {
    let (start, run) = Start::new(2, 16, |heap| {
        heap.alloc(&LANE, Request::new(2 * PAGE)).unwrap()
    });
    Model::<P>::explore(None, start, move |model| {
        let other = model.spawn(move |model| model.free_blindly(run));
        let mine = model.free_blindly(run);
        one_wins(mine, other.join().unwrap());
        model.at_rest(0);
    });
}

/// A lane frees a block a second time, while the first free retires its slab
/// and the page is used for slots of another class: one of them has the bit
/// that the block had. (Its offset differs, or nobody could tell.)
fn stale_free_against_reuse<P: Variant>() {
    let (start, block) = Start::new(1, 32, |heap| {
        let blocks = small(heap, 2);
        heap.free(&LANE, blocks[0]).unwrap();
        blocks[1]
    });
    Model::<P>::explore(Some(4), start, move |model| {
        let other = model.spawn(move |model| model.free_blindly(block));
        let mine = model.free_blindly(block);
        let new = [model.alloc(32), model.alloc(32)];
        // Of the second free it depends on the time what it is told.
        let other = other.join().unwrap();
        assert!(mine.is_ok() != other.is_ok(), "{mine:?}, {other:?}");
        let (_memory, heap) =
            model.at_rest(new.iter().filter(|block| block.is_ok()).count() as u64);
        for block in new.into_iter().flatten() {
            heap.free(&LANE, block).unwrap();
        }
    });
}

/// Two lanes claim the last two slots of one word.
fn two_claims<P: Variant>() {
    let (start, blocks) = Start::new(1, 16, |heap| {
        let blocks = small(heap, SLOTS);
        [blocks[5], blocks[9]].map(|block| {
            heap.free(&LANE, block).unwrap();
            block
        })
    });
    Model::<P>::explore(None, start.watching(&blocks), move |model| {
        let other = model.spawn(|model| model.alloc(16).unwrap());
        let mine = model.alloc(16).unwrap();
        assert_ne!(mine, other.join().unwrap());
        model.at_rest(SLOTS as u64);
    });
}

/// An empty slab is kept for its class; one lane claims a slot of it while
/// another needs its page.
fn retained_slab_wanted_by_two<P: Variant>() {
    let config = Config {
        small_max: Some(16),
        retain: true,
        ..Config::default()
    };
    let (start, block) = Start::with_config(1, config, |heap| {
        let block = small(heap, 1)[0];
        heap.free(&LANE, block).unwrap();
        block
    });
    Model::<P>::explore(Some(4), start.watching(&[block]), move |model| {
        let other = model.spawn(|model| model.alloc(PAGE).ok());
        let mine = model.alloc(16).ok();
        let other = other.join().unwrap();
        let live = u64::from(mine.is_some()) + u64::from(other.is_some());
        assert!(live <= 1, "the page is in two hands");
        let (_memory, heap) = model.at_rest(live);
        if live == 0 {
            heap.alloc(&LANE, Request::new(PAGE)).unwrap();
        }
    });
}

/// A run grows in place into the page behind it, which another lane takes.
fn growth_against_claim<P: Variant>() {
    let (start, run) = Start::new(2, 16, |heap| {
        let low = Request::new(PAGE).place(heap_kernels::Place::Low);
        heap.alloc(&LANE, low).unwrap()
    });
    Model::<P>::explore(None, start, move |model| {
        let other = model.spawn(|model| model.alloc(PAGE).ok());
        let grown = model.heap.realloc(&LANE, run, Request::new(2 * PAGE));
        let other = other.join().unwrap();
        assert!(grown.is_ok() != other.is_some(), "{grown:?}, {other:?}");
        model.at_rest(1 + u64::from(other.is_some()));
    });
}

fn one_wins(mine: Result<(), FreeError>, other: Result<(), FreeError>) {
    let both = [mine, other];
    assert!(
        both.contains(&Ok(())) && both.contains(&Err(FreeError::DoubleFree)),
        "{both:?}"
    );
}

/// Tests that a model passes without a fault, fails with each of these, and
/// (where `relaxed`) needs the orderings that the heap asks for.
macro_rules! model {
    ($model:ident $(, $fault:ident)* $(; $relaxed:ident)?) => {
        mod $model {
            use super::*;

            struct Sound;
            impl Plant for Sound {
                const FAULT: Fault = Fault::None;
            }
            impl Variant for Sound {}

            #[test]
            fn holds() {
                super::$model::<Sound>();
            }

            $(
                #[test]
                #[should_panic]
                #[expect(non_snake_case, reason = "named after the fault")]
                fn $fault() {
                    struct Faulty;
                    impl Plant for Faulty {
                        const FAULT: Fault = Fault::$fault;
                    }
                    impl Variant for Faulty {}
                    super::$model::<Faulty>();
                }
            )*

            $(
                #[test]
                #[should_panic]
                fn $relaxed() {
                    struct Weak;
                    impl Plant for Weak {
                        const FAULT: Fault = Fault::None;
                    }
                    impl Variant for Weak {
                        const RELAXED: bool = true;
                    }
                    super::$model::<Weak>();
                }
            )?
        }
    };
}

model!(claim_against_free_of_the_last_slot, BlindRetire; relaxed);
model!(slab_emptied_while_claimed_from, BlindRetire);
model!(free_in_a_full_slab, NoRelist; relaxed);
model!(two_formations, BlindRun);
model!(formation_against_return; relaxed);
model!(retirement_against_run, EarlyPages; relaxed);
model!(pop_against_push_with_recurring_addresses, NoStackTag);
model!(credits_of_a_recycled_descriptor, NoClassCheck);
model!(full_mark_against_release, NoFullRecheck; relaxed);
model!(search_during_a_wrong_full_mark, NoFullChange);
model!(racing_frees_of_a_slot, BlindFree);
model!(racing_frees_of_the_last_slot, BlindFree);
model!(racing_frees_of_a_run);
model!(stale_free_against_reuse, BlindFree);
model!(two_claims, BlindClaim);
model!(retained_slab_wanted_by_two, BlindRetire);
model!(growth_against_claim, BlindRun);
