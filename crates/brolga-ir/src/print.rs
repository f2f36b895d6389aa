//! Derived graphs as text for people: what a derivative does, block by block, in the names of the
//! primal.
//!
//! **Problem.** To debug a derivative, a reader needs the reverse of the function being
//! differentiated: which cotangent goes where, what was recorded for it, and which primal
//! instruction it is the reverse of. Debug output of the data structures hides all of that after
//! punctuation.
//!
//! **Answer.** One line per instruction, in a notation close to CLIF (`op.type operands`), with
//! four words of our own:
//!
//! ```text
//! v7  v7'  i4:0  d3          primal value, its shadow delta, by-product of inst4, derived value
//! ct(v7)                     the cotangent of v7
//! frame+16                   a place in the activation frame
//! shadow.f64[v2+8; v0']      the shadow of the f64 at v2+8: v0' is the delta that leads there
//! shadow?.f64[v2+8; v0']     the same, if v0' is not zero
//! mem.f64[v2+8]              primal memory
//! ```
//!
//! In the pullback each group of lines stands under the primal instruction whose reverse it is, as
//! a comment. Primal instructions are printed by Cranelift, so they read as in the input.
//!
//! **Invariants.** The text depends on the graph alone: no addresses, no hash order, no ids drawn
//! elsewhere. Equal graphs print equally, so texts can be compared. It is not parsed back; the CLIF
//! that [`crate::lower`] makes can be.
//!
//! **Cost.** One walk over the graph, and a string for each line. None, where no text is asked for.

use std::fmt::{self, Display, Formatter};

use crate::map::IndexMap;
use cranelift_codegen::ir::{self, InstructionData, Type, ValueDef, types};

use crate::block::{CfgBlock, CfgBlocks, Fragment, Role, Target, Term};
use crate::inst::{
    AdInst, AdOp, Arith, Callee, ClearQuery, DOUBLES_ANYWHERE, FrameSlot, PieceOp, ShadowPlace, Shape, Sum, Tape, Val,
};
use crate::program::symbol_of;
use crate::{BlockId, InstId};

impl Display for Val {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Val::Primal(v) => write!(f, "{v}"),
            Val::Delta(v) => write!(f, "{v}'"),
            Val::Aux(inst, n) => write!(f, "i{}:{n}", inst.as_u32()),
            Val::Tangent(v, 0) => write!(f, "{v}.t"),
            Val::Tangent(v, n) => write!(f, "{v}.t{n}"),
            Val::D(d) => write!(f, "{d}"),
        }
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Shape::F32 => f.write_str("f32"),
            Shape::F64 => f.write_str("f64"),
            Shape::F32X4 => f.write_str("f32x4"),
            Shape::F64X2 => f.write_str("f64x2"),
            Shape::F32Pair => f.write_str("f32pair"),
            Shape::Bytes { n, of: 0 } => write!(f, "{n} bytes"),
            Shape::Bytes { n, of: DOUBLES_ANYWHERE } => write!(f, "{n} bytes of f64 anywhere"),
            Shape::Bytes { n, of } => write!(f, "{n} bytes of f{}", 8 * of),
            Shape::Demand { n } => write!(f, "demand of {n} bytes"),
        }
    }
}

impl Display for FrameSlot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.as_variable() {
            Some(number) => write!(f, "var{number}"),
            None => write!(f, "frame+{}", self.0),
        }
    }
}

impl Display for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Role::Forward(b) => write!(f, "forward of {b}"),
            Role::Reverse(b) => write!(f, "reverse of {b}"),
            Role::Edge(p, b) => write!(f, "edge {p} -> {b}"),
            Role::Begin(h) => write!(f, "loop of {h}, forwards"),
            Role::Rerun(h, b) => write!(f, "{b} again, in the loop of {h}"),
            Role::Entry => write!(f, "entry"),
            Role::Exit => write!(f, "exit"),
        }
    }
}

impl Display for Callee {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Callee::Symbol(s) => write!(f, "%{s}"),
            Callee::Pointer(v) => write!(f, "{v}"),
        }
    }
}

