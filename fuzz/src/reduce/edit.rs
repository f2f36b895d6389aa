//! The edits, and cleaning up after them.
//!
//! **Question.** Which changes make a program smaller and leave it valid?
//!
//! **Answer.** A function of a program and a number for each kind of edit: the n-th place where it
//! can be done, if there is one. Zeros take the place of what is removed.
//!
//! **Cost.** A copy of the program for each edit.

use std::collections::HashSet;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, ExternalName, FuncRef, Function, Inst, InstBuilder, InstructionData, Opcode, Type,
    UserFuncName, Value, ValueList, types,
};

use super::program::ReducibleProgram;

/// The `n`th of all items, counted through the functions.
fn nth<T>(program: &ReducibleProgram, n: usize, items: impl Fn(&Function) -> Vec<T>) -> Option<(usize, T)> {
    let mut all = program.functions.iter().enumerate().flat_map(|(i, f)| items(f).into_iter().map(move |t| (i, t)));
    all.nth(n)
}

fn insts(f: &Function) -> Vec<Inst> {
    f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).collect()
}

pub(super) fn drop_function(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let mut p = p.clone();
    (n + 1 < p.functions.len()).then(|| p.functions.remove(n + 1))?;
    Some(p)
}

/// A terminator with several ways becomes one with fewer.
pub(super) fn simplify_terminator(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let ways = |f: &Function| -> Vec<(Inst, Option<usize>)> {
        let last = f.layout.blocks().filter_map(|b| f.layout.last_inst(b));
        let ways = last.flat_map(|i| {
            let dests = f.dfg.insts[i].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables).len();
            let jumps = (0..dests).filter(move |_| dests > 1).map(move |d| (i, Some(d)));
            let returns = (dests > 0).then_some((i, None));
            returns.into_iter().chain(jumps)
        });
        ways.collect()
    };
    let (index, (inst, way)) = nth(p, n, ways)?;
    let mut p = p.clone();
    let f = &mut p.functions[index];
    match way {
        Some(d) => {
            let call = f.dfg.insts[inst].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables)[d];
            f.dfg.insts[inst] = InstructionData::Jump { opcode: Opcode::Jump, destination: call };
        }
        None => {
            let types: Vec<Type> = f.signature.returns.iter().map(|r| r.value_type).collect();
            let zeros: Vec<Value> = types.into_iter().map(|ty| zero_before(f, inst, ty)).collect::<Option<_>>()?;
            let args = ValueList::from_iter(zeros, &mut f.dfg.value_lists);
            f.dfg.insts[inst] = InstructionData::MultiAry { opcode: Opcode::Return, args };
        }
    }
    Some(p)
}

/// Remove `length` instructions in a row.
pub(super) fn remove_run(p: &ReducibleProgram, n: usize, length: usize) -> Option<ReducibleProgram> {
    let body = |f: &Function| -> Vec<Vec<Inst>> {
        let removable: Vec<Inst> = insts(f).into_iter().filter(|&i| !f.dfg.insts[i].opcode().is_terminator()).collect();
        removable.chunks(length).map(<[Inst]>::to_vec).collect()
    };
    let (index, run) = nth(p, n, body)?;
    let mut p = p.clone();
    let f = &mut p.functions[index];
    for inst in run {
        // A constant stays what it is, unless it is not used.
        if is_constant(f, inst) && length == 1 {
            return Some(p);
        }
        remove(f, inst)?;
    }
    Some(p)
}

/// Remove an instruction; zeros take the place of its results.
fn remove(f: &mut Function, inst: Inst) -> Option<()> {
    for result in f.dfg.inst_results(inst).to_vec() {
        let zero = zero_before(f, inst, f.dfg.value_type(result))?;
        substitute(f, result, zero);
    }
    f.layout.remove_inst(inst);
    Some(())
}

fn is_constant(f: &Function, inst: Inst) -> bool {
    matches!(f.dfg.insts[inst].opcode(), Opcode::Iconst | Opcode::F64const | Opcode::F32const)
}

