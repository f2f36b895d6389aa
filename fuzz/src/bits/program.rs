//! What a random program about bits of floats consists of.
//!
//! A program has five numbers, four arrays and a state of a random generator. Every statement
//! changes some of them in place, so any statement can be dropped and what is left is a program.

/// The type of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// `double`.
    Double,
    /// `float`.
    Single,
}

impl Float {
    /// Bits of the type.
    pub fn bits(self) -> u32 {
        if self == Float::Double { 64 } else { 32 }
    }

    /// Bits of the mantissa that are stored.
    pub fn mantissa(self) -> u32 {
        if self == Float::Double { 52 } else { 23 }
    }

    /// The exponent of one.
    pub fn bias(self) -> u64 {
        if self == Float::Double { 1023 } else { 127 }
    }

    /// The sign bit.
    pub fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// All bits of the mantissa.
    pub fn fraction(self) -> u64 {
        (1 << self.mantissa()) - 1
    }

    /// All bits.
    pub fn all(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The number with these bits.
    pub fn number(self, bits: u64) -> f64 {
        match self {
            Float::Double => f64::from_bits(bits),
            Float::Single => f64::from(f32::from_bits(bits as u32)),
        }
    }

    /// The bits of a number of this type.
    pub fn of(self, number: f64) -> u64 {
        match self {
            Float::Double => number.to_bits(),
            Float::Single => u64::from((number as f32).to_bits()),
        }
    }
}

/// Which floats a module has: in a module with one kind alone more is known of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both.
    Mixed,
    /// Doubles.
    Doubles,
    /// Singles.
    Singles,
}

impl Kind {
    /// The type of what is a double in a mixed module, or of what is a single.
    pub fn float(self, double: bool) -> Float {
        match self {
            Kind::Mixed if double => Float::Double,
            Kind::Doubles => Float::Double,
            _ => Float::Single,
        }
    }
}

/// Numbers of a program; the first three are doubles in a mixed module.
pub const NUMBERS: usize = 5;
/// Elements of an array.
pub const LENGTH: usize = 4;
/// Arrays: two of the caller's, the first of doubles and the second of singles in a mixed module,
/// and two of the program's.
pub const ARRAYS: usize = 4;

/// Where a float lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lvalue {
    /// A local variable.
    Number(usize),
    /// An element of an array.
    Cell(usize, Index),
}

/// Which element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// This one.
    Fixed(usize),
    /// The one that the innermost loop is at, and so many further, cyclically.
    Iteration(usize),
}

/// Where one of the program's arrays lies, and what lies beside its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the frame.
    Frame,
    /// In a data object.
    Global,
    /// In the frame; elements are fields of packed records after an `int`.
    Packed,
    /// In a data object; elements are fields of records between two `int`s.
    Beside,
    /// In the frame; elements are members of unions with integers and bytes.
    Union,
    /// In the frame, at an address that is 4 modulo 8.
    Odd,
    /// In memory from a stack of blocks.
    Block,
}

/// All of them.
pub const STORAGES: [Storage; 7] =
    [Storage::Frame, Storage::Global, Storage::Packed, Storage::Beside, Storage::Union, Storage::Odd, Storage::Block];

/// One of the program's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements.
    pub float: Float,
    /// Where they lie.
    pub storage: Storage,
}

/// How bits come out of a float, or get into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By `memcpy`.
    Copy,
    /// Through a union with an integer.
    Union,
    /// Through a pointer to an integer.
    Cast,
    /// In halves, through a pointer.
    Halves,
    /// In halves, through a union, put together by addition.
    HalfUnion,
    /// Byte by byte in a loop, lowest first.
    Bytes,
    /// Byte by byte in a loop, highest first.
    BytesDown,
    /// Byte by byte without a loop, through a union.
    ByteUnion,
    /// Through a data object.
    Global,
    /// Through a volatile local variable.
    Volatile,
    /// Through bytes of the frame that a loop has copied.
    Frame,
    /// Through sixteen bits at a time.
    Quarters,
}

/// All of them.
pub const ACCESSES: [Access; 12] = [
    Access::Copy,
    Access::Union,
    Access::Cast,
    Access::Halves,
    Access::HalfUnion,
    Access::Bytes,
    Access::BytesDown,
    Access::ByteUnion,
    Access::Global,
    Access::Volatile,
    Access::Frame,
    Access::Quarters,
];

/// Which function a manipulation of bits is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// None of its own.
    Inline,
    /// One from float to float.
    Value,
    /// One with pointers to both floats.
    Pointer,
    /// One from integer to integer.
    Bits,
}

