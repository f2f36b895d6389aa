//! Parser of calls: `%f(1.5, [1.0, 2.0], i32[3], @1, [1.0 2.0])`.
//!
//! **Question.** What is called, with which arguments?
//!
//! **Answer.** A [`Call`] of [`Literal`]s, each with the place where it was written:
//!
//! | written | means |
//! |---|---|
//! | `1.5`, `-0x1.8p3`, `nan`, `3`, `true` | a scalar |
//! | `[1.0, 2.0]` | a pointer to a fresh buffer of `f64` |
//! | `f32[1.0]`, `i64[1, 2]`, `f64[]`, `f64[0.0; 100]` | a buffer of that type; `; n` repeats |
//! | `[1.0 2.0]` | a vector, one number per lane |
//! | `0x00000002000000010000000000000000` | a vector, all bits as one number: the first lane last |
//! | `@1` | the same buffer as argument 1, and the same shadow |
//!
//! Whether `[1.0]` is a buffer or a vector of one lane is settled by the parameter's type, so a
//! bracket is only a [`List`] here.
//!
//! **Cost.** One walk over the text. A list that repeats a number holds it once, at most 2²⁴ times.

use super::cursor::{Cursor, ParseResult, Span, SpannedNode};
use super::number::ElemType;

/// Most elements that `[x; n]` may ask for: 128 MiB of `f64`.
const MAX_REPEAT: usize = 1 << 24;

/// A bracketed list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The type before the bracket.
    pub elem: Option<ElemType>,
    /// The numbers, as written.
    pub items: Vec<SpannedNode<String>>,
    /// How often the numbers are repeated: `n` in `[x; n]`, otherwise 1.
    pub copies: usize,
    /// Whether commas (or a repeat count) separate them, which makes it a buffer.
    pub commas: bool,
    /// The whole list.
    pub span: Span,
}

impl List {
    /// How many numbers it stands for.
    pub fn len(&self) -> usize {
        self.items.len() * self.copies
    }

    /// Whether it stands for no number at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An argument as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A number.
    Number(SpannedNode<String>),
    /// A buffer or a vector.
    List(List),
    /// The buffer of another argument.
    Same(SpannedNode<usize>),
}

impl Literal {
    /// Where it was written.
    pub fn span(&self) -> Span {
        match self {
            Self::Number(n) => n.span.clone(),
            Self::List(l) => l.span.clone(),
            Self::Same(s) => s.span.clone(),
        }
    }
}

/// A call as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Symbol of the function, without `%`.
    pub func: SpannedNode<String>,
    /// The arguments.
    pub args: Vec<Literal>,
    /// The whole call, closing parenthesis included.
    pub span: Span,
}

/// A function's name: `%f`, `f`, `u0:3` or `%u0:3`.
pub(super) fn name(c: &mut Cursor<'_>) -> ParseResult<SpannedNode<String>> {
    let start = c.at();
    c.eat("%");
    let symbol = c.take_while(|ch| ch.is_ascii_alphanumeric() || matches!(ch, '_' | ':' | '.' | '$'));
    if symbol.node.is_empty() {
        return Err(c.unexpected("the name of a function, such as `%f`"));
    }
    Ok(SpannedNode { node: symbol.node.to_owned(), span: start..symbol.span.end })
}

/// A whole call.
pub(super) fn call(c: &mut Cursor<'_>) -> ParseResult<Call> {
    let func = name(c)?;
    c.expect("(")?;
    let mut args = Vec::new();
    if !c.eat(")") {
        loop {
            args.push(literal(c)?);
            if c.eat(")") {
                break;
            }
            c.expect(",")?;
        }
    }
    let span = func.span.start..c.text().len() - c.rest().len();
    let end = c.text()[..span.end].trim_end().len();
    Ok(Call { func, args, span: span.start..end })
}

