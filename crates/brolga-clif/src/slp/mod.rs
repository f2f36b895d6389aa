//! Superword-level parallelism (SLP): what is done alike to neighbours in memory becomes one vector
//! operation.
//!
//! **Problem.** Compilers unroll loops, and people write `x`, `y` and `z` out. The reverse then
//! adds to four neighbours by four loads, four multiplications, four additions and four stores,
//! while a register has room for two `f64` or four `f32`. [`crate::vectorise`] sees loops
//! only, and leaves short ones alone.
//!
//! **Answer.** *Superword-level parallelism* (Larsen and Amarasinghe, "Exploiting superword level
//! parallelism with multimedia instruction sets", 2000). Where a block stores to neighbours in
//! shadow memory, what is stored is followed back for as long as all lanes do the same
//! ([`bundles`]):
//!
//! ```text
//! v1 = load.f64 v0+8 ; v2 = fadd v1, v8 ; store v2, v0+8
//! v3 = load.f64 v0   ; v4 = fadd v3, v9 ; store v4, v0
//!      ─►  v5 = load.f64x2 v0 ; v6 = fadd v5, (v9, v8) ; store v6, v0
//! ```
//!
//! Such a bundle is kept if it saves more than it costs to put scalars into lanes, and to take them
//! out for others who read them, and if there is an order in which all can stand ([`order`]): loads
//! of a bundle are done at once, and so are its stores, so others may have to be done before or
//! behind both.
//!
//! **Why it is the same.** Lanes calculate what scalars do, bit by bit. Accesses trade places only
//! if they cannot touch the same bytes, by what their addresses are computed from ([`address`]), or
//! since one is to a shadow and the other is not, or as the primal's accesses from which they stem
//! are apart. Nothing is moved past calls, checks and other effects. Of what traps the order may
//! change; shadows are undefined then.
//!
//! **Where.** In loops of one way ([`affine_loop::loops`]), and only what stores to shadows. A
//! vector that is loaded just after its parts were stored, one by one or in other vectors, waits
//! until they are in the cache, for longer than all of this saves (the stencil of `wasm/heat`,
//! which adds to three neighbours in each iteration, took a third longer). So an iteration has to
//! go on by vectors, and leave alone the parts of what another one loads as one.

use crate::map::HashMap;
use crate::pure::is_pure;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Value};
use cranelift_entity::SecondaryMap;

use crate::marks::is_tape;
use crate::simplify_cfg::resolve_aliases;
pub use crate::slp::region::SlpInput;
use crate::slp::region::{SlpAccess, SlpRegion, is_seed};
use crate::vectorise::affine_loop::{self, Loop, Steps};
use crate::vectorise::body::accessed;

mod address;
mod bundles;
mod emit;
mod order;
mod region;

use address::Address;
use bundles::Bundles;
use order::Order;

/// Instructions between two effects beyond which the pass does not look.
const MOST: usize = 1000;
/// Accesses among them, each of which is compared with each.
const MOST_ACCESSES: usize = 200;

/// What became of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlpLoop {
    /// The loop's header.
    pub header: ir::Block,
    /// Stores that others do as well.
    pub stores: usize,
}

/// What became of the reverse of a loop, as a sentence.
pub fn told(stores: usize) -> String {
    let fewer = if stores == 1 { "one store" } else { &*format!("{stores} stores") };
    format!("the reverse of its loop stores to neighbours at once ({fewer} fewer)")
}

/// Do at once what can be, in all loops.
pub fn slp(func: &mut ir::Function, how: SlpInput<'_>) -> Vec<SlpLoop> {
    let seeds = |func: &ir::Function, b| func.layout.block_insts(b).filter(|&i| is_seed(func, &how, i)).count();
    let mut loops = affine_loop::loops(func);
    loops.retain(|l| l.blocks.iter().any(|&b| seeds(func, b) > 1));
    if loops.is_empty() {
        return Vec::new();
    }
    resolve_aliases(func);
    let mut uses = uses(func);
    let mut looked = Vec::new();
    for l in loops {
        let in_block = |&b: &ir::Block| if seeds(func, b) > 1 { in_block(func, how, &l, b, &mut uses) } else { 0 };
        let stores = l.blocks.iter().map(in_block).sum();
        if stores > 0 {
            looked.push(SlpLoop { header: l.blocks[0], stores });
        }
    }
    looked
}

