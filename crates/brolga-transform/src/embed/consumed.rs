//! Consumed seeds: outputs that the function only adds to.
//!
//! **Problem.** A shadow ends as the cotangent of what was in memory before the call. Where the
//! function only adds to a place that is the seed, which stays; a caller for whom the memory is an
//! output alone wants zeros there, as where the function overwrites it.
//! **Answer.** [`ParamSpec::consumed`](brolga_ir::spec::ParamSpec::consumed) says that what was
//! there before the call has no derivative. [`prepared`] says so to the derivation: it derives a
//! copy of the function that begins with putting there what is there, read through a pointer
//! without a shadow.
//!
//! ```text
//! q = call %f__untracked(p)          the same address, of a function whose result is a constant
//! for i in 0..n { p[i] = q[i] }      reverse: for i in 0..n { shadow[i] = 0 }
//! ```
//!
//! The copy is not called by what the function calls, so a recursive function consumes once.
//!
//! **Cost.** A loop over the output in each half.

use std::borrow::Cow;

use brolga_ir::spec::{FloatCount, ParamSpec, Spec};
use brolga_ir::{AttachedValue, Diagnostics, Elem, FuncKey, Program};
use brolga_rules::{MathRule, Ty, UserRule};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::isa::TargetIsa;

use crate::standalone::taken;

/// A function of a pointer that returns it, as a constant.
pub(super) const UNTRACKED: &str = "address__untracked";

/// A program, and what is derived in place of a function. Its instructions have the numbers that
/// they have in the function.
pub(super) struct PreparedProgram<'p> {
    pub program: Cow<'p, Program>,
    pub func: FuncKey,
    /// The function.
    pub of: FuncKey,
}

/// The program with a copy of `func` that says what is an output, if anything is.
pub(super) fn prepared<'p>(
    program: Cow<'p, Program>,
    of: FuncKey,
    spec: &Spec,
    isa: &dyn TargetIsa,
) -> Result<PreparedProgram<'p>, Diagnostics> {
    let f = program.funcs[of].clone();
    let fits = spec.params.len() == f.signature.params.len();
    let body = f.body.as_ref().filter(|_| fits && spec.params.iter().any(|p| p.consumed.is_some()));
    let Some(body) = body else { return Ok(PreparedProgram { program, func: of, of }) };
    let mut program = program.into_owned();
    untracked(&mut program, isa)?;
    let names = (1..).map(|n| match n {
        1 => format!("{}__consuming", f.symbol),
        n => format!("{}__consuming_{n}", f.symbol),
    });
    let symbol = names.into_iter().find(|s| program.func(s).is_none()).expect("some number is free");
    let copy = Outputs { func: body.clone(), spec, isa }.copy();
    let func = program.define(&symbol, copy, |i| f.lines[i]).map_err(|s| taken(&s))?;
    let copy = program.func_mut(func);
    (copy.srclocs, copy.called, copy.untracked) = (f.srclocs.clone(), f.called.clone(), f.untracked);
    copy.stems = f.stems.clone();
    Ok(PreparedProgram { program: Cow::Owned(program), func, of })
}

impl PreparedProgram<'_> {
    /// Problems of the copy are problems of the function.
    pub(super) fn problems(&self, mut found: Diagnostics) -> Diagnostics {
        let [copy, symbol] = [self.func, self.of].map(|f| &self.program.funcs[f].symbol);
        for d in found.0.iter_mut().filter(|d| d.function == *copy) {
            d.function.clone_from(symbol);
        }
        found
    }
}

/// Put [`UNTRACKED`] into a program.
fn untracked(program: &mut Program, isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
    let rule = UserRule::Inactive.for_function(UNTRACKED, &[Ty::I64], &[Ty::I64]).expect("it has types of rules");
    let has = |k: FuncKey| {
        program.funcs[k].rule.as_ref().and_then(AttachedValue::get::<MathRule>).is_some_and(|r| *r == rule)
    };
    if program.func(UNTRACKED).is_some_and(has) {
        return Ok(());
    }
    let name = ir::UserFuncName::testcase(UNTRACKED);
    let mut func = ir::Function::with_name_signature(name, pointer_to_pointer(isa));
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    let given = func.dfg.append_block_param(block, types::I64);
    FuncCursor::new(&mut func).at_bottom(block).ins().return_(&[given]);
    let key = program.define(UNTRACKED, func, |_| 0).map_err(|s| taken(&s))?;
    program.func_mut(key).rule = Some(AttachedValue::new(rule));
    Ok(())
}

