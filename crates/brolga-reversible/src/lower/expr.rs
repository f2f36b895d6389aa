//! Lowering of expressions of the reversible language, of values that are there.
//!
//! **Question.** What is `e(x, y)`, given `x` and `y`?
//!
//! **Answer.** Instructions and calls of C's functions, which a [`Maker`] appends. What an
//! expression reads, its *leaves* ([`Leaf`]), is loaded by the statement around it, so that the
//! same code makes the function of its leaves whose gradient is derived (`super::gradient`).
//!
//! A complex number is two values, a real number beside one is one. A fixed-point number is a
//! double on a grid ([`to_fixed`]). A logarithm is a double, of which `float` is the exponential.
//!
//! **Errors.** An integer division without a quotient would trap. Where that is checked, it divides
//! by one instead, and the maker keeps the condition for the statement to check.
//!
//! **Cost.** One walk over the expression; in the run its instructions, and for each checked
//! division two comparisons and a select.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, Type as Clif, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::abi::call_symbol;
use crate::ast::{BinaryOp, Expr, ExprKind, RevPlace, UnaryOp};
use crate::layout::Scalar;
use crate::types::{NameScope, type_of_argument, type_of_operands};

/// What an expression reads.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub place: RevPlace,
    pub ty: Scalar,
    pub parts: Vec<Value>,
}

/// The types of a leaf's parts.
pub(super) fn parts_of(ty: Scalar) -> &'static [Clif] {
    match ty {
        Scalar::F64 | Scalar::Log | Scalar::Q43 => &[types::F64],
        Scalar::F32 => &[types::F32],
        Scalar::Complex => &[types::F64, types::F64],
        Scalar::I64 => &[types::I64],
        Scalar::I32 => &[types::I32],
        Scalar::Bool => &[types::I8],
    }
}

/// The places that an expression reads, each once, without those of indices.
pub(super) fn leaves_of<'e>(e: &'e Expr, found: &mut Vec<&'e RevPlace>) {
    match &e.kind {
        ExprKind::Float(_) | ExprKind::Int(_) => {}
        ExprKind::Read(place) => {
            if !found.contains(&place) {
                found.push(place);
            }
        }
        ExprKind::Unary(_, a) => leaves_of(a, found),
        ExprKind::Binary(_, a, b) => {
            leaves_of(a, found);
            leaves_of(b, found);
        }
        ExprKind::Apply(_, args) => args.iter().for_each(|a| leaves_of(a, found)),
    }
}

/// Units of a fixed-point number, as a float.
pub(super) const UNITS: f64 = (1_u64 << 43) as f64;

/// The largest fixed-point number: sums of such are exact.
pub(crate) const MOST_FIXED: f64 = 1024.0;

/// What expressions are made with.
pub(super) struct Maker<'m, 'b> {
    pub b: &'m mut FunctionBuilder<'b>,
    pub scope: &'m NameScope<'m>,
    pub leaves: &'m [Leaf],
    /// Where divisions are not to trap: for each, whether it has no quotient. Then it has one that
    /// means nothing.
    pub undefined: Option<Vec<Value>>,
}

type Parts = Vec<Value>;

impl Maker<'_, '_> {
    /// What is added to a place of this type: of a logarithm the logarithm, of a fixed-point number
    /// the float.
    pub(super) fn for_place(&mut self, e: &Expr, place: Scalar) -> Parts {
        let (ty, parts) = self.expr(e, Some(place));
        match (place, ty) {
            (Scalar::Log, Scalar::F64) => vec![self.call("log", types::F64, &parts)],
            _ => parts,
        }
    }

