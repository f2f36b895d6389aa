//! Stand-ins: bodies for imported functions that have an adjoint of the user's.
//!
//! **Problem.** Analyses ask what a callee reads and writes, and of what its results depend. An
//! import has no body that says so. **Answer.** A body that does all that a rule may speak of
//! ([`stand_in`]). It is neither compiled nor derived: calls are differentiated by the rule, and
//! [`none_is_derived`] refuses what would do otherwise.
//!
//! **Cost.** A few instructions, once for each rule.

use brolga_ir::{Diagnostic, Diagnostics};
use brolga_rules::AdjointRule;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};

use crate::derived::Derivation;
use crate::translate::rules::libm::clif_type;

/// A data object that stands for memory of other processes. No code that is compiled names it.
pub(crate) const ELSEWHERE: &str = "brolga_elsewhere";

/// The stand-in of a function with this signature: its results and what is behind its pointers
/// depend on its float arguments and on what was there, at places that are not known, and on what
/// is elsewhere, which depends on them. Where the rule says that it only reads, nothing is stored.
pub(crate) fn stand_in(symbol: &str, signature: &Signature, rule: &AdjointRule) -> ir::Function {
    let name = ir::UserFuncName::testcase(symbol);
    let mut func = ir::Function::with_name_signature(name, signature.clone());
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    let params: Vec<ir::Value> =
        signature.params.iter().map(|p| func.dfg.append_block_param(block, p.value_type)).collect();
    let of = |wanted: fn(ir::Type) -> bool| {
        let all = params.iter().zip(&signature.params).enumerate();
        all.filter(move |p| wanted(p.1.1.value_type)).map(|(i, p)| (i, *p.0)).collect::<Vec<(usize, ir::Value)>>()
    };
    let (floats, pointers) = (of(ir::Type::is_float), of(|ty| ty == types::I64));
    let mut c = FuncCursor::new(&mut func).at_bottom(block);
    let mut sum = c.ins().f64const(0.0);
    for (_, p) in floats {
        sum = added(&mut c, sum, p);
    }
    let at = c.ins().fcvt_to_sint_sat(types::I64, sum);
    let three = c.ins().iconst(types::I64, 3);
    let at = c.ins().ishl(at, three);
    let places: Vec<(usize, ir::Value)> = pointers.into_iter().map(|(i, p)| (i, c.ins().iadd(p, at))).collect();
    let elem = clif_type(rule.elem);
    for &(_, place) in &places {
        let x = c.ins().load(elem, MemFlagsData::new(), place, 0);
        sum = added(&mut c, sum, x);
    }
    if !rule.alone {
        let name = ir::ExternalName::testcase(ELSEWHERE);
        let data = ir::GlobalValueData::Symbol { name, offset: 0.into(), colocated: false, tls: false };
        let data = c.func.create_global_value(data);
        let elsewhere = c.ins().symbol_value(types::I64, data);
        let x = c.ins().load(types::F64, MemFlagsData::new(), elsewhere, 0);
        sum = added(&mut c, sum, x);
        c.ins().store(MemFlagsData::new(), sum, elsewhere, 0);
    }
    let narrow = c.ins().fdemote(types::F32, sum);
    for &(_, place) in places.iter().filter(|p| !rule.reads.contains(&p.0)) {
        c.ins().store(MemFlagsData::new(), if elem == types::F32 { narrow } else { sum }, place, 0);
    }
    let results: Vec<ir::Value> = signature
        .returns
        .iter()
        .map(|r| match r.value_type {
            types::F64 => sum,
            types::F32 => narrow,
            ty => c.ins().fcvt_to_sint_sat(ty, sum),
        })
        .collect();
    c.ins().return_(&results);
    func
}

/// A sum in double precision.
fn added(c: &mut FuncCursor<'_>, sum: ir::Value, x: ir::Value) -> ir::Value {
    let is_single = c.func.dfg.value_type(x) == types::F32;
    let x = if is_single { c.ins().fpromote(types::F64, x) } else { x };
    c.ins().fadd(sum, x)
}

/// Refuse a derivation in which the text of a stand-in was derived: it is called through a pointer,
/// which says nothing of a rule.
pub(crate) fn none_is_derived(found: &Derivation) -> Result<(), Diagnostics> {
    let pairs = found.pairs.iter().map(|p| &p.variant);
    let combined = found.joint.iter().chain(&found.combined).map(|w| &w.variant);
    let mut problems = Diagnostics::default();
    for variant in pairs.chain(combined).filter(|v| found.program.funcs[v.func].stand_in) {
        let symbol = &found.program.funcs[variant.func].symbol;
        let d = Diagnostic::new("AD0176", format!("a call of %{symbol} by its address"));
        let d = d.in_func(symbol).note("it is imported, and its rule is for calls by its name");
        problems.push(d.help("take the address of a function that calls it"));
    }
    problems.or_ok(())
}
