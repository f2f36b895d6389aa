//! Rules of C functions that are known by name, and their table.
//!
//! **Question.** A program calls an imported `sin`, `modf` or `memcpy`, which has no body to
//! derive. What does the call mean for derivatives?
//!
//! **Answer.** [`math_rule`] finds a [`MathRule`] by the symbol. Every float function has two
//! symbols, `sin` and `sinf`, and one row for both; the `f` variant's row calls `f` variants.
//!
//! | [`MathKind`] | such as |
//! |---|---|
//! | a row: partial derivatives of the results | `sin`, `pow`, `ldexp` |
//! | a row, some of whose results are written through pointers | `frexp`, `sincos` |
//! | a function on memory | `memcpy`, `malloc` |
//! | nothing that matters for derivatives | `lround`, `strlen` |
//!
//! Beside C's there are names that derived code calls: special functions, and calls by which a
//! derivative that is derived again keeps account ([`helper_of_account`]).
//!
//! **Invariant.**
//! - A row of a function with pointer parameters never reads a result that went through a pointer:
//!   the place may have been overwritten since.
//! - Every C function that a row calls has a rule too, so rows can be derived again, to any order.
//! - A name has one rule.
//!
//! **Cost.** The table is made once, when it is first asked. A question is one look-up in a sorted
//! map.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};
use std::sync::{Arc, LazyLock};

use crate::expr::E;
use crate::math_fn::MathFn;
use crate::row::{ExprRow, Partial, over, row, times};
use crate::sig::Ty;
use crate::table::{OpcodeRule, opcode_rule};

/// What a known function means for derivatives.
#[derive(Clone, Debug, PartialEq)]
pub struct MathRule {
    /// The name by which it is imported.
    pub symbol: Cow<'static, str>,
    /// Parameters.
    pub params: Vec<Ty>,
    /// Results.
    pub rets: Vec<Ty>,
    /// The rule.
    pub kind: MathKind,
    /// It is called for what it does, not for its results alone.
    pub effects: bool,
}

impl MathRule {
    /// Whether a call does nothing but compute its results, so that it may be left out if they are
    /// not read.
    pub fn only_computes(&self) -> bool {
        match self.kind {
            MathKind::Expr(_) => true,
            MathKind::Inactive => !self.effects,
            MathKind::Memory(f) => f == MemFn::Memcmp,
            MathKind::Writes(..) => false,
        }
    }
}

/// The kinds of rules for known functions.
#[derive(Clone, Debug, PartialEq)]
pub enum MathKind {
    /// A pure function of floats (integer parameters are inactive): operands are the parameters,
    /// results the results.
    Expr(Arc<ExprRow>),
    /// As `Expr`, but some results are written through pointers. The row's results are first the
    /// function's, then one for each entry. The pullback takes the cotangent of such a result out
    /// of the shadow of its place and clears it; for an integer result it only clears. Pointer
    /// parameters have zero partials.
    Writes(Arc<ExprRow>, &'static [OutPtr]),
    /// Allocates, frees, copies or fills memory.
    Memory(MemFn),
    /// Nothing it does matters for derivatives: no float in or out, or a result that is piecewise
    /// constant and an integer. Memory is not written.
    Inactive,
}

/// A result that is written through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutPtr {
    /// Which parameter is the pointer.
    pub param: usize,
    /// What is written.
    pub ty: Ty,
}

/// Functions on memory. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemFn {
    /// `memcpy(to, from, n)`, returns `to`.
    Memcpy,
    /// `memmove(to, from, n)`, returns `to`.
    Memmove,
    /// `memset(to, byte, n)`, returns `to`.
    Memset,
    /// `memcmp(a, b, n)`: reads, and its result has no derivative.
    Memcmp,
    /// `malloc(n)`.
    Malloc,
    /// `calloc(count, n)`.
    Calloc,
    /// `realloc(p, n)`.
    Realloc,
    /// `free(p)`.
    Free,
    /// A block is freed when the run is over: what a derivative that is derived again calls.
    FreeAtEnd,
}

