//! What a program returns and what its gradient is, by dual numbers and the slope of each
//! statement.
//!
//! Nothing of this runs the program: every manipulation of bits is known here as the function of
//! floats that it stands for, so this shares nothing with the interpreter, with the pass or with a
//! compiler.

use super::c::{inverse_constant, root_constant};
use super::program::{
    ARRAYS, Arith, BitOp, Choice, Cond, Float, INPUTS, Index, LENGTH, Lvalue, NUMBERS, PartOp, Program, Stmt,
    WrittenPart,
};

/// Numbers have been stored over all of a float, part by part, so that it is a constant.
const NO_DIGITS: &str = "a number without digits of its own";

/// A number with its derivative by every input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual {
    /// The number.
    pub v: f64,
    /// Its derivatives.
    pub d: [f64; INPUTS],
}

impl Dual {
    fn constant(v: f64) -> Self {
        Dual { v, d: [0.0; INPUTS] }
    }

    fn map(self, v: f64, slope: f64) -> Self {
        Dual { v, d: self.d.map(|d| d * slope) }
    }

    fn join(v: f64, a: Self, da: f64, b: Self, db: f64) -> Self {
        let mut d = [0.0; INPUTS];
        for (d, (a, b)) in d.iter_mut().zip(a.d.iter().zip(&b.d)) {
            *d = a * da + b * db;
        }
        Dual { v, d }
    }
}

/// What is right.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// What the program returns.
    pub value: f64,
    /// The gradient of what it returns, and of the caller's arrays weighted by their initial
    /// shadows.
    pub gradient: [f64; INPUTS],
    /// Why a reading of bits as floats is not certain somewhere: a number without an exponent, a
    /// change of sign.
    pub unsure: Option<&'static str>,
    /// The largest derivative of any number on the way.
    pub largest: f64,
}

/// Value and gradient of a program.
pub fn reference(program: &Program) -> Reference {
    let mut machine = Machine::new(program);
    machine.block(&program.body);
    machine.finish()
}

struct Machine<'a> {
    program: &'a Program,
    numbers: [Dual; NUMBERS],
    cells: [[Dual; LENGTH]; ARRAYS],
    tags: [[u32; LENGTH]; ARRAYS],
    state: u32,
    iteration: usize,
    unsure: Option<&'static str>,
    largest: f64,
}

impl<'a> Machine<'a> {
    fn new(program: &'a Program) -> Self {
        let input = |k: usize| {
            let f = program.input(k);
            let mut x = Dual::constant(f.number(f.of(program.inputs[k])));
            x.d[k] = 1.0;
            x
        };
        let cell = |a: usize, i: usize| match a {
            0 | 1 => input(3 + LENGTH * a + i),
            _ => Dual::constant(0.375 * (i + 1) as f64),
        };
        let cells = std::array::from_fn(|a| std::array::from_fn(|i| cell(a, i)));
        let numbers = [input(0), input(1), input(3), input(2), input(3 + LENGTH + 1)];
        let tags = [[1; LENGTH]; ARRAYS];
        Machine { program, numbers, cells, tags, state: program.state, iteration: 0, unsure: None, largest: 1.0 }
    }

    fn at(&self, index: Index) -> usize {
        match index {
            Index::Fixed(k) => k,
            Index::Iteration(k) => (self.iteration + k) % LENGTH,
        }
    }

    fn get(&self, place: Lvalue) -> Dual {
        match place {
            Lvalue::Number(n) => self.numbers[n],
            Lvalue::Cell(a, i) => self.cells[a][self.at(i)],
        }
    }

    fn set(&mut self, place: Lvalue, x: Dual) {
        let f = self.program.float(place);
        let v = f.number(f.of(x.v));
        self.note(&x);
        let x = Dual { v, ..x };
        match place {
            Lvalue::Number(n) => self.numbers[n] = x,
            Lvalue::Cell(a, i) => {
                let i = self.at(i);
                self.cells[a][i] = x;
            }
        }
    }

    fn note(&mut self, x: &Dual) {
        if !(1e-20..1e20).contains(&x.v.abs()) {
            self.unsure = Some("a number of unusual size");
        }
        self.largest = x.d.iter().fold(self.largest, |m, d| m.max(d.abs()));
    }

