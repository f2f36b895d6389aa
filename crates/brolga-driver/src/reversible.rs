//! Reversible functions: `.rev` files as programs.
//!
//! **Question.** What do `run`, `grad`, `check` and `dump` make of a file of reversible functions?
//!
//! **Answer.** What they make of CLIF: each function is a pair in CLIF, each of whose instructions
//! has the line of the statement that it is of. A check that fails is a trap with a name and a
//! line. A call gives a buffer for each place, as long as its type says; what lies in it is then
//! known by type, four bytes at a time ([`PlaceWord`]). Of a function that no call names, its types
//! say what is active ([`ReversibleFile::specs`]).
//!
//! | code | problem |
//! |---|---|
//! | AD0031 | text that is none of the language |
//! | AD0032 | a name that is unknown, or there twice |
//! | AD0033 | types that do not fit |
//! | AD0034 | a statement that changes what it reads |
//! | AD0035 | a place that does not end where it was made |
//! | AD0036 | the number of an iteration is changed |
//!
//! **Cost.** One compilation of the file, and the verifier over each function that comes out. A
//! call is compared with the parameters a few times.

use std::sync::Arc;

use brolga::{ArgSpec, Diagnostic, Diagnostics, Elem, Program, StateLength};
use brolga_ir::driver::Driver;
use brolga_reversible::ast::{File as Functions, FnParam, Type};
use brolga_reversible::{CompiledProgram, PlaceWord, RevError, compile};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::verify_function;

use crate::bind::{BoundArg, Invocation, arguments};
use crate::text::cursor::ParseResult;
use crate::text::{Call, ElemType, Literal, SyntaxError, UndoneFunction};

/// The reversible functions of a file.
#[derive(Clone, Debug)]
pub struct ReversibleFile {
    /// They themselves.
    pub functions: Functions,
    /// Their inverses.
    pub inverses: Functions,
}

/// What a file says of functions with inverses.
#[derive(Clone, Copy, Debug)]
pub struct KnownInverses<'f> {
    /// Its reversible functions, if it is of these.
    pub reversible: Option<&'f ReversibleFile>,
    /// Functions in CLIF that others undo.
    pub undone: &'f [UndoneFunction],
}

/// Whether a file of this name has reversible functions.
pub fn is_reversible(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|e| e == "rev")
}

