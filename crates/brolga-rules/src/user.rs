//! User rules: what a user says of the derivative of a function that is called by name.
//!
//! **Question.** What does a call of `%sigmoid` mean for derivatives, where the user says so?
//!
//! **Answer.** The same as a rule of the table: [`UserRule::for_function`] makes a [`MathRule`] of
//! it. It is found before a body of the function, and before a rule of the table. It belongs to the
//! program that it is given to: two programs may have different rules for one name.
//!
//! ```text
//! sigmoid:  x => z: z*(1 - z)                    a row: ∂z/∂x, by operands and the result
//! gauss:    x, s => z: -z*x/(s*s), z*x*x/(s*s*s)
//! log_it:   inactive
//! mysin:    tangent mysin__tangent(x, dx)        calls %mysin__tangent(x, 1.0)
//! interp:   tangent interp__tangent(c0, c1, x, dx)
//! ```
//!
//! An adjoint ([`crate::adjoint`]) is another kind of rule: calls are derived by it.
//!
//! A tangent is linear in the tangents that it is given, so with one of them one and the others
//! zero it is a partial derivative. That serves both modes, and calls the function once for each
//! active operand.
//!
//! **Trust.** Functions that rules name are pure, and a row is what [`check`](mod@crate::check) can
//! hold it to.
//!
//! **Errors.** [`UserRule::parse`] says at which byte the text is wrong and what is wanted there
//! ([`RuleError`]); [`parse_rules`] adds the line. [`UserRule::for_function`] says where a rule
//! does not fit the function's signature.
//!
//! **Cost.** Parsing is by recursive descent, linear in the text; a rule has at most a thousand
//! factors, since formulas are walked by recursion. A rule costs a run what its formula computes,
//! or one call for each active operand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::adjoint::{AdjointArg, AdjointCall, AdjointRule};
use crate::expr::{CallArg, E, PureCall};
use crate::libm::{MathKind, MathRule};
use crate::math_fn::MathFn;
use crate::row::{ExprRow, Partial, times};
use crate::sig::Ty;

/// What a user says of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum UserRule {
    /// Nothing it does matters for derivatives. Its results are constants, and it writes no memory
    /// that the program reads. It is called as often as the primal calls it.
    Inactive,
    /// A pure function of floats, by its partial derivatives.
    Row(ExprRow),
    /// A pure function of floats, by a function that computes its tangent.
    Tangent {
        /// That function.
        symbol: String,
        /// Its arguments.
        args: Vec<TangentArg>,
    },
    /// A function with memory, or of which nothing is known, by functions that do its reverse.
    Adjoint(AdjointRule),
}

/// An argument of a function that computes a tangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TangentArg {
    /// A parameter of the primal, whatever its type.
    Primal(usize),
    /// The tangent of a float parameter.
    Tangent(usize),
}

/// What is wrong with the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Where, in bytes from the start of the text.
    pub at: usize,
    /// What, and what is wanted instead.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.at)
    }
}

impl std::error::Error for RuleError {}

impl UserRule {
    /// A tangent with the arguments `x0, ẋ0, x1, ẋ1, …` of a function of `n` floats.
    pub fn tangent(symbol: &str, n: usize) -> Self {
        let args = (0..n).flat_map(|i| [TangentArg::Primal(i), TangentArg::Tangent(i)]).collect();
        Self::Tangent { symbol: symbol.to_owned(), args }
    }

