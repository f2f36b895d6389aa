//! Pieces: helpers that move cotangents in pieces, as functions of an embedded derivative.
//!
//! **Problem.** Where a program moves a float byte by byte, or in halves, its derivative asks the
//! run time to put cotangents together. An embedder's module has no run time, and the account that
//! is kept of pieces is too long to be put in at each call.
//! **Answer.** The helpers are functions in CLIF (`pieces.clif`, `records.clif`), which are
//! added to those of the derivative where something calls them. Their records are in the last
//! quarter of the workspace ([`room`]); a run for which that is too short does not fit. Where the
//! reverse half ends, [`check_at_end`] asks whether all has come together.
//!
//! In forward mode the run time is asked whether pieces are of one tangent. There the account is
//! a trie (`tangents.clif`), which has all of the workspace; where the run ends, [`poison_at_end`]
//! looks for what is not whole behind pointers of the caller's.
//!
//! **Invariants.** Those of `brolga_runtime::pieces`: a number is added as a whole, or the run
//! traps; and of `brolga_runtime::pieces::tangents`: a tangent is that of one float, or NaN. The
//! first byte of a window of eight is the lowest: no big-endian target has these.
//!
//! **Cost.** Calls only where something is under way; a list of records that are open is searched.
//! **Errs** on the side of a trap, or of NaN.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use brolga_analysis::query::returns;
use brolga_ir::Elem;
use brolga_ir::inst::Check;
use brolga_ir::lower::segment;
use brolga_ir::map::HashMap;
use brolga_ir::program::{functions_used, symbol_of};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, TrapCode, types};
use cranelift_codegen::isa::TargetIsa;

use super::derived_func::DerivedFunc;
use super::prelude::{of_workspace, parsed, with_convention};

static BODIES: LazyLock<HashMap<String, ir::Function>> =
    LazyLock::new(|| [PIECES, RECORDS, TANGENTS].into_iter().flat_map(parsed).collect());

const PIECES: &str = include_str!("pieces.clif");
const RECORDS: &str = include_str!("records.clif");
const TANGENTS: &str = include_str!("tangents.clif");

/// What says in forward mode that pieces have been stored.
pub(crate) const MARK: &str = "brolga_tangent_mark";
const GROW: &str = "brolga_pieces_grow";
const END: &str = "brolga_pieces_end";
const TANGENTS_END: &str = "brolga_tangents_end";

/// Whether a function is one of the helpers. Each may find that a run does not fit.
pub(crate) fn is_helper(symbol: &str) -> bool {
    symbol.starts_with("brolga_") && BODIES.contains_key(symbol)
}

/// Add the helpers that functions call, and say whether there are any. Where the workspace may grow
/// they ask for more.
pub(crate) fn put_in(derived: &mut Vec<DerivedFunc>, growing: bool, isa: &dyn TargetIsa) -> bool {
    if isa.endianness() == ir::Endianness::Big {
        return false;
    }
    let before = derived.len();
    let mut seen: BTreeSet<String> = derived.iter().map(|p| p.symbol.clone()).collect();
    let mut at = 0;
    while at < derived.len() {
        let (func, of) = (&derived[at].func, derived[at].of);
        // Calls of helpers that have been put in are declared still.
        let used = functions_used(func);
        let called = used.iter().map(|f| symbol_of(func, &func.dfg.ext_funcs[f].name));
        let new: Vec<String> = called.filter(|s| is_helper(s) && seen.insert(s.clone())).collect();
        derived.extend(new.into_iter().map(|symbol| {
            let func = match &*symbol {
                GROW if growing => of_workspace(GROW, isa),
                symbol => with_convention(BODIES[symbol].clone(), isa.default_call_conv()),
            };
            DerivedFunc { symbol, func, of, segment: None }
        }));
        at += 1;
    }
    derived.len() > before
}

