//! Taylor coefficients: a batch that carries, in place of N tangents, the coefficients of a path
//! from the first to number N ([`Options::taylor`]).
//!
//! **Problem.** Derivatives of order n along one direction by forward mode over forward mode take
//! 2ⁿ times as long as the function.
//!
//! **Answer.** What moves a value, and all that is linear, does to each coefficient what it does
//! to a tangent. Only what has a row is different: of `z = f(x)` with the partial `g(x, z)` it is
//! known that `z' = g x'`, and comparing coefficients of both sides gives
//!
//! ```text
//! j z_j = Σ_{m = 1…j} m x_m g_{j-m}
//! ```
//!
//! where g is a series of its own: that of the row's expression, by the rules for sums, products
//! and quotients, and for a function that it calls by that function's row. Coefficients are
//! computed as they are asked for: each needs coefficients of lower order only, so that a sine and
//! a cosine wait for each other in turns. Guarded products
//! ([`brolga_analysis::guards::products`]) are products in which zeros of some factors are strong.
//!
//! **Cost.** n² products for each instruction that has a row and is not linear.
//!
//! **Source.** Griewank and Walther (2008), chapter 13; Taylor mode of JAX (`jet`).
//!
//! [`Options::taylor`]: brolga_ir::Options

use std::sync::Arc;

use brolga_analysis::guards::products::Product;
use brolga_analysis::{CalleeKind, computed_operands};
use brolga_ir::inst::{AdInst, Arith, Val};
use brolga_ir::map::HashMap;
use brolga_rules::expr::CondNode;
use brolga_rules::{Cond, E, ExprRow, MathFn, MathKind, Node, OpcodeRule, Partial, math_rule, opcode_rule};
use cranelift_codegen::ir::{self, Type, types};

use super::Widener;

/// A series, by its place in the list of all.
type Id = usize;

/// How the coefficients of a series come about.
#[derive(Clone)]
enum SeriesKind {
    /// The value, and coefficients that are there.
    Given(Val, Vec<Val>),
    Const(f64),
    /// An integer, as a float.
    Int(ir::Value),
    Neg(Id),
    Add(Id, Id),
    Sub(Id, Id),
    Mul(Id, Id),
    /// A product in which zeros of the first factor are strong, and zero coefficients of the other.
    Guarded(Id, Id),
    Div(Id, Id),
    Sqrt(Id),
    /// The first with the sign of the second; its own, if there is none.
    Signed(Id, Option<Id>),
    /// The nearest whole number: a value, and no coefficients.
    Nearest(Id),
    Select(Val, Id, Id),
    /// A result of a row in a scope, and its value: a name, or a call.
    Row(Arc<ExprRow>, usize, usize, Worth),
}

#[derive(Clone)]
enum Worth {
    Named(Val),
    Called(MathFn, Vec<Id>),
    /// It is written to memory.
    Nowhere,
}

/// What operands and results of a row are.
struct Scope {
    operands: Vec<Option<Id>>,
    ints: Vec<ir::Value>,
    results: Vec<Id>,
}

/// The series of one instruction.
struct SeriesCx<'w, 'a, 'f> {
    w: &'w mut Widener<'a, 'f>,
    ty: Type,
    kinds: Vec<SeriesKind>,
    scopes: Vec<Scope>,
    known: HashMap<(Id, usize), Option<Val>>,
    built: HashMap<(*const Node, usize), Id>,
    called: HashMap<(MathFn, Vec<Id>), Id>,
    partials: HashMap<(Id, usize), Id>,
}

