//! What `prune` removes and what it leaves, on small graphs: [`control`] and [`values`]. That it
//! changes no result is tried on whole programs in `ir-tests/tests/prune.rs`.

use brolga_analysis::memory::alias::Places;
use brolga_analysis::uses::Uses;
use brolga_analysis::{Blocks, Cfg, PrivateMemory};
use brolga_ir::block::{CfgBlocks, Ids};
use brolga_ir::inst::{AdInst, AdOp, Val};
use brolga_ir::lift::lift;
use brolga_ir::lower::{LowerEnv, lower};
use brolga_ir::names::Names;
use brolga_ir::{Dv, InstId, Program};
use brolga_testing::function;
use brolga_transform::dce::{KnownPrimal, prune};
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir;
use cranelift_codegen::settings::{self, Flags};
use expect_test::Expect;

mod control;
mod private;
mod values;

/// A graph made of CLIF, to which a test may do what it likes.
struct Case {
    primal: ir::Function,
    graph: CfgBlocks,
    fresh: usize,
    /// Stores to private memory may go, faults and all.
    pure_stores: bool,
}

impl Case {
    fn new(text: &str) -> Self {
        let mut primal = function(text);
        primal.dfg.resolve_all_aliases();
        let (graph, _) = lift(&primal, "f", &mut Ids::default());
        Case { primal, graph, fresh: 1000, pure_stores: false }
    }

    /// Add an instruction at the end of block `b`.
    fn add(&mut self, b: usize, defs: &[(Val, ir::Type)], op: AdOp) {
        self.insert(b, None, defs, op);
    }

    fn insert(&mut self, b: usize, before: Option<usize>, defs: &[(Val, ir::Type)], op: AdOp) {
        self.fresh += 1;
        let insts = &mut self.graph.blocks[b].insts;
        let at = before.unwrap_or(insts.len());
        let mut all: Vec<_> = std::mem::take(insts).into_iter().collect();
        all.insert(at, (InstId::new(self.fresh), AdInst { defs: defs.iter().copied().collect(), op, at: None }));
        insts.extend(all);
    }

    fn prune(&mut self) -> &mut Self {
        let pure = |i: ir::Inst| match self.primal.dfg.insts[i] {
            ir::InstructionData::Load { .. } => true,
            ir::InstructionData::Store { .. } => self.pure_stores,
            _ => false,
        };
        let known = KnownPrimal { primal: &self.primal, pure: &pure, private: &private(&self.primal) };
        prune(&mut self.graph, known);
        self
    }

    fn text(&self) -> String {
        self.graph.display(&self.primal).to_string()
    }

    fn shows(&self, expected: Expect) {
        expected.assert_eq(&self.text());
    }

    /// Pruning changes nothing.
    fn stays(&mut self) {
        let before = self.text();
        assert_eq!(self.prune().text(), before);
    }

    /// Cranelift's verifier has nothing to say. For graphs without instructions that need a tape.
    fn verifies(&self) -> &Self {
        let target =
            cranelift_codegen::isa::lookup_by_name("x86_64").or(cranelift_codegen::isa::lookup_by_name("aarch64"));
        let isa = target.unwrap().finish(Flags::new(settings::builder())).unwrap();
        let mut names = Names::verbatim();
        let func = lower(&self.graph, LowerEnv::of_primal(&self.primal, &mut names, isa.frontend_config()));
        cranelift_codegen::verify_function(&func, &*isa).unwrap_or_else(|e| panic!("{e}\n{func}"));
        self
    }
}

/// Its private memory. The program is empty, so known C functions are known.
fn private(func: &ir::Function) -> PrivateMemory {
    if func.sized_stack_slots.is_empty() && func.dfg.ext_funcs.is_empty() {
        // Nor is a graph searched that is too deep for a test's stack.
        return PrivateMemory::default();
    }
    let cfg = Cfg::compute(func);
    let program = Program::default();
    PrivateMemory::compute(
        Places { program: &program, func, cfg: &cfg, blocks: &Blocks::default() },
        &Uses::compute(func, &cfg),
        &[],
    )
}

fn check(text: &str, expected: Expect) {
    Case::new(text).prune().verifies().shows(expected);
}

fn v(n: u32) -> Val {
    Val::Primal(ir::Value::from_u32(n))
}

fn d(n: usize) -> Val {
    Val::D(Dv::new(n))
}
