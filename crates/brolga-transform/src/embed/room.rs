//! Workspaces of embedded derivatives: where the tape is, and what happens where it ends.
//!
//! **Question.** How many bytes does a call record at most?
//! **Answer.** Each record asks for its size (`trapnz top > limit, tape_full`), or a loop of a
//! constant trip count for all of its records, before it. Where no other record is in a loop
//! and no function is recursive, the sizes of all of them, with those of callees at each call, are
//! a bound. Then nothing asks any more: the tape is a stack slot of the root, or, if it has to
//! outlive the forward pass or is large, memory of the caller's that the root looks at once.
//! Otherwise the caller gives memory, and a record for which there is no room *returns*:
//!
//! ```text
//!     trapnz v9, tape_full                   brif v9, full, next
//!     …                             ─►   next: …
//!                                        full: status of the workspace = 1; return NaN, 0 …
//!     v3 = call f__forward(…, ws)            v3 = call f__forward(…, ws)
//!     …                             ─►       brif status of the workspace, left, next
//! ```
//!
//! So a run that does not fit ends, with NaN for floats and a status that the root returns. What it
//! has written by then, to memory and to shadows, stays written.
//!
//! **Cost.** A load and a branch after each call that may record; nothing where the size is known.
//! **Source.** The header is the tape segment of the run time (`brolga_ir::lower::segment`),
//! without its tables.

use std::collections::{BTreeMap, BTreeSet};

use super::growth;
use crate::standalone::derived_func::DerivedFunc;
use crate::standalone::pieces;
use brolga_analysis::query::constant_int;
use brolga_ir::graph::{Edges, on_cycles};
use brolga_ir::inst::Check;
use brolga_ir::lower::{Channel, Position, segment, tape_flags};
use brolga_ir::program::symbol_of;
use brolga_ir::spec::Derivative;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, TrapCode, types};
use cranelift_codegen::isa::TargetIsa;

/// Bytes before the tape, in a workspace.
pub const HEADER: u32 = 256;

/// Where in a workspace a run that did not fit says how many bytes it lacked at least, as an `i64`:
/// bytes from the first multiple of 16 on.
pub const LACKING: i32 = segment::RECORDED;

/// Up to so many bytes a workspace is on the stack of the root.
const ON_STACK: u64 = 16 << 10;

/// The workspace of an embedded derivative: a header of [`HEADER`] bytes, and the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// None is needed.
    Nothing,
    /// So many bytes on the stack of the root: nothing that a caller sees.
    Stack(u32),
    /// So many bytes that the caller gives.
    Bytes(u64),
    /// Memory that the caller gives. A run that does not fit says how much it [lacks](LACKING) at
    /// least: all that a loop records at once, where its trip count is known.
    Unknown,
}

impl Room {
    /// Whether the caller gives a workspace.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Unknown)
    }
}

/// Find out where the tape is, and let the functions ask for room as that demands. The first
/// `n_roots` functions are what was asked for. Floats that move in pieces have records beside the
/// tape, of which there may be any number. Where the workspace may [grow](super::growth), the
/// target is given.
pub(super) fn settle(
    derived: &mut Vec<DerivedFunc>,
    n_roots: usize,
    derivative: Derivative,
    moves_pieces: bool,
    growing: Option<&dyn TargetIsa>,
) -> Room {
    let room = if moves_pieces { Room::Unknown } else { room(derived, n_roots, derivative) };
    match room {
        Room::Unknown => {
            return_where_full(derived, Channel::Mixed, growing);
            derived.extend(growing.map(|isa| growth::function(derived[0].of, moves_pieces, isa)));
        }
        _ => derived.iter_mut().for_each(forget_checks),
    }
    room
}

/// Where the channels of a typed tape are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedRoom {
    /// So many bytes of each channel on the stack of the caller.
    Stack([u64; 4]),
    /// Memory of the caller's, of each channel that is marked. A run that does not fit returns a
    /// status.
    Given([bool; 4]),
}

/// The same for functions that record on a typed tape. The first is what was asked for.
pub(super) fn settle_typed(derived: &mut [DerivedFunc]) -> TypedRoom {
    let mut bounds = Bounds { derived, by_symbol: by_symbol(derived), known: BTreeMap::new() };
    let most = |bytes: &Bytes| bytes.iter().sum::<u64>() <= ON_STACK;
    let bound = bounds.of(0).filter(most);
    let used = Channel::TYPED.map(|c| derived.iter().any(|p| uses_channel(p, c)));
    match bound {
        Some(bytes) => {
            derived.iter_mut().for_each(forget_checks);
            TypedRoom::Stack(Channel::TYPED.map(|c| bytes[c.index()]))
        }
        None => {
            return_where_full(derived, Channel::Integers, None);
            TypedRoom::Given(used)
        }
    }
}

