//! Derived instructions: a closed set, so that printing and verifying are exhaustive matches.
//!
//! **Question.** Of which instructions are a forward pass and a pullback made, and what do their
//! names mean?
//!
//! **Answer.** Both are made of the same instructions: an [`AdInst`] is an operation ([`AdOp`]),
//! the names that it defines, and the primal instruction that it stems from. A name ([`Val`]) means
//! the same thing in both: `v7` is the primal value, `v7'` its shadow delta, `i4:0` something the
//! forward fragment of primal instruction 4 produced besides, `v7.t` the tangent of `v7`. In the
//! forward graph these are defined where the primal defines them; in the pullback graph a block
//! defines the ones it reads at its top, by restoring or recomputing them. `d3` is a derived value,
//! local to its block.
//!
//! **Shadow deltas.** The shadow of a pointer `p` lives at `p + δ`; what is carried is `δ`, not the
//! shadow pointer. Pointer arithmetic leaves `δ` alone, so almost every pointer in a function
//! shares the delta of the argument, stack slot or allocation that it comes from, and the pullback
//! needs no second address. `δ = 0` says "no shadow".
//!
//! **Cost.** A graph has several instructions for each of the primal's, and they are most of what a
//! derivation keeps in memory: an [`AdInst`] is 72 bytes ([`Defs`] and [`Args`] are what a vector
//! would be, in less), and what is rare and longer is boxed.

use cranelift_codegen::ir::{
    self, Type,
    condcodes::{FloatCC, IntCC},
    types,
};
use smallvec::SmallVec;

use crate::DataKey;

mod short;
mod val;

pub use short::{Args, Defs};
pub use val::Val;

/// The shape of a cotangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// One 32-bit float.
    F32,
    /// One 64-bit float.
    F64,
    /// Four 32-bit floats.
    F32X4,
    /// Two 64-bit floats.
    F64X2,
    /// Two 32-bit floats that travel in one 64-bit integer; held in the low lanes of an `f32x4`.
    F32Pair,
    /// Bytes that move, of an unknown owner: what is held is the ticket of a cotangent's bytes
    /// (`brolga_runtime::pieces`).
    Bytes {
        /// How many.
        n: u8,
        /// Bytes of a float in the memory where they lie; 0 if that is not known, or if they are no
        /// place in memory; [`DOUBLES_ANYWHERE`] for doubles of which it is not known where they
        /// begin.
        of: u8,
    },
    /// Bits from which integer arithmetic computes others. What is held is not a cotangent but
    /// whether one that is not zero has arrived at what was computed: 0 or 1.
    Demand {
        /// Bytes of the integer.
        n: u8,
    },
}

/// In place of the size of a float, in [`Shape::Bytes`]: doubles that need not lie at multiples of
/// eight.
pub const DOUBLES_ANYWHERE: u8 = 0x88;

impl Shape {
    /// The CLIF type that holds a cotangent of this shape.
    pub fn ty(self) -> Type {
        match self {
            Shape::F32 => types::F32,
            Shape::F64 => types::F64,
            Shape::F32X4 | Shape::F32Pair => types::F32X4,
            Shape::F64X2 => types::F64X2,
            Shape::Bytes { .. } => types::I64,
            Shape::Demand { .. } => types::I8,
        }
    }

    /// Bytes of the value whose cotangent this is.
    pub fn bytes(self) -> u32 {
        match self {
            Shape::F32 => 4,
            Shape::F64 | Shape::F32Pair => 8,
            Shape::F32X4 | Shape::F64X2 => 16,
            Shape::Bytes { n, .. } | Shape::Demand { n } => n.into(),
        }
    }

    /// The shape of a float type's cotangent; `None` for anything else.
    pub fn of_float(ty: Type) -> Option<Shape> {
        Some(match ty {
            types::F32 => Shape::F32,
            types::F64 => Shape::F64,
            types::F32X4 => Shape::F32X4,
            types::F64X2 => Shape::F64X2,
            _ => return None,
        })
    }