impl Widener<'_, '_> {
    /// Coefficients of a result of an instruction that has a row.
    pub(super) fn series(&mut self, inst: ir::Inst, result: usize, ad: &AdInst) {
        let func = self.facts.func();
        if let Some(product) = self.facts.products.get(&inst) {
            return self.by_series(ad, |cx| cx.product(product));
        }
        let (args, results) = (func.dfg.inst_args(inst), func.dfg.inst_results(inst));
        let (row, args) = match opcode_rule(func.dfg.insts[inst].opcode()) {
            OpcodeRule::Expr(row) => (Arc::new(row.clone()), args),
            _ => match CalleeKind::of(self.facts.program, func, inst) {
                Some(CalleeKind::Known(rule)) => match &rule.kind {
                    MathKind::Expr(row) | MathKind::Writes(row, _) => (Arc::clone(row), args),
                    _ => return self.unfit("this call"),
                },
                Some(CalleeKind::Computes(rule)) => match &rule.kind {
                    MathKind::Expr(row) => (Arc::clone(row), computed_operands(rule, args)),
                    _ => return self.unfit("this call"),
                },
                _ => return self.unfit("this call"),
            },
        };
        self.by_series(ad, |cx| cx.instruction(&row, args, results, result));
    }

    /// Coefficients of what has this series.
    fn by_series(&mut self, ad: &AdInst, of: impl FnOnce(&mut SeriesCx<'_, '_, '_>) -> Id) {
        let (name, ty) = ad.defs[0];
        let (kinds, scopes) = (Vec::new(), Vec::new());
        let (known, built, called, partials) = Default::default();
        let n = self.width;
        let mut cx = SeriesCx { w: self, ty, kinds, scopes, known, built, called, partials };
        let target = of(&mut cx);
        let coefficients: Vec<Val> = (1..=n).map(|j| cx.coefficient(target, j)).collect();
        let parts = self.pack(&coefficients, ty);
        self.define(name, ty, parts);
    }
}

impl SeriesCx<'_, '_, '_> {
    fn put(&mut self, kind: SeriesKind) -> Id {
        self.kinds.push(kind);
        self.kinds.len() - 1
    }

    /// The series of a value of the function.
    fn given(&mut self, x: ir::Value) -> Id {
        let lanes = if self.w.facts.is_active(x) { self.w.lanes(Val::Tangent(x, 0)) } else { Vec::new() };
        self.put(SeriesKind::Given(Val::Primal(x), lanes))
    }

    /// The series of a guarded product.
    fn product(&mut self, p: &Product) -> Id {
        let mut others = p.times.to_vec();
        for s in &p.strong {
            if let Some(k) = others.iter().position(|x| x == s) {
                others.remove(k);
            }
        }
        let mut so_far = None;
        for x in others {
            let x = self.given(x);
            so_far = Some(so_far.map_or(x, |y| self.put(SeriesKind::Mul(y, x))));
        }
        let mut so_far = so_far.unwrap_or_else(|| self.put(SeriesKind::Const(1.0)));
        for &e in &p.over {
            let e = self.given(e);
            so_far = self.put(SeriesKind::Div(so_far, e));
        }
        for &s in &p.strong {
            let s = self.given(s);
            so_far = self.put(SeriesKind::Guarded(s, so_far));
        }
        if p.neg {
            so_far = self.put(SeriesKind::Neg(so_far));
        }
        for &(c, open) in &p.gates {
            let zero = self.put(SeriesKind::Const(0.0));
            let (a, b) = if open { (so_far, zero) } else { (zero, so_far) };
            so_far = self.put(SeriesKind::Select(Val::Primal(c), a, b));
        }
        so_far
    }

    /// The series of a result of the instruction itself.
    fn instruction(&mut self, row: &Arc<ExprRow>, args: &[ir::Value], results: &[ir::Value], of: usize) -> Id {
        let facts = self.w.facts;
        let operand =
            |cx: &mut Self, &x: &ir::Value| facts.func().dfg.value_type(x).lane_type().is_float().then(|| cx.given(x));
        let operands = args.iter().map(|x| operand(self, x)).collect();
        let scope = self.scopes.len();
        let named = |r: usize| results.get(r).map_or(Worth::Nowhere, |&z| Worth::Named(Val::Primal(z)));
        let all =
            (0..row.n_results()).map(|r| self.put(SeriesKind::Row(Arc::clone(row), r, scope, named(r)))).collect();
        self.scopes.push(Scope { operands, ints: args.to_vec(), results: all });
        self.scopes[scope].results[of]
    }

