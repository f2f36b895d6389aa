//! Preaccumulation: local derivatives of an iteration are multiplied out before the cotangent
//! arrives.
//!
//! **Problem.** The reverse of a loop that carries a number, `x ← r x (1 - x)`, carries its
//! cotangent through as many operations as the iteration has on the way: `x̄ ← x̄ (1 - x) r - x̄ (r
//! x)` is a product, another and a difference, twelve cycles one after the other, in which little
//! else is done. An adjoint by hand multiplies `x̄` by one number, the derivative of the iteration,
//! which does not depend on `x̄` and is there long before it. (*Preaccumulation*: Griewank and
//! Walther, Evaluating Derivatives, chapter 10.)
//!
//! **Answer.** In a cycle of blocks
//! ([`affine_loop::loops`](brolga_clif::vectorise::affine_loop::loops)), what an iteration hands on
//! is written as `c·x̄ + b` by going through sums, differences, products and quotients that `x̄`
//! goes into once, with `c` and `b` computed without `x̄` ([`ChainLine`]). Where the chain gets
//! shorter by that, the end of the iteration becomes
//!
//! ```text
//!          ┌─► x̄' = c·x̄ + b ─┐
//! ... ok ──┤                   ├─► next iteration
//!          └─► the chain  ────┘
//! ```
//!
//! and what only the chain needs moves to its side. The branch is foretold, so that no iteration
//! waits for `ok`. With little effort both are done in each iteration, and one is selected
//! ([`Choice`]), since blocks cost time to compile.
//!
//! **When it is the same number.** Up to rounding, if every product and quotient in `c` is a normal
//! number and `c` is finite. `x̄·u·r` may be an ordinary number though `u·r` is infinite, or zero,
//! where `x̄` makes up for it: such an iteration goes through the chain, as does one in which a
//! factor is zero. A normal number is not rounded worse than the chain rounds, and its product with
//! `x̄` overflows or vanishes only where that of the chain does. `b` must be finite; where its
//! products are too small, they are too small in the chain. If `x̄` itself is infinite, `∞·c` may
//! stand where the chain has `∞ - ∞`.
//!
//! **Where.** For cotangents in loops that reverse, where only a gradient is asked for: sums are
//! taken in another order, as in [`lanes`](brolga_clif::vectorise). Not where another number is
//! carried that `c` depends on (the iterations of that one would be waited for).
//!
//! **When it pays.** If the processor waits for the chain rather than for the number of
//! instructions, by a guess of four instructions a cycle, one that is no arithmetic with each that
//! is, and four cycles for each operation.
//!
//! **Both tiers alike.** A rule of little effort and the one that follows it must give the same
//! bits, so both do this or neither does. What they differ in is out of the way: it comes before
//! all that is done to loops that reverse; it asks for nothing but arithmetic of floats, which is
//! the same in both; and functions whose products are guarded are left alone, as one pass with all
//! effort has them twice ([`crate::guards::versioning`]).
//!
//! **Cost.** For each float that a loop carries a walk over what it is computed from, up to chains
//! of 24 nodes; for each loop that changes at most one walk over the function.

use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Opcode, Value, types};
use smallvec::SmallVec;

use brolga_clif::simplify_cfg::{join, resolve_aliases};
use brolga_clif::vectorise::affine_loop::{Home, Loop, Steps, loops};

/// Cycles from an operand of an addition or a product to its result, and of a quotient.
const STEP: u32 = 4;
const QUOTIENT: u32 = 13;
/// Instructions that are done in a cycle.
const WIDTH: u32 = 4;
/// Longer chains are left alone.
const MOST: usize = 24;

/// How one of two numbers is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By a branch: what runs is one way.
    Branch,
    /// By `select`, which is less to compile.
    Select,
}

/// A loop in which the derivative of an iteration is multiplied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreaccumulatedLoop {
    /// The loop's header.
    pub header: ir::Block,
    /// Products and quotients that are done before the cotangent is there.
    pub factors: usize,
}

/// That, of the reverse of a loop, as a sentence.
pub fn told(factors: usize) -> String {
    let many = if factors == 1 { "a product is" } else { "products are" };
    format!("in the reverse of its loop {many} multiplied out before the cotangent is there ({factors})")
}