/// The zero of a type, made before `inst`.
pub(super) fn zero_before(f: &mut Function, inst: Inst, ty: Type) -> Option<Value> {
    let mut at = FuncCursor::new(f).at_inst(inst);
    Some(match ty {
        types::F64 => at.ins().f64const(0.0),
        types::F32 => at.ins().f32const(0.0),
        types::I8 | types::I16 | types::I32 | types::I64 => at.ins().iconst(ty, 0),
        types::I128 => {
            let half = at.ins().iconst(types::I64, 0);
            at.ins().iconcat(half, half)
        }
        ty if ty.is_vector() && ty.lane_type() != ty => {
            let lane = match ty.lane_type() {
                types::F64 => at.ins().f64const(0.0),
                types::F32 => at.ins().f32const(0.0),
                lane => at.ins().iconst(lane, 0),
            };
            at.ins().splat(ty, lane)
        }
        _ => return None,
    })
}

/// Use `new` wherever `old` is used.
pub(super) fn substitute(f: &mut Function, old: Value, new: Value) {
    for inst in insts(f) {
        f.dfg.map_inst_values(inst, |v| if v == old { new } else { v });
    }
}

/// An operand instead of the result.
pub(super) fn forward_operand(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let pairs = |f: &Function| -> Vec<(Inst, Value)> {
        let mut out = Vec::new();
        for inst in insts(f) {
            let [result] = f.dfg.inst_results(inst) else { continue };
            let ty = f.dfg.value_type(*result);
            for &v in f.dfg.inst_args(inst) {
                if f.dfg.value_type(v) == ty && !out.contains(&(inst, v)) {
                    out.push((inst, v));
                }
            }
        }
        out
    };
    let (index, (inst, operand)) = nth(p, n, pairs)?;
    let mut p = p.clone();
    let f = &mut p.functions[index];
    let result = f.dfg.first_result(inst);
    substitute(f, result, operand);
    f.layout.remove_inst(inst);
    Some(p)
}

/// A parameter of a block becomes zero, or what is passed from the only place that does not pass it
/// on.
pub(super) fn drop_block_param(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let params = |f: &Function| -> Vec<(Block, usize)> {
        let inner = f.layout.blocks().skip(1);
        inner.flat_map(|b| (0..f.dfg.block_params(b).len()).map(move |i| (b, i))).collect()
    };
    let (index, (block, i)) = nth(p, n, params)?;
    let mut p = p.clone();
    let f = &mut p.functions[index];
    let param = f.dfg.block_params(block)[i];
    let ty = f.dfg.value_type(param);
    let first = f.layout.first_inst(f.layout.entry_block()?)?;
    let zero = zero_before(f, first, ty)?;
    substitute(f, param, zero);
    remove_block_param(f, block, i);
    Some(p)
}

fn remove_block_param(f: &mut Function, block: Block, i: usize) {
    let param = f.dfg.block_params(block)[i];
    f.dfg.remove_block_param(param);
    for inst in insts(f) {
        for_each_branch(f, inst, |call, f| {
            if call.block(&f.dfg.value_lists) != block {
                return call;
            }
            let args: Vec<BlockArg> =
                call.args(&f.dfg.value_lists).enumerate().filter(|(j, _)| *j != i).map(|(_, a)| a).collect();
            f.dfg.block_call(block, args.iter())
        });
    }
}

/// Replace each way out of an instruction.
fn for_each_branch(f: &mut Function, inst: Inst, edit: impl Fn(BlockCall, &mut Function) -> BlockCall) {
    let n = f.dfg.insts[inst].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables).len();
    for k in 0..n {
        let call = f.dfg.insts[inst].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables)[k];
        let new = edit(call, f);
        let dfg = &mut f.dfg;
        dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables)[k] = new;
    }
}

