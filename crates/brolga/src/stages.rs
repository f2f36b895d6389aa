//! Stages of the pipeline as text, and the two derived graphs as a DOT drawing.
//!
//! **Question.** What has the pipeline made of a function, stage by stage?
//!
//! **Answer.** A dump ([`dump`], [`dumps`]) shows the function that was asked for first, then every
//! other variant that was derived for it, each under a header that names the function and the modes
//! of its parameters and results. `normalised`, `clif-forward` and `clif-pullback` are CLIF text
//! that can be parsed and verified again; the other stages are for people. [`dot`] draws forward
//! and pullback graphs side by side.
//!
//! Source locations are left out of CLIF text: they number the input's instructions, and the
//! `forward` and `pullback` stages show the instructions themselves.
//!
//! **Errors.** [`Error::Diagnostics`] with every problem of the program as asked.
//!
//! **Cost.** One derivation for each mode in which a stage that is asked for exists. Nothing is
//! compiled.

mod plan;
mod stmts;

use std::fmt::Write;

use brolga_analysis::{ParamMode, ResultMode, Variant};
use brolga_ir::dot::{Drawing, Pair};
use brolga_ir::request::Elem;
use brolga_ir::{ArgActivity, Mode, Options, Program, Request};
use brolga_transform::{DerivedVariant, Stages, derive_with};
use cranelift_codegen::ir;

use crate::Error;
use crate::jit::host_isa;

/// A stage of the pipeline.
///
/// ```
/// use brolga::Stage;
/// let asked = Stage::ALL.into_iter().find(|stage| stage.name() == "tangent");
/// assert_eq!(asked, Some(Stage::Tangent));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The primal after normalisation.
    Normalised,
    /// The primal as a block graph with stable ids.
    Cfg,
    /// What each statement becomes: forward fragment, reverse fragment, what is communicated.
    Stmts,
    /// The forward graph, under the plan of what is recorded and why.
    Forward,
    /// The pullback graph.
    Pullback,
    /// The forward pass as CLIF.
    ClifForward,
    /// The pullback as CLIF.
    ClifPullback,
    /// Both halves in one graph, under the plan.
    Combined,
    /// The combined function as CLIF.
    ClifCombined,
    /// The graph of forward mode.
    Tangent,
    /// The function of forward mode as CLIF.
    ClifTangent,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 11] = [
        Stage::Normalised,
        Stage::Cfg,
        Stage::Stmts,
        Stage::Forward,
        Stage::Pullback,
        Stage::ClifForward,
        Stage::ClifPullback,
        Stage::Combined,
        Stage::ClifCombined,
        Stage::Tangent,
        Stage::ClifTangent,
    ];

    /// Name on the command line.
    ///
    /// ```
    /// assert_eq!(brolga::Stage::ClifPullback.name(), "clif-pullback");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Stage::Normalised => "normalised",
            Stage::Cfg => "cfg",
            Stage::Stmts => "stmts",
            Stage::Forward => "forward",
            Stage::Pullback => "pullback",
            Stage::ClifForward => "clif-forward",
            Stage::ClifPullback => "clif-pullback",
            Stage::Combined => "combined",
            Stage::ClifCombined => "clif-combined",
            Stage::Tangent => "tangent",
            Stage::ClifTangent => "clif-tangent",
        }
    }

    /// The mode in which this stage exists.
    fn mode(self, asked: Mode) -> Mode {
        match (self, asked) {
            (Stage::Combined | Stage::ClifCombined, Mode::Split) => Mode::Combined,
            (Stage::Forward | Stage::Pullback | Stage::ClifForward | Stage::ClifPullback, _) => Mode::Split,
            (Stage::Tangent | Stage::ClifTangent, _) => Mode::Tangent,
            (_, asked) => asked,
        }
    }
}

