//! Derived rules: compiled forward pass and pullback.

use brolga_ir::{Options, Program, Request};
use cranelift_codegen::data_value::DataValue;

use crate::Error;

/// One argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// The primal value; a pointer is an `I64` address.
    pub value: DataValue,
    /// Address of the shadow of a duplicated pointer. Ignored for other arguments.
    pub shadow: u64,
}

impl Arg {
    /// An argument without a shadow.
    pub fn new(value: DataValue) -> Self {
        Self { value, shadow: 0 }
    }

    /// A pointer and its shadow.
    pub fn duplicated(primal: u64, shadow: u64) -> Self {
        Self { value: DataValue::I64(primal as i64), shadow }
    }
}

/// A compiled derivative. Cheap to clone; clones share code and captures, which are immutable, so threads may share one.
#[derive(Clone)]
pub struct DerivedRule {}

impl DerivedRule {
    /// Differentiate and compile.
    pub fn new(_program: &Program, _request: &Request, _options: &Options) -> Result<Self, Error> {
        Err(Error::Internal { stage: "derive", message: "being built".into() })
    }

    /// Run the primal alone, as compiled by the same Cranelift.
    ///
    /// # Safety
    /// Pointers among the arguments must be valid for what the primal does with them.
    pub unsafe fn primal(&self, _args: &[DataValue]) -> Result<Vec<DataValue>, Error> {
        Err(Error::Internal { stage: "primal", message: "being built".into() })
    }

    /// Run the forward pass: the primal results, bit for bit, and the pullback of this run.
    ///
    /// # Safety
    /// As for [`Self::primal`]; every shadow must be as large as its primal and laid out alike, and stay valid while the
    /// pullback is used.
    pub unsafe fn forward(&self, _args: &[Arg]) -> Result<(Vec<DataValue>, Pullback), Error> {
        Err(Error::Internal { stage: "forward", message: "being built".into() })
    }
}

/// The pullback of one forward run. May be called several times with different seeds.
pub struct Pullback {}

impl Pullback {
    /// Cotangents of the arguments for the given cotangents of the results (one per result; those of results that are not
    /// floats are ignored). Returns one entry per argument: `Some` for active arguments. Shadows accumulate.
    ///
    /// # Safety
    /// The memory that was passed to the forward run, primal and shadow, must still be valid.
    pub unsafe fn call(&mut self, _seeds: &[DataValue]) -> Result<Vec<Option<DataValue>>, Error> {
        Err(Error::Internal { stage: "pullback", message: "being built".into() })
    }

    /// Bytes that the forward run recorded.
    pub fn tape_bytes(&self) -> usize {
        0
    }

    /// The shadow of a writable data object.
    pub fn data_shadow(&self, _symbol: &str) -> Option<&[u8]> {
        None
    }
}
