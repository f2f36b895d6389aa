//! Abstract syntax of the reversible language: statements over places, and pure expressions.
//!
//! **Question.** What is a reversible function, as text and builder make it?
//!
//! **Answer.** A list of statements, each of which can be undone by another statement
//! ([`crate::invert`]). A statement changes *places*; what it reads besides is the same before and
//! after. Every node knows where it stands: line and column of a text, or the number of the
//! builder's statement. Places and expressions compare by their spelling, wherever they stand.
//!
//! | type | what it is |
//! |---|---|
//! | [`File`] | records and functions |
//! | [`Function`], [`FnParam`] | a function; a place of the caller's |
//! | [`Type`], [`Len`] | what lies in a place; how long an array is |
//! | [`Stmt`], [`StmtKind`] | a statement, which has an inverse |
//! | [`RevPlace`], [`PathStep`] | a name, and the indices and fields that lead from there |
//! | [`Expr`], [`ExprKind`] | a pure expression |
//! | [`CheckMode`] | what is checked at run time of what a program claims |
//!
//! **Cost.** A tree with owned names. [`Expr::reads`] walks an expression once.
//!
//! **Source.** C. Lutz: Janus, a time-reversible language (1986). J.-G. Liu, T. Zhao:
//! Differentiate everything with a reversible embedded domain-specific language. arXiv:2003.04617
//! (2020).

/// Where something stands.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { neg x }").expect("it is of the language");
/// assert_eq!(file.functions[0].at.line, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceSpan {
    /// Line, from 1; of a builder the number of the statement in its function, zero of the function
    /// itself.
    pub line: u32,
    /// Column, from 1; zero in what a builder has made.
    pub column: u32,
}

/// A file: records and functions, in order.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { neg x }").expect("it is of the language");
/// assert_eq!(file.to_string(), "fn f(x: f64) {\n    neg x\n}\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Records.
    pub records: Vec<RecordType>,
    /// Functions.
    pub functions: Vec<Function>,
}

/// A record: named fields, one after the other in memory.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("record Ball { at: f64, speed: f64 } fn f(b: Ball) { b.at += b.speed }").expect("it is of the language");
/// assert_eq!(file.records[0].fields[1], ("speed".to_owned(), Type::F64));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RecordType {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<(String, Type)>,
    /// Where it stands.
    pub at: SourceSpan,
}

/// A function.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { neg x }").expect("it is of the language");
/// assert_eq!((&file.functions[0].name[..], file.functions[0].check), ("f", CheckMode::default()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it is given.
    pub params: Vec<FnParam>,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// What is checked, but in regions that say otherwise.
    pub check: CheckMode,
    /// Where it stands.
    pub at: SourceSpan,
}

impl Function {
    /// Its name and its parameters, as they are written.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let file = parse("fn f(x: f64, n: in i64) { neg x }").expect("it is of the language");
    /// assert_eq!(file.functions[0].head(), "f(x: f64, n: in i64)");
    /// ```
    pub fn head(&self) -> String {
        let param = |p: &FnParam| format!("{}: {}{}", p.name, if p.input { "in " } else { "" }, p.ty);
        format!("{}({})", self.name, self.params.iter().map(param).collect::<Vec<_>>().join(", "))
    }
}

/// A parameter: a place of the caller's.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64, n: in i64) { neg x }").expect("it is of the language");
/// let n = &file.functions[0].params[1];
/// assert!(n.name == "n" && n.ty == Type::I64 && n.input);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FnParam {
    /// Its name.
    pub name: String,
    /// What lies there.
    pub ty: Type,
    /// Whether it is read only.
    pub input: bool,
    /// Where it stands.
    pub at: SourceSpan,
}

/// What lies in a place.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let row = Type::Array(Box::new(Type::F64), Len::Fixed(3));
/// assert_eq!(Type::Stack(Box::new(row), Len::Param("n".to_owned())).to_string(), "stack [[f64 x 3] x n]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A double.
    F64,
    /// A single.
    F32,
    /// Two doubles: real and imaginary part.
    Complex,
    /// An integer of 64 bits.
    I64,
    /// An integer of 32 bits.
    I32,
    /// A fixed-point number: a double that is a multiple of 2⁻⁴³, and no more than 2¹⁰ in size, so
    /// that sums are exact.
    Q43,
    /// A positive number by its logarithm, a double.
    Log,
    /// So many, one after the other.
    Array(Box<Type>, Len),
    /// A stack: how many there are, as an integer of 64 bits, and room for so many.
    Stack(Box<Type>, Len),
    /// A record of this name.
    Record(String),
}

/// How long an array is.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!([Len::Fixed(3), Len::Param("n".to_owned())].map(|n| n.to_string()), ["3", "n"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Len {
    /// So long.
    Fixed(u32),
    /// As this parameter of the function says.
    Param(String),
}

