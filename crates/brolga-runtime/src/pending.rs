//! Pending sums: what pullbacks of tasks add to shadows that they share.
//!
//! **Question.** Pullbacks of tasks run at the same time. A cotangent is added where another task
//! may add, too. Where to, so that no addition is lost, and sums have the same bits in any order
//! of the tasks?
//!
//! **Answer.** Privatisation. A strand has, for each object in whose shadow it adds and that it
//! does not own, as much memory of its own, full of zeros, in which the places lie as in the
//! shadow:
//!
//! ```text
//!   shadow of the caller's array      | a b c d … |   page by page, only pages that are touched
//!   pending sums of strand 0          | . x . . … |   at shadow + K0
//!   pending sums of strand 1          | . y . . … |   at shadow + K1
//! ```
//!
//! When a fork is over, its strands' sums are added to what its own strand sees: the shadow, or
//! pending sums of that strand. The last task comes first, as in the serial reverse.
//!
//! What a strand owns has no pending sums: its tape, with the shadows of stack slots, and heap
//! blocks of its own.
//!
//! **Reading.** The reverse of a store takes what all have added: the strand itself, those that
//! wait for it, and the shadow ([`Segment::gather`]). Of concurrent tasks only one stores to a
//! place, and no other touches it, so its strand may take that without a lock.
//!
//! **Invariants.** Pending sums are zero but while pullbacks of a fork run. They lie at multiples
//! of pages from what they are pending for. A strand may have two objects that overlap; what is
//! taken is that of both.
//!
//! **Cost.** A look-up for each delta that a task records. A page of zeros for each that a task
//! adds in; when the fork is over, one system call for an object, and a look at those pages.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025), where all additions are atomic.

use std::ops::Range;

use memmap2::{MmapMut, MmapOptions};

use crate::mappings;
use crate::segment::Segment;

/// Bytes beyond both ends of an object that belong to it: of addresses that lead into it, some
/// begin a little before.
const SLACK: usize = 1 << 16;

/// Pending sums of one object.
struct PendingObject {
    /// Where in the shadow: whole pages.
    shadow: Range<usize>,
    /// As many bytes, between two that cannot be accessed.
    memory: MmapMut,
}

impl PendingObject {
    fn new(shadow: Range<usize>) -> std::io::Result<Self> {
        let page = mappings::page();
        let memory = MmapOptions::new().len(shadow.len() + 2 * page).no_reserve_swap().map_anon()?;
        for at in [0, memory.len() - page] {
            mappings::forbid(&memory, at..at + page)?;
        }
        Ok(Self { shadow, memory })
    }

    /// Where the sums are.
    fn place(&self) -> Range<usize> {
        let from = self.memory.as_ptr() as usize + mappings::page();
        from..from + self.shadow.len()
    }

    /// How far they are from the shadow.
    fn distance(&self) -> usize {
        self.place().start.wrapping_sub(self.shadow.start)
    }
}

/// Pending sums of a strand.
#[derive(Default)]
pub(crate) struct Pending {
    objects: Vec<PendingObject>,
    /// Of earlier runs: full of zeros.
    spare: Vec<PendingObject>,
    /// Which pages of an object are touched.
    touched: Vec<u8>,
    /// A pullback has not come to its end.
    pub(crate) broken: bool,
}

/// How many objects of earlier runs are kept.
const MOST_SPARE: usize = 16;

impl Pending {
    /// A pullback begins. One that has not come to its end has left sums.
    pub(crate) fn begin(&mut self) {
        if std::mem::replace(&mut self.broken, true) {
            for object in &mut self.objects {
                // SAFETY: memory of ours, to which there is no reference.
                unsafe { std::ptr::write_bytes(object.place().start as *mut u8, 0, object.shadow.len()) };
            }
        }
    }

    /// The run is over.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.broken) {
            self.spare.clear();
            self.objects.clear();
        }
        let room = MOST_SPARE.saturating_sub(self.objects.len());
        self.spare.truncate(room);
        self.spare.append(&mut self.objects);
    }

    /// That which a shadow lies in.
    fn of_shadow(&self, at: usize) -> Option<&PendingObject> {
        self.objects.iter().find(|o| o.shadow.contains(&at))
    }

    /// That in whose sums an address lies.
    fn of_sum(&self, at: usize) -> Option<&PendingObject> {
        self.objects.iter().find(|o| o.place().contains(&at))
    }

    /// Add sums for an object.
    fn make(&mut self, shadow: Range<usize>) -> std::io::Result<&PendingObject> {
        let known = self.spare.iter().position(|o| o.shadow == shadow);
        let object = known.map_or_else(|| PendingObject::new(shadow), |i| Ok(self.spare.swap_remove(i)))?;
        self.objects.push(object);
        Ok(self.objects.last().expect("just pushed"))
    }
}

/// Floats of one size.
#[derive(Clone, Copy)]
enum Floats {
    Singles,
    Doubles,
}

impl Floats {
    fn of(size: u8) -> Self {
        if size == 4 { Self::Singles } else { Self::Doubles }
    }

    fn size(self) -> usize {
        match self {
            Self::Singles => 4,
            Self::Doubles => 8,
        }
    }

    /// Add what is at one place to what is at another, and leave zero there.
    ///
    /// # Safety
    /// Both can be read and written, and nothing else does.
    unsafe fn hand_over(self, from: usize, to: usize) {
        // SAFETY: our contract.
        unsafe {
            match self {
                Self::Singles => {
                    let (from, to) = (from as *mut f32, to as *mut f32);
                    if from.cast::<u32>().read_unaligned() != 0 {
                        to.write_unaligned(to.read_unaligned() + from.read_unaligned());
                        from.write_unaligned(0.0);
                    }
                }
                Self::Doubles => {
                    let (from, to) = (from as *mut f64, to as *mut f64);
                    if from.cast::<u64>().read_unaligned() != 0 {
                        to.write_unaligned(to.read_unaligned() + from.read_unaligned());
                        from.write_unaligned(0.0);
                    }
                }
            }
        }
    }
}

