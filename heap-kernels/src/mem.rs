//! The memory of one pool, as the heap sees it: atomic 64-bit words addressed
//! by their byte offset, and plain bytes behind the blocks it hands out.

/// Ordering of one atomic access, as in [`core::sync::atomic::Ordering`].
///
/// There is no sequentially consistent order: every argument in DESIGN.md
/// needs only per-word coherence and acquire/release pairs, which is what a
/// GPU gives cheaply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Atomic, no ordering.
    Relaxed,
    /// Later accesses stay after this load.
    Acquire,
    /// Earlier accesses stay before this store.
    Release,
    /// Both, for a read-modify-write.
    AcqRel,
}

/// The set of threads among which the atomics of a [`Mem`] are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All lanes of one device (`.gpu` in PTX); all threads of one process.
    Device,
    /// The device and the host together (`.sys` in PTX).
    System,
}

/// A fault to plant, so that a test can show that it would be caught.
///
/// Real backends leave [`Mem::FAULT`] at `None`; the comparisons are between
/// constants, so nothing of them is left in the compiled code.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The heap as it is meant.
    None,
    /// The stack heads' tag stays the same on pop and push (ABA).
    NoStackTag,
    /// A popped slab is not looked at again for slots freed meanwhile.
    NoRelist,
    /// A slab is retired with a plain store instead of a compare-exchange.
    BlindRetire,
    /// Credits are not checked against the class they were taken from.
    NoClassCheck,
    /// Slots are claimed without looking at what the atomic returned.
    BlindClaim,
    /// A page run is claimed without looking at what the atomic returned.
    BlindRun,
    /// A full word's summary bit is set without looking at the word again.
    NoFullRecheck,
    /// A full word's summary bit that was set wrongly is cleared without saying
    /// that something changed.
    NoFullChange,
    /// Who loses a claim does not mark the word as used.
    NoDirtyHelp,
    /// A free is accepted without looking whether the slot was live.
    BlindFree,
    /// Pages are given back before their page words are cleared.
    EarlyPages,
    /// Neighbouring lanes of a warp are given the same slot of a grant.
    SameSlot,
    /// Who takes a slot does not write the word of the page it begins in.
    NoMark,
    /// A slab that its shard has outgrown is listed where nobody looks for it.
    NoAside,
}

/// The atomic words and the bytes of one pool.
///
/// All offsets are in bytes from the pool's first byte. Word accesses are
/// 8 bytes wide at offsets divisible by 8.
///
/// # Safety
///
/// An implementation promises that
/// - `len()` and `base()` never change, `base() + len()` does not wrap, and
///   the bytes `base() .. base() + len()` are valid for reads and writes, and
///   used by nobody but this pool, for as long as the value lives;
/// - `base()` is divisible by the page size the heap is configured with (the
///   heap checks it);
/// - every word method is one atomic access of the stated order, atomic with
///   respect to all threads in [`Mem::SCOPE`]; the words read zero after
///   [`Mem::fill`] with zero;
/// - a clone or a copy of the value refers to the same memory.
///
/// The heap in turn never passes an offset whose access would pass `len()`.
pub unsafe trait Mem: Clone {
    /// Who may use the pool at the same time.
    const SCOPE: Scope;

    /// How often a lane looks for what another lane is about to provide, before
    /// it provides for itself: about as often as providing takes longer than
    /// looking. It may be any number, and changes no result.
    const PATIENCE: u32 = 1;

    /// Lets others go on between two of those looks.
    #[inline]
    fn pause(&self) {
        core::hint::spin_loop();
    }

    /// The planted fault, `None` outside of tests.
    #[doc(hidden)]
    const FAULT: Fault = Fault::None;

    /// Length of the pool in bytes.
    fn len(&self) -> u64;

    /// Whether the pool has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of the pool's first byte, in the address space of its users;
    /// alignments hold for addresses, not for offsets.
    fn base(&self) -> u64;

    /// Loads the word at `at`; `order` is `Relaxed` or `Acquire`.
    fn load(&self, at: u64, order: Order) -> u64;

    /// Stores the word at `at`; `order` is `Relaxed` or `Release`.
    fn store(&self, at: u64, value: u64, order: Order);

    /// Replaces the word at `at` by `new` where it is `current`; the old value
    /// in both cases. A failure orders as the load half of `order`. It never
    /// fails spuriously.
    ///
    /// # Errors
    ///
    /// The value found, where it was not `current`.
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64>;

    /// Adds with wrap-around; returns the old value.
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64;

    /// Bitwise and; returns the old value.
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64;

    /// Bitwise or; returns the old value.
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64;

    /// Maximum of unsigned values; returns the old value.
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64;

    /// Subtracts with wrap-around; returns the old value.
    fn fetch_sub(&self, at: u64, value: u64, order: Order) -> u64 {
        self.fetch_add(at, value.wrapping_neg(), order)
    }

    /// Sets `len` bytes from `at` on to `byte`.
    ///
    /// # Safety
    ///
    /// The range lies within the pool and nobody else accesses it meanwhile.
    unsafe fn fill(&self, at: u64, len: u64, byte: u8);

    /// Copies `len` bytes from `from` to `to`; the ranges do not overlap.
    ///
    /// # Safety
    ///
    /// Both ranges lie within the pool; nobody writes the source or accesses
    /// the target meanwhile.
    unsafe fn copy(&self, from: u64, to: u64, len: u64);
}