/// Multiply derivatives out in the loops with headers for which `reverses` holds: all that can be,
/// or, if it is to be `worth` it, those that wait. The numbers are the same, however they are
/// chosen.
pub fn preaccumulate(
    func: &mut ir::Function,
    reverses: &dyn Fn(ir::Block) -> bool,
    worth: bool,
    choice: Choice,
) -> Vec<PreaccumulatedLoop> {
    // Most functions carry no float through a loop but sums.
    if !func.layout.blocks().any(|b| carries_float(func, b) && reverses(b)) {
        return Vec::new();
    }
    resolve_aliases(func);
    let wanted = |func: &ir::Function, l: &Loop| chain(func, l).filter(|c| reverses(l.blocks[0]) && (!worth || c.pays));
    let chains: Vec<(Loop, CotangentChain)> =
        loops(func).into_iter().filter_map(|l| wanted(func, &l).map(|c| (l, c))).collect();
    if chains.is_empty() {
        return Vec::new();
    }
    // An iteration in as few blocks as can be, so that what is handed on within it has one name.
    let inner = chains.iter().flat_map(|(l, _)| &l.blocks[..l.blocks.len() - 1]);
    let ends = inner.filter_map(|&b| func.layout.last_inst(b));
    let within: HashSet<ir::Inst> = ends.filter(|&i| func.dfg.insts[i].opcode() == Opcode::Jump).collect();
    if !within.is_empty() {
        join(func, |jump| within.contains(&jump));
        // Chains are of values that were handed on; none is of a name that goes here.
        func.dfg.resolve_all_aliases();
    }
    let mut found = Vec::new();
    for (l, chain) in chains {
        match choice {
            Choice::Branch => branch(func, &chain),
            Choice::Select => select(func, &chain),
        }
        found.push(PreaccumulatedLoop { header: l.blocks[0], factors: chain.factors.len() });
    }
    found
}

fn is_scalar(func: &ir::Function, v: Value) -> bool {
    matches!(func.dfg.value_type(v), types::F64 | types::F32)
}

/// Whether a block has a parameter that is a float.
fn carries_float(func: &ir::Function, b: ir::Block) -> bool {
    func.dfg.block_params(b).iter().any(|&v| is_scalar(func, v))
}

/// A number that is computed without the cotangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainNode {
    /// One that is there.
    Is(Value),
    One,
    Neg(usize),
    Sum(usize, usize),
    Difference(usize, usize),
    Product(usize, Value),
    Quotient(usize, Value),
}

/// `c·x̄ + b`, each a node or zero; and the cycles from `x̄` to the number that it stands for.
#[derive(Clone, Copy, Debug, Default)]
struct ChainLine {
    c: Option<usize>,
    b: Option<usize>,
    cycles: u32,
}

/// What is done to a cotangent in an iteration.
struct CotangentChain {
    carried: Value,
    /// The names of what is handed on, and the jump that does it.
    names: SmallVec<[Value; 4]>,
    latch: ir::Inst,
    /// The instructions from one to the other, in order.
    insts: SmallVec<[ir::Inst; 16]>,
    nodes: Vec<ChainNode>,
    line: ChainLine,
    /// Products and quotients that `c` is made of.
    factors: SmallVec<[usize; 8]>,
    pays: bool,
}

impl CotangentChain {
    /// What must hold of nodes for `c·x̄ + b` to be the number that the chain has.
    fn asked(&self) -> impl Iterator<Item = (usize, NumberTest)> + '_ {
        // What is infinite makes `c` infinite or NaN.
        let of = |n| if self.line.c == Some(n) { NumberTest::Normal } else { NumberTest::NotSmall };
        let factors = self.factors.iter().map(move |&n| (n, of(n)));
        let computed = |n: &usize| !matches!(self.nodes[*n], ChainNode::Is(_)) && !self.factors.contains(n);
        factors
            .chain([self.line.c, self.line.b].into_iter().flatten().filter(computed).map(|n| (n, NumberTest::Finite)))
    }
}

/// Products and quotients that a node is made of, in order.
fn factors(nodes: &[ChainNode], of: Option<usize>) -> SmallVec<[usize; 8]> {
    let mut found: SmallVec<[usize; 8]> = SmallVec::new();
    let mut wanted: SmallVec<[usize; 8]> = of.into_iter().collect();
    while let Some(k) = wanted.pop() {
        match nodes[k] {
            ChainNode::Is(_) | ChainNode::One => {}
            ChainNode::Neg(x) => wanted.push(x),
            ChainNode::Sum(x, y) | ChainNode::Difference(x, y) => wanted.extend([x, y]),
            ChainNode::Product(x, _) | ChainNode::Quotient(x, _) => {
                wanted.push(x);
                if !found.contains(&k) {
                    found.push(k);
                }
            }
        }
    }
    found.sort_unstable();
    found
}