/// What stands before the name by which derived code calls a function of C's, where a program has
/// one of its own of that name.
pub const OF_C: &str = "brolga_c_";

/// The rule for an imported function, if its name is known, with [`OF_C`] before it or not.
pub fn math_rule(symbol: &str) -> Option<&'static MathRule> {
    RULES.get(symbol.strip_prefix(OF_C).unwrap_or(symbol))
}

/// All rules of C functions, in the order of their names.
pub fn math_rules() -> impl Iterator<Item = &'static MathRule> {
    RULES.values().filter(|rule| helper_of_account(&rule.symbol).is_none())
}

static RULES: LazyLock<BTreeMap<&'static str, MathRule>> = LazyLock::new(|| {
    let mut rules = Rules::default();
    elementary(&mut rules);
    rounding(&mut rules);
    choosing(&mut rules);
    special(&mut rules);
    with_integers(&mut rules);
    through_pointers(&mut rules);
    memory(&mut rules);
    inactive(&mut rules);
    accounts(&mut rules);
    rules.0
});

#[derive(Default)]
struct Rules(BTreeMap<&'static str, MathRule>);

impl Rules {
    fn add(&mut self, symbol: &'static str, params: &[Ty], rets: &[Ty], kind: MathKind) {
        // What these write is not memory of the program, or they do not come back.
        let effects =
            matches!(symbol, "puts" | "putchar" | "rand" | "abort" | "exit") || helper_of_account(symbol).is_some();
        let rule = MathRule { symbol: symbol.into(), params: params.to_vec(), rets: rets.to_vec(), kind, effects };
        let before = self.0.insert(symbol, rule);
        assert!(before.is_none(), "two rules for {symbol}");
    }

    /// A function of floats to a float, in both widths.
    fn float(&mut self, symbols: [&'static str; 2], row: &ExprRow) {
        let row = Arc::new(row.clone());
        for (symbol, ty) in symbols.into_iter().zip([Ty::F64, Ty::F32]) {
            self.add(symbol, &vec![ty; row.n_operands()], &[ty], MathKind::Expr(row.clone()));
        }
    }

    /// A function with a signature in terms of the float type, in both widths.
    fn mixed(
        &mut self,
        symbols: [&'static str; 2],
        params: impl Fn(Ty) -> Vec<Ty>,
        rets: impl Fn(Ty) -> Vec<Ty>,
        kind: impl Fn(Ty) -> MathKind,
    ) {
        for (symbol, ty) in symbols.into_iter().zip([Ty::F64, Ty::F32]) {
            self.add(symbol, &params(ty), &rets(ty), kind(ty));
        }
    }
}

/// `def!(rules, "sin", x => z: times(cos(x)))` is the rule for `sin` and `sinf`.
macro_rules! def {
    ($rules:ident, $name:literal, $($row:tt)+) => {
        $rules.float([$name, concat!($name, "f")], row!($($row)+))
    };
}

macro_rules! callable {
    ($($name:ident($($x:ident),+) = $f:ident;)*) => {
        $(fn $name($($x: impl Into<E>),+) -> E { E::math(MathFn::$f, vec![$($x.into()),+]) })*
    };
}
callable! {
    sin(x) = Sin;
    cos(x) = Cos;
    sinh(x) = Sinh;
    cosh(x) = Cosh;
    exp(x) = Exp;
    exp2(x) = Exp2;
    log(x) = Log;
    pow(x, p) = Pow;
    hypot(x, y) = Hypot;
    digamma(x) = Digamma;
    trigamma(x) = Trigamma;
    polygamma(n, x) = Polygamma;
}

const ONE: Partial = Partial::ONE;
const ZERO: Partial = Partial::Zero;

/// The row of a function that is also an instruction.
fn as_opcode(op: cranelift_codegen::ir::Opcode) -> &'static ExprRow {
    match opcode_rule(op) {
        OpcodeRule::Expr(row) => row,
        other => panic!("{op} has no formula but {other:?}"),
    }
}

fn elementary(m: &mut Rules) {
    def!(m, "sin", x => z: times(cos(x)).bounded());
    def!(m, "cos", x => z: -times(sin(x)).bounded());
    def!(m, "tan", x => z: times(1.0 + z * z).bounded());
    def!(m, "asin", x => z: over(one_less_square(x).sqrt()).at_edge());
    def!(m, "acos", x => z: -over(one_less_square(x).sqrt()).at_edge());
    def!(m, "atan", x => z: over(1.0 + x * x).bounded());
    // Of (y, x) in C's order: here x is the first argument. Divided twice by the length, since its
    // square overflows.
    def!(m, "atan2", x, y => z: times(per_square(y, &hypot(x, y))), -times(per_square(x, &hypot(x, y))));
    def!(m, "sinh", x => z: times(cosh(x)));
    def!(m, "cosh", x => z: times(sinh(x)));
    def!(m, "tanh", x => z: times(1.0 - z * z).bounded());
    def!(m, "asinh", x => z: over(hypot(x, 1.0)).bounded());
    def!(m, "acosh", x => z: over((x - 1.0).sqrt() * (x + 1.0).sqrt()).at_edge());
    def!(m, "atanh", x => z: over(one_less_square(x)));

    def!(m, "exp", x => z: times(z));
    def!(m, "exp2", x => z: times(z * LN_2).bounded());
    def!(m, "exp10", x => z: times(z * LN_10));
    // z + 1 has no digits left where z is near -1.
    def!(m, "expm1", x => z: times(exp(x)).bounded());
    def!(m, "log", x => z: over(x));
    def!(m, "log2", x => z: over(x * LN_2));
    def!(m, "log10", x => z: over(x * LN_10));
    def!(m, "log1p", x => z: over(1.0 + x));

    def!(m, "pow", x, y => z: times(slope_of_power(x, y, z)).at_edge(), times(z.eq(0.0).select(0.0, z * log(x))));
    m.float(["sqrt", "sqrtf"], as_opcode(cranelift_codegen::ir::Opcode::Sqrt));
    def!(m, "cbrt", x => z: over(3.0 * (z * z)));
    def!(m, "hypot", x, y => z: times(z.eq(0.0).select(0.0, x / z)).bounded(), times(z.eq(0.0).select(0.0, y / z)).bounded());

    // (x - z)/y is the integer that was subtracted, but for rounding; x/y rounded may be off by
    // one.
    def!(m, "fmod", x, y => z: ONE, -times(((x - z) / y).nearest()));
    def!(m, "remainder", x, y => z: ONE, -times(((x - z) / y).nearest()));
    def!(m, "drem", x, y => z: ONE, -times(((x - z) / y).nearest()));
    m.float(["fma", "fmaf"], as_opcode(cranelift_codegen::ir::Opcode::Fma));
}

/// `1 - x²`. As `(1 - x)(1 + x)` it keeps the digits that a difference loses near ±1, and its slope
/// loses them near 0.
fn one_less_square(x: &E) -> E {
    x.abs().lt(0.5).select(1.0 - x * x, (1.0 - x) * (1.0 + x))
}

/// `p·x^(p-1)`, zero for `p = 0` even where `x^(p-1)` is infinite.
fn power_less_one(x: &E, p: &E) -> E {
    p.eq(0.0).select(0.0, p * pow(x, p - 1.0))
}

/// The same for an exponent that may vary: what it is at `p = 0`, `p·z/x` for the power `z`, has
/// the slopes in `p` that it has there. At `x = 0` that is a guarded quotient: zero, with an
/// infinite slope in `p`, as the other partial has in `x`.
fn slope_of_power(x: &E, p: &E, z: &E) -> E {
    let at_pole = p.eq(0.0).select(0.0, p / x);
    let at_zero = (x.eq(0.0) | x.is_nan()).select(at_pole, p * z / x);
    p.eq(0.0).select(at_zero, p * pow(x, p - 1.0))
}

/// `a/r²`, zero where `r` is zero or infinite.
fn per_square(a: &E, r: &E) -> E {
    (r.eq(0.0) | r.eq(f64::INFINITY)).select(0.0, a / r / r)
}

fn rounding(m: &mut Rules) {
    def!(m, "floor", x => z: ZERO);
    def!(m, "ceil", x => z: ZERO);
    def!(m, "trunc", x => z: ZERO);
    def!(m, "round", x => z: ZERO);
    def!(m, "roundeven", x => z: ZERO);
    def!(m, "rint", x => z: ZERO);
    def!(m, "nearbyint", x => z: ZERO);
    def!(m, "logb", x => z: ZERO);
}

fn choosing(m: &mut Rules) {
    m.float(["fabs", "fabsf"], as_opcode(cranelift_codegen::ir::Opcode::Fabs));
    m.float(["copysign", "copysignf"], as_opcode(cranelift_codegen::ir::Opcode::Fcopysign));
    def!(m, "nextafter", x, y => z: ONE, ZERO);
    // The second operand, with the derivative of the first.
    def!(m, "brolga_with_value", x, v => z: ONE, ZERO);
    def!(m, "fdim", x, y => z: times(slope_of_dim(x, y)), -times(slope_of_dim(x, y)));
    // Unlike the instructions, these pass over a NaN: the other operand is the result.
    def!(m, "fmax", x, y => z: times(share_of_max_num(x, y)), times(share_of_max_num(y, x)));
    def!(m, "fmin", x, y => z: times(share_of_min_num(x, y)), times(share_of_min_num(y, x)));
}

/// ∂x of C's `fdim(x, y)`. Where an operand is NaN the result is that of x - y, and so are the
/// slopes.
fn slope_of_dim(x: &E, y: &E) -> E {
    x.lt(y).select(0.0, x.eq(y).select(0.5, 1.0))
}

/// The share of `x` in C's `fmax(x, y)`.
fn share_of_max_num(x: &E, y: &E) -> E {
    (x.gt(y) | y.is_nan()).select(1.0, x.eq(y).select(0.5, 0.0))
}

/// The share of `x` in C's `fmin(x, y)`.
fn share_of_min_num(x: &E, y: &E) -> E {
    (x.lt(y) | y.is_nan()).select(1.0, x.eq(y).select(0.5, 0.0))
}

fn special(m: &mut Rules) {
    def!(m, "erf", x => z: times(FRAC_2_SQRT_PI * exp(-(x * x))).bounded());
    def!(m, "erfc", x => z: -times(FRAC_2_SQRT_PI * exp(-(x * x))).bounded());
    def!(m, "lgamma", x => z: times(digamma(x)));
    def!(m, "tgamma", x => z: times(z * digamma(x)));
    def!(m, "brolga_digamma", x => z: times(trigamma(x)));
    def!(m, "brolga_trigamma", x => z: times(polygamma(2.0, x)));
    // The order is a whole number.
    def!(m, "brolga_polygamma", n, x => z: ZERO, times(polygamma(n + 1.0, x)));
}

fn with_integers(m: &mut Rules) {
    // 2^n is exact, and so is the product.
    let by_power_of_two = Arc::new(row!(x, n => z: times(exp2(n.int())), ZERO).clone());
    let int = |ty| vec![ty, Ty::I32];
    let long = |ty| vec![ty, Ty::I64];
    let one = |ty| vec![ty];
    m.mixed(["ldexp", "ldexpf"], int, one, |_| MathKind::Expr(by_power_of_two.clone()));
    m.mixed(["scalbn", "scalbnf"], int, one, |_| MathKind::Expr(by_power_of_two.clone()));
    m.mixed(["scalbln", "scalblnf"], long, one, |_| MathKind::Expr(by_power_of_two.clone()));
    // What compilers call for a power with an integer exponent.
    let powi = Arc::new(row!(x, n => z: times(power_less_one(x, &n.int())), ZERO).clone());
    m.mixed(["__powidf2", "__powisf2"], int, one, |_| MathKind::Expr(powi.clone()));
}

fn through_pointers(m: &mut Rules) {
    const INT_AT_1: [OutPtr; 1] = [OutPtr { param: 1, ty: Ty::I32 }];
    const INT_AT_2: [OutPtr; 1] = [OutPtr { param: 2, ty: Ty::I32 }];
    let one = |ty| vec![ty];
    let float_ptr = |ty| vec![ty, Ty::Ptr];

    // z = x·2^-e, so the factor 2^-e is z/x exactly, except for zeros and infinities, which frexp
    // returns unchanged.
    let frexp = Arc::new(row!(x, e => [z, w]: [times((z.eq(x)).select(1.0, z / x)), ZERO], [ZERO, ZERO]).clone());
    m.mixed(["frexp", "frexpf"], float_ptr, one, |_| MathKind::Writes(frexp.clone(), &INT_AT_1));

    let modf = Arc::new(row!(x, i => [z, w]: [ONE, ZERO], [ZERO, ZERO]).clone());
    m.mixed(["modf", "modff"], float_ptr, one, |ty| MathKind::Writes(modf.clone(), out_float_at_1(ty)));

    let sincos = Arc::new(
        row!(x, s, c => [z, w]: [times(cos(x)).bounded(), ZERO, ZERO], [-times(sin(x)).bounded(), ZERO, ZERO]).clone(),
    );
    let no_rets = |_| vec![];
    m.mixed(
        ["sincos", "sincosf"],
        |ty| vec![ty, Ty::Ptr, Ty::Ptr],
        no_rets,
        |ty| MathKind::Writes(sincos.clone(), out_floats_at_1_2(ty)),
    );

    let lgamma = Arc::new(row!(x, s => [z, w]: [times(digamma(x)), ZERO], [ZERO, ZERO]).clone());
    m.mixed(["lgamma_r", "lgammaf_r"], float_ptr, one, |_| MathKind::Writes(lgamma.clone(), &INT_AT_1));

    let remquo =
        Arc::new(row!(x, y, q => [z, w]: [ONE, -times(((x - z) / y).nearest()), ZERO], [ZERO, ZERO, ZERO]).clone());
    m.mixed(["remquo", "remquof"], |ty| vec![ty, ty, Ty::Ptr], one, |_| MathKind::Writes(remquo.clone(), &INT_AT_2));
}

fn out_float_at_1(ty: Ty) -> &'static [OutPtr] {
    &out_floats_at_1_2(ty)[..1]
}

fn out_floats_at_1_2(ty: Ty) -> &'static [OutPtr] {
    const F64: [OutPtr; 2] = [OutPtr { param: 1, ty: Ty::F64 }, OutPtr { param: 2, ty: Ty::F64 }];
    const F32: [OutPtr; 2] = [OutPtr { param: 1, ty: Ty::F32 }, OutPtr { param: 2, ty: Ty::F32 }];
    if ty == Ty::F32 { &F32 } else { &F64 }
}

