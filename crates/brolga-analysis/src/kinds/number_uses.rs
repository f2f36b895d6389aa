//! Number uses: integers that no use takes for an address or for the bits of a float, as evidence
//! for type inference.
//!
//! **Question.** A struct holds pointers, floats and integers, and a word of it is handed on (a
//! task fills the context of the tasks that it forks). Does the word move a pointer or a float?
//!
//! **Answer.** No, if each place where it ends is one where a number is read, and one of them at
//! least does what is done to no address: it is multiplied, shifted to the left, converted,
//! compared with a sign or with a counter, or added to a pointer. A place in memory is such an end
//! if it is [counted with](Kinds::NUMBER), by this function or by a callee that reads it there
//! ([`crate::kinds::contents`] has cells of callees), and holds neither a pointer nor a float. Of
//! an argument the callee says what becomes of it ([`Summaries::number_uses`]). Sums and
//! differences are followed like the word, since a pointer may be one.
//!
//! ```text
//! v1 = load.i64 v0+8      ; an index, beside a pointer and a float
//! store v1, v2+8          ; %leaf has ishl of what it loads there
//! call %leaf(v2)
//! ```
//!
//! **Errs** on the side of words that may be anything. A pointer that a hash function has
//! multiplied is told from a number by its other uses.
//!
//! **Cost.** The uses of each parameter and of each integer that is loaded.

use brolga_ir::Program;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef};
use cranelift_entity::EntitySet;

use crate::cfg::Cfg;
use crate::kinds::pointers::Pointers;
use crate::lattice::kinds::Kinds;
use crate::lattice::number_uses::NumberUses;
use crate::query::callee::CalleeKind;
use crate::query::cell::{Cell, cell_of};
use crate::query::{access_offset, constant_int, signature_id};
use crate::summary::Summaries;
use crate::uses::{Use, Uses};

/// Longer chains of copies and sums are not followed.
const MOST_VALUES: usize = 256;

/// Constants that are no addresses.
const SMALL: std::ops::Range<i64> = 1..4096;

/// A function whose integers are asked about.
pub struct NumberInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// The function.
    pub func: &'a ir::Function,
    /// Its edges.
    pub cfg: &'a Cfg,
    /// Uses of its values.
    pub uses: &'a Uses,
    /// What callees do.
    pub summaries: &'a Summaries,
    /// Its pointers.
    pub pointers: &'a Pointers,
}

/// What is done to an operand.
enum OperandUse {
    /// It ends.
    Ends(NumberUses),
    /// The result is followed.
    Follow,
}

impl NumberInput<'_> {
    /// What becomes of an integer, if so much is known of places in memory.
    pub fn uses_of(&self, v: ir::Value, at: impl Fn(Cell) -> Kinds) -> NumberUses {
        let (mut seen, mut work, mut found) = (EntitySet::new(), vec![v], NumberUses::default());
        let mut left = MOST_VALUES;
        while let Some(v) = work.pop() {
            if !seen.insert(v) {
                continue;
            }
            if left == 0 {
                return NumberUses::UNKNOWN;
            }
            left -= 1;
            for u in self.uses.of(v) {
                match *u {
                    Use::Edge(_, param) => work.push(param),
                    Use::Inst(inst, n) => match self.step(inst, n, v, &at) {
                        OperandUse::Ends(uses) => found = found.join(uses),
                        OperandUse::Follow => work.extend(self.func.dfg.inst_results(inst)),
                    },
                }
            }
        }
        found
    }

    fn step(&self, inst: ir::Inst, n: usize, v: ir::Value, at: &impl Fn(Cell) -> Kinds) -> OperandUse {
        use Opcode::*;
        let func = self.func;
        let args = func.dfg.inst_args(inst);
        OperandUse::Ends(match func.dfg.insts[inst].opcode() {
            Store if n == 0 => {
                let there = at(cell_of(func, args[1], access_offset(func, inst)));
                let is_number = there.has(Kinds::NUMBER) && there.moved() == Kinds::NONE;
                if is_number { NumberUses::COUNTED } else { NumberUses::UNKNOWN }
            }
            Call => match CalleeKind::of(self.program, func, inst) {
                Some(CalleeKind::Derived(f)) => self.summaries.number_uses(f, n),
                _ => NumberUses::UNKNOWN,
            },
            // Of arguments of calls through pointers the functions that may be meant say it.
            CallIndirect if n > 0 => {
                let InstructionData::CallIndirect { sig_ref, .. } = func.dfg.insts[inst] else {
                    unreachable!("a call")
                };
                let callees = self.summaries.addressed(signature_id(&func.dfg.signatures[sig_ref]));
                callees.map(|f| self.summaries.number_uses(f, n - 1)).fold(NumberUses::NUMBER, NumberUses::join)
            }
            // What is added to a pointer is no pointer.
            Iadd if args.iter().any(|&a| a != v && self.pointers.root(a).is_some()) => NumberUses::COUNTED,
            Iadd | Isub | Band | Bor | Bxor | Smin | Smax | Umin | Umax => return OperandUse::Follow,
            Select | SelectSpectreGuard if n > 0 => return OperandUse::Follow,
            Imul | Ishl | Sshr | Sdiv | Udiv | Srem | Urem | FcvtFromSint | FcvtFromUint => NumberUses::COUNTED,
            Icmp if self.compares_numbers(inst, n) => NumberUses::COUNTED,
            Icmp | Brif | Select | SelectSpectreGuard => NumberUses::NUMBER,
            _ => NumberUses::UNKNOWN,
        })
    }

    /// Whether a comparison is one of numbers: with a sign, or with a counter.
    fn compares_numbers(&self, inst: ir::Inst, n: usize) -> bool {
        use IntCC::*;
        let func = self.func;
        let InstructionData::IntCompare { cond, args, .. } = func.dfg.insts[inst] else { return false };
        let with = args[1 - n];
        let small = |v| constant_int(func, v).is_some_and(|c| SMALL.contains(&c));
        match cond {
            SignedLessThan | SignedGreaterThan | SignedLessThanOrEqual | SignedGreaterThanOrEqual => true,
            Equal | NotEqual => small(with),
            _ if small(with) => true,
            _ => match func.dfg.value_def(with) {
                // A counter begins with a constant.
                ValueDef::Param(b, i) if b != self.cfg.blocks[0] => {
                    self.cfg.incoming(b, i).any(|a| constant_int(func, a).is_some())
                }
                _ => false,
            },
        }
    }
}
