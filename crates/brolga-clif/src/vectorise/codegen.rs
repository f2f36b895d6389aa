//! Code generation of vectorisation: the blocks that run a loop several iterations at a time.
//!
//! **Question.** A loop may run several iterations at a time ([`super::legality`]). By which
//! blocks?
//!
//! **Answer.** Those of [`super`]: the number of iterations, the tests, what is fixed, the loop in
//! lanes, and what is after it. For `dx[i] += c·y[i]` the loop in lanes is
//!
//! ```text
//! V(v1: i64):
//!     v2 = load.f64x2 y + v1
//!     v3 = fmul v2, c2                 c2 = splat c, before the loop
//!     v4 = load.f64x2 dx + v1
//!     v5 = fadd v4, v3
//!     store v5, dx + v1
//!     v6 = iadd v1, 16
//!     brif (icmp ult v6, end), V(v6), X
//! ```
//!
//! **Cost.** Five blocks for each loop, and an iteration of it for each vector of one.

use crate::map::HashMap;
use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value, types,
};

use super::affine_loop::Loop;
use super::outcome::VectorShape;
use super::preheader::Front;
use crate::linear::LinearForm;
use crate::vectorise::body::{LoopBody, LoopParam, PromotedCell, Test, VECTOR, ValueKind, accessed};
use crate::vectorise::count::Count;

/// Most iterations that are run in lanes: so many that a number of bytes is no negative number.
const MOST_ITERATIONS: i64 = 1 << 56;
/// The same where steps may be longer than elements.
const MOST_ONE_BY_ONE: i64 = 1 << 40;
/// The same if 32-bit integers are widened.
const MOST_WIDENED: i64 = 1 << 28;

/// Put the blocks before a loop; fewer iterations than `least` are left to it.
pub(crate) fn emit(func: &mut ir::Function, l: &Loop, body: &LoopBody, least: i64) -> VectorShape {
    let header = l.blocks[0];
    let [g, c, p, v, x] = [(); 5].map(|()| {
        let b = func.dfg.make_block();
        func.layout.insert_block(b, header);
        b
    });
    let maps = HashMap::default;
    let front = Front::new(func, l, &body.alias, g);
    let entered: Vec<BlockArg> = front.func.dfg.block_params(g).iter().map(|&v| v.into()).collect();
    let mut e = Emit {
        front,
        l,
        body,
        g,
        c,
        p,
        v,
        invariants: maps(),
        splats: maps(),
        lanes: maps(),
        bases: Vec::new(),
        places: Vec::new(),
    };
    let trip_count = e.enough(&entered, header, least);
    e.compare(trip_count, &entered, header);
    if body.one {
        e.one_by_one(trip_count, x);
    } else {
        e.vectors(trip_count, x, header);
    }
    let is_split = |p: &&LoopParam| matches!(p, LoopParam::Sum { split: true, watched: false, .. });
    let sums = body.params.iter().filter(is_split).count();
    let split = body.cells.iter().filter(|c| c.split).count();
    let (at_a_time, cells) = (body.at_a_time() as u32, body.cells.len());
    VectorShape { at_a_time, tests: body.tests.len(), sums: sums + split, cells }
}

struct Emit<'a> {
    front: Front<'a>,
    l: &'a Loop,
    body: &'a LoopBody,
    g: ir::Block,
    c: ir::Block,
    p: ir::Block,
    v: ir::Block,
    /// What is read once, and what is made of it.
    invariants: HashMap<Value, Value>,
    /// Scalars in all lanes.
    splats: HashMap<Value, Value>,
    /// Vectors of the present iterations.
    lanes: HashMap<Value, Value>,
    /// Addresses when the loop is entered.
    bases: Vec<(LinearForm, Value)>,
    /// Those of the present iterations, by number of the base: each is made with its base.
    places: Vec<Value>,
}

