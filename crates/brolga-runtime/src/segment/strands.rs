//! Strands: segments that run tasks of forks, and what they do with their shadows.
//!
//! **Question.** Generated code forks, joins, records a delta, or reads a cotangent. What do
//! segments do then? **Answer.** [`Segment::fork`] and [`Segment::join`] run tasks on segments of
//! their own, as [`crate::forks`] says; [`Segment::pending`], [`Segment::pending_within`] and
//! [`Segment::gather`] are of [`crate::forks::pending`].
//!
//! **Cost.** A fork has a segment for each task, which later forks use again. A join adds up the
//! pages that tasks have added to. A read of a cotangent goes through the objects with pending sums
//! of this strand and of those that wait for it.

use std::ops::Range;

use crate::forks::pending::{Extent, FloatSize, PendingObject};
use crate::forks::{
    ComparedMemory, ExclusiveAccess, Fork, ForkCall, ForkEnd, MOST_STRANDS, Strand, WorkAndSpan, are_apart,
};
use crate::mappings;
use crate::pieces::WINDOW;
use crate::segment::Segment;
use crate::stack;
use crate::traps::{self, CodeRanges, Entry, RawTrap};

/// Bytes of a record: which fork it is.
const RECORD: usize = 8;

/// So many pages of sums are added up by several threads.
const MANY_PAGES: usize = 32;

impl Segment {
    /// Run the forward passes of a fork's tasks.
    ///
    /// # Safety
    /// `call` and the words after it are valid, its functions are such, and this is called by
    /// generated code that has been entered by a guarded call.
    pub(crate) unsafe fn fork(&mut self, call: *const ForkCall, n: usize) -> ForkEnd {
        // SAFETY: our contract.
        let (head, words) = unsafe {
            let head = &*call;
            (head, std::slice::from_raw_parts(call.add(1).cast::<u64>(), head.words as usize))
        };
        // What runs on this segment records below the fork's own record.
        let width = self.forks.width.max(1).saturating_mul(n);
        let inline = self.forks.inline || width > MOST_STRANDS;
        self.forks.forget_from(self.top as usize);
        if !inline && self.prepare(n, width).is_none() {
            return ForkEnd::Full;
        }
        self.note_stack();
        self.forks.has_forked = true;
        // SAFETY: our contract.
        let code = unsafe { traps::innermost() };
        // SAFETY: our contract.
        let pass = |seg: &mut Self, t: usize| unsafe { seg.pass(head.forward, words, Some(t), code) };
        let mut marks = None;
        let first_exclusive;
        let done = if inline {
            let done = stack::with_margin(|| self.one_by_one(0..n, true, pass));
            first_exclusive = self.forks.exclusive.len();
            done
        } else {
            let mut strands = std::mem::take(&mut self.forks.strands);
            let first = self.forks.marks.len();
            self.forks.marks.extend(strands[..n].iter().map(|s| (s.top as usize, 0)));
            strands[..n].iter_mut().for_each(|s| s.forks.pending.begin_task());
            self.begin_tangents(&mut strands[..n]);
            marks = Some(first);
            let done = stack::with_margin(|| run(&mut strands[..n], self, false, pass));
            for (t, strand) in strands[..n].iter_mut().enumerate() {
                self.forks.marks[first + t].1 = strand.top as usize;
                self.blocks.adopt(&mut strand.blocks);
                self.forks.lacking |= std::mem::take(&mut strand.forks.lacking);
            }
            self.end_tangents(&mut strands[..n]);
            first_exclusive = self.forks.exclusive.len();
            add_exclusive(&strands[..n], &mut self.forks.exclusive, &mut self.forks.compared);
            self.forks.strands = strands;
            done
        };
        // Tasks that have run on this segment may have forked, too.
        let exclusive = first_exclusive..self.forks.exclusive.len();
        let done = if done == ForkEnd::Done && self.forks.lacking { ForkEnd::Lacking } else { done };
        let Some(pullback) = head.pullback else {
            self.forget_fork(marks, n);
            return done;
        };
        let room = (self.limit as usize).saturating_sub(self.top as usize) >= RECORD;
        let fork = Fork { pullback, at: self.top as usize, tasks: n, marks, exclusive };
        if done == ForkEnd::Done && room {
            // SAFETY: there is room.
            unsafe { self.top.cast::<u64>().write_unaligned(self.forks.forks.len() as u64) };
            self.top = self.top.wrapping_add(RECORD);
        }
        self.forks.forks.push(fork);
        if done == ForkEnd::Done && !room { ForkEnd::Full } else { done }
    }

