//! Statements (`AdStmt`): what one primal instruction becomes.
//!
//! **Question.** How is one instruction of the primal differentiated, so that rules know of nothing
//! else?
//!
//! **Answer.** A statement is translated on its own: a forward fragment around (or instead of) the
//! primal instruction, a reverse fragment, and, read off the latter, what must be communicated from
//! the one to the other. Whole graphs are assembled afterwards; a rule sees no block. Source:
//! Mooncake's `ADStmtInfo`.
//!
//! **Cost.** Names and instructions are pushed to three lists; what a reverse reads is found by one
//! look over it.

use brolga_analysis::Variant;
use brolga_ir::block::{Fragment, Ids};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, ClearQuery, Defs, Shape, Tape, Val};
use brolga_ir::map::{IndexMap, Table};
use brolga_ir::{Diagnostic, Diagnostics, Mode};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, Type, types};
use smallvec::SmallVec;

use crate::derived::PairSymbols;
use crate::facts::Facts;
use crate::translate::convert::{helper_call, mask_type};

/// One primal statement, translated.
#[derive(Clone, Debug)]
pub struct AdStmt {
    /// The primal instruction.
    pub primal: ir::Inst,
    /// Runs before it in the forward pass.
    pub before: Fragment,
    /// Whether the primal instruction itself stays; otherwise `after` defines its results.
    pub keep: bool,
    /// Runs after it in the forward pass.
    pub after: Fragment,
    /// Its reverse.
    pub rvs: Fragment,
    /// Products in the reverse that are guarded.
    pub guards: Vec<Guard>,
    /// What it knows of roots.
    pub roots: RootGuards,
}

/// Products under a root (`brolga_analysis::guards::roots`), and what would make do without asking
/// about their cotangents.
#[derive(Clone, Debug, Default)]
pub struct RootGuards {
    /// Products that are zero where the cotangent is infinite and the factor zero.
    pub products: SmallVec<[Val; 2]>,
    /// What must be so that a root has a finite slope here; if it is the reverse of one, and that
    /// is known.
    pub finite: Option<Numbers>,
    /// Whether it is the reverse of a root, and that is not known.
    pub open: bool,
}

/// A product of a cotangent that contributes zero if the cotangent is zero, whatever the factor:
/// see [`StmtCx::strong`].
#[derive(Clone, Debug)]
pub struct Guard {
    /// The product, guarded.
    pub guarded: Val,
    /// Where the cotangent is not zero.
    pub mask: Val,
    /// What must be so that no guard is needed.
    pub needs: Numbers,
}

impl AdStmt {
    /// Names of the forward pass that the reverse fragment reads, in order of first use.
    pub fn comms(&self) -> SmallVec<[Val; 8]> {
        let mut out = SmallVec::new();
        for i in self.rvs.values() {
            i.each_read(|v| {
                if !matches!(v, Val::D(_)) && !out.contains(&v) {
                    out.push(v);
                }
            });
        }
        out
    }
}

/// All statements of a function, by instruction, in layout order.
pub(crate) type AdStmts = Table<ir::Inst, AdStmt>;

/// Statements, for who puts their reverses into a graph.
pub(crate) enum StmtSource<'a> {
    /// They are needed again: reverses are copied.
    Lent(&'a AdStmts),
    /// They are not: they are taken, and none is left.
    Spent(&'a mut AdStmts),
}

impl StmtSource<'_> {
    /// All of them, some without a reverse by now.
    pub(crate) fn all(&self) -> &AdStmts {
        match self {
            StmtSource::Lent(stmts) => stmts,
            StmtSource::Spent(stmts) => stmts,
        }
    }
}

/// What translation shares between statements.
pub(crate) struct Translation<'a, 'f> {
    /// The facts.
    pub facts: &'a Facts<'f>,
    /// Fresh ids.
    pub ids: &'a mut Ids,
    /// What stands in the way.
    pub problems: Diagnostics,
    /// Types of `Val::Aux`.
    pub aux: IndexMap<Val, Type>,
    /// Seeds of the results, by index.
    pub seeds: Vec<Option<Val>>,
    /// Variants of callees that the fragments refer to.
    pub callees: &'a mut dyn Callees,
    /// Where fragments are made, one statement after the other: those of a statement are copied
    /// out, no larger than they are.
    pub fragments: [Fragment; 3],
}