    /// An expression: what it is, and its value.
    pub(super) fn expr(&mut self, e: &Expr, want: Option<Scalar>) -> (Scalar, Parts) {
        let ty = self.scope.expr(e, want).expect("the checker has seen it");
        let parts = match &e.kind {
            ExprKind::Float(x) => self.number(*x, ty),
            ExprKind::Int(n) => match ty {
                Scalar::I64 => vec![self.b.ins().iconst(types::I64, *n)],
                Scalar::I32 => vec![self.b.ins().iconst(types::I32, i64::from(*n as u32))],
                _ => self.number(*n as f64, ty),
            },
            ExprKind::Read(place) => {
                let leaf = self.leaves.iter().find(|l| l.place == *place).expect("it was loaded");
                leaf.parts.clone()
            }
            ExprKind::Unary(UnaryOp::Not, a) => {
                let a = self.expr(a, None).1[0];
                vec![self.b.ins().bxor_imm_u(a, 1)]
            }
            ExprKind::Unary(UnaryOp::Neg, a) => {
                let parts = self.expr(a, want).1;
                parts.into_iter().map(|v| self.negated(v)).collect()
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, want),
            ExprKind::Apply(name, args) => self.apply(name, args, ty, want),
        };
        (ty, parts)
    }

    pub(super) fn number(&mut self, x: f64, ty: Scalar) -> Parts {
        match ty {
            Scalar::F32 => vec![self.b.ins().f32const(x as f32)],
            Scalar::Complex => vec![self.b.ins().f64const(x), self.b.ins().f64const(0.0)],
            _ => vec![self.b.ins().f64const(x)],
        }
    }

    pub(super) fn negated(&mut self, v: Value) -> Value {
        if self.b.func.dfg.value_type(v).is_float() { self.b.ins().fneg(v) } else { self.b.ins().ineg(v) }
    }

    fn call(&mut self, name: &str, ty: Clif, args: &[Value]) -> Value {
        let name = if ty == types::F32 { format!("{name}f") } else { name.to_owned() };
        call_symbol(self.b, &name, &vec![ty; args.len()], &[ty], args)[0]
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, want: Option<Scalar>) -> Parts {
        use BinaryOp as O;
        if let O::Both | O::Either = op {
            let (a, b) = (self.expr(a, None).1[0], self.expr(b, None).1[0]);
            return vec![if op == O::Both { self.b.ins().band(a, b) } else { self.b.ins().bor(a, b) }];
        }
        let compares = op.level() == O::Eq.level();
        let (tx, ty) = self.scope.operands(a, b, type_of_operands(op, want)).expect("the checker has seen it");
        let (x, y) = (self.expr(a, Some(tx)).1, self.expr(b, Some(ty)).1);
        if compares {
            return vec![self.compare(op, tx, x[0], y[0])];
        }
        if tx == Scalar::Complex || ty == Scalar::Complex {
            return self.complex(op, &x, &y);
        }
        let (x, mut y) = (x[0], y[0]);
        if tx.is_int() && matches!(op, O::Div | O::Rem) {
            y = self.divisor(op, x, y);
        }
        let i = self.b.ins();
        vec![if tx.is_int() {
            match op {
                O::Add => i.iadd(x, y),
                O::Sub => i.isub(x, y),
                O::Mul => i.imul(x, y),
                O::Div => i.sdiv(x, y),
                O::Rem => i.srem(x, y),
                O::And => i.band(x, y),
                O::Or => i.bor(x, y),
                O::Xor => i.bxor(x, y),
                O::Shl => i.ishl(x, y),
                _ => i.sshr(x, y),
            }
        } else {
            match op {
                O::Add => i.fadd(x, y),
                O::Sub => i.fsub(x, y),
                O::Mul => i.fmul(x, y),
                _ => i.fdiv(x, y),
            }
        }]
    }

    /// What is divided by: one, where there is no quotient.
    fn divisor(&mut self, op: BinaryOp, x: Value, y: Value) -> Value {
        if self.undefined.is_none() {
            return y;
        }
        let ty = self.b.func.dfg.value_type(y);
        let mut none = self.b.ins().icmp_imm_u(IntCC::Equal, y, 0);
        if op == BinaryOp::Div {
            let least = self.b.ins().iconst(ty, if ty == types::I32 { 1 << 31 } else { i64::MIN });
            let is_least = self.b.ins().icmp(IntCC::Equal, x, least);
            let by_minus_one = self.b.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let overflows = self.b.ins().band(is_least, by_minus_one);
            none = self.b.ins().bor(none, overflows);
        }
        let one = self.b.ins().iconst(ty, 1);
        self.undefined.as_mut().expect("it is asked for").push(none);
        self.b.ins().select(none, one, y)
    }