    /// Of forward mode: tasks know which memory is dirty.
    fn begin_tangents(&self, strands: &mut [Box<Self>]) {
        if self.tangent_pieces.dirty.len() > 0 {
            for strand in strands {
                strand.tangent_pieces.dirty.begin_task(&self.tangent_pieces.dirty);
                strand.note_waiting();
            }
        }
    }

    /// Which memory is dirty when they are over.
    fn end_tangents(&mut self, strands: &mut [Box<Self>]) {
        let dirty = self.tangent_pieces.dirty.len() > 0 || strands.iter().any(|s| s.tangent_pieces.dirty.len() > 0);
        if dirty {
            self.tangent_pieces.dirty.end_tasks(strands.iter_mut().map(|s| &mut s.tangent_pieces.dirty));
            strands.iter_mut().for_each(|s| s.note_waiting());
            self.note_waiting();
        }
    }

    /// Forget what the tasks of the latest fork have recorded: no pullback reads it.
    fn forget_fork(&mut self, marks: Option<usize>, n: usize) {
        let Some(first) = marks else { return };
        for (strand, mark) in self.forks.strands[..n].iter_mut().zip(self.forks.marks.drain(first..)) {
            strand.rewind(mark.0);
        }
    }

    /// Run the pullbacks of the tasks of the fork whose record the cursor is after.
    ///
    /// # Safety
    /// As for [`Self::fork`], which has left the record.
    pub(crate) unsafe fn join(&mut self) -> ForkEnd {
        self.cursor = self.cursor.wrapping_sub(RECORD);
        // SAFETY: our contract.
        let i = unsafe { self.cursor.cast::<u64>().read_unaligned() } as usize;
        debug_assert_eq!(self.forks.forks.get(i).map(|f| f.at), Some(self.cursor as usize));
        let Some(Fork { pullback, tasks: n, marks, exclusive, .. }) = self.forks.forks.get(i).cloned() else {
            return ForkEnd::Trapped;
        };
        // SAFETY: our contract.
        let code = unsafe { traps::innermost() };
        // SAFETY: our contract.
        let pass = |seg: &mut Self| unsafe { seg.pass(pullback, &[], None, code) };
        let Some(first) = marks else {
            return stack::with_margin(|| self.one_by_one((0..n).rev(), false, |seg, _| pass(seg)));
        };
        // Tasks do not know of them.
        self.pieces.lost |= self.pieces.any_cotangent_waits();
        let mut strands = std::mem::take(&mut self.forks.strands);
        for (strand, mark) in strands.iter_mut().zip(&self.forks.marks[first..first + n]) {
            let strand = &mut **strand;
            strand.forks.pending.begin();
            let sums = strand.forks.pending.objects.iter().map(|o| (o.place(), o.distance()));
            strand.pieces.begin_task(&self.pieces, sums);
            strand.note_waiting();
            strand.asked = self.asked;
            strand.cursor = mark.1 as *mut u8;
        }
        if self.lead_exclusive(&mut strands, exclusive.clone()).is_none() {
            self.forks.strands = strands;
            return ForkEnd::Lacking;
        }
        let done = stack::with_margin(|| {
            run(&mut strands[..n], self, true, |strand, _| {
                strand.note_sums();
                strand.data_is_pending();
                pass(strand);
                strand.forks.pending.end();
            })
        });
        for &ExclusiveAccess { task, object, delta_place, .. } in &self.forks.exclusive[exclusive] {
            let pending = &mut strands[task].forks.pending;
            pending.lead(delta_place, pending.objects[object].distance());
        }
        let mut poisoned = Vec::new();
        for strand in &mut strands[..n] {
            self.join_poison(strand, &mut poisoned);
            if strand.pieces.lost || strand.pieces.any_cotangent_waits() {
                self.pieces.lost = true;
                strand.pieces.clear();
            }
            strand.waiting = 0;
        }
        self.pieces.end_tasks(strands[..n].iter_mut().map(|s| &mut s.pieces));
        self.note_waiting();
        poisoned.sort_unstable();
        let lacking = strands[..n].iter_mut().any(|s| std::mem::take(&mut s.forks.lacking));
        let done = match done {
            ForkEnd::Done if lacking => ForkEnd::Lacking,
            ForkEnd::Done => self.add_up(&mut strands[..n], &poisoned),
            done => done,
        };
        self.forks.strands = strands;
        done
    }

