//! The answer of activity analysis: states of values, shapes of cotangents, roles of accesses.
//!
//! **Question.** What does activity analysis say of a function, for translation, planning and
//! diagnostics to read?
//!
//! **Answer.** [`Activity`] is a table: for each value its [`State`] and the shape of its
//! cotangent, for each access of memory a [`MemRole`], for each copy a [`CopyRole`], and sets of
//! integers that are pieces of floats, or may be. What follows from several entries is a method:
//! [`Activity::moves_pieces`], [`Activity::guessed`], [`Activity::computes_bits`].
//!
//! **Cost.** An entry for each value and each instruction of the function, which are there from the
//! beginning. A method is a walk over what it asks about.

use brolga_ir::Program;
use brolga_ir::inst::Shape;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::cfg::Cfg;

/// What a memory access means for the derivative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemRole {
    /// Nothing: there is no shadow.
    #[default]
    None,
    /// It moves floats, or their bits.
    Float(Shape),
    /// It moves a pointer.
    Pointer,
    /// It overwrites `bytes` bytes with something inactive; `checked` if cotangents there would
    /// have gone astray.
    Kill {
        /// How many.
        bytes: u32,
        /// Whether the pullback checks that there are none.
        checked: bool,
    },
}

/// What a `memcpy` or `memmove` moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyRole {
    /// A known number of fields of known kinds: offset and role of each.
    Fields(Vec<(i32, MemRole)>),
    /// Floats of this many bytes.
    Floats(u32),
    /// Floats of 8 or of 4 bytes, and nothing says which.
    Mixed,
    /// Pointers.
    Pointers,
    /// Integers.
    Ints,
}

/// A value's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing active in it.
    #[default]
    No,
    /// Carries floats.
    Varied {
        /// They are known to be floats.
        definite: bool,
    },
    /// Computed from float bits.
    Taint {
        /// They are known to be floats.
        definite: bool,
    },
}

/// Bytes of a load that become something, the first in the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BecomingBytes {
    /// Numbers.
    pub number: u16,
    /// Integers in memory, by arithmetic.
    pub stored: u16,
    /// Integers in memory, perhaps as they are: that counts where no cotangent goes along.
    pub moved: u16,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// Shape of the cotangent of each active value.
    pub ct: SecondaryMap<ir::Value, Option<Shape>>,
    /// State of each value.
    pub state: SecondaryMap<ir::Value, State>,
    /// Role of each memory access.
    pub mem: SecondaryMap<ir::Inst, MemRole>,
    /// Role of each copy.
    pub copies: SecondaryMap<ir::Inst, Option<CopyRole>>,
    /// Width of the floats that an integer carries.
    pub lane: SecondaryMap<ir::Value, u32>,
    /// Tainted integers that are pieces of memory, and nothing else.
    pub pieces: EntitySet<ir::Value>,
    /// Pieces that are computed from others, and loads of which nothing else is made: what they
    /// have for a cotangent is a demand.
    pub computed: EntitySet<ir::Value>,
    /// Integers without an active value in them, as far as this function knows, that may be a
    /// float's bits, or computed from some.
    pub possible: EntitySet<ir::Value>,
    /// The same, where the host or the caller may have put floats that the program does not know
    /// for such; in programs where that counts.
    pub possible_of_host: EntitySet<ir::Value>,
    /// Whether some of them are stored where there is no shadow.
    pub leaves_shadows: bool,
    /// Classes of memory that may hold floats' bits ([`super::float_memory`]).
    pub float_memory: EntitySet<ir::Value>,
    /// Whether integers from there of which nothing says that they are such are stored, or handed
    /// on.
    pub uses_unknown: bool,
    /// Nothing is active: no parameter, and there is no memory but what constant pointers lead to
    /// and what the function makes.
    pub constant: bool,
    /// Of loads of integers of four bytes or more, the bytes that become numbers, or are stored: if
    /// those are floats', how numbers depend on them is lost.
    pub becomes: SecondaryMap<ir::Inst, BecomingBytes>,
    /// Integers that are loaded where pointers and floats lie, and are taken for numbers because
    /// of what becomes of them ([`crate::kinds::number_uses`]).
    pub assumed_numbers: EntitySet<ir::Value>,
    /// Operations on bits whose results must not get a cotangent ([`brolga_ir::Untracked::Trap`]).
    pub astray: EntitySet<ir::Inst>,
}

