//! Types: operands and results of derived instructions.
//!
//! **Question.** Does each instruction read and define what lowering takes it to? A name has one
//! type wherever it is defined: that of the primal value, `i64` for a delta. A cotangent has the
//! type of its value's shape; a frame slot and a held variable have that of what is put there.
//! **Answer.** One walk, a match over [`AdOp`]. **Cost.** Linear.

use cranelift_codegen::ir::{Type, types};
use cranelift_entity::EntityRef;

use super::arith::fits;
use super::fault::{Faults, Rule};
use super::view::{GraphContext, View};
use crate::inst::{AdInst, AdOp, Callee, ShadowPlace, Val};
use crate::map::HashMap;

/// What is found wrong, in a sentence.
type Violation = Option<String>;

struct Types<'v, 'g> {
    view: &'v View<'g>,
    known: GraphContext<'v>,
    held: HashMap<Val, Type>,
}

/// Whether operands and results have the types of their operations.
pub fn check(view: &View<'_>, known: GraphContext<'_>, faults: &mut Faults) {
    let mut all = Types { view, known, held: HashMap::default() };
    for (_, block) in view.reached() {
        for (name, ty) in &block.params {
            if let Some(name_ty) = view.type_of(*name).filter(|name_ty| name_ty != ty) {
                faults.add(
                    Rule::Types,
                    block.id,
                    None,
                    format!("the parameter {name} is {ty}, and the name is {name_ty}"),
                );
            }
        }
        for (&id, inst) in block.insts.iter() {
            if let Some(what) = all.defs(inst).or_else(|| all.inst(inst)) {
                faults.add(Rule::Types, block.id, Some(id), what);
            }
        }
    }
}

impl Types<'_, '_> {
    fn defs(&self, inst: &AdInst) -> Violation {
        let mut defs = inst.defs.iter();
        let (name, ty, name_ty) = defs.find_map(|&(name, ty)| {
            let name_ty = self.view.type_of(name)?;
            (name_ty != ty).then_some((name, ty, name_ty))
        })?;
        Some(format!("{name} is defined as {ty}, and the name is {name_ty}"))
    }

    fn is(&self, name: Val, wanted: Type) -> Violation {
        let given = self.view.type_of(name).filter(|&ty| ty != wanted)?;
        Some(format!("{name} is {given}, and should be {wanted}"))
    }

    fn all_are(&self, names: &[Val], wanted: Type) -> Violation {
        names.iter().find_map(|&name| self.is(name, wanted))
    }

