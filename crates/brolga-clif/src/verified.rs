//! Verification between passes, by Cranelift's verifier.
//!
//! **Question.** A function does not verify after all passes; which of them broke it? **Answer.**
//! The verifier runs once, after the last pass ([`Passes::is_sound`]). Only if it finds something
//! do the passes run again, on the function as it was, and then it runs after each that has
//! changed the function ([`Passes::each`]): the same input gives the same output. What it finds is
//! kept with the name of the pass ([`PassFailure`]); the passes after it are left out. **Cost.**
//! Cranelift's verifier once, and a copy of the function; nothing if it is switched off.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::map::HashSet;
use cranelift_codegen::ir;
use cranelift_codegen::settings::{self, Flags};

/// What the verifier says of a function behind each of its passes.
#[derive(Debug, Default)]
pub struct Passes {
    on: bool,
    /// Whether each pass is followed by the verifier.
    each: bool,
    /// A hash of the function as the verifier has seen it last.
    seen: u64,
    broken: Option<Box<PassFailure>>,
}

/// A function that does not verify after a pass.
#[derive(Debug)]
pub struct PassFailure {
    /// The pass.
    pub pass: &'static str,
    /// The function's name.
    pub function: String,
    /// What the verifier says.
    pub message: String,
}

impl Passes {
    /// To be asked after the last pass, if it is `on`.
    pub fn verified(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// To be asked after each pass.
    pub fn each() -> Self {
        Self { on: true, each: true, ..Self::default() }
    }

    /// Whether it is switched on.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// After all passes: whether the function verifies. What is found is kept.
    pub fn is_sound(&mut self, func: &ir::Function) -> bool {
        if self.on && !self.is_broken() {
            self.verify("clif", func);
        }
        !self.is_broken()
    }

    /// Whether a pass has broken the function, so that no other may run.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// After a pass: whether the next one may run.
    pub fn check_after(&mut self, pass: &'static str, func: &ir::Function) -> bool {
        if self.each && !self.is_broken() {
            let now = hash(func);
            if std::mem::replace(&mut self.seen, now) == now {
                return true;
            }
            self.verify(pass, func);
        }
        !self.is_broken()
    }

    fn verify(&mut self, pass: &'static str, func: &ir::Function) {
        static FLAGS: OnceLock<Flags> = OnceLock::new();
        let flags = FLAGS.get_or_init(|| Flags::new(settings::builder()));
        if let Err(e) = cranelift_codegen::verify_function(func, flags) {
            let message = cranelift_codegen::print_errors::pretty_verifier_error(func, None, e);
            self.broken = Some(Box::new(PassFailure { pass, function: func.name.to_string(), message }));
        }
    }

    /// Keep what was found before, if no pass has been found to be the one.
    pub fn or(&mut self, found: Option<PassFailure>) {
        self.broken = self.broken.take().or(found.map(Box::new));
    }

    /// What a pass has broken, if one has; it is forgotten.
    pub fn take_broken(&mut self) -> Option<PassFailure> {
        self.broken.take().map(|b| *b)
    }
}

/// A hash of all instructions in their order, with their operands.
fn hash(func: &ir::Function) -> u64 {
    let mut state = HashSet::<u64>::default().hasher().build_hasher();
    for b in func.layout.blocks() {
        b.hash(&mut state);
        func.dfg.block_params(b).hash(&mut state);
        for inst in func.layout.block_insts(b) {
            inst.hash(&mut state);
            func.dfg.insts[inst].hash(&mut state, &func.dfg.value_lists);
            func.dfg.inst_results(inst).hash(&mut state);
        }
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir;

    use super::Passes;

    const TEXT: &str = "function %f(i64) -> i64 { block0(v0: i64): v1 = iadd v0, v0 return v1 }";

    fn function() -> ir::Function {
        cranelift_reader::parse_functions(TEXT).unwrap_or_else(|e| panic!("{e}")).remove(0)
    }

    /// A pass that leaves a block without a terminator.
    fn breaks(func: &mut ir::Function) {
        let last = func.layout.last_inst(func.layout.entry_block().expect("it has one")).expect("it has one");
        func.layout.remove_inst(last);
    }

    #[test]
    fn what_is_broken_is_seen_behind_all_passes_and_named_behind_each() {
        let (sound, mut broken) = (function(), function());
        breaks(&mut broken);
        let mut passes = Passes::verified(true);
        assert!(passes.check_after("first", &broken) && passes.is_sound(&sound));
        assert!(!passes.is_sound(&broken) && passes.take_broken().is_some());
        assert!(Passes::verified(false).is_sound(&broken));

        let mut passes = Passes::each();
        assert!(passes.check_after("first", &sound) && !passes.check_after("second", &broken));
        assert!(!passes.check_after("third", &sound), "nothing runs any more");
        assert_eq!(passes.take_broken().map(|b| b.pass), Some("second"));
    }
}
