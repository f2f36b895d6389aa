//! Activity analysis: which values carry a cotangent, of which shape, and what cannot be followed.
//!
//! **Question.** A value is *active* if it is *varied* (depends on an active input) and *useful*
//! (an output depends on it). Floats are the easy part; integers may carry float bits unchanged,
//! and what arithmetic does to such bits is lost.
//!
//! **Answer.** Forwards, each value has a state; joins take the larger:
//!
//! ```text
//! No      nothing active in it
//! Varied  a float, or an integer that carries float bits of known lane width unchanged
//! Taint   an integer computed from such bits, or a part of them (but see `steps`: a number that is added to them)
//! ```
//!
//! A tainted integer may be compared, used as an index, or stored (the pullback then checks that no
//! cotangent waits there, unless it has only been moved since it was loaded: see `pieces`); where
//! it becomes a float again, there is a problem. Bits are *definite* if they are known to be a
//! float's (from a bitcast, or from a cell that is also accessed as a float), otherwise only
//! possible; a possible float that is converted as an integer number is an integer number, and
//! where one becomes a float, the pullback checks that no cotangent arrives.
//!
//! What a callee returns is tainted if an argument that it is made from
//! ([`crate::calls::result_sources`]) is, or carries bits; what is loaded, if such an integer was
//! stored at the same place, at whatever time.
//!
//! Where paths meet (or a `select` chooses), such an integer on one of them would taint the floats
//! that come by the others. So if some come, and it is no piece, the result carries floats, and the
//! pullback checks that no cotangent goes back by that path. That is decided when all states are
//! known, and then they are computed anew.
//!
//! Backwards from returns, stores and calls, the useful ones. Problems are reported only where the
//! result is useful: bit tricks on inactive data, and on data that only steers control flow, are
//! not reported.

use brolga_ir::inst::Shape;
use brolga_ir::map::HashMap;
use brolga_ir::{Diagnostic, FuncKey, Program, Untracked};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::calls::summary::{Demand, Summaries};
use crate::cfg::Cfg;
use crate::kinds::contents::Contents;
use crate::kinds::kind::Kinds;
use crate::kinds::pointers::{PointerInput, Pointers};
use crate::kinds::punned_cells::{Here, Local};
use crate::memory::cell::Base;
use crate::query::access_offset;
use crate::uses::Uses;
use crate::variant::{ParamMode, ResultMode};
use demand::DemandInput;
use ulp::Steps;

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
    /// Operations on bits whose results must not get a cotangent ([`Untracked::Trap`]).
    pub astray: EntitySet<ir::Inst>,
}

impl Activity {
    /// With room for all values: a table that grows with each is filled a little at a time.
    fn with_room(func: &ir::Function) -> Self {
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
        let mixed = |c: &Option<CopyRole>| match c {
            Some(CopyRole::Mixed) => true,
            Some(CopyRole::Floats(bytes)) => *bytes == 8 && program.unaligned_doubles,
            _ => false,
        };
        self.pieces.iter().any(|v| self.ct[v].is_some()) || self.copies.values().any(mixed)
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

/// What the analysis needs to know.
pub struct ActivityInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// Which function this is.
    pub key: FuncKey,
    /// Whether the caller asks for this function itself, and has said what its parameters point at.
    /// Of other functions that is known only as far as their callers' accesses tell.
    pub root: bool,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// All uses.
    pub uses: &'a Uses,
    /// Modes of parameters.
    pub params: &'a [ParamMode],
    /// Modes of results.
    pub results: &'a [ResultMode],
    /// Pointers and deltas.
    pub pointers: &'a Pointers,
    /// What memory holds.
    pub contents: &'a Contents,
    /// Widths of the floats that integers carry.
    pub lanes: &'a SecondaryMap<ir::Value, u32>,
    /// Numbers that are added to floats' bits.
    pub steps: &'a Steps,
    /// What is known of callees.
    pub summaries: &'a Summaries,
    /// Loads of memory that the caller has said to be constant.
    pub constant: &'a EntitySet<ir::Inst>,
    /// Whether problems with bits are left to the run.
    pub untracked: Untracked,
    /// Whether some function of the program computes a float's bits from integers in memory (see
    /// [`demand`]).
    pub demanded: bool,
}

mod ambiguous_width;
pub mod demand;
mod dirty;
pub mod exponent;
pub mod fragments;
mod moved_pointers;
mod roles;
mod rounding;
pub mod ulp;
mod useful;
mod varied;
pub mod width;

struct Problem {
    inst: ir::Inst,
    /// Reported only if this is useful; `None`: always.
    if_useful: Option<ir::Value>,
    /// Not reported if this is a piece, of which it will be known when the pullback runs.
    unless_piece: Option<ir::Value>,
    diagnostic: Diagnostic,
}

struct Cx<'a> {
    i: &'a ActivityInput<'a>,
    a: Activity,
    useful: EntitySet<ir::Value>,
    /// Classes of memory (see [`crate::kinds::contents`]) that may hold something active.
    active_memory: EntitySet<ir::Value>,
    /// Places to which something active is stored, or what was computed from its bits: offsets and
    /// lengths in bytes.
    holding: HashMap<Base, Vec<(i64, u32)>>,
    /// Where pointers and floats are by turns.
    punned: Here,
    /// Sums that round.
    rounding: EntitySet<ir::Inst>,
    /// Where a float's bits meet an integer that no rule follows.
    joins: EntitySet<ir::Value>,
    /// Integers whose bits become a float's.
    demand: SecondaryMap<ir::Value, Option<Demand>>,
    problems: Vec<Problem>,
}

