//! Subject of an oracle: a program, its addresses, and the arguments of a call.
//!
//! **Question.** An oracle is asked for a derivative of a call. What has it to be told?
//!
//! **Answer.** Of the program, in an [`Oracle`]: limits, addresses of data objects, implementations
//! of imported functions, and buffers that are reached through memory. Of each argument, in an
//! [`OracleArg`]: its value, its [`Activity`], and for a pointer the buffer behind it
//! ([`BufferRef`]), with its initial shadow and which of its elements are integers.
//!
//! **Cost.** Nothing is copied before a run begins; each run makes a machine of its own.

use brolga_ir::{DataKey, Program};
use cranelift_codegen::data_value::DataValue;

use crate::Limits;
use crate::interp::{CustomFunction, Domain, Machine};

/// What is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Nothing.
    Const,
    /// A float or float vector by value.
    Active,
    /// What a pointer points at.
    Duplicated,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// Something that is no input: integers, pointers, scratch space.
    Bytes,
}

impl Elem {
    /// Bytes of one element.
    pub fn width(self) -> usize {
        match self {
            Elem::F64 => 8,
            Elem::F32 => 4,
            Elem::Bytes => 1,
        }
    }
}

/// A buffer in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRef {
    /// Where it begins.
    pub addr: usize,
    /// How long it is.
    pub len_bytes: usize,
    /// What it holds.
    pub elem: Elem,
}

impl BufferRef {
    /// How many floats it holds.
    pub fn n_elems(&self) -> usize {
        if self.elem == Elem::Bytes { 0 } else { self.len_bytes / self.elem.width() }
    }
}

/// One argument of a call.
#[derive(Clone, Debug)]
pub struct OracleArg {
    /// The value; an address for a pointer.
    pub value: DataValue,
    /// What is differentiated.
    pub activity: Activity,
    /// For a pointer: the buffer behind it.
    pub buffer: Option<BufferRef>,
    /// The buffer's initial shadow, one number per element; `None` is zeros.
    pub shadow: Option<Vec<f64>>,
    /// Elements of the buffer that hold integers: they are no inputs, and what is computed from
    /// them has no derivative.
    pub integers: Vec<usize>,
}

impl OracleArg {
    /// An argument that is not differentiated.
    pub fn constant(value: DataValue) -> Self {
        OracleArg { value, activity: Activity::Const, buffer: None, shadow: None, integers: vec![] }
    }

    /// A float by value.
    pub fn active(value: DataValue) -> Self {
        OracleArg { value, activity: Activity::Active, buffer: None, shadow: None, integers: vec![] }
    }

    /// A pointer to a buffer, with its initial shadow.
    pub fn duplicated(buffer: BufferRef, shadow: Option<Vec<f64>>) -> Self {
        OracleArg {
            value: DataValue::I64(buffer.addr as i64),
            activity: Activity::Duplicated,
            buffer: Some(buffer),
            shadow,
            integers: vec![],
        }
    }
}

/// An oracle for one program: limits, addresses of data, imported functions, and buffers that are
/// not arguments.
#[derive(Clone, Debug)]
pub struct Oracle<'p> {
    pub(super) program: &'p Program,
    pub(super) limits: Limits,
    pub(super) data: Vec<(DataKey, usize)>,
    pub(super) externs: Vec<(String, CustomFunction)>,
    pub(super) extra: Vec<(BufferRef, Option<Vec<f64>>)>,
}

impl<'p> Oracle<'p> {
    /// An oracle with default limits and nothing but the program.
    pub fn new(program: &'p Program) -> Self {
        Oracle { program, limits: Limits::default(), data: Vec::new(), externs: Vec::new(), extra: Vec::new() }
    }

    /// Set the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Use this memory for a data object instead of a fresh copy.
    pub fn data_address(mut self, data: DataKey, address: usize) -> Self {
        self.data.push((data, address));
        self
    }

    /// Implement an imported function.
    pub fn external(mut self, symbol: &str, f: CustomFunction) -> Self {
        self.externs.push((symbol.to_owned(), f));
        self
    }

    /// A buffer that is reached through memory and is an input like those of duplicated arguments.
    pub fn extra_buffer(mut self, buffer: BufferRef, shadow: Option<Vec<f64>>) -> Self {
        self.extra.push((buffer, shadow));
        self
    }

    pub(super) fn machine<D: Domain>(&self, domain: D) -> Machine<'p, D> {
        let mut m = Machine::new(self.program, domain, &self.limits);
        self.data.iter().for_each(|&(d, a)| m.linkage.set_data(d, a));
        self.externs.iter().for_each(|(s, f)| m.externs.define(s, *f));
        m
    }
}
