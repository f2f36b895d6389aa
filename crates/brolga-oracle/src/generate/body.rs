//! Body of a random function: where instructions go, which values they may use, and what happens
//! next.
//!
//! **Question.** A random function is built statement by statement. Which statement comes next, and
//! of what is it made?
//!
//! **Answer.** A [`Body`] has the function, the block to which instructions are appended
//! ([`Body::at_end`]), and the values that dominate its end (`scope`). `statement` draws by weights
//! among what the program's features allow, until no statements are left; [`Body::finish`] returns
//! sums of numbers, so that more of what was computed counts, or calls in tail position.
//! [`Body::pick`] gives a value of a kind, rather a recent one, or makes one: from values of other
//! kinds, from constants, from stack slots, which are filled at the function's entry
//! ([`Body::slot`]).
//!
//! **Invariant.** All that is in scope dominates the end of the current block. What is stored,
//! passed or returned is small ([`Body::pick_tame`]).
//!
//! **Cost.** Linear in the number of statements, but for the walk over the scope at each pick.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    Block, BlockArg, Function, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, UserFuncName, Value,
    types,
};

use super::feature::Feature;
use super::kind::{FloatElem, GenVal, Kind, TAME};
use super::sketch::{BUFFER, Outline, Role, Sketch};
use super::source::Source;

/// A function under construction.
pub(super) struct Body<'a> {
    /// Decisions.
    pub source: &'a mut Source,
    /// The program.
    pub sketch: &'a Sketch,
    /// Which of its functions this is.
    pub index: usize,
    /// What there is of it.
    pub func: Function,
    /// The block that instructions are appended to.
    pub block: Block,
    /// Values that dominate the end of that block, oldest first.
    pub scope: Vec<GenVal>,
    /// Statements that may still be made.
    pub statements: usize,
    /// Regions around the current one.
    pub nesting: usize,
    /// Calls that are left of those that could multiply the running time.
    pub recursive_calls: usize,
    /// What stack slots hold.
    pub slots: Vec<(StackSlot, Kind)>,
    entry: Block,
}

impl<'a> Body<'a> {
    /// Build function `index` of the sketch.
    pub(super) fn build(source: &'a mut Source, sketch: &'a Sketch, index: usize) -> Function {
        let outline = &sketch.functions[index];
        let name = UserFuncName::testcase(&outline.name);
        let mut func = Function::with_name_signature(name, outline.signature());
        let entry = func.dfg.make_block();
        func.layout.append_block(entry);
        let mut scope = Vec::new();
        for &kind in &outline.params {
            let mut val = GenVal::new(func.dfg.append_block_param(entry, kind.ty()), kind);
            if index == 0 {
                val.room = BUFFER - super::kind::WINDOW;
            }
            scope.push(val);
        }
        let mut body = Body {
            source,
            sketch,
            index,
            func,
            block: entry,
            scope,
            statements: outline.statements,
            nesting: 0,
            recursive_calls: 2,
            slots: Vec::new(),
            entry,
        };
        body.run();
        if body.source.chance(10) {
            body.lay_out_backwards();
        }
        body.func
    }

    /// All blocks but the entry in the opposite order, so that uses come before definitions.
    fn lay_out_backwards(&mut self) {
        let layout = &mut self.func.layout;
        let blocks: Vec<Block> = layout.blocks().skip(1).collect();
        for block in blocks {
            let insts: Vec<_> = layout.block_insts(block).collect();
            layout.remove_block_and_insts(block);
            layout.insert_block_after(block, self.entry);
            insts.into_iter().for_each(|i| layout.append_inst(i, block));
        }
    }

