//! Request validation: whether a request fits the function that it asks for.
//!
//! **Question.** Does a request fit the function that it asks for?
//!
//! **Answer.** Everything else relies on it: one activity for each parameter, and only such as its
//! type can have. All that does not fit is told at once.
//!
//! **Cost.** A look at each parameter and result.

use brolga_ir::options::WIDTHS;
use brolga_ir::{ArgActivity, Diagnostic, Diagnostics, MemoryMode, Mode, Options, Program, Request, ResultActivity};
use cranelift_codegen::ir::types;

use crate::batch::{BY_NAME, ONE_BY_ONE};

/// Check the width of a batch, and what there is no batch of.
pub fn check_width(options: &Options) -> Result<(), Diagnostics> {
    let width = options.width;
    let (wrong, help) = match () {
        () if !WIDTHS.contains(&width) => {
            let (first, last) = (WIDTHS.start(), WIDTHS.end());
            (
                format!("a run of {width} derivatives"),
                format!("a width is one of {first} to {last}; for more, run it several times"),
            )
        }
        () if options.taylor && options.mode != Mode::Tangent => {
            ("Taylor coefficients in another mode than forward mode".to_owned(), "`Mode::Tangent`".to_owned())
        }
        () if options.taylor && width > 1 && options.debug => {
            ("a debug run of Taylor coefficients".to_owned(), "leave out `Options::debug`".to_owned())
        }
        () if options.taylor && width > 1 && options.tape.is_standalone() => {
            ("a function of Taylor coefficients in another module".to_owned(), BY_NAME.to_owned())
        }
        () if width == 1 => return Ok(()),
        () if options.tape.is_standalone() => {
            ("a function of several derivatives in another module".to_owned(), ONE_BY_ONE.to_owned())
        }
        () if !matches!(options.mode, Mode::Tangent | Mode::Split) => {
            ("several seeds for a function of both halves".to_owned(), "`Mode::Split`, or a width of 1".to_owned())
        }
        () if options.memory == MemoryMode::Restore && options.mode == Mode::Split => {
            ("several seeds where memory is restored".to_owned(), "`MemoryMode::Leave`, or a width of 1".to_owned())
        }
        () if options.debug => {
            ("a debug run of several derivatives".to_owned(), "a debug run has a width of 1".to_owned())
        }
        () => return Ok(()),
    };
    Err(Diagnostic::new("AD0180", wrong).help(help).into())
}

/// Check a request against its function.
pub fn check(program: &Program, request: &Request) -> Result<(), Diagnostics> {
    let f = &program.funcs[request.func];
    let mut found = Diagnostics::default();
    let mut wrong = |message: String, help: &str| {
        found.push(Diagnostic::new("AD0010", message).in_func(&f.symbol).help(help));
    };
    if f.body.is_none() {
        wrong(format!("%{} is imported: there is no body to differentiate", f.symbol), "define it in the program");
    }
    let n = f.signature.params.len();
    if request.args.len() != n {
        wrong(
            match (request.args.len(), if n == 1 { "" } else { "s" }) {
                (1, s) => format!("%{} has {n} parameter{s}, but 1 activity is given", f.symbol),
                (given, s) => format!("%{} has {n} parameter{s}, but {given} activities are given", f.symbol),
            },
            "give one activity for each parameter",
        );
    }
    for (i, (a, p)) in request.args.iter().zip(&f.signature.params).enumerate() {
        let ty = p.value_type;
        match a.activity {
            // Refused with the reason when the function is normalised.
            ArgActivity::Active if ty.lane_type() == types::F16 || ty.lane_type() == types::F128 => {}
            ArgActivity::Active if brolga_ir::inst::Shape::of_float(ty).is_none() => wrong(
                format!("argument {i} of %{} is active, but its type is {ty}", f.symbol),
                "only f32, f64 and their 128-bit vectors can be active; a pointer is `duplicated`",
            ),
            ArgActivity::Duplicated if ty != types::I64 => wrong(
                format!("argument {i} of %{} is duplicated, but its type is {ty}", f.symbol),
                "only 64-bit pointers can be duplicated; a float is `active`",
            ),
            _ => {}
        }
    }
    let returns = &f.signature.returns;
    if request.results.len() > returns.len() {
        wrong(
            format!("%{} has {} results, but {} activities are given", f.symbol, returns.len(), request.results.len()),
            "give one activity for each result, or none",
        );
    }
    for (i, (a, r)) in request.results.iter().zip(returns).enumerate() {
        if *a == ResultActivity::Duplicated && r.value_type != types::I64 {
            wrong(
                format!("result {i} of %{} is duplicated, but its type is {}", f.symbol, r.value_type),
                "only 64-bit pointers can be duplicated; a float is `active`",
            );
        }
        if *a == ResultActivity::Unit && !(r.value_type == types::F32 || r.value_type == types::F64) {
            wrong(
                format!("result {i} of %{} is a unit, but its type is {}", f.symbol, r.value_type),
                "only f32 and f64 have a one; leave it active, and pass a seed",
            );
        }
    }
    found.or_ok(())
}
