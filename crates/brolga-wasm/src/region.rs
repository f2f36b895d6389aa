//! The address space of an instance and of its shadow.
//!
//! One reservation holds both, laid out alike (see [`crate::layout`]). Pages become accessible as memories grow and stay
//! where they are. The kernel gives them memory when they are first touched, so a shadow that nothing differentiates costs
//! nothing.

use crate::error::Error;
use crate::layout::Layout;

/// A reservation of address space; given back when dropped.
#[derive(Debug)]
pub struct Region {
    start: *mut u8,
    /// Bytes of the primal half; the shadow half is as large and follows it.
    span: usize,
    header: usize,
    /// For each memory: offset from `vmctx`, and how many bytes are accessible.
    memories: Vec<(usize, u64)>,
}

// SAFETY: a region is plain memory that it alone owns.
unsafe impl Send for Region {}

impl Region {
    /// Reserve space for an instance, with its header accessible and zero.
    pub fn new(layout: &Layout) -> Result<Self, Error> {
        let (span, header) = (layout.span() as usize, layout.header as usize);
        // SAFETY: a fresh anonymous mapping.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * span,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(Error::NoRoom {
                bytes: 2 * span,
                why: brolga_runtime::mappings::explained(std::io::Error::last_os_error()).to_string(),
            });
        }
        let memories = (0..layout.memory_size.len() as u32).map(|m| (layout.memory(m) as usize, 0)).collect();
        let region = Self { start: p.cast(), span, header, memories };
        region.protect(0, header, true)?;
        region.protect(span, header, true)?;
        Ok(region)
    }

    /// The instance pointer.
    pub fn vmctx(&self) -> *mut u8 {
        self.start.wrapping_add(self.header)
    }

    /// The shadow of the instance pointer.
    pub fn shadow(&self) -> *mut u8 {
        self.vmctx().wrapping_add(self.span)
    }

    fn protect(&self, from: usize, bytes: usize, open: bool) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let access = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        // SAFETY: the range lies in our reservation, on page boundaries.
        if unsafe { libc::mprotect(self.start.wrapping_add(from).cast(), bytes, access) } != 0 {
            return Err(Error::NoRoom {
                bytes,
                why: brolga_runtime::mappings::explained(std::io::Error::last_os_error()).to_string(),
            });
        }
        Ok(())
    }

    /// Make the first `bytes` bytes of a memory accessible, in both halves. New bytes are zero.
    pub fn open(&mut self, memory: u32, bytes: u64) -> Result<(), Error> {
        let (offset, open) = self.memories[memory as usize];
        if bytes > open {
            let at = self.header + offset + open as usize;
            self.protect(at, (bytes - open) as usize, true)?;
            self.protect(at + self.span, (bytes - open) as usize, true)?;
            self.memories[memory as usize].1 = bytes;
        }
        Ok(())
    }

    /// Take away what lies beyond the first `bytes` bytes: a pullback has undone a `memory.grow`. The shadow stays accessible,
    /// since that pullback may run again, but is cleared.
    pub fn shrink(&mut self, memory: u32, bytes: u64) -> Result<(), Error> {
        let (offset, open) = self.memories[memory as usize];
        if bytes < open {
            let (at, n) = (self.header + offset + bytes as usize, (open - bytes) as usize);
            for from in [at, at + self.span] {
                // SAFETY: the range lies in our reservation, is anonymous, and nobody holds a reference into it.
                unsafe { libc::madvise(self.start.wrapping_add(from).cast(), n, libc::MADV_DONTNEED) };
            }
            self.protect(at, n, false)?;
            self.memories[memory as usize].1 = bytes;
        }
        Ok(())
    }

    /// Set the shadow of everything to zero. Pages that have memory are filled with zeros while they are few, since the kernel does the same when a page
    /// that was given back is touched again, and takes longer; many are given back.
    pub fn clear_shadow(&mut self) {
        let header = (0, self.header);
        let memories = self.memories.iter().map(|&(offset, open)| (self.header + offset, open as usize));
        for (from, n) in [header].into_iter().chain(memories).filter(|r| r.1 > 0) {
            let start = self.start.wrapping_add(self.span + from);
            // SAFETY: the range is accessible, and there are no references into it.
            if !unsafe { fill_touched(start, n) } {
                // SAFETY: as in `shrink`. On Linux private anonymous pages read as zero afterwards.
                unsafe { libc::madvise(start.cast(), n, libc::MADV_DONTNEED) };
            }
        }
    }
}

/// Most bytes of which it is asked whether they have been touched, and most that are filled with zeros.
const ASKED: usize = 256 << 20;
const FILLED: usize = 4 << 20;

/// Fill with zeros what has memory of a range of pages. Whether that is all: otherwise there was too much of it, or the kernel does not tell.
///
/// # Safety
/// The range begins at a page, is accessible, anonymous, and not used by anybody else.
#[cfg(target_os = "linux")]
unsafe fn fill_touched(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: asks only.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    if bytes > ASKED {
        return false;
    }
    let mut touched = [0_u8; 4096];
    let mut filled = 0;
    for from in (0..bytes).step_by(page * touched.len()) {
        let n = (bytes - from).min(page * touched.len());
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        if unsafe { libc::mincore(start.add(from).cast(), n, touched.as_mut_ptr()) } != 0 {
            return false;
        }
        for (i, _) in touched[..n.div_ceil(page)].iter().enumerate().filter(|t| t.1 & 1 == 1) {
            filled += page;
            if filled > FILLED {
                return false;
            }
            let at = from + i * page;
            // SAFETY: the page lies in the range.
            unsafe { start.add(at).write_bytes(0, page.min(bytes - at)) };
        }
    }
    true
}

/// Nobody tells.
#[cfg(not(target_os = "linux"))]
unsafe fn fill_touched(_start: *mut u8, _bytes: usize) -> bool {
    false
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of our mapping, and nobody uses it any more.
        unsafe { libc::munmap(self.start.cast(), 2 * self.span) };
    }
}
