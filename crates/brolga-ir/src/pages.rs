//! Huge pages: advice for long allocations.
//!
//! **Problem.** The system gives memory page by page, when it is first written to, and clears each
//! before. For a block of a hundred thousand instructions that happens ten thousand times, a sixth
//! of the time that deriving it takes.
//!
//! **Answer.** Ask for large pages, of 2 MB on most machines, where the system leaves that to
//! programs, as Linux mostly does. Where it does not, or has none, nothing changes.
//!
//! **Cost.** A call of the system for each vector of four megabytes or more, none for others.

/// Bytes from which on it is worth asking: less may hold no large page at all.
const LONG: usize = 4 << 20;

/// An empty vector with room for so many.
pub(crate) fn with_capacity<T>(n: usize) -> Vec<T> {
    let memory = Vec::with_capacity(n);
    if memory.capacity().saturating_mul(size_of::<T>()) >= LONG {
        ask_for_large_pages(&memory);
    }
    memory
}

#[cfg(target_os = "linux")]
fn ask_for_large_pages<T>(memory: &Vec<T>) {
    // Pages that lie within, by the largest size that a small one has.
    let page = 1 << 16;
    let start = memory.as_ptr().addr();
    let (from, to) = (start.next_multiple_of(page), (start + memory.capacity() * size_of::<T>()) & !(page - 1));
    let from = memory.as_ptr().cast::<u8>().wrapping_add(from - start).cast_mut();
    // SAFETY: it says of memory that is ours on what pages it should lie, and changes nothing that
    // can be read there. If the system says no, everything stays as it is.
    let _ = unsafe { libc::madvise(from.cast(), to - from.addr(), libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages<T>(_memory: &Vec<T>) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long or not, it is a vector like others.
    #[test]
    fn there_is_room() {
        for n in [0, 1, LONG / 8 - 1, LONG / 8, 3 * LONG / 8 + 1] {
            let mut all: Vec<u64> = with_capacity(n);
            assert!(all.is_empty() && all.capacity() >= n);
            all.extend(0..n as u64 + 1);
            assert!(all.iter().copied().eq(0..n as u64 + 1), "{n}");
        }
    }

    /// What the system knows of the memory that a vector lies in: flags of its mapping, `hg` if
    /// large pages were asked for.
    #[cfg(target_os = "linux")]
    fn flags<T>(all: &Vec<T>) -> String {
        let middle = all.as_ptr().addr() + all.capacity() * size_of::<T>() / 2;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut ours = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let range = range.map(|(a, b)| (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16)));
            match range {
                Some((Ok(from), Ok(to))) => ours = (from..to).contains(&middle),
                _ if ours && line.starts_with("VmFlags:") => return line.to_owned(),
                _ => {}
            }
        }
        panic!("no mapping has {middle:#x}");
    }

    /// Where a system has large pages, those that are long ask for them.
    #[cfg(target_os = "linux")]
    #[test]
    fn long_ones_ask() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        // Large enough for a mapping of its own.
        let found = flags::<u64>(&with_capacity(64 << 20));
        assert!(found.split_whitespace().any(|f| f == "hg"), "{found}");
    }
}