/// The first cotangent that goes through a loop in a chain.
fn chain(func: &ir::Function, l: &Loop) -> Option<CotangentChain> {
    if !carries_float(func, l.blocks[0]) {
        return None;
    }
    let steps = Steps::new(func, l)?;
    let latch = func.layout.last_inst(*l.blocks.last()?)?;
    let insts = || l.blocks.iter().flat_map(|&b| func.layout.block_insts(b));
    if insts().any(|i| func.dfg.insts[i].opcode().is_call()) {
        return None;
    }
    func.dfg.block_params(l.blocks[0]).iter().zip(&steps.nexts).find_map(|(&carried, &next)| {
        let is_float = is_scalar(func, carried);
        if !is_float || carried == next {
            return None;
        }
        let (mut known, mut depends, nodes) = (HashMap::default(), HashMap::default(), Vec::with_capacity(MOST / 2));
        known.reserve(MOST / 2);
        depends.reserve(MOST / 2);
        let mut lines = Lines { steps: &steps, carried, known, depends, nodes };
        if !lines.depends(next)? {
            return None;
        }
        let line = lines.of(next)?;
        let in_chain = |i: &ir::Inst| matches!(func.dfg.inst_results(*i), [v] if lines.known.contains_key(v));
        let names = steps.aliases().into_iter().filter(|&(_, v)| v == next).map(|(name, _)| name);
        let names = std::iter::once(next).chain(names).collect();
        let mut chain = CotangentChain {
            carried,
            names,
            latch,
            insts: insts().filter(in_chain).collect(),
            factors: factors(&lines.nodes, line.c),
            nodes: lines.nodes,
            line,
            pays: false,
        };
        let factors = chain.factors.len() as u32;
        if factors == 0 {
            return None;
        }
        // To ask for the range of a factor takes five instructions.
        let more = chain.nodes.len() as u32 + 5 * factors + 2;
        let weigh = |i| match func.dfg.insts[i].opcode() {
            Opcode::Fdiv | Opcode::Sqrt => QUOTIENT,
            Opcode::Fadd | Opcode::Fsub | Opcode::Fmul => 2,
            _ => 0,
        };
        let length: u32 = insts().map(weigh).sum();
        let after = if line.b.is_some() { 2 * STEP } else { STEP };
        chain.pays = after.max((length + more) / WIDTH) + STEP <= line.cycles.max(length / WIDTH);
        Some(chain)
    })
}

/// Numbers of an iteration as lines in what is carried.
struct Lines<'a, 'f> {
    steps: &'a Steps<'f>,
    carried: Value,
    known: HashMap<Value, Option<ChainLine>>,
    depends: HashMap<Value, bool>,
    nodes: Vec<ChainNode>,
}

