//! Affine loops: loops of one path, with their linear addresses and induction variables.
//!
//! **Question.** Which loops are runs through arrays, and where is an access in an iteration?
//!
//! **Answer.** A loop is a cycle of at most eight blocks with one way in and one way out.
//! A value inside of it is an integer combination of values that are known as the loop is
//! entered ([`Steps::linear`]): of what is defined outside, of header parameters, and of
//! instructions that are evaluated there. Arithmetic is that of the machine, modulo a power of two,
//! so it holds whatever overflows. Widening an integer is not linear: it is where nothing overflows
//! for as long as the vectors run, which is asked at run time ([`Steps::widened`]).
//!
//! **Beside it.** Cranelift's loop analysis ([`crate::shape`]) finds loops of any form, from
//! dominators and a flow graph. Most derived functions have no cycle of one path, which the last
//! instructions of their blocks tell, and whether a loop of Cranelift's is one path with one way
//! out takes the same walk. The loops of a primal (`brolga_analysis::cfg::loops`) are nests, with
//! all entries, latches and exits, of a flow graph that is there already.
//!
//! **Cost.** A walk over the blocks for the loops; in a loop each value is written as a combination
//! once.
//!
//! **Source.** Induction variables and linear forms: Allen and Kennedy, *Optimizing compilers for
//! modern architectures* (2001).

use crate::map::{HashMap, IndexMap, one_each};
use cranelift_codegen::ir::{self, BlockArg, InstructionData, Opcode, Type, Value, ValueDef, types};
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};

use crate::linear::LinearForm;
use crate::marks::is_tape;

/// Longer cycles are not looked at: reverse loops have up to four blocks where nothing branches.
const MOST_BLOCKS: usize = 8;

/// A cycle of blocks with one way in and one way out.
pub struct Loop {
    /// Its blocks in order, the header first.
    pub blocks: Vec<ir::Block>,
    /// The block from which it is entered.
    pub entry: ir::Block,
    /// The branch that leaves it.
    pub test: ir::Inst,
    /// Whether it goes on where the condition does not hold.
    pub goes_on_if_not: bool,
}

/// All such cycles, in the order of the branches that leave them, but those that are cold: what is
/// done to a loop costs time to compile. They share no block: one has a single branch, the others
/// have none, and each block of it but the header one predecessor.
pub fn loops(func: &ir::Function) -> Vec<Loop> {
    let mut branches = Vec::new();
    for b in func.layout.blocks() {
        if !func.layout.is_cold(b)
            && let Some(last) = func.layout.last_inst(b)
            && let InstructionData::Brif { blocks, .. } = func.dfg.insts[last]
        {
            branches.push((b, last, blocks.map(|c| c.block(&func.dfg.value_lists))));
        }
    }
    let cycle = |branch: ir::Block, from: ir::Block| {
        let mut blocks: SmallVec<[ir::Block; 8]> = smallvec![branch];
        let mut at = from;
        while at != branch {
            let last = func.layout.last_inst(at)?;
            let InstructionData::Jump { destination, .. } = func.dfg.insts[last] else { return None };
            blocks.push(at);
            at = destination.block(&func.dfg.value_lists);
            if blocks.len() > MOST_BLOCKS {
                return None;
            }
        }
        Some(blocks)
    };
    let cycles =
        branches.into_iter().filter_map(|(b, test, targets)| match (cycle(b, targets[0]), cycle(b, targets[1])) {
            (Some(yes), None) => Some((yes, test, false)),
            (None, Some(no)) => Some((no, test, true)),
            _ => None,
        });
    let cycles: Vec<_> = cycles.collect();
    if cycles.is_empty() {
        return Vec::new();
    }
    let mut preds: SecondaryMap<ir::Block, SmallVec<[ir::Block; 2]>> = one_each(func.dfg.num_blocks());
    for b in func.layout.blocks() {
        func.block_successors(b).for_each(|s| preds[s].push(b));
    }
    let mut found = Vec::new();
    for (mut blocks, test, goes_on_if_not) in cycles {
        let entries: SmallVec<[usize; 2]> = (0..blocks.len()).filter(|&k| preds[blocks[k]].len() != 1).collect();
        let [header] = entries[..] else { continue };
        blocks.rotate_left(header);
        let latch = blocks[blocks.len() - 1];
        let entry = match preds[blocks[0]][..] {
            [a, c] if a == latch && c != latch => c,
            [a, c] if c == latch && a != latch => a,
            _ => continue,
        };
        found.push(Loop { blocks: blocks.to_vec(), entry, test, goes_on_if_not });
    }
    found
}

/// A combination of values from outside of a loop, and of the header's parameters as it is entered,
/// as one of values before it.
pub fn entered(func: &ir::Function, l: &Loop, sum: &LinearForm) -> Option<LinearForm> {
    let last = func.layout.last_inst(l.entry)?;
    let calls = func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables);
    let call = calls.iter().find(|c| c.block(&func.dfg.value_lists) == l.blocks[0])?;
    let params = func.dfg.block_params(l.blocks[0]).iter().copied();
    let args = call.args(&func.dfg.value_lists).filter_map(|a| a.as_value());
    let entered: HashMap<Value, Value> = params.zip(args).collect();
    let mut found = LinearForm::constant(sum.plus);
    for &(v, factor) in &sum.terms {
        found = found.plus_times(&outside(func, entered.get(&v).copied().unwrap_or(v), 4), factor);
    }
    Some(found)
}

