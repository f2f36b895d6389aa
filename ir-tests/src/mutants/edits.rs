//! One mistake in an emitted function: a pullback or a forward pass.
//!
//! The mistakes are those that a structural rule can make: an addition that subtracts or forgets an
//! operand (a cotangent is not accumulated), a store that is missing (a slot is not zeroed, a
//! shadow not updated), arms or targets that are swapped (`select`, a predecessor), a block or
//! callee that receives its arguments in another order (edges, calls), a lane, a recorded slot or a
//! constant that is another one.
//!
//! Every mutant still verifies: types are kept. What it does when it runs is unknown, endless loops
//! and wild stores included; mutants run in a process of their own.

use std::collections::HashSet;

use brolga::cranelift_codegen::ir::{self, BlockCall, Function, InstructionData, Opcode, Value};
use brolga_transform::{Derivation, DerivedPair};

/// A kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EditKind {
    /// `fadd` for `fsub` and the reverse; `fneg` left out.
    Sign,
    /// A sum, difference or product that is its first operand.
    OnlyFirst,
    /// One that is its second operand.
    OnlySecond,
    /// A store of zero that is missing.
    NoZeroing,
    /// Another store that is missing.
    NoStore,
    /// A `select` or `bitselect` with swapped arms.
    Arms,
    /// A branch with swapped targets.
    Targets,
    /// A jump whose arguments arrive in another order.
    EdgeArguments,
    /// A call or return whose floats arrive in another order.
    CallArguments,
    /// A lane that is another one.
    Lane,
    /// A load from the next slot.
    Slot,
    /// A float constant that is another one.
    Constant,
}

impl EditKind {
    /// All kinds.
    pub const ALL: [EditKind; 12] = [
        EditKind::Sign,
        EditKind::OnlyFirst,
        EditKind::OnlySecond,
        EditKind::NoZeroing,
        EditKind::NoStore,
        EditKind::Arms,
        EditKind::Targets,
        EditKind::EdgeArguments,
        EditKind::CallArguments,
        EditKind::Lane,
        EditKind::Slot,
        EditKind::Constant,
    ];

    /// Its name in tables and in the list of equivalent mutants.
    pub fn name(self) -> &'static str {
        match self {
            EditKind::Sign => "sign",
            EditKind::OnlyFirst => "only-first",
            EditKind::OnlySecond => "only-second",
            EditKind::NoZeroing => "no-zeroing",
            EditKind::NoStore => "no-store",
            EditKind::Arms => "arms",
            EditKind::Targets => "targets",
            EditKind::EdgeArguments => "edge-arguments",
            EditKind::CallArguments => "call-arguments",
            EditKind::Lane => "lane",
            EditKind::Slot => "slot",
            EditKind::Constant => "constant",
        }
    }
}

/// Which function of a derived pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The forward pass: the primal, what it records, and the shadows of pointers.
    Forward,
    /// The pullback.
    Pullback,
}

impl Half {
    /// The function.
    pub fn of(self, pair: &DerivedPair) -> &Function {
        match self {
            Half::Forward => &pair.forward,
            Half::Pullback => &pair.pullback,
        }
    }

    /// The parameter that is the tape.
    fn segment(self, f: &Function) -> Option<Value> {
        let params = f.dfg.block_params(f.layout.entry_block()?);
        match self {
            Half::Forward => params.last().copied(),
            Half::Pullback => params.first().copied(),
        }
    }
}

/// A place in a derivation and a mistake to make there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Index among the pairs.
    pub pair: usize,
    /// Which function of the pair.
    pub half: Half,
    /// The instruction.
    pub inst: ir::Inst,
    /// What to do to it.
    pub kind: EditKind,
}