/// Something done to the bits of a float that has a slope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// The sign is turned.
    Negate,
    /// The sign is cleared.
    Abs,
    /// The sign is set.
    Below,
    /// The sign is turned if a bit of the generator's state is set.
    NegateIf(u32),
    /// A number is added to the exponent.
    Scale(i32),
    /// Low digits are masked off.
    Cut(u32),
    /// Low digits are shifted out and zeros in; the shift is a signed one if so said.
    ShiftOut(u32, bool),
    /// Half a unit is added before low digits are masked off.
    RoundUp(u32),
    /// Rounding to nearest, ties to even.
    RoundEven(u32),
    /// Digits of the generator's state are added before low digits are masked off.
    RoundRandom(u32),
    /// A step in the last place, up or down.
    Step(bool),
    /// A bit of the number itself is added to it.
    OwnBit(u32),
    /// The low digits are subtracted.
    OwnDigits(u32),
    /// A number is added to the bits.
    Add(u32),
    /// The mantissa alone gets the exponent of one; the sign stays if so said.
    Mantissa(bool),
    /// Half the bits and a constant, which is a first guess at a root; the shift is a signed one if
    /// so said.
    Root(bool),
    /// A constant minus half the bits: a first guess at the inverse of a root.
    InverseRoot,
    /// Exclusive or with a key, twice; in between in memory if so said.
    Key(bool),
    /// A rotation and back.
    Rotate(u32),
    /// Bytes in the other order, and back.
    Swap,
    /// The same, in memory in between.
    Sent,
    /// The upper half lies in memory by itself, and then stands above zeros; rounded to nearest,
    /// ties to even, if so said.
    Short(bool),
}

/// Something done to a part of a float in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartOp {
    /// The sign is turned in the uppermost part.
    Negate,
    /// The sign is cleared in the uppermost part.
    Abs,
    /// A number is added to the exponent, in the uppermost part.
    Scale(u32),
    /// The lowest part becomes zero.
    Clear,
    /// The same, by a callee that knows of no float.
    Lowest,
    /// Such a callee makes the uppermost part that of three halves.
    Uppermost,
    /// It makes all parts those of three halves, one after the other.
    All,
}

/// Plain arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arith {
    /// A product, halved.
    Product,
    /// A weighted sum.
    Sum,
    /// A weighted difference.
    Difference,
    /// A quotient by a number that is at least one.
    Quotient,
    /// The root of a square and a quarter.
    Root,
    /// A sum with a large number, which is taken off again: rounds.
    Round,
}

/// One float of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The digits of the first with the sign of the second.
    CopySign,
    /// By a mask that is made of a bit of the generator's state.
    Mask(u32),
    /// By a mask that is made of a comparison of floats.
    Less,
    /// The one whose bits are the larger integer.
    MaxBits,
}

/// What is written by a callee, or through a pointer, while a float is taken apart in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// An exponent goes out through a pointer, and the callee's upper half gets that of one.
    Exponent,
    /// A callee writes to another variable of the frame.
    Beside,
    /// A callee writes to the float itself.
    Into,
    /// A callee changes the sign in the upper half.
    Sign,
    /// A callee exchanges the float and another.
    Exchange,
    /// A store goes to the one or the other, by a bit of the generator's state.
    Either(u32),
}

/// How an array, or a record, is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyUnit {
    /// By assignment or `memcpy` of all of it.
    Whole,
    /// Byte by byte.
    Bytes,
    /// By 32 bits at a time.
    Words,
    /// By 64 bits at a time.
    Doublewords,
    /// In vectors of integers.
    Vectors,
}

/// All of them.
pub const COPYINGS: [CopyUnit; 5] =
    [CopyUnit::Whole, CopyUnit::Bytes, CopyUnit::Words, CopyUnit::Doublewords, CopyUnit::Vectors];

