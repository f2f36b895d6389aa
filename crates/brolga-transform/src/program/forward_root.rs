//! Variant merging: a root that one of its own callees serves.
//!
//! **Problem.** A function that calls itself is derived twice: as it was asked for, and as it is
//! called. The second derivative does what the first one does, and with little effort the first one
//! is not worth the time.
//!
//! **Answer.** When it is known which variants the root calls, it is looked whether one of them
//! takes and gives what the root has to. Then the root only calls that:
//!
//! ```text
//! f__gradient(p…, seg, r̄…) -> p̄…           f__gradient(p…, seg, r̄…) -> r…, p̄…
//!     p̄… = f__gradient_v2(p…, seg, r̄…)          r… = f__forward(p…, seg)
//!     return p̄…                                  cursor = top; p̄… = f__pullback(seg, r̄…)
//!                                                return r…, p̄…
//! ```
//!
//! **Invariants.** The numbers are those that a function of the root's own would give, bit by bit:
//! it would know of its arguments what the callee knows ([`serves`]), and a pair, which runs no
//! loop again, and each call, only serves a root without loops that runs all its calls. A pair has
//! its frame on the tape, where a function of both halves has it on the stack; the tape gets so
//! much more room ([`on_tape`]), so that the cap is met where it would be met otherwise. After the
//! root nothing records, so the tape's top stays where the forward pass has left it: that much was
//! recorded. What else the root has asked for is forgotten: its server asks for what it needs.
//!
//! **Where.** With little effort. With all, a root of its own may be faster, as where most of the
//! work is done before it calls itself.
//!
//! **Cost.** A look at each variant that is asked for so far.

use brolga_analysis::variant::combined_signature;
use brolga_analysis::{ParamMode, ResultMode, Variant};
use brolga_ir::lower::{Channel, segment, tape_flags};
use brolga_ir::names::Names;
use brolga_ir::{Effort, MemoryMode, Mode, Options, Pass};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, Signature, UserFuncName, types};

use crate::clif::dead_segment_arg;
use crate::derived::{DerivedCombined, DerivedPair, Symbols};
use crate::facts::Facts;
use crate::program::variants::{VariantForm, Worklist};

/// The variant that serves a root.
pub(crate) struct ServingVariant {
    /// The variant, and how it is derived.
    pub by: (Variant, VariantForm),
    /// Whether it moves floats in pieces.
    pub pieces: bool,
}

/// Bytes that a pair takes on the tape for its frame: with the link to it, and what lies between
/// for the sake of alignment.
pub(crate) fn on_tape(pair: &DerivedPair) -> usize {
    if pair.frame == 0 { 0 } else { pair.frame as usize + 8 + 16 }
}

/// The variant that serves the root of these facts, among those that are asked for so far.
pub(crate) fn served(
    facts: &Facts<'_>,
    root: &Variant,
    work: &Worklist<'_>,
    options: &Options,
) -> Option<ServingVariant> {
    let wanted = facts.mode.is_joint() && options.effort == Effort::Quick && options.runs(Pass::ForwardRoot);
    // What only a root's own function does.
    let root_only = facts.release.is_some() || facts.overwrites.arguments.contains(&true) || options.debug;
    if !wanted || root_only || options.memory == MemoryMode::Restore {
        return None;
    }
    // Promises of the caller's are of no use to others. A root with some may record less in
    // loops.
    let straight = facts.loops.loops.is_empty();
    let promised = !root.promises.is_empty();
    let may = |kind: VariantForm| match kind {
        VariantForm::Tangent => false,
        VariantForm::Combined => facts.mode == Mode::Gradient && (straight || !promised),
        // The forward pass of a pair runs all calls.
        VariantForm::Pair => straight && facts.joint.is_empty(),
    };
    let by = work.variants.iter().find(|(v, kind)| may(*kind) && serves(v, root, facts))?;
    Some(ServingVariant { by: by.clone(), pieces: facts.needs_pieces() })
}

