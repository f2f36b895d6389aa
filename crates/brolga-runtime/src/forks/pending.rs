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
//! **Exclusive shadows.** Of some accesses the forward pass says between which addresses they are
//! ([`Extent`]). What it records there is not a delta but where that will be: a [`DeltaPlace`]. If
//! no two tasks of a fork touch the same bytes of an object, their pullbacks add to what the strand
//! around them sees, and pending sums remain for the others:
//!
//! ```text
//!   rows of task 0 | rows of task 1 | …   apart: places lead to the shadow, or to sums of the parent
//!   x: all of it by all tasks             places lead to pending sums
//! ```
//!
//! That depends on addresses and extents alone, not on threads. What is added by other deltas goes
//! to pending sums in any case, so it does not matter what it touches.
//!
//! **Reading.** The reverse of a store takes what all have added: the strand itself, those that
//! wait for it, and the shadow (`gather` of [`crate::segment::strands`]). Of concurrent tasks only
//! one stores to a place, and no other touches it, so its strand may take that without a lock.
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

use std::collections::HashMap;
use std::ops::{Add, Range};

use memmap2::{MmapMut, MmapOptions};

use crate::mappings;
use crate::shadows::declared::SharedInstance;

/// Bytes beyond both ends of an object that belong to it: of addresses that lead into it, some
/// begin a little before.
const SLACK: usize = 1 << 16;

/// Pending sums of one object.
pub(crate) struct PendingObject {
    /// Where the object's shadow is.
    object: Range<usize>,
    /// The task of the last fork may add here by other deltas than those in places.
    pub(crate) open: bool,
    /// Nothing is added here while pullbacks run.
    pub(crate) unused: bool,
    /// Where deltas that lead to it are.
    pub(crate) delta_places: Vec<ObjectPlace>,
    /// Where in the shadow: whole pages.
    pub(crate) shadow: Range<usize>,
    /// As many bytes, between two that cannot be accessed.
    memory: MmapMut,
    /// Of an instance only some pieces can be touched.
    instance: Option<SharedInstance>,
}

impl PendingObject {
    /// Where the object's shadow is, without what is around it.
    pub(crate) fn extent(&self) -> Range<usize> {
        self.object.clone()
    }

    /// The instance that the object is all of.
    pub(crate) fn instance(&self) -> Option<SharedInstance> {
        self.instance.clone()
    }

    /// Sums for an object and what is around it.
    fn new(object: Range<usize>, shadow: Range<usize>) -> std::io::Result<Self> {
        let page = mappings::page();
        let memory = MmapOptions::new().len(shadow.len() + 2 * page).no_reserve_swap().map_anon()?;
        for at in [0, memory.len() - page] {
            mappings::forbid(&memory, at..at + page)?;
        }
        Ok(Self { object, open: false, unused: false, delta_places: Vec::new(), shadow, memory, instance: None })
    }

    /// Where the sums are.
    pub(crate) fn place(&self) -> Range<usize> {
        let from = self.memory.as_ptr() as usize + mappings::page();
        from..from + self.shadow.len()
    }

    /// Call a function with the number of each page that may have been touched.
    fn each_touched(&self, told: &mut Vec<u8>, mut each: impl FnMut(usize)) {
        let (page, first) = (mappings::page(), self.place().start);
        let number = |at: usize| (at.clamp(self.shadow.start, self.shadow.end) - self.shadow.start) / page;
        // SAFETY: a run of an instance keeps it; what makes its memory grow runs in no task.
        let pieces = self.instance.as_ref().map(|i| unsafe { i.pieces() });
        for piece in pieces.unwrap_or_else(|| [self.shadow.clone(), 0..0]) {
            let pages = number(piece.start)..number(piece.end.saturating_add(page - 1));
            if !pages.is_empty() {
                mappings::touched(first + pages.start * page..first + pages.end * page, told);
                (pages.zip(&*told)).filter(|(_, told)| **told != 0).for_each(|(i, _)| each(i));
            }
        }
    }

    /// How far they are from the shadow.
    pub(crate) fn distance(&self) -> usize {
        self.place().start.wrapping_sub(self.shadow.start)
    }
}

/// A place of a delta that leads to an object.
pub(crate) struct ObjectPlace {
    /// The pointer that has the delta; one of them, if there are many.
    pointer: usize,
    pub(crate) id: PlaceId,
    /// What the task of the last fork touches by it, in the shadow.
    pub(crate) extent: Option<Extent>,
    /// It may touch more.
    pub(crate) open: bool,
}

/// Places of one object that are told from each other by their pointers.
const MOST_PLACES: usize = 16;

/// Bytes of a shadow.
pub(crate) type Extent = Range<usize>;

/// A delta that may change: generated code loads the first word.
#[repr(C)]
struct DeltaPlace {
    /// That by which a pullback adds.
    now: usize,
    /// That of the shadow.
    shadow: usize,
}

