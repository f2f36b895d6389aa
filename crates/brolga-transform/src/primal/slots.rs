//! Scalar promotion of stack slots, for what frontends compile without optimisation.
//!
//! **Problem.** Frontends keep variables that change in stack slots: a sum that a loop adds up, a
//! flag, what a branch decides. A slot is memory: its shadow is stored to, loaded from and cleared
//! in each iteration, and what is read from it has to be recorded where it is overwritten.
//!
//! **Answer.** SSA form. A *cell* is the bytes of a slot that are always stored and loaded whole,
//! by accesses of one type. A load becomes the value that was stored, or a parameter where paths
//! meet on which different values were. Stores go. What no path has stored is zero: it could have
//! been anything.
//!
//! ```text
//! store 0, ss0; jump block1(i)               jump block1(i, 0)
//! block1(i): y = load ss0                    block1(i, y):
//! z = fadd y, x; store z, ss0           ─►   z = fadd y, x
//! brif …, block1(i'), block2                 brif …, block1(i', z), block2
//! ```
//!
//! **Where.** On bodies as an embedder's frontend leaves them. What has been optimised has no such
//! slots.
//!
//! **Which.** Slots whose address goes nowhere but to loads and stores, and whose accesses are the
//! same bytes and type, or apart. Any other access of a slot keeps all of it in memory.
//!
//! **Invariant.** Parameters are made where a cell is read later, and paths meet. Some get one
//! value along all of them: what runs next takes those away.
//!
//! **Cost.** Two walks over the accesses, rounds over the blocks, backwards, for the cells that are
//! live, and one walk that replaces loads.
//!
//! **Source.** The `mem2reg` pass of LLVM.

use std::collections::BTreeMap;

use brolga_analysis::Cfg;
use brolga_analysis::query::{access_address, access_bytes, access_offset};
use brolga_clif::simplify_cfg::resolve_aliases;
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Type, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::primal::edit::BlockArgs;
use crate::primal::normalise::lay_out;

/// The first byte of a cell.
type SlotBytes = (ir::StackSlot, i64);

/// Give loads of cells what was stored there. All blocks of the function are reached.
pub fn promote_slots(func: &mut ir::Function) {
    if func.sized_stack_slots.is_empty() {
        return;
    }
    // An address may have other names.
    resolve_aliases(func);
    let cells = Cells::of(func);
    if cells.ty.is_empty() {
        return;
    }
    lay_out(func);
    let cfg = Cfg::compute(func);
    let live = cells.live(func, &cfg);
    Promotion { cells: &cells, cfg: &cfg, live, leaving: SecondaryMap::new(), args: BlockArgs::default(), func }.all();
    resolve_aliases(func);
}

/// The cells of a function, and the accesses of each.
#[derive(Default)]
struct Cells {
    ty: BTreeMap<SlotBytes, Type>,
    accesses: HashMap<ir::Inst, SlotBytes>,
}

impl Cells {
    fn of(func: &ir::Function) -> Self {
        let mut addresses: HashMap<ir::Value, SlotBytes> = HashMap::default();
        let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        for inst in insts() {
            if let InstructionData::StackAddr { stack_slot, offset, .. } = func.dfg.insts[inst] {
                addresses.insert(func.dfg.first_result(inst), (stack_slot, i64::from(i32::from(offset))));
            }
        }
        let mut cells = Self::default();
        let mut unpromoted: EntitySet<ir::StackSlot> = EntitySet::new();
        for inst in insts() {
            let access = access(func, inst).and_then(|ty| {
                let (slot, at) = *addresses.get(&access_address(func, inst)?)?;
                Some((slot, at + i64::from(access_offset(func, inst)), ty))
            });
            if let Some((slot, at, ty)) = access {
                cells.accesses.insert(inst, (slot, at));
                if *cells.ty.entry((slot, at)).or_insert(ty) != ty {
                    unpromoted.insert(slot);
                }
                let end = at + i64::from(access_bytes(func, inst));
                if at < 0 || end > i64::from(func.sized_stack_slots[slot].size) {
                    unpromoted.insert(slot);
                }
            }
            // A collector finds its pointers there.
            unpromoted.extend(func.dfg.user_stack_map_entries(inst).into_iter().flatten().map(|e| e.slot));
            // Of a store the value is an operand, too.
            let address = access.and_then(|_| access_address(func, inst));
            let others = func.dfg.inst_values(inst).filter(|v| Some(*v) != address);
            unpromoted.extend(others.filter_map(|v| addresses.get(&v)).map(|p| p.0));
            if is_stored(func, inst).is_some_and(|v| Some(v) == address) {
                unpromoted.extend(address.and_then(|v| addresses.get(&v)).map(|p| p.0));
            }
        }
        // Cells lie in their order.
        for ((&(slot, at), ty), (&(next, from), _)) in cells.ty.iter().zip(cells.ty.iter().skip(1)) {
            if slot == next && at + i64::from(ty.bytes()) > from {
                unpromoted.insert(slot);
            }
        }
        cells.ty.retain(|p, _| !unpromoted.contains(p.0));
        cells.accesses.retain(|_, p| !unpromoted.contains(p.0));
        cells
    }