/// The largest number that such a combination can be, where that is seen at once: compilers that
/// unroll leave the last few iterations, `n & 3` of them, to a loop of its own.
pub fn at_most(func: &ir::Function, l: &Loop, sum: &LinearForm) -> Option<i64> {
    let found = entered(func, l, sum)?;
    let masked = |v: Value| match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::Binary { opcode: Opcode::Band, args } => {
            args.into_iter().find_map(|a| outside(func, a, 1).known()).filter(|k| *k >= 0)
        }
        _ => None,
    };
    match found.terms[..] {
        [] => Some(found.plus),
        [(v, factor)] if factor > 0 => masked(v)?.checked_mul(factor)?.checked_add(found.plus),
        _ => None,
    }
}

/// A value as a combination of what it is computed from, so many steps back at most.
pub fn outside(func: &ir::Function, v: Value, depth: u32) -> LinearForm {
    let Some(inst) = func.dfg.value_def(v).inst().filter(|_| depth > 0) else { return LinearForm::value(v) };
    let found = match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(LinearForm::constant(imm.bits())),
        InstructionData::Binary { opcode, args } => {
            LinearForm::of_op(opcode, func.dfg.value_type(v).bits(), &args.map(|a| outside(func, a, depth - 1)))
        }
        _ => None,
    };
    let found = found.unwrap_or_else(|| LinearForm::value(v));
    // A negative constant of 32 bits is kept without its sign.
    if func.dfg.value_type(v) == types::I32 { found.narrow() } else { found }
}

/// Where a value comes from.
pub enum Home {
    /// From before the loop.
    Outside,
    /// A parameter of the header, by number.
    Param(usize),
    /// An instruction of the loop.
    Inside(ir::Inst),
}

/// What goes in steps in one loop, and what does not change.
pub struct Steps<'a> {
    /// The function.
    pub func: &'a ir::Function,
    blocks: &'a [ir::Block],
    /// For each parameter of the header, what it is in the next iteration.
    pub nexts: SmallVec<[Value; 8]>,
    /// Parameters of the other blocks.
    alias: HashMap<Value, Value>,
    fixed: HashMap<Value, bool>,
    steps: HashMap<usize, Option<i64>>,
    linear: HashMap<Value, Option<LinearForm>>,
    /// Whether the loop records: what is on the tape is then not taken for something that does not
    /// change.
    pub records: bool,
    /// Steps of widened integers that addresses are made of; `true` for those that are widened with
    /// their sign.
    pub widened: IndexMap<Value, (i64, bool)>,
}

