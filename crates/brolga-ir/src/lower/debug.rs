//! Checks that only a debug run has: of shadow accesses, and of the tape's protocol.
//!
//! **Question.** A caller may declare its buffers wrongly, and a bug may read a record that is
//! another's. How is that seen where it happens? **Answer.** By what is asked of the run time, and
//! by numbers beside what is recorded.
//!
//! **Shadows.** Before each access the run time is asked (`brolga_debug_shadow`) whether it agrees
//! with what the caller declared; its answer is a sum of bits, one for each check that traps.
//! Whether an access is inside of a buffer is only asked where its pointer comes from a parameter:
//! a pointer that was loaded may have a declared buffer's delta by chance.
//!
//! **Tape.** A pullback relies on popping what its forward pass pushed, and nothing else. In a
//! debug run each record, each frame and each link to a frame carries a *seal*, a number that names
//! the function and what was recorded:
//!
//! ```text
//!   record   [ values … | seal | block number ]     frame  [ top before | … | seal ]     link  [ seal | frame ]
//! ```
//!
//! The number of a block stays last, because the pullback looks there before it knows whose record
//! it is. The seals of a frame and of a link are combined with the address beside them, since a
//! wrong address would lead anywhere. A seal is checked before what it covers is used.
//!
//! **Steps.** Before each store of the primal the run time is asked (`brolga_debug_store`) whether
//! a step of a time loop is running, and writes to a buffer of the caller's outside of its states.
//!
//! **Invariants.** Without `debug` nothing here emits an instruction, and seals take no space.
//! Seals depend on names only, so that they are the same in both halves and in every derivation.
//!
//! **Cost.** Of a debug run alone: a call for each access of a shadow, eight bytes and a comparison
//! for each record, frame and link, and a call for each store of a step.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, InstructionData, Opcode, types};
use cranelift_frontend::FunctionBuilder;

use super::context::LowerCx;
use super::typed::Channel;
use crate::inst::{Check, ShadowPlace, Val};
use crate::program::symbol_of;

/// Where an access of a shadow is: an address of the primal, a delta, an offset.
struct ShadowAddress {
    addr: ir::Value,
    delta: ir::Value,
    off: i32,
}

/// Bytes of a seal.
const SEAL: u32 = 8;

/// Bits of the helper's answer; a test says that the run time agrees.
pub mod answer {
    /// [`Check::ShadowBounds`](crate::inst::Check::ShadowBounds).
    pub const SHADOW_BOUNDS: i64 = 1;
    /// [`Check::ShadowAliasesPrimal`](crate::inst::Check::ShadowAliasesPrimal).
    pub const SHADOW_ALIASES_PRIMAL: i64 = 2;
    /// [`Check::ConstAlias`](crate::inst::Check::ConstAlias).
    pub const CONST_ALIAS: i64 = 4;
}

/// What an access means, if there is no shadow behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingShadow {
    /// A derivative is lost if the memory has a shadow under another pointer.
    Loses,
    /// Nothing that we can tell.
    Nothing,
}

/// What is asked of an access.
#[derive(Clone, Copy)]
struct AccessChecks {
    /// The pointer comes from a parameter, so it must stay in the buffer that was declared for it.
    ours: bool,
    missing: MissingShadow,
}

/// How many bytes are written.
#[derive(Clone, Copy)]
enum Length {
    Bytes(u32),
    Value(ir::Value),
}

