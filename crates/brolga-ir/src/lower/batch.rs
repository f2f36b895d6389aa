//! Batches: shadow memory of several derivatives at once.
//!
//! **Question.** A derivative of width N has N tangents, or N cotangents, for each float of the
//! primal. Where are they? **Answer.** Beside each other: the shadow has N bytes for each byte of
//! the primal, and what belongs to a float at `p` is N floats of its size from `N p + δ` on, so
//! that vectors of lanes are loaded and stored as they are. One delta leads there, as for one
//! derivative: the shadow's address minus N times the primal's.
//!
//! ```text
//! primal   x0       x1                     float k of width w at  p + w k
//! shadow   a b c d  a b c d                its lanes at           N p + δ + N w k
//! ```
//!
//! A pointer in memory has its shadow, an address, in the first eight of its 8 N bytes. Copies and
//! zeros of n bytes are those of N n bytes. What lies in parts of a float has no such place, so
//! that programs which move floats in pieces are not derived in batches.
//!
//! **Cost.** On x86-64 an access at `8 p + δ` is one instruction, as one at `p + δ` is.

use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;

use super::context::{LowerCx, ReusedOp};
use super::segment;
use crate::inst::ShadowPlace;

/// Room for the parts of an access after its offset.
const LAST_PART: i64 = 1024;

impl LowerCx<'_> {
    /// So many times the width of a batch.
    pub(super) fn widened(&self, bytes: u32) -> u32 {
        bytes.saturating_mul(self.env.width)
    }

    /// An address times the width of a batch.
    pub(super) fn scaled(&mut self, b: &mut FunctionBuilder<'_>, address: ir::Value) -> ir::Value {
        let width = i64::from(self.env.width);
        if width == 1 {
            return address;
        }
        *self.known.entry((ReusedOp::Scaled, address, None)).or_insert_with(|| match width.count_ones() {
            1 => b.ins().ishl_imm_u(address, i64::from(width.trailing_zeros())),
            _ => b.ins().imul_imm_s(address, width),
        })
    }

    /// In a batch: the address of a shadow, or of what stands for it where there is none, and the
    /// offset of the access from there.
    pub(super) fn wide_shadow(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        field: i32,
    ) -> (ir::Value, i32) {
        let (s, d) = self.shadow_of(b, place);
        let wide_off = i64::from(place.off) * i64::from(self.env.width);
        let (s, wide_off) = match i32::try_from(wide_off + LAST_PART) {
            Ok(_) if wide_off >= i32::MIN.into() => (s, wide_off),
            _ => (b.ins().iadd_imm_s(s, wide_off), 0),
        };
        let off = wide_off as i32 + place.part as i32;
        if place.sure {
            return (s, off);
        }
        let field = if field == segment::SINK { segment::WIDE_SINK } else { segment::WIDE_ZEROS };
        let key = (ReusedOp::ShadowOr(field, wide_off), s, Some(d));
        if let Some(&at) = self.known.get(&key) {
            return (at, off);
        }
        let f = b.ins().iconst(types::I64, i64::from(field) - wide_off);
        let instead = b.ins().iadd(self.seg(), f);
        let at = b.ins().select(d, s, instead);
        self.known.insert(key, at);
        (at, off)
    }
}