    /// Pullbacks of tasks add to what this segment sees where no two of them touch the same.
    fn lead_exclusive(&mut self, strands: &mut [Box<Self>], exclusive: Range<usize>) -> Option<()> {
        let mut partly: Vec<(usize, usize)> = Vec::new();
        for k in exclusive {
            let ExclusiveAccess { task, object, delta_place, ref extent, all } = self.forks.exclusive[k];
            let extent = extent.clone();
            let place = self.pending_place(extent.start)?;
            // Sums of this segment may be those of a smaller object.
            let sums = self.forks.pending.of_sum(place).map(|o| o.shadow.clone());
            if sums.is_none_or(|sums| sums.start <= extent.start && extent.end <= sums.end) {
                let pending = &mut strands[task].forks.pending;
                pending.lead(delta_place, place.wrapping_sub(extent.start));
                pending.objects[object].unused = all;
            } else {
                partly.push((task, object));
            }
        }
        for (task, object) in partly {
            strands[task].forks.pending.objects[object].unused = false;
        }
        Some(())
    }

    /// The strands' pending sums are this segment's, the last one's first, and words of shadow that
    /// were poisoned there are here.
    fn add_up(&mut self, strands: &mut [Box<Self>], poisoned: &[usize]) -> ForkEnd {
        let at_once = self.add_at_once(strands);
        for strand in strands.iter_mut().rev() {
            if !at_once && self.add_pending(strand).is_none() {
                return ForkEnd::Lacking;
            }
            strand.forks.pending.broken = false;
        }
        for &word in poisoned {
            let Some(at) = self.pending_place(word) else { return ForkEnd::Lacking };
            // SAFETY: where the program has stored, there is a shadow.
            unsafe { self.poison(at, 4) };
        }
        ForkEnd::Done
    }

    /// Where sums go to shadows, and there are many, threads take parts of the pages. Each page is
    /// one thread's, and gets the sums of the last strand first. Whether that has been done.
    fn add_at_once(&mut self, strands: &[Box<Self>]) -> bool {
        let count: usize = strands.iter().map(|s| s.forks.pending.added.len()).sum();
        let Some(executor) = self.forks.executor.clone().filter(|_| !self.is_strand() && count >= MANY_PAGES) else {
            return false;
        };
        let (floats, page) = (FloatSize::of(self.forks.float_size), mappings::page());
        let pages = &mut self.forks.added_pages;
        pages.clear();
        for pending in strands.iter().rev().map(|s| &s.forks.pending) {
            for &(object, i) in &pending.added {
                let object = &pending.objects[object];
                let [to, from] = [object.shadow.start, object.place().start].map(|start| start + i * page);
                pages.push((to, pages.len(), from));
            }
        }
        pages.sort_unstable();
        let (pages, parts) = (&*pages, count / (MANY_PAGES / 2));
        // Sums of one page are in one part.
        let begin = |part: usize| {
            let at = part * count / parts;
            at + pages[at..].iter().take_while(|p| at > 0 && p.0 == pages[at - 1].0).count()
        };
        executor.each(parts, &|part| {
            for &(to, _, from) in &pages[begin(part)..begin(part + 1)] {
                // SAFETY: a page of a strand's own memory, whose task is over; where the program
                // has added, there is a shadow. No other part has either.
                unsafe { floats.hand_over(from, to, page) };
            }
        });
        true
    }

    /// Stack slots of what has forked may be shadows that tasks share. What lies above where this
    /// strand was entered is of strands that wait for it, if they are on the same thread.
    fn note_stack(&mut self) {
        let here = std::ptr::from_ref(&self) as usize;
        let stack = stack::around_here().filter(|stack| stack.contains(&here));
        self.forks.stack = stack.map_or(0..0, |stack| {
            let entered = self.forks.entered.filter(|entered| (here..stack.end).contains(entered));
            here..entered.unwrap_or(stack.end)
        });
    }

