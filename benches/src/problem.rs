//! One problem: functions in CLIF, inputs, and what must come out.

use std::borrow::Cow;

/// An argument of the primal.
#[derive(Clone, Debug)]
pub enum Input {
    /// A float that is differentiated.
    Active(f64),
    /// A pointer to floats that are differentiated.
    Floats(Vec<f64>),
    /// A pointer to floats that are constants.
    ConstFloats(Vec<f64>),
    /// A pointer to bytes.
    Bytes(Vec<u8>),
    /// A 64-bit integer.
    Int(i64),
    /// A 32-bit integer.
    Int32(i32),
}

/// Something to measure: a function that returns one `f64`.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Short name.
    pub name: &'static str,
    /// What it stands for, in a few words.
    pub about: &'static str,
    /// The CLIF file.
    pub clif: Cow<'static, str>,
    /// The primal's symbol.
    pub func: &'static str,
    /// The hand-written adjoint's symbol: it takes the arguments of the primal and the shadow of each [`Input::Floats`], adds
    /// to the shadows and returns the cotangents of each [`Input::Active`], for the seed 1.
    pub hand: Option<&'static str>,
    /// Arguments.
    pub args: Vec<Input>,
    /// How often the innermost loop runs, or how many calls or instructions there are.
    pub iterations: usize,
    /// The value, known from elsewhere.
    pub value: f64,
    /// Its gradient, known from elsewhere: all active and duplicated arguments in order, flattened.
    pub gradient: Vec<f64>,
    /// Largest error of an element, relative to the largest element.
    pub tolerance: f64,
}

impl Problem {
    /// Whether `is` is what was expected: the distance of two vectors in the largest norm.
    pub fn agrees(&self, is: &[f64], want: &[f64]) -> bool {
        let scale = want.iter().fold(f64::MIN_POSITIVE, |m, w| m.max(w.abs()));
        is.len() == want.len() && is.iter().zip(want).all(|(a, b)| (a - b).abs() <= self.tolerance * scale)
    }
}