/// Whether a function asks where a channel of a typed tape ends.
fn uses_channel(one: &DerivedFunc, channel: Channel) -> bool {
    let Some(at) = one.segment else { return false };
    let func = &one.func;
    let entry = func.layout.entry_block().expect("it has a body");
    let header = func.dfg.block_params(entry)[at];
    let limit = segment::field(channel, Position::Limit);
    insts(func).any(|i| match func.dfg.insts[i] {
        InstructionData::Load { arg, offset, .. } => {
            i32::from(offset) == limit && func.dfg.resolve_aliases(arg) == header
        }
        _ => false,
    })
}

fn room(derived: &[DerivedFunc], n_roots: usize, derivative: Derivative) -> Room {
    if !derived[..n_roots].iter().any(uses_segment) {
        return Room::Nothing;
    }
    if !derived.iter().any(|p| insts(&p.func).any(|i| asks_for(p, i).is_some())) {
        // They use the header alone.
        return if derivative == Derivative::Pair { Room::Bytes(u64::from(HEADER) + 16) } else { Room::Stack(HEADER) };
    }
    let mut bounds = Bounds { derived, by_symbol: by_symbol(derived), known: BTreeMap::new() };
    // A pullback records after what the forward pass has recorded.
    let mixed = Channel::Mixed.index();
    let bound = (0..n_roots).try_fold(u64::from(HEADER), |sum, i| sum.checked_add(bounds.of(i)?[mixed]));
    match bound {
        Some(n) if n <= ON_STACK && derivative != Derivative::Pair => Room::Stack(n as u32),
        // It may begin anywhere.
        Some(n) => Room::Bytes(n + 16),
        None => Room::Unknown,
    }
}

fn uses_segment(one: &DerivedFunc) -> bool {
    let Some(at) = one.segment else { return false };
    let func = &one.func;
    let entry = func.layout.entry_block().expect("it has a body");
    let segment = func.dfg.block_params(entry)[at];
    insts(func).any(|i| func.dfg.inst_values(i).any(|v| func.dfg.resolve_aliases(v) == segment))
}

fn insts(func: &ir::Function) -> impl Iterator<Item = ir::Inst> + '_ {
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b))
}

fn by_symbol(derived: &[DerivedFunc]) -> BTreeMap<String, usize> {
    derived.iter().enumerate().map(|(i, p)| (p.symbol.clone(), i)).collect()
}

/// What an instruction calls.
enum CallTarget {
    DerivedFunc(usize),
    /// A function by its address: of those whose address is taken, any.
    Unknown,
}

fn called(func: &ir::Function, inst: ir::Inst, by_symbol: &BTreeMap<String, usize>) -> Option<CallTarget> {
    match func.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } => {
            let symbol = symbol_of(func, &func.dfg.ext_funcs[func_ref].name);
            by_symbol.get(&symbol).map(|&i| CallTarget::DerivedFunc(i))
        }
        InstructionData::CallIndirect { .. } => Some(CallTarget::Unknown),
        _ => None,
    }
}

/// What an instruction asks for.
enum SpaceDemand {
    /// So many bytes of a channel.
    Bytes(Channel, u64),
    /// A size that is known when it runs.
    Unknown,
}

/// Whether an instruction asks for room on the tape of its function. A program whose functions are
/// derivatives themselves may ask for room on a tape of its own; that is the program's affair.
fn asks_for(one: &DerivedFunc, inst: ir::Inst) -> Option<SpaceDemand> {
    let func = &one.func;
    let InstructionData::CondTrap { opcode: Opcode::Trapnz, code, arg } = func.dfg.insts[inst] else { return None };
    if code != TrapCode::unwrap_user(Check::TapeFull as u8) {
        return None;
    }
    let entry = func.layout.entry_block().expect("it has a body");
    let segment_param = one.segment.map(|at| func.dfg.block_params(entry)[at]);
    let def = |v: ir::Value| Some(func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(v)).inst()?]);
    let found = || {
        let Some(InstructionData::IntCompare { args: [top, limit], .. }) = def(arg) else { return None };
        // A loop asks for all of its records at once: what is compared then is a distance, with a
        // constant if its trip count is one.
        let at_once = constant_int(func, func.dfg.resolve_aliases(top));
        let limit = match def(limit)? {
            InstructionData::Binary { opcode: Opcode::Isub, args: [end, _] } if at_once.is_some() => def(end)?,
            limit => limit,
        };
        let InstructionData::Load { arg: header, offset, .. } = limit else { return None };
        if Some(func.dfg.resolve_aliases(header)) != segment_param {
            return Some(None);
        }
        let limits = [Channel::Mixed].into_iter().chain(Channel::TYPED);
        let channel = limits.into_iter().find(|c| segment::field(*c, Position::Limit) == i32::from(offset))?;
        if let Some(bytes) = at_once {
            return Some(Some(SpaceDemand::Bytes(channel, u64::try_from(bytes).ok()? + 16)));
        }
        let Some(InstructionData::Binary { opcode: Opcode::Iadd, args: [_, size] }) = def(top) else { return None };
        let size = u64::try_from(constant_int(func, func.dfg.resolve_aliases(size))?).ok()?;
        // A frame begins at a multiple of 16.
        Some(Some(SpaceDemand::Bytes(channel, size + 16)))
    };
    found().unwrap_or(Some(SpaceDemand::Unknown))
}

