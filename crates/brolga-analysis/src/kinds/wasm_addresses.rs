//! Address inference for WebAssembly: which integer parameters are places in an instance's memory.
//!
//! **Question.** WebAssembly's pointers are numbers: a place is the instance's address plus a
//! 32-bit integer. A pass that asks of every integer of four bytes that comes from memory whether
//! it is a half of a float asks that of every pointer. Which parameters does a function, or what it
//! calls, use as such a number?
//!
//! **Answer.** Forwards from each parameter of 32 bits, by moves and additions of constants: it is
//! one if it is widened and added to the instance's address, or is an argument for such a
//! parameter. The second is a fixpoint over calls.
//!
//! **Errs** on the side of yes: one use is enough, on whatever path. So it is no proof that a
//! parameter never is a part of a float, only a reason not to expect it: a pass that acts on it has
//! to be right in any case.
//!
//! **Cost.** A parameter's uses are followed once; then a worklist over calls.

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{ArgumentPurpose, Opcode, types};
use cranelift_entity::EntitySet;

use crate::body::Body;
use crate::query::callee::CalleeKind;
use crate::query::constant_int;
use crate::uses::Use;

/// A parameter of a function.
type Param = (FuncKey, usize);

/// Per function: which parameters are used as places; nothing for a program that has no instances.
pub fn compute(program: &Program, bodies: &HashMap<FuncKey, Body<'_>>) -> HashMap<FuncKey, Vec<bool>> {
    let mut found: HashMap<FuncKey, Vec<bool>> = HashMap::default();
    if !program.vmctx_pointers_only {
        return found;
    }
    let mut order: Vec<FuncKey> = bodies.keys().copied().collect();
    order.sort_unstable();
    // For each parameter, those of callees that it is passed to.
    let mut given: HashMap<Param, Vec<Param>> = HashMap::default();
    let mut work: Vec<Param> = Vec::new();
    for &k in &order {
        found.insert(k, vec![false; bodies[&k].func.signature.params.len()]);
        for (i, p) in bodies[&k].func.signature.params.iter().enumerate() {
            if p.value_type == types::I32 {
                let (here, passed) = uses(program, bodies[&k], i);
                work.extend(here.then_some((k, i)));
                passed.into_iter().for_each(|to| given.entry(to).or_default().push((k, i)));
            }
        }
    }
    while let Some((k, i)) = work.pop() {
        let Some(known) = found.get_mut(&k).and_then(|all| all.get_mut(i)) else { continue };
        if !std::mem::replace(known, true) {
            work.extend(given.get(&(k, i)).into_iter().flatten());
        }
    }
    found
}

/// Whether a parameter is used as a place by the function itself, and the parameters that it is
/// passed for.
fn uses(program: &Program, body: Body<'_>, param: usize) -> (bool, Vec<Param>) {
    let Body { func, cfg, uses } = body;
    let formal = func.dfg.block_params(cfg.blocks[0]);
    let instance = func.signature.special_param_index(ArgumentPurpose::VMContext).map(|i| formal[i]);
    let (mut here, mut passed) = (false, Vec::new());
    let (mut seen, mut work) = (EntitySet::new(), vec![formal[param]]);
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        let wide = func.dfg.value_type(v) == types::I64;
        for u in uses.of(v) {
            let (inst, n) = match *u {
                Use::Edge(_, p) => {
                    work.push(p);
                    continue;
                }
                Use::Inst(inst, n) => (inst, n),
            };
            let args = func.dfg.inst_args(inst);
            match func.dfg.insts[inst].opcode() {
                Opcode::Iadd if wide => here |= args.iter().any(|&a| Some(a) == instance),
                Opcode::Iadd if args.iter().any(|&a| constant_int(func, a).is_some()) => {
                    work.push(func.dfg.first_result(inst));
                }
                Opcode::Uextend if func.dfg.value_type(func.dfg.first_result(inst)) == types::I64 => {
                    work.push(func.dfg.first_result(inst));
                }
                Opcode::Select | Opcode::SelectSpectreGuard if n > 0 => work.push(func.dfg.first_result(inst)),
                Opcode::Call => {
                    if let Some(CalleeKind::Derived(f)) = CalleeKind::of(program, func, inst) {
                        passed.push((f, n));
                    }
                }
                _ => {}
            }
        }
    }
    (here, passed)
}
