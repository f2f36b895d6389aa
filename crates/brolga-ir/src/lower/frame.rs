//! Activation frame: where it is, and what lies where in it.
//!
//! **Question.** Where does one call of a derived function keep what its reverse half needs at
//! fixed places?
//!
//! **Answer.** In a frame ([`FrameLayout`]): on the tape, in a stack slot of a combined function,
//! or in variables ([`FrameHome`]). A [`SlotPlace`] says where the shadow of a stack slot lies in
//! it, where the slot itself if memory is put back, and when the shadow is cleared.
//!
//! **Invariant.** On the tape, offset 0 holds the tape's position before the call.
//!
//! **Cost.** In a run, the frame's bytes for each call, unless they are in variables, and stores
//! that clear the shadows of slots.

use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;

/// Where one stack slot lies in the activation frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotPlace {
    /// Offset of its shadow.
    pub shadow: u32,
    /// Offset of the slot itself, in memory mode `restore`.
    pub primal: Option<u32>,
    /// Size in bytes.
    pub size: u32,
    /// Whether the shadow is cleared as the activation begins. For a forward pass that does not use
    /// it, it need not be.
    pub at_enter: bool,
    /// Whether it is cleared between the halves of a combined function.
    pub between_halves: bool,
}

/// Where the activation frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameHome {
    /// On the tape, where the pullback finds it when the forward pass has returned.
    #[default]
    Tape,
    /// A stack slot of a combined function, but for what is a variable
    /// ([`FrameSlot::as_variable`](crate::inst::FrameSlot::as_variable)).
    Stack,
    /// A stack slot of a combined function for the shadows of the primal's slots; everything else
    /// stays in variables, and so in registers as far as there are any.
    Variables,
}

/// The activation frame: what one call of a derived function keeps for its reverse half, at fixed
/// offsets.
///
/// On the tape, offset 0 holds the tape's position before the call.
#[derive(Clone, Debug, Default)]
pub struct FrameLayout {
    /// Where it is.
    pub home: FrameHome,
    /// Size in bytes.
    pub size: u32,
    /// Stack slots that have a shadow.
    pub slots: SecondaryMap<ir::StackSlot, Option<SlotPlace>>,
}
