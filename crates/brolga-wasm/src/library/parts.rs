//! Numbers taken apart in Zig's way: `std.math.frexp` returns a record of fraction and exponent.
//!
//! **Problem.** It is integer arithmetic on float bits, as C's is, and `std.math.pow`, among
//! others, is made of it. But C's returns the fraction and writes the exponent; here both are
//! written where the caller has room for the record, so that the host's cannot take its place
//! ([`crate::library::clib`]). **Answer.** A function around it ([`crate::library::around`]): the
//! fraction is `x` times a power of two, and has that derivative.
//!
//! **Cost.** As a module is loaded, 14 calls of a function of such a name.

use brolga::cranelift_codegen::ir::{InstBuilder, types};
use wasmparser::{FuncType, ValType};

use crate::function::func::Fx;
use crate::function::ops::little;
use crate::library::around::{call_wrapped, computed, float_at, store_with_value, with_value, zero};
use crate::library::clib::parts;
use crate::library::mathlib::POINTS;
use crate::provided::{TrialRun, WrapperFunction};
use crate::val::Val;

/// `frexp`, of a `double` or a `float`, that writes `{ fraction, exponent: i32 }`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatParts {
    single: bool,
}

impl FloatParts {
    /// The function of a name and type, if it is this one; instances for both widths have one name.
    pub(super) fn named(name: &str, ty: &FuncType) -> Option<Self> {
        let mut both = [false, true].map(|single| Self { single }).into_iter();
        both.find(|p| name == "frexp" && p.ty() == *ty)
    }

    fn bytes(self) -> usize {
        if self.single { 4 } else { 8 }
    }
}

impl WrapperFunction for FloatParts {
    fn ty(&self) -> FuncType {
        FuncType::new([ValType::I32, if self.single { ValType::F32 } else { ValType::F64 }], [])
    }

    fn emit(&self, fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str) {
        let [to, x] = std::mem::take(&mut fx.stack)[..] else { unreachable!("its type has been looked at") };
        let (ty, scale) = if self.single { (types::F32, "scalbnf") } else { (types::F64, "scalbn") };
        let none = zero(fx, ty);
        let constant = with_value(fx, none, x);
        call_wrapped(fx, wrapped, &self.ty(), &[to, constant]);
        let room = fx.b.ins().iconst(types::I32, self.bytes() as i64 + 4);
        let at = fx.range(0, to, room);
        let exponent = fx.b.ins().load(types::I32, little(), at, self.bytes() as i32);
        let back = fx.b.ins().ineg(exponent);
        let slope = computed(fx, scale, &[x, back]);
        store_with_value(fx, slope, at, 0);
        fx.b.ins().return_(&[]);
    }

    fn agrees(&self, trial: &mut TrialRun<'_>) -> bool {
        let (to, n) = (512, self.bytes());
        POINTS.into_iter().all(|x| {
            let x = if self.single { f64::from(x as f32) } else { x };
            let arg = if self.single { Val::F32(x as f32) } else { Val::F64(x) };
            let Some((_, left)) = trial(&[], &[Val::I32(to as i32), arg]) else { return false };
            let exponent = i32::from_le_bytes(left[to + n..to + n + 4].try_into().expect("four bytes"));
            (float_at(&left, to, self.single), exponent) == parts(x)
        })
    }
}
