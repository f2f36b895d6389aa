//! Translation of WebAssembly's numeric operators: almost all are one CLIF instruction, which traps
//! where Wasm wants it to.
//!
//! **Question.** Which instructions are an operator on numbers?
//!
//! **Answer.** [`Fx::number`] takes operands from the stack of values, appends an instruction and
//! pushes its result; it returns whether the operator was one of its own. Truth values have 32 bits
//! in Wasm and 8 in CLIF: a comparison is extended, and where a branch takes the result the
//! extension is seen through ([`Fx::pop_condition`]). Constants keep their bits, those of a NaN,
//! too.
//!
//! **Cost.** One instruction for an operator, two for a comparison or an extension of a part.

use brolga::cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use brolga::cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use brolga::cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use wasmparser::Operator;

use super::func::Fx;

/// Casts keep bytes as they are in Wasm's memory.
pub(crate) fn little() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

impl Fx<'_, '_, '_, '_> {
    fn unary(&mut self, f: impl FnOnce(&mut Self, Value) -> Value) -> bool {
        let x = self.pop();
        let z = f(self, x);
        self.push(z);
        true
    }

    fn binary(&mut self, f: impl FnOnce(&mut Self, Value, Value) -> Value) -> bool {
        let (x, y) = self.pop2();
        let z = f(self, x, y);
        self.push(z);
        true
    }

    /// Wasm's truth values are 32-bit numbers.
    pub(crate) fn truth(&mut self, flag: Value) -> Value {
        self.b.ins().uextend(types::I32, flag)
    }

    fn icmp(&mut self, cc: IntCC) -> bool {
        self.binary(|fx, x, y| {
            let c = fx.b.ins().icmp(cc, x, y);
            fx.truth(c)
        })
    }

    fn fcmp(&mut self, cc: FloatCC) -> bool {
        self.binary(|fx, x, y| {
            let c = fx.b.ins().fcmp(cc, x, y);
            fx.truth(c)
        })
    }

    fn sign_extend(&mut self, from: Type, to: Type) -> bool {
        self.unary(|fx, x| {
            let low = fx.b.ins().ireduce(from, x);
            fx.b.ins().sextend(to, low)
        })
    }

    fn cast(&mut self, to: Type) -> bool {
        self.unary(|fx, x| fx.b.ins().bitcast(to, MemFlagsData::new(), x))
    }

