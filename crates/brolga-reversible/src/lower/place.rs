//! Lowering of places: where they are, and what is done to them.
//!
//! **Question.** Where is `p[i].x`, and where its cotangent?
//!
//! **Answer.** In registers, if the name stands for a number without parts; otherwise in memory, at
//! an address that is computed, and the cotangent at the same distance from the shadow's beginning.
//! [`StmtLowering::at`] says which; `load`, `store`, `cotangent`, `set_cotangent` and
//! `add_cotangent` work on what it returns. An integer that is read, and the number of an
//! iteration, are values that do not change and have no cotangent.
//!
//! **Errors.** Where checks are on, an index is compared with the length, and places that may be
//! one by their indices are found to be apart ([`StmtLowering::apart`]).
//!
//! **Cost.** A multiplication and an addition for each index that is not a constant, once more for
//! a shadow; for a check of an index one comparison without sign, for one of two places two.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type as Clif, Value, types};
use cranelift_frontend::Variable;

use super::abi::flags_of;
use super::expr::{Leaf, leaves_of, parts_of, zero};
use super::state::{Home, PlaceStorage, StmtLowering, cotangents};
use crate::ast::{CheckMode, Expr, Len, PathStep, RevPlace, Type};
use crate::error::Fault;
use crate::layout::Scalar;
use crate::types::{Overlap, overlap};