/// The number of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceId(usize);

/// Places, which stay where they are.
#[derive(Default)]
struct DeltaPlaces {
    chunks: Vec<Box<[DeltaPlace]>>,
    used: usize,
    /// Those of deltas that do not change.
    fixed: HashMap<usize, PlaceId>,
}

/// Places that are made at a time.
const CHUNK: usize = 64;

impl DeltaPlaces {
    fn make(&mut self, delta: usize) -> PlaceId {
        let id = PlaceId(self.used);
        if self.chunks.len() * CHUNK == id.0 {
            self.chunks.push((0..CHUNK).map(|_| DeltaPlace { now: 0, shadow: 0 }).collect());
        }
        self.used += 1;
        *self.at(id) = DeltaPlace { now: delta, shadow: delta };
        id
    }

    fn at(&mut self, id: PlaceId) -> &mut DeltaPlace {
        &mut self.chunks[id.0 / CHUNK][id.0 % CHUNK]
    }

    fn clear(&mut self) {
        self.used = 0;
        self.fixed.clear();
    }
}

/// Pending sums of a strand.
#[derive(Default)]
pub(crate) struct PendingSums {
    pub(crate) objects: Vec<PendingObject>,
    /// Of earlier runs: full of zeros.
    spare: Vec<PendingObject>,
    delta_places: DeltaPlaces,
    /// Which pages of an object are touched.
    touched: Vec<u8>,
    /// Pages in which there is something to add up: an object and the number of its page.
    pub(crate) added: Vec<(usize, usize)>,
    /// A pullback has not come to its end.
    pub(crate) broken: bool,
}

/// How many objects of earlier runs are kept.
const MOST_SPARE: usize = 16;

impl PendingSums {
    /// A pullback begins. One that has not come to its end has left sums.
    pub(crate) fn begin(&mut self) {
        self.objects.iter_mut().for_each(|o| o.unused = false);
        if std::mem::replace(&mut self.broken, true) {
            let page = mappings::page();
            for object in &self.objects {
                let place = object.place();
                // SAFETY: a page of ours, to which there is no reference.
                let clear = |i| unsafe { std::ptr::write_bytes((place.start + i * page) as *mut u8, 0, page) };
                object.each_touched(&mut self.touched, clear);
            }
        }
    }

    /// The pullback of a task has come to its end: find where it has added.
    pub(crate) fn end(&mut self) {
        let page = mappings::page();
        self.added.clear();
        for (k, object) in self.objects.iter().enumerate().filter(|(_, o)| !o.unused) {
            let (place, added) = (object.place(), &mut self.added);
            object.each_touched(&mut self.touched, |i| {
                // SAFETY: a page of our own memory.
                if unsafe { any(place.start + i * page, page / BLOCK) } {
                    added.push((k, i));
                }
            });
        }
    }

