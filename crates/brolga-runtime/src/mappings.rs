//! Limits of mappings: what is left out where the system says that it has no memory for one.

use std::io;

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