/// Where translation finds the names of derived callees.
pub(crate) trait Callees {
    /// Symbols of the forward pass and the pullback of a variant, which will be derived in due
    /// course; and that variant, which may be another one that serves as well.
    fn derive(&mut self, variant: Variant) -> (Variant, PairSymbols);
    /// Symbol of the function of both halves of a variant, which returns no value and will be
    /// derived in due course.
    fn joint(&mut self, variant: Variant) -> String;
    /// Symbol of the function of forward mode of a variant, which will be derived in due course;
    /// and that variant, which may be another one that serves as well.
    fn tangent(&mut self, variant: Variant) -> (Variant, String);
}

/// What a rule writes to.
pub(crate) type Cx<'c, 't, 'a, 'f> = &'c mut StmtCx<'t, 'a, 'f>;

/// Builds the fragments of one statement.
pub(crate) struct StmtCx<'t, 'a, 'f> {
    /// What statements share.
    pub t: &'t mut Translation<'a, 'f>,
    stmt: AdStmt,
    /// Where arithmetic goes: to the reverse fragment, or in forward mode after the primal.
    place: FragmentKind,
    /// A cotangent or tangent, and where it is not zero.
    nonzero: Option<(Val, Val)>,
    /// A cotangent, and where it is infinite.
    infinite: Option<(Val, Val)>,
    /// A cotangent that is one.
    one: Option<Val>,
}

/// Numbers that are to be finite, and one that is not to be zero.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Finite.
    pub finite: SmallVec<[ir::Value; 2]>,
    /// Not zero.
    pub nonzero: Option<ir::Value>,
}

/// One of the three fragments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FragmentKind {
    /// Before the primal instruction.
    Before,
    /// After it, or in its place.
    After,
    /// In the pullback.
    Rvs,
}

impl<'t, 'a, 'f> StmtCx<'t, 'a, 'f> {
    /// Begin a statement.
    pub(crate) fn new(t: &'t mut Translation<'a, 'f>, primal: ir::Inst) -> Self {
        let [before, after, rvs] = std::mem::take(&mut t.fragments);
        let roots = RootGuards::default();
        let stmt = AdStmt { primal, before, keep: true, after, rvs, guards: vec![], roots };
        let place = if t.facts.mode == Mode::Tangent { FragmentKind::After } else { FragmentKind::Rvs };
        Self { t, stmt, place, nonzero: None, infinite: None, one: None }
    }

    /// The facts.
    pub(crate) fn facts(&self) -> &'a Facts<'f> {
        self.t.facts
    }