impl Lines<'_, '_> {
    fn node(&mut self, node: ChainNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Whether a number is computed from what is carried in this iteration; nothing if from another
    /// that is carried.
    fn depends(&mut self, v: Value) -> Option<bool> {
        let v = self.steps.resolve(v);
        if v == self.carried {
            return Some(true);
        }
        match self.steps.home(v) {
            Home::Outside => Some(false),
            Home::Param(i) => (self.steps.nexts[i] == v || !self.steps.ty(v).is_float()).then_some(false),
            Home::Inside(inst) => {
                if let Some(&known) = self.depends.get(&v) {
                    return Some(known);
                }
                let mut found = false;
                for a in self.steps.args(inst) {
                    found |= self.depends(a)?;
                }
                self.depends.insert(v, found);
                Some(found)
            }
        }
    }

    fn of(&mut self, v: Value) -> Option<ChainLine> {
        let v = self.steps.resolve(v);
        if v == self.carried {
            return Some(ChainLine { c: Some(self.node(ChainNode::One)), ..ChainLine::default() });
        }
        if !self.depends(v)? {
            return Some(ChainLine { b: Some(self.node(ChainNode::Is(v))), ..ChainLine::default() });
        }
        if let Some(&known) = self.known.get(&v) {
            return known;
        }
        let found = self.combined(v);
        self.known.insert(v, found);
        found
    }

    fn combined(&mut self, v: Value) -> Option<ChainLine> {
        let Home::Inside(inst) = self.steps.home(v) else { return None };
        let args = self.steps.args(inst);
        if self.nodes.len() > MOST {
            return None;
        }
        let op = self.steps.func.dfg.insts[inst].opcode();
        match op {
            Opcode::Fneg => {
                let ChainLine { c, b, cycles } = self.of(args[0])?;
                let mut neg = |n: Option<usize>| n.map(|n| self.node(ChainNode::Neg(n)));
                Some(ChainLine { c: neg(c), b: neg(b), cycles: cycles + 1 })
            }
            Opcode::Fadd | Opcode::Fsub => {
                let (x, y) = (self.of(args[0])?, self.of(args[1])?);
                let mut pair = |x: Option<usize>, y: Option<usize>| match (x, y, op) {
                    (Some(x), Some(y), Opcode::Fadd) => Some(self.node(ChainNode::Sum(x, y))),
                    (Some(x), Some(y), _) => Some(self.node(ChainNode::Difference(x, y))),
                    (None, Some(y), Opcode::Fsub) => Some(self.node(ChainNode::Neg(y))),
                    (x, y, _) => x.or(y),
                };
                Some(ChainLine { c: pair(x.c, y.c), b: pair(x.b, y.b), cycles: x.cycles.max(y.cycles) + STEP })
            }
            Opcode::Fmul | Opcode::Fdiv => {
                let (x, by) = match (self.depends(args[0])?, self.depends(args[1])?) {
                    (true, false) => (args[0], args[1]),
                    (false, true) if op == Opcode::Fmul => (args[1], args[0]),
                    _ => return None,
                };
                let ChainLine { c, b, cycles } = self.of(x)?;
                let product = op == Opcode::Fmul;
                let mut times = |n: Option<usize>| match n {
                    Some(n) if product && self.nodes[n] == ChainNode::One => Some(self.node(ChainNode::Is(by))),
                    Some(n) => {
                        Some(self.node(if product { ChainNode::Product(n, by) } else { ChainNode::Quotient(n, by) }))
                    }
                    None => None,
                };
                let cost = if product { STEP } else { QUOTIENT };
                Some(ChainLine { c: times(c), b: times(b), cycles: cycles + cost })
            }
            _ => None,
        }
    }
}

/// Put both numbers at the end of an iteration, and take one.
fn select(func: &mut ir::Function, chain: &CotangentChain) {
    let mut pos = FuncCursor::new(func).at_inst(chain.latch);
    pos.use_srcloc(chain.latch);
    let values = multiplied(&mut pos, chain);
    let ok = holds(&mut pos, chain, &values);
    let next = in_one(&mut pos, chain, &values);
    let next = pos.ins().select(ok, next, chain.names[0]);
    func.dfg.map_inst_values(chain.latch, |v| if chain.names.contains(&v) { next } else { v });
}

/// All that is asked of nodes, by one comparison: the least factor with the least normal number, to
/// which zero is added for each number that is to be finite, or none that anything could be
/// compared with.
fn holds(pos: &mut FuncCursor<'_>, chain: &CotangentChain, values: &[Value]) -> Value {
    let (mut least, mut bound) = match pos.func.dfg.value_type(chain.carried) {
        types::F64 => (None, pos.ins().f64const(f64::MIN_POSITIVE)),
        _ => (None, pos.ins().f32const(f32::MIN_POSITIVE)),
    };
    for (n, asked) in chain.asked() {
        let v = values[n];
        if asked != NumberTest::Finite {
            let size = pos.ins().fabs(v);
            least = Some(least.map_or(size, |least| pos.ins().fmin(least, size)));
        }
        if asked != NumberTest::NotSmall {
            let zero = pos.ins().fsub(v, v);
            bound = pos.ins().fadd(zero, bound);
        }
    }
    pos.ins().fcmp(FloatCC::GreaterThanOrEqual, least.expect("there is a factor"), bound)
}

/// `c·x̄ + b`.
fn in_one(pos: &mut FuncCursor<'_>, chain: &CotangentChain, values: &[Value]) -> Value {
    let next = pos.ins().fmul(chain.carried, values[chain.line.c.expect("the chain goes through the iteration")]);
    match chain.line.b {
        Some(b) => pos.ins().fadd(next, values[b]),
        None => next,
    }
}

/// Put both ways at the end of an iteration.
fn branch(func: &mut ir::Function, chain: &CotangentChain) {
    let latch = func.layout.inst_block(chain.latch).expect("a latch is in a block");
    let at = func.srcloc(chain.latch);
    let (fast, slow) = (func.dfg.make_block(), func.dfg.make_block());
    func.layout.insert_block_after(fast, latch);
    func.layout.insert_block_after(slow, fast);
    func.layout.set_cold(slow);
    let moving = only_for(func, chain);
    let jump = func.dfg.clone_inst(chain.latch);
    for &inst in moving.iter().chain([&chain.latch]) {
        func.layout.remove_inst(inst);
        func.layout.append_inst(inst, slow);
    }
    let mut pos = FuncCursor::new(func).at_bottom(latch);
    pos.set_srcloc(at);
    let values = multiplied(&mut pos, chain);
    let tests: SmallVec<[Value; 4]> = chain.asked().map(|(n, asked)| is(&mut pos, values[n], asked)).collect();
    for (k, &ok) in tests.iter().enumerate() {
        // One branch for each, which is one instruction with the test.
        let last = k + 1 == tests.len();
        let next = if last { fast } else { pos.func.dfg.make_block() };
        pos.ins().brif(ok, next, &[], slow, &[]);
        if !last {
            pos.func.layout.insert_block(next, fast);
        }
        pos = FuncCursor::new(pos.func).at_bottom(next);
        pos.set_srcloc(at);
    }
    let next = in_one(&mut pos, chain, &values);
    func.dfg.map_inst_values(jump, |v| if chain.names.contains(&v) { next } else { v });
    func.set_srcloc(jump, at);
    func.layout.append_inst(jump, fast);
}

/// All nodes.
fn multiplied(pos: &mut FuncCursor<'_>, chain: &CotangentChain) -> SmallVec<[Value; 16]> {
    let ty = pos.func.dfg.value_type(chain.carried);
    let mut values: SmallVec<[Value; 16]> = SmallVec::new();
    for &node in &chain.nodes {
        let v = match node {
            ChainNode::Is(v) => v,
            ChainNode::One if ty == types::F64 => pos.ins().f64const(1.0),
            ChainNode::One => pos.ins().f32const(1.0),
            ChainNode::Neg(x) => pos.ins().fneg(values[x]),
            ChainNode::Sum(x, y) => pos.ins().fadd(values[x], values[y]),
            ChainNode::Difference(x, y) => pos.ins().fsub(values[x], values[y]),
            ChainNode::Product(x, y) => pos.ins().fmul(values[x], y),
            ChainNode::Quotient(x, y) => pos.ins().fdiv(values[x], y),
        };
        values.push(v);
    }
    values
}

/// What is asked of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberTest {
    Finite,
    /// It has all its digits: it is normal, infinite or NaN.
    NotSmall,
    /// Both.
    Normal,
}

