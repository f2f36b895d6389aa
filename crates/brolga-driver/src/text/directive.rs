//! Directives: the comments of a CLIF file that say what to differentiate and what must come out.
//!
//! **Question.** What does a comment line ask for?
//!
//! **Answer.** A [`Directive`], by the keyword before the first colon; any other comment is
//! none.
//!
//! ```text
//! ; grad: %f(1.5, [1.0, 2.0], 3) seed 2.0 shadow 1=[0.5, 0.5] == [0.25, [1.0, 2.0], null]
//! ; trap: %f(0) int_divz
//! ; error: %f AD0107
//! ; data: %table = f64[1.0, 2.0] readonly
//! ; inverse: %mix = %unmix, 0:16
//! ; bless: forward, pullback
//! ```
//!
//! A directive is a comment on a line of its own, anywhere in the file. After the call come clauses
//! in any order: `activity a,b`, `seed s,…`, `shadow N=[…]`, `noalias N,…`, `fresh N,…`, `noneed
//! N,…`, `tol x`, `value […]`, `buffers […]`, `nofd`, `memory leave|restore`. What follows `==` is
//! compared with the gradient, one entry per argument; `null` where there is none, `_` where
//! anything goes.
//!
//! **Errors.** A clause that is given twice, and what is left over at the end of the line, are
//! errors. Each error has the span of what is wrong.
//!
//! **Cost.** One walk over the line. Lists of what is expected nest at most four deep.

use brolga::{ArgActivity, MemoryMode, Stage};

use super::call::{self, Call, List, Literal};
use super::cursor::{Cursor, ParseResult, SpannedNode};
use super::inverse::{UndoneFunction, undone};

/// An expected number, list of numbers, or the absence of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// `_`: not compared.
    Any,
    /// `null`: nothing there.
    Null,
    /// A number as written.
    Number(SpannedNode<String>),
    /// One entry per element or lane.
    List(Vec<Expect>),
}

/// What stands between a call and `==`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clauses {
    /// One per argument; the default follows from the argument's type.
    pub activity: Option<SpannedNode<Vec<ArgActivity>>>,
    /// One per result; the default is 1.0 for floats.
    pub seeds: Option<SpannedNode<Vec<Literal>>>,
    /// Initial shadows, by argument; the default is zeros.
    pub shadows: Vec<(SpannedNode<usize>, List)>,
    /// Tolerance, relative and absolute; the default follows from the types in the function.
    pub tol: Option<f64>,
    /// Expected primal results.
    pub value: Option<Vec<Expect>>,
    /// Expected final contents of buffers, one per argument.
    pub buffers: Option<Vec<Expect>>,
    /// The point is a kink: finite differences say nothing here.
    pub nofd: bool,
    /// What the pullback does with primal memory.
    pub memory: Option<MemoryMode>,
    /// Arguments whose memory is reached through no other pointer.
    pub noalias: Option<Vec<SpannedNode<usize>>>,
    /// Arguments whose shadows hold nothing before the call.
    pub fresh: Option<Vec<SpannedNode<usize>>>,
    /// Arguments whose memory is not read after the call.
    pub no_need: Option<Vec<SpannedNode<usize>>>,
}

/// `; grad:`.
#[derive(Clone, Debug, PartialEq)]
pub struct GradLine {
    /// 1-based line in the file.
    pub line: u32,
    /// The text after the keyword.
    pub text: String,
    /// The call.
    pub call: Call,
    /// How to differentiate it.
    pub clauses: Clauses,
    /// The gradient, one entry per argument.
    pub expected: Vec<Expect>,
}

/// `; trap:`: the call must not finish.
#[derive(Clone, Debug, PartialEq)]
pub struct TrapLine {
    /// 1-based line in the file.
    pub line: u32,
    /// The text after the keyword.
    pub text: String,
    /// The call.
    pub call: Call,
    /// How to differentiate it.
    pub clauses: Clauses,
    /// The code it must trap with.
    pub code: String,
}

/// `; error:`: the function must be refused.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorLine {
    /// 1-based line in the file.
    pub line: u32,
    /// The text after the keyword.
    pub text: String,
    /// Symbol of the function.
    pub func: SpannedNode<String>,
    /// The arguments, if the line is a call: they settle what is a buffer.
    pub call: Option<Call>,
    /// How to differentiate it.
    pub clauses: Clauses,
    /// A code that must be among the diagnostics.
    pub code: Option<String>,
}

/// `; data:`: a data object of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct DataLine {
    /// 1-based line in the file.
    pub line: u32,
    /// The text after the keyword.
    pub text: String,
    /// Symbol.
    pub symbol: SpannedNode<String>,
    /// Contents.
    pub contents: List,
    /// Whether code may write to it.
    pub writable: bool,
}