/// Bytes of each channel.
type Bytes = [u64; Channel::COUNT];

struct Bounds<'a> {
    derived: &'a [DerivedFunc],
    by_symbol: BTreeMap<String, usize>,
    /// None while it is asked for, and if there is no bound.
    known: BTreeMap<usize, Option<Bytes>>,
}

impl Bounds<'_> {
    /// Most bytes that a call of a piece takes.
    fn of(&mut self, i: usize) -> Option<Bytes> {
        if let Some(&known) = self.known.get(&i) {
            return known;
        }
        self.known.insert(i, None);
        let one = &self.derived[i];
        let func = &one.func;
        let blocks: Vec<ir::Block> = func.layout.blocks().collect();
        let number: BTreeMap<ir::Block, usize> = blocks.iter().enumerate().map(|(k, &b)| (b, k)).collect();
        let mut edges = Edges::with_capacity(blocks.len(), 2 * blocks.len());
        blocks.iter().for_each(|&b| edges.push(func.block_successors(b).map(|s| number[&s])));
        let cyclic = on_cycles(&edges);
        let mut sum = Some(Bytes::default());
        for (&block, cyclic) in blocks.iter().zip(cyclic) {
            for inst in func.layout.block_insts(block) {
                let n = match (asks_for(one, inst), called(func, inst, &self.by_symbol)) {
                    (Some(SpaceDemand::Bytes(channel, size)), _) => {
                        let mut n = Bytes::default();
                        n[channel.index()] = size;
                        Some(n)
                    }
                    (Some(SpaceDemand::Unknown), _) => None,
                    (None, Some(CallTarget::DerivedFunc(callee))) => self.of(callee),
                    // What is called by address gets a workspace like anything else.
                    (None, Some(CallTarget::Unknown)) => None,
                    (None, None) => continue,
                };
                let n = if cyclic { n.filter(|n| *n == Bytes::default()) } else { n };
                sum = sum.zip(n).and_then(|(a, b)| added(a, b));
            }
        }
        self.known.insert(i, sum);
        sum
    }
}

fn added(mut a: Bytes, b: Bytes) -> Option<Bytes> {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.checked_add(b)?;
    }
    Some(a)
}

fn forget_checks(one: &mut DerivedFunc) {
    for inst in insts(&one.func).collect::<Vec<_>>() {
        if asks_for(one, inst).is_some() {
            one.func.layout.remove_inst(inst);
        }
    }
}

/// Let records for which there is no room return, and callers with them. The status of the run is
/// accessed as what is in `channel`.
fn return_where_full(derived: &mut [DerivedFunc], channel: Channel, growing: Option<&dyn TargetIsa>) {
    let by_symbol = by_symbol(derived);
    let helpers = derived.iter().enumerate().filter(|p| pieces::is_helper(&p.1.symbol));
    let mut fail: BTreeSet<usize> = helpers.map(|p| p.0).collect();
    loop {
        let before = fail.len();
        for (i, p) in derived.iter().enumerate() {
            let fails = |inst| {
                asks_for(p, inst).is_some()
                    || match called(&p.func, inst, &by_symbol) {
                        Some(CallTarget::DerivedFunc(callee)) => fail.contains(&callee),
                        Some(CallTarget::Unknown) => p.segment.is_some(),
                        None => false,
                    }
            };
            if insts(&p.func).any(fails) {
                fail.insert(i);
            }
        }
        if fail.len() == before {
            break;
        }
    }
    for &i in &fail {
        let fails = |called: CallTarget| match called {
            CallTarget::DerivedFunc(callee) => fail.contains(&callee),
            CallTarget::Unknown => true,
        };
        let Some(segment) = derived[i].segment else { continue };
        let asking = insts(&derived[i].func).filter(|&inst| asks_for(&derived[i], inst).is_some()).collect();
        let func = &mut derived[i].func;
        let entry = func.layout.entry_block().expect("it has a body");
        let workspace = func.dfg.block_params(entry)[segment];
        ExitWriter { func, workspace, channel, asking, growing, full: None, left: None }.all(&by_symbol, fails);
    }
}

