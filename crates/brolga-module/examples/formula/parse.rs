//! Parse: the text of formulas as a tree. Every error has a line and a column.

use std::fmt;

/// A line and a column, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub u32, pub u32);

/// What is wrong with a formula, and where.
#[derive(Debug)]
pub struct Error {
    pub at: At,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

pub fn error<T>(at: At, message: impl Into<String>) -> Result<T> {
    Err(Error { at, message: message.into() })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.at.0, self.at.1, self.message)
    }
}

impl std::error::Error for Error {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Float,
    Int,
    /// The address of floats.
    Array,
}

/// A function. Its result is a float.
#[derive(Debug)]
pub struct Function {
    pub at: At,
    pub name: String,
    pub params: Vec<(String, Type)>,
    pub body: Block,
}

/// Statements, and an expression at the end.
#[derive(Debug)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    pub value: Option<Box<Expr>>,
}

#[derive(Debug)]
pub enum Stmt {
    Let(String, Expr),
    /// To a variable or an element.
    Set(Expr, Expr),
    For(String, Expr, Expr, Block),
    While(Expr, Block),
    Do(Expr),
}

#[derive(Debug)]
pub struct Expr {
    pub at: At,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Float(f64),
    Int(i64),
    Name(String),
    Element(Box<Expr>, Box<Expr>),
    Array(Vec<Expr>),
    Neg(Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    If(Box<Expr>, Block, Option<Block>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Float(f64),
    Int(i64),
    Name(String),
    Symbol(&'static str),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(x) => write!(f, "`{x:?}`"),
            Self::Int(n) => write!(f, "`{n}`"),
            Self::Name(s) => write!(f, "`{s}`"),
            Self::Symbol(s) => write!(f, "`{s}`"),
            Self::End => f.write_str("the end of the text"),
        }
    }
}

const KEYWORDS: [&str; 6] = ["fn", "let", "for", "in", "while", "if"];

/// Longer ones first.
const SYMBOLS: [&str; 22] = [
    "..", "<=", ">=", "==", "!=", "(", ")", "{", "}", "[", "]", ",", ";", ":", "=", "<", ">", "+", "-", "*", "/", "^",
];

/// Operators with their precedence; `^` binds to the right.
const BINARY: [(&str, u32); 11] = [
    ("<", 1),
    ("<=", 1),
    (">", 1),
    (">=", 1),
    ("==", 1),
    ("!=", 1),
    ("+", 2),
    ("-", 2),
    ("*", 3),
    ("/", 3),
    ("^", 5),
];
const NEG: u32 = 4;

/// So deeply may expressions and blocks stand in each other.
const DEPTH: u32 = 100;

/// The functions of a file.
pub fn program(text: &str) -> Result<Vec<Function>> {
    let mut p = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let mut out = Vec::new();
    while *p.peek() != Token::End {
        out.push(p.function()?);
    }
    Ok(out)
}

/// One expression.
pub fn expression(text: &str) -> Result<Expr> {
    let mut p = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let e = p.expr(0)?;
    if *p.peek() == Token::End { Ok(e) } else { p.unexpected("an operator or the end") }
}

fn tokens(text: &str) -> Result<Vec<(At, Token)>> {
    let mut out = Vec::new();
    let (mut rest, mut at) = (text, At(1, 1));
    while let Some(c) = rest.chars().next() {
        let take = |f: &dyn Fn(char) -> bool| rest.find(|c| !f(c)).unwrap_or(rest.len());
        let mut token = None;
        let len = if c.is_whitespace() {
            c.len_utf8()
        } else if c == '#' {
            take(&|c| c != '\n')
        } else if c.is_ascii_digit() {
            let len = number(rest);
            let word = &rest[..len];
            let value = word.parse().map(Token::Int).or_else(|_| word.parse().map(Token::Float));
            let Ok(value) = value else { return error(at, format!("`{word}` is no number")) };
            token = Some(value);
            len
        } else if c.is_alphabetic() || c == '_' {
            let len = take(&|c| c.is_alphanumeric() || c == '_');
            token = Some(Token::Name(rest[..len].to_owned()));
            len
        } else if let Some(s) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            token = Some(Token::Symbol(s));
            s.len()
        } else {
            return error(at, format!("`{c}` is no symbol of the language"));
        };
        out.extend(token.map(|t| (at, t)));
        for c in rest[..len].chars() {
            at = if c == '\n' { At(at.0 + 1, 1) } else { At(at.0, at.1 + 1) };
        }
        rest = &rest[len..];
    }
    out.push((at, Token::End));
    Ok(out)
}

/// How long a number is: `0..n` begins with `0`.
fn number(text: &str) -> usize {
    let digits = |at: usize| at + text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(end + 1 + sign) > end + 1 + sign {
            end = digits(end + 1 + sign);
        }
    }
    end
}

struct Parser {
    tokens: Vec<(At, Token)>,
    next: usize,
    depth: u32,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn at(&self) -> At {
        self.tokens[self.next].0
    }

    fn unexpected<T>(&self, what: &str) -> Result<T> {
        error(self.at(), format!("{what} is expected here, not {}", self.peek()))
    }

