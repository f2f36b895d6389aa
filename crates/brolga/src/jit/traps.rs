//! Trap attribution: from the address of a trap back to the instruction that the user wrote.
//!
//! **Question.** Generated code has trapped at an address. Which instruction of the program was
//! that, why, and in which half?
//!
//! **Answer.** Every instruction of derived code carries the source location of the primal
//! instruction it stems from; Cranelift keeps source locations and trap codes by code offset. A
//! trap's address therefore names a primal instruction and a code: [`CodeMap::explain`] looks both
//! up, and says what the code means. In a function that is made for a fork it is the call that
//! forks. A trap in a task, a time loop or a call that is undone is explained by what the run time
//! knows of it ([`explained`]).
//!
//! **Cost.** None, where nothing traps, but for the codes and locations of each function, which are
//! kept. A trap costs a binary search for the function, and a search through its codes and
//! locations.

use brolga_ir::driver::Driver;
use brolga_ir::fork::made_for;
use brolga_ir::inst::Check;
use brolga_ir::lower::CHECK_SRCLOC;
use brolga_ir::program::functions_used;
use brolga_ir::time_loop::step_of;
use brolga_ir::{FuncKey, Origin, Program};
use brolga_runtime::{Cause, CodeRanges, Lease, RawTrap, Signal};
use brolga_transform::LoopOutcome;
use cranelift_codegen::ir::{self, TrapCode};

use crate::{Error, Trap};

/// What is being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The primal.
    Primal,
    /// A forward pass.
    Forward,
    /// A pullback.
    Pullback,
    /// A combined function.
    Combined,
    /// A function of forward mode.
    Tangent,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Primal => "primal",
            Phase::Forward => "forward",
            Phase::Pullback => "pullback",
            Phase::Combined => "gradient",
            Phase::Tangent => "tangent",
        }
    }
}

/// A compiled function and what is needed to explain its traps.
#[derive(Clone, Debug)]
pub(crate) struct CompiledFunction {
    /// The primal function that it is, or that it derives from.
    pub owner: FuncKey,
    /// Address.
    pub start: usize,
    /// Bytes of code.
    pub size: u32,
    /// Trap codes by offset.
    pub traps: Vec<(u32, TrapCode)>,
    /// Source locations by range of offsets.
    pub locs: Vec<(u32, u32, u32)>,
}

/// All functions of a module.
#[derive(Debug)]
pub(crate) struct CodeMap {
    functions: Vec<CompiledFunction>,
    /// Their addresses, for the trap handler.
    pub ranges: CodeRanges,
}

impl CodeMap {
    /// Sort functions by address.
    pub(crate) fn new(mut functions: Vec<CompiledFunction>) -> Self {
        functions.sort_by_key(|f| f.start);
        let ranges = CodeRanges::new(functions.iter().map(|f| f.start..f.start + f.size as usize));
        Self { functions, ranges }
    }

    /// Bytes of machine code.
    pub(crate) fn code_bytes(&self) -> usize {
        self.functions.iter().map(|f| f.size as usize).sum()
    }

    /// The function that code at this address is of, or derives from.
    pub(crate) fn owner(&self, pc: usize) -> FuncKey {
        let at = self.functions.partition_point(|f| f.start <= pc);
        self.functions[at.saturating_sub(1)].owner
    }

