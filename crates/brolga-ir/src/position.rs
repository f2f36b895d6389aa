//! Positions in an input, in words.

/// Set in a position that is a byte offset in a binary file, not a line of a text.
pub const OFFSET: u32 = 1 << 31;

/// A position in words: `line 12`, or `byte 0x1f3` of a binary file.
///
/// Positions are 1-based lines, or byte offsets with the bit [`OFFSET`]; 0 is an unknown one.
pub fn position(at: u32) -> String {
    if at & OFFSET == 0 { format!("line {at}") } else { format!("byte {:#x}", at & !OFFSET) }
}