    fn finish(&mut self) -> Reference {
        let p = self.program;
        let f = p.kind.float(true);
        let round = |x: f64| f.number(f.of(x));
        let mut sum = Dual::constant(0.0);
        let mut add = |x: Dual, weights: &[f64]| {
            let w = weights.iter().fold(1.0, |w, x| round(w * x));
            sum = Dual::join(round(sum.v + round(w * x.v)), sum, 1.0, x, w);
        };
        for n in (0..NUMBERS).filter(|n| p.out[*n]) {
            add(self.numbers[n], &[Program::weight(n)]);
        }
        for a in (2..ARRAYS).filter(|a| p.out[NUMBERS + a - 2]) {
            for (i, x) in self.cells[a].iter().enumerate() {
                add(*x, &[Program::weight(NUMBERS + a - 2), (i + 1) as f64]);
            }
        }
        let mut total = sum;
        for k in 3..INPUTS {
            let (a, i) = ((k - 3) / LENGTH, (k - 3) % LENGTH);
            total = Dual::join(total.v, total, 1.0, self.cells[a][i], p.shadow(k));
        }
        self.note(&total);
        Reference { value: sum.v, gradient: total.d, unsure: self.unsure, largest: self.largest }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    fn next(&mut self) {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Move { dst, src, ops, .. } => {
                let f = self.program.float(*src);
                let mut x = self.get(*src);
                for op in ops {
                    x = self.op(f, *op, x);
                }
                self.set(*dst, x);
            }
            Stmt::Part(at, width, op, _) => {
                let x = self.part(self.program.float(*at), *width, *op, self.get(*at));
                self.set(*at, x);
            }
            Stmt::Arith(dst, a, b, arith) => self.arith(*dst, *a, *b, *arith),
            Stmt::Choose(dst, a, b, choice, _) => self.choose(*dst, *a, *b, *choice),
            Stmt::Handed(dst, a, b, how, _) => self.handed(*dst, (*a, *b), *how),
            Stmt::Exchange(a, b) | Stmt::Pack(a, b, _) => {
                let (x, y) = (self.get(*a), self.get(*b));
                self.set(*b, x);
                self.set(*a, y);
            }
            Stmt::PackState(..) => {}
            Stmt::Next => self.next(),
            Stmt::Hash(at) => {
                let f = self.program.float(*at);
                let bits = f.of(self.get(*at).v) >> (f.bits() - 32);
                self.state ^= (bits as u32).wrapping_mul(2_654_435_761);
            }
            Stmt::Uniform(at, wide) => {
                self.next();
                let double = *wide && self.program.float(*at) == Float::Double;
                let digits = if double {
                    f64::from(self.state) / 4_294_967_296.0
                } else {
                    f64::from(self.state >> 9) / 8_388_608.0
                };
                let (x, k) = (self.get(*at), 0.5 + digits);
                self.set(*at, x.map(x.v * k, k));
            }
            Stmt::Exponent(dst, src) => {
                let f = self.program.float(*src);
                let exponent = f.of(self.get(*src).v) >> f.mantissa() & 1;
                let (x, k) = (self.get(*dst), (1 + exponent) as f64);
                self.set(*dst, x.map(x.v * k, k));
            }
            Stmt::Tag(a, at) => {
                let at = self.at(*at);
                self.tags[*a][at] = self.state;
                if self.program.shared {
                    // Both arrays have the same.
                    self.tags[5 - *a][at] = self.state;
                }
            }
            Stmt::CopyCell(a, to, from, _) => {
                let (to, from) = (self.at(*to), self.at(*from));
                let both = if self.program.shared && *a >= 2 { vec![2, 3] } else { vec![*a] };
                for a in both {
                    self.cells[a][to] = self.cells[a][from];
                    self.tags[a][to] = self.tags[a][from];
                }
            }
            Stmt::CopyArray(to, from, _) => self.cells[*to] = self.cells[*from],
            Stmt::Lanes(a, op) => {
                if self.program.plain(*a) {
                    for i in 0..LENGTH {
                        let x = self.op(Float::Single, *op, self.cells[*a][i]);
                        self.set(Lvalue::Cell(*a, Index::Fixed(i)), x);
                    }
                }
            }
            Stmt::Loop(iterations, skip, body) => {
                let before = self.iteration;
                for i in (0..*iterations).filter(|i| *skip != Some(*i)) {
                    self.iteration = i;
                    self.block(body);
                }
                self.iteration = before;
            }
            Stmt::If(cond, body) => {
                if self.cond(*cond) {
                    self.block(body);
                }
            }
        }
    }

