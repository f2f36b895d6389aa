//! Lowering of reversible statements to CLIF, with or without cotangents beside the values.
//!
//! **Question.** What does a statement do, and what does undoing it do to cotangents?
//!
//! **Answer.** [`lowered`] makes one form of a function. The statements that are lowered are those
//! that run: of an inverse and of an adjoint, the inverted ones. If `x -= e(y)` runs with
//! cotangents, it undoes `x += e(y)`:
//!
//! | statement that runs | values | cotangents |
//! |---|---|---|
//! | `x -= e(y)` | `x - e(y)` | `ȳ += x̄ ∂e/∂y` |
//! | `swap x, y` | exchanged | exchanged |
//! | a rotation | rotated | rotated by the same angle; that of the angle gets its part |
//! | a new place | its value | zero |
//! | the end of a place | gone | go to what its value is made from |
//! | a call | the callee's form of the same direction | the callee takes shadows too |
//!
//! Parameters that are numbers are loaded when the function begins, live in registers, and are put
//! back when it ends. Arrays, stacks and records stay in memory. The cotangent of a parameter that
//! is only read begins as zero and is added in the end. A number that is passed to a callee goes
//! through a stack slot.
//!
//! **Errors.** A check that fails at run time goes to one cold block, which returns the number of
//! the check; after a call the callee's is handed on. What has been allocated is released first.
//! What is checked depends on the [`CheckMode`] of the region. An expression without a derivative
//! is an error of lowering.
//!
//! **Cost.** One walk over the statements. In a run, a comparison and a branch for each check;
//! postconditions and limits of loops are computed again for theirs. With cotangents, the partial
//! derivatives of each expression that updates a float.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Type as Clif, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::abi::{Form, call_symbol, flags_of, is_word, order, signature, slot, taken, widened};
use super::context::{ClifFunction, Lowering, empty};
use super::expr::{Leaf, MOST_FIXED, Maker, UNITS, parts_of, to_fixed};
use super::state::{Home, PlaceStorage, StmtLowering, cotangents};
use crate::ast::{
    BinaryOp, CheckMode, Expr, ExprKind, Function, Len, RevPlace, SourceSpan, Stmt, StmtKind, Type, UnaryOp, UpdateOp,
};
use crate::error::{Fault, RevError};
use crate::invert::inverse_of;
use crate::layout::Scalar;
use crate::types::{NameRole, NameScope, Overlap, overlap};

/// A form of a function.
pub(super) fn lowered<'f>(cx: &'f Lowering<'f>, f: &'f Function, form: Form) -> Result<ClifFunction, Vec<RevError>> {
    let symbol = form.symbol(&f.name);
    let fallible = cx.fallible.contains(&f.name);
    let mut func = empty(&symbol, steps_signature(cx, f, form));
    let mut fcx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut fcx);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.set_srcloc(ir::SourceLoc::new(f.at.line));
    let fail = fallible.then(|| {
        let block = b.create_block();
        b.append_block_param(block, types::I32);
        block
    });
    let scope = NameScope::of(f, cx.layouts);
    let mut this = StmtLowering {
        cx,
        name: &f.name,
        b,
        scope,
        homes: HashMap::new(),
        with_cotangents: form.cotangents,
        quiet: false,
        fresh: HashSet::new(),
        rooms: vec![],
        check: f.check,
        fail,
        errors: vec![],
    };
    let params = this.b.block_params(entry).to_vec();
    let order = order(f);
    this.words(f, &order, &params);
    let back = this.enter(f, &order, &params);
    if form.back {
        this.block(&inverse_of(&f.body));
    } else {
        this.block(&f.body);
    }
    this.b.set_srcloc(ir::SourceLoc::new(f.at.line));
    this.leave(back);
    let mut results = vec![];
    if let Some(fail) = this.fail {
        let nothing = this.b.ins().iconst(types::I32, 0);
        this.b.ins().return_(&[nothing]);
        this.b.switch_to_block(fail);
        results.push(this.b.block_params(fail)[0]);
        this.b.set_cold_block(fail);
    }
    this.b.ins().return_(&results);
    let StmtLowering { mut b, errors, .. } = this;
    b.seal_all_blocks();
    b.finalize(cx.isa.frontend_config());
    if errors.is_empty() {
        Ok(ClifFunction { symbol, func, line: f.at.line, called: Some(form.called(&f.name)) })
    } else {
        Err(errors)
    }
}

