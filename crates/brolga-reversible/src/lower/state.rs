//! State of a lowering: a function while its statements are lowered.
//!
//! **Question.** What does each statement have to know of those before it: which names there are,
//! where they are, and where checks go?
//!
//! **Answer.** A [`StmtLowering`] has the names in scope with their homes ([`Home`]: registers,
//! memory with a shadow, an integer that does not change, the number of an iteration), the memory
//! that is to be freed, what is checked, and the block to which a failed check goes. A place of a
//! statement is a [`PlaceStorage`], made of a home and a path. Whether cotangents are carried is
//! part of the form of the function; where they are zero and stay so, none are (`quiet`).
//!
//! **Invariant.** Memory that is allocated is freed, also where a check fails
//! ([`StmtLowering::leave_if`]).
//!
//! **Cost.** A look-up of a name for each place; a branch for each check.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, Type as Clif, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};

use super::abi::release;
use super::context::Lowering;
use super::expr::parts_of;
use crate::ast::{CheckMode, Type};
use crate::error::{Fault, RevError};
use crate::layout::Scalar;
use crate::types::NameScope;

/// A function that is lowered.
pub(super) struct StmtLowering<'b, 'f> {
    pub cx: &'f Lowering<'f>,
    /// The function's name.
    pub name: &'f str,
    pub b: FunctionBuilder<'b>,
    pub scope: NameScope<'f>,
    pub homes: HashMap<String, Home>,
    pub with_cotangents: bool,
    /// Whether those that are there are zero, and stay so.
    pub quiet: bool,
    /// Ancillas whose cotangents are zero.
    pub fresh: HashSet<String>,
    pub check: CheckMode,
    /// Where a failed check goes, with its number.
    pub fail: Option<ir::Block>,
    /// Memory that is to be freed, also if a check fails.
    pub rooms: Vec<Value>,
    /// What the derivation of an expression has said.
    pub errors: Vec<RevError>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Home {
    /// A number in registers, and its cotangent.
    Registers { ty: Scalar, values: Vec<Variable>, cotangents: Vec<Variable> },
    /// Memory, and its shadow.
    Memory { address: Value, shadow: Option<Value> },
    /// An integer that does not change.
    Word(Value, Scalar),
    /// The number of an iteration.
    Iteration(Variable),
}

/// Where a place is.
#[derive(Clone, Debug)]
pub(super) enum PlaceStorage {
    Registers { ty: Scalar, values: Vec<Variable>, cotangents: Vec<Variable> },
    Memory { address: Value, shadow: Option<Value>, offset: i32, ty: Type },
    Fixed(Value, Scalar),
}

/// The types of its cotangent.
pub(super) fn cotangents(ty: Scalar) -> &'static [Clif] {
    match ty {
        Scalar::I64 | Scalar::I32 | Scalar::Bool => &[],
        other => parts_of(other),
    }
}

impl PlaceStorage {
    pub(super) fn scalar(&self) -> Scalar {
        match self {
            Self::Registers { ty, .. } | Self::Fixed(_, ty) => *ty,
            Self::Memory { ty, .. } => Scalar::of(ty).expect("it is a number"),
        }
    }
}

impl StmtLowering<'_, '_> {
    /// Return the number of a check if it fails.
    pub(super) fn fail_if(&mut self, failed: Value, fault: Fault, line: u32) {
        let site = self.cx.site(self.name, fault, line);
        let site = self.b.ins().iconst(types::I32, site);
        self.leave_if(failed, site);
    }

    /// Return the number of a check that has failed, and free what is allocated.
    pub(super) fn leave_if(&mut self, failed: Value, site: Value) {
        let fail = self.fail.expect("something is checked");
        let next = self.b.create_block();
        if self.rooms.is_empty() {
            self.b.ins().brif(failed, fail, &[site.into()], next, &[]);
        } else {
            let freed = self.b.create_block();
            self.b.set_cold_block(freed);
            self.b.ins().brif(failed, freed, &[], next, &[]);
            self.b.switch_to_block(freed);
            self.rooms.clone().into_iter().for_each(|room| release(&mut self.b, room));
            self.b.ins().jump(fail, &[site.into()]);
        }
        self.b.switch_to_block(next);
    }

    pub(super) fn fail_unless(&mut self, holds: Value, fault: Fault, line: u32) {
        let failed = self.b.ins().icmp_imm_u(IntCC::Equal, holds, 0);
        self.fail_if(failed, fault, line);
    }
}