    fn cond(&self, cond: Cond) -> bool {
        match cond {
            Cond::Less(a, b) => self.get(a).v < self.get(b).v,
            Cond::State(k) => self.state >> k & 1 == 1,
            Cond::Sign(at) => self.get(at).v.is_sign_negative(),
            Cond::Odd => self.iteration % 2 == 1,
            Cond::Tag(a, at) => !self.program.tagged(a) || self.tags[a][self.at(at)] & 1 == 1,
        }
    }

    fn part(&mut self, f: Float, width: u32, op: PartOp, x: Dual) -> Dual {
        let op = match op {
            PartOp::Negate => BitOp::Negate,
            PartOp::Abs => BitOp::Abs,
            PartOp::Scale(k) => BitOp::Scale(k as i32),
            PartOp::Clear | PartOp::Lowest => BitOp::Cut(width),
            PartOp::All => return Dual::constant(1.5),
            PartOp::Uppermost => {
                let (before, below) = (f.of(x.v), low(f.bits() - width));
                if before & below == 0 {
                    self.unsure = Some(NO_DIGITS);
                }
                let (after, slope) = self.moved(f, before, before & below | f.of(1.5) & !below);
                return x.map(f.number(after), slope);
            }
        };
        let left = self.op(f, op, x);
        // Nothing but what was stored over its upper digits before.
        if left.v.abs() == 1.5 {
            self.unsure = Some(NO_DIGITS);
        }
        left
    }

    fn choose(&mut self, dst: Lvalue, a: Lvalue, b: Lvalue, choice: Choice) {
        let f = self.program.float(dst);
        let (x, y) = (self.get(a), self.get(b));
        let chosen = match choice {
            Choice::CopySign => {
                let v = x.v.copysign(y.v);
                x.map(v, if v == x.v { 1.0 } else { -1.0 })
            }
            Choice::Mask(k) if self.state >> k & 1 == 1 => x,
            Choice::Less if x.v < y.v => x,
            Choice::MaxBits if signed(f, f.of(x.v)) > signed(f, f.of(y.v)) => x,
            _ => y,
        };
        self.set(dst, chosen);
    }

    fn handed(&mut self, dst: Lvalue, (a, b): (Lvalue, Lvalue), how: WrittenPart) {
        let f = self.program.float(dst);
        let r = |x: f64| f.number(f.of(x));
        let scaled = |x: Dual, k: f64| x.map(r(x.v * k), k);
        let (a, b) = (self.get(a), self.get(b));
        let half = scaled(b, 0.5);
        let (taken, beside) = match how {
            WrittenPart::Exponent => {
                let exponent = (f.of(a.v) & !f.sign()) >> f.mantissa();
                let digits = self.op(f, BitOp::Mantissa(true), a);
                (digits, scaled(b, (1 + (exponent.wrapping_sub(1) & 1)) as f64))
            }
            WrittenPart::Beside => (a, half),
            WrittenPart::Into => (half, a),
            WrittenPart::Sign => (self.op(f, BitOp::Negate, a), b),
            WrittenPart::Exchange => (b, a),
            WrittenPart::Either(k) if self.state >> k & 1 == 1 => (a, half),
            WrittenPart::Either(_) => (half, a),
        };
        let (taken, beside) = (self.op(f, BitOp::Negate, taken), scaled(beside, 0.25));
        self.set(dst, Dual::join(r(taken.v + beside.v), taken, 1.0, beside, 1.0));
    }

    fn arith(&mut self, dst: Lvalue, a: Lvalue, b: Lvalue, arith: Arith) {
        let f = self.program.float(dst);
        let r = |x: f64| f.number(f.of(x));
        let (mut x, mut y) = (self.get(a), self.get(b));
        (x.v, y.v) = (r(x.v), r(y.v));
        let out = match arith {
            Arith::Product => Dual::join(r(r(x.v * y.v) * 0.5), x, y.v * 0.5, y, x.v * 0.5),
            Arith::Sum => Dual::join(r(r(x.v * 0.75) + r(y.v * 0.5)), x, 0.75, y, 0.5),
            Arith::Difference => Dual::join(r(r(x.v * 0.75) - r(y.v * 0.5)), x, 0.75, y, -0.5),
            Arith::Quotient => {
                let q = r(1.0 + r(y.v * y.v));
                Dual::join(r(x.v / q), x, 1.0 / q, y, -2.0 * x.v * y.v / (q * q))
            }
            Arith::Root => {
                let v = r(r(r(x.v * x.v) + 0.25).sqrt());
                x.map(v, x.v / v)
            }
            Arith::Round => {
                let large = if f == Float::Double { 1.5 * (1_u64 << 52) as f64 } else { 1.5 * (1 << 23) as f64 };
                let k = r(r(r(x.v * 8.0) + large) - large);
                Dual::join(r(y.v + r(r(x.v * 8.0) - k)), x, 8.0, y, 1.0)
            }
        };
        self.set(dst, out);
    }

