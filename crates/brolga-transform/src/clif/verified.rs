//! Cranelift's verifier between the passes over derived CLIF.
//!
//! **Question.** Every emitted function is verified at the end; which pass broke it? **Answer.**
//! With `Options::verify_stages`, the verifier runs behind lowering and behind each pass that has
//! changed the function. What it finds is an internal error (AD0901) with the name of the pass; the
//! passes behind it are left out. **Cost.** A hash of the function per pass, and Cranelift's
//! verifier per change; nothing without the option.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::OnceLock;

use brolga_ir::map::HashSet;
use brolga_ir::{Diagnostic, Diagnostics};
use cranelift_codegen::ir;
use cranelift_codegen::settings::{self, Flags};

/// What the verifier says of a function behind each of its passes.
#[derive(Debug, Default)]
pub struct Passes {
    on: bool,
    /// A hash of the function as the verifier has seen it last.
    seen: u64,
    broken: Option<Box<Broken>>,
}

#[derive(Debug)]
struct Broken {
    pass: &'static str,
    function: String,
    message: String,
}

impl Passes {
    /// To be asked behind each pass, if it is `on`.
    pub fn verified(on: bool) -> Self {
        Self { on, seen: 0, broken: None }
    }

    /// Whether a pass has broken the function, so that no other may run.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Behind a pass: whether the next one may run.
    pub fn behind(&mut self, pass: &'static str, func: &ir::Function) -> bool {
        static FLAGS: OnceLock<Flags> = OnceLock::new();
        if self.on && !self.is_broken() {
            let now = hash(func);
            if std::mem::replace(&mut self.seen, now) == now {
                return true;
            }
            let flags = FLAGS.get_or_init(|| Flags::new(settings::builder()));
            if let Err(e) = cranelift_codegen::verify_function(func, flags) {
                let message = cranelift_codegen::print_errors::pretty_verifier_error(func, None, e);
                self.broken = Some(Box::new(Broken { pass, function: func.name.to_string(), message }));
            }
        }
        !self.is_broken()
    }

    /// Nothing, unless a pass broke a function that is derived from `%symbol`.
    ///
    /// # Errors
    /// The pass, and what the verifier says: a bug of ours.
    pub fn or_ok(&mut self, symbol: &str) -> Result<(), Diagnostics> {
        let Some(broken) = self.broken.take() else { return Ok(()) };
        let Broken { pass, function, message } = *broken;
        let d = Diagnostic::new("AD0901", format!("internal: {function} does not verify behind the pass `{pass}`"))
            .in_func(symbol)
            .note(message)
            .help("this is a bug in Brolga; please report it with the input");
        Err(d.into())
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