/// What is checked of what a program claims.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!(CheckMode::default(), CheckMode::Within(1e-8));
/// assert_eq!([CheckMode::Off, CheckMode::Within(1e-6), CheckMode::Bits].map(|c| c.to_string()), ["off", "1e-6", "bits"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckMode {
    /// Nothing: claims are believed, and indices are taken to be in range.
    Off,
    /// Floats may differ by so much, in proportion; what is to be zero, by as much as that. Singles
    /// may by the root of it. Integers may not.
    Within(f64),
    /// All bits count.
    Bits,
}

impl Default for CheckMode {
    fn default() -> Self {
        Self::Within(1e-8)
    }
}

/// A statement.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { neg x }").expect("it is of the language");
/// assert_eq!(file.functions[0].body[0].kind, StmtKind::Negate(place("x")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands.
    pub at: SourceSpan,
}

impl Stmt {
    /// Its expressions, without those in its blocks and in indices of its places.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        use StmtKind as S;
        match &self.kind {
            S::Update { by, .. } | S::Rotate { by, .. } => vec![by],
            S::If { pre: a, post: b, .. } | S::While { from: a, cond: b, .. } | S::For { from: a, to: b, .. } => {
                vec![a, b]
            }
            S::Let { value, .. } | S::Drop { value, .. } => vec![value],
            S::Call { args, .. } => args.iter().collect(),
            _ => vec![],
        }
    }

    /// Its blocks.
    pub(crate) fn blocks(&self) -> Vec<&[Self]> {
        use StmtKind as S;
        match &self.kind {
            S::If { then: a, other: b, .. } | S::Compute { compute: a, copy: b } => vec![a, b],
            S::While { body, .. } | S::For { body, .. } | S::Checked { body, .. } => vec![body],
            _ => vec![],
        }
    }
}

/// How a place is updated by an expression.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!([UpdateOp::Add, UpdateOp::Xor].map(|op| op.to_string()), ["+=", "^="]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOp {
    /// `+=`
    Add,
    /// `-=`
    Sub,
    /// `^=`, of integers.
    Xor,
    /// `*=`, of logarithms.
    Mul,
    /// `/=`, of logarithms.
    Div,
}

/// What a statement does.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64, y: f64) { swap x, y }").expect("it is of the language");
/// assert_eq!(file.functions[0].body[0].kind, StmtKind::Swap(place("x"), place("y")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Update a place by an expression that does not read it.
    Update {
        /// How.
        op: UpdateOp,
        /// The place.
        to: RevPlace,
        /// By what.
        by: Expr,
    },
    /// Exchange two places.
    Swap(RevPlace, RevPlace),
    /// Rotate the plane of two floats by an angle, or back.
    Rotate {
        /// The first coordinate.
        a: RevPlace,
        /// The second.
        b: RevPlace,
        /// The angle, in radians.
        by: Expr,
        /// Whether it goes back.
        back: bool,
    },
    /// Change the sign.
    Negate(RevPlace),
    /// Add one, or subtract it.
    Step {
        /// What is counted.
        place: RevPlace,
        /// Whether it goes down.
        down: bool,
    },
    /// Choose by `pre`, which says before what `post` says after.
    If {
        /// The condition.
        pre: Expr,
        /// What holds after it, if and only if `pre` held.
        post: Expr,
        /// If it holds.
        then: Vec<Stmt>,
        /// If not.
        other: Vec<Stmt>,
    },
    /// Repeat while `cond` holds. `from` holds at first, and after no iteration.
    While {
        /// What holds at first only.
        from: Expr,
        /// The condition.
        cond: Expr,
        /// An iteration.
        body: Vec<Stmt>,
    },
    /// Count from one number to another one, which is not reached. Neither changes.
    For {
        /// What counts.
        var: String,
        /// The first number.
        from: Expr,
        /// The number after the last.
        to: Expr,
        /// Whether it counts down, from the last to the first.
        back: bool,
        /// An iteration.
        body: Vec<Stmt>,
    },
    /// A new place with known contents.
    Let {
        /// Its name.
        name: String,
        /// What it is.
        ty: Type,
        /// What it holds; of an array, each of its numbers.
        value: Expr,
    },
    /// The end of a place, whose contents are known.
    Drop {
        /// Its name.
        name: String,
        /// What it is; the text may leave it out.
        ty: Option<Type>,
        /// What it holds.
        value: Expr,
    },
    /// Compute, copy, and undo the first.
    Compute {
        /// What is undone in the end.
        compute: Vec<Stmt>,
        /// What happens between.
        copy: Vec<Stmt>,
    },
    /// Call a function, or the inverse of one.
    Call {
        /// Its name.
        name: String,
        /// A place or an expression for each parameter.
        args: Vec<Expr>,
        /// Whether the inverse is called: an un-call.
        un_call: bool,
    },
    /// Move a place's contents onto a stack, which leaves zero.
    Push {
        /// The stack.
        stack: RevPlace,
        /// What is moved.
        from: RevPlace,
    },
    /// Move the top of a stack to a place that holds zero.
    Pop {
        /// The stack.
        stack: RevPlace,
        /// Where it goes.
        to: RevPlace,
    },
    /// A region with checks of its own.
    Checked {
        /// What is checked.
        check: CheckMode,
        /// The region.
        body: Vec<Stmt>,
    },
}

