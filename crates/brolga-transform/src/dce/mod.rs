//! Aggressive dead-code elimination: removal of what a derived graph computes without use.
//!
//! **Problem.** A graph is assembled from parts that do not know each other. What one part provides
//! another may not need: trip counters that are not read, primal results of which only the gradient
//! was wanted, values kept for a reverse that does not look at them, and the branches and loops
//! around all of that. A cycle of values that only feed themselves looks used if uses are counted.
//!
//! **Answer.** Everything is taken for dead until something needs it (Cytron et al., 1991, section
//! 7.1). *Roots* are what the function returns, and whatever has an effect ([`Use::Effect`]). What
//! is needed needs in turn
//! - the definitions of what it reads; of a block parameter, the arguments on all edges;
//! - the branches that decide whether it runs; of a block parameter, those that decide along which
//!   edge it is reached ([`control_dependence`]);
//! - if it reads a place of the activation frame, a held variable or a cotangent, whatever is
//!   written there before it, in the order in which blocks run ([`Control::order`]);
//! - if it allocates private memory, what gives that back;
//! - if it reads memory that the function has made for itself and that does not escape
//!   ([`brolga_analysis::PrivateMemory`]), whatever is written there before, anywhere in it. Stores
//!   to arrays that only the primal's value needed go, and with them what computes what they store.
//!
//! What is not needed goes: instructions, parameters with their arguments, then blocks that nothing
//! leads to. A branch that is not needed becomes a jump to the next needed place on every way from
//! it to an exit. There is one: if needed places could be reached by different ways, the branch
//! would decide between them, and be needed. For the same reason nothing that is needed is skipped,
//! so definitions still dominate their uses.
//!
//! **What may get lost.** A loop without effect whose results are not needed is not run: loops are
//! assumed to end. A load whose result is not needed is not run either if it cannot fault, nor is
//! whatever else the caller of this pass calls pure: calls of mathematical functions, and, where
//! only a gradient is asked for, loads that might fault. What is written to private memory that is
//! not read is not written, if it cannot fault, or if only a gradient is asked for. Every trap that
//! is not of such an access stays: explicit ones, ours, and those of conversions and divisions,
//! unless the divisor is a constant that cannot trap. Where no exit can be reached no branch is
//! removed, and a function without any exit stays as it is.
//!
//! **Names.** Names of a forward block are defined once and seen by all that it dominates. In the
//! blocks of a pullback they are local and may be defined again, so a use means the definition
//! before it in its block; only if there is none, the one of the forward part. A loop that the
//! pullback runs again is between the two: its names are seen by all of its blocks, and by no
//! others. Names of derived values ([`brolga_ir::inst::Val::D`]) are unique wherever they are.
//!
//! **Invariants.** Blocks and instructions keep their order and their ids. The parameters of the
//! entry block are the signature, and stay. What is recorded on the tape stays as it is, whole: a
//! pullback may pop it. A frame that is left for another function ([`AdOp::LeaveFrame`]) is read
//! there, so all that is kept in it stays; otherwise what is kept stays only if this function reads
//! it, as with held variables. Private memory is read where it was made: a pullback that is a
//! function of its own never reads the primal's memory. A frame slot is read at the offset at which
//! it is kept, or not at all.
//!
//! **Cost.** Each item is taken once, and each write of a cell once from a sorted list: n log n in
//! the instructions, and linear in the control dependences. Graphs without branches have a walk of
//! their own ([`straight_line`]).
//!
//! **Source.** Cytron et al., *Efficiently computing static single assignment form and the control
//! dependence graph* (1991).

use brolga_ir::map::HashMap;

use brolga_ir::block::{CfgBlocks, Target, Term};
use brolga_ir::inst::AdOp;
use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use control_dependence::{BlockOrEdge, Control};
use items::{ItemId, Items};
use uses::{DceCell, Use, cells_read, use_of};

pub use uses::KnownPrimal;

mod control_dependence;
mod items;
mod straight_line;
mod uses;