/// How often values are read.
fn uses(func: &ir::Function) -> SecondaryMap<Value, u32> {
    let mut uses = SecondaryMap::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        func.dfg.inst_values(inst).for_each(|v| uses[v] += 1);
    }
    uses
}

fn in_block(
    func: &mut ir::Function,
    how: SlpInput<'_>,
    l: &Loop,
    block: ir::Block,
    uses: &mut SecondaryMap<Value, u32>,
) -> usize {
    let mut regions: Vec<Vec<ir::Inst>> = vec![Vec::new()];
    for inst in func.layout.block_insts(block) {
        match is_movable(func, inst) {
            true => regions.last_mut().expect("there is one").push(inst),
            false => regions.push(Vec::new()),
        }
    }
    let mut saved = 0;
    for insts in regions {
        let seeds = insts.iter().filter(|&&i| is_seed(func, &how, i)).count();
        if !(2..=MOST_ACCESSES).contains(&seeds) || insts.len() > MOST {
            continue;
        }
        let region = SlpRegion::new(func, how, l, insts);
        if region.accesses.len() > MOST_ACCESSES {
            continue;
        }
        if let Some((chosen, order)) = Bundles::of(&region, uses).chosen() {
            saved += chosen.stores();
            let SlpRegion { insts, .. } = region;
            emit::emit(func, block, &insts, &chosen, &order);
        }
    }
    saved
}

/// Whether an instruction may stand elsewhere between two effects.
fn is_movable(func: &ir::Function, inst: ir::Inst) -> bool {
    let data = &func.dfg.insts[inst];
    match data {
        InstructionData::Load { .. } | InstructionData::Store { .. } => true,
        _ => is_pure(data.opcode()) || data.opcode() == Opcode::StackAddr,
    }
}

impl<'a> SlpRegion<'a> {
    fn new(func: &'a ir::Function, how: SlpInput<'a>, l: &Loop, insts: Vec<ir::Inst>) -> Self {
        let mut defined = HashMap::default();
        let (mut accesses, mut found) = (HashMap::default(), HashMap::default());
        let mut steps = Steps::new(func, l);
        for (i, &inst) in (0..).zip(&insts) {
            defined.extend(func.dfg.inst_results(inst).iter().map(|&v| (v, i)));
            let (arg, offset, stores) = match func.dfg.insts[inst] {
                InstructionData::Load { arg, offset, .. } => (arg, offset, false),
                InstructionData::Store { args, offset, .. } => (args[1], offset, true),
                _ => continue,
            };
            let tape = func.dfg.insts[inst].memflags().is_some_and(|f| is_tape(func, func.dfg.mem_flags[f]));
            let shadow = how.shadows.contains(inst);
            if let Some(step) = steps.as_mut().filter(|_| shadow && !stores).and_then(|s| s.step_at(arg)) {
                found.insert(i, step);
            }
            let address = Address::of(func, arg, i64::from(i32::from(offset)));
            // Some access less than they are wide.
            let bytes = accessed(func, inst).bytes();
            accesses.insert(i, SlpAccess { address, bytes, stores, tape, shadow });
        }
        Self { func, how, insts, defined, accesses, steps: found }
    }

    /// Whether two accesses may touch the same bytes.
    fn meet(&self, i: u32, j: u32) -> bool {
        let (a, b) = (&self.accesses[&i], &self.accesses[&j]);
        let inst = |k: u32| self.insts[k as usize];
        let kinds = a.tape != b.tape || a.shadow != b.shadow;
        let places = || a.shadow && a.address.wide == b.address.wide && (self.how.apart)(inst(i), inst(j));
        let known = || a.address.to(&b.address).is_some_and(|d| d.apart(a.bytes, b.bytes));
        !(kinds || known() || places())
    }

    /// What must come behind what.
    fn order(&self) -> Order {
        let mut order = Order::new(self.insts.len());
        for (i, &inst) in (0..).zip(&self.insts) {
            for v in self.func.dfg.inst_values(inst) {
                if let Some(&from) = self.defined.get(&v) {
                    order.behind(from, i);
                }
            }
        }
        let mut all: Vec<(u32, bool)> = self.accesses.iter().map(|(&i, a)| (i, a.stores)).collect();
        all.sort_unstable();
        for (k, &(j, stores)) in all.iter().enumerate() {
            for &(i, _) in all[..k].iter().filter(|a| stores || a.1) {
                if self.meet(i, j) {
                    order.behind(i, j);
                }
            }
        }
        order
    }
}