/// What is not zero if it is so. It is the exponent of a number that is asked for: that of zero is
/// zero, and that of what is infinite or NaN has all bits set, so that its successor has none.
fn is(pos: &mut FuncCursor<'_>, v: Value, asked: NumberTest) -> Value {
    let (int, mantissa, exponents) = match pos.func.dfg.value_type(v) {
        types::F64 => (types::I64, 52, 0x7ff),
        _ => (types::I32, 23, 0xff),
    };
    if matches!(asked, NumberTest::Finite) {
        // Otherwise it is no number.
        let zero = pos.ins().fsub(v, v);
        return pos.ins().fcmp(FloatCC::Ordered, zero, zero);
    }
    let bits = pos.ins().bitcast(int, MemFlagsData::new(), v);
    let shift = pos.ins().iconst(types::I32, mantissa);
    let mut exponent = pos.ins().ushr(bits, shift);
    if !matches!(asked, NumberTest::NotSmall) {
        let one = pos.ins().iconst(int, 1);
        exponent = pos.ins().iadd(exponent, one);
    }
    // After zero comes one, and after all others two and more.
    let mask = pos.ins().iconst(int, if matches!(asked, NumberTest::Normal) { exponents - 1 } else { exponents });
    // The choice asks whether that is zero.
    pos.ins().band(exponent, mask)
}

/// Instructions of the chain that nothing else needs, in order.
fn only_for(func: &ir::Function, chain: &CotangentChain) -> SmallVec<[ir::Inst; 16]> {
    let mut moving: SmallVec<[ir::Inst; 16]> = chain.insts.clone();
    let results: SmallVec<[Value; 16]> = moving.iter().flat_map(|&i| func.dfg.inst_results(i)).copied().collect();
    // What reads them. The jump of the other way hands everything on but the cotangent.
    let mut users: SmallVec<[(Value, ir::Inst); 32]> = SmallVec::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let asked = func.dfg.inst_values(inst).filter(|v| results.contains(v));
        users.extend(asked.filter(|v| inst != chain.latch || !chain.names.contains(v)).map(|v| (v, inst)));
    }
    loop {
        let before = moving.clone();
        let stays = |v: &Value| users.iter().any(|(used, by)| used == v && !before.contains(by));
        moving.retain(|i| !func.dfg.inst_results(*i).iter().any(stays));
        if moving.len() == before.len() {
            return moving;
        }
    }
}