    /// Explain a trap of a call of `entered`. Both passes run functions of the primal as they are
    /// where nothing is active.
    pub(crate) fn explain(&self, program: &Program, raw: &RawTrap, entered: Phase) -> Trap {
        let at = self.functions.partition_point(|f| f.start <= raw.pc);
        let f = &self.functions[at.saturating_sub(1)];
        let off = raw.pc.wrapping_sub(f.start) as u32;
        let code = f.traps.iter().find(|t| t.0 == off).map(|t| t.1);
        let loc = f.locs.iter().find(|l| l.0 <= off && off < l.1).map_or(0, |l| l.2);
        let (code, message) = describe(program, code, loc, raw);
        let n = loc & !CHECK_SRCLOC;
        let inst = (n != 0 && n != !CHECK_SRCLOC).then(|| ir::Inst::from_u32(n - 1));
        let mut chain = written(program, f.owner, inst).into_iter();
        let (func, inst) = chain.next().unwrap_or((f.owner, None));
        let prim = &program.funcs[func];
        let body = prim.body.as_ref();
        let first = body.and_then(first_inst);
        let inst = inst.filter(|&i| {
            body.is_some_and(|b| (i.as_u32() as usize) < b.dfg.num_insts() && b.layout.inst_block(i).is_some())
        });
        Trap {
            code,
            function: made_for(&prim.symbol).map_or(&*prim.symbol, |of| of.0).to_owned(),
            source_name: prim.source_name(),
            block: inst.and_then(|i| body?.layout.inst_block(i)),
            inst,
            inst_text: inst.and_then(|i| Some(body?.dfg.display_inst(i).to_string())),
            // A stack that overflows does so before the first instruction.
            line: inst
                .or_else(|| first.filter(|_| raw.cause == Cause::Stack))
                .map(|i| prim.lines[i])
                .filter(|&l| l != 0),
            inlined: chain.filter_map(|(f, call)| Some(program.place(f, call?))).collect(),
            phase: entered.name(),
            message,
        }
    }
}

/// A function, and an instruction in it.
type WrittenPlace = (FuncKey, Option<ir::Inst>);

/// An instruction and the calls by which it came into a function, from within, as the user wrote
/// them. What is made for a fork is left out: where the function is, the last one is the call that
/// forks, if the program has one such call only.
fn written(program: &Program, func: FuncKey, inst: Option<ir::Inst>) -> Vec<WrittenPlace> {
    let mut chain = vec![(func, inst)];
    if let Some(Origin { func, inst, calls }) = inst.map(|i| program.origin(func, i)) {
        chain = vec![(func, Some(inst))];
        chain.extend(calls.into_iter().map(|(func, call)| (func, Some(call))));
    }
    let fork = |func: FuncKey| made_for(&program.funcs[func].symbol).map(|of| of.1);
    chain.retain(|at| fork(at.0).is_none());
    if let Some(fork) = fork(func) {
        chain.extend(only_call(program, fork).map(|(func, call)| (func, Some(call))));
    }
    chain
}

/// The only call that has become one of this fork, also where that has been put in its place.
fn only_call(program: &Program, fork: &str) -> Option<(FuncKey, ir::Inst)> {
    let made = |func: FuncKey| made_for(&program.funcs[func].symbol).map(|of| of.1);
    let bodies = program.funcs.iter().filter_map(|(k, f)| Some((k, f.body.as_ref()?)));
    let mut found = None;
    for (func, body) in bodies.filter(|&(k, _)| made(k).is_none()) {
        for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
            let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[inst] else { continue };
            if program.callee(body, func_ref).and_then(made) == Some(fork) {
                let Origin { func, inst, calls } = program.origin(func, inst);
                let call = [(func, inst)].into_iter().chain(calls).find(|at| made(at.0).is_none())?;
                if found.replace(call).is_some_and(|before| before != call) {
                    return None;
                }
            }
        }
    }
    found
}

fn first_inst(body: &ir::Function) -> Option<ir::Inst> {
    body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).next()
}

