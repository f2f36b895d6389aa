//! Lane widths of integers that carry float bits: from where they become or were floats, along moves, both ways; across calls
//! as far as the callees say what becomes of their parameters and where their results come from.

use brolga_ir::inst::Shape;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::SecondaryMap;

use super::ActivityInput;
use crate::callee::CalleeKind;
use crate::cell::{access_offset, cell_of};
use crate::contents::{Kinds, moves_half};
use crate::modes::{ParamMode, ResultMode};
use crate::pointers::access_address;

/// Lane widths of the integers of a function; zero where none is known.
pub fn lanes(i: &ActivityInput<'_>) -> SecondaryMap<ir::Value, u32> {
    let mut lane: SecondaryMap<ir::Value, u32> = SecondaryMap::new();
    let (func, cfg) = (i.func, i.cfg);
    let ty = |v: ir::Value| func.dfg.value_type(v);
    let is_float = |v: ir::Value| Shape::of_float(ty(v)).is_some();
    let mut pairs: Vec<(ir::Value, ir::Value)> = Vec::new();
    let mut halves: Vec<(ir::Value, ir::Value)> = Vec::new();
    for (n, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
        if let ParamMode::Bits(s) = i.params[n] {
            lane[v] = s.lane_bytes();
        }
    }
    for &b in &cfg.blocks {
        for &s in &cfg.succs[b] {
            pairs.extend(cfg.args(b, s).iter().copied().zip(func.dfg.block_params(s).iter().copied()));
        }
        for &inst in cfg.insts(b) {
            let args = func.dfg.inst_args(inst);
            let results = func.dfg.inst_results(inst);
            match func.dfg.insts[inst].opcode() {
                Opcode::Bitcast => {
                    let (x, r) = (args[0], results[0]);
                    for (f, n) in [(x, r), (r, x)] {
                        if let Some(s) = Shape::of_float(ty(f))
                            && !is_float(n)
                        {
                            lane[n] = s.lane_bytes();
                        }
                    }
                    pairs.push((x, r));
                }
                Opcode::Select | Opcode::SelectSpectreGuard | Opcode::Bitselect | Opcode::Blendv => {
                    pairs.extend(args[1..].iter().map(|&a| (a, results[0])));
                }
                Opcode::Band
                | Opcode::Bor
                | Opcode::Bxor
                | Opcode::Bnot
                | Opcode::Shuffle
                | Opcode::Swizzle
                | Opcode::Splat
                | Opcode::Insertlane
                | Opcode::Extractlane
                | Opcode::ScalarToVector
                | Opcode::Isplit
                | Opcode::Iconcat
                | Opcode::X86Pshufb => {
                    pairs.extend(args.iter().flat_map(|&a| results.iter().map(move |&r| (a, r))));
                }
                Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr if moves_half(func, inst) => {
                    halves.push((args[0], results[0]));
                }
                Opcode::Load | Opcode::Store | Opcode::AtomicLoad | Opcode::AtomicStore => {
                    let addr = access_address(func, inst).expect("an access has an address");
                    let v = results.first().copied().unwrap_or(args[0]);
                    if !is_float(v) && i.pointers.root(v).is_none() {
                        let cell = cell_of(func, addr, access_offset(func, inst));
                        let over = i.contents.float_overlaps(cell, ty(v).bytes());
                        let k = if over == Kinds::NONE { i.kinds_at(inst, addr) } else { over };
                        if let Some(s) = k.shape(ty(v).bytes())
                            && lane[v] == 0
                        {
                            lane[v] = s.lane_bytes();
                        }
                    }
                }
                Opcode::Call => {
                    let Some(CalleeKind::Derived(f)) = CalleeKind::of(i.program, func, inst) else { continue };
                    let mut learn = |v: ir::Value, bytes: u32| {
                        if lane[v] == 0 && !is_float(v) && !i.pointers.address.contains(v) && ty(v).bytes() >= bytes {
                            lane[v] = bytes;
                        }
                    };
                    args.iter().enumerate().for_each(|(n, &v)| learn(v, i.summaries.param_lane(f, n)));
                    results.iter().enumerate().for_each(|(n, &v)| learn(v, i.summaries.result_lane(f, n)));
                }
                Opcode::Return => {
                    for (n, &v) in args.iter().enumerate() {
                        if let ResultMode::Bits(s) = i.results[n] {
                            lane[v] = s.lane_bytes();
                        }
                    }
                }
                _ => {}
            }
        }
    }
    pairs.retain(|&(x, y)| !is_float(x) && !is_float(y));
    let mut changed = true;
    while changed {
        changed = false;
        let both = pairs.iter().map(|&p| (p, false)).chain(halves.iter().map(|&p| (p, true)));
        for ((x, y), half) in both {
            // A half of a word can be one single, never part of a double.
            if half && lane[x].max(lane[y]) > 4 {
                continue;
            }
            let (lx, ly) = (lane[x], lane[y]);
            if lx == 0 && ly != 0 && ty(x).bytes() >= ly {
                lane[x] = ly;
                changed = true;
            } else if ly == 0 && lx != 0 && ty(y).bytes() >= lx {
                lane[y] = lx;
                changed = true;
            }
        }
    }
    lane
}