/// What is asked before statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// Whether one float is less than another.
    Less(Lvalue, Lvalue),
    /// A bit of the generator's state.
    State(u32),
    /// The sign bit of a float.
    Sign(Lvalue),
    /// Whether the iteration is odd.
    Odd,
    /// The lowest bit of the integer beside an element.
    Tag(usize, Index),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// Bits of a float are taken, changed and put into another.
    Move {
        /// Where to.
        dst: Lvalue,
        /// Where from; of the same type.
        src: Lvalue,
        /// What is done to them.
        ops: Vec<BitOp>,
        /// How they are taken.
        get: Access,
        /// How they are put.
        put: Access,
        /// Which function this is in.
        shape: Shape,
    },
    /// Part of a float is changed where it lies.
    Part(Lvalue, u32, PartOp, Access),
    /// Plain arithmetic.
    Arith(Lvalue, Lvalue, Lvalue, Arith),
    /// One of two.
    Choose(Lvalue, Lvalue, Lvalue, Choice, Access),
    /// A float in the frame, whose sign is then turned in its upper half, beside another one: a new
    /// value, from these two.
    Handed(Lvalue, Lvalue, Lvalue, WrittenPart, bool),
    /// Two floats change places by three exclusive ors.
    Exchange(Lvalue, Lvalue),
    /// Two singles go through one integer of 64 bits, in memory if so said, and change places.
    Pack(Lvalue, Lvalue, bool),
    /// A float and the generator's state go through one integer.
    PackState(Lvalue, bool),
    /// The generator goes on.
    Next,
    /// The generator's state takes in the bits of a float.
    Hash(Lvalue),
    /// A float is multiplied by one that is made of the generator's bits, of 64 of them if so said.
    Uniform(Lvalue, bool),
    /// A float is multiplied by a power of two whose bits are the exponent of another.
    Exponent(Lvalue, Lvalue),
    /// The integer beside an element gets the generator's state.
    Tag(usize, Index),
    /// An element, with what lies beside it, becomes another.
    CopyCell(usize, Index, Index, CopyUnit),
    /// An array becomes another of the same type.
    CopyArray(usize, usize, CopyUnit),
    /// All elements of an array of singles are changed at once, as vectors of integers.
    Lanes(usize, BitOp),
    /// A loop, which leaves out one iteration if so said.
    Loop(usize, Option<usize>, Vec<Stmt>),
    /// Statements on a condition.
    If(Cond, Vec<Stmt>),
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Which floats there are.
    pub kind: Kind,
    /// The program's own arrays, which are the third and the fourth.
    pub local_arrays: [Array; 2],
    /// Whether the own arrays are fields of one record.
    pub shared: bool,
    /// What it does.
    pub body: Vec<Stmt>,
    /// Which numbers, and which of the own arrays, the result is made of.
    pub out: [bool; NUMBERS + 2],
    /// Whether the caller's arrays have non-zero shadows.
    pub shadows: bool,
    /// What it is called with.
    pub inputs: [f64; INPUTS],
    /// The generator's first state.
    pub state: u32,
}

/// Floats that a program is called with: three by value and two arrays.
pub const INPUTS: usize = 3 + 2 * LENGTH;

impl Program {
    /// The type of an array's elements.
    pub fn array(&self, array: usize) -> Float {
        match array {
            0 => self.kind.float(true),
            1 => self.kind.float(false),
            local => self.local_arrays[local - 2].float,
        }
    }

    /// The type of a place.
    pub fn float(&self, place: Lvalue) -> Float {
        match place {
            Lvalue::Number(n) => self.kind.float(n < 3),
            Lvalue::Cell(array, _) => self.array(array),
        }
    }

    /// Whether an array's elements have integers beside them.
    pub fn tagged(&self, array: usize) -> bool {
        array >= 2 && (self.shared || matches!(self.local_arrays[array - 2].storage, Storage::Packed | Storage::Beside))
    }

    /// Whether an array's elements lie side by side.
    pub fn plain(&self, array: usize) -> bool {
        array < 2 || !self.tagged(array)
    }

    /// The weight of a number or an own array in the result.
    pub fn weight(which: usize) -> f64 {
        [1.0, 0.5, -0.25, 0.75, 1.5, 0.625, -1.25][which]
    }

    /// The type of an input.
    pub fn input(&self, input: usize) -> Float {
        match input {
            0 | 1 => self.kind.float(true),
            2 => self.kind.float(false),
            i => self.array(usize::from(i >= 3 + LENGTH)),
        }
    }

    /// The initial shadow of an element of the caller's arrays.
    pub fn shadow(&self, input: usize) -> f64 {
        if self.shadows { [0.5, -0.25, 0.0, 1.0][input % 4] } else { 0.0 }
    }
}

impl Program {
    /// Whether something is calculated with bits: a program that only moves them should have its
    /// gradient.
    pub fn calculates(&self) -> bool {
        fn some(body: &[Stmt]) -> bool {
            body.iter().any(|stmt| match stmt {
                Stmt::Move { ops, .. } => !ops.is_empty(),
                Stmt::Arith(.., arith) => *arith == Arith::Round,
                Stmt::Next | Stmt::Tag(..) | Stmt::CopyCell(..) | Stmt::CopyArray(..) => false,
                Stmt::Loop(_, _, body) => some(body),
                Stmt::If(cond, body) => matches!(cond, Cond::Sign(_)) || some(body),
                _ => true,
            })
        }
        some(&self.body)
    }
}

impl BitOp {
    /// Whether the operation means something for this type: digits that it cuts off are digits.
    pub fn fits(self, float: Float) -> bool {
        match self {
            BitOp::Cut(m)
            | BitOp::ShiftOut(m, _)
            | BitOp::RoundUp(m)
            | BitOp::RoundEven(m)
            | BitOp::RoundRandom(m)
            | BitOp::OwnBit(m)
            | BitOp::OwnDigits(m) => m < float.mantissa(),
            BitOp::Rotate(k) => k < float.bits(),
            _ => true,
        }
    }
}
