//! Wide values in shadow memory: for each float of the primal its N derivatives, side by side
//! (`brolga_ir::lower`, `batch`).
//!
//! **Question.** A float of the primal has N derivatives in the shadow. How are they loaded and
//! stored?
//!
//! **Answer.** Those of a scalar are loaded and stored as the vectors that hold them. Those of a
//! vector of floats are several floats' derivatives: they are taken apart and put together.
//!
//! **Cost.** One access for each part of each float.

use brolga_ir::inst::{AdInst, AdOp, Arith, Defs, ShadowPlace, Shape, Val};
use cranelift_codegen::ir::{Type, types};

use super::Widener;
use super::parts::chunks;

/// The floats that a value in memory is: how many, and their type.
fn floats(ty: Type) -> Option<(usize, Type)> {
    match ty {
        types::F64 | types::F32 => Some((1, ty)),
        types::F64X2 | types::F32X4 => Some((ty.lane_count() as usize, ty.lane_type())),
        // Two singles that travel as an integer.
        types::I64 => Some((2, types::F32)),
        _ => None,
    }
}

/// Where the parts of the derivatives of so many floats lie, float by float: bytes from the first,
/// and types.
pub(super) fn places(n: usize, float: Type, width: usize) -> Vec<Vec<(u32, Type)>> {
    let mut at = 0;
    let mut place = |ty: Type| {
        at += ty.bytes();
        (at - ty.bytes(), ty)
    };
    (0..n).map(|_| chunks(float, width).into_iter().map(&mut place).collect()).collect()
}

impl Widener<'_, '_> {
    /// Tangents are loaded.
    pub(super) fn load(&mut self, inst: &AdInst) {
        let AdOp::LoadTangent { place, ty } = inst.op else { unreachable!("a load") };
        let Some((n, float)) = floats(ty) else { return self.unfit("a part of a float") };
        let mut all = Vec::with_capacity(n);
        for wide in places(n, float, self.width) {
            let load = |&(part, ty): &(u32, Type)| {
                self.emit(AdOp::LoadTangent { place: ShadowPlace { part, ..place }, ty }, ty)
            };
            all.push(wide.iter().map(load).collect());
        }
        let parts = self.of_floats(all, ty);
        self.define(inst.defs[0].0, ty, parts);
    }

    /// N values of a type, from N of each float that it is made of.
    pub(super) fn of_floats(&mut self, mut floats: Vec<Vec<Val>>, ty: Type) -> Vec<Val> {
        if floats.len() == 1 {
            return floats.remove(0);
        }
        let mut parts = Vec::with_capacity(self.width);
        if ty == types::F64X2 {
            // Two vectors of a direction in each lane, or of a lane in each direction.
            for (&low, &high) in floats[0].iter().zip(&floats[1]).take(self.width / 2) {
                let of = [low, high];
                parts.extend([[0, 0], [8, 8]].map(|from| self.bytes(of, from, ty)));
            }
        }
        let lanes: Vec<Vec<Val>> = match ty {
            types::F64X2 => floats.iter().map(|parts| parts[self.width / 2..].to_vec()).collect(),
            _ => floats.into_iter().map(|parts| self.apart(parts, types::F32)).collect(),
        };
        let rest = (0..lanes[0].len()).map(|k| self.joined(&lanes, k, ty));
        parts.extend(rest);
        parts
    }

    /// Value `k` of a type that is made of several floats.
    fn joined(&mut self, lanes: &[Vec<Val>], k: usize, ty: Type) -> Val {
        let held = if ty == types::I64 { types::F32X4 } else { ty };
        let first = self.arith(Arith::ScalarToVector, &[lanes[0][k]], held);
        let rest = lanes.iter().enumerate().skip(1);
        let all = rest.fold(first, |v, (l, of)| self.arith(Arith::Insert(l as u8), &[v, of[k]], held));
        if ty == types::I64 { self.arith(Arith::ToBits, &[all], ty) } else { all }
    }

    /// Tangents are stored; or, in place of those of any number of bytes, one that is not known.
    pub(super) fn store(&mut self, inst: &AdInst) {
        let AdOp::StoreTangent { place, value } = inst.op else { unreachable!("a store") };
        let ty = self.type_of(value);
        let put = |cx: &mut Self, part: u32, value: Val| {
            cx.put(Defs::default(), AdOp::StoreTangent { place: ShadowPlace { part, ..place }, value });
        };
        if self.poison.contains(&value) {
            for k in 0..self.width as u32 {
                put(self, k * ty.bytes(), value);
            }
            return;
        }
        let Some((n, float)) = floats(ty) else { return self.unfit("a part of a float") };
        let floats = self.floats_of(value, ty, n);
        for (wide, parts) in places(n, float, self.width).into_iter().zip(floats) {
            for ((part, _), value) in wide.into_iter().zip(parts) {
                put(self, part, value);
            }
        }
    }

    /// Of N values of a type, N of each of so many floats that it is made of.
    pub(super) fn floats_of(&mut self, v: Val, ty: Type, n: usize) -> Vec<Vec<Val>> {
        let values = self.parts(v, ty);
        match ty {
            types::F64 | types::F32 => vec![values],
            types::F64X2 => [0, 1]
                .map(|l| {
                    let pairs = values.chunks_exact(2);
                    let rest = pairs.remainder();
                    let mut parts: Vec<Val> =
                        pairs.map(|pair| self.bytes([pair[0], pair[1]], [8 * l, 8 * l], ty)).collect();
                    parts.extend(rest.iter().map(|&v| self.arith(Arith::Extract(l), &[v], types::F64)));
                    parts
                })
                .to_vec(),
            _ => {
                let pair = ty == types::I64;
                let values: Vec<Val> = values
                    .into_iter()
                    .map(|v| match pair {
                        true => self.arith(Arith::FromBits(Shape::F32Pair), &[v], types::F32X4),
                        false => v,
                    })
                    .collect();
                let lane = |l: u8| {
                    let all: Vec<Val> =
                        values.iter().map(|&v| self.arith(Arith::Extract(l), &[v], types::F32)).collect();
                    self.pack(&all, types::F32)
                };
                (0..n as u8).map(lane).collect()
            }
        }
    }
}
