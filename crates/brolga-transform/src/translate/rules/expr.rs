//! Formula rows: each operand's cotangent is the result's times a partial derivative.
//!
//! **Question.** A row of `brolga-rules` has a formula for each partial. Which instructions does it
//! become?
//!
//! **Answer.** A partial is a number of factors and a divisor, each an expression over operands and
//! results. Each node of an expression becomes one instruction of the reverse fragment, but for
//! calls that the primal has made already (`Pass::ShareCalls`); what the primal has is a name, and
//! how the reverse half gets it is the plan's to say. A product by a factor that may not be finite,
//! and a quotient, gets a guard (*strong zero*).
//!
//! ```text
//! z = fmul x, y      x̄ += z̄ · y, ȳ += z̄ · x      each guarded, but by a constant that is finite
//! z = sqrt x         x̄ += z̄ / |z + z|             guarded: z may be zero
//! ```
//!
//! Forward mode walks the same formulas with the tangent of an operand in place of the cotangent.
//!
//! **Cost.** One walk over the partials of a row; a node that several of them have becomes one
//! instruction.

use std::cmp::Ordering;

use brolga_analysis::query::constant_float;
use brolga_analysis::uses::Use;
use brolga_analysis::{CalleeKind, KnownRule, computed_operands};
use brolga_ir::map::HashMap;

use brolga_ir::inst::{Arith, Val};
use brolga_rules::expr::CondNode;
use brolga_rules::{CallArg, Cond, E, ExprRow, MathFn, MathRule, Node, Partial, Scale};
use cranelift_codegen::ir::{self, Type};
use smallvec::SmallVec;

use crate::translate::convert::mask_type;
use crate::translate::stmt::{FragmentKind, Numbers, StmtCx};
use brolga_ir::Pass;

/// A pointwise instruction with one result.
pub(crate) fn row(cx: &mut StmtCx<'_, '_, '_>, row: &ExprRow) {
    let z = cx.results()[0];
    if !cx.facts().is_active(z) {
        return;
    }
    let ct = cx.take_ct(z);
    let args = cx.args();
    apply(cx, row, 0, ct, args, &[z]);
}

/// Send the cotangent of one result to the operands.
pub(crate) fn apply(
    cx: &mut StmtCx<'_, '_, '_>,
    row: &ExprRow,
    result: usize,
    ct: Val,
    args: &[ir::Value],
    results: &[ir::Value],
) {
    // What is written through a pointer has no name.
    let under_root = match results.get(result) {
        Some(&z) => cx.facts().roots.holds(z),
        None => args.iter().any(|&x| cx.facts().roots.holds(x)),
    };
    let mut w = Walker { ct, operands: args, results, ty: ir::types::INVALID, under_root, seen: HashMap::default() };
    for (i, &x) in args.iter().enumerate() {
        if !cx.facts().is_active(x) {
            continue;
        }
        w.ty = cx.ty(x);
        let Partial::Scale(s) = row.partial(result, i) else { continue };
        let by = w.scale(cx, s);
        cx.add_ct(x, by);
    }
}

/// The tangent of one result: each operand's tangent times its partial, added up. None if no
/// operand has one.
pub(crate) fn tangent(
    cx: &mut StmtCx<'_, '_, '_>,
    row: &ExprRow,
    result: usize,
    args: &[ir::Value],
    results: &[ir::Value],
) -> Option<Val> {
    let ty = ir::types::INVALID;
    let ct = Val::Tangent(args.first().copied()?, 0);
    let mut w = Walker { ct, operands: args, results, ty, under_root: false, seen: HashMap::default() };
    let mut sum = None;
    for (i, &x) in args.iter().enumerate() {
        let Partial::Scale(s) = row.partial(result, i) else { continue };
        if !cx.facts().is_active(x) {
            continue;
        }
        (w.ct, w.ty) = (Val::Tangent(x, 0), cx.ty(x));
        let by = w.scale(cx, s);
        sum = Some(match sum {
            Some(so_far) => cx.arith(Arith::Fadd, &[so_far, by], w.ty),
            None => by,
        });
    }
    sum
}

/// Whether a factor cannot be infinite or NaN, whatever operands are that `known` does not know to
/// be finite.
fn bounded(e: &E, known: &dyn Fn(usize) -> bool) -> bool {
    let go = |e: &E| bounded(e, known);
    match e.node() {
        Node::Const(c) => c.is_finite(),
        Node::Neg(a) | Node::Abs(a) | Node::Nearest(a) | Node::Copysign(a, _) => go(a),
        // A sum or product of finite numbers can overflow; one of the rows' own constants does not.
        Node::Mul(a, b) | Node::Add(a, b) | Node::Sub(a, b) => bounded(a, &|_| false) && bounded(b, &|_| false),
        Node::Select(_, a, b) => go(a) && go(b),
        Node::Operand(i) => known(*i),
        Node::IntOperand(_) | Node::Result(_) | Node::Div(..) | Node::Sqrt(_) | Node::Math(..) | Node::Call(_) => false,
    }
}