/// One stage of the derivative of `request.func` and of everything that it calls, as text.
///
/// ```
/// # use brolga::{ArgSpec, Elem, Options, Request, Stage, dot, dump};
/// # use brolga::{Program, FuncKey};
/// # fn program() -> (Program, FuncKey) {
/// #     let text = "function %f(i64, f64) -> f64 {
/// #         block0(v0: i64, v1: f64):
/// #             v2 = load.f64 v0
/// #             v3 = fmul v2, v2
/// #             v4 = fmul v3, v1
/// #             return v4
/// #     }";
/// #     let mut program = Program::new();
/// #     let f = cranelift_reader::parse_functions(text).unwrap().remove(0);
/// #     let key = program.define("f", f, |_| 0).unwrap();
/// #     (program, key)
/// # }
/// let (program, f) = program(); // double f(const double *x, double a) { return a * x[0] * x[0]; }
/// let request = Request::new(f, [ArgSpec::duplicated(Elem::F64), ArgSpec::CONST]);
/// for stage in Stage::ALL {
///     assert!(dump(&program, &request, &Options::default(), stage)?.contains("%f"), "{}", stage.name());
/// }
/// assert!(dot(&program, &request, &Options::default())?.starts_with("digraph"));
/// # Ok::<(), brolga::Error>(())
/// ```
///
/// # Errors
/// [`Error::Diagnostics`] with every problem of the program as asked.
pub fn dump(program: &Program, request: &Request, options: &Options, stage: Stage) -> Result<String, Error> {
    Ok(dumps(program, request, options, &[stage])?.swap_remove(0))
}

/// Several stages, as [`dump`] prints each: those of one mode are of one derivation.
///
/// ```
/// # use brolga::{ArgSpec, Options, Request, Stage, dumps};
/// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # let mut program = brolga::Program::new();
/// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// let request = Request::new(square, [ArgSpec::ACTIVE]);
/// let clif = dumps(&program, &request, &Options::default(), &[Stage::ClifForward, Stage::ClifPullback])?;
/// assert!(clif.iter().all(|text| cranelift_reader::parse_functions(text).is_ok_and(|all| all.len() == 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`dump`].
pub fn dumps(program: &Program, request: &Request, options: &Options, stages: &[Stage]) -> Result<Vec<String>, Error> {
    let mut out = vec![String::new(); stages.len()];
    let of = |stage: &Stage| stage.mode(options.mode);
    let mut modes: Vec<Mode> = Vec::new();
    for mode in stages.iter().map(of) {
        if modes.contains(&mode) {
            continue;
        }
        modes.push(mode);
        each_variant(program, request, &Options { mode, ..options.clone() }, |s| {
            for (&stage, out) in stages.iter().zip(&mut out).filter(|p| of(p.0) == mode) {
                add(out, s, stage);
            }
        })?;
    }
    Ok(out)
}