/// Writes ways out of a function whose run does not fit.
struct ExitWriter<'f> {
    func: &'f mut ir::Function,
    workspace: ir::Value,
    channel: Channel,
    /// Instructions that ask for room.
    asking: BTreeSet<ir::Inst>,
    /// The target, if the caller is asked for more room.
    growing: Option<&'f dyn TargetIsa>,
    /// Says that the tape is full.
    full: Option<ir::Block>,
    /// A callee has said so.
    left: Option<ir::Block>,
}

impl ExitWriter<'_> {
    fn all(&mut self, by_symbol: &BTreeMap<String, usize>, fails: impl Fn(CallTarget) -> bool) {
        for inst in insts(self.func).collect::<Vec<_>>() {
            if self.asking.contains(&inst) {
                let InstructionData::CondTrap { arg, .. } = self.func.dfg.insts[inst] else { unreachable!("it asks") };
                let lacks = self.lacks(arg, inst);
                let mut cursor = FuncCursor::new(self.func).at_inst(inst);
                let over = if self.growing.is_some() { growth::over(&mut cursor, arg) } else { arg };
                let next = self.leave_if(over, lacks, inst);
                self.ask_first(arg, lacks, next);
                self.func.layout.remove_inst(inst);
            } else if called(self.func, inst, by_symbol).is_some_and(&fails) {
                let next = self.func.layout.next_inst(inst).expect("a call ends no block");
                let at = self.func.srcloc(inst);
                let mut cursor = FuncCursor::new(self.func).at_inst(next).with_srcloc(at);
                let status = status_in(&mut cursor, self.workspace, self.channel);
                let left = self.left();
                self.leave_if(status, left, next);
            }
        }
    }

    /// Go to `out` before an instruction if a condition holds. What follows is in a block of
    /// its own.
    fn leave_if(&mut self, condition: ir::Value, out: ir::Block, inst: ir::Inst) -> ir::Block {
        let func = &mut *self.func;
        let (block, at) = (func.layout.inst_block(inst).expect("it is laid out"), func.srcloc(inst));
        let next = func.dfg.make_block();
        func.layout.split_block(next, inst);
        let mut cursor = FuncCursor::new(func).at_bottom(block).with_srcloc(at);
        cursor.ins().brif(condition, out, &[], next, &[]);
        next
    }

    /// Ask the caller for more room at the start of a block that a run goes to where `over` says
    /// that there is too little. With that it goes on.
    fn ask_first(&mut self, over: ir::Value, lacks: ir::Block, next: ir::Block) {
        let Some(isa) = self.growing else { return };
        let first = self.func.layout.first_inst(lacks).expect("it goes on");
        let at = self.func.srcloc(first);
        let mut cursor = FuncCursor::new(self.func).at_inst(first).with_srcloc(at);
        let Some((end, _)) = growth::wanted(&mut cursor, over) else { return };
        let fits = growth::asked(&mut cursor, self.workspace, end, isa);
        let rest = self.leave_if(fits, next, first);
        self.func.layout.set_cold(rest);
    }

    /// A block that says how many bytes there are too few, by the comparison that has found it: of
    /// a position with the end of the tape, or of a distance with what is left.
    fn lacks(&mut self, over: ir::Value, inst: ir::Inst) -> ir::Block {
        let full = self.full();
        let at = self.func.srcloc(inst);
        let func = &mut *self.func;
        let block = func.dfg.make_block();
        func.layout.append_block(block);
        func.layout.set_cold(block);
        let mut cursor = FuncCursor::new(func).at_bottom(block).with_srcloc(at);
        let lacks = match growth::wanted(&mut cursor, over) {
            Some((wanted, there)) => cursor.ins().isub(wanted, there),
            None => cursor.ins().iconst(types::I64, 1),
        };
        cursor.ins().jump(full, &[lacks.into()]);
        block
    }

    /// A block that is told how many bytes there are too few, and returns.
    fn full(&mut self) -> ir::Block {
        if let Some(block) = self.full {
            return block;
        }
        let block = self.way_out();
        let lacks = self.func.dfg.append_block_param(block, types::I64);
        let first = self.func.layout.first_inst(block).expect("it returns");
        let mut cursor = FuncCursor::new(self.func).at_inst(first);
        fail(&mut cursor, self.workspace, lacks, self.channel);
        self.full = Some(block);
        block
    }

    fn left(&mut self) -> ir::Block {
        if let Some(block) = self.left {
            return block;
        }
        let block = self.way_out();
        self.left = Some(block);
        block
    }

    /// A block that returns NaN, and zeros for what is no float.
    fn way_out(&mut self) -> ir::Block {
        let func = &mut *self.func;
        let block = func.dfg.make_block();
        func.layout.append_block(block);
        func.layout.set_cold(block);
        let types: Vec<ir::Type> = func.signature.returns.iter().map(|r| r.value_type).collect();
        let mut cursor = FuncCursor::new(func).at_bottom(block);
        let values: Vec<ir::Value> = types.into_iter().map(|ty| nothing(&mut cursor, ty)).collect();
        cursor.ins().return_(&values);
        block
    }
}