fn memory(m: &mut Rules) {
    use MathKind::Memory;
    use Ty::{I32, Ptr, Size};
    m.add("memcpy", &[Ptr, Ptr, Size], &[Ptr], Memory(MemFn::Memcpy));
    m.add("memmove", &[Ptr, Ptr, Size], &[Ptr], Memory(MemFn::Memmove));
    m.add("memset", &[Ptr, I32, Size], &[Ptr], Memory(MemFn::Memset));
    m.add("memcmp", &[Ptr, Ptr, Size], &[I32], Memory(MemFn::Memcmp));
    m.add("bcmp", &[Ptr, Ptr, Size], &[I32], Memory(MemFn::Memcmp));
    m.add("malloc", &[Size], &[Ptr], Memory(MemFn::Malloc));
    m.add("calloc", &[Size, Size], &[Ptr], Memory(MemFn::Calloc));
    m.add("realloc", &[Ptr, Size], &[Ptr], Memory(MemFn::Realloc));
    m.add("free", &[Ptr], &[], Memory(MemFn::Free));
    m.add("brolga_free_at_end", &[Ptr], &[], Memory(MemFn::FreeAtEnd));
}

/// The helper of the run time for a call by which a derivative that is derived again keeps account
/// of pieces of floats, or of blocks to be released: the account is that of the run in which it
/// takes part, so the helper has the segment as its first argument.
pub fn helper_of_account(symbol: &str) -> Option<&'static str> {
    Some(match symbol.strip_prefix("brolga_account_")? {
        "note" => "brolga_tangent_note",
        "note_word" => "brolga_tangent_note_word",
        "mark" => "brolga_tangent_mark",
        "clean" => "brolga_tangent_clean",
        "unsettled" => "brolga_tangent_unsettled",
        "number" => "brolga_expect_number",
        "digits" => "brolga_tangent_digits",
        "digits_at" => "brolga_tangent_digits_at",
        "zeroed" => "brolga_tangent_zeroed",
        "copied" => "brolga_tangent_copied",
        "release" => "brolga_release",
        "released" => "brolga_released",
        _ => return None,
    })
}

