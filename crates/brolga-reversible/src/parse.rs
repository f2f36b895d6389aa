//! Parser: from the text of the reversible language to functions.
//!
//! **Question.** What does a `.rev` file say?
//!
//! **Answer.** Records and functions, by recursive descent over [`crate::lex`], with operators by
//! their levels ([`BinaryOp::level`]). A statement is a line; blocks have braces. A word such as
//! `swap` is a name of a place where an operator follows it.
//!
//! ```text
//! record NAME { field: TYPE, … }
//! fn NAME(x: TYPE, y: in TYPE, …) check off { … }
//! ```
//!
//! **Errors.** After an error the parser goes on at the next line that begins with `fn` or
//! `record`, so that each function has one error at most. Where other languages write something
//! that is known, the error says what is written here instead.
//!
//! **Invariant.** Recursion is bounded: at most 200 blocks and brackets are open at a time, and a
//! statement has at most 1000 operators.
//!
//! **Cost.** Linear in the text, but for a condition of `if` in brackets, which may be read twice.

use crate::ast::{
    BinaryOp, CheckMode, Expr, ExprKind, File, FnParam, Function, Len, PathStep, RecordType, RevPlace, SourceSpan,
    Stmt, StmtKind, Type, UnaryOp, UpdateOp,
};
use crate::error::{ErrorKind, RevError};
use crate::lex::{Token, tokens};

/// Read a text.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { neg x }").expect("it is of the language");
/// assert_eq!(file.functions[0].name, "f");
/// assert_eq!(parse("fn f(").unwrap_err()[0].kind.code(), "AD0031");
/// ```
///
/// # Errors
/// What is no text of the language: one error for each function at most.
pub fn parse(text: &str) -> Result<File, Vec<RevError>> {
    let tokens = tokens(text).map_err(|e| vec![e])?;
    let mut parser = Parser { tokens, next: 0, depth: 0, operators: 0 };
    let (mut file, mut errors) = (File::default(), Vec::new());
    loop {
        parser.lines();
        let at = parser.at();
        let found = match parser.peek() {
            Token::End => break,
            Token::Name(n) if n == "fn" => parser.function().map(|f| file.functions.push(f)),
            Token::Name(n) if n == "record" => parser.record().map(|r| file.records.push(r)),
            other => {
                let e =
                    RevError::new(ErrorKind::Syntax, at, format!("expected `fn` or `record`, found {}", other.text()));
                Err(e.help("a file holds functions and records; comments begin with `;`"))
            }
        };
        if let Err(e) = found {
            errors.push(e);
            parser.skip();
        }
    }
    if errors.is_empty() { Ok(file) } else { Err(errors) }
}

/// Blocks and brackets that may be open at a time.
const MOST_DEEP: u32 = 200;

/// Operators of a statement.
const MOST_OPERATORS: u32 = 1000;

struct Parser {
    tokens: Vec<(Token, SourceSpan)>,
    next: usize,
    depth: u32,
    operators: u32,
}