    /// The stack of a strand that waits for this one in which a shadow lies. Which objects there
    /// are must not depend on which of them share a thread: the outermost has forked first, and
    /// what others knew of the same place may be of another fork.
    fn stack_around(&self, shadow: usize) -> Option<Range<usize>> {
        let (mut found, mut strand) = (None, self.forks.parent);
        while let Some(at) = strand {
            // SAFETY: a strand that waits for others is there, and does not change.
            let waiting = unsafe { &*at };
            // What the caller has declared may lie on its stack.
            if waiting.declared_around(shadow).is_some() {
                return None;
            }
            if waiting.forks.stack.contains(&shadow) {
                found = Some(waiting.forks.stack.clone());
            }
            strand = waiting.forks.parent;
        }
        found
    }

    /// The delta of pending sums, for a record. Without memory for them, the fork fails.
    pub(crate) fn pending_or_note(&mut self, p: usize, delta: usize) -> usize {
        let found = self.pending(p, delta);
        self.forks.lacking |= found.is_none();
        found.unwrap_or(delta)
    }

    /// The segment of the run, which has the shadows of data objects.
    fn root(&self) -> &Self {
        let mut strand = self;
        while let Some(parent) = strand.forks.parent {
            // SAFETY: a strand that waits for others is there, and does not change.
            strand = unsafe { &*parent };
        }
        strand
    }

    /// The shadow of a data object.
    pub(crate) fn data_shadow(&self, object: usize) -> Option<Range<usize>> {
        self.root().global_shadows().ranges().nth(object)
    }

    /// The table of data objects' deltas leads to pending sums from here on.
    fn data_is_pending(&mut self) {
        let mut table = std::mem::take(&mut self.forks.data);
        table.clear();
        table.extend(self.root().global_shadows().deltas());
        for (object, delta) in table.iter_mut().enumerate() {
            let shadow = self.data_shadow(object).map_or(0, |shadow| shadow.start);
            *delta = self.pending_or_note(shadow.wrapping_sub(*delta as usize), *delta as usize) as i64;
        }
        self.forks.data = table;
        self.lead_data_by_strand();
    }

    /// What is known of a shadow's surroundings beside tapes, heap blocks and stacks.
    pub(crate) fn known_shadow(&self, shadow: usize) -> Option<Range<usize>> {
        let of_data = || self.global_shadows().ranges().find(|r| r.contains(&shadow));
        self.declared_around(shadow).or_else(of_data)
    }

    /// What the caller has declared, if a shadow lies in it.
    fn declared_around(&self, shadow: usize) -> Option<Range<usize>> {
        let declared = self.declared.iter().filter(|d| d.shadow != 0).filter_map(|d| {
            let from = d.shadow as usize;
            Some(from..from.checked_add(usize::try_from(d.len?).ok()?)?)
        });
        { declared }.find(|r| r.contains(&shadow))
    }

    /// Tasks one after the other, on this segment. Forward, all run, also after one that traps.
    /// The pullback of one that has trapped has not found the end of its record, where that of the
    /// next task is.
    fn one_by_one(
        &mut self,
        tasks: impl Iterator<Item = usize>,
        goes_on: bool,
        each: impl Fn(&mut Self, usize),
    ) -> ForkEnd {
        let mut first: Option<(usize, RawTrap)> = None;
        let before = self.executed().span;
        let mut longest = before;
        for t in tasks {
            self.forks.beside = self.executed - before;
            each(self, t);
            longest = longest.max(self.executed().span);
            let trap = self.forks.failed.take();
            if let Some(trap) = trap.filter(|_| first.as_ref().is_none_or(|f| t < f.0)) {
                first = Some((t, trap));
            }
            if first.is_some() && !goes_on {
                break;
            }
        }
        self.executed += 1;
        self.forks.beside = self.executed - (longest + 1);
        let Some((_, trap)) = first else { return ForkEnd::Done };
        self.forks.trap = Some(trap);
        ForkEnd::Trapped
    }

    /// What has been executed since [`Self::reset_counts`]. Only code of a debug run counts.
    pub fn executed(&self) -> WorkAndSpan {
        WorkAndSpan { work: self.executed, span: self.executed - self.forks.beside }
    }

    /// Count from zero on.
    pub fn reset_counts(&mut self) {
        (self.executed, self.forks.beside) = (0, 0);
    }

