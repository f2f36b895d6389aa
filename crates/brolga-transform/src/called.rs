//! Derivatives called by name: what a program means by `%f__gradient` and `%f__tangent`.
//!
//! **Question.** A program declares `%f__gradient` or `%f__tangent` and calls it, and `%f` is one
//! of its functions. What is called?
//! **Answer.** [`resolved`] puts the derivative into the program, as [`nested::gradient`] makes it,
//! and after the declared name a function of this convention:
//!
//! | | parameters | results |
//! |---|---|---|
//! | `%f__gradient` | those of `%f`, the shadow directly behind each pointer; a seed for each float result | those of `%f`, a cotangent for each float parameter |
//! | `%f__tangent` | those of `%f`, the shadow directly behind each pointer, the tangent after each float | those of `%f`, a tangent for each float result |
//!
//! All floats are active. Either all 64-bit integers are pointers with a shadow, or none is. A
//! gradient that needs a tape has one on the heap, of a megabyte for each of its channels,
//! which it frees; where it is full the run traps.
//!
//! A derivative that calls derivatives is made when those are there, so that any nesting works but
//! that of a function which calls its own derivative.
//!
//! **Cost.** A derivation for each name. **Source.** The convention of shadows is Enzyme's.

use std::borrow::Cow;
use std::collections::BTreeSet;

use brolga_ir::{ArgSpec, Diagnostic, Diagnostics, FuncKey, Mode, Options, Program, Request};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::derived::derivative_of;
use crate::nested::{self, NestedDerivative, NestedParam, NestedResult};
use crate::standalone::typed_tape;

/// A program with the derivatives that these functions, or what they call, call by name.
///
/// # Errors
/// AD0171 for a declaration that does not fit, or a derivative of a function without a body; AD0172
/// where a function calls its own derivative; and as [`nested::gradient`].
pub fn resolved<'p>(
    program: &'p Program,
    roots: &[FuncKey],
    isa: &dyn TargetIsa,
) -> Result<Cow<'p, Program>, Diagnostics> {
    let mut out = Cow::Borrowed(program);
    loop {
        let Some(first) = CalledDerivative::of(&out, roots).into_iter().next() else { return Ok(out) };
        let next = first.ready(&out)?;
        out = Cow::Owned(next.put(&out, isa)?);
    }
}

/// A derivative that is declared and not defined.
struct CalledDerivative {
    symbol: String,
    func: FuncKey,
    mode: Mode,
    /// As the program declares it, if it does.
    declared: Option<Signature>,
}

impl CalledDerivative {
    /// Those that functions lead to.
    fn of(program: &Program, roots: &[FuncKey]) -> Vec<Self> {
        let (mut seen, mut work, mut out) = (BTreeSet::new(), roots.to_vec(), Vec::new());
        while let Some(f) = work.pop() {
            if !seen.insert(f) {
                continue;
            }
            match &program.funcs[f].body {
                Some(body) => work.extend(body.dfg.ext_funcs.keys().filter_map(|r| program.callee(body, r))),
                None => out.extend(Self::named(program, f)),
            }
        }
        out
    }

    fn named(program: &Program, import: FuncKey) -> Option<Self> {
        let f = &program.funcs[import];
        f.host.is_none().then(|| Self::of_symbol(program, &f.symbol, Some(&f.signature)))?
    }

    /// The derivative of this name. Where that of which it is the derivative is not there, this one
    /// is wanted first.
    fn of_symbol(program: &Program, symbol: &str, declared: Option<&Signature>) -> Option<Self> {
        let (base, mode) = derivative_of(symbol)?;
        match program.func(base) {
            Some(func) if program.funcs[func].body.is_none() && program.funcs[func].host.is_none() => {
                let first = Self::named(program, func);
                first.or_else(|| Some(Self { symbol: symbol.to_owned(), func, mode, declared: declared.cloned() }))
            }
            Some(func) => Some(Self { symbol: symbol.to_owned(), func, mode, declared: declared.cloned() }),
            None => Self::of_symbol(program, base, None),
        }
    }

    /// What is made first: this one, or one that the function asks for of which this is the
    /// derivative.
    fn ready(self, program: &Program) -> Result<Self, Diagnostics> {
        let (mut next, mut visited) = (self, BTreeSet::new());
        while let Some(inner) = Self::of(program, &[next.func]).into_iter().next() {
            if !visited.insert(next.symbol.clone()) {
                let d = Diagnostic::new("AD0172", format!("`%{}` depends on itself", next.symbol));
                let d = d.note("the function calls its own derivative, directly or through others");
                let d = d.help("derive a function that does not call its derivative");
                return Err(next.located(program, d).into());
            }
            next = inner;
        }
        Ok(next)
    }

    /// The same, placed at a call of it.
    fn located(&self, program: &Program, d: Diagnostic) -> Diagnostic {
        let calls = |body: &ir::Function, inst: ir::Inst| match body.dfg.insts[inst] {
            ir::InstructionData::Call { func_ref, .. } => {
                program.callee(body, func_ref).is_some_and(|k| program.funcs[k].symbol == self.symbol)
            }
            _ => false,
        };
        let at = program.funcs.iter().find_map(|(key, f)| {
            let body = f.body.as_ref()?;
            let mut insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
            Some((key, insts.find(|&i| calls(body, i))?))
        });
        match at {
            Some((key, inst)) => d.at(program, key, inst),
            None => d,
        }
    }

