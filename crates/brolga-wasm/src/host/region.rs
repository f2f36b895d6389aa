//! The address space of an instance and of its shadow.
//!
//! **Question.** Where do the shadows of an instance lie, and what does a shadow cost that nothing
//! uses?
//!
//! **Answer.** One reservation holds both, laid out alike (see [`crate::layout`]). Pages become
//! accessible as memories grow and stay where they are. The kernel gives them memory when they are
//! first touched, so a shadow that nothing differentiates costs nothing.
//!
//! The shadow half is shifted by a few lines of the cache ([`SHIFT`]). At a distance of whole pages
//! a float and its cotangent would be in the same set of a first-level cache, and a reverse that
//! walks down a column of a matrix with rows of a power of two would have two elements for each
//! place that there is.
//!
//! A region of a *width* has as many bytes for each byte of an instance: its halves are shadows of
//! batches.
//!
//! **Cost.** Two changes of protection for each growth of memory. Clearing a shadow fills the pages
//! that have been touched, up to 4 MiB in each part, and gives back the whole part where there are
//! more; a part of more than 256 MiB is given back unasked. An image copies all that is accessible.

use crate::error::Error;
use crate::layout::{FIRST_STACK, Layout, PAGE, STACK, STACKS};

/// By how many bytes the shadow half is shifted: whole lines, half of the sets, and no multiple of
/// a row of 512 bytes.
const SHIFT: usize = 2048 + 320;
/// How many more bytes are accessible for that after each part of the shadow half: a page of any
/// size that there is.
const MORE: usize = PAGE as usize;

/// What the primal half of a region held.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    header: Vec<u8>,
    memories: Vec<Vec<u8>>,
}

impl Image {
    /// The header, and each memory.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<Vec<u8>>) {
        (self.header, self.memories)
    }
}

/// A reservation of address space; given back when dropped.
#[derive(Debug)]
pub(crate) struct Region {
    start: *mut u8,
    /// Bytes of the primal half; the shadow half is as large and follows it, a little shifted.
    span: usize,
    header: usize,
    /// For each memory: offset from `vmctx`, and how many bytes are accessible.
    memories: Vec<(usize, u64)>,
    /// Stacks of tasks: offset from `vmctx`, and how many bytes they are.
    stacks: (usize, usize),
    /// Bytes for each byte of an instance.
    width: usize,
}

// SAFETY: a region is plain memory that it alone owns.
unsafe impl Send for Region {}

