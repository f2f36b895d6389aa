//! Names in scope, and the types of places and expressions.
//!
//! **Question.** What is an expression, and does a place hold what is done with it?
//!
//! **Answer.** A [`NameScope`] has the names that are there, with their types and roles
//! ([`NameRole`]). A place has the type that its path leads to. An expression has the type of its
//! operands, which are alike; a number that is written has the type of what stands beside it, or
//! what is wanted. Only a complex number and a double are mixed. Fixed-point numbers and logarithms
//! are stored in a form of their own, so in an expression they are converted by `float`.
//!
//! Lowering asks the same questions again ([`NameScope::expr`], [`NameScope::operands`]), so both
//! agree on every type.
//!
//! **Errors.** A name that is not there, a wrong type, a constant index out of range, a function
//! with other arguments; each with what to write instead.
//!
//! **Cost.** A name is found by a walk over the names in scope. An expression is typed by one walk,
//! and again at each operator where lowering asks.

use super::advice::{HOW_TO_SELECT, alike, instead, numbers};
use super::overlap::TypeResult;
use crate::ast::{BinaryOp, Expr, ExprKind, Function, Len, PathStep, RevPlace, SourceSpan, Type, UnaryOp};
use crate::error::{ErrorKind, RevError};
use crate::layout::{Layouts, Scalar};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRole {
    /// A place that may be changed.
    Place,
    /// What is read only.
    Input,
    /// The number of an iteration.
    Iteration,
}

#[derive(Clone, Debug)]
pub(super) struct Name {
    pub name: String,
    pub ty: Type,
    pub role: NameRole,
    /// In which block it was made; zero for parameters.
    pub depth: u32,
    pub at: SourceSpan,
}

/// Names and layouts, by which places have types.
#[derive(Clone, Debug)]
pub(crate) struct NameScope<'f> {
    pub(super) layouts: &'f Layouts,
    pub(super) names: Vec<Name>,
}

