//! Codegen: functions in a small part of Rust, as functions of any Cranelift module. The parser is
//! `syn`. Nothing here knows of derivatives.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_module::{FuncId, Linkage, Module};
use quote::ToTokens;
use syn::{BinOp, Block, Error, Expr, FnArg, Item, ItemFn, Lit, Pat, Result, Stmt, UnOp};

/// Methods of a float that are functions of C of the same name, and those that have another.
const OF_C: &str = "sin cos tan atan sinh cosh tanh exp sqrt hypot";
const RENAMED: [(&str, &str); 4] = [("ln", "log"), ("abs", "fabs"), ("powf", "pow"), ("ln_gamma", "lgamma")];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    Float,
    Int,
    Bool,
    Array,
}

impl Type {
    fn read(ty: &syn::Type) -> Result<Self> {
        match ty.to_token_stream().to_string().as_str() {
            "f64" => Ok(Self::Float),
            "usize" => Ok(Self::Int),
            "& [f64]" | "& mut [f64]" => Ok(Self::Array),
            _ => error(ty, "types are `f64`, `usize`, `&[f64]` and `&mut [f64]`"),
        }
    }

    fn clif(self) -> types::Type {
        match self {
            Self::Float => types::F64,
            Self::Bool => types::I8,
            Self::Int | Self::Array => types::I64,
        }
    }
}

/// A function that a module has.
#[derive(Clone, Debug)]
pub(crate) struct CompiledFormula {
    pub id: FuncId,
    pub params: Vec<(String, Type)>,
}

fn error<T>(at: impl ToTokens, message: impl std::fmt::Display) -> Result<T> {
    Err(Error::new_spanned(at, message))
}

/// Declare all functions of a text, then define them: they may call each other.
pub(crate) fn compile(module: &mut impl Module, text: &str) -> Result<HashMap<String, CompiledFormula>> {
    let mut functions = Vec::new();
    let mut known = HashMap::new();
    for item in syn::parse_file(text)?.items {
        let Item::Fn(f) = item else { return error(item, "a file has functions only") };
        let name = f.sig.ident.to_string();
        let params = f.sig.inputs.iter().map(param).collect::<Result<Vec<_>>>()?;
        let mut signature = module.make_signature();
        signature.params.extend(params.iter().map(|p| AbiParam::new(p.1.clif())));
        signature.returns.push(AbiParam::new(types::F64));
        let id = module.declare_function(&name, Linkage::Export, &signature).or_else(|e| error(&f.sig.ident, e))?;
        if known.insert(name, CompiledFormula { id, params }).is_some() {
            return error(f.sig.ident, "there is a function of this name already");
        }
        functions.push((f, signature));
    }
    let (mut cx, mut scratch) = (module.make_context(), FunctionBuilderContext::new());
    for (f, signature) in functions {
        cx.func.signature = signature;
        let b = FunctionBuilder::new(&mut cx.func, &mut scratch);
        Body { module, known: &known, b, names: vec![] }.define(&f)?;
        module.define_function(known[&f.sig.ident.to_string()].id, &mut cx).or_else(|e| error(&f.sig.ident, e))?;
        module.clear_context(&mut cx);
    }
    Ok(known)
}

fn param(arg: &FnArg) -> Result<(String, Type)> {
    let FnArg::Typed(p) = arg else { return error(arg, "functions are no methods") };
    Ok((name(&p.pat)?, Type::read(&p.ty)?))
}

fn name(pat: &Pat) -> Result<String> {
    if let Pat::Ident(p) = pat { Ok(p.ident.to_string()) } else { error(pat, "a name is expected here") }
}

type Typed = (Value, Type);

struct Body<'a, M> {
    module: &'a mut M,
    known: &'a HashMap<String, CompiledFormula>,
    b: FunctionBuilder<'a>,
    /// Variables in scope, the innermost last.
    names: Vec<(String, Variable, Type)>,
}