/// The signature of statements: words, shadows of what has an address; a number if something is
/// checked.
pub(super) fn steps_signature(cx: &Lowering<'_>, f: &Function, form: Form) -> ir::Signature {
    let shadows = if form.cotangents { f.params.len() } else { 0 };
    let params = vec![types::I64; f.params.len() + shadows];
    let returns: &[Clif] = if cx.fallible.contains(&f.name) { &[types::I32] } else { &[] };
    signature(&params, returns)
}

/// A parameter that is in registers: where it is put in the end.
struct WriteBack {
    at: PlaceStorage,
    address: Value,
    shadow: Option<Value>,
    ty: Type,
    input: bool,
}

impl<'f> StmtLowering<'_, 'f> {
    /// Integers that are read: lengths of others may be among them.
    fn words(&mut self, f: &Function, order: &[usize], params: &[Value]) {
        for (k, &i) in order.iter().enumerate().filter(|&(_, &i)| is_word(&f.params[i])) {
            let ty = Scalar::of(&f.params[i].ty).expect("it is an integer");
            let v = taken(&mut self.b, params[k], &f.params[i].ty);
            self.homes.insert(f.params[i].name.clone(), Home::Word(v, ty));
        }
    }

    /// Places of the caller's: numbers go to registers.
    fn enter(&mut self, f: &Function, order: &[usize], params: &[Value]) -> Vec<WriteBack> {
        let n = f.params.len();
        let mut back = Vec::new();
        for (k, p) in order.iter().map(|&i| &f.params[i]).enumerate().filter(|(_, p)| !is_word(p)) {
            let address = params[k];
            let shadow = self.with_cotangents.then(|| params[n + k]);
            let Some(ty) = Scalar::of(&p.ty) else {
                self.homes.insert(p.name.clone(), Home::Memory { address, shadow });
                continue;
            };
            let there = PlaceStorage::Memory { address, shadow, offset: 0, ty: p.ty.clone() };
            let values = self.load(&there);
            // What is read only is added to in the end.
            let cts = if !self.with_cotangents {
                vec![]
            } else if p.input {
                self.no_cotangent(ty)
            } else {
                self.cotangent(&there)
            };
            let at = self.in_registers(&p.name, ty, &values, &cts);
            back.push(WriteBack { at, address, shadow, ty: p.ty.clone(), input: p.input });
        }
        back
    }

    /// Put numbers back where they came from.
    fn leave(&mut self, back: Vec<WriteBack>) {
        for WriteBack { at, address, shadow, ty, input } in back {
            let there = PlaceStorage::Memory { address, shadow, offset: 0, ty };
            let cts = self.cotangent(&at);
            if input {
                self.add_cotangent(&there, &cts);
            } else {
                let values = self.load(&at);
                self.store(&there, &values);
                self.set_cotangent(&there, &cts);
            }
        }
    }

    /// A name for a number in registers.
    pub(super) fn in_registers(&mut self, name: &str, ty: Scalar, values: &[Value], cts: &[Value]) -> PlaceStorage {
        let mut new = |tys: &[Clif], from: &[Value]| -> Vec<_> {
            let with = |(&ty, &v)| {
                let var = self.b.declare_var(ty);
                self.b.def_var(var, v);
                var
            };
            tys.iter().zip(from).map(with).collect()
        };
        let values = new(parts_of(ty), values);
        let cotangents = new(cotangents(ty), cts);
        let home = Home::Registers { ty, values: values.clone(), cotangents: cotangents.clone() };
        self.homes.insert(name.to_owned(), home);
        PlaceStorage::Registers { ty, values, cotangents }
    }

    /// An expression: its type and its value.
    pub(super) fn value(&mut self, e: &Expr, want: Option<Scalar>) -> (Scalar, Vec<Value>) {
        let leaves = self.leaves(e).0;
        self.of_leaves(&leaves, |m| m.expr(e, want))
    }

    fn of_leaves<T>(&mut self, leaves: &[Leaf], of: impl FnOnce(&mut Maker<'_, '_>) -> T) -> T {
        let undefined = (self.check != CheckMode::Off).then(Vec::new);
        let mut maker = Maker { b: &mut self.b, scope: &self.scope, leaves, undefined };
        let found = of(&mut maker);
        let undefined = maker.undefined.unwrap_or_default();
        let line = self.b.srcloc().bits();
        for undefined in undefined {
            self.fail_if(undefined, Fault::NoQuotient, line);
        }
        found
    }

    /// A condition, of which what is not needed is not looked at.
    fn condition(&mut self, e: &Expr) -> Value {
        match &e.kind {
            ExprKind::Unary(UnaryOp::Not, a) => {
                let a = self.condition(a);
                self.b.ins().bxor_imm_u(a, 1)
            }
            ExprKind::Binary(op @ (BinaryOp::Both | BinaryOp::Either), a, c) => {
                let first = self.condition(a);
                let [more, done] = [(); 2].map(|()| self.b.create_block());
                let found = self.b.append_block_param(done, types::I8);
                if *op == BinaryOp::Both {
                    self.b.ins().brif(first, more, &[], done, &[first.into()]);
                } else {
                    self.b.ins().brif(first, done, &[first.into()], more, &[]);
                }
                self.b.switch_to_block(more);
                let second = self.condition(c);
                self.b.ins().jump(done, &[second.into()]);
                self.b.switch_to_block(done);
                found
            }
            _ => self.value(e, None).1[0],
        }
    }

    /// Statements, one after the other.
    pub(super) fn block(&mut self, body: &[Stmt]) {
        for (i, stmt) in body.iter().enumerate() {
            self.b.set_srcloc(ir::SourceLoc::new(stmt.at.line));
            if let StmtKind::Compute { .. } = stmt.kind {
                self.compute(stmt, &body[i + 1..]);
            } else {
                self.used(stmt);
                self.stmt(stmt);
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let line = stmt.at.line;
        match &stmt.kind {
            StmtKind::Update { op, to, by } => self.update(*op, to, by, stmt.at),
            StmtKind::Swap(a, b) => self.swap(a, b, line),
            StmtKind::Rotate { a, b, by, back } => self.rotate([a, b], by, *back, stmt.at),
            StmtKind::Negate(place) => {
                let at = self.at(place);
                self.unread(place, &at, &[], line);
                let parts = self.load(&at);
                let cts = self.cotangent(&at);
                let of = |this: &mut Self, parts: Vec<Value>| -> Vec<Value> {
                    this.of_leaves(&[], |m| parts.into_iter().map(|v| m.negated(v)).collect())
                };
                let parts = if at.scalar() == Scalar::Q43 {
                    // A fixed-point number has one zero.
                    self.is_number_of(Scalar::Q43, parts[0], &[], line);
                    let zero = self.b.ins().f64const(0.0);
                    vec![self.b.ins().fsub(zero, parts[0])]
                } else {
                    of(self, parts)
                };
                self.store(&at, &parts);
                let cts = of(self, cts);
                self.set_cotangent(&at, &cts);
            }
            StmtKind::Step { place, down } => {
                let one = Expr { kind: ExprKind::Int(1), at: stmt.at };
                let op = if *down { UpdateOp::Sub } else { UpdateOp::Add };
                self.update(op, place, &one, stmt.at);
            }
            StmtKind::If { pre, post, then, other } => self.choice([pre, post], [then, other], line),
            StmtKind::While { from, cond, body } => self.repeat(from, cond, body, line),
            StmtKind::For { var, from, to, back, body } => self.count(var, [from, to], *back, body, line),
            StmtKind::Let { name, ty, value } => self.make(name, ty, value, stmt.at),
            StmtKind::Drop { name, ty, value } => {
                self.end(name, ty.as_ref().expect("the checker has put it there"), value, stmt.at);
            }
            StmtKind::Compute { .. } => unreachable!("its block has what comes behind it"),
            StmtKind::Call { name, args, un_call } => self.call(name, args, *un_call, line),
            StmtKind::Push { stack, from } => self.push(stack, from, line),
            StmtKind::Pop { stack, to } => self.pop(stack, to, line),
            StmtKind::Checked { check, body } => {
                let around = std::mem::replace(&mut self.check, *check);
                self.block(body);
                self.check = around;
            }
        }
    }

    fn update(&mut self, op: UpdateOp, to: &RevPlace, by: &Expr, span: SourceSpan) {
        let at = self.at(to);
        let ty = at.scalar();
        self.unread(to, &at, &[by], span.line);
        let (leaves, places) = self.leaves(by);
        let old = self.load(&at);
        let more = self.of_leaves(&leaves, |m| m.for_place(by, ty));
        let adds = matches!(op, UpdateOp::Add | UpdateOp::Mul);
        let more = self.on_grid(more, ty);
        self.is_number_of(ty, old[0], &more, span.line);
        // A real number changes the real part.
        let parts = old.iter().enumerate().map(|(i, &old)| {
            let Some(&more) = more.get(i) else { return old };
            match (op, self.b.func.dfg.value_type(old).is_float()) {
                (UpdateOp::Xor, _) => self.b.ins().bxor(old, more),
                (_, true) if adds => self.b.ins().fadd(old, more),
                (_, true) => self.b.ins().fsub(old, more),
                (_, false) if adds => self.b.ins().iadd(old, more),
                (_, false) => self.b.ins().isub(old, more),
            }
        });
        let new: Vec<Value> = parts.collect();
        self.in_range(ty, &new, span.line);
        self.store(&at, &new);
        if self.carries() && ty.is_active() {
            let mut seeds = self.cotangent(&at);
            // What adds here undoes what subtracts.
            if adds {
                seeds = seeds.into_iter().map(|v| self.b.ins().fneg(v)).collect();
            }
            self.gradient(by, ty, &leaves, &places, &seeds, span);
        }
    }

    /// What is added to a fixed-point number is one, too, so that the sum is exact.
    fn on_grid(&mut self, parts: Vec<Value>, ty: Scalar) -> Vec<Value> {
        match ty {
            Scalar::Q43 => parts.into_iter().map(|v| to_fixed(&mut self.b, v)).collect(),
            _ => parts,
        }
    }

    /// That a fixed-point number is a multiple of its unit, no second zero, and in range, as the
    /// inverse asks of it, and what is added to a logarithm one of a positive number.
    fn is_number_of(&mut self, ty: Scalar, old: Value, more: &[Value], line: u32) {
        let fits = match ty {
            _ if self.check == CheckMode::Off => return,
            Scalar::Q43 => {
                let units = self.b.ins().f64const(UNITS);
                let scaled = self.b.ins().fmul(old, units);
                let whole = self.b.ins().nearest(scaled);
                let fits = self.b.ins().fcmp(FloatCC::Equal, scaled, whole);
                let bits = self.b.ins().bitcast(types::I64, MemFlagsData::new(), old);
                let signed = self.b.ins().icmp_imm_s(IntCC::NotEqual, bits, i64::MIN);
                let fits = self.b.ins().band(fits, signed);
                let near = self.is_in_range(old);
                self.b.ins().band(fits, near)
            }
            Scalar::Log => {
                let (size, most) = (self.b.ins().fabs(more[0]), self.b.ins().f64const(f64::MAX));
                self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, most)
            }
            _ => return,
        };
        self.fail_unless(fits, Fault::NoNumber, line);
    }

    /// That sums of fixed-point numbers are exact: they are up to 2¹⁰.
    fn in_range(&mut self, ty: Scalar, parts: &[Value], line: u32) {
        if ty != Scalar::Q43 || self.check == CheckMode::Off {
            return;
        }
        let fits = self.is_in_range(parts[0]);
        self.fail_unless(fits, Fault::NoNumber, line);
    }

    fn is_in_range(&mut self, fixed: Value) -> Value {
        let most = self.b.ins().f64const(MOST_FIXED);
        let size = self.b.ins().fabs(fixed);
        self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, most)
    }

    /// Add what an expression hands to the places that it reads.
    fn gradient(
        &mut self,
        e: &Expr,
        ty: Scalar,
        leaves: &[Leaf],
        places: &[PlaceStorage],
        seeds: &[Value],
        span: SourceSpan,
    ) {
        let found = super::gradient::gradient(self, e, ty, leaves, seeds);
        match found {
            Ok(all) => {
                for (at, cts) in places.iter().zip(all).filter(|(_, cts)| !cts.is_empty()) {
                    self.add_cotangent(at, &cts);
                }
            }
            Err(message) => {
                let kind = crate::error::ErrorKind::Type;
                self.errors.push(RevError::new(kind, span, format!("`{e}` has no derivative: {message}")));
            }
        }
    }

    fn swap(&mut self, a: &RevPlace, b: &RevPlace, line: u32) {
        let (x, y) = (self.at(a), self.at(b));
        for (place, at) in [(a, &x), (b, &y)] {
            let other = if place == a { b } else { a };
            self.unread(place, at, &[], line);
            let mut reads = Vec::new();
            other.index_reads(&mut reads);
            let reads: Vec<RevPlace> =
                reads.into_iter().filter(|r| overlap(place, r) == Overlap::Maybe).cloned().collect();
            for read in reads {
                let read = self.at(&read);
                self.apart(at, &read, line);
            }
        }
        let (p, q) = (self.load(&x), self.load(&y));
        let (c, d) = (self.cotangent(&x), self.cotangent(&y));
        self.store(&x, &q);
        self.store(&y, &p);
        self.set_cotangent(&x, &d);
        self.set_cotangent(&y, &c);
    }

    fn rotate(&mut self, [a, b]: [&RevPlace; 2], by: &Expr, back: bool, span: SourceSpan) {
        let (x, y) = (self.at(a), self.at(b));
        self.unread(a, &x, &[by], span.line);
        self.unread(b, &y, &[by], span.line);
        if overlap(a, b) == Overlap::Maybe {
            self.apart(&x, &y, span.line);
        }
        let ty = x.scalar();
        let (leaves, places) = self.leaves(by);
        let angle = self.of_leaves(&leaves, |m| m.for_place(by, ty))[0];
        let clif = self.b.func.dfg.value_type(angle);
        let suffix = if clif == types::F32 { "f" } else { "" };
        let [c, s] = ["cos", "sin"]
            .map(|name| call_symbol(&mut self.b, &format!("{name}{suffix}"), &[clif], &[clif], &[angle])[0]);
        let s = if back { self.b.ins().fneg(s) } else { s };
        let turned = |this: &mut Self, p: Value, q: Value| {
            let [cp, sq, sp, cq] = [(c, p), (s, q), (s, p), (c, q)].map(|(m, v)| this.b.ins().fmul(m, v));
            (this.b.ins().fsub(cp, sq), this.b.ins().fadd(sp, cq))
        };
        let (p, q) = (self.load(&x)[0], self.load(&y)[0]);
        let (p, q) = turned(self, p, q);
        self.store(&x, &[p]);
        self.store(&y, &[q]);
        if self.carries() {
            let (c, d) = (self.cotangent(&x)[0], self.cotangent(&y)[0]);
            let (c, d) = turned(self, c, d);
            self.set_cotangent(&x, &[c]);
            self.set_cotangent(&y, &[d]);
            // The same before and after, so it may be taken here. What rotates back undoes a
            // rotation.
            let (pd, qc) = (self.b.ins().fmul(p, d), self.b.ins().fmul(q, c));
            let seed = if back { self.b.ins().fsub(pd, qc) } else { self.b.ins().fsub(qc, pd) };
            self.gradient(by, ty, &leaves, &places, &[seed], span);
        }
    }

    fn choice(&mut self, [pre, post]: [&Expr; 2], branches: [&[Stmt]; 2], line: u32) {
        let c = self.condition(pre);
        let [then, other, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(c, then, &[], other, &[]);
        for (block, body, held) in [(then, branches[0], true), (other, branches[1], false)] {
            self.b.switch_to_block(block);
            self.block(body);
            if self.check != CheckMode::Off {
                self.b.set_srcloc(ir::SourceLoc::new(line));
                let found = self.condition(post);
                if held {
                    self.fail_unless(found, Fault::PostconditionFailed, line);
                } else {
                    self.fail_if(found, Fault::PostconditionFailed, line);
                }
            }
            self.b.ins().jump(join, &[]);
        }
        self.b.switch_to_block(join);
    }

    fn repeat(&mut self, from: &Expr, cond: &Expr, body: &[Stmt], line: u32) {
        let checked = self.check != CheckMode::Off;
        if checked {
            let holds = self.condition(from);
            self.fail_unless(holds, Fault::PostconditionFailed, line);
        }
        let [head, iteration, done] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let c = self.condition(cond);
        self.b.ins().brif(c, iteration, &[], done, &[]);
        self.b.switch_to_block(iteration);
        self.block(body);
        self.b.set_srcloc(ir::SourceLoc::new(line));
        if checked {
            let holds = self.condition(from);
            self.fail_if(holds, Fault::PostconditionFailed, line);
        }
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(done);
    }

    fn count(&mut self, name: &str, limits: [&Expr; 2], back: bool, body: &[Stmt], line: u32) {
        let [from, to] = limits.map(|e| self.value(e, Some(Scalar::I64)).1[0]);
        let var = self.b.declare_var(types::I64);
        self.b.def_var(var, if back { to } else { from });
        let [head, iteration, done] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let i = self.b.use_var(var);
        let (low, high) = if back { (from, i) } else { (i, to) };
        let c = self.b.ins().icmp(IntCC::SignedLessThan, low, high);
        self.b.ins().brif(c, iteration, &[], done, &[]);
        self.b.switch_to_block(iteration);
        let i = self.b.use_var(var);
        if back {
            let i = self.b.ins().iadd_imm_s(i, -1);
            self.b.def_var(var, i);
        }
        self.homes.insert(name.to_owned(), Home::Iteration(var));
        self.scope.push(name, Type::I64, NameRole::Iteration);
        self.block(body);
        self.scope.pop(name);
        self.homes.remove(name);
        if !back {
            let i = self.b.use_var(var);
            let i = self.b.ins().iadd_imm_s(i, 1);
            self.b.def_var(var, i);
        }
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(done);
        self.b.set_srcloc(ir::SourceLoc::new(line));
        if self.check == CheckMode::Off {
            return;
        }
        for (limit, before) in limits.into_iter().zip([from, to]) {
            let mut reads = Vec::new();
            limit.reads(&mut reads);
            let steady = |p: &&RevPlace| matches!(self.homes.get(&p.root), Some(Home::Word(..) | Home::Iteration(_)));
            if reads.iter().all(steady) {
                continue;
            }
            let now = self.value(limit, Some(Scalar::I64)).1[0];
            let changed = self.b.ins().icmp(IntCC::NotEqual, now, before);
            self.fail_if(changed, Fault::IteratorChanged, line);
        }
    }

    /// What a new place holds, in the form in which it lies there.
    pub(super) fn initial(&mut self, ty: Scalar, leaves: &[Leaf], value: &Expr) -> Vec<Value> {
        let parts = self.of_leaves(leaves, |m| m.for_place(value, ty));
        let mut parts = self.on_grid(parts, ty);
        if ty == Scalar::Complex && parts.len() == 1 {
            parts.push(self.b.ins().f64const(0.0));
        }
        parts
    }

    fn make(&mut self, name: &str, ty: &Type, value: &Expr, span: SourceSpan) {
        match Scalar::of(ty) {
            Some(scalar) => {
                let leaves = self.leaves(value).0;
                let parts = self.initial(scalar, &leaves, value);
                let none = if self.with_cotangents { self.no_cotangent(scalar) } else { vec![] };
                self.in_registers(name, scalar, &parts, &none);
            }
            None => self.make_memory(name, ty, value, span.line),
        }
        self.b.set_srcloc(ir::SourceLoc::new(span.line));
        self.scope.push(name, ty.clone(), NameRole::Place);
        self.fresh.insert(name.to_owned());
    }

    fn end(&mut self, name: &str, ty: &Type, value: &Expr, span: SourceSpan) {
        match Scalar::of(ty) {
            Some(scalar) => {
                let at = self.at(&RevPlace { root: name.to_owned(), path: vec![], at: span });
                let hands_on = self.carries() && scalar.is_active();
                // A load stays where it is, whatever becomes of it.
                let is_used = hands_on || self.check != CheckMode::Off;
                let (leaves, places) = if is_used { self.leaves(value) } else { Default::default() };
                if self.check != CheckMode::Off {
                    let said = self.initial(scalar, &leaves, value);
                    let found = self.load(&at);
                    for (found, said) in found.into_iter().zip(said) {
                        let differs = self.differs(found, said, scalar);
                        self.fail_if(differs, Fault::DeallocMismatch, span.line);
                    }
                }
                if hands_on {
                    // It undoes the statement that has made the place of this value.
                    let seeds = self.cotangent(&at);
                    self.gradient(value, scalar, &leaves, &places, &seeds, span);
                }
            }
            None => self.end_memory(name, ty, value, span.line),
        }
        self.scope.pop(name);
        self.homes.remove(name);
    }

    fn call(&mut self, name: &str, args: &[Expr], back: bool, line: u32) {
        let callee = self.cx.function(name);
        let order = order(callee);
        let places: Vec<Option<PlaceStorage>> = callee
            .params
            .iter()
            .zip(args)
            .map(|(p, arg)| match &arg.kind {
                ExprKind::Read(place) if !is_word(p) => Some(self.at(place)),
                _ => None,
            })
            .collect();
        self.distinct(callee, args, &places, line);
        let mut words = vec![None; args.len()];
        for (i, p) in callee.params.iter().enumerate().filter(|(_, p)| is_word(p)) {
            let v = self.value(&args[i], Scalar::of(&p.ty)).1[0];
            words[i] = Some(widened(&mut self.b, v));
        }
        self.lengths(callee, &places, &words, line);
        let mut passed = vec![];
        let mut shadows = vec![];
        for &i in &order {
            match (&places[i], words[i]) {
                (_, Some(v)) => {
                    passed.push(super::abi::passed(&mut self.b, v));
                    shadows.push(self.b.ins().iconst(types::I64, 0));
                }
                (Some(at), None) => {
                    let (address, shadow) = self.passed(at, callee.params[i].input);
                    passed.push(address);
                    shadows.push(shadow);
                }
                (None, None) => unreachable!("the checker has seen it"),
            }
        }
        // What runs backwards here with cotangents is the adjoint of the call.
        let form = Form { back, cotangents: self.carries() };
        if self.carries() {
            passed.extend(&shadows);
        }
        let sig = steps_signature(self.cx, callee, form);
        let params: Vec<Clif> = sig.params.iter().map(|p| p.value_type).collect();
        let returns: Vec<Clif> = sig.returns.iter().map(|p| p.value_type).collect();
        let found = call_symbol(&mut self.b, &form.symbol(name), &params, &returns, &passed);
        if let [status] = found[..] {
            self.leave_if(status, status);
        }
        let n = order.len();
        for (k, &i) in order.iter().enumerate() {
            if let Some(at @ PlaceStorage::Registers { .. }) = &places[i] {
                let shadow = self.carries().then(|| passed[n + k]);
                let scalar = callee.params[i].ty.clone();
                let there = PlaceStorage::Memory { address: passed[k], shadow, offset: 0, ty: scalar };
                if !callee.params[i].input {
                    let values = self.load(&there);
                    self.store(at, &values);
                }
                let cts = self.cotangent(&there);
                if callee.params[i].input {
                    self.add_cotangent(at, &cts);
                } else {
                    self.set_cotangent(at, &cts);
                }
            }
        }
    }

    /// The address of a place, and of its shadow; of one in registers, of a copy. A place that is
    /// only read may be passed several times, so each copy has a cotangent of its own, which is
    /// added.
    fn passed(&mut self, at: &PlaceStorage, input: bool) -> (Value, Value) {
        match at {
            PlaceStorage::Memory { address, shadow, offset, .. } => {
                let address = self.b.ins().iadd_imm_s(*address, i64::from(*offset));
                let shadow = match shadow {
                    Some(s) => self.b.ins().iadd_imm_s(*s, i64::from(*offset)),
                    None => self.b.ins().iconst(types::I64, 0),
                };
                (address, shadow)
            }
            PlaceStorage::Fixed(v, _) => {
                let address = slot(&mut self.b, 8);
                let flags = flags_of(&mut self.b, types::I64);
                self.b.ins().store(flags, *v, address, 0);
                (address, self.b.ins().iconst(types::I64, 0))
            }
            PlaceStorage::Registers { ty, .. } => {
                let address = slot(&mut self.b, 16);
                let shadow = if self.carries() { slot(&mut self.b, 16) } else { self.b.ins().iconst(types::I64, 0) };
                let of = match ty {
                    Scalar::F32 => Type::F32,
                    Scalar::I32 => Type::I32,
                    Scalar::Complex => Type::Complex,
                    Scalar::I64 => Type::I64,
                    _ => Type::F64,
                };
                let shadowed = self.carries().then_some(shadow);
                let there = PlaceStorage::Memory { address, shadow: shadowed, offset: 0, ty: of };
                let values = self.load(at);
                self.store(&there, &values);
                let cts = if input && self.carries() { self.no_cotangent(*ty) } else { self.cotangent(at) };
                self.set_cotangent(&there, &cts);
                (address, shadow)
            }
        }
    }

    /// That what a call changes is given to it once.
    fn distinct(&mut self, callee: &Function, args: &[Expr], places: &[Option<PlaceStorage>], line: u32) {
        if self.check == CheckMode::Off {
            return;
        }
        let place = |i: usize| match &args[i].kind {
            ExprKind::Read(p) => p,
            _ => unreachable!("it is a place"),
        };
        for i in 0..args.len() {
            let Some(at) = &places[i] else { continue };
            for j in (0..i).filter(|&j| !(callee.params[i].input && callee.params[j].input)) {
                if let Some(other) = &places[j]
                    && overlap(place(i), place(j)) == Overlap::Maybe
                {
                    self.apart(at, other, line);
                }
            }
            if callee.params[i].input {
                continue;
            }
            let mut reads = Vec::new();
            for (arg, found) in args.iter().zip(places) {
                match (&arg.kind, found) {
                    (ExprKind::Read(p), Some(_)) => p.index_reads(&mut reads),
                    _ => arg.reads(&mut reads),
                }
            }
            let reads: Vec<RevPlace> =
                reads.into_iter().filter(|r| overlap(place(i), r) == Overlap::Maybe).cloned().collect();
            for read in reads {
                let read = self.at(&read);
                self.apart(at, &read, line);
            }
        }
    }

    /// That arrays are as long as the callee is told.
    fn lengths(&mut self, callee: &Function, places: &[Option<PlaceStorage>], words: &[Option<Value>], line: u32) {
        if self.check == CheckMode::Off {
            return;
        }
        for (p, at) in callee.params.iter().zip(places) {
            let (Type::Array(_, wanted) | Type::Stack(_, wanted), Some(PlaceStorage::Memory { ty, .. })) = (&p.ty, at)
            else {
                continue;
            };
            let (Type::Array(_, has) | Type::Stack(_, has)) = ty else { continue };
            let wanted = match wanted {
                Len::Fixed(n) if *has == Len::Fixed(*n) => continue,
                Len::Fixed(n) => self.b.ins().iconst(types::I64, i64::from(*n)),
                Len::Param(n) => {
                    let i = callee.params.iter().position(|q| q.name == *n).expect("the checker has seen it");
                    words[i].expect("it is an integer")
                }
            };
            let has = self.length(has);
            let short = self.b.ins().icmp(IntCC::SignedLessThan, has, wanted);
            self.fail_if(short, Fault::OutOfRange, line);
        }
    }
}