/// `; inverse:`: calls of a function that another one undoes.
#[derive(Clone, Debug, PartialEq)]
pub struct InverseLine {
    /// 1-based line in the file.
    pub line: u32,
    /// The text after the keyword.
    pub text: String,
    /// The two functions, and the states.
    pub undone: UndoneFunction,
}

/// A directive.
#[derive(Clone, Debug, PartialEq)]
pub enum Directive {
    /// A gradient and what it must be.
    Grad(Box<GradLine>),
    /// A call that must trap.
    Trap(Box<TrapLine>),
    /// A function that must be refused.
    Error(Box<ErrorLine>),
    /// A data object.
    Data(Box<DataLine>),
    /// A function that another one undoes.
    Inverse(Box<InverseLine>),
    /// Stages whose dump is compared with the blessed file.
    Bless(Vec<Stage>),
}

impl Directive {
    /// Read a comment line. `Ok(None)` if it is an ordinary comment.
    pub fn parse(comment: &str, line: u32) -> ParseResult<Option<Self>> {
        let body = comment.trim().trim_start_matches(';').trim();
        let Some((keyword, rest)) = body.split_once(':') else { return Ok(None) };
        let text = rest.trim();
        let mut c = Cursor::new(text);
        let directive = match keyword {
            "grad" => Self::Grad(Box::new(grad(&mut c, line)?)),
            "trap" => Self::Trap(Box::new(trap(&mut c, line)?)),
            "error" => Self::Error(Box::new(error(&mut c, line)?)),
            "data" => Self::Data(Box::new(data(&mut c, line)?)),
            "inverse" => Self::Inverse(Box::new(InverseLine { line, text: text.to_owned(), undone: undone(&mut c)? })),
            "bless" => Self::Bless(bless(&mut c)?),
            _ => return Ok(None),
        };
        if c.is_done() { Ok(Some(directive)) } else { Err(c.unexpected("the end of the line")) }
    }
}

/// A call with clauses, as on the command line.
pub fn call_with_clauses(text: &str) -> ParseResult<(Call, Clauses)> {
    let mut c = Cursor::new(text);
    let call = call::call(&mut c)?;
    let clauses = clauses(&mut c)?;
    if c.is_done() { Ok((call, clauses)) } else { Err(c.unexpected("a clause or the end of the call")) }
}

fn grad(c: &mut Cursor<'_>, line: u32) -> ParseResult<GradLine> {
    let call = call::call(c)?;
    let clauses = clauses(c)?;
    if !c.eat("==") {
        return Err(c.unexpected("a clause or `== [gradient]`"));
    }
    let expected = expect_list(c)?;
    Ok(GradLine { line, text: c.text().to_owned(), call, clauses, expected })
}

fn trap(c: &mut Cursor<'_>, line: u32) -> ParseResult<TrapLine> {
    let call = call::call(c)?;
    let clauses = clauses(c)?;
    let code = c.word();
    if code.node.is_empty() {
        return Err(c.unexpected("a trap code, such as `int_divz`"));
    }
    Ok(TrapLine { line, text: c.text().to_owned(), call, clauses, code: code.node.to_owned() })
}

fn error(c: &mut Cursor<'_>, line: u32) -> ParseResult<ErrorLine> {
    let func = call::name(c)?;
    let call = if c.peek() == Some('(') {
        let mut lookahead = Cursor::new(c.text());
        let call = call::call(&mut lookahead)?;
        *c = lookahead;
        Some(call)
    } else {
        None
    };
    let clauses = clauses(c)?;
    let code = c.word().node;
    let code = (!code.is_empty()).then(|| code.to_owned());
    Ok(ErrorLine { line, text: c.text().to_owned(), func, call, clauses, code })
}

fn data(c: &mut Cursor<'_>, line: u32) -> ParseResult<DataLine> {
    let symbol = call::name(c)?;
    c.expect("=")?;
    let contents = match call::literal(c)? {
        Literal::List(list) => list,
        other => return Err(c.error(other.span(), "expected contents such as `f64[1.0, 2.0]`")),
    };
    let writable = !c.eat_word("readonly");
    Ok(DataLine { line, text: c.text().to_owned(), symbol, contents, writable })
}

fn bless(c: &mut Cursor<'_>) -> ParseResult<Vec<Stage>> {
    let mut stages = Vec::new();
    loop {
        let word = c.take_while(|ch| ch.is_ascii_alphanumeric() || ch == '-');
        match Stage::ALL.into_iter().find(|s| s.name() == word.node) {
            Some(stage) => stages.push(stage),
            None => {
                let names: Vec<_> = Stage::ALL.iter().map(|s| s.name()).collect();
                return Err(c
                    .error(word.span, format!("`{}` is not a stage", word.node))
                    .help(format!("the stages are {}", names.join(", "))));
            }
        }
        if !c.eat(",") {
            return Ok(stages);
        }
    }
}