/// What an instruction is there for, where that can be seen and says why a mutant of it may do no
/// harm; see [`super::equivalent`].
pub fn role(half: Half, f: &Function, inst: ir::Inst) -> &'static str {
    if is_cursor(half, f, inst) {
        return "cursor";
    }
    let users = users(f, inst);
    if users.is_empty() {
        return "";
    }
    let op = f.dfg.insts[inst].opcode();
    if op == Opcode::Load && users.iter().all(|u| f.dfg.insts[*u].opcode() == Opcode::Store && is_cursor(half, f, *u)) {
        return "cursor";
    }
    let is_constant = matches!(op, Opcode::F64const | Opcode::F32const);
    let all_are = |ops: &[Opcode]| users.iter().all(|u| ops.contains(&f.dfg.insts[*u].opcode()));
    if is_constant && all_are(&[Opcode::Fcmp, Opcode::Select, Opcode::Bitselect]) {
        "guard"
    } else if is_constant && all_are(&[Opcode::Splat, Opcode::ScalarToVector]) {
        "blank"
    } else if op == Opcode::Extractlane && is_uniform(f, f.dfg.inst_args(inst)[0]) {
        "uniform"
    } else {
        ""
    }
}

/// Whether all lanes of a vector are the same, because they are made of one scalar by what does the
/// same to each.
fn is_uniform(f: &Function, v: Value) -> bool {
    let Some(inst) = f.dfg.value_def(f.dfg.resolve_aliases(v)).inst() else { return false };
    let args = f.dfg.inst_args(inst);
    let lanes = |v: Value| f.dfg.value_type(v).lane_count();
    match f.dfg.insts[inst].opcode() {
        Opcode::Splat => true,
        Opcode::Vconst => match f.dfg.insts[inst] {
            InstructionData::UnaryConst { constant_handle, .. } => {
                f.dfg.constants.get(constant_handle).as_slice().iter().all(|&b| b == 0)
            }
            _ => false,
        },
        Opcode::Fcmp | Opcode::Bitcast | Opcode::Band => args.iter().all(|&a| lanes(a) == lanes(v) && is_uniform(f, a)),
        _ => false,
    }
}

/// Whether it reads or writes the header of the tape, or keeps what was read there.
fn is_cursor(half: Half, f: &Function, inst: ir::Inst) -> bool {
    let segment = half.segment(f);
    match f.dfg.insts[inst] {
        InstructionData::Store { args, .. } => {
            let made = f.dfg.value_def(f.dfg.resolve_aliases(args[0])).inst();
            let of_header = made
                .is_some_and(|i| matches!(f.dfg.insts[i], InstructionData::Load { arg, .. } if segment == Some(arg)));
            segment == Some(args[1]) || of_header
        }
        InstructionData::Load { arg, .. } => segment == Some(arg),
        _ => false,
    }
}

fn users(f: &Function, inst: ir::Inst) -> Vec<ir::Inst> {
    let Some(&result) = f.dfg.inst_results(inst).first() else { return Vec::new() };
    let uses = |i: &ir::Inst| f.dfg.inst_values(*i).any(|v| f.dfg.resolve_aliases(v) == result);
    f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).filter(uses).collect()
}

/// Every mutant of every derived function, pair by pair in order of layout. Instructions whose
/// results are not used are left alone.
pub fn mutants(d: &Derivation) -> Vec<Mutant> {
    let mut out = Vec::new();
    for (pair, p) in d.pairs.iter().enumerate() {
        for half in [Half::Pullback, Half::Forward] {
            let f = half.of(p);
            let live = live(f);
            for inst in f.layout.blocks().flat_map(|b| f.layout.block_insts(b)) {
                if live.contains(&inst) {
                    out.extend(kinds(f, inst).into_iter().map(|kind| Mutant { pair, half, inst, kind }));
                }
            }
        }
    }
    out
}

/// Instructions that something observable depends on.
fn live(f: &Function) -> HashSet<ir::Inst> {
    let mut live = HashSet::new();
    let all = || f.layout.blocks().flat_map(|b| f.layout.block_insts(b));
    let mut todo: Vec<ir::Inst> = all().filter(|i| observable(f.dfg.insts[*i].opcode())).collect();
    while let Some(inst) = todo.pop() {
        if !live.insert(inst) {
            continue;
        }
        for v in f.dfg.inst_values(inst) {
            if let ir::ValueDef::Result(def, _) = f.dfg.value_def(v) {
                todo.push(def);
            }
        }
    }
    live
}