fn describe(program: &Program, code: Option<TrapCode>, loc: u32, raw: &RawTrap) -> (String, String) {
    if let Some(c) = code {
        // A nested derivative has checks of its own, which are instructions of the program.
        let is_check = loc & CHECK_SRCLOC != 0 && loc != u32::MAX || program.nested > 0;
        let ours = is_check.then(|| Check::from_raw(c.as_raw().get())).flatten();
        if let Some(check) = ours {
            return (check.name().to_owned(), check.message().to_owned());
        }
        if let Some((name, message)) = program.traps.get(&c.as_raw().get()) {
            return ((*name).to_owned(), (*message).to_owned());
        }
    }
    if raw.cause == Cause::Call {
        let check = Check::UnknownCallee;
        return (check.name().to_owned(), "a call went to an address at which there is no code".to_owned());
    }
    let message = match code {
        Some(TrapCode::STACK_OVERFLOW) => "the stack overflowed".to_owned(),
        Some(TrapCode::INTEGER_OVERFLOW) => "an integer operation overflowed".to_owned(),
        Some(TrapCode::INTEGER_DIVISION_BY_ZERO) => "an integer was divided by zero".to_owned(),
        Some(TrapCode::BAD_CONVERSION_TO_INTEGER) => "a NaN was converted to an integer".to_owned(),
        Some(TrapCode::HEAP_OUT_OF_BOUNDS) if matches!(raw.signal, Signal::Segv | Signal::Bus) => {
            format!("memory at address {:#x} could not be accessed", raw.fault_address)
        }
        Some(c) => format!("the program trapped with code {c}"),
        None if raw.cause == Cause::Stack => {
            return ("stk_ovf".to_owned(), "the stack overflowed: the recursion is too deep".to_owned());
        }
        None if matches!(raw.signal, Signal::Segv | Signal::Bus) => {
            let message = format!("memory at address {:#x} could not be accessed", raw.fault_address);
            return (TrapCode::HEAP_OUT_OF_BOUNDS.to_string(), message);
        }
        None if raw.signal == Signal::Ill => {
            return ("ended".to_owned(), "the program ended itself, by `abort` or `exit`".to_owned());
        }
        None => "the processor refused an instruction".to_owned(),
    };
    (code.map_or_else(|| "unknown".to_owned(), |c| c.to_string()), message)
}

/// What a run is of: its code, the program, and loops that were to be reversed from states.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'r> {
    pub code: &'r CodeMap,
    pub program: &'r Program,
    pub loops: &'r [LoopOutcome],
}

/// What has stopped a run says why: a task, a time loop, or a call that was to be undone.
pub(super) fn explained(of: RunContext<'_>, phase: Phase, error: Error, tape: Option<&Lease>) -> Error {
    let (mut trap, tape) = match (error, tape) {
        (Error::Trap(trap), Some(tape)) => (trap, tape),
        (error, _) => return error,
    };
    if let (true, Some(raw)) = (trap.code == Check::Task.name(), tape.task_trap()) {
        *trap = of.code.explain(of.program, raw, phase);
    }
    let said = match &trap.code[..] {
        code if code == Check::TimeLoop.name() => {
            name_loop(of.program, of.loops, &mut trap);
            tape.loop_fault().map(|f| f.to_string())
        }
        code if code == Check::InversePair.name() => {
            name_undone(of.program, &mut trap);
            tape.inverse_fault().map(|f| f.to_string())
        }
        _ => None,
    };
    trap.message = said.unwrap_or(trap.message);
    Error::Trap(trap)
}

/// Let a trap of a call that is undone be one of the function that is called, where that begins.
fn name_undone(program: &Program, trap: &mut Trap) {
    let driver = program.func(&trap.function).map(|k| &program.funcs[k]);
    let Some(body) = driver.filter(|f| matches!(f.driver, Some(Driver::Inverse(_)))).and_then(|f| f.body.as_ref())
    else {
        return;
    };
    let callee = functions_used(body).iter().next().and_then(|r| program.callee(body, r));
    let Some(f) = callee.map(|k| &program.funcs[k]) else { return };
    trap.function.clone_from(&f.symbol);
    trap.source_name = f.source_name();
    trap.line = f.body.as_ref().and_then(first_inst).map(|i| f.lines[i]).filter(|&line| line != 0);
    (trap.block, trap.inst, trap.inst_text) = (None, None, None);
}

/// Let a trap of a loop be one of its step's function, or of the loop that is not marked.
fn name_loop(program: &Program, loops: &[LoopOutcome], trap: &mut Trap) {
    let of_loop = |l: &&LoopOutcome| l.driver.as_ref().is_ok_and(|&d| program.funcs[d].symbol == trap.function);
    let Some(outlined) = loops.iter().find(of_loop) else {
        trap.function = step_of(&trap.function).to_owned();
        return;
    };
    let origin = program.origin(outlined.func, outlined.inst);
    let f = &program.funcs[origin.func];
    trap.function.clone_from(&f.symbol);
    trap.source_name = f.source_name();
    trap.inst = Some(origin.inst);
    trap.block = f.body.as_ref().and_then(|b| b.layout.inst_block(origin.inst));
    trap.inst_text = program.text(origin.func, origin.inst);
    trap.line = Some(f.lines[origin.inst]).filter(|&line| line != 0);
}