    /// Whether a symbol or keyword is next, which is taken then.
    fn is(&mut self, word: &str) -> bool {
        let found = match self.peek() {
            Token::Name(s) => s == word,
            Token::Symbol(s) => *s == word,
            _ => false,
        };
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.is(word) { Ok(()) } else { self.unexpected(&format!("`{word}`")) }
    }

    fn name(&mut self) -> Result<String> {
        match self.peek() {
            Token::Name(s) if !KEYWORDS.contains(&s.as_str()) => {
                let s = s.clone();
                self.next += 1;
                Ok(s)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Items up to a closing symbol, between commas.
    fn list<T>(&mut self, close: &str, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = Vec::new();
        while !self.is(close) {
            out.push(item(self)?);
            if !self.is(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(out)
    }

    fn function(&mut self) -> Result<Function> {
        self.expect("fn")?;
        let (at, name) = (self.at(), self.name()?);
        self.expect("(")?;
        let params = self.list(")", |p| {
            let name = p.name()?;
            p.expect(":")?;
            Ok((name, p.ty()?))
        })?;
        Ok(Function { at, name, params, body: self.block()? })
    }

    fn ty(&mut self) -> Result<Type> {
        if self.is("float") {
            Ok(Type::Float)
        } else if self.is("int") {
            Ok(Type::Int)
        } else if self.is("[") {
            self.expect("float")?;
            self.expect("]")?;
            Ok(Type::Array)
        } else {
            self.unexpected("`float`, `int` or `[float]`")
        }
    }

    fn block(&mut self) -> Result<Block> {
        self.expect("{")?;
        let mut stmts = Vec::new();
        while !self.is("}") {
            if self.is("let") {
                let name = self.name()?;
                self.expect("=")?;
                stmts.push(Stmt::Let(name, self.expr(0)?));
                self.expect(";")?;
            } else if self.is("for") {
                let name = self.name()?;
                self.expect("in")?;
                let from = self.expr(0)?;
                self.expect("..")?;
                stmts.push(Stmt::For(name, from, self.expr(0)?, self.block()?));
            } else if self.is("while") {
                stmts.push(Stmt::While(self.expr(0)?, self.block()?));
            } else {
                // An `if` that begins a statement is one, and needs no semicolon.
                let is_if = *self.peek() == Token::Name("if".to_owned());
                let e = if is_if { self.nested(Self::primary)? } else { self.expr(0)? };
                if self.is("}") {
                    return Ok(Block { stmts, value: Some(Box::new(e)) });
                }
                let is_place = matches!(e.kind, Kind::Name(_) | Kind::Element(..));
                if is_place && self.is("=") {
                    stmts.push(Stmt::Set(e, self.expr(0)?));
                } else {
                    stmts.push(Stmt::Do(e));
                }
                if !is_if {
                    self.expect(";")?;
                }
            }
        }
        Ok(Block { stmts, value: None })
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH {
            return error(self.at(), "what is here stands too deep in other expressions");
        }
        self.depth += 1;
        let out = inner(self);
        self.depth -= 1;
        out
    }

    /// An expression whose operators bind at least as strongly as `least`.
    fn expr(&mut self, least: u32) -> Result<Expr> {
        self.nested(|p| {
            let at = p.at();
            let mut left = if p.is("-") {
                Expr { at, kind: Kind::Neg(Box::new(p.expr(NEG)?)) }
            } else {
                p.primary()?
            };
            loop {
                let at = p.at();
                let found = BINARY.iter().find(|(op, n)| *n >= least && p.is(op));
                let Some(&(op, n)) = found else { return Ok(left) };
                let right = p.expr(if op == "^" { NEG } else { n + 1 })?;
                left = Expr { at, kind: Kind::Binary(op, Box::new(left), Box::new(right)) };
            }
        })
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        let kind = match self.peek().clone() {
            Token::Float(x) => {
                self.next += 1;
                Kind::Float(x)
            }
            Token::Int(n) => {
                self.next += 1;
                Kind::Int(n)
            }
            _ if self.is("(") => {
                let e = self.expr(0)?;
                self.expect(")")?;
                return Ok(e);
            }
            _ if self.is("[") => Kind::Array(self.list("]", |p| p.expr(0))?),
            _ if self.is("if") => {
                let condition = Box::new(self.expr(0)?);
                let then = self.block()?;
                let is_chain = *self.peek() == Token::Name("else".to_owned());
                let other = if is_chain { Some(self.other()?) } else { None };
                Kind::If(condition, then, other)
            }
            Token::Name(name) if !KEYWORDS.contains(&name.as_str()) => {
                self.next += 1;
                if self.is("(") { Kind::Call(name, self.list(")", |p| p.expr(0))?) } else { Kind::Name(name) }
            }
            _ => return self.unexpected("an expression"),
        };
        let mut out = Expr { at, kind };
        while self.is("[") {
            let index = self.expr(0)?;
            self.expect("]")?;
            out = Expr { at, kind: Kind::Element(Box::new(out), Box::new(index)) };
        }
        Ok(out)
    }

    /// `else { … }` or `else if …`.
    fn other(&mut self) -> Result<Block> {
        self.expect("else")?;
        if *self.peek() == Token::Name("if".to_owned()) {
            return Ok(Block { stmts: vec![], value: Some(Box::new(self.nested(Self::primary)?)) });
        }
        self.block()
    }
}
