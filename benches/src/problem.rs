//! One problem: functions in CLIF, inputs, and what must come out.

use std::borrow::Cow;

use crate::real::{Reference, Var, reference};

/// An argument of the primal.
#[derive(Clone, Debug)]
pub enum Input {
    /// A float that is differentiated.
    Active(f64),
    /// A pointer to floats that are differentiated.
    Floats(Vec<f64>),
    /// The same in single precision; the numbers must be exact in it.
    Singles(Vec<f64>),
    /// A pointer to floats that are constants.
    ConstFloats(Vec<f64>),
    /// A pointer to bytes.
    Bytes(Vec<u8>),
    /// A pointer to 64-bit integers.
    Longs(Vec<i64>),
    /// A 64-bit integer.
    Int(i64),
    /// A 32-bit integer.
    Int32(i32),
}

impl Input {
    /// Whether it is passed as an address.
    pub fn is_pointer(&self) -> bool {
        match self {
            Self::Active(_) | Self::Int(_) | Self::Int32(_) => false,
            Self::Floats(_) | Self::Singles(_) | Self::ConstFloats(_) | Self::Bytes(_) | Self::Longs(_) => true,
        }
    }
}

/// How large a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Small enough for a test.
    Small,
    /// As in the table: a call takes up to some milliseconds.
    Full,
    /// A length, for those problems that have one.
    Length(usize),
}

impl Size {
    /// A length.
    pub fn of(self, small: usize, full: usize) -> usize {
        match self {
            Self::Small => small,
            Self::Full => full,
            Self::Length(n) => n,
        }
    }
}

/// Something to measure: a function that returns floats.
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
    /// The hand-written adjoint's symbol. It takes the arguments of the primal and the shadow of
    /// each [`Input::Floats`], with room for one gradient per result, and returns the cotangents of
    /// each [`Input::Active`].
    pub hand: Option<&'static str>,
    /// Whether the hand-written adjoint adds to shadows, which are zeroed before, or overwrites
    /// them.
    pub hand_adds: bool,
    /// Arguments.
    pub args: Vec<Input>,
    /// How often the innermost loop runs, or how many calls or instructions there are.
    pub iterations: usize,
    /// Values and gradient, known from elsewhere: for each result all active and duplicated
    /// arguments in order, flattened.
    pub reference: Reference,
    /// Largest error of an element, relative to the largest element of its argument's gradient.
    pub tolerance: f64,
}

impl Problem {
    /// A problem without a hand-written adjoint: `f` is the primal in Rust, over all floats that
    /// are differentiated.
    pub fn new(
        name: &'static str,
        about: &'static str,
        clif: impl Into<Cow<'static, str>>,
        args: Vec<Input>,
        f: impl FnOnce(&[Var]) -> Vec<Var>,
    ) -> Self {
        let inputs = flat(&args);
        Self {
            name,
            about,
            clif: clif.into(),
            func: name,
            hand: None,
            hand_adds: false,
            args,
            iterations: 1,
            reference: reference(&inputs, f),
            tolerance: 1e-12,
        }
    }

    /// All floats that are differentiated.
    pub fn inputs(&self) -> Vec<f64> {
        flat(&self.args)
    }

    /// All integers: first those by value, then those behind pointers.
    pub fn integers(&self) -> Vec<i64> {
        let by_value = self.args.iter().filter_map(|arg| match arg {
            Input::Int(n) => Some(*n),
            Input::Int32(n) => Some(i64::from(*n)),
            _ => None,
        });
        let arrays = self.args.iter().filter_map(|arg| if let Input::Longs(n) = arg { Some(n) } else { None });
        by_value.chain(arrays.flatten().copied()).collect()
    }

    /// The first element of a gradient that is not as expected. Each argument is compared in its
    /// own largest norm.
    pub fn first_wrong(&self, is: &[f64]) -> Option<usize> {
        let want = &self.reference.gradient;
        if is.len() != want.len() {
            return Some(is.len().min(want.len()));
        }
        let mut at = 0;
        for _ in &self.reference.values {
            for arg in &self.args {
                let n = match arg {
                    Input::Active(_) => 1,
                    Input::Floats(x) | Input::Singles(x) => x.len(),
                    _ => 0,
                };
                let (is, want) = (&is[at..at + n], &want[at..at + n]);
                let scale = want.iter().fold(f64::MIN_POSITIVE, |m, w| m.max(w.abs()));
                // Written so that NaN is wrong.
                let right = |i: &usize| (is[*i] - want[*i]).abs() <= self.tolerance * scale;
                if let Some(i) = (0..n).find(|i| !right(i)) {
                    return Some(at + i);
                }
                at += n;
            }
        }
        None
    }
}

fn flat(args: &[Input]) -> Vec<f64> {
    let mut all = Vec::new();
    for arg in args {
        match arg {
            Input::Active(x) => all.push(*x),
            Input::Floats(x) | Input::Singles(x) => all.extend(x),
            _ => {}
        }
    }
    all
}