/// Remove from a graph whatever is not needed.
pub fn prune(graph: &mut CfgBlocks, known: KnownPrimal<'_>) {
    if let Some(found) = straight_line::needed(graph, known) {
        debug_assert!(searched(graph, known).is_some_and(|live| found.is(&live)), "both find the same:\n{found:?}");
        return found.sweep(graph);
    }
    // No exit: there is nothing that anything could be needed for but the effects of an endless
    // loop.
    let Some(control) = Control::compute(graph) else { return };
    let items = Items::collect(graph, known.primal, &control);
    let live = LiveSearch::compute(known, &control, &items);
    let live_items = LiveItems::of(&control, items, live);
    // Where all branches stay nothing is cut off.
    let all = control.blocks.len() == graph.blocks.len() && live_items.bypasses.iter().all(Option::is_none);
    sweep(graph, &control, live_items);
    if !all {
        let mut reached = graph.edges().reached([0]).into_iter();
        graph.blocks.retain(|_, _| reached.next() == Some(true));
    }
}

/// What is needed, found in the way that does for all graphs: by block, of each parameter and
/// instruction.
fn searched(graph: &CfgBlocks, known: KnownPrimal<'_>) -> Option<Vec<Vec<bool>>> {
    let control = Control::compute(graph)?;
    let items = Items::collect(graph, known.primal, &control);
    let live = LiveSearch::compute(known, &control, &items);
    let blocks = items.blocks.iter().zip(&items.first);
    Some(blocks.map(|(b, &first)| live.items[first..][..b.params.len() + b.insts.len()].to_vec()).collect())
}

/// When an item runs: what cannot run after another is not later than it.
type Moment = (u32, u32);

/// What writes each cell, and when.
#[derive(Default)]
struct Writers {
    /// The list of each cotangent and of each other cell: one more than its number.
    cts: SecondaryMap<ir::Value, u32>,
    others: HashMap<DceCell, u32>,
    lists: Vec<SmallVec<[(Moment, u32); 4]>>,
}

impl Writers {
    fn of(&mut self, cell: &DceCell) -> &mut SmallVec<[(Moment, u32); 4]> {
        let list = match cell {
            DceCell::Ct(v) => &mut self.cts[*v],
            _ => self.others.entry(*cell).or_default(),
        };
        if *list == 0 {
            self.lists.push(SmallVec::new());
            *list = self.lists.len() as u32;
        }
        &mut self.lists[*list as usize - 1]
    }
}

/// What is needed.
struct LiveSearch {
    items: Vec<bool>,
    /// Blocks in which something is needed, and edges along which something needed is passed, by
    /// number of the place.
    places: Vec<bool>,
    /// All items are gone through once, the last first, since most that is read is before who
    /// reads it. So far has that come.
    at: ItemId,
    /// What was found to be needed after that.
    worklist: Vec<ItemId>,
}

impl LiveSearch {
    fn compute(known: KnownPrimal<'_>, control: &Control, items: &Items<'_>) -> Self {
        let all = items.block.len();
        let mut live =
            LiveSearch { items: vec![false; all], places: vec![false; control.len()], at: all, worklist: Vec::new() };
        let blocks = || items.blocks.iter().enumerate();
        let frame_is_left = blocks().any(|(_, b)| b.insts.values().any(|i| matches!(i.op, AdOp::LeaveFrame)));
        let mut writers = Writers::default();
        // At once: a table that grows with each cotangent is filled a little at a time.
        writers.cts.resize(known.primal.dfg.num_values());
        let moment = |b: usize, item: ItemId, reads: bool| match control.order[b] {
            (number, false) => (number as u32, item as u32),
            (number, true) => (number as u32, if reads { u32::MAX } else { 0 }),
        };
        let mut with: HashMap<ItemId, SmallVec<[ItemId; 2]>> = HashMap::default();
        // The cells that are read, and for each item the end of its own: what is asked later need
        // not be looked at again.
        let (mut reads, mut ends) = (Vec::with_capacity(all), Vec::with_capacity(all));
        for (b, block) in blocks() {
            let insts = items.first[b] + block.params.len();
            ends.resize(insts, reads.len() as u32);
            for (item, inst) in (insts..).zip(block.insts.values()) {
                cells_read(&inst.op, known.private, &mut reads);
                ends.push(reads.len() as u32);
                match use_of(inst, known) {
                    Use::Effect => live.need(item),
                    Use::Value => {}
                    Use::Writes(DceCell::Frame(_)) if frame_is_left => live.need(item),
                    Use::With(name) => {
                        items.meant(block.role, name).for_each(|i| with.entry(i).or_default().push(item));
                    }
                    Use::Writes(ref cell) => writers.of(cell).push((moment(b, item, false), item as u32)),
                }
            }
            if matches!(block.term, Term::Return(_) | Term::Trap(_)) {
                live.need(items.term(b));
            }
        }
        ends.resize(all, reads.len() as u32);
        // The first to be written is the last.
        writers.lists.iter_mut().for_each(|w| w.sort_unstable_by(|a, b| b.cmp(a)));
        let signature = items.blocks[0].params.len();
        (0..signature).for_each(|p| live.need(p));
        control.endless.iter().for_each(|&b| live.need(items.term(b)));
        while let Some(item) = live.next() {
            let b = items.block[item] as usize;
            live.place(BlockOrEdge::Block(b), control, items);
            items.read_by(item).for_each(|i| live.need(i));
            if !with.is_empty() {
                with.remove(&item).into_iter().flatten().for_each(|i| live.need(i));
            }
            if item < items.first[b] + items.blocks[b].params.len() {
                control.incoming(b).for_each(|e| live.place(BlockOrEdge::Edge(e), control, items));
            }
            let first = item.checked_sub(1).map_or(0, |before| ends[before]);
            for cell in &reads[first as usize..ends[item] as usize] {
                let writers = writers.of(cell);
                let now = moment(b, item, true);
                while let Some(&(_, i)) = writers.last().filter(|w| w.0 < now) {
                    writers.pop();
                    live.need(i as usize);
                }
            }
        }
        live
    }

