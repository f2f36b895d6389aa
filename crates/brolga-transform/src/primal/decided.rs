//! Branch folding: decided branches (constants say which way they go), and loops of one iteration
//! that they end.
//!
//! **Problem.** A frontend that writes every equation as a loop over its elements writes one of
//! one element as a loop, too: `do { … } while (++i < 1)`. The reverse half would count its
//! iterations and record what they compute, for code that is a straight line.
//!
//! **Answer.** Integers are followed as constants from the entry on, along the edges that are taken
//! with what is known so far: a parameter of a block that gets one constant along each of them is
//! that constant. So the first test of such a loop fails, and the edge back is not taken by what
//! would make its counter vary. A `brif` that is decided becomes a `jump`; that blocks are not
//! reached, that parameters do not vary, and that one block alone follows another
//! [`crate::primal::normalise`] sees then.
//!
//! **Invariant.** Nothing else changes: constants stay where they are written.
//!
//! ```text
//!     v8 = iconst.i64 1
//!     jump block1(v9)                       jump block1(v9)           v9 = 0
//! block1(v1: i64):                      block1(v1: i64):
//!     v2 = iadd v1, v8          ⟶           v2 = iadd v1, v8
//!     v3 = icmp slt v2, v8                  v3 = icmp slt v2, v8
//!     brif v3, block1(v2), block2           jump block2
//! ```
//!
//! **Cost.** Nothing where no branch is on a constant or on a comparison with one. Else rounds over
//! the reached blocks until nothing changes; a value changes at most twice.
//!
//! **Source.** Wegman and Zadeck, Constant propagation with conditional branches (1991).

use brolga_analysis::query::constant_int;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Type};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::primal::edit::before;

/// What is known of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LatticeValue {
    /// Nothing yet: no edge that is taken leads to where it is defined.
    #[default]
    Nothing,
    /// The integer, zero-extended.
    Constant(u64),
    Varies,
}

impl LatticeValue {
    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, known) | (known, Self::Nothing) => known,
            (a, b) if a == b => a,
            _ => Self::Varies,
        }
    }
}

/// Let branches that are decided be jumps. Whether there are any.
pub(crate) fn decided(func: &mut ir::Function) -> bool {
    let brifs = |i: &ir::Inst| func.dfg.insts[*i].opcode() == Opcode::Brif;
    let brifs: Vec<ir::Inst> = func.layout.blocks().filter_map(|b| func.layout.last_inst(b)).filter(brifs).collect();
    // Mostly no branch compares with a constant.
    if !brifs.iter().any(|&i| may_be_decided(func, i)) {
        return false;
    }
    let found = Propagation::of(func);
    let mut any = false;
    for inst in brifs {
        let InstructionData::Brif { arg, blocks, .. } = func.dfg.insts[inst] else { continue };
        let LatticeValue::Constant(c) = found.known[arg] else { continue };
        let to = blocks[usize::from(c == 0)];
        let args: Vec<ir::BlockArg> = to.args(&func.dfg.value_lists).collect();
        let to = to.block(&func.dfg.value_lists);
        before(func, inst).ins().jump(to, &args);
        func.layout.remove_inst(inst);
        any = true;
    }
    any
}

fn may_be_decided(func: &ir::Function, brif: ir::Inst) -> bool {
    let Some(cond) = func.dfg.value_def(func.dfg.inst_args(brif)[0]).inst() else { return false };
    match func.dfg.insts[cond] {
        InstructionData::IntCompare { args, .. } => args.iter().any(|&v| constant_int(func, v).is_some()),
        InstructionData::UnaryImm { .. } => true,
        _ => false,
    }
}

/// Constants, along the edges that are taken.
struct Propagation {
    known: SecondaryMap<ir::Value, LatticeValue>,
    reached: EntitySet<ir::Block>,
    grows: bool,
}

impl Propagation {
    fn of(func: &ir::Function) -> Self {
        let mut found = Self { known: SecondaryMap::new(), reached: EntitySet::new(), grows: true };
        if let Some(entry) = func.layout.entry_block() {
            found.reached.insert(entry);
            func.dfg.block_params(entry).iter().for_each(|&v| found.known[v] = LatticeValue::Varies);
        }
        while std::mem::take(&mut found.grows) {
            for b in func.layout.blocks() {
                if found.reached.contains(b) {
                    found.block(func, b);
                }
            }
        }
        found
    }

    fn block(&mut self, func: &ir::Function, b: ir::Block) {
        for inst in func.layout.block_insts(b) {
            match func.dfg.inst_results(inst) {
                &[v] => self.learn(v, self.result(func, inst)),
                several => several.iter().for_each(|&v| self.learn(v, LatticeValue::Varies)),
            }
        }
        let Some(last) = func.layout.last_inst(b) else { return };
        let decided = match func.dfg.insts[last] {
            InstructionData::Brif { arg, .. } => self.known[arg],
            _ => LatticeValue::Varies,
        };
        let dfg = &func.dfg;
        let calls = dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for (k, call) in calls.iter().enumerate() {
            let taken = match decided {
                LatticeValue::Nothing => false,
                LatticeValue::Constant(c) => k == usize::from(c == 0),
                LatticeValue::Varies => true,
            };
            if !taken {
                continue;
            }
            let to = call.block(&dfg.value_lists);
            self.grows |= self.reached.insert(to);
            for (arg, &param) in call.args(&dfg.value_lists).zip(dfg.block_params(to)) {
                // What a call gives to its handlers is no constant.
                self.learn(param, arg.as_value().map_or(LatticeValue::Varies, |v| self.known[v]));
            }
        }
    }