    /// Have segments for the tasks of a fork, if there is memory for them.
    fn prepare(&mut self, n: usize, width: usize) -> Option<()> {
        let mut strands = std::mem::take(&mut self.forks.strands);
        while strands.len() < n {
            strands.push(Segment::new(self.capacity()).ok()?);
        }
        let parent: *const Segment = self;
        for strand in &mut strands[..n] {
            strand.follows(self);
            strand.forks.executor.clone_from(&self.forks.executor);
            strand.forks.instance.clone_from(&self.forks.instance);
            (strand.forks.width, strand.forks.parent) = (width, Some(parent));
            (strand.forks.inline, strand.forks.float_size) = (false, self.forks.float_size);
        }
        self.forks.strands = strands;
        Some(())
    }

    /// Enter generated code with words, the number of the task if there is one, and this segment.
    ///
    /// # Safety
    /// As for [`Self::fork`].
    unsafe fn pass(&mut self, entry: Entry, words: &[u64], task: Option<usize>, code: &CodeRanges) {
        let seg: *mut Segment = self;
        let here = std::ptr::from_ref(&task) as usize;
        let before = self.forks.entered;
        if self.forks.parent.is_some() {
            self.forks.entered = before.or(Some(here));
        }
        // Generated code reads them first. A fork within has its own after them.
        let args = &mut self.forks.args;
        let from = args.len();
        args.extend_from_slice(words);
        args.extend(task.map(|t| t as u64));
        args.push(seg as u64);
        let given = args[from..].as_mut_ptr();
        // SAFETY: our contract; the code is that of the run, of which all frames may be abandoned.
        let done = unsafe { traps::call_guarded(entry, given.cast(), code) };
        self.forks.args.truncate(from);
        self.forks.entered = before;
        // A fork within has noted what has stopped its task.
        self.forks.failed = done.err().map(|trap| self.forks.trap.take().unwrap_or(trap));
    }
}

/// Segments of which each thread uses those whose tasks it runs.
#[derive(Clone, Copy)]
struct TaskSegments(*mut Box<Segment>);

// SAFETY: each is used by the thread that runs its task.
unsafe impl Sync for TaskSegments {}

impl TaskSegments {
    /// That of a task.
    ///
    /// # Safety
    /// There is one, and it is not used elsewhere.
    unsafe fn of<'s>(self, t: usize) -> &'s mut Segment {
        // SAFETY: our contract.
        unsafe { &mut *self.0.add(t) }
    }
}

/// Run each task on its strand; in reverse, the last one first.
fn run(
    strands: &mut [Box<Segment>],
    parent: &mut Segment,
    reverse: bool,
    each: impl Fn(&mut Segment, usize) + Sync,
) -> ForkEnd {
    let (n, shared) = (strands.len(), TaskSegments(strands.as_mut_ptr()));
    // SAFETY: there is one for each task, and no two tasks have one number.
    let task = |t: usize| each(unsafe { shared.of(t) }, t);
    match &parent.forks.executor {
        Some(executor) if n > 1 => executor.each(n, &|i| task(if reverse { n - 1 - i } else { i })),
        _ if reverse => (0..n).rev().for_each(task),
        _ => (0..n).for_each(task),
    }
    let Some(failed) = strands.iter_mut().find(|s| s.forks.failed.is_some()) else { return ForkEnd::Done };
    parent.forks.trap = failed.forks.failed.take();
    parent.loops.fails_as(&failed.loops);
    parent.inverses.fails_as(&failed.inverses);
    ForkEnd::Trapped
}

/// Add what one task touches by a delta in a place, and no other task does.
fn add_exclusive(strands: &[Box<Segment>], found: &mut Vec<ExclusiveAccess>, compared: &mut ComparedMemory) {
    let first = found.len();
    for (task, strand) in strands.iter().enumerate() {
        for (object, o) in strand.forks.pending.objects.iter().enumerate() {
            let all = !o.open && o.delta_places.iter().all(|c| !c.open);
            for c in o.delta_places.iter().filter(|c| !c.open) {
                found.extend(c.extent.clone().map(|extent| ExclusiveAccess {
                    task,
                    object,
                    delta_place: c.id,
                    extent,
                    all,
                }));
            }
        }
    }
    let ComparedMemory { apart, shared } = compared;
    found[first..].sort_unstable_by_key(|t| (t.extent.start, t.task));
    are_apart(&found[first..], apart);
    shared.clear();
    let mut apart_end = first;
    for (k, &apart) in (first..).zip(&*apart) {
        if apart {
            found.swap(apart_end, k);
            apart_end += 1;
        } else {
            shared.insert((found[k].task, found[k].object));
        }
    }
    found.truncate(apart_end);
    for t in &mut found[first..] {
        t.all &= !shared.contains(&(t.task, t.object));
    }
}

