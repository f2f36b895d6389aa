//! The pair of a call that an inverse undoes: nothing is recorded.
//!
//! **Problem.** The pair of a function that changes a state records what is overwritten, or what is
//! made of it: in a loop of calls, once for each.
//!
//! **Answer.** The forward pass calls the function as it is. The pullback calls the inverse, and
//! then the function's gradient, of the state that is there now. What the call was given comes from
//! the caller, who has it in a variable where it is the same in all iterations of a loop, or an
//! integer that runs backwards:
//!
//! ```text
//! f__forward(p…, δ…, seg)              f__pullback(seg, p…, δ…)
//!     inverse(begin)                       inverse(undo)     the state after the call
//!     f(p…)                                f_inv(p…)
//!     inverse(end)                         inverse(redo)     the state before it, which is kept
//!     with a tolerance or a record:        f__gradient(p…, δ…, seg)
//!         f_inv(p…)                        inverse(done)     as the pullback has found it
//!         inverse(compare)
//! ```
//!
//! Of a reversible function there is a third one, which undoes the call and carries cotangents back
//! beside the values. Then the pullback calls that in place of the inverse, and no gradient is
//! derived; unless what undoing does not give back is on record: the states between statements
//! would not be those of the forward pass.
//!
//! `brolga_runtime::states::inverses` keeps states, checks them, and puts them there.
//!
//! **Cost.** In the run a call of the inverse and one of the gradient for each call that is undone,
//! and no record. A check is a comparison of the state, after one more call of the inverse if it
//! is up to a tolerance.
//!
//! **Source.** J.-G. Liu, T. Zhao: Differentiate everything with a reversible embedded
//! domain-specific language. arXiv:2003.04617 (2020).

use brolga_analysis::lattice::kinds::Kinds;
use brolga_analysis::variant::combined_signature;
use brolga_analysis::{ParamMode, PreservedMemory, Variant};
use brolga_ir::driver::{InverseDriver, inverse};
use brolga_ir::inst::Check;
use brolga_ir::names::Names;
use brolga_ir::options::InverseCheck;
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::build::{begin, bounds, call_of, empty, helper, trap_if, words_at};
use crate::derived::PairSymbols;
use crate::facts::Context;
use crate::program::variants::Worklist;
use crate::translate::stmt::Callees;

/// A template under construction.
struct InverseTemplate<'t, 'n> {
    cx: Context<'t>,
    of: &'t InverseDriver,
    check: InverseCheck,
    variant: &'t Variant,
    names: &'n mut Names,
}

/// Forward pass and pullback.
pub(super) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    of: &InverseDriver,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> (ir::Function, ir::Function) {
    // The gradient of what the body calls, if it does nothing else.
    let all: Vec<usize> = (0..variant.params.len()).collect();
    let (func, given) = sole_call(cx.program, variant.func).unwrap_or((variant.func, all));
    let mut called = Variant { func, preserved: PreservedMemory::NOTHING, ..variant.clone() };
    called.params = given.iter().map(|&i| variant.params[i]).collect();
    called.promises = given.iter().filter_map(|&i| variant.promises.get(i).copied()).collect();
    let check = match cx.options.inverse_check {
        InverseCheck::Declared => of.check.unwrap_or(InverseCheck::Bits),
        asked => asked,
    };
    let adjoint = of.adjoint.as_deref().filter(|_| check != InverseCheck::Record);
    let gradient = adjoint.is_none().then(|| work.joint(called.clone()));
    let mut this = InverseTemplate { cx, of, check, variant, names };
    let forward = this.forward(&symbols.forward);
    let pullback = match (adjoint, gradient) {
        (None, Some(gradient)) => this.pullback(&symbols.pullback, &called, &given, &gradient),
        (adjoint, _) => this.with_cotangents(&symbols.pullback, adjoint.expect("there is one")),
    };
    (forward, pullback)
}

