//! The gradient of an expression, as Brolga derives it.
//!
//! **Question.** What does `x += e(y)` hand to the cotangent of `y`?
//! **Answer.** The expression becomes a function of its leaves, and its gradient is derived with
//! the rules, guards and conventions of all derivatives ([`brolga_transform::embed()`]). If what
//! comes out has no branch, its instructions are copied to where they are needed; otherwise it is
//! called.
//!
//! **Cost.** One derivation for each expression that is different.

use std::collections::HashMap;

use brolga_ir::spec::{ParamActivity, ReturnActivity, Spec};
use brolga_ir::{Options, Pass, PassSet, Program};
use brolga_transform::embed::{ParamRole, ResultRole, embed};
use cranelift_codegen::ir::instructions::InstructionMapper;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Opcode, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::abi::{import, signature};
use super::context::{ClifFunction, ExprGradient, empty};
use super::expr::{Leaf, Maker, parts_of};
use super::state::{StmtLowering, cotangents};
use crate::ast::{Expr, ExprKind};
use crate::layout::Scalar;

/// Passes that make few instructions more, in several blocks or lanes.
const LEFT_OUT: PassSet =
    PassSet::of(&[Pass::VersionGuards, Pass::Vectorise, Pass::PartialSums, Pass::Promote, Pass::SlpDivisions]);

/// The cotangents of an expression's leaves; none for those that have none. The seeds are the
/// cotangents of a place of type `ty` that it was added to.
pub(super) fn gradient(
    body: &mut StmtLowering<'_, '_>,
    e: &Expr,
    ty: Scalar,
    leaves: &[Leaf],
    seeds: &[Value],
) -> Result<Vec<Vec<Value>>, String> {
    if !leaves.iter().any(|l| l.ty.is_active()) {
        return Ok(vec![vec![]; leaves.len()]);
    }
    // What is copied hands on what it gets.
    if let (ExprKind::Read(_), [leaf]) = (&e.kind, leaves)
        && leaf.ty == ty
    {
        return Ok(vec![seeds.to_vec()]);
    }
    let derived = derived(body, e, ty, leaves)?;
    let parts: Vec<Value> = leaves.iter().flat_map(|l| l.parts.iter().copied()).collect();
    // More results than registers hold are stored, to a struct.
    let layout = derived.signature.layout.as_ref();
    let is_called = straight(&derived.func).is_none();
    let room = layout.map(|l| match is_called {
        true => super::abi::slot(&mut body.b, l.size),
        // It stands for the struct: stores to it are left out.
        false => body.b.ins().iconst(ir::types::I64, 0),
    });
    let args: Vec<Value> = derived
        .signature
        .params
        .iter()
        .map(|role| match (*role, room) {
            (ParamRole::Primal(i), _) => Ok(parts[i]),
            (ParamRole::Seed(i), _) => Ok(seeds[i]),
            (ParamRole::Results, Some(room)) => Ok(room),
            (other, _) => Err(format!("its gradient takes {other:?}")),
        })
        .collect::<Result<_, _>>()?;
    let results = spliced(&mut body.b, &derived.func, &args, room);
    let mut by_part: HashMap<usize, Value> = HashMap::new();
    for (k, role) in derived.signature.results.iter().enumerate() {
        let ResultRole::Cotangent(i) = *role else { continue };
        let v = match (&results, layout, room) {
            (SpliceResult::Returned(all), None, _) => all[k],
            (SpliceResult::Stored(all), Some(l), _) => {
                *all.get(&(l.offsets[k] as i32)).ok_or("a result is not stored where it is to be")?
            }
            (_, Some(l), Some(room)) => {
                body.b.ins().load(derived.signature.types[k], MemFlagsData::new(), room, l.offsets[k] as i32)
            }
            _ => return Err("its results are not there".to_owned()),
        };
        by_part.insert(i, v);
    }
    let mut at = 0;
    let mut found = Vec::new();
    for leaf in leaves {
        let n = leaf.parts.len();
        let all: Vec<Value> = (at..at + n).filter_map(|i| by_part.get(&i).copied()).collect();
        at += n;
        debug_assert!(all.is_empty() || all.len() == cotangents(leaf.ty).len());
        found.push(all);
    }
    Ok(found)
}