fn observable(op: Opcode) -> bool {
    op.is_terminator() || op.can_store() || op.is_call() || op.other_side_effects() || op.can_trap()
}

fn kinds(f: &Function, inst: ir::Inst) -> Vec<EditKind> {
    let op = f.dfg.insts[inst].opcode();
    let args = f.dfg.inst_args(inst);
    let is_zero = |v: Value| is_zero(f, v);
    match op {
        Opcode::Fneg => vec![EditKind::Sign],
        // Adding to zero is how a sum starts: what is added to it is the sum.
        Opcode::Fadd if is_zero(args[0]) => vec![EditKind::Sign, EditKind::OnlyFirst],
        Opcode::Fadd if is_zero(args[1]) => vec![EditKind::OnlySecond],
        Opcode::Fadd => vec![EditKind::Sign, EditKind::OnlyFirst, EditKind::OnlySecond],
        Opcode::Fsub if is_zero(args[1]) => vec![EditKind::OnlySecond],
        Opcode::Fsub => vec![EditKind::Sign, EditKind::OnlyFirst],
        Opcode::Fmul => vec![EditKind::OnlyFirst, EditKind::OnlySecond],
        Opcode::Fdiv => vec![EditKind::OnlyFirst],
        Opcode::Store if is_zero(args[0]) => vec![EditKind::NoZeroing],
        Opcode::Store => vec![EditKind::NoStore],
        Opcode::Select | Opcode::Bitselect if args[1] != args[2] => vec![EditKind::Arms],
        Opcode::Brif | Opcode::BrTable | Opcode::Jump => {
            let calls = calls(f, inst);
            let mut kinds = Vec::new();
            if op != Opcode::Jump && calls.windows(2).any(|c| differ(f, c)) {
                kinds.push(EditKind::Targets);
            }
            if calls.iter().any(|c| exchange(f, *c).is_some()) {
                kinds.push(EditKind::EdgeArguments);
            }
            kinds
        }
        Opcode::Call | Opcode::CallIndirect | Opcode::Return => {
            float_pair(f, args).map(|_| EditKind::CallArguments).into_iter().collect()
        }
        Opcode::Extractlane | Opcode::Insertlane => vec![EditKind::Lane],
        Opcode::Load => vec![EditKind::Slot],
        Opcode::F64const | Opcode::F32const => vec![EditKind::Constant],
        _ => vec![],
    }
}

/// The same derivation with one mistake.
pub fn apply(d: &Derivation, m: &Mutant) -> Derivation {
    let mut d = d.clone();
    let pair = &mut d.pairs[m.pair];
    let f = if m.half == Half::Forward { &mut pair.forward } else { &mut pair.pullback };
    edit(f, m.inst, m.kind);
    d
}

fn edit(f: &mut Function, inst: ir::Inst, kind: EditKind) {
    match kind {
        EditKind::Sign => match &mut f.dfg.insts[inst] {
            InstructionData::Binary { opcode, .. } => {
                *opcode = if *opcode == Opcode::Fadd { Opcode::Fsub } else { Opcode::Fadd };
            }
            _ => become_operand(f, inst, 0),
        },
        EditKind::OnlyFirst => become_operand(f, inst, 0),
        EditKind::OnlySecond => become_operand(f, inst, 1),
        EditKind::NoZeroing | EditKind::NoStore => {
            f.layout.remove_inst(inst);
        }
        EditKind::Arms => f.dfg.inst_args_mut(inst).swap(1, 2),
        EditKind::Targets => {
            let Some(i) = calls(f, inst).windows(2).position(|c| differ(f, c)) else { return };
            let dfg = &mut f.dfg;
            let calls = dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
            calls.swap(i, i + 1);
        }
        EditKind::EdgeArguments => {
            let found = calls(f, inst).into_iter().enumerate().find_map(|(k, c)| Some((k, exchange(f, c)?)));
            let Some((k, (i, j))) = found else { return };
            let mut call = calls(f, inst)[k];
            let mut args: Vec<_> = call.args(&f.dfg.value_lists).collect();
            args.swap(i, j);
            let mut args = args.into_iter();
            call.update_args(&mut f.dfg.value_lists, |old| args.next().unwrap_or(old));
            let dfg = &mut f.dfg;
            dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables)[k] = call;
        }
        EditKind::CallArguments => {
            if let Some((i, j)) = float_pair(f, f.dfg.inst_args(inst)) {
                f.dfg.inst_args_mut(inst).swap(i, j);
            }
        }
        EditKind::Lane => match &mut f.dfg.insts[inst] {
            InstructionData::BinaryImm8 { imm, .. } | InstructionData::TernaryImm8 { imm, .. } => *imm ^= 1,
            _ => {}
        },
        EditKind::Slot => {
            let size = f.dfg.value_type(f.dfg.first_result(inst)).bytes() as i64;
            if let InstructionData::Load { offset, .. } = &mut f.dfg.insts[inst] {
                *offset = ((i64::from(*offset) + size) as i32).into();
            }
        }
        EditKind::Constant => match &mut f.dfg.insts[inst] {
            InstructionData::UnaryIeee64 { imm, .. } => *imm = (imm.as_f64() + 1.0).into(),
            InstructionData::UnaryIeee32 { imm, .. } => *imm = (imm.as_f32() + 1.0).into(),
            _ => {}
        },
    }
}

