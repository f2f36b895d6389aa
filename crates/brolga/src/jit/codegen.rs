//! Compilation: functions are verified and compiled side by side.
//!
//! **Problem.** Cranelift's verifier takes a tenth to a fifth as long as it takes to derive a
//! function, and compiling takes half as long. One after the other, a caller of a gradient waits
//! for both, and in a large program for one function after the other.
//!
//! **Answer.** None of this needs anything of another, so all of it is one [`batch`].
//!
//! **Invariants.** Nothing is linked of a batch in which anything failed: code of a function that
//! does not verify is never run. What the verifier says comes before what went wrong compiling,
//! which is of less use then. Code does not depend on who compiled it.
//!
//! **Cost.** Each function is verified once and compiled once; one that cannot be compiled as asked
//! is compiled once more, as plainly as can be. A function is copied, but for one that names no
//! other and goes to the back end as it is. The tables of a thread's last function that was not
//! large are kept for the next. Helpers are woken only if there is enough for them to do.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use brolga_clif::simplify_cfg::has_aliases;
use brolga_ir::lower::forget_integer_region;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Program};
use brolga_transform::clif::entry_thunk::verify;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, UserExternalName, UserFuncName};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{OptLevel, RegallocAlgorithm};
use cranelift_codegen::{CompiledCode, Context};
use cranelift_module::{FuncId, ModuleReloc};

use super::batch;
use super::isa::{plain_isa, quick_isa};
use super::traps::CompiledFunction;
use crate::Error;

/// A function that is to be compiled.
pub(crate) struct UncompiledFunction {
    pub id: FuncId,
    /// How it is called.
    pub symbol: String,
    /// Its external names are symbols.
    pub func: Arc<ir::Function>,
    /// What they are in the module.
    pub links: Links,
    /// What it is compiled for; without one, as plainly as can be.
    pub isa: Option<OwnedTargetIsa>,
    /// Whether it has been verified.
    pub verified: bool,
    /// The function of the program that it is, or that it derives from.
    pub owner: FuncKey,
}

/// What the external names of a function are in a module.
#[derive(Default)]
pub(crate) struct Links {
    /// Functions.
    pub funcs: Vec<(ir::FuncRef, UserExternalName)>,
    /// What global values name.
    pub symbols: Vec<(ir::GlobalValue, UserExternalName)>,
}

impl Links {
    /// A function with them: itself, if it has none.
    fn linked<'f>(&self, func: &'f ir::Function) -> Cow<'f, ir::Function> {
        if func.stack_limit.is_none() && self.funcs.is_empty() && self.symbols.is_empty() {
            return Cow::Borrowed(func);
        }
        let mut func = func.clone();
        func.stack_limit = None;
        for (r, link) in &self.funcs {
            let name = func.declare_imported_user_function(link.clone());
            let callee = &mut func.dfg.ext_funcs[*r];
            (callee.name, callee.colocated) = (ir::ExternalName::user(name), false);
        }
        for (gv, link) in &self.symbols {
            let new = func.declare_imported_user_function(link.clone());
            if let ir::GlobalValueData::Symbol { name, colocated, .. } = &mut func.global_values[*gv] {
                (*name, *colocated) = (ir::ExternalName::user(new), false);
            }
        }
        Cow::Owned(func)
    }
}

/// What a function has become.
pub(crate) struct Code {
    pub id: FuncId,
    pub code: CompiledCode,
    /// Its alignment in bytes.
    pub align: u64,
    pub relocs: Vec<ModuleReloc>,
    owner: FuncKey,
}

impl Code {
    /// What is to be known about it when it runs, but where it is.
    pub(crate) fn function(self) -> (FuncId, CompiledFunction) {
        let buffer = &self.code.buffer;
        let traps = buffer.traps().iter().map(|t| (t.offset, t.code)).collect();
        let locs = buffer.get_srclocs_sorted().iter().map(|l| (l.start, l.end, l.loc.bits())).collect();
        let size = self.code.code_info().total_size;
        (self.id, CompiledFunction { owner: self.owner, start: 0, size, traps, locs })
    }
}

