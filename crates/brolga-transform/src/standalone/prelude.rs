//! Prelude: helpers of the run time as CLIF.
//!
//! **Problem.** A derived function calls helpers of the run time, which have no body to derive and
//! no rule.
//! **Answer.** Where a derivative is put into a program, the calls are replaced by bodies written
//! in CLIF (`prelude.clif`), which call nothing but functions that have rules. Those that keep
//! account of a run (`accounts.clif`) call functions that stand for helpers of the run in which the
//! derivative takes part. Helpers that put cotangents together from pieces have no body: those
//! calls stay, and the second derivation refuses them.
//! **Cost.** The instructions of a helper at each of its calls.

use std::borrow::Cow;
use std::sync::LazyLock;

use brolga_analysis::query::{constant_int, returns};
use brolga_ir::map::HashMap;
use brolga_ir::program::symbol_of;
use cranelift_codegen::Context;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::inline::{Inline, InlineCommand};
use cranelift_codegen::ir::{self, InstBuilder, Opcode, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};

/// The helpers as text.
pub const PRELUDE: &str = include_str!("prelude.clif");

/// Those that keep account of a run, as text.
const ACCOUNTS: &str = include_str!("accounts.clif");

/// Those that use a workspace, as text.
const WORKSPACE: &str = include_str!("workspace.clif");

/// Functions that no C library has, as text. A derivation has rules for them, so that where a
/// derivative is derived again they stay calls.
const GAMMA: &str = include_str!("gamma.clif");

type PreludeBodies = LazyLock<HashMap<String, ir::Function>>;

static BODIES: PreludeBodies = LazyLock::new(|| parsed(PRELUDE));
static OF_ACCOUNTS: PreludeBodies = LazyLock::new(|| parsed(ACCOUNTS));
static OF_WORKSPACE: PreludeBodies = LazyLock::new(|| parsed(WORKSPACE));
static OF_GAMMA: PreludeBodies = LazyLock::new(with_singles);

pub(super) fn parsed(text: &str) -> HashMap<String, ir::Function> {
    let all = cranelift_reader::parse_functions(text).expect("the prelude is CLIF");
    let symbol = |f: &ir::Function| f.name.to_string().trim_start_matches('%').to_owned();
    all.into_iter().map(|f| (symbol(&f), f)).collect()
}

/// The functions that no C library has, in double and, by names that end in `f`, in single
/// precision.
pub fn of_gamma() -> impl Iterator<Item = &'static ir::Function> {
    OF_GAMMA.values()
}

fn with_singles() -> HashMap<String, ir::Function> {
    let doubles = parsed(GAMMA);
    let singles: Vec<_> = doubles.iter().map(|(symbol, f)| (format!("{symbol}f"), f.clone())).collect();
    let singles = singles.into_iter().map(|(symbol, f)| (symbol.clone(), in_single(f, &symbol)));
    doubles.clone().into_iter().chain(singles).collect()
}

/// A function of doubles as one of singles, which calculates in doubles.
fn in_single(mut func: ir::Function, symbol: &str) -> ir::Function {
    func.name = ir::UserFuncName::testcase(symbol);
    let sig = &mut func.signature;
    sig.params.iter_mut().chain(&mut sig.returns).for_each(|p| p.value_type = types::F32);
    let entry = func.layout.entry_block().expect("it has a body");
    for double in func.dfg.block_params(entry).to_vec() {
        let single = func.dfg.replace_block_param(double, types::F32);
        let promoted = FuncCursor::new(&mut func).at_first_insertion_point(entry).ins().fpromote(types::F64, single);
        func.dfg.change_to_alias(double, promoted);
    }
    for inst in returns(&func).collect::<Vec<_>>() {
        let double = func.dfg.inst_args(inst)[0];
        let single = FuncCursor::new(&mut func).at_inst(inst).ins().fdemote(types::F32, double);
        func.dfg.inst_args_mut(inst)[0] = single;
    }
    func.dfg.resolve_all_aliases();
    func
}

/// A helper that uses a workspace, as a function for this target.
pub(crate) fn of_workspace(symbol: &str, isa: &dyn TargetIsa) -> ir::Function {
    with_convention(OF_WORKSPACE[symbol].clone(), isa.default_call_conv())
}

pub(super) fn with_convention(mut body: ir::Function, conv: CallConv) -> ir::Function {
    body.signature.call_conv = conv;
    body.dfg.signatures.values_mut().for_each(|s| s.call_conv = conv);
    body
}

/// Whose helpers replace calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helpers {
    /// Those of a derivative that is derived again, and whether it moves floats in pieces.
    Nested { pieces: bool },
    /// Those of an embedded derivative in one function, whether its workspace may grow, and whether
    /// pieces of tangents are marked.
    Workspace { growing: bool, marks: bool },
    /// Those of a forward pass and a pullback that may run again.
    Pair { growing: bool },
}

impl Helpers {
    /// Whether there is a workspace that may grow.
    fn grow(self) -> bool {
        matches!(self, Self::Workspace { growing: true, .. } | Self::Pair { growing: true })
    }
}

/// A function with bodies in place of the calls of helpers. The locations of a body are those of
/// the call.
pub(crate) fn expanded(func: ir::Function, helpers: Helpers, isa: &dyn TargetIsa) -> ir::Function {
    let any = func.dfg.ext_funcs.values().any(|f| symbol_of(&func, &f.name).starts_with("brolga_"));
    if !any {
        return func;
    }
    let n = func.dfg.num_insts();
    let mut cx = Context::for_function(func);
    // Where it fails the calls stay, and are refused.
    if !cx.inline(Bodies(helpers)).unwrap_or(false) {
        return cx.func;
    }
    cx.compute_cfg();
    cx.compute_domtree();
    cx.eliminate_unreachable_code(isa).expect("it was valid");
    let mut func = cx.func;
    locate(&mut func, n);
    func.dfg.resolve_all_aliases();
    func
}