    /// The shape of `bytes` bytes made of floats of `lane` bytes each.
    pub fn of_bits(bytes: u32, lane: u32) -> Option<Shape> {
        Some(match (bytes, lane) {
            (4, 4) => Shape::F32,
            (8, 8) => Shape::F64,
            (8, 4) => Shape::F32Pair,
            (16, 4) => Shape::F32X4,
            (16, 8) => Shape::F64X2,
            _ => return None,
        })
    }

    /// Bytes of one float; one where that is unknown.
    pub fn lane_bytes(self) -> u32 {
        match self {
            Shape::F32 | Shape::F32X4 | Shape::F32Pair => 4,
            Shape::F64 | Shape::F64X2 => 8,
            Shape::Bytes { .. } | Shape::Demand { .. } => 1,
        }
    }
}

/// Arithmetic on derived and primal values. Types are those of the arguments unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Arith {
    /// A constant of type `ty`, splat over lanes.
    Const(f64),
    /// An integer constant.
    Iconst(i64),
    /// `x + y`.
    Fadd,
    /// `x - y`.
    Fsub,
    /// `x * y`.
    Fmul,
    /// `x / y`.
    Fdiv,
    /// `-x`.
    Fneg,
    /// `|x|`.
    Fabs,
    /// `√x`.
    Sqrt,
    /// Round toward zero.
    Trunc,
    /// Round to nearest, ties to even.
    Nearest,
    /// Round down.
    Floor,
    /// Magnitude of the first, sign of the second, lane by lane.
    Copysign,
    /// Compare floats; the result is an `i8` for scalars, a lane mask for vectors.
    Fcmp(FloatCC),
    /// Compare integers for equality with zero: `i8`.
    IsZero,
    /// Bitwise and.
    Band,
    /// Bitwise or.
    Bor,
    /// Bitwise exclusive or.
    Bxor,
    /// `(m & x) | (!m & y)`.
    Bitselect,
    /// All bits set in each lane where `x` is not zero (where it is NaN, too), as a float of type
    /// `ty`.
    NonZero,
    /// `x` in the lanes of such a mask, `+0` elsewhere: `(x, mask)`.
    KeepWhere,
    /// Bitwise not; of an `i8` condition, logical not.
    Not,
    /// `c ? x : y` for scalars (`c` an integer); lane by lane for vectors (`c` a lane mask).
    Select,
    /// `c ? x : y` with one integer `c` for a value of any type.
    SelectAll,
    /// Bits as they are, in type `ty`.
    Bitcast,
    /// `f32` to `f64`.
    Promote,
    /// `f64` to `f32`.
    Demote,
    /// Low two lanes of `f32x4` to `f64x2`.
    PromoteLow,
    /// `f64x2` to the low lanes of `f32x4`, high lanes zero.
    DemoteLow,
    /// One lane.
    Extract(u8),
    /// Replace one lane: `(vector, scalar)`.
    Insert(u8),
    /// All lanes the same.
    Splat,
    /// Scalar in lane 0, the rest zero.
    ScalarToVector,
    /// Bytes of two 16-byte vectors by a constant mask; an index above 31 gives a zero byte.
    ShuffleBytes(Box<[u8; 16]>),
    /// Integer addition.
    Iadd,
    /// Integer subtraction.
    Isub,
    /// Integer multiplication.
    Imul,
    /// Integer shifted right by a number of bits, with zeros.
    UshrBy(u8),
    /// The same value under another name.
    Copy,
    /// An operation on integers that has no derivative, as this opcode of Cranelift says: the
    /// smaller of two, a rotation, bits in another order.
    Int(ir::Opcode),
    /// Call of a C math function; the symbol is chosen by type.
    Math(Box<&'static str>),
    /// Convert a cotangent to the bits of another type of the same width ([`Shape::F32Pair`]
    /// included).
    ToBits,
    /// The inverse of [`Arith::ToBits`]: bits of the given shape to a cotangent.
    FromBits(Shape),
    /// Zero-extend an integer to `ty`.
    Uextend,
    /// The lowest bits of an integer, as many as `ty` has.
    Ireduce,
    /// Signed integer to float of type `ty`.
    FromInt,
    /// Compare integers: `i8`.
    Icmp(IntCC),
}