impl<'a> ActivityInput<'a> {
    fn for_demand(&self) -> DemandInput<'a> {
        DemandInput {
            program: self.program,
            func: self.func,
            cfg: self.cfg,
            summaries: self.summaries,
            pointers: self.pointers,
            contents: self.contents,
            steps: self.steps,
            stores: self.demanded,
        }
    }
}

/// Rounds in which such places are looked for: one may hide another.
const MOST_ROUNDS: usize = 4;

/// Compute activity, and everything that stands in its way.
pub fn compute(input: &ActivityInput<'_>) -> (Activity, Vec<Diagnostic>) {
    let for_pointers = PointerInput {
        program: input.program,
        func: input.func,
        cfg: input.cfg,
        params: input.params,
        summaries: input.summaries,
        pointer_copy: input.pointers.pointer_copy.clone(),
        bits: EntitySet::new(),
    };
    let local = Local::compute(&for_pointers, input.pointers, input.contents);
    let mut cx = Cx {
        i: input,
        punned: Here::compute(&local, &input.summaries.punned),
        rounding: rounding::rounding(input),
        a: Activity::with_room(input.func),
        useful: EntitySet::new(),
        active_memory: EntitySet::new(),
        holding: HashMap::default(),
        joins: EntitySet::new(),
        demand: demand::demand(&input.for_demand(), |k| matches!(input.results[k], ResultMode::Bits(_))),
        problems: Vec::new(),
    };
    let unsure = ambiguous_width::unsure(input);
    for round in 0.. {
        cx.a.lane.clone_from(input.lanes);
        unsure.iter().for_each(|v| cx.a.lane[v] = 0);
        cx.varied();
        cx.pieces();
        if round == MOST_ROUNDS || !cx.more_joins() {
            break;
        }
        let joins = std::mem::take(&mut cx.joins);
        cx = Cx {
            i: input,
            punned: cx.punned,
            rounding: cx.rounding,
            a: Activity::with_room(input.func),
            useful: EntitySet::new(),
            active_memory: EntitySet::new(),
            holding: HashMap::default(),
            joins,
            demand: cx.demand,
            problems: Vec::new(),
        };
    }
    cx.roles();
    cx.usefulness();
    let func = input.func;
    for &b in &input.cfg.blocks {
        let params = func.dfg.block_params(b).iter().copied();
        let results = input.cfg.insts(b).iter().flat_map(|&i| func.dfg.inst_results(i).iter().copied());
        for v in params.chain(results) {
            if !cx.useful.contains(v) {
                continue;
            }
            let n = func.dfg.value_type(v).bytes() as u8;
            if cx.a.computed.contains(v) {
                cx.a.ct[v] = Some(Shape::Demand { n });
            } else if cx.a.pieces.contains(v) {
                cx.a.ct[v] = Some(Shape::Bytes { n, of: 0 });
            } else if cx.a.is_varied(v) {
                cx.a.ct[v] = cx.a.shape(func, v);
            }
        }
    }
    let (useful, moved) = (cx.useful, &cx.a.pieces);
    let mut astray = EntitySet::new();
    let found = cx
        .problems
        .into_iter()
        .filter(|p| p.if_useful.is_none_or(|v| useful.contains(v)))
        .filter(|p| {
            let becomes = func.dfg.insts[p.inst].opcode() == Opcode::Bitcast;
            p.unless_piece.is_none_or(|v| !moved.contains(v) || becomes && fragments::is_torn(func, v))
        })
        .filter_map(|p| {
            let later = matches!(p.diagnostic.code, "AD0110" | "AD0111" | "AD0112");
            if later && input.untracked == Untracked::Trap {
                astray.insert(p.inst);
                return None;
            }
            let d = p.diagnostic.at(input.program, input.key, original(func, p.inst));
            Some(if later { d.note(LATER_NOTE) } else { d })
        })
        .collect();
    cx.a.astray = astray;
    (cx.a, found)
}