    /// The body.
    pub(crate) fn func(&self) -> &'f ir::Function {
        self.t.facts.func()
    }

    /// The instruction.
    pub(crate) fn inst(&self) -> ir::Inst {
        self.stmt.primal
    }

    /// Its operands.
    pub(crate) fn args(&self) -> &'f [ir::Value] {
        self.func().dfg.inst_args(self.stmt.primal)
    }

    /// Its results.
    pub(crate) fn results(&self) -> &'f [ir::Value] {
        self.func().dfg.inst_results(self.stmt.primal)
    }

    /// The type of a primal value.
    pub(crate) fn ty(&self, v: ir::Value) -> Type {
        self.func().dfg.value_type(v)
    }

    /// The primal instruction does not stay.
    pub(crate) fn replace_primal(&mut self) {
        self.stmt.keep = false;
    }

    /// Finish.
    pub(crate) fn finish(self) -> AdStmt {
        let AdStmt { primal, mut before, keep, mut after, mut rvs, guards, roots } = self.stmt;
        let [b, a, r] = [&mut before, &mut after, &mut rvs].map(Fragment::take);
        self.t.fragments = [before, after, rvs];
        AdStmt { primal, before: b, keep, after: a, rvs: r, guards, roots }
    }

    /// Report a problem at this instruction.
    pub(crate) fn problem(&mut self, d: Diagnostic) {
        let d = self.facts().at(self.stmt.primal, d);
        self.t.problems.push(d);
    }

    /// Add an instruction.
    pub(crate) fn push(&mut self, w: FragmentKind, defs: Defs, op: AdOp) {
        let id = self.t.ids.inst();
        for &(v, ty) in &defs {
            if matches!(v, Val::Aux(..)) {
                self.t.aux.insert(v, ty);
            }
        }
        let inst = AdInst { defs, op, at: Some(self.stmt.primal) };
        match w {
            FragmentKind::Before => self.stmt.before.insert(id, inst),
            FragmentKind::After => self.stmt.after.insert(id, inst),
            FragmentKind::Rvs => self.stmt.rvs.insert(id, inst),
        };
    }

    /// Add an instruction with one derived result.
    pub(crate) fn emit(&mut self, w: FragmentKind, op: AdOp, ty: Type) -> Val {
        let d = Val::D(self.t.ids.dv());
        self.push(w, [(d, ty)].into(), op);
        d
    }

    /// A name for what is computed next.
    pub(crate) fn name(&mut self) -> Val {
        Val::D(self.t.ids.dv())
    }

    /// Arithmetic in the reverse fragment, or in forward mode after the primal.
    pub(crate) fn arith(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.emit(self.place, AdOp::Arith(op, args.into(), ty), ty)
    }

    /// Where arithmetic goes.
    pub(crate) fn place(&self) -> FragmentKind {
        self.place
    }

    /// A constant, where arithmetic goes.
    pub(crate) fn constant(&mut self, x: f64, ty: Type) -> Val {
        self.arith(Arith::Const(x), &[], ty)
    }

    /// An integer constant in any fragment.
    pub(crate) fn iconst(&mut self, w: FragmentKind, x: i64) -> Val {
        self.emit(w, AdOp::Arith(Arith::Iconst(x), Args::default(), types::I64), types::I64)
    }

    /// Take the cotangent of an active primal value.
    pub(crate) fn take_ct(&mut self, v: ir::Value) -> Val {
        let ty = self.shape(v).ty();
        if self.facts().unit_cotangents.contains(v) {
            let one = self.constant(1.0, ty);
            self.one = Some(one);
            return one;
        }
        self.emit(FragmentKind::Rvs, AdOp::TakeCt(v), ty)
    }

    /// Add to the cotangent of a primal value, if it is active.
    pub(crate) fn add_ct(&mut self, v: ir::Value, by: Val) {
        let in_place = self.func().dfg.value_def(v).inst().is_some_and(|i| self.facts().in_place.contains(i));
        if self.facts().is_active(v) && !in_place {
            let by = if self.ty(v).lane_type().is_float() { by } else { self.in_its_shape(v, by) };
            self.push(FragmentKind::Rvs, Defs::default(), AdOp::AddCt(v, by));
        }
    }

    /// A cotangent for an integer: one that is cut in pieces has tickets, and gets numbers, too.
    fn in_its_shape(&mut self, v: ir::Value, by: Val) -> Val {
        let shape = self.shape(v);
        let known = self.stmt.rvs.values().flat_map(|i| &i.defs).find(|d| d.0 == by).map(|d| d.1);
        match known.filter(|&ty| ty != shape.ty()) {
            Some(ty) => crate::translate::convert::fitted(self, by, ty, shape).unwrap_or(by),
            None => by,
        }
    }

    /// Whether a cotangent is known to be one.
    pub(crate) fn is_one(&self, ct: Val) -> bool {
        self.one == Some(ct)
    }

    /// The shape of an active value's cotangent.
    pub(crate) fn shape(&self, v: ir::Value) -> Shape {
        self.facts().activity.ct[v].expect("an active value has a shape")
    }

    /// `shadow[addr + off] += by`; `=` if nothing is there yet.
    pub(crate) fn add_mem(&mut self, addr: ir::Value, off: i32, by: Val, shape: Shape, fresh: bool) {
        if let Some(place) = self.facts().place(addr, off) {
            self.push(FragmentKind::Rvs, Defs::default(), AdOp::AddMem { place, by, shape, fresh });
        }
    }

    /// Read `shadow[addr + off]` and clear it: the reverse of an instruction that writes floats
    /// there.
    pub(crate) fn take_mem(&mut self, addr: ir::Value, off: i32, shape: Shape) -> Option<Val> {
        let place = self.facts().place(addr, off)?;
        self.forget_pointer(addr, off, shape.bytes());
        Some(self.emit(FragmentKind::Rvs, AdOp::TakeMem { place, shape }, shape.ty()))
    }

    /// Read `shadow[addr + off]`.
    pub(crate) fn peek_mem(&mut self, addr: ir::Value, off: i32, shape: Shape) -> Option<Val> {
        let place = self.facts().place(addr, off)?;
        Some(self.emit(FragmentKind::Rvs, AdOp::PeekMem { place, shape }, shape.ty()))
    }

    /// Clear `bytes` bytes of `shadow[addr + off]`.
    pub(crate) fn zero_mem(&mut self, addr: ir::Value, off: i32, bytes: u32, asks: ClearQuery) {
        if matches!(asks, ClearQuery::Zero | ClearQuery::Bits) {
            self.forget_pointer(addr, off, bytes);
        }
        self.zero_mem_in(FragmentKind::Rvs, addr, off, bytes, asks);
    }

    /// The same of what may be a part of a float (see [`AdOp::ZeroMem`]).
    pub(crate) fn cut_mem(&mut self, addr: ir::Value, off: i32, (bytes, asks): (u32, ClearQuery), of: u8) {
        if let Some(place) = self.facts().place(addr, off) {
            self.push(FragmentKind::Rvs, Defs::default(), AdOp::ZeroMem { place, bytes, asks, cuts: Some(of) });
        }
    }

    /// A place that is overwritten may have held a pointer, and then its shadow still holds one,
    /// which the pullback would take for a cotangent. In memory of this call, or its caller's, the
    /// forward pass clears it; elsewhere the seed of an output may lie there, and places that hold
    /// both are refused (AD0142).
    fn forget_pointer(&mut self, addr: ir::Value, off: i32, bytes: u32) {
        if self.facts().held_pointers(addr) {
            self.zero_mem_in(FragmentKind::Before, addr, off, bytes, ClearQuery::Nothing);
        }
    }

    fn zero_mem_in(&mut self, w: FragmentKind, addr: ir::Value, off: i32, bytes: u32, asks: ClearQuery) {
        if let Some(place) = self.facts().place(addr, off) {
            self.push(w, Defs::default(), AdOp::ZeroMem { place, bytes, asks, cuts: None });
        }
    }

    /// A name for something that the forward fragment hands over.
    pub(crate) fn aux(&self, n: u8) -> Val {
        Val::Aux(self.stmt.primal, n)
    }

    /// A delta, or zero.
    pub(crate) fn delta_or_zero(&mut self, w: FragmentKind, v: ir::Value) -> Val {
        match self.facts().delta(v) {
            Some(d) => d,
            None => self.iconst(w, 0),
        }
    }

    /// Call a helper of the run time.
    pub(crate) fn helper(
        &mut self,
        w: FragmentKind,
        symbol: &str,
        args: &[Option<Val>],
        arg_types: &[Type],
        defs: Defs,
        tape: bool,
    ) {
        let tape = if tape { Tape::Moves } else { Tape::Aside };
        let op = helper_call(symbol, args, arg_types, defs.iter().map(|d| d.1), tape);
        self.push(w, defs, op);
    }

    /// `product` where `ct` is not zero, and zero where it is: a strong zero. `why` are the numbers
    /// that would make do without, if that is known.
    pub(crate) fn strong(&mut self, ct: Val, product: Val, ty: Type, why: Option<Numbers>) -> Val {
        if !self.facts().options.strong_zero || self.is_one(ct) {
            return product;
        }
        let mask = match self.nonzero {
            Some((of, mask)) if of == ct => mask,
            _ => self.arith(Arith::NonZero, &[ct], ty),
        };
        self.nonzero = Some((ct, mask));
        let guarded = self.arith(Arith::KeepWhere, &[product, mask], ty);
        self.stmt.guards.extend(why.map(|needs| Guard { guarded, mask, needs }));
        guarded
    }
}

