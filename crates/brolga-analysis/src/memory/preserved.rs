//! Preserved memory: what a callee's pullback may read again.
//!
//! **Problem.** A function that is called is derived as a pair. Its pullback runs long after its
//! forward pass, and only its callers know what was done to memory in between. So a pair records
//! whatever it loads, if its reverse needs it: two arrays for a scalar product, although nothing
//! writes to them.
//!
//! **Answer.** A call tells: *memory that a parameter leads to is kept*, if nothing writes to it
//! from the start of the call until all of the reverse half is done, the callee included. A pair
//! loads from kept memory again, and tells its own callees. What is kept is part of a
//! [`Variant`](crate::Variant): a set of parameters, and of *the rest* ([`OTHER`]), which is all
//! that is older than the call and that no parameter leads to.
//!
//! *The first to know* is a function that does both halves in one go (a combined function, or a
//! callee that is derived whole): its second half begins when its first ends, so from a call on,
//! memory is written by that call and what can come after it in the function, and by nothing else.
//! These are the writes that [`clobber`](crate::memory::clobber) asks about, calls by their
//! [effects](crate::memory::mod_ref), later iterations of loops included; the call itself counts.
//! Releases count as writes, unless they [wait](crate::calls::deferred_free) until the second half
//! is done. A pair knows what it was told, and that only: what its arguments that lead to kept
//! memory lead to is kept for its callees.
//!
//! *What an address leads to* is told in two ways, whose arguments are those of
//! [`places`](crate::memory::alias) and [`crate::memory::points_to`]: it has a parameter as its
//! origin, so it is an offset from what the caller has passed; or, where the program brings its
//! allocator, it is made from some of the parameters and nothing else. Either way the access is one
//! of the object that the argument led to, as if the callee's body stood in the place of the call.
//! What has been loaded and is used as an address leads elsewhere: to the rest, if the function has
//! made no memory itself that could be found there (a slot, or a block, whose address is
//! [captured](crate::memory::capture)); if it has, nothing of the rest is taken for kept. Without
//! an allocator the rest is all that is older. With one it leaves out what parameters lead to; if
//! such an object could be found elsewhere after all, it has escaped where it was made
//! ([`crate::memory::points_to`]), and there the rest has it in.
//!
//! **Why that is enough.** Between the load and the pullback's use of it, memory is written by
//!
//! 1. the callee after the load: that counts with the call;
//! 2. its callers after the call, and what they call: all callers up to the function of both halves
//!    are within one call of its, and it sees them as that call;
//! 3. the second half itself. It writes shadows. It puts back what calls and stores after this one
//!    wrote (memory mode `restore`), none of which is to this memory. At its end it releases what
//!    waits.
//!
//! And the memory is still there. A slot that the argument leads to is one of the function of both
//! halves, since a pair never says of its own slots or blocks that they are kept. A block that is
//! released counts as written.
//!
//! **Invariants.** Fewer bits are always right, so a function without a use for a fact may drop it.
//! Functions that are called through pointers are told nothing, nor is the program's allocator,
//! whose accesses are not C's. Forward passes and pullbacks that users call themselves
//! (`Mode::Split`) contain no function that knows first. A load that is done again has been done
//! before, so it does not trap.
//!
//! Before an instance's memory there are globals and sizes, which have no owner: those are
//! never kept.
//!
//! **Cost.** What [`crate::memory::clobber`] costs for a question for each call and parameter.

use brolga_ir::FuncKey;
use brolga_ir::map::HashMap;
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntitySet;

use crate::lattice::points_to_set::{OTHER, Set};
use crate::memory::alias::{Origin, Place, Places, has_instance, leads_to, through};
use crate::memory::capture::captures;
use crate::memory::clobber::{Access, ClobberInput, Writes};
use crate::query::callee::CalleeKind;
use crate::variant::{PreservedMemory, bit};

/// Whether what is loaded and used as an address could lead to memory that the function has made
/// itself. Blocks of the program's allocator have bits of their own.
fn makes_memory(places: Places<'_>) -> bool {
    let Places { program, func, cfg, .. } = places;
    let makes = |inst| match CalleeKind::of(program, func, inst) {
        Some(CalleeKind::Known(r)) => {
            matches!(r.kind, MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Realloc))
        }
        _ => func.dfg.insts[inst].opcode() == Opcode::StackAddr,
    };
    let is_captured = || places.blocks.known() || captures(program, func, makes);
    cfg.all_insts().iter().any(|&inst| makes(inst)) && is_captured()
}

