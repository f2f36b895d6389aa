//! Codegen: formulas as functions of any Cranelift module. Nothing here knows of derivatives.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, SourceLoc, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_module::{FuncId, Linkage, Module, ModuleError};

use super::parse::{At, Block, Expr, Function, Kind, Result, Stmt, Type, error};

/// C's functions that formulas can call, by how many arguments they have.
const OF_C: [(usize, &str); 2] = [(1, "sin cos tan atan sinh cosh tanh exp log sqrt fabs lgamma"), (2, "pow hypot")];

fn of_c(name: &str) -> Option<usize> {
    OF_C.iter().find(|(_, names)| names.split(' ').any(|n| n == name)).map(|c| c.0)
}

/// A function that a module has.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub id: FuncId,
    pub params: Vec<Type>,
}

/// Declare all functions of a program, then define them: they may call each other.
pub fn compile(module: &mut impl Module, program: &[Function]) -> Result<HashMap<String, Compiled>> {
    let mut known = HashMap::new();
    for f in program {
        let params: Vec<Type> = f.params.iter().map(|p| p.1).collect();
        let sig = signature(module, &params);
        if known.contains_key(&f.name) || of_c(&f.name).is_some() {
            return error(f.at, format!("there is a function `{}` already", f.name));
        }
        let id = module.declare_function(&f.name, Linkage::Export, &sig).or_else(|e| refused(f.at, &e))?;
        known.insert(f.name.clone(), Compiled { id, params });
    }
    let (mut cx, mut scratch) = (module.make_context(), FunctionBuilderContext::new());
    for f in program {
        cx.func.signature = signature(module, &known[&f.name].params);
        let b = FunctionBuilder::new(&mut cx.func, &mut scratch);
        Body { module, known: &known, b, names: vec![] }.define(f)?;
        module.define_function(known[&f.name].id, &mut cx).or_else(|e| refused(f.at, &e))?;
        module.clear_context(&mut cx);
    }
    Ok(known)
}

fn refused<T>(at: At, e: &ModuleError) -> Result<T> {
    error(at, format!("Cranelift says: {e}"))
}

fn signature(module: &impl Module, params: &[Type]) -> Signature {
    let mut sig = module.make_signature();
    sig.params.extend(params.iter().map(|ty| AbiParam::new(clif(*ty))));
    sig.returns.push(AbiParam::new(types::F64));
    sig
}

fn clif(ty: Type) -> types::Type {
    if ty == Type::Float { types::F64 } else { types::I64 }
}

type Typed = (Value, Type);

struct Body<'a, M> {
    module: &'a mut M,
    known: &'a HashMap<String, Compiled>,
    b: FunctionBuilder<'a>,
    /// Variables in scope, the innermost last.
    names: Vec<(String, Variable, Type)>,
}

