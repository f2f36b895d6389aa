//! Scalar evolution: addresses as polynomials of trip counts.
//!
//! **Question.** An address in a loop is computed anew in each iteration: `p + 8 (i n + j)`. As a
//! function of the iterations of the loops around it, what is it?
//!
//! **Answer.** Integers are written out as sums of products of *atoms*, with coefficients modulo
//! 2⁶⁴, as the machine computes them. An atom is a value that nothing more is known of, or the
//! number of iterations that a loop has done: an induction variable is its first value plus its
//! step times that number. A pointer that runs through a nest of loops (it enters the inner loop
//! with what the outer one holds, and the outer one goes on with what the inner one ends with) is a
//! first value plus a step times the number of iterations of the inner loop since the outer one was
//! entered.
//!
//! Two sums that are written alike are equal. The reverse does not hold, and no pass relies on it.
//!
//! **Beside it.** Other addresses are written out for other questions, in forms that have no
//! products and no trip counts, and each has what this one has not:
//!
//! | form | why it is another |
//! |---|---|
//! | `brolga_clif::linear` | sums of multiples, of 32 bits too: derived CLIF, one loop at a time |
//! | `Distance` of `brolga_analysis::memory::alias` | bounds of a distance, without overflow |
//! | `Base` of `brolga_analysis::query::cell` | the name of a place, which a table is looked up by |
//! | `root` of `mem2reg::names` | follows integers that memory holds, as known at that access |
//! | `brolga_clif::inverse::origin` | which states an address leads to, joined over all paths |
//!
//! **Cost.** An address is followed at most 32 operations up, each value once, and a sum of more
//! than 16 products is an atom.
//!
//! **Source.** Scalar evolution of LLVM; chains of recurrences (Bachmann, Wang and Zima, 1994).

use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use brolga_analysis::{LoopId, Loops};
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};
use smallvec::SmallVec;

use crate::primal::induction::{exit_test, induction};

/// What products are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// Any value.
    Value(ir::Value),
    /// How many iterations a loop has done since it was entered.
    TripCount(LoopId),
    /// How many iterations a loop has done since the outer loop given second was entered.
    Walk(LoopId, LoopId),
}

/// The atoms of a product, sorted.
type Atoms = SmallVec<[Atom; 2]>;

/// A sum of products, modulo 2⁶⁴: sorted atoms, in order, with the coefficients that they multiply.
/// None is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum(SmallVec<[(Atoms, i64); 3]>);

/// More products than this in one sum are not followed.
const MOST_PRODUCTS: usize = 16;

impl Sum {
    /// A constant.
    pub fn constant(c: i64) -> Self {
        let mut s = Self::default();
        s.add_product(&[], c);
        s
    }

    /// One atom.
    pub fn atom(a: Atom) -> Self {
        let mut s = Self::default();
        s.add_product(&[a], 1);
        s
    }

    /// Where a product is, or would be.
    fn find(&self, atoms: &[Atom]) -> Result<usize, usize> {
        self.0.binary_search_by(|(product, _)| product[..].cmp(atoms))
    }

    fn add_product(&mut self, atoms: &[Atom], c: i64) {
        match self.find(atoms) {
            Ok(at) => {
                self.0[at].1 = self.0[at].1.wrapping_add(c);
                if self.0[at].1 == 0 {
                    self.0.remove(at);
                }
            }
            Err(at) if c != 0 => self.0.insert(at, (Atoms::from_slice(atoms), c)),
            Err(_) => {}
        }
    }

    /// `self + c * other`.
    #[must_use]
    pub fn plus(mut self, other: &Self, c: i64) -> Self {
        for (atoms, k) in &other.0 {
            self.add_product(atoms, k.wrapping_mul(c));
        }
        self
    }