impl StmtCx<'_, '_, '_> {
    /// `product` of a cotangent under a root, and zero where that is infinite and `factor` is zero.
    pub(crate) fn unless_at_root(&mut self, ct: Val, factor: Val, product: Val, ty: Type) -> Val {
        if !self.facts().options.strong_zero || self.is_one(ct) {
            return product;
        }
        let mask = mask_type(ty);
        let infinite = match self.infinite {
            Some((of, infinite)) if of == ct => infinite,
            _ => {
                let size = self.arith(Arith::Fabs, &[ct], ty);
                let infinity = self.constant(f64::INFINITY, ty);
                self.arith(Arith::Fcmp(FloatCC::Equal), &[size, infinity], mask)
            }
        };
        self.infinite = Some((ct, infinite));
        let zero = self.constant(0.0, ty);
        let nothing = self.arith(Arith::Fcmp(FloatCC::Equal), &[factor, zero], mask);
        let iterations = self.arith(Arith::Band, &[infinite, nothing], mask);
        let guarded = self.arith(Arith::Select, &[iterations, zero, product], ty);
        self.stmt.roots.products.push(guarded);
        guarded
    }

    /// This is the reverse of a root; what would make its slope finite, if that is known.
    pub(crate) fn at_root(&mut self, finite: Option<Numbers>) {
        self.stmt.roots.open |= finite.is_none();
        self.stmt.roots.finite = finite;
    }
}

/// A size or count as 64 bits.
pub(crate) fn wide(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, v: ir::Value) -> Val {
    if cx.ty(v) == types::I64 {
        return Val::Primal(v);
    }
    cx.emit(w, AdOp::Arith(Arith::Uextend, [Val::Primal(v)].into(), types::I64), types::I64)
}