/// A comma-separated list.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, x) in self.0.iter().enumerate() {
            write!(f, "{}{x}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A block's record: values, and the block's number.
struct Record<'a>(&'a [Val], Option<u32>);

impl Display for Record<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Record([], Some(n)) => write!(f, "block {n}"),
            Record(vs, Some(n)) => write!(f, "[{}], block {n}", List(vs)),
            Record(vs, None) => write!(f, "[{}]", List(vs)),
        }
    }
}

/// A signed offset behind an address; nothing for zero.
struct Offset(i32);

impl Display for Offset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, "{:+}", self.0) }
    }
}

impl Display for ShadowPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_place(f, self, "")
    }
}

/// A place in shadow memory, and what is read or written there: nothing, or `.f64`.
fn write_place(f: &mut Formatter<'_>, place: &ShadowPlace, what: &str) -> fmt::Result {
    let ShadowPlace { addr, delta, off, part, sure } = place;
    write!(f, "shadow{}{what}[{addr}{}; {delta}]", if *sure { "" } else { "?" }, Offset(*off))?;
    if *part == 0 { Ok(()) } else { write!(f, " from {part}") }
}

/// A primal instruction as Cranelift prints it; what it refers to by number is spelled out after
/// it.
pub fn primal_text(func: &ir::Function, inst: ir::Inst) -> String {
    let mut s = func.dfg.display_inst(inst).to_string().trim_end().to_owned();
    let refers = match func.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } | InstructionData::FuncAddr { func_ref, .. } => {
            Some(format!("%{}", symbol_of(func, &func.dfg.ext_funcs[func_ref].name)))
        }
        InstructionData::UnaryGlobalValue { global_value, .. } => match &func.global_values[global_value] {
            ir::GlobalValueData::Symbol { name, .. } => Some(format!("%{}", symbol_of(func, name))),
            _ => None,
        },
        InstructionData::UnaryConst { constant_handle, .. } => {
            Some(func.dfg.constants.get(constant_handle).to_string())
        }
        _ => None,
    };
    if let Some(r) = refers {
        s.push_str("  ; ");
        s.push_str(&r);
    }
    s
}

/// The same of an instruction that computes what has another name.
pub fn primal_text_as(func: &ir::Function, inst: ir::Inst, name: Val) -> String {
    let text = primal_text(func, inst);
    match text.split_once(" = ") {
        Some((_, computes)) if func.dfg.inst_results(inst).len() == 1 => format!("{name} = {computes}"),
        _ => text,
    }
}

/// Name of an arithmetic operation: CLIF's where CLIF has it.
fn arith_name(op: &Arith) -> &'static str {
    match op {
        Arith::Const(_) => "const",
        Arith::Iconst(_) => "iconst",
        Arith::Fadd => "fadd",
        Arith::Fsub => "fsub",
        Arith::Fmul => "fmul",
        Arith::Fdiv => "fdiv",
        Arith::Fneg => "fneg",
        Arith::Fabs => "fabs",
        Arith::Sqrt => "sqrt",
        Arith::Trunc => "trunc",
        Arith::Nearest => "nearest",
        Arith::Floor => "floor",
        Arith::Copysign => "fcopysign",
        Arith::Fcmp(_) => "fcmp",
        Arith::IsZero => "is_zero",
        Arith::Band => "band",
        Arith::Bor => "bor",
        Arith::Bxor => "bxor",
        Arith::Bitselect => "bitselect",
        Arith::NonZero => "nonzero",
        Arith::KeepWhere => "keep_where",
        Arith::Not => "not",
        Arith::Select => "select",
        Arith::SelectAll => "select_all",
        Arith::Bitcast => "bitcast",
        Arith::Promote => "fpromote",
        Arith::Demote => "fdemote",
        Arith::PromoteLow => "fvpromote_low",
        Arith::DemoteLow => "fvdemote",
        Arith::Extract(_) => "extractlane",
        Arith::Insert(_) => "insertlane",
        Arith::Splat => "splat",
        Arith::ScalarToVector => "scalar_to_vector",
        Arith::ShuffleBytes(_) => "shuffle",
        Arith::Iadd => "iadd",
        Arith::Isub => "isub",
        Arith::Imul => "imul",
        Arith::UshrBy(_) => "ushr",
        Arith::Copy => "copy",
        Arith::Int(op) => match op {
            ir::Opcode::Smin => "smin",
            ir::Opcode::Smax => "smax",
            ir::Opcode::Umin => "umin",
            ir::Opcode::Umax => "umax",
            ir::Opcode::Rotl => "rotl",
            ir::Opcode::Rotr => "rotr",
            ir::Opcode::Ishl => "ishl",
            ir::Opcode::Ushr => "ushr",
            ir::Opcode::Bswap => "bswap",
            ir::Opcode::Bitrev => "bitrev",
            _ => "int",
        },
        Arith::Math(_) => "call",
        Arith::ToBits => "to_bits",
        Arith::FromBits(_) => "from_bits",
        Arith::Uextend => "uextend",
        Arith::Ireduce => "ireduce",
        Arith::FromInt => "fcvt_from_sint",
        Arith::Icmp(_) => "icmp",
    }
}