/// Pending sums.
impl Segment {
    /// Whether pullbacks of this segment's code run beside others.
    fn is_strand(&self) -> bool {
        self.forks.parent.is_some() && !self.forks.inline
    }

    /// Whether it knows of all cotangents that wait in pieces: not that of a task.
    pub(crate) fn keeps_account(&self) -> bool {
        !self.is_strand()
    }

    /// Numbers have been stored over some bytes, of which a task may find parts of a double's
    /// cotangent only: that is lost then. Whether this is a task's segment.
    ///
    /// # Safety
    /// The bytes and the windows that they lie in are those of a shadow, or of its pending sums.
    pub(crate) unsafe fn cut_in_task(&mut self, at: usize, n: usize) -> bool {
        if self.keeps_account() {
            return false;
        }
        let (from, to) = (at & !(WINDOW - 1), (at + n).next_multiple_of(WINDOW));
        if self.pending_sums != 0 {
            // SAFETY: our contract.
            unsafe { self.gather(from, to - from) };
        }
        // SAFETY: our contract.
        let is_zero = |place| unsafe { FloatSize::Doubles.is_zero(place) };
        if !(from..to).step_by(WINDOW).all(is_zero) {
            self.pieces.lost = true;
        }
        true
    }

    /// Whether nothing but this strand adds to a shadow.
    pub(crate) fn owns(&self, shadow: usize) -> bool {
        self.tape_range().contains(&shadow) || self.blocks.around(shadow).is_some()
    }

    /// The delta of pending sums for the shadow of what lies at `p`; none if there is no memory for
    /// them.
    pub(crate) fn pending(&mut self, p: usize, delta: usize) -> Option<usize> {
        if delta == 0 || !self.is_strand() {
            return Some(delta);
        }
        self.pending_place(p.wrapping_add(delta)).map(|at| at.wrapping_sub(p))
    }

    /// Where the delta will be by which a pullback touches so much of the shadow of what lies at
    /// `p`: more than is known, without an extent. None if there is no memory for pending sums.
    pub(crate) fn pending_within(&mut self, p: usize, delta: usize, touched: Option<Extent>) -> *const usize {
        let shadow = p.wrapping_add(delta);
        if delta == 0 || !self.is_strand() || self.owns(shadow) {
            return self.forks.pending.fixed_cell(delta);
        }
        let Some(object) = self.pending_object(shadow) else {
            self.forks.lacking = true;
            return self.forks.pending.fixed_cell(delta);
        };
        // Pullbacks have another way to data objects.
        let is_data = self.root().global_shadows().ranges().any(|r| r.contains(&shadow));
        self.forks.pending.delta_place(object, p, delta, touched.filter(|_| !is_data))
    }

    /// The pullback of a task begins: whether there may be sums that it gathers, its own or those
    /// of strands that wait for it.
    fn note_sums(&mut self) {
        // SAFETY: a strand that waits is there, and does not change.
        let waiting = self.forks.parent.is_some_and(|parent| unsafe { (*parent).pending_sums } != 0);
        self.pending_sums = u64::from(waiting || self.forks.pending.objects.iter().any(|o| !o.unused));
    }

    /// Where the pending sum for an object's shadow is: there, if the strand owns it.
    fn pending_place(&mut self, shadow: usize) -> Option<usize> {
        // Around what the strand owns there may be an object that others add to.
        if !self.is_strand() || self.owns(shadow) {
            return Some(shadow);
        }
        let object = self.pending_object(shadow)?;
        self.pending_sums = 1;
        let object = &mut self.forks.pending.objects[object];
        (object.open, object.unused) = (true, false);
        Some(shadow.wrapping_add(object.distance()))
    }