/// A place in the activation frame: byte offset from its start, or the number of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameSlot(pub u32);

impl FrameSlot {
    const VARIABLE: u32 = 1 << 31;

    /// What is in no memory, but in a variable of a combined function.
    pub fn variable(number: u32) -> Self {
        Self(number | Self::VARIABLE)
    }

    /// The number of the variable that it is, if it is one.
    pub fn as_variable(self) -> Option<u32> {
        (self.0 & Self::VARIABLE != 0).then_some(self.0 & !Self::VARIABLE)
    }
}

/// What a derived call's callee does with the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tape {
    /// Nothing.
    Aside,
    /// It pushes or pops: the position comes back changed.
    Moves,
    /// It records above the caller's position, and gives all of that back before it returns.
    Above,
}

/// Which function a derived call goes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// By symbol: a derived function or a run-time helper.
    Symbol(Box<str>),
    /// Through a pointer.
    Pointer(Val),
}

/// Our own run-time checks. Each becomes a trap code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Check {
    /// The tape's capacity is reached.
    TapeFull = 240,
    /// An indirect call to an address that is no function of the program.
    UnknownCallee = 241,
    /// A cotangent reached bits that were computed by integer arithmetic.
    UntrackedBits = 242,
    /// Active data was stored through a pointer without a shadow.
    ConstStore = 243,
    /// A run-time helper failed: out of memory, or memory that it does not know.
    Helper = 244,
    /// Debug runs: an access outside of the declared shadow.
    ShadowBounds = 245,
    /// Debug runs: a shadow on top of a primal.
    ShadowAliasesPrimal = 246,
    /// Debug runs: the pullback does not find on the tape what the forward pass put there.
    TapeCorrupt = 247,
    /// Debug runs: memory with a shadow was reached through a pointer without.
    ConstAlias = 248,
    /// A time loop cannot be reversed; the run time knows why.
    TimeLoop = 249,
    /// What undoes a call does not lead back; the run time knows how.
    InversePair = 250,
    /// A task of a fork has trapped; the run time knows how.
    Task = 238,
    /// A float that a task reads does not lie at a multiple of its size.
    TaskAlignment = 237,
    /// What is moved as a number or a float has a shadow, as pointers have.
    MovedPointer = 236,
}

impl Check {
    /// All checks.
    pub const ALL: [Check; 14] = [
        Check::TapeFull,
        Check::UnknownCallee,
        Check::UntrackedBits,
        Check::ConstStore,
        Check::Helper,
        Check::ShadowBounds,
        Check::ShadowAliasesPrimal,
        Check::TapeCorrupt,
        Check::ConstAlias,
        Check::TimeLoop,
        Check::InversePair,
        Check::Task,
        Check::TaskAlignment,
        Check::MovedPointer,
    ];