/// One job of a batch: of a function, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompileJob {
    Verify(usize),
    Compile(usize),
}

/// What has become of it.
enum JobResult {
    Verified(Result<(), Diagnostics>),
    /// Or what went wrong, as text.
    Compiled(Result<Box<Code>, String>),
}

/// In which order functions of these sizes are compiled, and these verified. The caller begins at
/// one end, and helpers at the other, so that what takes longest is at the ends, and what takes
/// least, which is to verify, in the middle, where they meet.
fn order(sizes: &[usize], unverified: &[usize]) -> Vec<CompileJob> {
    let mut functions: Vec<usize> = (0..sizes.len()).collect();
    functions.sort_by_key(|&i| std::cmp::Reverse(sizes[i]));
    let compile = |i: &usize| CompileJob::Compile(*i);
    let mut order: Vec<CompileJob> = functions.iter().step_by(2).map(compile).collect();
    order.extend(unverified.iter().map(|&i| CompileJob::Verify(i)));
    order.extend(functions.iter().skip(1).step_by(2).rev().map(compile));
    order
}

/// To compile an instruction takes so many times as long as to verify it.
const COMPILED: usize = 8;
/// Instructions that are verified in the time that it takes the caller to wake a helper.
const WORTH: usize = 150;

/// Whether helpers are worth waking for functions with so many instructions each, of which so many
/// are to be verified as well: whether they can take so much off the caller. The largest is
/// compiled by one thread, whichever that is.
pub(crate) fn worth_help(sizes: impl Iterator<Item = usize> + Clone, unverified: usize) -> bool {
    let (all, largest) = (sizes.clone().sum::<usize>(), sizes.max().unwrap_or(0));
    COMPILED * (all - largest) + unverified >= WORTH
}

/// Verify and compile, with no more than so many threads (see [`batch::run`]).
pub(crate) fn compile(
    functions: Vec<UncompiledFunction>,
    program: &Program,
    threads: usize,
) -> Result<Vec<Code>, Error> {
    let plain = plain_isa()?;
    let sizes: Vec<usize> = functions.iter().map(|u| u.func.dfg.num_insts()).collect();
    let unverified: Vec<usize> = (0..functions.len()).filter(|&i| !functions[i].verified).collect();
    let help = worth_help(sizes.iter().copied(), unverified.iter().map(|&i| sizes[i]).sum());
    let threads = if help { threads } else { 1 };
    let owners: Vec<String> = functions.iter().map(|u| program.funcs[u.owner].symbol.clone()).collect();
    let tasks = order(&sizes, &unverified);
    let (functions, all) = (Arc::new(functions), tasks.clone());
    let shared = Arc::clone(&functions);
    let done = batch::run(tasks.len(), threads, move |t| match all[t] {
        CompileJob::Compile(i) => JobResult::Compiled(code(&shared[i], &plain).map(Box::new)),
        CompileJob::Verify(i) => {
            let function = &shared[i];
            JobResult::Verified(verify(&function.func, &**function.isa.as_ref().unwrap_or(&plain), &owners[i]))
        }
    });
    // As the functions are, whatever was done first.
    let mut done: Vec<(CompileJob, JobResult)> = tasks.into_iter().zip(done).collect();
    done.sort_by_key(|(CompileJob::Verify(i) | CompileJob::Compile(i), _)| *i);
    let mut problems = Diagnostics::default();
    let (mut compiled, mut failed) = (Vec::with_capacity(functions.len()), Diagnostics::default());
    for (task, done) in done {
        match done {
            JobResult::Verified(found) => problems.extend(found.err().into_iter().flat_map(|e| e.0)),
            JobResult::Compiled(Ok(code)) => compiled.push(*code),
            JobResult::Compiled(Err(what)) => {
                let (CompileJob::Verify(i) | CompileJob::Compile(i)) = task;
                let UncompiledFunction { symbol, owner, .. } = &functions[i];
                let d = Diagnostic::new("AD0160", format!("Cranelift cannot compile %{symbol} for this machine"))
                    .in_func(&program.funcs[*owner].symbol)
                    .note(what)
                    .help("replace the unsupported instruction by ones that the back end has");
                failed.push(d);
            }
        }
    }
    problems.or_ok(())?;
    failed.or_ok(compiled).map_err(Error::from)
}