fn write_arith(f: &mut Formatter<'_>, op: &Arith, args: &[Val], ty: Type) -> fmt::Result {
    write!(f, "{}.{ty} ", arith_name(op))?;
    match op {
        // `{:?}` of a float reads back as the same float.
        Arith::Const(x) => write!(f, "{x:?}"),
        Arith::Iconst(x) => write!(f, "{x}"),
        Arith::Math(symbol) => write!(f, "%{symbol}({})", List(args)),
        Arith::Fcmp(cc) => write!(f, "{cc} {}", List(args)),
        Arith::Icmp(cc) => write!(f, "{cc} {}", List(args)),
        Arith::Extract(lane) | Arith::Insert(lane) | Arith::UshrBy(lane) => write!(f, "{}, {lane}", List(args)),
        Arith::FromBits(shape) => write!(f, "{}, {shape}", List(args)),
        Arith::ShuffleBytes(mask) => {
            write!(f, "{}, 0x", List(args))?;
            // As CLIF writes an immediate: most significant byte first.
            mask.iter().rev().try_for_each(|b| write!(f, "{b:02x}"))
        }
        _ => write!(f, "{}", List(args)),
    }
}

/// A derived instruction on one line.
pub struct DisplayInst<'a> {
    inst: &'a AdInst,
    primal: &'a ir::Function,
}

impl AdInst {
    /// The instruction on one line; `primal` is the function that its names come from.
    pub fn display<'a>(&'a self, primal: &'a ir::Function) -> DisplayInst<'a> {
        DisplayInst { inst: self, primal }
    }
}

impl DisplayInst<'_> {
    /// A shadow is cleared.
    fn zero(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let AdOp::ZeroMem { place, bytes, asks, cuts } = &self.inst.op else { return Ok(()) };
        write!(f, "{place} = 0, {bytes} bytes")?;
        match asks {
            ClearQuery::Nothing => {}
            ClearQuery::Known => write!(f, ", loads ask if it was poison")?,
            ClearQuery::Zero | ClearQuery::Bits => write!(f, ", trap untracked_bits if it was not 0")?,
        }
        match cuts {
            None => Ok(()),
            Some(0) => write!(f, ", maybe of a float"),
            Some(of) => write!(f, ", maybe of an f{}", 8 * of),
        }
    }

    /// An operation that only forward mode has.
    fn forward_mode(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.inst.op {
            AdOp::LoadTangent { place, ty } => write!(f, "load.{ty} {place}"),
            AdOp::Series(i, result, args) => {
                let args: Vec<String> = args.iter().map(Val::to_string).collect();
                write!(f, "series of {i}:{result} ({})", args.join(", "))
            }
            AdOp::Moved(i, args) => {
                let args: Vec<String> = args.iter().map(Val::to_string).collect();
                write!(f, "{} of {}", self.primal.dfg.insts[*i].opcode(), args.join(", "))
            }
            AdOp::Piece { what, place, n } => match what {
                PieceOp::Note => write!(f, "note {place}, {n} bytes"),
                PieceOp::Mark => write!(f, "mark {place}, {n} bytes"),
                PieceOp::Settle(size) => write!(f, "settle f{} in {place}, {n} bytes", 8 * u32::from(*size)),
                PieceOp::Clean => write!(f, "clean {place}, {n} bytes"),
            },
            AdOp::StoreTangent { place, value } => write!(f, "{place} = {value}"),
            _ => Ok(()),
        }
    }
}