/// Whether a run has not fitted into its workspace.
pub(super) fn status(cursor: &mut FuncCursor<'_>, workspace: ir::Value) -> ir::Value {
    status_in(cursor, workspace, Channel::Mixed)
}

fn status_in(cursor: &mut FuncCursor<'_>, workspace: ir::Value, channel: Channel) -> ir::Value {
    let flags = tape_flags(cursor.func, channel);
    cursor.ins().load(types::I32, flags, workspace, segment::STATUS)
}

/// Say that a run has not fitted into its workspace, and how many bytes are too few.
fn fail(cursor: &mut FuncCursor<'_>, workspace: ir::Value, lacks: ir::Value, channel: Channel) {
    let flags = tape_flags(cursor.func, channel);
    let one = cursor.ins().iconst(types::I32, 1);
    cursor.ins().store(flags, one, workspace, segment::STATUS);
    cursor.ins().store(flags, lacks, workspace, segment::RECORDED);
}

/// NaN, or zero for what is no float.
pub(super) fn nothing(cursor: &mut FuncCursor<'_>, ty: ir::Type) -> ir::Value {
    let lane = ty.lane_type();
    let scalar = match lane {
        types::F64 => cursor.ins().f64const(f64::NAN),
        types::F32 => cursor.ins().f32const(f32::NAN),
        types::F16 => cursor.ins().f16const(ir::immediates::Ieee16::with_bits(0x7e00)),
        types::I128 => {
            let half = cursor.ins().iconst(types::I64, 0);
            cursor.ins().iconcat(half, half)
        }
        _ if lane.is_int() => cursor.ins().iconst(lane, 0),
        _ => {
            let nan = cursor.func.dfg.constants.insert(ir::ConstantData::from(&0_u128.to_le_bytes()[..]));
            return cursor.ins().f128const(nan);
        }
    };
    if ty.is_vector() { cursor.ins().splat(ty, scalar) } else { scalar }
}

/// The header of a workspace at the start of a run, whose tape is `tape` and ends at `limit`.
pub(super) fn begin(cursor: &mut FuncCursor<'_>, workspace: ir::Value, limit: ir::Value) {
    let flags = tape_flags(cursor.func, Channel::Mixed);
    let header = cursor.ins().iconst(types::I64, i64::from(HEADER));
    let tape = cursor.ins().iadd(workspace, header);
    for (at, value) in [(segment::TOP, tape), (segment::LIMIT, limit), (segment::CURSOR, tape), (segment::PEAK, tape)] {
        cursor.ins().store(flags, value, workspace, at);
    }
    let zero = cursor.ins().iconst(types::I64, 0);
    cursor.ins().store(flags, zero, workspace, segment::STATUS);
    let flags = MemFlagsData::new().with_notrap();
    cursor.ins().store(flags, zero, workspace, segment::BLOCKS);
    for at in (segment::SINK..segment::CHANNELS).step_by(8) {
        cursor.ins().store(flags, zero, workspace, at);
    }
}

/// Whether `bytes` are less than a workspace needs.
pub(super) fn is_short(cursor: &mut FuncCursor<'_>, bytes: ir::Value, room: Room) -> ir::Value {
    let least = match room {
        Room::Bytes(n) => n as i64,
        _ => i64::from(HEADER),
    };
    let least = cursor.ins().iconst(types::I64, least);
    // C's type of it is signed.
    cursor.ins().icmp(IntCC::SignedLessThan, bytes, least)
}