    /// The cells that are read, where a block begins, before they are written.
    fn live(&self, func: &ir::Function, cfg: &Cfg) -> SecondaryMap<ir::Block, Vec<SlotBytes>> {
        let mut live: SecondaryMap<ir::Block, Vec<SlotBytes>> = SecondaryMap::new();
        let mut grows = true;
        while std::mem::take(&mut grows) {
            for &b in cfg.blocks.iter().rev() {
                let mut now: Vec<SlotBytes> = cfg.succs[b].iter().flat_map(|&s| live[s].iter().copied()).collect();
                for inst in func.layout.block_insts(b).rev() {
                    match self.accesses.get(&inst) {
                        Some(p) if is_stored(func, inst).is_some() => now.retain(|q| q != p),
                        Some(p) => now.push(*p),
                        None => {}
                    }
                }
                now.sort_unstable();
                now.dedup();
                if now != live[b] {
                    live[b] = now;
                    grows = true;
                }
            }
        }
        live
    }
}

/// The type of what a plain load or store moves.
fn access(func: &ir::Function, inst: ir::Inst) -> Option<Type> {
    let (flags, v) = match func.dfg.insts[inst] {
        InstructionData::Load { opcode: Opcode::Load, flags, .. } => (flags, func.dfg.first_result(inst)),
        InstructionData::Store { opcode: Opcode::Store, flags, args, .. } => (flags, args[0]),
        _ => return None,
    };
    // Another order of bytes is another number.
    func.dfg.mem_flags[flags].explicit_endianness().is_none().then(|| func.dfg.value_type(v))
}

fn is_stored(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    match func.dfg.insts[inst] {
        InstructionData::Store { opcode: Opcode::Store, args, .. } => Some(args[0]),
        _ => None,
    }
}

struct Promotion<'a> {
    cells: &'a Cells,
    cfg: &'a Cfg,
    live: SecondaryMap<ir::Block, Vec<SlotBytes>>,
    /// What cells hold where a block ends.
    leaving: SecondaryMap<ir::Block, BTreeMap<SlotBytes, ir::Value>>,
    args: BlockArgs,
    func: &'a mut ir::Function,
}