    /// Put the derivative into a program.
    fn put(&self, program: &Program, isa: &dyn TargetIsa) -> Result<Program, Diagnostics> {
        let primal = program.funcs[self.func].signature.clone();
        if program.funcs[self.func].body.is_none() {
            let d = Diagnostic::new("AD0171", format!("`%{}` is the derivative of an import", self.symbol));
            let d = d.note(format!("`%{}` has no body in this program", program.funcs[self.func].symbol));
            let d = d.help("define the function, or a function that calls it, and derive that");
            return Err(self.located(program, d).into());
        }
        let of = |pointers| Convention::new(&primal, self.mode, pointers);
        let types = |s: &[AbiParam]| s.iter().map(|p| p.value_type).collect::<Vec<_>>();
        let [with, without] = [true, false].map(of);
        let fits = |c: &&Convention| match &self.declared {
            Some(d) => c.params == types(&d.params) && c.returns == types(&d.returns),
            None => true,
        };
        let Some(convention) = [&with, &without].into_iter().find(fits) else {
            let d = Diagnostic::new("AD0171", format!("the declaration of `%{}` does not fit", self.symbol));
            let d = d.note(format!("it is declared as {}", self.declared.as_ref().unwrap_or(&primal)));
            let (with, without) = (with.text(), without.text());
            let or = if with == without { with } else { format!("{with}, with shadows, or as {without}") };
            return Err(self.located(program, d.help(format!("declare it as {or}"))).into());
        };
        let request = Request::new(self.func, convention.args(&primal));
        let options = Options { mode: self.mode, ..Options::default() };
        let nest = if self.mode == Mode::Tangent { nested::tangent } else { nested::gradient };
        let mut found = nest(program, &request, &options, isa)?;
        let wrapper = self.wrapper(convention, &found, isa);
        found.program.define(&self.symbol, wrapper, |_| 0).map_err(|s| crate::standalone::taken(&s))?;
        Ok(found.program)
    }

    /// The function behind the declared name.
    fn wrapper(&self, convention: &Convention, found: &NestedDerivative, isa: &dyn TargetIsa) -> ir::Function {
        let name = ir::UserFuncName::testcase(&self.symbol);
        let implied = || convention.signature(isa);
        let signature = self.declared.clone().unwrap_or_else(implied);
        let mut func = ir::Function::with_name_signature(name, signature);
        let mut cx = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut cx);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let given = b.block_params(block).to_vec();
        let is_needed = found.params.contains(&NestedParam::Workspace);
        let tape = is_needed.then(|| typed_tape::on_heap(&mut b, isa));
        let arg = |role: &NestedParam| match *role {
            NestedParam::Primal(i) => given[convention.at[i]],
            NestedParam::Shadow(i) | NestedParam::Direction(i) => given[convention.at[i] + 1],
            NestedParam::Seed(k) => given[convention.seeds[k].expect("a float has a seed")],
            NestedParam::Workspace => tape.expect("there is one if it is a parameter").0,
        };
        let args: Vec<ir::Value> = found.params.iter().map(arg).collect();
        let callee = &found.program.funcs[found.func];
        let results = typed_tape::call(&mut b, &callee.symbol, callee.signature.clone(), &args);
        if let Some((_, blocks)) = tape {
            typed_tape::free(&mut b, isa, &blocks);
        }
        debug_assert!(found.results.iter().is_sorted_by_key(|g| !matches!(g, NestedResult::Value(_))));
        b.ins().return_(&results);
        b.finalize(isa.frontend_config());
        func
    }
}

/// The types of a derivative that is called by name, and where what is.
struct Convention {
    params: Vec<ir::Type>,
    returns: Vec<ir::Type>,
    /// Where each parameter of the primal is.
    at: Vec<usize>,
    /// Where the seed of each result is.
    seeds: Vec<Option<usize>>,
    /// Whether 64-bit integers have shadows.
    pointers: bool,
}

impl Convention {
    fn new(primal: &Signature, mode: Mode, pointers: bool) -> Self {
        let is_float = |ty: ir::Type| ty.lane_type().is_float();
        let (mut params, mut at) = (Vec::new(), Vec::new());
        for ty in primal.params.iter().map(|p| p.value_type) {
            at.push(params.len());
            params.push(ty);
            if ty == types::I64 && pointers || mode == Mode::Tangent && is_float(ty) {
                params.push(ty);
            }
        }
        let mut returns: Vec<ir::Type> = primal.returns.iter().map(|r| r.value_type).collect();
        let mut seeds = vec![None; returns.len()];
        if mode == Mode::Tangent {
            returns.extend(returns.clone().into_iter().filter(|&t| is_float(t)));
        } else {
            for (k, &ty) in returns.iter().enumerate().filter(|r| is_float(*r.1)) {
                seeds[k] = Some(params.len());
                params.push(ty);
            }
            returns.extend(primal.params.iter().map(|p| p.value_type).filter(|&t| is_float(t)));
        }
        Self { params, returns, at, seeds, pointers }
    }

    fn signature(&self, isa: &dyn TargetIsa) -> Signature {
        let mut sig = Signature::new(isa.default_call_conv());
        sig.params.extend(self.params.iter().map(|&ty| AbiParam::new(ty)));
        sig.returns.extend(self.returns.iter().map(|&ty| AbiParam::new(ty)));
        sig
    }

    /// The request that it is for.
    fn args(&self, primal: &Signature) -> Vec<ArgSpec> {
        let spec = |p: &AbiParam| match p.value_type {
            ty if ty.lane_type().is_float() => ArgSpec::ACTIVE,
            types::I64 if self.pointers => ArgSpec::DUPLICATED,
            _ => ArgSpec::CONST,
        };
        primal.params.iter().map(spec).collect()
    }

    fn text(&self) -> String {
        let list = |types: &[ir::Type]| types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
        let results = if self.returns.is_empty() { String::new() } else { format!(" -> {}", list(&self.returns)) };
        format!("({}){results}", list(&self.params))
    }
}