    /// The effect of an operation on bits, on the number that has them.
    fn op(&mut self, f: Float, op: BitOp, x: Dual) -> Dual {
        let before = f.of(x.v);
        let (after, slope) = match op {
            BitOp::Negate => (before ^ f.sign(), -1.0),
            BitOp::Abs => (before & !f.sign(), 1_f64.copysign(x.v)),
            BitOp::Below => (before | f.sign(), -(1_f64.copysign(x.v))),
            BitOp::NegateIf(k) if self.state >> k & 1 == 1 => (before ^ f.sign(), -1.0),
            BitOp::NegateIf(_) | BitOp::Key(_) | BitOp::Rotate(_) | BitOp::Swap | BitOp::Sent => (before, 1.0),
            BitOp::Short(false) => (before & !low(f.bits() / 2), 1.0),
            BitOp::Short(true) => return self.op(f, BitOp::RoundEven(f.bits() / 2), x),
            BitOp::Cut(m) | BitOp::ShiftOut(m, _) => (before & !low(m), 1.0),
            BitOp::OwnDigits(m) => (before & !low(m), 1.0),
            BitOp::Step(up) => (if up { before + 1 } else { before - 1 }, 1.0),
            BitOp::Scale(k) => (before.wrapping_add_signed(i64::from(k) << f.mantissa()) & f.all(), 2_f64.powi(k)),
            BitOp::RoundUp(m) => self.rounded(f, before, 1 << (m - 1), m),
            BitOp::RoundEven(m) => self.rounded(f, before, low(m - 1) + (before >> m & 1), m),
            BitOp::RoundRandom(m) => self.rounded(f, before, u64::from(self.state) & low(m), m),
            BitOp::OwnBit(m) => self.moved(f, before, before + (before >> m & 1)),
            BitOp::Add(n) => self.moved(f, before, before + u64::from(n)),
            BitOp::Mantissa(signed) => {
                let keep = f.fraction() | if signed { f.sign() } else { 0 };
                self.moved(f, before, before & keep | f.bias() << f.mantissa())
            }
            BitOp::Root(_) => {
                let from = before & !f.sign();
                let to = (from >> 1) + root_constant(f);
                let (_, slope) = self.moved(f, from, to);
                (to, 0.5 * slope * 1_f64.copysign(x.v))
            }
            BitOp::InverseRoot => {
                let from = before & !f.sign();
                let to = inverse_constant(f).wrapping_sub(from >> 1) & f.all();
                let (_, slope) = self.moved(f, from, to);
                (to, -0.5 * slope * 1_f64.copysign(x.v))
            }
        };
        let y = f.number(after);
        if !y.is_normal() || f.of(y) != after || !x.v.is_normal() {
            self.unsure = Some("a number without an exponent");
        }
        x.map(y, slope)
    }

    /// Something added to the bits, and low digits masked off.
    fn rounded(&mut self, f: Float, before: u64, add: u64, digits: u32) -> (u64, f64) {
        let sum = (before + add) & f.all();
        if sum >> f.mantissa() != before >> f.mantissa() {
            self.unsure = Some("a rounding into another binade");
        }
        let (_, slope) = self.moved(f, before, sum);
        (sum & !low(digits), slope)
    }

    /// The slope of a number that lies so many units in the last place away.
    fn moved(&mut self, f: Float, before: u64, after: u64) -> (u64, f64) {
        let after = after & f.all();
        let exponent = |bits: u64| (bits & !f.sign()) >> f.mantissa();
        let (x, y) = (exponent(before), exponent(after));
        let top = f.of(f64::INFINITY) >> f.mantissa();
        if x == 0 || y == 0 || x == top || y == top {
            self.unsure = Some("a number without an exponent");
        }
        let turned = (before ^ after) & f.sign() != 0;
        let slope = 2_f64.powi(y as i32 - x as i32);
        (after, if turned { -slope } else { slope })
    }
}

fn low(digits: u32) -> u64 {
    (1 << digits) - 1
}

fn signed(f: Float, bits: u64) -> i64 {
    if f == Float::Double { bits as i64 } else { i64::from(bits as u32 as i32) }
}