impl<'a> Steps<'a> {
    /// Of a loop of a function; none if a block of it hands on something that is no value.
    pub fn new(func: &'a ir::Function, l: &'a Loop) -> Option<Self> {
        let mut alias = HashMap::default();
        let mut nexts = SmallVec::new();
        for (k, &b) in l.blocks.iter().enumerate() {
            let to = l.blocks[(k + 1) % l.blocks.len()];
            let last = func.layout.last_inst(b)?;
            let calls = func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables);
            let call = calls.iter().find(|c| c.block(&func.dfg.value_lists) == to)?;
            let mut args: SmallVec<[Value; 8]> = SmallVec::new();
            for arg in call.args(&func.dfg.value_lists) {
                let BlockArg::Value(v) = arg else { return None };
                args.push(v);
            }
            if k + 1 == l.blocks.len() {
                nexts = args;
            } else {
                alias.extend(func.dfg.block_params(to).iter().copied().zip(args));
            }
        }
        let mut this = Self {
            func,
            blocks: &l.blocks,
            nexts,
            alias,
            fixed: HashMap::default(),
            steps: HashMap::default(),
            linear: HashMap::default(),
            records: false,
            widened: IndexMap::default(),
        };
        for i in 0..this.nexts.len() {
            this.nexts[i] = this.resolve(this.nexts[i]);
        }
        Some(this)
    }

    /// What parameters of blocks after the header stand for.
    pub fn aliases(&self) -> HashMap<Value, Value> {
        self.alias.keys().map(|&v| (v, self.resolve(v))).collect()
    }

    /// A value that is read from where another has just been written.
    pub fn stands_for(&mut self, v: Value, other: Value) {
        self.alias.insert(v, other);
        for i in 0..self.nexts.len() {
            self.nexts[i] = self.resolve(self.nexts[i]);
        }
    }

    /// The value that a parameter of a block after the header stands for.
    pub fn resolve(&self, mut v: Value) -> Value {
        while let Some(&w) = self.alias.get(&v) {
            v = w;
        }
        v
    }

    /// Where a value comes from.
    pub fn home(&self, v: Value) -> Home {
        match self.func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == self.blocks[0] => Home::Param(i),
            ValueDef::Result(inst, _)
                if self.func.layout.inst_block(inst).is_some_and(|b| self.blocks.contains(&b)) =>
            {
                Home::Inside(inst)
            }
            _ => Home::Outside,
        }
    }

    /// Operands of an instruction.
    pub fn args(&self, inst: ir::Inst) -> SmallVec<[Value; 4]> {
        self.func.dfg.inst_args(inst).iter().map(|&v| self.resolve(v)).collect()
    }

    /// Whether a value is the same in all iterations and can be computed before the loop, be
    /// it entered or not.
    pub fn is_fixed(&mut self, v: Value) -> bool {
        match self.home(v) {
            Home::Outside => true,
            Home::Param(i) => self.nexts[i] == v,
            Home::Inside(inst) => {
                if let Some(&known) = self.fixed.get(&v) {
                    return known;
                }
                let found = self.is_pure(inst) && self.args(inst).into_iter().all(|a| self.is_fixed(a));
                self.fixed.insert(v, found);
                found
            }
        }
    }

    /// Whether an instruction can be done at any time. What was recorded can be read before the
    /// loop, unless it records.
    fn is_pure(&self, inst: ir::Inst) -> bool {
        let data = &self.func.dfg.insts[inst];
        let op = data.opcode();
        if let (Opcode::Load, Some(flags)) = (op, data.memflags()) {
            let flags = self.func.dfg.mem_flags[flags];
            return flags.notrap() && self.is_tape(flags) && !self.records;
        }
        !(op.can_load()
            || op.can_store()
            || op.can_trap()
            || op.other_side_effects()
            || op.is_call()
            || op.is_branch()
            || op.is_terminator())
    }

    /// Whether an access is to the tape.
    pub fn is_tape(&self, flags: ir::MemFlagsData) -> bool {
        is_tape(self.func, flags)
    }

    /// The constant that a value is.
    pub fn constant(&self, v: Value) -> Option<i64> {
        match self.func.dfg.insts[self.func.dfg.value_def(v).inst()?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    /// An integer as a combination of what is known when the loop is entered.
    pub fn linear(&mut self, v: Value) -> Option<LinearForm> {
        let ty = self.func.dfg.value_type(v);
        if ty != types::I64 && ty != types::I32 {
            return None;
        }
        if let Some(known) = self.linear.get(&v) {
            return known.clone();
        }
        let found = self.linear_of(v).map(|l| if ty == types::I32 { l.narrow() } else { l });
        self.linear.insert(v, found.clone());
        found
    }

    fn linear_of(&mut self, v: Value) -> Option<LinearForm> {
        if let Some(k) = self.constant(v) {
            return Some(LinearForm::constant(k));
        }
        let Home::Inside(inst) = self.home(v) else { return Some(LinearForm::value(v)) };
        let args = self.args(inst);
        let is_constant: SmallVec<[bool; 2]> = args.iter().map(|&a| self.constant(a).is_some()).collect();
        match self.func.dfg.insts[inst].opcode() {
            op @ (Opcode::Uextend | Opcode::Sextend) if !self.is_fixed(v) => {
                let inner = self.linear(args[0])?;
                let step = self.step_of(&inner)?;
                if self.ty(v) != types::I64 || step == 0 {
                    return None;
                }
                self.widened.insert(v, (i64::from(step as i32), op == Opcode::Sextend));
                return Some(LinearForm::value(v));
            }
            // Products of variables are not followed: integers that are widened on the way would be
            // asked about at run time.
            Opcode::Imul if is_constant[..] == [false; 2] => {}
            Opcode::Ishl if !is_constant[1] => {}
            op if LinearForm::follows(op) => {
                let forms = args.iter().map(|&a| self.constant(a).map(LinearForm::constant).or_else(|| self.linear(a)));
                let forms: Option<SmallVec<[LinearForm; 2]>> = forms.collect();
                if let Some(form) = LinearForm::of_op(op, self.ty(v).bits(), &forms?) {
                    return Some(form);
                }
            }
            _ => {}
        }
        self.is_fixed(v).then(|| LinearForm::value(v))
    }

    /// By how much a combination grows each iteration.
    pub fn step_of(&mut self, l: &LinearForm) -> Option<i64> {
        let mut sum = 0_i64;
        for &(v, factor) in &l.terms {
            let step = match self.home(v) {
                Home::Outside => 0,
                Home::Param(i) => self.step(i)?,
                Home::Inside(_) => self.widened.get(&v).map_or(0, |w| w.0),
            };
            sum = sum.wrapping_add(step.wrapping_mul(factor));
        }
        Some(sum)
    }

    /// By how much a parameter of the header grows each iteration.
    pub fn step(&mut self, i: usize) -> Option<i64> {
        if let Some(&known) = self.steps.get(&i) {
            return known;
        }
        // What its own step would be needed for has none.
        self.steps.insert(i, None);
        let param = self.func.dfg.block_params(self.blocks[0])[i];
        let next = self.nexts[i];
        let found = self.linear(next).and_then(|l| l.plus_times(&LinearForm::value(param), -1).known());
        self.steps.insert(i, found);
        found
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.func.dfg.value_type(v)
    }
}