/// The gradient of an expression as a function.
fn derived(body: &StmtLowering<'_, '_>, e: &Expr, ty: Scalar, leaves: &[Leaf]) -> Result<ExprGradient, String> {
    let types: Vec<&str> = leaves.iter().map(|l| l.ty.name()).collect();
    let key = format!("{} {types:?} {e}", ty.name());
    if let Some(known) = body.cx.gradients.borrow().known.get(&key) {
        return Ok(known.clone());
    }
    let number = body.cx.gradients.borrow().known.len();
    let symbol = format!("brolga_reversible__e{number}");
    let (func, params) = as_function(body, &symbol, e, ty, leaves);
    let returns = vec![ReturnActivity::ActiveOnly; func.signature.returns.len()];
    let mut program = Program::new();
    let key_of = program.define(&symbol, func, |_| 0).map_err(|s| format!("`%{s}` is there twice"))?;
    let spec = Spec::gradient(params).results(returns);
    let options = Options { disabled: LEFT_OUT, under_root: body.cx.takes_roots, ..Options::default() };
    let found = embed(&program, key_of, &spec, &options, &*body.cx.isa).map_err(|d| d.to_string())?;
    let signature = found.signatures.into_iter().next().ok_or("nothing was derived")?;
    let mut functions = found.functions.into_iter();
    let func = functions.next().ok_or("nothing was derived")?.func;
    let mut all = body.cx.gradients.borrow_mut();
    let line = e.at.line;
    let called = || Some(format!("the gradient of an expression of {}", body.name));
    for f in functions {
        all.functions.push(ClifFunction { symbol: f.symbol, func: f.func, line, called: called() });
    }
    if straight(&func).is_none() {
        let symbol = brolga_ir::program::symbol_of_func(&func.name);
        all.functions.push(ClifFunction { symbol, func: func.clone(), line, called: called() });
    }
    let derived = ExprGradient { func, signature };
    all.known.insert(key, derived.clone());
    Ok(derived)
}

/// The expression as a function of its leaves' parts, and which of these have cotangents.
fn as_function(
    body: &StmtLowering<'_, '_>,
    symbol: &str,
    e: &Expr,
    ty: Scalar,
    leaves: &[Leaf],
) -> (ir::Function, Vec<ParamActivity>) {
    let params: Vec<ir::Type> = leaves.iter().flat_map(|l| parts_of(l.ty).iter().copied()).collect();
    let of = |l: &Leaf| {
        let is_active = l.ty.is_active();
        parts_of(l.ty).iter().map(move |t| match t.is_float() && is_active {
            true => ParamActivity::Active,
            false => ParamActivity::Const,
        })
    };
    let activities = leaves.iter().flat_map(of).collect();
    // A real number that is added to a complex one has one part.
    let real = ty == Scalar::Complex && body.scope.expr(e, Some(ty)).is_ok_and(|found| found == Scalar::F64);
    let returns = if real { &cotangents(ty)[..1] } else { cotangents(ty) };
    let mut func = empty(symbol, signature(&params, returns));
    let mut fcx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut fcx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let given = b.block_params(block).to_vec();
    let mut rest = &given[..];
    let mut local_leaves = Vec::new();
    for l in leaves {
        let (parts, others) = rest.split_at(parts_of(l.ty).len());
        local_leaves.push(Leaf { parts: parts.to_vec(), ..l.clone() });
        rest = others;
    }
    let mut maker = Maker { b: &mut b, scope: &body.scope, leaves: &local_leaves, undefined: None };
    let results = maker.for_place(e, ty);
    b.ins().return_(&results);
    b.finalize(body.cx.isa.frontend_config());
    (func, activities)
}

/// What a copy of a function gives.
enum SpliceResult {
    /// Results that it returns.
    Returned(Vec<Value>),
    /// Results that it would store, by their places.
    Stored(HashMap<i32, Value>),
}

/// A function without branches.
#[derive(Default)]
struct StraightCode {
    insts: Vec<ir::Inst>,
    /// Parameters of its blocks, and what they are.
    given: Vec<(Value, Value)>,
}

/// The instructions of a function, if it has no branches.
fn straight(func: &ir::Function) -> Option<StraightCode> {
    let StraightCode { mut insts, mut given } = StraightCode::default();
    let mut block = func.layout.entry_block()?;
    // A block that comes twice is a loop.
    for _ in func.layout.blocks() {
        insts.extend(func.layout.block_insts(block));
        let last = *insts.last()?;
        let data = &func.dfg.insts[last];
        match (data.opcode(), data.branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables)) {
            (Opcode::Return, _) => return Some(StraightCode { insts, given }),
            (Opcode::Jump, [to]) => {
                insts.pop();
                block = to.block(&func.dfg.value_lists);
                let args = to.args(&func.dfg.value_lists).filter_map(|a| a.as_value());
                given.extend(func.dfg.block_params(block).iter().copied().zip(args));
            }
            _ => return None,
        }
    }
    None
}

/// A call of a function, by a copy of its instructions if it has no branches. What it stores to
/// `room` is not stored then.
fn spliced(b: &mut FunctionBuilder<'_>, func: &ir::Function, args: &[Value], room: Option<Value>) -> SpliceResult {
    let Some(StraightCode { insts, given }) = straight(func) else {
        let symbol = brolga_ir::program::symbol_of_func(&func.name);
        let params: Vec<ir::Type> = func.signature.params.iter().map(|p| p.value_type).collect();
        let returns: Vec<ir::Type> = func.signature.returns.iter().map(|p| p.value_type).collect();
        return SpliceResult::Returned(super::abi::call_symbol(b, &symbol, &params, &returns, args));
    };
    let entry = func.layout.entry_block().expect("it has a block");
    let mut values: HashMap<Value, Value> = HashMap::new();
    values.extend(func.dfg.block_params(entry).iter().copied().zip(args.iter().copied()));
    let mut given = given.into_iter().peekable();
    let mut stored = HashMap::new();
    for inst in insts {
        while let Some((param, v)) = given.next_if(|(_, v)| values.contains_key(&func.dfg.resolve_aliases(*v))) {
            values.insert(param, values[&func.dfg.resolve_aliases(v)]);
        }
        if func.dfg.insts[inst].opcode() == Opcode::Return {
            let found = func.dfg.inst_args(inst).iter();
            let found = found.map(|&v| values[&func.dfg.resolve_aliases(v)]).collect();
            return if room.is_some() { SpliceResult::Stored(stored) } else { SpliceResult::Returned(found) };
        }
        if let ir::InstructionData::Store { opcode: Opcode::Store, args: [v, at], offset, .. } = func.dfg.insts[inst]
            && room.is_some_and(|room| values[&func.dfg.resolve_aliases(at)] == room)
        {
            stored.insert(offset.into(), values[&func.dfg.resolve_aliases(v)]);
            continue;
        }
        copy(b, func, inst, &mut values);
    }
    unreachable!("it returns")
}