/// Trap where a reverse half ends and cotangents have not come together.
pub(crate) fn check_at_end(root: &mut DerivedFunc, isa: &dyn TargetIsa) {
    at_end(root, isa, END, |cursor, end, workspace| {
        let call = cursor.ins().call(end, &[workspace]);
        let lost = cursor.func.dfg.first_result(call);
        cursor.ins().trapnz(lost, TrapCode::unwrap_user(Check::UntrackedBits as u8));
    });
}

/// Where a run of forward mode ends, tangents that are not whole are no numbers: behind pointers
/// whose deltas are these parameters, and which lead to such elements.
pub(crate) fn poison_at_end(root: &mut DerivedFunc, deltas: &[(usize, Option<Elem>)], isa: &dyn TargetIsa) {
    let entry = root.func.layout.entry_block().expect("it has a body");
    let params = root.func.dfg.block_params(entry).to_vec();
    for &(delta, elem) in deltas {
        let size = match elem {
            Some(Elem::F64) => 8,
            Some(Elem::F32) => 4,
            None => 0,
            Some(_) => continue,
        };
        at_end(root, isa, TANGENTS_END, |cursor, end, workspace| {
            let size = cursor.ins().iconst(types::I64, size);
            let frame = cursor.ins().get_stack_pointer(types::I64);
            cursor.ins().call(end, &[workspace, params[delta], size, frame]);
        });
    }
}

/// Call a helper before each `return`.
fn at_end(
    root: &mut DerivedFunc,
    isa: &dyn TargetIsa,
    name: &str,
    call: impl Fn(&mut FuncCursor<'_>, ir::FuncRef, ir::Value),
) {
    let Some(segment) = root.segment else { return };
    let func = &mut root.func;
    let entry = func.layout.entry_block().expect("it has a body");
    let workspace = func.dfg.block_params(entry)[segment];
    let signature = func.import_signature(BODIES[name].signature.clone());
    func.dfg.signatures[signature].call_conv = isa.default_call_conv();
    let name = ir::ExternalName::testcase(name);
    let end = func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    for inst in returns(func).collect::<Vec<_>>() {
        call(&mut FuncCursor::new(func).at_inst(inst), end, workspace);
    }
}

/// The part of a workspace that records have, after the header: the tape ends where they begin.
/// Without a tape it is all.
pub(crate) fn room(
    cursor: &mut FuncCursor<'_>,
    (workspace, end): (ir::Value, ir::Value),
    header: u32,
    has_tape: bool,
) -> ir::Value {
    let flags = MemFlagsData::new().with_notrap();
    cursor.ins().store(flags, end, workspace, segment::RECORDS_END);
    let first = cursor.ins().iadd_imm_s(workspace, i64::from(header));
    if !has_tape {
        return first;
    }
    let bytes = cursor.ins().isub(end, workspace);
    let quarter = cursor.ins().ushr_imm_u(bytes, 2);
    let aligned = cursor.ins().band_imm_s(quarter, -16);
    let limit = cursor.ins().isub(end, aligned);
    cursor.ins().umax(limit, first)
}

/// No records are there, where a run begins.
pub(crate) fn begin(cursor: &mut FuncCursor<'_>, workspace: ir::Value) {
    let flags = MemFlagsData::new().with_notrap();
    let zero = cursor.ins().iconst(types::I64, 0);
    for at in [segment::WAITING, segment::RECORDS_FREE, segment::RECORDS_LOST, segment::TANGENTS] {
        cursor.ins().store(flags, zero, workspace, at);
    }
    let first = cursor.ins().load(types::I64, flags, workspace, segment::LIMIT);
    cursor.ins().store(flags, first, workspace, segment::RECORDS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_the_text_has_it() {
        let text = [PIECES, RECORDS, TANGENTS].concat();
        let fields = [
            segment::WAITING,
            segment::RECORDS_FREE,
            segment::RECORDS,
            segment::RECORDS_END,
            segment::RECORDS_LOST,
            segment::TANGENTS,
            segment::STATUS,
            segment::RECORDED,
        ];
        for at in fields {
            assert!(text.contains(&format!("v0+{at}\n")), "{at}");
        }
    }
}