/// Remove an instruction with one result; its users take the operand.
fn become_operand(f: &mut Function, inst: ir::Inst, operand: usize) {
    let (result, operand) = (f.dfg.first_result(inst), f.dfg.inst_args(inst)[operand]);
    f.layout.remove_inst(inst);
    f.dfg.clear_results(inst);
    f.dfg.change_to_alias(result, operand);
}

fn calls(f: &Function, inst: ir::Inst) -> Vec<BlockCall> {
    f.dfg.insts[inst].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables).to_vec()
}

/// Whether two neighbours go to different places, or bring different arguments.
fn differ(f: &Function, pair: &[BlockCall]) -> bool {
    let of = |c: &BlockCall| (c.block(&f.dfg.value_lists), c.args(&f.dfg.value_lists).collect::<Vec<_>>());
    of(&pair[0]) != of(&pair[1])
}

/// Two arguments of a jump that may change places: of one type, and different.
fn exchange(f: &Function, call: BlockCall) -> Option<(usize, usize)> {
    let args: Vec<Option<Value>> = call.args(&f.dfg.value_lists).map(|a| a.as_value()).collect();
    pair(f, &args)
}

/// Likewise of a call or return, floats only: exchanged pointers would be found by the crash, which
/// proves little.
fn float_pair(f: &Function, args: &[Value]) -> Option<(usize, usize)> {
    let is_float = |v: &Value| f.dfg.value_type(*v).lane_type().is_float();
    pair(f, &args.iter().map(|v| Some(*v).filter(is_float)).collect::<Vec<_>>())
}

fn pair(f: &Function, args: &[Option<Value>]) -> Option<(usize, usize)> {
    let resolved: Vec<_> = args.iter().map(|a| a.map(|v| f.dfg.resolve_aliases(v))).collect();
    let places = (0..args.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    places.into_iter().find(|&(i, j)| match (resolved[i], resolved[j]) {
        (Some(a), Some(b)) => a != b && f.dfg.value_type(a) == f.dfg.value_type(b),
        _ => false,
    })
}

/// Whether a value is a constant without a bit set.
fn is_zero(f: &Function, v: Value) -> bool {
    let ir::ValueDef::Result(inst, _) = f.dfg.value_def(f.dfg.resolve_aliases(v)) else { return false };
    match f.dfg.insts[inst] {
        InstructionData::UnaryIeee64 { imm, .. } => imm.bits() == 0,
        InstructionData::UnaryIeee32 { imm, .. } => imm.bits() == 0,
        InstructionData::UnaryImm { imm, .. } => imm.bits() == 0,
        InstructionData::UnaryConst { constant_handle, .. } => {
            f.dfg.constants.get(constant_handle).iter().all(|b| *b == 0)
        }
        _ => false,
    }
}