impl Emit<'_> {
    fn at(&mut self, b: ir::Block, like: Option<ir::Inst>) -> FuncCursor<'_> {
        self.front.at(b, like)
    }

    fn int(&mut self, b: ir::Block, ty: Type, k: i64) -> Value {
        self.front.int(b, ty, k)
    }

    fn at0(&mut self, v: Value) -> Value {
        self.front.at0(v)
    }

    fn linear(&mut self, to: ir::Block, l: &LinearForm, ty: Type) -> Value {
        self.front.linear(to, l, ty)
    }

    /// How many iterations are run in lanes: a number that the loop runs through, in multiples of
    /// what is done at a time. Whether it is enough is found out first, and in as few instructions
    /// as possible, since most loops that are entered often are short.
    fn enough(&mut self, entered: &[BlockArg], header: ir::Block, least: i64) -> Value {
        let (g, c, body) = (self.g, self.c, self.body);
        let Count { ref first, step, ty, goes_on, bound } = body.count;
        let x = self.linear(g, first, ty);
        let b = match bound {
            Some(b) => self.at0(b),
            None => self.int(g, ty, 0),
        };
        let holds = (goes_on != IntCC::NotEqual).then(|| self.at(g, None).ins().icmp(goes_on, x, b));
        let (from, to) = if step > 0 { (x, b) } else { (b, x) };
        let mut n = match self.front.func.dfg.value_def(from).inst().map(|i| self.front.func.dfg.insts[i]) {
            Some(InstructionData::UnaryImm { opcode: Opcode::Iconst, imm }) if imm.bits() == 0 => to,
            _ => self.at(g, None).ins().isub(to, from),
        };
        let shift = step.unsigned_abs().trailing_zeros();
        if shift > 0 {
            let k = self.int(g, types::I32, i64::from(shift));
            n = self.at(g, None).ins().ushr(n, k);
        }
        if ty == types::I32 {
            n = self.at(g, None).ins().uextend(types::I64, n);
        }
        let least = self.int(g, types::I64, least.max(body.at_a_time()));
        let some = self.at(g, None).ins().icmp(IntCC::UnsignedGreaterThanOrEqual, n, least);
        let holds = match holds {
            Some(holds) => self.at(g, None).ins().band(holds, some),
            None => some,
        };
        self.at(g, None).ins().brif(holds, c, &[], header, entered);
        let most = match (body.widened.is_empty(), body.one) {
            (false, _) => MOST_WIDENED,
            (true, false) => MOST_ITERATIONS,
            (true, true) => MOST_ONE_BY_ONE,
        };
        let most = self.int(c, types::I64, most);
        let n = self.at(c, None).ins().umin(n, most);
        if body.at_a_time() == 1 {
            return n;
        }
        let mask = self.int(c, types::I64, -body.at_a_time());
        self.at(c, None).ins().band(n, mask)
    }

    /// Go to the vectors if no two accesses meet, or to the scalar loop.
    fn compare(&mut self, trip_count: Value, entered: &[BlockArg], header: ir::Block) {
        let (c, p, body) = (self.c, self.p, self.body);
        let step = body.step;
        let mut all: Option<Value> = None;
        let tests = body.tests.iter().map(Ok).chain(body.widened.iter().map(Err));
        for test in tests {
            let holds = match test {
                // 0 < d < 16, as one comparison.
                Ok(Test::Apart(along)) => {
                    let less = LinearForm { plus: -1, ..LinearForm::default() };
                    let d = LinearForm::default().plus_times(along, step.signum()).plus_times(&less, 1);
                    let d = self.linear(c, &d, types::I64);
                    let bound = self.int(c, types::I64, VECTOR - 1);
                    self.at(c, None).ins().icmp(IntCC::UnsignedGreaterThanOrEqual, d, bound)
                }
                // -bytes < d < (T-1)·step + width from the lowest place that is stored to.
                Ok(&Test::Aside(ref d, bytes, step, width)) => {
                    let more =
                        LinearForm { plus: bytes - 1 + if step < 0 { step } else { 0 }, ..LinearForm::default() };
                    let mut d = self.linear(c, &d.plus_times(&more, 1), types::I64);
                    let by = self.int(c, types::I64, step.abs());
                    let far = self.at(c, None).ins().imul(trip_count, by);
                    if step < 0 {
                        d = self.at(c, None).ins().iadd(d, far);
                    }
                    let more = self.int(c, types::I64, bytes - 1 + width - step.abs());
                    let bound = self.at(c, None).ins().iadd(far, more);
                    self.at(c, None).ins().icmp(IntCC::UnsignedGreaterThanOrEqual, d, bound)
                }
                Ok(&Test::Distinct(ref d, bytes, size)) => {
                    let more = LinearForm { plus: bytes - 1, ..LinearForm::default() };
                    let d = self.linear(c, &d.plus_times(&more, 1), types::I64);
                    let bound = self.int(c, types::I64, bytes - 1 + size);
                    self.at(c, None).ins().icmp(IntCC::UnsignedGreaterThanOrEqual, d, bound)
                }
                // The last iteration's is what it would be in 64 bits, so all are.
                Err(&(v, step, signed)) => {
                    let first = self.at0(v);
                    let one = self.int(c, types::I64, -1);
                    let last = self.at(c, None).ins().iadd(trip_count, one);
                    let k = self.int(c, types::I64, step);
                    let far = self.at(c, None).ins().imul(last, k);
                    let mut end = self.at(c, None).ins().iadd(first, far);
                    if signed {
                        let k = self.int(c, types::I64, 1 << 31);
                        end = self.at(c, None).ins().iadd(end, k);
                    }
                    let bound = self.int(c, types::I64, 1 << 32);
                    self.at(c, None).ins().icmp(IntCC::UnsignedLessThan, end, bound)
                }
            };
            all = Some(match all {
                Some(all) => self.at(c, None).ins().band(all, holds),
                None => holds,
            });
        }
        match all {
            Some(all) => self.at(c, None).ins().brif(all, p, &[], header, entered),
            None => self.at(c, None).ins().jump(p, &[]),
        };
    }

    /// The loop in lanes, what is before it and what is after it.
    fn vectors(&mut self, trip_count: Value, x: ir::Block, header: ir::Block) {
        let (p, v, body) = (self.p, self.v, self.body);
        let step = body.step;
        let offset = self.front.func.dfg.append_block_param(v, types::I64);
        let step_value = self.int(p, types::I64, step);
        let end = self.at(p, None).ins().imul(trip_count, step_value);
        let zero = self.int(p, types::I64, 0);
        let mut firsts: Vec<BlockArg> = vec![zero.into()];
        // Sums: one variable for one in order, one for each vector of an iteration otherwise.
        let mut sums: Vec<Vec<Value>> = Vec::new();
        let mut begin: Vec<(Value, bool)> = Vec::new();
        for (i, param) in body.params.iter().enumerate() {
            let LoopParam::Sum { split, .. } = param else { continue };
            let old = self.front.func.dfg.block_params(header)[i];
            begin.push((self.at0(old), *split));
        }
        // Every iteration reads these places, and there are some.
        let mut cells = Vec::new();
        for cell in &body.cells {
            let at = self.linear(p, &cell.at, types::I64);
            let (ty, flags) = (accessed(self.front.func, cell.load()), self.data_flags(cell.load()));
            let found = self.at(p, Some(cell.load())).ins().load(ty, flags, at, 0);
            begin.push((found, cell.split));
            cells.push((cell, at, found));
        }
        for (first, split) in begin {
            let ty = self.front.func.dfg.value_type(first);
            let (ty, first, n) = match split {
                false => (ty, first, 1),
                true => {
                    let ty = self.vector(ty);
                    (ty, self.zero(p, ty), body.vectors)
                }
            };
            sums.push((0..n).map(|_| self.front.func.dfg.append_block_param(v, ty)).collect());
            firsts.extend((0..n).map(|_| BlockArg::from(first)));
        }
        for k in 0..body.vectors {
            self.lanes.clear();
            self.iteration(k, offset, &mut sums);
        }
        let by = self.int(v, types::I64, step * self.body.at_a_time());
        let next = self.at(v, None).ins().iadd(offset, by);
        let done = self.at(v, None).ins().icmp(IntCC::Equal, next, end);
        let mut nexts: Vec<BlockArg> = vec![next.into()];
        nexts.extend(sums.iter().flatten().map(|&s| BlockArg::from(s)));
        self.at(v, None).ins().brif(done, x, &[], v, &nexts);
        // What is needed before the loop is all there.
        self.at(p, None).ins().jump(v, &firsts);

        let mut sums = sums.into_iter();
        let mut args: Vec<BlockArg> = Vec::new();
        for (i, param) in body.params.iter().enumerate() {
            let old = self.front.func.dfg.block_params(header)[i];
            let first = self.at0(old);
            let arg = match param {
                LoopParam::Fixed => first,
                LoopParam::Becomes(v) => self.at0(*v),
                LoopParam::Step(k) => {
                    let ty = self.front.func.dfg.value_type(old);
                    match *k {
                        // As far as the vectors have come.
                        k if k == step && ty == types::I64 => self.at(x, None).ins().iadd(first, end),
                        k => self.stepped(x, first, k, trip_count),
                    }
                }
                LoopParam::Sum { split, .. } => {
                    let parts = sums.next().expect("there is one for each");
                    if *split { self.total(x, first, &parts) } else { parts[0] }
                }
            };
            args.push(arg.into());
        }
        for ((cell, at, first), parts) in cells.into_iter().zip(sums) {
            let sum = if cell.split { self.total(x, first, &parts) } else { parts[0] };
            let flags = self.data_flags(cell.store);
            self.at(x, Some(cell.store)).ins().store(flags, sum, at, 0);
        }
        self.at(x, None).ins().jump(header, &args);
    }

    /// What goes in steps, so many iterations later.
    fn stepped(&mut self, x: ir::Block, first: Value, step: i64, trip_count: Value) -> Value {
        let ty = self.front.func.dfg.value_type(first);
        let n = if ty == types::I32 { self.at(x, None).ins().ireduce(ty, trip_count) } else { trip_count };
        match step {
            1 => self.at(x, None).ins().iadd(first, n),
            -1 => self.at(x, None).ins().isub(first, n),
            k => {
                let k = self.int(x, ty, k);
                let far = self.at(x, None).ins().imul(n, k);
                self.at(x, None).ins().iadd(first, far)
            }
        }
    }

    /// The loop as it is, with its cells in registers: iterations until none is left, then the
    /// cells go back to memory.
    fn one_by_one(&mut self, trip_count: Value, x: ir::Block) {
        let (p, v, body, header) = (self.p, self.v, self.body, self.l.blocks[0]);
        let left = self.front.func.dfg.append_block_param(v, types::I64);
        let mut firsts: Vec<BlockArg> = vec![trip_count.into()];
        let mut now: HashMap<Value, Value> = HashMap::default();
        for old in self.front.func.dfg.block_params(header).to_vec() {
            let ty = self.front.func.dfg.value_type(old);
            now.insert(old, self.front.func.dfg.append_block_param(v, ty));
            firsts.push(self.at0(old).into());
        }
        // Every iteration reads these places, and there are some.
        let mut cells = Vec::new();
        for cell in &body.cells {
            let at = self.linear(p, &cell.at, types::I64);
            let (ty, flags) = (accessed(self.front.func, cell.load()), self.data_flags(cell.load()));
            let first = self.at(p, Some(cell.load())).ins().load(ty, flags, at, 0);
            firsts.push(first.into());
            now.insert(self.front.func.dfg.first_result(cell.load()), self.front.func.dfg.append_block_param(v, ty));
            cells.push((cell, at));
        }
        let insts: Vec<ir::Inst> = self.l.blocks.iter().flat_map(|&b| self.front.func.layout.block_insts(b)).collect();
        let mut read: Vec<(&LinearForm, Type, Value)> = Vec::new();
        for &inst in &insts {
            let Some(at) = body.invariant.get(&inst) else { continue };
            let ty = accessed(self.front.func, inst);
            let known = read.iter().find(|r| (r.0, r.1) == (at, ty)).map(|r| r.2);
            let found = known.unwrap_or_else(|| {
                let (place, flags) = (self.linear(p, at, types::I64), self.data_flags(inst));
                self.at(p, Some(inst)).ins().load(ty, flags, place, 0)
            });
            read.push((at, ty, found));
            now.insert(self.front.func.dfg.first_result(inst), found);
        }
        let in_cells = |inst| body.cells.iter().any(|c| c.accesses.contains(&inst));
        for inst in insts {
            let is_there = in_cells(inst) || body.invariant.contains_key(&inst);
            if self.front.func.dfg.insts[inst].opcode().is_terminator() || is_there {
                continue;
            }
            let args: Vec<Value> = self.args(inst).iter().map(|a| now.get(a).copied().unwrap_or(*a)).collect();
            if self.sum_up(inst, &args, &mut now) {
                continue;
            }
            let new = self.front.copy(inst, v, args);
            let (old, new) = (self.front.func.dfg.inst_results(inst), self.front.func.dfg.inst_results(new));
            now.extend(old.iter().copied().zip(new.iter().copied()));
        }
        let next = |v: Value| BlockArg::Value(now.get(&v).copied().unwrap_or(v));
        let one = self.int(v, types::I64, -1);
        let less = self.at(v, None).ins().iadd(left, one);
        let ends: Vec<BlockArg> = body.nexts.iter().map(|&v| next(v)).collect();
        let sums: Vec<BlockArg> = cells.iter().map(|(c, _)| next(self.args(c.store)[0])).collect();
        let back_args: Vec<BlockArg> = [less.into()].into_iter().chain(ends.clone()).chain(sums.clone()).collect();
        self.at(v, None).ins().brif(less, v, &back_args, x, &[]);
        self.at(p, None).ins().jump(v, &firsts);
        for ((cell, at), sum) in cells.into_iter().zip(sums) {
            let flags = self.data_flags(cell.store);
            let sum = sum.as_value().expect("a value");
            self.at(x, Some(cell.store)).ins().store(flags, sum, at, 0);
        }
        // What goes in steps is not kept alive for this.
        let mut exit_args = ends;
        for (i, param) in body.params.iter().enumerate() {
            if let LoopParam::Step(k) = *param {
                let old = self.front.func.dfg.block_params(header)[i];
                let first = self.at0(old);
                exit_args[i] = self.stepped(x, first, k, trip_count).into();
            }
        }
        self.at(x, None).ins().jump(header, &exit_args);
    }

    /// An instruction that adds to a cell to which others of the iteration add as well: they are
    /// added to each other first, so that an iteration waits for one addition.
    fn sum_up(&mut self, inst: ir::Inst, args: &[Value], now: &mut HashMap<Value, Value>) -> bool {
        let added =
            |c: &PromotedCell| Some((c.load(), c.reduction.clone(), c.reduction.iter().position(|&i| i == inst)?));
        let Some((load, reduction, k)) = self.body.cells.iter().find_map(added) else { return false };
        let result = |e: &Self, inst| e.front.func.dfg.first_result(inst);
        let (cell, v) = (now[&result(self, load)], self.v);
        let sum = result(self, if k == 0 { load } else { reduction[k - 1] });
        let by = args[usize::from(self.args(inst)[0] == sum)];
        let mut so_far = if k == 0 { by } else { self.at(v, Some(inst)).ins().fadd(now[&sum], by) };
        if k + 1 == reduction.len() {
            so_far = self.at(v, Some(inst)).ins().fadd(cell, so_far);
        }
        now.insert(result(self, inst), so_far);
        true
    }

    /// A sum of partial sums.
    fn total(&mut self, x: ir::Block, first: Value, parts: &[Value]) -> Value {
        let mut all = parts[0];
        for &part in &parts[1..] {
            all = self.at(x, None).ins().fadd(all, part);
        }
        let n = self.body.lanes() as u8;
        let lanes: Vec<Value> = (0..n).map(|k| self.at(x, None).ins().extractlane(all, k)).collect();
        let sum = lanes[1..].iter().fold(lanes[0], |sum, &l| self.at(x, None).ins().fadd(sum, l));
        self.at(x, None).ins().fadd(first, sum)
    }

    fn vector(&self, lane: Type) -> Type {
        lane.by(self.body.lanes() as u32).expect("a vector of 16 bytes")
    }

    fn zero(&mut self, b: ir::Block, ty: Type) -> Value {
        let zeros = self.front.func.dfg.constants.insert(ir::ConstantData::from([0_u8; VECTOR as usize].as_slice()));
        self.at(b, None).ins().vconst(ty, zeros)
    }

    /// The memory accesses of some iterations, in order, what they need, and then sums.
    fn iteration(&mut self, k: i64, offset: Value, sums: &mut [Vec<Value>]) {
        let (v, step, lanes) = (self.v, self.body.step, self.body.lanes());
        // Lane 0 is at the lowest address: where it goes down, that of the last of these
        // iterations.
        let lowest = k * lanes * step + if step < 0 { (lanes - 1) * step } else { 0 };
        let body = self.body;
        for access in &body.accesses {
            let (inst, stores) = (access.inst, access.stores);
            let (at, plus) = self.place(&access.at, offset, lowest);
            let flags = self.flags(inst);
            if stores {
                let data = self.front.func.dfg.inst_args(inst)[0];
                let data = self.lane(data);
                self.at(v, Some(inst)).ins().store(flags, data, at, plus);
            } else {
                let ty = self.vector(accessed(self.front.func, inst));
                let loaded = self.at(v, Some(inst)).ins().load(ty, flags, at, plus);
                self.lanes.insert(self.front.func.dfg.first_result(inst), loaded);
            }
        }
        let reductions = body.params.iter().filter_map(|p| match p {
            LoopParam::Sum { reduction, split, .. } => Some((reduction, *split)),
            _ => None,
        });
        let reductions = reductions.chain(body.cells.iter().map(|c| (&c.reduction, c.split)));
        for ((reduction, split), sum) in reductions.zip(sums) {
            let sum = &mut sum[if split { k as usize } else { 0 }];
            if split {
                *sum = self.reduction(reduction, *sum, None);
            } else {
                for iteration in 0..lanes {
                    let lane = if step > 0 { iteration } else { lanes - 1 - iteration };
                    *sum = self.reduction(reduction, *sum, Some(lane as u8));
                }
            }
        }
    }

    /// What is done to a sum: in one lane, or in all of partial ones.
    fn reduction(&mut self, reduction: &[ir::Inst], mut sum: Value, lane: Option<u8>) -> Value {
        let v = self.v;
        for &inst in reduction {
            let args = self.args(inst);
            let mut new = Vec::with_capacity(2);
            for a in args {
                new.push(match (self.body.kinds.get(&a), lane) {
                    (Some(ValueKind::Sum(_)), _) => sum,
                    (Some(ValueKind::Lane), Some(lane)) => {
                        let all = self.lane(a);
                        self.at(v, Some(inst)).ins().extractlane(all, lane)
                    }
                    (Some(ValueKind::Invariant), Some(_)) => self.invariant(a),
                    (_, Some(_)) => self.at0(a),
                    (_, None) => self.lane(a),
                });
            }
            sum = self.arith(inst, &new);
        }
        sum
    }

    fn args(&self, inst: ir::Inst) -> Vec<Value> {
        let resolve = |&v: &Value| self.body.alias.get(&v).copied().unwrap_or(v);
        self.front.func.dfg.inst_args(inst).iter().map(resolve).collect()
    }

    /// The instruction on other operands, scalars or vectors.
    fn arith(&mut self, inst: ir::Inst, a: &[Value]) -> Value {
        let v = self.v;
        let data = self.front.func.dfg.insts[inst];
        let to = self.front.func.dfg.value_type(self.front.func.dfg.first_result(inst));
        let vector = if to.is_vector() { to } else { to.by(self.body.lanes() as u32).unwrap_or(to) };
        let mut pos = self.at(v, Some(inst));
        let i = pos.ins();
        match data.opcode() {
            Opcode::Fadd => i.fadd(a[0], a[1]),
            Opcode::Fsub => i.fsub(a[0], a[1]),
            Opcode::Fmul => i.fmul(a[0], a[1]),
            Opcode::Fdiv => i.fdiv(a[0], a[1]),
            Opcode::Sqrt => i.sqrt(a[0]),
            Opcode::Fneg => i.fneg(a[0]),
            Opcode::Fabs => i.fabs(a[0]),
            Opcode::Band => i.band(a[0], a[1]),
            Opcode::Bor => i.bor(a[0], a[1]),
            Opcode::Bxor => i.bxor(a[0], a[1]),
            Opcode::Bnot => i.bnot(a[0]),
            Opcode::Fcmp => match data {
                InstructionData::FloatCompare { cond, .. } => i.fcmp(cond, a[0], a[1]),
                _ => unreachable!("a comparison has a condition"),
            },
            // What counts of the vector is in all its lanes already.
            Opcode::ScalarToVector | Opcode::Extractlane => a[0],
            Opcode::Insertlane => a[1],
            Opcode::Bitcast => i.bitcast(vector, MemFlagsData::new().with_endianness(Endianness::Little), a[0]),
            Opcode::Select => {
                let mask = i.bitcast(vector, MemFlagsData::new().with_endianness(Endianness::Little), a[0]);
                pos.ins().bitselect(mask, a[1], a[2])
            }
            op => unreachable!("{op} is of no kind that has lanes"),
        }
    }

    /// A value of the present iterations, in lanes.
    fn lane(&mut self, v: Value) -> Value {
        let v = self.body.alias.get(&v).copied().unwrap_or(v);
        match self.body.kinds.get(&v) {
            None | Some(ValueKind::Fixed) => {
                let x = self.at0(v);
                self.splat(x)
            }
            Some(ValueKind::Invariant) => {
                let x = self.invariant(v);
                self.splat(x)
            }
            _ => {
                if let Some(&found) = self.lanes.get(&v) {
                    return found;
                }
                let inst = self.front.func.dfg.value_def(v).inst().expect("a lane is made by an instruction");
                let args = self.args(inst);
                let is_select = self.front.func.dfg.insts[inst].opcode() == Opcode::Select;
                let found = if is_select && self.body.kinds.get(&args[0]).is_none_or(|k| *k == ValueKind::Fixed) {
                    let (c, x, y) = (self.at0(args[0]), self.lane(args[1]), self.lane(args[2]));
                    self.at(self.v, Some(inst)).ins().select(c, x, y)
                } else {
                    let args: Vec<Value> = args.into_iter().map(|a| self.lane(a)).collect();
                    self.arith(inst, &args)
                };
                self.lanes.insert(v, found);
                found
            }
        }
    }

    /// A value in all lanes.
    fn splat(&mut self, x: Value) -> Value {
        if let Some(&found) = self.splats.get(&x) {
            return found;
        }
        let (p, ty) = (self.p, self.front.func.dfg.value_type(x));
        let found = if ty.is_vector() {
            x
        } else {
            let ty = self.vector(ty);
            self.at(p, None).ins().splat(ty, x)
        };
        self.splats.insert(x, found);
        found
    }

    /// What is read once.
    fn invariant(&mut self, v: Value) -> Value {
        let v = self.body.alias.get(&v).copied().unwrap_or(v);
        if let Some(&found) = self.invariants.get(&v) {
            return found;
        }
        let found = match self.body.kinds.get(&v) {
            Some(ValueKind::Invariant) => {
                let inst = self.front.func.dfg.value_def(v).inst().expect("it is made by an instruction");
                let p = self.p;
                let body = self.body;
                match body.invariant.get(&inst) {
                    None => {
                        let args: Vec<Value> = self.front.func.dfg.inst_args(inst).to_vec();
                        let args = args.into_iter().map(|a| self.invariant(a)).collect();
                        let new = self.front.copy(inst, p, args);
                        self.front.func.dfg.first_result(new)
                    }
                    Some(at) => {
                        let at = self.linear(p, at, types::I64);
                        let (ty, flags) = (self.front.func.dfg.value_type(v), self.data_flags(inst));
                        self.at(p, Some(inst)).ins().load(ty, flags, at, 0)
                    }
                }
            }
            _ => self.at0(v),
        };
        self.invariants.insert(v, found);
        found
    }

    /// The address of the lowest lane, and an offset.
    fn place(&mut self, at: &LinearForm, offset: Value, lowest: i64) -> (Value, i32) {
        let near = |k: i64| k.unsigned_abs() < 1 << 20;
        let (base, plus) =
            if near(at.plus) { (LinearForm { plus: 0, ..at.clone() }, at.plus) } else { (at.clone(), 0) };
        let k = match self.bases.iter().position(|b| b.0 == base) {
            Some(k) => k,
            None => {
                let value = self.linear(self.p, &base, types::I64);
                self.bases.push((base, value));
                self.bases.len() - 1
            }
        };
        let plus = (plus + lowest) as i32;
        let (v, base) = (self.v, self.bases[k].1);
        if let Some(&found) = self.places.get(k) {
            return (found, plus);
        }
        let found = self.at(v, None).ins().iadd(base, offset);
        self.places.push(found);
        (found, plus)
    }

    fn data_flags(&self, inst: ir::Inst) -> MemFlagsData {
        match self.front.func.dfg.insts[inst] {
            InstructionData::Load { flags, .. } | InstructionData::Store { flags, .. } => {
                self.front.func.dfg.mem_flags[flags]
            }
            _ => MemFlagsData::new(),
        }
    }

    /// The flags of a vector of such accesses.
    fn flags(&self, inst: ir::Inst) -> MemFlagsData {
        let old = self.data_flags(inst);
        of_vector(old)
    }
}

/// The flags of an access to several scalars at once: what is aligned as a scalar need not be as a
/// vector.
pub(crate) fn of_vector(scalar: MemFlagsData) -> MemFlagsData {
    MemFlagsData::new().with_trap_code(scalar.trap_code()).with_alias_region(scalar.alias_region())
}