fn clauses(c: &mut Cursor<'_>) -> ParseResult<Clauses> {
    let mut out = Clauses::default();
    loop {
        let start = c.at();
        let repeated = if c.eat_word("activity") {
            out.activity.replace(activities(c)?).is_some()
        } else if c.eat_word("seed") {
            out.seeds.replace(seeds(c)?).is_some()
        } else if c.eat_word("shadow") {
            let (arg, list) = shadow(c)?;
            let repeated = out.shadows.iter().any(|(a, _)| a.node == arg.node);
            out.shadows.push((arg, list));
            repeated
        } else if c.eat_word("tol") {
            let n = c.number()?;
            match n.node.parse::<f64>() {
                Ok(tol) if tol >= 0.0 => out.tol.replace(tol).is_some(),
                _ => return Err(c.error(n.span, "a tolerance is a decimal number, not negative")),
            }
        } else if c.eat_word("value") {
            let value = if c.peek() == Some('[') { expect_list(c)? } else { vec![expect(c, MAX_DEPTH)?] };
            out.value.replace(value).is_some()
        } else if c.eat_word("buffers") {
            out.buffers.replace(expect_list(c)?).is_some()
        } else if c.eat_word("nofd") {
            std::mem::replace(&mut out.nofd, true)
        } else if c.eat_word("noalias") {
            out.noalias.replace(numbers(c)?).is_some()
        } else if c.eat_word("fresh") {
            out.fresh.replace(numbers(c)?).is_some()
        } else if c.eat_word("noneed") {
            out.no_need.replace(numbers(c)?).is_some()
        } else if c.eat_word("memory") {
            let mode = if c.eat_word("leave") {
                MemoryMode::Leave
            } else if c.eat_word("restore") {
                MemoryMode::Restore
            } else {
                return Err(c.unexpected("`leave` or `restore`"));
            };
            out.memory.replace(mode).is_some()
        } else {
            return Ok(out);
        };
        if repeated {
            let end = c.text()[..c.at()].trim_end().len();
            return Err(c.error(start..end, "this clause is given twice"));
        }
    }
}

/// `0, 2`.
fn numbers(c: &mut Cursor<'_>) -> ParseResult<Vec<SpannedNode<usize>>> {
    let mut list = Vec::new();
    loop {
        let n = c.number()?;
        match n.node.parse() {
            Ok(node) => list.push(SpannedNode { node, span: n.span }),
            Err(_) => return Err(c.error(n.span, "the number of an argument is wanted, counted from 0")),
        }
        if !c.eat(",") {
            return Ok(list);
        }
    }
}

/// `active, const`.
pub fn activities(c: &mut Cursor<'_>) -> ParseResult<SpannedNode<Vec<ArgActivity>>> {
    let start = c.at();
    let mut node = Vec::new();
    loop {
        let word = c.word();
        node.push(match word.node {
            "const" => ArgActivity::Const,
            "active" => ArgActivity::Active,
            "duplicated" => ArgActivity::Duplicated,
            other => {
                return Err(c
                    .error(word.span.clone(), format!("`{other}` is not an activity"))
                    .help("activities are const, active and duplicated, one per argument"));
            }
        });
        if !c.eat(",") {
            return Ok(SpannedNode { node, span: start..word.span.end });
        }
    }
}

/// `1.0, [1.0 0.0]`.
fn seeds(c: &mut Cursor<'_>) -> ParseResult<SpannedNode<Vec<Literal>>> {
    let start = c.at();
    let mut node = Vec::new();
    loop {
        let seed = call::literal(c)?;
        let end = seed.span().end;
        node.push(seed);
        if !c.eat(",") {
            return Ok(SpannedNode { node, span: start..end });
        }
    }
}

/// `1=[0.5, 0.5]`.
fn shadow(c: &mut Cursor<'_>) -> ParseResult<(SpannedNode<usize>, List)> {
    let arg = c.count()?;
    c.expect("=")?;
    match call::literal(c)? {
        Literal::List(list) => Ok((arg, list)),
        other => Err(c.error(other.span(), "an initial shadow is a list: `shadow 1=[0.5, 0.5]`")),
    }
}

/// Lists in lists that an expectation may have. A gradient is a list of lists; the rest is room for
/// better messages.
const MAX_DEPTH: usize = 4;

fn expect_list(c: &mut Cursor<'_>) -> ParseResult<Vec<Expect>> {
    nested_list(c, MAX_DEPTH)
}

fn nested_list(c: &mut Cursor<'_>, depth: usize) -> ParseResult<Vec<Expect>> {
    let start = c.at();
    if depth == 0 {
        return Err(c.unexpected("a number: no list is nested as deep as this"));
    }
    c.expect("[")?;
    let mut items = Vec::new();
    while !c.eat("]") {
        if c.is_done() {
            return Err(c.error(start..start + 1, "this bracket is never closed"));
        }
        items.push(expect(c, depth - 1)?);
        // Lanes are written without commas, elements with them.
        c.eat(",");
    }
    Ok(items)
}