fn accounts(m: &mut Rules) {
    use MathKind::Inactive;
    use Ty::{I32, I64};
    m.add("brolga_account_note", &[I64; 3], &[], Inactive);
    m.add("brolga_account_note_word", &[I64; 2], &[], Inactive);
    m.add("brolga_account_mark", &[I64; 3], &[], Inactive);
    m.add("brolga_account_clean", &[I64; 3], &[], Inactive);
    m.add("brolga_account_unsettled", &[I64; 4], &[I64], Inactive);
    m.add("brolga_account_number", &[I64; 2], &[I64], Inactive);
    m.add("brolga_account_digits", &[I64; 3], &[I64], Inactive);
    m.add("brolga_account_digits_at", &[I64; 3], &[I64], Inactive);
    m.add("brolga_account_zeroed", &[I64; 3], &[], Inactive);
    m.add("brolga_account_copied", &[I64; 5], &[], Inactive);
    m.add("brolga_account_release", &[I64, I32], &[], Inactive);
    m.add("brolga_account_released", &[], &[I64, I32], Inactive);
}

fn inactive(m: &mut Rules) {
    use MathKind::Inactive;
    use Ty::{F32, F64, I32, I64, Ptr, Size};
    for (f64_name, f32_name, ret) in [
        ("lrint", "lrintf", I64),
        ("llrint", "llrintf", I64),
        ("lround", "lroundf", I64),
        ("llround", "llroundf", I64),
        ("ilogb", "ilogbf", I32),
        ("__fpclassify", "__fpclassifyf", I32),
        ("__signbit", "__signbitf", I32),
        ("__isnan", "__isnanf", I32),
        ("__isinf", "__isinff", I32),
        ("__finite", "__finitef", I32),
    ] {
        m.add(f64_name, &[F64], &[ret], Inactive);
        m.add(f32_name, &[F32], &[ret], Inactive);
    }
    m.add("abs", &[I32], &[I32], Inactive);
    m.add("labs", &[I64], &[I64], Inactive);
    m.add("llabs", &[I64], &[I64], Inactive);
    m.add("strlen", &[Ptr], &[Size], Inactive);
    m.add("strcmp", &[Ptr, Ptr], &[I32], Inactive);
    m.add("puts", &[Ptr], &[I32], Inactive);
    m.add("putchar", &[I32], &[I32], Inactive);
    m.add("rand", &[], &[I32], Inactive);
    m.add("abort", &[], &[], Inactive);
    m.add("exit", &[I32], &[], Inactive);
}
