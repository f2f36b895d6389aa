//! Wide values in shadow memory: for each float of the primal its N derivatives, side by side
//! (`brolga_ir::lower`, `batch`).
//!
//! Those of a scalar are loaded and stored as the vectors that hold them. Those of a vector of
//! floats are several floats' derivatives: they are taken apart and put together.

use brolga_ir::inst::{AdInst, AdOp, Arith, Defs, Shape, Val};
use cranelift_codegen::ir::{Type, types};

use super::Widener;
use super::value::chunks;

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
fn places(n: usize, float: Type, width: usize) -> Vec<Vec<(u32, Type)>> {
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
        let AdOp::LoadTangent { addr, delta, sure, off, ty, .. } = inst.op else { unreachable!("a load") };
        let Some((n, float)) = floats(ty) else { return self.unfit("a part of a float") };
        let mut lanes: Vec<Vec<Val>> = Vec::with_capacity(n);
        let mut parts = Vec::new();
        for place in places(n, float, self.width) {
            let load = |&(part, ty): &(u32, Type)| {
                self.emit(AdOp::LoadTangent { addr, delta, sure, off, part, ty }, ty)
            };
            parts = place.iter().map(load).collect();
            if n > 1 {
                let name = Val::D(self.ids.dv());
                self.define(name, float, parts.clone());
                lanes.push(self.lanes(name));
            }
        }
        if n > 1 {
            parts = (0..self.width).map(|k| self.joined(&lanes, k, ty)).collect();
        }
        self.define(inst.defs[0].0, ty, parts);
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
        let AdOp::StoreTangent { addr, delta, sure, off, value, .. } = inst.op else { unreachable!("a store") };
        let ty = self.type_of(value);
        let put = |cx: &mut Self, part: u32, value: Val| {
            cx.put(Defs::default(), AdOp::StoreTangent { addr, delta, sure, off, part, value });
        };
        if self.poison.contains(&value) {
            for k in 0..self.width as u32 {
                put(self, k * ty.bytes(), value);
            }
            return;
        }
        let Some((n, float)) = floats(ty) else { return self.unfit("a part of a float") };
        for (l, place) in places(n, float, self.width).into_iter().enumerate() {
            let parts = if n == 1 { self.parts(value, ty) } else { self.lane_of_each(value, l as u8, ty) };
            for ((part, _), value) in place.into_iter().zip(parts) {
                put(self, part, value);
            }
        }
    }

    /// One float of each of the N values of a type that is made of several.
    fn lane_of_each(&mut self, v: Val, lane: u8, ty: Type) -> Vec<Val> {
        let float = if ty == types::I64 { types::F32 } else { ty.lane_type() };
        let lanes: Vec<Val> = self
            .lanes(v)
            .into_iter()
            .map(|v| {
                let v = if ty == types::I64 {
                    self.arith(Arith::FromBits(Shape::F32Pair), &[v], types::F32X4)
                } else {
                    v
                };
                self.arith(Arith::Extract(lane), &[v], float)
            })
            .collect();
        self.pack(&lanes, float)
    }
}