    /// The product of two sums.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut atoms = a.clone();
                atoms.extend(b.iter().copied());
                atoms.sort_unstable();
                out.add_product(&atoms, x.wrapping_mul(*y));
            }
        }
        out
    }

    /// The constant that it is, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        match &self.0[..] {
            [] => Some(0),
            [(atoms, c)] if atoms.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// The sum without its constant, and the constant.
    #[must_use]
    pub fn split_constant(mut self) -> (Self, i64) {
        let c = self.find(&[]).map_or(0, |at| self.0.remove(at).1);
        (self, c)
    }

    /// Factors of the given atoms, in their order, and what has none of them; `None` if some
    /// product has two of them.
    pub fn factors(&self, of: &[Atom]) -> Option<(Vec<Self>, Self)> {
        let mut factors = vec![Self::default(); of.len()];
        let mut rest = Self::default();
        for (atoms, c) in &self.0 {
            let mut here = atoms.iter().enumerate().filter_map(|(at, a)| Some((at, of.iter().position(|o| o == a)?)));
            match (here.next(), here.next()) {
                (None, _) => rest.add_product(atoms, *c),
                (Some((at, k)), None) => {
                    let mut others = atoms.clone();
                    others.remove(at);
                    factors[k].add_product(&others, *c);
                }
                _ => return None,
            }
        }
        Some((factors, rest))
    }

    /// Its products: atoms, and what they are multiplied by.
    pub fn products(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.0.iter().map(|(atoms, c)| (&atoms[..], *c))
    }

    /// All atoms.
    pub fn atoms(&self) -> impl Iterator<Item = Atom> + '_ {
        self.0.iter().flat_map(|product| &product.0).copied()
    }
}

/// A variable that runs through a nest of loops.
struct Walk {
    /// The outermost of them, by its place in the nest.
    outer: usize,
    /// The parameter of that loop's header that the variable is when an iteration of it begins.
    head: ir::Value,
    /// Its first value.
    start: ir::Value,
    /// By how much an iteration of the innermost changes it.
    step: i64,
}

/// Sums of values, each at the beginning of a nest of so many loops.
type SumTable = HashMap<(ir::Value, usize), Sum>;

/// What is asked about: a function with canonical loops.
#[derive(Clone, Copy)]
pub struct AffineContext<'a> {
    /// The function.
    pub func: &'a ir::Function,
    /// Its loops.
    pub loops: &'a Loops,
}