    /// The run is over.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.broken) {
            self.spare.clear();
            self.objects.clear();
        }
        self.delta_places.clear();
        for object in &mut self.objects {
            object.delta_places.clear();
            (object.open, object.unused) = (false, false);
        }
        let room = MOST_SPARE.saturating_sub(self.objects.len());
        self.spare.truncate(room);
        self.spare.append(&mut self.objects);
    }

    /// A task begins to run forwards.
    pub(crate) fn begin_task(&mut self) {
        for object in &mut self.objects {
            object.open = false;
            object.delta_places.iter_mut().for_each(|c| (c.extent, c.open) = (None, false));
        }
    }

    /// That of the object that a shadow is of. What lies close to an object may be of another one,
    /// which goes on.
    pub(crate) fn of_object(&self, shadow: usize) -> Option<usize> {
        self.objects.iter().position(|o| o.object.contains(&shadow))
    }

    /// The place of a delta that does not change.
    pub(crate) fn fixed_cell(&mut self, delta: usize) -> *const usize {
        let Self { delta_places, .. } = self;
        let known = delta_places.fixed.get(&delta).copied();
        let id = known.unwrap_or_else(|| {
            let id = delta_places.make(delta);
            delta_places.fixed.insert(delta, id);
            id
        });
        &raw const delta_places.at(id).now
    }

    /// The place of the delta of a pointer into an object, whose task touches this by it.
    pub(crate) fn delta_place(
        &mut self,
        object: usize,
        pointer: usize,
        delta: usize,
        touched: Option<Extent>,
    ) -> *const usize {
        let Self { objects, delta_places, .. } = self;
        let object = &mut objects[object];
        let touched = touched.filter(|t| object.object.start <= t.start && t.end <= object.object.end || t.is_empty());
        let many = object.delta_places.len() >= MOST_PLACES;
        let known = object
            .delta_places
            .iter()
            .position(|c| (many || c.pointer == pointer) && delta_places.at(c.id).shadow == delta);
        let at = known.unwrap_or_else(|| {
            let id = delta_places.make(delta);
            delta_places.at(id).now = delta.wrapping_add(object.distance());
            object.delta_places.push(ObjectPlace { pointer, id, extent: None, open: false });
            object.delta_places.len() - 1
        });
        let delta_place = &mut object.delta_places[at];
        delta_place.open |= touched.is_none();
        if let Some(touched) = touched.filter(|t| !t.is_empty()) {
            let before = delta_place.extent.take().unwrap_or_else(|| touched.clone());
            delta_place.extent = Some(before.start.min(touched.start)..before.end.max(touched.end));
        }
        &raw const delta_places.at(delta_place.id).now
    }

    /// A place, for tests.
    #[cfg(test)]
    pub(crate) fn a_place(&mut self) -> PlaceId {
        self.delta_places.make(0)
    }

    /// A place leads so far from the shadow.
    pub(crate) fn lead(&mut self, delta_place: PlaceId, distance: usize) {
        let delta_place = self.delta_places.at(delta_place);
        delta_place.now = delta_place.shadow.wrapping_add(distance);
    }

    /// That in whose sums an address lies.
    pub(crate) fn of_sum(&self, at: usize) -> Option<&PendingObject> {
        self.objects.iter().find(|o| o.place().contains(&at))
    }

    /// Add sums for an object, or for all of an instance.
    pub(crate) fn make(&mut self, object: Range<usize>, instance: Option<SharedInstance>) -> std::io::Result<usize> {
        let page = mappings::page();
        let from = object.start.saturating_sub(SLACK) & !(page - 1);
        let to = object.end.saturating_add(SLACK) & !(page - 1);
        let known = self.spare.iter().position(|o| o.shadow == (from..to));
        let mut found = known.map_or_else(|| PendingObject::new(0..0, from..to), |i| Ok(self.spare.swap_remove(i)))?;
        (found.object, found.instance) = (object, instance);
        self.objects.push(found);
        Ok(self.objects.len() - 1)
    }
}

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// Whether there is a bit in some blocks. Most of those of most pages have none.
///
/// # Safety
/// They can be read.
unsafe fn any(at: usize, blocks: usize) -> bool {
    // SAFETY: our contract.
    let block = |i: usize| unsafe { (at as *const [u64; BLOCK / 8]).add(i).read_unaligned() };
    (0..blocks).any(|i| block(i).iter().fold(0, |all, word| all | word) != 0)
}

/// Add floats at one place to those at another, and leave zeros there. What is zero is not written,
/// so that nothing is touched that has no shadow.
///
/// # Safety
/// Both can be read and written for so many floats, and nothing else does.
unsafe fn add_floats<T: Copy + Default + Add<Output = T>>(
    from: *mut T,
    to: *mut T,
    count: usize,
    is_zero: impl Fn(T) -> bool,
) {
    let block = BLOCK / size_of::<T>();
    for first in (0..count).step_by(block) {
        let n = block.min(count - first);
        // SAFETY: our contract.
        unsafe {
            if n == block && !any(from.add(first) as usize, 1) {
                continue;
            }
            for i in first..first + n {
                let x = from.add(i).read_unaligned();
                if !is_zero(x) {
                    to.add(i).write_unaligned(to.add(i).read_unaligned() + x);
                    from.add(i).write_unaligned(T::default());
                }
            }
        }
    }
}

/// Floats of one size, in memory.
#[derive(Clone, Copy)]
pub(crate) enum FloatSize {
    Singles,
    Doubles,
}

impl FloatSize {
    pub(crate) fn of(size: u8) -> Self {
        if size == 4 { Self::Singles } else { Self::Doubles }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Self::Singles => 4,
            Self::Doubles => 8,
        }
    }

    /// Add floats at one place to those at another, and leave zeros there. Bytes after the last
    /// one are a part of one that is cleared as a whole or in parts: they go as they are.
    ///
    /// # Safety
    /// Both can be read and written for so many bytes, and nothing else does.
    pub(crate) unsafe fn hand_over(self, from: usize, to: usize, n: usize) {
        let count = n / self.size();
        // SAFETY: our contract.
        unsafe {
            match self {
                Self::Singles => add_floats(from as *mut f32, to as *mut f32, count, |x| x.to_bits() == 0),
                Self::Doubles => add_floats(from as *mut f64, to as *mut f64, count, |x| x.to_bits() == 0),
            }
        }
        for off in count * self.size()..n {
            let (from, to) = ((from + off) as *mut u8, (to + off) as *mut u8);
            // SAFETY: our contract.
            unsafe {
                to.write(to.read() | from.read());
                from.write(0);
            }
        }
    }

    /// Whether all bits at a place are zero.
    ///
    /// # Safety
    /// It can be read.
    pub(crate) unsafe fn is_zero(self, at: usize) -> bool {
        // SAFETY: our contract.
        unsafe {
            match self {
                Self::Singles => (at as *const u32).read() == 0,
                Self::Doubles => (at as *const u64).read() == 0,
            }
        }
    }
}
