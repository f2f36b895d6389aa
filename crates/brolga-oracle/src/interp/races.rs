//! Data races of tasks: accesses of concurrent tasks to the same bytes.
//!
//! **Question.** Of two concurrent tasks neither may write what the other one reads or writes.
//! Which two instructions break this?
//!
//! **Answer.** While tasks run, each access is kept with its task, for each byte the one that is
//! concurrent with most of what comes: a later one takes the place of one of its own kind that
//! comes before it, and of no other. So if there is a race at a byte, one is found, for these
//! arguments and whatever the order in which threads would run the tasks. All bytes count one by
//! one, and memory that is new or given back is forgotten, so blocks and stack slots of tasks may
//! lie where others were. To free a block writes it.
//!
//! **Atomics.** Atomic instructions that meet are no race: a program that uses them counts on any
//! order, and in CLIF they are of integers, which have no derivative. One that writes races with an
//! ordinary access, and an atomic load with an ordinary store.
//!
//! **Errors.** A race is the error AD0194, with both instructions. Where iterations of a parallel
//! loop add into one place, it says so, and names the reduction that would do.
//!
//! **Cost.** Nothing unless a task runs; then a look into a table for each eight bytes.
//!
//! **Source.** As in `tasks.rs`.

use std::collections::HashMap;

use brolga_ir::fork::described;
use brolga_ir::{Diagnostic, FuncKey, Origin, Program};
use cranelift_codegen::ir::{self, BlockArg, Opcode};
use smallvec::SmallVec;

use super::tasks::{TaskId, Tasks};
use crate::error::{InstSite, Race};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessKind {
    pub writes: bool,
    pub atomic: bool,
}

impl AccessKind {
    fn conflicts(self, other: Self) -> bool {
        (self.writes || other.writes) && !(self.atomic && other.atomic)
    }
}

/// An access to some bytes of a word.
#[derive(Clone, Copy, Debug)]
struct TaskAccess {
    /// A bit for each byte.
    bytes: u8,
    kind: AccessKind,
    task: TaskId,
    site: InstSite,
}

/// Two accesses, the earlier one first, and the fork whose tasks made them.
#[derive(Clone, Copy, Debug)]
struct RacePair {
    fork: FuncKey,
    accesses: [(InstSite, AccessKind); 2],
}

/// Accesses of concurrent tasks.
#[derive(Debug, Default)]
pub(super) struct Races {
    /// By eighth of an address.
    words: HashMap<usize, SmallVec<[TaskAccess; 2]>>,
    found: Option<RacePair>,
}

impl Races {
    /// No task runs any more.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Memory is new, or gone.
    pub(super) fn forget(&mut self, at: usize, n: usize) {
        if self.words.is_empty() {
            return;
        }
        let gone = |word: usize| bytes_of(word, at, n);
        let drop_from = |word: usize, recorded: &mut SmallVec<[TaskAccess; 2]>| {
            recorded.iter_mut().for_each(|a| a.bytes &= !gone(word));
            recorded.retain(|a| a.bytes != 0);
            !recorded.is_empty()
        };
        if n / 8 > self.words.len() {
            self.words.retain(|&word, recorded| drop_from(word, recorded));
            return;
        }
        for word in words_of(at, n) {
            if self.words.get_mut(&word).is_some_and(|recorded| !drop_from(word, recorded)) {
                self.words.remove(&word);
            }
        }
    }

    /// The running task accesses bytes.
    pub(super) fn access(&mut self, tasks: &mut Tasks, at: usize, n: usize, kind: AccessKind, site: InstSite) {
        let Some(task) = tasks.current() else { return };
        for word in words_of(at, n) {
            let bytes = bytes_of(word, at, n);
            let mut new = bytes;
            let recorded = self.words.entry(word).or_default();
            recorded.retain(|old| {
                let common = old.bytes & bytes;
                if common == 0 || !(old.kind == kind || old.kind.conflicts(kind)) {
                    return true;
                }
                match tasks.concurrent(old.task) {
                    Some(fork) if old.kind.conflicts(kind) => {
                        let accesses = [(old.site, old.kind), (site, kind)];
                        self.found.get_or_insert(RacePair { fork, accesses });
                    }
                    Some(_) => new &= !common,
                    None if old.kind == kind => old.bytes &= !common,
                    None => {}
                }
                old.bytes != 0
            });
            if new != 0 {
                recorded.push(TaskAccess { bytes: new, kind, task, site });
            }
        }
    }

    /// The first race, if there is one.
    pub(super) fn found(&mut self, program: &Program) -> Option<Box<Race>> {
        self.found.take().map(|found| Box::new(found.race(program)))
    }
}

/// Words that have some of these bytes.
fn words_of(at: usize, n: usize) -> std::ops::Range<usize> {
    if n == 0 { 0..0 } else { at / 8..(at + n - 1) / 8 + 1 }
}

/// Which bytes of a word are among these.
fn bytes_of(word: usize, at: usize, n: usize) -> u8 {
    let is_in = |i: &usize| (at..at + n).contains(&(8 * word + i));
    (0..8).filter(is_in).fold(0, |bits, i| bits | 1 << i)
}