    /// Name, as reported.
    pub fn name(self) -> &'static str {
        match self {
            Check::TapeFull => "tape_full",
            Check::UnknownCallee => "unknown_callee",
            Check::UntrackedBits => "untracked_bits",
            Check::ConstStore => "const_store",
            Check::Helper => "runtime_helper",
            Check::ShadowBounds => "shadow_bounds",
            Check::ShadowAliasesPrimal => "shadow_aliases_primal",
            Check::TapeCorrupt => "tape_corrupt",
            Check::ConstAlias => "const_alias",
            Check::TimeLoop => "time_loop",
            Check::InversePair => "inverse_pair",
            Check::Task => "task",
            Check::TaskAlignment => "task_alignment",
            Check::MovedPointer => "moved_pointer",
        }
    }

    /// What it means, in a sentence.
    pub fn message(self) -> &'static str {
        match self {
            Check::TapeFull => {
                "the run recorded more than the tape limit allows; let its loops keep to a budget (`within_memory`), raise `tape_limit`, or \
                 shorten the run; the tape of a derivative that the program calls by name is a megabyte for each kind \
                 of value, and only a shorter run helps there"
            }
            Check::UnknownCallee => "an indirect call went to an address that is no function of this program",
            Check::UntrackedBits => {
                "a cotangent reached bits that belong to no float that is known: integer arithmetic has produced them, or a \
                 copy of memory that holds floats of several sizes; or an integer that becomes a number was loaded where \
                 the host has put a float. Use float instructions; what sorts by bits of floats can move the floats \
                 beside them"
            }
            Check::ConstStore => {
                "active data was stored through a pointer that has no shadow; give that memory a shadow (duplicated)"
            }
            Check::Helper => "a memory helper failed: out of memory, or a block that the derived code did not allocate",
            Check::ShadowBounds => {
                "a shadow was accessed outside of its declared length; make it as long as its primal, and declare all of it"
            }
            Check::ShadowAliasesPrimal => "a shadow lies on top of a primal buffer; give the shadow memory of its own",
            Check::TapeCorrupt => {
                "the tape does not hold what the forward pass recorded; something wrote over it, or it is of another run"
            }
            Check::ConstAlias => {
                "memory that has a shadow was reached through a pointer that has none; its derivative would be lost"
            }
            Check::TimeLoop => {
                "a time loop cannot be reversed: its number of steps, its states or the memory budget do not fit, or its \
                 steps give another state when they run again"
            }
            Check::InversePair => {
                "the inverse of a call does not give back the state before the call, or that state does not fit"
            }
            Check::Task => "a task of a fork trapped",
            Check::TaskAlignment => {
                "a float that a task of a fork reads does not lie at a multiple of its size, as floats must whose \
                 cotangents tasks add up; move it"
            }
            Check::MovedPointer => {
                "what is moved as a number, or as a float, has a shadow as pointers have, which would stay behind; use \
                 the pointer as an address in the function that moves it, move it by `memcpy` (in a derivative that \
                 is derived again, field by field), or, if it is a number, set its place in the shadow to zero"
            }
        }
    }

    /// The check with this trap number.
    pub fn from_raw(code: u8) -> Option<Check> {
        Check::ALL.into_iter().find(|&c| c as u8 == code)
    }
}

/// What the run time is told of a place (`brolga_runtime::calls::tangents`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PieceOp {
    /// A piece is loaded there.
    Note,
    /// A piece, or a number in place of a part of a float, has been stored there.
    Mark,
    /// Floats of so many bytes are going to be loaded there.
    Settle(u8),
    /// Floats have been stored there.
    Clean,
}

/// A sum of what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// That of the function, in a variable.
    OfFunction,
    /// One in memory: in a loop, an iteration that does not come by has nothing to do with it.
    Aside,
    /// That of one run of the loop with this header, in a variable: what is added in one run waits
    /// for nothing of the run before.
    Loop(ir::Block),
    /// None: the least number so far, in a variable, is to be greater than zero. (Whether all are
    /// finite is for a sum to tell.) That is an instruction, where a sum takes four for a number
    /// that must not be zero; but no vector of such numbers is formed.
    Least,
}

/// A place in shadow memory: the shadow of `addr + off`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShadowPlace {
    /// Primal address.
    pub addr: Val,
    /// Its delta.
    pub delta: Val,
    /// Offset of the access.
    pub off: i32,
    /// In a batch: bytes from the first of the derivatives that lie there.
    pub part: u32,
    /// The delta is known not to be zero.
    pub sure: bool,
}

impl ShadowPlace {
    /// The shadow of `addr + off`, if there is one.
    pub fn new(addr: Val, delta: Val, off: i32) -> Self {
        Self { addr, delta, off, part: 0, sure: false }
    }

    /// The names that it is made of.
    pub fn names(&self) -> [Val; 2] {
        [self.addr, self.delta]
    }
}

