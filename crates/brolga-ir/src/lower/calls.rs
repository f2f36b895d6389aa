//! Lowering of calls: of derived functions, of helpers of the run time, and of what stands in a
//! table.
//!
//! **Question.** A derived instruction calls. What stands around the call in CLIF?
//!
//! **Answer.** The position of the tape is written to the segment before a call that uses the
//! tape, and read after one that moves it. A helper that does nothing for a ticket of zero is
//! called on a cold way. Forward pass and pullback of a function's address are looked up by the run
//! time, or where there is none by functions of the program.
//!
//! **Cost.** In the run two accesses to the segment for each call that uses the tape.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::context::LowerCx;
use super::segment;
use super::typed::{Position, half_of};
use crate::inst::{AdInst, Callee, Check, Tape, Val};

/// Helpers that are given the segment and a ticket, and whose result is zero if the ticket is: as
/// it is for what is no float, so that nothing is called.
const OF_TICKETS: [&str; 6] = [
    "brolga_any_bytes",
    "brolga_drop_digits",
    "brolga_part_of_bytes",
    "brolga_double_of_bytes",
    "brolga_single_of_bytes",
    "brolga_singles_of_bytes",
];

/// A call of a graph: the members of `AdOp::Call`.
pub(super) struct CallInst<'c> {
    pub callee: &'c Callee,
    /// `None` stands for the segment.
    pub args: &'c [Option<Val>],
    pub sig: &'c ir::Signature,
    pub tape: Tape,
}

impl LowerCx<'_> {
    /// A call as CLIF.
    pub(super) fn call(&mut self, b: &mut FunctionBuilder<'_>, call: CallInst<'_>, inst: &AdInst) {
        let CallInst { callee, args, sig, tape } = call;
        self.join_aside(b);
        match tape {
            Tape::Moves if self.uses_tape => self.publish(b),
            Tape::Above if self.uses_tape => self.publish_as(b, Position::Top),
            Tape::Moves | Tape::Above | Tape::Aside => {}
        }
        let names = args;
        let mut args: Vec<_> = args.iter().map(|a| a.map_or_else(|| self.seg(), |v| self.get(v))).collect();
        let mut sig = sig.clone();
        if sig.call_conv != CallConv::Fast {
            // A helper of the run time: a C function of the host.
            sig.call_conv = self.env.target.default_call_conv;
        }
        if let (Callee::Symbol(s), [(name, ty)]) = (callee, &inst.defs[..])
            && OF_TICKETS.contains(&&**s)
        {
            let none = self.zero(b, *ty);
            let found = self.rarely(b, args[1], Some(none), |cx, b| {
                let f = cx.symbol(b, s, &sig);
                let call = b.ins().call(f, &args);
                b.inst_results(call)[0]
            });
            return self.name(*name, found.expect("there is one"));
        }
        let call = match callee {
            Callee::Symbol(s) if self.without_pieces(s).is_some() => {
                let f = self.without_pieces(s).expect("asked");
                sig.params.remove(0);
                let f = self.symbol(b, f, &sig);
                b.ins().call(f, &args[1..])
            }
            Callee::Symbol(s) => {
                self.settle_for_helper(b, s, &args, inst.at);
                if let ("brolga_clear" | "brolga_move_rev", Some(of)) = (&s[..], args.last_mut()) {
                    *of = self.with_account(b, *of);
                }
                self.check_helper(b, s, names, &args, inst.at);
                let f = self.symbol(b, s, &sig);
                b.ins().call(f, &args)
            }
            Callee::Pointer(p) => {
                let p = self.get(*p);
                let s = b.import_signature(sig);
                b.ins().call_indirect(s, p, &args)
            }
        };
        let results: Vec<_> = b.inst_results(call).to_vec();
        for (&(name, _), &r) in inst.defs.iter().zip(&results) {
            self.name(name, r);
        }
        if let (Callee::Symbol(s), [_, _, Some(delta), ..], [pending]) = (callee, names, &results[..])
            && s.starts_with("brolga_pending")
        {
            self.pending.insert(*delta, *pending);
        }
        if tape == Tape::Moves && self.uses_tape {
            self.reload(b);
        }
    }

    /// What a helper of forward mode is where no float of the program moves in pieces: nothing is
    /// dirty, so nothing may be marked, since nothing would clean it.
    fn without_pieces(&self, symbol: &str) -> Option<&'static str> {
        let is_standalone = self.env.typed.is_some() || self.env.standalone.is_some();
        match symbol {
            _ if self.env.pieces || is_standalone => None,
            "brolga_tangent_zero" => Some("brolga_zero"),
            "brolga_tangent_copy" => Some("brolga_copy_shadow"),
            _ => None,
        }
    }

    /// Forward pass and pullback of the function with this address.
    pub(super) fn lookup(&mut self, b: &mut FunctionBuilder<'_>, addr: Val, signature: u64, inst: &AdInst) {
        if self.env.standalone.is_some() {
            return self.ask_for_halves(b, addr, signature, inst);
        }
        let flags = MemFlagsData::trusted().with_readonly();
        let captures = b.ins().load(types::I64, flags, self.seg(), segment::CAPTURES);
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend([types::I64; 3].map(ir::AbiParam::new));
        sig.returns.push(ir::AbiParam::new(types::I64));
        let f = self.symbol(b, "brolga_lookup", &sig);
        let id = b.ins().iconst(types::I64, signature as i64);
        let a = self.get(addr);
        let call = b.ins().call(f, &[captures, a, id]);
        let pair = b.inst_results(call)[0];
        let z = b.ins().iconst(types::I64, 0);
        let none = b.ins().icmp(IntCC::Equal, pair, z);
        self.trap_if(b, none, Check::UnknownCallee, inst.at);
        for (k, &(name, _)) in inst.defs.iter().enumerate() {
            let r = b.ins().load(types::I64, MemFlagsData::trusted(), pair, 8 * (k as i32 + 1));
            self.name(name, r);
        }
    }

    /// The same, by functions of the program.
    fn ask_for_halves(&mut self, b: &mut FunctionBuilder<'_>, addr: Val, signature: u64, inst: &AdInst) {
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.push(ir::AbiParam::new(types::I64));
        sig.returns.push(ir::AbiParam::new(types::I64));
        let (a, nth) = (self.get(addr), self.env.standalone.map_or(0, |s| s.nth));
        for (&(name, _), forward) in inst.defs.iter().zip([true, false]) {
            let f = self.symbol(b, &half_of(signature, forward, nth), &sig);
            let call = b.ins().call(f, &[a]);
            let half = b.inst_results(call)[0];
            self.name(name, half);
        }
    }
}
