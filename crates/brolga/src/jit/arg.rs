//! Arguments of calls, and what the caller says of them.

use std::sync::Arc;

use cranelift_codegen::data_value::DataValue;

/// One argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// The primal value; a pointer is an `I64` address.
    pub value: DataValue,
    /// Address of the shadow of a duplicated pointer. Ignored for other arguments.
    pub shadow: u64,
    /// Bytes behind a pointer, and as many behind its shadow, if the caller says so. Then an
    /// overlap of shadows with primals is refused, and a debug run checks every access of a shadow.
    pub len: Option<u64>,
    /// What the caller knows to be in memory behind a pointer when a run begins. Only programs ask
    /// that move floats in pieces, of memory that holds floats of several sizes.
    pub floats: Option<Arc<[Floats]>>,
}

/// Floats in memory, as the caller of a function has put them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats {
    /// Where they begin: bytes from the pointer.
    pub offset: u64,
    /// How many bytes they have together.
    pub len: u64,
    /// Bytes of each, 4 or 8. They lie at multiples of that. 0 if they are constants of the
    /// program, whose meaning is not known: if their cotangents cannot be put together, their
    /// shadow is NaN (as a double, and as singles), and the pullback does not trap.
    pub size: u32,
}

impl Arg {
    /// An argument without a shadow.
    pub fn new(value: DataValue) -> Self {
        Self { value, shadow: 0, len: None, floats: None }
    }

    /// A pointer and its shadow.
    pub fn duplicated(primal: u64, shadow: u64) -> Self {
        Self { shadow, ..Self::new(DataValue::I64(primal as i64)) }
    }

    /// A pointer and its shadow, with the length of both in bytes.
    pub fn duplicated_len(primal: u64, shadow: u64, len: u64) -> Self {
        Self::duplicated(primal, shadow).with_len(len)
    }

    /// The same argument, with floats that are known to lie behind it. It is taken on trust.
    pub fn with_floats(self, floats: Arc<[Floats]>) -> Self {
        Self { floats: Some(floats), ..self }
    }

    /// The same argument, with a declared length in bytes.
    pub fn with_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
    }
}
