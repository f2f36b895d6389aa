//! Buffers of lowering: the tables in which functions grow, kept for each thread.
//!
//! **Problem.** A function is a dozen tables by value, by block and by instruction, and the
//! frontend has others while it is built. They grow as instructions come, by moving again and
//! again; in small functions that is a good part of making them.
//!
//! **Answer.** Each thread keeps one function and one context of the frontend, cleared, whose
//! tables are as large as they had to be before. What is made in there is copied out, no larger
//! than it is, unless it is too large to be kept. Cranelift reuses its contexts in the same way.
//!
//! **Invariants.** What is made does not depend on what was made before. A lowering that has taken
//! the buffers has them alone: another one gets new ones meanwhile, and after a panic there are
//! none.
//!
//! **Cost.** One copy of each function that is made.

use std::cell::Cell;

use cranelift_codegen::ir;
use cranelift_frontend::FunctionBuilderContext;

/// Of functions of more instructions nothing is kept: a thread should not hold on to megabytes.
const MOST: usize = 1 << 14;

/// A function that is being made, and what the frontend remembers of it.
pub(super) struct Buffers(Box<(ir::Function, FunctionBuilderContext)>);

thread_local! {
    static SPARE: Cell<Option<Buffers>> = const { Cell::new(None) };
}

impl Buffers {
    /// Those of this thread, or new ones.
    pub(super) fn take() -> Self {
        SPARE.take().unwrap_or_else(|| Self(Box::new((ir::Function::new(), FunctionBuilderContext::new()))))
    }

    /// An empty function, and a context to build it with.
    pub(super) fn parts(&mut self) -> (&mut ir::Function, &mut FunctionBuilderContext) {
        (&mut self.0.0, &mut self.0.1)
    }

    /// What was made.
    pub(super) fn made(mut self) -> ir::Function {
        if self.0.0.dfg.num_insts() > MOST {
            return self.0.0;
        }
        let made = self.0.0.clone();
        self.0.0.clear();
        SPARE.set(Some(self));
        made
    }
}