/// The function that a body calls, and does nothing else; and which of its parameters it hands on.
fn sole_call(program: &Program, func: FuncKey) -> Option<(FuncKey, Vec<usize>)> {
    let body = program.funcs[func].body.as_ref()?;
    let entry = body.layout.entry_block()?;
    let insts: Vec<ir::Inst> = body.layout.block_insts(entry).collect();
    let &[call, last] = &insts[..] else { return None };
    let InstructionData::Call { opcode: ir::Opcode::Call, func_ref, .. } = body.dfg.insts[call] else { return None };
    let params = body.dfg.block_params(entry);
    let place = |&v: &ir::Value| params.iter().position(|&p| p == body.dfg.resolve_aliases(v));
    let given: Option<Vec<usize>> = body.dfg.inst_args(call).iter().map(place).collect();
    let callee = program.callee(body, func_ref).filter(|&k| program.funcs[k].body.is_some())?;
    (body.dfg.insts[last].opcode() == ir::Opcode::Return).then_some((callee, given?))
}

impl InverseTemplate<'_, '_> {
    fn primal(&self) -> &Signature {
        &self.cx.program.funcs[self.variant.func].signature
    }

    fn forward(&mut self, symbol: &str) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.forward_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let (seg, given) = given.split_last().expect("there is a segment");
        let run_time = (*seg, self.words(&mut b, given));
        let primal_symbol = self.cx.program.funcs[self.variant.func].symbol.clone();
        self.at(&mut b, run_time, inverse::BEGIN);
        self.call(&mut b, &primal_symbol, given);
        self.at(&mut b, run_time, inverse::END);
        if let InverseCheck::Within(_) | InverseCheck::Record = self.check {
            self.call(&mut b, &self.of.undo, given);
            self.at(&mut b, run_time, inverse::COMPARE);
        }
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// The pullback of a driver: `called` is handed those parameters, and has that gradient.
    fn pullback(&mut self, symbol: &str, called: &Variant, handed: &[usize], gradient: &str) -> ir::Function {
        let sig = self.variant.undo_signature(self.primal());
        let mut func = empty(self.names, symbol, sig);
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, params) = begin(&mut func, &mut fcx);
        let (seg, given) = params.split_first().expect("there is a segment");
        let run_time = (*seg, self.words(&mut b, given));
        self.at(&mut b, run_time, inverse::UNDO);
        self.call(&mut b, &self.of.undo, given);
        self.at(&mut b, run_time, inverse::REDO);
        let mut args: Vec<ir::Value> = handed.iter().map(|&i| given[i]).collect();
        args.extend(handed.iter().filter_map(|&i| self.delta(i)).map(|i| given[i]));
        args.push(*seg);
        let cts = self.gradient(&mut b, called, gradient, &args);
        self.at(&mut b, run_time, inverse::DONE);
        let mut found: Vec<(usize, ir::Value)> = cts.into_iter().map(|(i, ct)| (handed[i], ct)).collect();
        let shapes = self.variant.param_shapes(self.primal());
        let returned: Vec<ir::Value> = shapes
            .map(|(i, shape)| {
                let mut of_param = found.extract_if(.., |(at, _)| *at == i).map(|(_, ct)| ct);
                let first = of_param.next();
                let sum = first.map(|first| of_param.fold(first, |a, ct| b.ins().fadd(a, ct)));
                // All floats are handed on, and a word has no cotangent.
                sum.unwrap_or_else(|| b.ins().iconst(shape.ty(), 0))
            })
            .collect();
        b.ins().return_(&returned);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// The pullback of a reversible function.
    fn with_cotangents(&mut self, symbol: &str, adjoint: &str) -> ir::Function {
        let sig = self.variant.undo_signature(self.primal());
        let returns: Vec<ir::Type> = sig.returns.iter().map(|r| r.value_type).collect();
        let mut func = empty(self.names, symbol, sig);
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, params) = begin(&mut func, &mut fcx);
        let (seg, given) = params.split_first().expect("there is a segment");
        let run_time = (*seg, self.words(&mut b, given));
        let n = self.primal().params.len();
        let mut args = given[..n].to_vec();
        for i in 0..n {
            let none = b.ins().iconst(types::I64, 0);
            let shadow = self.delta(i).map_or(none, |d| {
                let there = b.ins().iadd(given[i], given[d]);
                b.ins().select(given[d], there, none)
            });
            args.push(shadow);
        }
        self.at(&mut b, run_time, inverse::UNDO);
        let mut sig = self.primal().clone();
        sig.params.extend_from_within(..);
        call_of(&mut b, self.names, adjoint, sig, &args);
        self.at(&mut b, run_time, inverse::REDO);
        self.at(&mut b, run_time, inverse::DONE);
        // Words have no cotangents.
        let returned: Vec<ir::Value> = returns.iter().map(|&ty| b.ins().iconst(ty, 0)).collect();
        b.ins().return_(&returned);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// The function's gradient: cotangents of floats that are passed by value, by parameter.
    fn gradient(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        called: &Variant,
        symbol: &str,
        args: &[ir::Value],
    ) -> Vec<(usize, ir::Value)> {
        let primal = &self.cx.program.funcs[called.func].signature;
        let sig = combined_signature(&called.forward_signature(primal), &called.pullback_signature(primal), 0);
        let cts = call_of(b, self.names, symbol, sig, args);
        let mut floats = vec![];
        for ((i, _), ct) in called.param_shapes(primal).zip(cts) {
            if called.params[i] == ParamMode::Active {
                floats.push((i, ct));
                continue;
            }
            let arrives = b.ins().icmp_imm_s(IntCC::NotEqual, ct, 0);
            trap_if(b, arrives, Check::UntrackedBits);
        }
        floats
    }

