//! Host functions: what translated code asks of the host, and what the host keeps of an instance.
//!
//! **Question.** Memory grows, output is written, time and random numbers are asked for, and all of
//! it from compiled code. Where does the host find the instance?
//!
//! **Answer.** Host functions get the instance pointer; before it, at a fixed place
//! ([`STATE_CELL`]), lies the pointer to the instance's [`HostState`]. They do nothing that a
//! derivative could notice (see `Program::define_host`): what is written to memory is written by
//! translated code, but for random bytes, whose place that code has overwritten before. Random
//! numbers begin anew at each call, so that primal and forward pass see the same.
//!
//! **Safety.** The instance is alive, and no other thread uses it. Addresses that a program hands
//! over are compared with the size of memory before they are read.
//!
//! **Cost.** A call of the host for each; a copy of what is written.

pub(crate) mod binary128;
pub(crate) mod region;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::host::region::Region;
use crate::layout::{FIRST_STACK, MAX_PAGES, PAGE};

/// Where the pointer to the state lies, from the instance pointer: the first cell of every layout.
pub(crate) const STATE_CELL: i32 = -8;

/// Where an instance's standard output and error go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nowhere.
    #[default]
    Discard,
    /// To the process's own.
    Inherit,
    /// Into a buffer, to be read by [`crate::Instance::output`].
    Keep,
}

/// What the host keeps of an instance.
#[derive(Debug)]
pub(crate) struct HostState {
    /// The instance's address space.
    pub region: Region,
    /// By width, what batches and second derivatives need: the shadow of a batch, or the tangents
    /// of a second derivative, of the region's primal half; and tangents of its shadow.
    pub batches: BTreeMap<usize, Region>,
    /// Offset of each memory's size.
    pub size_cells: Vec<i32>,
    /// Where output goes.
    pub output: Output,
    /// Output that was kept.
    pub captured: Vec<u8>,
    /// The code that `proc_exit` was called with.
    pub exit: Option<i32>,
    /// State of the generator after `random_get`, put back at the start of every call, so that
    /// primal and forward pass see the same bytes.
    pub random: u64,
}

/// The first state of the generator.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// # Safety
/// `vmctx` is the instance pointer of a live instance that no other thread uses.
unsafe fn state<'a>(vmctx: *mut u8) -> &'a mut HostState {
    // SAFETY: the cell lies in the header, and holds what `Instance::new` put there.
    unsafe { &mut **vmctx.offset(STATE_CELL as isize).cast::<*mut HostState>() }
}

impl HostState {
    /// Bytes of memory 0 from `at`, if they are inside.
    fn memory(&self, at: u32, n: u32) -> Option<&[u8]> {
        let cell = *self.size_cells.first()?;
        // SAFETY: cells of sizes lie in the header.
        let size = unsafe { self.region.vmctx().offset(cell as isize).cast::<u64>().read() };
        let end = u64::from(at) + u64::from(n);
        // A task has its frames after memory.
        let in_stack = self.region.has_stacks() && u64::from(at) >= FIRST_STACK && end <= MAX_PAGES * PAGE;
        if end > size && !in_stack {
            return None;
        }
        // SAFETY: below the size, pages are accessible, and this thread alone uses the instance.
        Some(unsafe { std::slice::from_raw_parts(self.region.vmctx().add(at as usize), n as usize) })
    }
}

/// Make the first `bytes` bytes of a memory accessible, primal and shadow.
///
/// # Safety
/// As for [`state`].
pub(crate) unsafe extern "C" fn grow(vmctx: *mut u8, memory: u32, bytes: u64) -> u32 {
    // SAFETY: our contract.
    let state = unsafe { state(vmctx) };
    let batches = state.batches.values_mut().try_for_each(|r| r.open(memory, bytes));
    u32::from(batches.and_then(|()| state.region.open(memory, bytes)).is_ok())
}

/// The bits of the double next to a `long double`, of which the lower word is the first.
pub(crate) extern "C" fn double_of_quad(_vmctx: *mut u8, low: u64, high: u64) -> u64 {
    crate::host::binary128::to_double([low, high]).to_bits()
}

/// `fd_write`: the number of bytes written, with an error number in the upper half.
///
/// # Safety
/// As for [`state`].
pub(crate) unsafe extern "C" fn fd_write(vmctx: *mut u8, fd: u32, iovs: u32, n: u32) -> u64 {
    const BADF: u64 = 8 << 32;
    const FAULT: u64 = 21 << 32;
    // SAFETY: our contract.
    let state = unsafe { state(vmctx) };
    if fd != 1 && fd != 2 {
        return BADF;
    }
    let Some(list) = n.checked_mul(8).and_then(|bytes| state.memory(iovs, bytes)) else { return FAULT };
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let mut bytes = Vec::new();
    for v in list.chunks_exact(8) {
        let Some(part) = state.memory(word(v), word(&v[4..])) else { return FAULT };
        bytes.extend_from_slice(part);
    }
    match state.output {
        Output::Discard => {}
        Output::Keep => state.captured.extend_from_slice(&bytes),
        // Output that is not taken is no reason to stop.
        Output::Inherit => {
            use std::io::Write;
            let _ = if fd == 1 { std::io::stdout().write_all(&bytes) } else { std::io::stderr().write_all(&bytes) };
        }
    }
    bytes.len() as u64
}

/// `proc_exit`: remember the code; the trap follows in translated code.
///
/// # Safety
/// As for [`state`].
pub(crate) unsafe extern "C" fn proc_exit(vmctx: *mut u8, code: i32) {
    // SAFETY: our contract.
    unsafe { state(vmctx) }.exit = Some(code);
}

/// `clock_time_get`: nanoseconds, of the day for clock 0, since the first question for others.
///
/// # Safety
/// None is needed.
pub(crate) unsafe extern "C" fn clock(_vmctx: *mut u8, id: u32) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    match id {
        0 => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64),
        _ => START.get_or_init(Instant::now).elapsed().as_nanos() as u64,
    }
}

/// `random_get`: reproducible bytes.
///
/// # Safety
/// As for [`state`]; `n` bytes at `p` are writable.
pub(crate) unsafe extern "C" fn random(vmctx: *mut u8, p: *mut u8, n: u64) {
    // SAFETY: our contract.
    let state = unsafe { state(vmctx) };
    for i in 0..n as usize {
        // xorshift64*
        state.random ^= state.random >> 12;
        state.random ^= state.random << 25;
        state.random ^= state.random >> 27;
        let byte = (state.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8;
        // SAFETY: our contract.
        unsafe { p.add(i).write(byte) };
    }
}
