//! The inverse of a function on memory, where its text gives one.
//!
//! **Problem.** A function changes a state and returns nothing. Which one takes the state back?
//!
//! **Answer.** Control flow is read as a structure ([`structure`]), and undone backwards. A
//! straight piece is an equation for each place that it stores to: what lies there now is known,
//! what lay there before is wanted, and instructions that lose nothing lead back ([`solve`]). A
//! loop is counted first, by its control alone, and then runs so many times with its integers
//! backwards. A branch is taken again, since what decides does not change; what its sides have read
//! above it, they read themselves ([`sink`]), and what is kept in registers is put back into memory
//! ([`demote`]).
//!
//! ```text
//! v2 = load v0                        v6 = load v0+8
//! v3 = load v0+8                      v3 = load v0
//! v5 = fmul v4, v3            ⟶       v5 = fmul v4, v3
//! v6 = fadd v2, v5                    v2 = fsub v6, v5
//! store v3, v0                        store v2, v0
//! store v6, v0+8                      store v3, v0+8
//! ```
//!
//! What is needed besides the state, the *steady* values, is computed again: of parameters, of
//! numbers of iterations, and of memory that the function does not write to. Loops that store
//! nothing run again ([`readings`]).
//!
//! **Contract.** States are apart from each other, and from all else that is read. Sums of floats
//! are undone by differences, which have roundings.
//!
//! **Cost.** A pass over each piece for each value that is found. Control of loops runs twice.
//!
//! **Source.** C. H. Bennett: Logical reversibility of computation. IBM Journal of Research and
//! Development 17 (1973); J.-G. Liu, T. Zhao, arXiv:2003.04617 (2020), for the statements that are
//! undone.

mod demote;
mod effects;
mod emit;
mod loops;
mod origin;
mod readings;
mod rerun;
mod sink;
mod solve;
mod straight;
mod structure;
mod view;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, Block, Inst, InstBuilder, UserFuncName};

use crate::map::HashMap;
pub use effects::{Effects, effects};
use emit::Inverse;
use readings::Readings;
use view::View;
pub use view::{InverseRequest, InversionFailure, UndoneCall};

/// The function that undoes `func`, by this name.
///
/// # Errors
/// The first instruction that cannot be undone.
pub fn inverse(
    func: &ir::Function,
    asked: &InverseRequest<'_>,
    name: UserFuncName,
) -> Result<ir::Function, InversionFailure> {
    found(func, asked, name.clone()).or_else(|e| {
        let sunk = sink::sunk(func, asked).and_then(|f| found(&f, asked, name.clone()).ok());
        let demoted = || demote::demoted(func, asked).map(|f| sink::sunk(&f, asked).unwrap_or(f));
        sunk.or_else(|| found(&demoted()?, asked, name).ok()).ok_or(e)
    })
}

fn found(
    func: &ir::Function,
    asked: &InverseRequest<'_>,
    name: UserFuncName,
) -> Result<ir::Function, InversionFailure> {
    let view = View::of(func, asked)?;
    let parts = structure::parts(&view)?;
    let mut out = func.clone();
    out.name = name;
    let blocks: Vec<Block> = out.layout.blocks().collect();
    for block in blocks {
        let insts: Vec<Inst> = out.layout.block_insts(block).collect();
        insts.into_iter().for_each(|i| out.layout.remove_inst(i));
        out.layout.remove_block(block);
    }
    let entry = func.layout.entry_block().expect("it has a body");
    let first = out.dfg.make_block();
    out.layout.append_block(first);
    let mut known = HashMap::default();
    for &param in func.dfg.block_params(entry) {
        let new = out.dfg.append_block_param(first, func.dfg.value_type(param));
        known.insert(param, new);
    }
    let readings = Readings::of(&view, &parts);
    let pos = FuncCursor::new(&mut out).at_bottom(first);
    let mut this = Inverse { view: &view, readings, pos, known, lost: HashMap::default() };
    this.undo_all(&parts)?;
    this.pos.ins().return_(&[]);
    Ok(out)
}