    /// Where the delta of a parameter is among what is given.
    fn delta(&self, param: usize) -> Option<usize> {
        let modes = &self.variant.params;
        let is_dup = |p: &ParamMode| matches!(p, ParamMode::Dup { .. });
        is_dup(&modes[param]).then(|| modes.len() + modes[..param].iter().filter(|p| is_dup(p)).count())
    }

    /// The address of what the run time is told at each point.
    fn words(&self, b: &mut FunctionBuilder<'_>, given: &[ir::Value]) -> ir::Value {
        let tolerance = match self.check {
            InverseCheck::Within(t) => Some(f64::from(t)),
            _ => None,
        };
        let mut words = vec![b.ins().iconst(types::I64, tolerance.unwrap_or(0.0).to_bits() as i64)];
        for part in &self.of.state {
            words.extend(bounds(b, part, given));
        }
        if tolerance.is_some() {
            let widths = self.of.state.iter().map(|part| self.width(&part.address));
            words.extend(widths.map(|w| b.ins().iconst(types::I64, w)).collect::<Vec<_>>());
        }
        words_at(b, &words)
    }

    /// Let the run time do what there is to do at a point.
    fn at(&mut self, b: &mut FunctionBuilder<'_>, (seg, words): (ir::Value, ir::Value), point: u64) {
        let check = match self.check {
            InverseCheck::Off => 0,
            InverseCheck::Within(_) => inverse::WITHIN,
            InverseCheck::Bits | InverseCheck::Declared => inverse::BITS,
            InverseCheck::Record => inverse::RECORD,
        };
        let what = point | (self.of.state.len() as u64) << inverse::PARTS | check << inverse::CHECK;
        let what = b.ins().iconst(types::I64, what as i64);
        let done = helper(self.cx, b, self.names, "brolga_inverse", &[seg, words, what]);
        let fault = b.ins().icmp_imm_s(IntCC::Equal, done, 0);
        trap_if(b, fault, Check::InversePair);
    }

    /// How many bytes a float has where these parameters point, or zero where there are both.
    fn width(&self, params: &[usize]) -> i64 {
        let holds = params.iter().filter_map(|&p| match self.variant.params[p] {
            ParamMode::Dup { holds, .. } => Some(holds.moved()),
            _ => None,
        });
        match holds.reduce(Kinds::join) {
            Some(Kinds::F32) => 4,
            Some(kinds) if kinds == Kinds::F64.join(Kinds::F32) => 0,
            _ => 8,
        }
    }

    /// Call a function of the program as it is.
    fn call(&mut self, b: &mut FunctionBuilder<'_>, symbol: &str, given: &[ir::Value]) {
        let sig = self.primal().clone();
        let args = &given[..sig.params.len()];
        call_of(b, self.names, symbol, sig, args);
    }
}
