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
    Binary(String, Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    If(Box<Expr>, Block, Option<Block>),
}

const KEYWORDS: [&str; 7] = ["fn", "let", "for", "in", "while", "if", "else"];

/// Longer ones first.
const SYMBOLS: &str = ".. <= >= == != ( ) { } [ ] , ; : = < > + - * / ^";

/// How strongly a binary operator binds. `^` binds to the right.
fn strength(op: &str) -> Option<u32> {
    Some(match op {
        "<" | "<=" | ">" | ">=" | "==" | "!=" => 1,
        "+" | "-" => 2,
        "*" | "/" => 3,
        "^" => 5,
        _ => return None,
    })
}
/// How strongly the minus of one operand binds.
const NEG: u32 = 4;

/// So deeply may expressions and blocks stand in each other.
const DEPTH: u32 = 100;

/// The functions of a file.
pub fn program(text: &str) -> Result<Vec<Function>> {
    let mut p = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let mut out = Vec::new();
    while !p.peek().is_empty() {
        out.push(p.function()?);
    }
    Ok(out)
}

/// One expression.
pub fn expression(text: &str) -> Result<Expr> {
    let mut p = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let e = p.expr(0)?;
    if p.peek().is_empty() { Ok(e) } else { p.unexpected("an operator or the end") }
}

/// Words and where they stand. The last is empty.
fn tokens(text: &str) -> Result<Vec<(At, &str)>> {
    let mut out = Vec::new();
    let (mut rest, mut at) = (text, At(1, 1));
    while let Some(c) = rest.chars().next() {
        let take = |f: &dyn Fn(char) -> bool| rest.find(|c| !f(c)).unwrap_or(rest.len());
        let len = if c.is_whitespace() {
            c.len_utf8()
        } else if c == '#' {
            take(&|c| c != '\n')
        } else if c.is_ascii_digit() {
            number(rest)
        } else if is_name(rest) {
            take(&|c| c.is_alphanumeric() || c == '_')
        } else if let Some(s) = SYMBOLS.split(' ').find(|s| rest.starts_with(s)) {
            s.len()
        } else {
            return error(at, format!("`{c}` is no symbol of the language"));
        };
        let (word, behind) = rest.split_at(len);
        if !c.is_whitespace() && c != '#' {
            out.push((at, word));
        }
        for c in word.chars() {
            at = if c == '\n' { At(at.0 + 1, 1) } else { At(at.0, at.1 + 1) };
        }
        rest = behind;
    }
    out.push((at, ""));
    Ok(out)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// How long a number is: that of `0..n` is `0`.
fn number(text: &str) -> usize {
    let digits = |at: usize| at + text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let from = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        end = if digits(from) > from { digits(from) } else { end };
    }
    end
}

struct Parser<'t> {
    tokens: Vec<(At, &'t str)>,
    next: usize,
    depth: u32,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &'t str {
        self.tokens[self.next].1
    }

    fn at(&self) -> At {
        self.tokens[self.next].0
    }

    fn unexpected<T>(&self, what: &str) -> Result<T> {
        let found = match self.peek() {
            "" => "the end of the text".to_owned(),
            word => format!("`{word}`"),
        };
        error(self.at(), format!("{what} is expected here, not {found}"))
    }

    /// Whether a word is next, which is taken then.
    fn is(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.is(word) { Ok(()) } else { self.unexpected(&format!("`{word}`")) }
    }

    fn name(&mut self) -> Result<String> {
        let word = self.peek();
        if !is_name(word) || KEYWORDS.contains(&word) {
            return self.unexpected("a name");
        }
        self.next += 1;
        Ok(word.to_owned())
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
                let is_if = self.peek() == "if";
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
            let negated = p.is("-");
            let mut left = if negated { p.expr(NEG)? } else { p.primary()? };
            if negated {
                left = Expr { at, kind: Kind::Neg(Box::new(left)) };
            }
            while let (op, Some(n)) = (p.peek(), strength(p.peek()))
                && n >= least
            {
                p.next += 1;
                let right = p.expr(if op == "^" { NEG } else { n + 1 })?;
                left = Expr { at, kind: Kind::Binary(op.to_owned(), Box::new(left), Box::new(right)) };
            }
            Ok(left)
        })
    }

    fn primary(&mut self) -> Result<Expr> {
        let (at, word) = (self.at(), self.peek());
        let kind = if let Ok(n) = word.parse() {
            self.next += 1;
            Kind::Int(n)
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.next += 1;
            Kind::Float(word.parse().expect("it has the form of one"))
        } else if self.is("(") {
            let e = self.expr(0)?;
            self.expect(")")?;
            return Ok(e);
        } else if self.is("[") {
            Kind::Array(self.list("]", |p| p.expr(0))?)
        } else if self.is("if") {
            let (condition, then) = (Box::new(self.expr(0)?), self.block()?);
            let is_chain = self.is("else");
            Kind::If(condition, then, if is_chain { Some(self.other()?) } else { None })
        } else if let Ok(name) = self.name() {
            if self.is("(") { Kind::Call(name, self.list(")", |p| p.expr(0))?) } else { Kind::Name(name) }
        } else {
            return self.unexpected("an expression");
        };
        let mut out = Expr { at, kind };
        while self.is("[") {
            let index = self.expr(0)?;
            self.expect("]")?;
            out = Expr { at, kind: Kind::Element(Box::new(out), Box::new(index)) };
        }
        Ok(out)
    }

    /// What follows `else`: a block, or another `if`.
    fn other(&mut self) -> Result<Block> {
        if self.peek() != "if" {
            return self.block();
        }
        Ok(Block { stmts: vec![], value: Some(Box::new(self.nested(Self::primary)?)) })
    }
}