/// What is asked of a shadow that is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearQuery {
    /// Nothing: a constant was stored.
    Nothing,
    /// Whether what has arrived is unknown ([`AdOp::Poison`]): then so is that of what the integer
    /// that was stored was computed from. All else is dropped.
    Known,
    /// The same, and [`Check::UntrackedBits`] if they are not zero; or, of less than four bytes, if
    /// the word that they lie in is not: it may be a float of which they are a part that is zero.
    Zero,
    /// The same of an integer that was computed from a float's bits: if what has arrived is
    /// unknown, that float's cotangent is.
    Bits,
}

/// What a derived instruction does.
#[derive(Clone, Debug, PartialEq)]
pub enum AdOp {
    /// A copy of a primal instruction: the primal itself in the forward pass, a recomputation in
    /// the pullback.
    Primal(ir::Inst),
    /// A primal instruction with one result, on other operands: in forward mode, on tangents that
    /// move as their values do.
    Moved(ir::Inst, Args),
    /// Taylor coefficients of a result of a primal instruction, by number, from those of its
    /// operands ([`Options::taylor`](crate::options::Options::taylor)): arithmetic takes its place,
    /// which reads operands and results, too.
    Series(ir::Inst, u8, Box<[Val]>),
    /// Arithmetic with a result of type `ty`.
    Arith(Arith, Args, Type),

    /// The delta of a stack slot: its shadow lies in the activation frame.
    SlotDelta(ir::StackSlot),
    /// The address of a stack slot that lives in the activation frame (memory mode `restore`), plus
    /// an offset.
    SlotAddr(ir::StackSlot, i32),
    /// The delta of a writable data object.
    DataDelta(DataKey),
    /// The delta of a pointer that was loaded: the shadow memory holds its shadow, or 0.
    LoadDelta {
        /// Where the pointer was loaded from.
        place: ShadowPlace,
        /// The loaded pointer.
        loaded: Val,
    },
    /// Store a pointer's shadow beside the pointer.
    StoreDelta {
        /// Where the pointer is stored.
        place: ShadowPlace,
        /// The pointer.
        value: Val,
        /// Its delta; `None` if it has no shadow.
        vdelta: Option<Val>,
    },
    /// The delta that a task's pullback adds by, from where the run time puts it.
    LoadTaskDelta(Val),
    /// Read primal memory (before it is overwritten).
    LoadOld {
        /// Address.
        addr: Val,
        /// Offset.
        off: i32,
        /// Type.
        ty: Type,
    },
    /// Write primal memory back.
    StoreOld {
        /// Address.
        addr: Val,
        /// Offset.
        off: i32,
        /// What was there.
        value: Val,
    },

    /// Begin an activation: allocate the frame, clear the shadows of those stack slots that need it
    /// now.
    EnterFrame,
    /// Keep a value in the activation frame.
    Keep(FrameSlot, Val),
    /// Keep the number of the block that is being left.
    KeepBlock(FrameSlot, u32),
    /// Push a block's record: values, then the block's number if some successor must know it.
    Push(Vec<Val>, Option<u32>),
    /// End an activation in the forward pass: leave the frame's address on top of the tape.
    LeaveFrame,
    /// Begin an activation in the pullback: find the frame, clear the shadows of stack slots.
    OpenFrame,
    /// Between the halves of a combined function: clear the shadows of stack slots that the first
    /// half uses.
    NextIteration,
    /// From here on, the held variable of the first name has the value of the second.
    Hold(Val, Val),
    /// The value of a held variable.
    Held(Val),
    /// Read a value back from the activation frame.
    Restore(FrameSlot),
    /// The block number kept in a frame slot.
    RestoreBlock(FrameSlot),
    /// The block number on top of the tape; it stays there.
    PeekBlock,
    /// Pop a block's record, the inverse of [`AdOp::Push`]; defines the values.
    Pop(Vec<Val>, Option<u32>),
    /// End an activation in the pullback.
    CloseFrame,

    /// Read the cotangent of a primal value. Where it must not be read again, it is set to zero by
    /// [`AdOp::ZeroCt`].
    TakeCt(ir::Value),
    /// Add to the cotangent of a primal value.
    AddCt(ir::Value, Val),
    /// The cotangent of a primal value becomes zero: it is not live into the block that comes next.
    ZeroCt(ir::Value),