    fn compare(&mut self, op: BinaryOp, ty: Scalar, x: Value, y: Value) -> Value {
        use BinaryOp as O;
        if ty.is_int() {
            let cc = match op {
                O::Eq => IntCC::Equal,
                O::Ne => IntCC::NotEqual,
                O::Lt => IntCC::SignedLessThan,
                O::Le => IntCC::SignedLessThanOrEqual,
                O::Gt => IntCC::SignedGreaterThan,
                _ => IntCC::SignedGreaterThanOrEqual,
            };
            return self.b.ins().icmp(cc, x, y);
        }
        let cc = match op {
            O::Eq => FloatCC::Equal,
            O::Ne => FloatCC::NotEqual,
            O::Lt => FloatCC::LessThan,
            O::Le => FloatCC::LessThanOrEqual,
            O::Gt => FloatCC::GreaterThan,
            _ => FloatCC::GreaterThanOrEqual,
        };
        self.b.ins().fcmp(cc, x, y)
    }

    fn complex(&mut self, op: BinaryOp, x: &[Value], y: &[Value]) -> Parts {
        use BinaryOp as O;
        // A real number has one part.
        match (op, x, y) {
            (O::Add, &[a, b], &[c, d]) => vec![self.b.ins().fadd(a, c), self.b.ins().fadd(b, d)],
            (O::Add, &[a], &[c, d]) | (O::Add, &[c, d], &[a]) => vec![self.b.ins().fadd(a, c), d],
            (O::Sub, &[a, b], &[c, d]) => vec![self.b.ins().fsub(a, c), self.b.ins().fsub(b, d)],
            (O::Sub, &[a], &[c, d]) => vec![self.b.ins().fsub(a, c), self.b.ins().fneg(d)],
            (O::Sub, &[a, b], &[c]) => vec![self.b.ins().fsub(a, c), b],
            (O::Mul, &[a, b], &[c, d]) => {
                let [ac, bd, ad, bc] = [(a, c), (b, d), (a, d), (b, c)].map(|(p, q)| self.b.ins().fmul(p, q));
                vec![self.b.ins().fsub(ac, bd), self.b.ins().fadd(ad, bc)]
            }
            (O::Mul, &[a], &[c, d]) | (O::Mul, &[c, d], &[a]) => {
                vec![self.b.ins().fmul(a, c), self.b.ins().fmul(a, d)]
            }
            (O::Div, x, &[c]) => x.iter().map(|&v| self.b.ins().fdiv(v, c)).collect(),
            (_, x, &[c, d]) => {
                let (cc, dd) = (self.b.ins().fmul(c, c), self.b.ins().fmul(d, d));
                let size = self.b.ins().fadd(cc, dd);
                let conjugate = [c, self.b.ins().fneg(d)];
                let product = self.complex(O::Mul, x, &conjugate);
                product.into_iter().map(|v| self.b.ins().fdiv(v, size)).collect()
            }
            _ => unreachable!("a complex number has two parts"),
        }
    }

