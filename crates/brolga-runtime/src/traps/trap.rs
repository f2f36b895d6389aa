//! Traps as the hardware reports them.
//!
//! **Question.** Generated code was stopped. At which instruction, by which signal, and why?
//!
//! **Answer.** A [`RawTrap`] has the address of the instruction, the [`Signal`], the address that
//! could not be accessed, and the [`Cause`], as far as it is known: a call to where no code is, a
//! stack that is used up, or anything else. What the instruction is of is for the compiler to say.
//!
//! **Cost.** None where there is no trap.

/// Generated code that takes one pointer and reports through it.
pub type Entry = unsafe extern "C" fn(*mut u8);

/// The signal by which the hardware reported a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGILL`: an explicit trap, in Cranelift's code.
    Ill,
    /// `SIGSEGV`: an access to memory that is not there.
    Segv,
    /// `SIGBUS`: an access beyond the end of a mapped file, or misaligned.
    Bus,
    /// `SIGFPE`: integer division by zero or overflow.
    Fpe,
    /// `SIGTRAP`: a breakpoint.
    Trap,
}

/// A trap in generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTrap {
    /// Address of the instruction that trapped; for a fault in a routine that the code has called
    /// to access memory, of the last byte of that call instruction.
    pub pc: usize,
    /// What happened.
    pub signal: Signal,
    /// The address that could not be accessed, for [`Signal::Segv`] and [`Signal::Bus`]. For the
    /// others, whatever the kernel says (usually the pc).
    pub fault_address: usize,
    /// What was going on, as far as it is known.
    pub cause: Cause,
}

/// What generated code did when a trap stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It called, or went to, an address at which there is no code: a null pointer, or a wild one.
    Call,
    /// It needed more stack than there is.
    Stack,
    /// Anything else.
    Other,
}
