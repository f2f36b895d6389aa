//! Environment of lowering: what it needs besides a graph, and what it makes of one.
//!
//! **Question.** A graph does not say how its frame is laid out, which tape it records on, or for
//! which target it is. Who says so, and what do passes after lowering get to know?
//!
//! **Answer.** [`LowerEnv`] has all that lowering asks about, filled by its caller.
//! [`LoweredFunction`] is the function, with the instructions that later passes look for: checks of
//! the tape's limit, and accesses to shadows with the primal bytes that they belong to
//! ([`Shadows`]). A check that lowering adds is marked by a bit of its source location
//! ([`CHECK_SRCLOC`]).
//!
//! **Cost.** An entry for each access to a shadow, and a binary search to find it.

use std::sync::OnceLock;

use cranelift_codegen::ir::{self, MemFlagsData};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_entity::{EntitySet, SecondaryMap};

use super::frame::FrameLayout;
use super::typed::{Channel, StandaloneEnv, TypedTapeEnv};
use crate::inst::{Shape, Val};
use crate::names::Names;

/// Bit of a source location that marks a check of ours, not an instruction of the primal.
pub const CHECK_SRCLOC: u32 = 1 << 31;

/// How it is seen that a record does not fit on the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// Each asks for room.
    #[default]
    No,
    /// Memory behind the tape cannot be accessed, and a fault there is the check.
    Only,
    /// The same, and each asks all the same: some of those that are in [`LoweredFunction::checks`]
    /// are going to be taken away, or all.
    Too,
}

/// A function that was made of a graph.
pub struct LoweredFunction {
    /// The function.
    pub func: ir::Function,
    /// Its comparisons with the end of the tape on behalf of records.
    pub checks: Vec<ir::Inst>,
    /// Its loads and stores of shadows.
    pub shadows: Shadows,
    /// Whether it uses its segment.
    pub segment: bool,
}

/// Accesses to shadows.
#[derive(Debug, Default)]
pub struct Shadows {
    /// All of them: of cotangents, of shadows of pointers, and those that clear shadows. No other
    /// load or store touches what they do.
    pub all: EntitySet<ir::Inst>,
    /// For those of cotangents, of whose primal bytes: an address of the primal, how many bytes
    /// after it, and how many, in the order of the accesses.
    of: Vec<(ir::Inst, ir::Value, i32, u32)>,
}

impl Shadows {
    pub(super) fn insert_bytes(&mut self, access: ir::Inst, addr: Val, off: i32, bytes: u32) {
        self.all.insert(access);
        if let Val::Primal(p) = addr {
            self.of.push((access, p, off, bytes));
        }
    }

    /// The bytes of the primal whose shadow an access is to: an address, how far behind it they
    /// begin, and how many they are.
    pub fn of(&self, access: ir::Inst) -> Option<(ir::Value, i32, u32)> {
        let at = self.of.binary_search_by_key(&access, |a| a.0).ok()?;
        let (_, p, off, bytes) = self.of[at];
        Some((p, off, bytes))
    }
}

/// What lowering needs besides the graph.
pub struct LowerEnv<'a> {
    /// The normalised primal.
    pub primal: &'a ir::Function,
    /// Spelling of symbols.
    pub names: &'a mut Names,
    /// The segment parameter; `None` for a function that has none (a lifted primal).
    pub seg: Option<Val>,
    /// The activation frame, if there is one.
    pub frame: Option<&'a FrameLayout>,
    /// Bytes of a block number.
    pub id_bytes: u32,
    /// Shape of each primal value's cotangent.
    pub ct: &'a SecondaryMap<ir::Value, Option<Shape>>,
    /// How many derivatives there are at once ([`crate::options::Options::width`]).
    pub width: u32,
    /// Emit the checks of a debug run.
    pub debug: bool,
    /// Some function of the program moves floats in pieces.
    pub pieces: bool,
    /// Pullbacks run beside others: what is read of shadows is gathered before.
    pub strand: bool,
    /// So cotangents may wait before shadows: not in forward mode, which has none.
    pub waits: bool,
    /// Forward mode: shadows hold tangents, also those that are not known.
    pub tangents: bool,
    /// The program makes numbers of integers in memory, and what those are computed from asks what
    /// became of them ([`AdOp::Poison`](crate::inst::AdOp::Poison)).
    pub numbers: bool,
    /// Guard products by as few instructions as there are, and not by the fastest.
    pub short: bool,
    /// How it is seen that the tape is full.
    pub fence: Fence,
    /// The tape is typed, and so is the activation frame.
    pub typed: Option<TypedTapeEnv<'a>>,
    /// The function runs without the run time. So does one with a typed tape.
    pub standalone: Option<StandaloneEnv<'a>>,
    /// No other function records in its segment, which is empty when it begins.
    pub alone: bool,
    /// The target.
    pub target: TargetFrontendConfig,
    /// Receives the sums of what is watched, which are only asked whether they are finite.
    pub watched: Option<&'a mut EntitySet<ir::Value>>,
}

/// No cotangents.
static NO_CT: OnceLock<SecondaryMap<ir::Value, Option<Shape>>> = OnceLock::new();

impl<'a> LowerEnv<'a> {
    /// What lowering a lifted primal needs.
    pub fn of_primal(primal: &'a ir::Function, names: &'a mut Names, target: TargetFrontendConfig) -> Self {
        Self {
            primal,
            names,
            seg: None,
            frame: None,
            id_bytes: 4,
            ct: NO_CT.get_or_init(SecondaryMap::new),
            width: 1,
            debug: false,
            pieces: false,
            strand: false,
            waits: false,
            tangents: false,
            numbers: false,
            short: false,
            watched: None,
            typed: None,
            standalone: None,
            fence: Fence::No,
            alone: false,
            target,
        }
    }
}

/// Flags of accesses to the tape: nothing else aliases it.
pub fn tape_flags(func: &mut ir::Function, channel: Channel) -> MemFlagsData {
    let region = func.dfg.alias_regions.insert(ir::AliasRegionData {
        user_id: channel.region(),
        description: std::borrow::Cow::Borrowed("brolga tape"),
    });
    MemFlagsData::new().with_notrap().with_alias_region(Some(region))
}