    /// A call of a function that an expression makes.
    fn call(&mut self, f: MathFn, args: Vec<Id>) -> Id {
        if let Some(&known) = self.called.get(&(f, args.clone())) {
            return known;
        }
        let Some(MathKind::Expr(row)) = math_rule(f.symbol()).map(|rule| &rule.kind) else {
            self.w.unfit("a function without a row");
            return self.put(SeriesKind::Const(0.0));
        };
        let scope = self.scopes.len();
        let id = self.put(SeriesKind::Row(Arc::clone(row), 0, scope, Worth::Called(f, args.clone())));
        self.scopes.push(Scope { operands: args.iter().copied().map(Some).collect(), ints: vec![], results: vec![id] });
        self.called.insert((f, args), id);
        id
    }

    /// The series of an expression.
    fn expr(&mut self, e: &E, scope: usize) -> Id {
        let key = (std::ptr::from_ref(e.node()), scope);
        if let Some(&known) = self.built.get(&key) {
            return known;
        }
        let two = |cx: &mut Self, a: &E, b: &E| (cx.expr(a, scope), cx.expr(b, scope));
        let id = match e.node() {
            &Node::Operand(i) => self.scopes[scope].operands[i].expect("a float"),
            &Node::IntOperand(i) => {
                let int = self.scopes[scope].ints[i];
                self.put(SeriesKind::Int(int))
            }
            &Node::Result(i) => self.scopes[scope].results[i],
            &Node::Const(c) => self.put(SeriesKind::Const(c)),
            Node::Neg(a) => {
                let a = self.expr(a, scope);
                self.put(SeriesKind::Neg(a))
            }
            Node::Add(a, b) => {
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Add(a, b))
            }
            Node::Sub(a, b) => {
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Sub(a, b))
            }
            Node::Mul(a, b) => {
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Mul(a, b))
            }
            Node::Div(a, b) => {
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Div(a, b))
            }
            Node::Sqrt(a) => {
                let a = self.expr(a, scope);
                self.put(SeriesKind::Sqrt(a))
            }
            Node::Abs(a) => {
                let a = self.expr(a, scope);
                self.put(SeriesKind::Signed(a, None))
            }
            Node::Nearest(a) => {
                let a = self.expr(a, scope);
                self.put(SeriesKind::Nearest(a))
            }
            Node::Copysign(a, b) => {
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Signed(a, Some(b)))
            }
            Node::Math(f, args) => {
                let args = args.iter().map(|a| self.expr(a, scope)).collect();
                self.call(*f, args)
            }
            Node::Call(_) => {
                self.w.unfit("a function of the user's, whose derivative is another function,");
                self.put(SeriesKind::Const(0.0))
            }
            Node::Select(c, a, b) => {
                let c = self.cond(c, scope);
                let (a, b) = two(self, a, b);
                self.put(SeriesKind::Select(c, a, b))
            }
        };
        self.built.insert(key, id);
        id
    }

    /// A condition, which is that of the values.
    fn cond(&mut self, c: &Cond, scope: usize) -> Val {
        let mask = if self.ty.is_vector() { self.ty.as_truthy() } else { types::I8 };
        match c.node() {
            CondNode::Cmp(cc, a, b) => {
                let (a, b) = (self.expr(a, scope), self.expr(b, scope));
                let (a, b) = (self.coefficient(a, 0), self.coefficient(b, 0));
                self.w.arith(Arith::Fcmp(*cc), &[a, b], mask)
            }
            CondNode::And(a, b) => {
                let (a, b) = (self.cond(a, scope), self.cond(b, scope));
                self.w.arith(Arith::Band, &[a, b], mask)
            }
            CondNode::Or(a, b) => {
                let (a, b) = (self.cond(a, scope), self.cond(b, scope));
                self.w.arith(Arith::Bor, &[a, b], mask)
            }
            CondNode::Not(a) => {
                let a = self.cond(a, scope);
                self.w.arith(Arith::Not, &[a], mask)
            }
        }
    }

    fn constant(&mut self, x: f64) -> Val {
        let ty = self.ty;
        self.w.arith(Arith::Const(x), &[], ty)
    }

    fn op(&mut self, op: Arith, args: &[Val]) -> Val {
        let ty = self.ty;
        self.w.arith(op, args, ty)
    }

    /// Coefficient `j`, the value for `j = 0`, as a name.
    fn coefficient(&mut self, id: Id, j: usize) -> Val {
        self.at(id, j).unwrap_or_else(|| self.constant(0.0))
    }

    fn sum(&mut self, terms: Vec<Val>) -> Option<Val> {
        terms.into_iter().reduce(|a, b| self.op(Arith::Fadd, &[a, b]))
    }

    /// Coefficient `j`; none if it is zero.
    fn at(&mut self, id: Id, j: usize) -> Option<Val> {
        if let Some(&known) = self.known.get(&(id, j)) {
            return known;
        }
        let found = self.computed(id, j);
        self.known.insert((id, j), found);
        found
    }

    fn computed(&mut self, id: Id, j: usize) -> Option<Val> {
        match self.kinds[id].clone() {
            SeriesKind::Given(v, _) if j == 0 => Some(v),
            SeriesKind::Given(_, lanes) => lanes.get(j - 1).copied(),
            SeriesKind::Const(_) | SeriesKind::Int(_) | SeriesKind::Nearest(_) if j > 0 => None,
            SeriesKind::Const(c) => Some(self.constant(c)),
            SeriesKind::Int(v) => Some(self.op(Arith::FromInt, &[Val::Primal(v)])),
            SeriesKind::Nearest(a) => self.at(a, 0).map(|a| self.op(Arith::Nearest, &[a])),
            SeriesKind::Neg(a) => self.at(a, j).map(|a| self.op(Arith::Fneg, &[a])),
            SeriesKind::Add(a, b) => match (self.at(a, j), self.at(b, j)) {
                (Some(a), Some(b)) => Some(self.op(Arith::Fadd, &[a, b])),
                (a, b) => a.or(b),
            },
            SeriesKind::Sub(a, b) => match (self.at(a, j), self.at(b, j)) {
                (Some(a), Some(b)) => Some(self.op(Arith::Fsub, &[a, b])),
                (a, b) => a.or_else(|| b.map(|b| self.op(Arith::Fneg, &[b]))),
            },
            SeriesKind::Mul(a, b) => {
                let terms = (0..=j).filter_map(|m| {
                    let (a, b) = (self.at(a, m)?, self.at(b, j - m)?);
                    Some(self.op(Arith::Fmul, &[a, b]))
                });
                let terms = terms.collect();
                self.sum(terms)
            }
            SeriesKind::Guarded(a, b) => self.guarded(a, b, j),
            SeriesKind::Div(a, b) => {
                let rest = (1..=j).filter_map(|m| {
                    let (b, q) = (self.at(b, m)?, self.at(id, j - m)?);
                    Some(self.op(Arith::Fmul, &[b, q]))
                });
                let rest = rest.collect();
                let top = match (self.at(a, j), self.sum(rest)) {
                    (Some(a), Some(rest)) => Some(self.op(Arith::Fsub, &[a, rest])),
                    (a, rest) => a.or_else(|| rest.map(|r| self.op(Arith::Fneg, &[r]))),
                }?;
                let below = self.coefficient(b, 0);
                Some(self.op(Arith::Fdiv, &[top, below]))
            }
            SeriesKind::Sqrt(a) if j == 0 => {
                let a = self.coefficient(a, 0);
                Some(self.op(Arith::Sqrt, &[a]))
            }
            SeriesKind::Sqrt(a) => {
                let rest = (1..j).filter_map(|m| {
                    let (s, t) = (self.at(id, m)?, self.at(id, j - m)?);
                    Some(self.op(Arith::Fmul, &[s, t]))
                });
                let rest = rest.collect();
                let top = match (self.at(a, j), self.sum(rest)) {
                    (Some(a), Some(rest)) => Some(self.op(Arith::Fsub, &[a, rest])),
                    (a, rest) => a.or_else(|| rest.map(|r| self.op(Arith::Fneg, &[r]))),
                }?;
                let root = self.coefficient(id, 0);
                let double_root = self.op(Arith::Fadd, &[root, root]);
                Some(self.op(Arith::Fdiv, &[top, double_root]))
            }
            SeriesKind::Signed(a, sign) => {
                let of = self.at(a, j)?;
                let mut signs = vec![a];
                signs.extend(sign);
                signs.into_iter().try_fold(of, |v, s| {
                    let (one, s) = (self.constant(1.0), self.coefficient(s, 0));
                    let one = self.op(Arith::Copysign, &[one, s]);
                    Some(self.op(Arith::Fmul, &[v, one]))
                })
            }
            SeriesKind::Select(c, a, b) => {
                let (a, b) = (self.at(a, j), self.at(b, j));
                if a.is_none() && b.is_none() {
                    return None;
                }
                let [a, b] = [a, b].map(|v| v.unwrap_or_else(|| self.constant(0.0)));
                Some(self.op(Arith::Select, &[c, a, b]))
            }
            SeriesKind::Row(_, _, _, value) if j == 0 => match value {
                Worth::Named(v) => Some(v),
                Worth::Called(f, args) => {
                    let args: Vec<Val> = args.iter().map(|&a| self.coefficient(a, 0)).collect();
                    Some(self.op(Arith::Math(Box::new(f.symbol())), &args))
                }
                Worth::Nowhere => {
                    self.w.unfit("a function whose slope is made of what it has written to memory");
                    None
                }
            },
            SeriesKind::Row(row, result, scope, _) => self.by_row(id, &row, result, scope, j),
        }
    }

    /// Coefficient `j` of a product in which zeros of the first factor are strong. Of the other
    /// they are so but for its value: that is a slope.
    fn guarded(&mut self, a: Id, b: Id, j: usize) -> Option<Val> {
        let terms = (0..=j).filter_map(|m| {
            let (a, b) = (self.at(a, m)?, self.at(b, j - m)?);
            let mut term = self.op(Arith::Fmul, &[a, b]);
            for strong in [Some(a), (m < j).then_some(b)].into_iter().flatten() {
                let some = self.op(Arith::NonZero, &[strong]);
                term = self.op(Arith::KeepWhere, &[term, some]);
            }
            Some(term)
        });
        let terms = terms.collect();
        self.sum(terms)
    }

    /// Coefficient `j` of a result of a row.
    fn by_row(&mut self, id: Id, row: &ExprRow, result: usize, scope: usize, j: usize) -> Option<Val> {
        let mut terms = Vec::new();
        for i in 0..row.n_operands() {
            let (Some(x), Partial::Scale(scale)) = (self.scopes[scope].operands[i], row.partial(result, i)) else {
                continue;
            };
            for m in 1..=j {
                let Some(of) = self.at(x, m) else { continue };
                let slope = self.slope(id, row, result, scope, i);
                let Some(g) = self.at(slope, j - m) else { continue };
                let mut term = self.op(Arith::Fmul, &[of, g]);
                if scale.may_blow_up && self.w.facts.options.strong_zero {
                    let some = self.op(Arith::NonZero, &[of]);
                    term = self.op(Arith::KeepWhere, &[term, some]);
                }
                if m > 1 {
                    let m = self.constant(m as f64);
                    term = self.op(Arith::Fmul, &[term, m]);
                }
                terms.push(term);
            }
        }
        let sum = self.sum(terms)?;
        if j == 1 {
            return Some(sum);
        }
        let j = self.constant(j as f64);
        Some(self.op(Arith::Fdiv, &[sum, j]))
    }

    /// The series of a partial.
    fn slope(&mut self, id: Id, row: &ExprRow, result: usize, scope: usize, operand: usize) -> Id {
        if let Some(&known) = self.partials.get(&(id, operand)) {
            return known;
        }
        let Partial::Scale(scale) = row.partial(result, operand) else { unreachable!("it is no zero") };
        let mut slope = match &scale.times {
            Some(times) => self.expr(times, scope),
            None => self.put(SeriesKind::Const(1.0)),
        };
        if let Some(over) = &scale.over {
            let over = self.expr(over, scope);
            slope = self.put(SeriesKind::Div(slope, over));
        }
        if scale.neg {
            slope = self.put(SeriesKind::Neg(slope));
        }
        self.partials.insert((id, operand), slope);
        slope
    }
}