    /// Read a rule, as the module's documentation has them, without the name in front.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut p = Parser { text, at: 0, operands: vec![], results: vec![], factors: 0 };
        let found = p.rule()?;
        p.space();
        if p.at < text.len() { Err(p.error("nothing follows a rule")) } else { Ok(found) }
    }

    /// Names of functions that it calls, but for those of C.
    pub fn symbols(&self) -> Vec<&str> {
        match self {
            Self::Inactive => vec![],
            Self::Row(row) => row.partials().flat_map(|(_, _, p)| p.called()).map(|c| c.symbol.as_str()).collect(),
            Self::Tangent { symbol, .. } => vec![symbol],
            Self::Adjoint(rule) => rule.calls().map(|c| c.symbol.as_str()).collect(),
        }
    }

    /// The rule for the function `symbol` with these parameters and results.
    ///
    /// # Errors
    /// If the rule does not fit them, or is an adjoint ([`AdjointRule::fits`]).
    pub fn for_function(&self, symbol: &str, params: &[Ty], rets: &[Ty]) -> Result<MathRule, String> {
        Ok(MathRule {
            symbol: symbol.to_owned().into(),
            params: params.to_vec(),
            rets: rets.to_vec(),
            kind: self.kind(symbol, params, rets)?,
            effects: *self == Self::Inactive,
        })
    }

    fn kind(&self, symbol: &str, params: &[Ty], rets: &[Ty]) -> Result<MathKind, String> {
        let row = match self {
            Self::Inactive => return Ok(MathKind::Inactive),
            Self::Row(row) => row.clone(),
            Self::Tangent { symbol, args } => of_tangent(symbol, args, params)?,
            Self::Adjoint(_) => return Err(format!("%{symbol} has an adjoint, which is no row")),
        };
        let float = rets.first().copied().filter(|t| t.is_float());
        let Some(float) = float.filter(|_| rets.len() == row.n_results()) else {
            return Err(format!(
                "%{symbol} has {} results, and the rule is of a function with {} floats",
                rets.len(),
                row.n_results()
            ));
        };
        if row.n_operands() != params.len() {
            return Err(format!(
                "%{symbol} has {} parameters, and the rule is of a function with {}",
                params.len(),
                row.n_operands()
            ));
        }
        if let Some(i) = params.iter().chain(rets).position(|t| t.is_float() && *t != float) {
            return Err(format!("%{symbol} mixes floats of two widths (at place {i}): its rule cannot be a row"));
        }
        for (r, o, partial) in row.partials() {
            if !params[o].is_float() && !partial.is_zero() {
                return Err(format!("parameter {o} of %{symbol} is no float: write 0 for its partial of result {r}"));
            }
            let wrong = partial.operands().into_iter().find(|&(i, as_integer)| params[i].is_float() == as_integer);
            if let Some((i, as_integer)) = wrong {
                return Err(if as_integer {
                    format!("parameter {i} of %{symbol} is a float: write it without `float(…)`")
                } else {
                    format!("parameter {i} of %{symbol} is no float: write `float(…)` around it")
                });
            }
        }
        Ok(MathKind::Expr(Arc::new(row)))
    }
}

/// The row of a function whose tangent another one computes.
fn of_tangent(symbol: &str, args: &[TangentArg], params: &[Ty]) -> Result<ExprRow, String> {
    let index = |arg: &TangentArg| match *arg {
        TangentArg::Primal(i) | TangentArg::Tangent(i) => i,
    };
    if args.iter().any(|arg| index(arg) >= params.len()) {
        return Err(format!("%{symbol} is given a parameter that the function does not have"));
    }
    let partial = |o: usize| {
        if !params[o].is_float() || !args.contains(&TangentArg::Tangent(o)) {
            return Partial::Zero;
        }
        let args = args.iter().map(|arg| match *arg {
            TangentArg::Primal(i) if params[i].is_float() => CallArg::Float(E::operand(i)),
            TangentArg::Primal(i) => CallArg::Other(i),
            TangentArg::Tangent(i) => CallArg::Float(E::constant(if i == o { 1.0 } else { 0.0 })),
        });
        times(E::call(PureCall { symbol: symbol.to_owned(), args: args.collect() }))
    };
    Ok(ExprRow::new(params.len(), vec![(0..params.len()).map(partial).collect()]))
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    operands: Vec<String>,
    results: Vec<String>,
    /// How many have been read, of all partials.
    factors: usize,
}

