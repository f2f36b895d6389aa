//! Loop bodies for vectorisation: accesses, parameters, trip count, and the tests before the loop.
//!
//! **Question.** What has to be known of an iteration so that several run as one?
//!
//! **Answer.** A [`LoopBody`]: for each value of which kind it is ([`ValueKind`]), for each access
//! where it goes ([`LoopAccess`]), for each parameter of the header what becomes of it
//! ([`LoopParam`]), and which pairs of accesses are compared in the run ([`Test`]).
//! [`super::legality`] and [`super::promote`] fill it, [`super::codegen`] reads it.
//!
//! **Cost.** Iterations of more than 300 instructions, and loops that want more than twelve tests,
//! are left alone.

use crate::map::HashMap;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value};
use smallvec::SmallVec;

use crate::linear::LinearForm;
use crate::vectorise::affine_loop::Steps;
use crate::vectorise::count::Count;

/// Comparisons of addresses before a loop; more take longer than a short loop.
const MOST_TESTS: usize = 12;

/// Bytes of a vector.
pub(crate) const VECTOR: i64 = 16;

/// Longer iterations are left alone: there are not enough registers for what they would gain.
pub(crate) const MOST_INSTS: usize = 300;

/// Why loops are in which too much is unknown.
pub(crate) const MANY: &str = "too many pairs of accesses might meet in it";

/// Why loops with other reductions are.
pub(crate) const HANDED: &str = "it hands more from iteration to iteration than sums";

/// What a value of an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// The same in all iterations, and can be had before the loop.
    Fixed,
    /// The same in all iterations: read from one place, or made of that. It can be had if there is
    /// an iteration.
    Invariant,
    /// A scalar that is made lane by lane.
    Lane,
    /// A vector of which only the first lane counts, which is such a scalar. Scalars are made masks
    /// of in vector registers.
    First,
    /// An integer that says of each lane whether a comparison holds.
    Truth,
    /// On the way from a parameter of the header to its next value.
    Sum(usize),
    /// Nothing that could be in a lane: an address, say.
    Other,
}

/// A load or store in steps.
pub(crate) struct LoopAccess {
    pub inst: ir::Inst,
    pub stores: bool,
    /// Its address when the loop is entered.
    pub at: LinearForm,
    /// Bytes to that of the next iteration.
    pub step: i64,
    /// Bytes that it reads or writes.
    pub width: i64,
}

/// Something that is handed from iteration to iteration.
pub(crate) enum LoopParam {
    /// It does not change.
    Fixed,
    /// It goes in steps.
    Step(i64),
    /// It is something else, and fixed, from the second iteration on, and the first does not ask.
    Becomes(Value),
    /// Something is added to it.
    Sum {
        /// What is done to it in an iteration, in order.
        reduction: Vec<ir::Inst>,
        /// Whether there are partial sums.
        split: bool,
        /// Whether it is only asked whether the sum is finite.
        watched: bool,
    },
}

/// Two accesses that must not meet.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// The second is not further along than the first by less than a vector.
    Apart(LinearForm),
    /// A place with so many bytes is not among what is accessed in steps: the difference to where
    /// that begins, the step, and how many bytes are accessed each time.
    Aside(LinearForm, i64, i64, i64),
    /// Two places with so many bytes are apart; the difference of the first to the second.
    Distinct(LinearForm, i64, i64),
}

/// Pairs of accesses that have to be asked about.
#[derive(Default)]
pub(crate) struct Tests {
    pub asked: Vec<Test>,
}

impl Tests {
    /// A pair. One that is known to be apart costs nothing, so it does not count either: to know
    /// more is never to do less.
    pub(crate) fn add(&mut self, test: Test, apart: bool) -> Result<(), &'static str> {
        if !apart && !self.asked.contains(&test) {
            self.asked.push(test);
        }
        if self.asked.len() > MOST_TESTS { Err(MANY) } else { Ok(()) }
    }
}

/// What an iteration does.
pub(crate) struct LoopBody {
    /// Whether iterations are run one by one, as they are but for what is in registers.
    pub one: bool,
    /// For each parameter of the header, what it is in the next iteration.
    pub nexts: SmallVec<[Value; 8]>,
    /// Vectors that an iteration of the new loop does one after the other.
    pub vectors: i64,
    /// Bytes of an element.
    pub width: i64,
    /// Bytes from element to element: the width, or as much backwards.
    pub step: i64,
    pub accesses: Vec<LoopAccess>,
    pub kinds: HashMap<Value, ValueKind>,
    /// Places that are added to.
    pub cells: Vec<PromotedCell>,
    /// Where what is read once is read.
    pub invariant: HashMap<ir::Inst, LinearForm>,
    pub params: Vec<LoopParam>,
    pub count: Count,
    pub tests: Vec<Test>,
    /// Steps of widened integers, and whether they have a sign.
    pub widened: Vec<(Value, i64, bool)>,
    /// What parameters of blocks after the header stand for.
    pub alias: HashMap<Value, Value>,
}

/// The type that a load or store moves.
pub(crate) fn accessed(func: &ir::Function, inst: ir::Inst) -> Type {
    match func.dfg.insts[inst] {
        InstructionData::Store { args, .. } => func.dfg.value_type(args[0]),
        _ => func.dfg.value_type(func.dfg.first_result(inst)),
    }
}

/// A place that is in a register as long as the loop runs.
pub(crate) struct PromotedCell {
    /// Where it is, when the loop is entered and in all iterations.
    pub at: LinearForm,
    /// Its size in bytes.
    pub bytes: i64,
    /// Its accesses, in order. The first is a load, whose result stands for what is there.
    pub accesses: Vec<ir::Inst>,
    /// The last store.
    pub store: ir::Inst,
    /// If it is a sum, what is done to it in an iteration; where iterations are run one by one,
    /// only if its terms may be added to each other first.
    pub reduction: Vec<ir::Inst>,
    /// Whether there are partial sums.
    pub split: bool,
}

impl PromotedCell {
    pub(super) fn new((at, all): CellAccesses) -> Self {
        let store = all.iter().rfind(|a| a.stores).expect("it is written to").inst;
        let accesses = all.iter().map(|a| a.inst).collect();
        Self { at, bytes: all[0].width, accesses, store, reduction: Vec::new(), split: false }
    }

    /// The load with which an iteration begins.
    pub(crate) fn load(&self) -> ir::Inst {
        self.accesses[0]
    }
}

/// A place that is written to in all iterations, and its accesses, in order.
pub(crate) type CellAccesses = (LinearForm, Vec<LoopAccess>);

/// What is done to a sum on the way from one value to another, in order; and whether that is
/// nothing but additions.
pub(crate) fn reduction(
    steps: &Steps<'_>,
    kinds: &HashMap<Value, ValueKind>,
    i: usize,
    from: Value,
    to: Value,
) -> Option<(Vec<ir::Inst>, bool)> {
    let func = steps.func;
    let (mut reduction, mut adds, mut at) = (Vec::new(), true, to);
    while at != from {
        let inst = func.dfg.value_def(at).inst().expect("a sum ends where it begins");
        let args = steps.args(inst);
        let sums: SmallVec<[usize; 2]> =
            (0..args.len()).filter(|&k| kinds.get(&args[k]) == Some(&ValueKind::Sum(i))).collect();
        let [k] = sums[..] else { return None };
        adds &= match func.dfg.insts[inst].opcode() {
            Opcode::Fadd => true,
            Opcode::Fsub => k == 0,
            _ => false,
        };
        reduction.push(inst);
        at = args[k];
    }
    reduction.reverse();
    Some((reduction, adds))
}
