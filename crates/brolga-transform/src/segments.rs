//! Segments that nobody asks for.
//!
//! **Problem.** A function of both halves is handed the tape segment, and hands it on to those that it calls. Many never use it: they
//! record nothing, and have no stack slot or data object with a shadow. A recursive one keeps it all the same, in a register that it must
//! save first, to give it to itself.
//!
//! **Answer.** When all functions are there: a function asks for its segment if it does anything with it but pass it on as such,
//! or passes it on to one that asks. To all others zero is passed.
//!
//! **Invariant.** Signatures stay as they are, so callers need not know.

use brolga_analysis::{ParamMode, Variant};
use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::names::Names;
use brolga_ir::program::symbol_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, types};

use crate::derive::DerivedWhole;

/// Where a combined function has its segment: behind the primal's parameters and their deltas.
pub fn position(variant: &Variant) -> usize {
    let deltas = variant.params.iter().filter(|p| matches!(p, ParamMode::Dup { .. })).count();
    variant.params.len() + deltas
}

/// What a function does with its segment.
#[derive(Default)]
struct Conduct {
    /// Something of its own.
    uses: bool,
    /// Calls that pass it on, with the place among the callee's arguments.
    passes: Vec<(ir::Inst, usize, String)>,
}

/// Pass zero where nobody asks. `root` is nobody's callee.
pub fn forget(root: Option<&mut DerivedWhole>, wholes: &mut [DerivedWhole], names: &Names) {
    let places: HashMap<String, usize> = wholes.iter().map(|w| (w.symbol.clone(), position(&w.variant))).collect();
    if places.is_empty() {
        return;
    }
    let conducts: Vec<Conduct> = wholes.iter().map(|w| conduct(w, &places, names)).collect();
    let mut asks: HashSet<&str> = HashSet::default();
    loop {
        let before = asks.len();
        for (symbol, c) in wholes.iter().map(|w| w.symbol.as_str()).zip(&conducts) {
            if c.uses || c.passes.iter().any(|p| asks.contains(p.2.as_str())) {
                asks.insert(symbol);
            }
        }
        if asks.len() == before {
            break;
        }
    }
    let asks: HashSet<String> = asks.into_iter().map(str::to_owned).collect();
    for (w, c) in wholes.iter_mut().zip(conducts) {
        pass_zero(w, c, &asks);
    }
    if let Some(root) = root {
        let c = conduct(root, &places, names);
        pass_zero(root, c, &asks);
    }
}

fn conduct(w: &DerivedWhole, places: &HashMap<String, usize>, names: &Names) -> Conduct {
    let func = &w.func;
    let mut found = Conduct::default();
    let entry = func.layout.entry_block().expect("a function has a body");
    let segment = func.dfg.block_params(entry)[position(&w.variant)];
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let times = func.dfg.inst_values(inst).filter(|&v| func.dfg.resolve_aliases(v) == segment).count();
        if times == 0 {
            continue;
        }
        match callee(func, inst, names).and_then(|symbol| Some((*places.get(&symbol)?, symbol))) {
            Some((k, symbol)) if times == 1 && func.dfg.resolve_aliases(func.dfg.inst_args(inst)[k]) == segment => {
                found.passes.push((inst, k, symbol));
            }
            _ => found.uses = true,
        }
    }
    found
}

fn callee(func: &ir::Function, inst: ir::Inst, names: &Names) -> Option<String> {
    let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
    let spelled = symbol_of(func, &func.dfg.ext_funcs[func_ref].name);
    Some(names.symbol(&spelled).map_or(spelled.clone(), str::to_owned))
}

fn pass_zero(w: &mut DerivedWhole, c: Conduct, asks: &HashSet<String>) {
    w.segment &= c.uses || c.passes.iter().any(|p| asks.contains(&p.2));
    for (inst, k, _) in c.passes.into_iter().filter(|p| !asks.contains(&p.2)) {
        let at = w.func.srcloc(inst);
        let mut pos = FuncCursor::new(&mut w.func).at_inst(inst);
        pos.set_srcloc(at);
        let zero = pos.ins().iconst(types::I64, 0);
        w.func.dfg.inst_args_mut(inst)[k] = zero;
    }
}
