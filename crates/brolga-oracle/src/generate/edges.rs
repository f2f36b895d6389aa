//! Numbers at the edges of arithmetic: constants beside which digits get lost, and partial derivatives that are infinite where
//! their cotangent is zero.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::body::Body;
use super::kind::{Kind, TAME, Val};

impl Body<'_> {
    fn some_float_kind(&mut self) -> Kind {
        if self.has(super::Feature::Single) && self.source.chance(35) { Kind::F32 } else { Kind::F64 }
    }

    /// A sum with a large constant, of which another one is taken off again, or which is scaled down.
    pub fn large_statement(&mut self) {
        let kind = self.some_float_kind();
        let x = self.pick(kind);
        let x = self.tame(x);
        let digits = if kind == Kind::F64 { 52 } else { 23 };
        let power = self.source.between(digits / 2, digits) as i32;
        let large = self.source.choose(&[1.0, 1.5, -1.0, -1.5]) * 2_f64.powi(power);
        let c = self.constant(kind, large);
        let sum = self.at_end().ins().fadd(x.value, c);
        let (value, bound) = if self.source.chance(60) {
            let other = if self.source.chance(60) { large } else { large + f64::from(self.source.below(3) as u32) };
            let c = self.constant(kind, other);
            // Rounded to a multiple of the last place of the sum, which is two at most.
            (self.at_end().ins().fsub(sum, c), TAME + 4.0)
        } else {
            let scale = self.constant(kind, 2_f64.powi(-power));
            (self.at_end().ins().fmul(sum, scale), TAME)
        };
        let val = Val { value, kind, bound, room: 0 };
        self.scope.push(val);
    }

    /// A call of a function of one number.
    fn of_one(&mut self, name: &str, kind: Kind, x: Value) -> Value {
        let name = if kind == Kind::F32 { format!("{name}f") } else { name.to_owned() };
        self.call_import(&name, &[kind.ty()], &[kind.ty()], &[x])[0]
    }

    /// A number that is zero now and then: a product with zero, a difference, a rest, or nothing special.
    fn maybe_zero(&mut self, kind: Kind) -> Value {
        let x = self.pick(kind);
        let x = self.tame(x).value;
        match self.source.below(4) {
            0 => {
                let zero = self.constant(kind, 0.0);
                self.at_end().ins().fmul(x, zero)
            }
            1 => {
                let y = self.pick_tame(kind);
                let larger = self.at_end().ins().fmax(x, y);
                self.at_end().ins().fsub(larger, x)
            }
            2 => {
                let zero = self.constant(kind, 0.0);
                self.at_end().ins().fmax(x, zero)
            }
            _ => x,
        }
    }

    /// A function that saturates, or that a selection keeps from where it has no slope: the cotangent that arrives there is zero.
    pub fn zero_statement(&mut self) {
        let kind = self.some_float_kind();
        let x = self.maybe_zero(kind);
        let (zero, one) = (self.constant(kind, 0.0), self.constant(kind, 1.0));
        let (value, bound) = match self.source.below(7) {
            0 => {
                let steepness = self.source.choose(&[30.0, 300.0, 3000.0]);
                let k = self.constant(kind, steepness);
                let steep = self.at_end().ins().fmul(x, k);
                let e = self.of_one("exp", kind, steep);
                let sum = self.at_end().ins().fadd(one, e);
                (self.at_end().ins().fdiv(one, sum), 1.0)
            }
            1 => {
                let k = self.constant(kind, 300.0);
                let steep = self.at_end().ins().fmul(x, k);
                let e = self.of_one("exp", kind, steep);
                let most = self.constant(kind, TAME);
                (self.at_end().ins().fmin(e, most), TAME)
            }
            n => {
                // Where it is zero, something else is taken.
                let name = ["log", "sqrt", "cbrt", "hypot", "pow"][n - 2];
                let size = self.at_end().ins().fabs(x);
                let y = match name {
                    "hypot" | "pow" => {
                        let half = self.constant(kind, 0.5);
                        let other = if name == "pow" { half } else { self.maybe_zero(kind) };
                        let name = if kind == Kind::F32 { format!("{name}f") } else { name.to_owned() };
                        self.call_import(&name, &[kind.ty(); 2], &[kind.ty()], &[size, other])[0]
                    }
                    name => self.of_one(name, kind, size),
                };
                let product = self.at_end().ins().fmul(x, y);
                let is_zero = self.at_end().ins().fcmp(FloatCC::Equal, x, zero);
                let from = self.source.choose(&[y, product]);
                (self.at_end().ins().select(is_zero, zero, from), 800.0)
            }
        };
        let val = Val { value, kind, bound, room: 0 };
        let val = self.tame(val);
        self.scope.push(val);
    }
}