impl ReversibleFile {
    /// That a call gives as many arguments as there are parameters, and a buffer for each place.
    pub(crate) fn takes(&self, text: &str, call: &Call, is_defined: bool) -> ParseResult<()> {
        let symbol = call.func.node.as_str();
        let name = symbol.strip_suffix("__inverse").unwrap_or(symbol);
        let Some(function) = self.functions.functions.iter().find(|f| f.name == name) else {
            // Parts of what a function is compiled to take their numbers in a form of their own.
            let part = self.functions.functions.iter().find(|f| symbol.starts_with(&format!("{}__", f.name)));
            let Some(of) = part else {
                // A caller may have added functions in CLIF.
                if is_defined {
                    return Ok(());
                }
                let names: Vec<String> = self.functions.functions.iter().map(|f| format!("%{}", f.name)).collect();
                let message = format!("`%{symbol}` is not defined");
                let help = format!("the file defines {}, and the inverse of each (%f__inverse)", names.join(", "));
                return Err(SyntaxError::new(text, call.func.span.clone(), message).help(help));
            };
            let message = format!("`%{symbol}` is a part of what `{}` is compiled to", of.name);
            let help = format!("call `%{}`, or `%{}__inverse`", of.name, of.name);
            return Err(SyntaxError::new(text, call.func.span.clone(), message).help(help));
        };
        let wrong =
            |span, message| Err(SyntaxError::new(text, span, message).help(format!("it is `{}`", function.head())));
        if call.args.len() != function.params.len() {
            let message = format!("`{symbol}` takes {}, not {}", arguments(function.params.len()), call.args.len());
            return wrong(call.span.clone(), message);
        }
        for (p, written) in function.params.iter().zip(&call.args) {
            let is_place = !(p.input && matches!(p.ty, Type::I64 | Type::I32));
            match written {
                Literal::Number(n) if is_place => {
                    let message =
                        format!("`{}` is a place, and `{}` is none: write `[…]`, with what it holds", p.name, n.node);
                    return wrong(n.span.clone(), message);
                }
                Literal::List(l) if !is_place => {
                    let message = format!("`{}` is an integer that is passed by value: write no brackets", p.name);
                    return wrong(l.span.clone(), message);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// That a call gives each parameter what it takes: buffers of its numbers, as long as they have
    /// to be. What lies in each.
    pub(crate) fn fits(
        &self,
        text: &str,
        call: &Call,
        bound: &Invocation,
    ) -> ParseResult<Vec<Option<Arc<[PlaceWord]>>>> {
        let name = bound.symbol.strip_suffix("__inverse").unwrap_or(&bound.symbol);
        let Some(function) = self.functions.functions.iter().find(|f| f.name == name) else {
            return Ok(vec![]);
        };
        let mut words = vec![None; bound.args.len()];
        let length = |n: &str| match bound.args.get(function.params.iter().position(|p| p.name == n)?)? {
            BoundArg::Value(DataValue::I64(n)) => Some(*n),
            _ => None,
        };
        for (i, (p, written)) in function.params.iter().zip(&call.args).enumerate() {
            let wrong = |what: String| {
                let takes = format!("`{}` takes `{}: {}`", function.name, p.name, p.ty);
                Err(SyntaxError::new(text, written.span(), format!("{takes}, and is given {what}")))
            };
            if let (Type::I32, BoundArg::Value(DataValue::I64(n))) = (&p.ty, &bound.args[i])
                && i32::try_from(*n).is_err()
            {
                return wrong(format!("{n}, which has more than 32 bits"));
            }
            let Some((_, elem, data, _)) = bound.buffer(i) else { continue };
            let numbers = element(&p.ty);
            if numbers.is_some_and(|wanted| wanted != elem) {
                return wrong(format!("a buffer of {}", elem.name()));
            }
            match self.functions.bytes_of(&p.ty, length) {
                Some(bytes) if data.len() as u64 >= bytes => {}
                Some(bytes) => return wrong(format!("{} bytes of {bytes}", data.len())),
                // A run says so, if an element is named.
                None => {}
            }
            words[i] = self.functions.words_of(&p.ty, length).map(Arc::from);
        }
        Ok(words)
    }
}

impl ReversibleFile {
    /// What the parameters of `%f` or `%f__inverse` are to a derivative where a caller does not say
    /// it: places are duplicated, unless they and all that is passed by value hold integers.
    pub fn specs(&self, symbol: &str) -> Option<Vec<ArgSpec>> {
        let name = symbol.strip_suffix("__inverse").unwrap_or(symbol);
        let function = self.functions.functions.iter().find(|f| f.name == name)?;
        let spec = |p: &FnParam| {
            let elem = (!(p.input && matches!(p.ty, Type::I64 | Type::I32))).then(|| element(&p.ty)).flatten();
            let elem = elem.map(|elem| match elem {
                ElemType::F64 => Elem::F64,
                ElemType::F32 => Elem::F32,
                ElemType::Int(_) => Elem::Int,
            });
            let activity = if self.functions.has_cotangents(&p.ty) { ArgSpec::DUPLICATED } else { ArgSpec::CONST };
            ArgSpec { elem, ..activity }
        };
        Some(function.params.iter().map(spec).collect())
    }
}

/// That the buffers of a call are as long as the states that they are, if the function is one that
/// is undone, or passes its parameters to such.
///
/// # Errors
/// The buffer that is too short: copies of the state would read past it.
pub(crate) fn states_fit(
    program: &Program,
    undone: &[UndoneFunction],
    text: &str,
    call: &Call,
    bound: &Invocation,
) -> ParseResult<()> {
    // Of what a callee is given for a length nothing is known here.
    let fits = |name: &str, param: usize, arg: usize, length: Option<u64>| match (length, bound.buffer(arg)) {
        (Some(n), Some((_, _, data, _))) if (data.len() as u64) < n => {
            let is = data.len();
            let message = format!("the state at parameter {param} of %{name} has {n} bytes, and this buffer {is}");
            let e = SyntaxError::new(text, call.args[arg].span(), message);
            Err(e.help("say how many bytes there are, or pass a longer buffer"))
        }
        _ => Ok(()),
    };
    for u in undone.iter().filter(|u| [u.function.node.clone(), u.undoes()].contains(&bound.symbol)) {
        let bytes = |length: StateLength| length.of(|i| bound.integer(i).unwrap_or(0));
        u.state.iter().try_for_each(|&(param, length)| fits(&bound.symbol, param, param, bytes(length)))?;
    }
    let Some(body) = &program.funcs[bound.func].body else { return Ok(()) };
    let entry = body.layout.entry_block().expect("it has a body");
    for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
        let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[inst] else { continue };
        let Some(callee) = program.callee(body, func_ref).map(|k| &program.funcs[k]) else { continue };
        let Some(Driver::Inverse(of)) = &callee.driver else { continue };
        for part in of.state.iter().filter(|p| p.offset == 0) {
            let [param] = part.address[..] else { continue };
            let v = body.dfg.resolve_aliases(body.dfg.inst_args(inst)[param]);
            if let Some(arg) = body.dfg.block_params(entry).iter().position(|&p| p == v) {
                let name = undone.iter().find(|u| *u.undoes() == *of.undo).map_or("f", |u| u.function.node.as_str());
                fits(name, param, arg, part.length.of(|_| 0))?;
            }
        }
    }
    Ok(())
}

/// What a place is a buffer of, if of one kind of numbers.
fn element(ty: &Type) -> Option<ElemType> {
    match ty {
        Type::F64 | Type::Complex | Type::Q43 | Type::Log => Some(ElemType::F64),
        Type::F32 => Some(ElemType::F32),
        Type::I64 => Some(ElemType::Int(64)),
        Type::I32 => Some(ElemType::Int(32)),
        Type::Array(of, _) => element(of),
        Type::Stack(..) | Type::Record(_) => None,
    }
}

/// Read a text: the program, the functions with their lines, and what they were made of.
pub(crate) fn read(text: &str, isa: &dyn TargetIsa) -> Result<(DefinedProgram, ReversibleFile), Diagnostics> {
    let compiled = compile(text).map_err(|all| {
        let mut found = Diagnostics::default();
        all.0.iter().for_each(|e| found.push(diagnostic(e, text)));
        found
    })?;
    if compiled.file.functions.is_empty() {
        let d = Diagnostic::new("AD0003", "the file defines no function");
        return Err(d.help("a function looks like `fn f(y: f64, x: in f64) { y += x * x }`").into());
    }
    let defined = program(&compiled, isa)?;
    let inverses = compiled.inverse();
    Ok((defined, ReversibleFile { functions: compiled.file, inverses }))
}

/// An error of the language: with its line, and carets below what is meant if that is a part of
/// the statement.
fn diagnostic(e: &RevError, text: &str) -> Diagnostic {
    let mut d = Diagnostic::new(e.kind.code(), e.message.clone());
    d.function.clone_from(&e.function);
    d.line = Some(e.at.line);
    let line = text.lines().nth((e.at.line as usize).saturating_sub(1)).unwrap_or_default().trim_end();
    let from = (e.at.column as usize).saturating_sub(1);
    if let (Some(before), Some(rest)) = (line.get(..from), line.get(from..))
        && !before.trim().is_empty()
    {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let one = rest.chars().next().map_or(0, char::len_utf8);
        d = d.note(SyntaxError::new(line, from..from + word.max(one), "").excerpt());
    }
    match &e.help {
        Some(help) => d.help(help.clone()),
        None => d,
    }
}

/// A program, and its functions with their lines.
pub(crate) type DefinedProgram = (Program, Vec<(brolga::FuncKey, u32)>);

/// The functions as a program; those that a caller calls, with their lines.
fn program(compiled: &CompiledProgram, isa: &dyn TargetIsa) -> Result<DefinedProgram, Diagnostics> {
    for f in &compiled.functions {
        if let Err(e) = verify_function(&f.func, isa) {
            let d = Diagnostic::new("AD0901", format!("what `{}` was lowered to is not valid", f.symbol));
            return Err(d.in_func(&f.symbol).note(e.to_string()).into());
        }
    }
    let mut program = Program::new();
    compiled.define_in(&mut program)?;
    let key = |symbol: &str| program.func(symbol).expect("it is defined");
    let functions = compiled.functions.iter().map(|f| (key(&f.symbol), f.line)).collect();
    Ok((program, functions))
}
