//! Nested derivatives: derived functions as functions of a program, so that they can be derived
//! again.
//!
//! **Problem.** A second derivative is a derivative of a derived function. That function takes
//! *deltas* (the address of a shadow minus that of its primal), which are numbers: derived again, a
//! delta would have no shadow of its own, and the second derivative of memory would go to wrong
//! addresses. And it takes a tape segment, whose records hold floats, integers and addresses side
//! by side, so that a derivation cannot tell what lies where.
//!
//! **Answer.** [`gradient`] derives a request in combined mode, and puts what comes out into a copy
//! of the program, with one function more: the gradient with each delta replaced by the *pointer*
//! to the shadow, from which the delta is computed inside. Derived again, `p + (s - p)` has the
//! shadow of `s`. Its tape is typed ([`TapeKind::Typed`]): four stacks, each of one kind, in memory
//! that the caller gives, with a shadow. Their positions and limits are in a *workspace*, addresses
//! all of them, at the offsets of [`brolga_ir::lower::segment::field`]. A gradient that records
//! nothing has no such parameter.
//!
//! Helpers of the run time are bodies in CLIF there ([`crate::standalone::prelude`]); functions say
//! of a function pointer what its forward pass and its pullback are
//! ([`crate::standalone::indirect`]); shadows of data objects are data objects ([`data`]).
//!
//! **After.** The function has a [`NestedParam`] for each parameter and a [`NestedResult`] for each
//! result. Lines of its instructions are those of the primal's, so that diagnostics of a second
//! derivation lead to the program as it was written.
//!
//! **Cost.** One derivation, and a few walks over each function that it gives.
//!
//! **Source.** Reverse over reverse and forward over reverse mode: Griewank and Walther (2008),
//! chapter 5.

mod data;

use brolga_analysis::{ParamMode, ResultMode, Variant, query};
use brolga_ir::lower::{CHECK_SRCLOC, OF_A_RUN, is_half};
use brolga_ir::map::HashSet;
use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostics, FuncKey, Mode, Options, Program, Request, TapeKind};
use brolga_rules::math_rule;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::SecondaryMap;

use crate::clif::dead_segment_arg;
use crate::derived::{Derivation, DerivedCombined};
use crate::pipeline::all_variants::DerivationInput;
use crate::pipeline::inline_rollback::attempt;
use crate::stand_in::none_is_derived;
use crate::standalone::derived_func::DerivedFunc;
use crate::standalone::{as_written, indirect, prelude, taken};

/// What a parameter of a nested function is; numbers count parameters and results of the primal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedParam {
    /// A parameter of the primal.
    Primal(usize),
    /// The pointer to the shadow of a duplicated parameter.
    Shadow(usize),
    /// The seed of a result.
    Seed(usize),
    /// The tangent of an active parameter.
    Direction(usize),
    /// The workspace: positions and limits of a typed tape.
    Workspace,
}

/// What a result of a nested function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedResult {
    /// A result of the primal.
    Value(usize),
    /// The pointer to the shadow of a result, null if it has none.
    Shadow(usize),
    /// The cotangent of an active parameter.
    Cotangent(usize),
    /// The tangent of a result.
    Tangent(usize),
}

/// A derivative as a function of a program.
#[derive(Clone, Debug)]
pub struct NestedDerivative {
    /// The program that was given, with the derivative in it.
    pub program: Program,
    /// The derivative.
    pub func: FuncKey,
    /// One for each of its parameters.
    pub params: Vec<NestedParam>,
    /// One for each of its results.
    pub results: Vec<NestedResult>,
}