/// Walks expressions and emits them; equal nodes are emitted once.
struct Walker<'e> {
    ct: Val,
    operands: &'e [ir::Value],
    results: &'e [ir::Value],
    ty: Type,
    under_root: bool,
    seen: HashMap<*const Node, Val>,
}

impl Walker<'_> {
    fn scale(&mut self, cx: &mut StmtCx<'_, '_, '_>, s: &Scale) -> Val {
        let mut r = self.ct;
        let mut guard = false;
        let mut factor = None;
        if let Some(e) = &s.over {
            // Zero divided by a number that is not zero is zero.
            guard = !matches!(*e.node(), Node::Operand(i) if self.is_nonzero(cx, i));
            let e = self.expr(cx, e);
            r = cx.arith(Arith::Fdiv, &[r, e], self.ty);
        }
        if let Some(t) = s.times.as_ref().filter(|t| !self.is_one(cx, t)) {
            let e = self.expr(cx, t);
            factor = self.may_be_zero(cx, t).then_some(e);
            r = if cx.is_one(r) { e } else { cx.arith(Arith::Fmul, &[r, e], self.ty) };
            let (func, operands) = (cx.func(), self.operands);
            guard |= !bounded(t, &|i| constant_float(func, operands[i]).is_some_and(f64::is_finite));
        }
        if s.neg {
            r = cx.arith(Arith::Fneg, &[r], self.ty);
        }
        if s.edge {
            let why = self.harmless(cx, s);
            cx.at_root(why);
        }
        if let Some(factor) = factor.filter(|_| self.under_root) {
            r = cx.unless_at_root(self.ct, factor, r, self.ty);
        }
        if guard {
            let why = self.harmless(cx, s);
            cx.strong(self.ct, r, self.ty, why)
        } else {
            r
        }
    }

    /// Whether a factor is the constant one: a product with it is its other factor.
    fn is_one(&self, cx: &StmtCx<'_, '_, '_>, e: &E) -> bool {
        match *e.node() {
            Node::Operand(i) => constant_float(cx.func(), self.operands[i]) == Some(1.0),
            _ => false,
        }
    }

    /// Whether an operand is a constant, and a number other than zero.
    fn is_nonzero(&self, cx: &StmtCx<'_, '_, '_>, operand: usize) -> bool {
        constant_float(cx.func(), self.operands[operand]).is_some_and(|c| c != 0.0 && !c.is_nan())
    }

    /// Whether a factor may be zero, for all that is known here.
    fn may_be_zero(&self, cx: &StmtCx<'_, '_, '_>, e: &E) -> bool {
        match *e.node() {
            Node::Const(c) => c == 0.0,
            Node::Operand(i) => !self.is_nonzero(cx, i),
            _ => true,
        }
    }

    /// What makes zero times a factor zero.
    fn harmless(&self, cx: &StmtCx<'_, '_, '_>, s: &Scale) -> Option<Numbers> {
        let mut why = Numbers::default();
        match (&s.over, cx.func().dfg.insts[cx.inst()].opcode()) {
            // A quotient by zero is infinite or NaN; what it is multiplied by is the quotient.
            (Some(_), ir::Opcode::Fdiv) => why.finite.push(self.results[0]),
            (Some(_), ir::Opcode::Sqrt) => {
                why.finite.push(self.results[0]);
                why.nonzero = Some(self.results[0]);
            }
            _ if s.may_blow_up => return None,
            // Finite, if all that it is made of is.
            _ => {
                let reads = s.reads();
                let operands = reads.operands().map(|i| self.operands[i]);
                let all = operands.chain(reads.results().map(|i| self.results[i]));
                why.finite.extend(all.filter(|&v| cx.ty(v).lane_type().is_float()));
            }
        }
        Some(why)
    }

    fn expr(&mut self, cx: &mut StmtCx<'_, '_, '_>, e: &E) -> Val {
        let key = std::ptr::from_ref(e.node());
        if let Some(&v) = self.seen.get(&key) {
            return v;
        }
        let ty = self.ty;
        let v = match e.node() {
            &Node::Operand(i) => Val::Primal(self.operands[i]),
            &Node::IntOperand(i) => cx.arith(Arith::FromInt, &[Val::Primal(self.operands[i])], ty),
            &Node::Result(i) => Val::Primal(self.results[i]),
            &Node::Const(c) => cx.constant(c, ty),
            Node::Neg(a) => self.op(cx, Arith::Fneg, [a]),
            Node::Add(a, b) => self.op(cx, Arith::Fadd, [a, b]),
            Node::Sub(a, b) => self.op(cx, Arith::Fsub, [a, b]),
            Node::Mul(a, b) => self.op(cx, Arith::Fmul, [a, b]),
            Node::Div(a, b) => self.op(cx, Arith::Fdiv, [a, b]),
            Node::Sqrt(a) => self.op(cx, Arith::Sqrt, [a]),
            Node::Abs(a) => self.op(cx, Arith::Fabs, [a]),
            Node::Nearest(a) => self.op(cx, Arith::Nearest, [a]),
            Node::Copysign(a, b) => self.op(cx, Arith::Copysign, [a, b]),
            Node::Math(f, args) => match self.shared(cx, *f, args) {
                Some(result) => Val::Primal(result),
                None => self.op(cx, Arith::Math(Box::new(f.symbol())), args),
            },
            Node::Call(called) => {
                let (mut args, mut types) = (Vec::new(), Vec::new());
                for arg in &called.args {
                    let (v, ty) = match arg {
                        CallArg::Float(e) => (self.expr(cx, e), ty),
                        CallArg::Other(i) => (Val::Primal(self.operands[*i]), cx.ty(self.operands[*i])),
                    };
                    args.push(Some(v));
                    types.push(ty);
                }
                let d = cx.name();
                cx.helper(cx.place(), &called.symbol, &args, &types, [(d, ty)].into(), false);
                d
            }
            Node::Select(c, a, b) => {
                let c = self.cond(cx, c);
                let (a, b) = (self.expr(cx, a), self.expr(cx, b));
                cx.arith(Arith::Select, &[c, a, b], ty)
            }
        };
        self.seen.insert(key, v);
        v
    }

    /// What the primal has from the same function of the same operands: a rotation asks for a sine
    /// and a cosine, and each of them is in the derivative of the other. It must be there whenever
    /// the statement has run, so its block comes before the statement's on all ways, or is the
    /// same. No operand can be another one by then: whatever defines it lies before both.
    fn shared(&self, cx: &StmtCx<'_, '_, '_>, f: MathFn, args: &[E]) -> Option<ir::Value> {
        let facts = cx.facts();
        let operand = |e: &E| match *e.node() {
            Node::Operand(i) => Some(self.operands[i]),
            _ => None,
        };
        let wanted: SmallVec<[ir::Value; 2]> = args.iter().map(operand).collect::<Option<_>>()?;
        let (func, layout) = (facts.func(), &facts.func().layout);
        let here = layout.inst_block(cx.inst())?;
        let symbol = if self.ty == ir::types::F32 { f.symbol_f32() } else { f.symbol() };
        let asks = |inst: ir::Inst| {
            let args = func.dfg.inst_args(inst);
            let callee = CalleeKind::of(facts.program, func, inst)?;
            let (rule, args): (&MathRule, _) = match &callee {
                // A function with a rule of the user's may be another one of that name.
                CalleeKind::Known(KnownRule::OfTable(rule)) => (rule, args),
                CalleeKind::Computes(rule) => (rule, computed_operands(rule, args)),
                _ => return None,
            };
            // The reverse of a block comes after all of it, a tangent after its own instruction.
            let comes_later = || cx.place() == FragmentKind::After && layout.pp_cmp(inst, cx.inst()) != Ordering::Less;
            let before = |b| if b == here { !comes_later() } else { facts.loops.dominates(b, here) };
            let before = layout.inst_block(inst).is_some_and(before);
            (rule.symbol == symbol && *args == wanted[..] && before).then(|| func.dfg.first_result(inst))
        };
        let users = facts.uses.of(wanted[0]).iter().filter(|_| facts.options.runs(Pass::ShareCalls));
        users.filter_map(|u| if let Use::Inst(inst, _) = *u { Some(inst) } else { None }).find_map(asks)
    }

    fn op<'e>(&mut self, cx: &mut StmtCx<'_, '_, '_>, op: Arith, args: impl IntoIterator<Item = &'e E>) -> Val {
        let args: Vec<Val> = args.into_iter().map(|a| self.expr(cx, a)).collect();
        cx.arith(op, &args, self.ty)
    }

    fn cond(&mut self, cx: &mut StmtCx<'_, '_, '_>, c: &Cond) -> Val {
        let mask = mask_type(self.ty);
        match c.node() {
            CondNode::Cmp(cc, a, b) => {
                let (a, b) = (self.expr(cx, a), self.expr(cx, b));
                cx.arith(Arith::Fcmp(*cc), &[a, b], mask)
            }
            CondNode::And(a, b) => {
                let (a, b) = (self.cond(cx, a), self.cond(cx, b));
                cx.arith(Arith::Band, &[a, b], mask)
            }
            CondNode::Or(a, b) => {
                let (a, b) = (self.cond(cx, a), self.cond(cx, b));
                cx.arith(Arith::Bor, &[a, b], mask)
            }
            CondNode::Not(a) => {
                let a = self.cond(cx, a);
                cx.arith(Arith::Not, &[a], mask)
            }
        }
    }
}