impl<'f> StmtLowering<'_, 'f> {
    /// Where a place is.
    pub(super) fn at(&mut self, place: &RevPlace) -> PlaceStorage {
        let home = self.homes[&place.root].clone();
        let (mut address, mut shadow) = match home {
            Home::Word(v, ty) => return PlaceStorage::Fixed(v, ty),
            Home::Iteration(var) => return PlaceStorage::Fixed(self.b.use_var(var), Scalar::I64),
            Home::Registers { ty, values, cotangents } => {
                let Some(PathStep::Field(part)) = place.path.first() else {
                    return PlaceStorage::Registers { ty, values, cotangents };
                };
                let i = usize::from(part == "im");
                let of = |all: &[Variable]| all.get(i).copied().into_iter().collect();
                return PlaceStorage::Registers { ty: Scalar::F64, values: of(&values), cotangents: of(&cotangents) };
            }
            Home::Memory { address, shadow } => (address, shadow),
        };
        let root = RevPlace { root: place.root.clone(), path: vec![], at: place.at };
        let mut ty = self.scope.place(&root).expect("the checker has seen it");
        let mut offset: i32 = 0;
        for step in &place.path {
            match (step, ty.clone()) {
                (PathStep::Field(f), Type::Record(r)) => {
                    let (of, at) = self.cx.layouts.field(&r, f).expect("the checker has seen it");
                    (ty, offset) = (of.clone(), offset + at as i32);
                }
                (PathStep::Field(f), _) => {
                    offset += if f == "im" { 8 } else { 0 };
                    ty = Type::F64;
                }
                (PathStep::Index(i), Type::Array(of, len)) => {
                    let size = self.cx.layouts.size(&of).expect("the checker has seen it").0;
                    let far = match self.index(i, &len, place.at.line) {
                        Ok(i) => Some(self.b.ins().imul_imm_s(i, i64::from(size))),
                        Err(k) => match i32::try_from(i64::from(offset) + k * i64::from(size)) {
                            Ok(at) => {
                                offset = at;
                                None
                            }
                            Err(_) => Some(self.b.ins().iconst(types::I64, k * i64::from(size))),
                        },
                    };
                    if let Some(far) = far {
                        address = self.b.ins().iadd(address, far);
                        shadow = shadow.map(|s| self.b.ins().iadd(s, far));
                    }
                    ty = *of;
                }
                (PathStep::Index(_), _) => unreachable!("the checker has seen it"),
            }
        }
        PlaceStorage::Memory { address, shadow, offset, ty }
    }

    /// An index: a number, or one that is known and in range.
    fn index(&mut self, i: &Expr, len: &Len, line: u32) -> Result<Value, i64> {
        if let crate::ast::ExprKind::Int(k) = i.kind
            && matches!(len, Len::Fixed(_))
        {
            return Err(k);
        }
        let (ty, parts) = self.value(i, Some(Scalar::I64));
        let i = if ty == Scalar::I32 { self.b.ins().sextend(types::I64, parts[0]) } else { parts[0] };
        if self.check != CheckMode::Off {
            let len = self.length(len);
            let out = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, i, len);
            self.fail_if(out, Fault::OutOfRange, line);
        }
        Ok(i)
    }

    /// A length as a value: what is negative is none.
    pub(super) fn length(&mut self, len: &Len) -> Value {
        match len {
            Len::Fixed(n) => self.b.ins().iconst(types::I64, i64::from(*n)),
            Len::Param(n) => {
                let Home::Word(v, _) = self.homes[n] else { unreachable!("a length is an integer that is read") };
                let zero = self.b.ins().iconst(types::I64, 0);
                self.b.ins().smax(v, zero)
            }
        }
    }

    /// How many bytes a place has.
    pub(super) fn bytes(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Array(of, len) | Type::Stack(of, len) => {
                let size = self.cx.layouts.size(of).expect("the checker has seen it").0;
                let n = self.length(len);
                let all = self.b.ins().imul_imm_s(n, i64::from(size));
                let head = if matches!(ty, Type::Stack(..)) { 8 } else { 0 };
                self.b.ins().iadd_imm_s(all, head)
            }
            other => {
                let size = self.cx.layouts.size(other).expect("the checker has seen it").0;
                self.b.ins().iconst(types::I64, i64::from(size))
            }
        }
    }

    fn load_all(&mut self, tys: &[Clif], address: Value, offset: i32) -> Vec<Value> {
        let mut at = offset;
        let load = |&ty: &Clif| {
            let flags = flags_of(&mut self.b, ty);
            let v = self.b.ins().load(ty, flags, address, at);
            at += ty.bytes() as i32;
            v
        };
        tys.iter().map(load).collect()
    }

    fn store_all(&mut self, parts: &[Value], address: Value, offset: i32) {
        let mut at = offset;
        for &v in parts {
            let ty = self.b.func.dfg.value_type(v);
            let flags = flags_of(&mut self.b, ty);
            self.b.ins().store(flags, v, address, at);
            at += ty.bytes() as i32;
        }
    }

    /// What lies in a place.
    pub(super) fn load(&mut self, at: &PlaceStorage) -> Vec<Value> {
        match at {
            PlaceStorage::Registers { values, .. } => values.iter().map(|&v| self.b.use_var(v)).collect(),
            PlaceStorage::Fixed(v, _) => vec![*v],
            PlaceStorage::Memory { address, offset, .. } => self.load_all(parts_of(at.scalar()), *address, *offset),
        }
    }

    /// Put a number into a place.
    pub(super) fn store(&mut self, at: &PlaceStorage, parts: &[Value]) {
        match at {
            PlaceStorage::Registers { values, .. } => {
                values.iter().zip(parts).for_each(|(&var, &v)| self.b.def_var(var, v))
            }
            PlaceStorage::Memory { address, offset, .. } => self.store_all(parts, *address, *offset),
            PlaceStorage::Fixed(..) => unreachable!("it does not change"),
        }
    }

    /// The cotangent of a place; of one that is not carried no part.
    pub(super) fn cotangent(&mut self, at: &PlaceStorage) -> Vec<Value> {
        match at {
            _ if self.quiet => vec![],
            PlaceStorage::Registers { cotangents, .. } => cotangents.iter().map(|&v| self.b.use_var(v)).collect(),
            PlaceStorage::Memory { shadow: Some(shadow), offset, .. } => {
                self.load_all(cotangents(at.scalar()), *shadow, *offset)
            }
            PlaceStorage::Memory { shadow: None, .. } | PlaceStorage::Fixed(..) => vec![],
        }
    }

    /// Set the cotangent of a place.
    pub(super) fn set_cotangent(&mut self, at: &PlaceStorage, parts: &[Value]) {
        match at {
            PlaceStorage::Registers { cotangents, .. } => {
                cotangents.iter().zip(parts).for_each(|(&var, &v)| self.b.def_var(var, v));
            }
            PlaceStorage::Memory { shadow: Some(shadow), offset, .. } => self.store_all(parts, *shadow, *offset),
            PlaceStorage::Memory { shadow: None, .. } | PlaceStorage::Fixed(..) => {}
        }
    }

    /// Add to the cotangent of a place.
    pub(super) fn add_cotangent(&mut self, at: &PlaceStorage, more: &[Value]) {
        let old = self.cotangent(at);
        let sum: Vec<Value> = old.iter().zip(more).map(|(&a, &b)| self.b.ins().fadd(a, b)).collect();
        self.set_cotangent(at, &sum);
    }

    /// A cotangent of zero.
    pub(super) fn no_cotangent(&mut self, ty: Scalar) -> Vec<Value> {
        cotangents(ty).iter().map(|&ty| zero(&mut self.b, ty)).collect()
    }

    /// What an expression reads, loaded, and where it is.
    pub(super) fn leaves(&mut self, e: &Expr) -> (Vec<Leaf>, Vec<PlaceStorage>) {
        let mut places = Vec::new();
        leaves_of(e, &mut places);
        let mut found = (Vec::new(), Vec::new());
        for place in places {
            let at = self.at(place);
            let ty = at.scalar();
            let parts = self.load(&at);
            found.0.push(Leaf { place: place.clone(), ty, parts });
            found.1.push(at);
        }
        found
    }

    /// That a place that is changed is none of those that are read, where indices decide.
    pub(super) fn unread(&mut self, place: &RevPlace, at: &PlaceStorage, by: &[&Expr], line: u32) {
        if self.check == CheckMode::Off {
            return;
        }
        let mut reads = Vec::new();
        by.iter().for_each(|e| e.reads(&mut reads));
        place.index_reads(&mut reads);
        let reads: Vec<RevPlace> = reads.into_iter().filter(|r| overlap(place, r) == Overlap::Maybe).cloned().collect();
        for read in reads {
            let other = self.at(&read);
            self.apart(at, &other, line);
        }
    }

    /// That two places share no memory.
    pub(super) fn apart(&mut self, a: &PlaceStorage, b: &PlaceStorage, line: u32) {
        let (
            PlaceStorage::Memory { address: p, offset: i, ty: t, .. },
            PlaceStorage::Memory { address: q, offset: j, ty: u, .. },
        ) = (a, b)
        else {
            return;
        };
        if self.check == CheckMode::Off {
            return;
        }
        let (p, q) = (self.b.ins().iadd_imm_s(*p, i64::from(*i)), self.b.ins().iadd_imm_s(*q, i64::from(*j)));
        let (n, m) = (self.bytes(t), self.bytes(u));
        let (behind_p, behind_q) = (self.b.ins().iadd(p, n), self.b.ins().iadd(q, m));
        let x = self.b.ins().icmp(IntCC::UnsignedLessThan, p, behind_q);
        let y = self.b.ins().icmp(IntCC::UnsignedLessThan, q, behind_p);
        let both = self.b.ins().band(x, y);
        self.fail_if(both, Fault::AliasWrite, line);
    }
}