fn expect(c: &mut Cursor<'_>, depth: usize) -> ParseResult<Expect> {
    if c.peek() == Some('[') {
        return Ok(Expect::List(nested_list(c, depth)?));
    }
    if c.eat_word("null") {
        return Ok(Expect::Null);
    }
    if c.eat_word("_") {
        return Ok(Expect::Any);
    }
    let number = c.number()?;
    let plausible =
        super::number::parse_f64(&number.node).is_ok() || super::number::parse_int(&number.node, 128).is_ok();
    if c.peek() == Some('[') {
        // A typed list, as arguments are written: the type says nothing new here.
        return Ok(Expect::List(nested_list(c, depth)?));
    }
    if plausible {
        Ok(Expect::Number(number))
    } else {
        Err(c.error(number.span, "expected a number, a list, `null` or `_`"))
    }
}

#[cfg(test)]
mod tests {
    use brolga::{ArgActivity, MemoryMode, Stage};

    use super::{Directive, Expect};

    fn parse(text: &str) -> Directive {
        Directive::parse(text, 1).unwrap().unwrap()
    }

    #[test]
    fn all_clauses() {
        let text = "; grad: %g(0x1.0p1, f32[1.0, 2.0], @1, i64[1, 2], [1.0 2.0]) \
                    activity active,duplicated,duplicated,const,active seed 2.0, [1.0 0.0] shadow 1=f32[0.5, 0.5] \
                    shadow 2=[1, 1] tol 1e-6 value [3.0] buffers [null, [1.0, _]] nofd memory restore \
                    == [1.0, [2.0, nan], _, null, [1.0 -inf]]";
        let Directive::Grad(g) = parse(text) else { panic!("not a gradient") };
        assert_eq!(g.call.args.len(), 5);
        assert_eq!(g.clauses.activity.as_ref().unwrap().node[3], ArgActivity::Const);
        assert_eq!(g.clauses.seeds.as_ref().unwrap().node.len(), 2);
        assert_eq!(g.clauses.shadows[1].0.node, 2);
        assert_eq!(g.clauses.tol, Some(1e-6));
        assert_eq!(g.clauses.memory, Some(MemoryMode::Restore));
        assert!(g.clauses.nofd);
        assert_eq!(g.clauses.buffers.as_ref().unwrap()[0], Expect::Null);
        assert_eq!(g.expected.len(), 5);
        assert_eq!(g.expected[2], Expect::Any);
        assert!(matches!(&g.expected[4], Expect::List(l) if l.len() == 2));
    }

    #[test]
    fn the_other_directives() {
        assert!(matches!(parse("; trap: %f(0) int_divz"), Directive::Trap(t) if t.code == "int_divz"));
        assert!(matches!(parse("; error: %f AD0107"), Directive::Error(e) if e.code.as_deref() == Some("AD0107")));
        assert!(matches!(parse("; error: u0:3"), Directive::Error(e) if e.code.is_none() && e.func.node == "u0:3"));
        assert!(matches!(parse("; error: %f([1.0]) AD01"), Directive::Error(e) if e.call.is_some()));
        assert!(matches!(parse("; data: %t = f64[1.0] readonly"), Directive::Data(d) if !d.writable));
        assert!(matches!(parse("; data: %t = i8[1, 2]"), Directive::Data(d) if d.writable));
        assert_eq!(
            parse("; bless: forward, clif-pullback"),
            Directive::Bless(vec![Stage::Forward, Stage::ClifPullback])
        );
    }

    #[test]
    fn comments_are_not_directives() {
        for text in ["; a comment", "; note: see below", "; gradient: 3", ";", "; d/dx: 2x"] {
            assert_eq!(Directive::parse(text, 1), Ok(None), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wanted() {
        let message = |text: &str| Directive::parse(text, 1).unwrap_err().message;
        assert!(message("; grad: %f(1.0)").contains("== [gradient]"));
        assert!(message("; grad: %f(1.0) seed 1 seed 2 == [1]").contains("twice"));
        assert!(message("; grad: %f(1.0) == [1, x]").contains("expected a number"));
        assert!(message("; grad: %f(1.0) == [1, 2").contains("never closed"));
        assert!(message("; trap: %f(1.0)").contains("trap code"));
        assert!(message("; bless: forwards").contains("not a stage"));
        assert!(message("; grad: %f(1.0) memory keep == []").contains("restore"));
        assert!(message("; grad: %f(1.0) activity actve == []").contains("not an activity"));
        assert!(message("; grad: %f(1.0) == [1] extra").contains("end of the line"));
    }
}