/// Tables of Cranelift's.
struct Tables {
    ctx: Context,
    regs: regalloc2::Ctx,
}

thread_local! {
    /// Those that the last function of this thread was compiled with: the next one need not ask for
    /// memory again.
    static SPARE: Cell<Option<Box<Tables>>> = const { Cell::new(None) };
}

/// Instructions of a function whose tables are too large to be kept.
const LARGE: usize = 10_000;

/// Blocks of a function for which registers are given out in a single pass: what Cranelift does
/// otherwise takes time in proportion to the square of their number.
const HUGE: usize = 20_000;

fn is_huge(func: &ir::Function) -> bool {
    func.dfg.num_blocks() > HUGE
}

/// Compile as is asked, or if that fails as plainly as can be: the mid-end has been seen to panic
/// on valid functions that the back end alone compiles.
fn code(function: &UncompiledFunction, plain: &OwnedTargetIsa) -> Result<Code, String> {
    let quick = if is_huge(&function.func) { quick_isa().ok() } else { None };
    if let Some(isa) = quick.as_ref().or(function.isa.as_ref())
        && let Ok(code) = attempt(function, &**isa)
    {
        return Ok(code);
    }
    attempt(function, &**plain)
}

/// Compile so. An error or a panic of Cranelift's comes back as text.
fn attempt(function: &UncompiledFunction, isa: &dyn TargetIsa) -> Result<Code, String> {
    let fresh = || Box::new(Tables { ctx: Context::new(), regs: regalloc2::Ctx::default() });
    let mut tables = SPARE.take().unwrap_or_else(fresh);
    let func = function.links.linked(&function.func);
    let done = |code: CompiledCode, func: &ir::Function| {
        let relocs = code.buffer.relocs().iter().map(|r| ModuleReloc::from_mach_reloc(r, func, function.id)).collect();
        let align = isa.function_alignment().minimum.max(isa.symbol_alignment() as u32).max(code.buffer.alignment);
        Code { id: function.id, code, align: align.into(), relocs, owner: function.owner }
    };
    let compiled = || -> Result<Code, String> {
        let Tables { ctx, regs } = &mut *tables;
        let found = match back_end(ctx, regs, &func, isa) {
            Some(code) => done(code?, &func),
            None => {
                ctx.func = func.into_owned();
                ctx.func.name = UserFuncName::user(0, function.id.as_u32());
                forget_integer_region(&mut ctx.func);
                ctx.compile(isa, &mut ControlPlane::default()).map_err(|e| format!("{:?}", e.inner))?;
                let code = ctx.take_compiled_code().expect("just compiled");
                done(code, &ctx.func)
            }
        };
        if function.func.dfg.num_insts() <= LARGE {
            ctx.clear();
            SPARE.set(Some(tables));
        }
        Ok(found)
    };
    // Cranelift panics on some instructions that a back end does not support. Its tables are
    // dropped then.
    brolga_ir::panics::catch(compiled).unwrap_or_else(Err)
}

/// Have the back end compile a function as it is, if nothing is to be done to it before: with
/// little effort nothing is, but that what cannot be reached and other names of values go, and of
/// those [`simplify_cfg`](brolga_clif::simplify_cfg) has left none. So it need not be copied.
fn back_end(
    ctx: &mut Context,
    regs: &mut regalloc2::Ctx,
    func: &ir::Function,
    isa: &dyn TargetIsa,
) -> Option<Result<CompiledCode, String>> {
    let flags = isa.flags();
    let little = flags.opt_level() == OptLevel::None && flags.regalloc_algorithm() == RegallocAlgorithm::SinglePass;
    if !little || has_aliases(func) {
        return None;
    }
    ctx.cfg.compute(func);
    ctx.domtree.compute(func, &ctx.cfg);
    if !func.layout.blocks().all(|b| ctx.domtree.is_reachable(b)) {
        return None;
    }
    let code = isa.compile_function(func, &ctx.domtree, regs, false, &mut ControlPlane::default());
    Some(code.map(|code| code.apply_params(&func.params)).map_err(|e| format!("{e:?}")))
}