    fn need(&mut self, item: ItemId) {
        if !std::mem::replace(&mut self.items[item], true) && item >= self.at {
            self.worklist.push(item);
        }
    }

    /// The next item of which it is to be seen what it needs.
    fn next(&mut self) -> Option<ItemId> {
        self.worklist.pop().or_else(|| {
            self.at = self.items[..self.at].iter().rposition(|&needed| needed)?;
            Some(self.at)
        })
    }

    /// Something at this place is needed, and so is what decides whether it is passed.
    fn place(&mut self, p: BlockOrEdge, control: &Control, items: &Items<'_>) {
        if !std::mem::replace(&mut self.places[control.number(p)], true) {
            control.deps(p).iter().for_each(|&branch| self.need(items.term(branch)));
        }
    }
}

/// What is live, with the numbers of the first item of each block and of its terminator.
struct LiveItems {
    items: Vec<bool>,
    first: Vec<ItemId>,
    /// Where a branch goes that is not needed.
    bypasses: Vec<Option<Target>>,
}

impl LiveItems {
    fn of(control: &Control, items: Items<'_>, live: LiveSearch) -> Self {
        let term = |b: usize| &items.blocks[b].term;
        let bypass = |b: usize| {
            let next = control.next(b, |n| live.places[n]).expect("an exit is live, and all ways lead to one");
            match next {
                BlockOrEdge::Block(to) => Target { block: control.blocks[to], args: vec![] },
                BlockOrEdge::Edge(e) => {
                    let edge = &control.edges[e];
                    term(edge.from).targets().nth(edge.target).expect("an edge has a target").clone()
                }
            }
        };
        let bypasses = (0..control.blocks.len()).map(|b| {
            let branches = matches!(term(b), Term::If(..) | Term::Table(..) | Term::Switch(..));
            (branches && !live.items[items.term(b)]).then(|| bypass(b))
        });
        Self { bypasses: bypasses.collect(), items: live.items, first: items.first }
    }
}

/// Remove what is not live.
fn sweep(graph: &mut CfgBlocks, control: &Control, live_items: LiveItems) {
    let LiveItems { items, first, bypasses } = live_items;
    for (b, bypass) in bypasses.into_iter().enumerate() {
        let block = &mut graph.blocks[&control.blocks[b]];
        let mut k = first[b]..;
        block.params.retain(|_| k.next().is_some_and(|i| items[i]));
        block.insts.retain(|_, _| k.next().is_some_and(|i| items[i]));
        if let Some(target) = bypass {
            block.term = Term::Jump(target);
        }
        for target in block.term.targets_mut() {
            let mut k = first[control.position(target.block)]..;
            target.args.retain(|_| k.next().is_some_and(|i| items[i]));
        }
    }
}
