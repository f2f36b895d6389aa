//! Arguments of calls, and what the caller says of them.
//!
//! **Question.** Beside its value, what has a call to know of an argument?
//!
//! **Answer.** [`Arg`] has the value, and of a pointer the address of its shadow; if the caller
//! knows, how many bytes lie behind both, and which floats. Lengths let overlaps be found, floats
//! let cotangents be put together that have moved in pieces.
//!
//! **Cost.** A few words for each argument. A list of floats is shared by copies of an argument.

use std::sync::Arc;

use brolga_runtime::Floats;
use cranelift_codegen::data_value::DataValue;

/// One argument of a call.
///
/// ```
/// use brolga::cranelift_codegen::data_value::DataValue;
/// use brolga::{Arg, ArgSpec, DerivedRule, Elem, Floats, Options, Program, Request};
/// // The square of a double, which is copied in two words.
/// let text = "function %f(i64) -> f64 {
///     ss0 = explicit_slot 8
///     block0(v0: i64):
///         v1 = stack_addr.i64 ss0
///         v2 = load.i32 v0
///         v3 = load.i32 v0+4
///         store v2, v1
///         store v3, v1+4
///         v4 = load.f64 v1
///         v5 = fmul v4, v4
///         return v5
/// }";
/// let mut program = Program::new();
/// let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0).unwrap();
/// let rule = DerivedRule::new(&program, &Request::new(f, [ArgSpec::duplicated(Elem::F64)]), &Options::default())?;
/// let (x, mut shadow) = ([3.0_f64], [0.5_f64]);
/// let one_double = Floats { offset: 0, len: 8, size: 8 };
/// let at = Arg::duplicated(x.as_ptr() as u64, shadow.as_mut_ptr() as u64);
/// let at = at.with_len(8).with_floats([one_double].into());
/// let (mut values, mut cotangents) = (Vec::new(), Vec::new());
/// // SAFETY: the function reads one number, and the shadow is as long.
/// unsafe { rule.gradient(&[at], &[DataValue::F64(1.0.into())], &mut values, &mut cotangents) }?;
/// assert_eq!((values, shadow), (vec![DataValue::F64(9.0.into())], [6.5]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

impl Arg {
    /// An argument without a shadow.
    ///
    /// ```
    /// # use brolga::{Arg, cranelift_codegen::data_value::DataValue};
    /// let arg = Arg::new(DataValue::I32(7));
    /// assert_eq!((arg.value, arg.shadow, arg.len), (DataValue::I32(7), 0, None));
    /// ```
    pub fn new(value: DataValue) -> Self {
        Self { value, shadow: 0, len: None, floats: None }
    }

    /// A pointer and its shadow.
    ///
    /// ```
    /// # use brolga::{Arg, cranelift_codegen::data_value::DataValue};
    /// let arg = Arg::duplicated(0x1000, 0x2000);
    /// assert_eq!((arg.value, arg.shadow), (DataValue::I64(0x1000), 0x2000));
    /// ```
    pub fn duplicated(primal: u64, shadow: u64) -> Self {
        Self { shadow, ..Self::new(DataValue::I64(primal as i64)) }
    }

    /// A pointer and its shadow, with the length of both in bytes.
    ///
    /// ```
    /// # use brolga::Arg;
    /// assert_eq!(Arg::duplicated_len(0x1000, 0x2000, 8).len, Some(8));
    /// ```
    pub fn duplicated_len(primal: u64, shadow: u64, len: u64) -> Self {
        Self::duplicated(primal, shadow).with_len(len)
    }

    /// The same argument, with floats that are known to lie behind it. It is taken on trust.
    ///
    /// ```
    /// # use brolga::{Arg, Floats};
    /// let arg = Arg::duplicated(0x1000, 0x2000).with_floats([Floats { offset: 0, len: 8, size: 4 }].into());
    /// assert_eq!(arg.floats.map(|all| all.len()), Some(1));
    /// ```
    pub fn with_floats(self, floats: Arc<[Floats]>) -> Self {
        Self { floats: Some(floats), ..self }
    }

    /// The same argument, with a declared length in bytes.
    ///
    /// ```
    /// # use brolga::Arg;
    /// assert_eq!(Arg::duplicated(0x1000, 0x2000).with_len(8).len, Some(8));
    /// ```
    pub fn with_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
    }
}