impl<'f> NameScope<'f> {
    /// The parameters of a function.
    pub(crate) fn of(function: &Function, layouts: &'f Layouts) -> Self {
        let name = |p: &crate::ast::FnParam| Name {
            name: p.name.clone(),
            ty: p.ty.clone(),
            role: if p.input { NameRole::Input } else { NameRole::Place },
            depth: 0,
            at: p.at,
        };
        Self { layouts, names: function.params.iter().map(name).collect() }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Name> {
        self.names.iter().find(|n| n.name == name)
    }

    pub(crate) fn push(&mut self, name: &str, ty: Type, role: NameRole) {
        self.names.push(Name { name: name.to_owned(), ty, role, depth: 0, at: SourceSpan::default() });
    }

    pub(crate) fn pop(&mut self, name: &str) {
        self.names.retain(|n| n.name != name);
    }

    /// What lies in a place.
    pub(crate) fn place(&self, place: &RevPlace) -> TypeResult<Type> {
        let Some(name) = self.find(&place.root) else {
            let message = format!("there is no `{}` here", place.root);
            return Err(
                RevError::new(ErrorKind::Name, place.at, message).help("make it with `let`, or take it as a parameter")
            );
        };
        let mut ty = name.ty.clone();
        for step in &place.path {
            ty = match (step, &ty) {
                (PathStep::Index(i), Type::Array(of, n)) => {
                    let found = self.expr(i, Some(Scalar::I64))?;
                    if !found.is_int() {
                        let message = format!("an index is an integer, and `{i}` is {}", found.name());
                        return Err(RevError::new(ErrorKind::Type, i.at, message).help("count in an i64"));
                    }
                    if let (ExprKind::Int(k), Len::Fixed(n)) = (&i.kind, n)
                        && !(0..i64::from(*n)).contains(k)
                    {
                        let message = format!("index {k} is out of range: there are {n}");
                        return Err(RevError::new(ErrorKind::Type, i.at, message).help("indices begin at 0"));
                    }
                    (**of).clone()
                }
                (PathStep::Field(f), Type::Record(r)) => match self.layouts.field(r, f) {
                    Some((ty, _)) => ty.clone(),
                    None => {
                        let e = RevError::new(ErrorKind::Name, place.at, format!("`{r}` has no field `{f}`"));
                        return Err(e.help(format!("`record {r}` names its fields")));
                    }
                },
                (PathStep::Field(f), Type::Complex) if f == "re" || f == "im" => Type::F64,
                (PathStep::Index(_), ty) => {
                    let message = format!("`{}` is {ty}, of which there is no element", place.root);
                    return Err(
                        RevError::new(ErrorKind::Type, place.at, message).help("elements are of arrays: `[T x n]`")
                    );
                }
                (PathStep::Field(f), ty) => {
                    let e = RevError::new(ErrorKind::Type, place.at, format!("{ty} has no field `{f}`"));
                    return Err(e.help("records have fields, and complex numbers `re` and `im`"));
                }
            };
        }
        Ok(ty)
    }

    /// What a place without parts holds.
    pub(crate) fn scalar(&self, place: &RevPlace) -> TypeResult<Scalar> {
        let ty = self.place(place)?;
        Scalar::of(&ty).ok_or_else(|| {
            let e = RevError::new(ErrorKind::Type, place.at, format!("`{place}` is {ty}, and a number is needed"));
            e.help("name one element, or one field")
        })
    }

    /// What an expression is. Numbers without a type of their own are what is wanted.
    pub(crate) fn expr(&self, e: &Expr, want: Option<Scalar>) -> TypeResult<Scalar> {
        let wrong = |message: String| RevError::new(ErrorKind::Type, e.at, message);
        match &e.kind {
            ExprKind::Float(_) => Ok(match want {
                Some(Scalar::F32) => Scalar::F32,
                Some(Scalar::Complex) => Scalar::Complex,
                _ => Scalar::F64,
            }),
            ExprKind::Int(n) if want == Some(Scalar::I32) && i32::try_from(*n).is_err() => {
                Err(wrong(format!("{n} has more than 32 bits")).help("use an i64, and `long(k)` of what has 32"))
            }
            ExprKind::Int(_) => Ok(match want {
                Some(w @ (Scalar::F64 | Scalar::F32 | Scalar::Complex | Scalar::I32)) => w,
                Some(Scalar::Q43 | Scalar::Log) => Scalar::F64,
                _ => Scalar::I64,
            }),
            ExprKind::Read(place) => self.scalar(place),
            ExprKind::Unary(UnaryOp::Not, a) => {
                self.condition(a)?;
                Ok(Scalar::Bool)
            }
            ExprKind::Unary(UnaryOp::Neg, a) => match self.expr(a, want)? {
                found @ (Scalar::Bool | Scalar::Log | Scalar::Q43) => {
                    let help = "subtract it (`-=`), or take `-float(x)`; of a condition, `not` is the opposite";
                    Err(wrong(format!("{} has no sign to change here", found.name())).help(help))
                }
                found => Ok(found),
            },
            ExprKind::Binary(op, a, b) => self.binary(e, *op, a, b, want),
            ExprKind::Apply(name, args) => self.apply(e, name, args, want),
        }
    }

    /// The common type of two operands.
    pub(crate) fn operands(&self, a: &Expr, b: &Expr, want: Option<Scalar>) -> TypeResult<(Scalar, Scalar)> {
        // A number has the type of what stands beside it.
        let (x, y) = if is_number(a) && !is_number(b) {
            let y = self.expr(b, want)?;
            (self.expr(a, Some(y))?, y)
        } else {
            let x = self.expr(a, want)?;
            (x, self.expr(b, if is_number(b) && !is_number(a) { Some(x) } else { want })?)
        };
        Ok((x, y))
    }

    fn binary(&self, e: &Expr, op: BinaryOp, a: &Expr, b: &Expr, want: Option<Scalar>) -> TypeResult<Scalar> {
        use BinaryOp as O;
        if let O::Both | O::Either = op {
            self.condition(a)?;
            self.condition(b)?;
            return Ok(Scalar::Bool);
        }
        let compares = compares(op);
        let (x, y) = self.operands(a, b, type_of_operands(op, want))?;
        let wrong = |why: &str| {
            let message = format!("`{}` of {} and {}: {why}", op.text(), x.name(), y.name());
            RevError::new(ErrorKind::Type, e.at, message)
        };
        if compares {
            let ordered =
                matches!(x, Scalar::F64 | Scalar::F32 | Scalar::I64 | Scalar::I32 | Scalar::Q43 | Scalar::Log);
            let help = if x == y { instead(op.text(), x) } else { alike(x, y) };
            let no = || wrong("only numbers of one type that have an order are compared").help(help);
            return if x == y && ordered { Ok(Scalar::Bool) } else { Err(no()) };
        }
        match op {
            O::Rem | O::And | O::Or | O::Xor | O::Shl | O::Shr if x == y && x.is_int() => Ok(x),
            O::Rem | O::And | O::Or | O::Xor | O::Shl | O::Shr => {
                let power = "a power is `pow(x, y)`; conditions are joined by `and`, `or`";
                let help = if x.is_int() && y.is_int() { alike(x, y) } else { power };
                Err(wrong("it takes two integers of one width").help(help))
            }
            _ => match (x, y) {
                (Scalar::Complex, Scalar::F64) | (Scalar::F64, Scalar::Complex) => Ok(Scalar::Complex),
                (Scalar::Q43 | Scalar::Log, _) | (_, Scalar::Q43 | Scalar::Log) => {
                    let help = "`float(x)` is the number that it stands for, in an expression; alone, one is added to \
                                another (`x += y`), or multiplied with it (`p *= q`)";
                    Err(wrong("they are stored in a form of their own").help(help))
                }
                _ if x == y && x != Scalar::Bool => Ok(x),
                _ => Err(wrong("it takes two numbers of one type").help(alike(x, y))),
            },
        }
    }

    /// That an expression is a condition.
    pub(crate) fn condition(&self, e: &Expr) -> TypeResult<()> {
        match self.expr(e, None)? {
            Scalar::Bool => Ok(()),
            found => {
                let message = format!("`{e}` is {}, and a condition is needed", found.name());
                Err(RevError::new(ErrorKind::Type, e.at, message).help("compare it with something"))
            }
        }
    }

    fn apply(&self, e: &Expr, name: &str, args: &[Expr], want: Option<Scalar>) -> TypeResult<Scalar> {
        use Scalar as S;
        let wrong = |message: String| RevError::new(ErrorKind::Type, e.at, message);
        let count = match name {
            "sqrt" | "exp" | "log" | "sin" | "cos" | "tan" | "asin" | "acos" | "atan" | "sinh" | "cosh" | "tanh"
            | "abs" | "abs2" | "re" | "im" | "conj" | "float" | "single" | "long" => 1,
            "pow" | "atan2" | "hypot" | "min" | "max" | "complex" => 2,
            "select" => 3,
            _ => {
                let message = format!("there is no function `{name}` of numbers");
                return Err(RevError::new(ErrorKind::Name, e.at, message)
                    .help("functions of the file are called by `call`, as statements"));
            }
        };
        if args.len() != count {
            let message = format!("`{name}` takes {count} {}, and is given {}", numbers(count), args.len());
            return Err(wrong(message).help(format!("write `{name}({})`", ["x", "y", "z"][..count].join(", "))));
        }
        let no_such = |ty: Scalar| wrong(format!("there is no `{name}` of {}", ty.name())).help(instead(name, ty));
        if name == "select" {
            self.condition(&args[0])?;
            let (x, y) = self.operands(&args[1], &args[2], type_of_argument(name, want))?;
            let fits = x == y && matches!(x, S::F64 | S::F32 | S::I64 | S::I32);
            let no = || wrong(format!("`select` of {} and {}", x.name(), y.name())).help(HOW_TO_SELECT);
            return if fits { Ok(x) } else { Err(no()) };
        }
        if count == 2 {
            let (x, y) = self.operands(&args[0], &args[1], type_of_argument(name, want))?;
            return match (name, x, y) {
                ("complex", S::F64, S::F64) => Ok(S::Complex),
                ("min" | "max", S::I64 | S::I32, _) if x == y => Ok(x),
                ("pow" | "atan2" | "hypot" | "min" | "max", S::F64, S::F64) => Ok(S::F64),
                ("pow" | "atan2" | "hypot" | "min" | "max", S::F32, S::F32) => Ok(S::F32),
                _ => Err(wrong(format!("`{name}` of {} and {}", x.name(), y.name())).help(alike(x, y))),
            };
        }
        let x = self.expr(&args[0], type_of_argument(name, want))?;
        match (name, x) {
            ("float", S::F64 | S::F32 | S::I64 | S::I32 | S::Q43 | S::Log) => Ok(S::F64),
            ("single", S::F64) => Ok(S::F32),
            ("long", S::I32) => Ok(S::I64),
            ("abs" | "abs2", S::F32) => Ok(S::F32),
            ("abs", S::I64 | S::I32) => Ok(x),
            ("re" | "im" | "abs" | "abs2", S::Complex) | ("abs" | "abs2", S::F64) => Ok(S::F64),
            ("conj" | "exp" | "log", S::Complex) => Ok(S::Complex),
            ("re" | "im" | "conj" | "float" | "single" | "long" | "abs" | "abs2", _) => Err(no_such(x)),
            (_, S::F64 | S::F32) => Ok(x),
            _ => Err(no_such(x)),
        }
    }
}

/// Whether an expression is made of written numbers alone, which have no type of their own.
fn is_number(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) => true,
        ExprKind::Unary(UnaryOp::Neg, a) => is_number(a),
        ExprKind::Binary(op, a, b) => {
            let is_condition = matches!(op, BinaryOp::Both | BinaryOp::Either) || compares(*op);
            !is_condition && is_number(a) && is_number(b)
        }
        ExprKind::Apply(name, args) if name == "select" && args.len() == 3 => args[1..].iter().all(is_number),
        ExprKind::Apply(name, args) => has_type_of_arguments(name) && args.iter().all(is_number),
        ExprKind::Read(_) | ExprKind::Unary(UnaryOp::Not, _) => false,
    }
}