#[cfg(test)]
mod tests {
    use brolga_ir::{Effort, Options};

    use super::*;
    use crate::jit::isa::host_isa;

    /// What the back end makes of a function with little effort, and Cranelift as a whole: machine
    /// code.
    fn compiled(text: &str) -> [Option<Vec<u8>>; 2] {
        let func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}: {text}")).remove(0);
        let isa = host_isa(&Options { effort: Effort::Quick, ..Options::default() }).expect("the host");
        let bytes = |code: &CompiledCode| code.code_buffer().to_vec();
        let (mut ctx, mut regs) = (Context::new(), regalloc2::Ctx::default());
        let alone = back_end(&mut ctx, &mut regs, &func, &*isa).map(|code| bytes(&code.expect("it compiles")));
        assert!(back_end(&mut ctx, &mut regs, &func, &*plain_isa().expect("the host")).is_none());
        let mut ctx = Context::for_function(func);
        let full_pipeline =
            ctx.compile(&*isa, &mut ControlPlane::default()).map(bytes).unwrap_or_else(|e| panic!("{e:?}"));
        [alone, Some(full_pipeline)]
    }

    #[test]
    fn the_back_end_is_asked_where_nothing_else_would_be_done() {
        let loops = "function %f(f64, i64) -> f64 fast {
            block0(v0: f64, v1: i64): jump block1(v0, v1)
            block1(v2: f64, v3: i64): v4 = fmul v2, v0 v5 = iconst.i64 -1 v6 = iadd v3, v5 brif v6, block1(v4, v6), block2
            block2: trapz v1, user1 store v4, v1 return v4 }";
        let [alone, full_pipeline] = compiled(loops);
        assert!(alone.is_some() && alone == full_pipeline);
        // A block that cannot be reached, and another name of a value.
        for (from, to) in [("return v4 }", "return v4 block3: return v0 }"), ("store v4", "v7 -> v4 store v7")] {
            let [alone, full_pipeline] = compiled(&loops.replace(from, to));
            assert!(alone.is_none() && full_pipeline.is_some(), "{to}");
        }
    }

    #[test]
    fn registers_of_many_blocks_are_given_out_in_one_pass() {
        let blocks = |n: usize| {
            let mut func = ir::Function::new();
            for _ in 0..n {
                func.dfg.make_block();
            }
            func
        };
        assert!(is_huge(&blocks(HUGE + 1)) && !is_huge(&blocks(HUGE)));
    }

    #[test]
    fn helpers_are_woken_for_what_they_can_do() {
        let help = |sizes: &[usize], unverified| worth_help(sizes.iter().copied(), unverified);
        assert!(!help(&[], 0) && !help(&[WORTH - 1], WORTH - 1) && help(&[WORTH], WORTH));
        // One function that has been verified is the caller's; of two, one can be a helper's.
        assert!(!help(&[10 * WORTH], 0) && help(&[WORTH, WORTH / COMPILED + 1], 0) && !help(&[WORTH, 1], 0));
    }

    #[test]
    fn what_takes_longest_is_at_the_ends() {
        use CompileJob::{Compile, Verify};
        assert_eq!(order(&[9], &[0]), [Compile(0), Verify(0)]);
        assert_eq!(order(&[9, 9], &[0, 1]), [Compile(0), Verify(0), Verify(1), Compile(1)]);
        let found = order(&[1, 4, 3, 2], &[1, 2]);
        assert_eq!(found, [Compile(1), Compile(3), Verify(1), Verify(2), Compile(0), Compile(2)]);
        assert_eq!(order(&[], &[]), []);
    }
}
