//! `remquo` of a C library that was compiled into a module.
//!
//! **Problem.** It is integer arithmetic on float bits. It is exact, but which bits of the quotient
//! it leaves is the library's choice, so the host's cannot take its place
//! ([`crate::library::clib`]). **Answer.** A function around it ([`crate::library::around`]): the
//! result is `x - n y` for a whole number `n`, and has that derivative.
//!
//! **Cost.** As a module is loaded, 56 calls of a function of such a name.

use brolga::cranelift_codegen::ir::{InstBuilder, types};
use wasmparser::{FuncType, ValType};

use crate::function::func::Fx;
use crate::library::around::{call_wrapped, with_value, zero};
use crate::library::mathlib::{Host, POINTS};
use crate::provided::{TrialRun, WrapperFunction};
use crate::val::Val;

/// `remquo` or `remquof`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remquo {
    single: bool,
}

/// Divisors that it is tried with.
const DIVISORS: [f64; 4] = [0.37, -1.0, 2.41, 11.3];

impl Remquo {
    /// The function of a name, if it is this one.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "remquo" => Some(Self { single: false }),
            "remquof" => Some(Self { single: true }),
            _ => None,
        }
    }
}

impl WrapperFunction for Remquo {
    fn ty(&self) -> FuncType {
        let float = if self.single { ValType::F32 } else { ValType::F64 };
        FuncType::new([float, float, ValType::I32], [float])
    }

    fn emit(&self, fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str) {
        let [x, y, to] = std::mem::take(&mut fx.stack)[..] else { unreachable!("its type has been looked at") };
        let none = zero(fx, if self.single { types::F32 } else { types::F64 });
        let [cx, cy] = [x, y].map(|v| with_value(fx, none, v));
        let left = call_wrapped(fx, wrapped, &self.ty(), &[cx, cy, to])[0];
        let multiple = fx.b.ins().fsub(cx, left);
        let n = fx.b.ins().fdiv(multiple, cy);
        let product = fx.b.ins().fmul(n, y);
        let slope = fx.b.ins().fsub(x, product);
        let result = with_value(fx, slope, left);
        fx.b.ins().return_(&[result]);
    }

    fn agrees(&self, trial: &mut TrialRun<'_>) -> bool {
        const AT: usize = 512;
        let Some(host) = Host::of(if self.single { "remainderf" } else { "remainder" }) else { return false };
        let val = |x: f64| if self.single { Val::F32(x as f32) } else { Val::F64(x) };
        let round = |x: f64| if self.single { f64::from(x as f32) } else { x };
        POINTS.into_iter().flat_map(|x| DIVISORS.map(|y| [round(x), round(y)])).all(|[x, y]| {
            let Some((found, memory)) = trial(&[], &[val(x), val(y), Val::I32(AT as i32)]) else { return false };
            let value = match found[..] {
                [Val::F64(v)] => v,
                [Val::F32(v)] => v.into(),
                _ => return false,
            };
            let wanted = host.call([x, y, 0.0]);
            let left = i32::from_le_bytes(memory[AT..AT + 4].try_into().expect("four bytes"));
            let quotient = ((x - wanted) / y).round();
            // The last three bits of its magnitude, at least, with its sign.
            let bits = left.unsigned_abs() % 8 == (quotient.abs() % 8.0) as u32;
            value == wanted && bits && (left == 0 || (left < 0) == (quotient < 0.0))
        })
    }
}