    /// `shadow[place] += by`, or `=`.
    AddMem {
        /// Where.
        place: ShadowPlace,
        /// The cotangent.
        by: Val,
        /// Its shape.
        shape: Shape,
        /// Nothing has been added there before: the cotangent is stored.
        fresh: bool,
    },
    /// Read `shadow[place]` and set it to zero.
    TakeMem {
        /// Where.
        place: ShadowPlace,
        /// Shape of the cotangent.
        shape: Shape,
    },
    /// Read `shadow[place]`; it stays.
    PeekMem {
        /// Where.
        place: ShadowPlace,
        /// Shape of the cotangent.
        shape: Shape,
    },
    /// Read the tangent of what lies at a place, in forward mode: zero without a shadow.
    LoadTangent {
        /// Where.
        place: ShadowPlace,
        /// Type of the tangent.
        ty: Type,
    },
    /// Store the tangent of what is stored at a place, in forward mode.
    StoreTangent {
        /// Where.
        place: ShadowPlace,
        /// The tangent.
        value: Val,
    },
    /// What the run time is told of tangents in pieces, in forward mode.
    Piece {
        /// What.
        what: PieceOp,
        /// Where.
        place: ShadowPlace,
        /// How many bytes.
        n: u32,
    },
    /// Set `bytes` bytes of `shadow[place]` to zero.
    ZeroMem {
        /// Where.
        place: ShadowPlace,
        /// How many.
        bytes: u32,
        /// What is asked of them before.
        asks: ClearQuery,
        /// They may be a part of a float: of one of so many bytes, or, if that is 0, of a double or
        /// of a single. Then the run time keeps account of what becomes of the other parts.
        cuts: Option<u8>,
    },
    /// An integer that was loaded from a place has become a number. If the program had stored a
    /// float there, the number depends on it in a way that no rule describes: its cotangent is
    /// NaN, or a demand waits (`brolga_runtime::pieces::poison`).
    Poison {
        /// Where.
        place: ShadowPlace,
        /// How many bytes were loaded.
        bytes: u32,
        /// Whether the integer may be a float's bits; none if it became a part of another integer,
        /// and only counts if such a one was found to be asked for.
        when: Option<Val>,
    },

    /// A call.
    Call {
        /// What is called.
        callee: Callee,
        /// Its arguments. `None` stands for the segment.
        args: Box<[Option<Val>]>,
        /// Signature.
        sig: Box<ir::Signature>,
        /// What the callee does with the tape.
        tape: Tape,
    },
    /// The forward and pullback entries of a function address: defines two code addresses; traps if
    /// it is unknown.
    Lookup {
        /// The function's address.
        addr: Val,
        /// Identifies the signature.
        signature: u64,
    },
    /// Trap if an integer is not zero.
    TrapIf(Val, Check),
    /// Trap with [`Check::UntrackedBits`] if a ticket stands for anything but zeros. It is used up.
    TrapIfBytes(Val),
    /// Remember if a float is infinite or NaN, or, if so, zero.
    Watch {
        /// The number.
        value: Val,
        /// Whether it must not be zero, either.
        not_zero: bool,
        /// Which sum it is added to, if to any.
        sum: Sum,
    },
    /// The sum of what a loop watches begins as zero, before the loop, which is named by its
    /// header.
    WatchFrom(ir::Block),
    /// It joins that of the function, after the loop.
    WatchJoin(ir::Block),
    /// Remember if an integer of eight bits is not zero.
    WatchFlag(Val),
    /// Whether anything that was watched so far was such: not zero if so.
    Watched,
}

/// A derived instruction with the names that it defines and the primal instruction that it belongs
/// to.
#[derive(Clone, Debug, PartialEq)]
pub struct AdInst {
    /// Names defined, with their types.
    pub defs: Defs,
    /// What it does.
    pub op: AdOp,
    /// The primal instruction that it stems from.
    pub at: Option<ir::Inst>,
}

