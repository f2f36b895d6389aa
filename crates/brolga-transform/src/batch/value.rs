//! Widening of values: arithmetic on names that stand for N derivatives, part by part.
//!
//! **Question.** An operation reads N derivatives, and values of which there is one. What computes
//! its N results?
//!
//! **Answer.** One that does the same to each lane of a vector as to a scalar is one for each part
//! ([`super::parts`]); where an operand is no derivative, it is put into all lanes, once for each
//! block. Any other operation takes the lanes apart, and its results are put together.
//!
//! **Cost.** One operation for each part; for an operation that takes lanes apart, N operations,
//! and what moves the lanes.

use brolga_ir::inst::{AdOp, Args, Arith, Val};
use cranelift_codegen::ir::{Type, types};

use super::Widener;
use super::parts::{WideValue, chunks, vector};

/// Whether an operation does the same to each lane of a vector as to a scalar, in the same bits.
fn is_elementwise(op: &Arith) -> bool {
    matches!(
        op,
        Arith::Copy
            | Arith::Fadd
            | Arith::Fsub
            | Arith::Fmul
            | Arith::Fdiv
            | Arith::Fneg
            | Arith::Fabs
            | Arith::Sqrt
            | Arith::Trunc
            | Arith::Nearest
            | Arith::Floor
            | Arith::Copysign
            | Arith::Band
            | Arith::Bor
            | Arith::Bxor
            | Arith::Bitselect
            | Arith::NonZero
            | Arith::KeepWhere
    )
}

impl Widener<'_, '_> {
    /// Parts that hold N values of this type: those of a wide name, or one value N times.
    pub(super) fn parts(&mut self, v: Val, ty: Type) -> Vec<Val> {
        match self.wide.get(&v) {
            Some(wide) => wide.parts.clone(),
            None => chunks(ty, self.width).into_iter().map(|part| self.splat(v, part)).collect(),
        }
    }

    /// A value in all lanes.
    pub(super) fn splat(&mut self, v: Val, ty: Type) -> Val {
        if self.type_of(v) == ty {
            return v;
        }
        if let Some(&known) = self.splats.get(&(v, ty)) {
            return known;
        }
        let all = match self.constants.get(&v) {
            Some(&x) => self.arith(Arith::Const(x), &[], ty),
            None => self.arith(Arith::Splat, &[v], ty),
        };
        self.splats.insert((v, ty), all);
        all
    }

    /// N values one by one.
    pub(super) fn lanes(&mut self, v: Val) -> Vec<Val> {
        let Some(WideValue { ty, parts }) = self.wide.get(&v).cloned() else { return vec![v; self.width] };
        if let Some(known) = self.lanes.get(&v) {
            return known.clone();
        }
        let lanes = self.apart(parts, ty);
        self.lanes.insert(v, lanes.clone());
        lanes
    }

    /// The values that parts hold.
    pub(super) fn apart(&mut self, parts: Vec<Val>, ty: Type) -> Vec<Val> {
        let Some((_, n)) = vector(ty) else { return parts };
        let mut lanes = Vec::with_capacity(self.width);
        for (part, held) in parts.into_iter().zip(chunks(ty, self.width)) {
            if held == ty {
                lanes.push(part);
            } else {
                lanes.extend((0..n).map(|l| self.arith(Arith::Extract(l as u8), &[part], ty)));
            }
        }
        lanes
    }

    /// N values in parts.
    pub(super) fn pack(&mut self, lanes: &[Val], ty: Type) -> Vec<Val> {
        let Some((held, n)) = vector(ty) else { return lanes.to_vec() };
        let mut parts = Vec::new();
        let full_vectors = lanes.chunks_exact(n);
        let rest = full_vectors.remainder();
        for lanes in full_vectors {
            let first = self.arith(Arith::ScalarToVector, &[lanes[0]], held);
            let all = lanes.iter().enumerate().skip(1);
            parts.push(all.fold(first, |v, (l, &lane)| self.arith(Arith::Insert(l as u8), &[v, lane], held)));
        }
        parts.extend_from_slice(rest);
        parts
    }

    /// An operation for each lane by itself.
    pub(super) fn each_lane(&mut self, args: &[Val], ty: Type, op: impl Fn(&[Val]) -> AdOp) -> Vec<Val> {
        let lanes: Vec<Vec<Val>> = args.iter().map(|&a| self.lanes(a)).collect();
        let results: Vec<Val> = (0..self.width)
            .map(|k| {
                let args: Vec<Val> = lanes.iter().map(|l| l[k]).collect();
                self.emit(op(&args), ty)
            })
            .collect();
        self.pack(&results, ty)
    }

    /// Arithmetic on wide operands.
    pub(super) fn wide_arith(&mut self, op: &Arith, args: &[Val], ty: Type) -> Vec<Val> {
        if let Some(parts) = self.converted(op, args) {
            return parts;
        }
        // A choice by one condition is a choice between vectors.
        let chosen = matches!(op, Arith::Select | Arith::SelectAll) && !self.wide.contains_key(&args[0]);
        let of_one_type = |args: &[Val]| args.iter().all(|&a| self.type_of(a) == ty);
        let by_parts = if chosen { of_one_type(&args[1..]) } else { is_elementwise(op) && of_one_type(args) };
        if vector(ty).is_none() || !by_parts {
            return self.each_lane(args, ty, |args| AdOp::Arith(op.clone(), Args::from(args), ty));
        }
        let held = chunks(ty, self.width);
        let condition = chosen.then(|| vec![args[0]; held.len()]);
        let operands = args[usize::from(chosen)..].iter().map(|&a| self.parts(a, ty));
        let operands: Vec<Vec<Val>> = condition.into_iter().chain(operands).collect();
        let op = if chosen { Arith::SelectAll } else { op.clone() };
        let part = |(k, ty): (usize, Type)| {
            let args: Vec<Val> = operands.iter().map(|o| o[k]).collect();
            self.arith(op.clone(), &args, ty)
        };
        held.into_iter().enumerate().map(part).collect()
    }

    /// Conversions between vectors of different lengths, and lanes of vectors of doubles.
    fn converted(&mut self, op: &Arith, args: &[Val]) -> Option<Vec<Val>> {
        let width = self.width;
        let parts = &self.wide.get(args.first()?)?.parts;
        match op {
            Arith::Promote if width.is_multiple_of(4) => {
                let halves = parts.clone().into_iter().flat_map(|v| {
                    let high = self.bytes([v, v], [8, 8], types::F32X4);
                    [v, high].map(|half| self.arith(Arith::PromoteLow, &[half], types::F64X2))
                });
                Some(halves.collect())
            }
            Arith::Demote if width.is_multiple_of(4) => {
                let pairs = parts.clone();
                let joined = pairs.chunks_exact(2).map(|pair| {
                    let [low, high] = [0, 1].map(|k| self.arith(Arith::DemoteLow, &[pair[k]], types::F32X4));
                    self.bytes([low, high], [0, 0], types::F32X4)
                });
                Some(joined.collect())
            }
            _ => None,
        }
    }

    /// Eight bytes of a vector and eight of another: from these on.
    pub(super) fn bytes(&mut self, of: [Val; 2], from: [u8; 2], ty: Type) -> Val {
        let byte = |i: usize| if i < 8 { from[0] + i as u8 } else { 16 + from[1] + (i - 8) as u8 };
        let mask: [u8; 16] = std::array::from_fn(byte);
        self.arith(Arith::ShuffleBytes(Box::new(mask)), &of, ty)
    }
}
