//! The order in which a small request looks for room.

use core::ops::ControlFlow;

use super::Grant;
use crate::layout::classes::class_size;
use crate::layout::words::{PageWord, SlabKind};
use crate::layout::{Counter, Pool};
use crate::mem::{Mem, Order};
use crate::runs::{NoRun, Place, RunRequest};

/// A whole search is repeated this often where something changed during it.
pub(crate) const SEARCHES: u32 = 8;

/// One who forms, in a word of demand: those are counted in its high half, the
/// lanes that wait in its low half.
const FORMER: u64 = 1 << 32;

/// What a group of lanes asks for.
///
/// Two words, so that it is passed in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallRequest {
    pub(crate) class: u32,
    /// Logarithm to base 2 of the alignment, at most a page; slots of `class`
    /// have it.
    pub(crate) align_log2: u32,
    /// Lanes to serve, 1 to 32.
    pub(crate) lanes: u32,
    pub(crate) shard: u32,
}

impl SmallRequest {
    /// Alignment in bytes.
    const fn align(self) -> u64 {
        1 << self.align_log2
    }
}

/// Room for one lane or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Slots(Grant),
    /// A run of its own, for one lane; its first page.
    Run(u64),
}

/// What a search has seen so far.
struct Search {
    contended: bool,
}

impl Search {
    /// Ends the search where something was found.
    fn look(&mut self, result: Result<Room, NoRun>) -> ControlFlow<Room> {
        match result {
            Ok(room) => return ControlFlow::Break(room),
            Err(NoRun::Contended) => self.contended = true,
            Err(NoRun::Nothing) => {}
        }
        ControlFlow::Continue(())
    }
}

impl<M: Mem> Pool<M> {
    /// Finds room for some of the lanes.
    ///
    /// # Errors
    ///
    /// `Nothing` where no free slot of this or a larger class, and no free
    /// page run, fits; `Contended` where that could not be told, because
    /// others changed things during each of [`SEARCHES`] searches.
    pub(crate) fn small_room(&self, request: &SmallRequest) -> Result<Room, NoRun> {
        let amount = u64::from(request.class) + 1;
        for _ in 0..SEARCHES {
            let before = self.changes();
            if self.refused(Counter::SlotRefusal, before, amount) {
                return Err(NoRun::Nothing);
            }
            match self.look_everywhere(request) {
                ControlFlow::Break(room) => return Ok(room),
                // Something was there, and went to others: no proof.
                ControlFlow::Continue(NoRun::Contended) => continue,
                ControlFlow::Continue(NoRun::Nothing) => {}
            }
            let proved = if request.align() <= 16 {
                self.prove_refusal(Counter::SlotRefusal, before, amount)
            } else {
                // Larger alignments skip classes: in vain for this request, but
                // no proof for others of its class.
                self.changes() == before
            };
            if proved {
                return Err(NoRun::Nothing);
            }
        }
        Err(NoRun::Contended)
    }

    /// Looks in each place once, the likely ones first. `Contended` where any
    /// of them had something that others took.
    fn look_everywhere(&self, request: &SmallRequest) -> ControlFlow<Room, NoRun> {
        let SmallRequest {
            class,
            lanes,
            shard,
            ..
        } = *request;
        let mut search = Search { contended: false };
        search.look(self.take_slots(shard, class, lanes).map(Room::Slots))?;
        if self.may_take_aside(shard, class) {
            search.look(self.take_aside(shard, class, lanes).map(Room::Slots))?;
        }
        if self.is_scarce() {
            search.look(self.take_near(shard, class, lanes).map(Room::Slots))?;
        }
        search.look(self.supply(shard, class, lanes).map(Room::Slots))?;
        search.look(self.take_far(class, lanes).map(Room::Slots))?;
        // First as much as a slab takes, then all.
        for enough in [self.shape(class).pages.into(), u64::MAX] {
            if self.reclaim(enough, shard) {
                search.look(self.form(shard, class, lanes).map(Room::Slots))?;
            }
        }
        for larger in class + 1..self.geo.classes {
            if class_size(larger).is_multiple_of(request.align()) {
                for any in 0..self.stacks() {
                    search.look(self.take_slots(any, larger, 1).map(Room::Slots))?;
                }
            }
        }
        search.look(self.own_run(request))?;
        ControlFlow::Continue(if search.contended {
            NoRun::Contended
        } else {
            NoRun::Nothing
        })
    }

    /// Slots from the stacks of some other shards. Who has spare slabs is likely
    /// among those: one in each direction of the hypercube that shards are the
    /// corners of (their number is a power of two), so that what one shard lacks
    /// is taken from many.
    ///
    /// Only where pages are scarce: a shard that lived on its neighbours' slabs
    /// would go this long way for each request.
    #[inline(never)]
    fn take_near(&self, shard: u32, class: u32, lanes: u32) -> Result<Grant, NoRun> {
        let mut result = Err(NoRun::Nothing);
        let mut direction = 1;
        while direction < self.geo.shards {
            match self.take_slots(shard ^ direction, class, lanes) {
                Err(NoRun::Nothing) => {}
                Err(NoRun::Contended) => result = Err(NoRun::Contended),
                grant => return grant,
            }
            direction *= 2;
        }
        result
    }

