//! Helper of inverse pairs: what generated code calls for calls that an inverse undoes
//! ([`crate::states::inverses`] has the states).
//!
//! **Question.** A call of a function, its inverse, and its gradient change one state in turn. What
//! has to be kept and checked at each point?
//!
//! **Answer.** [`brolga_inverse`] is called at each, with a code of the point ([`code`]) and the
//! parts of the state: where a call begins and ends, where it has been undone at once to be
//! compared, and in the pullback before the inverse, before the gradient, and after it.
//!
//! **Errors.** A fault is kept in the segment, and the call returns zero.
//!
//! **Safety.** Calls begin before they end, and pullbacks run in the opposite order of calls. The
//! state may be read and written, or the call is guarded.
//!
//! **Cost.** A call at each point; a comparison or a copy of the state where the kind of check asks
//! for it.

use crate::segment::Segment;
use crate::states::ProgramState;
use crate::states::inverses::{InverseFault, UndoCheck};
use crate::traps;

/// What [`brolga_inverse`] is told, and what it is asked for.
pub mod code {
    /// A call begins.
    pub const BEGIN: u64 = 0;
    /// It has run.
    pub const END: u64 = 1;
    /// It has been undone at once.
    pub const COMPARE: u64 = 2;
    /// A pullback begins.
    pub const UNDO: u64 = 3;
    /// The call has been undone.
    pub const REDO: u64 = 4;
    /// The gradient has run.
    pub const DONE: u64 = 5;
    /// From this bit on: how many parts the state has.
    pub const PARTS: u64 = 8;
    /// From this bit on: what is checked. Nothing; within a tolerance; bit by bit; or so with what
    /// differs on record.
    pub const CHECK: u64 = 32;
    /// What is checked if floats may differ. Then there is a word more for each part: how many
    /// bytes a float has there, or zero if there are both.
    pub const WITHIN: u64 = 4;
    /// What is checked if all bits count.
    pub const BITS: u64 = 1;
    /// The same, where what differs is recorded.
    pub const RECORD: u64 = 2;
}

traps::leaf! {
    /// What there is to do at a point of a call that is undone, or of its pullback: see [`code`].
    /// `words` are the tolerance, the address and length of each part of the state, and within a
    /// tolerance the widths. Returns 0 if there is a fault.
    ///
    /// # Safety
    /// `seg` is a valid segment that no other thread uses, there are as many words, and the state
    /// may be read and written, or the call is guarded. A call begins before it ends, and pullbacks
    /// run in the opposite order of calls.
    pub(super) fn brolga_inverse(seg: *mut Segment, words: *const u64, what: u64; caller) -> u64 {
        let parts = (what >> code::PARTS & 0xffff) as usize;
        let widths = usize::from(what >> code::CHECK == code::WITHIN);
        // SAFETY: our contract.
        let (seg, words) = unsafe { (&mut *seg, std::slice::from_raw_parts(words, 1 + (2 + widths) * parts)) };
        let check = match what >> code::CHECK {
            0 => UndoCheck::Off,
            code::BITS => UndoCheck::Bits,
            code::RECORD => UndoCheck::Record,
            _ => UndoCheck::Within { widths: &words[1 + 2 * parts..], tolerance: f64::from_bits(words[0]) },
        };
        let all = &mut seg.inverses;
        let done = ProgramState::new(&words[1..1 + 2 * parts]).map_err(InverseFault::from).and_then(|state| match what & 0xff {
            code::BEGIN => all.begin(state, check, caller),
            code::END => {
                all.end(&state, caller);
                Ok(())
            }
            code::COMPARE => all.compare(&state, check, caller),
            code::UNDO => all.undo(&state, seg.cursor, caller),
            code::REDO => all.redo(&state, check, caller),
            _ => all.done(&state, check, &mut seg.cursor, caller),
        });
        match done {
            Ok(()) => 1,
            Err(fault) => {
                seg.inverses.fault = Some(fault);
                0
            }
        }
    }
}