/// A place: a name, and what leads from there.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let x = place("x").at(0);
/// assert_eq!((&x.root[..], &x.path[..], x.to_string()), ("x", &[PathStep::Index(num(0))][..], "x[0]".to_owned()));
/// ```
#[derive(Clone, Debug)]
pub struct RevPlace {
    /// The name.
    pub root: String,
    /// What leads from there.
    pub path: Vec<PathStep>,
    /// Where it stands.
    pub at: SourceSpan,
}

/// Places are the same if they are spelled alike, wherever they stand.
impl PartialEq for RevPlace {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root && self.path == other.path
    }
}

/// A step of a place.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!(place("z").field("re").path, [PathStep::Field("re".to_owned())]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// An element of an array.
    Index(Expr),
    /// A field of a record, or `re` and `im` of a complex number.
    Field(String),
}

/// A pure expression.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!(num(2).kind, ExprKind::Int(2));
/// ```
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub at: SourceSpan,
}

/// Expressions are the same if they are spelled alike, wherever they stand.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// What an expression is.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!(num(0.5).kind, ExprKind::Float(0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A number with a point.
    Float(f64),
    /// A number without one.
    Int(i64),
    /// What lies in a place; or the number of an iteration.
    Read(RevPlace),
    /// A sign, or a negation.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A function of numbers.
    Apply(String, Vec<Expr>),
}

/// Operators of one operand.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!((-num(2)).kind, ExprKind::Unary(UnaryOp::Neg, Box::new(num(2))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `not c`
    Not,
}

/// Operators of two operands.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert!(matches!((num(2) + 3).kind, ExprKind::Binary(BinaryOp::Add, ..)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`; of integers, towards zero.
    Div,
    /// `a % b`, of integers.
    Rem,
    /// `a & b`, of integers.
    And,
    /// `a | b`, of integers.
    Or,
    /// `a ^ b`, of integers.
    Xor,
    /// `a << b`, of integers.
    Shl,
    /// `a >> b`, of integers with a sign.
    Shr,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a and b`, of conditions.
    Both,
    /// `a or b`, of conditions.
    Either,
}

impl BinaryOp {
    /// As it is written.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// assert_eq!(BinaryOp::Le.text(), "<=");
    /// ```
    pub fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Both => "and",
            Self::Either => "or",
        }
    }

    /// How tightly it binds.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// assert!(BinaryOp::Mul.level() > BinaryOp::Add.level());
    /// ```
    pub fn level(self) -> u8 {
        match self {
            Self::Either => 1,
            Self::Both => 2,
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge => 3,
            Self::Or => 4,
            Self::Xor => 5,
            Self::And => 6,
            Self::Shl | Self::Shr => 7,
            Self::Add | Self::Sub => 8,
            Self::Mul | Self::Div | Self::Rem => 9,
        }
    }
}

impl Expr {
    /// Each place that it reads, and each that an index of such a place reads.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let (e, mut found) = (place("x").at(place("i")) + 1, vec![]);
    /// e.reads(&mut found);
    /// assert!(found.contains(&&place("x").at(place("i"))) && found.contains(&&place("i")));
    /// ```
    pub fn reads<'e>(&'e self, found: &mut Vec<&'e RevPlace>) {
        match &self.kind {
            ExprKind::Float(_) | ExprKind::Int(_) => {}
            ExprKind::Read(place) => {
                found.push(place);
                place.index_reads(found);
            }
            ExprKind::Unary(_, a) => a.reads(found),
            ExprKind::Binary(_, a, b) => {
                a.reads(found);
                b.reads(found);
            }
            ExprKind::Apply(_, args) => args.iter().for_each(|a| a.reads(found)),
        }
    }

    /// Whether it applies one of these functions.
    pub(crate) fn applies(&self, names: &[&str]) -> bool {
        match &self.kind {
            ExprKind::Float(_) | ExprKind::Int(_) | ExprKind::Read(_) => false,
            ExprKind::Unary(_, a) => a.applies(names),
            ExprKind::Binary(_, a, b) => a.applies(names) || b.applies(names),
            ExprKind::Apply(name, args) => names.contains(&name.as_str()) || args.iter().any(|a| a.applies(names)),
        }
    }

    /// The opposite of a condition.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let less = num(1).less(place("n"));
    /// assert_eq!(less.negated().to_string(), "not (1 < n)");
    /// assert_eq!(less.negated().negated(), less);
    /// ```
    pub fn negated(&self) -> Self {
        match &self.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => (**inner).clone(),
            _ => Self { kind: ExprKind::Unary(UnaryOp::Not, Box::new(self.clone())), at: self.at },
        }
    }
}

impl RevPlace {
    /// The places that its indices read.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let (x, mut found) = (place("x").at(place("i")), vec![]);
    /// x.index_reads(&mut found);
    /// assert_eq!(found, [&place("i")]);
    /// ```
    pub fn index_reads<'e>(&'e self, found: &mut Vec<&'e RevPlace>) {
        for step in &self.path {
            if let PathStep::Index(i) = step {
                i.reads(found);
            }
        }
    }
}
