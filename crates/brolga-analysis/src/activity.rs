//! Which values carry a cotangent, of which shape, and what cannot be followed.
//!
//! **Question.** A value is *active* if it is *varied* (depends on an active input) and *useful* (an output depends on it).
//! Floats are the easy part; integers may carry float bits unchanged, and what arithmetic does to such bits is lost.
//!
//! **Answer.** Forwards, each value has a state; joins take the larger:
//!
//! ```text
//! No      nothing active in it
//! Varied  a float, or an integer that carries float bits of known lane width unchanged
//! Taint   an integer computed from such bits
//! ```
//!
//! A tainted integer may be compared, used as an index, or stored (the pullback then checks that no cotangent waits there);
//! where it becomes a float again, there is a problem. Bits are *definite* if they are known to be a float's (from a
//! bitcast, or from a cell that is also accessed as a float), otherwise only possible; a possible float that is converted
//! as an integer number is an integer number.
//!
//! Backwards from returns, stores and calls, the useful ones. Problems are reported only where the result is useful: bit
//! tricks on inactive data, and on data that only steers control flow, are nobody's business.

use brolga_ir::inst::Shape;
use brolga_ir::{Diagnostic, FuncKey, Program};
use brolga_rules::{MathKind, MemFn, OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, InstructionData, Opcode, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::bits;
use crate::callee::CalleeKind;
use crate::cfg::{Cfg, edge_args};
use crate::contents::{Contents, Kinds, Use, Uses, access_offset, cell_of, moves_half};
use crate::modes::{ParamMode, ResultMode};
use crate::pointers::{Delta, Pointers, access_address, constant_int};
use crate::reach;
use crate::summary::Summaries;

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
    /// It overwrites `bytes` bytes with something inactive; `checked` if cotangents there would have gone astray.
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
}

impl Activity {
    /// Whether a value depends on an active input.
    pub fn is_varied(&self, v: ir::Value) -> bool {
        matches!(self.state[v], State::Varied { .. })
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
    /// What is known of callees.
    pub summaries: &'a Summaries,
}

struct Problem {
    inst: ir::Inst,
    /// Reported only if this is useful; `None`: always.
    if_useful: Option<ir::Value>,
    diagnostic: Diagnostic,
}

struct Cx<'a> {
    i: &'a ActivityInput<'a>,
    a: Activity,
    useful: EntitySet<ir::Value>,
    problems: Vec<Problem>,
}