impl Display for DisplayInst<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let AdInst { defs, op, at: _ } = self.inst;
        let ty = defs.first().map_or(types::INVALID, |d| d.1);
        if let AdOp::Primal(inst) = op {
            return match defs[..] {
                [(name @ Val::Primal(_), _)] => write!(f, "{}", primal_text_as(self.primal, *inst, name)),
                _ => write!(f, "{}", primal_text(self.primal, *inst)),
            };
        }
        if !defs.is_empty() && !matches!(op, AdOp::Pop(..)) {
            let names: Vec<Val> = defs.iter().map(|d| d.0).collect();
            write!(f, "{} = ", List(&names))?;
        }
        match op {
            AdOp::Primal(_) => unreachable!("printed above"),
            AdOp::Arith(op, args, ty) => write_arith(f, op, args, *ty),
            AdOp::SlotDelta(slot) => write!(f, "delta of {slot}"),
            AdOp::SlotAddr(slot, off) => write!(f, "address of {slot}{} in frame", Offset(*off)),
            AdOp::DataDelta(key) => write!(f, "delta of {key}"),
            AdOp::LoadDelta { place, loaded } => write!(f, "delta of {loaded} by {place}"),
            AdOp::StoreDelta { place, value, vdelta: Some(d) } => write!(f, "{place} = {value} + {d}"),
            AdOp::StoreDelta { place, value, vdelta: None } => write!(f, "{place} = {value}, no shadow"),
            AdOp::LoadTaskDelta(place) => write!(f, "delta in {place}"),
            AdOp::LoadOld { addr, off, ty } => write!(f, "mem.{ty}[{addr}{}]", Offset(*off)),
            AdOp::StoreOld { addr, off, value } => write!(f, "mem[{addr}{}] = {value}", Offset(*off)),
            AdOp::EnterFrame => write!(f, "enter frame"),
            AdOp::Keep(slot, v) => write!(f, "keep {slot} = {v}"),
            AdOp::KeepBlock(slot, n) => write!(f, "keep {slot} = block {n}"),
            AdOp::Push(vs, id) => write!(f, "push {}", Record(vs, *id)),
            AdOp::LeaveFrame => write!(f, "leave frame"),
            AdOp::OpenFrame => write!(f, "open frame"),
            AdOp::NextIteration => write!(f, "iteration"),
            AdOp::Hold(name, v) => write!(f, "hold {name} = {v}"),
            AdOp::Held(name) => write!(f, "held.{ty} {name}"),
            AdOp::Restore(slot) => write!(f, "restore.{ty} {slot}"),
            AdOp::RestoreBlock(slot) => write!(f, "block at {slot}"),
            AdOp::PeekBlock => write!(f, "block on top of tape"),
            AdOp::Pop(vs, id) => write!(f, "pop {}", Record(vs, *id)),
            AdOp::CloseFrame => write!(f, "close frame"),
            AdOp::TakeCt(v) => write!(f, "take ct({v})"),
            AdOp::AddCt(v, by) => write!(f, "ct({v}) += {by}"),
            AdOp::ZeroCt(v) => write!(f, "ct({v}) = 0"),
            AdOp::AddMem { place, by, shape, fresh } => {
                write_place(f, place, &format!(".{shape}"))?;
                write!(f, " {} {by}", if *fresh { "=" } else { "+=" })
            }
            AdOp::TakeMem { place, shape } => {
                f.write_str("take ")?;
                write_place(f, place, &format!(".{shape}"))
            }
            AdOp::PeekMem { place, shape } => write_place(f, place, &format!(".{shape}")),
            AdOp::LoadTangent { .. }
            | AdOp::StoreTangent { .. }
            | AdOp::Moved(..)
            | AdOp::Series(..)
            | AdOp::Piece { .. } => self.forward_mode(f),
            AdOp::ZeroMem { .. } => self.zero(f),
            AdOp::Poison { place, bytes, when: Some(when) } => {
                write!(f, "{place} = poison, {bytes} bytes, if {when}")
            }
            AdOp::Poison { place, bytes, when: None } => {
                write!(f, "{place} = poison, {bytes} bytes, if a number was made of them")
            }
            AdOp::Call { callee, args, sig: _, tape } => {
                let args: Vec<String> =
                    args.iter().map(|a| a.map_or_else(|| "seg".to_owned(), |v| v.to_string())).collect();
                // The callee moves the tape: the position is handed over through the segment.
                let how = match tape {
                    Tape::Moves => "call",
                    Tape::Above => "call_above",
                    Tape::Aside => "call_aside",
                };
                write!(f, "{how} {callee}({})", List(&args))
            }
            AdOp::Lookup { addr, signature } => write!(f, "lookup {addr}, signature {signature:#018x}"),
            AdOp::TrapIf(v, check) => write!(f, "trap if {v}, {}", check.name()),
            AdOp::TrapIfBytes(v) => write!(f, "trap if bytes of {v}, {}", crate::inst::Check::UntrackedBits.name()),
            AdOp::Watch { value, sum: Sum::Least, .. } => write!(f, "watch {value}, which is to be greater than zero"),
            AdOp::Watch { value, not_zero, sum } => {
                let more = if *not_zero { " and not zero" } else { "" };
                write!(f, "watch {value}, which is to be finite{more}")?;
                match sum {
                    Sum::OfFunction | Sum::Least => Ok(()),
                    Sum::Aside => write!(f, ", in memory"),
                    Sum::Loop(header) => write!(f, ", in the loop of {header}"),
                }
            }
            AdOp::WatchFrom(header) => write!(f, "watch the loop of {header}"),
            AdOp::WatchJoin(header) => write!(f, "join what was watched in the loop of {header}"),
            AdOp::WatchFlag(v) => write!(f, "watch {v}, which is to be zero"),
            AdOp::Watched => write!(f, "watched.{ty}"),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.block)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, "({})", List(&self.args)) }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Jump(t) => write!(f, "jump {t}"),
            Term::If(c, x, y) => write!(f, "brif {c}, {x}, {y}"),
            Term::Table(i, default, entries) => write!(f, "br_table {i}, {default}, [{}]", List(entries)),
            Term::Switch(on, cases) => {
                let cases: Vec<String> = cases.iter().map(|(n, to)| format!("block {n}: {to}")).collect();
                write!(f, "switch {on}, [{}]", List(&cases))
            }
            Term::Return(vs) if vs.is_empty() => write!(f, "return"),
            Term::Return(vs) => write!(f, "return {}", List(vs)),
            Term::Trap(code) => write!(f, "trap {code}"),
        }
    }
}

