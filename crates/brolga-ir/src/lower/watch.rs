//! Watched sums: sums of numbers that are finite only if all of those are.
//!
//! **Problem.** An addition for each number is what watching costs, but each waits for the one
//! before it, and the sum wants a register from the first number to the last. **Answer.** What a
//! block watches is added up by itself, and joins a sum at the end of the block: that of the
//! function, one that a loop has for each run of it ([`Sum::Loop`]), so that runs do not wait for
//! each other, or one in memory ([`Sum::Aside`]), which it joins before a call, too. A sum of a
//! loop joins that of the function after the loop.
//!
//! Of numbers that must not be zero the least may be kept instead ([`Sum::Least`]).
//!
//! Flags are simpler: a variable is set if any of them is.
//!
//! **Invariants.** All sums but those of loops are zero from the entry on; those of loops in front
//! of their loops ([`AdOp::WatchFrom`](crate::inst::AdOp)). The question ([`LowerCx::watched`])
//! comes after all loops, so those have joined by then.
//!
//! **Cost.** In the run an addition for each number that is watched, and one for each sum that a
//! block joins.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

use super::context::LowerCx;
use super::ops;
use super::seen::GraphNeeds;
use crate::inst::Sum;

impl LowerCx<'_> {
    /// In the entry block: declare the sums.
    pub(super) fn watch_begins(&mut self, b: &mut FunctionBuilder<'_>, seen: &GraphNeeds) {
        if seen.flags {
            let flag = b.declare_var(types::I8);
            let unset = b.ins().iconst(types::I8, 0);
            b.def_var(flag, unset);
            self.watching.flag = Some(flag);
        }
        for &(v, sum) in &seen.watched {
            let ty = self.env.primal.dfg.value_type(v);
            match sum {
                Sum::Least if self.watching.least.contains_key(&ty) => {}
                Sum::Least => {
                    let var = b.declare_var(ty);
                    let most = ops::constant(b, ty, f64::INFINITY);
                    b.def_var(var, most);
                    self.watching.least.insert(ty, var);
                }
                Sum::Aside if self.watching.aside.contains_key(&ty) => {}
                Sum::Aside => {
                    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, ty.bytes(), ty.bytes().ilog2() as u8);
                    let slot = b.create_sized_stack_slot(slot);
                    let zero = ops::zero(b, ty);
                    let at = b.ins().stack_addr(types::I64, slot, 0);
                    b.ins().store(MemFlagsData::trusted(), zero, at, 0);
                    self.watching.aside.insert(ty, slot);
                }
                Sum::OfFunction | Sum::Loop(_) => {
                    // That of the function is joined by those of loops.
                    if !self.watching.variables.contains_key(&(Sum::OfFunction, ty)) {
                        let var = self.zero_var(b, ty);
                        self.watching.variables.insert((Sum::OfFunction, ty), var);
                    }
                    self.watching.variables.entry((sum, ty)).or_insert_with(|| b.declare_var(ty));
                }
            }
        }
    }

    /// Watch a number.
    pub(super) fn watch(&mut self, b: &mut FunctionBuilder<'_>, v: ir::Value, not_zero: bool, sum: Sum) {
        let ty = b.func.dfg.value_type(v);
        if sum == Sum::Least {
            let var = self.watching.least[&ty];
            let so_far = b.use_var(var);
            // One instruction on x86-64. A NaN is not less.
            let less = b.ins().fcmp(FloatCC::LessThan, v, so_far);
            let least = b.ins().select(less, v, so_far);
            b.def_var(var, least);
            return;
        }
        let mut found = v;
        if not_zero {
            // All bits set are a NaN.
            let zero = ops::is_zero(self, b, v);
            found = b.ins().bor(found, zero);
        }
        match self.watching.here.iter_mut().find(|w| (w.0, w.1) == (sum, ty)) {
            Some((.., so_far)) => *so_far = b.ins().fadd(*so_far, found),
            None => self.watching.here.push((sum, ty, found)),
        }
    }

    /// Watch a flag.
    pub(super) fn watch_flag(&mut self, b: &mut FunctionBuilder<'_>, flag: ir::Value) {
        let var = self.watching.flag.expect("there are flags");
        let so_far = b.use_var(var);
        let any = b.ins().bor(so_far, flag);
        b.def_var(var, any);
    }

    /// Before a loop: its sums begin.
    pub(super) fn watch_from(&mut self, b: &mut FunctionBuilder<'_>, header: ir::Block) {
        for (ty, var) in self.sums_of(header) {
            let zero = ops::zero(b, ty);
            b.def_var(var, zero);
        }
    }

    /// After a loop: its sums join those of the function.
    pub(super) fn watch_join(&mut self, b: &mut FunctionBuilder<'_>, header: ir::Block) {
        for (ty, var) in self.sums_of(header) {
            let found = b.use_var(var);
            self.watching.here.push((Sum::OfFunction, ty, found));
        }
    }

    fn sums_of(&self, header: ir::Block) -> SmallVec<[(Type, Variable); 2]> {
        let all = self.watching.variables.iter();
        all.filter(|x| x.0.0 == Sum::Loop(header)).map(|(&(_, ty), &var)| (ty, var)).collect()
    }

    /// Before a call: what is added up in memory joins what is there, so that it is not alive
    /// across the call.
    pub(super) fn join_aside(&mut self, b: &mut FunctionBuilder<'_>) {
        let here = std::mem::take(&mut self.watching.here);
        let (aside, others) = here.into_iter().partition(|w| w.0 == Sum::Aside);
        self.watching.here = aside;
        self.join_watched(b);
        self.watching.here = others;
    }

    /// At the end of a block: what it has watched joins the sums.
    pub(super) fn join_watched(&mut self, b: &mut FunctionBuilder<'_>) {
        for (sum, ty, found) in std::mem::take(&mut self.watching.here) {
            if sum == Sum::Aside {
                let at = b.ins().stack_addr(types::I64, self.watching.aside[&ty], 0);
                let so_far = b.ins().load(ty, MemFlagsData::trusted(), at, 0);
                // A difference of finite numbers is as finite as a sum, and the address of what
                // something is added to would want a register.
                let all = b.ins().fsub(so_far, found);
                b.ins().store(MemFlagsData::trusted(), all, at, 0);
                continue;
            }
            let var = self.watching.variables[&(sum, ty)];
            let so_far = b.use_var(var);
            // The first is the sum.
            let all = if self.zeros.get(&ty) == Some(&so_far) { found } else { b.ins().fadd(so_far, found) };
            self.env.watched.as_mut().map(|w| w.insert(all));
            b.def_var(var, all);
        }
    }

    /// Whether any number that was watched so far is infinite or NaN, or any flag set: not zero if
    /// so.
    pub(super) fn watched(&mut self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        self.join_watched(b);
        let of_function = self.watching.variables.iter().filter(|x| x.0.0 == Sum::OfFunction);
        let mut sums: Vec<ir::Value> = of_function.map(|(_, &var)| b.use_var(var)).collect();
        for (&ty, &slot) in &self.watching.aside {
            let at = b.ins().stack_addr(types::I64, slot, 0);
            sums.push(b.ins().load(ty, MemFlagsData::trusted(), at, 0));
        }
        let mut any = self.watching.flag.map(|flag| b.use_var(flag));
        for sum in sums {
            // Zero, unless the sum is infinite or NaN: then NaN.
            let bits = b.ins().fsub(sum, sum);
            let flag = ops::is_not_zero(b, bits);
            any = Some(any.map_or(flag, |any| b.ins().bor(any, flag)));
        }
        for (&ty, &var) in &self.watching.least {
            let least = b.use_var(var);
            let zero = ops::constant(b, ty, 0.0);
            let flag = b.ins().fcmp(FloatCC::LessThanOrEqual, least, zero);
            any = Some(any.map_or(flag, |any| b.ins().bor(any, flag)));
        }
        any.unwrap_or_else(|| b.ins().iconst(types::I8, 0))
    }
}