/// Hand every name that an operation reads to `$put`: references to them, of the kind of the one to
/// the operation.
macro_rules! each_read {
    ($op:expr, $put:expr) => {{
        let mut put = $put;
        match $op {
            AdOp::Series(_, _, args) => args.into_iter().for_each(put),
            AdOp::Arith(_, args, _) | AdOp::Moved(_, args) => args.into_iter().for_each(put),
            AdOp::LoadDelta { place: ShadowPlace { addr, delta, .. }, loaded } => {
                [addr, delta, loaded].into_iter().for_each(put);
            }
            AdOp::StoreDelta { place: ShadowPlace { addr, delta, .. }, value, vdelta } => {
                [addr, delta, value].into_iter().chain(vdelta).for_each(put);
            }
            AdOp::LoadOld { addr, .. } | AdOp::Lookup { addr, .. } => put(addr),
            AdOp::StoreOld { addr, value, .. } => [addr, value].into_iter().for_each(put),
            AdOp::LoadTaskDelta(v)
            | AdOp::Keep(_, v)
            | AdOp::Hold(_, v)
            | AdOp::AddCt(_, v)
            | AdOp::TrapIf(v, _)
            | AdOp::TrapIfBytes(v)
            | AdOp::WatchFlag(v)
            | AdOp::Watch { value: v, .. } => put(v),
            AdOp::Push(vs, _) => vs.into_iter().for_each(put),
            AdOp::AddMem { place: ShadowPlace { addr, delta, .. }, by: value, .. }
            | AdOp::StoreTangent { place: ShadowPlace { addr, delta, .. }, value } => {
                [addr, delta, value].into_iter().for_each(put);
            }
            AdOp::Poison { place: ShadowPlace { addr, delta, .. }, when, .. } => {
                [addr, delta].into_iter().chain(when).for_each(put);
            }
            AdOp::LoadTangent { place: ShadowPlace { addr, delta, .. }, .. }
            | AdOp::Piece { place: ShadowPlace { addr, delta, .. }, .. }
            | AdOp::TakeMem { place: ShadowPlace { addr, delta, .. }, .. }
            | AdOp::PeekMem { place: ShadowPlace { addr, delta, .. }, .. }
            | AdOp::ZeroMem { place: ShadowPlace { addr, delta, .. }, .. } => {
                [addr, delta].into_iter().for_each(put);
            }
            AdOp::Call { callee, args, .. } => {
                if let Callee::Pointer(p) = callee {
                    put(p);
                }
                args.into_iter().flatten().for_each(put);
            }
            AdOp::Primal(_)
            | AdOp::SlotDelta(_)
            | AdOp::SlotAddr(..)
            | AdOp::DataDelta(_)
            | AdOp::EnterFrame
            | AdOp::KeepBlock(..)
            | AdOp::LeaveFrame
            | AdOp::OpenFrame
            | AdOp::NextIteration
            | AdOp::Held(_)
            | AdOp::Restore(_)
            | AdOp::RestoreBlock(_)
            | AdOp::PeekBlock
            | AdOp::Pop(..)
            | AdOp::CloseFrame
            | AdOp::TakeCt(_)
            | AdOp::WatchFrom(_)
            | AdOp::WatchJoin(_)
            | AdOp::Watched
            | AdOp::ZeroCt(_) => {}
        }
    }};
}

impl AdInst {
    /// Every name it reads, apart from the operands of a copied primal instruction.
    pub fn reads(&self) -> SmallVec<[Val; 4]> {
        let mut r: SmallVec<[Val; 4]> = SmallVec::new();
        self.each_read(|v| r.push(v));
        r
    }

    /// Go through the names that it reads, apart from the operands of a copied primal instruction.
    pub fn each_read(&self, mut f: impl FnMut(Val)) {
        each_read!(&self.op, |v: &Val| f(*v));
    }

    /// Replace every name that it reads, apart from the operands of a copied primal instruction.
    pub fn rename(&mut self, mut to: impl FnMut(Val) -> Val) {
        each_read!(&mut self.op, |v: &mut Val| *v = to(*v));
    }
}