    fn learn(&mut self, v: ir::Value, known: LatticeValue) {
        let met = self.known[v].meet(known);
        self.grows |= met != self.known[v];
        self.known[v] = met;
    }

    /// What an instruction with one result computes.
    fn result(&self, func: &ir::Function, inst: ir::Inst) -> LatticeValue {
        let ty = func.dfg.value_type(func.dfg.first_result(inst));
        if !ty.is_int() || ty.bits() > 64 {
            return LatticeValue::Varies;
        }
        let data = func.dfg.insts[inst];
        if let InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } = data {
            return LatticeValue::Constant(within(ty, imm.bits() as u64));
        }
        let mut operands = [0; 2];
        let args = func.dfg.inst_args(inst);
        if args.is_empty() || args.len() > 2 {
            return LatticeValue::Varies;
        }
        let mut all = LatticeValue::Constant(0);
        for (operand, &arg) in operands.iter_mut().zip(args) {
            match self.known[arg] {
                LatticeValue::Constant(c) => *operand = c,
                LatticeValue::Nothing if all != LatticeValue::Varies => all = LatticeValue::Nothing,
                LatticeValue::Nothing => {}
                LatticeValue::Varies => all = LatticeValue::Varies,
            }
        }
        let Some(value) = evaluate(&data, func.dfg.value_type(args[0]), operands) else { return LatticeValue::Varies };
        if all == LatticeValue::Constant(0) { LatticeValue::Constant(within(ty, value)) } else { all }
    }
}

/// The lower bits, which a type has.
pub(crate) fn within(ty: Type, c: u64) -> u64 {
    c & (u64::MAX >> (64 - ty.bits()))
}

fn signed(ty: Type, c: u64) -> i64 {
    (c << (64 - ty.bits())) as i64 >> (64 - ty.bits())
}

/// What counters and tests of loops are made of, computed of zero-extended operands of a type.
pub(crate) fn evaluate(data: &InstructionData, ty: Type, [a, b]: [u64; 2]) -> Option<u64> {
    if !ty.is_int() || ty.bits() > 64 {
        return None;
    }
    Some(match *data {
        InstructionData::Binary { opcode: Opcode::Iadd, .. } => a.wrapping_add(b),
        InstructionData::Binary { opcode: Opcode::Isub, .. } => a.wrapping_sub(b),
        InstructionData::Binary { opcode: Opcode::Imul, .. } => a.wrapping_mul(b),
        InstructionData::Binary { opcode: Opcode::Ishl, .. } => a << (b % u64::from(ty.bits())),
        InstructionData::Binary { opcode: Opcode::Band, .. } => a & b,
        InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Ireduce, .. } => a,
        InstructionData::Unary { opcode: Opcode::Sextend, .. } => signed(ty, a) as u64,
        InstructionData::IntCompare { cond, .. } => u64::from(compares(cond, ty, a, b)),
        _ => return None,
    })
}

fn compares(cond: IntCC, ty: Type, a: u64, b: u64) -> bool {
    let (x, y) = (signed(ty, a), signed(ty, b));
    match cond {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => x < y,
        IntCC::SignedGreaterThanOrEqual => x >= y,
        IntCC::SignedGreaterThan => x > y,
        IntCC::SignedLessThanOrEqual => x <= y,
        IntCC::UnsignedLessThan => a < b,
        IntCC::UnsignedGreaterThanOrEqual => a >= b,
        IntCC::UnsignedGreaterThan => a > b,
        IntCC::UnsignedLessThanOrEqual => a <= b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(text: &str) -> String {
        let mut func = cranelift_reader::parse_functions(text).unwrap().remove(0);
        decided(&mut func);
        func.to_string()
    }

    fn of_iterations(start: &str, step: &str, test: &str) -> String {
        decide(&format!(
            "function %f(i64, f64) {{
            block0(v0: i64, v1: f64):
                v2 = iconst.i32 {start}
                jump block1(v2)
            block1(v3: i32):
                store v1, v0
                v4 = iconst.i32 {step}
                v5 = iadd v3, v4
                v6 = iconst.i32 {test}
                brif v7, block1(v5), block2
            block2:
                return
            }}"
        ))
    }

    #[test]
    fn loops_of_one_iteration_are_none() {
        for (start, step, test) in [
            ("0", "1", "1\nv7 = icmp ult v5, v6"),
            ("3", "-1", "2\nv7 = icmp ugt v5, v6"),
            ("-1", "-1", "-1\nv7 = icmp sge v5, v6"),
            ("0", "1", "1\nv7 = icmp slt v5, v6"),
        ] {
            let text = of_iterations(start, step, test);
            assert!(!text.contains("brif") && text.contains("jump block2"), "{text}");
        }
    }

    #[test]
    fn loops_of_more_iterations_stay() {
        for (start, step, test) in [
            ("0", "1", "2\nv7 = icmp ult v5, v6"),
            // It is unsigned.
            ("0", "-1", "1\nv7 = icmp ugt v5, v6"),
            ("0", "1", "1\nv8 = load.i32 v0\nv7 = icmp ult v5, v8"),
        ] {
            assert!(of_iterations(start, step, test).contains("brif"), "{start} {step} {test}");
        }
    }

    #[test]
    fn what_may_vary_is_not_decided() {
        let text = decide(
            "function %f(i64) -> i64 {
            block0(v0: i64):
                v1 = iconst.i64 1
                v2 = iconst.i64 2
                brif v0, block1(v1), block1(v2)
            block1(v3: i64):
                v4 = icmp eq v3, v1
                brif v4, block2, block3
            block2:
                return v1
            block3:
                return v2
            }",
        );
        assert_eq!(text.matches("brif").count(), 2, "{text}");
    }
}
