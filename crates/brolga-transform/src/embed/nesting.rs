//! Nesting of embedded derivatives: a derivative that a module has, as a function that can be
//! derived.
//!
//! **Problem.** A derivative that was put into a module is called like any other function, and a
//! function that calls it, or it itself, may be derived. Its own text cannot be: on its tape lie
//! floats, integers and addresses side by side (see [`crate::nested`]).
//! **Answer.** [`define`] puts another text of it into the program, under its name and with its
//! signature: it calls the derivative that [`nested`] makes, which records on a typed tape.
//!
//! ```text
//! f__gradient(x, shadow of x, r̄, workspace, bytes) -> (x̄, status):
//!     header and channels     four parts of the workspace, or slots, if what is recorded has a bound
//!     call f__gradient_of_pointers(x, shadow of x, header, r̄) -> (r, x̄)
//!     return x̄, status of the header
//! ```
//!
//! Derived again, the workspace is memory like any other: it has a shadow.
//!
//! **Cost.** That of a derivation for each derivative that is reached.

use std::borrow::Cow;

use brolga_ir::inst::Check;
use brolga_ir::spec::{Derivative, Spec};
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Mode, Options, Program};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::room::{self, TypedRoom};
use super::root;
use super::signature::{DerivedSignature, ParamRole, ResultRole};
use super::{checks, consumed};
use crate::nested::{self, NestedDerivative, NestedParam, NestedResult};
use crate::standalone::{taken, typed_tape};

/// A derivative that is a function of a module.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedDerivative<'a> {
    /// Its name.
    pub symbol: &'a str,
    /// What it is the derivative of.
    pub func: FuncKey,
    /// What was asked for.
    pub spec: &'a Spec,
    /// How it is called.
    pub signature: &'a DerivedSignature,
    /// Writable data of the program that it uses, and the objects that are their shadows there.
    pub shadows: &'a [(String, String)],
}

/// Put a derivative into a program, as a function that can be derived. Says whether it keeps its
/// tape in the workspace that it is given.
///
/// # Errors
/// As [`embed`](super::embed()); AD0174 where writable data has a shadow that is not named.
pub fn define(
    program: &Program,
    of: EmbeddedDerivative<'_>,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<(Program, bool), Diagnostics> {
    let spec = checks::settled(program, of.func, of.spec)?;
    let prepared = consumed::prepared(Cow::Borrowed(program), of.func, &spec, isa)?;
    let primal = &program.funcs[of.func];
    let request = spec.request(prepared.func, &primal.signature);
    let mode = if spec.derivative == Derivative::Tangent { Mode::Tangent } else { Mode::Combined };
    let options = Options { mode, strong_zero: spec.strong_zero, debug: false, ..options.clone() };
    let mut tape = TypedRoom::Stack([0; 4]);
    let settle = |derived: &mut [_]| tape = room::settle_typed(derived);
    let found = nested::settled(&prepared.program, &request, &options, isa, of.shadows, settle);
    let mut found = found.map_err(|d| prepared.problems(d))?;
    if let Some(shadow) = found.program.data.values().nth(program.data.len()) {
        let d = Diagnostic::new("AD0174", format!("a derivative of %{}, which is a derivative", of.symbol));
        let d = d.in_func(&primal.symbol).note(format!("it uses the shadow of writable data (%{})", shadow.symbol));
        return Err(d.help("name its shadow (`set_data`), or pass the data by a pointer").into());
    }
    let (func, in_workspace) = Writer { of, found: &found, tape, isa }.function();
    found.program.define(of.symbol, func, |_| 0).map_err(|s| taken(&s))?;
    Ok((found.program, in_workspace))
}

struct Writer<'a> {
    of: EmbeddedDerivative<'a>,
    found: &'a NestedDerivative,
    tape: TypedRoom,
    isa: &'a dyn TargetIsa,
}

/// A typed tape in a function that is being written.
struct TypedTape {
    header: ir::Value,
    /// Blocks of the heap that it is in.
    blocks: Vec<ir::Value>,
}