/// The instruction of the input that an instruction of the normalised function stems from.
pub fn original(func: &ir::Function, inst: ir::Inst) -> ir::Inst {
    let bits = func.srcloc(inst).bits();
    ir::Inst::from_u32(bits.wrapping_sub(1).min(u32::MAX - 1))
}

/// Whether the bytes of one lane of a shuffle are one lane of an operand.
pub fn whole_lane(bytes: &[u8], lane: u32) -> bool {
    bytes[0] < 32 && u32::from(bytes[0]).is_multiple_of(lane) && bytes.windows(2).all(|p| p[1] == p[0].wrapping_add(1))
}

const LATER_NOTE: &str = "if this is not reached, or nothing depends on it, let the run find that out: `Options::untracked`, `--untracked trap`";

const BITS_HELP: &str = "write the operation on floats (`fneg`, `fabs`, `fcopysign`, `select`), or mark the arguments it \
                         depends on const";

impl Cx<'_> {
    pub(super) fn ty(&self, v: ir::Value) -> ir::Type {
        self.i.func.dfg.value_type(v)
    }

    pub(super) fn kinds_at(&self, inst: ir::Inst, addr: ir::Value) -> Kinds {
        width::kinds_at(self.i.func, self.i.contents, self.i.summaries, inst, addr)
    }

    pub(super) fn is_float(&self, v: ir::Value) -> bool {
        Shape::of_float(self.ty(v)).is_some()
    }

    /// An instruction in the names of the file.
    pub(super) fn written(&self, inst: ir::Inst) -> String {
        let text = self.i.program.text(self.i.key, original(self.i.func, inst));
        text.unwrap_or_else(|| self.i.func.dfg.insts[inst].opcode().to_string())
    }

    pub(super) fn problem(&mut self, inst: ir::Inst, if_useful: Option<ir::Value>, d: Diagnostic) {
        if !self.problems.iter().any(|p| p.inst == inst && p.diagnostic.code == d.code) {
            self.problems.push(Problem { inst, if_useful, unless_piece: None, diagnostic: d });
        }
    }

    /// The same of what becomes of an integer, unless that is a piece.
    pub(super) fn problem_of(&mut self, inst: ir::Inst, if_useful: ir::Value, of: ir::Value, d: Diagnostic) {
        let known = self.problems.len();
        self.problem(inst, Some(if_useful), d);
        self.problems[known..].iter_mut().for_each(|p| p.unless_piece = Some(of));
    }
}

/// The offset of a load or store instruction, for callers that emit the access to the shadow.
pub fn offset(func: &ir::Function, inst: ir::Inst) -> i32 {
    match func.dfg.insts[inst] {
        InstructionData::Load { .. } | InstructionData::Store { .. } => access_offset(func, inst),
        _ => 0,
    }
}