/// What an instruction does whose access is told without.
pub(super) fn kind_at(program: &Program, site: InstSite, writes: bool) -> AccessKind {
    use Opcode::{AtomicCas, AtomicLoad, AtomicRmw, AtomicStore};
    let body = program.funcs[site.func].body.as_ref();
    let opcode = body.map(|b| b.dfg.insts[site.inst].opcode());
    AccessKind { writes, atomic: matches!(opcode, Some(AtomicCas | AtomicLoad | AtomicRmw | AtomicStore)) }
}

impl RacePair {
    fn race(self, program: &Program) -> Race {
        let [(first, before), (second, after)] = self.accesses;
        let driver = &program.funcs[self.fork].symbol;
        let verb = |kind: AccessKind| if kind.writes { "writes" } else { "reads" };
        let (verb, other) = (verb(after), verb(before));
        let openmp = driver.starts_with("omp_parallel");
        let looped = openmp || driver.starts_with("brolga_par_for");
        let adds = looped && [first, second].iter().all(|&site| adds_up(program, site));
        let what = match (adds, openmp) {
            (true, true) => "threads of a region add into one place",
            (true, false) => "iterations of a parallel loop add into one place",
            _ => "two tasks race",
        };
        let help = match (adds, openmp) {
            (true, true) => {
                "name the variable, or the section of the array, in a `reduction` clause: `reduction(+ : x)`"
            }
            (true, false) => "return what an iteration adds, and let %brolga_par_reduce_f64 add it up",
            (false, true) => {
                "let each thread write memory of its own: variables of a thread are `private`, and what threads put \
                 together is named in a `reduction` clause"
            }
            (false, false) => "let each task write memory of its own, or one task do both",
        };
        let diagnostic = Diagnostic::new("AD0194", format!("{what}: this one {verb} what another one {other}"))
            .at(program, second.func, second.inst)
            .note(format!("the other one: {}", place(program, first)))
            .note(format!("the tasks are those of {}", described(driver, |f| program.func(f).is_some())))
            .help(help);
        Race { first, second, diagnostic }
    }
}

/// An instruction in words: function, block, instruction, line, text.
fn place(program: &Program, site: InstSite) -> String {
    let Origin { func, inst, .. } = program.origin(site.func, site.inst);
    let text = program.funcs[func].body.as_ref().map(|b| b.dfg.display_inst(inst).to_string());
    format!("{}: {}", program.place(func, inst), text.unwrap_or_default())
}

/// Whether an instruction stores a sum of what was at the same address, and of something else.
fn adds_up(program: &Program, site: InstSite) -> bool {
    use ir::InstructionData::{Load, Store};
    let Some(body) = &program.funcs[site.func].body else { return false };
    let dfg = &body.dfg;
    let resolved = |v| dfg.resolve_aliases(v);
    let Store { args: [stored, to], offset, .. } = dfg.insts[site.inst] else { return is_summed(program, site) };
    let (mut seen, mut todo) = (vec![resolved(stored)], vec![resolved(stored)]);
    let mut sums = false;
    while let Some(v) = todo.pop() {
        let from: Vec<ir::Value> = match dfg.value_def(v) {
            ir::ValueDef::Result(inst, _) => match dfg.insts[inst] {
                Load { arg, offset: at, .. } if resolved(arg) == resolved(to) && at == offset && sums => return true,
                _ if matches!(dfg.insts[inst].opcode(), Opcode::Fadd | Opcode::Fsub | Opcode::Fma) => {
                    sums = true;
                    dfg.inst_args(inst).to_vec()
                }
                _ => Vec::new(),
            },
            ir::ValueDef::Param(block, i) => passed(body, block, i),
            ir::ValueDef::Union(..) => Vec::new(),
        };
        let new: Vec<_> = from.into_iter().map(resolved).filter(|v| !seen.contains(v)).collect();
        seen.extend(&new);
        todo.extend(new);
    }
    false
}

/// Whether an instruction loads what a store of the same function adds to.
fn is_summed(program: &Program, site: InstSite) -> bool {
    let Some(body) = &program.funcs[site.func].body else { return false };
    let ir::InstructionData::Load { arg, offset, .. } = body.dfg.insts[site.inst] else { return false };
    let resolved = |v| body.dfg.resolve_aliases(v);
    let is_same = |inst: ir::Inst| {
        matches!(body.dfg.insts[inst], ir::InstructionData::Store { args: [_, to], offset: at, .. }
            if resolved(to) == resolved(arg) && at == offset)
    };
    let mut insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    insts.any(|inst| is_same(inst) && adds_up(program, InstSite { inst, ..site }))
}

/// What is passed for a parameter of a block.
fn passed(body: &ir::Function, block: ir::Block, i: usize) -> Vec<ir::Value> {
    let dfg = &body.dfg;
    let mut found = Vec::new();
    for inst in body.layout.blocks().filter_map(|b| body.layout.last_inst(b)) {
        for edge in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            if edge.block(&dfg.value_lists) == block
                && let Some(BlockArg::Value(v)) = edge.args(&dfg.value_lists).nth(i)
            {
                found.push(v);
            }
        }
    }
    found
}
