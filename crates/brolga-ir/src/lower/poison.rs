//! Loads of integers that become numbers, in reverse: the cotangent of a float that may lie there
//! is unknown (`brolga_runtime::pieces::poison`).
//!
//! **Question.** An integer was loaded and a number made of it. If a float lay there, what is its
//! cotangent?
//!
//! **Answer.** It is not known. Where cotangents may wait before shadows, a demand waits.
//! Elsewhere all bits of the shadow are set, which is a NaN, whatever the size of the float; the
//! run time notes where. The check that nothing has arrived where an integer is stored lets both
//! pass, and notes that too.
//!
//! **Cost.** In the run a branch to cold code, and a load of a flag where nothing else tells.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Type, types};
use cranelift_frontend::FunctionBuilder;

use super::context::LowerCx;
use super::segment;
use super::typed::Channel;
use crate::inst::{ClearQuery, ShadowPlace, Val};

/// Bytes of the least float.
const SINGLE: u32 = 4;

impl LowerCx<'_> {
    /// The cotangent of a float that lies at a place is unknown, if a number was made of it.
    pub(super) fn poison(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (bytes, when): (u32, Option<Val>),
    ) {
        // In a derivative that is derived again, the load itself is asked.
        if self.env.typed.is_some() || bytes < SINGLE {
            return;
        }
        let alone = self.env.standalone.is_some();
        let when = match when {
            Some(when) => self.get(when),
            None if alone => return,
            None => b.ins().load(types::I64, MemFlagsData::new().with_notrap(), self.seg(), segment::ASKED),
        };
        if self.env.waits && !alone {
            self.rarely(b, when, None, |cx, b| {
                let args = cx.place(b, place, bytes);
                cx.bytes_helper(b, "brolga_add_demand", &args)
            });
            return;
        }
        // What is computed on the rare way is not known on the other.
        let at = self.shadow_at(b, place, (segment::SINK, Channel::Integers));
        let bytes = self.widened(bytes);
        self.rarely(b, when, None, |cx, b| {
            if !alone {
                let n = b.ins().iconst(types::I64, i64::from(bytes));
                let args = [cx.seg(), at, n];
                cx.tell(b, "brolga_poison", &args);
                return at;
            }
            for off in (0..bytes).step_by(SINGLE as usize) {
                let all = b.ins().iconst(types::I32, -1);
                let store = b.ins().store(MemFlagsData::new(), all, at, off as i32);
                cx.in_shadows.all.insert(store);
            }
            at
        });
    }

    /// A number has been stored over a part of a float, and loads may ask what it was computed
    /// from.
    pub(super) fn hand_on_poison(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (bytes, asks): (u32, ClearQuery),
    ) {
        if asks == ClearQuery::Known && self.env.numbers && self.env.standalone.is_none() {
            let any = self.waiting(b);
            self.rarely(b, any, None, |cx, b| {
                let args = cx.place(b, place, bytes);
                cx.tell(b, "brolga_hand_on", &args);
                args[0]
            });
        }
    }

    /// What has arrived where an integer is stored, without what is unknown.
    pub(super) fn without_poison(&mut self, b: &mut FunctionBuilder<'_>, x: ir::Value, ty: Type) -> ir::Value {
        let standalone = self.env.typed.is_some() || self.env.standalone.is_some();
        if !self.env.numbers || standalone || ty.bytes() < SINGLE {
            return x;
        }
        let known = self.rarely(b, x, Some(x), |cx, b| {
            let wide = if ty == types::I64 { x } else { b.ins().uextend(types::I64, x) };
            let args = [cx.seg(), wide];
            let known = cx.bytes_helper(b, "brolga_without_poison", &args);
            if ty == types::I64 { known } else { b.ins().ireduce(ty, known) }
        });
        known.expect("there is one")
    }
}