fn compares(op: BinaryOp) -> bool {
    op.level() == BinaryOp::Eq.level()
}

/// Whether a function of numbers of one type is a number of that type.
fn has_type_of_arguments(name: &str) -> bool {
    !matches!(name, "float" | "single" | "long" | "complex" | "re" | "im" | "select")
}

/// What numbers without a type of their own are, as operands of what is wanted to be of a type.
pub(crate) fn type_of_operands(op: BinaryOp, want: Option<Scalar>) -> Option<Scalar> {
    use BinaryOp as O;
    match op {
        _ if compares(op) => None,
        O::Rem | O::And | O::Or | O::Xor | O::Shl | O::Shr => want.filter(|w| w.is_int()),
        _ => want,
    }
}

/// What numbers without a type of their own are, as arguments of a function that is wanted to be of
/// a type: floats where nothing says otherwise, with a point or without.
pub(crate) fn type_of_argument(name: &str, want: Option<Scalar>) -> Option<Scalar> {
    use Scalar as S;
    let may_be = |w: &S| match name {
        "min" | "max" | "abs" => matches!(w, S::F64 | S::F32 | S::I64 | S::I32),
        "exp" | "log" | "conj" => matches!(w, S::F64 | S::F32 | S::Complex),
        _ => matches!(w, S::F64 | S::F32),
    };
    match name {
        "select" => want.filter(|w| matches!(w, S::F64 | S::F32 | S::I64 | S::I32)),
        "long" => Some(S::I32),
        "complex" | "re" | "im" | "float" | "single" => Some(S::F64),
        _ => want.filter(may_be).or(Some(S::F64)),
    }
}