/// Whether an instruction belongs to the block as a whole, not to the primal instruction it was
/// placed at.
fn belongs_to_block(op: &AdOp) -> bool {
    matches!(
        op,
        AdOp::Primal(_)
            | AdOp::EnterFrame
            | AdOp::Keep(..)
            | AdOp::KeepBlock(..)
            | AdOp::Push(..)
            | AdOp::LeaveFrame
            | AdOp::OpenFrame
            | AdOp::NextIteration
            | AdOp::Hold(..)
            | AdOp::Held(_)
            | AdOp::Restore(_)
            | AdOp::RestoreBlock(_)
            | AdOp::PeekBlock
            | AdOp::Pop(..)
            | AdOp::CloseFrame
            | AdOp::Watch { .. }
            | AdOp::WatchFrom(_)
            | AdOp::WatchJoin(_)
            | AdOp::WatchFlag(_)
            | AdOp::Watched
            | AdOp::ZeroCt(_)
    )
}

/// A graph as text.
pub struct DisplayGraph<'a> {
    graph: &'a CfgBlocks,
    primal: &'a ir::Function,
    ids: bool,
}

impl CfgBlocks {
    /// The graph as text; `primal` is the function that its names come from.
    pub fn display<'a>(&'a self, primal: &'a ir::Function) -> DisplayGraph<'a> {
        DisplayGraph { graph: self, primal, ids: false }
    }

