//! WebAssembly values, as they are passed to and from functions of a module.
//!
//! **Question.** Arguments and results have types of WebAssembly on one side, of CLIF on the other.
//! What stands for what?
//!
//! **Answer.** A [`Val`] is one of WebAssembly's; [`Val::to_data`] and [`Val::from_data`] are the
//! way to CLIF and back, [`Val::bits`] and [`Val::from_bits`] to bits and back. A reference is a
//! number of 32 bits, zero for null, which means something to its instance only; [`Val::fits`]
//! takes it for any type of references.
//!
//! **Cost.** A copy of at most sixteen bytes.

use brolga::cranelift_codegen::data_value::DataValue;
use wasmparser::ValType;

/// A Wasm value.
///
/// ```
/// # use brolga_wasm::{Val, ValType};
/// assert_ne!(Val::I32(1), Val::I64(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Val {
    /// 32-bit integer, or an address.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// 128-bit vector, lane 0 in the lowest bits.
    V128(u128),
    /// A reference: 0 is null, anything else means something to its instance only.
    Ref(u32),
}

impl Val {
    /// Its type. References are of type `funcref` here, whatever they refer to.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert_eq!(Val::F32(1.5).ty(), ValType::F32);
    /// ```
    pub fn ty(self) -> ValType {
        match self {
            Val::I32(_) => ValType::I32,
            Val::I64(_) => ValType::I64,
            Val::F32(_) => ValType::F32,
            Val::F64(_) => ValType::F64,
            Val::V128(_) => ValType::V128,
            Val::Ref(_) => ValType::FUNCREF,
        }
    }

    /// Whether it can be passed for a type.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert!(Val::Ref(0).fits(ValType::EXTERNREF) && !Val::I32(0).fits(ValType::I64));
    /// ```
    pub fn fits(self, ty: ValType) -> bool {
        match (self, ty) {
            (Val::Ref(_), ValType::Ref(_)) => true,
            _ => self.ty() == ty,
        }
    }

    /// Its bits, zero-extended.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert_eq!(Val::I32(-1).bits(), 0xffff_ffff);
    /// ```
    pub fn bits(self) -> u128 {
        match self {
            Val::I32(x) => (x as u32).into(),
            Val::I64(x) => (x as u64).into(),
            Val::F32(x) => x.to_bits().into(),
            Val::F64(x) => x.to_bits().into(),
            Val::V128(x) => x,
            Val::Ref(x) => x.into(),
        }
    }

    /// The value of a type with these bits.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert_eq!(Val::from_bits(ValType::F64, Val::F64(1.5).bits()), Val::F64(1.5));
    /// ```
    pub fn from_bits(ty: ValType, bits: u128) -> Self {
        match ty {
            ValType::I32 => Val::I32(bits as i32),
            ValType::I64 => Val::I64(bits as i64),
            ValType::F32 => Val::F32(f32::from_bits(bits as u32)),
            ValType::F64 => Val::F64(f64::from_bits(bits as u64)),
            ValType::V128 => Val::V128(bits),
            ValType::Ref(_) => Val::Ref(bits as u32),
        }
    }

    /// The number, if it is a 64-bit float.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert_eq!((Val::F64(1.5).f64(), Val::F32(1.5).f64()), (Some(1.5), None));
    /// ```
    pub fn f64(self) -> Option<f64> {
        if let Val::F64(x) = self { Some(x) } else { None }
    }

    /// As Brolga passes it.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// use brolga_wasm::brolga::cranelift_codegen::data_value::DataValue;
    /// assert_eq!(Val::F64(1.5).to_data(), DataValue::F64(1.5.into()));
    /// ```
    pub fn to_data(self) -> DataValue {
        match self {
            Val::I32(x) => DataValue::I32(x),
            Val::Ref(x) => DataValue::I32(x as i32),
            Val::I64(x) => DataValue::I64(x),
            Val::F32(x) => DataValue::F32(x.into()),
            Val::F64(x) => DataValue::F64(x.into()),
            Val::V128(x) => DataValue::V128(x.to_le_bytes()),
        }
    }

    /// From what Brolga returns for a result of this type.
    ///
    /// ```
    /// # use brolga_wasm::{Val, ValType};
    /// assert_eq!(Val::from_data(&Val::F32(1.5).to_data(), ValType::F32), Val::F32(1.5));
    /// ```
    pub fn from_data(v: &DataValue, ty: ValType) -> Self {
        let mut bytes = [0; 16];
        let n = v.ty().bytes() as usize;
        v.write_to_slice_ne(&mut bytes[..n]);
        Val::from_bits(ty, u128::from_ne_bytes(bytes))
    }
}