impl Activity {
    /// With room for all values: a table that grows with each is filled a little at a time.
    pub(super) fn with_room(func: &ir::Function) -> Self {
        let mut a = Self::default();
        a.ct.resize(func.dfg.num_values());
        a.state.resize(func.dfg.num_values());
        a.mem.resize(func.dfg.num_insts());
        a
    }

    /// Whether a value depends on an active input.
    pub fn is_varied(&self, v: ir::Value) -> bool {
        matches!(self.state[v], State::Varied { .. })
    }

    /// Whether this function moves anything active in pieces, or blocks in which floats are of
    /// unknown size, or doubles need not begin where the block does.
    pub fn moves_pieces(&self, program: &Program) -> bool {
        let mixed = |c: &Option<CopyRole>| is_mixed(program, c.as_ref());
        self.pieces.iter().any(|v| self.ct[v].is_some()) || self.copies.values().any(mixed)
    }

    /// Whether an instruction moves such a block.
    pub fn moves_block(&self, program: &Program, inst: ir::Inst) -> bool {
        is_mixed(program, self.copies[inst].as_ref())
    }

    /// Of which sizes floats are that this function moves as integers, or in blocks, without
    /// knowing that they are any: the lowest bit stands for four bytes, the next for eight. And of
    /// which sizes those are that it loads and stores: the next two bits.
    pub fn guessed(&self, func: &ir::Function, cfg: &Cfg) -> u8 {
        let bit = |bytes: u32| if bytes == 4 { 1 } else { 2 };
        let of = |&inst: &ir::Inst| {
            let op = func.dfg.insts[inst].opcode();
            let accessed = match op {
                Opcode::Load | Opcode::AtomicLoad => Some(func.dfg.first_result(inst)),
                Opcode::Store | Opcode::AtomicStore => Some(func.dfg.inst_args(inst)[0]),
                _ => None,
            };
            let float = accessed.and_then(|v| Shape::of_float(func.dfg.value_type(v)));
            match (self.mem[inst], func.dfg.inst_results(inst), self.copies[inst].as_ref()) {
                _ if let Some(shape) = float => bit(shape.lane_bytes()) << 2,
                (MemRole::Float(shape), &[v], _)
                    if matches!(self.state[v], State::Varied { definite: false })
                        && !matches!(shape, Shape::Bytes { .. } | Shape::Demand { .. }) =>
                {
                    bit(shape.lane_bytes())
                }
                (_, _, Some(&CopyRole::Floats(bytes))) => bit(bytes),
                _ => 0,
            }
        };
        cfg.all_insts().iter().map(of).fold(0, |all, one| all | one)
    }

    /// Whether this function computes what may become a float's bits from integers that may be a
    /// float's bits.
    pub fn computes_bits(&self) -> bool {
        self.computed.iter().any(|v| self.ct[v].is_some())
    }

    /// The shape of what a value carries, active or not.
    pub fn shape(&self, func: &ir::Function, v: ir::Value) -> Option<Shape> {
        let ty = func.dfg.value_type(v);
        Shape::of_float(ty).or_else(|| Shape::of_bits(ty.bytes(), self.lane[v]))
    }
}

/// Whether floats of a copied block are of unknown size, or need not begin where the block does.
fn is_mixed(program: &Program, copied: Option<&CopyRole>) -> bool {
    match copied {
        Some(CopyRole::Mixed) => true,
        Some(CopyRole::Floats(bytes)) => *bytes == 8 && program.unaligned_doubles,
        _ => false,
    }
}