    /// Predecessors of each block, in layout order.
    pub fn predecessors(&self) -> IndexMap<BlockId, Vec<BlockId>> {
        let mut preds: IndexMap<BlockId, Vec<BlockId>> = self.blocks.keys().map(|&b| (b, Vec::new())).collect();
        for b in self.blocks.values() {
            for s in b.term.successors() {
                let p = preds.entry(s).or_default();
                if !p.contains(&b.id) {
                    p.push(b.id);
                }
            }
        }
        preds
    }
}

impl<'a> DisplayGraph<'a> {
    /// Print the id of each instruction before it.
    pub fn with_ids(mut self) -> Self {
        self.ids = true;
        self
    }

    /// The parameters of a block, in parentheses; nothing if it has none.
    ///
    /// The segment is the one integer among the derived parameters of an entry; it goes by its
    /// name.
    pub fn params(&self, block: &CfgBlock) -> String {
        if block.params.is_empty() {
            return String::new();
        }
        let entry = block.id == self.graph.entry();
        let name = |&(v, ty): &(Val, Type)| match v {
            Val::D(_) if entry && ty == types::I64 => format!("seg: {ty}"),
            _ => format!("{v}: {ty}"),
        };
        let names: Vec<String> = block.params.iter().map(name).collect();
        format!("({})", List(&names))
    }

    /// The lines of a block: instructions, comments that say whose reverse they are, and the
    /// terminator.
    pub fn lines(&self, block: &'a CfgBlock) -> Vec<String> {
        let mut out = Vec::new();
        let mut said: Option<String> = None;
        let mut cleared: Vec<ir::Value> = Vec::new();
        let comments = !matches!(block.role, Role::Forward(_));
        for (id, inst) in block.insts.iter() {
            // Runs of cleared cotangents share a line.
            match inst.op {
                AdOp::ZeroCt(v) if !self.ids => {
                    cleared.push(v);
                    continue;
                }
                _ => flush_cleared(&mut cleared, &mut out),
            }
            if comments && !belongs_to_block(&inst.op) {
                let whose = self.whose(inst);
                if whose.is_some() && whose != said {
                    out.extend(whose.as_ref().map(|w| format!("; {w}")));
                    said = whose;
                }
            }
            out.push(self.margin(Some(*id)) + &inst.display(self.primal).to_string());
        }
        flush_cleared(&mut cleared, &mut out);
        out.push(self.margin(None) + &block.term.to_string());
        out
    }

    /// The primal text of which an instruction is the reverse.
    fn whose(&self, inst: &AdInst) -> Option<String> {
        if let AdOp::TakeCt(v) = inst.op
            && let ValueDef::Param(b, _) = self.primal.dfg.value_def(v)
        {
            return Some(format!("parameters of {b}"));
        }
        inst.at.map(|at| primal_text(self.primal, at))
    }

    fn margin(&self, id: Option<InstId>) -> String {
        match (self.ids, id) {
            (false, _) => String::new(),
            (true, Some(id)) => format!("{:<6}", id.to_string()),
            (true, None) => " ".repeat(6),
        }
    }
}

impl Display for DisplayGraph<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "%{}{}", self.graph.symbol, self.graph.signature)?;
        let preds = self.graph.predecessors();
        for block in self.graph.blocks.values() {
            write!(f, "\n{}{}:  ; {}", block.id, self.params(block), block.role)?;
            if block.cold {
                write!(f, ", cold")?;
            }
            match preds[&block.id].as_slice() {
                [] => writeln!(f)?,
                ps => writeln!(f, ", from {}", List(ps))?,
            }
            for line in self.lines(block) {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

fn flush_cleared(cleared: &mut Vec<ir::Value>, out: &mut Vec<String>) {
    if !cleared.is_empty() {
        let names: Vec<String> = cleared.drain(..).map(|v| format!("ct({v})")).collect();
        out.push(format!("{} = 0", List(&names)));
    }
}

/// The instructions of a fragment, one per line.
pub fn fragment_lines(fragment: &Fragment, primal: &ir::Function) -> Vec<String> {
    fragment.values().map(|i| i.display(primal).to_string()).collect()
}