    /// Translate an operator on numbers; whether it is one.
    pub(crate) fn number(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        macro_rules! un {
            ($op:ident $(, $ty:expr)?) => { self.unary(|fx, x| fx.b.ins().$op($($ty,)? x)) };
        }
        macro_rules! bin {
            ($op:ident) => {
                self.binary(|fx, x, y| fx.b.ins().$op(x, y))
            };
        }
        match op {
            O::I32Const { value } => {
                let v = self.b.ins().iconst(types::I32, i64::from(*value as u32));
                self.push(v);
                true
            }
            O::I64Const { value } => {
                let v = self.b.ins().iconst(types::I64, *value);
                self.push(v);
                true
            }
            O::F32Const { value } => {
                let v = self.b.ins().f32const(Ieee32::with_bits(value.bits()));
                self.push(v);
                true
            }
            O::F64Const { value } => {
                let v = self.b.ins().f64const(Ieee64::with_bits(value.bits()));
                self.push(v);
                true
            }
            O::I32Eqz | O::I64Eqz => self.unary(|fx, x| {
                let ty = fx.b.func.dfg.value_type(x);
                let zero = fx.b.ins().iconst(ty, 0);
                let c = fx.b.ins().icmp(IntCC::Equal, x, zero);
                fx.truth(c)
            }),
            O::I32Eq | O::I64Eq => self.icmp(IntCC::Equal),
            O::I32Ne | O::I64Ne => self.icmp(IntCC::NotEqual),
            O::I32LtS | O::I64LtS => self.icmp(IntCC::SignedLessThan),
            O::I32LtU | O::I64LtU => self.icmp(IntCC::UnsignedLessThan),
            O::I32GtS | O::I64GtS => self.icmp(IntCC::SignedGreaterThan),
            O::I32GtU | O::I64GtU => self.icmp(IntCC::UnsignedGreaterThan),
            O::I32LeS | O::I64LeS => self.icmp(IntCC::SignedLessThanOrEqual),
            O::I32LeU | O::I64LeU => self.icmp(IntCC::UnsignedLessThanOrEqual),
            O::I32GeS | O::I64GeS => self.icmp(IntCC::SignedGreaterThanOrEqual),
            O::I32GeU | O::I64GeU => self.icmp(IntCC::UnsignedGreaterThanOrEqual),
            O::F32Eq | O::F64Eq => self.fcmp(FloatCC::Equal),
            O::F32Ne | O::F64Ne => self.fcmp(FloatCC::NotEqual),
            O::F32Lt | O::F64Lt => self.fcmp(FloatCC::LessThan),
            O::F32Gt | O::F64Gt => self.fcmp(FloatCC::GreaterThan),
            O::F32Le | O::F64Le => self.fcmp(FloatCC::LessThanOrEqual),
            O::F32Ge | O::F64Ge => self.fcmp(FloatCC::GreaterThanOrEqual),
            O::I32Clz | O::I64Clz => un!(clz),
            O::I32Ctz | O::I64Ctz => un!(ctz),
            O::I32Popcnt | O::I64Popcnt => un!(popcnt),
            O::I32Add | O::I64Add => bin!(iadd),
            O::I32Sub | O::I64Sub => bin!(isub),
            O::I32Mul | O::I64Mul => bin!(imul),
            O::I32DivS | O::I64DivS => bin!(sdiv),
            O::I32DivU | O::I64DivU => bin!(udiv),
            O::I32RemS | O::I64RemS => bin!(srem),
            O::I32RemU | O::I64RemU => bin!(urem),
            O::I32And | O::I64And => bin!(band),
            O::I32Or | O::I64Or => bin!(bor),
            O::I32Xor | O::I64Xor => bin!(bxor),
            O::I32Shl | O::I64Shl => bin!(ishl),
            O::I32ShrS | O::I64ShrS => bin!(sshr),
            O::I32ShrU | O::I64ShrU => bin!(ushr),
            O::I32Rotl | O::I64Rotl => bin!(rotl),
            O::I32Rotr | O::I64Rotr => bin!(rotr),
            O::F32Abs | O::F64Abs => un!(fabs),
            O::F32Neg | O::F64Neg => un!(fneg),
            O::F32Ceil | O::F64Ceil => un!(ceil),
            O::F32Floor | O::F64Floor => un!(floor),
            O::F32Trunc | O::F64Trunc => un!(trunc),
            O::F32Nearest | O::F64Nearest => un!(nearest),
            O::F32Sqrt | O::F64Sqrt => un!(sqrt),
            O::F32Add | O::F64Add => bin!(fadd),
            O::F32Sub | O::F64Sub => bin!(fsub),
            O::F32Mul | O::F64Mul => bin!(fmul),
            O::F32Div | O::F64Div => bin!(fdiv),
            O::F32Min | O::F64Min => bin!(fmin),
            O::F32Max | O::F64Max => bin!(fmax),
            O::F32Copysign | O::F64Copysign => bin!(fcopysign),
            O::I32WrapI64 => un!(ireduce, types::I32),
            O::I64ExtendI32S => un!(sextend, types::I64),
            O::I64ExtendI32U => un!(uextend, types::I64),
            O::I32Extend8S => self.sign_extend(types::I8, types::I32),
            O::I32Extend16S => self.sign_extend(types::I16, types::I32),
            O::I64Extend8S => self.sign_extend(types::I8, types::I64),
            O::I64Extend16S => self.sign_extend(types::I16, types::I64),
            O::I64Extend32S => self.sign_extend(types::I32, types::I64),
            O::I32TruncF32S | O::I32TruncF64S => un!(fcvt_to_sint, types::I32),
            O::I32TruncF32U | O::I32TruncF64U => un!(fcvt_to_uint, types::I32),
            O::I64TruncF32S | O::I64TruncF64S => un!(fcvt_to_sint, types::I64),
            O::I64TruncF32U | O::I64TruncF64U => un!(fcvt_to_uint, types::I64),
            O::I32TruncSatF32S | O::I32TruncSatF64S => un!(fcvt_to_sint_sat, types::I32),
            O::I32TruncSatF32U | O::I32TruncSatF64U => un!(fcvt_to_uint_sat, types::I32),
            O::I64TruncSatF32S | O::I64TruncSatF64S => un!(fcvt_to_sint_sat, types::I64),
            O::I64TruncSatF32U | O::I64TruncSatF64U => un!(fcvt_to_uint_sat, types::I64),
            O::F32ConvertI32S | O::F32ConvertI64S => un!(fcvt_from_sint, types::F32),
            O::F32ConvertI32U | O::F32ConvertI64U => un!(fcvt_from_uint, types::F32),
            O::F64ConvertI32S | O::F64ConvertI64S => un!(fcvt_from_sint, types::F64),
            O::F64ConvertI32U | O::F64ConvertI64U => un!(fcvt_from_uint, types::F64),
            O::F32DemoteF64 => un!(fdemote, types::F32),
            O::F64PromoteF32 => un!(fpromote, types::F64),
            O::I32ReinterpretF32 => self.cast(types::I32),
            O::I64ReinterpretF64 => self.cast(types::I64),
            O::F32ReinterpretI32 => self.cast(types::F32),
            O::F64ReinterpretI64 => self.cast(types::F64),
            _ => false,
        }
    }
}