/// Instructions from `first` on have been put in: they get the location of what was before them, in
/// place of tags.
fn locate(func: &mut ir::Function, first: usize) {
    let mut before = ir::SourceLoc::default();
    for block in func.layout.blocks().collect::<Vec<_>>() {
        for inst in func.layout.block_insts(block).collect::<Vec<_>>() {
            func.debug_tags.set(inst, []);
            if (inst.as_u32() as usize) < first {
                before = func.srcloc(inst);
            } else {
                func.set_srcloc(inst, before);
            }
        }
    }
}

struct Bodies(Helpers);

impl Inline for Bodies {
    fn inline(
        &mut self,
        caller: &ir::Function,
        _: ir::Inst,
        _: Opcode,
        callee: ir::FuncRef,
        args: &[ir::Value],
    ) -> InlineCommand<'_> {
        let declared = &caller.dfg.ext_funcs[callee];
        let symbol = symbol_of(caller, &declared.name);
        let symbol = match &*symbol {
            "brolga_memmove_rev" => match constant_int(caller, args[5]) {
                Some(8) => "brolga_memmove_rev_doubles",
                Some(4) => "brolga_memmove_rev_singles",
                _ => return InlineCommand::KeepCall,
            },
            "brolga_free" => match constant_int(caller, args[2]) {
                Some(0) => "brolga_free_now",
                _ => "brolga_free_later",
            },
            "brolga_tangent_settle" => match constant_int(caller, args[4]) {
                Some(0) => "brolga_tangent_clean",
                Some(8) => "brolga_tangent_settle_doubles",
                _ => "brolga_tangent_settle_singles",
            },
            "brolga_tangent_whole" => match constant_int(caller, args[3]) {
                Some(8) => "brolga_tangent_whole_double",
                _ => "brolga_tangent_whole_singles",
            },
            "brolga_tangent_zero" | "brolga_tangent_copy"
                if matches!(self.0, Helpers::Workspace { marks: true, .. }) =>
            {
                return InlineCommand::KeepCall;
            }
            "brolga_save_bytes" if self.0.grow() => "brolga_save_bytes_growing",
            "brolga_tangent_zero" if self.0 == (Helpers::Nested { pieces: true }) => "brolga_tangent_zero_marked",
            "brolga_tangent_copy" if self.0 == (Helpers::Nested { pieces: true }) => "brolga_tangent_copy_marked",
            other => other,
        };
        let signature = &caller.dfg.signatures[declared.signature];
        let types = |s: &ir::Signature| -> Vec<_> { s.params.iter().chain(&s.returns).map(|p| p.value_type).collect() };
        let of_heap = OF_WORKSPACE.get(symbol);
        let body = match self.0 {
            Helpers::Nested { .. } => BODIES.get(symbol).or_else(|| OF_ACCOUNTS.get(symbol)),
            // Nothing comes to a shadow after the reverse of its allocation.
            Helpers::Workspace { .. } if symbol == "brolga_malloc_rev" => BODIES.get(symbol),
            Helpers::Workspace { .. } | Helpers::Pair { .. } => {
                of_heap.or_else(|| BODIES.get(symbol)).or_else(|| OF_GAMMA.get(symbol))
            }
        };
        match body.filter(|body| types(&body.signature) == types(signature)) {
            Some(body) => {
                let body = with_convention(body.clone(), signature.call_conv);
                InlineCommand::Inline { callee: Cow::Owned(body), visit_callee: false }
            }
            None => InlineCommand::KeepCall,
        }
    }
}

#[cfg(test)]
mod tests {
    use brolga_ir::lower::segment;

    use super::*;

    #[test]
    fn the_list_of_blocks_is_where_the_header_has_it() {
        let others = ["region0", "+208", "+216", "+232", "+24"];
        let ours = |l: &&str| !others.iter().any(|o| l.contains(o));
        let lines = || WORKSPACE.lines().filter(ours);
        let at: Vec<&str> = lines().filter_map(|l| Some(l.split_once("v0+")?.1)).collect();
        assert!(at.len() > 6 && at.iter().all(|a| *a == segment::BLOCKS.to_string()), "{at:?}");
    }

    #[test]
    fn the_tape_is_where_the_header_has_it() {
        let places = |symbol: &str| -> Vec<i32> {
            let func = &OF_WORKSPACE[symbol];
            let regions: Vec<u32> = (0..func.dfg.alias_regions.len())
                .map(|i| func.dfg.alias_regions[ir::AliasRegion::from_u32(i as u32)].user_id)
                .collect();
            assert_eq!(regions, [brolga_ir::lower::Channel::Mixed.region()]);
            let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
            insts.filter_map(|i| func.dfg.insts[i].load_store_offset()).collect()
        };
        assert_eq!(places("brolga_save_bytes"), [segment::TOP, segment::LIMIT, segment::TOP]);
        assert_eq!(places("brolga_restore_bytes"), [segment::CURSOR; 2]);
        let of_growth = [segment::LIMIT, segment::BEGIN, segment::GROW, segment::GROW_CONTEXT, segment::LIMIT];
        assert_eq!(places("brolga_grow"), of_growth);
        assert_eq!(places("brolga_save_bytes_growing"), [segment::TOP, segment::LIMIT, segment::TOP]);
    }
}
