//! Wide cotangents: N seeds go back through one record.
//!
//! **Question.** N seeds go through one pullback. Where are N cotangents of a value?
//!
//! **Answer.** The cotangent of a value is a variable of the graph that is named after the value.
//! Each part of a wide one is such a variable of its own, named after a value that the primal does
//! not have. In shadow memory cotangents are where tangents would be ([`super::memory`]). What the
//! reverse half pops, restores and computes again of the primal is there once.
//!
//! **Cost.** As many variables as a value has parts.

use brolga_ir::inst::{AdInst, AdOp, Defs, ShadowPlace, Shape, Val};
use cranelift_codegen::ir::{self, Type};
use cranelift_entity::EntityRef;

use super::Widener;
use super::memory::places;
use super::parts::chunks;

/// The floats that the cotangent of a shape is of: how many, and their type.
fn floats(shape: Shape) -> Option<(usize, Type)> {
    Some(match shape {
        Shape::F64 | Shape::F32 => (1, shape.ty()),
        Shape::F64X2 => (2, ir::types::F64),
        Shape::F32X4 => (4, ir::types::F32),
        Shape::F32Pair => (2, ir::types::F32),
        Shape::Bytes { .. } | Shape::Demand { .. } => return None,
    })
}

fn shape_of(ty: Type) -> Shape {
    Shape::of_float(ty).expect("parts are floats, or vectors of them")
}

impl Widener<'_, '_> {
    /// What the parts of a value's cotangent are named after, and their types; and that of one
    /// cotangent.
    fn parts_of_ct(&mut self, v: ir::Value) -> Option<(Type, Vec<(ir::Value, Type)>)> {
        let shape = self.facts.activity.ct[v]?;
        floats(shape)?;
        let primal = self.facts.func().dfg.num_values();
        let name = |(k, ty): (usize, Type)| {
            let next = ir::Value::new(primal + self.cotangents.len());
            let name = *self.cotangents.entry((v, k)).or_insert(next);
            self.ct[name] = Some(shape_of(ty));
            (name, ty)
        };
        Some((shape.ty(), chunks(shape.ty(), self.width).into_iter().enumerate().map(name).collect()))
    }

    /// A cotangent in variables.
    pub(super) fn cotangent(&mut self, inst: &AdInst) {
        let (AdOp::TakeCt(v) | AdOp::AddCt(v, _) | AdOp::ZeroCt(v)) = inst.op else { unreachable!("a cotangent") };
        let Some((ty, names)) = self.parts_of_ct(v) else { return self.unfit("a part of a float") };
        match inst.op {
            AdOp::TakeCt(_) => {
                let parts = names.into_iter().map(|(name, ty)| self.emit(AdOp::TakeCt(name), ty)).collect();
                self.define(inst.defs[0].0, ty, parts);
            }
            AdOp::AddCt(_, by) => {
                let by = self.parts(by, ty);
                for ((name, _), by) in names.into_iter().zip(by) {
                    self.put(Defs::default(), AdOp::AddCt(name, by));
                }
            }
            _ => names.into_iter().for_each(|(name, _)| self.put(Defs::default(), AdOp::ZeroCt(name))),
        }
    }

    /// A cotangent that a variable holds.
    pub(super) fn hold(&mut self, name: Val, inst: &AdInst) {
        let names = self.held[&name].clone();
        if let AdOp::Hold(_, v) = inst.op {
            let parts = self.parts(v, self.type_of(v));
            for (name, part) in names.into_iter().zip(parts) {
                self.put(Defs::default(), AdOp::Hold(name, part));
            }
        } else {
            let (v, ty) = inst.defs[0];
            let held = names.into_iter().zip(chunks(ty, self.width));
            let parts = held.map(|(name, ty)| self.emit(AdOp::Held(name), ty)).collect();
            self.define(v, ty, parts);
        }
    }

    /// Cotangents are added to a shadow.
    pub(super) fn add(&mut self, inst: &AdInst) {
        let AdOp::AddMem { place, by, shape, fresh } = inst.op else { unreachable!("a sum") };
        let Some((n, float)) = floats(shape) else { return self.unfit("a part of a float") };
        let of = self.floats_of(by, shape.ty(), n);
        for (wide, parts) in places(n, float, self.width).into_iter().zip(of) {
            for ((part, ty), by) in wide.into_iter().zip(parts) {
                let (place, shape) = (ShadowPlace { part, ..place }, shape_of(ty));
                self.put(Defs::default(), AdOp::AddMem { place, by, shape, fresh });
            }
        }
    }

    /// Cotangents are read from a shadow, and stay there or not.
    pub(super) fn read(&mut self, inst: &AdInst) {
        let (AdOp::TakeMem { place, shape } | AdOp::PeekMem { place, shape }) = inst.op else {
            unreachable!("it reads a shadow")
        };
        let takes = matches!(inst.op, AdOp::TakeMem { .. });
        let Some((n, float)) = floats(shape) else { return self.unfit("a part of a float") };
        let mut all: Vec<Vec<Val>> = Vec::with_capacity(n);
        for wide in places(n, float, self.width) {
            let one = |(part, ty): (u32, Type)| {
                let (place, shape) = (ShadowPlace { part, ..place }, shape_of(ty));
                self.emit(if takes { AdOp::TakeMem { place, shape } } else { AdOp::PeekMem { place, shape } }, ty)
            };
            all.push(wide.into_iter().map(one).collect());
        }
        let parts = self.of_floats(all, shape.ty());
        self.define(inst.defs[0].0, shape.ty(), parts);
    }
}