/// Whether a variant takes and gives what another one does, that of these facts, but for seeds that
/// are one. What memory is taken to hold may be what the root takes it to hold.
fn serves(variant: &Variant, root: &Variant, facts: &Facts<'_>) -> bool {
    if variant.promises.iter().any(|p| p.no_cotangent) {
        return false;
    }
    let formal = facts.func().dfg.block_params(facts.cfg.blocks[0]);
    let param = |i: usize| match (variant.params[i], root.params[i]) {
        (
            ParamMode::Dup { holds, recycled, floats, .. },
            ParamMode::Dup { holds: told, recycled: may_recycle, floats: may_float, .. },
        ) => {
            let known = holds == told || holds == facts.contents.of_class(formal[i]).told();
            known && recycled == may_recycle && floats == may_float
        }
        (theirs, asked) => theirs == asked,
    };
    let seed = |(theirs, asked)| theirs == asked || (theirs, asked) == (&ResultMode::Active, &ResultMode::Unit);
    variant.func == root.func
        && (0..root.params.len()).all(param)
        && variant.results.iter().zip(&root.results).all(seed)
}

/// The root's function.
pub(crate) fn root(
    root: Variant,
    by: &Variant,
    callees: &Symbols,
    symbol: String,
    mode: Mode,
    primal: &Signature,
    names: &mut Names,
) -> DerivedCombined {
    let n_results = if mode == Mode::Combined { primal.returns.len() } else { 0 };
    let of_root = (root.forward_signature(primal), root.pullback_signature(primal));
    let theirs = (by.forward_signature(primal), by.pullback_signature(primal));
    let sig = combined_signature(&of_root.0, &of_root.1, n_results);
    let mut func = ir::Function::with_name_signature(UserFuncName::testcase(names.spell(&symbol)), sig);
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    for p in func.signature.params.clone() {
        func.dfg.append_block_param(block, p.value_type);
    }
    let params = func.dfg.block_params(block).to_vec();
    let (first, seeds) = params.split_at(dead_segment_arg::position(&root) + 1);
    let seg = *first.last().expect("there is a segment");
    let mut import = |func: &mut ir::Function, symbol: &str, signature: Signature| {
        let signature = func.import_signature(signature);
        let name = ir::ExternalName::testcase(names.spell(symbol));
        func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false })
    };
    // Those that are one are no parameters of the root.
    let mut given = seeds.iter().copied();
    let mut passed = Vec::new();
    for ((r, of), ty) in by.results.iter().zip(&root.results).zip(&primal.returns) {
        if *r != ResultMode::Active {
            continue;
        }
        passed.push(match of {
            ResultMode::Unit if ty.value_type == types::F32 => at_end(&mut func, block).ins().f32const(1.0),
            ResultMode::Unit => at_end(&mut func, block).ins().f64const(1.0),
            _ => given.next().expect("it is active"),
        });
    }
    let results = match callees {
        Symbols::Combined(callee) => {
            let callee = import(&mut func, callee, combined_signature(&theirs.0, &theirs.1, 0));
            let args: Vec<ir::Value> = first.iter().copied().chain(passed).collect();
            call(&mut func, block, callee, &args)
        }
        Symbols::Pair(callees) => {
            let forward = import(&mut func, &callees.forward, theirs.0);
            let pullback = import(&mut func, &callees.pullback, theirs.1);
            let mut results = call(&mut func, block, forward, first);
            results.truncate(n_results);
            let flags = tape_flags(&mut func, Channel::Mixed);
            let mut pos = at_end(&mut func, block);
            let top = pos.ins().load(types::I64, flags, seg, segment::TOP);
            pos.ins().store(flags, top, seg, segment::CURSOR);
            let args: Vec<ir::Value> = std::iter::once(seg).chain(passed).collect();
            results.extend(call(&mut func, block, pullback, &args));
            results
        }
    };
    at_end(&mut func, block).ins().return_(&results);
    let segment = true;
    DerivedCombined { variant: root, symbol, func, results: mode == Mode::Combined, segment, versioned: false }
}

fn at_end(func: &mut ir::Function, block: ir::Block) -> FuncCursor<'_> {
    FuncCursor::new(func).at_bottom(block)
}

fn call(func: &mut ir::Function, block: ir::Block, callee: ir::FuncRef, args: &[ir::Value]) -> Vec<ir::Value> {
    let call = at_end(func, block).ins().call(callee, args);
    func.dfg.inst_results(call).to_vec()
}
