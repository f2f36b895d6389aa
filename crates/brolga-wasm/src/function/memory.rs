//! Accesses of linear memory, globals and tables.
//!
//! **Question.** Which CLIF accesses does an operator on memory become, and which checks come
//! before them?
//!
//! **Answer.** All addresses are sums of `vmctx`, so all have its shadow delta. An access of memory
//! needs no comparison: what lies outside hits the guard ([`crate::layout`]), unless
//! [checks](Bounds::Checked) are asked for. Bulk operators check their ranges first and then call
//! C's `memmove`, `memcpy` and `memset`, which have rules; Wasm wants a trap before anything is
//! written.
//!
//! ```text
//! f64.load offset=8        v3 = uextend.i64 v2        ;; v2: the address, of 32 bits
//!                          v4 = iadd v0, v3           ;; v0: vmctx
//!                          v5 = load.f64 v4+8
//! ```
//!
//! **Cost.** An extension and a sum for each access, and a comparison with the size where it is
//! checked.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, TrapCode, Type, Value, types};
use wasmparser::{MemArg, MemArgTarget, Operator};

use super::env::{Bounds, Helper, clif_type, named};
use super::func::Fx;
use super::ops::little;
use crate::error::{Error, trap};
use crate::layout::{FIRST_STACK, MAX_PAGES, PAGE};

/// Accesses of the header: always there, always aligned.
pub(crate) fn header() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Accesses of the header's cells; those that the module does not change say so, and can be read
/// again at any time.
fn fixed(changes: bool) -> MemFlagsData {
    if changes { header() } else { header().with_readonly() }
}

/// The memory that an operator means.
fn memory_of(m: &MemArg) -> u32 {
    match m.target {
        MemArgTarget::Memory(i) => i,
        MemArgTarget::Array(_) => unreachable!("validated without the GC proposal"),
    }
}

/// Flags of an access. Integers that may be doubles' bits say whether they lie at multiples of
/// eight ([`Program::unaligned_doubles`](brolga::Program::unaligned_doubles)).
fn words(m: &MemArg, ty: Type) -> MemFlagsData {
    let says = ty.bytes() >= 8 && !ty.is_float();
    if says && m.align >= 3 { little().with_aligned() } else { little() }
}

impl Fx<'_, '_, '_, '_> {
    /// The constant that a value is.
    pub(crate) fn constant(&self, v: Value) -> Option<u64> {
        let inst = self.b.func.dfg.value_def(v).inst()?;
        match self.b.func.dfg.insts[inst] {
            ir::InstructionData::UnaryImm { opcode: ir::Opcode::Iconst, imm } => Some(imm.bits() as u32 as u64),
            _ => None,
        }
    }

    /// A 32-bit number as 64 bits.
    pub(crate) fn wide(&mut self, v: Value) -> Value {
        match self.constant(v) {
            Some(c) => self.b.ins().iconst(types::I64, c as i64),
            None => self.b.ins().uextend(types::I64, v),
        }
    }

    /// `vmctx` plus a constant.
    pub(crate) fn at(&mut self, offset: i64) -> Value {
        if offset == 0 { self.vmctx } else { self.b.ins().iadd_imm_s(self.vmctx, offset) }
    }