/// A variant joins what is printed of a stage.
fn add(out: &mut String, s: &Stages<'_>, stage: Stage) {
    let is_combined = matches!(s.emitted, DerivedVariant::Combined(_));
    if matches!(stage, Stage::Combined | Stage::ClifCombined) && !is_combined && !s.serves {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    write!(out, "; {}\n\n{}", header(s), text(s, stage)).expect("writing to a string does not fail");
}

/// Forward and pullback graphs as two DOT clusters for each variant, each reverse block tied to its
/// forward block.
///
/// ```
/// # use brolga::{ArgSpec, Options, Request, dot};
/// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # let mut program = brolga::Program::new();
/// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// let drawing = dot(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
/// assert!(drawing.starts_with("digraph") && drawing.trim_end().ends_with('}'));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`dump`].
pub fn dot(program: &Program, request: &Request, options: &Options) -> Result<String, Error> {
    let options = &Options { mode: Mode::Split, ..options.clone() };
    let mut drawing = Drawing::new(&format!("%{}", program.funcs[request.func].symbol));
    each_variant(program, request, options, |s| {
        drawing.add(&Pair { primal: s.facts.func(), forward: &s.forward, pullback: &s.pullback });
    })?;
    Ok(drawing.finish())
}

fn each_variant(
    program: &Program,
    request: &Request,
    options: &Options,
    look: impl FnMut(&Stages<'_>),
) -> Result<(), Error> {
    let isa = host_isa(options)?;
    derive_with(program, request, options, &*isa, look)?;
    Ok(())
}

fn text(s: &Stages<'_>, stage: Stage) -> String {
    let primal = s.facts.func();
    match stage {
        Stage::Normalised => clif(primal),
        Stage::Cfg => s.lifted.display(primal).with_ids().to_string(),
        Stage::Stmts => stmts::text(s),
        Stage::Combined if matches!(s.emitted, DerivedVariant::Pair(_)) => {
            [Stage::Forward, Stage::Pullback].map(|stage| text(s, stage)).join("\n")
        }
        Stage::ClifCombined if matches!(s.emitted, DerivedVariant::Pair(_)) => {
            [Stage::ClifForward, Stage::ClifPullback].map(|stage| text(s, stage)).join("\n")
        }
        Stage::Forward | Stage::Combined => format!("{}\n{}", plan::comments(s), s.forward.display(primal)),
        Stage::Tangent => s.forward.display(primal).to_string(),
        Stage::Pullback => s.pullback.display(primal).to_string(),
        Stage::ClifForward | Stage::ClifPullback | Stage::ClifCombined | Stage::ClifTangent => match &s.emitted {
            DerivedVariant::Pair(p) if stage == Stage::ClifPullback => clif(&p.pullback),
            DerivedVariant::Pair(p) => clif(&p.forward),
            DerivedVariant::Combined(w) => clif(&w.func),
        },
    }
}

/// CLIF text without source locations and value aliases.
fn clif(func: &ir::Function) -> String {
    let mut func = func.clone();
    func.dfg.resolve_all_aliases();
    func.srclocs.clear();
    func.display().to_string()
}

/// What was derived: `%f (f64 active, i64 const) -> (f64 active)`.
fn header(s: &Stages<'_>) -> String {
    let sig = &s.facts.func().signature;
    let Variant { func, params, results, .. } = s.facts.variant;
    let params: Vec<String> =
        sig.params.iter().zip(params).map(|(p, m)| format!("{} {}", p.value_type, param_mode(*m))).collect();
    let results: Vec<String> =
        sig.returns.iter().zip(results).map(|(r, m)| format!("{} {}", r.value_type, result_mode(*m))).collect();
    let symbol = &s.facts.program.funcs[*func].symbol;
    let serves = if s.serves { "; what is asked for only calls this" } else { "" };
    format!("%{symbol} ({}) -> ({}){serves}", params.join(", "), results.join(", "))
}

fn param_mode(m: ParamMode) -> String {
    match m {
        ParamMode::Const => word(ArgActivity::Const).to_owned(),
        ParamMode::Active => word(ArgActivity::Active).to_owned(),
        ParamMode::Dup { sure, holds, recycled, floats, bits: _ } => {
            let holds = match holds.to_elem() {
                Some(Elem::F64) => " of f64",
                Some(Elem::F32) => " of f32",
                Some(Elem::Pointer) => " of pointers",
                Some(Elem::Int) => " of integers",
                None if holds.has_float() => " of floats of both sizes",
                None => "",
            };
            let sure = if sure { "" } else { " or without shadow" };
            let recycled = if recycled { ", held pointers" } else { "" };
            let floats = if floats { ", holds floats" } else { "" };
            format!("{}{sure}{holds}{recycled}{floats}", word(ArgActivity::Duplicated))
        }
        ParamMode::Bits { shape, definite: true } => format!("bits of {shape}"),
        ParamMode::Bits { shape, definite: false } => format!("perhaps bits of {shape}"),
        ParamMode::Opaque { .. } => "opaque".to_owned(),
    }
}

fn result_mode(m: ResultMode) -> String {
    match m {
        ResultMode::None => word(ArgActivity::Const).to_owned(),
        ResultMode::Active => word(ArgActivity::Active).to_owned(),
        ResultMode::Unit => format!("{}, cotangent one", word(ArgActivity::Active)),
        ResultMode::Ptr => "pointer with delta".to_owned(),
        ResultMode::Bits(shape) => format!("bits of {shape}"),
    }
}

/// Activities in the words of the command line.
fn word(a: ArgActivity) -> &'static str {
    match a {
        ArgActivity::Const => "const",
        ArgActivity::Active => "active",
        ArgActivity::Duplicated => "duplicated",
    }
}