/// Value and gradient of a request as a function `(p…, shadows…, workspace, seeds…) -> (r…, p̄…)`,
/// or the gradient alone, `(p̄…)`, if the options' mode is [`Mode::Gradient`].
/// Memory is left as the primal leaves it, whatever the options say, and no shadow is taken to be
/// fresh.
///
/// # Errors
/// As [`derive`](crate::derive::derive()); AD0004 if a name is taken.
pub fn gradient(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<NestedDerivative, Diagnostics> {
    let mode = if options.mode == Mode::Gradient { Mode::Gradient } else { Mode::Combined };
    nested(program, request, &Options { mode, ..options.clone() }, isa)
}

/// Value and tangent of a request as a function `(p…, shadows…, workspace, ṗ…) -> (r…, ṙ…)`, whose
/// shadows hold tangents.
///
/// # Errors
/// As [`gradient`].
pub fn tangent(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<NestedDerivative, Diagnostics> {
    nested(program, request, &Options { mode: Mode::Tangent, ..options.clone() }, isa)
}

fn nested(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<NestedDerivative, Diagnostics> {
    settled(program, request, options, isa, &[], |derived| {
        let defined: HashSet<String> = derived.iter().map(|p| p.symbol.clone()).collect();
        let is_defined = |symbol: &str| defined.contains(symbol) || program.func(symbol).is_some();
        derived.iter_mut().for_each(|p| of_a_run(&mut p.func, &is_defined));
    })
}

/// What is left of helpers that have a segment has another name than those: where the derivative
/// runs without being derived there is none, and nothing of that name is linked.
fn of_a_run(func: &mut ir::Function, is_defined: &dyn Fn(&str) -> bool) {
    for callee in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let symbol = symbol_of(func, &func.dfg.ext_funcs[callee].name);
        let is_helper = symbol.starts_with("brolga_") && !is_half(&symbol) && math_rule(&symbol).is_none();
        if is_helper && !is_defined(&symbol) && !symbol.ends_with(OF_A_RUN) {
            func.dfg.ext_funcs[callee].name = ir::ExternalName::testcase(format!("{symbol}{OF_A_RUN}"));
        }
    }
}

/// [`gradient`] or [`tangent`], as the options have the mode, whose functions `settle` changes
/// before they are put into the program. The first is the root. Data that `given` names have these
/// objects of the program as shadows, which are not cleared.
pub(crate) fn settled(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
    given: &[(String, String)],
    settle: impl FnOnce(&mut [DerivedFunc]),
) -> Result<NestedDerivative, Diagnostics> {
    let mut request = request.clone();
    request.args.iter_mut().for_each(|a| a.promises.fresh = false);
    let options = Options { tape: TapeKind::Typed, ..options.clone() }.settled();
    let found = attempt(DerivationInput { program, request: &request, options: &options, isa })?.1;
    found.verify(isa)?;
    none_is_derived(&found)?;
    let combined = found.combined.as_ref().expect("both modes have one function");
    let primal = &program.funcs[request.func];
    let mut into = found.program.clone();
    let mut derived = derived(&found, combined, &primal.signature, isa);
    derived.iter_mut().for_each(|p| data::given(&mut p.func, given, into.nested));
    let shadows = data::shadows(&mut into, derived.iter().map(|p| &p.func))?;
    data::clear(&mut derived[0].func, &shadows, isa);
    settle(&mut derived);
    let funcs: Vec<ir::Function> = derived.iter().map(|p| p.func.clone()).collect();
    let mut root = None;
    for DerivedFunc { symbol, func, of, .. } in derived {
        let key = define(&mut into, &symbol, func, of)?;
        root.get_or_insert(key);
    }
    indirect::tables(&mut into, &found.captures, funcs.iter(), isa)?;
    into.nested += 1;
    let (params, results) = signature(combined, &primal.signature, options.mode);
    Ok(NestedDerivative { program: into, func: root.expect("there is a root"), params, results })
}

/// The derived functions, the root first, with bodies of helpers in them.
fn derived(
    found: &Derivation,
    combined: &DerivedCombined,
    primal: &ir::Signature,
    isa: &dyn TargetIsa,
) -> Vec<DerivedFunc> {
    let mut out = Vec::new();
    let mut put = |symbol: String, func: &ir::Function, variant: &Variant, segment: Option<usize>| {
        let helpers = prelude::Helpers::Nested { pieces: found.pieces };
        let func = prelude::expanded(as_written(func.clone(), &found.names), helpers, isa);
        out.push(DerivedFunc { symbol, func, of: variant.func, segment });
    };
    let segment_at = |variant: &Variant| Some(dead_segment_arg::position(variant));
    let names = (1..).map(|n| match n {
        1 => format!("{}_of_pointers", combined.symbol),
        n => format!("{}_of_pointers_{n}", combined.symbol),
    });
    let symbol = names.into_iter().find(|s| found.program.func(s).is_none()).expect("some number is free");
    let root = of_pointers(combined, primal);
    put(symbol, &root, &combined.variant, segment_at(&combined.variant).filter(|_| combined.segment));
    for p in &found.pairs {
        put(p.forward_symbol.clone(), &p.forward, &p.variant, segment_at(&p.variant));
        put(p.pullback_symbol.clone(), &p.pullback, &p.variant, Some(0));
    }
    for w in &found.joint {
        put(w.symbol.clone(), &w.func, &w.variant, segment_at(&w.variant).filter(|_| w.segment));
    }
    out
}

/// Define a derived function: its instructions have the lines and locations of their primal
/// instructions, and are called by these in messages.
fn define(into: &mut Program, symbol: &str, func: ir::Function, of: FuncKey) -> Result<FuncKey, Diagnostics> {
    let mut lines = vec![0; func.dfg.num_insts()];
    let mut locations = vec![ir::SourceLoc::default(); func.dfg.num_insts()];
    let mut stems = SecondaryMap::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let n = func.srcloc(inst).bits() & !CHECK_SRCLOC;
        if n != 0 && n != !CHECK_SRCLOC {
            let origin = into.origin(of, ir::Inst::from_u32(n - 1));
            lines[inst.as_u32() as usize] = into.funcs[origin.func].lines[origin.inst];
            locations[inst.as_u32() as usize] = into.funcs[origin.func].srclocs[origin.inst];
            let is_there = |body: &ir::Function| (origin.inst.as_u32() as usize) < body.dfg.num_insts();
            if into.funcs[origin.func].body.as_ref().is_some_and(is_there) {
                stems[inst] = Some((origin.func, origin.inst));
            }
        }
    }
    let key = into.define(symbol, func, |inst| lines[inst.as_u32() as usize]).map_err(|s| taken(&s))?;
    into.made.insert(key);
    let made = into.func_mut(key);
    made.stems = stems;
    locations.into_iter().enumerate().for_each(|(i, at)| made.srclocs[ir::Inst::from_u32(i as u32)] = at);
    Ok(key)
}

/// What the parameters and results of a derivative are, in their order.
fn signature(combined: &DerivedCombined, primal: &ir::Signature, mode: Mode) -> (Vec<NestedParam>, Vec<NestedResult>) {
    let Variant { params, results, .. } = &combined.variant;
    let shadows = (0..params.len()).filter(|&i| matches!(params[i], ParamMode::Dup { .. })).map(NestedParam::Shadow);
    let workspace = combined.segment.then_some(NestedParam::Workspace);
    let mut roles: Vec<NestedParam> =
        (0..params.len()).map(NestedParam::Primal).chain(shadows).chain(workspace).collect();
    let returned = (0..results.len()).filter(|&i| results[i] == ResultMode::Ptr).map(NestedResult::Shadow);
    let values = if combined.results { primal.returns.len() } else { 0 };
    let mut given: Vec<NestedResult> = (0..values).map(NestedResult::Value).chain(returned).collect();
    let of_params = combined.variant.param_shapes(primal).map(|p| p.0);
    let of_results = combined.variant.result_shapes(primal).map(|r| r.0);
    if mode == Mode::Tangent {
        roles.extend(of_params.map(NestedParam::Direction));
        given.extend(of_results.map(NestedResult::Tangent));
    } else {
        roles.extend(of_results.map(NestedParam::Seed));
        given.extend(of_params.map(NestedResult::Cotangent));
    }
    (roles, given)
}

/// The derivative with pointers to shadows in place of deltas, of results, too, and without a
/// segment that it does not use.
fn of_pointers(combined: &DerivedCombined, primal: &ir::Signature) -> ir::Function {
    let mut func = combined.func.clone();
    let entry = func.layout.entry_block().expect("it has a body");
    let n = primal.params.len();
    let dup: Vec<usize> = (0..n).filter(|&i| matches!(combined.variant.params[i], ParamMode::Dup { .. })).collect();
    for (k, &i) in dup.iter().enumerate() {
        let delta = func.dfg.block_params(entry)[n + k];
        let shadow = func.dfg.replace_block_param(delta, types::I64);
        let pointer = func.dfg.block_params(entry)[i];
        let inside = FuncCursor::new(&mut func).at_first_insertion_point(entry).ins().isub(shadow, pointer);
        func.dfg.change_to_alias(delta, inside);
        // The sum of both is the shadow itself, of which it is known that it has one.
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect::<Vec<_>>() {
            let ir::InstructionData::Binary { opcode: ir::Opcode::Iadd, args } = func.dfg.insts[inst] else { continue };
            let [a, b] = args.map(|v| func.dfg.resolve_aliases(v));
            if (a, b) == (pointer, inside) || (a, b) == (inside, pointer) {
                let sum = func.dfg.first_result(inst);
                func.layout.remove_inst(inst);
                func.dfg.clear_results(inst);
                func.dfg.change_to_alias(sum, shadow);
            }
        }
    }
    let returned: Vec<usize> =
        (0..primal.returns.len()).filter(|&i| combined.variant.results[i] == ResultMode::Ptr).collect();
    for inst in query::returns(&func).collect::<Vec<_>>() {
        for (k, &i) in returned.iter().enumerate() {
            let (pointer, delta) = (func.dfg.inst_args(inst)[i], func.dfg.inst_args(inst)[primal.returns.len() + k]);
            let mut cursor = FuncCursor::new(&mut func).at_inst(inst);
            let shadow = cursor.ins().iadd(pointer, delta);
            let none = cursor.ins().iconst(types::I64, 0);
            let shadow = cursor.ins().select(delta, shadow, none);
            func.dfg.inst_args_mut(inst)[primal.returns.len() + k] = shadow;
        }
    }
    if combined.segment {
        return func;
    }
    let at = n + dup.len();
    let segment = func.dfg.block_params(entry)[at];
    func.dfg.remove_block_param(segment);
    let nothing = FuncCursor::new(&mut func).at_first_insertion_point(entry).ins().iconst(types::I64, 0);
    func.dfg.change_to_alias(segment, nothing);
    func.signature.params.remove(at);
    func
}
