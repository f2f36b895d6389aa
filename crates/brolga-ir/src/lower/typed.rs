//! Channels of the tape: where a value is recorded, by what it is.
//!
//! **Problem.** A tape holds floats, integers and addresses, one after another. A derivation of
//! the derived function has to know of each place on it what stands there, and where each record
//! begins is only known at run time.
//! **Answer.** A typed tape ([`TapeKind::Typed`](crate::TapeKind::Typed)) is four: one of doubles,
//! one of singles, one of integers, one of addresses (and deltas, which are differences of such). A
//! record, and a frame, has a part in each; a part of a frame has the size and the offsets of the
//! whole, and only what belongs there is used of it. An ordinary tape is one channel of everything.
//!
//! ```text
//!   record [ x: f64 | i: i32 | p: i64 | block ]    doubles [ x ]   integers [ i | block ]   addresses [ p ]
//! ```
//!
//! **Cost.** Four positions in place of one, and four times the memory of frames: a typed tape is
//! for functions that are derived again, not for those that run.
//! **Source.** Reverse over reverse in this form is ours; Enzyme keeps a typed structure per call
//! and a shadow of it.

use cranelift_codegen::ir::{self, MemFlagsData, Type, types};

use crate::DataKey;

/// The alias region of the tape, by its number.
pub const TAPE_REGION: u32 = 0x0b20_16a0;

/// The alias region, by its number, of integers of which a frontend knows that they are neither
/// addresses nor bits of floats. It is a hint for derivatives: what is compiled has lost it
/// ([`forget_integer_region`]), since other code may access the memory without it.
pub const INTEGER_REGION: u32 = TAPE_REGION + Channel::COUNT as u32;

/// Flags of accesses to such integers, in memory that holds floats as well: a frontend that knows
/// them needs no answer to whether they are bits of floats.
///
/// ```
/// use cranelift_codegen::ir::Function;
/// let mut func = Function::new();
/// let flags = brolga_ir::lower::integer_flags(&mut func);
/// assert!(flags.alias_region().is_some());
/// ```
pub fn integer_flags(func: &mut ir::Function) -> MemFlagsData {
    let description = std::borrow::Cow::Borrowed("brolga integers");
    let region = func.dfg.alias_regions.insert(ir::AliasRegionData { user_id: INTEGER_REGION, description });
    MemFlagsData::new().with_alias_region(Some(region))
}

/// Let accesses of [`INTEGER_REGION`] be like any other.
pub fn forget_integer_region(func: &mut ir::Function) {
    if !func.dfg.alias_regions.contains(INTEGER_REGION) {
        return;
    }
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    for inst in insts {
        let region = func.dfg.insts[inst].alias_region(&func.dfg);
        if region.is_none_or(|r| func.dfg.alias_regions[r].user_id != INTEGER_REGION) {
            continue;
        }
        let data = func.dfg.insts[inst].memflags_data(&func.dfg).expect("it has a region");
        let plain = func.dfg.mem_flags.insert(data.with_alias_region(None));
        if let (Ok(plain), Some(flags)) = (plain, func.dfg.insts[inst].memflags_mut()) {
            *flags = plain;
        }
    }
}

/// A part of the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Everything: an ordinary tape.
    Mixed,
    /// Doubles, and vectors of them.
    Doubles,
    /// Singles, and vectors of them.
    Singles,
    /// Integers that are no addresses, and numbers of blocks.
    Integers,
    /// Addresses and deltas.
    Addresses,
}

/// A position in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Where the forward pass records next. With a typed tape, where the pullback reads next, too:
    /// there is no second pullback after a forward pass.
    Top,
    /// Where the channel ends.
    Limit,
    /// Where the pullback reads next.
    Cursor,
}

impl Channel {
    /// Those of a typed tape.
    pub const TYPED: [Self; 4] = [Self::Doubles, Self::Singles, Self::Integers, Self::Addresses];

    /// All channels.
    pub const COUNT: usize = 5;

    /// The alias region of accesses to it, by its number: an ordinary tape has the first, and what
    /// lies in a channel of a typed one can be seen from it.
    pub const fn region(self) -> u32 {
        TAPE_REGION + self as u32
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Where a value is recorded that is an address, or is none.
    pub fn of(ty: Type, is_address: bool) -> Self {
        match ty.lane_type() {
            types::F64 => Self::Doubles,
            types::F32 => Self::Singles,
            types::I64 if is_address => Self::Addresses,
            _ => Self::Integers,
        }
    }
}

/// What lowering has to know of a primal for a typed tape.
#[derive(Clone, Copy)]
pub struct TypedTapeEnv<'a> {
    /// Whether a primal value is an address.
    pub is_address: &'a dyn Fn(ir::Value) -> bool,
}

/// What lowering has to know for functions that run without the run time: tables of the run time
/// are functions and data objects of the program.
#[derive(Clone, Copy)]
pub struct StandaloneEnv<'a> {
    /// The symbol of a data object.
    pub data_symbol: &'a dyn Fn(DataKey) -> String,
    /// How many derivatives the program has already ([`Program::nested`](crate::Program::nested)).
    pub nth: u32,
}

/// The function that says of a function's address where its forward pass is, or its pullback, in a
/// program of which a typed derivative is the `nth`.
pub fn half_of(signature: u64, forward: bool, nth: u32) -> String {
    format!("brolga_{}_of_{signature:016x}_{nth}", if forward { "forward" } else { "pullback" })
}

/// How names of helpers end, in a derivative that is a function of a program, that need the segment
/// of a run.
pub const OF_A_RUN: &str = "_of_a_run";

/// Whether a function has a name of [`half_of`].
pub fn is_half(symbol: &str) -> bool {
    symbol.starts_with("brolga_forward_of_") || symbol.starts_with("brolga_pullback_of_")
}

/// The data object that is the shadow of another in a program of which a typed derivative is the
/// `nth`.
pub fn shadow_of_data(symbol: &str, nth: u32) -> String {
    format!("{symbol}__shadow_{nth}")
}