/// A parameter of a helper that is called directly becomes zero.
pub(super) fn drop_function_param(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let mut all =
        p.functions.iter().enumerate().skip(1).flat_map(|(k, f)| (0..f.signature.params.len()).map(move |i| (k, i)));
    let (index, i) = all.nth(n)?;
    let mut p = p.clone();
    let name = p.functions[index].name.clone();
    drop_entry_param(&mut p.functions[index], i)?;
    for f in &mut p.functions {
        let Some(callee) = reference(f, &name) else { continue };
        let signature = f.dfg.ext_funcs[callee].signature;
        let users = f.dfg.ext_funcs.values().filter(|e| e.signature == signature).count();
        if users > 1 {
            // A signature of its own.
            let own = f.dfg.signatures[signature].clone();
            f.dfg.ext_funcs[callee].signature = f.dfg.signatures.push(own);
        }
        let signature = f.dfg.ext_funcs[callee].signature;
        f.dfg.signatures[signature].params.remove(i);
        for inst in insts(f) {
            if f.dfg.insts[inst].opcode() == Opcode::FuncAddr && mentions(f, inst, callee) {
                return Some(p);
            }
            if matches!(f.dfg.insts[inst].opcode(), Opcode::Call | Opcode::ReturnCall) && mentions(f, inst, callee) {
                let mut args = f.dfg.inst_args(inst).to_vec();
                args.remove(i);
                let list = ValueList::from_iter(args, &mut f.dfg.value_lists);
                let opcode = f.dfg.insts[inst].opcode();
                f.dfg.insts[inst] = InstructionData::Call { opcode, func_ref: callee, args: list };
            }
        }
    }
    Some(p)
}

/// A parameter of a function becomes zero.
pub(super) fn drop_entry_param(f: &mut Function, i: usize) -> Option<()> {
    let entry = f.layout.entry_block()?;
    let param = f.dfg.block_params(entry)[i];
    let ty = f.dfg.value_type(param);
    let first = f.layout.first_inst(entry)?;
    let zero = zero_before(f, first, ty)?;
    substitute(f, param, zero);
    f.dfg.remove_block_param(param);
    f.signature.params.remove(i);
    Some(())
}

fn mentions(f: &Function, inst: Inst, callee: FuncRef) -> bool {
    match f.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } | InstructionData::FuncAddr { func_ref, .. } => func_ref == callee,
        _ => false,
    }
}

fn reference(f: &Function, name: &UserFuncName) -> Option<FuncRef> {
    let UserFuncName::Testcase(name) = name else { return None };
    f.dfg.ext_funcs.iter().find(|(_, e)| e.name == ExternalName::TestCase(name.clone())).map(|(r, _)| r)
}

/// A block that has one predecessor, which goes nowhere else, becomes the end of it.
pub(super) fn append_block(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    let jumps = |f: &Function| -> Vec<(Inst, BlockCall)> {
        let last = f.layout.blocks().filter_map(|b| f.layout.last_inst(b));
        let jumps = last.filter_map(|i| match f.dfg.insts[i] {
            InstructionData::Jump { destination, .. } => Some((i, destination)),
            _ => None,
        });
        jumps.filter(|(_, d)| predecessors(f, d.block(&f.dfg.value_lists)) == 1).collect()
    };
    let (index, (inst, call)) = nth(p, n, jumps)?;
    let mut p = p.clone();
    let f = &mut p.functions[index];
    let block = call.block(&f.dfg.value_lists);
    let into = f.layout.inst_block(inst)?;
    if into == block {
        return Some(p);
    }
    let args: Vec<Value> = call.args(&f.dfg.value_lists).filter_map(|a| a.as_value()).collect();
    let params = f.dfg.block_params(block).to_vec();
    for (param, arg) in params.into_iter().zip(args) {
        substitute(f, param, arg);
    }
    f.layout.remove_inst(inst);
    for moved in f.layout.block_insts(block).collect::<Vec<_>>() {
        f.layout.remove_inst(moved);
        f.layout.append_inst(moved, into);
    }
    f.layout.remove_block(block);
    Some(p)
}

fn predecessors(f: &Function, block: Block) -> usize {
    let ways = |i: Inst| f.dfg.insts[i].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables).to_vec();
    insts(f).into_iter().flat_map(ways).filter(|d| d.block(&f.dfg.value_lists) == block).count()
}