    /// Slots from the shard's stack aside, where the slabs are that it has outgrown.
    #[inline(never)]
    fn take_aside(&self, shard: u32, class: u32, lanes: u32) -> Result<Grant, NoRun> {
        let taken = self.take_slots(self.aside(shard), class, lanes);
        if taken.is_ok() {
            self.note_aside(shard, class);
        }
        taken
    }

    /// Slots from any stack.
    #[inline(never)]
    fn take_far(&self, class: u32, lanes: u32) -> Result<Grant, NoRun> {
        let mut result = Err(NoRun::Nothing);
        for shard in 0..self.stacks() {
            match self.take_slots(shard, class, lanes) {
                Err(NoRun::Nothing) => {}
                Err(NoRun::Contended) => result = Err(NoRun::Contended),
                grant => return grant,
            }
        }
        result
    }

    /// Whether pages are scarce: then the spare slots of other shards are worth
    /// the look, before an eighth of the pool is all that is left.
    fn is_scarce(&self) -> bool {
        self.counter(Counter::UsedPages) > self.geo.pages / 8 * 7
    }

    /// Slots of a new slab. Of many leaders that find a stack empty at the same
    /// time, only as many form one as their lanes together need; the others look
    /// again, some times, for what those provide. Then they look at all shards,
    /// and form their own: so who stops on the way holds nobody up.
    #[inline(never)]
    fn supply(&self, shard: u32, class: u32, lanes: u32) -> Result<Grant, NoRun> {
        let at = self.demand_at(shard, class);
        // Relaxed: a hint. What a stopped lane leaves here, others wait for in
        // vain, and not for long.
        self.mem.fetch_add(at, lanes.into(), Order::Relaxed);
        let (mut result, mut contended) = (Err(NoRun::Nothing), false);
        let mut forms = false;
        let slots = self.next_slots(shard, class);
        for _ in 0..=M::PATIENCE {
            // Who forms has looked again, too: somebody may have been quicker.
            // The first look is relaxed: of many who wait, each acquire would empty
            // the cache of the one they wait for.
            if self.head(shard, class, Order::Relaxed).top().is_some() {
                result = self.take_slots(shard, class, lanes);
                contended |= result == Err(NoRun::Contended);
            }
            forms = result.is_err() && self.is_wanted(at, slots);
            if result.is_ok() || forms {
                break;
            }
            self.mem.pause();
        }
        if result.is_err() && (!forms || self.is_scarce()) {
            result = self.take_far(class, lanes);
            contended |= result == Err(NoRun::Contended);
        }
        if result.is_err() {
            // Others find the stack empty at the same time; the slab is to be
            // large enough for them, too.
            self.mem.pause();
            result = self.form(shard, class, lanes);
        }
        let share = u64::from(lanes) + if forms { FORMER } else { 0 };
        self.mem.fetch_sub(at, share, Order::Relaxed);
        if contended && result == Err(NoRun::Nothing) {
            result = Err(NoRun::Contended);
        }
        result
    }

    /// Lanes that wait for slabs of `class` in `shard`, or are about to form one.
    pub(super) fn waiting(&self, shard: u32, class: u32) -> u64 {
        self.mem.load(self.demand_at(shard, class), Order::Relaxed) % FORMER
    }

    /// Slots of the slab that a shard forms next, about.
    fn next_slots(&self, shard: u32, class: u32) -> u64 {
        let scale = self.next_scale(shard, class);
        self.slots(SlabKind { class, scale }) as u64
    }

    /// Makes the caller one of those who form a slab of `slots` slots, if there
    /// are too few for the lanes that wait.
    fn is_wanted(&self, at: u64, slots: u64) -> bool {
        let few = |word: u64| (word / FORMER).saturating_mul(slots) < word % FORMER;
        // Relaxed: a hint, as above. The load spares most who wait an atomic.
        if !few(self.mem.load(at, Order::Relaxed)) {
            return false;
        }
        let wanted = few(self.mem.fetch_add(at, FORMER, Order::Relaxed));
        if !wanted {
            self.mem.fetch_sub(at, FORMER, Order::Relaxed);
        }
        wanted
    }

    /// A run for one block that no slab has room for.
    #[inline(never)]
    fn own_run(&self, request: &SmallRequest) -> Result<Room, NoRun> {
        let pages = class_size(request.class).div_ceil(self.geo.page_size());
        let align = request.align();
        let wanted = RunRequest {
            pages,
            align,
            place: Place::Low,
            from: 0,
            spread: request.shard,
        };
        let page = self.take_run(&wanted)?;
        self.begin_run(page, pages);
        Ok(Room::Run(page))
    }

    /// Marks a claimed run as one block.
    pub(crate) fn begin_run(&self, page: u64, pages: u64) {
        // Relaxed: whoever frees the block has its pointer from this lane.
        let word = PageWord::run(pages);
        self.mem
            .store(self.page_word_at(page), word.0, Order::Relaxed);
    }
}