/// A copy of an instruction, of values that are there.
fn copy(b: &mut FunctionBuilder<'_>, func: &ir::Function, inst: ir::Inst, values: &mut HashMap<Value, Value>) {
    let data = func.dfg.insts[inst].map(Copier { from: func, b, values });
    let loc = b.srcloc();
    let ctrl = func.dfg.ctrl_typevar(inst);
    let dfg = &mut b.func.dfg;
    let copy = dfg.make_inst(data);
    dfg.make_inst_results(copy, ctrl);
    let block = b.current_block().expect("there is one");
    b.ensure_inserted_block();
    b.func.layout.append_inst(copy, block);
    b.func.set_srcloc(copy, loc);
    for (&old, &new) in func.dfg.inst_results(inst).iter().zip(b.func.dfg.inst_results(copy)) {
        values.insert(old, new);
    }
}

/// Maps what an instruction of one function names to another function.
struct Copier<'c, 'b> {
    from: &'c ir::Function,
    b: &'c mut FunctionBuilder<'b>,
    values: &'c HashMap<Value, Value>,
}

impl InstructionMapper for Copier<'_, '_> {
    fn map_value(&mut self, value: Value) -> Value {
        self.values[&self.from.dfg.resolve_aliases(value)]
    }

    fn map_value_list(&mut self, list: ir::ValueList) -> ir::ValueList {
        let all: Vec<Value> = list.as_slice(&self.from.dfg.value_lists).to_vec();
        let all: Vec<Value> = all.into_iter().map(|v| self.map_value(v)).collect();
        ir::ValueList::from_slice(&all, &mut self.b.func.dfg.value_lists)
    }

    fn map_func_ref(&mut self, func_ref: ir::FuncRef) -> ir::FuncRef {
        let ext = &self.from.dfg.ext_funcs[func_ref];
        let symbol = brolga_ir::program::symbol_of(self.from, &ext.name);
        let sig = &self.from.dfg.signatures[ext.signature];
        let params: Vec<ir::Type> = sig.params.iter().map(|p| p.value_type).collect();
        let returns: Vec<ir::Type> = sig.returns.iter().map(|p| p.value_type).collect();
        import(self.b, &symbol, &params, &returns)
    }

    fn map_constant(&mut self, constant: ir::Constant) -> ir::Constant {
        let data = self.from.dfg.constants.get(constant).clone();
        self.b.func.dfg.constants.insert(data)
    }

    fn map_immediate(&mut self, immediate: ir::Immediate) -> ir::Immediate {
        let data = self.from.dfg.immediates[immediate].clone();
        self.b.func.dfg.immediates.push(data)
    }

    fn map_mem_flags(&mut self, flags: ir::MemFlags) -> ir::MemFlags {
        let data = self.from.dfg.mem_flags[flags].with_alias_region(None);
        self.b.func.dfg.mem_flags.insert_unchecked(data)
    }

    fn map_global_value(&mut self, _: ir::GlobalValue) -> ir::GlobalValue {
        unreachable!("an expression names no data")
    }

    fn map_jump_table(&mut self, _: ir::JumpTable) -> ir::JumpTable {
        unreachable!("it has one block")
    }

    fn map_exception_table(&mut self, _: ir::ExceptionTable) -> ir::ExceptionTable {
        unreachable!("it has one block")
    }

    fn map_block_call(&mut self, _: ir::BlockCall) -> ir::BlockCall {
        unreachable!("it has one block")
    }

    fn map_block(&mut self, _: ir::Block) -> ir::Block {
        unreachable!("it has one block")
    }

    fn map_sig_ref(&mut self, _: ir::SigRef) -> ir::SigRef {
        unreachable!("an expression calls no address")
    }

    fn map_stack_slot(&mut self, slot: ir::StackSlot) -> ir::StackSlot {
        let data = self.from.sized_stack_slots[slot].clone();
        self.b.func.create_sized_stack_slot(data)
    }

    fn map_dynamic_stack_slot(&mut self, _: ir::DynamicStackSlot) -> ir::DynamicStackSlot {
        unreachable!("an expression has no vector of unknown length")
    }
}