impl Region {
    /// Reserve space for an instance, so many times as large, with its header accessible and zero.
    pub(crate) fn new(layout: &Layout, width: usize) -> Result<Self, Error> {
        let [span, header] = [layout.span(), layout.header].map(|bytes| bytes as usize * width);
        // SAFETY: a fresh anonymous mapping.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * span + MORE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(Error::NoRoom {
                bytes: 2 * span + MORE,
                why: brolga_runtime::mappings::explained(std::io::Error::last_os_error()).to_string(),
            });
        }
        let memories = (0..layout.memory_size.len() as u32).map(|m| (layout.memory(m) as usize * width, 0)).collect();
        let bytes = if layout.stacks { (STACKS * STACK) as usize * width } else { 0 };
        let stacks = (FIRST_STACK as usize * width, bytes);
        let region = Self { start: p.cast(), span, header, memories, stacks, width };
        region.protect(0, header, true)?;
        region.protect(span, header + MORE, true)?;
        if bytes > 0 {
            region.protect(header + stacks.0, bytes, true)?;
            region.protect(span + header + stacks.0, bytes + MORE, true)?;
        }
        Ok(region)
    }

    /// The instance pointer.
    pub(crate) fn vmctx(&self) -> *mut u8 {
        self.start.wrapping_add(self.header)
    }

    /// The shadow of the instance pointer.
    pub(crate) fn shadow(&self) -> *mut u8 {
        self.vmctx().wrapping_add(self.span + SHIFT)
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

    /// Make the first `bytes` bytes of an instance's memory accessible, in both halves. New bytes
    /// are zero.
    pub(crate) fn open(&mut self, memory: u32, bytes: u64) -> Result<(), Error> {
        let bytes = bytes * self.width as u64;
        let (offset, open) = self.memories[memory as usize];
        if bytes > open {
            let at = self.header + offset + open as usize;
            self.protect(at, (bytes - open) as usize, true)?;
            self.protect(at + self.span, (bytes - open) as usize + MORE, true)?;
            self.memories[memory as usize].1 = bytes;
        }
        Ok(())
    }

    /// Take away what lies beyond the first `bytes` bytes: a pullback has undone a `memory.grow`.
    /// The shadow stays accessible, since that pullback may run again, but is cleared.
    pub(crate) fn shrink(&mut self, memory: u32, bytes: u64) -> Result<(), Error> {
        let (offset, open) = self.memories[memory as usize];
        if bytes < open {
            self.clear_beyond(memory, bytes);
            self.protect(self.header + offset + bytes as usize, (open - bytes) as usize, false)?;
            self.memories[memory as usize].1 = bytes;
        }
        Ok(())
    }

    /// Set to zero, in both halves, what lies beyond the first `bytes` bytes of an instance's
    /// memory.
    pub(crate) fn clear_beyond(&mut self, memory: u32, bytes: u64) {
        let bytes = bytes * self.width as u64;
        let (offset, open) = self.memories[memory as usize];
        if bytes < open {
            let (at, n) = (self.header + offset + bytes as usize, (open - bytes) as usize);
            let shadow = at + self.span;
            // SAFETY: the ranges lie in our reservation, are accessible and anonymous, and there
            // are no references into them. What is before the shift is the shadow of bytes
            // that stay.
            unsafe {
                self.start.wrapping_add(shadow + SHIFT).write_bytes(0, MORE - SHIFT);
                for from in [at, shadow + MORE] {
                    libc::madvise(self.start.wrapping_add(from).cast(), n, libc::MADV_DONTNEED);
                }
            }
        }
    }

    /// The primal half as it is.
    pub(crate) fn image(&self) -> Image {
        let part = |from: usize, n: usize| {
            // SAFETY: the range is accessible, and the caller has the instance to itself.
            unsafe { std::slice::from_raw_parts(self.start.wrapping_add(from), n) }.to_vec()
        };
        let memories = self.memories.iter().map(|&(offset, open)| part(self.header + offset, open as usize));
        Image { header: part(0, self.header), memories: memories.collect() }
    }

    /// Put the primal half back to what it was, sizes of memories included. What they have grown by
    /// since stays accessible until it is [taken away](Self::shrink).
    pub(crate) fn put_back(&mut self, image: &Image) {
        let put = |from: usize, bytes: &[u8]| {
            // SAFETY: the range was accessible when the image was made, and still is: memory only
            // grows.
            unsafe { self.start.wrapping_add(from).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        };
        put(0, &image.header);
        for (&(offset, open), bytes) in self.memories.iter().zip(&image.memories) {
            put(self.header + offset, &bytes[..bytes.len().min(open as usize)]);
        }
    }

    /// Whether tasks have stacks of their own.
    pub(crate) fn has_stacks(&self) -> bool {
        self.stacks.1 > 0
    }

    /// How many bytes of each of an instance's memories are accessible.
    pub(crate) fn opened(&self) -> impl Iterator<Item = u64> {
        self.memories.iter().map(|m| m.1 / self.width as u64)
    }

    /// Set the shadow of everything to zero. Pages that have memory are filled with zeros while
    /// they are few, since the kernel does the same when a page that was given back is touched
    /// again, and takes longer; many are given back.
    pub(crate) fn clear_shadow(&mut self) {
        // Before the shift and after the end there is shadow, or nothing.
        self.clear(self.span, MORE);
    }

    /// Set everything to zero, where both halves are shadows.
    pub(crate) fn clear_both(&mut self) {
        self.clear(0, 0);
        self.clear_shadow();
    }

    /// Clear a half that begins at a place, and more bytes after each of its parts.
    fn clear(&mut self, half: usize, more: usize) {
        let header = (0, self.header);
        let memories = self.memories.iter().map(|&(offset, open)| (self.header + offset, open as usize));
        let stacks = (self.header + self.stacks.0, self.stacks.1);
        for (from, n) in [header, stacks].into_iter().chain(memories).filter(|r| r.1 > 0) {
            let (start, n) = (self.start.wrapping_add(half + from), n + more);
            // SAFETY: the range is accessible, and there are no references into it.
            if !unsafe { fill_touched(start, n) } {
                // SAFETY: as in `clear_beyond`. On Linux private anonymous pages read as zero
                // afterwards.
                unsafe { libc::madvise(start.cast(), n, libc::MADV_DONTNEED) };
            }
        }
    }
}

/// Most bytes of which it is asked whether they have been touched, and most that are filled with
/// zeros.
const ASKED: usize = 256 << 20;
const FILLED: usize = 4 << 20;

/// Fill with zeros what has memory of a range of pages. Whether that is all: otherwise there was
/// too much of it, or the kernel does not tell.
///
/// # Safety
/// The range begins at a page, is accessible, anonymous, and not used by any other code.
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

/// It is not told.
#[cfg(not(target_os = "linux"))]
unsafe fn fill_touched(_start: *mut u8, _bytes: usize) -> bool {
    false
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of our mapping, which is out of use.
        unsafe { libc::munmap(self.start.cast(), 2 * self.span + MORE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_shifted_and_cleared_to_the_byte() {
        let layout = Layout { header: PAGE, memory_size: vec![0], memory_max: vec![4 * PAGE], ..Layout::default() };
        let mut region = Region::new(&layout, 1).unwrap();
        let apart = region.shadow() as usize - region.vmctx() as usize;
        assert!(apart.is_multiple_of(64) && !apart.is_multiple_of(512) && !apart.is_multiple_of(4096), "{apart}");
        let page = PAGE as usize;
        region.open(0, 2 * PAGE).unwrap();
        let all = |region: &Region, from: usize, n: usize, value: u8| {
            for half in [region.vmctx(), region.shadow()] {
                // SAFETY: the ranges have been opened, and there are no other references into them.
                unsafe { std::slice::from_raw_parts_mut(half.wrapping_add(from), n) }.fill(value);
            }
        };
        let shadow = |region: &Region, from: usize, n: usize, value: u8| {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(region.shadow().wrapping_add(from), n) }.iter().all(|&x| x == value)
        };
        all(&region, 0, 2 * page, 7);
        region.shrink(0, PAGE).unwrap();
        // What is left is as it was, to the last byte, and what comes back is zero.
        assert!(shadow(&region, 0, page, 7));
        region.open(0, 2 * PAGE).unwrap();
        assert!(shadow(&region, page, page, 0));
        all(&region, 0, 2 * page, 9);
        region.clear_shadow();
        assert!(shadow(&region, 0, 2 * page, 0));
        // SAFETY: as above.
        assert!(unsafe { std::slice::from_raw_parts(region.vmctx(), 2 * page) }.iter().all(|&x| x == 9));
    }
}
