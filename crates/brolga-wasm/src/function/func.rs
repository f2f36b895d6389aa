//! Translation of a function body: control flow, locals and calls.
//!
//! **Question.** Wasm is a program for a stack machine, CLIF is in SSA form. How does one become
//! the other?
//!
//! **Answer.** The stack of a validated body is known at every point, so while we translate it
//! holds CLIF values. Each structured block becomes CLIF blocks; what flows to its end are block
//! parameters. Locals are variables of the SSA builder. Code that cannot be reached is skipped,
//! except that blocks are counted.
//!
//! ```text
//! local.get 0   local.get 1   f64.add   local.tee 0   br_if 1 …
//!
//! v4 = fadd v1, v2      ;; stack: v1 v2 -> v4; variable 0 is v4 from here on
//! ```
//!
//! **Cost.** One pass over the operators. A branch copies what it passes, so a `br_table` costs its
//! arms times the values that they pass.
//!
//! **Source.** Wasmtime's translation of Wasm to Cranelift's IR; the SSA construction of
//! `cranelift-frontend`, which is that of Braun et al. (2013).

use std::collections::HashMap;

use brolga::FuncKey;
use brolga::cranelift_codegen::ir::{
    self, Block, BlockArg, InstBuilder, JumpTableData, Signature, SourceLoc, Type, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use wasmparser::{BlockType, FuncType, FunctionBody, Operator};

use super::env::{Env, Helper, HostFunc, TASK, clif_type, dispatcher_signature, host_signature, named};
use crate::error::{Error, trap};

/// What is kept from one function to the next.
#[derive(Default)]
pub(crate) struct Context(pub FunctionBuilderContext);

/// A structured block that is open.
struct ControlFrame {
    /// Where a branch to it goes.
    target: Block,
    /// What follows its `end`.
    end: Block,
    /// What it takes from the stack.
    params: Vec<Type>,
    /// What it leaves on the stack.
    results: Vec<Type>,
    /// Height of the stack below its parameters.
    height: usize,
    kind: FrameKind,
    /// Whether something jumps to `end`.
    reached: bool,
}

enum FrameKind {
    Block,
    Loop,
    /// With the arm for `else` and its parameters, until `else` comes.
    If(Option<(Block, Vec<Value>)>),
    /// A block in code that cannot be reached.
    Dead,
}

/// A function under construction.
pub(crate) struct Fx<'f, 'x, 'e, 'a> {
    pub b: FunctionBuilder<'f>,
    pub env: &'x mut Env<'e, 'a>,
    /// The instance.
    pub vmctx: Value,
    pub stack: Vec<Value>,
    /// Offset of the current operator.
    pub offset: u64,
    frames: Vec<ControlFrame>,
    locals: Vec<Variable>,
    reachable: bool,
    callees: HashMap<String, ir::FuncRef>,
    /// What a function has that tasks call.
    pub view: Option<TaskView>,
    /// Whether it sets globals, other than the stack pointer.
    pub sets_globals: bool,
}

/// What a function has that tasks call ([`crate::translate::views`]).
#[derive(Clone, Copy)]
pub(crate) struct TaskView {
    /// The stack pointer.
    pub stack: Variable,
    /// What it was when the function began.
    pub given: Value,
    /// Stacks that the task may give to tasks of its own.
    pub stacks: Value,
    /// What OpenMP knows of the thread.
    pub thread: Value,
}

/// Whether a body has tail calls, so that all functions need the convention for them.
pub(crate) fn has_tail_calls(body: &FunctionBody<'_>) -> bool {
    let Ok(mut ops) = body.get_operators_reader() else { return false };
    while !ops.eof() {
        match ops.read() {
            Ok(Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. }) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

/// An empty function with its entry block, handed to `fill`.
pub(crate) fn build<'e, 'a>(
    env: &mut Env<'e, 'a>,
    context: &mut Context,
    symbol: &str,
    signature: Signature,
    fill: impl FnOnce(&mut Fx<'_, '_, 'e, 'a>) -> Result<(), Error>,
) -> Result<FuncKey, Error> {
    let config = env.config;
    let sets_globals;
    let mut func = ir::Function::with_name_signature(UserFuncName::testcase(symbol), signature);
    {
        let mut b = FunctionBuilder::new(&mut func, &mut context.0);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let vmctx = b.block_params(entry)[0];
        let stack = b.block_params(entry)[1..].to_vec();
        let mut fx = Fx {
            b,
            env,
            vmctx,
            stack,
            offset: 0,
            frames: Vec::new(),
            locals: Vec::new(),
            reachable: true,
            callees: HashMap::new(),
            view: None,
            sets_globals: false,
        };
        let filled = fill(&mut fx);
        if filled.is_err() {
            // The builder must not be dropped half filled.
            context.0 = FunctionBuilderContext::new();
            filled?;
            unreachable!("an error was returned");
        }
        fx.b.seal_all_blocks();
        sets_globals = fx.sets_globals;
        fx.b.finalize(config);
    }
    let key = env.define(symbol, func)?;
    if sets_globals {
        env.sets_globals.push(key);
    }
    Ok(key)
}

/// Translate a body.
pub(crate) fn translate(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    symbol: &str,
    index: u32,
    body: &FunctionBody<'_>,
) -> Result<FuncKey, Error> {
    let ty = env.info.type_of(index).clone();
    let signature = env.signature(&ty);
    build(env, context, symbol, signature, |fx| fx.body(&ty, body))
}

/// Translate a body as tasks call it.
pub(crate) fn translate_for_tasks(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    symbol: &str,
    index: u32,
    body: &FunctionBody<'_>,
) -> Result<FuncKey, Error> {
    let ty = env.info.type_of(index).clone();
    let signature = env.task_signature(&ty);
    build(env, context, symbol, signature, |fx| {
        fx.take_view();
        fx.body(&ty, body)
    })
}

/// Call a host function: `(vmctx, arguments)`.
pub(crate) fn call_host(fx: &mut Fx<'_, '_, '_, '_>, host: &HostFunc, args: &[Value]) -> Vec<Value> {
    let signature = host_signature(&fx.env.config, host);
    if fx.env.program.func(host.symbol).is_none() {
        // SAFETY: `HostFunc` promises a C function of this signature, which lives as long as the
        // process.
        let defined = unsafe { fx.env.program.define_host(host.symbol, &signature, host.address()) };
        let key = defined.expect("symbols of host functions are ours alone");
        fx.env.program.func_mut(key).repeatable = host.repeatable;
    }
    let callee = fx.callee(host.symbol, |_| signature);
    let all = [&[fx.vmctx], args].concat();
    let inst = fx.b.ins().call(callee, &all);
    fx.b.inst_results(inst).to_vec()
}

impl<'e, 'a> Fx<'_, '_, 'e, 'a> {
    fn body(&mut self, ty: &FuncType, body: &FunctionBody<'_>) -> Result<(), Error> {
        let params = std::mem::take(&mut self.stack);
        for v in params {
            let var = self.b.declare_var(self.b.func.dfg.value_type(v));
            self.b.def_var(var, v);
            self.locals.push(var);
        }
        for l in body.get_locals_reader()? {
            let (n, ty) = l?;
            let ty = clif_type(ty);
            let zero = self.zero(ty);
            for _ in 0..n {
                let var = self.b.declare_var(ty);
                self.b.def_var(var, zero);
                self.locals.push(var);
            }
        }
        let results: Vec<Type> = ty.results().iter().map(|t| clif_type(*t)).collect();
        let end = self.b.create_block();
        for t in &results {
            self.b.append_block_param(end, *t);
        }
        self.frames.push(ControlFrame {
            target: end,
            end,
            params: Vec::new(),
            results,
            height: 0,
            kind: FrameKind::Block,
            reached: false,
        });
        self.spend_fuel();
        let mut ops = body.get_operators_reader()?;
        while !ops.eof() {
            let (op, offset) = ops.read_with_offset()?;
            self.offset = offset;
            self.b.set_srcloc(SourceLoc::new(offset as u32));
            self.operator(&op)?;
        }
        Ok(())
    }

    /// The zero of a type.
    pub(crate) fn zero(&mut self, ty: Type) -> Value {
        match ty {
            types::F32 => self.b.ins().f32const(0.0),
            types::F64 => self.b.ins().f64const(0.0),
            types::I8X16 => {
                let c = self.b.func.dfg.constants.insert([0; 16].as_slice().into());
                self.b.ins().vconst(ty, c)
            }
            ty => self.b.ins().iconst(ty, 0),
        }
    }

    pub(crate) fn pop(&mut self) -> Value {
        self.stack.pop().expect("validated: the stack holds what an operator takes")
    }

    pub(crate) fn pop2(&mut self) -> (Value, Value) {
        let y = self.pop();
        (self.pop(), y)
    }

    pub(crate) fn pop3(&mut self) -> (Value, Value, Value) {
        let z = self.pop();
        let (x, y) = self.pop2();
        (x, y, z)
    }

    pub(crate) fn push(&mut self, v: Value) {
        self.stack.push(v);
    }

    fn popn(&mut self, n: usize) -> Vec<Value> {
        self.stack.split_off(self.stack.len() - n)
    }

    /// A condition as CLIF has it: the comparison itself, where the number was only made of one.
    pub(crate) fn pop_condition(&mut self) -> Value {
        let v = self.pop();
        if let ir::ValueDef::Result(inst, _) = self.b.func.dfg.value_def(v)
            && let ir::InstructionData::Unary { opcode: ir::Opcode::Uextend, arg } = self.b.func.dfg.insts[inst]
            && self.b.func.dfg.value_type(arg) == types::I8
        {
            return arg;
        }
        v
    }

    fn block_types(&self, ty: BlockType) -> (Vec<Type>, Vec<Type>) {
        match ty {
            BlockType::Empty => (vec![], vec![]),
            BlockType::Type(t) => (vec![], vec![clif_type(t)]),
            BlockType::FuncType(i) => {
                let t = &self.env.info.types[i as usize];
                (
                    t.params().iter().map(|t| clif_type(*t)).collect(),
                    t.results().iter().map(|t| clif_type(*t)).collect(),
                )
            }
        }
    }

    fn block_with(&mut self, params: &[Type]) -> Block {
        let b = self.b.create_block();
        for t in params {
            self.b.append_block_param(b, *t);
        }
        b
    }

    /// Values as they are at a block's parameters: vectors have one type there.
    fn canonical(&mut self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.as_canonical(v)).collect()
    }

    pub(crate) fn as_canonical(&mut self, v: Value) -> Value {
        if self.b.func.dfg.value_type(v).is_vector() { self.as_vector(v, types::I8X16) } else { v }
    }

    fn jump(&mut self, to: Block, values: &[Value]) {
        let args: Vec<BlockArg> = self.canonical(values).into_iter().map(Into::into).collect();
        self.b.ins().jump(to, &args);
    }

    fn open(&mut self, target: Block, end: Block, types: (Vec<Type>, Vec<Type>), kind: FrameKind) {
        let (params, results) = types;
        let height = self.stack.len() - params.len();
        self.frames.push(ControlFrame { target, end, params, results, height, kind, reached: false });
    }

    /// What a branch to the frame at `depth` passes, still on the stack.
    fn branch(&mut self, depth: u32) -> (Block, Vec<Value>) {
        let at = self.frames.len() - 1 - depth as usize;
        let f = &mut self.frames[at];
        let n = match f.kind {
            FrameKind::Loop => f.params.len(),
            _ => {
                f.reached = true;
                f.results.len()
            }
        };
        (f.target, self.stack[self.stack.len() - n..].to_vec())
    }

    fn continue_at(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// In code that cannot be reached only the structure is followed.
    fn skip(&mut self, op: &Operator<'_>) {
        match op {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                let b = self.frames[0].end;
                let height = self.stack.len();
                self.frames.push(ControlFrame {
                    target: b,
                    end: b,
                    params: vec![],
                    results: vec![],
                    height,
                    kind: FrameKind::Dead,
                    reached: false,
                });
            }
            Operator::Else => self.else_arm(),
            Operator::End => self.end(),
            _ => {}
        }
    }

    fn else_arm(&mut self) {
        let f = self.frames.last_mut().expect("validated: `else` is in a frame");
        let FrameKind::If(arm) = &mut f.kind else { return };
        let Some((block, params)) = arm.take() else { return };
        let (end, n, height) = (f.end, f.results.len(), f.height);
        if self.reachable {
            f.reached = true;
            let results = self.popn(n);
            self.jump(end, &results);
        }
        self.stack.truncate(height);
        self.stack.extend(params);
        self.continue_at(block);
        self.reachable = true;
    }

    fn end(&mut self) {
        let f = self.frames.pop().expect("validated: `end` closes a frame");
        let mut reached = f.reached;
        if matches!(f.kind, FrameKind::Dead) {
            return;
        }
        if self.reachable {
            let results = self.popn(f.results.len());
            self.jump(f.end, &results);
            reached = true;
        }
        if matches!(f.kind, FrameKind::Loop) {
            self.b.seal_block(f.target);
        }
        if let FrameKind::If(Some((block, params))) = f.kind {
            // An `if` without `else`: its parameters are its results.
            self.continue_at(block);
            self.jump(f.end, &params);
            reached = true;
        }
        self.stack.truncate(f.height);
        self.reachable = reached;
        if !reached {
            return;
        }
        self.continue_at(f.end);
        let results = self.b.block_params(f.end).to_vec();
        if self.frames.is_empty() {
            self.gives_stack_back();
            self.b.ins().return_(&results);
            self.reachable = false;
        } else {
            self.stack.extend(results);
        }
    }

    fn dead_end(&mut self) {
        self.reachable = false;
        let height = self.frames.last().map_or(0, |f| f.height);
        self.stack.truncate(height);
    }

    fn operator(&mut self, op: &Operator<'_>) -> Result<(), Error> {
        if !self.reachable {
            self.skip(op);
            return Ok(());
        }
        match op {
            Operator::Nop => {}
            Operator::Unreachable => {
                self.b.ins().trap(trap::UNREACHABLE);
                self.dead_end();
            }
            Operator::Block { blockty } => {
                let types = self.block_types(*blockty);
                let end = self.block_with(&types.1);
                self.open(end, end, types, FrameKind::Block);
            }
            Operator::Loop { blockty } => {
                let types = self.block_types(*blockty);
                let (header, end) = (self.block_with(&types.0), self.block_with(&types.1));
                let n = types.0.len();
                self.open(header, end, types, FrameKind::Loop);
                let args = self.popn(n);
                self.jump(header, &args);
                self.b.switch_to_block(header);
                let params = self.b.block_params(header).to_vec();
                self.stack.extend(params);
                self.spend_fuel();
            }
            Operator::If { blockty } => {
                let c = self.pop_condition();
                let types = self.block_types(*blockty);
                let end = self.block_with(&types.1);
                let (then, other) = (self.b.create_block(), self.b.create_block());
                let params = self.stack[self.stack.len() - types.0.len()..].to_vec();
                self.b.ins().brif(c, then, &[], other, &[]);
                self.open(end, end, types, FrameKind::If(Some((other, params))));
                self.continue_at(then);
            }
            Operator::Else => self.else_arm(),
            Operator::End => self.end(),
            Operator::Br { .. } | Operator::BrIf { .. } | Operator::BrTable { .. } | Operator::Return => {
                self.leave(op)?;
            }
            Operator::Call { .. }
            | Operator::ReturnCall { .. }
            | Operator::CallIndirect { .. }
            | Operator::ReturnCallIndirect { .. } => self.call(op),
            Operator::Drop => {
                self.pop();
            }
            Operator::Select | Operator::TypedSelect { .. } => {
                let c = self.pop_condition();
                let (x, y) = self.pop2();
                let (x, y) = (self.as_canonical(x), self.as_canonical(y));
                let v = self.b.ins().select(c, x, y);
                self.push(v);
            }
            Operator::LocalGet { local_index } => {
                let v = self.b.use_var(self.locals[*local_index as usize]);
                self.push(v);
            }
            Operator::LocalSet { local_index } => {
                let v = self.pop();
                let v = self.as_canonical(v);
                self.b.def_var(self.locals[*local_index as usize], v);
            }
            Operator::LocalTee { local_index } => {
                let v = *self.stack.last().expect("validated");
                let v = self.as_canonical(v);
                self.b.def_var(self.locals[*local_index as usize], v);
            }
            op => {
                if !self.number(op) && !self.vector(op)? && !self.memory_or_table(op)? {
                    let name = format!("{op:?}");
                    let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
                    return Err(Error::unsupported(
                        format!("the operator `{name}`"),
                        self.offset,
                        "compile without the feature that it belongs to",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Translate a branch or a return.
    fn leave(&mut self, op: &Operator<'_>) -> Result<(), Error> {
        match op {
            Operator::Br { relative_depth } => {
                let (target, args) = self.branch(*relative_depth);
                self.jump(target, &args);
                self.dead_end();
            }
            Operator::BrIf { relative_depth } => {
                let c = self.pop_condition();
                let (target, args) = self.branch(*relative_depth);
                let args: Vec<BlockArg> = self.canonical(&args).into_iter().map(Into::into).collect();
                let next = self.b.create_block();
                self.b.ins().brif(c, target, &args, next, &[]);
                self.continue_at(next);
            }
            Operator::BrTable { targets } => {
                let index = self.pop();
                let mut calls = Vec::new();
                let all: Vec<u32> = targets.targets().collect::<Result<_, _>>()?;
                for depth in all.into_iter().chain([targets.default()]) {
                    let (target, args) = self.branch(depth);
                    let args: Vec<BlockArg> = self.canonical(&args).into_iter().map(Into::into).collect();
                    calls.push(self.b.func.dfg.block_call(target, &args));
                }
                let default = calls.pop().expect("the default is the last");
                let table = self.b.create_jump_table(JumpTableData::new(default, &calls));
                self.b.ins().br_table(index, table);
                self.dead_end();
            }
            Operator::Return => {
                let n = self.frames[0].results.len();
                let values = self.popn(n);
                let values = self.canonical(&values);
                self.gives_stack_back();
                self.b.ins().return_(&values);
                self.dead_end();
            }
            _ => unreachable!("no branch"),
        }
        Ok(())
    }

    /// Translate a call.
    fn call(&mut self, op: &Operator<'_>) {
        match op {
            Operator::Call { function_index } => {
                let n = self.env.info.type_of(*function_index).params().len();
                let args = self.popn(n);
                let results = self.call_function(*function_index, &args);
                self.stack.extend(results);
            }
            Operator::ReturnCall { function_index } => {
                let n = self.env.info.type_of(*function_index).params().len();
                let args = self.popn(n);
                self.gives_stack_back();
                self.tail_call_function(*function_index, &args);
                self.dead_end();
            }
            Operator::CallIndirect { type_index, table_index } => {
                let (callee, args) = self.indirect(self.env.info.types[*type_index as usize].clone(), *table_index);
                let inst = self.b.ins().call(callee, &args);
                let results = self.b.inst_results(inst).to_vec();
                self.stack.extend(results);
            }
            Operator::ReturnCallIndirect { type_index, table_index } => {
                let (callee, args) = self.indirect(self.env.info.types[*type_index as usize].clone(), *table_index);
                self.gives_stack_back();
                self.b.ins().return_call(callee, &args);
                self.dead_end();
            }
            _ => unreachable!("no call"),
        }
    }

    /// A reference to a function of the program, declared once.
    pub(crate) fn callee(&mut self, symbol: &str, signature: impl FnOnce(&mut Self) -> Signature) -> ir::FuncRef {
        if let Some(&f) = self.callees.get(symbol) {
            return f;
        }
        let signature = signature(self);
        let signature = self.b.import_signature(signature);
        let data = ir::ExtFuncData { name: named(symbol), signature, colocated: false, patchable: false };
        let f = self.b.import_function(data);
        self.callees.insert(symbol.to_owned(), f);
        f
    }

    /// Callee and arguments of a call of function `index` of the index space.
    fn direct(&mut self, index: u32, args: &[Value]) -> (ir::FuncRef, Vec<Value>) {
        let symbol = self.env.symbols[index as usize].clone();
        let ty = self.env.info.type_of(index).clone();
        let args = self.canonical(args);
        if self.env.by_name[index as usize] {
            let callee = self.callee(&symbol, |fx| {
                let mut sig = fx.env.signature(&ty);
                sig.params.remove(0);
                sig.call_conv = fx.env.config.default_call_conv;
                sig
            });
            return (callee, args);
        }
        if self.view.is_some() && self.env.needs_view[index as usize] {
            self.env.tasks.insert(index);
            let callee = self.callee(&format!("{symbol}{TASK}"), |fx| fx.env.task_signature(&ty));
            return (callee, self.with_view(&args));
        }
        let callee = self.callee(&symbol, |fx| fx.env.signature(&ty));
        (callee, [&[self.vmctx], &args[..]].concat())
    }

    pub(crate) fn call_function(&mut self, index: u32, args: &[Value]) -> Vec<Value> {
        if let Some(results) = self.known_fork(index, args) {
            return results;
        }
        let (callee, args) = self.direct(index, args);
        let inst = self.b.ins().call(callee, &args);
        self.b.inst_results(inst).to_vec()
    }

    pub(crate) fn tail_call_function(&mut self, index: u32, args: &[Value]) {
        if self.env.by_name[index as usize] || self.env.fork_imports[index as usize].is_some() {
            // C functions have another convention.
            let results = self.call_function(index, args);
            self.b.ins().return_(&results);
            return;
        }
        let (callee, args) = self.direct(index, args);
        self.b.ins().return_call(callee, &args);
    }

    /// Dispatcher and arguments of a call through a table.
    pub(crate) fn indirect(&mut self, ty: FuncType, table: u32) -> (ir::FuncRef, Vec<Value>) {
        let at = self.pop();
        let args = self.popn(ty.params().len());
        let args = self.canonical(&args);
        let reference = self.table_entry(table, at);
        let of_task = self.view.is_some();
        let symbol = self.env.dispatcher(&ty, of_task);
        let callee = self.callee(&symbol, |fx| dispatcher_signature(fx.env, &ty, of_task));
        (callee, self.with_view(&[&[reference], &args[..]].concat()))
    }

    /// Call a helper of the module.
    pub(crate) fn call_helper(&mut self, helper: Helper, args: &[Value]) -> Vec<Value> {
        let symbol = self.env.helper(helper);
        let callee = self.callee(&symbol, |fx| helper.signature(fx.env));
        let args = [&[self.vmctx], args].concat();
        let inst = self.b.ins().call(callee, &args);
        self.b.inst_results(inst).to_vec()
    }
}