impl Writer<'_> {
    fn function(&self) -> (ir::Function, bool) {
        let Self { of, found, isa, .. } = *self;
        let name = ir::UserFuncName::testcase(of.symbol);
        let mut func = ir::Function::with_name_signature(name, of.signature.clif.clone());
        let mut cx = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut cx);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        let given = b.block_params(block).to_vec();
        let param = |role| of.signature.param(role).map(|k| given[k]);
        let is_needed = found.params.contains(&NestedParam::Workspace);
        let workspace = param(ParamRole::Workspace).zip(param(ParamRole::WorkspaceBytes));
        let in_workspace = is_needed && workspace.is_some() && matches!(self.tape, TypedRoom::Given(_));
        let tape = is_needed.then(|| match (self.tape, workspace) {
            (TypedRoom::Stack(bytes), _) => on_stack(&mut b, bytes),
            (TypedRoom::Given(used), Some(workspace)) => self.in_workspace(&mut b, used, workspace, &given),
            (TypedRoom::Given(_), None) => {
                let (header, blocks) = typed_tape::on_heap(&mut b, isa);
                TypedTape { header, blocks: blocks.to_vec() }
            }
        });
        let arg = |role: &NestedParam| match *role {
            NestedParam::Primal(i) => param(ParamRole::Primal(i)),
            NestedParam::Shadow(i) => param(ParamRole::Shadow(i)),
            NestedParam::Direction(i) => param(ParamRole::Tangent(i)),
            NestedParam::Seed(k) => param(ParamRole::Seed(k)),
            NestedParam::Workspace => tape.as_ref().map(|t| t.header),
        };
        let args: Vec<ir::Value> = found.params.iter().map(|p| arg(p).expect("the signature has it")).collect();
        let callee = &found.program.funcs[found.func];
        let results = typed_tape::call(&mut b, &callee.symbol, callee.signature.clone(), &args);
        if let Some(tape) = tape.as_ref().filter(|t| !t.blocks.is_empty()) {
            // No result says so.
            let full = typed_tape::status(&mut b, tape.header);
            b.ins().trapnz(full, ir::TrapCode::unwrap_user(Check::TapeFull as u8));
        }
        let value = |role: NestedResult| found.results.iter().position(|r| *r == role).map(|k| results[k]);
        let mut out = Vec::new();
        for role in &of.signature.results {
            let v = match *role {
                ResultRole::Value(i) => value(NestedResult::Value(i)),
                ResultRole::Cotangent(i) => value(NestedResult::Cotangent(i)),
                ResultRole::Tangent(i) => value(NestedResult::Tangent(i)),
                ResultRole::Shadow(i) => value(NestedResult::Shadow(i)),
                ResultRole::Status if in_workspace => {
                    Some(typed_tape::status(&mut b, tape.as_ref().expect("it is in the workspace").header))
                }
                ResultRole::Status => Some(b.ins().iconst(types::I32, 0)),
            };
            out.push(v.expect("the derivative computes it"));
        }
        if let Some(tape) = tape {
            typed_tape::free(&mut b, isa, &tape.blocks);
        }
        self.give(&mut b, &out, &given);
        b.seal_all_blocks();
        b.finalize(isa.frontend_config());
        (func, in_workspace)
    }

    /// A header and channels in the workspace. Where it is too short even for these, the function
    /// returns.
    fn in_workspace(
        &self,
        b: &mut FunctionBuilder<'_>,
        used: [bool; 4],
        (at, bytes): (ir::Value, ir::Value),
        given: &[ir::Value],
    ) -> TypedTape {
        let n = used.iter().filter(|u| **u).count().max(1) as i64;
        let header_bytes = i64::from(typed_tape::HEADER);
        let least = b.ins().iconst(types::I64, header_bytes + 16 + 16 * n);
        let short = b.ins().icmp(IntCC::SignedLessThan, bytes, least);
        let (out, next) = (b.create_block(), b.create_block());
        b.set_cold_block(out);
        b.ins().brif(short, out, &[], next, &[]);
        b.switch_to_block(out);
        b.ensure_inserted_block();
        let mut cursor = FuncCursor::new(b.func).at_bottom(out);
        let values = root::without_room(&mut cursor, self.of.signature);
        self.give(b, &values, given);
        b.switch_to_block(next);
        // Memory may begin anywhere; the header and the channels are aligned.
        let up = b.ins().iconst(types::I64, 15);
        let mask = b.ins().iconst(types::I64, -16);
        let up = b.ins().iadd(at, up);
        let header = b.ins().band(up, mask);
        let around = b.ins().iconst(types::I64, header_bytes + 16);
        let rest = b.ins().isub(bytes, around);
        let n = b.ins().iconst(types::I64, n);
        let part = b.ins().udiv(rest, n);
        let part = b.ins().band(part, mask);
        let header_size = b.ins().iconst(types::I64, header_bytes);
        let mut base = b.ins().iadd(header, header_size);
        let none = b.ins().iconst(types::I64, 0);
        let channels = used.map(|is_used| {
            let this = base;
            if is_used {
                base = b.ins().iadd(base, part);
            }
            (this, if is_used { part } else { none })
        });
        typed_tape::begin(b, header, channels);
        TypedTape { header, blocks: vec![] }
    }

    /// Return values, or write them to their struct.
    fn give(&self, b: &mut FunctionBuilder<'_>, values: &[ir::Value], given: &[ir::Value]) {
        let signature = self.of.signature;
        let Some((layout, at)) = signature.layout.as_ref().zip(signature.param(ParamRole::Results)) else {
            b.ins().return_(values);
            return;
        };
        let ends = layout.offsets.iter().copied().skip(1).chain([layout.size]);
        for ((&value, &offset), end) in values.iter().zip(&layout.offsets).zip(ends) {
            let value = self.padded_word(b, value, offset.is_multiple_of(8) && end - offset >= 8);
            b.ins().store(MemFlagsData::new(), value, given[at], offset as i32);
        }
        b.ins().return_(&[]);
    }

    /// What is stored for a small integer, which would be stored over a part of a float, as far as
    /// the place tells: a word, if its field is padded to one, or the bits as a float of its size.
    fn padded_word(&self, b: &mut FunctionBuilder<'_>, value: ir::Value, padded: bool) -> ir::Value {
        let ty = b.func.dfg.value_type(value);
        match ty {
            types::I8 | types::I16 | types::I32 if padded => {
                let wide = b.ins().uextend(types::I64, value);
                match self.isa.endianness() {
                    ir::Endianness::Little => wide,
                    ir::Endianness::Big => b.ins().ishl_imm_u(wide, i64::from(64 - ty.bits())),
                }
            }
            types::I32 => b.ins().bitcast(types::F32, MemFlagsData::new(), value),
            _ => value,
        }
    }
}

fn on_stack(b: &mut FunctionBuilder<'_>, bytes: [u64; 4]) -> TypedTape {
    let header = typed_tape::slot(b, typed_tape::HEADER);
    let channels = bytes.map(|n| {
        let base = if n == 0 { header } else { typed_tape::slot(b, n as u32) };
        (base, b.ins().iconst(types::I64, n as i64))
    });
    typed_tape::begin(b, header, channels);
    TypedTape { header, blocks: vec![] }
}