impl<M: Module> Body<'_, M> {
    fn define(mut self, f: &ItemFn) -> Result<()> {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        for (i, (name, ty)) in self.known[&f.sig.ident.to_string()].params.iter().enumerate() {
            let value = self.b.block_params(entry)[i];
            self.bind(name.clone(), (value, *ty));
        }
        let Some((value, Type::Float)) = self.block(&f.block)? else {
            return error(&f.sig.ident, "the body of a function ends in a float");
        };
        self.b.ins().return_(&[value]);
        self.b.seal_all_blocks();
        self.b.finalize(self.module.target_config());
        Ok(())
    }

    fn bind(&mut self, name: String, (value, ty): Typed) -> Variable {
        let var = self.b.declare_var(ty.clif());
        self.b.def_var(var, value);
        self.names.push((name, var, ty));
        var
    }

    fn variable(&self, e: &Expr) -> Result<(Variable, Type)> {
        let name = e.to_token_stream().to_string();
        match self.names.iter().rev().find(|n| n.0 == name) {
            Some(&(_, var, ty)) => Ok((var, ty)),
            None => error(e, format!("there is no variable `{name}`")),
        }
    }

    fn block(&mut self, block: &Block) -> Result<Option<Typed>> {
        let (scope, mut last) = (self.names.len(), None);
        for stmt in &block.stmts {
            last = match stmt {
                Stmt::Local(l) => {
                    let Some(init) = &l.init else { return error(l, "a variable begins with a value") };
                    let value = self.value(&init.expr)?;
                    self.bind(name(&l.pat)?, value);
                    None
                }
                Stmt::Expr(e, end) => self.expr(e)?.filter(|_| end.is_none()),
                _ => return error(stmt, "statements are `let`, assignments, `if`, `for` and `while`"),
            };
        }
        self.names.truncate(scope);
        Ok(last)
    }

    fn value(&mut self, e: &Expr) -> Result<Typed> {
        self.expr(e)?.map_or_else(|| error(e, "this has no value"), Ok)
    }

    fn wanted(&mut self, e: &Expr, want: Type) -> Result<Value> {
        match self.value(e)? {
            (value, ty) if ty == want => Ok(value),
            (_, ty) => error(e, format!("this is {ty:?}, and {want:?} is expected")),
        }
    }

    /// An expression. Statements have no value.
    fn expr(&mut self, e: &Expr) -> Result<Option<Typed>> {
        Ok(Some(match e {
            Expr::Paren(p) => return self.expr(&p.expr),
            Expr::Lit(l) => match &l.lit {
                Lit::Float(x) => (self.b.ins().f64const(x.base10_parse::<f64>()?), Type::Float),
                Lit::Int(n) => (self.b.ins().iconst(types::I64, n.base10_parse::<i64>()?), Type::Int),
                _ => return error(l, "literals are numbers"),
            },
            Expr::Path(_) => {
                let (var, ty) = self.variable(e)?;
                (self.b.use_var(var), ty)
            }
            Expr::Index(_) => {
                let at = self.address(e)?;
                (self.b.ins().load(types::F64, MemFlagsData::new(), at, 0), Type::Float)
            }
            Expr::Array(a) => {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * a.elems.len() as u32, 3);
                let slot = self.b.create_sized_stack_slot(slot);
                for (i, item) in a.elems.iter().enumerate() {
                    let value = self.wanted(item, Type::Float)?;
                    self.b.ins().stack_store(types::I64, value, slot, 8 * i as i32);
                }
                (self.b.ins().stack_addr(types::I64, slot, 0), Type::Array)
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => {
                let value = self.wanted(&u.expr, Type::Float)?;
                (self.b.ins().fneg(value), Type::Float)
            }
            Expr::Cast(c) if Type::read(&c.ty)? == Type::Float => {
                let value = self.wanted(&c.expr, Type::Int)?;
                (self.b.ins().fcvt_from_uint(types::F64, value), Type::Float)
            }
            Expr::Binary(b) => self.binary(e, &b.left, &b.op, &b.right)?,
            Expr::MethodCall(m) => {
                let all = RENAMED.into_iter().chain(OF_C.split(' ').map(|name| (name, name)));
                let Some((_, of_c)) = all.into_iter().find(|(method, _)| m.method == method) else {
                    return error(&m.method, "floats have no such method here");
                };
                let args: Vec<&Expr> = std::iter::once(&*m.receiver).chain(&m.args).collect();
                let mut signature = self.module.make_signature();
                signature.params.extend(args.iter().map(|_| AbiParam::new(types::F64)));
                signature.returns.push(AbiParam::new(types::F64));
                let declared = self.module.declare_function(of_c, Linkage::Import, &signature);
                let id = declared.or_else(|e| error(m, e))?;
                self.call(id, &args.into_iter().map(|a| (a, Type::Float)).collect::<Vec<_>>())?
            }
            Expr::Call(c) => {
                let callee = c.func.to_token_stream().to_string();
                let Some(f) = self.known.get(&callee).filter(|f| f.params.len() == c.args.len()) else {
                    return error(c, format!("there is no function `{callee}` of {} parameters", c.args.len()));
                };
                self.call(f.id, &c.args.iter().zip(f.params.iter().map(|p| p.1)).collect::<Vec<_>>())?
            }
            Expr::Reference(r) => return self.expr(&r.expr),
            Expr::Block(b) => return self.block(&b.block),
            Expr::If(i) => return self.branch(&i.cond, &i.then_branch, i.else_branch.as_ref().map(|e| &*e.1)),
            Expr::Assign(a) => return self.assign(&a.left, &a.right).map(|()| None),
            Expr::While(w) => return self.repeat(|s| s.wanted(&w.cond, Type::Bool), |s| s.block(&w.body)),
            Expr::ForLoop(f) => return self.count(f),
            _ => return error(e, "the language has no such expression"),
        }))
    }

    fn call(&mut self, id: FuncId, args: &[(&Expr, Type)]) -> Result<Typed> {
        let args = args.iter().map(|&(e, ty)| self.wanted(e, ty)).collect::<Result<Vec<_>>>()?;
        let callee = self.module.declare_func_in_func(id, self.b.func);
        let call = self.b.ins().call(callee, &args);
        Ok((self.b.inst_results(call)[0], Type::Float))
    }

    fn binary(&mut self, e: &Expr, left: &Expr, op: &BinOp, right: &Expr) -> Result<Typed> {
        let (x, ty) = self.value(left)?;
        let y = self.wanted(right, ty)?;
        let b = self.b.ins();
        Ok(match (op, ty) {
            (BinOp::Add(_), Type::Float) => (b.fadd(x, y), ty),
            (BinOp::Sub(_), Type::Float) => (b.fsub(x, y), ty),
            (BinOp::Mul(_), Type::Float) => (b.fmul(x, y), ty),
            (BinOp::Div(_), Type::Float) => (b.fdiv(x, y), ty),
            (BinOp::Lt(_), Type::Float) => (b.fcmp(FloatCC::LessThan, x, y), Type::Bool),
            (BinOp::Le(_), Type::Float) => (b.fcmp(FloatCC::LessThanOrEqual, x, y), Type::Bool),
            (BinOp::Gt(_), Type::Float) => (b.fcmp(FloatCC::GreaterThan, x, y), Type::Bool),
            (BinOp::Ge(_), Type::Float) => (b.fcmp(FloatCC::GreaterThanOrEqual, x, y), Type::Bool),
            (BinOp::Add(_), Type::Int) => (b.iadd(x, y), ty),
            (BinOp::Sub(_), Type::Int) => (b.isub(x, y), ty),
            (BinOp::Lt(_), Type::Int) => (b.icmp(IntCC::UnsignedLessThan, x, y), Type::Bool),
            (BinOp::Eq(_), Type::Int) => (b.icmp(IntCC::Equal, x, y), Type::Bool),
            (_, Type::Float) => return error(e, "floats have no such operator here"),
            _ => return error(e, "integers have no such operator here"),
        })
    }

    fn address(&mut self, place: &Expr) -> Result<Value> {
        let Expr::Index(place) = place else { return error(place, "this is no element") };
        let (array, index) = (self.wanted(&place.expr, Type::Array)?, self.wanted(&place.index, Type::Int)?);
        let three = self.b.ins().iconst(types::I64, 3);
        let offset = self.b.ins().ishl(index, three);
        Ok(self.b.ins().iadd(array, offset))
    }

    fn assign(&mut self, place: &Expr, e: &Expr) -> Result<()> {
        if let Expr::Path(_) = place {
            let (var, ty) = self.variable(place)?;
            let value = self.wanted(e, ty)?;
            self.b.def_var(var, value);
        } else {
            let (value, at) = (self.wanted(e, Type::Float)?, self.address(place)?);
            self.b.ins().store(MemFlagsData::new(), value, at, 0);
        }
        Ok(())
    }

    /// `for i in from..to`.
    fn count(&mut self, f: &syn::ExprForLoop) -> Result<Option<Typed>> {
        let Expr::Range(syn::ExprRange { start: Some(from), end: Some(to), .. }) = &*f.expr else {
            return error(&f.expr, "a range is expected here");
        };
        let (from, to) = (self.wanted(from, Type::Int)?, self.wanted(to, Type::Int)?);
        let var = self.bind(name(&f.pat)?, (from, Type::Int));
        let below = |s: &mut Self| {
            let i = s.b.use_var(var);
            Ok(s.b.ins().icmp(IntCC::UnsignedLessThan, i, to))
        };
        self.repeat(below, |s| {
            s.block(&f.body)?;
            let (i, one) = (s.b.use_var(var), s.b.ins().iconst(types::I64, 1));
            let next = s.b.ins().iadd(i, one);
            s.b.def_var(var, next);
            Ok(None)
        })?;
        self.names.pop();
        Ok(None)
    }

    /// A loop. Its head is sealed when the way back is known.
    fn repeat(
        &mut self,
        condition: impl FnOnce(&mut Self) -> Result<Value>,
        body: impl FnOnce(&mut Self) -> Result<Option<Typed>>,
    ) -> Result<Option<Typed>> {
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
        Ok(None)
    }

    /// An `if`: it has a value if both arms have one.
    fn branch(&mut self, condition: &Expr, then: &Block, other: Option<&Expr>) -> Result<Option<Typed>> {
        let condition = self.wanted(condition, Type::Bool)?;
        let [yes, no, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(condition, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        self.b.seal_block(yes);
        let value = self.block(then)?;
        let var = value.map(|(v, ty)| (self.b.declare_var(ty.clif()), v, ty));
        var.into_iter().for_each(|(var, v, _)| self.b.def_var(var, v));
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(no);
        self.b.seal_block(no);
        let value = other.map_or(Ok(None), |e| self.expr(e))?;
        match (var, value) {
            (Some((var, _, ty)), Some((v, other))) if ty == other => self.b.def_var(var, v),
            (None, None) => {}
            _ => return error(then, "both arms of an `if` have a value of one type, or none"),
        }
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(var.map(|(var, _, ty)| (self.b.use_var(var), ty)))
    }
}
