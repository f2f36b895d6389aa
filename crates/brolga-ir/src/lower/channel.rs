//! Channels of the tape: which of them a function uses, and where its values are recorded.
//!
//! **Question.** A typed tape has a channel for each kind of value. In which is a name recorded, a
//! block's number, an address, or the shadow of a slot?
//!
//! **Answer.** An ordinary tape has one channel for all. Of a typed one, [`LowerCx::channel`] goes
//! by the type and by whether a name is an address; numbers of blocks are integers, positions of
//! the tape addresses, and shadows of slots doubles.
//!
//! **Cost.** A question for each field of a record. In a run, a position for each channel that a
//! function uses.

use cranelift_codegen::ir::Type;
use smallvec::SmallVec;

use super::context::LowerCx;
use super::typed::Channel;
use crate::inst::Val;

impl LowerCx<'_> {
    /// The channels that this function uses.
    pub(super) fn channels(&self) -> SmallVec<[Channel; Channel::COUNT]> {
        let used = |c: &Channel| self.tapes[c.index()].is_some();
        [Channel::Mixed].into_iter().chain(Channel::TYPED).filter(used).collect()
    }

    /// Where a name is recorded.
    pub(super) fn channel(&self, name: Val, ty: Type) -> Channel {
        let Some(typed) = self.env.typed else { return Channel::Mixed };
        let is_address = match name {
            Val::Primal(v) => (typed.is_address)(v),
            Val::Delta(_) | Val::Aux(..) => true,
            Val::Tangent(..) | Val::D(_) => false,
        };
        Channel::of(ty, is_address)
    }

    /// Where numbers of blocks are.
    pub(super) fn number_channel(&self) -> Channel {
        if self.env.typed.is_some() { Channel::Integers } else { Channel::Mixed }
    }

    /// Where addresses are, and positions of the tape.
    pub(super) fn address_channel(&self) -> Channel {
        if self.env.typed.is_some() { Channel::Addresses } else { Channel::Mixed }
    }

    /// Where the shadows of stack slots are.
    pub(super) fn slot_channel(&self) -> Channel {
        if self.env.typed.is_some() { Channel::Doubles } else { Channel::Mixed }
    }

    /// The fields of a record that belong to a channel, by their positions.
    pub(super) fn fields_in(&self, channel: Channel, fields: &[(Val, Type)]) -> SmallVec<[usize; 8]> {
        (0..fields.len()).filter(|&k| self.channel(fields[k].0, fields[k].1) == channel).collect()
    }
}
