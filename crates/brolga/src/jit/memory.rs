//! Code memory: where machine code lies.
//!
//! **Problem.** Cranelift's provider of memory asks the system for pages of their own for every
//! function that does not fit on the last one, and gives all back. For a small derivative that
//! takes as long as a fifth of compiling it: a mapping, a fault for each page that is written to,
//! and the same again for the next one. A large program has hundreds of mappings, each made
//! executable by itself.
//!
//! **Answer.** Functions of a module share *slabs*. The first is small, and later ones are larger
//! ([`LARGEST`]). The small ones of modules that are gone are kept for others, up to [`SPARE`] of
//! them: their pages are there already.
//!
//! **Invariants.** A page is never writable and executable at the same time. What has been made
//! executable is not written to before its module is gone: what is added to a module lies on slabs
//! of its own. A slab that waits for the next module is not executable, so that a call of code that
//! is gone faults. A module that is dropped and not freed leaves its code where it is,
//! as Cranelift's does.
//!
//! Data, and code on machines that must be told when instructions change, is left to Cranelift's
//! provider.
//!
//! **Cost.** A mapping for each slab, and a change of its protection when a module is finished. The
//! small slabs that wait take a megabyte at most.

use std::io;
use std::sync::{Mutex, PoisonError};

use brolga_runtime::mappings::explained;
use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider, SystemMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};
use memmap2::{Mmap, MmapMut};

/// Bytes of a slab that is kept for others: enough for a small derivative.
const SMALL: usize = 16 << 10;
/// Bytes of the largest slab, but for a function that is larger.
const LARGEST: usize = 1 << 20;
/// Most small slabs that wait: a megabyte.
const SPARE: usize = 64;

/// Small slabs that wait.
static SLABS: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Memory that is being written to.
struct OpenSlab {
    map: MmapMut,
    used: usize,
}

impl OpenSlab {
    /// With room for so many bytes.
    fn new(bytes: usize) -> io::Result<Self> {
        let spare = if bytes <= SMALL { spare().pop() } else { None };
        let map = || MmapMut::map_anon(bytes.next_multiple_of(SMALL)).map_err(explained);
        let map = spare.map_or_else(map, Ok)?;
        Ok(Self { map, used: 0 })
    }

    fn allocate(&mut self, size: usize, align: usize) -> Option<*mut u8> {
        let at = self.used.next_multiple_of(align);
        let end = at.checked_add(size).filter(|&end| end <= self.map.len())?;
        self.used = end;
        Some(self.map[at..].as_mut_ptr())
    }
}

fn spare() -> std::sync::MutexGuard<'static, Vec<MmapMut>> {
    // Nothing panics while it is held.
    SLABS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keep a slab for others, if it is small and there are not too many.
fn keep(map: MmapMut) {
    let mut slabs = spare();
    if map.len() == SMALL && slabs.len() < SPARE {
        slabs.push(map);
    }
}

/// The memory of a module.
pub(crate) struct CodeMemory {
    /// Slabs that are written to: the last one is the one that has room.
    open: Vec<OpenSlab>,
    /// Slabs that are run.
    closed: Vec<Mmap>,
    /// Bytes of the next slab.
    next: usize,
    /// Everything else.
    other: SystemMemoryProvider,
}

impl CodeMemory {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), closed: Vec::new(), next: SMALL, other: SystemMemoryProvider::new() }
    }

    fn allocate_code(&mut self, size: usize, align: usize) -> io::Result<*mut u8> {
        if let Some(found) = self.open.last_mut().and_then(|open| open.allocate(size, align)) {
            return Ok(found);
        }
        let mut slab = OpenSlab::new(size.max(self.next))?;
        self.next = (2 * self.next).min(LARGEST);
        // Slabs begin where pages do.
        let found = slab.allocate(size, align).expect("there is room");
        self.open.push(slab);
        Ok(found)
    }
}

impl JITMemoryProvider for CodeMemory {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        match kind {
            JITMemoryKind::Executable if cfg!(target_arch = "x86_64") => {
                self.allocate_code(size, usize::try_from(align).map_err(io::Error::other)?)
            }
            _ => self.other.allocate(size, align, kind),
        }
    }

    unsafe fn free_memory(&mut self) {
        // SAFETY: it is out of use, as the caller says.
        unsafe { self.other.free_memory() };
        self.open.drain(..).for_each(|open| keep(open.map));
        self.closed.drain(..).filter_map(|map| map.make_mut().ok()).for_each(keep);
    }

    fn finalize(&mut self, branch_protection: BranchProtection) -> ModuleResult<()> {
        for open in self.open.drain(..) {
            self.closed.push(open.map.make_exec().map_err(|e| ModuleError::Backend(explained(e).into()))?);
        }
        self.other.finalize(branch_protection)
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // There is no address of what has not been made executable.
        self.open.drain(..).for_each(|open| keep(open.map));
        self.closed.drain(..).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: JITMemoryKind = JITMemoryKind::Executable;

    #[test]
    fn functions_share_slabs_and_do_not_overlap() {
        let mut memory = CodeMemory::new();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for i in 0..300_usize {
            let (size, align) = (1 + 997 * i % 5000, 1 << (i % 7));
            let at = memory.allocate_code(size, align).expect("there is memory");
            // SAFETY: it is ours.
            unsafe { at.write_bytes(0xcc, size) };
            assert!(at.addr().is_multiple_of(align));
            found.push((at as usize, size));
        }
        found.sort_unstable();
        assert!(found.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert!(memory.open.len() < 8, "{}", memory.open.len());
        let large = memory.allocate_code(3 * LARGEST, 64).expect("there is memory");
        // SAFETY: it is ours.
        unsafe { large.add(3 * LARGEST - 1).write(0xcc) };
        memory.finalize(BranchProtection::None).expect("it can be run");
        assert!(memory.open.is_empty());
        // SAFETY: it does not run.
        unsafe { memory.free_memory() };
    }

    #[test]
    fn what_is_run_is_not_written_to() {
        let mut memory = CodeMemory::new();
        let add = |memory: &mut CodeMemory, code: [u8; 6]| {
            let at = memory.allocate(6, 16, CODE).expect("there is memory");
            // SAFETY: it is ours, and not run yet.
            unsafe { at.copy_from_nonoverlapping(code.as_ptr(), 6) };
            at
        };
        // mov eax, 7; ret, and another.
        let first = add(&mut memory, [0xb8, 7, 0, 0, 0, 0xc3]);
        memory.finalize(BranchProtection::None).expect("it can be run");
        let second = add(&mut memory, [0xb8, 8, 0, 0, 0, 0xc3]);
        assert!(first.addr().abs_diff(second.addr()) >= SMALL || !cfg!(target_arch = "x86_64"));
        memory.finalize(BranchProtection::None).expect("it can be run");
        if cfg!(target_arch = "x86_64") {
            for (at, is) in [(first, 7), (second, 8)] {
                // SAFETY: it is such a function, and has been made executable.
                let f = unsafe { std::mem::transmute::<*mut u8, extern "C" fn() -> i32>(at) };
                assert_eq!(f(), is);
            }
        }
        // SAFETY: it does not run any more.
        unsafe { memory.free_memory() };
    }
}