/// Compute activity, and everything that stands in its way.
pub fn compute(input: &ActivityInput<'_>) -> (Activity, Vec<Diagnostic>) {
    let mut cx = Cx { i: input, a: Activity::default(), useful: EntitySet::new(), problems: Vec::new() };
    cx.lanes();
    cx.varied();
    cx.roles();
    cx.usefulness();
    let func = input.func;
    for &b in &input.cfg.blocks {
        let params = func.dfg.block_params(b).iter().copied();
        let results = func.layout.block_insts(b).flat_map(|i| func.dfg.inst_results(i).iter().copied());
        for v in params.chain(results).collect::<Vec<_>>() {
            if cx.a.is_varied(v) && cx.useful.contains(v) {
                cx.a.ct[v] = cx.a.shape(func, v);
            }
        }
    }
    let useful = cx.useful;
    let found = cx
        .problems
        .into_iter()
        .filter(|p| p.if_useful.is_none_or(|v| useful.contains(v)))
        .map(|p| p.diagnostic.at(input.program, input.key, original(func, p.inst)))
        .collect();
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

const BITS_HELP: &str = "write the operation on floats (`fneg`, `fabs`, `fcopysign`, `select`), or mark the arguments it \
                         depends on const";

impl Cx<'_> {
    fn ty(&self, v: ir::Value) -> ir::Type {
        self.i.func.dfg.value_type(v)
    }

    /// What the place of an access holds: by cell, by class, or by alias region (a frontend's regions mean the same thing in
    /// all functions of a program).
    fn kinds_at(&self, inst: ir::Inst, addr: ir::Value) -> Kinds {
        let func = self.i.func;
        let k = self.i.contents.at(cell_of(func, addr, access_offset(func, inst)), addr);
        if k.moved() != Kinds::NONE {
            return k;
        }
        let region = func.dfg.insts[inst].alias_region(&func.dfg).map(|r| func.dfg.alias_regions[r].user_id);
        region.map_or(k, |r| k.join(self.i.summaries.region(r)))
    }

    fn is_float(&self, v: ir::Value) -> bool {
        Shape::of_float(self.ty(v)).is_some()
    }

    fn problem(&mut self, inst: ir::Inst, if_useful: Option<ir::Value>, d: Diagnostic) {
        if !self.problems.iter().any(|p| p.inst == inst && p.diagnostic.code == d.code) {
            self.problems.push(Problem { inst, if_useful, diagnostic: d });
        }
    }

    /// Lane widths of integers that carry float bits: from where they become or were floats, along moves, both ways.
    fn lanes(&mut self) {
        let (func, cfg) = (self.i.func, self.i.cfg);
        let mut pairs: Vec<(ir::Value, ir::Value)> = Vec::new();
        let mut halves: Vec<(ir::Value, ir::Value)> = Vec::new();
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            if let ParamMode::Bits(s) = self.i.params[i] {
                self.a.lane[v] = s.lane_bytes();
            }
        }
        for &b in &cfg.blocks {
            for &s in &cfg.succs[b] {
                pairs.extend(edge_args(func, b, s).into_iter().zip(func.dfg.block_params(s).iter().copied()));
            }
            for inst in func.layout.block_insts(b) {
                let args = func.dfg.inst_args(inst);
                let results = func.dfg.inst_results(inst);
                match func.dfg.insts[inst].opcode() {
                    Opcode::Bitcast => {
                        let (x, r) = (args[0], results[0]);
                        for (f, i) in [(x, r), (r, x)] {
                            if let Some(s) = Shape::of_float(self.ty(f))
                                && !self.is_float(i)
                            {
                                self.a.lane[i] = s.lane_bytes();
                            }
                        }
                        pairs.push((x, r));
                    }
                    Opcode::Select | Opcode::SelectSpectreGuard | Opcode::Bitselect | Opcode::Blendv => {
                        pairs.extend(args[1..].iter().map(|&a| (a, results[0])));
                    }
                    Opcode::Band
                    | Opcode::Bor
                    | Opcode::Bxor
                    | Opcode::Bnot
                    | Opcode::Shuffle
                    | Opcode::Swizzle
                    | Opcode::Splat
                    | Opcode::Insertlane
                    | Opcode::Extractlane
                    | Opcode::ScalarToVector
                    | Opcode::Isplit
                    | Opcode::Iconcat
                    | Opcode::X86Pshufb => {
                        pairs.extend(args.iter().flat_map(|&a| results.iter().map(move |&r| (a, r))));
                    }
                    Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr if moves_half(func, inst) => {
                        halves.push((args[0], results[0]));
                    }
                    Opcode::Load | Opcode::Store | Opcode::AtomicLoad | Opcode::AtomicStore => {
                        let addr = access_address(func, inst).expect("an access has an address");
                        let v = results.first().copied().unwrap_or(args[0]);
                        if !self.is_float(v) && self.i.pointers.root(v).is_none() {
                            let cell = cell_of(func, addr, access_offset(func, inst));
                            let over = self.i.contents.float_overlaps(cell, self.ty(v).bytes());
                            let k = if over == Kinds::NONE { self.kinds_at(inst, addr) } else { over };
                            if let Some(s) = k.shape(self.ty(v).bytes())
                                && self.a.lane[v] == 0
                            {
                                self.a.lane[v] = s.lane_bytes();
                            }
                        }
                    }
                    Opcode::Return => {
                        for (i, &v) in args.iter().enumerate() {
                            if let ResultMode::Bits(s) = self.i.results[i] {
                                self.a.lane[v] = s.lane_bytes();
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        pairs.retain(|&(x, y)| !self.is_float(x) && !self.is_float(y));
        let mut changed = true;
        while changed {
            changed = false;
            let both = pairs.iter().map(|&p| (p, false)).chain(halves.iter().map(|&p| (p, true)));
            for ((x, y), half) in both {
                // A half of a word can be one single, never part of a double.
                if half && self.a.lane[x].max(self.a.lane[y]) > 4 {
                    continue;
                }
                let (lx, ly) = (self.a.lane[x], self.a.lane[y]);
                if lx == 0 && ly != 0 && self.ty(x).bytes() >= ly {
                    self.a.lane[x] = ly;
                    changed = true;
                } else if ly == 0 && lx != 0 && self.ty(y).bytes() >= lx {
                    self.a.lane[y] = lx;
                    changed = true;
                }
            }
        }
    }

    /// An integer that varies needs a lane width; without one it is opaque.
    fn carried(&self, v: ir::Value, definite: bool) -> State {
        if self.a.shape(self.i.func, v).is_some() { State::Varied { definite } } else { State::Taint { definite } }
    }

    fn varied(&mut self) {
        let (func, cfg) = (self.i.func, self.i.cfg);
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            if matches!(self.i.params[i], ParamMode::Active | ParamMode::Bits(_)) {
                self.a.state[v] = State::Varied { definite: true };
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &b in &cfg.blocks {
                if b != cfg.blocks[0] {
                    for (i, &v) in func.dfg.block_params(b).iter().enumerate() {
                        let mut s = State::No;
                        for &q in &cfg.preds[b] {
                            s = s.max(self.a.state[edge_args(func, q, b)[i]]);
                        }
                        if let State::Varied { definite } = s {
                            s = self.carried(v, definite);
                        }
                        changed |= self.raise(v, s);
                    }
                }
                for inst in func.layout.block_insts(b) {
                    for (k, &v) in func.dfg.inst_results(inst).to_vec().iter().enumerate() {
                        let s = self.transfer(inst, k, v);
                        changed |= self.raise(v, s);
                    }
                }
            }
        }
    }

    fn raise(&mut self, v: ir::Value, s: State) -> bool {
        let old = self.a.state[v];
        self.a.state[v] = old.max(s);
        self.a.state[v] != old
    }

    fn any_state(&self, args: &[ir::Value]) -> State {
        args.iter().map(|&a| self.a.state[a]).max().unwrap_or_default()
    }

    /// The result of integer arithmetic on something.
    fn tainted(&self, args: &[ir::Value]) -> State {
        match self.any_state(args) {
            State::No => State::No,
            State::Varied { definite } | State::Taint { definite } => State::Taint { definite },
        }
    }

    fn transfer(&mut self, inst: ir::Inst, k: usize, v: ir::Value) -> State {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        let op = func.dfg.insts[inst].opcode();
        let varied = State::Varied { definite: true };
        match opcode_rule(op) {
            OpcodeRule::Expr(row) => {
                let flows = |i: usize| !row.partial(0, i).is_zero();
                let any = args.iter().enumerate().any(|(i, &a)| flows(i) && self.a.is_varied(a));
                if any { varied } else { State::No }
            }
            OpcodeRule::Zero => {
                if matches!(op, Opcode::FcvtFromSint | Opcode::FcvtFromUint)
                    && matches!(
                        self.a.state[args[0]],
                        State::Taint { definite: true } | State::Varied { definite: true }
                    )
                {
                    let d = Diagnostic::new("AD0112", "float bits are converted as if they were an integer number")
                        .note(
                            "the integer holds the bits of an active float, and how the result depends on them is lost",
                        )
                        .help(BITS_HELP);
                    self.problem(inst, Some(v), d);
                    return varied;
                }
                State::No
            }
            OpcodeRule::NotFloat => self.tainted(args),
            OpcodeRule::Refused(_) => State::No,
            OpcodeRule::Structural(s) => self.structural(inst, k, v, op, s),
        }
    }

    fn structural(&mut self, inst: ir::Inst, k: usize, v: ir::Value, op: Opcode, s: Structural) -> State {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        match s {
            Structural::Load | Structural::AtomicLoad => self.load(inst, v),
            Structural::IntLoad => {
                let addr = access_address(func, inst).expect("a load has an address");
                if !matches!(self.i.pointers.delta[addr], Delta::Root(_)) {
                    return State::No;
                }
                let cell = cell_of(func, addr, access_offset(func, inst));
                if self.i.contents.float_overlaps(cell, 4) == Kinds::NONE {
                    State::No
                } else {
                    State::Taint { definite: true }
                }
            }
            Structural::AtomicRmw | Structural::AtomicCas => {
                let addr = access_address(func, inst).expect("an access has an address");
                if !matches!(self.i.pointers.delta[addr], Delta::Root(_)) {
                    return State::No;
                }
                let k = self.i.contents.at(cell_of(func, addr, 0), addr);
                if k.has_float() { State::Taint { definite: false } } else { State::No }
            }
            Structural::Select => {
                let s = self.any_state(&args[1..]);
                if let State::Varied { definite } = s { self.carried(v, definite) } else { s }
            }
            Structural::Bitselect
            | Structural::Blendv
            | Structural::Band
            | Structural::Bor
            | Structural::Bxor
            | Structural::Bnot => self.bitwise(inst, v),
            Structural::Bitcast => self.bitcast(inst, v),
            Structural::Splat
            | Structural::Insertlane
            | Structural::Extractlane
            | Structural::ScalarToVector
            | Structural::Shuffle => match self.any_state(args) {
                State::Varied { definite } if self.moves_whole_lanes(inst, v) => self.carried(v, definite),
                _ => self.tainted(args),
            },
            Structural::Swizzle | Structural::Pshufb => match self.a.state[args[0]] {
                State::Varied { definite } => self.carried(v, definite),
                s => s.max(self.tainted(&args[1..])),
            },
            Structural::Promote | Structural::Demote | Structural::PromoteLow | Structural::DemoteLow => {
                self.a.state[args[0]]
            }
            Structural::Call | Structural::CallIndirect => self.call(inst, k, v),
            Structural::IntArith | Structural::IntBits => match op {
                Opcode::Isplit | Opcode::Iconcat if self.a.lane[v] == 8 => match self.any_state(args) {
                    State::Varied { definite } => self.carried(v, definite),
                    s => s,
                },
                Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr
                    if moves_half(func, inst) && self.a.lane[v] == 4 && self.a.lane[args[0]] == 4 =>
                {
                    match self.a.state[args[0]] {
                        State::Varied { definite } => self.carried(v, definite),
                        s => s,
                    }
                }
                // What is left of a float above its mantissa is constant wherever it is differentiable.
                Opcode::Ushr | Opcode::Sshr
                    if constant_int(func, args[1]).is_some_and(|n| {
                        let lane = self.ty(v).lane_type();
                        (lane == types::I64 && n >= 52) || (lane == types::I32 && n >= 23)
                    }) =>
                {
                    State::No
                }
                _ => self.tainted(args),
            },
            Structural::Store
            | Structural::IntStore
            | Structural::AtomicStore
            | Structural::TailCall
            | Structural::TailCallIndirect
            | Structural::StackAddr
            | Structural::SymbolValue
            | Structural::FuncAddr
            | Structural::Control
            | Structural::Trap
            | Structural::Effect
            | Structural::Machine => State::No,
        }
    }

    /// Whether a lane instruction moves whole floats.
    fn moves_whole_lanes(&self, inst: ir::Inst, v: ir::Value) -> bool {
        let func = self.i.func;
        let lane = self.a.shape(func, v).map_or(0, Shape::lane_bytes);
        if let InstructionData::Shuffle { imm, .. } = func.dfg.insts[inst] {
            let mask = func.dfg.immediates[imm].as_slice();
            // Lanes that are no whole float may be there, if nobody uses them: the pullback checks.
            return lane != 0 && mask.chunks(lane as usize).any(|l| whole_lane(l, lane));
        }
        let vector =
            func.dfg.inst_args(inst).iter().chain(func.dfg.inst_results(inst)).find(|&&x| self.ty(x).is_vector());
        vector.is_some_and(|&x| self.ty(x).lane_type().bytes() == lane)
    }

    fn load(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let func = self.i.func;
        let addr = access_address(func, inst).expect("a load has an address");
        if !matches!(self.i.pointers.delta[addr], Delta::Root(_)) {
            return State::No;
        }
        let bytes = self.ty(v).bytes();
        let cell = cell_of(func, addr, access_offset(func, inst));
        let last = reach::last_store(func, self.i.cfg, inst, cell, bytes);
        if self.is_float(v) {
            if let Some(found) = last {
                self.torn(inst, v, found);
            }
            return State::Varied { definite: true };
        }
        let p = self.i.pointers;
        if p.address.contains(v) || p.pointer_copy.contains(v) {
            return State::No;
        }
        let moved = self.i.contents.moved.contains(v);
        if let Some(found) = last {
            // We know what is there.
            let x = func.dfg.inst_args(found.store)[0];
            if self.is_float(x) {
                let lane = self.a.shape(func, x).map_or(0, Shape::lane_bytes);
                let whole = found.offset <= 0
                    && found.offset + i64::from(found.bytes) >= i64::from(bytes)
                    && found.offset % i64::from(lane.max(1)) == 0
                    && lane == self.a.lane[v];
                return if whole { State::Varied { definite: true } } else { State::Taint { definite: true } };
            }
            if found.offset == 0 && found.bytes == bytes {
                return match self.a.state[x] {
                    State::Varied { definite } => self.carried(v, definite),
                    s => s,
                };
            }
        }
        let k = self.kinds_at(inst, addr);
        if moved && k.shape(bytes).is_some_and(|s| s.lane_bytes() == self.a.lane[v]) {
            return State::Varied { definite: false };
        }
        // Part of something, or nobody knows what; the pullback checks where it is stored. A number that is calculated
        // with is a number, unless it could be a whole float.
        let number = self.i.contents.of_cell(cell).has(Kinds::INT) || k.has(Kinds::INT) && !k.has_float();
        let could_be_float = k.has(Kinds::F64) && bytes >= 8 || k.has(Kinds::F32) && bytes >= 4;
        if moved && (could_be_float || !number) { State::Taint { definite: false } } else { State::No }
    }

    /// A float that is read where the last store wrote something else over part of it.
    fn torn(&mut self, inst: ir::Inst, v: ir::Value, found: reach::Found) {
        let func = self.i.func;
        let x = func.dfg.inst_args(found.store)[0];
        let (bytes, lane) = (i64::from(self.ty(v).bytes()), Shape::of_float(self.ty(v)).map_or(0, Shape::lane_bytes));
        let covers = found.offset <= 0 && found.offset + i64::from(found.bytes) >= bytes;
        let same = match self.a.shape(func, x) {
            // Part of a vector may be overwritten, float by float.
            Some(s) => s.lane_bytes() == lane && found.offset % i64::from(lane) == 0,
            None => covers || (found.offset % i64::from(lane) == 0 && found.bytes % lane == 0),
        };
        let whole_word = found.offset % i64::from(lane) == 0 && found.bytes % lane == 0;
        let inactive_word = !self.is_float(x) && self.a.state[x] == State::No && whole_word;
        if !same && !inactive_word {
            let d = Diagnostic::new("AD0114", "a float is read where part of it was overwritten by something else")
                .note(format!("the last store there is `{}`", func.dfg.display_inst(found.store)))
                .note("its bits are a mixture of two values, and no derivative describes that")
                .help("store and load the place with one type");
            self.problem(inst, Some(v), d);
        }
    }

    fn bitwise(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        let state = self.any_state(args);
        if state == State::No {
            return State::No;
        }
        let lane = self.a.shape(func, v).map_or(0, Shape::lane_bytes);
        if let State::Varied { definite } = state
            && lane != 0
        {
            match bits::classify(func, inst, lane, |x| self.a.is_varied(x)) {
                Some(bits::BitOp::SignOnly) => return State::No,
                Some(_) => return self.carried(v, definite),
                None => {}
            }
        }
        if self.is_float(v) {
            let d = Diagnostic::new(
                "AD0110",
                "a bitwise operation on active floats that is no sign change and no lane mask",
            )
            .note("masks are recognised when they are constants or results of comparisons")
            .help(BITS_HELP);
            self.problem(inst, Some(v), d);
            return State::Varied { definite: true };
        }
        self.tainted(args)
    }

    fn bitcast(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let x = self.i.func.dfg.inst_args(inst)[0];
        let state = self.a.state[x];
        if !self.is_float(v) {
            return match state {
                State::Varied { definite } => match (self.a.shape(self.i.func, x), self.a.shape(self.i.func, v)) {
                    (Some(a), Some(b)) if a.lane_bytes() == b.lane_bytes() => State::Varied { definite },
                    _ => State::Taint { definite },
                },
                s => s,
            };
        }
        match state {
            State::No => State::No,
            State::Varied { .. } => {
                let (a, b) = (self.a.shape(self.i.func, x), self.a.shape(self.i.func, v));
                if a.map(Shape::lane_bytes) != b.map(Shape::lane_bytes) {
                    let d = Diagnostic::new("AD0111", "the bits of active floats are seen as floats of another width")
                        .note("part of one float's bits is another float's bits, and no derivative describes that")
                        .help("convert with `fpromote`, `fdemote`, `fvpromote_low` or `fvdemote`");
                    self.problem(inst, Some(v), d);
                }
                State::Varied { definite: true }
            }
            State::Taint { .. } => {
                let d = Diagnostic::new(
                    "AD0110",
                    "bits that integer arithmetic computed from an active float become a float",
                )
                .note("only sign changes, lane masks and unchanged copies of float bits can be differentiated")
                .help(BITS_HELP);
                self.problem(inst, Some(v), d);
                State::Varied { definite: true }
            }
        }
    }

    fn call(&mut self, inst: ir::Inst, k: usize, v: ir::Value) -> State {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        match CalleeKind::of(self.i.program, func, inst) {
            Some(CalleeKind::Known(rule)) => match rule.kind {
                MathKind::Expr(row) | MathKind::Writes(row, _) => {
                    let flows = |i: usize| !row.partial(k, i).is_zero();
                    let any = args.iter().enumerate().any(|(i, &a)| flows(i) && self.a.is_varied(a));
                    if any { State::Varied { definite: true } } else { State::No }
                }
                MathKind::Memory(_) | MathKind::Inactive => State::No,
            },
            Some(CalleeKind::Missing(_)) | None => State::No,
            Some(CalleeKind::Derived(_)) | Some(CalleeKind::Indirect(_)) => {
                let p = self.i.pointers;
                let reached = args.iter().any(|&a| self.a.state[a] != State::No || p.root(a).is_some())
                    || self.i.program.data.values().any(|d| d.writable);
                if !reached || p.root(v).is_some() {
                    State::No
                } else if self.is_float(v) {
                    State::Varied { definite: true }
                } else if self.a.lane[v] != 0 {
                    self.carried(v, false)
                } else {
                    State::No
                }
            }
        }
    }

    /// Roles of memory accesses, and stores into memory that has no shadow.
    fn roles(&mut self) {
        let func = self.i.func;
        for &b in &self.i.cfg.blocks {
            for inst in func.layout.block_insts(b) {
                if func.dfg.insts[inst].opcode() == Opcode::Return {
                    self.returned(inst);
                }
                if let Some(addr) = access_address(func, inst) {
                    match self.i.pointers.delta[addr] {
                        Delta::Lost => self.lost(inst),
                        Delta::Root(_) => {
                            let role = self.role(inst, addr);
                            self.a.mem[inst] = role;
                        }
                        Delta::None | Delta::Unknown => self.const_store(inst),
                    }
                } else if let Some(CalleeKind::Known(rule)) = CalleeKind::of(self.i.program, func, inst)
                    && let MathKind::Memory(MemFn::Memcpy | MemFn::Memmove) = rule.kind
                {
                    self.copy_role(inst);
                }
            }
        }
    }

    /// Bits that the caller will make a float of must still be a float's.
    fn returned(&mut self, inst: ir::Inst) {
        for (i, &v) in self.i.func.dfg.inst_args(inst).iter().enumerate() {
            if matches!((self.i.results[i], self.a.state[v]), (ResultMode::Bits(_), State::Taint { definite: true })) {
                let d = Diagnostic::new(
                    "AD0113",
                    "an integer computed from float bits is returned to a caller that makes a float of it",
                )
                .help(BITS_HELP);
                self.problem(inst, None, d);
            }
        }
    }

    fn lost(&mut self, inst: ir::Inst) {
        let d = Diagnostic::new(
            "AD0130",
            "the address was computed from a pointer by arithmetic that its shadow cannot follow",
        )
        .note("addition, subtraction, alignment by a constant mask, select and block parameters are followed")
        .help("keep the base pointer and add an offset to it");
        self.problem(inst, None, d);
    }

    fn const_store(&mut self, inst: ir::Inst) {
        let func = self.i.func;
        let op = func.dfg.insts[inst].opcode();
        if matches!(op, Opcode::Store | Opcode::AtomicStore) {
            let x = func.dfg.inst_args(inst)[0];
            if matches!(self.a.state[x], State::Varied { definite: true }) {
                let d = Diagnostic::new("AD0120", "an active value is stored in memory that has no shadow")
                    .note("a later load of it would have no derivative, silently")
                    .help("mark the pointer duplicated and give it a shadow, or mark the inputs of the value const");
                self.problem(inst, None, d);
            }
        }
    }

    fn role(&mut self, inst: ir::Inst, addr: ir::Value) -> MemRole {
        let func = self.i.func;
        let op = func.dfg.insts[inst].opcode();
        let args = func.dfg.inst_args(inst);
        match op {
            Opcode::Load | Opcode::AtomicLoad => {
                let v = func.dfg.first_result(inst);
                if self.i.pointers.root(v) == Some(v) {
                    MemRole::Pointer
                } else if self.a.is_varied(v) {
                    self.a.shape(func, v).map_or(MemRole::None, MemRole::Float)
                } else {
                    MemRole::None
                }
            }
            Opcode::Store | Opcode::AtomicStore => {
                let x = args[0];
                let bytes = self.ty(x).bytes();
                let kill = |checked| MemRole::Kill { bytes, checked };
                let k = self.kinds_at(inst, addr);
                if self.i.pointers.root(x).is_some() || self.i.pointers.delta[x] == Delta::Lost {
                    return MemRole::Pointer;
                }
                match self.a.state[x] {
                    State::Varied { .. } => self.a.shape(func, x).map_or(kill(true), MemRole::Float),
                    State::Taint { definite } => {
                        let cell = cell_of(func, addr, access_offset(func, inst));
                        if definite && self.i.contents.float_overlaps(cell, bytes) != Kinds::NONE {
                            let d = Diagnostic::new("AD0110", "bits that integer arithmetic computed from an active float are stored where a float is read")
                                .note("only sign changes, lane masks and unchanged copies of float bits can be differentiated")
                                .help(BITS_HELP);
                            self.problem(inst, None, d);
                        }
                        kill(true)
                    }
                    State::No if self.ty(x) == types::I64 && k.moved() == Kinds::POINTER => MemRole::Pointer,
                    State::No => kill(false),
                }
            }
            Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => {
                let bytes = match op {
                    Opcode::Istore8 => 1,
                    Opcode::Istore16 => 2,
                    _ => 4,
                };
                MemRole::Kill { bytes, checked: self.a.state[args[0]] != State::No }
            }
            Opcode::AtomicRmw | Opcode::AtomicCas => {
                let bytes = self.ty(func.dfg.first_result(inst)).bytes();
                let x = args[args.len() - 1];
                if self.a.is_varied(x) {
                    let d = Diagnostic::new("AD0108", "an atomic update writes the bits of an active float")
                        .note("which of the competing updates won is not known to the pullback")
                        .help("accumulate per thread and add up afterwards");
                    self.problem(inst, None, d);
                }
                MemRole::Kill { bytes, checked: true }
            }
            _ => MemRole::None,
        }
    }

    fn copy_role(&mut self, inst: ir::Inst) {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        let p = self.i.pointers;
        if p.delta[args[0]] == Delta::Lost || p.delta[args[1]] == Delta::Lost {
            self.lost(inst);
            return;
        }
        let k = self.i.contents.of_class(args[0]);
        let role = match k.moved() {
            Kinds::F64 => CopyRole::Floats(8),
            Kinds::F32 => CopyRole::Floats(4),
            Kinds::POINTER => CopyRole::Pointers,
            Kinds::NONE if k.has(Kinds::INT) => CopyRole::Ints,
            _ if let Some(fields) = self.fields(args) => CopyRole::Fields(fields),
            _ => {
                if p.root(args[0]).is_some() || p.root(args[1]).is_some() {
                    let d = Diagnostic::new("AD0140", "cannot tell what this copy moves")
                        .note("the memory is accessed as several kinds of things here, or as none")
                        .help("declare what the buffers hold (`Request::elems`), or copy field by field");
                    self.problem(inst, None, d);
                }
                CopyRole::Ints
            }
        };
        if p.root(args[0]).is_none() && p.root(args[1]).is_some() && matches!(role, CopyRole::Floats(_)) {
            let d = Diagnostic::new("AD0120", "active memory is copied into memory that has no shadow")
                .help("mark the destination duplicated and give it a shadow, or mark the source const");
            self.problem(inst, None, d);
        }
        self.a.copies[inst] = Some(role);
    }

    /// The fields of a copy of known size, word by word, if every word is of one known kind.
    fn fields(&self, args: &[ir::Value]) -> Option<Vec<(i32, MemRole)>> {
        let func = self.i.func;
        let n = constant_int(func, args[2]).filter(|n| (0..=4096).contains(n))?;
        let of = |p: ir::Value, at: i64| {
            let cell = cell_of(func, p, at as i32);
            self.i.contents.of_cell(cell).moved()
        };
        let mut out = Vec::new();
        let mut known = false;
        for at in (0..n).step_by(8) {
            let bytes = (n - at).min(8) as u32;
            let low = of(args[0], at).join(of(args[1], at));
            let high = of(args[0], at + 4).join(of(args[1], at + 4));
            let role = match (low, high) {
                (Kinds::F64, Kinds::NONE) if bytes == 8 => MemRole::Float(Shape::F64),
                (Kinds::POINTER, Kinds::NONE) if bytes == 8 => MemRole::Pointer,
                (Kinds::F32 | Kinds::NONE, Kinds::F32) | (Kinds::F32, Kinds::NONE) if bytes == 8 => {
                    MemRole::Float(Shape::F32Pair)
                }
                (Kinds::F32, Kinds::NONE) if bytes == 4 => MemRole::Float(Shape::F32),
                (Kinds::NONE, Kinds::NONE) => MemRole::Kill { bytes, checked: true },
                _ => return None,
            };
            known |= matches!(role, MemRole::Float(_) | MemRole::Pointer);
            out.push((at as i32, role));
        }
        known.then_some(out)
    }

    /// Backwards: what an output depends on.
    fn usefulness(&mut self) {
        let (func, cfg) = (self.i.func, self.i.cfg);
        let mut changed = true;
        while changed {
            changed = false;
            for &b in cfg.blocks.iter().rev() {
                let insts: Vec<_> = func.layout.block_insts(b).collect();
                for &inst in insts.iter().rev() {
                    for &v in func.dfg.inst_results(inst) {
                        changed |= self.mark(v);
                    }
                }
                for &v in func.dfg.block_params(b) {
                    changed |= self.mark(v);
                }
            }
        }
    }

    fn mark(&mut self, v: ir::Value) -> bool {
        if self.a.state[v] == State::No || self.useful.contains(v) {
            return false;
        }
        let useful = self.i.uses.of(v).iter().any(|&u| match u {
            Use::Edge(_, p) => self.useful.contains(p),
            Use::Inst(i, n) => self.use_is_useful(i, n, v),
        });
        useful && self.useful.insert(v)
    }

    fn use_is_useful(&self, inst: ir::Inst, n: usize, v: ir::Value) -> bool {
        let func = self.i.func;
        let op = func.dfg.insts[inst].opcode();
        let result_useful = |k: usize| func.dfg.inst_results(inst).get(k).is_some_and(|&r| self.useful.contains(r));
        let any_result = || func.dfg.inst_results(inst).iter().any(|&r| self.useful.contains(r));
        match opcode_rule(op) {
            OpcodeRule::Expr(row) => !row.partial(0, n).is_zero() && result_useful(0),
            OpcodeRule::Zero | OpcodeRule::NotFloat => any_result(),
            OpcodeRule::Refused(_) => false,
            OpcodeRule::Structural(s) => match s {
                Structural::Store | Structural::AtomicStore => n == 0 && matches!(self.a.mem[inst], MemRole::Float(_)),
                Structural::Control => {
                    op == Opcode::Return && matches!(self.i.results[n], ResultMode::Active | ResultMode::Bits(_))
                }
                Structural::Call | Structural::CallIndirect => match CalleeKind::of(self.i.program, func, inst) {
                    Some(CalleeKind::Known(rule)) => match rule.kind {
                        MathKind::Expr(row) => !row.partial(0, n).is_zero() && result_useful(0),
                        MathKind::Writes(row, _) => (0..row.n_results()).any(|k| !row.partial(k, n).is_zero()),
                        _ => false,
                    },
                    Some(CalleeKind::Derived(_) | CalleeKind::Indirect(_)) => {
                        self.is_float(v) || self.a.lane[v] != 0 || any_result()
                    }
                    _ => false,
                },
                Structural::Select => n > 0 && result_useful(0),
                _ => any_result(),
            },
        }
    }
}

/// The offset of a load or store instruction, for callers that emit the access to the shadow.
pub fn offset(func: &ir::Function, inst: ir::Inst) -> i32 {
    match func.dfg.insts[inst] {
        InstructionData::Load { .. } | InstructionData::Store { .. } => access_offset(func, inst),
        _ => 0,
    }
}