impl AffineContext<'_> {
    /// A 64-bit integer, at a place in these loops (outermost first).
    pub fn sum(&self, v: ir::Value, around: &[LoopId]) -> Sum {
        self.sum_at(v, around, 0, &mut SumTable::default())
    }

    /// What is known of a value does not change with its depth, but for how far it is followed.
    fn sum_at(&self, v: ir::Value, around: &[LoopId], depth: u32, known: &mut SumTable) -> Sum {
        if let Some(sum) = known.get(&(v, around.len())) {
            return sum.clone();
        }
        let sum = self.look_at(v, around, depth, known);
        known.insert((v, around.len()), sum.clone());
        sum
    }

    fn look_at(&self, v: ir::Value, around: &[LoopId], depth: u32, known: &mut SumTable) -> Sum {
        let itself = || Sum::atom(Atom::Value(v));
        if depth > 32 || self.func.dfg.value_type(v) != types::I64 {
            return itself();
        }
        let mut of = |v| self.sum_at(v, around, depth + 1, known);
        let inst = match self.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) => return self.param(b, i, around, depth, known).unwrap_or_else(itself),
            ValueDef::Union(..) => return itself(),
        };
        let sum = match self.func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Sum::constant(imm.bits()),
            InstructionData::Unary { opcode: Opcode::Ineg, arg } => Sum::default().plus(&of(arg), -1),
            InstructionData::Binary { opcode, args: [a, b] } => match opcode {
                Opcode::Iadd => of(a).plus(&of(b), 1),
                Opcode::Isub => of(a).plus(&of(b), -1),
                Opcode::Imul => {
                    let (a, b) = (of(a), of(b));
                    if a.0.len() * b.0.len() > MOST_PRODUCTS {
                        return itself();
                    }
                    a.times(&b)
                }
                Opcode::Ishl => match constant_int(self.func, b) {
                    Some(n) => Sum::default().plus(&of(a), 1_i64.wrapping_shl(n as u32)),
                    None => return itself(),
                },
                _ => return itself(),
            },
            _ => return itself(),
        };
        if sum.0.len() > MOST_PRODUCTS { itself() } else { sum }
    }

    /// The `i`-th parameter of the header of one of the loops around.
    fn param(&self, b: ir::Block, i: usize, around: &[LoopId], depth: u32, known: &mut SumTable) -> Option<Sum> {
        let v = self.func.dfg.block_params(b)[i];
        let at = around.iter().position(|&l| self.loops.loops[l].header == b)?;
        let Walk { outer, start, step, .. } = self.walk(v, i, &around[..=at])?;
        let iterations = if outer == at { Atom::TripCount(around[at]) } else { Atom::Walk(around[at], around[outer]) };
        Some(self.sum_at(start, &around[..outer], depth + 1, known).plus(&Sum::atom(iterations), step))
    }

    /// How far out a variable of the innermost of these loops goes on where an inner loop has
    /// ended; `v` is the `i`-th parameter of its header.
    fn walk(&self, v: ir::Value, i: usize, around: &[LoopId]) -> Option<Walk> {
        let at = around.len() - 1;
        let iv = induction(self.func, self.loops, around[at], i)?;
        let (mut walk, mut last) = (Walk { outer: at, head: v, start: iv.start, step: iv.step }, v);
        while walk.outer > 0
            && let Some(before) = self.carried(walk.start, &[v, last], around[walk.outer - 1])
        {
            // What this loop's header has received last is where the walk is when the loop ends, if
            // it ends there.
            let lp = &self.loops.loops[around[walk.outer - 1]];
            let asks_first = lp.exits.iter().all(|e| e.0 == lp.header);
            last = if asks_first { walk.start } else { v };
            walk = Walk { outer: walk.outer - 1, head: walk.start, start: before, ..walk };
        }
        Some(walk)
    }

    /// Whether a sum is how many iterations the innermost of these loops has done in all when the
    /// outermost is left: the difference that a variable with step one has made that runs through
    /// all of them, and that nothing but those iterations changes.
    pub fn counts(&self, sum: &Sum, around: &[LoopId]) -> bool {
        let [outermost, .., innermost] = around else { return false };
        let asks_first = |l: &LoopId| self.loops.loops[*l].exits.iter().all(|e| e.0 == self.loops.loops[*l].header);
        let params = self.func.dfg.block_params(self.loops.loops[*innermost].header);
        asks_first(outermost)
            && params.iter().enumerate().filter_map(|(i, &v)| self.walk(v, i, around)).any(|w| {
                let made = Sum::atom(Atom::Value(w.head)).plus(&self.sum(w.start, &[]), -1);
                w.outer == 0 && w.step == 1 && made == *sum
            })
    }

    /// If `start` is a parameter of the loop's header that is one of `v` in the next iteration: its
    /// value in the first iteration.
    fn carried(&self, start: ir::Value, v: &[ir::Value], l: LoopId) -> Option<ir::Value> {
        let lp = &self.loops.loops[l];
        let ([entry], [latch]) = (&lp.entries[..], &lp.latches[..]) else { return None };
        let ValueDef::Param(b, i) = self.func.dfg.value_def(start) else { return None };
        (b == lp.header && v.contains(&edge_args(self.func, *latch, b)[i])).then(|| edge_args(self.func, *entry, b)[i])
    }

    /// The trip count of a loop that can only end by its test: a sum that is the number of
    /// iterations if that is positive, and is not positive (or wrong by a multiple of 2⁶⁴ that no
    /// run reaches) if there are none.
    pub fn trips(&self, l: LoopId, around: &[LoopId]) -> Option<Sum> {
        self.iterations(l, around).map(|t| t.0)
    }

    /// The same, and whether its header runs once more than its body, to ask.
    pub fn iterations(&self, l: LoopId, around: &[LoopId]) -> Option<(Sum, bool)> {
        let lp = &self.loops.loops[l];
        let [(from, to)] = lp.exits[..] else { return None };
        (0..self.func.dfg.block_params(lp.header).len()).find_map(|i| {
            let iv = induction(self.func, self.loops, l, i)?;
            let test = exit_test(self.func, self.loops, l, &iv, from, to)?;
            // After an iteration that has not asked, a bound below the start is one iteration.
            let asked_first = from == lp.header && !test.of_next;
            let exact =
                test.cc == ir::condcodes::IntCC::Equal && (asked_first || test.of_next && from == lp.latches[0]);
            if iv.step.unsigned_abs() != 1 || self.func.dfg.value_type(iv.var) != types::I64 || !(asked_first || exact)
            {
                return None;
            }
            let n = self.sum(test.bound, around).plus(&self.sum(iv.start, around), -1);
            Some((Sum::default().plus(&n, iv.step), asked_first))
        })
    }
}