fn pointer_to_pointer(isa: &dyn TargetIsa) -> Signature {
    let mut sig = Signature::new(isa.default_call_conv());
    sig.params.push(AbiParam::new(types::I64));
    sig.returns.push(AbiParam::new(types::I64));
    sig
}

/// A function that is to say what is an output.
struct Outputs<'a> {
    func: ir::Function,
    spec: &'a Spec,
    isa: &'a dyn TargetIsa,
}

impl Outputs<'_> {
    /// The body after loops that put into outputs what is there.
    fn copy(mut self) -> ir::Function {
        let old = self.func.layout.entry_block().expect("it has a body");
        let params = self.func.dfg.detach_block_params(old).as_slice(&self.func.dfg.value_lists).to_vec();
        let mut at = self.func.dfg.make_block();
        self.func.layout.insert_block(at, old);
        params.iter().for_each(|&p| self.func.dfg.attach_block_param(at, p));
        let signature = self.func.import_signature(pointer_to_pointer(self.isa));
        let name = ir::ExternalName::testcase(UNTRACKED);
        let callee = ir::ExtFuncData { name, signature, colocated: false, patchable: false };
        let untracked = self.func.import_function(callee);
        for (i, p) in self.spec.params.iter().enumerate() {
            if p.consumed.is_some() {
                at = self.output(at, params[i], p, (&params, untracked));
            }
        }
        FuncCursor::new(&mut self.func).at_bottom(at).ins().jump(old, &[]);
        self.func
    }

    /// A loop at the end of a block. What comes next is in another block.
    fn output(
        &mut self,
        at: ir::Block,
        pointer: ir::Value,
        spec: &ParamSpec,
        (params, untracked): (&[ir::Value], ir::FuncRef),
    ) -> ir::Block {
        let ty = if spec.elem == Some(Elem::F32) { types::F32 } else { types::F64 };
        let [head, body, next] = [(); 3].map(|()| self.func.dfg.make_block());
        for block in [next, body, head] {
            self.func.layout.insert_block_after(block, at);
        }
        let i = self.func.dfg.append_block_param(head, types::I64);
        let mut cursor = FuncCursor::new(&mut self.func).at_bottom(at);
        let call = cursor.ins().call(untracked, &[pointer]);
        let from = cursor.func.dfg.first_result(call);
        let n = match spec.consumed {
            Some(FloatCount::Param(k)) if cursor.func.dfg.value_type(params[k]) == types::I64 => params[k],
            Some(FloatCount::Param(k)) => cursor.ins().sextend(types::I64, params[k]),
            Some(FloatCount::Fixed(n)) => cursor.ins().iconst(types::I64, i64::from(n)),
            None => unreachable!("it is an output"),
        };
        let zero = cursor.ins().iconst(types::I64, 0);
        cursor.ins().jump(head, &[zero.into()]);
        cursor.goto_bottom(head);
        let more = cursor.ins().icmp(IntCC::SignedLessThan, i, n);
        cursor.ins().brif(more, body, &[], next, &[]);
        cursor.goto_bottom(body);
        let size = cursor.ins().iconst(types::I64, i64::from(ty.bytes()));
        let offset = cursor.ins().imul(i, size);
        let [from, to] = [from, pointer].map(|p| cursor.ins().iadd(p, offset));
        let there = cursor.ins().load(ty, MemFlagsData::new(), from, 0);
        cursor.ins().store(MemFlagsData::new(), there, to, 0);
        let one = cursor.ins().iconst(types::I64, 1);
        let following = cursor.ins().iadd(i, one);
        cursor.ins().jump(head, &[following.into()]);
        next
    }
}