impl Promotion<'_> {
    fn all(mut self) {
        let mut params: Vec<(ir::Block, SlotBytes, usize)> = Vec::new();
        let mut done: EntitySet<ir::Block> = EntitySet::new();
        for &b in &self.cfg.blocks {
            let mut state = self.entering(b, &done, &mut params);
            self.block(b, &mut state);
            self.leaving[b] = state;
            done.insert(b);
        }
        for (b, place, n) in params {
            let mut preds = self.cfg.preds[b].to_vec();
            preds.dedup();
            for p in preds {
                self.args.push((p, b), n, self.leaving[p][&place]);
            }
        }
        self.args.write(self.func);
        // Their addresses are not asked for any more.
        let func = self.func;
        let mut slots: EntitySet<ir::StackSlot> = EntitySet::new();
        slots.extend(self.cells.ty.keys().map(|p| p.0));
        let is_address = |inst: &ir::Inst| match func.dfg.insts[*inst] {
            InstructionData::StackAddr { stack_slot, .. } => slots.contains(stack_slot),
            _ => false,
        };
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        for inst in insts.filter(is_address).collect::<Vec<_>>() {
            func.layout.remove_inst(inst);
        }
    }

    fn entering(
        &mut self,
        b: ir::Block,
        done: &EntitySet<ir::Block>,
        params: &mut Vec<(ir::Block, SlotBytes, usize)>,
    ) -> BTreeMap<SlotBytes, ir::Value> {
        let live = std::mem::take(&mut self.live[b]);
        let one = match self.cfg.preds[b][..] {
            [p] if done.contains(p) => Some(p),
            _ => None,
        };
        let mut state = BTreeMap::new();
        for place in live {
            let ty = self.cells.ty[&place];
            let v = match one {
                Some(p) => self.leaving[p][&place],
                // The entry: nothing has been stored.
                None if self.cfg.preds[b].is_empty() => self.zero(b, ty),
                None => {
                    let (v, n) = BlockArgs::param(self.func, b, ty);
                    params.push((b, place, n));
                    v
                }
            };
            state.insert(place, v);
        }
        state
    }

    fn zero(&mut self, b: ir::Block, ty: Type) -> ir::Value {
        let mut pos = FuncCursor::new(self.func).at_first_insertion_point(b);
        match ty {
            types::F32 => pos.ins().f32const(0.0),
            types::F64 => pos.ins().f64const(0.0),
            types::I128 => {
                let zero = pos.ins().iconst(types::I64, 0);
                pos.ins().uextend(types::I128, zero)
            }
            _ if ty.is_int() => pos.ins().iconst(ty, 0),
            _ => {
                let zero = pos.func.dfg.constants.insert(vec![0; ty.bytes() as usize].into());
                pos.ins().vconst(ty, zero)
            }
        }
    }

    fn block(&mut self, b: ir::Block, state: &mut BTreeMap<SlotBytes, ir::Value>) {
        for inst in self.func.layout.block_insts(b).collect::<Vec<_>>() {
            let Some(&place) = self.cells.accesses.get(&inst) else { continue };
            match is_stored(self.func, inst) {
                Some(v) => {
                    state.insert(place, v);
                }
                None => {
                    let old = self.func.dfg.first_result(inst);
                    self.func.dfg.clear_results(inst);
                    self.func.dfg.change_to_alias(old, state[&place]);
                }
            }
            self.func.layout.remove_inst(inst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promote(text: &str) -> String {
        let mut func = cranelift_reader::parse_functions(text).unwrap().remove(0);
        promote_slots(&mut func);
        let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
        cranelift_codegen::verify_function(&func, &flags).unwrap();
        func.to_string()
    }

    /// A sum, with something else done in each iteration.
    fn sum(else_: &str) -> String {
        promote(&format!(
            "function %f(i64, i64) -> f64 {{
                ss0 = explicit_slot 16
            block0(v0: i64, v1: i64):
                v2 = stack_addr.i64 ss0
                v3 = f64const 0.0
                store v3, v2
                jump block1(v1)
            block1(v4: i64):
                v5 = load.f64 v0
                v6 = stack_addr.i64 ss0
                v7 = load.f64 v6
                v8 = fadd v7, v5
                v9 = stack_addr.i64 ss0
                store v8, v9
                {else_}
                v10 = iconst.i64 1
                v11 = isub v4, v10
                brif v11, block1(v11), block2
            block2:
                v12 = stack_addr.i64 ss0
                v13 = load.f64 v12
                return v13
            }}"
        ))
    }

    #[test]
    fn a_sum_is_a_parameter_of_its_loop() {
        let text = sum("");
        assert!(!text.contains("store") && !text.contains("stack_addr"), "{text}");
        assert!(text.contains("brif v11, block1(v11, v8), block2"), "{text}");
        // The first iteration gets what was stored, and what is returned is the last sum.
        assert!(text.contains("jump block1(v1, v3)") && text.contains("return v8"), "{text}");
    }

    #[test]
    fn what_else_is_done_with_a_slot_keeps_it() {
        for else_ in [
            // Its address is stored, computed with, given as an argument to a block; other bytes.
            "store v9, v0",
            "v20 -> v9\n store v20, v0",
            "v20 = iadd v9, v1\n store v5, v20",
            "v20 = load.f32 v9",
            "v20 = load.f64 v9+4",
            "v20 = load.f64 v9+12",
            "store v9, v9+8",
            "v20 = load.f64 big v9",
        ] {
            let text = sum(else_);
            assert_eq!(text.matches("load.f64").count(), 3 + else_.matches("load.f64").count(), "{text}");
        }
        // Another cell of the slot.
        assert!(!sum("store v5, v9+8").contains("store"));
    }

    #[test]
    fn paths_meet_in_a_parameter() {
        let text = promote(
            "function %f(i64, i32) -> i32 {
                ss0 = explicit_slot 4
            block0(v0: i64, v1: i32):
                v2 = stack_addr.i64 ss0
                brif v0, block1, block2
            block1:
                store v1, v2
                jump block2
            block2:
                v3 = load.i32 v2
                return v3
            }",
        );
        // What has not been stored is zero.
        assert!(text.contains("iconst.i32 0") && text.contains("jump block2(v1)"), "{text}");
    }
}
