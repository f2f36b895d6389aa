//! Whether a derivative of a module's function is right.
//!
//! **Question.** The engine may be right, may refuse, or may trap where a cotangent reaches what it
//! does not follow. Which of it is a find?
//!
//! **Answer.** Value and gradient are compared with what [`super::dual`] says, and with the tape
//! oracle where that is not certain. A refusal counts where the program does not calculate with
//! bits.
//!
//! **Cost.** A derivation, a run of the gradient, and sometimes one of the oracle.

use std::fmt;

use brolga_ir::panics;
use brolga_oracle::{BufferRef, Elem, Limits, Oracle, OracleArg};
use brolga_wasm::brolga::cranelift_codegen::data_value::DataValue;
use brolga_wasm::brolga::{Effort, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity, options};

use super::case::Case;
use super::program::{Float, INPUTS, LENGTH};

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub enum BitsVerdict {
    /// The gradient is right.
    Right,
    /// The engine says that it cannot, with this code.
    Refused(String),
    /// The pullback says that a cotangent reaches what cannot be followed.
    Trapped,
    /// Neither the reference nor the tape says for certain what is right.
    Unsure(String),
    /// Something is wrong: a class and details.
    Wrong(String, String),
}

/// A verdict with what it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The level of optimisation.
    pub level: &'static str,
    /// Whether the program calculates with bits. One that does not should not be refused.
    pub calculates: bool,
    /// The verdict.
    pub verdict: BitsVerdict,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (level, manner) = (self.level, if self.calculates { "" } else { " without calculations" });
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match &self.verdict {
            BitsVerdict::Right => write!(f, "{level} right"),
            BitsVerdict::Refused(code) => write!(f, "{level} refused{manner} {code}"),
            BitsVerdict::Trapped => write!(f, "{level} trapped{manner}"),
            BitsVerdict::Unsure(why) => write!(f, "{level} unsure\t{}", line(why)),
            BitsVerdict::Wrong(class, detail) => write!(f, "wrong {class} {level}\t{}", line(detail)),
        }
    }
}

/// Judge a function of a module.
pub fn judge(module: &Module, case: &Case) -> Judgement {
    let verdict = match panics::catch(|| try_judge(module, case)) {
        Ok(Ok(()) | Err(BitsVerdict::Right)) => BitsVerdict::Right,
        Ok(Err(verdict)) => verdict,
        Err(panic) => BitsVerdict::Wrong(format!("panic {}", template(&panic)), panic),
    };
    Judgement { level: case.level.name(), calculates: case.calculates, verdict }
}

/// The words of a message: numbers differ from program to program.
pub fn template(message: &str) -> String {
    let words = message.split_whitespace().filter(|w| w.chars().all(|c| c.is_ascii_alphabetic() || ":,".contains(c)));
    words.take(10).collect::<Vec<_>>().join(" ")
}

fn wrong(class: &str, detail: String) -> BitsVerdict {
    BitsVerdict::Wrong(class.to_owned(), detail)
}

/// What an error means.
fn ended(error: &Error) -> BitsVerdict {
    match error {
        Error::Trap(t) if t.code == "untracked_bits" => BitsVerdict::Trapped,
        Error::Trap(t) => wrong(&format!("trap {}", t.code), error.to_string()),
        Error::Diagnostics(all) if all.0.iter().all(|d| d.code.starts_with("AD01")) => {
            BitsVerdict::Refused(all.0.first().map_or("", |d| d.code).to_owned())
        }
        Error::Diagnostics(all) => wrong(all.0.first().map_or("", |d| d.code), error.to_string()),
        other => wrong("error", other.to_string()),
    }
}

/// An instance with the caller's arrays, and the arguments.
fn place(module: &Module, case: &Case) -> Result<(Instance, Vec<Val>, [u32; 2]), Error> {
    let mut instance = Instance::new(module)?;
    let mut at = [0; 2];
    for (a, at) in at.iter_mut().enumerate() {
        let from = 3 + LENGTH * a;
        let (x, s) = (&case.inputs[from..from + LENGTH], &case.shadows[from..from + LENGTH]);
        if case.floats[a] == Float::Double {
            *at = instance.alloc_f64(x)?;
            instance.set_shadow_f64(*at, s)?;
        } else {
            let single = |all: &[f64]| all.iter().map(|x| *x as f32).collect::<Vec<_>>();
            *at = instance.alloc_f32(&single(x))?;
            instance.set_shadow_f32(*at, &single(s))?;
        }
    }
    let float = |k: usize| val(case.float(k), case.inputs[k]);
    let [p, q] = at.map(|a| Val::I32(a as i32));
    let args = vec![float(0), float(1), float(2), Val::I32(case.state as i32), Val::I32(LENGTH as i32), p, q];
    Ok((instance, args, at))
}

fn val(float: Float, x: f64) -> Val {
    if float == Float::Double { Val::F64(x) } else { Val::F32(x as f32) }
}

fn number(v: Option<&Val>) -> f64 {
    match v {
        Some(Val::F64(x)) => *x,
        Some(Val::F32(x)) => f64::from(*x),
        _ => f64::NAN,
    }
}

/// Cotangents of the inputs.
fn collect(instance: &Instance, case: &Case, at: [u32; 2], found: &[Option<Val>]) -> Result<[f64; INPUTS], Error> {
    let mut out = [0.0; INPUTS];
    for (k, x) in out.iter_mut().take(3).enumerate() {
        *x = number(found.get(k).and_then(Option::as_ref));
    }
    for a in 0..2 {
        let shadow = if case.floats[a] == Float::Double {
            instance.shadow_f64(at[a], LENGTH)?
        } else {
            instance.shadow_f32(at[a], LENGTH)?.into_iter().map(f64::from).collect()
        };
        out[3 + LENGTH * a..][..LENGTH].copy_from_slice(&shadow);
    }
    Ok(out)
}

