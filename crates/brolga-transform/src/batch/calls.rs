//! Calls in a batch: the callee gets all derivatives at once, in vectors or side by side in memory.
//!
//! **Question.** A call is given a name that stands for N derivatives. What is called?
//!
//! **Answer.** A derived function of the program has the same width, and gets all parts of what is
//! wide. A helper that computes is called once for each derivative. One that works on memory is
//! told of N times as many bytes, at N times the address.
//!
//! **Cost.** In the run one call for each derivative where a helper computes; else one.

use brolga_ir::InstId;
use brolga_ir::inst::{AdInst, AdOp, Arith, Callee, Defs, Tape, Val};
use cranelift_codegen::ir::{AbiParam, types};

use super::parts::chunks;
use super::{Widener, wide_signature};
use brolga_analysis::variant::{DERIVED_CONV, HELPER_CONV};

/// A helper that allocates memory with a shadow, and the one for a batch, which is told of the
/// width.
fn allocates(symbol: &str) -> Option<&'static str> {
    Some(match symbol {
        "brolga_malloc" => "brolga_malloc_wide",
        "brolga_calloc" => "brolga_calloc_wide",
        "brolga_realloc" => "brolga_realloc_wide",
        _ => return None,
    })
}

/// Which operands of a helper are primal addresses, or bytes of the primal.
fn of_primal_memory(symbol: &str) -> &'static [usize] {
    match symbol {
        "brolga_tangent_zero" => &[1, 3],
        "brolga_tangent_copy" | "brolga_move_poison" => &[1, 3, 5],
        "brolga_zero" => &[0, 2],
        "brolga_copy_shadow" | "brolga_memmove_rev" => &[0, 2, 4],
        "brolga_copy_pointers" | "brolga_drop_pointers" => &[0, 2, 4],
        "brolga_meets_pointers" => &[1, 5],
        _ => &[],
    }
}

impl Widener<'_, '_> {
    /// A call.
    pub(super) fn call(&mut self, id: InstId, inst: AdInst, reads_wide: bool) {
        let AdOp::Call { callee, args, sig, tape } = inst.op.clone() else { unreachable!("a call") };
        if tape == Tape::Above {
            return self.unfit("a call that runs whole in the reverse half");
        }
        if sig.call_conv == DERIVED_CONV {
            return self.derived(inst.defs, callee, &args, tape, &sig);
        }
        let Callee::Symbol(symbol) = &callee else { return self.unfit("this call") };
        let scaled = of_primal_memory(symbol);
        if matches!(&symbol[..], "brolga_malloc_rev" | "brolga_realloc_rev") {
            let args = args.iter().map(|shadow| shadow.map(|s| self.shadow(s))).collect();
            return self.put(inst.defs, AdOp::Call { callee, args, sig, tape });
        }
        if matches!(&symbol[..], "brolga_move_rev" | "brolga_clear") {
            return self.unfit("a copy of memory of which it is not known what floats it holds");
        }
        if let Some(wide) = allocates(symbol) {
            let (mut args, mut sig) = (args.to_vec(), sig);
            args.push(Some(self.arith(Arith::Iconst(self.width as i64), &[], types::I64)));
            sig.params.push(AbiParam::new(types::I64));
            self.put(inst.defs, AdOp::Call { callee: Callee::Symbol(wide.into()), args: args.into(), sig, tape });
        } else if !scaled.is_empty() {
            let mut args = args;
            for &i in scaled {
                let n = self.arith(Arith::Iconst(self.width as i64), &[], types::I64);
                let one = args[i].expect("an operand");
                args[i] = Some(self.arith(Arith::Imul, &[one, n], types::I64));
            }
            self.put(inst.defs, AdOp::Call { callee, args, sig, tape });
        } else if reads_wide && sig.call_conv == HELPER_CONV && !symbol.starts_with("brolga_tangent_") {
            self.for_each(&inst, &args);
        } else if reads_wide {
            self.unfit("this call");
        } else {
            self.out.insert(id, inst);
        }
    }

    /// The address of a shadow, by that of a name that is one of a single derivative.
    fn shadow(&mut self, of: Val) -> Val {
        let Some(&[address, delta]) = self.shadows.get(&of) else { return of };
        let n = self.arith(Arith::Iconst(self.width as i64), &[], types::I64);
        let address = self.arith(Arith::Imul, &[address, n], types::I64);
        self.arith(Arith::Iadd, &[address, delta], types::I64)
    }

    /// A helper that computes one number from others.
    fn for_each(&mut self, inst: &AdInst, args: &[Option<Val>]) {
        let AdOp::Call { callee, sig, tape, .. } = &inst.op else { unreachable!("a call") };
        let ([(name, ty)], Some(args)) = (&inst.defs[..], args.iter().copied().collect::<Option<Vec<Val>>>()) else {
            return self.unfit("this call");
        };
        let op = |args: &[Val]| AdOp::Call {
            callee: callee.clone(),
            args: args.iter().copied().map(Some).collect(),
            sig: sig.clone(),
            tape: *tape,
        };
        let parts = self.each_lane(&args, *ty, op);
        self.define(*name, *ty, parts);
    }

    /// A derived function: what comes after its segment, and after the results and deltas that
    /// come back, is that of a derivative.
    fn derived(
        &mut self,
        defs: Defs,
        callee: Callee,
        args: &[Option<Val>],
        tape: Tape,
        sig: &cranelift_codegen::ir::Signature,
    ) {
        let params = args.iter().position(Option::is_none).map_or(args.len(), |seg| seg + 1);
        let results = defs.iter().take_while(|d| matches!(d.0, Val::Primal(_) | Val::Delta(_))).count();
        let mut given = args[..params].to_vec();
        for (arg, param) in args.iter().zip(&sig.params).skip(params) {
            let arg = arg.expect("there is one segment");
            given.extend(self.parts(arg, param.value_type).into_iter().map(Some));
        }
        let mut back: Vec<_> = defs[..results].to_vec();
        for &(name, ty) in &defs[results..] {
            let parts = self.named(name, ty);
            back.extend(parts.into_iter().zip(chunks(ty, self.width)));
        }
        let sig = Box::new(wide_signature(sig, (params, results), self.width as u32));
        self.put(back.into_iter().collect(), AdOp::Call { callee, args: given.into(), sig, tape });
    }
}