impl Segment {
    /// Whether pullbacks of this segment's code run beside others.
    fn is_strand(&self) -> bool {
        self.forks.parent.is_some() && !self.forks.inline
    }

    /// Whether nothing but this strand adds to a shadow.
    fn owns(&self, shadow: usize) -> bool {
        self.whole_tape().contains(&shadow) || self.blocks.around(shadow).is_some()
    }

    /// The delta of pending sums for the shadow of what lies at `p`; none if there is no memory for
    /// them.
    pub(crate) fn pending(&mut self, p: usize, delta: usize) -> Option<usize> {
        if delta == 0 || !self.is_strand() {
            return Some(delta);
        }
        self.pending_place(p.wrapping_add(delta)).map(|at| at.wrapping_sub(p))
    }

    /// Where the pending sum for a place in a shadow is: there, if the strand owns it.
    fn pending_place(&mut self, shadow: usize) -> Option<usize> {
        if !self.is_strand() {
            return Some(shadow);
        }
        if let Some(object) = self.forks.pending.of_shadow(shadow) {
            return Some(shadow.wrapping_add(object.distance()));
        }
        if self.owns(shadow) {
            return Some(shadow);
        }
        let extent = self.object_around(shadow)?;
        let object = self.forks.pending.make(extent).ok()?;
        Some(shadow.wrapping_add(object.distance()))
    }

    /// The object that a shadow lies in, of one of the strands that wait for this one, or of the
    /// caller of the run, in whole pages.
    fn object_around(&self, shadow: usize) -> Option<Range<usize>> {
        let page = mappings::page();
        let mut found = None;
        let mut strand = self.forks.parent;
        while let (Some(at), None) = (strand, &found) {
            // SAFETY: a strand that waits is there, and does not change.
            let waiting = unsafe { &*at };
            let tape = waiting.used_tape();
            found = if tape.contains(&shadow) { Some(tape) } else { waiting.blocks.around(shadow) };
            found = found.or_else(|| waiting.known_shadow(shadow));
            strand = waiting.forks.parent;
        }
        let object = found.or_else(|| mappings::around(shadow))?;
        let from = object.start.saturating_sub(SLACK) & !(page - 1);
        let to = object.end.checked_add(SLACK)?.checked_next_multiple_of(page)?;
        Some(from..to)
    }

    /// A shadow is going to be read at some bytes, by the only strand that stores to them: what has
    /// been added for them elsewhere comes to where it reads.
    ///
    /// # Safety
    /// The bytes are those of a shadow, or of its pending sums for this strand.
    pub(crate) unsafe fn gather(&mut self, at: usize, n: usize) {
        let Some(own) = self.forks.pending.of_sum(at).filter(|_| n > 0) else { return };
        let (floats, shadow) = (Floats::of(self.forks.float_size), at.wrapping_sub(own.distance()));
        let first = own.place().start;
        let cells = || (0..n.div_ceil(floats.size())).map(|k| k * floats.size());
        let mut strand: *const Segment = self;
        loop {
            // SAFETY: a strand that waits is there, and does not change.
            let seg = unsafe { &*strand };
            for object in seg.forks.pending.objects.iter().filter(|o| o.place().start != first) {
                for off in cells().filter(|off| object.shadow.contains(&(shadow + off))) {
                    // SAFETY: our contract; no other strand adds there.
                    unsafe { floats.hand_over(shadow.wrapping_add(off).wrapping_add(object.distance()), at + off) };
                }
            }
            match seg.forks.parent {
                Some(parent) => strand = parent,
                None => break,
            }
        }
        for off in cells() {
            // SAFETY: our contract; no other strand adds there.
            unsafe { floats.hand_over(shadow + off, at + off) };
        }
    }

    /// The fork of a strand is over: its pending sums are this segment's.
    pub(crate) fn add_pending(&mut self, strand: &mut Segment) -> Option<()> {
        let floats = Floats::of(self.forks.float_size);
        let page = mappings::page();
        let mut touched = std::mem::take(&mut self.forks.pending.touched);
        for object in &strand.forks.pending.objects {
            let place = object.place();
            mappings::touched(place.clone(), &mut touched);
            for i in (0..touched.len()).filter(|&i| touched[i] != 0) {
                // SAFETY: a page of the strand's own memory, whose task is over.
                let words = unsafe { std::slice::from_raw_parts((place.start + i * page) as *const u64, page / 8) };
                if words.iter().all(|&w| w == 0) {
                    continue;
                }
                for off in (0..page).step_by(floats.size()) {
                    let (from, shadow) = (place.start + i * page + off, object.shadow.start + i * page + off);
                    // SAFETY: as before.
                    if unsafe { floats.is_zero(from) } {
                        continue;
                    }
                    let to = self.pending_place(shadow);
                    // SAFETY: the program has added to this place, so there is a shadow.
                    unsafe { floats.hand_over(from, to?) };
                }
            }
        }
        self.forks.pending.touched = touched;
        Some(())
    }
}

impl Floats {
    /// Whether all bits at a place are zero.
    ///
    /// # Safety
    /// It can be read.
    unsafe fn is_zero(self, at: usize) -> bool {
        // SAFETY: our contract.
        unsafe {
            match self {
                Self::Singles => (at as *const u32).read() == 0,
                Self::Doubles => (at as *const u64).read() == 0,
            }
        }
    }
}