    fn apply(&mut self, name: &str, args: &[Expr], ty: Scalar, want: Option<Scalar>) -> Parts {
        let clif = if ty == Scalar::F32 { types::F32 } else { types::F64 };
        let wanted = type_of_argument(name, want);
        match name {
            "select" => {
                let c = self.expr(&args[0], None).1[0];
                let (tx, ty) = self.scope.operands(&args[1], &args[2], wanted).expect("the checker has seen it");
                let (x, y) = (self.expr(&args[1], Some(tx)).1[0], self.expr(&args[2], Some(ty)).1[0]);
                return vec![self.b.ins().select(c, x, y)];
            }
            "pow" | "atan2" | "hypot" | "min" | "max" | "complex" => {
                let found = self.scope.operands(&args[0], &args[1], wanted);
                let (tx, ty) = found.expect("the checker has seen it");
                let (x, y) = (self.expr(&args[0], Some(tx)).1[0], self.expr(&args[1], Some(ty)).1[0]);
                let i = self.b.ins();
                return match name {
                    "complex" => vec![x, y],
                    "min" if tx.is_int() => vec![i.smin(x, y)],
                    "max" if tx.is_int() => vec![i.smax(x, y)],
                    "min" => vec![i.fmin(x, y)],
                    "max" => vec![i.fmax(x, y)],
                    _ => vec![self.call(name, clif, &[x, y])],
                };
            }
            _ => {}
        }
        let (from, x) = self.expr(&args[0], wanted);
        self.function(name, from, &x, clif)
    }

    /// A function of one number.
    fn function(&mut self, name: &str, from: Scalar, x: &[Value], clif: Clif) -> Parts {
        use Scalar as S;
        match (name, from) {
            ("float", S::I64 | S::I32) => vec![self.b.ins().fcvt_from_sint(types::F64, x[0])],
            ("float", S::F32) => vec![self.b.ins().fpromote(types::F64, x[0])],
            ("float", S::Log) => vec![self.call("exp", types::F64, &x[..1])],
            ("float", _) => vec![x[0]],
            ("single", _) => vec![self.b.ins().fdemote(types::F32, x[0])],
            ("long", _) => vec![self.b.ins().sextend(types::I64, x[0])],
            ("re", _) => vec![x[0]],
            ("im", _) => vec![x[1]],
            ("conj", _) => vec![x[0], self.b.ins().fneg(x[1])],
            ("abs", S::Complex) => vec![self.call("hypot", types::F64, x)],
            ("abs", S::I64 | S::I32) => vec![self.b.ins().iabs(x[0])],
            ("abs", _) => vec![self.b.ins().fabs(x[0])],
            ("abs2", S::Complex) => {
                let (a, b) = (self.b.ins().fmul(x[0], x[0]), self.b.ins().fmul(x[1], x[1]));
                vec![self.b.ins().fadd(a, b)]
            }
            ("abs2", _) => vec![self.b.ins().fmul(x[0], x[0])],
            ("exp", S::Complex) => {
                let size = self.call("exp", types::F64, &x[..1]);
                let (c, s) = (self.call("cos", types::F64, &x[1..]), self.call("sin", types::F64, &x[1..]));
                vec![self.b.ins().fmul(size, c), self.b.ins().fmul(size, s)]
            }
            ("log", S::Complex) => {
                let size = self.call("hypot", types::F64, x);
                let angle = self.call("atan2", types::F64, &[x[1], x[0]]);
                vec![self.call("log", types::F64, &[size]), angle]
            }
            ("sqrt", _) => vec![self.b.ins().sqrt(x[0])],
            _ => vec![self.call(name, clif, &x[..1])],
        }
    }
}

/// A float as a fixed-point number: the nearest multiple of 2⁻⁴³. Its slope is one: rounding is no
/// part of what is differentiated.
pub(super) fn to_fixed(b: &mut FunctionBuilder<'_>, x: Value) -> Value {
    let [units, unit] = [UNITS, 1.0 / UNITS].map(|c| b.ins().f64const(c));
    let scaled = b.ins().fmul(x, units);
    let whole = b.ins().nearest(scaled);
    let rounded = b.ins().fmul(whole, unit);
    // It has one zero.
    let zero = b.ins().f64const(0.0);
    let rounded = b.ins().fadd(rounded, zero);
    call_symbol(b, "brolga_with_value", &[types::F64; 2], &[types::F64], &[x, rounded])[0]
}

/// A value that is zero.
pub(super) fn zero(b: &mut FunctionBuilder<'_>, ty: ir::Type) -> Value {
    match ty {
        types::F64 => b.ins().f64const(0.0),
        types::F32 => b.ins().f32const(0.0),
        ty => b.ins().iconst(ty, 0),
    }
}