    fn inst(&mut self, inst: &AdInst) -> Violation {
        let defs: Vec<Type> = inst.defs.iter().map(|d| d.1).collect();
        let defines = |wanted: &[Type]| -> Violation {
            (defs != wanted).then(|| format!("it defines {defs:?}, and should define {wanted:?}"))
        };
        let ptr = types::I64;
        match &inst.op {
            AdOp::Primal(i) => self.primal(*i, &defs),
            AdOp::Arith(op, args, ty) => {
                let given: Vec<Option<Type>> = args.iter().map(|&a| self.view.type_of(a)).collect();
                let wrong = || format!("{op:?} of {given:?} does not give {ty}");
                defines(&[*ty]).or_else(|| (!fits(op, &given, *ty)).then(wrong))
            }
            AdOp::SlotDelta(_) | AdOp::SlotAddr(..) | AdOp::DataDelta(_) => defines(&[ptr]),
            AdOp::LoadDelta { place: ShadowPlace { addr, delta, .. }, loaded } => {
                defines(&[ptr]).or_else(|| self.all_are(&[*addr, *delta, *loaded], ptr))
            }
            AdOp::StoreDelta { place: ShadowPlace { addr, delta, .. }, value, vdelta } => {
                let all = [Some(*addr), Some(*delta), Some(*value), *vdelta];
                defines(&[]).or_else(|| all.into_iter().flatten().find_map(|v| self.is(v, ptr)))
            }
            AdOp::LoadTaskDelta(place) => defines(&[ptr]).or_else(|| self.is(*place, ptr)),
            AdOp::LoadOld { addr, ty, .. } => defines(&[*ty]).or_else(|| self.is(*addr, ptr)),
            AdOp::StoreOld { addr, .. } => defines(&[]).or_else(|| self.is(*addr, ptr)),
            AdOp::TakeCt(v) => match self.cotangent(*v) {
                Ok(ty) => defines(&[ty]),
                wrong => wrong.err(),
            },
            AdOp::AddCt(v, by) => match self.cotangent(*v) {
                Ok(ty) => defines(&[]).or_else(|| self.is(*by, ty)),
                wrong => wrong.err(),
            },
            AdOp::ZeroCt(v) => defines(&[]).or_else(|| self.cotangent(*v).err()),
            AdOp::AddMem { place, by, shape, .. } => {
                defines(&[]).or_else(|| self.all_are(&place.names(), ptr)).or_else(|| self.is(*by, shape.ty()))
            }
            AdOp::TakeMem { place, shape } | AdOp::PeekMem { place, shape } => {
                defines(&[shape.ty()]).or_else(|| self.all_are(&place.names(), ptr))
            }
            AdOp::LoadTangent { place, ty } => defines(&[*ty]).or_else(|| self.all_are(&place.names(), ptr)),
            AdOp::Series(..) => (defs.len() != 1).then(|| "coefficients are one name".to_owned()),
            AdOp::Moved(i, args) => self.moved(*i, args, &defs),
            AdOp::Piece { place, .. } | AdOp::StoreTangent { place, .. } | AdOp::ZeroMem { place, .. } => {
                defines(&[]).or_else(|| self.all_are(&place.names(), ptr))
            }
            AdOp::Poison { place, when, .. } => {
                let when = || when.and_then(|v| self.is(v, types::I8));
                defines(&[]).or_else(|| self.all_are(&place.names(), ptr)).or_else(when)
            }
            AdOp::Call { callee, args, sig, .. } => self.call(callee, args, sig).or_else(|| {
                let returns: Vec<Type> = sig.returns.iter().map(|r| r.value_type).collect();
                defines(&returns)
            }),
            AdOp::Lookup { addr, .. } => defines(&[ptr, ptr]).or_else(|| self.is(*addr, ptr)),
            AdOp::TrapIf(v, _) => defines(&[]).or_else(|| self.one_of(*v, "an integer", |ty| ty.is_int())),
            AdOp::TrapIfBytes(v) => defines(&[]).or_else(|| self.is(*v, types::I64)),
            AdOp::Watch { value, .. } => {
                defines(&[]).or_else(|| self.one_of(*value, "a float", |ty| ty.lane_type().is_float()))
            }
            AdOp::WatchFlag(v) => defines(&[]).or_else(|| self.is(*v, types::I8)),
            AdOp::Watched => defines(&[types::I8]),
            AdOp::Hold(name, v) => {
                let given = self.view.type_of(*v)?;
                defines(&[]).or_else(|| self.held(*name, given))
            }
            AdOp::Held(name) => match defs[..] {
                [ty] => self.held(*name, ty),
                _ => Some("a held variable is one value".to_owned()),
            },
            AdOp::RestoreBlock(_) | AdOp::PeekBlock => defines(&[types::I32]),
            AdOp::Restore(_) => (defs.len() != 1).then(|| "a place of the frame is one value".to_owned()),
            AdOp::Pop(names, _) => {
                // Of a delta, the record may say where it is.
                let fits = |name: Val, def: Val| name == def || matches!((name, def), (Val::Delta(_), Val::D(_)));
                let same_names =
                    names.len() == inst.defs.len() && names.iter().zip(&inst.defs).all(|(&n, d)| fits(n, d.0));
                (!same_names).then(|| "it defines other names than it pops".to_owned())
            }
            AdOp::EnterFrame
            | AdOp::LeaveFrame
            | AdOp::OpenFrame
            | AdOp::CloseFrame
            | AdOp::NextIteration
            | AdOp::Keep(..)
            | AdOp::KeepBlock(..)
            | AdOp::Push(..)
            | AdOp::WatchFrom(_)
            | AdOp::WatchJoin(_) => defines(&[]),
        }
    }

    fn one_of(&self, v: Val, what: &str, ok: fn(Type) -> bool) -> Violation {
        let given = self.view.type_of(v).filter(|&ty| !ok(ty))?;
        Some(format!("{v} is {given}, and should be {what}"))
    }

    fn held(&mut self, name: Val, ty: Type) -> Violation {
        let held_ty = *self.held.entry(name).or_insert(ty);
        (held_ty != ty).then(|| format!("the held {name} is {held_ty} elsewhere, and {ty} here"))
    }

    fn cotangent(&self, v: cranelift_codegen::ir::Value) -> Result<Type, String> {
        let shape = self.known.ct[v].ok_or_else(|| format!("{v} has no cotangent"))?;
        Ok(shape.ty())
    }

    fn primal(&self, i: cranelift_codegen::ir::Inst, defs: &[Type]) -> Violation {
        let dfg = &self.known.primal.dfg;
        if i.index() >= dfg.num_insts() {
            return Some(format!("the primal has no {i}"));
        }
        let wanted: Vec<Type> = dfg.inst_results(i).iter().map(|&r| dfg.value_type(r)).collect();
        (defs != wanted).then(|| format!("it defines {defs:?}, and {i} of the primal {wanted:?}"))
    }

    fn moved(&self, i: cranelift_codegen::ir::Inst, args: &[Val], defs: &[Type]) -> Violation {
        let dfg = &self.known.primal.dfg;
        self.primal(i, defs).or_else(|| {
            let operands = dfg.inst_args(i);
            if operands.len() != args.len() {
                return Some(format!("{} operands in place of {}", args.len(), operands.len()));
            }
            args.iter().zip(operands).find_map(|(&a, &v)| self.is(a, dfg.value_type(v)))
        })
    }

    fn call(&self, callee: &Callee, args: &[Option<Val>], sig: &cranelift_codegen::ir::Signature) -> Violation {
        if args.len() != sig.params.len() {
            return Some(format!("{} arguments for {} parameters", args.len(), sig.params.len()));
        }
        let pointer = match callee {
            Callee::Pointer(p) => self.is(*p, types::I64),
            Callee::Symbol(_) => None,
        };
        pointer.or_else(|| {
            args.iter().zip(&sig.params).find_map(|(arg, param)| match arg {
                Some(v) => self.is(*v, param.value_type),
                None if param.value_type != types::I64 => Some(format!("the segment is no {}", param.value_type)),
                None => None,
            })
        })
    }
}
