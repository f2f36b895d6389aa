//! Marks in a function: which accesses are to a log.
//!
//! **Question.** A tool that makes code may write a record in each iteration (the *tape* of reverse
//! mode) and test whether there is room. How does a pass tell that from other memory? **Answer.**
//! Accesses to the tape are in an alias region with a known number, and the test traps with a known
//! code. A function without these marks has no tape, and nothing is assumed.
//!
//! **Invariant.** Memory in the region is not reached by accesses outside of it.
//!
//! **Cost.** None: the marks are flags of accesses and a trap code.

use cranelift_codegen::ir;

/// The number (`user_id`) of the alias region of the tape.
pub const TAPE_REGION: u32 = 0x0b20_16a0;

/// With which code it traps if the tape is full.
pub const TAPE_FULL: ir::TrapCode = ir::TrapCode::unwrap_user(240);

/// Whether an access is to the tape, which is apart from all other memory.
pub fn is_tape(func: &ir::Function, flags: ir::MemFlagsData) -> bool {
    flags.alias_region().is_some_and(|r| func.dfg.alias_regions[r].user_id == TAPE_REGION)
}