/// One argument.
pub(crate) fn literal(c: &mut Cursor<'_>) -> ParseResult<Literal> {
    let start = c.at();
    if c.eat("@") {
        let n = c.count()?;
        return Ok(Literal::Same(SpannedNode { node: n.node, span: start..n.span.end }));
    }
    if c.peek() == Some('[') {
        return Ok(Literal::List(list(c, None)?));
    }
    let number = c.number()?;
    if c.peek() != Some('[') {
        return Ok(Literal::Number(number));
    }
    match ElemType::from_name(&number.node) {
        Some(elem) => {
            let mut l = list(c, Some(elem))?;
            l.span.start = start;
            Ok(Literal::List(l))
        }
        None => Err(c
            .error(number.span.clone(), format!("`{}` is not an element type", number.node))
            .help("buffers are f64[…], f32[…], i64[…], i32[…], i16[…] or i8[…]")),
    }
}

/// A bracketed list of numbers.
pub(super) fn list(c: &mut Cursor<'_>, elem: Option<ElemType>) -> ParseResult<List> {
    let start = c.at();
    c.expect("[")?;
    let mut items = Vec::new();
    let mut copies = 1;
    let mut commas = false;
    while !c.eat("]") {
        if !items.is_empty() {
            if c.eat(",") {
                commas = true;
                // A trailing comma says that a single number is a buffer.
                if c.eat("]") {
                    break;
                }
            } else if items.len() == 1 && c.eat(";") {
                let n = c.count()?;
                if n.node > MAX_REPEAT {
                    return Err(c.error(n.span, format!("at most {MAX_REPEAT} elements")));
                }
                copies = n.node;
                commas = true;
                c.expect("]")?;
                break;
            } else if commas {
                return Err(c.unexpected("`,` or `]`"));
            }
        }
        if c.is_done() {
            return Err(c.error(start..start + 1, "this bracket is never closed"));
        }
        items.push(c.number()?);
    }
    let end = c.text()[..c.text().len() - c.rest().len()].trim_end().len();
    Ok(List { elem, items, copies, commas, span: start..end })
}

impl Call {
    /// Read a call and nothing else.
    pub fn parse(text: &str) -> ParseResult<Self> {
        let mut c = Cursor::new(text);
        let parsed = call(&mut c)?;
        if c.is_done() { Ok(parsed) } else { Err(c.unexpected("the end of the call")) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, ElemType, Literal};

    #[test]
    fn every_kind_of_argument() {
        let call =
            Call::parse("%u0:3(1.5, [1.0, 2.0], i32[3], @1, [1.0 -2.0], nan, f64[], [0.5; 3], -0x1p-3)").unwrap();
        assert_eq!(call.func.node, "u0:3");
        let lists: Vec<_> = call
            .args
            .iter()
            .filter_map(|a| match a {
                Literal::List(l) => Some((l.elem, l.len(), l.commas)),
                _ => None,
            })
            .collect();
        assert_eq!(
            lists,
            [
                (None, 2, true),
                (Some(ElemType::Int(32)), 1, false),
                (None, 2, false),
                (Some(ElemType::F64), 0, false),
                (None, 3, true)
            ]
        );
        assert!(matches!(&call.args[3], Literal::Same(s) if s.node == 1));
        assert!(matches!(&call.args[8], Literal::Number(n) if n.node == "-0x1p-3"));
        assert!(Call::parse("f()").unwrap().args.is_empty());
    }

    #[test]
    fn errors_point_at_the_place() {
        let caret = |text: &str| Call::parse(text).unwrap_err().excerpt();
        assert_eq!(caret("%f(1.0"), "%f(1.0\n      ^");
        assert_eq!(caret("%f(1.0) x"), "%f(1.0) x\n        ^");
        assert_eq!(caret("%f([1.0, 2.0)"), "%f([1.0, 2.0)\n            ^");
        assert_eq!(caret("%f(f16[1.0])"), "%f(f16[1.0])\n   ^^^");
        assert_eq!(caret("(1.0)"), "(1.0)\n^");
        assert_eq!(caret("%f(1.0,)"), "%f(1.0,)\n       ^");
        assert_eq!(caret(""), "\n^");
    }
}