/// Most factors of a rule: formulas are walked by recursion.
const MOST_FACTORS: usize = 1000;

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> RuleError {
        RuleError { at: self.at, message: message.into() }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let is = self.rest().starts_with(token);
        self.at += if is { token.len() } else { 0 };
        is
    }

    fn expect(&mut self, token: &str) -> Result<(), RuleError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(format!("`{token}` is wanted here"))) }
    }

    fn name(&mut self) -> Result<String, RuleError> {
        self.space();
        let is = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let n = self.rest().find(|c| !is(c)).unwrap_or(self.rest().len());
        if n == 0 || self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Err(self.error("a name is wanted here"));
        }
        let name = self.rest()[..n].to_owned();
        self.at += n;
        Ok(name)
    }

    fn names(&mut self) -> Result<Vec<String>, RuleError> {
        let mut names: Vec<String> = vec![];
        loop {
            let name = self.name()?;
            if names.contains(&name) {
                return Err(self.error(format!("`{name}` is there twice")));
            }
            names.push(name);
            if !self.eat(",") {
                return Ok(names);
            }
        }
    }

    fn rule(&mut self) -> Result<UserRule, RuleError> {
        let start = self.at;
        let first = self.name()?;
        if first == "inactive" {
            return Ok(UserRule::Inactive);
        }
        self.space();
        if first == "tangent" && !self.rest().starts_with(['=', ',']) {
            return self.tangent();
        }
        self.at = start;
        self.operands = self.names()?;
        self.space();
        if let ([word], true) = (&self.operands[..], self.rest().is_empty()) {
            return Err(self.error(format!(
                "`{word}` is no rule: write `inactive`, `x => z: …`, `tangent f(x, dx)`, or `x => adjoint f(…)`"
            )));
        }
        self.expect("=>")?;
        let result = self.name()?;
        self.space();
        if result == "adjoint" && !self.rest().starts_with(':') {
            return self.adjoint();
        }
        self.results = vec![result];
        if let Some(name) = self.operands.iter().find(|o| self.results.contains(o)) {
            return Err(self.error(format!("`{name}` is an operand and the result")));
        }
        self.expect(":")?;
        let mut partials = vec![];
        loop {
            partials.push(self.partial()?);
            if !self.eat(",") {
                break;
            }
        }
        let (n, want) = (partials.len(), self.operands.len());
        if n != want {
            let several = |n: usize| if n == 1 { "" } else { "s" };
            let (s, t) = (several(n), several(want));
            return Err(self.error(format!("{n} partial{s} given for {want} operand{t}: one for each is wanted")));
        }
        Ok(UserRule::Row(ExprRow::new(want, vec![partials])))
    }

    /// `symbol(x0, dx0, c1, …)`: names of operands in their order; a `d` before one is its tangent.
    fn tangent(&mut self) -> Result<UserRule, RuleError> {
        let symbol = self.name()?;
        self.expect("(")?;
        let names = self.names()?;
        self.expect(")")?;
        let (mut operands, mut args) = (Vec::<&str>::new(), vec![]);
        for name in &names {
            let known = |n: &str| operands.iter().position(|o| *o == n);
            match name.strip_prefix('d').and_then(known) {
                Some(i) => args.push(TangentArg::Tangent(i)),
                None => {
                    args.push(TangentArg::Primal(operands.len()));
                    operands.push(name);
                }
            }
        }
        if !args.iter().any(|a| matches!(a, TangentArg::Tangent(_))) {
            return Err(self.error("no argument is a tangent: the tangent of `x` is called `dx`, and stands behind it"));
        }
        Ok(UserRule::Tangent { symbol, args })
    }

    /// `symbol(…) -> dx, …`, and what may follow: `after symbol(…)`, `tangent symbol(…)`, `of f32`,
    /// `alone`, `reads x, …`.
    fn adjoint(&mut self) -> Result<UserRule, RuleError> {
        let reverse = self.adjoint_call()?;
        let mut cotangents = vec![];
        if self.eat("->") {
            loop {
                self.space();
                let at = self.at;
                let name = self.name()?;
                match name.strip_prefix('d').and_then(|n| self.operands.iter().position(|o| o == n)) {
                    Some(i) => cotangents.push(i),
                    None => {
                        return Err(RuleError { at, message: format!("`{name}` is no operand with a `d` before it") });
                    }
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        let (mut augmented, mut tangent, mut elem, mut alone, mut reads) = (None, None, Ty::F64, false, vec![]);
        loop {
            self.space();
            if self.rest().is_empty() {
                break;
            }
            let at = self.at;
            match self.name()?.as_str() {
                "after" if augmented.is_none() => augmented = Some(self.adjoint_call()?),
                "tangent" if tangent.is_none() => tangent = Some(self.adjoint_call()?),
                "alone" => alone = true,
                "reads" => reads = self.pointers()?,
                "of" => match self.name()?.as_str() {
                    "f32" => elem = Ty::F32,
                    "f64" => elem = Ty::F64,
                    _ => return Err(RuleError { at, message: "`of f32` or `of f64` is wanted here".to_owned() }),
                },
                _ => {
                    let message = "`after`, `tangent`, `of f32`, `alone`, `reads` or the end is wanted here".to_owned();
                    return Err(RuleError { at, message });
                }
            }
        }
        let params = self.operands.len();
        Ok(UserRule::Adjoint(AdjointRule { params, reverse, cotangents, augmented, tangent, elem, alone, reads }))
    }

    /// Names of operands.
    fn pointers(&mut self) -> Result<Vec<usize>, RuleError> {
        let mut found = vec![];
        loop {
            self.space();
            let at = self.at;
            let name = self.name()?;
            let Some(i) = self.operands.iter().position(|o| *o == name) else {
                let message = format!("`{name}` is none of {}", self.operands.join(", "));
                return Err(RuleError { at, message });
            };
            found.push(i);
            if !self.eat(",") {
                return Ok(found);
            }
        }
    }

    /// A function, and its arguments by the names of operands and of what there is besides.
    fn adjoint_call(&mut self) -> Result<AdjointCall, RuleError> {
        let symbol = self.name()?;
        self.expect("(")?;
        let mut args = vec![];
        loop {
            self.space();
            let at = self.at;
            let name = self.name()?;
            let operand = |n: &str| self.operands.iter().position(|o| o == n);
            let seed = |n: &str| if n.is_empty() { Some(0) } else { n.parse().ok() };
            args.push(match name.as_str() {
                n if operand(n).is_some() => AdjointArg::Primal(operand(n).expect("it is one")),
                "record" => AdjointArg::Record,
                "overwritten" => AdjointArg::Overwritten,
                "wanted" => AdjointArg::Wanted,
                n => match (n.strip_prefix('d').and_then(operand), n.strip_prefix("seed").and_then(seed)) {
                    (Some(i), _) => AdjointArg::Derivative(i),
                    (None, Some(k)) => AdjointArg::Seed(k),
                    (None, None) => {
                        let names = self.operands.join(", ");
                        let message = format!(
                            "`{name}` is none of {names}, of these with a `d` before them, of `seed`, `record`, \
                             `overwritten` and `wanted`"
                        );
                        return Err(RuleError { at, message });
                    }
                },
            });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(AdjointCall { symbol, args })
    }

    fn partial(&mut self) -> Result<Partial, RuleError> {
        let e = self.sum()?;
        Ok(match e.node() {
            crate::expr::Node::Const(0.0) => Partial::Zero,
            _ => times(e),
        })
    }

    fn sum(&mut self) -> Result<E, RuleError> {
        let mut e = self.product()?;
        loop {
            if self.eat("+") {
                e = e + self.product()?;
            } else if self.eat("-") {
                e = e - self.product()?;
            } else {
                return Ok(e);
            }
        }
    }

    fn product(&mut self) -> Result<E, RuleError> {
        let mut e = self.sign()?;
        loop {
            if self.eat("*") || self.eat("·") {
                e = e * self.sign()?;
            } else if self.eat("/") {
                e = e / self.sign()?;
            } else {
                return Ok(e);
            }
        }
    }

    fn sign(&mut self) -> Result<E, RuleError> {
        self.factors += 1;
        if self.factors > MOST_FACTORS {
            return Err(self.error(format!("a rule has at most {MOST_FACTORS} factors: call a function of your own")));
        }
        if self.eat("-") { Ok(-self.sign()?) } else { self.atom() }
    }

    fn atom(&mut self) -> Result<E, RuleError> {
        if self.eat("(") {
            let e = self.sum()?;
            self.expect(")")?;
            return Ok(e);
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let start = self.at;
        let name = self.name()?;
        if self.eat("(") {
            return self.call(&name, start);
        }
        if let Some(i) = self.operands.iter().position(|o| *o == name) {
            return Ok(E::operand(i));
        }
        match self.results.iter().position(|r| *r == name) {
            Some(i) => Ok(E::result(i)),
            None => {
                self.at = start;
                let known = self.operands.iter().chain(&self.results).cloned().collect::<Vec<_>>().join(", ");
                Err(self.error(format!("`{name}` is neither an operand nor the result: there are {known}")))
            }
        }
    }

    fn number(&mut self) -> Result<E, RuleError> {
        let rest = self.rest();
        let mut n = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if rest[n..].starts_with(['e', 'E']) {
            let digits = &rest[n + 1..].trim_start_matches(['+', '-']);
            let more = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            n = if more > 0 { rest.len() - digits.len() + more } else { n };
        }
        let value = rest[..n].parse::<f64>().map_err(|_| self.error("that is no number"))?;
        self.at += n;
        Ok(E::constant(value))
    }

    /// A function of the name, after its opening bracket.
    fn call(&mut self, name: &str, start: usize) -> Result<E, RuleError> {
        let mut args = vec![];
        loop {
            args.push(self.sum()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        let known = MathFn::ALL.into_iter().find(|f| f.symbol() == name);
        Ok(match (name, known, &args[..]) {
            ("sqrt", _, [a]) => a.sqrt(),
            ("abs", _, [a]) => a.abs(),
            ("copysign", _, [a, b]) => a.copysign(b),
            ("float", _, [a]) if matches!(a.node(), crate::expr::Node::Operand(_)) => a.int(),
            (_, Some(f), args) if args.len() == f.n_params() => E::math(f, args.to_vec()),
            ("sqrt" | "abs" | "copysign" | "float", ..) | (_, Some(_), _) => {
                self.at = start;
                return Err(self.error(format!("`{name}` has other arguments")));
            }
            // Any other is a function of the user's.
            _ => {
                let args = args.into_iter().map(CallArg::Float).collect();
                E::call(PureCall { symbol: name.to_owned(), args })
            }
        })
    }
}

/// Rules by the names of their functions, as text: a rule a line, `name: rule`. Empty lines and
/// what follows `#` say nothing.
///
/// # Errors
/// The first line that is no rule, by its number from 1.
pub fn parse_rules(text: &str) -> Result<BTreeMap<String, UserRule>, (usize, RuleError)> {
    let mut out = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |at: usize, message: &str| (i + 1, RuleError { at, message: message.to_owned() });
        let Some((name, rule)) = line.split_once(':') else {
            return Err(wrong(0, "`name: rule` is wanted here"));
        };
        let name = name.trim().trim_start_matches('%').to_owned();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong(0, "`name: rule` is wanted here"));
        }
        let offset = line.len() - rule.len();
        let rule = UserRule::parse(rule).map_err(|e| (i + 1, RuleError { at: e.at + offset, ..e }))?;
        if out.insert(name, rule).is_some() {
            return Err(wrong(0, "there is a rule for this function already"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> ExprRow {
        match UserRule::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")) {
            UserRule::Row(row) => row,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_what_they_say() {
        let r = row("x => z: z*(1 - z)");
        assert_eq!(r.partial(0, 0).eval(2.0, &[0.0], &[0.25]), 2.0 * 0.25 * 0.75);
        let r = row("x, s => z: -z*x/(s*s), z*x*x/(s*s*s)");
        assert_eq!(r.partial(0, 0).eval(1.0, &[3.0, 2.0], &[0.5]), -0.5 * 3.0 / 4.0);
        assert_eq!(r.partial(0, 1).eval(1.0, &[3.0, 2.0], &[0.5]), 0.5 * 9.0 / 8.0);
        let r = row("x, n => z: 1.5e-1 * float(n) * pow(x, 2) - -sqrt(abs(x)), 0");
        assert_eq!(r.partial(0, 0).eval(1.0, &[4.0, 3.0], &[0.0]), 0.15 * 3.0 * 16.0 + 2.0);
        assert!(r.partial(0, 1).is_zero());
        // To the left, as everywhere.
        assert_eq!(row("x => z: 8/2/2 - 1 - 1").partial(0, 0).eval(1.0, &[0.0], &[0.0]), 0.0);
    }

    #[test]
    fn what_is_no_rule_is_told_where() {
        for (text, at, says) in [
            ("", 0, "a name is wanted"),
            ("x", 1, "`x` is no rule: write `inactive`"),
            ("x, y", 4, "`=>` is wanted"),
            ("x => z", 6, "`:` is wanted"),
            ("x => z: y", 8, "`y` is neither an operand nor the result: there are x, z"),
            ("x => z: x, x", 12, "2 partials given for 1 operand:"),
            ("x, x => z: 1, 1", 4, "twice"),
            ("x => x: 1", 6, "an operand and the result"),
            ("x => z: sin(x, x)", 8, "other arguments"),
            ("x => z: (x", 10, "`)` is wanted"),
            ("x => z: x x", 10, "nothing follows"),
            ("tangent f(x)", 12, "no argument is a tangent"),
            ("inactive x", 9, "nothing follows"),
            ("x => adjoint", 12, "a name is wanted"),
            ("x => adjoint f(y)", 15, "`y` is none of x, of these"),
            ("x => adjoint f(x, seed) -> x", 27, "`x` is no operand with a `d`"),
            ("x => adjoint f(x) reads y", 24, "`y` is none of x"),
            ("x => adjoint f(x) before g(x)", 18, "`after`, `tangent`"),
        ] {
            let e = UserRule::parse(text).expect_err(text);
            assert!(e.message.contains(says) && e.at == at, "{text}: {e}");
        }
        for long in ["-".repeat(20_000) + "x", "x".to_owned() + &"*x".repeat(20_000)] {
            let e = UserRule::parse(&format!("x => z: {long}")).expect_err("it is too long");
            assert!(e.message.contains("at most 1000 factors"), "{e}");
        }
    }

    #[test]
    fn files_have_a_rule_a_line() {
        let rules = parse_rules("# ours\n%a: inactive\n\nb: x => z: 1 # one\n").unwrap();
        assert_eq!(rules.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(parse_rules("a: inactive\nb").unwrap_err().0, 2);
        assert!(parse_rules("g x => z: 1").unwrap_err().1.message.contains("`name: rule`"));
        assert_eq!(parse_rules("a: inactive\na: inactive").unwrap_err().0, 2);
        assert_eq!(parse_rules("ab: x => z: y").unwrap_err().1.at, 12);
    }

    #[test]
    fn a_rule_fits_the_function_or_is_refused() {
        let of =
            |text: &str, params: &[Ty], rets: &[Ty]| UserRule::parse(text).unwrap().for_function("f", params, rets);
        let (d, s, i) = (Ty::F64, Ty::F32, Ty::I32);
        let one = of("x => z: z", &[d], &[d]).unwrap();
        assert_eq!(of("x => z: z", &[d], &[d]).unwrap(), one);
        assert_ne!(of("x => z: x", &[d], &[d]).unwrap(), one);
        for (text, params, rets, says) in [
            ("x => z: z", &[d, d][..], &[d][..], "2 parameters"),
            ("x => z: z", &[d], &[], "0 results"),
            ("x => z: z", &[d], &[i], "1 results"),
            ("x, y => z: y, x", &[d, s], &[d], "two widths"),
            ("x, n => z: 1, 1", &[d, i], &[d], "parameter 1 of %f is no float"),
            ("tangent g(x, dx, c)", &[d], &[d], "does not have"),
        ] {
            let e = of(text, params, rets).expect_err(text);
            assert!(e.contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn adjoints_name_what_they_are_given() {
        use AdjointArg::{Derivative, Overwritten, Primal, Record, Seed, Wanted};
        let text = "a, x, n => adjoint r(x, dx, n, seed, seed1, record, wanted) -> da \
                    after f(a, x, overwritten) tangent t(a, da, x, dx) of f32 alone reads x";
        let UserRule::Adjoint(rule) = UserRule::parse(text).unwrap() else { panic!("an adjoint") };
        assert_eq!(rule.reverse.args, [Primal(1), Derivative(1), Primal(2), Seed(0), Seed(1), Record, Wanted]);
        assert_eq!((&rule.cotangents[..], rule.elem, rule.params, rule.alone), (&[0][..], Ty::F32, 3, true));
        assert_eq!(rule.reads, [1]);
        assert_eq!(rule.augmented.as_ref().unwrap().args, [Primal(0), Primal(1), Overwritten]);
        assert_eq!(rule.tangent.as_ref().unwrap().args, [Primal(0), Derivative(0), Primal(1), Derivative(1)]);
        let (params, rets) = ([Ty::F32, Ty::I64, Ty::I32], [Ty::F32, Ty::F32]);
        assert!(rule.fits("f", &params, &rets).is_ok());
        let signature = |call: &AdjointCall| rule.signature(call, &params, &rets);
        assert_eq!(signature(rule.augmented.as_ref().unwrap()).1, [Ty::F32, Ty::F32, Ty::I64]);
        assert_eq!(signature(rule.tangent.as_ref().unwrap()).1, [Ty::F32; 4]);
        assert_eq!(signature(&rule.reverse).1, [Ty::F32]);
        // A result may be called `adjoint`, or begin so.
        for text in ["x => adjoint: adjoint", "x => adjoint : 1", "x => adjoints: adjoints", "x => adjoint2: 1"] {
            assert!(matches!(UserRule::parse(text), Ok(UserRule::Row(_))), "{text}");
        }
        assert_eq!(UserRule::parse("x => z: 2*g(h(x)) + sin(z)").unwrap().symbols(), ["g", "h"]);
        assert_eq!(UserRule::parse(text).unwrap().symbols(), ["r", "f", "t"]);
        // A rule that was not parsed may number what is not there.
        let odd = AdjointRule { params: 1, cotangents: vec![1], ..rule.clone() };
        assert!(odd.fits("f", &[Ty::F64], &[Ty::F64]).is_err_and(|e| e.contains("does not have")));
        let odd = AdjointRule { params: 1, cotangents: vec![], ..rule.clone() };
        assert!(odd.fits("f", &[Ty::F64], &[Ty::F64]).is_err_and(|e| e.contains("does not have")));
        for (text, says) in [
            ("x => adjoint r(x, seed, record) -> dx", "a record is what an augmented function"),
            ("x => adjoint r(x, dx)", "is a float: its cotangent is returned"),
            ("x => adjoint r(x, seed1)", "result 1 of %f is no float"),
            ("x => adjoint r(x) after g(x, seed)", "a seed is an argument of the adjoint"),
            ("x => adjoint r(x) tangent g(x, wanted)", "forward mode knows nothing"),
            ("x => adjoint r(x) reads x", "parameter 0 of %f is no pointer"),
            ("x, y => adjoint r(x)", "1 parameters, and the rule is of a function with 2"),
        ] {
            let UserRule::Adjoint(rule) = UserRule::parse(text).unwrap() else { panic!("an adjoint") };
            let e = rule.fits("f", &[Ty::F64], &[Ty::F64]).expect_err(text);
            assert!(e.contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn tangents_are_partials() {
        let rule = UserRule::parse("tangent g(n, x, dx, y, dy)").unwrap();
        let row = of_tangent(
            "g",
            match &rule {
                UserRule::Tangent { args, .. } => args,
                _ => panic!(),
            },
            &[Ty::I32, Ty::F64, Ty::F64],
        );
        let row = row.unwrap();
        let text: Vec<String> = row.partials().map(|p| p.2.to_string()).collect();
        assert_eq!(text, ["0", "g(x, y, 1, c, 0)", "g(x, y, 0, c, 1)"]);
    }
}