    /// How far from the shadow of an object that a task of this strand has sums for this strand's
    /// own are. What lies around an object may be another one, so it is told by its extent: which
    /// of two sums a float is added to is the same wherever objects lie. None of what this strand
    /// owns, whose surroundings it may not own.
    fn sums_like(&mut self, object: &PendingObject) -> Option<Option<usize>> {
        if self.owns(object.extent().start) {
            return Some(None);
        }
        let known = self.forks.pending.objects.iter().position(|o| o.extent() == object.extent());
        let i = match known {
            Some(i) => i,
            None => {
                let made = self.forks.pending.make(object.extent(), object.instance()).ok()?;
                let made_object = &self.forks.pending.objects[made];
                self.pieces.sums.push((made_object.place(), made_object.distance()));
                made
            }
        };
        let found = &mut self.forks.pending.objects[i];
        found.unused = false;
        self.pending_sums = 1;
        Some(Some(found.distance()))
    }

    /// The number of the object of a shadow that this strand does not own.
    fn pending_object(&mut self, shadow: usize) -> Option<usize> {
        // Where a stack was in an earlier fork, there may be another one now.
        let stack = self.stack_around(shadow);
        let known = match &stack {
            Some(stack) => self.forks.pending.objects.iter().position(|o| o.extent() == *stack),
            None => self.forks.pending.of_object(shadow),
        };
        known.or_else(|| {
            let instance = self.forks.instance.clone().filter(|i| i.shadow.contains(&shadow));
            let extent = instance.as_ref().map(|i| i.shadow.clone());
            let extent = extent.or(stack).or_else(|| self.object_around(shadow))?;
            let made = self.forks.pending.make(extent, instance).ok()?;
            let object = &self.forks.pending.objects[made];
            self.pieces.sums.push((object.place(), object.distance()));
            Some(made)
        })
    }

    /// The object that a shadow lies in, of one of the strands that wait for this one, or of the
    /// caller of the run.
    fn object_around(&self, shadow: usize) -> Option<Range<usize>> {
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
        found.or_else(|| mappings::around(shadow))
    }

    /// A shadow is going to be read at some bytes, by the only strand that stores to them: what has
    /// been added for them elsewhere comes to where it reads.
    ///
    /// # Safety
    /// The bytes are those of a shadow, or of its pending sums for this strand.
    pub(crate) unsafe fn gather(&mut self, at: usize, n: usize) {
        if n == 0 {
            return;
        }
        let chain = || {
            std::iter::successors(Some(&*self), |strand| {
                // SAFETY: a strand that waits is there, and does not change.
                strand.forks.parent.map(|parent| unsafe { &*parent })
            })
        };
        // The strand reads its own sums, those of one that waits for it, or the shadow.
        let read = chain().find_map(|strand| strand.forks.pending.of_sum(at));
        let (first, distance) = read.map_or((0, 0), |o| (o.place().start, o.distance()));
        let (floats, shadow) = (FloatSize::of(self.forks.float_size), at.wrapping_sub(distance));
        let bring = |from: usize, shadow: usize, n: usize| {
            let (from, to) = (shadow.wrapping_add(from), shadow.wrapping_add(distance));
            // SAFETY: our contract; no other strand adds there.
            unsafe { floats.hand_over(from, to, n) };
        };
        let others = chain().flat_map(|strand| &strand.forks.pending.objects).filter(|o| o.place().start != first);
        for object in others {
            let (from, to) = (shadow.max(object.shadow.start), (shadow + n).min(object.shadow.end));
            if from < to {
                bring(object.distance(), from, to - from);
            }
        }
        if distance != 0 {
            bring(0, shadow, n);
        }
    }

    /// The fork of a strand is over: its pending sums are this segment's.
    pub(crate) fn add_pending(&mut self, strand: &mut Segment) -> Option<()> {
        let floats = FloatSize::of(self.forks.float_size);
        let page = mappings::page();
        for &(object, i) in &strand.forks.pending.added {
            let object = &strand.forks.pending.objects[object];
            let (from, shadow) = (object.place().start + i * page, object.shadow.start + i * page);
            let to = if self.is_strand() {
                self.sums_like(object)?.map(|distance| shadow.wrapping_add(distance))
            } else {
                Some(shadow)
            };
            if let Some(to) = to {
                // SAFETY: a page of the strand's own memory, whose task is over; where the program
                // has added, there is a shadow.
                unsafe { floats.hand_over(from, to, page) };
                continue;
            }
            for off in (0..page).step_by(floats.size()) {
                // SAFETY: as before.
                unsafe {
                    if !floats.is_zero(from + off) {
                        let to = self.pending_place(shadow + off)?;
                        floats.hand_over(from + off, to, floats.size());
                    }
                }
            }
        }
        Some(())
    }
}