impl<M: Module> Body<'_, M> {
    fn define(mut self, f: &Function) -> Result<()> {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        for (i, (name, ty)) in f.params.iter().enumerate() {
            let value = self.b.block_params(entry)[i];
            self.bind(name, (value, *ty));
        }
        let (Some(value), Some(end)) = (self.block(&f.body)?, &f.body.value) else {
            return error(f.at, format!("`{}` has no value: its body must end in an expression", f.name));
        };
        let value = self.coerced(value, Type::Float, end.at)?;
        self.b.ins().return_(&[value]);
        self.b.seal_all_blocks();
        self.b.finalize(self.module.target_config());
        Ok(())
    }

    fn bind(&mut self, name: &str, (value, ty): Typed) -> Variable {
        let var = self.b.declare_var(clif(ty));
        self.b.def_var(var, value);
        self.names.push((name.to_owned(), var, ty));
        var
    }

    fn variable(&self, name: &str, at: At) -> Result<(Variable, Type)> {
        match self.names.iter().rev().find(|n| n.0 == name) {
            Some(&(_, var, ty)) => Ok((var, ty)),
            None => error(at, format!("there is no variable `{name}`")),
        }
    }

    /// An integer where a float is wanted becomes one.
    fn coerced(&mut self, (value, ty): Typed, want: Type, at: At) -> Result<Value> {
        match (ty, want) {
            (Type::Int, Type::Float) => Ok(self.b.ins().fcvt_from_sint(types::F64, value)),
            _ if ty == want => Ok(value),
            _ => error(at, format!("this is {}, but {} is expected", named(ty), named(want))),
        }
    }

    fn wanted(&mut self, e: &Expr, want: Type) -> Result<Value> {
        let value = self.expr(e)?;
        self.coerced(value, want, e.at)
    }

    fn block(&mut self, block: &Block) -> Result<Option<Typed>> {
        let scope = self.names.len();
        for stmt in &block.stmts {
            self.stmt(stmt)?;
        }
        let value = match &block.value {
            // It may be an `if` without a value.
            Some(e) => self.statement(e)?,
            None => None,
        };
        self.names.truncate(scope);
        Ok(value)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::Let(name, e) => {
                let value = self.expr(e)?;
                self.bind(name, value);
            }
            Stmt::Set(place, e) => match &place.kind {
                Kind::Name(name) => {
                    let (var, ty) = self.variable(name, place.at)?;
                    let value = self.wanted(e, ty)?;
                    self.b.def_var(var, value);
                }
                _ => {
                    let value = self.wanted(e, Type::Float)?;
                    let at = self.address(place)?;
                    self.b.ins().store(MemFlagsData::new(), value, at, 0);
                }
            },
            Stmt::While(condition, body) => self.repeat(|s| s.wanted(condition, Type::Int), |s| s.block(body))?,
            Stmt::For(name, from, to, body) => {
                let (from, to) = (self.wanted(from, Type::Int)?, self.wanted(to, Type::Int)?);
                let var = self.bind(name, (from, Type::Int));
                let below = |s: &mut Self| {
                    let i = s.b.use_var(var);
                    Ok(s.b.ins().icmp(IntCC::SignedLessThan, i, to))
                };
                self.repeat(below, |s| {
                    let i = s.b.use_var(var);
                    s.block(body)?;
                    let one = s.b.ins().iconst(types::I64, 1);
                    let next = s.b.ins().iadd(i, one);
                    s.b.def_var(var, next);
                    Ok(None)
                })?;
                self.names.pop();
            }
            Stmt::Do(e) => {
                self.statement(e)?;
            }
        }
        Ok(())
    }

    fn statement(&mut self, e: &Expr) -> Result<Option<Typed>> {
        match &e.kind {
            Kind::If(condition, then, other) => self.branch(condition, then, other.as_ref()),
            _ => self.expr(e).map(Some),
        }
    }

    /// A loop. Its head is sealed when the way back is known.
    fn repeat(
        &mut self,
        condition: impl FnOnce(&mut Self) -> Result<Value>,
        body: impl FnOnce(&mut Self) -> Result<Option<Typed>>,
    ) -> Result<()> {
        let [head, inside, out] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let condition = condition(self)?;
        self.b.ins().brif(condition, inside, &[], out, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
        body(self)?;
        self.b.ins().jump(head, &[]);
        self.b.seal_block(head);
        self.b.switch_to_block(out);
        self.b.seal_block(out);
        Ok(())
    }

    /// An `if`: it has a value if both arms have one, of the type of the first.
    fn branch(&mut self, condition: &Expr, then: &Block, other: Option<&Block>) -> Result<Option<Typed>> {
        let condition = self.wanted(condition, Type::Int)?;
        let [yes, no, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(condition, yes, &[], no, &[]);
        let mut value: Option<(Variable, Type)> = None;
        for (start, arm) in [(yes, Some(then)), (no, other)] {
            self.b.switch_to_block(start);
            self.b.seal_block(start);
            let found = match arm {
                Some(arm) => self.block(arm)?,
                None => None,
            };
            value = match (found, value) {
                (Some((v, ty)), None) if start == yes => {
                    let var = self.b.declare_var(clif(ty));
                    self.b.def_var(var, v);
                    Some((var, ty))
                }
                (Some(found), Some((var, ty))) => {
                    let end = arm.and_then(|a| a.value.as_ref()).expect("it has a value");
                    let v = self.coerced(found, ty, end.at)?;
                    self.b.def_var(var, v);
                    Some((var, ty))
                }
                _ => None,
            };
            self.b.ins().jump(join, &[]);
        }
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(value.map(|(var, ty)| (self.b.use_var(var), ty)))
    }

    fn expr(&mut self, e: &Expr) -> Result<Typed> {
        self.b.set_srcloc(SourceLoc::new(e.at.0));
        Ok(match &e.kind {
            Kind::Float(x) => (self.b.ins().f64const(*x), Type::Float),
            Kind::Int(n) => (self.b.ins().iconst(types::I64, *n), Type::Int),
            Kind::Name(name) => {
                let (var, ty) = self.variable(name, e.at)?;
                (self.b.use_var(var), ty)
            }
            Kind::Element(..) => {
                let at = self.address(e)?;
                (self.b.ins().load(types::F64, MemFlagsData::new(), at, 0), Type::Float)
            }
            Kind::Array(items) => {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * items.len() as u32, 3);
                let slot = self.b.create_sized_stack_slot(slot);
                for (i, item) in items.iter().enumerate() {
                    let value = self.wanted(item, Type::Float)?;
                    self.b.ins().stack_store(types::I64, value, slot, 8 * i as i32);
                }
                (self.b.ins().stack_addr(types::I64, slot, 0), Type::Array)
            }
            Kind::Neg(a) => match self.expr(a)? {
                (v, Type::Int) => (self.b.ins().ineg(v), Type::Int),
                value => {
                    let v = self.coerced(value, Type::Float, a.at)?;
                    (self.b.ins().fneg(v), Type::Float)
                }
            },
            Kind::Binary(op, a, b) => self.binary(op, a, b)?,
            Kind::Call(name, args) => self.call(name, args, e.at)?,
            Kind::If(condition, then, other) => match self.branch(condition, then, other.as_ref())? {
                Some(value) => value,
                None => return error(e.at, "this `if` has no value: both arms must end in one"),
            },
        })
    }

    fn address(&mut self, place: &Expr) -> Result<Value> {
        let Kind::Element(array, index) = &place.kind else { return error(place.at, "this is no element") };
        let (array, index) = (self.wanted(array, Type::Array)?, self.wanted(index, Type::Int)?);
        let three = self.b.ins().iconst(types::I64, 3);
        let offset = self.b.ins().ishl(index, three);
        Ok(self.b.ins().iadd(array, offset))
    }

    fn binary(&mut self, op: &str, a: &Expr, b: &Expr) -> Result<Typed> {
        let (x, y) = (self.expr(a)?, self.expr(b)?);
        let is_int = x.1 == Type::Int && y.1 == Type::Int && !matches!(op, "/" | "^");
        let ty = if is_int { Type::Int } else { Type::Float };
        let (x, y) = (self.coerced(x, ty, a.at)?, self.coerced(y, ty, b.at)?);
        if let Some((int, float)) = conditions(op) {
            let found = if is_int { self.b.ins().icmp(int, x, y) } else { self.b.ins().fcmp(float, x, y) };
            return Ok((self.b.ins().uextend(types::I64, found), Type::Int));
        }
        if op == "^" {
            return self.imported("pow", &[x, y], a.at);
        }
        let ins = self.b.ins();
        let value = match (op, is_int) {
            ("+", true) => ins.iadd(x, y),
            ("-", true) => ins.isub(x, y),
            (_, true) => ins.imul(x, y),
            ("+", false) => ins.fadd(x, y),
            ("-", false) => ins.fsub(x, y),
            ("*", false) => ins.fmul(x, y),
            (_, false) => ins.fdiv(x, y),
        };
        Ok((value, ty))
    }

    fn call(&mut self, name: &str, args: &[Expr], at: At) -> Result<Typed> {
        let params = match (of_c(name), self.known.get(name)) {
            (Some(n), _) => vec![Type::Float; n],
            (None, Some(f)) => f.params.clone(),
            (None, None) => return error(at, format!("there is no function `{name}`")),
        };
        if params.len() != args.len() {
            return error(at, format!("`{name}` has {} parameters, not {}", params.len(), args.len()));
        }
        let args: Vec<Value> = args.iter().zip(&params).map(|(a, ty)| self.wanted(a, *ty)).collect::<Result<_>>()?;
        match self.known.get(name) {
            Some(f) => self.to(f.id, &args),
            None => self.imported(name, &args, at),
        }
    }

    fn imported(&mut self, name: &str, args: &[Value], at: At) -> Result<Typed> {
        let sig = signature(self.module, &vec![Type::Float; args.len()]);
        let id = self.module.declare_function(name, Linkage::Import, &sig).or_else(|e| refused(at, &e))?;
        self.to(id, args)
    }

    fn to(&mut self, id: FuncId, args: &[Value]) -> Result<Typed> {
        let callee = self.module.declare_func_in_func(id, self.b.func);
        let call = self.b.ins().call(callee, args);
        Ok((self.b.inst_results(call)[0], Type::Float))
    }
}

fn conditions(op: &str) -> Option<(IntCC, FloatCC)> {
    Some(match op {
        "<" => (IntCC::SignedLessThan, FloatCC::LessThan),
        "<=" => (IntCC::SignedLessThanOrEqual, FloatCC::LessThanOrEqual),
        ">" => (IntCC::SignedGreaterThan, FloatCC::GreaterThan),
        ">=" => (IntCC::SignedGreaterThanOrEqual, FloatCC::GreaterThanOrEqual),
        "==" => (IntCC::Equal, FloatCC::Equal),
        "!=" => (IntCC::NotEqual, FloatCC::NotEqual),
        _ => return None,
    })
}

fn named(ty: Type) -> &'static str {
    match ty {
        Type::Float => "a float",
        Type::Int => "an integer",
        Type::Array => "an array",
    }
}
