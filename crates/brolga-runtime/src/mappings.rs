//! Mappings: what the system says of the memory of the process, and what is left out where it says
//! that it has none.
//!
//! **Question.** Which pages of memory hold anything, and which bytes around an address belong to
//! one mapping?
//!
//! **Answer.** What `mincore` and `/proc/self/maps` say on Linux; elsewhere every page may hold
//! something, and nothing is known around an address.
//!
//! **Cost.** A system call for each question, and for a mapping a walk over the list of all.

use std::io;
use std::ops::Range;
use std::sync::LazyLock;

use memmap2::MmapMut;

/// Bytes of a page.
pub(crate) fn page() -> usize {
    static PAGE: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: it only asks.
        #[cfg(unix)]
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok();
        #[cfg(not(unix))]
        let page = None;
        page.unwrap_or(1 << 16)
    });
    *PAGE
}

/// Let some pages of a mapping, to which there is no reference, be inaccessible.
#[cfg(unix)]
pub(crate) fn forbid(mapping: &MmapMut, bytes: Range<usize>) -> io::Result<()> {
    let from = mapping.as_ptr().cast_mut().wrapping_add(bytes.start);
    // SAFETY: whole pages of a mapping that is ours.
    match unsafe { libc::mprotect(from.cast(), bytes.len(), libc::PROT_NONE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(unix))]
pub(crate) fn forbid(_mapping: &MmapMut, _bytes: Range<usize>) -> io::Result<()> {
    Ok(())
}

/// Which pages of anonymous memory of ours have been touched, as far as the system tells: not zero
/// for those that may hold something.
pub(crate) fn touched(pages: Range<usize>, into: &mut Vec<u8>) {
    into.clear();
    into.resize(pages.len() / page(), 1);
    // A page that has been swapped out is not in memory.
    #[cfg(target_os = "linux")]
    if !*SWAPS {
        // SAFETY: the vector has a byte for each page.
        let told = unsafe { libc::mincore(pages.start as *mut libc::c_void, pages.len(), into.as_mut_ptr()) };
        if told != 0 {
            into.fill(1);
        }
    }
}

/// Whether memory may be swapped out.
#[cfg(target_os = "linux")]
static SWAPS: LazyLock<bool> = LazyLock::new(|| {
    // The first line is a heading.
    std::fs::read_to_string("/proc/swaps").map_or(true, |told| told.lines().count() > 1)
});

/// The memory around an address that the process may write to: all mappings in a row.
#[cfg(target_os = "linux")]
pub(crate) fn around(address: usize) -> Option<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut found: Option<Range<usize>> = None;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        if !rest.starts_with("rw") {
            continue;
        }
        match &mut found {
            Some(all) if all.end == from => all.end = to,
            Some(all) if all.contains(&address) => break,
            _ => found = Some(from..to),
        }
    }
    found.filter(|all| all.contains(&address))
}

/// Nothing tells here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn around(_address: usize) -> Option<Range<usize>> {
    None
}

/// The error with what to look at. A process may have a number of mappings (of tapes, of code, of
/// instances), and that more are refused is told as a lack of memory.
pub fn explained(e: io::Error) -> io::Error {
    if e.raw_os_error() != Some(libc::ENOMEM) || !cfg!(target_os = "linux") {
        return e;
    }
    let more = "if memory is free, the process has as many mappings as it may, which `sysctl vm.max_map_count` tells";
    io::Error::new(e.kind(), format!("{e}; {more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_mappings_looks_like_a_lack_of_memory() {
        let said = explained(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert_eq!(said.contains("vm.max_map_count"), cfg!(target_os = "linux"), "{said}");
        let other = explained(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(other.raw_os_error(), Some(libc::EACCES));
    }
}