/// What an instruction writes to memory: address, offset and length.
fn written(func: &ir::Function, inst: ir::Inst) -> Option<(ir::Value, i32, Length)> {
    let dfg = &func.dfg;
    let bytes = |v: ir::Value| Length::Bytes(dfg.value_type(v).bytes());
    let (addr, off, length) = match dfg.insts[inst] {
        InstructionData::Store { opcode, args, offset, .. } => {
            let length = match opcode {
                Opcode::Istore8 => Length::Bytes(1),
                Opcode::Istore16 => Length::Bytes(2),
                Opcode::Istore32 => Length::Bytes(4),
                _ => bytes(args[0]),
            };
            (args[1], offset.into(), length)
        }
        InstructionData::StoreNoOffset { args, .. } => (args[1], 0, bytes(args[0])),
        InstructionData::AtomicCas { args, .. } => (args[0], 0, bytes(args[2])),
        InstructionData::AtomicRmw { args, .. } => (args[0], 0, bytes(args[1])),
        InstructionData::Call { func_ref, .. } => {
            let symbol = symbol_of(func, &dfg.ext_funcs[func_ref].name);
            match (symbol.as_str(), dfg.inst_args(inst)) {
                ("memcpy" | "memmove" | "memset", &[to, _, n]) if dfg.value_type(n) == types::I64 => {
                    (to, 0, Length::Value(n))
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    (dfg.value_type(addr) == types::I64).then_some((addr, off, length))
}

impl LowerCx<'_> {
    /// Whether a delta is that of a parameter.
    fn is_of_parameter(&self, delta: Val) -> bool {
        let (Val::Delta(v), Some(entry)) = (delta, self.env.primal.layout.entry_block()) else { return false };
        self.env.primal.dfg.block_params(entry).contains(&v)
    }

    /// Bytes that a seal takes.
    pub(super) fn seal_bytes(&self) -> u32 {
        if self.env.debug { SEAL } else { 0 }
    }

    /// The seal of a record, by what it holds and its block's number; any if no check is going to
    /// look.
    pub(super) fn record_seal(&self, vals: &[Val], id: Option<u32>) -> i64 {
        if !self.env.debug {
            return 0;
        }
        let mut text = id.map_or_else(String::new, |i| i.to_string());
        for v in vals {
            text += &format!(" {v}");
        }
        self.seal(&text)
    }

    fn seal(&self, what: &str) -> i64 {
        let name = self.env.primal.name.to_string();
        // FNV-1a: any hash that is the same everywhere will do.
        let bytes = name.bytes().chain([0]).chain(what.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)) as i64
    }

    fn seal_value(&self, b: &mut FunctionBuilder<'_>, seal: i64, covers: Option<ir::Value>) -> ir::Value {
        let seal = b.ins().iconst(types::I64, seal);
        covers.map_or(seal, |c| b.ins().bxor(seal, c))
    }

    /// Write a seal at `at.0 + at.1`; it also covers the address `covers`.
    pub(super) fn put_seal(
        &self,
        b: &mut FunctionBuilder<'_>,
        at: (ir::Value, i32),
        seal: i64,
        covers: Option<ir::Value>,
    ) {
        if self.env.debug {
            let flags = self.tape_flags(b, Channel::Mixed);
            let seal = self.seal_value(b, seal, covers);
            b.ins().store(flags, seal, at.0, at.1);
        }
    }

    /// Trap if there is another number at `at.0 + at.1` than [`Self::put_seal`] has written.
    pub(super) fn check_seal(
        &self,
        b: &mut FunctionBuilder<'_>,
        at: (ir::Value, i32),
        seal: i64,
        covers: Option<ir::Value>,
        inst: Option<ir::Inst>,
    ) {
        if self.env.debug {
            let flags = self.tape_flags(b, Channel::Mixed);
            let found = b.ins().load(types::I64, flags, at.0, at.1);
            let seal = self.seal_value(b, seal, covers);
            let wrong = b.ins().icmp(IntCC::NotEqual, found, seal);
            self.trap_if(b, wrong, Check::TapeCorrupt, inst);
        }
    }

    /// Check the seal of a frame of `size` bytes, and with it the tape's position before the call.
    pub(super) fn check_frame(&self, b: &mut FunctionBuilder<'_>, fp: ir::Value, size: u32, inst: Option<ir::Inst>) {
        if self.env.debug {
            let flags = self.tape_flags(b, Channel::Mixed);
            let before = b.ins().load(types::I64, flags, fp, 0);
            self.check_seal(b, (fp, size as i32), self.frame_seal(), Some(before), inst);
        }
    }

    /// The seal at the end of an activation frame.
    pub(super) fn frame_seal(&self) -> i64 {
        self.seal("frame")
    }

    /// The seal of the link that leads to a frame.
    pub(super) fn link_seal(&self) -> i64 {
        self.seal("link")
    }

    /// Check an access of `bytes` bytes to a shadow.
    pub(super) fn check_access(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        bytes: u32,
        missing: MissingShadow,
        at: Option<ir::Inst>,
    ) {
        if self.env.debug {
            let n = b.ins().iconst(types::I64, i64::from(bytes));
            let (addr, delta) = (self.get(place.addr), self.get(place.delta));
            let ours = self.is_of_parameter(place.delta);
            self.ask(b, ShadowAddress { addr, delta, off: place.off }, n, AccessChecks { ours, missing }, at);
        }
    }

    /// Check a store of the primal, or a copy to memory.
    pub(super) fn check_store(&mut self, b: &mut FunctionBuilder<'_>, inst: ir::Inst) {
        let Some((addr, off, length)) = written(self.env.primal, inst).filter(|_| self.env.debug) else { return };
        let off = b.ins().iconst(types::I64, i64::from(off));
        let n = match length {
            Length::Bytes(n) => b.ins().iconst(types::I64, i64::from(n)),
            Length::Value(v) => self.get(Val::Primal(v)),
        };
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend([types::I64; 4].map(AbiParam::new));
        sig.returns.push(AbiParam::new(types::I64));
        let f = self.symbol(b, "brolga_debug_store", &sig);
        let (seg, addr) = (self.seg(), self.get(Val::Primal(addr)));
        let call = b.ins().call(f, &[seg, addr, off, n]);
        let found = b.inst_results(call)[0];
        self.trap_if(b, found, Check::TimeLoop, Some(inst));
    }

    fn ask(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        ShadowAddress { addr, delta, off }: ShadowAddress,
        n: ir::Value,
        asked: AccessChecks,
        at: Option<ir::Inst>,
    ) {
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend([types::I64; 5].map(AbiParam::new));
        sig.returns.push(AbiParam::new(types::I64));
        let f = self.symbol(b, "brolga_debug_shadow", &sig);
        let off = b.ins().iconst(types::I64, i64::from(off));
        let seg = self.seg();
        let call = b.ins().call(f, &[seg, addr, delta, off, n]);
        let found = b.inst_results(call)[0];
        let checks = [
            (answer::SHADOW_ALIASES_PRIMAL, Check::ShadowAliasesPrimal, true),
            (answer::SHADOW_BOUNDS, Check::ShadowBounds, asked.ours),
            (answer::CONST_ALIAS, Check::ConstAlias, asked.missing == MissingShadow::Loses),
        ];
        let wanted = || checks.iter().filter(|c| c.2);
        let any = b.ins().band_imm_s(found, wanted().map(|c| c.0).sum::<i64>());
        if wanted().count() == 1 {
            return self.trap_if(b, any, Check::ShadowAliasesPrimal, at);
        }
        self.rarely(b, any, None, |cx, b| {
            for &(bit, check, _) in wanted() {
                let bit = b.ins().band_imm_s(found, bit);
                cx.trap_if(b, bit, check, at);
            }
            found
        });
    }

    /// Check the shadows that a helper of the run time is about to use.
    pub(super) fn check_helper(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        symbol: &str,
        names: &[Option<Val>],
        args: &[ir::Value],
        at: Option<ir::Inst>,
    ) {
        if !self.env.debug {
            return;
        }
        let ours = |i: usize| names[i].is_some_and(|n| self.is_of_parameter(n));
        let ours: Vec<bool> = (0..names.len()).map(ours).collect();
        let missing = if self.forward { MissingShadow::Nothing } else { MissingShadow::Loses };
        // Some are given the segment first.
        let first = usize::from(matches!(symbol, "brolga_move_rev" | "brolga_clear"));
        let ours = &ours[first..];
        match (symbol, &args[first..]) {
            ("brolga_zero", &[addr, delta, n]) | ("brolga_clear", &[addr, delta, n, _]) => {
                self.ask(b, ShadowAddress { addr, delta, off: 0 }, n, AccessChecks { ours: ours[1], missing }, at)
            }
            (
                "brolga_copy_shadow" | "brolga_memmove_rev" | "brolga_move_rev",
                &[to, to_delta, from, from_delta, n, ..],
            ) => {
                for (addr, delta, ours) in [(to, to_delta, ours[1]), (from, from_delta, ours[3])] {
                    self.ask(b, ShadowAddress { addr, delta, off: 0 }, n, AccessChecks { ours, missing }, at);
                }
                if symbol != "brolga_copy_shadow" {
                    // What a store of the same floats would be refused for.
                    let lost = b.ins().icmp_imm_s(IntCC::Equal, to_delta, 0);
                    let known = b.ins().icmp_imm_s(IntCC::NotEqual, from_delta, 0);
                    let some = b.ins().icmp_imm_s(IntCC::NotEqual, n, 0);
                    let both = b.ins().band(lost, known);
                    let both = b.ins().band(both, some);
                    self.trap_if(b, both, Check::ConstStore, at);
                }
            }
            _ => {}
        }
    }
}