type ParseResult<T> = Result<T, RevError>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> SourceSpan {
        self.tokens[self.next].1
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(s) if *s == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(n) if n == word)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.take();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.take();
        }
        found
    }

    fn wrong<T>(&self, wanted: &str) -> ParseResult<T> {
        let message = format!("expected {wanted}, found {}", self.peek().text());
        let e = RevError::new(ErrorKind::Syntax, self.at(), message);
        let help = match self.peek() {
            Token::End => "a bracket, or a statement, is not finished: look at where it begins",
            Token::Sign("=") => "`==` compares; `let` and `drop` say what a place holds",
            Token::Sign("/") => "a comment begins with `;`",
            Token::Sign("-" | ">") => "nothing is returned: a result is added to a place that is a parameter",
            _ => return Err(e),
        };
        Err(e.help(help))
    }

    fn expect(&mut self, sign: &str) -> ParseResult<()> {
        if self.eat(sign) { Ok(()) } else { self.wrong(&format!("`{sign}`")) }
    }

    fn expect_word(&mut self, word: &str) -> ParseResult<()> {
        if self.eat_word(word) { Ok(()) } else { self.wrong(&format!("`{word}`")) }
    }

    fn name(&mut self) -> ParseResult<String> {
        match self.peek().clone() {
            Token::Name(n) => {
                self.take();
                Ok(n)
            }
            _ => self.wrong("a name"),
        }
    }

    fn lines(&mut self) {
        while *self.peek() == Token::Line {
            self.take();
        }
    }

    /// Go to the next function.
    fn skip(&mut self) {
        while *self.peek() != Token::End {
            self.take();
            let begins = self.next > 0 && self.tokens[self.next - 1].0 == Token::Line && self.at().column == 1;
            if begins && (self.is_word("fn") || self.is_word("record")) {
                return;
            }
        }
    }

    /// Whether a function begins here, as none does in a block.
    fn begins_function(&self) -> bool {
        let next = self.tokens.get(self.next + 1);
        self.is_word("fn") && next.is_some_and(|t| matches!(t.0, Token::Name(_)))
    }

    fn deeper<T>(&mut self, of: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        self.depth += 1;
        if self.depth > MOST_DEEP {
            return Err(RevError::new(ErrorKind::Syntax, self.at(), "too many brackets or blocks are open"));
        }
        let found = of(self);
        self.depth -= 1;
        found
    }

    fn record(&mut self) -> ParseResult<RecordType> {
        let at = self.at();
        self.expect_word("record")?;
        let name = self.name()?;
        self.expect("{")?;
        let mut fields = Vec::new();
        self.lines();
        while !self.eat("}") {
            let field = self.name()?;
            self.expect(":")?;
            fields.push((field, self.ty()?));
            if !self.eat(",") && *self.peek() != Token::Line && !self.is("}") {
                return self.wrong("`,` or `}`");
            }
            self.lines();
        }
        Ok(RecordType { name, fields, at })
    }

    fn function(&mut self) -> ParseResult<Function> {
        self.depth = 0;
        let at = self.at();
        self.expect_word("fn")?;
        let name = self.name()?;
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.eat(")") {
            let at = self.at();
            let name = self.name()?;
            self.expect(":")?;
            let input = self.eat_word("in");
            params.push(FnParam { name, ty: self.ty()?, input, at });
            if !self.eat(",") && !self.is(")") {
                return self.wrong("`,` or `)`");
            }
        }
        let check = if self.eat_word("check") { self.check()? } else { CheckMode::default() };
        let body = self.block()?;
        Ok(Function { name, params, body, check, at })
    }

    fn check(&mut self) -> ParseResult<CheckMode> {
        match self.peek().clone() {
            Token::Name(n) if n == "off" => {
                self.take();
                Ok(CheckMode::Off)
            }
            Token::Name(n) if n == "bits" => {
                self.take();
                Ok(CheckMode::Bits)
            }
            Token::Float(x) if x > 0.0 && x.is_finite() => {
                self.take();
                Ok(CheckMode::Within(x))
            }
            _ => self.wrong("`off`, `bits` or a tolerance such as `1e-8`"),
        }
    }

    fn ty(&mut self) -> ParseResult<Type> {
        self.deeper(|p| {
            if p.eat("[") {
                let (ty, len) = p.element()?;
                return Ok(Type::Array(ty, len));
            }
            let name = p.name()?;
            Ok(match name.as_str() {
                "f64" => Type::F64,
                "f32" => Type::F32,
                "complex" => Type::Complex,
                "i64" => Type::I64,
                "i32" => Type::I32,
                "q43" => Type::Q43,
                "log" => Type::Log,
                "stack" => {
                    p.expect("[")?;
                    let (ty, len) = p.element()?;
                    Type::Stack(ty, len)
                }
                _ => Type::Record(name),
            })
        })
    }

    fn element(&mut self) -> ParseResult<(Box<Type>, Len)> {
        let ty = Box::new(self.ty()?);
        // The lexer knows no `;`, which begins a comment.
        self.expect_word("x")?;
        let at = self.at();
        let len = match self.take() {
            Token::Int(n) => match u32::try_from(n) {
                Ok(n) if n > 0 && n <= 1 << 28 => Len::Fixed(n),
                _ => return Err(RevError::new(ErrorKind::Syntax, at, format!("{n} is no length"))),
            },
            Token::Name(n) => Len::Param(n),
            other => {
                let message = format!("expected a length, found {}", other.text());
                return Err(RevError::new(ErrorKind::Syntax, at, message));
            }
        };
        self.expect("]")?;
        Ok((ty, len))
    }

    fn block(&mut self) -> ParseResult<Vec<Stmt>> {
        self.deeper(|p| {
            // It may begin on a line of its own.
            let behind = p.next;
            p.lines();
            if !p.is("{") {
                p.next = behind;
            }
            let open = p.at();
            p.expect("{")?;
            let mut body = Vec::new();
            loop {
                p.lines();
                if p.eat("}") {
                    return Ok(body);
                }
                if *p.peek() == Token::End || p.begins_function() {
                    return Err(RevError::new(ErrorKind::Syntax, open, "this brace is never closed"));
                }
                body.push(p.stmt()?);
                if *p.peek() != Token::Line && !p.is("}") {
                    return p.wrong("the end of the statement");
                }
            }
        })
    }

    fn stmt(&mut self) -> ParseResult<Stmt> {
        let at = self.at();
        self.operators = 0;
        let word = match self.peek() {
            Token::Name(n) => n.clone(),
            _ => return self.wrong("a statement"),
        };
        let kind = match word.as_str() {
            "if" => self.choice()?,
            "from" => {
                self.take();
                let from = self.expr()?;
                self.expect_word("while")?;
                let cond = self.expr()?;
                StmtKind::While { from, cond, body: self.block()? }
            }
            "for" => {
                self.take();
                let var = self.name()?;
                self.expect_word("in")?;
                let back = self.eat_word("back");
                let from = self.expr()?;
                self.expect("..")?;
                let to = self.expr()?;
                StmtKind::For { var, from, to, back, body: self.block()? }
            }
            "compute" => {
                self.take();
                let compute = self.block()?;
                self.lines();
                self.expect_word("copy")?;
                StmtKind::Compute { compute, copy: self.block()? }
            }
            "check" => {
                self.take();
                let check = self.check()?;
                StmtKind::Checked { check, body: self.block()? }
            }
            _ => self.simple(&word)?,
        };
        Ok(Stmt { kind, at })
    }

    /// `if c { … } else { … }`, `if (pre, post) { … }`.
    fn choice(&mut self) -> ParseResult<StmtKind> {
        self.take();
        let (both, depth) = (self.next, self.depth);
        let pair = self.eat("(").then(|| {
            let pre = self.expr().ok()?;
            self.eat(",").then(|| self.expr().map(|post| (pre, post)))
        });
        let (pre, post) = match pair.flatten() {
            Some(post) => {
                let found = post?;
                self.expect(")")?;
                found
            }
            None => {
                (self.next, self.depth) = (both, depth);
                let pre = self.expr()?;
                (pre.clone(), pre)
            }
        };
        let then = self.block()?;
        // An `else` may stand on a line of its own.
        let behind = self.next;
        self.lines();
        let other = if self.eat_word("else") {
            if self.is_word("if") {
                let at = self.at();
                vec![Stmt { kind: self.deeper(Self::choice)?, at }]
            } else {
                self.block()?
            }
        } else {
            self.next = behind;
            Vec::new()
        };
        Ok(StmtKind::If { pre, post, then, other })
    }

    /// A statement without a block.
    fn simple(&mut self, word: &str) -> ParseResult<StmtKind> {
        let here = self.next;
        self.take();
        let pair = |p: &mut Self| {
            let a = p.place()?;
            p.expect(",")?;
            Ok((a, p.place()?))
        };
        // A name that is also a word of the language is a place where an operator follows.
        if !matches!(self.peek(), Token::Name(_)) {
            self.next = here;
            return self.update();
        }
        Ok(match word {
            "swap" => {
                let (a, b) = pair(self)?;
                StmtKind::Swap(a, b)
            }
            "rotate" | "unrotate" => {
                let (a, b) = pair(self)?;
                self.expect_word("by")?;
                StmtKind::Rotate { a, b, by: self.expr()?, back: word == "unrotate" }
            }
            "neg" => StmtKind::Negate(self.place()?),
            "inc" | "dec" => StmtKind::Step { place: self.place()?, down: word == "dec" },
            "let" => {
                let name = self.name()?;
                let whole = |e: RevError| e.help("a place has a type, and known contents: `let t: f64 = 0`");
                self.expect(":").map_err(whole)?;
                let ty = self.ty()?;
                self.expect("=").map_err(whole)?;
                StmtKind::Let { name, ty, value: self.expr()? }
            }
            "drop" => {
                let name = self.name()?;
                let ty = if self.eat(":") { Some(self.ty()?) } else { None };
                self.expect("=")?;
                StmtKind::Drop { name, ty, value: self.expr()? }
            }
            "call" | "uncall" => {
                let name = self.name()?;
                self.expect("(")?;
                StmtKind::Call { name, args: self.args()?, un_call: word == "uncall" }
            }
            "push" | "pop" => {
                let (stack, place) = pair(self)?;
                if word == "push" { StmtKind::Push { stack, from: place } } else { StmtKind::Pop { stack, to: place } }
            }
            _ => {
                self.next = here;
                return self.update();
            }
        })
    }

    fn update(&mut self) -> ParseResult<StmtKind> {
        let to = self.place()?;
        let op = match self.peek() {
            Token::Sign("+=") => UpdateOp::Add,
            Token::Sign("-=") => UpdateOp::Sub,
            Token::Sign("^=") => UpdateOp::Xor,
            Token::Sign("*=") => UpdateOp::Mul,
            Token::Sign("/=") => UpdateOp::Div,
            Token::Sign("=") => {
                let e = RevError::new(ErrorKind::Syntax, self.at(), "`=` forgets what was there, and cannot be undone");
                return Err(
                    e.help("update the place (`+=`, `-=`, `^=`), exchange it (`swap`), or make a new one (`let`)")
                );
            }
            _ => {
                let no_update = self.wrong("`+=`, `-=`, `^=`, `*=` or `/=`");
                return match self.meant(&to) {
                    Some(help) => no_update.map_err(|e| e.help(help)),
                    None => no_update,
                };
            }
        };
        self.take();
        Ok(StmtKind::Update { op, to, by: self.expr()? })
    }

    /// What other languages write so.
    fn meant(&self, to: &RevPlace) -> Option<String> {
        Some(match (&to.root[..], self.peek()) {
            ("while", _) => {
                "a loop says what holds when it begins, and behind no iteration: `from c while d { … }`".into()
            }
            ("return", _) => "nothing is returned: add to a place that is a parameter".into(),
            (name, Token::Sign("(")) => format!("a function is called by `call {name}(…)`"),
            (_, Token::Sign("+")) => format!("`inc {to}` adds one"),
            (_, Token::Sign("-")) => format!("`dec {to}` subtracts one"),
            _ => return None,
        })
    }

    fn place(&mut self) -> ParseResult<RevPlace> {
        let at = self.at();
        let mut place = RevPlace { root: self.name()?, path: vec![], at };
        loop {
            if self.eat("[") {
                place.path.push(PathStep::Index(self.deeper(Self::expr)?));
                self.expect("]")?;
            } else if self.eat(".") {
                place.path.push(PathStep::Field(self.name()?));
            } else {
                return Ok(place);
            }
        }
    }

    fn args(&mut self) -> ParseResult<Vec<Expr>> {
        let mut args = Vec::new();
        while !self.eat(")") {
            args.push(self.expr()?);
            if !self.eat(",") && !self.is(")") {
                return self.wrong("`,` or `)`");
            }
        }
        Ok(args)
    }

    fn expr(&mut self) -> ParseResult<Expr> {
        self.binary(1)
    }

    fn binary(&mut self, level: u8) -> ParseResult<Expr> {
        let mut left = self.unary()?;
        while let Some(op) = self.operator().filter(|op| op.level() >= level) {
            let at = self.at();
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                let e = RevError::new(ErrorKind::Syntax, at, "the statement has too many operators");
                return Err(e.help("add up in several statements"));
            }
            self.take();
            let right = self.deeper(|p| p.binary(op.level() + 1))?;
            left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), at };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<BinaryOp> {
        use BinaryOp as O;
        Some(match self.peek() {
            Token::Sign("+") => O::Add,
            Token::Sign("-") => O::Sub,
            Token::Sign("*") => O::Mul,
            Token::Sign("/") => O::Div,
            Token::Sign("%") => O::Rem,
            Token::Sign("&") => O::And,
            Token::Sign("|") => O::Or,
            Token::Sign("^") => O::Xor,
            Token::Sign("<<") => O::Shl,
            Token::Sign(">>") => O::Shr,
            Token::Sign("==") => O::Eq,
            Token::Sign("!=") => O::Ne,
            Token::Sign("<") => O::Lt,
            Token::Sign("<=") => O::Le,
            Token::Sign(">") => O::Gt,
            Token::Sign(">=") => O::Ge,
            Token::Name(n) if n == "and" => O::Both,
            Token::Name(n) if n == "or" => O::Either,
            _ => return None,
        })
    }

    fn unary(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let op = if self.eat("-") {
            if *self.peek() == Token::Int(i64::MIN) {
                self.take();
                return Ok(Expr { kind: ExprKind::Int(i64::MIN), at });
            }
            UnaryOp::Neg
        } else if self.eat_word("not") {
            UnaryOp::Not
        } else {
            return self.atom();
        };
        let of = self.deeper(|p| if op == UnaryOp::Not { p.binary(BinaryOp::Eq.level()) } else { p.unary() })?;
        // A number with a sign is a number.
        let kind = match (op, &of.kind) {
            (UnaryOp::Neg, ExprKind::Float(x)) => ExprKind::Float(-x),
            (UnaryOp::Neg, ExprKind::Int(n)) if *n != i64::MIN => ExprKind::Int(-n),
            _ => ExprKind::Unary(op, Box::new(of)),
        };
        Ok(Expr { kind, at })
    }

    fn atom(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let kind = match self.peek().clone() {
            Token::Int(i64::MIN) => {
                let message = "9223372036854775808 has more than 64 bits";
                return Err(RevError::new(ErrorKind::Syntax, at, message).help("the largest is 9223372036854775807"));
            }
            Token::Int(n) => {
                self.take();
                ExprKind::Int(n)
            }
            Token::Float(x) => {
                self.take();
                ExprKind::Float(x)
            }
            Token::Sign("(") => {
                self.take();
                let inner = self.deeper(Self::expr)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Name(name) => {
                if self.tokens.get(self.next + 1).is_some_and(|t| t.0 == Token::Sign("(")) {
                    self.take();
                    self.take();
                    ExprKind::Apply(name, self.deeper(Self::args)?)
                } else {
                    ExprKind::Read(self.place()?)
                }
            }
            _ => return self.wrong("an expression"),
        };
        Ok(Expr { kind, at })
    }
}