    /// Trap unless `start + length <= size`, all of 64 bits; neither is near the end of its range.
    fn check(&mut self, start: Value, length: Value, size: Value, code: TrapCode) {
        let end = self.b.ins().iadd(start, length);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, size);
        self.b.ins().trapnz(outside, code);
    }

    /// Trap unless a range lies in a memory: below its size, or where tasks have their stacks.
    fn check_memory(&mut self, memory: u32, start: Value, length: Value) {
        let size = self.memory_size(memory);
        if memory != 0 || !self.env.layout.stacks {
            return self.check(start, length, size, TrapCode::HEAP_OUT_OF_BOUNDS);
        }
        let end = self.b.ins().iadd(start, length);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, size);
        let [first, last] = [FIRST_STACK, MAX_PAGES * PAGE].map(|at| self.b.ins().iconst(types::I64, at as i64));
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, start, first);
        let above = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, last);
        let no_stack = self.b.ins().bor(below, above);
        let outside = self.b.ins().band(outside, no_stack);
        self.b.ins().trapnz(outside, TrapCode::HEAP_OUT_OF_BOUNDS);
    }

    pub(crate) fn memory_size(&mut self, memory: u32) -> Value {
        let offset = self.env.layout.memory_size[memory as usize];
        let grows = self.env.info.mutates.memories.contains(&memory);
        self.b.ins().load(types::I64, fixed(grows), self.vmctx, offset)
    }

    /// Address and offset of an access of `bytes` bytes.
    pub(crate) fn address(&mut self, m: &MemArg, bytes: u64) -> (Value, i32) {
        let memory = memory_of(m);
        let v = self.pop();
        let constant = self.constant(v);
        if self.env.mode.bounds == Bounds::Checked {
            let start = self.wide(v);
            let length = self.b.ins().iconst(types::I64, (m.offset + bytes) as i64);
            self.check_memory(memory, start, length);
        }
        let base = self.env.layout.memory(memory);
        match constant {
            Some(c) => self.place(None, base + c + m.offset),
            None => {
                let index = self.wide(v);
                self.place(Some(index), base + m.offset)
            }
        }
    }

    /// `vmctx + index + offset`, as an address and a 32-bit offset.
    fn place(&mut self, index: Option<Value>, offset: u64) -> (Value, i32) {
        let base = index.map_or(self.vmctx, |i| self.b.ins().iadd(self.vmctx, i));
        match i32::try_from(offset) {
            Ok(offset) => (base, offset),
            Err(_) => (self.b.ins().iadd_imm_s(base, offset as i64), 0),
        }
    }

    fn load(&mut self, m: &MemArg, ty: Type) -> bool {
        let (p, off) = self.address(m, ty.bytes().into());
        let v = self.b.ins().load(ty, words(m, ty), p, off);
        self.push(v);
        true
    }

    fn store(&mut self, m: &MemArg) -> bool {
        let v = self.pop();
        let ty = self.b.func.dfg.value_type(v);
        let (p, off) = self.address(m, ty.bytes().into());
        self.b.ins().store(words(m, ty), v, p, off);
        true
    }

    /// A double of a packed record is accessed with less than its own alignment.
    fn double_at(&mut self, m: &MemArg) {
        self.env.program.unaligned_doubles |= m.align < 3;
    }

    /// Check a range of memory and give its address.
    pub(crate) fn range(&mut self, memory: u32, start: Value, length: Value) -> Value {
        let (start, length) = (self.wide(start), self.wide(length));
        self.check_memory(memory, start, length);
        let base = self.at(self.env.layout.memory(memory) as i64);
        self.b.ins().iadd(base, start)
    }

    /// Call a C function of three words that returns the first.
    pub(crate) fn call_c(&mut self, symbol: &str, second: Type, args: [Value; 3]) {
        let callee = self.callee(symbol, |fx| {
            let mut sig = Signature::new(fx.env.config.default_call_conv);
            sig.params.extend([types::I64, second, types::I64].map(ir::AbiParam::new));
            sig.returns.push(ir::AbiParam::new(types::I64));
            sig
        });
        self.b.ins().call(callee, &args);
    }

    pub(crate) fn table_len(&mut self, table: u32) -> Value {
        let offset = self.env.layout.table_size[table as usize];
        let flags = fixed(self.changes(table));
        self.b.ins().load(types::I32, flags, self.vmctx, offset)
    }

    /// The address of a table's entry, which exists.
    fn entry_address(&mut self, table: u32, at: Value) -> Value {
        let at = self.wide(at);
        let scaled = self.b.ins().ishl_imm_u(at, 2);
        let base = self.at(self.env.layout.tables[table as usize].into());
        self.b.ins().iadd(base, scaled)
    }

    fn checked_entry(&mut self, table: u32, at: Value) -> Value {
        let len = self.table_len(table);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, len);
        self.b.ins().trapnz(outside, trap::TABLE_OOB);
        self.entry_address(table, at)
    }

    /// The reference in a table.
    pub(crate) fn table_entry(&mut self, table: u32, at: Value) -> Value {
        let p = self.checked_entry(table, at);
        let flags = fixed(self.changes(table));
        self.b.ins().load(types::I32, flags, p, 0)
    }

    /// Whether code of the module changes a table. The host does not while it runs.
    fn changes(&self, table: u32) -> bool {
        self.env.info.mutates.tables.contains(&table)
    }

    /// Check a range of a table and give its address and its length in bytes.
    fn table_range(&mut self, table: u32, start: Value, length: Value) -> (Value, Value) {
        let len = self.table_len(table);
        let size = self.wide(len);
        let (s, n) = (self.wide(start), self.wide(length));
        self.check(s, n, size, trap::TABLE_OOB);
        let bytes = self.b.ins().ishl_imm_u(n, 2);
        (self.entry_address(table, start), bytes)
    }

    /// What is left of a segment of `len` elements: nothing, once it is dropped.
    fn segment_size(&mut self, dropped: i32, len: usize) -> Value {
        let dropped = self.b.ins().load(types::I32, header(), self.vmctx, dropped);
        let (none, all) = (self.b.ins().iconst(types::I64, 0), self.b.ins().iconst(types::I64, len as i64));
        self.b.ins().select(dropped, none, all)
    }

    /// The address of a data object.
    fn data_address(&mut self, symbol: &str) -> Value {
        let gv = self.b.create_global_value(ir::GlobalValueData::Symbol {
            name: named(symbol),
            offset: 0.into(),
            colocated: false,
            tls: false,
        });
        self.b.ins().symbol_value(types::I64, gv)
    }

    fn drop_segment(&mut self, cell: i32) {
        let one = self.b.ins().iconst(types::I32, 1);
        self.b.ins().store(header(), one, self.vmctx, cell);
    }

    /// One unit of fuel less; a trap if there is none.
    pub(crate) fn spend_fuel(&mut self) {
        if !self.env.mode.fuel {
            return;
        }
        let cell = self.env.layout.fuel;
        let left = self.b.ins().load(types::I64, header(), self.vmctx, cell);
        self.b.ins().trapz(left, trap::NO_FUEL);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.ins().store(header(), left, self.vmctx, cell);
    }

    /// Translate an operator on memory, globals or tables; whether it is one.
    pub(crate) fn memory_or_table(&mut self, op: &Operator<'_>) -> Result<bool, Error> {
        use Operator as O;
        macro_rules! load {
            ($m:expr, $op:ident, $bytes:literal $(, $ty:expr)?) => {{
                let (p, off) = self.address($m, $bytes);
                let v = self.b.ins().$op($($ty,)? little(), p, off);
                self.push(v);
                true
            }};
        }
        macro_rules! store {
            ($m:expr, $op:ident, $bytes:literal) => {{
                let v = self.pop();
                let (p, off) = self.address($m, $bytes);
                self.b.ins().$op(little(), v, p, off);
                true
            }};
        }
        Ok(match op {
            O::I32Load { memarg } => self.load(memarg, types::I32),
            O::I64Load { memarg } => self.load(memarg, types::I64),
            O::F32Load { memarg } => self.load(memarg, types::F32),
            O::F64Load { memarg } => {
                self.double_at(memarg);
                self.load(memarg, types::F64)
            }
            O::V128Load { memarg } => self.load(memarg, types::I8X16),
            O::I32Load8S { memarg } => load!(memarg, sload8, 1, types::I32),
            O::I32Load8U { memarg } => load!(memarg, uload8, 1, types::I32),
            O::I32Load16S { memarg } => load!(memarg, sload16, 2, types::I32),
            O::I32Load16U { memarg } => load!(memarg, uload16, 2, types::I32),
            O::I64Load8S { memarg } => load!(memarg, sload8, 1, types::I64),
            O::I64Load8U { memarg } => load!(memarg, uload8, 1, types::I64),
            O::I64Load16S { memarg } => load!(memarg, sload16, 2, types::I64),
            O::I64Load16U { memarg } => load!(memarg, uload16, 2, types::I64),
            O::I64Load32S { memarg } => load!(memarg, sload32, 4),
            O::I64Load32U { memarg } => load!(memarg, uload32, 4),
            O::F64Store { memarg } => {
                self.double_at(memarg);
                self.store(memarg)
            }
            O::I32Store { memarg } | O::I64Store { memarg } | O::F32Store { memarg } | O::V128Store { memarg } => {
                self.store(memarg)
            }
            O::I32Store8 { memarg } | O::I64Store8 { memarg } => store!(memarg, istore8, 1),
            O::I32Store16 { memarg } | O::I64Store16 { memarg } => store!(memarg, istore16, 2),
            O::I64Store32 { memarg } => store!(memarg, istore32, 4),
            _ => return Ok(self.size_or_bulk(op) || self.global(op) || self.reference_or_table(op)?),
        })
    }

    /// Translate an operator on a whole memory; whether it is one.
    fn size_or_bulk(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::MemorySize { mem } => {
                let size = self.memory_size(*mem);
                let pages = self.b.ins().ushr_imm_u(size, 16);
                let pages = self.b.ins().ireduce(types::I32, pages);
                self.push(pages);
            }
            O::MemoryGrow { mem } => {
                let pages = self.pop();
                let old = self.call_helper(Helper::MemoryGrow(*mem), &[pages]);
                self.stack.extend(old);
            }
            O::MemoryCopy { dst_mem, src_mem } => {
                let (d, s, n) = self.pop3();
                let to = self.range(*dst_mem, d, n);
                let from = self.range(*src_mem, s, n);
                let n = self.wide(n);
                self.call_c("memmove", types::I64, [to, from, n]);
            }
            O::MemoryFill { mem } => {
                let (d, byte, n) = self.pop3();
                let to = self.range(*mem, d, n);
                let n = self.wide(n);
                self.call_c("memset", types::I32, [to, byte, n]);
            }
            O::MemoryInit { data_index, mem } => {
                let (d, s, n) = self.pop3();
                let (cell, len) = (
                    self.env.layout.data_dropped[*data_index as usize],
                    self.env.info.data[*data_index as usize].bytes.len(),
                );
                let size = self.segment_size(cell, len);
                let (from, length) = (self.wide(s), self.wide(n));
                self.check(from, length, size, TrapCode::HEAP_OUT_OF_BOUNDS);
                let to = self.range(*mem, d, n);
                let data = self.data_address(&format!("data{data_index}"));
                let from = self.b.ins().iadd(data, from);
                self.call_c("memcpy", types::I64, [to, from, length]);
            }
            O::DataDrop { data_index } => {
                self.drop_segment(self.env.layout.data_dropped[*data_index as usize]);
            }
            _ => return false,
        }
        true
    }

    /// Translate an operator on a global; whether it is one.
    fn global(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        match op {
            O::GlobalGet { global_index } if self.is_task_stack_pointer(*global_index) => {
                let v = self.stack_pointer();
                self.push(v);
            }
            O::GlobalSet { global_index } if self.is_task_stack_pointer(*global_index) => {
                let v = self.pop();
                self.set_stack_pointer(v);
            }
            O::GlobalGet { global_index } => {
                let g = &self.env.info.globals[*global_index as usize];
                let ty = clif_type(g.ty.content_type);
                let cell = self.env.layout.globals[*global_index as usize];
                let literal = g.init.as_ref().filter(|_| !g.ty.mutable).and_then(|i| i.literal());
                let v = match (literal, ty) {
                    (Some(bits), types::I32) => self.b.ins().iconst(ty, i64::from(bits as u32)),
                    (Some(bits), types::I64) => self.b.ins().iconst(ty, bits as i64),
                    (Some(bits), types::F64) => self.b.ins().f64const(ir::immediates::Ieee64::with_bits(bits as u64)),
                    (Some(bits), types::F32) => self.b.ins().f32const(ir::immediates::Ieee32::with_bits(bits as u32)),
                    _ => {
                        let flags = self.global_flags(*global_index);
                        self.b.ins().load(ty, flags, self.vmctx, cell)
                    }
                };
                self.push(v);
            }
            O::GlobalSet { global_index } => {
                self.sets_globals |= Some(*global_index) != self.env.info.stack_pointer();
                let v = self.pop();
                let cell = self.env.layout.globals[*global_index as usize];
                let flags = self.global_flags(*global_index);
                self.b.ins().store(flags, v, self.vmctx, cell);
            }
            _ => return false,
        }
        true
    }

    /// Flags of accesses to a global. How far C's stack reaches is no bits of a float.
    fn global_flags(&mut self, global: u32) -> MemFlagsData {
        if self.env.info.named_stack_pointer() == Some(global) {
            return self.integer().with_notrap().with_aligned();
        }
        header().with_endianness(ir::Endianness::Little)
    }

    /// Translate an operator on references or a table; whether it is one.
    fn reference_or_table(&mut self, op: &Operator<'_>) -> Result<bool, Error> {
        use Operator as O;
        match op {
            O::RefNull { .. } => {
                let v = self.b.ins().iconst(types::I32, 0);
                self.push(v);
            }
            O::RefIsNull => {
                let v = self.pop();
                let zero = self.b.ins().iconst(types::I32, 0);
                let c = self.b.ins().icmp(IntCC::Equal, v, zero);
                let c = self.truth(c);
                self.push(c);
            }
            O::RefFunc { function_index } => {
                let n = self.env.reference(*function_index);
                let v = self.b.ins().iconst(types::I32, i64::from(n));
                self.push(v);
            }
            O::TableSize { table } => {
                let n = self.table_len(*table);
                self.push(n);
            }
            O::TableGet { table } => {
                let at = self.pop();
                let v = self.table_entry(*table, at);
                self.push(v);
            }
            O::TableSet { table } => {
                let (at, v) = self.pop2();
                let p = self.checked_entry(*table, at);
                self.b.ins().store(header(), v, p, 0);
            }
            O::TableGrow { table } => {
                let (v, n) = self.pop2();
                let old = self.call_helper(Helper::TableGrow(*table), &[v, n]);
                self.stack.extend(old);
            }
            O::TableFill { table } => {
                let (at, v, n) = self.pop3();
                self.table_range(*table, at, n);
                self.call_helper(Helper::TableFill(*table), &[at, v, n]);
            }
            O::TableCopy { dst_table, src_table } => {
                let (d, s, n) = self.pop3();
                let (to, bytes) = self.table_range(*dst_table, d, n);
                let (from, _) = self.table_range(*src_table, s, n);
                self.call_c("memmove", types::I64, [to, from, bytes]);
            }
            O::TableInit { elem_index, table } => {
                let (d, s, n) = self.pop3();
                let (cell, len) = (
                    self.env.layout.elem_dropped[*elem_index as usize],
                    self.env.info.elems[*elem_index as usize].items.len(),
                );
                let size = self.segment_size(cell, len);
                let (from, length) = (self.wide(s), self.wide(n));
                self.check(from, length, size, trap::TABLE_OOB);
                let (to, bytes) = self.table_range(*table, d, n);
                self.env.use_elem(*elem_index, self.offset)?;
                let segment = self.data_address(&format!("elem{elem_index}"));
                let from = self.b.ins().ishl_imm_u(from, 2);
                let from = self.b.ins().iadd(segment, from);
                self.call_c("memcpy", types::I64, [to, from, bytes]);
            }
            O::ElemDrop { elem_index } => {
                self.drop_segment(self.env.layout.elem_dropped[*elem_index as usize]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The helper's view of an entry's address.
pub(crate) fn entry_of(fx: &mut Fx<'_, '_, '_, '_>, table: u32, at: Value) -> Value {
    fx.entry_address(table, at)
}