fn try_judge(module: &Module, case: &Case) -> Result<(), BitsVerdict> {
    let (mut instance, args, _) = place(module, case).map_err(|e| ended(&e))?;
    let value = instance.call(&case.name, &args).map_err(|e| ended(&e))?;
    let value = number(value.first());
    let single = case.floats.contains(&Float::Single);
    let (tol, right) = (if single { 1e-4 } else { 1e-9 }, &case.right);
    if right.unsure.is_none() && (value - right.value).abs() > 1e-3 * tol * (1.0 + right.value.abs()) {
        return Err(wrong("value", format!("the function returns {value:?}, by its definition {:?}", right.value)));
    }
    let tape = tape(module, case);
    let apart = |a: &[f64; INPUTS], b: &[f64; INPUTS]| {
        let scale = b.iter().fold(1.0, |m: f64, x| m.max(x.abs())).max(1e-3 * right.largest);
        a.iter().zip(b).any(|(a, b)| !(a == b || (a - b).abs() <= tol * scale || a.is_nan() && b.is_nan()))
    };
    if right.unsure.is_none()
        && let Ok(tape) = &tape
        && apart(tape, &right.gradient)
    {
        return Err(wrong("tape", format!("the tape says {tape:?}, right is {:?}", right.gradient)));
    }
    let expected = match (&tape, right.unsure) {
        (_, None) => &right.gradient,
        (Ok(tape), _) => tape,
        (Err(e), Some(why)) => return Err(BitsVerdict::Unsure(format!("{why}; {e}"))),
    };
    let runs = [
        ("quick", Effort::Quick, Mode::Combined),
        ("full", Effort::Full, Mode::Combined),
        ("split", Effort::Full, Mode::Split),
    ];
    let mut first = None;
    for (what, effort, mode) in runs {
        let found = match gradients(module, case, effort, mode) {
            Ok(found) => found,
            Err(e) => {
                let verdict = ended(&e);
                if matches!(verdict, BitsVerdict::Wrong(..)) {
                    return Err(verdict);
                }
                first.get_or_insert(verdict);
                continue;
            }
        };
        for found in found {
            if apart(&found, expected) {
                let silent = found.iter().zip(expected).all(|(a, b)| a == b || *a == 0.0);
                let class = if silent { "zero" } else { "gradient" };
                return Err(wrong(class, format!("{what}: {found:?}, right is {expected:?}; tape {tape:?}")));
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// The gradient of two runs, or of one and of its pullback called again.
fn gradients(module: &Module, case: &Case, effort: Effort, mode: Mode) -> Result<Vec<[f64; INPUTS]>, Error> {
    let (_, ty) = module.function(&case.name)?;
    let activity: Vec<_> = ty.params().iter().map(|t| default_activity(*t)).collect();
    let gradient = Gradient::with_options(module, &case.name, &activity, &Options { mode, effort, ..options() })?;
    let seed = [val(case.floats[0], 1.0)];
    let mut out = Vec::new();
    if mode == Mode::Split {
        let (mut instance, args, at) = place(module, case)?;
        let (_, mut pullback) = instance.forward(&gradient, &args)?;
        let before = instance.shadow().to_vec();
        for _ in 0..2 {
            instance.shadow_mut().copy_from_slice(&before);
            let found = instance.pullback(&mut pullback, &seed)?;
            out.push(collect(&instance, case, at, &found)?);
        }
    } else {
        for _ in 0..2 {
            let (mut instance, args, at) = place(module, case)?;
            let found = instance.gradient(&gradient, &args, &seed)?;
            out.push(collect(&instance, case, at, &found.cotangents)?);
        }
    }
    Ok(out)
}

/// What the tape says.
fn tape(module: &Module, case: &Case) -> Result<[f64; INPUTS], String> {
    let text = |e: Error| e.to_string();
    let (instance, values, at) = place(module, case).map_err(text)?;
    let (func, _) = module.function(&case.name).map_err(text)?;
    let limits = Limits { fuel: 1_000_000, depth: 100, nodes: 1_000_000 };
    let mut oracle = Oracle::new(module.program()).limits(limits);
    let mut args = vec![OracleArg::constant(DataValue::I64(instance.vmctx() as i64))];
    for v in values {
        args.push(match v {
            Val::F32(_) | Val::F64(_) => OracleArg::active(v.to_data()),
            _ => OracleArg::constant(v.to_data()),
        });
    }
    for (a, &first) in at.iter().enumerate().take(2) {
        let elem = if case.floats[a] == Float::Double { Elem::F64 } else { Elem::F32 };
        let addr = instance.vmctx() as usize + first as usize;
        let buffer = BufferRef { addr, len_bytes: elem.width() * LENGTH, elem };
        oracle = oracle.extra_buffer(buffer, Some(case.shadows[3 + LENGTH * a..][..LENGTH].to_vec()));
    }
    // SAFETY: the program runs in the memory of an instance that lives until the end.
    let done =
        unsafe { oracle.gradient(func, &args, &[val(case.floats[0], 1.0).to_data()]) }.map_err(|e| e.to_string())?;
    let mut out = [0.0; INPUTS];
    for (k, x) in out.iter_mut().take(3).enumerate() {
        *x = done.arg_lanes[1 + k].as_ref().and_then(|l| l.first()).copied().unwrap_or(f64::NAN);
    }
    for a in 0..2 {
        out[3 + LENGTH * a..][..LENGTH].copy_from_slice(&done.extra_shadows[a]);
    }
    Ok(out)
}