    /// The function's sketch.
    pub(super) fn outline(&self) -> &'a Outline {
        &self.sketch.functions[self.index]
    }

    /// Whether the program may use `feature`.
    pub(super) fn has(&self, feature: Feature) -> bool {
        self.sketch.has(feature)
    }

    fn run(&mut self) {
        if self.outline().role == Role::Recursive {
            self.return_if_shallow();
        }
        while self.statements > 0 {
            self.statement();
        }
        self.finish();
    }

    /// A few statements, fewer the deeper we are.
    pub(super) fn some_statements(&mut self) {
        let n = self.source.between(1, 5 - self.nesting.min(3));
        for _ in 0..n {
            if self.statements > 0 {
                self.statement();
            }
        }
    }

    /// A statement without control flow.
    pub(super) fn some_simple_statement(&mut self) {
        match self.source.below(3) {
            0 => self.float_statement(),
            1 => self.memory_statement(),
            _ => self.int_statement(),
        }
    }

    /// One statement, simple or not.
    fn statement(&mut self) {
        self.statements -= 1;
        let yes = |c: bool, weight: usize| if c { weight } else { 0 };
        let nested = self.nesting < 3;
        let weights = [
            (20, Self::float_statement as fn(&mut Self)),
            (4, Self::int_statement),
            (yes(self.has(Feature::Vectors), 10), Self::vector_statement),
            (yes(self.has(Feature::Memory), 18), Self::memory_statement),
            (yes(self.has(Feature::MemoryCalls) && self.has(Feature::Memory), 3), Self::memory_call),
            (yes(self.has(Feature::Bits), 9), Self::bits_statement),
            (yes(self.has(Feature::Lists) && self.has(Feature::Memory), 3), Self::list_statement),
            (yes(self.has(Feature::Scratch) && self.has(Feature::Memory), 8), Self::scratch_statement),
            (yes(self.has(Feature::Atomics) && self.has(Feature::Memory), 5), Self::atomic_statement),
            (yes(self.has(Feature::Pointers) && self.has(Feature::Memory), 8), Self::pointer_statement),
            (yes(nested && self.has(Feature::Branches), 5), Self::branch_statement),
            (yes(nested && self.has(Feature::Branches), 2), Self::switch_statement),
            (yes(nested && self.has(Feature::Loops), 6), Self::loop_statement),
            (yes(self.nesting < 2 && self.has(Feature::Graphs), 2), Self::graph_statement),
            (yes(self.can_call(), 7), Self::call_statement),
            (yes(self.has(Feature::Indirect) && self.can_call(), 4), Self::indirect_statement),
            (1, Self::check_statement),
        ];
        self.source.weighted(&weights)(self);
    }

    /// The place for the next instruction.
    pub(super) fn at_end(&mut self) -> FuncCursor<'_> {
        FuncCursor::new(&mut self.func).at_bottom(self.block)
    }

    /// Continue in a block that is new to the layout.
    pub(super) fn switch_to(&mut self, block: Block) {
        self.func.layout.append_block(block);
        self.block = block;
    }

    /// A block with parameters of these kinds, which is not in the layout yet.
    pub(super) fn make_block(&mut self, kinds: &[Kind]) -> (Block, Vec<GenVal>) {
        let block = self.func.dfg.make_block();
        let params = kinds.iter().map(|&k| GenVal::new(self.func.dfg.append_block_param(block, k.ty()), k)).collect();
        (block, params)
    }

    /// Arguments for parameters of these kinds.
    pub(super) fn block_args(&mut self, kinds: &[Kind]) -> Vec<BlockArg> {
        kinds.iter().map(|&k| BlockArg::Value(self.pick_tame(k))).collect()
    }

    /// Let later instructions use a value.
    pub(super) fn keep(&mut self, value: Value, kind: Kind, bound: f64) -> GenVal {
        let val = GenVal { value, kind, bound, room: 0 };
        self.scope.push(val);
        val
    }

    /// A value of this kind, rather a recent one; made now if there is none.
    pub(super) fn pick(&mut self, kind: Kind) -> GenVal {
        let fits = |v: &GenVal| v.kind == kind || matches!((kind, v.kind), (Kind::ReadPtr(a), Kind::Ptr(b)) if a == b);
        let found: Vec<GenVal> = self.scope.iter().copied().filter(fits).collect();
        if found.is_empty() || self.source.chance(4) {
            return self.make(kind);
        }
        if self.source.chance(60) {
            let recent = &found[found.len().saturating_sub(4)..];
            return recent[self.source.below(recent.len())];
        }
        found[self.source.below(found.len())]
    }

    /// Another value of this kind: not `x`, if there is a choice.
    pub(super) fn pick_beside(&mut self, x: GenVal) -> GenVal {
        let y = self.pick(x.kind);
        if y.value == x.value { self.pick(x.kind) } else { y }
    }

    /// A value that may be stored, passed or returned: numbers are scaled down if necessary.
    pub(super) fn pick_tame(&mut self, kind: Kind) -> Value {
        let val = self.pick(kind);
        self.tame(val).value
    }

    /// A value of this kind from values of other kinds, or from nothing.
    fn make(&mut self, kind: Kind) -> GenVal {
        match kind {
            k if k.is_float() && self.source.chance(70) => self.make_float(k),
            k if k.is_float() => {
                let x = self.source.number();
                GenVal { value: self.constant(k, x), kind, bound: 2.0, room: 0 }
            }
            Kind::I8 | Kind::I32 | Kind::I64 => {
                let n = self.source.below(6) as i64;
                let value = self.at_end().ins().iconst(kind.ty(), n);
                self.keep(value, kind, TAME)
            }
            Kind::Bits(b) => self.make_bits(b),
            Kind::Ptr(elem) | Kind::ReadPtr(elem) => {
                let found = if self.source.chance(40) { self.global(kind) } else { None };
                found.unwrap_or_else(|| self.slot_pointer(elem))
            }
            Kind::Table(elem) => {
                let slot = self.slot(Kind::Ptr(elem));
                let value = self.at_end().ins().stack_addr(types::I64, slot, 0);
                self.keep(value, kind, TAME)
            }
            Kind::Code(group) => self.make_code(group),
            _ => unreachable!("all kinds of floats are handled above"),
        }
    }

    /// A stack slot that holds values of this kind, filled at the function's entry.
    pub(super) fn slot(&mut self, kind: Kind) -> StackSlot {
        let known: Vec<StackSlot> = self.slots.iter().filter(|(_, k)| *k == kind).map(|(s, _)| *s).collect();
        if !known.is_empty() && (known.len() > 1 || self.source.chance(60)) {
            return self.source.choose(&known);
        }
        let size = kind.ty().bytes() * BUFFER as u32;
        let slot = self.func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
        self.slots.push((slot, kind));
        let zero = self.source.chance(30);
        let params = self.func.dfg.block_params(self.entry).to_vec();
        let params: Vec<Value> =
            params.into_iter().zip(&self.outline().params).filter(|(_, k)| **k == kind).map(|(v, _)| v).collect();
        let contents: Vec<Result<Value, f64>> = (0..BUFFER)
            .map(|_| match params.len() {
                _ if zero => Err(0.0),
                n if n > 0 && self.source.chance(40) => Ok(params[self.source.below(n)]),
                _ => Err(self.source.number()),
            })
            .collect();
        // A pointer slot is filled with the address of a slot of numbers, which has to be there
        // first.
        let target = match kind {
            Kind::Ptr(elem) => Some(self.slot(elem.scalar())),
            _ => None,
        };
        let mut at = FuncCursor::new(&mut self.func).at_first_insertion_point(self.entry);
        let address = at.ins().stack_addr(types::I64, slot, 0);
        let flags = MemFlagsData::new();
        for (i, content) in contents.into_iter().enumerate() {
            let value = match (kind, content) {
                (_, Ok(param)) => param,
                (Kind::F32, Err(x)) => at.ins().f32const(x as f32),
                (Kind::F64, Err(x)) => at.ins().f64const(x),
                (Kind::I32, Err(_)) => at.ins().iconst(types::I32, 1),
                _ => at.ins().stack_addr(types::I64, target.expect("only these are asked for"), 0),
            };
            at.ins().store(flags, value, address, i as i32 * kind.ty().bytes() as i32);
        }
        slot
    }

    /// A pointer to a stack slot of numbers.
    fn slot_pointer(&mut self, elem: FloatElem) -> GenVal {
        let slot = self.slot(elem.scalar());
        let offset = self.source.weighted(&[(3, 0), (1, 2), (1, 4)]);
        let value = self.at_end().ins().stack_addr(types::I64, slot, offset * elem.bytes() as i32);
        let val = GenVal { room: super::kind::WINDOW - i64::from(offset), ..GenVal::new(value, Kind::Ptr(elem)) };
        self.scope.push(val);
        val
    }

    /// Return, or call another function in tail position.
    pub(super) fn finish(&mut self) {
        if self.source.chance(30) && self.tail_call() {
            return;
        }
        let values: Vec<Value> = self.outline().returns.iter().map(|&k| self.result(k)).collect();
        self.at_end().ins().return_(&values);
    }

    /// Something to return. Numbers are sums, so that more of what was computed counts.
    fn result(&mut self, kind: Kind) -> Value {
        if !kind.is_float() {
            return self.pick_tame(kind);
        }
        let mut sum = self.pick(kind);
        for _ in 0..self.source.below(4) {
            let next = self.pick(kind);
            let value = self.at_end().ins().fadd(sum.value, next.value);
            sum = GenVal { value, bound: sum.bound + next.bound, ..sum };
        }
        self.tame(sum).value
    }
}
