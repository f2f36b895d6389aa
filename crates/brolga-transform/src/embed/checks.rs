//! Validation of specs: whether a spec fits a function, and whether what came out stands alone.
//!
//! **Question.** Can a derivative of this spec stand in a module without the run time?
//!
//! **Answer.** All that does not fit is told at once, as AD0010; what a derived function needs of
//! the run time is told as AD0174, with what it is for.
//!
//! **Cost.** A look at each parameter and result, and a walk over the calls of each derived
//! function.

use std::collections::BTreeSet;

use brolga_ir::lower::{is_half, shadow_of_data};
use brolga_ir::program::symbol_of;
use brolga_ir::spec::{Derivative, FloatCount, ParamActivity, ParamSpec, ReturnActivity, Spec};
use brolga_ir::{DataKey, Diagnostic, Diagnostics, Elem, FuncKey, Options, Program};
use brolga_rules::OF_C;
use cranelift_codegen::ir::{self, types};
use cranelift_codegen::isa::TargetIsa;

use super::growth;
use crate::clif::entry_thunk::verify;
use crate::standalone::derived_func::DerivedFunc;

/// Refuse a target for which Cranelift cannot compile guards of products: operations on vectors.
pub(super) fn target(program: &Program, func: FuncKey, isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
    let has_v = || isa.isa_flags().iter().any(|f| f.name == "has_v" && f.as_bool() == Some(true));
    if isa.name() != "riscv64" || has_v() {
        return Ok(());
    }
    let d = Diagnostic::new("AD0160", "derivatives use vectors, which this machine does not have");
    Err(d.in_func(&program.funcs[func].symbol).help("set `has_v` for riscv64").into())
}

/// Refuse a debug run: the run time keeps its account of shadows and of the tape.
pub(super) fn no_debug_run(program: &Program, func: FuncKey, options: &Options) -> Result<(), Diagnostics> {
    if !options.debug {
        return Ok(());
    }
    let d = Diagnostic::new("AD0174", "a debug run in a derivative that becomes part of another module");
    let d = d.in_func(&program.funcs[func].symbol).note("the run time keeps account of shadows and of the tape");
    Err(d.help("leave out `Options::debug`, or use `DerivedRule`").into())
}

/// The spec with an output for each result.
pub(super) fn settled(program: &Program, func: FuncKey, spec: &Spec) -> Result<Spec, Diagnostics> {
    let f = &program.funcs[func];
    let mut found = Diagnostics::default();
    let mut wrong = |message: String, help: &str| {
        found.push(Diagnostic::new("AD0010", message).in_func(&f.symbol).help(help));
    };
    let forward = spec.derivative == Derivative::Tangent;
    for (i, input) in spec.params.iter().enumerate() {
        let (fits, help) = match input.activity {
            ParamActivity::Const => continue,
            ParamActivity::Dual | ParamActivity::DualOnly => (forward, "write Active, Duplicated or DuplicatedOnly"),
            _ => (!forward, "write Dual or DualOnly"),
        };
        if !fits {
            wrong(format!("argument {i} of %{} is {:?}, which is of the other mode", f.symbol, input.activity), help);
        }
    }
    for (i, input) in spec.params.iter().enumerate() {
        if let Some((what, help)) = consumed(&spec.params, i, &f.signature) {
            wrong(format!("argument {i} of %{} is {:?} and consumed, but {what}", f.symbol, input.activity), help);
        }
    }
    let mut spec = spec.clone();
    for r in f.signature.returns.iter().skip(spec.returns.len()) {
        let default = if forward { ReturnActivity::Dual } else { ReturnActivity::Active };
        spec.returns.push(if is_differentiable(r.value_type) { default } else { ReturnActivity::Const });
    }
    for (i, (output, r)) in spec.returns.iter().zip(&f.signature.returns).enumerate() {
        let is = |what: &str| format!("result {i} of %{} is {output:?}, but {what}", f.symbol);
        match output {
            ReturnActivity::Const | ReturnActivity::Omitted | ReturnActivity::Duplicated => {}
            ReturnActivity::Dual | ReturnActivity::DualOnly if !forward => {
                wrong(is("the mode is reverse"), "write Active or ActiveOnly")
            }
            ReturnActivity::Active | ReturnActivity::ActiveOnly if forward => {
                wrong(is("the mode is forward"), "write Dual or DualOnly")
            }
            _ if !is_differentiable(r.value_type) => {
                wrong(is(&format!("its type is {}", r.value_type)), "write Const, or Duplicated for a pointer");
            }
            _ => {}
        }
    }
    found.or_ok(spec)
}

