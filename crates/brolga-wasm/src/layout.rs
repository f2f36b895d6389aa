//! Layout of an instance: where memories, globals and tables lie in its address space.
//!
//! **Question.** At what distance is the shadow of a byte, and how does an access stay within its
//! memory without a comparison?
//!
//! **Answer.** An instance is one stretch of address space, and its shadow another one, laid out
//! alike, at a constant distance. So one number, the shadow delta of the instance pointer, leads to
//! the shadow of every byte: of linear memory, of globals, of tables. The instance pointer
//! (`vmctx`, the first parameter of every translated function) is the address of byte 0 of memory
//! 0; what the instance needs beside its memories lies before it:
//!
//! ```text
//!        header                        memory 0        guard   memory 1   guard
//!  ┌────────────────────────────────┬───────────────┬─────────┬──────────┬──────┐
//!  │ tables, segments, globals, …   │ 4 GiB         │ 4 GiB + │ 4 GiB    │      │
//!  └────────────────────────────────┴───────────────┴─────────┴──────────┴──────┘
//!                                   ▲
//!                                 vmctx
//! ```
//!
//! Wasm address `a` of memory 0 is `vmctx + a`, and `memory.grow` moves nothing: it makes pages of
//! the reservation accessible. A 32-bit address and a 32-bit offset stay below 8 GiB, so every
//! access of memory 0 hits accessible pages or the guard, and no comparison is needed. Memory whose
//! pages may not be accessed costs no memory.
//!
//! In a module that forks, the last bytes of the 4 GiB are stacks of C for tasks ([`STACKS`]), to
//! which memory never grows.
//!
//! **Cost.** One addition for each place when a module is loaded. An instance reserves 8 GiB of
//! address space for each memory, and as much for its shadow.
//!
//! **Source.** Wasmtime, for guards in place of comparisons.

use brolga_ir::program::{InstanceMemory, MemoryPlace};

use crate::parse::Info;
use wasmparser::ValType;

/// Bytes of a Wasm page.
pub(crate) const PAGE: u64 = 65536;

/// From the start of a memory to what follows it: an address, an offset, and the widest access.
pub(crate) const MEMORY_SPAN: u64 = (8 << 30) + PAGE;

/// Most pages of a memory.
pub(crate) const MAX_PAGES: u64 = 65536;

/// How many tasks have a stack of C of their own at a time: as many as have a strand.
pub(crate) const STACKS: u64 = 256;

/// Bytes of such a stack, a power of two.
pub(crate) const STACK: u64 = 256 << 10;

/// Where they begin, as an address of memory 0.
pub(crate) const FIRST_STACK: u64 = MAX_PAGES * PAGE - STACKS * STACK;

/// Most entries that a table without a maximum may get.
const TABLE_CAPACITY: u64 = 1 << 16;

/// Most entries of all tables together.
const MOST_ENTRIES: u64 = 1 << 26;

/// Offsets from `vmctx` of what lies before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// What the host keeps of this instance: a pointer.
    pub host: i32,
    /// Remaining fuel.
    pub fuel: i32,
    /// Size of each memory in bytes.
    pub memory_size: Vec<i32>,
    /// Most bytes of each memory.
    pub memory_max: Vec<u64>,
    /// Each global, aligned to 16 bytes.
    pub globals: Vec<i32>,
    /// Number of entries of each table, 32 bits.
    pub table_size: Vec<i32>,
    /// First entry of each table; entries have 32 bits.
    pub tables: Vec<i32>,
    /// Most entries of each table.
    pub table_max: Vec<u32>,
    /// Whether each element segment is dropped (1), 32 bits.
    pub elem_dropped: Vec<i32>,
    /// Whether each data segment is dropped (1), 32 bits.
    pub data_dropped: Vec<i32>,
    /// How many threads a team of OpenMP has, 32 bits, if not as many as it has by default.
    pub threads: i32,
    /// The same, for the next team only.
    pub next_threads: i32,
    /// Whether tasks have stacks of their own, after all that memory may grow to.
    pub stacks: bool,
    /// Bytes before `vmctx`, a multiple of the page size.
    pub header: u64,
}

impl Layout {
    /// Lay out an instance of a module, which may fork; an error is a sentence about a table that
    /// is too large.
    pub(crate) fn new(info: &Info<'_>, stacks: bool) -> Result<Self, String> {
        let mut l = Layout { stacks, ..Layout::default() };
        let most_pages = if stacks { FIRST_STACK / PAGE } else { MAX_PAGES };
        let mut end: u64 = 0;
        let mut take = |bytes: u64, align: u64| {
            end = (end + bytes).next_multiple_of(align);
            // At most a few hundred MiB, see MOST_ENTRIES.
            -(end as i64) as i32
        };
        l.host = take(8, 8);
        l.fuel = take(8, 8);
        for m in &info.memories {
            l.memory_size.push(take(8, 8));
            let most = m.ty.maximum.unwrap_or(most_pages).min(most_pages);
            l.memory_max.push(most * PAGE);
        }
        l.globals = info.globals.iter().map(|_| take(16, 16)).collect();
        l.elem_dropped = info.elems.iter().map(|_| take(4, 4)).collect();
        l.data_dropped = info.data.iter().map(|_| take(4, 4)).collect();
        let mut entries = 0;
        for (i, t) in info.tables.iter().enumerate() {
            let most = t.ty.maximum.unwrap_or(u64::MAX).min(t.ty.initial.max(TABLE_CAPACITY));
            entries += most;
            if entries > MOST_ENTRIES {
                return Err(format!("table {i}, of {} entries,", t.ty.initial));
            }
            l.table_size.push(take(4, 4));
            l.tables.push(take(most * 4, 16));
            l.table_max.push(most as u32);
        }
        l.threads = take(4, 4);
        l.next_threads = take(4, 4);
        l.header = end.next_multiple_of(PAGE);
        Ok(l)
    }

    /// Bytes from the start of the header to the end of the last guard.
    pub(crate) fn span(&self) -> u64 {
        self.header + MEMORY_SPAN * self.memory_size.len().max(1) as u64
    }

    /// All that code of an instance can change.
    pub(crate) fn instance(&self) -> InstanceMemory {
        let place = |(m, &size_at): (u32, &i32)| MemoryPlace { offset: self.memory(m) as i64, size_at };
        let memories = (0..).zip(&self.memory_size).map(place).collect();
        let stacks = self.stacks.then_some(FIRST_STACK..MAX_PAGES * PAGE);
        InstanceMemory { header: u32::try_from(self.header).expect("a few hundred MiB"), memories, stacks }
    }

    /// From `vmctx` to a memory.
    pub(crate) fn memory(&self, memory: u32) -> u64 {
        MEMORY_SPAN * u64::from(memory)
    }
}

/// Bytes of a value in a global's cell.
pub(crate) fn bytes(ty: ValType) -> usize {
    match ty {
        ValType::I32 | ValType::F32 | ValType::Ref(_) => 4,
        ValType::I64 | ValType::F64 => 8,
        ValType::V128 => 16,
    }
}
