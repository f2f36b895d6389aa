//! What tests of analyses share: programs from texts, and the input of questions about memory.

use brolga_analysis::memory::clobber::ClobberInput;
use brolga_analysis::{Blocks, Cfg, Summaries};
use brolga_ir::map::HashMap;
use brolga_ir::{Allocator, FuncKey, Program, Promises};
use brolga_testing::program;
use cranelift_codegen::ir::Function;

/// The program of a module, whose memory is one piece; those of these functions that it has are its
/// allocator.
pub(crate) fn module(text: &str, allocator: &[(&str, Allocator)]) -> Program {
    let mut program = program(text);
    program.vmctx_pointers_only = true;
    for &(name, kind) in allocator {
        if let Some(key) = program.func(name) {
            program.func_mut(key).allocator = Some(kind);
        }
    }
    program
}

/// `malloc` and `free` of a module.
pub(crate) const MALLOC_AND_FREE: [(&str, Allocator); 2] =
    [("malloc", Allocator::Allocate { zeroed: false }), ("free", Allocator::Release { pointer: 1 })];

/// The functions with a body.
pub(crate) fn bodies(program: &Program) -> HashMap<FuncKey, &Function> {
    program.funcs.iter().filter_map(|(k, f)| Some((k, f.body.as_ref()?))).collect()
}

fn promises(noalias: &[bool]) -> Vec<Promises> {
    noalias.iter().map(|&noalias| Promises { noalias, ..Promises::default() }).collect()
}

/// The caller has said of no parameter that nothing else leads to its memory.
pub(crate) const NOTHING_SAID: (&[bool], &[bool]) = (&[], &[]);

/// Ask about `%f`. `pointers` and `numbers` are the parameters of which that has been said, as
/// pointers and as numbers of a module.
pub(crate) fn with_input<R>(
    program: &Program,
    (pointers, numbers): (&[bool], &[bool]),
    ask: impl FnOnce(ClobberInput<'_>, &Summaries) -> R,
) -> R {
    let bodies = bodies(program);
    let summaries = Summaries::compute(program, &bodies);
    let func = bodies[&program.func("f").unwrap()];
    let cfg = Cfg::compute(func);
    let blocks = Blocks::compute(program, func, &cfg, summaries.flows(), &promises(numbers));
    let effects = summaries.effects();
    ask(ClobberInput { program, func, cfg: &cfg, promises: &promises(pointers), effects, blocks: &blocks }, &summaries)
}
