//! Dead-argument elimination: segments that no code asks for.
//!
//! **Problem.** A function of both halves is handed the tape segment, and hands it on to those that
//! it calls. Many never use it: they record nothing, and have no stack slot or data object with a
//! shadow. A recursive one keeps it all the same, in a register that it must save first, to give it
//! to itself.
//!
//! **Answer.** When all functions are there: a function asks for its segment if it does anything
//! with it but pass it on as such, or passes it on to one that asks. All others lose the parameter,
//! and their calls the argument.
//!
//! **Invariant.** What is asked for itself keeps its parameters: its callers know them from the
//! request. So does what is called through a pointer, which forward mode does.
//!
//! ```text
//! function %f(f64, i64) -> f64 {        function %f(f64) -> f64 {
//!     v3 = call %f(v2, v1)        ⟶         v3 = call %f(v2)
//! ```
//!
//! **Cost.** Two walks over each function, and a fixed point over those that pass a segment on.
//!
//! **Source.** Dead-argument elimination of LLVM.

use brolga_analysis::{ParamMode, Variant};
use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::names::Names;
use brolga_ir::program::symbol_of;
use cranelift_codegen::ir::{self, InstructionData};

use crate::derived::{DerivedCombined, DerivedPair};

/// Where a combined function has its segment: after the primal's parameters and their deltas.
pub(crate) fn position(variant: &Variant) -> usize {
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

/// Drop segments that no code asks for. `root` is not a callee, and those that are `captured` are
/// called through pointers.
pub(crate) fn forget(
    root: Option<&mut DerivedCombined>,
    joint: &mut [DerivedCombined],
    pairs: &mut [DerivedPair],
    captured: &HashSet<&str>,
    names: &Names,
) {
    let direct = joint.iter().filter(|w| !captured.contains(w.symbol.as_str()));
    let places: HashMap<String, usize> = direct.map(|w| (w.symbol.clone(), position(&w.variant))).collect();
    if places.is_empty() {
        return;
    }
    let conducts: Vec<Conduct> = joint.iter().map(|w| conduct(w, &places, names)).collect();
    let mut asks: HashSet<&str> = HashSet::default();
    loop {
        let before = asks.len();
        for (symbol, c) in joint.iter().map(|w| w.symbol.as_str()).zip(&conducts) {
            if c.uses || c.passes.iter().any(|p| asks.contains(p.2.as_str())) {
                asks.insert(symbol);
            }
        }
        if asks.len() == before {
            break;
        }
    }
    let asks: HashSet<String> = asks.into_iter().map(str::to_owned).collect();
    let idle: HashMap<String, usize> =
        places.iter().filter(|p| !asks.contains(p.0)).map(|(s, &k)| (s.clone(), k)).collect();
    for w in joint.iter_mut() {
        drop_arguments(&mut w.func, &idle, names);
        if let Some(&k) = idle.get(&w.symbol) {
            w.segment = false;
            drop_parameter(&mut w.func, k);
        }
    }
    if let Some(root) = root {
        let passes = conduct(root, &places, names);
        root.segment &= passes.uses || passes.passes.iter().any(|p| asks.contains(&p.2));
        drop_arguments(&mut root.func, &idle, names);
    }
    for pair in pairs {
        drop_arguments(&mut pair.forward, &idle, names);
        drop_arguments(&mut pair.pullback, &idle, names);
    }
}

fn conduct(w: &DerivedCombined, places: &HashMap<String, usize>, names: &Names) -> Conduct {
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

/// The symbol of what an instruction calls, if it calls something directly.
pub(crate) fn callee(func: &ir::Function, inst: ir::Inst, names: &Names) -> Option<String> {
    let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
    let spelled = symbol_of(func, &func.dfg.ext_funcs[func_ref].name);
    Some(names.symbol(&spelled).map_or(spelled.clone(), str::to_owned))
}

/// Drop a parameter that is not used.
fn drop_parameter(func: &mut ir::Function, k: usize) {
    let entry = func.layout.entry_block().expect("a function has a body");
    let segment = func.dfg.block_params(entry)[k];
    func.dfg.remove_block_param(segment);
    func.signature.params.remove(k);
}

/// Drop the arguments of calls to these functions at these places.
fn drop_arguments(func: &mut ir::Function, idle: &HashMap<String, usize>, names: &Names) {
    let mut refs: HashMap<ir::FuncRef, usize> = HashMap::default();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect::<Vec<_>>() {
        let Some(&k) = callee(func, inst, names).and_then(|symbol| idle.get(&symbol)) else { continue };
        let InstructionData::Call { func_ref, mut args, .. } = func.dfg.insts[inst] else { unreachable!("it calls") };
        refs.insert(func_ref, k);
        args.remove(k, &mut func.dfg.value_lists);
        let InstructionData::Call { args: of, .. } = &mut func.dfg.insts[inst] else { unreachable!("it calls") };
        *of = args;
    }
    let mut refs: Vec<(ir::FuncRef, usize)> = refs.into_iter().collect();
    refs.sort_unstable();
    for (r, k) in refs {
        // Others may have the same signature.
        let mut sig = func.dfg.signatures[func.dfg.ext_funcs[r].signature].clone();
        sig.params.remove(k);
        func.dfg.ext_funcs[r].signature = func.import_signature(sig);
    }
}
