//! Random programs about bits of floats.
//!
//! **Question.** Which programs find faults in how bits of floats are followed?
//!
//! **Answer.** Statements of all kinds at random places, a kind of floats for each module; the
//! number of a program is the seed. Each is one that [`super::dual`] has a slope for.
//!
//! **Cost.** A walk over some dozens of statements.

use brolga_oracle::generate::Source;

use super::program::{
    ACCESSES, ARRAYS, Access, Arith, Array, BitOp, COPYINGS, Choice, Cond, Float, INPUTS, Index, Kind, LENGTH, Lvalue,
    NUMBERS, PartOp, Program, STORAGES, Shape, Stmt, Storage, WrittenPart,
};

/// Programs that share a module.
pub const TOGETHER: u64 = 50;

/// The program with this number. Programs of one module have the same kinds of floats.
pub fn program(number: u64) -> Program {
    let kind = Source::seed(number / TOGETHER).weighted(&[(2, Kind::Mixed), (1, Kind::Doubles), (1, Kind::Singles)]);
    let mut s = Source::seed(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut local_arrays = || Array { float: kind.float(s.chance(50)), storage: s.choose(&STORAGES) };
    let local_arrays = [local_arrays(), local_arrays()];
    let mut shape = Maker { program: empty(kind, local_arrays, &mut s), s, loops: 0 };
    let statements = shape.s.choose(&[1, 1, 2, 2, 3, 5]);
    shape.program.body = shape.block(statements);
    shape.program
}

fn empty(kind: Kind, local_arrays: [Array; 2], s: &mut Source) -> Program {
    let mut inputs = [0.0; INPUTS];
    for x in &mut inputs {
        // Numbers with digits everywhere, none of them a power of two.
        let magnitude = 0.26 + s.below(1 << 20) as f64 / (1 << 19) as f64 + 1.0 / 3e7;
        *x = if s.chance(40) { -magnitude } else { magnitude };
    }
    let shared = local_arrays.iter().all(|a| matches!(a.storage, Storage::Frame | Storage::Global | Storage::Beside));
    Program {
        kind,
        local_arrays,
        shared: shared && s.chance(60),
        body: Vec::new(),
        // A cotangent that cannot be followed ends the run, so not every number has one.
        out: std::array::from_fn(|_| s.chance(60)),
        shadows: s.chance(60),
        inputs,
        state: s.below(1 << 31) as u32 | 1,
    }
}

struct Maker {
    s: Source,
    program: Program,
    loops: usize,
}

impl Maker {
    fn block(&mut self, statements: usize) -> Vec<Stmt> {
        (0..statements).map(|_| self.statement()).collect()
    }

    fn index(&mut self) -> Index {
        let k = self.s.below(LENGTH);
        if self.loops > 0 && self.s.chance(70) { Index::Iteration(k) } else { Index::Fixed(k) }
    }

    fn any(&mut self) -> Lvalue {
        if self.s.chance(50) {
            return Lvalue::Number(self.s.below(NUMBERS));
        }
        let array = self.s.below(ARRAYS);
        Lvalue::Cell(array, self.index())
    }

    /// A place with a float of this type, if one is found soon.
    fn place(&mut self, float: Float) -> Lvalue {
        for _ in 0..40 {
            let place = self.any();
            if self.program.float(place) == float {
                return place;
            }
        }
        Lvalue::Number(if self.program.kind.float(true) == float { 0 } else { NUMBERS - 1 })
    }

    /// Two places with floats of one type.
    fn two(&mut self) -> (Lvalue, Lvalue) {
        let a = self.any();
        (a, self.place(self.program.float(a)))
    }

    fn access(&mut self) -> Access {
        self.s.choose(&ACCESSES)
    }

    fn statement(&mut self) -> Stmt {
        let deep = if self.loops > 1 { 0 } else { 3 };
        match self.s.weighted(&[
            (10, 0),
            (4, 1),
            (4, 2),
            (3, 3),
            (1, 4),
            (1, 5),
            (2, 6),
            (3, 7),
            (2, 8),
            (deep, 9),
            (1, 10),
            (4, 11),
        ]) {
            0 => self.bits(),
            1 => self.part(),
            2 => {
                let arith = self.s.choose(&[
                    Arith::Product,
                    Arith::Sum,
                    Arith::Difference,
                    Arith::Quotient,
                    Arith::Root,
                    Arith::Round,
                ]);
                Stmt::Arith(self.any(), self.any(), self.any(), arith)
            }
            3 => {
                let (dst, a) = self.two();
                let b = self.place(self.program.float(a));
                let bit = self.s.below(32) as u32;
                let choice = self.s.choose(&[Choice::CopySign, Choice::Mask(bit), Choice::Less, Choice::MaxBits]);
                Stmt::Choose(dst, a, b, choice, self.access())
            }
            4 => {
                let (a, b) = self.two();
                Stmt::Exchange(a, b)
            }
            5 => self.pack(),
            6 => self.generator(),
            7 => self.copy(),
            8 => self.beside(),
            9 => self.region(),
            11 => self.handed(),
            _ => {
                let singles: Vec<_> = (0..ARRAYS).filter(|a| self.program.array(*a) == Float::Single).collect();
                let singles: Vec<_> = singles.into_iter().filter(|a| self.program.plain(*a)).collect();
                if singles.is_empty() {
                    return self.bits();
                }
                let op = self.s.choose(&[
                    BitOp::Negate,
                    BitOp::Abs,
                    BitOp::Scale(1),
                    BitOp::Cut(9),
                    BitOp::Cut(16),
                    BitOp::RoundEven(16),
                    BitOp::Swap,
                    BitOp::RoundUp(13),
                    BitOp::Add(777),
                ]);
                Stmt::Lanes(self.s.choose(&singles), op)
            }
        }
    }

    fn bits(&mut self) -> Stmt {
        let (dst, src) = self.two();
        let ops = self.s.choose(&[0, 1, 1, 1, 2, 3]);
        let ops = (0..ops).map(|_| self.op(self.program.float(dst))).collect();
        let shape = self.s.weighted(&[(5, Shape::Inline), (2, Shape::Value), (2, Shape::Pointer), (1, Shape::Bits)]);
        Stmt::Move { dst, src, ops, get: self.access(), put: self.access(), shape }
    }

    fn op(&mut self, float: Float) -> BitOp {
        let low = self.s.between(1, float.mantissa() as usize - 6) as u32;
        let half = float.bits() / 2;
        let cut = self.s.weighted(&[(3, low), (if half < float.mantissa() - 5 { 2 } else { 0 }, half), (1, 13)]);
        let bit = self.s.below(32) as u32;
        match self.s.below(22) {
            0 => BitOp::Negate,
            1 => BitOp::Abs,
            2 => BitOp::Below,
            3 => BitOp::NegateIf(bit),
            4 => BitOp::Scale(self.s.choose(&[-2, -1, 1, 2])),
            5 => BitOp::Cut(cut),
            6 => BitOp::RoundUp(cut),
            7 => BitOp::RoundEven(cut),
            8 => BitOp::RoundRandom(cut),
            9 => BitOp::Step(self.s.chance(50)),
            10 => BitOp::OwnBit(cut),
            11 => BitOp::OwnDigits(self.s.between(1, 12) as u32),
            12 => BitOp::Add(self.s.between(2, 1 << 20) as u32),
            13 => BitOp::Mantissa(self.s.chance(50)),
            14 => BitOp::Root(self.s.chance(30)),
            15 => BitOp::InverseRoot,
            16 => BitOp::Key(self.s.chance(50)),
            17 => BitOp::ShiftOut(cut, self.s.chance(50)),
            18 => BitOp::Sent,
            19 | 20 => BitOp::Short(self.s.chance(50)),
            _ if self.s.chance(50) => BitOp::Rotate(self.s.between(1, float.bits() as usize - 1) as u32),
            _ => BitOp::Swap,
        }
    }

    fn part(&mut self) -> Stmt {
        let at = self.any();
        let whole = self.program.float(at).bits();
        let width = self.s.choose(&[8, 16, 32]);
        let width = if width < whole { width } else { 16 };
        let op = match self.s.below(7) {
            4 => PartOp::Lowest,
            5 => PartOp::Uppermost,
            6 => PartOp::All,
            0 => PartOp::Negate,
            1 => PartOp::Abs,
            2 if width > 8 => PartOp::Scale(self.s.between(1, 2) as u32),
            // The lowest part of a single may hold half its digits.
            _ => PartOp::Clear,
        };
        Stmt::Part(at, width, op, self.s.choose(&[Access::Copy, Access::Union, Access::Cast]))
    }

    fn handed(&mut self) -> Stmt {
        let (dst, a) = self.two();
        let b = self.place(self.program.float(a));
        let bit = self.s.below(32) as u32;
        let how = self.s.choose(&[
            WrittenPart::Exponent,
            WrittenPart::Exponent,
            WrittenPart::Beside,
            WrittenPart::Beside,
            WrittenPart::Into,
            WrittenPart::Sign,
            WrittenPart::Exchange,
            WrittenPart::Either(bit),
        ]);
        Stmt::Handed(dst, a, b, how, self.s.chance(50))
    }

    fn pack(&mut self) -> Stmt {
        if self.program.kind == Kind::Doubles {
            return Stmt::PackState(self.any(), self.s.chance(50));
        }
        let (a, b) = (self.place(Float::Single), self.place(Float::Single));
        let memory = self.s.chance(50);
        if self.s.chance(70) { Stmt::Pack(a, b, memory) } else { Stmt::PackState(a, memory) }
    }

    fn generator(&mut self) -> Stmt {
        match self.s.below(8) {
            0..3 => Stmt::Next,
            3 => Stmt::Hash(self.any()),
            4 => {
                let (a, b) = (self.any(), self.any());
                Stmt::Exponent(a, b)
            }
            _ => Stmt::Uniform(self.any(), self.s.chance(50)),
        }
    }

    fn copy(&mut self) -> Stmt {
        let how = self.s.choose(&COPYINGS);
        let array = self.s.below(ARRAYS);
        if self.s.chance(50) {
            return Stmt::CopyCell(array, self.index(), self.index(), how);
        }
        let like: Vec<_> = (0..ARRAYS).filter(|a| self.program.array(*a) == self.program.array(array)).collect();
        Stmt::CopyArray(array, self.s.choose(&like), how)
    }

    fn beside(&mut self) -> Stmt {
        let tagged: Vec<_> = (2..ARRAYS).filter(|a| self.program.tagged(*a)).collect();
        if tagged.is_empty() {
            return self.bits();
        }
        Stmt::Tag(self.s.choose(&tagged), self.index())
    }

    fn region(&mut self) -> Stmt {
        let statements = self.s.between(1, 3);
        if self.s.chance(65) {
            self.loops += 1;
            let body = self.block(statements);
            self.loops -= 1;
            let skip = self.s.chance(30).then(|| self.s.below(LENGTH));
            return Stmt::Loop(self.s.between(2, LENGTH), skip, body);
        }
        let tagged: Vec<_> = (2..ARRAYS).filter(|a| self.program.tagged(*a)).collect();
        let cond = match self.s.below(5) {
            0 => Cond::Less(self.any(), self.any()),
            1 => Cond::State(self.s.below(32) as u32),
            2 => Cond::Sign(self.any()),
            3 if !tagged.is_empty() => Cond::Tag(self.s.choose(&tagged), self.index()),
            _ => Cond::Odd,
        };
        Stmt::If(cond, self.block(statements))
    }
}