/// What of that is kept which a function was told is, for addresses of its own.
fn told(places: Places<'_>, preserved: PreservedMemory) -> PreservedMemory {
    if preserved.the_rest() && makes_memory(places) { PreservedMemory::of(preserved.set() & !OTHER) } else { preserved }
}

/// Loads of a pair that its pullback may do again.
pub fn loads(places: Places<'_>, preserved: PreservedMemory) -> EntitySet<ir::Inst> {
    let mut found = EntitySet::new();
    if preserved.is_nothing() {
        return found;
    }
    let (preserved, instance) = (told(places, preserved), has_instance(&places.func.signature));
    for inst in places.cfg.blocks.iter().flat_map(|&b| places.func.layout.block_insts(b)) {
        let InstructionData::Load { arg, .. } = places.func.dfg.insts[inst] else { continue };
        let place = places.of_access(inst);
        let in_memory = place.origin == Origin::Param(0) && place.span().is_some_and(|s| s.0 >= 0);
        if preserved.has(leads_to(places, arg)) && (in_memory || !instance) {
            found.insert(inst);
        }
    }
    found
}

/// What each direct call of a function of the program may be told. A pair has been told what is
/// `preserved`; a combined function has not (`None`), and knows.
pub fn calls(cx: &ClobberInput<'_>, preserved: Option<PreservedMemory>) -> HashMap<ir::Inst, PreservedMemory> {
    let places = cx.places();
    let mut found = HashMap::default();
    if preserved.is_some_and(PreservedMemory::is_nothing) {
        return found;
    }
    let told = preserved.map(|preserved| told(places, preserved));
    let mut questions: Vec<(Access, Set)> = Vec::new();
    for &block in &cx.cfg.blocks {
        for inst in cx.func.layout.block_insts(block) {
            let Some(callee) = callee(cx, inst) else { continue };
            let instance = has_instance(&cx.program.funcs[callee].signature);
            let args = cx.func.dfg.inst_args(inst);
            // A function with an instance knows of its memory, any other of what it is passed.
            let same = instance == has_instance(&cx.func.signature);
            if !same || instance && cx.func.dfg.block_params(cx.cfg.blocks[0])[0] != args[0] {
                continue;
            }
            let reads = cx.effects.get(&callee).map_or(0, |e| e.reads);
            let params = (usize::from(instance)..args.len().min(63)).map(bit).chain([OTHER]);
            for asked in params.filter(|b| reads & b != 0) {
                match told {
                    Some(preserved) if preserved.has(through(places, args, asked)) => note(&mut found, inst, asked),
                    Some(_) => {}
                    None => questions.push((Access { block, inst, place: place(places, args, asked) }, asked)),
                }
            }
        }
    }
    if !questions.is_empty() {
        let mut writes = Writes::of(cx, questions.len());
        for (access, asked) in questions {
            if !writes.may_follow(&access) {
                note(&mut found, access.inst, asked);
            }
        }
    }
    found
}

fn note(found: &mut HashMap<ir::Inst, PreservedMemory>, call: ir::Inst, asked: Set) {
    let preserved = found.entry(call).or_insert(PreservedMemory::NOTHING);
    *preserved = PreservedMemory::of(preserved.set() | asked);
}

/// The function that a call is derived with, if it can be told anything.
fn callee(cx: &ClobberInput<'_>, inst: ir::Inst) -> Option<FuncKey> {
    match CalleeKind::of(cx.program, cx.func, inst)? {
        CalleeKind::Derived(k) => cx.program.funcs[k].allocator.is_none().then_some(k),
        _ => None,
    }
}

/// All that an argument leads to, or that is older than the call.
fn place(places: Places<'_>, args: &[ir::Value], asked: Set) -> Place {
    if has_instance(&places.func.signature) {
        return places.of_address(args[0]).shifted((0, MEMORY)).within(places.blocks.through(args, asked));
    }
    match (0..args.len().min(63)).find(|&i| bit(i) == asked) {
        Some(i) => places.of_address(args[i]).unbounded(),
        None => Place::ANYWHERE,
    }
}

/// Bytes of an instance's memory, and more.
const MEMORY: i64 = 1 << 60;
