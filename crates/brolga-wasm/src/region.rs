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

    /// Set the shadow of everything to zero, by giving its pages back.
    pub fn clear_shadow(&mut self) {
        let mut ranges = vec![(0, self.header)];
        ranges.extend(self.memories.iter().map(|&(offset, open)| (self.header + offset, open as usize)));
        for (from, n) in ranges {
            if n > 0 {
                // SAFETY: as in `shrink`. On Linux private anonymous pages read as zero afterwards.
                unsafe { libc::madvise(self.start.wrapping_add(self.span + from).cast(), n, libc::MADV_DONTNEED) };
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of our mapping, and nobody uses it any more.
        unsafe { libc::munmap(self.start.cast(), 2 * self.span) };
    }
}
