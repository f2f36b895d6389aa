//! Cost model: what instructions and records cost, the numbers by which passes decide, all in one
//! place.
//!
//! **Problem.** Whether a value is recorded or computed again, whether a loop runs in lanes,
//! whether a recursion runs twice: each is a comparison of instructions, of cycles that are waited
//! for, and of bytes. Constants in each of those passes can contradict each other, and a change of
//! machine is a search for them.
//!
//! **Answer.** One table of instructions ([`cost`], [`latency`]) and the constants below. What they
//! stand for is measured by `cargo xtask bench --costs`, which prints it beside them. They are
//! fixed, and not measured where code is derived, so that the same input gives the same code
//! everywhere.
//!
//! **Cost.** A match over opcodes for each question; none at run time.

use cranelift_codegen::ir::Opcode;

use crate::table::is_pure;

/// A rough cost of computing the result again, where an addition is 1 and a load about 4.
pub fn cost(op: Opcode) -> u32 {
    match op {
        // Folded into the instruction that uses them, or free.
        Opcode::Iconst | Opcode::Bitcast | Opcode::Ireduce | Opcode::Uextend | Opcode::Nop => 0,
        Opcode::F32const | Opcode::F64const | Opcode::F128const | Opcode::F16const | Opcode::Vconst => 1,
        Opcode::Fdiv => 8,
        Opcode::Sqrt => 10,
        Opcode::Udiv | Opcode::Sdiv | Opcode::Urem | Opcode::Srem => 12,
        // Sequences of several instructions on x86-64.
        Opcode::Fmin | Opcode::Fmax | Opcode::FcvtFromUint | Opcode::FcvtToUintSat | Opcode::FcvtToSintSat => 4,
        Opcode::Fcmp | Opcode::Fcopysign | Opcode::Select | Opcode::Bitrev | Opcode::Swizzle => 2,
        Opcode::Imul | Opcode::Umulhi | Opcode::Smulhi => 2,
        op if is_pure(op) => 1,
        op if op.is_call() => 100,
        _ => 4,
    }
}

/// Up to this [`cost`] a result is cheap: to compute it again takes less than to record it.
pub const CHEAP: u32 = 2;

/// Cycles until the result of an instruction is there, once its operands are: what a chain of them
/// takes.
pub fn latency(op: Opcode) -> u32 {
    match op {
        Opcode::Fadd | Opcode::Fsub | Opcode::Fmul | Opcode::Fma => 4,
        Opcode::Fdiv => 13,
        Opcode::Sqrt => 20,
        _ if op.is_call() => 60,
        _ if op.can_load() => 5,
        _ => cost(op).min(4),
    }
}

/// Instructions that a core has under way if it runs one thread. Where an iteration of a loop is
/// longer, the next iteration cannot begin while this one waits for its chain.
pub const IN_FLIGHT: u32 = 256;
/// Instructions of an iteration's reverse, with what it repeats of the primal, for each of the
/// primal's.
pub const REVERSE: u32 = 3;
/// Bytes of a record that are written and read again in the time of a cycle.
pub const BYTES_A_CYCLE: u32 = 2;
/// Cycles of an iteration's chain from which on it is asked whether a record is quicker: with less,
/// the reverse has something else to do meanwhile.
pub const LONG_CHAIN: u32 = 64;

/// Whether a reverse that repeats a chain of so many cycles waits longer than it would for a record
/// of so many bytes; the iteration of the primal has so many instructions.
pub fn is_waited_for(chain: u32, insts: u32, bytes: u32) -> bool {
    insts * REVERSE > IN_FLIGHT && chain >= LONG_CHAIN && chain > bytes / BYTES_A_CYCLE
}

/// Floats that a block computes again at which that begins to take longer than the tape: a chain of
/// them is waited for.
pub const MANY_RECOMPUTED: u32 = 24;
/// Bytes that are recorded instead of each.
pub const BYTES_FOR_EACH: u32 = 6;
/// What part of a block's record may be left for quotients to be computed again: otherwise the
/// division is waited for longer than the tape.
pub const OF_ALL: (u32, u32) = (3, 5);
/// Bytes an iteration from which on recording takes longer than keeping everything in variables for
/// the length of an iteration.
pub const MANY_BYTES: u32 = 64;

/// What a call of a recursion may compute that is not cheap, by [`cost`], if its primal is to run
/// once more in place of being recorded: a frame of a pair is pushed, popped, and entered twice.
pub const FOR_A_FRAME: u32 = 16;