/// Why an output cannot be consumed, and what to write.
fn consumed(params: &[ParamSpec], i: usize, signature: &ir::Signature) -> Option<(&'static str, &'static str)> {
    let count = params[i].consumed?;
    Some(match params[i].activity {
        ParamActivity::Dual | ParamActivity::DualOnly => {
            ("in forward mode there are no seeds", "leave `consumed` out, or ask for a gradient or a pair")
        }
        ParamActivity::Const | ParamActivity::Active => {
            ("there is no shadow", "write Duplicated or DuplicatedOnly for a pointer")
        }
        _ if !matches!(params[i].elem, Some(Elem::F64 | Elem::F32)) => {
            ("what lies there is no float", "say Elem::F64 or Elem::F32")
        }
        _ => match count {
            FloatCount::Fixed(_) => return None,
            FloatCount::Param(k) => match signature.params.get(k).map(|p| p.value_type) {
                Some(types::I64 | types::I32 | types::I16 | types::I8)
                    if params.get(k).is_some_and(|p| p.activity == ParamActivity::Const) =>
                {
                    return None;
                }
                _ => ("no constant integer argument says how many", "name one, or give a number"),
            },
        },
    })
}

fn is_differentiable(ty: ir::Type) -> bool {
    brolga_ir::inst::Shape::of_float(ty).is_some()
}

/// Refuse what needs a helper of the run time that has no body in CLIF.
pub(super) fn no_helpers(program: &Program, derived: &[DerivedFunc]) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::default();
    let mut told = BTreeSet::new();
    for p in derived {
        for inst in p.func.layout.blocks().flat_map(|b| p.func.layout.block_insts(b)) {
            let ir::InstructionData::Call { func_ref, .. } = p.func.dfg.insts[inst] else { continue };
            let symbol = symbol_of(&p.func, &p.func.dfg.ext_funcs[func_ref].name);
            let is_there = program.func(&symbol).is_some_and(|k| program.funcs[k].body.is_some())
                || derived.iter().any(|p| p.symbol == symbol);
            if !symbol.starts_with("brolga_") || is_there {
                continue;
            }
            let Some((what, help)) = reason(&symbol, program.confined) else { continue };
            if told.insert((p.of, what)) {
                found.push(helper(program, p, inst, &symbol, what, help));
            }
        }
    }
    found.or_ok(())
}

fn helper(program: &Program, p: &DerivedFunc, inst: ir::Inst, symbol: &str, what: &str, help: &str) -> Diagnostic {
    let d = Diagnostic::new("AD0174", format!("{what} in a derivative that becomes part of another module"));
    let number = p.func.srcloc(inst).bits() & !brolga_ir::lower::CHECK_SRCLOC;
    let is_known = number != 0 && number != !brolga_ir::lower::CHECK_SRCLOC;
    let d = if is_known {
        d.at(program, p.of, ir::Inst::from_u32(number - 1))
    } else {
        d.in_func(&program.funcs[p.of].symbol)
    };
    d.note(format!("the derivative calls the run time for it (%{symbol})")).help(help)
}

/// What a helper is for. `None` for the names of [`crate::standalone::indirect`], for what asks for
/// more workspace, and for C's functions, which a module finds or refuses.
fn reason(symbol: &str, confined: bool) -> Option<(&'static str, &'static str)> {
    Some(match symbol {
        s if is_half(s) || s.starts_with(OF_C) || s == growth::NAME => return None,
        s if ["alloc", "free", "release"].iter().any(|part| s.contains(part)) => (
            "blocks of an allocator of the program's own are not supported",
            "allocate outside of the function and pass a shadow",
        ),
        s if s.contains("demand") => (
            "floats whose bits are calculated from what may be those of others are not supported",
            "use operations of floats, or `DerivedRule`, which knows what the caller has put into memory",
        ),
        _ if confined => (
            "floats that are moved in pieces are not supported in memory of a module",
            "load and store floats as floats, or use `DerivedRule`",
        ),
        _ => (
            "floats that are moved in pieces are not supported on this target",
            "load and store floats as floats, or use `DerivedRule`",
        ),
    })
}

/// Data objects whose shadows the functions name.
pub(super) fn shadows(program: &Program, derived: &[DerivedFunc]) -> Vec<(DataKey, String)> {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for p in derived {
        named.extend(p.func.global_values.values().filter_map(|data| match data {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(&p.func, name)),
            _ => None,
        }));
    }
    let shadow = |key: DataKey| shadow_of_data(&program.data[key].symbol, program.nested);
    program.data.keys().map(|key| (key, shadow(key))).filter(|(_, symbol)| named.contains(symbol)).collect()
}

/// Ask Cranelift's verifier about all functions.
pub(super) fn verified(program: &Program, derived: &[DerivedFunc], isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for p in derived {
        let wrong = verify(&p.func, isa, &program.funcs[p.of].symbol).err();
        problems.extend(wrong.into_iter().flat_map(|e| e.0));
    }
    problems.or_ok(())
}