/// Remove what cannot be reached, what is not used, and functions that are not mentioned.
pub(super) fn clean(p: &mut ReducibleProgram) {
    for f in &mut p.functions {
        let reachable = reachable(f);
        for block in f.layout.blocks().collect::<Vec<_>>() {
            if !reachable.contains(&block) {
                for inst in f.layout.block_insts(block).collect::<Vec<_>>() {
                    f.layout.remove_inst(inst);
                }
                f.layout.remove_block(block);
            }
        }
        while remove_unused(f) {}
    }
    let mentioned: HashSet<ExternalName> = p
        .functions
        .iter()
        .flat_map(|f| {
            insts(f).into_iter().filter_map(|i| match f.dfg.insts[i] {
                InstructionData::Call { func_ref, .. } | InstructionData::FuncAddr { func_ref, .. } => {
                    Some(f.dfg.ext_funcs[func_ref].name.clone())
                }
                _ => None,
            })
        })
        .collect();
    let mut first = true;
    p.functions.retain(|f| {
        let UserFuncName::Testcase(name) = &f.name else { return true };
        std::mem::take(&mut first) || mentioned.contains(&ExternalName::TestCase(name.clone()))
    });
    // What is left of tables of names and slots is left behind by printing and reading.
    for f in &mut p.functions {
        if let Some(fresh) = reread(f) {
            *f = fresh;
        }
    }
}

/// The function with only those declarations that its instructions use.
fn reread(f: &Function) -> Option<Function> {
    let mut used: HashSet<String> = HashSet::new();
    for inst in insts(f) {
        let text = f.dfg.display_inst(inst).to_string();
        used.extend(text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned));
    }
    for (r, e) in f.dfg.ext_funcs.iter() {
        if used.contains(&r.to_string()) {
            used.insert(e.signature.to_string());
        }
    }
    let text = f.display().to_string();
    let kept = text.lines().filter(|l| {
        let name = l.trim_start().split(" = ").next().unwrap_or("");
        let declares = ["sig", "fn", "ss"].iter().any(|p| {
            l.starts_with("    ")
                && name.strip_prefix(p).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        });
        !declares || used.contains(name)
    });
    let text = kept.collect::<Vec<_>>().join("\n");
    let mut functions = cranelift_reader::parse_functions(&text).ok()?;
    (functions.len() == 1).then(|| functions.remove(0))
}

fn reachable(f: &Function) -> HashSet<Block> {
    let mut todo: Vec<Block> = f.layout.entry_block().into_iter().collect();
    let mut seen: HashSet<Block> = todo.iter().copied().collect();
    while let Some(block) = todo.pop() {
        let Some(last) = f.layout.last_inst(block) else { continue };
        for call in f.dfg.insts[last].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables) {
            let to = call.block(&f.dfg.value_lists);
            if seen.insert(to) {
                todo.push(to);
            }
        }
    }
    seen
}

/// Remove instructions and parameters of blocks whose results are not used. Whether there were any.
fn remove_unused(f: &mut Function) -> bool {
    let used: HashSet<Value> = insts(f).into_iter().flat_map(|i| f.dfg.inst_values(i).collect::<Vec<_>>()).collect();
    let mut found = false;
    for inst in insts(f) {
        let op = f.dfg.insts[inst].opcode();
        let effect = op.can_store() || op.can_trap() && !op.can_load() || op.other_side_effects();
        let keeps = effect || op.is_terminator() || op.is_call();
        if !keeps && f.dfg.inst_results(inst).iter().all(|v| !used.contains(v)) {
            f.layout.remove_inst(inst);
            found = true;
        }
    }
    for block in f.layout.blocks().skip(1).collect::<Vec<_>>() {
        for i in (0..f.dfg.block_params(block).len()).rev() {
            if !used.contains(&f.dfg.block_params(block)[i]) {
                remove_block_param(f, block, i);
                found = true;
            }
        }
    }
    found
}
